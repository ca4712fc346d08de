/* The interpreter: walks the stage's table, each entry's blocks, each block's list. Nothing here knows a model. */
#include "engine/poison.h"
#include "engine/rank.h"
#include "engine/where.h"
#include "program/builder.h"
#include <math.h>
#include <string.h>
#include <time.h>

double mal_now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct run { /* one list of one instance, for one micro-batch */
  mal_rank *r;
  const mal_step_request *q;
  const mal_block_plan *plan;
  const mal_instance *instance;    /* NULL: gradient sync, optimizer */
  char *base[MAL_HOLDS], *ends[5]; /* places of the stash; x, y, dy, dx by mal_end */
  char *work;
  int32_t chunk, micro_batch;
} run;

/* --- operands ------------------------------------------------------------------------------------------------------------- */

static char *flat(const run *x, float *space, const mal_buffer *f) {
  if (f->param >= 0 && x->instance) return (char *)(space + x->instance->param_at[f->param]);
  if (f->region == MAL_R_GRAD && x->instance) space += x->instance->held_at; /* what is left of a block's sums */
  return (char *)space + f->offset_bytes;
}

static char *address(const run *x, int buffer) {
  const mal_buffer *f = &x->plan->block->buffers[buffer];
  switch (f->region) {
  case MAL_R_PARAM: return flat(x, x->r->param, f);
  case MAL_R_GRAD: return flat(x, x->r->grad, f);
  case MAL_R_OPT: return (char *)x->r->moments + f->offset_bytes;
  case MAL_R_STASH: {
    int hold = x->plan->hold[buffer];
    return x->base[hold] + x->instance->stash_at[hold] + x->plan->hold_offset[buffer];
  }
  case MAL_R_IO: return x->plan->end[buffer] ? x->ends[x->plan->end[buffer]] : x->r->io + f->offset_bytes;
  case MAL_R_BUCKET: return x->r->unit_gradients + f->offset_bytes;
  default: return x->work + f->offset_bytes;
  }
}

static int64_t elements(const run *x, int buffer) {
  const mal_buffer *f = &x->plan->block->buffers[buffer];
  return f->bytes / (int64_t)mal_dtype_bytes[f->dtype];
}

static const int64_t *sizes(const run *x, const mal_instruction *i) { return x->plan->block->sizes[i->sizes].v; }

/* --- what an instruction may touch (poison.h) --- */

/* Opens or closes the operands of an instruction; weights, gradients and states are always open. */
static void show_operands(const run *x, const mal_instruction *i, bool open) {
#ifdef MAL_POISONS
  const mal_block *b = x->plan->block;
  for (int k = 0; k < MAL_INPUTS + MAL_OUTPUTS; k++) {
    uint16_t f = k < MAL_INPUTS ? i->in[k] : i->out[k - MAL_INPUTS];
    if (f == MAL_NO_BUFFER || b->buffers[f].region < MAL_R_STASH) continue;
    if (open)
      mal_unpoison(address(x, f), (size_t)b->buffers[f].bytes);
    else
      mal_poison(address(x, f), (size_t)b->buffers[f].bytes);
  }
#else
  (void)x, (void)i, (void)open;
#endif
}

/* Those of calls under way stay open. */
static void hide_operands(const run *x, const mal_instruction *i) {
  show_operands(x, i, false);
  for (int s = 0; s < MAL_STREAMS; s++)
    if (x->r->open[s].ticket != MAL_COMM_NONE) show_operands(x, x->r->open[s].instruction, true);
}

static void copy_open(void *to, const void *from, size_t bytes) {
  mal_unpoison(to, bytes), mal_unpoison(from, bytes);
  memcpy(to, from, bytes);
  mal_poison(to, bytes), mal_poison(from, bytes);
}

/* --- calls on streams --------------------------------------------------------------------------------------------------------- */

