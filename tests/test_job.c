#include "core/catalog.h"
#include "job/profile.h"
#include "test.h"

static mal_arena a;
static mal_error e;
static mal_job j;

static int setup(void **state) {
  (void)state;
  mal_arena_init(&a);
  mal_job_default(&j);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  mal_arena_free(&a);
  return 0;
}

static mal_status parse(const char *text) { return mal_job_parse(&a, "job.yaml", text, strlen(text), &j, &e); }

static void test_defaults(void **state) {
  (void)state;
  assert_int_equal(j.train, MAL_PRETRAIN);
  assert_int_equal(j.precision, MAL_P_BF16);
  assert_int_equal(j.lora_rank, 16);
  assert_true(j.pue == 1.3 && j.usd_per_gpu_hour < 0 && j.usd_per_kwh < 0);
}

static void test_file(void **state) {
  (void)state;
  assert_ok(
      parse("train: lora\nprecision: fp8\noptimizer: adamw-8bit\nseq: 4096\nglobal-batch: 1k\ntokens: 15T\n"
            "lora_rank: 32\nlora-targets: attention\ndeadline: 30d\nbudget: USD 20000\nusd_per_kwh: 0.1\npue: 1.1\n"),
      e);
  assert_int_equal(j.train, MAL_LORA);
  assert_int_equal(j.precision, MAL_P_FP8);
  assert_int_equal(j.optimizer, MAL_ADAMW8BIT);
  assert_true(j.seq == 4096 && j.global_batch == 1000 && j.tokens == 15000000000000 && j.lora_rank == 32);
  assert_true(j.deadline_s == 30 * 86400.0 && j.budget_usd == 20000 && j.usd_per_kwh == 0.1 && j.pue == 1.1);
  assert_int_equal(j.lora_targets, MAL_LORA_ATTENTION);
}

static void test_bad_files(void **state) {
  (void)state;
  assert_fails(MAL_BAD, parse(""), e, "job.yaml");
  assert_fails(MAL_BAD, parse("sequence: 4096\n"), e, "job.yaml:1", "sequence");
  assert_fails(MAL_BAD, parse("precision: bf61\n"), e, "job.yaml", "precision", "bf16");
  assert_fails(MAL_BAD, parse("seq: -1\n"), e, "job.yaml", "seq");
  assert_fails(MAL_BAD, parse("deadline: 30 W\n"), e, "job.yaml", "deadline");
  assert_fails(MAL_BAD, parse("pue: 0.5\n"), e, "job.yaml", "pue", "between 1");
  assert_fails(MAL_BAD, parse("lora_targets: some\n"), e, "job.yaml", "lora-targets", "all, attention");
  assert_fails(MAL_BAD, parse("pue: 1.3\nlora_rank: 4000000000\n"), e, "job.yaml:2: ", "lora-rank", "width");
  assert_fails(MAL_BAD, parse("# seq: 3\nglobal_batch: 64 # seq:\n\n\"seq\" : -1\n"), e, "job.yaml:4: seq", "-1");
  assert_fails(MAL_BAD, parse("{tokens: 1T,\n precision: bf17}\n"), e, "job.yaml:2: precision", "bf17");
  assert_fails(MAL_BAD, parse("[1, 2]\n"), e, "job.yaml");
  assert_fails(MAL_BAD, mal_job_read(&a, "/no/such/job.yaml", &j, &e), e, "/no/such/job.yaml");
}

static void test_types(void **state) {
  (void)state;
  assert_int_equal(mal_precision_gemm(MAL_P_MXFP8), MAL_F8);
  assert_int_equal(mal_precision_gemm(MAL_P_NVFP4), MAL_F4);
  assert_int_equal(mal_precision_gemm(MAL_P_TF32), MAL_TF32);
  assert_int_equal(mal_precision_store(MAL_P_FP8), MAL_BF16);
  assert_int_equal(mal_precision_store(MAL_P_FP16), MAL_F16);
  assert_int_equal(mal_precision_store(MAL_P_TF32), MAL_F32);
}

