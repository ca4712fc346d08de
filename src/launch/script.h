/* Shell scripts as people write them to start a training: which commands they end in, with variables and arrays put in.
 * Nothing is run: what only a running shell knows (command substitution, unset variables) stays open, as ${NAME} in a word
 * (launch/settings.h), and is said. Tests of texts and numbers are decided; where one cannot be, what hangs on it is left out. */
#ifndef MAL_LAUNCH_SCRIPT_H
#define MAL_LAUNCH_SCRIPT_H
#include "launch/settings.h"

enum { MAL_SCRIPT_LIMIT_BYTES = 4 << 20 };

typedef struct mal_words { /* one command */
  const char **word;
  int count, room, line;
} mal_words;

typedef struct mal_script {
  mal_arena *a;
  const char *file;
  mal_words *commands;
  int n_commands, commands_room;
  mal_settings exported;   /* environment: export NAME=VALUE, or NAME=VALUE before a command */
  mal_settings directives; /* "#SBATCH --nodes=4" as --nodes 4 */
  mal_words *held;         /* values of variables that hold options: commands that the text itself does not run */
  int n_held;
  mal_notes notes; /* what was left out */
  mal_notes open;  /* what is not known: line N stands as ${LINE_N} where it is used */
} mal_script;

/* given: NAME=VALUE set before the script begins; ends with NULL, may itself be NULL. Malformed, too deep or too large once
 * variables are put in: MAL_BAD with the line. */
mal_status mal_script_parse(mal_arena *a, const char *file, const char *text, size_t length, const char *const *given,
                            mal_script *script, mal_error *e);

/* A word as a shell takes it back: quoted where it must be, ${NAME} left for the shell. For sh and bash alike. */
char *mal_script_word(mal_arena *a, const char *word);
/* A text of outside as a word: dollars doubled. */
char *mal_script_literal(mal_arena *a, const char *text);
/* Long options of a command as settings: --key value value, --key=value; words before the first are left out. */
void mal_script_options(const mal_script *script, const mal_words *command, mal_settings *into);
#endif
