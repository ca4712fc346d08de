#include "core/units.h"
#include "report/node.h"
#include <string.h>

enum { LIST = 256 };

static void head(mal_page *p, const mal_node_report *r) {
  const mal_topology *t = r->topology;
  mal_part *gpus[LIST];
  int n = mal_parts_of(t, MAL_PART_GPU, gpus, LIST);
  const char *product = n ? mal_fact_text(gpus[0], MAL_F_PRODUCT) : NULL;
  mal_page_styled(p, MAL_BOLD, "%s", t->product ? t->product : t->host ? t->host : _("node"));
  mal_page_put(p, "\n");
  for (int i = 0; i < t->n_sources; i++) {
    mal_page_put(p, "read      ");
    mal_page_wrap(p, 10, 10, mal_print(p->arena, "%s (%s)", t->sources[i].file, t->sources[i].what));
  }
  if (n) {
    const char *name = product ? product : r->gpu ? r->gpu : _("model not said");
    mal_page_put(p, "GPUs      ");
    mal_page_wrap(p, 10, 10,
                  product && r->gpu ? mal_print(p->arena, "%d × %s (%s)", n, name, r->gpu)
                                    : mal_print(p->arena, "%d × %s", n, name));
  }
  if (t->cores) mal_page_put(p, _("CPUs      %d packages, %d cores, %d threads\n"), t->packages, t->cores, t->threads);
  int bridges = mal_count_parts(t, MAL_PART_BRIDGE), unknown = mal_count_parts(t, MAL_PART_PCI);
  if (!n && bridges + unknown) mal_page_put(p, _("PCI       %d bridges, %d other devices\n"), bridges, unknown);
  if (t->virtual_machine || t->container)
    mal_page_put(p, _("inside    %s%s%s\n"), t->virtual_machine ? _("a virtual machine") : "",
                 t->virtual_machine && t->container ? ", " : "", t->container ? _("a container") : "");
}

static const char *pcie_text(mal_arena *a, const mal_part *d) {
  int now = mal_pcie_generation(mal_fact_number(d, MAL_F_SPEED, 0)),
      most = mal_pcie_generation(mal_fact_number(d, MAL_F_SPEED_MAX, 0));
  int lanes = (int)mal_fact_number(d, MAL_F_WIDTH, 0), lanes_max = (int)mal_fact_number(d, MAL_F_WIDTH_MAX, 0);
  double bytes = mal_fact_number(d, MAL_F_PCIE_BYTES, 0);
  mal_writing w = {.arena = a};
  if (!now && bytes > 0) return mal_print(a, "PCIe %s", mal_show_rate(bytes, "B/s"));
  if (!now) return "";
  mal_write(&w, "PCIe %d", now);
  if (lanes) mal_write(&w, " x%d", lanes);
  if (most > now || lanes_max > lanes) {
    mal_write(&w, _(" (can %d"), most > now ? most : now);
    if (lanes_max) mal_write(&w, " x%d", lanes_max);
    mal_write(&w, ")");
  }
  return w.text;
}

static int links_up(const mal_part *d) {
  int n = 0;
  for (int i = 0; i < d->n_links; i++) n += d->links[i].active == 1;
  return n;
}

static const char *describe(mal_arena *a, const mal_part *d) {
  mal_writing w = {.arena = a};
  const char *product = mal_fact_text(d, MAL_F_PRODUCT), *pcie = pcie_text(a, d),
             *state = mal_fact_text(d, MAL_F_STATE);
  double rate = mal_fact_number(d, MAL_F_RATE, 0), memory = mal_fact_number(d, MAL_F_MEMORY, 0);
  if (d->kind == MAL_PART_GPU || d->kind == MAL_PART_NVSWITCH || d->name || d->bus < 0)
    mal_write(&w, "%s%s", mal_part_label(a, d), d->bus >= 0 ? " " : "");
  if (d->bus >= 0) mal_write(&w, "%s", mal_bus_show(a, d->bus));
  if (product) mal_write(&w, " %s", product);
  if (rate > 0) mal_write(&w, ", %.0f Gb/s", rate / 1e9);
  if (state && strcmp(state, "ACTIVE") != 0 && strcmp(state, "Active") != 0) mal_write(&w, ", %s", state);
  if (memory > 0 && d->kind != MAL_PART_NUMA) mal_write(&w, ", %s", mal_show_bytes(memory));
  if (*pcie) mal_write(&w, ", %s", pcie);
  if (d->n_links) mal_write(&w, _(", %d NVLinks up"), links_up(d));
  return w.text;
}

