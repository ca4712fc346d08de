#include "design/network.h"
#include <math.h>
#include <stdlib.h>

const char *const mal_topology_name[] = {"rail", "tree", "dragonfly", NULL};
const char *const mal_tier_name[] = {"node-leaf", "leaf-spine", "spine-core"};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Smallest divisor of `of` that is at least `least`; 0 when there is none. */
static int64_t divisor_from(int64_t of, int64_t least) {
  for (int64_t d = least < 1 ? 1 : least; d <= of; d++)
    if (of % d == 0) return d;
  return 0;
}

static int64_t endpoints(const mal_network_ask *k) { return k->nodes * k->rails + k->servers * k->server_ports; }

/* --- leaves ---------------------------------------------------------------------------------------------------------- */

/* Whether some divisor lies within three times any number of spines below `up`. */
static bool divides_well(int64_t up) {
  for (int64_t d = 1, next; d < up; d = next)
    if ((next = divisor_from(up, d + 1)) > 3 * d) return false;
  return true;
}

/* The fewest links up that keep the oversubscription and that many numbers of spines share evenly: of 62 only 31 or 62 spines can
 * take the same, of 63 it is 7, 9 or 21. */
static void split_leaf(mal_network *n) {
  int64_t ports = n->ask.leaf->ports, least = (int64_t)ceil((double)ports / (1 + n->ask.oversubscription) - 1e-9);
  n->up = least;
  while (n->up < ports / 2 && !divides_well(n->up)) n->up++;
  if (!divides_well(n->up)) n->up = least;
  n->down = ports - n->up;
}

/* Node slots: those of managers, a manager on each rail, are given up by nodes. */
static int64_t slots(const mal_network_ask *k) {
  return k->nodes + (k->managers > 0 ? ceil_div(k->managers, k->rails) : 0);
}

/* As many rails in one leaf as let all nodes meet in one unit: fewer switches for few nodes. */
static int64_t rails_in_leaf(const mal_network *n) {
  const mal_network_ask *k = &n->ask;
  for (int64_t d = k->rails; d > 1 && !k->whole_units; d--)
    if (k->rails % d == 0 && slots(k) * d <= n->down) return d;
  return 1;
}

static void set_leaves(mal_network *n) {
  const mal_network_ask *k = &n->ask;
  split_leaf(n);
  if (k->topology == MAL_TOPOLOGY_TREE) {
    n->leaves = ceil_div(endpoints(k) + k->managers, n->down);
    n->rails_per_leaf = k->rails;
    return;
  }
  n->rails_per_leaf = rails_in_leaf(n);
  n->leaves_per_unit = k->rails / n->rails_per_leaf;
  n->unit_nodes = n->down / n->rails_per_leaf;
  n->units = ceil_div(slots(k), n->unit_nodes);
  n->leaves = n->units * n->leaves_per_unit;
}

/* --- spines and cores ------------------------------------------------------------------------------------------------ */

static int64_t pod_size(const mal_network *n, int64_t pod) {
  int64_t left = n->leaves - pod * n->pod_leaves;
  return left < n->pod_leaves ? left : n->pod_leaves;
}

/* Spines of a pod of `leaves`: enough ports down, links of a leaf spread evenly, and links to each core group a multiple of
 * `cores`. A pod of fewer spines than there are groups sends each spine to groups/spines of them. */
static int64_t pod_spines(const mal_network *n, int64_t leaves, int64_t cores) {
  int64_t half = n->ask.leaf->ports / 2;
  for (int64_t s = divisor_from(n->up, ceil_div(leaves * n->up, half)); s; s = divisor_from(n->up, s + 1)) {
    if (n->groups % s || half % (n->groups / s)) continue;
    if (half / (n->groups / s) % cores == 0) return s;
  }
  return 0;
}

static int64_t spines_of(const mal_network *n, int64_t pod) {
  return n->tiers == 2 ? n->spines : pod_spines(n, pod_size(n, pod), n->cores_per_group);
}

/* Links from one pod to one core group. */
static int64_t links_to_group(const mal_network *n, int64_t spines) {
  int64_t each = spines > 0 ? n->groups / spines : 0; /* groups that one spine goes to */
  return each > 0 ? n->ask.leaf->ports / 2 / each : 0;
}

static bool cores_suffice(mal_network *n, int64_t cores) {
  int64_t links = 0, spines = 0;
  n->cores_per_group = cores;
  for (int64_t pod = 0; pod < n->pods; pod++) {
    int64_t s = spines_of(n, pod);
    if (!s) return false;
    spines += s;
    links += links_to_group(n, s);
  }
  if (links > cores * n->ask.leaf->ports) return false;
  n->spines = spines;
  n->cores = cores * n->groups;
  return true;
}

