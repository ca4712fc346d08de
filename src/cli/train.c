/* malha train: runs the step program here. */
#include "cli/inputs.h"
#include "engine/choose.h"
#include "engine/data/data.h"
#include "engine/data/tokens.h"
#include "engine/keep.h"
#include "engine/weights/weights.h"
#include "engine/where.h"
#include "machine/here.h"
#include "report/answer.h"
#include "report/training.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const ranks_as_names[] = {"threads", "processes", NULL};

#define AT(member) offsetof(mal_inputs, member)
const mal_option mal_train_options[] = {
    {"data", 'd', MAL_OPT_TEXT, AT(run.data), "FILE[,FILE...]", NULL, NULL,
     N_("tokens to train on: token files (malha data) or text, taken as bytes")},
    {"eval", 0, MAL_OPT_TEXT, AT(run.eval), "FILE[,FILE...]", NULL, NULL, N_("tokens to evaluate on")},
    {"eval-every", 0, MAL_OPT_POSITIVE, AT(run.eval_every), "N", NULL, NULL,
     N_("steps between evaluations (default: at the end)")},
    {"eval-batches", 0, MAL_OPT_POSITIVE, AT(run.eval_batches), "N", NULL, NULL,
     N_("global batches of an evaluation (default: 8)")},
    {"ranks", 'n', MAL_OPT_POSITIVE, AT(run.ranks), "N", NULL, NULL,
     N_("ranks (default: what --layout needs, else one on each core)")},
    {"ranks-as", 0, MAL_OPT_CHOICE, AT(run.ranks_as), "WHAT", NULL, ranks_as_names,
     N_("what a rank is: threads of one worker (the default), or processes, each its own")},
    {"steps", 0, MAL_OPT_POSITIVE, AT(run.steps), "N", NULL, NULL,
     N_("steps (default: --tokens, else one pass over the data)")},
    {"lr", 0, MAL_OPT_AMOUNT, AT(run.lr), "RATE", "", NULL, N_("highest learning rate (default: 3e-4)")},
    {"lr-schedule", 0, MAL_OPT_CHOICE, AT(run.rate), "HOW", NULL, mal_rate_name,
     N_("how it falls: cosine (to a tenth), linear (to 0), wsd (level, then down), constant")},
    {"warmup", 0, MAL_OPT_POSITIVE, AT(run.warmup), "N", NULL, NULL,
     N_("steps over which it rises (default: a hundredth of all, or what the checkpoint says; 1: none)")},
    {"weight-decay", 0, MAL_OPT_NUMBER, AT(run.weight_decay), "X", NULL, NULL,
     N_("of matrices, not of norms and biases (default: 0.1)")},
    {"clip", 0, MAL_OPT_NUMBER, AT(run.clip), "X", NULL, NULL,
     N_("longest gradient, by the norm over all weights (default: 1; 0: as it is)")},
    {"beta1", 0, MAL_OPT_NUMBER, AT(run.beta1), "X", NULL, NULL, N_("AdamW's first moment keeps (default: 0.9)")},
    {"beta2", 0, MAL_OPT_NUMBER, AT(run.beta2), "X", NULL, NULL, N_("AdamW's second moment keeps (default: 0.95)")},
    {"seed", 0, MAL_OPT_COUNT, AT(run.seed), "N", NULL, NULL,
     N_("of initial weights and the data's order (default: 0)")},
    {"init", 0, MAL_OPT_TEXT, AT(run.init), "DIR", NULL, NULL,
     N_("begin with the weights of a Hugging Face folder (MODEL may then be left out); random: as without it")},
    {"save-hf", 0, MAL_OPT_TEXT, AT(run.save_hf), "DIR", NULL, NULL,
     N_("in the end write the model as a Hugging Face folder: config.json, safetensors, the tokenizer of --init")},
    {"hf-dtype", 0, MAL_OPT_CHOICE, AT(run.hf_dtype), "TYPE", NULL, mal_hf_dtype_name,
     N_("numbers of that folder: fp32 (default), bf16, fp16")},
    {"out", 'o', MAL_OPT_TEXT, AT(run.out), "DIR", NULL, NULL, N_("keep checkpoints there, the last when it ends")},
    {"checkpoint-every", 0, MAL_OPT_POSITIVE, AT(run.checkpoint_every), "N", NULL, NULL,
     N_("steps between checkpoints (default: at the end)")},
    {"resume", 0, MAL_OPT_FLAG, AT(run.resume), NULL, NULL, NULL,
     N_("go on from the newest checkpoint in --out, written under any layout")},
    {"restarts", 0, MAL_OPT_POSITIVE, AT(run.restarts), "N", NULL, NULL,
     N_("start again from the last checkpoint when a rank dies, at most N times")},
    {"trace", 0, MAL_OPT_TEXT, AT(trace), "FILE", NULL, NULL,
     N_("write the last step as a trace for Perfetto, instruction by instruction")},
};
const int mal_train_option_count = sizeof mal_train_options / sizeof *mal_train_options;

