#include "price/risk.h"
#include <math.h>

const double mal_fit_confidence = 0.9;

/* Of profiles without runs: over those with some (bench/memory). */
static const double sigma_framework = 0.07;

double mal_memory_sigma(const mal_profile *profile) {
  return profile->memory_sigma > 0 ? profile->memory_sigma : sigma_framework;
}

static double normal_below(double z) { return 0.5 * erfc(-z / M_SQRT2); }

/* z with normal_below(z) = p. */
static double normal_quantile(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 60; i++) {
    double middle = (low + high) / 2;
    *(normal_below(middle) < p ? &low : &high) = middle;
  }
  return (low + high) / 2;
}

double mal_fit_probability(const mal_profile *profile, double total_bytes, double limit_bytes) {
  if (total_bytes <= 0) return 1;
  return limit_bytes <= 0 ? 0 : normal_below(log(limit_bytes / total_bytes) / mal_memory_sigma(profile));
}

double mal_fit_budget(const mal_profile *profile, double limit_bytes, double p) {
  return limit_bytes * exp(-normal_quantile(p) * mal_memory_sigma(profile));
}

double mal_memory_quantile(const mal_profile *profile, double total_bytes, double share) {
  return total_bytes * exp(normal_quantile(share) * mal_memory_sigma(profile));
}

int mal_too_close(mal_interval first, const double *step_s, int count) {
  int n = 0;
  while (n < count && n < MAL_TO_MEASURE && step_s[n] <= first.high) n++;
  return n;
}
