#include "launch/config.h"
#include "core/file.h"
#include "core/json.h"
#include <stdlib.h>
#include <string.h>

bool mal_config_syntax(const char *file, mal_syntax *syntax) {
  static const struct {
    const char *ending;
    mal_syntax syntax;
  } all[] = {{".json", MAL_JSON}, {".yaml", MAL_YAML}, {".yml", MAL_YAML}, {".toml", MAL_TOML}};
  size_t n = strlen(file);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    size_t m = strlen(all[i].ending);
    if (n < m || strcmp(file + n - m, all[i].ending) != 0) continue;
    *syntax = all[i].syntax;
    return true;
  }
  return false;
}

char *mal_config_key(mal_arena *a, const char *outer, const char *inner, size_t length) {
  char *own = mal_alloc(a, 2 * length + 1), *to = own;
  for (size_t i = 0; i < length; i++) {
    if (inner[i] == '.' || inner[i] == '\\') *to++ = '\\';
    *to++ = inner[i];
  }
  return *outer ? mal_print(a, "%s.%s", outer, own) : own;
}

mal_status mal_config_found(mal_settings *into, const char *file, int line, const char *key, int kind,
                            const char *value, bool list, mal_error *e) {
  if (into->count >= MAL_SETTINGS_MOST) return mal_fail(e, MAL_BAD, _("%s:%d: too many settings."), file, line);
  mal_setting *s = mal_setting_put(into, key, value);
  s->file = file;
  s->line = line;
  s->kind = kind;
  s->list = list;
  return MAL_OK;
}

/* --- JSON ---------------------------------------------------------------------------------------------------------------- */

static int line_of(const mal_json *j, const char *key) {
  const char *at = strstr(j->text, key);
  return at ? mal_line_of(j->text, (size_t)(at - j->text)) : 1;
}

static char *plain(mal_arena *a, const json_t *value) {
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT), *copy = mal_copy(a, text ? text : "null");
  free(text);
  return copy;
}

static mal_status flatten(mal_arena *a, const mal_json *j, json_t *object, const char *outer, int depth,
                          mal_settings *into, mal_error *e) {
  const char *key;
  json_t *value;
  mal_status s = MAL_OK;
  if (depth > MAL_CONFIG_DEPTH) return mal_fail(e, MAL_BAD, _("%s: is nested too deeply."), j->path);
  json_object_foreach(object, key, value) {
    const char *path = mal_config_key(a, outer, key, strlen(key));
    int kind = json_is_number(value) ? MAL_SET_NUMBER : json_is_boolean(value) ? MAL_SET_BOOL : MAL_SET_TEXT;
    if (json_is_null(value)) kind = MAL_SET_NULL;
    const char *text = json_is_string(value) ? json_string_value(value) : plain(a, value);
    s = json_is_object(value) && json_object_size(value)
            ? flatten(a, j, value, path, depth + 1, into, e)
            : mal_config_found(into, j->path, line_of(j, key), path, kind, text,
                               json_is_array(value) || json_is_object(value), e);
    if (s != MAL_OK) return s;
  }
  return s;
}

static mal_status read_json(mal_arena *a, const char *file, const char *text, size_t length, mal_settings *into,
                            mal_error *e) {
  mal_json j;
  mal_status s = mal_json_parse(a, file, text, length, &j, e);
  if (s == MAL_OK && !json_is_object(j.root)) s = mal_fail(e, MAL_BAD, _("%s: is no object of settings."), file);
  if (s == MAL_OK) s = flatten(a, &j, j.root, "", 0, into, e);
  mal_json_free(&j);
  return s;
}

mal_status mal_config_read(mal_arena *a, const char *file, const char *text, size_t length, mal_syntax syntax,
                           mal_settings *into, mal_error *e) {
  if (length > MAL_CONFIG_LIMIT_BYTES) return mal_fail(e, MAL_BAD, _("%s: is larger than %d MiB."), file, 4);
  mal_status s = syntax == MAL_JSON   ? read_json(a, file, text, length, into, e)
                 : syntax == MAL_YAML ? mal_config_read_yaml(a, file, text, length, into, e)
                                      : mal_config_read_toml(a, file, text, length, into, e);
  for (int i = 1; i < into->count && s == MAL_OK && syntax != MAL_JSON; i++) { /* jansson looks for these itself */
    const mal_setting *before = NULL;
    for (int k = 0; k < i && k < 1000 && !before; k++)
      if (strcmp(into->all[k].key, into->all[i].key) == 0) before = &into->all[k];
    if (before) s = mal_setting_fail(&into->all[i], e, _("is given twice, first in line %d."), before->line);
  }
  return s;
}

