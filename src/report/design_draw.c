#include "report/design_draw.h"
#include "core/units.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const mal_draw_class[MAL_UNIT_KINDS] = {"u node",    "u fabric", "u store", "u inband", "u oob",
                                                    "u manager", "u server", "u mgmt",  "u pdu"};

/* --- floor ----------------------------------------------------------------------------------------------------------- */

static const char *rack_class(const mal_design *d, const mal_rack *r) {
  if (r->nodes) return "r node";
  const mal_unit *u = &d->hall.units[d->hall.order[r->first]];
  return u->kind == MAL_UNIT_COMPUTE_SWITCH ? "r fabric" : "r other";
}

/* Two rows face each other over a cold aisle. */
static void draw_aisles(mal_writing *w, const mal_design *d, double scale, double left, double top, double width) {
  const mal_site *s = &d->site;
  double pair = 2 * s->rack_depth_m + s->cold_aisle_m + s->hot_aisle_m;
  for (int64_t p = 0; 2 * p < d->hall.rows; p++) {
    double y = top + (double)p * pair * scale, cold = y + s->rack_depth_m * scale;
    mal_svg_box(w, left, cold, width, s->cold_aisle_m * scale, "cold", NULL);
    if (width > 70)
      mal_svg_text(w, left + width / 2, cold + s->cold_aisle_m * scale / 2 + 3, 'm', "tiny", "cold aisle");
    if (2 * p + 2 >= d->hall.rows) continue;
    double hot = y + (2 * s->rack_depth_m + s->cold_aisle_m) * scale;
    mal_svg_box(w, left, hot, width, s->hot_aisle_m * scale, "hot", NULL);
    mal_svg_text(w, left + width / 2, hot + s->hot_aisle_m * scale / 2 + 3, 'm', "tiny", "hot aisle");
  }
}

/* Where cables run: a tray over each row, joined by one across them at their beginning. */
static void draw_trays(mal_writing *w, const mal_design *d, double scale, double left, double top) {
  double last = -1, first = -1;
  for (int64_t i = 0; i < d->hall.n_racks; i++) {
    const mal_rack *r = &d->hall.racks[i];
    double y = top + r->y_m * scale;
    if (y == last) continue;
    if (first < 0) first = y;
    last = y;
    mal_svg_line(w, left, y, left + d->hall.width_m * scale, y, "tray");
  }
  if (last > first) mal_svg_line(w, left, first, left, last, "tray");
}

static void draw_scale(mal_writing *w, double x, double y, double scale) {
  double metres = scale * 5 > 60 ? 1 : 5, wide = metres * scale;
  mal_svg_line(w, x, y, x + wide, y, "wire");
  mal_svg_line(w, x, y - 4, x, y + 4, "wire");
  mal_svg_line(w, x + wide, y - 4, x + wide, y + 4, "wire");
  mal_svg_text(w, x + wide + 8, y + 4, 's', "small", "%g m", metres);
}

static double longest_route(const mal_design *d) {
  double m = 0;
  for (int64_t i = 0; i < d->n_cables; i++) m = fmax(m, d->cables[i].route_m);
  return m;
}

static void draw_floor_rack(mal_writing *w, const mal_design *d, int64_t i, double x, double y, double wide,
                            double deep) {
  const mal_rack *r = &d->hall.racks[i];
  mal_svg_box(w, x + 1, y + 1, wide - 2, deep - 2, rack_class(d, r),
              mal_print(w->arena, "rack %lld: %lld units, %.1f kW, %.0f kg", (long long)i + 1, (long long)r->count,
                        r->max_w / 1e3, r->kg + d->site.rack_empty_kg));
  if (wide <= 22) return;
  mal_svg_text(w, x + wide / 2, y + deep / 2 - 2, 'm', "on", "%lld", (long long)i + 1);
  if (deep > 40) mal_svg_text(w, x + wide / 2, y + deep / 2 + 12, 'm', "on tiny", "%.0f kW", r->max_w / 1e3);
}

