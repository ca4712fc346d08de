/* torchtitan: its TOML. Written for v0.2.2 (torchtitan/config/job_config.py). */
#include "launch/keyed.h"
#include <string.h>

typedef long long ll;

/* Built-in models of both: "name flavor" of theirs. */
static const mal_pair models[] = {{"llama-3-8b", "llama3 8B"},
                                  {"llama-3.1-8b", "llama3 8B"},
                                  {"llama-3-70b", "llama3 70B"},
                                  {"llama-3.1-70b", "llama3 70B"},
                                  {"llama-3.1-405b", "llama3 405B"},
                                  {"qwen3-0.6b", "qwen3 0.6B"},
                                  {"qwen3-1.7b", "qwen3 1.7B"},
                                  {"qwen3-4b", "qwen3 4B"},
                                  {"qwen3-8b", "qwen3 8B"},
                                  {"qwen3-14b", "qwen3 14B"},
                                  {"qwen3-32b", "qwen3 32B"},
                                  {"qwen3-30b-a3b", "qwen3 30B-A3B"},
                                  {"qwen3-235b-a22b", "qwen3 235B-A22B"},
                                  {"deepseek-v2-lite", "deepseek_v3 16B"},
                                  {"deepseek-v3", "deepseek_v3 671B"},
                                  {0}};

static void write_model(mal_bridge *b) {
  for (const mal_pair *w = models; w->ours; w++) {
    if (strcmp(w->ours, b->plan->model.name) != 0) continue;
    size_t n = strcspn(w->theirs, " ");
    mal_put_text(b, "model.name", mal_print(b->a, "%.*s", (int)n, w->theirs));
    mal_put_text(b, "model.flavor", w->theirs + n + 1);
    return;
  }
  mal_note_add(b->a, &b->notes, NULL, 0,
               _("the model: torchtitan has no flavor of %s; give model.name and model.flavor."), b->plan->model.name);
}

static void read_model(mal_bridge *b) {
  const char *name = mal_key_value(b, "model.name"), *flavor = mal_key_value(b, "model.flavor");
  if (!name || !flavor) return;
  const char *both = mal_print(b->a, "%s %s", name, flavor);
  for (const mal_pair *w = models; w->ours && !b->model; w++)
    if (strcmp(w->theirs, both) == 0) b->model = w->ours;
  if (!b->model) return;
  mal_setting_take(b->settings, "model.name");
  mal_setting_take(b->settings, "model.flavor");
}

/* A local batch is what a data-parallel rank passes through its pipeline at once. */
static void write_batch(mal_bridge *b, const mal_row *row) {
  (void)row;
  const mal_layout *l = &b->plan->layout;
  int64_t local = l->pp > 1 ? l->micro_batch * b->plan->job.accumulation : l->micro_batch;
  mal_setting_number(b->settings, "training.local_batch_size", local);
  mal_setting_number(b->settings, "training.global_batch_size", b->plan->job.global_batch);
}

static mal_status read_batch(mal_bridge *b, const mal_row *row, mal_error *e) {
  (void)row;
  int64_t local = 8, global = -1, micro = 1, pp = 1;
  bool found;
  mal_status s = mal_key_number(b, "training.local_batch_size", &local, &found, e);
  if (s == MAL_OK) s = mal_key_number(b, "training.global_batch_size", &global, &found, e);
  if (s == MAL_OK) s = mal_key_number(b, "parallelism.pipeline_parallel_microbatch_size", &micro, &found, e);
  if (s == MAL_OK) s = mal_key_number(b, "parallelism.pipeline_parallel_degree", &pp, &found, e);
  if (s != MAL_OK) return s;
  b->layout.pp = pp > 1 ? pp : 1;
  b->layout.micro_batch = pp > 1 ? micro : local;
  if (global > 0)
    b->job.global_batch = global;
  else
    b->job.accumulation = pp > 1 && micro > 0 ? local / micro : 1;
  return MAL_OK;
}

