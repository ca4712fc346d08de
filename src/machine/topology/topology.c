#include "machine/topology/topology.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *const mal_part_kind_name[] = {"gpu", "nic", "drive", "nvswitch", "numa", "bridge", "pci"};
_Static_assert(sizeof mal_part_kind_name / sizeof *mal_part_kind_name == MAL_PART_KINDS, "one name a kind");
const char *const mal_path_name[] = {"?", "X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "other"};
_Static_assert(sizeof mal_path_name / sizeof *mal_path_name == MAL_PATHS, "one name a path");
const char *const mal_fact_name[] = {"product",
                                     "uuid",
                                     "driver",
                                     "firmware",
                                     "board",
                                     "numa",
                                     "cpus",
                                     "pci_vendor",
                                     "pci_device",
                                     "pci_class",
                                     "pcie_gt_per_s",
                                     "pcie_gt_per_s_max",
                                     "pcie_gt_per_s_slot",
                                     "pcie_lanes",
                                     "pcie_lanes_max",
                                     "pcie_bytes_per_s",
                                     "acs_redirect",
                                     "bits_per_s",
                                     "state",
                                     "physical_state",
                                     "link_layer",
                                     "gpudirect_rdma",
                                     "sm",
                                     "memory_bytes",
                                     "cores",
                                     "pstate",
                                     "slowdown_bits",
                                     "sm_clock_hz",
                                     "sm_clock_max_hz",
                                     "application_clock_hz",
                                     "memory_clock_hz",
                                     "memory_clock_max_hz",
                                     "temperature_c",
                                     "temperature_slowdown_c",
                                     "memory_temperature_c",
                                     "memory_temperature_max_c",
                                     "power_w",
                                     "power_limit_w",
                                     "power_default_w",
                                     "ecc",
                                     "ecc_corrected",
                                     "ecc_uncorrected",
                                     "ecc_lifetime_uncorrected",
                                     "rows_remapped_corrected",
                                     "rows_remapped_uncorrected",
                                     "row_remap_pending",
                                     "row_remap_failed",
                                     "page_retirement_pending",
                                     "pcie_replays",
                                     "mig",
                                     "persistence",
                                     "reset_required",
                                     "virtualization",
                                     "nvlink_fabric",
                                     "utilization",
                                     "nvlink_fabric_status",
                                     "nvlink_fabric_health",
                                     "drain_and_reset_recommended",
                                     "recovery_action",
                                     "unreadable",
                                     "off_the_bus",
                                     "sram_threshold_exceeded",
                                     "repair_pending"};
_Static_assert(sizeof mal_fact_name / sizeof *mal_fact_name == MAL_FACTS, "one name a fact");

void mal_topology_init(mal_topology *t, mal_arena *a) { *t = (mal_topology){.arena = a}; }

static mal_part *add(mal_topology *t, mal_part_kind kind, int index, int64_t bus, mal_evidence from) {
  if (t->n_devices >= MAL_PARTS_MAX) return NULL;
  if (t->n_devices == t->room_devices) {
    int room = t->room_devices ? 2 * t->room_devices : 64;
    t->devices = mal_grow(t->arena, t->devices, (size_t)t->room_devices, (size_t)room, sizeof *t->devices);
    t->room_devices = room;
  }
  mal_part *d = &t->devices[t->n_devices++];
  *d = (mal_part){.kind = kind, .index = index, .bus = bus, .parent = -1, .root = -1, .below = {-1, -1}, .from = from};
  return d;
}

mal_part *mal_find_part(const mal_topology *t, mal_part_kind kind, int index) {
  for (int i = 0; i < t->n_devices; i++)
    if (t->devices[i].kind == kind && t->devices[i].index == index) return &t->devices[i];
  return NULL;
}

mal_part *mal_find_bus(const mal_topology *t, int64_t bus) {
  for (int i = 0; bus >= 0 && i < t->n_devices; i++)
    if (t->devices[i].bus == bus) return &t->devices[i];
  return NULL;
}

mal_part *mal_part_at(mal_topology *t, mal_part_kind kind, int index, int64_t bus, mal_evidence from) {
  for (int i = 0; i < t->n_devices; i++) {
    mal_part *d = &t->devices[i];
    if (d->kind != kind) continue;
    if (bus >= 0 ? d->bus == bus : index >= 0 && d->index == index) return d;
  }
  return add(t, kind, index, bus, from);
}

mal_part *mal_part_named(mal_topology *t, mal_part_kind kind, const char *name, mal_evidence from) {
  for (int i = 0; i < t->n_devices; i++)
    if (t->devices[i].kind == kind && t->devices[i].name && strcmp(t->devices[i].name, name) == 0)
      return &t->devices[i];
  mal_part *d = add(t, kind, -1, -1, from);
  if (d) d->name = mal_copy(t->arena, name);
  return d;
}

int mal_count_parts(const mal_topology *t, mal_part_kind kind) {
  int n = 0;
  for (int i = 0; i < t->n_devices; i++) n += t->devices[i].kind == kind;
  return n;
}

void mal_know(mal_part *d, mal_fact_key key, double number, mal_evidence from) {
  d->fact[key] = (mal_fact){.known = true, .number = number, .from = from};
}

void mal_know_text(mal_topology *t, mal_part *d, mal_fact_key key, const char *text, mal_evidence from) {
  d->fact[key] = (mal_fact){.known = true, .text = mal_copy(t->arena, text), .from = from};
}

bool mal_known(const mal_part *d, mal_fact_key key) { return d->fact[key].known; }

double mal_fact_number(const mal_part *d, mal_fact_key key, double otherwise) {
  return d->fact[key].known ? d->fact[key].number : otherwise;
}

const char *mal_fact_text(const mal_part *d, mal_fact_key key) { return d->fact[key].known ? d->fact[key].text : NULL; }

const mal_wire *mal_find_wire(const mal_topology *t, const mal_part *a, const mal_part *b) {
  int i = (int)(a - t->devices), j = (int)(b - t->devices);
  for (int w = 0; w < t->n_wires; w++)
    if ((t->wires[w].a == i && t->wires[w].b == j) || (t->wires[w].a == j && t->wires[w].b == i)) return &t->wires[w];
  return NULL;
}

mal_wire *mal_wire_between(mal_topology *t, const mal_part *a, const mal_part *b) {
  const mal_wire *found = mal_find_wire(t, a, b);
  if (found) return &t->wires[found - t->wires];
  if (t->n_wires == t->room_wires) {
    int room = t->room_wires ? 2 * t->room_wires : 64;
    t->wires = mal_grow(t->arena, t->wires, (size_t)t->room_wires, (size_t)room, sizeof *t->wires);
    t->room_wires = room;
  }
  mal_wire *w = &t->wires[t->n_wires++];
  *w = (mal_wire){.a = (int)(a - t->devices), .b = (int)(b - t->devices)};
  return w;
}

mal_path mal_path_between(const mal_topology *t, const mal_part *a, const mal_part *b) {
  if (a == b) return MAL_PATH_SELF;
  const mal_wire *w = mal_find_wire(t, a, b);
  return w ? w->path : MAL_PATH_UNKNOWN;
}

const char *mal_path_show(mal_arena *a, const mal_wire *w) {
  if (!w) return mal_path_name[MAL_PATH_UNKNOWN];
  if (w->path == MAL_PATH_NVLINK) return w->nvlinks > 0 ? mal_print(a, "NV%d", w->nvlinks) : "NVLink";
  if (w->path == MAL_PATH_FOREIGN && w->token) return w->token;
  return mal_path_name[w->path];
}

mal_nvlink *mal_nvlink_at(mal_topology *t, mal_part *d, int link) {
  if (link < 0 || link >= MAL_LINKS_MAX) return NULL;
  if (link >= d->n_links) {
    d->links = mal_grow(t->arena, d->links, (size_t)d->n_links, (size_t)link + 1, sizeof *d->links);
    for (int i = d->n_links; i <= link; i++) d->links[i] = (mal_nvlink){.active = -1, .errors = -1};
    d->n_links = link + 1;
  }
  return &d->links[link];
}

void mal_count_event(mal_topology *t, mal_part *d, const char *name, double value, mal_evidence from) {
  for (int i = 0; i < d->n_counters; i++)
    if (strcmp(d->counters[i].name, name) == 0) {
      d->counters[i].value = value;
      d->counters[i].from = from;
      return;
    }
  if (d->n_counters >= MAL_COUNTERS_MAX) return;
  int n = d->n_counters;
  if ((n & (n - 1)) == 0) /* room doubles at powers of two */
    d->counters = mal_grow(t->arena, d->counters, (size_t)n, n ? 2 * (size_t)n : 1, sizeof *d->counters);
  d->counters[d->n_counters++] = (mal_counter){mal_copy(t->arena, name), value, from};
}

double mal_counter_of(const mal_part *d, const char *name, double otherwise) {
  for (int i = 0; i < d->n_counters; i++)
    if (strcmp(d->counters[i].name, name) == 0) return d->counters[i].value;
  return otherwise;
}

static void append_missing(mal_topology *t, const char *text) {
  for (int i = 0; i < t->n_missing; i++)
    if (strcmp(t->missing[i], text) == 0) return;
  t->missing = mal_grow(t->arena, t->missing, (size_t)t->n_missing, (size_t)t->n_missing + 1, sizeof *t->missing);
  t->missing[t->n_missing++] = text;
}

void mal_missing(mal_topology *t, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  append_missing(t, mal_copy(t->arena, text));
}

int64_t mal_bus_parse(const char *text) {
  unsigned domain = 0, bus, device, function;
  int used = 0;
  if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) != 4 || used == 0) {
    domain = 0;
    used = 0;
    if (sscanf(text, "%2x:%2x.%1x%n", &bus, &device, &function, &used) != 3 || used == 0) return -1;
  }
  if (isalnum((unsigned char)text[used]) || !isxdigit((unsigned char)*text)) return -1;
  if (bus > 0xff || device > 0x1f || function > 7) return -1;
  return (int64_t)domain << 16 | (int64_t)bus << 8 | (int64_t)device << 3 | function;
}

