#include "core/units.h"
#include "program/program.h"
#include "report/validation.h"
#include <math.h>
#include <string.h>

enum { REASONS = 64 };

static const char *percent(mal_arena *a, double x) { return mal_print(a, "%.1f", 100 * x); }
static const char *signed_percent(mal_arena *a, double x) { return mal_print(a, "%+.1f", 100 * x); }

static const char *seconds(mal_arena *a, double s) {
  return mal_print(a, s < 1 ? "%.4f" : s < 100 ? "%.3f" : "%.1f", s);
}

/* One table for each run of rows of a family, so that all keep to 80 columns. */
static void put_rows(mal_page *p, const mal_validation *v) {
  mal_table t = {0};
  mal_arena *a = p->arena;
  const char *family = NULL;
  for (int i = 0; i < v->count; i++) {
    const mal_judged *j = &v->judged[i];
    if (j->skipped) continue;
    if (!family || strcmp(family, j->row->family) != 0) {
      if (family) mal_table_put(&t, p);
      if (family) mal_page_put(p, "\n");
      family = j->row->family;
      mal_page_styled(p, MAL_BOLD, "%s\n", family);
      mal_table_init(&t, a, 0, "lrrrrrl");
      mal_table_row(&t, MAL_BOLD, _("run"), _("measured s"), _("predicted s"), _("80 % interval"), _("error %"),
                    _("memory %"), _("fits"));
    }
    mal_style style = j->measured_from && fabs(j->error) > 0.25 ? MAL_WARN : MAL_PLAIN;
    mal_table_row(&t, style, j->row->trial->id, j->measured_from ? seconds(a, j->measured_s) : "-",
                  seconds(a, j->predicted_s), mal_print(a, "%s..%s", seconds(a, j->low_s), seconds(a, j->high_s)),
                  j->measured_from ? signed_percent(a, j->error) : "-",
                  j->measured_bytes > 0 ? signed_percent(a, j->memory_error) : "-", j->fits ? _("yes") : _("no"));
  }
  if (family) mal_table_put(&t, p);
  mal_page_put(p, "\n");
}

/* Bytes of the first line of a group's name, so that the table keeps to 80 columns. */
static size_t name_line(const char *name) {
  enum { WIDEST = 15 };
  size_t length = strlen(name), cut = WIDEST;
  if (length <= WIDEST) return length;
  while (cut && name[cut] != ' ' && name[cut - 1] != '-') cut--;
  if (cut) return cut;
  for (cut = WIDEST; ((unsigned char)name[cut] & 0xc0) == 0x80;) cut--;
  return cut;
}

static void put_group(mal_table *t, mal_arena *a, mal_style style, const mal_summary *m) {
  const char *name = m->name;
  for (size_t line; line = name_line(name), name[line]; name += line + strspn(name + line, " "))
    mal_table_row(t, style, mal_print(a, "%.*s", (int)line, name), "", "", "", "", "", "", "", "", "", "");
  bool timed = m->n > 0;
  mal_table_row(t, style, name, mal_print(a, "%d", m->n), timed ? percent(a, m->mean_abs_error) : "",
                timed ? percent(a, m->median_abs_error) : "", timed ? percent(a, m->p90_abs_error) : "",
                timed ? signed_percent(a, m->bias) : "", timed ? mal_print(a, "%.0f", 100 * m->interval_coverage) : "",
                timed ? mal_print(a, "%.0f", 100 * m->interval_width) : "",
                m->n_memory ? mal_print(a, "%d", m->n_memory) : "",
                m->n_memory ? percent(a, m->memory_median_abs_error) : "",
                m->n_memory ? percent(a, m->memory_p90_abs_error) : "");
}

static void put_groups(mal_page *p, const mal_validation *v) {
  mal_table t;
  mal_table_init(&t, p->arena, 0, "lrrrrrrrrrr");
  mal_table_row(&t, MAL_BOLD, mal_by_name[v->by], "n", _("mean"), _("med"), _("p90"), _("bias"), _("in80"), _("width"),
                _("n mem"), _("med"), _("p90"));
  for (int i = 0; i < v->n_groups; i++) put_group(&t, p->arena, MAL_PLAIN, &v->groups[i]);
  put_group(&t, p->arena, MAL_BOLD, &v->all);
  mal_table_put(&t, p);
}

/* Why rows were left out, with how many of each. */
static void put_skipped(mal_page *p, const mal_judged *judged, int count) {
  const char *reason[REASONS];
  int n[REASONS] = {0}, known = 0;
  for (int i = 0; i < count; i++) {
    int k = 0;
    if (!judged[i].skipped) continue;
    while (k < known && strcmp(reason[k], judged[i].skipped)) k++;
    if (k == known && known < REASONS) reason[known++] = judged[i].skipped;
    if (k < REASONS) n[k]++;
  }
  for (int k = 0; k < known; k++) mal_page_wrap(p, 0, 9, mal_print(p->arena, "%8d  %s", n[k], reason[k]));
}