static bool shown(const mal_part *d) {
  return d->kind == MAL_PART_GPU || d->kind == MAL_PART_NIC || d->kind == MAL_PART_DRIVE ||
         d->kind == MAL_PART_NVSWITCH;
}

static bool holds_shown(const mal_topology *t, const mal_part *bridge, int depth) {
  for (int i = 0; i < t->n_devices && depth < 24; i++) {
    const mal_part *d = &t->devices[i];
    if (d->parent != bridge->bus || d == bridge || d->bus < 0) continue;
    if (shown(d) || (d->kind == MAL_PART_BRIDGE && holds_shown(t, d, depth + 1))) return true;
  }
  return false;
}

/* Bridges with one way on say nothing; those where ways part are drawn. */
static int ways(const mal_topology *t, const mal_part *bridge) {
  int n = 0;
  for (int i = 0; i < t->n_devices; i++) {
    const mal_part *d = &t->devices[i];
    if (d->parent == bridge->bus && d != bridge && d->bus >= 0)
      n += shown(d) || (d->kind == MAL_PART_BRIDGE && holds_shown(t, d, 0));
  }
  return n;
}

static void below(mal_page *p, const mal_topology *t, const mal_part *bridge, size_t indent, int depth);

static void branch(mal_page *p, const mal_topology *t, const mal_part *d, size_t indent, int depth) {
  if (d->kind == MAL_PART_BRIDGE) {
    if (!holds_shown(t, d, depth)) return;
    bool parts = ways(t, d) > 1;
    if (parts) {
      mal_page_put(p, "%*s", (int)indent, "");
      mal_page_wrap(p, indent, indent + 2, mal_print(p->arena, _("switch or port %s"), describe(p->arena, d)));
    }
    below(p, t, d, parts ? indent + 2 : indent, depth + 1);
    return;
  }
  if (!shown(d)) return;
  mal_page_put(p, "%*s", (int)indent, "");
  mal_page_wrap(p, indent, indent + 4, describe(p->arena, d));
}

static void below(mal_page *p, const mal_topology *t, const mal_part *bridge, size_t indent, int depth) {
  for (int i = 0; i < t->n_devices && depth < 24; i++)
    if (t->devices[i].parent == bridge->bus && t->devices[i].bus >= 0 && &t->devices[i] != bridge)
      branch(p, t, &t->devices[i], indent, depth);
}

static bool on_top(const mal_topology *t, const mal_part *d) {
  return (shown(d) || (d->kind == MAL_PART_BRIDGE && d->bus >= 0)) && (d->parent < 0 || !mal_find_bus(t, d->parent));
}

static void tree(mal_page *p, const mal_topology *t) {
  mal_part *numa[LIST];
  int n = mal_parts_of(t, MAL_PART_NUMA, numa, LIST);
  for (int i = 0; i <= n; i++) {
    bool any = i < n;
    if (i < n) {
      const char *cpus = mal_fact_text(numa[i], MAL_F_CPUS);
      double memory = mal_fact_number(numa[i], MAL_F_MEMORY, 0);
      mal_page_styled(p, MAL_BOLD, "NUMA %d", numa[i]->index);
      mal_page_put(p, "%s%s%s%s\n", cpus ? "  CPUs " : "", cpus ? cpus : "", memory > 0 ? ", " : "",
                   memory > 0 ? mal_show_bytes(memory) : "");
    }
    for (int j = 0; j < t->n_devices; j++) {
      const mal_part *d = &t->devices[j];
      if (!on_top(t, d) || (int)mal_fact_number(d, MAL_F_NUMA, -1) != (i < n ? numa[i]->index : -1)) continue;
      if (d->kind == MAL_PART_BRIDGE && !holds_shown(t, d, 0)) continue;
      if (!any && n) mal_page_put(p, _("NUMA node not said\n"));
      any = true;
      branch(p, t, d, n ? 2 : 0, 0);
    }
  }
}