/* --- out ------------------------------------------------------------------------------------------------------------------ */

static json_t *value_of(const mal_setting *s) {
  const char *text = s->n_values ? s->values[0] : "";
  json_t *v = NULL;
  if (s->kind == MAL_SET_NUMBER || s->kind == MAL_SET_BOOL || s->list)
    v = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
  if (s->kind == MAL_SET_NULL) v = json_null();
  return v ? v : json_string(text);
}

/* Objects along the dots; the last part holds the value. */
static void put_in(mal_arena *a, json_t *root, const mal_setting *s) {
  char *part = mal_alloc(a, strlen(s->key) + 1), *to = part;
  json_t *at = root;
  for (const char *c = s->key;; c++) {
    if (*c == '\\' && c[1]) {
      *to++ = *++c;
    } else if (*c == '.' || !*c) {
      *to = '\0';
      to = part;
      if (!*c) break;
      json_t *next = json_object_get(at, part);
      if (!json_is_object(next)) json_object_set_new(at, part, next = json_object());
      at = next;
    } else {
      *to++ = *c;
    }
  }
  json_object_set_new(at, part, value_of(s));
}

char *mal_config_json(mal_arena *a, const mal_setting *s) {
  json_t *v = value_of(s);
  char *text = plain(a, v);
  json_decref(v);
  return text;
}

void mal_config_put_json(mal_settings *into, const char *key, const char *json) {
  json_t *v = json_loads(json, JSON_DECODE_ANY, NULL);
  mal_setting *s = mal_setting_put(into, key, json_is_string(v) ? json_string_value(v) : json);
  s->kind = json_is_number(v) ? MAL_SET_NUMBER : json_is_boolean(v) ? MAL_SET_BOOL : MAL_SET_TEXT;
  if (json_is_null(v)) s->kind = MAL_SET_NULL;
  s->list = json_is_array(v) || json_is_object(v);
  json_decref(v);
}

/* A text in double quotes, as JSON, YAML and TOML all take it. */
static char *quoted(mal_arena *a, const char *text) {
  json_t *s = json_string(text);
  char *out = s ? plain(a, s) : mal_copy(a, "\"\"");
  json_decref(s);
  return out;
}

static bool bare_key(const char *key) {
  return *key && strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(key);
}

static const char *key_text(mal_arena *a, const char *key) { return bare_key(key) ? key : quoted(a, key); }

static void put_yaml(mal_writing *w, const json_t *object, int depth) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    mal_write(w, "%*s%s:", 2 * depth, "", key_text(w->arena, key));
    if (json_is_object(value) && json_object_size(value)) {
      mal_write(w, "\n");
      put_yaml(w, value, depth + 1);
    } else if (json_is_string(value)) {
      const char *text = json_string_value(value), *ignored;
      bool word = bare_key(text) && mal_config_kind(text, &ignored) == MAL_SET_TEXT && *text != '-';
      mal_write(w, " %s\n", word ? text : quoted(w->arena, text));
    } else {
      mal_write(w, " %s\n", plain(w->arena, value));
    }
  }
}

static void put_toml(mal_writing *w, const json_t *object, const char *path) {
  const char *key;
  json_t *value;
  bool headed = !*path;
  json_object_foreach((json_t *)object, key, value) {
    if (json_is_object(value) || json_is_null(value)) continue;
    if (!headed) mal_write(w, "\n[%s]\n", path);
    headed = true;
    mal_write(w, "%s = %s\n", key_text(w->arena, key), plain(w->arena, value));
  }
  json_object_foreach((json_t *)object, key, value) {
    const char *own = key_text(w->arena, key);
    if (json_is_object(value)) put_toml(w, value, *path ? mal_print(w->arena, "%s.%s", path, own) : own);
  }
}

char *mal_config_write(mal_arena *a, const mal_settings *s, mal_syntax syntax, const char *head) {
  json_t *root = json_object();
  mal_writing w = {.arena = a};
  for (int i = 0; i < s->count; i++) put_in(a, root, &s->all[i]);
  if (syntax != MAL_JSON && head) mal_write(&w, "%s", head);
  if (syntax == MAL_JSON) mal_write(&w, "%s\n", mal_json_dump(a, root));
  if (syntax == MAL_YAML) put_yaml(&w, root, 0);
  if (syntax == MAL_TOML) put_toml(&w, root, "");
  json_decref(root);
  return w.text ? w.text : mal_copy(a, "");
}
