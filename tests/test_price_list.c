/* List schedule and composition on hand-made programs: nothing of lowering is needed to say what the answer is. */
#include "price/compose.h"
#include "price/kernel.h"
#include "test.h"
#include <math.h>
#include <time.h>

enum { MOST = 16 };

typedef struct bench {
  mal_arena a;
  mal_plan plan;
  mal_block block;
  mal_instruction code[MAL_LISTS][MOST];
  mal_sizes sizes[MOST * MAL_LISTS];
  int n_sizes;
} bench;

static bench *bench_new(const char *machine, const char *profile) {
  bench *b = test_calloc(1, sizeof *b);
  mal_error e;
  mal_arena_init(&b->a);
  assert_ok(mal_machine_load(&b->a, machine, &b->plan.machine, &e), e);
  assert_ok(mal_profile_load(&b->a, profile, &b->plan.profile, &e), e);
  mal_layout_default(&b->plan.layout);
  mal_job_default(&b->plan.job);
  mal_layout *l = &b->plan.layout;
  l->tp = l->cp = l->dp = l->pp = l->vpp = l->ep = l->etp = 1;
  l->zero = 0;
  l->attention = MAL_ATT_FLASH2;
  l->overlap_tp = l->overlap_dp_grad = l->overlap_dp_param = l->overlap_pp = l->overlap_cp = MAL_ON;
  b->block = (mal_block){.block_class = MAL_B_LAYER, .name = "test", .sizes = b->sizes, .n_events = 8};
  for (int i = 0; i < MAL_LISTS; i++) b->block.list[i] = b->code[i];
  return b;
}

static void bench_free(bench *b) {
  mal_arena_free(&b->a);
  test_free(b);
}

static mal_instruction *add(bench *b, mal_list list, mal_op op, mal_stream stream, mal_time_cause cause, int64_t v0,
                            int64_t v1, int64_t v2) {
  mal_instruction *i = &b->code[list][b->block.count[list]++];
  memset(i, 0xff, sizeof *i); /* no operands, no events */
  i->op = (uint8_t)op, i->stream = (uint8_t)stream, i->cause = (uint8_t)cause, i->dtype = MAL_BF16;
  i->flags = 0, i->axes = 0, i->variant = 0, i->sizes = (uint32_t)b->n_sizes;
  b->sizes[b->n_sizes++] = (mal_sizes){{v0, v1, v2, 1}};
  return i;
}

static mal_instruction *product(bench *b, mal_list list, int64_t m) {
  return add(b, list, MAL_OP_MATMUL, MAL_STREAM_COMPUTE, MAL_TIME_MATMUL, m, 8192, 8192);
}

static mal_instruction *collective(bench *b, mal_list list, mal_stream stream, int64_t bytes) {
  mal_instruction *i = add(b, list, MAL_OP_COLLECTIVE, stream, MAL_TIME_TP, bytes, 0, 0);
  i->axes = 1 << MAL_AXIS_TP, i->variant = MAL_ALL_REDUCE;
  return i;
}

static double alone(const bench *b, const mal_instruction *i) {
  return mal_price_instruction(&b->plan, &b->block, i, NULL);
}

static double sum(const double *x) {
  double s = 0;
  for (int c = 0; c < MAL_TIME_CAUSES; c++) s += x[c];
  return s;
}

static void assert_near(double x, double y, double relative) {
  if (fabs(x - y) > relative * fmax(fabs(x), fabs(y))) fail_msg("%.9g is not %.9g", x, y);
}

/* --- lists ------------------------------------------------------------------------------------------------------------- */

