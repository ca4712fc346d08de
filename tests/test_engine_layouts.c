/* Every split gives the same losses as one rank, and uses what was planned: memory, bytes, FLOPs. A selection that covers every
 * pair of choices; all of them with MALHA_FULL=1 (./dev test --full). */
#include "engine.h"

typedef struct split {
  int64_t tp, pp, dp;
} split;

static const char *const schedules[] = {"1f1b", "gpipe", "interleaved,vpp=2", "zb-h1"};
static const char *const recomputations[] = {"none", "selective", "full", "full,recompute-layers=1"};
static const char *const others[] = {"", ",zero=0", ",sequence-parallel=off", ",zero=2,sequence-parallel=off"};
enum { SCHEDULES = 4, RECOMPUTATIONS = 4, OTHERS = 4, MOST_SPLITS = 64 };

static int splits(split *list) {
  int n = 0;
  for (int64_t tp = 1; tp <= 2; tp++) /* the models have two key/value heads */
    for (int64_t pp = 1; tp * pp <= 8; pp++)
      for (int64_t dp = 1; tp * pp * dp <= 8; dp++)
        if (pp <= 4 && BATCH % dp == 0) list[n++] = (split){tp, pp, dp};
  return n;
}

static bool full(void) {
  const char *text = getenv("MALHA_FULL");
  return text && *text && strcmp(text, "0") != 0;
}

/* A few of the many, so that every pair of choices is met: a choice moves on by its own stride. */
static bool selected(int split_index, int schedule, int recompute, int other) {
  if (full()) return true;
  return (split_index + 2 * schedule + 3 * recompute) % 7 == 0 &&
         (split_index + schedule + recompute) % OTHERS == other;
}

static double worst; /* relative distance of a loss from one rank's */

static void one_layout(const char *config, const char *layout, int64_t ranks, const result *one, int *run) {
  result r;
  mal_error e = {0};
  mal_arena outer = arena;
  mal_arena_init(&arena);
  mal_program *program = try_program(config, ranks, layout, BATCH, &e);
  if (program) {
    train(program, STEPS, &r);
    ++*run;
    for (int i = 0; i < STEPS; i++) {
      worst = fmax(worst, fabs(r.loss[i] / one->loss[i] - 1));
      close_to(r.loss[i], one->loss[i], 2e-5, layout, i);
      close_to(r.norm[i], one->norm[i], 2e-4, layout, i);
    }
    as_planned(&r.summary, layout);
  } else {
    assert_int_equal(e.status, MAL_BAD); /* a schedule that such a split cannot take, ZeRO-2 with tied tables */
  }
  mal_arena_free(&arena);
  arena = outer;
}

static void all_layouts(const char *config) {
  split list[MOST_SPLITS];
  char layout[160];
  int n = splits(list), run = 0;
  worst = 0;
  result one;
  train(program_of(config, 1, "micro-batch=8", BATCH), STEPS, &one);
  for (int i = 0; i < n; i++)
    for (int s = 0; s < SCHEDULES; s++)
      for (int c = 0; c < RECOMPUTATIONS; c++)
        for (int o = 0; o < OTHERS; o++) {
          if (!selected(i, s, c, o)) continue;
          int64_t micro = BATCH / list[i].dp >= 8 ? 2 : 1;
          snprintf(layout, sizeof layout, "tp=%lld,pp=%lld,dp=%lld,micro-batch=%lld,schedule=%s,recompute=%s%s",
                   (long long)list[i].tp, (long long)list[i].pp, (long long)list[i].dp, (long long)micro, schedules[s],
                   recomputations[c], others[o]);
          one_layout(config, layout, list[i].tp * list[i].pp * list[i].dp, &one, &run);
        }
  print_message("%d layouts, the worst loss off by %.2g\n", run, worst);
  assert_true(run >= (full() ? 300 : 20));
}

static void gpt2(void **state) {
  (void)state;
  all_layouts(gpt2_config);
}

static void llama(void **state) {
  (void)state;
  all_layouts(llama_config);
}

