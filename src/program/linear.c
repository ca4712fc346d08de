/* Products with weights: cut over tensor-parallel ranks, in 16 or fewer bits, with LoRA matrices beside.
 *
 * Column and row parallel: Shoeybi et al., arXiv:1909.08053, section 3. Sequence parallel: Korthikanti et al.,
 * arXiv:2205.05198, section 4.2.2; the gathered input is not kept but gathered again in backward, as there. */
#include "program/builder.h"
#include <string.h>

mal_dtype mal_product_type(const mal_builder *b) { return b->gemm == MAL_TF32 ? MAL_TF32 : b->store; }

/* Cast to the products' type when that is low. */
static mal_ref low_of(mal_builder *b, mal_ref x) {
  if (!b->low || mal_at(b, x)->dtype == b->gemm) return x;
  mal_ref root = mal_root(b, x);
  if (!b->side[root].low) {
    mal_ref y = mal_buffer_new(b, mal_at(b, x)->name, b->gemm, mal_elements(b, x));
    b->side[root].low = y;
    mal_forward(b, (mal_emit){.op = MAL_OP_CAST, .dtype = b->gemm, .in = {x}, .out = {y}, .v = {mal_elements(b, y)}});
  }
  return b->side[root].low;
}

mal_ref mal_enter_column(mal_builder *b, mal_ref x, bool low) {
  if (b->tp == 1) return x;
  if (!b->sp) {
    mal_ref y = mal_buffer_alias(b, x);
    mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                              .axes = MAL_AXIS_BIT(MAL_AXIS_TP),
                              .rule = MAL_RULE_IDENTITY,
                              .silent = true,
                              .in = {x},
                              .out = {y}});
    return y;
  }
  if (low) x = low_of(b, x);
  mal_buffer f = *mal_at(b, x);
  mal_ref y = mal_buffer_new(b, f.name, (mal_dtype)f.dtype, mal_elements(b, x) * b->tp);
  mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                            .variant = MAL_ALL_GATHER,
                            .axes = MAL_AXIS_BIT(MAL_AXIS_TP),
                            .dtype = f.dtype,
                            .in = {x},
                            .out = {y},
                            .v = {mal_at(b, y)->bytes},
                            .remake = !b->profile->saves_gathered});
  return y;
}

static mal_ref sum_over_tp(mal_builder *b, mal_ref x) {
  mal_buffer f = *mal_at(b, x);
  mal_emit i = {.op = MAL_OP_COLLECTIVE,
                .variant = MAL_ALL_REDUCE,
                .axes = MAL_AXIS_BIT(MAL_AXIS_TP),
                .dtype = f.dtype,
                .in = {x},
                .out = {x},
                .v = {f.bytes}};
  if (b->sp) {
    i.variant = MAL_REDUCE_SCATTER;
    i.out[0] = mal_buffer_new(b, f.name, (mal_dtype)f.dtype, mal_elements(b, x) / b->tp);
  }
  mal_forward(b, i);
  return i.out[0];
}

/* alpha / rank times, an operator of its own where adapters are not fused (NeMo, ParallelLinearAdapter; Hugging Face PEFT). */
static mal_ref scaled(mal_builder *b, mal_ref x) {
  mal_ref y = mal_buffer_new(b, mal_at(b, x)->name, (mal_dtype)mal_at(b, x)->dtype, mal_elements(b, x));
  mal_forward(b, (mal_emit){.op = MAL_OP_SCALE, .dtype = b->store, .in = {x}, .out = {y}, .v = {mal_elements(b, x)}});
  return y;
}

/* y + B·(A·x), y summed already. */
static mal_ref add_row_adapter(mal_builder *b, const struct mal_row_adapter *r, mal_ref y) {
  int64_t rank = b->plan->job.lora_rank, n = mal_elements(b, y);
  mal_ref inner = sum_over_tp(b, r->inner);
  mal_ref extra = mal_buffer_new(b, "lora.y", r->out_dtype, n);
  mal_forward(b, (mal_emit){.op = MAL_OP_MATMUL,
                            .dtype = mal_product_type(b),
                            .in = {inner, r->up},
                            .out = {extra},
                            .flags = MAL_INS_TRANSPOSE_B,
                            .v = {n / r->columns, r->columns, rank, 1}});
  return mal_sum_emit(b, y, scaled(b, extra), 0, "adapted");
}

