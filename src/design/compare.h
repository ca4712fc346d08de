/* What was designed against what is cabled: every expected cable is right, slow, missing, or another one lies in its port.
 * Ports are judged from the switch above, for that end has one name. */
#ifndef MAL_DESIGN_COMPARE_H
#define MAL_DESIGN_COMPARE_H
#include "design/design.h"
#include "design/wiring.h"

typedef enum mal_fault_kind {
  MAL_CABLE_MISSING,
  MAL_CABLE_CROSSED,
  MAL_CABLE_SLOW,
  MAL_CABLE_EXTRA,
  MAL_CABLE_FAULTS
} mal_fault_kind;
extern const char *const mal_fault_name[];

typedef struct mal_cable_fault {
  int kind;                /* mal_fault_kind */
  const char *network;     /* "compute" */
  const char *leaf;        /* the leaf that it touches; a spine where none is */
  int64_t rail;            /* -1 */
  const char *expected;    /* "node0001 mlx5_3 - leaf004 port 1"; NULL: none */
  const char *found;       /* what lies there; NULL: nothing */
  double lost_bytes_per_s; /* of the links between leaves and spines, or of a node's rail */
  int line;                /* of the found file; 0 */
} mal_cable_fault;

typedef struct mal_comparison {
  int64_t expected, right, faults_of[MAL_CABLE_FAULTS];
  mal_cable_fault *faults;
  int64_t count;
  int64_t unseen_devices;                     /* switches of the design that the file does not name at all */
  double up_bytes_per_s, up_lost_bytes_per_s; /* leaf to spine: designed, and lost to faults */
} mal_comparison;

/* Compares the compute and the storage fabric of a design with what was found. */
void mal_design_compare(mal_arena *a, const mal_design *d, const mal_wiring *f, mal_comparison *c);
#endif
