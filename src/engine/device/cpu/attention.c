/* Attention in tiles, so that scores never lie in memory (Dao, arXiv:2307.08691, algorithms 1 and 2). */
#include "engine/device/cpu/cpu.h"
#include <math.h>

enum { TILE = 128 }; /* queries and keys of a tile: its scores, 64 KiB, stay in the second cache */

typedef struct core {
  int64_t sequences, q_len, kv_len, q_heads, kv_heads, d_qk, d_v, window;
  bool causal;
  float scale;
} core;

typedef struct span {
  int64_t from, to;
} span;

static core core_of(const mal_kernel_call *c) {
  const int64_t *v = c->v;
  return (core){
      v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], c->i->flags & MAL_INS_CAUSAL, 1.0f / sqrtf((float)v[5])};
}

/* Keys that some query of [q, q + n) sees. */
static span keys_of(const core *a, int64_t q, int64_t n) {
  span s = {0, a->kv_len};
  if (!a->causal) return s;
  if (q + n < s.to) s.to = q + n;
  if (a->window > 0 && q - a->window + 1 > 0) s.from = q - a->window + 1;
  return s;
}

static span seen_by(const core *a, int64_t q) { return keys_of(a, q, 1); }

static double flops_of(const core *a, double per_pair) {
  double q = (double)a->q_len, kv = (double)a->kv_len, w = (double)a->window, pairs = q * kv;
  if (a->causal) pairs = a->window > 0 && w < kv ? q / kv * (w * kv - w * w / 2) : pairs / 2;
  return (double)a->sequences * (double)a->q_heads * pairs * per_pair;
}

typedef struct tile { /* queries [q, q + nq) against keys [k, k + nk) */
  int64_t q, nq, k, nk;
} tile;

static float tile_largest(const float *row, int64_t n, float most) {
#pragma omp simd reduction(max : most)
  for (int64_t j = 0; j < n; j++) most = row[j] > most ? row[j] : most;
  return most;
}

/* Scores to e^(score - largest), 0 where not seen; sums and largest go on over the tiles, what was summed before is rescaled. */
MAL_CLONES static void soften(const core *a, const tile *t, float *scores, float *most, float *sum, float *out,
                              int64_t stride) {
  for (int64_t i = 0; i < t->nq; i++) {
    span seen = seen_by(a, t->q + i);
    int64_t from = seen.from > t->k ? seen.from - t->k : 0, to = seen.to - t->k < t->nk ? seen.to - t->k : t->nk;
    float *row = scores + i * t->nk;
    if (from > t->nk) from = t->nk;
    for (int64_t j = 0; j < from; j++) row[j] = 0;
    for (int64_t j = to > from ? to : from; j < t->nk; j++) row[j] = 0;
    if (to <= from) continue;
    float m = tile_largest(row + from, to - from, most[i]), added = 0;
#pragma omp simd reduction(+ : added)
    for (int64_t j = from; j < to; j++) {
      row[j] = mal_exp(row[j] - m);
      added += row[j];
    }
    float keep = most[i] == -INFINITY ? 0.0f : mal_exp(most[i] - m);
    sum[i] = sum[i] * keep + added;
    most[i] = m;
    for (int64_t j = 0; j < a->d_v; j++) out[i * stride + j] *= keep;
  }
}

static void forward_rows(const core *a, int64_t q, int64_t nq, const float *qs, const float *ks, const float *vs,
                         float *out, float *lse) {
  float scores[TILE * TILE], most[TILE], sum[TILE];
  int64_t sq = a->q_heads * a->d_qk, sk = a->kv_heads * a->d_qk, sv = a->kv_heads * a->d_v, so = a->q_heads * a->d_v;
  span keys = keys_of(a, q, nq);
  for (int64_t i = 0; i < nq; i++) {
    most[i] = -INFINITY, sum[i] = 0;
    for (int64_t j = 0; j < a->d_v; j++) out[i * so + j] = 0;
  }
  for (int64_t k = keys.from; k < keys.to; k += TILE) {
    tile t = {q, nq, k, keys.to - k < TILE ? keys.to - k : TILE};
    mal_cpu_gemm(false, true, nq, t.nk, a->d_qk, a->scale, qs, sq, ks + k * sk, sk, 0, scores, t.nk);
    soften(a, &t, scores, most, sum, out, so);
    mal_cpu_gemm(false, false, nq, a->d_v, t.nk, 1, scores, t.nk, vs + k * sv, sv, 1, out, so);
  }
  for (int64_t i = 0; i < nq; i++) {
    lse[i] = most[i] + logf(sum[i]);
    for (int64_t j = 0; j < a->d_v; j++) out[i * so + j] /= sum[i];
  }
}

static void forward(mal_kernel_call *c) {
  core a = core_of(c);
  const float *q = c->in[0], *k = c->in[1], *v = c->in[2];
  float *out = c->out[0], *lse = c->out[1];
  for (int64_t s = 0; s < a.sequences; s++)
    for (int64_t h = 0; h < a.q_heads; h++) {
      int64_t hk = h / (a.q_heads / a.kv_heads);
      const float *ks = k + (s * a.kv_len * a.kv_heads + hk) * a.d_qk;
      const float *vs = v + (s * a.kv_len * a.kv_heads + hk) * a.d_v;
      for (int64_t at = 0; at < a.q_len; at += TILE) {
        int64_t n = a.q_len - at < TILE ? a.q_len - at : TILE, row = (s * a.q_len + at) * a.q_heads + h;
        forward_rows(&a, at, n, q + row * a.d_qk, ks, vs, out + row * a.d_v, lse + (s * a.q_heads + h) * a.q_len + at);
      }
    }
  c->flops += flops_of(&a, 2.0 * (double)(a.d_qk + a.d_v));
}

