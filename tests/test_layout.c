#include "layout/layout.h"
#include "test.h"

static mal_arena a;
static mal_error e;
static mal_model model;
static mal_machine machine;
static mal_profile *profile;
static mal_job job;
static mal_layout layout;
static char *arithmetic;

#define GPT3    "layers=96,hidden=12288,heads=96,ffn=49152,vocab=51200,positions=8192"
#define LLAMA   "layers=80,hidden=8192,heads=64,kv_heads=8,ffn=28672,vocab=128256,gated=1,positions=8192"
#define MIXTRAL "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=32000,gated=1,experts=8,top_k=2"

static int setup(void **state) {
  (void)state;
  mal_arena_init(&a);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  mal_arena_free(&a);
  return 0;
}

/* Loads everything; yaml "" leaves the job at its defaults. */
static mal_status plan(const char *spec, const char *description, const char *profile_name, const char *text,
                       const char *yaml) {
  mal_job_default(&job);
  mal_layout_default(&layout);
  mal_status s = mal_machine_load(&a, spec, &machine, &e);
  if (s == MAL_OK) s = mal_model_load(&a, description, &model, &e);
  if (s == MAL_OK) s = mal_profile_load(&a, profile_name, &profile, &e);
  if (s == MAL_OK && *yaml) s = mal_job_parse(&a, "job.yaml", yaml, strlen(yaml), &job, &e);
  if (s == MAL_OK) s = mal_layout_parse(&a, text, &layout, &e);
  return s == MAL_OK ? mal_layout_complete(&a, &model, &machine, profile, &job, &layout, &arithmetic, &e) : s;
}

static void test_parse(void **state) {
  (void)state;
  mal_layout_default(&layout);
  assert_ok(mal_layout_parse(&a,
                             " tp=8, pp = 2,zero=1,micro-batch=4,recompute=selective,sequence_parallel=on,"
                             "embedding-in-layers,,",
                             &layout, &e),
            e);
  assert_true(layout.tp == 8 && layout.pp == 2 && layout.zero == 1 && layout.micro_batch == 4);
  assert_true(layout.recompute == MAL_RECOMPUTE_SELECTIVE && layout.sequence_parallel == MAL_ON);
  assert_true(layout.embedding_in_layers && layout.dp == 0 && layout.attention == -1);
  assert_fails(MAL_BAD, mal_layout_parse(&a, "tq=8", &layout, &e), e, "layout", "tq", "tp");
  assert_fails(MAL_BAD, mal_layout_parse(&a, "tp=", &layout, &e), e, "tp=");
  assert_fails(MAL_BAD, mal_layout_parse(&a, "=8", &layout, &e), e, "=8", "no key");
  assert_fails(MAL_BAD, mal_layout_parse(&a, "tp=-1", &layout, &e), e, "tp");
  assert_fails(MAL_BAD, mal_layout_parse(&a, "zero=4", &layout, &e), e, "zero", "4");
  assert_fails(MAL_BAD, mal_layout_parse(&a, "tp=8,pp=2,tp=4", &layout, &e), e, "tp is given twice");
  assert_fails(MAL_BAD, mal_layout_parse(&a, "micro-batch=1,micro_batch=1", &layout, &e), e,
               "micro-batch is given twice");
  assert_fails(MAL_BAD, mal_layout_parse(&a, "schedule=1f2b", &layout, &e), e, "1f1b");
  assert_fails(MAL_BAD,
               mal_layout_parse(&a,
                                "tp=111111111111111111111111111111111111111111111111111111111111111111111111111111111",
                                &layout, &e),
               e, "too long");
}

static void test_completes(void **state) {
  (void)state;
  assert_ok(plan("16x8xh100-sxm", GPT3, "megatron", "tp=8,pp=4,micro-batch=2", "global-batch: 1024"), e);
  assert_true(layout.dp == 4 && job.accumulation == 128 && job.seq == 8192);
  assert_string_equal(arithmetic, "1024 = 2 × 128 × 4");
  assert_true(layout.zero == 1 && layout.sequence_parallel == MAL_ON && layout.attention == MAL_ATT_FLASH2);
  assert_true(layout.overlap_dp_grad == MAL_ON && layout.overlap_cp == MAL_OFF && layout.etp == 8 && layout.vpp == 1);
  assert_int_equal(mal_layout_world(&layout), 128);
}

