/* Predictions beside published runs: errors of step time and memory, by family, each family with equal weight. */
#ifndef MAL_CHECK_VALIDATE_H
#define MAL_CHECK_VALIDATE_H
#include "check/convention.h"
#include "price/price.h"

typedef enum mal_by { MAL_BY_FAMILY, MAL_BY_GPU, MAL_BY_MODEL, MAL_BY_FRAMEWORK, MAL_BYS } mal_by;
extern const char *const mal_by_name[MAL_BYS + 1];

typedef struct mal_judged {
  const mal_row *row;
  const char *skipped;                           /* why there is no prediction; NULL: there is */
  const char *measured_from;                     /* the column that gave measured_s; NULL: only memory is judged */
  double measured_s, predicted_s, low_s, high_s; /* low, high: 80 % interval */
  double error;                                  /* predicted / measured - 1 */
  double measured_bytes, predicted_bytes, memory_error; /* measured 0: not printed */
  bool fits, dense_specified;                           /* dense model, and no blank that touches the program */
  double weight;                                        /* 1 / rows of its family that have a measured speed */
  double time_s[MAL_TIME_CAUSES];
  int64_t memory_bytes[MAL_MEM_CAUSES];
  const char *interval_class, *why;
} mal_judged;

typedef struct mal_summary {
  const char *name;
  int n, skipped, n_memory, n_fits,
      n_oom; /* with speed; without prediction; with memory; predicted; oom rows predicted */
  double mean_abs_error, median_abs_error, p90_abs_error, bias; /* bias: mean of predicted/measured - 1 */
  double interval_coverage, interval_width;                     /* width: median of (high - low) / predicted */
  double interval_width_specified;                              /* over dense rows without blanks */
  double memory_median_abs_error, memory_p90_abs_error, memory_bias;
  double fits_recall, oom_recall; /* rows that ran said to fit; that ran out of memory said not to */
} mal_summary;

typedef struct mal_validation {
  mal_rows rows, oom;
  mal_judged *judged, *judged_oom;
  int count, count_oom;
  mal_summary all, *families, *groups; /* groups: by what was asked */
  int n_families, n_groups;
  mal_by by;
} mal_validation;

/* oom may be NULL. */
mal_status mal_validate(mal_arena *a, const mal_trials *runs, const mal_trials *oom, mal_by by, mal_validation *v,
                        mal_error *e);
/* Prices one row. Used by mal_validate and by bench/fit. */
void mal_judge(mal_arena *scratch, const mal_row *row, mal_judged *j);
#endif
