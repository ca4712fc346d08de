/* The best layouts of one model on one machine for one job: all that lowering knows, optimum proven.
 *
 * Candidates are built from factor lists and grouped; a group is dismissed when a bound says that none of it can be among the
 * best: bytes of states, bytes of activations (the number of recomputed layers is solved for), then the least time a step can
 * take. What is left is lowered and priced as `malha plan --layout` does it, so that what is said of a layout here is exactly
 * what is said of it there. Bounds never exceed what they bound; tests hold them to that, and the best to brute force. */
#ifndef MAL_SEARCH_SEARCH_H
#define MAL_SEARCH_SEARCH_H
#include "price/price.h"

typedef enum mal_objective {
  MAL_BEST_TIME,   /* least seconds a step */
  MAL_BEST_COST,   /* least USD a token; without a price the same as time */
  MAL_BEST_ENERGY, /* least kWh a token */
  MAL_BEST_MEMORY, /* least bytes on the fullest GPU */
  MAL_OBJECTIVES
} mal_objective;
extern const char *const mal_objective_name[]; /* "time", ...; NULL ends it */

/* Memory is predicted to within a few percent. A layout is taken only when it holds with this probability, unless told
 * otherwise: plans that fill the last GiB run out of memory in practice. */
#define MAL_FIT_PROBABILITY 0.9
enum { MAL_SEARCH_MOST = 100, MAL_SEARCH_KEEP = 5 };

typedef struct mal_search_options {
  int keep;               /* best layouts wanted, up to MAL_SEARCH_MOST; 0: MAL_SEARCH_KEEP */
  int objective;          /* mal_objective */
  int threads;            /* 0: as many as the cores that this process may use */
  double fit_probability; /* least; 0: MAL_FIT_PROBABILITY */
  const char *fix;        /* keys of --layout that every candidate has, "tp=8,zero=1"; NULL: none */
  double most_score;      /* what scores above it is of no use; 0: no limit */
  bool any;               /* whether anything fits is all that is wanted: ends with the first that does */
  bool no_nearest;        /* nothing fits: do not look for what comes nearest */
} mal_search_options;

typedef struct mal_choice {
  mal_plan plan; /* complete; mal_lower and mal_price give `estimate` again */
  mal_estimate estimate;
  double score; /* in the objective's unit, less is better; with offload 3 % more, which it has to be worth */
} mal_choice;

typedef struct mal_search_result {
  mal_choice *best;   /* best first; layouts that differ in nothing that is priced are one */
  int count;          /* 0: nothing fits */
  mal_choice nearest; /* nothing fits: what needs least memory of what was priced; plan.profile NULL: nothing was */
  double space;       /* every combination of options whose degrees multiply to the GPUs */
  double valid;       /* of them, what can be lowered */
  double bounded;     /* of valid, dismissed by a bound on memory or time, or because another is never worse */
  double evaluated;   /* of valid, priced exactly */
  double fitting;     /* of evaluated, with the probability that was asked for */
  double seconds;
  bool optimum_proven;
} mal_search_result;

/* asked: from mal_plan_open; its layout is not looked at. A job without a global batch gets one (mal_search_batch), for layouts
 * compare at one batch only. Errors (exit 2): fix that does not parse, or leaves no layout that can be lowered: says why.
 * Nothing fits: MAL_OK with count 0. */
mal_status mal_search(mal_arena *a, const mal_plan *asked, const mal_search_options *o, mal_search_result *out,
                      mal_error *e);

/* Tokens of a sequence: the job's, else the model's own up to 8192. */
int64_t mal_search_sequence(const mal_plan *asked);
/* Sequences of a step when the job does not say: 4 Mi tokens (Llama 3 began with as many: arXiv 2407.21783, section 3.4.1),
 * as a number that splits over the GPUs: their odd part times a power of two. */
int64_t mal_search_batch(const mal_plan *asked);
#endif