/* product, all-reduce on its stream beside a second product, third product waits for both. */
static void test_overlap(void **state) {
  (void)state;
  for (int large = 0; large < 2; large++) {
    bench *b = bench_new("8xh100-sxm", "malha");
    b->plan.layout.tp = 8;
    mal_instruction *p1 = product(b, MAL_L_F, 4096);
    p1->record = 0;
    mal_instruction *c = collective(b, MAL_L_F, MAL_STREAM_TP, large ? 1 << 30 : 1 << 22);
    c->wait[0] = 0, c->record = 1;
    mal_instruction *p2 = product(b, MAL_L_F, 4096), *p3 = product(b, MAL_L_F, 4096);
    p3->wait[0] = 1;
    mal_list_time t = mal_price_list(&b->plan, &b->block, MAL_L_F);
    double p = alone(b, p1), comm = alone(b, c), left = fmax(0, comm - alone(b, p2));
    assert_true(large ? left > 0 : left == 0);
    assert_near(t.span_s, 3 * p + left, 1e-12);
    assert_near(sum(t.cause_s), t.span_s, 1e-12);
    assert_near(t.cause_s[MAL_TIME_MATMUL], 3 * p, 1e-12);
    assert_true(fabs(t.cause_s[MAL_TIME_TP] - left) < 1e-15);
    assert_near(t.busy_s[MAL_STREAM_TP], comm, 1e-12);
    bench_free(b);
  }
}

/* The same list on one stream: nothing overlaps. What ends after the last product is told by its cause. */
static void test_exposed(void **state) {
  (void)state;
  bench *b = bench_new("8xh100-sxm", "malha");
  b->plan.layout.tp = 8;
  mal_instruction *p = product(b, MAL_L_F, 4096), *c = collective(b, MAL_L_F, MAL_STREAM_COMPUTE, 1 << 26);
  mal_list_time t = mal_price_list(&b->plan, &b->block, MAL_L_F);
  assert_near(t.span_s, alone(b, p) + alone(b, c), 1e-12);
  c->stream = MAL_STREAM_TP, p->record = c->wait[0] = 0;
  mal_list_time tail = mal_price_list(&b->plan, &b->block, MAL_L_F);
  assert_near(tail.span_s, t.span_s, 1e-12);
  assert_near(tail.cause_s[MAL_TIME_TP], alone(b, c), 1e-12);
  assert_near(sum(tail.cause_s), tail.span_s, 1e-12);
  bench_free(b);
}

/* Piece by piece: nearly the longer of the two, never less. */
static void test_chunked(void **state) {
  (void)state;
  bench *b = bench_new("8xh100-sxm", "malha");
  b->plan.layout.tp = 8;
  mal_instruction *c = collective(b, MAL_L_F, MAL_STREAM_TP, 1 << 26), *p = product(b, MAL_L_F, 4096);
  c->record = p->wait[0] = 0;
  mal_list_time apart = mal_price_list(&b->plan, &b->block, MAL_L_F);
  c->flags = MAL_INS_CHUNKED;
  mal_list_time pieces = mal_price_list(&b->plan, &b->block, MAL_L_F);
  double longer = fmax(alone(b, c), alone(b, p)), shorter = fmin(alone(b, c), alone(b, p));
  assert_true(pieces.span_s < apart.span_s && pieces.span_s >= longer + shorter / 8);
  assert_true(pieces.span_s < longer + shorter / 8 + 10 * b->plan.machine.gpu->cal.launch_s.value);
  assert_near(sum(pieces.cause_s), pieces.span_s, 1e-12);
  bench_free(b);
}

