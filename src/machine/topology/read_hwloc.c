/* lstopo --of xml: hwloc 2 and 3. The tree of packages, NUMA nodes, cores and PCI devices, and the bandwidth of NVLinks. */
#include "machine/topology/read.h"
#include "machine/topology/xml.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is(const mal_xml *x, const char *type) {
  const char *t = mal_xml_attribute(x, "type");
  return t && strcmp(x->name, "object") == 0 && strcmp(t, type) == 0;
}

static const char *info(const mal_xml *x, const char *name) {
  for (const mal_xml *c = x->child; c; c = c->next) {
    const char *n = mal_xml_attribute(c, "name"), *v = mal_xml_attribute(c, "value");
    if (strcmp(c->name, "info") == 0 && n && v && strcmp(n, name) == 0) return v;
  }
  return NULL;
}

static int number(const mal_xml *x, const char *attribute, int otherwise) {
  const char *text = mal_xml_attribute(x, attribute);
  return text && isdigit((unsigned char)*text) ? atoi(text) : otherwise;
}

/* The NUMA node of an object: the one beside or above it; two beside it (sub-NUMA above a shared bridge) leave it open. */
static int numa_of(const mal_xml *x) {
  for (const mal_xml *up = x->parent; up; up = up->parent) {
    int found = -1, n = 0;
    for (const mal_xml *c = up->child; c; c = c->next)
      if (is(c, "NUMANode") && !(mal_xml_attribute(c, "subtype") && strstr(mal_xml_attribute(c, "subtype"), "GPU")))
        found = number(c, "os_index", -1), n++;
    if (n == 1) return found;
    if (n > 1) return -1;
  }
  return -1;
}

static void numa_node(mal_topology *t, const mal_xml *x, const char *file) {
  const char *kind = mal_xml_attribute(x, "subtype"), *set = mal_xml_attribute(x, "cpuset"),
             *memory = mal_xml_attribute(x, "local_memory");
  mal_evidence from = {file, x->line};
  if (kind && strstr(kind, "GPU")) return; /* GPU memory shown as a node */
  mal_part *d = mal_part_at(t, MAL_PART_NUMA, number(x, "os_index", 0), -1, from);
  if (!d) return;
  const char *cpus = set ? mal_cpus_of_mask(t->arena, set) : NULL;
  if (cpus) mal_know_text(t, d, MAL_F_CPUS, cpus, from);
  if (memory) mal_know(d, MAL_F_MEMORY, atof(memory), from);
  int cores = 0;
  for (const mal_xml *c = x->parent ? x->parent : x; c; c = mal_xml_next(c, x->parent ? x->parent : x))
    cores += is(c, "Core");
  if (cores) mal_know(d, MAL_F_CORES, cores, from);
  for (const mal_xml *up = x->parent; up; up = up->parent)
    if (is(up, "Package")) mal_know(d, MAL_F_NUMA, number(up, "os_index", 0), from);
}

static int64_t bridge_above(const mal_xml *x) {
  for (const mal_xml *up = x->parent; up; up = up->parent) {
    const char *bus = mal_xml_attribute(up, "pci_busid");
    if (bus) return mal_bus_parse(bus);
  }
  return -1;
}

/* "0000:[2b-3b]" of the host bridge above → 0x2b with its domain. */
static int64_t root_above(const mal_xml *x) {
  const char *range = NULL;
  for (const mal_xml *up = x->parent; up; up = up->parent)
    if (is(up, "Bridge") && !mal_xml_attribute(up, "pci_busid")) range = mal_xml_attribute(up, "bridge_pci");
  unsigned domain, bus;
  return range && sscanf(range, "%8x:[%2x", &domain, &bus) == 2 ? (int64_t)domain << 8 | bus : -1;
}

static void pci(mal_topology *t, const mal_xml *x, const char *file) {
  const char *id = mal_xml_attribute(x, "pci_busid"), *type = mal_xml_attribute(x, "pci_type"),
             *speed = mal_xml_attribute(x, "pci_link_speed"), *kind = mal_xml_attribute(x, "subtype");
  int64_t bus = id ? mal_bus_parse(id) : -1;
  mal_evidence from = {file, x->line};
  unsigned class, vendor, device;
  mal_part *d = bus >= 0 ? mal_part_at(t, MAL_PART_PCI, -1, bus, from) : NULL;
  if (!d) return;
  d->parent = bridge_above(x);
  d->root = root_above(x);
  int numa = numa_of(x);
  if (numa >= 0) mal_know(d, MAL_F_NUMA, numa, from);
  if (type && sscanf(type, "%4x [%4x:%4x]", &class, &vendor, &device) == 3) {
    mal_know(d, MAL_F_CLASS, class, from);
    mal_know(d, MAL_F_VENDOR, vendor, from);
    mal_know(d, MAL_F_DEVICE, device, from);
  }
  if (speed && atof(speed) > 0) mal_know(d, MAL_F_PCIE_BYTES, atof(speed) * 1e9, from);
  if (info(x, "PCIDevice")) mal_know_text(t, d, MAL_F_PRODUCT, info(x, "PCIDevice"), from);
  if (kind && strcmp(kind, "NVSwitch") == 0) d->kind = MAL_PART_NVSWITCH;
  if (is(x, "Bridge")) d->kind = MAL_PART_BRIDGE;
}

