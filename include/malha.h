/* Malha as a library: can a language model be trained on a machine, how should it be split, how fast will it be?
 *
 *   malha_model *model;
 *   malha_machine *machine;
 *   malha_plan *plan;
 *   malha_error error;
 *   if (malha_model_load("llama-3-8b", &model, &error) != MALHA_OK) ...
 *   if (malha_machine_load("8xh100-sxm", &machine, &error) != MALHA_OK) ...
 *   if (malha_plan_make(model, machine, NULL, "zero=3,micro-batch=1,recompute=full", NULL, &plan, &error) != MALHA_OK) ...
 *   malha_estimate estimate = {.size = sizeof estimate};
 *   malha_plan_estimate(plan, &estimate);
 *   printf("%g s a step\n", estimate.step_s);
 *   malha_plan_free(plan); malha_machine_free(machine); malha_model_free(model);
 *
 * Build with `pkg-config --cflags --libs malha`. The header is C99 and C++. Names that begin with malha_ or MALHA_ are the whole of the
 * interface and keep their meaning within a major version; fields are only ever added, at the end of malha_estimate and of
 * malha_search_options.
 *
 * Text is UTF-8. Quantities are SI: bytes, seconds, watts, FLOP/s; shares lie between 0 and 1. A text or an array that a
 * function returns belongs to the object that it came from and lives as long. Objects hold what they were made from: free them in any
 * order. Every *_free takes NULL. Different objects may be used by different threads at once, one object by one thread at a time,
 * except that any number of plans may be made from one model, machine and job at once.
 *
 * The catalogue is the one installed with the library, or the folder that the environment variable MALHA_CATALOG names. */
#ifndef MALHA_H
#define MALHA_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MALHA_VERSION_MAJOR 0
#define MALHA_VERSION_MINOR 1

/* "0.1.0", of the library that runs. */
const char *malha_version(void);

/* --- errors ---------------------------------------------------------------------------------------------------------------- */

typedef enum malha_status {
  MALHA_OK = 0,    /* done */
  MALHA_NO = 1,    /* the answer is no: nothing fits */
  MALHA_BAD = 2,   /* a name, a value or a file that makes no sense */
  MALHA_FAULT = 3, /* out of memory, a disk error, a fault of the library */
} malha_status;

/* What went wrong, where (file, line, key) and what to do, in English; filled when a function does not return MALHA_OK, and then the
 * objects that it would have made are NULL. Wherever a malha_error * is taken it may be NULL. */
typedef struct malha_error {
  malha_status status;
  char text[2048];
} malha_error;

/* --- what is asked --------------------------------------------------------------------------------------------------------- */

typedef struct malha_model malha_model;
typedef struct malha_machine malha_machine;
typedef struct malha_job malha_job;

/* A built-in name, the path of a config.json or of the folder that holds it, or a description such as
 * "layers=96,hidden=12288,heads=96,ffn=49152,vocab=51200". */
malha_status malha_model_load(const char *name, malha_model **model, malha_error *error);
double malha_model_parameters(const malha_model *model);
void malha_model_free(malha_model *model);

/* "8xh100-sxm", "16x8xh100-sxm", "4xdgx-h100" or the path of a machine file. */
malha_status malha_machine_load(const char *name, malha_machine **machine, malha_error *error);
int64_t malha_machine_gpus(const malha_machine *machine);
void malha_machine_free(malha_machine *machine);

/* The defaults of `malha plan`; NULL only when memory is out. */
malha_job *malha_job_new(void);
/* One option of `malha plan --help`, section "job", without its dashes: ("global-batch", "1024"), ("tokens", "15T"). */
malha_status malha_job_set(malha_job *job, const char *name, const char *value, malha_error *error);
/* All that a job.yaml says. */
malha_status malha_job_read(malha_job *job, const char *path, malha_error *error);
void malha_job_free(malha_job *job);

/* --- plans ----------------------------------------------------------------------------------------------------------------- */

