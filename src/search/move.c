#include "search/move.h"

static double useful_tokens_per_s(const mal_estimate *e) { return e->tokens_per_s * e->goodput; }

static double gpu_hours_per_mtoken(const mal_plan *p, const mal_estimate *e) {
  return (double)mal_machine_gpus(&p->machine) * 1e6 / useful_tokens_per_s(e) / 3600;
}

mal_move mal_move_between(const mal_plan *from, const mal_estimate *a, const mal_plan *to, const mal_estimate *b) {
  mal_move m = {0};
  double h = gpu_hours_per_mtoken(to, b), per_kwh = to->job.usd_per_kwh > 0 ? to->job.usd_per_kwh : 0;
  m.price_ratio = gpu_hours_per_mtoken(from, a) / h;
  if (mal_usd_per_gpu_hour(from) > 0) m.usd_per_gpu_hour = (a->usd_per_mtoken - per_kwh * b->kwh_per_mtoken) / h;
  if (a->time_to_target_s > 0 && b->time_to_target_s > 0) m.sooner_s = a->time_to_target_s - b->time_to_target_s;
  if (a->usd_per_mtoken <= 0 || b->usd_per_mtoken <= 0) return m;
  m.saved_usd_per_mtoken = a->usd_per_mtoken - b->usd_per_mtoken;
  m.saved_share = m.saved_usd_per_mtoken / a->usd_per_mtoken;
  if (m.sooner_s != 0) m.saved_usd = a->cost_usd - b->cost_usd;
  if (m.saved_usd_per_mtoken <= 0) return m;
  m.tokens_per_usd = 1e6 / m.saved_usd_per_mtoken;
  m.seconds_per_usd = m.tokens_per_usd / useful_tokens_per_s(b);
  return m;
}
