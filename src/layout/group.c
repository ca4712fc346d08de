/* Where groups lie on nodes, and which layers a stage has. */
#include "layout/layout.h"

int64_t mal_layout_world(const mal_layout *l) { return l->tp * l->cp * l->dp * l->pp; }

int64_t mal_layout_edp(const mal_layout *l) { return l->tp * l->cp * l->dp / (l->etp * l->ep); }

int64_t mal_machine_domain(const mal_machine *m) {
  int64_t domain = m->node->nvlink_domain, node = m->node->gpus;
  if (domain <= 1) return 1;
  if (domain <= node) return domain < m->gpus_per_node ? domain : m->gpus_per_node;
  int64_t most = domain / node, nodes = most < m->nodes ? most : m->nodes;
  while (m->nodes % nodes) nodes--;
  if (nodes * 2 < most && nodes < m->nodes) nodes = most; /* no even filling: racks one after the other */
  return nodes * m->gpus_per_node;
}

typedef mal_span axis;

/* Members of rank 0's group among the first `ranks` ranks. Axes by stride, each stride at least what the lower ones span. */
static int64_t members_below(const axis *axes, int n, int64_t ranks) {
  int64_t lower = 1, count = 0;
  for (int i = 0; i < n; i++) lower *= axes[i].extent;
  for (int i = n - 1; i >= 0; i--) {
    lower /= axes[i].extent;
    int64_t whole = ranks / axes[i].stride;
    if (whole >= axes[i].extent) return count + axes[i].extent * lower;
    count += whole * lower;
    ranks -= whole * axes[i].stride;
  }
  return count + (ranks > 0);
}

static int64_t gcd(int64_t x, int64_t y) { return y ? gcd(y, x % y) : x; }

/* Members of a group in one island of `island` ranks. A block of neighbouring ranks that does not fit islands evenly is
 * cut where it lies worst. */
static int64_t members_per_island(const axis *axes, int n, int64_t size, int64_t island) {
  bool block = n > 0 && axes[0].stride == 1;
  for (int i = 1; i < n; i++) block = block && axes[i].stride == axes[i - 1].stride * axes[i - 1].extent;
  if (block && island % size && size % island) {
    int64_t islands = (island - gcd(size, island) + size - 1) / island + 1;
    return (size + islands - 1) / islands;
  }
  int64_t members = members_below(axes, n, island);
  return members < 1 ? 1 : members;
}

static mal_group group_of(const mal_machine *m, const axis *axes, int n) {
  mal_group g = {.size = 1, .ranks_per_node = 1, .nodes = 1, .ranks_per_nvlink = 1, .stride = 1};
  g.nic_share = m->node->nics.value / (double)m->gpus_per_node;
  if (n == 0) return g;
  for (int i = 0; i < n; i++) g.size *= axes[i].extent;
  int64_t domain = mal_machine_domain(m);
  int64_t node = domain > m->gpus_per_node ? domain : m->gpus_per_node;
  g.stride = axes[0].stride;
  g.ranks_per_node = members_per_island(axes, n, g.size, node);
  g.ranks_per_nvlink = domain > 1 ? members_per_island(axes, n, g.size, domain) : 1;
  g.nodes = (g.size + g.ranks_per_node - 1) / g.ranks_per_node;
  return g;
}

int mal_layout_spans(const mal_layout *l, unsigned axes, mal_span spans[MAL_AXES]) {
  const int64_t stage = l->tp * l->cp * l->dp;
  const axis all[MAL_AXES] = {
      [MAL_AXIS_TP] = {1, l->tp},
      [MAL_AXIS_CP] = {l->tp, l->cp},
      [MAL_AXIS_DP] = {l->tp * l->cp, l->dp},
      [MAL_AXIS_PP] = {stage, l->pp},
      [MAL_AXIS_EP] = {l->etp, l->ep},
      [MAL_AXIS_ETP] = {1, l->etp},
      [MAL_AXIS_EDP] = {l->etp * l->ep, mal_layout_edp(l)},
  };
  static const int by_stride[MAL_AXES] = {MAL_AXIS_TP,  MAL_AXIS_ETP, MAL_AXIS_EP, MAL_AXIS_CP,
                                          MAL_AXIS_EDP, MAL_AXIS_DP,  MAL_AXIS_PP};
  int n = 0;
  for (int i = 0; i < MAL_AXES; i++)
    if (axes & (1u << by_stride[i]) && all[by_stride[i]].extent > 1) spans[n++] = all[by_stride[i]];
  return n;
}

