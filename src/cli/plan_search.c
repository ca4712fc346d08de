/* malha plan without --layout: the best layouts of all. */
#include "cli/plan_search.h"
#include "core/units.h"
#include <stdio.h>
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

/* --- what was asked ------------------------------------------------------------------------------------------------- */

const char *const mal_least_name[] = {"none", "gpus", NULL};
const char *const mal_most_name[] = {"none", "seq", "micro-batch", "params", NULL};

static bool is_auto(const mal_inputs *in) { return in->nodes && strcmp(in->nodes, "auto") == 0; }

static int asks(const mal_inputs *in, mal_ask *ask) {
  static const mal_ask most[] = {
      [MAL_MOST_SEQ] = MAL_ASK_SEQ, [MAL_MOST_MICRO_BATCH] = MAL_ASK_MICRO_BATCH, [MAL_MOST_PARAMS] = MAL_ASK_PARAMS};
  if (is_auto(in)) *ask = MAL_ASK_NODES;
  if (in->least) *ask = MAL_ASK_GPUS;
  if (in->most) *ask = most[in->most];
  return is_auto(in) + (in->least != 0) + (in->most != 0);
}

/* The i-th number of --prices; -1: none is given. */
static mal_status price_of(const mal_inputs *in, int i, double *price, mal_error *e) {
  const char *at = in->prices;
  *price = -1;
  for (int k = 0; at && k < i; k++) at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
  if (!at) return MAL_OK;
  char word[64];
  size_t n = strcspn(at, ",");
  snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), at);
  mal_status status = mal_parse_number(word, "--prices", price, e);
  if (status == MAL_OK && *price < 0)
    return mal_fail(e, MAL_BAD, _("--prices %s: a price is not negative."), in->prices);
  return status;
}

static mal_status check_prices(const mal_inputs *in, mal_error *e) {
  int n = in->prices != NULL;
  double price;
  for (const char *at = in->prices; at && *at; at++) n += *at == ',';
  if (in->prices && n != in->n_machines)
    return mal_fail(e, MAL_BAD, _("--prices has %d prices and --on %d machines. Give one for each."), n,
                    in->n_machines);
  if (in->prices && in->job.usd_per_gpu_hour >= 0)
    return mal_fail(e, MAL_BAD, _("--prices and --usd-per-gpu-hour say the same. Leave one out."));
  for (int i = 0; i < n; i++) {
    mal_status status = price_of(in, i, &price, e);
    if (status != MAL_OK) return status;
  }
  return MAL_OK;
}

mal_status mal_plan_check(const mal_inputs *in, mal_error *e) {
  mal_ask ask = MAL_ASK_NODES;
  int64_t nodes = 1;
  if (asks(in, &ask) > 1)
    return mal_fail(e, MAL_BAD, _("--nodes auto, --min and --max each ask for a size. Ask for one at a time."));
  if (in->nodes && !is_auto(in) && mal_parse_count(in->nodes, "--nodes", &nodes, e) != MAL_OK) return e->status;
  if (nodes < 1) return mal_fail(e, MAL_BAD, _("--nodes %s: give a number from 1 on, or auto."), in->nodes);
  if (in->nodes && in->least)
    return mal_fail(e, MAL_BAD, _("--nodes and --min gpus both say how large the machine is. Leave one out."));
  if (in->most == MAL_MOST_PARAMS && in->output)
    return mal_fail(e, MAL_BAD,
                    _("-o: a model of another number of layers has no name that a plan could keep. Write its "
                      "config.json and plan that."));
  if (in->most == MAL_MOST_MICRO_BATCH && in->job.accumulation)
    return mal_fail(e, MAL_BAD,
                    _("--max micro-batch looks at one batch; --accumulation would change it. Give --global-batch."));
  return check_prices(in, e);
}

/* Without a price nothing can be held against a budget. */
static mal_status check_price(const mal_plan *plan, mal_error *e) {
  const mal_job *job = &plan->asked_job;
  if (job->budget_usd <= 0 || job->usd_per_gpu_hour >= 0 || job->usd_per_kwh > 0 ||
      plan->machine.node->usd_per_hour.value > 0)
    return MAL_OK;
  return mal_fail(e, MAL_BAD, _("--budget at what price? None is known for %s. Add --usd-per-gpu-hour."),
                  plan->machine_spec);
}

static mal_status open_plan(mal_arena *a, const mal_inputs *in, int i, mal_plan *p, mal_error *e) {
  mal_job job = in->job;
  double price;
  int64_t nodes;
  mal_status status = price_of(in, i, &price, e);
  if (status != MAL_OK) return status;
  if (price >= 0) job.usd_per_gpu_hour = price;
  status = mal_plan_open(a, in->model, in->machines[i], in->profile ? in->profile : "", &job, &in->layout, p, e);
  if (status == MAL_OK) status = check_price(p, e);
  if (status != MAL_OK || !in->nodes || is_auto(in)) return status;
  status = mal_parse_count(in->nodes, "--nodes", &nodes, e);
  if (status == MAL_OK) status = mal_machine_resize(a, &p->machine, nodes, p->machine.gpus_per_node, e);
  p->machine_spec = p->machine.name;
  return status;
}