/* ZeRO-2: the same losses, what was planned, and less memory than ZeRO-1, also where shards are no even parts. */
static void zero_2(void **state) {
  (void)state;
  static const struct {
    const char *layout;
    int64_t ranks;
  } list[] = {{"dp=2,micro-batch=1", 2},
              {"dp=8,micro-batch=1,recompute=full", 8},
              {"dp=4,micro-batch=2,recompute=selective", 4},
              {"dp=2,pp=2,micro-batch=1", 4},
              {"dp=2,pp=2,micro-batch=1,schedule=interleaved,vpp=2,recompute=full", 4},
              {"dp=4,pp=2,micro-batch=1,schedule=gpipe", 8},
              {"dp=2,tp=2,pp=2,micro-batch=2,sequence-parallel=off", 8}};
  char layout[160];
  result one;
  int run = 0;
  train(program_of(llama_config, 1, "micro-batch=8", BATCH), STEPS, &one);
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    snprintf(layout, sizeof layout, "%s,zero=1", list[i].layout);
    int64_t before = program_of(llama_config, list[i].ranks, layout, BATCH)->stages[0].total_bytes;
    snprintf(layout, sizeof layout, "%s,zero=2", list[i].layout);
    int64_t now = program_of(llama_config, list[i].ranks, layout, BATCH)->stages[0].total_bytes;
    if (now >= before) fail_msg("%s: %lld bytes, ZeRO-1 %lld", layout, (long long)now, (long long)before);
    one_layout(llama_config, layout, list[i].ranks, &one, &run);
  }
  assert_int_equal(run, sizeof list / sizeof *list);
}

/* --- random models and layouts: one step, as planned ------------------------------------------------------------------------- */

static uint32_t dice = 7;
static int64_t roll(int64_t n) {
  dice = dice * 1664525u + 1013904223u;
  return (int64_t)(dice >> 8) % n;
}

static void random_model(char *text, size_t size) {
  int64_t d = 8 << roll(2), kv = 1 << roll(3), heads = kv << roll(2);
  snprintf(text, size,
           "layers=%lld,hidden=%lld,heads=%lld,kv_heads=%lld,head_dim=%lld,ffn=%lld,vocab=%lld,gated=%lld,"
           "tied=%lld,positions=%lld,bias=%lld,parallel=%lld,norm=%s,window=%lld",
           (long long)(1 + roll(8)), (long long)(16 * (1 + roll(4))), (long long)heads, (long long)kv, (long long)d,
           (long long)(8 * (1 + roll(12))), (long long)(50 + roll(700)), (long long)roll(2), (long long)roll(2),
           (long long)(roll(2) ? 64 : 0), (long long)roll(2), (long long)(roll(4) == 0),
           roll(2) ? "layernorm" : "rmsnorm", (long long)(roll(4) ? 0 : 16));
}

static int64_t random_layout(char *text, size_t size, int64_t *batch) {
  int64_t tp = 1 << roll(3), pp = 1 + roll(4), dp = 1 + roll(3), micro = 1 + roll(2);
  while (tp * pp * dp > 8) tp = tp > 1 ? tp / 2 : tp, dp = dp > 1 && tp == 1 ? dp - 1 : dp;
  *batch = dp * micro * pp * (1 + roll(2));
  snprintf(text, size,
           "tp=%lld,pp=%lld,dp=%lld,micro-batch=%lld,schedule=%s,recompute=%s,zero=%lld,sequence-parallel=%s",
           (long long)tp, (long long)pp, (long long)dp, (long long)micro, schedules[roll(SCHEDULES)],
           recomputations[roll(RECOMPUTATIONS)], (long long)roll(3), roll(2) ? "on" : "off");
  return tp * pp * dp;
}

static void random_plans(void **state) {
  (void)state;
  int wanted = full() ? 500 : 40, run = 0;
  for (int tries = 0; run < wanted && tries < 40 * wanted; tries++) {
    char model[256], layout[256], both[600];
    int64_t batch, ranks;
    mal_error e = {0};
    result r;
    mal_arena_reset(&arena);
    random_model(model, sizeof model);
    ranks = random_layout(layout, sizeof layout, &batch);
    mal_program *program = try_program(model, ranks, layout, batch, &e);
    if (!program) {
      assert_int_equal(e.status, MAL_BAD);
      continue;
    }
    snprintf(both, sizeof both, "%s %s", model, layout);
    train(program, 1, &r);
    as_planned(&r.summary, both);
    assert_true(isfinite(r.loss[0]));
    run++;
  }
  assert_int_equal(run, wanted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(gpt2, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(llama, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(zero_2, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(random_plans, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
