/* The engine against PyTorch: tests/oracle/train.py made the figures. And that a run is a function of what it is given. */
#include "engine.h"

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

static void against_pytorch(const char *config, const char *model) {
  result oracle, r;
  read_oracle(model, &oracle);
  train(program_of(config, 1, "micro-batch=8", BATCH), STEPS, &r);
  for (int i = 0; i < STEPS; i++) {
    close_to(r.loss[i], oracle.loss[i], 1e-5, "loss", i);
    close_to(r.norm[i], oracle.norm[i], 1e-5, "gradient norm", i);
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

/* Whatever is kept and whatever is repeated, the values are the same: to the bit. */
static void kept_or_repeated(void **state) {
  (void)state;
  static const char *const layouts[] = {"pp=2,dp=2,micro-batch=1", "pp=2,micro-batch=2,schedule=zb-h1"};
  for (int i = 0; i < 2; i++) {
    result a, b;
    int64_t ranks = i ? 2 : 4;
    const char *config = i ? gpt2_config : llama_config, *layout = layouts[i];
    train(program_of(config, ranks, layout, BATCH), STEPS, &a);
    for (int keep = MAL_SELECTIVE_QKV; keep < MAL_SELECTIVES; keep++) {
      mal_error e;
      char text[128];
      snprintf(text, sizeof text, "%s,recompute=selective", layout);
      mal_program *p = program_of(config, ranks, text, BATCH);
      p->plan->profile->selective = keep;
      p->plan->profile->drops_unused = true;
      assert_ok(mal_lower(&arena, p->plan, p, &e), e);
      train(p, STEPS, &b);
      assert_memory_equal(a.loss, b.loss, sizeof a.loss);
      assert_memory_equal(a.norm, b.norm, sizeof a.norm);
    }
  }
}

/* The same run twice: the same bits. */
static void twice(void **state) {
  (void)state;
  result a, b;
  static const char *const list[] = {"tp=2,pp=2,dp=2,micro-batch=1",
                                     "pp=2,dp=2,micro-batch=1,schedule=zb-h1,recompute=full"};
  for (int i = 0; i < 2; i++) {
    train(program_of(llama_config, i ? 4 : 8, list[i], BATCH), STEPS, &a);
    train(program_of(llama_config, i ? 4 : 8, list[i], BATCH), STEPS, &b);
    assert_memory_equal(a.loss, b.loss, sizeof a.loss);
    assert_memory_equal(a.norm, b.norm, sizeof a.norm);
  }
}

/* Evaluation sees what training sees: before any step's update both are the loss of the same weights. */
typedef struct evaluation {
  double loss;
} evaluation;

static void note_evaluation(void *context, int64_t step, double loss) {
  (void)step;
  ((evaluation *)context)->loss = loss;
}

static void evaluated(void **state) {
  (void)state;
  static const char *const list[] = {"micro-batch=2", "tp=2,pp=2,micro-batch=1",
                                     "pp=2,micro-batch=1,schedule=interleaved,vpp=2",
                                     "pp=2,micro-batch=1,schedule=zb-h1"};
  static const int64_t ranks[] = {1, 4, 2, 2};
  for (int i = 0; i < 4; i++) {
    mal_error e;
    result r;
    evaluation seen = {0};
    mal_program *program = program_of(gpt2_config, ranks[i], list[i], BATCH);
    mal_tokens_source source = {formula_tokens, (void *)program->plan};
    train(program, 1, &r);
    mal_train_request q = request_of(program, &source, 1);
    q.rate.lr = q.rate.least = 0;
    q.evaluation = &source, q.evaluation_batches = 1;
    q.hooks = (mal_train_hooks){.context = &seen, .evaluated = note_evaluation};
    assert_ok(mal_train_run(&arena, &q, &r.summary, &e), e);
    close_to(seen.loss, r.loss[0], 1e-6, "evaluation", 0);
    close_to(r.summary.evaluation_loss, seen.loss, 0, "summary", 0);
  }
}

/* Each refusal names what it is about. */
static void refused(void **state) {
  (void)state;
  mal_error e;
  static const char moe[] = "layers=2,hidden=64,heads=4,vocab=256,gated=1,experts=4";
  static const struct {
    const char *config, *layout, *word;
    int64_t ranks;
  } list[] = {
      {moe, "micro-batch=1", "experts", 1},
      {llama_config, "zero=3,micro-batch=1", "ZeRO stage 3", 2},
      {gpt2_config, "zero=2,micro-batch=1", "tied", 2},
      {llama_config, "tp=2,zero=2,micro-batch=1", "sequence parallelism", 4},
      {llama_config, "pp=2,zero=2,schedule=zb-h1,micro-batch=1", "zb-h1", 4},
      {llama_config, "cp=2,micro-batch=1", "context", 2},
      {llama_config, "tp=4,micro-batch=1", "key/value", 4},
      {llama_config, "pp=2,schedule=dualpipe,micro-batch=1", "dualpipe", 2},
      {llama_config, "attention=unfused,micro-batch=1", "unfused", 1},
      {llama_config, "offload-optimizer=cpu,micro-batch=1", "offload", 1},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    e = (mal_error){0};
    assert_null(try_program(list[i].config, list[i].ranks, list[i].layout, BATCH, &e));
    assert_int_equal(e.status, MAL_BAD);
    if (!strstr(e.text, list[i].word)) fail_msg("'%s' is not in: %s", list[i].word, e.text);
  }
}

static void diverging(void **state) {
  (void)state;
  mal_error e;
  mal_program *program = program_of(gpt2_config, 2, "dp=2,micro-batch=1", BATCH);
  mal_tokens_source source = {formula_tokens, (void *)program->plan};
  mal_train_request q = request_of(program, &source, STEPS);
  mal_train_summary s;
  q.rate = (mal_rate){.lr = 1e20, .schedule = MAL_RATE_CONSTANT, .steps = STEPS};
  assert_fails(MAL_NO, mal_train_run(&arena, &q, &s, &e), e, "step", "not a number");
}

static mal_status missing_tokens(void *context, int64_t index, int64_t *ids, mal_error *e) {
  if (index == 11) return mal_fail(e, MAL_FAULT, "sequence 11 cannot be read");
  return formula_tokens(context, index, ids, e);
}

static void data_fails(void **state) {
  (void)state;
  mal_error e;
  mal_program *program = program_of(gpt2_config, 4, "pp=2,dp=2,micro-batch=1", BATCH);
  mal_tokens_source source = {missing_tokens, (void *)program->plan};
  mal_train_request q = request_of(program, &source, STEPS);
  mal_train_summary s;
  assert_fails(MAL_FAULT, mal_train_run(&arena, &q, &s, &e), e, "sequence 11");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(gpt2, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(llama, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(kept_or_repeated, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(twice, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(evaluated, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(refused, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(diverging, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(data_fails, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
