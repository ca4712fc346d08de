#include "launch/megatron.h"
#include <stdlib.h>
#include <string.h>

typedef long long ll;

static int64_t world_over(const mal_bridge *b, int64_t part) {
  int64_t world = b->nodes * b->gpus;
  return part > 0 && world % part == 0 ? world / part : 0;
}

static bool has(const mal_bridge *b, const char *key) { return mal_setting_find(b->settings, key) != NULL; }

static bool says(const mal_bridge *b, const char *key, const char *value) {
  const char *now = mal_setting_value(mal_setting_find(b->settings, key));
  return now && strcmp(now, value) == 0;
}

/* A whole number; found false where the key is not there or only the running job knows it. */
static mal_status number(mal_bridge *b, const char *key, int64_t *value, bool *found, mal_error *e) {
  const mal_setting *s = mal_setting_find(b->settings, key);
  *found = false;
  if (!s || !s->n_values || mal_setting_open(s)) return MAL_OK;
  char *end;
  *value = strtoll(s->values[0], &end, 10);
  if (end == s->values[0] || *end || *value < 0 || *value > (INT64_C(1) << 52))
    return mal_setting_fail(s, e, _("is %s; a whole number is wanted."), s->values[0]);
  *found = true;
  return MAL_OK;
}

/* --- precision -------------------------------------------------------------------------------------------------------- */

static void write_precision(mal_bridge *b, const mal_row *row) {
  int p = b->plan->job.precision;
  if (p == MAL_P_FP16)
    mal_setting_put(b->settings, "--fp16", NULL);
  else if (p != MAL_P_FP32 && p != MAL_P_TF32)
    mal_setting_put(b->settings, "--bf16", NULL);
  if (p == MAL_P_FP8 || p == MAL_P_MXFP8) mal_setting_put(b->settings, "--fp8-format", "hybrid");
  if (p == MAL_P_MXFP8) mal_setting_put(b->settings, "--fp8-recipe", "mxfp8");
  if (p == MAL_P_NVFP4) mal_setting_put(b->settings, "--fp4-format", "e2m1");
  if (p == MAL_P_TF32)
    mal_noun_lost(b, row->noun, _("Megatron-LM leaves it to PyTorch (torch.backends.cuda.matmul.allow_tf32)."));
}

static mal_status read_precision(mal_bridge *b, const mal_row *row, mal_error *e) {
  const char *p = "fp32";
  if (mal_setting_take(b->settings, "--bf16")) p = "bf16";
  if (mal_setting_take(b->settings, "--fp16")) p = "fp16";
  if (has(b, "--fp8-format")) p = says(b, "--fp8-recipe", "mxfp8") ? "mxfp8" : "fp8";
  if (has(b, "--fp4-format")) p = "nvfp4";
  if (says(b, "--fp8-format", "hybrid")) mal_setting_take(b->settings, "--fp8-format");
  if (says(b, "--fp8-recipe", "mxfp8") || says(b, "--fp8-recipe", "delayed"))
    mal_setting_take(b->settings, "--fp8-recipe");
  if (says(b, "--fp4-format", "e2m1")) mal_setting_take(b->settings, "--fp4-format");
  return mal_noun_set(b, row->noun, p, NULL, e);
}

/* --- optimizer and its states ------------------------------------------------------------------------------------------- */

