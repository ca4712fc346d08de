/* Fits the constants of GPUs, profiles and fabric to published runs, and says how well they transfer.
 *
 *   fit RUNS.csv [--write] [--rounds N] [--per-family N] [--threads N] [--out FILE] [--only PATTERN] [--no-cv] [--refit ROUNDS]
 *
 * Every row is lowered once; constants touch only its price. Log error of step time, soft-L1 loss, families of
 * equal weight but for those of few rows, a Gaussian prior around `prior` whose width is a quarter of [lo, hi], hard bounds.
 * Gauss-Newton with a numeric Jacobian; the inner problem is solved by fit_solve.h. Three results beside the fit itself: a
 * model or size left out inside each family; a family left out (both one step of the model that is linear around the whole
 * fit, priced exactly; with --refit, so many rounds of the whole fit without those rows: minutes for families, half an hour for
 * models); the constants that lie on a bound. --write puts values into the catalogue. */
#include "check/statistics.h"
#include "check/validate.h"
#include "core/catalog.h"
#include "core/file.h"
#include "fit_catalog.h"
#include "fit_solve.h"
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_CONSTANTS = 1024,
  MAX_TIED = 64,
  MAX_LISTED = 64,
  MAX_THREADS = 16,
  ROUNDS = 6,
  PER_FAMILY = 120,
  LEAST_ROWS = 5
};
static const double loss_scale = 0.04;       /* log error beyond which a row pulls no harder */
static const double family_evidence = 18;    /* a family counts as so many independent rows against the priors */
static const double few_rows = 4;            /* a family of so many rows counts half */
static const double difference_share = 0.01; /* of [lo, hi]: step of the numeric derivative */

typedef struct constant {
  char name[128];
  const char *folder, *file; /* catalogue file that holds it; NULL: not written */
  const char *key;
  mal_fitted *tied[MAX_TIED]; /* one number in several loaded entries */
  const void *owners[MAX_TIED];
  int n_tied;
} constant;

typedef struct sample {
  const mal_row *row;
  mal_arena arena;
  mal_program program;
  double measured, e_fit, e_model, e_family, e; /* log errors */
  double weight;
  const char *class;
  int family, fold;
} sample;

typedef struct fit {
  bool write;
  mal_rows rows;
  sample *samples;
  int n, n_families, n_folds;
  const char *families[256];
  constant constants[MAX_CONSTANTS];
  int n_constants;
  mal_fitted jitter;
  int threads, per_family, refit;
  fit_column *columns;
} fit;

/* --- constants ---------------------------------------------------------------------------------------------------- */

static void set(fit *f, int k, double x) {
  constant *c = &f->constants[k];
  for (int i = 0; i < c->n_tied; i++) c->tied[i]->value = x;
  if (c->tied[0] == &f->jitter) f->rows.fabric->jitter_per_doubling.value = x;
}

static double get(const fit *f, int k) { return f->constants[k].tied[0]->value; }

static void add_constant(fit *f, const char *folder, const char *entry, const char *key, mal_fitted *value,
                         const void *owner) {
  char name[128];
  const char *base = inherited_from(f->rows.arena, value->source);
  if (value->hi <= value->lo) return;
  snprintf(name, sizeof name, "%s.%s", base ? base : entry, key);
  for (int k = 0; k < f->n_constants; k++)
    if (!strcmp(f->constants[k].name, name) && f->constants[k].n_tied < MAX_TIED) {
      constant *c = &f->constants[k];
      value->value = c->tied[0]->value;
      c->owners[c->n_tied] = owner;
      c->tied[c->n_tied++] = value;
      return;
    }
  if (f->n_constants == MAX_CONSTANTS) return;
  constant *c = &f->constants[f->n_constants++];
  snprintf(c->name, sizeof c->name, "%s", name);
  c->folder = folder;
  c->file = mal_copy(f->rows.arena, base ? base : entry);
  c->key = key;
  c->tied[0] = value;
  c->owners[0] = owner;
  c->n_tied = 1;
}

