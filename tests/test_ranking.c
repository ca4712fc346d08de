/* Ranks of layouts, the regret of a pick, and the risk behind it. */
#include "check/ranking.h"
#include "check/validate.h"
#include "test.h"
#include <math.h>

/* Ten people's IQ and hours of television: rho = -29/165 (the worked example of Wikipedia, Spearman's rank correlation). */
static void spearman(void **state) {
  (void)state;
  mal_arena a;
  mal_arena_init(&a);
  double iq[] = {106, 100, 86, 101, 99, 103, 97, 113, 112, 110}, hours[] = {7, 27, 2, 50, 28, 29, 20, 12, 6, 17};
  assert_float_equal(mal_spearman(&a, iq, hours, 10), -29.0 / 165, 1e-12);
  double x[] = {1, 2, 3, 4}, tied[] = {1, 2, 2, 3}, flat[] = {5, 5, 5, 5};
  assert_float_equal(mal_spearman(&a, x, x, 4), 1, 1e-12);
  assert_float_equal(mal_spearman(&a, x, tied, 4), 4.5 / sqrt(5 * 4.5), 1e-12); /* Pearson of the ranks 1 2.5 2.5 4 */
  assert_float_equal(mal_spearman(&a, x, flat, 4), 0, 0);
  assert_float_equal(mal_spearman(&a, x, x, 0), 0, 0);
  mal_arena_free(&a);
}

static void memory_risk(void **state) {
  (void)state;
  mal_profile p = {.name = (char *)"x", .memory_sigma = 0.1};
  assert_float_equal(mal_fit_probability(&p, 80, 80), 0.5, 1e-12);
  assert_float_equal(mal_fit_probability(&p, 80 * exp(-0.1 * 1.2815515655446004), 80), 0.9, 1e-9); /* z of 90 % */
  assert_float_equal(mal_fit_probability(&p, 0, 80), 1, 0);
  assert_float_equal(mal_fit_probability(&p, 1, 0), 0, 0);
  for (double share = 0.05; share < 1; share += 0.1) {
    assert_float_equal(mal_fit_probability(&p, mal_fit_budget(&p, 80, share), 80), share, 1e-9);
    assert_float_equal(mal_memory_quantile(&p, mal_fit_budget(&p, 80, share), share), 80, 1e-6);
  }
  mal_arena a;
  mal_error e;
  mal_profile unknown = {.name = (char *)"x"}, *own;
  mal_arena_init(&a);
  assert_ok(mal_profile_load(&a, "malha", &own, &e), e);
  assert_true(mal_memory_sigma(own) < mal_memory_sigma(&unknown));
  assert_true(mal_fit_budget(&unknown, 80, mal_fit_confidence) < 79.6); /* never 79.6 of 80 by default */
  mal_arena_free(&a);
}

