/* GPT-OSS: experts with biases on every projection, every second layer with a window, attention sinks, YaRN positions.
 * Defaults: configuration_gpt_oss.py of transformers. Its checkpoints keep gate and up of all experts in one tensor; here they
 * are listed apart, as other families have them. */
#include "model/family.h"

static void read_gpt_oss(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 201088,
                                      .hidden = 2880,
                                      .ffn = 2880,
                                      .layers = 36,
                                      .heads = 64,
                                      .kv_heads = 8,
                                      .head_dim = 64,
                                      .positions = 131072,
                                      .activation = MAL_SILU};
  mal_layer_names names = mal_llama_layer;
  mal_layer_kind k = mal_read_basics(r, &defaults);
  bool *windowed = MAL_ARRAY(r->a, bool, r->m->layers);
  names.router = "mlp.router";
  names.sinks = "self_attn.sinks";
  names.router_bias = true;
  mal_read_norm(r, &k, MAL_RMSNORM, "rms_norm_eps", 1e-5);
  r->m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", false);
  k.gated = k.mlp_bias = k.clamped = k.rope_scaled = true;
  k.rope_theta = mal_key_rope_theta(r, 150000);
  k.qkv_bias = k.out_bias = mal_key_bool(r, "attention_bias", true);
  k.mlp = MAL_MLP_MOE;
  k.experts = mal_key(r, "num_local_experts", 1, MAL_MAX_EXPERTS, 128);
  k.top_k = mal_key(r, mal_either(r, "num_experts_per_tok", "experts_per_token"), 1, MAL_MAX_EXPERTS, 4);
  if (!mal_key_layer_types(r, windowed))
    for (int64_t l = 0; l < r->m->layers; l++) windowed[l] = l % 2 == 0;
  mal_add_windowed(r, &names, &k, windowed, mal_key(r, "sliding_window", 1, MAL_MAX_POSITIONS, 128));
  mal_add_outer(r, &mal_llama_outer);
}

const mal_family mal_family_gpt_oss = {"gpt_oss", read_gpt_oss, "GptOssForCausalLM"};
