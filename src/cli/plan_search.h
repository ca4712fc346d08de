/* The search side of malha plan. */
#ifndef MAL_CLI_PLAN_SEARCH_H
#define MAL_CLI_PLAN_SEARCH_H
#include "cli/inputs.h"
#include "report/answer.h"

/* The best layout on machine i, with the others in answer->search; when none fits, the nearest with what would. */
mal_status mal_plan_search(mal_arena *a, const mal_inputs *in, int i, mal_answer *answer, mal_error *e);
/* The command that asks for the plan's very layout. */
char *mal_plan_take(mal_arena *a, int argc, char **argv, const mal_plan *plan);
/* For a verb that needs --layout and got none: MAL_BAD, with the command that asks for the best layout, every flag kept. */
mal_status mal_plan_suggest(mal_arena *a, const mal_inputs *in, int argc, char **argv, mal_error *e);
#endif
