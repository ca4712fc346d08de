/* What a step pays beside training: token ids that come from the host, checkpoints that go there; and what failures cost.
 *
 * Data: the host reads ahead and copies the ids of a micro-batch beside the products of the one before; only the first copy of a
 * step is waited for.
 * Checkpoints are asynchronous: training stops while every GPU copies its part of weights and states to host memory; they are
 * written to storage meanwhile. With a token target or an interval asked for, the stall is part of the step, spread over the
 * steps between two checkpoints; else it counts in the goodput. Never in both. */
#ifndef MAL_PRICE_UPKEEP_H
#define MAL_PRICE_UPKEEP_H
#include "price/compose.h"
#include "reliability/horizon.h"

typedef struct mal_upkeep {
  double data_s;     /* of a step, exposed */
  double stall_s;    /* of a checkpoint: training stops */
  double write_s;    /* of a checkpoint: until storage has it */
  double read_s;     /* of a checkpoint, back from storage */
  double restart_s;  /* from a failure until training goes on, beside reading the checkpoint back */
  double interval_s; /* between checkpoints: the job's, else Daly's best, never shorter than write_s */
  bool in_step;      /* the stall is in the step */
  double goodput; /* share of the time that is left when failures, restarts and what is not in the step are taken off */
} mal_upkeep;
mal_upkeep mal_upkeep_of(const mal_program *p);

/* The same failures, checkpoints and restarts as goodput has them, for playing (nodes, kinds and times of j). */
void mal_upkeep_horizon(mal_arena *a, const mal_plan *plan, const mal_upkeep *u, mal_horizon_job *j);

/* Bytes/s that shared storage takes from (gives to) one node, and all nodes of the machine together. */
typedef struct mal_storage_rate {
  double node, all;
} mal_storage_rate;
mal_storage_rate mal_storage_writes(const mal_machine *m);
mal_storage_rate mal_storage_reads(const mal_machine *m);

/* Token ids of one micro-batch on their way to a GPU, labels beside them. */
double mal_data_bytes(const mal_plan *plan);

/* What a checkpoint holds: every trained element that lowering placed, once, as weight, master and states. */
double mal_checkpoint_bytes(const mal_program *p);

/* Adds data and stall to a step and its causes. */
void mal_upkeep_add(const mal_upkeep *u, mal_step_time *step);
#endif
