#include "design/wiring.h"
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_wiring f;
  mal_error e;
  char *text = mal_alloc(&a, size + 1); /* readers of whole files get a final zero */
  for (size_t i = 0; i < size; i++) text[i] = (char)data[i];
  if (mal_wiring_parse(&a, "fuzz", text, size, &f, &e) == MAL_OK)
    for (int64_t i = 0; i < f.count; i++)
      if (!f.links[i].a.device || !f.links[i].b.device || !f.links[i].a.is_switch) abort();
  mal_arena_free(&a);
  return 0;
}
