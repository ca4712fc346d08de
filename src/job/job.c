#include "job/job.h"
#include "core/file.h"
#include "core/option_file.h"
#include "core/yaml.h"
#include <assert.h>
#include <string.h>

const char *const mal_train_name[] = {"pretrain", "finetune", "lora", "qlora", NULL};
const char *const mal_precision_name[] = {"bf16", "fp16", "fp8", "mxfp8", "nvfp4", "tf32", "fp32", NULL};
const char *const mal_optimizer_name[] = {"adamw", "adamw-bf16", "adamw-8bit", "sgd", "sgd-momentum",
                                          "lion",  "adafactor",  "muon",       NULL};
const char *const mal_gradients_name[] = {"auto", "fp32", "bf16", NULL};
const char *const mal_master_name[] = {"auto", "fp32", "none", NULL};
const char *const mal_lora_targets_name[] = {"all", "attention", NULL};

static_assert(sizeof mal_train_name / sizeof *mal_train_name == MAL_TRAINS + 1, "a name for each");
static_assert(sizeof mal_precision_name / sizeof *mal_precision_name == MAL_PRECISIONS + 1, "a name for each");
static_assert(sizeof mal_optimizer_name / sizeof *mal_optimizer_name == MAL_OPTIMIZERS + 1, "a name for each");

static_assert(sizeof mal_gradients_name / sizeof *mal_gradients_name == MAL_GRADIENT_TYPES + 1, "a name for each");
static_assert(sizeof mal_master_name / sizeof *mal_master_name == MAL_MASTERS + 1, "a name for each");
static_assert(sizeof mal_lora_targets_name / sizeof *mal_lora_targets_name == MAL_LORA_TARGETS + 1, "a name for each");

#define AT(member) offsetof(mal_job, member)

const mal_option mal_job_options[] = {
    {"train", 0, MAL_OPT_CHOICE, AT(train), "KIND", NULL, mal_train_name, N_("pretrain, finetune, lora or qlora")},
    {"precision", 0, MAL_OPT_CHOICE, AT(precision), "TYPE", NULL, mal_precision_name,
     N_("type of the linear layers' products: bf16, fp16, fp8, mxfp8, nvfp4, tf32, fp32")},
    {"optimizer", 0, MAL_OPT_CHOICE, AT(optimizer), "NAME", NULL, mal_optimizer_name,
     N_("adamw, adamw-bf16, adamw-8bit, sgd, sgd-momentum, lion, adafactor, muon")},
    {"gradients", 0, MAL_OPT_CHOICE, AT(gradients), "TYPE", NULL, mal_gradients_name,
     N_("type that gradients are summed and kept in: fp32, or bf16 (with fp16 that); auto: the framework's")},
    {"master", 0, MAL_OPT_CHOICE, AT(master), "TYPE", NULL, mal_master_name,
     N_("master weights beside 16-bit weights: fp32 or none; auto: the framework's, and none with adamw-bf16")},
    {"seq", 's', MAL_OPT_POSITIVE, AT(seq), "N", NULL, NULL,
     N_("tokens of one sequence (default: the model's, up to 8192)")},
    {"global-batch", 'b', MAL_OPT_POSITIVE, AT(global_batch), "N", NULL, NULL, N_("sequences of one step")},
    {"accumulation", 0, MAL_OPT_POSITIVE, AT(accumulation), "N", NULL, NULL,
     N_("micro-batches of one data-parallel rank in a step")},
    {"tokens", 0, MAL_OPT_POSITIVE, AT(tokens), "N", NULL, NULL, N_("tokens to train on, such as 15T")},
    {"lora-rank", 0, MAL_OPT_POSITIVE, AT(lora_rank), "N", NULL, NULL, N_("rank of the LoRA matrices (default 16)")},
    {"lora-targets", 0, MAL_OPT_CHOICE, AT(lora_targets), "WHICH", NULL, mal_lora_targets_name,
     N_("linear layers that get LoRA matrices: all or attention (default all)")},
    {"deadline", 0, MAL_OPT_AMOUNT, AT(deadline_s), "TIME", "s", NULL, N_("time the training may take, such as 30d")},
    {"budget", 0, MAL_OPT_AMOUNT, AT(budget_usd), "USD", "USD", NULL, N_("money the training may cost")},
    {"checkpoint-interval", 0, MAL_OPT_AMOUNT, AT(checkpoint_interval_s), "TIME", "s", NULL,
     N_("time between checkpoints (default: the best by Young and Daly)")},
    {"usd-per-gpu-hour", 0, MAL_OPT_NUMBER, AT(usd_per_gpu_hour), "X", NULL, NULL,
     N_("price of one GPU for an hour (default: the catalogue's)")},
    {"usd-per-kwh", 0, MAL_OPT_NUMBER, AT(usd_per_kwh), "X", NULL, NULL,
     N_("price of electricity (default: not priced)")},
    {"pue", 0, MAL_OPT_NUMBER, AT(pue), "X", NULL, NULL, N_("facility power over IT power (default 1.3)")},
};
const int mal_job_option_count = sizeof mal_job_options / sizeof *mal_job_options;

