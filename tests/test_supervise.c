/* Jobs of a few rank threads or processes that sum over shared memory, and are killed. */
#include "engine/comm/comm.h"
#include "engine/supervise/supervise.h"
#include "test.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4, N = 1000 };

typedef struct toy {             /* in a shared mapping */
  _Atomic int64_t saved;         /* "checkpoint": steps done */
  _Atomic int32_t runs, agains;  /* attempts begun; told of */
  _Atomic int32_t worker[RANKS]; /* pids */
  int64_t steps, pause_us;
  int32_t fault_rank; /* -1 none */
  int64_t fault_step;
  enum { FAULT_ABORT, FAULT_LEAVE, FAULT_ERROR, FAULT_STUCK } fault;
  double deadline_s;
  int64_t numbers[RANKS][N];
  mal_world *world;
} toy;

static mal_arena a;
static mal_error e;
static toy *t;

static double now(void) {
  struct timespec x;
  clock_gettime(CLOCK_MONOTONIC, &x);
  return (double)x.tv_sec + 1e-9 * (double)x.tv_nsec;
}

static void wait_us(int64_t us) { nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL); }

static mal_status prepare(void *context, int32_t attempt, mal_error *err) {
  toy *x = context;
  mal_comm_options o = {.ranks = RANKS, .deadline_s = x->deadline_s, .oversubscribed = true};
  (void)attempt;
  x->runs++;
  if (x->world) mal_comm_shm.close(x->world);
  return mal_comm_shm.open(&a, &o, &x->world, err);
}

static mal_status broken(const toy *x, mal_error *err) {
  if (x->fault == FAULT_ABORT) abort();
  if (x->fault == FAULT_LEAVE) _exit(7);
  if (x->fault == FAULT_STUCK) wait_us(60000000);
  return mal_fail(err, MAL_FAULT, "rank %d: the disk is full", x->fault_rank);
}

/* All ranks agree on whether to leave: the flag goes through the same sum. */
static mal_status one_rank(toy *x, mal_job_page *page, int32_t attempt, int32_t rank, mal_error *err) {
  const mal_comm_backend *b = &mal_comm_shm;
  mal_members all = {.dims = 1, .extent = {RANKS}, .stride = {1}};
  mal_comm *c = b->end(x->world, rank);
  int64_t *mine = x->numbers[rank];
  int32_t group;
  mal_job_rank(rank);
  mal_status status = b->group(c, &all, "dp", &group, err);
  for (int64_t step = x->saved; step < x->steps && !status; step++) {
    mal_place_set(&page->places[rank], step, 40 + (uint64_t)rank);
    if (x->pause_us) wait_us(x->pause_us);
    if (rank == x->fault_rank && step == x->fault_step && attempt == 0) return broken(x, err);
    for (int i = 0; i < N; i++) mine[i] = step + rank;
    mine[0] = mal_job_leaves(page);
    mal_comm_call sum = {.op = MAL_ALL_REDUCE,
                         .dtype = MAL_I64,
                         .in = {mine},
                         .out = {mine},
                         .elements = {N},
                         .name = "sum",
                         .step = step};
    mal_comm_ticket ticket;
    status = b->start(c, group, &sum, &ticket, err);
    if (!status) status = b->wait(c, ticket, err);
    if (!status && mine[1] != RANKS * step + 6) return mal_fail(err, MAL_NO, "a wrong sum");
    if (!status && rank == 0) x->saved = step + 1;
    if (!status && mine[0]) break;
  }
  return status;
}

typedef struct thread {
  pthread_t id;
  toy *x;
  mal_job_page *page;
  int32_t rank, attempt;
  mal_status status;
  mal_error error;
} thread;

static void *as_thread(void *of) {
  thread *h = of;
  h->status = one_rank(h->x, h->page, h->attempt, h->rank, &h->error);
  if (h->status) mal_comm_shm.abort(h->x->world, h->rank, h->status, h->error.text);
  return NULL;
}

static mal_status run(void *context, mal_job_page *page, int32_t attempt, int32_t rank, mal_error *err) {
  toy *x = context;
  x->worker[rank < 0 ? 0 : rank] = getpid();
  if (rank >= 0) {
    mal_status status = one_rank(x, page, attempt, rank, err);
    if (status) mal_comm_shm.abort(x->world, rank, status, err->text);
    return status;
  }
  thread *threads = MAL_ARRAY(&a, thread, RANKS);
  for (int32_t r = 0; r < RANKS; r++) {
    threads[r] = (thread){.x = x, .page = page, .rank = r, .attempt = attempt};
    pthread_create(&threads[r].id, NULL, as_thread, &threads[r]);
  }
  mal_status status = MAL_OK;
  for (int32_t r = 0; r < RANKS; r++) {
    pthread_join(threads[r].id, NULL);
    if (!threads[r].status || status) continue;
    status = threads[r].status;
    *err = threads[r].error;
  }
  return status;
}

