#include "core/philox.h"
#include <string.h>

void mal_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32), c[4];
  memcpy(c, counter, sizeof c);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = UINT64_C(0xD2511F53) * c[0], p1 = UINT64_C(0xCD9E8D57) * c[2];
    const uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
                              (uint32_t)p0};
    memcpy(c, next, sizeof c);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  memcpy(out, c, sizeof c);
}
