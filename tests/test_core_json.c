#include "core/json.h"
#include "test.h"
#include <stdlib.h>

static mal_arena a;
static mal_error e;
static mal_json j;

static int tear_down(void **state) {
  (void)state;
  mal_json_free(&j);
  mal_arena_free(&a);
  return 0;
}

static mal_status parse(const char *text) {
  mal_json_free(&j);
  return mal_json_parse(&a, "c.json", text, strlen(text), &j, &e);
}

static void test_parse(void **state) {
  (void)state;
  assert_ok(parse("{\"n\": 7}"), e);
  assert_int_equal(json_integer_value(json_object_get(j.root, "n")), 7);
  assert_ok(parse("\xef\xbb\xbf[1]"), e); /* a byte order mark is let through */
  mal_json_free(&j);
  assert_ok(mal_json_read(&a, MALHA_TEST_DATA "/core/good.json", &j, &e), e);
}

static void test_refused(void **state) {
  (void)state;
  assert_fails(MAL_BAD, parse(""), e, "c.json: is empty");
  assert_fails(MAL_BAD, parse(" \n\t"), e, "c.json: is empty");
  assert_fails(MAL_BAD, parse("{\n\"a\": 1\n"), e, "c.json:3", "too early");
  assert_fails(MAL_BAD, parse("{\n\"a\": 1,\n\"a\": 2}"), e, "c.json:3", "twice", "a");
  assert_fails(MAL_BAD, parse("{\n\n\"a\": nope}"), e, "c.json:3", "not valid JSON", "nope");
  assert_fails(MAL_BAD, parse("[1] x"), e, "c.json:1", "not valid JSON");
  assert_fails(MAL_BAD, parse("7"), e, "not valid JSON");
  assert_fails(MAL_BAD, parse("[\n\"a\xff\"]"), e, "c.json:2", "byte 4", "UTF-8");
  assert_fails(MAL_BAD, parse("[NaN]"), e, "not valid JSON");
  assert_fails(MAL_BAD, parse("[1e999]"), e, "c.json:1");
  assert_fails(MAL_BAD, parse("[99999999999999999999]"), e, "c.json:1", "too big");
  assert_fails(MAL_BAD, parse("{\"layers\": 99999999999999999999}"), e, "c.json:1", "'layers' is too big");
  assert_fails(MAL_BAD, parse("[\"\\u0000\"]"), e, "c.json:1", "the character \\u0000");
  assert_fails(MAL_BAD, parse("[\"\\ud800\"]"), e, "c.json:1");
  assert_fails(MAL_BAD, mal_json_parse(&a, "c.json", "[1]\0[2]", 7, &j, &e), e, "c.json:1");
  assert_null(j.root);
  assert_fails(MAL_BAD, mal_json_read(&a, "/nonexistent.json", &j, &e), e, "/nonexistent.json: there is no such file");
  assert_fails(MAL_BAD, mal_json_parse(&a, "c.json", "", (size_t)MAL_JSON_LIMIT_BYTES + 1, &j, &e), e,
               "larger than 64 MiB");
}

static void test_deep(void **state) {
  (void)state;
  size_t n = 1 << 20;
  char *text = mal_alloc(&a, n + 1);
  memset(text, '[', n);
  assert_fails(MAL_BAD, mal_json_parse(&a, "c.json", text, n, &j, &e), e, "nested more than 2048 deep");
  for (size_t i = 0; i + 5 <= n; i += 5) memcpy(text + i, "{\"a\":", 5);
  assert_fails(MAL_BAD, mal_json_parse(&a, "c.json", text, n, &j, &e), e, "nested more than 2048 deep");
}

static const char nested[] = "{\n"                                       /* 1 */
                             "  \"hidden_size\": \"wide\",\n"            /* 2 */
                             "  \"text\": \"\\\"hidden_size\\\": 1\",\n" /* 3 */
                             "  \"list\": [\n"                           /* 4 */
                             "    {\"x\": [1, {\"y\": 2}]},\n"           /* 5 */
                             "    {\n"                                   /* 6 */
                             "      \"hidden_size\": -5,\n"              /* 7 */
                             "      \"big\": 9007199254740993,\n"        /* 8 */
                             "      \"whole\": 1e4,\n"                   /* 9 */
                             "      \"rope\": 0.5, \"far\": 1e30,\n"     /* 10 */
                             "      \"on\": true,\n"                     /* 11 */
                             "      \"none\": null\n"                    /* 12 */
                             "    }\n  ]\n}\n";

static void test_values(void **state) {
  (void)state;
  int64_t n = 0;
  double x = 0;
  bool b = false, found = true;
  const char *text = NULL;
  assert_ok(parse(nested), e);
  json_t *inner = json_array_get(json_object_get(j.root, "list"), 1);
  assert_ok(mal_json_int(&j, inner, "hidden_size", -10, 10, &n, NULL, &e), e);
  assert_int_equal(n, -5);
  assert_ok(mal_json_int(&j, inner, "big", INT64_MIN, INT64_MAX, &n, &found, &e), e);
  assert_true(found && n == INT64_C(9007199254740993));
  assert_ok(mal_json_int(&j, inner, "whole", 0, 1000000, &n, NULL, &e), e); /* 1e4 is whole */
  assert_int_equal(n, 10000);
  assert_ok(mal_json_real(&j, inner, "rope", 0, 1, &x, NULL, &e), e);
  assert_true(x == 0.5);
  assert_ok(mal_json_real(&j, inner, "hidden_size", -9, 9, &x, NULL, &e), e);
  assert_true(x == -5);
  assert_ok(mal_json_bool(&j, inner, "on", &b, NULL, &e), e);
  assert_true(b);
  assert_ok(mal_json_text(&j, j.root, &a, "hidden_size", &text, NULL, &e), e);
  assert_string_equal(text, "wide");
  n = 42;
  assert_ok(mal_json_int(&j, inner, "none", 0, 9, &n, &found, &e), e); /* null counts as absent */
  assert_true(!found && n == 42);
  assert_ok(mal_json_int(&j, inner, "absent", 0, 9, &n, &found, &e), e);
  assert_false(found);
}

