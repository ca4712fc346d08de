/* Questions the other way round, as identities: what is said to do does, the size beside it does not. */
#include "search/inverse.h"
#include "search/move.h"
#include "test.h"
#include <math.h>

typedef struct asked {
  mal_arena a;
  mal_plan plan;
  mal_error e;
} asked;

static void ask(asked *q, const char *model, const char *machine, const char *job) {
  mal_job j;
  mal_layout l;
  mal_arena_init(&q->a);
  mal_job_default(&j);
  mal_layout_default(&l);
  char *copy = mal_copy(&q->a, job), *rest = NULL;
  for (char *pair = strtok_r(copy, ",", &rest); pair; pair = strtok_r(NULL, ",", &rest)) {
    char *value = strchr(pair, '=');
    *value++ = 0;
    assert_ok(mal_option_set(mal_job_options, (size_t)mal_job_option_count, pair, value, &j, &q->e), q->e);
  }
  assert_ok(mal_plan_open(&q->a, model, machine, "", &j, &l, &q->plan, &q->e), q->e);
}

/* The best layout of a plan, by a search of its own; false: none fits. */
static bool best_of(asked *q, const mal_plan *p, const char *fix, mal_estimate *best) {
  mal_search_options o = {.keep = 1, .no_nearest = true, .fix = fix};
  mal_search_result r;
  mal_error e;
  mal_status status = mal_search(&q->a, p, &o, &r, &e);
  if (status == MAL_BAD) return false;
  assert_ok(status, e);
  if (r.count) *best = r.best[0].estimate;
  return r.count > 0;
}

static bool on_nodes_does(asked *q, int64_t nodes, int64_t gpus) {
  mal_plan p = q->plan;
  mal_estimate best;
  mal_error e;
  assert_ok(mal_machine_resize(&q->a, &p.machine, nodes, gpus, &e), e);
  if (!best_of(q, &p, NULL, &best)) return false;
  return (p.asked_job.deadline_s <= 0 || best.time_to_target_s <= p.asked_job.deadline_s) &&
         (p.asked_job.budget_usd <= 0 || best.cost_usd <= p.asked_job.budget_usd);
}

static void check_nodes(const char *model, const char *machine, const char *job, int64_t from) {
  asked q;
  mal_inverse r;
  mal_search_options o = {0};
  ask(&q, model, machine, job);
  assert_ok(mal_inverse_find(&q.a, &q.plan, &o, MAL_ASK_NODES, &r, &q.e), q.e);
  assert_true(r.found);
  print_message("%s on %s, %s: %lld nodes\n", model, machine, job, (long long)r.answer.size);
  assert_true(on_nodes_does(&q, r.answer.size, q.plan.machine.gpus_per_node));
  assert_int_equal(r.asked.machine.nodes, r.answer.size);
  for (int64_t n = from; n < r.answer.size; n++)
    if (on_nodes_does(&q, n, q.plan.machine.gpus_per_node)) fail_msg("%lld nodes do too", (long long)n);
  if (r.answer.size > 1) assert_true(r.beside.size == r.answer.size - 1 && !r.beside.meets);
  mal_arena_free(&q.a);
}

/* Every smaller machine misses, one after the other. */
static void test_fewest_nodes(void **state) {
  (void)state;
  check_nodes("llama-3-8b", "8xh100-sxm", "tokens=100G,deadline=5d", 1);
  check_nodes("llama-3-8b", "8xa100-80-sxm", "tokens=100G,deadline=5d,global-batch=512", 1);
  check_nodes("llama-3-70b", "8xa100-40-sxm", "seq=4096,global-batch=512", 1);
}

