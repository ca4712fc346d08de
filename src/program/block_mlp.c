/* Norms, the dense MLP, residual sums. */
#include "program/builder.h"

/* LayerNorm keeps mean and 1/deviation of a row, RMSNorm the latter. Without a fused kernel RMSNorm is a chain of operators
 * that keeps its input in fp32 and the normalised rows before the weight (transformers' LlamaRMSNorm). */
mal_ref mal_norm_emit(mal_builder *b, mal_weight_role role, mal_norm norm, mal_ref x, int64_t width, const char *name) {
  mal_ref bias, weight = mal_take_norm(b, role, width, &bias);
  int64_t n = mal_elements(b, x), rows = n / width;
  bool half = mal_dtype_bytes[b->store] < 4, chain = !b->profile->fused_norm && norm == MAL_RMSNORM;
  if (half && (chain || b->profile->norm_fp32)) {
    mal_ref wide = mal_buffer_new(b, name, MAL_F32, n);
    mal_forward(b, (mal_emit){.op = MAL_OP_CAST, .dtype = MAL_F32, .in = {x}, .out = {wide}, .v = {n}});
    x = wide;
  }
  mal_emit i = {.op = MAL_OP_NORM,
                .variant = (uint8_t)norm,
                .dtype = b->store,
                .in = {x, chain ? 0 : weight, chain ? 0 : bias},
                .v = {rows, width}};
  i.out[0] = mal_buffer_new(b, name, b->store, n);
  i.out[1] = mal_buffer_new(b, "norm.stats", MAL_F32, rows * (norm == MAL_LAYERNORM ? 2 : 1));
  mal_forward(b, i);
  if (!chain || !weight) return i.out[0];
  mal_ref y = mal_buffer_new(b, name, b->store, n);
  mal_forward(b, (mal_emit){.op = MAL_OP_SCALE, .dtype = b->store, .in = {i.out[0], weight}, .out = {y}, .v = {n}});
  return y;
}

/* residual + dropout(x + bias), in one kernel or one after the other. */
mal_ref mal_residual_emit(mal_builder *b, mal_ref x, mal_ref bias, mal_ref residual, const char *name) {
  bool fused = b->profile->fused_bias_dropout_add;
  int64_t n = mal_elements(b, x);
  if (!b->profile->dropout) {
    if (bias && !fused) x = mal_sum_emit(b, x, bias, 0, "biased"), bias = 0;
    return mal_sum_emit(b, x, residual, bias, name);
  }
  if (bias && !fused) x = mal_sum_emit(b, x, bias, 0, "biased"), bias = 0;
  mal_emit i = {.op = MAL_OP_DROPOUT, .dtype = b->store, .in = {x, bias, fused ? residual : 0}, .v = {n}};
  i.out[0] = mal_buffer_new(b, fused ? name : "dropped", b->store, n);
  i.out[1] = mal_buffer_new(b, "dropout.mask", MAL_I8, n);
  mal_forward(b, i);
  return fused ? i.out[0] : mal_sum_emit(b, i.out[0], residual, 0, name);
}

mal_ref mal_activation_emit(mal_builder *b, mal_ref gate, mal_ref up) {
  int64_t n = mal_elements(b, gate);
  mal_ref y = mal_buffer_new(b, "activated", b->store, n);
  bool apart = up && !b->profile->fused_activation;
  mal_forward(b, (mal_emit){.op = MAL_OP_ACTIVATION,
                            .variant = (uint8_t)b->kind->activation,
                            .dtype = b->store,
                            .in = {gate, apart ? 0 : up},
                            .out = {y},
                            .v = {n}});
  if (!apart) return y;
  mal_ref product = mal_buffer_new(b, "gated", b->store, n);
  mal_forward(b, (mal_emit){.op = MAL_OP_SCALE, .dtype = b->store, .in = {y, up}, .out = {product}, .v = {n}});
  return product;
}

mal_ref mal_mlp_emit(mal_builder *b, mal_ref x, mal_ref x_up, mal_ref *bias) {
  const mal_layer_kind *k = b->kind;
  int64_t ffn = mal_ceil_div(k->ffn, b->tp);
  mal_linear up = {.name = "up.weight",
                   .role = MAL_W_UP,
                   .cut = MAL_CUT_COLUMN,
                   .x = x,
                   .x_apart = k->gated ? x_up : 0,
                   .rows = b->tokens,
                   .width = b->hidden,
                   .pieces = k->gated ? 2 : 1,
                   .piece_name = {k->gated ? "gate" : "up", "up"},
                   .piece = {ffn, ffn},
                   .adapt = true};
  mal_linear_emit(b, &up);
  if (b->status != MAL_OK) return x;
  mal_linear down = {.name = "down.weight",
                     .role = MAL_W_DOWN,
                     .cut = MAL_CUT_ROW,
                     .rows = b->tokens,
                     .width = ffn,
                     .pieces = 1,
                     .piece_name = {"mlp.projected"},
                     .piece = {b->hidden},
                     .adapt = true,
                     .keep_bias = true};
  down.x = mal_activation_emit(b, up.out[0], up.out[1]);
  mal_linear_emit(b, &down);
  *bias = down.bias;
  return down.out[0];
}
