/* Settings of others: what bash makes of a script and what we make of it; every option that we write is one that Megatron-LM
 * has, with a value that it takes; what is written reads back as the same plan. */
#include "core/file.h"
#include "core/json.h"
#include "launch/export.h"
#include "launch/import.h"
#include "launch/keyed.h"
#include "launch/megatron.h"
#include "launch/script.h"
#include "test.h"
#include <stdlib.h>
#include <unistd.h>

/* --- scripts ------------------------------------------------------------------------------------------------------------ */

static const char *const snippets[] = {
    "torchrun a 'b c' \"d e\" f\\ g h'i'\"j\"k",
    "X=1; Y='two words'; torchrun $X \"$Y\" $Y ${X}0 \"${Y}\" '$X' \\$X \"\\$X\"",
    "A=(--a 1 'x y'); A+=(--b); torchrun \"${A[@]}\" ${A[@]}",
    "A=(\"--fp8-format hybrid\" \"--split '99,1'\"); torchrun ${A[@]} \"${A[@]}\"",
    "N=4; G=8; W=$(($N*$G)); torchrun $W $((N * (G - 2) / 3 % 7)) $((-N + +G))",
    "U=${NOT_SET_HERE:-default} V=${NOT_SET_HERE-other}; torchrun $U $V \"${NOT_SET_HERE:-a b}\" ${NOT_SET_HERE:-a b}",
    "E=; torchrun \"${E:-x}\" \"${E-x}\" \"$E\" $E end",
    "T=fp8; if [[ \"$T\" == \"fp8\" ]]; then A+=(one); else A+=(two); fi; torchrun \"${A[@]}\"",
    "if [ 3 -gt 4 ]; then X=a; elif [ -n \"$X\" ]; then X=b; else X=c; fi; torchrun $X",
    "X=a && Y=b || Y=c; torchrun $X $Y",
    "[ -z \"\" ] && A=yes; [ x = y ] && A=no; torchrun $A",
    "torchrun a \\\n  b \\\n  c # a comment\n# torchrun never\n",
    "cat <<'END' >/dev/null\ntorchrun wrong\nEND\ntorchrun right",
    "torchrun a 2>&1 >/dev/stdout",
    "EMPTY=(); torchrun \"${EMPTY[@]}\" a ${EMPTY[@]} b",
    "X='a'\"'\"'b'; torchrun \"$X\" \"a\\\"b\" 'a\"b'",
    "C=\"torchrun --x 1\"; C=\"$C --y 2\"; $C --z",
    "bash -c \"torchrun inside 'one word'\"",
    "Z=\"a  b\"; torchrun \"$Z\"c$Z",
    "export P=7; Q=$P$P; torchrun ${Q} ${Q}\"${P}\"",
    "torchrun \"\" '' x\"\"",
    "f() { torchrun in a function; }\nf",
    "case x in x) true ;; esac; torchrun after",
    "for i in 1; do true; done; torchrun after",
};

/* What bash calls torchrun with, a word a line between < and >. */
static char *by_bash(mal_arena *a, const char *snippet) {
  char name[] = "/tmp/malha-script-XXXXXX";
  int file = mkstemp(name);
  assert_true(file >= 0);
  FILE *f = fdopen(file, "w");
  fprintf(f, "torchrun() { printf '<%%s>' \"$@\"; }\nexport -f torchrun\n%s\n", snippet);
  fclose(f);
  FILE *p = popen(mal_print(a, "bash --norc %s 2>&1", name), "r");
  assert_non_null(p);
  char text[4096];
  size_t n = fread(text, 1, sizeof text - 1, p);
  text[n] = '\0';
  pclose(p);
  unlink(name);
  return mal_copy(a, text);
}

