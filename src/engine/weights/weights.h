/* A model's folder as Hugging Face lays it out: config.json, model.safetensors (or model.safetensors.index.json and the files
 * that it names), and what a tokenizer has.
 *
 * Names and transposes are those of the model's list of weights (src/model): a weight [out, in] that is marked transposed
 * lies as [in, out]. Names may lack the part before the first dot ("h.0.attn..." for "transformer.h.0.attn..."), as in files
 * of the model without its head. */
#ifndef MAL_ENGINE_WEIGHTS_WEIGHTS_H
#define MAL_ENGINE_WEIGHTS_WEIGHTS_H
#include "engine/engine.h"
#include "engine/file/file.h"
#include "engine/weights/safetensors.h"

/* --- in ----------------------------------------------------------------------------------------------------------------------- */

typedef struct mal_weight_files {
  const char *folder;
  const char **paths; /* [n_files] */
  mal_bytes *files;   /* the same, to be read; any thread */
  int n_files;
  mal_stored_list list; /* of all files, by name */
  int32_t *of_tensor;   /* of each tensor of the model, its number in the list; after mal_weight_files_match */
} mal_weight_files;

/* folder: one with config.json and weights, or a single .safetensors file. Headers are read and judged. Errors: MAL_BAD with
 * file, tensor and what to do. Close before the arena is freed. */
mal_status mal_weight_files_open(mal_arena *a, const char *folder, mal_weight_files *w, mal_error *e);
void mal_weight_files_close(mal_weight_files *w);
/* Whether they are those of the model: every tensor there, of its shape, fp32, fp16 or bf16; no others, but for a stored copy of
 * a tied head and what older versions stored beside weights (masks, rotary frequencies). */
mal_status mal_weight_files_match(mal_arena *a, mal_weight_files *w, const mal_model *m, const mal_tensors *t,
                                  mal_error *e);
/* Fills param of s, all its pieces. Any thread may call. */
mal_status mal_weight_files_load(const mal_weight_files *w, const mal_tensors *t, const mal_rank_state *s,
                                 mal_error *e);

/* --- out ---------------------------------------------------------------------------------------------------------------------- */

typedef struct mal_weight_request {
  const char *folder;         /* must not exist, or be empty; the one it lies in must exist */
  const char *tokenizer_from; /* a folder whose tokenizer's files are copied; NULL: none */
  const mal_model *model;
  const mal_tensors *tensors;
  mal_dtype dtype;     /* MAL_F32, MAL_F16, MAL_BF16 */
  int64_t shard_bytes; /* most of one file, but for a single larger tensor; 0: 5 GB, as transformers 4 */
} mal_weight_request;
typedef struct mal_weight_writer mal_weight_writer;

/* Checks what can be checked before a long run; writes nothing yet. Processes that are forked after it share the writer. */
mal_status mal_weight_writer_open(mal_arena *a, const mal_weight_request *q, mal_weight_writer **w, mal_error *e);
/* Once, before any puts: makes FOLDER.part and the files in it. */
mal_status mal_weight_writer_begin(mal_weight_writer *w, mal_error *e);
/* Writes what s owns of its weights. Any thread or process may call. */
mal_status mal_weight_writer_put(mal_weight_writer *w, const mal_rank_state *s, mal_error *e);
/* Once, when all is put: config.json, the index, all synced, renamed to FOLDER. */
mal_status mal_weight_writer_finish(mal_weight_writer *w, mal_error *e);
void mal_weight_writer_close(mal_weight_writer *w);
int mal_weight_writer_files(const mal_weight_writer *w);

/* Types that may be chosen for it: names and values, in one order. */
enum { MAL_HF_DTYPES = 3 };
extern const char *const mal_hf_dtype_name[MAL_HF_DTYPES + 1];
extern const mal_dtype mal_hf_dtypes[MAL_HF_DTYPES];

/* --- from one to the other ------------------------------------------------------------------------------------------------- */

/* Weights that any part of the model can be filled from: files or a checkpoint. */
typedef mal_status mal_weight_source(const void *context, const mal_tensors *t, const mal_rank_state *s, mal_error *e);

/* All tensors from the source to the writer, a few hundred MiB at a time. */
mal_status mal_weights_copy(mal_weight_source *source, const void *context, const mal_tensors *t, mal_weight_writer *w,
                            mal_error *e);
#endif
