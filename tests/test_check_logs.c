/* Logs as people paste them: labels of ranks before lines, several runs, rows cut off, no name of the collective; environments in every
 * form that sets one, and in those that set nothing; encodings. What must come out is worked out by hand from the text. */
#include "check/node/health.h"
#include "core/file.h"
#include "test.h"
#include <stdlib.h>
#include <unistd.h>

static void read_bytes(mal_health *h, const char *name, const char *text, size_t length) {
  mal_paste p;
  mal_error e;
  mal_paste_make(h->arena, name, text, length, &p);
  assert_ok(mal_health_read(h, &p, &e), e);
}

static void read_text(mal_arena *a, mal_health *h, const char *name, const char *text) {
  mal_arena_init(a);
  mal_health_init(h, a);
  read_bytes(h, name, text, strlen(text));
}

/* Every form sets NCCL_P2P_DISABLE to 1 (and perhaps others). */
static void test_environment_forms(void **state) {
  static const char *const forms[] = {
      "NCCL_P2P_DISABLE=1\n",
      "export NCCL_P2P_DISABLE=1\n",
      "export NCCL_P2P_DISABLE=\"1\"\n",
      "export NCCL_P2P_DISABLE='1'   # only GeForce needs it\n",
      "NCCL_DEBUG=INFO NCCL_P2P_DISABLE=1 ./all_reduce_perf -b 8\n",
      "declare -x NCCL_P2P_DISABLE=\"1\"\n",
      "setenv NCCL_P2P_DISABLE 1\n",
      "+ export NCCL_P2P_DISABLE=1\n",
      "++ NCCL_P2P_DISABLE=1\n",
      "+(run.sh:12): export 'NCCL_P2P_DISABLE=1'\n",
      "[1,3]<stdout>:NCCL_P2P_DISABLE=1\n",
      "3: NCCL_P2P_DISABLE=1\n",
      "node7: NCCL_P2P_DISABLE=1\n",
      "2026-05-21T10:03:11.123456Z NCCL_P2P_DISABLE=1\n",
      "docker run --rm --env NCCL_P2P_DISABLE=1 image\n",
      "docker run -e NCCL_P2P_DISABLE=1 -e \"NCCL_DEBUG=INFO\" image\n",
      "docker run --env=NCCL_P2P_DISABLE=1 image\n",
      "mpirun -np 8 -x NCCL_DEBUG=INFO -x NCCL_P2P_DISABLE=1 ./a\n",
      "mpiexec -genv NCCL_P2P_DISABLE 1 ./a\n",
      "srun --export=ALL,NCCL_IB_HCA==mlx5_0,mlx5_1,NCCL_P2P_DISABLE=1 ./a\n",
      "#SBATCH --export=ALL,NCCL_P2P_DISABLE=1\n",
      "srun bash -c \"export NCCL_P2P_DISABLE=1; ./a\"\n",
      "if true; then export NCCL_P2P_DISABLE=1; fi\n",
      "cd /a && env NCCL_P2P_DISABLE=1 ./a\n",
      "user@host:~$ NCCL_P2P_DISABLE=1 ./a\n",
      "ENV NCCL_P2P_DISABLE=1\n",
      "ENV NCCL_P2P_DISABLE 1\n",
      "Environment=\"NCCL_DEBUG=WARN NCCL_P2P_DISABLE=1\"\n",
      "export NCCL_P2P_DISABLE=${NCCL_P2P_DISABLE:-1}\n",
      "  \"NCCL_P2P_DISABLE\": \"1\",\n",
      "{\"Env\": [\"PATH=/usr/bin\", \"NCCL_P2P_DISABLE=1\", \"NCCL_DEBUG=INFO\"]}\n",
      "[{\"name\":\"NCCL_P2P_DISABLE\",\"value\":\"1\"}]\n",
      "        - name: NCCL_P2P_DISABLE\n          value: \"1\"\n",
      "      {\n        \"name\": \"NCCL_P2P_DISABLE\",\n        \"value\": \"1\"\n      }\n",
      "environment:\n  NCCL_P2P_DISABLE: 1   # yes\n",
      "environment:\n  - NCCL_P2P_DISABLE=1\n",
      "os.environ[\"NCCL_P2P_DISABLE\"] = \"1\"\n",
      "A=1\0NCCL_P2P_DISABLE=1\0B=2", /* /proc/PID/environ: its length is given below */
      "export NCCL_P2P_DISABLE=0\nexport NCCL_P2P_DISABLE=1\n",
      "export NCCL_P2P_DISABLE=1\nexport NCCL_P2P_DISABLE=0\nexport NCCL_P2P_DISABLE=1\n",
      "export NCCL_P2P_DISABLE=1\nunset NCCL_P2P_DISABLE\nexport NCCL_P2P_DISABLE=1\n",
      "GPU0:10:20 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n",
  };
  (void)state;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    mal_arena a;
    mal_health h;
    mal_error e;
    const mal_variable *found = NULL;
    mal_arena_init(&a);
    mal_health_init(&h, &a);
    read_bytes(&h, "env", forms[i], mal_starts(forms[i], "A=1") ? 26 : strlen(forms[i]));
    for (int k = 0; k < h.n_variables; k++)
      if (strcmp(h.variables[k].name, "NCCL_P2P_DISABLE") == 0 && !h.variables[k].gone) found = &h.variables[k];
    if (!found || strcmp(found->value, "1") != 0)
      fail_msg("%s sets NCCL_P2P_DISABLE to %s", forms[i], found ? found->value : "nothing");
    assert_ok(mal_health_judge(&h, NULL, &e), e);
    if (h.n_findings < 1 || h.findings[0].rule != MAL_RULE_ENVIRONMENT || h.findings[0].severity != MAL_SEV_ERROR)
      fail_msg("%s: not found harmful", forms[i]);
    mal_arena_free(&a);
  }
}

