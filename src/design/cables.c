/* Every cable between units, its way through the hall, and the piece that is bought for it. */
#include "design/design.h"
#include <math.h>
#include <string.h>

static const double unit_m = 0.04445; /* one rack unit, EIA-310 */
static const double slack_m = 0.5;    /* at each end */
/* Lengths sold: NVIDIA LinkX copper 0.5 to 3 m, fibre 3 to 500 m (LinkX 100G-PAM4 product line overview). */
static const double stock_m[] = {0.5, 1, 1.5, 2, 2.5, 3, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 150, 200, 300, 500};

typedef struct writer {
  mal_arena *arena;
  mal_design *d;
  int64_t room;
} writer;

static double route(const mal_design *d, int64_t from, int64_t to) {
  const mal_unit *x = &d->hall.units[from], *y = &d->hall.units[to];
  double hx = ((double)x->bottom_u + x->ru / 2) * unit_m, hy = ((double)y->bottom_u + y->ru / 2) * unit_m;
  if (x->rack == y->rack) return fabs(hx - hy) + d->site.rack_width_m / 2 + 2 * slack_m;
  const mal_rack *p = &d->hall.racks[x->rack], *q = &d->hall.racks[y->rack];
  double up = fmax(0, d->site.tray_m - hx) + fmax(0, d->site.tray_m - hy);
  return up + fabs(p->x_m - q->x_m) + fabs(p->y_m - q->y_m) + 2 * slack_m;
}

static double bought(double m) {
  for (size_t i = 0; i < sizeof stock_m / sizeof *stock_m; i++)
    if (m <= stock_m[i]) return stock_m[i];
  return 100 * ceil(m / 100);
}

static const char *medium(const mal_switch *s, double m) {
  if (m <= s->copper_m.value) return "copper";
  return m <= s->multimode_m.value ? "multimode" : "single-mode";
}

/* The longest cable that a port of it takes, of any kind. */
static double reach(const mal_switch *s) {
  return fmax(s->singlemode_m.value, fmax(s->multimode_m.value, s->copper_m.value));
}

static void add(writer *w, const mal_switch *s, mal_cable c) {
  mal_design *d = w->d;
  if (d->n_cables == w->room) {
    int64_t more = 2 * w->room + 256;
    d->cables = mal_grow(w->arena, d->cables, (size_t)w->room, (size_t)more, sizeof *d->cables);
    w->room = more;
  }
  c.route_m = route(d, c.from, c.to);
  c.length_m = bought(c.route_m);
  c.medium = medium(s, c.route_m);
  d->cables[d->n_cables++] = c;
}

/* "3" of a switch with single cages, "2/1" where two ports share one. */
static const char *port_name(mal_arena *a, const mal_switch *s, int64_t port) {
  if (s->ports_per_cage < 2) return mal_print(a, "%lld", (long long)port);
  return mal_print(a, "%lld/%lld", (long long)((port - 1) / s->ports_per_cage + 1),
                   (long long)((port - 1) % s->ports_per_cage + 1));
}

static void add_network(writer *w, const mal_network *n, const char *name, bool storage) {
  mal_arena *a = w->arena;
  int64_t count;
  mal_link *links = mal_network_links(a, n, &count);
  for (int64_t i = 0; i < count; i++) {
    const mal_link *l = &links[i];
    bool host = l->from.kind < MAL_DEV_LEAF, rail = l->from.kind == MAL_DEV_NODE && !storage;
    const char *from_port = rail   ? mal_chassis_hca(a, w->d->chassis, l->rail)
                            : host ? mal_print(a, "%s%lld", storage ? "storage" : "port", (long long)l->from_port)
                                   : port_name(a, n->ask.leaf, l->from_port);
    add(w, n->ask.leaf,
        (mal_cable){.network = name,
                    .tier = mal_tier_name[l->tier],
                    .from = mal_design_unit_of(w->d, storage, l->from),
                    .to = mal_design_unit_of(w->d, storage, l->to),
                    .from_port = from_port,
                    .to_port = port_name(a, n->ask.leaf, l->to_port),
                    .rail = rail ? l->rail : -1,
                    .bytes_per_s = host ? n->link_bytes_per_s : n->ask.leaf->port_bytes_per_s.value});
  }
}

