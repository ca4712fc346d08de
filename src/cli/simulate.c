/* malha simulate: every rank of a step played on the machine's links; faults; weeks with failures. */
#include "cli/plan_search.h"
#include "core/file.h"
#include "core/units.h"
#include "price/upkeep.h"
#include "report/answer.h"
#include "report/simulation.h"
#include "simulate/program_file.h"
#include "timeline/svg.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* As mal_simulate_options.algorithm counts them. */
static const char *const algorithms[] = {"auto", "ring", "tree", "nvls", "hierarchical", "pairwise", "direct", NULL};
_Static_assert(sizeof algorithms / sizeof *algorithms == MAL_ALGORITHMS + 2, "auto, then one for each");

#define AT(member) offsetof(mal_inputs, member)
const mal_option mal_simulate_options_table[] = {
    {"fault", 0, MAL_OPT_TEXT, AT(simulate.fault), "KIND:WHERE,KEY=VALUE", NULL, NULL,
     N_("what goes wrong, may be repeated: slow:rank=5,by=20%; throttle:node=3,by=30%,at=2s,for=5s; "
        "nvlink:rank=5,by=50%; "
        "nic:rank=5,dead; uplink:leaf=0,by=25%; rail:node=3; jitter:all,cv=5%; die:rank=17,at=1.5s; "
        "pcie:rank=5,by=50%; numa:rank=5; cpulink:node=3,by=50%; storage:all,by=50%. WHERE is rank=N, node=N or all")},
    {"routing", 0, MAL_OPT_CHOICE, AT(simulate.routing), "HOW", NULL, mal_routing_name,
     N_("between leaves: adaptive (spread evenly), ecmp (hashed, with --seed) or dmodk")},
    {"algorithm", 0, MAL_OPT_CHOICE, AT(simulate.algorithm), "NAME", NULL, algorithms,
     N_("of collectives, where the hardware has it (default: auto, as NCCL chooses and plan)")},
    {"background", 0, MAL_OPT_NUMBER, AT(simulate.background), "SHARE", NULL, NULL,
     N_("share of the links between switches and of shared storage that others take, 0 to 0.99")},
    {"checkpoint", 0, MAL_OPT_FLAG, AT(simulate.checkpoint), NULL, NULL, NULL,
     N_("a checkpoint is taken before this step and written beside it")},
    {"all-ranks", 0, MAL_OPT_FLAG, AT(simulate.all_ranks), NULL, NULL, NULL,
     N_("play every rank, even where many do the same")},
    {"seed", 0, MAL_OPT_COUNT, AT(simulate.seed), "N", NULL, NULL, N_("of everything random (default: 0)")},
    {"trace", 0, MAL_OPT_TEXT, AT(trace), "FILE", NULL, NULL,
     N_("write the step as a trace for Perfetto or chrome://tracing")},
    {"ranks", 0, MAL_OPT_TEXT, AT(simulate.ranks), "LIST", NULL, NULL,
     N_("ranks in the trace: 0,8-15 (default: the first rank of each stage)")},
    {"svg", 0, MAL_OPT_TEXT, AT(simulate.svg), "FILE", NULL, NULL,
     N_("write a picture of the pipeline and its traffic")},
    {"days", 0, MAL_OPT_NUMBER, AT(simulate.days), "N", NULL, NULL,
     N_("play so many days with failures at published rates, checkpoints and restarts")},
    {"runs", 0, MAL_OPT_POSITIVE, AT(simulate.runs), "N", NULL, NULL,
     N_("runs of --days, each with its own failures (default: 200)")},
    {"spares", 0, MAL_OPT_TEXT, AT(simulate.spares), "N", NULL, NULL,
     N_("nodes that stand by in --days (default: always one more at hand)")},
    {"repair", 0, MAL_OPT_AMOUNT, AT(simulate.repair_s), "TIME", "s", NULL,
     N_("until a broken node is back, in --days (default: 1d)")},
    {"restart", 0, MAL_OPT_AMOUNT, AT(simulate.restart_s), "TIME", "s", NULL,
     N_("from a failure until training goes on, beside reading the checkpoint (default: 5 min, as plan)")},
};
const int mal_simulate_option_count = sizeof mal_simulate_options_table / sizeof *mal_simulate_options_table;

