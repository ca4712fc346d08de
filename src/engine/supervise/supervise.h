/* A job under supervision: worker processes whose death, whatever its kind, ends the job with words or starts it again.
 *
 * By default one worker has all ranks as threads; with `processes` each rank is a worker of its own. The supervisor does
 * nothing but wait. It and the workers share one anonymous mapping: nothing has a name in the file system, and a worker dies with
 * its supervisor, so nothing is left over, however either ends. */
#ifndef MAL_ENGINE_SUPERVISE_SUPERVISE_H
#define MAL_ENGINE_SUPERVISE_SUPERVISE_H
#include "core/status.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mal_rank_place {      /* what a rank is doing: two stores an instruction */
  _Alignas(64) _Atomic int64_t step; /* -1: it has not begun */
  _Atomic uint64_t where;            /* the job's own code for an instruction */
} mal_rank_place;

typedef struct mal_worker_result {
  _Atomic int32_t pid;
  _Atomic bool done; /* status and error stand */
  mal_status status;
  mal_error error;
} mal_worker_result;

typedef struct mal_job_page {
  int32_t ranks;
  _Atomic int32_t leave;                      /* Ctrl-C or a polite signal: finish the step, keep it, leave */
  _Atomic int32_t faulty_rank, faulty_signal; /* of the thread that broke a worker; -1: not known */
  mal_rank_place *places;                     /* [ranks] */
  mal_worker_result *results;
} mal_job_page;

static inline void mal_place_set(mal_rank_place *p, int64_t step, uint64_t where) {
  atomic_store_explicit(&p->where, where, memory_order_relaxed);
  atomic_store_explicit(&p->step, step, memory_order_relaxed);
}
/* Says which rank the calling thread is, so that a fault of it can be laid at its door. */
void mal_job_rank(int32_t rank);
static inline bool mal_job_leaves(const mal_job_page *p) {
  return atomic_load_explicit(&p->leave, memory_order_relaxed) != 0;
}

typedef struct mal_job_run {
  int32_t ranks;
  bool processes;
  int32_t restarts; /* how often it may be started again after a death or a fault (MAL_FAULT) */
  void *context;
  /* In a worker: does the job, all of it (rank -1) or one rank's part. attempt counts from 0. */
  mal_status (*run)(void *context, mal_job_page *page, int32_t attempt, int32_t rank, mal_error *e);
  /* Words for a place, such as "layer 3, all-reduce"; NULL: steps only. Called by the supervisor. */
  void (*describe)(void *context, int32_t rank, uint64_t where, char *text, size_t size);
  /* processes: a rank died; the others are to leave (the comm backend's abort). May be NULL. */
  void (*rank_died)(void *context, int32_t rank, const char *why);
  /* Called by the supervisor before it starts the job again: what happened. Before every attempt: what workers share anew. */
  void (*again)(void *context, const mal_error *why, int32_t attempt);
  mal_status (*prepare)(void *context, int32_t attempt, mal_error *e);
} mal_job_run;

/* Runs the job to its end. Its own status and message, or MAL_FAULT with which worker died, of what, and what its ranks were
 * doing. Ends within mal_grace_s after the first death. SIGINT and SIGTERM set page->leave; a second SIGINT kills the workers.
 * Flushes stdout before it forks; the caller has no other threads. */
mal_status mal_supervise(const mal_job_run *job, mal_error *e);
extern const double mal_grace_s;
#endif
