/* Published runs: cells, blanks, conventions, statistics. */
#include "check/statistics.h"
#include "check/validate.h"
#include "test.h"
#include <math.h>
#include <string.h>

static const char header[] =
    "id,framework,model_name,params_b,layers,hidden,ffn_hidden,heads,kv_heads,vocab,gated_mlp,moe_experts,moe_topk,gpu,"
    "n_gpus,gpus_per_node,internode,tp,pp,vpp,cp,dp,recompute,micro_batch,global_batch_sequences,seq_len,precision,"
    "flash_attn,zero_stage_or_fsdp,seq_par,step_time_s,tokens_per_s_total,tflops_per_gpu_reported,mfu_reported,"
    "flops_convention,family,not_ours\n";

typedef struct table {
  mal_arena arena;
  mal_trials trials;
  mal_rows rows;
} table;

static void make(table *t, const char *lines) {
  mal_error e = {0};
  mal_arena_init(&t->arena);
  char *text = mal_print(&t->arena, "%s%s", header, lines);
  if (mal_trials_parse(&t->arena, "t.csv", text, strlen(text), &t->trials, &e) != MAL_OK) fail_msg("%s", e.text);
  if (mal_rows_make(&t->arena, &t->trials, &t->rows, &e) != MAL_OK) fail_msg("%s", e.text);
}

static void cells_and_blanks(void **state) {
  (void)state;
  table t;
  make(&t, "a,Megatron-LM,GPT,22,48,6144,24576,64,64,51200,0,,,A100-80,8,8,,8,1,1,1,1,full,4,4,2048,fp16,0,0,0,1.42,,,,"
           ",K,z\n"
           "b,Megatron-LM,GPT,,many,6144,,,,,,,,A100-80,8,,,,,,,,,,4,2048,,,,,1,,,,,K,z\n"
           "c,Megatron-LM,GPT,,48,6144,,,,,,,,,8,,,,,,,,,,4,2048,,,,,1,,,,,K,z\n"
           "d,Megatron-LM,GPT,22,48,6144,24576,64,64,,0,,,A100-80,64,8,4x100Gb RoCE per "
           "node,8,8,,1,1,,,64,2048,,,,,,,,,,K,z\n");
  assert_int_equal(t.rows.count, 4);
  assert_null(t.rows.rows[0].skipped);
  assert_non_null(strstr(t.rows.rows[1].skipped, "layers"));
  assert_non_null(strstr(t.rows.rows[2].skipped, "GPU"));
  const mal_row *d = &t.rows.rows[3];
  assert_null(d->skipped);
  const mal_plan *p = d->plan;
  assert_int_equal(p->layout.recompute, MAL_RECOMPUTE_FULL); /* this framework's default */
  assert_int_equal(p->layout.micro_batch, 1);
  assert_int_equal(p->model.vocab, 51200);
  assert_non_null(strstr(d->defaults, "recompute=full"));
  assert_non_null(strstr(d->defaults, "vocab=51200"));
  assert_null(strstr(d->defaults, "nics="));
  assert_float_equal(p->machine.node->nics.value * p->machine.node->nic_bytes_per_s.value, 50e9, 1);
  double s;
  const char *from;
  assert_true(mal_measured_step(&t.rows.rows[0], &s, &from));
  assert_float_equal(s, 1.42, 1e-12);
  assert_false(mal_measured_step(d, &s, &from));
  mal_arena_free(&t.arena);
}

static void a_degree_of_zero(void **state) {
  (void)state;
  table t;
  make(&t, "a,Megatron-LM,GPT,22,48,6144,24576,64,64,51200,0,,,A100-80,8,8,,8,1,1,0,1,full,4,4,2048,fp16,0,0,0,1.42,,,,"
           ",K,z\n"
           "b,Megatron-LM,GPT,22,48,6144,24576,64,64,51200,0,,,A100-80,8,8,,,,,0,1,full,4,4,2048,fp16,0,0,0,1.42,,,,"
           ",K,z\n");
  assert_null(t.rows.rows[0].skipped);
  assert_int_equal(t.rows.rows[0].plan->layout.cp, 1);
  assert_int_equal(t.rows.rows[1].plan->layout.tp, 8);
  mal_arena_free(&t.arena);
}

static void network_speeds(void **state) {
  (void)state;
  double x = 0;
  assert_true(mal_internode_speed("8x200Gb/s HDR IB per node (Selene)", 8, &x) && fabs(x - 200e9) < 1);
  assert_true(mal_internode_speed("8x NDR 400 Gb/s IB per node", 8, &x) && fabs(x - 400e9) < 1);
  assert_true(mal_internode_speed("NDR 400 Gb/s per GPU (DGX-H100)", 8, &x) && fabs(x - 400e9) < 1);
  assert_true(mal_internode_speed("1600 Gbps/node RoCE", 8, &x) && fabs(x - 200e9) < 1);
  assert_false(mal_internode_speed("EFA; speed not stated", 8, &x));
  assert_false(mal_internode_speed("", 8, &x));
  assert_false(mal_internode_speed("x", 8, &x));
}