static void write_optimizer(mal_bridge *b, const mal_row *row) {
  static const char *const names[MAL_OPTIMIZERS] = {
      [MAL_ADAMW] = "adam",       [MAL_ADAMW_BF16] = "adam", [MAL_SGD] = "sgd",
      [MAL_SGD_MOMENTUM] = "sgd", [MAL_LION] = "lion",       [MAL_MUON] = "muon",
  };
  const mal_job *job = &b->plan->job;
  if (!names[job->optimizer]) {
    mal_noun_lost(b, row->noun, _("Megatron-LM has no such optimizer."));
    return;
  }
  mal_setting_put(b->settings, "--optimizer", names[job->optimizer]);
  if (job->optimizer == MAL_SGD) mal_setting_put(b->settings, "--sgd-momentum", "0");
  if (job->optimizer == MAL_ADAMW_BF16) {
    mal_setting_put(b->settings, "--use-precision-aware-optimizer", NULL);
    mal_setting_put(b->settings, "--exp-avg-dtype", "bf16");
    mal_setting_put(b->settings, "--exp-avg-sq-dtype", "bf16");
  }
  bool narrow = job->precision != MAL_P_FP32 && job->precision != MAL_P_TF32;
  if (narrow && !b->plan->profile->master_fp32)
    mal_noun_lost(b, "master", _("Megatron-LM keeps fp32 master weights beside 16-bit weights."));
}

static mal_status read_optimizer(mal_bridge *b, const mal_row *row, mal_error *e) {
  static const mal_pair names[] = {{"adamw", "adam"},     {"sgd-momentum", "sgd"}, {"muon", "muon"},
                                   {"muon", "dist_muon"}, {"lion", "lion"},        {0}};
  const mal_setting *s = mal_setting_find(b->settings, "--optimizer");
  const char *ours = "adamw", *theirs = mal_setting_value(s);
  for (const mal_pair *w = names; theirs && w->ours; w++)
    if (strcmp(theirs, w->theirs) == 0) {
      ours = w->ours;
      if (strcmp(theirs, "dist_muon") != 0) mal_setting_take(b->settings, "--optimizer");
      break;
    }
  const char *momentum = mal_setting_value(mal_setting_find(b->settings, "--sgd-momentum"));
  if (strcmp(ours, "sgd-momentum") == 0 && momentum && strtod(momentum, NULL) == 0) {
    ours = "sgd";
    mal_setting_take(b->settings, "--sgd-momentum");
  }
  if (strcmp(ours, "adamw") == 0 && says(b, "--exp-avg-dtype", "bf16") && says(b, "--exp-avg-sq-dtype", "bf16")) {
    ours = "adamw-bf16";
    mal_setting_take(b->settings, "--exp-avg-dtype");
    mal_setting_take(b->settings, "--exp-avg-sq-dtype");
    mal_setting_take(b->settings, "--use-precision-aware-optimizer");
    b->job.master = MAL_MASTER_FP32;
  }
  return mal_noun_set(b, row->noun, ours, s, e);
}

static void write_offload(mal_bridge *b, const mal_row *row) {
  int where = b->plan->layout.offload_optimizer;
  if (where == MAL_OFFLOAD_NVME) mal_noun_lost(b, row->noun, _("Megatron-LM offloads to the host's memory only."));
  if (where == MAL_OFFLOAD_NONE) return;
  mal_setting_put(b->settings, "--optimizer-cpu-offload", NULL);
  if (b->plan->job.optimizer != MAL_ADAMW_BF16) mal_setting_put(b->settings, "--use-precision-aware-optimizer", NULL);
}

static mal_status read_offload(mal_bridge *b, const mal_row *row, mal_error *e) {
  if (!mal_setting_take(b->settings, "--optimizer-cpu-offload")) return MAL_OK;
  mal_setting_take(b->settings, "--use-precision-aware-optimizer");
  return mal_noun_set(b, row->noun, "cpu", NULL, e);
}

/* --- ZeRO ------------------------------------------------------------------------------------------------------------- */

static const mal_pair strategies[] = {
    {"0", "no_shard"}, {"1", "optim"}, {"2", "optim_grads"}, {"3", "optim_grads_params"}, {0}};

static void write_zero(mal_bridge *b, const mal_row *row) {
  (void)row;
  const mal_layout *l = &b->plan->layout;
  if (l->zero >= 1) mal_setting_put(b->settings, "--use-distributed-optimizer", NULL);
  if (l->zero < 2) return;
  mal_setting_put(b->settings, "--use-megatron-fsdp", NULL);
  mal_setting_put(b->settings, "--data-parallel-sharding-strategy", strategies[l->zero].theirs);
  mal_setting_put(b->settings, "--ckpt-format", "fsdp_dtensor");
  if (l->hybrid && l->hybrid < l->dp * l->cp)
    mal_setting_number(b->settings, "--num-distributed-optimizer-instances", l->dp * l->cp / l->hybrid);
}

