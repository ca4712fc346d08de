/* Power of the machine while it trains.
 *
 * A GPU draws its limit while products run, less while it streams memory or moves messages, little while it waits; the rest of
 * the node (CPUs, NICs, switches, fans, losses) takes a fixed part of what its rating leaves beside the GPUs.
 * Shares chosen so that 8 H100 in heavy training draw 76 % of the node's 10.2 kW, as measured (arXiv 2506.14551, 2412.08602);
 * a rule by rating alone is 27 to 37 % off (the same). */
#ifndef MAL_PRICE_POWER_H
#define MAL_PRICE_POWER_H
#include "price/price.h"

/* time_s: a step by cause, summing to step_s. Watts of all nodes, without the facility (PUE). */
double mal_power_w(const mal_machine *m, const double *time_s, double step_s);
#endif
