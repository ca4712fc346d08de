#include "search/search.h"
#include "search/worker.h"
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

const char *const mal_objective_name[] = {"time", "cost", "energy", "memory", NULL};
_Static_assert(sizeof mal_objective_name / sizeof *mal_objective_name == MAL_OBJECTIVES + 1, "a name for each");

enum { MOST_THREADS = 64, MANY = 64 /* frames: fewer are searched at once */ };

typedef struct crew {
  mal_space *space;
  mal_search_options options;
  mal_contest contest;
  bool anything;
  enum { BOUND, WARM, SEARCH } phase;
  atomic_int next;
  mal_worker workers[MOST_THREADS];
  int threads;
} crew;

typedef struct hand {
  crew *crew;
  mal_worker *worker;
} hand;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int threads_of(const mal_search_options *o) {
  cpu_set_t set;
  int n = o->threads;
  if (n <= 0) n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n;
}

static double least_score(const mal_worker *w, const mal_frame *f) {
  const mal_plan *p = &w->space->plans[f->profile];
  return mal_least_score(w, p, f->least_s, 0, 0);
}

static void *work(void *context) {
  hand *h = context;
  crew *c = h->crew;
  mal_worker *w = h->worker;
  for (;;) {
    int i = atomic_fetch_add(&c->next, 1);
    if (i >= c->space->n_frames || w->status != MAL_OK) return NULL;
    mal_frame *f = &c->space->frames[i];
    if (c->phase == BOUND)
      mal_worker_bound(w, f);
    else if (!mal_contest_over(&c->contest, least_score(w, f)))
      (c->phase == WARM ? mal_worker_warm : mal_worker_run)(w, f);
  }
}

/* All frames, on all threads; this one is the first of them. */
static void work_all(crew *c, int phase) {
  pthread_t threads[MOST_THREADS];
  hand hands[MOST_THREADS];
  int started = 1;
  c->phase = phase;
  atomic_store(&c->next, 0);
  hands[0] = (hand){c, &c->workers[0]};
  for (int i = 1; i < c->threads; i++) hands[i] = (hand){c, &c->workers[i]};
  while (started < c->threads && pthread_create(&threads[started], NULL, work, &hands[started]) == 0) started++;
  work(&hands[0]);
  for (int i = 1; i < started; i++) pthread_join(threads[i], NULL);
}

static int by_least(const void *a, const void *b) {
  const mal_frame *x = a, *y = b;
  return (x->least_s > y->least_s) - (x->least_s < y->least_s);
}

static mal_status run(crew *c, mal_error *e) {
  for (int i = 0; i < c->threads; i++) {
    mal_worker_open(&c->workers[i], c->space, &c->options, &c->contest);
    c->workers[i].anything = c->anything;
  }
  work_all(c, BOUND);
  qsort(c->space->frames, (size_t)c->space->n_frames, sizeof *c->space->frames, by_least);
  if (c->space->n_frames > MANY) work_all(c, WARM);
  work_all(c, SEARCH);
  mal_status status = MAL_OK;
  for (int i = 0; i < c->threads; i++) {
    if (c->workers[i].status != MAL_OK && status == MAL_OK) *e = c->workers[i].error, status = c->workers[i].status;
  }
  return status;
}

static void count_work(const crew *c, mal_search_result *out) {
  for (int i = 0; i < c->threads; i++) {
    out->evaluated += c->workers[i].evaluated;
    out->fitting += c->workers[i].fitting;
  }
}

static void finish(crew *c) {
  for (int i = 0; i < c->threads; i++) mal_worker_close(&c->workers[i]);
  mal_contest_close(&c->contest);
}

/* As malha plan --layout would have it. */
static mal_status find_out(mal_arena *a, const mal_space *s, const mal_entry *entry, mal_choice *f, mal_error *e) {
  mal_arena scratch;
  mal_program program;
  f->plan = s->plans[entry->plan];
  f->plan.asked_layout = entry->layout;
  f->score = entry->score;
  mal_status status = mal_plan_complete(a, &f->plan, e);
  mal_arena_init(&scratch);
  if (status == MAL_OK) status = mal_lower(&scratch, &f->plan, &program, e);
  if (status == MAL_OK) status = mal_price(&scratch, &program, &f->estimate, e);
  if (status == MAL_OK) f->estimate.why = mal_copy(a, f->estimate.why);
  mal_arena_free(&scratch);
  return status;
}

/* Nothing fits: what comes closest. */
static mal_status find_nearest(mal_arena *a, mal_space *s, const mal_search_options *o, mal_search_result *out,
                               mal_error *e) {
  crew *c = MAL_NEW(a, crew);
  *c = (crew){.space = s, .options = *o, .anything = true, .threads = threads_of(o)};
  c->options.objective = MAL_BEST_MEMORY, c->options.any = false;
  mal_contest_open(&c->contest, 1, INFINITY);
  mal_status status = run(c, e);
  if (status == MAL_OK && c->contest.count) status = find_out(a, s, &c->contest.best[0], &out->nearest, e);
  finish(c);
  return status;
}

/* Why no layout can be had: what the plainest one with these keys is told. */
static mal_status refuse(mal_arena *a, const mal_space *s, mal_error *e) {
  mal_plan p = s->plans[0];
  p.asked_layout = s->fixed;
  if (mal_plan_complete(a, &p, e) != MAL_OK) return e->status;
  return mal_fail(e, MAL_BAD, _("No layout with these keys goes with %lld GPUs and a batch of %lld sequences."),
                  (long long)s->gpus, (long long)s->batch);
}

mal_status mal_search(mal_arena *a, const mal_plan *asked, const mal_search_options *o, mal_search_result *out,
                      mal_error *e) {
  double start = now_s();
  mal_space *s = MAL_NEW(a, mal_space);
  *out = (mal_search_result){0};
  mal_status status = mal_space_open(a, asked, o->fix, s, e);
  if (status != MAL_OK) return status;
  mal_space_count(s);
  out->space = s->size, out->valid = s->valid;
  if (!(s->valid > 0)) return refuse(a, s, e);
  crew *c = MAL_NEW(a, crew);
  *c = (crew){.space = s, .options = *o, .threads = threads_of(o)};
  mal_contest_open(&c->contest, o->keep > 0 ? o->keep < MAL_SEARCH_MOST ? o->keep : MAL_SEARCH_MOST : MAL_SEARCH_KEEP,
                   o->most_score > 0 ? o->most_score : INFINITY);
  status = run(c, e);
  count_work(c, out);
  out->best = MAL_ARRAY(a, mal_choice, c->contest.count + 1);
  for (int i = 0; i < c->contest.count && status == MAL_OK; i++, out->count++)
    status = find_out(a, s, &c->contest.best[i], &out->best[i], e);
  finish(c);
  if (status == MAL_OK && !out->count && !o->no_nearest) status = find_nearest(a, s, o, out, e);
  out->bounded = out->valid - out->evaluated;
  out->optimum_proven = status == MAL_OK && !(o->any && out->count);
  out->seconds = now_s() - start;
  return status;
}
