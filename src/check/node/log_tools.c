/* Logs of other tools: perftest, fio, nvbandwidth, gdsio; and a table of results. */
#include "check/node/health.h"
#include "core/csv.h"
#include "core/json.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const double MIB = 1048576, GIB = 1073741824;

/* " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"; MB are 2^20 bytes (perftest), Gb 10^9 bits. */
bool mal_read_perftest(mal_health *h, const mal_paste *p) {
  mal_lines l = mal_lines_of(p);
  double scale = 0;
  int bench = -1, tables = 0;
  char device[64] = "";
  while (mal_lines_next(&l)) {
    if (l.length > 512) continue;
    const char *found = strstr(l.line, "Device"), *colon = found ? strchr(found, ':') : NULL,
               *columns = strstr(l.line, "#bytes");
    if (colon && sscanf(colon + 1, " %63s", device) == 1 && strstr(l.line, "port")) continue;
    if (columns && strstr(columns, "BW average")) {
      scale = strstr(columns, "Gb/sec") ? 1e9 / 8 : MIB;
      bench = -1;
      continue;
    }
    double bytes, iterations, peak, average;
    if (scale == 0 || sscanf(l.line, " %lf %lf %lf %lf", &bytes, &iterations, &peak, &average) != 4 || bytes < 1 ||
        average < 0)
      continue;
    mal_bench *b =
        bench >= 0 ? &h->benches[bench] : mal_health_bench(h, MAL_BENCH_IB, p->file, "perftest", "write", l.number);
    if (!b) break;
    if (bench < 0) tables++;
    bench = (int)(b - h->benches);
    b->device = mal_copy(h->arena, device);
    *mal_bench_add(h, b) = (mal_bench_point){
        .bytes = bytes, .algbw = average * scale, .busbw = average * scale, .line = l.number, .repeats = 1};
  }
  mal_lines_end(&l);
  return tables > 0;
}

static void storage_point(mal_health *h, const mal_paste *p, const char *tool, const char *what, double block,
                          double rate, int line, const char *device) {
  mal_bench *b = rate > 0 ? mal_health_bench(h, MAL_BENCH_STORAGE, p->file, tool, what, line) : NULL;
  if (!b) return;
  b->device = device;
  *mal_bench_add(h, b) = (mal_bench_point){.bytes = block, .algbw = rate, .busbw = rate, .line = line, .repeats = 1};
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
  json_t *job, *jobs = json_object_get(j.root, "jobs"),
               *first = json_array_get(json_object_get(j.root, "disk_util"), 0);
  const char *device = json_string_value(json_object_get(first, "name")),
             *shared = json_string_value(json_object_get(json_object_get(j.root, "global options"), "bs"));
  json_array_foreach(jobs, i, job) {
    static const char *const ways[] = {"read", "write"};
    const char *bs = json_string_value(json_object_get(json_object_get(job, "job options"), "bs"));
    for (int k = 0; k < 2; k++) {
      double rate = json_number_value(json_object_get(json_object_get(job, ways[k]), "bw_bytes"));
      storage_point(h, p, "fio", ways[k], block_size(bs ? bs : shared), rate, 0,
                    device ? mal_copy(h->arena, device) : NULL);
    }
  }
  bool any = json_array_size(jobs) > 0;
  mal_json_free(&j);
  return any;
}

/* "   READ: bw=3000MiB/s (3146MB/s), ..." and "  read: IOPS=24.0k, BW=3000MiB/s (3146MB/s)(...)"; "bs=(R) 4096B-4096B". */
bool mal_read_fio_text(mal_health *h, const mal_paste *p) {
  mal_lines l = mal_lines_of(p);
  double block = 0, rate;
  int found = 0;
  while (mal_lines_next(&l)) {
    const char *bs = mal_after(l.line, "bs=(R) "), *at = l.line + strspn(l.line, " \t"), *bw;
    if (l.length > 1024) continue;
    if (bs) block = block_size(bs);
    bool read = mal_starts(at, "read:") || mal_starts(at, "read :"), write = mal_starts(at, "write:");
    if (!(read || write) || !(bw = mal_after(at, "BW=")) || !mal_number_at(bw, &rate)) continue;
    const char *unit = bw + strspn(bw, "0123456789.");
    double scale = mal_starts(unit, "GiB")   ? GIB
                   : mal_starts(unit, "MiB") ? MIB
                   : mal_starts(unit, "KiB") ? 1024
                   : mal_starts(unit, "GB")  ? 1e9
                   : mal_starts(unit, "MB")  ? 1e6
                                             : 1;
    storage_point(h, p, "fio", read ? "read" : "write", block, rate * scale, l.number, NULL);
    found++;
  }
  mal_lines_end(&l);
  return found > 0;
}

