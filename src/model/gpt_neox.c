/* GPT-NeoX and Pythia: attention and MLP side by side, each behind its own LayerNorm; a quarter of each head rotated.
 * Defaults: configuration_gpt_neox.py of transformers. */
#include "model/family.h"

static const mal_layer_names layer_names = {
    .prefix = "gpt_neox.layers.{l}.",
    .norms = {"input_layernorm", "post_attention_layernorm"},
    .qkv = "attention.query_key_value",
    .fused_qkv = MAL_FUSED_GROUPS,
    .out = "attention.dense",
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
    .norm_bias = true,
};

static const mal_outer_names outer_names = {
    .embed = "gpt_neox.embed_in", .final_norm = "gpt_neox.final_layer_norm", .head = "embed_out", .norm_bias = true};

static void read_gpt_neox(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 50432,
                                      .hidden = 6144,
                                      .ffn = 24576,
                                      .layers = 44,
                                      .heads = 64,
                                      .positions = 2048,
                                      .activation = MAL_GELU};
  mal_layer_kind k = mal_read_basics(r, &defaults);
  k.kv_heads = k.heads;
  k.qkv_bias = k.out_bias = mal_key_bool(r, "attention_bias", true);
  k.mlp_bias = true;
  k.parallel_block = mal_key_bool(r, "use_parallel_residual", true);
  k.rope_dim = mal_key_rope_dim(r, "rotary_pct", 0.25, k.head_dim);
  k.rope_theta = mal_key_rope_theta(r, mal_key_real(r, "rotary_emb_base", 1e18, 10000));
  mal_read_norm(r, &k, MAL_LAYERNORM, "layer_norm_eps", 1e-5);
  r->m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", false);
  mal_add_layers(r, &layer_names, &k, 1, NULL);
  mal_add_outer(r, &outer_names);
}

const mal_family mal_family_gpt_neox = {"gpt_neox", read_gpt_neox, "GPTNeoXForCausalLM"};
