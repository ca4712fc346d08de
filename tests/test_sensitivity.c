/* What would change the speed: each row is what a plan or a search of its own says of the changed machine or batch. */
#include "search/sensitivity.h"
#include "test.h"
#include <math.h>

typedef struct asked {
  mal_arena a;
  mal_plan plan;
  mal_search_result r;
  mal_what_if ifs[MAL_IFS];
  mal_error e;
} asked;

static void ask(asked *q, const char *model, const char *machine, int64_t batch, const mal_search_options *o) {
  mal_job j;
  mal_layout l;
  mal_arena_init(&q->a);
  mal_job_default(&j);
  mal_layout_default(&l);
  j.global_batch = batch;
  assert_ok(mal_plan_open(&q->a, model, machine, "", &j, &l, &q->plan, &q->e), q->e);
  assert_ok(mal_search(&q->a, &q->plan, o, &q->r, &q->e), q->e);
  assert_true(q->r.count > 0);
  assert_ok(mal_what_ifs(&q->a, &q->r.best[0], o, q->ifs, &q->e), q->e);
}

/* Tokens a second of the layout found, priced on a machine that is changed by hand. */
static double priced(asked *q, double nic, double nvlink, double memory_speed) {
  mal_plan p = q->r.best[0].plan;
  mal_gpu gpu = *p.machine.gpu;
  mal_node node = *p.machine.node;
  mal_program program;
  mal_estimate e;
  node.nic_bytes_per_s.value *= nic;
  gpu.nvlink_bytes_per_s.value *= nvlink;
  gpu.memory_bytes_per_s.value *= memory_speed;
  p.machine.gpu = &gpu, p.machine.node = &node;
  assert_ok(mal_lower(&q->a, &p, &program, &q->e), q->e);
  assert_ok(mal_price(&q->a, &program, &e, &q->e), q->e);
  return e.tokens_per_s;
}

static double searched(asked *q, int64_t batch, double memory) {
  mal_plan p = q->plan;
  mal_gpu gpu = *p.machine.gpu;
  mal_search_result r;
  const mal_layout *l = &q->r.best[0].plan.layout;
  mal_search_options o = {.keep = 1};
  o.fix = mal_print(&q->a, "tp=%lld,cp=%lld,ep=%lld,etp=%lld", (long long)l->tp, (long long)l->cp, (long long)l->ep,
                    (long long)l->etp);
  gpu.memory_bytes.value *= memory;
  p.machine.gpu = &gpu;
  p.asked_job.global_batch = batch;
  assert_ok(mal_search(&q->a, &p, &o, &r, &q->e), q->e);
  assert_true(r.count == 1);
  return r.best[0].estimate.tokens_per_s;
}

static void same(const char *what, double x, double y) {
  if (!(fabs(x / y - 1) < 1e-9)) fail_msg("%s: %.9g instead of %.9g tokens/s", what, x, y);
}

static void check(const char *model, const char *machine, int64_t batch) {
  asked q;
  mal_search_options o = {0};
  ask(&q, model, machine, batch, &o);
  bool nodes = q.plan.machine.nodes > 1;
  assert_int_equal(q.ifs[MAL_IF_NIC].known, nodes);
  if (nodes) same("nic", q.ifs[MAL_IF_NIC].tokens_per_s, priced(&q, 1.1, 1, 1));
  same("nvlink", q.ifs[MAL_IF_NVLINK].tokens_per_s, priced(&q, 1, 1.1, 1));
  same("memory speed", q.ifs[MAL_IF_MEMORY_SPEED].tokens_per_s, priced(&q, 1, 1, 1.1));
  same("memory", q.ifs[MAL_IF_MEMORY].tokens_per_s, searched(&q, batch, 1.1));
  same("half", q.ifs[MAL_IF_HALF_BATCH].tokens_per_s, searched(&q, batch / 2, 1));
  same("twice", q.ifs[MAL_IF_TWICE_BATCH].tokens_per_s, searched(&q, 2 * batch, 1));
  for (int i = 0; i < MAL_IFS; i++) {
    const mal_what_if *x = &q.ifs[i];
    if (!x->known) continue;
    same(mal_if_name[i], 1 + x->gain, x->tokens_per_s / q.r.best[0].estimate.tokens_per_s);
    if (i < MAL_IF_HALF_BATCH) assert_true(x->gain > -1e-9); /* nothing gets slower on a better machine */
  }
  mal_arena_free(&q.a);
}

static void test_rows(void **state) {
  (void)state;
  check("llama-3-8b", "8xh100-sxm", 256);
  check("llama-3-8b", "2x8xa100-40-sxm", 128);
  check("mixtral-8x7b", "4x8xh100-sxm", 128);
}

/* A batch of odd size has no half; one GPU has neither NVLink nor NICs to wait for. */
static void test_unknown(void **state) {
  (void)state;
  asked q;
  mal_search_options o = {0};
  ask(&q, "llama-3.2-1b", "1xh100-sxm", 15, &o);
  assert_false(q.ifs[MAL_IF_NIC].known || q.ifs[MAL_IF_NVLINK].known || q.ifs[MAL_IF_HALF_BATCH].known);
  assert_true(q.ifs[MAL_IF_MEMORY].known && q.ifs[MAL_IF_TWICE_BATCH].known);
  mal_arena_free(&q.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_unknown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
