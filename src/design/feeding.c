/* Power, its failures, cooling: sums over units and racks, and what they mean. */
#include "design/design.h"
#include <math.h>
#include <string.h>

static const double btu_per_wh = 3.412;    /* a watt-hour in BTU */
static const double watts_per_ton = 3517;  /* 12,000 BTU/h */
static const double air_j_per_m3_k = 1206; /* 1.2 kg/m3 times 1005 J/(kg K): dry air at 20 C, sea level */
static const double heat_differs = 0.05;   /* published heat and power further apart than this are shown both */
static const double humidity_least = 0.2, humidity_most = 0.8; /* NVIDIA DGX user guides: 20 to 80 % */

static void add_power(mal_power_sum *sum, const mal_unit *u, double w) {
  switch (u->kind) {
  case MAL_UNIT_NODE: sum->nodes_w += w; break;
  case MAL_UNIT_STORAGE_SERVER: sum->storage_w += w; break;
  case MAL_UNIT_MANAGEMENT:
  case MAL_UNIT_FABRIC_MANAGER: sum->management_w += w; break;
  default: sum->switches_w += w;
  }
  sum->total_w += w;
}

/* The worst rack under the worst failure that the redundancy names, and what happens to units in any single failure. */
static void fail_circuits(mal_arena *a, mal_design *d) {
  uint32_t sets[16];
  int64_t slow = 0, down = 0, overloaded = 0;
  for (int64_t r = 0; r < d->hall.n_racks; r++) {
    int64_t worst_slow = 0, worst_down = 0;
    int n = mal_rack_failures(&d->hall, &d->hall.racks[r], sets);
    for (int i = 0; i < n; i++) {
      mal_rack_power p = mal_rack_feed(&d->hall, &d->hall.racks[r], sets[i]);
      if (p.line_a > d->worst.line_a) d->worst = p;
      overloaded += !p.holds;
      if (p.slow > worst_slow) worst_slow = p.slow;
      if (p.down > worst_down) worst_down = p.down;
    }
    slow += worst_slow, down += worst_down;
  }
  const char *what = d->site.redundancy == MAL_REDUNDANCY_2N ? _("one side of the feeds") : _("one circuit of a rack");
  if (d->site.redundancy == MAL_REDUNDANCY_N) {
    mal_rack_power p =
        d->hall.n_racks ? mal_rack_feed(&d->hall, &d->hall.racks[d->hall.units[0].rack], 1) : (mal_rack_power){0};
    mal_design_find(a, d, MAL_WARNING,
                    _("feeds have no redundancy: a circuit that fails leaves %lld units of its rack "
                      "slower and %lld down%s"),
                    (long long)p.slow, (long long)p.down, p.holds ? "." : _(", and the circuits left are overloaded."));
  }
  if (down)
    mal_design_find(a, d, MAL_ERROR,
                    _("with %s failed, %lld units have too few power supplies left to run: their "
                      "supplies do not spread over %lld circuits as the redundancy asks."),
                    what, (long long)down, (long long)d->site.feeds);
  if (slow)
    mal_design_find(a, d, MAL_WARNING,
                    P_("with %s failed, %lld unit runs on fewer supplies than full load needs: slower, "
                       "not down.",
                       "with %s failed, %lld units run on fewer supplies than full load needs: slower, "
                       "not down.",
                       slow),
                    what, (long long)slow);
  if (overloaded)
    mal_design_find(a, d, MAL_ERROR, _("%lld failures of circuits overload a line that is left."),
                    (long long)overloaded);
}

/* The heaviest rack on the floor below it, and on the tiles that it stands on. */
static void load_floor(mal_arena *a, mal_design *d) {
  const mal_site *s = &d->site;
  double area = s->rack_width_m * s->rack_depth_m, heaviest = 0;
  for (int64_t i = 0; i < d->hall.n_racks; i++) heaviest = fmax(heaviest, d->hall.racks[i].kg);
  d->heaviest_rack_kg = heaviest + s->rack_empty_kg;
  d->floor_kg_per_m2 = d->heaviest_rack_kg / area;
  d->tile_kg = d->floor_kg_per_m2 * s->tile_m * s->tile_m;
  if (s->floor_kg_per_m2 > 0 && d->floor_kg_per_m2 > s->floor_kg_per_m2)
    mal_design_find(a, d, MAL_ERROR,
                    _("the heaviest rack, %.0f kg, loads the floor with %.0f kg/m2 (%.0f kg a tile); it carries %.0f "
                      "(floor_kg_per_m2). Spread the load, or hold racks lighter (rack_max_kg)."),
                    d->heaviest_rack_kg, d->floor_kg_per_m2, d->tile_kg, s->floor_kg_per_m2);
}

