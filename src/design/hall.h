/* Units in racks, racks on a floor, and whether the circuits of a rack carry it when one of them fails.
 *
 * A unit is one thing that is bolted in. Racks of nodes are filled until the next node breaks a limit (rack units, weight,
 * outlets, the room's watts a rack, the circuits with one of them, or one side, failed). The racks of leaves stand among the
 * racks of nodes that they serve, everything else in the middle of the hall. */
#ifndef MAL_DESIGN_HALL_H
#define MAL_DESIGN_HALL_H
#include "design/site.h"

typedef enum mal_unit_kind {
  MAL_UNIT_NODE,
  MAL_UNIT_COMPUTE_SWITCH,
  MAL_UNIT_STORAGE_SWITCH,
  MAL_UNIT_INBAND_SWITCH,
  MAL_UNIT_OOB_SWITCH,
  MAL_UNIT_FABRIC_MANAGER,
  MAL_UNIT_STORAGE_SERVER,
  MAL_UNIT_MANAGEMENT,
  MAL_UNIT_PDU, /* beside the rack's units: takes none */
  MAL_UNIT_KINDS
} mal_unit_kind;
extern const char *const mal_unit_kind_name[];

typedef struct mal_unit {
  const char *name, *model; /* "node0001", "dgx-h100" */
  int kind;                 /* mal_unit_kind */
  bool leaf;                /* a leaf of the compute network: stands near its nodes */
  double ru, kg, idle_w, training_w, max_w;
  int64_t supplies, supplies_full, supplies_run; /* run: 0 as full */
  double supply_w;                               /* of one; 0 not known */
  double airflow_m3_per_s;                       /* 0 not published */
  bool c19;                                      /* cord: C19/C20, else C13/C14 */
  int64_t rack, bottom_u;                        /* where it stands; set by mal_hall_fill. bottom_u from 1 */
} mal_unit;

typedef enum mal_limit { /* what one unit more would break */
                         MAL_LIMIT_NONE,
                         MAL_LIMIT_RU,
                         MAL_LIMIT_WEIGHT,
                         MAL_LIMIT_OUTLETS,
                         MAL_LIMIT_ROOM,    /* rack_max_w */
                         MAL_LIMIT_CIRCUIT, /* a circuit, with one failed as the redundancy asks */
                         MAL_LIMITS
} mal_limit;
extern const char *const mal_limit_words[];

typedef struct mal_rack {
  bool nodes;           /* holds nodes; else network, storage, management */
  int64_t first, count; /* into mal_hall.order */
  double ru, kg, idle_w, training_w, max_w;
  int64_t row, column;
  double x_m, y_m; /* of its middle */
} mal_rack;

typedef struct mal_hall {
  const mal_site *site;
  mal_unit *units;
  int64_t n_units;
  mal_rack *racks;
  int64_t n_racks, node_racks;
  int64_t *order; /* units by rack, from the bottom */
  int64_t nodes_per_rack;
  int limit; /* mal_limit of a rack of nodes */
  int64_t rows;
  double width_m, depth_m; /* of the floor that the racks take, aisles included */
} mal_hall;

/* MAL_NO: a rack does not hold one node (says what would have to change), or the site has too few racks. */
mal_status mal_hall_fill(mal_arena *a, const mal_site *site, mal_unit *units, int64_t n, mal_hall *hall, mal_error *e);

/* One rack's circuits with some failed. Supplies are spread over the circuits in turn, cords of a circuit over its phases. */
typedef struct mal_rack_power {
  double circuit_w;   /* heaviest circuit left */
  double line_a;      /* heaviest line of it; at most breaker · derating */
  double imbalance;   /* heaviest line over the mean of its circuit's lines, less 1 */
  int64_t slow, down; /* units with too few supplies for full load, for running */
  bool holds;         /* every line within its breaker */
} mal_rack_power;
mal_rack_power mal_rack_feed(const mal_hall *hall, const mal_rack *rack, uint32_t failed);
/* The sets of circuits whose failure the redundancy must survive: none; each one; each side. Returns how many (at most 16). */
int mal_rack_failures(const mal_hall *hall, const mal_rack *rack, uint32_t *sets);
int64_t mal_rack_feeds(const mal_hall *hall, const mal_rack *rack);
#endif
