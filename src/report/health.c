#include "report/health.h"
#include "core/units.h"
#include <math.h>
#include <string.h>

static const mal_style styles[] = {[MAL_SEV_NOTE] = MAL_DIM, [MAL_SEV_WARNING] = MAL_WARN, [MAL_SEV_ERROR] = MAL_WRONG};
_Static_assert(sizeof styles / sizeof *styles == MAL_SEVERITIES, "one style a severity");

static const char *severity_word(mal_severity s) {
  static const char *const words[] = {N_("note"), N_("warning"), N_("error")};
  return _(words[s]);
}

static const char *place(mal_arena *a, const mal_evidence *e) {
  if (!e->file) return NULL;
  return e->line ? mal_print(a, "%s:%d", e->file, e->line) : e->file;
}

static void labelled(mal_page *p, const char *label, const char *text) {
  mal_page_put(p, "  %-9s ", label);
  mal_page_wrap(p, 12, 12, text);
}

/* "all-reduce of 8 GPUs 367 GB/s → 47 GB/s; a step of llama-3-8b 2.1 s → 9.4 s (+348 %)" */
static const char *cost_text(mal_arena *a, const mal_finding *f) {
  mal_writing w = {.arena = a};
  if (!f->costed) return NULL;
  if (f->busbw[0] > 0 && fabs(f->busbw[1] - f->busbw[0]) > 0.005 * f->busbw[0])
    mal_write(&w, f->busbw_nodes > 1 ? _("all-reduce over two nodes %s → %s") : _("all-reduce %s → %s"),
              mal_show_rate(f->busbw[0], "B/s"), mal_show_rate(f->busbw[1], "B/s"));
  if (f->step_s[0] > 0 && fabs(f->step_s[1] - f->step_s[0]) > 0.001 * f->step_s[0])
    mal_write(&w, _("%sa step of llama-3-8b (ZeRO-3, sequences of 4,096) %s → %s, %+.0f %%"), w.used ? "; " : "",
              mal_show_time(f->step_s[0]), mal_show_time(f->step_s[1]), 100 * (f->step_s[1] / f->step_s[0] - 1));
  return w.text;
}

static bool same_kind(const mal_finding *a, const mal_finding *b) {
  return a->rule == b->rule && a->severity == b->severity && strcmp(a->what, b->what) == 0 &&
         strcmp(a->cause, b->cause) == 0;
}

/* Findings alike on several devices are told once. */
static void put_finding(mal_page *p, const mal_health *h, int first) {
  const mal_finding *f = &h->findings[first];
  mal_writing devices = {.arena = p->arena};
  int alike = 0, lines = 0;
  for (int i = first; i < h->n_findings; i++) {
    if (!same_kind(f, &h->findings[i])) continue;
    if (*h->findings[i].device && alike < 8) mal_write(&devices, "%s%s", alike ? ", " : "", h->findings[i].device);
    alike++;
    lines += h->findings[i].count;
  }
  if (alike > 8) mal_write(&devices, _(" and %d more"), alike - 8);
  mal_page_put(p, "\n");
  mal_page_styled(p, styles[f->severity], "%s", severity_word(f->severity));
  mal_page_put(p, "  ");
  size_t column = strlen(severity_word(f->severity)) + 2;
  mal_page_wrap(p, column, column, devices.text ? mal_print(p->arena, "%s: %s", devices.text, f->what) : f->what);
  const char *where = place(p->arena, &f->from), *cost = cost_text(p->arena, f);
  labelled(p, _("rule"), mal_rule_name[f->rule]);
  if (where)
    labelled(p, _("evidence"),
             lines > alike && alike == 1 && f->last.line > f->from.line
                 ? mal_print(p->arena, _("%s, and %d more lines up to %d"), where, lines - alike, f->last.line)
             : lines > alike ? mal_print(p->arena, _("%s, and %d more lines"), where, lines - alike)
                             : where);
  labelled(p, _("cause"), f->cause);
  if (cost) labelled(p, _("cost"), cost);
  labelled(p, _("do"), f->todo);
}

static bool told_before(const mal_health *h, int i) {
  for (int j = 0; j < i; j++)
    if (same_kind(&h->findings[j], &h->findings[i])) return true;
  return false;
}

