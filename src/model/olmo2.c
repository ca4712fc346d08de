/* OLMo 2: LLaMA's block with norms after attention and MLP, and over all of q and k.
 * Defaults: configuration_olmo2.py of transformers. */
#include "model/family.h"

static void read_olmo2(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 50304,
                                      .hidden = 4096,
                                      .ffn = 11008,
                                      .layers = 32,
                                      .heads = 32,
                                      .positions = 2048,
                                      .activation = MAL_SILU};
  mal_layer_names names = mal_llama_layer;
  names.norms[0] = "post_attention_layernorm";
  names.norms[1] = "post_feedforward_layernorm";
  names.qk_norm_wide = true;
  mal_layer_kind k = mal_read_basics(r, &defaults);
  k.gated = k.qk_norm = k.post_norm = true;
  k.qkv_bias = k.out_bias = mal_key_bool(r, "attention_bias", false);
  k.rope_theta = mal_key_rope_theta(r, 10000);
  mal_read_norm(r, &k, MAL_RMSNORM, "rms_norm_eps", 1e-5);
  r->m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", false);
  mal_add_layers(r, &names, &k, 1, NULL);
  mal_add_outer(r, &mal_llama_outer);
}

const mal_family mal_family_olmo2 = {"olmo2", read_olmo2, "Olmo2ForCausalLM"};
