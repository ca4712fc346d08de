/* For tests of the engine: small models, tokens by formula, runs. */
#ifndef MAL_TEST_ENGINE_H
#define MAL_TEST_ENGINE_H
#include "engine/train.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static mal_arena arena;

static inline int open_arena(void **state) {
  (void)state;
  mal_arena_init(&arena);
  return 0;
}

static inline int close_arena(void **state) {
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

enum { STEPS = 20, BATCH = 8, SEQ = 40, SEED = 1234 };

/* What tests/oracle/train.py trains on. */
static inline mal_status formula_tokens(void *context, int64_t index, int64_t *ids, mal_error *e) {
  const mal_plan *plan = context;
  (void)e;
  for (int64_t j = 0; j <= plan->job.seq; j++)
    ids[j] = (index * 31 + j * j * (index % 7 + 1) + j / 3) % plan->model.vocab;
  return MAL_OK;
}

typedef struct result {
  double loss[STEPS], norm[STEPS];
  mal_train_summary summary;
} result;

static inline void note(void *context, const mal_train_step *s, bool *leave) {
  result *r = context;
  (void)leave;
  r->loss[s->step - 1] = s->loss;
  r->norm[s->step - 1] = s->grad_norm;
}

/* config: a config.json's text, or a bare description. Returns NULL where the plan is refused. */
static inline mal_program *try_program(const char *config, int64_t ranks, const char *layout, int64_t batch,
                                       mal_error *e) {
  mal_job job;
  mal_layout l;
  mal_plan *plan = MAL_NEW(&arena, mal_plan);
  mal_program *program = MAL_NEW(&arena, mal_program);
  char path[] = "/tmp/malha-engine-XXXXXX", machine[32];
  const char *model = config;
  snprintf(machine, sizeof machine, "%lldxhere", (long long)ranks);
  if (*config == '{') {
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_true(write(file, config, strlen(config)) == (ssize_t)strlen(config));
    close(file);
    model = path;
  }
  mal_job_default(&job);
  mal_layout_default(&l);
  job.precision = MAL_P_FP32, job.seq = SEQ, job.global_batch = batch;
  assert_ok(mal_layout_parse(&arena, layout, &l, e), *e);
  mal_status status = mal_plan_make(&arena, model, machine, "malha", &job, &l, plan, e);
  if (*config == '{') unlink(path);
  if (!status) status = mal_engine_check(plan, e);
  if (!status) status = mal_lower(&arena, plan, program, e);
  return status ? NULL : program;
}

static inline mal_program *program_of(const char *config, int64_t ranks, const char *layout, int64_t batch) {
  mal_error e = {0};
  mal_program *program = try_program(config, ranks, layout, batch, &e);
  if (!program) fail_msg("%s: %s", layout, e.text);
  return program;
}

static inline mal_train_request request_of(const mal_program *program, const mal_tokens_source *source, int64_t steps) {
  return (mal_train_request){
      .program = program,
      .device = &mal_cpu,
      .backend = &mal_comm_shm,
      .source = source,
      .steps = steps,
      .seed = SEED,
      .rate = {.lr = 1e-3, .least = 1e-4, .schedule = MAL_RATE_COSINE, .warmup = 4, .steps = STEPS},
      .beta1 = 0.9,
      .beta2 = 0.95,
      .eps = 1e-8,
      .weight_decay = 0.1,
      .clip = 1,
      .deadline_s = 120,
      .oversubscribed = true};
}

static inline void train(const mal_program *program, int64_t steps, result *r) {
  mal_error e;
  mal_tokens_source source = {formula_tokens, (void *)program->plan};
  mal_train_request q = request_of(program, &source, steps);
  q.hooks = (mal_train_hooks){.context = r, .step = note};
  assert_ok(mal_train_run(&arena, &q, &r->summary, &e), e);
}

static inline void close_to(double got, double wanted, double share, const char *what, int step) {
  if (!(fabs(got - wanted) <= share * fabs(wanted)))
    fail_msg("%s of step %d: %.9g is not within %g of %.9g (off by %.3g)", what, step + 1, got, share, wanted,
             fabs(got / wanted - 1));
}

/* Memory to the byte, bytes over each axis, FLOPs. */
static inline void as_planned(const mal_train_summary *s, const char *what) {
  if (s->memory_bytes != s->planned_memory_bytes)
    fail_msg("%s: arenas of %lld bytes, planned %lld", what, (long long)s->memory_bytes,
             (long long)s->planned_memory_bytes);
  if (fabs(s->flops - s->planned_flops) > 1e-12 * s->planned_flops)
    fail_msg("%s: %.17g FLOPs, planned %.17g", what, s->flops, s->planned_flops);
  for (int i = 0; i <= MAL_AXES; i++)
    if (fabs(s->sent[i] - s->planned_sent[i]) > 1e-6 + 1e-12 * s->planned_sent[i])
      fail_msg("%s: sent %.17g bytes over axis %d, planned %.17g", what, s->sent[i], i, s->planned_sent[i]);
}
#endif
