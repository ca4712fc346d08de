/* The design as JSON: docs/schema/design.json says what each key means. */
#include "core/options_json.h"
#include "design/cost.h"
#include "report/design.h"
#include "report/design_kit.h"
#include <math.h>

static void put(json_t *o, const char *key, json_t *value) { json_object_set_new(o, key, value); }
static void put_int(json_t *o, const char *key, int64_t n) { put(o, key, json_integer(n)); }
static void put_real(json_t *o, const char *key, double x) { put(o, key, isfinite(x) ? json_real(x) : json_null()); }
static void put_text(json_t *o, const char *key, const char *text) {
  put(o, key, text ? json_string(text) : json_null());
}

static json_t *network_json(const mal_network *n) {
  json_t *o = json_object(), *cables = json_object();
  put_text(o, "switch", n->ask.leaf->name);
  put_text(o, "topology", mal_topology_name[n->ask.topology]);
  put_int(o, "tiers", n->tiers);
  put_int(o, "scalable_units", n->units);
  put_int(o, "nodes_per_unit", n->unit_nodes);
  put_int(o, "leaf", n->leaves);
  put_int(o, "spine", n->spines);
  put_int(o, "core", n->cores);
  put_int(cables, "node_leaf", n->cables[MAL_TIER_NODE]);
  put_int(cables, "leaf_spine", n->cables[MAL_TIER_SPINE]);
  put_int(cables, "spine_core", n->cables[MAL_TIER_CORE]);
  put(o, "cables", cables);
  put_int(o, "ports", n->ports);
  put_int(o, "ports_used", n->ports_used);
  put_int(o, "ports_free", n->ports - n->ports_used);
  put_real(o, "bisection_bytes_per_s", n->bisection_bytes_per_s);
  return o;
}

static json_t *networks_json(const mal_design *d) {
  json_t *o = json_object(), *inband = json_object(), *oob = json_object();
  put(o, "compute", network_json(&d->compute));
  put(o, "storage", network_json(&d->storage_network));
  put_text(inband, "switch", d->inband_switch->name);
  put_int(inband, "leaf", d->inband_leaves);
  put_int(inband, "core", mal_design_inband_cores(d));
  put(o, "inband", inband);
  put_text(oob, "switch", d->oob_switch->name);
  put_int(oob, "leaf", d->oob_switches);
  put(o, "oob", oob);
  if (d->grown.leaves) {
    json_t *grown = network_json(&d->grown);
    put_int(grown, "nodes", d->grown.ask.nodes);
    put_int(grown, "recabled", d->recabled);
    put(o, "grown", grown);
  }
  return o;
}

static json_t *storage_json(const mal_storage *s) {
  json_t *o = json_object();
  put_text(o, "server", s->server->name);
  put_int(o, "servers", s->servers);
  put_text(o, "because", s->because);
  put_real(o, "read_bytes_per_s", s->read_bytes_per_s);
  put_real(o, "write_bytes_per_s", s->write_bytes_per_s);
  put_real(o, "guided_read_bytes_per_s", s->guided_read);
  put_real(o, "guided_write_bytes_per_s", s->guided_write);
  put_real(o, "capacity_bytes", s->bytes);
  put_real(o, "checkpoint_bytes", s->ask.checkpoint_bytes);
  put_real(o, "checkpoint_interval_s", s->interval_s);
  put_real(o, "checkpoint_write_s", s->write_s);
  put_real(o, "checkpoint_stall_s", s->stall_s);
  put_real(o, "mttf_s", s->mttf_s);
  put_real(o, "goodput", s->ask.checkpoint_bytes > 0 ? s->goodput : NAN);
  put_real(o, "cache_share", s->cache_share);
  return o;
}

static json_t *racks_json(const mal_design *d) {
  json_t *all = json_array();
  for (int64_t i = 0; i < d->hall.n_racks; i++) {
    const mal_rack *r = &d->hall.racks[i];
    json_t *o = json_object(), *units = json_array();
    put_int(o, "rack", i + 1);
    put_text(o, "holds", r->nodes ? "nodes" : "network");
    put_int(o, "row", r->row + 1);
    put_int(o, "column", r->column + 1);
    put_real(o, "ru", r->ru);
    put_real(o, "kg", r->kg + d->site.rack_empty_kg);
    put_real(o, "max_w", r->max_w);
    put_real(o, "training_w", r->training_w);
    for (int64_t k = 0; k < r->count; k++) {
      const mal_unit *u = &d->hall.units[d->hall.order[r->first + k]];
      json_array_append_new(units, json_pack("{s:s, s:s, s:I, s:f}", "name", u->name, "model", u->model, "u",
                                             (json_int_t)u->bottom_u, "ru", u->ru));
    }
    put(o, "units", units);
    json_array_append_new(all, o);
  }
  return all;
}

static json_t *sum_json(const mal_power_sum *s) {
  json_t *o = json_object();
  put_real(o, "nodes_w", s->nodes_w);
  put_real(o, "switches_w", s->switches_w);
  put_real(o, "storage_w", s->storage_w);
  put_real(o, "management_w", s->management_w);
  put_real(o, "total_w", s->total_w);
  return o;
}

