/* Both ends of the model: rows of the embedding, and the loss. Each rank has its part of the vocabulary. */
#include "engine/device/cpu/cpu.h"
#include <math.h>
#include <string.h>

/* The row of this table for a token, -1 where another rank has it. Positions are counted from the start of the sequence. */
static int64_t row_of(const mal_kernel_call *c, const int64_t *ids, int64_t t, int64_t rows) {
  if (c->role == MAL_W_POSITION) return t % c->facts->seq;
  int64_t row = ids[t] - c->facts->vocab_from;
  return row >= 0 && row < rows ? row : -1;
}

void mal_cpu_embed(mal_kernel_call *c) {
  const int64_t *ids = c->in[0];
  bool grad = c->i->flags & MAL_INS_GRAD;
  int64_t tokens = c->n_in[0], width = c->v[0] / tokens, rows = (grad ? c->n_out[0] : c->n_in[1]) / width;
  const float *from = c->in[1];
  float *to = c->out[0];
  if (grad && !(c->i->flags & MAL_INS_ACCUMULATE)) memset(to, 0, (size_t)c->n_out[0] * sizeof *to);
  for (int64_t t = 0; t < tokens; t++) {
    int64_t row = row_of(c, ids, t, rows);
    if (grad) {
      for (int64_t j = 0; row >= 0 && j < width; j++) to[row * width + j] += from[t * width + j];
    } else if (row >= 0) {
      memcpy(to + t * width, from + row * width, (size_t)width * sizeof *to);
    } else {
      memset(to + t * width, 0, (size_t)width * sizeof *to);
    }
  }
}

static float largest(const float *x, int64_t n) {
  float most = -INFINITY;
#pragma omp simd reduction(max : most)
  for (int64_t j = 0; j < n; j++) most = x[j] > most ? x[j] : most;
  return most;
}

MAL_CLONES static float sum_of_powers(const float *x, int64_t n, float most) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; j++) sum += mal_exp(x[j] - most);
  return sum;
}

MAL_CLONES static void probabilities(const float *x, float *d, int64_t n, float lse, float scale) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) d[j] = mal_exp(x[j] - lse) * scale;
}

/* What a row leaves in sums[r] and sums[rows + r]: alone, log Σ e^x and the label's x; beside other ranks, with the largest of
 * all ranks m given, Σ e^(x - m) and x - m of the label, 0 where it is another's: to be summed over ranks. */
static void forward(mal_kernel_call *c, int64_t rows, int64_t cols, int64_t real) {
  const float *x = c->in[0], *most = c->in[2];
  const int64_t *labels = c->in[1];
  float *sums = c->out[0];
  for (int64_t r = 0; r < rows; r++, x += cols) {
    int64_t label = labels[r] - c->facts->vocab_from;
    float m = most ? most[r] : largest(x, real), sum = sum_of_powers(x, real, m);
    bool here = label >= 0 && label < real;
    sums[r] = most ? sum : m + logf(sum);
    sums[rows + r] = here ? x[label] - (most ? m : 0.0f) : 0.0f;
  }
}

/* d = (p - [label]) · scale, in place of the logits or beside them; padding gets none. */
static void backward(mal_kernel_call *c, int64_t rows, int64_t cols, int64_t real) {
  const float *x = c->in[0], *sums = c->in[2], *most = c->in[3];
  const int64_t *labels = c->in[1];
  float *d = c->out[0], scale = c->facts->loss_scale;
  for (int64_t r = 0; r < rows; r++, x += cols, d += cols) {
    int64_t label = labels[r] - c->facts->vocab_from;
    float rest = most ? logf(sums[r]) : sums[r];
    c->loss_sum += (double)rest - (double)sums[rows + r];
    probabilities(x, d, real, most ? most[r] + rest : rest, scale);
    for (int64_t j = real; j < cols; j++) d[j] = 0;
    if (label >= 0 && label < real) d[label] -= scale;
  }
}

void mal_cpu_cross_entropy(mal_kernel_call *c) {
  int64_t rows = c->v[0], cols = c->v[1], real = c->facts->vocab - c->facts->vocab_from;
  if (real > cols) real = cols;
  if (real < 0) real = 0;
  if (c->i->flags & MAL_INS_GRAD)
    backward(c, rows, cols, real);
  else
    forward(c, rows, cols, real);
}
