/* malha validate --json: docs/schema/validate.json says what each key means. */
#include "report/validation.h"
#include <math.h>

static void put(json_t *object, const char *key, json_t *value) { json_object_set_new(object, key, value); }
static void put_text(json_t *object, const char *key, const char *text) {
  put(object, key, text ? json_string(text) : json_null());
}
static void put_real(json_t *object, const char *key, double x, bool known) {
  put(object, key, known && isfinite(x) ? json_real(x) : json_null());
}

static json_t *row_json(const mal_judged *j) {
  json_t *o = json_object();
  const mal_trial *t = j->row->trial;
  bool judged = !j->skipped, speed = judged && j->measured_from, memory = judged && j->measured_bytes > 0;
  put_text(o, "id", t->id);
  put_text(o, "family", j->row->family);
  put_text(o, "skipped", j->skipped);
  put_text(o, "profile", j->row->plan ? j->row->plan->profile->name : NULL);
  put_text(o, "defaults", j->row->defaults);
  put_text(o, "measured_from", speed ? j->measured_from : NULL);
  put_real(o, "measured_step_s", j->measured_s, speed);
  put_real(o, "predicted_step_s", j->predicted_s, judged);
  put_real(o, "low_s", j->low_s, judged);
  put_real(o, "high_s", j->high_s, judged);
  put_real(o, "error", j->error, speed);
  put_real(o, "measured_memory_bytes", j->measured_bytes, memory);
  put_real(o, "predicted_memory_bytes", j->predicted_bytes, judged);
  put_real(o, "memory_error", j->memory_error, memory);
  put(o, "fits", judged ? json_boolean(j->fits) : json_null());
  put_real(o, "fit_probability", j->fit_probability, judged);
  return o;
}

static json_t *rank_json(const mal_rank_group *g) {
  json_t *o = json_object(), *measure = json_array();
  for (int i = 0; i < g->n_close; i++) json_array_append_new(measure, json_string(g->close[i]->row->trial->id));
  put_text(o, "name", g->name);
  put(o, "n", json_integer(g->n));
  put(o, "n_oom", json_integer(g->n_oom));
  put_real(o, "spearman", g->spearman, true);
  put_text(o, "best", g->best->row->trial->id);
  put_text(o, "pick", g->pick->row->trial->id);
  put(o, "failed", json_boolean(g->failed));
  put_real(o, "regret", g->regret, true);
  put(o, "measure", measure);
  put_real(o, "regret_measured", g->regret_close, true);
  return o;
}

static json_t *summary_json(const mal_summary *m) {
  json_t *o = json_object();
  bool speed = m->n > 0, memory = m->n_memory > 0;
  put(o, "n", json_integer(m->n));
  put(o, "skipped", json_integer(m->skipped));
  put_real(o, "mean_abs_error", m->mean_abs_error, speed);
  put_real(o, "median_abs_error", m->median_abs_error, speed);
  put_real(o, "p90_abs_error", m->p90_abs_error, speed);
  put_real(o, "bias", m->bias, speed);
  put_real(o, "interval_coverage", m->interval_coverage, speed);
  put_real(o, "interval_width", m->interval_width, speed);
  put_real(o, "interval_width_specified", m->interval_width_specified, m->interval_width_specified > 0);
  put(o, "n_memory", json_integer(m->n_memory));
  put_real(o, "memory_median_abs_error", m->memory_median_abs_error, memory);
  put_real(o, "memory_p90_abs_error", m->memory_p90_abs_error, memory);
  put_real(o, "memory_bias", m->memory_bias, memory);
  put_real(o, "fits_recall", m->fits_recall, m->n_fits > 0);
  put(o, "n_oom", json_integer(m->n_oom));
  put_real(o, "oom_recall", m->oom_recall, m->n_oom > 0);
  const mal_rank_summary *r = &m->rank;
  put(o, "n_ranked", json_integer(r->n));
  put(o, "n_failed_picks", json_integer(r->n_failed));
  put_real(o, "spearman_mean", r->spearman_mean, r->n > 0);
  put_real(o, "spearman_least", r->spearman_least, r->n > 0);
  put_real(o, "regret_mean", r->regret_mean, r->n > 0);
  put_real(o, "regret_p90", r->regret_p90, r->n > 0);
  put_real(o, "regret_max", r->regret_max, r->n > 0);
  put_real(o, "regret_measured_mean", r->regret_close_mean, r->n > 0);
  return o;
}

json_t *mal_report_validation_json(const mal_validation *v) {
  json_t *root = json_object(), *rows = json_array(), *oom = json_array();
  json_t *groups = json_object(), *families = json_object(), *ranking = json_array();
  for (int i = 0; i < v->ranking.n; i++) json_array_append_new(ranking, rank_json(&v->ranking.groups[i]));
  for (int i = 0; i < v->count; i++) json_array_append_new(rows, row_json(&v->judged[i]));
  for (int i = 0; i < v->count_oom; i++) json_array_append_new(oom, row_json(&v->judged_oom[i]));
  for (int i = 0; i < v->n_groups; i++) put(groups, v->groups[i].name, summary_json(&v->groups[i]));
  for (int i = 0; i < v->n_families; i++) put(families, v->families[i].name, summary_json(&v->families[i]));
  put(root, "version", json_integer(MAL_VALIDATION_VERSION));
  put_text(root, "by", mal_by_name[v->by]);
  put(root, "summary", summary_json(&v->all));
  put(root, "families", families);
  put(root, "groups", groups);
  put(root, "ranking", ranking);
  put(root, "rows", rows);
  put(root, "oom_rows", oom);
  return root;
}
