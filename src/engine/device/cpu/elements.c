/* Element by element: activations, sums, copies; the optimizer. */
#include "engine/device/cpu/cpu.h"
#include <math.h>
#include <string.h>

/* --- activations ---------------------------------------------------------------------------------------------------- */

#define ROOT_2_OVER_PI   0.7978845608f
#define ROOT_1_OVER_2    0.7071067812f
#define ROOT_1_OVER_2_PI 0.3989422804f
#define CUBIC            0.044715f /* Hendrycks and Gimpel, arXiv:1606.08415 */

static inline float tanh_of(float u) { return 1.0f - 2.0f / (mal_exp(2.0f * u) + 1.0f); }
static inline float gelu_tanh(float x) { return 0.5f * x * (1.0f + tanh_of(ROOT_2_OVER_PI * (x + CUBIC * x * x * x))); }
static inline float d_gelu_tanh(float x) {
  float t = tanh_of(ROOT_2_OVER_PI * (x + CUBIC * x * x * x));
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * ROOT_2_OVER_PI * (1.0f + 3.0f * CUBIC * x * x);
}
/* The error function within 1.5e-7: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26. */
static inline float error_function(float x) {
  float size = x < 0 ? -x : x, t = 1.0f / (1.0f + 0.3275911f * size);
  float p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  float value = 1.0f - p * mal_exp(-size * size);
  return x < 0 ? -value : value;
}
static inline float gelu(float x) { return 0.5f * x * (1.0f + error_function(x * ROOT_1_OVER_2)); }
static inline float d_gelu(float x) {
  return 0.5f * (1.0f + error_function(x * ROOT_1_OVER_2)) + x * ROOT_1_OVER_2_PI * mal_exp(-0.5f * x * x);
}
static inline float silu(float x) { return x / (1.0f + mal_exp(-x)); }
static inline float d_silu(float x) {
  float s = 1.0f / (1.0f + mal_exp(-x));
  return s * (1.0f + x * (1.0f - s));
}
static inline float relu(float x) { return x > 0 ? x : 0.0f; }
static inline float d_relu(float x) { return x > 0 ? 1.0f : 0.0f; }
static inline float relu2(float x) { return x > 0 ? x * x : 0.0f; }
static inline float d_relu2(float x) { return x > 0 ? 2.0f * x : 0.0f; }

typedef struct acted {
  const float *x, *up, *dy;
  float *y, *dx, *dup;
  int64_t n;
} acted;

/* In place is possible: every element is read before it is written. */
#define ACTIVATION(f)                                                                                                  \
  MAL_CLONES static void forward_##f(const acted *a) {                                                                 \
    const float *x = a->x, *up = a->up;                                                                                \
    float *y = a->y;                                                                                                   \
    int64_t n = a->n;                                                                                                  \
    if (up)                                                                                                            \
      _Pragma("omp simd") for (int64_t j = 0; j < n; j++) y[j] = f(x[j]) * up[j];                                      \
    else                                                                                                               \
      _Pragma("omp simd") for (int64_t j = 0; j < n; j++) y[j] = f(x[j]);                                              \
  }                                                                                                                    \
  MAL_CLONES static void backward_##f(const acted *a) {                                                                \
    const float *x = a->x, *up = a->up, *dy = a->dy;                                                                   \
    float *dx = a->dx, *dup = a->dup;                                                                                  \
    int64_t n = a->n;                                                                                                  \
    if (up) _Pragma("omp simd") for (int64_t j = 0; j < n; j++) {                                                      \
        float value = x[j], d = dy[j], factor = up[j];                                                                 \
        dx[j] = d * factor * d_##f(value);                                                                             \
        dup[j] = d * f(value);                                                                                         \
      }                                                                                                                \
    else                                                                                                               \
      _Pragma("omp simd") for (int64_t j = 0; j < n; j++) dx[j] = dy[j] * d_##f(x[j]);                                 \
  }
ACTIVATION(gelu)
ACTIVATION(gelu_tanh)
ACTIVATION(silu)
ACTIVATION(relu)
ACTIVATION(relu2)

