/* What follows from what was read: kinds of PCI devices, the tree above them, NUMA nodes, and paths. */
#include "machine/topology/topology.h"
#include <stdlib.h>
#include <string.h>

enum {
  NVIDIA = 0x10de,
  CLASS_VGA = 0x0300,
  CLASS_3D = 0x0302,
  CLASS_NETWORK = 0x02,
  CLASS_ETHERNET = 0x0200,
  CLASS_INFINIBAND = 0x0207,
  CLASS_NVME = 0x0108,
  CLASS_BRIDGE = 0x0604,
  CLASS_OTHER_BRIDGE = 0x0680
};

/* What a PCI device is, by class and maker. A display adapter without a maker is a GPU only when it has no monitor (3D class):
 * hand-written topologies leave makers out. */
static mal_part_kind kind_of(const mal_part *d) {
  int class = (int)mal_fact_number(d, MAL_F_CLASS, 0), vendor = (int)mal_fact_number(d, MAL_F_VENDOR, 0);
  if (class == CLASS_3D) return MAL_PART_GPU;
  if (class == CLASS_VGA && vendor == NVIDIA) return MAL_PART_GPU;
  if (class == CLASS_ETHERNET || class == CLASS_INFINIBAND) return MAL_PART_NIC;
  if (class == CLASS_NVME) return MAL_PART_DRIVE;
  if (class == CLASS_BRIDGE) return MAL_PART_BRIDGE;
  if (class == CLASS_OTHER_BRIDGE && vendor == NVIDIA) return MAL_PART_NVSWITCH;
  return MAL_PART_PCI;
}

void mal_topology_kinds_of(mal_topology *t) {
  for (int i = 0; i < t->n_devices; i++) {
    mal_part *d = &t->devices[i];
    if (d->kind == MAL_PART_PCI && mal_known(d, MAL_F_CLASS)) d->kind = kind_of(d);
    if (d->kind == MAL_PART_PCI && d->below[0] >= 0) d->kind = MAL_PART_BRIDGE;
  }
}

static int64_t bus_of(int64_t address) { return address >> 8; }

/* The bridge that reaches an address with the narrowest range of buses. */
static mal_part *bridge_above(const mal_topology *t, const mal_part *d) {
  mal_part *best = NULL;
  int64_t bus = bus_of(d->bus);
  for (int i = 0; i < t->n_devices; i++) {
    mal_part *b = &t->devices[i];
    if (b == d || b->below[0] < 0 || bus < b->below[0] || bus > b->below[1]) continue;
    if (b->bus >= 0 && bus_of(b->bus) == bus) continue; /* beside it, not below */
    if (!best || b->below[1] - b->below[0] < best->below[1] - best->below[0]) best = b;
  }
  return best;
}

static void find_parents(mal_topology *t) {
  for (int i = 0; i < t->n_devices; i++) {
    mal_part *d = &t->devices[i];
    if (d->bus < 0 || d->parent >= 0) continue;
    mal_part *b = bridge_above(t, d);
    if (b) d->parent = b->bus;
  }
}

static mal_part *parent_of(const mal_topology *t, const mal_part *d) {
  mal_part *p = d->parent >= 0 ? mal_find_bus(t, d->parent) : NULL;
  return p == d ? NULL : p;
}

enum { TREE_DEPTH = 32 };

/* The device and the bridges above it, nearest first; a cycle in a broken file ends at TREE_DEPTH. */
static int chain_of(const mal_topology *t, mal_part *d, mal_part **chain) {
  int n = 0;
  for (; d && n < TREE_DEPTH; d = parent_of(t, d)) chain[n++] = d;
  return n;
}

static int numa_of(const mal_topology *t, mal_part *d) {
  mal_part *chain[TREE_DEPTH];
  int n = chain_of(t, d, chain);
  for (int i = 0; i < n; i++)
    if (mal_fact_number(chain[i], MAL_F_NUMA, -1) >= 0) return (int)mal_fact_number(chain[i], MAL_F_NUMA, -1);
  return -1;
}

static mal_path by_numa(int x, int y) {
  if (x < 0 || y < 0) return MAL_PATH_UNKNOWN;
  return x == y ? MAL_PATH_NODE : MAL_PATH_SYS;
}

/* The path through the PCI tree. A switch is an upstream port with downstream ports below it: two devices whose downstream
 * ports hang on the same upstream port are PIX. */
