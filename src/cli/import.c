/* malha import: settings that are in use, as a plan; what they cost, and what would be better. */
#include "cli/cli.h"
#include "core/file.h"
#include "report/launch.h"
#include <string.h>

typedef struct options {
  const char *on, *model, *output, *better, *fix, *layout;
  int64_t threads, seq, global_batch;
  double usd_per_gpu_hour;
  bool as_is, json, help;
} options;

#define AT(member) offsetof(options, member)
const mal_option mal_import_options[] = {
    {"on", 0, MAL_OPT_TEXT, AT(on), "MACHINE", NULL, NULL,
     N_("what it runs on: 8xh100-sxm, 16x8xh100-sxm or a machine file; one node is taken as many times as the files "
        "start")},
    {"model", 0, MAL_OPT_TEXT, AT(model), "MODEL", NULL, NULL,
     N_("what is trained, where the files do not say: a name, a config.json or a description")},
    {"layout", 'l', MAL_OPT_TEXT, AT(layout), "KEYS", NULL, NULL,
     N_("of the split what the files leave to the program: micro-batch=2,recompute=full")},
    {"seq", 's', MAL_OPT_POSITIVE, AT(seq), "N", NULL, NULL, N_("tokens of one sequence, where the files do not say")},
    {"global-batch", 'b', MAL_OPT_POSITIVE, AT(global_batch), "N", NULL, NULL,
     N_("sequences of one step, where the files do not say")},
    {"output", 'o', MAL_OPT_TEXT, AT(output), "FILE", NULL, NULL,
     N_("write the settings as a plan that every verb takes")},
    {"better", 0, MAL_OPT_TEXT, AT(better), "FILE", NULL, NULL, N_("write the best plan")},
    {"fix", 0, MAL_OPT_TEXT, AT(fix), "KEYS", NULL, NULL, N_("keys of a layout that may not change: tp=8,zero=1")},
    {"as-is", 0, MAL_OPT_FLAG, AT(as_is), NULL, NULL, NULL, N_("only what the settings cost: look for nothing better")},
    {"usd-per-gpu-hour", 0, MAL_OPT_NUMBER, AT(usd_per_gpu_hour), "X", NULL, NULL,
     N_("price of one GPU for an hour (default: the catalogue's)")},
    {"threads", 0, MAL_OPT_POSITIVE, AT(threads), "N", NULL, NULL,
     N_("threads of the search (default: one for each core)")},
    {"json", 0, MAL_OPT_FLAG, AT(json), NULL, NULL, NULL, N_("print JSON: docs/schema/import.json")},
    {"help", 'h', MAL_OPT_FLAG, AT(help), NULL, NULL, NULL, N_("this help")},
};
const int mal_import_option_count = sizeof mal_import_options / sizeof *mal_import_options;

enum { WORDS = 64 };

