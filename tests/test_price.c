/* Price of lowered plans: what peers get wrong, published times, fit and remedies. */
#include "price/kernel.h"
#include "price/price.h"
#include "price/risk.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct priced {
  mal_arena a;
  mal_plan *plan;
  mal_program program;
  mal_estimate e;
} priced;

static double sum(const double *x, int n) {
  double s = 0;
  for (int i = 0; i < n; i++) s += x[i];
  return s;
}

static void check(const priced *p) {
  const mal_estimate *e = &p->e;
  assert_true(isfinite(e->step_s) && e->step_s > 0);
  if (fabs(sum(e->time_s, MAL_TIME_CAUSES) / e->step_s - 1) > 1e-9)
    fail_msg("causes sum to %g of %g s", sum(e->time_s, MAL_TIME_CAUSES), e->step_s);
  for (int c = 0; c < MAL_TIME_CAUSES; c++) assert_true(e->time_s[c] >= 0);
  int64_t memory = 0;
  for (int c = 0; c < MAL_MEM_CAUSES; c++) memory += e->memory_bytes[c];
  assert_true(memory == e->total_bytes);
  assert_true(e->mfu > 0 && e->mfu < 1 && e->hfu >= e->mfu * 0.999);
  assert_true(e->step_interval.low < e->step_s && e->step_s < e->step_interval.high);
  assert_true(e->fit_probability >= 0 && e->fit_probability <= 1);
  assert_true(e->goodput > 0 && e->goodput <= 1);
  assert_true(e->why && *e->why);
}

/* job: "name=value,..." of the job's options. */
static void set_job(mal_job *j, const char *text) {
  char copy[256], *rest = NULL;
  mal_error e;
  snprintf(copy, sizeof copy, "%s", text);
  mal_job_default(j);
  for (char *pair = strtok_r(copy, ",", &rest); pair; pair = strtok_r(NULL, ",", &rest)) {
    char *value = strchr(pair, '=');
    *value++ = 0;
    assert_ok(mal_option_set(mal_job_options, (size_t)mal_job_option_count, pair, value, j, &e), e);
  }
}

static mal_status try_price(priced *p, const char *model, const char *machine, const char *profile, const char *layout,
                            const char *job, mal_error *e) {
  mal_layout l;
  mal_job j;
  mal_arena_init(&p->a);
  p->plan = MAL_NEW(&p->a, mal_plan);
  set_job(&j, job);
  mal_layout_default(&l);
  mal_status status = mal_layout_parse(&p->a, layout, &l, e);
  if (status == MAL_OK) status = mal_plan_make(&p->a, model, machine, profile, &j, &l, p->plan, e);
  if (status == MAL_OK) status = mal_lower(&p->a, p->plan, &p->program, e);
  if (status == MAL_OK) status = mal_price(&p->a, &p->program, &p->e, e);
  return status;
}

static void price(priced *p, const char *model, const char *machine, const char *profile, const char *layout,
                  const char *job) {
  mal_error e;
  assert_ok(try_price(p, model, machine, profile, layout, job, &e), e);
  check(p);
}

/* Price, keep the estimate only. */
static mal_estimate quick(const char *model, const char *machine, const char *profile, const char *layout,
                          const char *job) {
  priced p;
  price(&p, model, machine, profile, layout, job);
  mal_estimate e = p.e;
  static char classes[16][64]; /* outlive the arena */
  static int next;
  char *kept = classes[next++ % 16];
  snprintf(kept, sizeof *classes, "%s", e.interval_class ? e.interval_class : "");
  e.interval_class = kept;
  e.why = NULL;
  mal_arena_free(&p.a);
  return e;
}

#define GPT_22B  "layers=48,hidden=6144,heads=64,ffn=24576,vocab=51200,positions=2048"
#define GPT_175B "layers=96,hidden=12288,heads=96,ffn=49152,vocab=51200,positions=2048"

/* --- what peers get wrong ------------------------------------------------------------------------------------------------ */

