/* jansson parses; the text is kept so that a message can name the line of the key it is about. */
#include "core/json.h"
#include "core/file.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char bom[] = "\xef\xbb\xbf";

/* The key whose value jansson could not take: the text between the last two quotes before that place. */
static const char *key_before(mal_arena *a, const char *text, const json_error_t *why) {
  int end = why->position, start;
  if (end < 0 || !memchr(text, '"', (size_t)end)) return "?";
  while (end > 0 && text[end - 1] != '"') end--;
  for (start = --end; start > 0 && text[start - 1] != '"';) start--;
  return end > start ? mal_print(a, "%.*s", end - start < 60 ? end - start : 60, text + start) : "?";
}

static mal_status refused(mal_arena *a, const char *path, const char *text, const json_error_t *why, mal_error *e) {
  switch (json_error_code(why)) {
  case json_error_out_of_memory: return mal_fail(e, MAL_FAULT, _("%s: out of memory while reading it."), path);
  case json_error_duplicate_key:
    return mal_fail(e, MAL_BAD, _("%s:%d: a key is given twice (%s). Keep one of them."), path, why->line, why->text);
  case json_error_stack_overflow:
    return mal_fail(e, MAL_BAD, _("%s:%d: nested more than %d deep. Is it the right file?"), path, why->line,
                    JSON_PARSER_MAX_DEPTH);
  case json_error_premature_end_of_input:
    return mal_fail(e, MAL_BAD,
                    _("%s:%d: the JSON ends too early; the file may be cut short. Fetch or write it again."), path,
                    why->line);
  case json_error_null_character:
  case json_error_null_byte_in_key:
    return mal_fail(e, MAL_BAD, _("%s:%d: a text holds the character \\u0000, which none may. Remove it."), path,
                    why->line);
  case json_error_numeric_overflow:
    return mal_fail(e, MAL_BAD, _("%s:%d: the number of '%s' is too big (column %d). Correct it there."), path,
                    why->line, key_before(a, text, why), why->column);
  default:
    return mal_fail(e, MAL_BAD, _("%s:%d: not valid JSON: %s (column %d). Correct the file there."), path, why->line,
                    why->text, why->column);
  }
}

mal_status mal_json_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_json *j, mal_error *e) {
  size_t at;
  *j = (mal_json){path, text, length, NULL};
  if (length > MAL_JSON_LIMIT_BYTES)
    return mal_fail(e, MAL_BAD, _("%s: larger than %d MiB, the most a JSON file may have."), path,
                    MAL_JSON_LIMIT_BYTES >> 20);
  if (length >= 3 && memcmp(text, bom, 3) == 0) {
    j->text += 3;
    j->length -= 3;
  }
  if (!mal_utf8_valid(j->text, j->length, &at))
    return mal_fail(e, MAL_BAD, _("%s:%d: byte %zu is not UTF-8. Save the file as UTF-8."), path,
                    mal_line_of(j->text, at), at + (size_t)(j->text - text));
  if (strspn(j->text, " \t\r\n") == j->length)
    return mal_fail(e, MAL_BAD, _("%s: is empty, where JSON was expected."), path);
  json_error_t why;
  j->root = json_loadb(j->text, j->length, JSON_REJECT_DUPLICATES, &why);
  return j->root ? MAL_OK : refused(a, path, j->text, &why, e);
}

mal_status mal_json_read(mal_arena *a, const char *path, mal_json *j, mal_error *e) {
  char *text;
  size_t length;
  *j = (mal_json){path, NULL, 0, NULL};
  mal_status status = mal_file_read(a, path, MAL_JSON_LIMIT_BYTES, &text, &length, e);
  return status ? status : mal_json_parse(a, path, text, length, j, e);
}

void mal_json_free(mal_json *j) {
  json_decref(j->root);
  j->root = NULL;
}

/* --- where a key stands ------------------------------------------------------------------------------------------- */

