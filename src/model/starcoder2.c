/* StarCoder2: LayerNorm, biases everywhere, a plain GELU MLP, rotary positions, grouped queries.
 * Defaults: configuration_starcoder2.py of transformers. */
#include "model/family.h"

static void read_starcoder2(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 49152,
                                      .hidden = 3072,
                                      .ffn = 12288,
                                      .layers = 30,
                                      .heads = 24,
                                      .kv_heads = 2,
                                      .positions = 4096,
                                      .activation = MAL_GELU_TANH};
  mal_layer_names names = mal_llama_layer;
  mal_outer_names outer = mal_llama_outer;
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  names.norm_bias = outer.norm_bias = true;
  mal_layer_kind k = mal_read_basics(r, &defaults);
  k.qkv_bias = k.out_bias = k.mlp_bias = mal_key_bool(r, "use_bias", true);
  k.rope_theta = mal_key_rope_theta(r, 10000);
  k.window = mal_key(r, "sliding_window", 1, MAL_MAX_POSITIONS, 0);
  mal_read_norm(r, &k, MAL_LAYERNORM, "norm_epsilon", 1e-5);
  r->m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", true);
  mal_add_layers(r, &names, &k, 1, NULL);
  mal_add_outer(r, &outer);
}

const mal_family mal_family_starcoder2 = {"starcoder2", read_starcoder2, "Starcoder2ForCausalLM"};
