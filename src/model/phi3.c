/* Phi-3: LLaMA's block with q, k, v in one tensor and gate, up in another.
 * Defaults: configuration_phi3.py of transformers. */
#include "model/family.h"

static void read_phi3(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 32064,
                                      .hidden = 3072,
                                      .ffn = 8192,
                                      .layers = 32,
                                      .heads = 32,
                                      .positions = 4096,
                                      .activation = MAL_SILU};
  mal_layer_names names = mal_llama_layer;
  names.qkv = "self_attn.qkv_proj";
  names.fused_qkv = MAL_FUSED_BLOCKS;
  names.gate_up = "mlp.gate_up_proj";
  mal_layer_kind k = mal_read_basics(r, &defaults);
  k.gated = true;
  k.rope_theta = mal_key_rope_theta(r, 10000);
  k.rope_dim = mal_key_rope_dim(r, "partial_rotary_factor", 1, k.head_dim);
  k.window = mal_key(r, "sliding_window", 1, MAL_MAX_POSITIONS, 0);
  mal_read_norm(r, &k, MAL_RMSNORM, "rms_norm_eps", 1e-5);
  r->m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", false);
  mal_add_layers(r, &names, &k, 1, NULL);
  mal_add_outer(r, &mal_llama_outer);
}

const mal_family mal_family_phi3 = {"phi3", read_phi3, "Phi3ForCausalLM"};
