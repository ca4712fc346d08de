/* What one node is made of, as found: one graph of devices (GPUs, NVSwitches, NICs, drives, PCIe bridges, NUMA nodes) and wires
 * between them, filled by readers of what people paste and by live discovery. Every fact carries where it was read; what nobody
 * said is not known, never zero. Several files merge into one graph.
 *
 * Distances are those of `nvidia-smi topo -m`: NV#, PIX (at most one PCIe switch), PXB (several), PHB (a host bridge), NODE (host
 * bridges of one NUMA node), SYS (between NUMA nodes). */
#ifndef MAL_MACHINE_TOPOLOGY_TOPOLOGY_H
#define MAL_MACHINE_TOPOLOGY_TOPOLOGY_H
#include "core/lines.h"

typedef struct mal_evidence {
  const char *file; /* NULL: derived from other facts */
  int line;         /* 0: the whole file */
} mal_evidence;

typedef enum mal_part_kind {
  MAL_PART_GPU,
  MAL_PART_NIC,
  MAL_PART_DRIVE,
  MAL_PART_NVSWITCH,
  MAL_PART_NUMA,
  MAL_PART_BRIDGE, /* PCIe bridge: root port, or port of a switch */
  MAL_PART_PCI,    /* any other PCI device */
  MAL_PART_KINDS
} mal_part_kind;
extern const char *const mal_part_kind_name[MAL_PART_KINDS];

/* What can be known of a device. Numbers are SI; a yes is 1. Text where marked (t). */
typedef enum mal_fact_key {
  MAL_F_PRODUCT,       /* t */
  MAL_F_UUID,          /* t */
  MAL_F_DRIVER,        /* t */
  MAL_F_FIRMWARE,      /* t: VBIOS of a GPU, firmware of a NIC */
  MAL_F_BOARD,         /* t: NIC board id */
  MAL_F_NUMA,          /* NUMA node it hangs on; of a NUMA node: its package */
  MAL_F_CPUS,          /* t: "0-31,64-95" */
  MAL_F_VENDOR,        /* PCI vendor */
  MAL_F_DEVICE,        /* PCI device */
  MAL_F_CLASS,         /* PCI class and subclass, 0x0302 */
  MAL_F_SPEED,         /* PCIe, GT/s a lane now */
  MAL_F_SPEED_MAX,     /* what the device can */
  MAL_F_SPEED_HOST,    /* what its slot lets it */
  MAL_F_WIDTH,         /* lanes now */
  MAL_F_WIDTH_MAX,     /* lanes of device and slot */
  MAL_F_PCIE_BYTES,    /* PCIe bytes/s, one direction, where only that is given */
  MAL_F_ACS,           /* ACS redirects peer-to-peer (ReqRedir) */
  MAL_F_RATE,          /* NIC bits/s */
  MAL_F_STATE,         /* t: "ACTIVE" */
  MAL_F_PHYSICAL,      /* t: "LinkUp" */
  MAL_F_LAYER,         /* t: "InfiniBand", "Ethernet" */
  MAL_F_GDR,           /* GPUDirect RDMA works */
  MAL_F_SM,            /* compute capability, 80 */
  MAL_F_MEMORY,        /* bytes */
  MAL_F_CORES,         /* of a NUMA node: cores; threads are counted by CPUS */
  MAL_F_PSTATE,        /* P0 .. P15 */
  MAL_F_THROTTLE,      /* bits of mal_throttle */
  MAL_F_SM_CLOCK,      /* Hz */
  MAL_F_SM_CLOCK_MAX,  /* Hz */
  MAL_F_APP_CLOCK,     /* Hz */
  MAL_F_MEM_CLOCK,     /* Hz */
  MAL_F_MEM_CLOCK_MAX, /* Hz */
  MAL_F_TEMP,          /* degrees Celsius */
  MAL_F_TEMP_SLOW,     /* where it slows down */
  MAL_F_MEM_TEMP,
  MAL_F_MEM_TEMP_MAX,
  MAL_F_POWER,         /* W */
  MAL_F_POWER_LIMIT,   /* W */
  MAL_F_POWER_DEFAULT, /* W */
  MAL_F_ECC,           /* on */
  MAL_F_ECC_CORRECTED,
  MAL_F_ECC_UNCORRECTED,
  MAL_F_ECC_LIFETIME_UNCORRECTED,
  MAL_F_ROWS_CORRECTED, /* rows remapped after corrected errors */
  MAL_F_ROWS_UNCORRECTED,
  MAL_F_ROWS_PENDING,
  MAL_F_ROWS_FAILED,
  MAL_F_PAGES_PENDING,
  MAL_F_REPLAYS, /* PCIe */
  MAL_F_MIG,
  MAL_F_PERSISTENCE,
  MAL_F_RESET_NEEDED,
  MAL_F_VIRTUAL,       /* t: virtualization mode other than None */
  MAL_F_FABRIC,        /* t: NVLink fabric state: "Completed", "In Progress" */
  MAL_F_UTIL,          /* share of time in use, 0..1 */
  MAL_F_FABRIC_STATUS, /* t: what came of joining the NVLink fabric: "Success", "Failure" */
  MAL_F_FABRIC_HEALTH, /* t: of the NVLink fabric: what is not as it should be */
  MAL_F_DRAIN,         /* the driver recommends to drain the GPU and reset it */
  MAL_F_RECOVERY,      /* t: the action that the driver asks for: "Reset", "Reboot", ...; "None" */
  MAL_F_UNREADABLE,    /* t: what the driver could not read of it */
  MAL_F_GONE,          /* its configuration space reads as ones only: it left the bus */
  MAL_F_SRAM_WORN,     /* the threshold of errors of its on-chip memory was passed */
  MAL_F_REPAIR,        /* t: a repair of a channel or of a unit that waits for a reset */
  MAL_FACTS
} mal_fact_key;
extern const char *const mal_fact_name[MAL_FACTS]; /* JSON keys */