static void closeness(void **state) {
  (void)state;
  double s[] = {10, 10.5, 11.5, 11.6};
  assert_int_equal(mal_too_close((mal_interval){9, 11}, s, 4), 2);
  assert_int_equal(mal_too_close((mal_interval){9, 12}, s, 4), MAL_TO_MEASURE);
  assert_int_equal(mal_too_close((mal_interval){9, 10}, s, 4), 1);
  assert_int_equal(mal_too_close((mal_interval){9, 10}, s, 0), 0);
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

enum { RUNS = 7, OOMS = 2 };

typedef struct table {
  mal_arena a;
  mal_profile profile;
  mal_trial trials[RUNS + OOMS];
  mal_plan plans[RUNS + OOMS];
  mal_row rows[RUNS + OOMS];
  mal_judged judged[RUNS + OOMS];
  mal_ranking r;
} table;

static void add(table *t, int at, const char *id, int64_t tp, double predicted, double measured, double probability) {
  t->trials[at] = (mal_trial){.id = id,
                              .source = "",
                              .year = "",
                              .framework = "F",
                              .model_name = "M",
                              .gpu = "G",
                              .internode = "",
                              .precision = "",
                              .train_mode = "",
                              .kernels = "",
                              .mixed_precision = "",
                              .offload = "",
                              .gpus = 8,
                              .global_batch = 8,
                              .seq = 64};
  mal_layout_default(&t->plans[at].layout);
  t->plans[at].layout.tp = tp;
  t->plans[at].profile = &t->profile;
  t->rows[at] = (mal_row){.trial = &t->trials[at], .family = "family", .plan = &t->plans[at]};
  t->judged[at] = (mal_judged){.row = &t->rows[at],
                               .predicted_s = predicted,
                               .measured_s = measured,
                               .measured_from = measured > 0 ? "step_time_s" : NULL,
                               .low_s = predicted * 0.9,
                               .high_s = predicted * 1.1,
                               .fit_probability = probability,
                               .fits = probability > 0.5};
}

static void fill(table *t) {
  memset(t, 0, sizeof *t);
  mal_arena_init(&t->a);
  t->profile.name = (char *)"x";
  add(t, 0, "a", 1, 1.00, 1.10, 0.99);
  add(t, 1, "b", 2, 1.05, 1.00, 0.99);
  add(t, 2, "c", 3, 1.30, 1.20, 0.99);
  add(t, 3, "d", 4, 1.50, 1.60, 0.99);
  add(t, 4, "e", 5, 2.00, 2.10, 0.99);
  add(t, 5, "f", 1, 1.00, 1.11, 0.99); /* a again */
  add(t, 6, "g", 6, 0.10, 9.00, 0.99); /* another model */
  t->trials[6].model_name = "other";
  add(t, RUNS, "o", 7, 0.90, 0, 0.80);
  add(t, RUNS + 1, "p", 8, 0.80, 0, 0.10);
}

static void rank(table *t) { mal_rank(&t->a, t->judged, RUNS, t->judged + RUNS, OOMS, &t->r); }

static void picks(void **state) {
  (void)state;
  table t;
  fill(&t);
  rank(&t);
  assert_int_equal(t.r.n, 1);
  const mal_rank_group *g = t.r.groups;
  assert_int_equal(g->n, 6);
  assert_int_equal(g->n_oom, 2);
  assert_string_equal(g->pick->row->trial->id, "a"); /* faster o and p may not fit */
  assert_string_equal(g->best->row->trial->id, "b");
  assert_false(g->failed);
  assert_float_equal(g->regret, 0.10, 1e-12);
  assert_int_equal(g->n_close, 3); /* a, f, b */
  assert_float_equal(g->regret_close, 0, 1e-12);
  mal_arena_free(&t.a);
}

static void a_pick_that_cannot_run(void **state) {
  (void)state;
  table t;
  fill(&t);
  t.judged[RUNS].fit_probability = 0.95;
  rank(&t);
  const mal_rank_group *g = t.r.groups;
  assert_true(g->failed);
  assert_float_equal(g->regret, mal_failed_regret, 0);
  mal_rank_summary s = mal_rank_summarise(&t.a, &g, 1);
  assert_int_equal(s.n_failed, 1);
  assert_float_equal(s.regret_max, 1, 0);
  for (int i = 0; i < RUNS + OOMS; i++) t.judged[i].fit_probability = 0.5; /* none is sure: the likeliest */
  t.judged[3].fit_probability = 0.6;
  rank(&t);
  assert_string_equal(t.r.groups->pick->row->trial->id, "d");
  assert_int_equal(t.r.groups->n_close, 0);
  mal_arena_free(&t.a);
}

static void too_few_layouts(void **state) {
  (void)state;
  table t;
  fill(&t);
  t.trials[4].kernels = "faster";
  rank(&t);
  assert_int_equal(t.r.n, 0); /* five runs are left, of four layouts */
  mal_arena_free(&t.a);
}

/* Published runs of layouts: what is promised of the ranking holds. */
static void published(void **state) {
  (void)state;
  need_shared("data/runs.csv");
  need_shared("data/oom.csv");
  mal_arena a;
  mal_error e;
  mal_trials runs, oom;
  static mal_validation v;
  mal_arena_init(&a);
  assert_ok(mal_trials_read(&a, MALHA_SHARED "/data/runs.csv", &runs, &e), e);
  assert_ok(mal_trials_read(&a, MALHA_SHARED "/data/oom.csv", &oom, &e), e);
  assert_ok(mal_validate(&a, &runs, &oom, MAL_BY_FAMILY, &v, &e), e);
  const mal_rank_summary *s = &v.all.rank;
  print_message("%d groups: Spearman %.3f; regret mean %.3f, p90 %.3f, worst %.3f, %d failed\n", s->n, s->spearman_mean,
                s->regret_mean, s->regret_p90, s->regret_max, s->n_failed);
  assert_true(s->n > 50);
  assert_true(s->spearman_mean >= 0.9); /* best of the peers on such runs: 0.78 to 0.87 */
  int covered = 0, n = 0;
  for (int i = 0; i < v.count_oom; i++) /* hardly any run out of memory is called a sure fit */
    if (!v.judged_oom[i].skipped) n++, covered += v.judged_oom[i].fit_probability < mal_fit_confidence;
  assert_true(covered > n * 95 / 100);
  mal_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spearman),
      cmocka_unit_test(memory_risk),
      cmocka_unit_test(closeness),
      cmocka_unit_test(picks),
      cmocka_unit_test(a_pick_that_cannot_run),
      cmocka_unit_test(too_few_layouts),
      cmocka_unit_test(published),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
