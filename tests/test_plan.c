/* plan.json: what is written reads back as the same plan; every fault in a file is named with file, line and key. */
#include "core/catalog.h"
#include "core/file.h"
#include "core/json.h"
#include "plan/plan.h"
#include "schema.h"
#include "test.h"
#include <stdlib.h>
#include <unistd.h>

typedef struct room {
  mal_arena arena;
  char *folder;
} room;

static int open_room(void **state) {
  static room r;
  char name[] = "/tmp/malha-plan-XXXXXX";
  mal_arena_init(&r.arena);
  if (!mkdtemp(name)) return -1;
  r.folder = mal_copy(&r.arena, name);
  *state = &r;
  return 0;
}

static int close_room(void **state) {
  room *r = *state;
  char *command = mal_print(&r->arena, "rm -rf '%s'", r->folder);
  int failed = system(command);
  mal_arena_free(&r->arena);
  return failed;
}

static void same_options(const mal_option *table, int count, const void *x, const void *y) {
  for (int i = 0; i < count; i++)
    if (!mal_option_same(&table[i], x, y)) fail_msg("%s is not the same", table[i].name);
}

static void same_plan(const mal_plan *x, const mal_plan *y) {
  assert_string_equal(x->model.name, y->model.name);
  assert_int_equal(x->model.parameters, y->model.parameters);
  assert_int_equal(mal_machine_gpus(&x->machine), mal_machine_gpus(&y->machine));
  assert_string_equal(x->profile->name, y->profile->name);
  assert_string_equal(x->arithmetic, y->arithmetic);
  same_options(mal_job_options, mal_job_option_count, &x->job, &y->job);
  same_options(mal_layout_options, mal_layout_option_count, &x->layout, &y->layout);
}

static void make(room *r, const char *model, const char *machine, const char *profile, const char *layout,
                 const char *job, mal_plan *p) {
  mal_error e;
  mal_job j;
  mal_layout l;
  mal_job_default(&j);
  mal_layout_default(&l);
  assert_ok(mal_layout_parse(&r->arena, layout, &l, &e), e);
  assert_ok(mal_job_parse(&r->arena, "job", job, strlen(job), &j, &e), e);
  assert_ok(mal_plan_make(&r->arena, model, machine, profile, &j, &l, p, &e), e);
}

static void round_trips(void **state) {
  room *r = *state;
  mal_error e;
  static const char *const plans[][5] = {
      {"llama-3-70b", "8x8xh100-sxm", "", "tp=8,pp=4", "{global-batch: 256, tokens: 15T}"},
      {"llama-3-8b", "8xh100-sxm", "", "zero=3,recompute=full,recompute-layers=20",
       "{train: lora, lora-targets: attention}"},
      {"gpt3-175b", "16x8xa100-80-sxm", "megatron-2021", "tp=8,pp=8,vpp=2,recompute=selective,schedule=interleaved",
       "{precision: fp16, gradients: fp32, master: none, tokens: 300B, deadline: 30d, budget: USD 2500000, pue: 1.17, "
       "usd-per-kwh: "
       "0.1234567890123}"},
      {"layers=12,hidden=768,heads=12,ffn=3072,vocab=50257", "8xh100-sxm", "malha", "pp=2,first-stage-layers=5",
       "{seq: 1024}"},
  };
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    mal_plan p, q;
    char *path = mal_print(&r->arena, "%s/plan-%zu.json", r->folder, i), *first, *second;
    make(r, plans[i][0], plans[i][1], plans[i][2], plans[i][3], plans[i][4], &p);
    assert_ok(mal_plan_write(&r->arena, path, &p, &e), e);
    assert_ok(mal_plan_read(&r->arena, path, &q, &e), e);
    same_plan(&p, &q);
    assert_ok(mal_plan_show(&r->arena, path, &p, &first, &e), e);
    assert_ok(mal_plan_show(&r->arena, path, &q, &second, &e), e);
    assert_string_equal(first, second);
    mal_json schema, plan;
    assert_ok(mal_json_read(&r->arena, MALHA_SOURCE "/docs/schema/plan-file.json", &schema, &e), e);
    assert_ok(mal_json_parse(&r->arena, path, first, strlen(first), &plan, &e), e);
    assert_true(schema_accepts(schema.root, schema.root, plan.root, path));
    mal_json_free(&schema);
    mal_json_free(&plan);
  }
}