static void test_batch_from_any_two(void **state) {
  (void)state;
  static const char llama[] = LLAMA;
  assert_ok(plan("64xh100", llama, "fsdp2", "", "{global-batch: 128, accumulation: 2}"), e);
  assert_int_equal(layout.micro_batch, 1);
  assert_ok(plan("64xh100", llama, "fsdp2", "micro-batch=4", "{accumulation: 2}"), e);
  assert_int_equal(job.global_batch, 512);
  assert_ok(plan("64xh100", llama, "fsdp2", "micro-batch=4", "{global-batch: 512}"), e);
  assert_int_equal(job.accumulation, 2);
  assert_ok(plan("64xh100", llama, "fsdp2", "micro-batch=4", "{global-batch: 512, accumulation: 2}"), e);
  assert_ok(plan("64xh100", llama, "fsdp2", "", ""), e);
  assert_true(layout.micro_batch == 1 && job.accumulation == 1 && job.global_batch == 64);
  assert_ok(plan("64xh100", llama, "megatron", "pp=4", ""), e);
  assert_true(job.accumulation == 16 && job.global_batch == 256);
  assert_fails(MAL_BAD, plan("64xh100", llama, "fsdp2", "micro-batch=3", "{global-batch: 512}"), e, "512", "192",
               "384 and 576");
  assert_fails(MAL_BAD, plan("64xh100", llama, "fsdp2", "", "{global-batch: 10}"), e, "10", "nearest: 64.");
  assert_fails(MAL_BAD, plan("64xh100", llama, "fsdp2", "micro-batch=4", "{global-batch: 512, accumulation: 3}"), e,
               "accumulation 2 is");
  assert_fails(MAL_BAD, plan("64xh100", llama, "fsdp2", "micro-batch=1T", "{accumulation: 1T}"), e, "is above");
  assert_fails(MAL_BAD, plan("64xh100", llama, "fsdp2", "micro-batch=2T", ""), e, "micro-batch", "is above");
}