static mal_status read_zero(mal_bridge *b, const mal_row *row, mal_error *e) {
  bool sharded = mal_setting_take(b->settings, "--use-distributed-optimizer");
  bool fsdp =
      mal_setting_take(b->settings, "--use-megatron-fsdp") || mal_setting_take(b->settings, "--use-custom-fsdp");
  const char *stage = sharded ? "1" : "0";
  int64_t instances = 1;
  bool found;
  if (mal_setting_take(b->settings, "--use-torch-fsdp2")) stage = "3";
  if (fsdp) {
    const mal_setting *s = mal_setting_find(b->settings, "--data-parallel-sharding-strategy");
    const char *theirs = s ? mal_setting_value(s) : "no_shard";
    for (const mal_pair *w = strategies; theirs && w->ours; w++)
      if (strcmp(w->theirs, theirs) == 0) {
        stage = w->ours;
        mal_setting_take(b->settings, "--data-parallel-sharding-strategy");
      }
    if (says(b, "--ckpt-format", "fsdp_dtensor")) mal_setting_take(b->settings, "--ckpt-format");
  }
  mal_status status = number(b, "--num-distributed-optimizer-instances", &instances, &found, e);
  if (status != MAL_OK) return status;
  int64_t ranks = world_over(b, b->layout.tp * b->layout.pp);
  if (strcmp(stage, "3") == 0 && instances > 1 && ranks > 0 && ranks % instances == 0) {
    b->layout.hybrid = ranks / instances;
    mal_setting_take(b->settings, "--num-distributed-optimizer-instances");
  }
  return mal_noun_set(b, row->noun, stage, NULL, e);
}

/* --- recomputation ---------------------------------------------------------------------------------------------------- */

static void write_recompute(mal_bridge *b, const mal_row *row) {
  const mal_layout *l = &b->plan->layout;
  if (l->recompute == MAL_RECOMPUTE_NONE) return;
  mal_setting_put(b->settings, "--recompute-granularity", mal_recompute_name[l->recompute]);
  if (l->recompute == MAL_RECOMPUTE_SELECTIVE) return;
  bool some = l->recompute_layers >= 0; /* theirs counts layers of a chunk, ours of a stage */
  mal_setting_put(b->settings, "--recompute-method", some ? "block" : "uniform");
  mal_setting_number(b->settings, "--recompute-num-layers", some ? (l->recompute_layers + l->vpp - 1) / l->vpp : 1);
  if (some && l->recompute_layers % l->vpp)
    mal_noun_lost(b, row->noun,
                  _("Megatron-LM counts them by chunk: each recomputes as many; written are more, rounded up."));
}

static mal_status read_recompute(mal_bridge *b, const mal_row *row, mal_error *e) {
  (void)row;
  int64_t layers = 1;
  bool found;
  mal_status status = number(b, "--recompute-num-layers", &layers, &found, e);
  if (status != MAL_OK) return status;
  bool old = mal_setting_take(b->settings, "--recompute-activations");
  if (says(b, "--recompute-granularity", "selective") || old) {
    b->layout.recompute = MAL_RECOMPUTE_SELECTIVE;
    mal_setting_take(b->settings, "--recompute-granularity");
    if (says(b, "--recompute-modules", "core_attn")) mal_setting_take(b->settings, "--recompute-modules");
  } else if (says(b, "--recompute-granularity", "full")) {
    b->layout.recompute = MAL_RECOMPUTE_FULL;
    mal_setting_take(b->settings, "--recompute-granularity");
    bool block = says(b, "--recompute-method", "block");
    if (block && found) b->layout.recompute_layers = layers * (b->layout.vpp > 0 ? b->layout.vpp : 1);
    if (block || says(b, "--recompute-method", "uniform")) mal_setting_take(b->settings, "--recompute-method");
    if (block || layers == 1) mal_setting_take(b->settings, "--recompute-num-layers");
  }
  return MAL_OK;
}

