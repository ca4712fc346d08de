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
  MAL_OPT_POSITIVE, /* int64_t from 1 on; 0 in the struct stands for "not given" */
  MAL_OPT_NUMBER,   /* double, not negative */
  MAL_OPT_CHOICE,   /* int: index into choices */
  MAL_OPT_QUANTITY, /* double in SI, not negative; unit names the base */
  MAL_OPT_AMOUNT,   /* the same above 0; 0 in the struct stands for "not given" */
} mal_option_kind;

typedef struct mal_option {
  const char *name; /* "global-batch": --global-batch N, key global-batch or global_batch in YAML */
  char letter;      /* 'o' for -o, or 0 */
  mal_option_kind kind;
  size_t offset;              /* into the verb's struct */
  const char *metavar;        /* "N", "FILE" */
  const char *unit;           /* for QUANTITY and AMOUNT, else NULL */
  const char *const *choices; /* NULL-terminated, for CHOICE */
  const char *help;
} mal_option;

/* Parses argv[1..]; what is not an option goes to positional (at most max_positional). `--opt=value` and
 * `--opt value` both work; `--` ends options. Unknown option: MAL_BAD with the nearest. Given twice: the last. */
mal_status mal_options_parse(const mal_option *table, size_t count, int argc, char **argv, void *into,
                             const char **positional, int max_positional, int *n_positional, mal_error *e);
const mal_option *mal_option_named(const mal_option *table, size_t count, const char *name); /* NULL: none */
/* Sets one option by name, as YAML and plan.json do. */
mal_status mal_option_set(const mal_option *table, size_t count, const char *name, const char *value, void *into,
                          mal_error *e);
/* The bytes of an option's field; whether two structs agree in it; from's value into `to`. */
size_t mal_option_size(const mal_option *o);
bool mal_option_same(const mal_option *o, const void *x, const void *y);
void mal_option_copy(const mal_option *o, void *to, const void *from);
/* The options part of --help, 80 columns. */
char *mal_options_help(mal_arena *a, const mal_option *table, size_t count);
#endif
