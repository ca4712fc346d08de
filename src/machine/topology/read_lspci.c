/* lspci in its forms: -nn (one line a device), -vv and -vvv (with link, ACS and NUMA), and the tree of -t. */
#include "machine/topology/read.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *words;
  int class;
} classes[] = {
    {"3D controller", 0x0302},         {"VGA compatible controller", 0x0300},      {"PCI bridge", 0x0604},
    {"Infiniband controller", 0x0207}, {"InfiniBand controller", 0x0207},          {"Ethernet controller", 0x0200},
    {"Network controller", 0x0280},    {"Non-Volatile memory controller", 0x0108},
};
static const struct {
  const char *words;
  int vendor;
} makers[] = {{"NVIDIA", 0x10de}, {"Mellanox", 0x15b3}, {"Amazon", 0x1d0f}, {"Intel", 0x8086}, {"Broadcom", 0x14e4}};

enum { NVIDIA = 0x10de };

/* The class is the text between address and maker, its number in brackets with -nn. */
static int class_of(const char *line) {
  const char *bracket = strchr(line, '['), *colon = strstr(line, ": ");
  if (bracket && colon && bracket < colon && isxdigit((unsigned char)bracket[1]) && bracket[5] == ']')
    return (int)strtol(bracket + 1, NULL, 16);
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
    if (mal_starts(line, classes[i].words)) return classes[i].class;
  return mal_starts(line, "Bridge: NVIDIA") ? 0x0680 : 0;
}

static void identify(mal_topology *t, mal_part *d, const char *line, mal_evidence from) {
  const char *colon = strstr(line, ": ");
  int class = class_of(line);
  if (strstr(line, "(rev ff)")) mal_know(d, MAL_F_GONE, 1, from);
  if (class) mal_know(d, MAL_F_CLASS, class, from);
  if (!colon) return;
  const char *name = colon + 2;
  for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
    if (mal_starts(name, makers[i].words)) mal_know(d, MAL_F_VENDOR, makers[i].vendor, from);
  unsigned vendor, device;
  for (const char *at = name; (at = strchr(at, '[')); at++) /* "[10de:2330]" of -nn */
    if (sscanf(at, "[%4x:%4x]", &vendor, &device) == 2 && at[5] == ':') {
      mal_know(d, MAL_F_VENDOR, vendor, from);
      mal_know(d, MAL_F_DEVICE, device, from);
    }
  const char *unnamed = strstr(name, "Device ");
  if (unnamed && sscanf(unnamed, "Device %4x", &device) == 1) mal_know(d, MAL_F_DEVICE, device, from);
  size_t length = strcspn(name, "(");
  if ((int)mal_fact_number(d, MAL_F_VENDOR, 0) != NVIDIA || !unnamed)
    mal_know_text(t, d, MAL_F_PRODUCT, mal_trimmed(t->arena, name, length), from);
}

static void speed_and_width(mal_part *d, const char *text, mal_fact_key speed, mal_fact_key width, mal_evidence from) {
  const char *s = mal_after(text, "Speed "), *w = mal_after(text, "Width x");
  double number;
  if (s && mal_number_at(s, &number) && number > 0) mal_know(d, speed, number, from);
  if (w && mal_number_at(w, &number) && number > 0) mal_know(d, width, number, from);
}

static void detail(mal_topology *t, mal_part *d, const char *line, mal_evidence from) {
  const char *at;
  double number;
  unsigned secondary, subordinate;
  if (strstr(line, "Unknown header type 7f")) mal_know(d, MAL_F_GONE, 1, from);
  if ((at = mal_after(line, "NUMA node:")) && mal_number_at(at, &number) && number >= 0)
    mal_know(d, MAL_F_NUMA, number, from);
  if ((at = mal_after(line, "LnkCap:"))) speed_and_width(d, at, MAL_F_SPEED_MAX, MAL_F_WIDTH_MAX, from);
  if ((at = mal_after(line, "LnkSta:"))) speed_and_width(d, at, MAL_F_SPEED, MAL_F_WIDTH, from);
  if ((at = mal_after(line, "ACSCtl:"))) mal_know(d, MAL_F_ACS, strstr(at, "ReqRedir+") != NULL, from);
  if ((at = strstr(line, "secondary=")) &&
      sscanf(at, "secondary=%2x, subordinate=%2x", &secondary, &subordinate) == 2) {
    int64_t domain = d->bus >> 16 << 8;
    d->below[0] = domain | secondary;
    d->below[1] = domain | subordinate;
  }
  if ((at = mal_after(line, "Kernel driver in use:")) && d->fact[MAL_F_DRIVER].known == false)
    mal_know_text(t, d, MAL_F_DRIVER, mal_trimmed(t->arena, at, strlen(at)), from);
}

/* "9b:00.0 3D controller: NVIDIA ...": an address, a blank and words with a colon. */
static bool is_device_line(const char *line) {
  const char *blank = strchr(line, ' ');
  return isxdigit((unsigned char)*line) && blank && blank - line <= 16 && mal_bus_parse(line) >= 0 &&
         strstr(blank, ": ");
}

