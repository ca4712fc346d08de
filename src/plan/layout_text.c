/* A layout in as few words as give it back, seen from its plan. */
#include "plan/plan.h"
#include <string.h>

bool mal_layout_equal(const mal_layout *x, const mal_layout *y) {
  for (int i = 0; i < mal_layout_option_count; i++)
    if (!mal_option_same(&mal_layout_options[i], x, y)) return false;
  return true;
}

static bool completes_to(mal_arena *a, const mal_plan *p, const mal_layout *short_one) {
  mal_layout l = *short_one;
  mal_job job = p->job;
  mal_error ignored;
  job.accumulation = 0;
  return mal_layout_complete(a, &p->model, &p->machine, p->profile, &job, &l, NULL, &ignored) == MAL_OK &&
         mal_layout_equal(&l, &p->layout);
}

/* Defaults of these differ from framework to framework more than a reader keeps in mind. */
static bool always_said(const mal_option *o) {
  return strcmp(o->name, "zero") == 0 || strcmp(o->name, "micro-batch") == 0;
}

char *mal_plan_layout(mal_arena *a, const mal_plan *p) {
  mal_arena scratch;
  mal_layout plain, now = p->layout;
  mal_arena_init(&scratch);
  mal_layout_default(&plain);
  for (int i = 0; i < mal_layout_option_count; i++) {
    const mal_option *o = &mal_layout_options[i];
    mal_layout shorter = now;
    if (always_said(o)) continue;
    mal_option_copy(o, &shorter, &plain);
    if (completes_to(&scratch, p, &shorter)) now = shorter;
  }
  mal_arena_free(&scratch);
  return mal_layout_show(a, &now);
}
