/* Logs of other tools: perftest, fio, nvbandwidth, gdsio; and a table of results. */
#include "check/node/log.h"
#include "core/csv.h"
#include "core/json.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const double MIB = 1048576, GIB = 1073741824;

/* A rate of a size; said again, the best counts. */
static void add_point(mal_health *h, mal_bench *b, double bytes, double rate, int line) {
  mal_bench_point *last = b->n_points ? &b->points[b->n_points - 1] : NULL;
  bool again = last && bytes > 0 && last->bytes == bytes;
  if (again) last->repeats++;
  if (again && last->busbw >= rate) return;
  mal_bench_point *p = again ? last : mal_bench_add(h, b);
  *p = (mal_bench_point){
      .bytes = bytes, .algbw = rate, .busbw = rate, .line = line, .repeats = again ? last->repeats : 1};
}

/* " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"; MB are 2^20 bytes (perftest), Gb 10^9 bits. */
typedef struct perftest {
  double scale;
  int bench, tables; /* number of the table + 1 */
  char device[64];
} perftest;

static bool perftest_line(const mal_log *log, void *state, const mal_log_line *l) {
  perftest *t = state;
  const char *at = l->own + strspn(l->own, " \t"), *colon = strchr(at, ':');
  double bytes, iterations, peak, average;
  if (l->length > 512) return t->scale > 0;
  if (mal_starts(at, "Device ") && colon) {
    sscanf(colon + 1, " %63s", t->device);
    return t->scale > 0;
  }
  if (mal_starts(at, "#bytes")) {
    t->scale = !strstr(at, "BW average") ? 0 : strstr(at, "Gb/sec") ? 1e9 / 8 : MIB;
    t->bench = 0;
    return t->scale > 0;
  }
  mal_log_span w[5];
  int n = mal_log_words(at, w, 5);
  if (!l->whole && n && w[n - 1].at[w[n - 1].length] == 0) n--; /* cut off */
  double *numbers[] = {&bytes, &iterations, &peak, &average};
  for (int i = 0; i < 4; i++) {
    const char *digit = i < n ? w[i].at : "";
    if (!mal_log_number(&digit, numbers[i])) return t->scale > 0;
  }
  if (t->scale == 0 || bytes < 1 || average < 0) return t->scale > 0;
  mal_bench *b = t->bench ? &log->h->benches[t->bench - 1]
                          : mal_health_bench(log->h, MAL_BENCH_IB, log->p->file, "perftest", "write", l->number);
  if (!b) return false;
  if (!t->bench) t->tables++;
  t->bench = (int)(b - log->h->benches) + 1;
  if (!b->device) b->device = mal_copy(log->h->arena, t->device);
  add_point(log->h, b, bytes, average * t->scale, l->number);
  return true;
}

static bool perftest_end(const mal_log *log, void *state) {
  (void)log;
  return ((perftest *)state)->tables > 0;
}

const mal_log_kind mal_log_perftest = {.what = "perftest (ib_write_bw)",
                                       .wants = MAL_W(BYTES) | MAL_W(DEVICE),
                                       .by_label = true,
                                       .state_bytes = sizeof(perftest),
                                       .line = perftest_line,
                                       .end = perftest_end};

/* Of a log of very many measurements the slowest of each way and block size is kept, when there are more than are shown. */
enum { WAYS_MOST = 16, MEASUREMENTS_MOST = 64 };
typedef struct storage_log {
  struct {
    const char *what;
    double block;
    int said, slowest; /* number of its table */
  } of[WAYS_MOST];
  int n;
} storage_log;

static int way_of(storage_log *s, const char *what, double block) {
  for (int i = 0; i < s->n; i++)
    if (s->of[i].block == block && strcmp(s->of[i].what, what) == 0) return i;
  if (s->n == WAYS_MOST) return -1;
  s->of[s->n].what = what;
  s->of[s->n].block = block;
  return s->n++;
}

/* what: a literal. */
static void storage_point(const mal_log *log, storage_log *s, const char *tool, const char *what, double block,
                          double rate, int line, const char *device) {
  mal_health *h = log->h;
  int way = rate > 0 ? way_of(s, what, block) : -1;
  if (way < 0) return;
  if (s->of[way].said++ >= MEASUREMENTS_MOST) {
    mal_bench *b = &h->benches[s->of[way].slowest];
    b->points->repeats++;
    if (rate >= b->points->busbw) return;
    b->line = b->points->line = line;
    b->points->algbw = b->points->busbw = rate;
    return;
  }
  mal_bench *b = mal_health_bench(h, MAL_BENCH_STORAGE, log->p->file, tool, what, line);
  if (!b) return;
  b->device = device;
  *mal_bench_add(h, b) = (mal_bench_point){.bytes = block, .algbw = rate, .busbw = rate, .line = line, .repeats = 1};
  if (s->of[way].said == 1 || rate < h->benches[s->of[way].slowest].points->busbw)
    s->of[way].slowest = (int)(b - h->benches);
}

