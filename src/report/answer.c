/* From a plan to an answer, and what all its reports share. */
#include "report/answer.h"
#include <string.h>

static bool already(mal_arena *a, const mal_plan *plan, const char *name, const char *value) {
  mal_layout changed = plan->layout;
  mal_error ignored;
  return mal_option_set(mal_layout_options, (size_t)mal_layout_option_count, name, value, &changed, &ignored) ==
             MAL_OK &&
         strcmp(mal_layout_show(a, &changed), mal_layout_show(a, &plan->layout)) == 0;
}

/* "--zero 3 --train lora" without what the plan already has. */
static char *news_of(mal_arena *a, const mal_plan *plan, const char *change) {
  char *text = mal_copy(a, change), *rest = NULL, *news = mal_copy(a, "");
  for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
    const char *value = strtok_r(NULL, " ", &rest);
    if (value && strncmp(name, "--", 2) == 0 && already(a, plan, name + 2, value)) continue;
    news = mal_print(a, "%s%s%s %s", news, *news ? " " : "", name, value ? value : "");
  }
  return news;
}

/* Every "--name value" of `small` is in `large` too. */
static bool contains(mal_arena *a, const char *large, const char *small) {
  char *text = mal_copy(a, small), *rest = NULL, *padded = mal_print(a, " %s ", large);
  for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
    const char *value = strtok_r(NULL, " ", &rest);
    if (!strstr(padded, mal_print(a, " %s %s ", name, value ? value : ""))) return false;
  }
  return true;
}

/* What the plan already has is no change; a change that contains another is not among the smallest. */
static void keep_smallest(mal_arena *a, mal_answer *answer) {
  mal_remedy *r = answer->remedies;
  int kept = 0;
  for (int i = 0; i < answer->n_remedies; i++) r[i].change = news_of(a, &answer->plan, r[i].change);
  char *larger = mal_alloc(a, (size_t)answer->n_remedies + 1);
  for (int i = 0; i < answer->n_remedies; i++)
    for (int k = 0; k < answer->n_remedies && !larger[i]; k++)
      larger[i] = k != i && strcmp(r[i].change, r[k].change) != 0 && contains(a, r[i].change, r[k].change);
  for (int i = 0; i < answer->n_remedies; i++)
    if (!larger[i]) r[kept++] = r[i];
  answer->n_remedies = kept;
}

mal_status mal_answer_find(mal_arena *arena, mal_answer *a, bool remedies, mal_error *e) {
  mal_status status = mal_lower(arena, &a->plan, &a->program, e);
  if (!status) status = mal_price(arena, &a->program, &a->estimate, e);
  if (status || !remedies || mal_answer_fits(a)) return status;
  status = mal_price_remedies(arena, &a->plan, &a->remedies, &a->n_remedies, e);
  if (!status) keep_smallest(arena, a);
  return status;
}

bool mal_answer_fits(const mal_answer *a) {
  return a->status == MAL_OK && a->estimate.fits && a->estimate.host_fits && a->estimate.nvme_fits;
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
