#include "machine/machine.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Names only: a spec that is a path would open files. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (memchr(data, '/', size) || memchr(data, 0, size) || memchr(data, '.', size) || (size == 1 && *data == '-'))
    return 0;
  mal_arena a = {0};
  mal_machine m;
  mal_error e;
  char *spec = mal_print(&a, "%.*s", (int)size, (const char *)data);
  if (mal_machine_load(&a, spec, &m, &e) == MAL_OK && (m.nodes < 1 || m.gpus_per_node < 1 || mal_machine_gpus(&m) < 1))
    abort();
  mal_arena_free(&a);
  return 0;
}
