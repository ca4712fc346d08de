#include "price/collective.h"
#include <math.h>

const char *const mal_algorithm_name[] = {"ring", "tree", "nvls", "hierarchical", "pairwise", "direct"};
_Static_assert(sizeof mal_algorithm_name / sizeof *mal_algorithm_name == MAL_ALGORITHMS, "one name for each algorithm");

static const double tree_efficiency = 0.92; /* NCCL src/graph/tuning.cc, tree all-reduce */
enum { PEERS_AT_ONCE = 8 };                 /* all-to-all: peers that NCCL serves in one round of its kernel */

double mal_busbw_factor(mal_collective c, int64_t n) {
  double share = (double)(n - 1) / (double)n;
  switch (c) {
  case MAL_ALL_REDUCE: return 2 * share;
  case MAL_BROADCAST: return 1;
  default: return share;
  }
}

/* What one rank sends over each link, in order: the row of the table applied. */
typedef struct transfers {
  double inner_bytes, nic_bytes; /* of one rank */
  int64_t inner_hops, net_hops;  /* of latency, one after another */
  double efficiency;             /* share of link bandwidth that the algorithm's flow control leaves */
  bool phases;                   /* inner and network phases follow one another rather than overlap */
} transfers;

static int64_t log2_up(int64_t n) {
  int64_t bits = 0;
  while ((INT64_C(1) << bits) < n) bits++;
  return bits;
}

/* One flat ring through all members; each domain boundary is crossed once a channel, by the NICs of all its members. */
static bool ring(const mal_reach *r, mal_collective c, double bytes, transfers *t) {
  if (c == MAL_ALL_TO_ALL) return false;
  double passes = mal_busbw_factor(c, r->size);
  int64_t rounds = c == MAL_ALL_REDUCE ? 2 : 1;
  int64_t hops = rounds * (r->size - 1), net = r->domains > 1 ? rounds * r->domains : 0;
  if (net > hops) net = hops;
  *t = (transfers){.inner_bytes = r->local > 1 ? passes * bytes : 0,
                   .nic_bytes = r->domains > 1 ? passes * bytes / (double)r->local : 0,
                   .inner_hops = hops - net,
                   .net_hops = net,
                   .efficiency = 1};
  return true;
}

/* What the busiest domain sends in the double binary tree: with two domains each is leaf of one tree and root of the other, half
 * the data each: 1 buffer; with more, inner node of one (half up, two halves down) and leaf of the other (half up): 2. */
static double tree_nic_bytes(const mal_reach *r, double bytes) {
  return r->domains < 2 ? 0 : (r->domains == 2 ? bytes : 2 * bytes) / (double)r->local;
}

/* Chain inside the domain, double binary tree between domains. */
static bool tree(const mal_reach *r, mal_collective c, double bytes, transfers *t) {
  if (c != MAL_ALL_REDUCE) return false;
  *t = (transfers){.inner_bytes = r->local > 1 ? 2 * bytes : 0,
                   .nic_bytes = tree_nic_bytes(r, bytes),
                   .inner_hops = 2 * (r->local - 1),
                   .net_hops = 2 * log2_up(r->domains),
                   .efficiency = tree_efficiency};
  return true;
}

/* The switch reduces; between domains the tree (NCCL's NVLSTree). inner_bytes are at r->nvls_link. */
static bool nvls(const mal_reach *r, mal_collective c, double bytes, transfers *t) {
  if (c != MAL_ALL_REDUCE || !r->nvls) return false;
  *t = (transfers){.inner_bytes = bytes * (1 + 1 / (double)r->local),
                   .nic_bytes = tree_nic_bytes(r, bytes),
                   .inner_hops = 4,
                   .net_hops = 2 * log2_up(r->domains),
                   .efficiency = r->domains > 1 ? tree_efficiency : 1};
  return true;
}

/* Reduce-scatter inside, all-reduce along each rail, all-gather inside; the one-way collectives take half of it. */
static bool hierarchical(const mal_reach *r, mal_collective c, double bytes, transfers *t) {
  if (r->domains < 2 || r->local < 2 || c == MAL_ALL_TO_ALL || c == MAL_BROADCAST) return false;
  double rounds = c == MAL_ALL_REDUCE ? 2 : 1, local = (double)r->local, domains = (double)r->domains;
  *t = (transfers){.inner_bytes = rounds * (local - 1) / local * bytes,
                   .nic_bytes = rounds * (domains - 1) / domains * bytes / local,
                   .inner_hops = (int64_t)rounds * (r->local - 1),
                   .net_hops = (int64_t)rounds * (r->domains - 1),
                   .efficiency = 1,
                   .phases = true};
  return true;
}

