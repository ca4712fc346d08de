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
    mal_svg_text(w, left + width / 2, cold + s->cold_aisle_m * scale / 2 + 3, 'm', "tiny", "cold aisle");
    if (2 * p + 2 >= d->hall.rows) continue;
    double hot = y + (2 * s->rack_depth_m + s->cold_aisle_m) * scale;
    mal_svg_box(w, left, hot, width, s->hot_aisle_m * scale, "hot", NULL);
    mal_svg_text(w, left + width / 2, hot + s->hot_aisle_m * scale / 2 + 3, 'm', "tiny", "hot aisle");
  }
}

void mal_draw_floor(mal_writing *w, const mal_design *d) {
  const mal_hall *h = &d->hall;
  double scale = fmin(44, 900 / fmax(h->width_m, 1)), left = 24, top = 24;
  double width = h->width_m * scale, height = (h->depth_m - d->site.hot_aisle_m + d->site.cold_aisle_m) * scale;
  mal_svg_begin(w, width + 2 * left, height + 2 * top + 16, "floor plan");
  draw_aisles(w, d, scale, left, top, width);
  for (int64_t i = 0; i < h->n_racks; i++) {
    const mal_rack *r = &h->racks[i];
    double x = left + (r->x_m - d->site.rack_width_m / 2) * scale,
           y = top + (r->y_m - d->site.rack_depth_m / 2) * scale;
    double wide = d->site.rack_width_m * scale, deep = d->site.rack_depth_m * scale;
    mal_svg_box(w, x + 1, y + 1, wide - 2, deep - 2, rack_class(d, r),
                mal_print(w->arena, "rack %lld: %lld units, %.1f kW, %.0f kg", (long long)i + 1, (long long)r->count,
                          r->max_w / 1e3, r->kg + d->site.rack_empty_kg));
    if (wide > 22) {
      mal_svg_text(w, x + wide / 2, y + deep / 2, 'm', "on", "%lld", (long long)i + 1);
      if (deep > 40) mal_svg_text(w, x + wide / 2, y + deep / 2 + 14, 'm', "on tiny", "%.0f kW", r->max_w / 1e3);
    }
  }
  mal_svg_text(w, left, height + 2 * top + 6, 's', "small", "%.1f m by %.1f m; racks %g by %g m", h->width_m,
               h->depth_m, d->site.rack_width_m, d->site.rack_depth_m);
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
  const char *style, *label;
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

void mal_draw_fabric(mal_writing *w, const mal_design *d) {
  const mal_network *n = &d->compute;
  double width = 960, y = 20;
  row rows[4];
  int count = 0;
  if (n->cores) rows[count++] = (row){n->cores, MAL_DEV_CORE, "u fabric", "core", 0};
  if (n->spines) rows[count++] = (row){n->spines, MAL_DEV_SPINE, "u fabric", "spine", 0};
  rows[count++] = (row){n->leaves, MAL_DEV_LEAF, "u fabric", "leaf", 0};
  rows[count++] = (row){d->nodes, MAL_DEV_NODE, "u node", "node", 0};
  for (int i = 0; i < count; i++) rows[i].y = y + 130 * i;
  mal_svg_begin(w, width, rows[count - 1].y + 60, "compute fabric");
  draw_links(w, n, rows, count, width);
  for (int i = 0; i < count; i++) {
    const row *r = &rows[i];
    int64_t shown = r->count < SHOWN ? r->count : SHOWN;
    double box = fmin(64, (width - 170) / (double)shown - 6);
    mal_svg_text(w, 12, r->y + 11, 's', "strong", "%s %s", mal_show_int(r->count), r->label);
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

void mal_draw_power(mal_writing *w, const mal_design *d) {
  mal_arena *a = w->arena;
  const mal_site *s = &d->site;
  int64_t feeds = s->feeds < 4 ? s->feeds : 4;
  double height = 80 + (double)feeds * 74;
  mal_svg_begin(w, 960, height, "power, one-line");
  double middle = height / 2 - 27;
  stage(w, 10, middle - 50, "src", "utility", watts(d->peak.total_w * s->pue));
  stage(w, 10, middle + 50, "src", "generator", watts(d->generator_w));
  mal_svg_line(w, 160, middle - 23, 200, middle + 27, "wire");
  mal_svg_line(w, 160, middle + 77, 200, middle + 27, "wire");
  stage(w, 200, middle, "src", "UPS", mal_print(a, "%.0f kWh, %g min", d->ups_wh / 1e3, s->ups_minutes));
  for (int64_t f = 0; f < feeds; f++) {
    double y = 20 + (double)f * 74;
    mal_svg_line(w, 350, middle + 27, 400, y + 27, "wire");
    stage(w, 400, y, "pdu", mal_print(a, "circuit %c", (char)('A' + f)),
          mal_print(a, "%g V %g A", s->volts, s->breaker_a));
    mal_svg_text(w, 475, y + 68, 'm', "tiny", "%.1f kW continuous, PDU of %lld C19", mal_site_circuit_w(s) / 1e3,
                 (long long)s->c19);
    mal_svg_line(w, 550, y + 27, 640, middle + 27, "wire");
  }
  mal_svg_box(w, 640, middle - 40, 150, 134, "frame", NULL);
  mal_svg_text(w, 715, middle - 50, 'm', "small strong", "a rack of nodes");
  for (int64_t i = 0; i < d->hall.nodes_per_rack && i < 6; i++) {
    double tall = 120.0 / (double)(d->hall.nodes_per_rack < 6 ? d->hall.nodes_per_rack : 6);
    mal_svg_box(w, 650, middle - 33 + (double)i * tall, 130, tall - 4, "u node", NULL);
    if (tall > 18)
      mal_svg_text(w, 715, middle - 33 + ((double)i + 0.5) * tall + 2, 'm', "on tiny", "%s, %.0f supplies",
                   watts(d->chassis->max_w.value), d->chassis->supplies.value);
  }
  mal_svg_text(w, 800, middle - 10, 's', "small", "redundancy %s", mal_redundancy_name[s->redundancy]);
  mal_svg_text(w, 800, middle + 10, 's', "small", "worst failure: a line");
  mal_svg_text(w, 800, middle + 26, 's', "small", "at %.1f A of %.1f A", d->worst.line_a, s->breaker_a * s->derating);
  mal_svg_text(w, 800, middle + 46, 's', "small", "× %s racks", mal_show_int(d->hall.n_racks));
  mal_svg_end(w);
}
