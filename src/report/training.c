#include "report/training.h"
#include "core/units.h"
#include <math.h>
#include <string.h>

enum { LABEL = 10 };

static const char *const axis_keys[MAL_AXES + 1] = {"tp", "cp", "dp", "pp", "ep", "etp", "edp", "stages"};

/* --- for people -------------------------------------------------------------------------------------------------------- */

void mal_report_training_start(mal_page *p, const mal_training *t) {
  const mal_plan *plan = t->plan;
  long long ranks = (long long)mal_layout_world(&plan->layout);
  mal_page_field(p, LABEL, _("model"), _("%s: %s parameters"), plan->model.name,
                 mal_show_count((double)plan->model.parameters));
  mal_page_note(p, LABEL, _("defaults"), mal_model_defaults_words(p->arena, &plan->model));
  mal_page_field(p, LABEL, _("machine"), P_("%s: %lld rank, %lld cores%s", "%s: %lld ranks, %lld cores%s", ranks),
                 plan->machine_spec, ranks, (long long)t->cores, t->processes ? _("; each a process") : "");
  const char *layout = mal_print(p->arena, "dp=%lld,%s", (long long)plan->layout.dp, mal_plan_layout(p->arena, plan));
  mal_page_field(p, LABEL, _("layout"), "%s%s", mal_spaced(p->arena, layout),
                 t->chosen ? _(" (chosen: the fastest that fits)") : "");
  mal_page_field(p, LABEL, _("batch"), _("%s sequences of %s tokens"), plan->arithmetic, mal_show_int(plan->job.seq));
  mal_page_field(p, LABEL, _("data"), P_("%s tokens; %lld step of %s", "%s tokens; %lld steps of %s", t->steps),
                 mal_show_count((double)t->data_tokens), (long long)t->steps,
                 mal_show_int(plan->job.global_batch * plan->job.seq));
  if (t->init && !t->resumed_from) mal_page_field(p, LABEL, _("weights"), _("begin as in %s"), t->init);
  if (t->resumed_from)
    mal_page_field(p, LABEL, _("resumed"), _("after step %lld, from %s"), (long long)t->first_step, t->resumed_from);
  if (t->passed_over) mal_page_field(p, LABEL, _("damaged"), _("%s The one before is used."), t->passed_over);
}

static double share_of_floor(const mal_training *t, double step_s) {
  return step_s > 0 ? t->estimate->step_s / step_s : 0;
}

void mal_report_training_step(mal_page *p, const mal_training *t, const mal_train_step *s) {
  double left = (double)(t->steps - s->step) * s->step_s;
  mal_page_put(p, _("step %lld/%lld  loss %.4f  grad %.3f  %s tokens/s  %.0f %% of plan  ETA %s\n"), (long long)s->step,
               (long long)t->steps, s->loss, s->grad_norm, mal_show_count(s->tokens_per_s),
               100 * share_of_floor(t, s->step_s), mal_show_time(left));
}

static const char *verdict(double planned, double measured) {
  return fabs(planned - measured) <= 1e-9 * fabs(planned) ? _("equal") : _("DIFFERENT");
}

static void put_row(mal_table *t, const char *what, const char *planned, const char *measured, const char *word) {
  mal_table_row(t, MAL_PLAIN, what, mal_copy(t->arena, planned), mal_copy(t->arena, measured), word);
}

void mal_report_training_end(mal_page *p, const mal_training *t, const mal_train_summary *s) {
  mal_table table;
  mal_page_styled(p, MAL_BOLD, "%s", _("\nPlanned against measured, one step of all ranks\n"));
  mal_table_init(&table, p->arena, 2, "lrrl");
  mal_table_row(&table, MAL_DIM, "", _("planned"), _("measured"), "");
  put_row(&table, _("memory, bytes"), mal_show_int(s->planned_memory_bytes), mal_show_int(s->memory_bytes),
          verdict((double)s->planned_memory_bytes, (double)s->memory_bytes));
  for (int i = 0; i <= MAL_AXES; i++)
    if (s->planned_sent[i] > 0 || s->sent[i] > 0)
      put_row(&table, mal_print(p->arena, _("sent over %s, bytes"), axis_keys[i]),
              mal_show_int((int64_t)(s->planned_sent[i] + 0.5)), mal_show_int((int64_t)(s->sent[i] + 0.5)),
              verdict(s->planned_sent[i], s->sent[i]));
  put_row(&table, _("FLOPs"), mal_show_count(s->planned_flops), mal_show_count(s->flops),
          verdict(s->planned_flops, s->flops));
  put_row(&table, _("time"), mal_show_time(t->estimate->step_s), mal_show_time(s->step_s),
          mal_print(p->arena,
                    mal_layout_world(&t->plan->layout) > t->cores ? _("%+.0f %%; ranks take turns on the cores")
                                                                  : "%+.0f %%",
                    100 * (s->step_s / t->estimate->step_s - 1)));
  mal_table_put(&table, p);
  mal_page_put(p, "\n");
  if (isfinite(s->evaluation_loss))
    mal_page_field(p, LABEL, _("loss"), _("%.4f; on the evaluation data %.4f, perplexity %.1f"), s->loss,
                   s->evaluation_loss, exp(s->evaluation_loss));
  else
    mal_page_field(p, LABEL, _("loss"), "%.4f", s->loss);
  mal_page_field(p, LABEL, _("speed"), _("%s tokens/s, %s"), mal_show_count(s->tokens_per_s),
                 mal_show_rate(s->step_s > 0 ? s->flops / s->step_s : 0, "FLOP/s"));
  mal_page_field(p, LABEL, _("resident"), _("%s: the arenas, and %s of program, libraries and data"),
                 mal_show_bytes((double)s->resident_bytes),
                 mal_show_bytes((double)(s->resident_bytes - s->memory_bytes)));
  if (t->saved) mal_page_field(p, LABEL, _("saved"), _("%s, as Hugging Face lays a model out"), t->saved);
  mal_page_styled(p, MAL_DIM, "%s", _("\nagain: "));
  mal_page_command(p, strlen(_("\nagain: ")) - 1, 2, t->command);
}