void mal_cpu_activation(mal_kernel_call *c) {
  typedef void act(const acted *);
  static act *const table[][2] = {[MAL_GELU] = {forward_gelu, backward_gelu},
                                  [MAL_GELU_TANH] = {forward_gelu_tanh, backward_gelu_tanh},
                                  [MAL_SILU] = {forward_silu, backward_silu},
                                  [MAL_RELU] = {forward_relu, backward_relu},
                                  [MAL_RELU2] = {forward_relu2, backward_relu2}};
  bool grad = c->i->flags & MAL_INS_GRAD;
  table[c->i->variant][grad](&(acted){c->in[0], c->in[1], c->in[2], c->out[0], c->out[0], c->out[1], c->n_out[0]});
}

/* --- sums and copies -------------------------------------------------------------------------------------------------- */

MAL_CLONES static void add_to(float *out, const float *x, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) out[j] += x[j];
}

MAL_CLONES static void add_two(float *out, const float *x, const float *y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) out[j] = x[j] + y[j];
}

/* A term shorter than the sum is a bias, repeated over the rows. Terms of full length first. */
void mal_cpu_add(mal_kernel_call *c) {
  float *out = c->out[0];
  const float *whole[MAL_INPUTS];
  int64_t n = c->n_out[0], count = 0;
  for (int k = 0; k < MAL_INPUTS; k++)
    if (c->n_in[k] == n) whole[count++] = c->in[k];
  int64_t next = 0;
  if (!(c->i->flags & MAL_INS_ACCUMULATE)) {
    for (int64_t k = 1; k < count; k++) /* what is in place comes first */
      if (whole[k] == out) whole[k] = whole[0], whole[0] = out;
    next = count > 1 ? 2 : 1;
    if (count > 1)
      add_two(out, whole[0], whole[1], n);
    else if (count == 1 && whole[0] != out)
      memcpy(out, whole[0], (size_t)n * sizeof *out);
  }
  for (; next < count; next++) add_to(out, whole[next], n);
  for (int k = 0; k < MAL_INPUTS; k++)
    for (int64_t row = 0; c->n_in[k] && c->n_in[k] < n && row < n; row += c->n_in[k])
      add_to(out + row, c->in[k], c->n_in[k]);
}

/* Column sums of up to three pieces into a bias gradient; variant 1: the largest of each row. */
void mal_cpu_reduce_rows(mal_kernel_call *c) {
  float *out = c->out[0];
  int64_t rows = c->v[0], from = 0;
  if (c->i->variant == 1) {
    int64_t cols = c->v[1], real = c->facts->vocab - c->facts->vocab_from;
    if (real > cols) real = cols;
    for (int64_t r = 0; r < rows; r++) {
      const float *x = (const float *)c->in[0] + r * cols;
      float most = -INFINITY;
      for (int64_t j = 0; j < real; j++) most = x[j] > most ? x[j] : most;
      out[r] = most;
    }
    return;
  }
  if (!(c->i->flags & MAL_INS_ACCUMULATE)) memset(out, 0, (size_t)c->n_out[0] * sizeof *out);
  for (int p = 0; p < 3; p++) {
    int64_t cols = c->n_in[p] / rows;
    for (int64_t r = 0; r < rows && cols; r++) add_to(out + from, (const float *)c->in[p] + r * cols, cols);
    from += cols;
  }
}

/* Whole, or this tensor-parallel rank's rows of it. */
void mal_cpu_copy(mal_kernel_call *c) {
  int64_t from = c->n_in[0] > c->n_out[0] ? c->facts->tp_index * c->n_out[0] : 0;
  memcpy(c->out[0], (const float *)c->in[0] + from, (size_t)c->n_out[0] * sizeof(float));
}

/* --- end of a step ------------------------------------------------------------------------------------------------------ */

MAL_CLONES double mal_cpu_sum_squares(const float *x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; j++) sum += (double)x[j] * (double)x[j];
  return sum;
}

MAL_CLONES void mal_cpu_scale(float *x, int64_t n, float factor) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) x[j] *= factor;
}

MAL_CLONES void mal_cpu_adamw(const mal_adamw *a, float *w, const float *g, float *m, float *v, int64_t n) {
  float keep = 1.0f - a->lr * a->decay, step = a->lr / a->correction1, root = sqrtf(a->correction2);
  float beta1 = a->beta1, beta2 = a->beta2, eps = a->eps;
#pragma omp simd
  for (int64_t j = 0; j < n; j++) {
    float d = g[j];
    float m1 = m[j] + (1.0f - beta1) * (d - m[j]), v1 = v[j] * beta2 + (1.0f - beta2) * d * d;
    w[j] = w[j] * keep - step * m1 / (sqrtf(v1) / root + eps);
    m[j] = m1, v[j] = v1;
  }
}
