/* Random numbers that are a function of where they are used: Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy
 * as 1, 2, 3, SC 2011, section 3.3). out is a function of key and counter alone, so that nothing depends on who asks first. */
#ifndef MAL_CORE_PHILOX_H
#define MAL_CORE_PHILOX_H
#include <stdint.h>

void mal_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);
#endif
