#include "core/units.h"
#include "design/cost.h"
#include "report/design.h"
#include "report/design_kit.h"
#include <string.h>

enum { LABEL = 12 };

static const char *watts(double w) { return mal_show_rate(w, "W"); }
static const char *gbs(double x) { return mal_show_rate(x, "B/s"); }
static const char *count(int64_t n) { return mal_show_int(n); }

/* "1 node", "2 nodes". */
static const char *many(mal_arena *a, int64_t n, const char *words) {
  return mal_print(a, "%s %s", mal_show_int(n), words);
}

static void put_line(mal_page *p, const char *text) {
  mal_page_put(p, "  ");
  mal_page_wrap(p, 2, 2, text);
}

static void title(mal_page *p, const char *text) { mal_page_styled(p, MAL_BOLD, "\n%s\n", text); }

static void put_head(mal_page *p, const mal_design *d) {
  mal_arena *a = p->arena;
  int64_t gpus = d->nodes * d->machine.node->gpus;
  mal_page_field(p, LABEL, _("cluster"), _("%s of %s, %s %s%s"), many(a, d->nodes, P_("node", "nodes", d->nodes)),
                 d->machine.node->title, count(gpus), d->machine.gpu->title,
                 d->spares ? mal_print(a, _("; %s of them spare"), count(d->spares)) : "");
  mal_page_field(p, LABEL, _("site"), "%s: %s", d->site.name, d->site.title);
  const mal_node *n = d->machine.node;
  mal_page_field(p, LABEL, _("a node"),
                 _("%.0f cores in %.0f sockets, %s of memory, %.0f NVMe drives of %s together, "
                   "%.0f NICs of %.0f Gb/s"),
                 n->cpu_cores.value, n->cpu_sockets.value, mal_show_bytes(n->ram_bytes.value), n->nvme_drives.value,
                 mal_show_bytes(n->nvme_bytes.value), n->nics.value, n->nic_bytes_per_s.value * 8 / 1e9);
}

/* --- network --------------------------------------------------------------------------------------------------------- */

static void network_row(mal_table *t, const char *name, const mal_network *n) {
  mal_arena *a = t->arena;
  mal_table_row(t, MAL_PLAIN, name, mal_print(a, "%s", n->ask.leaf->name), count(n->leaves), count(n->spines),
                count(n->cores), count(n->cables[MAL_TIER_NODE]), count(n->cables[MAL_TIER_SPINE]),
                count(n->cables[MAL_TIER_CORE]), count(n->ports - n->ports_used));
}

static const char *shape(mal_arena *a, const mal_network *n) {
  if (n->tiers == 1) return _("one switch");
  if (n->ask.topology == MAL_TOPOLOGY_DRAGONFLY)
    return mal_print(a, _("dragonfly of %s of %lld switches"), many(a, n->groups, P_("group", "groups", n->groups)),
                     (long long)n->routers);
  const char *tiers = n->tiers == 3 ? _("leaf, spine and core") : _("leaf and spine");
  if (n->ask.topology == MAL_TOPOLOGY_TREE) return mal_print(a, _("tree of %s"), tiers);
  return mal_print(a, _("%s, rails: %s of %lld nodes with %s each"), tiers,
                   many(a, n->units, P_("scalable unit", "scalable units", n->units)), (long long)n->unit_nodes,
                   many(a, n->leaves_per_unit, P_("leaf", "leaves", n->leaves_per_unit)));
}

static void put_network(mal_page *p, const mal_design *d) {
  mal_arena *a = p->arena;
  mal_table t;
  title(p, _("Network"));
  mal_table_init(&t, a, 2, "llrrrrrrr");
  mal_table_row(&t, MAL_DIM, _("fabric"), _("switch"), _("leaf"), _("spine"), _("core"), _("to nodes"), _("to spine"),
                _("to core"), _("free"));
  network_row(&t, _("compute"), &d->compute);
  network_row(&t, _("storage"), &d->storage_network);
  int64_t zone_cores = d->inband_zones * d->inband_zone_cores;
  mal_table_row(&t, MAL_PLAIN, _("in-band"), d->inband_switch->name, count(d->inband_leaves), count(zone_cores),
                count(d->inband_supers), "", "", "", "");
  mal_table_row(&t, MAL_PLAIN, _("out-of-band"), d->oob_switch->name, count(d->oob_switches), "", "", "", "", "", "");
  mal_table_put(&t, p);
  put_line(p, mal_print(a, _("Compute: %s. %s of bisection, %s for each GPU."), shape(a, &d->compute),
                        gbs(d->compute.bisection_bytes_per_s),
                        gbs(2 * d->compute.bisection_bytes_per_s / (double)(d->nodes * d->machine.node->gpus))));
  if (d->grown.leaves)
    put_line(p,
             mal_print(a, _("Grown to %s: %lld leaf, %lld spine, %lld core; %s of today's %s cables move, %s are new."),
                       many(a, d->grown.ask.nodes, P_("node", "nodes", d->grown.ask.nodes)), (long long)d->grown.leaves,
                       (long long)d->grown.spines, (long long)d->grown.cores, count(d->recabled),
                       count(d->compute.cables[0] + d->compute.cables[1] + d->compute.cables[2]),
                       count(d->grown.cables[0] + d->grown.cables[1] + d->grown.cables[2] - d->compute.cables[0] -
                             d->compute.cables[1] - d->compute.cables[2])));
}

