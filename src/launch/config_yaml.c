/* YAML, by libyaml's events. */
#include "launch/config.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

int mal_config_kind(const char *word, const char **value) {
  static const char *const on[] = {"true", "yes", "on"}, *const off[] = {"false", "no", "off"};
  *value = word;
  for (int i = 0; i < 3; i++)
    if (strcasecmp(word, on[i]) == 0 || strcasecmp(word, off[i]) == 0) {
      *value = strcasecmp(word, on[i]) == 0 ? "true" : "false";
      return MAL_SET_BOOL;
    }
  if (!*word || strcmp(word, "~") == 0 || strcasecmp(word, "null") == 0) return MAL_SET_NULL;
  json_t *number = strspn(word, "+-.0123456789eE") == strlen(word) ? json_loads(word, JSON_DECODE_ANY, NULL) : NULL;
  bool is = json_is_number(number);
  json_decref(number);
  return is ? MAL_SET_NUMBER : MAL_SET_TEXT;
}

typedef struct reader {
  yaml_parser_t parser;
  mal_arena *a;
  const char *file;
  mal_settings *into;
  mal_error *e;
  int events;
} reader;

static mal_status fail_at(reader *r, const char *what) {
  return mal_fail(r->e, MAL_BAD, "%s:%d: %s", r->file, (int)r->parser.mark.line + 1, what);
}

static mal_status next(reader *r, yaml_event_t *event) {
  if (!yaml_parser_parse(&r->parser, event))
    return mal_fail(r->e, MAL_BAD, "%s:%d: %s", r->file, (int)r->parser.problem_mark.line + 1,
                    r->parser.problem ? r->parser.problem : _("is no YAML."));
  if (++r->events <= 4 * MAL_SETTINGS_MOST && event->type != YAML_ALIAS_EVENT) return MAL_OK;
  bool alias = event->type == YAML_ALIAS_EVENT;
  yaml_event_delete(event);
  return fail_at(r, alias ? _("anchors are not read. Write the value itself.") : _("too many settings."));
}

static const char *scalar(const yaml_event_t *event, int *kind) {
  const char *text = (const char *)event->data.scalar.value, *value = text;
  *kind = MAL_SET_TEXT;
  if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) *kind = mal_config_kind(text, &value);
  return value;
}

static mal_status read_list(reader *r, int depth, json_t *list);

/* A mapping inside a list. */
static mal_status read_object(reader *r, int depth, json_t *object) {
  for (;;) {
    yaml_event_t event;
    mal_status s = next(r, &event);
    if (s != MAL_OK) return s;
    if (event.type == YAML_MAPPING_END_EVENT) return yaml_event_delete(&event), MAL_OK;
    bool good = event.type == YAML_SCALAR_EVENT && depth < MAL_CONFIG_DEPTH;
    char *key = mal_copy(r->a, good ? (const char *)event.data.scalar.value : "");
    yaml_event_delete(&event);
    s = good ? next(r, &event) : fail_at(r, _("a key is wanted here."));
    if (s == MAL_OK && event.type == YAML_SCALAR_EVENT) {
      json_object_set_new(object, key, json_string((const char *)event.data.scalar.value));
      yaml_event_delete(&event);
    } else if (s == MAL_OK) {
      yaml_event_delete(&event);
      s = fail_at(r, _("lists of such depth are not read."));
    }
    if (s != MAL_OK) return s;
  }
}

static mal_status read_list(reader *r, int depth, json_t *list) {
  if (depth > MAL_CONFIG_DEPTH) return fail_at(r, _("is nested too deeply."));
  for (;;) {
    yaml_event_t event;
    mal_status s = next(r, &event);
    if (s != MAL_OK) return s;
    if (event.type == YAML_SEQUENCE_END_EVENT) return yaml_event_delete(&event), MAL_OK;
    if (event.type == YAML_SCALAR_EVENT) {
      int kind;
      const char *value = scalar(&event, &kind);
      json_t *one =
          kind == MAL_SET_TEXT ? NULL : json_loads(kind == MAL_SET_NULL ? "null" : value, JSON_DECODE_ANY, NULL);
      json_array_append_new(list, one ? one : json_string(value));
    } else {
      json_t *one = event.type == YAML_SEQUENCE_START_EVENT ? json_array() : json_object();
      s = event.type == YAML_SEQUENCE_START_EVENT ? read_list(r, depth + 1, one) : read_object(r, depth + 1, one);
      json_array_append_new(list, one);
    }
    yaml_event_delete(&event);
    if (s != MAL_OK) return s;
  }
}

static mal_status read_mapping(reader *r, const char *outer, int depth);

static mal_status read_value(reader *r, const char *path, int depth) {
  yaml_event_t event;
  mal_status s = next(r, &event);
  if (s != MAL_OK) return s;
  int line = (int)event.start_mark.line + 1, kind;
  if (event.type == YAML_SCALAR_EVENT) {
    const char *value = scalar(&event, &kind);
    s = mal_config_found(r->into, r->file, line, path, kind, value, false, r->e);
  } else if (event.type == YAML_MAPPING_START_EVENT) {
    s = read_mapping(r, path, depth + 1);
  } else if (event.type == YAML_SEQUENCE_START_EVENT) {
    json_t *list = json_array();
    s = read_list(r, depth + 1, list);
    char *text = json_dumps(list, JSON_COMPACT);
    if (s == MAL_OK) s = mal_config_found(r->into, r->file, line, path, MAL_SET_TEXT, text, true, r->e);
    free(text);
    json_decref(list);
  }
  yaml_event_delete(&event);
  return s;
}

static mal_status read_mapping(reader *r, const char *outer, int depth) {
  if (depth > MAL_CONFIG_DEPTH) return fail_at(r, _("is nested too deeply."));
  for (;;) {
    yaml_event_t event;
    mal_status s = next(r, &event);
    if (s != MAL_OK) return s;
    if (event.type == YAML_MAPPING_END_EVENT) return yaml_event_delete(&event), MAL_OK;
    bool good = event.type == YAML_SCALAR_EVENT;
    const char *path = good ? mal_config_key(r->a, outer, (const char *)event.data.scalar.value,
                                             strlen((const char *)event.data.scalar.value))
                            : "";
    yaml_event_delete(&event);
    s = good ? read_value(r, path, depth) : fail_at(r, _("a key is wanted here."));
    if (s != MAL_OK) return s;
  }
}

/* Up to the first mapping; its document alone is read. */
mal_status mal_config_read_yaml(mal_arena *a, const char *file, const char *text, size_t length, mal_settings *into,
                                mal_error *e) {
  reader r = {.a = a, .file = file, .into = into, .e = e};
  if (!yaml_parser_initialize(&r.parser)) return mal_fail(e, MAL_FAULT, _("%s: out of memory."), file);
  yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
  mal_status s;
  for (bool over = false; !over;) {
    yaml_event_t event;
    if ((s = next(&r, &event)) != MAL_OK) break;
    yaml_event_type_t type = event.type;
    yaml_event_delete(&event);
    over = type == YAML_MAPPING_START_EVENT || type == YAML_STREAM_END_EVENT;
    if (type == YAML_MAPPING_START_EVENT) s = read_mapping(&r, "", 0);
    if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT) {
      s = fail_at(&r, _("is no mapping of settings."));
      break;
    }
  }
  yaml_parser_delete(&r.parser);
  return s;
}