mal_group mal_layout_group(const mal_layout *l, const mal_machine *machine, unsigned axes) {
  axis chosen[MAL_AXES];
  return group_of(machine, chosen, mal_layout_spans(l, axes, chosen));
}

static int64_t shard_size(const mal_layout *l) { return l->zero == 3 && l->hybrid > 0 ? l->hybrid : l->cp * l->dp; }

mal_span mal_layout_shard_span(const mal_layout *l) { return (mal_span){l->tp, shard_size(l)}; }

mal_span mal_layout_replica_span(const mal_layout *l) {
  int64_t size = shard_size(l);
  return (mal_span){l->tp * size, l->cp * l->dp / size};
}

mal_group mal_layout_shard_group(const mal_layout *l, const mal_machine *machine) {
  const axis shard = mal_layout_shard_span(l);
  return group_of(machine, &shard, shard.extent > 1);
}

mal_group mal_layout_replica_group(const mal_layout *l, const mal_machine *machine) {
  const axis replica = mal_layout_replica_span(l);
  return group_of(machine, &replica, replica.extent > 1);
}

/* Layers of a stage when the first or the last stage has its own count. */
static int64_t stage_layers(const mal_layout *l, int64_t layers, int64_t stage) {
  bool own_first = l->first_stage_layers >= 0, own_last = l->last_stage_layers >= 0;
  if (stage == 0 && own_first) return l->first_stage_layers;
  if (stage == l->pp - 1 && own_last) return l->last_stage_layers;
  int64_t rest = layers - (own_first ? l->first_stage_layers : 0) - (own_last ? l->last_stage_layers : 0);
  int64_t stages = l->pp - own_first - own_last, index = stage - own_first;
  return rest / stages + (index < rest % stages);
}

/* A stage takes layers until their cost passes its share of all layers' and the head's. */
static void stages_by_cost(const mal_layout *l, int64_t layers, int64_t *first, int64_t *count) {
  double share = ((double)layers + l->head_layers) / (double)l->pp;
  int64_t next = 0;
  for (int64_t stage = 0; stage < l->pp; stage++) {
    first[stage] = next;
    int64_t end = stage + 1 < l->pp ? (int64_t)(share * (double)(stage + 1)) + 1 : layers;
    next = end < layers ? end : layers;
    count[stage] = next - first[stage];
  }
}

void mal_layout_stages(const mal_layout *l, int64_t layers, int64_t *first, int64_t *count) {
  int64_t vpp = l->vpp > 0 ? l->vpp : 1, chunks = l->pp * vpp, next = 0;
  if (l->head_layers > 0) {
    stages_by_cost(l, layers, first, count);
    return;
  }
  bool own = l->pp > 1 && (l->first_stage_layers >= 0 || l->last_stage_layers >= 0);
  int64_t total = layers + (l->embedding_in_layers && chunks > 1 ? 2 : 0);
  for (int64_t v = 0; v < chunks; v++) {
    int64_t stage = v % l->pp, chunk = v / l->pp;
    if (own) {
      int64_t all = stage_layers(l, layers, stage);
      count[v] = all / vpp + (chunk < all % vpp);
    } else {
      count[v] = total / chunks + (v < total % chunks);
      if (total != layers) count[v] -= (v == 0) + (v == chunks - 1);
    }
    first[v] = next;
    next += count[v];
  }
}
