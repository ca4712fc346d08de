/* Software and acceptance tests of a design, for people and as JSON. */
#include "report/design_kit.h"
#include "core/units.h"
#include "design/kit/acceptance.h"

static const char *amount(int kind, double x) {
  return kind == MAL_NEED_CORES ? mal_show_int((int64_t)x) : mal_show_bytes(x);
}

static void put_lanes(mal_page *p, const mal_compute *c) {
  mal_arena *a = p->arena;
  if (c->nic_slot_bytes_per_s <= 0) return;
  mal_page_put(p, "  ");
  if (!c->pcie_known) {
    mal_page_wrap(p, 2, 2,
                  mal_print(a, _("PCIe: %s for a GPU or an adapter of 16 lanes; what shares a switch is not known."),
                            mal_show_rate(c->nic_slot_bytes_per_s, "B/s")));
    return;
  }
  mal_page_wrap(
      p, 2, 2,
      mal_print(a,
                _("PCIe: %lld switches, each of %lld × GPU and %lld × NIC: %s. %.0f lanes down, %.0f up, %.1f to 1 "
                  "oversubscribed: from all GPUs to host memory at once %s. Drives: %s."),
                (long long)c->switches, (long long)c->gpus, (long long)c->nics,
                c->nics >= c->gpus ? _("GPUDirect RDMA stays under the switch")
                                   : _("GPUDirect RDMA crosses the processor for some"),
                c->lanes_down, c->lanes_up, c->lanes_down / c->lanes_up, mal_show_rate(c->copy_bytes_per_s, "B/s"),
                c->drives < 0 ? _("not known where") : _("under the same switches")));
}

void mal_report_compute(mal_page *p, const mal_design *d) {
  const mal_compute *c = &d->balance;
  mal_arena *a = p->arena;
  mal_table t;
  mal_page_styled(p, MAL_BOLD, "\n%s\n", _("A node"));
  mal_table_init(&t, a, 2, "lrrw");
  mal_table_row(&t, MAL_DIM, "", _("needed"), _("has"), "");
  for (int i = 0; i < MAL_NEED_KINDS; i++) {
    const mal_need *n = &c->needs[i];
    mal_writing parts = {.arena = a};
    for (int k = 0; k < n->n_parts; k++)
      mal_write(&parts, "%s%s %s", k ? ", " : "", _(n->parts[k].name), amount(i, n->parts[k].amount));
    if (n->n_parts || n->has > 0)
      mal_table_row(&t, n->has > 0 && n->needed > n->has ? MAL_WARN : MAL_PLAIN, _(mal_need_name[i]),
                    amount(i, n->needed), n->has > 0 ? amount(i, n->has) : "",
                    parts.text ? parts.text : _("nothing asked: --dataset, --checkpoint"));
  }
  mal_table_put(&t, p);
  put_lanes(p, c);
  if (!d->has_fabric || c->memory_share <= 0) return;
  mal_page_put(p, "  ");
  mal_page_wrap(p, 2, 2,
                mal_print(a, _("GPUDirect Storage: %s; reading %s through host memory takes %.1f %% of its bandwidth."),
                          c->direct_storage ? _("on") : _("off"), mal_show_rate(c->ask.node_read_bytes_per_s, "B/s"),
                          100 * c->memory_share));
}