/* Dollars of the text come doubled. */
static char *by_us(mal_arena *a, const char *snippet) {
  mal_script s;
  mal_error e;
  mal_writing w = {.arena = a};
  assert_ok(mal_script_parse(a, "snippet", snippet, strlen(snippet), NULL, &s, &e), e);
  for (int i = 0; i < s.n_commands; i++) {
    if (strcmp(s.commands[i].word[0], "torchrun") != 0) continue;
    for (int k = 1; k < s.commands[i].count; k++) {
      mal_write(&w, "<");
      for (const char *c = s.commands[i].word[k]; *c; c++) {
        if (c[0] == '$' && c[1] == '$') c++;
        mal_write(&w, "%c", *c);
      }
      mal_write(&w, ">");
    }
  }
  return w.text ? w.text : mal_copy(a, "");
}

static void scripts_mean_what_bash_says(void **state) {
  (void)state;
  if (system("bash --version >/dev/null 2>&1") != 0) skip();
  mal_arena a;
  mal_arena_init(&a);
  for (size_t i = 0; i < sizeof snippets / sizeof *snippets; i++)
    assert_string_equal(by_us(&a, snippets[i]), by_bash(&a, snippets[i]));
  mal_arena_free(&a);
}

/* Any text goes through a script of ours and bash unharmed, and back to us. */
static void words_survive_bash(void **state) {
  (void)state;
  if (system("bash --version >/dev/null 2>&1") != 0) skip();
  static const char *const hostile[] = {
      "$(touch /tmp/malha-pwned)",
      "`id`",
      "a'b",
      "a\"b",
      "a b",
      "-n",
      "$HOME",
      "${HOME}",
      "a\\",
      "*",
      "~",
      "!x",
      "a;b|c&d",
      "#no",
      "\xc3\xa9",
      "a\tb",
      "",
      "'",
      "''$(id)''",
      "=",
      "{a,b}",
      "%s",
      "$$",
  };
  mal_arena a;
  mal_arena_init(&a);
  mal_writing script = {.arena = &a}, wanted = {.arena = &a};
  mal_write(&script, "torchrun");
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
    mal_write(&script, " %s", mal_script_word(&a, mal_script_literal(&a, hostile[i])));
    mal_write(&wanted, "<%s>", hostile[i]);
  }
  assert_string_equal(by_bash(&a, script.text), wanted.text);
  assert_string_equal(by_us(&a, script.text), wanted.text);
  assert_int_not_equal(access("/tmp/malha-pwned", F_OK), 0);
  assert_string_equal(mal_script_word(&a, "x${NAME}'y"), "'x'\"${NAME}\"''\\''y'");
  mal_arena_free(&a);
}

static void bad_scripts(void **state) {
  (void)state;
  mal_arena a;
  mal_script s;
  mal_error e;
  mal_arena_init(&a);
#define REFUSED(text, ...)                                                                                             \
  assert_fails(MAL_BAD, mal_script_parse(&a, "x.sh", text, strlen(text), NULL, &s, &e), e, __VA_ARGS__)
  REFUSED("a\nb 'c", "x.sh:2:", "quote");
  REFUSED("a \"c", "x.sh:1:", "quote");
  REFUSED("A=(1 2", "never closed");
  REFUSED("x $(a", "never closed");
  REFUSED("cat <<END\nx", "here-document");
  REFUSED("if true\nfi", "then");
  mal_writing w = {.arena = &a};
  mal_write(&w, "A=xxxxxxxxxxxxxxxx\n");
  for (int i = 0; i < 64; i++) mal_write(&w, "A=$A$A\n");
  REFUSED(w.text, "grows too large");
  mal_writing deep = {.arena = &a};
  for (int i = 0; i < 1000; i++) mal_write(&deep, "if true; then ");
  REFUSED(deep.text, "nested too deeply");
  mal_writing braces = {.arena = &a};
  mal_write(&braces, "x ");
  for (int i = 0; i < 1000; i++) mal_write(&braces, "${A:-");
  for (int i = 0; i < 1000; i++) mal_write(&braces, "}");
  REFUSED(braces.text, "nested too deeply");
  mal_arena_free(&a);
}

