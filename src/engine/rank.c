#include "engine/rank.h"
#include "engine/poison.h"
#include "program/builder.h"
#include <stdlib.h>
#include <string.h>

/* --- coordinates and groups ----------------------------------------------------------------------------------------------- */

static void axis_of(const mal_layout *l, mal_axis axis, int64_t *stride, int64_t *extent) {
  const int64_t strides[MAL_AXES] = {
      [MAL_AXIS_TP] = 1, [MAL_AXIS_CP] = l->tp, [MAL_AXIS_DP] = l->tp * l->cp, [MAL_AXIS_PP] = l->tp * l->cp * l->dp};
  const int64_t extents[MAL_AXES] = {
      [MAL_AXIS_TP] = l->tp, [MAL_AXIS_CP] = l->cp, [MAL_AXIS_DP] = l->dp, [MAL_AXIS_PP] = l->pp};
  *stride = strides[axis], *extent = extents[axis];
}

int64_t mal_rank_index(const mal_layout *l, int32_t rank, mal_axis axis) {
  int64_t stride, extent;
  axis_of(l, axis, &stride, &extent);
  return rank / stride % extent;
}

mal_members mal_rank_members(const mal_layout *l, int32_t rank, unsigned axes) {
  mal_members m = {.base = rank};
  for (int axis = MAL_AXIS_TP; axis <= MAL_AXIS_PP; axis++) {
    int64_t stride, extent;
    axis_of(l, (mal_axis)axis, &stride, &extent);
    if (!(axes & MAL_AXIS_BIT(axis)) || extent == 1) continue;
    m.base -= (int32_t)(rank / stride % extent * stride);
    m.extent[m.dims] = (int32_t)extent, m.stride[m.dims++] = (int32_t)stride;
  }
  return m;
}

static const char *axes_name(mal_arena *a, unsigned axes) {
  static const char *const names[] = {"tp", "cp", "dp", "pp"};
  char *text = NULL;
  for (int axis = MAL_AXIS_TP; axis <= MAL_AXIS_PP; axis++)
    if (axes & MAL_AXIS_BIT(axis)) text = mal_print(a, "%s%s%s", text ? text : "", text ? "+" : "", names[axis]);
  return text ? text : "none";
}

/* All ranks register in one order: by mask, over all blocks of the program. */
static mal_status open_groups(mal_arena *a, mal_rank *r, mal_error *e) {
  const mal_program *p = r->program;
  const mal_layout *l = &p->plan->layout;
  bool used[256] = {false};
  for (int b = 0; b < p->n_blocks; b++)
    for (int list = 0; list < MAL_LISTS; list++)
      for (int i = 0; i < p->blocks[b].count[list]; i++) used[p->blocks[b].list[list][i].axes] = true;
  for (unsigned axes = 1; axes < 256; axes++) {
    if (!used[axes]) continue;
    r->members_of[axes] = mal_rank_members(l, r->rank, axes);
    mal_status status = r->backend->group(r->comm, &r->members_of[axes], axes_name(a, axes), &r->group_of[axes], e);
    if (status) return status;
  }
  mal_members stages = mal_rank_members(l, r->rank, MAL_AXIS_BIT(MAL_AXIS_PP));
  return r->backend->group(r->comm, &stages, "stages", &r->stages_group, e);
}

/* --- blocks ------------------------------------------------------------------------------------------------------------------ */

enum { IN_F = 1, IN_BACKWARD = 2 };

static void find_ends(mal_arena *a, mal_block_plan *p) {
  const mal_block *b = p->block;
  uint8_t *written = MAL_ARRAY(a, uint8_t, b->n_buffers);
  p->x = p->y = p->dy = p->dx = p->tokens = -1;
  for (int list = 0; list < MAL_LISTS; list++)
    for (int i = 0; i < b->count[list]; i++)
      for (int k = 0; k < MAL_OUTPUTS; k++)
        if (b->list[list][i].out[k] != MAL_NO_BUFFER)
          written[b->list[list][i].out[k]] |= list == MAL_L_F ? IN_F : IN_BACKWARD;
  uint8_t *read = MAL_ARRAY(a, uint8_t, b->n_buffers);
  for (int i = 0; i < b->count[MAL_L_F]; i++)
    for (int k = 0; k < MAL_INPUTS; k++)
      if (b->list[MAL_L_F][i].in[k] != MAL_NO_BUFFER) read[b->list[MAL_L_F][i].in[k]] = IN_F;
  for (int i = 0; i < b->n_buffers; i++) {
    const mal_buffer *f = &b->buffers[i];
    if (f->region == MAL_R_IO && f->dtype == MAL_I64) p->tokens = i;
    if (!f->external) continue;
    p->end[i] = written[i] & IN_F          ? MAL_END_Y
                : written[i] & IN_BACKWARD ? MAL_END_DX
                : read[i] & IN_F           ? MAL_END_X
                                           : MAL_END_DY;
    int32_t *which[] = {NULL, &p->x, &p->y, &p->dy, &p->dx};
    *which[p->end[i]] = i;
  }
}

