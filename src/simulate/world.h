/* Inside simulate: who plays, and on which links.
 *
 * The ranks of one tensor-parallel group meet at every layer, so they play as one: a team. Teams that nothing tells apart
 * (same stage, same faults, the same for all they communicate with) form a class, and one plays for all. Classes come from
 * colour refinement: a team's colour takes up the colours of its partners until no class splits any more; a fault thus splits
 * only what it touches. With every team a class of its own, all ranks are played.
 *
 * Links likewise: ports that the same classes use in the same way are one link. */
#ifndef MAL_SIMULATE_WORLD_H
#define MAL_SIMULATE_WORLD_H
#include "price/price.h"
#include "simulate/fault.h"
#include "simulate/flows.h"
#include "simulate/topology.h"

enum { MAL_SIM_KINDS = 24 };

/* A kind of process group that the program uses: the axes, and whether it is an exchange between neighbours. */
typedef struct mal_sim_kind {
  unsigned axes;
  bool exchange, local; /* local: all its groups lie inside teams, on the inner link of one node */
  int n_spans;
  mal_span spans[MAL_AXES];
  mal_group group;                  /* as price sees it */
  uint64_t *stages;                 /* bit set: stages whose program has it */
  int64_t n_groups;                 /* groups of classes */
  int32_t *group_of;                /* [class]: -1 when its stage has none */
  int32_t *first, *members;         /* [group]: classes members[first[g]] .. members[first[g + 1] - 1] */
  struct mal_sim_pattern *patterns; /* [group] */
} mal_sim_kind;

/* Links that a group's collectives use: bytes on each for one byte that a rank sends over its inner link, its NIC. */
typedef struct mal_sim_pattern {
  mal_flow_use *inner, *nic;
  int32_t n_inner, n_nic;
  bool made;
} mal_sim_pattern;

typedef struct mal_sim_class { /* of teams */
  int32_t stage, team;         /* team: the first of the class */
  int64_t count;               /* teams */
  int32_t before, after;       /* class of the team at the stage before and after, round the ring */
  double slow;                 /* compute time of its slowest rank over normal */
  double link_left;            /* of its ranks' inner links, the worst */
  double cv;                   /* jitter */
  double dies_s;               /* INFINITY */
  double throttle_lost, throttle_at_s, throttle_for_s;
  int64_t slow_rank, dead_rank; /* whose slowness it is */
  double pcie_left;             /* of its ranks' links to the host, the worst */
  int32_t *nics, n_nics;        /* nic classes it uses */
  int32_t *sockets, n_sockets;  /* socket classes it uses */
} mal_sim_class;

typedef struct mal_sim_nic { /* a class of NICs */
  double capacity;           /* bytes/s */
  int32_t *classes, *ranks;  /* teams' classes on it, and how many ranks of each */
  int32_t n_classes;
  int64_t node, index; /* the first of the class */
  int64_t count;
} mal_sim_nic;

typedef struct mal_sim_guest { /* ranks of a class at a socket */
  int32_t class;
  int32_t memory;                 /* their host memory is this socket's */
  int32_t from_memory, to_memory; /* of copies to and from the GPU, those that leave this socket over the link */
  int32_t from_nic, to_nic;       /* the same of traffic between GPU and NIC */
} mal_sim_guest;

typedef struct mal_sim_socket {     /* a class of CPU sockets */
  double memory, link, read, write; /* bytes/s: memory, to the other sockets, of drives */
  int64_t node, index, count;       /* the first of the class; how many */
  mal_sim_guest *guests;
  int32_t n_guests;
} mal_sim_socket;

enum { MAL_SOCKET_MEMORY, MAL_SOCKET_LINK, MAL_SOCKET_READ, MAL_SOCKET_WRITE, MAL_SOCKET_LINKS };