enum { FLOOR_PX = 960 };

void mal_draw_floor(mal_writing *w, const mal_design *d) {
  const mal_hall *h = &d->hall;
  const mal_site *s = &d->site;
  double scale = fmin(56, (FLOOR_PX - 80) / fmax(h->width_m, 1)), width = h->width_m * scale;
  double left = (FLOOR_PX - width) / 2, top = 24;
  double height = (h->depth_m - s->hot_aisle_m + (h->rows % 2 ? s->cold_aisle_m : 0)) * scale;
  mal_svg_begin(w, FLOOR_PX, height + top + 76, "floor plan");
  draw_aisles(w, d, scale, left, top, width);
  draw_trays(w, d, scale, left, top);
  for (int64_t i = 0; i < h->n_racks; i++) {
    const mal_rack *r = &h->racks[i];
    draw_floor_rack(w, d, i, left + (r->x_m - s->rack_width_m / 2) * scale,
                    top + (r->y_m - s->rack_depth_m / 2) * scale, s->rack_width_m * scale, s->rack_depth_m * scale);
  }
  double under = top + height + 30;
  draw_scale(w, 40, under - 4, scale);
  mal_svg_text(
      w, 150, under, 's', "small",
      "%.1f m by %.1f m, aisles of %g m; racks %g by %g m; the heaviest %.0f kg: %.0f kg/m2, %.0f kg a tile of %g m",
      h->width_m, h->depth_m, s->cold_aisle_m, s->rack_width_m, s->rack_depth_m, d->heaviest_rack_kg,
      d->floor_kg_per_m2, d->tile_kg, s->tile_m);
  if (d->n_cables)
    mal_svg_text(w, 150, under + 18, 's', "small", "cables run along trays %g m high; the longest way is %.1f m",
                 s->tray_m, longest_route(d));
  mal_svg_end(w);
}

/* --- racks ----------------------------------------------------------------------------------------------------------- */

enum { U_PX = 11, RACK_PX = 150, KINDS_SHOWN = 12 };

static bool same_rack(const mal_hall *h, const mal_rack *x, const mal_rack *y) {
  if (x->count != y->count || x->nodes != y->nodes) return false;
  for (int64_t i = 0; i < x->count; i++)
    if (strcmp(h->units[h->order[x->first + i]].model, h->units[h->order[y->first + i]].model) != 0) return false;
  return true;
}

static void draw_rack(mal_writing *w, const mal_design *d, int64_t index, int64_t times, double x, double top) {
  const mal_hall *h = &d->hall;
  const mal_rack *r = &h->racks[index];
  double tall = (double)d->site.rack_ru * U_PX;
  mal_svg_box(w, x, top, RACK_PX, tall + 8, "frame", NULL);
  for (int64_t u = 5; u <= d->site.rack_ru; u += 5) {
    double y = top + 4 + tall - (double)u * U_PX;
    mal_svg_line(w, x + 3, y, x + 9, y, "tick");
    mal_svg_text(w, x - 3, y + 7, 'e', "tiny", "%lld", (long long)u);
  }
  for (int64_t i = 0; i < r->count; i++) {
    const mal_unit *u = &h->units[h->order[r->first + i]];
    double y = top + 4 + tall - ((double)u->bottom_u - 1 + u->ru) * U_PX;
    mal_svg_box(
        w, x + 10, y + 0.5, RACK_PX - 20, u->ru * U_PX - 1, mal_draw_class[u->kind],
        mal_print(w->arena, "%s: %s, U%lld, %.1f kW", u->name, u->model, (long long)u->bottom_u, u->max_w / 1e3));
    mal_svg_text(w, x + RACK_PX / 2.0, y + u->ru * U_PX / 2 + 3.5, 'm', u->ru > 1 ? "on" : "on tiny", "%s", u->name);
  }
  double under = top + tall + 24;
  mal_svg_text(w, x + RACK_PX / 2.0, under, 'm', "small strong", times > 1 ? "rack %lld and %lld like it" : "rack %lld",
               (long long)index + 1, (long long)times - 1);
  mal_svg_text(w, x + RACK_PX / 2.0, under + 15, 'm', "small", "%.1f kW peak, %.0f kg", r->max_w / 1e3,
               r->kg + d->site.rack_empty_kg);
}

