/* One page that needs nothing else: numbers, pictures, tables, findings. */
#include "core/units.h"
#include "design/kit/acceptance.h"
#include "report/design.h"
#include "report/design_draw.h"
#include <string.h>

static const char style[] =
    ":root{--bg:#fbfbf9;--fg:#1c2330;--mut:#67707f;--line:#d9dde3;--card:#fff;--node:#2f6f8f;--fabric:#c26a3d;--store:"
    "#7a5ea8;--inband:#3f8f6b;--oob:#8a8f98;--mgmt:#a08a3c;--server:#5b7fb8;--cold:#e5f1f8;--hot:#fbeae3}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#14181f;--fg:#e7eaf0;--mut:#98a2b3;--line:#303844;--card:#1b212b;--"
    "cold:"
    "#1d2c38;--hot:#35241e}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}\n"
    "main{max-width:1060px;margin:0 auto;padding:28px 20px 60px}h1{font-size:28px;margin:0 0 "
    "4px}h2{font-size:19px;margin:40px "
    "0 10px}\n"
    ".sub{color:var(--mut);margin:0 0 "
    "20px}.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(180px,1fr));gap:"
    "12px}\n"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px}.card "
    "b{display:block;font-"
    "size:21px}.card span{color:var(--mut);font-size:13px}\n"
    ".pic{background:var(--card);border:1px solid "
    "var(--line);border-radius:8px;padding:14px;overflow-x:auto}svg{display:"
    "block;width:100%;height:auto}\n"
    "table{border-collapse:collapse;width:100%;font-size:14px}td,th{padding:5px 8px;border-bottom:1px solid "
    "var(--line);text-"
    "align:left}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\n"
    ".error{color:#c0392b}.warning{color:#b7791f}.note{color:var(--mut)}li{margin:6px 0}code{overflow-wrap:anywhere}\n"
    "text{fill:var(--fg);font:12px "
    "system-ui,sans-serif}text.small{font-size:11.5px;fill:var(--mut)}text.tiny{font-size:9."
    "5px;fill:var(--mut)}text.strong{font-weight:600}text.on{fill:#fff}\n"
    ".u,.r{stroke:none;rx:2}.node{fill:var(--node)}.fabric{fill:var(--fabric)}.store{fill:var(--store)}.inband{fill:"
    "var(--"
    "inband)}.oob{fill:var(--oob)}.mgmt,.manager{fill:var(--mgmt)}.server{fill:var(--server)}.other{fill:var(--store)}"
    "\n"
    ".frame{fill:none;stroke:var(--mut)}.tick{stroke:var(--line)}.cold{fill:var(--cold)}.hot{fill:var(--hot)}.link{"
    "stroke:var("
    "--node);stroke-width:.6;opacity:.45}.up{stroke:var(--fabric)}\n"
    ".tray{stroke:var(--inband);stroke-width:5;opacity:.35}.src{fill:#4a5568;rx:4}.pdu{fill:#9c4221;rx:4}.wire{stroke:"
    "var(--mut);stroke-width:1.5}\n"
    ".key{display:flex;flex-wrap:wrap;gap:14px;margin:8px 0 0;font-size:13px;color:var(--mut)}.key "
    "i{display:inline-block;"
    "width:12px;height:12px;border-radius:2px;margin-right:5px;vertical-align:-1px}\n";

static void card(mal_writing *w, const char *value, const char *words) {
  mal_write(w, "<div class=\"card\"><b>");
  mal_html_text(w, value);
  mal_write(w, "</b><span>");
  mal_html_text(w, words);
  mal_write(w, "</span></div>\n");
}

static void heading(mal_writing *w, const char *text) {
  mal_write(w, "<h2>");
  mal_html_text(w, text);
  mal_write(w, "</h2>\n");
}

static const char *watts(double w) { return mal_show_rate(w, "W"); }