enum { DEFAULT_RUNS = 200, MOST_RUNS = 100000, MOST_RANKS = 4096 };

static volatile sig_atomic_t interrupted;
static void on_interrupt(int signal) {
  (void)signal;
  interrupted = 1;
}

/* --- what was asked ------------------------------------------------------------------------------------------------------ */

static mal_status bad_ranks(const char *text, int64_t world, mal_error *e) {
  return mal_fail(e, MAL_BAD, _("--ranks %.80s: give ranks below %lld, as 0,8-15; at most %d."), text, (long long)world,
                  MOST_RANKS);
}

static mal_status read_ranks(mal_arena *a, const char *text, const mal_plan *plan, int64_t **ranks, int *count,
                             mal_error *e) {
  int64_t world = mal_layout_world(&plan->layout), stage = world / plan->layout.pp;
  *ranks = MAL_ARRAY(a, int64_t, MOST_RANKS);
  *count = 0;
  if (!text) {
    for (int64_t s = 0; s < plan->layout.pp && *count < MOST_RANKS; s++) (*ranks)[(*count)++] = s * stage;
    return MAL_OK;
  }
  for (const char *at = text; *at;) {
    char *end;
    if (*at < '0' || *at > '9') return bad_ranks(text, world, e);
    long long first = strtoll(at, &end, 10), last = first;
    if (*end == '-' && end[1] >= '0' && end[1] <= '9') last = strtoll(end + 1, &end, 10);
    if ((*end && *end != ',') || last < first || last >= world) return bad_ranks(text, world, e);
    for (long long r = first; r <= last; r++) {
      if (*count == MOST_RANKS) return bad_ranks(text, world, e);
      (*ranks)[(*count)++] = r;
    }
    at = *end ? end + 1 : end;
  }
  return *count ? MAL_OK : bad_ranks(text, world, e);
}

static mal_status set_options(mal_arena *a, const mal_inputs *in, const mal_plan *plan, mal_simulate_options *o,
                              mal_error *e) {
  *o = (mal_simulate_options){
      .seed = (uint64_t)in->simulate.seed, .all_ranks = in->simulate.all_ranks, .stop = &interrupted};
  o->routing = (mal_routing)in->simulate.routing;
  o->background = in->simulate.background;
  o->checkpoint = in->simulate.checkpoint;
  o->algorithm = (int)in->simulate.algorithm;
  if (!(o->background >= 0 && o->background <= 0.99))
    return mal_fail(e, MAL_BAD, _("--background is %g; it must lie between 0 and 0.99."), o->background);
  if (!in->simulate.fault) return MAL_OK;
  mal_simulated_fault *faults;
  mal_status status = mal_faults_parse(a, in->simulate.fault, mal_layout_world(&plan->layout), plan->machine.nodes,
                                       &faults, &o->n_faults, e);
  o->faults = faults;
  return status;
}

/* --- the step ------------------------------------------------------------------------------------------------------------- */

/* Each fault by itself, when there are several. */
static mal_status price_faults(mal_arena *a, mal_simulation *s, mal_error *e) {
  const mal_simulate_options *all = s->options;
  s->faults = MAL_ARRAY(a, mal_fault_cost, all->n_faults + 1);
  for (int i = 0; i < all->n_faults && !interrupted; i++) {
    mal_simulate_options one = *all;
    mal_simulated result = s->step;
    one.faults = &all->faults[i], one.n_faults = 1;
    one.own_jitter = mal_simulate_own_jitter(all);
    mal_status status = all->n_faults > 1 ? mal_simulate(a, s->program, &one, &result, e) : MAL_OK;
    if (status) return status;
    s->faults[s->n_faults++] =
        (mal_fault_cost){&all->faults[i], result.step_s, result.step_s - s->healthy.step_s, result.finished};
  }
  return MAL_OK;
}

