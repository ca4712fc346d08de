/* How it is trained. Filled from flags or job.yaml by one option table (mal_job_options). */
#ifndef MAL_JOB_JOB_H
#define MAL_JOB_JOB_H
#include "core/options.h"
#include "model/model.h"

typedef enum mal_train { MAL_PRETRAIN, MAL_FINETUNE, MAL_LORA, MAL_QLORA, MAL_TRAINS } mal_train;
typedef enum mal_precision {
  MAL_P_BF16,
  MAL_P_FP16,
  MAL_P_FP8,
  MAL_P_MXFP8,
  MAL_P_NVFP4,
  MAL_P_TF32,
  MAL_P_FP32,
  MAL_PRECISIONS
} mal_precision;
typedef enum mal_optimizer {                 /* bytes of state per trained parameter, beside the master weight */
                             MAL_ADAMW,      /* 8: two fp32 moments */
                             MAL_ADAMW_BF16, /* 4: two bf16 moments, and no fp32 master */
                             MAL_ADAMW8BIT, /* 2 + 8/256·... : two 8-bit moments with one fp32 scale per 256-block each (bitsandbytes) */
                             MAL_SGD,          /* 0 */
                             MAL_SGD_MOMENTUM, /* 4 */
                             MAL_LION,         /* 4 */
                             MAL_ADAFACTOR,    /* rows + columns: ~0 */
                             MAL_MUON,         /* 4 on matrices, 8 elsewhere */
                             MAL_OPTIMIZERS
} mal_optimizer;
/* AUTO: as the framework does (its profile). See job/types.h. */
typedef enum mal_gradients {
  MAL_GRADIENTS_AUTO,
  MAL_GRADIENTS_FP32,
  MAL_GRADIENTS_BF16,
  MAL_GRADIENT_TYPES
} mal_gradients; /* BF16: the compute type, 2 bytes */
typedef enum mal_lora_targets { MAL_LORA_ALL, MAL_LORA_ATTENTION, MAL_LORA_TARGETS } mal_lora_targets;
typedef enum mal_master { MAL_MASTER_AUTO, MAL_MASTER_FP32, MAL_MASTER_NONE, MAL_MASTERS } mal_master;

typedef struct mal_job {
  int train, precision, optimizer;      /* the enums above */
  int gradients, master;                /* types of gradients and master weights, beside 16-bit weights */
  int64_t seq;                          /* tokens of one sequence; 0: the model's own length up to 8192 */
  int64_t global_batch;                 /* sequences of one step; 0: derived */
  int64_t accumulation;                 /* micro-batches per data-parallel rank and step; 0: derived */
  int64_t tokens;                       /* token target; 0: not asked */
  int64_t lora_rank;                    /* 16 */
  int lora_targets;                     /* mal_lora_targets: every linear layer, or attention's (q,k,v,o) */
  double deadline_s, budget_usd;        /* 0: none */
  double checkpoint_interval_s;         /* 0: best by Young and Daly */
  double usd_per_gpu_hour, usd_per_kwh; /* < 0: the catalogue's, or not priced */
  double pue;                           /* facility over IT power: 1.3 unless told */
} mal_job;

extern const mal_option
    mal_job_options[]; /* --seq --global-batch --accumulation --tokens --train --precision --optimizer ... */
extern const int mal_job_option_count;
extern const char *const mal_train_name[], *const mal_precision_name[], *const mal_optimizer_name[];
extern const char *const mal_gradients_name[], *const mal_master_name[], *const mal_lora_targets_name[];

void mal_job_default(mal_job *j);
mal_status mal_job_read(mal_arena *a, const char *path, mal_job *j, mal_error *e); /* job.yaml; keys = option names */
mal_status mal_job_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_job *j, mal_error *e);
/* What no option's parser sees, before any model or machine is known: values out of bounds, and options that want another.
 * The one place of these rules. *key (unless NULL): the option that is wrong, NULL when none is. */
mal_status mal_job_check(const mal_job *j, const char **key, mal_error *e);
mal_dtype mal_precision_gemm(mal_precision p);  /* type of the linear layers' products */
mal_dtype mal_precision_store(mal_precision p); /* type of activations and computed weights in memory */
#endif
