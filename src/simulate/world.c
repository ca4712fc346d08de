#include "simulate/world.h"
#include "program/lower_block.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x) { /* splitmix64 */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

typedef struct rank_state { /* what faults make of a rank */
  double slow, link_left, nic_left, cv, dies_s, throttle_lost, throttle_at_s, throttle_for_s;
  int32_t nic; /* which NIC of its node it uses */
} rank_state;

typedef struct maker {
  mal_sim_world *w;
  const mal_plan *plan;
  const mal_sim_setup *setup;
  rank_state *ranks;
  int64_t island, node_nics;    /* ranks that reach each other over the inner link; NICs of a node */
  uint64_t *colour;             /* [team] */
  int32_t *root[MAL_SIM_KINDS]; /* [team]: teams of one group have the same */
  double nic_share;             /* bytes/s of a rank */
  double *dead_nic;             /* [node · node_nics]: 1 where the NIC is gone */
  bool *rail;                   /* [node]: two NICs in each other's place */
} maker;

static int64_t node_of(const maker *m, int64_t rank) { return rank / m->plan->machine.gpus_per_node; }

/* --- kinds of groups ---------------------------------------------------------------------------------------------------- */

static void note_kind(mal_sim_world *w, const mal_instruction *i, int64_t stage) {
  bool exchange = i->op == MAL_OP_SEND;
  const mal_layout *l = &w->program->plan->layout;
  if ((i->op != MAL_OP_COLLECTIVE && !exchange) || !i->axes) return;
  int at = mal_sim_kind_of(w, i->axes, exchange);
  if (at < 0) {
    mal_group group = mal_instruction_group(w->program->plan, i->axes);
    if (group.size < 2 || w->n_kinds == MAL_SIM_KINDS) return;
    at = w->n_kinds++;
    mal_sim_kind *k = &w->kinds[at];
    *k = (mal_sim_kind){.axes = i->axes, .exchange = exchange, .group = group};
    k->stages = MAL_ARRAY(w->arena, uint64_t, l->pp / 64 + 1);
    if (i->axes == MAL_AXES_SHARD)
      k->spans[k->n_spans++] = mal_layout_shard_span(l);
    else if (i->axes == MAL_AXES_REPLICA)
      k->spans[k->n_spans++] = mal_layout_replica_span(l);
    else
      k->n_spans = mal_layout_spans(l, i->axes, k->spans);
  }
  w->kinds[at].stages[stage / 64] |= UINT64_C(1) << (stage % 64);
}

static void note_block(mal_sim_world *w, int block, int64_t stage) {
  const mal_block *b = &w->program->blocks[block];
  for (int list = 0; list < MAL_LISTS; list++)
    for (int i = 0; i < b->count[list]; i++) note_kind(w, &b->list[list][i], stage);
}

static void note_kinds(mal_sim_world *w) {
  const mal_program *p = w->program;
  for (int64_t s = 0; s < p->plan->layout.pp; s++) {
    const mal_stage *stage = &p->stages[s];
    for (int c = 0; c < stage->n_chunks; c++)
      for (int r = 0; r < stage->chunks[c].n_runs; r++) note_block(w, stage->chunks[c].runs[r].block, s);
    if (stage->sync >= 0) note_block(w, stage->sync, s);
    if (stage->optimizer >= 0) note_block(w, stage->optimizer, s);
  }
}

int mal_sim_kind_of(const mal_sim_world *w, unsigned axes, bool exchange) {
  for (int k = 0; k < w->n_kinds; k++)
    if (w->kinds[k].axes == axes && w->kinds[k].exchange == exchange) return k;
  return -1;
}

static bool stage_has(const mal_sim_kind *k, int64_t stage) { return k->stages[stage / 64] >> (stage % 64) & 1; }

/* Rank 0 of a rank's group, and the rank's place in it. */
static int64_t base_of(const mal_sim_kind *k, int64_t rank, int64_t *place) {
  int64_t base = rank, index = 0, times = 1;
  for (int i = 0; i < k->n_spans; i++) {
    int64_t digit = rank / k->spans[i].stride % k->spans[i].extent;
    base -= digit * k->spans[i].stride;
    index += digit * times;
    times *= k->spans[i].extent;
  }
  if (place) *place = index;
  return base;
}

static int64_t member_of(const mal_sim_kind *k, int64_t base, int64_t index) {
  for (int i = 0; i < k->n_spans; i++) {
    base += index % k->spans[i].extent * k->spans[i].stride;
    index /= k->spans[i].extent;
  }
  return base;
}