/* --- the options that there are ------------------------------------------------------------------------------------------ */

/* "OPTION flag|one|some [CHOICE...]" of tests/data/options. */
static char *list_line(mal_arena *a, const char *list, const char *key) {
  const char *line = strstr(list, mal_print(a, "\n%s ", key));
  if (!line) return NULL;
  return mal_print(a, "%.*s", (int)strcspn(line + 1, "\n"), line + 1);
}

static void holds(mal_arena *a, const char *list, const char *name, const mal_setting *s) {
  char *line = list_line(a, list, s->key), *kind, *choice;
  if (!line) fail_msg("%s has no %s", name, s->key);
  strsep(&line, " ");
  kind = strsep(&line, " ");
  if (strcmp(kind, "flag") == 0 ? s->n_values != 0 : strcmp(kind, "one") == 0 ? s->n_values != 1 : s->n_values < 1)
    fail_msg("%s: %s is a %s, and has %d values", name, s->key, kind, s->n_values);
  if (!line) return;
  while ((choice = strsep(&line, " ")))
    if (strcmp(choice, s->values[0]) == 0) return;
  fail_msg("%s: %s does not take %s", name, s->key, s->values[0]);
}

/* --- random plans --------------------------------------------------------------------------------------------------------- */

static uint64_t seed = 1;
static uint64_t below(uint64_t n) {
  seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (seed >> 33) % n;
}
static int64_t power(int most) { return INT64_C(1) << below((uint64_t)most + 1); }

static bool random_plan(mal_arena *a, mal_plan *p) {
  static const char *const models[] = {"llama-3-8b",  "llama-3-70b", "gpt3-175b",     "mixtral-8x7b", "qwen2.5-7b",
                                       "deepseek-v3", "gpt2",        "starcoder2-7b", "olmo-2-7b",    "gemma-2-9b"};
  static const char *const machines[] = {"8xh100-sxm", "4x8xh100-sxm", "16x8xa100-80-sxm", "2x8xb200-sxm"};
  static const int optimizers[] = {MAL_ADAMW, MAL_ADAMW, MAL_ADAMW_BF16, MAL_SGD, MAL_SGD_MOMENTUM, MAL_MUON, MAL_LION};
  static const int precisions[] = {MAL_P_BF16, MAL_P_BF16, MAL_P_FP16, MAL_P_FP8, MAL_P_FP32, MAL_P_MXFP8, MAL_P_NVFP4};
  mal_job j;
  mal_layout l;
  mal_error e;
  mal_job_default(&j);
  mal_layout_default(&l);
  l.tp = power(3), l.pp = power(3), l.cp = below(3) ? 1 : power(2), l.ep = below(3) ? 1 : power(3);
  l.vpp = below(3) ? 0 : (int64_t)below(4) + 1;
  l.micro_batch = power(2);
  l.zero = (int)below(4);
  l.cp_kind = (int)below(3);
  l.sequence_parallel = (int)below(3) - 1;
  l.recompute = (int)below(3);
  if (l.recompute == MAL_RECOMPUTE_FULL && below(2)) l.recompute_layers = (int64_t)(1 + below(4)) * (l.vpp ? l.vpp : 1);
  l.attention = below(2) ? -1 : (int)below(3) + (below(2) ? 1 : 0);
  if (l.attention == MAL_ATT_FLASH1) l.attention = MAL_ATT_CUDNN;
  l.overlap_tp = (int)below(3) - 1, l.overlap_dp_grad = (int)below(3) - 1, l.overlap_pp = (int)below(3) - 1;
  l.overlap_dp_param = (int)below(3) - 1;
  l.offload_optimizer = below(6) ? MAL_OFFLOAD_NONE : MAL_OFFLOAD_CPU;
  if (!below(5)) l.embedding_in_layers = true;
  if (!below(6)) l.first_stage_layers = (int64_t)(1 + below(6));
  if (!below(6)) l.last_stage_layers = (int64_t)(1 + below(6));
  if (l.zero == 3 && !below(3)) l.hybrid = power(3);
  j.optimizer = optimizers[below(7)];
  j.precision = precisions[below(7)];
  j.gradients = (int)below(MAL_GRADIENT_TYPES);
  if (j.optimizer == MAL_ADAMW_BF16) j.master = MAL_MASTER_FP32;
  j.global_batch = INT64_C(128) << below(3);
  j.seq = below(2) ? 1024 : 0;
  j.train = below(3) ? MAL_PRETRAIN : MAL_FINETUNE;
  if (below(2)) j.tokens = j.global_batch * 1024 * (int64_t)(1 + below(100000)) * (j.seq ? 1 : 8);
  return mal_plan_make(a, models[below(10)], machines[below(4)], "megatron", &j, &l, p, &e) == MAL_OK &&
         p->layout.hybrid != p->layout.dp * p->layout.cp; /* which is no hybrid */
}

