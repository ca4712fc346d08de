/* TOML 1.0, as far as settings use it: tables, dotted keys, strings of one line, numbers, booleans, lists, inline tables. Debian has
 * no library of it for C. Strings of several lines and lists of tables are refused by name. */
#include "launch/config.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
  mal_arena *a;
  const char *file, *at, *end;
  mal_settings *into;
  mal_error *e;
  int line;
} reader;

static mal_status fail_at(reader *r, const char *what) {
  return mal_fail(r->e, MAL_BAD, "%s:%d: %s", r->file, r->line, what);
}

static char now(const reader *r) { return r->at < r->end ? *r->at : '\0'; }

static void skip(reader *r, bool lines) {
  while (r->at < r->end) {
    if (*r->at == '#')
      while (r->at < r->end && *r->at != '\n') r->at++;
    else if (*r->at == '\n' && lines)
      r->line++, r->at++;
    else if (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')
      r->at++;
    else
      return;
  }
}

static bool takes(reader *r, char c) {
  skip(r, false);
  if (now(r) != c) return false;
  r->at++;
  return true;
}

/* A string between quotes: TOML's basic strings are JSON's but for \e and \U. */
static mal_status read_string(reader *r, char **text) {
  char quote = *r->at;
  if (r->at + 2 < r->end && r->at[1] == quote && r->at[2] == quote)
    return fail_at(r, _("strings of several lines are not read."));
  const char *from = r->at++;
  while (r->at < r->end && *r->at != quote && *r->at != '\n')
    r->at += quote == '"' && *r->at == '\\' && r->at + 1 < r->end ? 2 : 1;
  if (r->at >= r->end || *r->at != quote) return fail_at(r, _("a string is never closed."));
  r->at++;
  size_t length = (size_t)(r->at - from);
  if (quote == '\'') {
    *text = mal_print(r->a, "%.*s", (int)length - 2, from + 1);
    return MAL_OK;
  }
  json_t *s = json_loadb(from, length, JSON_DECODE_ANY, NULL);
  if (!json_is_string(s)) {
    json_decref(s);
    return fail_at(r, _("a string has an escape that is not read."));
  }
  *text = mal_copy(r->a, json_string_value(s));
  json_decref(s);
  return MAL_OK;
}

static bool key_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '-'; }

static mal_status read_key(reader *r, const char *outer, char **path) {
  *path = mal_copy(r->a, outer);
  for (;;) {
    skip(r, false);
    char *part;
    const char *from = r->at;
    mal_status s = MAL_OK;
    if (now(r) == '"' || now(r) == '\'') {
      s = read_string(r, &part);
    } else {
      while (r->at < r->end && key_char(*r->at)) r->at++;
      part = mal_print(r->a, "%.*s", (int)(r->at - from), from);
      if (r->at == from) s = fail_at(r, _("a key is wanted here."));
    }
    if (s != MAL_OK) return s;
    *path = mal_config_key(r->a, *path, part, strlen(part));
    if (!takes(r, '.')) return MAL_OK;
  }
}

static mal_status read_value(reader *r, int depth, json_t **value);

static mal_status read_list(reader *r, int depth, json_t **value) {
  *value = json_array();
  for (r->at++;;) {
    json_t *one = NULL;
    skip(r, true);
    if (now(r) == ']') {
      r->at++;
      return MAL_OK;
    }
    mal_status s = read_value(r, depth + 1, &one);
    if (s != MAL_OK) return s;
    json_array_append_new(*value, one);
    skip(r, true);
    if (now(r) == ',')
      r->at++;
    else if (now(r) != ']')
      return fail_at(r, _("a list wants , or ] here."));
  }
}

