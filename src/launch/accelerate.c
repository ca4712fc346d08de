/* Accelerate: its YAML, with FSDP or DeepSpeed. Written for huggingface/accelerate@16cb6eb8
 * (src/accelerate/commands/config/config_args.py, cluster.py). Batch and sequences are the program's to say. */
#include "launch/keyed.h"
#include <string.h>

static bool by_deepspeed(const mal_bridge *b) {
  return strncmp(b->plan->profile->name, "deepspeed", 9) == 0 ||
         b->plan->layout.offload_optimizer == MAL_OFFLOAD_NVME || b->plan->layout.offload_params == MAL_OFFLOAD_NVME ||
         b->plan->layout.zero == 1;
}

static void write_ranks(mal_bridge *b) {
  const mal_machine *m = &b->plan->machine;
  const mal_layout *l = &b->plan->layout;
  mal_put_usual(b, "compute_environment", "\"LOCAL_MACHINE\"");
  mal_put_text(b, "distributed_type", by_deepspeed(b) ? "DEEPSPEED" : l->zero ? "FSDP" : "MULTI_GPU");
  mal_setting_number(b->settings, "num_machines", m->nodes);
  mal_setting_number(b->settings, "num_processes", mal_machine_gpus(m));
  mal_put_usual(b, "machine_rank", "0");
  mal_put_usual(b, "rdzv_backend", "\"static\"");
  if (l->pp > 1) mal_noun_lost(b, "pp", _("Accelerate has no stages outside Megatron-LM."));
  if (l->ep > 1) mal_noun_lost(b, "ep", _("Accelerate has no setting for experts."));
}

static const mal_pair precisions[] = {{"bf16", "bf16"}, {"fp16", "fp16"}, {"fp8", "fp8"}, {"fp32", "no"}, {0}};
static const mal_pair devices[] = {{"none", "none"}, {"cpu", "cpu"}, {"nvme", "nvme"}, {0}};

static void write_fsdp(mal_bridge *b) {
  const mal_layout *l = &b->plan->layout;
  bool params = l->offload_params == MAL_OFFLOAD_CPU, states = l->offload_optimizer == MAL_OFFLOAD_CPU;
  mal_put_usual(b, "fsdp_config.fsdp_version", "2");
  mal_put_usual(b, "fsdp_config.fsdp_auto_wrap_policy", "\"TRANSFORMER_BASED_WRAP\"");
  mal_put_bool(b, "fsdp_config.fsdp_reshard_after_forward", l->zero == 3);
  mal_put_bool(b, "fsdp_config.fsdp_activation_checkpointing", l->recompute == MAL_RECOMPUTE_FULL);
  mal_put_bool(b, "fsdp_config.fsdp_offload_params", params && states);
  mal_put_usual(b, "fsdp_config.fsdp_cpu_ram_efficient_loading", "true");
  mal_put_usual(b, "fsdp_config.fsdp_state_dict_type", "\"SHARDED_STATE_DICT\"");
  if (params != states)
    mal_noun_lost(b, params ? "offload-params" : "offload-optimizer",
                  _("FSDP offloads weights and states together, or neither."));
  if (l->recompute == MAL_RECOMPUTE_SELECTIVE)
    mal_noun_lost(b, "recompute", _("FSDP's plugin recomputes all or nothing."));
  if (l->recompute == MAL_RECOMPUTE_FULL && l->recompute_layers >= 0)
    mal_noun_lost(b, "recompute-layers", _("FSDP's plugin recomputes every layer."));
}

static void write_parallel(mal_bridge *b) {
  const mal_layout *l = &b->plan->layout;
  int64_t ranks = l->dp * l->cp, shard = l->hybrid ? l->hybrid : ranks;
  if (l->tp == 1 && l->cp == 1 && shard == ranks) return;
  mal_setting_number(b->settings, "parallelism_config.parallelism_config_tp_size", l->tp);
  mal_setting_number(b->settings, "parallelism_config.parallelism_config_cp_size", l->cp);
  mal_setting_number(b->settings, "parallelism_config.parallelism_config_dp_replicate_size", ranks / shard);
  mal_setting_number(b->settings, "parallelism_config.parallelism_config_dp_shard_size",
                     shard / l->cp ? shard / l->cp : 1);
  if (shard % l->cp) mal_noun_lost(b, "hybrid", _("a shard group holds whole sequences: a multiple of cp."));
  if (l->cp > 1 && l->cp_kind == MAL_CP_RING)
    mal_noun_lost(b, "cp-kind", _("Accelerate's sequences go by allgather or alltoall."));
  if (l->cp > 1 && l->cp_kind != MAL_CP_RING)
    mal_put_text(b, "parallelism_config.parallelism_config_cp_comm_strategy", mal_cp_name[l->cp_kind]);
}

