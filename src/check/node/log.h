/* Logs of any size in one pass: every line is searched once for all words that any reader knows (core/words.h), and a reader sees the
 * lines that hold one of its own, and the rows of a table that it has begun. What ranks wrote through mpirun, srun, pdsh or a
 * container's log comes apart again by the label before each line. Nothing is kept of a line but what a reader takes. */
#ifndef MAL_CHECK_NODE_LOG_H
#define MAL_CHECK_NODE_LOG_H
#include "check/node/health.h"

/* Words that tell readers their lines; one bit each. */
typedef enum mal_log_word {
  MAL_W_PERF, /* nccl-tests */
  MAL_W_NTHREAD,
  MAL_W_RANK,
  MAL_W_BUSBW,
  MAL_W_FLOAT,
  MAL_W_HALF,
  MAL_W_BFLOAT,
  MAL_W_DOUBLE,
  MAL_W_INT,
  MAL_W_GBPS, /* all_reduce_bench.py */
  MAL_W_INFO, /* NCCL */
  MAL_W_WARN,
  MAL_W_VIA,
  MAL_W_GDR,
  MAL_W_SET,
  MAL_W_CHANNELS,
  MAL_W_NRANKS,
  MAL_W_BYTES, /* perftest */
  MAL_W_DEVICE,
  MAL_W_BW, /* fio */
  MAL_W_BW_OLD,
  MAL_W_BS,
  MAL_W_FIO_JSON,
  MAL_W_RUNNING, /* nvbandwidth */
  MAL_W_SUM,
  MAL_W_XFER, /* gdsio */
  MAL_W_NVRM, /* kernel */
  MAL_W_NVIDIA,
  MAL_W_XID,
  MAL_W_FALLEN,
  MAL_W_ADAPTER,
  MAL_W_MISMATCH,
  MAL_W_AER,
  MAL_W_MCE,
  MAL_W_LINK_DOWN,
  MAL_W_LINK_DOWN_2,
  MAL_W_TID,      /* Fabric Manager */
  MAL_W_ENV_NCCL, /* environment */
  MAL_W_ENV_CUDA,
  MAL_W_ENV_TORCH,
  MAL_W_ENV_FI,
  MAL_W_ENV_OMP,
  MAL_W_ENV_UCX,
  MAL_W_VALUE,
  MAL_W_RESULTS, /* a table of results */
  MAL_LOG_WORDS
} mal_log_word;
#define MAL_W(word) (1ull << MAL_W_##word)

typedef struct mal_log_line {
  const char *text, *own; /* the line; the same without labels of ranks and times */
  size_t length;
  int number;
  uint64_t words;
  bool whole;        /* a newline ended it: the last line of a file may be cut off anywhere */
  const char *label; /* before it: "[1,0]<stdout>:", "node3:"; "" */
} mal_log_line;

typedef struct mal_log {
  mal_health *h;
  const mal_paste *p;
} mal_log;

typedef struct mal_log_kind {
  const char *what;
  uint64_t wants;     /* words whose lines it reads */
  bool by_label;      /* a state for each label */
  size_t state_bytes; /* zeroed before the first line */
  /* Returns whether a table is open, of which it wants the rows: lines that begin with a digit and hold none of its words. */
  bool (*line)(const mal_log *log, void *state, const mal_log_line *l);
  /* After the last line of a state; whether anything was of that kind. */
  bool (*end)(const mal_log *log, void *state);
  /* Instead of both: a file that is one text, read when it holds `wants`. */
  mal_log_reader *read;
  /* Where no line held a word of it: whether the text is of this kind all the same. NULL: no. */
  bool (*is_one)(const mal_paste *p);
} mal_log_kind;
extern const mal_log_kind mal_log_nccl_tests, mal_log_torch_bench, mal_log_nccl, mal_log_perftest, mal_log_fio_text,
    mal_log_nvbandwidth, mal_log_gdsio, mal_log_kernel, mal_log_fabric_manager, mal_log_environment;

/* Begin; feed the text in pieces of whole lines, the last of which may lack its newline; end, which notes each kind that was there.
 * head: the file's name and its beginning, or all of it. */
typedef struct mal_log_reading mal_log_reading;
mal_log_reading *mal_logs_begin(mal_health *h, const mal_paste *head);
void mal_logs_feed(mal_log_reading *r, char *text, size_t length);
/* Whether a kind was seen that needs the text as a whole (JSON, CSV). */
bool mal_logs_need_all(const mal_log_reading *r);
/* all: the whole text, where it is at hand. Whether there was any log. */
bool mal_logs_end(mal_log_reading *r, const mal_paste *all,
                  void (*note)(mal_health *h, const char *file, const char *what));
const char *mal_log_kinds(mal_arena *a);

/* What a log said before, by a hash: so that a million lines of one fault cost no text. */
enum { MAL_LOG_MEMO = 2048 };
typedef struct mal_log_memo {
  struct {
    uint64_t key;
    int finding; /* its number + 1 */
  } of[MAL_LOG_MEMO];
  int n;
} mal_log_memo;
/* FNV-1a of seed and text; without its hexadecimal digits when numbers is false. */
uint64_t mal_log_hash(uint64_t seed, const char *text, bool numbers);
/* Counts the line when the key is known, or when no more are kept; false: it is new. */
bool mal_log_again(mal_health *h, mal_log_memo *memo, uint64_t key, mal_evidence from);
void mal_log_note(mal_health *h, mal_log_memo *memo, uint64_t key, const mal_finding *f);

/* The line without "[1,0]<stdout>:", "0: ", "node3: ", "[node3:1234] ", "worker-0 | " and times before it. */
const char *mal_log_own(const char *line, size_t length);
/* A decimal number; *at moves behind it. False, and *at where it was, when there is none. */
bool mal_log_number(const char **at, double *value);
/* The words of a line at blanks, without copying: how many, at most max. */
typedef struct mal_log_span {
  const char *at;
  size_t length;
} mal_log_span;
int mal_log_words(const char *line, mal_log_span *words, int max);
#endif