mal_ref mal_leave_row(mal_builder *b, mal_ref x) {
  if (b->tp == 1) return x;
  mal_ref y = sum_over_tp(b, x);
  for (int i = 0; i < b->n_row_adapters; i++) y = add_row_adapter(b, &b->row_adapters[i], y);
  b->n_row_adapters = 0;
  return y;
}

/* The weight as the product reads it: stored, or its copies in the low type (rows and columns first: backward reads the
 * transposed one), or cast right before use where the stored form is another (gathered each time, or 4 bits). */
static mal_ref operand(mal_builder *b, const mal_taken *w, bool high) {
  const mal_buffer f = *mal_at(b, w->weight);
  bool low = b->low && !high, four_bit = f.dtype == MAL_F4;
  if (!low && !four_bit) return w->weight;
  mal_dtype type = low ? b->gemm : b->store;
  mal_ref y;
  if (f.region == MAL_R_PARAM && !four_bit) {
    y = mal_buffer_in(b, f.name, type, w->elements, MAL_R_PARAM);
    mal_ref t = mal_buffer_in(b, f.name, type, w->elements, MAL_R_PARAM);
    bool expert = b->params[w->first].expert;
    mal_at(b, y)->param = mal_at(b, t)->param = w->first;
    mal_at(b, y)->offset_bytes = b->param_bytes[expert];
    mal_at(b, t)->offset_bytes = b->param_bytes[expert] + mal_at(b, y)->bytes;
    b->param_bytes[expert] += 2 * mal_at(b, y)->bytes;
    if (b->profile->fp8_params && type == MAL_F8) b->low_only_bytes[expert] += f.bytes;
    b->side[y].again = t;
  } else {
    y = mal_buffer_new(b, f.name, type, w->elements);
    mal_forward(b, (mal_emit){.op = MAL_OP_CAST,
                              .dtype = type,
                              .in = {w->weight},
                              .out = {y},
                              .v = {w->elements},
                              .rule = MAL_RULE_NONE,
                              .remake = true});
    b->side[y].needs = false;
  }
  b->side[y].weight = w->weight;
  return y;
}

/* y[rows, Σ pieces] = x · wᵀ (+ bias). */
static void product(mal_builder *b, mal_linear *l, const mal_taken *w, mal_ref bias, int from, int to) {
  bool low = b->low && !l->high;
  mal_ref x = low ? low_of(b, l->x) : l->x;
  int64_t columns = 0, batch = l->batch ? l->batch : 1;
  mal_emit i = {.op = MAL_OP_MATMUL,
                .dtype = low ? b->gemm : mal_product_type(b),
                .in = {x, operand(b, w, l->high), bias},
                .role = (uint8_t)(l->role + 1),
                .flags = (uint16_t)(MAL_INS_TRANSPOSE_B | (l->batch ? MAL_INS_GROUPED : 0))};
  for (int p = from; p < to; p++) {
    l->out[p] = i.out[p - from] = mal_buffer_new(b, l->piece_name[p], l->out_dtype, l->rows * batch * l->piece[p]);
    columns += l->piece[p];
  }
  i.v[0] = l->rows, i.v[1] = columns, i.v[2] = l->width, i.v[3] = batch;
  mal_forward(b, i);
  bool empty = b->profile->empty_grads && b->side[w->weight].needs;
  int64_t empty_bytes = w->elements * (int64_t)mal_dtype_bytes[b->store];
  if (empty && empty_bytes > b->kernel_bytes) b->kernel_bytes = empty_bytes;
  for (int p = from; p < to && b->side[w->weight].needs; p++) b->side[l->out[p]].needs = true;
}

/* Hu et al., arXiv:2106.09685: y += B·(A·x). Of a column-parallel weight B is cut, of a row-parallel one A; the sums of
 * partial gradients of the other, and of x, are those that tensor parallelism makes anyway. The second product adds y itself
 * where the framework fuses adapters; else A·x of a row-parallel weight, which is small, is summed over tp by itself, so that B
 * works on this rank's rows (NeMo, ParallelLinearAdapter). */
typedef struct adapter {
  mal_ref inner, up;
  int64_t rank, batch, columns;
  uint16_t flags;
} adapter;

