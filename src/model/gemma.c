/* Gemma 1, 2 and 3 (its text part): wide heads, GELU gates, tied embeddings; from 2 on, windows and four norms.
 * Defaults: configuration_gemma.py, _gemma2.py, _gemma3.py of transformers. */
#include "model/family.h"

static mal_layer_kind start(mal_reader *r, const mal_basics *d) {
  mal_layer_kind k = mal_read_basics(r, d);
  k.gated = true;
  k.activation = mal_key_activation(r, "hidden_activation", MAL_GELU_TANH);
  k.qkv_bias = k.out_bias = mal_key_bool(r, "attention_bias", false);
  mal_read_norm(r, &k, MAL_RMSNORM, "rms_norm_eps", 1e-6);
  r->m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", true);
  return k;
}

static mal_layer_names four_norms(void) {
  mal_layer_names names = mal_llama_layer;
  names.norms[2] = "pre_feedforward_layernorm";
  names.norms[3] = "post_feedforward_layernorm";
  return names;
}

static void read_gemma(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 256000,
                                      .hidden = 3072,
                                      .ffn = 24576,
                                      .layers = 28,
                                      .heads = 16,
                                      .kv_heads = 16,
                                      .head_dim = 256,
                                      .positions = 8192,
                                      .activation = MAL_GELU_TANH};
  mal_layer_kind k = start(r, &defaults);
  k.rope_theta = mal_key_rope_theta(r, 10000);
  mal_add_layers(r, &mal_llama_layer, &k, 1, NULL);
  mal_add_outer(r, &mal_llama_outer);
}

/* Every layer but each period-th sees a window. */
static bool *read_windows(mal_reader *r, int64_t period) {
  bool *windowed = MAL_ARRAY(r->a, bool, r->m->layers);
  if (!mal_key_layer_types(r, windowed))
    for (int64_t l = 0; l < r->m->layers; l++) windowed[l] = (l + 1) % period != 0;
  return windowed;
}

static void read_gemma2(mal_reader *r) {
  static const mal_basics defaults = {.vocab = 256000,
                                      .hidden = 2304,
                                      .ffn = 9216,
                                      .layers = 26,
                                      .heads = 8,
                                      .kv_heads = 4,
                                      .head_dim = 256,
                                      .positions = 8192,
                                      .activation = MAL_GELU_TANH};
  mal_layer_names names = four_norms();
  mal_layer_kind k = start(r, &defaults);
  k.norms = 4;
  k.softcap = !mal_is_null(r, "attn_logit_softcapping");
  k.rope_theta = mal_key_rope_theta(r, 10000);
  int64_t window = mal_key(r, "sliding_window", 1, MAL_MAX_POSITIONS, mal_is_null(r, "sliding_window") ? 0 : 4096);
  mal_add_windowed(r, &names, &k, read_windows(r, 2), window);
  mal_add_outer(r, &mal_llama_outer);
}

/* Layers with a window rotate by rope_local_base_freq, the others by rope_theta. */
static void read_gemma3_text(mal_reader *r, const char *base) {
  static const mal_basics defaults = {.vocab = 262208,
                                      .hidden = 2304,
                                      .ffn = 9216,
                                      .layers = 26,
                                      .heads = 8,
                                      .kv_heads = 4,
                                      .head_dim = 256,
                                      .positions = 131072,
                                      .activation = MAL_GELU_TANH};
  mal_layer_names names = four_norms();
  mal_outer_names outer = mal_llama_outer;
  names.prefix = mal_print(r->a, "%smodel.layers.{l}.", base);
  outer.embed = mal_print(r->a, "%smodel.embed_tokens", base);
  outer.final_norm = mal_print(r->a, "%smodel.norm", base);
  outer.head = mal_print(r->a, "%slm_head", base);
  mal_layer_kind k = start(r, &defaults);
  k.norms = 4;
  k.qk_norm = true;
  k.softcap = mal_has(r, "attn_logit_softcapping");
  int64_t window = mal_key(r, "sliding_window", 1, MAL_MAX_POSITIONS, mal_is_null(r, "sliding_window") ? 0 : 4096);
  bool *windowed = read_windows(r, mal_key(r, "sliding_window_pattern", 1, MAL_MAX_LAYERS, 6));
  uint8_t *which = MAL_ARRAY(r->a, uint8_t, r->m->layers);
  for (int64_t l = 0; l < r->m->layers; l++) which[l] = windowed[l];
  mal_layer_kind variants[2] = {k, k};
  variants[0].rope_theta = mal_key_rope_theta(r, 1e6);
  variants[1].rope_theta = mal_key_real(r, "rope_local_base_freq", 1e18, 10000);
  variants[1].window = window;
  mal_add_layers(r, &names, variants, 2, which);
  mal_add_outer(r, &outer);
}

static void read_gemma3_plain(mal_reader *r) { read_gemma3_text(r, ""); }

/* The vision tower is left out: only the language model is described. */
static void read_gemma3(mal_reader *r) {
  const json_t *text = json_object_get(r->object, "text_config");
  if (!json_is_object(text)) {
    mal_reject(r, "text_config",
               _("must be an object: the language model. For a model of text alone, give the "
                 "model_type \"gemma3_text\"."));
    return;
  }
  r->object = text;
  read_gemma3_text(r, "language_model.");
}

const mal_family mal_family_gemma = {"gemma", read_gemma, "GemmaForCausalLM"};
const mal_family mal_family_gemma2 = {"gemma2", read_gemma2, "Gemma2ForCausalLM"};
const mal_family mal_family_gemma3 = {"gemma3", read_gemma3, NULL};
const mal_family mal_family_gemma3_text = {"gemma3_text", read_gemma3_plain, "Gemma3ForCausalLM"};
