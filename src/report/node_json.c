#include "report/node.h"
#include <string.h>

static void set_text(json_t *o, const char *key, const char *text) {
  if (text) json_object_set_new(o, key, json_string(text));
}

static json_t *from_json(const mal_evidence *from) {
  if (!from->file) return NULL;
  json_t *o = json_object();
  set_text(o, "file", from->file);
  if (from->line) json_object_set_new(o, "line", json_integer(from->line));
  return o;
}

static json_t *device_json(mal_arena *a, const mal_part *d) {
  json_t *o = json_object(), *facts = json_object(), *links = json_array(), *counters = json_object();
  set_text(o, "kind", mal_part_kind_name[d->kind]);
  set_text(o, "label", mal_part_label(a, d));
  if (d->index >= 0) json_object_set_new(o, "index", json_integer(d->index));
  if (d->bus >= 0) set_text(o, "bus", mal_bus_show(a, d->bus));
  if (d->parent >= 0) set_text(o, "parent", mal_bus_show(a, d->parent));
  set_text(o, "name", d->name);
  for (int k = 0; k < MAL_FACTS; k++) {
    const mal_fact *f = &d->fact[k];
    if (f->known) json_object_set_new(facts, mal_fact_name[k], f->text ? json_string(f->text) : json_real(f->number));
  }
  json_object_set_new(o, "facts", facts);
  for (int i = 0; i < d->n_links; i++) {
    json_t *l = json_object();
    json_object_set_new(l, "active", d->links[i].active < 0 ? json_null() : json_boolean(d->links[i].active));
    if (d->links[i].bytes_per_s > 0) json_object_set_new(l, "bytes_per_s", json_real(d->links[i].bytes_per_s));
    if (d->links[i].errors >= 0) json_object_set_new(l, "errors", json_real(d->links[i].errors));
    json_array_append_new(links, l);
  }
  for (int i = 0; i < d->n_counters; i++)
    json_object_set_new(counters, d->counters[i].name, json_real(d->counters[i].value));
  if (d->n_links) json_object_set(o, "links", links);
  if (d->n_counters) json_object_set(o, "counters", counters);
  json_decref(links);
  json_decref(counters);
  json_t *from = from_json(&d->from);
  if (from) json_object_set_new(o, "from", from);
  return o;
}

static json_t *wires_json(mal_arena *a, const mal_topology *t) {
  json_t *list = json_array();
  for (int i = 0; i < t->n_wires; i++) {
    const mal_wire *w = &t->wires[i];
    json_t *o = json_object();
    set_text(o, "a", mal_part_label(a, &t->devices[w->a]));
    set_text(o, "b", mal_part_label(a, &t->devices[w->b]));
    set_text(o, "path", mal_path_show(a, w));
    for (int k = 0; k < 26; k++)
      if (w->peer[k]) set_text(o, mal_print(a, "p2p_%c", 'a' + k), w->peer[k]);
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *places_json(mal_arena *a, const mal_node_report *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->n_places; i++) {
    const mal_rank_place *x = &r->places[i];
    json_t *o = json_object();
    json_object_set_new(o, "rank", json_integer(x->rank));
    set_text(o, "gpu", mal_part_label(a, x->gpu));
    json_object_set_new(o, "numa", x->numa >= 0 ? json_integer(x->numa) : json_null());
    json_object_set_new(o, "cpus", x->cpus ? json_string(x->cpus) : json_null());
    json_t *nics = json_array();
    for (int k = 0; k < x->n_nics; k++) json_array_append_new(nics, json_string(mal_part_label(a, x->nics[k])));
    json_object_set_new(o, "nics", nics);
    json_object_set_new(o, "nic_path", x->n_nics ? json_string(mal_path_name[x->nic_path]) : json_null());
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *rides_json(const mal_node_report *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->n_rides; i++) {
    const mal_ride *x = &r->rides[i];
    json_t *o = json_object();
    set_text(o, "axis", x->axis);
    json_object_set_new(o, "size", json_integer(x->size));
    json_object_set_new(o, "stride", json_integer(x->stride));
    set_text(o, "first", x->ranks ? x->ranks : "");
    json_object_set_new(o, "path", x->here > 1 ? json_string(x->shown) : json_null());
    json_object_set_new(o, "crosses_nodes", json_boolean(x->crosses));
    json_array_append_new(list, o);
  }
  return list;
}

json_t *mal_report_node_json(const mal_node_report *r) {
  const mal_topology *t = r->topology;
  mal_arena *a = t->arena;
  json_t *o = json_object(), *devices = json_array(), *sources = json_array(), *missing = json_array();
  json_object_set_new(o, "version", json_integer(MAL_NODE_VERSION));
  json_object_set_new(o, "gpu", r->gpu ? json_string(r->gpu) : json_null());
  json_object_set_new(o, "packages", json_integer(t->packages));
  json_object_set_new(o, "cores", json_integer(t->cores));
  json_object_set_new(o, "threads", json_integer(t->threads));
  json_object_set_new(o, "virtual_machine", json_boolean(t->virtual_machine));
  json_object_set_new(o, "container", json_boolean(t->container));
  for (int i = 0; i < t->n_devices; i++)
    if (t->devices[i].kind != MAL_PART_PCI) json_array_append_new(devices, device_json(a, &t->devices[i]));
  for (int i = 0; i < t->n_sources; i++) {
    json_t *s = json_object();
    set_text(s, "file", t->sources[i].file);
    set_text(s, "what", t->sources[i].what);
    json_object_set_new(s, "breaks_off_at", t->sources[i].broken ? json_integer(t->sources[i].broken) : json_null());
    json_array_append_new(sources, s);
  }
  for (int i = 0; i < t->n_missing; i++) json_array_append_new(missing, json_string(t->missing[i]));
  json_object_set_new(o, "devices", devices);
  json_object_set_new(o, "wires", wires_json(a, t));
  json_object_set_new(o, "placement", places_json(a, r));
  json_object_set_new(o, "groups", rides_json(r));
  json_object_set_new(o, "sources", sources);
  json_object_set_new(o, "missing", missing);
  json_object_set_new(o, "command", json_string(r->command));
  return o;
}
