/* plan.json. Every value goes by its option's name and through its option's parser, so the file, the flags and job.yaml
 * can never disagree about what a value means. */
#include "plan/plan.h"
#include "core/catalog.h"
#include "core/file.h"
#include "core/options_json.h"
#include "core/suggest.h"
#include "job/types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const version_key = "malha_plan";

/* --- making ----------------------------------------------------------------------------------------------------------- */

mal_status mal_plan_complete(mal_arena *a, mal_plan *p, mal_error *e) {
  const mal_layout *l = &p->asked_layout;
  const char *name = *p->profile_spec ? p->profile_spec : mal_profile_default(l->tp, l->pp, l->ep);
  p->job = p->asked_job;
  p->layout = p->asked_layout;
  mal_status s = MAL_OK;
  if (!p->framework || strcmp(p->framework->name, name) != 0) s = mal_profile_load(a, name, &p->framework, e);
  if (s == MAL_OK) s = mal_profile_for_job(a, p->framework, &p->job, &p->profile, e);
  if (s == MAL_OK)
    s = mal_layout_complete(a, &p->model, &p->machine, p->profile, &p->job, &p->layout, &p->arithmetic, e);
  return s;
}

mal_status mal_plan_open(mal_arena *a, const char *model, const char *machine, const char *profile, const mal_job *job,
                         const mal_layout *layout, mal_plan *p, mal_error *e) {
  *p = (mal_plan){.asked_job = *job, .asked_layout = *layout};
  p->model_spec = mal_copy(a, model);
  p->machine_spec = mal_copy(a, machine);
  p->profile_spec = mal_copy(a, profile ? profile : "");
  mal_status s = mal_model_load(a, model, &p->model, e);
  return s == MAL_OK ? mal_machine_load(a, machine, &p->machine, e) : s;
}

mal_status mal_plan_make(mal_arena *a, const char *model, const char *machine, const char *profile, const mal_job *job,
                         const mal_layout *layout, mal_plan *p, mal_error *e) {
  mal_status s = mal_plan_open(a, model, machine, profile, job, layout, p, e);
  return s == MAL_OK ? mal_plan_complete(a, p, e) : s;
}

/* --- paths ------------------------------------------------------------------------------------------------------------ */

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

/* As the loaders decide: only a model may be a file or folder whose name does not say so. */
static bool is_path(mal_arena *a, const char *spec, bool model) {
  if (mal_names_file(spec)) return mal_is_file(spec) || mal_is_directory(spec) || !strchr(spec, '=');
  if (!model || mal_catalog_has(a, "models", spec, ".json")) return false;
  return mal_is_file(spec) || mal_is_directory(spec);
}

/* The absolute path without links; the text itself where there is no such file. */
static char *absolute(mal_arena *a, const char *path) {
  char *real = realpath(path, NULL), *copy = mal_copy(a, real ? real : path);
  free(real);
  return copy;
}

static char *folder_of(mal_arena *a, const char *path) {
  const char *slash = strcmp(path, "-") == 0 ? NULL : strrchr(path, '/');
  if (!slash) return mal_copy(a, ".");
  return slash == path ? mal_copy(a, "/") : mal_print(a, "%.*s", (int)(slash - path), path);
}

/* `path` seen from `folder`; begins with "./", "../" or "/", which no name in the catalogue does. */
static char *seen_from(mal_arena *a, const char *folder, const char *path) {
  const char *from = absolute(a, folder), *to = absolute(a, path);
  if (*from != '/' || *to != '/') return mal_copy(a, to);
  size_t common = 0, i = 0;
  for (; from[i] && from[i] == to[i]; i++)
    if (from[i] == '/') common = i;
  if (!from[i] && (!to[i] || to[i] == '/')) common = i;
  if (!to[i] && from[i] == '/') common = i;
  char *up = mal_copy(a, "");
  for (const char *p = from + common; *p; p++)
    if (*p == '/' && p[1]) up = mal_print(a, "../%s", up);
  const char *rest = to + common;
  while (*rest == '/') rest++;
  return mal_print(a, "%s%s", *up ? up : "./", rest);
}

static const char *from_plan(mal_arena *a, const char *plan_path, const char *spec) {
  if (strncmp(spec, "./", 2) != 0 && strncmp(spec, "../", 3) != 0) return spec;
  const char *folder = folder_of(a, plan_path);
  if (strcmp(folder, ".") == 0) return spec;
  return mal_print(a, "%s%s%s", folder, ends_with(folder, "/") ? "" : "/", spec);
}

