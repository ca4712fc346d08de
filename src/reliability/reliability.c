#include "reliability/reliability.h"
#include <math.h>

static const double day_s = 86400;

double mal_node_failures(double of_eight, double gpus) { return of_eight * gpus / 8; }

double mal_mttf_s(double failures_per_node_day, int64_t nodes) {
  double a_day = failures_per_node_day * (double)nodes;
  return a_day > 0 ? day_s / a_day : INFINITY;
}

double mal_interval_young_s(double write_s, double mttf_s) { return sqrt(2 * write_s * mttf_s); }

double mal_interval_daly_s(double write_s, double mttf_s) {
  if (isinf(mttf_s)) return INFINITY;
  if (write_s >= 2 * mttf_s) return mttf_s;
  double ratio = write_s / (2 * mttf_s);
  return mal_interval_young_s(write_s, mttf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - write_s;
}

double mal_ettr(double mttf_s, double restart_s, double interval_s, double write_s) {
  double lost = isinf(mttf_s) ? 0 : (restart_s + interval_s / 2) / mttf_s;
  double trains = isinf(interval_s) || interval_s <= 0 ? 1 - lost : (1 - lost) / (1 + write_s / interval_s);
  return trains > 0 ? trains : 0;
}