static mal_path by_tree(const mal_topology *t, mal_part *a, mal_part *b) {
  mal_part *x[TREE_DEPTH], *y[TREE_DEPTH];
  int n = chain_of(t, a, x), m = chain_of(t, b, y), numa_a = numa_of(t, a), numa_b = numa_of(t, b);
  if (a->bus < 0 || b->bus < 0) return by_numa(numa_a, numa_b);
  for (int i = 1; i < n; i++)
    for (int j = 1; j < m; j++)
      if (x[i] == y[j]) return i <= 2 && j <= 2 ? MAL_PATH_PIX : MAL_PATH_PXB;
  if (bus_of(a->bus) == bus_of(b->bus) && n > 1 && m > 1) return MAL_PATH_PIX;
  int64_t root_a = x[n - 1]->root >= 0 ? x[n - 1]->root : n > 1 ? bus_of(x[n - 1]->bus) : -1;
  int64_t root_b = y[m - 1]->root >= 0 ? y[m - 1]->root : m > 1 ? bus_of(y[m - 1]->bus) : -1;
  if (root_a >= 0 && root_a == root_b) return MAL_PATH_PHB;
  return by_numa(numa_a, numa_b);
}

static double links_up(const mal_part *d) {
  int n = 0;
  for (int i = 0; i < d->n_links; i++) n += d->links[i].active != 0;
  return n;
}

static bool joins(const mal_part *d) { return d->kind == MAL_PART_GPU || mal_nic_computes(d); }

static void fill_paths(mal_topology *t) {
  for (int i = 0; i < t->n_devices; i++)
    for (int j = 0; j < i; j++) {
      mal_part *a = &t->devices[i], *b = &t->devices[j];
      if (!joins(a) || !joins(b)) continue;
      const mal_wire *known = mal_find_wire(t, a, b);
      if (known && known->path != MAL_PATH_UNKNOWN) continue;
      mal_path path = by_tree(t, a, b);
      bool through_switch = a->kind == MAL_PART_GPU && b->kind == MAL_PART_GPU && links_up(a) > 0 && links_up(b) > 0 &&
                            mal_count_parts(t, MAL_PART_NVSWITCH) > 0;
      if (path == MAL_PATH_UNKNOWN && !through_switch) continue;
      mal_wire *w = mal_wire_between(t, a, b);
      w->path = through_switch ? MAL_PATH_NVLINK : path;
      if (through_switch) w->nvlinks = (int)(links_up(a) < links_up(b) ? links_up(a) : links_up(b));
      w->from = (mal_evidence){0};
    }
}

static int by_bus(const void *a, const void *b) {
  const mal_part *x = *(mal_part *const *)a, *y = *(mal_part *const *)b;
  return x->bus < y->bus ? -1 : x->bus > y->bus;
}

/* nvidia-smi counts GPUs in the order of their addresses. */
static void count_gpus(mal_topology *t) {
  mal_part *gpus[256];
  int n = mal_parts_of(t, MAL_PART_GPU, gpus, 256), unnamed = 0;
  for (int i = 0; i < n; i++) unnamed += gpus[i]->index < 0;
  if (!unnamed) return;
  if (unnamed == n) qsort(gpus, (size_t)n, sizeof *gpus, by_bus);
  int next = 0;
  for (int i = 0; i < n; i++)
    if (gpus[i]->index >= next) next = gpus[i]->index + 1;
  for (int i = 0; i < n; i++)
    if (gpus[i]->index < 0) gpus[i]->index = next++;
}

/* "mlx5_2" before "mlx5_10". */
static int by_name(const void *a, const void *b) {
  const mal_part *x = *(mal_part *const *)a, *y = *(mal_part *const *)b;
  size_t n = strlen(x->name), m = strlen(y->name);
  return n != m ? (n < m ? -1 : 1) : strcmp(x->name, y->name);
}

enum { NICS = 256 };

typedef struct nics { /* what is known of them one way */
  mal_part *of[NICS];
  int n;
} nics;

static void give_address(mal_part *to, mal_part *from) {
  to->bus = from->bus;
  to->parent = from->parent;
  to->root = from->root;
  for (int k = 0; k < MAL_FACTS; k++)
    if (from->fact[k].known && !to->fact[k].known) to->fact[k] = from->fact[k];
  from->kind = MAL_PART_PCI;
  from->bus = -1;
}