static void test_embedding_and_head(void **state) {
  (void)state;
  const char *small = "layers=24,hidden=2048,heads=16,ffn=8192,vocab=512,positions=2048";
  const char *large = "layers=24,hidden=2048,heads=16,ffn=8192,vocab=128000,positions=2048";
  mal_estimate a = quick(small, "8xh100-sxm", "megatron", "micro-batch=2", "global-batch=64");
  mal_estimate b = quick(large, "8xh100-sxm", "megatron", "micro-batch=2", "global-batch=64");
  /* the head's three products alone: 6 · tokens · hidden · vocab */
  double head = 6.0 * 64 * 2048 / 8 * 2048 * 127488 / 989.4e12;
  assert_true(b.step_s - a.step_s > head);
  assert_true(b.step_s > 1.15 * a.step_s && b.total_bytes > a.total_bytes + (INT64_C(3) << 30));
}

/* Weights travel only at ZeRO-3, and then with every micro-batch. */
static void test_zero_traffic(void **state) {
  (void)state;
  const char *job = "global-batch=512", *model = "llama-2-7b", *machine = "2xdgx-a100";
  double dp[4];
  char layout[128];
  for (int zero = 0; zero < 4; zero += zero == 1 ? 2 : 1) {
    snprintf(layout, sizeof layout, "zero=%d,micro-batch=1,recompute=full,overlap-dp-grad=off,overlap-dp-param=off",
             zero);
    dp[zero] = quick(model, machine, "megatron", layout, job).time_s[MAL_TIME_DP];
  }
  assert_true(dp[0] > 0 && fabs(dp[1] / dp[0] - 1) < 0.4);
  assert_true(dp[3] > 4 * dp[1]);
  assert_true(quick(model, "1xa100-80-sxm", "megatron", "micro-batch=1", "global-batch=8").time_s[MAL_TIME_DP] == 0);
}

static void test_recompute_costs(void **state) {
  (void)state;
  mal_estimate none =
      quick(GPT_22B, "8xa100-80-sxm", "megatron", "tp=8,micro-batch=1,recompute=none", "global-batch=4");
  mal_estimate full =
      quick(GPT_22B, "8xa100-80-sxm", "megatron", "tp=8,micro-batch=1,recompute=full", "global-batch=4");
  assert_true(full.step_s > 1.2 * none.step_s && full.step_s < 1.45 * none.step_s);
  assert_true(full.hfu > 1.2 * full.mfu && full.total_bytes < none.total_bytes);
}

static void test_uneven_stages(void **state) {
  (void)state;
  const char *job = "global-batch=128", *machine = "4xdgx-a100";
  mal_estimate even = quick(GPT_22B, machine, "megatron", "tp=8,pp=4,vpp=1,micro-batch=1", job);
  mal_estimate uneven = quick(GPT_22B, machine, "megatron", "tp=8,pp=4,vpp=1,micro-batch=1,last-stage-layers=18", job);
  assert_true(uneven.step_s > 1.25 * even.step_s);
}

static void test_experts(void **state) {
  (void)state;
  const char *moe = "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=32000,gated=1,experts=8,top_k=2";
  const char *dense = "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=32000,gated=1";
  const char *wide = "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=114688,vocab=32000,gated=1"; /* as many weights */
  const char *job = "global-batch=256,seq=4096", *machine = "4xdgx-h100";
  mal_estimate m = quick(moe, machine, "megatron", "ep=8,etp=1,micro-batch=1", job);
  mal_estimate d = quick(dense, machine, "megatron", "micro-batch=1", job);
  mal_estimate w = quick(wide, machine, "megatron", "tp=8,micro-batch=1", job);
  assert_true(m.step_s > 1.3 * d.step_s && m.step_s < 0.8 * w.step_s);
  assert_true(strcmp(m.interval_class, d.interval_class) != 0);
  assert_true(m.time_s[MAL_TIME_EP] > 0 && d.time_s[MAL_TIME_EP] == 0);
  mal_estimate cut = quick(moe, machine, "megatron", "tp=4,ep=8,etp=4,micro-batch=1", job);
  mal_estimate folded = quick(moe, machine, "megatron", "tp=4,ep=8,etp=1,micro-batch=1", job);
  assert_true(cut.step_s > 1.02 * folded.step_s); /* experts in slices: thinner products, gathers around them */
}

