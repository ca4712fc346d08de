#include "program/builder.h"
#include <string.h>

enum { FIRST_ROOM = 32 };

/* Bytes, rounded up. */
static int64_t dtype_size(mal_dtype t, int64_t elements) {
  return t == MAL_F4 ? (elements + 1) / 2 : elements * (int64_t)mal_dtype_bytes[t];
}

void mal_builder_init(mal_builder *b, mal_arena *a, const mal_block_request *r, mal_block *out, mal_error *e) {
  const mal_plan *p = r->plan;
  const mal_layout *l = &p->layout;
  *b = (mal_builder){
      .a = a, .r = r, .plan = p, .profile = p->profile, .layout = l, .model = &p->model, .e = e, .out = out};
  bool has_kind = r->block_class == MAL_B_LAYER || r->block_class == MAL_B_MTP;
  b->kind = has_kind ? &p->model.kinds[r->kind] : NULL;
  b->tp = l->tp, b->cp = l->cp, b->ep = l->ep, b->etp = l->etp;
  b->sp = l->sequence_parallel == MAL_ON && l->tp > 1;
  b->tokens = mal_ceil_div(l->micro_batch * p->job.seq, l->cp);
  b->shard_tokens = b->sp ? mal_ceil_div(b->tokens, l->tp) : b->tokens;
  b->hidden = p->model.hidden;
  b->store = mal_precision_store((mal_precision)p->job.precision);
  b->gemm = mal_precision_gemm((mal_precision)p->job.precision);
  b->low = b->gemm == MAL_F8 || b->gemm == MAL_F4;
  b->lora = p->job.train == MAL_LORA || p->job.train == MAL_QLORA;
  b->into = r->split ? MAL_L_B : MAL_L_BW;
  mal_buffer_in(b, "", MAL_I8, 0, MAL_R_WORK); /* number 0 is none */
}

/* Room for one more, doubling; not zeroed, for all that is added is set whole. */
static void *room_for(mal_arena *a, void *at, int count, int *room, size_t size) {
  if (count < *room) return at;
  int more = *room ? *room * 2 : FIRST_ROOM;
  at = mal_grow_raw(a, at, (size_t)*room, (size_t)more, size);
  *room = more;
  return at;
}

mal_ref mal_buffer_new(mal_builder *b, const char *name, mal_dtype dtype, int64_t elements) {
  int room = b->room_buffers;
  b->side = room_for(b->a, b->side, b->n_buffers, &room, sizeof *b->side);
  b->buffers = room_for(b->a, b->buffers, b->n_buffers, &b->room_buffers, sizeof *b->buffers);
  mal_ref x = b->n_buffers++;
  b->buffers[x] = (mal_buffer){.name = name,
                               .region = MAL_R_WORK,
                               .dtype = dtype,
                               .cause = MAL_MEM_WORKSPACE,
                               .param = -1,
                               .bytes = dtype_size(dtype, elements)};
  b->side[x] = (mal_side){.root = x, .again = x, .made_by = -1, .floating = true};
  return x;
}

mal_ref mal_buffer_in(mal_builder *b, const char *name, mal_dtype dtype, int64_t elements, mal_region region) {
  static const uint8_t cause[MAL_REGIONS] = {
      [MAL_R_PARAM] = MAL_MEM_WEIGHTS,  [MAL_R_GRAD] = MAL_MEM_GRADIENTS, [MAL_R_MASTER] = MAL_MEM_MASTER,
      [MAL_R_OPT] = MAL_MEM_OPTIMIZER,  [MAL_R_STASH] = MAL_MEM_STASH,    [MAL_R_GATHER] = MAL_MEM_GATHERED,
      [MAL_R_BUCKET] = MAL_MEM_BUCKETS, [MAL_R_WORK] = MAL_MEM_WORKSPACE, [MAL_R_KERNEL] = MAL_MEM_WORKSPACE,
      [MAL_R_IO] = MAL_MEM_WORKSPACE,
  };
  mal_ref x = mal_buffer_new(b, name, dtype, elements);
  b->buffers[x].region = region;
  b->buffers[x].cause = cause[region];
  b->side[x].floating = false;
  return x;
}

