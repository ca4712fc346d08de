/* Plays one step of every rank on the machine's links, event by event. It shares instruction times and the algorithm of each
 * collective with price, and composes them by itself: streams, messages, shared links, faults. */
#ifndef MAL_SIMULATE_SIMULATE_H
#define MAL_SIMULATE_SIMULATE_H
#include "price/price.h"
#include "simulate/fault.h"
#include "simulate/topology.h"

typedef struct mal_simulate_tables { /* of the stages, in place of the schedule's own */
  mal_step **steps;
  int64_t *count;
} mal_simulate_tables;

typedef struct mal_simulate_options {
  const mal_simulated_fault *faults;
  int n_faults;
  uint64_t seed;
  bool all_ranks; /* play every rank rather than one for each class of equal ones */
  bool alone;     /* transfers never share a link */
  mal_routing routing;
  int algorithm;        /* of collectives, where the hardware has it: 1 + mal_algorithm; 0: as NCCL chooses, and plan */
  double background;    /* share of the fabric's links and of shared storage that others take, 0 .. 0.99 */
  bool checkpoint;      /* one is taken before this step's work and written beside it */
  bool own_jitter;      /* without what price adds for stragglers: so too where a fault names jitter of all ranks */
  const int64_t *ranks; /* whose events go to the timeline */
  int n_ranks;
  mal_timeline *timeline;      /* may be NULL */
  bool detail;                 /* every operation, not only passes, messages and data-parallel traffic */
  mal_simulate_tables *tables; /* may be NULL */
  volatile const int *stop;    /* may be NULL: ends the run when it is not 0 */
} mal_simulate_options;

typedef struct mal_simulated_link { /* links of one class */
  const char *name;
  int64_t count;
  double bytes_per_s; /* of each, one direction */
  double bytes, used,
      busy_s; /* bytes in the step over the busiest; share of what it could carry; time with traffic on it */
  const char *busiest;
} mal_simulated_link;

typedef struct mal_simulated_wait {     /* who waits for whom */
  const char *waiter, *culprit, *where; /* ranks; the group or the message */
  double seconds;                       /* of each of them, in the step */
  int64_t times;
} mal_simulated_wait;

typedef struct mal_simulated_stage {
  double compute_s, exposed_s, bubble_s;
  int64_t memory_bytes;
} mal_simulated_stage;

typedef struct mal_simulated {
  bool finished, interrupted;
  const char *stuck;              /* why it did not finish, NULL */
  double done;                    /* share of the step played */
  double step_s;                  /* with what the plan adds for stragglers, and for checkpoints unless one is played */
  double played_s;                /* as played */
  double bubble_s;                /* of the busiest rank: it waits for other stages */
  double time_s[MAL_TIME_CAUSES]; /* of the busiest rank, sums to step_s */
  double stalled_s, written_s;    /* a checkpoint: training stood; storage has it so long after the step began */
  double flops;                   /* executed, all ranks */
  double bytes_sent[MAL_AXES + 1]; /* by a rank of the busiest stage, as mal_program.bytes_sent */
  int64_t ranks, classes, events;
  int64_t slowest_rank, busiest_rank;
  const char *slowest_link;
  mal_simulated_stage *stages; /* [pp] */
  mal_simulated_link *links;
  int n_links;
  mal_simulated_wait *waits;
  int n_waits;
} mal_simulated;

/* A fault names jitter of all ranks. */
bool mal_simulate_own_jitter(const mal_simulate_options *o);

/* MAL_BAD: a program that waits in a circle, said with ranks and instruction. A rank that died is an answer: finished is false. */
mal_status mal_simulate(mal_arena *a, const mal_program *p, const mal_simulate_options *o, mal_simulated *out,
                        mal_error *e);
#endif