static const char *ids(mal_arena *a, const mal_rank_group *g) {
  const char *text = g->pick->row->trial->id;
  for (int i = 1; i < g->n_close; i++) text = mal_print(a, "%s %s", text, g->close[i]->row->trial->id);
  return text;
}

static void put_ranking(mal_page *p, const mal_validation *v) {
  const mal_rank_summary *m = &v->all.rank;
  mal_arena *a = p->arena;
  mal_table t;
  if (!m->n) return;
  mal_page_styled(p, MAL_BOLD, "%s", _("\nLayouts of one model on one machine, ranked\n"));
  mal_table_init(&t, a, 0, "rrrrllw");
  mal_table_row(&t, MAL_DIM, _("regret %"), "rho", "n", _("oom"), _("best"), _("pick, measure"), _("group"));
  for (int i = 0; i < v->ranking.n; i++) {
    const mal_rank_group *g = &v->ranking.groups[i];
    mal_table_row(&t, g->failed || g->regret > 0.15 ? MAL_WARN : MAL_PLAIN,
                  g->failed ? _("ran out") : percent(a, g->regret), mal_print(a, "%.2f", g->spearman),
                  mal_print(a, "%d", g->n), mal_print(a, "%d", g->n_oom), g->best->row->trial->id, ids(a, g), g->name);
  }
  mal_table_put(&t, p);
  mal_page_put(p, "\n");
  mal_page_wrap(
      p, 0, 0,
      _("Groups of five and more layouts that differ in nothing else. rho: Spearman's rank correlation of "
        "predicted and measured time. pick: the fastest predicted that fits with a probability of 90 %; after "
        "it those inside its interval, which only a measurement tells apart. regret: measured time of the "
        "pick over that of the best, less 1; 100 % when the pick ran out of memory."));
  mal_page_put(p, _("Spearman: mean %.3f, least %.2f over %d groups\n"), m->spearman_mean, m->spearman_least, m->n);
  mal_page_put(p, _("Regret: mean %.1f %%, p90 %.1f %%, worst %.1f %%; %d picks ran out of memory\n"),
               100 * m->regret_mean, 100 * m->regret_p90, 100 * m->regret_max, m->n_failed);
  mal_page_put(p, _("Regret when the layouts named are measured: mean %.1f %%\n"), 100 * m->regret_close_mean);
}

void mal_report_validation(mal_page *p, const mal_validation *v, bool rows) {
  const mal_summary *m = &v->all;
  if (rows) put_rows(p, v);
  put_groups(p, v);
  mal_page_put(p, "\n");
  mal_page_wrap(
      p, 0, 0,
      _("Absolute error of step time in percent, bias with its sign; in80: rows inside the 80 % interval, width: "
        "its median width over the prediction; the last columns are peak memory. Families weigh the same in the "
        "last line."));
  mal_page_put(p, P_("Not judged: %d of %d row (%.1f %%)\n", "Not judged: %d of %d rows (%.1f %%)\n", v->count),
               m->skipped, v->count, v->count ? 100.0 * m->skipped / v->count : 0.0);
  put_skipped(p, v->judged, v->count);
  mal_page_put(p, _("Runs that ran said to fit: %.1f %% of %d\n"), 100 * m->fits_recall, m->n_fits);
  if (v->count_oom) {
    mal_page_put(p, _("Runs out of memory said not to fit: %.1f %% of %d\n"), 100 * m->oom_recall, m->n_oom);
    put_skipped(p, v->judged_oom, v->count_oom);
  }
  mal_page_put(p, _("Interval width of dense rows without blanks: %.1f %%\n"), 100 * m->interval_width_specified);
  put_ranking(p, v);
}

