/* Several views of one node become one. */
#include "machine/topology/topology.h"
#include <string.h>

static bool same_text(const mal_part *a, const mal_part *b, mal_fact_key key) {
  const char *x = mal_fact_text(a, key), *y = mal_fact_text(b, key);
  return x && y && *x && strcmp(x, y) == 0;
}

/* The device of `into` that d is, NULL when it is new. A device known by address only takes the place of one known by index
 * only when both count the same thing: that is settled by indices, which readers give in order of address. */
static mal_part *twin(mal_topology *into, const mal_part *d) {
  mal_part *by_index = NULL;
  for (int i = 0; i < into->n_devices; i++) {
    mal_part *x = &into->devices[i];
    if (x->kind != d->kind) {
      if (x->bus >= 0 && x->bus == d->bus && (x->kind == MAL_PART_PCI || d->kind == MAL_PART_PCI)) return x;
      continue;
    }
    if (x->bus >= 0 && x->bus == d->bus && (!x->name || !d->name || strcmp(x->name, d->name) == 0)) return x;
    if (x->bus >= 0 && d->bus >= 0 && x->bus != d->bus) continue;
    if (d->kind == MAL_PART_GPU && same_text(x, d, MAL_F_UUID)) return x;
    if (x->name && d->name && strcmp(x->name, d->name) == 0) return x;
    bool named_apart = x->name && d->name && d->kind != MAL_PART_GPU;
    if (!named_apart && x->index >= 0 && x->index == d->index) by_index = x;
  }
  return by_index;
}

static void take_links(mal_topology *into, mal_part *x, const mal_part *d) {
  for (int i = 0; i < d->n_links; i++) {
    mal_nvlink *to = mal_nvlink_at(into, x, i);
    const mal_nvlink *from = &d->links[i];
    if (!to) return;
    if (from->active >= 0) to->active = from->active;
    if (from->bytes_per_s > 0) to->bytes_per_s = from->bytes_per_s;
    if (from->errors >= 0) to->errors = from->errors;
    to->from = from->from;
  }
}

static void take(mal_topology *into, mal_part *x, const mal_part *d) {
  if (x->kind == MAL_PART_PCI) x->kind = d->kind;
  if (x->index < 0) x->index = d->index;
  if (x->bus < 0) x->bus = d->bus;
  if (x->parent < 0) x->parent = d->parent;
  if (x->root < 0) x->root = d->root;
  if (x->below[0] < 0) memcpy(x->below, d->below, sizeof x->below);
  if (!x->name) x->name = d->name;
  for (int k = 0; k < MAL_FACTS; k++)
    if (d->fact[k].known) x->fact[k] = d->fact[k];
  take_links(into, x, d);
  for (int i = 0; i < d->n_counters; i++)
    mal_count_event(into, x, d->counters[i].name, d->counters[i].value, d->counters[i].from);
}

static void take_wire(mal_topology *into, const mal_wire *w, const int *place) {
  if (place[w->a] < 0 || place[w->b] < 0 || place[w->a] == place[w->b]) return;
  mal_wire *to = mal_wire_between(into, &into->devices[place[w->a]], &into->devices[place[w->b]]);
  if (w->path != MAL_PATH_UNKNOWN && (to->path == MAL_PATH_UNKNOWN || !to->from.file || w->from.file)) {
    to->path = w->path;
    to->nvlinks = w->nvlinks;
    to->token = w->token;
    to->from = w->from;
  }
  for (int i = 0; i < 26; i++)
    if (w->peer[i]) to->peer[i] = w->peer[i], to->peer_from = w->peer_from;
}

static void take_sources(mal_topology *into, const mal_topology *from) {
  int n = into->n_sources;
  into->sources = mal_grow(into->arena, into->sources, (size_t)n, (size_t)(n + from->n_sources), sizeof *into->sources);
  for (int i = 0; i < from->n_sources; i++) into->sources[into->n_sources++] = from->sources[i];
  for (int i = 0; i < from->n_missing; i++) mal_missing(into, "%s", from->missing[i]);
  if (from->host) into->host = from->host;
  if (from->product) into->product = from->product;
  if (from->cpu) into->cpu = from->cpu;
  if (from->packages) into->packages = from->packages;
  if (from->cores) into->cores = from->cores;
  if (from->threads) into->threads = from->threads;
  if (from->virtual_machine) into->virtual_machine = true, into->virtual_from = from->virtual_from;
  if (from->container) into->container = true;
}

void mal_topology_merge(mal_topology *into, const mal_topology *from) {
  int *place = MAL_ARRAY(into->arena, int, from->n_devices + 1);
  for (int i = 0; i < from->n_devices; i++) {
    const mal_part *d = &from->devices[i];
    mal_part *x = twin(into, d);
    if (!x) x = mal_part_at(into, d->kind, -1, -1, d->from); /* neither index nor bus: always new */
    if (x) take(into, x, d);
    place[i] = x ? (int)(x - into->devices) : -1;
  }
  for (int w = 0; w < from->n_wires; w++) take_wire(into, &from->wires[w], place);
  take_sources(into, from);
}
