#include "check/statistics.h"
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
  double x = ((const mal_sample *)a)->value, y = ((const mal_sample *)b)->value;
  return (x > y) - (x < y);
}

double mal_weighted_quantile(mal_sample *samples, int count, double share) {
  double whole = 0, sum = 0;
  if (count == 0) return 0;
  qsort(samples, (size_t)count, sizeof *samples, by_value);
  for (int i = 0; i < count; i++) whole += samples[i].weight;
  double wanted = share * whole * (1 - 1e-12);
  for (int i = 0; i < count; i++) {
    sum += samples[i].weight;
    if (sum < wanted) continue;
    /* exactly between two samples: their middle, so that an even count has the usual median */
    if (sum <= share * whole * (1 + 1e-12) && i + 1 < count) return (samples[i].value + samples[i + 1].value) / 2;
    return samples[i].value;
  }
  return samples[count - 1].value;
}

double mal_weighted_mean(const mal_sample *samples, int count) {
  double whole = 0, sum = 0;
  for (int i = 0; i < count; i++) {
    whole += samples[i].weight;
    sum += samples[i].weight * samples[i].value;
  }
  return whole > 0 ? sum / whole : 0;
}