static void trace(const run *x, const mal_instruction *i, double from, double to) {
  if (!x->r->timeline) return;
  const char *name = i->op == MAL_OP_COLLECTIVE ? mal_collective_name[i->variant] : mal_ops[i->op].name;
  mal_timeline_add(x->r->timeline, (mal_event){.name = name,
                                               .rank = x->r->rank,
                                               .stream = i->stream,
                                               .chunk = x->chunk,
                                               .micro_batch = x->micro_batch,
                                               .start_s = from - x->r->epoch_s,
                                               .end_s = to - x->r->epoch_s});
}

/* A stream has at most one call under way: what follows on it may need its result. */
static mal_status finish(const run *x, int stream, mal_error *e) {
  mal_open *open = &x->r->open[stream];
  if (open->ticket == MAL_COMM_NONE) return MAL_OK;
  mal_status status = x->r->backend->wait(x->r->comm, open->ticket, e);
  open->ticket = MAL_COMM_NONE;
  hide_operands(x, open->instruction);
  trace(x, open->instruction, open->started_s, mal_now_s());
  return status;
}

static mal_status wait_for(const run *x, uint16_t event, mal_error *e) {
  if (event == MAL_NO_EVENT) return MAL_OK;
  for (int s = 0; s < MAL_STREAMS; s++)
    if (x->r->open[s].ticket != MAL_COMM_NONE && x->r->open[s].instruction->record == event) return finish(x, s, e);
  return MAL_OK;
}

/* A shard of a bucket names the bucket's own place: it lies at its member's. */
static char *own_piece(const run *x, const mal_instruction *i, char *whole, int64_t n, int64_t size) {
  const mal_members *m = &x->r->members_of[i->axes];
  int64_t ranks = mal_members_size(m);
  return whole + mal_members_index(m, x->r->rank) * ((n + ranks - 1) / ranks) * size;
}

/* ZeRO-2's weights come together block by block, for so they are cut: at the first of the plan's buckets, all of them; the bytes are
 * those of the buckets. */
static mal_status gather_units(const run *x, const mal_instruction *i, mal_error *e) {
  const mal_rank *r = x->r;
  int64_t ranks = mal_members_size(&r->members_of[i->axes]);
  mal_status status = MAL_OK;
  if (x->plan->block->buffers[i->out[0]].offset_bytes) return MAL_OK;
  for (int c = 0; c < r->stage_plan->n_chunks && !status; c++)
    for (int k = 0; k < r->chunks[c].n && !status; k++) {
      int64_t n = r->chunks[c].at[k].plan->block->dense_elements, each = (n + ranks - 1) / ranks;
      float *whole = r->param + r->chunks[c].at[k].unit_at;
      mal_comm_call call = {.op = MAL_ALL_GATHER,
                            .dtype = MAL_F32,
                            .in = {whole + mal_members_index(&r->members_of[i->axes], r->rank) * each},
                            .out = {whole},
                            .elements = {n},
                            .name = "all-gather",
                            .step = r->step};
      mal_comm_ticket t;
      status = r->backend->start(r->comm, r->group_of[i->axes], &call, &t, e);
      if (!status) status = r->backend->wait(r->comm, t, e);
    }
  return status;
}

static mal_status start_collective(const run *x, const mal_instruction *i, mal_comm_ticket *t, mal_error *e) {
  mal_comm_call call = {.op = i->variant,
                        .reduction = i->flags & MAL_INS_MAX ? MAL_MAX : MAL_SUM,
                        .dtype = i->dtype,
                        .name = mal_collective_name[i->variant],
                        .step = x->r->step,
                        .instruction = i - x->plan->block->list[MAL_L_F]};
  for (int p = 0; p < MAL_COMM_PARTS; p++) {
    if (i->in[p] == MAL_NO_BUFFER) continue;
    char *in = address(x, i->in[p]), *out = address(x, i->out[p]);
    const mal_buffer *f = &x->plan->block->buffers[i->in[p]];
    int64_t size = (int64_t)mal_dtype_bytes[f->dtype];
    call.elements[p] = elements(x, i->variant == MAL_ALL_GATHER ? i->out[p] : i->in[p]);
    if (in == out && i->variant == MAL_REDUCE_SCATTER) out = own_piece(x, i, in, call.elements[p], size);
    if (in == out && i->variant == MAL_ALL_GATHER) in = own_piece(x, i, out, call.elements[p], size);
    call.in[p] = in, call.out[p] = out;
  }
  return x->r->backend->start(x->r->comm, x->r->group_of[i->axes], &call, t, e);
}

