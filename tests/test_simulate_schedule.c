/* Bubbles of the schedules against their papers' formulas, with equal stages and messages that take no time. */
#include "lower.h"
#include "simulate/simulate.h"
#include <math.h>

/* One layer a chunk, next to no embedding and head, a network that costs nothing: stages compute the same. */
static const mal_program *uniform(int pp, int vpp, int micro_batches, const char *schedule) {
  char model[128], layout[128], job[64], machine[32];
  snprintf(model, sizeof model, "layers=%d,hidden=4096,heads=32,ffn=16384,vocab=64,positions=4096", pp * vpp * 2);
  snprintf(layout, sizeof layout, "tp=1,pp=%d,dp=1,zero=0,micro-batch=1,schedule=%s%s", pp, schedule,
           vpp > 1 ? ",vpp=2" : "");
  snprintf(job, sizeof job, "{accumulation: %d, seq: 4096}", micro_batches);
  snprintf(machine, sizeof machine, "%dxh100-sxm", pp);
  mal_plan *plan = plan_of(model, machine, layout, "malha", job);
  plan->machine.gpu->nvlink_bytes_per_s.value = 1e18;
  plan->machine.gpu->cal.link_latency_s.value = 0;
  plan->machine.gpu->cal.launch_s.value = 0;
  mal_error e;
  mal_program *p = MAL_NEW(&arena, mal_program);
  assert_ok(mal_lower(&arena, plan, p, &e), e);
  return p;
}

/* Seconds of each pass of a chunk, from the events of one that runs alone: rank 0. */
typedef struct passes {
  double f, b, w, bw;
} passes;

static double first_named(const mal_timeline *t, int32_t rank, const char *name) {
  for (int64_t i = 0; i < t->count; i++)
    if (t->events[i].rank == rank && t->events[i].stream == 0 && strcmp(t->events[i].name, name) == 0)
      return t->events[i].end_s - t->events[i].start_s;
  return 0;
}

/* The idle time of a stage in the middle, which has neither embedding nor head, before the end of the step. */
static double idle(const mal_program *p, int64_t pp, passes *one) {
  const int64_t rank[1] = {pp / 2};
  mal_timeline t;
  mal_simulated s;
  mal_error e;
  mal_timeline_init(&t, &arena);
  mal_simulate_options o = {.ranks = rank, .n_ranks = 1, .timeline = &t};
  assert_ok(mal_simulate(&arena, p, &o, &s, &e), e);
  int32_t r = (int32_t)rank[0];
  *one = (passes){first_named(&t, r, "F"), first_named(&t, r, "B"), first_named(&t, r, "W"), first_named(&t, r, "BW")};
  double busy = 0, sync = 0;
  for (int64_t i = 0; i < t.count; i++) {
    const mal_event *x = &t.events[i];
    if (x->stream != 0) continue;
    bool pass = strchr("FBW", x->name[0]) && strlen(x->name) <= 2;
    if (pass) busy += x->end_s - x->start_s;
  }
  /* the last stage to finish its passes ends them where the end of the step begins to be waited for */
  for (int c = 0; c < MAL_TIME_CAUSES; c++)
    if (c == MAL_TIME_OPTIMIZER) sync += s.time_s[c];
  return s.played_s - sync - busy;
}

static void check(const char *schedule, int pp, int vpp, int m, double (*formula)(int pp, int vpp, const passes *)) {
  passes one;
  double bubble = idle(uniform(pp, vpp, m, schedule), pp, &one), wanted = formula(pp, vpp, &one);
  double whole = m * vpp * (one.f + one.b + one.w + one.bw);
  /* embedding, head and update are small, not nothing */
  if (fabs(bubble - wanted) > 0.01 * whole + 0.02 * wanted)
    fail_msg("%s pp=%d vpp=%d m=%d: bubble %.6f s, formula %.6f s of %.6f s", schedule, pp, vpp, m, bubble, wanted,
             whole);
}

/* GPipe (Huang et al. 2019) and 1F1B (Narayanan et al. 2019): (p - 1)(F + B). */
static double one_pass(int pp, int vpp, const passes *x) { return (void)vpp, (pp - 1) * (x->f + x->bw); }
/* Narayanan et al. 2021, section 2.2: the same over v; here F and B are of a chunk, which is 1/v of a stage. */
static double interleaved(int pp, int vpp, const passes *x) { return (void)vpp, (pp - 1) * (x->f + x->bw); }
/* Qi et al. 2024, table 1: ZB-H1 (p - 1)(F + B - W). */
static double zb_h1(int pp, int vpp, const passes *x) { return (void)vpp, (pp - 1) * (x->f + x->b - x->w); }
/* DeepSeek-V3, table 2: (p/2 - 1)(F&B + B - 3W), B the whole backward pass (here b + w), F&B the pair as one (here f + b + w,
 * for there are no experts whose traffic could hide). */
static double dualpipe(int pp, int vpp, const passes *x) {
  (void)vpp;
  return (pp / 2 - 1) * ((x->f + x->b + x->w) + (x->b + x->w) - 3 * x->w);
}

static void test_gpipe(void **state) {
  (void)state;
  check("gpipe", 4, 1, 8, one_pass);
  check("gpipe", 8, 1, 16, one_pass);
}

static void test_1f1b(void **state) {
  (void)state;
  check("1f1b", 4, 1, 8, one_pass);
  check("1f1b", 8, 1, 24, one_pass);
}

static void test_interleaved(void **state) {
  (void)state;
  check("interleaved", 4, 2, 8, interleaved);
  check("interleaved", 8, 2, 16, interleaved);
}

static void test_zb_h1(void **state) {
  (void)state;
  check("zb-h1", 4, 1, 12, zb_h1);
  check("zb-h1", 8, 1, 24, zb_h1);
}

static void test_dualpipe(void **state) {
  (void)state;
  check("dualpipe", 4, 1, 16, dualpipe);
  check("dualpipe", 8, 1, 32, dualpipe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_gpipe, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_1f1b, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_interleaved, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_zb_h1, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_dualpipe, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