/* --- writing ------------------------------------------------------------------------------------------------------------ */

/* Names of the options whose value is not what was asked for but follows from other things. */
static void add_derived(json_t *names, const mal_option *table, int count, const void *asked, const void *now) {
  for (int i = 0; i < count; i++)
    if (!mal_option_same(&table[i], asked, now)) json_array_append_new(names, json_string(table[i].name));
}

/* {"megatron": [["--lr", "3e-4"], ["--bf16"]]} */
static json_t *kept_json(const mal_plan *p) {
  json_t *all = json_object();
  for (int i = 0; i < p->n_kept; i++) {
    const mal_kept *k = &p->kept[i];
    json_t *of = json_object_get(all, k->target), *one = json_array();
    if (!of) json_object_set_new(all, k->target, of = json_array());
    json_array_append_new(one, json_string(k->key));
    for (int v = 0; v < k->n_values; v++) json_array_append_new(one, json_string(k->values[v]));
    json_array_append_new(of, one);
  }
  return all;
}

static mal_status spec_for(mal_arena *a, const char *plan_path, const char *what, const char *spec, const char **kept,
                           mal_error *e) {
  if (strcmp(spec, "-") == 0)
    return mal_fail(e, MAL_BAD, _("%s: the %s came from standard input, which a plan cannot name. Give it as a file."),
                    plan_path, what);
  *kept = is_path(a, spec, strcmp(what, _("model")) == 0) ? seen_from(a, folder_of(a, plan_path), spec) : spec;
  return MAL_OK;
}

mal_status mal_plan_show(mal_arena *a, const char *path, const mal_plan *p, char **text, mal_error *e) {
  const char *model, *machine, *profile = *p->profile_spec ? p->profile_spec : p->profile->name;
  mal_status s = spec_for(a, path, _("model"), p->model_spec, &model, e);
  if (s == MAL_OK) s = spec_for(a, path, _("machine"), p->machine_spec, &machine, e);
  if (s == MAL_OK) s = spec_for(a, path, _("profile"), profile, &profile, e);
  if (s != MAL_OK) return s;
  json_t *root = json_object();
  json_object_set_new(root, version_key, json_integer(MAL_PLAN_VERSION));
  json_object_set_new(root, "model", json_string(model));
  json_object_set_new(root, "machine", json_string(machine));
  json_object_set_new(root, "profile", json_string(profile));
  json_object_set_new(root, "job", mal_options_json(mal_job_options, mal_job_option_count, &p->job));
  json_object_set_new(root, "layout", mal_options_json(mal_layout_options, mal_layout_option_count, &p->layout));
  json_t *derived = json_array();
  add_derived(derived, mal_job_options, mal_job_option_count, &p->asked_job, &p->job);
  add_derived(derived, mal_layout_options, mal_layout_option_count, &p->asked_layout, &p->layout);
  json_object_set_new(root, "derived", derived);
  if (p->n_kept) json_object_set_new(root, "kept", kept_json(p));
  *text = mal_json_dump(a, root);
  json_decref(root);
  return MAL_OK;
}

mal_status mal_plan_write(mal_arena *a, const char *path, const mal_plan *p, mal_error *e) {
  char *text;
  mal_status s = mal_plan_show(a, path, p, &text, e);
  return s == MAL_OK ? mal_file_write(path, text, strlen(text), e) : s;
}

/* --- reading ------------------------------------------------------------------------------------------------------------ */

static mal_status fail_at(const mal_json *j, mal_arena *a, const char *key, mal_error *e) {
  const char *where = mal_json_where(j, a, key);
  return mal_fail_in(e, "%.*s", (int)(strlen(where) - 2), where);
}

/* The value as its option's parser reads it; NULL for what no option takes. */
static char *value_text(mal_arena *a, const json_t *value) {
  switch (json_typeof(value)) {
  case JSON_STRING: return mal_copy(a, json_string_value(value));
  case JSON_INTEGER: return mal_print(a, "%lld", (long long)json_integer_value(value));
  case JSON_REAL: return mal_print(a, "%.17g", json_real_value(value));
  case JSON_TRUE: return mal_copy(a, "true");
  case JSON_FALSE: return mal_copy(a, "false");
  default: return NULL;
  }
}

