#include "check/node/log.h"
#include "core/words.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {
    [MAL_W_PERF] = "_perf",
    [MAL_W_NTHREAD] = "nThread",
    [MAL_W_RANK] = "Rank ",
    [MAL_W_BUSBW] = "busbw",
    [MAL_W_FLOAT] = " float ",
    [MAL_W_HALF] = " half ",
    [MAL_W_BFLOAT] = " bfloat16 ",
    [MAL_W_DOUBLE] = " double ",
    [MAL_W_INT] = "int8 ",
    [MAL_W_GBPS] = "GBps",
    [MAL_W_INFO] = "NCCL INFO ",
    [MAL_W_WARN] = "NCCL WARN ",
    [MAL_W_VIA] = " via ",
    [MAL_W_GDR] = "GPU Direct RDMA ",
    [MAL_W_SET] = " set by environment to ",
    [MAL_W_CHANNELS] = " coll channels, ",
    [MAL_W_NRANKS] = " nranks ",
    [MAL_W_BYTES] = "#bytes",
    [MAL_W_DEVICE] = "Device ",
    [MAL_W_BW] = "BW=",
    [MAL_W_BW_OLD] = ", bw=",
    [MAL_W_BS] = "bs=",
    [MAL_W_FIO_JSON] = "\"fio version\"",
    [MAL_W_RUNNING] = "Running ",
    [MAL_W_SUM] = "SUM ",
    [MAL_W_XFER] = "XferType",
    [MAL_W_NVRM] = "NVRM",
    [MAL_W_NVIDIA] = "nvidia",
    [MAL_W_XID] = "Xid (",
    [MAL_W_FALLEN] = "fallen off the bus",
    [MAL_W_ADAPTER] = "RmInitAdapter failed",
    [MAL_W_MISMATCH] = "API mismatch",
    [MAL_W_AER] = "AER: Uncorrected (",
    [MAL_W_MCE] = "Machine check events logged",
    [MAL_W_LINK_DOWN] = "link is down",
    [MAL_W_LINK_DOWN_2] = "Link down",
    [MAL_W_TID] = "[tid ",
    [MAL_W_ENV_NCCL] = "NCCL_",
    [MAL_W_ENV_CUDA] = "CUDA_",
    [MAL_W_ENV_TORCH] = "TORCH_",
    [MAL_W_ENV_FI] = "FI_",
    [MAL_W_ENV_OMP] = "OMP_NUM",
    [MAL_W_ENV_UCX] = "UCX_",
    [MAL_W_VALUE] = "value",
    [MAL_W_RESULTS] = "busbw_gbs",
};
_Static_assert(sizeof words / sizeof *words == MAL_LOG_WORDS && (int)MAL_LOG_WORDS <= (int)MAL_WORDS_MAX,
               "one text a word");

static const mal_log_kind fio_json = {.what = "fio (JSON)", .wants = MAL_W(FIO_JSON), .read = mal_read_fio_json},
                          results = {.what = "table of results", .wants = MAL_W(RESULTS), .read = mal_read_results_csv};
static const mal_log_kind *const kinds[] = {
    &mal_log_nccl_tests, &mal_log_torch_bench,    &mal_log_nccl,        &mal_log_perftest,
    &fio_json,           &mal_log_fio_text,       &mal_log_nvbandwidth, &mal_log_gdsio,
    &mal_log_kernel,     &mal_log_fabric_manager, &mal_log_environment, &results};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *mal_log_kinds(mal_arena *a) {
  mal_writing w = {.arena = a};
  for (int i = 0; i < KINDS; i++) mal_write(&w, "%s%s", i ? ", " : "", kinds[i]->what);
  return w.text;
}

/* "2024-05-21T10:03:11.123456Z ", "2024-05-21 10:03:11,123 ". */
static size_t time_at(const char *at) {
  static const char pattern[] = "dddd-dd-dd";
  for (size_t i = 0; i + 1 < sizeof pattern; i++)
    if (pattern[i] == 'd' ? !isdigit((unsigned char)at[i]) : at[i] != pattern[i]) return 0;
  size_t n = sizeof pattern - 1;
  if (at[n] != 'T' && at[n] != ' ') return 0;
  size_t clock = strspn(at + n + 1, "0123456789:.,+Z-");
  return clock >= 8 && at[n + 1 + clock] == ' ' ? n + 2 + clock : 0;
}

static bool is_label(const char *name, size_t n) { /* a rank or a host, not a word: it has a digit */
  bool digit = false;
  for (size_t i = 0; i < n; i++) {
    if (!isalnum((unsigned char)name[i]) && !strchr("-.", name[i])) return false;
    digit = digit || isdigit((unsigned char)name[i]);
  }
  return n > 0 && n < 64 && digit;
}

