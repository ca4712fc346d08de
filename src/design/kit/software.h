/* What runs on a node: versions known to go together, each with who says so, from catalog/software. A node takes the file of its
 * own name, else of its GPU's architecture, else generic. */
#ifndef MAL_DESIGN_KIT_SOFTWARE_H
#define MAL_DESIGN_KIT_SOFTWARE_H
#include "machine/machine.h"

typedef enum mal_component {
  MAL_SW_OS,
  MAL_SW_DRIVER,
  MAL_SW_LEAST_DRIVER, /* the oldest that knows the GPU: no part of the image */
  MAL_SW_FABRIC_MANAGER,
  MAL_SW_IMEX,
  MAL_SW_CUDA,
  MAL_SW_NCCL,
  MAL_SW_ROCM,
  MAL_SW_RCCL,
  MAL_SW_DOCA_OFED,
  MAL_SW_MPI,
  MAL_SW_GDRCOPY,
  MAL_SW_GDS,
  MAL_SW_CONTAINER_RUNTIME,
  MAL_SW_CONTAINER_TOOLKIT,
  MAL_SW_DCGM,
  MAL_SW_DCGM_EXPORTER,
  MAL_SW_SCHEDULER,
  MAL_SW_PMIX,
  MAL_COMPONENTS
} mal_component;
extern const char *const mal_component_key[MAL_COMPONENTS];   /* "fabric_manager", as in the file */
extern const char *const mal_component_title[MAL_COMPONENTS]; /* "Fabric Manager" */

typedef struct mal_version {
  char *version, *source; /* NULL: not part of this list */
} mal_version;

typedef struct mal_software {
  char *name, *title, *date; /* date: of the newest list that was read */
  mal_version of[MAL_COMPONENTS];
} mal_software;

mal_status mal_software_load(mal_arena *a, const mal_machine *m, mal_software **out, mal_error *e);
mal_status mal_software_file(mal_arena *a, const char *name, mal_software **out, mal_error *e);
/* Whether this node runs it: Fabric Manager where NVSwitches are, DOCA where there are NICs, and what the list has. */
bool mal_software_runs(const mal_software *s, const mal_machine *m, mal_component c);
/* Order of two versions by their numbers: below, equal, above zero. */
int mal_version_compare(const char *x, const char *y);
#endif
