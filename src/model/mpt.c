/* MPT: ALiBi, no biases, not even in norms. What transformers ignores (learned positions, qk_ln) is ignored here too.
 * Defaults: configuration_mpt.py of transformers. */
#include "model/family.h"

static const mal_layer_names layer_names = {
    .prefix = "transformer.blocks.{l}.",
    .norms = {"norm_1", "norm_2"},
    .qkv = "attn.Wqkv",
    .fused_qkv = MAL_FUSED_BLOCKS,
    .out = "attn.out_proj",
    .up = "ffn.up_proj",
    .down = "ffn.down_proj",
};

static const mal_outer_names outer_names = {
    .embed = "transformer.wte", .final_norm = "transformer.norm_f", .head = "lm_head"};

static void read_mpt(mal_reader *r) {
  mal_model *m = r->m;
  m->vocab = mal_width(r, "vocab_size", 50368);
  mal_read_size(r, mal_either(r, "d_model", "hidden_size"), 2048, mal_either(r, "n_layers", "num_hidden_layers"), 24);
  m->max_positions = mal_key(r, "max_seq_len", 1, MAL_MAX_POSITIONS, 2048);
  m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", true);
  mal_start_layers(r);
  mal_layer_kind k = {.norms = 2, .alibi = true, .activation = MAL_GELU};
  const char *heads = mal_either(r, "n_heads", "num_attention_heads");
  k.heads = k.kv_heads = mal_width(r, heads, 16);
  k.head_dim = k.v_head_dim = mal_even_head_dim(r, heads, k.heads);
  k.ffn = mal_key(r, "expansion_ratio", 1, 64, 4) * m->hidden;
  mal_read_norm(r, &k, MAL_LAYERNORM, "layer_norm_epsilon", 1e-5);
  mal_add_layers(r, &layer_names, &k, 1, NULL);
  mal_add_outer(r, &outer_names);
}

const mal_family mal_family_mpt = {"mpt", read_mpt, "MptForCausalLM"};
