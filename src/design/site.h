/* Where a cluster stands: racks, power feeds, floor, cooling, and what energy costs there. A YAML file of the user or of
 * catalog/sites; a file may name a `base`. Numbers are the site's own, so they carry no source. */
#ifndef MAL_DESIGN_SITE_H
#define MAL_DESIGN_SITE_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum mal_redundancy { MAL_REDUNDANCY_N, MAL_REDUNDANCY_N1, MAL_REDUNDANCY_2N, MAL_REDUNDANCIES } mal_redundancy;
extern const char *const mal_redundancy_name[];

typedef struct mal_site {
  char *name, *title;
  /* rack */
  int64_t rack_ru, reserved_ru; /* reserved: for cable management, in every rack */
  double rack_width_m, rack_depth_m, rack_empty_kg, rack_max_kg;
  double rack_max_w; /* what the room cools and feeds in one rack; 0: only the circuits limit */
  /* power: each rack of nodes has `feeds` circuits, each with a breaker and a PDU */
  int64_t feeds, network_feeds, phases; /* network_feeds: of racks without nodes; 0 as feeds */
  double volts;    /* between lines where there are three phases, else to neutral (or between the two lines of 208 V) */
  double outlet_v; /* at the outlets, behind a transformer; 0: none, outlets see the line or its neutral */
  double breaker_a, derating, power_factor; /* derating: share of the breaker for continuous load (NEC 210.20: 0.8) */
  int redundancy;                           /* mal_redundancy */
  int64_t c19, c13;                         /* outlets of a PDU */
  double ups_minutes, generator_margin;     /* generator: over IT and cooling */
  /* floor */
  int64_t racks_per_row, max_racks; /* max_racks 0: as many as needed */
  double cold_aisle_m, hot_aisle_m, tray_m, tile_m,
      floor_kg_per_m2; /* tray: height of the cable tray; kg 0: not known */
  /* cooling */
  double inlet_c, rise_c, humidity;   /* air at the racks: temperature, how much warmer it leaves, relative humidity */
  double airflow_m3_per_s, cooling_w; /* of the room; 0: not known */
  double air_max_w, rear_door_max_w;  /* densest rack that plain air, and a rear-door heat exchanger, cool */
  bool liquid;                        /* direct liquid cooling is there */
  /* money and carbon */
  double pue, per_kwh, kg_co2_per_kwh; /* 0: not known */
  char *currency;
} mal_site;

/* A name of catalog/sites or a file. Impossible values: MAL_BAD with file, line and key. */
mal_status mal_site_load(mal_arena *a, const char *name, mal_site *site, mal_error *e);
mal_status mal_site_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_site *site,
                          mal_error *e);

/* Watts of one circuit under continuous load: sqrt(3) · V · A · derating · power factor (one phase: without the root). */
double mal_site_circuit_w(const mal_site *s);
/* Volts that a power supply sees: behind a transformer, or line to neutral of 380 to 480 V, else the line voltage. */
double mal_site_outlet_v(const mal_site *s);
/* Volts that the current of a line is counted with: of the outlet, or of the transformer's other side. */
double mal_site_line_v(const mal_site *s);
#endif