/* "4k", "128KiB", "1M". */
static double block_size(const char *text) {
  double n;
  if (!text || !mal_number_at(text, &n)) return 0;
  const char *unit = text + strspn(text, "0123456789.");
  return n * (tolower((unsigned char)*unit) == 'k'   ? 1024
              : tolower((unsigned char)*unit) == 'm' ? MIB
              : tolower((unsigned char)*unit) == 'g' ? GIB
                                                     : 1);
}

bool mal_read_fio_json(mal_health *h, const mal_paste *p) {
  mal_json j;
  mal_error ignored;
  const char *from = strchr(p->text, '{'); /* fio writes warnings before it */
  if (!from || mal_json_parse(h->arena, p->file, from, strlen(from), &j, &ignored) != MAL_OK) return false;
  size_t i;
  storage_log measured = {0};
  json_t *job, *jobs = json_object_get(j.root, "jobs"),
               *first = json_array_get(json_object_get(j.root, "disk_util"), 0);
  const char *device = json_string_value(json_object_get(first, "name")),
             *shared = json_string_value(json_object_get(json_object_get(j.root, "global options"), "bs"));
  json_array_foreach(jobs, i, job) {
    static const char *const ways[] = {"read", "write"};
    const char *bs = json_string_value(json_object_get(json_object_get(job, "job options"), "bs"));
    for (int k = 0; k < 2; k++) {
      double rate = json_number_value(json_object_get(json_object_get(job, ways[k]), "bw_bytes"));
      storage_point(&(mal_log){h, p}, &measured, "fio", ways[k], block_size(bs ? bs : shared), rate, 0,
                    device ? mal_copy(h->arena, device) : NULL);
    }
  }
  bool any = json_array_size(jobs) > 0;
  mal_json_free(&j);
  return any;
}

static double rate_unit(const char *unit) {
  static const struct {
    const char *name;
    double bytes;
  } units[] = {{"GiB", 1073741824.0}, {"MiB", 1048576}, {"KiB", 1024}, {"GB", 1e9},
               {"MB", 1e6},           {"kB", 1e3},      {"KB", 1e3}};
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (mal_starts(unit, units[i].name)) return units[i].bytes;
  return 1;
}

/* "  read: IOPS=24.0k, BW=3000MiB/s (3146MB/s)(...)", before version 3 "  read : io=1024.0MB, bw=3000.0MB/s, iops=..." with MB of
 * 2^20 bytes; "bs=(R) 4096B-4096B", "bs=4K-4K/4K-4K". */
typedef struct fio_text {
  double block;
  int found;
  storage_log measured;
} fio_text;

/* After "bs=", which "jobs=1" is not. */
static const char *block_option(const char *line) {
  for (const char *at = line; (at = strstr(at, "bs=")); at += 3)
    if (at == line || !isalpha((unsigned char)at[-1])) return at + 3;
  return NULL;
}

static bool fio_line(const mal_log *log, void *state, const mal_log_line *l) {
  fio_text *f = state;
  const char *bs = block_option(l->own), *at = l->own + strspn(l->own, " \t"), *bw;
  double rate;
  if (l->length > 1024) return false;
  if (bs && mal_starts(bs, "(R) ")) bs += strlen("(R) ");
  if (bs && block_size(bs) > 0) f->block = block_size(bs);
  bool read = mal_starts(at, "read:") || mal_starts(at, "read :"), write = mal_starts(at, "write:");
  bool old = !strstr(at, "BW=");
  if (!(read || write) || !(bw = mal_after(at, old ? ", bw=" : "BW=")) || !mal_number_at(bw, &rate)) return false;
  const char *unit = bw + strspn(bw, "0123456789.");
  double scale = !old                     ? rate_unit(unit)
                 : mal_starts(unit, "GB") ? GIB
                 : mal_starts(unit, "MB") ? MIB
                 : mal_starts(unit, "KB") ? 1024
                                          : rate_unit(unit);
  if (!l->whole && !strchr(unit, '/')) return false; /* cut off in its unit */
  storage_point(log, &f->measured, "fio", read ? "read" : "write", f->block, rate * scale, l->number, NULL);
  f->found++;
  return false;
}