#define SMALL(more) "layers=8,vocab=51200," more
/* clang-format off */
static const struct {
  const char *spec, *model, *profile, *layout, *job, *words[3];
} refused[] = {
    {"16xh100", GPT3, "megatron", "tp=5", "", {"tp=5", "16 GPUs", "4 and 8"}},
    {"16xh100", GPT3, "megatron", "tp=8,pp=4", "", {"more than the 16 GPUs"}},
    {"16xh100", GPT3, "megatron", "tp=8,dp=4", "", {"dp=4", "dp=2 is"}},
    {"40xh100", GPT3, "megatron", "tp=5", "", {"tp=5", "96", "4 and 6"}},
    {"96xh100", LLAMA, "megatron", "tp=12", "", {"tp=12", "64"}},
    {"96xh100", SMALL("hidden=6144,heads=96,kv_heads=8,ffn=49152"), "megatron", "tp=12", "",
     {"multiple of the 8 key-value", "8 and 16"}},
    {"40xh100", SMALL("hidden=5120,heads=40,ffn=16384"), "megatron", "tp=5", "", {"16384", "width of the MLP", "4 and 8"}},
    {"8xh100", "layers=8,hidden=4096,heads=32,ffn=16384,vocab=50257", "torchtitan", "tp=8", "",
     {"50257", "does not pad", "1 and 29"}},
    {"64xh100", LLAMA, "megatron", "pp=8,vpp=16", "{accumulation: 8}", {"128 chunks", "80 layers"}},
    {"64xh100", LLAMA, "megatron", "pp=8,vpp=5", "{accumulation: 9}", {"pp=8", "9", "8 and 16"}},
    {"64xh100", LLAMA, "megatron", "vpp=2", "", {"vpp=2", "pp=1"}},
    {"64xh100", LLAMA, "megatron", "pp=8,vpp=2,schedule=gpipe", "", {"interleaved", "gpipe"}},
    {"64xh100", LLAMA, "megatron", "pp=4,schedule=dualpipe", "{accumulation: 7}", {"dualpipe", "even"}},
    {"64xh100", LLAMA, "megatron", "pp=4,first-stage-layers=79", "", {"leave 1 of the 80 layers", "3 is the number"}},
    {"64xh100", LLAMA, "megatron", "first-stage-layers=1", "", {"pp above 1"}},
    {"64xh100", LLAMA, "megatron", "pp=4,first-stage-layers=1,embedding-in-layers", "", {"one way"}},
    {"64xh100", LLAMA, "megatron", "ep=2", "", {"no experts"}},
    {"64xh100", MIXTRAL, "megatron", "ep=16", "", {"ep=16", "8, the experts", "8"}},
    {"8xh100", MIXTRAL, "megatron", "ep=8,etp=2", "", {"etp=2", "8 ranks of a stage"}},
    {"64xh100", LLAMA, "megatron", "cp=4", "{seq: 8190}", {"8190", "8", "8184 and 8192"}},
    {"8xh100", SMALL("hidden=4096,heads=32,ffn=16384"), "megatron", "tp=8,sequence-parallel=on", "{seq: 1001}",
     {"sequence parallelism", "1001", "7 and 11"}},
    {"128xh100", LLAMA, "megatron", "cp=16,tp=8,cp-kind=alltoall", "", {"cp=16", "does not divide 8"}},
    {"64xh100", LLAMA, "megatron", "hybrid=8", "", {"hybrid=8", "zero=1"}},
    {"64xh100", LLAMA, "fsdp2", "hybrid=12", "", {"hybrid=12", "64", "8 and 16"}},
    {"64xh100", LLAMA, "megatron", "offload-params=cpu", "", {"offload-params", "zero=3"}},
    {"64xh100", LLAMA, "megatron", "zero=0,offload-optimizer=cpu", "", {"zero=1, 2 or 3"}},
    {"64xh100", LLAMA, "megatron", "offload-optimizer=nvme", "", {"zero=3"}},
    {"64xh100", LLAMA, "megatron", "recompute-layers=2", "", {"recompute=full"}},
    {"8xa100", LLAMA, "megatron", "tp=8", "{precision: fp8}", {"fp8", "A100", "bf16"}},
    {"8xh100", LLAMA, "megatron", "tp=8", "{precision: mxfp8}", {"mxfp8", "fp8 or bf16"}},
    {"8xv100", LLAMA, "megatron", "tp=8", "", {"bf16", "fp16"}},
    {"8xh100", "gpt2", "megatron", "", "{seq: 4096}", {"4096", "1024 learned positions"}},
    {"8xh100", LLAMA, "megatron", "pp=9999", "", {"pp=9999", "between"}},
    {"8xh100", LLAMA, "megatron", "tp=16777216,cp=16777216,pp=4000", "", {"more than the 8 GPUs"}},
    {"8xh100", LLAMA, "megatron", "tp=0", "", {"tp", "'0'", "1 or more"}},
};
/* clang-format on */

static void test_refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    mal_status s = plan(refused[i].spec, refused[i].model, refused[i].profile, refused[i].layout, refused[i].job);
    if (s != MAL_BAD) fail_msg("%s with '%s' was not refused", refused[i].spec, refused[i].layout);
    for (int w = 0; w < 3 && refused[i].words[w]; w++)
      if (!strstr(e.text, refused[i].words[w])) fail_msg("'%s' is not in: %s", refused[i].words[w], e.text);
  }
}

static void test_experts(void **state) {
  (void)state;
  assert_ok(plan("64xh100", MIXTRAL, "megatron", "tp=2,ep=8", ""), e);
  assert_true(layout.etp == 2 && mal_layout_edp(&layout) == 4);
  assert_ok(plan("8xh100", MIXTRAL, "megatron", "tp=2,ep=8", ""), e); /* 2 × 8 does not divide 8: folded */
  assert_true(layout.etp == 1 && mal_layout_edp(&layout) == 1);
  assert_ok(plan("64xh100", LLAMA, "megatron", "tp=4,cp=2", ""), e);
  assert_true(layout.etp == 4 && mal_layout_edp(&layout) == 16);
}

