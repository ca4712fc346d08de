/* Weighted statistics of errors. */
#ifndef MAL_CHECK_STATISTICS_H
#define MAL_CHECK_STATISTICS_H
#include "core/arena.h"

typedef struct mal_sample {
  double value, weight;
} mal_sample;

/* Sorts the samples. The smallest value at which the cumulated weight reaches share of the whole; 0 when empty. */
double mal_weighted_quantile(mal_sample *samples, int count, double share);
double mal_weighted_mean(const mal_sample *samples, int count);
#endif
