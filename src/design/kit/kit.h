/* The kit: every file that a cluster of this design starts from, to be written into one folder. */
#ifndef MAL_DESIGN_KIT_KIT_H
#define MAL_DESIGN_KIT_KIT_H
#include "design/design.h"

typedef struct mal_kit_file {
  const char *path; /* inside the folder: "slurm/slurm.conf" */
  const char *text;
  bool executable;
} mal_kit_file;

enum { MAL_KIT_MOST = 32 };
/* files: room for MAL_KIT_MOST; *n how many. */
mal_status mal_kit_make(mal_arena *a, const mal_design *d, mal_kit_file *files, int *n, mal_error *e);

/* Slurm: controller on the first management server; one queue for everybody, one that may be interrupted, one for acceptance. */
char *mal_kit_slurm(mal_arena *a, const mal_design *d);
char *mal_kit_gres(mal_arena *a, const mal_design *d);
/* What Slurm runs on each node every few minutes: says why and drains the node when something is missing. */
char *mal_kit_node_check(mal_arena *a, const mal_design *d);
/* How nodes are installed: packages with versions, services, kernel arguments, limits; and the order of the work. */
char *mal_kit_image(mal_arena *a, const mal_design *d);
char *mal_kit_hosts(mal_arena *a, const mal_design *d);
char *mal_kit_software_csv(mal_arena *a, const mal_design *d);
/* "node[0001-0127]", or "node0001". */
char *mal_kit_nodes(mal_arena *a, int64_t first, int64_t last);
#endif