void mal_draw_racks(mal_writing *w, const mal_design *d) {
  const mal_hall *h = &d->hall;
  int64_t first[KINDS_SHOWN], times[KINDS_SHOWN], n = 0;
  for (int64_t i = 0; i < h->n_racks; i++) {
    int64_t k = 0;
    while (k < n && !same_rack(h, &h->racks[first[k]], &h->racks[i])) k++;
    if (k < n)
      times[k]++;
    else if (n < KINDS_SHOWN)
      first[n] = i, times[n++] = 1;
  }
  int64_t across = n < 5 ? n : 5, down = (n + 4) / 5;
  double cell = RACK_PX + 34, tall = (double)d->site.rack_ru * U_PX + 60;
  mal_svg_begin(w, (double)across * cell + 20, (double)down * tall + 10, "rack elevations");
  for (int64_t k = 0; k < n; k++)
    draw_rack(w, d, first[k], times[k], 24 + (double)(k % 5) * cell, 8 + (double)(k / 5) * tall);
  mal_svg_end(w);
}

/* --- fabric ---------------------------------------------------------------------------------------------------------- */

enum { SHOWN = 16 }; /* devices of a tier that are drawn; more are told by number */

typedef struct row {
  int64_t count;
  int kind;
  const char *style, *label, *many;
  double y;
} row;

static double x_of(const row *r, int64_t index, double width) {
  int64_t shown = r->count < SHOWN ? r->count : SHOWN;
  double at = r->count <= SHOWN ? (double)index : floor((double)index * SHOWN / (double)r->count);
  return 150 + (at + 0.5) * (width - 170) / (double)shown;
}

static const row *row_of(const row *rows, int n, int kind) {
  for (int i = 0; i < n; i++)
    if (rows[i].kind == kind) return &rows[i];
  return NULL;
}

static void draw_links(mal_writing *w, const mal_network *n, const row *rows, int count, double width) {
  int64_t links;
  mal_link *all = mal_network_links(w->arena, n, &links);
  char last[4][40] = {{0}};
  for (int64_t i = 0; i < links; i++) {
    const row *lower = row_of(rows, count, all[i].from.kind), *upper = row_of(rows, count, all[i].to.kind);
    if (!lower || !upper) continue;
    double x1 = x_of(lower, all[i].from.index, width), x2 = x_of(upper, all[i].to.index, width);
    char key[40];
    snprintf(key, sizeof key, "%.0f %.0f", x1, x2);
    if (strcmp(last[all[i].tier], key) == 0) continue; /* parallel links are one line */
    strcpy(last[all[i].tier], key);
    if (lower == upper) continue; /* a dragonfly's own links would hide everything */
    mal_svg_line(w, x1, lower->y, x2, upper->y + 26, all[i].tier == MAL_TIER_NODE ? "link" : "link up");
  }
}

/* How many cables lie between two rows, and how fast: rows from the top, tiers from the bottom. */
static void label_tiers(mal_writing *w, const mal_network *n, const row *rows, int count) {
  for (int t = 0; t + 1 < count; t++) {
    double y = (rows[count - 1 - t].y + rows[count - 2 - t].y) / 2 + 13;
    double rate = t == 0 ? n->link_bytes_per_s : n->ask.leaf->port_bytes_per_s.value;
    mal_svg_text(w, 12, y, 's', "small", "%s × %.0f Gb/s", mal_show_int(n->cables[t]), rate * 8 / 1e9);
  }
}