/* NAME=VALUE that is no file sets a variable of the scripts. */
static void split_words(mal_arena *a, const char **words, int n, mal_import_ask *ask) {
  const char **files = MAL_ARRAY(a, const char *, n + 1), **given = MAL_ARRAY(a, const char *, n + 1);
  int n_given = 0;
  for (int i = 0; i < n; i++) {
    size_t name = strspn(words[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    if (name && words[i][name] == '=' && !mal_is_file(words[i]))
      given[n_given++] = words[i];
    else
      files[ask->n_files++] = words[i];
  }
  ask->files = files;
  ask->given = given;
}

/* What is wrong with the variables that the files export. */
static mal_status judge_environment(mal_arena *a, mal_import_answer *x, mal_error *e) {
  const mal_settings *env = &x->read->environment;
  mal_health *h = MAL_NEW(a, mal_health);
  if (!env->count) return MAL_OK;
  mal_health_init(h, a);
  for (int i = 0; i < env->count; i++)
    if (env->all[i].n_values)
      mal_note_variable(h, env->all[i].key, env->all[i].values[0],
                        (mal_evidence){.file = env->all[i].file, .line = env->all[i].line});
  x->health = h;
  return mal_health_judge(h, x->read->machine, e);
}

static mal_status look_for_better(mal_arena *a, const options *o, mal_import_answer *x, mal_error *e) {
  mal_search_options how = {.fix = o->fix, .threads = (int)o->threads};
  mal_search_result *r = MAL_NEW(a, mal_search_result);
  mal_plan asked;
  mal_job job = x->now.plan.job;
  job.accumulation = 0;
  mal_status s =
      mal_plan_open(a, x->read->model, x->read->machine, x->read->profile, &job, &x->now.plan.layout, &asked, e);
  if (s == MAL_OK) s = mal_search(a, &asked, &how, r, e);
  if (s != MAL_OK) return s;
  x->search = r;
  const mal_estimate *now = &x->now.estimate;
  bool better = r->count && (!now->fits || r->best[0].estimate.step_s < 0.999 * now->step_s);
  return better ? mal_search_path(a, &x->now.plan, now, &r->best[0].plan, &x->steps, &x->n_steps, e) : MAL_OK;
}

static mal_status write_plans(mal_arena *a, const options *o, const mal_import_answer *x, mal_error *e) {
  mal_status s = o->output ? mal_plan_write(a, o->output, &x->now.plan, e) : MAL_OK;
  if (s != MAL_OK || !o->better) return s;
  if (o->as_is) return mal_fail(e, MAL_BAD, _("--better wants a search, and --as-is none. Leave one out."));
  if (x->n_steps) {
    mal_plan best = x->steps[x->n_steps - 1].plan;
    best.kept = x->now.plan.kept;
    best.n_kept = x->now.plan.n_kept;
    return mal_plan_write(a, o->better, &best, e);
  }
  if (!x->now.estimate.fits) return mal_fail(e, MAL_NO, _("Nothing fits: there is no better plan to write."));
  return mal_plan_write(a, o->better, &x->now.plan, e);
}

static mal_status run(mal_page *page, const options *o, const char **words, int n, const char *command, mal_error *e) {
  mal_arena *a = page->arena;
  mal_import_ask ask = {.on = o->on, .model = o->model};
  mal_imported *read = MAL_NEW(a, mal_imported);
  mal_import_answer *x = MAL_NEW(a, mal_import_answer);
  split_words(a, words, n, &ask);
  mal_status s = mal_import_read(a, &ask, read, e);
  if (s != MAL_OK) return s;
  *x = (mal_import_answer){.read = read, .command = command};
  if (o->seq) read->job.seq = o->seq;
  if (o->global_batch) read->job.global_batch = o->global_batch;
  if (o->layout) s = mal_layout_parse(a, o->layout, &read->layout, e);
  if (s != MAL_OK) return s;
  if (o->usd_per_gpu_hour >= 0) read->job.usd_per_gpu_hour = o->usd_per_gpu_hour;
  s = mal_plan_make(a, read->model, read->machine, read->profile, &read->job, &read->layout, &x->now.plan, e);
  if (s != MAL_OK) return mal_fail_in(e, "%s", ask.files[0]);
  x->now.plan.kept = read->kept;
  x->now.plan.n_kept = read->n_kept;
  x->now.asked = read->machine;
  x->now.command = command;
  s = mal_answer_find(a, &x->now, true, e);
  if (s == MAL_OK) s = judge_environment(a, x, e);
  if (s == MAL_OK && !o->as_is) s = look_for_better(a, o, x, e);
  if (s == MAL_OK) s = write_plans(a, o, x, e);
  if (s != MAL_OK) return s;
  if (o->json) {
    json_t *root = mal_report_import_json(x);
    mal_page_put(page, "%s\n", mal_json_dump(a, root));
    json_decref(root);
  } else {
    mal_report_import(page, x);
  }
  return x->now.estimate.fits ? MAL_OK : MAL_NO;
}

int mal_cmd_import(int argc, char **argv) {
  const mal_verb *verb = mal_verb_named("import");
  mal_arena arena;
  mal_error e = {0};
  mal_page page;
  options o = {.usd_per_gpu_hour = -1};
  const char *words[WORDS] = {NULL};
  int n = 0;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  mal_status s =
      mal_options_parse(mal_import_options, (size_t)mal_import_option_count, argc, argv, &o, words, WORDS, &n, &e);
  if (s == MAL_OK && o.help)
    mal_help_verb(&page, verb);
  else if (s == MAL_OK)
    s = run(&page, &o, words, n, mal_report_command(&arena, argc, argv), &e);
  int code = mal_cli_finish(verb, &page, s, &e);
  mal_arena_free(&arena);
  return code;
}
