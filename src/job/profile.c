#include "job/profile.h"
#include "core/catalog.h"
#include "core/file.h"
#include "machine/fields.h"
#include <assert.h>

#define OF mal_profile
#define TEXT(member, need)                                                                                             \
  { .key = #member, .kind = MAL_FIELD_TEXT, .offset = offsetof(OF, member), .required = need }
#define BOOL(member)                                                                                                   \
  { .key = #member, .kind = MAL_FIELD_BOOL, .offset = offsetof(OF, member) }
#define INT(member, most)                                                                                              \
  { .key = #member, .kind = MAL_FIELD_INT, .offset = offsetof(OF, member), .hi = most }
#define CHOICE(member, names)                                                                                          \
  { .key = #member, .kind = MAL_FIELD_CHOICE, .offset = offsetof(OF, member), .choices = names }
#define FITTED(member, most)                                                                                           \
  { .key = #member, .kind = MAL_FIELD_FITTED, .offset = offsetof(OF, member), .hi = most, .required = true }

const char *const mal_attention_name[MAL_ATT_KERNELS + 1] = {"unfused", "flash1", "flash2", "cudnn", NULL};
static const char *const logits_name[] = {"sharded", "gathered", NULL};
static const char *const selective_name[] = {"core", "operators", "qkv", "qkv-out", "products", NULL};
static_assert(sizeof selective_name / sizeof *selective_name == MAL_SELECTIVES + 1, "one name each");
static const char *const launch_name[] = {"eager", "graph", "blocking", NULL};

static const mal_field fitted_table[] = {
    FITTED(memory_pass, 10),
    FITTED(host_s_per_kernel, 1e-2),
    FITTED(dp_exposed, 1),
    {0},
};

const mal_field mal_profile_table[] = {
    TEXT(base, false),
    TEXT(name, true),
    TEXT(title, true),
    TEXT(source, true),
    INT(grad_bytes, 8),
    INT(grad_extra_bytes, 8),
    BOOL(grad_extra_is_bucket),
    INT(reduce_bytes, 8),
    BOOL(master_fp32),
    INT(sharded_param_bytes, 8),
    BOOL(fp8_params),
    BOOL(shard_with_master),
    BOOL(empty_grads),
    BOOL(flattens_shard),
    BOOL(fused_softmax),
    BOOL(fused_norm),
    BOOL(fused_activation),
    BOOL(fused_bias_dropout_add),
    BOOL(fused_rope),
    BOOL(plain_rope_only),
    BOOL(fused_cross_entropy),
    BOOL(fused_qkv),
    BOOL(fused_optimizer),
    BOOL(fused_adapters),
    BOOL(dropout),
    BOOL(norm_fp32),
    CHOICE(selective, selective_name),
    BOOL(drops_unused),
    BOOL(saves_gathered),
    BOOL(save_rotary_inputs),
    BOOL(zero1_all_reduce),
    BOOL(gate_enters_apart),
    BOOL(vocab_padded),
    BOOL(runs_gpipe),
    BOOL(runs_zero_bubble),
    BOOL(runs_dualpipe),
    BOOL(runs_sharded_pipeline),
    CHOICE(attention, mal_attention_name),
    CHOICE(logits, logits_name),
    INT(logits_bytes, 64),
    CHOICE(launch, launch_name),
    INT(permute_passes, 100),
    BOOL(overlap_ep),
    BOOL(graph_attention),
    BOOL(graph_router),
    BOOL(graph_mlp),
    BOOL(dispatch_once),
    BOOL(sorts_chunks),
    BOOL(pads_experts),
    BOOL(expert_bias_apart),
    BOOL(clamps_apart),
    BOOL(remakes_expert_act),
    BOOL(fused_experts),
    BOOL(fp8_attention),
    BOOL(fp8_amax_pass),
    INT(kernels_router, 10000),
    INT(kernels_extra_moe, 10000),
    INT(kernels_extra, 1000),
    BOOL(overlap_tp),
    BOOL(overlap_dp_grad),
    BOOL(overlap_dp_param),
    BOOL(overlap_pp),
    BOOL(overlap_cp),
    BOOL(tp_backward_async),
    BOOL(pp_scatter_gather),
    INT(bucket_elements_per_rank, 1e9),
    INT(bucket_elements, 1e12),
    BOOL(stages_by_cost),
    INT(prefetch, 64),
    BOOL(regather_backward),
    {.key = "default_zero", .kind = MAL_FIELD_SMALL, .offset = offsetof(OF, default_zero), .hi = 3},
    BOOL(seq_par_default),
    BOOL(vpp_default_one_layer),
    BOOL(dynamic_memory),
    BOOL(lazy_grads),
    BOOL(optimizer_in_backward),
    BOOL(offloads_stash),
    BOOL(keeps_stage_input),
    BOOL(keeps_stage_output),
    BOOL(phases_add),
    INT(context_bytes, 1e12),
    INT(communicator_bytes, 1e12),
    {.key = "slack", .kind = MAL_FIELD_NUMBER, .offset = offsetof(OF, slack), .hi = 0.9},
    {.key = "interval", .kind = MAL_FIELD_NUMBER, .offset = offsetof(OF, interval), .hi = 2},
    {.key = "interval_moe", .kind = MAL_FIELD_NUMBER, .offset = offsetof(OF, interval_moe), .hi = 2},
    {.key = "memory_sigma", .kind = MAL_FIELD_NUMBER, .offset = offsetof(OF, memory_sigma), .hi = 1},
    {.key = "fitted", .kind = MAL_FIELD_SECTION, .section = fitted_table},
    {0},
};

static mal_status load(mal_arena *a, const char *name, int depth, mal_profile *p, mal_error *e);

static mal_status merge(mal_arena *a, const mal_fields *file, int depth, mal_profile *p, mal_error *e) {
  const char *base = mal_fields_text(file, "base");
  if (base && load(a, base, depth + 1, p, e) != MAL_OK) return mal_fail_in(e, "%s: base", file->path);
  if (base && mal_fields_text(file, "name")) mal_fields_mark_inherited(a, mal_profile_table, base, p);
  return mal_fields_merge(a, file, p, e);
}

static mal_status parse(mal_arena *a, const char *path, const char *text, size_t length, int depth, mal_profile *p,
                        mal_error *e) {
  mal_fields file;
  mal_status s = mal_fields_parse(a, path, text, length, mal_profile_table, &file, e);
  if (s == MAL_OK) s = merge(a, &file, depth, p, e);
  if (s == MAL_OK) s = mal_fields_complete(mal_profile_table, path, p, e);
  mal_fields_free(&file);
  return s;
}

static mal_status load(mal_arena *a, const char *name, int depth, mal_profile *p, mal_error *e) {
  if (depth > MAL_BASES_MAX)
    return mal_fail(e, MAL_BAD, _("profile '%s': more than %d bases above each other; is one its own base?"), name,
                    MAL_BASES_MAX);
  char *path = mal_copy(a, name), *text;
  size_t length;
  mal_status s = mal_names_file(name) ? MAL_OK : mal_catalog_find(a, "profiles", name, ".yaml", "profile", &path, e);
  if (s == MAL_OK) s = mal_file_read(a, path, MAL_YAML_LIMIT_BYTES, &text, &length, e);
  return s == MAL_OK ? parse(a, path, text, length, depth, p, e) : s;
}

mal_status mal_profile_load(mal_arena *a, const char *name, mal_profile **p, mal_error *e) {
  *p = MAL_NEW(a, mal_profile);
  return load(a, name, 0, *p, e);
}

mal_status mal_profile_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_profile **p,
                             mal_error *e) {
  *p = MAL_NEW(a, mal_profile);
  return parse(a, path, text, length, 0, *p, e);
}

int mal_profile_constants(mal_profile *p, const char **names, mal_fitted **constants, int max) {
  return mal_fields_constants(mal_profile_table, p, names, constants, max);
}

const char *mal_profile_default(int64_t tp, int64_t pp, int64_t ep) {
  return tp > 1 || pp > 1 || ep > 1 ? "megatron" : "fsdp2";
}
