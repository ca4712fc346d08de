/* What can be fitted for memory where runs ran out of it, chosen on one model and judged on another.
 *
 *   oom_split RUNS.csv OOM.csv [FAMILY]          (Aleph-Alpha)
 *
 * The two fitted numbers of that family's profiles are `slack` and `logits_bytes`; each pair of a grid is lowered for every run. For each
 * model the pairs that tell its runs apart best (the sum of both shares) are kept: of equals all, so the other model gets a range. */
#include "check/rows.h"
#include "check/runs.h"
#include "program/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MODELS = 8, SLACKS = 12, LOGITS = 9 };
static const double first_slack = 0.08, slack_step = 0.04;
static const int64_t first_logits = 8, logits_step = 2;

typedef struct tally {
  const char *model;
  int ran, out, ran_fits[SLACKS][LOGITS], out_refused[SLACKS][LOGITS];
} tally;

static tally *of_model(tally *all, int *n, const char *model) {
  for (int i = 0; i < *n; i++)
    if (!strcmp(all[i].model, model)) return &all[i];
  if (*n == MAX_MODELS) return NULL;
  all[*n].model = model;
  return &all[(*n)++];
}

static void judge(mal_arena *a, const mal_row *row, bool ran, tally *t) {
  const mal_plan *plan = row->plan;
  mal_profile *profile = plan->profile;
  double slack = profile->slack;
  int64_t logits = profile->logits_bytes, limit = (int64_t)plan->machine.gpu->memory_bytes.value;
  *(ran ? &t->ran : &t->out) += 1;
  for (int l = 0; l < LOGITS; l++) {
    mal_program p;
    mal_error e;
    profile->logits_bytes = first_logits + l * logits_step;
    for (int s = 0; s < SLACKS; s++) {
      profile->slack = first_slack + s * slack_step;
      if (mal_lower(a, plan, &p, &e) != MAL_OK) continue;
      bool fits = p.stages[p.worst_stage].total_bytes <= limit;
      if (ran)
        t->ran_fits[s][l] += fits;
      else
        t->out_refused[s][l] += !fits;
    }
  }
  profile->slack = slack, profile->logits_bytes = logits;
}

static mal_status take(mal_arena *a, const char *path, bool ran, const char *family, tally *all, int *n, mal_error *e) {
  mal_trials trials;
  mal_rows rows;
  mal_arena scratch;
  mal_status status = mal_trials_read(a, path, &trials, e);
  if (status == MAL_OK) status = mal_rows_make(a, &trials, &rows, e);
  if (status != MAL_OK) return status;
  mal_arena_init(&scratch);
  for (int i = 0; i < rows.count; i++) {
    const mal_row *row = &rows.rows[i];
    if (row->skipped || strcmp(row->family, family)) continue;
    tally *t = of_model(all, n, row->trial->model_name);
    if (t) judge(&scratch, row, ran, t);
    mal_arena_reset(&scratch);
  }
  mal_arena_free(&scratch);
  return MAL_OK;
}

static double share(int part, int all) { return all ? 100. * part / all : 100; }
static double score(const tally *t, int s, int l) {
  return share(t->ran_fits[s][l], t->ran) + share(t->out_refused[s][l], t->out);
}

/* Chosen on `from`, judged on `to`. */
static void carry_over(const tally *from, const tally *to) {
  double best = 0, low[2] = {100, 100}, high[2] = {0, 0};
  for (int s = 0; s < SLACKS; s++)
    for (int l = 0; l < LOGITS; l++)
      if (score(from, s, l) > best) best = score(from, s, l);
  printf("chosen on %s (%d ran, %d ran out):", from->model, from->ran, from->out);
  for (int s = 0; s < SLACKS; s++)
    for (int l = 0; l < LOGITS; l++) {
      if (score(from, s, l) < best - 1e-9) continue;
      double x[2] = {share(to->out_refused[s][l], to->out), share(to->ran_fits[s][l], to->ran)};
      printf(" (%.2f, %d)", first_slack + s * slack_step, (int)(first_logits + l * logits_step));
      for (int k = 0; k < 2; k++) {
        if (x[k] < low[k]) low[k] = x[k];
        if (x[k] > high[k]) high[k] = x[k];
      }
    }
  printf("\n  judged on %s: ran out, said not to fit %.1f to %.1f %%; ran, said to fit %.1f to %.1f %%\n", to->model,
         low[0], high[0], low[1], high[1]);
}

int main(int argc, char **argv) {
  static tally all[MAX_MODELS];
  int n = 0;
  mal_arena a;
  mal_error e = {0};
  mal_arena_init(&a);
  if (argc < 3) {
    fprintf(stderr, "oom_split RUNS.csv OOM.csv [FAMILY]\n");
    return MAL_BAD;
  }
  const char *family = argc > 3 ? argv[3] : "Aleph-Alpha";
  mal_status status = take(&a, argv[1], true, family, all, &n, &e);
  if (status == MAL_OK) status = take(&a, argv[2], false, family, all, &n, &e);
  if (status != MAL_OK) fprintf(stderr, "oom_split: %s\n", e.text);
  for (int i = 0; status == MAL_OK && i < n; i++)
    for (int k = 0; k < n; k++)
      if (k != i) carry_over(&all[i], &all[k]);
  mal_arena_free(&a);
  return (int)status;
}
