/* Optimizer: the norm of all gradients, clipping, the update of this rank's shard, weights gathered again (ZeRO-1, ZeRO-2).
 * Offloaded states are updated by the host, a piece at a time (Ren et al., arXiv:2101.06840; from NVMe: Rajbhandari et al.,
 * arXiv:2104.07857). */
#include "program/builder.h"

enum { BLOCK_8BIT = 256, STATE_BLOCKS_BYTES = 8 /* two fp32 scales a block: Dettmers et al., arXiv:2110.02861 */ };

int64_t mal_optimizer_state_bytes(int optimizer, int64_t elements, int64_t vectors) {
  switch (optimizer) {
  case MAL_ADAMW: return 8 * elements;
  case MAL_ADAMW_BF16: return 4 * elements;
  case MAL_ADAMW8BIT: return 2 * elements + STATE_BLOCKS_BYTES * mal_ceil_div(elements, BLOCK_8BIT);
  case MAL_SGD_MOMENTUM:
  case MAL_LION: return 4 * elements;
  case MAL_MUON: return 4 * elements + 4 * vectors; /* Adam for embeddings, head and vectors */
  default: return 0;                                /* SGD; Adafactor: a row and a column of each matrix */
  }
}

typedef struct part { /* dense weights, or experts: this rank's shard */
  bool expert;
  int64_t all, n, vectors, shards, from; /* from: its place among the parameters */
} part;

static part part_of(const mal_builder *b, bool expert) {
  const mal_block_request *r = b->r;
  part p = {.expert = expert, .all = expert ? r->expert_elements : r->dense_elements, .shards = mal_shards(b, expert)};
  p.n = !expert && r->held_elements ? r->held_elements : mal_ceil_div(p.all, p.shards);
  p.vectors = expert ? 0 : mal_ceil_div(r->vector_elements, p.shards);
  p.from = expert ? r->dense_elements : 0;
  return p;
}

/* States of one part take turns in their regions: dense first. */
static mal_ref state(mal_builder *b, const char *name, mal_dtype type, int64_t elements, mal_region region) {
  mal_ref x = mal_buffer_in(b, name, type, elements, region);
  mal_buffer *f = mal_at(b, x);
  int place = b->layout->offload_optimizer;
  f->place = (uint8_t)place;
  int64_t *total = place == MAL_OFFLOAD_NONE  ? &b->out->region_bytes[region]
                   : place == MAL_OFFLOAD_CPU ? &b->out->host_bytes
                                              : &b->out->nvme_bytes;
  f->offset_bytes = *total;
  *total += f->bytes;
  return x;
}

static bool has_master(const mal_builder *b) {
  bool pure = b->plan->job.optimizer == MAL_ADAMW_BF16 && b->plan->job.master != MAL_MASTER_FP32;
  return b->profile->master_fp32 && mal_dtype_bytes[b->store] < 4 && !pure;
}

static mal_ref gradients(mal_builder *b, const part *p) {
  mal_ref x = mal_buffer_in(b, "gradients", mal_grad_type(b), p->n, MAL_R_GRAD);
  mal_at(b, x)->offset_bytes =
      (b->layout->zero >= 2 && p->expert ? part_of(b, false).n : p->from) * (int64_t)mal_dtype_bytes[mal_grad_type(b)];
  if (b->layout->zero >= 2 && b->layout->offload_optimizer != MAL_OFFLOAD_NONE) mal_at(b, x)->place = MAL_HOST;
  return x;
}

/* Where this block's collectives over the data-parallel ranks run: one stream, so that their order is one. */
static mal_stream data_stream(const mal_builder *b) {
  return b->layout->overlap_dp_param > 0 ? MAL_STREAM_DP : MAL_STREAM_COMPUTE;
}