static mal_block_plan plan_block(mal_arena *a, const mal_block *b, bool split) {
  mal_block_plan p = {.block = b};
  p.hold = MAL_ARRAY(a, uint8_t, b->n_buffers);
  p.hold_offset = MAL_ARRAY(a, int64_t, b->n_buffers);
  p.end = MAL_ARRAY(a, uint8_t, b->n_buffers);
  mal_held held = mal_block_holds(a, b, split, p.hold, p.hold_offset);
  p.held[MAL_HOLD_F_TO_B] = held.f_to_b, p.held[MAL_HOLD_F_TO_W] = held.f_to_w, p.held[MAL_HOLD_B_TO_W] = held.b_to_w;
  for (int l = 0; l < MAL_LISTS; l++)
    if (b->work_bytes[l] > p.work_bytes) p.work_bytes = b->work_bytes[l];
  find_ends(a, &p);
  return p;
}

/* --- the stage's chunks and its flat space ---------------------------------------------------------------------------------- */

static void lay_out_chunk(mal_arena *a, mal_rank *r, const mal_block_plan *plans, int c, const int64_t *first) {
  const mal_chunk *chunk = &r->stage_plan->chunks[c];
  const mal_layout *l = &r->program->plan->layout;
  mal_chunk_place *place = &r->chunks[c];
  int64_t parts = l->pp * (l->vpp > 0 ? l->vpp : 1), layer = first[chunk->part], at[MAL_HOLDS] = {0};
  for (int i = 0; i < chunk->n_runs; i++) place->n += (int)chunk->runs[i].count;
  place->at = MAL_ARRAY(a, mal_instance, place->n);
  place->first = chunk->part == 0, place->last = chunk->part == parts - 1;
  place->place = mal_alloc_array(a, (size_t)chunk->slots, sizeof *place->place);
  for (int i = 0, n = 0; i < chunk->n_runs; i++)
    for (int64_t k = 0; k < chunk->runs[i].count; k++) {
      mal_instance *x = &place->at[n++];
      x->plan = &plans[chunk->runs[i].block];
      x->layer = x->plan->block->block_class == MAL_B_LAYER ? layer++ : -1;
      x->param_at = MAL_ARRAY(a, int64_t, x->plan->block->n_params);
      for (int h = 0; h < MAL_HOLDS; h++) {
        x->stash_at[h] = at[h];
        at[h] += x->plan->held[h];
      }
    }
}

typedef void unit_visit(mal_arena *a, mal_rank *r, mal_instance *x, const mal_unit_part *u, void *context);

static void each_unit(mal_arena *a, mal_rank *r, unit_visit *visit, void *context) {
  for (int c = 0; c < r->stage_plan->n_chunks; c++)
    for (int i = 0; i < r->chunks[c].n; i++) {
      mal_unit_part *units;
      mal_instance *x = &r->chunks[c].at[i];
      int n = mal_block_units(a, r->program->plan, x->plan->block, &units);
      for (int u = 0; u < n; u++) visit(a, r, x, &units[u], context);
    }
}

typedef struct laying {
  int turn;      /* 0: tied tables, 1: what is summed over tp, 2: the rest */
  int64_t table; /* where the embedding's table lies */
} laying;

static void lay_out_unit(mal_arena *a, mal_rank *r, mal_instance *x, const mal_unit_part *u, void *context) {
  laying *l = context;
  const mal_plan *plan = r->program->plan;
  int turn = u->tied ? 0 : u->summed ? 1 : 2;
  (void)a;
  if (u->shared && l->turn == 2) x->param_at[u->param] = l->table;
  if (u->shared || turn != l->turn) return;
  x->param_at[u->param] = r->elements;
  const mal_block *b = x->plan->block;
  const mal_weight *w = b->block_class == MAL_B_EMBED ? &plan->model.weights[b->params[u->param].weight] : NULL;
  if (w && w->role == MAL_W_EMBED && w->split == MAL_SPLIT_VOCAB) l->table = r->elements;
  r->elements += u->elements;
}

