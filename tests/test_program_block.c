/* Blocks against what is published: activations (Korthikanti et al., arXiv:2205.05198), FLOPs (Narayanan et al.,
 * arXiv:2104.04473), logits, parameters of a rank, bytes of optimizer states. */
#include "plan/plan.h"
#include "program_block.h"
#include <time.h>

/* --- activations of one layer ------------------------------------------------------------------------------------------- */

/* Megatron-LM of 2022: 16 bits, dropout, softmax in memory, fused kernels that keep their inputs. */
static mal_plan *megatron_2022(const char *layout) {
  mal_plan *plan = plan_of("gpt3-175b", "64x8xa100-sxm", layout, "megatron-2021", "{seq: 2048, accumulation: 8}");
  mal_profile *p = plan->profile;
  p->dropout = p->fused_softmax = p->fused_norm = p->fused_activation = p->fused_bias_dropout_add = true;
  p->norm_fp32 = false;
  return plan;
}

/* Equations 1, 2, 4 and 6 and the text below them, for s·b·h = n and a·s²·b = m. Row statistics of the norms (8 bytes a row)
 * are left out there as negligible. */
static void activations_are_korthikantis(void **state) {
  (void)state;
  const struct {
    const char *layout;
    int recompute;
    double hidden, scores; /* bytes per element of s·b·h and of a·s²·b */
  } cases[] = {
      {"tp=1,pp=8,micro-batch=2", MAL_RECOMPUTE_NONE, 34, 5},
      {"tp=8,pp=8,micro-batch=2,sequence-parallel=off", MAL_RECOMPUTE_NONE, 10 + 24.0 / 8, 5.0 / 8},
      {"tp=8,pp=8,micro-batch=2,sequence-parallel=on", MAL_RECOMPUTE_NONE, 34.0 / 8, 5.0 / 8},
      {"tp=8,pp=8,micro-batch=2,sequence-parallel=off", MAL_RECOMPUTE_SELECTIVE, 10 + 24.0 / 8, 0},
      {"tp=8,pp=8,micro-batch=2,sequence-parallel=on", MAL_RECOMPUTE_SELECTIVE, 34.0 / 8, 0},
      {"tp=8,pp=8,micro-batch=2,sequence-parallel=off", MAL_RECOMPUTE_FULL, 2, 0},
      {"tp=1,pp=8,micro-batch=2", MAL_RECOMPUTE_FULL, 2, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mal_plan *plan = megatron_2022(cases[i].layout);
    const mal_block *b = lower_layer(plan, 0, cases[i].recompute, false);
    double n = 2048.0 * 2 * 12288, m = 96 * 2048.0 * 2048 * 2;
    double wanted = cases[i].hidden * n + cases[i].scores * m;
    if ((double)stash_without(b, "norm.stats", "") != wanted)
      fail_msg("%s, recompute %d: %lld bytes, wanted %.0f", cases[i].layout, cases[i].recompute,
               (long long)stash_without(b, "norm.stats", ""), wanted);
  }
}

/* A fused core keeps its output and one number a row instead of the square: sbh(34 + 2·... ) becomes 34 − 0 + 2: nothing of
 * a·s² is left. */
static void fused_core_keeps_no_square(void **state) {
  (void)state;
  mal_plan *plan = megatron_2022("tp=8,pp=8,micro-batch=2,sequence-parallel=on");
  plan->layout.attention = MAL_ATT_FLASH2;
  const mal_block *none = lower_layer(plan, 0, MAL_RECOMPUTE_NONE, false);
  const mal_block *selective = lower_layer(plan, 0, MAL_RECOMPUTE_SELECTIVE, false);
  assert_int_equal(stash_without(none, "norm.stats", "attention.lse"), 34 * 2048LL * 2 * 12288 / 8);
  assert_int_equal(none->stash_bytes, selective->stash_bytes);
  assert_int_equal(selective->count[MAL_L_R], 0);
}

/* --- FLOPs ----------------------------------------------------------------------------------------------------------------- */

/* 72·B·l·s·h²(1 + s/6h + V/12lh): equation 3 of Narayanan et al. without recomputation; their core computes the whole square. */
/* What JAX's policies keep (MaxText: save_qkv_proj; praxis: SAVE_QKV_OUT_PROJ, SAVE_DOT_ONLY): each product that is not kept is
 * repeated, but not the layer's last, whose result backward does not read. FLOPs of LLaMA's layer by hand. */
static void policies_repeat_what_they_do_not_keep(void **state) {
  (void)state;
  static const struct {
    const char *profile;
    bool out, up;
  } all[] = {{"maxtext", true, true}, {"paxml", false, true}, {"paxml-products", false, false}};
  double tokens = 8192, h = 4096, out = 2 * tokens * h * h, up = 2 * tokens * h * 2 * 14336;
  for (int k = 0; k < 3; k++) {
    const mal_plan *plan = plan_of("llama-3-8b", "8xh100-sxm", "zero=3,attention=cudnn", all[k].profile, "{}");
    const mal_block *b = lower_layer(plan, 0, MAL_RECOMPUTE_SELECTIVE, false);
    const mal_instruction *core = find_op(b, MAL_L_F, MAL_OP_ATTENTION, 0);
    double wanted = mal_ops[core->op].flops(core, &b->sizes[core->sizes]);
    wanted += (all[k].out ? out : 0) + (all[k].up ? up : 0);
    near(b->flops[MAL_L_R], wanted, 1e-9);
    assert_int_equal(count_ops(b, MAL_L_R, MAL_OP_ATTENTION), 1);
    const mal_block *none = lower_layer(plan, 0, MAL_RECOMPUTE_NONE, false);
    const mal_block *full = lower_layer(plan, 0, MAL_RECOMPUTE_FULL, false);
    assert_true(full->stash_bytes < b->stash_bytes && b->stash_bytes < none->stash_bytes);
  }
}

static void executed_flops_are_narayanans(void **state) {
  (void)state;
  mal_plan *plan = megatron_2022("tp=8,pp=8,micro-batch=2,sequence-parallel=on");
  double h = 12288, s = 2048, batch = 2, t = 8, executed = 0;
  const mal_block *b = lower_layer(plan, 0, MAL_RECOMPUTE_NONE, false);
  for (int l = 0; l < MAL_LISTS; l++) executed += b->flops[l];
  near(executed, 72 * batch * s * h * h * (1 + s / (6 * h)) / t, 1e-12);
  const mal_block *full = lower_layer(plan, 0, MAL_RECOMPUTE_FULL, false);
  near(full->flops[MAL_L_F] + full->flops[MAL_L_R] + full->flops[MAL_L_BW],
       96 * batch * s * h * h * (1 + s / (6 * h)) / t, 1e-12);
  assert_true(full->model_flops[MAL_L_R] == 0);
  const mal_block *head = lower_class(plan, MAL_B_HEAD);
  near(head->flops[MAL_L_F] + head->flops[MAL_L_BW], 6 * batch * s * h * 51200 / t, 1e-12);
}

/* 2 FLOPs forward and 4 backward for each parameter of a matrix, and the visible half of attention. */
static void model_flops_are_six_per_parameter(void **state) {
  (void)state;
  const struct {
    const char *model, *machine, *layout, *profile;
  } cases[] = {
      {"llama-3-8b", "8xh100-sxm", "tp=1,micro-batch=2", "fsdp2"},
      {"llama-3-8b", "8xh100-sxm", "tp=4,micro-batch=2,attention=unfused", "megatron"},
      {"llama-3-8b", "8xh100-sxm", "tp=2,cp=2,micro-batch=2,cp-kind=ring", "megatron"},
      {"llama-3-8b", "8xh100-sxm", "cp=4,micro-batch=2,cp-kind=allgather", "megatron"},
      {"llama-3-8b", "8xh100-sxm", "cp=4,micro-batch=2,cp-kind=alltoall", "megatron"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mal_plan *plan = plan_of(cases[i].model, cases[i].machine, cases[i].layout, cases[i].profile, "{seq: 4096}");
    const mal_layer_kind *k = &plan->model.kinds[0];
    double tokens = 2 * 4096.0, matrices = 0, ranks = (double)(plan->layout.tp * plan->layout.cp);
    for (int w = 0; w < k->n_weights; w++)
      if (k->weights[w].rank > 1) matrices += (double)mal_weight_elements(&k->weights[w]);
    double core = 2 * 2.0 * tokens * 4096 / 2 * (double)(k->heads * k->head_dim);
    const mal_block *b = lower_layer(plan, 0, MAL_RECOMPUTE_NONE, false);
    near(ranks * b->model_flops[MAL_L_F], 2 * matrices * tokens + core, 1e-12);
    near(ranks * b->model_flops[MAL_L_BW], 4 * matrices * tokens + 2 * core, 1e-12);
    const mal_block *split = lower_layer(plan, 0, MAL_RECOMPUTE_NONE, true);
    near(split->flops[MAL_L_B] + split->flops[MAL_L_W], b->flops[MAL_L_BW], 1e-12);
    assert_true(split->count[MAL_L_BW] == 0 && b->count[MAL_L_B] == 0 && b->count[MAL_L_W] == 0);
    near(ranks * split->model_flops[MAL_L_W], 2 * matrices * tokens, 1e-12);
  }
}

static void windows_count_what_is_visible(void **state) {
  (void)state;
  mal_plan *plan = plan_of("gemma-2-9b", "8xh100-sxm", "micro-batch=1", "fsdp2", "{seq: 8192}");
  double pairs[2];
  for (int kind = 0; kind < 2; kind++) {
    const mal_block *b = lower_layer(plan, kind, MAL_RECOMPUTE_NONE, false);
    const mal_instruction *i = find_op(b, MAL_L_F, MAL_OP_ATTENTION, 0);
    const mal_layer_kind *k = &plan->model.kinds[kind];
    pairs[k->window > 0] =
        mal_ops[MAL_OP_ATTENTION].flops(i, &b->sizes[i->sizes]) / (4.0 * (double)(k->heads * k->head_dim));
  }
  near(pairs[0], 8192.0 * 8192 / 2, 1e-12);
  near(pairs[1], 8192.0 * 4096 - 4096.0 * 4096 / 2, 1e-12);
}

/* --- loss -------------------------------------------------------------------------------------------------------------------- */

/* What the profile says is what lives at once: kept between the passes, and the gradient. */
static void logits_take_what_the_profile_says(void **state) {
  (void)state;
  static const int bytes[] = {2, 4, 6, 8, 10, 12, 14, 18};
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
    for (int gathered = 0; gathered < 2; gathered++) {
      mal_plan *plan = plan_of("llama-2-7b", "8xh100-sxm", "tp=4,micro-batch=2", "megatron", "{seq: 4096}");
      plan->profile->logits_bytes = bytes[i];
      plan->profile->logits = gathered ? MAL_LOGITS_GATHERED : MAL_LOGITS_SHARDED;
      const mal_block *b = lower_class(plan, MAL_B_HEAD);
      int64_t logits = 2 * 4096LL * 32256 / (gathered ? 1 : 4), held = 0; /* 32000 padded to 128 · 4 */
      for (int k = 0; k < b->n_buffers; k++)
        if (b->buffers[k].cause == MAL_MEM_LOGITS && b->buffers[k].region == MAL_R_STASH) held += b->buffers[k].bytes;
      const mal_instruction *g = find_op(b, MAL_L_BW, MAL_OP_CROSS_ENTROPY, 0);
      if (b->buffers[g->out[0]].region == MAL_R_WORK) held += b->buffers[g->out[0]].bytes;
      assert_int_equal(held, bytes[i] * logits);
      assert_int_equal(b->logits_bytes, held);
    }
}

/* --- parameters ------------------------------------------------------------------------------------------------------------- */

static int64_t elements_of(const mal_block *b) {
  return b->dense_elements + b->expert_elements + b->frozen_dense_elements + b->frozen_expert_elements;
}

static void ranks_share_the_weights(void **state) {
  (void)state;
  const char *const models[] = {"llama-3-8b", "gpt3-175b",  "gemma-2-9b",    "mixtral-8x7b", "deepseek-v3",
                                "falcon-40b", "bloom-7.1b", "qwen3-30b-a3b", "command-r",    "gpt-j-6b",
                                "olmo2-7b",   "phi-3-mini", "mpt-7b"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    mal_plan *whole = plan_of(models[i], "512x8xh100-sxm", "tp=1,pp=1,ep=1", "fsdp2", "{seq: 2048}");
    mal_plan *cut = plan_of(models[i], "512x8xh100-sxm", "tp=4,pp=1,ep=1,etp=4", "megatron", "{seq: 2048}");
    for (int kind = 0; kind < whole->model.n_kinds; kind++) {
      const mal_block *b = lower_layer(whole, kind, MAL_RECOMPUTE_NONE, false);
      const mal_layer_kind *k = &whole->model.kinds[kind];
      int64_t buffers = 0, all = 0, replicated = 0;
      for (int w = 0; w < k->n_weights; w++)
        buffers += k->weights[w].role == MAL_W_BUFFER ? mal_weight_elements(&k->weights[w]) : 0;
      assert_int_equal(elements_of(b), k->parameters);
      assert_int_equal(b->frozen_dense_elements, buffers);
      const mal_block *c = lower_layer(cut, kind, MAL_RECOMPUTE_NONE, false);
      for (int p = 0; p < c->n_params; p++) *(c->params[p].replicated ? &replicated : &all) += c->params[p].elements;
      assert_int_equal(4 * all + replicated, k->parameters);
    }
  }
}

static void experts_lie_on_their_ranks(void **state) {
  (void)state;
  mal_plan *plan = plan_of("mixtral-8x7b", "4x8xh100-sxm", "tp=2,ep=4,etp=1", "megatron", "{seq: 4096}");
  const mal_block *b = lower_layer(plan, 0, MAL_RECOMPUTE_NONE, false);
  assert_int_equal(b->expert_elements, 8 / 4 * 3 * 4096LL * 14336);
}

/* --- optimizer ---------------------------------------------------------------------------------------------------------------- */

static void states_by_optimizer(void **state) {
  (void)state;
  assert_int_equal(mal_optimizer_state_bytes(MAL_ADAMW, 1000, 0), 8000);
  assert_int_equal(mal_optimizer_state_bytes(MAL_ADAMW_BF16, 1000, 0), 4000);
  assert_int_equal(mal_optimizer_state_bytes(MAL_ADAMW8BIT, 1024, 0), 2048 + 8 * 4);
  assert_int_equal(mal_optimizer_state_bytes(MAL_MUON, 1000, 100), 4400);
  assert_int_equal(mal_optimizer_state_bytes(MAL_SGD, 1000, 0), 0);
}

static const mal_block *optimizer_of(const mal_plan *plan, int64_t dense, int64_t expert) {
  return lower_request(&(mal_block_request){
      .plan = plan, .block_class = MAL_B_OPTIMIZER, .dense_elements = dense, .expert_elements = expert});
}

static void shards_of_states(void **state) {
  (void)state;
  mal_plan *plan = plan_of("llama-3-8b", "8xh100-sxm", "tp=2,zero=1", "megatron", "{seq: 4096}");
  const mal_block *b = optimizer_of(plan, 400000000, 0);
  assert_int_equal(b->region_bytes[MAL_R_MASTER], 400000000); /* 4 bytes over 4 ranks */
  assert_int_equal(b->region_bytes[MAL_R_OPT], 2 * 400000000);
  assert_int_equal(sent_bytes(b, MAL_L_F, MAL_OP_COLLECTIVE, MAL_ALL_GATHER, AXIS(DP) | AXIS(CP)), 2 * 400000000);
  plan->layout.zero = 0;
  b = optimizer_of(plan, 400000000, 0);
  assert_int_equal(b->region_bytes[MAL_R_OPT], 8 * 400000000LL);
  assert_int_equal(sent_bytes(b, MAL_L_F, MAL_OP_COLLECTIVE, MAL_ALL_GATHER, AXIS(DP) | AXIS(CP)), 0);
  plan->layout.offload_optimizer = MAL_OFFLOAD_CPU;
  b = optimizer_of(plan, 1000000, 0);
  assert_int_equal(b->region_bytes[MAL_R_OPT] + b->region_bytes[MAL_R_MASTER], 0);
  assert_int_equal(b->host_bytes,
                   (8 + 4 + 4 + 2) * 1000000); /* states, master, gradients on their way, weights on theirs */
  assert_int_equal(count_ops(b, MAL_L_F, MAL_OP_COPY), 2);
}

/* --- speed ---------------------------------------------------------------------------------------------------------------------- */

static void lowering_is_fast(void **state) {
  (void)state;
  mal_plan *plan =
      plan_of("deepseek-v3", "256x8xh100-sxm", "pp=16,ep=64,tp=2", "megatron", "{seq: 4096, accumulation: 32}");
  double best = 1;
  mal_arena scratch;
  mal_arena_init(&scratch);
  for (int round = 0; round < 20; round++) {
    struct timespec from, to;
    mal_error e;
    mal_block out;
    clock_gettime(CLOCK_MONOTONIC, &from);
    mal_block_request r = {.plan = plan, .block_class = MAL_B_LAYER, .kind = plan->model.n_kinds - 1};
    assert_ok(mal_block_lower(&scratch, &r, &out, &e), e);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double s = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    if (s < best) best = s;
    mal_arena_reset(&scratch);
  }
  mal_arena_free(&scratch);
  print_message("one layer of experts lowered in %.0f us\n", best * 1e6);
  assert_true(best < 2e-3); /* sanitizers and a busy machine included */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(activations_are_korthikantis, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(fused_core_keeps_no_square, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(policies_repeat_what_they_do_not_keep, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(executed_flops_are_narayanans, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(model_flops_are_six_per_parameter, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(windows_count_what_is_visible, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(logits_take_what_the_profile_says, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(ranks_share_the_weights, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(experts_lie_on_their_ranks, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(states_by_optimizer, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(shards_of_states, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(lowering_is_fast, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