/* What the system calls a device: nvml0, mlx5_0, nvme0n1. */
static void os_device(mal_topology *t, const mal_xml *x, const char *file) {
  const char *name = mal_xml_attribute(x, "name");
  mal_part *d = mal_find_bus(t, bridge_above(x));
  mal_evidence from = {file, x->line};
  if (!name || !d) return;
  if (mal_starts(name, "nvml") && isdigit((unsigned char)name[4])) {
    d->kind = MAL_PART_GPU;
    d->index = atoi(name + 4);
    if (info(x, "GPUModel")) mal_know_text(t, d, MAL_F_PRODUCT, info(x, "GPUModel"), from);
    if (info(x, "NVIDIAUUID")) mal_know_text(t, d, MAL_F_UUID, info(x, "NVIDIAUUID"), from);
  } else if (mal_starts(name, "nvme") || mal_starts(name, "mlx") || mal_starts(name, "rdma") ||
             mal_starts(name, "bnxt_re") || mal_starts(name, "roce") ||
             (!d->name && (mal_starts(name, "ib") || mal_starts(name, "en") || mal_starts(name, "eth")))) {
    if (!d->name || !mal_nic_computes(d)) d->name = mal_copy(t->arena, name);
    if (info(x, "Size")) mal_know(d, MAL_F_MEMORY, atof(info(x, "Size")) * 1024, from); /* KiB */
  }
}

/* The objects of a bandwidth matrix, by gp_index. */
static int64_t address_of(const mal_xml *root, const char *id) {
  for (const mal_xml *x = root; x; x = mal_xml_next(x, root)) {
    const char *gp = mal_xml_attribute(x, "gp_index"), *bus = mal_xml_attribute(x, "pci_busid");
    if (gp && strcmp(gp, id) == 0) return bus ? mal_bus_parse(bus) : bridge_above(x);
  }
  return -1;
}

enum { MATRIX_MAX = 128 };
static const double link_bytes_per_s = 25e9; /* one NVLink 2, 3 or 4, one direction, after its line code */

static int words_of(mal_arena *a, const mal_xml *matrix, const char *element, const char **words, int max) {
  int n = 0;
  for (const mal_xml *c = matrix->child; c; c = c->next) {
    const char *at = c->text;
    if (strcmp(c->name, element) != 0) continue;
    for (char *w; n < max && (w = mal_word(a, &at));) words[n++] = w;
  }
  return n;
}

static void nvlinks(mal_topology *t, const mal_xml *root, const mal_xml *matrix, const char *file) {
  const char *ids[MATRIX_MAX];
  const char **values = MAL_ARRAY(t->arena, const char *, MATRIX_MAX *MATRIX_MAX);
  int n = words_of(t->arena, matrix, "indexes", ids, MATRIX_MAX);
  if (words_of(t->arena, matrix, "u64values", values, MATRIX_MAX * MATRIX_MAX) < n * n) return;
  mal_evidence from = {file, matrix->line};
  int64_t bus[MATRIX_MAX];
  for (int i = 0; i < n; i++) bus[i] = address_of(root, strchr(ids[i], ':') ? strchr(ids[i], ':') + 1 : ids[i]);
  for (int i = 0; i < n; i++) {
    mal_part *d = mal_find_bus(t, bus[i]);
    if (!d || d->kind != MAL_PART_GPU) continue;
    int up = 0;
    for (int j = 0; j < n; j++) {
      double bytes = atof(values[i * n + j]) * 1e6;
      mal_part *peer = mal_find_bus(t, bus[j]);
      if (i == j || bytes <= 0 || bytes > 1e13 || !peer || peer == d) continue;
      int links = (int)(bytes / link_bytes_per_s + 0.5);
      for (int k = 0; k < links && up < MAL_LINKS_MAX; k++)
        *mal_nvlink_at(t, d, up++) =
            (mal_nvlink){.active = 1, .bytes_per_s = link_bytes_per_s, .errors = -1, .from = from};
      if (peer->kind != MAL_PART_GPU) continue;
      mal_wire *w = mal_wire_between(t, d, peer);
      *w = (mal_wire){.a = w->a, .b = w->b, .path = MAL_PATH_NVLINK, .nvlinks = links, .from = from};
    }
  }
}

