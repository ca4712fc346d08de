/* From one layout to another, one change at a time: what each change brings. Of the changes that are left, the one that brings most
 * is taken first; changes that only work together are one. */
#ifndef MAL_SEARCH_PATH_H
#define MAL_SEARCH_PATH_H
#include "search/search.h"

typedef struct mal_stride {
  const char *change; /* "micro-batch 1 to 2"; several: with "; " between */
  mal_plan plan;
  mal_estimate estimate;
} mal_stride;

/* from, to: complete, of one model, machine, job and profile. steps: from the first change on; the last has to's layout. Empty
 * when the two are one. */
mal_status mal_search_path(mal_arena *a, const mal_plan *from, const mal_estimate *estimate, const mal_plan *to,
                           mal_stride **steps, int *count, mal_error *e);
#endif