/* What the plan says of its layout is enough to get it again, and no more. */
static void layout_in_few_words(void **state) {
  room *r = *state;
  static const char *const all[][5] = {
      {"llama-3-70b", "4x8xh100-sxm", "tp=8,pp=4,micro-batch=1,recompute=selective", "{global-batch: 128}",
       "tp=8,pp=4,zero=1,micro-batch=1,recompute=selective"},
      {"llama-3-8b", "8xh100-sxm", "zero=3,micro-batch=1", "{}", "zero=3,micro-batch=1"},
      {"llama-3-8b", "8xh100-sxm", "tp=8,overlap-tp=on,sequence-parallel=off,zero=0", "{}",
       "tp=8,zero=0,sequence-parallel=off,micro-batch=1,overlap-tp=on"},
      {"mixtral-8x7b", "8x8xh100-sxm", "ep=8,tp=2,etp=1,dp=32", "{global-batch: 64}",
       "tp=2,ep=8,etp=1,zero=1,micro-batch=1"},
      {"gpt3-175b", "16x8xa100-80-sxm", "tp=8,pp=8,vpp=2,recompute=full,recompute-layers=3", "{global-batch: 64}",
       "tp=8,pp=8,vpp=2,zero=1,micro-batch=1,recompute=full,recompute-layers=3"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    mal_plan p, q;
    make(r, all[i][0], all[i][1], "", all[i][2], all[i][3], &p);
    const char *text = mal_plan_layout(&r->arena, &p);
    make(r, all[i][0], all[i][1], "", text, all[i][3], &q);
    assert_true(mal_layout_equal(&p.layout, &q.layout));
    assert_string_equal(text, all[i][4]);
  }
}

/* What was derived follows what somebody changes in the file. */
static void follows_a_hand(void **state) {
  room *r = *state;
  mal_error e;
  mal_plan p, q;
  char *path = mal_print(&r->arena, "%s/hand.json", r->folder), *text;
  make(r, "llama-3-8b", "2x8xh100-sxm", "", "tp=2,pp=1", "{global-batch: 64}", &p);
  assert_int_equal(p.layout.dp, 8);
  assert_ok(mal_plan_show(&r->arena, path, &p, &text, &e), e);
  char *tp = strstr(text, "\"tp\": 2");
  assert_non_null(tp);
  tp[strlen("\"tp\": ")] = '4';
  assert_ok(mal_file_write(path, text, strlen(text), &e), e);
  assert_ok(mal_plan_read(&r->arena, path, &q, &e), e);
  assert_int_equal(q.layout.tp, 4);
  assert_int_equal(q.layout.dp, 4);
  assert_int_equal(q.job.global_batch, 64);
}

/* A value that followed from others is not asked for again when the plan is: only what the user gave is. */
static void knows_what_was_asked(void **state) {
  room *r = *state;
  mal_error e;
  mal_plan p, q;
  char *path = mal_print(&r->arena, "%s/asked.json", r->folder);
  make(r, "llama-3-8b", "8xh100-sxm", "", "zero=3,micro-batch=2", "{}", &p);
  assert_int_equal(p.job.global_batch, 16);
  assert_ok(mal_plan_write(&r->arena, path, &p, &e), e);
  assert_ok(mal_plan_read(&r->arena, path, &q, &e), e);
  same_options(mal_job_options, mal_job_option_count, &p.asked_job, &q.asked_job);
  same_options(mal_layout_options, mal_layout_option_count, &p.asked_layout, &q.asked_layout);
  assert_int_equal(q.asked_job.global_batch, 0);
  assert_int_equal(q.asked_layout.micro_batch, 2);
  make(r, "llama-3-8b", "8xh100-sxm", "", "zero=3", "{global-batch: 16}", &p);
  assert_ok(mal_plan_write(&r->arena, path, &p, &e), e);
  assert_ok(mal_plan_read(&r->arena, path, &q, &e), e);
  assert_int_equal(q.asked_job.global_batch, 16);
  assert_int_equal(q.asked_layout.micro_batch, 0);
}

/* The default profile is written by name: it stays when defaults change. */
static void pins_the_profile(void **state) {
  room *r = *state;
  mal_error e;
  mal_plan p, q;
  char *path = mal_print(&r->arena, "%s/pinned.json", r->folder);
  make(r, "llama-3-8b", "8xh100-sxm", "", "tp=8", "{}", &p);
  assert_string_equal(p.profile_spec, "");
  assert_ok(mal_plan_write(&r->arena, path, &p, &e), e);
  assert_ok(mal_plan_read(&r->arena, path, &q, &e), e);
  assert_string_equal(q.profile_spec, p.profile->name);
}

/* A model file is found from wherever the plan is read, and after both are moved. */
static void paths_follow_the_plan(void **state) {
  room *r = *state;
  mal_error e;
  mal_plan p, q;
  char *text;
  size_t length;
  mal_arena *a = &r->arena;
  assert_int_equal(system(mal_print(a, "mkdir -p %s/here/models/m %s/here/plans/deep", r->folder, r->folder)), 0);
  char *source = mal_print(a, "%s/models/llama-3-8b.json", mal_catalog_root());
  char *model = mal_print(a, "%s/here/models/m/config.json", r->folder);
  assert_ok(mal_file_read(a, source, 1 << 20, &text, &length, &e), e);
  assert_ok(mal_file_write(model, text, length, &e), e);
  make(r, mal_print(a, "%s/here/models/m", r->folder), "8xh100-sxm", "", "", "{}", &p);
  char *path = mal_print(a, "%s/here/plans/deep/plan.json", r->folder);
  assert_ok(mal_plan_write(a, path, &p, &e), e);
  assert_ok(mal_file_read(a, path, 1 << 20, &text, &length, &e), e);
  assert_non_null(strstr(text, "\"model\": \"../../models/m\""));
  assert_ok(mal_plan_read(a, path, &q, &e), e);
  assert_int_equal(q.model.parameters, p.model.parameters);
  assert_int_equal(system(mal_print(a, "mv %s/here %s/there", r->folder, r->folder)), 0);
  path = mal_print(a, "%s/there/plans/deep/plan.json", r->folder);
  assert_ok(mal_plan_read(a, path, &q, &e), e);
  char *beside = mal_print(a, "%s/there/models/plan.json", r->folder);
  assert_ok(mal_plan_write(a, beside, &q, &e), e);
  assert_ok(mal_file_read(a, beside, 1 << 20, &text, &length, &e), e);
  assert_non_null(strstr(text, "\"model\": \"./m\""));
  assert_ok(mal_plan_read(a, beside, &q, &e), e);
}

/* Files that happen to have the names of a model, a machine and a profile change nothing; a path still names a file. */
static void names_win_over_files(void **state) {
  room *r = *state;
  mal_error e;
  mal_plan p, q;
  mal_arena *a = &r->arena;
  char here[4096], *text;
  assert_non_null(getcwd(here, sizeof here));
  assert_int_equal(system(mal_print(a, "cp %s/profiles/fsdp2.yaml %s/own.yaml", mal_catalog_root(), r->folder)), 0);
  assert_int_equal(chdir(r->folder), 0);
  assert_int_equal(system("echo no >malha; mkdir gpt2; echo no >8xh100-sxm; mkdir unheard-of; echo {} >llama-3-8b"), 0);
  make(r, "gpt2", "8xh100-sxm", "malha", "tp=2", "{}", &p);
  assert_ok(mal_plan_write(a, "plan.json", &p, &e), e);
  assert_ok(mal_plan_read(a, "plan.json", &q, &e), e);
  same_plan(&p, &q);
  assert_ok(mal_plan_show(a, "plan.json", &p, &text, &e), e);
  assert_non_null(strstr(text, "\"model\": \"gpt2\""));
  assert_non_null(strstr(text, "\"machine\": \"8xh100-sxm\""));
  assert_non_null(strstr(text, "\"profile\": \"malha\""));
  mal_model m;
  assert_fails(MAL_BAD, mal_model_load(a, "unheard-of", &m, &e), e,
               "config.json"); /* a folder, as the catalogue has none */
  assert_fails(MAL_BAD, mal_model_load(a, "./gpt2", &m, &e), e, "config.json");
  make(r, "gpt2", "8xh100-sxm", "own.yaml", "", "{}", &p);
  assert_ok(mal_plan_show(a, "plan.json", &p, &text, &e), e);
  assert_non_null(strstr(text, "\"profile\": \"./own.yaml\""));
  assert_int_equal(chdir(here), 0);
}

#define REFUSED(text, ...)                                                                                             \
  do {                                                                                                                 \
    const char *t = (text);                                                                                            \
    assert_fails(MAL_BAD, mal_plan_parse(&r->arena, "p.json", t, strlen(t), &parts, &e), e, __VA_ARGS__);              \
  } while (0)

static void names_what_is_wrong(void **state) {
  room *r = *state;
  mal_error e;
  mal_plan_parts parts;
  REFUSED("[]", "p.json", "not a plan");
  REFUSED("{\"model\": \"gpt2\"}", "p.json", "malha_plan");
  REFUSED("{\"malha_plan\": 2}", "p.json:1", "version 2");
  REFUSED("{\"malha_plan\": 1,\n \"modle\": \"gpt2\"}", "p.json:2", "modle", "model");
  REFUSED("{\"malha_plan\": 1, \"model\": \"gpt2\"}", "machine");
  REFUSED("{\"malha_plan\": 1, \"model\": 7, \"machine\": \"x\"}", "p.json:1", "model", "text");
  const char *head = "{\"malha_plan\": 1, \"model\": \"gpt2\", \"machine\": \"8xh100-sxm\",\n";
  REFUSED(mal_print(&r->arena, "%s\"job\": [1]}", head), "p.json:2", "job");
  REFUSED(mal_print(&r->arena, "%s\"job\": {\n\"sqe\": 1}}", head), "p.json:3", "sqe", "seq");
  REFUSED(mal_print(&r->arena, "%s\"job\": {\n\"seq\": [1]}}", head), "p.json:3", "seq");
  REFUSED(mal_print(&r->arena, "%s\"job\": {\"precision\": \"fp17\"}}", head), "p.json:2", "fp17", "fp16");
  REFUSED(mal_print(&r->arena, "%s\"layout\": {\"tp\": -1}}", head), "p.json:2", "tp");
  REFUSED(mal_print(&r->arena, "%s\"layout\": {\"tp\": 1.5}}", head), "p.json:2", "tp");
  REFUSED(mal_print(&r->arena, "%s\"layout\": {\"zero\": 4}}", head), "p.json:2", "zero");
  REFUSED(mal_print(&r->arena, "%s\"layout\": {\"micro-batch\": 0}}", head), "p.json:2", "micro-batch", "1 or more");
  REFUSED(mal_print(&r->arena, "%s\"derived\": \"seq\"}", head), "p.json:2", "derived", "list");
  REFUSED(mal_print(&r->arena, "%s\"derived\": [\"sqe\"]}", head), "p.json:2", "sqe");
  REFUSED(mal_print(&r->arena, "%s\"derived\": [7]}", head), "p.json:2", "derived");
  REFUSED(mal_print(&r->arena, "%s\"job\": {\"usd-per-kwh\": -2}}", head), "p.json:2", "usd-per-kwh", "negative");
  REFUSED(mal_print(&r->arena, "%s\"job\": {\"lora-targets\": \"none\"}}", head), "p.json:2", "lora-targets");
  REFUSED(mal_print(&r->arena, "%s\"job\": {\"pue\": 0.5}}", head), "p.json:2", "pue");
  REFUSED(mal_print(&r->arena, "%s\"job\": {\n\"deadline\": 9}}", head), "p.json:3", "--tokens");
}

static void refuses_standard_input_as_model(void **state) {
  room *r = *state;
  mal_error e;
  mal_plan p;
  char *text;
  make(r, "gpt2", "8xh100-sxm", "", "", "{}", &p);
  p.model_spec = "-";
  assert_fails(MAL_BAD, mal_plan_show(&r->arena, "p.json", &p, &text, &e), e, "p.json", "standard input");
}

/* A schema's section knows exactly the options that there are. */
static void lists_every_option(const json_t *section, const mal_option *table, int count) {
  json_t *properties = json_object_get(section, "properties");
  assert_int_equal(json_object_size(properties), count);
  for (int i = 0; i < count; i++) {
    json_t *one = json_object_get(properties, table[i].name);
    if (!one) fail_msg("the schema lacks %s", table[i].name);
    json_t *names = json_object_get(one, "enum");
    for (int c = 0; table[i].kind == MAL_OPT_CHOICE && table[i].choices[c]; c++) {
      json_t *name = json_array_get(names, (size_t)c);
      if (json_is_string(name))
        assert_string_equal(json_string_value(name), table[i].choices[c]);
      else
        assert_int_equal(json_integer_value(name), atoi(table[i].choices[c]));
    }
  }
}

static void schemas_list_every_option(void **state) {
  room *r = *state;
  mal_error e;
  const struct {
    const char *file, *within, *job, *layout;
  } all[] = {{MALHA_SOURCE "/docs/schema/plan-file.json", "properties", "job", "layout"},
             {MALHA_SOURCE "/docs/schema/plan.json", "$defs", "job", "degrees"}};
  for (int i = 0; i < 2; i++) {
    mal_json j;
    assert_ok(mal_json_read(&r->arena, all[i].file, &j, &e), e);
    const json_t *within = json_object_get(j.root, all[i].within);
    lists_every_option(json_object_get(within, all[i].job), mal_job_options, mal_job_option_count);
    lists_every_option(json_object_get(within, all[i].layout), mal_layout_options, mal_layout_option_count);
    mal_json_free(&j);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trips),
      cmocka_unit_test(follows_a_hand),
      cmocka_unit_test(layout_in_few_words),
      cmocka_unit_test(knows_what_was_asked),
      cmocka_unit_test(pins_the_profile),
      cmocka_unit_test(paths_follow_the_plan),
      cmocka_unit_test(names_win_over_files),
      cmocka_unit_test(names_what_is_wrong),
      cmocka_unit_test(refuses_standard_input_as_model),
      cmocka_unit_test(schemas_list_every_option),
  };
  return cmocka_run_group_tests(tests, open_room, close_room);
}
