/* One table per set of options: feeds parsing, --help, the man page, completion and YAML keys.
 * A verb declares `static const mal_option table[]` and a struct that it fills. */
#ifndef MAL_CORE_OPTIONS_H
#define MAL_CORE_OPTIONS_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum mal_option_kind {
  MAL_OPT_FLAG,     /* bool */
  MAL_OPT_TEXT,     /* const char * */
  MAL_OPT_COUNT,    /* int64_t, mal_parse_count */
  MAL_OPT_NUMBER,   /* double */
  MAL_OPT_CHOICE,   /* int: index into choices */
  MAL_OPT_QUANTITY, /* double in SI; unit names the base */
} mal_option_kind;

typedef struct mal_option {
  const char *name; /* "global-batch": --global-batch N, key global-batch or global_batch in YAML */
  char letter;      /* 'o' for -o, or 0 */
  mal_option_kind kind;
  size_t offset;              /* into the verb's struct */
  const char *metavar;        /* "N", "FILE" */
  const char *unit;           /* for QUANTITY, else NULL */
  const char *const *choices; /* NULL-terminated, for CHOICE */
  const char *help;
} mal_option;

/* Parses argv[1..]; what is not an option goes to positional (at most max_positional). `--opt=value` and
 * `--opt value` both work; `--` ends options. Unknown option: MAL_BAD with the nearest. Given twice: the last. */
mal_status mal_options_parse(const mal_option *table, size_t count, int argc, char **argv, void *into,
                             const char **positional, int max_positional, int *n_positional, mal_error *e);
/* Sets one option by name, as YAML and plan.json do. */
mal_status mal_option_set(const mal_option *table, size_t count, const char *name, const char *value, void *into,
                          mal_error *e);
/* The options part of --help, 80 columns. */
char *mal_options_help(mal_arena *a, const mal_option *table, size_t count);
#endif