/* Host time: hidden, in the way, added. */
static void test_host(void **state) {
  (void)state;
  bench *b = bench_new("8xh100-sxm", "megatron");
  for (int i = 0; i < 8; i++) add(b, MAL_L_F, MAL_OP_ADD, MAL_STREAM_COMPUTE, MAL_TIME_MEMORY, 1024, 0, 0);
  b->plan.profile->launch = MAL_LAUNCH_GRAPH;
  mal_list_time graph = mal_price_list(&b->plan, &b->block, MAL_L_F);
  b->plan.profile->launch = MAL_LAUNCH_EAGER;
  mal_list_time eager = mal_price_list(&b->plan, &b->block, MAL_L_F);
  b->plan.profile->launch = MAL_LAUNCH_BLOCKING;
  mal_list_time blocking = mal_price_list(&b->plan, &b->block, MAL_L_F);
  assert_true(graph.host_s == 0 && eager.host_s > 0);
  assert_true(graph.span_s < eager.span_s && eager.span_s < blocking.span_s);
  assert_true(eager.span_s >= eager.host_s && eager.span_s < eager.host_s + graph.span_s);
  assert_near(blocking.span_s, graph.span_s + blocking.host_s, 1e-12);
  assert_near(eager.cause_s[MAL_TIME_LAUNCH], eager.span_s - graph.span_s, 1e-9);
  bench_free(b);
}

/* --- kernels ------------------------------------------------------------------------------------------------------------ */

static double rate(bench *b, int64_t m, int64_t n, int64_t k, int64_t batch, uint8_t type) {
  b->block.count[MAL_L_F] = 0, b->n_sizes = 0;
  mal_instruction *i = add(b, MAL_L_F, MAL_OP_MATMUL, MAL_STREAM_COMPUTE, MAL_TIME_MATMUL, m, n, k);
  b->sizes[i->sizes].v[3] = batch;
  i->dtype = type;
  return 2.0 * (double)m * (double)n * (double)k * (double)batch / alone(b, i);
}

static void test_products(void **state) {
  (void)state;
  bench *b = bench_new("8xh100-sxm", "malha");
  const mal_gpu *g = b->plan.machine.gpu;
  double big = rate(b, 16384, 16384, 16384, 1, MAL_BF16), peak = g->flops[MAL_BF16].value;
  assert_true(big > 0.85 * g->cal.gemm_bf16.value * peak && big <= g->cal.gemm_bf16.value * peak);
  assert_true(rate(b, 16384, 16384, 16384, 1, MAL_F8) > 1.5 * big);
  assert_true(rate(b, 16384, 16384, 256, 1, MAL_BF16) < 0.8 * big); /* short k */
  assert_true(rate(b, 64, 64, 16384, 1, MAL_BF16) < 0.1 * big);     /* one tile */
  assert_true(rate(b, 8192, 50257, 4096, 1, MAL_BF16) <
              0.6 * rate(b, 8192, 50304, 4096, 1, MAL_BF16)); /* odd vocabulary */
  assert_true(rate(b, 2048, 2048, 108, 64, MAL_BF16) <
              0.8 * rate(b, 2048, 2048, 112, 64, MAL_BF16)); /* head size 108 */
  assert_true(rate(b, 2048, 2048, 128, 64, MAL_BF16) > rate(b, 2048, 2048, 112, 64, MAL_BF16));
  /* Time never falls when a side grows. */
  for (int64_t m = 64; m <= 8192; m += 64)
    assert_true((double)m / rate(b, m, 4096, 4096, 1, MAL_BF16) * 1.12 >
                (double)(m - 32) / rate(b, m - 32, 4096, 4096, 1, MAL_BF16));
  bench_free(b);
}

/* Fused softmax needs micro-batch × heads in fours and at most 4,096 keys; where lowering says that more moves, that is priced. */
static void test_softmax_fallback(void **state) {
  (void)state;
  bench *b = bench_new("8xa100-80-sxm", "megatron");
  mal_buffer x = {.bytes = 1 << 28};
  b->block.buffers = &x, b->block.n_buffers = 1;
  mal_instruction *i = add(b, MAL_L_F, MAL_OP_SOFTMAX, MAL_STREAM_COMPUTE, MAL_TIME_ATTENTION, 4 * 2048, 2048, 0);
  i->in[0] = i->out[0] = 0;
  double fused = alone(b, i);
  assert_true(mal_has_softmax_kernel(&b->sizes[i->sizes]));
  assert_false(mal_has_softmax_kernel(&(mal_sizes){{2 * 2048, 2048}}));
  assert_false(mal_has_softmax_kernel(&(mal_sizes){{4 * 8192, 8192}}));
  b->sizes[i->sizes].v[2] = 3 * 2 * x.bytes;
  assert_true(alone(b, i) > 2.5 * fused && alone(b, i) <= 3 * fused);
  bench_free(b);
}