static void test_key_value_heads_replicate(void **state) {
  (void)state;
  assert_ok(plan("64xh100", LLAMA, "megatron", "tp=16", ""), e);
  assert_ok(plan("64xh100", LLAMA, "megatron", "tp=8", ""), e);
}

static void test_default_interleaving(void **state) {
  (void)state;
  assert_ok(plan("64xh100", LLAMA, "nemo", "pp=8", "{accumulation: 16}"), e);
  assert_true(layout.vpp == 10 && layout.schedule == MAL_INTERLEAVED);
  assert_ok(plan("64xh100", LLAMA, "nemo", "pp=8", "{accumulation: 15}"), e);
  assert_true(layout.vpp == 1 && layout.schedule == MAL_1F1B);
  assert_ok(plan("64xh100", GPT3, "nemo", "pp=4", "{accumulation: 8}"), e);
  assert_int_equal(layout.vpp, 12); /* 24 layers a stage, at most 12 chunks */
  assert_ok(plan("64xh100", LLAMA, "megatron", "pp=8", "{accumulation: 16}"), e);
  assert_int_equal(layout.vpp, 1);
}

static void test_groups(void **state) {
  (void)state;
  assert_ok(plan("16x8xh100-sxm", LLAMA, "megatron", "tp=4,cp=2,pp=4", ""), e);
  mal_group g = mal_layout_group(&layout, &machine, 1u << MAL_AXIS_TP);
  assert_true(g.size == 4 && g.ranks_per_node == 4 && g.nodes == 1 && g.stride == 1 && g.ranks_per_nvlink == 4);
  g = mal_layout_group(&layout, &machine, 1u << MAL_AXIS_CP);
  assert_true(g.size == 2 && g.ranks_per_node == 2 && g.nodes == 1 && g.stride == 4);
  g = mal_layout_group(&layout, &machine, 1u << MAL_AXIS_DP);
  assert_true(g.size == 4 && g.ranks_per_node == 1 && g.nodes == 4 && g.stride == 8 && g.nic_share == 1);
  g = mal_layout_group(&layout, &machine, 1u << MAL_AXIS_CP | 1u << MAL_AXIS_DP);
  assert_true(g.size == 8 && g.ranks_per_node == 2 && g.nodes == 4 && g.stride == 4);
  g = mal_layout_group(&layout, &machine, 1u << MAL_AXIS_PP);
  assert_true(g.size == 4 && g.nodes == 4 && g.stride == 32);
  g = mal_layout_group(&layout, &machine,
                       1u << MAL_AXIS_TP | 1u << MAL_AXIS_CP | 1u << MAL_AXIS_DP | 1u << MAL_AXIS_PP);
  assert_true(g.size == 128 && g.ranks_per_node == 8 && g.nodes == 16);
  g = mal_layout_group(&layout, &machine, 0);
  assert_true(g.size == 1 && g.nodes == 1);
}

static void test_nics_of_a_cloud_node(void **state) {
  (void)state;
  assert_ok(plan("2xaws-p4d", LLAMA, "fsdp2", "", ""), e);
  mal_group g = mal_layout_group(&layout, &machine, 1u << MAL_AXIS_DP);
  assert_true(g.size == 16 && g.ranks_per_node == 8 && g.nodes == 2 && g.nic_share == 0.5);
}

static void test_wide_nvlink(void **state) {
  (void)state;
  assert_ok(plan("72xgb200", "layers=36,hidden=4608,heads=36,ffn=18432,vocab=51200", "megatron", "tp=36", ""), e);
  assert_int_equal(mal_machine_domain(&machine), 72);
  mal_group g = mal_layout_group(&layout, &machine, 1u << MAL_AXIS_TP);
  assert_true(g.size == 36 && g.nodes == 1 && g.ranks_per_nvlink == 36);
  assert_ok(plan("256xgb200", LLAMA, "fsdp2", "", ""), e); /* 64 of each rack */
  assert_int_equal(mal_machine_domain(&machine), 64);
  g = mal_layout_group(&layout, &machine, 1u << MAL_AXIS_DP);
  assert_true(g.size == 256 && g.ranks_per_node == 64 && g.nodes == 4);
  assert_ok(plan("8xh100-nvl", LLAMA, "fsdp2", "", ""), e); /* bridges of two */
  g = mal_layout_group(&layout, &machine, 1u << MAL_AXIS_DP);
  assert_true(g.ranks_per_node == 8 && g.ranks_per_nvlink == 2);
  assert_ok(plan("8xl40s", "layers=8,hidden=4096,heads=32,ffn=16384,vocab=51200", "fsdp2", "", ""), e);
  assert_int_equal(mal_layout_group(&layout, &machine, 1u << MAL_AXIS_DP).ranks_per_nvlink, 1);
}

