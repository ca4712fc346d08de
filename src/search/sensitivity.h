/* What would change the best layout's speed: a faster NIC, faster NVLink, faster or larger GPU memory, half or twice the batch.
 *
 * Speeds of the machine leave the layout as it is and price it again. Memory and batch are searched again, among
 * the layouts with the same tp, cp, ep and etp, so that the answer stays quick. */
#ifndef MAL_SEARCH_SENSITIVITY_H
#define MAL_SEARCH_SENSITIVITY_H
#include "search/search.h"

typedef enum mal_if {
  MAL_IF_NIC,
  MAL_IF_NVLINK,
  MAL_IF_MEMORY_SPEED,
  MAL_IF_MEMORY,
  MAL_IF_HALF_BATCH,
  MAL_IF_TWICE_BATCH,
  MAL_IFS
} mal_if;
extern const char *const mal_if_name[]; /* "nic", ... */

static const double mal_if_more = 0.1; /* so much more of what the machine has */

typedef struct mal_what_if {
  bool known;          /* false: the machine has none of it, or no such batch splits */
  double tokens_per_s; /* then */
  double gain;         /* of tokens a second, over the best layout now */
  mal_plan plan;       /* the best layout then */
  bool same_layout;    /* as now, but for the batch */
} mal_what_if;

/* o: of the search that gave `best`. */
mal_status mal_what_ifs(mal_arena *a, const mal_choice *best, const mal_search_options *o, mal_what_if out[MAL_IFS],
                        mal_error *e);
#endif