static mal_status read_options(mal_arena *a, const mal_json *j, const char *section, const mal_option *table, int count,
                               void *options, mal_error *e) {
  json_t *object = json_object_get(j->root, section), *value;
  const char *key;
  if (!object || json_is_null(object)) return MAL_OK;
  if (!json_is_object(object)) {
    mal_fail(e, MAL_BAD, _("the key '%s' must be an object of options."), section);
    return fail_at(j, a, section, e);
  }
  json_object_foreach(object, key, value) {
    if (json_is_null(value)) continue;
    char *text = value_text(a, value);
    mal_status s = text ? mal_option_set(table, (size_t)count, key, text, options, e)
                        : mal_fail(e, MAL_BAD, _("%s: a number, a text, true or false is wanted."), key);
    if (s != MAL_OK) return fail_at(j, a, key, e);
  }
  return MAL_OK;
}

static mal_status check_version(mal_arena *a, const mal_json *j, mal_error *e) {
  bool found;
  int64_t version = 0;
  if (!json_is_object(j->root))
    return mal_fail(e, MAL_BAD, _("%s: is not a plan. Write one with malha plan -o FILE."), j->path);
  mal_status s = mal_json_int(j, j->root, version_key, 1, INT64_C(1) << 31, &version, &found, e);
  if (s != MAL_OK) return s;
  if (!found)
    return mal_fail(e, MAL_BAD, _("%s: is not a plan: it has no key '%s'. Write one with malha plan -o FILE."), j->path,
                    version_key);
  if (version == MAL_PLAN_VERSION) return MAL_OK;
  mal_fail(e, MAL_BAD, _("the plan has version %lld, and this malha reads version %d. Use a newer malha."),
           (long long)version, MAL_PLAN_VERSION);
  return fail_at(j, a, version_key, e);
}

static mal_status check_keys(mal_arena *a, const mal_json *j, mal_error *e) {
  static const char *const keys[] = {"malha_plan", "model", "machine", "profile", "job", "layout", "derived", "kept"};
  enum { KEYS = sizeof keys / sizeof *keys };
  const char *key;
  json_t *value;
  json_object_foreach(j->root, key, value) {
    int i = 0;
    while (i < KEYS && strcmp(keys[i], key) != 0) i++;
    if (i < KEYS) continue;
    char near[128];
    mal_suggest(key, keys, KEYS, near, sizeof near);
    mal_fail(e, MAL_BAD, *near ? _("a plan has no key '%s'. Nearest: %s.") : _("a plan has no key '%s'.%s"), key, near);
    return fail_at(j, a, key, e);
  }
  return MAL_OK;
}

/* What the file says was derived goes back to its default in `asked`. */
static mal_status read_derived(mal_arena *a, const mal_json *j, mal_plan_parts *parts, mal_error *e) {
  const json_t *names = json_object_get(j->root, "derived"), *name;
  size_t at;
  mal_job job;
  mal_layout layout;
  mal_job_default(&job);
  mal_layout_default(&layout);
  parts->asked_job = parts->job;
  parts->asked_layout = parts->layout;
  if (!names || json_is_null(names)) return MAL_OK;
  json_array_foreach(names, at, name) {
    const char *word = json_is_string(name) ? json_string_value(name) : "";
    const mal_option *o = mal_option_named(mal_layout_options, (size_t)mal_layout_option_count, word);
    if (o) {
      mal_option_copy(o, &parts->asked_layout, &layout);
    } else if ((o = mal_option_named(mal_job_options, (size_t)mal_job_option_count, word)) != NULL) {
      mal_option_copy(o, &parts->asked_job, &job);
    } else {
      mal_fail(e, MAL_BAD, _("'%.60s' is no option of a job or a layout; 'derived' lists some."), word);
      return fail_at(j, a, "derived", e);
    }
  }
  if (json_is_array(names)) return MAL_OK;
  mal_fail(e, MAL_BAD, _("'derived' must be a list of options' names."));
  return fail_at(j, a, "derived", e);
}

static bool all_texts(const json_t *list) {
  size_t i;
  json_t *one;
  if (!json_is_array(list) || !json_array_size(list)) return false;
  json_array_foreach(list, i, one) if (!json_is_string(one)) return false;
  return true;
}

