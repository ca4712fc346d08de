#include "engine/choose.h"
#include "price/price.h"
#include <math.h>

typedef struct choice {
  bool found, possible;
  mal_layout layout;
  double step_s;
} choice;

static void consider(const char *model, const char *machine, const char *profile, const mal_job *job,
                     const mal_layout *layout, choice *best, mal_error *e) {
  mal_arena a;
  mal_arena_init(&a);
  mal_plan *plan = MAL_NEW(&a, mal_plan);
  mal_program *program = MAL_NEW(&a, mal_program);
  mal_estimate *estimate = MAL_NEW(&a, mal_estimate);
  mal_status status = mal_plan_make(&a, model, machine, profile, job, layout, plan, e);
  if (!status) status = mal_engine_check(plan, e);
  if (!status) status = mal_lower(&a, plan, program, e);
  if (!status) status = mal_price(&a, program, estimate, e);
  if (!status) {
    best->possible = true;
    if (estimate->fits && (!best->found || estimate->step_s < best->step_s * (1 - 1e-9)))
      *best = (choice){true, true, *layout, estimate->step_s};
  }
  mal_arena_free(&a);
}

mal_status mal_engine_choose(mal_arena *a, const char *model, const char *machine, const char *profile,
                             const mal_job *job, const mal_layout *asked, mal_plan *plan, mal_error *e) {
  mal_machine m;
  mal_status status = mal_machine_load(a, machine, &m, e);
  if (status) return status;
  int64_t ranks = mal_machine_gpus(&m);
  choice best = {0};
  mal_error last = {0};
  for (int64_t tp = 1; tp <= ranks; tp++)
    for (int64_t pp = 1; ranks % tp == 0 && pp <= ranks / tp; pp++) {
      if (ranks / tp % pp) continue;
      mal_layout l = *asked;
      l.tp = tp, l.pp = pp, l.dp = ranks / tp / pp;
      consider(model, machine, profile, job, &l, &best, &last);
    }
  if (best.found) return mal_plan_make(a, model, machine, profile, job, &best.layout, plan, e);
  if (best.possible)
    return mal_fail(e, MAL_NO,
                    _("No split over %lld ranks fits the memory of %s. Fewer ranks, a smaller --global-batch, "
                      "--seq or model, or --recompute full would need less."),
                    (long long)ranks, machine);
  *e = last;
  return MAL_BAD;
}
