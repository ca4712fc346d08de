/* Blocks of an accumulator that stays in the first cache: inputs are added to it one after the other. Pairs, the commonest
 * group, go straight through. The loops are written over vectors of the compiler, once, and built for what processors have. */
#include "engine/comm/reduce.h"
#include <string.h>

enum { BLOCK = 2048, LANES = 16 };

typedef float vec __attribute__((vector_size(64)));
typedef int32_t ivec __attribute__((vector_size(64)));
typedef uint32_t uvec __attribute__((vector_size(64)));
typedef uint16_t hvec __attribute__((vector_size(32)));

#define ALWAYS static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl")))
static bool wide(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#else
#define WIDE
static bool wide(void) { return false; }
#endif

bool mal_reduces(mal_dtype type) { return type != MAL_F8 && type != MAL_F4 && type < MAL_DTYPES; }

#define IS_NAN(x) (((ivec)(x)&0x7fffffff) > 0x7f800000) /* of vectors, as a mask */

/* Of a and b the larger; NaN when either is. */
ALWAYS float larger(float a, float b) { return a != a || a > b ? a : b; }

/* --- fp32 -------------------------------------------------------------------------------------------------------------- */

#define VECTORS(i, n) for (; (i) + LANES <= (n); (i) += LANES)

ALWAYS void add_f32(float *into, const float *a, const float *b, int64_t n, bool maximum) {
  int64_t i = 0;
  VECTORS(i, n) {
    vec x, y;
    memcpy(&x, a + i, sizeof x);
    memcpy(&y, b + i, sizeof y);
    if (maximum) {
      ivec mask = IS_NAN(x) | (x > y);
      x = (vec)(((ivec)x & mask) | ((ivec)y & ~mask));
    } else {
      x += y;
    }
    memcpy(into + i, &x, sizeof x);
  }
  for (; i < n; i++) into[i] = maximum ? larger(a[i], b[i]) : a[i] + b[i];
}

ALWAYS void pair_f32(const float *a, const float *b, float *c, float *d, int64_t n) {
  int64_t i = 0;
  VECTORS(i, n) {
    vec x, y;
    memcpy(&x, a + i, sizeof x);
    memcpy(&y, b + i, sizeof y);
    x += y;
    memcpy(c + i, &x, sizeof x);
    memcpy(d + i, &x, sizeof x);
  }
  for (; i < n; i++) c[i] = d[i] = a[i] + b[i];
}

/* --- bf16 -------------------------------------------------------------------------------------------------------------- */

static float from_bf16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static uint16_t to_bf16(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  if (f != f) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* First: into = b, else combined with it. */
ALWAYS void add_bf16(float *into, const uint16_t *b, int64_t n, bool first, bool maximum) {
  int64_t i = 0;
  VECTORS(i, n) {
    hvec h;
    vec x, y;
    memcpy(&h, b + i, sizeof h);
    y = (vec)(__builtin_convertvector(h, uvec) << 16);
    if (!first) {
      memcpy(&x, into + i, sizeof x);
      ivec mask = IS_NAN(x) | (x > y);
      y = maximum ? (vec)(((ivec)x & mask) | ((ivec)y & ~mask)) : x + y;
    }
    memcpy(into + i, &y, sizeof y);
  }
  for (; i < n; i++) {
    float y = from_bf16(b[i]);
    into[i] = first ? y : maximum ? larger(into[i], y) : into[i] + y;
  }
}

ALWAYS void round_bf16(uint16_t *out, const float *from, int64_t n) {
  int64_t i = 0;
  VECTORS(i, n) {
    vec x;
    memcpy(&x, from + i, sizeof x);
    uvec u = (uvec)x, nan = (uvec)IS_NAN(x);
    uvec r = (nan & (u >> 16 | 0x40)) | (~nan & ((u + 0x7fff + (u >> 16 & 1)) >> 16));
    hvec h = __builtin_convertvector(r, hvec);
    memcpy(out + i, &h, sizeof h);
  }
  for (; i < n; i++) out[i] = to_bf16(from[i]); /* NOLINT(clang-analyzer-core.CallAndMessage): the caller fills from */
}

/* --- fp16 -------------------------------------------------------------------------------------------------------------- */

static float from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff, u;
  float f;
  if (rest >= 0x7c00) {
    u = sign | 0x7f800000 | (rest & 0x3ff) << 13;
  } else if (rest >= 0x400) {
    u = sign | ((rest << 13) + (112u << 23));
  } else { /* subnormal: a multiple of 2^-24 */
    f = (float)rest * 0x1p-24f;
    memcpy(&u, &f, sizeof u);
    u |= sign;
  }
  memcpy(&f, &u, sizeof f);
  return f;
}

static uint16_t to_f16(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
  u &= 0x7fffffff;
  if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (u >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65,520 and above round to infinity */
  if (u >= 0x38800000) return (uint16_t)(sign | (u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13);
  memcpy(&f, &u, sizeof f);
  f += 0.5f; /* below 2^-14: the sum's last bit is 2^-24, so that the processor rounds */
  memcpy(&u, &f, sizeof u);
  return (uint16_t)(sign | (u - 0x3f000000));
}

static void add_f16(float *into, const uint16_t *b, int64_t n, bool first, bool maximum) {
  for (int64_t i = 0; i < n; i++) {
    float y = from_f16(b[i]);
    into[i] = first ? y : maximum ? larger(into[i], y) : into[i] + y;
  }
}

static void round_f16(uint16_t *out, const float *from, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = to_f16(from[i]); /* NOLINT(clang-analyzer-core.CallAndMessage): as above */
}

/* --- blocks ------------------------------------------------------------------------------------------------------------ */

ALWAYS void reduce_f32(bool maximum, const void *const *ins, int n_ins, void *const *outs, int n_outs, int64_t count) {
  if (n_ins == 2 && n_outs == 2 && !maximum) {
    pair_f32(ins[0], ins[1], outs[0], outs[1], count);
    return;
  }
  float sum[BLOCK];
  for (int64_t at = 0; at < count; at += BLOCK) {
    int64_t n = count - at < BLOCK ? count - at : BLOCK;
    const float *first = (const float *)ins[0] + at;
    if (n_ins == 1) memcpy(sum, first, (size_t)n * sizeof *sum);
    for (int r = 1; r < n_ins; r++) add_f32(sum, r == 1 ? first : sum, (const float *)ins[r] + at, n, maximum);
    for (int k = 0; k < n_outs; k++) memcpy((float *)outs[k] + at, sum, (size_t)n * sizeof *sum);
  }
}

ALWAYS void reduce_16(bool brain, bool maximum, const void *const *ins, int n_ins, void *const *outs, int n_outs,
                      int64_t count) {
  float sum[BLOCK];
  uint16_t rounded[BLOCK];
  for (int64_t at = 0; at < count; at += BLOCK) {
    int64_t n = count - at < BLOCK ? count - at : BLOCK;
    for (int r = 0; r < n_ins; r++)
      brain ? add_bf16(sum, (const uint16_t *)ins[r] + at, n, r == 0, maximum)
            : add_f16(sum, (const uint16_t *)ins[r] + at, n, r == 0, maximum);
    brain ? round_bf16(rounded, sum, n) : round_f16(rounded, sum, n);
    for (int k = 0; k < n_outs; k++) memcpy((uint16_t *)outs[k] + at, rounded, (size_t)n * sizeof *rounded);
  }
}

WIDE static void wide_f32(bool maximum, const void *const *ins, int n_ins, void *const *outs, int n_outs, int64_t n) {
  reduce_f32(maximum, ins, n_ins, outs, n_outs, n);
}
WIDE static void wide_16(bool brain, bool maximum, const void *const *ins, int n_ins, void *const *outs, int n_outs,
                         int64_t n) {
  reduce_16(brain, maximum, ins, n_ins, outs, n_outs, n);
}

/* Integers wrap around: the sum is that of the unsigned type. */
#define INTEGERS(name, type, unsigned_type)                                                                            \
  static void name(bool maximum, const void *const *ins, int n_ins, void *const *outs, int n_outs, int64_t count) {    \
    for (int64_t i = 0; i < count; i++) {                                                                              \
      type x = ((const type *)ins[0])[i];                                                                              \
      for (int r = 1; r < n_ins; r++) {                                                                                \
        type y = ((const type *)ins[r])[i];                                                                            \
        x = maximum ? (x > y ? x : y) : (type)((unsigned_type)x + (unsigned_type)y);                                   \
      }                                                                                                                \
      for (int k = 0; k < n_outs; k++) ((type *)outs[k])[i] = x;                                                       \
    }                                                                                                                  \
  }
INTEGERS(reduce_i64, int64_t, uint64_t)
INTEGERS(reduce_i32, int32_t, uint32_t)
INTEGERS(reduce_i8, int8_t, uint8_t)

void mal_reduce(mal_dtype type, bool maximum, const void *const *ins, int n_ins, void *const *outs, int n_outs,
                int64_t count) {
  switch (type) {
  case MAL_F32:
  case MAL_TF32:
    if (wide())
      wide_f32(maximum, ins, n_ins, outs, n_outs, count);
    else
      reduce_f32(maximum, ins, n_ins, outs, n_outs, count);
    break;
  case MAL_BF16:
    if (wide())
      wide_16(true, maximum, ins, n_ins, outs, n_outs, count);
    else
      reduce_16(true, maximum, ins, n_ins, outs, n_outs, count);
    break;
  case MAL_F16: reduce_16(false, maximum, ins, n_ins, outs, n_outs, count); break;
  case MAL_I64: reduce_i64(maximum, ins, n_ins, outs, n_outs, count); break;
  case MAL_I32: reduce_i32(maximum, ins, n_ins, outs, n_outs, count); break;
  case MAL_I8: reduce_i8(maximum, ins, n_ins, outs, n_outs, count); break;
  default: break;
  }
}
