/* One published run beside its prediction. */
#ifndef MAL_CHECK_JUDGED_H
#define MAL_CHECK_JUDGED_H
#include "check/convention.h"
#include "price/price.h"

typedef struct mal_judged {
  const mal_row *row;
  const char *skipped;                           /* why there is no prediction; NULL: there is */
  const char *measured_from;                     /* the column that gave measured_s; NULL: only memory is judged */
  double measured_s, predicted_s, low_s, high_s; /* low, high: 80 % interval */
  double error;                                  /* predicted / measured - 1 */
  double measured_bytes, predicted_bytes, memory_error; /* measured 0: not printed */
  double total_bytes, limit_bytes, fit_probability;     /* everything on the fullest GPU; what it has */
  bool fits, dense_specified;                           /* dense model, and no blank that touches the program */
  double weight;                                        /* 1 / rows of its family that have a measured speed */
  double time_s[MAL_TIME_CAUSES];
  int64_t memory_bytes[MAL_MEM_CAUSES];
  const char *interval_class, *why;
} mal_judged;

/* Prices one row. Used by mal_validate and by bench/fit. */
void mal_judge(mal_arena *scratch, const mal_row *row, mal_judged *j);
#endif
