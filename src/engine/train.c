#include "engine/train.h"
#include "engine/initial.h"
#include "engine/orders.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

const char *const mal_rate_name[MAL_RATES + 1] = {"cosine", "linear", "wsd", "constant", NULL};

double mal_rate_at(const mal_rate *r, int64_t step) {
  const double half_turn = 3.14159265358979323846;
  if (step < r->warmup) return r->lr * (double)(step + 1) / (double)r->warmup;
  double done = r->steps > r->warmup ? (double)(step - r->warmup) / (double)(r->steps - r->warmup) : 1;
  switch (r->schedule) {
  case MAL_RATE_COSINE: return r->least + (r->lr - r->least) * 0.5 * (1 + cos(half_turn * done));
  case MAL_RATE_LINEAR: return r->lr * (1 - done);
  case MAL_RATE_WSD: return done < 0.8 ? r->lr : r->lr * (1 - done) / 0.2;
  default: return r->lr;
  }
}

/* --- tables that all ranks share --------------------------------------------------------------------------------------------- */

/* Of each position the cosines, then the sines, of its angles: position / theta^(2 i / dim). */
static const float *rotary_table(mal_arena *a, const mal_layer_kind *k, int64_t seq) {
  int64_t half = k->rope_dim / 2;
  if (!half) return NULL;
  float *table = MAL_ARRAY(a, float, seq * 2 * half);
  for (int64_t t = 0; t < seq; t++)
    for (int64_t i = 0; i < half; i++) {
      double angle = (double)t / pow(k->rope_theta, 2.0 * (double)i / (double)k->rope_dim);
      table[t * 2 * half + i] = (float)cos(angle);
      table[t * 2 * half + half + i] = (float)sin(angle);
    }
  return table;
}

static const float *const *rotary_tables(mal_arena *a, const mal_plan *plan) {
  const float **tables = MAL_ARRAY(a, const float *, plan->model.n_kinds);
  for (int k = 0; k < plan->model.n_kinds; k++) tables[k] = rotary_table(a, &plan->model.kinds[k], plan->job.seq);
  return tables;
}

/* --- a rank ------------------------------------------------------------------------------------------------------------------ */

struct mal_crew {
  const mal_train_request *q;
  mal_tensors tensors;
  const float *const *rope;
  mal_world *world;
  int32_t ranks;
};

typedef struct member {
  const mal_crew *crew;
  mal_arena arena;
  mal_rank rank;
  mal_orders orders;
  mal_timeline timeline;
  double cpu_s; /* of the last step */
} member;

static mal_status set_up(member *m, int32_t rank, mal_error *e) {
  const mal_crew *c = m->crew;
  const mal_train_request *q = c->q;
  mal_comm *end = q->backend->end(c->world, rank);
  mal_rank_request request = {q->program, q->device, q->backend, c->world, rank, c->rope};
  mal_status status = mal_orders_open(&m->orders, q->backend, end, rank, c->ranks, e);
  if (!status) status = mal_rank_open(&m->arena, &request, &m->rank, e);
  if (status) return status;
  if (q->page) m->rank.place = &q->page->places[rank];
  mal_rank_state state;
  mal_rank_state_of(&m->rank, &state);
  if (q->hooks.restore && q->first_step > 0) return q->hooks.restore(q->hooks.context, &state, e);
  if (q->hooks.initial) return q->hooks.initial(q->hooks.context, &state, e);
  for (int32_t i = 0; i < m->rank.pieces.count; i++)
    mal_initial_values(&q->program->plan->model, &c->tensors, q->seed, &m->rank.pieces.at[i], m->rank.param);
  return MAL_OK;
}

static double own_time_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static mal_status obey(member *m, mal_error *e) {
  const mal_train_request *q = m->crew->q;
  const mal_order *o = m->orders.order;
  mal_step_request step = o->step;
  mal_rank_state state;
  mal_status status;
  double from = own_time_s();
  switch (o->kind) {
  case MAL_ORDER_STEP:
    step.source = q->source;
    m->rank.epoch_s = o->epoch_s;
    m->rank.timeline = o->traced ? &m->timeline : NULL;
    status = mal_rank_step(&m->rank, &step, e);
    m->rank.timeline = NULL;
    m->cpu_s = own_time_s() - from;
    return status;
  case MAL_ORDER_EVALUATE: step.source = q->evaluation; return mal_rank_evaluate(&m->rank, &step, e);
  case MAL_ORDER_GIVE: mal_rank_state_of(&m->rank, &state); return q->hooks.give(q->hooks.context, &state, e);
  case MAL_ORDER_SAVE:
    mal_rank_state_of(&m->rank, &state);
    return q->hooks.save(q->hooks.context, &state, step.step, e);
  default: return MAL_OK;
  }
}

