/* The size that was looked for: what it reaches, what the next one misses, what was looked at. */
#include "core/units.h"
#include "report/answer.h"
#include <math.h>

enum { LABEL = 10 };
static const double hour_s = 3600, day_s = 86400;

const char *const mal_ask_name[] = {"nodes", "gpus", "seq", "micro-batch", "params"};
_Static_assert(sizeof mal_ask_name / sizeof *mal_ask_name == MAL_ASKS, "a name for each");

static bool is_machine(const mal_inverse *q) { return q->ask == MAL_ASK_NODES || q->ask == MAL_ASK_GPUS; }

static const char *size_words(mal_arena *a, const mal_inverse *q, const mal_rung *r) {
  switch (q->ask) {
  case MAL_ASK_NODES: return mal_print(a, P_("%s node", "%s nodes", r->size), mal_show_int(r->size));
  case MAL_ASK_GPUS: return mal_print(a, P_("%s GPU", "%s GPUs", r->size), mal_show_int(r->size));
  case MAL_ASK_SEQ:
    return mal_print(a, P_("sequences of %s token", "sequences of %s tokens", r->size), mal_show_int(r->size));
  case MAL_ASK_MICRO_BATCH:
    return mal_print(a, P_("a micro-batch of %s sequence", "a micro-batch of %s sequences", r->size),
                     mal_show_int(r->size));
  default: return mal_print(a, P_("%s layer", "%s layers", r->size), mal_show_int(r->size));
  }
}

static const char *usd(mal_arena *a, double x) {
  return x >= 1000 ? mal_print(a, "USD %s", mal_show_count(x)) : mal_print(a, "USD %.3g", x);
}

/* Time and cost of the target, where they are known. */
static const char *reached(mal_arena *a, const mal_rung *r) {
  if (!r->known || !r->fits || r->time_s <= 0) return "";
  return mal_print(a, r->cost_usd > 0 ? ": %s, %s" : ": %s", mal_show_time(r->time_s), usd(a, r->cost_usd));
}

/* As the option takes it, rounded up. */
static const char *deadline_words(mal_arena *a, double seconds) {
  double unit = seconds < day_s ? hour_s : day_s;
  return mal_print(a, "--deadline %.1f%s", ceil(10 * seconds / unit) / 10, seconds < day_s ? "h" : "d");
}

static const char *missed(mal_arena *a, const mal_job *j, const mal_rung *r) {
  if (!r->splits) return _("cannot be split");
  if (r->slow) return _("does not fit, or is too slow");
  if (!r->fits) return _("does not fit");
  double late = j->deadline_s > 0 ? r->time_s - j->deadline_s : 0;
  double dear = j->budget_usd > 0 ? r->cost_usd - j->budget_usd : 0;
  const char *time = late > 0 ? mal_print(a, _("%s too long"), mal_show_time(late)) : "";
  const char *cost = dear > 0 ? mal_print(a, _("%s too much"), usd(a, dear)) : "";
  return mal_print(a, "%s%s%s", time, late > 0 && dear > 0 ? ", " : "", cost);
}

/* "1, 2, 4 and 6 to 12". */
static const char *tried_words(mal_arena *a, const mal_inverse *q) {
  mal_page list;
  mal_page_init(&list, a, false);
  for (int i = 0; i < q->count;) {
    int last = i;
    int64_t step = q->step;
    while (last + 1 < q->count && q->tried[last + 1].size == q->tried[last].size + step) last++;
    if (i) mal_page_put(&list, ", ");
    mal_page_put(&list, "%s", mal_show_int(q->tried[i].size));
    if (last > i) mal_page_put(&list, last > i + 1 ? _(" to %s") : ", %s", mal_show_int(q->tried[last].size));
    i = last + 1;
  }
  return list.text;
}

static void put_found(mal_page *p, const mal_answer *a) {
  const mal_inverse *q = a->inverse;
  const mal_rung *r = &q->answer;
  const char *label = is_machine(q) ? _("smallest") : _("largest");
  const char *size = size_words(p->arena, q, r);
  if (q->ask == MAL_ASK_NODES)
    mal_page_field(p, LABEL, label, P_("%s of %s (%s GPU)%s", "%s of %s (%s GPUs)%s", r->gpus), size,
                   a->plan.machine.node->name, mal_show_int(r->gpus), reached(p->arena, r));
  else if (q->ask == MAL_ASK_GPUS)
    mal_page_field(p, LABEL, label, "%s%s", size, reached(p->arena, r));
  else if (q->ask == MAL_ASK_PARAMS)
    mal_page_field(p, LABEL, label, _("%s (%s parameters) as %s has them, all else of the model unchanged"), size,
                   mal_show_count((double)q->parameters), a->plan.model_spec);
  else
    mal_page_field(p, LABEL, label, "%s", size);
}

