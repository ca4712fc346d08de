/* LLaMA and what keeps its block: Mistral, Qwen2 (biases on q, k, v), Qwen3 (norms on q and k).
 * Defaults: configuration_llama.py, _mistral.py, _qwen2.py, _qwen3.py of transformers. */
#include "model/family.h"

const mal_layer_names mal_llama_layer = {
    .prefix = "model.layers.{l}.",
    .norms = {"input_layernorm", "post_attention_layernorm"},
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .out = "self_attn.o_proj",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .router = "mlp.gate",
    .expert_gate = "mlp.experts.{e}.gate_proj",
    .expert_up = "mlp.experts.{e}.up_proj",
    .expert_down = "mlp.experts.{e}.down_proj",
};

const mal_outer_names mal_llama_outer = {.embed = "model.embed_tokens", .final_norm = "model.norm", .head = "lm_head"};

mal_layer_kind mal_llama_start(mal_reader *r, const mal_basics *d, double norm_eps, double rope_theta) {
  mal_layer_kind k = mal_read_basics(r, d);
  k.gated = true;
  k.rope_theta = mal_key_rope_theta(r, rope_theta);
  mal_read_norm(r, &k, MAL_RMSNORM, "rms_norm_eps", norm_eps);
  r->m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", false);
  return k;
}

static void read_llama(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 32000,
                                      .hidden = 4096,
                                      .ffn = 11008,
                                      .layers = 32,
                                      .heads = 32,
                                      .positions = 2048,
                                      .activation = MAL_SILU};
  mal_layer_kind k = mal_llama_start(r, &defaults, 1e-6, 10000);
  k.qkv_bias = k.out_bias = mal_key_bool(r, "attention_bias", false);
  k.mlp_bias = mal_key_bool(r, "mlp_bias", false);
  mal_add_layers(r, &mal_llama_layer, &k, 1, NULL);
  mal_add_outer(r, &mal_llama_outer);
}

static void read_mistral(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 32000,
                                      .hidden = 4096,
                                      .ffn = 14336,
                                      .layers = 32,
                                      .heads = 32,
                                      .kv_heads = 8,
                                      .positions = 4096 * 32,
                                      .activation = MAL_SILU};
  mal_layer_kind k = mal_llama_start(r, &defaults, 1e-6, 10000);
  k.window = mal_key(r, "sliding_window", 1, MAL_MAX_POSITIONS, mal_is_null(r, "sliding_window") ? 0 : 4096);
  mal_add_layers(r, &mal_llama_layer, &k, 1, NULL);
  mal_add_outer(r, &mal_llama_outer);
}

/* Qwen's window is off unless asked for, and then begins at layer max_window_layers. */
static void add_qwen_layers(mal_reader *r, const mal_layer_kind *k) {
  bool *windowed = MAL_ARRAY(r->a, bool, r->m->layers);
  bool use_window = mal_key_bool(r, "use_sliding_window", false) && !mal_is_null(r, "sliding_window");
  int64_t window = mal_key(r, "sliding_window", 1, MAL_MAX_POSITIONS, use_window ? 4096 : 0);
  int64_t first = mal_key(r, "max_window_layers", 0, INT64_MAX, use_window ? 28 : 0);
  if (!use_window) window = 0;
  if (!mal_key_layer_types(r, windowed))
    for (int64_t l = first; l < r->m->layers; l++) windowed[l] = true;
  mal_add_windowed(r, &mal_llama_layer, k, windowed, window);
  mal_add_outer(r, &mal_llama_outer);
}

static void read_qwen2(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 151936,
                                      .hidden = 4096,
                                      .ffn = 22016,
                                      .layers = 32,
                                      .heads = 32,
                                      .kv_heads = 32,
                                      .positions = 32768,
                                      .activation = MAL_SILU};
  mal_layer_kind k = mal_llama_start(r, &defaults, 1e-6, 10000);
  k.qkv_bias = true;
  add_qwen_layers(r, &k);
}

static void read_qwen3(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 151936,
                                      .hidden = 4096,
                                      .ffn = 22016,
                                      .layers = 32,
                                      .heads = 32,
                                      .kv_heads = 32,
                                      .head_dim = 128,
                                      .positions = 32768,
                                      .activation = MAL_SILU};
  mal_layer_kind k = mal_llama_start(r, &defaults, 1e-6, 10000);
  k.qkv_bias = k.out_bias = mal_key_bool(r, "attention_bias", false);
  k.qk_norm = true;
  add_qwen_layers(r, &k);
}

const mal_family mal_family_llama = {"llama", read_llama, "LlamaForCausalLM"};
const mal_family mal_family_mistral = {"mistral", read_mistral, "MistralForCausalLM"};
const mal_family mal_family_qwen2 = {"qwen2", read_qwen2, "Qwen2ForCausalLM"};
const mal_family mal_family_qwen3 = {"qwen3", read_qwen3, "Qwen3ForCausalLM"};
