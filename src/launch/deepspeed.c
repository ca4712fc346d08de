/* DeepSpeed: its JSON. Written for deepspeedai/DeepSpeed@edaa7221 (docs/_pages/config-json.md, deepspeed/runtime/zero/config.py).
 * Sequence length, recomputation, the split in stages are the program's
 * to say, and the optimizer: one of DeepSpeed's own would come with its own learning rate. */
#include "launch/keyed.h"
#include <string.h>

static const char stage_key[] = "zero_optimization.stage";

static void write_precision(mal_bridge *b, const mal_row *row) {
  int p = b->plan->job.precision;
  if (p == MAL_P_BF16 || p == MAL_P_FP8 || p == MAL_P_MXFP8 || p == MAL_P_NVFP4) mal_put_bool(b, "bf16.enabled", true);
  if (p == MAL_P_FP16) mal_put_bool(b, "fp16.enabled", true);
  if (p == MAL_P_FP8 || p == MAL_P_MXFP8 || p == MAL_P_NVFP4)
    mal_noun_lost(b, row->noun, _("DeepSpeed leaves products below 16 bits to the model (Transformer Engine)."));
  if (p == MAL_P_TF32) mal_noun_lost(b, row->noun, _("PyTorch's own switch (allow_tf32)."));
}

static mal_status read_precision(mal_bridge *b, const mal_row *row, mal_error *e) {
  const char *p = "fp32";
  const char *const keys[] = {"bf16.enabled", "bfloat16.enabled", "fp16.enabled"};
  for (int i = 0; i < 3; i++) {
    if (mal_key_is(b, keys[i], "true")) p = i < 2 ? "bf16" : "fp16";
    if (mal_key_value(b, keys[i])) mal_setting_take(b->settings, keys[i]);
    const mal_setting *s = mal_setting_find(b->settings, keys[i]);
    if (s && !mal_key_value(b, keys[i])) return MAL_OK; /* "auto": the trainer's, and stays as it was */
  }
  return mal_noun_set(b, row->noun, p, NULL, e);
}

static const mal_pair optimizers[] = {{"adamw", "AdamW"}, {"adamw", "Adam"}, {"lion", "Lion"},
                                      {"muon", "Muon"},   {"sgd", "SGD"},    {0}};

static mal_status read_optimizer(mal_bridge *b, const mal_row *row, mal_error *e) {
  const char *theirs = mal_key_value(b, row->key);
  for (const mal_pair *w = optimizers; theirs && w->ours; w++)
    if (strcmp(w->theirs, theirs) == 0) {
      if (strcmp(theirs, "Adam") != 0) mal_setting_take(b->settings, row->key);
      return mal_noun_set(b, row->noun, w->ours, NULL, e);
    }
  return MAL_OK;
}

static void write_zero(mal_bridge *b, const mal_row *row) {
  const mal_layout *l = &b->plan->layout;
  mal_setting_number(b->settings, row->key, l->zero);
  if (l->hybrid) mal_setting_number(b->settings, "zero_optimization.mics_shard_size", l->hybrid);
  if (l->tp > 1) mal_setting_number(b->settings, "tensor_parallel.autotp_size", l->tp);
  if (l->cp > 1 && l->cp_kind == MAL_CP_ALLTOALL)
    mal_setting_number(b->settings, "sequence_parallel_size", l->cp);
  else if (l->cp > 1)
    mal_noun_lost(b, "cp-kind", _("DeepSpeed splits sequences by all-to-all (Ulysses)."));
  if (l->pp > 1) mal_noun_lost(b, "pp", _("DeepSpeed's stages are the program's (PipelineModule)."));
  if (l->ep > 1) mal_noun_lost(b, "ep", _("DeepSpeed's experts are the program's (deepspeed.moe.layer.MoE)."));
}

static mal_status read_zero(mal_bridge *b, const mal_row *row, mal_error *e) {
  int64_t n;
  bool found, sequence;
  mal_status s = mal_key_number(b, row->key, &n, &found, e);
  if (s == MAL_OK && found) s = mal_noun_set(b, row->noun, mal_print(b->a, "%lld", (long long)n), NULL, e);
  if (s == MAL_OK && !found && b->layout.zero < 0) b->layout.zero = 0;
  if (s == MAL_OK) s = mal_key_number(b, "zero_optimization.mics_shard_size", &n, &found, e);
  if (s == MAL_OK && found && n > 0) b->layout.hybrid = n;
  if (s == MAL_OK) s = mal_key_number(b, "tensor_parallel.autotp_size", &n, &found, e);
  if (s == MAL_OK && found && n > 0) b->layout.tp = n;
  if (s == MAL_OK) s = mal_key_number(b, "sequence_parallel_size", &n, &sequence, e);
  if (s == MAL_OK && sequence && n > 1) {
    b->layout.cp = n;
    b->layout.cp_kind = MAL_CP_ALLTOALL;
  }
  return s;
}

