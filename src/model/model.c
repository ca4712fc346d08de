#include "model/model.h"
#include "core/catalog.h"
#include "core/file.h"
#include "core/suggest.h"
#include "model/family.h"
#include <assert.h>
#include <string.h>

const char *const mal_activation_name[] = {"gelu", "gelu_tanh", "silu", "relu", "relu2"};
const char *const mal_role_name[] = {
    "embed",       "position",  "embed_norm",  "final_norm",  "head", "norm",  "qkv",    "q_down",
    "q_up",        "kv_down",   "kv_up",       "out",         "up",   "down",  "router", "expert_up",
    "expert_down", "shared_up", "shared_down", "shared_gate", "mtp",  "buffer"};
static_assert(sizeof(mal_role_name) / sizeof(*mal_role_name) == MAL_W_ROLES, "one name for each role");

bool mal_model_has_experts(const mal_model *m) {
  for (int k = 0; k < m->n_kinds; k++)
    if (m->kinds[k].mlp == MAL_MLP_MOE) return true;
  return false;
}

static const mal_family *find_family(mal_reader *r) {
  const char *type = mal_key_text(r, "model_type", NULL);
  if (r->status != MAL_OK) return NULL;
  if (!type) {
    mal_reject(r, "model_type", _("is missing. Give the family of the model, such as \"llama\"."));
    return NULL;
  }
  const char *names[64];
  assert(mal_n_families <= 64);
  for (int i = 0; i < mal_n_families; i++) {
    names[i] = mal_families[i]->model_type;
    if (!strcmp(names[i], type)) return mal_families[i];
  }
  char near[256], all[1024] = "";
  mal_suggest(type, names, (size_t)mal_n_families, near, sizeof(near));
  for (int i = 0; i < mal_n_families; i++) {
    strncat(all, i ? ", " : "", sizeof(all) - strlen(all) - 1);
    strncat(all, names[i], sizeof(all) - strlen(all) - 1);
  }
  if (*near)
    mal_reject(r, "model_type", _("unknown family \"%.60s\". Did you mean %s? Known: %s."), type, near, all);
  else
    mal_reject(r, "model_type", _("unknown family \"%.60s\". Known: %s. A bare description works for the others."),
               type, all);
  return NULL;
}

/* The object "malha" of a catalogue file: where its numbers were read. */
static void read_provenance(mal_reader *r) {
  mal_model *m = r->m;
  const json_t *config = r->object;
  const json_t *malha = json_object_get(r->json->root, "malha");
  m->name = r->path;
  m->source = m->published_source = "";
  if (!malha) return;
  if (!json_is_object(malha)) {
    mal_reject(r, "malha", _("must be an object with name, source, parameters and parameters_source."));
    return;
  }
  r->object = malha;
  m->name = mal_key_text(r, "name", r->path);
  m->source = mal_key_text(r, "source", "");
  m->published_parameters = mal_key(r, "parameters", 0, MAL_MAX_PARAMETERS, 0);
  m->published_source = mal_key_text(r, "parameters_source", "");
  r->object = config;
}

mal_status mal_model_parse_config(mal_arena *a, const char *path, const char *text, size_t length, mal_model *m,
                                  mal_error *e) {
  mal_json json = {0};
  *m = (mal_model){0};
  mal_status status = mal_json_parse(a, path, text, length, &json, e);
  if (status != MAL_OK) return status;
  mal_reader r = {.a = a, .json = &json, .object = json.root, .path = mal_copy(a, path), .m = m, .e = e};
  if (!json_is_object(json.root))
    r.status = mal_fail(e, MAL_BAD, _("%s:1: not a JSON object. Give the config.json of a model."), path);
  const mal_family *family = r.status == MAL_OK ? find_family(&r) : NULL;
  if (family) {
    m->family = family->model_type;
    read_provenance(&r);
    family->read(&r);
    mal_finish(&r);
  }
  mal_json_free(&json);
  return r.status;
}

static mal_status load_file(mal_arena *a, const char *path, mal_model *m, mal_error *e) {
  char *text;
  size_t length;
  mal_status status = mal_file_read(a, path, MAL_JSON_LIMIT_BYTES, &text, &length, e);
  if (status == MAL_OK) status = mal_model_parse_config(a, path, text, length, m, e);
  m->config = text;
  return status;
}

static bool ends_with(const char *text, const char *ending) {
  size_t n = strlen(text), k = strlen(ending);
  return n >= k && !strcmp(text + n - k, ending);
}

mal_status mal_model_load(mal_arena *a, const char *spec, mal_model *m, mal_error *e) {
  *m = (mal_model){0};
  if (!*spec)
    return mal_fail(e, MAL_BAD, _("The model is empty. Give a name, a config.json, or layers=...,hidden=...,..."));
  char *path;
  mal_error unknown;
  if (!mal_names_file(spec) && mal_catalog_find(a, "models", spec, ".json", _("model"), &path, &unknown) == MAL_OK)
    return load_file(a, path, m, e);
  if (mal_is_directory(spec)) {
    path = mal_print(a, "%s%sconfig.json", spec, ends_with(spec, "/") ? "" : "/");
    if (!mal_is_file(path))
      return mal_fail(e, MAL_BAD, _("The folder %s has no config.json. Give the folder of a Hugging Face model."),
                      spec);
    return load_file(a, path, m, e);
  }
  if (mal_is_file(spec) || !strcmp(spec, "-")) return load_file(a, spec, m, e);
  if (strchr(spec, '=')) return mal_model_parse_bare(a, spec, m, e);
  if (strchr(spec, '/') || ends_with(spec, ".json")) return load_file(a, spec, m, e);
  return mal_catalog_find(a, "models", spec, ".json", _("model"), &path, e);
}