static mal_status play_step(mal_arena *a, mal_simulation *s, mal_error *e) {
  mal_simulate_options healthy = *s->options;
  healthy.own_jitter = mal_simulate_own_jitter(s->options);
  healthy.faults = NULL, healthy.n_faults = 0;
  mal_estimate estimate;
  mal_status status = mal_price(a, s->program, &estimate, e);
  s->plan_step_s = estimate.step_s;
  if (!status) status = mal_simulate(a, s->program, &healthy, &s->healthy, e);
  s->step = s->healthy;
  if (!status && s->options->n_faults && !interrupted) status = mal_simulate(a, s->program, s->options, &s->step, e);
  if (!status && s->options->n_faults) status = price_faults(a, s, e);
  return status;
}

/* --- files ------------------------------------------------------------------------------------------------------------------ */

static mal_status write_trace(mal_arena *a, const mal_inputs *in, const mal_simulation *s, mal_error *e) {
  mal_simulate_options o = *s->options;
  mal_timeline timeline;
  mal_simulated unused;
  int64_t *ranks;
  mal_status status = read_ranks(a, in->simulate.ranks, s->plan, &ranks, &o.n_ranks, e);
  if (status || !in->trace) return status;
  mal_timeline_init(&timeline, a);
  o.ranks = ranks, o.timeline = &timeline, o.detail = true;
  status = mal_simulate(a, s->program, &o, &unused, e);
  return status ? status : mal_timeline_write_chrome(&timeline, in->trace, e);
}

static mal_status write_svg(mal_arena *a, const mal_inputs *in, const mal_simulation *s, mal_error *e) {
  if (!in->simulate.svg) return MAL_OK;
  mal_simulate_options o = *s->options;
  mal_timeline timeline;
  mal_simulated result;
  int64_t *ranks;
  mal_status status = read_ranks(a, in->simulate.ranks, s->plan, &ranks, &o.n_ranks, e);
  if (status) return status;
  mal_timeline_init(&timeline, a);
  o.ranks = ranks, o.timeline = &timeline;
  if ((status = mal_simulate(a, s->program, &o, &result, e)) != MAL_OK) return status;
  mal_svg_row *rows = MAL_ARRAY(a, mal_svg_row, o.n_ranks);
  int64_t stage = mal_layout_world(&s->plan->layout) / s->plan->layout.pp;
  for (int i = 0; i < o.n_ranks; i++)
    rows[i] = (mal_svg_row){(int32_t)ranks[i], mal_print(a, _("rank %lld, stage %lld"), (long long)ranks[i],
                                                         (long long)(ranks[i] / stage))};
  mal_svg_options svg = {.rows = rows, .n_rows = o.n_ranks, .end_s = result.played_s};
  svg.title = mal_print(a, _("%s on %s: one step, %s"), s->plan->model.name, s->plan->machine_spec,
                        mal_show_time(result.played_s));
  svg.subtitle = mal_plan_layout(a, s->plan);
  const char *text = mal_timeline_svg(a, &timeline, &svg);
  return mal_file_write(in->simulate.svg, text, strlen(text), e);
}

/* --- the long run ----------------------------------------------------------------------------------------------------------- */

static mal_status play_days(mal_arena *a, const mal_inputs *in, mal_simulation *s, mal_error *e) {
  static const double day_s = 86400, repair_s = 86400, most_days = 36525;
  const mal_plan *plan = s->plan;
  mal_horizon_job j = {
      .nodes = plan->machine.nodes, .spares = -1, .length_s = in->simulate.days * day_s, .stop = &interrupted};
  if (in->simulate.days == 0) return MAL_OK;
  if (!(in->simulate.days <= most_days))
    return mal_fail(e, MAL_BAD, _("--days is %g; at most %g are played."), in->simulate.days, most_days);
  if (in->simulate.runs > MOST_RUNS)
    return mal_fail(e, MAL_BAD, _("--runs is %lld; at most %d are played."), (long long)in->simulate.runs, MOST_RUNS);
  if (in->simulate.spares) {
    mal_status status = mal_parse_count(in->simulate.spares, "--spares", &j.spares, e);
    if (status) return status;
    if (j.spares > MAL_HORIZON_MOST_SPARES)
      return mal_fail(e, MAL_BAD, _("--spares is %lld; at most %d."), (long long)j.spares, MAL_HORIZON_MOST_SPARES);
  }
  mal_upkeep upkeep = mal_upkeep_of(s->program);
  mal_upkeep_horizon(a, plan, &upkeep, &j);
  if (in->simulate.restart_s > 0) j.restart_s = in->simulate.restart_s + upkeep.read_s;
  j.repair_s = in->simulate.repair_s > 0 ? in->simulate.repair_s : repair_s;
  j.seed = (uint64_t)in->simulate.seed;
  j.runs = in->simulate.runs > 0 ? (int)in->simulate.runs : DEFAULT_RUNS;
  s->days = in->simulate.days;
  s->horizon = MAL_NEW(a, mal_horizon);
  return mal_horizon_play(a, &j, true, s->horizon, e);
}

