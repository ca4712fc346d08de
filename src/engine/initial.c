#include "engine/initial.h"
#include "core/philox.h"
#include <math.h>
#include <string.h>

/* Four normal numbers from four words. */
static void normals(const uint32_t words[4], float out[4]) {
  const double whole = 4294967296.0, turn = 6.283185307179586;
  for (int i = 0; i < 4; i += 2) {
    double radius = sqrt(-2.0 * log(((double)words[i] + 0.5) / whole)), angle = turn * (double)words[i + 1] / whole;
    out[i] = (float)(radius * cos(angle));
    out[i + 1] = (float)(radius * sin(angle));
  }
}

static const mal_weight *weight_of(const mal_model *m, int32_t tensor) {
  if (tensor < m->n_weights) return &m->weights[tensor];
  tensor -= m->n_weights;
  for (int64_t l = 0;; l++) {
    const mal_layer_kind *k = &m->kinds[m->kind_of[l]];
    if (tensor < k->n_weights) return &k->weights[tensor];
    tensor -= k->n_weights;
  }
}

static bool is_norm(const mal_weight *w) {
  return w->role == MAL_W_NORM || w->role == MAL_W_FINAL_NORM || w->role == MAL_W_EMBED_NORM;
}

static bool is_bias(const mal_weight *w) {
  size_t n = strlen(w->name);
  return n > 5 && strcmp(w->name + n - 5, ".bias") == 0;
}

void mal_initial_values(const mal_model *m, const mal_tensors *t, uint64_t seed, const mal_piece *p, float *flat) {
  const mal_weight *w = weight_of(m, p->tensor);
  int64_t width = t->at[p->tensor].cols, n = p->rows * p->cols;
  float *to = flat + p->at, made[4], deviation = 0.02f;
  uint32_t words[4], counter[4] = {0, 0, (uint32_t)p->tensor, 0};
  if (w->rank == 1) {
    for (int64_t i = 0; i < n; i++) to[i] = is_norm(w) && !is_bias(w) ? 1.0f : 0.0f;
    return;
  }
  if (w->role == MAL_W_OUT || w->role == MAL_W_DOWN) deviation /= sqrtf(2.0f * (float)m->layers);
  for (int64_t r = 0; r < p->rows; r++) {
    int64_t from = (p->row + r) * width + p->col, have = -1;
    for (int64_t j = 0; j < p->cols; j++) {
      int64_t e = from + j;
      if (e / 4 != have) {
        have = e / 4;
        counter[0] = (uint32_t)have, counter[1] = (uint32_t)(have >> 32);
        mal_philox(seed, counter, words);
        normals(words, made);
      }
      to[r * p->cols + j] = made[e % 4] * deviation;
    }
  }
}
