/* What each kind of parallelism sends and keeps, by hand: tensor, sequence, context, expert, ZeRO, adapters, low precision. */
#include "plan/plan.h"
#include "program_block.h"

enum { T = 4096 }; /* tokens of a micro-batch: one sequence */
#define JOB "{seq: 4096, accumulation: 4}"

static int64_t ag(const mal_block *b, mal_list l, unsigned axes) {
  return sent_bytes(b, l, MAL_OP_COLLECTIVE, MAL_ALL_GATHER, axes);
}
static int64_t rs(const mal_block *b, mal_list l, unsigned axes) {
  return sent_bytes(b, l, MAL_OP_COLLECTIVE, MAL_REDUCE_SCATTER, axes);
}
static int64_t ar(const mal_block *b, mal_list l, unsigned axes) {
  return sent_bytes(b, l, MAL_OP_COLLECTIVE, MAL_ALL_REDUCE, axes);
}
static int64_t a2a(const mal_block *b, mal_list l, unsigned axes) {
  return sent_bytes(b, l, MAL_OP_COLLECTIVE, MAL_ALL_TO_ALL, axes);
}

/* --- tensor and sequence ---------------------------------------------------------------------------------------------------- */

/* Shoeybi et al.: two all-reduces forward, two backward. Korthikanti et al.: each becomes a reduce-scatter and an all-gather, and
 * backward gathers the inputs of the column-parallel products again. */
static void tensor_parallel_traffic(void **state) {
  (void)state;
  int64_t whole = 2LL * T * 4096;
  const mal_block *b =
      lower_layer(plan_of("llama-3-8b", "8xh100-sxm", "tp=4,sequence-parallel=off", "megatron", JOB), 0, 0, false);
  assert_int_equal(ar(b, MAL_L_F, AXIS(TP)), 2 * whole);
  assert_int_equal(ar(b, MAL_L_BW, AXIS(TP)), 2 * whole);
  assert_int_equal(ag(b, MAL_L_F, AXIS(TP)) + rs(b, MAL_L_BW, AXIS(TP)), 0);
  b = lower_layer(plan_of("llama-3-8b", "8xh100-sxm", "tp=4", "megatron", JOB), 0, 0, false);
  assert_int_equal(ar(b, MAL_L_F, AXIS(TP)), 0);
  assert_int_equal(ag(b, MAL_L_F, AXIS(TP)), 2 * whole);
  assert_int_equal(rs(b, MAL_L_F, AXIS(TP)), 2 * whole);
  assert_int_equal(ag(b, MAL_L_BW, AXIS(TP)), 4 * whole);
  assert_int_equal(rs(b, MAL_L_BW, AXIS(TP)), 2 * whole);
}

/* One sum for both branches of a parallel block. */
static void parallel_blocks_sum_once(void **state) {
  (void)state;
  const mal_block *b = lower_layer(
      plan_of("gpt-j-6b", "8xh100-sxm", "tp=4,sequence-parallel=off", "megatron", "{seq: 2048}"), 0, 0, false);
  assert_int_equal(ar(b, MAL_L_F, AXIS(TP)), 2LL * 2048 * 4096);
  assert_int_equal(ar(b, MAL_L_BW, AXIS(TP)), 2LL * 2048 * 4096);
  assert_int_equal(count_ops(b, MAL_L_F, MAL_OP_NORM), 1);
  b = lower_layer(plan_of("gemma-2-9b", "8xh100-sxm", "tp=2", "megatron", "{seq: 2048}"), 0, 0, false);
  assert_int_equal(count_ops(b, MAL_L_F, MAL_OP_NORM), 4);
}

