/* Whether a node is balanced: processors, memory and drives for what runs beside the GPUs, and its PCIe lanes. Each need is a sum
 * of named parts, held against what the node has. */
#ifndef MAL_DESIGN_COMPUTE_H
#define MAL_DESIGN_COMPUTE_H
#include "design/parts.h"
#include "design/storage.h"

typedef struct mal_compute_ask {
  int level; /* mal_data_level */
  int64_t nodes;
  double checkpoint_bytes, dataset_bytes;
  double offload_bytes;         /* of one node in host memory; 0 */
  double node_read_bytes_per_s; /* of the shared file system, one node */
} mal_compute_ask;

typedef enum mal_need_kind { MAL_NEED_CORES, MAL_NEED_RAM, MAL_NEED_NVME, MAL_NEED_KINDS } mal_need_kind;
extern const char *const mal_need_name[]; /* "cores", "memory", "drives" */

enum { MAL_NEED_PARTS = 6 };
typedef struct mal_need {
  double needed, has; /* cores or bytes of one node; has 0: the catalogue does not say */
  struct {
    const char *name; /* "data loading" */
    double amount;
  } parts[MAL_NEED_PARTS];
  int n_parts;
} mal_need;

typedef struct mal_compute {
  mal_compute_ask ask;
  mal_need needs[MAL_NEED_KINDS];
  bool pcie_known;                              /* what hangs under a switch */
  int64_t switches, gpus, nics, drives;         /* under one switch; drives < 0: not known */
  double lanes_down, lanes_up;                  /* of a switch */
  double lane_bytes_per_s;                      /* one way */
  double nic_bytes_per_s, nic_slot_bytes_per_s; /* of the adapter, of its 16 lanes */
  double copy_bytes_per_s;                      /* from all GPUs of a node to host memory at once */
  bool direct_storage;                          /* GPUDirect Storage pays */
  double memory_share; /* of memory bandwidth that reading through it takes: read and written once */
} mal_compute;

/* On a drive of 4 lanes, an adapter or GPU of 16. */
void mal_compute_make(const mal_machine *m, const mal_chassis *c, const mal_compute_ask *ask, mal_compute *out);
#endif