/* --- the pipeline ----------------------------------------------------------------------------------------------------- */

static void write_schedule(mal_bridge *b, const mal_row *row) {
  const mal_layout *l = &b->plan->layout;
  if (l->schedule == MAL_INTERLEAVED)
    mal_setting_number(b->settings, "--num-virtual-stages-per-pipeline-rank", l->vpp);
  else if (l->schedule != MAL_1F1B)
    mal_noun_lost(b, row->noun, _("Megatron-LM runs 1F1B, interleaved or not."));
  if (l->embedding_in_layers) {
    mal_setting_put(b->settings, "--account-for-embedding-in-pipeline-split", NULL);
    mal_setting_put(b->settings, "--account-for-loss-in-pipeline-split", NULL);
  }
  if (l->pp > 1 && !l->overlap_pp) mal_setting_put(b->settings, "--no-overlap-p2p-communication", NULL);
}

static mal_status read_schedule(mal_bridge *b, const mal_row *row, mal_error *e) {
  (void)row;
  int64_t n, layers;
  bool found, known;
  mal_status status = number(b, "--num-virtual-stages-per-pipeline-rank", &n, &found, e);
  if (status == MAL_OK && found) {
    b->layout.vpp = n;
    mal_setting_take(b->settings, "--num-virtual-stages-per-pipeline-rank");
  }
  if (status == MAL_OK) status = number(b, "--num-layers-per-virtual-pipeline-stage", &n, &found, e);
  if (status == MAL_OK) status = number(b, "--num-layers", &layers, &known, e);
  if (status == MAL_OK && found && known && n > 0 && layers % (n * b->layout.pp) == 0) {
    b->layout.vpp = layers / (n * b->layout.pp);
    mal_setting_take(b->settings, "--num-layers-per-virtual-pipeline-stage");
  }
  if (b->layout.vpp == 0) b->layout.vpp = 1;
  if (b->layout.vpp > 1) b->layout.schedule = MAL_INTERLEAVED;
  if (has(b, "--account-for-embedding-in-pipeline-split") && has(b, "--account-for-loss-in-pipeline-split")) {
    b->layout.embedding_in_layers = true;
    mal_setting_take(b->settings, "--account-for-embedding-in-pipeline-split");
    mal_setting_take(b->settings, "--account-for-loss-in-pipeline-split");
  }
  if (mal_setting_take(b->settings, "--no-overlap-p2p-communication")) b->layout.overlap_pp = MAL_OFF;
  return status;
}

/* Weights are gathered beside the forward pass only where gradients are reduced beside the backward pass. */
static void write_overlap(mal_bridge *b, const mal_row *row) {
  const mal_layout *l = &b->plan->layout;
  if (!l->overlap_dp_param) return;
  if (l->overlap_dp_grad)
    mal_setting_put(b->settings, row->key, NULL);
  else
    mal_noun_lost(b, row->noun, _("Megatron-LM gathers weights ahead only with --overlap-grad-reduce."));
}

static mal_status read_overlap(mal_bridge *b, const mal_row *row, mal_error *e) {
  return mal_noun_set(b, row->noun, mal_setting_take(b->settings, row->key) ? "on" : "off", NULL, e);
}

/* --- the job ------------------------------------------------------------------------------------------------------------ */

static const mal_pair kinds[] = {{"pretrain", MAL_LEFT_OUT}, {"finetune", MAL_ALONE}, {0}};

static void write_train(mal_bridge *b, const mal_row *row) {
  if (b->plan->job.train == MAL_FINETUNE) mal_setting_put(b->settings, row->key, NULL);
  if (b->plan->job.train == MAL_LORA || b->plan->job.train == MAL_QLORA)
    mal_noun_lost(b, row->noun, _("Megatron-LM's own pretraining program has no adapters; Megatron-Bridge has."));
}