/* A deadline and a budget at the very edge of what a machine reaches. */
static void test_edges(void **state) {
  (void)state;
  asked q;
  mal_inverse r;
  mal_search_options o = {0};
  mal_estimate on_two;
  ask(&q, "llama-3-8b", "8xh100-sxm", "tokens=10G,usd-per-gpu-hour=2,global-batch=512");
  mal_plan two = q.plan;
  assert_ok(mal_machine_resize(&q.a, &two.machine, 2, 8, &q.e), q.e);
  assert_true(best_of(&q, &two, NULL, &on_two));
  q.plan.asked_job.deadline_s = on_two.time_to_target_s * 1.000001;
  assert_ok(mal_inverse_find(&q.a, &q.plan, &o, MAL_ASK_NODES, &r, &q.e), q.e);
  assert_true(r.found && r.answer.size == 2);
  q.plan.asked_job.deadline_s = on_two.time_to_target_s * 0.999999;
  assert_ok(mal_inverse_find(&q.a, &q.plan, &o, MAL_ASK_NODES, &r, &q.e), q.e);
  assert_true(r.found && r.answer.size > 2);
  q.plan.asked_job.budget_usd = 0.98 * on_two.cost_usd; /* the deadline needs more, and more costs no less */
  assert_ok(mal_inverse_find(&q.a, &q.plan, &o, MAL_ASK_NODES, &r, &q.e), q.e);
  assert_false(r.found);
  assert_true(r.answer.fits);
  q.plan.asked_job.deadline_s = 0, q.plan.asked_job.budget_usd = 1e9;
  assert_ok(mal_inverse_find(&q.a, &q.plan, &o, MAL_ASK_NODES, &r, &q.e), q.e);
  assert_true(r.found && r.answer.size == 1);
  mal_arena_free(&q.a);
}

static void test_fewest_gpus(void **state) {
  (void)state;
  asked q;
  mal_inverse r;
  mal_search_options o = {.fix = "offload-optimizer=none,offload-params=none"};
  mal_estimate best;
  ask(&q, "llama-3-8b", "8xa100-40-sxm", "global-batch=840,seq=2048"); /* splits over 1 to 8 */
  assert_ok(mal_inverse_find(&q.a, &q.plan, &o, MAL_ASK_GPUS, &r, &q.e), q.e);
  assert_true(r.found && r.answer.size > 1 && r.answer.size <= 8);
  for (int64_t n = 1; n <= r.answer.size; n++) {
    mal_plan p = q.plan;
    assert_ok(mal_machine_resize(&q.a, &p.machine, 1, n, &q.e), q.e);
    assert_int_equal(best_of(&q, &p, o.fix, &best), n == r.answer.size);
  }
  mal_arena_free(&q.a);
}

static void check_largest(const char *model, const char *machine, const char *job, const char *fix, mal_ask what) {
  asked q;
  mal_inverse r;
  mal_search_options o = {.fix = fix};
  mal_estimate best;
  ask(&q, model, machine, job);
  assert_ok(mal_inverse_find(&q.a, &q.plan, &o, what, &r, &q.e), q.e);
  assert_true(r.found && r.answer.fits && r.beside.size > r.answer.size && !r.beside.fits);
  print_message("%s on %s: %lld fits, %lld does not\n", model, machine, (long long)r.answer.size,
                (long long)r.beside.size);
  assert_true(best_of(&q, &r.asked, r.fix, &best));
  mal_plan next = r.asked;
  const char *own = r.fix;
  if (what == MAL_ASK_SEQ) next.asked_job.seq = r.beside.size;
  if (what == MAL_ASK_SEQ) assert_int_equal(r.beside.size, r.answer.size + r.step);
  if (what == MAL_ASK_PARAMS)
    assert_ok(mal_model_with_layers(&q.a, &q.plan.model, r.beside.size, &next.model, &q.e), q.e);
  if (what == MAL_ASK_MICRO_BATCH) own = mal_print(&q.a, "%s,micro-batch=%lld", fix, (long long)r.beside.size);
  assert_false(best_of(&q, &next, own, &best));
  mal_arena_free(&q.a);
}

static void test_largest(void **state) {
  (void)state;
  const char *plain = "offload-optimizer=none,offload-params=none";
  check_largest("llama-3-8b", "8xh100-sxm", "global-batch=8", plain, MAL_ASK_SEQ);
  check_largest("llama-3-8b", "4xa100-40-sxm", "global-batch=256,seq=2048", plain, MAL_ASK_MICRO_BATCH);
  check_largest("llama-3.2-1b", "4xa100-40-sxm", "global-batch=32,seq=2048", plain, MAL_ASK_PARAMS);
}