/* The two stages that have a tied table exchange its gradient: the first and the last. */
static mal_status exchange_tied(const run *x, const mal_instruction *i, mal_error *e) {
  const mal_comm_backend *c = x->r->backend;
  int32_t last = (int32_t)x->r->program->plan->layout.pp - 1, peer = x->r->stage == 0 ? last : 0,
          group = x->r->group_of[i->axes];
  int64_t bytes = sizes(x, i)[0];
  mal_comm_ticket out = MAL_COMM_NONE, in = MAL_COMM_NONE;
  mal_status status = c->send(x->r->comm, group, peer, 0, address(x, i->in[0]), bytes, &out, e);
  if (!status) status = c->recv(x->r->comm, group, peer, 0, address(x, i->out[0]), bytes, &in, e);
  if (!status) status = c->wait(x->r->comm, in, e);
  return status ? status : c->wait(x->r->comm, out, e);
}

/* --- the end of the step -------------------------------------------------------------------------------------------------------- */

static void square_gradients(const run *x, const mal_instruction *i) {
  double sum = 0;
  for (int32_t k = 0; k < x->r->n_stretches; k++) {
    const mal_stretch *s = &x->r->stretches[k];
    if (s->owned) sum += x->r->device->sum_squares(mal_gradients_at(x->r, s->at, s->state), s->n);
  }
  *(float *)(void *)address(x, i->out[0]) = (float)sum;
}

/* torch.nn.utils.clip_grad_norm_'s factor. */
static void clip_gradients(const run *x, const mal_instruction *i) {
  double norm = sqrt((double)*(const float *)(const void *)address(x, i->in[1]));
  x->r->grad_norm = norm;
  if (!(x->q->clip > 0) || !(norm > (double)x->q->clip)) return;
  float factor = (float)((double)x->q->clip / (norm + 1e-6));
  for (int32_t k = 0; k < x->r->n_shards; k++)
    x->r->device->scale(mal_gradients_at(x->r, x->r->shards[k].at, x->r->shards[k].state), x->r->shards[k].n, factor);
}

static void update_weights(const run *x) {
  mal_adamw with = x->q->adamw, without = with;
  without.decay = 0;
  float *first = x->r->moments, *second = first + x->r->state_elements;
  for (int32_t k = 0; k < x->r->n_stretches; k++) {
    const mal_stretch *s = &x->r->stretches[k];
    x->r->device->adamw(s->decay ? &with : &without, x->r->param + s->at, mal_gradients_at(x->r, s->at, s->state),
                        first + s->state, second + s->state, s->n);
  }
}

static bool end_of_step(const run *x, const mal_instruction *i) {
  if (x->plan->block->block_class != MAL_B_OPTIMIZER) return false;
  switch (i->op) {
  case MAL_OP_SUM_SQUARES: square_gradients(x, i); return true;
  case MAL_OP_SCALE: clip_gradients(x, i); return true;
  case MAL_OP_OPTIMIZER: update_weights(x); return true;
  default: return false;
  }
}

/* --- instructions ------------------------------------------------------------------------------------------------------------------ */

