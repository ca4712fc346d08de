/* JSON out: what is written reads back as the same value, with the fewest digits that do so. */
#include "core/json.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDENT = 2 };

typedef struct text {
  mal_arena *arena;
  char *at;
  size_t used, size;
} text;

static void put(text *t, const char *word, size_t length) {
  if (t->size - t->used <= length) {
    size_t size = 2 * (t->used + length) + 256;
    t->at = mal_grow(t->arena, t->at, t->size, size, 1);
    t->size = size;
  }
  memcpy(t->at + t->used, word, length);
  t->used += length;
}

static void put_word(text *t, const char *word) { put(t, word, strlen(word)); }

static void put_line(text *t, int depth) {
  put(t, "\n", 1);
  for (int i = 0; i < depth * INDENT; i++) put(t, " ", 1);
}

static void put_string(text *t, const char *s, size_t length) {
  put(t, "\"", 1);
  for (size_t i = 0; i < length; i++) {
    char escaped[8];
    switch (s[i]) {
    case '"': put(t, "\\\"", 2); break;
    case '\\': put(t, "\\\\", 2); break;
    case '\n': put(t, "\\n", 2); break;
    case '\t': put(t, "\\t", 2); break;
    case '\r': put(t, "\\r", 2); break;
    default:
      if ((unsigned char)s[i] >= 0x20 && s[i] != 0x7f) {
        put(t, s + i, 1);
      } else {
        snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)s[i]);
        put(t, escaped, 6);
      }
    }
  }
  put(t, "\"", 1);
}

static void put_real(text *t, double value) {
  char digits[40];
  for (int precision = 15; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, value);
    if (strtod(digits, NULL) == value) break;
  }
  put_word(t, digits);
  if (!strpbrk(digits, ".e")) put(t, ".0", 2); /* stays a real when read back */
}

static void put_value(text *t, const json_t *value, int depth) {
  char digits[32];
  const char *key;
  json_t *child;
  size_t index, n = 0;
  switch (json_typeof(value)) {
  case JSON_OBJECT:
    put(t, "{", 1);
    json_object_foreach((json_t *)value, key, child) {
      if (n++) put(t, ",", 1);
      put_line(t, depth + 1);
      put_string(t, key, strlen(key));
      put(t, ": ", 2);
      put_value(t, child, depth + 1);
    }
    if (n) put_line(t, depth);
    put(t, "}", 1);
    break;
  case JSON_ARRAY:
    put(t, "[", 1);
    json_array_foreach(value, index, child) {
      if (index) put(t, ",", 1);
      put_line(t, depth + 1);
      put_value(t, child, depth + 1);
    }
    if (json_array_size(value)) put_line(t, depth);
    put(t, "]", 1);
    break;
  case JSON_STRING: put_string(t, json_string_value(value), json_string_length(value)); break;
  case JSON_INTEGER:
    snprintf(digits, sizeof digits, "%" PRId64, (int64_t)json_integer_value(value));
    put_word(t, digits);
    break;
  case JSON_REAL: put_real(t, json_real_value(value)); break;
  case JSON_TRUE: put_word(t, "true"); break;
  case JSON_FALSE: put_word(t, "false"); break;
  case JSON_NULL: put_word(t, "null"); break;
  }
}

char *mal_json_dump(mal_arena *a, const json_t *root) {
  text t = {a, NULL, 0, 0};
  put(&t, "", 0);
  if (root) put_value(&t, root, 0);
  put(&t, "\n", 1);
  t.at[t.used] = '\0';
  return t.at;
}
