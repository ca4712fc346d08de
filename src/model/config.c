/* The way back: from a model to a config.json that transformers takes. */
#include "model/family.h"
#include <stdlib.h>
#include <string.h>

static const char *architecture_of(const mal_model *m) {
  for (int i = 0; i < mal_n_families; i++)
    if (!strcmp(mal_families[i]->model_type, m->family)) return mal_families[i]->architecture;
  return NULL;
}

/* Llama's block, or Mistral's where it has a window, in every layer. */
static bool is_llama(const mal_model *m) {
  const mal_layer_kind *k = &m->kinds[0];
  bool biases = k->window ? !k->qkv_bias && !k->out_bias && !k->mlp_bias : k->qkv_bias == k->out_bias;
  return m->n_kinds == 1 && k->mixer == MAL_ATTENTION && k->mlp == MAL_MLP_DENSE && k->gated &&
         k->norm == MAL_RMSNORM && k->norms == 2 && !k->parallel_block && !k->post_norm && !m->learned_positions &&
         k->rope_dim == k->head_dim && !k->qk_norm && !m->embed_norm && !m->head_bias && biases;
}

/* transformers' names; silu is what its Llama has. */
static const char *activation_name(mal_activation x) {
  static const char *const names[] = {"gelu", "gelu_pytorch_tanh", "silu", "relu", "relu2"};
  return names[x];
}

static json_t *config_of_bare(const mal_model *m) {
  const mal_layer_kind *k = &m->kinds[0];
  json_t *root = json_pack(
      "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:b, s:I}", "architectures",
      k->window ? "MistralForCausalLM" : "LlamaForCausalLM", "model_type", k->window ? "mistral" : "llama",
      "vocab_size", (json_int_t)m->vocab, "hidden_size", (json_int_t)m->hidden, "intermediate_size", (json_int_t)k->ffn,
      "num_hidden_layers", (json_int_t)m->layers, "num_attention_heads", (json_int_t)k->heads, "num_key_value_heads",
      (json_int_t)k->kv_heads, "head_dim", (json_int_t)k->head_dim, "hidden_act", activation_name(k->activation),
      "rms_norm_eps", m->norm_eps, "rope_theta", k->rope_theta, "tie_word_embeddings", m->tied_embeddings,
      "max_position_embeddings", (json_int_t)(m->max_positions ? m->max_positions : 2048));
  if (k->window) {
    json_object_set_new(root, "sliding_window", json_integer(k->window));
  } else {
    json_object_set_new(root, "attention_bias", json_boolean(k->qkv_bias));
    json_object_set_new(root, "mlp_bias", json_boolean(k->mlp_bias));
  }
  return root;
}

mal_status mal_model_config(mal_arena *a, const mal_model *m, mal_dtype dtype, char **text, mal_error *e) {
  static const char *const names[MAL_DTYPES] = {
      [MAL_F32] = "float32", [MAL_TF32] = "float32", [MAL_BF16] = "bfloat16", [MAL_F16] = "float16"};
  json_t *root = NULL;
  mal_json j;
  if (m->config) {
    mal_status status = mal_json_parse(a, m->name, m->config, strlen(m->config), &j, e);
    if (status) return status;
    root = j.root;
    json_object_del(root, "malha");
    json_object_del(root, "dtype"); /* the newer name of torch_dtype, which both generations of transformers read */
    if (!json_object_get(root, "architectures") && architecture_of(m))
      json_object_set_new(root, "architectures", json_pack("[s]", architecture_of(m)));
  } else if (is_llama(m)) {
    root = config_of_bare(m);
  } else {
    return mal_fail(e, MAL_BAD,
                    _("transformers has no model like %s: a bare description can be written as config.json where its "
                      "block is Llama's (gated=1, RMSNorm, rotary positions) or Mistral's (the same with window=N and "
                      "without biases). Give the config.json of a model."),
                    m->name);
  }
  json_object_set_new(root, "torch_dtype", json_string(names[dtype] ? names[dtype] : "float32"));
  *text = mal_print(a, "%s\n", mal_json_dump(a, root));
  json_decref(root);
  return MAL_OK;
}
