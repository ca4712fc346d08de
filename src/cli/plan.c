/* malha plan: does it fit, how fast, what does it cost. */
#include "cli/plan_search.h"
#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(mal_inputs, member)
const mal_option mal_plan_options[] = {
    {"output", 'o', MAL_OPT_TEXT, AT(output), "FILE", NULL, NULL, N_("write the plan to a file that every verb takes")},
    {"trace", 0, MAL_OPT_TEXT, AT(trace), "FILE", NULL, NULL,
     N_("write one step as a trace for Perfetto or chrome://tracing")},
};
const int mal_plan_option_count = sizeof mal_plan_options / sizeof *mal_plan_options;
const mal_option mal_search_options_table[] = {
    {"fix", 0, MAL_OPT_TEXT, AT(fix), "KEYS", NULL, NULL,
     N_("keys of --layout that every layout looked at must have: tp=8,zero=1")},
    {"objective", 0, MAL_OPT_CHOICE, AT(objective), "WHAT", NULL, mal_objective_name,
     N_("time (default), cost, energy or memory: what is to be least")},
    {"best", 0, MAL_OPT_POSITIVE, AT(best), "N", NULL, NULL, N_("how many of the best to show (default: 5)")},
    {"against", 0, MAL_OPT_TEXT, AT(against), "KEYS", NULL, NULL,
     N_("a layout of your own to hold against the best: where it loses")},
    {"fit-probability", 0, MAL_OPT_NUMBER, AT(fit_probability), "P", NULL, NULL,
     N_("take only what fits with this probability (default: 0.9)")},
    {"threads", 0, MAL_OPT_POSITIVE, AT(threads), "N", NULL, NULL,
     N_("threads of the search (default: one for each core)")},
};
const mal_option mal_inverse_options[] = {
    {"nodes", 0, MAL_OPT_TEXT, AT(nodes), "N|auto", NULL, NULL,
     N_("nodes of the machine; auto: the fewest on which it fits and --deadline and --budget hold")},
    {"min", 0, MAL_OPT_CHOICE, AT(least), "WHAT", NULL, mal_least_name,
     N_("gpus: as --nodes auto, and of one node no more GPUs than it takes")},
    {"max", 0, MAL_OPT_CHOICE, AT(most), "WHAT", NULL, mal_most_name,
     N_("the largest that fits: seq (tokens of a sequence), micro-batch, or params (layers of the model)")},
    {"prices", 0, MAL_OPT_TEXT, AT(prices), "X,Y", NULL, NULL,
     N_("USD of a GPU-hour of each machine of --on, in its order, for machines side by side")},
};
const int mal_inverse_option_count = sizeof mal_inverse_options / sizeof *mal_inverse_options;
const int mal_search_option_count = sizeof mal_search_options_table / sizeof *mal_search_options_table;

static mal_status write_files(mal_arena *a, const mal_inputs *in, const mal_answer *answer, mal_error *e) {
  mal_timeline timeline;
  mal_status status = in->output ? mal_plan_write(a, in->output, &answer->plan, e) : MAL_OK;
  if (status || !in->trace) return status;
  mal_timeline_init(&timeline, a);
  status = mal_price_timeline(a, &answer->program, &timeline, e);
  return status ? status : mal_timeline_write_chrome(&timeline, in->trace, e);
}

/* Side by side, a machine that cannot hold such a split is a row of its own; an unknown machine is an error. */
static mal_status answer_one(mal_arena *a, const mal_inputs *in, int i, mal_answer *answer, mal_error *e) {
  mal_machine machine;
  mal_status status = mal_plan_answer(a, in, i, answer, &answer->error);
  answer->plan.kept = in->kept;
  answer->plan.n_kept = in->n_kept;
  answer->status = status;
  answer->asked = in->machines[i];
  if (status == MAL_BAD && in->n_machines > 1 && mal_machine_load(a, in->machines[i], &machine, e) == MAL_OK)
    return MAL_OK;
  if (status) *e = answer->error;
  return status;
}

/* No is an answer: the layout does not fit, or misses its deadline or budget, on every machine asked for. */
static mal_status verdict(const mal_answer *answers, int count, mal_error *e) {
  int refused = 0;
  for (int i = 0; i < count; i++) {
    const mal_answer *a = &answers[i];
    bool found = !a->inverse || a->inverse->found;
    if (found && mal_answer_fits(a) && mal_answer_in_time(a) && mal_answer_in_budget(a)) return MAL_OK;
    refused += a->status != MAL_OK;
  }
  if (refused == count) return mal_fail(e, MAL_BAD, _("No machine can be split like that. %s"), answers[0].error.text);
  return MAL_NO;
}

static mal_status run(mal_arena *a, const mal_inputs *in, int argc, char **argv, mal_page *page, mal_error *e) {
  int n = in->n_machines;
  mal_answer *answers = MAL_ARRAY(a, mal_answer, n);
  mal_status status = MAL_OK;
  if (in->has_layout && (in->fix || in->against || in->best || in->objective || in->fit_probability > 0))
    return mal_fail(
        e, MAL_BAD,
        _("--fix, --objective, --best, --against and --fit-probability ask for a search, and --layout (or a "
          "key of it) says what it is to be. Leave one out."));
  if (n > 1 && (in->output || in->trace))
    return mal_fail(e, MAL_BAD, _("-o and --trace take one machine; --on names %d."), n);
  if (in->output && in->trace && strcmp(in->output, in->trace) == 0)
    return mal_fail(e, MAL_BAD, _("-o and --trace both name %s. Give each a file of its own."), in->output);
  status = mal_plan_check(in, e);
  for (int i = 0; i < n && !status; i++) status = answer_one(a, in, i, &answers[i], e);
  if (status) return status;
  answers->command = mal_report_command(a, argc, argv);
  if (n == 1 && ((answers->search && answers->search->count) || answers->inverse))
    answers->take = mal_plan_take(a, argc, argv, answers);
  if ((status = write_files(a, in, answers, e)) != MAL_OK) return status;
  status = verdict(answers, n, e);
  if (status == MAL_BAD) return status;
  if (in->json) {
    json_t *json = mal_report_plan_json(answers, n);
    mal_page_put(page, "%s\n", mal_json_dump(a, json));
    json_decref(json);
  } else if (n == 1) {
    mal_report_plan(page, answers);
  } else {
    mal_report_side_by_side(page, answers, n);
  }
  return status;
}

int mal_cmd_plan(int argc, char **argv) {
  mal_option own[24];
  int count = 0;
  for (int i = 0; i < mal_plan_option_count; i++) own[count++] = mal_plan_options[i];
  for (int i = 0; i < mal_search_option_count; i++) own[count++] = mal_search_options_table[i];
  for (int i = 0; i < mal_inverse_option_count; i++) own[count++] = mal_inverse_options[i];
  return mal_inputs_main(own, count, argc, argv, run);
}
