/* The engine: executes the step program with real numbers.
 *
 * A rank holds its stage's regions in one arena. Weights of a stage lie in one flat space of elements, the same for PARAM and
 * GRAD: tied table, replicated vectors, other dense weights, experts. What each stretch of it is in the model's own (global)
 * index space is said by pieces, so that initial values, checkpoints and norms never depend on the layout. */
#ifndef MAL_ENGINE_ENGINE_H
#define MAL_ENGINE_ENGINE_H
#include "program/program.h"

/* A weight tensor of the model, once for the whole model: a tied head is not listed, it is the embedding. */
typedef struct mal_tensor {
  const char *name;               /* as in a Hugging Face state dict: "model.layers.3.mlp.up_proj.weight" */
  int64_t rows, cols;             /* shape [out, in]; vectors: rows elements, cols 1 */
  bool vector, decay, transposed; /* transposed: a checkpoint of transformers stores [in, out] */
} mal_tensor;
typedef struct mal_tensors {
  mal_tensor *at;
  int32_t count;
} mal_tensors;

/* A rectangle of a tensor that a rank holds: rows [row, row + rows), columns [col, col + cols) of the tensor, row after row at
 * elements [at, at + rows · cols) of the rank's flat space. What no piece covers is padding: zeros. */
typedef struct mal_piece {
  int32_t tensor;
  int64_t row, rows, col, cols;
  int64_t at;
  bool owned; /* of the copies that other tp ranks or the other stage of a tied table have, the one that counts */
} mal_piece;

/* Optimizer state of elements [at, at + n) of the flat space lies at [state, state + n) of this rank's moments (ZeRO-1). */
typedef struct mal_shard {
  int64_t at, n, state;
} mal_shard;

/* What of a rank outlasts a step, for checkpoints. */
typedef struct mal_rank_state {
  int32_t rank;
  const mal_piece *pieces;
  int32_t n_pieces;
  const mal_shard *shards;
  int32_t n_shards;
  int64_t elements, state_elements; /* of the flat space; of each moment */
  float *param;                     /* [elements] */
  float *moment[2];                 /* [state_elements] each: AdamW's first and second; NULL none */
  bool owns_param;                  /* false on data-parallel ranks but the first: their weights are copies */
} mal_rank_state;
#endif
