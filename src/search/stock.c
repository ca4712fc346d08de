/* What a thread has at hand: made once for a frame, a pipeline or a micro-batch, when it is first asked for. */
#include "search/stock.h"
#include "price/risk.h"
#include "program/lower.h"
#include <string.h>

/* --- a thread ------------------------------------------------------------------------------------------------------------- */

void mal_worker_open(mal_worker *w, const mal_space *space, const mal_search_options *o, mal_contest *c) {
  *w = (mal_worker){.space = space, .options = o, .contest = c};
  mal_arena_init(&w->arena);
  mal_arena_init(&w->frame);
  mal_arena_init(&w->body);
  mal_arena_init(&w->scratch);
  mal_block_cache_open(&w->blocks);
  mal_block_cache_open(&w->ends);
  w->forms = MAL_ARRAY(&w->arena, mal_form, MAL_MOST_FORMS);
  w->tokens = (double)space->batch * (double)space->seq;
  for (int i = 0; i < space->n_plans; i++)
    w->budget[i] =
        mal_fit_budget(space->plans[i].profile, space->plans[i].machine.gpu->memory_bytes.value, mal_fit_wanted(o));
}

void mal_worker_close(mal_worker *w) {
  mal_arena_free(&w->arena);
  mal_arena_free(&w->frame);
  mal_arena_free(&w->body);
  mal_arena_free(&w->scratch);
  mal_block_cache_close(&w->blocks);
  mal_block_cache_close(&w->ends);
}

mal_status mal_worker_complete(const mal_worker *w, mal_arena *a, const mal_layout *l, mal_plan *p, mal_error *e) {
  *p = w->space->plans[w->at->profile];
  p->asked_layout = *l;
  return mal_plan_complete(a, p, e);
}

/* What the rules let through must complete and lower: else the rules are wrong, and the search says so rather than hide it. */
void mal_worker_fault(mal_worker *w, const mal_error *e) {
  if (w->status != MAL_OK) return;
  w->status = MAL_FAULT;
  w->error = *e;
}

/* --- plain ones ---- */

static const mal_shard plain_shard = {.zero = 1}, reducing_shard = {.zero = 2};

/* 1F1B; more stages than layers only where embedding and head count as layers. */
mal_form mal_plain_form(const mal_worker *w, int64_t pp) {
  return (mal_form){.schedule = MAL_1F1B, .vpp = 1, .embedding_in_layers = pp > w->space->layers};
}

mal_shard mal_any_shard(const mal_worker *w, bool reduces) {
  mal_shard s = reduces ? reducing_shard : plain_shard;
  int zero = w->space->fixed.zero;
  if (!reduces && zero >= 0 && zero != 2) s.zero = zero;
  return s;
}

bool mal_offloads(const mal_shard *x) { return x->offload_optimizer || x->offload_params; }

bool mal_reduces_units(int zero) { return zero >= 2; }

/* --- kits of a micro-batch ------------------------------------------------------------------------------------------------------ */

mal_kit *mal_kit_for(mal_worker *w, int64_t pp, int64_t dp, bool reduces, bool split) {
  bool alone = dp * w->at->cp == 1;
  int slot = reduces | split << 1 | alone << 2;
  if (w->kits[slot]) return w->kits[slot];
  mal_error e;
  mal_plan p;
  mal_shard shard = mal_any_shard(w, reduces);
  mal_form form = mal_plain_form(w, pp);
  mal_layout l = mal_space_layout(w->space, w->at, pp, w->micro_batch, &form, &shard, MAL_RECOMPUTE_NONE, -1);
  l.first_stage_layers = l.last_stage_layers = -1;
  mal_kit *k = MAL_NEW(&w->body, mal_kit);
  mal_status status = mal_worker_complete(w, &w->body, &l, &p, &e);
  if (status == MAL_OK) status = mal_kit_open(&w->blocks, &p, split, k, &e);
  if (status != MAL_OK) return mal_worker_fault(w, &e), NULL;
  return w->kits[slot] = k;
}

const mal_piece *mal_layers_for(mal_worker *w, mal_kit *k, int recompute) {
  mal_error e;
  if (mal_kit_layers(&w->blocks, k, recompute, &e) != MAL_OK) return mal_worker_fault(w, &e), NULL;
  return k->layers[recompute];
}

mal_partition *mal_partition_for(mal_worker *w, int64_t pp, const mal_form *form) {
  bool dual = form->schedule == MAL_DUALPIPE;
  size_t bucket = (size_t)(pp * 31 + form->vpp * 4 + form->embedding_in_layers * 2 + dual + 977 * w->at->profile);
  bucket %= MAL_PARTITION_BUCKETS;
  for (mal_partition *p = w->partitions[bucket]; p; p = p->next)
    if (p->pp == pp && p->vpp == form->vpp && p->embedding_in_layers == form->embedding_in_layers && p->dual == dual &&
        p->profile == w->at->profile)
      return p;
  mal_shard shard = mal_any_shard(w, false);
  mal_layout l = mal_space_layout(w->space, w->at, pp, w->micro_batch, form, &shard, MAL_RECOMPUTE_NONE, -1);
  mal_plan plan;
  mal_error e;
  if (mal_worker_complete(w, &w->body, &l, &plan, &e) != MAL_OK) return mal_worker_fault(w, &e), NULL;
  mal_partition *p = mal_partition_make(&w->arena, &plan, dual);
  p->profile = w->at->profile;
  p->next = w->partitions[bucket];
  return w->partitions[bucket] = p;
}

