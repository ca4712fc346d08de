/* The same model with another number of layers. */
#include "model/family.h"
#include <string.h>

/* The shortest pattern that the later half of the layers repeats. */
static int64_t period_of(const mal_model *m) {
  for (int64_t period = 1; period < m->layers; period++) {
    bool same = true;
    for (int64_t i = m->layers / 2; i < m->layers && same; i++)
      same = i < period || m->kind_of[i] == m->kind_of[i - period];
    if (same) return period;
  }
  return m->layers;
}

mal_status mal_model_with_layers(mal_arena *a, const mal_model *m, int64_t layers, mal_model *out, mal_error *e) {
  if (layers < 1 || layers > MAL_MAX_LAYERS)
    return mal_fail(e, MAL_BAD, _("%lld layers: a model has between 1 and %d."), (long long)layers, MAL_MAX_LAYERS);
  int64_t period = period_of(m);
  *out = *m;
  out->layers = layers;
  out->published_parameters = 0, out->published_source = "";
  out->kind_of = MAL_ARRAY(a, uint8_t, layers);
  out->kinds = MAL_ARRAY(a, mal_layer_kind, m->n_kinds);
  memcpy(out->kinds, m->kinds, (size_t)m->n_kinds * sizeof *m->kinds);
  for (int64_t i = 0; i < layers; i++) out->kind_of[i] = i < m->layers ? m->kind_of[i] : out->kind_of[i - period];
  if (!mal_count_parameters(out))
    return mal_fail(e, MAL_BAD, _("%lld layers make more than 2^53 parameters, past what is counted exactly."),
                    (long long)layers);
  return MAL_OK;
}
