/* Where in the step program a rank is, in one word: what the status page of a job holds and its supervisor puts into words. */
#ifndef MAL_ENGINE_WHERE_H
#define MAL_ENGINE_WHERE_H
#include "program/program.h"

/* list: mal_list; MAL_LISTS: a message of the pipeline, whose mal_step_op is the instruction. micro_batch -1: none. */
static inline uint64_t mal_where(int64_t block, int list, int64_t instruction, int64_t micro_batch) {
  return (uint64_t)block << 48 | (uint64_t)list << 44 | (uint64_t)(micro_batch + 1) << 20 | (uint64_t)instruction;
}
/* "layer(dense), list BW, instruction 14 (all-reduce), micro-batch 3". */
void mal_where_words(const mal_program *p, uint64_t where, char *text, size_t size);
#endif