/* --- backward --- */

/* Row sums of do · o. */
MAL_CLONES static void row_products(const core *a, const float *out, const float *d, float *rows) {
  for (int64_t s = 0; s < a->sequences; s++)
    for (int64_t q = 0; q < a->q_len; q++)
      for (int64_t h = 0; h < a->q_heads; h++) {
        int64_t at = ((s * a->q_len + q) * a->q_heads + h) * a->d_v;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < a->d_v; j++) sum += out[at + j] * d[at + j];
        rows[(s * a->q_heads + h) * a->q_len + q] = sum;
      }
}

/* Scores to probabilities, and products dp to dscores = p · (dp - row) · scale. */
MAL_CLONES static void unsoften(const core *a, const tile *t, float *scores, float *d, const float *lse,
                                const float *rows) {
  for (int64_t i = 0; i < t->nq; i++) {
    span seen = seen_by(a, t->q + i);
    int64_t from = seen.from > t->k ? seen.from - t->k : 0, to = seen.to - t->k < t->nk ? seen.to - t->k : t->nk;
    float *p = scores + i * t->nk, *g = d + i * t->nk;
    if (from > t->nk) from = t->nk;
    for (int64_t j = 0; j < from; j++) p[j] = g[j] = 0;
    for (int64_t j = to > from ? to : from; j < t->nk; j++) p[j] = g[j] = 0;
#pragma omp simd
    for (int64_t j = from; j < to; j++) {
      p[j] = mal_exp(p[j] - lse[i]);
      g[j] = p[j] * (g[j] - rows[i]) * a->scale;
    }
  }
}

typedef struct operands { /* of one head, at the first row */
  const float *q, *k, *v, *d, *lse, *rows;
  float *dq, *dk, *dv;
} operands;

static void backward_rows(const core *a, int64_t q, int64_t nq, const operands *x) {
  float scores[TILE * TILE], d[TILE * TILE], beta = 0;
  int64_t sq = a->q_heads * a->d_qk, sk = a->kv_heads * a->d_qk, sv = a->kv_heads * a->d_v, so = a->q_heads * a->d_v;
  span keys = keys_of(a, q, nq);
  for (int64_t k = keys.from; k < keys.to; k += TILE) {
    tile t = {q, nq, k, keys.to - k < TILE ? keys.to - k : TILE};
    const float *qs = x->q + q * sq, *ks = x->k + k * sk, *ds = x->d + q * so;
    mal_cpu_gemm(false, true, nq, t.nk, a->d_qk, a->scale, qs, sq, ks, sk, 0, scores, t.nk);
    mal_cpu_gemm(false, true, nq, t.nk, a->d_v, 1, ds, so, x->v + k * sv, sv, 0, d, t.nk);
    unsoften(a, &t, scores, d, x->lse + q, x->rows + q);
    mal_cpu_gemm(true, false, t.nk, a->d_v, nq, 1, scores, t.nk, ds, so, 1, x->dv + k * sv, sv);
    mal_cpu_gemm(true, false, t.nk, a->d_qk, nq, 1, d, t.nk, qs, sq, 1, x->dk + k * sk, sk);
    mal_cpu_gemm(false, false, nq, a->d_qk, t.nk, 1, d, t.nk, ks, sk, beta, x->dq + q * sq, sq);
    beta = 1;
  }
}

static void backward(mal_kernel_call *c) {
  core a = core_of(c);
  float *rows = c->scratch;
  row_products(&a, c->in[3], c->in[4], rows);
  for (int64_t j = 0; j < c->n_out[1]; j++) ((float *)c->out[1])[j] = 0;
  for (int64_t j = 0; j < c->n_out[2]; j++) ((float *)c->out[2])[j] = 0;
  for (int64_t s = 0; s < a.sequences; s++)
    for (int64_t h = 0; h < a.q_heads; h++) {
      int64_t hk = h / (a.q_heads / a.kv_heads), row = s * a.q_len * a.q_heads + h,
              key = s * a.kv_len * a.kv_heads + hk;
      int64_t sums = (s * a.q_heads + h) * a.q_len;
      operands x = {(const float *)c->in[0] + row * a.d_qk, (const float *)c->in[1] + key * a.d_qk,
                    (const float *)c->in[2] + key * a.d_v,  (const float *)c->in[4] + row * a.d_v,
                    (const float *)c->in[5] + sums,         rows + sums,
                    (float *)c->out[0] + row * a.d_qk,      (float *)c->out[1] + key * a.d_qk,
                    (float *)c->out[2] + key * a.d_v};
      for (int64_t at = 0; at < a.q_len; at += TILE)
        backward_rows(&a, at, a.q_len - at < TILE ? a.q_len - at : TILE, &x);
    }
  c->flops += flops_of(&a, 6.0 * (double)a.d_qk + 4.0 * (double)a.d_v);
}

void mal_cpu_attention(mal_kernel_call *c) {
  if (c->i->flags & MAL_INS_GRAD)
    backward(c);
  else
    forward(c);
}