/* Peers say 0.5 GB where 15 to 21 are used. */
static void test_memory_is_whole(void **state) {
  (void)state;
  const char *model = "layers=24,hidden=2048,heads=16,ffn=8192,vocab=51200,positions=2048";
  mal_estimate e = quick(model, "1xa100-80-sxm", "megatron", "micro-batch=1", "global-batch=8");
  assert_true(e.total_bytes > (INT64_C(20) << 30) && e.total_bytes < (INT64_C(60) << 30));
  assert_true(e.fits && e.fit_probability > 0.99);
}

/* --- published times ------------------------------------------------------------------------------------------------------ */

static void compare(const char *what, double ours, double published, double tolerance, int *bad) {
  double error = ours / published - 1;
  print_message("%-44s %9.4f published %9.4f %+6.1f %%\n", what, ours, published, 100 * error);
  *bad += fabs(error) > tolerance;
}

/* Time of one layer of a plan: 0 forward, 1 backward with what it recomputes. */
static double layer_ms(const char *layout, bool backward) {
  priced p;
  price(&p, GPT_22B, "8xa100-80-sxm", "megatron", layout, "global-batch=4,precision=fp16");
  double s = 0;
  for (int b = 0; b < p.program.n_blocks; b++) {
    if (p.program.blocks[b].block_class != MAL_B_LAYER) continue;
    s = mal_price_list(p.plan, &p.program.blocks[b], backward ? MAL_L_BW : MAL_L_F).span_s;
    if (backward && p.program.blocks[b].count[MAL_L_R])
      s += mal_price_list(p.plan, &p.program.blocks[b], MAL_L_R).span_s;
    break;
  }
  mal_arena_free(&p.a);
  return s * 1e3;
}

/* Korthikanti et al., arXiv 2205.05198, table 4: one layer of the 22B model on 8 A100. A record rather than a bar. */
static void test_layer_times(void **state) {
  (void)state;
  static const struct {
    const char *what, *layout;
    double forward, backward;
  } rows[] = {
      {"no recompute", "sequence-parallel=off,recompute=none", 7.7, 11.9},
      {"sequence parallel", "sequence-parallel=on,recompute=none", 7.2, 11.8},
      {"full recompute", "sequence-parallel=off,recompute=full", 7.7, 19.5},
      {"selective recompute", "sequence-parallel=off,recompute=selective", 7.7, 13.2},
      {"selective, sequence parallel", "sequence-parallel=on,recompute=selective", 7.2, 13.1},
  };
  int bad = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char layout[128], what[96];
    snprintf(layout, sizeof layout, "tp=8,micro-batch=4,attention=unfused,%s", rows[i].layout);
    snprintf(what, sizeof what, "%s, forward ms", rows[i].what);
    compare(what, layer_ms(layout, false), rows[i].forward, 0.25, &bad);
    snprintf(what, sizeof what, "%s, backward ms", rows[i].what);
    compare(what, layer_ms(layout, true), rows[i].backward, 0.25, &bad);
  }
  assert_int_equal(bad, 0);
}

/* The same paper, table 5: iteration times on Selene, full recompute and selective + sequence parallel. */
static void test_iteration_times(void **state) {
  (void)state;
  int bad = 0;
  const char *full = "sequence-parallel=off,recompute=full", *best = "sequence-parallel=on,recompute=selective";
  static const struct {
    const char *name, *model, *machine, *split, *job;
    double full_s, best_s;
  } rows[] = {
      {"22B", GPT_22B, "8xa100-80-sxm", "tp=8,micro-batch=4", "global-batch=4,precision=fp16", 1.42, 1.10},
      {"175B", GPT_175B, "8xdgx-a100", "tp=8,pp=8,vpp=3,micro-batch=1", "global-batch=64,precision=fp16", 18.13, 13.75},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int k = 0; k < 2; k++) {
      char layout[160], what[64];
      snprintf(layout, sizeof layout, "%s,attention=unfused,%s", rows[i].split, k ? best : full);
      snprintf(what, sizeof what, "%s %s, s", rows[i].name, k ? "selective + SP" : "full recompute");
      compare(what, quick(rows[i].model, rows[i].machine, "megatron", layout, rows[i].job).step_s,
              k ? rows[i].best_s : rows[i].full_s, 0.15, &bad);
    }
  assert_int_equal(bad, 0);
}

/* --- answers ---------------------------------------------------------------------------------------------------------------- */