void mal_bus_write(char *text, size_t size, int64_t bus) {
  if (bus < 0)
    snprintf(text, size, "?");
  else
    snprintf(text, size, "%04x:%02x:%02x.%x", (unsigned)(bus >> 16), (unsigned)(bus >> 8 & 0xff),
             (unsigned)(bus >> 3 & 0x1f), (unsigned)(bus & 7));
}

const char *mal_bus_show(mal_arena *a, int64_t bus) {
  char text[32];
  mal_bus_write(text, sizeof text, bus);
  return mal_copy(a, text);
}

static int by_index(const void *a, const void *b) {
  const mal_part *x = *(mal_part *const *)a, *y = *(mal_part *const *)b;
  if (x->index != y->index) return x->index < 0 ? 1 : y->index < 0 ? -1 : x->index < y->index ? -1 : 1;
  if (x->bus != y->bus) return x->bus < y->bus ? -1 : 1;
  return x < y ? -1 : x > y;
}

int mal_parts_of(const mal_topology *t, mal_part_kind kind, mal_part **list, int max) {
  int n = 0;
  for (int i = 0; i < t->n_devices && n < max; i++)
    if (t->devices[i].kind == kind) list[n++] = &t->devices[i];
  qsort(list, (size_t)n, sizeof *list, by_index);
  return n;
}