static int32_t find(int32_t *root, int32_t x) {
  while (root[x] != x) x = root[x] = root[root[x]];
  return x;
}

/* Teams whose ranks share groups of this kind, directly or through others, meet together. */
static void join_teams(maker *m, int kind) {
  mal_sim_world *w = m->w;
  mal_sim_kind *k = &w->kinds[kind];
  int32_t *root = m->root[kind] = MAL_ARRAY(w->arena, int32_t, w->teams);
  k->local = true;
  for (int32_t t = 0; t < w->teams; t++) root[t] = t;
  for (int64_t r = 0; r < w->ranks; r++) {
    int64_t base = base_of(k, r, NULL), team = r / w->team_size, other = base / w->team_size;
    if (base / m->island != r / m->island) k->local = false;
    if (team == other) continue;
    k->local = false;
    int32_t a = find(root, (int32_t)team), b = find(root, (int32_t)other);
    if (a < b)
      root[b] = a;
    else
      root[a] = b;
  }
  for (int32_t t = 0; t < w->teams; t++) root[t] = find(root, t);
}

/* --- faults ------------------------------------------------------------------------------------------------------------- */

static bool at_place(const maker *m, const mal_simulated_place *p, int64_t rank) {
  if (p->rank >= 0) return p->rank == rank;
  if (p->node >= 0) return p->node == node_of(m, rank);
  return p->leaf < 0;
}

static double pcie_over_inner(const maker *m) {
  const mal_gpu *g = m->plan->machine.gpu;
  double pcie = g->pcie_bytes_per_s.value * g->cal.pcie.value;
  return pcie > 0 && pcie < m->w->inner_capacity ? pcie / m->w->inner_capacity : 0;
}

static void apply_fault(maker *m, const mal_simulated_fault *f, rank_state *r, int64_t rank) {
  switch (f->kind) {
  case MAL_BROKEN_SLOW: r->slow /= 1 - f->lost; break;
  case MAL_BROKEN_THROTTLE: r->throttle_lost = f->lost, r->throttle_at_s = f->at_s, r->throttle_for_s = f->for_s; break;
  case MAL_BROKEN_NVLINK: r->link_left *= f->lost < 1 ? 1 - f->lost : pcie_over_inner(m); break;
  case MAL_BROKEN_NIC:
    if (f->lost < 1)
      r->nic_left *= 1 - f->lost;
    else
      m->dead_nic[node_of(m, rank) * m->node_nics + r->nic] = 1;
    break;
  case MAL_BROKEN_JITTER: r->cv = hypot(r->cv, f->cv); break;
  case MAL_BROKEN_DIE: r->dies_s = fmin(r->dies_s, f->at_s); break;
  default: break;
  }
}

/* Traffic of a dead NIC takes the next one of the node that lives. */
static mal_status move_traffic(maker *m, mal_error *e) {
  int64_t gpus = m->plan->machine.gpus_per_node;
  for (int64_t r = 0; r < m->w->ranks; r++) {
    rank_state *s = &m->ranks[r];
    const double *dead = m->dead_nic + node_of(m, r) * m->node_nics;
    int64_t tried = 0, nic = s->nic;
    while (tried < m->node_nics && dead[nic] > 0) nic = (nic + 1) % m->node_nics, tried++;
    if (tried == m->node_nics && m->plan->machine.nodes > 1)
      return mal_fail(e, MAL_BAD, _("--fault: every NIC of node %lld is dead: its %lld ranks reach nobody."),
                      (long long)node_of(m, r), (long long)gpus);
    s->nic = (int32_t)nic;
  }
  return MAL_OK;
}

static mal_status set_ranks(maker *m, mal_error *e) {
  const mal_machine *machine = &m->plan->machine;
  int64_t gpus = machine->gpus_per_node, nics = (int64_t)machine->node->nics.value;
  if (nics < 1) nics = 1;
  m->node_nics = nics < gpus ? nics : gpus;
  m->ranks = MAL_ARRAY(m->w->arena, rank_state, m->w->ranks);
  m->dead_nic = MAL_ARRAY(m->w->arena, double, machine->nodes * m->node_nics);
  m->rail = MAL_ARRAY(m->w->arena, bool, machine->nodes);
  for (int64_t r = 0; r < m->w->ranks; r++) {
    rank_state *s = &m->ranks[r];
    *s = (rank_state){.slow = 1, .link_left = 1, .nic_left = 1, .dies_s = INFINITY};
    s->nic = (int32_t)(r % gpus * m->node_nics / gpus);
    for (int i = 0; i < m->setup->n_faults; i++)
      if (at_place(m, &m->setup->faults[i].place, r)) apply_fault(m, &m->setup->faults[i], s, r);
  }
  for (int i = 0; i < m->setup->n_faults; i++)
    if (m->setup->faults[i].kind == MAL_BROKEN_RAIL) m->rail[m->setup->faults[i].place.node] = true;
  return move_traffic(m, e);
}

