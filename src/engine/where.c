#include "engine/where.h"
#include "program/show.h"
#include <stdio.h>

void mal_where_words(const mal_program *p, uint64_t where, char *text, size_t size) {
  int block = (int)(where >> 48), list = (int)(where >> 44 & 15);
  long long micro_batch = (long long)(where >> 20 & 0xffffff) - 1;
  int instruction = (int)(where & 0xfffff);
  char of[48] = "";
  if (micro_batch >= 0) snprintf(of, sizeof of, _(", micro-batch %lld"), micro_batch);
  if (list == MAL_LISTS)
    snprintf(text, size, "%s%s", instruction < MAL_STEP_OPS ? mal_step_name[instruction] : "?", of);
  else if (block < p->n_blocks && list < MAL_LISTS && instruction < p->blocks[block].count[list])
    snprintf(text, size, _("%s, list %s, instruction %d (%s)%s"), p->blocks[block].name, mal_list_name[list],
             instruction, mal_instruction_name(&p->blocks[block].list[list][instruction]), of);
  else if (size)
    *text = '\0';
}