mal_shard_kit *mal_shard_kit_for(mal_worker *w, mal_pipeline *at, int shard) {
  if (at->kits[shard]) return at->kits[shard];
  mal_error e;
  mal_plan p;
  mal_form form = mal_plain_form(w, at->pp);
  mal_layout l =
      mal_space_layout(w->space, w->at, at->pp, w->micro_batch, &form, &at->shards[shard], MAL_RECOMPUTE_NONE, -1);
  l.first_stage_layers = l.last_stage_layers = -1;
  mal_shard_kit *k = MAL_NEW(&w->frame, mal_shard_kit);
  mal_status status = mal_worker_complete(w, &w->frame, &l, &p, &e);
  if (status == MAL_OK) status = mal_shard_kit_open(&w->ends, &p, at->pp == 1 || at->dual, k, &e);
  if (status != MAL_OK) return mal_worker_fault(w, &e), NULL;
  return at->kits[shard] = k;
}

/* A kit of these ranks that holds all weights; NULL: none is among the shards. */
const mal_shard_kit *mal_whole_kit_for(mal_worker *w, mal_pipeline *at) {
  for (int k = 0; k < at->n_shards; k++)
    if (at->shards[k].zero < 2 && !mal_offloads(&at->shards[k])) return mal_shard_kit_for(w, at, k);
  return NULL;
}

/* --- questions ---- */

bool mal_ask_of(mal_worker *w, const mal_pipeline *at, const mal_leaf *x, const double *hops, mal_question *q) {
  bool split = x->form.schedule == MAL_ZB_H1 || x->form.schedule == MAL_ZB_2P || x->form.schedule == MAL_DUALPIPE;
  mal_kit *kit = mal_kit_for(w, at->pp, at->dp, x->reduces, split);
  if (!kit) return false;
  *q = (mal_question){.kit = kit, .recomputed = x->partly ? 0 : -1, .schedule = x->form.schedule, .hops = hops};
  q->pp = at->pp, q->micro_batches = w->space->batch / (at->dp * w->micro_batch);
  q->partition = mal_partition_for(w, at->pp, &x->form);
  q->layers = mal_layers_for(w, kit, x->recompute);
  q->plain = x->partly ? mal_layers_for(w, kit, MAL_RECOMPUTE_NONE) : NULL;
  return q->partition && q->layers && (!x->partly || q->plain);
}

/* Sums of messages from stage 0 on. */
const double *mal_hops_for(mal_worker *w, const mal_pipeline *at) {
  double *hops = MAL_ARRAY(&w->body, double, at->pp + 1), *each = MAL_ARRAY(&w->body, double, at->pp + 1);
  mal_kit *kit = mal_kit_for(w, at->pp, at->dp, false, false);
  if (!kit) return NULL;
  if (at->pp == 1) return hops;
  mal_plan p = kit->plan;
  p.layout.pp = at->pp, p.layout.dp = at->dp;
  mal_pipe_hops(&p, mal_boundary_bytes(&p), each);
  for (int64_t s = 0; s < at->pp; s++) hops[s + 1] = hops[s] + each[s];
  return hops;
}

/* --- beginnings ---- */

void mal_start_micro_batch(mal_worker *w, int64_t micro_batch) {
  w->micro_batch = micro_batch;
  mal_arena_reset(&w->body);
  mal_block_cache_reset(&w->blocks);
  memset(w->kits, 0, sizeof w->kits);
}

void mal_start_frame(mal_worker *w, const mal_frame *f) {
  w->at = f;
  mal_arena_reset(&w->frame);
  mal_block_cache_reset(&w->ends);
  w->pipelines = MAL_ARRAY(&w->frame, mal_pipeline, f->pp.count);
  for (int i = 0; i < f->pp.count; i++) {
    mal_pipeline *at = &w->pipelines[i];
    at->pp = f->pp.at[i], at->dp = w->space->gpus / (f->tp * f->cp * at->pp);
    const mal_profile *profile = w->space->plans[f->profile].profile;
    at->n_shards = mal_space_shards(w->space, &w->frame, profile, at->pp, at->dp * f->cp, &at->shards);
    at->kits = MAL_ARRAY(&w->frame, mal_shard_kit *, at->n_shards + 1);
    at->verdicts = MAL_ARRAY(&w->frame, uint8_t, at->n_shards + 1);
    at->dual = at->pp % 2 == 0;
  }
}