static void about(mal_topology *t, const mal_xml *x) {
  if (is(x, "Package")) {
    t->packages++;
    if (info(x, "CPUModel")) t->cpu = mal_copy(t->arena, info(x, "CPUModel"));
  }
  t->cores += is(x, "Core");
  t->threads += is(x, "PU");
  if (is(x, "Machine")) {
    if (info(x, "HostName")) t->host = mal_copy(t->arena, info(x, "HostName"));
    if (info(x, "DMIProductName")) t->product = mal_copy(t->arena, info(x, "DMIProductName"));
  }
}

bool mal_read_hwloc(mal_topology *t, const mal_paste *p, int *broken) {
  mal_xml *root = mal_xml_read(t->arena, p, "topology", broken);
  if (!root || !mal_xml_child(root, "object")) return false;
  for (const mal_xml *x = root; x; x = mal_xml_next(x, root)) {
    about(t, x);
    if (is(x, "NUMANode")) numa_node(t, x, p->file);
    if (is(x, "PCIDev") || (is(x, "Bridge") && mal_xml_attribute(x, "pci_busid"))) pci(t, x, p->file);
    if (is(x, "OSDev")) os_device(t, x, p->file);
  }
  mal_topology_kinds_of(t);
  for (const mal_xml *x = root->child; x; x = x->next) {
    const char *name = mal_xml_attribute(x, "name");
    if (mal_starts(x->name, "distances2") && name && strcmp(name, "NVLinkBandwidth") == 0) nvlinks(t, root, x, p->file);
  }
  return true;
}

/* lstopo's text for people: "NUMANode L#0 (P#0 local=124GiB ...)", "PCI L#0 (busid=0004:05:00.0 ... class=0300(VGA))". */
bool mal_read_hwloc_console(mal_topology *t, const mal_paste *p, int *broken) {
  mal_lines l = mal_lines_of(p);
  int package = -1, numa = -1, found = 0;
  (void)broken;
  while (mal_lines_next(&l)) {
    mal_evidence from = {p->file, l.number};
    const char *at = l.line + strspn(l.line, " "), *os = strstr(at, "P#"), *bus = mal_after(at, "busid="),
               *class = mal_after(at, "class=");
    if (!strstr(at, " L#") || l.length > 1024) continue;
    if (mal_starts(at, "Package")) {
      package = os ? atoi(os + 2) : -1;
      numa = -1;
      t->packages++;
      found++;
    } else if (mal_starts(at, "NUMANode L#")) {
      const char *size = mal_after(at, "local="), *unit;
      mal_part *d = os ? mal_part_at(t, MAL_PART_NUMA, atoi(os + 2), -1, from) : NULL;
      double bytes;
      if (!d) continue;
      numa = d->index;
      found++;
      if (package >= 0) mal_know(d, MAL_F_NUMA, package, from);
      if (size && mal_number_at(size, &bytes) && (unit = strpbrk(size, "KMGT")))
        mal_know(d, MAL_F_MEMORY,
                 bytes * (*unit == 'K'   ? 1024
                          : *unit == 'M' ? 1048576
                          : *unit == 'G' ? 1073741824
                                         : 1099511627776.0),
                 from);
    } else if (mal_starts(at, "Core L#")) {
      t->cores++;
    } else if (mal_starts(at, "PU L#")) {
      t->threads++;
    } else if (bus && mal_bus_parse(bus) >= 0) {
      mal_part *d = mal_part_at(t, MAL_PART_PCI, -1, mal_bus_parse(bus), from);
      unsigned vendor = 0, device = 0;
      const char *id = mal_after(at, " id=");
      if (!d) continue;
      found++;
      if (numa >= 0) mal_know(d, MAL_F_NUMA, numa, from);
      if (class) mal_know(d, MAL_F_CLASS, (double)strtoul(class, NULL, 16), from);
      if (id && sscanf(id, "%4x:%4x", &vendor, &device) == 2 && vendor) {
        mal_know(d, MAL_F_VENDOR, vendor, from);
        mal_know(d, MAL_F_DEVICE, device, from);
      }
    } else if (mal_starts(at, "NUMANode(GPUMemory)") && mal_after(at, "PCIBusID=")) {
      mal_part *d = mal_part_at(t, MAL_PART_PCI, -1, mal_bus_parse(mal_after(at, "PCIBusID=")), from);
      if (d && d->bus >= 0) d->kind = MAL_PART_GPU; /* only a GPU's memory is a node */
    }
  }
  mal_lines_end(&l);
  mal_topology_kinds_of(t);
  return found > 0 && (t->packages > 0 || mal_count_parts(t, MAL_PART_NUMA) > 0);
}
