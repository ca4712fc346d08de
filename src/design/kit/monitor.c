#include "design/kit/monitor.h"
#include "core/catalog.h"
#include "core/csv.h"
#include "core/json.h"
#include <string.h>

typedef struct fact {
  const char *key, *value;
} fact;

/* What {names} in the catalogue's expressions stand for. */
static int facts_of(mal_arena *a, const mal_design *d, fact *f) {
  const mal_machine *m = &d->machine;
  mal_writing hcas = {.arena = a};
  int64_t rails = d->has_fabric ? d->compute.ask.rails : 0;
  for (int64_t r = 0; r < rails; r++) mal_write(&hcas, "%s%s", r ? "|" : "", mal_chassis_hca(a, d->chassis, r));
  double inlet =
      d->chassis->inlet_max_c.value > 0 ? d->chassis->inlet_max_c.value : d->site.inlet_c + d->site.rise_c / 2;
  int n = 0;
  f[n++] = (fact){"gpus", mal_print(a, "%lld", (long long)m->node->gpus)};
  f[n++] = (fact){"rails", mal_print(a, "%lld", (long long)rails)};
  f[n++] = (fact){"hcas", hcas.text ? hcas.text : "none"};
  f[n++] = (fact){"nic_bytes_per_s", mal_print(a, "%.0f", m->node->nic_bytes_per_s.value)};
  f[n++] = (fact){"inlet_max_c", mal_print(a, "%.0f", inlet)};
  f[n++] = (fact){"gpu_power_w", mal_print(a, "%.0f", m->gpu->tdp_w.value * (double)(d->nodes * m->node->gpus))};
  return n;
}

enum { FACTS = 6 };

static const char *filled(mal_arena *a, const char *text, const fact *f, int n) {
  mal_writing w = {.arena = a};
  for (const char *c = text; *c;) {
    int k = 0;
    while (k < n && !(*c == '{' && strncmp(c + 1, f[k].key, strlen(f[k].key)) == 0 && c[strlen(f[k].key) + 1] == '}'))
      k++;
    if (k < n)
      mal_write(&w, "%s", f[k].value), c += strlen(f[k].key) + 2;
    else
      mal_write(&w, "%c", *c++);
  }
  return w.text ? w.text : "";
}

static bool has(const mal_design *d, const char *needs, const char *what) {
  if (strstr(what, "DCGM_") && !d->software->of[MAL_SW_DCGM].version) return false;
  if (strcmp(needs, "dcgm") == 0) return d->software->of[MAL_SW_DCGM].version != NULL;
  if (strcmp(needs, "nvlink") == 0) return d->machine.node->nvlink_domain > 1;
  if (strcmp(needs, "infiniband") == 0) return d->has_fabric && d->leaf->kind == MAL_INFINIBAND;
  if (strcmp(needs, "ethernet") == 0) return d->has_fabric && d->leaf->kind == MAL_ETHERNET;
  return true;
}

typedef struct rows {
  mal_csv csv;
  fact facts[FACTS];
  mal_arena *arena;
} rows;

static mal_status open_rows(mal_arena *a, const mal_design *d, const char *name, rows *r, mal_error *e) {
  char *path;
  r->arena = a;
  facts_of(a, d, r->facts);
  mal_status s = mal_catalog_find(a, "monitoring", name, ".csv", "list of monitoring", &path, e);
  return s == MAL_OK ? mal_csv_read(a, path, &r->csv, e) : s;
}

static const char *cell(const rows *r, int i, const char *column) {
  return filled(r->arena, mal_csv_cell(&r->csv, i, mal_csv_column(&r->csv, column)), r->facts, FACTS);
}

mal_status mal_monitor_counters(mal_arena *a, const mal_design *d, char **text, mal_error *e) {
  rows r;
  mal_writing w = {.arena = a};
  mal_status s = open_rows(a, d, "counters", &r, e);
  if (s != MAL_OK) return s;
  mal_write(&w, "# dcgm-exporter -f THIS: field, type, help. Marked (+): not in the exporter's own list.\n");
  for (int i = 0; i < r.csv.rows; i++) {
    if (!has(d, cell(&r, i, "needs"), cell(&r, i, "field"))) continue;
    bool own = *cell(&r, i, "shipped_on") == '1';
    mal_writing help = {.arena = a}; /* a comma would end the help */
    for (const char *c = cell(&r, i, "help"); *c; c++) mal_write(&help, "%c", *c == ',' ? ';' : *c);
    mal_write(&w, "%s, %s, %s%s.\n", cell(&r, i, "field"), cell(&r, i, "type"), help.text, own ? "" : " (+)");
  }
  *text = w.text;
  return MAL_OK;
}

