/* Command R: attention and a gated MLP side by side behind one LayerNorm without bias.
 * Command R+ norms q and k; its checkpoint keeps those weights as [heads, head_dim], here they are flat.
 * Defaults: configuration_cohere.py of transformers. */
#include "model/family.h"

static void read_cohere(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 256000,
                                      .hidden = 8192,
                                      .ffn = 22528,
                                      .layers = 40,
                                      .heads = 64,
                                      .positions = 8192,
                                      .activation = MAL_SILU};
  mal_layer_names names = mal_llama_layer;
  names.qk_norm_wide = true;
  mal_layer_kind k = mal_read_basics(r, &defaults);
  k.gated = k.parallel_block = true;
  k.norms = 1;
  k.qkv_bias = k.out_bias = mal_key_bool(r, "attention_bias", false);
  k.qk_norm = mal_key_bool(r, "use_qk_norm", false);
  k.rope_theta = mal_key_rope_theta(r, 10000);
  mal_read_norm(r, &k, MAL_LAYERNORM, "layer_norm_eps", 1e-5);
  r->m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", true);
  mal_add_layers(r, &names, &k, 1, NULL);
  mal_add_outer(r, &mal_llama_outer);
}

const mal_family mal_family_cohere = {"cohere", read_cohere, "CohereForCausalLM"};