static void describe(void *context, int32_t rank, uint64_t where, char *text, size_t size) {
  (void)context;
  snprintf(text, size, "instruction %d of rank %d", (int)where, rank);
}

static void again(void *context, const mal_error *why, int32_t attempt) {
  toy *x = context;
  x->agains++;
  if (!*why->text || attempt != x->agains) x->agains = -100;
}

static void rank_died(void *context, int32_t rank, const char *why) {
  mal_comm_shm.abort(((toy *)context)->world, rank, MAL_FAULT, why);
}

static mal_job_run job_of(bool processes, int32_t restarts) {
  return (mal_job_run){.ranks = RANKS,
                       .processes = processes,
                       .restarts = restarts,
                       .context = t,
                       .run = run,
                       .describe = describe,
                       .rank_died = rank_died,
                       .again = again,
                       .prepare = prepare};
}

static void fresh(void) {
  t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(t != MAP_FAILED);
  t->steps = 50;
  t->fault_rank = -1;
  t->deadline_s = 30;
}

static bool gone(int pid) {
  char path[64], state = 'X';
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *f = fopen(path, "r");
  if (!f) return true;
  if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'X';
  fclose(f);
  return state == 'Z' || state == 'X';
}

static void nothing_is_left(void) {
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
  for (int i = 0; i < RANKS; i++)
    if (t->worker[i]) assert_true(gone(t->worker[i]));
  if (t->world) mal_comm_shm.close(t->world);
  munmap(t, sizeof *t);
  mal_arena_reset(&a);
}

static void test_to_the_end(void **state) {
  (void)state;
  for (int processes = 0; processes < 2; processes++) {
    fresh();
    mal_job_run job = job_of(processes, 0);
    assert_ok(mal_supervise(&job, &e), e);
    assert_int_equal(t->saved, 50);
    assert_int_equal(t->runs, 1);
    nothing_is_left();
  }
}

/* --- killed from outside, at any moment -------------------------------------------------------------------------------------- */

typedef struct killer {
  pthread_t id;
  int64_t after_us;
  int worker, signal, times; /* worker -1: this process, the supervisor itself */
  double at_s;
} killer;

static void *kill_it(void *of) {
  killer *k = of;
  int before = 0;
  for (int i = 0; i < k->times; i++) {
    int pid = k->worker < 0 ? getpid() : 0;
    for (int turn = 0; turn < 20000 && (!pid || pid == before); turn++) {
      wait_us(500);
      pid = t->worker[k->worker < 0 ? 0 : k->worker];
    }
    while (!t->worker[0]) wait_us(500);
    wait_us(k->after_us);
    if (k->worker < 0) pid = getpid();
    k->at_s = now();
    kill(pid, k->signal);
    before = k->worker < 0 ? 0 : pid;
  }
  return NULL;
}

static mal_status with_killer(killer k, const mal_job_run *job, double *took) {
  pthread_create(&k.id, NULL, kill_it, &k);
  e = (mal_error){0};
  mal_status status = mal_supervise(job, &e);
  *took = now() - k.at_s;
  pthread_join(k.id, NULL);
  return status;
}

static void test_killed_at_any_moment(void **state) {
  (void)state;
  for (int processes = 0; processes < 2; processes++)
    for (int64_t after = 0; after < 40000; after += 4700) {
      fresh();
      t->steps = 1000000;
      double took;
      mal_job_run job = job_of(processes, 0);
      int victim = processes ? (int)(after / 4700 % RANKS) : 0;
      assert_int_equal(
          with_killer((killer){.after_us = after, .worker = victim, .signal = SIGKILL, .times = 1}, &job, &took),
          MAL_FAULT);
      assert_true(took < 2);
      char who[32];
      snprintf(who, sizeof who, processes ? "Rank %d was ended by signal 9" : "The worker was ended by signal 9",
               victim);
      if (!strstr(e.text, who)) fail_msg("'%s' is not in: %s", who, e.text);
      snprintf(who, sizeof who, "rank %d was at step ", victim);
      if (!strstr(e.text, who) && !strstr(e.text, "had not begun")) fail_msg("'%s' is not in: %s", who, e.text);
      nothing_is_left();
    }
}

static void test_restarts(void **state) {
  (void)state;
  for (int processes = 0; processes < 2; processes++) {
    fresh();
    t->steps = 400;
    t->pause_us = 1000;
    double took;
    mal_job_run job = job_of(processes, 5);
    assert_ok(with_killer((killer){.after_us = 60000, .worker = 0, .signal = SIGKILL, .times = 3}, &job, &took), e);
    assert_int_equal(t->saved, 400);
    assert_int_equal(t->runs, 4);
    assert_int_equal(t->agains, 3);
    nothing_is_left();
  }
}