static void compute(const run *x, const mal_instruction *i) {
  const mal_block *b = x->plan->block;
  mal_kernel_call c = {.i = i, .v = sizes(x, i), .scratch = x->work + x->plan->work_bytes, .facts = &x->r->facts};
  for (int k = 0; k < MAL_INPUTS; k++)
    if (i->in[k] != MAL_NO_BUFFER) c.in[k] = address(x, i->in[k]), c.n_in[k] = elements(x, i->in[k]);
  for (int k = 0; k < MAL_OUTPUTS; k++)
    if (i->out[k] != MAL_NO_BUFFER) c.out[k] = address(x, i->out[k]), c.n_out[k] = elements(x, i->out[k]);
  if (b->block_class == MAL_B_LAYER) c.kind = &x->r->program->plan->model.kinds[b->kind];
  if (i->op == MAL_OP_EMBED) {
    const mal_buffer *table = &b->buffers[i->flags & MAL_INS_GRAD ? i->out[0] : i->in[1]];
    c.role = (int)x->r->program->plan->model.weights[b->params[table->param].weight].role;
  }
  mal_unpoison(c.scratch, (size_t)b->kernel_bytes);
  x->r->device->kernel[i->op](&c);
  mal_poison(c.scratch, (size_t)b->kernel_bytes);
  x->r->flops += c.flops;
  x->r->loss_sum += c.loss_sum;
}

static mal_status execute(const run *x, const mal_instruction *i, mal_error *e) {
  mal_status status = wait_for(x, i->wait[0], e);
  if (!status) status = wait_for(x, i->wait[1], e);
  if (!status) status = finish(x, i->stream, e);
  if (status) return status;
  double from = mal_now_s();
  x->r->instructions++;
  if (i->op == MAL_OP_COLLECTIVE) {
    mal_open *open = &x->r->open[i->stream];
    *open = (mal_open){MAL_COMM_NONE, i, from};
    show_operands(x, i, true);
    bool by_units = i->variant == MAL_ALL_GATHER && !x->instance && x->r->program->plan->layout.zero == 2;
    status = by_units ? gather_units(x, i, e) : start_collective(x, i, &open->ticket, e);
    return status || i->stream != MAL_STREAM_COMPUTE ? status : finish(x, i->stream, e);
  }
  show_operands(x, i, true);
  if (i->op == MAL_OP_SEND)
    status = exchange_tied(x, i, e);
  else if (!end_of_step(x, i))
    compute(x, i);
  hide_operands(x, i);
  trace(x, i, from, mal_now_s());
  return status;
}

static mal_status run_list(const run *x, mal_list list, mal_error *e) {
  const mal_block *b = x->plan->block;
  mal_rank_place *place = x->r->place;
  mal_status status = MAL_OK;
  for (int i = 0; i < b->count[list] && !status; i++) {
    if (place) mal_place_set(place, x->r->step + 1, mal_where(b - x->r->program->blocks, list, i, x->micro_batch));
    status = execute(x, &b->list[list][i], e);
  }
  for (int s = 0; s < MAL_STREAMS && !status; s++) status = finish(x, s, e); /* a list ends joined */
  return status;
}

/* --- micro-batches ------------------------------------------------------------------------------------------------------------------- */

static mal_status read_tokens(const run *x, mal_error *e) {
  if (x->plan->tokens < 0) return MAL_OK;
  const mal_plan *plan = x->r->program->plan;
  int64_t *ids = (int64_t *)(void *)address(x, x->plan->tokens), seq = plan->job.seq, n = plan->layout.micro_batch;
  int64_t first = x->q->first_sequence + (x->r->dp_index * x->r->program->micro_batches + x->micro_batch) * n;
  bool labels = x->plan->block->block_class == MAL_B_HEAD;
  for (int64_t k = 0; k < n; k++) {
    mal_status status = x->q->source->read(x->q->source->context, first + k, x->r->sequence, e);
    if (status) return status;
    mal_unpoison(ids + k * seq, (size_t)seq * sizeof *ids);
    memcpy(ids + k * seq, x->r->sequence + labels, (size_t)seq * sizeof *ids);
    mal_poison(ids + k * seq, (size_t)seq * sizeof *ids);
  }
  return MAL_OK;
}

static void enter(run *x, const mal_chunk_place *c, const mal_step *s) {
  const mal_chunk *chunk = &x->r->stage_plan->chunks[s->chunk];
  for (int h = 0; h < MAL_HOLDS; h++)
    if (chunk->pool[h] >= 0)
      x->base[h] = x->r->pool[chunk->pool[h]] + c->place[s->slot][h] * x->r->stage_plan->pools[chunk->pool[h]].bytes;
  x->chunk = s->chunk, x->micro_batch = (int32_t)s->micro_batch;
}