static void same(const mal_option *table, int count, const void *x, const void *y, const char *layout,
                 const char *text) {
  static const char *const aside[] = {"accumulation", "master", "gradients",
                                      NULL}; /* judged by the profile they make */
  for (int i = 0; i < count; i++) {
    bool skipped = false;
    for (int k = 0; aside[k]; k++) skipped = skipped || strcmp(aside[k], table[i].name) == 0;
    if (!skipped && !mal_option_same(&table[i], x, y))
      fail_msg("%s is not the same: %s\n%s", table[i].name, layout, text);
  }
}

static void same_weights(const mal_model *x, const mal_model *y) {
  assert_int_equal(x->parameters, y->parameters);
  assert_int_equal(x->active_parameters, y->active_parameters);
  assert_int_equal(x->layers, y->layers);
  assert_int_equal(x->vocab, y->vocab);
  assert_int_equal(x->kinds[0].kv_heads, y->kinds[0].kv_heads);
  assert_int_equal(x->learned_positions, y->learned_positions);
}

static void export_then_import(mal_arena *a, const mal_plan *p, int *lost) {
  mal_program program;
  mal_estimate estimate;
  mal_imported in;
  mal_plan back;
  mal_error e;
  if (mal_lower(a, p, &program, &e) != MAL_OK) return;
  assert_ok(mal_price(a, &program, &estimate, &e), e);
  mal_export x = {.a = a, .plan = p, .program = &program, .estimate = &estimate};
  assert_ok(mal_export_make(&x, "megatron", &e), e);
  for (int i = 0; i < x.notes.count; i++)
    if (strncmp(x.notes.all[i].text, "the model", 9) != 0) {
      ++*lost;
      return; /* what cannot be written cannot come back */
    }
  const char *files[] = {"run.sh"}, *texts[] = {x.files[0].text};
  size_t lengths[] = {strlen(texts[0])};
  mal_import_ask ask = {.files = files, .n_files = 1, .on = p->machine_spec};
  if (x.notes.count) ask.model = p->model_spec;
  assert_ok(mal_import_texts(a, &ask, texts, lengths, &in, &e), e);
  assert_ok(mal_plan_make(a, in.model, in.machine, in.profile, &in.job, &in.layout, &back, &e), e);
  const char *layout = mal_plan_layout(a, p);
  same(mal_layout_options, mal_layout_option_count, &p->layout, &back.layout, layout, texts[0]);
  same(mal_job_options, mal_job_option_count, &p->job, &back.job, layout, texts[0]);
  assert_int_equal(p->profile->grad_bytes, back.profile->grad_bytes);
  assert_int_equal(p->profile->reduce_bytes, back.profile->reduce_bytes);
  assert_int_equal(p->profile->master_fp32, back.profile->master_fp32);
  same_weights(&p->model, &back.model);
}

