#include "core/catalog.h"
#include "test.h"
#include <stdlib.h>

static mal_arena a;
static mal_error e;
static char *path;

static int set_up(void **state) {
  (void)state;
  return setenv("MALHA_CATALOG", MALHA_TEST_DATA "/core/catalog", 1);
}

static int tear_down(void **state) {
  (void)state;
  mal_arena_free(&a);
  return 0;
}

static mal_status find(const char *name) { return mal_catalog_find(&a, "gpus", name, ".yaml", "GPU", &path, &e); }

static void test_find(void **state) {
  (void)state;
  static const char *const spellings[] = {"h100-sxm", "H100-SXM", "h100_sxm", "h100.SXM"};
  for (int i = 0; i < 4; i++) {
    assert_ok(find(spellings[i]), e);
    assert_string_equal(path, MALHA_TEST_DATA "/core/catalog/gpus/h100-sxm.yaml");
  }
}

static void test_not_found(void **state) {
  (void)state;
  assert_fails(MAL_BAD, find("h100-smx"), e, "no GPU 'h100-smx'", "Nearest: h100-sxm");
  assert_null(path);
  assert_fails(MAL_BAD, find("zzzzzzz"), e, "no GPU 'zzzzzzz'", "core/catalog/gpus");
  assert_fails(MAL_BAD, find(""), e, "no GPU ''");
  assert_fails(MAL_BAD, find("../gpus/h100-sxm"), e, "no GPU"); /* a name never leads out */
  assert_fails(MAL_BAD, find(".hidden"), e, "no GPU");
  assert_fails(MAL_BAD, mal_catalog_find(&a, "none", "x", ".yaml", "thing", &path, &e), e, "core/catalog/none",
               "MALHA_CATALOG");
}

static void test_list(void **state) {
  (void)state;
  char **names;
  size_t count;
  assert_ok(mal_catalog_list(&a, "gpus", ".yaml", &names, &count, &e), e);
  assert_int_equal(count, 2); /* neither other endings nor hidden files */
  assert_string_equal(names[0], "a100");
  assert_string_equal(names[1], "h100-sxm");
  assert_fails(MAL_BAD, mal_catalog_list(&a, "none", ".yaml", &names, &count, &e), e, "cannot be opened");
  assert_int_equal(count, 0);
}

static void test_root(void **state) {
  (void)state;
  assert_string_equal(mal_catalog_root(), MALHA_TEST_DATA "/core/catalog");
  setenv("MALHA_CATALOG", "", 1);
  assert_string_equal(mal_catalog_root(), MALHA_SOURCE "/catalog");
  setenv("MALHA_CATALOG", MALHA_TEST_DATA "/core/catalog", 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_find),
      cmocka_unit_test(test_not_found),
      cmocka_unit_test(test_list),
      cmocka_unit_test(test_root),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
