/* Types of gradients and master weights as the job chooses them: bytes a parameter, whatever the framework. */
#include "job/types.h"
#include "lower.h"
#include <math.h>

static mal_status make(const char *profile, const char *layout, const char *job, mal_plan *plan, mal_error *e) {
  return try_plan("llama-3-8b", "8xh100-sxm", layout, profile, job, plan, e);
}

/* Bytes a parameter of gradients and of master weights, all ranks of a replica together. */
static void bytes_are(const char *profile, const char *layout, const char *job, double gradients, double master,
                      double weights) {
  mal_error e;
  mal_plan *plan = MAL_NEW(&arena, mal_plan);
  mal_program p;
  assert_ok(make(profile, layout, job, plan, &e), e);
  assert_ok(mal_lower(&arena, plan, &p, &e), e);
  const int64_t *m = p.stages[0].memory_bytes;
  double n = (double)plan->model.parameters;
  int64_t ranks = plan->layout.zero == 3 ? plan->layout.dp : 1, states = plan->layout.zero ? plan->layout.dp : 1;
  const double got[] = {(double)(m[MAL_MEM_GRADIENTS] * ranks) / n, (double)(m[MAL_MEM_MASTER] * states) / n,
                        (double)(m[MAL_MEM_WEIGHTS] * ranks) / n};
  const double wanted[] = {gradients, master, weights};
  for (int i = 0; i < 3; i++)
    if (fabs(got[i] - wanted[i]) > 0.01)
      fail_msg("%s %s %s: %.3f bytes instead of %.3f of %s", profile, layout, job, got[i], wanted[i],
               i == 0   ? "gradients"
               : i == 1 ? "master weights"
                        : "weights");
}

static void the_job_decides(void **state) {
  (void)state;
  const char *one = "zero=0,micro-batch=1,recompute=full", *three = "zero=3,micro-batch=1,recompute=full";
  bytes_are("megatron", one, "{seq: 512}", 4, 4, 2);
  bytes_are("megatron", one, "{seq: 512, gradients: bf16}", 2, 4, 2);
  bytes_are("megatron", one, "{seq: 512, master: none}", 4, 0, 2);
  bytes_are("megatron", one, "{seq: 512, gradients: bf16, master: none, optimizer: adamw-8bit}", 2, 0, 2);
  bytes_are("llmq", one, "{seq: 512}", 2, 0, 2);
  bytes_are("llmq", one, "{seq: 512, gradients: fp32, master: fp32}", 4, 4, 2);
  bytes_are("fsdp2", three, "{seq: 512}", 4, 0, 4); /* the shard is the master */
  bytes_are("fsdp2", three, "{seq: 512, gradients: bf16, master: none}", 2, 0, 2);
  bytes_are("deepspeed", three, "{seq: 512}", 2, 4, 2);
  bytes_are("deepspeed", three, "{seq: 512, master: none}", 2, 0, 2);
  bytes_are("megatron", one, "{seq: 512, optimizer: adamw-bf16}", 4, 0, 2);
  bytes_are("megatron", one, "{seq: 512, optimizer: adamw-bf16, master: fp32}", 4, 4, 2);
  bytes_are("fsdp2", three, "{seq: 512, optimizer: adamw-bf16}", 4, 0, 2);
}

/* A copy: the framework's own stays as it was; the same one where nothing is chosen. */
static void the_framework_stays(void **state) {
  (void)state;
  mal_error e;
  mal_plan plan;
  assert_ok(make("megatron", "", "{}", &plan, &e), e);
  assert_ptr_equal(plan.profile, plan.framework);
  assert_string_equal(mal_types_words(&arena, plan.profile, &plan.job), "fp32 gradients, fp32 master weights");
  assert_ok(make("megatron", "", "{gradients: bf16, master: none}", &plan, &e), e);
  assert_true(plan.framework->grad_bytes == 4 && plan.framework->master_fp32);
  assert_true(plan.profile->grad_bytes == 2 && plan.profile->reduce_bytes == 2 && !plan.profile->master_fp32);
  assert_string_equal(mal_types_words(&arena, plan.profile, &plan.job), "bf16 gradients, no master weights");
  assert_fails(MAL_BAD, make("megatron", "", "{precision: fp32, gradients: bf16}", &plan, &e), e, "gradients=bf16",
               "fp32");
  assert_fails(MAL_BAD, make("megatron", "", "{precision: tf32, master: none}", &plan, &e), e, "master=none");
  assert_fails(MAL_BAD, make("megatron", "", "{gradients: fp8}", &plan, &e), e, "fp8", "bf16");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_job_decides),
      cmocka_unit_test(the_framework_stays),
  };
  return cmocka_run_group_tests(tests, open_arena, close_arena);
}
