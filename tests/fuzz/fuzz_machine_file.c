#include "machine/machine.h"
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A machine file that is accepted has sources everywhere, constants inside their bounds and a size that can be planned. */
static void check(void *context, const char *section, const char *key, const mal_value *value,
                  const mal_fitted *fitted) {
  (void)context, (void)section, (void)key;
  if (value && (!value->source || !(value->value >= 0))) abort();
  if (fitted && (!fitted->source || !(fitted->lo <= fitted->value && fitted->value <= fitted->hi))) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_machine m;
  mal_error e;
  if (mal_machine_parse(&a, "fuzz.yaml", (const char *)data, size, &m, &e) == MAL_OK) {
    mal_machine_each(&m, check, NULL);
    if (m.nodes < 1 || m.gpus_per_node < 1 || m.gpus_per_node > m.node->gpus) abort();
  }
  mal_arena_free(&a);
  return 0;
}