static bool three_tiers(mal_network *n) {
  int64_t half = n->ask.leaf->ports / 2;
  n->tiers = 3;
  n->pod_leaves = half;
  if (n->leaves_per_unit > 1 && half > n->leaves_per_unit) n->pod_leaves = half - half % n->leaves_per_unit;
  n->pods = ceil_div(n->leaves, n->pod_leaves);
  n->groups = divisor_from(n->up, ceil_div(n->pod_leaves * n->up, half));
  for (int64_t cores = 1; n->groups && cores <= half; cores++)
    if (half % cores == 0 && cores_suffice(n, cores)) return true;
  return false;
}

static bool set_upper(mal_network *n) {
  if (n->leaves > n->ask.leaf->ports) return three_tiers(n);
  n->tiers = 2;
  n->pods = 1, n->pod_leaves = n->leaves;
  n->spines = divisor_from(n->up, ceil_div(n->leaves * n->up, n->ask.leaf->ports));
  return n->spines > 0;
}

/* --- dragonfly ------------------------------------------------------------------------------------------------------- */

static bool dragonfly(mal_network *n) {
  n->hosts = (n->ask.leaf->ports + 1) / 4;
  n->routers = 2 * n->hosts, n->globals = n->hosts;
  n->down = n->hosts, n->up = n->ask.leaf->ports - n->hosts;
  n->groups = ceil_div(endpoints(&n->ask) + n->ask.managers, n->hosts * n->routers);
  n->leaves = n->groups * n->routers;
  return n->hosts > 0 && n->groups - 1 <= n->routers * n->globals;
}

static int64_t pair_links(const mal_network *n) {
  return n->groups > 1 ? n->routers * n->globals / (n->groups - 1) : 0;
}

/* --- all together ---------------------------------------------------------------------------------------------------- */

static void count_cables(mal_network *n) {
  n->cables[MAL_TIER_NODE] = endpoints(&n->ask) + n->ask.managers;
  if (n->ask.topology == MAL_TOPOLOGY_DRAGONFLY) {
    n->cables[MAL_TIER_SPINE] = n->groups * (n->routers * (n->routers - 1) / 2);
    n->cables[MAL_TIER_CORE] = n->groups * (n->groups - 1) / 2 * pair_links(n);
  } else if (n->tiers >= 2) {
    n->cables[MAL_TIER_SPINE] = n->leaves * n->up;
    if (n->tiers == 3)
      for (int64_t pod = 0; pod < n->pods; pod++)
        n->cables[MAL_TIER_CORE] += links_to_group(n, spines_of(n, pod)) * n->groups;
  }
  n->ports = mal_network_switches(n) * n->ask.leaf->ports;
  n->ports_used = n->cables[MAL_TIER_NODE] + 2 * (n->cables[MAL_TIER_SPINE] + n->cables[MAL_TIER_CORE]);
}

/* Rate at which one half of the nodes can send to the other: half of the node links, or of what leads up from the leaves in
 * use, if that is less. */
static double bisection(const mal_network *n) {
  double nodes = (double)endpoints(&n->ask) / 2;
  if (n->tiers == 1) return nodes * n->link_bytes_per_s;
  if (n->ask.topology == MAL_TOPOLOGY_DRAGONFLY) {
    double across = n->groups > 1 ? (double)(pair_links(n) * (n->groups / 2) * ((n->groups + 1) / 2)) : nodes;
    return fmin(nodes, across) * n->link_bytes_per_s;
  }
  double across = (double)n->cables[MAL_TIER_SPINE] / 2;
  if (n->tiers == 3) across = fmin(across, (double)n->cables[MAL_TIER_CORE] / 2);
  return fmin(nodes * n->link_bytes_per_s, across * n->ask.leaf->port_bytes_per_s.value);
}

int64_t mal_network_switches(const mal_network *n) { return n->leaves + n->spines + n->cores; }

static mal_status check(const mal_network_ask *k, mal_error *e) {
  if (endpoints(k) < 1) return mal_fail(e, MAL_BAD, _("the %s network has nothing to connect; give nodes."), k->name);
  if (!(k->oversubscription >= 1) || k->oversubscription > (double)(k->leaf->ports - 1))
    return mal_fail(e, MAL_BAD, _("an oversubscription of %g cannot be built with %lld ports; give 1 to %lld."),
                    k->oversubscription, (long long)k->leaf->ports, (long long)k->leaf->ports - 1);
  if (k->leaf->ports < 4)
    return mal_fail(e, MAL_BAD, _("switch %s has %lld ports; a network needs 4 or more."), k->leaf->name,
                    (long long)k->leaf->ports);
  return MAL_OK;
}

