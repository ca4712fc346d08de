/* Inside search: the best so far, shared by all threads. What wins does not depend on who comes first. */
#ifndef MAL_SEARCH_CONTEST_H
#define MAL_SEARCH_CONTEST_H
#include "search/search.h"
#include <pthread.h>
#include <stdatomic.h>

typedef struct mal_entry {
  mal_layout layout; /* as one would ask for it */
  int plan;          /* of the space */
  double score;
  int64_t bytes;
} mal_entry;

typedef struct mal_contest {
  pthread_mutex_t lock;
  int keep, count;
  mal_entry best[MAL_SEARCH_MOST + 1];
  _Atomic double limit; /* nothing above it can win any more */
} mal_contest;

/* most: nothing above it counts; INFINITY: no limit. */
void mal_contest_open(mal_contest *c, int keep, double most);
void mal_contest_close(mal_contest *c);
/* Nothing more can win. */
void mal_contest_end(mal_contest *c);
/* Scores that differ by less than rounding are one entry: the one with fewer bytes, then the simpler layout. */
void mal_contest_enter(mal_contest *c, const mal_entry *e);
static inline bool mal_contest_over(mal_contest *c, double bound) {
  return bound > atomic_load_explicit(&c->limit, memory_order_relaxed);
}
#endif
