#include "machine/fields.h"
#include "core/file.h"
#include "core/units.h"
#include "machine/machine.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LARGEST_NUMBER 1e18 /* no quantity of hardware comes near, and an int64_t still holds it */
enum { TEXT_MAX = 4096, NUMBER_MAX = 64 };

/* Numbers as they are written: libcyaml takes "2.9" for 2 and "010" for 8, so it hands over their text. */
typedef struct written_value {
  char *value, *source;
  bool *verified;
} written_value;

typedef struct written_fitted {
  char *value, *lo, *hi, *prior, *source;
} written_fitted;

static const cyaml_schema_field_t value_fields[] = {
    CYAML_FIELD_STRING_PTR("value", CYAML_FLAG_POINTER, written_value, value, 0, NUMBER_MAX),
    CYAML_FIELD_STRING_PTR("source", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, written_value, source, 0,
                           CYAML_UNLIMITED),
    CYAML_FIELD_BOOL_PTR("verified", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, written_value, verified),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t fitted_fields[] = {
    CYAML_FIELD_STRING_PTR("value", CYAML_FLAG_POINTER, written_fitted, value, 0, NUMBER_MAX),
    CYAML_FIELD_STRING_PTR("lo", CYAML_FLAG_POINTER, written_fitted, lo, 0, NUMBER_MAX),
    CYAML_FIELD_STRING_PTR("hi", CYAML_FLAG_POINTER, written_fitted, hi, 0, NUMBER_MAX),
    CYAML_FIELD_STRING_PTR("prior", CYAML_FLAG_POINTER, written_fitted, prior, 0, NUMBER_MAX),
    CYAML_FIELD_STRING_PTR("source", CYAML_FLAG_POINTER, written_fitted, source, 1, TEXT_MAX),
    CYAML_FIELD_END,
};

static int table_length(const mal_field *table) {
  int n = 0;
  while (table[n].key) n++;
  return n;
}

static const cyaml_schema_field_t *schema_of(mal_arena *a, const mal_field *table);

/* How libcyaml reads one field: always through a pointer, so that absence can be seen. */
static cyaml_schema_value_t schema_value(mal_arena *a, const mal_field *field) {
  cyaml_schema_value_t v = {.flags = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL};
  switch (field->kind) {
  case MAL_FIELD_TEXT:
  case MAL_FIELD_BASE:
  case MAL_FIELD_CHOICE:
    v.type = CYAML_STRING;
    v.data_size = sizeof(char);
    v.string.max = TEXT_MAX;
    break;
  case MAL_FIELD_BOOL:
    v.type = CYAML_BOOL;
    v.data_size = sizeof(bool);
    break;
  case MAL_FIELD_INT:
  case MAL_FIELD_SMALL:
  case MAL_FIELD_NUMBER:
    v.type = CYAML_STRING;
    v.data_size = sizeof(char);
    v.string.max = NUMBER_MAX;
    break;
  case MAL_FIELD_VALUE:
    v.type = CYAML_MAPPING;
    v.data_size = sizeof(written_value);
    v.mapping.fields = value_fields;
    break;
  case MAL_FIELD_FITTED:
    v.type = CYAML_MAPPING;
    v.data_size = sizeof(written_fitted);
    v.mapping.fields = fitted_fields;
    break;
  case MAL_FIELD_SECTION:
    v.type = CYAML_MAPPING;
    v.data_size = (uint32_t)((size_t)table_length(field->section) * sizeof(void *));
    v.mapping.fields = schema_of(a, field->section);
    break;
  }
  return v;
}

static const cyaml_schema_field_t *schema_of(mal_arena *a, const mal_field *table) {
  int n = table_length(table);
  cyaml_schema_field_t *schema = MAL_ARRAY(a, cyaml_schema_field_t, n + 1);
  for (int i = 0; i < n; i++) {
    schema[i].key = table[i].key;
    schema[i].data_offset = (uint32_t)((size_t)i * sizeof(void *));
    schema[i].value = schema_value(a, &table[i]);
  }
  return schema;
}

mal_status mal_fields_parse(mal_arena *a, const char *path, const char *text, size_t length, const mal_field *table,
                            mal_fields *f, mal_error *e) {
  *f = (mal_fields){.path = path, .text = text, .length = length, .table = table};
  f->schema = (cyaml_schema_value_t){.type = CYAML_MAPPING,
                                     .flags = CYAML_FLAG_POINTER,
                                     .data_size = (uint32_t)((size_t)table_length(table) * sizeof(void *)),
                                     .mapping.fields = schema_of(a, table)};
  void *data = NULL;
  mal_status s = mal_yaml_parse(path, text, length, &f->schema, &data, e);
  if (s != MAL_OK) return s;
  if (!data) return mal_fail(e, MAL_BAD, _("%s: the file is empty; write at least one key, such as name."), path);
  f->data = data;
  return MAL_OK;
}

void mal_fields_free(mal_fields *f) {
  if (f->data) mal_yaml_free(&f->schema, f->data);
  f->data = NULL;
}

static int find_field(const mal_fields *f, const char *key) {
  for (int i = 0; f->table[i].key; i++)
    if (strcmp(f->table[i].key, key) == 0) return i;
  return -1;
}

const char *mal_fields_text(const mal_fields *f, const char *key) {
  int i = find_field(f, key);
  bool is_text = i >= 0 && (f->table[i].kind == MAL_FIELD_TEXT || f->table[i].kind == MAL_FIELD_BASE);
  return is_text ? f->data[i] : NULL;
}

bool mal_fields_section(const mal_fields *f, const char *key, mal_fields *section) {
  int i = find_field(f, key);
  if (i < 0 || f->table[i].kind != MAL_FIELD_SECTION || !f->data[i]) return false;
  *section = (mal_fields){f->path, f->text, f->length, f->table[i].section, {0}, f->data[i]};
  return true;
}

static int add_keys(mal_arena *a, const mal_fields *f, const char *before, const char **keys, int count, int max) {
  for (int i = 0; f->table[i].key; i++) {
    const mal_field *field = &f->table[i];
    mal_fields inner;
    if (!f->data[i] || field->kind == MAL_FIELD_BASE) continue;
    if (mal_fields_section(f, field->key, &inner)) {
      count = add_keys(a, &inner, mal_print(a, "%s%s.", before, field->key), keys, count, max);
    } else {
      if (count < max) keys[count] = mal_print(a, "%s%s", before, field->key);
      count++;
    }
  }
  return count;
}

int mal_fields_keys(mal_arena *a, const mal_fields *f, const char **keys, int max) {
  return add_keys(a, f, "", keys, 0, max);
}

/* Line of the first "key:" in the text, 0 when not found: enough for a message. */
int mal_fields_line(const mal_fields *f, const char *key) {
  size_t n = strlen(key);
  for (size_t i = 0; i + n < f->length; i++) {
    bool starts = i == 0 || strchr(" \n{,\"'", f->text[i - 1]);
    if (starts && memcmp(f->text + i, key, n) == 0 && strchr(":\"' ", f->text[i + n])) return mal_line_of(f->text, i);
  }
  return 0;
}

static mal_status out_of_bounds(const mal_fields *f, const mal_field *field, double value, double lo, double hi,
                                mal_error *e) {
  return mal_fail(e, MAL_BAD, _("%s:%d: %s is %g; it must lie between %g and %g."), f->path,
                  mal_fields_line(f, field->key), field->key, value, lo, hi);
}

static mal_status check_number(const mal_fields *f, const mal_field *field, double value, mal_error *e) {
  double lo = field->lo, hi = field->lo == 0 && field->hi == 0 ? LARGEST_NUMBER : field->hi;
  if (!isfinite(value) || value < lo || value > hi) return out_of_bounds(f, field, value, lo, hi, e);
  return MAL_OK;
}

static mal_status read_number(const mal_fields *f, const mal_field *field, const char *text, double *value,
                              mal_error *e) {
  if (mal_parse_number(text, field->key, value, e) != MAL_OK)
    return mal_fail_in(e, "%s:%d", f->path, mal_fields_line(f, field->key));
  return check_number(f, field, *value, e);
}

static mal_status read_whole(const mal_fields *f, const mal_field *field, const char *text, int64_t *value,
                             mal_error *e) {
  double x;
  size_t digits = strspn(text, "0123456789");
  if (text[0] == '0' && digits > 1)
    return mal_fail(e, MAL_BAD, _("%s:%d: %s is '%s'; write it without the 0 before it."), f->path,
                    mal_fields_line(f, field->key), field->key, text);
  mal_status s = read_number(f, field, text, &x, e);
  if (s != MAL_OK) return s;
  if (x != floor(x))
    return mal_fail(e, MAL_BAD, _("%s:%d: %s is '%s'; it must be a whole number."), f->path,
                    mal_fields_line(f, field->key), field->key, text);
  *value = (int64_t)x;
  return MAL_OK;
}

static mal_status check_source(const mal_fields *f, const mal_field *field, const char *source, mal_error *e) {
  if (source && source[strspn(source, " \t\n")]) return MAL_OK;
  return mal_fail(e, MAL_BAD, _("%s:%d: %s has no source; write where its value was read."), f->path,
                  mal_fields_line(f, field->key), field->key);
}

static mal_status merge_value(mal_arena *a, const mal_fields *f, const mal_field *field, const written_value *from,
                              mal_value *to, mal_error *e) {
  double value;
  mal_status s = read_number(f, field, from->value, &value, e);
  if (s == MAL_OK) s = check_source(f, field, from->source, e);
  if (s != MAL_OK) return s;
  to->value = value;
  to->source = mal_copy(a, from->source);
  to->verified = NULL;
  if (from->verified && !*from->verified) to->verified = MAL_NEW(a, bool);
  return MAL_OK;
}

static mal_status merge_fitted(mal_arena *a, const mal_fields *f, const mal_field *field, const written_fitted *from,
                               mal_fitted *to, mal_error *e) {
  const char *const texts[] = {from->lo, from->hi, from->prior, from->value};
  mal_field bound = *field; /* a bound may be 0 where the value may not */
  double all[4];
  mal_status s = check_source(f, field, from->source, e);
  bound.lo = 0;
  for (int i = 0; i < 4 && s == MAL_OK; i++) s = read_number(f, i < 3 ? &bound : field, texts[i], &all[i], e);
  if (s != MAL_OK) return s;
  double lo = all[0], hi = all[1];
  if (lo > hi)
    return mal_fail(e, MAL_BAD, _("%s:%d: %s has lo %g above hi %g; swap them."), f->path,
                    mal_fields_line(f, field->key), field->key, lo, hi);
  for (int i = 2; i < 4; i++)
    if (all[i] < lo || all[i] > hi) return out_of_bounds(f, field, all[i], lo, hi, e);
  *to = (mal_fitted){.value = all[3], .lo = lo, .hi = hi, .prior = all[2], .source = mal_copy(a, from->source)};
  return MAL_OK;
}

static mal_status merge_choice(const mal_fields *f, const mal_field *field, const char *from, int *to, mal_error *e) {
  char known[512] = "";
  for (int i = 0; field->choices[i]; i++) {
    if (strcmp(field->choices[i], from) == 0) {
      *to = i;
      return MAL_OK;
    }
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", field->choices[i]);
  }
  return mal_fail(e, MAL_BAD, _("%s:%d: %s is '%s'; it must be one of %s."), f->path, mal_fields_line(f, field->key),
                  field->key, from, known);
}

static mal_status merge_one(mal_arena *a, const mal_fields *f, const mal_field *field, const void *from, char *whole,
                            mal_error *e) {
  void *to = whole + field->offset;
  int64_t whole_number;
  mal_status s;
  switch (field->kind) {
  case MAL_FIELD_BASE: return MAL_OK;
  case MAL_FIELD_TEXT: *(char **)to = mal_copy(a, from); return MAL_OK;
  case MAL_FIELD_BOOL: *(bool *)to = *(const bool *)from; return MAL_OK;
  case MAL_FIELD_INT: return read_whole(f, field, from, to, e);
  case MAL_FIELD_SMALL:
    if ((s = read_whole(f, field, from, &whole_number, e)) == MAL_OK) *(int *)to = (int)whole_number;
    return s;
  case MAL_FIELD_NUMBER: return read_number(f, field, from, to, e);
  case MAL_FIELD_CHOICE: return merge_choice(f, field, from, to, e);
  case MAL_FIELD_VALUE: return merge_value(a, f, field, from, to, e);
  case MAL_FIELD_FITTED: return merge_fitted(a, f, field, from, to, e);
  case MAL_FIELD_SECTION: {
    mal_fields section = {f->path, f->text, f->length, field->section, {0}, (void **)from};
    return mal_fields_merge(a, &section, whole, e);
  }
  }
  return MAL_OK;
}

mal_status mal_fields_merge(mal_arena *a, const mal_fields *f, void *into, mal_error *e) {
  for (int i = 0; f->table[i].key; i++) {
    if (!f->data[i]) continue;
    mal_status s = merge_one(a, f, &f->table[i], f->data[i], into, e);
    if (s != MAL_OK) return s;
  }
  return MAL_OK;
}

static bool is_missing(const mal_field *field, const void *at) {
  switch (field->kind) {
  case MAL_FIELD_TEXT: return !*(char *const *)at;
  case MAL_FIELD_VALUE: return !((const mal_value *)at)->source;
  case MAL_FIELD_FITTED: return !((const mal_fitted *)at)->source;
  default: return false;
  }
}

static const char *first_missing(const mal_field *table, const char *whole) {
  for (const mal_field *field = table; field->key; field++) {
    const char *inner = field->kind == MAL_FIELD_SECTION ? first_missing(field->section, whole) : NULL;
    if (inner) return inner;
    if (field->required && is_missing(field, whole + field->offset)) return field->key;
  }
  return NULL;
}

static void fill_absent(void *context, const char *key, mal_value *value, mal_fitted *fitted) {
  static char absent[] = "not given: taken as 0";
  (void)context, (void)key;
  if (value && !value->source) value->source = absent;
  if (fitted && !fitted->source) fitted->source = absent;
}

mal_status mal_fields_complete(const mal_field *table, const char *path, void *whole, mal_error *e) {
  const char *key = first_missing(table, whole);
  if (key) return mal_fail(e, MAL_BAD, _("%s: %s is missing; add it, or name a base that has it."), path, key);
  mal_fields_each(table, whole, fill_absent, NULL);
  return MAL_OK;
}

void mal_fields_each(const mal_field *table, void *whole, mal_field_visit *visit, void *context) {
  for (const mal_field *field = table; field->key; field++) {
    void *at = (char *)whole + field->offset;
    if (field->kind == MAL_FIELD_SECTION)
      mal_fields_each(field->section, whole, visit, context);
    else if (field->kind == MAL_FIELD_VALUE)
      visit(context, field->key, at, NULL);
    else if (field->kind == MAL_FIELD_FITTED)
      visit(context, field->key, NULL, at);
  }
}

typedef struct inheritance {
  mal_arena *arena;
  const char *base;
} inheritance;

static void mark_one(void *context, const char *key, mal_value *value, mal_fitted *fitted) {
  inheritance *i = context;
  (void)key, (void)value;
  if (fitted && fitted->source) fitted->source = mal_print(i->arena, "as %s: %s", i->base, fitted->source);
}

void mal_fields_mark_inherited(mal_arena *a, const mal_field *table, const char *base, void *whole) {
  inheritance i = {a, base};
  mal_fields_each(table, whole, mark_one, &i);
}

typedef struct constant_list {
  const char **names;
  mal_fitted **constants;
  int count, max;
} constant_list;

static void add_constant(void *context, const char *key, mal_value *value, mal_fitted *fitted) {
  constant_list *list = context;
  (void)value;
  if (!fitted || list->count >= list->max) return;
  list->names[list->count] = key;
  list->constants[list->count++] = fitted;
}

int mal_fields_constants(const mal_field *table, void *whole, const char **names, mal_fitted **constants, int max) {
  constant_list list = {names, constants, 0, max};
  mal_fields_each(table, whole, add_constant, &list);
  return list.count;
}
