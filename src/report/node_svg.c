/* The drawing: a column for each rank (GPU above, NIC below), boxes around the NUMA nodes, one bar for the NVSwitches or curves for
 * direct NVLinks. A rail is the line from a GPU to its NIC, as thick as it is near. */
#include "core/units.h"
#include "report/node.h"
#include <string.h>

enum { COLUMN = 112, MARGIN = 24, TOP = 64, BAR = 34, GPU_HIGH = 56, NIC_HIGH = 44, GAP = 96, CURVES = 90, LIST = 256 };

typedef struct drawing {
  mal_arena *a;
  mal_writing w;
  const mal_node_report *r;
  int order[LIST]; /* places by NUMA node */
  int n;
  int gpu_y, nic_y;
  mal_part *rails[LIST];
  int n_rails;
} drawing;

static const char *escaped(mal_arena *a, const char *text) {
  mal_writing w = {.arena = a};
  mal_write(&w, "%s", "");
  for (; *text; text++) {
    const char *as = *text == '<'   ? "&lt;"
                     : *text == '>' ? "&gt;"
                     : *text == '&' ? "&amp;"
                     : *text == '"' ? "&quot;"
                                    : NULL;
    if (as)
      mal_write(&w, "%s", as);
    else
      mal_write(&w, "%c", *text);
  }
  return w.text;
}

static void box(drawing *d, int x, int y, int wide, int high, const char *fill, const char *line) {
  mal_write(&d->w, "<rect x='%d' y='%d' width='%d' height='%d' rx='6' fill='%s' stroke='%s'/>\n", x, y, wide, high,
            fill, line);
}

static void words(drawing *d, int x, int y, const char *anchor, int size, const char *weight, const char *text) {
  mal_write(&d->w, "<text x='%d' y='%d' text-anchor='%s' font-size='%d' font-weight='%s' fill='#1b1f24'>%s</text>\n", x,
            y, anchor, size, weight, escaped(d->a, text));
}

static int column_of(const drawing *d, const mal_part *gpu) {
  for (int i = 0; i < d->n; i++)
    if (d->r->places[d->order[i]].gpu == gpu) return i;
  return -1;
}

static int x_of(int column) { return MARGIN + 12 + column * COLUMN; }

static void sort_by_numa(drawing *d) {
  for (int i = 0; i < d->r->n_places && i < LIST; i++) {
    int at = d->n++;
    while (at > 0 && d->r->places[d->order[at - 1]].numa > d->r->places[i].numa) d->order[at] = d->order[at - 1], at--;
    d->order[at] = i;
  }
}

static void numa_boxes(drawing *d) {
  for (int first = 0, last; first < d->n; first = last + 1) {
    int numa = d->r->places[d->order[first]].numa;
    for (last = first; last + 1 < d->n && d->r->places[d->order[last + 1]].numa == numa; last++) continue;
    int x = x_of(first) - 8, wide = (last - first + 1) * COLUMN;
    const mal_part *node = mal_find_part(d->r->topology, MAL_PART_NUMA, numa);
    const char *cpus = node ? mal_fact_text(node, MAL_F_CPUS) : NULL;
    double memory = node ? mal_fact_number(node, MAL_F_MEMORY, 0) : 0;
    box(d, x, d->gpu_y - 14, wide - 4, d->nic_y + NIC_HIGH + 28 - d->gpu_y + 14, "#f3f6fa", "#b8c4d2");
    const char *label = numa < 0 ? _("NUMA node not said")
                                 : mal_print(d->a, "NUMA %d%s%s%s%s", numa, last > first && cpus ? ": CPUs " : "",
                                             last > first && cpus ? cpus : "", memory > 0 && last > first ? ", " : "",
                                             memory > 0 && last > first ? mal_show_bytes(memory) : "");
    words(d, x + 8, d->nic_y + NIC_HIGH + 20, "start", 12, "bold", label);
  }
}