static void put_benches(mal_page *p, const mal_health *h) {
  if (!h->n_benches) return;
  mal_table t;
  enum { SHOWN = 60 };
  mal_page_put(p, "\n");
  mal_page_styled(p, MAL_BOLD, "%s", _("Benchmarks"));
  mal_page_put(p, "\n");
  mal_table_init(&t, p->arena, 0, "lrrrlw");
  mal_table_row(&t, MAL_DIM, _("what"), _("ranks"), _("found"), _("should be"), "", _("file"));
  for (int i = 0; i < h->n_benches && i < SHOWN; i++) {
    const mal_bench *b = &h->benches[i];
    double best = 0;
    for (int k = 0; k < b->n_points; k++)
      if (b->points[k].busbw > best) best = b->points[k].busbw;
    const char *verdict = b->verdict < 0 ? _("not judged")
                          : b->verdict   ? _("UNHEALTHY")
                                         : _("healthy"),
               *base = strrchr(b->file, '/');
    const char *what = strlen(b->what) > 24 ? mal_print(p->arena, "%.23s…", b->what) : b->what;
    mal_table_row(
        &t,
        b->verdict > 0    ? MAL_WRONG
        : b->verdict == 0 ? MAL_PLAIN
                          : MAL_DIM,
        what, b->ranks ? mal_print(p->arena, "%lld", (long long)b->ranks) : "–",
        best > 0 ? mal_show_rate(best, "B/s") : "–", b->expected > 0 ? mal_show_rate(b->expected, "B/s") : "–", verdict,
        mal_print(p->arena, "%s:%d%s%s", base ? base + 1 : b->file, b->line, b->why ? "; " : "", b->why ? b->why : ""));
  }
  mal_table_put(&t, p);
  if (h->n_benches > SHOWN) mal_page_put(p, _("and %d more (--json has all)\n"), h->n_benches - SHOWN);
}

static void put_rules(mal_page *p, const mal_health *h) {
  mal_page_put(p, "\n");
  mal_page_styled(p, MAL_BOLD, "%s", _("Rules"));
  mal_page_put(p, "\n");
  for (int r = 0; r < MAL_RULES; r++) {
    int found = 0;
    for (int i = 0; i < h->n_findings; i++)
      found += h->findings[i].rule == (mal_rule)r && h->findings[i].severity > MAL_SEV_NOTE;
    mal_page_put(p, "  %-16s %-8s %s\n", mal_rule_name[r],
                 found          ? _("found")
                 : h->judged[r] ? _("well")
                                : _("not said"),
                 _(mal_rule_title[r]));
  }
}

static void put_head(mal_page *p, const mal_health *h) {
  for (int i = 0; i < h->n_inputs && i < 12; i++) {
    mal_page_put(p, "%-10s", i ? "" : _("read"));
    mal_page_wrap(p, 10, 10, h->inputs[i]);
  }
  if (h->n_inputs > 12) mal_page_put(p, _("          and %d more\n"), h->n_inputs - 12);
  if (h->has_machine) {
    mal_page_put(p, "%-10s", _("should be"));
    mal_page_wrap(p, 10, 10,
                  mal_print(p->arena, "%lld × %s, %s (%s)", (long long)mal_machine_gpus(&h->machine),
                            h->machine.gpu->title, h->machine.node->title, h->machine_why));
  }
  for (int i = 0; i < h->n_unread; i++) {
    mal_page_put(p, "%-10s", _("not read"));
    mal_page_wrap(p, 10, 10, mal_print(p->arena, _("%s: of no kind that malha check knows"), h->unread[i]));
  }
}

void mal_report_health(mal_page *p, const mal_health *h, bool all, const char *command) {
  int errors = mal_health_count(h, MAL_SEV_ERROR), warnings = mal_health_count(h, MAL_SEV_WARNING),
      judged = mal_health_judged(h);
  put_head(p, h);
  for (int i = 0; i < h->n_findings; i++)
    if (!told_before(h, i) && (all || h->findings[i].severity > MAL_SEV_NOTE)) put_finding(p, h, i);
  put_benches(p, h);
  if (all) put_rules(p, h);
  mal_page_put(p, "\n");
  mal_page_styled(p,
                  errors                ? MAL_WRONG
                  : warnings || !judged ? MAL_WARN
                                        : MAL_GOOD,
                  "%s",
                  errors    ? _("Sick")
                  : !judged ? _("Not judged")
                            : _("Well"));
  mal_page_put(p, _(": %d errors, %d warnings, %d notes; %d of %d rules could be judged\n"), errors, warnings,
               mal_health_count(h, MAL_SEV_NOTE), judged, MAL_RULES);
  if (h->left_out)
    mal_page_put(p, _("          %lld more lines tell of faults that are not kept: too many different ones\n"),
                 (long long)h->left_out);
  if (h->has_topology && all)
    for (int i = 0; i < h->topology.n_missing; i++) {
      mal_page_put(p, "%-10s", i ? "" : _("not known"));
      mal_page_wrap(p, 10, 10, h->topology.missing[i]);
    }
  mal_page_styled(p, MAL_DIM, "%s", _("again     "));
  mal_page_command(p, 10, 12, command);
}