/* --- composition --------------------------------------------------------------------------------------------------------- */

typedef struct pipeline {
  bench *b;
  mal_program p;
  mal_block blocks[2]; /* a layer; nothing */
} pipeline;

/* `layers[part]` equal layers on each virtual stage; F one product, BW two, B and W one each. */
static void pipeline_init(pipeline *x, const char *machine, int pp, int vpp, int schedule, int64_t M,
                          const int64_t *layers) {
  bench *b = x->b = bench_new(machine, "malha");
  mal_layout *l = &b->plan.layout;
  l->pp = pp, l->vpp = vpp, l->schedule = schedule;
  product(b, MAL_L_F, 4096);
  product(b, MAL_L_B, 4096);
  product(b, MAL_L_W, 4096);
  product(b, MAL_L_BW, 4096);
  product(b, MAL_L_BW, 4096);
  x->blocks[0] = b->block;
  x->blocks[1] = (mal_block){.block_class = MAL_B_SYNC, .name = "none"};
  x->p = (mal_program){.plan = &b->plan, .blocks = x->blocks, .n_blocks = 2, .micro_batches = M, .boundary_bytes = 0};
  x->p.split_backward = mal_schedule_splits(l);
  x->p.stages = MAL_ARRAY(&b->a, mal_stage, pp);
  for (int64_t s = 0; s < pp; s++) {
    mal_stage *stage = &x->p.stages[s];
    stage->sync = stage->optimizer = 1;
    stage->n_chunks = (int)mal_schedule_chunks(l);
    stage->chunks = MAL_ARRAY(&b->a, mal_chunk, stage->n_chunks);
    for (int c = 0; c < stage->n_chunks; c++) {
      stage->chunks[c].runs = MAL_NEW(&b->a, mal_run);
      stage->chunks[c].n_runs = 1;
      stage->chunks[c].runs[0] = (mal_run){0, layers ? layers[mal_schedule_part(l, s, c)] : 1};
    }
  }
  b->plan.machine.gpu->cal.link_latency_s.value = b->plan.machine.gpu->cal.net_latency_s.value = 0;
  b->plan.machine.gpu->cal.launch_s.value = 0;
}

static mal_step_time composed(pipeline *x) {
  mal_arena a;
  mal_error e;
  mal_step_time t;
  mal_arena_init(&a);
  assert_ok(mal_compose(&a, &x->p, NULL, &t, &e), e);
  mal_arena_free(&a);
  assert_near(sum(t.time_s), t.step_s, 1e-9);
  return t;
}

/* One layer forward; backward is twice that. */
static double forward(pipeline *x) { return mal_price_list(&x->b->plan, &x->blocks[0], MAL_L_F).span_s; }

/* 1F1B and GPipe: (M + pp - 1)(f + b). Interleaved: M(f + b)v + (pp - 1)(f + b) (Narayanan et al. 2021, section 2.2). */
static void test_closed_forms(void **state) {
  (void)state;
  for (int pp = 1; pp <= 8; pp *= 2)
    for (int64_t M = pp; M <= 64; M *= 2) {
      pipeline x;
      pipeline_init(&x, "8xh100-sxm", pp, 1, MAL_1F1B, M, NULL);
      double f = forward(&x);
      mal_step_time t = composed(&x);
      assert_near(t.step_s, (double)(M + pp - 1) * 3 * f, 1e-9);
      assert_true(fabs(t.time_s[MAL_TIME_BUBBLE] - (pp - 1) * 3 * f) < 1e-9);
      x.b->plan.layout.schedule = MAL_GPIPE;
      assert_near(composed(&x).step_s, (double)(M + pp - 1) * 3 * f, 1e-9);
      bench_free(x.b);
      if (pp == 1) continue;
      pipeline_init(&x, "8xh100-sxm", pp, 4, MAL_INTERLEAVED, M, NULL);
      assert_near(composed(&x).step_s, (double)(4 * M + pp - 1) * 3 * f, 1e-9);
      bench_free(x.b);
    }
}

