/* OPT: learned positions (two rows more than positions), ReLU, biases everywhere. opt-350m alone has narrow embeddings
 * behind two projections, norms after the blocks and no final norm.
 * Defaults: configuration_opt.py of transformers. */
#include "model/family.h"

enum { POSITION_OFFSET = 2 }; /* OPTLearnedPositionalEmbedding */

static const mal_layer_names layer_names = {
    .prefix = "model.decoder.layers.{l}.",
    .norms = {"self_attn_layer_norm", "final_layer_norm"},
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .out = "self_attn.out_proj",
    .up = "fc1",
    .down = "fc2",
    .norm_bias = true,
};

static void add_outer(mal_reader *r) {
  mal_model *m = r->m;
  mal_begin(r, "");
  mal_put(r, MAL_W_EMBED, MAL_SPLIT_VOCAB, "model.decoder.embed_tokens", m->vocab, m->embedding_width);
  if (m->embedding_width != m->hidden)
    mal_put(r, MAL_W_EMBED, MAL_SPLIT_NONE, "model.decoder.project_in", m->hidden, m->embedding_width);
  mal_put(r, MAL_W_POSITION, MAL_SPLIT_NONE, "model.decoder.embed_positions", m->learned_positions, m->hidden);
  if (m->final_norm) mal_put_norm(r, MAL_W_FINAL_NORM, "model.decoder.final_layer_norm", m->hidden, true);
  if (m->embedding_width != m->hidden)
    mal_put(r, MAL_W_HEAD, MAL_SPLIT_NONE, "model.decoder.project_out", m->embedding_width, m->hidden);
  if (!m->tied_embeddings) mal_put(r, MAL_W_HEAD, MAL_SPLIT_VOCAB, "lm_head", m->vocab, m->embedding_width);
  mal_end_model(r);
}

static void read_opt(mal_reader *r) {
  mal_model *m = r->m;
  m->vocab = mal_width(r, "vocab_size", 50272);
  mal_read_size(r, "hidden_size", 768, "num_hidden_layers", 12);
  m->max_positions = mal_width(r, "max_position_embeddings", 2048);
  m->learned_positions = m->max_positions + POSITION_OFFSET;
  m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", true);
  mal_start_layers(r);
  m->embedding_width = mal_width(r, "word_embed_proj_dim", m->hidden);
  mal_layer_kind k = {.norms = 2};
  k.heads = k.kv_heads = mal_width(r, "num_attention_heads", 12);
  k.head_dim = k.v_head_dim = mal_even_head_dim(r, "num_attention_heads", k.heads);
  k.ffn = mal_width(r, "ffn_dim", 3072);
  k.qkv_bias = k.out_bias = k.mlp_bias = mal_key_bool(r, "enable_bias", true);
  k.activation = mal_key_activation(r, "activation_function", MAL_RELU);
  k.post_norm = !mal_key_bool(r, "do_layer_norm_before", true);
  m->final_norm = !k.post_norm && !mal_key_bool(r, "_remove_final_layer_norm", false);
  k.norm = m->norm = MAL_LAYERNORM;
  m->norm_eps = 1e-5;
  if (!mal_key_bool(r, "layer_norm_elementwise_affine", true))
    mal_reject(r, "layer_norm_elementwise_affine", _("norms without weights are not supported. Set it to true."));
  mal_add_layers(r, &layer_names, &k, 1, NULL);
  add_outer(r);
}

const mal_family mal_family_opt = {"opt", read_opt, "OPTForCausalLM"};
