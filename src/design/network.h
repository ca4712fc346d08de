/* A switched network: how many switches of each tier, and every cable.
 *
 * Rail: the ports of one index (rail) of all nodes of a scalable unit meet in one leaf; a unit has as many nodes as a leaf has
 * ports down (NVIDIA DGX SuperPOD reference architecture RA-11333-001 V11, table 4). Tree: leaves are filled node by node.
 * Both are folded Clos networks: one switch; leaf and spine while the leaves are no more than a switch has ports; then leaf,
 * spine and core in pods of ports/2 leaves. A tier's switches are always a number that spreads the links of each switch
 * below evenly: 16 spines, not 12, for 24 leaves with 32 links up. Dragonfly: groups of a routers with p node ports and h global
 * links each, balanced a = 2p = 2h (Kim, Dally, Scott, Abts, ISCA 2008).
 *
 * Links are in a fixed order and depend only on the ask, so a list of cables can be made twice. Ports count from 1. */
#ifndef MAL_DESIGN_NETWORK_H
#define MAL_DESIGN_NETWORK_H
#include "design/parts.h"

typedef enum mal_topology { MAL_TOPOLOGY_RAIL, MAL_TOPOLOGY_TREE, MAL_TOPOLOGY_DRAGONFLY, MAL_TOPOLOGIES } mal_topology;
extern const char *const mal_topology_name[];

typedef enum mal_device_kind {
  MAL_DEV_NODE,
  MAL_DEV_SERVER,  /* storage */
  MAL_DEV_MANAGER, /* fabric manager (UFM) */
  MAL_DEV_LEAF,
  MAL_DEV_SPINE,
  MAL_DEV_CORE,
  MAL_DEVICE_KINDS
} mal_device_kind;
typedef struct mal_device {
  int kind; /* mal_device_kind */
  int64_t index;
} mal_device;

typedef enum mal_tier {
  MAL_TIER_NODE,
  MAL_TIER_SPINE,
  MAL_TIER_CORE,
  MAL_TIERS
} mal_tier; /* node-leaf, leaf-spine, spine-core */
extern const char *const mal_tier_name[];

typedef struct mal_link {
  mal_device from, to; /* from the lower tier up */
  int64_t from_port, to_port;
  int64_t rail; /* of node links; -1 */
  int tier;     /* mal_tier */
} mal_link;

typedef struct mal_network_ask {
  const char *name; /* "compute", "storage": prefix of its switches' names; "" none */
  const mal_switch *leaf;
  int topology;
  int64_t nodes, rails;          /* rails: ports of each node in this network */
  int64_t servers, server_ports; /* storage servers, attached to leaves like nodes; 0 */
  double oversubscription;       /* ports down over links up of a leaf, at most; 1 none */
  bool whole_units;              /* build scalable units whole, one rail a leaf, however few nodes there are */
  int64_t managers;              /* links of fabric managers, in the first node slots that are free; one a rail */
} mal_network_ask;

typedef struct mal_network {
  mal_network_ask ask;
  int tiers;                 /* 1 one switch, 2 leaf-spine, 3 leaf-spine-core; 0 dragonfly */
  int64_t down, up;          /* ports of a leaf */
  int64_t unit_nodes, units; /* rail */
  int64_t rails_per_leaf, leaves_per_unit;
  int64_t leaves, spines, cores;
  int64_t pod_leaves, pods;                       /* three tiers */
  int64_t groups, cores_per_group;                /* three tiers: spine g of a full pod goes to the cores of group g */
  int64_t routers, hosts, globals;                /* dragonfly: a, p, h; groups too */
  int64_t cables[MAL_TIERS];                      /* managers' links among the first */
  int64_t ports, ports_used;                      /* of all switches */
  double link_bytes_per_s, bisection_bytes_per_s; /* one direction */
} mal_network;

/* MAL_NO: the switch has too few ports for so many nodes; says which would do or what to change. */
mal_status mal_network_make(const mal_network_ask *ask, double nic_bytes_per_s, mal_network *n, mal_error *e);
int64_t mal_network_switches(const mal_network *n);
/* Every cable; as many as the sum of cables[]. */
mal_link *mal_network_links(mal_arena *a, const mal_network *n, int64_t *count);
/* "node0001", "leaf001", "storage-spine002": as short as it stays unique, the same for every size. */
char *mal_device_label(mal_arena *a, const mal_network *n, mal_device d);
/* Links of the smaller network that are not in the larger one: what growing re-cables. */
int64_t mal_network_recabled(mal_arena *a, const mal_network *from, const mal_network *to);
#endif
