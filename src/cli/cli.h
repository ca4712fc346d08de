/* The command: one verb per file. A verb reads its options, asks the library, and prints what src/report built.
 * Only this folder prints and exits; exit codes are the values of mal_status. */
#ifndef MAL_CLI_CLI_H
#define MAL_CLI_CLI_H
#include "core/options.h"
#include "report/page.h"

/* A group of options in a verb's help; keys: shown as name=VALUE (the parts of --layout) rather than --name VALUE. */
typedef struct mal_section {
  const char *title;
  const mal_option *table;
  const int *count;
  bool keys;
} mal_section;

typedef struct mal_verb {
  const char *name;
  int (*run)(int argc, char **argv); /* argv[0] is the verb */
  const char *question;              /* what a user wants to know */
  const char *summary;               /* what the verb does, one line */
  const char *usage;                 /* after the verb's name */
  const char *about;                 /* paragraphs, separated by an empty line */
  const mal_section *sections;       /* ends with a NULL title */
  const char *const *examples;       /* what it shows, command, ..., NULL */
} mal_verb;

extern const mal_verb mal_verbs[];
extern const int mal_verb_count;
const mal_verb *mal_verb_named(const char *name);

int mal_cmd_plan(int argc, char **argv);
int mal_cmd_lower(int argc, char **argv);
int mal_cmd_simulate(int argc, char **argv);
int mal_cmd_validate(int argc, char **argv);
int mal_cmd_train(int argc, char **argv);
int mal_cmd_models(int argc, char **argv);
int mal_cmd_machines(int argc, char **argv);
int mal_cmd_design(int argc, char **argv);
int mal_cmd_data(int argc, char **argv);
int mal_cmd_weights(int argc, char **argv);
int mal_cmd_probe(int argc, char **argv);
int mal_cmd_check(int argc, char **argv);
int mal_cmd_export(int argc, char **argv);
int mal_cmd_import(int argc, char **argv);
int mal_cmd_help(int argc, char **argv);

/* Option groups of the verbs, for help and man pages. */
extern const mal_option mal_simulate_options_table[];
extern const int mal_simulate_option_count;
extern const mal_option mal_input_options[], mal_plan_options[], mal_search_options_table[], mal_inverse_options[],
    mal_lower_options[], mal_catalog_options[], mal_train_options[], mal_validate_options[], mal_design_options[];
extern const int mal_input_option_count, mal_plan_option_count, mal_search_option_count, mal_inverse_option_count,
    mal_lower_option_count, mal_catalog_option_count, mal_train_option_count, mal_validate_option_count,
    mal_design_option_count;
extern const mal_option mal_data_options[];
extern const int mal_data_option_count;
extern const mal_option mal_weights_options[];
extern const int mal_weights_option_count;
extern const mal_option mal_probe_options[];
extern const int mal_probe_option_count;
extern const mal_option mal_export_options[], mal_import_options[];
extern const int mal_export_option_count, mal_import_option_count;
extern const mal_option mal_check_options[];
extern const int mal_check_option_count;

void mal_help_overview(mal_page *page);
void mal_help_verb(mal_page *page, const mal_verb *verb);
void mal_help_man(mal_page *page, const mal_verb *verb); /* roff; NULL verb: malha(1) itself */

/* Completion of the command line (a script), and the names it asks for (one a line): malha help --completion, --names. */
typedef enum mal_shell { MAL_SHELL_NONE = -1, MAL_SHELL_BASH, MAL_SHELL_ZSH } mal_shell;
typedef enum mal_names { MAL_NAMES_NONE = -1, MAL_NAMES_MODELS, MAL_NAMES_MACHINES, MAL_NAMES_PROFILES } mal_names;
extern const char *const mal_shell_name[], *const mal_names_name[]; /* NULL ends them */
void mal_help_completion(mal_page *page, int shell);
mal_status mal_help_names(mal_page *page, int what, mal_error *e);

/* Colour on standard output: a terminal, NO_COLOR unset, TERM not dumb. */
bool mal_colour(void);
/* Prints the page, says e on standard error when status is not MAL_OK and e has text, and returns the exit code. */
int mal_cli_finish(const mal_verb *verb, mal_page *page, mal_status status, const mal_error *e);
#endif