static const double LINE_EVERY_S = 0.5; /* quick steps share a line; JSON has them all */

/* --- what is asked -------------------------------------------------------------------------------------------------------- */

static bool names(int argc, char **argv, const char *option) {
  size_t n = strlen(option);
  for (int i = 1; i < argc; i++)
    if (!strncmp(argv[i], option, n) && (!argv[i][n] || argv[i][n] == '=')) return true;
  return false;
}

/* What holds unless it is said otherwise goes in front: of options given twice the last counts. */
static char **with_defaults(mal_arena *a, int argc, char **argv, int *count) {
  static const char *const defaults[] = {"--weight-decay", "0.1", "--clip", "1", "--beta1", "0.9", "--beta2", "0.95"};
  static const char *const plan[] = {"--on", "here", "--profile", "malha", "--precision", "fp32"};
  char **all = MAL_ARRAY(a, char *, argc + 16);
  int n = 0;
  all[n++] = argv[0];
  for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) all[n++] = mal_copy(a, defaults[i]);
  for (size_t i = 0; i < sizeof plan / sizeof *plan && !names(argc, argv, "--from"); i++)
    all[n++] = mal_copy(a, plan[i]);
  for (int i = 1; i < argc; i++) all[n++] = argv[i];
  *count = n;
  return all;
}

static void count_ranks(mal_arena *a, mal_inputs *in, bool machine_given) {
  const mal_layout *l = &in->layout;
  int64_t ranks = in->run.ranks, others = l->tp * l->cp * l->pp;
  if (machine_given && !ranks) return;
  if (!ranks && in->has_layout) ranks = l->dp > 0 ? others * l->dp : others;
  if (!ranks) ranks = mal_here_cores();
  in->machines[0] = mal_print(a, "%lldxhere", (long long)ranks);
}

static mal_status check_run(const mal_inputs *in, mal_error *e) {
  const mal_run_flags *r = &in->run;
  if (!r->data)
    return mal_fail(e, MAL_BAD, _("On which data? Add --data FILE: token files (malha data writes them) or text."));
  if (in->n_machines > 1) return mal_fail(e, MAL_BAD, _("One machine at a time: --on names %d."), in->n_machines);
  if (!r->out && (r->resume || r->restarts || r->checkpoint_every))
    return mal_fail(e, MAL_BAD, _("%s needs --out DIR, where the checkpoints lie."),
                    r->resume     ? "--resume"
                    : r->restarts ? "--restarts"
                                  : "--checkpoint-every");
  if (!(r->beta1 < 1) || !(r->beta2 < 1)) return mal_fail(e, MAL_BAD, _("--beta1 and --beta2 must be below 1."));
  return MAL_OK;
}

/* --- data ------------------------------------------------------------------------------------------------------------------- */

static const char **split_paths(mal_arena *a, const char *text, int *n) {
  const char **paths = MAL_ARRAY(a, const char *, strlen(text) / 2 + 2);
  *n = 0;
  for (char *at = mal_copy(a, text); at;) {
    char *comma = strchr(at, ',');
    if (comma) *comma = '\0';
    if (*at) paths[(*n)++] = at;
    at = comma ? comma + 1 : NULL;
  }
  return paths;
}

static mal_status open_data(mal_arena *a, const char *text, const mal_plan *plan, uint64_t seed, bool shuffle,
                            mal_data **data, mal_error *e) {
  mal_data_request o = {.seq = plan->job.seq, .vocabulary = plan->model.vocab, .shuffle = shuffle, .seed = seed};
  o.paths = split_paths(a, text, &o.n_paths);
  o.format = MAL_TOKENS_TELL;
  return mal_data_open(a, &o, data, e);
}

static mal_status read_sequence(void *context, int64_t index, int64_t *ids, mal_error *e) {
  return mal_data_sequence(context, index, ids, e);
}

/* --- the run ------------------------------------------------------------------------------------------------------------------ */