/* ZeRO-2: a block's weights side by side, in the order in which its gradients lie in the bucket that is scattered. */
static void lay_out_by_gradient(mal_arena *a, mal_rank *r, mal_instance *x, const mal_unit_part *u, void *context) {
  const mal_block *b = x->plan->block;
  int64_t *ranks = context;
  (void)a;
  for (int i = 0; i < b->n_buffers; i++)
    if (b->buffers[i].region == MAL_R_BUCKET && b->buffers[i].param == u->param)
      x->param_at[u->param] = r->elements + b->buffers[i].offset_bytes / (int64_t)sizeof(float);
  x->unit_at = r->elements, x->held_at = r->grad_elements;
  if (u->last) r->elements += b->dense_elements, r->grad_elements += (b->dense_elements + *ranks - 1) / *ranks;
}

static void find_pieces(mal_arena *a, mal_rank *r, mal_instance *x, const mal_unit_part *u, void *context) {
  (void)context;
  bool owns = !u->tied || x->plan->block->block_class == MAL_B_EMBED;
  if (u->shared) return;
  mal_unit_pieces(a, r->program->plan, x->plan->block, u, x->layer, r->tp_index, owns, x->param_at[u->param],
                  &r->pieces);
}

static int by_place(const void *x, const void *y) {
  const mal_piece *p = x, *q = y;
  return (p->at > q->at) - (p->at < q->at);
}

/* ZeRO-2: this rank's part of each block. */
static void find_unit_shards(mal_arena *a, mal_rank *r) {
  int64_t ranks = r->program->plan->layout.dp, blocks = 0;
  for (int c = 0; c < r->stage_plan->n_chunks; c++) blocks += r->chunks[c].n;
  r->shards = MAL_ARRAY(a, mal_shard, blocks);
  for (int c = 0; c < r->stage_plan->n_chunks; c++)
    for (int i = 0; i < r->chunks[c].n; i++) {
      const mal_instance *x = &r->chunks[c].at[i];
      int64_t n = x->plan->block->dense_elements, each = (n + ranks - 1) / ranks, from = r->dp_index * each,
              to = from + each < n ? from + each : n;
      if (to > from) r->shards[r->n_shards++] = (mal_shard){x->unit_at + from, to - from, x->held_at};
    }
  r->state_elements = r->grad_elements;
}

/* This rank's part of each bucket, as gradient sync leaves it. */
static void find_shards(mal_arena *a, mal_rank *r) {
  const mal_plan *plan = r->program->plan;
  int64_t ranks = plan->layout.zero == 1 ? plan->layout.dp : 1, state = 0;
  if (plan->layout.zero >= 2) {
    find_unit_shards(a, r);
    return;
  }
  mal_builder b = {.profile = plan->profile, .layout = &plan->layout};
  int64_t size = ranks > 1 ? mal_bucket_size(&b, r->elements) : r->elements;
  r->shards = MAL_ARRAY(a, mal_shard, r->elements ? (r->elements + size - 1) / size : 0);
  for (int64_t at = 0; at < r->elements; at += size) {
    int64_t n = size < r->elements - at ? size : r->elements - at, each = (n + ranks - 1) / ranks;
    int64_t from = r->dp_index * each, to = from + each < n ? from + each : n;
    if (ranks == 1) from = 0, to = n;
    if (to > from) r->shards[r->n_shards++] = (mal_shard){at + from, to - from, state};
    state += each;
  }
  r->state_elements = state;
}

/* Shards cut along pieces. */
static void find_stretches(mal_arena *a, mal_rank *r, const mal_tensors *tensors) {
  r->stretches = MAL_ARRAY(a, mal_stretch, r->pieces.count + r->n_shards);
  int32_t s = 0;
  for (int32_t i = 0; i < r->pieces.count; i++) {
    const mal_piece *p = &r->pieces.at[i];
    int64_t end = p->at + p->rows * p->cols;
    while (s < r->n_shards && r->shards[s].at + r->shards[s].n <= p->at) s++;
    for (int32_t k = s; k < r->n_shards && r->shards[k].at < end; k++) {
      int64_t from = p->at > r->shards[k].at ? p->at : r->shards[k].at, to = r->shards[k].at + r->shards[k].n;
      if (to > end) to = end;
      r->stretches[r->n_stretches++] = (mal_stretch){from, to - from, r->shards[k].state + from - r->shards[k].at,
                                                     tensors->at[p->tensor].decay, p->owned};
    }
  }
}

