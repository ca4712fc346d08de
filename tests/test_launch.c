/* Settings of others: what bash makes of a script and what we make of it; every option that we write is one that Megatron-LM
 * has, with a value that it takes; what is written reads back as the same plan. */
#include "core/file.h"
#include "launch/export.h"
#include "launch/import.h"
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scripts_mean_what_bash_says),
      cmocka_unit_test(words_survive_bash),
      cmocka_unit_test(bad_scripts),
      cmocka_unit_test(there_and_back),
      cmocka_unit_test(only_options_that_there_are),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
