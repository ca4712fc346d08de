/* Number types of tensors. */
#ifndef MAL_CORE_DTYPE_H
#define MAL_CORE_DTYPE_H
#include <stdint.h>

typedef enum mal_dtype {
  MAL_F32,
  MAL_TF32, /* TF32 is FP32 in memory, multiplied with 10-bit mantissas */
  MAL_BF16,
  MAL_F16,
  MAL_F8,
  MAL_F4,
  MAL_I64,
  MAL_I32,
  MAL_I8,
  MAL_DTYPES
} mal_dtype;

extern const char *const mal_dtype_name[MAL_DTYPES];
extern const double mal_dtype_bytes[MAL_DTYPES]; /* 0.5 for F4 */
#endif
