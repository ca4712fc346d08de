#include "program/cache.h"
#include "program/lower.h"
#include <string.h>

enum { KEY = 27 };

typedef struct mal_cached {
  struct mal_cached *next;
  int64_t key[KEY];
  mal_block block;
  mal_held held;
} mal_cached;

void mal_block_cache_open(mal_block_cache *c) {
  *c = (mal_block_cache){0};
  mal_arena_init(&c->arena);
}

void mal_block_cache_reset(mal_block_cache *c) {
  mal_arena_reset(&c->arena);
  memset(c->first, 0, sizeof c->first);
}

void mal_block_cache_close(mal_block_cache *c) {
  mal_arena_free(&c->arena);
  memset(c->first, 0, sizeof c->first);
}

/* Of a layer, an embedding or a head, the data-parallel ranks matter where its own weights or gradients are sharded (ZeRO-2, 3),
 * and where there is only one, and so do ZeRO stage and offload; the pipeline where there is none (a tied table is found in place). Gradient sync and optimizer
 * see all ranks. */
static void key_of(const mal_block_request *r, int64_t key[KEY]) {
  const mal_layout *l = &r->plan->layout;
  bool end = r->block_class == MAL_B_SYNC || r->block_class == MAL_B_OPTIMIZER;
  const int64_t values[] = {r->block_class,
                            r->kind,
                            r->recompute,
                            r->split,
                            r->tied_here,
                            r->no_input_grad,
                            r->unplaced,
                            r->unit_only,
                            r->dense_elements,
                            r->expert_elements,
                            r->replicated_elements,
                            r->vector_elements,
                            r->tied_elements,
                            r->held_elements,
                            l->tp,
                            l->cp,
                            l->ep,
                            l->etp,
                            end || l->zero >= 2 ? l->dp : l->dp * l->cp == 1,
                            end ? l->pp : l->pp == 1,
                            end || l->zero >= 2 ? l->zero : 0,
                            l->hybrid,
                            end || l->zero >= 2 ? l->offload_optimizer : 0,
                            end || l->zero == 3 ? l->offload_params : 0,
                            end ? 0 : l->micro_batch,
                            l->overlap_dp_grad,
                            l->overlap_dp_param};
  _Static_assert(sizeof values / sizeof *values == KEY, "one key for each value");
  memcpy(key, values, sizeof values);
}

static size_t bucket_of(const int64_t key[KEY]) {
  uint64_t hash = 0;
  for (int i = 0; i < KEY; i++) hash = (hash ^ (uint64_t)key[i]) * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(hash >> 56);
}

mal_status mal_block_cached(mal_block_cache *c, const mal_block_request *r, mal_block *out, mal_held *held,
                            mal_error *e) {
  int64_t key[KEY];
  key_of(r, key);
  mal_cached **first = &c->first[bucket_of(key)], *at = *first;
  while (at && memcmp(at->key, key, sizeof key) != 0) at = at->next;
  if (!at) {
    at = MAL_NEW(&c->arena, mal_cached);
    memcpy(at->key, key, sizeof key);
    mal_status status = mal_block_lower(&c->arena, r, &at->block, e);
    if (status != MAL_OK) return status;
    at->held = mal_block_holds(&c->arena, &at->block, r->split, NULL, NULL);
    at->block.memo = mal_alloc(&c->arena, MAL_MEMO_BYTES);
    at->next = *first;
    *first = at;
    c->lowered++;
  }
  *out = at->block;
  *held = at->held;
  return MAL_OK;
}
