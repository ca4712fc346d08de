/* Teams that nothing tells apart: colours, refined until they stay; classes; groups of classes. */
#include "core/random.h"
#include "simulate/maker.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static uint64_t fault_colour(const mal_sim_rank_state *r) {
  uint64_t c = mal_mix64(bits_of(r->slow));
  c = mal_mix64(c ^ bits_of(r->link_left));
  c = mal_mix64(c ^ bits_of(r->nic_left));
  c = mal_mix64(c ^ bits_of(r->pcie_left) ^ r->far_memory);
  c = mal_mix64(c ^ bits_of(r->cv));
  c = mal_mix64(c ^ bits_of(r->dies_s));
  c = mal_mix64(c ^ bits_of(r->throttle_lost));
  return mal_mix64(c ^ bits_of(r->throttle_at_s) ^ mal_mix64(bits_of(r->throttle_for_s)));
}

int64_t mal_sim_team_after(const mal_sim_maker *m, int64_t team, int by) {
  int64_t all = m->w->teams;
  return (team + by * m->w->stage_teams + all) % all;
}

static bool hop_leaves_island(const mal_sim_maker *m, int64_t team, int by) {
  int64_t other = mal_sim_team_after(m, team, by), size = m->w->team_size;
  for (int64_t k = 0; k < size; k++)
    if ((team * size + k) / m->island != (other * size + k) / m->island) return true;
  return false;
}

static void first_colours(mal_sim_maker *m) {
  const mal_sim_world *w = m->w;
  for (int64_t t = 0; t < w->teams; t++) {
    uint64_t c = w->all_ranks ? mal_mix64((uint64_t)t + 1) : mal_mix64((uint64_t)(t / w->stage_teams));
    c ^= mal_mix64(2 + hop_leaves_island(m, t, 1)) ^ mal_mix64(8 + hop_leaves_island(m, t, -1));
    for (int64_t k = 0; k < w->team_size; k++) {
      const mal_sim_rank_state *r = &m->ranks[t * w->team_size + k];
      c += fault_colour(r);
    }
    m->colour[t] = mal_mix64(c);
  }
}

