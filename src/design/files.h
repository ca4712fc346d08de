/* Files that a cluster starts from: Slurm's topology, and who has which address. All text, in the order of the design. */
#ifndef MAL_DESIGN_FILES_H
#define MAL_DESIGN_FILES_H
#include "design/design.h"

/* topology.conf (topology/tree or topology/block) and topology.yaml (Slurm 25.05): scalable units, leaves or NVLink domains. */
char *mal_design_topology_conf(mal_arena *a, const mal_design *d);
char *mal_design_topology_yaml(mal_arena *a, const mal_design *d);
/* CSV device,network,rail,address: a subnet for each rail of an Ethernet fabric, one for in-band, one for out-of-band. */
char *mal_design_addresses_csv(mal_arena *a, const mal_design *d);
/* The i-th address of a network, "10.200.0.12"; rail of MAL_ADDRESS_RAIL. In-band counts the units that have it. */
enum { MAL_ADDRESS_INBAND, MAL_ADDRESS_OOB, MAL_ADDRESS_RAIL };
char *mal_design_address(mal_arena *a, const mal_design *d, int network, int64_t rail, int64_t i);
bool mal_design_has_inband(int kind); /* mal_unit_kind */
#endif
