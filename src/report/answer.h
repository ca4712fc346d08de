/* What was asked and what was found, together: every report takes it. */
#ifndef MAL_REPORT_ANSWER_H
#define MAL_REPORT_ANSWER_H
#include "price/price.h"
#include "report/page.h"
#include "search/inverse.h"
#include "search/sensitivity.h"

typedef struct mal_answer {
  mal_plan plan; /* the program points to it: an answer does not move */
  mal_program program;
  mal_estimate estimate;
  mal_remedy *remedies; /* when it does not fit */
  int n_remedies;
  const mal_search_result *search; /* the plan is its best, or what comes nearest; NULL: the layout was given */
  const mal_inverse
      *inverse; /* the machine, sequence, micro-batch or model is the answer to this; NULL: all was given */
  const mal_what_if *what_ifs; /* [MAL_IFS]; NULL: nothing fits, or the layout was given */
  const mal_choice *against;   /* a layout to hold it against; NULL: none */
  const char *take;            /* the command that asks for this very layout; with `search` only */
  const char *asked;           /* the machine as the user wrote it */
  const char *command;         /* reproduces the answer */
  mal_status status;           /* not MAL_OK: this machine cannot hold such a layout at all, and error says why */
  mal_error error;
} mal_answer;

enum { MAL_ANSWER_VERSION = 1 }; /* of docs/schema/plan.json */

/* Lowers and prices a->plan; remedies only when asked for and it does not fit. */
mal_status mal_answer_find(mal_arena *arena, mal_answer *a, bool remedies, mal_error *e);
/* A search takes only what holds with the probability asked for; a layout that was given must hold with mal_fit_confidence. */
bool mal_answer_fits(const mal_answer *a);
/* The target is reached before the deadline, and for the budget; true when none was given. */
bool mal_answer_in_time(const mal_answer *a);
bool mal_answer_in_budget(const mal_answer *a);

/* What was searched, the next best and what each loses where, and the layout that was to be held against it. */
void mal_report_search(mal_page *p, const mal_answer *a);
void mal_report_take(mal_page *p, const char *command); /* the command for this very layout */
json_t *mal_report_search_json(const mal_search_result *r);

/* What would change the best layout's speed. */
void mal_report_what_ifs(mal_page *p, const mal_answer *a);
json_t *mal_report_what_ifs_json(mal_arena *arena, const mal_answer *a);

/* What size was found, what the next one misses, what was looked at. */
void mal_report_inverse(mal_page *p, const mal_answer *a);
json_t *mal_report_inverse_json(const mal_inverse *q);
extern const char *const mal_ask_name[]; /* "nodes", "gpus", "seq", "micro-batch", "params" */

/* Of several machines that fit: when moving from the first to another pays. */
void mal_report_moves(mal_page *p, const mal_answer *answers, int count);
json_t *mal_report_moves_json(const mal_answer *answers, int count);

/* One answer at length; several side by side. */
void mal_report_plan(mal_page *p, const mal_answer *a);
void mal_report_side_by_side(mal_page *p, const mal_answer *answers, int count);
/* JSON by docs/schema/plan.json: one answer, or {"version", "plans": [...]} of several. */
json_t *mal_report_plan_json(const mal_answer *answers, int count);

/* Names of catalogue values in use that nobody verified, "gpu.idle_w"; at most max, the count of all is returned. */
int mal_unverified(mal_arena *a, const mal_machine *m, const char **names, int max);

/* The command line again, quoted for a POSIX shell. */
char *mal_report_command(mal_arena *a, int argc, char **argv);
#endif
