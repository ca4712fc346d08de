/* One layout of a search, bound and exact, side by side. */
#ifndef MAL_TESTS_SEARCH_PROBE_H
#define MAL_TESTS_SEARCH_PROBE_H
#include "program/lower.h"
#include "search/stock.h"

typedef struct probe {
  double bound_s;
  int64_t bound_bytes;
  mal_plan plan;
  mal_estimate exact; /* with the worker's shared blocks */
} probe;

static bool bound_of(mal_worker *w, mal_pipeline *at, const mal_leaf *x, int shard, int64_t recomputed, probe *out) {
  const mal_class_end *ends[MAL_CLASSES];
  mal_question q;
  mal_visible visible;
  mal_error e;
  const double *hops = mal_hops_for(w, at);
  mal_shard_kit *kit = mal_shard_kit_for(w, at, shard);
  if (!hops || !kit || !mal_ask_of(w, at, x, hops, &q)) return false;
  for (int k = 0; k < q.partition->count; k++) {
    mal_class_end floor;
    if (!(ends[k] = mal_shard_class(&w->ends, kit, &q.partition->classes[k], &e)))
      return mal_worker_fault(w, &e), false;
    mal_shard_floor(kit, &q.partition->classes[k], &floor);
    if (floor.states > ends[k]->states) return false;
    const mal_shard_kit *whole = mal_whole_kit_for(w, at);
    if (whole) mal_shard_floor_of(whole, &at->shards[shard], &q.partition->classes[k], &floor);
    if (floor.states > ends[k]->states) return false;
  }
  mal_arena_reset(&w->scratch);
  if (at->shards[shard].zero >= 2) {
    mal_visible_of(&w->scratch, q.kit, q.layers, q.plain, kit, &visible);
    q.visible = &visible;
  }
  if (x->partly) q.recomputed = recomputed;
  out->bound_s = mal_bound_step(&q, kit, ends);
  out->bound_bytes = mal_bound_memory(&q, kit, ends);
  double start = mal_bound_start(&q);
  int64_t bare = mal_bound_memory(&q, NULL, NULL);
  return start <= out->bound_s * (1 + 1e-12) && bare <= out->bound_bytes;
}

/* place: any numbers; each picks among what can be had. */
static bool probe_layout(mal_worker *w, mal_arena *a, const mal_frame *f, const uint32_t place[6], probe *out) {
  mal_program program;
  mal_error e;
  mal_start_frame(w, f);
  int pipeline = (int)(place[0] % (uint32_t)f->pp.count);
  mal_pipeline *at = &w->pipelines[pipeline];
  mal_numbers sizes = mal_space_micro_batches(w->space, &w->frame, at->dp);
  int64_t size = sizes.at[place[1] % (uint32_t)sizes.count];
  if (!mal_space_micro_batch(w->space, f, at->dp, size)) return false;
  mal_start_micro_batch(w, size);
  const mal_profile *profile = w->space->plans[f->profile].profile;
  int forms = mal_space_forms(w->space, profile, at->pp, w->space->batch / (at->dp * size), w->forms);
  if (!forms || !at->n_shards) return false;
  mal_leaf x = {0, pipeline, w->forms[place[2] % (uint32_t)forms], (int)(place[3] % MAL_RECOMPUTES), false, false};
  int shard = (int)(place[4] % (uint32_t)at->n_shards);
  int64_t recomputed = place[5] % (uint32_t)(w->space->layers / at->pp + 1);
  x.reduces = mal_reduces_units(at->shards[shard].zero);
  x.partly = x.recompute == MAL_RECOMPUTE_FULL && recomputed > 0;
  if (!bound_of(w, at, &x, shard, recomputed, out))
    return mal_worker_fault(w, &(mal_error){.text = "bounds disagree"}), false;
  mal_layout l =
      mal_space_layout(w->space, f, at->pp, size, &x.form, &at->shards[shard], x.recompute, x.partly ? recomputed : -1);
  mal_arena_reset(&w->scratch);
  mal_status status = mal_worker_complete(w, a, &l, &out->plan, &e);
  if (status == MAL_OK) status = mal_lower_cached(&w->scratch, &w->blocks, &out->plan, &program, &e);
  if (status == MAL_OK) status = mal_price(&w->scratch, &program, &out->exact, &e);
  out->exact.why = NULL;
  if (status != MAL_OK) mal_worker_fault(w, &e);
  return status == MAL_OK;
}
#endif
