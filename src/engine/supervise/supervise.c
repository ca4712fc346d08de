#include "engine/supervise/supervise.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const double mal_grace_s = 1; /* for the others to leave by themselves when one died; then they are killed */

static _Thread_local int32_t rank_of_thread = -1;
static mal_job_page *page_of_process; /* for the handlers of signals */
static volatile sig_atomic_t interrupts;

void mal_job_rank(int32_t rank) { rank_of_thread = rank; }

/* --- signals --------------------------------------------------------------------------------------------------------------- */

static void on_polite(int number) {
  if (!page_of_process) return;
  atomic_store(&page_of_process->leave, 1);
  if (number == SIGINT) interrupts++;
}

static void on_fault(int number) {
  int32_t none = -1;
  if (page_of_process && atomic_compare_exchange_strong(&page_of_process->faulty_signal, &none, number))
    atomic_store(&page_of_process->faulty_rank, rank_of_thread);
  signal(number, SIG_DFL);
  raise(number);
}

static void handle(int number, void (*how)(int), int flags) {
  struct sigaction action = {.sa_handler = how, .sa_flags = flags};
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

#if defined(__has_feature)
#define HAS_ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#else
#define HAS_ASAN 0
#endif

static const int polite[] = {SIGINT, SIGTERM, SIGHUP};
static const int faults[] = {SIGABRT, SIGILL, SIGSEGV, SIGBUS, SIGFPE};
enum {
  POLITE = sizeof polite / sizeof *polite,
  FAULTS = HAS_ASAN ? 2 : sizeof faults / sizeof *faults, /* the sanitizer's own report of the others is worth more */
};

static bool heeds(int number) { /* nohup stays nohup */
  struct sigaction action;
  sigaction(number, NULL, &action);
  return action.sa_handler != SIG_IGN;
}

/* --- workers --------------------------------------------------------------------------------------------------------------- */

typedef struct crew {
  const mal_job_run *job;
  mal_job_page *page;
  size_t bytes;
  int32_t workers, alive;
} crew;

static int32_t rank_of_worker(const crew *c, int32_t worker) { return c->job->processes ? worker : -1; }

static mal_status open_page(crew *c, mal_error *e) {
  int32_t n = c->job->ranks;
  c->workers = c->job->processes ? n : 1;
  size_t places = (sizeof(mal_job_page) + 63) / 64 * 64, results = places + (size_t)n * sizeof(mal_rank_place);
  c->bytes = results + (size_t)c->workers * sizeof(mal_worker_result);
  void *at = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return mal_fail(e, MAL_FAULT, _("No room for the page that %d ranks share: %s."), n, strerror(errno));
  c->page = at;
  c->page->ranks = n;
  c->page->places = (mal_rank_place *)(void *)((char *)at + places);
  c->page->results = (mal_worker_result *)(void *)((char *)at + results);
  return MAL_OK;
}

static void clear_page(crew *c) {
  atomic_store(&c->page->faulty_rank, -1);
  atomic_store(&c->page->faulty_signal, -1);
  for (int32_t i = 0; i < c->page->ranks; i++) atomic_store(&c->page->places[i].step, -1);
  for (int32_t i = 0; i < c->workers; i++) {
    atomic_store(&c->page->results[i].pid, 0);
    atomic_store(&c->page->results[i].done, false);
  }
}

_Noreturn static void work(const crew *c, int32_t worker, int32_t attempt, pid_t parent) {
  mal_worker_result *r = &c->page->results[worker];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(MAL_FAULT); /* it died before that */
  for (int i = 0; i < FAULTS; i++) handle(faults[i], on_fault, 0);
  for (int i = 0; i < POLITE; i++)
    if (heeds(polite[i])) handle(polite[i], on_polite, SA_RESTART);
  mal_job_rank(rank_of_worker(c, worker));
  r->error.text[0] = '\0';
  r->status = c->job->run(c->job->context, c->page, attempt, rank_of_worker(c, worker), &r->error);
  fflush(stdout);
  atomic_store(&r->done, true);
  _exit(0);
}

static mal_status start(crew *c, int32_t attempt, mal_error *e) {
  pid_t me = getpid();
  fflush(stdout);
  fflush(stderr);
  for (int32_t i = 0; i < c->workers; i++) {
    pid_t pid = fork();
    if (pid == 0) work(c, i, attempt, me);
    if (pid < 0) return mal_fail(e, MAL_FAULT, _("Worker %d cannot be started: %s."), i, strerror(errno));
    atomic_store(&c->page->results[i].pid, pid);
    c->alive++;
  }
  return MAL_OK;
}

static void kill_all(const crew *c) {
  for (int32_t i = 0; i < c->workers; i++) {
    int32_t pid = atomic_load(&c->page->results[i].pid);
    if (pid > 0) kill(pid, SIGKILL);
  }
}

/* --- what happened --------------------------------------------------------------------------------------------------------- */

static int add(char *text, size_t size, size_t *used, const char *format, ...) __attribute__((format(printf, 4, 5)));
static int add(char *text, size_t size, size_t *used, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = *used < size ? vsnprintf(text + *used, size - *used, format, args) : 0;
  va_end(args);
  if (n > 0) *used += (size_t)n;
  return n;
}

/* "rank 3: step 12, layer 3, all-reduce" of one rank, or of the first few of them. */
static void say_places(const crew *c, int32_t rank, char *text, size_t size) {
  enum { MOST = 8 };
  size_t used = 0;
  int32_t first = rank < 0 ? 0 : rank, end = rank < 0 ? c->page->ranks : rank + 1;
  *text = '\0';
  for (int32_t i = first; i < end && i < first + MOST; i++) {
    const mal_rank_place *p = &c->page->places[i];
    long long step = (long long)atomic_load(&p->step);
    char words[160] = "";
    if (step >= 0 && c->job->describe)
      c->job->describe(c->job->context, i, atomic_load(&p->where), words, sizeof words);
    if (step < 0)
      add(text, size, &used, _("%srank %d had not begun"), used ? "; " : "", i);
    else
      add(text, size, &used, _("%srank %d was at step %lld%s%s"), used ? "; " : "", i, step, *words ? ", " : "", words);
  }
  if (end > first + MOST) add(text, size, &used, "; ...");
}

static mal_status say_death(const crew *c, int32_t worker, int how, mal_error *e) {
  char places[1200], who[64];
  int32_t rank = rank_of_worker(c, worker), faulty = atomic_load(&c->page->faulty_rank);
  if (faulty >= 0) rank = faulty;
  say_places(c, rank, places, sizeof places);
  if (rank >= 0)
    snprintf(who, sizeof who, _("Rank %d"), rank);
  else
    snprintf(who, sizeof who, "%s", _("The worker"));
  if (WIFSIGNALED(how)) {
    const char *hint = WTERMSIG(how) == SIGKILL ? _(", by hand or for want of memory") : "";
    return mal_fail(e, MAL_FAULT, _("%s was ended by signal %d (%s)%s: %s."), who, WTERMSIG(how),
                    strsignal(WTERMSIG(how)), hint, places);
  }
  return mal_fail(e, MAL_FAULT, _("%s left with status %d before its end: %s."), who, WEXITSTATUS(how), places);
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits for one worker; until 0: for ever. -1: the time is over or a signal came. */
static pid_t wait_one(int *how, double until) {
  if (!until) return wait(how);
  for (;;) {
    pid_t pid = waitpid(-1, how, WNOHANG);
    if (pid != 0) return pid;
    if (now_s() >= until) return -1;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
}

static mal_status judge(const crew *c, int32_t worker, int how, mal_error *e) {
  const mal_worker_result *r = &c->page->results[worker];
  bool done = WIFEXITED(how) && WEXITSTATUS(how) == 0 && atomic_load(&r->done);
  if (!done) return say_death(c, worker, how, e);
  if (r->status) *e = r->error;
  return r->status;
}

/* Until no worker is left. The first thing that went wrong counts. */
static mal_status wait_for_all(crew *c, mal_error *e) {
  mal_status status = MAL_OK;
  double until = 0;
  while (c->alive) {
    int how;
    pid_t pid = wait_one(&how, until);
    if (pid < 0) {
      if (interrupts > 1 || until) kill_all(c);
      if (until) until += 3600; /* killed: they will come */
      continue;
    }
    int32_t worker = 0;
    while (worker < c->workers && atomic_load(&c->page->results[worker].pid) != pid) worker++;
    if (worker == c->workers) continue;
    c->alive--;
    mal_error one = {0};
    mal_status its = judge(c, worker, how, &one);
    atomic_store(&c->page->results[worker].pid, 0);
    if (!its || status) continue;
    status = its;
    *e = one;
    until = now_s() + mal_grace_s;
    if (c->alive && c->job->rank_died) c->job->rank_died(c->job->context, rank_of_worker(c, worker), one.text);
  }
  return status;
}

static mal_status attempt_once(crew *c, int32_t attempt, mal_error *e) {
  clear_page(c);
  mal_status status = c->job->prepare ? c->job->prepare(c->job->context, attempt, e) : MAL_OK;
  if (status) return status;
  status = start(c, attempt, e);
  if (status) {
    mal_error ignored;
    kill_all(c);
    wait_for_all(c, &ignored);
    return status;
  }
  return wait_for_all(c, e);
}

mal_status mal_supervise(const mal_job_run *job, mal_error *e) {
  crew c = {.job = job};
  struct sigaction before[POLITE];
  mal_status status = open_page(&c, e);
  if (status) return status;
  interrupts = 0;
  page_of_process = c.page;
  for (int i = 0; i < POLITE; i++) {
    sigaction(polite[i], NULL, &before[i]);
    if (heeds(polite[i])) handle(polite[i], on_polite, 0); /* no SA_RESTART: a second one interrupts the waiting */
  }
  for (int32_t attempt = 0;; attempt++) {
    status = attempt_once(&c, attempt, e);
    if (status != MAL_FAULT || attempt >= job->restarts || mal_job_leaves(c.page)) break;
    if (job->again) job->again(job->context, e, attempt + 1);
  }
  for (int i = 0; i < POLITE; i++) sigaction(polite[i], &before[i], NULL);
  page_of_process = NULL;
  munmap(c.page, c.bytes);
  return status;
}
