/* All-reduce between rank threads: busbw (2 (n - 1) / n · bytes / time, as nccl-tests count) beside what memory and cores allow,
 * measured in the same run: the same sum done by as many threads, each on half of it, without any exchange.
 *
 *   comm [RANKS [MIB]]         medians of 31 rounds, and the best of them: on a busy machine the medians tell of the others */
#include "engine/comm/comm.h"
#include "engine/comm/reduce.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 31, MOST_RANKS = 64 };

typedef struct rank {
  pthread_t thread;
  mal_comm *c;
  int rank, ranks;
  int64_t elements;
  float *x;
  struct rank *all;
  pthread_barrier_t *barrier;
  double times[2][ROUNDS]; /* of rank 0: sum alone; all-reduce */
} rank;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "bench comm: %s\n", what);
  exit(1);
}

/* The floor: this thread's share of the sum of all buffers, put into all of them; no calls, only the work. */
static void sum_alone(const rank *r) {
  int64_t each = r->elements / r->ranks, from = r->rank * each;
  const void *ins[MOST_RANKS];
  void *outs[MOST_RANKS];
  for (int k = 0; k < r->ranks; k++) ins[k] = outs[k] = r->all[k].x + from;
  mal_reduce(MAL_F32, false, ins, r->ranks, outs, r->ranks, each);
}

static void all_reduce(const rank *r, int32_t group) {
  mal_error e;
  mal_comm_ticket t;
  mal_comm_call call = {.op = MAL_ALL_REDUCE, .dtype = MAL_F32, .in = {r->x}, .out = {r->x}, .elements = {r->elements}};
  if (mal_comm_shm.start(r->c, group, &call, &t, &e) || mal_comm_shm.wait(r->c, t, &e)) fail(e.text);
}

static void *run(void *of) {
  rank *r = of;
  mal_error e;
  int32_t group;
  mal_members all = {.dims = 1, .extent = {r->ranks}, .stride = {1}};
  if (mal_comm_shm.group(r->c, &all, "all", &group, &e)) fail(e.text);
  for (int64_t i = 0; i < r->elements; i++) r->x[i] = 1e-30f;
  for (int round = 0; round < ROUNDS; round++)
    for (int kind = 0; kind < 2; kind++) {
      pthread_barrier_wait(r->barrier);
      double from = now();
      if (kind)
        all_reduce(r, group);
      else
        sum_alone(r);
      pthread_barrier_wait(r->barrier);
      r->times[kind][round] = now() - from;
    }
  return NULL;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *times) {
  qsort(times, ROUNDS, sizeof *times, by_size);
  return times[ROUNDS / 2];
}

static void measure(int ranks, int mib) {
  static rank all[MOST_RANKS];
  mal_arena a = {0};
  mal_world *w;
  mal_error e;
  pthread_barrier_t barrier;
  size_t bytes = (size_t)mib << 20;
  mal_comm_options o = {.ranks = ranks, .deadline_s = 60, .oversubscribed = ranks > sysconf(_SC_NPROCESSORS_ONLN)};
  if (mal_comm_shm.open(&a, &o, &w, &e)) fail(e.text);
  pthread_barrier_init(&barrier, NULL, (unsigned)ranks);
  for (int i = 0; i < ranks; i++) {
    float *x = mmap(NULL, bytes + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (x == MAP_FAILED) fail("no memory");
    madvise(x, bytes + (2 << 20), MADV_HUGEPAGE);
    all[i] = (rank){.c = mal_comm_shm.end(w, i),
                    .rank = i,
                    .ranks = ranks,
                    .elements = (int64_t)bytes / 4,
                    .x = x,
                    .all = all,
                    .barrier = &barrier};
  }
  for (int i = 0; i < ranks; i++) pthread_create(&all[i].thread, NULL, run, &all[i]);
  for (int i = 0; i < ranks; i++) pthread_join(all[i].thread, NULL);
  double floor = median(all[0].times[0]), took = median(all[0].times[1]);
  double payload = 2.0 * (ranks - 1) / ranks * (double)bytes;
  printf(
      "all-reduce %2d ranks %3d MiB: busbw %5.1f GB/s (best %5.1f), the bare sum %5.1f GB/s (best %5.1f), ratio %.2f\n",
      ranks, mib, payload / took / 1e9, payload / all[0].times[1][0] / 1e9, payload / floor / 1e9,
      payload / all[0].times[0][0] / 1e9, floor / took);
  for (int i = 0; i < ranks; i++) munmap(all[i].x, bytes + (2 << 20));
  pthread_barrier_destroy(&barrier);
  mal_comm_shm.close(w);
  mal_arena_free(&a);
}

int main(int argc, char **argv) {
  int ranks = argc > 1 ? atoi(argv[1]) : 0, mib = argc > 2 ? atoi(argv[2]) : 0;
  if (argc > 1 && (ranks < 1 || ranks > MOST_RANKS)) fail("ranks: 1 to 64");
  static const int cases[][2] = {{2, 1}, {2, 16}, {2, 64}, {8, 16}};
  if (argc > 1)
    measure(ranks, mib > 0 ? mib : 16);
  else
    for (int i = 0; i < 4; i++) measure(cases[i][0], cases[i][1]);
  return 0;
}