static void test_target(void **state) {
  (void)state;
  mal_estimate none = quick("llama-2-7b", "8xh100-sxm", "megatron", "micro-batch=1", "global-batch=64");
  assert_true(none.time_to_target_s == 0 && none.cost_usd == 0 && none.gpu_hours == 0);
  mal_estimate e = quick("llama-2-7b", "8xh100-sxm", "megatron", "micro-batch=1",
                         "global-batch=64,tokens=1G,usd-per-gpu-hour=2,usd-per-kwh=0.1");
  assert_true(fabs(e.time_to_target_s * e.tokens_per_s * e.goodput / 1e9 - 1) < 1e-9);
  assert_true(fabs(e.gpu_hours - 8 * e.time_to_target_s / 3600) < 1e-9 * e.gpu_hours);
  assert_true(fabs(e.cost_usd - (2 * e.gpu_hours + 0.1 * e.energy_kwh)) < 1e-6 * e.cost_usd);
  assert_true(fabs(e.usd_per_mtoken * 1000 / e.cost_usd - 1) < 1e-9);
  /* 8 H100 in training: 76 % of 10.2 kW on average, 8.4 kW at most (arXiv 2506.14551, 2412.08602). */
  assert_true(e.power_w > 6000 && e.power_w < 8400);
  mal_estimate many = quick("llama-2-7b", "256xdgx-h100", "megatron", "micro-batch=1", "global-batch=2048");
  assert_true(many.goodput < e.goodput && many.time_s[MAL_TIME_JITTER] > 0);
}

/* Token ids cost next to nothing; a checkpoint's stall is in the step or in the goodput, never in both. */
static void test_upkeep(void **state) {
  (void)state;
  const char *layout = "tp=8,pp=4,micro-batch=1,recompute=selective";
  mal_estimate plain = quick("llama-3-70b", "16x8xh100-sxm", "megatron", layout, "global-batch=1024");
  mal_estimate aimed = quick("llama-3-70b", "16x8xh100-sxm", "megatron", layout, "global-batch=1024,tokens=15T");
  mal_estimate often =
      quick("llama-3-70b", "16x8xh100-sxm", "megatron", layout, "global-batch=1024,checkpoint-interval=10min");
  assert_true(plain.time_s[MAL_TIME_DATA] > 0 && plain.time_s[MAL_TIME_DATA] < 1e-4);
  assert_true(plain.time_s[MAL_TIME_CHECKPOINT] == 0);
  assert_true(aimed.time_s[MAL_TIME_CHECKPOINT] > 0 && aimed.goodput > plain.goodput);
  assert_true(fabs(aimed.tokens_per_s * aimed.goodput / (plain.tokens_per_s * plain.goodput) - 1) < 1e-9);
  double share = often.time_s[MAL_TIME_CHECKPOINT] / often.step_s;
  assert_true(share > 6.3 / 607 && share < 9.0 / 609); /* every ten minutes it stops for some 7 s */
  assert_true(often.goodput > 0.99);
}

static void test_precision_and_adapters(void **state) {
  (void)state;
  mal_estimate bf16 = quick("llama-2-70b", "4xdgx-h100", "megatron", "tp=8,pp=4,micro-batch=1", "global-batch=64");
  mal_estimate fp8 =
      quick("llama-2-70b", "4xdgx-h100", "megatron", "tp=8,pp=4,micro-batch=1", "global-batch=64,precision=fp8");
  assert_true(fp8.step_s < 0.9 * bf16.step_s && fp8.step_s > 0.5 * bf16.step_s);
  mal_estimate whole = quick("llama-2-7b", "8xa100-80-sxm", "fsdp2", "micro-batch=1", "global-batch=64,train=finetune");
  mal_estimate lora = quick("llama-2-7b", "8xa100-80-sxm", "fsdp2", "micro-batch=1", "global-batch=64,train=lora");
  assert_true(lora.step_s < whole.step_s && lora.total_bytes < whole.total_bytes);
}

/* Frozen weights have no gradient: a third of the products' work goes, and adapters on every layer take less than that, however
 * wide the tensor parallelism. */
