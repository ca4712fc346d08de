/* The plan as JSON: docs/schema/plan.json says what each key means. Keys never change their meaning within a version. */
#include "core/options_json.h"
#include "report/answer.h"
#include <math.h>

static const char *const memory_keys[] = {"weights",     "gradients",     "master_weights", "optimizer",
                                          "activations", "logits",        "gathered",       "buckets",
                                          "workspace",   "communicators", "context",        "slack"};
static const char *const time_keys[] = {"matmul",    "attention", "memory_bound", "launch",     "tp",
                                        "cp",        "ep",        "dp",           "pp",         "bubble",
                                        "optimizer", "offload",   "data",         "checkpoint", "jitter"};
_Static_assert(sizeof memory_keys / sizeof *memory_keys == MAL_MEM_CAUSES, "one key a cause of memory");
_Static_assert(sizeof time_keys / sizeof *time_keys == MAL_TIME_CAUSES, "one key a cause of time");

static void put(json_t *object, const char *key, json_t *value) { json_object_set_new(object, key, value); }
static void put_text(json_t *object, const char *key, const char *text) {
  put(object, key, text ? json_string(text) : json_null());
}
static void put_int(json_t *object, const char *key, int64_t n) { put(object, key, json_integer(n)); }
static void put_real(json_t *object, const char *key, double x) {
  put(object, key, isfinite(x) ? json_real(x) : json_null());
}
/* What was not asked or not priced is 0 in the estimate and null here. */
static void put_if(json_t *object, const char *key, double x) {
  put(object, key, isfinite(x) && x > 0 ? json_real(x) : json_null());
}

static json_t *model_json(const mal_plan *p) {
  json_t *o = json_object();
  const mal_model *m = &p->model;
  put_text(o, "spec", p->model_spec);
  put_text(o, "name", m->name);
  put_text(o, "family", m->family);
  put_int(o, "parameters", m->parameters);
  put_int(o, "active_parameters", m->active_parameters);
  put_int(o, "layers", m->layers);
  put_int(o, "hidden", m->hidden);
  put_int(o, "vocab", m->vocab);
  put(o, "defaults", mal_model_defaults_json(m));
  return o;
}

static json_t *machine_json(mal_arena *a, const mal_plan *p) {
  enum { MOST = 256 };
  const char *names[MOST];
  json_t *o = json_object(), *list = json_array();
  const mal_machine *m = &p->machine;
  put_text(o, "spec", p->machine_spec);
  put_text(o, "gpu", m->gpu->name);
  put_text(o, "node", m->node->name);
  put_text(o, "fabric", m->fabric ? m->fabric->name : NULL);
  put_int(o, "nodes", m->nodes);
  put_int(o, "gpus_per_node", m->gpus_per_node);
  put_int(o, "gpus", mal_machine_gpus(m));
  int count = mal_unverified(a, m, names, MOST);
  for (int i = 0; i < count && i < MOST; i++) json_array_append_new(list, json_string(names[i]));
  put(o, "unverified", list);
  json_t *own = json_array();
  for (int i = 0; i < m->n_own; i++) json_array_append_new(own, json_string(m->own[i]));
  put(o, "own", own);
  return o;
}

static json_t *profile_json(const mal_plan *p) {
  json_t *o = json_object();
  put_text(o, "name", p->profile->name);
  put_text(o, "title", p->profile->title);
  put(o, "default", json_boolean(!p->profile_spec || !*p->profile_spec));
  return o;
}

static json_t *causes_json(const char *const *keys, const int64_t *bytes, const double *seconds, int count) {
  json_t *o = json_object();
  for (int i = 0; i < count; i++)
    if (bytes)
      put_int(o, keys[i], bytes[i]);
    else
      put_real(o, keys[i], seconds[i]);
  return o;
}

static json_t *interval_json(const mal_estimate *e) {
  json_t *o = json_object();
  put_real(o, "low_s", e->step_interval.low);
  put_real(o, "high_s", e->step_interval.high);
  double low = e->step_interval.low / e->step_s, high = e->step_interval.high / e->step_s; /* all goes with the step */
  put_real(o, "tokens_per_s_low", e->tokens_per_s / high);
  put_real(o, "tokens_per_s_high", e->tokens_per_s / low);
  put_real(o, "memory_low_bytes", e->memory_interval.low);
  put_real(o, "memory_high_bytes", e->memory_interval.high);
  put_if(o, "time_to_target_low_s", e->time_to_target_s * low);
  put_if(o, "time_to_target_high_s", e->time_to_target_s * high);
  put_if(o, "cost_low_usd", e->cost_usd * low);
  put_if(o, "cost_high_usd", e->cost_usd * high);
  put_real(o, "probability", 0.8);
  put_text(o, "class", e->interval_class);
  return o;
}

static void put_promise(json_t *o, const char *key, double limit, double reached) {
  put(o, key, limit > 0 ? json_boolean(reached <= limit) : json_null());
}