/* Uneven stages: the heaviest binds, (M - 1) · heaviest + the sum of all; an average is too low. */
static void test_heaviest_binds(void **state) {
  (void)state;
  const int64_t layers[4] = {10, 10, 10, 18};
  pipeline x;
  pipeline_init(&x, "8xh100-sxm", 4, 1, MAL_1F1B, 32, layers);
  double f = forward(&x);
  mal_step_time t = composed(&x);
  assert_int_equal(t.busiest, 3);
  assert_near(t.step_s, (31 * 18 + 48) * 3 * f, 1e-9);
  assert_true(t.step_s > 1.3 * (32 + 3) * 12 * 3 * f);
  bench_free(x.b);
}

/* Zero-bubble fills the drain with W: shorter than 1F1B, never shorter than the work. */
static void test_zero_bubble(void **state) {
  (void)state;
  pipeline x, y, z;
  pipeline_init(&x, "8xh100-sxm", 8, 1, MAL_1F1B, 32, NULL);
  pipeline_init(&y, "8xh100-sxm", 8, 1, MAL_ZB_H1, 32, NULL);
  pipeline_init(&z, "8xh100-sxm", 8, 1, MAL_DUALPIPE, 32, NULL);
  double f = forward(&x), one = composed(&x).step_s, zero = composed(&y).step_s, dual = composed(&z).step_s;
  assert_true(zero < one && zero >= 32 * 3 * f);
  assert_near(zero, (32 * 3 + 7) * f, 0.02); /* bubble (pp - 1)(F + B - W), Qi et al. 2024, table 2 */
  assert_true(dual >= 32 * 3 * f && dual < one);
  bench_free(x.b), bench_free(y.b), bench_free(z.b);
}

/* DualPipe: the all-to-all of one direction runs beside the products of the other; 1F1B shows all of it. */
static void test_dualpipe_exchange(void **state) {
  (void)state;
  double step[2][2], exchange[2];
  for (int dual = 0; dual < 2; dual++)
    for (int with = 0; with < 2; with++) {
      pipeline x;
      pipeline_init(&x, "8xh100-sxm", 8, 1, dual ? MAL_DUALPIPE : MAL_ZB_H1, 64, NULL);
      for (int list = MAL_L_F; with && list <= MAL_L_B; list++) {
        mal_instruction *c = collective(x.b, (mal_list)list, MAL_STREAM_COMPUTE, 1 << 26);
        c->variant = MAL_ALL_TO_ALL, c->cause = MAL_TIME_EP;
      }
      x.blocks[0] = x.b->block;
      x.b->plan.layout.tp = 8;
      mal_step_time t = composed(&x);
      step[dual][with] = t.step_s, exchange[dual] = t.time_s[MAL_TIME_EP];
      bench_free(x.b);
    }
  assert_true(exchange[0] > 0 && exchange[1] < 0.4 * exchange[0]);
  assert_true(step[1][1] - step[1][0] < 0.5 * (step[0][1] - step[0][0]));
}