static void write_deepspeed(mal_bridge *b) {
  const mal_layout *l = &b->plan->layout;
  mal_setting_number(b->settings, "deepspeed_config.zero_stage", l->zero);
  mal_put_text(b, "deepspeed_config.offload_optimizer_device", mal_offload_name[l->offload_optimizer]);
  mal_put_text(b, "deepspeed_config.offload_param_device", mal_offload_name[l->offload_params]);
  mal_setting_number(b->settings, "deepspeed_config.gradient_accumulation_steps", b->plan->job.accumulation);
  mal_put_usual(b, "deepspeed_config.zero3_init_flag", l->zero == 3 ? "true" : "false");
  if (l->offload_optimizer == MAL_OFFLOAD_NVME)
    mal_put_usual(b, "deepspeed_config.offload_optimizer_nvme_path", "\"/local_nvme\"");
  if (l->offload_params == MAL_OFFLOAD_NVME)
    mal_put_usual(b, "deepspeed_config.offload_param_nvme_path", "\"/local_nvme\"");
  if (l->tp > 1)
    mal_noun_lost(b, "tp", _("give a deepspeed.json with tensor_parallel (malha export --for deepspeed)."));
  if (l->cp > 1) mal_noun_lost(b, "cp", _("give a deepspeed.json with sequence_parallel_size."));
  if (l->hybrid) mal_noun_lost(b, "hybrid", _("give a deepspeed.json with mics_shard_size."));
}

static const mal_row rows[] = {{.key = "mixed_precision", .noun = "precision", .words = precisions}};

static void write(mal_bridge *b) {
  write_ranks(b);
  mal_rows_write(b, rows, 1);
  if (by_deepspeed(b) || !b->plan->layout.zero) {
    mal_noun_elsewhere(b, "recompute");
    mal_noun_elsewhere(b, "recompute-layers");
  }
  if (by_deepspeed(b) && strncmp(b->plan->profile->name, "deepspeed", 9) != 0)
    mal_noun_lost(b, b->plan->layout.zero == 1 ? "zero" : "offload-optimizer",
                  _("FSDP has no such thing: the file asks for DeepSpeed."));
  if (by_deepspeed(b)) {
    write_deepspeed(b);
    return;
  }
  if (b->plan->layout.zero) write_fsdp(b);
  write_parallel(b);
}

/* --- in ------------------------------------------------------------------------------------------------------------------- */

/* FSDP 1 says it in words or numbers, FSDP 2 by fsdp_reshard_after_forward. */
static void read_sharding(mal_bridge *b) {
  static const struct {
    const char *word, *number;
    int zero;
    bool node; /* sharded inside a node, replicated between them */
  } all[] = {{"FULL_SHARD", "1", 3, false},
             {"SHARD_GRAD_OP", "2", 2, false},
             {"NO_SHARD", "3", 0, false},
             {"HYBRID_SHARD", "4", 3, true},
             {"HYBRID_SHARD_ZERO2", "5", 2, true}};
  const char key[] = "fsdp_config.fsdp_sharding_strategy", again[] = "fsdp_config.fsdp_reshard_after_forward";
  const char *theirs = mal_key_value(b, key), *reshard = mal_key_value(b, again);
  b->layout.zero = reshard && strcmp(reshard, "false") == 0 ? 2 : 3;
  if (reshard && (strcmp(reshard, "true") == 0 || strcmp(reshard, "false") == 0)) mal_setting_take(b->settings, again);
  for (size_t i = 0; theirs && i < sizeof all / sizeof *all; i++) {
    if (strcmp(theirs, all[i].word) != 0 && strcmp(theirs, all[i].number) != 0) continue;
    b->layout.zero = all[i].zero;
    if (all[i].node && all[i].zero == 3 && b->gpus > 0 && b->nodes > 1) b->layout.hybrid = b->gpus;
    if (!all[i].node || b->layout.hybrid) mal_setting_take(b->settings, key);
  }
}