const char *mal_part_label(mal_arena *a, const mal_part *d) {
  switch (d->kind) {
  case MAL_PART_GPU:
    return d->index >= 0 ? mal_print(a, "GPU%d", d->index) : mal_print(a, "GPU %s", mal_bus_show(a, d->bus));
  case MAL_PART_NVSWITCH: return "NVSwitch";
  case MAL_PART_NUMA: return mal_print(a, "NUMA %d", d->index);
  case MAL_PART_NIC:
    if (d->name) return d->name;
    return d->index >= 0 ? mal_print(a, "NIC%d", d->index) : mal_print(a, "NIC %s", mal_bus_show(a, d->bus));
  default: return d->name ? d->name : mal_bus_show(a, d->bus);
  }
}

static const double pcie_speeds[] = {0, 2.5, 5, 8, 16, 32, 64}; /* GT/s by generation, PCI-SIG */

int mal_pcie_generation(double gigatransfers) {
  for (int g = 1; g < (int)(sizeof pcie_speeds / sizeof *pcie_speeds); g++)
    if (gigatransfers > pcie_speeds[g] * 0.9 && gigatransfers < pcie_speeds[g] * 1.1) return g;
  return 0;
}

double mal_pcie_speed(int generation) {
  return generation > 0 && generation < (int)(sizeof pcie_speeds / sizeof *pcie_speeds) ? pcie_speeds[generation] : 0;
}

