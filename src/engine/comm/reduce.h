/* Sums and maxima of n buffers, element by element, in the order given: the same bits whoever computes them. */
#ifndef MAL_ENGINE_COMM_REDUCE_H
#define MAL_ENGINE_COMM_REDUCE_H
#include "core/dtype.h"
#include <stdbool.h>
#include <stdint.h>

/* F32, TF32, BF16, F16 (16-bit types in fp32, rounded once at the end, to nearest even), I64, I32, I8 (modulo 2^bits).
 * F8 and F4 have no sum of their own: they are scaled by tensors, and casts come first. */
bool mal_reduces(mal_dtype type);

/* outs[k][i] = ins[0][i] + ins[1][i] + ... for 0 <= i < count, k < n_outs; maximum: the largest, NaN if one is NaN.
 * An output may be one of the inputs. n_ins >= 1; aligned to their elements. */
void mal_reduce(mal_dtype type, bool maximum, const void *const *ins, int n_ins, void *const *outs, int n_outs,
                int64_t count);
#endif
