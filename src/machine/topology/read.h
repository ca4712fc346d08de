/* The readers: one function a kind of listing, in one table. Each takes what it knows from the lines it recognises and leaves
 * the rest alone, so that a paste may hold several listings. */
#ifndef MAL_MACHINE_TOPOLOGY_READ_H
#define MAL_MACHINE_TOPOLOGY_READ_H
#include "machine/topology/topology.h"

/* Fills t; returns whether the listing was there. broken: line where it breaks off, else 0. */
typedef bool mal_reader(mal_topology *t, const mal_paste *p, int *broken);

mal_reader mal_read_matrix;        /* nvidia-smi topo -m */
mal_reader mal_read_peers;         /* nvidia-smi topo -p2p */
mal_reader mal_read_smi_xml;       /* nvidia-smi -q -x */
mal_reader mal_read_nvlink;        /* nvidia-smi nvlink --status, -e */
mal_reader mal_read_nccl_xml;      /* NCCL_TOPO_DUMP_FILE */
mal_reader mal_read_hwloc;         /* lstopo --of xml */
mal_reader mal_read_hwloc_console; /* lstopo --of console -v */
mal_reader mal_read_lspci;         /* lspci, -nn, -vvv */
mal_reader mal_read_lspci_tree;    /* lspci -t */
mal_reader mal_read_ibstat;        /* ibstat */
mal_reader mal_read_ib_class;      /* /sys/class/infiniband, flattened */

/* For live discovery: facts of GPUs over NVML into t (nothing where the library is absent). */
void mal_read_nvml(mal_topology *t);
#endif
