/* Inside simulate: what a world is made from; world.c, classes.c and paths.c share it. */
#ifndef MAL_SIMULATE_MAKER_H
#define MAL_SIMULATE_MAKER_H
#include "simulate/world.h"

typedef struct mal_sim_rank_state { /* what faults make of a rank */
  double slow, link_left, nic_left, pcie_left, cv, dies_s, throttle_lost, throttle_at_s, throttle_for_s;
  int32_t nic;     /* which NIC of its node it uses */
  bool far_memory; /* its host memory lies on the next socket */
} mal_sim_rank_state;

typedef struct mal_sim_maker {
  mal_sim_world *w;
  const mal_plan *plan;
  const mal_sim_setup *setup;
  mal_sim_rank_state *ranks;
  int64_t island, node_nics;    /* ranks that reach each other over the inner link; NICs of a node */
  uint64_t *colour;             /* [team] */
  int32_t *root[MAL_SIM_KINDS]; /* [team]: teams of one group have the same */
  double nic_share;             /* bytes/s of a rank */
  double *dead_nic;             /* [node · node_nics]: 1 where the NIC is gone */
  int64_t sockets;              /* of a node, at most one a GPU */
  double pcie_rate;             /* bytes/s of copies over a GPU's PCIe link */
  double *cpu_left;             /* [node]: share of the links between its sockets */
  bool *rail;                   /* [node]: two NICs in each other's place */
} mal_sim_maker;

static inline int64_t mal_sim_node_of(const mal_sim_maker *m, int64_t rank) {
  return rank / m->plan->machine.gpus_per_node;
}
static inline bool mal_sim_stage_has(const mal_sim_kind *k, int64_t stage) {
  return k->stages[stage / 64] >> (stage % 64) & 1;
}

/* --- world.c --- */
int64_t mal_sim_base_of(const mal_sim_kind *k, int64_t rank, int64_t *place); /* rank 0 of its group; place in it */
int64_t mal_sim_member_of(const mal_sim_kind *k, int64_t base, int64_t index);

/* --- classes.c --- */
int64_t mal_sim_team_after(const mal_sim_maker *m, int64_t team, int by); /* the team as many stages further */
void mal_sim_settle_colours(mal_sim_maker *m);
void mal_sim_set_classes(mal_sim_maker *m);
void mal_sim_set_groups(mal_sim_maker *m, int kind);
uint64_t *mal_sim_nic_colours(const mal_sim_maker *m, uint64_t *into);
/* Numbers equal colours in the order of their first bearer; returns how many there are. */
int32_t mal_sim_number(mal_arena *a, const uint64_t *colour, int64_t n, int32_t *class_of, int32_t **first);
int32_t mal_sim_add_member(int32_t *members, int32_t from, int32_t count, int32_t class);

/* --- paths.c --- */
void mal_sim_set_nics(mal_sim_maker *m);
void mal_sim_set_topology(mal_sim_maker *m);
void mal_sim_set_links(mal_sim_maker *m);
int64_t mal_sim_leaf_of(const mal_sim_maker *m, int64_t rank);

/* --- hosts.c --- */
void mal_sim_count_sockets(mal_sim_maker *m);
bool mal_sim_needs_hosts(const mal_sim_maker *m); /* whether anything of this step could bind there */
uint64_t *mal_sim_socket_colours(const mal_sim_maker *m, uint64_t *into);
uint64_t mal_sim_socket_colour(const mal_sim_maker *m, const uint64_t *sockets, int64_t rank);
void mal_sim_set_sockets(mal_sim_maker *m);
void mal_sim_note_sockets(mal_sim_maker *m); /* those of each class */
void mal_sim_set_host_links(mal_sim_maker *m);
int32_t mal_sim_nic_way(const mal_sim_world *w, int32_t class, bool out, mal_flow_use *uses);
#endif
