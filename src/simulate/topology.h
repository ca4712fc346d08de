/* Links between NICs: leaf, spine and core switches as a fat tree, and the way a message takes.
 *
 * Each leaf has `down` ports to NICs and `up` uplinks; with rails, NIC k of every node of a scalable unit hangs on leaf k of the
 * unit (NVIDIA DGX SuperPOD reference architecture RA-11333-001, section "compute fabric"); without, all NICs of a node on
 * one leaf. `leaves` leaves form a pod under its spines; pods meet in core switches.
 *
 * Routing: adaptive spreads every message over all uplinks (InfiniBand adaptive routing, packet spraying), so that a tier is one
 * pipe; ecmp hashes each pair of NICs to one uplink (RFC 2992), with a seed; dmodk picks the uplink by the destination's
 * number, as fat trees with static tables do (Zahavi, D-Mod-K routing, 2010). */
#ifndef MAL_SIMULATE_TOPOLOGY_H
#define MAL_SIMULATE_TOPOLOGY_H
#include "core/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum mal_routing { MAL_ROUTE_ADAPTIVE, MAL_ROUTE_ECMP, MAL_ROUTE_DMODK, MAL_ROUTINGS } mal_routing;
extern const char *const mal_routing_name[MAL_ROUTINGS + 1]; /* NULL ends it */

typedef struct mal_switch_tree {
  int64_t hosts;       /* NICs */
  int64_t down, up;    /* ports of a leaf */
  int64_t leaves, pod; /* leaves; of them in a pod (0: one pod) */
  int64_t core_up;     /* links of a leaf's share of the spines to the core, 0: spines are the top */
  double port_rate;    /* bytes/s of an uplink, one direction */
  mal_routing routing;
  uint64_t seed;
  double *left; /* [leaves]: share of a leaf's uplinks that is left; NULL: all */
} mal_switch_tree;

enum { MAL_ROUTE_MOST = 4 };

int32_t mal_topology_links(const mal_switch_tree *t);
void mal_topology_capacity(const mal_switch_tree *t, double background, double *capacity); /* bytes/s of each link */
/* Links of the way between leaves for the message from NIC a to NIC b; weights are 1. Returns the count, 0 on one leaf. */
int mal_topology_route(const mal_switch_tree *t, int64_t a, int64_t leaf_a, int64_t b, int64_t leaf_b,
                       int32_t links[MAL_ROUTE_MOST]);
/* "uplinks of leaf 3", "spines to leaf 3", "pod 1 to core": for reports. */
const char *mal_topology_link_name(const mal_switch_tree *t, mal_arena *a, int32_t link);
#endif
