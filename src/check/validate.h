/* Predictions beside published runs: errors of step time and memory, by family, each family with equal weight; and how well they rank layouts. */
#ifndef MAL_CHECK_VALIDATE_H
#define MAL_CHECK_VALIDATE_H
#include "check/ranking.h"

typedef enum mal_by { MAL_BY_FAMILY, MAL_BY_GPU, MAL_BY_MODEL, MAL_BY_FRAMEWORK, MAL_BYS } mal_by;
extern const char *const mal_by_name[MAL_BYS + 1];

typedef struct mal_summary {
  const char *name;
  int n, skipped, n_memory, n_fits,
      n_oom; /* with speed; without prediction; with memory; predicted; oom rows predicted */
  double mean_abs_error, median_abs_error, p90_abs_error, bias; /* bias: mean of predicted/measured - 1 */
  double interval_coverage, interval_width;                     /* width: median of (high - low) / predicted */
  double interval_width_specified;                              /* over dense rows without blanks */
  double memory_median_abs_error, memory_p90_abs_error, memory_bias;
  double fits_recall, oom_recall; /* rows that ran said to fit; that ran out of memory said not to */
  mal_rank_summary rank;          /* of its groups of layouts */
} mal_summary;

typedef struct mal_validation {
  mal_rows rows, oom;
  mal_judged *judged, *judged_oom;
  int count, count_oom;
  mal_summary all, *families, *groups; /* groups: by what was asked */
  int n_families, n_groups;
  mal_ranking ranking;
  mal_by by;
} mal_validation;

/* oom may be NULL. */
mal_status mal_validate(mal_arena *a, const mal_trials *runs, const mal_trials *oom, mal_by by, mal_validation *v,
                        mal_error *e);
#endif
