/* The header of a .safetensors file: which tensors it has, of what type and shape, and where their bytes lie.
 *
 *   8 bytes    N, little-endian
 *   N bytes    JSON {"NAME": {"dtype": "F32", "shape": [r, c], "data_offsets": [from, to]}, ..., "__metadata__": {...}},
 *              spaces may follow
 *   the rest   the tensors' bytes, row-major; offsets count from here
 *
 * (huggingface/safetensors, README, "Format"). As there: names are not repeated, and the tensors' bytes fill the rest exactly, no
 * two of them sharing any. */
#ifndef MAL_ENGINE_WEIGHTS_SAFETENSORS_H
#define MAL_ENGINE_WEIGHTS_SAFETENSORS_H
#include "core/dtype.h"
#include "engine/data/tokens.h"

enum { MAL_STORED_DIMS = 8, MAL_SAFETENSORS_HEAD_LIMIT = 64 << 20 };

typedef struct mal_stored { /* a tensor in a file */
  const char *name;
  const char *dtype; /* as the file spells it: "BF16" */
  int type;          /* MAL_F32, MAL_F16, MAL_BF16; -1: any other, which is not read as numbers */
  int rank;
  int64_t shape[MAL_STORED_DIMS];
  int64_t first_byte, bytes; /* from the file's beginning */
  int32_t file;              /* for who has several; 0 */
} mal_stored;

typedef struct mal_stored_list {
  mal_stored *at;
  int32_t count;
} mal_stored_list;

/* Every error names the file, the tensor and what to do. */
mal_status mal_safetensors_header(mal_arena *a, const mal_bytes *file, mal_stored_list *list, mal_error *e);

/* The 8 bytes and the JSON for tensors whose bytes follow each other in this order; the JSON is filled up with spaces so that
 * the numbers begin at a multiple of 8. Sets first_byte. Returns the text; *bytes: how many. */
char *mal_safetensors_compose(mal_arena *a, mal_stored *tensors, int32_t count, int64_t *bytes);

const char *mal_safetensors_dtype(mal_dtype type); /* "F32" of MAL_F32, MAL_F16 and MAL_BF16 */

/* To fp32, exactly; from fp32, to the nearest, ties to even. n numbers; `stored` has the bytes of the file. */
void mal_numbers_widen(mal_dtype type, const void *stored, float *to, int64_t n);
void mal_numbers_narrow(mal_dtype type, const float *from, void *stored, int64_t n);
#endif