static void put_cables(mal_page *p, const mal_design *d) {
  static const char *const media[] = {"copper", "multimode", "single-mode"};
  int64_t n[3] = {0};
  double longest = 0;
  for (int64_t i = 0; i < d->n_cables; i++) {
    for (int m = 0; m < 3; m++) n[m] += strcmp(d->cables[i].medium, media[m]) == 0;
    if (d->cables[i].length_m > longest) longest = d->cables[i].length_m;
  }
  put_line(p, mal_print(p->arena, _("Cables: %s: %s copper, %s multimode, %s single-mode fibre; the longest is %g m."),
                        count(d->n_cables), count(n[0]), count(n[1]), count(n[2]), longest));
}

/* --- storage --------------------------------------------------------------------------------------------------------- */

static void put_storage(mal_page *p, const mal_design *d) {
  const mal_storage *s = &d->storage;
  title(p, _("Storage"));
  put_line(p,
           mal_print(p->arena, _("%s: %s. Set by %s."), many(p->arena, s->servers, P_("server", "servers", s->servers)),
                     s->server->title, _(s->because)));
  mal_table t;
  mal_table_init(&t, p->arena, 2, "lrrw");
  mal_table_row(&t, MAL_DIM, "", _("needed"), _("given"), "");
  mal_table_row(&t, MAL_PLAIN, _("read"), gbs(s->read_bytes_per_s),
                gbs((double)s->servers * s->server->read_bytes_per_s.value),
                mal_print(p->arena, _("guidance for %s"), mal_data_level_name[s->ask.level]));
  mal_table_row(&t, MAL_PLAIN, _("write"), gbs(s->write_bytes_per_s),
                gbs((double)s->servers * s->server->write_bytes_per_s.value),
                s->needed_write > s->guided_write ? _("checkpoints, for the goodput asked") : _("guidance"));
  mal_table_row(&t, MAL_PLAIN, _("capacity"), mal_show_bytes(s->bytes),
                mal_show_bytes((double)s->servers * s->server->bytes.value), _("filled to 80 % at most"));
  mal_table_put(&t, p);
  if (s->ask.checkpoint_bytes > 0)
    put_line(p, mal_print(p->arena,
                          _("A checkpoint of %s every %s (Young: %s) stops training for %s and is on storage after %s; "
                            "a node fails every %s; goodput %.1f %%."),
                          mal_show_bytes(s->ask.checkpoint_bytes), mal_show_time(s->interval_s),
                          mal_show_time(s->young_s), mal_show_time(s->stall_s), mal_show_time(s->write_s),
                          mal_show_time(s->mttf_s), 100 * s->goodput));
  double drives = (double)d->nodes * s->ask.node_nvme_bytes, shared = (double)s->servers * s->server->bytes.value;
  put_line(
      p, mal_print(
             p->arena,
             _("Tiers: the nodes' drives, %s, cache data and stage checkpoints; the shared file system, %s, keeps %lld "
               "of them; an object store takes older ones and a second copy of the dataset%s."),
             mal_show_bytes(drives), mal_show_bytes(shared), (long long)s->ask.kept,
             s->ask.dataset_bytes > 0 ? mal_print(p->arena, ", %s", mal_show_bytes(s->ask.dataset_bytes)) : ""));
  if (s->ask.dataset_bytes > 0)
    put_line(p, mal_print(p->arena, _("The nodes' own drives hold %.0f %% of the dataset."), 100 * s->cache_share));
}

/* --- racks, power, cooling ------------------------------------------------------------------------------------------- */

static void power_row(mal_table *t, const char *name, const mal_power_sum *s) {
  mal_table_row(t, MAL_PLAIN, name, watts(s->nodes_w), watts(s->switches_w), watts(s->storage_w),
                watts(s->management_w), watts(s->total_w));
}