typedef struct mal_sim_world {
  mal_arena *arena;
  const mal_program *program;
  int64_t ranks, team_size, teams, stage_teams; /* stage_teams: teams of a stage */
  int32_t n_classes, *class_of;                 /* [team] */
  mal_sim_class *classes;
  int n_kinds;
  mal_sim_kind kinds[MAL_SIM_KINDS];
  int32_t n_nics;
  mal_sim_nic *nics;
  double inner_capacity, nic_share; /* bytes/s of a rank's healthy inner link; of its part of the NICs */
  int algorithm;                    /* as in the set-up */
  bool all_ranks, fabric;           /* fabric: leaf and spine links are played */
  bool hosts;                       /* PCIe, memory, drives and links between sockets are played */
  int32_t n_sockets, *socket_class; /* [node · sockets of a node] */
  mal_sim_socket *sockets;
  mal_switch_tree topology;
  /* inner out, inner in: [class]; NIC out, NIC in: [nic]; storage read, write; with hosts PCIe in, out: [class] and
   * MAL_SOCKET_LINKS: [socket]; then the fabric's */
  int32_t n_links;
  double *capacity;
  struct mal_sim_maker *maker; /* what patterns are made from */
  float *weights;
  int32_t *touched;
} mal_sim_world;

typedef struct mal_sim_setup {
  const mal_simulated_fault *faults;
  int n_faults;
  uint64_t seed;
  bool all_ranks; /* no symmetry */
  mal_routing routing;
  double background; /* share of the fabric's links and of storage that others take */
  bool checkpoint;   /* one is taken in this step */
  int algorithm;     /* of collectives: 1 + mal_algorithm, 0: as NCCL chooses */
} mal_sim_setup;

mal_status mal_sim_world_make(mal_arena *a, const mal_program *p, const mal_sim_setup *setup, mal_sim_world *w,
                              mal_error *e);
/* Index of a kind, -1 when the program has no such. */
int mal_sim_kind_of(const mal_sim_world *w, unsigned axes, bool exchange);
const mal_sim_pattern *mal_sim_group_pattern(mal_sim_world *w, int kind, int32_t group, mal_collective collective);
/* Uses of a message from a class to another, stages apart; over NICs or not. Returns their count, at most message_most. */
int32_t mal_sim_message_most(const mal_sim_world *w, int32_t from, int32_t to);
int32_t mal_sim_message_uses(mal_sim_world *w, int32_t from, int32_t to, mal_flow_use *uses, bool *net);

/* Uses of a copy between a class's GPUs, host memory and drives (mal_place); at most MAL_COPY_USES · n_sockets. */
enum { MAL_COPY_USES = 4 };
int32_t mal_sim_copy_uses(const mal_sim_world *w, int32_t class, int from, int to, mal_flow_use *uses);

static inline int32_t mal_sim_inner_out(const mal_sim_world *w, int32_t class) { return (void)w, class; }
static inline int32_t mal_sim_inner_in(const mal_sim_world *w, int32_t class) { return w->n_classes + class; }
static inline int32_t mal_sim_nic_out(const mal_sim_world *w, int32_t nic) { return 2 * w->n_classes + nic; }
static inline int32_t mal_sim_nic_in(const mal_sim_world *w, int32_t nic) { return 2 * w->n_classes + w->n_nics + nic; }
static inline int32_t mal_sim_storage_read(const mal_sim_world *w) { return 2 * w->n_classes + 2 * w->n_nics; }
static inline int32_t mal_sim_storage_write(const mal_sim_world *w) { return mal_sim_storage_read(w) + 1; }
static inline int32_t mal_sim_pcie(const mal_sim_world *w, int32_t class, bool out) {
  return mal_sim_storage_write(w) + 1 + 2 * class + out;
}
static inline int32_t mal_sim_socket_link(const mal_sim_world *w, int32_t socket, int which) {
  return mal_sim_storage_write(w) + 1 + 2 * w->n_classes + MAL_SOCKET_LINKS * socket + which;
}
static inline int32_t mal_sim_fabric_link(const mal_sim_world *w, int32_t at) {
  return at + (w->hosts ? mal_sim_socket_link(w, w->n_sockets, 0) : mal_sim_storage_write(w) + 1);
}
#endif
