/* The words in Portuguese; runs in the build folder, where the catalogue lies when msgfmt was there to make it. */
#include "core/file.h"
#include "core/suggest.h"
#include "core/units.h"
#include "test.h"
#include <stdlib.h>

static void test_portuguese(void **state) {
  (void)state;
  if (!mal_is_file("locale/pt/LC_MESSAGES/malha.mo")) {
    print_message("skipped: built without msgfmt\n");
    skip();
  }
  mal_error e;
  int64_t n;
  double x;
  char near[64];
  setenv("LC_ALL", "C.UTF-8", 1);
  setenv("LANGUAGE", "pt_BR", 1); /* which falls back to pt */
  setenv("MALHA_LOCALES", "locale", 1);
  mal_text_init();
  assert_fails(MAL_BAD, mal_parse_count("-5", "--tokens", &n, &e), e, "--tokens: '-5' é negativo");
  mal_suggest("x1", (const char *const[]){"x2", "x3"}, 2, near, sizeof near);
  assert_string_equal(near, "x2 ou x3");
  assert_string_equal(mal_text("no such words"), "no such words"); /* not translated: English */
  assert_string_equal(P_("%lld GPU", "%lld GPUs", 1), "%lld GPU");
  assert_string_equal(P_("%s node of %s", "%s nodes of %s", 2), "%s nós de %s");
  assert_ok(mal_parse_number("0.5", "x", &x, &e), e); /* the decimal point stays */
  assert_true(x == 0.5);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_portuguese)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
