/* Time planned from this computer's own measurement against time measured, over layouts; and how much of its best matrix product a step
 * reaches: FLOPs of the step over its time, against the rate of the best product that mal_measure finds in the same run, all cores at once.
 *
 *   bench_train [STEPS]
 *
 * Layouts with at most as many ranks as cores, and apart those with more. Two figures each, medians over the steps after the first:
 * planned over measured on the clock, what a user waits for, when nothing else runs; and planned over what the ranks had of the cores,
 * max(the rank that had most, all ranks / cores), which others on the computer do not lengthen. Last, the medians of their distances
 * from 1 over all layouts. */
#include "engine/train.h"
#include "engine/measure.h"
#include "machine/here.h"
#include "price/price.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LLAMA "layers=6,hidden=384,heads=6,vocab=8192,gated=1"
#define DEEP  "layers=8,hidden=256,heads=4,vocab=4096,positions=512"
#define SMALL "layers=4,hidden=256,heads=4,vocab=256,gated=1"

static const struct {
  const char *model, *layout;
  int64_t seq, batch, ranks;
} cases[] = {
    {LLAMA, "micro-batch=1", 256, 4, 1},
    {LLAMA, "micro-batch=4", 256, 4, 1},
    {LLAMA, "micro-batch=2,recompute=full", 256, 4, 1},
    {LLAMA, "micro-batch=2,recompute=selective", 128, 8, 1},
    {SMALL, "micro-batch=2", 512, 4, 1},
    {SMALL, "micro-batch=1,recompute=full", 512, 4, 1},
    {SMALL, "micro-batch=8", 64, 16, 1},
    {DEEP, "micro-batch=2", 128, 8, 1},
    {DEEP, "micro-batch=8,recompute=selective", 128, 8, 1},
    {LLAMA, "micro-batch=1", 256, 4, 2},
    {LLAMA, "zero=0,micro-batch=2", 256, 4, 2},
    {LLAMA, "tp=2,micro-batch=1", 256, 4, 2},
    {LLAMA, "tp=2,micro-batch=2,sequence-parallel=off", 256, 4, 2},
    {LLAMA, "pp=2,micro-batch=1", 256, 8, 2},
    {LLAMA, "pp=2,micro-batch=1,schedule=zb-h1", 256, 8, 2},
    {SMALL, "micro-batch=2", 512, 8, 2},
    {SMALL, "tp=2,micro-batch=2", 512, 4, 2},
    {SMALL, "pp=2,micro-batch=1,schedule=interleaved,vpp=2", 512, 8, 2},
    {DEEP, "micro-batch=4,recompute=full", 128, 8, 2},
    {DEEP, "pp=2,micro-batch=2,schedule=gpipe", 128, 16, 2},
    {LLAMA, "micro-batch=1", 256, 8, 4},
    {LLAMA, "tp=2,micro-batch=1", 256, 4, 4},
    {LLAMA, "tp=2,pp=2,micro-batch=1", 256, 8, 4},
    {SMALL, "tp=4,micro-batch=2", 512, 4, 4},
    {SMALL, "tp=2,pp=2,micro-batch=1", 512, 8, 8},
    {DEEP, "pp=4,micro-batch=1", 128, 16, 8},
    {DEEP, "micro-batch=1", 128, 16, 8},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct distances {
  double clock[CASES], cores[CASES];
  int n;
} distances;

static mal_status tokens(void *context, int64_t index, int64_t *ids, mal_error *e) {
  const mal_plan *plan = context;
  (void)e;
  for (int64_t j = 0; j <= plan->job.seq; j++) ids[j] = (index * 31 + j * 7) % plan->model.vocab;
  return MAL_OK;
}

static mal_status one(size_t i, const char *machine, const mal_measured *m, int64_t steps, distances *d, mal_error *e) {
  mal_arena a;
  mal_arena_init(&a);
  mal_job job;
  mal_layout layout;
  mal_plan *plan = MAL_NEW(&a, mal_plan);
  mal_program *program = MAL_NEW(&a, mal_program);
  mal_estimate *estimate = MAL_NEW(&a, mal_estimate);
  mal_train_summary s = {0};
  mal_job_default(&job);
  mal_layout_default(&layout);
  job.precision = MAL_P_FP32, job.seq = cases[i].seq, job.global_batch = cases[i].batch;
  mal_status status = mal_layout_parse(&a, cases[i].layout, &layout, e);
  layout.dp = cases[i].ranks / (layout.tp * layout.pp);
  if (!status) status = mal_plan_make(&a, cases[i].model, machine, "malha", &job, &layout, plan, e);
  if (!status) status = mal_lower(&a, plan, program, e);
  if (!status) status = mal_price(&a, program, estimate, e);
  mal_tokens_source source = {tokens, plan};
  mal_train_request q = {.program = program,
                         .device = &mal_cpu,
                         .backend = &mal_comm_shm,
                         .source = &source,
                         .steps = steps,
                         .rate = {3e-4, 3e-5, MAL_RATE_COSINE, 1, steps},
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .eps = 1e-8,
                         .weight_decay = 0.1,
                         .clip = 1,
                         .oversubscribed = cases[i].ranks > m->cores};
  if (!status) status = mal_train_run(&a, &q, &s, e);
  if (!status) {
    double used_s = fmax(s.rank_cpu_s, s.all_cpu_s / (double)m->cores);
    d->clock[d->n] = fabs(estimate->step_s / s.step_s - 1), d->cores[d->n++] = fabs(estimate->step_s / used_s - 1);
    printf("%-54s %-44s %lld ranks  %5.1f %% of the best product  planned / clock %.2f  / cores %.2f\n", cases[i].model,
           cases[i].layout, (long long)cases[i].ranks,
           100 * s.flops / s.step_s / (m->flops_per_s * fmin((double)cases[i].ranks, (double)m->cores)),
           estimate->step_s / s.step_s, estimate->step_s / used_s);
    fflush(stdout);
  }
  mal_arena_free(&a);
  return status;
}

static mal_status write_machine(mal_arena *a, const char *path, const mal_measured *m, int64_t ranks) {
  FILE *f = fopen(path, "w");
  if (!f) return MAL_FAULT;
  fputs(mal_measured_machine(a, m, ranks), f);
  return fclose(f) == 0 ? MAL_OK : MAL_FAULT;
}

static int by_size(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_size);
  return n ? x[n / 2] : 0;
}

