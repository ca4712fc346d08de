#include "engine/weights/safetensors.h"
#include <stdlib.h>
#include <string.h>

static mal_status read_input(const mal_bytes *from, int64_t offset, void *into, int64_t n, mal_error *e) {
  (void)e;
  if (offset < 0 || n < 0 || offset > from->bytes - n) abort(); /* nothing outside is asked for */
  memcpy(into, (const uint8_t *)from->context + offset, (size_t)n);
  return MAL_OK;
}

/* What is accepted lies in the file, without gap or overlap, and has as many bytes as its numbers need. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a;
  mal_error e;
  mal_stored_list list;
  mal_bytes file = {.path = "x.safetensors", .bytes = (int64_t)size, .read = read_input, .context = data};
  mal_arena_init(&a);
  if (mal_safetensors_header(&a, &file, &list, &e) == MAL_OK) {
    int64_t end = list.count ? list.at[0].first_byte : (int64_t)size;
    for (int32_t i = 0; i < list.count; i++) {
      if (list.at[i].first_byte != end) abort();
      end += list.at[i].bytes;
    }
    if (end != (int64_t)size) abort();
  }
  mal_arena_free(&a);
  return 0;
}