static void matrix(mal_page *p, const mal_topology *t) {
  mal_part *gpus[LIST];
  int n = mal_parts_of(t, MAL_PART_GPU, gpus, LIST);
  if (n < 2 || !t->n_wires) return;
  int paths = 0, peers = 0, refused = 0;
  for (int i = 0; i < t->n_wires; i++) {
    paths += t->wires[i].path != MAL_PATH_UNKNOWN;
    for (int k = 0; k < 26; k++)
      if (t->wires[i].peer[k]) peers++, refused += strcmp(t->wires[i].peer[k], "OK") != 0;
  }
  mal_page_put(p, "\n");
  if (peers) mal_page_put(p, _("peer access of GPUs: %d of %d pairs allowed\n"), peers - refused, peers);
  if (!paths) return;
  mal_page_styled(p, MAL_BOLD, "%s", _("GPU to GPU"));
  mal_page_put(p, "\n");
  if (mal_topology_switched(t) && t->n_wires) {
    const mal_wire *w = mal_find_wire(t, gpus[0], gpus[1]);
    bool same = w && w->path == MAL_PATH_NVLINK;
    for (int i = 0; i < n && same; i++)
      for (int j = 0; j < i && same; j++) {
        const mal_wire *o = mal_find_wire(t, gpus[i], gpus[j]);
        same = o && o->path == MAL_PATH_NVLINK && o->nvlinks == w->nvlinks;
      }
    if (same) {
      int switches = mal_count_parts(t, MAL_PART_NVSWITCH);
      mal_page_put(p, _("every pair %s"), mal_path_show(p->arena, w));
      if (switches) mal_page_put(p, _(", over %d NVSwitches"), switches);
      mal_page_put(p, "\n");
      return;
    }
  }
  int columns = n <= 12 ? n : 12;
  mal_page_put(p, "%6s", "");
  for (int j = 0; j < columns; j++) mal_page_put(p, "%6d", gpus[j]->index);
  mal_page_put(p, "\n");
  for (int i = 0; i < n; i++) {
    mal_page_put(p, "%6d", gpus[i]->index);
    for (int j = 0; j < columns; j++)
      mal_page_put(p, "%6s", i == j ? "X" : mal_path_show(p->arena, mal_find_wire(t, gpus[i], gpus[j])));
    mal_page_put(p, "\n");
  }
}

static void places(mal_page *p, const mal_node_report *r) {
  if (!r->n_places) return;
  mal_page_put(p, "\n");
  mal_page_styled(p, MAL_BOLD, "%s", _("Placement of ranks"));
  mal_page_put(p, "\n");
  mal_table table;
  mal_table_init(&table, p->arena, 0, "rllllw");
  mal_table_row(&table, MAL_DIM, _("rank"), "GPU", "NUMA", "NIC", _("distance"), _("cores"));
  for (int i = 0; i < r->n_places; i++) {
    const mal_rank_place *x = &r->places[i];
    mal_table_row(&table, MAL_PLAIN, mal_print(p->arena, "%d", x->rank), mal_part_label(p->arena, x->gpu),
                  x->numa >= 0 ? mal_print(p->arena, "%d", x->numa) : "?",
                  x->n_nics ? mal_place_nics(p->arena, x) : "–", x->n_nics ? mal_path_name[x->nic_path] : "–",
                  x->cpus ? x->cpus : "?");
  }
  mal_table_put(&table, p);
}

static void rides(mal_page *p, const mal_node_report *r) {
  if (!r->n_rides) return;
  mal_page_put(p, "\n");
  mal_page_styled(p, MAL_BOLD, "%s", _("What process groups ride on"));
  mal_page_put(p, "\n");
  mal_table table;
  mal_table_init(&table, p->arena, 0, "lrllw");
  mal_table_row(&table, MAL_DIM, _("group"), _("size"), _("first"), _("farthest pair"), _("between nodes"));
  for (int i = 0; i < r->n_rides; i++) {
    const mal_ride *x = &r->rides[i];
    mal_table_row(&table, MAL_PLAIN, x->axis, mal_print(p->arena, "%lld", (long long)x->size),
                  x->ranks ? x->ranks : "–", x->here > 1 ? x->shown : "–",
                  x->crosses ? _("the NIC of each rank") : "–");
  }
  mal_table_put(&table, p);
}

void mal_report_node(mal_page *p, const mal_node_report *r) {
  head(p, r);
  mal_page_put(p, "\n");
  tree(p, r->topology);
  matrix(p, r->topology);
  places(p, r);
  rides(p, r);
  for (int i = 0; i < r->topology->n_missing; i++) {
    mal_page_put(p, i ? "          " : _("\nnot known "));
    mal_page_wrap(p, 10, 10, r->topology->missing[i]);
  }
  mal_page_put(p, "\n");
  mal_page_styled(p, MAL_DIM, "%s", _("again     "));
  mal_page_command(p, 10, 12, r->command);
}
