#include "simulate/flows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 4, SIZE_CLASSES = 40, HEAP_REBUILD = 8 };
static const double full = 1 + 1e-9; /* demand over capacity from which a link can bind */

typedef struct use {
  int32_t link, at; /* at: place in the link's list */
  double weight;
} use;

typedef struct flow {
  use *uses;
  int32_t count, heap; /* heap: place in the heap of ends, -1 none */
  double limit;        /* bytes/s, the links' own capacities included */
  double own_limit;    /* as asked for */
  double rate, left, bytes, since, start, end;
  uint32_t mark;
  bool dirty, fixed;
} flow;

typedef struct member {
  int32_t flow, use;
} member;

typedef struct link {
  double capacity, demand; /* demand: Σ weight · limit of its flows */
  double bytes, busy, busy_since;
  member *members;
  int32_t count, room;
  uint32_t mark;
  double free, weight; /* while solving: capacity left, weights of flows not fixed yet */
} link;

typedef struct level {
  double key;
  int32_t id; /* a link, or ~flow */
} level;

struct mal_flows {
  link *links;
  int32_t n_links;
  flow *flows;
  int32_t n_flows, room_flows, *idle, n_idle, room_idle;
  int32_t *heap, n_heap, room_heap; /* flows by end */
  int32_t *dirty, n_dirty, room_dirty;
  int32_t *work, n_work, room_work; /* flows of the part being solved */
  int32_t *seen, n_seen, room_seen; /* links of it */
  level *levels;
  int32_t n_levels, room_levels;
  use *spare[SIZE_CLASSES]; /* arrays of uses by power of two, linked through their first bytes */
  double now, slack;
  uint32_t stamp;
  bool bulk; /* many rates change: the heap is mended once, at the end */
  mal_arena arena;
};

static void *room_for(void *array, int32_t *room, int32_t need, size_t size) {
  if (need <= *room) return array;
  int32_t more = *room ? *room : FIRST_ROOM;
  while (more < need) more *= 2;
  void *larger = realloc(array, (size_t)more * size);
  if (!larger) abort();
  *room = more;
  return larger;
}

mal_flows *mal_flows_new(int32_t links, const double *capacity, double slack) {
  mal_flows *f = calloc(1, sizeof *f);
  if (!f) abort();
  mal_arena_init(&f->arena);
  f->links = MAL_ARRAY(&f->arena, link, links ? links : 1);
  f->n_links = links;
  f->slack = slack;
  for (int32_t i = 0; i < links; i++) f->links[i].capacity = capacity[i];
  return f;
}

void mal_flows_free(mal_flows *f) {
  if (!f) return;
  for (int32_t i = 0; i < f->n_links; i++) free(f->links[i].members);
  free(f->flows), free(f->idle), free(f->heap), free(f->dirty), free(f->work), free(f->seen), free(f->levels);
  mal_arena_free(&f->arena);
  free(f);
}

/* --- heap of ends ------------------------------------------------------------------------------------------------------ */

static bool sooner(const mal_flows *f, int32_t a, int32_t b) {
  const flow *x = &f->flows[a], *y = &f->flows[b];
  return x->end < y->end || (x->end == y->end && a < b);
}

static void place(mal_flows *f, int32_t at, int32_t id) {
  f->heap[at] = id;
  f->flows[id].heap = at;
}

static void sift_up(mal_flows *f, int32_t at) {
  int32_t id = f->heap[at];
  for (; at > 0 && sooner(f, id, f->heap[(at - 1) / 2]); at = (at - 1) / 2) place(f, at, f->heap[(at - 1) / 2]);
  place(f, at, id);
}

static void sift_down(mal_flows *f, int32_t at) {
  int32_t id = f->heap[at];
  for (int32_t child; (child = 2 * at + 1) < f->n_heap; at = child) {
    if (child + 1 < f->n_heap && sooner(f, f->heap[child + 1], f->heap[child])) child++;
    if (!sooner(f, f->heap[child], id)) break;
    place(f, at, f->heap[child]);
  }
  place(f, at, id);
}

static void heap_add(mal_flows *f, int32_t id) {
  f->heap = room_for(f->heap, &f->room_heap, f->n_heap + 1, sizeof *f->heap);
  f->heap[f->n_heap] = id;
  sift_up(f, f->n_heap++);
}

static void heap_remove(mal_flows *f, int32_t id) {
  int32_t at = f->flows[id].heap, last = f->heap[--f->n_heap];
  f->flows[id].heap = -1;
  if (last == id) return;
  place(f, at, last);
  sift_up(f, at);
  sift_down(f, f->flows[last].heap);
}

