/* Inside search: one thread's work on one frame after another. */
#ifndef MAL_SEARCH_WORKER_H
#define MAL_SEARCH_WORKER_H
#include "search/bound.h"
#include "search/contest.h"

typedef struct mal_pipeline { /* of the frame at hand: one pp */
  int64_t pp, dp;
  int n_shards;
  mal_shard *shards;
  mal_shard_kit **kits; /* [n_shards]; NULL: not made yet */
  uint8_t *verdicts;    /* [n_shards]: of the layout at hand */
  bool hopeless;        /* this micro-batch and all larger ones need too much memory */
  bool dual;            /* DualPipe may be among its forms */
} mal_pipeline;

enum { MAL_KIT_SLOTS = 8, MAL_PARTITION_BUCKETS = 512 };

typedef struct mal_worker {
  const mal_space *space;
  const mal_search_options *options;
  mal_contest *contest;
  mal_arena arena;   /* of the thread: partitions */
  mal_arena frame;   /* of the frame */
  mal_arena body;    /* of the micro-batch */
  mal_arena scratch; /* of one layout */
  mal_block_cache blocks, ends;
  mal_partition *partitions[MAL_PARTITION_BUCKETS];
  const mal_frame *at;
  mal_pipeline *pipelines; /* [at->pp.count] */
  int64_t micro_batch;
  mal_kit *kits[MAL_KIT_SLOTS];
  mal_form *forms;
  double tokens;                     /* of a step */
  double budget[MAL_SPACE_PROFILES]; /* bytes that an estimate may have, by profile */
  bool anything;                     /* what does not fit counts too */
  double evaluated, fitting;
  mal_error error; /* of a fault: the search stops */
  mal_status status;
} mal_worker;

void mal_worker_open(mal_worker *w, const mal_space *space, const mal_search_options *o, mal_contest *c);
void mal_worker_close(mal_worker *w);
/* Sets f->least_s: what a step takes at least whatever pipeline and micro-batch. */
void mal_worker_bound(mal_worker *w, mal_frame *f);
/* Prices a few likely layouts of the frame, so that the search begins with something to beat. */
void mal_worker_warm(mal_worker *w, const mal_frame *f);
void mal_worker_run(mal_worker *w, const mal_frame *f);

/* The score of an estimate; and the least that one can have, given its least seconds a step, seconds of products, bytes. */
double mal_score(int objective, const mal_estimate *e);
double mal_least_score(const mal_worker *w, const mal_plan *plan, double step_s, double gemm_s, int64_t bytes);
double mal_fit_wanted(const mal_search_options *o); /* probability */
bool mal_fits_well(const mal_search_options *o, const mal_estimate *e);
#endif
