/* Kernels of the CPU, in fp32. One thread runs a kernel; ranks are threads beside one another. */
#ifndef MAL_ENGINE_DEVICE_CPU_CPU_H
#define MAL_ENGINE_DEVICE_CPU_CPU_H
#include "engine/device/device.h"
#include <math.h>

/* Loops are compiled for several vector widths and the processor's own is taken. Sums are then in another order on another
 * processor, and in the same order in every run on the same. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAL_CLONES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAL_CLONES
#endif
#endif
#if !defined(MAL_CLONES) && defined(__x86_64__) && defined(__gnu_linux__) &&                                           \
    !defined(__clang__) /* clang 14's clones cannot be called from other files */
#define MAL_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#elif !defined(MAL_CLONES)
#define MAL_CLONES
#endif

/* c[m,n] = alpha · op(a) · op(b) + beta · c, row-major; ta: a is stored [k,m]; tb: b is stored [n,k]. */
void mal_cpu_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                  const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
void mal_cpu_enter(void);

mal_kernel mal_cpu_matmul, mal_cpu_attention, mal_cpu_norm, mal_cpu_rope, mal_cpu_activation, mal_cpu_embed,
    mal_cpu_cross_entropy, mal_cpu_reduce_rows, mal_cpu_add, mal_cpu_copy;
double mal_cpu_sum_squares(const float *x, int64_t n);
void mal_cpu_scale(float *x, int64_t n, float factor);
void mal_cpu_adamw(const mal_adamw *a, float *w, const float *g, float *m, float *v, int64_t n);

/* e^x within 2 units in the last place for |x| < 87, held at the bounds beyond; what is no number stays so. In a form that compilers
 * make vectors of. Range reduction by Cody and Waite, polynomial of the Cephes library (expf.c). */
static inline float mal_exp(float x) {
  float within = x > -87.0f ? (x < 88.0f ? x : 88.0f) : -87.0f;
  float shifted = within * 1.44269504f + 12582912.0f; /* 1.5 · 2^23: rounds to the nearest whole number */
  float n = shifted - 12582912.0f;
  float r = within - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  union {
    int32_t bits;
    float value;
  } power = {.bits = ((int32_t)n + 127) << 23};
  return isnan(x) ? x : p * power.value;
}
#endif
