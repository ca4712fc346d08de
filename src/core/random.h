/* Random numbers that need no state of their own: splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", 2014). For what must be the same wherever it is drawn, philox.h. */
#ifndef MAL_CORE_RANDOM_H
#define MAL_CORE_RANDOM_H
#include <stdint.h>

/* Next of the sequence that *x stands in. */
static inline uint64_t mal_random_next(uint64_t *x) {
  *x += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = *x;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* A number whose bits all depend on all bits of x. */
static inline uint64_t mal_mix64(uint64_t x) { return mal_random_next(&x); }

/* Between 0 and 1, neither of them, from 53 of 64 random bits. */
static inline double mal_unit_interval(uint64_t bits) { return ((double)(bits >> 11) + 0.5) * 0x1p-53; }
#endif
