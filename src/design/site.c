#include "design/site.h"
#include "core/catalog.h"
#include "core/file.h"
#include "machine/hardware.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const mal_redundancy_name[] = {"n", "n+1", "2n", NULL};

#define SUPPLY_V_LEAST 200.0 /* IEC 60320 C19/C20 server supplies: 200 to 240 V, and 10 % */
#define SUPPLY_V_MOST  264.0

#define TEXT(name)                                                                                                     \
  { .key = #name, .kind = MAL_FIELD_TEXT, .offset = offsetof(mal_site, name) }
#define COUNT(name, least, most)                                                                                       \
  { .key = #name, .kind = MAL_FIELD_INT, .offset = offsetof(mal_site, name), .lo = least, .hi = most }
#define NUMBER(name, least, most)                                                                                      \
  { .key = #name, .kind = MAL_FIELD_NUMBER, .offset = offsetof(mal_site, name), .lo = least, .hi = most }

static const mal_field site_table[] = {
    {.key = "base", .kind = MAL_FIELD_BASE},
    TEXT(name),
    TEXT(title),
    COUNT(rack_ru, 1, 100),
    COUNT(reserved_ru, 0, 99),
    NUMBER(rack_width_m, 0.3, 3),
    NUMBER(rack_depth_m, 0.3, 3),
    NUMBER(rack_empty_kg, 0, 2000),
    NUMBER(rack_max_kg, 1, 20000),
    NUMBER(rack_max_w, 0, 1e7),
    COUNT(feeds, 1, 16),
    COUNT(network_feeds, 0, 16),
    COUNT(phases, 1, 3),
    NUMBER(volts, 100, 600),
    NUMBER(outlet_v, 0, 600),
    NUMBER(breaker_a, 1, 1000),
    NUMBER(derating, 0.1, 1),
    NUMBER(power_factor, 0.5, 1),
    {.key = "redundancy",
     .kind = MAL_FIELD_CHOICE,
     .offset = offsetof(mal_site, redundancy),
     .choices = mal_redundancy_name},
    COUNT(c19, 0, 200),
    COUNT(c13, 0, 200),
    NUMBER(ups_minutes, 0, 1440),
    NUMBER(generator_margin, 0, 10),
    COUNT(racks_per_row, 1, 1000),
    COUNT(max_racks, 0, 1000000),
    NUMBER(cold_aisle_m, 0.5, 20),
    NUMBER(hot_aisle_m, 0.5, 20),
    NUMBER(tray_m, 0.5, 20),
    NUMBER(tile_m, 0.1, 5),
    NUMBER(floor_kg_per_m2, 0, 100000),
    NUMBER(inlet_c, -20, 60),
    NUMBER(rise_c, 1, 60),
    NUMBER(humidity, 0, 1),
    NUMBER(airflow_m3_per_s, 0, 1e6),
    NUMBER(cooling_w, 0, 1e10),
    NUMBER(air_max_w, 0, 1e7),
    NUMBER(rear_door_max_w, 0, 1e7),
    {.key = "liquid", .kind = MAL_FIELD_BOOL, .offset = offsetof(mal_site, liquid)},
    NUMBER(pue, 1, 5),
    NUMBER(per_kwh, 0, 1e6),
    NUMBER(kg_co2_per_kwh, 0, 100),
    TEXT(currency),
    {0},
};

double mal_site_circuit_w(const mal_site *s) {
  return (s->phases == 3 ? sqrt(3.0) : 1.0) * s->volts * s->breaker_a * s->derating * s->power_factor;
}

double mal_site_line_v(const mal_site *s) {
  if (s->outlet_v <= 0) return mal_site_outlet_v(s);
  return s->phases == 3 ? s->volts / sqrt(3.0) : s->volts;
}

double mal_site_outlet_v(const mal_site *s) {
  if (s->outlet_v > 0) return s->outlet_v;
  bool to_neutral = s->phases == 3 && s->volts > SUPPLY_V_MOST;
  return to_neutral ? s->volts / sqrt(3.0) : s->volts;
}

/* Where a key stands: "site.yaml:3", or the file alone when it comes from the base. */
static const char *where(const mal_fields *f, const char *path, char out[static 300], const char *key) {
  int line = f ? mal_fields_line(f, key) : 0;
  if (line > 0)
    snprintf(out, 300, "%.280s:%d", path, line);
  else
    snprintf(out, 300, "%.280s", path);
  return out;
}

/* Impossible values: MAL_BAD. What each may be but not together: MAL_NO. */
static mal_status check(const mal_site *s, const mal_fields *f, const char *path, mal_error *e) {
  char at[300];
  double outlet = mal_site_outlet_v(s);
  if (s->phases == 2)
    return mal_fail(e, MAL_BAD, _("%s: phases is 2; it must be 1 or 3."), where(f, path, at, "phases"));
  if (s->reserved_ru >= s->rack_ru)
    return mal_fail(e, MAL_BAD, _("%s: reserved_ru is %lld of a rack of %lld; leave room for a server."),
                    where(f, path, at, "reserved_ru"), (long long)s->reserved_ru, (long long)s->rack_ru);
  if (outlet < SUPPLY_V_LEAST || outlet > SUPPLY_V_MOST)
    return mal_fail(e, MAL_NO,
                    _("%s: %g V in %lld phase(s) gives a power supply %.0f V; servers take 200 to 240 V. Use 208, 380, "
                      "400 or 415 V between three phases, or a transformer: outlet_v: 240."),
                    where(f, path, at, s->outlet_v > 0 ? "outlet_v" : "volts"), s->volts, (long long)s->phases, outlet);
  int64_t other = s->network_feeds ? s->network_feeds : s->feeds;
  if (s->redundancy == MAL_REDUNDANCY_2N && (s->feeds % 2 || other % 2))
    return mal_fail(e, MAL_NO,
                    _("%s: redundancy 2n needs an even number of feeds, not %lld: change feeds or redundancy."),
                    where(f, path, at, "redundancy"), (long long)(s->feeds % 2 ? s->feeds : other));
  if (s->redundancy != MAL_REDUNDANCY_N && (s->feeds < 2 || other < 2))
    return mal_fail(e, MAL_NO, _("%s: redundancy %s needs two feeds or more: change feeds or redundancy."),
                    where(f, path, at, "redundancy"), mal_redundancy_name[s->redundancy]);
  return MAL_OK;
}

static mal_status finish(mal_arena *a, mal_site *s, const mal_fields *f, const char *path, mal_error *e) {
  bool own = f != NULL; /* a file of the user's that names no name is called by its path, not by its base */
  if (!s->name || (own && !mal_fields_text(f, "name"))) s->name = mal_copy(a, path);
  if (!s->title || (own && !mal_fields_text(f, "title")))
    s->title = mal_print(a, _("%lldU racks of %lld circuits, %g V, %g A"), (long long)s->rack_ru, (long long)s->feeds,
                         s->volts, s->breaker_a);
  if (!s->currency) s->currency = mal_copy(a, "USD");
  return check(s, f, path, e);
}

mal_status mal_site_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_site *site,
                          mal_error *e) {
  mal_fields file;
  *site = (mal_site){0};
  mal_status s = mal_fields_parse(a, path, text, length, site_table, &file, e);
  if (s == MAL_OK) s = mal_hardware_merge(a, "sites", "site", &file, "default", site, e);
  if (s == MAL_OK) s = finish(a, site, &file, path, e);
  mal_fields_free(&file);
  return s;
}

mal_status mal_site_load(mal_arena *a, const char *name, mal_site *site, mal_error *e) {
  *site = (mal_site){0};
  if (!mal_names_file(name)) {
    mal_status s = mal_hardware_load(a, "sites", "site", site_table, name, site, e);
    return s == MAL_OK ? finish(a, site, NULL, name, e) : s;
  }
  char *text;
  size_t length;
  mal_status s = mal_file_read(a, name, MAL_YAML_LIMIT_BYTES, &text, &length, e);
  return s == MAL_OK ? mal_site_parse(a, name, text, length, site, e) : s;
}