static void test_environment_sets_nothing(void **state) {
  static const char *const forms[] = {
      "# export NCCL_P2P_DISABLE=1\n",
      "export NCCL_DEBUG=INFO # was NCCL_P2P_DISABLE=1\n",
      "We set NCCL_P2P_DISABLE=1 on GeForce only.\n",
      "export NCCL_P2P_DISABLE=1\nunset NCCL_P2P_DISABLE\n",
      "export NCCL_P2P_DISABLE=1\nexport NCCL_P2P_DISABLE=0\n",
      "export NCCL_P2P_DISABLE=$MINE\n",
      "export NCCL_P2P_DISABLE=\n",
      "echo NCCL_P2P_DISABLE=1\n",
      "  # - name: NCCL_P2P_DISABLE\n  #   value: \"1\"\n",
  };
  (void)state;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    mal_arena a;
    mal_health h;
    mal_error e;
    read_text(&a, &h, "env", forms[i]);
    assert_ok(mal_health_judge(&h, NULL, &e), e);
    if (h.n_findings) fail_msg("%s: %s", forms[i], h.findings[0].what);
    mal_arena_free(&a);
  }
}

static void test_quoted_values(void **state) {
  static const struct {
    const char *text, *name, *value;
  } forms[] = {
      {"export NCCL_ALGO=\"Ring\"\n", "NCCL_ALGO", "Ring"},
      {"export NCCL_IB_HCA=\"=mlx5_0,mlx5_1\" # both\n", "NCCL_IB_HCA", "=mlx5_0,mlx5_1"},
      {"NCCL_SOCKET_IFNAME='eth0'\n", "NCCL_SOCKET_IFNAME", "eth0"},
      {"export NCCL_X=\"a b\" NCCL_Y='c'\n", "NCCL_Y", "c"},
      {"srun --export=ALL,NCCL_IB_HCA=mlx5_0,mlx5_1,NCCL_ALGO=Tree ./a\n", "NCCL_IB_HCA", "mlx5_0,mlx5_1"},
      {"  NCCL_ALGO: Ring # of the paper\n", "NCCL_ALGO", "Ring"},
      {"NCCL_ALGO=\"Ring\n", "NCCL_ALGO", "Ring"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    mal_arena a;
    mal_health h;
    const char *value = NULL;
    read_text(&a, &h, "env", forms[i].text);
    for (int k = 0; k < h.n_variables; k++)
      if (strcmp(h.variables[k].name, forms[i].name) == 0) value = h.variables[k].value;
    if (!value || strcmp(value, forms[i].value) != 0) fail_msg("%s: %s", forms[i].text, value ? value : "nothing");
    mal_arena_free(&a);
  }
}

#define HEAD "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
/* Rates of an eight-rank all-reduce: busbw = algbw * 14/8. */
#define ALL_REDUCE                                                                                                     \
  "   268435456      67108864     float     sum      -1   1100.0  244.03  427.05      0\n"                             \
  "   536870912     134217728     float     sum      -1   2100.0  255.65  447.39      0\n"                             \
  "  1073741824     268435456     float     sum      -1   4000.0  268.44  469.77      0\n"

static void test_labels(void **state) {
  static const char *const labels[] = {"",
                                       "[1,0]<stdout>:",
                                       "[1,0]<stdout>: ",
                                       "0: ",
                                       " 3: ",
                                       "node3: ",
                                       "[node3:1234] ",
                                       "worker-0  | ",
                                       "2026-05-21T10:03:11.123456Z ",
                                       "(Worker pid=12, ip=10.0.0.1) ",
                                       "Tue May 21 10:03:11 2026[1,0]<stdout>:"};
  static const struct {
    const char *text;
    mal_bench_kind kind;
    int points;
  } logs[] = {
      {"# nThread 1 nGpus 8\n" HEAD ALL_REDUCE, MAL_BENCH_NCCL, 3},
      {" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
       " 65536      5000             196.1              195.9              0.373\n"
       " 8388608    5000             196.2              196.1              0.003\n",
       MAL_BENCH_IB, 2},
      {"Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n"
       " 0     55.10     55.00\n\nSUM host_to_device_memcpy_ce 110.1\n",
       MAL_BENCH_COPY, 2},
      {"  read: IOPS=6200, BW=6200MiB/s (6501MB/s)(60GiB/10001msec)\n", MAL_BENCH_STORAGE, 1},
      {"IoType: READ XferType: GPUD Threads: 8 DataSetSize: 1/1(KiB) IOSize: 1024(KiB) Throughput: 6.1 GiB/sec, x\n",
       MAL_BENCH_STORAGE, 1},
  };
  (void)state;
  for (size_t k = 0; k < sizeof labels / sizeof *labels; k++)
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
      mal_arena a;
      mal_health h;
      mal_arena_init(&a);
      mal_writing w = {.arena = &a};
      for (const char *at = logs[i].text; *at;) {
        size_t n = strcspn(at, "\n");
        mal_write(&w, "%s%.*s\n", labels[k], (int)n, at);
        at += n + 1;
      }
      mal_health_init(&h, &a);
      read_bytes(&h, "log", w.text, w.used);
      if (h.n_benches != 1 || h.benches[0].kind != logs[i].kind || h.benches[0].n_points != logs[i].points)
        fail_msg("'%s' before %s: %d tables, %d points", labels[k], logs[i].text, h.n_benches,
                 h.n_benches ? h.benches[0].n_points : 0);
      mal_arena_free(&a);
    }
}

