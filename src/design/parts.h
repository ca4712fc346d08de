/* What a design is made of, beside GPUs and nodes: switches, and the outside of a node (its chassis). Catalogue files with
 * sources, as those of src/machine; rates are bytes/s in one direction, powers watts, lengths metres. */
#ifndef MAL_DESIGN_PARTS_H
#define MAL_DESIGN_PARTS_H
#include "machine/machine.h"

typedef enum mal_link_kind { MAL_INFINIBAND, MAL_ETHERNET, MAL_LINK_KINDS } mal_link_kind;
extern const char *const mal_link_kind_name[];

typedef struct mal_switch {
  char *name, *title;
  int kind;               /* mal_link_kind */
  int64_t ports;          /* at port_bytes_per_s */
  int64_t ports_per_cage; /* 2: one twin-port module serves two links */
  int64_t uplinks;        /* ports beside those, faster: of management switches */
  mal_value port_bytes_per_s, ru, depth_m, weight_kg, typical_w, max_w, supplies, optics_w;
  mal_value copper_m, multimode_m, singlemode_m; /* longest cable of its links by kind */
} mal_switch;

/* The outside of a node: what a rack, a power feed and a room must give it. The name is its node's. */
typedef struct mal_chassis {
  char *name, *title;
  mal_value ru, depth_m, weight_kg;
  mal_value max_w;                      /* 0: the node's max_power_w */
  mal_value training_share, idle_share; /* of max_w, measured while training and at rest */
  mal_value supplies, supplies_full;    /* power supplies, and how many carry full load */
  mal_value supplies_run;               /* and how many keep it running, slower; 0: as supplies_full */
  mal_value supply_w, cord_a;           /* of one supply; rated current of its cord */
  mal_value airflow_m3_per_s, heat_w;   /* as published; 0: not published */
  mal_value airflow_other_m3_per_s;     /* a second published figure, which contradicts the first */
  mal_value inlet_min_c, inlet_max_c;
  mal_value storage_ports, storage_bytes_per_s; /* for storage and in-band traffic; of one port */
  mal_value inband_ports, oob_ports;
  mal_value pcie_switches, switch_gpus, switch_nics, switch_drives; /* under each PCIe switch; 0: nobody read it */
  mal_value switch_up_lanes;                                        /* of a switch to its processor */
  char *rails; /* HCA of each rail, in rail order: "mlx5_0,mlx5_3"; NULL: mlx5_0.. */
} mal_chassis;

/* What runs the cluster beside its nodes: management servers, fabric managers. */
typedef struct mal_appliance {
  char *name, *title;
  mal_value each; /* in one cluster */
  mal_value ru, weight_kg, idle_w, training_w, max_w, supplies, supplies_full, inband_ports;
} mal_appliance;

mal_status mal_appliance_load(mal_arena *a, const char *name, mal_appliance **out, mal_error *e);
mal_status mal_switch_load(mal_arena *a, const char *name, mal_switch **out, mal_error *e);
/* A node without a file of its own takes that of its GPU's default node; generic when there is none. */
mal_status mal_chassis_load(mal_arena *a, const mal_node *node, mal_chassis **out, mal_error *e);

/* HCA of a rail, "mlx5_3": from the chassis' list, else by index. */
const char *mal_chassis_hca(mal_arena *a, const mal_chassis *c, int64_t rail);

/* Visits every value, for showing sources and what is unverified. */
void mal_appliance_each(const mal_appliance *s, void (*visit)(void *, const char *, const mal_value *), void *context);
void mal_switch_each(const mal_switch *s, void (*visit)(void *, const char *, const mal_value *), void *context);
void mal_chassis_each(const mal_chassis *c, void (*visit)(void *, const char *, const mal_value *), void *context);
#endif
