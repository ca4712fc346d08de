/* Assembles a program: which blocks each stage holds, in runs of equal layers, each distinct block lowered once. */
#include "program/lower.h"
#include "program/cache.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

typedef struct assembly {
  mal_arena *a, scratch;
  const mal_plan *plan;
  mal_program *p;
  mal_error *e;
  mal_block_request *made; /* [p->n_blocks]: what each block was lowered for */
  mal_held *held;          /* [p->n_blocks] */
  int room;
  int64_t limit_bytes;    /* 0: none */
  mal_block_cache *cache; /* NULL: every block is lowered here */
} assembly;

/* --- blocks ----------------------------------------------------------------------------------------------------------- */

static bool same_request(const mal_block_request *x, const mal_block_request *y) {
  return x->block_class == y->block_class && x->kind == y->kind && x->recompute == y->recompute &&
         x->split == y->split && x->tied_here == y->tied_here && x->no_input_grad == y->no_input_grad &&
         x->dense_elements == y->dense_elements && x->expert_elements == y->expert_elements &&
         x->replicated_elements == y->replicated_elements && x->vector_elements == y->vector_elements &&
         x->tied_elements == y->tied_elements && x->held_elements == y->held_elements;
}

static mal_status block_for(assembly *s, mal_block_request request, int *block) {
  mal_program *p = s->p;
  request.plan = s->plan;
  for (*block = 0; *block < p->n_blocks; ++*block)
    if (same_request(&s->made[*block], &request)) return MAL_OK;
  assert(p->n_blocks < s->room);
  mal_block *made = &p->blocks[p->n_blocks];
  mal_held *held = &s->held[p->n_blocks];
  mal_status status =
      s->cache ? mal_block_cached(s->cache, &request, made, held, s->e) : mal_block_lower(s->a, &request, made, s->e);
  if (status != MAL_OK) return status;
  if (!s->cache) *held = mal_block_holds(&s->scratch, made, p->split_backward, NULL, NULL);
  s->made[p->n_blocks++] = request;
  return MAL_OK;
}

/* Embedding, heads, MTP; each kind with and without recomputation and input gradient; sync and optimizer of each stage. */
static void make_room(assembly *s) {
  s->room = 8 + s->plan->model.n_kinds * 8 + 2 * (int)s->plan->layout.pp;
  s->p->blocks = MAL_ARRAY(s->a, mal_block, s->room);
  s->made = MAL_ARRAY(&s->scratch, mal_block_request, s->room);
  s->held = MAL_ARRAY(&s->scratch, mal_held, s->room);
}

/* --- chunks ----------------------------------------------------------------------------------------------------------- */

/* Appends `count` layers of a block, to the last run where it is the same block. */
static mal_status add_run(assembly *s, mal_chunk *c, mal_block_request request, int64_t count) {
  int block;
  mal_status status = block_for(s, request, &block);
  if (status != MAL_OK) return status;
  if (c->n_runs == 0 || c->runs[c->n_runs - 1].block != block) c->runs[c->n_runs++] = (mal_run){.block = block};
  c->runs[c->n_runs - 1].count += count;
  return MAL_OK;
}

static bool trains_adapters(const mal_plan *plan) {
  return plan->job.train == MAL_LORA || plan->job.train == MAL_QLORA;
}

static mal_status add_layer(assembly *s, mal_chunk *c, int64_t layer, bool full) {
  const mal_layout *l = &s->plan->layout;
  bool partial = l->recompute == MAL_RECOMPUTE_FULL && l->recompute_layers >= 0;
  mal_block_request request = {.block_class = MAL_B_LAYER, .kind = s->plan->model.kind_of[layer]};
  request.recompute = partial ? (full ? MAL_RECOMPUTE_FULL : MAL_RECOMPUTE_NONE) : l->recompute;
  request.split = s->p->split_backward;
  request.no_input_grad = layer == 0 && trains_adapters(s->plan);
  return add_run(s, c, request, 1);
}

static bool holds_part(const mal_stage *stage, int64_t part) {
  for (int c = 0; c < stage->n_chunks; c++)
    if (stage->chunks[c].part == part) return true;
  return false;
}

