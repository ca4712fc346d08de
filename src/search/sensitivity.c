#include "search/sensitivity.h"
#include "search/worker.h"

const char *const mal_if_name[] = {"nic", "nvlink", "memory-speed", "memory", "half-batch", "twice-batch"};
_Static_assert(sizeof mal_if_name / sizeof *mal_if_name == MAL_IFS, "a name for each");

static const double rounding = 1e-6;

/* The plan's machine in copies of its own, to be changed. */
static void own_machine(mal_arena *a, mal_plan *p) {
  mal_gpu *gpu = MAL_NEW(a, mal_gpu);
  mal_node *node = MAL_NEW(a, mal_node);
  *gpu = *p->machine.gpu, *node = *p->machine.node;
  p->machine.gpu = gpu, p->machine.node = node;
}

/* The value of the machine that grows; NULL: it plays no part. */
static mal_value *value_of(mal_plan *p, mal_if what) {
  mal_machine *m = &p->machine;
  bool apart = mal_machine_gpus(m) > mal_machine_domain(m);
  switch (what) {
  case MAL_IF_NIC: return apart && m->nodes > 1 ? &m->node->nic_bytes_per_s : NULL;
  case MAL_IF_NVLINK: return mal_machine_gpus(m) > 1 && m->node->nvlink_domain > 1 ? &m->gpu->nvlink_bytes_per_s : NULL;
  case MAL_IF_MEMORY_SPEED: return &m->gpu->memory_bytes_per_s;
  default: return &m->gpu->memory_bytes;
  }
}

static mal_status price(mal_arena *a, mal_plan *p, mal_estimate *estimate, mal_error *e) {
  mal_program program;
  mal_status status = mal_plan_complete(a, p, e);
  if (status == MAL_OK) status = mal_lower(a, p, &program, e);
  return status == MAL_OK ? mal_price(a, &program, estimate, e) : status;
}

static void set(const mal_choice *best, const mal_plan *p, const mal_estimate *e, mal_what_if *x) {
  *x = (mal_what_if){.known = true, .tokens_per_s = e->tokens_per_s, .plan = *p};
  x->gain = e->tokens_per_s / best->estimate.tokens_per_s - 1;
  x->same_layout = mal_layout_equal(&p->layout, &best->plan.layout);
}

/* asked: what was asked, with one thing changed. Never worse than the layout of now, where that still fits. */
static mal_status search_again(mal_arena *a, const mal_choice *best, const mal_plan *asked, const mal_search_options *o,
                               mal_what_if *x, mal_error *e) {
  mal_search_options again = *o;
  mal_search_result r;
  mal_estimate now;
  mal_plan same = *asked;
  const mal_layout *l = &best->plan.layout;
  mal_status status = price(a, &same, &now, e);
  if (status == MAL_FAULT) return status;
  bool fits = status == MAL_OK && mal_fits_well(o, &now);
  again.keep = 1, again.no_nearest = true;
  if (fits) again.most_score = mal_score(o->objective, &now) * (1 + rounding);
  again.fix = mal_print(a, "%s%stp=%lld,cp=%lld,ep=%lld,etp=%lld", o->fix ? o->fix : "", o->fix ? "," : "",
                        (long long)l->tp, (long long)l->cp, (long long)l->ep, (long long)l->etp);
  status = mal_search(a, asked, &again, &r, e);
  if (status == MAL_BAD) return MAL_OK; /* no such batch splits */
  if (status != MAL_OK) return status;
  if (r.count)
    set(best, &r.best[0].plan, &r.best[0].estimate, x);
  else if (fits)
    set(best, &same, &now, x);
  return MAL_OK;
}

static mal_status what_if(mal_arena *a, const mal_choice *best, const mal_search_options *o, mal_if what,
                          mal_what_if *x, mal_error *e) {
  mal_plan p = best->plan;
  mal_estimate then;
  int64_t *batch = &p.asked_job.global_batch;
  *batch = best->plan.job.global_batch;
  own_machine(a, &p);
  if (what == MAL_IF_HALF_BATCH || what == MAL_IF_TWICE_BATCH) {
    if (what == MAL_IF_HALF_BATCH && *batch % 2) return MAL_OK;
    if (p.asked_job.accumulation) return MAL_OK; /* it says what the batch is */
    *batch = what == MAL_IF_HALF_BATCH ? *batch / 2 : *batch * 2;
    return search_again(a, best, &p, o, x, e);
  }
  mal_value *value = value_of(&p, what);
  if (!value || value->value <= 0) return MAL_OK;
  value->value *= 1 + mal_if_more;
  if (what == MAL_IF_MEMORY) return search_again(a, best, &p, o, x, e);
  mal_status status = price(a, &p, &then, e);
  if (status == MAL_OK) set(best, &p, &then, x);
  return status;
}

mal_status mal_what_ifs(mal_arena *a, const mal_choice *best, const mal_search_options *o, mal_what_if out[MAL_IFS],
                        mal_error *e) {
  mal_status status = MAL_OK;
  for (int i = 0; i < MAL_IFS && status == MAL_OK; i++) {
    out[i] = (mal_what_if){0};
    status = what_if(a, best, o, (mal_if)i, &out[i], e);
  }
  return status;
}
