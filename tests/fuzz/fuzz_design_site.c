#include "design/site.h"
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_site s;
  mal_error e;
  if (mal_site_parse(&a, "fuzz.yaml", (const char *)data, size, &s, &e) == MAL_OK && !(mal_site_circuit_w(&s) > 0))
    abort();
  mal_arena_free(&a);
  return 0;
}