/* --- answers ---------------------------------------------------------------------------------------------------------- */

static mal_status find_layout(mal_arena *a, const mal_inputs *in, mal_plan *asked, const mal_search_options *o,
                              mal_answer *answer, mal_error *e) {
  mal_search_result *r = MAL_NEW(a, mal_search_result);
  mal_status status = mal_search(a, asked, o, r, e);
  if (status != MAL_OK) return status;
  answer->search = r;
  answer->plan = r->count ? r->best[0].plan : r->nearest.plan;
  if (!answer->plan.profile) return mal_fail(e, MAL_BAD, _("No layout of %s can be priced on %s."), in->model, in->on);
  status = mal_answer_find(a, answer, !r->count, e);
  if (status == MAL_OK && r->count && in->n_machines == 1) {
    mal_what_if *what_ifs = MAL_ARRAY(a, mal_what_if, MAL_IFS);
    status = mal_what_ifs(a, &r->best[0], o, what_ifs, e);
    answer->what_ifs = what_ifs;
  }
  if (status == MAL_OK && in->against) status = hold_against(a, in, &answer->plan, &answer->against, e);
  return status;
}

mal_status mal_plan_search(mal_arena *a, const mal_inputs *in, int i, mal_answer *answer, mal_error *e) {
  mal_plan asked;
  mal_search_options o;
  mal_status status = options_of(in, &o, e);
  if (status == MAL_OK) status = open_plan(a, in, i, &asked, e);
  return status == MAL_OK ? find_layout(a, in, &asked, &o, answer, e) : status;
}

mal_status mal_plan_answer(mal_arena *a, const mal_inputs *in, int i, mal_answer *answer, mal_error *e) {
  mal_plan asked;
  mal_search_options o;
  mal_ask ask = MAL_ASK_NODES;
  mal_status status = options_of(in, &o, e);
  if (status == MAL_OK) status = open_plan(a, in, i, &asked, e);
  if (status == MAL_OK && asks(in, &ask)) {
    mal_inverse *q = MAL_NEW(a, mal_inverse);
    status = mal_inverse_find(a, &asked, in->has_layout ? NULL : &o, ask, q, e);
    answer->inverse = q;
    asked = q->asked, o.fix = q->fix;
  }
  if (status != MAL_OK) return status;
  if (!in->has_layout) return find_layout(a, in, &asked, &o, answer, e);
  answer->plan = asked;
  status = mal_plan_complete(a, &answer->plan, e);
  return status == MAL_OK ? mal_answer_find(a, answer, true, e) : status;
}

/* Options that the command for this very layout does without. */
static bool is_of_question(const char *word, bool sized, bool *has_value) {
  static const char *const with_value[] = {"--fix",
                                           "--objective",
                                           "--best",
                                           "--against",
                                           "--fit-probability",
                                           "--threads",
                                           "--global-batch",
                                           "--seq",
                                           "--nodes",
                                           "--min",
                                           "--max",
                                           "--on",
                                           "--micro-batch",
                                           "--layout",
                                           "-l",
                                           "-b",
                                           "-s"};
  enum { ALL = sizeof with_value / sizeof *with_value, FIRST = 8 };
  for (size_t i = 0; i < (sized ? ALL : FIRST); i++) {
    size_t n = strlen(with_value[i]);
    *has_value = strcmp(word, with_value[i]) == 0;
    if (*has_value || (strncmp(word, with_value[i], n) == 0 && word[n] == '=')) return true;
  }
  return false;
}

char *mal_plan_take(mal_arena *a, int argc, char **argv, const mal_answer *answer) {
  const mal_plan *plan = &answer->plan;
  char **words = MAL_ARRAY(a, char *, argc + 12);
  bool sized = answer->inverse != NULL;
  int n = 0;
  if (sized && answer->inverse->ask == MAL_ASK_PARAMS) return NULL; /* no name for such a model */
  for (int i = 0; i < argc; i++) {
    bool value;
    if (is_of_question(argv[i], sized, &value))
      i += value;
    else
      words[n++] = argv[i];
  }
  if (sized) {
    bool named = mal_machine_spec(a, plan->machine_spec, 1, 1) != NULL;
    words[n++] = mal_copy(a, "--on");
    words[n++] = mal_copy(a, plan->machine_spec);
    if (!named) words[n++] = mal_copy(a, "--nodes"), words[n++] = mal_print(a, "%lld", (long long)plan->machine.nodes);
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
  const char *take = mal_plan_take(a, argc, argv, answer);
  return mal_fail(e, MAL_BAD,
                  answer->search->count ? _("How is it split? Add --layout. The fastest that fits: %s")
                                        : _("How is it split? Add --layout. None fits; the one that comes nearest: %s"),
                  take);
}
