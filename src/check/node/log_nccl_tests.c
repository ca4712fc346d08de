/* nccl-tests: tables of several versions ("error" or "#wrong", with or without redop and root), lines with prefixes of mpirun ("0: ",
 * "[1,0]<stdout>:") or srun, among other lines, in any order, cut off anywhere. And stas00/ml-engineering's all_reduce_bench.py. */
#include "check/node/health.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 20, LINE_MAX_BYTES = 1024 };

/* "0: ", "[1,0]<stdout>:", "node3: " before a line's own text. */
static const char *without_prefix(const char *line) {
  const char *at = line + strspn(line, " \t");
  if (*at == '[') {
    const char *end = strstr(at, ">:");
    if (end && end - at < 40) return end + 2;
  }
  size_t n = strcspn(at, " \t");
  if (n > 1 && n < 64 && at[n - 1] == ':' && (isdigit((unsigned char)*at) || isalpha((unsigned char)*at)))
    return at + n;
  return at;
}

static int split(char *line, char **words) {
  int n = 0;
  for (char *at = line; *at && n < WORDS_MAX;) {
    at += strspn(at, " \t");
    if (!*at) break;
    words[n++] = at;
    at += strcspn(at, " \t");
    if (*at) *at++ = 0;
  }
  return n;
}

static bool whole(const char *w) {
  if (!*w) return false;
  for (; *w; w++)
    if (!isdigit((unsigned char)*w)) return false;
  return true;
}

static bool real(const char *w, double *x) { return mal_number_at(w, x) && strspn(w, "0123456789.+-eE") == strlen(w); }

typedef struct reading {
  mal_health *h;
  const mal_paste *p;
  int bench; /* index into h->benches, -1 */
  const char *what, *gpu;
  const char *hosts[16];
  int n_hosts, devices, groups_of;
  int wrong_line;
  double wrong;
} reading;

static const char *named_in(const char *text) {
  static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast",
                                      "sendrecv",   "scatter",    "gather",         "reduce",   "hypercube"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *found = strstr(text, names[i]);
    if (found && strncmp(found + strlen(names[i]), "_perf", 5) == 0) return names[i];
  }
  return NULL;
}