/* --- management ------------------------------------------------------------------------------------------------------ */

typedef struct pairs { /* leaves that are filled in turn, two at a time or one */
  int64_t first, leaves, next, usable;
  int64_t *used; /* ports of each */
} pairs;

static void attach(writer *w, const mal_switch *s, const char *network, pairs *p, int64_t unit, const char *port) {
  mal_arena *a = w->arena;
  int64_t leaf = p->next++ % p->leaves;
  for (int64_t i = 0; i < p->leaves && p->used[leaf] >= p->usable; i++) leaf = (leaf + 1) % p->leaves;
  add(w, s,
      (mal_cable){network, "node-leaf", unit, p->first + leaf, port, port_name(a, s, ++p->used[leaf]), -1,
                  s->port_bytes_per_s.value, 0, 0, NULL, false, false});
}

static int64_t first_of(const mal_design *d, int kind) {
  for (int64_t i = 0; i < d->hall.n_units; i++)
    if (d->hall.units[i].kind == kind) return i;
  return -1;
}

static void add_inband_link(writer *w, const char *tier, int64_t from, int64_t from_port, int64_t to, int64_t to_port) {
  const mal_switch *s = w->d->inband_switch;
  add(w, s,
      (mal_cable){"in-band", tier, from, to, port_name(w->arena, s, from_port), port_name(w->arena, s, to_port), -1,
                  s->port_bytes_per_s.value, 0, 0, NULL, false, false});
}

static void add_inband_tiers(writer *w, int64_t first) {
  const mal_design *d = w->d;
  int64_t ports = d->inband_switch->ports, cores = first + d->inband_leaves, each = d->inband_zone_cores;
  int64_t zone = ports - 2 * MAL_INBAND_UPLINKS, supers = cores + d->inband_zones * each;
  for (int64_t l = 0; l < d->inband_leaves; l++) {
    for (int64_t k = 0; k < MAL_INBAND_UPLINKS && each; k++)
      add_inband_link(w, "leaf-spine", first + l, ports - 5 + k, cores + l / zone * each + k % each,
                      l % zone * (MAL_INBAND_UPLINKS / each) + k / each + 1);
    for (int64_t k = 0; k < 2 && l % 2 == 0; k++)
      add_inband_link(w, "leaf-leaf", first + l, ports - 1 + k, first + l + 1, ports - 1 + k);
  }
  for (int64_t c = 0; c < d->inband_zones * each && d->inband_supers; c++)
    for (int64_t k = 0; k < MAL_INBAND_UPLINKS; k++)
      add_inband_link(w, "spine-core", cores + c, ports - 3 + k, supers + k % 2, c * 2 + k / 2 + 1);
}

static void add_inband(writer *w) {
  mal_design *d = w->d;
  mal_arena *a = w->arena;
  const mal_switch *s = d->inband_switch;
  int64_t reserved = d->inband_zones ? MAL_INBAND_UPLINKS + 2 : 2;
  pairs p = {first_of(d, MAL_UNIT_INBAND_SWITCH), d->inband_leaves, 0, s->ports - reserved,
             MAL_ARRAY(a, int64_t, d->inband_leaves)};
  for (int64_t i = 0; i < d->hall.n_units; i++) {
    const mal_unit *u = &d->hall.units[i];
    int64_t ports = u->kind == MAL_UNIT_NODE             ? (int64_t)d->chassis->inband_ports.value
                    : u->kind == MAL_UNIT_MANAGEMENT     ? (int64_t)d->management->inband_ports.value
                    : u->kind == MAL_UNIT_FABRIC_MANAGER ? (int64_t)d->manager->inband_ports.value
                    : u->kind == MAL_UNIT_STORAGE_SERVER || u->kind == MAL_UNIT_OOB_SWITCH ? 2
                                                                                           : 0;
    const char *word = u->kind == MAL_UNIT_OOB_SWITCH ? "uplink" : "inband";
    for (int64_t k = 0; k < ports; k++) attach(w, s, "in-band", &p, i, mal_print(a, "%s%lld", word, (long long)k + 1));
  }
  add_inband_tiers(w, p.first);
}