static void test_groups_across_nodes(void **state) {
  (void)state;
  /* tp=3 on nodes of 8: one group of {6, 7, 8} spans two nodes, and the worst group counts */
  assert_ok(plan("3x8xh100", "layers=8,hidden=1536,heads=12,ffn=6144,vocab=51200", "megatron", "tp=3", ""), e);
  mal_group g = mal_layout_group(&layout, &machine, 1u << MAL_AXIS_TP);
  assert_true(g.size == 3 && g.nodes == 2 && g.ranks_per_node == 2);
}

static void test_hybrid_groups(void **state) {
  (void)state;
  assert_ok(plan("64xh100", LLAMA, "fsdp2", "tp=2,hybrid=4", ""), e);
  mal_group g = mal_layout_shard_group(&layout, &machine);
  assert_true(g.size == 4 && g.ranks_per_node == 4 && g.stride == 2);
  g = mal_layout_replica_group(&layout, &machine);
  assert_true(g.size == 8 && g.nodes == 8 && g.stride == 8);
  assert_ok(plan("64xh100", LLAMA, "fsdp2", "tp=2", ""), e);
  assert_int_equal(mal_layout_shard_group(&layout, &machine).size, 32);
  assert_int_equal(mal_layout_replica_group(&layout, &machine).size, 1);
}

/* Group sizes and node counts against every rank walked one by one. */
static void test_groups_by_walking(void **state) {
  (void)state;
  static const char *const layouts[] = {"tp=2,cp=2,pp=4", "tp=8,pp=2", "cp=8,pp=2", "tp=4,ep=4",
                                        "tp=2,cp=2,ep=8,etp=1"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    assert_ok(plan("8x8xh100", MIXTRAL, "megatron", layouts[i], "{accumulation: 8}"), e);
    const int64_t size[] = {layout.tp, layout.cp, layout.dp, layout.pp}, world = mal_layout_world(&layout);
    for (unsigned mask = 1; mask < 16; mask++) {
      int64_t members = 0, first_node = 0, nodes = 0, last = -1;
      for (int64_t rank = 0; rank < world; rank++) {
        int64_t rest = rank;
        bool in = true;
        for (int axis = 0; axis < 4; axis++) {
          if (!(mask >> axis & 1) && rest % size[axis]) in = false;
          rest /= size[axis];
        }
        if (!in) continue;
        members++;
        first_node += rank < machine.gpus_per_node;
        nodes += rank / machine.gpus_per_node != last;
        last = rank / machine.gpus_per_node;
      }
      mal_group g = mal_layout_group(&layout, &machine, mask); /* the first four axes are bits 0 to 3 */
      assert_int_equal(g.size, members);
      assert_int_equal(g.ranks_per_node, first_node);
      assert_int_equal(g.nodes, nodes);
    }
  }
}

static void check_stages(const char *text, int64_t layers, const int64_t *wanted, int n) {
  int64_t first[64], count[64], next = 0;
  mal_layout_default(&layout);
  layout.vpp = 1;
  assert_ok(mal_layout_parse(&a, text, &layout, &e), e);
  mal_layout_stages(&layout, layers, first, count);
  for (int i = 0; i < n; i++) {
    assert_int_equal(count[i], wanted[i]);
    assert_int_equal(first[i], next);
    next += count[i];
  }
  assert_int_equal(next, layers);
}

