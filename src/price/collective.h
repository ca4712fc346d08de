/* Time of a collective on a group: algorithm → transfers, one table. The simulator plays the same transfers.
 *
 * Each row: which links each step loads with how many bytes, and how many steps of latency there are. */
#ifndef MAL_PRICE_COLLECTIVE_H
#define MAL_PRICE_COLLECTIVE_H
#include "layout/layout.h"
#include "program/instruction.h"

typedef enum mal_algorithm { MAL_ALG_RING, MAL_ALG_TREE, MAL_ALG_NVLS, MAL_ALG_HIERARCHICAL, MAL_ALG_PAIRWISE, MAL_ALG_DIRECT, MAL_ALGORITHMS } mal_algorithm;
extern const char *const mal_algorithm_name[MAL_ALGORITHMS];

typedef struct mal_collective_time {
  mal_algorithm algorithm;
  double seconds, latency_s;
  double busbw; /* bytes/s, nccl-tests' convention */
  double nvlink_bytes, pcie_bytes, nic_bytes; /* one rank sends over each */
} mal_collective_time;

/* The fastest algorithm that the hardware has. bytes by the convention of instruction.h. group.size 1: zero. */
mal_collective_time mal_collective_price(const mal_machine *m, const mal_group *g, mal_collective c, double bytes);
mal_collective_time mal_collective_price_with(const mal_machine *m, const mal_group *g, mal_collective c, double bytes, mal_algorithm a);
/* Point to point between neighbours of a group (pipeline, ring attention). */
mal_collective_time mal_transfer_price(const mal_machine *m, const mal_group *g, double bytes);
#endif