static void write_shards(mal_bridge *b, const mal_row *row) {
  (void)row;
  const mal_layout *l = &b->plan->layout;
  int64_t ranks = l->dp * l->cp, group = l->zero == 0 ? l->cp : l->hybrid ? l->hybrid : ranks;
  mal_setting_number(b->settings, "parallelism.data_parallel_replicate_degree", ranks / group);
  mal_setting_number(b->settings, "parallelism.data_parallel_shard_degree", group / l->cp ? group / l->cp : 1);
  if (group % l->cp) mal_noun_lost(b, "hybrid", _("torchtitan shards over whole cp groups: a multiple of cp."));
  if (l->zero >= 2) mal_put_text(b, "parallelism.fsdp_reshard_after_forward", l->zero == 3 ? "always" : "never");
  if (l->hybrid && group == l->cp) mal_noun_lost(b, "hybrid", _("a shard degree of one is replication to torchtitan."));
  if (l->zero == 0 && l->cp > 1)
    mal_noun_lost(b, "zero", _("torchtitan shards over the ranks of context parallelism."));
  if (l->zero == 1) mal_noun_lost(b, "zero", _("torchtitan replicates all, or shards gradients too (zero=2)."));
  if (l->pp > 1) {
    mal_setting_number(b->settings, "parallelism.pipeline_parallel_degree", l->pp);
    mal_setting_number(b->settings, "parallelism.pipeline_parallel_microbatch_size", l->micro_batch);
  }
}

static mal_status read_shards(mal_bridge *b, const mal_row *row, mal_error *e) {
  (void)row;
  int64_t copies = 1, shard = -1;
  bool found;
  const char key[] = "parallelism.fsdp_reshard_after_forward";
  mal_status s = mal_key_number(b, "parallelism.data_parallel_replicate_degree", &copies, &found, e);
  if (s == MAL_OK) s = mal_key_number(b, "parallelism.data_parallel_shard_degree", &shard, &found, e);
  if (s != MAL_OK) return s;
  bool never = mal_key_is(b, key, "never") || (!mal_key_is(b, key, "always") && b->layout.pp > 1);
  bool whole = shard == 1 && b->layout.cp == 1 && (copies > 1 || !mal_key_value(b, key));
  b->layout.zero = whole ? 0 : never ? 2 : 3;
  if (mal_key_value(b, key)) mal_setting_take(b->settings, key);
  if (copies > 1 && shard > 1 && b->layout.zero == 3) b->layout.hybrid = shard * b->layout.cp;
  return MAL_OK;
}

static const mal_pair schedules[] = {{"1f1b", "1F1B"}, {"interleaved", "Interleaved1F1B"}, {"gpipe", "GPipe"}, {0}};

static void write_schedule(mal_bridge *b, const mal_row *row) {
  const mal_layout *l = &b->plan->layout;
  const char *ours = mal_schedule_name[l->schedule];
  if (l->pp == 1) return;
  for (const mal_pair *w = schedules; w->ours; w++)
    if (strcmp(w->ours, ours) == 0) {
      mal_put_text(b, row->key, w->theirs);
      int64_t chunks = l->pp * l->vpp;
      if (l->vpp > 1)
        mal_setting_number(b->settings, "parallelism.pipeline_parallel_layers_per_stage",
                           (b->plan->model.layers + chunks - 1) / chunks);
      return;
    }
  mal_noun_lost(b, row->noun, _("torchtitan has ZBVZeroBubble and DualPipeV, which are other schedules."));
}

static mal_status read_schedule(mal_bridge *b, const mal_row *row, mal_error *e) {
  int64_t layers;
  bool found;
  const char *theirs = mal_key_value(b, row->key);
  mal_model m;
  for (const mal_pair *w = schedules; theirs && w->ours; w++)
    if (strcmp(w->theirs, theirs) == 0) {
      mal_setting_take(b->settings, row->key);
      mal_status s = mal_noun_set(b, row->noun, w->ours, NULL, e);
      if (s != MAL_OK) return s;
    }
  mal_status s = mal_key_number(b, "parallelism.pipeline_parallel_layers_per_stage", &layers, &found, e);
  if (s == MAL_OK && found && layers > 0 && b->model && mal_model_load(b->a, b->model, &m, e) == MAL_OK)
    b->layout.vpp = (m.layers + layers * b->layout.pp - 1) / (layers * b->layout.pp);
  return s;
}

