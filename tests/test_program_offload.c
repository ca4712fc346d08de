/* Offloaded optimizer states and weights: the GPU needs less by what left it, the host little more than what came. */
#include "lower.h"

static mal_status lower_70b(const char *profile, const char *layout, const char *job, mal_program *p, mal_error *e) {
  return try_lower("llama-3-70b", "2x8xh100-sxm", layout, profile, job, p, e);
}

static const mal_stage *stage_of(const char *profile, const char *layout, const char *job) {
  mal_error e;
  mal_program *p = MAL_NEW(&arena, mal_program);
  assert_ok(lower_70b(profile, layout, job, p, &e), e);
  return &p->stages[0];
}

static const char *const jobs[] = {
    "{seq: 4096, accumulation: 2}",
    "{seq: 4096, accumulation: 2, optimizer: adamw-8bit, master: none, gradients: bf16}"};
static const char *const profiles[] = {"megatron", "fsdp2", "deepspeed", "malha"};
static const int64_t little = INT64_C(3) << 30; /* staging on the host */

static void check(const char *profile, const char *split, const char *job, int zero, const char *where) {
  const char *layout = mal_print(&arena, "%s,zero=%d,micro-batch=1,recompute=full", split, zero);
  const mal_stage *here = stage_of(profile, layout, job);
  const mal_stage *away = stage_of(profile, mal_print(&arena, "%s,offload-optimizer=%s", layout, where), job);
  const int64_t *m = here->memory_bytes, *n = away->memory_bytes;
  bool nvme = strcmp(where, "nvme") == 0;
  int64_t states = m[MAL_MEM_MASTER] + m[MAL_MEM_OPTIMIZER], gradients = m[MAL_MEM_GRADIENTS] - n[MAL_MEM_GRADIENTS];
  int64_t kept = nvme ? away->nvme_bytes : away->host_bytes - gradients;
  const char *what = mal_print(&arena, "%s %s %s to %s", profile, layout, job, where);
  if (n[MAL_MEM_MASTER] + n[MAL_MEM_OPTIMIZER]) fail_msg("%s: states stay on the GPU", what);
  if (n[MAL_MEM_WORKSPACE] > m[MAL_MEM_WORKSPACE])
    fail_msg("%s: workspace grows by %lld bytes", what, (long long)(n[MAL_MEM_WORKSPACE] - m[MAL_MEM_WORKSPACE]));
  if (away->total_bytes > here->total_bytes - states)
    fail_msg("%s: %lld bytes, and without offload %lld of which %lld are states", what, (long long)away->total_bytes,
             (long long)here->total_bytes, (long long)states);
  if (kept < states || kept > states + little)
    fail_msg("%s: %lld bytes left the GPU, %lld came to the host", what, (long long)states, (long long)kept);
  if (nvme && away->host_bytes > gradients + 2 * little)
    fail_msg("%s: %lld bytes on the host", what, (long long)away->host_bytes);
}

static void states_leave(void **state) {
  (void)state;
  for (size_t p = 0; p < sizeof profiles / sizeof *profiles; p++)
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++)
      for (int zero = 1; zero <= 3; zero++) {
        check(profiles[p], "tp=8", jobs[j], zero, "cpu");
        check(profiles[p], "tp=1", jobs[j], zero, "cpu");
        if (zero == 3) check(profiles[p], "tp=8", jobs[j], zero, "nvme");
        if (zero == 3) check(profiles[p], "tp=1", jobs[j], zero, "nvme");
      }
}

/* What is not possible is said. */
static void the_rest_is_refused(void **state) {
  (void)state;
  mal_error e;
  mal_program p;
  assert_fails(MAL_BAD, lower_70b("megatron", "tp=8,zero=0,offload-optimizer=cpu", "{}", &p, &e), e, "zero=1, 2 or 3");
  for (int zero = 0; zero < 3; zero++) {
    const char *layout = mal_print(&arena, "tp=8,zero=%d", zero);
    assert_fails(MAL_BAD, lower_70b("megatron", mal_print(&arena, "%s,offload-optimizer=nvme", layout), "{}", &p, &e),
                 e, "zero");
    assert_fails(MAL_BAD, lower_70b("megatron", mal_print(&arena, "%s,offload-params=cpu", layout), "{}", &p, &e), e,
                 "zero=3");
  }
}

static void weights_leave(void **state) {
  (void)state;
  for (size_t p = 0; p < sizeof profiles / sizeof *profiles; p++)
    for (int nvme = 0; nvme < 2; nvme++) {
      const char *layout = mal_print(&arena, "zero=3,micro-batch=1,recompute=full,offload-optimizer=cpu");
      const mal_stage *here = stage_of(profiles[p], layout, jobs[0]);
      layout = mal_print(&arena, "%s,offload-params=%s", layout, nvme ? "nvme" : "cpu");
      const mal_stage *away = stage_of(profiles[p], layout, jobs[0]);
      int64_t left = here->memory_bytes[MAL_MEM_WEIGHTS];
      assert_int_equal(away->memory_bytes[MAL_MEM_WEIGHTS], 0);
      assert_true(away->total_bytes < here->total_bytes - left / 2); /* a unit's shard comes and goes */
      int64_t came = nvme ? away->nvme_bytes : away->host_bytes - here->host_bytes;
      if (came > left + little || came < left - little)
        fail_msg("%s: %lld bytes left, %lld came", profiles[p], (long long)left, (long long)came);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(states_leave),
      cmocka_unit_test(the_rest_is_refused),
      cmocka_unit_test(weights_leave),
  };
  return cmocka_run_group_tests(tests, open_arena, close_arena);
}
