/* The public interface: what it answers is what the command answers; bad arguments come back as errors; lifetimes; threads. */
#include "core/json.h"
#include "report/answer.h"
#include "test.h"
#include <malha.h>
#include <math.h>
#include <pthread.h>
#include <unistd.h>

static const char layout[] = "tp=8,pp=4,micro-batch=1,recompute=selective";

static malha_model *model(const char *name) {
  malha_model *m;
  malha_error e;
  if (malha_model_load(name, &m, &e)) fail_msg("%s", e.text);
  return m;
}

static malha_machine *machine(const char *name) {
  malha_machine *m;
  malha_error e;
  if (malha_machine_load(name, &m, &e)) fail_msg("%s", e.text);
  return m;
}

static void set(malha_job *job, const char *name, const char *value) {
  malha_error e;
  if (malha_job_set(job, name, value, &e)) fail_msg("%s", e.text);
}

static malha_plan *plan(const malha_model *m, const malha_machine *on, const malha_job *job, const char *split) {
  malha_plan *p;
  malha_error e;
  if (malha_plan_make(m, on, job, split, NULL, &p, &e)) fail_msg("%s", e.text);
  return p;
}

static malha_estimate estimate(const malha_plan *p) {
  malha_estimate x = {.size = sizeof x};
  assert_int_equal(malha_plan_estimate(p, &x), MALHA_OK);
  return x;
}

static void as_the_command_says(void **state) {
  (void)state;
  malha_model *m = model("llama-3-70b");
  malha_machine *on = machine("4x8xh100-sxm");
  malha_job *job = malha_job_new();
  set(job, "global-batch", "128");
  set(job, "tokens", "15T");
  set(job, "usd-per-gpu-hour", "2");
  malha_plan *p = plan(m, on, job, layout);
  assert_int_equal(malha_machine_gpus(on), 32);
  assert_true(fabs(malha_model_parameters(m) / 70553706496.0 - 1) < 1e-12); /* published: 70.6 B */
  malha_model_free(m);                                                      /* in any order */
  malha_machine_free(on);
  malha_job_free(job);

  mal_arena a;
  mal_error e;
  static mal_answer other;
  mal_job j;
  mal_layout l;
  mal_arena_init(&a);
  mal_job_default(&j);
  mal_layout_default(&l);
  j.global_batch = 128, j.tokens = 15000000000000, j.usd_per_gpu_hour = 2;
  assert_ok(mal_layout_parse(&a, layout, &l, &e), e);
  assert_ok(mal_plan_make(&a, "llama-3-70b", "4x8xh100-sxm", "", &j, &l, &other.plan, &e), e);
  assert_ok(mal_answer_find(&a, &other, true, &e), e);
  malha_estimate x = estimate(p);
  assert_int_equal(x.fits, other.estimate.fits);
  assert_float_equal(x.step_s, other.estimate.step_s, 0);
  assert_float_equal(x.memory_bytes, (double)other.estimate.total_bytes, 0);
  assert_float_equal(x.cost_usd, other.estimate.cost_usd, 0);
  assert_true(x.step_low_s < x.step_s && x.step_s < x.step_high_s);
  assert_true(x.memory_low_bytes < x.memory_bytes && x.memory_bytes < x.memory_high_bytes);

  assert_non_null(strstr(malha_plan_text(p), "MFU"));
  const char *json = malha_plan_json(p);
  assert_ptr_equal(malha_plan_json(p), json);
  json_t *root = json_loads(json, 0, NULL);
  assert_non_null(root);
  assert_string_equal(json_string_value(json_object_get(root, "command")),
                      "malha plan llama-3-70b --on 4x8xh100-sxm --global-batch 128 --tokens 15T --usd-per-gpu-hour 2 "
                      "--layout tp=8,pp=4,micro-batch=1,recompute=selective");
  json_decref(root);
  malha_plan_free(p);
  mal_arena_free(&a);
}

static void what_does_not_fit(void **state) {
  (void)state;
  malha_model *m = model("llama-3-70b");
  malha_machine *on = machine("8xh100-sxm");
  malha_plan *p = plan(m, on, NULL, "tp=8,micro-batch=1");
  malha_estimate x = estimate(p);
  assert_false(x.fits);
  assert_true(x.memory_bytes > x.limit_bytes && x.fit_probability < 0.5);
  assert_non_null(strstr(malha_plan_text(p), "What would make it fit"));
  json_t *root = json_loads(malha_plan_json(p), 0, NULL);
  assert_true(json_array_size(json_object_get(root, "remedies")) > 0);
  json_decref(root);
  malha_plan_free(p);
  malha_machine_free(on);
  malha_model_free(m);
}