static void list_constants(fit *f, const char *only) {
  const char *names[MAX_LISTED];
  mal_fitted *list[MAX_LISTED];
  for (int g = 0; g < f->rows.n_gpus; g++) {
    int n = mal_gpu_constants(f->rows.gpus[g], names, list, MAX_LISTED);
    for (int i = 0; i < n; i++) add_constant(f, "gpus", f->rows.gpus[g]->name, names[i], list[i], f->rows.gpus[g]);
  }
  for (int p = 0; p < f->rows.n_profiles; p++) {
    int n = mal_profile_constants(f->rows.profiles[p], names, list, MAX_LISTED);
    for (int i = 0; i < n; i++)
      add_constant(f, "profiles", f->rows.profiles[p]->name, names[i], list[i], f->rows.profiles[p]);
  }
  f->jitter = (mal_fitted){f->rows.fabric->jitter_per_doubling.value, 0, 0.012, 0.005, NULL};
  add_constant(f, NULL, "fabric", "jitter_per_doubling", &f->jitter, f->rows.fabric);
  int kept = 0;
  for (int k = 0; only && k < f->n_constants; k++)
    if (mal_glob(only, f->constants[k].name)) f->constants[kept++] = f->constants[k];
  if (only) f->n_constants = kept;
}

static bool touches(const constant *c, const mal_plan *p) {
  for (int i = 0; i < c->n_tied; i++)
    if (c->owners[i] == p->machine.gpu || c->owners[i] == p->profile || c->owners[i] == p->machine.fabric) return true;
  return false;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static int family_of(fit *f, const char *name) {
  for (int i = 0; i < f->n_families; i++)
    if (!strcmp(f->families[i], name)) return i;
  f->families[f->n_families] = name;
  return f->n_families < 255 ? f->n_families++ : 255;
}

static bool one_model(const fit *f, int family) {
  const sample *first = NULL;
  for (int i = 0; i < f->n; i++) {
    if (f->samples[i].family != family) continue;
    if (first && strcmp(first->row->model_spec, f->samples[i].row->model_spec)) return false;
    if (!first) first = &f->samples[i];
  }
  return true;
}

/* A fold inside a family: its model by sizes; a family of one model is cut by GPU count. */
static void number_folds(fit *f) {
  bool single[256];
  for (int k = 0; k < f->n_families; k++) single[k] = one_model(f, k);
  for (int i = 0; i < f->n; i++) {
    sample *s = &f->samples[i];
    s->fold = -1;
    for (int k = 0; k < i && s->fold < 0; k++) {
      const sample *o = &f->samples[k];
      if (o->family != s->family) continue;
      bool same = single[s->family] ? o->row->trial->gpus == s->row->trial->gpus
                                    : !strcmp(o->row->model_spec, s->row->model_spec);
      if (same) s->fold = o->fold;
    }
    if (s->fold < 0) s->fold = f->n_folds++;
  }
}

/* What decides a run's time is not printed and was filled: nothing to learn from it. Judged all the same. */
static bool is_guess(const mal_row *row) { return row->plan->layout.zero == 3 && row->trial->micro_batch < 0; }

static void take_rows(fit *f, mal_arena *a) {
  mal_error e;
  const char *from;
  f->samples = MAL_ARRAY(a, sample, f->rows.count + 1);
  for (int i = 0; i < f->rows.count; i++) {
    sample *s = &f->samples[f->n];
    s->row = &f->rows.rows[i];
    if (s->row->skipped || !mal_measured_step(s->row, &s->measured, &from)) continue;
    mal_arena_init(&s->arena);
    if (mal_lower(&s->arena, s->row->plan, &s->program, &e) != MAL_OK) {
      mal_arena_free(&s->arena);
      continue;
    }
    s->family = family_of(f, s->row->family);
    f->n++;
  }
  for (int k = 0; k < f->n_families; k++) {
    int count = 0, seen = 0, kept = 0;
    for (int i = 0; i < f->n; i++) count += f->samples[i].family == k && !is_guess(f->samples[i].row);
    int wanted = count < f->per_family ? count : f->per_family;
    for (int i = 0; i < f->n; i++) { /* evenly through the family */
      sample *s = &f->samples[i];
      if (s->family != k || is_guess(s->row)) continue;
      bool keep = (int64_t)(seen + 1) * wanted / count > kept;
      kept += keep;
      seen++;
      s->weight = keep ? family_evidence * count / (count + few_rows) / wanted : 0;
    }
  }
  number_folds(f);
}

typedef struct work {
  fit *f;
  const constant *only; /* NULL: every row */
  int fold, family;     /* -1: any */
  bool all;             /* also rows without weight */
  int thread;
} work;

static double price(mal_arena *scratch, const sample *s, const char **class) {
  mal_estimate x;
  mal_error e;
  mal_status status = mal_price(scratch, &s->program, &x, &e);
  if (class) *class = status == MAL_OK && x.interval_class ? x.interval_class : "";
  mal_arena_reset(scratch);
  return status == MAL_OK && x.step_s > 0 ? log(x.step_s / s->measured) : 0;
}

static void *price_some(void *argument) {
  const work *w = argument;
  mal_arena scratch;
  mal_arena_init(&scratch);
  for (int i = w->thread; i < w->f->n; i += w->f->threads) {
    sample *s = &w->f->samples[i];
    if ((!w->all && s->weight == 0) || (w->only && !touches(w->only, s->row->plan)) ||
        (w->fold >= 0 && s->fold != w->fold) || (w->family >= 0 && s->family != w->family))
      continue;
    s->e = price(&scratch, s, NULL);
  }
  mal_arena_free(&scratch);
  return NULL;
}

/* Writes s->e of the rows chosen. */
static void price_rows(fit *f, const constant *only, int fold, int family, bool all) {
  pthread_t threads[MAX_THREADS];
  work w[MAX_THREADS];
  for (int t = 0; t < f->threads; t++) {
    w[t] = (work){f, only, fold, family, all, t};
    pthread_create(&threads[t], NULL, price_some, &w[t]);
  }
  for (int t = 0; t < f->threads; t++) pthread_join(threads[t], NULL);
}

/* --- fit ---------------------------------------------------------------------------------------------------------- */

static void differentiate(fit *f, const double *e0) {
  for (int k = 0; k < f->n_constants; k++) {
    const mal_fitted *m = f->constants[k].tied[0];
    fit_column *c = &f->columns[k];
    double x = m->value, step = difference_share * (m->hi - m->lo);
    if (x + step > m->hi) step = -step;
    c->x0 = x;
    c->lo = m->lo;
    c->hi = m->hi;
    c->prior = m->prior;
    c->sigma = (m->hi - m->lo) / 4;
    c->count = 0;
    set(f, k, x + step);
    price_rows(f, &f->constants[k], -1, -1, false);
    set(f, k, x);
    if (!c->entries) c->entries = malloc(sizeof *c->entries * (size_t)(f->n + 1));
    for (int i = 0; i < f->n; i++) {
      const sample *s = &f->samples[i];
      if (s->weight == 0 || !touches(&f->constants[k], s->row->plan)) continue;
      double slope = (s->e - e0[i]) / step;
      if (slope != 0) c->entries[c->count++] = (fit_entry){i, slope};
    }
  }
}

static double loss(const fit *f) {
  double sum = 0;
  for (int i = 0; i < f->n; i++) {
    double r = f->samples[i].e / loss_scale;
    sum += f->samples[i].weight * 2 * (sqrt(1 + r * r) - 1);
  }
  for (int k = 0; k < f->n_constants; k++) {
    const mal_fitted *m = f->constants[k].tied[0];
    double z = (m->value - m->prior) / ((m->hi - m->lo) / 4);
    sum += z * z;
  }
  return sum;
}

static void keep_errors(const fit *f, double *e0) {
  for (int i = 0; i < f->n; i++) e0[i] = f->samples[i].e;
}

/* Gauss-Newton from the present values; halves a step that does not pay. */
static void fit_all(fit *f, int rounds, double *e0, double *weights, double *x, double *error) {
  for (int i = 0; i < f->n; i++) weights[i] = f->samples[i].weight;
  price_rows(f, NULL, -1, -1, false);
  double present = loss(f);
  for (int round = 0; round < rounds; round++) {
    keep_errors(f, e0);
    differentiate(f, e0);
    for (int k = 0; k < f->n_constants; k++) x[k] = get(f, k);
    fit_solve(f->columns, f->n_constants, e0, weights, f->n, loss_scale, x, error);
    double share = 1, next = present;
    for (int half = 0; half < 5; half++, share /= 2) {
      for (int k = 0; k < f->n_constants; k++) set(f, k, f->columns[k].x0 + share * (x[k] - f->columns[k].x0));
      price_rows(f, NULL, -1, -1, false);
      if ((next = loss(f)) < present) break;
    }
    fprintf(stderr, "round %d: loss %.3f -> %.3f (step %.2f)\n", round + 1, present, next, share);
    bool done = present - next < 1e-3 * present;
    present = next;
    if (done) break;
  }
}

/* The whole fit again without the rows whose weight is 0; the caller starts it at the priors, which know no row. */
static void fit_again(fit *f, double *e0, double *weights, double *x, double *error) {
  double *whole = malloc(sizeof *whole * (size_t)(f->n + 1));
  for (int i = 0; i < f->n; i++) {
    whole[i] = f->samples[i].weight;
    f->samples[i].weight = weights[i];
  }
  fit_all(f, f->refit, e0, weights, x, error);
  for (int i = 0; i < f->n; i++) f->samples[i].weight = whole[i];
  free(whole);
}

/* Leaves out the rows of one fold or family: solves the linear model around the fit without them, or fits again, and prices
 * them exactly. */
static void leave_out(fit *f, bool by_family, double *e0, double *weights, double *x, double *error) {
  int folds = by_family ? f->n_families : f->n_folds;
  double *kept = malloc(sizeof *kept * (size_t)(f->n_constants + 1));
  for (int k = 0; k < f->n_constants; k++) kept[k] = get(f, k);
  for (int fold = 0; fold < folds; fold++) {
    for (int i = 0; i < f->n; i++) {
      const sample *s = &f->samples[i];
      weights[i] = (by_family ? s->family : s->fold) == fold ? 0 : s->weight;
    }
    for (int k = 0; k < f->n_constants; k++) set(f, k, f->refit > 0 ? f->constants[k].tied[0]->prior : kept[k]);
    if (f->refit > 0) {
      fit_again(f, e0, weights, x, error);
    } else {
      memcpy(x, kept, sizeof *x * (size_t)f->n_constants);
      fit_solve(f->columns, f->n_constants, e0, weights, f->n, loss_scale, x, error);
      for (int k = 0; k < f->n_constants; k++) set(f, k, x[k]);
    }
    price_rows(f, NULL, by_family ? -1 : fold, by_family ? fold : -1, true);
    for (int i = 0; i < f->n; i++) {
      sample *s = &f->samples[i];
      if ((by_family ? s->family : s->fold) == fold) *(by_family ? &s->e_family : &s->e_model) = s->e;
    }
  }
  for (int k = 0; k < f->n_constants; k++) set(f, k, kept[k]);
  free(kept);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static double error_of(const sample *s, int which) {
  return exp(which == 0 ? s->e_fit : which == 1 ? s->e_model : s->e_family) - 1;
}

static void put_line(const fit *f, int family, const char *name) {
  mal_sample *x = malloc(sizeof *x * (size_t)(f->n + 1));
  int rows = 0;
  for (int i = 0; i < f->n; i++) rows += family < 0 || f->samples[i].family == family;
  printf("%-26s %5d", name, rows);
  for (int which = 0; which < 3; which++) {
    double bias = 0, whole = 0;
    int n = 0;
    for (int i = 0; i < f->n; i++) {
      const sample *s = &f->samples[i];
      if (family >= 0 && s->family != family) continue;
      int same = 0;
      for (int k = 0; family < 0 && k < f->n; k++) same += f->samples[k].family == s->family;
      double w = family < 0 ? 1.0 / same : 1, e = error_of(s, which);
      x[n++] = (mal_sample){fabs(e), w};
      bias += w * e;
      whole += w;
    }
    double mean = mal_weighted_mean(x, n), median = mal_weighted_quantile(x, n, 0.5);
    printf(" | %6.1f %6.1f %6.1f %+6.1f", 100 * mean, 100 * median, 100 * mal_weighted_quantile(x, n, 0.9),
           100 * bias / whole);
  }
  printf("\n");
  free(x);
}

static void put_results(const fit *f) {
  printf("%-26s %5s | %27s | %27s | %27s\n", "percent", "n", "fit: mean med p90 bias", "model left out",
         "family left out");
  for (int k = 0; k < f->n_families; k++) put_line(f, k, f->families[k]);
  put_line(f, -1, "all, families equal");
}

static void put_constants(const fit *f) {
  printf("\n%-48s %10s %10s %10s %10s\n", "constant", "value", "prior", "lo", "hi");
  for (int k = 0; k < f->n_constants; k++) {
    const mal_fitted *m = f->constants[k].tied[0];
    double edge = 1e-6 * (m->hi - m->lo);
    bool bound = m->value <= m->lo + edge || m->value >= m->hi - edge;
    printf("%-48s %10.4g %10.4g %10.4g %10.4g%s\n", f->constants[k].name, m->value, m->prior, m->lo, m->hi,
           bound ? "  AT BOUND" : "");
  }
}

static void put_rows(const fit *f, const char *path) {
  FILE *out = fopen(path, "w");
  if (!out) return;
  mal_arena scratch;
  mal_arena_init(&scratch);
  fprintf(out, "id,family,fold,class,gpu,profile,measured,e_fit,e_model,e_family\n");
  for (int i = 0; i < f->n; i++) {
    const sample *s = &f->samples[i];
    const char *class;
    price(&scratch, s, &class);
    fprintf(out, "%s,%s,%d,%s,%s,%s,%.6g,%.5f,%.5f,%.5f\n", s->row->trial->id, s->row->family, s->fold, class,
            s->row->trial->gpu, s->row->plan->profile->name, s->measured, s->e_fit, s->e_model, s->e_family);
  }
  mal_arena_free(&scratch);
  fclose(out);
}

/* --- writing back ------------------------------------------------------------------------------------------------- */

/* Replaces the number after "value:" on the line of `key` in a catalogue file. */
static mal_status write_constant(mal_arena *a, const constant *c, mal_error *e) {
  char *path, *text, line[160];
  size_t length;
  mal_status s = mal_catalog_find(a, c->folder, c->file, ".yaml", "file", &path, e);
  if (s == MAL_OK) s = mal_file_read(a, path, MAL_YAML_LIMIT_BYTES, &text, &length, e);
  if (s != MAL_OK) return s;
  snprintf(line, sizeof line, "  %s:", c->key);
  char *at = strstr(text, line);
  while (at && at > text && at[-1] != '\n') at = strstr(at + 1, line);
  at = at ? strstr(at, "value:") : NULL;
  if (!at) return mal_fail(e, MAL_BAD, "%s has no line for %s", path, c->key);
  at += strlen("value:");
  while (*at == ' ') at++;
  char *end = at + strcspn(at, ",}\n");
  char *all = mal_print(a, "%.*s%.4g%s", (int)(at - text), text, c->tied[0]->value, end);
  return mal_file_write(path, all, strlen(all), e);
}

typedef struct left_out { /* a row whose family was left out */
  double error;
  int family;
} left_out_row;

static int by_error(const void *a, const void *b) {
  double x = ((const left_out_row *)a)->error, y = ((const left_out_row *)b)->error;
  return (x > y) - (x < y);
}

/* How far the share of each family's rows within h is from 80 percent: misses of 75 .. 88 first, then the distance. */
static double misfit(const fit *f, const left_out_row *x, int n, double h) {
  double sum = 0;
  for (int k = 0; k < f->n_families; k++) {
    int rows = 0, inside = 0;
    for (int i = 0; i < n; i++) {
      rows += x[i].family == k;
      inside += x[i].family == k && x[i].error <= h;
    }
    if (!rows) continue;
    double share = (double)inside / rows, trust = (double)rows / (rows + few_rows);
    sum += trust * (fabs(share - 0.8) + (share < 0.75 || share > 0.88));
  }
  return sum;
}

/* Half width of the 80 % interval over the rows of one root profile, their families left out: the h that suits them best. */
static double half_width(mal_arena *a, const fit *f, const char *root, bool experts, int *count) {
  left_out_row *x = MAL_ARRAY(a, left_out_row, f->n + 1);
  int n = 0, best = 0;
  for (int i = 0; i < f->n; i++) {
    const sample *s = &f->samples[i];
    if (mal_model_has_experts(&s->row->plan->model) == experts && !strcmp(root_of(a, s->row->plan->profile), root))
      x[n++] = (left_out_row){fabs(s->e_family), s->family};
  }
  qsort(x, (size_t)n, sizeof *x, by_error);
  for (int i = 1; i < n; i++)
    if (misfit(f, x, n, x[i].error) <= misfit(f, x, n, x[best].error)) best = i;
  *count = n;
  return n ? x[best].error + 5e-4 : 0; /* past the rounding of the file */
}

static mal_status write_intervals(const fit *f, mal_error *e) {
  mal_arena a;
  mal_status s = MAL_OK;
  mal_arena_init(&a);
  for (int p = 0; p < f->rows.n_profiles; p++)
    for (int experts = 0; experts < 2 && s == MAL_OK; experts++) {
      const char *root = root_of(&a, f->rows.profiles[p]);
      int count, before = 0;
      while (before < p && strcmp(root_of(&a, f->rows.profiles[before]), root)) before++;
      if (before < p) continue; /* done with an earlier profile */
      double half = half_width(&a, f, root, experts, &count);
      if (count < LEAST_ROWS) continue;
      printf("%-26s %-7s %4d rows, 80 %% within %.3f\n", root, experts ? "experts" : "dense", count, half);
      if (f->write) s = write_line(&a, root, experts ? "interval_moe" : "interval", half, e);
    }
  mal_arena_free(&a);
  return s;
}

static mal_status write_back(const fit *f, mal_error *e) {
  mal_arena a;
  mal_status s = MAL_OK;
  mal_arena_init(&a);
  for (int k = 0; k < f->n_constants && s == MAL_OK; k++)
    if (f->constants[k].folder) s = write_constant(&a, &f->constants[k], e);
  mal_arena_free(&a);
  return s;
}

/* --- command ------------------------------------------------------------------------------------------------------ */

static const char *option(int argc, char **argv, const char *name, const char *otherwise) {
  for (int i = 2; i < argc; i++)
    if (!strcmp(argv[i], name)) return i + 1 < argc && argv[i + 1][0] != '-' ? argv[i + 1] : "";
  return otherwise;
}

static void run(fit *f, int rounds, bool cross) {
  double *e0 = malloc(sizeof *e0 * (size_t)(f->n + 1)), *weights = malloc(sizeof *weights * (size_t)(f->n + 1));
  double *error = malloc(sizeof *error * (size_t)(f->n + 1)), x[MAX_CONSTANTS];
  fit_all(f, rounds, e0, weights, x, error);
  price_rows(f, NULL, -1, -1, true);
  for (int i = 0; i < f->n; i++) f->samples[i].e_fit = f->samples[i].e;
  if (cross) {
    keep_errors(f, e0);
    differentiate(f, e0);
    leave_out(f, false, e0, weights, x, error);
    leave_out(f, true, e0, weights, x, error);
  }
  free(e0);
  free(weights);
  free(error);
}

int main(int argc, char **argv) {
  static fit f;
  mal_arena a;
  mal_error e = {0};
  mal_trials trials;
  mal_arena_init(&a);
  if (argc < 2) {
    fprintf(stderr, "fit RUNS.csv [--write] [--rounds N] [--per-family N] [--threads N] [--out FILE] [--only PATTERN] "
                    "[--no-cv]\n");
    return MAL_BAD;
  }
  f.threads = atoi(option(argc, argv, "--threads", "2"));
  if (f.threads < 1 || f.threads > MAX_THREADS) f.threads = 1;
  f.per_family = atoi(option(argc, argv, "--per-family", "0"));
  if (f.per_family < 1) f.per_family = PER_FAMILY;
  if (mal_trials_read(&a, argv[1], &trials, &e) != MAL_OK || mal_rows_make(&a, &trials, &f.rows, &e) != MAL_OK) {
    fprintf(stderr, "fit: %s\n", e.text);
    return (int)e.status;
  }
  take_rows(&f, &a);
  list_constants(&f, option(argc, argv, "--only", NULL));
  f.columns = MAL_ARRAY(&a, fit_column, MAX_CONSTANTS);
  fprintf(stderr, "%d rows, %d families, %d folds, %d constants\n", f.n, f.n_families, f.n_folds, f.n_constants);
  const char *rounds = option(argc, argv, "--rounds", NULL), *refit = option(argc, argv, "--refit", NULL);
  f.refit = refit ? atoi(refit) : 0;
  run(&f, rounds ? atoi(rounds) : ROUNDS, !option(argc, argv, "--no-cv", NULL));
  put_results(&f);
  put_constants(&f);
  const char *out = option(argc, argv, "--out", NULL);
  if (out) put_rows(&f, out);
  f.write = option(argc, argv, "--write", NULL) != NULL;
  mal_status s = f.write ? write_back(&f, &e) : MAL_OK;
  if (s == MAL_OK && !option(argc, argv, "--no-cv", NULL)) s = write_intervals(&f, &e);
  if (s != MAL_OK) fprintf(stderr, "fit: %s\n", e.text);
  return (int)s;
}
