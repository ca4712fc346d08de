/* From the time of a step to what the user asked: does it fit, how fast, how long, how much. */
#include "price/compose.h"
#include "price/power.h"
#include "price/risk.h"
#include "price/upkeep.h"
#include <math.h>
#include <string.h>

/* Interval classes, where a profile has no width of its own: 80th percentile of |log(predicted / measured)|
 * on sources left out of the fit (bench/fit). */
typedef struct interval_row {
  const char *name;
  double half_width;
} interval_row;
static const interval_row dense_class = {N_("dense"), 0.17}, moe_class = {N_("mixture of experts"), 0.26},
                          host_class = {N_("host-bound"), 0.45}; /* .34 to .56 in two variants of the model */
static const double host_bound = 0.7; /* host over GPU time from which the host's speed decides */

void mal_price_memory(const mal_program *p, mal_estimate *out) {
  const mal_machine *m = &p->plan->machine;
  const mal_stage *worst = &p->stages[p->worst_stage];
  int64_t host = 0, drives = 0;
  for (int64_t s = 0; s < p->plan->layout.pp; s++) {
    if (p->stages[s].host_bytes > host) host = p->stages[s].host_bytes;
    if (p->stages[s].nvme_bytes > drives) drives = p->stages[s].nvme_bytes;
  }
  out->worst_stage = p->worst_stage;
  out->limit_bytes = (int64_t)m->gpu->memory_bytes.value;
  out->total_bytes = worst->total_bytes;
  memcpy(out->memory_bytes, worst->memory_bytes, sizeof out->memory_bytes);
  double ranks = (double)m->gpus_per_node, ram = m->node->ram_bytes.value, nvme = m->node->nvme_bytes.value;
  out->host_fits = host == 0 || (double)host * ranks <= ram;
  out->nvme_fits = drives == 0 || (double)drives * ranks <= nvme;
  const mal_profile *profile = p->plan->profile;
  out->fit_probability = mal_fit_probability(profile, (double)out->total_bytes, (double)out->limit_bytes);
  out->memory_interval.low = mal_memory_quantile(profile, (double)out->total_bytes, 0.1);
  out->memory_interval.high = mal_memory_quantile(profile, (double)out->total_bytes, 0.9);
  if (!out->host_fits || !out->nvme_fits) out->fit_probability = 0;
  out->within = out->total_bytes <= out->limit_bytes && out->host_fits && out->nvme_fits;
  out->fits = out->within && out->fit_probability >= mal_fit_confidence;
}

static void set_interval(const mal_plan *plan, const mal_step_time *step, mal_estimate *out) {
  bool experts = mal_model_has_experts(&plan->model);
  const interval_row *row = experts ? &moe_class : &dense_class;
  if (step->host_s > host_bound * step->gpu_s) row = &host_class;
  double known = experts ? plan->profile->interval_moe : plan->profile->interval;
  double half = known > 0 ? known : row->half_width;
  out->interval_class = known > 0 ? plan->profile->name : row->name;
  out->step_interval.low = out->step_s * exp(-half);
  out->step_interval.high = out->step_s * exp(half);
}

static double product_peak(const mal_plan *plan) {
  const mal_gpu *g = plan->machine.gpu;
  double peak = g->flops[mal_precision_gemm((mal_precision)plan->job.precision)].value;
  if (peak <= 0) peak = g->flops[MAL_BF16].value;
  return peak > 0 ? peak : g->flops[MAL_F32].value;
}

static void set_rates(const mal_program *p, mal_estimate *out) {
  const mal_plan *plan = p->plan;
  double gpus = (double)mal_layout_world(&plan->layout), peak = product_peak(plan);
  out->tokens_per_s = (double)plan->job.global_batch * (double)plan->job.seq / out->step_s;
  out->model_flops_per_s_per_gpu = p->model_flops / out->step_s / gpus;
  if (peak <= 0) return;
  out->mfu = out->model_flops_per_s_per_gpu / peak;
  out->hfu = p->hardware_flops / out->step_s / gpus / peak;
}

double mal_usd_per_gpu_hour(const mal_plan *plan) {
  if (plan->job.usd_per_gpu_hour >= 0) return plan->job.usd_per_gpu_hour;
  return plan->machine.node->gpus > 0 ? plan->machine.node->usd_per_hour.value / (double)plan->machine.node->gpus : 0;
}

