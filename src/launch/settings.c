#include "launch/settings.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mal_setting *mal_setting_add(mal_settings *s, const char *key, const char *file, int line) {
  if (s->count == s->room) {
    int room = s->room ? 2 * s->room : 64;
    s->all = mal_grow(s->arena, s->all, (size_t)s->room, (size_t)room, sizeof *s->all);
    s->room = room;
  }
  mal_setting *one = &s->all[s->count++];
  *one = (mal_setting){.key = mal_copy(s->arena, key), .file = file, .line = line};
  return one;
}

mal_setting *mal_setting_put(mal_settings *s, const char *key, const char *value) {
  mal_setting *one = mal_setting_add(s, key, NULL, 0);
  if (!value) return one;
  const char **values = MAL_NEW(s->arena, const char *);
  *values = mal_copy(s->arena, value);
  one->values = values;
  one->n_values = 1;
  return one;
}

mal_setting *mal_setting_number(mal_settings *s, const char *key, int64_t value) {
  mal_setting *one = mal_setting_put(s, key, mal_print(s->arena, "%lld", (long long)value));
  one->kind = MAL_SET_NUMBER;
  return one;
}

static bool same_key(const char *x, const char *y) {
  if (*x != '-') return strcmp(x, y) == 0;
  for (; *x && *y; x++, y++)
    if (*x != *y && !((*x == '_' || *x == '-') && (*y == '_' || *y == '-'))) return false;
  return *x == *y;
}

mal_setting *mal_setting_find(const mal_settings *s, const char *key) {
  for (int i = s->count - 1; i >= 0; i--)
    if (same_key(s->all[i].key, key)) return &s->all[i];
  return NULL;
}

mal_setting *mal_setting_take(mal_settings *s, const char *key) {
  mal_setting *last = NULL;
  for (int i = 0; i < s->count; i++)
    if (same_key(s->all[i].key, key)) {
      last = &s->all[i];
      last->taken = true;
    }
  return last;
}

const char *mal_setting_value(const mal_setting *s) { return s && s->n_values ? s->values[0] : NULL; }

bool mal_setting_open(const mal_setting *s) {
  for (int i = 0; i < s->n_values; i++)
    for (const char *at = s->values[i]; (at = strchr(at, '$')); at += 2)
      if (at[1] != '$') return true;
  return false;
}

void mal_note_add(mal_arena *a, mal_notes *n, const char *file, int line, const char *format, ...) {
  char text[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (n->count == n->room) {
    int room = n->room ? 2 * n->room : 16;
    n->all = mal_grow(a, n->all, (size_t)n->room, (size_t)room, sizeof *n->all);
    n->room = room;
  }
  n->all[n->count++] = (mal_note){file, line, mal_copy(a, text)};
}

mal_status mal_setting_fail(const mal_setting *s, mal_error *e, const char *format, ...) {
  char text[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (!s->file) return mal_fail(e, MAL_BAD, "%s: %s", s->key, text);
  if (s->line < 1) return mal_fail(e, MAL_BAD, "%s: %s: %s", s->file, s->key, text);
  return mal_fail(e, MAL_BAD, "%s:%d: %s: %s", s->file, s->line, s->key, text);
}
