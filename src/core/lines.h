/* Text that people paste, line by line: logs, listings, captures. Whatever encoding and escapes they come with, what is
 * handed out is a NUL-terminated line without its end. */
#ifndef MAL_CORE_LINES_H
#define MAL_CORE_LINES_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>
#include <stdint.h>

/* One file or paste. text is writable and NUL-terminated, holds no other NUL (they became spaces), no terminal escapes, no byte
 * order mark and no UTF-16 (it became UTF-8). Line numbers are those of the original. */
typedef struct mal_paste {
  const char *file; /* as given, for evidence */
  char *text;
  size_t length;
} mal_paste;

enum { MAL_PASTE_LIMIT_BYTES = 1 << 30 };

/* "-" is standard input. MAL_BAD for what is no text: a compressed file, an archive, a program. */
mal_status mal_paste_load(mal_arena *a, const char *file, mal_paste *p, mal_error *e);
/* The same of a text that is in memory; it is copied. */
void mal_paste_make(mal_arena *a, const char *file, const char *text, size_t length, mal_paste *p);

/* For reading in pieces. What a file is that is no text ("compressed by gzip: ..."), NULL for a text; whether it is UTF-16; and a piece
 * of whole lines made clean in place: its new length. */
const char *mal_text_other(const char *text, size_t length);
bool mal_text_is_wide(const char *text, size_t length);
size_t mal_text_clean(char *text, size_t length);

/* mal_lines l = mal_lines_of(p); while (mal_lines_next(&l)) ... l.line ... The end of the line is overwritten with a NUL and put
 * back by the next call (or by mal_lines_end, when one stops early). */
typedef struct mal_lines {
  char *next, *end, *line;
  size_t length; /* of line */
  int number;    /* 1-based */
  char *cut, was;
} mal_lines;
mal_lines mal_lines_of(const mal_paste *p);
bool mal_lines_next(mal_lines *l);
void mal_lines_end(mal_lines *l);

/* The words of a line, split at blanks: each call gives the next, NULL at the end. *at starts as the line; the word is copied. */
char *mal_word(mal_arena *a, const char **at);
/* A number at the start of text, after blanks; false when there is none or it is not finite. */
bool mal_number_at(const char *text, double *value);
/* What follows `key` in the text, blanks skipped; NULL when absent. */
const char *mal_after(const char *text, const char *key);
bool mal_starts(const char *text, const char *start);
/* A copy of text[0..length) without blanks at its ends. */
char *mal_trimmed(mal_arena *a, const char *text, size_t length);
#endif