static mal_kept kept_of(mal_arena *a, const char *target, const json_t *list) {
  size_t n = json_array_size(list) - 1;
  const char **values = MAL_ARRAY(a, const char *, n + 1);
  for (size_t i = 0; i < n; i++) values[i] = mal_copy(a, json_string_value(json_array_get(list, i + 1)));
  return (mal_kept){mal_copy(a, target), mal_copy(a, json_string_value(json_array_get(list, 0))), values, (int)n};
}

static mal_status read_kept(mal_arena *a, const mal_json *j, mal_plan_parts *parts, mal_error *e) {
  json_t *object = json_object_get(j->root, "kept"), *list, *one;
  const char *target;
  size_t at;
  bool good = !object || json_is_null(object) || json_is_object(object);
  mal_kept *kept = NULL;
  int room = 0;
  json_object_foreach(object, target, list) {
    good = good && json_is_array(list);
    json_array_foreach(list, at, one) {
      good = good && all_texts(one) && parts->n_kept < MAL_KEPT_MOST;
      if (!good) break;
      if (!kept || parts->n_kept == room) {
        kept = mal_grow(a, kept, (size_t)room, (size_t)room + 256, sizeof *kept);
        room += 256;
      }
      kept[parts->n_kept++] = kept_of(a, target, one);
    }
  }
  parts->kept = kept;
  if (good) return MAL_OK;
  mal_fail(e, MAL_BAD, _("'kept' must be an object of lists of settings, each a list of texts, at most %d in all."),
           MAL_KEPT_MOST);
  return fail_at(j, a, "kept", e);
}

static mal_status read_parts(mal_arena *a, const mal_json *j, mal_plan_parts *parts, mal_error *e) {
  bool found;
  const char *key;
  mal_job_default(&parts->job);
  mal_layout_default(&parts->layout);
  parts->profile = "";
  mal_status s = check_version(a, j, e);
  if (s == MAL_OK) s = check_keys(a, j, e);
  if (s == MAL_OK) s = mal_json_text(j, j->root, a, "model", &parts->model, NULL, e);
  if (s == MAL_OK) s = mal_json_text(j, j->root, a, "machine", &parts->machine, NULL, e);
  if (s == MAL_OK) s = mal_json_text(j, j->root, a, "profile", &parts->profile, &found, e);
  if (s == MAL_OK) s = read_options(a, j, "job", mal_job_options, mal_job_option_count, &parts->job, e);
  if (s == MAL_OK) s = read_options(a, j, "layout", mal_layout_options, mal_layout_option_count, &parts->layout, e);
  if (s == MAL_OK && mal_job_check(&parts->job, &key, e) != MAL_OK) s = fail_at(j, a, key, e);
  if (s == MAL_OK) s = read_derived(a, j, parts, e);
  if (s == MAL_OK) s = read_kept(a, j, parts, e);
  if (s != MAL_OK) return s;
  parts->model = from_plan(a, j->path, parts->model);
  parts->machine = from_plan(a, j->path, parts->machine);
  parts->profile = from_plan(a, j->path, parts->profile);
  return MAL_OK;
}

mal_status mal_plan_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_plan_parts *parts,
                          mal_error *e) {
  mal_json j;
  mal_status s = mal_json_parse(a, path, text, length, &j, e);
  json_t *inside = s == MAL_OK && json_object_get(j.root, "malha_program") ? json_object_get(j.root, "plan") : NULL;
  if (inside) { /* of a program that malha lower wrote */
    json_incref(inside);
    json_decref(j.root);
    j.root = inside;
  }
  if (s == MAL_OK) s = read_parts(a, &j, parts, e);
  mal_json_free(&j);
  return s;
}

mal_status mal_plan_read(mal_arena *a, const char *path, mal_plan *p, mal_error *e) {
  char *text;
  size_t length;
  mal_plan_parts parts = {0};
  mal_status s = mal_file_read(a, path, MAL_JSON_LIMIT_BYTES, &text, &length, e);
  if (s == MAL_OK) s = mal_plan_parse(a, path, text, length, &parts, e);
  if (s != MAL_OK) return s;
  s = mal_plan_make(a, parts.model, parts.machine, parts.profile, &parts.asked_job, &parts.asked_layout, p, e);
  p->kept = parts.kept;
  p->n_kept = parts.n_kept;
  return s == MAL_OK ? s : mal_fail_in(e, "%s", path);
}