static mal_status read_train(mal_bridge *b, const mal_row *row, mal_error *e) {
  return mal_noun_set(b, row->noun, mal_setting_take(b->settings, row->key) ? kinds[1].ours : kinds[0].ours, NULL, e);
}

static void write_gradients(mal_bridge *b, const mal_row *row) {
  (void)row;
  if (b->plan->job.gradients == MAL_GRADIENTS_BF16) mal_setting_put(b->settings, "--grad-reduce-in-bf16", NULL);
  if (b->plan->job.gradients == MAL_GRADIENTS_FP32)
    mal_setting_put(b->settings, "--accumulate-allreduce-grads-in-fp32", NULL);
}

static mal_status read_gradients(mal_bridge *b, const mal_row *row, mal_error *e) {
  (void)row, (void)e;
  if (mal_setting_take(b->settings, "--accumulate-allreduce-grads-in-fp32")) b->job.gradients = MAL_GRADIENTS_FP32;
  if (mal_setting_take(b->settings, "--grad-reduce-in-bf16")) b->job.gradients = MAL_GRADIENTS_BF16;
  return MAL_OK;
}

static void write_tokens(mal_bridge *b, const mal_row *row) {
  const mal_job *job = &b->plan->job;
  if (job->tokens < 1) return;
  int64_t step = job->global_batch * job->seq, steps = (job->tokens + step - 1) / step;
  mal_setting_number(b->settings, row->key, steps);
  if (job->tokens % step)
    mal_noun_lost(
        b, row->noun,
        mal_print(b->a, _("Megatron-LM counts steps: %lld of them are %lld tokens."), (ll)steps, (ll)(steps * step)));
}

/* Steps stay among the options kept when they are counted in sequences: --lr-decay-samples and the like hang on it. */
static mal_status read_tokens(mal_bridge *b, const mal_row *row, mal_error *e) {
  int64_t steps, samples, batch = b->job.global_batch, tokens;
  bool by_steps, by_samples;
  mal_status status = number(b, row->key, &steps, &by_steps, e);
  if (status == MAL_OK) status = number(b, "--train-samples", &samples, &by_samples, e);
  if (status != MAL_OK) return status;
  if (!batch) batch = b->layout.micro_batch * world_over(b, b->layout.tp * b->layout.pp * b->layout.cp);
  if (by_steps && batch > 0 && !__builtin_mul_overflow(steps, batch, &samples))
    by_samples = true;
  else
    by_steps = false;
  if (!by_samples || b->job.seq < 1 || samples < 1 || __builtin_mul_overflow(samples, b->job.seq, &tokens) ||
      tokens > (INT64_C(1) << 61))
    return MAL_OK;
  b->job.tokens = tokens;
  if (by_steps) mal_setting_take(b->settings, row->key);
  return MAL_OK;
}

static const mal_pair cp_kinds[] = {{"ring", "p2p"}, {"alltoall", "a2a"}, {"allgather", "all_gather"}, {0}};
static const mal_pair kernels[] = {{"unfused", "unfused"}, {"flash2", "flash"}, {"cudnn", "fused"}, {0}};