typedef struct session {
  mal_arena *arena;
  const mal_inputs *in;
  mal_training t;
  mal_plan *plan;
  mal_program *program;
  mal_estimate estimate;
  mal_data *data, *eval;
  mal_keep keep;
  mal_tensors tensors;       /* where weights come from files or go to some */
  mal_weight_files init;     /* --init */
  mal_weight_writer *writer; /* --save-hf; NULL: none */
  const mal_job_page *job;   /* of the worker */
  mal_tokens_source train_source, eval_source;
  mal_train_request request;
  mal_timeline timeline;
  mal_crew *crew;
  double told_s; /* when the last line was written */
} session;

static void say(session *s, mal_page *page, json_t *json) {
  if (json) {
    char *text = json_dumps(json, JSON_COMPACT);
    if (text) puts(text);
    free(text);
    json_decref(json);
  } else if (page) {
    fputs(page->text, stdout);
  }
  fflush(stdout);
  (void)s;
}

static void tell_step(void *context, const mal_train_step *step, bool *leave) {
  session *s = context;
  if (mal_job_leaves(s->job)) *leave = true;
  bool ends = step->step == s->t.first_step + 1 || step->step == s->t.steps || *leave;
  if (!s->in->json && !ends && mal_now_s() - s->told_s < LINE_EVERY_S) return;
  s->told_s = mal_now_s();
  mal_arena scratch;
  mal_page page;
  mal_arena_init(&scratch);
  mal_page_init(&page, &scratch, mal_colour());
  if (!s->in->json) mal_report_training_step(&page, &s->t, step);
  say(s, &page, s->in->json ? mal_training_step_json(step) : NULL);
  mal_arena_free(&scratch);
}

static void tell_evaluation(void *context, int64_t step, double loss) {
  session *s = context;
  if (s->in->json)
    say(s, NULL, mal_training_evaluation_json(step, loss));
  else
    printf(_("evaluation after step %lld: loss %.4f\n"), (long long)step, loss);
}

static mal_status find_plan(session *s, mal_error *e) {
  const mal_inputs *in = s->in;
  mal_status status;
  s->t.chosen = !in->has_layout;
  if (in->has_layout)
    status = mal_inputs_plan(s->arena, in, 0, s->plan, e);
  else
    status = mal_engine_choose(s->arena, in->model, in->machines[0], in->profile ? in->profile : "", &in->job,
                               &in->layout, s->plan, e);
  if (!status) status = mal_engine_check(s->plan, e);
  if (!status) status = mal_lower(s->arena, s->plan, s->program, e);
  return status ? status : mal_price(s->arena, s->program, &s->estimate, e);
}

static int64_t count_steps(const session *s) {
  const mal_job *j = &s->plan->job;
  int64_t each = j->global_batch * j->seq;
  if (s->in->run.steps) return s->in->run.steps;
  if (j->tokens) return (j->tokens + each - 1) / each;
  int64_t pass = mal_data_sequences(s->data) / j->global_batch;
  return pass > 0 ? pass : 1;
}

static bool has_init(const session *s) { return s->in->run.init && strcmp(s->in->run.init, "random") != 0; }

/* What can be said of --init and --save-hf before the run. */
static mal_status open_weights(session *s, mal_error *e) {
  const mal_run_flags *r = &s->in->run;
  mal_status status = MAL_OK;
  mal_tensors_list(s->arena, &s->plan->model, &s->tensors);
  if (has_init(s)) {
    status = mal_weight_files_open(s->arena, r->init, &s->init, e);
    if (!status) status = mal_weight_files_match(s->arena, &s->init, &s->plan->model, &s->tensors, e);
    if (status) return mal_fail_in(e, "--init");
  }
  if (!r->save_hf) return MAL_OK;
  const mal_weight_request q = {.folder = r->save_hf,
                                .tokenizer_from = has_init(s) ? r->init : NULL,
                                .model = &s->plan->model,
                                .tensors = &s->tensors,
                                .dtype = mal_hf_dtypes[r->hf_dtype]};
  status = mal_weight_writer_open(s->arena, &q, &s->writer, e);
  return status ? mal_fail_in(e, "--save-hf") : MAL_OK;
}

