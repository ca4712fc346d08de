/* What to run when the nodes are delivered, from one GPU to all of them, and what it must give. Numbers are the model's for this
 * machine at its best (price/expected.h), so that they agree with what `malha check` says of the same logs. */
#ifndef MAL_DESIGN_KIT_ACCEPTANCE_H
#define MAL_DESIGN_KIT_ACCEPTANCE_H
#include "design/design.h"

typedef enum mal_delivery_stage {
  MAL_STAGE_NODE,
  MAL_STAGE_PAIR,
  MAL_STAGE_UNIT,
  MAL_STAGE_ALL,
  MAL_STAGES
} mal_delivery_stage;
extern const char
    *const mal_delivery_stage_name[]; /* "node": each alone, "pair", "unit": of a leaf or scalable unit, "all" */

typedef struct mal_acceptance {
  int stage;        /* mal_delivery_stage */
  int64_t nodes;    /* that run it together */
  const char *name; /* file of its log: "node-all_reduce" */
  const char *what; /* in words */
  const char *command;
  double expected, reject; /* below reject the delivery is refused; both 0: the command's own verdict counts */
  const char *unit;        /* "GB/s", "TFLOP/s" */
  const char *source;      /* of expected */
} mal_acceptance;

enum { MAL_ACCEPTANCE_MOST = 40 };
/* list: room for MAL_ACCEPTANCE_MOST; returns how many. */
int mal_acceptance_list(mal_arena *a, const mal_design *d, mal_acceptance *list);
/* The list as CSV, and as a shell script that runs a stage under Slurm, keeps every log and has `malha check` judge them. */
char *mal_acceptance_csv(mal_arena *a, const mal_acceptance *list, int n);
char *mal_acceptance_script(mal_arena *a, const mal_design *d, const mal_acceptance *list, int n);
#endif
