/* nccl-tests: tables of several versions ("error" or "#wrong", with or without redop and root), among other lines, several runs in a
 * log, cut off anywhere. And stas00/ml-engineering's all_reduce_bench.py. */
#include "check/node/log.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MOST = 20, ROW_BYTES_MOST = 1024, TABLES_MOST = 256, HOSTS_MOST = 16 };

typedef struct columns {        /* what a table's rows say of its collective */
  bool operation, no_operation; /* a redop; "none" */
  bool rooted, unrooted;        /* root >= 0; -1 */
  double share; /* bytes over count and size of the type: the ranks where counts are of one rank, else 1 */
} columns;

typedef struct reading {
  const char *collective, *gpu; /* as said */
  const char *hosts[HOSTS_MOST], *last_host;
  int n_hosts, nodes, devices;
  mal_bench_point *points;
  int n, room, line, tables;
  double *ratios; /* room for one a point */
  int room_ratios;
  columns columns;
  int wrong_line, open;
  double wrong;
  const char *label;
} reading;

static const char *named_in(const char *text) {
  static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast",
                                      "sendrecv",   "scatter",    "gather",         "reduce",   "hypercube"};
  const char *perf = strstr(text, "_perf");
  for (size_t i = 0; perf && i < sizeof names / sizeof *names; i++) {
    size_t n = strlen(names[i]);
    if ((size_t)(perf - text) >= n && memcmp(perf - n, names[i], n) == 0) return names[i];
  }
  return NULL;
}

static const char *named_by_file(const char *file) {
  static const struct {
    const char *part, *name;
  } parts[] = {{"allreduce", "all_reduce"},
               {"all_reduce", "all_reduce"},
               {"all-reduce", "all_reduce"},
               {"allgather", "all_gather"},
               {"all_gather", "all_gather"},
               {"all-gather", "all_gather"},
               {"reducescatter", "reduce_scatter"},
               {"reduce_scatter", "reduce_scatter"},
               {"reduce-scatter", "reduce_scatter"},
               {"alltoall", "alltoall"},
               {"all_to_all", "alltoall"},
               {"broadcast", "broadcast"},
               {"sendrecv", "sendrecv"},
               {"reduce", "reduce"}};
  const char *base = strrchr(file, '/');
  base = base ? base + 1 : file;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strstr(base, parts[i].part)) return parts[i].name;
  return NULL;
}

/* "#  Rank  0 Group  0 Pid  11 on  host device  0 [0x07] NVIDIA H100" */
static void note_device(const mal_log *log, reading *r, const char *line) {
  const char *on = strstr(line, " on "), *device = on ? strstr(on, " device ") : NULL,
             *bracket = device ? strchr(device, ']') : NULL;
  if (!device) return;
  r->devices++;
  if (bracket && !r->gpu) r->gpu = mal_trimmed(log->h->arena, bracket + 1, strlen(bracket + 1));
  for (on += 4; *on == ' ';) on++;
  size_t n = (size_t)(device - on);
  while (n && on[n - 1] == ' ') n--;
  for (int i = 0; i < r->n_hosts; i++)
    if (strlen(r->hosts[i]) == n && memcmp(r->hosts[i], on, n) == 0) return;
  if (r->last_host && strlen(r->last_host) == n && memcmp(r->last_host, on, n) == 0) return;
  r->last_host = mal_trimmed(log->h->arena, on, n);
  if (r->n_hosts < HOSTS_MOST) r->hosts[r->n_hosts++] = r->last_host;
  r->nodes++;
}

/* Bytes over time must be the bandwidth: or the line is not of such a table. */
static bool consistent(double bytes, double us, double algbw) {
  double found = bytes / us * 1e-3; /* GB/s */
  return us > 0 && algbw >= 0 && fabs(found - algbw) <= 0.02 * found + 0.0151;
}

static bool whole_number(mal_log_span w) {
  for (size_t i = 0; i < w.length; i++)
    if (!isdigit((unsigned char)w.at[i])) return false;
  return w.length > 0;
}

static bool number(mal_log_span w, double *x) {
  const char *at = w.at;
  return mal_log_number(&at, x) && at == w.at + w.length;
}

