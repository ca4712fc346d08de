#include "machine/topology/identify.h"
#include "core/catalog.h"
#include "core/file.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Makers and lines of cards, which some tools print and others leave out. */
static const char *bare(const char *product) {
  static const char *const starts[] = {"NVIDIA ", "Tesla ", "GeForce "};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
    if (strncasecmp(product, starts[i], strlen(starts[i])) == 0) product += strlen(starts[i]);
  return product;
}

static bool names(const char *list, const char *product) {
  const char *wanted = bare(product);
  for (const char *at = list; at && *at;) {
    size_t n = strcspn(at, ";");
    const char *name = bare(at);
    size_t left = n - (size_t)(name - at);
    if (left == strlen(wanted) && strncasecmp(name, wanted, left) == 0) return true;
    at += n;
    at += strspn(at, "; ");
  }
  return false;
}

static bool has_id(const char *list, int device) {
  for (const char *at = list; at && *at; at += strspn(at, " ")) {
    if (device && strtol(at, NULL, 16) == device) return true;
    at += strcspn(at, " ");
  }
  return false;
}

/* The GPU's own file names it: a quick look before a file is read in full. */
static bool may_name(mal_arena *a, const char *file, const char *product, int device) {
  char *path, *text;
  size_t length;
  mal_error ignored;
  if (mal_catalog_find(a, "gpus", file, ".yaml", "GPU", &path, &ignored) != MAL_OK ||
      mal_file_read(a, path, MAL_YAML_LIMIT_BYTES, &text, &length, &ignored) != MAL_OK)
    return false;
  const char *ids = strstr(text, "pci_ids:"), *id = device ? mal_print(a, "%04x", (unsigned)device) : NULL;
  return ids && ((id && strcasestr(ids, id)) || (product && strcasestr(ids, bare(product))));
}

const char *mal_identify_gpu(mal_arena *a, const char *product, int device) {
  char **all;
  size_t count;
  mal_error ignored;
  const char *by_id = NULL;
  if (mal_catalog_list(a, "gpus", ".yaml", &all, &count, &ignored) != MAL_OK) return NULL;
  for (size_t i = 0; i < count; i++) {
    mal_gpu *g;
    if (!may_name(a, all[i], product, device) || mal_gpu_load(a, all[i], &g, &ignored) != MAL_OK) continue;
    if (product && g->products && names(g->products, product)) return g->name;
    if (g->pci_ids && has_id(g->pci_ids, device)) by_id = g->name;
  }
  return by_id;
}

const char *mal_topology_gpu(mal_arena *a, const mal_topology *t) {
  enum { NVIDIA = 0x10de };
  mal_part *gpus[256];
  int n = mal_parts_of(t, MAL_PART_GPU, gpus, 256);
  const char *found = NULL, *last_product = NULL;
  int last_device = -1;
  for (int i = 0; i < n; i++) {
    const char *product = mal_fact_text(gpus[i], MAL_F_PRODUCT);
    int vendor = (int)mal_fact_number(gpus[i], MAL_F_VENDOR, NVIDIA);
    int device = vendor == NVIDIA ? (int)mal_fact_number(gpus[i], MAL_F_DEVICE, 0) : 0;
    if (!product && !device) continue;
    if (device == last_device &&
        (product == last_product || (product && last_product && strcmp(product, last_product) == 0)))
      continue;
    last_device = device, last_product = product;
    const char *name = mal_identify_gpu(a, product, device);
    if (!name || (found && strcmp(found, name) != 0)) return NULL;
    found = name;
  }
  return found;
}

static mal_path nearest(const mal_topology *t, const mal_part *gpu) {
  mal_path best = MAL_PATH_UNKNOWN;
  for (int i = 0; i < t->n_devices; i++) {
    if (!mal_nic_computes(&t->devices[i])) continue;
    mal_path path = mal_path_between(t, gpu, &t->devices[i]);
    if (path != MAL_PATH_UNKNOWN && (best == MAL_PATH_UNKNOWN || path < best)) best = path;
  }
  return best;
}