static json_t *power_json(const mal_design *d) {
  json_t *o = json_object();
  put(o, "idle", sum_json(&d->idle));
  put(o, "training", sum_json(&d->training));
  put(o, "peak", sum_json(&d->peak));
  put_real(o, "circuit_w", mal_site_circuit_w(&d->site));
  put_int(o, "circuits", d->pdus);
  put_text(o, "redundancy", mal_redundancy_name[d->site.redundancy]);
  put_real(o, "worst_line_a", d->worst.line_a);
  put_real(o, "line_limit_a", d->site.breaker_a * d->site.derating);
  put_real(o, "phase_imbalance", d->worst.imbalance);
  put_real(o, "facility_w", d->peak.total_w * d->site.pue);
  put_real(o, "ups_wh", d->ups_wh);
  put_real(o, "generator_w", d->generator_w);
  put_real(o, "swing_w", d->swing_w);
  put_real(o, "energy_wh_per_day", d->energy_wh_per_day);
  put_real(o, "kg_co2_per_day", d->site.kg_co2_per_kwh > 0 ? d->kg_co2_per_day : NAN);
  return o;
}

static json_t *cooling_json(const mal_design *d) {
  const mal_cooling *c = &d->cooling;
  json_t *o = json_object();
  put_real(o, "heat_w", c->heat_w);
  put_real(o, "btu_per_h", c->btu_per_h);
  put_real(o, "tons", c->tons);
  put_real(o, "airflow_m3_per_s", c->airflow_m3_per_s);
  put_real(o, "published_airflow_m3_per_s", c->published_m3_per_s > 0 ? c->published_m3_per_s : NAN);
  put_real(o, "densest_rack_w", c->rack_w);
  put_text(o, "method", c->method);
  return o;
}

static json_t *bill_json(const mal_design *d) {
  json_t *all = json_array();
  for (int i = 0; i < d->n_parts; i++) {
    const mal_part *p = &d->parts[i];
    json_t *o = json_object();
    put_text(o, "section", p->section);
    put_text(o, "part", p->part);
    put_text(o, "title", p->title);
    put_int(o, "count", (int64_t)p->count);
    put_text(o, "rule", p->rule);
    put_real(o, "price", p->price >= 0 ? p->price : NAN);
    put_text(o, "price_source", p->price_source);
    json_array_append_new(all, o);
  }
  return all;
}

static json_t *cost_json(const mal_design *d) {
  json_t *o = json_object();
  mal_cost c;
  mal_design_cost(d, &c);
  put_text(o, "currency", d->site.currency);
  put_real(o, "capex", c.priced ? c.capex : NAN);
  put_int(o, "rows_priced", c.priced);
  put_int(o, "rows", c.parts);
  put_real(o, "energy_per_day", d->site.per_kwh > 0 ? d->cost_per_day : NAN);
  put_real(o, "per_gpu_hour", c.nodes_priced ? c.per_gpu_hour : NAN);
  put_real(o, "rent_per_gpu_hour", c.rent_per_gpu_hour > 0 ? c.rent_per_gpu_hour : NAN);
  put_real(o, "break_even_s", c.nodes_priced && c.break_even_s > 0 ? c.break_even_s : NAN);
  return o;
}

static json_t *findings_json(const mal_design *d) {
  static const char *const names[] = {"note", "warning", "error"};
  json_t *all = json_array();
  for (int i = 0; i < d->n_findings; i++)
    json_array_append_new(
        all, json_pack("{s:s, s:s}", "severity", names[d->findings[i].severity], "text", d->findings[i].text));
  return all;
}

static json_t *target_json(const mal_design *d, const mal_target *t) {
  json_t *o = json_object();
  put_text(o, "model", t->model);
  put_text(o, "machine", t->machine);
  put_text(o, "layout", t->layout);
  put_real(o, "tokens_per_s", t->estimate.tokens_per_s);
  put_real(o, "time_to_target_s", t->estimate.tokens_to_target > 0 ? t->estimate.time_to_target_s : NAN);
  put_real(o, "goodput", t->estimate.goodput);
  put_real(o, "checkpoint_bytes", t->checkpoint_bytes);
  put_real(o, "wh_per_token", mal_target_wh_per_token(d, t));
  return o;
}

json_t *mal_report_design_json(mal_arena *a, const mal_design *d, const mal_design_more *more, const char *command) {
  json_t *o = json_object(), *nodes = json_object();
  put_int(o, "version", MAL_DESIGN_VERSION);
  put_text(o, "command", command);
  put(o, "ask", mal_options_json(mal_design_ask_options, mal_design_ask_option_count, &d->ask));
  put(o, "target", more->target ? target_json(d, more->target) : json_null());
  put_text(nodes, "node", d->machine.node->name);
  put_int(nodes, "count", d->nodes);
  put_int(nodes, "spare", d->spares);
  put_int(nodes, "gpus", d->nodes * d->machine.node->gpus);
  put_int(nodes, "per_rack", d->hall.nodes_per_rack);
  put(o, "nodes", nodes);
  put(o, "compute", mal_report_compute_json(d));
  put(o, "network", d->has_fabric ? networks_json(d) : json_null());
  put(o, "storage", d->has_fabric ? storage_json(&d->storage) : json_null());
  put(o, "racks", racks_json(d));
  put(o, "floor",
      json_pack("{s:f, s:f, s:f, s:f, s:f}", "width_m", d->hall.width_m, "depth_m", d->hall.depth_m, "heaviest_rack_kg",
                d->heaviest_rack_kg, "kg_per_m2", d->floor_kg_per_m2, "kg_per_tile", d->tile_kg));
  put(o, "power", power_json(d));
  put(o, "cooling", cooling_json(d));
  put(o, "bom", bill_json(d));
  put(o, "cost", cost_json(d));
  put(o, "software", mal_report_software_json(d));
  put(o, "acceptance", mal_report_acceptance_json(a, d));
  put(o, "refresh", more->refresh ? mal_report_refresh_json(more->refresh) : json_null());
  put(o, "inference", more->served ? mal_report_serving_json(more->served) : json_null());
  put(o, "findings", findings_json(d));
  return o;
}