void mal_draw_fabric(mal_writing *w, const mal_design *d) {
  const mal_network *n = &d->compute;
  double width = 960, y = 20;
  row rows[4];
  int count = 0;
  if (n->cores) rows[count++] = (row){n->cores, MAL_DEV_CORE, "u fabric", "core", "cores", 0};
  if (n->spines) rows[count++] = (row){n->spines, MAL_DEV_SPINE, "u fabric", "spine", "spines", 0};
  rows[count++] = (row){n->leaves, MAL_DEV_LEAF, "u fabric", "leaf", "leaves", 0};
  rows[count++] = (row){d->nodes, MAL_DEV_NODE, "u node", "node", "nodes", 0};
  for (int i = 0; i < count; i++) rows[i].y = y + 130 * i;
  mal_svg_begin(w, width, rows[count - 1].y + 60, "compute fabric");
  draw_links(w, n, rows, count, width);
  label_tiers(w, n, rows, count);
  for (int i = 0; i < count; i++) {
    const row *r = &rows[i];
    int64_t shown = r->count < SHOWN ? r->count : SHOWN;
    double box = fmin(64, (width - 170) / (double)shown - 6);
    mal_svg_text(w, 12, r->y + 11, 's', "strong", "%s %s", mal_show_int(r->count), r->count == 1 ? r->label : r->many);
    mal_svg_text(w, 12, r->y + 26, 's', "small", "%s", i == count - 1 ? d->machine.node->name : n->ask.leaf->name);
    for (int64_t k = 0; k < shown; k++) {
      int64_t from = r->count <= SHOWN ? k : (int64_t)ceil((double)(k * r->count) / SHOWN);
      int64_t to = r->count <= SHOWN ? k : (int64_t)ceil((double)((k + 1) * r->count) / SHOWN) - 1;
      double x = x_of(r, from, width);
      mal_svg_box(w, x - box / 2, r->y, box, 26, r->style, NULL);
      mal_svg_text(w, x, r->y + 17, 'm', "on tiny", from == to ? "%lld" : "%lld–%lld", (long long)from + 1,
                   (long long)to + 1);
    }
  }
  mal_svg_end(w);
}

/* --- power ----------------------------------------------------------------------------------------------------------- */

static void stage(mal_writing *w, double x, double y, const char *style, const char *name, const char *value) {
  mal_svg_box(w, x, y, 150, 54, style, NULL);
  mal_svg_text(w, x + 75, y + 22, 'm', "on strong", "%s", name);
  mal_svg_text(w, x + 75, y + 40, 'm', "on", "%s", value);
}

static const char *watts(double w) { return mal_show_rate(w, "W"); }

enum { STAGE_W = 150, STAGE_H = 54, FEED_STEP = 78, FEEDS_SHOWN = 4 };

static double feed_y(int64_t f) { return 30 + (double)f * FEED_STEP; }

/* One UPS, or with 2N one a side, each carrying the whole. Returns the middle of the one that circuit f hangs on. */
static double ups_y(const mal_design *d, int64_t f, int64_t feeds) {
  double middle = 30 + (double)(feeds - 1) * FEED_STEP / 2;
  return d->site.redundancy == MAL_REDUNDANCY_2N ? middle + (f % 2 ? 42 : -42) : middle;
}

static void draw_sources(mal_writing *w, const mal_design *d, int64_t feeds) {
  mal_arena *a = w->arena;
  bool sides = d->site.redundancy == MAL_REDUNDANCY_2N;
  double middle = 30 + (double)(feeds - 1) * FEED_STEP / 2, up = middle - 42, down = middle + 42;
  for (int side = 0; side < (sides ? 2 : 1); side++) {
    double y = ups_y(d, side, feeds);
    mal_svg_line(w, 160, up + 27, 210, y + 27, "wire");
    mal_svg_line(w, 160, down + 27, 210, y + 27, "wire");
    stage(w, 210, y, "src", sides ? mal_print(a, "UPS %c", 'A' + side) : "UPS",
          mal_print(a, "%.0f kWh, %g min", d->ups_wh / 1e3, d->site.ups_minutes));
  }
  stage(w, 10, up, "src", "utility", watts(d->peak.total_w * d->site.pue));
  stage(w, 10, down, "src", "generator", watts(d->generator_w));
}