/* A layout with its estimate. */
typedef struct malha_plan malha_plan;

/* The plan of one layout, as --layout takes it: "tp=8,pp=2,micro-batch=1". job NULL: the defaults. profile: the framework that runs it,
 * "megatron", "fsdp2", "deepspeed", "malha"; NULL: the default for the layout. A plan that does not fit is a plan: its estimate says so.
 * MALHA_BAD: no such split of this model on this machine. */
malha_status malha_plan_make(const malha_model *model, const malha_machine *machine, const malha_job *job,
                             const char *layout, const char *profile, malha_plan **plan, malha_error *error);
/* From the plan.json that `malha plan -o` or malha_plan_write wrote. */
malha_status malha_plan_read(const char *path, malha_plan **plan, malha_error *error);
malha_status malha_plan_write(const malha_plan *plan, const char *path, malha_error *error);
void malha_plan_free(malha_plan *plan);

/* The layout in as few keys as give it back. */
const char *malha_plan_layout(const malha_plan *plan);
/* What `malha plan` prints, 80 columns, and `malha plan --json` (docs/schema/plan.json); NULL only when memory is out. When it does not
 * fit both say what would, which takes longer. */
const char *malha_plan_text(malha_plan *plan);
const char *malha_plan_json(malha_plan *plan);

/* Set size to sizeof(malha_estimate) before the call: a library older or newer than the program fills what both know. */
typedef struct malha_estimate {
  size_t size;
  int32_t fits;           /* 1: holds with a probability of 0.9 or more, offloaded states included */
  double fit_probability; /* that GPU memory holds in spite of the spread of such estimates */
  double memory_bytes;    /* of the fullest GPU, and what it has */
  double memory_low_bytes, memory_high_bytes; /* 10th and 90th percentile */
  double limit_bytes;
  double step_s;                  /* one optimizer step */
  double step_low_s, step_high_s; /* 10th and 90th percentile */
  double tokens_per_s;            /* of the whole machine */
  double mfu;             /* model FLOPs, causal attention halved, recomputation not counted, over the dense peak */
  double hfu;             /* the same of all FLOPs executed */
  double bubble_fraction; /* share of the step in which the pipeline idles */
  double power_w;         /* of the whole machine */
  double time_to_target_s, goodput; /* 0 without tokens in the job; failures and restarts included */
  double gpu_hours, energy_kwh, cost_usd;
  double usd_per_mtoken; /* 0: no price known */
} malha_estimate;

/* MALHA_BAD when size was not set. */
malha_status malha_plan_estimate(const malha_plan *plan, malha_estimate *estimate);

/* --- search ---------------------------------------------------------------------------------------------------------------- */

typedef enum malha_objective {
  MALHA_BEST_TIME = 0,
  MALHA_BEST_COST = 1,   /* USD a token; without a price the same as time */
  MALHA_BEST_ENERGY = 2, /* kWh a token */
  MALHA_BEST_MEMORY = 3  /* bytes on the fullest GPU */
} malha_objective;

/* Set size to sizeof(malha_search_options); what is 0 or NULL takes its default. */
typedef struct malha_search_options {
  size_t size;
  int32_t objective;      /* malha_objective */
  int32_t threads;        /* default: one for each core */
  double fit_probability; /* a layout is taken only when it fits with this probability; default 0.9 */
  const char *fix;        /* keys of a layout that all have, "tp=8,zero=1" */
  const char *profile;    /* default: that of each layout */
} malha_search_options;

/* The best layouts of all, best first, proven: plans[0 .. *count - 1], each to be freed. *count goes in as the room that plans has (at most
 * 100 are kept) and comes out as how many there are. A job without a global batch gets one, the same for all. options NULL: the
 * defaults. MALHA_NO, with *count 0: nothing fits. */
malha_status malha_search(const malha_model *model, const malha_machine *machine, const malha_job *job,
                          const malha_search_options *options, malha_plan **plans, int32_t *count, malha_error *error);

#ifdef __cplusplus
}
#endif
#endif
