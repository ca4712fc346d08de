/* malha check: is a node well? The live one, or what was pasted of one: listings and logs. */
#include "cli/cli.h"
#include "core/file.h"
#include "core/units.h"
#include "report/answer.h"
#include "report/health.h"
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct options {
  const char *on, *junit, *prometheus;
  double watch_s;
  bool env, json, all, help;
} options;

#define AT(member) offsetof(options, member)
const mal_option mal_check_options[] = {
    {"on", 0, MAL_OPT_TEXT, AT(on), "MACHINE", NULL, NULL,
     N_("the machine as it should be, as 8xh100-sxm or a machine file")},
    {"env", 0, MAL_OPT_FLAG, AT(env), NULL, NULL, NULL, N_("judge the environment of this process too")},
    {"for", 0, MAL_OPT_QUANTITY, AT(watch_s), "TIME", "s", NULL,
     N_("watch the live node under load for so long, as 60s: clocks, heat, power, counters")},
    {"all", 0, MAL_OPT_FLAG, AT(all), NULL, NULL, NULL, N_("notes too, every rule, and what is not known")},
    {"junit", 0, MAL_OPT_TEXT, AT(junit), "FILE", NULL, NULL, N_("write JUnit XML: a test case a rule")},
    {"prometheus", 0, MAL_OPT_TEXT, AT(prometheus), "FILE", NULL, NULL,
     N_("write text for the node exporter's textfile folder")},
    {"json", 0, MAL_OPT_FLAG, AT(json), NULL, NULL, NULL, N_("print JSON: docs/schema/check.json")},
    {"help", 'h', MAL_OPT_FLAG, AT(help), NULL, NULL, NULL, N_("print this help")},
};
const int mal_check_option_count = sizeof mal_check_options / sizeof *mal_check_options;

enum { FILES_MAX = 4096 };

static mal_status read_files(mal_health *h, const char *const *files, int n, mal_error *e) {
  mal_status s = MAL_OK;
  for (int i = 0; i < n && s == MAL_OK; i++) s = mal_health_read_file(h, files[i], e);
  if (s != MAL_OK || n == 0 || h->n_unread < n) return s;
  mal_paste p;
  const char *other = mal_paste_load(h->arena, files[0], &p, e) == MAL_OK ? mal_topology_other(&p) : NULL;
  return other ? mal_fail(e, MAL_BAD, _("%s is %s."), files[0], other)
               : mal_fail(e, MAL_BAD, _("%s: nothing in it is of a kind that malha check knows. Known are: %s."),
                          files[0], mal_health_kinds(h->arena));
}

static volatile sig_atomic_t interrupted;
static void interrupt(int signal) {
  (void)signal;
  interrupted = 1;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Samples once a second until the time is over or ^C; what was seen so far is judged. */
static void watch(mal_health *h, double seconds) {
  mal_watch *w = mal_watch_begin(h);
  bool terminal = isatty(STDERR_FILENO);
  signal(SIGINT, interrupt);
  for (double start = now(); !interrupted && now() - start < seconds;) {
    double left = seconds - (now() - start), nap = left < 1 ? left : 1;
    struct timespec t = {.tv_sec = (time_t)nap, .tv_nsec = (long)((nap - (double)(time_t)nap) * 1e9)};
    nanosleep(&t, NULL);
    mal_watch_sample(h, w);
    if (terminal) fprintf(stderr, _("\rmalha check: watching, %.0f s left "), left > 0 ? left : 0);
  }
  signal(SIGINT, SIG_DFL);
  if (terminal) fprintf(stderr, "\r%*s\r", 50, "");
  mal_watch_end(h, w);
}

static mal_status gather(mal_health *h, const options *o, const char *const *files, int n, mal_error *e) {
  mal_status s = n ? read_files(h, files, n, e) : mal_health_live(h, e);
  if (s == MAL_OK && o->env) mal_health_environment(h, environ);
  if (s == MAL_OK && o->watch_s > 0 && n)
    return mal_fail(e, MAL_BAD, _("--for watches the live node; leave the files away."));
  if (s == MAL_OK && o->watch_s > 0) watch(h, o->watch_s);
  return s == MAL_OK ? mal_health_judge(h, o->on, e) : s;
}

static mal_status put_files(mal_arena *a, const mal_health *h, const options *o, mal_error *e) {
  mal_status s = MAL_OK;
  if (o->junit) {
    const char *text = mal_report_health_junit(a, h);
    s = mal_file_write(o->junit, text, strlen(text), e);
  }
  if (s == MAL_OK && o->prometheus) {
    const char *text = mal_report_health_prometheus(a, h);
    s = mal_file_write(o->prometheus, text, strlen(text), e);
  }
  return s;
}

static mal_status run(mal_arena *a, const options *o, const char *const *files, int n, mal_page *page,
                      const char *command, mal_error *e) {
  mal_health *h = MAL_NEW(a, mal_health);
  mal_health_init(h, a);
  mal_status s = gather(h, o, files, n, e);
  if (s == MAL_OK) s = put_files(a, h, o, e);
  if (s != MAL_OK) return s;
  bool piped = (o->junit && strcmp(o->junit, "-") == 0) || (o->prometheus && strcmp(o->prometheus, "-") == 0);
  if (o->json) {
    json_t *root = mal_report_health_json(h, command);
    mal_page_put(page, "%s\n", mal_json_dump(a, root));
    json_decref(root);
  } else if (!piped) {
    mal_report_health(page, h, o->all, command);
  }
  if (mal_health_judged(h)) return mal_health_worst(h) == MAL_SEV_ERROR ? MAL_NO : MAL_OK;
  return mal_fail(
      e, MAL_BAD,
      n ? _("nothing in these files can be judged: give more of them (nvidia-smi -q -x, nvidia-smi topo -m, "
            "lspci -vvv, logs).")
        : _("nothing here can be judged: no GPU, NIC or drive is seen. Say what the machine should be "
            "(--on MACHINE), or give files of another."));
}

int mal_cmd_check(int argc, char **argv) {
  const mal_verb *verb = mal_verb_named("check");
  mal_arena arena;
  mal_error e = {0};
  mal_page page;
  options o = {0};
  int n = 0;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  const char **files = MAL_ARRAY(&arena, const char *, FILES_MAX);
  mal_status s =
      mal_options_parse(mal_check_options, (size_t)mal_check_option_count, argc, argv, &o, files, FILES_MAX, &n, &e);
  if (s == MAL_OK && o.help)
    mal_help_verb(&page, verb);
  else if (s == MAL_OK)
    s = run(&arena, &o, files, n, &page, mal_report_command(&arena, argc, argv), &e);
  int code = mal_cli_finish(verb, &page, s, &e);
  mal_arena_free(&arena);
  return code;
}
