/* Gradient sync: what is summed over ranks once a step, after the last micro-batch (or, overlapped, beside it): gradients of
 * replicated weights over tp under sequence parallelism, of a tied table between its two stages, all over the data-parallel
 * ranks, bucket by bucket. A stage's flat space begins with the tied table, then what is summed over tp. ZeRO-2 and ZeRO-3 did the last in each block's REDUCE list. */
#include "program/builder.h"

enum { MAX_BUCKETS = 4096 };

static mal_ref gradients(mal_builder *b, const char *name, int64_t elements, int64_t from) {
  mal_ref x = mal_buffer_in(b, name, mal_grad_type(b), elements, MAL_R_GRAD);
  mal_at(b, x)->offset_bytes = from * (int64_t)mal_dtype_bytes[mal_at(b, x)->dtype];
  if (b->layout->zero >= 2 && b->layout->offload_optimizer != MAL_OFFLOAD_NONE) mal_at(b, x)->place = MAL_HOST;
  return x;
}

typedef struct sync { /* what later buckets overlap and so come after */
  mal_ref replicated, tied;
} sync;

/* ZeRO-2 and ZeRO-3 hold shards by then. */
static int64_t held(const mal_builder *b, int64_t elements) {
  return b->layout->zero >= 2 ? mal_ceil_div(elements, mal_shards(b, false)) : elements;
}

static mal_ref sum_replicated(mal_builder *b) {
  int64_t n = held(b, b->r->replicated_elements);
  if (!n || b->tp == 1) return 0;
  mal_ref x = gradients(b, "replicated", n, b->layout->pp > 1 ? held(b, b->r->tied_elements) : 0);
  mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                            .variant = MAL_ALL_REDUCE,
                            .axes = MAL_AXIS_BIT(MAL_AXIS_TP),
                            .dtype = mal_at(b, x)->dtype,
                            .in = {x},
                            .out = {x},
                            .v = {mal_at(b, x)->bytes}});
  return x;
}

/* Two ranks, first and last stage: an all-reduce of two is an exchange and a sum. */
static mal_ref sum_tied(mal_builder *b, mal_ref after) {
  int64_t n = held(b, b->r->tied_elements);
  if (!n || b->layout->pp == 1) return 0;
  mal_ref x = gradients(b, "tied", n, 0), other = mal_buffer_new(b, "tied.other", (mal_dtype)mal_at(b, x)->dtype, n);
  mal_forward(b, (mal_emit){.op = MAL_OP_SEND,
                            .axes = MAL_AXIS_BIT(MAL_AXIS_PP),
                            .dtype = mal_at(b, x)->dtype,
                            .in = {x},
                            .out = {other},
                            .v = {mal_at(b, x)->bytes},
                            .after = after});
  mal_forward(b, (mal_emit){.op = MAL_OP_ADD,
                            .dtype = mal_at(b, x)->dtype,
                            .flags = MAL_INS_ACCUMULATE,
                            .in = {other},
                            .out = {x},
                            .v = {n}});
  return x;
}

static void reduce_bucket(mal_builder *b, const sync *s, unsigned axes, bool shard, int64_t shards, int64_t from,
                          int64_t n) {
  mal_dtype kept = mal_grad_type(b),
            sent = b->profile->reduce_bytes >= 4 || mal_dtype_bytes[b->store] >= 4 ? MAL_F32 : b->store;
  mal_ref x = gradients(b, "bucket", n, from), y = x;
  mal_emit i = {.op = MAL_OP_COLLECTIVE,
                .variant = shard ? MAL_REDUCE_SCATTER : MAL_ALL_REDUCE,
                .axes = (uint8_t)axes,
                .dtype = sent,
                .stream = b->layout->overlap_dp_grad > 0 ? MAL_STREAM_DP : MAL_STREAM_COMPUTE,
                .plain_stream = true};
  if (sent != kept) {
    y = mal_buffer_in(b, "bucket.sent", sent, n, MAL_R_BUCKET);
    if (mal_at(b, y)->bytes > b->out->region_bytes[MAL_R_BUCKET])
      b->out->region_bytes[MAL_R_BUCKET] = mal_at(b, y)->bytes;
    mal_forward(b, (mal_emit){.op = MAL_OP_CAST,
                              .dtype = sent,
                              .in = {x},
                              .out = {y},
                              .v = {n},
                              .after = s->tied ? s->tied : s->replicated});
  }
  i.in[0] = y;
  i.after = s->tied ? s->tied : s->replicated;
  i.v[0] = mal_at(b, y)->bytes;
  int64_t result = shard ? mal_ceil_div(n, shards) : n; /* the shard lies in the bucket, at this rank's place */
  i.out[0] = !shard ? y : mal_buffer_in(b, "bucket.shard", sent, result, (mal_region)mal_at(b, y)->region);
  if (shard) mal_at(b, i.out[0])->offset_bytes = mal_at(b, y)->offset_bytes;
  if (shard) b->side[i.out[0]].token = y;
  mal_forward(b, i);
  if (sent == kept) return;
  mal_ref back = shard ? gradients(b, "bucket.shard", result, from) : x;
  if (shard) b->side[back].token = x;
  mal_forward(b, (mal_emit){.op = MAL_OP_CAST, .dtype = kept, .in = {i.out[0]}, .out = {back}, .v = {result}});
}

int64_t mal_bucket_size(const mal_builder *b, int64_t elements) {
  int64_t size = b->profile->bucket_elements > 0 ? b->profile->bucket_elements : elements;
  int64_t least = b->profile->bucket_elements_per_rank * b->layout->dp * b->layout->cp;
  if (size < least) size = least;
  if (mal_ceil_div(elements, size) > MAX_BUCKETS) size = mal_ceil_div(elements, MAX_BUCKETS);
  int64_t ranks = b->layout->dp * b->layout->cp; /* so that a rank's shards together are ceil(elements / ranks) */
  return mal_ceil_div(size, ranks) * ranks;
}

static void reduce_all(mal_builder *b, const sync *s, bool expert, int64_t elements, int64_t from) {
  const mal_layout *l = b->layout;
  int64_t ranks = expert ? mal_layout_edp(l) : l->dp * l->cp;
  unsigned axes = expert ? MAL_AXIS_BIT(MAL_AXIS_EDP) : MAL_AXIS_BIT(MAL_AXIS_DP) | MAL_AXIS_BIT(MAL_AXIS_CP);
  if (!elements || ranks == 1 || l->zero >= 2) return;
  int64_t size = mal_bucket_size(b, elements);
  for (int64_t at = 0; at < elements; at += size)
    reduce_bucket(b, s, axes, l->zero == 1 && !b->profile->zero1_all_reduce, ranks, from + at,
                  size < elements - at ? size : elements - at);
}

void mal_sync_block(mal_builder *b) {
  sync s = {.replicated = sum_replicated(b)};
  s.tied = sum_tied(b, s.replicated);
  reduce_all(b, &s, false, b->r->dense_elements, 0);
  reduce_all(b, &s, true, b->r->expert_elements, b->r->dense_elements);
}