/* Nodes that three tiers hold: ports/2 leaves a pod and as many pods as a core has ports. */
static int64_t most_ports(const mal_network *n) {
  int64_t half = n->ask.leaf->ports / 2;
  return n->ask.topology == MAL_TOPOLOGY_DRAGONFLY ? n->hosts * n->routers * (n->routers * n->globals + 1)
                                                   : half * n->ask.leaf->ports * n->down;
}

mal_status mal_network_make(const mal_network_ask *ask, double nic_bytes_per_s, mal_network *n, mal_error *e) {
  *n = (mal_network){.ask = *ask};
  mal_status s = check(ask, e);
  if (s != MAL_OK) return s;
  n->link_bytes_per_s = fmin(nic_bytes_per_s, ask->leaf->port_bytes_per_s.value);
  bool built = true;
  if (endpoints(ask) + ask->managers <= ask->leaf->ports && !ask->whole_units) {
    n->tiers = 1, n->leaves = 1, n->down = ask->leaf->ports;
    n->units = 1, n->unit_nodes = ask->nodes, n->rails_per_leaf = ask->rails, n->leaves_per_unit = 1;
    n->ask.topology = MAL_TOPOLOGY_TREE;
  } else if (ask->topology == MAL_TOPOLOGY_DRAGONFLY) {
    built = dragonfly(n);
  } else {
    set_leaves(n);
    built = n->unit_nodes != 0 || ask->topology == MAL_TOPOLOGY_TREE;
    built = built && set_upper(n);
  }
  if (!built)
    return mal_fail(e, MAL_NO,
                    _("%lld ports are more than the %lld that a %s of %s (%lld ports) reaches: take a switch with more "
                      "ports (--switch), or fewer nodes%s."),
                    (long long)endpoints(ask), (long long)most_ports(n),
                    ask->topology == MAL_TOPOLOGY_DRAGONFLY ? _("dragonfly") : _("three-tier network"), ask->leaf->name,
                    (long long)ask->leaf->ports,
                    ask->topology != MAL_TOPOLOGY_DRAGONFLY ? _(", or --topology dragonfly") : "");
  count_cables(n);
  n->bisection_bytes_per_s = bisection(n);
  return MAL_OK;
}

/* --- cables ---------------------------------------------------------------------------------------------------------- */

typedef struct writer {
  const mal_network *n;
  mal_link *links;
  int64_t count;
} writer;

static void add(writer *w, int tier, mal_device from, int64_t from_port, mal_device to, int64_t to_port, int64_t rail) {
  w->links[w->count++] = (mal_link){from, to, from_port, to_port, rail, tier};
}

/* The leaf and its port of an endpoint. sequence: of all node ports, server ports, managers' ports, in this order. */
static void attach(writer *w, mal_device d, int64_t port, int64_t rail, int64_t slot, int64_t sequence) {
  const mal_network *n = w->n;
  int64_t leaf = sequence / n->down, at = sequence % n->down;
  if (n->ask.topology == MAL_TOPOLOGY_RAIL) {
    int64_t k = n->rails_per_leaf;
    leaf = slot / n->unit_nodes * n->leaves_per_unit + rail / k;
    at = slot % n->unit_nodes * k + rail % k;
  }
  add(w, MAL_TIER_NODE, d, port, (mal_device){MAL_DEV_LEAF, leaf}, at + 1, d.kind == MAL_DEV_NODE ? rail : -1);
}

static void node_links(writer *w) {
  const mal_network_ask *k = &w->n->ask;
  int64_t sequence = 0;
  for (int64_t i = 0; i < k->nodes; i++)
    for (int64_t r = 0; r < k->rails; r++, sequence++) attach(w, (mal_device){MAL_DEV_NODE, i}, r + 1, r, i, sequence);
  for (int64_t i = 0; i < k->servers; i++)
    for (int64_t r = 0; r < k->server_ports; r++, sequence++)
      attach(w, (mal_device){MAL_DEV_SERVER, i}, r + 1, r, k->nodes + i, sequence);
  for (int64_t i = 0; i < k->managers; i++, sequence++)
    attach(w, (mal_device){MAL_DEV_MANAGER, i}, 1, i % k->rails, k->nodes + i / k->rails, sequence);
}