static const mal_row rows[] = {
    {.key = "--tensor-model-parallel-size", .noun = "tp", .otherwise = "1", .always = true},
    {.key = "--pipeline-model-parallel-size", .noun = "pp", .otherwise = "1", .always = true},
    {.key = "--context-parallel-size", .noun = "cp", .otherwise = "1"},
    {.key = "--cp-comm-type", .noun = "cp-kind", .words = cp_kinds, .otherwise = "ring"},
    {.key = "--expert-model-parallel-size", .noun = "ep", .otherwise = "1"},
    {.key = "--sequence-parallel", .noun = "sequence-parallel", .words = mal_flag_words, .otherwise = "off"},
    {.key = "--micro-batch-size", .noun = "micro-batch", .always = true},
    {.key = "--global-batch-size", .noun = "global-batch", .always = true},
    {.key = "--seq-length", .noun = "seq", .always = true},
    {.noun = "schedule", .write = write_schedule, .read = read_schedule},
    {.key = "--decoder-first-pipeline-num-layers", .noun = "first-stage-layers"},
    {.key = "--decoder-last-pipeline-num-layers", .noun = "last-stage-layers"},
    {.noun = "zero", .write = write_zero, .read = read_zero},
    {.noun = "recompute-layers", .write = write_recompute, .read = read_recompute},
    {.key = "--attention-backend", .noun = "attention", .words = kernels},
    {.key = "--tp-comm-overlap", .noun = "overlap-tp", .words = mal_flag_words, .otherwise = "off"},
    {.key = "--overlap-grad-reduce", .noun = "overlap-dp-grad", .words = mal_flag_words, .otherwise = "off"},
    {.key = "--overlap-param-gather", .noun = "overlap-dp-param", .write = write_overlap, .read = read_overlap},
    {.noun = "precision", .write = write_precision, .read = read_precision},
    {.noun = "optimizer", .write = write_optimizer, .read = read_optimizer},
    {.noun = "gradients", .write = write_gradients, .read = read_gradients},
    {.noun = "offload-optimizer", .write = write_offload, .read = read_offload},
    {.noun = "offload-params", .otherwise = "none"},
    {.key = "--finetune", .noun = "train", .write = write_train, .read = read_train},
    {.key = "--train-iters", .noun = "tokens", .write = write_tokens, .read = read_tokens},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Written always, for they say how this is run rather than how it is split; read back without a word. */
static const struct {
  const char *key, *value;
  bool experts;
} fixed[] = {
    {"--use-mcore-models", NULL, false},
    {"--transformer-impl", "transformer_engine", false},
    {"--moe-grouped-gemm", NULL, true},
    {"--moe-token-dispatcher-type", "alltoall", true},
};

static void write_etp(mal_bridge *b) {
  if (mal_model_has_experts(&b->plan->model))
    mal_setting_number(b->settings, "--expert-tensor-parallel-size", b->plan->layout.etp);
}

void mal_megatron_write(mal_bridge *b) {
  bool experts = mal_model_has_experts(&b->plan->model);
  b->target = "Megatron-LM";
  mal_rows_write(b, rows, ROWS);
  write_etp(b);
  if (b->plan->layout.cp > 1 && !b->plan->layout.overlap_cp)
    mal_noun_lost(b, "overlap-cp", _("Megatron-LM always overlaps it."));
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    if (!fixed[i].experts || experts) mal_setting_put(b->settings, fixed[i].key, fixed[i].value);
}

mal_status mal_megatron_read(mal_bridge *b, mal_error *e) {
  int64_t etp;
  bool found;
  b->target = "Megatron-LM";
  b->profile = "megatron";
  mal_status status = mal_rows_read(b, rows, ROWS, e);
  if (status == MAL_OK) status = number(b, "--expert-tensor-parallel-size", &etp, &found, e);
  if (status == MAL_OK && found) {
    b->layout.etp = etp;
    mal_setting_take(b->settings, "--expert-tensor-parallel-size");
  }
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    if (fixed[i].value ? says(b, fixed[i].key, fixed[i].value) : has(b, fixed[i].key))
      mal_setting_take(b->settings, fixed[i].key);
  if (b->layout.attention < 0 && says(b, "--attention-backend", "auto"))
    mal_setting_take(b->settings, "--attention-backend");
  return status;
}

int mal_megatron_marks(const mal_settings *s) {
  static const char *const marks[] = {"--tensor-model-parallel-size",
                                      "--pipeline-model-parallel-size",
                                      "--num-attention-heads",
                                      "--micro-batch-size",
                                      "--num-layers",
                                      "--seq-length",
                                      "--hidden-size",
                                      "--use-distributed-optimizer"};
  int n = 0;
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) n += mal_setting_find(s, marks[i]) != NULL;
  return n;
}
