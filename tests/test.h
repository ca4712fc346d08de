/* What every test needs: cmocka, an error, and words for expecting one. */
#ifndef MAL_TEST_H
#define MAL_TEST_H
#include "core/arena.h"
#include "core/status.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka comes last, for it needs those above. */
#include <cmocka.h>

/* `call` must fail with `wanted`, and its message must contain each of the words given, a NULL-terminated list. */
#define assert_fails(wanted, call, e, ...)                                                                             \
  do {                                                                                                                 \
    (e) = (mal_error){0};                                                                                              \
    assert_int_equal((call), (wanted));                                                                                \
    assert_int_equal((e).status, (wanted));                                                                            \
    const char *const words_[] = {__VA_ARGS__, NULL};                                                                  \
    for (int i_ = 0; words_[i_]; i_++)                                                                                 \
      if (!strstr((e).text, words_[i_])) fail_msg("'%s' is not in: %s", words_[i_], (e).text);                         \
  } while (0)

#define assert_ok(call, e)                                                                                             \
  do {                                                                                                                 \
    (e) = (mal_error){0};                                                                                              \
    if ((call) != MAL_OK) fail_msg("%s", (e).text);                                                                    \
  } while (0)

/* Data that is not part of the repository: the test says so and passes. */
#define need_shared(file)                                                                                              \
  do {                                                                                                                 \
    FILE *f_ = fopen(MALHA_SHARED "/" file, "r");                                                                      \
    if (!f_) {                                                                                                         \
      print_message("skipped: no %s/%s\n", MALHA_SHARED, file);                                                        \
      skip();                                                                                                          \
    }                                                                                                                  \
    fclose(f_);                                                                                                        \
  } while (0)
#endif