/* Two nodes that pdsh tells apart, their rows in turn. */
static void test_interleaved(void **state) {
  mal_arena a;
  mal_health h;
  (void)state;
  read_text(
      &a, &h, "log",
      "n1: # nThread 1\nn2: # nThread 1\nn1:   268435456      67108864     float     sum      -1   1100.0  244.03  "
      "427.05      0\nn2:   268435456      67108864     float     sum      -1   2200.0  122.02  213.53      0\nn1:   "
      "536870912     134217728     float     sum      -1   2100.0  255.65  447.39      0\nn2:   536870912     "
      "134217728     float     sum      -1   4200.0  127.83  223.70      0\n");
  assert_int_equal(h.n_benches, 2);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(h.benches[i].n_points, 2);
    assert_int_equal(h.benches[i].ranks, 8);
    assert_string_equal(h.benches[i].hosts[0], i ? "n2" : "n1");
    assert_true(h.benches[i].points[1].busbw == (i ? 223.70e9 : 447.39e9));
  }
  mal_arena_free(&a);
}

static void test_collective_from_columns(void **state) {
  static const struct {
    const char *rows, *what;
    int ranks;
  } logs[] = {
      {ALL_REDUCE, "all_reduce", 8},
      /* counts of one rank, an operation: 7/8 */
      {"  1073741824      33554432     float     sum      -1   4000.0  268.44  234.88      0\n", "reduce_scatter", 8},
      {"  1073741824      33554432     float    none      -1   4000.0  268.44  234.88      0\n",
       "all_gather or alltoall", 8},
      {"  1073741824     268435456     float    none       0   4000.0  268.44  268.44      0\n", "broadcast", 0},
      {"  1073741824     268435456     float     sum       0   4000.0  268.44  268.44      0\n", "reduce", 0},
      {"  1073741824     268435456     float    none      -1   4000.0  268.44  268.44      0\n", "sendrecv", 0},
      {"  1073741824     268435456     float     sum   4000.0  268.44  469.77      0\n", "all_reduce", 8},
  };
  (void)state;
  for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
    mal_arena a;
    mal_health h;
    read_text(&a, &h, "log.txt", logs[i].rows);
    assert_int_equal(h.n_benches, 1);
    assert_string_equal(h.benches[0].what, logs[i].what);
    assert_int_equal(h.benches[0].ranks, logs[i].ranks);
    mal_arena_free(&a);
  }
}