static int by_name(const void *a, const void *b) {
  const mal_part *x = *(mal_part *const *)a, *y = *(mal_part *const *)b;
  if (x->index != y->index && x->index >= 0 && y->index >= 0) return x->index < y->index ? -1 : 1;
  if (x->name && y->name) {
    size_t n = strlen(x->name), m = strlen(y->name);
    return n != m ? (n < m ? -1 : 1) : strcmp(x->name, y->name);
  }
  return x->bus < y->bus ? -1 : x->bus > y->bus;
}

/* Storage NICs may sit on the same switches: where rates (or else PCIe links) are known of all, the slower ones are no rails. */
static int keep_strongest(mal_part **list, int n) {
  const mal_fact_key keys[] = {MAL_F_RATE, MAL_F_SPEED_MAX};
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
    double most = 0;
    int known = 0, kept = 0;
    for (int i = 0; i < n; i++) {
      double x = mal_fact_number(list[i], keys[k], 0);
      known += x > 0;
      if (x > most) most = x;
    }
    if (!n || known < n) continue;
    for (int i = 0; i < n; i++)
      if (mal_fact_number(list[i], keys[k], 0) > most / 2) list[kept++] = list[i];
    n = kept;
  }
  return n;
}

int mal_topology_rails(const mal_topology *t, mal_part **list, int max) {
  mal_part *gpus[256];
  int n = mal_parts_of(t, MAL_PART_GPU, gpus, 256), rails = 0;
  bool on_switch = false;
  mal_path best[256];
  for (int g = 0; g < n; g++) {
    best[g] = nearest(t, gpus[g]);
    on_switch = on_switch || best[g] == MAL_PATH_PIX || best[g] == MAL_PATH_PXB;
  }
  for (int i = 0; i < t->n_devices && rails < max; i++) {
    mal_part *nic = &t->devices[i];
    if (!mal_nic_computes(nic) || nic->again) continue;
    bool near = false, unknown = true;
    for (int g = 0; g < n; g++) {
      mal_path path = mal_path_between(t, gpus[g], nic);
      unknown = unknown && path == MAL_PATH_UNKNOWN;
      near = near || (path == best[g] && path != MAL_PATH_UNKNOWN && (!on_switch || path <= MAL_PATH_PXB));
    }
    if (near || unknown) list[rails++] = nic;
  }
  rails = keep_strongest(list, rails);
  qsort(list, (size_t)rails, sizeof *list, by_name);
  return rails;
}

/* A text in double quotes; what was read has no control characters. */
static const char *quoted(mal_arena *a, const char *text) {
  mal_writing w = {.arena = a};
  mal_write(&w, "\"");
  for (; *text; text++)
    if (*text == '"' || *text == '\\')
      mal_write(&w, "\\%c", *text);
    else if ((unsigned char)*text >= ' ' && *text != 0x7f)
      mal_write(&w, "%c", *text);
  mal_write(&w, "\"");
  return w.text;
}

static void value(mal_writing *w, const char *key, double number, const mal_part *d, mal_fact_key fact) {
  const mal_evidence *from = d ? &d->fact[fact].from : NULL;
  const char *source = from && from->file ? from->line ? mal_print(w->arena, _("read: %s:%d"), from->file, from->line)
                                                       : mal_print(w->arena, _("read: %s"), from->file)
                                          : _("counted by malha probe");
  mal_write(w, "  %s: {value: %.10g, source: %s}\n", key, number, quoted(w->arena, source));
}

static void write_nics(mal_writing *w, const mal_topology *t) {
  mal_part *rails[256];
  int n = mal_topology_rails(t, rails, 256);
  double rate = 0;
  const mal_part *slowest = NULL;
  for (int i = 0; i < n; i++) {
    double r = mal_fact_number(rails[i], MAL_F_RATE, 0);
    if (r > 0 && (rate == 0 || r < rate)) rate = r, slowest = rails[i];
  }
  if (n) value(w, "nics", n, rails[0], MAL_F_PRODUCT);
  if (slowest) value(w, "nic_bytes_per_s", rate / 8, slowest, MAL_F_RATE);
}

