/* JSON, JUnit XML and Prometheus text. */
#include "report/health.h"
#include <stdio.h>
#include <string.h>

static json_t *text_or_null(const char *text) { return text ? json_string(text) : json_null(); }
static json_t *number_or_null(double x, bool known) { return known ? json_real(x) : json_null(); }

static json_t *finding_json(const mal_finding *f) {
  json_t *o = json_object();
  json_object_set_new(o, "rule", json_string(mal_rule_name[f->rule]));
  json_object_set_new(o, "severity", json_string(mal_severity_name[f->severity]));
  json_object_set_new(o, "device", json_string(f->device));
  json_object_set_new(o, "what", json_string(f->what));
  json_object_set_new(o, "cause", json_string(f->cause));
  json_object_set_new(o, "action", json_string(f->todo));
  json_object_set_new(o, "file", text_or_null(f->from.file));
  json_object_set_new(o, "line", f->from.line ? json_integer(f->from.line) : json_null());
  json_object_set_new(o, "count", json_integer(f->count));
  json_object_set_new(o, "last_line", f->last.line ? json_integer(f->last.line) : json_null());
  json_t *cost = json_object();
  json_object_set_new(cost, "all_reduce_bytes_per_s_before", number_or_null(f->busbw[0], f->costed && f->busbw[0] > 0));
  json_object_set_new(cost, "all_reduce_bytes_per_s_after", number_or_null(f->busbw[1], f->costed && f->busbw[0] > 0));
  json_object_set_new(cost, "nodes", f->costed ? json_integer(f->busbw_nodes) : json_null());
  json_object_set_new(cost, "step_s_before", number_or_null(f->step_s[0], f->costed && f->step_s[0] > 0));
  json_object_set_new(cost, "step_s_after", number_or_null(f->step_s[1], f->costed && f->step_s[0] > 0));
  json_object_set_new(o, "cost", f->costed ? cost : json_null());
  if (!f->costed) json_decref(cost);
  return o;
}

static json_t *bench_json(const mal_bench *b) {
  json_t *o = json_object(), *points = json_array();
  json_object_set_new(o, "tool", json_string(b->tool));
  json_object_set_new(o, "what", json_string(b->what));
  json_object_set_new(o, "file", json_string(b->file));
  json_object_set_new(o, "line", json_integer(b->line));
  json_object_set_new(o, "ranks", b->ranks ? json_integer(b->ranks) : json_null());
  json_object_set_new(o, "verdict", b->verdict < 0 ? json_null() : json_string(b->verdict ? "unhealthy" : "healthy"));
  json_object_set_new(o, "why", text_or_null(b->why));
  json_object_set_new(o, "expected_bytes_per_s", number_or_null(b->expected, b->expected > 0));
  for (int i = 0; i < b->n_points; i++) {
    json_t *p = json_object();
    json_object_set_new(p, "bytes", number_or_null(b->points[i].bytes, b->points[i].bytes > 0));
    json_object_set_new(p, "bytes_per_s", json_real(b->points[i].busbw));
    json_object_set_new(p, "line", json_integer(b->points[i].line));
    json_array_append_new(points, p);
  }
  json_object_set_new(o, "points", points);
  return o;
}

json_t *mal_report_health_json(const mal_health *h, const char *command) {
  json_t *o = json_object(), *findings = json_array(), *benches = json_array(), *inputs = json_array(),
         *unread = json_array(), *judged = json_array();
  for (int i = 0; i < h->n_findings; i++) json_array_append_new(findings, finding_json(&h->findings[i]));
  for (int i = 0; i < h->n_benches; i++) json_array_append_new(benches, bench_json(&h->benches[i]));
  for (int i = 0; i < h->n_inputs; i++) json_array_append_new(inputs, json_string(h->inputs[i]));
  for (int i = 0; i < h->n_unread; i++) json_array_append_new(unread, json_string(h->unread[i]));
  for (int r = 0; r < MAL_RULES; r++)
    if (h->judged[r]) json_array_append_new(judged, json_string(mal_rule_name[r]));
  json_object_set_new(o, "version", json_integer(MAL_HEALTH_VERSION));
  json_object_set_new(o, "healthy",
                      mal_health_judged(h) ? json_boolean(mal_health_worst(h) < MAL_SEV_ERROR) : json_null());
  json_object_set_new(o, "machine", h->has_machine ? json_string(h->machine.name) : json_null());
  json_object_set_new(o, "inputs", inputs);
  json_object_set_new(o, "unread", unread);
  json_object_set_new(o, "judged", judged);
  json_object_set_new(o, "findings", findings);
  json_object_set_new(o, "benchmarks", benches);
  json_object_set_new(o, "command", json_string(command));
  return o;
}

static const char *escaped(mal_arena *a, const char *text) {
  mal_writing w = {.arena = a};
  mal_write(&w, "%s", "");
  for (; *text; text++) {
    const char *as = *text == '<'   ? "&lt;"
                     : *text == '>' ? "&gt;"
                     : *text == '&' ? "&amp;"
                     : *text == '"' ? "&quot;"
                                    : NULL;
    if (as)
      mal_write(&w, "%s", as);
    else if ((unsigned char)*text >= ' ' || *text == '\n' || *text == '\t')
      mal_write(&w, "%c", *text);
  }
  return w.text;
}