static double type_bytes(mal_log_span w) {
  static const struct {
    const char *name;
    double bytes;
  } types[] = {{"float", 4},   {"half", 2},    {"bfloat16", 2}, {"double", 8}, {"int8", 1},
               {"uint8", 1},   {"int32", 4},   {"uint32", 4},   {"int64", 8},  {"uint64", 8},
               {"fp8e4m3", 1}, {"fp8e5m2", 1}, {"f8e4m3", 1},   {"f8e5m2", 1}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strlen(types[i].name) == w.length && memcmp(types[i].name, w.at, w.length) == 0) return types[i].bytes;
  return 0;
}

static bool is(mal_log_span w, const char *text) {
  return strlen(text) == w.length && memcmp(w.at, text, w.length) == 0;
}

typedef struct measured {
  double algbw, busbw, wrong; /* GB/s */
} measured;

/* time algbw busbw wrong, once or twice: out of place and in place. */
static int measurements(const mal_log_span *w, int n, int at, double bytes, measured *m) {
  int found = 0;
  for (; found < 2 && at + 2 < n; found++, at += 4) {
    double us;
    m[found] = (measured){0};
    if (!number(w[at], &us) || !number(w[at + 1], &m[found].algbw) || !number(w[at + 2], &m[found].busbw)) break;
    if (!consistent(bytes, us, m[found].algbw)) return 0;
    if (at + 3 >= n || !number(w[at + 3], &m[found].wrong)) m[found].wrong = 0;
  }
  return found;
}

static bool may_be_root(mal_log_span w) { return whole_number(w) || is(w, "-1"); }

/* size count type [redop] [root], then the measurements. A root looks like a time without decimals: the bandwidths tell them apart. */
static int parse(const mal_log_span *w, int n, columns *c, double *bytes, measured *m) {
  double count, type;
  if (n < 6 || !whole_number(w[0]) || !whole_number(w[1]) || !isalpha((unsigned char)*w[2].at)) return 0;
  if (!number(w[0], bytes) || !number(w[1], &count)) return 0;
  type = type_bytes(w[2]);
  *c = (columns){.share = count > 0 && type > 0 ? *bytes / (count * type) : 0};
  int at = 3;
  if (isalpha((unsigned char)*w[at].at) && !is(w[at], "N/A")) {
    c->no_operation = is(w[at], "none");
    c->operation = !c->no_operation;
    at++;
  }
  int found = measurements(w, n, at, *bytes, m);
  if (found || at >= n || !may_be_root(w[at])) return found;
  c->unrooted = is(w[at], "-1");
  c->rooted = !c->unrooted;
  return measurements(w, n, at + 1, *bytes, m);
}

static void finish(const mal_log *log, reading *r);

static mal_bench_point *point_of(const mal_log *log, reading *r, double bytes) {
  mal_bench_point *points = r->points, *last = points && r->n ? &points[r->n - 1] : NULL;
  if (last && last->bytes == bytes) return last;
  if (last && points->bytes == bytes) finish(log, r); /* sizes start again: another run */
  for (int i = 0; last && bytes < last->bytes && i < r->n; i++)
    if (points[i].bytes == bytes) return &points[i];
  if (!r->points || r->n == r->room) {
    int room = r->room ? 2 * r->room : 64;
    r->points = mal_grow(log->h->arena, r->points, (size_t)r->room, (size_t)room, sizeof *r->points);
    r->room = room;
  }
  r->points[r->n] = (mal_bench_point){.bytes = bytes};
  return &r->points[r->n++];
}

