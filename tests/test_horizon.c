/* Weeks with failures against formulas that hold in the mean, and by hand. */
#include "lower.h"
#include "price/upkeep.h"
#include "reliability/reliability.h"
#include <math.h>

/* Unexpected interruptions of one node a day in Llama 3's 54 days (arXiv 2407.21783, section 3.3.4). */
static const double h100_rate = 419.0 / (54.0 * 2048.0);

static mal_horizon_job llama3(mal_arena *a, int runs) {
  mal_horizon_job j = {.nodes = 2048,
                       .spares = -1,
                       .length_s = 54 * 86400.0,
                       .stall_s = 10,
                       .write_s = 60,
                       .restart_s = 300,
                       .repair_s = 86400,
                       .seed = 1,
                       .runs = runs};
  j.kinds = mal_failure_kinds(a, h100_rate, &j.n_kinds);
  return j;
}

static mal_horizon play(mal_arena *a, const mal_horizon_job *j, bool search) {
  mal_horizon h;
  mal_error e;
  assert_ok(mal_horizon_play(a, j, search, &h, &e), e);
  return h;
}

/* The counts of the published run come out again: 419 in 54 days. */
static void test_counts(void **state) {
  (void)state;
  mal_arena a;
  mal_arena_init(&a);
  mal_horizon_job j = llama3(&a, 400);
  j.restart_s = 1e-3, j.write_s = 0; /* no time lost, so that all 54 days can fail */
  mal_horizon h = play(&a, &j, false);
  assert_true(fabs(h.failures - 419) < 4 * sqrt(419.0 / 400));
  double all = 0;
  for (int i = 0; i < j.n_kinds; i++) all += h.by_kind[i];
  assert_true(fabs(all - h.failures) < 1e-9 && fabs(h.by_kind[0] - 148) < 4 * sqrt(148.0 / 400));
  assert_true(fabs(mal_failures_rate(j.kinds, j.n_kinds) / h100_rate - 1) < 1e-12);
  assert_true(fabs(h.mttf_s / mal_mttf_s(h100_rate, 2048) - 1) < 1e-12);
  mal_arena_free(&a);
}

/* Time is all accounted for, and goodput is near the published approximation (Kokolis et al.) where failures are rare. */
static void test_formula(void **state) {
  (void)state;
  mal_arena a;
  mal_arena_init(&a);
  for (int nodes = 16; nodes <= 2048; nodes *= 8) {
    mal_horizon_job j = llama3(&a, 300);
    j.nodes = nodes;
    mal_horizon h = play(&a, &j, false);
    assert_true(fabs(h.goodput + h.lost_work + h.restarts + h.waits + h.checkpoints - 1) < 1e-9);
    if (fabs(h.goodput - h.formula) > 0.015)
      fail_msg("%d nodes: %.4f in play, %.4f by formula", nodes, h.goodput, h.formula);
    assert_true(h.low <= h.median && h.median <= h.high);
  }
  mal_arena_free(&a);
}

/* No interval does better in play than the one found; Daly's is near it (2006, his claim: within a few percent of the optimum). */
static void test_best_interval(void **state) {
  (void)state;
  mal_arena a;
  mal_arena_init(&a);
  mal_horizon_job j = llama3(&a, 100);
  j.write_s = 0;
  mal_horizon h = play(&a, &j, true);
  assert_true(h.best_goodput >= h.daly_goodput - 1e-4 && h.best_goodput >= h.young_goodput - 1e-4);
  assert_true(h.best_goodput - h.daly_goodput < 0.002);
  assert_true(h.best_s > 0.4 * h.daly_s && h.best_s < 2.5 * h.daly_s);
  for (double times = 0.25; times <= 4; times *= 2) {
    mal_horizon_job other = j;
    other.interval_s = times * h.best_s;
    assert_true(play(&a, &other, false).goodput <= h.best_goodput + 1e-4);
  }
  mal_arena_free(&a);
}

/* Few spares and long repairs: the job waits; the more spares the less; the same seed, the same answer. */
static void test_spares(void **state) {
  (void)state;
  mal_arena a;
  mal_arena_init(&a);
  double before = 1;
  for (int spares = 0; spares <= 64; spares = spares ? 8 * spares : 1) {
    mal_horizon_job j = llama3(&a, 20);
    j.spares = spares, j.repair_s = 2 * 86400.0;
    mal_horizon h = play(&a, &j, false), again = play(&a, &j, false);
    assert_true(h.waits <= before && h.goodput == again.goodput);
    before = h.waits;
  }
  assert_true(before < 0.01);
  mal_arena_free(&a);
}

static void test_no_failures(void **state) {
  (void)state;
  mal_arena a;
  mal_arena_init(&a);
  const mal_failure_kind none = {"none", 0, false};
  mal_horizon_job j = llama3(&a, 3);
  j.kinds = &none, j.n_kinds = 1;
  mal_horizon h = play(&a, &j, true);
  assert_true(h.goodput == 1 && h.failures == 0 && isinf(h.mttf_s));
  mal_arena_free(&a);
}

/* The goodput behind plan's time to target lies within what play gives over seeds: the same failures of the GPU's catalogue
 * entry, the same checkpoints, one by formula and one failure by failure. */
static void test_plan_agrees(void **state) {
  static const struct {
    const char *model, *machine, *layout, *job;
  } rows[] = {
      {"llama-3-8b", "64x8xh100-sxm", "tp=8,micro-batch=1", "{global-batch: 512}"},
      {"llama-3-70b", "256x8xh100-sxm", "tp=8,pp=4,micro-batch=1", "{global-batch: 2048}"},
      {"llama-3-70b", "128x8xa100-80-sxm", "tp=8,pp=4,micro-batch=1", "{global-batch: 1024}"},
      {"gpt3-175b", "128x8xa100-80-sxm", "tp=8,pp=8,micro-batch=1", "{global-batch: 1536, checkpoint-interval: 1h}"},
      {"llama-3.1-405b", "2048x8xh100-sxm", "tp=8,pp=16,micro-batch=1", "{global-batch: 2048}"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const mal_program *p = lower(rows[i].model, rows[i].machine, rows[i].layout, "", rows[i].job);
    mal_upkeep u = mal_upkeep_of(p);
    mal_horizon_job j = {.spares = -1, .length_s = 30 * 86400.0, .seed = 1, .runs = 200};
    mal_upkeep_horizon(&arena, p->plan, &u, &j);
    mal_horizon h = play(&arena, &j, false);
    const mal_machine *m = &p->plan->machine;
    double rate = mal_node_failures(m->gpu->failures_per_node_day.value, (double)m->gpus_per_node);
    assert_true(fabs(mal_failures_rate(j.kinds, j.n_kinds) / rate - 1) < 1e-12);
    /* a stall that is in the step is not in the goodput */
    double planned = u.goodput * (u.in_step ? 1 - u.stall_s / (u.stall_s + u.interval_s) : 1);
    print_message("%s: plan %.4f, play %.4f (%.4f to %.4f)\n", rows[i].machine, planned, h.median, h.low, h.high);
    if (planned < h.low || planned > h.high)
      fail_msg("%s on %s: goodput %.4f by plan, %.4f to %.4f in play", rows[i].model, rows[i].machine, planned, h.low,
               h.high);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts),        cmocka_unit_test(test_formula),
      cmocka_unit_test(test_best_interval), cmocka_unit_test(test_spares),
      cmocka_unit_test(test_no_failures),   cmocka_unit_test_setup_teardown(test_plan_agrees, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
