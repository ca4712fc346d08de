#include "check/validate.h"
#include "check/statistics.h"
#include <math.h>
#include <string.h>

const char *const mal_by_name[MAL_BYS + 1] = {"family", "gpu", "model", "framework", NULL};

/* --- one row ------------------------------------------------------------------------------------------------------ */

/* Defaults that change the program; the others (network speed, precision of fp8's kind, etp) hardly do. */
static bool fully_specified(const mal_row *row) {
  static const char *const blanks[] = {
      "recompute=", "vpp=", "micro-batch=", "tp=", "pp=", "flash=", "layers=", "heads=", "precision="};
  for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
    const char *at = strstr(row->defaults, blanks[i]);
    if (at && (at == row->defaults || at[-1] == ' ')) return false;
  }
  return true;
}

/* The part of the predicted bytes that the row's memory column counts. */
static double counted_bytes(const mal_row *row, const mal_estimate *x) {
  double bytes = (double)x->total_bytes;
  if (row->memory_kind != MAL_MEMORY_ALL)
    bytes -= (double)(x->memory_bytes[MAL_MEM_CONTEXT] + x->memory_bytes[MAL_MEM_COMMUNICATORS]);
  if (row->memory_kind == MAL_MEMORY_ALLOCATED) bytes -= (double)x->memory_bytes[MAL_MEM_SLACK];
  return bytes;
}

void mal_judge(mal_arena *scratch, const mal_row *row, mal_judged *j) {
  mal_error e = {0};
  mal_program program;
  mal_estimate x = {0};
  *j = (mal_judged){.row = row, .skipped = row->skipped};
  if (j->skipped) return;
  if (mal_lower(scratch, row->plan, &program, &e) != MAL_OK || mal_price(scratch, &program, &x, &e) != MAL_OK) {
    j->skipped = mal_copy(scratch, e.text);
    return;
  }
  j->predicted_s = x.step_s;
  j->low_s = x.step_interval.low;
  j->high_s = x.step_interval.high;
  j->fits = x.within;
  j->fit_probability = x.fit_probability;
  j->total_bytes = (double)x.total_bytes;
  j->limit_bytes = (double)x.limit_bytes;
  j->interval_class = x.interval_class;
  j->why = x.why;
  j->dense_specified = !mal_model_has_experts(&row->plan->model) && fully_specified(row);
  memcpy(j->time_s, x.time_s, sizeof j->time_s);
  memcpy(j->memory_bytes, x.memory_bytes, sizeof j->memory_bytes);
  if (mal_measured_step(row, &j->measured_s, &j->measured_from)) j->error = j->predicted_s / j->measured_s - 1;
  j->measured_bytes = row->trial->peak_bytes * row->memory_scale;
  j->predicted_bytes = counted_bytes(row, &x);
  if (j->measured_bytes > 0) j->memory_error = j->predicted_bytes / j->measured_bytes - 1;
}