void mal_design_power(mal_arena *a, mal_design *d) {
  for (int64_t i = 0; i < d->hall.n_units; i++) {
    const mal_unit *u = &d->hall.units[i];
    add_power(&d->idle, u, u->idle_w);
    add_power(&d->training, u, u->training_w);
    add_power(&d->peak, u, u->max_w);
  }
  fail_circuits(a, d);
  double facility = d->peak.total_w * d->site.pue;
  d->ups_wh = d->peak.total_w * d->site.ups_minutes / 60;
  d->generator_w = facility * (1 + d->site.generator_margin);
  d->swing_w = d->training.nodes_w - d->idle.nodes_w;
  d->energy_wh_per_day = d->training.total_w * d->site.pue * 24;
  d->cost_per_day = d->energy_wh_per_day / 1000 * d->site.per_kwh;
  d->kg_co2_per_day = d->energy_wh_per_day / 1000 * d->site.kg_co2_per_kwh;
  mal_design_find(a, d, MAL_NOTE,
                  _("when a job of all nodes starts, stops or waits for a checkpoint, the hall's draw moves by "
                    "%.0f kW within a second: tell whoever runs the UPS and the generator."),
                  d->swing_w / 1e3);
  load_floor(a, d);
}

/* --- cooling --------------------------------------------------------------------------------------------------------- */

static void choose_method(mal_arena *a, mal_design *d) {
  mal_cooling *c = &d->cooling;
  const mal_site *s = &d->site;
  for (int64_t i = 0; i < d->hall.n_racks; i++) c->rack_w = fmax(c->rack_w, d->hall.racks[i].max_w);
  c->method = c->rack_w <= s->air_max_w         ? _("air")
              : c->rack_w <= s->rear_door_max_w ? _("rear-door heat exchanger")
                                                : _("direct liquid");
  if (c->rack_w > s->rear_door_max_w && !s->liquid)
    mal_design_find(a, d, MAL_ERROR,
                    _("a rack gives %.1f kW: more than air (%.0f kW) or a rear door (%.0f kW) takes away, "
                      "and the site has no liquid cooling. Put fewer nodes in a rack (rack_max_w)."),
                    c->rack_w / 1e3, s->air_max_w / 1e3, s->rear_door_max_w / 1e3);
  else if (c->rack_w > s->air_max_w)
    mal_design_find(a, d, MAL_WARNING,
                    _("a rack gives %.1f kW: more than the %.0f kW that plain air takes away here; rear-"
                      "door heat exchangers are needed."),
                    c->rack_w / 1e3, s->air_max_w / 1e3);
}

static void check_air(mal_arena *a, mal_design *d) {
  const mal_site *s = &d->site;
  const mal_chassis *h = d->chassis;
  const mal_cooling *c = &d->cooling;
  double needed = fmax(c->airflow_m3_per_s, c->published_m3_per_s);
  if (h->inlet_max_c.value > 0 && (s->inlet_c > h->inlet_max_c.value || s->inlet_c < h->inlet_min_c.value))
    mal_design_find(a, d, MAL_ERROR, _("air of %g C meets the racks; %s takes %g to %g C."), s->inlet_c, h->title,
                    h->inlet_min_c.value, h->inlet_max_c.value);
  if (s->humidity < humidity_least || s->humidity > humidity_most)
    mal_design_find(a, d, MAL_ERROR, _("a relative humidity of %.0f %% is outside the 20 to 80 %% that nodes take."),
                    100 * s->humidity);
  if (s->airflow_m3_per_s > 0 && needed > s->airflow_m3_per_s)
    mal_design_find(a, d, MAL_ERROR, _("the racks move %.1f m3/s of air, the room gives %.1f (airflow_m3_per_s)."),
                    needed, s->airflow_m3_per_s);
  if (s->cooling_w > 0 && c->heat_w > s->cooling_w)
    mal_design_find(a, d, MAL_ERROR, _("%.0f kW of heat, the room takes away %.0f kW (cooling_w)."), c->heat_w / 1e3,
                    s->cooling_w / 1e3);
}

/* Published figures that contradict each other are shown, both. */
static void check_published(mal_arena *a, mal_design *d) {
  const mal_chassis *h = d->chassis;
  double drawn = h->max_w.value, heat = h->heat_w.value;
  if (heat > 0 && drawn > 0 && fabs(heat / drawn - 1) > heat_differs)
    mal_design_find(a, d, MAL_WARNING,
                    _("%s: published heat is %.1f kW, published draw %.1f kW; a node cannot give off "
                      "more than it draws. Power and cooling here go by the draw; the other figure "
                      "would be %+.0f %%. (%s)"),
                    h->title, heat / 1e3, drawn / 1e3, 100 * (heat / drawn - 1), h->heat_w.source);
  if (h->airflow_other_m3_per_s.value > 0)
    mal_design_find(a, d, MAL_WARNING, _("%s: airflow is published twice, %.2f m3/s (%s) and %.2f m3/s (%s)."),
                    h->title, h->airflow_m3_per_s.value, h->airflow_m3_per_s.source, h->airflow_other_m3_per_s.value,
                    h->airflow_other_m3_per_s.source);
}

void mal_design_cool(mal_arena *a, mal_design *d) {
  mal_cooling *c = &d->cooling;
  c->heat_w = d->peak.total_w;
  c->btu_per_h = c->heat_w * btu_per_wh;
  c->tons = c->heat_w / watts_per_ton;
  c->airflow_m3_per_s = c->heat_w / (air_j_per_m3_k * d->site.rise_c);
  c->published_m3_per_s = (double)d->nodes * d->chassis->airflow_m3_per_s.value;
  choose_method(a, d);
  check_air(a, d);
  check_published(a, d);
}