/* The text is known to be valid JSON here, so the scanner only counts brackets and skips strings. */
static const char *skip_blank(const char *p) { return p + strspn(p, " \t\r\n"); }

static const char *skip_string(const char *p) { /* p at the opening quote */
  for (p++; *p && *p != '"'; p++)
    if (*p == '\\' && p[1]) p++;
  return *p ? p + 1 : p;
}

static const char *skip_value(const char *p) {
  if (*p == '"') return skip_string(p);
  if (*p != '{' && *p != '[') return p + strcspn(p, ",]} \t\r\n");
  for (size_t depth = 0; *p;) {
    if (*p == '"') {
      p = skip_string(p);
      continue;
    }
    if (*p == '{' || *p == '[') depth++;
    if (*p == '}' || *p == ']') depth--;
    p++;
    if (!depth) break;
  }
  return p;
}

/* p at '{' or '['. The place of member `key` (or element `index`), and of its value; NULL when it is not there. */
static const char *member(const char *p, const char *key, size_t index, const char **value) {
  bool object = *p == '{';
  size_t length = object ? strlen(key) : 0;
  p = skip_blank(p + 1);
  for (size_t i = 0; *p && *p != '}' && *p != ']'; i++) {
    const char *start = p, *end = p;
    if (object) {
      end = skip_string(p);
      p = skip_blank(end);
      if (*p != ':') return NULL;
      p = skip_blank(p + 1);
    }
    bool here = object ? (size_t)(end - start) == length + 2 && memcmp(start + 1, key, length) == 0 : i == index;
    if (here) {
      *value = p;
      return start;
    }
    p = skip_blank(skip_value(p));
    if (*p == ',') p = skip_blank(p + 1);
  }
  return NULL;
}

/* Where `object` opens in the text: the tree and the text are walked together. Depth is bounded by jansson. */
static const char *place_of(const json_t *node, const char *at, const json_t *object) {
  if (node == object) return at;
  if (*at != '{' && *at != '[') return NULL;
  const char *key, *value, *found;
  json_t *child;
  size_t index;
  if (json_is_object(node)) {
    json_object_foreach((json_t *)node, key, child) {
      if ((json_is_object(child) || json_is_array(child)) && member(at, key, 0, &value) &&
          (found = place_of(child, value, object)))
        return found;
    }
  } else if (json_is_array(node)) {
    value = NULL;
    const char *p = skip_blank(at + 1);
    json_array_foreach(node, index, child) {
      if ((json_is_object(child) || json_is_array(child)) && (found = place_of(child, p, object))) return found;
      p = skip_blank(skip_value(p));
      if (*p == ',') p = skip_blank(p + 1);
    }
  }
  return NULL;
}

/* The line of `key` in `object`, else of the object, else of the first such key, else 1. */
static int line_of(const mal_json *j, const json_t *object, const char *key) {
  if (!j->text || !j->length) return 1;
  const char *start = skip_blank(j->text), *value, *found = NULL;
  if (object && j->root && (start = place_of(j->root, start, object))) {
    found = *start == '{' ? member(start, key, 0, &value) : NULL;
    return mal_line_of(j->text, (size_t)((found ? found : start) - j->text));
  }
  size_t length = strlen(key);
  for (const char *p = j->text; (p = strchr(p, '"'));) {
    const char *end = skip_string(p);
    if ((size_t)(end - p) == length + 2 && memcmp(p + 1, key, length) == 0 && *skip_blank(end) == ':')
      return mal_line_of(j->text, (size_t)(p - j->text));
    p = end;
  }
  return 1;
}

const char *mal_json_where(const mal_json *j, mal_arena *a, const char *key) {
  return mal_print(a, "%s:%d: ", j->path, line_of(j, NULL, key));
}

/* --- readers ------------------------------------------------------------------------------------------------------ */

