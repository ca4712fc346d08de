/* Two passes. The first asks libyaml alone whether the text is one document of bounded depth, without aliases and
 * without numbers that are not finite; so the second, libcyaml with the schema, meets nothing that could grow.
 * libcyaml words its errors only in its log, which is read here and told again in the words of this project. */
#include "core/yaml.h"
#include "core/file.h"
#include "core/suggest.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEEPEST = 32, NAME_LONGEST = 64 };

const cyaml_schema_field_t mal_value_fields[] = {
    CYAML_FIELD_FLOAT("value", CYAML_FLAG_DEFAULT, mal_value, value),
    CYAML_FIELD_STRING_PTR("source", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, mal_value, source, 0, CYAML_UNLIMITED),
    CYAML_FIELD_BOOL_PTR("verified", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, mal_value, verified),
    CYAML_FIELD_END,
};

/* --- first pass --------------------------------------------------------------------------------------------------- */

static bool is_not_finite(const yaml_event_t *event) {
  if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || !event->data.scalar.length) return false;
  const char *text = (const char *)event->data.scalar.value;
  char *end;
  double value = strtod(text + (*text == '.'), &end); /* .inf and .nan are YAML's spelling */
  return *end == '\0' && !isfinite(value);
}

static mal_status check_event(const char *path, const yaml_event_t *event, int *depth, int *documents, mal_error *e) {
  int line = (int)event->start_mark.line + 1;
  bool anchor = false;
  switch (event->type) {
  case YAML_DOCUMENT_START_EVENT:
    if (++*documents > 1)
      return mal_fail(e, MAL_BAD, _("%s:%d: a second document begins here; only one may be in the file."), path, line);
    break;
  case YAML_ALIAS_EVENT:
    return mal_fail(e, MAL_BAD, _("%s:%d: the alias *%s is not taken here. Write the value out."), path, line,
                    (const char *)event->data.alias.anchor);
  case YAML_SCALAR_EVENT:
    anchor = event->data.scalar.anchor != NULL;
    if (is_not_finite(event))
      return mal_fail(e, MAL_BAD, _("%s:%d: '%s' is not a finite number."), path, line,
                      (const char *)event->data.scalar.value);
    if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
      return mal_fail(e, MAL_BAD, _("%s:%d: a text with a NUL character in it. Remove it."), path, line);
    break;
  case YAML_SEQUENCE_START_EVENT:
    anchor = event->data.sequence_start.anchor != NULL;
    ++*depth;
    break;
  case YAML_MAPPING_START_EVENT:
    anchor = event->data.mapping_start.anchor != NULL;
    ++*depth;
    break;
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT: --*depth; break;
  default: break;
  }
  if (anchor) return mal_fail(e, MAL_BAD, _("%s:%d: anchors (&name) are not taken here. Remove it."), path, line);
  if (*depth > DEEPEST)
    return mal_fail(e, MAL_BAD, _("%s:%d: nested more than %d deep. Is it the right file?"), path, line, DEEPEST);
  return MAL_OK;
}

static mal_status check_events(const char *path, yaml_parser_t *parser, mal_error *e) {
  int depth = 0, documents = 0;
  for (bool more = true; more;) {
    yaml_event_t event;
    if (!yaml_parser_parse(parser, &event)) {
      if (parser->error == YAML_MEMORY_ERROR)
        return mal_fail(e, MAL_FAULT, _("%s: out of memory while reading it."), path);
      return mal_fail(e, MAL_BAD, _("%s:%zu: not valid YAML: %s (column %zu). Correct the file there."), path,
                      parser->problem_mark.line + 1, parser->problem ? parser->problem : _("unknown problem"),
                      parser->problem_mark.column + 1);
    }
    more = event.type != YAML_STREAM_END_EVENT;
    mal_status status = check_event(path, &event, &depth, &documents, e);
    yaml_event_delete(&event);
    if (status) return status;
  }
  return documents ? MAL_OK : mal_fail(e, MAL_BAD, _("%s: is empty, where YAML was expected."), path);
}

static mal_status check_text(const char *path, const char *text, size_t length, mal_error *e) {
  size_t at;
  yaml_parser_t parser;
  if (length > MAL_YAML_LIMIT_BYTES)
    return mal_fail(e, MAL_BAD, _("%s: larger than %d MiB, the most a YAML file may have."), path,
                    MAL_YAML_LIMIT_BYTES >> 20);
  if (!mal_utf8_valid(text, length, &at))
    return mal_fail(e, MAL_BAD, _("%s:%d: byte %zu is not UTF-8. Save the file as UTF-8."), path, mal_line_of(text, at),
                    at);
  if (!yaml_parser_initialize(&parser)) return mal_fail(e, MAL_FAULT, _("%s: out of memory while reading it."), path);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  mal_status status = check_events(path, &parser, e);
  yaml_parser_delete(&parser);
  return status;
}

/* --- second pass -------------------------------------------------------------------------------------------------- */