static void there_and_back(void **state) {
  (void)state;
  int plans = 0, lost = 0;
  mal_arena a;
  mal_arena_init(&a);
  for (int i = 0; i < 20000 && plans < 150; i++) {
    mal_plan p;
    mal_arena_reset(&a);
    if (!random_plan(&a, &p)) continue;
    plans++;
    export_then_import(&a, &p, &lost);
  }
  assert_int_equal(plans, 150);
  assert_in_range(lost, 0, 75);
  mal_arena_free(&a);
}

static void only_options_that_there_are(void **state) {
  (void)state;
  static const char *const versions[] = {"core_v0.15.3", "core_v0.19.0"};
  mal_arena a, lists;
  mal_error e;
  char *list[2];
  size_t length;
  int plans = 0;
  mal_arena_init(&a);
  mal_arena_init(&lists);
  for (int v = 0; v < 2; v++)
    assert_ok(mal_file_read(&lists, mal_print(&lists, MALHA_TEST_DATA "/options/megatron-%s.txt", versions[v]), 1 << 20,
                            &list[v], &length, &e),
              e);
  for (int i = 0; i < 20000 && plans < 300; i++) {
    mal_plan p;
    mal_arena_reset(&a);
    if (!random_plan(&a, &p)) continue;
    plans++;
    mal_settings s = {.arena = &a};
    mal_bridge b = {.a = &a, .plan = &p, .settings = &s};
    mal_megatron_model(&b, &p.model);
    mal_megatron_write(&b);
    for (int k = 0; k < s.count; k++)
      for (int v = 0; v < 2; v++) {
        bool newer = p.job.optimizer == MAL_LION || p.job.optimizer == MAL_MUON;
        if (v == 0 && newer && strcmp(s.all[k].key, "--optimizer") == 0) continue;
        holds(&a, list[v], versions[v], &s.all[k]);
      }
  }
  assert_int_equal(plans, 300);
  mal_arena_free(&a);
  mal_arena_free(&lists);
}

/* --- files of keys -------------------------------------------------------------------------------------------------------- */

static const char *const documents[][2] = {
    {"a.json",
     "{\"a\": 1, \"b\": {\"c\": [1, \"x\", true], \"d.e\": null, \"f\": \"\\u00e9\\\\\"}, \"g\": {}, \"h\": -2.5e3}"},
    {"a.yaml", "# c\na: 1\nb:\n  c: [1, x, true]\n  d.e: null\n  f: 'it''s'\n  g: \"q\\\"\"\nh: -2.5\ni: yes\nj: "
               "'no'\nk:\nl: |\n  two\n  lines\n"
               "m:\n- 1\n- - 2\n  - 3\n"},
    {"b.yaml",
     "compute_environment: LOCAL_MACHINE\nfsdp_config:\n  fsdp_version: 2\n  x: {y: 1, z: off}\ntpu_env: []\nn: ~\n"},
    {"a.toml", "# c\na = 1\nb.c = [1, 2, # two\n  3]\n\"d.e\" = 'lit\\eral'\nf = \"q\\\"\\n\"\n[t]\nx = 1_000\ny = "
               "-2.5e3\n[t.u]\nz = true\n"
               "w = { p = 1, q.r = \"s\" }\n[v.\"k.l\"]\nm = []\n"},
};

static void readers_agree_with_python(void **state) {
  (void)state;
  if (system("python3 -c 'import yaml, tomllib' 2>/dev/null") != 0) skip();
  mal_arena a;
  mal_arena_init(&a);
  char folder[] = "/tmp/malha-launch-XXXXXX";
  assert_non_null(mkdtemp(folder));
  for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
    mal_error e;
    mal_syntax syntax;
    mal_settings s = {.arena = &a};
    mal_writing ours = {.arena = &a};
    const char *path = mal_print(&a, "%s/%s", folder, documents[i][0]), *text = documents[i][1];
    assert_true(mal_config_syntax(path, &syntax));
    assert_ok(mal_file_write(path, text, strlen(text), &e), e);
    assert_ok(mal_config_read(&a, path, text, strlen(text), syntax, &s, &e), e);
    for (int k = 0; k < s.count; k++) mal_write(&ours, "%s\t%s\n", s.all[k].key, mal_config_json(&a, &s.all[k]));
    FILE *p = popen(mal_print(&a, "python3 %s/tests/flatten.py %s", MALHA_SOURCE, path), "r");
    assert_non_null(p);
    char theirs[4096];
    size_t n = fread(theirs, 1, sizeof theirs - 1, p);
    theirs[n] = '\0';
    pclose(p);
    unlink(path);
    assert_string_equal(ours.text, theirs);
  }
  rmdir(folder);
  mal_arena_free(&a);
}