/* --- JSON ------------------------------------------------------------------------------------------------------------------ */

static void put(json_t *o, const char *key, json_t *value) { json_object_set_new(o, key, value); }
static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

json_t *mal_training_start_json(const mal_training *t, mal_arena *a) {
  json_t *o = json_object();
  put(o, "kind", json_string("start"));
  put(o, "version", json_integer(MAL_TRAINING_VERSION));
  put(o, "model", json_string(t->plan->model_spec));
  put(o, "model_defaults", mal_model_defaults_json(&t->plan->model));
  put(o, "machine", json_string(t->plan->machine_spec));
  put(o, "layout", json_string(mal_plan_layout(a, t->plan)));
  put(o, "layout_chosen", json_boolean(t->chosen));
  put(o, "ranks", json_integer(mal_layout_world(&t->plan->layout)));
  put(o, "cores", json_integer(t->cores));
  put(o, "ranks_as", json_string(t->processes ? "processes" : "threads"));
  put(o, "parameters", json_integer(t->plan->model.parameters));
  put(o, "seq", json_integer(t->plan->job.seq));
  put(o, "global_batch", json_integer(t->plan->job.global_batch));
  put(o, "data_tokens", json_integer(t->data_tokens));
  put(o, "first_step", json_integer(t->first_step));
  put(o, "steps", json_integer(t->steps));
  put(o, "command", json_string(t->command));
  if (t->init && !t->resumed_from) put(o, "init", json_string(t->init));
  if (t->resumed_from) put(o, "resumed_from", json_string(t->resumed_from));
  if (t->passed_over) put(o, "damaged", json_string(t->passed_over));
  return o;
}

json_t *mal_training_step_json(const mal_train_step *s) {
  json_t *o = json_object();
  put(o, "kind", json_string("step"));
  put(o, "step", json_integer(s->step));
  put(o, "loss", real(s->loss));
  put(o, "grad_norm", real(s->grad_norm));
  put(o, "lr", real(s->lr));
  put(o, "tokens_per_s", real(s->tokens_per_s));
  put(o, "step_s", real(s->step_s));
  return o;
}

json_t *mal_training_evaluation_json(int64_t step, double loss) {
  json_t *o = json_object();
  put(o, "kind", json_string("evaluation"));
  put(o, "step", json_integer(step));
  put(o, "loss", real(loss));
  return o;
}

static json_t *side(double memory, const double *sent, double flops, double step_s) {
  json_t *o = json_object(), *by_axis = json_object();
  for (int i = 0; i <= MAL_AXES; i++)
    if (sent[i] > 0) put(by_axis, axis_keys[i], real(sent[i]));
  put(o, "memory_bytes", json_integer((int64_t)memory));
  put(o, "sent_bytes", by_axis);
  put(o, "flops", real(flops));
  put(o, "step_s", real(step_s));
  return o;
}

json_t *mal_training_end_json(const mal_training *t, const mal_train_summary *s) {
  json_t *o = json_object();
  put(o, "kind", json_string("summary"));
  put(o, "steps", json_integer(s->steps));
  put(o, "loss", real(s->loss));
  put(o, "evaluation_loss", real(s->evaluation_loss));
  put(o, "tokens_per_s", real(s->tokens_per_s));
  put(o, "resident_bytes", json_integer(s->resident_bytes));
  put(o, "rank_cpu_s", real(s->rank_cpu_s));
  put(o, "all_cpu_s", real(s->all_cpu_s));
  if (t->saved) put(o, "saved", json_string(t->saved));
  put(o, "planned", side((double)s->planned_memory_bytes, s->planned_sent, s->planned_flops, t->estimate->step_s));
  put(o, "measured", side((double)s->memory_bytes, s->sent, s->flops, s->step_s));
  return o;
}
