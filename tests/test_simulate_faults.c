/* What faults cost: known by hand where that can be; classes split only where a fault touches; text of faults. */
#include "lower.h"
#include "simulate/simulate.h"
#include <math.h>

static mal_simulated played(const mal_program *p, const char *faults, mal_simulate_options o) {
  mal_error e;
  mal_simulated s;
  mal_simulated_fault *list;
  if (faults) {
    assert_ok(mal_faults_parse(&arena, faults, mal_layout_world(&p->plan->layout), p->plan->machine.nodes, &list,
                               &o.n_faults, &e),
              e);
    o.faults = list;
  }
  assert_ok(mal_simulate(&arena, p, &o, &s, &e), e);
  return s;
}

static double cost(const mal_program *p, const char *faults) {
  mal_simulate_options o = {0};
  return played(p, faults, o).played_s / played(p, NULL, o).played_s - 1;
}

/* One stage, all GPUs in step: a GPU at 80 % stretches all kernels of the step by a quarter. */
static void test_slow_gpu(void **state) {
  (void)state;
  const mal_program *p = lower("llama-3-8b", "2x8xh100-sxm", "tp=8,micro-batch=1", "", "{global-batch: 32}");
  mal_simulate_options o = {0};
  mal_simulated s = played(p, NULL, o);
  double kernels = s.time_s[MAL_TIME_MATMUL] + s.time_s[MAL_TIME_ATTENTION] + s.time_s[MAL_TIME_MEMORY] +
                   s.time_s[MAL_TIME_LAUNCH] + s.time_s[MAL_TIME_OPTIMIZER];
  double wanted = 0.25 * kernels / s.played_s, got = cost(p, "slow:rank=3,by=20%");
  if (fabs(got - wanted) > 0.03 * wanted) fail_msg("costs %.4f of the step instead of %.4f", got, wanted);
  /* half speed for 0.4 s (k, the share of kernels, is a little more within passes): kernels take twice as long and the rest does not, so that 1 / (1 + k) of the work is done in it */
  double k = kernels / s.played_s, lost = 0.4 * k / (1 + k);
  double half = cost(p, "throttle:rank=3,by=50%,at=0.2s,for=0.4s") * s.played_s;
  if (fabs(half / lost - 1) > 0.1) fail_msg("half speed for 0.4 s costs %.4f s instead of %.4f s", half, lost);
  mal_simulated slow = played(p, "slow:rank=3,by=20%", o);
  assert_int_equal(slow.slowest_rank, 3);
  assert_true(slow.n_waits > 0 && strcmp(slow.waits[0].culprit, "rank 3") == 0);
}

/* A gradient ring over a NIC at half its rate takes twice as long, where nothing hides it. */
static void test_slow_nic(void **state) {
  (void)state;
  const mal_program *p =
      lower("llama-3-8b", "4x8xh100-sxm", "tp=8,micro-batch=1,overlap-dp-grad=off,overlap-dp-param=off,zero=1", "",
            "{global-batch: 16}");
  mal_simulate_options o = {0};
  mal_simulated s = played(p, NULL, o);
  double dp = s.time_s[MAL_TIME_DP], longer = played(p, "nic:rank=9,by=50%", o).played_s - s.played_s;
  if (fabs(longer / dp - 1) > 0.05) fail_msg("%.4f s longer; its traffic takes %.4f s", longer, dp);
  /* dead: two ranks share the next NIC, which is as good as half a NIC each */
  double dead = played(p, "nic:rank=9,dead", o).played_s - s.played_s;
  if (fabs(dead / dp - 1) > 0.05) fail_msg("dead: %.4f s longer; its traffic takes %.4f s", dead, dp);
}

static void test_slow_nvlink(void **state) {
  (void)state;
  const mal_program *p = lower("llama-3-8b", "8xh100-sxm", "tp=8,micro-batch=1", "", "{global-batch: 8}");
  mal_simulate_options o = {0};
  mal_simulated s = played(p, NULL, o);
  double half = played(p, "nvlink:rank=2,by=50%", o).played_s - s.played_s, tp = s.time_s[MAL_TIME_TP];
  assert_true(half > 0.5 * tp && half < 1.1 * tp); /* twice the bytes' part of it, not the latency's */
  assert_true(played(p, "nvlink:rank=2,dead", o).played_s > s.played_s + 2 * tp);
}