static bool fio_end(const mal_log *log, void *state) {
  (void)log;
  return ((fio_text *)state)->found > 0;
}

const mal_log_kind mal_log_fio_text = {.what = "fio",
                                       .wants = MAL_W(BW) | MAL_W(BW_OLD) | MAL_W(BS),
                                       .by_label = true,
                                       .state_bytes = sizeof(fio_text),
                                       .line = fio_line,
                                       .end = fio_end};

/* "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", a row of columns, rows that begin with their number, "SUM name total". */
typedef struct nvbandwidth {
  int bench, tests; /* number of the table + 1 */
  const char *gpu;
} nvbandwidth;

static bool nvbandwidth_line(const mal_log *log, void *state, const mal_log_line *l) {
  enum { CELLS_MOST = 65536 }; /* of one test: 256 GPUs by 256 */
  nvbandwidth *n = state;
  mal_health *h = log->h;
  const char *at = l->own + strspn(l->own, " \t"), *device = mal_starts(at, "Device ") ? strchr(at, ':') : NULL;
  if (l->length > 4096) return n->bench > 0;
  if (device && !n->gpu) n->gpu = mal_trimmed(h->arena, device + 1, strcspn(device + 1, "("));
  if (mal_starts(at, "Running ") && (strstr(at, "memcpy") || strstr(at, "_local_copy") || strstr(at, "latency_sm"))) {
    mal_bench *b = mal_health_bench(h, MAL_BENCH_COPY, log->p->file, "nvbandwidth",
                                    mal_trimmed(h->arena, at + 8, strcspn(at + 8, ". \t")), l->number);
    if (!b) return false;
    n->bench = (int)(b - h->benches) + 1;
    b->gpu = n->gpu;
    n->tests++;
    return true;
  }
  if (mal_starts(at, "SUM ")) n->bench = 0;
  if (!n->bench || !isdigit((unsigned char)*at) || !strchr(at, '.')) return n->bench > 0;
  at += strspn(at, "0123456789"); /* number of the row */
  mal_bench *b = &h->benches[n->bench - 1];
  while (b->n_points < CELLS_MOST) {
    double rate;
    at += strspn(at, " \t");
    if (mal_starts(at, "N/A")) {
      at += 3;
      continue;
    }
    const char *cell = at;
    if (!mal_log_number(&at, &rate) || (*at && *at != ' ' && *at != '\t')) break;
    if (!l->whole && !*at) break; /* the last cell of a file may be cut off */
    if (at == cell) break;
    *mal_bench_add(h, b) = (mal_bench_point){.algbw = rate * 1e9, .busbw = rate * 1e9, .line = l->number, .repeats = 1};
  }
  return true;
}

static bool nvbandwidth_end(const mal_log *log, void *state) {
  (void)log;
  return ((nvbandwidth *)state)->tests > 0;
}

const mal_log_kind mal_log_nvbandwidth = {.what = "nvbandwidth",
                                          .wants = MAL_W(RUNNING) | MAL_W(SUM) | MAL_W(DEVICE),
                                          .by_label = true,
                                          .state_bytes = sizeof(nvbandwidth),
                                          .line = nvbandwidth_line,
                                          .end = nvbandwidth_end};

/* "IoType: READ XferType: GPUD Threads: 8 ... IOSize: 1024(KiB) Throughput: 6.12 GiB/sec, ..." */
typedef struct gdsio {
  int found;
  storage_log measured;
} gdsio;

static bool gdsio_line(const mal_log *log, void *state, const mal_log_line *l) {
  gdsio *g = state;
  mal_health *h = log->h;
  const char *kind = mal_after(l->text, "XferType:"), *way = mal_after(l->text, "IoType:"),
             *rate = mal_after(l->text, "Throughput:"), *size = mal_after(l->text, "IOSize:");
  double gib, kib = 0;
  if (!kind || !rate || !mal_number_at(rate, &gib)) return false;
  if (size) mal_number_at(size, &kib);
  if (!strstr(rate, "/sec")) return false; /* cut off */
  double scale = strstr(rate, "GiB/sec") ? GIB : strstr(rate, "MiB/sec") ? MIB : strstr(rate, "KiB/sec") ? 1024 : 1;
  storage_point(log, &g->measured, "gdsio", way && mal_starts(way, "WRITE") ? "write" : "read", kib * 1024, gib * scale,
                l->number, NULL);
  g->found++;
  h->judged[MAL_RULE_STORAGE] = true;
  if (mal_starts(kind, "GPUD")) return false;
  char what[96];
  snprintf(what, sizeof what, _("transfers by %.*s, not straight to the GPU"), (int)strcspn(kind, " "), kind);
  mal_find(h, MAL_RULE_STORAGE, MAL_SEV_WARNING, "gdsio", (mal_evidence){log->p->file, l->number}, what,
           _("gdsio was asked for another way (-x), or GPUDirect Storage is not set up"),
           _("gdsio -x 0; gdscheck -p says what is missing (nvidia-fs, mount options)"));
  return false;
}