/* Cut off anywhere, the rows that stand whole are what is judged. */
static void test_cut_anywhere(void **state) {
  static const char text[] = "# nThread 1 all_reduce_perf\n" HEAD ALL_REDUCE;
  size_t third = (size_t)(strstr(text, "  1073741824") - text);
  (void)state;
  for (size_t n = third; n <= sizeof text - 1; n++)
    for (int ended = 0; ended < 2; ended++) {
      mal_arena a;
      mal_health h;
      mal_arena_init(&a);
      mal_health_init(&h, &a);
      char *cut = mal_print(&a, "%.*s%s", (int)n, text, ended ? "\n" : "");
      read_bytes(&h, "log", cut, strlen(cut));
      assert_int_equal(h.n_benches, 1);
      const mal_bench *b = &h.benches[0];
      assert_int_equal(b->ranks, 8);
      assert_true(b->n_points == 2 || (b->n_points == 3 && b->points[2].busbw > 465e9 && b->points[2].busbw < 470e9));
      mal_arena_free(&a);
    }
}

static void test_two_runs(void **state) {
  mal_arena a;
  mal_health h;
  (void)state;
  read_text(&a, &h, "both.log",
            "$ ./all_reduce_perf -b 256M\n# nThread 1\n" HEAD ALL_REDUCE
            "# Avg bus bandwidth    : 448\n$ ./all_gather_perf -b 1G\n# nThread 1\n" HEAD
            "  1073741824      33554432     float    none      -1   4000.0  268.44  234.88      0\n");
  assert_int_equal(h.n_benches, 2);
  assert_string_equal(h.benches[0].what, "all_reduce");
  assert_int_equal(h.benches[0].n_points, 3);
  assert_string_equal(h.benches[1].what, "all_gather");
  assert_int_equal(h.benches[1].ranks, 8);
  mal_arena_free(&a);
  read_text(&a, &h, "again.log", ALL_REDUCE ALL_REDUCE); /* without heads */
  assert_int_equal(h.n_benches, 2);
  assert_int_equal(h.benches[1].n_points, 3);
  assert_int_equal(h.benches[1].line, 4);
  mal_arena_free(&a);
  read_text(&a, &h, "named.log",
            "# nThread 1\n" HEAD ALL_REDUCE "# Collective test concluded: all_reduce_perf\n"
            "# nThread 1\n" HEAD ALL_REDUCE "# Collective test concluded: all_reduce_perf\n");
  assert_int_equal(h.n_benches, 2);
  mal_arena_free(&a);
}

