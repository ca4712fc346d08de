#include "price/expected.h"

double mal_expected_busbw(const mal_machine *m, mal_collective c, int64_t ranks, int64_t nodes, double bytes) {
  mal_machine part = *m;
  mal_layout l;
  mal_layout_default(&l);
  part.nodes = nodes;
  part.gpus_per_node = ranks / nodes;
  l.dp = ranks;
  l.etp = 1;
  mal_group g = mal_layout_group(&l, &part, 1u << MAL_AXIS_DP);
  return mal_collective_price(&part, &g, c, bytes).busbw;
}

void mal_machine_at_best(mal_arena *a, mal_machine *m) {
  mal_gpu *gpu = MAL_NEW(a, mal_gpu);
  mal_node *node = MAL_NEW(a, mal_node);
  *gpu = *m->gpu, *node = *m->node;
  m->gpu = gpu, m->node = node;
  mal_fitted *reached[] = {&gpu->cal.nvlink, &gpu->cal.nvls, &gpu->cal.pcie, &gpu->cal.nic};
  for (size_t i = 0; i < sizeof reached / sizeof *reached; i++) reached[i]->value = reached[i]->hi;
  gpu->cal.link_latency_s.value = gpu->cal.link_latency_s.lo;
  gpu->cal.net_latency_s.value = gpu->cal.net_latency_s.lo;
}
