#include "engine/checkpoint/shard.h"
#include <stdlib.h>
#include <string.h>

/* First byte even: a manifest; odd: a shard of two tensors. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_error e;
  if (!size) return 0;
  const uint8_t *rest = data + 1;
  int64_t n = (int64_t)size - 1;
  if (data[0] % 2 == 0) {
    mal_checkpoint_found found = {0};
    char *text = mal_alloc(&a, size); /* ends with a zero, as a file that was read does */
    memcpy(text, rest, (size_t)n);
    if (mal_manifest_parse(&a, "m", text, (size_t)n, &found, &e) == MAL_OK) {
      if (found.says.ranks < 1 || !found.says.model) abort();
      for (int32_t i = 0; i < found.says.ranks; i++)
        if (strchr(found.shards[i].name, '/')) abort();
    }
  } else if (n >= SHARD_HEAD_BYTES) {
    mal_tensor list[] = {{.name = "a", .rows = 5, .cols = 7}, {.name = "b", .rows = 1 << 20, .cols = INT64_C(1) << 40}};
    const mal_tensors t = {list, 2};
    int64_t file = n * 3 + SHARD_TAIL_BYTES; /* larger than what is here, as a file is than its head */
    uint8_t *head = mal_alloc(&a, (size_t)n);
    memcpy(head, rest, (size_t)n);
    memcpy(head + 16, &file, sizeof file);
    int64_t bytes = mal_shard_head_bytes(head, file);
    rectangles r = {0};
    if (bytes >= 0 && bytes <= n && mal_shard_decode(&a, "s", head, bytes, file, &t, &r, &e) == MAL_OK)
      for (int32_t i = 0; i < r.count; i++)
        if (r.at[i].at_byte + r.at[i].rows * r.at[i].cols * 4 > file - SHARD_TAIL_BYTES) abort();
  }
  mal_arena_free(&a);
  return 0;
}