/* A rack of one sort: its units, how many such racks there are, and what they draw. */
static void draw_sort(mal_writing *w, const mal_design *d, double y, bool nodes, int64_t racks, int64_t feeds) {
  double most = 0, sum = 0;
  for (int64_t i = 0; i < d->hall.n_racks; i++)
    if (d->hall.racks[i].nodes == nodes) most = fmax(most, d->hall.racks[i].max_w), sum += d->hall.racks[i].max_w;
  mal_svg_box(w, 660, y, 150, 62, nodes ? "u node" : "u fabric", NULL);
  mal_svg_text(w, 735, y + 20, 'm', "on strong", "%s × %s", mal_show_int(racks), nodes ? "node rack" : "network rack");
  mal_svg_text(w, 735, y + 37, 'm', "on", "%s each at most", watts(most));
  mal_svg_text(w, 735, y + 53, 'm', "on tiny", "%lld circuits each", (long long)feeds);
  mal_svg_text(w, 822, y + 28, 's', "small strong", "%s", watts(sum));
  mal_svg_text(w, 822, y + 44, 's', "small", "together at peak");
}

void mal_draw_power(mal_writing *w, const mal_design *d) {
  mal_arena *a = w->arena;
  const mal_site *s = &d->site;
  int64_t feeds = s->feeds < FEEDS_SHOWN ? s->feeds : FEEDS_SHOWN, others = d->hall.n_racks - d->hall.node_racks;
  double tall = fmax(feed_y(feeds - 1) + STAGE_H + 34, 190), middle = 30 + (double)(feeds - 1) * FEED_STEP / 2;
  double node_y = others ? middle - 44 : middle - 4;
  mal_svg_begin(w, 960, tall + 34, "power, one-line");
  for (int64_t f = 0; f < feeds; f++) {
    mal_svg_line(w, 360, ups_y(d, f, feeds) + 27, 420, feed_y(f) + 27, "wire");
    mal_svg_line(w, 570, feed_y(f) + 27, 660, node_y + 31, "wire");
    if (others && f < (s->network_feeds ? s->network_feeds : s->feeds))
      mal_svg_line(w, 570, feed_y(f) + 27, 660, node_y + 111, "wire");
    stage(w, 420, feed_y(f), "pdu", mal_print(a, "circuit %c", (char)('A' + f)),
          mal_print(a, "%g V %g A, %s", s->volts, s->breaker_a, s->phases == 3 ? "3 ph" : "1 ph"));
    mal_svg_text(w, 495, feed_y(f) + 68, 'm', "tiny", "%.1f kW continuous; PDU: %lld C19, %lld C13",
                 mal_site_circuit_w(s) / 1e3, (long long)s->c19, (long long)s->c13);
  }
  draw_sources(w, d, feeds);
  draw_sort(w, d, node_y, true, d->hall.node_racks, s->feeds);
  if (others) draw_sort(w, d, node_y + 80, false, others, s->network_feeds ? s->network_feeds : s->feeds);
  mal_svg_text(w, 10, tall + 20, 's', "small",
               "redundancy %s: with the worst failure it must survive, the fullest line carries %.1f A of %.1f A "
               "(breaker %g A, %.0f %%)",
               mal_redundancy_name[s->redundancy], d->worst.line_a, s->breaker_a * s->derating, s->breaker_a,
               100 * s->derating);
  mal_svg_end(w);
}
