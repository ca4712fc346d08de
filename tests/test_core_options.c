#include "core/options.h"
#include "test.h"

typedef struct settings {
  bool verbose, dry_run;
  const char *output;
  int64_t tokens;
  double fraction, memory;
  int precision;
  int64_t ranks;
  double limit;
} settings;

static const char *const precisions[] = {"bf16", "fp8", "fp16-mixed", NULL};

static const mal_option table[] = {
    {"verbose", 'v', MAL_OPT_FLAG, offsetof(settings, verbose), NULL, NULL, NULL, "say more"},
    {"dry-run", 'n', MAL_OPT_FLAG, offsetof(settings, dry_run), NULL, NULL, NULL, "change nothing"},
    {"output", 'o', MAL_OPT_TEXT, offsetof(settings, output), "FILE", NULL, NULL, "where the plan is written"},
    {"global-batch", 0, MAL_OPT_COUNT, offsetof(settings, tokens), "N", NULL, NULL,
     "sequences in one step, over all ranks; this help is long enough that it must be wrapped to a second line"},
    {"fraction", 0, MAL_OPT_NUMBER, offsetof(settings, fraction), "X", NULL, NULL, "a number"},
    {"memory", 'm', MAL_OPT_QUANTITY, offsetof(settings, memory), "SIZE", "B", NULL, "a size"},
    {"ranks", 0, MAL_OPT_POSITIVE, offsetof(settings, ranks), "N", NULL, NULL, "from one on"},
    {"limit", 0, MAL_OPT_AMOUNT, offsetof(settings, limit), "TIME", "s", NULL, "more than none"},
    {"precision", 'p', MAL_OPT_CHOICE, offsetof(settings, precision), NULL, NULL, precisions, "number type"},
};
enum { COUNT = sizeof table / sizeof *table };

static mal_error e;
static settings s;
static const char *positional[2];
static int n_positional;

#define PARSE(...)                                                                                                     \
  parse(sizeof((const char *[]){"malha", __VA_ARGS__}) / sizeof(char *), (char *[]){(char *)"malha", __VA_ARGS__})

static mal_status parse(size_t argc, char **argv) {
  s = (settings){.precision = -1};
  return mal_options_parse(table, COUNT, (int)argc, argv, &s, positional, 2, &n_positional, &e);
}

static void test_every_form(void **state) {
  (void)state;
  assert_ok(PARSE("plan", "--global-batch=1k", "--output", "a.json", "-v", "--precision", "fp8", "x"), e);
  assert_int_equal(s.tokens, 1000);
  assert_string_equal(s.output, "a.json");
  assert_true(s.verbose && !s.dry_run);
  assert_int_equal(s.precision, 1);
  assert_int_equal(n_positional, 2);
  assert_string_equal(positional[0], "plan");
  assert_string_equal(positional[1], "x");
  assert_ok(PARSE("-vn", "-m80GiB", "-o-", "--fraction", "0.5"), e);
  assert_true(s.verbose && s.dry_run && s.memory == 80.0 * (1 << 30) && s.fraction == 0.5);
  assert_string_equal(s.output, "-");
  assert_ok(PARSE("-o", "-", "--", "--verbose", "-v"), e);
  assert_false(s.verbose);
  assert_int_equal(n_positional, 2);
  assert_string_equal(positional[0], "--verbose");
  assert_ok(PARSE("-", "--output="), e); /* "-" is a file name */
  assert_int_equal(n_positional, 1);
  assert_string_equal(s.output, "");
  assert_ok(PARSE("--global_batch", "1", "--global-batch", "2", "--precision=fp16_mixed"), e);
  assert_int_equal(s.tokens, 2); /* given twice: the last */
  assert_int_equal(s.precision, 2);
  assert_ok(PARSE("--precision", "fp16mixed"), e); /* a choice is known without its dashes */
  assert_int_equal(s.precision, 2);
  assert_fails(MAL_BAD, PARSE("--precision", "-fp16mixed"), e, "--precision", "-fp16mixed");
  assert_fails(MAL_BAD, PARSE("--precision", "fp16mixed_"), e, "--precision", "fp16mixed_");
  assert_ok(PARSE("--verbose", "--verbose=no"), e);
  assert_false(s.verbose);
  assert_ok(mal_options_parse(table, COUNT, 1, (char *[]){(char *)"malha"}, &s, NULL, 0, NULL, &e), e);
}