json_t *mal_report_compute_json(const mal_design *d) {
  const mal_compute *c = &d->balance;
  json_t *o = json_object(), *needs = json_object();
  for (int i = 0; i < MAL_NEED_KINDS; i++) {
    const mal_need *n = &c->needs[i];
    json_t *parts = json_object();
    for (int k = 0; k < n->n_parts; k++) json_object_set_new(parts, n->parts[k].name, json_real(n->parts[k].amount));
    json_object_set_new(needs, mal_need_name[i],
                        json_pack("{s:f, s:o, s:o}", "needed", n->needed, "has",
                                  n->has > 0 ? json_real(n->has) : json_null(), "parts", parts));
  }
  json_object_set_new(o, "needs", needs);
  json_object_set_new(o, "pcie",
                      c->pcie_known ? json_pack("{s:I, s:I, s:I, s:f, s:f}", "switches", (json_int_t)c->switches,
                                                "gpus_each", (json_int_t)c->gpus, "nics_each", (json_int_t)c->nics,
                                                "lanes_down", c->lanes_down, "lanes_up", c->lanes_up)
                                    : json_null());
  json_object_set_new(o, "nic_slot_bytes_per_s", json_real(c->nic_slot_bytes_per_s));
  json_object_set_new(o, "copy_to_host_bytes_per_s", json_real(c->copy_bytes_per_s));
  json_object_set_new(o, "gpudirect_storage", json_boolean(c->direct_storage));
  return o;
}

void mal_report_software(mal_page *p, const mal_design *d) {
  const mal_software *s = d->software;
  mal_table t;
  mal_page_styled(p, MAL_BOLD, "\n%s\n", _("Software"));
  mal_page_put(p, "  ");
  mal_page_wrap(p, 2, 2,
                mal_print(p->arena, _("List %s, %s: %s. Known to go together as of then; --kit writes the sources."),
                          s->name, s->date, s->title));
  mal_table_init(&t, p->arena, 2, "lw");
  for (int c = 0; c < MAL_COMPONENTS; c++)
    if (mal_software_runs(s, &d->machine, (mal_component)c))
      mal_table_row(&t, MAL_PLAIN, _(mal_component_title[c]), s->of[c].version);
  mal_table_put(&t, p);
}

void mal_report_acceptance(mal_page *p, const mal_design *d) {
  mal_acceptance list[MAL_ACCEPTANCE_MOST];
  mal_arena *a = p->arena;
  mal_table t;
  int n = mal_acceptance_list(a, d, list);
  mal_page_styled(p, MAL_BOLD, "\n%s\n", _("Acceptance tests"));
  mal_table_init(&t, a, 2, "lrrl");
  mal_table_row(&t, MAL_DIM, _("test"), _("expect"), _("refuse below"), "");
  for (int i = 0; i < n; i++)
    if (list[i].expected > 0)
      mal_table_row(&t, MAL_PLAIN, list[i].name, mal_print(a, "%.4g", list[i].expected),
                    mal_print(a, "%.4g", list[i].reject), list[i].unit);
  mal_table_put(&t, p);
}

json_t *mal_report_software_json(const mal_design *d) {
  const mal_software *s = d->software;
  json_t *all = json_array();
  for (int c = 0; c < MAL_COMPONENTS; c++)
    if (mal_software_runs(s, &d->machine, (mal_component)c))
      json_array_append_new(all, json_pack("{s:s, s:s, s:s}", "component", mal_component_key[c], "version",
                                           s->of[c].version, "source", s->of[c].source));
  return json_pack("{s:s, s:s, s:o}", "list", s->name, "date", s->date, "components", all);
}

json_t *mal_report_acceptance_json(mal_arena *a, const mal_design *d) {
  mal_acceptance list[MAL_ACCEPTANCE_MOST];
  int n = mal_acceptance_list(a, d, list);
  json_t *all = json_array();
  for (int i = 0; i < n; i++) {
    const mal_acceptance *t = &list[i];
    json_t *o = json_pack("{s:s, s:I, s:s, s:s, s:s}", "stage", mal_delivery_stage_name[t->stage], "nodes",
                          (json_int_t)t->nodes, "test", t->name, "what", t->what, "command", t->command);
    json_object_set_new(o, "expected", t->expected > 0 ? json_real(t->expected) : json_null());
    json_object_set_new(o, "reject_below", t->expected > 0 ? json_real(t->reject) : json_null());
    json_object_set_new(o, "unit", json_string(t->unit));
    json_object_set_new(o, "source", t->source ? json_string(t->source) : json_null());
    json_array_append_new(all, o);
  }
  return all;
}