static void put_racks(mal_page *p, const mal_design *d, const mal_target *target) {
  mal_arena *a = p->arena;
  const mal_hall *h = &d->hall;
  const mal_site *s = &d->site;
  double circuit = mal_site_circuit_w(s);
  title(p, _("Racks and power"));
  put_line(p, mal_print(a,
                        _("%s: %lld with %s of %lld nodes at most (%s sets that), %lld with switches, storage and "
                          "management; %s, %.0f m by %.0f m."),
                        many(a, h->n_racks, P_("rack", "racks", h->n_racks)), (long long)h->node_racks,
                        h->node_racks == 1 ? _("nodes,") : _("nodes, each"), (long long)h->nodes_per_rack,
                        _(mal_limit_words[h->limit]), (long long)(h->n_racks - h->node_racks),
                        many(a, h->rows, P_("row", "rows", h->rows)), h->width_m, h->depth_m));
  put_line(p, mal_print(a,
                        _("%s of %g V, %g A in %s: %.1f kW each, redundancy %s. Fullest line with the worst failure: "
                          "%.1f A of %.1f A; phases differ by %.0f %%."),
                        many(a, d->pdus, P_("circuit", "circuits", d->pdus)), s->volts, s->breaker_a,
                        s->phases == 3 ? _("three phases") : _("one phase"), circuit / 1e3,
                        mal_redundancy_name[s->redundancy], d->worst.line_a, s->breaker_a * s->derating,
                        100 * d->worst.imbalance));
  put_line(p, mal_print(a, _("The heaviest rack weighs %.0f kg: %.0f kg/m2, %.0f kg on a tile of %g m."),
                        d->heaviest_rack_kg, d->floor_kg_per_m2, d->tile_kg, s->tile_m));
  mal_table t;
  mal_table_init(&t, a, 2, "lrrrrr");
  mal_table_row(&t, MAL_DIM, "", _("nodes"), _("switches"), _("storage"), _("other"), _("total"));
  power_row(&t, _("idle"), &d->idle);
  power_row(&t, _("training"), &d->training);
  power_row(&t, _("peak"), &d->peak);
  mal_table_put(&t, p);
  put_line(p, mal_print(a, _("Facility %s at PUE %g; UPS %.0f kWh for %g min, generator %s; %.1f MWh a day."),
                        watts(d->peak.total_w * s->pue), s->pue, d->ups_wh / 1e3, s->ups_minutes, watts(d->generator_w),
                        d->energy_wh_per_day / 1e6));
  double token_wh = mal_target_wh_per_token(d, target);
  if (token_wh > 0)
    put_line(p, mal_print(a, _("A million trained tokens take %.3g kWh, the facility included%s."), token_wh * 1e3,
                          s->per_kwh > 0 ? mal_print(a, ", %s %.3g", s->currency, token_wh * 1e3 * s->per_kwh) : ""));
  if (s->per_kwh > 0 || s->kg_co2_per_kwh > 0)
    put_line(p, mal_print(a, _("A day costs %s %.0f of energy and gives %.0f kg of CO2."), s->currency, d->cost_per_day,
                          d->kg_co2_per_day));
  const mal_cooling *c = &d->cooling;
  title(p, _("Cooling"));
  mal_page_put(p, "  ");
  mal_page_wrap(p, 2, 2,
                mal_print(a,
                          _("%s of heat, %s BTU/h, %.0f tons; %.1f m3/s (%s CFM) of air warmed by %g K%s; densest rack "
                            "%s: %s."),
                          watts(c->heat_w), count((int64_t)c->btu_per_h), c->tons, c->airflow_m3_per_s,
                          count((int64_t)(c->airflow_m3_per_s * 2118.88)), d->site.rise_c,
                          c->published_m3_per_s > 0
                              ? mal_print(a, _(" (the nodes' data sheets: %.1f m3/s)"), c->published_m3_per_s)
                              : "",
                          watts(c->rack_w), c->method));
}

/* --- bill, findings -------------------------------------------------------------------------------------------------- */

static void put_cost(mal_page *p, const mal_design *d) {
  mal_arena *a = p->arena;
  mal_cost c;
  mal_design_cost(d, &c);
  if (!c.priced) {
    mal_page_styled(p, MAL_DIM, "%s", _("  No prices: give a file of part,price,currency with --prices.\n"));
    return;
  }
  put_line(p, mal_print(a, _("%s %s for the %d of %d rows that have a price."), d->site.currency,
                        mal_show_int((int64_t)c.capex), c.priced, c.parts));
  if (!c.nodes_priced) return;
  put_line(p, mal_print(a, _("A GPU-hour costs %s %.2f over %g years%s."), d->site.currency, c.per_gpu_hour, c.years,
                        d->site.per_kwh > 0 ? _(", energy included") : _(", without energy (per_kwh of the site)")));
  if (c.rent_per_gpu_hour <= 0) return;
  put_line(p, c.break_even_s < 0
                  ? mal_print(a, _("Renting at %s %.2f (%s) is cheaper for ever."), d->site.currency,
                              c.rent_per_gpu_hour, c.rent_source)
                  : mal_print(a, _("Against renting at %s %.2f (%s) it has paid for itself after %s of use."),
                              d->site.currency, c.rent_per_gpu_hour, c.rent_source, mal_show_time(c.break_even_s)));
}