/* One layout for all sizes. */
static void test_given_layout(void **state) {
  (void)state;
  asked q;
  mal_inverse r;
  mal_program program;
  mal_estimate e;
  ask(&q, "llama-3-8b", "8xh100-sxm", "tokens=1G");
  q.plan.asked_layout.zero = 3, q.plan.asked_layout.micro_batch = 1, q.plan.asked_layout.recompute = MAL_RECOMPUTE_FULL;
  assert_ok(mal_inverse_find(&q.a, &q.plan, NULL, MAL_ASK_SEQ, &r, &q.e), q.e);
  assert_true(r.found);
  for (int more = 0; more < 2; more++) {
    mal_plan p = r.asked;
    p.asked_job.seq += more * r.step;
    assert_ok(mal_plan_complete(&q.a, &p, &q.e), q.e);
    assert_ok(mal_lower(&q.a, &p, &program, &q.e), q.e);
    assert_ok(mal_price(&q.a, &program, &e, &q.e), q.e);
    assert_int_equal(e.fits, !more);
  }
  mal_arena_free(&q.a);
}

/* A model that is scaled to the layers of a larger one of its family has that one's layers; to its own, all of it. */
static void test_layers(void **state) {
  (void)state;
  static const char *const models[] = {"llama-3-8b", "deepseek-v3", "gemma-2-9b", "gpt-oss-120b"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    asked q;
    mal_model same, more, first;
    ask(&q, models[i], "8xh100-sxm", "");
    const mal_model *m = &q.plan.model;
    assert_ok(mal_model_with_layers(&q.a, m, m->layers, &same, &q.e), q.e);
    assert_ok(mal_model_with_layers(&q.a, m, m->layers + 2, &more, &q.e), q.e);
    assert_ok(mal_model_with_layers(&q.a, m, 1, &first, &q.e), q.e);
    assert_int_equal(same.parameters, m->parameters);
    assert_int_equal(same.active_parameters, m->active_parameters);
    int64_t added = 0;
    for (int64_t l = m->layers; l < m->layers + 2; l++) added += more.kinds[more.kind_of[l]].parameters;
    assert_int_equal(more.parameters, m->parameters + added);
    assert_int_equal(more.kinds[more.kind_of[m->layers + 1]].mlp, m->kinds[m->kind_of[m->layers - 1]].mlp);
    assert_int_equal(first.kind_of[0], m->kind_of[0]);
    mal_arena_free(&q.a);
  }
}

/* At the price that is said to be the break-even a token costs the same on both; what the move costs is back when said. */
static void test_move(void **state) {
  (void)state;
  for (int electricity = 0; electricity < 2; electricity++) {
    asked old, new;
    mal_estimate a, b, c;
    const char *job = electricity ? "tokens=100G,global-batch=512,usd-per-gpu-hour=1.3,usd-per-kwh=0.2"
                                  : "tokens=100G,global-batch=512,usd-per-gpu-hour=1.3";
    ask(&old, "llama-3-8b", "8xa100-80-sxm", job);
    ask(&new, "llama-3-8b", "8xh100-sxm", job);
    new.plan.asked_job.usd_per_gpu_hour = 2;
    assert_true(best_of(&old, &old.plan, NULL, &a));
    assert_true(best_of(&new, &new.plan, NULL, &b));
    old.plan.job = old.plan.asked_job, new.plan.job = new.plan.asked_job;
    mal_move m = mal_move_between(&old.plan, &a, &new.plan, &b);
    new.plan.asked_job.usd_per_gpu_hour = m.usd_per_gpu_hour;
    assert_true(best_of(&new, &new.plan, NULL, &c));
    assert_true(fabs(c.usd_per_mtoken / a.usd_per_mtoken - 1) < 1e-9);
    if (!electricity) assert_true(fabs(m.usd_per_gpu_hour / 1.3 / m.price_ratio - 1) < 1e-9);
    assert_true(fabs(m.saved_usd - (a.cost_usd - b.cost_usd)) < 1e-6 * a.cost_usd);
    /* M = what is saved on the whole target: back after all of its tokens, when the new machine is through. */
    assert_true(fabs(m.saved_usd * m.tokens_per_usd / 100e9 - 1) < 1e-9);
    assert_true(fabs(m.saved_usd * m.seconds_per_usd / b.time_to_target_s - 1) < 1e-9);
    mal_arena_free(&old.a);
    mal_arena_free(&new.a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fewest_nodes), cmocka_unit_test(test_edges),  cmocka_unit_test(test_fewest_gpus),
      cmocka_unit_test(test_largest),      cmocka_unit_test(test_layers), cmocka_unit_test(test_given_layout),
      cmocka_unit_test(test_move),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
