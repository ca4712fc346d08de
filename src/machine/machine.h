/* What it runs on. A machine is nodes × one node type; a node is GPUs, CPUs, NICs and drives; a fabric joins nodes.
 * All bandwidths are bytes/s in ONE direction; all FLOP/s are dense (vendors print sparse = 2 × dense).
 * Every number in the catalogue carries its source; what nobody could verify is marked (verified: false) and shown so.
 *
 * Constants under "calibration" are fitted by bench/fit on published runs, each inside [lo, hi] that a microbenchmark
 * or the datasheet bounds; the catalogue file says which. */
#ifndef MAL_MACHINE_MACHINE_H
#define MAL_MACHINE_MACHINE_H
#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/dtype.h"
#include "core/status.h"
#include "core/yaml.h"

/* One fitted constant: value inside [lo, hi]; prior is what physics or a microbenchmark says before any fit. */
typedef struct mal_fitted {
  double value, lo, hi, prior;
  char *source; /* what bounds it */
} mal_fitted;

typedef enum mal_attention_kernel {                  /* who computes the attention core */
                                    MAL_ATT_UNFUSED, /* batched matrix products, softmax in memory */
                                    MAL_ATT_FLASH1,
                                    MAL_ATT_FLASH2,
                                    MAL_ATT_CUDNN, /* cuDNN / FlashAttention-3 class */
                                    MAL_ATT_KERNELS
} mal_attention_kernel;

typedef struct mal_gpu {
  char *name, *title, *architecture; /* "h100-80-sxm", "NVIDIA H100 SXM5 80GB", "sm90" */
  char *default_node;                /* catalogue name of the node taken when only the GPU is named */
  char *pci_ids, *products;    /* how a driver names it: PCI device ids, blanks between; product names, "; " between */
  mal_value flops[MAL_DTYPES]; /* dense peak by type; value 0 = no hardware */
  mal_value memory_bytes, memory_bytes_per_s, l2_bytes, sms, tdp_w, idle_w;
  mal_value nvlink_links, nvlink_bytes_per_s; /* all links of one GPU together, one direction; 0 = none */
  mal_value pcie_bytes_per_s;                 /* x16 (or what the card has), one direction, before protocol loss */
  bool p2p;                                   /* peer-to-peer over PCIe allowed by the driver */
  bool transposes_fp8; /* tensor cores take 8-bit operands in either order: one copy serves forward and backward */
  mal_value failures_per_node_day; /* of a node of 8 */
  struct {
    mal_fitted gemm_bf16, gemm_fp8, gemm_fp4, gemm_fp32; /* largest share of dense peak a big product reaches */
    mal_fitted gemm_k_half; /* k at which a product reaches half of that (ramp), elements */
    mal_fitted
        attention[MAL_ATT_KERNELS]; /* share of dense bf16 peak, causal, forward; UNFUSED: of its batched products */
    mal_fitted attention_backward;  /* backward rate over forward rate */
    mal_fitted memory;              /* share of memory_bytes_per_s that streaming kernels reach */
    mal_fitted nvlink;              /* share of nvlink_bytes_per_s that a ring collective's busbw reaches */
    mal_fitted nvls;                /* same for all-reduce in the switch (NVLS); 0 = not available */
    mal_fitted pcie;                /* same over PCIe */
    mal_fitted nic;                 /* share of NIC line rate */
    mal_fitted launch_s;            /* GPU-side cost of a kernel's start and drain, seconds */
    mal_fitted link_latency_s;      /* one hop inside the node, as NCCL sees it */
    mal_fitted net_latency_s;       /* one hop between nodes */
    mal_fitted clock_power; /* how far the clock falls under full tensor load at this power limit: 0 none .. 1 */
  } cal;
} mal_gpu;

/* Of a GPU l2_bytes and nvlink_links, of a node sockets and cores are facts that malha machines shows: nothing is priced
 * from them, but cores where ranks are their threads. */