mal_ref mal_token_buffer(mal_builder *b, const char *name) {
  mal_ref x = mal_buffer_in(b, name, MAL_I64, b->tokens, MAL_R_IO);
  mal_at(b, x)->offset_bytes = mal_align(2 * b->shard_tokens * b->hidden * (int64_t)mal_dtype_bytes[b->store]);
  return x;
}

mal_ref mal_root(const mal_builder *b, mal_ref x) {
  while (b->side[x].root != x) x = b->side[x].root;
  return x;
}

mal_ref mal_buffer_alias(mal_builder *b, mal_ref of) {
  mal_buffer like = b->buffers[of];
  mal_ref x = mal_buffer_new(b, like.name, like.dtype, 0);
  b->buffers[x] = like;
  b->buffers[x].param = -1;
  b->side[x].root = mal_root(b, of);
  b->side[x].floating = false;
  return x;
}

int64_t mal_elements(const mal_builder *b, mal_ref x) {
  const mal_buffer *f = &b->buffers[x];
  return f->dtype == MAL_F4 ? f->bytes * 2 : f->bytes / (int64_t)mal_dtype_bytes[f->dtype];
}

static mal_stream stream_of(const mal_builder *b, unsigned axes) {
  if (axes & (MAL_AXES_SHARD | MAL_AXIS_BIT(MAL_AXIS_DP) | MAL_AXIS_BIT(MAL_AXIS_EDP))) return MAL_STREAM_DP;
  if (axes & (MAL_AXIS_BIT(MAL_AXIS_EP) | MAL_AXIS_BIT(MAL_AXIS_ETP))) return MAL_STREAM_EP;
  if (axes & MAL_AXIS_BIT(MAL_AXIS_CP)) return b->layout->overlap_cp > 0 ? MAL_STREAM_EP : MAL_STREAM_COMPUTE;
  if (axes & MAL_AXIS_BIT(MAL_AXIS_PP)) return MAL_STREAM_PP;
  return b->layout->overlap_tp > 0 || b->profile->tp_backward_async ? MAL_STREAM_TP : MAL_STREAM_COMPUTE;
}

static mal_time_cause cause_of(const mal_emit *i) {
  if (i->cause) return (mal_time_cause)(i->cause - 1);
  if (!i->axes) return mal_ops[i->op].cause;
  if (i->axes & (MAL_AXES_SHARD | MAL_AXIS_BIT(MAL_AXIS_DP) | MAL_AXIS_BIT(MAL_AXIS_EDP))) return MAL_TIME_DP;
  if (i->axes & (MAL_AXIS_BIT(MAL_AXIS_EP) | MAL_AXIS_BIT(MAL_AXIS_ETP))) return MAL_TIME_EP;
  if (i->axes & MAL_AXIS_BIT(MAL_AXIS_CP)) return MAL_TIME_CP;
  return i->axes & MAL_AXIS_BIT(MAL_AXIS_PP) ? MAL_TIME_PP : MAL_TIME_TP;
}

/* Overlapped tensor parallelism cuts gathers and scatters into pieces that run beside the product they feed or follow. */
static bool is_chunked(const mal_builder *b, const mal_emit *i) {
  return i->op == MAL_OP_COLLECTIVE && i->axes == MAL_AXIS_BIT(MAL_AXIS_TP) && b->layout->overlap_tp > 0 &&
         (i->variant == MAL_ALL_GATHER || i->variant == MAL_REDUCE_SCATTER);
}

static mal_emit *append(mal_builder *b, struct mal_listing *l, mal_emit i) {
  if (i.axes && !i.stream && !i.plain_stream) i.stream = (uint8_t)stream_of(b, i.axes);
  if (is_chunked(b, &i)) i.flags |= MAL_INS_CHUNKED;
  i.cause = cause_of(&i) + 1;
  l->at = room_for(b->a, l->at, l->count, &l->room, sizeof *l->at);
  l->at[l->count] = i;
  return &l->at[l->count++];
}