/* What libcyaml said: the first error, and the fields around it, innermost first. */
typedef struct heard {
  char error[256];
  size_t line, column;
  int fields;
  char field[DEEPEST][NAME_LONGEST]; /* "key", "[0]" for an entry of a list, "" for a mapping at a key it has not */
} heard;

static void listen(cyaml_log_t level, void *context, const char *format, va_list args) {
  heard *h = context;
  char text[512], name[NAME_LONGEST] = "";
  size_t line, column;
  unsigned entry;
  if (level < CYAML_LOG_ERROR) return;
  vsnprintf(text, sizeof text, format, args);
  text[strcspn(text, "\n")] = '\0';
  if (strncmp(text, "  in ", 5) == 0) {
    const char *at = strstr(text, "(line: ");
    if (at && sscanf(at, "(line: %zu, column: %zu", &line, &column) == 2 && h->line == 0) {
      h->line = line;
      h->column = column;
    }
    if (sscanf(text, "  in sequence entry '%u", &entry) == 1)
      snprintf(name, sizeof name, "[%u]", entry ? entry - 1 : 0);
    sscanf(text, "  in mapping field '%63[^']", name);
    if (h->fields < DEEPEST) strcpy(h->field[h->fields++], name);
  } else if (!*h->error) {
    snprintf(h->error, sizeof h->error, "%s", strncmp(text, "Load: ", 6) == 0 ? text + 6 : text);
  }
}

/* The schema of the innermost value that was being read. */
static const cyaml_schema_value_t *schema_at(const cyaml_schema_value_t *schema, const heard *h) {
  for (int i = h->fields - 1; i >= 0 && schema; i--) {
    if (schema->type == CYAML_SEQUENCE || schema->type == CYAML_SEQUENCE_FIXED) {
      schema = schema->sequence.entry;
    } else if (schema->type == CYAML_MAPPING && h->field[i][0]) {
      const cyaml_schema_field_t *f = schema->mapping.fields;
      while (f->key && strcmp(f->key, h->field[i]) != 0) f++;
      schema = f->key ? &f->value : NULL;
    }
  }
  return schema;
}

/* "ports[0].lanes" */
static void path_of(const heard *h, char *out, size_t size) {
  size_t used = 0;
  *out = '\0';
  for (int i = h->fields - 1; i >= 0 && used < size; i--)
    if (h->field[i][0])
      used += (size_t)snprintf(out + used, size - used, "%s%s", used && h->field[i][0] != '[' ? "." : "", h->field[i]);
}

/* libcyaml knows the line before a key that it refuses. The key itself is as deep as there are fields around it. */
static void find_key(const char *text, size_t length, const char *key, heard *h) {
  yaml_parser_t parser;
  bool at_key[DEEPEST + 1] = {false}, in_mapping[DEEPEST + 1] = {false};
  int depth = 0;
  if (!yaml_parser_initialize(&parser)) return;
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  for (bool more = true; more;) {
    yaml_event_t event;
    if (!yaml_parser_parse(&parser, &event)) break;
    size_t line = event.start_mark.line + 1;
    bool starts = event.type == YAML_MAPPING_START_EVENT || event.type == YAML_SEQUENCE_START_EVENT;
    bool scalar = event.type == YAML_SCALAR_EVENT;
    more = event.type != YAML_STREAM_END_EVENT;
    bool beyond = line > h->line || (line == h->line && event.start_mark.column + 1 >= h->column);
    if (scalar && at_key[depth] && depth == h->fields && beyond &&
        strcmp((const char *)event.data.scalar.value, key) == 0) {
      h->line = line;
      more = false;
    }
    if (scalar || starts) at_key[depth] = in_mapping[depth] && !at_key[depth];
    if (starts && depth < DEEPEST) {
      depth++;
      at_key[depth] = in_mapping[depth] = event.type == YAML_MAPPING_START_EVENT;
    }
    if (event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT) depth--;
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&parser);
}

static const char *after(const char *text, const char *start) {
  size_t n = strlen(start);
  return strncmp(text, start, n) == 0 ? text + n : NULL;
}

static mal_status unknown_key(const char *where, const char *key, const cyaml_schema_value_t *schema, mal_error *e) {
  enum { MOST = 256 };
  const char *names[MOST];
  char near[256] = "";
  size_t count = 0;
  if (schema && schema->type == CYAML_MAPPING) {
    for (const cyaml_schema_field_t *f = schema->mapping.fields; f->key && count < MOST; f++) names[count++] = f->key;
    mal_suggest(key, names, count, near, sizeof near);
  }
  if (*near) return mal_fail(e, MAL_BAD, _("%s: there is no key '%s'. Nearest: %s."), where, key, near);
  return mal_fail(e, MAL_BAD, _("%s: there is no key '%s'. Remove it."), where, key);
}