static void norm_of_all(mal_builder *b, const mal_ref grads[2]) {
  const mal_layout *l = b->layout;
  unsigned axes = (l->tp > 1 ? MAL_AXIS_BIT(MAL_AXIS_TP) : 0) | (l->pp > 1 ? MAL_AXIS_BIT(MAL_AXIS_PP) : 0);
  unsigned data = MAL_AXIS_BIT(MAL_AXIS_DP) | MAL_AXIS_BIT(MAL_AXIS_CP);
  if (l->zero > 0 || b->r->expert_elements) axes |= data;
  mal_ref sum = mal_buffer_new(b, "norm", MAL_F32, 1);
  for (int k = 0, n = 0; k < 2; k++)
    if (grads[k])
      mal_forward(b, (mal_emit){.op = MAL_OP_SUM_SQUARES,
                                .dtype = mal_at(b, grads[k])->dtype,
                                .in = {grads[k]},
                                .out = {sum},
                                .flags = n++ ? MAL_INS_ACCUMULATE : 0,
                                .v = {mal_elements(b, grads[k])}});
  if (l->tp * l->pp * l->dp * l->cp > 1 && axes)
    mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                              .variant = MAL_ALL_REDUCE,
                              .axes = (uint8_t)axes,
                              .dtype = MAL_F32,
                              .cause = MAL_TIME_OPTIMIZER + 1,
                              .in = {sum},
                              .out = {sum},
                              .v = {4},
                              .stream = data_stream(b),
                              .plain_stream = true});
  for (int k = 0; k < 2; k++)
    if (grads[k])
      mal_forward(b, (mal_emit){.op = MAL_OP_SCALE,
                                .dtype = mal_at(b, grads[k])->dtype,
                                .cause = MAL_TIME_OPTIMIZER + 1,
                                .in = {grads[k], sum},
                                .out = {grads[k]},
                                .v = {mal_elements(b, grads[k])}});
}

/* Operators one after the other (torch.optim's foreach): decay and mix the moments, take a root into a temporary. */
static mal_ref passes_apart(mal_builder *b, mal_ref grad, mal_ref states, int64_t n) {
  mal_ref root = mal_buffer_new(b, "optimizer.root", MAL_F32, n);
  mal_emit i = {
      .op = MAL_OP_SCALE, .dtype = MAL_F32, .cause = MAL_TIME_OPTIMIZER + 1, .in = {states}, .out = {states}, .v = {n}};
  mal_forward(b, i);
  i.op = MAL_OP_ADD, i.in[0] = grad, i.flags = MAL_INS_ACCUMULATE;
  mal_forward(b, i);
  i.op = MAL_OP_SCALE, i.in[0] = states, i.out[0] = root, i.flags = 0;
  mal_forward(b, i);
  return root;
}

static mal_emit copy(const mal_builder *b, mal_ref from, mal_ref to, mal_place source, mal_place target) {
  return (mal_emit){.op = MAL_OP_COPY,
                    .stream = MAL_STREAM_COPY,
                    .dtype = MAL_I8,
                    .variant = (uint8_t)(source << 4 | target),
                    .in = {from},
                    .out = {to},
                    .v = {mal_at(b, from)->bytes}};
}

/* The shard's gradients side by side in a buffer of their own (DeepSpeed's flatten of averaged_gradients). */
static mal_ref flattened(mal_builder *b, const part *p, mal_ref grad) {
  if (!b->profile->flattens_shard || mal_at(b, grad)->dtype == MAL_F32) return grad;
  mal_ref flat = mal_buffer_in(b, "gradients.flat", (mal_dtype)mal_at(b, grad)->dtype, p->n, MAL_R_BUCKET);
  mal_at(b, flat)->offset_bytes = b->out->region_bytes[MAL_R_BUCKET];
  b->out->region_bytes[MAL_R_BUCKET] += mal_at(b, flat)->bytes;
  mal_forward(b, (mal_emit){.op = MAL_OP_COPY,
                            .dtype = mal_at(b, flat)->dtype,
                            .cause = MAL_TIME_OPTIMIZER + 1,
                            .in = {grad},
                            .out = {flat},
                            .v = {mal_at(b, flat)->bytes}});
  return flat;
}

/* --- on the host: piece by piece, so that what moves needs little room beside what stays --- */

enum { MAX_PIECES = 256, LEAST_PIECE = 1 << 26 }; /* elements: long enough for full rate */

/* Elements [from, from + n) of a buffer whose bytes are laid out in `all` equal parts. */
static mal_ref slice(mal_builder *b, mal_ref of, int64_t from, int64_t n, int64_t all) {
  if (!of) return 0;
  const mal_buffer f = *mal_at(b, of);
  int64_t size = (int64_t)mal_dtype_bytes[f.dtype], whole = mal_elements(b, of);
  int64_t first = (int64_t)((__int128)whole * from / all), end = (int64_t)((__int128)whole * (from + n) / all);
  mal_ref x = mal_buffer_in(b, f.name, (mal_dtype)f.dtype, end - first, (mal_region)f.region);
  mal_at(b, x)->place = f.place;
  mal_at(b, x)->offset_bytes = f.offset_bytes + first * size;
  b->side[x].token = of;
  return x;
}

