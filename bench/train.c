/* How much of this computer's best matrix product a training step reaches: FLOPs of the step over its time, against the rate of the best
 * product that mal_measure finds in the same run, all cores at once. And the time planned from that measurement beside it.
 *
 *   bench_train [STEPS]
 *
 * Four shapes, one rank and, where there are two cores, two ranks split each way. Median over the steps after the first. Nothing else
 * should run: time on the clock is what a user waits for. */
#include "engine/train.h"
#include "engine/measure.h"
#include "machine/here.h"
#include "price/price.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct {
  const char *model, *layout;
  int64_t seq, batch, ranks;
} cases[] = {
    {"layers=6,hidden=384,heads=6,vocab=8192,gated=1", "micro-batch=1", 256, 4, 1},
    {"layers=6,hidden=384,heads=6,vocab=8192,gated=1", "micro-batch=4", 256, 4, 1},
    {"layers=4,hidden=256,heads=4,vocab=256,gated=1", "micro-batch=2", 512, 4, 1},
    {"layers=8,hidden=256,heads=4,vocab=4096,positions=512", "micro-batch=2", 128, 8, 1},
    {"layers=6,hidden=384,heads=6,vocab=8192,gated=1", "dp=2,micro-batch=1", 256, 4, 2},
    {"layers=6,hidden=384,heads=6,vocab=8192,gated=1", "tp=2,micro-batch=1", 256, 4, 2},
    {"layers=6,hidden=384,heads=6,vocab=8192,gated=1", "pp=2,micro-batch=1", 256, 8, 2},
};

static mal_status tokens(void *context, int64_t index, int64_t *ids, mal_error *e) {
  const mal_plan *plan = context;
  (void)e;
  for (int64_t j = 0; j <= plan->job.seq; j++) ids[j] = (index * 31 + j * 7) % plan->model.vocab;
  return MAL_OK;
}

static mal_status one(size_t i, const char *machine, const mal_measured *m, int64_t steps, mal_error *e) {
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
                         .clip = 1};
  if (!status) status = mal_train_run(&a, &q, &s, e);
  if (!status)
    printf("%-54s %-20s %5.1f %% of the best product; planned / measured %.2f\n", cases[i].model, cases[i].layout,
           100 * s.flops / s.step_s / (m->flops_per_s * (double)cases[i].ranks), estimate->step_s / s.step_s);
  mal_arena_free(&a);
  return status;
}

/* The file plans one rank a core; here for as many ranks as the case has. */
static mal_status write_machine(mal_arena *a, const char *path, mal_measured m, int64_t ranks) {
  m.cores = ranks;
  FILE *f = fopen(path, "w");
  if (!f) return MAL_FAULT;
  fputs(mal_measured_machine(a, &m), f);
  return fclose(f) == 0 ? MAL_OK : MAL_FAULT;
}

int main(int argc, char **argv) {
  mal_arena a;
  mal_error e = {0};
  mal_measured m;
  char path[] = "/tmp/malha-bench-XXXXXX.yaml";
  mal_arena_init(&a);
  int file = mkstemps(path, 5);
  mal_status status = file < 0 ? mal_fail(&e, MAL_FAULT, "no file in /tmp") : mal_measure(&a, "/tmp", &m, &e);
  if (file >= 0) close(file);
  if (!status) printf("best product %.1f GFLOP/s a core, %lld cores\n", m.flops_per_s * 1e-9, (long long)m.cores);
  for (size_t i = 0; i < sizeof cases / sizeof *cases && !status; i++) {
    if (cases[i].ranks > m.cores) continue;
    status = write_machine(&a, path, m, cases[i].ranks);
    if (!status) status = one(i, path, &m, argc > 1 ? atoi(argv[1]) : 7, &e);
  }
  if (file >= 0) unlink(path);
  if (status) fprintf(stderr, "bench_train: %s\n", e.text);
  mal_arena_free(&a);
  return (int)status;
}
