/* Search: bounds never exceed what they bound, shared blocks price as single plans do, the best is that of brute force. */
#include "search/search.h"
#include "search_probe.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>

typedef struct asked {
  mal_arena a;
  mal_plan plan;
  mal_error e;
} asked;

static void ask(asked *q, const char *model, const char *machine, const char *profile, const char *job) {
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
  assert_ok(mal_plan_open(&q->a, model, machine, profile, &j, &l, &q->plan, &q->e), q->e);
}

/* --- bounds ------------------------------------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *x) {
  *x ^= *x << 13, *x ^= *x >> 17, *x ^= *x << 5;
  return *x;
}

typedef struct tally {
  int seen;
  double time_share, memory_share; /* sums of bound over exact */
} tally;

static void compare(mal_worker *w, const mal_frame *f, probe *p, tally *t) {
  mal_arena a;
  mal_program program;
  mal_estimate e;
  mal_error error;
  mal_arena_init(&a);
  const char *layout = mal_plan_layout(&a, &p->plan);
  assert_ok(mal_lower(&a, &p->plan, &program, &error), error);
  assert_ok(mal_price(&a, &program, &e, &error), error);
  if (fabs(e.step_s / p->exact.step_s - 1) > 1e-12 || e.total_bytes != p->exact.total_bytes)
    fail_msg("%s: %.9g s, %lld bytes with shared blocks; alone %.9g s, %lld bytes", layout, p->exact.step_s,
             (long long)p->exact.total_bytes, e.step_s, (long long)e.total_bytes);
  if (p->bound_s > e.step_s * (1 + 1e-9)) fail_msg("%s: bound %.9g s above %.9g s", layout, p->bound_s, e.step_s);
  if (p->bound_bytes > e.total_bytes)
    fail_msg("%s: bound %lld bytes above %lld", layout, (long long)p->bound_bytes, (long long)e.total_bytes);
  if (f->least_s > e.step_s) fail_msg("%s: bound of all of its kind %.9g s above %.9g s", layout, f->least_s, e.step_s);
  t->seen++;
  t->time_share += p->bound_s / e.step_s;
  t->memory_share += (double)p->bound_bytes / (double)e.total_bytes;
  (void)w;
  mal_arena_free(&a);
}

/* Long schedules take the test's time, not its sense. */
static bool is_short(const probe *p) {
  return p->plan.layout.pp * p->plan.layout.vpp * p->plan.job.accumulation < 20000;
}

static void check_bounds(const char *model, const char *machine, const char *profile, const char *job, const char *fix,
                         int tries) {
  asked q;
  mal_space space;
  mal_contest contest;
  mal_search_options options = {0};
  mal_worker *w = malloc(sizeof *w);
  uint32_t seed = 12345;
  tally t = {0};
  ask(&q, model, machine, profile, job);
  assert_ok(mal_space_open(&q.a, &q.plan, fix, &space, &q.e), q.e);
  mal_contest_open(&contest, 1, INFINITY);
  mal_worker_open(w, &space, &options, &contest);
  for (int i = 0; i < tries; i++) {
    mal_arena one;
    probe p;
    uint32_t place[6];
    mal_frame f = space.frames[next_random(&seed) % (uint32_t)space.n_frames];
    for (int k = 0; k < 6; k++) place[k] = next_random(&seed);
    mal_arena_init(&one);
    mal_worker_bound(w, &f);
    bool there = probe_layout(w, &one, &f, place, &p);
    if (w->status != MAL_OK) fail_msg("%s on %s: %s", model, machine, w->error.text);
    if (there && is_short(&p)) compare(w, &f, &p, &t);
    mal_arena_free(&one);
  }
  print_message("%s on %s: %d layouts, bounds %.1f %% of time, %.1f %% of memory\n", model, machine, t.seen,
                100 * t.time_share / t.seen, 100 * t.memory_share / t.seen);
  assert_true(t.seen >= tries / 20);
  mal_worker_close(w);
  mal_contest_close(&contest);
  mal_arena_free(&q.a);
  free(w);
}