static void set_target(const mal_plan *plan, mal_estimate *out) {
  double gpus = (double)mal_machine_gpus(&plan->machine), useful = out->tokens_per_s * out->goodput;
  double kw = out->power_w / 1000 * (plan->job.pue > 0 ? plan->job.pue : 1);
  double usd_per_hour =
      mal_usd_per_gpu_hour(plan) * gpus + (plan->job.usd_per_kwh > 0 ? plan->job.usd_per_kwh * kw : 0);
  if (useful <= 0) return;
  double hours_per_mtoken = 1e6 / useful / 3600;
  out->usd_per_mtoken = usd_per_hour * hours_per_mtoken;
  out->kwh_per_mtoken = kw * hours_per_mtoken;
  if (plan->job.tokens <= 0) return;
  out->tokens_to_target = (double)plan->job.tokens;
  out->time_to_target_s = out->tokens_to_target / useful;
  double hours = out->time_to_target_s / 3600;
  out->gpu_hours = gpus * hours;
  out->energy_kwh = kw * hours;
  out->cost_usd = usd_per_hour * hours;
}

/* --- one line -------------------------------------------------------------------------------------------------------- */

static int largest(const double *x, int from, int count) {
  int at = from;
  for (int i = from; i < count; i++)
    if (x[i] > x[at]) at = i;
  return at;
}

static char *why_not(mal_arena *a, const mal_estimate *e, int64_t pp) {
  int64_t most = 0;
  int cause = 0;
  for (int c = 0; c < MAL_MEM_CAUSES; c++)
    if (e->memory_bytes[c] > most) most = e->memory_bytes[c], cause = c;
  if (e->total_bytes > e->limit_bytes) {
    const char *who = pp > 1 ? mal_print(a, _("stage %d of %lld"), e->worst_stage + 1, (long long)pp) : _("every GPU");
    return mal_print(a, _("%s needs %.1f GiB of %.1f GiB; the largest part is %s, %.1f GiB"), who,
                     (double)e->total_bytes / 0x1p30, (double)e->limit_bytes / 0x1p30, _(mal_memory_name[cause]),
                     (double)most / 0x1p30);
  }
  return mal_copy(a, e->host_fits ? _("what is offloaded is larger than the node's drives")
                                  : _("what is offloaded is larger than the node's memory"));
}

static char *why(mal_arena *a, const mal_estimate *e, int64_t pp) {
  if (!e->within) return why_not(a, e, pp);
  int first = largest(e->time_s, 0, MAL_TIME_CAUSES), second = -1;
  for (int c = 0; c < MAL_TIME_CAUSES; c++)
    if (c != first && (second < 0 || e->time_s[c] > e->time_s[second])) second = c;
  return mal_print(a, _("%.0f %% of the step is %s, %.0f %% %s"), 100 * e->time_s[first] / e->step_s,
                   _(mal_time_words[first]), 100 * e->time_s[second] / e->step_s, _(mal_time_words[second]));
}

mal_status mal_price(mal_arena *a, const mal_program *p, mal_estimate *out, mal_error *e) {
  mal_step_time step;
  *out = (mal_estimate){0};
  mal_status status = mal_compose(a, p, NULL, &step, e);
  if (status != MAL_OK) return status;
  mal_upkeep upkeep = mal_upkeep_of(p);
  mal_upkeep_add(&upkeep, &step);
  if (!(step.step_s > 0) || !isfinite(step.step_s) || !isfinite(upkeep.goodput))
    return mal_fail(e, MAL_BAD, _("the step takes %g s: some number of %s is missing or not finite"), step.step_s,
                    p->plan->machine.name);
  mal_price_memory(p, out);
  out->step_s = step.step_s;
  memcpy(out->time_s, step.time_s, sizeof out->time_s);
  out->bubble_fraction = out->time_s[MAL_TIME_BUBBLE] / out->step_s;
  set_rates(p, out);
  set_interval(p->plan, &step, out);
  out->power_w = mal_power_w(&p->plan->machine, out->time_s, out->step_s);
  out->goodput = upkeep.goodput;
  set_target(p->plan, out);
  out->why = why(a, out, p->plan->layout.pp);
  return MAL_OK;
}
