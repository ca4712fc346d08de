/* Layouts a second: how long malha plan takes to prove the best layout, on one thread and on all. Median of three.
 * Peers, one core, layouts evaluated a second: Calculon 67 to 260, llm-analysis 3,300 to 4,300. */
#include "search/search.h"
#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 3 };

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_s(const mal_plan *asked, int threads, mal_search_result *r) {
  double seconds[RUNS];
  mal_search_options o = {.threads = threads};
  mal_error e;
  for (int i = 0; i < RUNS; i++) {
    mal_arena a;
    mal_arena_init(&a);
    if (mal_search(&a, asked, &o, r, &e) != MAL_OK) {
      fprintf(stderr, "%s\n", e.text);
      exit(3);
    }
    seconds[i] = r->seconds;
    mal_arena_free(&a);
  }
  qsort(seconds, RUNS, sizeof *seconds, by_size);
  return seconds[RUNS / 2];
}

static void run(const char *model, const char *machine, int64_t batch) {
  mal_arena a;
  mal_job job;
  mal_layout layout;
  mal_plan asked;
  mal_search_result r;
  mal_error e;
  mal_arena_init(&a);
  mal_job_default(&job);
  mal_layout_default(&layout);
  job.global_batch = batch;
  if (mal_plan_open(&a, model, machine, "", &job, &layout, &asked, &e) != MAL_OK) {
    fprintf(stderr, "%s\n", e.text);
    exit(3);
  }
  double one = median_s(&asked, 1, &r), all = median_s(&asked, 0, &r);
  printf("%-14s %-20s %10.3g %8.0f %8.2f %8.2f %10.3g %7.2f\n", model, machine, r.valid, r.evaluated, one, all,
         r.valid / one, one / all);
  mal_arena_free(&a);
}

/* With arguments: MODEL MACHINE BATCH, that one alone. */
int main(int argc, char **argv) {
  printf("%-14s %-20s %10s %8s %8s %8s %10s %7s\n", "model", "machine", "valid", "exact", "1 thr s", "all s", "valid/s",
         "speedup");
  if (argc == 4) {
    run(argv[1], argv[2], atoll(argv[3]));
    return 0;
  }
  run("llama-3-8b", "8xh100-sxm", 512);
  run("gpt3-175b", "128x8xa100-80-sxm", 1536);
  run("gpt3-175b", "512x8xa100-80-sxm", 1536);
  run("mixtral-8x7b", "8x8xh100-sxm", 512);
  return 0;
}