/* --- memory -------------------------------------------------------------------------------------------------------------------- */

int64_t mal_rank_bytes(const mal_program *p) {
  int64_t bytes = 0;
  for (int64_t stage = 0; stage < p->plan->layout.pp; stage++)
    if (p->stages[stage].total_bytes > bytes) bytes = p->stages[stage].total_bytes;
  return (bytes + MAL_ALIGN + 0xffff) / 0x10000 * 0x10000; /* whole pages, the largest there are */
}

/* Regions one behind the other; those of the passes and those of the end of the step share what is not persistent. */
static mal_status take_memory(mal_arena *a, mal_rank *r, mal_error *e) {
  const mal_stage *s = r->stage_plan;
  r->memory_bytes = s->total_bytes;
  r->mapping_bytes = r->memory_bytes + MAL_ALIGN;
  mal_status status = r->backend->memory(r->comm, r->mapping_bytes, &r->mapping, e);
  if (status) return status;
  /* What lasts ends where a line begins, so that nothing is lost between it and what is aligned. */
  int64_t lasting = (r->elements + r->grad_elements + 2 * r->state_elements) * (int64_t)sizeof(float);
  r->memory = (char *)r->mapping + (mal_align(lasting) - lasting);
  r->param = (float *)(void *)r->memory;
  r->grad = r->param + r->elements;
  r->moments = r->grad + r->grad_elements;
  char *at = (char *)(r->moments + 2 * r->state_elements);
  r->work = at; /* of gradient sync and optimizer */
  for (int i = 0; i < s->n_pools; i++) {
    r->pool[i] = at;
    at += s->pools[i].bytes * s->pools[i].places;
    r->free_place[i] = MAL_ARRAY(a, int32_t, s->pools[i].places);
    for (int64_t k = 0; k < s->pools[i].places; k++)
      r->free_place[i][r->n_free[i]++] = (int32_t)(s->pools[i].places - 1 - k);
  }
  r->scratch = at;
  return MAL_OK;
}

static int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

/* Where work, io and messages lie behind the stash; checked against the planned total. */
static mal_status lay_out_scratch(mal_rank *r, const mal_block_plan *plans, mal_error *e) {
  const mal_stage *s = r->stage_plan;
  int64_t io = 0, work = 0, unit = 0;
  for (int c = 0; c < s->n_chunks; c++)
    for (int i = 0; i < s->chunks[c].n_runs; i++) {
      const mal_block_plan *p = &plans[s->chunks[c].runs[i].block];
      work = most(work, p->work_bytes + p->block->kernel_bytes);
      unit = most(unit, p->block->region_bytes[MAL_R_BUCKET]);
      for (int k = 0; k < p->block->n_buffers; k++)
        if (p->block->buffers[k].region == MAL_R_IO)
          io = most(io, p->block->buffers[k].offset_bytes + p->block->buffers[k].bytes);
    }
  r->half_bytes = r->program->boundary_bytes;
  r->message_bytes = mal_align(r->program->boundary_bytes);
  bool messages = r->program->plan->layout.pp > 1;
  char *end_work = r->work, *pass_work = r->scratch;
  r->io = pass_work + work;
  r->outgoing = r->io + mal_align(io);
  r->incoming = r->outgoing + r->message_bytes;
  r->unit_gradients = messages ? r->incoming + s->incoming * r->message_bytes : r->io + io;
  int64_t passes = r->unit_gradients + unit - r->memory;
  int64_t end = end_work - r->memory + most(r->sync->work_bytes, r->optimizer->work_bytes);
  r->bucket = end_work; /* of the end of the step */
  r->work = pass_work;
  r->used_bytes = most(passes, end);
  if (r->used_bytes > r->memory_bytes)
    return mal_fail(e, MAL_FAULT, "rank %d needs %lld bytes, its plan says %lld", (int)r->rank,
                    (long long)r->used_bytes, (long long)r->memory_bytes);
  return MAL_OK;
}