/* A YAML single-quoted scalar: only its quote must be doubled. */
static void put_yaml(mal_writing *w, const char *key, const char *value) {
  mal_write(w, "%s: '", key);
  for (const char *c = value; *c; c++) mal_write(w, *c == '\'' ? "''" : "%c", *c);
  mal_write(w, "'\n");
}

mal_status mal_monitor_alerts(mal_arena *a, const mal_design *d, char **text, mal_error *e) {
  rows r;
  mal_writing w = {.arena = a};
  mal_status s = open_rows(a, d, "alerts", &r, e);
  if (s != MAL_OK) return s;
  mal_write(&w, "groups:\n  - name: malha\n    rules:\n");
  for (int i = 0; i < r.csv.rows; i++) {
    if (!has(d, cell(&r, i, "needs"), cell(&r, i, "expr"))) continue;
    mal_write(&w, "      - alert: %s\n", cell(&r, i, "alert"));
    put_yaml(&w, "        expr", cell(&r, i, "expr"));
    mal_write(&w, "        for: %s\n        labels:\n          severity: %s\n        annotations:\n",
              cell(&r, i, "for"), cell(&r, i, "severity"));
    put_yaml(&w, "          summary", cell(&r, i, "summary"));
    put_yaml(&w, "          source", cell(&r, i, "source"));
  }
  *text = w.text;
  return MAL_OK;
}

/* Two panels a row, 12 of 24 columns each (Grafana's grid). */
mal_status mal_monitor_dashboard(mal_arena *a, const mal_design *d, char **text, mal_error *e) {
  rows r;
  mal_status s = open_rows(a, d, "panels", &r, e);
  if (s != MAL_OK) return s;
  json_t *panels = json_array();
  for (int i = 0, n = 0; i < r.csv.rows; i++) {
    if (!has(d, cell(&r, i, "needs"), cell(&r, i, "expr"))) continue;
    json_t *target = json_pack("[{s:s, s:s, s:b}]", "refId", "A", "expr", cell(&r, i, "expr"), "instant",
                               strcmp(cell(&r, i, "type"), "table") == 0);
    json_array_append_new(
        panels, json_pack("{s:i, s:s, s:s, s:{s:i, s:i, s:i, s:i}, s:{s:s, s:s}, s:{s:{s:s}, s:[]}, s:o}", "id", n + 1,
                          "title", cell(&r, i, "title"), "type", cell(&r, i, "type"), "gridPos", "x", n % 2 * 12, "y",
                          n / 2 * 8, "w", 12, "h", 8, "datasource", "type", "prometheus", "uid", "${datasource}",
                          "fieldConfig", "defaults", "unit", cell(&r, i, "unit"), "overrides", "targets", target));
    n++;
  }
  json_t *variable = json_pack("[{s:s, s:s, s:s}]", "name", "datasource", "type", "datasource", "query", "prometheus");
  json_t *board = json_pack("{s:s, s:s, s:i, s:s, s:{s:s, s:s}, s:{s:o}, s:o}", "title",
                            mal_print(a, "%lld x %s", (long long)d->nodes, d->machine.node->title), "uid", "malha",
                            "schemaVersion", 39, "refresh", "30s", "time", "from", "now-6h", "to", "now", "templating",
                            "list", variable, "panels", panels);
  *text = mal_json_dump(a, board);
  json_decref(board);
  return MAL_OK;
}

char *mal_monitor_prometheus(mal_arena *a, const mal_design *d) {
  static const struct {
    const char *job;
    int port;
    int kind;
  } jobs[] = {{"dcgm", 9400, MAL_UNIT_NODE},
              {"node", 9100, MAL_UNIT_NODE},
              {"storage", 9100, MAL_UNIT_STORAGE_SERVER},
              {"management", 9100, MAL_UNIT_MANAGEMENT}};
  mal_writing w = {.arena = a};
  mal_write(&w, "global:\n  scrape_interval: 15s\nrule_files:\n  - alerts.yml\nscrape_configs:\n");
  for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
    bool any = false;
    if (jobs[j].port == 9400 && !d->software->of[MAL_SW_DCGM].version) continue;
    for (int64_t i = 0; i < d->hall.n_units; i++) {
      if (d->hall.units[i].kind != jobs[j].kind) continue;
      if (!any) mal_write(&w, "  - job_name: %s\n    static_configs:\n      - targets:\n", jobs[j].job);
      any = true;
      mal_write(&w, "          - %s:%d\n", d->hall.units[i].name, jobs[j].port);
    }
  }
  return w.text;
}
