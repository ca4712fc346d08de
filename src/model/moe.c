/* Mixtures of experts on LLaMA's block: Mixtral, Qwen2-MoE (with a shared expert), Qwen3-MoE.
 * Defaults: configuration_mixtral.py, _qwen2_moe.py, _qwen3_moe.py of transformers. */
#include "model/family.h"

static void read_mixtral(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 32000,
                                      .hidden = 4096,
                                      .ffn = 14336,
                                      .layers = 32,
                                      .heads = 32,
                                      .kv_heads = 8,
                                      .positions = 4096 * 32,
                                      .activation = MAL_SILU};
  mal_layer_names names = mal_llama_layer;
  names.router = "block_sparse_moe.gate";
  names.expert_gate = "block_sparse_moe.experts.{e}.w1";
  names.expert_up = "block_sparse_moe.experts.{e}.w3";
  names.expert_down = "block_sparse_moe.experts.{e}.w2";
  mal_layer_kind k = mal_llama_start(r, &defaults, 1e-5, 1e6);
  k.mlp = MAL_MLP_MOE;
  k.experts = mal_key(r, "num_local_experts", 1, MAL_MAX_EXPERTS, 8);
  k.top_k = mal_key(r, "num_experts_per_tok", 1, MAL_MAX_EXPERTS, 2);
  k.window = mal_key(r, "sliding_window", 1, MAL_MAX_POSITIONS, 0);
  mal_add_layers(r, &names, &k, 1, NULL);
  mal_add_outer(r, &mal_llama_outer);
}

/* which[l]: 0 dense, 1 experts. Dense are those in mlp_only_layers and those decoder_sparse_step passes over. */
static void read_sparse_layers(mal_reader *r, uint8_t *which) {
  int64_t step = mal_key(r, "decoder_sparse_step", 1, MAL_MAX_LAYERS, 1);
  for (int64_t l = 0; l < r->m->layers; l++) which[l] = (l + 1) % step == 0;
  const json_t *only = json_object_get(r->object, "mlp_only_layers");
  if (!only || json_is_null(only)) return;
  if (!json_is_array(only)) mal_reject(r, "mlp_only_layers", _("must be a list of layer numbers."));
  for (size_t i = 0; i < json_array_size(only); i++) {
    const json_t *entry = json_array_get(only, i);
    json_int_t l = json_integer_value(entry);
    if (!json_is_integer(entry) || l < 0)
      mal_reject(r, "mlp_only_layers", _("must be a list of layer numbers."));
    else if (l < r->m->layers)
      which[l] = 0;
  }
}

static void add_qwen_layers(mal_reader *r, mal_layer_kind k, const mal_layer_names *names, int64_t expert_ffn,
                            bool alternate) {
  mal_layer_kind variants[4] = {k, k, k, k}; /* dense, experts, the same two with a window */
  uint8_t *which = MAL_ARRAY(r->a, uint8_t, r->m->layers);
  bool *windowed = MAL_ARRAY(r->a, bool, r->m->layers);
  read_sparse_layers(r, which);
  bool use_window = mal_key_bool(r, "use_sliding_window", false) && !mal_is_null(r, "sliding_window");
  int64_t window = mal_key(r, "sliding_window", 1, MAL_MAX_POSITIONS, use_window ? 4096 : 0);
  int64_t last = mal_key(r, "max_window_layers", 0, INT64_MAX, use_window ? 28 : 0);
  if (!mal_key_layer_types(r, windowed))
    for (int64_t l = 0; l < r->m->layers; l++) windowed[l] = !alternate || (l % 2 == 0 && l < last);
  for (int64_t l = 0; l < r->m->layers; l++) which[l] += use_window && windowed[l] ? 2 : 0;
  for (int v = 0; v < 4; v++) {
    if (v % 2 == 0) {
      variants[v].experts = variants[v].top_k = variants[v].shared_ffn = 0;
      variants[v].shared_gate = false;
    } else {
      variants[v].mlp = MAL_MLP_MOE;
      variants[v].ffn = expert_ffn;
    }
    variants[v].window = v >= 2 ? window : 0;
  }
  mal_add_layers(r, names, variants, 4, which);
  mal_add_outer(r, &mal_llama_outer);
}

static void read_qwen2_moe(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 151936,
                                      .hidden = 2048,
                                      .ffn = 5632,
                                      .layers = 24,
                                      .heads = 16,
                                      .kv_heads = 16,
                                      .positions = 32768,
                                      .activation = MAL_SILU};
  mal_layer_names names = mal_llama_layer;
  names.shared_gate = "mlp.shared_expert.gate_proj";
  names.shared_up = "mlp.shared_expert.up_proj";
  names.shared_down = "mlp.shared_expert.down_proj";
  names.shared_mix = "mlp.shared_expert_gate";
  mal_layer_kind k = mal_llama_start(r, &defaults, 1e-6, 10000);
  k.qkv_bias = mal_key_bool(r, "qkv_bias", true);
  k.experts = mal_key(r, "num_experts", 1, MAL_MAX_EXPERTS, 60);
  k.top_k = mal_key(r, "num_experts_per_tok", 1, MAL_MAX_EXPERTS, 4);
  k.shared_ffn = mal_width(r, "shared_expert_intermediate_size", 5632);
  k.shared_gate = true;
  add_qwen_layers(r, k, &names, mal_width(r, "moe_intermediate_size", 1408), true);
}

static void read_qwen3_moe(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 151936,
                                      .hidden = 2048,
                                      .ffn = 6144,
                                      .layers = 24,
                                      .heads = 32,
                                      .kv_heads = 4,
                                      .positions = 32768,
                                      .activation = MAL_SILU};
  mal_layer_kind k = mal_llama_start(r, &defaults, 1e-6, 10000);
  k.qkv_bias = k.out_bias = mal_key_bool(r, "attention_bias", false);
  k.qk_norm = true;
  k.experts = mal_key(r, mal_either(r, "num_experts", "num_local_experts"), 1, MAL_MAX_EXPERTS, 128);
  k.top_k = mal_key(r, "num_experts_per_tok", 1, MAL_MAX_EXPERTS, 8);
  add_qwen_layers(r, k, &mal_llama_layer, mal_width(r, "moe_intermediate_size", 768), false);
}

const mal_family mal_family_mixtral = {"mixtral", read_mixtral, "MixtralForCausalLM"};
const mal_family mal_family_qwen2_moe = {"qwen2_moe", read_qwen2_moe, "Qwen2MoeForCausalLM"};
const mal_family mal_family_qwen3_moe = {"qwen3_moe", read_qwen3_moe, "Qwen3MoeForCausalLM"};
