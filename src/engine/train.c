#include "engine/train.h"
#include "engine/initial.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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

/* --- ranks and the one that leads them ------------------------------------------------------------------------------------ */

typedef struct crew crew;
typedef struct member { /* one rank's thread */
  crew *crew;
  pthread_t thread;
  mal_arena arena;
  mal_rank rank;
  mal_timeline timeline;
  mal_status status;
  mal_error error;
} member;

enum { ORDER_STEP, ORDER_SAVE, ORDER_EVALUATE, ORDER_LEAVE };

struct crew {
  const mal_train_request *q;
  const mal_tensors *tensors;
  const float *const *rope;
  mal_world *world;
  member *members;
  int ranks;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int arrived;  /* ranks that have done all up to the step under way */
  int64_t turn; /* counts what was ordered */
  int kind;
  mal_step_request order;
  bool traced;
  double epoch_s;
};

static mal_status set_up(member *m, int32_t rank) {
  crew *c = m->crew;
  mal_rank_request request = {c->q->program, c->q->device, c->q->backend, c->world, rank, c->rope};
  mal_status status = mal_rank_open(&m->arena, &request, &m->rank, &m->error);
  if (status) return status;
  if (c->q->page) m->rank.place = &c->q->page->places[rank];
  const mal_train_hooks *hooks = &c->q->hooks;
  if (hooks->restore && c->q->first_step > 0) {
    mal_rank_state state;
    mal_rank_state_of(&m->rank, &state);
    return hooks->restore(hooks->context, &state, &m->error);
  }
  for (int32_t i = 0; i < m->rank.pieces.count; i++)
    mal_initial_values(&c->q->program->plan->model, c->tensors, c->q->seed, &m->rank.pieces.at[i], m->rank.param);
  return MAL_OK;
}

static bool wait_for_order(crew *c, int64_t *seen) {
  pthread_mutex_lock(&c->mutex);
  if (++c->arrived == c->ranks) pthread_cond_broadcast(&c->changed);
  while (c->turn == *seen) pthread_cond_wait(&c->changed, &c->mutex);
  *seen = c->turn;
  bool go = c->kind != ORDER_LEAVE;
  pthread_mutex_unlock(&c->mutex);
  return go;
}

static mal_status obey(member *m) {
  crew *c = m->crew;
  mal_rank_state state;
  switch (c->kind) {
  case ORDER_STEP: return mal_rank_step(&m->rank, &c->order, &m->error);
  case ORDER_EVALUATE: return mal_rank_evaluate(&m->rank, &c->order, &m->error);
  default: break;
  }
  mal_rank_state_of(&m->rank, &state);
  return c->q->hooks.save(c->q->hooks.context, &state, c->order.step, &m->error);
}

static void *serve(void *context) {
  member *m = context;
  crew *c = m->crew;
  int32_t rank = (int32_t)(m - c->members);
  int64_t seen = 0;
  mal_job_rank(rank);
  m->status = set_up(m, rank);
  while (wait_for_order(c, &seen)) {
    m->rank.epoch_s = c->epoch_s;
    m->rank.timeline = c->traced ? &m->timeline : NULL;
    m->status = obey(m);
    if (m->status) c->q->backend->abort(c->world, rank, m->error.text);
  }
  return NULL;
}

/* Until every rank has done what was ordered; the first fault of all is the one that is told. */
static mal_status gather(crew *c, mal_error *e) {
  pthread_mutex_lock(&c->mutex);
  while (c->arrived < c->ranks) pthread_cond_wait(&c->changed, &c->mutex);
  pthread_mutex_unlock(&c->mutex);
  for (int i = 0; i < c->ranks; i++)
    if (c->members[i].status) {
      *e = c->members[i].error;
      return c->members[i].status;
    }
  return MAL_OK;
}

static void give_order(crew *c, int kind) {
  pthread_mutex_lock(&c->mutex);
  c->arrived = 0;
  c->kind = kind;
  c->turn++;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->mutex);
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

/* --- what it came to ------------------------------------------------------------------------------------------------------------ */