static void put_cards(mal_writing *w, const mal_design *d) {
  mal_arena *a = w->arena;
  mal_write(w, "<div class=\"cards\">\n");
  card(w, mal_show_int(d->nodes * d->machine.node->gpus), d->machine.gpu->title);
  card(w, mal_show_int(d->nodes),
       d->spares ? mal_print(a, _("nodes, %lld of them spare"), (long long)d->spares) : P_("node", "nodes", d->nodes));
  card(w, mal_show_int(d->hall.n_racks), P_("rack", "racks", d->hall.n_racks));
  if (d->has_fabric) {
    card(w, mal_show_int(mal_network_switches(&d->compute)),
         mal_print(a, _("switches of the compute fabric, %s"), d->leaf->name));
    card(w, mal_show_int(d->n_cables), _("cables"));
    card(w, mal_show_rate(d->compute.bisection_bytes_per_s, "B/s"), _("bisection, one direction"));
    card(w, mal_show_int(d->storage.servers), _("storage servers"));
  }
  card(w, watts(d->peak.total_w), mal_print(a, _("peak; %s while training"), watts(d->training.total_w)));
  card(w, mal_print(a, "%.0f tons", d->cooling.tons),
       mal_print(a, _("of cooling (%s): %s"), watts(d->cooling.heat_w), d->cooling.method));
  mal_write(w, "</div>\n");
}

static void put_key(mal_writing *w, const mal_design *d) {
  mal_write(w, "<div class=\"key\">");
  for (int kind = 0; kind < MAL_UNIT_PDU; kind++) {
    bool there = false;
    for (int64_t i = 0; i < d->hall.n_units && !there; i++) there = d->hall.units[i].kind == kind;
    if (there)
      mal_write(w, "<span><i style=\"background:var(--%s)\"></i>%s</span>",
                kind == MAL_UNIT_FABRIC_MANAGER ? "mgmt" : mal_draw_class[kind] + 2, mal_unit_kind_name[kind]);
  }
  mal_write(w, "</div>\n");
}

static void put_findings(mal_writing *w, const mal_design *d) {
  static const char *const names[] = {"note", "warning", "error"};
  if (!d->n_findings) return;
  heading(w, _("What to look at"));
  mal_write(w, "<ul>\n");
  for (int severity = MAL_ERROR; severity >= MAL_NOTE; severity--)
    for (int i = 0; i < d->n_findings; i++) {
      if (d->findings[i].severity != severity) continue;
      mal_write(w, "<li><b class=\"%s\">%s</b> ", names[severity], names[severity]);
      mal_html_text(w, d->findings[i].text);
      mal_write(w, "</li>\n");
    }
  mal_write(w, "</ul>\n");
}

static void cell(mal_writing *w, const char *text, bool number) {
  mal_write(w, number ? "<td class=\"n\">" : "<td>");
  mal_html_text(w, text);
  mal_write(w, "</td>");
}

static void put_parts(mal_writing *w, const mal_design *d) {
  heading(w, _("Bill of materials"));
  mal_write(w, "<table><tr><th>%s</th><th class=\"n\">%s</th><th>%s</th><th>%s</th><th class=\"n\">%s</th></tr>\n",
            _("section"), _("count"), _("part"), _("rule"), d->site.currency);
  for (int i = 0; i < d->n_parts; i++) {
    const mal_part *p = &d->parts[i];
    mal_write(w, "<tr>");
    cell(w, i && strcmp(d->parts[i - 1].section, p->section) == 0 ? "" : p->section, false);
    cell(w, mal_show_int((int64_t)p->count), true);
    cell(w, p->title, false);
    cell(w, p->rule, false);
    cell(w, p->price >= 0 ? mal_show_int((int64_t)(p->price * p->count)) : "–", true);
    mal_write(w, "</tr>\n");
  }
  mal_write(w, "</table>\n");
}

static void table_head(mal_writing *w, const char *const *titles, int n, int numbers_from) {
  mal_write(w, "<table><tr>");
  for (int i = 0; i < n; i++) {
    mal_write(w, i >= numbers_from ? "<th class=\"n\">" : "<th>");
    mal_html_text(w, titles[i]);
    mal_write(w, "</th>");
  }
  mal_write(w, "</tr>\n");
}