/* Where pieces of one buffer lie on the host, one after the other. */
typedef struct staging {
  mal_ref first; /* 0: not needed, it lies on the host */
  int64_t offset_bytes;
} staging;

static mal_ref stage(mal_builder *b, staging *s, mal_ref piece) {
  mal_ref x = mal_buffer_in(b, "staging", (mal_dtype)mal_at(b, piece)->dtype, mal_elements(b, piece), MAL_R_IO);
  mal_at(b, x)->place = MAL_HOST;
  if (!s->first) {
    s->first = x;
    s->offset_bytes = b->out->host_bytes;
    b->out->host_bytes += mal_at(b, x)->bytes; /* the first piece is the largest */
  } else {
    b->side[x].token = s->first;
  }
  mal_at(b, x)->offset_bytes = s->offset_bytes;
  return x;
}

static mal_ref bring(mal_builder *b, staging *s, mal_ref piece) {
  if (!piece || mal_at(b, piece)->place == MAL_HOST) return piece;
  mal_ref x = stage(b, s, piece);
  mal_forward(b, copy(b, piece, x, (mal_place)mal_at(b, piece)->place, MAL_HOST));
  return x;
}

static void bring_back(mal_builder *b, mal_ref here, mal_ref piece) {
  if (here != piece) mal_forward(b, copy(b, here, piece, MAL_HOST, (mal_place)mal_at(b, piece)->place));
}

typedef struct operands {
  mal_ref grad, param, master, states;
} operands;

static void update_on_host(mal_builder *b, const part *p, const operands *all) {
  staging room[4] = {{0}};
  int64_t size = mal_ceil_div(p->n, MAX_PIECES);
  if (size < LEAST_PIECE) size = LEAST_PIECE;
  for (int64_t at = 0; at < p->n; at += size) {
    int64_t n = size < p->n - at ? size : p->n - at;
    operands home = {slice(b, all->grad, at, n, p->n), slice(b, all->param, at, n, p->n),
                     slice(b, all->master, at, n, p->n), slice(b, all->states, at, n, p->n)};
    operands here = {.grad = bring(b, &room[0], home.grad),
                     .master = bring(b, &room[2], home.master),
                     .states = bring(b, &room[3], home.states)};
    bool there = mal_at(b, home.param)->place == MAL_HOST;
    here.param = there ? home.param : home.master ? stage(b, &room[1], home.param) : bring(b, &room[1], home.param);
    mal_forward(b, (mal_emit){.op = MAL_OP_OPTIMIZER,
                              .variant = (uint8_t)b->plan->job.optimizer,
                              .dtype = mal_at(b, here.param)->dtype,
                              .stream = MAL_STREAM_COPY,
                              .cause = MAL_TIME_OFFLOAD + 1,
                              .in = {here.grad, here.master ? here.master : here.param, here.states},
                              .out = {here.master, here.states, here.param},
                              .v = {n}});
    bring_back(b, here.param, home.param);
    bring_back(b, here.master, home.master);
    bring_back(b, here.states, home.states);
  }
}

/* --- the update --- */

/* An fp32 gradient shard beside the master, filled where the update runs on the device. */
static mal_ref widened(mal_builder *b, const part *p, mal_ref grad, bool host) {
  if (!b->profile->shard_with_master || mal_at(b, grad)->dtype == MAL_F32) return grad;
  mal_ref wide = state(b, "gradients.fp32", MAL_F32, p->n, MAL_R_MASTER);
  if (host) return grad;
  mal_forward(b, (mal_emit){.op = MAL_OP_CAST,
                            .dtype = MAL_F32,
                            .cause = MAL_TIME_OPTIMIZER + 1,
                            .in = {grad},
                            .out = {wide},
                            .v = {p->n}});
  return wide;
}