/* Messages: in the way of both stages without overlap, of the fill only with it; dearer across nodes. */
static void test_messages(void **state) {
  (void)state;
  pipeline x;
  pipeline_init(&x, "8xh100-sxm", 8, 1, MAL_1F1B, 32, NULL);
  double none = composed(&x).step_s;
  x.p.boundary_bytes = 1 << 26;
  mal_step_time beside = composed(&x);
  x.b->plan.layout.overlap_pp = MAL_OFF;
  mal_step_time blocking = composed(&x);
  assert_true(none < beside.step_s && beside.step_s < blocking.step_s);
  assert_true(blocking.time_s[MAL_TIME_PP] > beside.time_s[MAL_TIME_PP] && beside.time_s[MAL_TIME_PP] > 0);
  pipeline y;
  pipeline_init(&y, "8xdgx-h100", 8, 1, MAL_1F1B, 32, NULL);
  y.b->plan.layout.tp = 8;
  y.p.boundary_bytes = 1 << 26;
  y.b->plan.layout.overlap_pp = MAL_OFF;
  mal_step_time across = composed(&y);
  assert_true(across.time_s[MAL_TIME_PP] > 3 * blocking.time_s[MAL_TIME_PP]);
  y.b->plan.machine.nodes = 16; /* two for each stage: they wait for one another */
  assert_true(composed(&y).time_s[MAL_TIME_JITTER] > 0 && across.time_s[MAL_TIME_JITTER] == 0);
  bench_free(x.b), bench_free(y.b);
}

/* Beyond the limit of replay the steady state is continued: the same as (M + pp - 1)(f + b). */
static void test_many_micro_batches(void **state) {
  (void)state;
  pipeline x;
  pipeline_init(&x, "8xh100-sxm", 8, 1, MAL_1F1B, 1 << 20, NULL);
  double f = forward(&x);
  assert_near(composed(&x).step_s, ((1 << 20) + 7) * 3 * f, 1e-6);
  bench_free(x.b);
}

/* The timeline has every pass of every stage, and ends with the step. */
static void test_timeline(void **state) {
  (void)state;
  pipeline x;
  pipeline_init(&x, "8xh100-sxm", 4, 2, MAL_INTERLEAVED, 8, NULL);
  mal_timeline t;
  mal_error e;
  mal_timeline_init(&t, &x.b->a);
  assert_ok(mal_price_timeline(&x.b->a, &x.p, &t, &e), e);
  assert_int_equal(t.count, 4 * 2 * 2 * 8);
  double end = 0;
  for (int64_t i = 0; i < t.count; i++) end = fmax(end, t.events[i].end_s);
  assert_near(end, composed(&x).step_s, 1e-9);
  bench_free(x.b);
}

/* Search and fit call this 10^5 times: pp = 8, 64 micro-batches in less than 200 µs on one core of a server. */
static void test_speed(void **state) {
  (void)state;
  pipeline x;
  pipeline_init(&x, "8xh100-sxm", 8, 1, MAL_1F1B, 64, NULL);
  mal_arena a;
  mal_arena_init(&a);
  double best = 1;
  for (int i = 0; i < 200; i++) {
    struct timespec from, to;
    mal_step_time t;
    mal_error e;
    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_ok(mal_compose(&a, &x.p, NULL, &t, &e), e);
    clock_gettime(CLOCK_MONOTONIC, &to);
    best = fmin(best, (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
    mal_arena_reset(&a);
  }
  print_message("composed in %.1f us\n", best * 1e6);
  assert_true(best < 2e-3); /* ten times the aim: sanitizers and busy machines */
  mal_arena_free(&a);
  bench_free(x.b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_overlap),      cmocka_unit_test(test_exposed),
      cmocka_unit_test(test_chunked),      cmocka_unit_test(test_host),
      cmocka_unit_test(test_products),     cmocka_unit_test(test_softmax_fallback),
      cmocka_unit_test(test_closed_forms), cmocka_unit_test(test_heaviest_binds),
      cmocka_unit_test(test_zero_bubble),  cmocka_unit_test(test_dualpipe_exchange),
      cmocka_unit_test(test_messages),     cmocka_unit_test(test_many_micro_batches),
      cmocka_unit_test(test_timeline),     cmocka_unit_test(test_speed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
