/* What goes wrong on a machine, as the user says it: "KIND:WHERE,KEY=VALUE,..."; several apart by ';'.
 *
 *   slow:rank=5,by=20%            the GPU computes at 80 % of its speed
 *   throttle:node=3,by=30%,at=2s,for=5s   the same for a time (power or heat); without for: until the end
 *   nvlink:rank=5,by=50%          half of its links to other GPUs are left (dead: it goes over PCIe)
 *   nic:rank=5,dead               the NIC of that rank: its traffic takes the next NIC of the node; or by=PERCENT
 *   uplink:leaf=0,by=25%          a quarter of the leaf's uplinks is gone; or dead
 *   rail:node=3                   two NICs of the node are plugged into each other's leaf
 *   jitter:all,cv=5%              the time of each layer and rank varies, log-normal with this coefficient of variation
 *   die:rank=17,at=1.5s           the rank stops for ever
 *   pcie:rank=5,by=50%            half of the GPU's lanes to its host are left
 *   numa:rank=5                   the rank's host memory is that of the other socket: copies cross the link between sockets
 *   cpulink:node=3,by=50%         half of the links between the node's sockets are left
 *   storage:all,by=50%            others take half of the shared storage, or it gives half
 *
 * WHERE: rank=N, node=N or all (uplink: leaf=N). */
#ifndef MAL_SIMULATE_FAULT_H
#define MAL_SIMULATE_FAULT_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum mal_simulated_fault_kind {
  MAL_BROKEN_SLOW,
  MAL_BROKEN_THROTTLE,
  MAL_BROKEN_NVLINK,
  MAL_BROKEN_NIC,
  MAL_BROKEN_UPLINK,
  MAL_BROKEN_RAIL,
  MAL_BROKEN_JITTER,
  MAL_BROKEN_DIE,
  MAL_BROKEN_PCIE,
  MAL_BROKEN_NUMA,
  MAL_BROKEN_CPULINK,
  MAL_BROKEN_STORAGE,
  MAL_BROKEN_KINDS
} mal_simulated_fault_kind;

typedef struct mal_simulated_place {
  int64_t rank, node, leaf; /* -1 none; all three: everywhere */
} mal_simulated_place;

typedef struct mal_simulated_fault {
  mal_simulated_fault_kind kind;
  mal_simulated_place place;
  double lost;        /* share of speed or bandwidth that is gone; 1: dead */
  double at_s, for_s; /* from when, how long (INFINITY) */
  double cv;          /* jitter: standard deviation over mean */
  const char *text;   /* as given */
} mal_simulated_fault;

extern const char *const mal_simulated_fault_name[MAL_BROKEN_KINDS];

/* MAL_BAD names the fault, the key and what is allowed. ranks, nodes: of the machine. */
mal_status mal_faults_parse(mal_arena *a, const char *text, int64_t ranks, int64_t nodes, mal_simulated_fault **faults,
                            int *count, mal_error *e);
#endif