/* The block size is that of bs=, not of jobs=. */
static void test_fio_text(void **state) {
  mal_arena a;
  mal_health h;
  (void)state;
  read_text(&a, &h, "fio.log",
            "seq: (g=0): rw=read, bs=(R) 1024KiB-1024KiB, (W) 1024KiB-1024KiB, (T) 1024KiB-1024KiB, ioengine=libaio\n"
            "fio-3.33\nseq: (groupid=0, jobs=1): err= 0: pid=12\n"
            "  read: IOPS=6200, BW=6200MiB/s (6501MB/s)(60GiB/10001msec)\n"
            "old: (g=0): rw=read, bs=4M-4M/4M-4M/4M-4M, ioengine=libaio\nold: (groupid=0, jobs=4): err= 0: pid=12\n"
            "  read : io=10240MB, bw=3072.0MB/s, iops=768, runt= 3333msec\n");
  assert_int_equal(h.n_benches, 2);
  assert_true(h.benches[0].points[0].bytes == 1 << 20 && h.benches[1].points[0].bytes == 4 << 20);
  assert_true(h.benches[0].points[0].busbw == 6200.0 * (1 << 20) && h.benches[1].points[0].busbw == 3072.0 * (1 << 20));
  mal_arena_free(&a);
}

/* The slowest of thousands of runs is still found. */
static void test_very_many_runs(void **state) {
  mal_arena a;
  mal_health h;
  (void)state;
  mal_arena_init(&a);
  mal_writing w = {.arena = &a};
  for (int i = 0; i < 3000; i++)
    mal_write(&w, HEAD "  1073741824     268435456     float     sum      -1   %s      0\n",
              i == 2500 ? "40000.0   26.84   46.97" : "4000.0  268.44  469.77");
  mal_health_init(&h, &a);
  read_bytes(&h, "log", w.text, w.used);
  double least = 1e30;
  for (int i = 0; i < h.n_benches; i++)
    for (int k = 0; k < h.benches[i].n_points; k++)
      if (h.benches[i].points[k].busbw < least) least = h.benches[i].points[k].busbw;
  assert_true(h.n_benches < 1000 && least == 46.97e9);
  mal_arena_free(&a);
}

/* A million lines of one fault: counted, its first and last line told, no text kept of each. */
static void test_repeats(void **state) {
  enum { LINES = 20000 };
  mal_arena a;
  mal_health h;
  (void)state;
  mal_arena_init(&a);
  mal_writing w = {.arena = &a};
  for (int i = 0; i < LINES; i++)
    mal_write(&w,
              "[%d.5] NVRM: Xid (PCI:0000:9b:00): 31, pid=%d, name=python\n"
              "n:%d:2 [0] misc/x.cc:9 NCCL WARN Something odd at step %d\n",
              i, i, i, i);
  mal_health_init(&h, &a);
  size_t before = a.used;
  mal_paste p = {.file = "log", .text = w.text, .length = w.used};
  mal_error e;
  assert_ok(mal_health_read(&h, &p, &e), e);
  assert_int_equal(h.n_findings, 2);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(h.findings[i].count, LINES);
    assert_int_equal(h.findings[i].from.line, 1 + i);
    assert_int_equal(h.findings[i].last.line, 2 * LINES - 1 + i);
  }
  assert_true(a.used - before < 1 << 20);
  mal_arena_free(&a);
}

