#include "core/csv.h"
#include "test.h"

static mal_arena a;
static mal_error e;
static mal_csv csv;

static int tear_down(void **state) {
  (void)state;
  mal_arena_free(&a);
  return 0;
}

static mal_status parse(const char *text) { return mal_csv_parse(&a, "t.csv", text, strlen(text), &csv, &e); }

static void test_parse(void **state) {
  (void)state;
  assert_ok(parse("id,name,note\r\n1,\"a \"\"b\"\", c\",\"two\nlines\"\r\n\r\n2,,\r\n3,short"), e);
  assert_int_equal(csv.columns, 3);
  assert_int_equal(csv.rows, 3);
  assert_int_equal(mal_csv_column(&csv, "note"), 2);
  assert_int_equal(mal_csv_column(&csv, "Note"), -1);
  assert_string_equal(mal_csv_cell(&csv, 0, 1), "a \"b\", c");
  assert_string_equal(mal_csv_cell(&csv, 0, 2), "two\nlines");
  assert_string_equal(mal_csv_cell(&csv, 1, 1), "");
  assert_string_equal(mal_csv_cell(&csv, 2, 1), "short");
  assert_string_equal(mal_csv_cell(&csv, 2, 2), ""); /* a short row is padded */
  assert_int_equal(csv.line[0], 2);
  assert_int_equal(csv.line[1], 5);
  assert_int_equal(csv.line[2], 6);
  assert_string_equal(mal_csv_cell(&csv, -1, 0), "");
  assert_string_equal(mal_csv_cell(&csv, 3, 0), "");
  assert_string_equal(mal_csv_cell(&csv, 0, -1), "");
  assert_string_equal(mal_csv_cell(&csv, 0, 3), "");
}

static void test_edges(void **state) {
  (void)state;
  assert_ok(parse("a"), e);
  assert_int_equal(csv.rows, 0);
  assert_ok(parse("\xef\xbb\xbf"
                  "a,b\n1,2\n"),
            e);
  assert_int_equal(mal_csv_column(&csv, "a"), 0);
  assert_ok(parse("a,b\n,\n"), e); /* a row of empty fields is a row */
  assert_int_equal(csv.rows, 1);
  assert_ok(parse("\n\na,b\n1,2"), e);
  assert_int_equal(csv.line[0], 4);
  assert_ok(parse("a,b\n1,"), e);
  assert_string_equal(mal_csv_cell(&csv, 0, 1), "");
  assert_ok(parse("a,b\n\"\",\"\"\"\"\n"), e);
  assert_string_equal(mal_csv_cell(&csv, 0, 0), "");
  assert_string_equal(mal_csv_cell(&csv, 0, 1), "\"");
  assert_ok(parse("a,b\n1,x\ry\n"), e); /* a lone carriage return is part of its field */
  assert_string_equal(mal_csv_cell(&csv, 0, 1), "x\ry");
  char *text = mal_alloc(&a, 60000);
  strcpy(text, "n\n");
  for (int i = 0; i < 10000; i++) strcat(text + 2 + 5L * i, "1234\n");
  assert_ok(parse(text), e);
  assert_int_equal(csv.rows, 10000);
  assert_int_equal(csv.line[9999], 10001);
}

static void test_refused(void **state) {
  (void)state;
  assert_fails(MAL_BAD, parse(""), e, "t.csv: is empty");
  assert_fails(MAL_BAD, parse("\n\r\n"), e, "t.csv: is empty");
  assert_fails(MAL_BAD, parse("a,b\n1,2\n\"x\ny"), e, "t.csv:3", "never closed");
  assert_fails(MAL_BAD, parse("a,b\n\"x\"y,2\n"), e, "t.csv:2", "after a closing quote");
  assert_fails(MAL_BAD, parse("a,b\nx\"y,2\n"), e, "t.csv:2", "not quoted");
  assert_fails(MAL_BAD, parse("a,b\n1,2\n1,2,3\n"), e, "t.csv:3", "3 fields, the header 2");
  assert_fails(MAL_BAD, parse("a,b,a\n"), e, "t.csv:1", "two columns are named 'a'");
  assert_fails(MAL_BAD, parse("a,b\n1,\xff\n"), e, "t.csv:2", "byte 6", "UTF-8");
  assert_fails(MAL_BAD, mal_csv_parse(&a, "t.csv", "a,b\n1,\0\n", 8, &csv, &e), e, "t.csv:2", "byte 6", "NUL");
  assert_int_equal(csv.rows, 0);
  assert_int_equal(mal_csv_column(&csv, "a"), -1);
  assert_fails(MAL_BAD, mal_csv_parse(&a, "t.csv", "", (size_t)MAL_CSV_LIMIT_BYTES + 1, &csv, &e), e, "256 MiB");
  assert_fails(MAL_BAD, mal_csv_read(&a, "/nonexistent.csv", &csv, &e), e, "no such file");
}

/* A small text must not become a large table. */
static void test_bombs(void **state) {
  (void)state;
  char *text = mal_alloc(&a, 100000);
  memset(text, ',', 5000);
  assert_fails(MAL_BAD, parse(text), e, "t.csv:1", "more than 4096 fields");
  memset(text, ',', 4095);
  for (int i = 0; i < 20000; i++) memcpy(text + 4095 + 2L * i, "\nx", 2);
  text[4095 + 40000] = '\0';
  assert_fails(MAL_BAD, parse(text), e, "4096 columns", "nearly none");
}

static void test_published_runs(void **state) {
  (void)state;
  need_shared("data/runs.csv");
  assert_ok(mal_csv_read(&a, MALHA_SHARED "/data/runs.csv", &csv, &e), e);
  assert_true(csv.rows > 100 && mal_csv_column(&csv, "gpu") > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parse), cmocka_unit_test(test_edges),          cmocka_unit_test(test_refused),
      cmocka_unit_test(test_bombs), cmocka_unit_test(test_published_runs),
  };
  return cmocka_run_group_tests(tests, NULL, tear_down);
}
