/* Expected and found cables, for people and for programs. */
#include "core/units.h"
#include "report/design.h"
#include <math.h>
#include <string.h>

enum { LABEL = 12, ROWS = 40 };

static void put_leaves(mal_page *p, const mal_comparison *c) {
  mal_arena *a = p->arena;
  mal_table t;
  mal_table_init(&t, a, 2, "llrlw");
  mal_table_row(&t, MAL_DIM, _("fault"), _("at"), _("rail"), _("expected"), _("found"));
  for (int64_t i = 0; i < c->count && i < ROWS; i++) {
    const mal_cable_fault *f = &c->faults[i];
    mal_table_row(&t, MAL_WRONG, mal_fault_name[f->kind], f->leaf,
                  f->rail >= 0 ? mal_print(a, "%lld", (long long)f->rail) : "",
                  f->expected ? f->expected : _("nothing"), f->found ? f->found : _("nothing"));
  }
  mal_table_put(&t, p);
  if (c->count > ROWS)
    mal_page_styled(p, MAL_DIM, _("  and %s more (--json has all)\n"), mal_show_int(c->count - ROWS));
}

void mal_report_cabling(mal_page *p, const mal_design *d, const mal_comparison *c, const char *command) {
  mal_page_field(p, LABEL, _("cables"),
                 _("%s expected: %s right, %s missing, %s crossed, %s slow; %s more than expected"),
                 mal_show_int(c->expected), mal_show_int(c->right), mal_show_int(c->faults_of[MAL_CABLE_MISSING]),
                 mal_show_int(c->faults_of[MAL_CABLE_CROSSED]), mal_show_int(c->faults_of[MAL_CABLE_SLOW]),
                 mal_show_int(c->faults_of[MAL_CABLE_EXTRA]));
  if (c->unseen_devices)
    mal_page_field(
        p, LABEL, _("switches"),
        _("%s of the design's %s are not in the file at all: off, not installed yet, or named otherwise (--names)"),
        mal_show_int(c->unseen_devices),
        mal_show_int(mal_network_switches(&d->compute) + mal_network_switches(&d->storage_network)));
  if (c->up_bytes_per_s > 0)
    mal_page_field(p, LABEL, _("costs"),
                   _("%.1f %% of what leads up from the leaves, as much of the bisection bandwidth"),
                   100 * c->up_lost_bytes_per_s / c->up_bytes_per_s);
  if (c->count) {
    mal_page_put(p, "\n");
    put_leaves(p, c);
  }
  mal_page_put(p, "\n%s", _("again: "));
  mal_page_command(p, 7, 2, command);
}

json_t *mal_report_cabling_json(const mal_comparison *c, const char *command) {
  json_t *o = json_object(), *all = json_array();
  for (int64_t i = 0; i < c->count; i++) {
    const mal_cable_fault *f = &c->faults[i];
    json_t *one =
        json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:f}", "fault", mal_fault_name[f->kind], "network", f->network, "at",
                  f->leaf, "expected", f->expected, "found", f->found, "lost_bytes_per_s", f->lost_bytes_per_s);
    json_object_set_new(one, "rail", f->rail >= 0 ? json_integer(f->rail) : json_null());
    json_object_set_new(one, "line", f->line ? json_integer(f->line) : json_null());
    json_array_append_new(all, one);
  }
  json_object_set_new(o, "version", json_integer(1));
  json_object_set_new(o, "command", json_string(command));
  json_object_set_new(o, "expected", json_integer(c->expected));
  json_object_set_new(o, "right", json_integer(c->right));
  for (int k = 0; k < MAL_CABLE_FAULTS; k++) json_object_set_new(o, mal_fault_name[k], json_integer(c->faults_of[k]));
  json_object_set_new(o, "unseen_switches", json_integer(c->unseen_devices));
  json_object_set_new(o, "bisection_lost",
                      json_real(c->up_bytes_per_s > 0 ? c->up_lost_bytes_per_s / c->up_bytes_per_s : 0));
  json_object_set_new(o, "faults", all);
  return o;
}
