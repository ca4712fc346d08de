/* malha plan without --layout: the best layouts of all. */
#include "cli/plan_search.h"
#include <string.h>

static mal_status options_of(const mal_inputs *in, mal_search_options *o, mal_error *e) {
  *o = (mal_search_options){.fix = in->fix, .objective = in->objective, .threads = (int)in->threads};
  if (in->best > MAL_SEARCH_MOST)
    return mal_fail(e, MAL_BAD, _("--best %lld: at most %d are kept."), (long long)in->best, MAL_SEARCH_MOST);
  if (in->threads > 4096) return mal_fail(e, MAL_BAD, _("--threads %lld: at most 4096."), (long long)in->threads);
  if (in->fit_probability < 0 || in->fit_probability >= 1)
    return mal_fail(e, MAL_BAD, _("--fit-probability is %g; it must lie between 0 and 1, as 0.9."),
                    in->fit_probability);
  o->keep = (int)in->best;
  o->fit_probability = in->fit_probability;
  return MAL_OK;
}

static mal_status hold_against(mal_arena *a, const mal_inputs *in, const mal_plan *best, const mal_choice **found,
                               mal_error *e) {
  mal_choice *f = MAL_NEW(a, mal_choice);
  mal_program program;
  f->plan = *best;
  mal_layout_default(&f->plan.asked_layout);
  mal_status status = mal_layout_parse(a, in->against, &f->plan.asked_layout, e);
  if (status == MAL_OK) status = mal_plan_complete(a, &f->plan, e);
  if (status == MAL_OK) status = mal_lower(a, &f->plan, &program, e);
  if (status == MAL_OK) status = mal_price(a, &program, &f->estimate, e);
  *found = f;
  return status == MAL_OK ? status : mal_fail_in(e, "--against");
}

mal_status mal_plan_search(mal_arena *a, const mal_inputs *in, int i, mal_answer *answer, mal_error *e) {
  mal_plan asked;
  mal_search_options o;
  mal_search_result *r = MAL_NEW(a, mal_search_result);
  mal_status status = options_of(in, &o, e);
  if (status == MAL_OK)
    status =
        mal_plan_open(a, in->model, in->machines[i], in->profile ? in->profile : "", &in->job, &in->layout, &asked, e);
  if (status == MAL_OK) status = mal_search(a, &asked, &o, r, e);
  if (status != MAL_OK) return status;
  answer->search = r;
  answer->plan = r->count ? r->best[0].plan : r->nearest.plan;
  if (!answer->plan.profile) return mal_fail(e, MAL_BAD, _("No layout of %s can be priced on %s."), in->model, in->on);
  status = mal_answer_find(a, answer, !r->count, e);
  if (status == MAL_OK && in->against) status = hold_against(a, in, &answer->plan, &answer->against, e);
  return status;
}

/* Options of the search, which the command for this very layout does without. */
static bool is_of_search(const char *word, bool *has_value) {
  static const char *const with_value[] = {"--fix",     "--objective",    "--best", "--against", "--fit-probability",
                                           "--threads", "--global-batch", "--seq"};
  for (size_t i = 0; i < sizeof with_value / sizeof *with_value; i++) {
    size_t n = strlen(with_value[i]);
    *has_value = strcmp(word, with_value[i]) == 0;
    if (*has_value || (strncmp(word, with_value[i], n) == 0 && word[n] == '=')) return true;
  }
  return false;
}

char *mal_plan_take(mal_arena *a, int argc, char **argv, const mal_plan *plan) {
  char **words = MAL_ARRAY(a, char *, argc + 8);
  int n = 0;
  for (int i = 0; i < argc; i++) {
    bool value;
    if (is_of_search(argv[i], &value))
      i += value;
    else
      words[n++] = argv[i];
  }
  words[n++] = mal_copy(a, "--seq");
  words[n++] = mal_print(a, "%lld", (long long)plan->job.seq);
  words[n++] = mal_copy(a, "--global-batch");
  words[n++] = mal_print(a, "%lld", (long long)plan->job.global_batch);
  words[n++] = mal_copy(a, "--layout");
  words[n++] = mal_plan_layout(a, plan);
  return mal_report_command(a, n, words);
}

mal_status mal_plan_suggest(mal_arena *a, const mal_inputs *in, int argc, char **argv, mal_error *e) {
  mal_answer *answer = MAL_NEW(a, mal_answer);
  mal_status status = mal_plan_search(a, in, 0, answer, e);
  if (status != MAL_OK) return status;
  const char *take = mal_plan_take(a, argc, argv, &answer->plan);
  return mal_fail(e, MAL_BAD,
                  answer->search->count ? _("How is it split? Add --layout. The fastest that fits: %s")
                                        : _("How is it split? Add --layout. None fits; the one that comes nearest: %s"),
                  take);
}