static void drop_kernel_module(mal_topology *t) {
  for (int i = 0; i < t->n_devices; i++)
    t->devices[i].fact[MAL_F_DRIVER].known = false; /* a module's name, no version */
}

bool mal_read_lspci(mal_topology *t, const mal_paste *p, int *broken) {
  mal_lines l = mal_lines_of(p);
  int at = -1, devices = 0, bare = 0, last = 0;
  while (mal_lines_next(&l)) {
    mal_evidence from = {p->file, l.number};
    if (l.length > 2048) continue;
    if (is_device_line(l.line)) {
      mal_part *d = mal_part_at(t, MAL_PART_PCI, -1, mal_bus_parse(l.line), from);
      at = d ? (int)(d - t->devices) : -1;
      if (d) identify(t, d, strchr(l.line, ' ') + 1, from);
      devices++;
      bare++;
      last = l.number;
    } else if (at >= 0 && (*l.line == '\t' || *l.line == ' ')) {
      detail(t, &t->devices[at], l.line, from);
      bare = 0;
      last = l.number;
    }
  }
  mal_lines_end(&l);
  (void)broken, (void)last, (void)bare;
  if (!devices) return false;
  drop_kernel_module(t);
  mal_topology_kinds_of(t);
  for (int i = 0; i < t->n_devices; i++)
    if (mal_fact_number(&t->devices[i], MAL_F_VENDOR, 0) == 0x1b36 ||
        mal_fact_number(&t->devices[i], MAL_F_VENDOR, 0) == 0x1af4) {
      t->virtual_machine = true; /* QEMU's bridges and virtio's devices */
      t->virtual_from = t->devices[i].from;
    }
  return true;
}

/* -t: "-[0000:00]-+-01.1-[01]--+-00.0". A device stands on the bus of the bracket before it; a continued line takes the bus of the
 * column above. */
enum { TREE_COLUMNS = 512 };

typedef struct tree {
  int64_t bus_at[TREE_COLUMNS], parent_at[TREE_COLUMNS];
  bool started;
} tree;

static bool tree_line(mal_topology *t, tree *tr, const char *line, mal_evidence from) {
  int64_t bus = -1, parent = -1, device = -1;
  bool any = false;
  for (size_t i = 0; line[i] && i < TREE_COLUMNS - 8; i++) {
    unsigned domain, first, last, number, function;
    int used = 0;
    if (line[i] == '[') {
      if (sscanf(line + i, "[%4x:%2x]%n", &domain, &first, &used) == 2 && used) {
        bus = (int64_t)domain << 8 | first;
        parent = -1;
        tr->started = true;
      } else if (device >= 0 && (sscanf(line + i, "[%2x-%2x]%n", &first, &last, &used) == 2 && used)) {
        mal_part *d = mal_find_bus(t, device);
        bus = (device >> 16 << 8) | first;
        if (d) d->below[0] = bus, d->below[1] = (device >> 16 << 8) | last, d->kind = MAL_PART_BRIDGE;
        parent = device;
      } else if (device >= 0 && sscanf(line + i, "[%2x]%n", &first, &used) == 1 && used) {
        mal_part *d = mal_find_bus(t, device);
        bus = (device >> 16 << 8) | first;
        if (d) d->below[0] = d->below[1] = bus, d->kind = MAL_PART_BRIDGE;
        parent = device;
      } else {
        continue;
      }
      i += (size_t)used - 1;
    } else if (isxdigit((unsigned char)line[i]) && line[i + 1] && line[i + 2] == '.' &&
               sscanf(line + i, "%2x.%1x%n", &number, &function, &used) == 2 && used == 4) {
      if (bus < 0) bus = tr->bus_at[i], parent = tr->parent_at[i];
      if (bus < 0 || number > 0x1f || function > 7) return any;
      device = bus << 8 | (int64_t)number << 3 | function;
      tr->bus_at[i] = bus;
      tr->parent_at[i] = parent;
      mal_part *d = mal_part_at(t, MAL_PART_PCI, -1, device, from);
      if (d) d->parent = parent;
      any = true;
      i += 3;
    }
  }
  return any;
}

bool mal_read_lspci_tree(mal_topology *t, const mal_paste *p, int *broken) {
  tree *tr = MAL_NEW(t->arena, tree);
  for (int i = 0; i < TREE_COLUMNS; i++) tr->bus_at[i] = tr->parent_at[i] = -1;
  mal_lines l = mal_lines_of(p);
  int lines = 0;
  (void)broken;
  while (mal_lines_next(&l)) {
    bool begins = strstr(l.line, "-[") && strspn(l.line, " |+\\-") >= 1;
    if (!tr->started && !begins) continue;
    if (*l.line && !strchr(" |+\\-", *l.line)) continue;
    lines += tree_line(t, tr, l.line, (mal_evidence){p->file, l.number});
  }
  mal_lines_end(&l);
  if (lines)
    mal_missing(t, _("%s is lspci -t, which has no classes: add lspci -vvv to know which device is a GPU."), p->file);
  return lines > 0;
}
