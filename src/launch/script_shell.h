/* Inside launch/script: one shell script being read. */
#ifndef MAL_LAUNCH_SCRIPT_SHELL_H
#define MAL_LAUNCH_SCRIPT_SHELL_H
#include "launch/script.h"

enum { MAL_SHELL_DEPTH = 16 }; /* commands within commands, values within values */

typedef struct mal_sh_variable {
  const char *name;
  mal_words value; /* one word, or those of an array */
  bool array;
} mal_sh_variable;

typedef struct mal_shell {
  mal_script *script;
  mal_arena *a;
  mal_error *e;
  mal_status status; /* the first failure; after it nothing more is read */
  mal_sh_variable *vars;
  int n_vars, vars_room, depth;
  size_t total; /* bytes of all words made */
  int words;
} mal_shell;

typedef struct mal_cursor {
  const char *at, *end;
  int line;
  bool live; /* what is read counts; false in a branch that is not taken */
} mal_cursor;

typedef struct mal_sh_field { /* being read: a word may become several, or none */
  mal_writing text;
  bool some; /* a word has begun: "" counts */
} mal_sh_field;

/* "file:line: what", unless something failed before. */
void mal_sh_stop(mal_shell *s, const mal_cursor *c, const char *what);
void mal_sh_push(mal_shell *s, mal_words *w, const char *word);
mal_sh_variable *mal_sh_find(const mal_shell *s, const char *name); /* NULL: nobody set it */
mal_sh_variable *mal_sh_make(mal_shell *s, const char *name);
size_t mal_sh_name_length(const char *at, const char *end); /* of the name that begins at `at`; 0: none does */
bool mal_sh_blank(char c);
bool mal_sh_ends_word(char c);

void mal_sh_put(mal_shell *s, mal_sh_field *f, const mal_cursor *c, const char *text, size_t length);
/* A value into a word: split at blanks where it is not quoted and there is a list to split into. */
void mal_sh_put_value(mal_shell *s, mal_sh_field *f, const mal_cursor *c, const char *value, bool quoted,
                      mal_words *into);
void mal_sh_end_field(mal_shell *s, mal_sh_field *f, const mal_cursor *c, mal_words *into);
/* The text up to the closing sign, signs of its kind inside counted; c stands behind the opening one. */
char *mal_sh_enclosed(mal_shell *s, mal_cursor *c, char open, char close);
/* One word of the text, which may become several, or none. */
void mal_sh_read_word(mal_shell *s, mal_cursor *c, mal_words *into);
#endif
