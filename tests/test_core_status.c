#include "core/dtype.h"
#include "core/suggest.h"
#include "test.h"

static void test_fail(void **state) {
  (void)state;
  mal_error e;
  assert_int_equal(mal_fail(&e, MAL_NO, "%s: %d", "x", 3), MAL_NO);
  assert_int_equal(e.status, MAL_NO);
  assert_string_equal(e.text, "x: 3");
  assert_int_equal(mal_fail(NULL, MAL_FAULT, "nobody listens"), MAL_FAULT);
  assert_int_equal(mal_fail_in(&e, "file.json:%d", 7), MAL_NO);
  assert_string_equal(e.text, "file.json:7: x: 3");
}

static void test_printable(void **state) {
  (void)state;
  mal_error e;
  mal_fail(&e, MAL_BAD, "%s", "a\xff\x1b[31m\n\x7f\xc2\x9b\xc3\xa9\xe2\x82");
  assert_string_equal(e.text, "a\\xff\\x1b[31m\\x0a\\x7f\\xc2\\x9b\xc3\xa9\\xe2\\x82");
}

static void test_long(void **state) {
  (void)state;
  mal_error e;
  char text[9000];
  for (size_t pad = 0; pad < 4; pad++) { /* a character of three bytes is never cut */
    memset(text, 'x', pad);
    for (size_t i = pad; i + 3 < sizeof text; i += 3) memcpy(text + i, "\xe2\x82\xac", 4);
    mal_fail(&e, MAL_BAD, "%s", text);
    size_t n = strlen(e.text);
    assert_true(n > 2000 && n < sizeof e.text);
    assert_string_equal(e.text + n - 3, "...");
    assert_int_equal((n - 3 - pad) % 3, 0);
    assert_null(strstr(e.text, "\\x"));
  }
  for (int i = 0; i < 50; i++) mal_fail_in(&e, "%s", text);
  assert_true(strlen(e.text) < sizeof e.text);
}

static void test_suggest(void **state) {
  (void)state;
  static const char *const names[] = {"h100-sxm", "h100-pcie", "a100-sxm-80gb", "b200", "h200"};
  char out[64];
  mal_suggest("H100_SXM", names, 5, out, sizeof out);
  assert_string_equal(out, "h100-sxm");
  mal_suggest("h100", names, 5, out, sizeof out);
  assert_string_equal(out, "h100-sxm, h100-pcie or h200");
  mal_suggest("h100-smx", names, 5, out, sizeof out); /* a swap of two letters is one step */
  assert_non_null(strstr(out, "h100-sxm"));
  mal_suggest("entirely-different", names, 5, out, sizeof out);
  assert_string_equal(out, "");
  mal_suggest("xm", names, 5, out, sizeof out); /* two letters are near where a part of a name begins with them */
  assert_string_equal(out, "");
  mal_suggest("sx", names, 5, out, sizeof out);
  assert_string_equal(out, "h100-sxm or a100-sxm-80gb");
  mal_suggest("", names, 5, out, sizeof out);
  assert_string_equal(out, "");
  mal_suggest("h100", names, 0, out, sizeof out);
  assert_string_equal(out, "");
  char small[12];
  mal_suggest("h100", names, 5, small, sizeof small); /* whole names only */
  assert_string_equal(small, "h100-sxm");
  char word[10000];
  memset(word, 'h', sizeof word - 1);
  word[sizeof word - 1] = '\0';
  mal_suggest(word, names, 5, out, sizeof out);
  assert_string_equal(out, "");
}

static void test_dtype(void **state) {
  (void)state;
  for (int i = 0; i < MAL_DTYPES; i++) assert_true(*mal_dtype_name[i] && mal_dtype_bytes[i] > 0);
  assert_true(mal_dtype_bytes[MAL_F4] == 0.5 && mal_dtype_bytes[MAL_TF32] == 4);
}

static void test_text(void **state) {
  (void)state;
  mal_text_init();
  assert_string_equal(mal_text(""), "");
  assert_string_equal(mal_text("no such words are in any catalogue"), "no such words are in any catalogue");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fail),    cmocka_unit_test(test_printable), cmocka_unit_test(test_long),
      cmocka_unit_test(test_suggest), cmocka_unit_test(test_dtype),     cmocka_unit_test(test_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