static void add_sent(const mal_rank *r, double *sent) {
  for (unsigned axes = 1; axes < 256; axes++)
    if (r->members_of[axes].dims)
      sent[mal_program_axis(axes)] += (double)r->backend->sent_bytes(r->comm, r->group_of[axes]);
  sent[MAL_AXES] += (double)r->backend->sent_bytes(r->comm, r->stages_group);
}

/* Of a process among others: what it shares is counted in parts (Pss), so that their sum is what all of them hold. */
static int64_t shared_out_bytes(void) {
  char line[160];
  long long kib = 0;
  FILE *f = fopen("/proc/self/smaps_rollup", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "Pss: %lld kB", &kib) == 1) break;
  if (f) fclose(f);
  return kib * 1024;
}

static int64_t resident_bytes(const member *m) {
  struct rusage usage;
  if (m->crew->q->processes) return shared_out_bytes();
  getrusage(RUSAGE_SELF, &usage);
  return m->rank.rank == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0; /* threads are one process */
}

static mal_status report(member *m, mal_error *e) {
  const mal_rank *r = &m->rank;
  mal_rank_report mine = {.loss_sum = r->loss_sum,
                          .grad_norm = r->grad_norm,
                          .flops = r->flops,
                          .cpu_s = m->cpu_s,
                          .tp_index = r->tp_index,
                          .used_bytes = r->used_bytes};
  add_sent(r, mine.sent);
  if (m->orders.order->kind == MAL_ORDER_LEAVE) mine.resident_bytes = resident_bytes(m);
  return mal_orders_report(&m->orders, &mine, e);
}

/* What order says, and the reports of it. Rank 0 has filled in the order. */
static mal_status together(member *m, mal_error *e) {
  mal_status status = mal_orders_pass(&m->orders, e);
  if (!status) status = obey(m, e);
  return status ? status : report(m, e);
}

static mal_status leave(member *m, mal_error *e) {
  const mal_train_request *q = m->crew->q;
  return q->timeline ? mal_orders_collect(&m->orders, &m->timeline, m->rank.rank ? NULL : q->timeline, e) : MAL_OK;
}

static mal_status serve(member *m, mal_error *e) {
  mal_status status;
  do status = together(m, e);
  while (!status && m->orders.order->kind != MAL_ORDER_LEAVE);
  return status ? status : leave(m, e);
}

/* --- what it came to ------------------------------------------------------------------------------------------------------------ */

