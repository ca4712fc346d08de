/* What this computer can do, measured with the engine's own kernels and communication, as a machine file that price takes.
 *
 * One thread a core at once, as ranks run; each quantity is the best of several tries in each thread, and the mean over threads: what
 * the machine gives a rank when nothing else runs. */
#ifndef MAL_ENGINE_MEASURE_H
#define MAL_ENGINE_MEASURE_H
#include "core/arena.h"
#include "core/status.h"
#include <stdint.h>

enum { MAL_MEASURED_PRODUCTS = 7 };

typedef struct mal_measured_product {
  const char *pass; /* forward, input-gradient, weight-gradient */
  int64_t m, n, k;  /* rows, outputs, inputs */
  double flops_per_s;
} mal_measured_product;

typedef struct mal_measured {
  int64_t cores, memory_bytes;
  mal_measured_product products[MAL_MEASURED_PRODUCTS]; /* forward of growing k; the three passes of a layer's shape */
  double flops_per_s;                                   /* the best of them: the peak that shares are of */
  double gemm;                                          /* share of it that the three passes reach together */
  double k_half;                        /* k at which a product of 512 × 512 reaches half of its rate at large k */
  double attention, attention_backward; /* share of the peak; backward's rate over forward's */
  double memory_bytes_per_s;            /* read and written together, of a sum of arrays larger than the caches */
  double launch_s;                      /* one kernel on next to nothing */
  double copy_bytes_per_s;              /* ring convention: what an all-reduce of two ranks moves; 0: one core only */
  double meeting_s;                     /* an all-reduce of four bytes between two ranks */
  double disk_write_bytes_per_s, disk_read_bytes_per_s;
} mal_measured;

/* folder: where the disk is measured (a file there is written, read and removed). Takes a few seconds. */
mal_status mal_measure(mal_arena *a, const char *folder, mal_measured *m, mal_error *e);
/* A machine file for so many ranks: the catalogue's cpu and computer with what was measured. */
char *mal_measured_machine(mal_arena *a, const mal_measured *m, int64_t ranks);
#endif
