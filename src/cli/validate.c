/* malha validate: estimates beside published, measured runs. */
#include "cli/cli.h"
#include "report/validation.h"
#include <string.h>

typedef struct options {
  const char *oom, *explain;
  int by;
  bool json, rows, defaults, help;
} options;

#define AT(member) offsetof(options, member)
const mal_option mal_validate_options[] = {
    {"oom", 0, MAL_OPT_TEXT, AT(oom), "FILE", NULL, NULL,
     N_("runs that ran out of memory: count those said not to fit")},
    {"by", 0, MAL_OPT_CHOICE, AT(by), "WHAT", NULL, mal_by_name, N_("group by family, gpu, model or framework")},
    {"rows", 0, MAL_OPT_FLAG, AT(rows), NULL, NULL, NULL, N_("print every row")},
    {"explain", 0, MAL_OPT_TEXT, AT(explain), "ID", NULL, NULL, N_("one row: its defaults, layout, time by cause")},
    {"defaults", 0, MAL_OPT_FLAG, AT(defaults), NULL, NULL, NULL, N_("print what takes the place of blanks")},
    {"json", 0, MAL_OPT_FLAG, AT(json), NULL, NULL, NULL, N_("print JSON: docs/schema/validate.json")},
    {"help", 'h', MAL_OPT_FLAG, AT(help), NULL, NULL, NULL, N_("print this help")},
};
const int mal_validate_option_count = sizeof mal_validate_options / sizeof *mal_validate_options;

/* A summary of nothing is no answer. */
static mal_status check_judged(const mal_validation *v, const char *path, mal_error *e) {
  const mal_judged *first = NULL;
  for (int i = 0; i < v->count + v->count_oom; i++) {
    const mal_judged *j = i < v->count ? &v->judged[i] : &v->judged_oom[i - v->count];
    if (!j->skipped) return MAL_OK;
    if (!first) first = j;
  }
  if (!first)
    mal_fail(e, MAL_BAD, _("no row could be judged: %s"), _("there is none below the header"));
  else
    mal_fail(e, MAL_BAD, _("no row could be judged: the first, %s: %s"), first->row->trial->id, first->skipped);
  return mal_fail_in(e, "%s", path);
}

static mal_status show(mal_arena *a, const mal_validation *v, const options *o, mal_page *page, mal_error *e) {
  if (o->explain && !mal_report_validation_row(page, v, o->explain))
    return mal_fail(e, MAL_BAD, _("--explain %s: no row has this id."), o->explain);
  if (o->explain) return MAL_OK;
  if (o->json) {
    json_t *root = mal_report_validation_json(v);
    mal_page_put(page, "%s\n", mal_json_dump(a, root));
    json_decref(root);
    return MAL_OK;
  }
  mal_report_validation(page, v, o->rows);
  return MAL_OK;
}

static mal_status run(mal_arena *a, const options *o, const char *path, mal_page *page, mal_error *e) {
  mal_trials runs, oom;
  mal_validation *v = MAL_NEW(a, mal_validation);
  mal_status s = mal_trials_read(a, path, &runs, e);
  if (s == MAL_OK && o->oom) s = mal_trials_read(a, o->oom, &oom, e);
  if (s == MAL_OK) s = mal_validate(a, &runs, o->oom ? &oom : NULL, (mal_by)o->by, v, e);
  if (s == MAL_OK && !o->explain) s = check_judged(v, path, e); /* --explain says why a row is not judged */
  return s == MAL_OK ? show(a, v, o, page, e) : s;
}

static mal_status print_defaults(mal_arena *a, mal_page *page, mal_error *e) {
  mal_defaults d;
  mal_status s = mal_defaults_load(a, &d, e);
  if (s == MAL_OK) mal_report_defaults(page, &d);
  return s;
}

int mal_cmd_validate(int argc, char **argv) {
  const mal_verb *verb = mal_verb_named("validate");
  mal_arena arena;
  mal_error e = {0};
  mal_page page;
  options o = {0};
  const char *path[1] = {NULL};
  int n = 0;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  mal_status s =
      mal_options_parse(mal_validate_options, (size_t)mal_validate_option_count, argc, argv, &o, path, 1, &n, &e);
  if (s == MAL_OK && o.help) {
    mal_help_verb(&page, verb);
  } else if (s == MAL_OK && o.defaults) {
    s = print_defaults(&arena, &page, &e);
  } else if (s == MAL_OK && n < 1) {
    s = mal_fail(&e, MAL_BAD, _("which runs? malha validate RUNS.csv; docs/validate.md lists the columns."));
  } else if (s == MAL_OK) {
    s = run(&arena, &o, path[0], &page, &e);
  }
  int code = mal_cli_finish(verb, &page, s, &e);
  mal_arena_free(&arena);
  return code;
}
