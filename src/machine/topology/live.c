/* The machine this runs on. hwloc says what there is, and its own XML is read like anybody's; links and ACS come from /sys, ports from
 * /sys/class/infiniband, GPUs from NVML. What permission hides stays unknown. */
#include "core/file.h"
#include "machine/topology/read.h"
#include <dirent.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char pci_folder[] = "/sys/bus/pci/devices", ib_folder[] = "/sys/class/infiniband";

static char *small_file(mal_arena *a, const char *path) {
  char text[4096];
  FILE *f = fopen(path, "r");
  if (!f) return NULL;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  return mal_trimmed(a, text, n);
}

static mal_status hwloc_view(mal_topology *t, mal_error *e) {
  hwloc_topology_t h;
  char *xml = NULL;
  int length = 0;
  if (hwloc_topology_init(&h) != 0) return mal_fail(e, MAL_FAULT, _("hwloc cannot start."));
  hwloc_topology_set_io_types_filter(h, HWLOC_TYPE_FILTER_KEEP_ALL);
  bool good = hwloc_topology_load(h) == 0 && hwloc_topology_export_xmlbuffer(h, &xml, &length, 0) == 0;
  if (good) {
    mal_paste p;
    int broken = 0;
    mal_paste_make(t->arena, "hwloc", xml, length > 0 ? (size_t)length - 1 : 0, &p);
    mal_read_hwloc(t, &p, &broken);
    hwloc_free_xmlbuffer(h, xml);
  }
  hwloc_topology_destroy(h);
  return good ? MAL_OK : mal_fail(e, MAL_FAULT, _("hwloc cannot read this machine."));
}

static void number_of(mal_arena *a, mal_part *d, mal_fact_key key, const char *folder, const char *file) {
  const char *path = mal_print(a, "%s/%s", folder, file), *text = small_file(a, path);
  double number;
  if (text && mal_number_at(text, &number) && number > 0 && number < 1e4)
    mal_know(d, key, number, (mal_evidence){path, 0});
}

enum { CONFIG_BYTES = 4096, EXTENDED = 0x100, ACS_ID = 0x0d, ACS_CONTROL = 6, ACS_REDIRECT = 4 };

/* ACS in the extended configuration space (PCIe base specification, 7.7.8), which only root may read. */
static void acs(mal_arena *a, mal_part *d, const char *folder) {
  unsigned char config[CONFIG_BYTES];
  const char *path = mal_print(a, "%s/config", folder);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(config, 1, sizeof config, f) : 0;
  if (f) fclose(f);
  size_t at = EXTENDED;
  for (int i = 0; i < 64 && at >= EXTENDED && at + 8 <= n; i++) {
    unsigned header =
        config[at] | (unsigned)config[at + 1] << 8 | (unsigned)config[at + 2] << 16 | (unsigned)config[at + 3] << 24;
    if ((header & 0xffff) == ACS_ID) {
      mal_know(d, MAL_F_ACS, (config[at + ACS_CONTROL] & ACS_REDIRECT) != 0, (mal_evidence){path, 0});
      return;
    }
    at = header >> 20;
  }
}

static void pci_view(mal_topology *t) {
  for (int i = 0; i < t->n_devices; i++) {
    mal_part *d = &t->devices[i];
    if (d->bus < 0) continue;
    const char *folder = mal_print(t->arena, "%s/%s", pci_folder, mal_bus_show(t->arena, d->bus));
    number_of(t->arena, d, MAL_F_SPEED, folder, "current_link_speed");
    number_of(t->arena, d, MAL_F_SPEED_MAX, folder, "max_link_speed");
    number_of(t->arena, d, MAL_F_WIDTH, folder, "current_link_width");
    number_of(t->arena, d, MAL_F_WIDTH_MAX, folder, "max_link_width");
    if (d->kind == MAL_PART_BRIDGE) acs(t->arena, d, folder);
  }
}

static void flatten(mal_arena *a, mal_writing *w, const char *base, const char *below) {
  const char *path = mal_print(a, "%s/%s", base, below);
  DIR *folder = opendir(path);
  if (!folder) {
    const char *text = small_file(a, path);
    if (text && *text && !strchr(text, '\n')) mal_write(w, "%s: %s\n", below, text);
    return;
  }
  for (struct dirent *entry; (entry = readdir(folder));)
    if (*entry->d_name != '.') flatten(a, w, base, mal_print(a, "%s/%s", below, entry->d_name));
  closedir(folder);
}

static void ib_view(mal_topology *t, mal_topology *one) {
  static const char *const of_port[] = {"rate", "state", "phys_state", "link_layer", "counters", "hw_counters"};
  mal_writing w = {.arena = one->arena};
  DIR *cards = opendir(ib_folder);
  if (!cards) return;
  for (struct dirent *card; (card = readdir(cards));) {
    if (*card->d_name == '.') continue;
    flatten(one->arena, &w, ib_folder, mal_print(one->arena, "%s/fw_ver", card->d_name));
    flatten(one->arena, &w, ib_folder, mal_print(one->arena, "%s/board_id", card->d_name));
    for (size_t i = 0; i < sizeof of_port / sizeof *of_port; i++)
      flatten(one->arena, &w, ib_folder, mal_print(one->arena, "%s/ports/1/%s", card->d_name, of_port[i]));
  }
  closedir(cards);
  mal_paste p;
  int broken;
  if (!w.used) return;
  mal_paste_make(one->arena, ib_folder, w.text, w.used, &p);
  if (mal_read_ib_class(one, &p, &broken) && t) mal_topology_merge(t, one);
}