static void row(const mal_log *log, reading *r, const mal_log_line *l) {
  mal_log_span w[WORDS_MOST];
  measured m[2];
  columns c;
  double bytes;
  int n = mal_log_words(l->own, w, WORDS_MOST);
  if (!l->whole && n) n--; /* the last word of a file may be cut off */
  int found = parse(w, n, &c, &bytes, m);
  if (!found || bytes <= 0) return;
  const measured *best = &m[found == 2 && m[1].busbw > m[0].busbw]; /* the better of the two judges the machine */
  mal_bench_point *p = point_of(log, r, bytes);
  if (r->n == 1 && !p->repeats) r->line = l->number;
  if (p->repeats++ == 0 || best->busbw * 1e9 > p->busbw) {
    p->algbw = best->algbw * 1e9;
    p->busbw = best->busbw * 1e9;
    p->line = l->number;
  }
  r->columns = c;
  r->open = true;
  for (int i = 0; i < found; i++) {
    if (m[i].wrong <= 0) continue;
    r->wrong += m[i].wrong;
    if (!r->wrong_line) r->wrong_line = l->number;
  }
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* busbw / algbw of a collective over n ranks (nccl-tests, doc/PERFORMANCE.md). */
static double factor_of(mal_collective c, bool rooted, int64_t ranks) {
  double n = (double)ranks;
  return rooted ? 1 : c == MAL_ALL_REDUCE ? 2 * (n - 1) / n : (n - 1) / n;
}

/* The factor of a table's rows: that of their middle one; of one or two rows that of the collective, when it is known. */
static double factor(const mal_log *log, reading *r) {
  if (r->room_ratios < r->n) {
    r->ratios = MAL_ARRAY(log->h->arena, double, r->room);
    r->room_ratios = r->room;
  }
  double *ratios = r->ratios;
  int n = 0;
  mal_collective c;
  bool rooted;
  const char *canonical;
  for (int i = 0; i < r->n; i++)
    if (r->points[i].algbw >= 0.5e9) ratios[n++] = r->points[i].busbw / r->points[i].algbw;
  if (n < 3 && r->collective && r->devices > 1 && mal_collective_named(r->collective, &c, &rooted, &canonical))
    return factor_of(c, rooted, r->devices);
  if (!n) return 0;
  qsort(ratios, (size_t)n, sizeof *ratios, by_value);
  return ratios[n / 2];
}

/* A row cut off, or of another run, breaks the ratio: it is left out, and that is said. */
static void drop_odd_rows(const mal_log *log, reading *r, double f) {
  int kept = 0, odd = 0, first = 0, last = 0;
  for (int i = 0; i < r->n; i++) {
    mal_bench_point p = r->points[i];
    if (p.line > last) last = p.line;
  }
  bool only_last = true;
  for (int i = 0; i < r->n; i++) {
    mal_bench_point p = r->points[i];
    double rounding = 0.0051e9 * (1 + f);
    if (f <= 0 || fabs(p.busbw - f * p.algbw) <= 0.01 * f * p.algbw + rounding) {
      r->points[kept++] = p;
      continue;
    }
    odd++;
    only_last = only_last && p.line == last;
    if (!first || p.line < first) first = p.line;
  }
  r->n = kept;
  if (!odd) return;
  mal_find(log->h, MAL_RULE_BENCHMARK_DATA, only_last ? MAL_SEV_NOTE : MAL_SEV_WARNING, "",
           (mal_evidence){log->p->file, first},
           only_last
               ? _("the last row is cut off: its busbw does not follow from its algbw; it is not judged")
               : mal_print(log->h->arena, _("%d rows whose busbw does not follow from algbw are not judged"), odd),
           only_last ? _("the log ends in the middle of a row") : _("rows cut off, or of another collective or run"),
           _("give the whole log, one run a file"));
}

typedef struct guess {
  const char *name; /* NULL: none */
  bool either;      /* an all-gather or an all-to-all */
} guess;

/* Which collective has such columns and such a factor. In nccl-tests counts are those of one rank for all-gather, reduce-scatter and
 * all-to-all; a root of -1 is none. */
static guess guess_collective(const reading *r, double f) {
  const columns *c = &r->columns;
  bool by_rank = c->share > 1.5;
  if (by_rank || (f > 0 && f < 0.97 && !c->rooted))
    return c->operation ? (guess){"reduce_scatter", false} : (guess){"all_gather", true};
  if (c->no_operation || (!c->operation && c->rooted)) return (guess){c->rooted ? "broadcast" : "sendrecv", false};
  if (f > 1.02 || (c->operation && c->unrooted)) return (guess){"all_reduce", false};
  if (c->operation && c->rooted) return (guess){"reduce", false};
  return (guess){c->operation && r->devices == 2 ? "all_reduce" : NULL, false};
}

/* busbw / algbw of the largest bandwidth gives the ranks. */
static int64_t ranks_of(const mal_bench *b) {
  double best = 0, ratio = 0;
  for (int i = 0; i < b->n_points; i++)
    if (b->points[i].busbw > best) best = b->points[i].busbw, ratio = b->points[i].busbw / b->points[i].algbw;
  if (!b->is_collective || b->rooted || best <= 0) return 0;
  double share = b->collective == MAL_ALL_REDUCE ? ratio / 2 : ratio;
  if (!(share > 0.4 && share < 0.99999)) return 0;
  double n = 1 / (1 - share);
  return n < 20000 ? (int64_t)(n + 0.5) : 0;
}

static double best_of(const mal_bench *b) {
  double best = 0;
  for (int i = 0; i < b->n_points; i++)
    if (b->points[i].busbw > best) best = b->points[i].busbw;
  return best;
}

/* Of a log with very many tables the slowest are kept. */
static mal_bench *place_of(const mal_log *log, const reading *r, const mal_bench *made) {
  mal_health *h = log->h;
  if (r->tables < TABLES_MOST) return mal_health_bench(h, MAL_BENCH_NCCL, log->p->file, "nccl-tests", "", r->line);
  mal_bench *fastest = NULL;
  for (int i = 0; i < h->n_benches; i++) {
    mal_bench *b = &h->benches[i];
    if (b->file == log->p->file && strcmp(b->what, made->what) == 0 && b->ranks == made->ranks &&
        (!fastest || b->best > fastest->best))
      fastest = b;
  }
  mal_find(h, MAL_RULE_BENCHMARK_DATA, MAL_SEV_NOTE, "", (mal_evidence){log->p->file, r->line},
           _("more tables than are kept: the slowest are judged"), _("a log of very many runs"), _("nothing"));
  return fastest && made->best < fastest->best ? fastest : NULL;
}

static int by_bytes(const void *a, const void *b) {
  const mal_bench_point *x = a, *y = b;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* "node3:" names a host; "[1,0]<stdout>:" and "0:" do not. */
static const char *host_of_label(mal_arena *a, const char *label) {
  size_t n = strcspn(label, ": |");
  return isalpha((unsigned char)*label) && n ? mal_trimmed(a, label, n) : NULL;
}

static void describe(const mal_log *log, const reading *r, double f, mal_bench *b) {
  const char *canonical, *by_file = named_by_file(log->p->file), *host = host_of_label(log->h->arena, r->label);
  guess g = {r->collective, false};
  if (!g.name) g = guess_collective(r, f);
  if (g.either && by_file && (strcmp(by_file, "all_gather") == 0 || strcmp(by_file, "alltoall") == 0))
    g = (guess){by_file, false};
  if (!g.name) g.name = by_file;
  b->what = "collective";
  if (g.name) {
    b->is_collective = mal_collective_named(g.name, &b->collective, &b->rooted, &canonical);
    b->what = g.either ? "all_gather or alltoall" : canonical;
    b->either = g.either;
  }
  b->gpu = r->gpu;
  b->nodes = r->nodes;
  b->ranks = r->devices;
  memcpy(b->hosts, r->hosts, sizeof r->hosts);
  b->n_hosts = r->n_hosts;
  if (!b->n_hosts && host) b->hosts[b->n_hosts++] = host;
}

static void finish(const mal_log *log, reading *r) {
  mal_health *h = log->h;
  if (!r->n) return;
  double f = factor(log, r);
  drop_odd_rows(log, r, f);
  mal_bench made = {.points = r->points, .n_points = r->n};
  describe(log, r, f, &made);
  h->judged[MAL_RULE_BENCHMARK_DATA] = true;
  int64_t computed = ranks_of(&made);
  if (r->n && made.ranks && computed &&
      (computed > made.ranks + made.ranks / 16 || computed < made.ranks - made.ranks / 16))
    mal_find(h, MAL_RULE_BENCHMARK_DATA, MAL_SEV_WARNING, "", (mal_evidence){log->p->file, r->points[r->n - 1].line},
             mal_print(h->arena, _("busbw over algbw says %lld ranks, the log lists %lld"), (long long)computed,
                       (long long)made.ranks),
             _("a log put together from several runs, or another collective than it says"), _("keep one run a file"));
  if (!made.ranks) made.ranks = computed;
  qsort(r->points, (size_t)r->n, sizeof *r->points, by_bytes);
  made.best = best_of(&made);
  mal_bench *b = place_of(log, r, &made);
  if (b) {
    made.kind = MAL_BENCH_NCCL;
    made.file = log->p->file;
    made.tool = "nccl-tests";
    made.line = r->line;
    made.verdict = -1;
    made.points = b->n_points >= r->n && b->points ? b->points : MAL_ARRAY(h->arena, mal_bench_point, r->n + 1);
    memcpy(made.points, r->points, (size_t)r->n * sizeof *r->points);
    *b = made;
  }
  if (r->wrong > 0)
    mal_find(h, MAL_RULE_BENCHMARK_DATA, MAL_SEV_ERROR, "", (mal_evidence){log->p->file, r->wrong_line},
             mal_print(h->arena, _("%.0f wrong elements: the collective gave wrong results"), r->wrong),
             _("corrupted data on a link, in memory, or a bug of NCCL or its plugin"),
             _("stop using the node; run on pairs of GPUs to find the bad one; look at ECC and NVLink errors"));
  r->tables++;
  r->n = 0;
  r->wrong = r->wrong_line = 0;
  r->columns = (columns){0};
}

/* The next run has other devices; its name may have stood in the command before. */
static void start_anew(reading *r, const char *collective) {
  *r = (reading){.points = r->points,
                 .room = r->room,
                 .ratios = r->ratios,
                 .room_ratios = r->room_ratios,
                 .tables = r->tables,
                 .label = r->label,
                 .open = true,
                 .collective = collective};
}

static bool nccl_tests_line(const mal_log *log, void *state, const mal_log_line *l) {
  reading *r = state;
  const char *text = l->own + strspn(l->own, " \t");
  r->label = l->label;
  if (isdigit((unsigned char)*text)) {
    if (l->length <= ROW_BYTES_MOST) row(log, r, l);
    return r->open;
  }
  const char *named = (l->words & MAL_W(PERF)) ? named_in(text) : NULL;
  bool concluded = strstr(text, "concluded") != NULL; /* "# Collective test concluded: all_reduce_perf" */
  if (l->words & MAL_W(NTHREAD)) {
    bool next = r->n > 0;
    finish(log, r);
    start_anew(r, next ? NULL : r->collective);
  }
  if (named && r->n && !concluded && *text != '#' && r->collective) { /* the command of the next run */
    finish(log, r);
    start_anew(r, named);
  } else if (named) {
    r->collective = named;
  }
  if ((l->words & MAL_W(BUSBW)) && *text == '#' && r->n && strstr(text, "algbw")) finish(log, r);
  if ((l->words & MAL_W(RANK)) && *text == '#') note_device(log, r, text);
  if (l->words & (MAL_W(BUSBW) | MAL_W(NTHREAD))) r->open = true;
  return r->open;
}

static bool nccl_tests_end(const mal_log *log, void *state) {
  reading *r = state;
  finish(log, r);
  return r->tables > 0;
}

const mal_log_kind mal_log_nccl_tests = {.what = "nccl-tests",
                                         .wants = MAL_W(PERF) | MAL_W(NTHREAD) | MAL_W(RANK) | MAL_W(BUSBW) |
                                                  MAL_W(FLOAT) | MAL_W(HALF) | MAL_W(BFLOAT) | MAL_W(DOUBLE) |
                                                  MAL_W(INT),
                                         .by_label = true,
                                         .state_bytes = sizeof(reading),
                                         .line = nccl_tests_line,
                                         .end = nccl_tests_end};

/* "|    2MiB |  64.53GBps |  36.87GBps |" */
static bool torch_bench_line(const mal_log *log, void *state, const mal_log_line *l) {
  int *bench = state; /* its number + 1 */
  double size, busbw, algbw;
  char unit[8];
  const char *text = l->own + strspn(l->own, " \t");
  if (*text != '|' || sscanf(text, "| %lf%3[KMGiB] | %lfGBps | %lfGBps", &size, unit, &busbw, &algbw) != 4)
    return false;
  mal_bench *b =
      *bench ? &log->h->benches[*bench - 1]
             : mal_health_bench(log->h, MAL_BENCH_NCCL, log->p->file, "all_reduce_bench.py", "all_reduce", l->number);
  if (!b) return false;
  *bench = (int)(b - log->h->benches) + 1;
  b->is_collective = true;
  b->collective = MAL_ALL_REDUCE;
  double bytes = size * (*unit == 'K' ? 1024 : *unit == 'M' ? 1048576 : 1073741824);
  mal_bench_point *last = b->n_points ? &b->points[b->n_points - 1] : NULL;
  if (last && last->bytes == bytes) {
    last->repeats++;
    return false;
  }
  *mal_bench_add(log->h, b) =
      (mal_bench_point){.bytes = bytes, .busbw = busbw * 1e9, .algbw = algbw * 1e9, .line = l->number, .repeats = 1};
  return false;
}

static bool torch_bench_end(const mal_log *log, void *state) {
  int *bench = state;
  if (!*bench) return false;
  mal_bench *b = &log->h->benches[*bench - 1];
  b->ranks = ranks_of(b);
  return true;
}

const mal_log_kind mal_log_torch_bench = {.what = "all_reduce_bench.py",
                                          .wants = MAL_W(GBPS),
                                          .by_label = true,
                                          .state_bytes = sizeof(int),
                                          .line = torch_bench_line,
                                          .end = torch_bench_end};
