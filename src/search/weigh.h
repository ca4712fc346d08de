/* Inside search: a layout and its shards against bounds, then exactly. */
#ifndef MAL_SEARCH_WEIGH_H
#define MAL_SEARCH_WEIGH_H
#include "search/stock.h"

/* The least score of what the question is about, given its least seconds and bytes. */
double mal_least_of(const mal_worker *w, const mal_question *q, double step_s, int64_t bytes);
/* Of states and stash (shard NULL: of stash), against what the GPU and the host have. */
bool mal_too_large(const mal_worker *w, const mal_question *q, const mal_shard_kit *shard,
                   const mal_class_end *const *ends, int64_t *bytes);
/* The fewest layers that have to be recomputed as far as bounds tell; all: none is few enough. */
int64_t mal_fewest_recomputed(const mal_worker *w, mal_question *q, const mal_shard_kit *shard,
                              const mal_class_end *const *ends, int64_t all);

/* Enters what may win: with one shard; with each that is of use. */
void mal_try_shard(mal_worker *w, mal_pipeline *at, const mal_leaf *x, mal_question *q, int shard);
void mal_try_shards(mal_worker *w, mal_pipeline *at, const mal_leaf *x, mal_question *q);
#endif
