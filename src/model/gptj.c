/* GPT-J: attention without biases and MLP side by side behind one LayerNorm; a head with a bias.
 * Defaults: configuration_gptj.py of transformers. */
#include "model/family.h"

static const mal_layer_names layer_names = {
    .prefix = "transformer.h.{l}.",
    .norms = {"ln_1"},
    .q = "attn.q_proj",
    .k = "attn.k_proj",
    .v = "attn.v_proj",
    .out = "attn.out_proj",
    .up = "mlp.fc_in",
    .down = "mlp.fc_out",
    .norm_bias = true,
};

static const mal_outer_names outer_names = {
    .embed = "transformer.wte", .final_norm = "transformer.ln_f", .head = "lm_head", .norm_bias = true};

static void read_gptj(mal_reader *r) {
  mal_model *m = r->m;
  m->vocab = mal_width(r, "vocab_size", 50400);
  mal_read_size(r, mal_either(r, "n_embd", "hidden_size"), 4096, mal_either(r, "n_layer", "num_hidden_layers"), 28);
  m->max_positions = mal_key(r, mal_either(r, "n_positions", "max_position_embeddings"), 1, MAL_MAX_POSITIONS, 2048);
  m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", false);
  m->head_bias = true;
  mal_start_layers(r);
  mal_layer_kind k = {.norms = 1, .mlp_bias = true, .parallel_block = true};
  const char *heads = mal_either(r, "n_head", "num_attention_heads");
  k.heads = k.kv_heads = mal_width(r, heads, 16);
  k.head_dim = k.v_head_dim = mal_even_head_dim(r, heads, k.heads);
  k.rope_dim =
      mal_key(r, "rotary_dim", 0, k.head_dim, k.head_dim < 64 || mal_is_null(r, "rotary_dim") ? k.head_dim : 64);
  k.rope_theta = 10000;
  k.ffn = mal_width(r, "n_inner", 4 * m->hidden);
  k.activation = mal_key_activation(r, "activation_function", MAL_GELU_TANH);
  mal_read_norm(r, &k, MAL_LAYERNORM, "layer_norm_epsilon", 1e-5);
  mal_add_layers(r, &layer_names, &k, 1, NULL);
  mal_add_outer(r, &outer_names);
}

const mal_family mal_family_gptj = {"gptj", read_gptj, "GPTJForCausalLM"};