static void test_bounds(void **state) {
  (void)state;
  check_bounds("llama-3-8b", "8xh100-sxm", "", "global-batch=64", NULL, 150);
  check_bounds("llama-3-8b", "2x8xh100-sxm", "malha", "global-batch=64", NULL, 100);
  check_bounds("llama-3-8b", "2x8xh100-sxm", "fsdp2", "global-batch=64", NULL, 100);
  check_bounds("llama-3-8b", "2x8xa100-80-sxm", "deepspeed", "global-batch=96", NULL, 100);
  check_bounds("gpt3-22b", "8x8xa100-80-sxm", "", "global-batch=256", NULL, 100);
  check_bounds("gemma-2-9b", "2x8xh100-sxm", "", "global-batch=48", NULL, 100);
  check_bounds("mixtral-8x7b", "4x8xh100-sxm", "", "global-batch=128", NULL, 100);
  check_bounds("deepseek-v2-lite", "2x8xh100-sxm", "", "global-batch=64", NULL, 100);
  check_bounds("deepseek-v3", "32x8xh100-sxm", "megatron-bridge", "global-batch=512", NULL, 50);
  check_bounds("llama-3-70b", "8xh100-sxm", "", "global-batch=32,train=lora", NULL, 100);
}

/* Schedules that no framework of the above has. */
static void test_bounds_of_schedules(void **state) {
  (void)state;
  static const char *const schedules[] = {"schedule=gpipe", "schedule=zb-h1", "schedule=zb-2p", "schedule=dualpipe",
                                          "schedule=interleaved"};
  for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
    check_bounds("llama-3-8b", "2x8xh100-sxm", "megatron", "global-batch=96", schedules[i], 60);
    check_bounds("deepseek-v2-lite", "2x8xh100-sxm", "megatron", "global-batch=96", schedules[i], 60);
    check_bounds("llama-3.2-1b", "8xh100-sxm", "megatron", "global-batch=64", schedules[i], 60); /* tied */
  }
}

/* --- brute force --------------------------------------------------------------------------------------------------------- */

typedef struct brute {
  mal_plan plan;
  double best_s, valid;
  mal_layout best;
} brute;

/* One layout as the command takes it; what it refuses is not valid. */
static void try_one(brute *b, const mal_layout *l) {
  mal_arena a;
  mal_plan p = b->plan;
  mal_program program;
  mal_estimate e;
  mal_error error;
  mal_arena_init(&a);
  p.asked_layout = *l;
  if (mal_plan_complete(&a, &p, &error) == MAL_OK && mal_lower(&a, &p, &program, &error) == MAL_OK) {
    assert_ok(mal_price(&a, &program, &e, &error), error);
    b->valid++;
    if (e.host_fits && e.nvme_fits && e.fit_probability >= MAL_FIT_PROBABILITY && e.step_s < b->best_s)
      b->best_s = e.step_s, b->best = *l;
  }
  mal_arena_free(&a);
}

/* Every option over a range that holds all its values, none left out for being of no use: the rules are mal_layout_complete's. */
static void try_all(brute *b, mal_layout l, int option) {
  static const struct {
    size_t offset;
    bool wide; /* int64_t, else int */
    int64_t from, to;
  } ranges[] = {
      {offsetof(mal_layout, tp), true, 1, 4},          {offsetof(mal_layout, cp), true, 1, 4},
      {offsetof(mal_layout, pp), true, 1, 4},          {offsetof(mal_layout, vpp), true, 1, 2},
      {offsetof(mal_layout, micro_batch), true, 1, 4}, {offsetof(mal_layout, zero), false, 0, 3},
      {offsetof(mal_layout, hybrid), true, 0, 2},      {offsetof(mal_layout, sequence_parallel), false, 0, 1},
      {offsetof(mal_layout, recompute), false, 0, 2},  {offsetof(mal_layout, cp_kind), false, 0, 2},
      {offsetof(mal_layout, overlap_tp), false, 0, 1}, {offsetof(mal_layout, overlap_dp_grad), false, 0, 1},
      {offsetof(mal_layout, overlap_pp), false, 0, 1},
  };
  if (option == sizeof ranges / sizeof *ranges) {
    if (l.zero == 3 || l.hybrid == 0) try_one(b, &l);
    return;
  }
  for (int64_t v = ranges[option].from; v <= ranges[option].to; v++) {
    void *field = (char *)&l + ranges[option].offset;
    if (ranges[option].wide)
      *(int64_t *)field = v;
    else
      *(int *)field = (int)v;
    if (4 % l.tp || 4 % (l.tp * l.cp) || 4 % (l.tp * l.cp * l.pp)) continue;
    if ((l.cp == 1 && l.cp_kind) || (l.tp == 1 && (l.sequence_parallel > 0 || l.overlap_tp > 0))) continue;
    if (l.overlap_tp > 0 && l.tp > mal_machine_domain(&b->plan.machine)) continue; /* not searched either */
    if (l.vpp > 1 && l.pp == 1) continue;
    try_all(b, l, option + 1);
  }
}