/* Read in pieces as well as whole: the same findings and lines of evidence. */
static void test_long_file(void **state) {
  enum { LINES = 260000 };
  char path[] = "/tmp/malha-test-XXXXXX";
  int fd = mkstemp(path);
  FILE *f = fdopen(fd, "w");
  mal_arena a;
  mal_health h;
  mal_error e;
  (void)state;
  for (int i = 1; i <= LINES; i++)
    fprintf(f,
            i == LINES - 7 ? "[9.5] NVRM: Xid (PCI:0000:9b:00): 79, pid=1\n"
                           : "[%7d.500000] systemd[1]: Started a session of a user, whose name is long\n",
            i);
  fclose(f);
  mal_arena_init(&a);
  mal_health_init(&h, &a);
  assert_ok(mal_health_read_file(&h, path, &e), e);
  unlink(path);
  assert_true(h.log_bytes > 16 << 20);
  assert_int_equal(h.n_findings, 1);
  assert_int_equal(h.findings[0].from.line, LINES - 7);
  assert_string_equal(h.findings[0].from.file, path);
  mal_arena_free(&a);
}

static void test_encodings(void **state) {
  static const char text[] = "export NCCL_P2P_DISABLE=1\r\n";
  mal_arena a;
  mal_health h;
  char wide[4 * sizeof text];
  (void)state;
  for (int form = 0; form < 5; form++) { /* UTF-8 with a mark; UTF-16, both ends, with and without a mark */
    size_t n = 0;
    if (form == 0) memcpy(wide, "\xef\xbb\xbf", 3), n = 3;
    if (form == 1) memcpy(wide, "\xff\xfe", 2), n = 2;
    if (form == 2) memcpy(wide, "\xfe\xff", 2), n = 2;
    for (size_t i = 0; text[i]; i++) {
      if (form == 2 || form == 4) wide[n++] = 0;
      wide[n++] = text[i];
      if (form == 1 || form == 3) wide[n++] = 0;
    }
    mal_arena_init(&a);
    mal_health_init(&h, &a);
    read_bytes(&h, "env", wide, n);
    if (h.n_variables != 1 || strcmp(h.variables[0].value, "1") != 0) fail_msg("encoding %d is not read", form);
    mal_arena_free(&a);
  }
}

static void test_not_text(void **state) {
  static const struct {
    const char *bytes;
    size_t length;
    const char *word;
  } files[] = {{"\x1f\x8b\x08\0\0\0", 6, "gzip"},
               {"\x28\xb5\x2f\xfd\0\0", 6, "zstd"},
               {"\x7f"
                "ELF\2\1\1\0",
                8, "a program"},
               {"PK\3\4aaaa", 8, "ZIP"}};
  mal_arena a;
  mal_health h;
  mal_error e;
  (void)state;
  mal_arena_init(&a);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[] = "/tmp/malha-test-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, files[i].bytes, files[i].length), files[i].length);
    close(fd);
    mal_health_init(&h, &a);
    assert_fails(MAL_BAD, mal_health_read_file(&h, path, &e), e, files[i].word);
    unlink(path);
  }
  mal_arena_free(&a);
}

/* A kernel log in which NVIDIA's driver says nothing is judged: no XID is in it. */
static void test_quiet_kernel_log(void **state) {
  static const char *const logs[] = {
      "[    0.000000] Linux version 6.1.0\n[    1.250000] usb 1-1: new device\n",
      "[Sun Feb 23 16:24:18 2025] Linux version 6.1.0\n",
      "Feb 23 16:24:18 host kernel: usb 1-1: new device\n",
      "<6>[    0.000000] Linux version 6.1.0\n",
      "6,3973,227996636,-;usb 1-1: new device\n",
  };
  (void)state;
  for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
    mal_arena a;
    mal_health h;
    mal_error e;
    read_text(&a, &h, "dmesg", logs[i]);
    assert_ok(mal_health_judge(&h, NULL, &e), e);
    if (h.n_unread || !h.judged[MAL_RULE_XID] || h.n_findings) fail_msg("not read as a kernel log: %s", logs[i]);
    mal_arena_free(&a);
  }
}

