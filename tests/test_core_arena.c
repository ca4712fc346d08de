#include "test.h"
#include <stdlib.h>

static jmp_buf escape;
static size_t refused;

static void on_out_of_memory(size_t bytes) {
  refused = bytes;
  longjmp(escape, 1);
}

static int all_zero(const void *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (((const unsigned char *)p)[i]) return 0;
  return 1;
}

static void test_alloc(void **state) {
  (void)state;
  mal_arena a;
  mal_arena_init(&a);
  for (size_t n = 0; n < 3000; n += 7) {
    void *p = mal_alloc(&a, n);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 16, 0);
    assert_true(all_zero(p, n));
    memset(p, 0xa5, n);
  }
  assert_true(a.used <= a.total);
  mal_arena_free(&a);
  assert_int_equal(a.used, 0);
  assert_int_equal(a.total, 0);
  assert_non_null(mal_alloc(&a, 10)); /* usable afterwards */
  mal_arena_free(&a);
  mal_arena_free(&a);
}

static void test_zero_initialised_arena(void **state) {
  (void)state;
  mal_arena a = {0};
  assert_string_equal(mal_copy(&a, "x"), "x");
  mal_arena_free(&a);
}

static void test_large(void **state) {
  (void)state;
  mal_arena a = {0};
  char *p = mal_alloc(&a, 64 << 20);
  p[(64 << 20) - 1] = 1;
  mal_arena_free(&a);
}

static void test_reset_keeps_the_largest(void **state) {
  (void)state;
  mal_arena a = {0};
  mal_alloc(&a, 100);
  memset(mal_alloc(&a, 1 << 20), 0xff, 1 << 20);
  mal_alloc(&a, 8 << 20);
  mal_arena_reset(&a);
  assert_int_equal(a.used, 0);
  size_t held = a.total;
  assert_true(held >= 8 << 20);
  assert_true(all_zero(mal_alloc(&a, 1 << 20), 1 << 20)); /* zeroed again */
  assert_int_equal(a.total, held);
  mal_arena_free(&a);
  mal_arena_reset(&a); /* an empty arena may be reset */
  assert_int_equal(a.total, 0);
}

static void test_grow(void **state) {
  (void)state;
  mal_arena a = {0};
  int *list = mal_grow(&a, NULL, 0, 4, sizeof *list);
  for (int i = 0; i < 4; i++) list[i] = i;
  int *same = mal_grow(&a, list, 4, 8, sizeof *list);
  assert_ptr_equal(same, list); /* the last thing taken grows in place */
  assert_true(all_zero(list + 4, 4 * sizeof *list));
  mal_alloc(&a, 1);
  int *moved = mal_grow(&a, list, 8, 16, sizeof *list);
  assert_ptr_not_equal(moved, list);
  for (int i = 0; i < 4; i++) assert_int_equal(moved[i], i);
  assert_true(all_zero(moved + 4, 12 * sizeof *list));
  assert_ptr_equal(mal_grow(&a, moved, 16, 3, sizeof *list), moved); /* never shrinks */
  size_t n = 16;
  for (; n < 1 << 18; n *= 2) {
    moved = mal_grow(&a, moved, n, 2 * n, sizeof *moved);
    moved[2 * n - 1] = (int)n;
  }
  assert_int_equal(moved[3], 3);
  assert_int_equal(moved[n - 1], (int)(n / 2));
  mal_arena_free(&a);
}

static void test_print(void **state) {
  (void)state;
  mal_arena a = {0};
  assert_string_equal(mal_print(&a, "%d-%s", 42, "x"), "42-x");
  char *wide = mal_print(&a, "%*d", 100000, 7);
  assert_int_equal(strlen(wide), 100000);
  mal_arena_free(&a);
}

static void test_out_of_memory(void **state) {
  (void)state;
  mal_arena a = {0};
  mal_on_out_of_memory(on_out_of_memory);
  if (!setjmp(escape)) {
    mal_alloc_array(&a, SIZE_MAX / 2, 4); /* the product overflows */
    fail();
  }
  assert_int_equal(refused, SIZE_MAX);
  if (!setjmp(escape)) {
    mal_alloc(&a, SIZE_MAX - 8);
    fail();
  }
  assert_int_equal(refused, SIZE_MAX - 8);
  if (!setjmp(escape)) {
    mal_grow(&a, mal_alloc(&a, 8), 1, SIZE_MAX / 4, 8);
    fail();
  }
  mal_on_out_of_memory(NULL);
  mal_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_alloc),         cmocka_unit_test(test_zero_initialised_arena),
      cmocka_unit_test(test_large),         cmocka_unit_test(test_reset_keeps_the_largest),
      cmocka_unit_test(test_grow),          cmocka_unit_test(test_print),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
