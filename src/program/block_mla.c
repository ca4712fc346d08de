/* Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1; equations 37 to 47): queries and keys/values come
 * from low-rank latents; a small rotated part of the key is shared by all heads.
 *
 * The down projections are replicated. Under sequence parallelism they run on this rank's rows, and the latents, not the
 * hidden rows, are gathered (Megatron-Core, multi_latent_attention.py). Keys are made whole for the core. */
#include "program/builder.h"

static mal_linear down(mal_builder *b, mal_weight_role role, const char *name, mal_ref x, int64_t latent,
                       int64_t rotary) {
  mal_linear l = {.name = name,
                  .role = role,
                  .cut = MAL_CUT_NONE,
                  .x = x,
                  .rows = b->shard_tokens,
                  .width = b->hidden,
                  .pieces = rotary ? 2 : 1,
                  .piece_name = {"latent", "key.rotary"},
                  .piece = {latent, rotary},
                  .adapt = true};
  mal_linear_emit(b, &l);
  return l;
}

static mal_ref queries(mal_builder *b, mal_ref x) {
  const mal_layer_kind *k = b->kind;
  int64_t latent = k->q_lora_rank;
  if (latent) {
    mal_linear l = down(b, MAL_W_Q_DOWN, "q.down.weight", x, latent, 0);
    if (b->status != MAL_OK) return x;
    x = mal_norm_emit(b, MAL_W_NORM, k->norm, l.out[0], latent, "q.latent");
  }
  mal_linear up = {.name = "q.up.weight",
                   .role = MAL_W_Q_UP,
                   .cut = MAL_CUT_COLUMN,
                   .x = mal_enter_column(b, x, true),
                   .rows = b->tokens,
                   .width = latent ? latent : b->hidden,
                   .pieces = 1,
                   .piece_name = {"q"},
                   .piece = {k->heads / b->tp * k->head_dim},
                   .adapt = true};
  mal_linear_emit(b, &up);
  return up.out[0];
}

static mal_ref rotated(mal_builder *b, mal_ref x, mal_ref shared, const char *name, int64_t elements) {
  mal_ref y = mal_buffer_new(b, name, b->store, elements);
  mal_forward(b, (mal_emit){.op = MAL_OP_ROPE, .dtype = b->store, .in = {x, shared}, .out = {y}, .v = {elements}});
  return y;
}

mal_ref mal_mla_emit(mal_builder *b, mal_ref x, mal_ref *bias) {
  const mal_layer_kind *k = b->kind;
  int64_t heads = k->heads / b->tp, plain = k->head_dim - k->rope_dim;
  mal_ref q = queries(b, x);
  if (b->status != MAL_OK) return x;
  mal_linear l = down(b, MAL_W_KV_DOWN, "kv.down.weight", x, k->kv_lora_rank, k->rope_dim);
  if (b->status != MAL_OK) return x;
  mal_ref latent = mal_norm_emit(b, MAL_W_NORM, k->norm, l.out[0], k->kv_lora_rank, "kv.latent");
  mal_linear up = {.name = "kv.up.weight",
                   .role = MAL_W_KV_UP,
                   .cut = MAL_CUT_COLUMN,
                   .x = mal_enter_column(b, latent, true),
                   .rows = b->tokens,
                   .width = k->kv_lora_rank,
                   .pieces = 2,
                   .piece_name = {"key.plain", "v"},
                   .piece = {heads * plain, heads * k->v_head_dim},
                   .adapt = true};
  mal_linear_emit(b, &up);
  if (b->status != MAL_OK) return x;
  mal_ref shared = mal_enter_column(b, l.out[1], false), v = up.out[1];
  mal_ref key = rotated(b, up.out[0], shared, "k", b->tokens * heads * k->head_dim);
  q = rotated(b, q, 0, "q", b->tokens * heads * k->head_dim);
  return mal_out_projection(b, mal_core_emit(b, q, key, v), bias);
}