static void write_steps(mal_bridge *b, const mal_row *row) {
  const mal_job *job = &b->plan->job;
  int64_t step = job->global_batch * job->seq;
  if (job->tokens < 1) return;
  int64_t steps = (job->tokens + step - 1) / step;
  mal_setting_number(b->settings, row->key, steps);
  if (job->tokens % step)
    mal_noun_lost(
        b, row->noun,
        mal_print(b->a, _("torchtitan counts steps: %lld of them are %lld tokens."), (ll)steps, (ll)(steps * step)));
}

static mal_status read_steps(mal_bridge *b, const mal_row *row, mal_error *e) {
  int64_t steps, tokens;
  bool found;
  mal_status s = mal_key_number(b, row->key, &steps, &found, e);
  if (s == MAL_OK && found && steps > 0 && b->job.global_batch > 0 && b->job.seq > 0 &&
      !__builtin_mul_overflow(steps, b->job.global_batch, &tokens) &&
      !__builtin_mul_overflow(tokens, b->job.seq, &tokens))
    b->job.tokens = tokens;
  return s;
}

static void write_offload(mal_bridge *b, const mal_row *row) {
  const mal_layout *l = &b->plan->layout;
  if (l->offload_params == MAL_OFFLOAD_CPU && l->offload_optimizer == MAL_OFFLOAD_CPU)
    mal_put_bool(b, row->key, true);
  else if (l->offload_params || l->offload_optimizer)
    mal_noun_lost(b, row->noun, _("torchtitan offloads weights and states together to the host, or neither."));
}

static mal_status read_offload(mal_bridge *b, const mal_row *row, mal_error *e) {
  (void)e;
  if (mal_key_is(b, row->key, "true")) b->layout.offload_params = b->layout.offload_optimizer = MAL_OFFLOAD_CPU;
  if (mal_key_value(b, row->key)) mal_setting_take(b->settings, row->key);
  return MAL_OK;
}

static void write_precision(mal_bridge *b, const mal_row *row) {
  int p = b->plan->job.precision;
  if (p == MAL_P_BF16) return; /* what it does anyway */
  if (p == MAL_P_FP32) {
    mal_put_text(b, row->key, "float32");
  } else if (p == MAL_P_FP8) {
    mal_setting *s = mal_setting_put(b->settings, "model.converters", "[\"quantize.linear.float8\"]");
    s->list = true;
  } else {
    mal_noun_lost(b, row->noun, _("torchtitan trains in bfloat16, float32 or float8."));
  }
}

static mal_status read_precision(mal_bridge *b, const mal_row *row, mal_error *e) {
  const mal_setting *s = mal_setting_find(b->settings, "model.converters");
  const char *list = s && s->n_values && s->list ? s->values[0] : "";
  const char *p = mal_key_is(b, row->key, "float32") ? "fp32" : strstr(list, "float8") ? "fp8" : "bf16";
  if (strcmp(list, "[\"quantize.linear.float8\"]") == 0) mal_setting_take(b->settings, "model.converters");
  if (mal_key_value(b, row->key)) mal_setting_take(b->settings, row->key);
  return mal_noun_set(b, row->noun, p, NULL, e);
}

static void write_recompute(mal_bridge *b, const mal_row *row) {
  const mal_layout *l = &b->plan->layout;
  mal_put_text(b, row->key, mal_recompute_name[l->recompute]);
  if (l->recompute == MAL_RECOMPUTE_SELECTIVE) mal_put_text(b, "activation_checkpoint.selective_ac_option", "op");
  if (l->recompute == MAL_RECOMPUTE_FULL && l->recompute_layers >= 0)
    mal_noun_lost(b, "recompute-layers", _("torchtitan recomputes every layer in full, or every n-th."));
}

static mal_status read_recompute(mal_bridge *b, const mal_row *row, mal_error *e) {
  const char *theirs = mal_key_value(b, row->key), option[] = "activation_checkpoint.selective_ac_option";
  if (!theirs) theirs = "selective";
  if (strcmp(theirs, "memory_budget") == 0) return mal_noun_set(b, row->noun, "selective", NULL, e);
  mal_setting_take(b->settings, row->key);
  if (mal_key_is(b, option, "op")) mal_setting_take(b->settings, option);
  return mal_noun_set(b, row->noun, theirs, mal_setting_find(b->settings, row->key), e);
}