static void test_restarts_end(void **state) {
  (void)state;
  fresh();
  t->steps = 1000000;
  double took;
  mal_job_run job = job_of(false, 2);
  assert_int_equal(with_killer((killer){.after_us = 10000, .worker = 0, .signal = SIGKILL, .times = 3}, &job, &took),
                   MAL_FAULT);
  assert_int_equal(t->runs, 3);
  nothing_is_left();
}

/* --- faults from inside -------------------------------------------------------------------------------------------------------- */

static void test_faults_name_rank_and_instruction(void **state) {
  (void)state;
  static const struct {
    int fault, processes_only;
    const char *words[3];
  } cases[] = {
      {FAULT_ABORT, 0, {"Rank 2 was ended by signal 6", "rank 2 was at step 9", "instruction 42 of rank 2"}},
      {FAULT_LEAVE, 1, {"Rank 2 left with status 7", "rank 2 was at step 9", "instruction 42 of rank 2"}},
      {FAULT_LEAVE, 0, {"status 7", "rank 2 was at step 9", "instruction 42 of rank 2"}},
      {FAULT_ERROR, 0, {"rank 2: the disk is full"}},
      {FAULT_STUCK, 0, {"all-reduce 'sum' of group dp, step 9", "no answer from rank 2 within 0.2 s"}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int processes = cases[i].processes_only; processes < 2; processes++) {
      if (cases[i].fault == FAULT_STUCK && !processes) continue; /* its thread cannot be joined */
      fresh();
      t->fault_rank = 2;
      t->fault_step = 9;
      t->fault = cases[i].fault;
      if (t->fault == FAULT_STUCK) t->deadline_s = 0.2;
      mal_job_run job = job_of(processes, 0);
      double begin = now();
      assert_fails(MAL_FAULT, mal_supervise(&job, &e), e, cases[i].words[0], cases[i].words[1], cases[i].words[2]);
      assert_true(now() - begin < 2.5);
      nothing_is_left();
      fresh(); /* and again with a restart, from what was kept */
      t->fault_rank = 2;
      t->fault_step = 9;
      t->fault = cases[i].fault;
      if (t->fault == FAULT_STUCK) t->deadline_s = 0.2;
      job = job_of(processes, 1);
      assert_ok(mal_supervise(&job, &e), e);
      assert_int_equal(t->runs, 2);
      nothing_is_left();
    }
}

/* --- asked to leave -------------------------------------------------------------------------------------------------------------- */

static void test_interrupt_keeps_and_leaves(void **state) {
  (void)state;
  static const int signals[] = {SIGINT, SIGTERM};
  for (int i = 0; i < 4; i++) {
    fresh();
    t->steps = 1000000;
    double took;
    mal_job_run job = job_of(i / 2, 3);
    assert_ok(with_killer((killer){.after_us = 30000, .worker = -1, .signal = signals[i % 2], .times = 1}, &job, &took),
              e);
    assert_true(took < 2 && t->saved > 0 && t->saved < t->steps);
    assert_int_equal(t->runs, 1);
    nothing_is_left();
  }
}

static void test_second_interrupt_ends_at_once(void **state) {
  (void)state;
  fresh();
  t->steps = 1000000;
  t->pause_us = 5000000; /* longer than anybody waits for the step's end */
  double took;
  mal_job_run job = job_of(false, 3);
  assert_int_equal(with_killer((killer){.after_us = 50000, .worker = -1, .signal = SIGINT, .times = 2}, &job, &took),
                   MAL_FAULT);
  assert_true(took < 2);
  assert_int_equal(t->runs, 1);
  nothing_is_left();
}

/* The supervisor itself is killed: its workers go with it. */
static void test_nothing_outlives_the_supervisor(void **state) {
  (void)state;
  for (int processes = 0; processes < 2; processes++) {
    fresh();
    t->steps = 1000000;
    pid_t supervisor = fork();
    if (supervisor == 0) {
      mal_job_run job = job_of(processes, 3);
      mal_supervise(&job, &e);
      _exit(0);
    }
    while (t->saved < 5) wait_us(1000);
    kill(supervisor, SIGKILL);
    assert_int_equal(waitpid(supervisor, NULL, 0), supervisor);
    double begin = now();
    for (int i = 0; i < (processes ? RANKS : 1); i++)
      while (!gone(t->worker[i]) && now() - begin < 2) wait_us(1000);
    assert_true(now() - begin < 2);
    t->world = NULL; /* it was the supervisor's */
    nothing_is_left();
  }
}

static int tear_down(void **state) {
  (void)state;
  mal_arena_free(&a);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_to_the_end),
      cmocka_unit_test(test_killed_at_any_moment),
      cmocka_unit_test(test_restarts),
      cmocka_unit_test(test_restarts_end),
      cmocka_unit_test(test_faults_name_rank_and_instruction),
      cmocka_unit_test(test_interrupt_keeps_and_leaves),
      cmocka_unit_test(test_second_interrupt_ends_at_once),
      cmocka_unit_test(test_nothing_outlives_the_supervisor),
  };
  return cmocka_run_group_tests(tests, NULL, tear_down);
}