void mal_forward(mal_builder *b, mal_emit i) {
  bool needs = false;
  for (int k = 0; k < MAL_INPUTS; k++) needs |= i.in[k] && b->side[i.in[k]].needs;
  for (int k = 0; k < MAL_OUTPUTS; k++) {
    if (!i.out[k]) continue;
    b->side[i.out[k]].needs |= needs;
    if (b->side[i.out[k]].made_by < 0) b->side[i.out[k]].made_by = b->tape.count;
  }
  i.origin = (uint32_t)b->list[MAL_L_F].count;
  append(b, &b->tape, i);
  if (!i.silent) append(b, &b->list[MAL_L_F], i);
}

void mal_backward_emit(mal_builder *b, mal_emit i) {
  for (int k = 0; k < MAL_INPUTS; k++)
    if (i.in[k]) b->side[mal_root(b, i.in[k])].busy = true;
  append(b, &b->list[b->into], i);
}

/* What only weight gradients need moves to W, in order. */
static void split_backward(mal_builder *b) {
  struct mal_listing *from = &b->list[MAL_L_B], *to = &b->list[MAL_L_W];
  int kept = 0;
  for (int i = 0; i < from->count; i++)
    if (from->at[i].flags & MAL_INS_WEIGHT_GRAD)
      append(b, to, from->at[i]);
    else
      from->at[kept++] = from->at[i];
  from->count = kept;
}

/* NCCL may hang when two kernels of one group start in different orders: one stream a group, so list order is the order. */
static mal_status check_groups(mal_builder *b, const struct mal_listing *l) {
  int stream[256];
  for (int i = 0; i < 256; i++) stream[i] = -1;
  for (int i = 0; i < l->count; i++) {
    const mal_emit *x = &l->at[i];
    if (!x->axes) continue;
    if (stream[x->axes] >= 0 && stream[x->axes] != x->stream)
      return mal_fail(b->e, MAL_FAULT, "a group's collectives are on two streams, which could deadlock");
    stream[x->axes] = x->stream;
  }
  return MAL_OK;
}

static void count_elements(mal_builder *b, mal_block *out) {
  for (int i = 0; i < b->n_params; i++) {
    const mal_param *p = &b->params[i];
    if (p->shared) continue;
    if (p->frozen)
      *(p->expert ? &out->frozen_expert_elements : &out->frozen_dense_elements) += p->elements;
    else
      *(p->expert ? &out->expert_elements : &out->dense_elements) += p->elements;
    if (p->frozen || p->expert) continue;
    bool whole = p->weight >= 0 && b->weights[i].role == MAL_W_POSITION; /* each rank scatters all rows' gradients */
    if (b->tp > 1 && p->replicated && (b->sp || p->weight < 0) && !whole) out->replicated_elements += p->elements;
    if (!p->decay || out->block_class == MAL_B_EMBED || out->block_class == MAL_B_HEAD)
      out->vector_elements += p->elements;
  }
}

static void count_flops(mal_block *out) {
  for (int l = 0; l < MAL_LISTS; l++)
    for (int i = 0; i < out->count[l]; i++) {
      const mal_instruction *x = &out->list[l][i];
      out->flops[l] += mal_ops[x->op].flops(x, &out->sizes[x->sizes]);
      out->model_flops[l] += mal_model_flops(x, &out->sizes[x->sizes]);
    }
}

static void count_regions(mal_builder *b, mal_block *out) {
  out->region_bytes[MAL_R_STASH] = out->stash_bytes;
  for (int l = 0; l < MAL_LISTS; l++)
    if (out->work_bytes[l] > out->region_bytes[MAL_R_WORK]) out->region_bytes[MAL_R_WORK] = out->work_bytes[l];
  out->kernel_bytes = out->region_bytes[MAL_R_KERNEL] = b->kernel_bytes;
  out->logits_bytes = b->logits_bytes;
}

mal_status mal_builder_finish(mal_builder *b, mal_block *out) {
  if (b->status != MAL_OK) return b->status;
  if (b->r->split) split_backward(b);
  for (int l = 0; l < MAL_LISTS; l++)
    if (check_groups(b, &b->list[l]) != MAL_OK) return MAL_FAULT;
  mal_status s = mal_place_buffers(b, out);
  if (s != MAL_OK) return s;
  out->params = b->params;
  out->n_params = b->n_params;
  count_elements(b, out);
  count_flops(out);
  count_regions(b, out);
  return MAL_OK;
}
