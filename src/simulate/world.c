#include "program/lower_block.h"
#include "simulate/maker.h"
#include <math.h>

/* --- kinds of groups --- */

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

int64_t mal_sim_base_of(const mal_sim_kind *k, int64_t rank, int64_t *place) {
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

int64_t mal_sim_member_of(const mal_sim_kind *k, int64_t base, int64_t index) {
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
static void join_teams(mal_sim_maker *m, int kind) {
  mal_sim_world *w = m->w;
  mal_sim_kind *k = &w->kinds[kind];
  int32_t *root = m->root[kind] = MAL_ARRAY(w->arena, int32_t, w->teams);
  k->local = true;
  for (int32_t t = 0; t < w->teams; t++) root[t] = t;
  for (int64_t r = 0; r < w->ranks; r++) {
    int64_t base = mal_sim_base_of(k, r, NULL), team = r / w->team_size, other = base / w->team_size;
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

/* --- faults --- */

static bool at_place(const mal_sim_maker *m, const mal_simulated_place *p, int64_t rank) {
  if (p->rank >= 0) return p->rank == rank;
  if (p->node >= 0) return p->node == mal_sim_node_of(m, rank);
  return p->leaf < 0;
}

static double pcie_over_inner(const mal_sim_maker *m) {
  const mal_gpu *g = m->plan->machine.gpu;
  double pcie = g->pcie_bytes_per_s.value * g->cal.pcie.value;
  return pcie > 0 && pcie < m->w->inner_capacity ? pcie / m->w->inner_capacity : 0;
}

static void apply_fault(mal_sim_maker *m, const mal_simulated_fault *f, mal_sim_rank_state *r, int64_t rank) {
  switch (f->kind) {
  case MAL_BROKEN_SLOW: r->slow /= 1 - f->lost; break;
  case MAL_BROKEN_THROTTLE: r->throttle_lost = f->lost, r->throttle_at_s = f->at_s, r->throttle_for_s = f->for_s; break;
  case MAL_BROKEN_NVLINK: r->link_left *= f->lost < 1 ? 1 - f->lost : pcie_over_inner(m); break;
  case MAL_BROKEN_NIC:
    if (f->lost < 1)
      r->nic_left *= 1 - f->lost;
    else
      m->dead_nic[mal_sim_node_of(m, rank) * m->node_nics + r->nic] = 1;
    break;
  case MAL_BROKEN_PCIE: r->pcie_left *= 1 - f->lost; break;
  case MAL_BROKEN_NUMA: r->far_memory = true; break;
  case MAL_BROKEN_JITTER: r->cv = hypot(r->cv, f->cv); break;
  case MAL_BROKEN_DIE: r->dies_s = fmin(r->dies_s, f->at_s); break;
  default: break;
  }
}

/* Traffic of a dead NIC takes the next one of the node that lives. */
static mal_status move_traffic(mal_sim_maker *m, mal_error *e) {
  int64_t gpus = m->plan->machine.gpus_per_node;
  for (int64_t r = 0; r < m->w->ranks; r++) {
    mal_sim_rank_state *s = &m->ranks[r];
    const double *dead = m->dead_nic + mal_sim_node_of(m, r) * m->node_nics;
    int64_t tried = 0, nic = s->nic;
    while (tried < m->node_nics && dead[nic] > 0) nic = (nic + 1) % m->node_nics, tried++;
    if (tried == m->node_nics && m->plan->machine.nodes > 1)
      return mal_fail(e, MAL_BAD, _("--fault: every NIC of node %lld is dead: its %lld ranks reach nobody."),
                      (long long)mal_sim_node_of(m, r), (long long)gpus);
    s->nic = (int32_t)nic;
  }
  return MAL_OK;
}

static mal_status set_ranks(mal_sim_maker *m, mal_error *e) {
  const mal_machine *machine = &m->plan->machine;
  int64_t gpus = machine->gpus_per_node, nics = (int64_t)machine->node->nics.value;
  if (nics < 1) nics = 1;
  m->node_nics = nics < gpus ? nics : gpus;
  m->ranks = MAL_ARRAY(m->w->arena, mal_sim_rank_state, m->w->ranks);
  m->dead_nic = MAL_ARRAY(m->w->arena, double, machine->nodes * m->node_nics);
  m->rail = MAL_ARRAY(m->w->arena, bool, machine->nodes);
  for (int64_t r = 0; r < m->w->ranks; r++) {
    mal_sim_rank_state *s = &m->ranks[r];
    *s = (mal_sim_rank_state){.slow = 1, .link_left = 1, .nic_left = 1, .pcie_left = 1, .dies_s = INFINITY};
    s->nic = (int32_t)(r % gpus * m->node_nics / gpus);
    for (int i = 0; i < m->setup->n_faults; i++)
      if (at_place(m, &m->setup->faults[i].place, r)) apply_fault(m, &m->setup->faults[i], s, r);
  }
  for (int i = 0; i < m->setup->n_faults; i++)
    if (m->setup->faults[i].kind == MAL_BROKEN_RAIL) m->rail[m->setup->faults[i].place.node] = true;
  for (int i = 0; i < m->setup->n_faults; i++)
    for (int64_t n = 0; m->setup->faults[i].kind == MAL_BROKEN_CPULINK && n < machine->nodes; n++)
      if (m->setup->faults[i].place.node < 0 || m->setup->faults[i].place.node == n)
        m->cpu_left[n] *= 1 - m->setup->faults[i].lost;
  return move_traffic(m, e);
}

/* --- all of it --- */

/* What one fault does to a leaf, a NIC's plug or a hashed path cannot be told by classes of teams. */
static bool needs_fabric(const mal_sim_maker *m) {
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

static mal_status check_sockets(const mal_sim_maker *m, mal_error *e) {
  for (int i = 0; i < m->setup->n_faults; i++) {
    const mal_simulated_fault *f = &m->setup->faults[i];
    if (m->sockets < 2 && (f->kind == MAL_BROKEN_NUMA || f->kind == MAL_BROKEN_CPULINK))
      return mal_fail(e, MAL_BAD, _("--fault %.80s: GPUs of a node lie on one CPU socket (cpu_sockets)."), f->text);
  }
  return MAL_OK;
}

mal_status mal_sim_world_make(mal_arena *a, const mal_program *p, const mal_sim_setup *setup, mal_sim_world *w,
                              mal_error *e) {
  const mal_layout *l = &p->plan->layout;
  mal_sim_maker *m = MAL_NEW(a, mal_sim_maker);
  *w = (mal_sim_world){.arena = a, .program = p, .ranks = mal_layout_world(l), .team_size = l->tp, .maker = m};
  w->teams = w->ranks / l->tp;
  w->stage_teams = l->cp * l->dp;
  w->inner_capacity = inner_capacity(&p->plan->machine);
  *m = (mal_sim_maker){.w = w, .plan = p->plan, .setup = setup, .nic_share = nic_share(&p->plan->machine)};
  m->island = mal_machine_domain(&p->plan->machine);
  if (m->island < p->plan->machine.gpus_per_node) m->island = p->plan->machine.gpus_per_node;
  w->nic_share = m->nic_share;
  w->fabric = needs_fabric(m);
  w->all_ranks = setup->all_ranks || w->fabric;
  w->algorithm = setup->algorithm;
  note_kinds(w);
  for (int k = 0; k < w->n_kinds; k++) join_teams(m, k);
  mal_sim_count_sockets(m);
  mal_status status = check_sockets(m, e);
  if (!status) status = set_ranks(m, e);
  if (status) return status;
  w->hosts = mal_sim_needs_hosts(m);
  mal_sim_settle_colours(m);
  mal_sim_set_classes(m);
  for (int k = 0; k < w->n_kinds; k++) mal_sim_set_groups(m, k);
  mal_sim_set_nics(m);
  if (w->hosts) mal_sim_set_sockets(m), mal_sim_note_sockets(m);
  mal_sim_set_topology(m);
  for (int i = 0; i < setup->n_faults; i++)
    if (setup->faults[i].kind == MAL_BROKEN_UPLINK && setup->faults[i].place.leaf >= w->topology.leaves)
      return mal_fail(e, MAL_BAD, _("--fault %.80s: this machine has %lld leaves; they count from 0."),
                      setup->faults[i].text, (long long)w->topology.leaves);
  mal_sim_set_links(m);

  return MAL_OK;
}