static void take_place(mal_rank *r, const mal_step *s, mal_hold h) {
  int pool = r->stage_plan->chunks[s->chunk].pool[h];
  if (pool >= 0) r->chunks[s->chunk].place[s->slot][h] = r->free_place[pool][--r->n_free[pool]];
}

static void leave_place(mal_rank *r, const mal_step *s, mal_hold h) {
  int pool = r->stage_plan->chunks[s->chunk].pool[h];
  if (pool >= 0) r->free_place[pool][r->n_free[pool]++] = r->chunks[s->chunk].place[s->slot][h];
}

/* Where instance i's end lies: in its stash, or in one of the two halves of IO, by turns. */
static char *end_of(run *x, const mal_chunk_place *c, int i, mal_end end) {
  const mal_block_plan *p = c->at[i].plan;
  int32_t buffer = end == MAL_END_X ? p->x : p->dy;
  if (buffer >= 0 && p->block->buffers[buffer].region == MAL_R_STASH) {
    int hold = p->hold[buffer];
    return x->base[hold] + c->at[i].stash_at[hold] + p->hold_offset[buffer];
  }
  return x->r->io + (i & 1) * x->r->half_bytes;
}

static mal_status await_message(const run *x, mal_message *m, mal_error *e) {
  static const mal_instruction receive = {.op = MAL_OP_RECV, .stream = MAL_STREAM_PP};
  if (m->ticket == MAL_COMM_NONE) return MAL_OK;
  mal_status status = x->r->backend->wait(x->r->comm, m->ticket, e);
  m->ticket = MAL_COMM_NONE;
  trace(x, &receive, m->started_s, mal_now_s());
  return status;
}

/* Moves the message for this entry, if there is one, to where it is used, once it has come. */
static mal_status take_message(run *x, const mal_step *s, bool backward, char *to, mal_error *e) {
  mal_rank *r = x->r;
  for (int64_t k = 0; k < r->stage_plan->incoming; k++) {
    mal_message *m = &r->messages[k];
    if (!m->taken || m->chunk != s->chunk || m->micro_batch != s->micro_batch || m->backward != backward) continue;
    mal_status status = await_message(x, m, e);
    m->taken = false;
    if (!status) copy_open(to, r->incoming + k * r->message_bytes, (size_t)r->half_bytes);
    return status;
  }
  return MAL_OK;
}

static void run_ends(run *x, const mal_chunk_place *c, int i, mal_end in, mal_end out, int next) {
  x->instance = &c->at[i], x->plan = c->at[i].plan;
  x->ends[in] = end_of(x, c, i, in);
  x->ends[out] = next >= 0 && next < c->n ? end_of(x, c, next, in) : x->r->io + ((i & 1) ^ 1) * x->r->half_bytes;
}

static mal_status forward(run *x, const mal_step *s, mal_error *e) {
  mal_chunk_place *c = &x->r->chunks[s->chunk];
  take_place(x->r, s, MAL_HOLD_F_TO_B), take_place(x->r, s, MAL_HOLD_F_TO_W);
  enter(x, c, s);
  mal_status status = take_message(x, s, false, end_of(x, c, 0, MAL_END_X), e);
  for (int i = 0; i < c->n && !status; i++) {
    run_ends(x, c, i, MAL_END_X, MAL_END_Y, i + 1);
    status = read_tokens(x, e);
    if (!status) status = run_list(x, MAL_L_F, e);
  }
  return status;
}

