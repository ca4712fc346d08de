#include "simulate/fault.h"
#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is accepted is inside the machine and inside bounds. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { RANKS = 64, NODES = 8 };
  mal_arena a = {0};
  mal_error e;
  mal_simulated_fault *f;
  int count;
  const char *text = mal_print(&a, "%.*s", (int)size, (const char *)data);
  if (mal_faults_parse(&a, text, RANKS, NODES, &f, &count, &e) == MAL_OK) {
    if (count < 1) abort();
    for (int i = 0; i < count; i++) {
      if (f[i].place.rank >= RANKS || f[i].place.node >= NODES) abort();
      if (!(f[i].lost >= 0 && f[i].lost <= 1) || !(f[i].cv >= 0) || !(f[i].at_s >= 0) || !(f[i].for_s >= 0)) abort();
    }
  }
  mal_arena_free(&a);
  return 0;
}
