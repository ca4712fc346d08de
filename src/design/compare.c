#include "design/compare.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const mal_fault_name[] = {"missing", "crossed", "slow", "extra"};

/* A cable that trains slower than this share of its rate is slow (4x links fall to 1x, or one generation). */
static const double slow_below = 0.99;

typedef struct slot { /* one end at a switch, of a found link */
  const char *device;
  int64_t port;
  const mal_wire *link;
  const mal_wire_end *peer;
  bool used;
} slot;

typedef struct comparer {
  mal_arena *arena;
  const mal_design *d;
  mal_comparison *out;
  slot *slots;
  int64_t n_slots, room;
} comparer;

static int by_port(const void *x, const void *y) {
  const slot *p = x, *q = y;
  int c = strcmp(p->device, q->device);
  return c ? c : p->port < q->port ? -1 : p->port > q->port;
}

static void index_found(comparer *c, const mal_wiring *f) {
  c->slots = MAL_ARRAY(c->arena, slot, 2 * f->count + 1);
  for (int64_t i = 0; i < f->count; i++) {
    const mal_wire *l = &f->links[i];
    c->slots[c->n_slots++] = (slot){l->a.device, l->a.port, l, &l->b, false};
    if (l->b.is_switch) c->slots[c->n_slots++] = (slot){l->b.device, l->b.port, l, &l->a, false};
  }
  qsort(c->slots, (size_t)c->n_slots, sizeof *c->slots, by_port);
}

static slot *slot_at(comparer *c, const char *device, int64_t port) {
  return bsearch(&(slot){device, port, NULL, NULL, false}, c->slots, (size_t)c->n_slots, sizeof *c->slots, by_port);
}

static bool device_seen(comparer *c, const char *device) {
  int64_t lo = 0, hi = c->n_slots;
  while (lo < hi) {
    int64_t middle = (lo + hi) / 2;
    if (strcmp(c->slots[middle].device, device) < 0)
      lo = middle + 1;
    else
      hi = middle;
  }
  return lo < c->n_slots && strcmp(c->slots[lo].device, device) == 0;
}

static void add(comparer *c, mal_cable_fault fault) {
  mal_comparison *out = c->out;
  if (out->count == c->room) {
    int64_t more = 2 * c->room + 64;
    out->faults = mal_grow(c->arena, out->faults, (size_t)c->room, (size_t)more, sizeof *out->faults);
    c->room = more;
  }
  out->faults_of[fault.kind]++;
  out->faults[out->count++] = fault;
}

static const char *end_words(mal_arena *a, const mal_wire_end *e) {
  return e->is_switch ? mal_print(a, "%s port %lld", e->device, (long long)e->port)
                      : mal_print(a, "%s%s%s", e->device, *e->part ? " " : "", e->part);
}

/* --- one network ----------------------------------------------------------------------------------------------------- */

typedef struct expected_link {
  const mal_link *link;
  const char *from, *to, *part; /* part: adapter of a node's rail, NULL not known */
  const char *network;
  double bytes_per_s;
} expected_link;

static bool is_expected(const expected_link *x, const mal_wire_end *peer) {
  if (strcmp(peer->device, x->from) != 0) return false;
  if (peer->is_switch) return peer->port == x->link->from_port;
  return !x->part || !*peer->part || strcmp(peer->part, x->part) == 0;
}

static mal_cable_fault fault_of(comparer *c, const expected_link *x, int kind) {
  mal_arena *a = c->arena;
  bool host = x->link->tier == MAL_TIER_NODE;
  const char *from = host ? mal_print(a, "%s%s%s", x->from, x->part ? " " : "", x->part ? x->part : "")
                          : mal_print(a, "%s port %lld", x->from, (long long)x->link->from_port);
  return (mal_cable_fault){.kind = kind,
                           .network = x->network,
                           .leaf = host || x->link->tier == MAL_TIER_CORE ? x->to : x->from,
                           .rail = x->link->rail,
                           .expected = mal_print(a, "%s - %s port %lld", from, x->to, (long long)x->link->to_port),
                           .lost_bytes_per_s = x->bytes_per_s};
}