static void test_adapters_save_time(void **state) {
  (void)state;
  static const char *const layouts[] = {
      "tp=1,pp=8,overlap-tp=off,micro-batch=1,recompute=full", "tp=2,pp=4,overlap-tp=off,micro-batch=1,recompute=full",
      "tp=4,pp=2,overlap-tp=off,micro-batch=1,recompute=full", "tp=8,pp=2,overlap-tp=off,micro-batch=1,recompute=full",
      "tp=8,pp=1,overlap-tp=off,micro-batch=2,recompute=full", "tp=8,pp=2,overlap-tp=off,micro-batch=1,recompute=none"};
  static const char *const profiles[] = {"megatron", "megatron-te"};
  for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
    for (size_t p = 0; p < sizeof profiles / sizeof *profiles; p++) {
      mal_estimate whole =
          quick("llama-3-70b", "8x8xh100-sxm", profiles[p], layouts[l], "global-batch=128,train=finetune");
      mal_estimate lora = quick("llama-3-70b", "8x8xh100-sxm", profiles[p], layouts[l], "global-batch=128,train=lora");
      if (lora.step_s >= whole.step_s)
        fail_msg("%s %s: lora %.2f s, whole %.2f s", profiles[p], layouts[l], lora.step_s, whole.step_s);
      double products = lora.time_s[MAL_TIME_MATMUL] / whole.time_s[MAL_TIME_MATMUL];
      assert_true(products > 2.0 / 3 && products < 0.92);
    }
}

/* 70B with AdamW needs about 1.1 TB of states: not on one node. */
static void test_remedies(void **state) {
  (void)state;
  priced p;
  mal_error e;
  price(&p, "llama-2-70b", "8xh100-sxm", "fsdp2", "zero=3,micro-batch=1", "global-batch=64");
  assert_true(!p.e.fits && p.e.fit_probability < 0.01);
  assert_non_null(strstr(p.e.why, "GiB"));
  mal_remedy *r;
  int count;
  assert_ok(mal_price_remedies(&p.a, p.plan, &r, &count, &e), e);
  assert_true(count >= 3);
  bool lora = false, nodes = false;
  for (int i = 0; i < count; i++) {
    print_message("%-60s %7.2f s %5.1f GiB\n", r[i].change, r[i].estimate.step_s,
                  (double)r[i].estimate.total_bytes / 0x1p30);
    assert_true(r[i].estimate.fits && r[i].estimate.fit_probability >= mal_fit_confidence);
    lora |= strstr(r[i].change, "lora") != NULL;
    nodes |= strstr(r[i].change, "--on") != NULL;
  }
  assert_true(lora && nodes);
  mal_arena_free(&p.a);
  price(&p, "llama-2-70b", "8xh100-sxm", "megatron", "tp=4,pp=2,overlap-tp=off,micro-batch=1", "global-batch=64");
  assert_int_equal(p.e.worst_stage, 0);
  assert_non_null(strstr(p.e.why, "stage 1 of 2 needs")); /* people count from one */
  mal_arena_free(&p.a);
}

static int words_in(const char *text) {
  int n = 0;
  for (; *text; text++) n += *text == ' ';
  return n;
}

/* Every shortcut that people name, of which each is as small as can be; what the plan has already is not said again. */
static void test_shortcuts(void **state) {
  (void)state;
  static const char *const layouts[] = {"tp=8,micro-batch=1,recompute=selective", "zero=3,micro-batch=1,recompute=full",
                                        "zero=3,micro-batch=4"};
  static const char *const wanted[] = {"--optimizer adamw-8bit", "--optimizer adamw-bf16", "--offload-optimizer cpu",
                                       "--train lora",           "--train qlora",          "--on "};
  enum { WANTED = sizeof wanted / sizeof *wanted };
  for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
    for (int batch = 0; batch < 2; batch++) {
      priced p;
      mal_error e;
      mal_remedy *r;
      int count, found[WANTED] = {0};
      price(&p, "llama-3-70b", "8xh100-sxm", "", layouts[l], batch ? "global-batch=512" : "tokens=15T");
      assert_ok(mal_price_remedies(&p.a, p.plan, &r, &count, &e), e);
      for (int i = 0; i < count; i++) {
        for (int w = 0; w < WANTED; w++) found[w] += strstr(r[i].change, wanted[w]) == r[i].change;
        assert_true(r[i].estimate.fits && r[i].estimate.tokens_per_s > 0);
        assert_true(words_in(r[i].change) < 12);
        if (strstr(layouts[l], "recompute=full")) assert_null(strstr(r[i].words, "recomputed"));
        if (strstr(layouts[l], "micro-batch=1")) assert_null(strstr(r[i].words, "micro-batch"));
        if (strstr(layouts[l], "zero=3")) assert_null(strstr(r[i].change, "zero 3"));
        if (batch) assert_int_equal(r[i].plan.job.global_batch, 512);
        if (!batch && r[i].plan.machine.nodes > 1) /* what was not asked follows the machine */
          assert_true(r[i].plan.job.global_batch >= p.plan->job.global_batch);
        for (int k = 0; k < i; k++) assert_string_not_equal(r[i].change, r[k].change);
      }
      for (int w = 0; w < WANTED; w++)
        if (!found[w]) fail_msg("%s: nothing begins with %s", layouts[l], wanted[w]);
      mal_arena_free(&p.a);
    }
}

