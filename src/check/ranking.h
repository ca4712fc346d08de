/* How well predictions rank layouts: groups of runs that differ in nothing but their layout (same family, source, software, model,
 * GPUs, batch, sequence, precision, kernels), of five layouts and more. Runs that ran out of memory stand in their group too.
 *
 * The pick of a group is the layout that a search would name: the fastest predicted of those that fit with mal_fit_confidence
 * (price/risk.h); were there none, the likeliest to fit. */
#ifndef MAL_CHECK_RANKING_H
#define MAL_CHECK_RANKING_H
#include "check/judged.h"
#include "price/risk.h"

enum { MAL_RANK_LEAST = 5 };

typedef struct mal_rank_group {
  const char *name;       /* "Aleph-Alpha: LLaMA-13B, 64 x A100-80, batch 2048, sequence 2048, flash" */
  int n, n_oom;           /* measured runs; runs out of memory */
  double spearman;        /* of predicted and measured time; ties share their rank */
  const mal_judged *best; /* the fastest measured */
  const mal_judged *pick;
  bool failed;   /* the pick ran out of memory */
  double regret; /* measured time of the pick / measured best - 1; mal_failed_regret when it failed */
  int n_close;   /* of the fastest predicted that fit, those too close to tell apart: measure them */
  const mal_judged *close[MAL_TO_MEASURE]; /* the pick first */
  double regret_close;                     /* of the best measured among them */
} mal_rank_group;

/* A pick that cannot run costs at least a second try: it counts as twice the time of the best. */
extern const double mal_failed_regret;

typedef struct mal_ranking {
  mal_rank_group *groups; /* by regret, worst first */
  int n;
} mal_ranking;

/* Over groups, each of which counts once. */
typedef struct mal_rank_summary {
  int n, n_failed; /* groups; picks that ran out of memory */
  double spearman_mean, spearman_least, regret_mean, regret_p90, regret_max;
  double regret_close_mean; /* had the layouts too close to tell apart been measured */
} mal_rank_summary;

void mal_rank(mal_arena *a, const mal_judged *runs, int n_runs, const mal_judged *oom, int n_oom, mal_ranking *r);
mal_rank_summary mal_rank_summarise(mal_arena *a, const mal_rank_group *const *groups, int n);

/* Spearman's rank correlation of x and y; 0 when one of them is constant or n < 2. */
double mal_spearman(mal_arena *a, const double *x, const double *y, int n);
#endif
