/* Prices a program on a machine. Reads instruction lists only: no formula of memory or FLOPs that lowering does not produce. */
#ifndef MAL_PRICE_PRICE_H
#define MAL_PRICE_PRICE_H
#include "price/collective.h"
#include "program/program.h"
#include "timeline/timeline.h"

/* Seconds on its own stream: kernel time on the GPU, or the collective alone. host_s (may be NULL): time the host needs to issue it. */
double mal_price_instruction(const mal_plan *plan, const mal_block *b, const mal_instruction *i, double *host_s);

/* One list of one block, list-scheduled over its streams. */
typedef struct mal_list_time {
  double span_s; /* critical path, host included */
  double busy_s[MAL_STREAMS];
  double cause_s[MAL_TIME_CAUSES]; /* sums to span_s; communication only where exposed */
  double host_s;
  int kernels;
} mal_list_time;
mal_list_time mal_price_list(const mal_plan *plan, const mal_block *b, mal_list list);

typedef struct mal_interval {
  double low, high;
} mal_interval; /* 10th and 90th percentile */

typedef struct mal_estimate {
  bool fits;              /* fit_probability is mal_fit_confidence or more (risk.h): the one rule of every verdict */
  bool within;            /* the estimates of GPU memory, host memory and drives hold; it may fit */
  double fit_probability; /* the peak is: risk.h */
  mal_interval memory_interval;     /* of total_bytes */
  int64_t limit_bytes, total_bytes; /* worst stage; limit = GPU memory the driver leaves */
  int worst_stage;
  int64_t memory_bytes[MAL_MEM_CAUSES];
  bool host_fits, nvme_fits;
  double step_s;
  double time_s[MAL_TIME_CAUSES]; /* sums to step_s: the busiest stage's view */
  double bubble_fraction;
  double tokens_per_s, model_flops_per_s_per_gpu, mfu,
      hfu;                    /* MFU: model FLOPs, causal attention halved, over dense peak of the
                                                               precision's product type; HFU: executed FLOPs */
  mal_interval step_interval; /* the profile's width, else that of the class of plan */
  const char *
      interval_class; /* of plan: "dense", "mixture of experts", "host-bound"; the profile's name where it has a width */
  double tokens_to_target, time_to_target_s, goodput, gpu_hours, energy_kwh,
      cost_usd;                                   /* 0 when not asked or not priced */
  double usd_per_mtoken, kwh_per_mtoken, power_w; /* whole machine */
  const char *why;                                /* one line: what binds */
} mal_estimate;

mal_status mal_price(mal_arena *a, const mal_program *p, mal_estimate *out, mal_error *e);
/* Of an estimate, what concerns memory only. */
void mal_price_memory(const mal_program *p, mal_estimate *out);
/* The job's price, else the catalogue's; 0: none known. */
double mal_usd_per_gpu_hour(const mal_plan *plan);
/* The exact composition with the event times of every stage, for pictures and for the simulator's test. */
mal_status mal_price_timeline(mal_arena *a, const mal_program *p, mal_timeline *t, mal_error *e);

/* Smallest changes that make a plan fit, each lowered and priced: "--optimizer adamw-8bit", "--offload-optimizer cpu", "--on 2xdgx-h100",
 * "--train lora". Of one change first, then by how much they disturb, then the fastest. The plan must come from mal_plan_make or
 * mal_plan_read. */
typedef struct mal_remedy {
  char *change; /* as flags that the user can add: they lead to this plan and these numbers, exactly */
  char *words;
  mal_plan plan;
  mal_estimate estimate;
} mal_remedy;
mal_status mal_price_remedies(mal_arena *a, const mal_plan *plan, mal_remedy **remedies, int *count, mal_error *e);
#endif
