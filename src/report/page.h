/* Text for people: a growing page, styles that vanish without colour, aligned tables. 80 columns. */
#ifndef MAL_REPORT_PAGE_H
#define MAL_REPORT_PAGE_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>

enum { MAL_PAGE_COLUMNS = 80 };

typedef enum mal_style { MAL_PLAIN, MAL_BOLD, MAL_DIM, MAL_GOOD, MAL_WARN, MAL_WRONG, MAL_BAR, MAL_STYLES } mal_style;

typedef struct mal_page {
  mal_arena *arena;
  char *text; /* always NUL-terminated */
  size_t used, room;
  bool colour;
} mal_page;

void mal_page_init(mal_page *p, mal_arena *a, bool colour);
void mal_page_put(mal_page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mal_page_styled(mal_page *p, mal_style style, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Words of `text` from `column` on, wrapped to `indent`, ended by a newline. A newline in text is kept. */
void mal_page_wrap(mal_page *p, size_t column, size_t indent, const char *text);
/* `label` in bold, padded to column `indent`, then `text` wrapped there. */
void mal_page_field(mal_page *p, size_t indent, const char *label, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same, unless text is NULL. */
void mal_page_note(mal_page *p, size_t indent, const char *label, const char *text);

/* "tp=8, dp=1" of "tp=8,dp=1": so that it wraps. */
const char *mal_spaced(mal_arena *a, const char *keys);

/* A command line from `column` on, ended by a newline; continued with a backslash, an option kept with its value. */
void mal_page_command(mal_page *p, size_t column, size_t indent, const char *command);

enum { MAL_TABLE_COLUMNS = 12 };

/* align: one letter a column: l left, r right, w left and wrapped to what is left of 80 columns (last only). */
typedef struct mal_table {
  mal_arena *arena;
  const char *align;
  int columns, rows;
  size_t indent;
  const char **cells;
  mal_style *styles; /* [rows] */
} mal_table;

void mal_table_init(mal_table *t, mal_arena *a, size_t indent, const char *align);
/* As many const char * as columns; they are copied. */
void mal_table_row(mal_table *t, mal_style style, ...);
void mal_table_put(const mal_table *t, mal_page *p);
#endif