static void bad_files(void **state) {
  (void)state;
  static const struct {
    const char *file, *text, *where;
  } bad[] = {
      {"x.yaml", "a: 1\nb: &x [1]\nc: *x\n", "x.yaml:3"},
      {"x.yaml", "a: [1, 2\nb: 3\n", "x.yaml:"},
      {"x.yaml", "a: 1\na: 2\n", "x.yaml:2"},
      {"x.yaml", "- 1\n- 2\n", "mapping"},
      {"x.toml", "a = 1\nb = \n", "x.toml:2"},
      {"x.toml", "a = 'open\n", "x.toml:1"},
      {"x.toml", "[[a]]\nb = 1\n", "lists of tables"},
      {"x.toml", "a = 1 2\n", "x.toml:1"},
      {"x.toml", "a = 1\na = 2\n", "x.toml:2"},
      {"x.json", "{\"a\": 1,\n \"a\": 2}", "x.json"},
      {"x.json", "[1]", "object"},
  };
  mal_arena a;
  mal_arena_init(&a);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mal_settings s = {.arena = &a};
    mal_syntax syntax;
    mal_error e;
    assert_true(mal_config_syntax(bad[i].file, &syntax));
    if (mal_config_read(&a, bad[i].file, bad[i].text, strlen(bad[i].text), syntax, &s, &e) == MAL_OK)
      fail_msg("taken: %s", bad[i].text);
    assert_non_null(strstr(e.text, bad[i].where));
  }
  for (int i = 0; i < 3; i++) { /* a thousand levels */
    static const char *const open[] = {"{\"a\":", "{a: ", "{a="}, *const files[] = {"x.json", "x.yaml", "x.toml"};
    mal_writing w = {.arena = &a};
    mal_settings s = {.arena = &a};
    mal_syntax syntax;
    mal_error e;
    if (i == 2) mal_write(&w, "a = ");
    for (int k = 0; k < 1000; k++) mal_write(&w, "%s", open[i]);
    mal_write(&w, "1");
    for (int k = 0; k < 1000; k++) mal_write(&w, "}");
    mal_config_syntax(files[i], &syntax);
    assert_fails(MAL_BAD, mal_config_read(&a, files[i], w.text, strlen(w.text), syntax, &s, &e), e, files[i]);
  }
  mal_arena_free(&a);
}

static const struct {
  const mal_keyed *framework;
  const char *profile, *list;
} keyed[] = {
    {&mal_deepspeed, "deepspeed", "deepspeed-0.19.6"},    {&mal_accelerate, "fsdp2", "accelerate-1.15"},
    {&mal_accelerate, "deepspeed", "accelerate-1.15"},    {&mal_torchtitan, "torchtitan-eager", "torchtitan-v0.2.2"},
    {&mal_torchtitan, "torchtitan", "torchtitan-v0.2.2"},
};