static void add_oob(writer *w) {
  mal_design *d = w->d;
  mal_arena *a = w->arena;
  const mal_switch *s = d->oob_switch;
  pairs p = {first_of(d, MAL_UNIT_OOB_SWITCH), d->oob_switches, 0, s->ports, MAL_ARRAY(a, int64_t, d->oob_switches)};
  for (int64_t i = 0; i < d->hall.n_units; i++)
    if (d->hall.units[i].kind != MAL_UNIT_OOB_SWITCH) attach(w, s, "out-of-band", &p, i, "bmc");
}

void mal_design_cables(mal_arena *a, mal_design *d) {
  writer w = {a, d, 0};
  d->n_cables = 0, d->cables = NULL;
  if (!d->has_fabric) return;
  add_network(&w, &d->compute, "compute", false);
  add_network(&w, &d->storage_network, "storage", true);
  add_inband(&w);
  add_oob(&w);
  int64_t longest = 0, beyond = 0;
  for (int64_t i = 0; i < d->n_cables; i++) {
    if (d->cables[i].route_m > d->cables[longest].route_m) longest = i;
    beyond += d->cables[i].bytes_per_s > 1e9 && d->cables[i].route_m > reach(d->leaf);
  }
  if (beyond)
    mal_design_find(a, d, MAL_ERROR,
                    _("%lld cables are longer than %.0f m, the longest of them %.0f m: bring the racks "
                      "closer, or take another room."),
                    (long long)beyond, reach(d->leaf), d->cables[longest].route_m);
}

static void put_field(mal_writing *w, const char *text, char end) {
  bool quote = strpbrk(text, ",\"\n\r") != NULL;
  if (quote) mal_write(w, "\"");
  for (; *text; text++) mal_write(w, quote && *text == '"' ? "\"\"" : "%c", *text);
  mal_write(w, quote ? "\"%c" : "%c", end);
}

char *mal_design_cabling_csv(mal_arena *a, const mal_design *d) {
  mal_writing w = {.arena = a};
  mal_write(&w,
            "cable,network,tier,from,from_port,to,to_port,rail,gbit_s,length_m,medium,from_rack,from_u,to_rack,to_u\n");
  for (int64_t i = 0; i < d->n_cables; i++) {
    const mal_cable *c = &d->cables[i];
    const mal_unit *x = &d->hall.units[c->from], *y = &d->hall.units[c->to];
    mal_write(&w, "%lld,%s,%s,%s,%s,%s,%s,", (long long)i + 1, c->network, c->tier, x->name, c->from_port, y->name,
              c->to_port);
    if (c->rail >= 0) mal_write(&w, "%lld", (long long)c->rail);
    mal_write(&w, ",%g,%g,%s,%lld,%lld,%lld,%lld\n", c->bytes_per_s * 8 / 1e9, c->length_m, c->medium,
              (long long)x->rack + 1, (long long)x->bottom_u, (long long)y->rack + 1, (long long)y->bottom_u);
  }
  return w.text;
}

char *mal_design_parts_csv(mal_arena *a, const mal_design *d) {
  mal_writing w = {.arena = a};
  mal_write(&w, "section,count,part,title,rule,price,currency,price_source\n");
  for (int i = 0; i < d->n_parts; i++) {
    const mal_part *p = &d->parts[i];
    put_field(&w, p->section, ',');
    mal_write(&w, "%.0f,", p->count);
    put_field(&w, p->part, ',');
    put_field(&w, p->title, ',');
    put_field(&w, p->rule, ',');
    if (p->price >= 0) mal_write(&w, "%.2f", p->price);
    mal_write(&w, ",%s,", p->price >= 0 ? d->site.currency : "");
    put_field(&w, p->price_source ? p->price_source : "", '\n');
  }
  return w.text;
}
