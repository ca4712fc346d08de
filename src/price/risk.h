/* How sure an estimate is: the memory that a layout may use, and step times too close to tell apart.
 *
 * The peak of memory is a log-normal around its estimate. Its sigma is the profile's (memory_sigma), which bench/fit finds from
 * measured peaks and from runs that ran or ran out of memory; a profile without such runs takes that of all. */
#ifndef MAL_PRICE_RISK_H
#define MAL_PRICE_RISK_H
#include "price/price.h"

/* A layout is chosen only when it fits with this probability, unless the user asks for another. */
extern const double mal_fit_confidence; /* 0.9 */

/* Sigma of log(peak / estimate) under this profile. */
double mal_memory_sigma(const mal_profile *profile);
/* Probability that a peak estimated at total_bytes stays within limit_bytes. */
double mal_fit_probability(const mal_profile *profile, double total_bytes, double limit_bytes);
/* The largest estimate that stays within limit_bytes with probability p, 0 < p < 1: what a search compares with. */
double mal_fit_budget(const mal_profile *profile, double limit_bytes, double p);
/* Quantile of the peak: share 0.1 or 0.9 of its interval; any 0 < share < 1. */
double mal_memory_quantile(const mal_profile *profile, double total_bytes, double share);

enum { MAL_TO_MEASURE = 3 };

/* How many of the fastest are so close that only a measurement tells: step_s, ascending, lie inside the interval of the first. At
 * most MAL_TO_MEASURE; 1: the first wins. */
int mal_too_close(mal_interval first, const double *step_s, int count);
#endif
