/* Another node in the racks of a cluster that stands: the same racks, circuits, room and switches, and what that changes. */
#ifndef MAL_DESIGN_REFRESH_H
#define MAL_DESIGN_REFRESH_H
#include "design/design.h"

typedef struct mal_refresh {
  const mal_design *before;
  mal_design after;      /* as many nodes as the old racks of nodes hold, at most as many as before */
  int64_t wanted;        /* nodes before */
  int64_t racks_for_all; /* racks of nodes for as many nodes as before; 0: a rack does not hold one */
  int limit;             /* mal_limit that a rack of the new nodes meets */
  bool same_switches;    /* switches of the compute fabric stay */
  double nic_share;      /* of a new adapter's rate that a port of the old switches gives */
  int64_t cables_kept, cables_new, cables_gone; /* kept: same ends, ports and medium, long enough, same plugs */
  double flops_before, flops_after;             /* bf16, dense, of the GPUs that work */
  double memory_before, memory_after;           /* bytes of GPU memory */
  double stream_before, stream_after;           /* bytes/s of GPU memory */
  double fabric_before, fabric_after;           /* bytes/s of one GPU into the compute fabric */
} mal_refresh;

/* MAL_NO: not one new node stands in such a rack; the message says what would have to change. */
mal_status mal_design_refresh(mal_arena *a, const mal_design *before, const char *node, mal_refresh *r, mal_error *e);
#endif
