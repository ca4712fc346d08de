/* Inside the assembly of a program. */
#ifndef MAL_PROGRAM_LOWER_H
#define MAL_PROGRAM_LOWER_H
#include "program/lower_block.h"
#include "program/program.h"

/* memory.c: regions and bytes by cause of every stage; the worst stage. */
void mal_program_memory(mal_program *p);
/* Bytes of a block's weights, and of its gradients where they outlast the passes. */
int64_t mal_block_lasting(const mal_plan *plan, const mal_block *b);
/* One activation message between stages. */
int64_t mal_boundary_bytes(const mal_plan *plan);
/* count.c: FLOPs of a step, bytes sent by the busiest stage. */
void mal_program_count(mal_program *p);
#endif