static void judge_all(mal_arena *a, const mal_rows *rows, bool needs_measure, mal_judged **judged) {
  mal_arena scratch;
  *judged = MAL_ARRAY(a, mal_judged, rows->count > 0 ? rows->count : 1);
  mal_arena_init(&scratch);
  for (int i = 0; i < rows->count; i++) {
    mal_judged *j = &(*judged)[i];
    mal_judge(&scratch, &rows->rows[i], j);
    if (j->skipped && j->skipped != rows->rows[i].skipped) j->skipped = mal_copy(a, j->skipped);
    if (j->why) j->why = mal_copy(a, j->why);
    if (j->interval_class) j->interval_class = mal_copy(a, j->interval_class);
    if (needs_measure && !j->skipped && !j->measured_from && !(j->measured_bytes > 0)) j->skipped = _("no speed");
    mal_arena_reset(&scratch);
  }
  mal_arena_free(&scratch);
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

static const char *group_name(const mal_judged *j, mal_by by) {
  const mal_trial *t = j->row->trial;
  const char *name = by == MAL_BY_FAMILY  ? j->row->family
                     : by == MAL_BY_GPU   ? t->gpu
                     : by == MAL_BY_MODEL ? t->model_name
                                          : t->framework;
  return *name ? name : "(blank)";
}

static void weigh(mal_judged *judged, int count) {
  for (int i = 0; i < count; i++) {
    int same = 0;
    if (judged[i].skipped || !judged[i].measured_from || judged[i].weight > 0) continue;
    for (int k = i; k < count; k++)
      same += !judged[k].skipped && judged[k].measured_from && !strcmp(judged[k].row->family, judged[i].row->family);
    for (int k = i; k < count; k++)
      if (!judged[k].skipped && judged[k].measured_from && !strcmp(judged[k].row->family, judged[i].row->family))
        judged[k].weight = 1.0 / same;
  }
}

typedef double judged_value(const mal_judged *j);
typedef bool judged_filter(const mal_judged *j);
static double value_error(const mal_judged *j) { return j->error; }
static double value_abs_error(const mal_judged *j) { return fabs(j->error); }
static double value_covered(const mal_judged *j) { return j->measured_s >= j->low_s && j->measured_s <= j->high_s; }
static double value_width(const mal_judged *j) { return (j->high_s - j->low_s) / j->predicted_s; }
static double value_memory(const mal_judged *j) { return j->memory_error; }
static double value_abs_memory(const mal_judged *j) { return fabs(j->memory_error); }
static double value_fits(const mal_judged *j) { return j->fits; }
static double value_not_fits(const mal_judged *j) { return !j->fits; }
static bool has_speed(const mal_judged *j) { return j->measured_from != NULL; }
static bool has_memory(const mal_judged *j) { return j->measured_bytes > 0; }
static bool has_speed_specified(const mal_judged *j) { return j->measured_from && j->dense_specified; }
static bool any(const mal_judged *j) { return j != NULL; }

typedef struct selection {
  const mal_judged *judged;
  int count;
  mal_by by;
  const char *group; /* NULL: all */
} selection;

static int collect(const selection *s, judged_filter *filter, judged_value *value, bool weighted, mal_sample *into) {
  int n = 0;
  for (int i = 0; i < s->count; i++) {
    const mal_judged *j = &s->judged[i];
    if (j->skipped || !filter(j) || (s->group && strcmp(group_name(j, s->by), s->group))) continue;
    into[n++] = (mal_sample){value(j), weighted ? j->weight : 1};
  }
  return n;
}

static int skipped_in(const selection *s) {
  int n = 0;
  for (int i = 0; i < s->count; i++)
    n += s->judged[i].skipped && (!s->group || !strcmp(group_name(&s->judged[i], s->by), s->group));
  return n;
}

/* Memory rows are weighted by family too, by their own count. */
static void weigh_memory(const selection *s, mal_sample *x, int n) {
  int at = 0;
  for (int i = 0; i < s->count; i++) {
    const mal_judged *j = &s->judged[i];
    if (j->skipped || !has_memory(j) || (s->group && strcmp(group_name(j, s->by), s->group))) continue;
    int same = 0;
    for (int k = 0; k < s->count; k++)
      same += !s->judged[k].skipped && has_memory(&s->judged[k]) && !strcmp(s->judged[k].row->family, j->row->family);
    if (at < n) x[at++].weight = 1.0 / same;
  }
}

static mal_rank_summary summarise_ranks(mal_arena *a, const mal_ranking *r, const selection *s) {
  const mal_rank_group **groups = MAL_ARRAY(a, const mal_rank_group *, r->n + 1);
  int n = 0;
  for (int i = 0; i < r->n; i++)
    if (!s->group || !strcmp(group_name(r->groups[i].best, s->by), s->group)) groups[n++] = &r->groups[i];
  return mal_rank_summarise(a, groups, n);
}

static void summarise(mal_arena *a, const mal_ranking *ranking, const selection *s, const selection *oom,
                      mal_summary *m) {
  mal_sample *x = MAL_ARRAY(a, mal_sample, s->count + oom->count + 1);
  m->skipped = skipped_in(s);
  m->n = collect(s, has_speed, value_abs_error, true, x);
  m->mean_abs_error = mal_weighted_mean(x, m->n);
  m->median_abs_error = mal_weighted_quantile(x, m->n, 0.5);
  m->p90_abs_error = mal_weighted_quantile(x, m->n, 0.9);
  m->bias = mal_weighted_mean(x, collect(s, has_speed, value_error, true, x));
  m->interval_coverage = mal_weighted_mean(x, collect(s, has_speed, value_covered, true, x));
  m->interval_width = mal_weighted_quantile(x, collect(s, has_speed, value_width, true, x), 0.5);
  m->interval_width_specified = mal_weighted_quantile(x, collect(s, has_speed_specified, value_width, true, x), 0.5);
  m->n_memory = collect(s, has_memory, value_abs_memory, false, x);
  weigh_memory(s, x, m->n_memory);
  m->memory_median_abs_error = mal_weighted_quantile(x, m->n_memory, 0.5);
  m->memory_p90_abs_error = mal_weighted_quantile(x, m->n_memory, 0.9);
  m->memory_bias = mal_weighted_mean(x, collect(s, has_memory, value_memory, false, x));
  m->n_fits = collect(s, any, value_fits, false, x);
  m->fits_recall = mal_weighted_mean(x, m->n_fits);
  m->n_oom = collect(oom, any, value_not_fits, false, x);
  m->oom_recall = mal_weighted_mean(x, m->n_oom);
  m->rank = summarise_ranks(a, ranking, s);
}

static void group_by(mal_arena *a, mal_validation *v, mal_by by, mal_summary **groups, int *n) {
  *groups = MAL_ARRAY(a, mal_summary, v->count + v->count_oom + 1);
  for (int i = 0; i < v->count + v->count_oom; i++) {
    const char *name = group_name(i < v->count ? &v->judged[i] : &v->judged_oom[i - v->count], by);
    int k = 0;
    while (k < *n && strcmp((*groups)[k].name, name)) k++;
    if (k == *n) (*groups)[(*n)++].name = name;
  }
  for (int k = 0; k < *n; k++) {
    selection s = {v->judged, v->count, by, (*groups)[k].name}, oom = {v->judged_oom, v->count_oom, by, s.group};
    summarise(a, &v->ranking, &s, &oom, &(*groups)[k]);
  }
}

mal_status mal_validate(mal_arena *a, const mal_trials *runs, const mal_trials *oom, mal_by by, mal_validation *v,
                        mal_error *e) {
  memset(v, 0, sizeof *v);
  v->by = by;
  mal_status s = mal_rows_make(a, runs, &v->rows, e);
  if (s == MAL_OK && oom) s = mal_rows_make(a, oom, &v->oom, e);
  if (s != MAL_OK) return s;
  judge_all(a, &v->rows, true, &v->judged);
  judge_all(a, &v->oom, false, &v->judged_oom);
  v->count = v->rows.count;
  v->count_oom = v->oom.count;
  weigh(v->judged, v->count);
  mal_rank(a, v->judged, v->count, v->judged_oom, v->count_oom, &v->ranking);
  selection every = {v->judged, v->count, by, NULL}, every_oom = {v->judged_oom, v->count_oom, by, NULL};
  summarise(a, &v->ranking, &every, &every_oom, &v->all);
  v->all.name = "all";
  group_by(a, v, MAL_BY_FAMILY, &v->families, &v->n_families);
  group_by(a, v, by, &v->groups, &v->n_groups);
  return MAL_OK;
}
