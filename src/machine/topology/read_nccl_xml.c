/* NCCL's topology: written by NCCL_TOPO_DUMP_FILE, and shipped by clouds for NCCL_TOPO_FILE. Some leave out classes, makers or the
 * GPUs themselves. */
#include "machine/topology/read.h"
#include "machine/topology/xml.h"
#include <stdlib.h>
#include <string.h>

enum { CLASS_NVSWITCH = 0x0680 };
static const int64_t ROOTS = INT64_C(1) << 40; /* beyond any PCI domain */

static void number(mal_part *d, mal_fact_key key, const mal_xml *x, const char *attribute, int base, double scale,
                   mal_evidence from) {
  const char *text = mal_xml_attribute(x, attribute);
  if (!text || !*text) return;
  if (base == 16)
    mal_know(d, key, (double)strtoul(text, NULL, 16), from);
  else if (atof(text) != 0 || strcmp(text, "0") == 0)
    mal_know(d, key, atof(text) * scale, from);
}

static void pci(mal_topology *t, const mal_xml *x, int64_t parent, int numa, const mal_paste *p) {
  const char *id = mal_xml_attribute(x, "busid"), *class = mal_xml_attribute(x, "class");
  int64_t bus = id ? mal_bus_parse(id) : -1;
  if (bus < 0) return;
  mal_evidence from = {p->file, x->line};
  mal_part *d = mal_part_at(t, MAL_PART_PCI, -1, bus, from);
  if (!d) return;
  d->parent = parent;
  d->root = ROOTS + numa + 1; /* NCCL takes a NUMA node for one host bridge */
  if (numa >= 0) mal_know(d, MAL_F_NUMA, numa, from);
  if (class && *class) mal_know(d, MAL_F_CLASS, (double)(strtoul(class, NULL, 16) >> 8), from);
  number(d, MAL_F_VENDOR, x, "vendor", 16, 1, from);
  number(d, MAL_F_DEVICE, x, "device", 16, 1, from);
  double speed = mal_xml_attribute(x, "link_speed") ? atof(mal_xml_attribute(x, "link_speed")) : 0;
  if (mal_pcie_generation(speed)) mal_know(d, MAL_F_SPEED, speed, from);
  const char *width = mal_xml_attribute(x, "link_width");
  if (width && atoi(width) > 0) mal_know(d, MAL_F_WIDTH, atoi(width), from);
  if (mal_xml_child(x, "pci") && !class) d->kind = MAL_PART_BRIDGE;
  if (mal_xml_child(x, "gpu")) d->kind = MAL_PART_GPU;
}

static void links(mal_topology *t, int at, const mal_xml *gpu, const mal_paste *p) {
  int n = 0;
  for (const mal_xml *x = gpu->child; x; x = x->next) {
    const char *count = mal_xml_attribute(x, "count"), *target = mal_xml_attribute(x, "target"),
               *class = mal_xml_attribute(x, "tclass");
    if (strcmp(x->name, "nvlink") != 0 || !count) continue;
    mal_evidence from = {p->file, x->line};
    int64_t bus = target ? mal_bus_parse(target) : -1;
    if (bus >= 0 && bus == t->devices[at].bus) {
      mal_missing(t, _("%s:%d: NVLinks of a GPU to itself say nothing."), p->file, x->line);
      continue;
    }
    for (int i = 0; i < atoi(count) && n < MAL_LINKS_MAX; i++) {
      mal_nvlink *l = mal_nvlink_at(t, &t->devices[at], n++);
      l->active = 1;
      l->from = from;
    }
    if (class && strtoul(class, NULL, 16) >> 8 == CLASS_NVSWITCH && bus >= 0) {
      mal_part_at(t, MAL_PART_NVSWITCH, -1, bus, from);
      continue;
    }
    mal_part *peer = bus >= 0 ? mal_find_bus(t, bus) : NULL; /* those that come later make their own wire */
    if (!peer || peer == &t->devices[at]) continue;
    mal_wire *w = mal_wire_between(t, &t->devices[at], peer);
    *w = (mal_wire){.a = w->a, .b = w->b, .path = MAL_PATH_NVLINK, .nvlinks = atoi(count), .from = from};
  }
}

static void gpu(mal_topology *t, const mal_xml *x, const mal_paste *p) {
  const char *id = mal_xml_attribute(x->parent, "busid"), *dev = mal_xml_attribute(x, "dev");
  mal_part *d = id ? mal_find_bus(t, mal_bus_parse(id)) : NULL;
  if (!d) return;
  mal_evidence from = {p->file, x->line};
  if (dev && *dev) d->index = atoi(dev);
  number(d, MAL_F_SM, x, "sm", 10, 1, from);
  number(d, MAL_F_GDR, x, "gdr", 10, 1, from);
  links(t, (int)(d - t->devices), x, p);
}