static void write_host(mal_writing *w, const mal_topology *t) {
  mal_part *list[256];
  double bytes = 0, cores = 0, storage = 0;
  int numa = mal_parts_of(t, MAL_PART_NUMA, list, 256), drives = mal_count_parts(t, MAL_PART_DRIVE);
  for (int i = 0; i < numa; i++) {
    bytes += mal_fact_number(list[i], MAL_F_MEMORY, 0);
    cores += mal_fact_number(list[i], MAL_F_CORES, 0);
  }
  if (t->packages) value(w, "cpu_sockets", t->packages, NULL, 0);
  if (t->cores || cores > 0) value(w, "cpu_cores", t->cores ? t->cores : cores, NULL, 0);
  if (bytes > 0) value(w, "ram_bytes", bytes, list[0], MAL_F_MEMORY);
  if (drives) value(w, "nvme_drives", drives, NULL, 0);
  for (int i = 0; i < t->n_devices; i++)
    if (t->devices[i].kind == MAL_PART_DRIVE) storage += mal_fact_number(&t->devices[i], MAL_F_MEMORY, 0);
  if (storage > 0) value(w, "nvme_bytes", storage, NULL, 0);
}

/* GPUs that reach each other over NVLink at full rate: 0 when nobody said. */
static int nvlink_domain(const mal_topology *t) {
  mal_part *gpus[256];
  int n = mal_parts_of(t, MAL_PART_GPU, gpus, 256), linked = 0, known = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) {
      const mal_wire *w = mal_find_wire(t, gpus[i], gpus[j]);
      if (!w) continue;
      known += w->from.file != NULL && w->path != MAL_PATH_UNKNOWN; /* the PCIe tree says nothing of NVLinks */
      linked += w->path == MAL_PATH_NVLINK;
    }
  if (!known && !linked) return 0;
  if (linked == 0) return 1;
  if (mal_topology_switched(t)) return n;
  int most = 1; /* bridges: the largest set of GPUs all joined with the first of them */
  for (int i = 0; i < n; i++) {
    int with = 1;
    for (int j = 0; j < n; j++) with += i != j && mal_path_between(t, gpus[i], gpus[j]) == MAL_PATH_NVLINK;
    if (with > most) most = with;
  }
  return most;
}

mal_status mal_topology_machine_file(mal_arena *a, const mal_topology *t, const char *gpu, char **yaml, mal_error *e) {
  int gpus = mal_count_parts(t, MAL_PART_GPU), domain = nvlink_domain(t);
  const char *found = gpu ? gpu : mal_topology_gpu(a, t);
  if (!gpus)
    return mal_fail(e, MAL_BAD,
                    _("no GPU was found, and a machine file describes a node with GPUs. Add a file that lists them."));
  if (!found) {
    mal_part *first[1];
    mal_parts_of(t, MAL_PART_GPU, first, 1);
    const char *product = mal_fact_text(first[0], MAL_F_PRODUCT);
    return mal_fail(
        e, MAL_BAD,
        _("the GPU%s%s is not one of the catalogue, or not said: give --gpu NAME (malha machines lists them)."),
        product ? " " : "", product ? product : "");
  }
  mal_gpu *g;
  mal_node *base;
  mal_status s = mal_gpu_load(a, found, &g, e);
  if (s == MAL_OK) s = mal_node_load(a, g->default_node, &base, e);
  if (s != MAL_OK) return s;
  mal_writing w = {.arena = a};
  mal_write(&w, _("# Written by malha probe. What was not found is as in %s.\n"), base->name);
  const char *name = t->host ? t->host : mal_print(a, "%dx%s", gpus, g->name);
  mal_write(&w, "name: %s\nnodes: 1\ngpus_per_node: %d\ngpu: {base: %s}\nnode:\n  base: %s\n", quoted(a, name), gpus,
            g->name, base->name);
  mal_write(&w, "  title: %s\n  gpus: %d\n",
            quoted(a, t->product ? t->product : mal_print(a, _("found node, %d GPUs"), gpus)), gpus);
  if (domain)
    mal_write(&w, "  nvlink_domain: %d\n  nvlink_switch: %s\n", domain, mal_topology_switched(t) ? "true" : "false");
  write_nics(&w, t);
  write_host(&w, t);
  *yaml = w.text;
  return MAL_OK;
}

mal_status mal_topology_machine(mal_arena *a, const mal_topology *t, const char *gpu, mal_machine *m, mal_error *e) {
  char *yaml = NULL;
  mal_status s = mal_topology_machine_file(a, t, gpu, &yaml, e);
  return s == MAL_OK ? mal_machine_parse(a, t->n_sources ? t->sources[0].file : "node", yaml, strlen(yaml), m, e) : s;
}
