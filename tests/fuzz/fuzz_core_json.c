/* Any text: read, looked into, written, read again. */
#include "core/json.h"
#include <stdlib.h>
#include <string.h>

static void look_into(const mal_json *j, const json_t *object, mal_arena *a, int depth) {
  static const char *const keys[] = {"hidden_size", "a", "", "x"};
  mal_error e;
  int64_t n;
  double x;
  bool b, found;
  const char *text;
  for (int i = 0; i < 4; i++) {
    (void)mal_json_int(j, object, keys[i], 0, 9, &n, i & 1 ? &found : NULL, &e);
    (void)mal_json_real(j, object, keys[i], 0, 1, &x, NULL, &e);
    (void)mal_json_bool(j, object, keys[i], &b, &found, &e);
    (void)mal_json_text(j, object, a, keys[i], &text, NULL, &e);
    (void)mal_json_where(j, a, keys[i]);
  }
  const char *key;
  json_t *child;
  if (depth < 8) json_object_foreach((json_t *)object, key, child) look_into(j, child, a, depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_json j, again;
  mal_error e;
  char *text = malloc(size + 1); /* exactly NUL-terminated, as a file is */
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  if (mal_json_parse(&a, "fuzz.json", text, size, &j, &e) == MAL_OK) {
    look_into(&j, j.root, &a, 0);
    char *dumped = mal_json_dump(&a, j.root);
    if (mal_json_parse(&a, "again.json", dumped, strlen(dumped), &again, &e) != MAL_OK) abort();
    if (!json_equal(j.root, again.root)) abort();
    mal_json_free(&again);
  }
  mal_json_free(&j);
  mal_arena_free(&a);
  free(text);
  return 0;
}
