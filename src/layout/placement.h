/* Where ranks sit on a found node: for each its GPU, NUMA node, cores and NIC, by PCIe distance and never by index; and what each
 * process group rides on. */
#ifndef MAL_LAYOUT_PLACEMENT_H
#define MAL_LAYOUT_PLACEMENT_H
#include "layout/layout.h"
#include "machine/topology/identify.h"

enum { MAL_PLACE_NICS = 8 };

typedef struct mal_rank_place {
  int rank; /* on its node */
  const mal_part *gpu;
  const mal_part *nics[MAL_PLACE_NICS]; /* nearest, none when their distances are not known */
  int n_nics;
  mal_path nic_path;
  int numa;         /* -1 not known */
  const char *cpus; /* its share of the cores of its NUMA node; NULL not known */
} mal_rank_place;

/* One place for each GPU, in the order of their index. NICs at the same distance are shared out
 * evenly: each GPU has one, and those left over go to the nearest with the fewest. */
int mal_place_ranks(mal_arena *a, const mal_topology *t, mal_rank_place *places, int max);

/* "mlx5_0,mlx5_1"; NULL when there is none. */
const char *mal_place_nics(mal_arena *a, const mal_rank_place *p);

typedef struct mal_ride { /* one axis of a layout on this node */
  const char *axis;
  int64_t size, stride;
  int here;          /* members on one node */
  mal_path worst;    /* the farthest pair of members on the node, UNKNOWN when one is not known */
  const char *shown; /* "NV18", "PIX" */
  int nvlinks;       /* of the thinnest pair, when worst is NVLINK */
  const char *ranks; /* of the first group: "0-3", "0,4" */
  bool crosses;      /* some members are on other nodes: over the NIC of each rank */
} mal_ride;
enum { MAL_RIDES_MAX = 8 };
/* The groups of a layout with more than one member; nodes are filled in order of rank. Returns how many. */
int mal_layout_rides(mal_arena *a, const mal_topology *t, const mal_layout *l, mal_ride *rides);
#endif
