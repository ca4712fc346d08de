/* A found node as a machine: its GPU in the catalogue, its rails, its machine file. */
#ifndef MAL_MACHINE_TOPOLOGY_IDENTIFY_H
#define MAL_MACHINE_TOPOLOGY_IDENTIFY_H
#include "machine/machine.h"
#include "machine/topology/topology.h"

/* Catalogue name of a GPU by product name ("NVIDIA H100 80GB HBM3") or PCI device id (0: not known); NULL when it is not there. */
const char *mal_identify_gpu(mal_arena *a, const char *product, int device);
/* The catalogue name of the node's GPUs; NULL when not said, not in the catalogue, or of several kinds. */
const char *mal_topology_gpu(mal_arena *a, const mal_topology *t);

/* The NICs that training uses: those nearest to some GPU, and of them, where any sits on a GPU's switch, only such. In the order of
 * their names. Returns how many, at most max. */
int mal_topology_rails(const mal_topology *t, mal_part **list, int max);

/* A machine file of the node: a catalogue GPU and node, with what was found over them. gpu: its catalogue name, or NULL to take the
 * one that was found. */
mal_status mal_topology_machine_file(mal_arena *a, const mal_topology *t, const char *gpu, char **yaml, mal_error *e);
/* The machine that such a file describes. */
mal_status mal_topology_machine(mal_arena *a, const mal_topology *t, const char *gpu, mal_machine *m, mal_error *e);
#endif
