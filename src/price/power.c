#include "price/power.h"

/* Share of the range between idle and limit that a GPU draws, by what takes its time. */
static const double drawn[MAL_TIME_CAUSES] = {
    [MAL_TIME_MATMUL] = 1, [MAL_TIME_ATTENTION] = 0.95, [MAL_TIME_MEMORY] = 0.75,   [MAL_TIME_LAUNCH] = 0.2,
    [MAL_TIME_TP] = 0.5,   [MAL_TIME_CP] = 0.5,         [MAL_TIME_EP] = 0.5,        [MAL_TIME_DP] = 0.4,
    [MAL_TIME_PP] = 0.2,   [MAL_TIME_BUBBLE] = 0.15,    [MAL_TIME_OPTIMIZER] = 0.7, [MAL_TIME_OFFLOAD] = 0.15,
    [MAL_TIME_DATA] = 0.1, [MAL_TIME_CHECKPOINT] = 0.1, [MAL_TIME_JITTER] = 0.15};
static const double rest_of_node = 0.6; /* of what the node's rating leaves beside its GPUs */
static const double rest_if_unknown =
    0.45; /* of the GPUs' limits, where the node has no rating: DGX H100 has 4.6 of 5.6 kW, × 0.6 */
static const double idle_if_unknown = 0.12; /* of the limit */

double mal_power_w(const mal_machine *m, const double *time_s, double step_s) {
  double tdp = m->gpu->tdp_w.value, idle = m->gpu->idle_w.value > 0 ? m->gpu->idle_w.value : idle_if_unknown * tdp,
         busy = 0;
  for (int c = 0; c < MAL_TIME_CAUSES; c++) busy += drawn[c] * time_s[c];
  double gpus = (double)m->gpus_per_node, gpu_w = idle + (tdp - idle) * (step_s > 0 ? busy / step_s : 0);
  double rating = m->node->max_power_w.value, all = (double)m->node->gpus * tdp;
  double share =
      m->node->gpus > 0 ? gpus / (double)m->node->gpus : 1; /* of the rest, as cost counts a part of a node */
  double rest = rating > all ? share * rest_of_node * (rating - all) : rest_if_unknown * gpus * tdp;
  return (double)m->nodes * (gpus * gpu_w + rest);
}