/* A·x. */
static adapter adapter_down(mal_builder *b, const mal_linear *l, int from, int to) {
  adapter a = {.rank = b->plan->job.lora_rank, .batch = l->batch ? l->batch : 1};
  bool expert = l->batch > 0;
  a.flags = (uint16_t)(MAL_INS_TRANSPOSE_B | (expert ? MAL_INS_GROUPED : 0));
  for (int p = from; p < to; p++) a.columns += l->piece[p];
  mal_ref down = mal_add_param(b, "lora.a", a.batch * a.rank * l->width, expert, l->cut != MAL_CUT_ROW && !expert);
  a.up = mal_add_param(b, "lora.b", a.batch * a.rank * a.columns, expert, l->cut != MAL_CUT_COLUMN && !expert);
  a.inner = mal_buffer_new(b, "lora", b->store, l->rows * a.batch * a.rank);
  mal_forward(b, (mal_emit){.op = MAL_OP_MATMUL,
                            .dtype = mal_product_type(b),
                            .in = {l->x, down},
                            .out = {a.inner},
                            .flags = a.flags,
                            .v = {l->rows, a.rank, l->width, a.batch}});
  return a;
}

/* + B·(A·x). */
static void adapter_up(mal_builder *b, const adapter *a, mal_linear *l, int from, int to) {
  mal_emit second = {.op = MAL_OP_MATMUL,
                     .dtype = mal_product_type(b),
                     .in = {a->inner, a->up},
                     .flags = a->flags,
                     .v = {l->rows, a->columns, a->rank, a->batch}};
  mal_emit sum = {.op = MAL_OP_ADD, .dtype = b->store, .v = {l->rows * a->batch * a->columns}};
  bool fused = b->profile->fused_adapters;
  for (int p = from, k = 0; p < to; p++, k++) {
    int64_t n = l->rows * a->batch * l->piece[p];
    mal_ref y = l->out[p];
    l->out[p] = mal_buffer_new(b, l->piece_name[p], l->out_dtype, n);
    if (fused) {
      second.in[k + 3] = y, second.out[k] = l->out[p];
      continue;
    }
    sum.in[k] = y, sum.out[k] = l->out[p];
    second.out[k] = mal_buffer_new(b, "lora.y", l->out_dtype, n);
  }
  mal_forward(b, second);
  if (fused) return;
  for (int k = 0; k < to - from; k++) sum.in[k + 3] = scaled(b, second.out[k]);
  mal_forward(b, sum);
}

/* With the adapter of a row-parallel weight left to mal_leave_row; the weight's own product comes last, beside its sum over tp. */
static void adapted_row(mal_builder *b, mal_linear *l, const mal_taken *w, mal_ref bias) {
  adapter a = adapter_down(b, l, 0, 1);
  product(b, l, w, bias, 0, 1);
  b->row_adapters[b->n_row_adapters++] = (struct mal_row_adapter){a.inner, a.up, a.columns, l->out_dtype};
}

static bool is_adapted(const mal_builder *b, const mal_linear *l) {
  if (!b->lora || !l->adapt) return false;
  bool attention_only = b->plan->job.lora_targets == MAL_LORA_ATTENTION;
  return !attention_only || l->role <= MAL_W_OUT;
}

static bool leaves_adapter(const mal_builder *b, const mal_linear *l) {
  return !b->profile->fused_adapters && l->cut == MAL_CUT_ROW && b->tp > 1 && l->batch == 0;
}

void mal_linear_emit(mal_builder *b, mal_linear *l) {
  if (!l->out_dtype) l->out_dtype = b->store;
  int tensors = 0;
  for (int i = 0; i < b->n_weights; i++)
    tensors += !b->taken[i] && b->weights[i].role == l->role && b->weights[i].rank > 1;
  bool joined = tensors != l->pieces || (b->profile->fused_qkv && !l->x_apart);
  bool bias_later = l->keep_bias && (b->tp > 1 || b->profile->fused_bias_dropout_add);
  for (int p = 0; p < l->pieces; p = joined ? l->pieces : p + 1) {
    int to = joined ? l->pieces : p + 1;
    mal_taken w = mal_take(b, l->role, true, joined ? tensors : 1, l->name);
    mal_taken bias = mal_take(b, l->role, false, joined ? l->pieces : 1, "bias");
    if (!w.count) { /* the model's own list does not have it: a fault of ours */
      b->status = mal_fail(b->e, MAL_FAULT, "the model lists no weight for %s", l->name);
      return;
    }
    if (bias_later) l->bias = bias.weight;
    if (p == 1 && l->x_apart) l->x = l->x_apart;
    mal_ref added = bias_later ? 0 : bias.weight;
    if (is_adapted(b, l) && leaves_adapter(b, l)) {
      adapted_row(b, l, &w, added);
      continue;
    }
    product(b, l, &w, added, p, to);
    if (!is_adapted(b, l)) continue;
    adapter a = adapter_down(b, l, p, to);
    adapter_up(b, &a, l, p, to);
  }
}
