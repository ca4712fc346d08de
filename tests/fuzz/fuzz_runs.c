/* A table of published runs: any text is read, and every row either plans or says why not. */
#include "check/convention.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_trials trials;
  mal_rows rows;
  mal_error e;
  if (mal_trials_parse(&a, "fuzz.csv", (const char *)data, size, &trials, &e) == MAL_OK && trials.count < 64 &&
      mal_rows_make(&a, &trials, &rows, &e) == MAL_OK)
    for (int i = 0; i < rows.count; i++) {
      double s;
      const char *from;
      if (!rows.rows[i].skipped == !rows.rows[i].plan) abort();
      if (rows.rows[i].plan) (void)mal_measured_step(&rows.rows[i], &s, &from);
    }
  mal_arena_free(&a);
  return 0;
}
