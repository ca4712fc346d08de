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

static void conflict(mal_topology *t, const char *what, const char *first, const char *then, mal_evidence a,
                     mal_evidence b) {
  enum { CONFLICTS_MOST = 256 };
  int n = t->n_conflicts;
  if (n >= CONFLICTS_MOST || !a.file || !b.file || a.file == b.file) return;
  t->conflicts = mal_grow(t->arena, t->conflicts, (size_t)n, (size_t)n + 1, sizeof *t->conflicts);
  t->conflicts[t->n_conflicts++] = (mal_conflict){.what = what, .first = first, .then = then, .from = {a, b}};
}

/* What does not change while a node runs; what does is as the last file says. Texts that tools word differently are not compared. */
static bool lasts(const mal_part *d, mal_fact_key key) {
  switch (key) {
  case MAL_F_UUID:
  case MAL_F_NUMA:
  case MAL_F_DEVICE: return true;
  case MAL_F_DRIVER:
  case MAL_F_FIRMWARE: return d->kind == MAL_PART_GPU;
  default: return false;
  }
}

static const char *shown(mal_topology *t, const mal_fact *f) {
  return f->text ? f->text : mal_print(t->arena, "%.10g", f->number);
}

static void take_fact(mal_topology *into, mal_part *x, const mal_fact *f, mal_fact_key key) {
  mal_fact *mine = &x->fact[key];
  if (mine->known && lasts(x, key)) {
    const char *a = shown(into, mine), *b = shown(into, f);
    if (strcmp(a, b) == 0) return;
    conflict(into, mal_print(into->arena, "%s: %s", mal_part_label(into->arena, x), mal_fact_name[key]), a, b,
             mine->from, f->from);
    if (mine->from.file != f->from.file) return; /* the first is kept */
  }
  *mine = *f;
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
    if (d->fact[k].known) take_fact(into, x, &d->fact[k], (mal_fact_key)k);
  take_links(into, x, d);
  for (int i = 0; i < d->n_counters; i++)
    mal_count_event(into, x, d->counters[i].name, d->counters[i].value, d->counters[i].from);
}

static void take_wire(mal_topology *into, const mal_wire *w, const int *place) {
  if (place[w->a] < 0 || place[w->b] < 0 || place[w->a] == place[w->b]) return;
  mal_wire *to = mal_wire_between(into, &into->devices[place[w->a]], &into->devices[place[w->b]]);
  bool other = w->path != MAL_PATH_UNKNOWN && to->path != MAL_PATH_UNKNOWN && to->from.file && w->from.file &&
               (w->path != to->path || (w->nvlinks && to->nvlinks && w->nvlinks != to->nvlinks));
  if (other && to->from.file != w->from.file)
    conflict(into,
             mal_print(into->arena, "%s–%s", mal_part_label(into->arena, &into->devices[to->a]),
                       mal_part_label(into->arena, &into->devices[to->b])),
             mal_path_show(into->arena, to), mal_path_show(into->arena, w), to->from, w->from);
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
  if (from->host && into->host && strcmp(from->host, into->host) != 0)
    conflict(into, _("host"), into->host, from->host, into->host_from, from->host_from);
  if (from->host && !into->host) into->host = from->host, into->host_from = from->host_from;
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