static void put_parts(mal_page *p, const mal_design *d) {
  mal_arena *a = p->arena;
  mal_table t;
  const char *section = "";
  title(p, _("Bill of materials"));
  mal_table_init(&t, a, 2, "lrlw");
  for (int i = 0; i < d->n_parts; i++) {
    const mal_part *part = &d->parts[i];
    mal_table_row(&t, MAL_PLAIN, strcmp(section, part->section) ? part->section : "", count((int64_t)part->count),
                  part->part, part->rule);
    section = part->section;
  }
  mal_table_put(&t, p);
  put_cost(p, d);
}

static void put_findings(mal_page *p, const mal_design *d) {
  static const mal_style styles[] = {MAL_DIM, MAL_WARN, MAL_WRONG};
  const char *words[] = {_("note"), _("warning"), _("error")};
  if (d->n_findings) mal_page_put(p, "\n");
  for (int severity = MAL_ERROR; severity >= MAL_NOTE; severity--)
    for (int i = 0; i < d->n_findings; i++) {
      if (d->findings[i].severity != severity) continue;
      mal_page_styled(p, styles[severity], "%-*s", LABEL, words[severity]);
      mal_page_wrap(p, LABEL, LABEL, d->findings[i].text);
    }
}

typedef struct unverified {
  mal_arena *arena;
  const char *section, **names;
  int n, max;
} unverified;

static void note(void *context, const char *key, const mal_value *v) {
  unverified *u = context;
  if (v->value == 0 || mal_value_verified(v)) return;
  if (u->n < u->max) u->names[u->n] = mal_print(u->arena, "%s.%s", u->section, key);
  u->n++;
}

int mal_design_unverified(mal_arena *a, const mal_design *d, const char **names, int max) {
  unverified u = {a, "chassis", names, 0, max};
  mal_chassis_each(d->chassis, note, &u);
  if (!d->has_fabric) return u.n;
  const mal_switch *const switches[] = {d->leaf, d->inband_switch, d->oob_switch};
  for (int i = 0; i < 3; i++) u.section = switches[i]->name, mal_switch_each(switches[i], note, &u);
  u.section = d->management->name;
  mal_appliance_each(d->management, note, &u);
  if (d->managers) u.section = d->manager->name, mal_appliance_each(d->manager, note, &u);
  u.section = d->storage.server->name;
  mal_storage_server_each(d->storage.server, note, &u);
  return u.n;
}

static void put_target(mal_page *p, const mal_target *t) {
  const mal_estimate *e = &t->estimate;
  mal_page_field(p, LABEL, _("training"), _("%s on %s with %s: %s tokens/s%s; a checkpoint is %s"), t->model,
                 t->machine, mal_spaced(p->arena, t->layout), mal_show_int((int64_t)e->tokens_per_s),
                 e->tokens_to_target > 0 ? mal_print(p->arena, _(", the target in %s at a goodput of %.1f %%"),
                                                     mal_show_time(e->time_to_target_s), 100 * e->goodput)
                                         : "",
                 mal_show_bytes(t->checkpoint_bytes));
}

void mal_report_design(mal_page *p, const mal_design *d, const mal_design_more *more, const char *command) {
  mal_arena *a = p->arena;
  put_head(p, d);
  if (more->target) put_target(p, more->target);
  mal_report_compute(p, d);
  if (d->has_fabric) {
    put_network(p, d);
    put_cables(p, d);
    put_storage(p, d);
  }
  put_racks(p, d, more->target);
  put_parts(p, d);
  mal_report_software(p, d);
  mal_report_acceptance(p, d);
  if (more->refresh) mal_report_refresh(p, more->refresh);
  if (more->served) mal_report_serving(p, more->served);
  put_findings(p, d);
  const char *names[6];
  int n = mal_design_unverified(a, d, names, 6);
  char *list = mal_copy(a, "");
  for (int i = 0; i < n && i < 6; i++) list = mal_print(a, "%s%s%s", list, i ? ", " : "", names[i]);
  if (n > 6) list = mal_print(a, _("%s and %d more"), list, n - 6);
  if (n) {
    mal_page_put(p, "\n");
    mal_page_styled(p, MAL_WARN, "%-*s", LABEL, "UNVERIFIED");
    mal_page_wrap(p, LABEL, LABEL, mal_print(a, _("%s: nobody read a source"), list));
  }
  mal_page_put(p, "\n%s", _("again: "));
  mal_page_command(p, 7, 2, command);
}
