/* Questions the other way round: the smallest machine that meets a deadline or a budget, the fewest GPUs that hold a model, the
 * longest sequence, the largest micro-batch, the most layers that fit a machine.
 *
 * Sizes make a ladder. Steps double until one does (a machine) or does not (what is to fit), then halve. Both answers are only
 * nearly monotone, for degrees must divide GPUs, layers and batch; so rungs beside the answer are looked at too: of a machine
 * every smaller one that the best use of a GPU seen anywhere, and a margin, leaves a chance; of what is to fit a few beyond.
 * A rung is a whole search (or the one layout that was given); where only yes or no matters it stops at a bound on time. */
#ifndef MAL_SEARCH_INVERSE_H
#define MAL_SEARCH_INVERSE_H
#include "search/search.h"

typedef enum mal_ask {
  MAL_ASK_NODES,       /* fewest nodes: fits, and the job's deadline and budget hold */
  MAL_ASK_GPUS,        /* the same, and of one node some of its GPUs */
  MAL_ASK_SEQ,         /* longest sequence that fits, in steps of mal_inverse.step tokens */
  MAL_ASK_MICRO_BATCH, /* largest micro-batch that fits, a divisor of the batch */
  MAL_ASK_PARAMS,      /* most layers of the model that fit */
  MAL_ASKS
} mal_ask;

typedef struct mal_rung {
  int64_t size; /* nodes, GPUs, tokens, sequences, layers */
  int64_t nodes, gpus;
  bool splits; /* there is a layout */
  bool fits;   /* with the probability wanted */
  bool slow;   /* fits is false because of a bound: does not fit, or takes longer than it may */
  bool known;  /* the figures below are the best layout's; else only that it does or does not */
  bool meets;  /* what was asked */
  double step_s, time_s, cost_usd;
} mal_rung;

enum { MAL_INVERSE_NODES = 4096 }; /* of a machine, at most */

typedef struct mal_inverse {
  mal_ask ask;
  bool found;
  bool ends;                  /* the answer is the last size there is: a table of positions ends, or a batch */
  mal_rung answer;            /* not found: what comes nearest */
  mal_rung beside;            /* the next size, with its figures; size 0: there is none */
  int64_t step, checked_from; /* of a machine: every size from here on was looked at */
  mal_rung *tried;            /* by size */
  int count;
  int64_t parameters; /* of the model at the answer */
  mal_plan asked;     /* at the answer: to be searched, or completed */
  const char *fix;    /* of its search */
} mal_inverse;

/* asked: from mal_plan_open. o: how each size is searched; NULL: all have the layout of `asked`. Errors as of mal_search; MAL_BAD
 * when no size can be split. */
mal_status mal_inverse_find(mal_arena *a, const mal_plan *asked, const mal_search_options *o, mal_ask ask,
                            mal_inverse *out, mal_error *e);
#endif