/* "all_reduce_perf" in a command or the last line; else the file's name; else the columns. */
static const char *collective_of(const char *file, const char *line) {
  const char *by_command = named_in(line);
  if (by_command) return by_command;
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

static void note_device(reading *r, const char *line) {
  /* "#  Rank  0 Group  0 Pid  11 on  host device  0 [0x07] NVIDIA H100" */
  const char *on = strstr(line, " on "), *device = on ? strstr(on, " device ") : NULL,
             *bracket = device ? strchr(device, ']') : NULL;
  if (!device) return;
  r->devices++;
  const char *host = mal_trimmed(r->h->arena, on + 4, (size_t)(device - on - 4));
  bool known = false;
  for (int i = 0; i < r->n_hosts; i++) known = known || strcmp(r->hosts[i], host) == 0;
  if (!known && r->n_hosts < 16) r->hosts[r->n_hosts++] = host;
  if (bracket) r->gpu = mal_trimmed(r->h->arena, bracket + 1, strlen(bracket + 1));
}

/* Bytes over time must be the bandwidth: or the line is not of such a table. */
static bool consistent(double bytes, double us, double algbw) {
  double found = bytes / us * 1e-3; /* GB/s */
  return us > 0 && algbw >= 0 && fabs(found - algbw) <= 0.02 * found + 0.0151;
}

static mal_bench *bench_of(reading *r, int line) {
  if (r->bench >= 0) return &r->h->benches[r->bench];
  mal_bench *b = mal_health_bench(r->h, MAL_BENCH_NCCL, r->p->file, "nccl-tests", "", line);
  if (b) r->bench = (int)(b - r->h->benches);
  return b;
}

/* size count type [redop] [root] time algbw busbw wrong [time algbw busbw wrong] */
static bool row(reading *r, char **w, int n, int line) {
  double size, us[2], algbw[2], busbw[2];
  if (n < 6 || !whole(w[0]) || !whole(w[1]) || !isalpha((unsigned char)*w[2]) || !real(w[0], &size)) return false;
  int at = 3;
  if (at < n && isalpha((unsigned char)*w[at]) && strcmp(w[at], "N/A") != 0) at++; /* redop */
  if (at + 3 < n && (whole(w[at]) || strcmp(w[at], "-1") == 0) &&
      !strchr(w[at], '.')) { /* root, or a time without decimals */
    double a, b, c;
    bool as_time = at + 2 < n && real(w[at], &a) && real(w[at + 1], &b) && real(w[at + 2], &c) &&
                   consistent(size, a, b) && size > 0;
    if (!as_time) at++;
  }
  int found = 0;
  for (; found < 2 && at + 2 < n && real(w[at], &us[found]) && real(w[at + 1], &algbw[found]) &&
         real(w[at + 2], &busbw[found]);
       found++) {
    double wrong = 0;
    if (!consistent(size, us[found], algbw[found])) return false;
    if (at + 3 < n && real(w[at + 3], &wrong) && wrong > 0)
      r->wrong += wrong, r->wrong_line = r->wrong_line ? r->wrong_line : line;
    at += 4;
  }
  if (!found) return false;
  int best = found == 2 && busbw[1] > busbw[0]
                 ? 1
                 : 0; /* in place or out of place: the better of the two judges the machine */
  mal_bench *b = bench_of(r, line);
  if (!b || size <= 0) return b != NULL;
  mal_bench_point *p = b->n_points && b->points[b->n_points - 1].bytes == size ? &b->points[b->n_points - 1] : NULL;
  if (p) {
    p->repeats++;
    if (busbw[best] * 1e9 <= p->busbw) return true;
  } else {
    p = mal_bench_add(r->h, b);
  }
  *p = (mal_bench_point){
      .bytes = size, .algbw = algbw[best] * 1e9, .busbw = busbw[best] * 1e9, .line = line, .repeats = p->repeats};
  return true;
}

/* busbw / algbw of the largest message gives the ranks: 2(n-1)/n of all-reduce, (n-1)/n of the one-way ones. */
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

static void finish(reading *r, const char *collective) {
  mal_health *h = r->h;
  if (r->bench < 0) return;
  mal_bench *b = &h->benches[r->bench];
  const char *canonical;
  b->what = "collective";
  if (collective) {
    b->is_collective = mal_collective_named(collective, &b->collective, &b->rooted, &canonical);
    b->what = canonical;
  }
  b->gpu = r->gpu;
  b->nodes = r->n_hosts;
  b->ranks = r->devices;
  memcpy(b->hosts, r->hosts, sizeof b->hosts);
  b->n_hosts = r->n_hosts;
  int64_t computed = ranks_of(b);
  if (b->ranks && computed && (computed > b->ranks + b->ranks / 16 || computed < b->ranks - b->ranks / 16))
    mal_find(h, MAL_RULE_BENCHMARK_DATA, MAL_SEV_WARNING, "", (mal_evidence){b->file, b->points[b->n_points - 1].line},
             mal_print(h->arena, _("busbw over algbw says %lld ranks, the log lists %lld"), (long long)computed,
                       (long long)b->ranks),
             _("a log put together from several runs, or another collective than it says"), _("keep one run a file"));
  if (!b->ranks) b->ranks = computed;
  h->judged[MAL_RULE_BENCHMARK_DATA] = true;
  if (r->wrong > 0)
    mal_find(h, MAL_RULE_BENCHMARK_DATA, MAL_SEV_ERROR, "", (mal_evidence){r->p->file, r->wrong_line},
             mal_print(h->arena, _("%.0f wrong elements: the collective gave wrong results"), r->wrong),
             _("corrupted data on a link, in memory, or a bug of NCCL or its plugin"),
             _("stop using the node; run on pairs of GPUs to find the bad one; look at ECC and NVLink errors"));
}

static void start_anew(reading *r) { *r = (reading){.h = r->h, .p = r->p, .bench = -1}; }

bool mal_read_nccl_tests(mal_health *h, const mal_paste *p) {
  reading r = {.h = h, .p = p, .bench = -1};
  mal_lines l = mal_lines_of(p);
  const char *collective = NULL;
  int tables = 0;
  while (mal_lines_next(&l)) {
    if (l.length > LINE_MAX_BYTES || l.length < 8) continue;
    const char *text = without_prefix(l.line);
    text += strspn(text, " \t");
    if (*text == '#' || strstr(text, "_perf")) {
      const char *named = strstr(text, "_perf") ? named_in(text) : NULL;
      if (strstr(text, "nThread") && r.bench >= 0) { /* another run begins */
        finish(&r, collective ? collective : collective_of(p->file, ""));
        start_anew(&r);
        collective = NULL;
        tables++;
      }
      if (named) collective = named;
      if (*text == '#' && strstr(text, "Rank ")) note_device(&r, text);
      continue;
    }
    if (!isdigit((unsigned char)*text)) continue;
    char copy[LINE_MAX_BYTES + 1], *words[WORDS_MAX];
    snprintf(copy, sizeof copy, "%s", text);
    row(&r, words, split(copy, words), l.number);
  }
  mal_lines_end(&l);
  tables += r.bench >= 0;
  finish(&r, collective ? collective : collective_of(p->file, ""));
  return tables > 0;
}

/* "|    2MiB |  64.53GBps |  36.87GBps |" */
bool mal_read_torch_bench(mal_health *h, const mal_paste *p) {
  mal_lines l = mal_lines_of(p);
  mal_bench *b = NULL;
  while (mal_lines_next(&l)) {
    double size, busbw, algbw;
    char unit[8];
    if (*l.line != '|' || sscanf(l.line, "| %lf%3[KMGiB] | %lfGBps | %lfGBps", &size, unit, &busbw, &algbw) != 4)
      continue;
    if (!b) b = mal_health_bench(h, MAL_BENCH_NCCL, p->file, "all_reduce_bench.py", "all_reduce", l.number);
    if (!b) break;
    b->is_collective = true;
    b->collective = MAL_ALL_REDUCE;
    double scale = *unit == 'K' ? 1024 : *unit == 'M' ? 1048576 : 1073741824;
    *mal_bench_add(h, b) = (mal_bench_point){
        .bytes = size * scale, .busbw = busbw * 1e9, .algbw = algbw * 1e9, .line = l.number, .repeats = 1};
  }
  mal_lines_end(&l);
  if (b) b->ranks = ranks_of(b);
  return b != NULL;
}
