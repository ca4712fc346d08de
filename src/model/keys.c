#include "model/family.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void mal_reject(mal_reader *r, const char *key, const char *format, ...) {
  if (r->status != MAL_OK) return;
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof(message), format, args);
  va_end(args);
  if (r->json)
    r->status = mal_fail(r->e, MAL_BAD, "%s%s: %s", mal_json_where(r->json, r->a, key), key, message);
  else
    r->status = mal_fail(r->e, MAL_BAD, "%s: %s: %s", r->path, key, message);
}

bool mal_has(const mal_reader *r, const char *key) {
  const json_t *value = json_object_get(r->object, key);
  return value && !json_is_null(value);
}

bool mal_is_null(const mal_reader *r, const char *key) { return json_is_null(json_object_get(r->object, key)); }

const char *mal_either(const mal_reader *r, const char *key, const char *alias) {
  return !mal_has(r, key) && mal_has(r, alias) ? alias : key;
}

static void take_default(mal_model *m, const char *key, int64_t value) {
  for (int i = 0; i < m->n_defaults; i++)
    if (strcmp(m->defaults[i].key, key) == 0) return;
  if (m->n_defaults < MAL_MAX_DEFAULTS) m->defaults[m->n_defaults++] = (mal_default){key, value};
}

int64_t mal_key(mal_reader *r, const char *key, int64_t lo, int64_t hi, int64_t otherwise) {
  int64_t value = otherwise;
  bool found = false;
  if (r->status == MAL_OK) r->status = mal_json_int(r->json, r->object, key, lo, hi, &value, &found, r->e);
  if (r->status == MAL_OK && !found && otherwise && !mal_is_null(r, key)) take_default(r->m, key, otherwise);
  return r->status == MAL_OK && found ? value : otherwise;
}

int64_t mal_width(mal_reader *r, const char *key, int64_t otherwise) {
  return mal_key(r, key, 1, MAL_MAX_WIDTH, otherwise);
}

void mal_read_size(mal_reader *r, const char *hidden_key, int64_t hidden, const char *layers_key, int64_t layers) {
  if (!mal_has(r, hidden_key) && !mal_has(r, layers_key))
    mal_reject(r, hidden_key,
               _("is missing, and so is %s: the file says no size. Add both (the library that reads such files would "
                 "take %lld and %lld)."),
               layers_key, (long long)hidden, (long long)layers);
  r->m->hidden = mal_width(r, hidden_key, hidden);
  r->m->layers = mal_key(r, layers_key, 1, MAL_MAX_LAYERS, layers);
}

double mal_key_real(mal_reader *r, const char *key, double hi, double otherwise) {
  double value = otherwise;
  bool found = false;
  if (r->status == MAL_OK) r->status = mal_json_real(r->json, r->object, key, 0, hi, &value, &found, r->e);
  return r->status == MAL_OK && found ? value : otherwise;
}

bool mal_key_bool(mal_reader *r, const char *key, bool otherwise) {
  bool value = otherwise, found = false;
  if (r->status == MAL_OK) r->status = mal_json_bool(r->json, r->object, key, &value, &found, r->e);
  return r->status == MAL_OK && found ? value : otherwise;
}

const char *mal_key_text(mal_reader *r, const char *key, const char *otherwise) {
  const char *value = otherwise;
  bool found = false;
  if (r->status == MAL_OK) r->status = mal_json_text(r->json, r->object, r->a, key, &value, &found, r->e);
  return r->status == MAL_OK && found ? value : otherwise;
}

/* The names of transformers' ACT2FN that published configs use. */
static const struct {
  const char *name;
  mal_activation activation;
} activations[] = {
    {"gelu", MAL_GELU},
    {"gelu_new", MAL_GELU_TANH},
    {"gelu_fast", MAL_GELU_TANH},
    {"silu", MAL_SILU},
    {"gelu_pytorch_tanh", MAL_GELU_TANH},
    {"gelu_python", MAL_GELU},
    {"swish", MAL_SILU},
    {"relu", MAL_RELU},
    {"relu2", MAL_RELU2},
    {"squared_relu", MAL_RELU2},
};

mal_activation mal_key_activation(mal_reader *r, const char *key, mal_activation otherwise) {
  const char *text = mal_key_text(r, key, NULL);
  if (!text) return otherwise;
  for (size_t i = 0; i < sizeof(activations) / sizeof(*activations); i++)
    if (!strcmp(text, activations[i].name)) return activations[i].activation;
  mal_reject(r, key, _("unknown activation \"%.60s\". Known: gelu, gelu_new, gelu_pytorch_tanh, silu, relu, relu2."),
             text);
  return otherwise;
}

