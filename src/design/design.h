/* From a number of nodes, or a training target, to a cluster that can be ordered, cabled, powered and cooled. One ask, one
 * design; everything in it follows from the ask, so it can be made again. Checks are findings: the design stands, and says
 * what is wrong with it. */
#ifndef MAL_DESIGN_DESIGN_H
#define MAL_DESIGN_DESIGN_H
#include "core/options.h"
#include "design/compute.h"
#include "design/hall.h"
#include "design/kit/software.h"
#include "design/network.h"
#include "design/storage.h"

typedef struct mal_design_ask {
  const char *node, *site, *leaf,
      *storage_server; /* catalogue names or files; leaf NULL: by the rate of the node's NICs */
  int64_t gpus, nodes; /* one of both; spares come on top */
  bool single_node;    /* one server, no fabric */
  int topology;        /* mal_topology */
  int ethernet;        /* compute fabric: mal_link_kind */
  double oversubscription;
  bool ufm, whole_units;
  int64_t spares;               /* < 0: from failure rates for a target, else none */
  bool for_target;              /* the number of nodes follows from a training target */
  double repair_s, spare_share; /* time to repair a node; chance that spares suffice */
  int data;                     /* mal_data_level */
  double goodput, restart_s, dataset_bytes, checkpoint_bytes, offload_bytes; /* offload: of one node, to its memory */
  int64_t kept;
  int64_t grow;               /* nodes after growth; 0 not asked */
  double years, upkeep, rent; /* of use; share of capex a year; of one GPU-hour, 0: the catalogue's */
} mal_design_ask;
extern const mal_option mal_design_ask_options[];
extern const int mal_design_ask_option_count;
void mal_design_ask_default(mal_design_ask *k);

typedef enum mal_severity { MAL_NOTE, MAL_WARNING, MAL_ERROR } mal_severity;
typedef struct mal_finding {
  int severity;
  const char *text;
} mal_finding;

/* A cable between units. */
typedef struct mal_cable {
  const char *network, *tier; /* "compute", "node-leaf" */
  int64_t from, to;           /* units */
  const char *from_port, *to_port;
  int64_t rail;                          /* -1 */
  double bytes_per_s, route_m, length_m; /* as laid; as bought: the next stock length */
  const char *medium;                    /* "copper", "multimode", "single-mode" */
  bool twin_from, twin_to;               /* that end shares a module with its neighbour port */
} mal_cable;

typedef struct mal_part { /* a row of the bill of materials */
  const char *section, *part, *title;
  double count;
  const char *rule; /* how the count follows */
  double price;     /* of one; < 0 not known */
  const char *price_source;
} mal_part;

typedef struct mal_power_sum { /* watts at the inlets of the units */
  double nodes_w, switches_w, storage_w, management_w, total_w;
} mal_power_sum;

typedef struct mal_cooling {
  double heat_w, btu_per_h, tons;
  double airflow_m3_per_s;   /* by the rise of the site */
  double published_m3_per_s; /* of the nodes, as their makers print; 0 */
  double rack_w;             /* densest rack */
  const char *method;        /* "air", "rear-door heat exchanger", "direct liquid" */
} mal_cooling;

typedef struct mal_design {
  mal_design_ask ask;
  mal_machine machine;
  mal_chassis *chassis;
  mal_software *software;
  mal_site site;
  int64_t nodes, spares; /* spares of them */
  mal_switch *leaf, *inband_switch, *oob_switch;
  mal_appliance *management, *manager;
  bool has_fabric;
  mal_network compute, storage_network;
  int64_t inband_leaves, inband_zone_cores, inband_zones,
      inband_supers; /* leaves of a zone meet in its cores, zones in supers */
  int64_t oob_switches, managers, management_servers, pdus;
  mal_compute balance;
  mal_storage storage;
  mal_hall hall;
  mal_cable *cables;
  int64_t n_cables;
  mal_power_sum idle, training, peak;
  double ups_wh, generator_w, swing_w;               /* swing: between checkpoint and training, of all nodes at once */
  double heaviest_rack_kg, floor_kg_per_m2, tile_kg; /* of it: on the area and the tiles below */
  mal_rack_power worst;                              /* of all racks with the worst failed set of circuits */
  mal_cooling cooling;
  double energy_wh_per_day, cost_per_day, kg_co2_per_day;
  mal_part *parts;
  int n_parts;
  mal_network grown; /* ask.grow */
  int64_t recabled;
  mal_finding *findings;
  int n_findings;
} mal_design;

/* MAL_NO: what was asked cannot be built; says what would have to change. MAL_BAD: an impossible value. */
mal_status mal_design_make(mal_arena *a, const mal_design_ask *ask, mal_design *d, mal_error *e);

enum { MAL_INBAND_UPLINKS = 4 };                      /* of an in-band leaf, and of the core of a zone */
int64_t mal_design_inband_cores(const mal_design *d); /* of all zones, and supers */

/* Inside design. */
void mal_design_find(mal_arena *a, mal_design *d, int severity, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
mal_status mal_design_units(mal_arena *a, mal_design *d, mal_error *e); /* units, racks, floor */
void mal_design_cables(mal_arena *a, mal_design *d);
void mal_design_power(mal_arena *a, mal_design *d);
void mal_design_cool(mal_arena *a, mal_design *d);
void mal_design_parts(mal_arena *a, mal_design *d);
/* Index of a device's unit. */
int64_t mal_design_unit_of(const mal_design *d, bool storage, mal_device device);

/* CSV: one cable a line; one part a line. */
char *mal_design_cabling_csv(mal_arena *a, const mal_design *d);
char *mal_design_parts_csv(mal_arena *a, const mal_design *d);
/* Reads `part,price,currency[,source]` and sets prices by part name. */
mal_status mal_design_price(mal_arena *a, mal_design *d, const char *path, mal_error *e);
#endif