static void read_fsdp(mal_bridge *b) {
  read_sharding(b);
  b->profile = "fsdp2";
  if (mal_key_is(b, "fsdp_config.fsdp_activation_checkpointing", "true")) b->layout.recompute = MAL_RECOMPUTE_FULL;
  if (mal_key_is(b, "fsdp_config.fsdp_offload_params", "true")) {
    b->layout.offload_params = b->layout.zero == 3 ? MAL_OFFLOAD_CPU : MAL_OFFLOAD_NONE;
    b->layout.offload_optimizer = MAL_OFFLOAD_CPU;
  }
  if (mal_key_value(b, "fsdp_config.fsdp_activation_checkpointing"))
    mal_setting_take(b->settings, "fsdp_config.fsdp_activation_checkpointing");
  if (mal_key_value(b, "fsdp_config.fsdp_offload_params"))
    mal_setting_take(b->settings, "fsdp_config.fsdp_offload_params");
  mal_take_usual(b, "fsdp_config.fsdp_version", "2");
  mal_take_usual(b, "fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
  mal_take_usual(b, "fsdp_config.fsdp_cpu_ram_efficient_loading", "true");
  mal_take_usual(b, "fsdp_config.fsdp_state_dict_type", "SHARDED_STATE_DICT");
}

static mal_status read_parallel(mal_bridge *b, mal_error *e) {
  int64_t tp = 1, cp = 1, copies = 1, shard = 0;
  bool found;
  mal_status s = mal_key_number(b, "parallelism_config.parallelism_config_tp_size", &tp, &found, e);
  if (s == MAL_OK) s = mal_key_number(b, "parallelism_config.parallelism_config_cp_size", &cp, &found, e);
  if (s == MAL_OK) s = mal_key_number(b, "parallelism_config.parallelism_config_dp_replicate_size", &copies, &found, e);
  if (s == MAL_OK) s = mal_key_number(b, "parallelism_config.parallelism_config_dp_shard_size", &shard, &found, e);
  if (s != MAL_OK) return s;
  if (tp > 1) b->layout.tp = tp;
  if (cp > 1) {
    b->layout.cp = cp;
    const char key[] = "parallelism_config.parallelism_config_cp_comm_strategy";
    b->layout.cp_kind = mal_key_is(b, key, "alltoall") ? MAL_CP_ALLTOALL : MAL_CP_ALLGATHER;
    if (mal_key_value(b, key)) mal_setting_take(b->settings, key);
  }
  if (copies > 1 && shard > 0 && b->layout.zero == 3) b->layout.hybrid = shard * cp;
  return MAL_OK;
}

static const mal_row deepspeed_rows[] = {
    {.key = "deepspeed_config.zero_stage", .noun = "zero"},
    {.key = "deepspeed_config.offload_optimizer_device", .noun = "offload-optimizer", .words = devices},
    {.key = "deepspeed_config.offload_param_device", .noun = "offload-params", .words = devices},
    {.key = "deepspeed_config.gradient_accumulation_steps", .noun = "accumulation"},
};

static mal_status read_deepspeed(mal_bridge *b, mal_error *e) {
  b->profile = "deepspeed";
  mal_take_usual(b, "deepspeed_config.offload_optimizer_nvme_path", "/local_nvme");
  mal_take_usual(b, "deepspeed_config.offload_param_nvme_path", "/local_nvme");
  mal_status s = mal_rows_read(b, deepspeed_rows, 4, e);
  mal_take_usual(b, "deepspeed_config.zero3_init_flag", b->layout.zero == 3 ? "true" : "false");
  return s;
}

static mal_status read(mal_bridge *b, mal_error *e) {
  const char *type = mal_key_value(b, "distributed_type");
  mal_status s = mal_rows_read(b, rows, 1, e);
  mal_take_usual(b, "compute_environment", "LOCAL_MACHINE");
  mal_take_usual(b, "machine_rank", "0");
  mal_take_usual(b, "rdzv_backend", "static");
  mal_setting_take(b->settings, "num_machines");
  mal_setting_take(b->settings, "num_processes");
  if (s != MAL_OK || !type) return s;
  mal_setting_take(b->settings, "distributed_type");
  if (strcmp(type, "DEEPSPEED") == 0) return read_deepspeed(b, e);
  b->profile = "fsdp2";
  if (strcmp(type, "FSDP") == 0)
    read_fsdp(b);
  else
    b->layout.zero = 0;
  return read_parallel(b, e);
}

static const char *const marks[] = {"distributed_type", "compute_environment", NULL};
static const char *const elsewhere[] = {"seq",       "global-batch", "micro-batch", "accumulation",
                                        "optimizer", "attention",    NULL};
const mal_keyed mal_accelerate = {"accelerate", "Accelerate", "accelerate.yaml", MAL_YAML, marks,
                                  write,        read,         elsewhere};