/* Bytes of one label at the start of `at`; *time: it is a time, which says nothing of the rank. */
static size_t label_at(const char *at, bool *time) {
  size_t n = time_at(at), blanks;
  *time = n > 0;
  if (n) return n;
  blanks = strspn(at, " ");
  const char *word = at + blanks;
  if (*word == '[') {
    size_t inside = strcspn(word, "]");
    if (!word[inside] || inside > 64) return 0;
    const char *after = word + inside + 1;
    if (*after == '<' &&
        (mal_starts(after, "<stdout>:") || mal_starts(after, "<stderr>:") || mal_starts(after, "<stddiag>:")))
      return (size_t)(strchr(after, ':') + 1 - at);
    return *after == ' ' && inside > 1 && !memchr(word, ' ', inside) ? (size_t)(after + 1 - at) : 0;
  }
  if (*word == '(' && mal_starts(word, "(") && strcspn(word, ")") < 80) { /* "(Worker pid=12, ip=10.0.0.1) " of Ray */
    size_t inside = strcspn(word, ")");
    const char *pid = strstr(word, "pid=");
    return word[inside] && word[inside + 1] == ' ' && pid && pid < word + inside ? blanks + inside + 2 : 0;
  }
  size_t name = strcspn(word, ": |\t");
  if (!name || !is_label(word, name)) return 0;
  if (word[name] == ':' && (word[name + 1] == ' ' || word[name + 1] == '\t' || !word[name + 1]))
    return blanks + name + 1;
  size_t gap = strspn(word + name, " ");
  return word[name + gap] == '|' && word[name + gap + 1] == ' ' && isalpha((unsigned char)*word)
             ? blanks + name + gap + 2
             : 0;
}

/* "Tue May 21 10:03:11 2024[1,0]<stdout>:": mpirun --timestamp-output. */
static size_t stamped_at(const char *line, size_t length) {
  enum { DATE_MOST = 40 };
  const char *bracket = memchr(line, '[', length < DATE_MOST ? length : DATE_MOST);
  bool time;
  if (!bracket || bracket == line || !isalpha((unsigned char)*line)) return 0;
  size_t comma = strcspn(bracket, ",]");
  return bracket[comma] == ',' && label_at(bracket, &time) ? (size_t)(bracket - line) : 0;
}

static const char *own(const char *line, size_t length, const char **label, size_t *label_length) {
  const char *at = line + stamped_at(line, length);
  *label = "";
  *label_length = 0;
  for (int i = 0; i < 4; i++) {
    bool time;
    size_t n = label_at(at, &time);
    if (!n) break;
    if (!time && !*label_length) *label = at, *label_length = n;
    at += n;
  }
  return at;
}

const char *mal_log_own(const char *line, size_t length) {
  const char *label;
  size_t n;
  return own(line, length, &label, &n);
}

bool mal_log_number(const char **at, double *value) {
  static const double powers[] = {1,   1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7, 1e8,
                                  1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16};
  const char *c = *at;
  bool minus = *c == '-';
  if (minus || *c == '+') c++;
  uint64_t digits = 0;
  int n = 0, decimals = 0;
  for (; isdigit((unsigned char)*c) && n < 16; c++, n++) digits = 10 * digits + (uint64_t)(*c - '0');
  if (*c == '.')
    for (c++; isdigit((unsigned char)*c) && n < 16; c++, n++, decimals++) digits = 10 * digits + (uint64_t)(*c - '0');
  if (n == 0) return false;
  if (isdigit((unsigned char)*c) || *c == 'e' || *c == 'E') { /* long, or with an exponent */
    char *end;
    if (!mal_number_at(*at, value)) return false;
    strtod(*at, &end);
    *at = end;
    return true;
  }
  *value = (minus ? -1 : 1) * ((double)digits / powers[decimals]);
  *at = c;
  return true;
}

int mal_log_words(const char *line, mal_log_span *list, int max) {
  int n = 0;
  for (const char *at = line; n < max;) {
    while (*at == ' ' || *at == '\t') at++;
    const char *start = at;
    while (*at && *at != ' ' && *at != '\t') at++;
    if (at == start) break;
    list[n++] = (mal_log_span){start, (size_t)(at - start)};
  }
  return n;
}

uint64_t mal_log_hash(uint64_t seed, const char *text, bool numbers) {
  uint64_t hash = (1469598103934665603ull ^ seed) * 1099511628211ull;
  for (; *text; text++)
    if (numbers || !isxdigit((unsigned char)*text)) hash = (hash ^ (unsigned char)*text) * 1099511628211ull;
  return hash ? hash : 1;
}

static int place_in(const mal_log_memo *memo, uint64_t key) {
  unsigned at = (unsigned)(key % MAL_LOG_MEMO);
  while (memo->of[at].key && memo->of[at].key != key) at = (at + 1) % MAL_LOG_MEMO;
  return (int)at;
}

bool mal_log_again(mal_health *h, mal_log_memo *memo, uint64_t key, mal_evidence from) {
  int at = place_in(memo, key);
  if (!memo->of[at].key && memo->n < MAL_LOG_MEMO / 2) return false;
  mal_find_again(h, memo->of[at].finding - 1, from);
  return true;
}

void mal_log_note(mal_health *h, mal_log_memo *memo, uint64_t key, const mal_finding *f) {
  int at = place_in(memo, key);
  memo->n += !memo->of[at].key;
  memo->of[at].key = key;
  memo->of[at].finding = mal_find_number(h, f) + 1;
}