enum mal_throttle { /* reasons for a lower clock, as NVML names them */
                    MAL_SLOW_IDLE = 1,
                    MAL_SLOW_APP_CLOCKS = 2,
                    MAL_SLOW_POWER_CAP = 4,
                    MAL_SLOW_HARDWARE = 8,
                    MAL_SLOW_SYNC_BOOST = 16,
                    MAL_SLOW_SW_THERMAL = 32,
                    MAL_SLOW_HW_THERMAL = 64,
                    MAL_SLOW_POWER_BRAKE = 128,
};

typedef struct mal_fact {
  bool known;
  double number;
  const char *text;
  mal_evidence from;
} mal_fact;

typedef struct mal_nvlink {
  int active;         /* -1 not said */
  double bytes_per_s; /* one direction, as printed (raw signalling on some GPUs); 0 not said */
  double errors;      /* replay, recovery and CRC counts together; -1 not said */
  mal_evidence from;
} mal_nvlink;

typedef struct mal_counter {
  const char *name;
  double value;
  mal_evidence from;
} mal_counter;

typedef struct mal_part {
  mal_part_kind kind;
  int index;           /* GPU0, NIC0, NUMA 0; -1 not said */
  int64_t bus, parent; /* PCI address, and that of the bridge above; -1 not said */
  int64_t below[2];    /* of a bridge: first and last bus below it, -1 */
  int64_t root;        /* PCI domain and bus of its host bridge, -1 */
  const char *name;    /* "mlx5_0", "nvme0n1"; NULL */
  bool again;          /* a NIC that is also known under its name or address: which of them is not said */
  mal_evidence from;
  mal_nvlink *links;
  int n_links;
  mal_counter *counters;
  int n_counters;
  mal_fact fact[MAL_FACTS];
} mal_part;

typedef enum mal_path {
  MAL_PATH_UNKNOWN,
  MAL_PATH_SELF,
  MAL_PATH_NVLINK,
  MAL_PATH_PIX,
  MAL_PATH_PXB,
  MAL_PATH_PHB,
  MAL_PATH_NODE,
  MAL_PATH_SYS,
  MAL_PATH_FOREIGN, /* a link of another maker, by its own name */
  MAL_PATHS
} mal_path;
extern const char *const mal_path_name[MAL_PATHS];

typedef struct mal_wire { /* between devices a and b of kinds GPU and NIC */
  int a, b;               /* indices into devices */
  mal_path path;
  int nvlinks;       /* of NVLINK */
  const char *token; /* as printed; for FOREIGN */
  const char *peer
      [26]; /* p2p status by letter of `topo -p2p LETTER`: 'r', 'w', 'n', 'a', 'p'; '?' where the kind was not said is at 'r' */
  mal_evidence from, peer_from;
} mal_wire;

typedef struct mal_source { /* a file that was read */
  const char *file, *what;  /* what it is: "nvidia-smi topo -m" */
  int gpus, nics;           /* that it lists */
  int attached;             /* GPUs that it says there are; 0 not said */
  bool counts;              /* such a listing names every GPU */
  int broken;               /* line where it breaks off, 0 */
} mal_source;

typedef struct mal_conflict {
  const char *what;         /* "GPU3: numa" */
  const char *first, *then; /* values, the first is kept */
  mal_evidence from[2];
} mal_conflict;

/* Pages of text that no listing of a node is as long as: only their beginning may hold one. */
enum { MAL_LISTING_BYTES = 8 << 20 };

enum { MAL_PARTS_MAX = 8192, MAL_LINKS_MAX = 72, MAL_COUNTERS_MAX = 256 };

typedef struct mal_topology {
  mal_arena *arena;
  mal_part *devices;
  int n_devices, room_devices;
  mal_wire *wires;
  int n_wires, room_wires;
  mal_source *sources;
  int n_sources;
  mal_conflict *conflicts; /* what two files say of one thing, and differ in */
  int n_conflicts;
  const char **missing; /* what the files do not say, complete sentences */
  int n_missing;
  const char *host, *product, *cpu; /* NULL */
  mal_evidence host_from;
  int attached;                 /* GPUs that the listing being read says there are; 0 */
  int packages, cores, threads; /* 0 not said */
  bool virtual_machine, container;
  bool confined; /* a container or a batch job: some GPUs may be kept from it */
  mal_evidence virtual_from;
} mal_topology;