/* NIC3 of a matrix without a legend, and mlx5_3 of ibstat. */
static void give_name(mal_topology *t, mal_part *to, mal_part *from) {
  to->name = from->name;
  for (int k = 0; k < MAL_FACTS; k++)
    if (from->fact[k].known && !to->fact[k].known) to->fact[k] = from->fact[k];
  for (int i = 0; i < from->n_counters; i++)
    mal_count_event(t, to, from->counters[i].name, from->counters[i].value, from->counters[i].from);
  from->kind = MAL_PART_PCI;
  from->name = NULL;
}

static bool is_infiniband(const mal_part *d) {
  const char *layer = mal_fact_text(d, MAL_F_LAYER);
  return layer ? strcmp(layer, "InfiniBand") == 0 : (int)mal_fact_number(d, MAL_F_CLASS, 0) == CLASS_INFINIBAND;
}

static int of_layer(const nics *from, bool infiniband, nics *to) {
  to->n = 0;
  for (int i = 0; i < from->n; i++)
    if (is_infiniband(from->of[i]) == infiniband) to->of[to->n++] = from->of[i];
  return to->n;
}

static bool has_wires(const mal_topology *t, const nics *list) {
  for (int i = 0; i < t->n_wires; i++)
    for (int k = 0; k < list->n; k++)
      if (t->wires[i].from.file &&
          (&t->devices[t->wires[i].a] == list->of[k] || &t->devices[t->wires[i].b] == list->of[k]))
        return true;
  return false;
}

static void match(mal_topology *t, const nics *named, const nics *placed) {
  for (int i = 0; i < named->n; i++) give_address(named->of[i], placed->of[i]);
  mal_missing(t, _("No file gives both name and address of a NIC: they were matched in order."));
}

/* Some files name NICs, others number them or give their addresses. When as many are known each way, of each kind of link, they are
 * the same in order; else which is which is not known, and those that say less of the paths are not counted again. */
static void pair_nics(mal_topology *t) {
  nics named = {.n = 0}, numbered = {.n = 0}, placed = {.n = 0}, a, b;
  for (int i = 0; i < t->n_devices; i++) {
    mal_part *d = &t->devices[i];
    if (!mal_nic_computes(d)) continue;
    nics *list = d->name && d->bus < 0       ? &named
                 : !d->name && d->bus >= 0   ? &placed
                 : !d->name && d->index >= 0 ? &numbered
                                             : NULL;
    if (list && list->n < NICS) list->of[list->n++] = d;
  }
  if (named.n) qsort(named.of, (size_t)named.n, sizeof *named.of, by_name);
  if (placed.n) qsort(placed.of, (size_t)placed.n, sizeof *placed.of, by_bus);
  if (numbered.n && named.n == numbered.n) {
    for (int i = 0; i < named.n; i++) give_name(t, numbered.of[i], named.of[i]);
    named = numbered;
    numbered.n = 0;
  }
  if (!named.n) named = numbered, numbered.n = 0;
  if (numbered.n) { /* names and numbers that do not match: the matrix counts */
    for (int i = 0; i < named.n; i++) named.of[i]->again = true;
    mal_missing(
        t, _("%d NICs are named and %d are numbered: which is which is not said. Add the whole of nvidia-smi topo -m."),
        named.n, numbered.n);
    named = numbered;
  }
  if (!named.n || !placed.n) return;
  if (named.n == placed.n) {
    match(t, &named, &placed);
    return;
  }
  bool all = true;
  for (int kind = 0; kind < 2; kind++) {
    bool alike = of_layer(&named, kind, &a) == of_layer(&placed, kind, &b);
    if (alike && a.n) match(t, &a, &b);
    all = all && (alike || !a.n || !b.n);
    for (int i = 0; !alike && a.n && i < b.n && (has_wires(t, &a) || a.n >= b.n); i++) b.of[i]->again = true;
    for (int i = 0; !alike && b.n && i < a.n && !(has_wires(t, &a) || a.n >= b.n); i++) a.of[i]->again = true;
  }
  if (!all)
    mal_missing(t,
                _("%d NICs are known by name and %d by address: which is which is not said. Add /sys/class/infiniband "
                  "or NCCL's "
                  "topology XML."),
                named.n, placed.n);
}