typedef struct mal_node {
  char *name, *title, *gpu; /* gpu: catalogue name of its GPU */
  int64_t gpus;
  int64_t
      nvlink_domain; /* GPUs that reach each other over NVLink at full rate (8; 72 in NVL72; 2 with bridges; 0/1 none) */
  bool nvlink_switch;              /* all-to-all through NVSwitch; false: direct links or bridges */
  mal_value nvswitches;            /* on the board; 0 not said */
  mal_value nics, nic_bytes_per_s; /* compute fabric only; bytes/s of one NIC, one direction */
  mal_value cpu_sockets, cpu_cores, ram_bytes, ram_bytes_per_s,
      host_speed;                 /* host_speed: single-thread speed, EPYC 7742 = 1 */
  mal_value cpu_link_bytes_per_s; /* from one CPU socket to the others, one direction; 0 not said */
  mal_value nvme_drives, nvme_bytes, nvme_read_bytes_per_s, nvme_write_bytes_per_s; /* all drives together */
  mal_value max_power_w, usd_per_hour; /* whole node; usd 0 = no price read */
} mal_node;

typedef struct mal_fabric {
  char *name, *title;
  mal_value oversubscription; /* ≥ 1: leaf to spine, or between pods where there are pods */
  mal_value leaf_down;        /* ports of a leaf that go to NICs */
  mal_value rails;      /* 1: NIC k of every node hangs on leaf k of its unit; 0: all NICs of a node on one leaf */
  mal_value pod_leaves; /* leaves of a pod, 0: one pod */
  mal_value jitter_per_doubling; /* share of step time lost per doubling of the nodes of a pipeline stage */
} mal_fabric;

typedef struct mal_machine {
  const char *name; /* as given: "16x8xh100-sxm" */
  mal_gpu *gpu;     /* owned by the arena; writable so that calibration can set constants */
  mal_node *node;
  mal_fabric *fabric;
  int64_t nodes;
  int64_t gpus_per_node; /* may be fewer than node->gpus ("4xh100-sxm") */
  int unverified;        /* values used that nobody verified */
  const char **own;      /* [n_own]: what a machine file says otherwise than its bases, "node.nics" */
  int n_own;
} mal_machine;

static inline int64_t mal_machine_gpus(const mal_machine *m) { return m->nodes * m->gpus_per_node; }
/* Where a rank is a thread of a processor (architecture cpu): how many ranks take turns on a core, at least 1. On GPUs 1. */
double mal_machine_ranks_per_core(const mal_machine *m);

/* spec: "8xh100-sxm", "16x8xh100-sxm", "8xa100-80-sxm", "4xrtx4090", a node's name ("dgx-h100", "4xdgx-h100"), a YAML file, "here" or "8xhere" (this computer: here.h).
 * GPU names have aliases ("h100-sxm" = "h100-80-sxm"). When a GPU rather than a node is named, its default node is taken
 * (8 SXM GPUs: the HGX/DGX of that GPU; PCIe cards: a generic server) and machine->node->title says so. */
mal_status mal_machine_load(mal_arena *a, const char *spec, mal_machine *m, mal_error *e);
/* So many nodes of it, each with so many of its GPUs, under the name that reads so; a machine file keeps its name. MAL_BAD: more
 * than can be planned, or nodes without a network. */
mal_status mal_machine_resize(mal_arena *a, mal_machine *m, int64_t nodes, int64_t gpus_per_node, mal_error *e);
/* The spec of such a machine: "4x8xh100-sxm" of "8xh100-sxm"; NULL when none reads so (a machine file, this computer). */
char *mal_machine_spec(mal_arena *a, const char *spec, int64_t nodes, int64_t gpus_per_node);
mal_status mal_gpu_load(mal_arena *a, const char *name, mal_gpu **gpu, mal_error *e);
mal_status mal_node_load(mal_arena *a, const char *name, mal_node **node, mal_error *e);
mal_status mal_fabric_load(mal_arena *a, const char *name, mal_fabric **fabric, mal_error *e); /* NULL: "default" */
/* A machine file: name, nodes, gpus_per_node, and the sections node, gpu, fabric, each with `base: CATALOGUE NAME` and any
 * of the fields of such a catalogue file that differ. */
mal_status mal_machine_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_machine *m,
                             mal_error *e);
/* The constants of a GPU as a list, for fitting and for showing. Returns the count. */
int mal_gpu_constants(mal_gpu *g, const char **names, mal_fitted **constants, int max);

/* Every value of the machine with the key it has in its file, for showing sources. Exactly one of value, fitted is set. */
typedef void mal_machine_visit(void *context, const char *section, const char *key, const mal_value *value,
                               const mal_fitted *fitted);
void mal_machine_each(const mal_machine *m, mal_machine_visit *visit, void *context);
#endif
