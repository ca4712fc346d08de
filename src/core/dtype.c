#include "core/dtype.h"

const char *const mal_dtype_name[] = {"fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int64", "int32", "int8"};
const double mal_dtype_bytes[] = {4, 4, 2, 2, 1, 0.5, 8, 4, 1};

_Static_assert(sizeof mal_dtype_name / sizeof *mal_dtype_name == MAL_DTYPES, "one name for each type");
_Static_assert(sizeof mal_dtype_bytes / sizeof *mal_dtype_bytes == MAL_DTYPES, "one size for each type");