/* A fault splits the classes of what it touches: of 16 × 4 groups its own, those of its stage, its pipeline, the rest. */
static void test_classes(void **state) {
  (void)state;
  const mal_program *p = lower("llama-3-70b", "64x8xh100-sxm", "tp=8,pp=4,micro-batch=1", "", "{global-batch: 128}");
  mal_simulate_options o = {0}, all = {.all_ranks = true};
  mal_simulated by_class = played(p, NULL, o), every = played(p, NULL, all);
  assert_int_equal(by_class.classes, 4);
  assert_int_equal(every.classes, 64);
  assert_true(fabs(by_class.played_s / every.played_s - 1) < 1e-9);
  mal_simulated broken = played(p, "slow:rank=70,by=20%", o), broken_all = played(p, "slow:rank=70,by=20%", all);
  assert_int_equal(broken.classes, 8);
  assert_true(fabs(broken.played_s / broken_all.played_s - 1) < 1e-9);
  assert_true(fabs(broken.flops / every.flops - 1) < 1e-12);
}

/* Hashed paths collide; the same seed collides the same way; taken links cost; a wrongly plugged rail crosses the spines. */
static void test_fabric(void **state) {
  (void)state;
  const mal_program *p =
      lower("llama-3-8b", "64x8xh100-sxm", "tp=1,micro-batch=1,zero=1,overlap-dp-grad=off", "", "{global-batch: 512}");
  mal_simulate_options o = {0}, hashed = {.routing = MAL_ROUTE_ECMP, .seed = 3},
                       other = {.routing = MAL_ROUTE_ECMP, .seed = 4};
  double even = played(p, NULL, o).played_s, one = played(p, NULL, hashed).played_s;
  assert_true(one >= even * (1 - 1e-9) && one == played(p, NULL, hashed).played_s);
  assert_true(played(p, NULL, other).played_s > 0);
  assert_true(cost(p, "rail:node=3") >= -1e-9 && cost(p, "uplink:leaf=0,by=99%") >= -1e-9);
  mal_simulate_options taken = {.background = 0.98};
  assert_true(played(p, NULL, taken).played_s > even);
}

static void test_death(void **state) {
  (void)state;
  const mal_program *p = lower("llama-3-8b", "2x8xh100-sxm", "tp=8,micro-batch=1", "", "{global-batch: 32}");
  mal_simulate_options o = {0};
  mal_simulated s = played(p, "die:rank=11,at=0.3s", o);
  assert_false(s.finished);
  assert_non_null(strstr(s.stuck, "rank 11 has died"));
  assert_true(s.done > 0 && s.done < 1);
  assert_true(played(p, "die:rank=11,at=100s", o).finished); /* after the step */
}

static void test_text(void **state) {
  (void)state;
  mal_error e;
  mal_simulated_fault *f;
  int n;
  assert_ok(mal_faults_parse(&arena, " slow:rank=5,by=20% ; jitter:all,cv=0.05;nic:node=1,dead", 16, 2, &f, &n, &e), e);
  assert_int_equal(n, 3);
  assert_true(f[0].place.rank == 5 && fabs(f[0].lost - 0.2) < 1e-12 && f[1].cv == 0.05 && f[2].lost == 1 &&
              f[2].place.node == 1);
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "", 16, 2, &f, &n, &e), e, "empty");
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "slow", 16, 2, &f, &n, &e), e, "KIND:WHERE");
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "slow:rank=16,by=20%", 16, 2, &f, &n, &e), e, "there are 16");
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "slow:rank=1,by=120%", 16, 2, &f, &n, &e), e, "by=120%");
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "slow:rank=1,node=1,by=20%", 16, 2, &f, &n, &e), e, "once");
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "die:rank=1", 16, 2, &f, &n, &e), e, "at=1s");
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "rail:rank=1", 16, 2, &f, &n, &e), e, "rank");
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "throttle:rank=1,by=10%,at=-1s", 16, 2, &f, &n, &e), e, "at");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_slow_gpu, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_slow_nic, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_slow_nvlink, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_classes, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_fabric, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_death, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_text, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