static void add_sent(const mal_rank *r, double *sent) {
  for (unsigned axes = 1; axes < 256; axes++)
    if (r->members_of[axes].dims)
      sent[mal_program_axis(axes)] += (double)r->backend->sent_bytes(r->comm, r->group_of[axes]);
  sent[MAL_AXES] += (double)r->backend->sent_bytes(r->comm, r->stages_group);
}

static int by_size(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static void sum_up(crew *c, int64_t steps, double *times, mal_train_summary *s) {
  const mal_program *p = c->q->program;
  const mal_layout *l = &p->plan->layout;
  struct rusage usage;
  s->steps = steps;
  s->planned_flops = p->hardware_flops;
  for (int64_t stage = 0; stage < l->pp; stage++) {
    double sent[MAL_AXES + 1];
    mal_program_sent(p, stage, sent);
    for (int i = 0; i <= MAL_AXES; i++) s->planned_sent[i] += sent[i] * (double)(l->tp * l->cp * l->dp);
  }
  for (int i = 0; i < c->ranks; i++) {
    const mal_rank *r = &c->members[i].rank;
    s->flops += r->flops;
    s->memory_bytes += r->used_bytes;
    s->planned_memory_bytes += r->stage_plan->total_bytes;
    add_sent(r, s->sent);
  }
  for (int i = 0; i <= MAL_AXES && steps; i++) s->sent[i] /= (double)steps;
  getrusage(RUSAGE_SELF, &usage);
  s->resident_bytes = (int64_t)usage.ru_maxrss * 1024;
  if (steps > 1) times++, steps--; /* the first warms up */
  qsort(times, (size_t)steps, sizeof *times, by_size);
  s->step_s = steps ? times[steps / 2] : 0;
  s->tokens_per_s = s->step_s > 0 ? (double)(p->plan->job.global_batch * p->plan->job.seq) / s->step_s : 0;
}

/* --- the loop --------------------------------------------------------------------------------------------------------------------- */

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
  return (mal_step_request){.step = step,
                            .first_sequence = sequence_after(q, step),
                            .source = q->source,
                            .adamw = adamw,
                            .clip = (float)q->clip};
}

static double gathered_loss(const crew *c) {
  double loss = 0;
  for (int i = 0; i < c->ranks; i++) /* tensor-parallel ranks have the same rows */
    if (c->members[i].rank.tp_index == 0) loss += c->members[i].rank.loss_sum;
  return loss;
}

static mal_status one_step(crew *c, int64_t step, mal_train_step *now, mal_error *e) {
  const mal_job *job = &c->q->program->plan->job;
  double tokens = (double)(job->global_batch * job->seq), from = mal_now_s();
  c->order = order_of(c->q, step);
  c->traced = c->q->timeline && step + 1 == c->q->steps;
  give_order(c, ORDER_STEP);
  mal_status status = gather(c, e);
  if (status) return status;
  *now = (mal_train_step){.step = step + 1,
                          .loss = gathered_loss(c) / tokens,
                          .grad_norm = c->members[0].rank.grad_norm,
                          .lr = (double)c->order.adamw.lr,
                          .step_s = mal_now_s() - from};
  now->tokens_per_s = tokens / now->step_s;
  if (isfinite(now->loss) && isfinite(now->grad_norm)) return MAL_OK;
  return mal_fail(e, MAL_NO, _("step %lld: the %s is not a number any more. Lower --lr, or lengthen --warmup."),
                  (long long)step + 1, isfinite(now->loss) ? _("gradient norm") : _("loss"));
}

static mal_status save(crew *c, int64_t step, mal_error *e) {
  const mal_train_hooks *h = &c->q->hooks;
  if (!h->save) return MAL_OK;
  c->order.step = step;
  give_order(c, ORDER_SAVE);
  mal_status status = gather(c, e);
  return status || !h->saved ? status : h->saved(h->context, step, sequence_after(c->q, step), e);
}