static mal_status open_all(session *s, mal_error *e) {
  const mal_run_flags *r = &s->in->run;
  mal_status status = find_plan(s, e);
  if (!status) status = open_weights(s, e);
  if (!status) status = open_data(s->arena, r->data, s->plan, (uint64_t)r->seed, true, &s->data, e);
  if (!status && r->eval) status = open_data(s->arena, r->eval, s->plan, 0, false, &s->eval, e);
  if (status) return status;
  s->t.plan = s->plan, s->t.program = s->program, s->t.estimate = &s->estimate;
  s->t.cores = mal_here_cores(), s->t.processes = r->ranks_as == 1;
  s->t.init = has_init(s) ? r->init : NULL;
  s->t.data_tokens = mal_data_tokens(s->data);
  s->t.steps = count_steps(s);
  return MAL_OK;
}

static mal_status restore(void *context, const mal_rank_state *state, mal_error *e) {
  return mal_keep_restore(&((session *)context)->keep, state, e);
}

static mal_status begin(void *context, int64_t step, mal_error *e) {
  return mal_keep_begin(&((session *)context)->keep, step, e);
}

static mal_status save(void *context, const mal_rank_state *state, int64_t step, mal_error *e) {
  return mal_keep_save(&((session *)context)->keep, state, step, e);
}

static mal_status saved(void *context, int64_t step, int64_t sequences, mal_error *e) {
  return mal_keep_saved(&((session *)context)->keep, step, sequences, e);
}

static mal_status take_initial(void *context, const mal_rank_state *state, mal_error *e) {
  session *s = context;
  return mal_weight_files_load(&s->init, &s->tensors, state, e);
}

static mal_status begin_giving(void *context, mal_error *e) {
  return mal_weight_writer_begin(((session *)context)->writer, e);
}

static mal_status give_weights(void *context, const mal_rank_state *state, mal_error *e) {
  return mal_weight_writer_put(((session *)context)->writer, state, e);
}

static mal_status open_checkpoints(session *s, bool resume, mal_train_request *q, mal_error *e) {
  if (!s->in->run.out) return MAL_OK;
  mal_status status =
      mal_keep_open(s->arena, &s->keep, &mal_files_disk, s->in->run.out, s->plan, (uint64_t)s->in->run.seed, resume, e);
  if (status) return status;
  q->hooks.restore = restore, q->hooks.begin = begin, q->hooks.save = save, q->hooks.saved = saved;
  q->save_every = s->in->run.checkpoint_every;
  s->keep.says.warmup = q->rate.warmup;
  if (!s->keep.resumed) return MAL_OK;
  const mal_checkpoint *from = &s->keep.from.says;
  if (!s->in->run.warmup && from->warmup >= 0) s->keep.says.warmup = q->rate.warmup = from->warmup;
  q->first_step = s->t.first_step = from->step;
  q->first_sequence = from->sequences;
  s->t.resumed_from = s->keep.from.path, s->t.passed_over = s->keep.from.passed_over;
  if (from->step < s->t.steps) return MAL_OK;
  return mal_fail(e, MAL_BAD, _("%s has %lld steps done already. Give --steps above that."), s->keep.from.path,
                  (long long)from->step);
}

static mal_train_request request_of(session *s) {
  const mal_run_flags *r = &s->in->run;
  double lr = r->lr > 0 ? r->lr : 3e-4;
  int64_t warmup = r->warmup ? r->warmup : s->t.steps / 100;
  return (mal_train_request){.program = s->program,
                             .device = &mal_cpu,
                             .backend = &mal_comm_shm,
                             .source = &s->train_source,
                             .steps = s->t.steps,
                             .seed = (uint64_t)r->seed,
                             .rate = {lr, lr / 10, r->rate, warmup, s->t.steps},
                             .beta1 = r->beta1,
                             .beta2 = r->beta2,
                             .eps = 1e-8,
                             .weight_decay = r->weight_decay,
                             .clip = r->clip,
                             .deadline_s = 600,
                             .oversubscribed = mal_layout_world(&s->plan->layout) > s->t.cores,
                             .processes = r->ranks_as == 1,
                             .hooks = {.context = s, .step = tell_step, .evaluated = tell_evaluation},
                             .evaluate_every = r->eval_every,
                             .evaluation = s->eval ? &s->eval_source : NULL,
                             .evaluation_batches = r->eval_batches ? r->eval_batches : 8};
}