static void switch_bar(drawing *d, const char *link) {
  int switches = mal_count_parts(d->r->topology, MAL_PART_NVSWITCH), y = TOP;
  box(d, MARGIN, y, d->n * COLUMN + 8, BAR, "#d7efd0", "#5a9a47");
  if (!link)
    words(d, MARGIN + (d->n * COLUMN + 8) / 2, y + 22, "middle", 13, "bold",
          mal_print(d->a, _("%d NVSwitches; links not said"), switches));
  else
    words(d, MARGIN + (d->n * COLUMN + 8) / 2, y + 22, "middle", 13, "bold",
          switches ? mal_print(d->a, _("%d NVSwitches, %s for each pair"), switches, link)
                   : mal_print(d->a, _("NVSwitch, %s for each pair"), link));
  for (int i = 0; i < d->n; i++)
    mal_write(&d->w, "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='#5a9a47' stroke-width='5'/>\n", x_of(i) + 46,
              y + BAR, x_of(i) + 46, d->gpu_y);
}

static void curves(drawing *d) {
  for (int i = 0; i < d->r->topology->n_wires; i++) {
    const mal_wire *w = &d->r->topology->wires[i];
    if (w->path != MAL_PATH_NVLINK) continue;
    int from = column_of(d, &d->r->topology->devices[w->a]), to = column_of(d, &d->r->topology->devices[w->b]);
    if (from < 0 || to < 0) continue;
    int a = x_of(from < to ? from : to) + 46, b = x_of(from < to ? to : from) + 46,
        lift = 24 + (b - a) * 70 / (d->n * COLUMN);
    mal_write(&d->w,
              "<path d='M%d %d C%d %d %d %d %d %d' fill='none' stroke='#5a9a47' stroke-width='%d' opacity='0.8'/>\n", a,
              d->gpu_y, a, d->gpu_y - lift * 4 / 3, b, d->gpu_y - lift * 4 / 3, b, d->gpu_y,
              w->nvlinks > 4 ? 5 : 1 + w->nvlinks);
    words(d, (a + b) / 2, d->gpu_y - lift - 2, "middle", 9, "normal", mal_path_show(d->a, w));
  }
}

static const char *rail_colour(mal_path path) {
  return path <= MAL_PATH_PXB ? "#2f6fb3" : path <= MAL_PATH_NODE ? "#c98a1b" : "#c0392b";
}

static int nic_x(const drawing *d, int rail) {
  return d->n_rails > d->n ? MARGIN + 4 + rail * (d->n * COLUMN / d->n_rails)
                           : x_of(0) + (2 * rail + 1) * d->n * COLUMN / (2 * d->n_rails) - COLUMN / 2;
}

static int nic_wide(const drawing *d) { return d->n_rails > d->n ? d->n * COLUMN / d->n_rails - 4 : COLUMN - 20; }

static bool serves(const mal_rank_place *p, const mal_part *nic) {
  for (int i = 0; i < p->n_nics; i++)
    if (p->nics[i] == nic) return true;
  return false;
}

static void rail_lines(drawing *d) {
  for (int i = 0; i < d->n; i++) {
    const mal_rank_place *p = &d->r->places[d->order[i]];
    for (int j = 0; j < d->n_rails; j++) {
      if (!serves(p, d->rails[j])) continue;
      int x = nic_x(d, j) + nic_wide(d) / 2;
      mal_write(&d->w, "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='%s' stroke-width='3'/>\n", x_of(i) + 46,
                d->gpu_y + GPU_HIGH, x, d->nic_y, rail_colour(p->nic_path));
      words(d, x_of(i) + 52, d->gpu_y + GPU_HIGH + 16, "start", 10, "normal", mal_path_name[p->nic_path]);
    }
  }
}

/* Rails stand below the GPUs they serve. */
static void sort_rails(drawing *d) {
  int used = 0;
  for (int i = 0; i < d->n; i++)
    for (int j = used; j < d->n_rails; j++) {
      if (!serves(&d->r->places[d->order[i]], d->rails[j])) continue;
      mal_part *nic = d->rails[j];
      for (int k = j; k > used; k--) d->rails[k] = d->rails[k - 1];
      d->rails[used++] = nic;
    }
}