static bool random_keyed(mal_arena *a, const char *profile, mal_plan *p) {
  static const char *const models[] = {"llama-3-8b", "llama-3-70b", "qwen3-8b", "qwen3-30b-a3b"};
  mal_job j;
  mal_layout l;
  mal_error e;
  mal_job_default(&j);
  mal_layout_default(&l);
  l.tp = below(2) ? 1 : power(3), l.pp = below(3) ? 1 : power(2), l.cp = below(3) ? 1 : power(2);
  l.vpp = below(3) ? 0 : (int64_t)below(3) + 1;
  l.micro_batch = power(2), l.zero = (int)below(4), l.recompute = (int)below(3);
  l.cp_kind = l.cp > 1 ? (int)below(3) : 0; /* means nothing without */
  if (below(2)) l.offload_optimizer = l.offload_params = l.zero == 3 ? (int)below(3) : 0;
  if (l.zero == 3 && !below(3)) l.hybrid = power(4);
  j.precision = (int[]){MAL_P_BF16, MAL_P_BF16, MAL_P_FP16, MAL_P_FP8, MAL_P_FP32}[below(5)];
  j.global_batch = INT64_C(128) << below(3);
  if (below(2)) j.seq = 4096;
  return mal_plan_make(a, models[below(4)], below(2) ? "4x8xh100-sxm" : "8xh100-sxm", profile, &j, &l, p, &e) ==
             MAL_OK &&
         p->layout.hybrid != p->layout.dp * p->layout.cp;
}

static bool names_it(const char *const *list, const char *name) {
  for (; *list; list++)
    if (strcmp(*list, name) == 0) return true;
  return false;
}

/* What the program says is said to both. */
static void say_elsewhere(const char *const *elsewhere, const mal_plan *p, mal_imported *in) {
  for (int i = 0; i < mal_layout_option_count; i++)
    if (names_it(elsewhere, mal_layout_options[i].name))
      mal_option_copy(&mal_layout_options[i], &in->layout, &p->asked_layout);
  for (int i = 0; i < mal_job_option_count; i++)
    if (names_it(elsewhere, mal_job_options[i].name)) mal_option_copy(&mal_job_options[i], &in->job, &p->asked_job);
  if (names_it(elsewhere, "global-batch")) in->job.accumulation = 0;
}

static int keyed_there_and_back(mal_arena *a, int which, const mal_plan *p, char *list) {
  const mal_keyed *f = keyed[which].framework;
  mal_settings s = {.arena = a};
  mal_bridge b = {.a = a, .plan = p, .settings = &s, .target = f->title};
  mal_imported in;
  mal_plan back;
  mal_error e;
  f->write(&b);
  for (int i = 0; i < s.count; i++) holds(a, list, keyed[which].list, &s.all[i]);
  for (int i = 0; i < b.notes.count; i++)
    if (strncmp(b.notes.all[i].text, "the model", 9) != 0) return 0;
  const char *files[] = {f->file}, *texts[] = {mal_config_write(a, &s, f->syntax, "# head\n")};
  size_t lengths[] = {strlen(texts[0])};
  mal_import_ask ask = {.files = files, .n_files = 1, .on = p->machine_spec, .model = p->model_spec};
  assert_ok(mal_import_texts(a, &ask, texts, lengths, &in, &e), e);
  if (in.n_kept) fail_msg("%s is written and not read: %s", in.kept[0].key, texts[0]);
  assert_string_equal(in.profile, keyed[which].profile);
  say_elsewhere(f->elsewhere, p, &in);
  say_elsewhere(b.elsewhere, p, &in);
  if (mal_plan_make(a, in.model, in.machine, in.profile, &in.job, &in.layout, &back, &e) != MAL_OK)
    fail_msg("%s\n%s", e.text, texts[0]);
  same(mal_layout_options, mal_layout_option_count, &p->layout, &back.layout, mal_plan_layout(a, p), texts[0]);
  same(mal_job_options, mal_job_option_count, &p->job, &back.job, mal_plan_layout(a, p), texts[0]);
  return 1;
}