uint64_t *mal_sim_nic_colours(const mal_sim_maker *m, uint64_t *into) {
  int64_t all = m->plan->machine.nodes * m->node_nics;
  memset(into, 0, (size_t)all * sizeof *into);
  for (int64_t r = 0; r < m->w->ranks; r++) {
    int64_t nic = mal_sim_node_of(m, r) * m->node_nics + m->ranks[r].nic;
    into[nic] += mal_mix64(m->colour[r / m->w->team_size] ^ bits_of(m->ranks[r].nic_left));
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
static void refine(mal_sim_maker *m, uint64_t *next, uint64_t *sum, uint64_t *nics, uint64_t *sockets) {
  const mal_sim_world *w = m->w;
  for (int64_t t = 0; t < w->teams; t++)
    next[t] = mal_mix64(m->colour[t] ^ mal_mix64(m->colour[mal_sim_team_after(m, t, 1)]) ^
                        3 * mal_mix64(m->colour[mal_sim_team_after(m, t, -1)] + 7));
  for (int k = 0; k < w->n_kinds; k++) {
    if (w->kinds[k].local) continue;
    memset(sum, 0, (size_t)w->teams * sizeof *sum);
    for (int64_t t = 0; t < w->teams; t++)
      if (mal_sim_stage_has(&w->kinds[k], t / w->stage_teams))
        sum[m->root[k][t]] += mal_mix64(m->colour[t] + (uint64_t)k);
    for (int64_t t = 0; t < w->teams; t++)
      if (mal_sim_stage_has(&w->kinds[k], t / w->stage_teams)) next[t] = mal_mix64(next[t] ^ sum[m->root[k][t]]);
  }
  mal_sim_nic_colours(m, nics);
  for (int64_t r = 0; r < w->ranks; r++)
    next[r / w->team_size] += mal_mix64(nics[mal_sim_node_of(m, r) * m->node_nics + m->ranks[r].nic]);
  if (sockets) mal_sim_socket_colours(m, sockets);
  for (int64_t r = 0; sockets && r < w->ranks; r++) next[r / w->team_size] += mal_sim_socket_colour(m, sockets, r);
  memcpy(m->colour, next, (size_t)w->teams * sizeof *next);
}

void mal_sim_settle_colours(mal_sim_maker *m) {
  mal_sim_world *w = m->w;
  mal_arena scratch;
  mal_arena_init(&scratch);
  uint64_t *next = MAL_ARRAY(&scratch, uint64_t, w->teams), *sum = MAL_ARRAY(&scratch, uint64_t, w->teams);
  uint64_t *nics = MAL_ARRAY(&scratch, uint64_t, m->plan->machine.nodes * m->node_nics);
  uint64_t *sockets = w->hosts ? MAL_ARRAY(&scratch, uint64_t, m->plan->machine.nodes * m->sockets) : NULL;
  m->colour = MAL_ARRAY(w->arena, uint64_t, w->teams);
  first_colours(m);
  int64_t before = w->all_ranks ? w->teams : distinct(m->colour, w->teams, next);
  while (before < w->teams) {
    refine(m, next, sum, nics, sockets);
    int64_t after = distinct(m->colour, w->teams, next);
    if (after == before) break;
    before = after;
  }
  mal_arena_free(&scratch);
}

/* --- classes --- */

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

int32_t mal_sim_number(mal_arena *a, const uint64_t *colour, int64_t n, int32_t *class_of, int32_t **first) {
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

static void set_class(mal_sim_maker *m, mal_sim_class *c, int64_t team) {
  const mal_sim_world *w = m->w;
  *c = (mal_sim_class){
      .stage = (int32_t)(team / w->stage_teams), .team = (int32_t)team, .slow = 0, .link_left = 1, .pcie_left = 1};
  c->dies_s = INFINITY;
  for (int64_t k = 0; k < w->team_size; k++) {
    const mal_sim_rank_state *r = &m->ranks[team * w->team_size + k];
    if (r->slow > c->slow) c->slow = r->slow, c->slow_rank = team * w->team_size + k;
    c->link_left = fmin(c->link_left, r->link_left);
    c->pcie_left = fmin(c->pcie_left, r->pcie_left);
    c->cv = fmax(c->cv, r->cv);
    if (r->dies_s < c->dies_s) c->dies_s = r->dies_s, c->dead_rank = team * w->team_size + k;
    if (r->throttle_lost > c->throttle_lost) {
      c->throttle_lost = r->throttle_lost, c->throttle_at_s = r->throttle_at_s, c->throttle_for_s = r->throttle_for_s;
      c->slow_rank = team * w->team_size + k;
    }
  }
}

void mal_sim_set_classes(mal_sim_maker *m) {
  mal_sim_world *w = m->w;
  int32_t *first;
  w->class_of = MAL_ARRAY(w->arena, int32_t, w->teams);
  w->n_classes = mal_sim_number(w->arena, m->colour, w->teams, w->class_of, &first);
  w->classes = MAL_ARRAY(w->arena, mal_sim_class, w->n_classes);
  for (int32_t c = 0; c < w->n_classes; c++) {
    set_class(m, &w->classes[c], first[c]);
    w->classes[c].after = w->class_of[mal_sim_team_after(m, first[c], 1)];
    w->classes[c].before = w->class_of[mal_sim_team_after(m, first[c], -1)];
  }
  for (int64_t t = 0; t < w->teams; t++) w->classes[w->class_of[t]].count++;
}

int32_t mal_sim_add_member(int32_t *members, int32_t from, int32_t count, int32_t class) {
  for (int32_t i = from; i < count; i++)
    if (members[i] == class) return count;
  members[count] = class;
  return count + 1;
}

/* Groups of classes: a class meets the classes of its first team's group. */
void mal_sim_set_groups(mal_sim_maker *m, int kind) {
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
    if (k->group_of[c] >= 0 || !mal_sim_stage_has(k, w->classes[c].stage)) continue;
    int32_t from = used, r = root[w->classes[c].team];
    for (int32_t i = heads[r]; i < heads[r + 1]; i++) {
      int32_t other = w->class_of[list[i]];
      if (!mal_sim_stage_has(k, w->classes[other].stage) || k->group_of[other] >= 0) continue;
      k->group_of[other] = (int32_t)k->n_groups;
      used = mal_sim_add_member(k->members, from, used, other);
    }
    k->first[++k->n_groups] = used;
  }
  k->patterns = MAL_ARRAY(w->arena, mal_sim_pattern, k->n_groups + 1);
  mal_arena_free(&scratch);
}
