/* Robust, bounded least squares with priors, for bench/fit: minimises
 *   Σ_i w_i · 2 s² (sqrt(1 + (e_i/s)²) - 1) / s²  +  Σ_k ((x_k - prior_k) / sigma_k)²,   lo <= x <= hi,
 * with e linear around the present point, e = e0 + J (x - x0). Coordinate descent on the quadratic model, weights updated
 * between sweeps (iteratively reweighted): a few hundred unknowns, so simple is fast enough. */
#ifndef FIT_SOLVE_H
#define FIT_SOLVE_H
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct fit_entry { /* one non-zero of the Jacobian */
  int row;
  double slope;
} fit_entry;

typedef struct fit_column {
  fit_entry *entries;
  int count;
  double x0, lo, hi, prior, sigma;
} fit_column;

enum { FIT_SWEEPS = 400 };

/* x: in, out. weight[i] 0: the row is left out. error: of the linear model at x, out. scale: s. */
static void fit_solve(const fit_column *columns, int n, const double *e0, const double *weight, int rows, double scale,
                      double *x, double *error) {
  double *pull = malloc(sizeof *pull * (size_t)rows);
  memcpy(error, e0, sizeof *error * (size_t)rows);
  for (int k = 0; k < n; k++)
    for (int j = 0; j < columns[k].count; j++)
      error[columns[k].entries[j].row] += columns[k].entries[j].slope * (x[k] - columns[k].x0);
  for (int sweep = 0; sweep < FIT_SWEEPS; sweep++) {
    double moved = 0;
    for (int i = 0; i < rows; i++) {
      double r = error[i] / scale;
      pull[i] = weight[i] / (scale * scale * sqrt(1 + r * r));
    }
    for (int k = 0; k < n; k++) {
      const fit_column *c = &columns[k];
      double curve = 1 / (c->sigma * c->sigma), gradient = (x[k] - c->prior) * curve;
      for (int j = 0; j < c->count; j++) {
        const fit_entry *t = &c->entries[j];
        gradient += pull[t->row] * error[t->row] * t->slope;
        curve += pull[t->row] * t->slope * t->slope;
      }
      double next = fmin(c->hi, fmax(c->lo, x[k] - gradient / curve)), step = next - x[k];
      if (step == 0) continue;
      for (int j = 0; j < c->count; j++) error[c->entries[j].row] += c->entries[j].slope * step;
      x[k] = next;
      moved = fmax(moved, fabs(step) / c->sigma);
    }
    if (moved < 1e-5) break;
  }
  free(pull);
}
#endif