static void tell(const char *which, distances *d) {
  if (d->n)
    printf("%s: %d layouts, planned off by %.1f %% on the clock, %.1f %% of time on cores (medians)\n", which, d->n,
           100 * median(d->clock, d->n), 100 * median(d->cores, d->n));
}

int main(int argc, char **argv) {
  mal_arena a;
  mal_error e = {0};
  mal_measured m;
  distances few = {0}, more = {0};
  char path[] = "/tmp/malha-bench-XXXXXX.yaml";
  mal_arena_init(&a);
  int file = mkstemps(path, 5);
  mal_status status = file < 0 ? mal_fail(&e, MAL_FAULT, "no file in /tmp") : mal_measure(&a, "/tmp", &m, &e);
  if (file >= 0) close(file);
  if (!status) printf("best product %.1f GFLOP/s a core, %lld cores\n", m.flops_per_s * 1e-9, (long long)m.cores);
  for (size_t i = 0; i < sizeof cases / sizeof *cases && !status; i++) {
    status = write_machine(&a, path, &m, cases[i].ranks);
    if (!status) status = one(i, path, &m, argc > 1 ? atoi(argv[1]) : 7, cases[i].ranks > m.cores ? &more : &few, &e);
  }
  if (file >= 0) unlink(path);
  tell("ranks up to cores", &few);
  tell("more ranks than cores", &more);
  if (status) fprintf(stderr, "bench_train: %s\n", e.text);
  mal_arena_free(&a);
  return (int)status;
}