enum { STREAMS_MAX = 256 };

typedef struct stream { /* what one rank wrote */
  const char *label;
  size_t length;
  void *state[KINDS];
  bool open[KINDS];
} stream;

struct mal_log_reading {
  mal_log log;
  mal_paste head;
  const mal_words *known;
  int lines;
  stream streams[STREAMS_MAX]; /* the first: what is not told apart by label */
  int n, latest, opened;       /* tables open */
  uint64_t seen;
};

static stream *stream_of(mal_log_reading *r, const char *label, size_t length) {
  if (!length) return &r->streams[0];
  stream *s = &r->streams[r->latest];
  if (r->latest && s->length == length && memcmp(s->label, label, length) == 0) return s;
  for (int i = 1; i < r->n; i++) {
    s = &r->streams[i];
    if (s->length == length && memcmp(s->label, label, length) == 0) {
      r->latest = i;
      return s;
    }
  }
  if (r->n == STREAMS_MAX) return NULL; /* a table a rank of so many is not looked for */
  s = &r->streams[r->n];
  *s = (stream){.label = mal_trimmed(r->log.h->arena, label, length), .length = length};
  if (strlen(s->label) != length) { /* blanks at its ends: compare as it stands */
    char *exact = MAL_ARRAY(r->log.h->arena, char, length + 1);
    memcpy(exact, label, length);
    s->label = exact;
  }
  r->latest = r->n++;
  return s;
}

static void give(mal_log_reading *r, stream *s, int kind, mal_log_line *l) {
  if (!s->state[kind]) s->state[kind] = mal_alloc(r->log.h->arena, kinds[kind]->state_bytes);
  l->label = s->length ? s->label : "";
  bool open = kinds[kind]->line(&r->log, s->state[kind], l);
  r->opened += open - s->open[kind];
  s->open[kind] = open;
}

static bool begins_a_row(const char *at) {
  at += strspn(at, " \t");
  return isdigit((unsigned char)*at);
}

static void one_line(mal_log_reading *r, mal_log_line *l) {
  const char *label = "";
  size_t length = 0;
  stream *s = NULL;
  bool row = false;
  for (int k = 0; k < KINDS; k++) {
    const mal_log_kind *kind = kinds[k];
    bool wanted = (l->words & kind->wants) != 0;
    if (kind->read || (!wanted && (!r->opened || !kind->by_label))) continue;
    if (kind->by_label && !l->own) {
      l->own = own(l->text, l->length, &label, &length);
      s = stream_of(r, label, length);
      row = begins_a_row(l->own);
    }
    stream *to = kind->by_label ? s : &r->streams[0];
    if (to && (wanted || (row && to->open[k]))) give(r, to, k, l);
  }
}

mal_log_reading *mal_logs_begin(mal_health *h, const mal_paste *head) {
  mal_log_reading *r = MAL_NEW(h->arena, mal_log_reading);
  r->known = mal_words_make(h->arena, words, MAL_LOG_WORDS);
  r->head = *head;
  r->log = (mal_log){h, &r->head};
  r->n = 1;
  return r;
}

void mal_logs_feed(mal_log_reading *r, char *text, size_t length) {
  char *end = text + length;
  for (char *at = text; at < end;) {
    mal_log_line l = {.number = ++r->lines};
    char *stop = text + (mal_words_in_line(r->known, at, end, &l.words) - text);
    r->seen |= l.words;
    if (l.words || r->opened) {
      char *cut = stop > at && stop[-1] == '\r' ? stop - 1 : stop, was = *cut;
      *cut = 0;
      l.text = at;
      l.length = (size_t)(cut - at);
      l.whole = stop < end;
      one_line(r, &l);
      *cut = was;
    }
    at = stop + 1;
  }
}

bool mal_logs_need_all(const mal_log_reading *r) {
  for (int k = 0; k < KINDS; k++)
    if (kinds[k]->read && (r->seen & kinds[k]->wants)) return true;
  return false;
}

static bool end_of_kind(mal_log_reading *r, int k, const mal_paste *all) {
  const mal_log_kind *kind = kinds[k];
  bool found = false;
  if (kind->read) return all && (r->seen & kind->wants) && kind->read(r->log.h, all);
  if (kind->is_one && !r->streams[0].state[k] && kind->is_one(&r->head))
    r->streams[0].state[k] = mal_alloc(r->log.h->arena, kind->state_bytes);
  for (int i = 0; i < r->n; i++)
    if (r->streams[i].state[k]) found = kind->end(&r->log, r->streams[i].state[k]) || found;
  return found;
}

bool mal_logs_end(mal_log_reading *r, const mal_paste *all,
                  void (*note)(mal_health *h, const char *file, const char *what)) {
  bool any = false;
  for (int k = 0; k < KINDS; k++) {
    if (!end_of_kind(r, k, all)) continue;
    note(r->log.h, r->head.file, kinds[k]->what);
    any = true;
  }
  return any;
}
