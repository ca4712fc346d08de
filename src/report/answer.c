/* From a plan to an answer, and what all its reports share. */
#include "report/answer.h"
#include <string.h>

mal_status mal_answer_find(mal_arena *arena, mal_answer *a, bool remedies, mal_error *e) {
  mal_status status = mal_lower(arena, &a->plan, &a->program, e);
  if (!status) status = mal_price(arena, &a->program, &a->estimate, e);
  if (status || !remedies || mal_answer_fits(a)) return status;
  return mal_price_remedies(arena, &a->plan, &a->remedies, &a->n_remedies, e);
}

bool mal_answer_fits(const mal_answer *a) {
  return a->status == MAL_OK && (a->search ? a->search->count > 0 : a->estimate.fits);
}

bool mal_answer_in_time(const mal_answer *a) {
  double deadline = a->plan.job.deadline_s;
  return deadline <= 0 || a->estimate.time_to_target_s <= deadline;
}

bool mal_answer_in_budget(const mal_answer *a) {
  double budget = a->plan.job.budget_usd;
  return budget <= 0 || a->estimate.cost_usd <= budget;
}

typedef struct unverified {
  mal_arena *arena;
  const char **names;
  int count, max;
} unverified;

static void visit(void *context, const char *section, const char *key, const mal_value *value,
                  const mal_fitted *fitted) {
  unverified *u = context;
  (void)fitted;
  if (!value || mal_value_verified(value) || value->value == 0) return;
  if (u->count < u->max) u->names[u->count] = mal_print(u->arena, "%s.%s", section, key);
  u->count++;
}

int mal_unverified(mal_arena *a, const mal_machine *m, const char **names, int max) {
  unverified u = {a, names, 0, max};
  mal_machine_each(m, visit, &u);
  return u.count;
}

static bool plain_word(const char *word) {
  static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=,.:/+@%";
  return *word && strspn(word, safe) == strlen(word);
}

static void put_quoted(mal_page *p, const char *word) {
  mal_page_put(p, "'");
  for (; *word; word++)
    if (*word == '\'')
      mal_page_put(p, "'\\''");
    else
      mal_page_put(p, "%c", *word);
  mal_page_put(p, "'");
}

char *mal_report_command(mal_arena *a, int argc, char **argv) {
  mal_page p;
  mal_page_init(&p, a, false);
  mal_page_put(&p, "malha");
  for (int i = 0; i < argc; i++) {
    mal_page_put(&p, " ");
    if (plain_word(argv[i]))
      mal_page_put(&p, "%s", argv[i]);
    else
      put_quoted(&p, argv[i]);
  }
  return p.text;
}
