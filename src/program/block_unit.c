/* ZeRO-3 and FSDP: a block is the unit whose weights are gathered before use and whose gradients are scattered after
 * (Rajbhandari et al., arXiv:1910.02054, section 5.3; Zhao et al., arXiv:2304.11277). ZeRO-2 scatters gradients only.
 * And what the block takes of the regions of weights and gradients. */
#include "program/builder.h"

typedef struct unit { /* dense weights, or experts */
  bool expert;
  unsigned shard, replica; /* axes; replica 0: none */
  int64_t shards, trained, frozen_bytes;
  int64_t bytes; /* gathered */
} unit;

static unit unit_of(const mal_builder *b, bool expert) {
  unit u = {.expert = expert, .shards = mal_shards(b, expert), .bytes = b->param_bytes[expert]};
  if (expert) {
    u.shard = MAL_AXIS_BIT(MAL_AXIS_EDP);
  } else if (b->layout->zero == 3 && b->layout->hybrid > 0) {
    u.shard = MAL_AXES_SHARD;
    if (b->layout->dp * b->cp > b->layout->hybrid) u.replica = MAL_AXES_REPLICA;
  } else {
    u.shard = MAL_AXIS_BIT(MAL_AXIS_DP) | MAL_AXIS_BIT(MAL_AXIS_CP);
  }
  int64_t trained_bytes = 0;
  for (int i = 0; i < b->n_params; i++) {
    const mal_param *p = &b->params[i];
    if (p->shared || p->expert != expert || p->frozen) continue;
    u.trained += p->elements;
    trained_bytes += p->elements * (int64_t)mal_dtype_bytes[b->store];
  }
  u.frozen_bytes = u.bytes - trained_bytes;
  return u;
}

static int64_t stored_size(const mal_builder *b) {
  return mal_dtype_bytes[b->store] >= 4 ? 4 : b->profile->sharded_param_bytes >= 4 ? 4 : 2;
}

static void emit(mal_builder *b, mal_list list, mal_emit i) {
  mal_list into = b->into;
  bool on_own = list == MAL_L_GATHER ? b->layout->overlap_dp_param > 0 : b->layout->overlap_dp_grad > 0;
  i.stream = on_own ? MAL_STREAM_DP : MAL_STREAM_COMPUTE;
  i.plain_stream = true;
  b->into = list;
  mal_backward_emit(b, i);
  b->into = into;
}

static void gather(mal_builder *b, const unit *u) {
  if (!u->bytes) return;
  int64_t trained = mal_ceil_div(u->trained, u->shards), frozen = mal_ceil_div(u->frozen_bytes, u->shards);
  int64_t shard_bytes = trained * stored_size(b) + frozen;
  mal_dtype type = stored_size(b) == 4 ? MAL_F32 : b->store;
  mal_ref shard = mal_buffer_in(b, "unit.shard", frozen ? MAL_I8 : type, frozen ? shard_bytes : trained, MAL_R_PARAM);
  mal_ref all = mal_buffer_in(b, "unit", MAL_I8, u->bytes, MAL_R_GATHER);
  mal_at(b, all)->offset_bytes = u->expert ? b->param_bytes[0] : 0;
  mal_at(b, shard)->offset_bytes = u->expert ? b->out->region_bytes[MAL_R_PARAM] : 0;
  int place = b->layout->offload_params;
  if (place != MAL_OFFLOAD_NONE) {
    mal_at(b, shard)->place = place == MAL_OFFLOAD_NVME ? MAL_NVME : MAL_HOST;
    mal_ref here = mal_buffer_new(b, "unit.shard", (mal_dtype)mal_at(b, shard)->dtype, mal_elements(b, shard));
    emit(b, MAL_L_GATHER,
         (mal_emit){.op = MAL_OP_COPY,
                    .dtype = MAL_I8,
                    .variant = (uint8_t)(mal_at(b, shard)->place << 4),
                    .in = {shard},
                    .out = {here},
                    .v = {shard_bytes}});
    *(place == MAL_OFFLOAD_NVME ? &b->out->nvme_bytes : &b->out->host_bytes) += shard_bytes;
    shard = here;
  } else {
    b->out->region_bytes[MAL_R_PARAM] += shard_bytes;
  }
  if (trained && type != b->store) {
    mal_ref narrow = mal_buffer_new(b, "unit.shard", MAL_I8, trained * (int64_t)mal_dtype_bytes[b->store] + frozen);
    emit(b, MAL_L_GATHER,
         (mal_emit){.op = MAL_OP_CAST, .dtype = b->store, .in = {shard}, .out = {narrow}, .v = {trained}});
    shard = narrow;
  }
  if (u->shards > 1)
    emit(b, MAL_L_GATHER,
         (mal_emit){.op = MAL_OP_COLLECTIVE,
                    .variant = MAL_ALL_GATHER,
                    .axes = (uint8_t)u->shard,
                    .dtype = b->store,
                    .in = {shard},
                    .out = {all},
                    .v = {u->bytes}});
}

