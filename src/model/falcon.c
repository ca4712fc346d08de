/* Falcon in its three forms: 7b (one key/value head, attention and MLP side by side behind one norm), 40b and 180b
 * (new_decoder_architecture: grouped queries, a norm for each side), and the early "rw" (heads apart, in sequence).
 * Defaults: configuration_falcon.py of transformers. */
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

static const mal_outer_names outer_names = {
    .embed = "transformer.word_embeddings", .final_norm = "transformer.ln_f", .head = "lm_head", .norm_bias = true};

static void read_block_form(mal_reader *r, mal_layer_names *names, mal_layer_kind *k, bool grouped) {
  bool new_form = mal_key_bool(r, "new_decoder_architecture", grouped);
  bool multi_query = mal_key_bool(r, "multi_query", true);
  bool parallel = mal_key_bool(r, "parallel_attn", true);
  int64_t parallel_norms = mal_key(r, "num_ln_in_parallel_attn", 1, 2, 2);
  k->parallel_block = parallel || new_form;
  k->norms = k->parallel_block ? 1 : 2;
  k->kv_heads = !new_form && multi_query ? 1 : k->heads;
  if (!new_form) return;
  k->kv_heads = mal_width(r, mal_either(r, "num_kv_heads", "n_head_kv"), k->heads);
  if (parallel_norms == 2) {
    k->norms = 2;
    names->norms[0] = "ln_attn";
    names->norms[1] = "ln_mlp";
  } else if (!parallel) {
    k->norms = 2;
  }
}

static void read(mal_reader *r, bool grouped) {
  mal_model *m = r->m;
  mal_layer_names names = layer_names;
  m->vocab = mal_width(r, "vocab_size", 65024);
  mal_read_size(r, mal_either(r, "hidden_size", "n_embed"), 4544, mal_either(r, "num_hidden_layers", "n_layer"), 32);
  m->max_positions = mal_key(r, "max_position_embeddings", 1, MAL_MAX_POSITIONS, 2048);
  m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", true);
  mal_start_layers(r);
  mal_layer_kind k = {0};
  const char *heads = mal_either(r, "num_attention_heads", "n_head");
  k.heads = mal_width(r, heads, 71);
  k.head_dim = k.v_head_dim = mal_even_head_dim(r, heads, k.heads);
  k.qkv_bias = k.out_bias = k.mlp_bias = mal_key_bool(r, "bias", false);
  k.alibi = mal_key_bool(r, "alibi", false);
  k.rope_dim = k.alibi ? 0 : k.head_dim;
  k.rope_theta = k.alibi ? 0 : mal_key_rope_theta(r, 10000);
  k.ffn = mal_width(r, "ffn_hidden_size", 4 * m->hidden);
  k.activation = mal_key_activation(r, "activation", MAL_GELU);
  mal_read_norm(r, &k, MAL_LAYERNORM, "layer_norm_epsilon", 1e-5);
  read_block_form(r, &names, &k, grouped);
  mal_add_layers(r, &names, &k, 1, NULL);
  mal_add_outer(r, &outer_names);
}

static void read_falcon(mal_reader *r) { read(r, false); }
static void read_refined_web(mal_reader *r) { read(r, true); }

const mal_family mal_family_falcon = {"falcon", read_falcon, "FalconForCausalLM"};
const mal_family mal_family_falcon_7b = {"RefinedWebModel", read_falcon,
                                         NULL}; /* what first checkpoints call themselves */
const mal_family mal_family_falcon_40b = {"RefinedWeb", read_refined_web, NULL};
