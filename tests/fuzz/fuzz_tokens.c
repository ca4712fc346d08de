#include "engine/data/tokens.h"
#include <stdlib.h>
#include <string.h>

typedef struct piece {
  const uint8_t *data;
} piece;

static mal_status read_piece(const mal_bytes *from, int64_t offset, void *into, int64_t n, mal_error *e) {
  (void)e;
  if (offset < 0 || n < 0 || offset > from->bytes - n) abort(); /* nothing outside is asked for */
  memcpy(into, ((const piece *)from->context)->data + offset, (size_t)n);
  return MAL_OK;
}

/* The first byte says what it is and how long its .bin is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_error e;
  mal_token_file f = {.fd = -1};
  if (!size) return 0;
  piece p = {data + 1};
  mal_bytes bytes = {
      .path = data[0] & 1 ? "x.bin" : "x", .bytes = (int64_t)size - 1, .read = read_piece, .context = &p};
  if (data[0] & 2) {
    int64_t bin = (data[0] >> 2) * 2;
    if (mal_tokens_index(&bytes, bin, &f, &e) == MAL_OK && f.tokens * f.width_bytes != bin) abort();
  } else if (mal_tokens_header(&bytes, (data[0] >> 2) % 4 - 1, &f, &e) == MAL_OK) {
    if (f.first_byte + f.tokens * f.width_bytes > bytes.bytes) abort();
  }
  return 0;
}