static void devices(drawing *d) {
  for (int i = 0; i < d->n; i++) {
    const mal_part *g = d->r->places[d->order[i]].gpu;
    int now = mal_pcie_generation(mal_fact_number(g, MAL_F_SPEED, 0)), lanes = (int)mal_fact_number(g, MAL_F_WIDTH, 0);
    box(d, x_of(i), d->gpu_y, COLUMN - 20, GPU_HIGH, "#ffffff", "#3b4754");
    words(d, x_of(i) + 46, d->gpu_y + 18, "middle", 13, "bold", mal_part_label(d->a, g));
    if (g->bus >= 0) words(d, x_of(i) + 46, d->gpu_y + 34, "middle", 10, "normal", mal_bus_show(d->a, g->bus));
    if (now) words(d, x_of(i) + 46, d->gpu_y + 48, "middle", 10, "normal", mal_print(d->a, "PCIe %d x%d", now, lanes));
  }
  for (int j = 0; j < d->n_rails; j++) {
    const mal_part *nic = d->rails[j];
    double rate = mal_fact_number(nic, MAL_F_RATE, 0);
    int x = nic_x(d, j), wide = nic_wide(d);
    box(d, x, d->nic_y, wide, NIC_HIGH, "#e3edf9", "#2f6fb3");
    bool bare = !nic->name && nic->index < 0;
    words(d, x + wide / 2, d->nic_y + 18, "middle", wide < 60 ? 8 : 11, "bold",
          bare ? "NIC" : mal_part_label(d->a, nic));
    if (bare && rate <= 0)
      words(d, x + wide / 2, d->nic_y + 34, "middle", wide < 60 ? 8 : 10, "normal", mal_bus_show(d->a, nic->bus));
    if (rate > 0)
      words(d, x + wide / 2, d->nic_y + 34, "middle", wide < 60 ? 8 : 10, "normal",
            mal_print(d->a, "%.0f Gb/s", rate / 1e9));
  }
}

char *mal_report_node_svg(mal_arena *a, const mal_node_report *r) {
  drawing d = {.a = a, .w = {.arena = a}, .r = r};
  const mal_topology *t = r->topology;
  sort_by_numa(&d);
  d.n_rails = mal_topology_rails(t, d.rails, LIST);
  sort_rails(&d);
  bool switched = d.n > 1 && mal_topology_switched(t), linked = false;
  const mal_wire *first = d.n > 1 ? mal_find_wire(t, r->places[0].gpu, r->places[1].gpu) : NULL;
  for (int i = 0; i < t->n_wires; i++) linked = linked || t->wires[i].path == MAL_PATH_NVLINK;
  d.gpu_y = TOP + (switched ? BAR + 60 : linked ? CURVES + 50 : 40);
  d.nic_y = d.gpu_y + GPU_HIGH + GAP;
  int columns = d.n > 4 ? d.n : 4, wide = 2 * MARGIN + columns * COLUMN + 8, high = d.nic_y + NIC_HIGH + 76;
  mal_write(&d.w,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' font-family='DejaVu "
            "Sans, Helvetica, sans-serif'>\n",
            wide, high, wide, high);
  mal_write(&d.w, "<rect width='%d' height='%d' fill='#ffffff'/>\n", wide, high);
  words(&d, MARGIN, 34, "start", 16, "bold",
        mal_print(a, "%s: %d GPUs, %d NICs",
                  t->product ? t->product
                  : t->host  ? t->host
                             : _("node"),
                  d.n, d.n_rails));
  if (d.n) {
    numa_boxes(&d);
    if (switched)
      switch_bar(&d, first && first->path == MAL_PATH_NVLINK ? mal_path_show(a, first) : NULL);
    else
      curves(&d);
    rail_lines(&d);
    devices(&d);
  }
  words(&d, MARGIN, high - 22, "start", 11, "normal",
        _("lines to NICs: blue on the GPU's switch (PIX, PXB), amber through the CPU (PHB, NODE), red across sockets "
          "(SYS)"));
  mal_write(&d.w, "</svg>\n");
  return d.w.text;
}
