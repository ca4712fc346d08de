/* What a search found: how much was looked at, the next best, and why they lose. */
#include "core/units.h"
#include "price/risk.h"
#include "report/answer.h"
#include <math.h>

enum { LABEL = 10 };

/* Where `e` spends more than `best`: the cause that differs most. */
static const char *lost_where(mal_arena *a, const mal_estimate *best, const mal_estimate *e) {
  int worst = 0;
  for (int c = 1; c < MAL_TIME_CAUSES; c++)
    if (e->time_s[c] - best->time_s[c] > e->time_s[worst] - best->time_s[worst]) worst = c;
  double more = e->time_s[worst] - best->time_s[worst];
  if (!(more > 0)) return "";
  return mal_print(a, "+%s %s", mal_show_time(more), _(mal_time_words[worst]));
}

static const char *loses(mal_arena *a, const mal_choice *best, const mal_choice *f) {
  return mal_print(a, "%.1f %%", 100 * (f->estimate.step_s / best->estimate.step_s - 1));
}

static void put_next(mal_page *p, const mal_search_result *r) {
  mal_table t;
  mal_page_styled(p, MAL_BOLD, "%s", _("\nNext best\n"));
  mal_table_init(&t, p->arena, 2, "rrrlw");
  mal_table_row(&t, MAL_DIM, _("step"), _("loses"), _("memory"), _("by"), _("layout"));
  for (int i = 1; i < r->count; i++) {
    const mal_choice *f = &r->best[i];
    mal_table_row(&t, MAL_PLAIN, mal_show_time(f->estimate.step_s), loses(p->arena, &r->best[0], f),
                  mal_show_bytes((double)f->estimate.total_bytes),
                  lost_where(p->arena, &r->best[0].estimate, &f->estimate),
                  mal_spaced(p->arena, mal_plan_layout(p->arena, &f->plan)));
  }
  mal_table_put(&t, p);
}

/* Too close to call: only a measurement tells. */
static void put_close(mal_page *p, const mal_search_result *r) {
  double steps[MAL_TO_MEASURE + 1];
  int n = 0;
  for (; n < r->count && n < MAL_TO_MEASURE; n++) steps[n] = r->best[n].estimate.step_s;
  int close = mal_too_close(r->best[0].estimate.step_interval, steps, n);
  if (close < 2) return;
  mal_page_field(p, LABEL, _("measure"),
                 P_("the first %d is closer than the interval of its step time: run it first.",
                    "the first %d are closer together than the interval of their step time: "
                    "run these for some steps and keep the fastest.",
                    close),
                 close);
}

static void put_against(mal_page *p, const mal_answer *a) {
  const mal_choice *f = a->against;
  const mal_estimate *e = &f->estimate, *best = &a->estimate;
  const char *layout = mal_spaced(p->arena, mal_plan_layout(p->arena, &f->plan));
  mal_page_put(p, "\n");
  mal_page_field(p, LABEL, _("against"), "%s", layout);
  if (!e->fits)
    mal_page_field(p, LABEL, "", _("needs %s of %s: it holds with a probability of %.0f %%"),
                   mal_show_bytes((double)e->total_bytes), mal_show_bytes((double)e->limit_bytes),
                   100 * e->fit_probability);
  mal_page_field(p, LABEL, "", _("%s a step, %+.1f %%; by cause, against the layout above:"), mal_show_time(e->step_s),
                 100 * (e->step_s / best->step_s - 1));
  mal_table t;
  mal_table_init(&t, p->arena, LABEL, "lrrr");
  for (int c = 0; c < MAL_TIME_CAUSES; c++) {
    double more = e->time_s[c] - best->time_s[c];
    if (fabs(more) < 0.0005 * best->step_s) continue;
    mal_table_row(&t, more > 0 ? MAL_WARN : MAL_PLAIN, _(mal_time_words[c]), mal_show_time(best->time_s[c]),
                  mal_show_time(e->time_s[c]),
                  mal_print(p->arena, "%s%s", more > 0 ? "+" : "-", mal_show_time(fabs(more))));
  }
  mal_table_put(&t, p);
}

void mal_report_take(mal_page *p, const char *command) {
  mal_page_styled(p, MAL_BOLD, "%-*s", LABEL, _("take it"));
  mal_page_command(p, LABEL, LABEL + 2, command);
}

void mal_report_search(mal_page *p, const mal_answer *a) {
  const mal_search_result *r = a->search;
  mal_page_put(p, "\n");
  mal_page_field(p, LABEL, _("searched"),
                 r->count ? _("%s layouts that can be lowered: this is the best of them (proven by bounds)")
                          : _("%s layouts that can be lowered: none holds with the probability wanted; shown is what "
                              "comes nearest"),
                 mal_show_count(r->valid));
  if (a->take) mal_report_take(p, a->take);
  if (r->count > 1) {
    put_close(p, r);
    put_next(p, r);
  }
  if (a->what_ifs) mal_report_what_ifs(p, a);
  if (a->against) put_against(p, a);
}

json_t *mal_report_search_json(const mal_search_result *r) {
  json_t *o = json_object();
  json_object_set_new(o, "space", json_real(r->space));
  json_object_set_new(o, "valid", json_real(r->valid));
  json_object_set_new(o, "bounded", json_real(r->bounded));
  json_object_set_new(o, "evaluated", json_real(r->evaluated));
  json_object_set_new(o, "fitting", json_real(r->fitting));
  json_object_set_new(o, "seconds", json_real(r->seconds));
  json_object_set_new(o, "optimum_proven", json_boolean(r->optimum_proven));
  return o;
}
