/* Steps of large machines, played: CPU seconds (median of five) and memory, each against its target; exit 1 when one is missed.
 * The peers' figures are of ASTRA-sim 2 on one core: 88.8 CPU s and 1.3 GB for the 96-layer step. */
#include "simulate/simulate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 5 };

typedef struct question {
  const char *name, *model, *machine, *layout;
  int64_t batch;
  bool all_ranks;
  double target_s, target_bytes;
} question;

#define GPT_96 "layers=96,hidden=12288,heads=96,ffn=49152,vocab=51200"
static const question questions[] = {
    {"405B on 16,384 GPUs, every rank", "llama-3.1-405b", "2048x8xh100-sxm", "tp=8,pp=16,micro-batch=1", 2048, true, 10,
     0x1p32},
    {"405B on 16,384 GPUs, by classes", "llama-3.1-405b", "2048x8xh100-sxm", "tp=8,pp=16,micro-batch=1", 2048, false,
     0.2, 0x1p32},
    {"96 layers tp8 dp128, every rank", GPT_96, "128x8xh100-sxm", "tp=8,micro-batch=1", 1024, true, 0.5, 0x1p32},
};

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* In a process of its own, so that its peak of memory is its own. out: seconds, bytes, events. */
static int answer(const question *q, double out[3]) {
  mal_arena a;
  mal_error e = {0};
  mal_job job;
  mal_layout layout;
  mal_plan *plan;
  mal_program *program;
  double times[RUNS];
  mal_arena_init(&a);
  mal_job_default(&job);
  mal_layout_default(&layout);
  job.global_batch = q->batch;
  plan = MAL_NEW(&a, mal_plan), program = MAL_NEW(&a, mal_program);
  if (mal_layout_parse(&a, q->layout, &layout, &e) ||
      mal_plan_make(&a, q->model, q->machine, "", &job, &layout, plan, &e) || mal_lower(&a, plan, program, &e))
    return fprintf(stderr, "%s\n", e.text), 1;
  for (int i = 0; i < RUNS; i++) {
    mal_simulate_options o = {.all_ranks = q->all_ranks};
    mal_simulated s;
    double from = cpu_s();
    if (mal_simulate(&a, program, &o, &s, &e) || !s.finished) return fprintf(stderr, "%s\n", e.text), 1;
    times[i] = cpu_s() - from;
    out[2] = (double)s.events;
  }
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  qsort(times, RUNS, sizeof *times, by_value);
  out[0] = times[RUNS / 2], out[1] = (double)used.ru_maxrss * 1024;
  mal_arena_free(&a);
  return 0;
}

int main(void) {
  int failed = 0;
  setenv("MALHA_CATALOG", MALHA_SOURCE "/catalog", 0);
  printf("%-34s %10s %12s %10s %12s\n", "step", "CPU", "of target", "memory", "of target");
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
    const question *q = &questions[i];
    double got[3] = {0};
    int ends[2];
    if (pipe(ends)) return 3;
    pid_t child = fork();
    if (child == 0) _exit(answer(q, got) || write(ends[1], got, sizeof got) != (ssize_t)sizeof got);
    close(ends[1]);
    if (read(ends[0], got, sizeof got) != (ssize_t)sizeof got) return 3;
    close(ends[0]);
    waitpid(child, NULL, 0);
    printf("%-34s %8.3f s %11.1f%% %6.0f MiB %11.1f%%  (%.0f events)\n", q->name, got[0], 100 * got[0] / q->target_s,
           got[1] / 0x1p20, 100 * got[1] / q->target_bytes, got[2]);
    failed |= got[0] > q->target_s || got[1] > q->target_bytes;
  }
  return failed;
}