/* --- colours ------------------------------------------------------------------------------------------------------------ */

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static uint64_t fault_colour(const rank_state *r) {
  uint64_t c = mix(bits_of(r->slow));
  c = mix(c ^ bits_of(r->link_left));
  c = mix(c ^ bits_of(r->nic_left));
  c = mix(c ^ bits_of(r->cv));
  c = mix(c ^ bits_of(r->dies_s));
  c = mix(c ^ bits_of(r->throttle_lost));
  return mix(c ^ bits_of(r->throttle_at_s) ^ mix(bits_of(r->throttle_for_s)));
}

static int64_t team_after(const maker *m, int64_t team, int by) {
  int64_t all = m->w->teams;
  return (team + by * m->w->stage_teams + all) % all;
}

static bool hop_leaves_island(const maker *m, int64_t team, int by) {
  int64_t other = team_after(m, team, by), size = m->w->team_size;
  for (int64_t k = 0; k < size; k++)
    if ((team * size + k) / m->island != (other * size + k) / m->island) return true;
  return false;
}

static void first_colours(maker *m) {
  const mal_sim_world *w = m->w;
  for (int64_t t = 0; t < w->teams; t++) {
    uint64_t c = w->all_ranks ? mix((uint64_t)t + 1) : mix((uint64_t)(t / w->stage_teams));
    c ^= mix(2 + hop_leaves_island(m, t, 1)) ^ mix(8 + hop_leaves_island(m, t, -1));
    for (int64_t k = 0; k < w->team_size; k++) {
      const rank_state *r = &m->ranks[t * w->team_size + k];
      c += fault_colour(r);
    }
    m->colour[t] = mix(c);
  }
}

static uint64_t *nic_colours(const maker *m, uint64_t *into) {
  int64_t all = m->plan->machine.nodes * m->node_nics;
  memset(into, 0, (size_t)all * sizeof *into);
  for (int64_t r = 0; r < m->w->ranks; r++) {
    int64_t nic = node_of(m, r) * m->node_nics + m->ranks[r].nic;
    into[nic] += mix(m->colour[r / m->w->team_size] ^ bits_of(m->ranks[r].nic_left));
  }
  return into;
}

