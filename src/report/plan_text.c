/* One plan for people: what was asked, does it fit, where memory and time go, how fast, what it costs. */
#include "core/units.h"
#include "job/types.h"
#include "report/answer.h"
#include <stdio.h>
#include <string.h>

enum { LABEL = 10, BAR = 20 };
static const double least_shown = 0.0005; /* of a step: smaller causes are in the JSON only */

static const char *percent(mal_arena *a, double share) {
  return mal_print(a, share > 0 && share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
}

static const char *bar(mal_arena *a, double share) {
  int full = share <= 0 ? 0 : share >= 1 ? BAR : (int)(share * BAR + 0.5);
  char *text = mal_alloc(a, BAR * 3 + 1);
  for (int i = 0; i < full; i++) strcat(text, "█");
  return text;
}

static void put_again(mal_page *p, const char *command) {
  mal_page_styled(p, MAL_DIM, "%s", _("\nagain: "));
  mal_page_command(p, strlen(_("\nagain: ")) - 1, 2, command);
}

/* --- what was asked ----------------------------------------------------------------------------------------------- */

static void put_model(mal_page *p, const mal_plan *plan) {
  const mal_model *m = &plan->model;
  if (m->active_parameters != m->parameters)
    mal_page_field(p, LABEL, _("model"),
                   P_("%s: %s parameters, %s active for one token, %lld layer",
                      "%s: %s parameters, %s active for one token, %lld layers", m->layers),
                   m->name, mal_show_count((double)m->parameters), mal_show_count((double)m->active_parameters),
                   (long long)m->layers);
  else
    mal_page_field(p, LABEL, _("model"),
                   P_("%s: %s parameters, %lld layer", "%s: %s parameters, %lld layers", m->layers), m->name,
                   mal_show_count((double)m->parameters), (long long)m->layers);
}

static void put_defaults(mal_page *p, const mal_model *m) {
  mal_page_note(p, LABEL, _("defaults"), mal_model_defaults_words(p->arena, m));
}

static void put_machine(mal_page *p, const mal_plan *plan) {
  const mal_machine *m = &plan->machine;
  if (m->nodes == 1)
    mal_page_field(p, LABEL, _("machine"), _("%lld × %s in one node: %s"), (long long)m->gpus_per_node, m->gpu->title,
                   m->node->title);
  else
    mal_page_field(p, LABEL, _("machine"), _("%s × %s in %s nodes: %s"), mal_show_int(mal_machine_gpus(m)),
                   m->gpu->title, mal_show_int(m->nodes), m->node->title);
}

/* What a machine file says otherwise than the catalogue. */
static void put_own(mal_page *p, const mal_machine *m, const char *spec) {
  if (!m->n_own) return;
  mal_page list;
  mal_page_init(&list, p->arena, false);
  for (int i = 0; i < m->n_own; i++) mal_page_put(&list, "%s%s", i ? ", " : "", m->own[i]);
  mal_page_field(p, LABEL, "", _("as %s says: %s"), spec, list.text);
}

static void put_question(mal_page *p, const mal_answer *a) {
  const mal_plan *plan = &a->plan;
  const mal_job *j = &plan->job;
  put_model(p, plan);
  put_defaults(p, &plan->model);
  put_machine(p, plan);
  put_own(p, &plan->machine, plan->machine_spec);
  mal_page_field(
      p, LABEL, _("job"),
      P_("%s in %s with %s (%s), sequences of %s token", "%s in %s with %s (%s), sequences of %s tokens", j->seq),
      mal_train_name[j->train], mal_precision_name[j->precision], mal_optimizer_name[j->optimizer],
      mal_types_words(p->arena, plan->profile, j), mal_show_int(j->seq));
  mal_page_field(p, LABEL, _("layout"), "%s", mal_spaced(p->arena, mal_plan_layout(p->arena, plan)));
  mal_page_field(p, LABEL, _("batch"),
                 P_("%s sequence (micro-batch × accumulation × dp), %s tokens a step",
                    "%s sequences (micro-batch × accumulation × dp), %s tokens a step", j->global_batch),
                 plan->arithmetic, mal_show_int(j->global_batch * j->seq));
  mal_page_field(p, LABEL, _("profile"), _("%s%s: %s"), plan->profile->name,
                 plan->profile_spec && *plan->profile_spec ? "" : _(" (default for this layout)"),
                 plan->profile->title);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static const char *stage_words(const mal_answer *a, mal_arena *arena) {
  if (a->plan.layout.pp == 1) return _("every GPU");
  return mal_print(arena, _("each GPU of stage %d of %lld"), a->estimate.worst_stage + 1, (long long)a->plan.layout.pp);
}

static void put_verdict(mal_page *p, const mal_answer *a) {
  const mal_estimate *e = &a->estimate;
  int64_t missing = e->total_bytes - e->limit_bytes;
  mal_page_put(p, "\n");
  if (missing > 0) {
    mal_page_styled(p, MAL_WRONG, "%s", _("Does not fit: "));
    mal_page_wrap(p, strlen(_("Does not fit: ")), 0,
                  mal_print(p->arena, _("%s needs %s of %s usable, %s (%s bytes) too much."), stage_words(a, p->arena),
                            mal_show_bytes((double)e->total_bytes), mal_show_bytes((double)e->limit_bytes),
                            mal_show_bytes((double)missing), mal_show_int(missing)));
    return;
  }
  if (!e->host_fits || !e->nvme_fits) {
    const mal_stage *s = &a->program.stages[e->worst_stage];
    mal_page_styled(p, MAL_WRONG, "%s", _("Does not fit: "));
    mal_page_wrap(
        p, strlen(_("Does not fit: ")), 0,
        mal_print(p->arena,
                  P_("the GPU holds its part, but what is offloaded (%s to memory, %s to drives, for the %lld "
                     "GPU) is more than %s of the node.",
                     "the GPUs hold their part, but what is offloaded (%s to memory, %s to drives, for "
                     "each of %lld GPUs) is more than %s of a node.",
                     a->plan.machine.gpus_per_node),
                  mal_show_bytes((double)s->host_bytes), mal_show_bytes((double)s->nvme_bytes),
                  (long long)a->plan.machine.gpus_per_node, e->host_fits ? _("the drives") : _("the memory")));
    return;
  }
  bool sure = e->fits;
  const char *verdict = sure ? _("Fits: ") : _("May fit: ");
  const char *probability = e->fit_probability > 0.99 ? _("over 99 %") : percent(p->arena, e->fit_probability);
  mal_page_styled(p, sure ? MAL_GOOD : MAL_WARN, "%s", verdict);
  mal_page_wrap(
      p, strlen(verdict), 0,
      mal_print(p->arena,
                sure ? _("%s needs %s of %s usable, %s to spare (probability %s).")
                     : _("%s needs %s of %s usable, %s to spare; with the spread of such estimates it holds with "
                         "a probability of %s only."),
                stage_words(a, p->arena), mal_show_bytes((double)e->total_bytes),
                mal_show_bytes((double)e->limit_bytes), mal_show_bytes((double)-missing), probability));
}

static void put_memory(mal_page *p, const mal_answer *a) {
  const mal_estimate *e = &a->estimate;
  mal_table t;
  mal_page_styled(p, MAL_BOLD, _("\nMemory of %s\n"), stage_words(a, p->arena));
  mal_table_init(&t, p->arena, 2, "lrrl");
  for (int i = 0; i < MAL_MEM_CAUSES; i++) {
    double share = (double)e->memory_bytes[i] / (double)e->total_bytes;
    if (e->memory_bytes[i])
      mal_table_row(&t, MAL_PLAIN, _(mal_memory_name[i]), mal_show_bytes((double)e->memory_bytes[i]),
                    percent(p->arena, share), bar(p->arena, share));
  }
  mal_table_row(&t, MAL_BOLD, _("total"), mal_show_bytes((double)e->total_bytes), "", "");
  mal_table_put(&t, p);
  mal_page_put(p, _("  80 %% interval %s to %s\n"), mal_show_bytes(e->memory_interval.low),
               mal_show_bytes(e->memory_interval.high));
  const mal_stage *s = &a->program.stages[e->worst_stage];
  if (s->host_bytes || s->nvme_bytes)
    mal_page_put(p, _("  offloaded by each GPU: %s to memory, %s to drives\n"), mal_show_bytes((double)s->host_bytes),
                 mal_show_bytes((double)s->nvme_bytes));
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static void put_time(mal_page *p, const mal_answer *a) {
  const mal_estimate *e = &a->estimate;
  mal_table t;
  mal_page_styled(p, MAL_BOLD, _("\nTime of one step, by cause\n"));
  mal_table_init(&t, p->arena, 2, "lrrl");
  for (int i = 0; i < MAL_TIME_CAUSES; i++)
    if (e->time_s[i] > least_shown * e->step_s)
      mal_table_row(&t, MAL_PLAIN, _(mal_time_words[i]), mal_show_time(e->time_s[i]),
                    percent(p->arena, e->time_s[i] / e->step_s), bar(p->arena, e->time_s[i] / e->step_s));
  mal_table_row(&t, MAL_BOLD, _("step"), mal_show_time(e->step_s), "", "");
  mal_table_put(&t, p);
}

static const char *whole(double x) { return mal_show_int((int64_t)(x + 0.5)); }

static void put_speed(mal_page *p, const mal_answer *a) {
  const mal_estimate *e = &a->estimate;
  const mal_plan *plan = &a->plan;
  mal_dtype type = mal_precision_gemm((mal_precision)plan->job.precision);
  mal_page_put(p, "\n");
  bool of_profile = strcmp(e->interval_class, plan->profile->name) == 0;
  mal_page_field(p, LABEL, _("step"),
                 of_profile ? _("%s; 80 %% interval %s to %s (as wide as errors of the profile %s)")
                            : _("%s; 80 %% interval %s to %s (class: %s)"),
                 mal_show_time(e->step_s), mal_show_time(e->step_interval.low), mal_show_time(e->step_interval.high),
                 _(e->interval_class));
  double low = e->step_interval.low / e->step_s,
         high = e->step_interval.high / e->step_s; /* speed and cost go with the step */
  mal_page_field(p, LABEL, _("speed"), _("%s tokens/s (%s to %s), %s a GPU"), whole(e->tokens_per_s),
                 whole(e->tokens_per_s / high), whole(e->tokens_per_s / low),
                 mal_show_rate(e->model_flops_per_s_per_gpu, "FLOP/s"));
  mal_page_field(
      p, LABEL, "MFU",
      _("%.1f %% (model FLOPs, causal attention halved, recomputation not counted, over the dense %s peak of "
        "%s); HFU %.1f %% (all FLOPs executed)"),
      100 * e->mfu, mal_dtype_name[type], mal_show_rate(plan->machine.gpu->flops[type].value, "FLOP/s"), 100 * e->hfu);
  if (e->why && *e->why) mal_page_field(p, LABEL, _("because"), "%s", e->why);
}

/* --- energy and money --------------------------------------------------------------------------------------------- */

static const char *usd(mal_arena *a, double x) {
  return x >= 1000 ? mal_print(a, "USD %s", mal_show_count(x)) : mal_print(a, "USD %.3g", x);
}

static void put_cost(mal_page *p, const mal_answer *a) {
  const mal_estimate *e = &a->estimate;
  mal_page_field(p, LABEL, _("cost"), _("%s and %.3g kWh for a million tokens; the machine draws %s"),
                 e->usd_per_mtoken > 0 ? usd(p->arena, e->usd_per_mtoken) : _("no price known (--usd-per-gpu-hour)"),
                 e->kwh_per_mtoken, mal_show_rate(e->power_w, "W"));
  if (e->time_to_target_s <= 0) return;
  double low = e->step_interval.low / e->step_s, high = e->step_interval.high / e->step_s;
  mal_page_field(p, LABEL, _("target"), _("%s tokens: %s (%s to %s) at a goodput of %.2f %%, %s GPU-hours, %s%s"),
                 mal_show_count(e->tokens_to_target), mal_show_time(e->time_to_target_s),
                 mal_show_time(e->time_to_target_s * low), mal_show_time(e->time_to_target_s * high), 100 * e->goodput,
                 mal_show_count(e->gpu_hours), mal_show_rate(1000 * e->energy_kwh, "Wh"),
                 e->cost_usd > 0 ? mal_print(p->arena, _(", %s (%s to %s)"), usd(p->arena, e->cost_usd),
                                             usd(p->arena, e->cost_usd * low), usd(p->arena, e->cost_usd * high))
                                 : "");
}

static void put_promise(mal_page *p, const char *label, const char *limit, bool kept, const char *reached) {
  mal_page_styled(p, MAL_BOLD, "%-*s", LABEL, label);
  mal_page_styled(p, kept ? MAL_GOOD : MAL_WRONG, "%s", kept ? _("kept") : _("missed"));
  mal_page_put(p, _(": %s, of %s\n"), reached, limit);
}

static void put_promises(mal_page *p, const mal_answer *a) {
  const mal_job *j = &a->plan.job;
  if (j->deadline_s > 0)
    put_promise(p, _("deadline"), mal_show_time(j->deadline_s), mal_answer_in_time(a),
                mal_show_time(a->estimate.time_to_target_s));
  if (j->budget_usd > 0)
    put_promise(p, _("budget"), usd(p->arena, j->budget_usd), mal_answer_in_budget(a),
                usd(p->arena, a->estimate.cost_usd));
}

static void put_unverified(mal_page *p, const mal_answer *a) {
  enum { SHOWN = 6 };
  const char *names[SHOWN];
  int count = mal_unverified(p->arena, &a->plan.machine, names, SHOWN);
  if (!count) return;
  mal_page list;
  mal_page_init(&list, p->arena, false);
  for (int i = 0; i < count && i < SHOWN; i++) mal_page_put(&list, "%s%s", i ? ", " : "", names[i]);
  if (count > SHOWN) mal_page_put(&list, _(" and %d more"), count - SHOWN);
  mal_page_put(p, "\n");
  mal_page_styled(p, MAL_WARN, "%s", "UNVERIFIED");
  mal_page_put(p, " ");
  mal_page_wrap(
      p, LABEL + 1, LABEL + 1,
      mal_print(p->arena, _("%s: nobody read a source (malha machines %s)"), list.text, a->plan.machine_spec));
}

/* --- what would make it fit --------------------------------------------------------------------------------------- */

static void put_remedies(mal_page *p, const mal_answer *a) {
  mal_page_styled(p, MAL_BOLD, "%s", _("\nWhat would make it fit, each with its cost (nothing was switched)\n"));
  if (!a->n_remedies) {
    mal_page_put(p, "%s", _("  none of the changes that were tried is enough\n"));
    return;
  }
  const mal_estimate *asked = &a->estimate;
  bool target = asked->tokens_to_target > 0, priced = asked->usd_per_mtoken > 0;
  const char *reached = target ? mal_print(p->arena, _("%s tok"), mal_show_count(asked->tokens_to_target)) : "";
  mal_table t;
  mal_table_init(&t, p->arena, 2, "rrrw");
  mal_table_row(&t, MAL_DIM, _("memory"), "tokens/s", target ? reached : priced ? "USD/Mtok" : "", _("add"));
  for (int i = 0; i < a->n_remedies; i++) {
    const mal_remedy *r = &a->remedies[i];
    const mal_estimate *e = &r->estimate;
    const char *cost = target   ? mal_show_time(e->time_to_target_s)
                       : priced ? mal_print(p->arena, "%.3g", e->usd_per_mtoken)
                                : "";
    mal_table_row(&t, MAL_PLAIN, mal_show_bytes((double)e->total_bytes), mal_show_int((int64_t)(e->tokens_per_s + 0.5)),
                  cost, mal_print(p->arena, "%s: %s", r->change, r->words));
  }
  mal_table_put(&t, p);
}

void mal_report_plan(mal_page *p, const mal_answer *a) {
  put_question(p, a);
  if (a->inverse) mal_report_inverse(p, a);
  put_verdict(p, a);
  put_memory(p, a);
  if (a->estimate.within) {
    put_time(p, a);
    put_speed(p, a);
    put_cost(p, a);
    put_promises(p, a);
  } else {
    mal_page_put(p, _("\nWere memory no limit: "));
    mal_page_put(p, _("%s a step, %s tokens/s\n"), mal_show_time(a->estimate.step_s),
                 mal_show_int((int64_t)(a->estimate.tokens_per_s + 0.5)));
  }
  if (!mal_answer_fits(a)) put_remedies(p, a);
  if (a->search) mal_report_search(p, a);
  if (!a->search && a->take) mal_report_take(p, a->take);
  put_unverified(p, a);
  put_again(p, a->command);
}

/* --- several machines --------------------------------------------------------------------------------------------- */

static const char *fits_words(mal_arena *arena, const mal_answer *a) {
  const mal_estimate *e = &a->estimate;
  if (e->total_bytes > e->limit_bytes)
    return mal_print(arena, _("no: +%s"), mal_show_bytes((double)(e->total_bytes - e->limit_bytes)));
  if (!e->within) return _("no: host");
  return e->fits ? _("yes") : mal_print(arena, _("maybe: %.0f %%"), 100 * e->fit_probability);
}

void mal_report_side_by_side(mal_page *p, const mal_answer *answers, int count) {
  const mal_answer *first = NULL;
  for (int i = count; i--;)
    if (!answers[i].status) first = &answers[i];
  if (first) {
    put_model(p, &first->plan);
    put_defaults(p, &first->plan.model);
    mal_page_field(
        p, LABEL, _("job"),
        P_("%s in %s with %s, sequences of %s token", "%s in %s with %s, sequences of %s tokens", first->plan.job.seq),
        mal_train_name[first->plan.job.train], mal_precision_name[first->plan.job.precision],
        mal_optimizer_name[first->plan.job.optimizer], mal_show_int(first->plan.job.seq));
    mal_page_put(p, "\n");
  }
  mal_table t;
  bool refused = false, maybe = false, target = first && first->estimate.tokens_to_target > 0;
  mal_table_init(&t, p->arena, 0, "llrrrrr");
  mal_table_row(&t, MAL_DIM, _("machine"), _("fits"), _("step"), "tokens/s", "USD/Mtok", "kWh/Mtok",
                target ? mal_show_count(first->estimate.tokens_to_target) : "MFU");
  for (int i = 0; i < count; i++) {
    const mal_answer *a = &answers[i];
    const mal_estimate *e = &a->estimate;
    refused |= !a->status && !e->within;
    maybe |= !a->status && e->within && !e->fits;
    if (a->status)
      mal_table_row(&t, MAL_WARN, a->asked, _("no such split"), "", "", "", "", "");
    else
      mal_table_row(&t, e->fits ? MAL_PLAIN : MAL_WARN, a->inverse ? a->plan.machine_spec : a->asked,
                    fits_words(p->arena, a), mal_show_time(e->step_s), mal_show_int((int64_t)(e->tokens_per_s + 0.5)),
                    e->usd_per_mtoken > 0 ? mal_print(p->arena, "%.3g", e->usd_per_mtoken) : "-",
                    mal_print(p->arena, "%.3g", e->kwh_per_mtoken),
                    target ? mal_show_time(e->time_to_target_s) : mal_print(p->arena, "%.1f %%", 100 * e->mfu));
  }
  mal_table_put(&t, p);
  for (int i = 0; i < count; i++)
    if (!answers[i].status) put_own(p, &answers[i].plan.machine, answers[i].asked);
  for (int i = 0; i < count; i++)
    if (!answers[i].status && answers[i].inverse) mal_report_inverse(p, &answers[i]);
  for (int i = 0; i < count; i++)
    if (!answers[i].status && answers[i].search)
      mal_page_field(p, LABEL, _("layout"), "%s: %s", answers[i].asked,
                     mal_spaced(p->arena, mal_plan_layout(p->arena, &answers[i].plan)));
  for (int i = 0; i < count; i++)
    if (answers[i].status) {
      mal_page_put(p, "\n");
      mal_page_wrap(p, 0, 2, mal_print(p->arena, "%s: %s", answers[i].asked, answers[i].error.text));
    }
  if (first) {
    mal_page_put(p, "\n");
    mal_report_moves(p, answers, count);
    if (refused) mal_page_field(p, LABEL, _("no"), "%s", _("does not fit; speed and cost as if memory were no limit"));
    if (maybe)
      mal_page_field(p, LABEL, _("maybe"), "%s",
                     _("may fit: the probability is under 90 %, and only with that is it a fit"));
    if (target)
      mal_page_field(p, LABEL, mal_show_count(first->estimate.tokens_to_target), "%s",
                     _("time for so many tokens, failures and restarts included"));
    mal_page_field(p, LABEL, _("profile"), "%s", first->plan.profile->name);
  }
  put_again(p, answers->command);
}
