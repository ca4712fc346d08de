/* Which weights there are, and which part of them a rank holds where. */
#ifndef MAL_ENGINE_TENSORS_H
#define MAL_ENGINE_TENSORS_H
#include "engine/engine.h"

/* All weight tensors of the model: those outside the layers, then layer after layer. */
void mal_tensors_list(mal_arena *a, const mal_model *m, mal_tensors *t);
/* The number of weight w of a layer (-1: of the model itself) in that list. */
int32_t mal_tensor_number(const mal_model *m, int64_t layer, int weight);

/* One weight operand of a block: one tensor's share, or several joined, row after row. */
typedef struct mal_unit_part {
  int param;        /* first of the block's params in it: what its buffers name */
  int64_t elements; /* here */
  bool summed;      /* its gradient is summed over tensor-parallel ranks in gradient sync */
  bool tied;        /* a table that another stage has too */
  bool shared;      /* lies in this stage already */
  bool last;        /* of its block */
} mal_unit_part;
/* The units of a block, in the order of their params. */
int mal_block_units(mal_arena *a, const mal_plan *plan, const mal_block *b, mal_unit_part **units);

typedef struct mal_pieces {
  mal_piece *at;
  int32_t count, room;
} mal_pieces;
/* Appends the pieces of a unit of layer `layer` (-1: no layer) that tensor-parallel rank `tp_index` holds from `at` on. */
void mal_unit_pieces(mal_arena *a, const mal_plan *plan, const mal_block *b, const mal_unit_part *u, int64_t layer,
                     int64_t tp_index, bool owns, int64_t at, mal_pieces *p);

/* What this engine cannot train of a model and layout, by name (MAL_BAD). */
mal_status mal_engine_check(const mal_plan *plan, mal_error *e);
#endif