/* Frameworks that have every form that is tried here. */
static void against_brute_force(const char *model, const char *machine, const char *profile, const char *job) {
  asked q;
  brute b = {.best_s = INFINITY};
  mal_search_result r;
  mal_search_options o = {.keep = 3};
  mal_layout l;
  ask(&q, model, machine, profile, job);
  b.plan = q.plan;
  mal_layout_default(&l);
  l.overlap_dp_param = MAL_ON, l.overlap_cp = MAL_ON;
  try_all(&b, l, 0);
  assert_ok(mal_search(&q.a, &q.plan, &o, &r, &q.e), q.e);
  print_message("%s on %s: best of %.0f is %.6g s; the search found %.6g s, %s\n", model, machine, b.valid, b.best_s,
                r.count ? r.best[0].estimate.step_s : INFINITY,
                r.count ? mal_plan_layout(&q.a, &r.best[0].plan) : "nothing");
  assert_true(b.valid > 100);
  assert_int_equal(r.count > 0, isfinite(b.best_s));
  if (r.count && r.best[0].estimate.step_s > b.best_s * (1 + 1e-9))
    fail_msg("brute force is better: %s", mal_layout_show(&q.a, &b.best));
  mal_arena_free(&q.a);
}

static void test_brute_force(void **state) {
  (void)state;
  const char *small = "layers=8,hidden=1024,heads=8,ffn=4096,vocab=32000";
  against_brute_force(small, "4xh100-sxm", "malha", "global-batch=8,seq=2048");
  against_brute_force("layers=12,hidden=4096,heads=32,ffn=16384,vocab=50304", "4xrtx4090", "malha",
                      "global-batch=8,seq=2048");
}

/* --- what peers do: fill the last GiB, offload everything ------------------------------------------------------------------ */

static void check_choice(const char *model, const char *machine, const char *job) {
  asked q;
  mal_search_result any, plain;
  mal_search_options o = {.keep = 1}, inside = {.keep = 1, .fix = "offload-optimizer=none,offload-params=none"};
  ask(&q, model, machine, "", job);
  assert_ok(mal_search(&q.a, &q.plan, &o, &any, &q.e), q.e);
  assert_ok(mal_search(&q.a, &q.plan, &inside, &plain, &q.e), q.e);
  assert_true(any.count == 1);
  const mal_choice *best = &any.best[0];
  bool offloads = best->plan.layout.offload_optimizer || best->plan.layout.offload_params;
  print_message("%s on %s: %s\n", model, machine, mal_plan_layout(&q.a, &best->plan));
  assert_true(best->estimate.fit_probability >= MAL_FIT_PROBABILITY);
  assert_true(best->estimate.memory_interval.high <= (double)best->estimate.limit_bytes);
  if (!offloads)
    assert_true(fabs(best->score / plain.best[0].score - 1) < 1e-9);
  else if (plain.count) /* it has to be worth it */
    assert_true(best->estimate.step_s * 1.03 <= plain.best[0].estimate.step_s * (1 + 1e-9));
  mal_arena_free(&q.a);
}

static void test_choice(void **state) {
  (void)state;
  check_choice("llama-3-8b", "8xh100-sxm", "global-batch=256");
  check_choice("llama-3-8b", "8xa100-40-sxm", "global-batch=256");
  check_choice("llama-3-8b", "8xrtx4090", "global-batch=64,seq=4096");
  check_choice("gpt3-22b", "8xa100-80-sxm", "global-batch=128");
  check_choice("mixtral-8x7b", "2x8xa100-80-sxm", "global-batch=128,seq=4096");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bounds),
      cmocka_unit_test(test_bounds_of_schedules),
      cmocka_unit_test(test_brute_force),
      cmocka_unit_test(test_choice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