/* A matrix gives NICs no NUMA node, but their distance to GPUs does: up to NODE they share it. */
static void nics_by_matrix(mal_topology *t) {
  for (int i = 0; i < t->n_wires; i++) {
    const mal_wire *w = &t->wires[i];
    mal_part *a = &t->devices[w->a], *b = &t->devices[w->b];
    if (w->path < MAL_PATH_PIX || w->path > MAL_PATH_NODE || a->kind == b->kind) continue;
    mal_part *nic = a->kind == MAL_PART_NIC ? a : b, *gpu = a->kind == MAL_PART_NIC ? b : a;
    if (mal_known(gpu, MAL_F_NUMA) && !mal_known(nic, MAL_F_NUMA))
      mal_know(nic, MAL_F_NUMA, mal_fact_number(gpu, MAL_F_NUMA, -1), w->from);
  }
}

static void note_numa(mal_topology *t) {
  for (int i = 0; i < t->n_devices; i++) {
    mal_part *d = &t->devices[i];
    if (d->kind == MAL_PART_NUMA) continue;
    int numa = numa_of(t, d);
    if (numa < 0) continue;
    if (!mal_known(d, MAL_F_NUMA)) mal_know(d, MAL_F_NUMA, numa, (mal_evidence){0});
    if (d->kind != MAL_PART_GPU && d->kind != MAL_PART_NIC) continue;
    mal_evidence from = d->fact[MAL_F_NUMA].from;
    const char *cpus = mal_fact_text(d, MAL_F_CPUS);
    mal_part *node = mal_part_at(t, MAL_PART_NUMA, numa, -1, from); /* may move the devices */
    d = &t->devices[i];
    if (node && cpus && !mal_known(node, MAL_F_CPUS))
      mal_know_text(t, node, MAL_F_CPUS, cpus, d->fact[MAL_F_CPUS].from);
    if (node && !cpus && d->kind == MAL_PART_GPU && mal_fact_text(node, MAL_F_CPUS))
      mal_know_text(t, d, MAL_F_CPUS, mal_fact_text(node, MAL_F_CPUS), (mal_evidence){0});
  }
}

static void say_missing(mal_topology *t) {
  int gpus = mal_count_parts(t, MAL_PART_GPU), nics = 0, named = 0, paths = 0, joined = 0, numa = 0, by_tree_only = 0;
  for (int i = 0; i < t->n_devices; i++) {
    const mal_part *d = &t->devices[i];
    nics += mal_nic_computes(d);
    if (d->kind != MAL_PART_GPU) continue;
    named += mal_known(d, MAL_F_PRODUCT) || mal_known(d, MAL_F_DEVICE);
    numa += mal_known(d, MAL_F_NUMA);
    for (int j = 0; j < i; j++)
      if (t->devices[j].kind == MAL_PART_GPU) {
        const mal_wire *w = mal_find_wire(t, d, &t->devices[j]);
        joined++;
        paths += w && w->path != MAL_PATH_UNKNOWN;
        by_tree_only += w && w->path > MAL_PATH_NVLINK && !w->from.file && !d->n_links;
      }
  }
  for (int i = 0; i < t->n_sources; i++)
    if (t->sources[i].broken)
      mal_missing(t, _("%s breaks off at line %d: what came after is not known."), t->sources[i].file,
                  t->sources[i].broken);
  if (!gpus) mal_missing(t, _("No GPU is named by these files: add nvidia-smi -q -x or lspci -vvv."));
  if (gpus && named < gpus) mal_missing(t, _("The GPU model is not said: add nvidia-smi -q -x, or give --gpu NAME."));
  if (gpus > 1 && paths < joined)
    mal_missing(t, _("How %d of %d GPU pairs are joined is not said: add nvidia-smi topo -m."), joined - paths, joined);
  if (by_tree_only)
    mal_missing(t, _("NVLinks are not said: paths between GPUs are those over PCIe. Add nvidia-smi topo -m."));
  if (gpus && !nics)
    mal_missing(t, _("No NIC of the compute fabric is named: add ibstat or lspci -vvv if there are any."));
  if (gpus && numa < gpus) mal_missing(t, _("NUMA nodes of %d GPUs are not said: add lstopo --of xml."), gpus - numa);
}

void mal_topology_derive(mal_topology *t) {
  mal_topology_kinds_of(t);
  find_parents(t);
  count_gpus(t);
  pair_nics(t);
  note_numa(t);
  nics_by_matrix(t);
  fill_paths(t);
  say_missing(t);
}
