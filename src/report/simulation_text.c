/* A simulated step for people. */
#include "core/units.h"
#include "report/answer.h"
#include "report/simulation.h"
#include <math.h>
#include <string.h>

enum { LABEL = 10, BAR = 20, MOST_WAITS_SHOWN = 8, MOST_STAGES_SHOWN = 16 };
static const double least_shown = 0.0005; /* of a step */

static const char *percent(mal_arena *a, double share) {
  return mal_print(a, fabs(share) < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
}

static const char *bar(mal_arena *a, double share) {
  int full = share <= 0 ? 0 : share >= 1 ? BAR : (int)(share * BAR + 0.5);
  char *text = mal_alloc(a, BAR * 3 + 1);
  for (int i = 0; i < full; i++) strcat(text, "█");
  return text;
}

static void put_what(mal_page *p, const mal_simulation *s) {
  const mal_plan *plan = s->plan;
  mal_page_field(p, LABEL, _("simulated"), _("one step of %s on %s, %s GPUs, event by event"), plan->model.name,
                 plan->machine_spec, mal_show_int(s->step.ranks));
  mal_page_note(p, LABEL, _("defaults"), mal_model_defaults_words(p->arena, &plan->model));
  mal_page_field(p, LABEL, _("layout"), "%s", mal_spaced(p->arena, mal_plan_layout(p->arena, plan)));
  mal_page_field(p, LABEL, _("batch"), "%s", plan->arithmetic);
  if (s->step.classes * plan->layout.tp < s->step.ranks)
    mal_page_field(p, LABEL, _("played"),
                   _("%s classes of tensor-parallel groups that do the same, for all; %s events"),
                   mal_show_int(s->step.classes), mal_show_int(s->step.events));
  else
    mal_page_field(p, LABEL, _("played"), _("every rank, %s routing; %s events"), s->routing,
                   mal_show_int(s->step.events));
}

static void put_checkpoint(mal_page *p, const mal_simulated *r) {
  if (!(r->stalled_s > 0)) return;
  mal_page_field(p, LABEL, _("checkpoint"), _("training stands for %s; storage has it %s after the step began"),
                 mal_show_time(r->stalled_s), mal_show_time(r->written_s));
}

static void put_verdict(mal_page *p, const mal_simulation *s) {
  const mal_simulated *r = &s->step;
  mal_page_put(p, "\n");
  if (r->interrupted) {
    mal_page_styled(p, MAL_WARN, "%s", _("Interrupted: "));
    mal_page_wrap(p, strlen(_("Interrupted: ")), 0,
                  mal_print(p->arena, _("%.0f %% of the step was played, up to %s; what follows is of that part."),
                            100 * r->done, mal_show_time(r->played_s)));
    return;
  }
  if (!r->finished) {
    mal_page_styled(p, MAL_WRONG, "%s", _("The step never ends: "));
    mal_page_wrap(
        p, strlen(_("The step never ends: ")), 0,
        mal_print(p->arena, _("nothing moves after %s. %s."), mal_show_time(r->played_s), r->stuck ? r->stuck : ""));
    return;
  }
  double off = r->step_s / s->plan_step_s - 1;
  if (s->n_faults)
    mal_page_field(p, LABEL, _("step"), _("%s; without the faults %s, as planned %s"), mal_show_time(r->step_s),
                   mal_show_time(s->healthy.step_s), mal_show_time(s->plan_step_s));
  else
    mal_page_field(p, LABEL, _("step"), _("%s; as planned %s (%+.1f %%)"), mal_show_time(r->step_s),
                   mal_show_time(s->plan_step_s), 100 * off);
  put_checkpoint(p, r);
  mal_page_field(p, LABEL, _("bubble"), _("%s of the busiest rank, %lld: %s waiting for other stages"),
                 percent(p->arena, r->bubble_s / r->step_s), (long long)r->busiest_rank, mal_show_time(r->bubble_s));
}

static void put_time(mal_page *p, const mal_simulated *r) {
  mal_table t;
  double whole = r->finished ? r->step_s : r->played_s;
  if (!(whole > 0)) return;
  mal_page_styled(p, MAL_BOLD, _("\nTime of rank %lld, by cause\n"), (long long)r->busiest_rank);
  mal_table_init(&t, p->arena, 2, "lrrl");
  for (int c = 0; c < MAL_TIME_CAUSES; c++)
    if (r->time_s[c] > least_shown * whole)
      mal_table_row(&t, MAL_PLAIN, _(mal_time_words[c]), mal_show_time(r->time_s[c]),
                    percent(p->arena, r->time_s[c] / whole), bar(p->arena, r->time_s[c] / whole));
  mal_table_put(&t, p);
}

static void put_stages(mal_page *p, const mal_simulation *s) {
  mal_table t;
  int64_t pp = s->plan->layout.pp, shown = pp < MOST_STAGES_SHOWN ? pp : MOST_STAGES_SHOWN;
  if (pp < 2) return;
  mal_page_styled(p, MAL_BOLD, "%s", _("\nStages\n"));
  mal_table_init(&t, p->arena, 2, "rrrrr");
  mal_table_row(&t, MAL_DIM, _("stage"), _("computes"), _("exposed traffic"), _("waits"), _("memory"));
  for (int64_t i = 0; i < shown; i++) {
    const mal_simulated_stage *x = &s->step.stages[i];
    mal_table_row(&t, MAL_PLAIN, mal_print(p->arena, "%lld", (long long)i), mal_show_time(x->compute_s),
                  mal_show_time(x->exposed_s), mal_show_time(x->bubble_s), mal_show_bytes((double)x->memory_bytes));
  }
  mal_table_put(&t, p);
  if (shown < pp) mal_page_put(p, _("  and %lld more\n"), (long long)(pp - shown));
}

static void put_links(mal_page *p, const mal_simulated *r) {
  mal_table t;
  bool any = false;
  for (int i = 0; i < r->n_links; i++) any |= r->links[i].used >= least_shown / 10;
  if (!any) return;
  mal_page_styled(p, MAL_BOLD, "%s", _("\nLinks that ranks of several tensor-parallel groups share\n"));
  mal_table_init(&t, p->arena, 2, "lrrrrl");
  mal_table_row(&t, MAL_DIM, _("link"), _("links"), _("each"), _("used"), _("busy"), _("busiest"));
  for (int i = 0; i < r->n_links; i++) {
    const mal_simulated_link *l = &r->links[i];
    if (l->used < least_shown / 10) continue;
    mal_table_row(&t, MAL_PLAIN, l->name, mal_show_int(l->count), mal_show_rate(l->bytes_per_s, "B/s"),
                  percent(p->arena, l->used), mal_show_time(l->busy_s), l->busiest);
  }
  mal_table_put(&t, p);
}

static void put_faults(mal_page *p, const mal_simulation *s) {
  mal_table t;
  if (!s->n_faults) return;
  mal_page_styled(p, MAL_BOLD, "%s", _("\nWhat each fault costs by itself\n"));
  mal_table_init(&t, p->arena, 2, "rrw");
  for (int i = 0; i < s->n_faults; i++) {
    const mal_fault_cost *c = &s->faults[i];
    if (!c->finished)
      mal_table_row(&t, MAL_WRONG, _("stops"), "", c->fault->text);
    else
      mal_table_row(&t, MAL_PLAIN, mal_print(p->arena, "+%s", mal_show_time(fmax(0, c->cost_s))),
                    percent(p->arena, c->cost_s / s->healthy.step_s), c->fault->text);
  }
  mal_table_put(&t, p);
}

static void put_waits(mal_page *p, const mal_simulated *r) {
  int shown = r->n_waits < MOST_WAITS_SHOWN ? r->n_waits : MOST_WAITS_SHOWN;
  if (!shown) return;
  mal_page_styled(p, MAL_BOLD, "%s", _("\nWho waits for whom longest (each of them, in the step)\n"));
  for (int i = 0; i < shown; i++) {
    const mal_simulated_wait *w = &r->waits[i];
    mal_page_put(p, "  %9s  ", mal_show_time(w->seconds));
    mal_page_wrap(p, 13, 13, mal_print(p->arena, _("%s for %s (%s)"), w->waiter, w->culprit, w->where));
  }
}

static void put_horizon(mal_page *p, const mal_simulation *s) {
  const mal_horizon *h = s->horizon;
  if (!h) return;
  mal_page_styled(p, MAL_BOLD, _("\n%g days with failures\n"), s->days);
  mal_page_field(p, LABEL, _("goodput"),
                 _("%.2f %% of the time trains and is kept; 10th to 90th percentile %.2f to %.2f %% over %d runs"),
                 100 * h->goodput, 100 * h->low, 100 * h->high, h->runs);
  mal_page_field(p, LABEL, _("lost"),
                 _("%.2f %% computed again, %.2f %% restarting, %.2f %% checkpoints, %.2f %% waiting for a node"),
                 100 * h->lost_work, 100 * h->restarts, 100 * h->checkpoints, 100 * h->waits);
  mal_page_field(p, LABEL, _("failures"), _("%.1f a run, one every %s"), h->failures, mal_show_time(h->mttf_s));
  mal_page_field(p, LABEL, _("checkpoint"), _("every %s"), mal_show_time(h->interval_s));
  if (!(h->best_s > 0)) return;
  mal_table t;
  mal_table_init(&t, p->arena, 2, "lrr");
  mal_table_row(&t, MAL_DIM, _("interval"), "", _("goodput"));
  mal_table_row(&t, MAL_PLAIN, _("best as played"), mal_show_time(h->best_s),
                mal_print(p->arena, "%.2f %%", 100 * h->best_goodput));
  mal_table_row(&t, MAL_PLAIN, "Daly 2006", mal_show_time(h->daly_s),
                mal_print(p->arena, "%.2f %%", 100 * h->daly_goodput));
  mal_table_row(&t, MAL_PLAIN, "Young 1974", mal_show_time(h->young_s),
                mal_print(p->arena, "%.2f %%", 100 * h->young_goodput));
  mal_table_put(&t, p);
}

void mal_report_simulation(mal_page *p, const mal_simulation *s) {
  put_what(p, s);
  put_verdict(p, s);
  put_time(p, &s->step);
  put_stages(p, s);
  put_links(p, &s->step);
  put_faults(p, s);
  put_waits(p, &s->step);
  put_horizon(p, s);
  if (s->trace) mal_page_put(p, _("\ntrace: %s (https://ui.perfetto.dev)\n"), s->trace);
  if (s->svg) mal_page_put(p, _("\npicture: %s\n"), s->svg);
  mal_page_styled(p, MAL_DIM, "%s", _("\nagain: "));
  mal_page_command(p, strlen(_("\nagain: ")) - 1, 2, s->command);
}