enum { OPTIONS = sizeof mal_job_options / sizeof *mal_job_options };

void mal_job_default(mal_job *j) {
  *j = (mal_job){
      .lora_rank = 16,
      .usd_per_gpu_hour = -1,
      .usd_per_kwh = -1,
      .pue = 1.3,
  };
}

static mal_status check_bounds(const mal_job *j, const char **key, mal_error *e) {
  if (!(j->pue >= 1 && j->pue <= 10))
    return mal_fail(e, MAL_BAD, _("%s is %g; it must lie between 1 and 10."), *key = "pue", j->pue);
  if (j->lora_rank < 1 || j->lora_rank > MAL_MAX_WIDTH)
    return mal_fail(e, MAL_BAD, _("%s is %lld; it must lie between 1 and the width of the model."), *key = "lora-rank",
                    (long long)j->lora_rank);
  return MAL_OK;
}

mal_status mal_job_check(const mal_job *j, const char **key, mal_error *e) {
  const char *ignored;
  if (!key) key = &ignored;
  *key = NULL;
  mal_status s = check_bounds(j, key, e);
  if (s != MAL_OK || j->tokens > 0) return s;
  if (j->deadline_s > 0)
    return *key = "deadline", mal_fail(e, MAL_BAD, _("--deadline for how many tokens? Add --tokens, as --tokens 15T."));
  if (j->budget_usd > 0)
    return *key = "budget", mal_fail(e, MAL_BAD, _("--budget for how many tokens? Add --tokens, as --tokens 15T."));
  return MAL_OK;
}

mal_status mal_job_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_job *j, mal_error *e) {
  const char *key;
  mal_status s = mal_options_read_text(a, path, text, length, mal_job_options, OPTIONS, j, e);
  if (s != MAL_OK) return s;
  s = check_bounds(j, &key, e); /* flags may yet bring the tokens of a deadline */
  return s == MAL_OK ? s : mal_options_fail_at(path, text, length, key, e);
}

mal_status mal_job_read(mal_arena *a, const char *path, mal_job *j, mal_error *e) {
  char *text;
  size_t length;
  mal_status s = mal_file_read(a, path, MAL_YAML_LIMIT_BYTES, &text, &length, e);
  return s == MAL_OK ? mal_job_parse(a, path, text, length, j, e) : s;
}

mal_dtype mal_precision_gemm(mal_precision p) {
  static const mal_dtype of[MAL_PRECISIONS] = {
      [MAL_P_BF16] = MAL_BF16, [MAL_P_FP16] = MAL_F16,  [MAL_P_FP8] = MAL_F8,   [MAL_P_MXFP8] = MAL_F8,
      [MAL_P_NVFP4] = MAL_F4,  [MAL_P_TF32] = MAL_TF32, [MAL_P_FP32] = MAL_F32,
  };
  return of[p];
}

mal_dtype mal_precision_store(mal_precision p) {
  if (p == MAL_P_TF32 || p == MAL_P_FP32) return MAL_F32;
  return p == MAL_P_FP16 ? MAL_F16 : MAL_BF16;
}