static void heap_moved(mal_flows *f, int32_t id) {
  sift_up(f, f->flows[id].heap);
  sift_down(f, f->flows[id].heap);
}

/* --- flows on links ---------------------------------------------------------------------------------------------------- */

static use *take_uses(mal_flows *f, int32_t count) {
  int power = 2;
  while ((1 << power) < count) power++;
  use *found = f->spare[power];
  if (found)
    f->spare[power] = *(use **)(void *)found;
  else
    found = mal_alloc(&f->arena, sizeof(use) << power);
  return found;
}

static void give_uses(mal_flows *f, use *uses, int32_t count) {
  int power = 2;
  while ((1 << power) < count) power++;
  *(use **)(void *)uses = f->spare[power];
  f->spare[power] = uses;
}

static bool binds(const link *l) { return l->demand > l->capacity * full; }

static void dirty(mal_flows *f, int32_t id) {
  if (f->flows[id].dirty) return;
  f->flows[id].dirty = true;
  f->dirty = room_for(f->dirty, &f->room_dirty, f->n_dirty + 1, sizeof *f->dirty);
  f->dirty[f->n_dirty++] = id;
}

static void dirty_link(mal_flows *f, const link *l) {
  for (int32_t i = 0; i < l->count; i++) dirty(f, l->members[i].flow);
}

static void join(mal_flows *f, int32_t id, int32_t k) {
  use *u = &f->flows[id].uses[k];
  link *l = &f->links[u->link];
  if (l->count == 0) l->busy_since = f->now;
  if (l->count == l->room) l->members = room_for(l->members, &l->room, l->count + 1, sizeof *l->members);
  u->at = l->count;
  l->members[l->count++] = (member){id, k};
}

static void leave(mal_flows *f, int32_t id, int32_t k) {
  use *u = &f->flows[id].uses[k];
  link *l = &f->links[u->link];
  member last = l->members[--l->count];
  if (u->at < l->count) {
    l->members[u->at] = last;
    f->flows[last.flow].uses[last.use].at = u->at;
  }
  if (l->count) return;
  l->demand = 0; /* what rounding left */
  l->busy += f->now - l->busy_since;
}

static void set_rate(mal_flows *f, int32_t id, double rate) {
  flow *w = &f->flows[id];
  if (w->rate == rate) return;
  w->left -= w->rate * (f->now - w->since);
  if (w->left < 0) w->left = 0;
  w->since = f->now;
  w->rate = rate;
  w->end = w->left <= 0 ? f->now : rate > 0 ? f->now + w->left / rate : INFINITY;
  if (!f->bulk) heap_moved(f, id);
}

static double least_limit(const mal_flows *f, const flow *w) {
  double limit = w->own_limit;
  for (int32_t k = 0; k < w->count; k++) {
    double weight = w->uses[k].weight, capacity = f->links[w->uses[k].link].capacity;
    if (weight > 0 && capacity < limit * weight) limit = capacity / weight;
  }
  return limit;
}

static int32_t take_flow(mal_flows *f) {
  if (f->n_idle) return f->idle[--f->n_idle];
  f->flows = room_for(f->flows, &f->room_flows, f->n_flows + 1, sizeof *f->flows);
  return f->n_flows++;
}

int32_t mal_flow_start(mal_flows *f, double now, double bytes, double limit, const mal_flow_use *uses, int32_t count) {
  int32_t id = take_flow(f);
  flow *w = &f->flows[id];
  bool bound = false;
  f->now = now;
  *w = (flow){.count = count, .own_limit = limit, .left = bytes, .bytes = bytes, .since = now, .start = now};
  w->heap = -1;
  w->uses = count ? take_uses(f, count) : NULL;
  for (int32_t k = 0; k < count; k++) w->uses[k] = (use){uses[k].link, 0, (double)uses[k].weight};
  w->limit = least_limit(f, w);
  for (int32_t k = 0; k < count; k++) {
    link *l = &f->links[uses[k].link];
    join(f, id, k);
    l->demand += w->uses[k].weight * w->limit;
    bound |= binds(l);
  }
  w->rate = w->limit;
  w->end = bytes <= 0 ? now : isinf(w->rate) ? now : w->rate > 0 ? now + bytes / w->rate : INFINITY;
  heap_add(f, id);
  if (bound) dirty(f, id);
  return id;
}

