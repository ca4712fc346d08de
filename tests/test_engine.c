/* The engine against PyTorch (tests/oracle/train.py made the figures), layouts against one another, and run against plan. */
#include "engine/train.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static mal_arena arena;

static int open_arena(void **state) {
  (void)state;
  mal_arena_init(&arena);
  return 0;
}

static int close_arena(void **state) {
  (void)state;
  mal_arena_free(&arena);
  return 0;
}

/* The models of the oracle, as config.json has them. */
static const char gpt2_config[] =
    "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":4,\"n_head\":4,\"vocab_size\":501,\"n_positions\":48}";
static const char llama_config[] =
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":501,\"rms_norm_eps\":1e-5,"
    "\"rope_theta\":10000,\"max_position_embeddings\":48}";

enum { STEPS = 20, BATCH = 8, SEQ = 40 };

static mal_status read_tokens(void *context, int64_t index, int64_t *ids, mal_error *e) {
  const mal_plan *plan = context;
  (void)e;
  for (int64_t j = 0; j <= SEQ; j++) ids[j] = (index * 31 + j * j * (index % 7 + 1) + j / 3) % plan->model.vocab;
  return MAL_OK;
}

typedef struct result {
  double loss[STEPS], norm[STEPS];
  mal_train_summary summary;
} result;

static void note(void *context, const mal_train_step *s, bool *leave) {
  (void)leave;
  result *r = context;
  r->loss[s->step - 1] = s->loss;
  r->norm[s->step - 1] = s->grad_norm;
}

static mal_program *program_of(const char *config, const char *machine, const char *layout, int64_t batch) {
  mal_error e;
  mal_job job;
  mal_layout l;
  mal_plan *plan = MAL_NEW(&arena, mal_plan);
  mal_program *program = MAL_NEW(&arena, mal_program);
  char path[] = "/tmp/malha-engine-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  assert_true(write(file, config, strlen(config)) == (ssize_t)strlen(config));
  close(file);
  mal_job_default(&job);
  mal_layout_default(&l);
  job.precision = MAL_P_FP32, job.seq = SEQ, job.global_batch = batch;
  assert_ok(mal_layout_parse(&arena, layout, &l, &e), e);
  assert_ok(mal_plan_make(&arena, path, machine, "malha", &job, &l, plan, &e), e);
  unlink(path);
  assert_ok(mal_lower(&arena, plan, program, &e), e);
  return program;
}

static void train(const mal_program *program, int64_t steps, result *r) {
  mal_error e;
  mal_tokens_source source = {read_tokens, (void *)program->plan};
  mal_train_request q = {.program = program,
                         .device = &mal_cpu,
                         .backend = &mal_comm_shm,
                         .source = &source,
                         .steps = steps,
                         .seed = 1234,
                         .rate = {.lr = 1e-3, .least = 1e-4, .schedule = MAL_RATE_COSINE, .warmup = 4, .steps = STEPS},
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .eps = 1e-8,
                         .weight_decay = 0.1,
                         .clip = 1,
                         .deadline_s = 60,
                         .oversubscribed = true,
                         .hooks = {.context = r, .step = note}};
  assert_ok(mal_train_run(&arena, &q, &r->summary, &e), e);
}

static void read_oracle(const char *model, result *r) {
  char line[256], name[32];
  int step, count = 0;
  double loss, norm;
  FILE *f = fopen(MALHA_TEST_DATA "/engine/oracle.csv", "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f))
    if (sscanf(line, "%31[^,],%d,%lf,%lf", name, &step, &loss, &norm) == 4 && !strcmp(name, model)) {
      r->loss[step - 1] = loss, r->norm[step - 1] = norm;
      count++;
    }
  fclose(f);
  assert_int_equal(count, STEPS);
}

static void near(double got, double wanted, double share, const char *what, int step) {
  if (!(fabs(got - wanted) <= share * fabs(wanted)))
    fail_msg("%s of step %d: %.9g is not within %g of %.9g (off by %.3g)", what, step + 1, got, share, wanted,
             fabs(got / wanted - 1));
}

static void against_pytorch(const char *config, const char *model) {
  result oracle, r;
  read_oracle(model, &oracle);
  train(program_of(config, "1xh100-sxm", "micro-batch=8", BATCH), STEPS, &r);
  for (int i = 0; i < STEPS; i++) {
    near(r.loss[i], oracle.loss[i], 1e-5, "loss", i);
    near(r.norm[i], oracle.norm[i], 1e-5, "gradient norm", i);
  }
}

static void gpt2(void **state) {
  (void)state;
  against_pytorch(gpt2_config, "gpt2");
}

static void llama(void **state) {
  (void)state;
  against_pytorch(llama_config, "llama");
}

/* --- layouts ------------------------------------------------------------------------------------------------------------ */

static void equal_layout(const char *config, const char *layout, const result *one) {
  result r;
  char machine[32];
  mal_arena outer = arena;
  mal_arena_init(&arena);
  mal_layout l;
  mal_error e;
  mal_layout_default(&l);
  assert_ok(mal_layout_parse(&arena, layout, &l, &e), e);
  snprintf(machine, sizeof machine, "%lldxh100-sxm", (long long)(l.tp * l.pp * (l.dp ? l.dp : 1)));
  train(program_of(config, machine, layout, BATCH), STEPS, &r);
  for (int i = 0; i < STEPS; i++) {
    near(r.loss[i], one->loss[i], 2e-5, "loss", i);
    near(r.norm[i], one->norm[i], 2e-4, "gradient norm", i);
  }
  const mal_train_summary *s = &r.summary;
  near(s->flops, s->planned_flops, 1e-12, "FLOPs", STEPS);
  for (int i = 0; i <= MAL_AXES; i++)
    if (fabs(s->sent[i] - s->planned_sent[i]) > 1e-6)
      fail_msg("%s: sent %g bytes over axis %d, planned %g", layout, s->sent[i], i, s->planned_sent[i]);
  assert_int_equal(s->memory_bytes, s->planned_memory_bytes);
  mal_arena_free(&arena);
  arena = outer;
}

static void layouts(void **state) {
  (void)state;
  static const char *const list[] = {
      "dp=2,micro-batch=1",
      "dp=2,micro-batch=2,zero=0",
      "tp=2,micro-batch=2,sequence-parallel=off",
      "tp=2,micro-batch=2",
      "pp=2,micro-batch=2",
      "pp=2,micro-batch=2,schedule=gpipe",
      "pp=2,micro-batch=2,schedule=interleaved,vpp=2",
      "pp=2,micro-batch=2,schedule=zb-h1",
      "pp=4,micro-batch=1,schedule=zb-h1",
      "tp=2,pp=2,dp=2,micro-batch=1",
      "tp=2,pp=2,dp=2,micro-batch=1,recompute=full",
      "tp=2,pp=2,dp=2,micro-batch=1,recompute=full,recompute-layers=1",
      "tp=2,pp=2,dp=2,micro-batch=1,schedule=interleaved,vpp=2,recompute=selective",
      "tp=2,pp=4,micro-batch=1,schedule=zb-h1,recompute=full",
  };
  const char *const configs[] = {gpt2_config, llama_config};
  const char *only = getenv("MALHA_LAYOUT");
  for (int c = 0; c < 2; c++) {
    result one;
    train(program_of(configs[c], "1xh100-sxm", "micro-batch=8", BATCH), STEPS, &one);
    if (only) {
      equal_layout(configs[c], only, &one);
      continue;
    }
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) equal_layout(configs[c], list[i], &one);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(gpt2, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(llama, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(layouts, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