static void to_a_file_and_back(void **state) {
  (void)state;
  char path[64];
  malha_error e;
  malha_plan *again = NULL;
  malha_model *m = model("llama-3-8b");
  malha_machine *on = machine("8xh100-sxm");
  malha_plan *p = plan(m, on, NULL, "zero=3,micro-batch=1,recompute=full");
  snprintf(path, sizeof path, "/tmp/malha-library-%ld.json", (long)getpid());
  if (malha_plan_write(p, path, &e) || malha_plan_read(path, &again, &e)) fail_msg("%s", e.text);
  assert_float_equal(estimate(again).step_s, estimate(p).step_s, 0);
  assert_string_equal(malha_plan_layout(again), malha_plan_layout(p));
  assert_int_equal(malha_plan_write(p, "/no/such/folder/x.json", &e), MALHA_BAD);
  assert_non_null(strstr(e.text, "/no/such/folder"));
  unlink(path);
  malha_plan_free(again);
  malha_plan_free(p);
  malha_machine_free(on);
  malha_model_free(m);
}

static void errors(void **state) {
  (void)state;
  malha_error e;
  malha_model *m = (malha_model *)1;
  malha_machine *on = (malha_machine *)1;
  malha_plan *p = (malha_plan *)1;
  assert_int_equal(malha_model_load("llama-3-9b", &m, &e), MALHA_BAD);
  assert_null(m);
  assert_int_equal(e.status, MALHA_BAD);
  assert_non_null(strstr(e.text, "llama-3-8b")); /* the nearest */
  assert_int_equal(malha_machine_load("8xh100-sxn", &on, NULL), MALHA_BAD);
  assert_null(on);
  assert_int_equal(malha_model_load(NULL, &m, &e), MALHA_BAD);
  assert_int_equal(malha_machine_load(NULL, &on, &e), MALHA_BAD);
  m = model("llama-3-8b"), on = machine("8xh100-sxm");
  assert_int_equal(malha_plan_make(m, on, NULL, "tp=3", NULL, &p, &e), MALHA_BAD);
  assert_null(p);
  assert_int_equal(malha_plan_make(m, on, NULL, "tp=", NULL, &p, &e), MALHA_BAD);
  assert_int_equal(malha_plan_make(m, on, NULL, "tp=8", "no-such-framework", &p, &e), MALHA_BAD);
  assert_int_equal(malha_plan_make(m, NULL, NULL, "tp=8", NULL, &p, &e), MALHA_BAD);
  assert_int_equal(malha_plan_make(m, on, NULL, NULL, NULL, &p, &e), MALHA_BAD);
  assert_int_equal(malha_plan_read("/no/such/plan.json", &p, &e), MALHA_BAD);
  assert_int_equal(malha_plan_read(NULL, &p, &e), MALHA_BAD);
  malha_job *job = malha_job_new();
  assert_int_equal(malha_job_set(job, "global-batsh", "8", &e), MALHA_BAD);
  assert_non_null(strstr(e.text, "global-batch"));
  assert_int_equal(malha_job_set(job, "tokens", "many", &e), MALHA_BAD);
  assert_int_equal(malha_job_set(NULL, "tokens", "1T", &e), MALHA_BAD);
  assert_int_equal(malha_job_read(job, "/no/such/job.yaml", &e), MALHA_BAD);
  set(job, "deadline", "14d");
  assert_int_equal(malha_plan_make(m, on, job, "tp=8", NULL, &p, &e), MALHA_BAD); /* how many tokens? */
  assert_non_null(strstr(e.text, "tokens"));
  malha_job_free(job);
  malha_plan_free(NULL);
  malha_job_free(NULL);
  malha_machine_free(on);
  malha_machine_free(NULL);
  malha_model_free(m);
  malha_model_free(NULL);
}

/* A program built against an older header, with a shorter struct, gets no byte beyond it. */
static void sizes(void **state) {
  (void)state;
  malha_model *m = model("llama-3-8b");
  malha_machine *on = machine("8xh100-sxm");
  malha_plan *p = plan(m, on, NULL, "zero=3,micro-batch=1,recompute=full");
  malha_estimate x = {.size = offsetof(malha_estimate, memory_bytes), .memory_bytes = -1};
  assert_int_equal(malha_plan_estimate(p, &x), MALHA_OK);
  assert_true(x.fit_probability > 0);
  assert_float_equal(x.memory_bytes, -1, 0);
  x.size = 0;
  assert_int_equal(malha_plan_estimate(p, &x), MALHA_BAD);
  malha_plan_free(p);
  malha_machine_free(on);
  malha_model_free(m);
}