bool mal_report_validation_row(mal_page *p, const mal_validation *v, const char *id) {
  const mal_judged *j = NULL;
  for (int i = 0; i < v->count + v->count_oom && !j; i++) {
    const mal_judged *one = i < v->count ? &v->judged[i] : &v->judged_oom[i - v->count];
    if (!strcmp(one->row->trial->id, id)) j = one;
  }
  if (!j) return false;
  const mal_row *row = j->row;
  const mal_trial *t = row->trial;
  mal_page_styled(p, MAL_BOLD, "%s", t->id);
  mal_page_put(p, "  %s, %s, %lld x %s\n", t->framework, t->model_name, (long long)t->gpus, t->gpu);
  mal_page_field(p, 12, _("source"), "%s (%s)", t->source, row->framework->source);
  mal_page_field(p, 12, _("defaults"), "%s", *row->defaults ? row->defaults : _("none"));
  if (j->skipped) {
    mal_page_field(p, 12, _("not judged"), "%s", j->skipped);
    return true;
  }
  const mal_plan *plan = row->plan;
  mal_page_field(p, 12, _("model"), "%s", mal_spaced(p->arena, row->model_spec));
  mal_page_field(p, 12, _("machine"), "%s, %s, %.0f NICs of %s", plan->machine.name, plan->machine.node->name,
                 plan->machine.node->nics.value, mal_show_rate(plan->machine.node->nic_bytes_per_s.value, "B/s"));
  mal_page_field(p, 12, _("profile"), "%s", plan->profile->name);
  mal_page_field(p, 12, _("layout"), "%s; %s", mal_spaced(p->arena, mal_layout_show(p->arena, &plan->layout)),
                 plan->arithmetic);
  if (j->measured_from)
    mal_page_field(p, 12, _("step"), "%s measured (%s), %s predicted, error %+.1f %%", mal_show_time(j->measured_s),
                   j->measured_from, mal_show_time(j->predicted_s), 100 * j->error);
  if (j->measured_bytes > 0)
    mal_page_field(p, 12, _("memory"), "%s measured, %s predicted", mal_show_bytes(j->measured_bytes),
                   mal_show_bytes(j->predicted_bytes));
  else
    mal_page_field(p, 12, _("memory"), "%s predicted", mal_show_bytes(j->predicted_bytes));
  for (int c = 0; c < MAL_TIME_CAUSES; c++)
    if (j->time_s[c] > 0)
      mal_page_put(p, "  %-20s %10.4f s  %5.1f %%\n", _(mal_time_words[c]), j->time_s[c],
                   100 * j->time_s[c] / j->predicted_s);
  for (int c = 0; c < MAL_MEM_CAUSES; c++)
    if (j->memory_bytes[c] > 0)
      mal_page_put(p, "  %-20s %s\n", _(mal_memory_name[c]), mal_show_bytes((double)j->memory_bytes[c]));
  return true;
}

static void put_switch(mal_page *p, const char *key, const char *value) {
  if (value && *value) mal_page_put(p, ", %s=%s", key, value);
}

static void put_number(mal_page *p, const char *key, int64_t n) {
  if (n >= 0) mal_page_put(p, ", %s=%lld", key, (long long)n);
}

static void put_defaults(mal_page *p, const mal_framework *f) {
  const struct {
    const char *key, *value;
  } words[] = {{"recompute", f->recompute},
               {"attention", f->attention},
               {"precision", f->precision},
               {"optimizer", f->optimizer},
               {"vpp", f->vpp},
               {"etp", f->etp},
               {"lora-targets", f->lora_targets},
               {"selective", f->selective},
               {"layout", mal_spaced(p->arena, f->layout ? f->layout : "")},
               {"nics", f->nics},
               {"memory", f->memory},
               {"memory-unit", f->memory_unit}};
  const struct {
    const char *key;
    int64_t value;
  } numbers[] = {{"micro-batch", f->micro_batch},
                 {"micro-batch with pp", f->micro_batch_pp},
                 {"zero", f->zero},
                 {"sequence-parallel", f->seq_par},
                 {"flash", f->flash},
                 {"tp", f->tp},
                 {"pp", f->pp},
                 {"sample-tokens", f->sample_tokens > 0 ? f->sample_tokens : -1}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) put_switch(p, words[i].key, words[i].value);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) put_number(p, numbers[i].key, numbers[i].value);
}

/* What of a row, beside its framework, must match. */
static void put_patterns(mal_page *p, const mal_framework *f) {
  const struct {
    const char *column, *pattern;
  } all[] = {{"notes", f->notes},
             {"kernels", f->kernels},
             {"mixed_precision", f->mixed_precision},
             {"precision", f->match_precision},
             {"year", f->match_year}};
  const char *joint = _("; where ");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (!*all[i].pattern || strcmp(all[i].pattern, "*") == 0) continue;
    mal_page_put(p, "%s%s '%s'", joint, all[i].column, all[i].pattern);
    joint = ", ";
  }
}

void mal_report_defaults(mal_page *p, const mal_defaults *d) {
  mal_table t;
  mal_page_wrap(p, 0, 0,
                _("A blank of a run takes the value of its release's recipe (catalog/recipes), else of the first "
                  "line here whose patterns match (catalog/published/frameworks.csv)."));
  mal_page_put(p, "\n");
  mal_table_init(&t, p->arena, 0, "lw");
  mal_table_row(&t, MAL_BOLD, _("framework"), _("profile, and its switches"));
  for (int i = 0; i < d->n_frameworks; i++) {
    const mal_framework *f = &d->frameworks[i];
    mal_page cell;
    mal_page_init(&cell, p->arena, false);
    mal_page_put(&cell, "%s", *f->profile ? f->profile : _("the layout's default"));
    put_defaults(&cell, f);
    put_patterns(&cell, f);
    mal_table_row(&t, MAL_PLAIN, f->framework, cell.text);
  }
  mal_table_put(&t, p);
}