static void judge(comparer *c, const expected_link *x) {
  mal_comparison *out = c->out;
  slot *s = slot_at(c, x->to, x->link->to_port);
  bool up = x->link->tier != MAL_TIER_NODE;
  out->expected++;
  if (up) out->up_bytes_per_s += x->bytes_per_s;
  mal_cable_fault fault;
  if (!s) {
    fault = fault_of(c, x, MAL_CABLE_MISSING);
  } else {
    s->used = true;
    slot *other = s->peer->is_switch ? slot_at(c, s->peer->device, s->peer->port) : NULL;
    if (other) other->used = true;
    bool slow = s->link->bytes_per_s > 0 && s->link->bytes_per_s < slow_below * x->bytes_per_s;
    bool right = is_expected(x, s->peer);
    if (right && !slow) {
      out->right++;
      return;
    }
    fault = fault_of(c, x, right ? MAL_CABLE_SLOW : MAL_CABLE_CROSSED);
    fault.line = s->link->line;
    fault.found = right ? mal_print(c->arena, "%g Gb/s instead of %g Gb/s", s->link->bytes_per_s * 8 / 1e9,
                                    x->bytes_per_s * 8 / 1e9)
                        : end_words(c->arena, s->peer);
    if (right)
      fault.lost_bytes_per_s = x->bytes_per_s - s->link->bytes_per_s;
    else if (up && s->peer->is_switch)
      fault.lost_bytes_per_s = 0; /* it still leads up, from another leaf */
  }
  if (up) out->up_lost_bytes_per_s += fault.lost_bytes_per_s;
  add(c, fault);
}

static void compare_network(comparer *c, const mal_network *n, const char *name, bool rails) {
  mal_arena *a = c->arena;
  int64_t count;
  mal_link *links = mal_network_links(a, n, &count);
  for (int64_t i = 0; i < count; i++) {
    const mal_link *l = &links[i];
    expected_link x = {.link = l,
                       .from = mal_device_label(a, n, l->from),
                       .to = mal_device_label(a, n, l->to),
                       .part = rails && l->rail >= 0 ? mal_chassis_hca(a, c->d->chassis, l->rail) : NULL,
                       .network = name,
                       .bytes_per_s =
                           l->tier == MAL_TIER_NODE ? n->link_bytes_per_s : n->ask.leaf->port_bytes_per_s.value};
    judge(c, &x);
  }
}

/* Switches of the design that the network does not name: every cable of theirs is missing for one reason. */
static void count_unseen(comparer *c) {
  for (int64_t i = 0; i < c->d->hall.n_units; i++) {
    const mal_unit *u = &c->d->hall.units[i];
    bool fabric = u->kind == MAL_UNIT_COMPUTE_SWITCH || u->kind == MAL_UNIT_STORAGE_SWITCH;
    c->out->unseen_devices += fabric && !device_seen(c, u->name);
  }
}

static bool in_design(const mal_design *d, const char *device) {
  for (int64_t i = 0; i < d->hall.n_units; i++) {
    int kind = d->hall.units[i].kind;
    if ((kind == MAL_UNIT_COMPUTE_SWITCH || kind == MAL_UNIT_STORAGE_SWITCH) &&
        strcmp(d->hall.units[i].name, device) == 0)
      return true;
  }
  return false;
}

static void find_extra(comparer *c) {
  const char *known = NULL;
  bool ours = false;
  for (int64_t i = 0; i < c->n_slots; i++) {
    slot *s = &c->slots[i];
    if (s->used) continue;
    if (!known || strcmp(known, s->device) != 0) known = s->device, ours = in_design(c->d, known);
    slot *other = s->peer->is_switch ? slot_at(c, s->peer->device, s->peer->port) : NULL;
    if (other) other->used = true;
    add(c, (mal_cable_fault){.kind = MAL_CABLE_EXTRA,
                             .network = ours ? "compute" : "",
                             .leaf = s->device,
                             .rail = -1,
                             .found = mal_print(c->arena, "%s - %s port %lld", end_words(c->arena, s->peer), s->device,
                                                (long long)s->port),
                             .line = s->link->line});
  }
}

void mal_design_compare(mal_arena *a, const mal_design *d, const mal_wiring *f, mal_comparison *out) {
  comparer c = {.arena = a, .d = d, .out = out};
  *out = (mal_comparison){0};
  index_found(&c, f);
  compare_network(&c, &d->compute, "compute", true);
  compare_network(&c, &d->storage_network, "storage", false);
  find_extra(&c);
  count_unseen(&c);
}