mal_status mal_rank_open(mal_arena *a, const mal_rank_request *q, mal_rank *r, mal_error *e) {
  const mal_plan *plan = q->program->plan;
  const mal_layout *l = &plan->layout;
  *r = (mal_rank){.rank = q->rank, .program = q->program, .device = q->device, .backend = q->backend};
  r->comm = q->backend->end(q->world, q->rank);
  r->tp_index = mal_rank_index(l, q->rank, MAL_AXIS_TP), r->dp_index = mal_rank_index(l, q->rank, MAL_AXIS_DP);
  r->stage = mal_rank_index(l, q->rank, MAL_AXIS_PP);
  r->stage_plan = &q->program->stages[r->stage];
  r->sending = MAL_COMM_NONE;
  for (int s = 0; s < MAL_STREAMS; s++) r->open[s].ticket = MAL_COMM_NONE;
  r->sequence = MAL_ARRAY(a, int64_t, plan->job.seq + 1);
  r->facts = (mal_rank_facts){.tokens = l->micro_batch * plan->job.seq,
                              .seq = plan->job.seq,
                              .tp_index = r->tp_index,
                              .vocab = plan->model.vocab,
                              .vocab_from = r->tp_index * (mal_padded_vocab(plan) / l->tp),
                              .norm_eps = (float)plan->model.norm_eps,
                              .loss_scale = 1.0f / (float)(plan->job.global_batch * plan->job.seq),
                              .rope = q->rope,
                              .kinds = plan->model.kinds};
  if (r->stage_plan->incoming > MAL_MAX_INCOMING)
    return mal_fail(e, MAL_FAULT, "%lld messages may wait", (long long)r->stage_plan->incoming);
  q->device->enter();
  mal_status status = open_groups(a, r, e);
  if (status) return status;
  mal_block_plan *plans = MAL_ARRAY(a, mal_block_plan, q->program->n_blocks);
  for (int b = 0; b < q->program->n_blocks; b++)
    plans[b] = plan_block(a, &q->program->blocks[b], q->program->split_backward);
  r->sync = &plans[r->stage_plan->sync], r->optimizer = &plans[r->stage_plan->optimizer];
  int64_t parts = l->pp * (l->vpp > 0 ? l->vpp : 1);
  int64_t *first = MAL_ARRAY(a, int64_t, parts), *count = MAL_ARRAY(a, int64_t, parts);
  mal_layout_stages(l, plan->model.layers, first, count);
  r->chunks = MAL_ARRAY(a, mal_chunk_place, r->stage_plan->n_chunks);
  for (int c = 0; c < r->stage_plan->n_chunks; c++) lay_out_chunk(a, r, plans, c, first);
  laying lay = {0};
  int64_t ranks = l->dp;
  if (l->zero >= 2)
    each_unit(a, r, lay_out_by_gradient, &ranks);
  else
    for (; lay.turn < 3; lay.turn++) each_unit(a, r, lay_out_unit, &lay);
  if (l->zero < 2) r->grad_elements = r->elements;
  each_unit(a, r, find_pieces, NULL);
  qsort(r->pieces.at, (size_t)r->pieces.count, sizeof *r->pieces.at, by_place);
  mal_tensors tensors;
  mal_tensors_list(a, &plan->model, &tensors);
  find_shards(a, r);
  find_stretches(a, r, &tensors);
  status = mal_schedule_stage(a, l, q->program->micro_batches, r->stage, &r->steps, &r->n_steps, e);
  if (!status) status = take_memory(a, r, e);
  if (!status) status = lay_out_scratch(r, plans, e);
  if (!status) mal_poison(r->bucket, (size_t)(r->memory + r->used_bytes - r->bucket));
  return status;
}

void mal_rank_close(mal_rank *r) {
  if (r->mapping) mal_unpoison(r->mapping, (size_t)r->mapping_bytes);
  r->mapping = NULL;
}

void mal_rank_state_of(const mal_rank *r, mal_rank_state *s) {
  *s = (mal_rank_state){.rank = r->rank,
                        .pieces = r->pieces.at,
                        .n_pieces = r->pieces.count,
                        .shards = r->shards,
                        .n_shards = r->n_shards,
                        .elements = r->elements,
                        .state_elements = r->state_elements,
                        .param = r->param,
                        .moment = {r->moments, r->moments + r->state_elements},
                        .owns_param = r->dp_index == 0};
}
