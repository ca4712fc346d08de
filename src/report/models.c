/* Models: the list, and one with its weights. */
#include "core/catalog.h"
#include "core/units.h"
#include "report/catalog.h"
#include <string.h>

enum { LABEL = 12 };

mal_status mal_catalog_load_models(mal_arena *a, mal_catalog_models *all, mal_error *e) {
  char **names;
  mal_status status = mal_catalog_list(a, "models", ".json", &names, &all->count, e);
  if (status) return status;
  all->models = MAL_ARRAY(a, mal_model, all->count + 1);
  for (size_t i = 0; i < all->count && !status; i++) status = mal_model_load(a, names[i], &all->models[i], e);
  return status;
}

void mal_report_models(mal_page *p, const mal_catalog_models *all) {
  mal_table t;
  mal_table_init(&t, p->arena, 0, "llrrrr");
  mal_table_row(&t, MAL_DIM, _("model"), _("family"), _("parameters"), _("active"), _("layers"), _("hidden"));
  for (size_t i = 0; i < all->count; i++) {
    const mal_model *m = &all->models[i];
    bool sparse = m->active_parameters != m->parameters;
    mal_table_row(&t, MAL_PLAIN, m->name, m->family, mal_show_count((double)m->parameters),
                  sparse ? mal_show_count((double)m->active_parameters) : "", mal_show_int(m->layers),
                  mal_show_int(m->hidden));
  }
  mal_table_put(&t, p);
  mal_page_put(p, "\n");
  mal_page_wrap(p, 0, 0,
                _("A model is one of these names, the path of a Hugging Face config.json, or a description such as "
                  "layers=96,hidden=12288,heads=96,ffn=49152,vocab=51200."));
  mal_page_styled(p, MAL_DIM, "%s", _("\nmore: malha models llama-3-70b\n"));
}

/* --- one model ---------------------------------------------------------------------------------------------------- */

static void put_counts(mal_page *p, const mal_model *m) {
  mal_page_field(p, LABEL, _("parameters"), "%s (%s)", mal_show_int(m->parameters),
                 mal_show_count((double)m->parameters));
  if (m->active_parameters != m->parameters)
    mal_page_field(p, LABEL, _("active"), _("%s for one token (%s)"), mal_show_int(m->active_parameters),
                   mal_show_count((double)m->active_parameters));
  if (m->published_parameters)
    mal_page_field(p, LABEL, _("published"), _("%s: %s"), mal_show_int(m->published_parameters), m->published_source);
  if (m->source && *m->source) mal_page_field(p, LABEL, _("source"), "%s", m->source);
}

static void put_shape(mal_page *p, const mal_model *m) {
  mal_page_field(
      p, LABEL, _("shape"),
      P_("%lld layer, hidden %lld, vocabulary %s%s%s", "%lld layers, hidden %lld, vocabulary %s%s%s", m->layers),
      (long long)m->layers, (long long)m->hidden, mal_show_int(m->vocab),
      m->max_positions ? mal_print(p->arena, _(", up to %s tokens"), mal_show_int(m->max_positions)) : "",
      m->tied_embeddings ? _(", embedding and head tied") : "");
  if (m->mtp_layers)
    mal_page_field(p, LABEL, _("extras"),
                   P_("%lld multi-token-prediction module, %s parameters",
                      "%lld multi-token-prediction modules, %s parameters", m->mtp_layers),
                   (long long)m->mtp_layers, mal_show_count((double)m->mtp_parameters));
}

static const char *attention_words(mal_arena *a, const mal_layer_kind *k) {
  if (k->mixer == MAL_MLA)
    return mal_print(a,
                     P_("latent attention, %lld head of %lld, ranks %lld and %lld",
                        "latent attention, %lld heads of %lld, ranks %lld and %lld", k->heads),
                     (long long)k->heads, (long long)k->head_dim, (long long)k->q_lora_rank,
                     (long long)k->kv_lora_rank);
  const char *queries = mal_print(a, P_("attention, %lld head of %lld", "attention, %lld heads of %lld", k->heads),
                                  (long long)k->heads, (long long)k->head_dim);
  return mal_print(a, P_("%s, %lld key-value head%s", "%s, %lld key-value heads%s", k->kv_heads), queries,
                   (long long)k->kv_heads, k->window ? mal_print(a, _(", window %lld"), (long long)k->window) : "");
}

static const char *mlp_words(mal_arena *a, const mal_layer_kind *k) {
  const char *gated = k->gated ? _("gated ") : "";
  if (k->mlp == MAL_MLP_DENSE)
    return mal_print(a, _("%s%s of %lld"), gated, mal_activation_name[k->activation], (long long)k->ffn);
  return mal_print(a, _("%lld experts of %s%s %lld, %lld a token%s"), (long long)k->experts, gated,
                   mal_activation_name[k->activation], (long long)k->ffn, (long long)k->top_k,
                   k->shared_ffn ? mal_print(a, _(", shared %lld"), (long long)k->shared_ffn) : "");
}

static int64_t layers_of(const mal_model *m, int kind) {
  int64_t n = 0;
  for (int64_t i = 0; i < m->layers; i++) n += m->kind_of[i] == kind;
  return n;
}