static void test_speed(void **state) {
  (void)state;
  priced p;
  price(&p, GPT_175B, "8xdgx-a100", "megatron", "tp=8,pp=8,vpp=1,micro-batch=1,recompute=selective", "global-batch=64");
  mal_arena a;
  mal_arena_init(&a);
  double best = 1;
  for (int i = 0; i < 200; i++) {
    struct timespec from, to;
    mal_error e;
    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_ok(mal_price(&a, &p.program, &p.e, &e), e);
    clock_gettime(CLOCK_MONOTONIC, &to);
    best = fmin(best, (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
    mal_arena_reset(&a);
  }
  print_message("priced in %.1f us (pp = 8, 64 micro-batches)\n", best * 1e6);
  assert_true(best < 2e-3); /* the aim is 200 us; sanitizers and busy machines */
  mal_arena_free(&a);
  mal_arena_free(&p.a);
}

/* Ranks that are threads take turns on the cores: time = max(critical path, all work / cores). */
static double on_cores(const char *layout, int ranks, int cores) {
  char path[] = "/tmp/malha-cores-XXXXXX.yaml", text[160];
  int file = mkstemps(path, 5);
  assert_true(file >= 0);
  int n = snprintf(text, sizeof text,
                   "name: cores\nnodes: 1\ngpus_per_node: %d\nnode:\n  base: computer\n  cpu_cores: {value: %d, "
                   "source: test}\ngpu:\n"
                   "  base: cpu\n",
                   ranks, cores);
  assert_true(write(file, text, (size_t)n) == n);
  close(file);
  mal_estimate e = quick("layers=8,hidden=256,heads=4,vocab=4096,positions=512", path, "malha", layout,
                         "precision=fp32,seq=128,global-batch=16");
  unlink(path);
  return e.step_s;
}

static void test_ranks_share_cores(void **state) {
  (void)state;
  double apart = on_cores("micro-batch=1", 8, 8), shared = on_cores("micro-batch=1", 8, 2);
  if (fabs(shared / apart - 4) > 0.01) fail_msg("eight equal ranks on two cores: %g times as long", shared / apart);
  assert_true(on_cores("micro-batch=1", 8, 64) == apart);
  /* the bubble of a pipeline is filled by others: twice the ranks on a core is less than twice the time */
  double pipe = on_cores("pp=4,micro-batch=1", 4, 4), half = on_cores("pp=4,micro-batch=1", 4, 2);
  assert_true(half > pipe && half < 1.95 * pipe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_embedding_and_head),
      cmocka_unit_test(test_zero_traffic),
      cmocka_unit_test(test_recompute_costs),
      cmocka_unit_test(test_uneven_stages),
      cmocka_unit_test(test_experts),
      cmocka_unit_test(test_memory_is_whole),
      cmocka_unit_test(test_layer_times),
      cmocka_unit_test(test_iteration_times),
      cmocka_unit_test(test_ranks_share_cores),
      cmocka_unit_test(test_target),
      cmocka_unit_test(test_upkeep),
      cmocka_unit_test(test_precision_and_adapters),
      cmocka_unit_test(test_adapters_save_time),
      cmocka_unit_test(test_remedies),
      cmocka_unit_test(test_shortcuts),
      cmocka_unit_test(test_speed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