static void test_stages(void **state) {
  (void)state;
  check_stages("pp=4", 80, (int64_t[]){20, 20, 20, 20}, 4);
  check_stages("pp=4", 10, (int64_t[]){3, 3, 2, 2}, 4);
  check_stages("pp=2,vpp=2", 8, (int64_t[]){2, 2, 2, 2}, 4);
  check_stages("pp=12,embedding-in-layers", 70, (int64_t[]){5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}, 12);
  check_stages("pp=4,first-stage-layers=3,last-stage-layers=1", 12, (int64_t[]){3, 4, 4, 1}, 4);
  check_stages("pp=4,last-stage-layers=1", 12, (int64_t[]){4, 4, 3, 1}, 4);
  check_stages("pp=2,vpp=2,first-stage-layers=2", 8, (int64_t[]){1, 3, 1, 3}, 4);
  check_stages("", 7, (int64_t[]){7}, 1);
}

static uint64_t seed = 1;

static int64_t below(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* Any layout that can be written is read back the same; what is not default is the only thing written. */
static void test_show_round_trip(void **state) {
  (void)state;
  for (int i = 0; i < 2000; i++) {
    mal_layout l, back;
    mal_layout_default(&l);
    for (int o = 0; o < mal_layout_option_count; o++) {
      const mal_option *option = &mal_layout_options[o];
      void *field = (char *)&l + option->offset;
      int choices = 0;
      if (below(3)) continue;
      if (option->kind == MAL_OPT_COUNT) *(int64_t *)field = below(2) ? below(10) : below(INT64_C(1) << 40);
      if (option->kind == MAL_OPT_POSITIVE) *(int64_t *)field = 1 + (below(2) ? below(10) : below(INT64_C(1) << 40));
      if (option->kind == MAL_OPT_FLAG) *(bool *)field = below(2);
      if (option->kind != MAL_OPT_CHOICE) continue;
      while (option->choices[choices]) choices++;
      *(int *)field = (int)below(choices);
    }
    const char *text = mal_layout_show(&a, &l);
    mal_layout_default(&back);
    assert_ok(mal_layout_parse(&a, text, &back, &e), e);
    for (int o = 0; o < mal_layout_option_count; o++)
      if (!mal_option_same(&mal_layout_options[o], &l, &back)) fail_msg("%s: %s", mal_layout_options[o].name, text);
    assert_string_equal(mal_layout_show(&a, &back), text);
  }
  mal_layout_default(&layout);
  assert_string_equal(mal_layout_show(&a, &layout), "");
  layout.tp = 8;
  assert_string_equal(mal_layout_show(&a, &layout), "tp=8");
}

/* What complete filled in, complete accepts and leaves as it is. */
static void test_complete_is_stable(void **state) {
  (void)state;
  assert_ok(plan("8x8xh100", MIXTRAL, "nemo", "tp=2,pp=4,ep=4", "{accumulation: 8}"), e);
  mal_layout once = layout;
  const char *text = mal_layout_show(&a, &once);
  assert_ok(mal_layout_complete(&a, &model, &machine, profile, &job, &layout, &arithmetic, &e), e);
  assert_string_equal(mal_layout_show(&a, &layout), text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_parse, setup, teardown),
      cmocka_unit_test_setup_teardown(test_completes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_batch_from_any_two, setup, teardown),
      cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
      cmocka_unit_test_setup_teardown(test_experts, setup, teardown),
      cmocka_unit_test_setup_teardown(test_key_value_heads_replicate, setup, teardown),
      cmocka_unit_test_setup_teardown(test_default_interleaving, setup, teardown),
      cmocka_unit_test_setup_teardown(test_groups, setup, teardown),
      cmocka_unit_test_setup_teardown(test_nics_of_a_cloud_node, setup, teardown),
      cmocka_unit_test_setup_teardown(test_wide_nvlink, setup, teardown),
      cmocka_unit_test_setup_teardown(test_groups_across_nodes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_hybrid_groups, setup, teardown),
      cmocka_unit_test_setup_teardown(test_groups_by_walking, setup, teardown),
      cmocka_unit_test_setup_teardown(test_stages, setup, teardown),
      cmocka_unit_test_setup_teardown(test_show_round_trip, setup, teardown),
      cmocka_unit_test_setup_teardown(test_complete_is_stable, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