static json_t *target_json(const mal_job *j, const mal_estimate *e) {
  json_t *o = json_object();
  put_if(o, "tokens", e->tokens_to_target);
  put_if(o, "time_s", e->time_to_target_s);
  put_if(o, "goodput", e->goodput);
  put_if(o, "gpu_hours", e->gpu_hours);
  put_if(o, "energy_kwh", e->energy_kwh);
  put_if(o, "cost_usd", e->cost_usd);
  put_promise(o, "in_time", j->deadline_s, e->time_to_target_s);
  put_promise(o, "in_budget", j->budget_usd, e->cost_usd);
  return o;
}

static json_t *memory_json(const mal_estimate *e) {
  json_t *o = causes_json(memory_keys, e->memory_bytes, NULL, MAL_MEM_CAUSES);
  put_int(o, "total", e->total_bytes);
  put_int(o, "limit", e->limit_bytes);
  put_int(o, "missing", e->total_bytes > e->limit_bytes ? e->total_bytes - e->limit_bytes : 0);
  return o;
}

static void put_speed(json_t *o, const mal_job *j, const mal_estimate *e) {
  put_real(o, "step_s", e->step_s);
  put(o, "time_s", causes_json(time_keys, NULL, e->time_s, MAL_TIME_CAUSES));
  put(o, "interval", interval_json(e));
  put_real(o, "bubble_fraction", e->bubble_fraction);
  put_real(o, "tokens_per_s", e->tokens_per_s);
  put_real(o, "model_flops_per_s_per_gpu", e->model_flops_per_s_per_gpu);
  put_real(o, "mfu", e->mfu);
  put_real(o, "hfu", e->hfu);
  put_if(o, "usd_per_mtoken", e->usd_per_mtoken);
  put_if(o, "kwh_per_mtoken", e->kwh_per_mtoken);
  put_if(o, "power_w", e->power_w);
  put(o, "target", target_json(j, e));
}

static json_t *layout_json(mal_arena *a, const mal_plan *p, const mal_estimate *e) {
  json_t *o = json_object();
  put_text(o, "layout", mal_plan_layout(a, p));
  put(o, "degrees", mal_options_json(mal_layout_options, mal_layout_option_count, &p->layout));
  put_text(o, "batch", p->arithmetic);
  put(o, "fits", json_boolean(e->fits));
  put_real(o, "fit_probability", e->fit_probability);
  put(o, "host_fits", json_boolean(e->host_fits));
  put(o, "nvme_fits", json_boolean(e->nvme_fits));
  put_int(o, "worst_stage", e->worst_stage);
  put(o, "memory_bytes", memory_json(e));
  put_speed(o, &p->job, e);
  put_text(o, "why", e->why);
  return o;
}

static json_t *remedies_json(mal_arena *a, const mal_answer *answer) {
  json_t *list = json_array();
  for (int i = 0; i < answer->n_remedies; i++) {
    const mal_remedy *r = &answer->remedies[i];
    json_t *o = layout_json(a, &r->plan, &r->estimate);
    put_text(o, "change", r->change);
    put_text(o, "words", r->words);
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *answer_json(mal_arena *a, const mal_answer *answer) {
  json_t *o = json_object(), *layouts = json_array();
  const mal_plan *p = &answer->plan;
  put_int(o, "version", MAL_ANSWER_VERSION);
  if (answer->status) {
    json_t *machine = json_object();
    put_text(machine, "spec", answer->asked);
    put(o, "machine", machine);
    put_text(o, "error", answer->error.text);
    return o;
  }
  put(o, "model", model_json(p));
  put(o, "machine", machine_json(a, p));
  put(o, "job", mal_options_json(mal_job_options, mal_job_option_count, &p->job));
  put(o, "profile", profile_json(p));
  json_array_append_new(layouts, layout_json(a, p, &answer->estimate));
  for (int i = 1; answer->search && i < answer->search->count; i++) {
    const mal_choice *f = &answer->search->best[i];
    json_array_append_new(layouts, layout_json(a, &f->plan, &f->estimate));
  }
  if (answer->inverse) put(o, "inverse", mal_report_inverse_json(answer->inverse));
  if (answer->search) put(o, "search", mal_report_search_json(answer->search));
  if (answer->what_ifs) put(o, "sensitivity", mal_report_what_ifs_json(a, answer));
  if (answer->against) {
    const mal_choice *f = answer->against;
    put(o, "against", layout_json(a, &f->plan, &f->estimate));
  }
  put(o, "layouts", layouts);
  put(o, "remedies", remedies_json(a, answer));
  put_text(o, "command", answer->command);
  return o;
}

json_t *mal_report_plan_json(const mal_answer *answers, int count) {
  mal_arena arena;
  mal_arena_init(&arena);
  json_t *o;
  if (count == 1 && !answers->status) {
    o = answer_json(&arena, answers);
  } else {
    json_t *plans = json_array();
    o = json_object();
    put_int(o, "version", MAL_ANSWER_VERSION);
    put_text(o, "command", answers->command);
    for (int i = 0; i < count; i++) json_array_append_new(plans, answer_json(&arena, &answers[i]));
    put(o, "plans", plans);
    put(o, "moves", mal_report_moves_json(answers, count));
  }
  mal_arena_free(&arena);
  return o;
}