double mal_key_rope_theta(mal_reader *r, double otherwise) {
  const json_t *parameters = json_object_get(r->object, "rope_parameters");
  const json_t *theta = json_object_get(parameters, "rope_theta");
  if (json_is_number(theta) && json_number_value(theta) > 0) return json_number_value(theta);
  return mal_key_real(r, "rope_theta", 1e18, otherwise);
}

int64_t mal_key_rope_dim(mal_reader *r, const char *key, double otherwise, int64_t head_dim) {
  const json_t *parameters = json_object_get(r->object, "rope_parameters");
  const json_t *fraction = json_object_get(parameters, "partial_rotary_factor");
  if (json_is_number(fraction) && json_number_value(fraction) >= 0 && json_number_value(fraction) <= 1)
    return (int64_t)(json_number_value(fraction) * (double)head_dim);
  return (int64_t)(mal_key_real(r, key, 1, otherwise) * (double)head_dim);
}

bool mal_key_layer_types(mal_reader *r, bool *windowed) {
  const json_t *types = json_object_get(r->object, "layer_types");
  if (r->status != MAL_OK || !types || json_is_null(types)) return false;
  if (!json_is_array(types) || json_array_size(types) != (size_t)r->m->layers) {
    mal_reject(r, "layer_types",
               P_("must be a list with one entry, for the %lld layer.",
                  "must be a list with one entry for each of the %lld layers.", r->m->layers),
               (long long)r->m->layers);
    return false;
  }
  for (size_t l = 0; l < json_array_size(types); l++) {
    const char *type = json_string_value(json_array_get(types, l));
    bool sliding = type && !strcmp(type, "sliding_attention");
    if (!sliding && (!type || strcmp(type, "full_attention"))) {
      mal_reject(r, "layer_types", _("entry %zu must be \"full_attention\" or \"sliding_attention\"."), l);
      return false;
    }
    windowed[l] = sliding;
  }
  return true;
}

int64_t mal_even_head_dim(mal_reader *r, const char *heads_key, int64_t heads) {
  int64_t hidden = r->m->hidden;
  if (heads > 0 && hidden % heads == 0) return hidden / heads;
  mal_reject(r, heads_key, _("the hidden size %lld is not a multiple of %lld heads. Give a number that divides it."),
             (long long)hidden, (long long)heads);
  return 1;
}

void mal_start_layers(mal_reader *r) {
  r->m->kind_of = MAL_ARRAY(r->a, uint8_t, r->m->layers);
  r->m->embedding_width = r->m->hidden;
  r->m->final_norm = true;
}

void mal_read_norm(mal_reader *r, mal_layer_kind *k, mal_norm norm, const char *key, double otherwise) {
  k->norm = r->m->norm = norm;
  r->m->norm_eps = mal_key_real(r, key, 1, otherwise);
}

/* rope_scaling names a rule other than the default one. */
static bool is_rope_stretched(const mal_reader *r) {
  const json_t *rule = json_object_get(r->object, "rope_scaling");
  const char *type = json_string_value(json_object_get(rule, "rope_type"));
  if (!type) type = json_string_value(json_object_get(rule, "type"));
  return json_is_object(rule) && !(type && strcmp(type, "default") == 0);
}

mal_layer_kind mal_read_basics(mal_reader *r, const mal_basics *d) {
  mal_model *m = r->m;
  m->vocab = mal_width(r, "vocab_size", d->vocab);
  mal_read_size(r, "hidden_size", d->hidden, "num_hidden_layers", d->layers);
  m->max_positions = mal_key(r, "max_position_embeddings", 1, MAL_MAX_POSITIONS, d->positions);
  mal_start_layers(r);
  mal_layer_kind k = {.mixer = MAL_ATTENTION, .mlp = MAL_MLP_DENSE, .norms = 2};
  k.heads = mal_width(r, "num_attention_heads", d->heads);
  bool as_heads = !d->kv_heads || mal_is_null(r, "num_key_value_heads");
  k.kv_heads = mal_width(r, "num_key_value_heads", as_heads ? k.heads : d->kv_heads);
  k.ffn = mal_width(r, "intermediate_size", d->ffn);
  k.head_dim = mal_width(r, "head_dim", mal_is_null(r, "head_dim") ? 0 : d->head_dim);
  if (!k.head_dim) k.head_dim = mal_even_head_dim(r, "num_attention_heads", k.heads);
  k.v_head_dim = k.rope_dim = k.head_dim;
  k.rope_stretched = is_rope_stretched(r);
  k.activation = mal_key_activation(r, "hidden_act", d->activation);
  return k;
}