static void files_there_and_back(void **state) {
  (void)state;
  mal_arena a, lists;
  mal_error e;
  mal_arena_init(&a);
  mal_arena_init(&lists);
  for (size_t k = 0; k < sizeof keyed / sizeof *keyed; k++) {
    char *list;
    size_t length;
    int plans = 0, same_again = 0;
    assert_ok(mal_file_read(&lists, mal_print(&lists, MALHA_TEST_DATA "/options/%s.txt", keyed[k].list), 1 << 20, &list,
                            &length, &e),
              e);
    for (int i = 0; i < 20000 && plans < 200; i++) {
      mal_plan p;
      mal_arena_reset(&a);
      if (!random_keyed(&a, keyed[k].profile, &p)) continue;
      plans++;
      same_again += keyed_there_and_back(&a, (int)k, &p, list);
    }
    assert_int_equal(plans, 200);
    assert_in_range(same_again, 20, 200);
  }
  mal_arena_free(&a);
  mal_arena_free(&lists);
}

/* Settings as people have them: what no noun stands for is kept and written again, value for value. */
static void kept_and_written_again(void **state) {
  (void)state;
  static const char text[] =
      "{\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_accumulation_steps\": \"auto\", \"steps_per_print\": "
      "2000,\n"
      " \"gradient_clipping\": \"auto\", \"bf16\": {\"enabled\": true}, \"wall_clock_breakdown\": false,\n"
      " \"zero_optimization\": {\"stage\": 3, \"overlap_comm\": true, \"sub_group_size\": 1e9,\n"
      "  \"reduce_bucket_size\": \"auto\", \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}},\n"
      " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\", \"betas\": [0.9, 0.95]}}, \"my key\": "
      "\"8\"}";
  mal_arena a;
  mal_error e;
  mal_imported in;
  mal_plan p;
  mal_program program;
  mal_arena_init(&a);
  const char *files[] = {"ds.json"}, *texts[] = {text};
  size_t lengths[] = {strlen(text)};
  mal_import_ask ask = {.files = files, .n_files = 1, .on = "8xh100-sxm", .model = "llama-3-8b"};
  assert_ok(mal_import_texts(&a, &ask, texts, lengths, &in, &e), e);
  in.layout.micro_batch = 1;
  in.layout.recompute = MAL_RECOMPUTE_FULL;
  assert_int_equal(in.layout.zero, 3);
  assert_int_equal(in.layout.offload_optimizer, MAL_OFFLOAD_CPU);
  assert_ok(mal_plan_make(&a, in.model, in.machine, in.profile, &in.job, &in.layout, &p, &e), e);
  p.kept = in.kept;
  p.n_kept = in.n_kept;
  mal_estimate estimate = {0};
  assert_ok(mal_lower(&a, &p, &program, &e), e);
  mal_export x = {.a = &a, .plan = &p, .program = &program, .estimate = &estimate};
  assert_ok(mal_export_make(&x, "deepspeed", &e), e);
  mal_json before, after;
  assert_ok(mal_json_parse(&a, "before", text, strlen(text), &before, &e), e);
  assert_ok(mal_json_parse(&a, "after", x.files[0].text, strlen(x.files[0].text), &after, &e), e);
  json_object_del(before.root, "train_micro_batch_size_per_gpu"); /* the plan's word for what was "auto" */
  json_object_del(before.root, "gradient_accumulation_steps");
  json_object_del(json_object_get(before.root, "optimizer"), "type"); /* the program's */
  json_object_del(after.root, "train_micro_batch_size_per_gpu");
  json_object_del(after.root, "gradient_accumulation_steps");
  json_object_del(after.root, "train_batch_size");
  if (!json_equal(before.root, after.root))
    fail_msg("%s\n%s", mal_json_dump(&a, before.root), mal_json_dump(&a, after.root));
  mal_json_free(&before);
  mal_json_free(&after);
  mal_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scripts_mean_what_bash_says),
      cmocka_unit_test(words_survive_bash),
      cmocka_unit_test(bad_scripts),
      cmocka_unit_test(there_and_back),
      cmocka_unit_test(only_options_that_there_are),
      cmocka_unit_test(readers_agree_with_python),
      cmocka_unit_test(bad_files),
      cmocka_unit_test(files_there_and_back),
      cmocka_unit_test(kept_and_written_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
