/* Inside search: what a thread has at hand for its frame, each made when it is first asked for, and questions about it. What the
 * rules of the space let through must complete and lower: else the rules are wrong, and the worker's status says so. */
#ifndef MAL_SEARCH_STOCK_H
#define MAL_SEARCH_STOCK_H
#include "search/worker.h"

typedef struct mal_leaf { /* a layout but for its shard */
  double least;           /* score */
  int pipeline;           /* of the frame */
  mal_form form;
  int recompute;
  bool partly, reduces; /* partly: some layers only; reduces: ZeRO-2 and 3, gradients leave unit by unit */
} mal_leaf;

mal_status mal_worker_complete(const mal_worker *w, mal_arena *a, const mal_layout *l, mal_plan *p, mal_error *e);
void mal_worker_fault(mal_worker *w, const mal_error *e);

/* 1F1B; with more stages than layers embedding and head count as such. A shard that the space has, or whose blocks are the same. */
mal_form mal_plain_form(const mal_worker *w, int64_t pp);
mal_shard mal_any_shard(const mal_worker *w, bool reduces);
bool mal_offloads(const mal_shard *x);
bool mal_reduces_units(int zero);

void mal_start_frame(mal_worker *w, const mal_frame *f);
void mal_start_micro_batch(mal_worker *w, int64_t micro_batch);

/* NULL: a fault. */
mal_kit *mal_kit_for(mal_worker *w, int64_t pp, int64_t dp, bool reduces, bool split);
const mal_piece *mal_layers_for(mal_worker *w, mal_kit *k, int recompute);
mal_partition *mal_partition_for(mal_worker *w, int64_t pp, const mal_form *form);
mal_shard_kit *mal_shard_kit_for(mal_worker *w, mal_pipeline *at, int shard);
/* A kit of these ranks that holds all weights; NULL: none is among the shards. */
const mal_shard_kit *mal_whole_kit_for(mal_worker *w, mal_pipeline *at);
/* Sums of messages from stage 0 on. */
const double *mal_hops_for(mal_worker *w, const mal_pipeline *at);
bool mal_ask_of(mal_worker *w, const mal_pipeline *at, const mal_leaf *x, const double *hops, mal_question *q);
#endif