/* By the supervisor before each attempt: what all ranks share. */
static mal_status prepare(void *context, int32_t attempt, mal_error *e) {
  session *s = context;
  mal_train_close(s->crew);
  s->crew = NULL;
  s->train_source = (mal_tokens_source){read_sequence, s->data};
  s->eval_source = (mal_tokens_source){read_sequence, s->eval};
  s->request = request_of(s);
  mal_timeline_init(&s->timeline, s->arena);
  if (s->in->trace) s->request.timeline = &s->timeline;
  mal_status status = open_checkpoints(s, s->in->run.resume || attempt > 0, &s->request, e);
  if (has_init(s)) s->request.hooks.initial = take_initial;
  if (s->writer) s->request.hooks.begin_giving = begin_giving, s->request.hooks.give = give_weights;
  return status ? status : mal_train_open(s->arena, &s->request, &s->crew, e);
}

/* In the worker that has rank 0: says what it does as it goes, for the supervisor has no part in it. */
static mal_status work(void *context, mal_job_page *job, int32_t attempt, int32_t rank, mal_error *e) {
  session *s = context;
  mal_train_summary summary;
  mal_page page;
  (void)attempt;
  s->job = job, s->request.page = job;
  if (rank > 0) return mal_train_rank(s->crew, rank, NULL, e);
  mal_page_init(&page, s->arena, mal_colour());
  if (!s->in->json) mal_report_training_start(&page, &s->t);
  say(s, &page, s->in->json ? mal_training_start_json(&s->t, s->arena) : NULL);
  mal_status status =
      rank < 0 ? mal_train_threads(s->arena, s->crew, &summary, e) : mal_train_rank(s->crew, rank, &summary, e);
  if (!status && s->writer) status = mal_weight_writer_finish(s->writer, e);
  if (!status && s->in->trace) status = mal_timeline_write_chrome(&s->timeline, s->in->trace, e);
  if (status) return status;
  s->t.saved = s->writer ? s->in->run.save_hf : NULL;
  mal_page_init(&page, s->arena, mal_colour());
  if (!s->in->json) mal_report_training_end(&page, &s->t, &summary);
  say(s, &page, s->in->json ? mal_training_end_json(&s->t, &summary) : NULL);
  return MAL_OK;
}

static void rank_died(void *context, int32_t rank, const char *why) {
  mal_train_abort(((session *)context)->crew, rank, MAL_FAULT, why);
}

static void describe(void *context, int32_t rank, uint64_t where, char *text, size_t size) {
  (void)rank;
  mal_where_words(((const session *)context)->program, where, text, size);
}

static void tell_again(void *context, const mal_error *why, int32_t attempt) {
  const session *s = context;
  fprintf(stderr, _("malha train: %s\nmalha train: starting again from the last checkpoint (%d of %lld)\n"), why->text,
          attempt, (long long)s->in->run.restarts);
}

static mal_status go(session *s, mal_error *e) {
  const mal_job_run job = {.ranks = (int32_t)mal_layout_world(&s->plan->layout),
                           .processes = s->in->run.ranks_as == 1,
                           .restarts = (int32_t)(s->in->run.restarts < INT32_MAX ? s->in->run.restarts : INT32_MAX),
                           .context = s,
                           .run = work,
                           .prepare = prepare,
                           .describe = describe,
                           .rank_died = rank_died,
                           .again = tell_again};
  mal_status status = mal_supervise(&job, e);
  mal_train_close(s->crew);
  return status;
}

int mal_cmd_train(int argc, char **argv) {
  const mal_verb *verb = mal_verb_named("train");
  mal_arena arena;
  mal_error e = {0};
  mal_inputs in;
  mal_page page;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  int count;
  char **all = with_defaults(&arena, argc, argv, &count);
  mal_status status = mal_inputs_parse(&arena, mal_train_options, mal_train_option_count, count, all, &in, &e);
  session s = {.arena = &arena, .in = &in};
  if (!status && in.help) {
    mal_help_verb(&page, verb);
  } else if (!status && (status = check_run(&in, &e)) == MAL_OK) {
    count_ranks(&arena, &in, names(argc, argv, "--on") || names(argc, argv, "--from"));
    s.plan = MAL_NEW(&arena, mal_plan), s.program = MAL_NEW(&arena, mal_program);
    s.t.command = mal_report_command(&arena, argc, argv);
    status = open_all(&s, &e);
    if (!status) status = go(&s, &e);
    mal_data_close(s.data), mal_data_close(s.eval);
    mal_weight_files_close(&s.init), mal_weight_writer_close(s.writer);
  }
  int code = mal_cli_finish(verb, &page, status, &e);
  mal_arena_free(&arena);
  return code;
}