/* The line is that of the key in the right object, not of the first key or text that looks the same. */
static void test_values_refused(void **state) {
  (void)state;
  int64_t n = 42;
  double x;
  bool b, found;
  const char *text;
  assert_ok(parse(nested), e);
  json_t *inner = json_array_get(json_object_get(j.root, "list"), 1);
  json_t *deep = json_array_get(json_object_get(json_array_get(json_object_get(j.root, "list"), 0), "x"), 1);
  assert_fails(MAL_BAD, mal_json_int(&j, inner, "hidden_size", 1, 9, &n, NULL, &e), e,
               "c.json:7: ", "-5, outside 1 to 9");
  assert_fails(MAL_BAD, mal_json_int(&j, j.root, "hidden_size", 1, 9, &n, &found, &e), e,
               "c.json:2: ", "a whole number", "a text");
  assert_fails(MAL_BAD, mal_json_int(&j, inner, "rope", 0, 9, &n, NULL, &e), e, "c.json:10: ", "whole number",
               "fraction");
  assert_fails(MAL_BAD, mal_json_int(&j, inner, "far", 0, 9, &n, NULL, &e), e, "c.json:10: ", "past 2^53");
  assert_fails(MAL_BAD, mal_json_int(&j, inner, "on", 0, 9, &n, NULL, &e), e, "c.json:11: ", "true or false");
  assert_fails(MAL_BAD, mal_json_int(&j, inner, "none", 0, 9, &n, NULL, &e), e, "c.json:12: ", "'none' is missing");
  assert_fails(MAL_BAD, mal_json_int(&j, deep, "z", 0, 9, &n, NULL, &e), e, "c.json:5: ", "'z' is missing");
  assert_fails(MAL_BAD, mal_json_text(&j, deep, &a, "y", &text, NULL, &e), e, "c.json:5: ", "a text", "a whole number");
  assert_fails(MAL_BAD, mal_json_real(&j, inner, "rope", 1, 2, &x, NULL, &e), e, "c.json:10: ", "0.5, outside 1 to 2");
  assert_fails(MAL_BAD, mal_json_real(&j, j.root, "list", 1, 2, &x, NULL, &e), e, "c.json:4: ", "a list");
  assert_fails(MAL_BAD, mal_json_bool(&j, inner, "big", &b, NULL, &e), e, "c.json:8: ", "true or false");
  assert_fails(MAL_BAD, mal_json_int(&j, json_object_get(j.root, "list"), "k", 0, 9, &n, NULL, &e), e,
               "c.json:4: ", "an object");
  assert_fails(MAL_BAD, mal_json_int(&j, NULL, "k", 0, 9, &n, NULL, &e), e, "c.json:1: ", "'k' is missing");
  assert_int_equal(n, 42);
  assert_string_equal(mal_json_where(&j, &a, "hidden_size"), "c.json:2: ");
  assert_string_equal(mal_json_where(&j, &a, "rope"), "c.json:10: ");
  assert_string_equal(mal_json_where(&j, &a, "absent"), "c.json:1: ");
}

static void test_dump(void **state) {
  (void)state;
  static const char text[] = "{\n  \"b\": 0.1,\n  \"a\": [\n    1,\n    2.0,\n    1e+300,\n    -0.25\n  ],\n"
                             "  \"empty\": {},\n  \"none\": [],\n  \"s\": \"\\\"\\\\\\n\\t\\u001f\xc3\xa9\",\n"
                             "  \"t\": true,\n  \"f\": false,\n  \"z\": null\n}\n";
  assert_ok(parse(text), e);
  assert_string_equal(mal_json_dump(&a, j.root), text);
  srand(1);
  for (int i = 0; i < 2000; i++) { /* any double comes back as it was */
    uint64_t bits = ((uint64_t)rand() << 42) ^ ((uint64_t)rand() << 21) ^ (uint64_t)rand();
    double x;
    memcpy(&x, &bits, sizeof x);
    json_t *value = json_real(x);
    if (!value) continue; /* not finite */
    json_t *list = json_pack("[o]", value);
    assert_ok(parse(mal_json_dump(&a, list)), e);
    assert_true(json_is_real(json_array_get(j.root, 0)) && json_real_value(json_array_get(j.root, 0)) == x);
    json_decref(list);
  }
  assert_string_equal(mal_json_dump(&a, NULL), "\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parse),  cmocka_unit_test(test_refused),        cmocka_unit_test(test_deep),
      cmocka_unit_test(test_values), cmocka_unit_test(test_values_refused), cmocka_unit_test(test_dump),
  };
  return cmocka_run_group_tests(tests, NULL, tear_down);
}
