/* NICs, links between them, and what a group or a message uses. */
#include "simulate/maker.h"
#include <math.h>

void mal_sim_set_nics(mal_sim_maker *m) {
  mal_sim_world *w = m->w;
  int64_t all = m->plan->machine.nodes * m->node_nics, gpus = m->plan->machine.gpus_per_node;
  uint64_t *colour = mal_sim_nic_colours(m, MAL_ARRAY(w->arena, uint64_t, all));
  int32_t *class_of = MAL_ARRAY(w->arena, int32_t, all), *first;
  w->n_nics = mal_sim_number(w->arena, colour, all, class_of, &first);
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
      int32_t nic = class_of[mal_sim_node_of(m, r) * m->node_nics + m->ranks[r].nic];
      w->classes[c].n_nics = mal_sim_add_member(w->classes[c].nics, 0, w->classes[c].n_nics, nic);
    }
}

int64_t mal_sim_leaf_of(const mal_sim_maker *m, int64_t rank) {
  const mal_switch_tree *t = &m->w->topology;
  int64_t node = mal_sim_node_of(m, rank), nic = m->ranks[rank].nic;
  if (m->plan->machine.fabric->rails.value > 0) {
    if (m->rail[node] && m->node_nics > 1 && nic < 2) nic = 1 - nic;
    return node / t->down * m->node_nics + nic;
  }
  return (node * m->node_nics + nic) / t->down;
}

void mal_sim_set_topology(mal_sim_maker *m) {
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

void mal_sim_set_links(mal_sim_maker *m) {
  mal_sim_world *w = m->w;
  int32_t fabric = w->fabric ? mal_topology_links(&w->topology) : 0;
  w->n_links = mal_sim_fabric_link(w, fabric);
  w->capacity = MAL_ARRAY(w->arena, double, w->n_links + 1);
  for (int32_t c = 0; c < w->n_classes; c++)
    w->capacity[mal_sim_inner_out(w, c)] = w->capacity[mal_sim_inner_in(w, c)] =
        w->inner_capacity * w->classes[c].link_left;
  for (int32_t n = 0; n < w->n_nics; n++)
    w->capacity[mal_sim_nic_out(w, n)] = w->capacity[mal_sim_nic_in(w, n)] = w->nics[n].capacity;
  mal_sim_set_host_links(m);
  if (fabric) mal_topology_capacity(&w->topology, m->setup->background, w->capacity + mal_sim_fabric_link(w, 0));
}

/* --- what uses which links --- */

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
  const mal_sim_maker *m = w->maker;
  int64_t a = mal_sim_node_of(m, from) * m->node_nics + m->ranks[from].nic,
          b = mal_sim_node_of(m, to) * m->node_nics + m->ranks[to].nic;
  int n = mal_topology_route(&w->topology, a, mal_sim_leaf_of(m, from), b, mal_sim_leaf_of(m, to), links);
  for (int i = 0; i < n; i++) collect(c, mal_sim_fabric_link(w, links[i]), weight);
}

/* Each rank sends to the member one domain further; in an all-to-all an equal part to each member of another domain. */
static void collect_fabric(mal_sim_world *w, const mal_sim_kind *k, int32_t group, mal_collective collective,
                           collecting *c) {
  const mal_sim_maker *m = w->maker;
  int64_t size = k->group.size, local = k->group.ranks_per_node > 0 ? k->group.ranks_per_node : 1;
  for (int32_t i = k->first[group]; i < k->first[group + 1]; i++)
    for (int64_t r = 0; r < w->team_size; r++) {
      int64_t rank = w->classes[k->members[i]].team * w->team_size + r, place, base = mal_sim_base_of(k, rank, &place);
      if (collective != MAL_ALL_TO_ALL) {
        int64_t next = mal_sim_member_of(k, base, (place + (k->exchange ? 1 : local)) % size);
        if (rank / m->island != next / m->island) collect_route(w, c, rank, next, 1);
        continue;
      }
      int64_t far = size - local;
      for (int64_t other = 0; other < size && far > 0; other++) {
        int64_t next = mal_sim_member_of(k, base, other);
        if (rank / m->island != next / m->island) collect_route(w, c, rank, next, 1.0F / (float)far);
      }
    }
}

static void collect_nic_way(const mal_sim_world *w, int32_t class, collecting *c) {
  mal_flow_use *uses = MAL_ARRAY(w->arena, mal_flow_use, 1 + w->classes[class].n_sockets);
  for (int out = 0; out < 2; out++) {
    int32_t n = mal_sim_nic_way(w, class, out, uses);
    for (int32_t i = 0; i < n; i++) collect(c, uses[i].link, uses[i].weight);
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
    collect_nic_way(w, k->members[i], &c);
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
  int32_t more = mal_sim_nic_way(w, class, out, uses + *count), from = *count;
  for (int32_t i = 0; i < more; i++) add_use(uses, count, uses[from + i].link, uses[from + i].weight);
}

int32_t mal_sim_message_most(const mal_sim_world *w, int32_t from, int32_t to) {
  const mal_sim_class *a = &w->classes[from], *b = &w->classes[to];
  return a->n_nics + b->n_nics + a->n_sockets + b->n_sockets + 2 + MAL_ROUTE_MOST * (int32_t)w->team_size;
}

int32_t mal_sim_message_uses(mal_sim_world *w, int32_t from, int32_t to, mal_flow_use *uses, bool *net) {
  const mal_sim_maker *m = w->maker;
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
  for (int64_t k = 0; w->fabric && k < w->team_size; k++) {
    int32_t links[MAL_ROUTE_MOST];
    int64_t x = mal_sim_node_of(m, a + k) * m->node_nics + m->ranks[a + k].nic;
    int64_t y = mal_sim_node_of(m, b + k) * m->node_nics + m->ranks[b + k].nic;
    int n = mal_topology_route(&w->topology, x, mal_sim_leaf_of(m, a + k), y, mal_sim_leaf_of(m, b + k), links);
    for (int i = 0; i < n; i++) add_use(uses, &count, mal_sim_fabric_link(w, links[i]), 1);
  }
  return count;
}
