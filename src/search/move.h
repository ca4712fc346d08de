/* When it pays to move a job from one machine to another.
 *
 * A token costs c = p·h + u·e: the price of a GPU-hour times the GPU-hours it takes (failures included), and that of electricity
 * times its energy. Moving from A to B pays while c_B < c_A, that is while p_B < p* = (c_A - u·e_B) / h_B; without electricity
 * p* = p_A · h_A / h_B. What the move itself costs, M, is earned back after M / (c_A - c_B) tokens, and so many tokens over the
 * speed of B later. */
#ifndef MAL_SEARCH_MOVE_H
#define MAL_SEARCH_MOVE_H
#include "price/price.h"

typedef struct mal_move {
  double price_ratio;                       /* h_A / h_B: so many times A's price may a GPU-hour of B cost */
  double usd_per_gpu_hour;                  /* p*; 0: no price of A is known */
  double saved_usd_per_mtoken, saved_share; /* c_A - c_B, and of c_A; negative: it costs more; 0: a price is missing */
  double tokens_per_usd;                    /* of M: back after so many; 0: never, or a price is missing */
  double seconds_per_usd;                   /* of M, on B */
  double sooner_s, saved_usd;               /* of the job's tokens; 0: no target, or a price is missing */
} mal_move;

/* Both estimates of the same model and job, each on the plan's machine at its price. */
mal_move mal_move_between(const mal_plan *from, const mal_estimate *a, const mal_plan *to, const mal_estimate *b);
#endif