/* --- the verb ----------------------------------------------------------------------------------------------------------------- */

static mal_status check_files(const mal_inputs *in, mal_error *e) {
  if (in->trace && in->simulate.svg && strcmp(in->trace, in->simulate.svg) == 0)
    return mal_fail(e, MAL_BAD, _("--trace and --svg both name %s. Give each a file of its own."), in->trace);
  if (in->n_machines > 1) return mal_fail(e, MAL_BAD, _("One machine at a time: --on names %d."), in->n_machines);
  return MAL_OK;
}

static mal_status run(mal_arena *a, const mal_inputs *in, int argc, char **argv, mal_page *page, mal_error *e) {
  if (!in->has_layout) return mal_plan_suggest(a, in, argc, argv, e);
  mal_plan *plan = MAL_NEW(a, mal_plan);
  mal_program *program = MAL_NEW(a, mal_program);
  mal_simulate_options options;
  mal_simulation s = {.plan = plan, .program = program, .options = &options};
  mal_status status = check_files(in, e);
  if (!status) status = mal_inputs_plan(a, in, 0, plan, e);
  if (!status) status = set_options(a, in, plan, &options, e);
  if (!status) status = mal_lower(a, plan, program, e);
  if (!status && in->from) status = mal_program_file_tables(a, in->from, program, &options.tables, e);
  if (status) return status;
  signal(SIGINT, on_interrupt);
  status = play_step(a, &s, e);
  if (!status && !interrupted) status = write_trace(a, in, &s, e);
  if (!status && !interrupted) status = write_svg(a, in, &s, e);
  if (!status && !interrupted) status = play_days(a, in, &s, e);
  signal(SIGINT, SIG_DFL);
  if (status) return status;
  if (!s.step.interrupted) s.trace = in->trace, s.svg = in->simulate.svg;
  s.routing = mal_routing_name[options.routing];
  s.command = mal_report_command(a, argc, argv);
  if (in->json) {
    json_t *json = mal_report_simulation_json(&s);
    mal_page_put(page, "%s\n", mal_json_dump(a, json));
    json_decref(json);
  } else {
    mal_report_simulation(page, &s);
  }
  return s.step.finished ? MAL_OK : MAL_NO;
}

/* --fault may be given again and again: one option with all of them, apart by ';'. */
static int join_faults(mal_arena *a, int argc, char **argv, char **joined) {
  mal_writing all = {.arena = a};
  int n = 0;
  for (int i = 0; i < argc; i++) {
    const char *value = NULL;
    if (strncmp(argv[i], "--fault=", 8) == 0) value = argv[i] + 8;
    if (strcmp(argv[i], "--fault") == 0 && i + 1 < argc) value = argv[++i];
    if (value)
      mal_write(&all, "%s%s", all.used ? "; " : "", value);
    else
      joined[n++] = argv[i];
  }
  if (all.text) joined[n++] = mal_copy(a, "--fault"), joined[n++] = all.text;
  joined[n] = NULL;
  return n;
}

int mal_cmd_simulate(int argc, char **argv) {
  mal_arena arena;
  mal_arena_init(&arena);
  char **joined = MAL_ARRAY(&arena, char *, argc + 3);
  int count = join_faults(&arena, argc, argv, joined);
  int code = mal_inputs_main(mal_simulate_options_table, mal_simulate_option_count, count, joined, run);
  mal_arena_free(&arena);
  return code;
}