/* The input gradient's sum starts before the weight gradient that hides it, and is waited for after. */
static void sums_run_beside_weight_gradients(void **state) {
  (void)state;
  mal_plan *plan = plan_of("llama-3-8b", "8xh100-sxm", "tp=4,sequence-parallel=off,overlap-tp=on", "megatron", JOB);
  const mal_block *b = lower_layer(plan, 0, 0, false);
  int found = 0;
  for (int i = 0; i + 1 < b->count[MAL_L_BW]; i++) {
    const mal_instruction *x = &b->list[MAL_L_BW][i];
    if (x->op != MAL_OP_COLLECTIVE) continue;
    assert_int_equal(x->stream, MAL_STREAM_TP);
    assert_true(x[1].op == MAL_OP_MATMUL && x[1].flags & MAL_INS_WEIGHT_GRAD && x[1].stream == MAL_STREAM_COMPUTE);
    assert_int_equal(x[1].wait[0], MAL_NO_EVENT);
    assert_true(x->record != MAL_NO_EVENT && x[2].wait[0] == x->record);
    found++;
  }
  assert_int_equal(found, 2);
  plan->layout.overlap_tp = MAL_OFF;
  plan->profile->tp_backward_async = false;
  b = lower_layer(plan, 0, 0, false);
  for (int i = 0; i < b->count[MAL_L_BW]; i++) assert_int_equal(b->list[MAL_L_BW][i].stream, MAL_STREAM_COMPUTE);
}

/* --- context ------------------------------------------------------------------------------------------------------------------ */

static void context_parallel_traffic(void **state) {
  (void)state;
  int64_t kv = 2LL * T / 4 * 1024, q = 2LL * T / 4 * 4096; /* bytes of k, of q, of this rank */
  mal_plan *plan = plan_of("llama-3-8b", "8xh100-sxm", "cp=4,cp-kind=ring,attention=flash2", "megatron", JOB);
  const mal_block *b = lower_layer(plan, 0, 0, false);
  assert_int_equal(sent_bytes(b, MAL_L_F, MAL_OP_SEND, 0, AXIS(CP)), 3 * 2 * kv);
  assert_int_equal(sent_bytes(b, MAL_L_BW, MAL_OP_SEND, 0, AXIS(CP)), (3 + 4) * 2 * kv); /* gradients come home */
  assert_int_equal(count_ops(b, MAL_L_F, MAL_OP_ATTENTION), 4);
  plan->layout.cp_kind = MAL_CP_ALLTOALL;
  b = lower_layer(plan, 0, 0, false);
  assert_int_equal(a2a(b, MAL_L_F, AXIS(CP)), 2 * q + 2 * kv);
  assert_int_equal(a2a(b, MAL_L_BW, AXIS(CP)), 2 * q + 2 * kv);
  plan->layout.cp_kind = MAL_CP_ALLGATHER;
  b = lower_layer(plan, 0, 0, false);
  assert_int_equal(ag(b, MAL_L_F, AXIS(CP)), 4 * 2 * kv);
  assert_int_equal(rs(b, MAL_L_BW, AXIS(CP)), 4 * 2 * kv);
}

static void says_what_it_cannot(void **state) {
  (void)state;
  mal_error e;
  mal_block out;
  mal_plan *plan = plan_of("llama-3-8b", "8xh100-sxm", "cp=4,cp-kind=ring,attention=flash2", "megatron", JOB);
  mal_block_request r = {.plan = plan, .block_class = MAL_B_LAYER};
  plan->layout.attention = MAL_ATT_UNFUSED;
  assert_fails(MAL_BAD, mal_block_lower(&arena, &r, &out, &e), e, "ring attention", "attention=flash2");
  plan->layout.cp_kind = MAL_CP_ALLTOALL;
  plan->layout.cp = 5;
  assert_fails(MAL_BAD, mal_block_lower(&arena, &r, &out, &e), e, "alltoall", "cp = 5");
  plan->layout.cp = 4;
  plan->layout.offload_params = MAL_OFFLOAD_CPU;
  assert_fails(MAL_BAD, mal_block_lower(&arena, &r, &out, &e), e, "zero=3");
}

/* --- experts ------------------------------------------------------------------------------------------------------------------- */

