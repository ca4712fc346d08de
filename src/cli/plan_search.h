/* The search side of malha plan. */
#ifndef MAL_CLI_PLAN_SEARCH_H
#define MAL_CLI_PLAN_SEARCH_H
#include "cli/inputs.h"
#include "report/answer.h"

typedef enum mal_least { MAL_LEAST_NONE, MAL_LEAST_GPUS } mal_least;
typedef enum mal_most { MAL_MOST_NONE, MAL_MOST_SEQ, MAL_MOST_MICRO_BATCH, MAL_MOST_PARAMS } mal_most;
extern const char *const mal_least_name[], *const mal_most_name[];

/* Options that do not go together; --prices that are not one for each machine. */
mal_status mal_plan_check(const mal_inputs *in, mal_error *e);
/* What was asked of machine i: the size that was looked for, if one was, then the best layout or the one that was given. */
mal_status mal_plan_answer(mal_arena *a, const mal_inputs *in, int i, mal_answer *answer, mal_error *e);
/* The best layout on machine i, with the others in answer->search; when none fits, the nearest with what would. */
mal_status mal_plan_search(mal_arena *a, const mal_inputs *in, int i, mal_answer *answer, mal_error *e);
/* The command that asks for the answer's very layout and size; NULL: none does. */
char *mal_plan_take(mal_arena *a, int argc, char **argv, const mal_answer *answer);
/* For a verb that needs --layout and got none: MAL_BAD, with the command that asks for the best layout, every flag kept. */
mal_status mal_plan_suggest(mal_arena *a, const mal_inputs *in, int argc, char **argv, mal_error *e);
#endif
