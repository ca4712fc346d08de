/* In builds with AddressSanitizer what an instruction does not name is out of bounds for it: stash, work, io and messages are
 * poisoned, and the operands of each instruction are not, while it runs. A lifetime that is too short, a wrong place or a kernel that
 * reads beyond its operand ends the run. In other builds nothing. */
#ifndef MAL_ENGINE_POISON_H
#define MAL_ENGINE_POISON_H
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define MAL_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAL_POISONS 1
#endif
#endif

#ifdef MAL_POISONS
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
static inline void mal_poison(const void *at, size_t bytes) { ASAN_POISON_MEMORY_REGION(at, bytes); }
static inline void mal_unpoison(const void *at, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(at, bytes); }
/* For libraries that are not instrumented: rows of `width` floats, `stride` apart. */
static inline void mal_must_be_open(const float *at, long rows, long width, long stride) {
  for (long r = 0; r < rows && width > 0; r++)
    if (__asan_region_is_poisoned((void *)(at + r * stride), (size_t)width * sizeof *at)) abort();
}
#else
static inline void mal_poison(const void *at, size_t bytes) { (void)at, (void)bytes; }
static inline void mal_unpoison(const void *at, size_t bytes) { (void)at, (void)bytes; }
static inline void mal_must_be_open(const float *at, long rows, long width, long stride) {
  (void)at, (void)rows, (void)width, (void)stride;
}
#endif
#endif
