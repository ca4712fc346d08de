/* Inside simulate: the event engine. Every class of teams is an actor that goes through its stage's table; collectives wait for
 * all members, messages for their sender, and both move as flows on links.
 *
 * Streams. Compute runs in order. Gradient buckets and ZeRO's units queue on the data-parallel stream, one after the other: a bucket
 * may start when the backward pass of the last micro-batch has made its gradients; a unit is gathered `prefetch` units ahead and
 * reduced after its backward pass. Parameters that the optimizer gathers (ZeRO-1 and 2) are taken at the start of the step, where
 * the step before left them, beside the first forward pass.
 *
 * While compute and data-parallel traffic of a rank run at once, each is slower by the profile's dp_exposed (they share SMs and
 * memory). */
#ifndef MAL_SIMULATE_PLAY_H
#define MAL_SIMULATE_PLAY_H
#include "simulate/lists.h"
#include "simulate/simulate.h"

enum { MAL_SIM_F, MAL_SIM_B, MAL_SIM_W, MAL_SIM_BW, MAL_SIM_PASSES };

/* A message that waits or moves, and whom a wait was due to. */
typedef struct mal_sim_blame {
  int32_t waiter, culprit; /* classes */
  int16_t kind;            /* of group; -1: a message between stages */
  double seconds;
  int64_t times;
} mal_sim_blame;

typedef struct mal_sim_played {
  double end_s; /* of the step, or of what was played */
  bool finished, interrupted;
  double done;                        /* share of all table entries that were played */
  double *finish_s;                   /* [class] */
  double (*cause_s)[MAL_TIME_CAUSES]; /* [class] */
  double *compute_s, *waited_s;       /* [class]: busy; idle */
  double flops;                       /* of all ranks */
  double *sent;                       /* [class][MAL_AXES + 1]: bytes of one rank, by axis; messages last */
  double inner_bytes, nic_bytes;      /* of all ranks */
  mal_sim_blame *blames;              /* by seconds · ranks, largest first */
  int64_t n_blames;
  int64_t events;
  double *link_bytes, *link_busy_s; /* [link]: carried by the end of the step; time with traffic */
  double data_s;                    /* the longest wait of a rank for its first token ids */
  double stalled_s;                 /* a checkpoint stopped training */
  double written_s;                 /* when storage has the checkpoint */
  mal_flows *flows;                 /* freed by the caller */
  char *stuck;                      /* why it did not finish */
} mal_sim_played;

typedef struct mal_sim_watch {
  const int64_t *ranks;
  int n_ranks;
  mal_timeline *timeline;            /* may be NULL */
  bool detail;                       /* operations too, not only passes and messages */
  const mal_simulate_tables *tables; /* may be NULL */
  volatile const int *stop;
  uint64_t seed;
  bool alone;                       /* links are never shared: each transfer goes as if alone */
  double checkpoint_bytes, stall_s; /* of each rank, 0: none is taken; what it stops training besides the copy */
} mal_sim_watch;

void mal_sim_used_links(mal_arena *a, const mal_sim_world *w, const mal_sim_played *p, mal_simulated *out);
mal_status mal_sim_play(mal_sim_world *w, const mal_sim_watch *watch, mal_sim_played *out, mal_error *e);
#endif
