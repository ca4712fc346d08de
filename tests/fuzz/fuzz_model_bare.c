/* Any text as a bare description. */
#include "model/model.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_model m;
  mal_error e;
  char *text = malloc(size + 1);
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  if (mal_model_parse_bare(&a, text, &m, &e) == MAL_OK)
    if (m.parameters <= 0 || m.active_parameters > m.parameters || m.n_kinds < 1) abort();
  mal_arena_free(&a);
  free(text);
  return 0;
}
