/* What plan and lower share: model, machines, layout, job and profile from flags, job.yaml or plan.json. */
#ifndef MAL_CLI_INPUTS_H
#define MAL_CLI_INPUTS_H
#include "cli/cli.h"
#include "plan/plan.h"

typedef struct mal_run_flags { /* of train; 0: not given */
  const char *data, *eval, *out, *init, *save_hf;
  int hf_dtype; /* of the files that save_hf writes: index into mal_hf_dtype_name */
  int64_t ranks, steps, warmup, eval_every, eval_batches, seed, checkpoint_every, restarts;
  bool resume;
  int rate;     /* mal_rate_schedule */
  int ranks_as; /* 0 threads, 1 processes */
  double lr, weight_decay, clip, beta1, beta2;
} mal_run_flags;

typedef struct mal_inputs {
  const char *model, *on, *layout_text, *offload, *profile, *job_file, *from;
  const char *output, *trace; /* of the verbs */
  const char *target, *hosts; /* of export: --for */
  const char *fix, *against;  /* of the search */
  const char *nodes, *prices; /* of plan */
  int least, most;            /* mal_least, mal_most */
  int objective;
  int64_t best, threads;
  double fit_probability;
  bool json, help, has_layout;
  mal_run_flags run;
  struct { /* of simulate */
    const char *fault, *ranks, *svg, *spares;
    int routing;
    bool all_ranks, checkpoint;
    int algorithm;
    int64_t seed, runs;
    double background, days, repair_s, restart_s;
  } simulate;
  mal_job job;
  mal_layout layout;
  const mal_kept *kept; /* of --from */
  int n_kept;
  char **machines; /* --on, split */
  int n_machines;
} mal_inputs;

/* own: the verb's further options, into the same struct. Later flags win over earlier ones, flags over --job and --layout,
 * these over --from. Says what is missing; a missing layout (has_layout false) is left to the caller. */
mal_status mal_inputs_parse(mal_arena *a, const mal_option *own, int own_count, int argc, char **argv, mal_inputs *in,
                            mal_error *e);
/* The plan on machine i of in->machines. */
mal_status mal_inputs_plan(mal_arena *a, const mal_inputs *in, int i, mal_plan *plan, mal_error *e);

/* What is the same in every verb with such inputs: options read, help shown, `run` called, the page printed. Returns the exit
 * code. `run` may be called without a layout (has_layout). */
typedef mal_status mal_inputs_run(mal_arena *a, const mal_inputs *in, int argc, char **argv, mal_page *page,
                                  mal_error *e);
int mal_inputs_main(const mal_option *own, int own_count, int argc, char **argv, mal_inputs_run *run);

#endif