static void put_not_found(mal_page *p, const mal_answer *a) {
  const mal_inverse *q = a->inverse;
  const mal_job *j = &a->plan.job;
  const mal_rung *r = &q->answer;
  if (!is_machine(q)) {
    mal_page_field(p, LABEL, _("largest"), _("none: not even %s"), size_words(p->arena, q, r));
    return;
  }
  mal_page_field(p, LABEL, _("smallest"), _("none will do; nearest: %s%s (%s)"), size_words(p->arena, q, r),
                 reached(p->arena, r), missed(p->arena, j, r));
  if (r->fits && (j->deadline_s > 0 || j->budget_usd > 0))
    mal_page_field(p, LABEL, "", _("it would do with %s%s%s"),
                   j->deadline_s > 0 ? deadline_words(p->arena, r->time_s) : "",
                   j->deadline_s > 0 && j->budget_usd > 0 ? " " : "",
                   j->budget_usd > 0 ? mal_print(p->arena, "--budget %.0f", ceil(r->cost_usd)) : "");
}

void mal_report_inverse(mal_page *p, const mal_answer *a) {
  const mal_inverse *q = a->inverse;
  const mal_rung *next = &q->beside;
  if (q->found)
    put_found(p, a);
  else
    put_not_found(p, a);
  if (q->found && next->size)
    mal_page_field(p, LABEL, "", is_machine(q) ? _("the next smaller, %s%s: %s") : _("the next, %s%s: %s"),
                   size_words(p->arena, q, next), is_machine(q) ? reached(p->arena, next) : "",
                   missed(p->arena, &a->plan.job, next));
  if (q->ends && q->ask == MAL_ASK_SEQ)
    mal_page_field(p, LABEL, "", "%s", _("the model's table of positions ends there"));
  if (q->ends && q->ask == MAL_ASK_MICRO_BATCH) mal_page_field(p, LABEL, "", "%s", _("the whole batch"));
  if (q->ask == MAL_ASK_SEQ && q->found && a->plan.model.max_positions < q->answer.size && !q->ends)
    mal_page_field(p, LABEL, "", _("the model itself was made for %s"), mal_show_int(a->plan.model.max_positions));
  const mal_layout *l = &a->plan.layout;
  if (q->found && a->search && (l->offload_optimizer || l->offload_params))
    mal_page_field(p, LABEL, "", "%s",
                   _("with states outside the GPUs; without: --fix offload-optimizer=none,offload-params=none"));
  mal_page_field(p, LABEL, "", _("looked at: %s"), tried_words(p->arena, q));
}

static json_t *real_if(bool known, double x) { return known && x > 0 ? json_real(x) : json_null(); }

static json_t *rung_json(const mal_rung *r) {
  json_t *o = json_object();
  json_object_set_new(o, "size", json_integer(r->size));
  json_object_set_new(o, "nodes", json_integer(r->nodes));
  json_object_set_new(o, "gpus", json_integer(r->gpus));
  json_object_set_new(o, "splits", json_boolean(r->splits));
  json_object_set_new(o, "fits", r->slow ? json_null() : json_boolean(r->fits));
  json_object_set_new(o, "meets", json_boolean(r->meets));
  json_object_set_new(o, "step_s", real_if(r->known, r->step_s));
  json_object_set_new(o, "time_s", real_if(r->known, r->time_s));
  json_object_set_new(o, "cost_usd", real_if(r->known, r->cost_usd));
  return o;
}

json_t *mal_report_inverse_json(const mal_inverse *q) {
  json_t *o = json_object(), *tried = json_array();
  for (int i = 0; i < q->count; i++) json_array_append_new(tried, rung_json(&q->tried[i]));
  json_object_set_new(o, "ask", json_string(mal_ask_name[q->ask]));
  json_object_set_new(o, "found", json_boolean(q->found));
  json_object_set_new(o, "answer", rung_json(&q->answer));
  json_object_set_new(o, "beside", q->found && q->beside.size ? rung_json(&q->beside) : json_null());
  json_object_set_new(o, "step", json_integer(q->step));
  json_object_set_new(o, "checked_from", q->checked_from ? json_integer(q->checked_from) : json_null());
  json_object_set_new(o, "parameters", json_integer(q->parameters));
  json_object_set_new(o, "tried", tried);
  return o;
}
