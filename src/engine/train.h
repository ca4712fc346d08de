/* The training loop: ranks as threads or processes, step by step, and what it came to beside what was planned. */
#ifndef MAL_ENGINE_TRAIN_H
#define MAL_ENGINE_TRAIN_H
#include "engine/rank.h"

typedef enum mal_rate_schedule {
  MAL_RATE_COSINE,
  MAL_RATE_LINEAR,
  MAL_RATE_WSD,
  MAL_RATE_CONSTANT,
  MAL_RATES
} mal_rate_schedule;
extern const char *const mal_rate_name[MAL_RATES + 1];

typedef struct mal_rate { /* learning rate: rises linearly over `warmup` steps, then as the schedule says */
  double lr, least; /* cosine falls to `least`, the others to 0; wsd: level, over the last fifth of the steps down */
  int schedule;
  int64_t warmup, steps;
} mal_rate;
double mal_rate_at(const mal_rate *r, int64_t step); /* steps count from 0 */

typedef struct mal_train_step {
  int64_t step; /* from 1 */
  double loss, grad_norm, lr, step_s, tokens_per_s;
} mal_train_step;

/* What surrounds the loop, on rank 0 unless said otherwise. Any may be NULL. `leave` set to true ends the run after this step. */
typedef struct mal_train_hooks {
  void *context;
  void (*step)(void *context, const mal_train_step *s, bool *leave);
  /* Loss of the evaluation data after a step. */
  void (*evaluated)(void *context, int64_t step, double loss);
  /* In the thread of each rank: before the first step, in place of initial values; after a step that is to be kept. */
  mal_status (*restore)(void *context, const mal_rank_state *s, mal_error *e);
  mal_status (*save)(void *context, const mal_rank_state *s, int64_t step, mal_error *e);
  /* On rank 0: before the ranks save. */
  mal_status (*begin)(void *context, int64_t step, mal_error *e);
  /* For weights of files: in the thread of each rank before the first step, where nothing is restored; after the last step on rank 0,
   * then in the thread of each rank. */
  mal_status (*initial)(void *context, const mal_rank_state *s, mal_error *e);
  mal_status (*begin_giving)(void *context, mal_error *e);
  mal_status (*give)(void *context, const mal_rank_state *s, mal_error *e);
  /* When all ranks have saved. sequences: the data's position, the next sequence to be read. */
  mal_status (*saved)(void *context, int64_t step, int64_t sequences, mal_error *e);
} mal_train_hooks;

typedef struct mal_train_request {
  const mal_program *program; /* lowered with the profile malha */
  const mal_device *device;
  const mal_comm_backend *backend;
  const mal_tokens_source *source;
  int64_t first_step, steps; /* steps done before this run, 0 at the start; to be done altogether */
  int64_t first_sequence;    /* of the data's order, to be read next */
  uint64_t seed;
  mal_rate rate;
  double beta1, beta2, eps, weight_decay, clip, deadline_s; /* deadline_s: of one collective; 0 none */
  bool oversubscribed;                                      /* more ranks than cores */
  bool processes;                                           /* a process for each rank; else a thread */
  mal_train_hooks hooks;
  mal_job_page *page;                  /* of the supervisor; NULL: there is none */
  int64_t save_every, evaluate_every;  /* steps; 0: at the end only */
  const mal_tokens_source *evaluation; /* NULL: none */
  int64_t evaluation_batches;          /* of the global batch's size */
  mal_timeline *timeline;              /* the last step goes here; NULL: not wanted */
} mal_train_request;

/* Of one step, Σ over ranks unless it says otherwise. */
typedef struct mal_train_summary {
  int64_t steps;
  double loss;            /* of the last step */
  double evaluation_loss; /* NAN: none */
  double planned_flops, flops;
  int64_t planned_memory_bytes, memory_bytes; /* arenas of all ranks */
  int64_t resident_bytes;                     /* of the process at its most; of processes: at the end, together */
  double planned_sent[MAL_AXES + 1], sent[MAL_AXES + 1]; /* by axis as count.c has it, last: between stages */
  double step_s;                                         /* median of the steps after the first */
  double rank_cpu_s, all_cpu_s; /* of it: on a core; of the rank that had it longest, of all together (medians) */
  double tokens_per_s;
} mal_train_summary;

/* Ranks and what they share. Opened before they start, so that processes have it all at the same place; q lives as long. */
typedef struct mal_crew mal_crew;
mal_status mal_train_open(mal_arena *a, const mal_train_request *q, mal_crew **c, mal_error *e);
void mal_train_close(mal_crew *c);
/* All of one rank's part, in a thread or process of its own. s: on rank 0, which leads. */
mal_status mal_train_rank(mal_crew *c, int32_t rank, mal_train_summary *s, mal_error *e);
/* All ranks, each in a thread. */
mal_status mal_train_threads(mal_arena *a, mal_crew *c, mal_train_summary *s, mal_error *e);
/* Someone gives up in a rank's place: the others leave with this. */
void mal_train_abort(mal_crew *c, int32_t rank, mal_status status, const char *why);

/* Open, threads, close. Errors: what cannot be run (MAL_BAD), a rank's fault (its own status), a loss that is no number (MAL_NO):
 * said with the step. */
mal_status mal_train_run(mal_arena *a, const mal_train_request *q, mal_train_summary *s, mal_error *e);
#endif