/* What a program did wrong is no fault of the GPU; what needs a reset is. */
static void test_xid_of_programs(void **state) {
  static const int programs[] = {8, 13, 31, 32, 43, 45, 69}, hardware[] = {48, 64, 74, 79, 94, 95, 119, 140};
  (void)state;
  for (size_t i = 0; i < sizeof programs / sizeof *programs + sizeof hardware / sizeof *hardware; i++) {
    bool of_program = i < sizeof programs / sizeof *programs;
    int code = of_program ? programs[i] : hardware[i - sizeof programs / sizeof *programs];
    mal_arena a;
    mal_health h;
    mal_error e;
    char line[80];
    snprintf(line, sizeof line, "[1.5] NVRM: Xid (PCI:0000:9b:00): %d, pid=1\n", code);
    read_text(&a, &h, "dmesg", line);
    assert_ok(mal_health_judge(&h, NULL, &e), e);
    assert_int_equal(h.n_findings, 1);
    if ((mal_health_worst(&h) == MAL_SEV_ERROR) == of_program)
      fail_msg("XID %d is %s", code, mal_severity_name[h.findings[0].severity]);
    mal_arena_free(&a);
  }
}

/* Lines as drivers write them. A code that the switch corrects is a note; "Fatal" is an error whatever the catalogue says. */
static void test_sxids(void **state) {
  static const struct {
    const char *line;
    int code;
    mal_severity severity;
  } lines[] = {
      {"nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up", 20034, MAL_SEV_ERROR},
      {"nvidia-nvswitch4: SXid (PCI:0000:c6:00.0): 19084, Non-fatal, Link 29 AN1 Heartbeat Timeout Error (First)",
       19084, MAL_SEV_ERROR},
      {"nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 10002, Severity 5 Engine instance 00 Sub-engine instance 00", 10002,
       MAL_SEV_WARNING},
      {"nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 12028, Non-fatal, Link 61 egress non-posted PRIV error", 12028,
       MAL_SEV_WARNING},
      {"nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 11012, Non-fatal, Link 5 ingress header ECC limit", 11012,
       MAL_SEV_NOTE},
      {"nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 11012, Fatal, Link 5", 11012, MAL_SEV_ERROR},
      {"nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 23017, Fatal, Link 5", 23017, MAL_SEV_ERROR},
  };
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    mal_arena a;
    mal_health h;
    char text[200], code[32];
    snprintf(text, sizeof text, "[1.5] %s\n", lines[i].line);
    snprintf(code, sizeof code, "SXid %d (", lines[i].code); /* the catalogue has a name for it */
    read_text(&a, &h, "dmesg", text);
    assert_int_equal(h.n_findings, 1);
    assert_int_equal(h.findings[0].rule, MAL_RULE_SXID);
    if (h.findings[0].severity != lines[i].severity || !mal_starts(h.findings[0].what, code))
      fail_msg("%s: %s %s", text, mal_severity_name[h.findings[0].severity], h.findings[0].what);
    mal_arena_free(&a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sxids),
      cmocka_unit_test(test_fio_text),
      cmocka_unit_test(test_environment_forms),
      cmocka_unit_test(test_environment_sets_nothing),
      cmocka_unit_test(test_quoted_values),
      cmocka_unit_test(test_labels),
      cmocka_unit_test(test_interleaved),
      cmocka_unit_test(test_collective_from_columns),
      cmocka_unit_test(test_cut_anywhere),
      cmocka_unit_test(test_two_runs),
      cmocka_unit_test(test_very_many_runs),
      cmocka_unit_test(test_repeats),
      cmocka_unit_test(test_long_file),
      cmocka_unit_test(test_encodings),
      cmocka_unit_test(test_not_text),
      cmocka_unit_test(test_quiet_kernel_log),
      cmocka_unit_test(test_xid_of_programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