static void net(mal_topology *t, const mal_xml *x, int64_t bus, int numa, const mal_paste *p) {
  const char *name = mal_xml_attribute(x, "name"), *dev = mal_xml_attribute(x, "dev");
  mal_evidence from = {p->file, x->line};
  if (!name || !*name) return;
  mal_part *d = mal_part_named(t, MAL_PART_NIC, name, from), *slot = bus >= 0 ? mal_find_bus(t, bus) : NULL;
  if (!d) return;
  d->index = dev && *dev ? atoi(dev) : -1;
  if (numa >= 0) mal_know(d, MAL_F_NUMA, numa, from);
  number(d, MAL_F_RATE, x, "speed", 10, 1e6, from); /* Mb/s */
  number(d, MAL_F_GDR, x, "gdr", 10, 1, from);
  if (!slot || slot == d) return;
  d->bus = bus; /* several ports may share it */
  d->parent = slot->parent;
  for (int k = 0; k < MAL_FACTS; k++)
    if (slot->fact[k].known && !d->fact[k].known) d->fact[k] = slot->fact[k];
  if (slot->kind == MAL_PART_PCI) {
    slot->kind = MAL_PART_PCI; /* the port stands for it */
    slot->fact[MAL_F_CLASS].known = false;
  }
}

static int64_t address_above(const mal_xml *x) {
  for (const mal_xml *up = x->parent; up; up = up->parent)
    if (strcmp(up->name, "pci") == 0 && mal_xml_attribute(up, "busid"))
      return mal_bus_parse(mal_xml_attribute(up, "busid"));
  return -1;
}

static int numa_above(const mal_xml *x) {
  for (const mal_xml *up = x->parent; up; up = up->parent)
    if (strcmp(up->name, "cpu") == 0 && mal_xml_attribute(up, "numaid")) return atoi(mal_xml_attribute(up, "numaid"));
  return -1;
}

static void cpu(mal_topology *t, const mal_xml *x, const mal_paste *p) {
  const char *id = mal_xml_attribute(x, "numaid"), *mask = mal_xml_attribute(x, "affinity"),
             *vendor = mal_xml_attribute(x, "vendor");
  if (!id || atoi(id) < 0) return;
  mal_part *d = mal_part_at(t, MAL_PART_NUMA, atoi(id), -1, (mal_evidence){p->file, x->line});
  const char *cpus = d && mask ? mal_cpus_of_mask(t->arena, mask) : NULL;
  if (cpus) mal_know_text(t, d, MAL_F_CPUS, cpus, (mal_evidence){p->file, x->line});
  if (vendor && *vendor) t->cpu = mal_copy(t->arena, vendor);
}

/* NCCL_GRAPH_DUMP_FILE: the rings and trees that NCCL chose. It names GPUs by number, and no hardware. */
static bool graphs(mal_topology *t, const mal_paste *p, int *broken) {
  mal_xml *root = mal_xml_read(t->arena, p, "graphs", broken);
  const mal_xml *graph = mal_xml_child(root, "graph");
  if (!graph) return false;
  for (const mal_xml *x = root; x; x = mal_xml_next(x, root)) {
    const char *dev = strcmp(x->name, "gpu") == 0 ? mal_xml_attribute(x, "dev") : NULL;
    if (dev && *dev && atoi(dev) >= 0 && atoi(dev) < 256)
      mal_part_at(t, MAL_PART_GPU, atoi(dev), -1, (mal_evidence){p->file, x->line});
  }
  const char *channels = mal_xml_attribute(graph, "nchannels"), *speed = mal_xml_attribute(graph, "speedintra"),
             *path = mal_xml_attribute(graph, "typeintra");
  mal_missing(t,
              _("%s is NCCL's graph, the rings and trees it chose (first: %s channels of %s GB/s over %s): it names no "
                "hardware. Add the "
                "topology (NCCL_TOPO_DUMP_FILE)."),
              p->file, channels ? channels : "?", speed ? speed : "?", path ? path : "?");
  return true;
}

bool mal_read_nccl_xml(mal_topology *t, const mal_paste *p, int *broken) {
  if (graphs(t, p, broken)) return true;
  mal_xml *root = mal_xml_read(t->arena, p, "system", broken);
  if (!root || (!mal_xml_child(root, "cpu") && !mal_xml_attribute(root, "version"))) return false;
  int unclassed = 0;
  for (const mal_xml *x = root; x; x = mal_xml_next(x, root)) { /* a parent comes before what hangs on it */
    if (strcmp(x->name, "cpu") == 0) cpu(t, x, p);
    if (strcmp(x->name, "pci") == 0) {
      pci(t, x, address_above(x), numa_above(x), p);
      unclassed += !mal_xml_attribute(x, "class") && !mal_xml_child(x, "pci");
    }
  }
  for (const mal_xml *x = root; x; x = mal_xml_next(x, root)) {
    if (strcmp(x->name, "gpu") == 0 && x->parent) gpu(t, x, p);
    if (strcmp(x->name, "net") == 0) net(t, x, address_above(x), numa_above(x), p);
  }
  mal_topology_kinds_of(t);
  if (unclassed)
    mal_missing(t, _("%s names %d PCI devices without saying what they are: add lspci -vvv or nvidia-smi -q -x."),
                p->file, unclassed);
  return true;
}