static int by_value(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static int64_t distinct(const uint64_t *colour, int64_t n, uint64_t *scratch) {
  int64_t count = n > 0;
  memcpy(scratch, colour, (size_t)n * sizeof *scratch);
  qsort(scratch, (size_t)n, sizeof *scratch, by_value);
  for (int64_t i = 1; i < n; i++) count += scratch[i] != scratch[i - 1];
  return count;
}

/* One round: every team takes up the colours of those it communicates or shares a NIC with. */
static void refine(maker *m, uint64_t *next, uint64_t *sum, uint64_t *nics) {
  const mal_sim_world *w = m->w;
  for (int64_t t = 0; t < w->teams; t++)
    next[t] = mix(m->colour[t] ^ mix(m->colour[team_after(m, t, 1)]) ^ 3 * mix(m->colour[team_after(m, t, -1)] + 7));
  for (int k = 0; k < w->n_kinds; k++) {
    if (w->kinds[k].local) continue;
    memset(sum, 0, (size_t)w->teams * sizeof *sum);
    for (int64_t t = 0; t < w->teams; t++)
      if (stage_has(&w->kinds[k], t / w->stage_teams)) sum[m->root[k][t]] += mix(m->colour[t] + (uint64_t)k);
    for (int64_t t = 0; t < w->teams; t++)
      if (stage_has(&w->kinds[k], t / w->stage_teams)) next[t] = mix(next[t] ^ sum[m->root[k][t]]);
  }
  nic_colours(m, nics);
  for (int64_t r = 0; r < w->ranks; r++)
    next[r / w->team_size] += mix(nics[node_of(m, r) * m->node_nics + m->ranks[r].nic]);
  memcpy(m->colour, next, (size_t)w->teams * sizeof *next);
}

static void settle_colours(maker *m) {
  mal_sim_world *w = m->w;
  mal_arena scratch;
  mal_arena_init(&scratch);
  uint64_t *next = MAL_ARRAY(&scratch, uint64_t, w->teams), *sum = MAL_ARRAY(&scratch, uint64_t, w->teams);
  uint64_t *nics = MAL_ARRAY(&scratch, uint64_t, m->plan->machine.nodes * m->node_nics);
  m->colour = MAL_ARRAY(w->arena, uint64_t, w->teams);
  first_colours(m);
  int64_t before = w->all_ranks ? w->teams : distinct(m->colour, w->teams, next);
  while (before < w->teams) {
    refine(m, next, sum, nics);
    int64_t after = distinct(m->colour, w->teams, next);
    if (after == before) break;
    before = after;
  }
  mal_arena_free(&scratch);
}

/* --- classes ------------------------------------------------------------------------------------------------------------ */

typedef struct numbered {
  uint64_t colour;
  int64_t first;
} numbered;

static int by_colour(const void *a, const void *b) {
  const numbered *x = a, *y = b;
  if (x->colour != y->colour) return (x->colour > y->colour) - (x->colour < y->colour);
  return (x->first > y->first) - (x->first < y->first);
}

static int by_first(const void *a, const void *b) {
  const numbered *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

/* Numbers equal colours in the order of their first bearer; returns how many there are. */
static int32_t number(mal_arena *a, const uint64_t *colour, int64_t n, int32_t *class_of, int32_t **first) {
  mal_arena scratch;
  mal_arena_init(&scratch);
  numbered *all = MAL_ARRAY(&scratch, numbered, n);
  for (int64_t i = 0; i < n; i++) all[i] = (numbered){colour[i], i};
  qsort(all, (size_t)n, sizeof *all, by_colour);
  numbered *one = MAL_ARRAY(&scratch, numbered, n);
  int32_t count = 0;
  for (int64_t i = 0; i < n; i++)
    if (i == 0 || all[i].colour != all[i - 1].colour) one[count++] = all[i];
  qsort(one, (size_t)count, sizeof *one, by_first);
  *first = MAL_ARRAY(a, int32_t, count);
  for (int32_t c = 0; c < count; c++) (*first)[c] = (int32_t)one[c].first;
  /* a second pass over the sorted list gives each its number through its first bearer */
  int32_t *number_of = MAL_ARRAY(&scratch, int32_t, n);
  for (int32_t c = 0; c < count; c++) number_of[one[c].first] = c;
  int64_t leader = 0;
  for (int64_t i = 0; i < n; i++) {
    if (i == 0 || all[i].colour != all[i - 1].colour) leader = all[i].first;
    class_of[all[i].first] = number_of[leader];
  }
  mal_arena_free(&scratch);
  return count;
}

static void set_class(maker *m, mal_sim_class *c, int64_t team) {
  const mal_sim_world *w = m->w;
  *c = (mal_sim_class){.stage = (int32_t)(team / w->stage_teams), .team = (int32_t)team, .slow = 0, .link_left = 1};
  c->dies_s = INFINITY;
  for (int64_t k = 0; k < w->team_size; k++) {
    const rank_state *r = &m->ranks[team * w->team_size + k];
    if (r->slow > c->slow) c->slow = r->slow, c->slow_rank = team * w->team_size + k;
    c->link_left = fmin(c->link_left, r->link_left);
    c->cv = fmax(c->cv, r->cv);
    if (r->dies_s < c->dies_s) c->dies_s = r->dies_s, c->dead_rank = team * w->team_size + k;
    if (r->throttle_lost > c->throttle_lost) {
      c->throttle_lost = r->throttle_lost, c->throttle_at_s = r->throttle_at_s, c->throttle_for_s = r->throttle_for_s;
      c->slow_rank = team * w->team_size + k;
    }
  }
}

static void set_classes(maker *m) {
  mal_sim_world *w = m->w;
  int32_t *first;
  w->class_of = MAL_ARRAY(w->arena, int32_t, w->teams);
  w->n_classes = number(w->arena, m->colour, w->teams, w->class_of, &first);
  w->classes = MAL_ARRAY(w->arena, mal_sim_class, w->n_classes);
  for (int32_t c = 0; c < w->n_classes; c++) {
    set_class(m, &w->classes[c], first[c]);
    w->classes[c].after = w->class_of[team_after(m, first[c], 1)];
    w->classes[c].before = w->class_of[team_after(m, first[c], -1)];
  }
  for (int64_t t = 0; t < w->teams; t++) w->classes[w->class_of[t]].count++;
}

static int32_t add_member(int32_t *members, int32_t from, int32_t count, int32_t class) {
  for (int32_t i = from; i < count; i++)
    if (members[i] == class) return count;
  members[count] = class;
  return count + 1;
}

/* Groups of classes: a class meets the classes of its first team's group. */
static void set_groups(maker *m, int kind) {
  mal_sim_world *w = m->w;
  mal_sim_kind *k = &w->kinds[kind];
  mal_arena scratch;
  mal_arena_init(&scratch);
  int32_t *root = m->root[kind], *heads = MAL_ARRAY(&scratch, int32_t, w->teams + 1);
  int32_t *list = MAL_ARRAY(&scratch, int32_t, w->teams), *group_at = MAL_ARRAY(&scratch, int32_t, w->teams);
  for (int64_t t = 0; t < w->teams; t++) heads[root[t] + 1]++;
  for (int64_t t = 0; t < w->teams; t++) heads[t + 1] += heads[t];
  for (int64_t t = 0; t < w->teams; t++) list[heads[root[t]] + group_at[root[t]]++] = (int32_t)t;
  for (int64_t t = 0; t < w->teams; t++) group_at[t] = -1;
  k->group_of = MAL_ARRAY(w->arena, int32_t, w->n_classes);
  k->first = MAL_ARRAY(w->arena, int32_t, w->n_classes + 1);
  int32_t room = w->n_classes, used = 0;
  k->members = MAL_ARRAY(w->arena, int32_t, room);
  for (int32_t c = 0; c < w->n_classes; c++) k->group_of[c] = -1;
  for (int32_t c = 0; c < w->n_classes; c++) {
    if (k->group_of[c] >= 0 || !stage_has(k, w->classes[c].stage)) continue;
    int32_t from = used, r = root[w->classes[c].team];
    for (int32_t i = heads[r]; i < heads[r + 1]; i++) {
      int32_t other = w->class_of[list[i]];
      if (!stage_has(k, w->classes[other].stage) || k->group_of[other] >= 0) continue;
      k->group_of[other] = (int32_t)k->n_groups;
      used = add_member(k->members, from, used, other);
    }
    k->first[++k->n_groups] = used;
  }
  k->patterns = MAL_ARRAY(w->arena, mal_sim_pattern, k->n_groups + 1);
  mal_arena_free(&scratch);
}

/* --- NICs and links ------------------------------------------------------------------------------------------------------ */

static void set_nics(maker *m) {
  mal_sim_world *w = m->w;
  int64_t all = m->plan->machine.nodes * m->node_nics, gpus = m->plan->machine.gpus_per_node;
  uint64_t *colour = nic_colours(m, MAL_ARRAY(w->arena, uint64_t, all));
  int32_t *class_of = MAL_ARRAY(w->arena, int32_t, all), *first;
  w->n_nics = number(w->arena, colour, all, class_of, &first);
  w->nics = MAL_ARRAY(w->arena, mal_sim_nic, w->n_nics);

  for (int64_t i = 0; i < all; i++) w->nics[class_of[i]].count++;
  for (int32_t n = 0; n < w->n_nics; n++) {
    mal_sim_nic *nic = &w->nics[n];
    nic->node = first[n] / m->node_nics, nic->index = first[n] % m->node_nics;
    nic->classes = MAL_ARRAY(w->arena, int32_t, gpus);
    nic->ranks = MAL_ARRAY(w->arena, int32_t, gpus);
    double left = 1, ours = 0;
    for (int64_t g = 0; g < gpus && nic->node * gpus + g < w->ranks; g++) {
      int64_t r = nic->node * gpus + g;
      ours += r % gpus * m->node_nics / gpus == nic->index; /* those whose NIC it is when all is well */
      if (m->ranks[r].nic != nic->index) continue;
      left = fmin(left, m->ranks[r].nic_left);
      int32_t c = w->class_of[r / w->team_size], at = 0;
      while (at < nic->n_classes && nic->classes[at] != c) at++;
      if (at == nic->n_classes) nic->classes[nic->n_classes++] = c;
      nic->ranks[at]++;
    }
    nic->capacity = m->nic_share * (ours > 0 ? ours : 1) * left;
  }
  for (int32_t c = 0; c < w->n_classes; c++) w->classes[c].nics = MAL_ARRAY(w->arena, int32_t, w->team_size);
  for (int32_t c = 0; c < w->n_classes; c++)
    for (int64_t k = 0; k < w->team_size; k++) {
      int64_t r = w->classes[c].team * w->team_size + k;
      int32_t nic = class_of[node_of(m, r) * m->node_nics + m->ranks[r].nic];
      w->classes[c].n_nics = add_member(w->classes[c].nics, 0, w->classes[c].n_nics, nic);
    }
}

static int64_t leaf_of(const maker *m, int64_t rank) {
  const mal_switch_tree *t = &m->w->topology;
  int64_t node = node_of(m, rank), nic = m->ranks[rank].nic;
  if (m->plan->machine.fabric->rails.value > 0) {
    if (m->rail[node] && m->node_nics > 1 && nic < 2) nic = 1 - nic;
    return node / t->down * m->node_nics + nic;
  }
  return (node * m->node_nics + nic) / t->down;
}

static void set_topology(maker *m) {
  mal_sim_world *w = m->w;
  mal_switch_tree *t = &w->topology;
  const mal_fabric *f = m->plan->machine.fabric;
  int64_t nodes = m->plan->machine.nodes;
  double over = f->oversubscription.value > 1 ? f->oversubscription.value : 1;
  *t = (mal_switch_tree){
      .hosts = nodes * m->node_nics, .down = (int64_t)f->leaf_down.value, .routing = m->setup->routing};
  t->seed = m->setup->seed;
  t->pod = (int64_t)f->pod_leaves.value;
  bool rails = f->rails.value > 0;
  t->leaves = rails ? (nodes + t->down - 1) / t->down * m->node_nics : (t->hosts + t->down - 1) / t->down;
  t->port_rate = m->nic_share * (double)m->plan->machine.gpus_per_node / (double)m->node_nics;
  t->up = t->pod > 0 ? t->down : (int64_t)fmax(1, round((double)t->down / over));
  if (t->pod > 0) t->core_up = (int64_t)fmax(1, round((double)t->down / over));
  for (int i = 0; i < m->setup->n_faults; i++) {
    const mal_simulated_fault *fault = &m->setup->faults[i];
    if (fault->kind != MAL_BROKEN_UPLINK || fault->place.leaf >= t->leaves) continue;
    if (!t->left) {
      t->left = MAL_ARRAY(w->arena, double, t->leaves);
      for (int64_t k = 0; k < t->leaves; k++) t->left[k] = 1;
    }
    t->left[fault->place.leaf] *= 1 - fault->lost;
  }
}

static void set_links(maker *m) {
  mal_sim_world *w = m->w;
  int32_t fabric = w->fabric ? mal_topology_links(&w->topology) : 0;
  w->n_links = mal_sim_fabric_link(w, fabric);
  w->capacity = MAL_ARRAY(w->arena, double, w->n_links + 1);
  for (int32_t c = 0; c < w->n_classes; c++)
    w->capacity[mal_sim_inner_out(w, c)] = w->capacity[mal_sim_inner_in(w, c)] =
        w->inner_capacity * w->classes[c].link_left;
  for (int32_t n = 0; n < w->n_nics; n++)
    w->capacity[mal_sim_nic_out(w, n)] = w->capacity[mal_sim_nic_in(w, n)] = w->nics[n].capacity;
  if (fabric) mal_topology_capacity(&w->topology, m->setup->background, w->capacity + mal_sim_fabric_link(w, 0));
}

/* --- what uses which links ----------------------------------------------------------------------------------------------- */

static maker *maker_of(mal_sim_world *w) { return w->maker; }

static void add_use(mal_flow_use *uses, int32_t *count, int32_t link, float weight) {
  for (int32_t i = 0; i < *count; i++)
    if (uses[i].link == link) {
      uses[i].weight += weight;
      return;
    }
  uses[(*count)++] = (mal_flow_use){link, weight};
}

typedef struct collecting { /* sums weights by link */
  float *weight;
  int32_t *links, count;
} collecting;

static void collect(collecting *c, int32_t link, float weight) {
  if (c->weight[link] == 0) c->links[c->count++] = link;
  c->weight[link] += weight;
}

static void collect_route(mal_sim_world *w, collecting *c, int64_t from, int64_t to, float weight) {
  int32_t links[MAL_ROUTE_MOST];
  const maker *m = maker_of(w);
  int64_t a = node_of(m, from) * m->node_nics + m->ranks[from].nic,
          b = node_of(m, to) * m->node_nics + m->ranks[to].nic;
  int n = mal_topology_route(&w->topology, a, leaf_of(m, from), b, leaf_of(m, to), links);
  for (int i = 0; i < n; i++) collect(c, mal_sim_fabric_link(w, links[i]), weight);
}

/* Each rank sends to the member one domain further; in an all-to-all an equal part to each member of another domain. */
static void collect_fabric(mal_sim_world *w, const mal_sim_kind *k, int32_t group, mal_collective collective,
                           collecting *c) {
  const maker *m = maker_of(w);
  int64_t size = k->group.size, local = k->group.ranks_per_node > 0 ? k->group.ranks_per_node : 1;
  for (int32_t i = k->first[group]; i < k->first[group + 1]; i++)
    for (int64_t r = 0; r < w->team_size; r++) {
      int64_t rank = w->classes[k->members[i]].team * w->team_size + r, place, base = base_of(k, rank, &place);
      if (collective != MAL_ALL_TO_ALL) {
        int64_t next = member_of(k, base, (place + (k->exchange ? 1 : local)) % size);
        if (rank / m->island != next / m->island) collect_route(w, c, rank, next, 1);
        continue;
      }
      int64_t far = size - local;
      for (int64_t other = 0; other < size && far > 0; other++) {
        int64_t next = member_of(k, base, other);
        if (rank / m->island != next / m->island) collect_route(w, c, rank, next, 1.0F / (float)far);
      }
    }
}

static mal_flow_use *kept(mal_sim_world *w, collecting *c, int32_t *count) {
  mal_flow_use *uses = MAL_ARRAY(w->arena, mal_flow_use, c->count ? c->count : 1);
  for (int32_t i = 0; i < c->count; i++) {
    uses[i] = (mal_flow_use){c->links[i], c->weight[c->links[i]]};
    c->weight[c->links[i]] = 0;
  }
  *count = c->count;
  c->count = 0;
  return uses;
}

const mal_sim_pattern *mal_sim_group_pattern(mal_sim_world *w, int kind, int32_t group, mal_collective collective) {
  mal_sim_kind *k = &w->kinds[kind];
  mal_sim_pattern *p = &k->patterns[group];
  if (p->made) return p;
  if (!w->weights)
    w->weights = MAL_ARRAY(w->arena, float, w->n_links + 1), w->touched = MAL_ARRAY(w->arena, int32_t, w->n_links + 1);
  collecting c = {.weight = w->weights, .links = w->touched};
  for (int32_t i = k->first[group]; i < k->first[group + 1]; i++) {
    collect(&c, mal_sim_inner_out(w, k->members[i]), 1);
    collect(&c, mal_sim_inner_in(w, k->members[i]), 1);
  }
  p->inner = kept(w, &c, &p->n_inner);
  for (int32_t i = k->first[group]; i < k->first[group + 1]; i++) {
    const mal_sim_class *class = &w->classes[k->members[i]];
    for (int32_t j = 0; j < class->n_nics; j++) {
      const mal_sim_nic *nic = &w->nics[class->nics[j]];
      for (int32_t x = 0; x < nic->n_classes; x++) {
        if (nic->classes[x] != k->members[i]) continue;
        collect(&c, mal_sim_nic_out(w, class->nics[j]), (float)nic->ranks[x]);
        collect(&c, mal_sim_nic_in(w, class->nics[j]), (float)nic->ranks[x]);
      }
    }
  }
  if (w->fabric) collect_fabric(w, k, group, collective, &c);
  p->nic = kept(w, &c, &p->n_nic);
  p->made = true;
  return p;
}

static void use_nics(const mal_sim_world *w, int32_t class, bool out, mal_flow_use *uses, int32_t *count) {
  const mal_sim_class *c = &w->classes[class];
  for (int32_t j = 0; j < c->n_nics; j++) {
    const mal_sim_nic *nic = &w->nics[c->nics[j]];
    for (int32_t x = 0; x < nic->n_classes; x++)
      if (nic->classes[x] == class)
        add_use(uses, count, out ? mal_sim_nic_out(w, c->nics[j]) : mal_sim_nic_in(w, c->nics[j]),
                (float)nic->ranks[x]);
  }
}

int32_t mal_sim_message_uses(mal_sim_world *w, int32_t from, int32_t to, mal_flow_use *uses, int32_t most, bool *net) {
  const maker *m = maker_of(w);
  int64_t a = w->classes[from].team * w->team_size, b = w->classes[to].team * w->team_size;
  int32_t count = 0;
  *net = false;
  for (int64_t k = 0; k < w->team_size; k++) *net |= (a + k) / m->island != (b + k) / m->island;
  if (!*net) {
    uses[count++] = (mal_flow_use){mal_sim_inner_out(w, from), 1};
    uses[count++] = (mal_flow_use){mal_sim_inner_in(w, to), 1};
    return count;
  }
  use_nics(w, from, true, uses, &count);
  use_nics(w, to, false, uses, &count);
  for (int64_t k = 0; w->fabric && k < w->team_size && count + MAL_ROUTE_MOST <= most; k++) {
    int32_t links[MAL_ROUTE_MOST];
    int64_t x = node_of(m, a + k) * m->node_nics + m->ranks[a + k].nic;
    int64_t y = node_of(m, b + k) * m->node_nics + m->ranks[b + k].nic;
    int n = mal_topology_route(&w->topology, x, leaf_of(m, a + k), y, leaf_of(m, b + k), links);
    for (int i = 0; i < n; i++) add_use(uses, &count, mal_sim_fabric_link(w, links[i]), 1);
  }
  return count;
}

/* --- all of it ----------------------------------------------------------------------------------------------------------- */

/* What one fault does to a leaf, a NIC's plug or a hashed path cannot be told by classes of teams. */
static bool needs_fabric(const maker *m) {
  const mal_machine *machine = &m->plan->machine;
  if (machine->nodes < 2) return false;
  if (m->setup->routing != MAL_ROUTE_ADAPTIVE || m->setup->background > 0) return true;
  for (int i = 0; i < m->setup->n_faults; i++)
    if (m->setup->faults[i].kind == MAL_BROKEN_UPLINK || m->setup->faults[i].kind == MAL_BROKEN_RAIL) return true;
  return machine->fabric->oversubscription.value > 1;
}

static double inner_capacity(const mal_machine *m) {
  int64_t domain = mal_machine_domain(m), size = m->gpus_per_node > domain ? m->gpus_per_node : domain;
  mal_group g = {
      .size = size, .ranks_per_node = size, .nodes = 1, .ranks_per_nvlink = domain, .stride = 1, .nic_share = 1};
  return mal_group_reach(m, &g).inner;
}

static double nic_share(const mal_machine *m) {
  mal_group g = {.size = 2, .ranks_per_node = 1, .nodes = 2, .ranks_per_nvlink = 2, .stride = m->gpus_per_node};
  g.nic_share = m->node->nics.value / (double)m->gpus_per_node;
  return mal_group_reach(m, &g).nic;
}

mal_status mal_sim_world_make(mal_arena *a, const mal_program *p, const mal_sim_setup *setup, mal_sim_world *w,
                              mal_error *e) {
  const mal_layout *l = &p->plan->layout;
  maker *m = MAL_NEW(a, maker);
  *w = (mal_sim_world){.arena = a, .program = p, .ranks = mal_layout_world(l), .team_size = l->tp, .maker = m};
  w->teams = w->ranks / l->tp;
  w->stage_teams = l->cp * l->dp;
  w->inner_capacity = inner_capacity(&p->plan->machine);
  *m = (maker){.w = w, .plan = p->plan, .setup = setup, .nic_share = nic_share(&p->plan->machine)};
  m->island = mal_machine_domain(&p->plan->machine);
  if (m->island < p->plan->machine.gpus_per_node) m->island = p->plan->machine.gpus_per_node;
  w->nic_share = m->nic_share;
  w->fabric = needs_fabric(m);
  w->all_ranks = setup->all_ranks || w->fabric;
  note_kinds(w);
  for (int k = 0; k < w->n_kinds; k++) join_teams(m, k);
  mal_status status = set_ranks(m, e);
  if (status) return status;
  settle_colours(m);
  set_classes(m);
  for (int k = 0; k < w->n_kinds; k++) set_groups(m, k);
  set_nics(m);
  set_topology(m);
  for (int i = 0; i < setup->n_faults; i++)
    if (setup->faults[i].kind == MAL_BROKEN_UPLINK && setup->faults[i].place.leaf >= w->topology.leaves)
      return mal_fail(e, MAL_BAD, _("--fault %.80s: this machine has %lld leaves; they count from 0."),
                      setup->faults[i].text, (long long)w->topology.leaves);
  set_links(m);

  return MAL_OK;
}