static void surroundings(mal_topology *t) {
  const char *cpu = small_file(t->arena, "/proc/cpuinfo"),
             *vendor = small_file(t->arena, "/sys/class/dmi/id/sys_vendor");
  static const char *const hosts[] = {"QEMU", "VMware", "Xen", "Microsoft", "Amazon", "Google", "innotek"};
  t->container = mal_is_file("/.dockerenv") || mal_is_file("/run/.containerenv") || getenv("KUBERNETES_SERVICE_HOST");
  static const char *const jobs[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "NVIDIA_VISIBLE_DEVICES"};
  t->confined = t->container;
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) t->confined = t->confined || getenv(jobs[i]);
  t->virtual_machine = cpu && strstr(cpu, " hypervisor");
  for (size_t i = 0; vendor && i < sizeof hosts / sizeof *hosts; i++)
    t->virtual_machine = t->virtual_machine || strstr(vendor, hosts[i]);
  if (t->virtual_machine) t->virtual_from = (mal_evidence){"/proc/cpuinfo", 0};
}

/* The bus and the driver each count the GPUs of NVIDIA. */
static void note_source(mal_topology *t, const char *what, int gpus) {
  t->sources = mal_grow(t->arena, t->sources, (size_t)t->n_sources, (size_t)t->n_sources + 1, sizeof *t->sources);
  t->sources[t->n_sources++] = (mal_source){_("this machine"), what, gpus, 0, 0, true, 0};
}

mal_status mal_topology_live(mal_topology *t, mal_error *e) {
  mal_status s = hwloc_view(t, e);
  if (s != MAL_OK) return s;
  pci_view(t);
  mal_topology gpus, nics;
  mal_topology_init(&nics, t->arena);
  ib_view(t, &nics);
  surroundings(t);
  mal_topology_init(&gpus, t->arena);
  int on_the_bus = 0;
  for (int i = 0; i < t->n_devices; i++)
    on_the_bus += t->devices[i].kind == MAL_PART_GPU && mal_fact_number(&t->devices[i], MAL_F_VENDOR, 0) == 0x10de;
  mal_read_nvml(&gpus);
  int of_the_driver = mal_count_parts(&gpus, MAL_PART_GPU);
  mal_topology_merge(t, &gpus);
  note_source(t, _("PCI bus"), on_the_bus);
  note_source(t, _("NVML (the driver)"), of_the_driver);
  t->sources = mal_grow(t->arena, t->sources, (size_t)t->n_sources, (size_t)t->n_sources + 1, sizeof *t->sources);
  t->sources[t->n_sources++] = (mal_source){_("this machine"),
                                            _("hwloc, /sys and NVML"),
                                            mal_count_parts(t, MAL_PART_GPU),
                                            mal_count_parts(t, MAL_PART_NIC),
                                            0,
                                            false,
                                            0};
  return MAL_OK;
}

/* What moves is numbers: they are taken over, and what was read for them is let go. */
static void take_numbers(mal_topology *t, const mal_topology *now) {
  for (int i = 0; i < now->n_devices; i++) {
    const mal_part *d = &now->devices[i];
    mal_part *x = NULL;
    for (int k = 0; k < t->n_devices && !x; k++) {
      mal_part *o = &t->devices[k];
      bool same = d->bus >= 0 ? o->bus == d->bus : o->name && d->name && strcmp(o->name, d->name) == 0;
      if (o->kind == d->kind && same) x = o;
    }
    if (!x) continue;
    for (int k = 0; k < MAL_FACTS; k++)
      if (d->fact[k].known && !d->fact[k].text) x->fact[k] = d->fact[k];
    if (mal_known(d, MAL_F_UNREADABLE) && !mal_known(x, MAL_F_UNREADABLE))
      mal_know_text(t, x, MAL_F_UNREADABLE, mal_fact_text(d, MAL_F_UNREADABLE), (mal_evidence){"NVML", 0});
    for (int k = 0; k < d->n_links && k < x->n_links; k++) x->links[k] = d->links[k];
    for (int k = 0; k < d->n_counters; k++)
      mal_count_event(t, x, d->counters[k].name, d->counters[k].value, (mal_evidence){ib_folder, 0});
  }
}

void mal_topology_refresh(mal_topology *t) {
  mal_arena a;
  mal_topology now;
  mal_arena_init(&a);
  mal_topology_init(&now, &a);
  mal_read_nvml(&now);
  ib_view(NULL, &now);
  take_numbers(t, &now);
  mal_arena_free(&a);
}
