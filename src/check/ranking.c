#include "check/ranking.h"
#include "check/statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const double mal_failed_regret = 1;

/* --- rank correlation --------------------------------------------------------------------------------------------- */

static double rank_of(const double *x, int n, double value) {
  int below = 0, same = 0;
  for (int i = 0; i < n; i++) {
    below += x[i] < value;
    same += x[i] == value;
  }
  return below + (same - 1) / 2.0;
}

double mal_spearman(mal_arena *a, const double *x, const double *y, int n) {
  double *rx = MAL_ARRAY(a, double, n + 1), *ry = MAL_ARRAY(a, double, n + 1);
  double middle = (n - 1) / 2.0, xy = 0, xx = 0, yy = 0;
  for (int i = 0; i < n; i++) {
    rx[i] = rank_of(x, n, x[i]) - middle;
    ry[i] = rank_of(y, n, y[i]) - middle;
    xy += rx[i] * ry[i];
    xx += rx[i] * rx[i];
    yy += ry[i] * ry[i];
  }
  return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

static bool same_model(const mal_trial *x, const mal_trial *y) {
  return !strcmp(x->model_name, y->model_name) && x->layers == y->layers && x->hidden == y->hidden &&
         x->ffn == y->ffn && x->heads == y->heads && x->kv_heads == y->kv_heads && x->vocab == y->vocab &&
         x->experts == y->experts && x->top_k == y->top_k && x->gated == y->gated && x->params == y->params;
}

static bool same_job(const mal_trial *x, const mal_trial *y) {
  return x->gpus == y->gpus && x->gpus_per_node == y->gpus_per_node && x->global_batch == y->global_batch &&
         x->seq == y->seq && x->flash == y->flash && !strcmp(x->gpu, y->gpu) && !strcmp(x->internode, y->internode) &&
         !strcmp(x->precision, y->precision) && !strcmp(x->train_mode, y->train_mode) &&
         !strcmp(x->mixed_precision, y->mixed_precision);
}

static bool same_software(const mal_judged *x, const mal_judged *y) {
  const mal_trial *t = x->row->trial, *u = y->row->trial;
  return !strcmp(x->row->family, y->row->family) && !strcmp(t->source, u->source) && !strcmp(t->year, u->year) &&
         !strcmp(t->framework, u->framework) && !strcmp(t->kernels, u->kernels);
}

static bool same_group(const mal_judged *x, const mal_judged *y) {
  const mal_trial *t = x->row->trial, *u = y->row->trial;
  return same_software(x, y) && same_model(t, u) && same_job(t, u);
}

static bool same_layout(const mal_judged *x, const mal_judged *y) {
  return mal_layout_equal(&x->row->plan->layout, &y->row->plan->layout) &&
         !strcmp(x->row->trial->offload, y->row->trial->offload);
}

static int layouts(const mal_judged *const *members, int n) {
  int different = 0;
  for (int i = 0; i < n; i++) {
    int k = 0;
    while (k < i && !same_layout(members[k], members[i])) k++;
    different += k == i;
  }
  return different;
}

static const char *name_of(mal_arena *a, const mal_judged *j) {
  const mal_trial *t = j->row->trial;
  return mal_print(a, "%s: %s, %lld x %s, batch %lld x %lld%s%s%s%s", j->row->family, t->model_name, (long long)t->gpus,
                   t->gpu, (long long)t->global_batch, (long long)t->seq, *t->kernels ? ", " : "", t->kernels,
                   *t->mixed_precision ? ", " : "", t->mixed_precision);
}

/* --- one group ---------------------------------------------------------------------------------------------------- */

static bool by_prediction(const mal_judged *x, const mal_judged *y) {
  bool sure = x->fit_probability >= mal_fit_confidence, other = y->fit_probability >= mal_fit_confidence;
  if (sure != other) return sure;
  return sure ? x->predicted_s < y->predicted_s : x->fit_probability > y->fit_probability;
}

static void sort(const mal_judged **x, int n) {
  for (int i = 1; i < n; i++) {
    const mal_judged *moved = x[i];
    int k = i;
    for (; k > 0 && by_prediction(moved, x[k - 1]); k--) x[k] = x[k - 1];
    x[k] = moved;
  }
}

static double regret_of(const mal_judged *pick, const mal_judged *best) {
  return pick->measured_from ? pick->measured_s / best->measured_s - 1 : mal_failed_regret;
}

static void choose(mal_rank_group *g, const mal_judged **members, int n) {
  double step_s[MAL_TO_MEASURE];
  int sure = 0;
  sort(members, n);
  g->pick = members[0];
  g->failed = !g->pick->measured_from;
  g->regret = regret_of(g->pick, g->best);
  for (; sure < n && sure < MAL_TO_MEASURE && members[sure]->fit_probability >= mal_fit_confidence; sure++)
    step_s[sure] = members[sure]->predicted_s;
  g->n_close = mal_too_close((mal_interval){g->pick->low_s, g->pick->high_s}, step_s, sure);
  g->regret_close = g->regret;
  for (int i = 0; i < g->n_close; i++) {
    g->close[i] = members[i];
    g->regret_close = fmin(g->regret_close, regret_of(members[i], g->best));
  }
}

static void measure(mal_arena *a, mal_rank_group *g, const mal_judged *const *members) {
  double *predicted = MAL_ARRAY(a, double, g->n), *measured = MAL_ARRAY(a, double, g->n);
  g->best = members[0];
  for (int i = 0; i < g->n; i++) {
    predicted[i] = members[i]->predicted_s;
    measured[i] = members[i]->measured_s;
    if (measured[i] < g->best->measured_s) g->best = members[i];
  }
  g->spearman = mal_spearman(a, predicted, measured, g->n);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static int by_regret(const void *x, const void *y) {
  double a = ((const mal_rank_group *)x)->regret, b = ((const mal_rank_group *)y)->regret;
  return (a < b) - (a > b);
}

mal_rank_summary mal_rank_summarise(mal_arena *a, const mal_rank_group *const *groups, int n) {
  mal_sample *regret = MAL_ARRAY(a, mal_sample, n + 1);
  mal_rank_summary s = {.n = n, .spearman_least = 1};
  for (int i = 0; i < n; i++) {
    const mal_rank_group *g = groups[i];
    regret[i] = (mal_sample){g->regret, 1};
    s.n_failed += g->failed;
    s.spearman_mean += g->spearman / n;
    s.spearman_least = fmin(s.spearman_least, g->spearman);
    s.regret_mean += g->regret / n;
    s.regret_close_mean += g->regret_close / n;
    s.regret_max = fmax(s.regret_max, g->regret);
  }
  s.regret_p90 = mal_weighted_quantile(regret, n, 0.9);
  return s;
}

static bool timed(const mal_judged *j) { return !j->skipped && j->measured_from; }

void mal_rank(mal_arena *a, const mal_judged *runs, int n_runs, const mal_judged *oom, int n_oom, mal_ranking *r) {
  const mal_judged **members = MAL_ARRAY(a, const mal_judged *, n_runs + n_oom + 1);
  bool *taken = MAL_ARRAY(a, bool, n_runs + 1);
  *r = (mal_ranking){.groups = MAL_ARRAY(a, mal_rank_group, n_runs / MAL_RANK_LEAST + 1)};
  for (int i = 0; i < n_runs; i++) {
    mal_rank_group g = {0};
    if (taken[i] || !timed(&runs[i])) continue;
    for (int k = i; k < n_runs; k++)
      if (!taken[k] && timed(&runs[k]) && same_group(&runs[i], &runs[k])) {
        members[g.n++] = &runs[k];
        taken[k] = true;
      }
    if (layouts(members, g.n) < MAL_RANK_LEAST) continue;
    for (int k = 0; k < n_oom; k++)
      if (!oom[k].skipped && same_group(&runs[i], &oom[k])) members[g.n + g.n_oom++] = &oom[k];
    g.name = name_of(a, &runs[i]);
    measure(a, &g, members);
    choose(&g, members, g.n + g.n_oom);
    r->groups[r->n++] = g;
  }
  qsort(r->groups, (size_t)r->n, sizeof *r->groups, by_regret);
}
