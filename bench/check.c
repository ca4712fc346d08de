/* How fast logs are judged: 100 MB of each kind of log, and of all kinds mixed, against the same file merely read and its lines counted;
 * and how much memory is held. Medians of three, in time of one core. */
#include "check/node/health.h"
#include "core/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 100000000, RUNS = 3 };

static int info(FILE *f, long i) {
  return fprintf(f, "node%ld:%ld:%ld [%ld] NCCL INFO Channel %02ld/0 : %ld[%ld] -> %ld[%ld] via P2P/CUMEM/read\n",
                 i / 8 % 64, 1000 + i % 997, 2000 + i % 997, i % 8, i % 16, i % 512, i % 8, (i + 1) % 512, (i + 1) % 8);
}
static int warn(FILE *f, long i) {
  return fprintf(
      f,
      "node%ld:%ld:%ld [%ld] misc/socket.cc:%ld NCCL WARN socketProgress: Connection closed by remote peer n%ld<%ld>\n",
      i % 64, 1000 + i % 997, i, i % 8, 40 + i % 8, i % 64, 30000 + i % 9999);
}
static int warn_other(FILE *f, long i) {
  return fprintf(f, "node%ld:%ld:%ld [%ld] graph/xml.cc:%ld NCCL WARN Something was odd at step %ld of %lx\n", i % 64,
                 1000 + i % 997, i, i % 8, 40 + i % 8, i, i * 7919);
}
static int xid(FILE *f, long i) {
  return fprintf(f, "[%6ld.%06ld] NVRM: Xid (PCI:0000:%02lx:00): %d, pid=%ld, name=python3, Ch 0000%04lx\n", i,
                 i % 1000000, 0x19 + i % 8 * 0x10, i % 3 ? 31 : 94, 1000 + i % 50000, i % 65536);
}
static int rows(FILE *f, long i) {
  long size = 1024L << (i % 20);
  double us = 20 + (double)size / 480e3, rate = (double)size / us * 1e-3;
  if (i % 20 == 0) fprintf(f, "# nThread 1 nGpus 8 minBytes 1024\n");
  return fprintf(f, "%12ld  %12ld     float     sum      -1  %8.2f  %7.2f  %7.2f      0  %8.2f  %7.2f  %7.2f      0\n",
                 size, size / 4, us, rate, rate * 1.75, us, rate, rate * 1.75);
}
static int environment(FILE *f, long i) {
  static const char *const lines[] = {
      "export NCCL_DEBUG=INFO # was NCCL_ALGO=Ring\n", "NCCL_IB_HCA=\"=mlx5_0,mlx5_1\"\n",
      "declare -x CUDA_DEVICE_MAX_CONNECTIONS=\"1\"\n", "PATH=/usr/bin:/bin\n", "+ export NCCL_SOCKET_IFNAME=eth0\n"};
  return fprintf(f, "%s", lines[i % 5]);
}
static int port(FILE *f, long i) {
  if (i % 24 == 0) fprintf(f, " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n");
  return fprintf(f, " %-10ld 5000             %.2f             %.2f             0.023\n", 2L << (i % 24), 196.1, 195.9);
}
static int drive(FILE *f, long i) {
  return fprintf(f, "  read: IOPS=%ld, BW=%ldMiB/s (6501MB/s)(60GiB/10001msec)\n", 6200 + i % 17, 6200 + i % 17);
}
static int mixed(FILE *f, long i) {
  int n = info(f, i);
  if (i % 1000 == 0) n += rows(f, i / 1000);
  if (i % 5000 == 0) n += xid(f, i);
  if (i % 5000 == 1) n += environment(f, i);
  return n;
}
static int prose(FILE *f, long i) {
  return fprintf(f, "step %ld loss 2.%06ld lr 3.0e-4 tokens/s/gpu 11%03ld mfu 41.%ld%%\n", i, i % 1000000, i % 1000,
                 i % 10);
}

static const struct {
  const char *name;
  int (*line)(FILE *f, long i);
} kinds[] = {{"NCCL INFO", info},   {"NCCL WARN", warn},  {"unknown NCCL WARN", warn_other},
             {"XIDs", xid},         {"nccl-tests", rows}, {"environment", environment},
             {"ib_write_bw", port}, {"fio", drive},       {"a training log", prose},
             {"all mixed", mixed}};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* In a process of its own, so that its peak of memory is its own. */
static void judged(const char *path, double *seconds, double *bytes) {
  int ends[2];
  double told[2] = {0};
  if (pipe(ends) != 0) exit(3);
  pid_t child = fork();
  if (child == 0) {
    mal_arena a;
    mal_health h;
    mal_error e;
    struct rusage use;
    double start = now();
    mal_arena_init(&a);
    mal_health_init(&h, &a);
    if (mal_health_read_file(&h, path, &e) != MAL_OK || mal_health_judge(&h, NULL, &e) != MAL_OK) _exit(3);
    told[0] = now() - start;
    getrusage(RUSAGE_SELF, &use);
    told[1] = (double)use.ru_maxrss * 1024;
    _exit(write(ends[1], told, sizeof told) != sizeof told);
  }
  int status = 1;
  if (read(ends[0], told, sizeof told) != sizeof told || waitpid(child, &status, 0) < 0 || status != 0) exit(3);
  close(ends[0]);
  close(ends[1]);
  *seconds = told[0];
  *bytes = told[1];
}

static double merely_read(const char *path) {
  double start = now();
  FILE *f = fopen(path, "r");
  static char buffer[1 << 16];
  long lines = 0;
  for (size_t n; f && (n = fread(buffer, 1, sizeof buffer, f));)
    for (const char *at = buffer; (at = memchr(at, '\n', (size_t)(buffer + n - at))); at++) lines++;
  if (f) fclose(f);
  return lines > 100000 ? now() - start : 0;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void one_kind(int kind) {
  char path[] = "/tmp/malha-bench-XXXXXX";
  int fd = mkstemp(path);
  FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
  double ours[RUNS], floor_s[RUNS], held = 0;
  if (!f) exit(3);
  for (long i = 0, written = 0; written < BYTES; i++) written += kinds[kind].line(f, i);
  fclose(f);
  for (int i = 0; i < RUNS; i++) {
    floor_s[i] = merely_read(path);
    judged(path, &ours[i], &held);
  }
  unlink(path);
  qsort(ours, RUNS, sizeof *ours, by_size);
  qsort(floor_s, RUNS, sizeof *floor_s, by_size);
  printf("100 MB of %-18s judged in %.2f s (target 1 s), %5.1f times reading it (%.3f s); %4.0f MB held at most\n",
         kinds[kind].name, ours[RUNS / 2], ours[RUNS / 2] / floor_s[RUNS / 2], floor_s[RUNS / 2], held / 1e6);
  fflush(stdout);
}

int main(int argc, char **argv) {
  for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++)
    if (argc < 2 || strcmp(argv[1], kinds[i].name) == 0) one_kind(i);
  return 0;
}
