/* Weeks of training with failures: checkpoints, restarts, spares; how much of the time trains, and how that varies.
 *
 * Failures come at random, at a constant rate each kind (exponential gaps). Each stops the job. It goes back to the last checkpoint
 * that storage has, and starts again after `restart_s`. A kind that takes a node away takes it for `repair_s`: a spare takes its
 * place, or the job waits until one is back. A checkpoint stops training for `stall_s`, every `interval_s`; storage has it
 * `write_s` later. */
#ifndef MAL_RELIABILITY_HORIZON_H
#define MAL_RELIABILITY_HORIZON_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct mal_failure_kind {
  const char *name;
  double a_node_day; /* failures of one node a day */
  bool takes_node;   /* hardware of the node: it must be repaired */
} mal_failure_kind;

enum { MAL_HORIZON_MOST_SPARES = 1000000 };

typedef struct mal_horizon_job {
  const mal_failure_kind *kinds;
  int n_kinds;
  int64_t nodes, spares; /* spares below 0: there is always one */
  double length_s;       /* of the run */
  double interval_s, stall_s, write_s, restart_s, repair_s;
  uint64_t seed;
  int runs;                 /* seeds */
  volatile const int *stop; /* may be NULL */
} mal_horizon_job;

typedef struct mal_horizon {
  double mttf_s;
  double goodput, low, high,
      median; /* mean over runs; 10th and 90th percentile; share of the time that trained and was kept */
  double lost_work, restarts, waits,
      checkpoints;                /* shares of the time, mean: what was computed and lost, ...; waits: for a node */
  double failures;                /* a run, mean */
  double *by_kind;                /* [n_kinds]: failures a run, mean */
  double interval_s;              /* as played */
  double young_s, daly_s, best_s; /* best: the interval with the largest goodput in play */
  double young_goodput, daly_goodput, best_goodput;
  double formula; /* mal_ettr for the interval as played */
  int runs;
} mal_horizon;

/* All failures of a node, so many a day (mal_node_failures of the GPU's rate in the catalogue), by kind as Meta counted them on
 * Llama 3's H100 (see horizon.c): nobody else published counts by kind. */
const mal_failure_kind *mal_failure_kinds(mal_arena *a, double a_node_day, int *count);
double mal_failures_rate(const mal_failure_kind *kinds, int count); /* all kinds, of a node a day */
mal_status mal_horizon_play(mal_arena *a, const mal_horizon_job *job, bool search, mal_horizon *out, mal_error *e);
#endif
