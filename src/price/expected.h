/* What microbenchmarks reach on a machine that is well: the constants at the end of their bounds that a measurement gave, not
 * where a fit of training runs left them. Delivery tests ask for it and node checks are held against it. */
#ifndef MAL_PRICE_EXPECTED_H
#define MAL_PRICE_EXPECTED_H
#include "price/collective.h"

/* Below this share of it a machine is sick: published healthy results and the thresholds of node checks lie above .80, a machine
 * that lost a quarter of its links below (docs/check.md). */
#define MAL_EXPECTED_ENOUGH 0.78

/* The machine, copied, with its constants there. */
void mal_machine_at_best(mal_arena *a, mal_machine *m);
/* busbw of a collective over `ranks` of m on `nodes` of its nodes. */
double mal_expected_busbw(const mal_machine *m, mal_collective c, int64_t ranks, int64_t nodes, double bytes);
#endif
