/* A cluster of 16,384 GPUs with every cable, from the ask to the text of its list: CPU seconds, median of five, against one second,
 * and against copying the text of its list byte by byte, which is the least that writing it takes. Exit 1 when the second is missed. */
#include "design/design.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 5 };
static const double target_s = 1;

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *times) {
  qsort(times, RUNS, sizeof *times, by_value);
  return times[RUNS / 2];
}

static double copy_s(const char *text) {
  size_t length = strlen(text);
  volatile char *to = malloc(length);
  double from = cpu_s();
  for (size_t i = 0; to && i < length; i++) to[i] = text[i];
  double s = cpu_s() - from;
  free((void *)(uintptr_t)to);
  return s;
}

int main(void) {
  double times[RUNS], copies[RUNS];
  long long cables = 0, bytes = 0;
  setenv("MALHA_CATALOG", MALHA_SOURCE "/catalog", 0);
  for (int i = 0; i < RUNS; i++) {
    mal_arena a;
    mal_error e = {0};
    mal_design_ask k;
    mal_arena_init(&a);
    mal_design *d = MAL_NEW(&a, mal_design);
    mal_design_ask_default(&k);
    k.node = "dgx-h100", k.gpus = 16384;
    double from = cpu_s();
    if (mal_design_make(&a, &k, d, &e)) return fprintf(stderr, "%s\n", e.text), 1;
    const char *list = mal_design_cabling_csv(&a, d);
    times[i] = cpu_s() - from;
    copies[i] = copy_s(list);
    cables = (long long)d->n_cables, bytes = (long long)strlen(list);
    mal_arena_free(&a);
  }
  double s = median(times), least = median(copies);
  printf(
      "16,384 GPUs: %lld cables, a list of %.1f MB: %.3f CPU s, %.2f of the second, %.0f times the copy of the list\n",
      cables, (double)bytes / 1e6, s, s / target_s, s / least);
  return s > target_s;
}