/* Numbers, booleans, dates: up to what ends a value. Underscores of numbers are dropped. */
static json_t *read_word(reader *r) {
  char word[128];
  size_t n = 0;
  for (; r->at < r->end && !strchr(",]}#\n\r", *r->at) && n + 1 < sizeof word; r->at++)
    if (*r->at != '_') word[n++] = *r->at;
  while (n && (word[n - 1] == ' ' || word[n - 1] == '\t')) n--;
  word[n] = '\0';
  const char *number = *word == '+' ? word + 1 : word;
  json_t *v = n ? json_loads(number, JSON_DECODE_ANY, NULL) : NULL;
  if (json_is_number(v) || json_is_boolean(v)) return v;
  json_decref(v);
  bool date = n > 10 && word[4] == '-' && word[10] == ' ';
  bool odd = !n || (strchr(word, ' ') && !date) || strspn(word, "0123456789abcdefABCDEFxob:TZ.+-infa ") != n;
  return odd ? NULL : json_string(word);
}

static mal_status read_inline(reader *r, int depth, json_t **value) {
  *value = json_object();
  if (r->at++, takes(r, '}')) return MAL_OK;
  for (;;) {
    char *key;
    json_t *one = NULL;
    mal_status s = read_key(r, "", &key);
    if (s == MAL_OK && !takes(r, '=')) s = fail_at(r, _("a key wants = and a value."));
    if (s == MAL_OK) s = read_value(r, depth + 1, &one);
    if (s != MAL_OK) return s;
    json_object_set_new(*value, key, one);
    if (takes(r, '}')) return MAL_OK;
    if (!takes(r, ',')) return fail_at(r, _("an inline table wants , or } here."));
  }
}

static mal_status read_value(reader *r, int depth, json_t **value) {
  char *text;
  skip(r, false);
  mal_status s = MAL_OK;
  if (depth > MAL_CONFIG_DEPTH) return fail_at(r, _("is nested too deeply."));
  if (now(r) == '[') {
    s = read_list(r, depth, value);
  } else if (now(r) == '{') {
    s = read_inline(r, depth, value);
  } else if (now(r) == '"' || now(r) == '\'') {
    s = read_string(r, &text);
    if (s == MAL_OK) *value = json_string(text);
  } else {
    *value = read_word(r);
  }
  if (s == MAL_OK && !*value) s = fail_at(r, _("a value is wanted here."));
  if (s == MAL_OK) return s;
  json_decref(*value);
  *value = NULL;
  return s;
}

static mal_status put(reader *r, const char *path, json_t *v, int line) {
  int kind = json_is_number(v) ? MAL_SET_NUMBER : json_is_boolean(v) ? MAL_SET_BOOL : MAL_SET_TEXT;
  mal_status s = MAL_OK;
  if (json_is_object(v)) {
    const char *key;
    json_t *inner;
    json_object_foreach(v, key, inner) if (s == MAL_OK) s = put(r, mal_print(r->a, "%s.%s", path, key), inner, line);
    return s;
  }
  char *dump = json_is_string(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
  s = mal_config_found(r->into, r->file, line, path, kind, dump ? dump : json_string_value(v), json_is_array(v), r->e);
  free(dump);
  return s;
}

mal_status mal_config_read_toml(mal_arena *a, const char *file, const char *text, size_t length, mal_settings *into,
                                mal_error *e) {
  reader r = {a, file, text, text + length, into, e, 1};
  char *table = mal_copy(a, ""), *path;
  mal_status s = MAL_OK;
  for (skip(&r, true); s == MAL_OK && r.at < r.end; skip(&r, true)) {
    int line = r.line;
    json_t *v = NULL;
    if (*r.at == '[') {
      if (r.at + 1 < r.end && r.at[1] == '[') return fail_at(&r, _("lists of tables are not read."));
      r.at++;
      s = read_key(&r, "", &table);
      if (s == MAL_OK && !takes(&r, ']')) s = fail_at(&r, _("a table's name wants ] here."));
    } else {
      s = read_key(&r, table, &path);
      if (s == MAL_OK && !takes(&r, '=')) s = fail_at(&r, _("a key wants = and a value."));
      if (s == MAL_OK) s = read_value(&r, 0, &v);
      if (s == MAL_OK) s = put(&r, path, v, line);
      json_decref(v);
    }
    skip(&r, false);
    if (s == MAL_OK && r.at < r.end && *r.at != '\n') s = fail_at(&r, _("something stands behind the value."));
  }
  return s;
}
