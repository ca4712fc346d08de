/* BLOOM: ALiBi, a norm behind the embedding, biases everywhere, tied embeddings.
 * Defaults: configuration_bloom.py of transformers. */
#include "model/family.h"

static const mal_layer_names layer_names = {
    .prefix = "transformer.h.{l}.",
    .norms = {"input_layernorm", "post_attention_layernorm"},
    .qkv = "self_attention.query_key_value",
    .fused_qkv = MAL_FUSED_GROUPS,
    .out = "self_attention.dense",
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
    .norm_bias = true,
};

static const mal_outer_names outer_names = {.embed = "transformer.word_embeddings",
                                            .embed_norm = "transformer.word_embeddings_layernorm",
                                            .final_norm = "transformer.ln_f",
                                            .head = "lm_head",
                                            .norm_bias = true};

static void read_bloom(mal_reader *r) {
  mal_model *m = r->m;
  m->vocab = mal_width(r, "vocab_size", 250880);
  mal_read_size(r, mal_either(r, "hidden_size", "n_embed"), 64, mal_either(r, "n_layer", "num_hidden_layers"), 2);
  m->max_positions = mal_key(r, "seq_length", 1, MAL_MAX_POSITIONS, 2048);
  m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", true);
  m->embed_norm = true;
  mal_start_layers(r);
  mal_layer_kind k = {.norms = 2, .qkv_bias = true, .out_bias = true, .mlp_bias = true, .alibi = true};
  const char *heads = mal_either(r, "n_head", "num_attention_heads");
  k.heads = k.kv_heads = mal_width(r, heads, 8);
  k.head_dim = k.v_head_dim = mal_even_head_dim(r, heads, k.heads);
  k.ffn = 4 * m->hidden;
  k.activation = MAL_GELU_TANH;
  mal_read_norm(r, &k, MAL_LAYERNORM, "layer_norm_epsilon", 1e-5);
  mal_add_layers(r, &layer_names, &k, 1, NULL);
  mal_add_outer(r, &outer_names);
}

const mal_family mal_family_bloom = {"bloom", read_bloom, "BloomForCausalLM"};
