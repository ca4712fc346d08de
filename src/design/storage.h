/* Storage: what training reads and writes, how much is kept, and how many servers that takes. */
#ifndef MAL_DESIGN_STORAGE_H
#define MAL_DESIGN_STORAGE_H
#include "machine/machine.h"

typedef struct mal_storage_server { /* of a data sheet; catalog/storage */
  char *name, *title;
  mal_value read_bytes_per_s, write_bytes_per_s, bytes; /* bytes: usable */
  mal_value ports, port_bytes_per_s, ru, weight_kg, max_w, supplies;
} mal_storage_server;
mal_status mal_storage_server_load(mal_arena *a, const char *name, mal_storage_server **out, mal_error *e);
void mal_storage_server_each(const mal_storage_server *s, void (*visit)(void *, const char *, const mal_value *),
                             void *context);

/* What the data are: guidance of NVIDIA's reference architecture (RA-11333-001 V11, table 6) a node and a unit of 32 nodes. */
typedef enum mal_data_level { MAL_DATA_TEXT, MAL_DATA_IMAGES, MAL_DATA_VIDEO, MAL_DATA_LEVELS } mal_data_level;
double mal_storage_node_read(int level);        /* bytes/s that the guidance gives one node */
extern const char *const mal_data_level_name[]; /* "text" good, "images" better, "video" best */

typedef struct mal_storage_ask {
  int level; /* mal_data_level */
  int64_t nodes;
  double node_ports_bytes_per_s; /* of one node, its storage ports together */
  double checkpoint_bytes;       /* of one checkpoint; 0: no model was given */
  double failures_per_node_day, restart_s;
  double goodput;               /* share of time that must train */
  bool asynchronous;            /* training stops only while states go to host memory */
  double host_copy_bytes_per_s; /* of one node, to host memory */
  int64_t kept;                 /* checkpoints */
  double dataset_bytes;
  double node_nvme_bytes; /* cache of one node */
} mal_storage_ask;

typedef struct mal_storage {
  mal_storage_ask ask;
  double read_bytes_per_s, write_bytes_per_s; /* the larger of guidance and need */
  double guided_read, guided_write, needed_write;
  double mttf_s, interval_s, young_s, stall_s, write_s, goodput; /* with the servers chosen */
  double bytes;                                                  /* usable, at 80 % full */
  double cache_share; /* of the dataset that the nodes' drives hold together */
  const mal_storage_server *server;
  int64_t servers;
  const char *because; /* what sets their number */
} mal_storage;

enum { MAL_STORAGE_SERVERS_MOST = 65536 };
/* MAL_NO: no write rate reaches the goodput (failures and restarts alone cost more), or more servers than that are needed. */
mal_status mal_storage_make(const mal_storage_ask *ask, const mal_storage_server *server, mal_storage *s, mal_error *e);
#endif