static bool pairwise(const mal_reach *r, mal_collective c, double bytes, transfers *t) {
  if (c != MAL_ALL_TO_ALL) return false;
  double n = (double)r->size, far = (double)(r->size - r->local);
  *t = (transfers){.inner_bytes = (double)(r->local - 1) / n * bytes,
                   .nic_bytes = far / n * bytes,
                   .inner_hops = r->local > 1 ? r->local - 1 : 0,
                   .net_hops = r->domains > 1 ? 1 + (r->size - r->local) / PEERS_AT_ONCE : 0,
                   .efficiency = 1};
  return true;
}

/* Every rank reads its part from all others at once: shared memory, or NVLink through a switch. */
static bool direct(const mal_reach *r, mal_collective c, double bytes, transfers *t) {
  if (r->domains > 1) return false;
  *t = (transfers){
      .inner_bytes = mal_busbw_factor(c, r->size) * bytes, .inner_hops = c == MAL_ALL_REDUCE ? 2 : 1, .efficiency = 1};
  return true;
}

/* A row is false when the hardware or the collective does not have the algorithm. */
static const struct {
  bool (*row)(const mal_reach *, mal_collective, double, transfers *);
  bool nccl; /* NCCL would choose it by itself */
} table[] = {{ring, true}, {tree, true}, {nvls, true}, {hierarchical, false}, {pairwise, true}, {direct, false}};
_Static_assert(sizeof table / sizeof *table == MAL_ALGORITHMS, "one row for each algorithm");

static mal_collective_time timed(const mal_reach *r, mal_collective c, double bytes, mal_algorithm a,
                                 const transfers *t) {
  mal_collective_time time = {.algorithm = a, .nic_bytes = t->nic_bytes, .phases = t->phases};
  time.inner_rate = (a == MAL_ALG_NVLS ? r->nvls_link : r->inner) * t->efficiency;
  time.nic_rate = (a == MAL_ALG_PAIRWISE ? r->nic_spread : r->nic) * t->efficiency;
  double inner = t->inner_bytes / time.inner_rate, net = t->nic_bytes / time.nic_rate;
  double moving = t->phases ? inner + net : fmax(inner, net);
  time.latency_s = r->start_s + (double)t->inner_hops * r->hop_s + (double)t->net_hops * r->net_s;
  time.seconds = moving + time.latency_s;
  time.busbw = mal_busbw_factor(c, r->size) * bytes / time.seconds;
  *(r->nvlink ? &time.nvlink_bytes : &time.pcie_bytes) = t->inner_bytes;
  return time;
}

mal_collective_time mal_collective_price(const mal_machine *m, const mal_group *g, mal_collective c, double bytes) {
  mal_collective_time best = {0};
  if (g->size < 2 || !(bytes > 0)) return best;
  mal_reach r = mal_group_reach(m, g);
  for (int a = 0; a < MAL_ALGORITHMS; a++) {
    transfers t;
    if (!table[a].nccl || !table[a].row(&r, c, bytes, &t)) continue;
    mal_collective_time time = timed(&r, c, bytes, (mal_algorithm)a, &t);
    if (best.seconds == 0 || time.seconds < best.seconds) best = time;
  }
  return best;
}

mal_collective_time mal_collective_price_with(const mal_machine *m, const mal_group *g, mal_collective c, double bytes,
                                              mal_algorithm a) {
  if (g->size < 2 || !(bytes > 0)) return (mal_collective_time){.algorithm = a};
  mal_reach r = mal_group_reach(m, g);
  transfers t;
  if (!table[a].row(&r, c, bytes, &t)) {
    a = c == MAL_ALL_TO_ALL ? MAL_ALG_PAIRWISE : MAL_ALG_RING;
    table[a].row(&r, c, bytes, &t);
  }
  return timed(&r, c, bytes, a, &t);
}
