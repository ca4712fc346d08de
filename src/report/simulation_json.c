/* A simulated step as JSON: docs/schema/simulate.json. */
#include "report/simulation.h"
#include <math.h>

static const char *const time_keys[] = {"matmul",    "attention", "memory_bound", "launch",     "tp",
                                        "cp",        "ep",        "dp",           "pp",         "bubble",
                                        "optimizer", "offload",   "data",         "checkpoint", "jitter"};
static const char *const axis_keys[] = {"tp", "cp", "dp", "pp", "ep", "etp", "edp", "stages"};
_Static_assert(sizeof time_keys / sizeof *time_keys == MAL_TIME_CAUSES, "one key a cause of time");
_Static_assert(sizeof axis_keys / sizeof *axis_keys == MAL_AXES + 1, "one key an axis");

static void put(json_t *o, const char *key, json_t *v) { json_object_set_new(o, key, v); }
static void put_real(json_t *o, const char *key, double x) { put(o, key, isfinite(x) ? json_real(x) : json_null()); }
static void put_int(json_t *o, const char *key, int64_t n) { put(o, key, json_integer(n)); }
static void put_text(json_t *o, const char *key, const char *text) {
  put(o, key, text ? json_string(text) : json_null());
}

static json_t *times_json(const mal_simulated *r, bool exposed) {
  json_t *o = json_object();
  for (int c = 0; c < MAL_TIME_CAUSES; c++) {
    bool traffic = c == MAL_TIME_TP || c == MAL_TIME_CP || c == MAL_TIME_EP || c == MAL_TIME_DP || c == MAL_TIME_PP;
    if (!exposed || traffic) put_real(o, time_keys[c], r->time_s[c]);
  }
  return o;
}

static json_t *links_json(const mal_simulated *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->n_links; i++) {
    const mal_simulated_link *l = &r->links[i];
    json_t *o = json_object();
    put_text(o, "link", l->name);
    put_int(o, "count", l->count);
    put_real(o, "bytes_per_s", l->bytes_per_s);
    put_real(o, "bytes", l->bytes);
    put_real(o, "used", l->used);
    put_real(o, "busy_s", l->busy_s);
    put_text(o, "busiest", l->busiest);
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *stages_json(const mal_simulation *s) {
  json_t *list = json_array();
  for (int64_t i = 0; i < s->plan->layout.pp; i++) {
    const mal_simulated_stage *x = &s->step.stages[i];
    json_t *o = json_object();
    put_real(o, "compute_s", x->compute_s);
    put_real(o, "exposed_s", x->exposed_s);
    put_real(o, "bubble_s", x->bubble_s);
    put_int(o, "memory_bytes", x->memory_bytes);
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *waits_json(const mal_simulated *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->n_waits; i++) {
    const mal_simulated_wait *w = &r->waits[i];
    json_t *o = json_object();
    put_text(o, "waiter", w->waiter);
    put_text(o, "for", w->culprit);
    put_text(o, "where", w->where);
    put_real(o, "seconds", w->seconds);
    put_int(o, "times", w->times);
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *faults_json(const mal_simulation *s) {
  json_t *list = json_array();
  for (int i = 0; i < s->n_faults; i++) {
    json_t *o = json_object();
    put_text(o, "fault", s->faults[i].fault->text);
    put(o, "finished", json_boolean(s->faults[i].finished));
    put_real(o, "step_s", s->faults[i].finished ? s->faults[i].step_s : INFINITY);
    put_real(o, "cost_s", s->faults[i].finished ? s->faults[i].cost_s : INFINITY);
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *horizon_json(const mal_simulation *s) {
  const mal_horizon *h = s->horizon;
  if (!h) return json_null();
  json_t *o = json_object();
  put_real(o, "days", s->days);
  put_int(o, "runs", h->runs);
  put_real(o, "mttf_s", h->mttf_s);
  put_real(o, "failures", h->failures);
  put_real(o, "goodput", h->goodput);
  put_real(o, "goodput_p10", h->low);
  put_real(o, "goodput_p50", h->median);
  put_real(o, "goodput_p90", h->high);
  put_real(o, "goodput_formula", h->formula);
  put_real(o, "lost_work", h->lost_work);
  put_real(o, "restarts", h->restarts);
  put_real(o, "checkpoints", h->checkpoints);
  put_real(o, "waits", h->waits);
  put_real(o, "interval_s", h->interval_s);
  put_real(o, "best_interval_s", h->best_s > 0 ? h->best_s : INFINITY);
  put_real(o, "daly_interval_s", h->daly_s);
  put_real(o, "young_interval_s", h->young_s);
  put_real(o, "best_goodput", h->best_s > 0 ? h->best_goodput : INFINITY);
  put_real(o, "daly_goodput", h->best_s > 0 ? h->daly_goodput : INFINITY);
  put_real(o, "young_goodput", h->best_s > 0 ? h->young_goodput : INFINITY);
  return o;
}

json_t *mal_report_simulation_json(const mal_simulation *s) {
  const mal_simulated *r = &s->step;
  json_t *o = json_object(), *sent = json_object(), *memory = json_array();
  put_int(o, "version", MAL_SIMULATION_VERSION);
  put_text(o, "model", s->plan->model_spec);
  put(o, "model_defaults", mal_model_defaults_json(&s->plan->model));
  put_text(o, "machine", s->plan->machine_spec);
  put(o, "finished", json_boolean(r->finished));
  put(o, "interrupted", json_boolean(r->interrupted));
  put_text(o, "stuck", r->stuck);
  put_real(o, "done", r->done);
  put_real(o, "step_s", r->finished ? r->step_s : INFINITY);
  put_real(o, "played_s", r->played_s);
  put_real(o, "plan_step_s", s->plan_step_s);
  put_real(o, "healthy_step_s", s->healthy.step_s);
  put_real(o, "bubble_s", r->bubble_s);
  put(o, "checkpoint",
      r->stalled_s > 0 ? json_pack("{s:f, s:f}", "stall_s", r->stalled_s, "written_s", r->written_s) : json_null());
  put(o, "time_s", times_json(r, false));
  put(o, "exposed_s", times_json(r, true));
  put_int(o, "ranks", r->ranks);
  put_int(o, "classes", r->classes);
  put_int(o, "events", r->events);
  put_int(o, "busiest_rank", r->busiest_rank);
  put_int(o, "slowest_rank", r->slowest_rank);
  put_text(o, "slowest_link", r->slowest_link);
  put_real(o, "flops", r->flops);
  for (int i = 0; i <= MAL_AXES; i++) put_real(sent, axis_keys[i], r->bytes_sent[i]);
  put(o, "bytes_sent", sent);
  for (int64_t i = 0; i < s->plan->layout.pp; i++)
    json_array_append_new(memory, json_integer(r->stages[i].memory_bytes));
  put(o, "memory_bytes", memory);
  put(o, "stages", stages_json(s));
  put(o, "links", links_json(r));
  put(o, "waits", waits_json(r));
  put(o, "faults", faults_json(s));
  put(o, "horizon", horizon_json(s));
  put_int(o, "seed", (int64_t)s->options->seed);
  put_text(o, "routing", s->routing);
  put_text(o, "command", s->command);
  return o;
}
