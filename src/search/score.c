/* Scores of estimates, and the least that one can have. */
#include "price/power.h"
#include "price/risk.h"
#include "search/worker.h"

double mal_score(int objective, const mal_estimate *e) {
  switch (objective) {
  case MAL_BEST_COST: return e->usd_per_mtoken > 0 ? e->usd_per_mtoken : e->step_s;
  case MAL_BEST_ENERGY: return e->kwh_per_mtoken;
  case MAL_BEST_MEMORY: return (double)e->total_bytes;
  default: return e->step_s;
  }
}

/* The whole machine at its least draw for such a step, kW with the facility: products at the limit, all else as cheap as waiting
 * for data. */
static double least_kw(const mal_plan *p, double step_s, double gemm_s) {
  double time_s[MAL_TIME_CAUSES] = {0};
  time_s[MAL_TIME_MATMUL] = gemm_s < step_s ? gemm_s : step_s;
  time_s[MAL_TIME_DATA] = step_s - time_s[MAL_TIME_MATMUL];
  return mal_power_w(&p->machine, time_s, step_s) / 1000 * (p->job.pue > 0 ? p->job.pue : 1);
}

double mal_least_score(const mal_worker *w, const mal_plan *plan, double step_s, double gemm_s, int64_t bytes) {
  double mtokens = w->tokens / 1e6, hours = step_s / 3600;
  switch (w->options->objective) {
  case MAL_BEST_COST: {
    double usd_per_hour = mal_usd_per_gpu_hour(plan) * (double)mal_machine_gpus(&plan->machine);
    if (plan->job.usd_per_kwh > 0) usd_per_hour += plan->job.usd_per_kwh * least_kw(plan, step_s, gemm_s);
    return usd_per_hour > 0 ? usd_per_hour * hours / mtokens : step_s;
  }
  case MAL_BEST_ENERGY: return least_kw(plan, step_s, gemm_s) * hours / mtokens;
  case MAL_BEST_MEMORY: return (double)bytes;
  default: return step_s;
  }
}

double mal_fit_wanted(const mal_search_options *o) {
  return o->fit_probability > 0 ? o->fit_probability : mal_fit_confidence;
}

bool mal_fits_well(const mal_search_options *o, const mal_estimate *e) {
  return e->host_fits && e->nvme_fits && e->fit_probability >= mal_fit_wanted(o);
}