/* *value is NULL when the key is absent and may be. */
static mal_status look_up(const mal_json *j, const json_t *object, const char *key, const json_t **value, bool *found,
                          mal_error *e) {
  *value = json_object_get(object, key);
  if (json_is_null(*value)) *value = NULL;
  if (found) *found = *value != NULL;
  if (*value || found) return MAL_OK;
  if (object && !json_is_object(object))
    return mal_fail(e, MAL_BAD, _("%s:%d: an object with the key '%s' was expected here."), j->path,
                    line_of(j, object, key), key);
  return mal_fail(e, MAL_BAD, _("%s:%d: the key '%s' is missing. Add it."), j->path, line_of(j, object, key), key);
}

static const char *kind_of(const json_t *value) {
  switch (json_typeof(value)) {
  case JSON_OBJECT: return _("an object");
  case JSON_ARRAY: return _("a list");
  case JSON_STRING: return _("a text");
  case JSON_INTEGER: return _("a whole number");
  case JSON_REAL: return _("a number");
  case JSON_TRUE:
  case JSON_FALSE: return _("true or false");
  case JSON_NULL: break;
  }
  return "null";
}

static mal_status wrong_kind(const mal_json *j, const json_t *object, const char *key, const char *wanted,
                             const json_t *value, mal_error *e) {
  const char *is = kind_of(value);
  if (json_is_real(value) && strcmp(wanted, _("a whole number")) == 0)
    is = floor(json_real_value(value)) == json_real_value(value) ? _("one past 2^53") : _("a fraction");
  return mal_fail(e, MAL_BAD, _("%s:%d: the key '%s' must be %s, but is %s."), j->path, line_of(j, object, key), key,
                  wanted, is);
}

mal_status mal_json_int(const mal_json *j, const json_t *object, const char *key, int64_t lo, int64_t hi,
                        int64_t *value, bool *found, mal_error *e) {
  const json_t *v;
  mal_status status = look_up(j, object, key, &v, found, e);
  if (status || !v) return status;
  double real = json_number_value(v);
  bool whole = json_is_integer(v) || (json_is_real(v) && floor(real) == real && fabs(real) <= 0x1p53);
  if (!whole) return wrong_kind(j, object, key, _("a whole number"), v, e);
  int64_t n = json_is_integer(v) ? json_integer_value(v) : (int64_t)real;
  if (n < lo || n > hi)
    return mal_fail(e, MAL_BAD, _("%s:%d: the key '%s' is %" PRId64 ", outside %" PRId64 " to %" PRId64 "."), j->path,
                    line_of(j, object, key), key, n, lo, hi);
  *value = n;
  return MAL_OK;
}

mal_status mal_json_real(const mal_json *j, const json_t *object, const char *key, double lo, double hi, double *value,
                         bool *found, mal_error *e) {
  const json_t *v;
  mal_status status = look_up(j, object, key, &v, found, e);
  if (status || !v) return status;
  if (!json_is_number(v)) return wrong_kind(j, object, key, _("a number"), v, e);
  double n = json_number_value(v);
  if (!(n >= lo && n <= hi))
    return mal_fail(e, MAL_BAD, _("%s:%d: the key '%s' is %g, outside %g to %g."), j->path, line_of(j, object, key),
                    key, n, lo, hi);
  *value = n;
  return MAL_OK;
}

mal_status mal_json_bool(const mal_json *j, const json_t *object, const char *key, bool *value, bool *found,
                         mal_error *e) {
  const json_t *v;
  mal_status status = look_up(j, object, key, &v, found, e);
  if (status || !v) return status;
  if (!json_is_boolean(v)) return wrong_kind(j, object, key, _("true or false"), v, e);
  *value = json_is_true(v);
  return MAL_OK;
}

mal_status mal_json_text(const mal_json *j, const json_t *object, mal_arena *a, const char *key, const char **value,
                         bool *found, mal_error *e) {
  const json_t *v;
  mal_status status = look_up(j, object, key, &v, found, e);
  if (status || !v) return status;
  if (!json_is_string(v)) return wrong_kind(j, object, key, _("a text"), v, e);
  *value = mal_copy(a, json_string_value(v));
  return MAL_OK;
}
