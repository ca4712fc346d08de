#include "core/option_file.h"
#include "core/file.h"
#include "core/yaml.h"
#include <ctype.h>
#include <string.h>

enum { VALUE_MAX = 4096 };

/* Every option as optional text under its name, and under the name with '_' for '-'. option[i]: index of field i. */
static const cyaml_schema_field_t *schema_of(mal_arena *a, const mal_option *table, size_t options, size_t *option,
                                             size_t *count) {
  cyaml_schema_field_t *fields = MAL_ARRAY(a, cyaml_schema_field_t, 2 * options + 1);
  *count = 0;
  for (size_t i = 0; i < 2 * options; i++) {
    char *key = mal_copy(a, table[i / 2].name);
    if (i % 2 && !strchr(key, '-')) continue;
    for (char *c = key; i % 2 && *c; c++)
      if (*c == '-') *c = '_';
    option[*count] = i / 2;
    fields[*count].key = key;
    fields[*count].data_offset = (uint32_t)(*count * sizeof(char *));
    fields[(*count)++].value = (cyaml_schema_value_t){.type = CYAML_STRING,
                                                      .flags = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                                                      .data_size = 1,
                                                      .string = {0, VALUE_MAX}};
  }
  return fields;
}

static bool is_of_key(char c) { return isalnum((unsigned char)c) || c == '_' || c == '-'; }

/* The file is one mapping of plain values: a key is the word before a colon that no word precedes on its line or in its braces. */
mal_status mal_options_fail_at(const char *path, const char *text, size_t length, const char *key, mal_error *e) {
  size_t n = strlen(key);
  bool comment = false;
  for (size_t i = 0; i + n < length; i++) {
    if (text[i] == '\n' || text[i] == '#') comment = text[i] == '#';
    if (comment || (i && is_of_key(text[i - 1]))) continue;
    size_t colon = i + n;
    for (size_t k = 0; k < n && colon; k++)
      if (text[i + k] != key[k] && !(key[k] == '-' && text[i + k] == '_')) colon = 0;
    while (colon && colon < length && strchr(" \"'", text[colon]) && text[colon]) colon++;
    if (colon && colon < length && text[colon] == ':') return mal_fail_in(e, "%s:%d", path, mal_line_of(text, i));
  }
  return mal_fail_in(e, "%s", path);
}

mal_status mal_options_read_text(mal_arena *a, const char *path, const char *text, size_t length,
                                 const mal_option *table, size_t options, void *into, mal_error *e) {
  size_t *option = MAL_ARRAY(a, size_t, 2 * options), count;
  const cyaml_schema_field_t *fields = schema_of(a, table, options, option, &count);
  const cyaml_schema_value_t schema = {.type = CYAML_MAPPING,
                                       .flags = CYAML_FLAG_POINTER,
                                       .data_size = (uint32_t)(count * sizeof(char *)),
                                       .mapping.fields = fields};
  void *data = NULL;
  mal_status s = mal_yaml_parse(path, text, length, &schema, &data, e);
  if (s != MAL_OK) return s;
  char **values = data;
  const char *key = "";
  for (size_t i = 0; values && i < count && s == MAL_OK; i++) {
    if (!values[i]) continue;
    key = table[option[i]].name;
    s = mal_option_set(table, options, key, mal_copy(a, values[i]), into, e);
  }
  if (values) mal_yaml_free(&schema, data);
  return s == MAL_OK ? s : mal_options_fail_at(path, text, length, key, e);
}

mal_status mal_options_read(mal_arena *a, const char *path, const mal_option *table, size_t count, void *into,
                            mal_error *e) {
  char *text;
  size_t length;
  mal_status s = mal_file_read(a, path, MAL_YAML_LIMIT_BYTES, &text, &length, e);
  return s == MAL_OK ? mal_options_read_text(a, path, text, length, table, count, into, e) : s;
}

/* In single quotes, doubled inside: what a name or path needs in YAML. */
static char *quoted(mal_arena *a, const char *text) {
  char *out = mal_alloc(a, 2 * strlen(text) + 3), *to = out;
  *to++ = '\'';
  for (; *text; text++) {
    if (*text == '\'') *to++ = '\'';
    *to++ = *text;
  }
  *to = '\'';
  return out;
}

static char *value_of(mal_arena *a, const mal_option *o, const void *at) {
  switch (o->kind) {
  case MAL_OPT_FLAG: return mal_copy(a, *(const bool *)at ? "true" : "false");
  case MAL_OPT_TEXT: return *(const char *const *)at ? quoted(a, *(const char *const *)at) : NULL;
  case MAL_OPT_COUNT:
  case MAL_OPT_POSITIVE: return mal_print(a, "%lld", (long long)*(const int64_t *)at);
  case MAL_OPT_NUMBER:
  case MAL_OPT_AMOUNT:
  case MAL_OPT_QUANTITY: return mal_print(a, "%.17g", *(const double *)at);
  case MAL_OPT_CHOICE: break;
  }
  int choice = *(const int *)at;
  return choice < 0 ? NULL : mal_copy(a, o->choices[choice]);
}

char *mal_options_write(mal_arena *a, const mal_option *table, size_t count, const void *from, const void *usual) {
  mal_writing w = {.arena = a};
  mal_write(&w, "%s", "");
  for (size_t i = 0; i < count; i++) {
    const char *x = value_of(a, &table[i], (const char *)from + table[i].offset);
    if (x && !mal_option_same(&table[i], from, usual)) mal_write(&w, "%s: %s\n", table[i].name, x);
  }
  return w.text;
}