static void power_row(mal_writing *w, const char *name, const mal_power_sum *p) {
  const double cells[] = {p->nodes_w, p->switches_w, p->storage_w, p->management_w, p->total_w};
  mal_write(w, "<tr>");
  cell(w, name, false);
  for (int i = 0; i < 5; i++) cell(w, watts(cells[i]), true);
  mal_write(w, "</tr>\n");
}

static void put_power(mal_writing *w, const mal_design *d) {
  const char *const titles[] = {_("draw"), _("nodes"), _("switches"), _("storage"), _("management"), _("total")};
  table_head(w, titles, 6, 1);
  power_row(w, _("at rest"), &d->idle);
  power_row(w, _("in training"), &d->training);
  power_row(w, _("at most"), &d->peak);
  mal_write(w, "</table>\n");
}

static void put_software(mal_writing *w, const mal_design *d) {
  const char *const titles[] = {_("software"), _("version"), _("source")};
  heading(w, mal_print(w->arena, _("Software, list %s of %s"), d->software->name, d->software->date));
  table_head(w, titles, 3, 3);
  for (int c = 0; c < MAL_COMPONENTS; c++) {
    if (!mal_software_runs(d->software, &d->machine, (mal_component)c)) continue;
    mal_write(w, "<tr>");
    cell(w, _(mal_component_title[c]), false);
    cell(w, d->software->of[c].version, false);
    cell(w, d->software->of[c].source, false);
    mal_write(w, "</tr>\n");
  }
  mal_write(w, "</table>\n");
}

static void put_acceptance(mal_writing *w, const mal_design *d) {
  mal_acceptance list[MAL_ACCEPTANCE_MOST];
  const char *const titles[] = {_("test on delivery"), _("what"), _("expect"), _("refuse below")};
  int n = mal_acceptance_list(w->arena, d, list);
  heading(w, _("Acceptance"));
  table_head(w, titles, 4, 2);
  for (int i = 0; i < n; i++) {
    const mal_acceptance *t = &list[i];
    mal_write(w, "<tr>");
    cell(w, t->name, false);
    cell(w, t->what, false);
    cell(w, t->expected > 0 ? mal_print(w->arena, "%.4g %s", t->expected, t->unit) : _("passes"), true);
    cell(w, t->expected > 0 ? mal_print(w->arena, "%.4g", t->reject) : "", true);
    mal_write(w, "</tr>\n");
  }
  mal_write(w, "</table>\n");
}

static void picture(mal_writing *w, const mal_design *d, const char *title,
                    void (*draw)(mal_writing *, const mal_design *)) {
  heading(w, title);
  mal_write(w, "<div class=\"pic\">\n");
  draw(w, d);
  mal_write(w, "</div>\n");
}

char *mal_report_design_html(mal_arena *a, const mal_design *d, const char *command) {
  mal_writing w = {.arena = a};
  mal_write(&w, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
                "content=\"width=device-width\">"
                "<title>");
  mal_html_text(&w, mal_print(a, _("%lld × %s"), (long long)d->nodes, d->machine.node->title));
  mal_write(&w, "</title><style>\n%s</style>\n<main>\n<h1>", style);
  mal_html_text(&w, mal_print(a, _("%s × %s"), mal_show_int(d->nodes), d->machine.node->title));
  mal_write(&w, "</h1>\n<p class=\"sub\">");
  mal_html_text(&w, mal_print(a, "%s: %s", d->site.name, d->site.title));
  mal_write(&w, "</p>\n");
  put_cards(&w, d);
  if (d->has_fabric) picture(&w, d, _("Compute fabric"), mal_draw_fabric);
  picture(&w, d, _("Floor plan"), mal_draw_floor);
  picture(&w, d, _("Rack elevations"), mal_draw_racks);
  put_key(&w, d);
  picture(&w, d, _("Power, one-line"), mal_draw_power);
  put_power(&w, d);
  put_findings(&w, d);
  put_parts(&w, d);
  put_software(&w, d);
  put_acceptance(&w, d);
  mal_write(&w, "<p class=\"sub\"><br>");
  mal_html_text(&w, _("Made by: "));
  mal_write(&w, "<code>");
  mal_html_text(&w, command);
  mal_write(&w, "</code></p>\n</main></html>\n");
  return w.text;
}