/* Each multi-token-prediction module: its own part, a layer of the last kind, and the head over again. */
static mal_status add_mtp(assembly *s, const mal_stage *stage, mal_chunk *c) {
  const mal_model *m = &s->plan->model;
  mal_block_request own = {.block_class = MAL_B_MTP, .kind = m->kind_of[m->layers - 1], .split = s->p->split_backward};
  mal_block_request head = {.block_class = MAL_B_HEAD, .split = s->p->split_backward, .tied_here = true};
  mal_status status = MAL_OK;
  for (int64_t i = 0; i < m->mtp_layers && status == MAL_OK; i++) {
    own.tied_here =
        i > 0 || m->tied_embeddings || holds_part(stage, 0); /* the embedding that it reads lies here already */
    status = add_run(s, c, own, 1);
    if (status == MAL_OK) status = add_layer(s, c, m->layers - 1, false);
    if (status == MAL_OK) status = add_run(s, c, head, 1);
  }
  return status;
}

/* full: the first layers of the chunk are wholly recomputed, when only some of the stage's are. */
static mal_status fill_chunk(assembly *s, const mal_stage *stage, mal_chunk *c, int64_t first, int64_t count,
                             int64_t full) {
  const mal_plan *plan = s->plan;
  int64_t parts = plan->layout.schedule == MAL_DUALPIPE ? plan->layout.pp : plan->layout.pp * stage->n_chunks;
  bool split = s->p->split_backward;
  mal_status status = MAL_OK;
  c->runs = MAL_ARRAY(s->a, mal_run, count + 2 + 3 * plan->model.mtp_layers);
  if (c->part == 0) status = add_run(s, c, (mal_block_request){.block_class = MAL_B_EMBED, .split = split}, 1);
  for (int64_t i = 0; i < count && status == MAL_OK; i++) status = add_layer(s, c, first + i, i < full);
  if (c->part == parts - 1 && status == MAL_OK) {
    bool tied = plan->model.tied_embeddings && holds_part(stage, 0);
    status = add_run(s, c, (mal_block_request){.block_class = MAL_B_HEAD, .split = split, .tied_here = tied}, 1);
    if (status == MAL_OK) status = add_mtp(s, stage, c);
  }
  for (int i = 0; i < c->n_runs; i++) {
    const mal_held *one = &s->held[c->runs[i].block];
    int64_t times = c->runs[i].count;
    c->stash_bytes += times * s->p->blocks[c->runs[i].block].stash_bytes;
    c->held.f_to_b += times * one->f_to_b;
    c->held.f_to_w += times * one->f_to_w;
    c->held.b_to_w += times * one->b_to_w;
  }
  return status;
}

static int64_t layers_of(const mal_stage *stage, const int64_t *count) {
  int64_t all = 0;
  for (int c = 0; c < stage->n_chunks; c++) all += count[stage->chunks[c].part];
  return all;
}

/* Recomputed layers are spread evenly over the chunks of a stage. */
static mal_status fill_stage(assembly *s, int64_t index, const int64_t *first, const int64_t *count) {
  const mal_layout *l = &s->plan->layout;
  mal_stage *stage = &s->p->stages[index];
  int64_t slots[256], seen = 0, all, recomputed = l->recompute_layers;
  mal_schedule_all_slots(l, s->p->micro_batches, index, slots);
  stage->n_chunks = (int)mal_schedule_chunks(l);
  stage->chunks = MAL_ARRAY(s->a, mal_chunk, stage->n_chunks);
  stage->pools = MAL_ARRAY(s->a, mal_pool, stage->n_chunks * MAL_HOLDS);
  for (int c = 0; c < stage->n_chunks; c++) {
    stage->chunks[c].part = (int)mal_schedule_part(l, index, c);
    stage->chunks[c].slots = slots[c];
    for (int k = 0; k < MAL_HOLDS; k++) stage->chunks[c].pool[k] = -1;
    stage->chunks[c].micro_batches = s->p->micro_batches / (l->schedule == MAL_DUALPIPE ? 2 : 1);
  }
  all = layers_of(stage, count);
  if (recomputed > all) recomputed = all;
  for (int c = 0; c < stage->n_chunks; c++) {
    mal_chunk *chunk = &stage->chunks[c];
    int64_t here = count[chunk->part];
    int64_t full = all > 0 ? recomputed * (seen + here) / all - recomputed * seen / all : 0;
    mal_status status = fill_chunk(s, stage, chunk, first[chunk->part], here, full);
    if (status != MAL_OK) return status;
    seen += here;
  }
  return MAL_OK;
}

/* --- end of the step ---------------------------------------------------------------------------------------------------- */

/* Ranks that each block's gradients are cut over. */
static int64_t unit_shards(const mal_layout *l) {
  if (l->zero < 2) return 1;
  return l->zero == 3 && l->hybrid > 0 ? l->hybrid : l->dp * l->cp;
}

