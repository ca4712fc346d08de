/* Any text as a config.json: refused, or a model that keeps its invariants. */
#include "model/model.h"
#include <stdlib.h>
#include <string.h>

static int64_t sum(const mal_weight *list, int n) {
  int64_t total = 0;
  for (int i = 0; i < n; i++) total += mal_weight_elements(&list[i]);
  return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_model m;
  mal_error e;
  char *text = malloc(size + 1);
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  if (mal_model_parse_config(&a, "config.json", text, size, &m, &e) == MAL_OK) {
    int64_t total = sum(m.weights, m.n_weights);
    for (int64_t l = 0; l < m.layers; l++) {
      if (m.kind_of[l] >= m.n_kinds) abort();
      total += m.kinds[m.kind_of[l]].parameters;
    }
    for (int k = 0; k < m.n_kinds; k++)
      if (sum(m.kinds[k].weights, m.kinds[k].n_weights) != m.kinds[k].parameters) abort();
    total += m.mtp_layers * m.kinds[m.n_kinds - 1].parameters;
    if (total != m.parameters || m.parameters <= 0 || m.active_parameters > m.parameters) abort();
  }
  mal_arena_free(&a);
  free(text);
  return 0;
}