static mal_status unknown_word(const char *where, const char *word, const cyaml_schema_value_t *schema, mal_error *e) {
  char all[512] = "";
  size_t used = 0;
  if (schema && (schema->type == CYAML_ENUM || schema->type == CYAML_FLAGS))
    for (uint32_t i = 0; i < schema->enumeration.count && used < sizeof all; i++)
      used +=
          (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", schema->enumeration.strings[i].str);
  return mal_fail(e, MAL_BAD, _("%s: '%s' is not one of %s."), where, word, all);
}

/* libcyaml's names of types and events in words. */
static const char *form_words(const char *name) {
  if (strncmp(name, "MAPPING", 7) == 0) return _("lines of 'key: value'");
  if (strncmp(name, "SEQUENCE", 8) == 0) return _("a list");
  return _("a single value");
}

static mal_status tell(const char *path, const char *text, size_t length, const cyaml_schema_value_t *schema,
                       cyaml_err_t error, heard *h, mal_error *e) {
  char where[1200], line[32] = "", field[512], wanted[32], got[32];
  const char *rest;
  if (error == CYAML_ERR_OOM) return mal_fail(e, MAL_FAULT, _("%s: out of memory while reading it."), path);
  if ((rest = after(h->error, "Unexpected key: ")) || (rest = after(h->error, "Mapping field already seen: ")))
    find_key(text, length, rest, h);
  if (rest && error != CYAML_ERR_INVALID_KEY) h->field[0][0] = '\0'; /* the message names that key itself */
  path_of(h, field, sizeof field);
  if (h->line) snprintf(line, sizeof line, ":%zu", h->line);
  snprintf(where, sizeof where, *field ? "%s%s: %s" : "%s%s%s", path, line, field);
  const cyaml_schema_value_t *at = schema_at(schema, h);
  if ((rest = after(h->error, "Unexpected key: "))) return unknown_key(where, rest, at, e);
  if (error == CYAML_ERR_INVALID_VALUE && at && (at->type == CYAML_ENUM || at->type == CYAML_FLAGS)) {
    char *word = strchr(h->error, ':'); /* "Invalid INT value: 'word'", for it tries a number too */
    word = word ? word + 1 + strspn(word + 1, " '") : h->error;
    word[strcspn(word, "'")] = '\0';
    return unknown_word(where, word, at, e);
  }
  if ((rest = after(h->error, "Missing required mapping field: ")))
    return mal_fail(e, MAL_BAD, _("%s: the key '%s' is missing. Add it."), where, rest);
  if ((rest = after(h->error, "Mapping field already seen: ")))
    return mal_fail(e, MAL_BAD, _("%s: the key '%s' is given twice. Keep one of them."), where, rest);
  if ((rest = after(h->error, "Invalid FLOAT value: ")))
    return mal_fail(e, MAL_BAD, _("%s: '%s' is not a number."), where, rest);
  if ((rest = after(h->error, "Invalid INT value: ")) || (rest = after(h->error, "Invalid UINT value: ")) ||
      (rest = after(h->error, "Invalid uint64_t value: ")))
    return mal_fail(e, MAL_BAD, _("%s: %s is not a whole number that is allowed here."), where, rest);
  if (sscanf(h->error, "Expecting %31[A-Z0-9_], got event: %31[A-Z_]", wanted, got) == 2)
    return mal_fail(e, MAL_BAD, _("%s: must be %s, but is %s."), where, form_words(wanted), form_words(got));
  return mal_fail(e, MAL_BAD, _("%s: does not have the form expected: %s."), where,
                  *h->error ? h->error : cyaml_strerror(error));
}

static const cyaml_config_t *configure(cyaml_config_t *config, heard *h) {
  *config = (cyaml_config_t){.log_fn = h ? listen : NULL,
                             .log_ctx = h,
                             .mem_fn = cyaml_mem,
                             .log_level = CYAML_LOG_ERROR,
                             .flags = CYAML_CFG_NO_ALIAS};
  return config;
}

mal_status mal_yaml_parse(const char *path, const char *text, size_t length, const cyaml_schema_value_t *schema,
                          void **data, mal_error *e) {
  heard h = {0};
  cyaml_config_t config;
  *data = NULL;
  mal_status status = check_text(path, text, length, e);
  if (status) return status;
  cyaml_err_t error = cyaml_load_data((const uint8_t *)text, length, configure(&config, &h), schema, data, NULL);
  if (error == CYAML_OK && !*data) return mal_fail(e, MAL_BAD, _("%s: is empty, where YAML was expected."), path);
  if (error == CYAML_OK) return MAL_OK;
  *data = NULL;
  return tell(path, text, length, schema, error, &h, e);
}

mal_status mal_yaml_read(const char *path, const cyaml_schema_value_t *schema, void **data, mal_error *e) {
  mal_arena a = {0};
  char *text;
  size_t length;
  *data = NULL;
  mal_status status = mal_file_read(&a, path, MAL_YAML_LIMIT_BYTES, &text, &length, e);
  if (!status) status = mal_yaml_parse(path, text, length, schema, data, e);
  mal_arena_free(&a);
  return status;
}

void mal_yaml_free(const cyaml_schema_value_t *schema, void *data) {
  cyaml_config_t config;
  if (data) cyaml_free(configure(&config, NULL), schema, data, 0);
}