/* "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", a row of columns, rows that begin with their number, "SUM name total". */
bool mal_read_nvbandwidth(mal_health *h, const mal_paste *p) {
  mal_lines l = mal_lines_of(p);
  int bench = -1, tests = 0;
  const char *gpu = NULL;
  while (mal_lines_next(&l)) {
    const char *at = l.line + strspn(l.line, " \t"), *device = mal_starts(at, "Device ") ? strchr(at, ':') : NULL;
    if (l.length > 4096) continue;
    if (device && !gpu) gpu = mal_trimmed(h->arena, device + 1, strcspn(device + 1, "("));
    if (mal_starts(at, "Running ")) {
      mal_bench *b = mal_health_bench(h, MAL_BENCH_COPY, p->file, "nvbandwidth",
                                      mal_trimmed(h->arena, at + 8, strcspn(at + 8, ". \t")), l.number);
      if (!b) break;
      bench = (int)(b - h->benches);
      b->gpu = gpu;
      tests++;
      continue;
    }
    if (mal_starts(at, "SUM ")) bench = -1;
    if (bench < 0 || !isdigit((unsigned char)*at) || !strchr(at, '.')) continue;
    strtol(at, (char **)&at, 10); /* number of the row */
    for (double rate;;) {
      while (*at == ' ' || *at == '\t') at++;
      if (mal_starts(at, "N/A")) {
        at += 3;
        continue;
      }
      if (!mal_number_at(at, &rate)) break;
      at += strcspn(at, " \t");
      *mal_bench_add(h, &h->benches[bench]) =
          (mal_bench_point){.algbw = rate * 1e9, .busbw = rate * 1e9, .line = l.number, .repeats = 1};
    }
  }
  mal_lines_end(&l);
  return tests > 0;
}

/* "IoType: READ XferType: GPUD Threads: 8 ... IOSize: 1024(KiB) Throughput: 6.12 GiB/sec, ..." */
bool mal_read_gdsio(mal_health *h, const mal_paste *p) {
  mal_lines l = mal_lines_of(p);
  int found = 0;
  while (mal_lines_next(&l)) {
    const char *kind = mal_after(l.line, "XferType:"), *way = mal_after(l.line, "IoType:"),
               *rate = mal_after(l.line, "Throughput:"), *size = mal_after(l.line, "IOSize:");
    double gib, kib = 0;
    if (!kind || !rate || !mal_number_at(rate, &gib)) continue;
    if (size) mal_number_at(size, &kib);
    double scale = strstr(rate, "GiB/sec") ? GIB : strstr(rate, "MiB/sec") ? MIB : 1;
    storage_point(h, p, "gdsio", way && mal_starts(way, "WRITE") ? "write" : "read", kib * 1024, gib * scale, l.number,
                  NULL);
    found++;
    h->judged[MAL_RULE_STORAGE] = true;
    if (!mal_starts(kind, "GPUD"))
      mal_find(h, MAL_RULE_STORAGE, MAL_SEV_WARNING, "gdsio", (mal_evidence){p->file, l.number},
               mal_print(h->arena, _("transfers by %.*s, not straight to the GPU"), (int)strcspn(kind, " "), kind),
               _("gdsio was asked for another way (-x), or GPUDirect Storage is not set up"),
               _("gdsio -x 0; gdscheck -p says what is missing (nvidia-fs, mount options)"));
  }
  mal_lines_end(&l);
  return found > 0;
}

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
