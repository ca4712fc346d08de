/* GPT-2 and GPT-3: learned positions, biases everywhere, a plain GELU MLP, matrices stored [in, out].
 * Defaults: configuration_gpt2.py of transformers. */
#include "model/family.h"

static const mal_layer_names layer_names = {
    .prefix = "transformer.h.{l}.",
    .norms = {"ln_1", "ln_2"},
    .qkv = "attn.c_attn",
    .fused_qkv = MAL_FUSED_BLOCKS,
    .out = "attn.c_proj",
    .up = "mlp.c_fc",
    .down = "mlp.c_proj",
    .norm_bias = true,
    .transposed = true,
};

static const mal_outer_names outer_names = {.embed = "transformer.wte",
                                            .position = "transformer.wpe",
                                            .final_norm = "transformer.ln_f",
                                            .head = "lm_head",
                                            .norm_bias = true};

static void read_gpt2(mal_reader *r) {
  mal_model *m = r->m;
  m->vocab = mal_width(r, "vocab_size", 50257);
  mal_read_size(r, mal_either(r, "n_embd", "hidden_size"), 768, mal_either(r, "n_layer", "num_hidden_layers"), 12);
  m->max_positions = mal_width(r, mal_either(r, "n_positions", "max_position_embeddings"), 1024);
  m->learned_positions = m->max_positions;
  m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", true);
  mal_start_layers(r);
  mal_layer_kind k = {.norms = 2, .qkv_bias = true, .out_bias = true, .mlp_bias = true};
  const char *heads = mal_either(r, "n_head", "num_attention_heads");
  k.heads = k.kv_heads = mal_width(r, heads, 12);
  k.head_dim = k.v_head_dim = mal_even_head_dim(r, heads, k.heads);
  k.ffn = mal_width(r, "n_inner", 4 * m->hidden);
  k.activation = mal_key_activation(r, "activation_function", MAL_GELU_TANH);
  mal_read_norm(r, &k, MAL_LAYERNORM, "layer_norm_epsilon", 1e-5);
  mal_add_layers(r, &layer_names, &k, 1, NULL);
  mal_add_outer(r, &outer_names);
}

const mal_family mal_family_gpt2 = {"gpt2", read_gpt2, "GPT2LMHeadModel"};
