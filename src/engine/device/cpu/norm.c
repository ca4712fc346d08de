/* LayerNorm and RMSNorm, rotary positions. */
#include "engine/device/cpu/cpu.h"
#include <math.h>

/* stats: LayerNorm (mean, 1 / deviation) of each row, RMSNorm the latter. */
MAL_CLONES static void layer_norm(const float *x, const float *w, const float *b, float *y, float *stats, int64_t rows,
                                  int64_t cols, float eps) {
  for (int64_t r = 0; r < rows; r++, x += cols, y += cols) {
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < cols; j++) sum += x[j];
    float mean = sum / (float)cols;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < cols; j++) squares += (x[j] - mean) * (x[j] - mean);
    float inverse = 1.0f / sqrtf(squares / (float)cols + eps);
    stats[2 * r] = mean, stats[2 * r + 1] = inverse;
    for (int64_t j = 0; j < cols; j++) y[j] = (x[j] - mean) * inverse * (w ? w[j] : 1.0f) + (b ? b[j] : 0.0f);
  }
}

MAL_CLONES static void rms_norm(const float *x, const float *w, float *y, float *stats, int64_t rows, int64_t cols,
                                float eps) {
  for (int64_t r = 0; r < rows; r++, x += cols, y += cols) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < cols; j++) squares += x[j] * x[j];
    float inverse = stats[r] = 1.0f / sqrtf(squares / (float)cols + eps);
    for (int64_t j = 0; j < cols; j++) y[j] = x[j] * inverse * (w ? w[j] : 1.0f);
  }
}

typedef struct backward_args {
  const float *x, *w, *stats, *dy;
  float *dx, *dw, *db;
  int64_t rows, cols;
  bool centred;
} backward_args;

/* n: normalised row, g = dy · w: dx = (g - n · mean(g · n) - [mean(g)]) / deviation. dx may be dy. */
MAL_CLONES static void norm_backward(const backward_args *a) {
  int64_t cols = a->cols;
  for (int64_t r = 0; r < a->rows; r++) {
    const float *x = a->x + r * cols, *dy = a->dy + r * cols, *w = a->w;
    float mean = a->centred ? a->stats[2 * r] : 0.0f, inverse = a->centred ? a->stats[2 * r + 1] : a->stats[r];
    float sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
    for (int64_t j = 0; j < cols; j++) {
      float g = dy[j] * (w ? w[j] : 1.0f);
      sum += g;
      dot += g * (x[j] - mean) * inverse;
    }
    if (a->dw)
      for (int64_t j = 0; j < cols; j++) a->dw[j] += dy[j] * (x[j] - mean) * inverse;
    if (a->db)
      for (int64_t j = 0; j < cols; j++) a->db[j] += dy[j];
    sum = a->centred ? sum / (float)cols : 0.0f, dot /= (float)cols;
    float *dx = a->dx ? a->dx + r * cols : NULL;
    if (dx)
      for (int64_t j = 0; j < cols; j++)
        dx[j] = (dy[j] * (w ? w[j] : 1.0f) - sum - (x[j] - mean) * inverse * dot) * inverse;
  }
}

static void clear(float *x, int64_t n) {
  for (int64_t j = 0; x && j < n; j++) x[j] = 0;
}

void mal_cpu_norm(mal_kernel_call *c) {
  int64_t rows = c->v[0], cols = c->v[1];
  bool centred = c->i->variant == MAL_LAYERNORM;
  float eps = c->facts->norm_eps;
  if (c->i->flags & MAL_INS_GRAD) {
    if (!(c->i->flags & MAL_INS_ACCUMULATE)) clear(c->out[1], cols), clear(c->out[2], cols);
    norm_backward(
        &(backward_args){c->in[0], c->in[1], c->in[2], c->in[3], c->out[0], c->out[1], c->out[2], rows, cols, centred});
  } else if (centred) {
    layer_norm(c->in[0], c->in[1], c->in[2], c->out[0], c->out[1], rows, cols, eps);
  } else {
    rms_norm(c->in[0], c->in[1], c->out[0], c->out[1], rows, cols, eps);
  }
}

/* Halves of the rotated part turn together: (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin), as in transformers' Llama. */
MAL_CLONES static void rotate(const float *x, float *y, const float *table, int64_t tokens, int64_t seq, int64_t heads,
                              int64_t dim, int64_t rotated, float sign) {
  int64_t half = rotated / 2;
  for (int64_t t = 0; t < tokens; t++) {
    const float *turn = table + t % seq * rotated;
    for (int64_t h = 0; h < heads; h++) {
      const float *from = x + (t * heads + h) * dim;
      float *to = y + (t * heads + h) * dim;
      for (int64_t j = 0; j < half; j++) {
        float cosine = turn[j], sine = sign * turn[half + j], a = from[j], b = from[half + j];
        to[j] = a * cosine - b * sine;
        to[half + j] = b * cosine + a * sine;
      }
      for (int64_t j = rotated; j < dim; j++) to[j] = from[j];
    }
  }
}

void mal_cpu_rope(mal_kernel_call *c) {
  const mal_layer_kind *k = c->kind;
  const float *table = c->facts->rope[k - c->facts->kinds];
  float sign = c->i->flags & MAL_INS_GRAD ? -1.0f : 1.0f;
  for (int p = 0; p < MAL_OUTPUTS; p++)
    if (c->out[p])
      rotate(c->in[p], c->out[p], table, c->facts->tokens, c->facts->seq, c->n_out[p] / c->facts->tokens / k->head_dim,
             k->head_dim, k->rope_dim, sign);
}