static bool gdsio_end(const mal_log *log, void *state) {
  (void)log;
  return ((gdsio *)state)->found > 0;
}

const mal_log_kind mal_log_gdsio = {
    .what = "gdsio", .wants = MAL_W(XFER), .state_bytes = sizeof(gdsio), .line = gdsio_line, .end = gdsio_end};

/* Numbers with words after them: "24056.72 MB/s", "380 Gbps (H200: 360)", "21 GB/s"; a bare number is GB/s. A range or two numbers of
 * different machines are none. */
static bool cell_rate(const char *text, double *rate) {
  if (!mal_number_at(text, rate)) return false;
  const char *unit = text + strspn(text, "0123456789.");
  unit += strspn(unit, " ");
  *rate *= mal_starts(unit, "Gbps")   ? 1e9 / 8
           : mal_starts(unit, "MB/s") ? 1e6
           : mal_starts(unit, "GB/s") || !*unit || *unit == '(' || (*unit == '/' && strchr("0123456789", unit[1])) ? 1e9
                                                                                                                   : 0;
  return *rate > 0;
}

/* Columns as in gpu,n_gpus,nodes,fabric,collective,size_bytes,busbw_gbs,algbw_gbs,health,... */
bool mal_read_results_csv(mal_health *h, const mal_paste *p) {
  mal_csv csv;
  mal_error ignored;
  if (mal_csv_parse(h->arena, p->file, p->text, p->length, &csv, &ignored) != MAL_OK) return false;
  int gpu = mal_csv_column(&csv, "gpu"), what = mal_csv_column(&csv, "collective"),
      busbw = mal_csv_column(&csv, "busbw_gbs"), n = mal_csv_column(&csv, "n_gpus"),
      nodes = mal_csv_column(&csv, "nodes"), fabric = mal_csv_column(&csv, "fabric"),
      size = mal_csv_column(&csv, "size_bytes"), health = mal_csv_column(&csv, "health");
  if (gpu < 0 || what < 0 || busbw < 0) return false;
  for (int i = 0; i < csv.rows; i++) {
    const char *collective = mal_csv_cell(&csv, i, what), *fabric_text = mal_csv_cell(&csv, i, fabric), *canonical;
    double rate = 0, bytes = 0;
    bool ib = strstr(collective, "ib_write"), nccl;
    mal_bench *b = mal_health_bench(h, MAL_BENCH_NCCL, p->file, "table", collective, csv.line[i]);
    if (!b) break;
    nccl = mal_collective_named(collective, &b->collective, &b->rooted, &canonical);
    b->is_collective = nccl;
    if (!nccl) b->kind = ib ? MAL_BENCH_IB : MAL_BENCH_COPY;
    b->what = mal_copy(h->arena, nccl ? canonical : collective);
    b->gpu = b->machine = mal_copy(h->arena, mal_csv_cell(&csv, i, gpu));
    b->device = mal_copy(h->arena, fabric_text);
    b->said = mal_copy(h->arena, mal_csv_cell(&csv, i, health));
    b->ranks = atoi(mal_csv_cell(&csv, i, n));
    b->nodes = atoi(mal_csv_cell(&csv, i, nodes));
    b->no_nvls = strstr(fabric_text, "NVLS_ENABLE=0") || strstr(fabric_text, "NVLS off");
    b->no_p2p = false;
    if (!mal_number_at(mal_csv_cell(&csv, i, size), &bytes) || bytes < 1e6) bytes = 8589934592.0;
    if (cell_rate(mal_csv_cell(&csv, i, busbw), &rate))
      *mal_bench_add(h, b) = (mal_bench_point){.bytes = bytes, .busbw = rate, .line = csv.line[i], .repeats = 1};
  }
  return csv.rows > 0;
}