/* B or both B and W; what is recomputed first, layer by layer. */
static mal_status backward(run *x, const mal_step *s, mal_list list, mal_error *e) {
  mal_chunk_place *c = &x->r->chunks[s->chunk];
  if (list == MAL_L_B) take_place(x->r, s, MAL_HOLD_B_TO_W);
  enter(x, c, s);
  mal_status status = take_message(x, s, true, end_of(x, c, c->n - 1, MAL_END_DY), e);
  for (int i = c->n - 1; i >= 0 && !status; i--) {
    run_ends(x, c, i, MAL_END_DY, MAL_END_DX, i - 1);
    x->ends[MAL_END_X] = end_of(x, c, i, MAL_END_X);
    status = read_tokens(x, e);
    if (!status) status = run_list(x, MAL_L_R, e);
    if (!status) status = run_list(x, list, e);
    if (!status) status = run_list(x, MAL_L_REDUCE, e);
  }
  leave_place(x->r, s, MAL_HOLD_F_TO_B);
  return status;
}

static mal_status weight_gradients(run *x, const mal_step *s, mal_error *e) {
  mal_chunk_place *c = &x->r->chunks[s->chunk];
  enter(x, c, s);
  mal_status status = MAL_OK;
  for (int i = c->n - 1; i >= 0 && !status; i--) {
    x->instance = &c->at[i], x->plan = c->at[i].plan;
    status = read_tokens(x, e);
    if (!status) status = run_list(x, MAL_L_W, e);
  }
  leave_place(x->r, s, MAL_HOLD_F_TO_W), leave_place(x->r, s, MAL_HOLD_B_TO_W);
  return status;
}

/* --- messages between stages ------------------------------------------------------------------------------------------------------------ */

static uint64_t tag_of(const mal_step *s, int64_t chunk, bool backward) {
  return (uint64_t)s->micro_batch << 16 | (uint64_t)chunk << 8 | (uint64_t)backward;
}

/* The chunk, on its own stage, that computed what comes or takes what goes: messages are named by the sender's. */
static int64_t sender_chunk(const mal_rank *r, const mal_step *s) {
  const mal_layout *l = &r->program->plan->layout;
  if (s->op == MAL_S_RECV_F) return s->chunk - (r->stage == 0);
  if (s->op == MAL_S_RECV_B) return s->chunk + (r->stage == l->pp - 1);
  return s->chunk;
}

static mal_status send_message(run *x, const mal_step *s, mal_error *e) {
  mal_rank *r = x->r;
  bool back = s->op == MAL_S_SEND_B;
  int32_t peer = (int32_t)mal_schedule_peer(&r->program->plan->layout, r->stage, s);
  if (r->sending != MAL_COMM_NONE) {
    mal_status status = r->backend->wait(r->comm, r->sending, e);
    r->sending = MAL_COMM_NONE;
    if (status) return status;
  }
  int n = r->chunks[s->chunk].n, last = back ? 0 : n - 1;
  copy_open(r->outgoing, r->io + ((last & 1) ^ 1) * r->half_bytes, (size_t)r->half_bytes);
  mal_unpoison(r->outgoing, (size_t)r->half_bytes);
  return r->backend->send(r->comm, r->stages_group, peer, tag_of(s, sender_chunk(r, s), back), r->outgoing,
                          r->half_bytes, &r->sending, e);
}

/* Asks for it only: what it feeds waits. */
static mal_status receive_message(run *x, const mal_step *s, mal_error *e) {
  mal_rank *r = x->r;
  bool back = s->op == MAL_S_RECV_B;
  int32_t peer = (int32_t)mal_schedule_peer(&r->program->plan->layout, r->stage, s);
  int64_t k = 0, open = 0;
  while (k < r->stage_plan->incoming && r->messages[k].taken) k++;
  if (k == r->stage_plan->incoming) return mal_fail(e, MAL_FAULT, "more messages wait than the plan has places for");
  for (int64_t i = 0; i < r->stage_plan->incoming; i++)
    open += r->messages[i].taken && r->messages[i].ticket != MAL_COMM_NONE;
  mal_message *m = &r->messages[k];
  char *into = r->incoming + k * r->message_bytes;
  mal_unpoison(into, (size_t)r->half_bytes);
  *m = (mal_message){true, back, s->chunk, s->micro_batch, MAL_COMM_NONE, mal_now_s()};
  mal_status status = r->backend->recv(r->comm, r->stages_group, peer, tag_of(s, sender_chunk(r, s), back), into,
                                       r->half_bytes, &m->ticket, e);
  x->chunk = s->chunk, x->micro_batch = (int32_t)s->micro_batch;
  return status || open < MAL_OPEN_INCOMING ? status : await_message(x, m, e);
}