static mal_status finish_stage(assembly *s, mal_stage *stage) {
  mal_block_request sum = {.block_class = MAL_B_SYNC};
  int64_t shards = unit_shards(&s->plan->layout);
  for (int c = 0; c < stage->n_chunks; c++)
    for (int i = 0; i < stage->chunks[c].n_runs; i++) {
      const mal_run *run = &stage->chunks[c].runs[i];
      const mal_block *b = &s->p->blocks[run->block];
      sum.dense_elements += run->count * b->dense_elements;
      if (shards > 1) sum.held_elements += run->count * ((b->dense_elements + shards - 1) / shards);
      sum.expert_elements += run->count * b->expert_elements;
      sum.replicated_elements += run->count * b->replicated_elements;
      sum.vector_elements += run->count * b->vector_elements;
      sum.tied_elements += run->count * b->tied_elements;
      stage->frozen_dense_elements += run->count * b->frozen_dense_elements;
      stage->frozen_expert_elements += run->count * b->frozen_expert_elements;
    }
  stage->dense_elements = sum.dense_elements;
  stage->expert_elements = sum.expert_elements;
  mal_status status = block_for(s, sum, &stage->sync);
  sum.block_class = MAL_B_OPTIMIZER;
  return status == MAL_OK ? block_for(s, sum, &stage->optimizer) : status;
}

/* Weights and gradients alone, before the long lists of sync and optimizer are made: more than `limit`? */
static bool is_over(const assembly *s, const mal_stage *stage) {
  int64_t bytes = 0;
  for (int c = 0; c < stage->n_chunks; c++)
    for (int i = 0; i < stage->chunks[c].n_runs; i++) {
      const mal_run *run = &stage->chunks[c].runs[i];
      bytes += run->count * mal_block_lasting(s->plan, &s->p->blocks[run->block]);
    }
  return s->limit_bytes && bytes > s->limit_bytes;
}

int64_t mal_boundary_bytes(const mal_plan *plan) {
  const mal_layout *l = &plan->layout;
  int64_t tokens = l->micro_batch * (plan->job.seq / l->cp);
  if (l->sequence_parallel == MAL_ON || plan->profile->pp_scatter_gather) tokens /= l->tp;
  return tokens * plan->model.hidden *
         (int64_t)mal_dtype_bytes[mal_precision_store((mal_precision)plan->job.precision)];
}

static mal_status assemble(assembly *s) {
  mal_program *p = s->p;
  const mal_layout *l = &s->plan->layout;
  int64_t parts = l->pp * (l->vpp > 0 ? l->vpp : 1);
  int64_t *first = MAL_ARRAY(&s->scratch, int64_t, parts), *count = MAL_ARRAY(&s->scratch, int64_t, parts);
  mal_status status = mal_schedule_check(l, p->micro_batches, s->e);
  if (status != MAL_OK) return status;
  make_room(s);
  mal_layout_stages(l, s->plan->model.layers, first, count);
  p->stages = MAL_ARRAY(s->a, mal_stage, l->pp);
  for (int64_t i = 0; i < l->pp && status == MAL_OK; i++) {
    status = fill_stage(s, i, first, count);
    if (status == MAL_OK && is_over(s, &p->stages[i])) return MAL_NO;
  }
  for (int64_t i = 0; i < l->pp && status == MAL_OK; i++) status = finish_stage(s, &p->stages[i]);
  return status;
}

static mal_status lower(mal_arena *a, mal_block_cache *cache, const mal_plan *plan, int64_t limit_bytes, mal_program *p,
                        mal_error *e) {
  assembly s = {.a = a, .plan = plan, .p = p, .e = e, .limit_bytes = limit_bytes, .cache = cache};
  *p = (mal_program){.plan = plan, .micro_batches = plan->job.accumulation, .boundary_bytes = mal_boundary_bytes(plan)};
  p->split_backward = mal_schedule_splits(&plan->layout);
  mal_arena_init(&s.scratch);
  mal_status status = assemble(&s);
  mal_arena_free(&s.scratch);
  if (status != MAL_OK) return status;
  mal_program_memory(p);
  return MAL_OK;
}

mal_status mal_lower(mal_arena *a, const mal_plan *plan, mal_program *p, mal_error *e) {
  return mal_lower_within(a, plan, 0, p, e);
}

mal_status mal_lower_within(mal_arena *a, const mal_plan *plan, int64_t limit_bytes, mal_program *p, mal_error *e) {
  mal_status status = lower(a, NULL, plan, limit_bytes, p, e);
  if (status == MAL_OK) mal_program_count(p);
  return status;
}

mal_status mal_lower_cached(mal_arena *a, mal_block_cache *cache, const mal_plan *plan, mal_program *p, mal_error *e) {
  return lower(a, cache, plan, 0, p, e);
}
