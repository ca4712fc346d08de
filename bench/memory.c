/* How far peaks of memory lie from their estimates, by profile: the sigma of a log-normal.
 *
 *   memory RUNS.csv OOM.csv [--write]
 *
 * Evidence: log(measured / estimated) of rows that print their peak; that the others ran, and that those of OOM.csv ran out of
 * memory. The sigma of a profile is the most likely one, with a prior worth some rows around that of all; --write puts
 * it into the catalogue as memory_sigma, where there are enough rows of measured memory or out of it. */
#include "check/validate.h"
#include "fit_catalog.h"
#include <math.h>

enum { LEAST_ROWS = 5, MAX_ROOTS = 256 };
static const double prior_rows = 8,
                    lapse = 0.02; /* lapse: share of rows whose outcome says nothing (a wrong note, a dead node) */
static const double sigma_least = 0.005, sigma_most = 0.3, sigma_step = 1.02;

typedef struct evidence {
  const char *root;
  double *errors;  /* log(measured / estimated) */
  double *margins; /* log(limit / estimated), negated for a run out of memory: likely when positive */
  int n_errors, n_margins, n_oom;
} evidence;

static double log_likelihood(const evidence *x, double sigma, double prior) {
  double sum = -prior_rows * (log(sigma) + prior * prior / (2 * sigma * sigma));
  if (prior <= 0) sum = 0;
  for (int i = 0; i < x->n_errors; i++) sum -= log(sigma) + x->errors[i] * x->errors[i] / (2 * sigma * sigma);
  for (int i = 0; i < x->n_margins; i++)
    sum += log(lapse / 2 + (1 - lapse) * 0.5 * erfc(-x->margins[i] / sigma / M_SQRT2));
  return sum;
}

static double most_likely(const evidence *x, double prior) {
  double best = sigma_least;
  for (double s = sigma_least; s < sigma_most; s *= sigma_step)
    if (log_likelihood(x, s, prior) > log_likelihood(x, best, prior)) best = s;
  return best;
}

static void add(evidence *x, const mal_judged *j, bool ran) {
  double margin = log(j->limit_bytes / j->total_bytes);
  x->n_oom += !ran;
  if (ran && j->measured_bytes > 0)
    x->errors[x->n_errors++] = log(j->measured_bytes / j->predicted_bytes);
  else
    x->margins[x->n_margins++] = ran ? margin : -margin;
}

static int gather(mal_arena *a, const mal_validation *v, evidence *all, evidence *roots) {
  int n = 0, count = v->count + v->count_oom;
  *all = (evidence){"all", MAL_ARRAY(a, double, count + 1), MAL_ARRAY(a, double, count + 1), 0, 0, 0};
  for (int i = 0; i < count; i++) {
    const mal_judged *j = i < v->count ? &v->judged[i] : &v->judged_oom[i - v->count];
    if (j->skipped) continue;
    const char *root = root_of(a, j->row->plan->profile);
    int k = 0;
    while (k < n && strcmp(roots[k].root, root)) k++;
    if (k == MAX_ROOTS) continue;
    if (k == n) {
      roots[n++] = *all;
      roots[k] = (evidence){root, MAL_ARRAY(a, double, count + 1), MAL_ARRAY(a, double, count + 1), 0, 0, 0};
    }
    add(&roots[k], j, i < v->count);
    add(all, j, i < v->count);
  }
  return n;
}

int main(int argc, char **argv) {
  static evidence all, roots[MAX_ROOTS];
  mal_arena a;
  mal_error e = {0};
  mal_trials runs, oom;
  mal_validation v;
  mal_arena_init(&a);
  if (argc < 3) {
    fprintf(stderr, "memory RUNS.csv OOM.csv [--write]\n");
    return MAL_BAD;
  }
  mal_status s = mal_trials_read(&a, argv[1], &runs, &e);
  if (s == MAL_OK) s = mal_trials_read(&a, argv[2], &oom, &e);
  if (s == MAL_OK) s = mal_validate(&a, &runs, &oom, MAL_BY_FAMILY, &v, &e);
  int n = s == MAL_OK ? gather(&a, &v, &all, roots) : 0;
  double sigma = n ? most_likely(&all, 0) : 0;
  if (n)
    printf("%-26s %4d peaks, %4d ran, %4d ran out, sigma %.3f\n", "all", all.n_errors, all.n_margins - all.n_oom,
           all.n_oom, sigma);
  for (int k = 0; k < n && s == MAL_OK; k++) {
    const evidence *x = &roots[k];
    double own = most_likely(x, sigma);
    bool enough = x->n_errors + x->n_oom >= LEAST_ROWS;
    printf("%-26s %4d peaks, %4d ran, %4d ran out, sigma %.3f%s\n", x->root, x->n_errors, x->n_margins - x->n_oom,
           x->n_oom, own, enough ? "" : ": not written");
    if (argc > 3 && enough) s = write_line(&a, x->root, "memory_sigma", own, &e);
  }
  if (s != MAL_OK) fprintf(stderr, "memory: %s\n", e.text);
  mal_arena_free(&a);
  return (int)s;
}