/* --- a step --------------------------------------------------------------------------------------------------------------------------------- */

static mal_status one_entry(run *x, const mal_step *s, mal_error *e) {
  if (x->r->place) mal_place_set(x->r->place, x->r->step + 1, mal_where(0, MAL_LISTS, s->op, s->micro_batch));
  switch (s->op) {
  case MAL_S_F: return forward(x, s, e);
  case MAL_S_B: return backward(x, s, MAL_L_B, e);
  case MAL_S_BW: return backward(x, s, MAL_L_BW, e);
  case MAL_S_W: return weight_gradients(x, s, e);
  case MAL_S_SEND_F:
  case MAL_S_SEND_B: return send_message(x, s, e);
  case MAL_S_RECV_F:
  case MAL_S_RECV_B: return receive_message(x, s, e);
  default: break;
  }
  run end = {.r = x->r,
             .q = x->q,
             .plan = s->op == MAL_S_SYNC ? x->r->sync : x->r->optimizer,
             .work = x->r->bucket,
             .chunk = -1,
             .micro_batch = -1};
  return run_list(&end, MAL_L_F, e);
}

/* --- evaluation ------------------------------------------------------------------------------------------------------------------------------- */

/* The loss of the head's rows as forward left it: with the largest of all ranks apart, or log Σ e^x and the label's x. */
static void add_loss(run *x) {
  const mal_block *b = x->plan->block;
  for (int i = 0; i < b->count[MAL_L_F]; i++) {
    const mal_instruction *f = &b->list[MAL_L_F][i];
    if (f->op != MAL_OP_CROSS_ENTROPY) continue;
    const float *sums = (const float *)(const void *)address(x, f->out[0]);
    int64_t rows = sizes(x, f)[0];
    mal_unpoison(sums, (size_t)rows * 2 * sizeof *sums);
    bool apart = f->in[2] != MAL_NO_BUFFER;
    for (int64_t r = 0; r < rows; r++)
      x->r->loss_sum += (apart ? (double)logf(sums[r]) : (double)sums[r]) - (double)sums[rows + r];
  }
}

mal_status mal_rank_evaluate(mal_rank *r, const mal_step_request *q, mal_error *e) {
  run x = {.r = r, .q = q, .work = r->work};
  mal_status status = MAL_OK;
  double flops = r->flops; /* stay those of the last step */
  r->loss_sum = 0;
  for (int64_t i = 0; i < r->n_steps && !status; i++) {
    const mal_step *s = &r->steps[i];
    if (s->op != MAL_S_F && s->op != MAL_S_SEND_F && s->op != MAL_S_RECV_F) continue;
    status = one_entry(&x, s, e);
    if (s->op != MAL_S_F || status) continue;
    if (x.plan && x.plan->block->block_class == MAL_B_HEAD) add_loss(&x);
    leave_place(r, s, MAL_HOLD_F_TO_B), leave_place(r, s, MAL_HOLD_F_TO_W);
  }
  r->flops = flops;
  if (!status && r->sending != MAL_COMM_NONE) status = r->backend->wait(r->comm, r->sending, e);
  r->sending = MAL_COMM_NONE;
  return status;
}

mal_status mal_rank_step(mal_rank *r, const mal_step_request *q, mal_error *e) {
  run x = {.r = r, .q = q, .work = r->work};
  mal_status status = MAL_OK;
  r->flops = r->loss_sum = 0;
  r->instructions = 0;
  r->step = q->step;
  memset(r->grad, 0, (size_t)r->grad_elements * sizeof *r->grad);
  for (int64_t i = 0; i < r->n_steps && !status; i++) status = one_entry(&x, &r->steps[i], e);
  if (!status && r->sending != MAL_COMM_NONE) status = r->backend->wait(r->comm, r->sending, e);
  r->sending = MAL_COMM_NONE;
  return status;
}