static const mal_pair rotations[] = {{"allgather", "allgather"}, {"alltoall", "alltoall"}, {0}};
static void write_rotation(mal_bridge *b, const mal_row *row) {
  const mal_layout *l = &b->plan->layout;
  if (l->cp == 1) return;
  if (l->cp_kind == MAL_CP_RING)
    mal_noun_lost(b, row->noun, _("torchtitan's ring passes keys and values by allgather or alltoall."));
  else
    mal_put_text(b, row->key, mal_cp_name[l->cp_kind]);
}

static mal_status read_rotation(mal_bridge *b, const mal_row *row, mal_error *e) {
  const char *theirs = mal_key_value(b, row->key);
  if (b->layout.cp == 1 && !theirs) return MAL_OK;
  for (const mal_pair *w = rotations; w->ours; w++)
    if (strcmp(w->theirs, theirs ? theirs : "allgather") == 0) {
      mal_setting_take(b->settings, row->key);
      return mal_noun_set(b, row->noun, w->ours, NULL, e);
    }
  return MAL_OK;
}

static const mal_pair adam[] = {{"adamw", "AdamW"}, {"adamw", "Adam"}, {0}};
static const mal_row rows[] = {
    {.noun = "global-batch", .write = write_batch, .read = read_batch},
    {.key = "training.seq_len", .noun = "seq", .always = true},
    {.key = "training.steps", .noun = "tokens", .write = write_steps, .read = read_steps},
    {.key = "training.enable_cpu_offload", .noun = "offload-params", .write = write_offload, .read = read_offload},
    {.key = "training.mixed_precision_param", .noun = "precision", .write = write_precision, .read = read_precision},
    {.key = "optimizer.name", .noun = "optimizer", .words = adam, .always = true},
    {.key = "parallelism.tensor_parallel_degree", .noun = "tp", .otherwise = "1", .always = true},
    {.key = "parallelism.context_parallel_degree", .noun = "cp", .otherwise = "1"},
    {.noun = "zero", .write = write_shards, .read = read_shards},
    {.key = "parallelism.context_parallel_rotate_method",
     .noun = "cp-kind",
     .write = write_rotation,
     .read = read_rotation},
    {.key = "parallelism.expert_parallel_degree", .noun = "ep", .otherwise = "1"},
    {.key = "parallelism.enable_async_tensor_parallel",
     .noun = "overlap-tp",
     .words = mal_bool_words,
     .otherwise = "off"},
    {.key = "parallelism.pipeline_parallel_schedule",
     .noun = "schedule",
     .write = write_schedule,
     .read = read_schedule},
    {.key = "activation_checkpoint.mode", .noun = "recompute", .write = write_recompute, .read = read_recompute},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void write(mal_bridge *b) {
  write_model(b);
  mal_rows_write(b, rows, ROWS);
  const mal_layout *l = &b->plan->layout;
  if (mal_model_has_experts(&b->plan->model) && l->etp != 1)
    mal_setting_number(b->settings, "parallelism.expert_tensor_parallel_degree", l->etp);
  if (l->first_stage_layers >= 0 || l->last_stage_layers >= 0)
    mal_noun_lost(b, l->first_stage_layers >= 0 ? "first-stage-layers" : "last-stage-layers",
                  _("torchtitan counts how many layers fewer: pipeline_parallel_first_stage_less_layers."));
  mal_put_bool(b, "compile.enable", strcmp(b->plan->profile->name, "torchtitan") == 0);
}

static mal_status read(mal_bridge *b, mal_error *e) {
  int64_t etp = 1;
  bool found;
  b->profile = mal_key_is(b, "compile.enable", "true") ? "torchtitan" : "torchtitan-eager";
  if (mal_key_value(b, "compile.enable")) mal_setting_take(b->settings, "compile.enable");
  read_model(b);
  mal_status s = mal_rows_read(b, rows, ROWS, e);
  if (s == MAL_OK) s = mal_key_number(b, "parallelism.expert_tensor_parallel_degree", &etp, &found, e);
  b->layout.etp = etp;
  return s;
}

static const char *const marks[] = {"parallelism.data_parallel_shard_degree", "parallelism.tensor_parallel_degree",
                                    "training.local_batch_size", "activation_checkpoint.mode", NULL};
static const char *const elsewhere[] = {NULL};
const mal_keyed mal_torchtitan = {"torchtitan", "torchtitan", "torchtitan.toml", MAL_TOML, marks,
                                  write,        read,         elsewhere};