/* Each of the best is what its layout gives when it is asked for, in ascending order; none is a risk. */
static void search(void **state) {
  (void)state;
  enum { ROOM = 4 };
  malha_error e;
  malha_plan *best[ROOM] = {NULL};
  int32_t n = ROOM;
  malha_model *m = model("llama-3.2-1b");
  malha_machine *on = machine("2xa100-80-sxm");
  malha_job *job = malha_job_new();
  set(job, "global-batch", "16");
  if (malha_search(m, on, job, NULL, best, &n, &e)) fail_msg("%s", e.text);
  assert_int_equal(n, ROOM);
  for (int i = 0; i < n; i++) {
    malha_estimate x = estimate(best[i]);
    malha_plan *again = plan(m, on, job, malha_plan_layout(best[i]));
    assert_true(x.fits && x.fit_probability >= 0.9);
    assert_true(i == 0 || x.step_s >= estimate(best[i - 1]).step_s);
    assert_float_equal(estimate(again).step_s, x.step_s, 0);
    malha_plan_free(again);
  }
  double fastest = estimate(best[0]).step_s;
  for (int i = 0; i < n; i++) malha_plan_free(best[i]);

  malha_search_options o = {.size = sizeof o, .fix = "tp=2,zero=1", .threads = 1, .profile = "megatron"};
  n = 1;
  if (malha_search(m, on, job, &o, best, &n, &e)) fail_msg("%s", e.text);
  assert_non_null(strstr(malha_plan_layout(best[0]), "tp=2"));
  assert_true(estimate(best[0]).step_s >= fastest);
  malha_plan_free(best[0]);

  n = 1, o.fix = "tp=7";
  assert_int_equal(malha_search(m, on, job, &o, best, &n, &e), MALHA_BAD);
  assert_int_equal(n, 0);
  n = 1, o.fix = NULL, o.objective = 99;
  assert_int_equal(malha_search(m, on, job, &o, best, &n, &e), MALHA_BAD);
  n = 0, o.objective = MALHA_BEST_TIME;
  assert_int_equal(malha_search(m, on, job, &o, best, &n, &e), MALHA_BAD);
  assert_int_equal(malha_search(NULL, on, job, NULL, best, &n, &e), MALHA_BAD);
  assert_int_equal(malha_search(m, on, job, NULL, best, NULL, &e), MALHA_BAD);

  malha_model *large = model("llama-3.1-405b"); /* 405 B parameters on two GPUs */
  n = 1, o.fix = "offload-optimizer=none,offload-params=none", o.profile = NULL;
  assert_int_equal(malha_search(large, on, NULL, &o, best, &n, &e), MALHA_NO);
  assert_int_equal(n, 0);
  assert_non_null(strstr(e.text, "llama-3.1-405b"));
  malha_model_free(large);
  malha_job_free(job);
  malha_machine_free(on);
  malha_model_free(m);
}

typedef struct worker {
  pthread_t thread;
  malha_model *model;
  malha_machine *machine;
  double step_s;
} worker;

static void *work(void *context) {
  worker *w = context;
  for (int i = 0; i < 8; i++) {
    malha_plan *p = plan(w->model, w->machine, NULL, "tp=8,micro-batch=1,recompute=full");
    w->step_s = estimate(p).step_s;
    malha_plan_free(p);
  }
  malha_model_free(w->model);
  malha_machine_free(w->machine);
  return NULL;
}

static void threads(void **state) {
  (void)state;
  enum { THREADS = 4 };
  worker w[THREADS];
  malha_model *m = model("llama-3-8b");
  malha_machine *on = machine("8xh100-sxm");
  for (int i = 0; i < THREADS; i++) {
    w[i] = (worker){.model = i ? model("llama-3-8b") : m, .machine = i ? machine("8xh100-sxm") : on};
    pthread_create(&w[i].thread, NULL, work, &w[i]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(w[i].thread, NULL);
  for (int i = 1; i < THREADS; i++) assert_float_equal(w[i].step_s, w[0].step_s, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_the_command_says),
      cmocka_unit_test(what_does_not_fit),
      cmocka_unit_test(to_a_file_and_back),
      cmocka_unit_test(errors),
      cmocka_unit_test(sizes),
      cmocka_unit_test(threads),
      cmocka_unit_test(search),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