/* With sequence parallelism a rank sends T/tp tokens, top_k times. */
static void expert_parallel_traffic(void **state) {
  (void)state;
  const struct {
    const char *layout;
    int64_t sent, rows, etp; /* copies of tokens sent; rows of one expert; bytes gathered over etp */
  } cases[] = {
      {"tp=2,ep=4,etp=1", T / 2 * 2, T / 2 * 2 * 4 / 8, 0},
      {"tp=2,ep=4,etp=2", T / 2 * 2, T / 2 * 2 * 4 / 8 * 2, 2LL * T * 2 * 4096},
      {"tp=2,ep=4,etp=2,sequence-parallel=off", T * 2, T * 2 * 4 / 8, 0},
      {"tp=2,ep=4,etp=1,sequence-parallel=off", T / 2 * 2, T / 2 * 2 * 4 / 8, 0},
      {"ep=8", T * 2, T * 2 * 8 / 8, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mal_plan *plan = plan_of("mixtral-8x7b", "4x8xh100-sxm", cases[i].layout, "megatron", JOB);
    const mal_block *b = lower_layer(plan, 0, 0, false);
    assert_int_equal(a2a(b, MAL_L_F, AXIS(EP)), 2 * cases[i].sent * 4096 * 2); /* there and back */
    assert_int_equal(a2a(b, MAL_L_BW, AXIS(EP)), 2 * cases[i].sent * 4096 * 2);
    assert_int_equal(ag(b, MAL_L_F, AXIS(ETP)), cases[i].etp);
    assert_int_equal(rs(b, MAL_L_F, AXIS(ETP)), cases[i].etp);
    int grouped = 0;
    for (int k = 0; k < b->count[MAL_L_F]; k++) {
      const mal_instruction *x = &b->list[MAL_L_F][k];
      if (!(x->flags & MAL_INS_GROUPED)) continue;
      grouped++;
      assert_int_equal(b->sizes[x->sizes].v[0], cases[i].rows);
      assert_int_equal(b->sizes[x->sizes].v[3], 8 / plan->layout.ep);
    }
    assert_int_equal(grouped, plan->profile->fused_qkv ? 2 : 3);
  }
}

/* FLOPs of a token do not depend on how experts are spread. */
static void expert_flops_are_those_of_top_k(void **state) {
  (void)state;
  static const char *const layouts[] = {"tp=1", "ep=8", "tp=2,ep=4,etp=1", "tp=2,ep=2,etp=2",
                                        "tp=2,ep=2,etp=2,sequence-parallel=off"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    mal_plan *plan = plan_of("mixtral-8x7b", "4x8xh100-sxm", layouts[i], "megatron", JOB);
    const mal_block *b = lower_layer(plan, 0, 0, false);
    const mal_layer_kind *k = &plan->model.kinds[0];
    double matrices = (double)k->active_parameters - 2 * 4096 - 4096 * 8,
           tp = (double)plan->layout.tp; /* but norms and router */
    double router = 2.0 * T * 4096 * 8 / (plan->layout.sequence_parallel == MAL_ON ? tp : 1);
    double wanted = (2 * matrices * T + 2.0 * T * T * 4096) / tp + router;
    near(b->model_flops[MAL_L_F], wanted, 1e-12);
    near(b->model_flops[MAL_L_BW], 2 * wanted, 1e-12);
  }
}

static void latents_are_gathered_not_hidden_rows(void **state) {
  (void)state;
  mal_plan *plan =
      plan_of("deepseek-v3", "256x8xh100-sxm", "tp=8,pp=4,ep=8,etp=1", "megatron", "{seq: 4096, accumulation: 16}");
  const mal_block *b = lower_layer(plan, 0, 0, false); /* dense */
  int64_t mlp = 2LL * T * 7168, latents = 2LL * T * (1536 + 512 + 64);
  assert_int_equal(ag(b, MAL_L_F, AXIS(TP)), mlp + latents);
  const mal_instruction *i = find_op(b, MAL_L_F, MAL_OP_ATTENTION, 0);
  assert_int_equal(b->sizes[i->sizes].v[5], 192);
  assert_int_equal(b->sizes[i->sizes].v[6], 128);
  double dense = 0;
  const mal_layer_kind *k = &plan->model.kinds[0];
  for (int w = 0; w < k->n_weights; w++)
    if (k->weights[w].rank > 1) dense += (double)mal_weight_elements(&k->weights[w]);
  near(b->model_flops[MAL_L_F], (2 * dense * T + 2.0 * T * T / 2 * 128 * (192 + 128)) / 8, 1e-12);
}

/* --- ZeRO ------------------------------------------------------------------------------------------------------------------------ */

static void units_are_gathered_and_scattered(void **state) {
  (void)state;
  mal_plan *plan = plan_of("llama-3-8b", "2x8xh100-sxm", "zero=3", "fsdp2", JOB);
  int64_t n = plan->model.kinds[0].parameters;
  const mal_block *b = lower_layer(plan, 0, 0, false);
  assert_int_equal(ag(b, MAL_L_GATHER, AXIS(DP) | AXIS(CP)), 2 * n);
  assert_int_equal(rs(b, MAL_L_REDUCE, AXIS(DP) | AXIS(CP)), 4 * n); /* reduced in fp32 */
  assert_int_equal(b->region_bytes[MAL_R_GATHER], 2 * n);
  assert_int_equal(b->region_bytes[MAL_R_PARAM], 4 * n / 16);
  assert_int_equal(b->region_bytes[MAL_R_GRAD], 4 * n / 16);
  assert_int_equal(b->region_bytes[MAL_R_BUCKET], (2 + 4) * n);
  plan->layout.hybrid = 8;
  b = lower_layer(plan, 0, 0, false);
  assert_int_equal(ag(b, MAL_L_GATHER, MAL_AXES_SHARD), 2 * n);
  assert_int_equal(ar(b, MAL_L_REDUCE, MAL_AXES_REPLICA), 4 * n / 8);
  assert_int_equal(mal_instruction_group(plan, MAL_AXES_SHARD).size, 8);
  assert_int_equal(mal_instruction_group(plan, MAL_AXES_REPLICA).size, 2);
  plan->layout.hybrid = 0;
  plan->layout.offload_params = MAL_OFFLOAD_CPU;
  b = lower_layer(plan, 0, 0, false);
  assert_int_equal(b->region_bytes[MAL_R_PARAM], 0);
  assert_int_equal(b->host_bytes, 4 * n / 16);
  assert_int_equal(b->list[MAL_L_GATHER][0].op, MAL_OP_COPY);
}

static const mal_block *sync_of(const mal_plan *plan, int64_t dense, int64_t expert, int64_t replicated, int64_t tied) {
  return lower_request(&(mal_block_request){.plan = plan,
                                            .block_class = MAL_B_SYNC,
                                            .dense_elements = dense,
                                            .expert_elements = expert,
                                            .replicated_elements = replicated,
                                            .tied_elements = tied});
}

static void gradients_are_summed(void **state) {
  (void)state;
  mal_plan *plan = plan_of("gpt3-7.5b", "8x8xh100-sxm", "tp=2,pp=2,zero=1", "megatron", "{seq: 2048, accumulation: 4}");
  int64_t n = 100000000;
  const mal_block *b = sync_of(plan, n, 0, 1000, 5000);
  assert_int_equal(rs(b, MAL_L_F, AXIS(DP) | AXIS(CP)), 4 * n);
  assert_int_equal(ar(b, MAL_L_F, AXIS(TP)), 4 * 1000);
  assert_int_equal(sent_bytes(b, MAL_L_F, MAL_OP_SEND, 0, AXIS(PP)), 4 * 5000);
  plan->layout.zero = 0;
  plan->profile->reduce_bytes = 2;
  plan->profile->bucket_elements = n / 10;
  plan->profile->bucket_elements_per_rank = 0;
  b = sync_of(plan, n, 0, 0, 0);
  assert_int_equal(ar(b, MAL_L_F, AXIS(DP) | AXIS(CP)), 2 * n);
  assert_int_equal(count_ops(b, MAL_L_F, MAL_OP_COLLECTIVE), 10);
  assert_int_equal(b->region_bytes[MAL_R_BUCKET], 2 * n / 10);
  plan = plan_of("mixtral-8x7b", "4x8xh100-sxm", "ep=4", "megatron", JOB);
  b = sync_of(plan, n, n, 0, 0);
  assert_int_equal(rs(b, MAL_L_F, AXIS(EDP)), 4 * n);
}

/* --- adapters and low precision ---------------------------------------------------------------------------------------------------- */

static void adapters_train_alone(void **state) {
  (void)state;
  mal_plan *plan = plan_of("llama-3-8b", "8xh100-sxm", "tp=1", "fsdp2", "{seq: 4096, train: lora, lora-rank: 8}");
  const mal_block *b = lower_layer(plan, 0, 0, false);
  assert_int_equal(b->frozen_dense_elements, plan->model.kinds[0].parameters);
  int64_t h = 4096, ffn = 14336, kv = 1024;
  assert_int_equal(b->dense_elements, 8 * ((h + h) + 2 * (h + kv) + (h + h) + 2 * (h + ffn) + (ffn + h)));
  for (int i = 0; i < b->count[MAL_L_BW]; i++) {
    const mal_instruction *x = &b->list[MAL_L_BW][i];
    if (x->op == MAL_OP_MATMUL && x->flags & MAL_INS_WEIGHT_GRAD) {
      const int64_t *v = b->sizes[x->sizes].v;
      assert_true(v[0] == 8 || v[1] == 8);
    }
  }
  const mal_block *first =
      lower_request(&(mal_block_request){.plan = plan, .block_class = MAL_B_LAYER, .no_input_grad = true});
  assert_true(first->flops[MAL_L_BW] < b->flops[MAL_L_BW]);
  assert_int_equal(lower_class(plan, MAL_B_EMBED)->count[MAL_L_BW], 0);
  const mal_block *head = lower_class(plan, MAL_B_HEAD);
  near(head->flops[MAL_L_BW], head->flops[MAL_L_F], 1e-12); /* the input's gradient only */
  plan->job.train = MAL_QLORA;
  b = lower_layer(plan, 0, 0, false);
  const mal_layer_kind *k = &plan->model.kinds[0];
  int64_t matrices = k->parameters - 2 * 4096, four_bit = 0;
  for (int f = 0; f < b->n_buffers; f++)
    if (b->buffers[f].dtype == MAL_F4) four_bit += b->buffers[f].bytes;
  assert_int_equal(four_bit, matrices / 2 + matrices / 64);
  assert_true(count_ops(b, MAL_L_F, MAL_OP_CAST) >= 7 && count_ops(b, MAL_L_BW, MAL_OP_CAST) >= 7);
}

/* What no buffer shows is said by the instruction: passes of an unfused softmax, both copies of a cast, an 8-bit core. */
static void passes_are_said(void **state) {
  (void)state;
  mal_plan *plan =
      plan_of("gpt3-7.5b", "8xa100-sxm", "tp=8,attention=unfused,micro-batch=1", "megatron", "{seq: 2048}");
  const mal_block *b = lower_layer(plan, 0, 0, false); /* 4 heads of 32 a rank: in fours */
  const mal_instruction *i = find_op(b, MAL_L_F, MAL_OP_SOFTMAX, 0);
  assert_int_equal(mal_moved_bytes(i, &b->sizes[i->sizes]), 0);
  plan = plan_of("llama-3-8b", "8xa100-sxm", "tp=8,attention=unfused,micro-batch=1", "megatron", "{seq: 8192}");
  b = lower_layer(plan, 0, 0, false); /* too long */
  i = find_op(b, MAL_L_F, MAL_OP_SOFTMAX, 0);
  assert_int_equal(mal_moved_bytes(i, &b->sizes[i->sizes]), 3 * (int64_t)mal_instruction_bytes(b, i));
  static const char *const machines[] = {"8xh100-sxm", "8xb200-sxm"};
  for (int k = 0; k < 2; k++) { /* 16 bits read; two copies in 8 bits, one where either order will do */
    plan = plan_of("llama-3-8b", machines[k], "tp=1", "megatron", "{seq: 4096, precision: fp8}");
    plan->profile->fp8_amax_pass = false;
    b = lower_layer(plan, 0, 0, false);
    i = find_op(b, MAL_L_F, MAL_OP_CAST, 0);
    assert_int_equal(mal_moved_bytes(i, &b->sizes[i->sizes]), (k ? 3 : 4) * b->sizes[i->sizes].v[0]);
  }
}

/* A fused adapter adds in its products: no sum of two activations but the two of the residual stream, no more traffic, and the same
 * products. */
static void fused_adapters_add_in_products(void **state) {
  (void)state;
  mal_plan *plan = plan_of("llama-3-8b", "8xh100-sxm", "tp=4", "megatron", "{seq: 4096, train: lora}");
  plan->profile->fused_adapters = false;
  const mal_block *apart = lower_layer(plan, 0, 0, false);
  plan->profile->fused_adapters = true;
  const mal_block *fused = lower_layer(plan, 0, 0, false);
  assert_int_equal(count_ops(fused, MAL_L_F, MAL_OP_ADD), 2);
  assert_int_equal(count_ops(fused, MAL_L_BW, MAL_OP_ADD), 2);
  assert_int_equal(count_ops(apart, MAL_L_F, MAL_OP_ADD), 6);
  assert_int_equal(count_ops(apart, MAL_L_BW, MAL_OP_ADD), 6);
  static const mal_list lists[] = {MAL_L_F, MAL_L_BW};
  for (int k = 0; k < 2; k++) {
    assert_true(fused->flops[lists[k]] > apart->flops[lists[k]]); /* which then works on a fourth of the rows */
    int64_t inner = 2LL * 2 * T * 16; /* of the two row-parallel products: A·x, summed by itself */
    assert_int_equal(ag(apart, lists[k], AXIS(TP)) - ag(fused, lists[k], AXIS(TP)), k ? inner : 0);
    assert_int_equal(rs(apart, lists[k], AXIS(TP)) - rs(fused, lists[k], AXIS(TP)), k ? 0 : inner);
  }
  assert_int_equal(fused->dense_elements, apart->dense_elements);
}

static void low_precision_is_for_linear_layers(void **state) {
  (void)state;
  mal_plan *plan = plan_of("llama-3-8b", "8xh100-sxm", "tp=2", "megatron", "{seq: 4096, precision: fp8}");
  const mal_block *b = lower_layer(plan, 0, 0, false);
  for (int l = 0; l < MAL_LISTS; l++)
    for (int i = 0; i < b->count[l]; i++) {
      if (b->list[l][i].op == MAL_OP_MATMUL) assert_int_equal(b->list[l][i].dtype, MAL_F8);
      if (b->list[l][i].op == MAL_OP_ATTENTION) assert_int_equal(b->list[l][i].dtype, MAL_BF16);
    }
  assert_int_equal(find_op(lower_class(plan, MAL_B_HEAD), MAL_L_F, MAL_OP_MATMUL, 0)->dtype, MAL_BF16);
  assert_int_equal(ag(b, MAL_L_F, AXIS(TP)), 2LL * T * 4096); /* inputs are gathered in 8 bits */
  int64_t matrices = (plan->model.kinds[0].parameters - 2 * 4096) / 2;
  assert_int_equal(b->region_bytes[MAL_R_PARAM], 2 * (matrices + 2 * 4096) + 2 * matrices); /* and both 8-bit copies */
  plan->job.precision = MAL_P_BF16;
  assert_true(b->stash_bytes < lower_layer(plan, 0, 0, false)->stash_bytes);
  plan->job.precision = MAL_P_TF32;
  b = lower_layer(plan, 0, 0, false);
  assert_int_equal(find_op(b, MAL_L_F, MAL_OP_MATMUL, 0)->dtype, MAL_TF32);
  assert_int_equal(find_op(b, MAL_L_F, MAL_OP_NORM, 0)->dtype, MAL_F32);
  assert_int_equal(b->region_bytes[MAL_R_PARAM], 4 * (matrices + 2 * 4096));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(tensor_parallel_traffic, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(parallel_blocks_sum_once, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(sums_run_beside_weight_gradients, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(context_parallel_traffic, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(says_what_it_cannot, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(expert_parallel_traffic, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(expert_flops_are_those_of_top_k, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(latents_are_gathered_not_hidden_rows, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(units_are_gathered_and_scattered, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(gradients_are_summed, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(adapters_train_alone, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(passes_are_said, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(fused_adapters_add_in_products, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(low_precision_is_for_linear_layers, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