static int by_size(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static double median(double *times, int64_t n) {
  if (n > 1) times++, n--; /* the first warms up */
  qsort(times, (size_t)n, sizeof *times, by_size);
  return n ? times[n / 2] : 0;
}

typedef struct measured_times { /* [step] */
  double *step, *rank_cpu, *all_cpu;
} measured_times;

/* Of the last step, and of all steps' times. */
static void sum_up(const member *m, int64_t steps, const measured_times *t, mal_train_summary *s) {
  const mal_program *p = m->crew->q->program;
  const mal_layout *l = &p->plan->layout;
  s->steps = steps;
  s->planned_flops = p->hardware_flops;
  for (int64_t stage = 0; stage < l->pp; stage++) {
    double sent[MAL_AXES + 1];
    mal_program_sent(p, stage, sent);
    for (int i = 0; i <= MAL_AXES; i++) s->planned_sent[i] += sent[i] * (double)(l->tp * l->cp * l->dp);
  }
  for (int32_t i = 0; i < m->orders.ranks; i++) {
    const mal_rank_report *r = &m->orders.reports[i];
    s->flops += r->flops;
    s->memory_bytes += r->used_bytes;
    s->resident_bytes += r->resident_bytes;
    s->planned_memory_bytes += p->stages[mal_rank_index(l, i, MAL_AXIS_PP)].total_bytes;
    for (int k = 0; k <= MAL_AXES; k++) s->sent[k] += r->sent[k];
  }
  for (int i = 0; i <= MAL_AXES && steps; i++) s->sent[i] /= (double)steps;
  s->step_s = median(t->step, steps);
  s->rank_cpu_s = median(t->rank_cpu, steps), s->all_cpu_s = median(t->all_cpu, steps);
  s->tokens_per_s = s->step_s > 0 ? (double)(p->plan->job.global_batch * p->plan->job.seq) / s->step_s : 0;
}

/* --- the loop, on rank 0 ------------------------------------------------------------------------------------------------------ */

static int64_t sequence_after(const mal_train_request *q, int64_t step) {
  return q->first_sequence + (step - q->first_step) * q->program->plan->job.global_batch;
}

static mal_step_request order_of(const mal_train_request *q, int64_t step) {
  mal_adamw adamw = {.lr = (float)mal_rate_at(&q->rate, step),
                     .beta1 = (float)q->beta1,
                     .beta2 = (float)q->beta2,
                     .eps = (float)q->eps,
                     .decay = (float)q->weight_decay,
                     .correction1 = (float)(1 - pow(q->beta1, (double)step + 1)),
                     .correction2 = (float)(1 - pow(q->beta2, (double)step + 1))};
  return (mal_step_request){
      .step = step, .first_sequence = sequence_after(q, step), .adamw = adamw, .clip = (float)q->clip};
}

static double gathered_loss(const member *m) {
  double loss = 0;
  for (int32_t i = 0; i < m->orders.ranks; i++) /* tensor-parallel ranks have the same rows */
    if (m->orders.reports[i].tp_index == 0) loss += m->orders.reports[i].loss_sum;
  return loss;
}

static void note_times(const member *m, int64_t k, double step_s, const measured_times *t) {
  t->step[k] = step_s;
  t->rank_cpu[k] = t->all_cpu[k] = 0;
  for (int32_t i = 0; i < m->orders.ranks; i++) {
    double cpu_s = m->orders.reports[i].cpu_s;
    t->rank_cpu[k] = fmax(t->rank_cpu[k], cpu_s);
    t->all_cpu[k] += cpu_s;
  }
}

static mal_status one_step(member *m, int64_t step, mal_train_step *now, mal_error *e) {
  const mal_train_request *q = m->crew->q;
  const mal_job *job = &q->program->plan->job;
  double tokens = (double)(job->global_batch * job->seq), from = mal_now_s();
  *m->orders.order = (mal_order){.kind = MAL_ORDER_STEP,
                                 .traced = q->timeline && step + 1 == q->steps,
                                 .epoch_s = from,
                                 .step = order_of(q, step)};
  mal_status status = together(m, e);
  if (status) return status;
  *now = (mal_train_step){.step = step + 1,
                          .loss = gathered_loss(m) / tokens,
                          .grad_norm = m->orders.reports[0].grad_norm,
                          .lr = (double)m->orders.order->step.adamw.lr,
                          .step_s = mal_now_s() - from};
  now->tokens_per_s = tokens / now->step_s;
  if (isfinite(now->loss) && isfinite(now->grad_norm)) return MAL_OK;
  return mal_fail(e, MAL_NO, _("step %lld: the %s is not a number any more. Lower --lr, or lengthen --warmup."),
                  (long long)step + 1, isfinite(now->loss) ? _("gradient norm") : _("loss"));
}

static mal_status save(member *m, int64_t step, mal_error *e) {
  const mal_train_request *q = m->crew->q;
  const mal_train_hooks *h = &q->hooks;
  if (!h->save) return MAL_OK;
  mal_status status = h->begin ? h->begin(h->context, step, e) : MAL_OK;
  if (status) return status;
  *m->orders.order = (mal_order){.kind = MAL_ORDER_SAVE, .step.step = step};
  status = together(m, e);
  return status || !h->saved ? status : h->saved(h->context, step, sequence_after(q, step), e);
}

static mal_status give(member *m, mal_error *e) {
  const mal_train_hooks *h = &m->crew->q->hooks;
  if (!h->give) return MAL_OK;
  mal_status status = h->begin_giving ? h->begin_giving(h->context, e) : MAL_OK;
  if (status) return status;
  *m->orders.order = (mal_order){.kind = MAL_ORDER_GIVE};
  return together(m, e);
}

static void all_sent(const member *m, double sign, double *sent) {
  for (int32_t i = 0; i < m->orders.ranks; i++)
    for (int k = 0; k <= MAL_AXES; k++) sent[k] += sign * m->orders.reports[i].sent[k];
}

static mal_status evaluate(member *m, int64_t step, mal_train_summary *s, mal_error *e) {
  const mal_train_request *q = m->crew->q;
  const mal_job *job = &q->program->plan->job;
  double loss = 0;
  if (!q->evaluation) return MAL_OK;
  all_sent(m, 1, s->sent); /* what evaluation sends is not of a step: sum_up adds all, this takes it away */
  for (int64_t k = 0; k < q->evaluation_batches; k++) {
    *m->orders.order =
        (mal_order){.kind = MAL_ORDER_EVALUATE, .step = {.step = step, .first_sequence = k * job->global_batch}};
    mal_status status = together(m, e);
    if (status) return status;
    loss += gathered_loss(m);
  }
  all_sent(m, -1, s->sent);
  s->evaluation_loss = loss / (double)(q->evaluation_batches * job->global_batch * job->seq);
  if (q->hooks.evaluated) q->hooks.evaluated(q->hooks.context, step, s->evaluation_loss);
  return MAL_OK;
}

static bool is_due(int64_t every, int64_t step, bool last) { return last || (every > 0 && step % every == 0); }

static mal_status lead(member *m, mal_train_summary *s, mal_error *e) {
  const mal_train_request *q = m->crew->q;
  int64_t most = q->steps - q->first_step + 1;
  double *times = MAL_ARRAY(&m->arena, double, 3 * most);
  measured_times all = {times, times + most, times + 2 * most};
  mal_status status = MAL_OK;
  int64_t step = q->first_step, done = 0;
  for (bool stop = false; step < q->steps && !stop && !status;) {
    mal_train_step now;
    if ((status = one_step(m, step, &now, e)) != MAL_OK) break;
    note_times(m, done++, now.step_s, &all);
    s->loss = now.loss;
    step++;
    if (q->hooks.step) q->hooks.step(q->hooks.context, &now, &stop);
    bool last = stop || step == q->steps;
    if (is_due(q->evaluate_every, step, last && !stop)) status = evaluate(m, step, s, e);
    if (!status && is_due(q->save_every, step, last)) status = save(m, step, e);
  }
  if (!status) status = give(m, e);
  if (status) return status;
  *m->orders.order = (mal_order){.kind = MAL_ORDER_LEAVE};
  status = together(m, e);
  if (status) return status;
  sum_up(m, done, &all, s);
  return leave(m, e);
}

/* --- the crew ---------------------------------------------------------------------------------------------------------------- */

mal_status mal_train_open(mal_arena *a, const mal_train_request *q, mal_crew **crew, mal_error *e) {
  const mal_plan *plan = q->program->plan;
  mal_status status = mal_engine_check(plan, e);
  if (status) return status;
  mal_crew *c = *crew = MAL_NEW(a, mal_crew);
  *c = (mal_crew){.q = q, .rope = rotary_tables(a, plan), .ranks = (int32_t)mal_layout_world(&plan->layout)};
  mal_tensors_list(a, &plan->model, &c->tensors);
  mal_comm_options options = {.ranks = c->ranks,
                              .deadline_s = q->deadline_s,
                              .oversubscribed = q->oversubscribed,
                              .processes = q->processes,
                              .memory_bytes = mal_orders_bytes(c->ranks) + mal_rank_bytes(q->program)};
  return q->backend->open(a, &options, &c->world, e);
}

void mal_train_close(mal_crew *c) {
  if (c && c->world) c->q->backend->close(c->world);
  if (c) c->world = NULL;
}

void mal_train_abort(mal_crew *c, int32_t rank, mal_status status, const char *why) {
  c->q->backend->abort(c->world, rank, status, why);
}

mal_status mal_train_rank(mal_crew *c, int32_t rank, mal_train_summary *s, mal_error *e) {
  member m = {.crew = c};
  mal_arena_init(&m.arena);
  mal_timeline_init(&m.timeline, &m.arena);
  mal_job_rank(rank);
  if (s) *s = (mal_train_summary){.evaluation_loss = (double)NAN};
  mal_status status = set_up(&m, rank, e);
  if (!status) status = s ? lead(&m, s, e) : serve(&m, e);
  if (status) mal_train_abort(c, rank, status, e->text);
  mal_rank_close(&m.rank);
  mal_arena_free(&m.arena);
  return status;
}

typedef struct thread_of {
  mal_crew *crew;
  int32_t rank;
  pthread_t thread;
  mal_train_summary *summary;
  mal_status status;
  mal_error error;
} thread_of;

static void *run_thread(void *context) {
  thread_of *t = context;
  t->status = mal_train_rank(t->crew, t->rank, t->summary, &t->error);
  return NULL;
}

mal_status mal_train_threads(mal_arena *a, mal_crew *c, mal_train_summary *s, mal_error *e) {
  thread_of *threads = MAL_ARRAY(a, thread_of, c->ranks);
  mal_status status = MAL_OK;
  int32_t started = 0;
  for (; started < c->ranks; started++) {
    thread_of *t = &threads[started];
    *t = (thread_of){.crew = c, .rank = started, .summary = started ? NULL : s};
    if (pthread_create(&t->thread, NULL, run_thread, t) == 0) continue;
    status = mal_fail(e, MAL_FAULT, _("rank %d gets no thread."), started);
    mal_train_abort(c, started, status, e->text);
    break;
  }
  for (int32_t i = 0; i < started; i++) pthread_join(threads[i].thread, NULL);
  for (int32_t i = 0; i < started && !status; i++)
    if ((status = threads[i].status) != MAL_OK) *e = threads[i].error;
  return status;
}

mal_status mal_train_run(mal_arena *a, const mal_train_request *q, mal_train_summary *s, mal_error *e) {
  mal_crew *crew;
  mal_status status = mal_train_open(a, q, &crew, e);
  if (status) return status;
  status = mal_train_threads(a, crew, s, e);
  mal_train_close(crew);
  return status;
}
