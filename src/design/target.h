/* From a training target to a number of nodes: the fewest with which the best layout reaches the tokens before the deadline. */
#ifndef MAL_DESIGN_TARGET_H
#define MAL_DESIGN_TARGET_H
#include "design/design.h"
#include "job/job.h"
#include "price/price.h"

typedef struct mal_target {
  const char *model;   /* as given */
  const char *layout;  /* the best on the nodes that work, as --layout takes it */
  const char *machine; /* "128xdgx-h100" */
  mal_estimate estimate;
  double offload_bytes;    /* of one node in host memory */
  double checkpoint_bytes; /* weights, master weights and states that lowering placed */
} mal_target;

/* Watt-hours of the whole facility for one trained token; 0 without a model that trains. */
double mal_target_wh_per_token(const mal_design *d, const mal_target *t);

/* Fills ask->nodes when neither nodes nor gpus are given (then job.tokens and job.deadline_s must be), and
 * ask->checkpoint_bytes when that is not. MAL_NO: no number of nodes up to MAL_TARGET_NODES_MOST is fast enough. */
enum { MAL_TARGET_NODES_MOST = 4096 };
mal_status mal_design_target(mal_arena *a, const char *model, const mal_job *job, mal_design_ask *ask, mal_target *t,
                             mal_error *e);
#endif
