/* How fast logs are judged: 100 MB of NCCL_DEBUG=INFO lines with nccl-tests tables and kernel lines among them, against the same file
 * merely read and its lines counted. Medians of five, in time of one core. */
#include "check/node/health.h"
#include "core/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 100000000, RUNS = 5 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(FILE *f) {
  long written = 0;
  for (long i = 0; written < BYTES; i++) {
    written +=
        fprintf(f, "node%ld:%ld:%ld [%ld] NCCL INFO Channel %02ld/0 : %ld[%ld] -> %ld[%ld] via P2P/CUMEM/read\n",
                i / 8 % 64, 1000 + i % 997, 2000 + i % 997, i % 8, i % 16, i % 512, i % 8, (i + 1) % 512, (i + 1) % 8);
    if (i % 1000 == 0)
      written += fprintf(f, "  1073741824     268435456     float     sum      -1   4000.0  268.44  469.76      0   "
                            "4000.0  268.44  469.76      0\n");
    if (i % 5000 == 0) written += fprintf(f, "[ 1021.5] NVRM: Xid (PCI:0000:ab:00): 43, pid=1, Ch 00000008\n");
  }
}

static double judged(const char *path) {
  mal_arena a;
  mal_paste p;
  mal_health h;
  mal_error e;
  double start = now();
  mal_arena_init(&a);
  mal_health_init(&h, &a);
  if (mal_paste_load(&a, path, &p, &e) != MAL_OK || mal_health_read(&h, &p, &e) != MAL_OK ||
      mal_health_judge(&h, NULL, &e) != MAL_OK)
    exit(3);
  if (h.nccl_lines < 900000) exit(3);
  mal_arena_free(&a);
  return now() - start;
}

static double merely_read(const char *path) {
  double start = now();
  FILE *f = fopen(path, "r");
  static char buffer[1 << 16];
  long lines = 0;
  for (size_t n; f && (n = fread(buffer, 1, sizeof buffer, f));)
    for (const char *at = buffer; (at = memchr(at, '\n', (size_t)(buffer + n - at))); at++) lines++;
  if (f) fclose(f);
  return lines > 900000 ? now() - start : 0;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

int main(void) {
  char path[] = "/tmp/malha-bench-XXXXXX";
  int fd = mkstemp(path);
  FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (!f) return 3;
  fill(f);
  fclose(f);
  double ours[RUNS], floor_s[RUNS];
  for (int i = 0; i < RUNS; i++) {
    floor_s[i] = merely_read(path);
    ours[i] = judged(path);
  }
  unlink(path);
  qsort(ours, RUNS, sizeof *ours, by_size);
  qsort(floor_s, RUNS, sizeof *floor_s, by_size);
  printf("100 MB of logs judged in %.2f s (target 1 s), %.1f times the time to read them and count lines (%.3f s)\n",
         ours[RUNS / 2], ours[RUNS / 2] / floor_s[RUNS / 2], floor_s[RUNS / 2]);
  return 0;
}