/* Adds the sums to the shard that accumulates, on the host where the optimizer is. */
static void keep(mal_builder *b, mal_ref part, int64_t n) {
  mal_dtype type = mal_grad_type(b), sent = (mal_dtype)mal_at(b, part)->dtype;
  bool host = b->layout->offload_optimizer != MAL_OFFLOAD_NONE;
  mal_ref shard = mal_buffer_in(b, "gradients", type, n, MAL_R_GRAD);
  int64_t *total = host ? &b->out->host_bytes : &b->out->region_bytes[MAL_R_GRAD];
  mal_at(b, shard)->offset_bytes = *total;
  mal_at(b, shard)->place = host ? MAL_HOST : MAL_DEVICE;
  *total += mal_at(b, shard)->bytes;
  mal_emit i = {.op = MAL_OP_ADD, .dtype = type, .flags = MAL_INS_ACCUMULATE, .in = {part}, .out = {shard}, .v = {n}};
  if (host) i.op = MAL_OP_COPY, i.dtype = sent, i.variant = MAL_HOST, i.v[0] = mal_at(b, part)->bytes;
  emit(b, MAL_L_REDUCE, i);
}

/* Sums of a unit's gradients: in the reduction's type, scattered, over replicas, added to the shard that accumulates. */
static void reduce(mal_builder *b, const unit *u) {
  if (!u->trained) return;
  bool from_unit = mal_reduces_unit(b);
  mal_dtype made = from_unit ? b->store : mal_grad_type(b);
  mal_dtype sent = b->profile->reduce_bytes >= 4 || mal_dtype_bytes[b->store] >= 4 ? MAL_F32 : b->store;
  int64_t n = mal_ceil_div(u->trained, u->shards);
  mal_ref x = mal_buffer_in(b, "unit.gradients", made, u->trained, from_unit ? MAL_R_BUCKET : MAL_R_GRAD);
  mal_at(b, x)->offset_bytes = u->expert ? b->grad_elements[0] * (int64_t)mal_dtype_bytes[made] : 0;
  if (made != sent) {
    mal_ref y = mal_buffer_in(b, "unit.reduced", sent, u->trained, MAL_R_BUCKET);
    mal_at(b, y)->offset_bytes = b->out->region_bytes[MAL_R_BUCKET];
    b->out->region_bytes[MAL_R_BUCKET] += mal_at(b, y)->bytes;
    emit(b, MAL_L_REDUCE, (mal_emit){.op = MAL_OP_CAST, .dtype = sent, .in = {x}, .out = {y}, .v = {u->trained}});
    x = y;
  }
  mal_emit i = {.op = MAL_OP_COLLECTIVE, .variant = MAL_REDUCE_SCATTER, .axes = (uint8_t)u->shard, .dtype = sent};
  mal_ref part = x;
  if (u->shards > 1) {
    part = mal_buffer_new(b, "shard.gradients", sent, n);
    i.in[0] = x, i.out[0] = part, i.v[0] = mal_at(b, x)->bytes;
    emit(b, MAL_L_REDUCE, i);
  }
  if (u->replica) {
    i.variant = MAL_ALL_REDUCE, i.axes = (uint8_t)u->replica;
    i.in[0] = i.out[0] = part, i.v[0] = mal_at(b, part)->bytes;
    emit(b, MAL_L_REDUCE, i);
  }
  keep(b, part, n);
}

/* Gradients of experts lie behind those of the dense weights, copies in the compute type behind all. */
static void lay_out_gradients(mal_builder *b, bool extra) {
  for (int k = 0; k < b->n_params; k++) {
    mal_ref g = b->param_grad[k];
    if (!g) continue;
    int64_t size = (int64_t)mal_dtype_bytes[mal_at(b, g)->dtype], small = (int64_t)mal_dtype_bytes[b->store];
    if (b->params[k].expert) mal_at(b, g)->offset_bytes += b->grad_elements[0] * size;
    if (extra)
      mal_at(b, g - 1)->offset_bytes =
          (b->grad_elements[0] + b->grad_elements[1]) * size + mal_at(b, g)->offset_bytes / size * small;
  }
}

void mal_unit_lists(mal_builder *b) {
  unit units[2] = {unit_of(b, false), unit_of(b, true)};
  int64_t *region = b->out->region_bytes, trained = units[0].trained + units[1].trained;
  int64_t grad = (int64_t)mal_dtype_bytes[mal_grad_type(b)];
  int64_t extra = mal_has_extra(b) ? b->profile->grad_extra_bytes : 0;
  lay_out_gradients(b, extra > 0);
  if (mal_reduces_unit(b))
    region[MAL_R_BUCKET] = trained * (int64_t)mal_dtype_bytes[b->store];
  else
    region[MAL_R_GRAD] = trained * (grad + extra);
  if (b->layout->zero == 3)
    region[MAL_R_GATHER] = units[0].bytes + units[1].bytes;
  else
    region[MAL_R_PARAM] = units[0].bytes + units[1].bytes - b->low_only_bytes[0] - b->low_only_bytes[1];
  for (int i = 0; i < 2; i++) {
    if (b->layout->zero == 3) gather(b, &units[i]);
    if (b->layout->zero >= 2) reduce(b, &units[i]);
  }
}