static void patterns(void **state) {
  (void)state;
  assert_true(mal_glob("", "anything"));
  assert_true(mal_glob("*NeMo*", "nvidia nemo v1"));
  assert_true(mal_glob("a*b?d", "aXXbcd"));
  assert_true(mal_glob("a*b*c", "abbbbc"));
  assert_false(mal_glob("a*b", "abc"));
  assert_false(mal_glob("a", "ab"));
}

/* 96 B s L h² (1 + s/6h + V/16Lh), SC'21, counts recomputation; 72 … does not. */
static void conventions(void **state) {
  (void)state;
  table t;
  make(&t, "a,Megatron-LM,GPT,,48,6144,24576,64,64,51200,0,,,A100-80,8,8,,8,1,1,1,1,full,4,4,2048,fp16,0,0,0,,,140,,"
           "HARDWARE FLOPs incl. full recompute,K,z\n"
           "b,Megatron-LM,GPT,,48,6144,24576,64,64,51200,0,,,A100-80,8,8,,8,1,1,1,1,full,4,4,2048,fp16,0,0,0,,,140,,"
           "attention not causal-halved,K,z\n"
           "c,Megatron-LM,GPT,,48,6144,24576,64,64,51200,0,,,A100-80,8,8,,8,1,1,1,1,full,4,4,2048,fp16,0,0,0,,,,50,MFU "
           "vs 312 TF; causal-halved,K,z\n");
  double b = 4, s = 2048, l = 48, h = 6144, v = 51200, got = 0;
  double hardware = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  double model = 72 * b * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
  double halved = 72 * b * s * l * h * h * (1 + s / (12 * h) + v / (12 * l * h));
  assert_true(mal_measured_by_flops(&t.rows.rows[0], &got));
  assert_true(fabs(got / (hardware / (8 * 140e12)) - 1) < 1e-3); /* biases and norms are counted too */
  assert_true(mal_measured_by_flops(&t.rows.rows[1], &got));
  assert_true(fabs(got / (model / (8 * 140e12)) - 1) < 1e-3);
  assert_true(mal_measured_by_flops(&t.rows.rows[2], &got));
  assert_true(fabs(got / (halved / (8 * 156e12)) - 1) < 1e-3);
  mal_arena_free(&t.arena);
}

static void quantiles(void **state) {
  (void)state;
  mal_sample x[] = {{3, 1}, {1, 1}, {2, 1}, {4, 1}};
  assert_float_equal(mal_weighted_quantile(x, 4, 0.5), 2.5, 1e-12);
  assert_float_equal(mal_weighted_quantile(x, 3, 0.5), 2, 1e-12);
  assert_float_equal(mal_weighted_quantile(x, 0, 0.5), 0, 1e-12);
  mal_sample y[] = {{1, 9}, {5, 1}};
  assert_float_equal(mal_weighted_quantile(y, 2, 0.5), 1, 1e-12);
  assert_float_equal(mal_weighted_mean(y, 2), 1.4, 1e-12);
}

/* The whole table: nearly every row is planned, and conventions agree with step times where both are printed. */
static void published_table(void **state) {
  (void)state;
  static table t;
  mal_error e = {0};
  int agree = 0, both = 0;
  const char *path = MALHA_SHARED "/data/runs.csv";
  mal_arena_init(&t.arena);
  if (mal_trials_read(&t.arena, path, &t.trials, &e) != MAL_OK) skip();
  assert_int_equal(mal_rows_make(&t.arena, &t.trials, &t.rows, &e), MAL_OK);
  assert_true(t.rows.skipped <= t.rows.count / 20);
  for (int i = 0; i < t.rows.count; i++) {
    double step, flops;
    const char *from;
    const mal_row *r = &t.rows.rows[i];
    if (r->skipped || !mal_measured_step(r, &step, &from) || !mal_measured_by_flops(r, &flops)) continue;
    both++;
    agree += fabs(flops / step - 1) < 0.05;
  }
  assert_true(both > 500 && agree > both * 9 / 10);
  mal_arena_free(&t.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cells_and_blanks), cmocka_unit_test(a_degree_of_zero), cmocka_unit_test(network_speeds),
      cmocka_unit_test(patterns),         cmocka_unit_test(conventions),      cmocka_unit_test(quantiles),
      cmocka_unit_test(published_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
