/* What files of settings say, whatever their syntax: keys with their values, in order, each with the line it came from.
 *
 * Text that is not known before a job runs is written into a value as ${NAME}, the name of a shell variable; a dollar of the
 * text itself as $$. Nothing here ever runs a file. */
#ifndef MAL_LAUNCH_SETTINGS_H
#define MAL_LAUNCH_SETTINGS_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum mal_setting_kind { MAL_SET_TEXT, MAL_SET_NUMBER, MAL_SET_BOOL, MAL_SET_NULL } mal_setting_kind;

typedef struct mal_setting {
  const char *key;           /* "--seq-length"; "zero_optimization.stage" */
  const char *const *values; /* none: the key alone */
  int n_values, kind, line;  /* kind: mal_setting_kind, of syntaxes that tell them apart */
  bool list;                 /* values are a list, even when there is one */
  const char *file;
  const char *why; /* written beside it; NULL: nothing */
  bool taken;      /* a reader understood it */
  bool usual;      /* written where nothing else is known: what was kept takes its place */
} mal_setting;

/* Something to be said about settings, and where. */
typedef struct mal_note {
  const char *file; /* NULL: none */
  int line;         /* 0: none */
  const char *text;
} mal_note;

typedef struct mal_notes {
  mal_note *all;
  int count, room;
} mal_notes;

typedef struct mal_settings {
  mal_arena *arena;
  mal_setting *all;
  int count, room;
} mal_settings;

enum { MAL_SETTINGS_MOST = 100000 }; /* of one file: bound on input */

mal_setting *mal_setting_add(mal_settings *s, const char *key, const char *file, int line);
/* A key with one value, or (value NULL) alone. */
mal_setting *mal_setting_put(mal_settings *s, const char *key, const char *value);
mal_setting *mal_setting_number(mal_settings *s, const char *key, int64_t value);
/* The last of its name, as programs read them; NULL: none. '_' and '-' are the same in keys that begin with '-'. */
mal_setting *mal_setting_find(const mal_settings *s, const char *key);
/* Marks every one of its name. Returns the last. */
mal_setting *mal_setting_take(mal_settings *s, const char *key);
/* Its first value; NULL: none. */
const char *mal_setting_value(const mal_setting *s);
/* Whether it has a value with something in it that only the running job knows. */
bool mal_setting_open(const mal_setting *s);

void mal_note_add(mal_arena *a, mal_notes *n, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* MAL_BAD "file:line: ...". */
mal_status mal_setting_fail(const mal_setting *s, mal_error *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#endif
