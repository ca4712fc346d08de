/* Lowering of one block: everything it depends on in, its instruction lists out. */
#ifndef MAL_PROGRAM_LOWER_BLOCK_H
#define MAL_PROGRAM_LOWER_BLOCK_H
#include "core/status.h"
#include "plan/plan.h"
#include "program/block.h"

typedef struct mal_block_request {
  const mal_plan *plan; /* complete */
  mal_block_class block_class;
  int kind;      /* LAYER, MTP: layer kind */
  int recompute; /* LAYER: mal_recompute */
  bool split;    /* lists B and W; else BW */
  /* HEAD: its matrix lies in this stage already (tied embedding; the head of an MTP module). MTP: so does the embedding.
   * With pp = 1 a tied table is found in place without being told. */
  bool tied_here;
  bool unplaced; /* for times and states only: work is not packed, work_bytes are 0 and offsets in WORK mean nothing */
  /* Not SYNC, OPTIMIZER: for elements, weights, gradients and their traffic only: lists R, B, BW and W are empty. */
  bool unit_only;
  bool no_input_grad; /* LAYER: nothing below is trained (the first layer with LoRA) */
  /* SYNC, OPTIMIZER: sums over the blocks of the stage, each times its count, of the fields of the same name */
  int64_t dense_elements, expert_elements, replicated_elements, vector_elements, tied_elements;
  int64_t
      held_elements; /* ZeRO-2 and 3: of dense_elements a rank's, each block's own share; 0: their share of the sum */
} mal_block_request;

/* out's arrays are the arena's. Errors: what cannot be lowered is said by name (MAL_BAD). */
mal_status mal_block_lower(mal_arena *a, const mal_block_request *r, mal_block *out, mal_error *e);

/* The group of an instruction: mal_layout_group, or ZeRO's shard or replica group. */
mal_group mal_instruction_group(const mal_plan *plan, unsigned axes);

/* Bytes of optimizer state for `elements` trained parameters, of which `vectors` are no matrices of a layer. */
int64_t mal_optimizer_state_bytes(int optimizer, int64_t elements, int64_t vectors);
#endif
