/* Nemotron-3 and -4: LayerNorm with a bias, a plain squared-ReLU MLP, half of each head rotated.
 * Defaults: configuration_nemotron.py of transformers. */
#include "model/family.h"

static void read_nemotron(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 256000,
                                      .hidden = 6144,
                                      .ffn = 24576,
                                      .layers = 32,
                                      .heads = 48,
                                      .positions = 4096,
                                      .activation = MAL_RELU2};
  mal_layer_names names = mal_llama_layer;
  mal_outer_names outer = mal_llama_outer;
  names.norm_bias = outer.norm_bias = true;
  mal_layer_kind k = mal_read_basics(r, &defaults);
  k.qkv_bias = k.out_bias = mal_key_bool(r, "attention_bias", false);
  k.mlp_bias = mal_key_bool(r, "mlp_bias", false);
  k.rope_theta = mal_key_rope_theta(r, 10000);
  k.rope_dim = mal_key_rope_dim(r, "partial_rotary_factor", 0.5, k.head_dim);
  mal_read_norm(r, &k, MAL_LAYERNORM, "norm_eps", 1e-5);
  r->m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", false);
  mal_add_layers(r, &names, &k, 1, NULL);
  mal_add_outer(r, &outer);
}

const mal_family mal_family_nemotron = {"nemotron", read_nemotron, "NemotronForCausalLM"};