static void put_kinds(mal_page *p, const mal_model *m) {
  for (int i = 0; i < m->n_kinds; i++) {
    const mal_layer_kind *k = &m->kinds[i];
    mal_page_field(p, LABEL, i ? "" : _("layers"), _("%lld × (%s; %s; %s): %s parameters each"),
                   (long long)layers_of(m, i), attention_words(p->arena, k), mlp_words(p->arena, k),
                   k->norm == MAL_LAYERNORM ? "LayerNorm" : "RMSNorm", mal_show_count((double)k->parameters));
  }
}

static const char *shape_of(mal_arena *a, const mal_weight *w) {
  char *text = mal_print(a, "%lld", (long long)w->shape[0]);
  for (int i = 1; i < w->rank; i++) text = mal_print(a, "%s × %lld", text, (long long)w->shape[i]);
  return text;
}

/* Bytes of the names' common beginning, up to a dot: "model.layers.{l}." */
static size_t common_prefix(const mal_weight *w, int n) {
  size_t same = n > 1 ? strlen(w[0].name) : 0;
  for (int i = 1; i < n; i++) {
    size_t k = 0;
    while (k < same && w[i].name[k] == w[0].name[k]) k++;
    same = k;
  }
  while (same && w[0].name[same - 1] != '.') same--;
  return same;
}

static void weight_rows(mal_table *t, const mal_weight *w, int n, int64_t layers) {
  static const char *const splits[] = {"", N_("rows"), N_("columns"), N_("vocab")};
  size_t prefix = common_prefix(w, n);
  if (prefix || layers > 1)
    mal_table_row(t, MAL_DIM, mal_print(t->arena, "%.*s", (int)prefix, w[0].name),
                  layers > 1 ? mal_print(t->arena, _("× %lld layers"), (long long)layers) : "", "", "");
  for (int i = 0; i < n; i++)
    mal_table_row(t, MAL_PLAIN, mal_print(t->arena, "%s%s", prefix ? "  " : "", w[i].name + prefix),
                  shape_of(t->arena, &w[i]), w[i].split ? _(splits[w[i].split]) : "",
                  mal_show_count((double)(mal_weight_elements(&w[i]) * layers)));
}

void mal_report_model(mal_page *p, const mal_model *m) {
  mal_table t;
  mal_page_styled(p, MAL_BOLD, "%s", m->name);
  mal_page_put(p, " (%s)\n", m->family);
  put_counts(p, m);
  put_shape(p, m);
  mal_page_note(p, LABEL, _("defaults"), mal_model_defaults_words(p->arena, m));
  put_kinds(p, m);
  mal_page_styled(p, MAL_BOLD, "%s", _("\nWeights\n"));
  mal_table_init(&t, p->arena, 2, "lllr");
  mal_table_row(&t, MAL_DIM, _("name"), _("shape"), _("tp cuts"), _("parameters"));
  weight_rows(&t, m->weights, m->n_weights, 1);
  for (int i = 0; i < m->n_kinds; i++) weight_rows(&t, m->kinds[i].weights, m->kinds[i].n_weights, layers_of(m, i));
  mal_table_put(&t, p);
  mal_page_styled(p, MAL_DIM, "%s", _("{l} is the layer, {e} the expert.\n"));
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static json_t *brief(const mal_model *m) {
  json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "name", m->name, "family", m->family, "parameters",
                        (json_int_t)m->parameters, "active_parameters", (json_int_t)m->active_parameters, "layers",
                        (json_int_t)m->layers, "hidden", (json_int_t)m->hidden, "vocab", (json_int_t)m->vocab);
  json_object_set_new(o, "published_parameters",
                      m->published_parameters ? json_integer(m->published_parameters) : json_null());
  json_object_set_new(o, "published_source", json_string(m->published_source ? m->published_source : ""));
  json_object_set_new(o, "source", json_string(m->source ? m->source : ""));
  return o;
}

json_t *mal_report_models_json(const mal_catalog_models *all) {
  json_t *list = json_array();
  for (size_t i = 0; i < all->count; i++) json_array_append_new(list, brief(&all->models[i]));
  return json_pack("{s:i, s:o}", "version", 1, "models", list);
}

static void append_weights(json_t *list, const mal_weight *w, int n, int64_t layers) {
  for (int i = 0; i < n; i++) {
    json_t *shape = json_array();
    for (int d = 0; d < w[i].rank; d++) json_array_append_new(shape, json_integer(w[i].shape[d]));
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:o, s:I, s:I}", "name", w[i].name, "role", mal_role_name[w[i].role],
                                    "shape", shape, "copies", (json_int_t)w[i].copies, "layers", (json_int_t)layers));
  }
}

json_t *mal_report_model_json(const mal_model *m) {
  json_t *o = brief(m), *weights = json_array();
  append_weights(weights, m->weights, m->n_weights, 1);
  for (int i = 0; i < m->n_kinds; i++)
    append_weights(weights, m->kinds[i].weights, m->kinds[i].n_weights, layers_of(m, i));
  json_object_set_new(o, "version", json_integer(1));
  json_object_set_new(o, "defaults", mal_model_defaults_json(m));
  json_object_set_new(o, "weights", weights);
  return o;
}