double mal_pcie_bytes_per_s(double gigatransfers, double lanes) {
  double code = gigatransfers < 6 ? 8.0 / 10 : gigatransfers < 40 ? 128.0 / 130 : 242.0 / 256;
  return gigatransfers * 1e9 * lanes * code / 8;
}

int mal_cpus_count(const char *list) {
  int count = 0;
  for (const char *at = list; at && *at;) {
    char *end;
    if (!isdigit((unsigned char)*at)) return 0;
    long first = strtol(at, &end, 10), last = first;
    if (*end == '-') last = strtol(end + 1, &end, 10);
    if (last < first || last > 1 << 20) return 0;
    count += (int)(last - first) + 1;
    if (*end && *end != ',') return 0;
    at = *end ? end + 1 : end;
  }
  return count;
}

const char *mal_cpus_of_mask(mal_arena *a, const char *mask) {
  int words = 1;
  for (const char *c = mask; *c; c++) words += *c == ',';
  if (words > 512) return NULL;
  unsigned char *bits = MAL_ARRAY(a, unsigned char, words * 32 + 1);
  const char *at = mask;
  for (int w = words - 1; w >= 0; w--) {
    unsigned long value = strtoul(at, NULL, 16);
    for (int b = 0; b < 32; b++) bits[w * 32 + b] = (unsigned char)(value >> b & 1);
    at += strcspn(at, ",");
    at += *at == ',';
  }
  mal_writing out = {.arena = a};
  for (int i = 0; i < words * 32; i++) {
    if (!bits[i]) continue;
    int last = i;
    while (last + 1 < words * 32 && bits[last + 1]) last++;
    mal_write(&out, last > i ? "%s%d-%d" : "%s%d", out.used ? "," : "", i, last);
    i = last;
  }
  return out.text;
}

bool mal_nic_computes(const mal_part *d) {
  enum { MELLANOX = 0x15b3, AMAZON = 0x1d0f, HPE_CASSINI = 0x17db, ENA_FIRST = 0xec00, ENA_LAST = 0xec2f };
  if (d->kind != MAL_PART_NIC) return false;
  if (d->name && (mal_starts(d->name, "mlx") || mal_starts(d->name, "ib") || mal_starts(d->name, "rocep") ||
                  mal_starts(d->name, "rdmap") || mal_starts(d->name, "efa") || mal_starts(d->name, "bnxt_re")))
    return strncmp(d->name, "mlx4", 4) != 0 || !mal_known(d, MAL_F_CLASS);
  int vendor = (int)mal_fact_number(d, MAL_F_VENDOR, 0), device = (int)mal_fact_number(d, MAL_F_DEVICE, 0);
  if (vendor == AMAZON) return device < ENA_FIRST || device > ENA_LAST;
  return vendor == MELLANOX || vendor == HPE_CASSINI || (int)mal_fact_number(d, MAL_F_CLASS, 0) == 0x0207 ||
         (vendor == 0 && !d->name && !mal_known(d, MAL_F_PRODUCT));
}

bool mal_topology_switched(const mal_topology *t) {
  int pairs = 0, all = 0, gpus = mal_count_parts(t, MAL_PART_GPU);
  if (mal_count_parts(t, MAL_PART_NVSWITCH) > 0) return true;
  for (int w = 0; w < t->n_wires; w++) {
    const mal_wire *one = &t->wires[w];
    if (t->devices[one->a].kind != MAL_PART_GPU || t->devices[one->b].kind != MAL_PART_GPU) continue;
    all++;
    pairs += one->path == MAL_PATH_NVLINK;
  }
  return gpus > 2 && all > 0 && pairs == all;
}