static mal_ref update(mal_builder *b, const part *p, mal_ref grad) {
  if (!p->n) return 0;
  const mal_layout *l = b->layout;
  bool host = l->offload_optimizer != MAL_OFFLOAD_NONE;
  bool own_master = l->zero == 3 && b->profile->sharded_param_bytes >= 4 && mal_dtype_bytes[b->store] < 4;
  int64_t state_bytes = mal_optimizer_state_bytes(b->plan->job.optimizer, p->n, p->vectors);
  mal_ref param = mal_buffer_in(b, "weights", own_master ? MAL_F32 : b->store, p->n, MAL_R_PARAM), master = 0,
          states = 0;
  mal_at(b, param)->offset_bytes = p->from * (int64_t)mal_dtype_bytes[mal_at(b, param)->dtype];
  if (l->zero == 3) mal_at(b, param)->place = (uint8_t)l->offload_params;
  if (has_master(b) && !own_master) master = state(b, "master", MAL_F32, p->n, MAL_R_MASTER);
  if (state_bytes) states = state(b, "states", MAL_I8, state_bytes, MAL_R_OPT);
  if (!host) grad = flattened(b, p, grad);
  grad = widened(b, p, grad, host);
  if (host) {
    update_on_host(b, p, &(operands){grad, param, master, states});
    return param;
  }
  mal_ref root = !b->profile->fused_optimizer && states ? passes_apart(b, grad, states, p->n) : 0;
  mal_forward(b, (mal_emit){.op = MAL_OP_OPTIMIZER,
                            .variant = (uint8_t)b->plan->job.optimizer,
                            .dtype = mal_at(b, param)->dtype,
                            .in = {grad, master ? master : param, states, root},
                            .out = {master, states, param},
                            .v = {p->n}});
  return param;
}

static void gather(mal_builder *b, const part *p, mal_ref written) {
  if (p->shards == 1 || !p->n || b->layout->zero == 0 || b->layout->zero == 3) return;
  unsigned axes = p->expert ? MAL_AXIS_BIT(MAL_AXIS_EDP) : MAL_AXIS_BIT(MAL_AXIS_DP) | MAL_AXIS_BIT(MAL_AXIS_CP);
  int64_t size = mal_bucket_size(b, p->all);
  for (int64_t at = 0; at < p->all; at += size) {
    int64_t n = size < p->all - at ? size : p->all - at;
    mal_ref x = mal_buffer_in(b, "bucket", b->store, n, MAL_R_PARAM);
    mal_ref part = mal_buffer_in(b, "bucket.shard", b->store, mal_ceil_div(n, p->shards), MAL_R_PARAM);
    mal_at(b, x)->offset_bytes = mal_at(b, part)->offset_bytes = (p->from + at) * (int64_t)mal_dtype_bytes[b->store];
    b->side[x].token = b->side[part].token = written;
    mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                              .variant = MAL_ALL_GATHER,
                              .axes = (uint8_t)axes,
                              .dtype = b->store,
                              .in = {part},
                              .out = {x},
                              .v = {mal_at(b, x)->bytes},
                              .plain_stream = true,
                              .stream = data_stream(b)});
  }
}

/* Copies of the matrices in the products' low type, rows first and columns first, made once a step. */
static void refresh_low(mal_builder *b, const mal_ref written[2]) {
  int64_t n = b->r->dense_elements - b->r->vector_elements + b->r->expert_elements;
  if (!b->low || b->layout->zero == 3 || n <= 0) return;
  mal_ref x = mal_buffer_in(b, "weights", b->store, n, MAL_R_PARAM),
          y = mal_buffer_in(b, "weights.low", b->gemm, 2 * n, MAL_R_PARAM);
  b->side[x].token = written[0] ? written[0] : written[1];
  mal_forward(b, (mal_emit){.op = MAL_OP_CAST,
                            .dtype = b->gemm,
                            .cause = MAL_TIME_OPTIMIZER + 1,
                            .in = {x},
                            .out = {y},
                            .v = {n},
                            .after = written[1]});
}

void mal_optimizer_block(mal_builder *b) {
  part parts[2] = {part_of(b, false), part_of(b, true)};
  mal_ref grads[2] = {0, 0};
  for (int k = 0; k < 2; k++)
    if (parts[k].n) grads[k] = gradients(b, &parts[k]);
  norm_of_all(b, grads);
  mal_ref written[2];
  for (int k = 0; k < 2; k++) written[k] = update(b, &parts[k], grads[k]);
  for (int k = 0; k < 2; k++) gather(b, &parts[k], written[k]);
  refresh_low(b, written);
}
