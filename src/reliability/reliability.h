/* Failures, checkpoint interval, goodput. Times in seconds. */
#ifndef MAL_RELIABILITY_RELIABILITY_H
#define MAL_RELIABILITY_RELIABILITY_H
#include <stdint.h>

/* Of a node with so many GPUs; of_eight: of a node of 8 of them, as the catalogue has it (failures_per_node_day). */
double mal_node_failures(double of_eight, double gpus);

/* Mean time to failure of a job on `nodes` nodes; each failure of a node stops it. */
double mal_mttf_s(double failures_per_node_day, int64_t nodes);

/* Interval between checkpoints that loses least, for a checkpoint that stops training for write_s.
 * Young 1974: sqrt(2·w·M). Daly 2006 (Future Generation Computer Systems 22), equation 37, valid for w < 2M; else M. */
double mal_interval_young_s(double write_s, double mttf_s);
double mal_interval_daly_s(double write_s, double mttf_s);

/* Expected share of time that trains (ETTR), Kokolis et al., arXiv 2410.21680:
 *   (1 - (u0 + dt/2) / M) / (1 + w / dt)
 * u0: restart after a failure, dt: checkpoint interval, w: blocking part of a checkpoint. Never below 0. */
double mal_ettr(double mttf_s, double restart_s, double interval_s, double write_s);
#endif
