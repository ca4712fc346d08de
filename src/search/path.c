#include "search/path.h"
#include <string.h>

enum { GROUPS = 32, MEMBERS = 4 };

/* Options that mean something only together. */
static const char *const bound[][MEMBERS] = {
    {"recompute", "recompute-layers"},
    {"schedule", "vpp"},
    {"tp", "sequence-parallel", "etp"},
    {"zero", "hybrid"},
    {"first-stage-layers", "last-stage-layers", "embedding-in-layers"},
};
enum { BOUND = sizeof bound / sizeof *bound };

typedef struct walk {
  mal_arena *a;
  const mal_plan *to;
  int group_of[64]; /* of each option of a layout; -1: it does not differ */
  int groups;
  bool done[GROUPS];
} walk;

static int partner(const char *name) {
  for (int i = 0; i < BOUND; i++)
    for (int k = 0; k < MEMBERS && bound[i][k]; k++)
      if (strcmp(bound[i][k], name) == 0) return i;
  return -1;
}

/* dp follows from the others. */
static bool follows(const mal_option *o) { return strcmp(o->name, "dp") == 0; }

static void find_groups(walk *w, const mal_plan *from) {
  int of_bound[BOUND];
  memset(of_bound, -1, sizeof of_bound);
  for (int i = 0; i < mal_layout_option_count; i++) {
    const mal_option *o = &mal_layout_options[i];
    w->group_of[i] = -1;
    if (follows(o) || mal_option_same(o, &from->layout, &w->to->layout) || w->groups >= GROUPS) continue;
    int b = partner(o->name);
    if (b >= 0 && of_bound[b] >= 0) {
      w->group_of[i] = of_bound[b];
      continue;
    }
    w->group_of[i] = w->groups++;
    if (b >= 0) of_bound[b] = w->group_of[i];
  }
}

static char *value_words(mal_arena *a, const mal_option *o, const mal_layout *l) {
  const char *field = (const char *)l + o->offset;
  if (o->kind == MAL_OPT_CHOICE) return mal_copy(a, *(const int *)field < 0 ? "auto" : o->choices[*(const int *)field]);
  if (o->kind == MAL_OPT_FLAG) return mal_copy(a, *(const bool *)field ? "on" : "off");
  int64_t n = *(const int64_t *)field;
  if (n == 0 && strcmp(o->name, "hybrid") == 0) return mal_copy(a, _("all"));
  return n < 0 ? mal_copy(a, strcmp(o->name, "recompute-layers") == 0 ? _("all") : _("even"))
               : mal_print(a, "%lld", (long long)n);
}

/* The plan with the options of the groups in `mask` as they are at the end. MAL_OK: it can be lowered. */
static mal_status change(walk *w, const mal_plan *now, uint32_t mask, mal_stride *s, mal_error *e) {
  mal_program program;
  s->plan = *now;
  s->plan.asked_layout = now->layout;
  s->plan.asked_job = now->job;
  s->plan.asked_job.accumulation = 0;
  s->plan.asked_layout.dp = 0;
  s->change = "";
  for (int i = 0; i < mal_layout_option_count; i++) {
    const mal_option *o = &mal_layout_options[i];
    if (w->group_of[i] < 0 || !(mask >> w->group_of[i] & 1)) continue;
    mal_option_copy(o, &s->plan.asked_layout, &w->to->layout);
    bool idle = strcmp(o->name, "etp") == 0 && !mal_model_has_experts(&now->model);
    if (idle || mal_option_same(o, &now->layout, &w->to->layout)) continue;
    s->change = mal_print(w->a, "%s%s%s %s %s %s", s->change, *s->change ? "; " : "", o->name,
                          value_words(w->a, o, &now->layout), _("to"), value_words(w->a, o, &w->to->layout));
  }
  mal_status status = mal_plan_complete(w->a, &s->plan, e);
  if (status == MAL_OK) status = mal_lower(w->a, &s->plan, &program, e);
  return status == MAL_OK ? mal_price(w->a, &program, &s->estimate, e) : status;
}

/* Less is better: what fits goes before what does not, and there memory counts. */
static bool better(const mal_estimate *x, const mal_estimate *y) {
  if (x->fits != y->fits) return x->fits;
  if (!x->fits && x->total_bytes != y->total_bytes) return x->total_bytes < y->total_bytes;
  return x->step_s < y->step_s;
}

static void consider(walk *w, const mal_plan *now, uint32_t mask, mal_stride *best, uint32_t *taken) {
  mal_stride s;
  mal_error ignored;
  if (change(w, now, mask, &s, &ignored) != MAL_OK) return;
  if (*taken && !better(&s.estimate, &best->estimate)) return;
  *best = s;
  *taken = mask;
}

/* The change that brings most: one, else two that only work together, else all that are left. */
static mal_status next(walk *w, const mal_plan *now, const mal_estimate *estimate, mal_stride *best, uint32_t *taken,
                       mal_error *e) {
  uint32_t all = 0;
  *taken = 0;
  for (int i = 0; i < w->groups; i++)
    if (!w->done[i]) {
      all |= UINT32_C(1) << i;
      consider(w, now, UINT32_C(1) << i, best, taken);
    }
  if (*taken && better(&best->estimate, estimate)) return MAL_OK;
  for (int i = 0; i < w->groups; i++)
    for (int k = i + 1; k < w->groups; k++)
      if (!w->done[i] && !w->done[k]) consider(w, now, UINT32_C(1) << i | UINT32_C(1) << k, best, taken);
  if (*taken && better(&best->estimate, estimate)) return MAL_OK;
  *taken = all;
  return change(w, now, all, best, e);
}

mal_status mal_search_path(mal_arena *a, const mal_plan *from, const mal_estimate *estimate, const mal_plan *to,
                           mal_stride **steps, int *count, mal_error *e) {
  walk w = {.a = a, .to = to};
  find_groups(&w, from);
  mal_stride *all = MAL_ARRAY(a, mal_stride, w.groups + 1);
  const mal_plan *now = from;
  mal_status s = MAL_OK;
  int n = 0;
  for (int left = w.groups; left > 0 && s == MAL_OK;) {
    uint32_t taken;
    s = next(&w, now, estimate, &all[n], &taken, e);
    for (int i = 0; i < w.groups; i++)
      if (taken >> i & 1) {
        w.done[i] = true;
        left--;
      }
    now = &all[n].plan;
    estimate = &all[n++].estimate;
  }
  *steps = all;
  *count = n;
  return s;
}