/* One test case a rule: passed, failed, or skipped where nothing was there to judge. Warnings are in the output of a case that passed. */
char *mal_report_health_junit(mal_arena *a, const mal_health *h) {
  mal_writing cases = {.arena = a}, w = {.arena = a};
  int failed = 0, skipped = 0;
  for (int r = 0; r < MAL_RULES; r++) {
    mal_writing errors = {.arena = a}, others = {.arena = a};
    for (int i = 0; i < h->n_findings; i++) {
      const mal_finding *f = &h->findings[i];
      if (f->rule != (mal_rule)r) continue;
      mal_write(f->severity == MAL_SEV_ERROR ? &errors : &others, "%s%s%s: %s (%s:%d). %s. %s.\n", f->device,
                *f->device ? ": " : "", mal_severity_name[f->severity], f->what, f->from.file ? f->from.file : "-",
                f->from.line, f->cause, f->todo);
    }
    mal_write(&cases, "  <testcase classname=\"malha.check\" name=\"%s\">", mal_rule_name[r]);
    if (errors.text) {
      failed++;
      mal_write(&cases, "<failure message=\"%s\">%s</failure>", escaped(a, mal_rule_title[r]), escaped(a, errors.text));
    } else if (!h->judged[r]) {
      skipped++;
      mal_write(&cases, "<skipped/>");
    }
    if (others.text) mal_write(&cases, "<system-out>%s</system-out>", escaped(a, others.text));
    mal_write(&cases, "</testcase>\n");
  }
  mal_write(&w,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n <testsuite name=\"malha check\" tests=\"%d\" "
            "failures=\"%d\" errors=\"0\" skipped=\"%d\">\n%s </testsuite>\n</testsuites>\n",
            MAL_RULES, failed, skipped, cases.text);
  return w.text;
}

/* Label values: backslash, quote and newline escaped (Prometheus text format 0.0.4). */
static const char *label_value(mal_arena *a, const char *text) {
  mal_writing w = {.arena = a};
  mal_write(&w, "%s", "");
  for (; *text; text++)
    if (*text == '\\' || *text == '"')
      mal_write(&w, "\\%c", *text);
    else if (*text == '\n')
      mal_write(&w, "\\n");
    else
      mal_write(&w, "%c", *text);
  return w.text;
}

static void device_metric(mal_writing *w, const mal_health *h, const char *name, const char *help, mal_part_kind kind,
                          mal_fact_key key, double scale) {
  bool headed = false;
  for (int i = 0; i < h->topology.n_devices; i++) {
    const mal_part *d = &h->topology.devices[i];
    if (d->kind != kind || !mal_known(d, key)) continue;
    if (!headed) mal_write(w, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
    headed = true;
    mal_write(w, "%s{device=\"%s\"} %.17g\n", name, label_value(w->arena, mal_part_label(w->arena, d)),
              scale * mal_fact_number(d, key, 0));
  }
}

char *mal_report_health_prometheus(mal_arena *a, const mal_health *h) {
  mal_writing w = {.arena = a};
  mal_write(&w,
            "# HELP malha_check_rules_judged Rules that there was something to judge by.\n"
            "# TYPE malha_check_rules_judged gauge\nmalha_check_rules_judged %d\n",
            mal_health_judged(h));
  if (mal_health_judged(h)) /* unknown is not 1 */
    mal_write(&w,
              "# HELP malha_check_healthy 1 when no error was found.\n# TYPE malha_check_healthy "
              "gauge\nmalha_check_healthy %d\n",
              mal_health_worst(h) < MAL_SEV_ERROR);
  mal_write(&w, "# HELP malha_check_findings Findings by rule and severity; 0 where the rule was judged and nothing "
                "found.\n# TYPE malha_check_findings gauge\n");
  for (int r = 0; r < MAL_RULES; r++)
    for (int s = MAL_SEV_WARNING; h->judged[r] && s < MAL_SEVERITIES; s++) {
      int n = 0;
      for (int i = 0; i < h->n_findings; i++)
        n += h->findings[i].rule == (mal_rule)r && h->findings[i].severity == (mal_severity)s;
      mal_write(&w, "malha_check_findings{rule=\"%s\",severity=\"%s\"} %d\n", mal_rule_name[r], mal_severity_name[s],
                n);
    }
  device_metric(&w, h, "malha_check_gpu_temperature_celsius", "Temperature of the GPU.", MAL_PART_GPU, MAL_F_TEMP, 1);
  device_metric(&w, h, "malha_check_gpu_power_watts", "Power the GPU draws.", MAL_PART_GPU, MAL_F_POWER, 1);
  device_metric(&w, h, "malha_check_gpu_sm_clock_hertz", "SM clock of the GPU.", MAL_PART_GPU, MAL_F_SM_CLOCK, 1);
  device_metric(&w, h, "malha_check_nic_rate_bytes_per_second", "Rate of the port.", MAL_PART_NIC, MAL_F_RATE, 1.0 / 8);
  return w.text;
}
