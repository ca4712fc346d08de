#include "design/kit/kit.h"
#include "design/files.h"
#include "design/kit/acceptance.h"
#include "design/kit/monitor.h"

static const char cgroup[] =
    "CgroupPlugin=autodetect\nConstrainCores=yes\nConstrainDevices=yes\nConstrainRAMSpace=yes\n";

typedef struct folder {
  mal_kit_file *files;
  int n;
} folder;

static void add(folder *f, const char *path, const char *text) {
  if (text && f->n < MAL_KIT_MOST) f->files[f->n++] = (mal_kit_file){path, text, false};
}

static mal_status add_monitoring(mal_arena *a, const mal_design *d, folder *f, mal_error *e) {
  static const struct {
    const char *path;
    mal_status (*make)(mal_arena *, const mal_design *, char **, mal_error *);
  } made[] = {{"monitoring/dcgm-counters.csv", mal_monitor_counters},
              {"monitoring/alerts.yml", mal_monitor_alerts},
              {"monitoring/dashboard.json", mal_monitor_dashboard}};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
    char *text;
    mal_status s = made[i].make(a, d, &text, e);
    if (s != MAL_OK) return s;
    add(f, made[i].path, text);
  }
  add(f, "monitoring/prometheus.yml", mal_monitor_prometheus(a, d));
  return MAL_OK;
}

mal_status mal_kit_make(mal_arena *a, const mal_design *d, mal_kit_file *files, int *n, mal_error *e) {
  folder f = {files, 0};
  mal_acceptance list[MAL_ACCEPTANCE_MOST];
  int tests = mal_acceptance_list(a, d, list);
  add(&f, "software.csv", mal_kit_software_csv(a, d));
  add(&f, "image.yaml", mal_kit_image(a, d));
  add(&f, "hosts", mal_kit_hosts(a, d));
  add(&f, "addresses.csv", mal_design_addresses_csv(a, d));
  add(&f, "slurm/slurm.conf", mal_kit_slurm(a, d));
  add(&f, "slurm/gres.conf", mal_kit_gres(a, d));
  add(&f, "slurm/cgroup.conf", cgroup);
  add(&f, "slurm/node-check", mal_kit_node_check(a, d));
  f.files[f.n - 1].executable = true;
  add(&f, "slurm/topology.conf", mal_design_topology_conf(a, d));
  add(&f, "slurm/topology.yaml", mal_design_topology_yaml(a, d));
  add(&f, "acceptance.csv", mal_acceptance_csv(a, list, tests));
  add(&f, "acceptance.sh", mal_acceptance_script(a, d, list, tests));
  f.files[f.n - 1].executable = true;
  mal_status s = add_monitoring(a, d, &f, e);
  if (s != MAL_OK) return s;
  if (d->has_fabric) add(&f, "cables.csv", mal_design_cabling_csv(a, d));
  add(&f, "parts.csv", mal_design_parts_csv(a, d));
  *n = f.n;
  return MAL_OK;
}