/* Any two of the three give the third; "auto" gives none. */
static mal_status read_batch(mal_bridge *b, const mal_row *row, mal_error *e) {
  (void)row;
  int64_t batch, micro, steps;
  bool has_batch, has_micro, has_steps;
  mal_status s = mal_key_number(b, "train_batch_size", &batch, &has_batch, e);
  if (s == MAL_OK) s = mal_key_number(b, "train_micro_batch_size_per_gpu", &micro, &has_micro, e);
  if (s == MAL_OK) s = mal_key_number(b, "gradient_accumulation_steps", &steps, &has_steps, e);
  if (s != MAL_OK) return s;
  if (has_batch) b->job.global_batch = batch;
  if (has_micro) b->layout.micro_batch = micro;
  if (has_steps && !(has_batch && has_micro)) b->job.accumulation = steps;
  return MAL_OK;
}

static void write_batch(mal_bridge *b, const mal_row *row) {
  (void)row;
  mal_setting_number(b->settings, "train_batch_size", b->plan->job.global_batch);
  mal_setting_number(b->settings, "train_micro_batch_size_per_gpu", b->plan->layout.micro_batch);
  mal_setting_number(b->settings, "gradient_accumulation_steps", b->plan->job.accumulation);
}

static const mal_pair devices[] = {{"none", MAL_LEFT_OUT}, {"none", "none"}, {"cpu", "cpu"}, {"nvme", "nvme"}, {0}};
static const mal_pair gradients[] = {{"fp32", "fp32"}, {"bf16", "bf16"}, {"auto", MAL_LEFT_OUT}, {0}};

static const mal_row rows[] = {
    {.noun = "global-batch", .write = write_batch, .read = read_batch},
    {.noun = "precision", .write = write_precision, .read = read_precision},
    {.key = stage_key, .noun = "zero", .write = write_zero, .read = read_zero},
    {.key = "zero_optimization.overlap_comm", .noun = "overlap-dp-grad", .words = mal_bool_words},
    {.key = "zero_optimization.offload_optimizer.device", .noun = "offload-optimizer", .words = devices},
    {.key = "zero_optimization.offload_param.device", .noun = "offload-params", .words = devices},
    {.key = "data_types.grad_accum_dtype", .noun = "gradients", .words = gradients},
    {.key = "optimizer.type", .noun = "optimizer", .read = read_optimizer},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void write(mal_bridge *b) {
  mal_rows_write(b, rows, ROWS);
  const mal_layout *l = &b->plan->layout;
  if (l->offload_optimizer == MAL_OFFLOAD_NVME)
    mal_put_usual(b, "zero_optimization.offload_optimizer.nvme_path", "\"/local_nvme\"");
  if (l->offload_params == MAL_OFFLOAD_NVME)
    mal_put_usual(b, "zero_optimization.offload_param.nvme_path", "\"/local_nvme\"");
}

static mal_status read(mal_bridge *b, mal_error *e) {
  b->profile = "deepspeed";
  mal_take_usual(b, "zero_optimization.offload_optimizer.nvme_path", "/local_nvme");
  mal_take_usual(b, "zero_optimization.offload_param.nvme_path", "/local_nvme");
  return mal_rows_read(b, rows, ROWS, e);
}

static const char *const marks[] = {"zero_optimization.stage",
                                    "train_micro_batch_size_per_gpu",
                                    "train_batch_size",
                                    "zero_optimization.reduce_bucket_size",
                                    "zero_force_ds_cpu_optimizer",
                                    NULL};
static const char *const elsewhere[] = {"seq",       "optimizer", "recompute", "recompute-layers",
                                        "attention", "tokens",    NULL};
const mal_keyed mal_deepspeed = {"deepspeed", "DeepSpeed", "deepspeed.json", MAL_JSON, marks, write, read, elsewhere};