static void test_every_profile(void **state) {
  (void)state;
  char **names;
  size_t count;
  assert_ok(mal_catalog_list(&a, "profiles", ".yaml", &names, &count, &e), e);
  assert_true(count >= 20);
  for (size_t i = 0; i < count; i++) {
    mal_profile *p;
    const char *keys[8];
    mal_fitted *constants[8];
    assert_ok(mal_profile_load(&a, names[i], &p, &e), e);
    assert_true(*p->source && *p->title);
    assert_int_equal(mal_profile_constants(p, keys, constants, 8), 3);
    for (int c = 0; c < 3; c++)
      if (!*constants[c]->source || constants[c]->value < constants[c]->lo || constants[c]->value > constants[c]->hi)
        fail_msg("%s: %s", names[i], keys[c]);
    assert_true(p->grad_bytes == 2 || p->grad_bytes == 4);
    assert_true(p->reduce_bytes == 2 || p->reduce_bytes == 4);
    assert_true(p->logits_bytes > 0 && p->slack < 0.5);
  }
}

static void test_inheritance(void **state) {
  (void)state;
  static const char text[] = "base: megatron\nname: mine\ntitle: mine\nsource: read\ndropout: true\noverlap_pp: false\n"
                             "fitted: {dp_exposed: {value: 0.5, lo: 0, hi: 1, prior: 0.5, source: measured}}\n";
  mal_profile *p, *base;
  assert_ok(mal_profile_load(&a, "megatron", &base, &e), e);
  assert_ok(mal_profile_parse(&a, "mine.yaml", text, sizeof text - 1, &p, &e), e);
  assert_string_equal(p->name, "mine");
  assert_string_equal(p->base, "megatron");
  assert_true(p->dropout && !base->dropout && !p->overlap_pp && base->overlap_pp);
  assert_int_equal(p->bucket_elements, base->bucket_elements);
  assert_int_equal(p->attention, base->attention);
  assert_true(p->dp_exposed.value == 0.5);
  assert_int_equal(strncmp(p->memory_pass.source, "as megatron: ", 13), 0);
}

static void test_bad_profiles(void **state) {
  (void)state;
  static const struct {
    const char *text, *word;
  } bad[] = {
      {"name: x\n", "title is missing"},
      {"base: megatron\nname: x\nattention: flash9\n", "flash2"},
      {"base: megatron\nname: x\ngrad_bytes: 99\n", "grad_bytes"},
      {"base: megatron\nname: x\nslack: 2\n", "slack"},
      {"base: megatron\nname: x\ndroput: true\n", "dropout"},
      {"base: megatrom\nname: x\n", "megatron"},
  };
  mal_profile *p;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_fails(MAL_BAD, mal_profile_parse(&a, "x.yaml", bad[i].text, strlen(bad[i].text), &p, &e), e, "x.yaml",
                 bad[i].word);
  assert_fails(MAL_BAD, mal_profile_load(&a, "no-such-profile", &p, &e), e, "no-such-profile");
}

static void test_state_bytes(void **state) {
  (void)state;
  static const struct {
    const char *profile;
    int weight, gradients; /* bytes a parameter that every rank holds, weight aside */
  } known[] = {{"megatron", 2, 4}, {"nanotron", 2, 6}, {"megatron-deepspeed-bf16", 2, 6}, {"megatron-deepspeed", 2, 2}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    mal_profile *p;
    assert_ok(mal_profile_load(&a, known[i].profile, &p, &e), e);
    assert_int_equal(p->grad_bytes + p->grad_extra_bytes, known[i].gradients);
    assert_int_equal(p->sharded_param_bytes, known[i].weight);
  }
}

static void test_default_profile(void **state) {
  (void)state;
  assert_string_equal(mal_profile_default(1, 1, 1), "fsdp2");
  assert_string_equal(mal_profile_default(2, 1, 1), "megatron");
  assert_string_equal(mal_profile_default(1, 1, 8), "megatron");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_defaults, setup, teardown),
      cmocka_unit_test_setup_teardown(test_file, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bad_files, setup, teardown),
      cmocka_unit_test_setup_teardown(test_types, setup, teardown),
      cmocka_unit_test_setup_teardown(test_every_profile, setup, teardown),
      cmocka_unit_test_setup_teardown(test_inheritance, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bad_profiles, setup, teardown),
      cmocka_unit_test_setup_teardown(test_state_bytes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_default_profile, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