static void change_limit(mal_flows *f, int32_t id, double limit) {
  flow *w = &f->flows[id];
  if (limit == w->limit) return;
  bool bound = false;
  for (int32_t k = 0; k < w->count; k++) {
    link *l = &f->links[w->uses[k].link];
    bool before = binds(l);
    l->demand += w->uses[k].weight * (limit - w->limit);
    if (before || binds(l)) bound = true;
    if (before && !binds(l)) dirty_link(f, l);
  }
  w->limit = limit;
  if (bound)
    dirty(f, id);
  else
    set_rate(f, id, limit);
}

void mal_flow_limit(mal_flows *f, double now, int32_t id, double limit) {
  f->now = now;
  f->flows[id].own_limit = limit;
  change_limit(f, id, least_limit(f, &f->flows[id]));
}

void mal_flows_capacity(mal_flows *f, double now, int32_t at, double capacity) {
  link *l = &f->links[at];
  f->now = now;
  l->capacity = capacity;
  for (int32_t i = 0; i < l->count; i++) {
    int32_t id = l->members[i].flow;
    change_limit(f, id, least_limit(f, &f->flows[id]));
    dirty(f, id);
  }
}

static void end_flow(mal_flows *f, int32_t id) {
  flow *w = &f->flows[id];
  heap_remove(f, id);
  for (int32_t k = 0; k < w->count; k++) {
    link *l = &f->links[w->uses[k].link];
    bool before = binds(l);
    l->bytes += w->uses[k].weight * w->bytes;
    l->demand -= w->uses[k].weight * w->limit;
    leave(f, id, k);
    if (before) dirty_link(f, l);
  }
  if (w->count) give_uses(f, w->uses, w->count);
  w->uses = NULL;
  w->count = 0;
  f->idle = room_for(f->idle, &f->room_idle, f->n_idle + 1, sizeof *f->idle);
  f->idle[f->n_idle++] = id;
}

/* --- rates -------------------------------------------------------------------------------------------------------------- */

static void level_up(level *h, int32_t at) {
  level x = h[at];
  for (; at > 0 && x.key < h[(at - 1) / 2].key; at = (at - 1) / 2) h[at] = h[(at - 1) / 2];
  h[at] = x;
}

static void level_down(level *h, int32_t n, int32_t at) {
  level x = h[at];
  for (int32_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && h[child + 1].key < h[child].key) child++;
    if (h[child].key >= x.key) break;
    h[at] = h[child];
  }
  h[at] = x;
}

static void add_level(mal_flows *f, double key, int32_t id) {
  f->levels = room_for(f->levels, &f->room_levels, f->n_levels + 1, sizeof *f->levels);
  f->levels[f->n_levels] = (level){key, id};
  level_up(f->levels, f->n_levels++);
}

/* All flows that a change can reach: over links that could be full. */
static void gather(mal_flows *f) {
  f->n_work = f->n_seen = 0;
  f->stamp++;
  for (int32_t i = 0; i < f->n_dirty; i++) {
    flow *w = &f->flows[f->dirty[i]];
    if (!w->dirty) continue;
    w->dirty = false;
    if (w->heap < 0 || w->mark == f->stamp) continue; /* ended meanwhile */
    w->mark = f->stamp;
    f->work = room_for(f->work, &f->room_work, f->n_work + 1, sizeof *f->work);
    f->work[f->n_work++] = f->dirty[i];
  }
  f->n_dirty = 0;
  for (int32_t i = 0; i < f->n_work; i++) {
    const flow *w = &f->flows[f->work[i]];
    for (int32_t k = 0; k < w->count; k++) {
      link *l = &f->links[w->uses[k].link];
      if (l->mark == f->stamp || !binds(l)) continue;
      l->mark = f->stamp;
      f->seen = room_for(f->seen, &f->room_seen, f->n_seen + 1, sizeof *f->seen);
      f->seen[f->n_seen++] = w->uses[k].link;
      f->work = room_for(f->work, &f->room_work, f->n_work + l->count, sizeof *f->work);
      for (int32_t m = 0; m < l->count; m++) {
        flow *other = &f->flows[l->members[m].flow];
        if (other->mark == f->stamp) continue;
        other->mark = f->stamp;
        f->work[f->n_work++] = l->members[m].flow;
      }
    }
  }
}

static void fix(mal_flows *f, int32_t id, double rate) {
  flow *w = &f->flows[id];
  w->fixed = true;
  for (int32_t k = 0; k < w->count; k++) {
    link *l = &f->links[w->uses[k].link];
    if (l->mark != f->stamp) continue;
    l->free -= rate * w->uses[k].weight;
    l->weight -= w->uses[k].weight;
  }
  set_rate(f, id, rate);
}

