/* Time of a collective on a group: algorithm → transfers, one table.
 *
 * Each row of the table says, for one collective of `bytes`, what one rank sends over its inner link (NVLink or PCIe), what it
 * sends over its NICs, and how many hops of latency lie one after another. Time = transfers, the slower of the two links when the
 * algorithm keeps both busy at once (their sum when it goes phase by phase), + latency.
 *
 * Sources: bytes of ring, reduce-scatter and all-gather: Thakur, Rabenseifner, Gropp 2005, section 4; double binary tree: Sanders,
 * Speck, Träff 2009; hops as NCCL counts them: src/graph/tuning.cc (ring 2(n-1) steps of which 2·nodes cross the network; tree
 * 2(local-1) inner and 2·log2(nodes) network hops, at 0.92 of the bandwidth); in-switch all-reduce (NVLS): a rank sends its
 * buffer once to the switch and its reduced 1/n back, Klenk et al., ISCA 2020, "An in-network architecture for accelerating
 * shared-memory multiprocessor collectives". busbw:
 * nccl-tests doc/PERFORMANCE.md. */
#ifndef MAL_PRICE_COLLECTIVE_H
#define MAL_PRICE_COLLECTIVE_H
#include "layout/layout.h"
#include "program/instruction.h"

typedef enum mal_algorithm {
  MAL_ALG_RING,
  MAL_ALG_TREE,
  MAL_ALG_NVLS,
  MAL_ALG_HIERARCHICAL,
  MAL_ALG_PAIRWISE,
  MAL_ALG_DIRECT,
  MAL_ALGORITHMS
} mal_algorithm;
extern const char *const mal_algorithm_name[MAL_ALGORITHMS];

/* How a group lies on the links of a machine. A domain is what its members reach over the inner link: the NVLink domain
 * (which may be larger than a node), or the node where GPUs have only PCIe. */
typedef struct mal_reach {
  int64_t size, local, domains; /* members; members in one domain; domains */
  bool nvlink, nvls;            /* the inner link is NVLink; its switch can reduce for this many members */
  double inner, nvls_link,
      nic;           /* bytes/s one rank sends: inner link as ring busbw, link under NVLS, its share of the NICs */
  double nic_spread; /* nic when every rank talks to every other: what oversubscribed uplinks leave */
  double hop_s, net_s, start_s; /* latency of one hop inside and between domains; start of the kernel */
} mal_reach;
mal_reach mal_group_reach(const mal_machine *m, const mal_group *g);

typedef struct mal_collective_time {
  mal_algorithm algorithm;
  double seconds, latency_s;
  double busbw;                               /* bytes/s, nccl-tests' convention */
  double nvlink_bytes, pcie_bytes, nic_bytes; /* one rank sends over each */
  double inner_rate, nic_rate; /* bytes/s of one rank at which they go, alone; NVLink or PCIe is the inner link */
  bool phases;                 /* the two follow one another; else both move at once */
} mal_collective_time;

/* The fastest algorithm that the hardware and NCCL have. bytes by the convention of instruction.h. group.size 1: zero. */
mal_collective_time mal_collective_price(const mal_machine *m, const mal_group *g, mal_collective c, double bytes);
/* With one algorithm; where it does not exist for c or this hardware, as a ring (all-to-all: pairwise). */
mal_collective_time mal_collective_price_with(const mal_machine *m, const mal_group *g, mal_collective c, double bytes,
                                              mal_algorithm a);
/* Point to point between neighbours of a group (pipeline, ring attention): over the network when the group has more than one
 * domain, because the slowest of the neighbours sets the pace. */
mal_collective_time mal_transfer_price(const mal_machine *m, const mal_group *g, double bytes);
/* busbw / algbw: 2(n-1)/n all-reduce, (n-1)/n all-gather, reduce-scatter, all-to-all, 1 broadcast. */
double mal_busbw_factor(mal_collective c, int64_t n);
#endif