static void leaf_links(writer *w) {
  const mal_network *n = w->n;
  int64_t first = 0;
  for (int64_t pod = 0; pod < n->pods; pod++) {
    int64_t spines = spines_of(n, pod), each = spines > 0 ? n->up / spines : 0;
    for (int64_t l = 0; l < pod_size(n, pod); l++)
      for (int64_t s = 0; s < spines; s++)
        for (int64_t j = 0; j < each; j++)
          add(w, MAL_TIER_SPINE, (mal_device){MAL_DEV_LEAF, pod * n->pod_leaves + l}, n->down + s * each + j + 1,
              (mal_device){MAL_DEV_SPINE, first + s}, l * each + j + 1, -1);
    first += spines;
  }
}

static void core_links(writer *w) {
  const mal_network *n = w->n;
  int64_t half = n->ask.leaf->ports / 2, first = 0, taken = 0; /* taken: ports of each core, by pods before */
  for (int64_t pod = 0; pod < n->pods; pod++) {
    int64_t spines = spines_of(n, pod), links = links_to_group(n, spines), each = links / n->cores_per_group;
    for (int64_t g = 0; g < n->groups; g++)
      for (int64_t j = 0; j < links; j++)
        add(w, MAL_TIER_CORE, (mal_device){MAL_DEV_SPINE, first + g % spines}, half + g / spines * links + j + 1,
            (mal_device){MAL_DEV_CORE, g * n->cores_per_group + j / each}, taken + j % each + 1, -1);
    first += spines;
    taken += each;
  }
}

static void dragonfly_links(writer *w) {
  const mal_network *n = w->n;
  for (int64_t g = 0; g < n->groups; g++)
    for (int64_t i = 0; i < n->routers; i++)
      for (int64_t j = i + 1; j < n->routers; j++) /* the peer's place among the others is its port */
        add(w, MAL_TIER_SPINE, (mal_device){MAL_DEV_LEAF, g * n->routers + i}, n->hosts + j,
            (mal_device){MAL_DEV_LEAF, g * n->routers + j}, n->hosts + i + 1, -1);
  int64_t many = pair_links(n), base = n->hosts + n->routers - 1;
  for (int64_t g = 0; g < n->groups; g++)
    for (int64_t k = g + 1; k < n->groups; k++)
      for (int64_t t = 0; t < many; t++) {
        int64_t here = (k - 1) * many + t, there = g * many + t;
        add(w, MAL_TIER_CORE, (mal_device){MAL_DEV_LEAF, g * n->routers + here / n->globals},
            base + here % n->globals + 1, (mal_device){MAL_DEV_LEAF, k * n->routers + there / n->globals},
            base + there % n->globals + 1, -1);
      }
}

mal_link *mal_network_links(mal_arena *a, const mal_network *n, int64_t *count) {
  int64_t total = n->cables[0] + n->cables[1] + n->cables[2];
  writer w = {n, MAL_ARRAY(a, mal_link, total), 0};
  node_links(&w);
  if (n->ask.topology == MAL_TOPOLOGY_DRAGONFLY)
    dragonfly_links(&w);
  else if (n->tiers >= 2)
    leaf_links(&w);
  if (n->tiers == 3) core_links(&w);
  *count = w.count;
  return w.links;
}

char *mal_device_label(mal_arena *a, const mal_network *n, mal_device d) {
  static const struct {
    const char *word;
    int digits;
    bool own; /* of one network: carries its name */
  } kinds[MAL_DEVICE_KINDS] = {{"node", 4, false}, {"server", 3, false}, {"manager", 2, true},
                               {"leaf", 3, true},  {"spine", 3, true},   {"core", 3, true}};
  const char *name = kinds[d.kind].own ? n->ask.name : "";
  return mal_print(a, "%s%s%s%0*lld", name, *name ? "-" : "", kinds[d.kind].word, kinds[d.kind].digits,
                   (long long)d.index + 1);
}

/* --- growth ---------------------------------------------------------------------------------------------------------- */

static int compare_links(const void *x, const void *y) {
  const mal_link *a = x, *b = y;
  const int64_t p[] = {a->from.kind, a->from.index, a->from_port, a->to.kind, a->to.index, a->to_port};
  const int64_t q[] = {b->from.kind, b->from.index, b->from_port, b->to.kind, b->to.index, b->to_port};
  for (size_t i = 0; i < sizeof p / sizeof *p; i++)
    if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
  return 0;
}

int64_t mal_network_recabled(mal_arena *a, const mal_network *from, const mal_network *to) {
  int64_t n, m, moved = 0;
  mal_link *old = mal_network_links(a, from, &n), *new = mal_network_links(a, to, &m);
  qsort(new, (size_t)m, sizeof *new, compare_links);
  for (int64_t i = 0; i < n; i++) moved += !bsearch(&old[i], new, (size_t)m, sizeof *new, compare_links);
  return moved;
}