void mal_topology_init(mal_topology *t, mal_arena *a);

/* The device with this index or bus (either may be -1) of the kind; made when absent. NULL when there are too many. */
mal_part *mal_part_at(mal_topology *t, mal_part_kind kind, int index, int64_t bus, mal_evidence from);
mal_part *mal_part_named(mal_topology *t, mal_part_kind kind, const char *name, mal_evidence from);
mal_part *mal_find_part(const mal_topology *t, mal_part_kind kind, int index); /* NULL */
mal_part *mal_find_bus(const mal_topology *t, int64_t bus);                    /* of any kind; NULL */
int mal_count_parts(const mal_topology *t, mal_part_kind kind);

void mal_know(mal_part *d, mal_fact_key key, double number, mal_evidence from);
void mal_know_text(mal_topology *t, mal_part *d, mal_fact_key key, const char *text, mal_evidence from);
bool mal_known(const mal_part *d, mal_fact_key key);
double mal_fact_number(const mal_part *d, mal_fact_key key, double otherwise);
const char *mal_fact_text(const mal_part *d, mal_fact_key key); /* NULL when not known */

/* The wire between two devices, made when absent; order does not matter. */
mal_wire *mal_wire_between(mal_topology *t, const mal_part *a, const mal_part *b);
const mal_wire *mal_find_wire(const mal_topology *t, const mal_part *a, const mal_part *b); /* NULL */
mal_path mal_path_between(const mal_topology *t, const mal_part *a, const mal_part *b);
const char *mal_path_show(mal_arena *a, const mal_wire *w); /* "NV12", "PIX", "?" */

mal_nvlink *mal_nvlink_at(mal_topology *t, mal_part *d, int link); /* NULL above MAL_LINKS_MAX */
void mal_count_event(mal_topology *t, mal_part *d, const char *name, double value, mal_evidence from);
double mal_counter_of(const mal_part *d, const char *name, double otherwise);
void mal_missing(mal_topology *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "0000:9b:00.0", "00000000:9B:00.0", "9b:00.0" → a number; -1 when it is none. */
int64_t mal_bus_parse(const char *text);
const char *mal_bus_show(mal_arena *a, int64_t bus);
void mal_bus_write(char *text, size_t size, int64_t bus);

/* Takes over what `from` knows. GPUs are the same by address, UUID or index; NICs by address or name. */
void mal_topology_merge(mal_topology *into, const mal_topology *from);
/* What PCI devices are, by class and maker: readers call it once they know them. */
void mal_topology_kinds_of(mal_topology *t);
/* Runs of a hexadecimal CPU mask with commas between words, the most significant first ("0x000000ff,,0xffffffff"), as a list:
 * "0-31,64-71". NULL when it is empty. */
const char *mal_cpus_of_mask(mal_arena *a, const char *mask);
/* After the last merge: indices of GPUs by address, bridges above devices, NUMA nodes, and the paths that no matrix gave. */
void mal_topology_derive(mal_topology *t);

/* One file: which kinds of listing it holds is found from its content. *known: at least one was. A file of another kind is no
 * error: *known is false, and t is unchanged. */
void mal_topology_read(mal_topology *t, const mal_paste *p, bool *known);
/* What mal_topology_read recognises, for messages: "nvidia-smi topo -m, ...". */
const char *mal_topology_kinds(mal_arena *a);
/* What a text is that mal_topology_read does not know, in words; NULL when that is not known either. */
const char *mal_topology_other(const mal_paste *p);
/* This machine: hwloc, /sys and NVML. */
mal_status mal_topology_live(mal_topology *t, mal_error *e);
/* Reads the counters and the moving facts of a live node anew, into a topology that mal_topology_live filled. */
void mal_topology_refresh(mal_topology *t);

/* Devices of a kind in the order of their index: fills at most max, returns how many. */
int mal_parts_of(const mal_topology *t, mal_part_kind kind, mal_part **list, int max);
/* A GPU's label: "GPU3", a NIC's "mlx5_0" or "NIC0". */
const char *mal_part_label(mal_arena *a, const mal_part *d);
/* GT/s a lane of PCIe to its generation and back; 0 when it is none. */
int mal_pcie_generation(double gigatransfers);
double mal_pcie_speed(int generation);
/* bytes/s of a lane count at so many GT/s, one direction, after the line code. */
double mal_pcie_bytes_per_s(double gigatransfers, double lanes);
/* CPUs named by a list as "0-31,64-95"; 0 when it is none. */
int mal_cpus_count(const char *list);
/* The NIC is of the compute fabric: InfiniBand, RoCE or EFA rather than a management port. */
bool mal_nic_computes(const mal_part *d);
/* The node is joined by NVSwitches, or all GPU pairs have the same number of NVLinks. */
bool mal_topology_switched(const mal_topology *t);
#endif