static double level_of(const link *l) { return l->free <= 0 ? 0 : l->free / l->weight; }

/* Whether the flow may reach its limit before a link of the part is full: the limit is its own, or of a link outside. */
static bool may_reach_limit(const mal_flows *f, const flow *w) {
  if (w->limit >= w->own_limit) return true;
  for (int32_t k = 0; k < w->count; k++) {
    const link *l = &f->links[w->uses[k].link];
    if (l->mark != f->stamp && l->capacity <= w->limit * w->uses[k].weight * full) return true;
  }
  return false;
}

/* Water rises: at each level the link that is full first, or the flow that reaches its limit, is settled. */
static void fill(mal_flows *f) {
  static const double none_left = 1e-9; /* of a weight: rounding */
  f->n_levels = 0;
  for (int32_t i = 0; i < f->n_seen; i++) {
    link *l = &f->links[f->seen[i]];
    l->free = l->capacity;
    l->weight = 0;
    for (int32_t m = 0; m < l->count; m++) l->weight += f->flows[l->members[m].flow].uses[l->members[m].use].weight;
    add_level(f, level_of(l), f->seen[i]);
  }
  for (int32_t i = 0; i < f->n_work; i++) {
    flow *w = &f->flows[f->work[i]];
    w->fixed = false;
    if (may_reach_limit(f, w)) add_level(f, w->limit, ~f->work[i]);
  }
  while (f->n_levels) {
    level top = f->levels[0];
    if (top.id < 0) {
      f->levels[0] = f->levels[--f->n_levels];
      if (f->n_levels) level_down(f->levels, f->n_levels, 0);
      if (!f->flows[~top.id].fixed) fix(f, ~top.id, f->flows[~top.id].limit);
      continue;
    }
    link *l = &f->links[top.id];
    double level = l->weight <= none_left ? INFINITY : level_of(l);
    if (level > top.key && !isinf(level)) {
      f->levels[0].key = level; /* flows settled meanwhile left more for the others */
      level_down(f->levels, f->n_levels, 0);
      continue;
    }
    f->levels[0] = f->levels[--f->n_levels];
    if (f->n_levels) level_down(f->levels, f->n_levels, 0);
    if (isinf(level)) continue;
    for (int32_t m = 0; m < l->count; m++)
      if (!f->flows[l->members[m].flow].fixed) fix(f, l->members[m].flow, level);
  }
}

static void solve(mal_flows *f) {
  if (!f->n_dirty) return;
  gather(f);
  f->bulk = f->n_work > f->n_heap / HEAP_REBUILD;
  fill(f);
  if (f->bulk)
    for (int32_t i = f->n_heap / 2; i-- > 0;) sift_down(f, i);
  f->bulk = false;
}

/* --- time --------------------------------------------------------------------------------------------------------------- */

/* Ends close together count as one: rates are not solved between them. Until they are, no flow is faster than it was, so that
 * what ends next now does not end later than said. */
static void settle(mal_flows *f) {
  if (!f->n_dirty || !f->n_heap) return;
  const flow *w = &f->flows[f->heap[0]];
  if (f->slack > 0 && w->end <= f->now + f->slack * (f->now - w->start)) return;
  solve(f);
}

double mal_flows_when(mal_flows *f) {
  settle(f);
  return f->n_heap ? f->flows[f->heap[0]].end : INFINITY;
}

int32_t mal_flows_next(mal_flows *f, double *at) {
  settle(f);
  int32_t id = f->heap[0];
  if (f->flows[id].end > f->now) f->now = f->flows[id].end;
  *at = f->now;
  end_flow(f, id);
  return id;
}

int64_t mal_flows_running(const mal_flows *f) { return f->n_heap; }

double mal_flow_rate(mal_flows *f, int32_t id) {
  solve(f);
  return f->flows[id].rate;
}

double mal_link_bytes(const mal_flows *f, int32_t at, double now) {
  const link *l = &f->links[at];
  double bytes = l->bytes;
  for (int32_t i = 0; i < l->count; i++) {
    const flow *x = &f->flows[l->members[i].flow];
    double left = fmax(0, x->left - x->rate * (now - x->since));
    bytes += x->uses[l->members[i].use].weight * (x->bytes - left);
  }
  return bytes;
}

double mal_link_busy(const mal_flows *f, int32_t at) {
  const link *l = &f->links[at];
  return l->busy + (l->count ? f->now - l->busy_since : 0);
}