static mal_status evaluate(crew *c, int64_t step, mal_train_summary *s, mal_error *e) {
  const mal_train_request *q = c->q;
  const mal_job *job = &q->program->plan->job;
  double loss = 0;
  if (!q->evaluation) return MAL_OK;
  double before[MAL_AXES + 1] = {0}, after[MAL_AXES + 1] = {0};
  c->traced = false;
  for (int i = 0; i < c->ranks; i++) add_sent(&c->members[i].rank, before);
  for (int64_t k = 0; k < q->evaluation_batches; k++) {
    c->order = (mal_step_request){.step = step, .first_sequence = k * job->global_batch, .source = q->evaluation};
    give_order(c, ORDER_EVALUATE);
    mal_status status = gather(c, e);
    if (status) return status;
    loss += gathered_loss(c);
  }
  for (int i = 0; i < c->ranks; i++) add_sent(&c->members[i].rank, after);
  for (int i = 0; i <= MAL_AXES; i++) s->sent[i] -= after[i] - before[i]; /* not of a step */
  s->evaluation_loss = loss / (double)(q->evaluation_batches * job->global_batch * job->seq);
  if (q->hooks.evaluated) q->hooks.evaluated(q->hooks.context, step, s->evaluation_loss);
  return MAL_OK;
}

static bool is_due(int64_t every, int64_t step, bool last) { return last || (every > 0 && step % every == 0); }

static mal_status train(crew *c, mal_train_summary *s, double *times, mal_error *e) {
  const mal_train_request *q = c->q;
  mal_status status = gather(c, e);
  int64_t step = q->first_step, done = 0;
  for (bool leave = false; step < q->steps && !leave && !status;) {
    mal_train_step now;
    if ((status = one_step(c, step, &now, e)) != MAL_OK) break;
    times[done++] = now.step_s;
    s->loss = now.loss;
    step++;
    if (q->hooks.step) q->hooks.step(q->hooks.context, &now, &leave);
    bool last = leave || step == q->steps;
    if (is_due(q->evaluate_every, step, last && !leave)) status = evaluate(c, step, s, e);
    if (!status && is_due(q->save_every, step, last)) status = save(c, step, e);
  }
  if (!status) sum_up(c, done, times, s);
  return status;
}

static void collect_timeline(crew *c) {
  for (int i = 0; i < c->ranks && c->q->timeline; i++)
    for (int64_t k = 0; k < c->members[i].timeline.count; k++)
      mal_timeline_add(c->q->timeline, c->members[i].timeline.events[k]);
}

mal_status mal_train_run(mal_arena *a, const mal_train_request *q, mal_train_summary *s, mal_error *e) {
  const mal_plan *plan = q->program->plan;
  mal_tensors tensors;
  *s = (mal_train_summary){.evaluation_loss = (double)NAN};
  mal_status status = mal_engine_check(plan, e);
  if (status) return status;
  crew c = {.q = q,
            .tensors = &tensors,
            .rope = rotary_tables(a, plan),
            .ranks = (int)mal_layout_world(&plan->layout),
            .epoch_s = mal_now_s()};
  mal_tensors_list(a, &plan->model, &tensors);
  mal_comm_options options = {.ranks = c.ranks, .deadline_s = q->deadline_s, .oversubscribed = q->oversubscribed};
  status = q->backend->open(a, &options, &c.world, e);
  if (status) return status;
  pthread_mutex_init(&c.mutex, NULL);
  pthread_cond_init(&c.changed, NULL);
  c.members = MAL_ARRAY(a, member, c.ranks);
  double *times = MAL_ARRAY(a, double, q->steps - q->first_step + 1);
  int started = 0;
  for (; started < c.ranks && !status; started++) {
    member *m = &c.members[started];
    m->crew = &c;
    mal_arena_init(&m->arena);
    mal_timeline_init(&m->timeline, &m->arena);
    if (pthread_create(&m->thread, NULL, serve, m) != 0) {
      status = mal_fail(e, MAL_FAULT, _("rank %d gets no thread."), started);
      break;
    }
  }
  c.ranks = started;
  if (!status) status = train(&c, s, times, e);
  give_order(&c, ORDER_LEAVE);
  for (int i = 0; i < started; i++) pthread_join(c.members[i].thread, NULL);
  if (!status) collect_timeline(&c);
  for (int i = 0; i < started; i++) {
    mal_rank_close(&c.members[i].rank);
    mal_arena_free(&c.members[i].arena);
  }
  q->backend->close(c.world);
  pthread_cond_destroy(&c.changed);
  pthread_mutex_destroy(&c.mutex);
  return status;
}