static void test_refused(void **state) {
  (void)state;
  assert_fails(MAL_BAD, PARSE("--globl-batch", "5"), e, "--globl-batch", "Nearest: global-batch");
  assert_fails(MAL_BAD, PARSE("--zzzzzz"), e, "--zzzzzz", "--help");
  assert_fails(MAL_BAD, PARSE("--global-batc"), e, "Nearest: global-batch"); /* no abbreviations */
  assert_fails(MAL_BAD, PARSE("-x"), e, "-x", "--help");
  assert_fails(MAL_BAD, PARSE("-vx"), e, "-x");
  assert_fails(MAL_BAD, PARSE("--output"), e, "--output needs a value", "FILE");
  assert_fails(MAL_BAD, PARSE("-o"), e, "-o needs a value");
  assert_fails(MAL_BAD, PARSE("--output", "--verbose"), e, "--output needs a value");
  assert_fails(MAL_BAD, PARSE("--global-batch", "many"), e, "--global-batch: 'many'");
  assert_fails(MAL_BAD, PARSE("--memory", "3s"), e, "--memory", "B");
  assert_fails(MAL_BAD, PARSE("--precision", "fp17"), e, "--precision", "bf16, fp8, fp16-mixed", "Nearest");
  assert_fails(MAL_BAD, PARSE("--fraction", "-0.5"), e, "--fraction: '-0.5' is negative");
  assert_fails(MAL_BAD, PARSE("--ranks", "0"), e, "--ranks: '0' is nothing", "1 or more");
  assert_fails(MAL_BAD, PARSE("--ranks", "-1"), e, "--ranks", "negative");
  assert_fails(MAL_BAD, PARSE("--limit", "0s"), e, "--limit: '0s' is nothing", "more than 0");
  assert_fails(MAL_BAD, PARSE("--verbose=maybe"), e, "neither true nor false");
  assert_fails(MAL_BAD, PARSE("a", "b", "c"), e, "'c'", "the most is 2");
  assert_fails(MAL_BAD,
               mal_options_parse(table, COUNT, 2, (char *[]){(char *)"malha", (char *)"x"}, &s, NULL, 0, NULL, &e), e,
               "'x'", "only options");
  char name[1000] = "--";
  memset(name + 2, 'q', 900);
  assert_fails(MAL_BAD, PARSE(name), e, "There is no option --qqq");
  assert_fails(MAL_BAD, PARSE("--\xff\x01"), e, "\\xff\\x01"); /* messages stay printable */
}

static void test_set(void **state) {
  (void)state;
  assert_ok(mal_option_set(table, COUNT, "global_batch", "64", &s, &e), e);
  assert_int_equal(s.tokens, 64);
  assert_ok(mal_option_set(table, COUNT, "verbose", "true", &s, &e), e);
  assert_true(s.verbose);
  assert_fails(MAL_BAD, mal_option_set(table, COUNT, "global", "64", &s, &e), e, "global", "Nearest: global-batch");
  assert_fails(MAL_BAD, mal_option_set(table, COUNT, "", "64", &s, &e), e, "There is no option");
}

static void test_help(void **state) {
  (void)state;
  mal_arena a = {0};
  char *help = mal_options_help(&a, table, COUNT);
  for (int i = 0; i < COUNT; i++) assert_non_null(strstr(help, table[i].name));
  assert_non_null(strstr(help, "  -o, --output FILE         where the plan is written\n"));
  assert_non_null(strstr(help, "bf16|fp8|fp16-mixed"));
  for (char *line = help, *end; *line; line = end + 1) {
    end = strchr(line, '\n');
    assert_non_null(end);
    assert_true(end - line < 80);
  }
  assert_string_equal(mal_options_help(&a, table, 0), "");
  mal_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_form),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_set),
      cmocka_unit_test(test_help),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
