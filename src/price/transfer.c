/* How a group lies on the links, and one message between neighbours. */
#include "price/collective.h"

enum {
  NVLS_LEAST = 5
}; /* NCCL takes NVLS from 5 GPUs on H200 (stas00/ml-engineering, network/README.md: 4 run as a ring) */

/* Without peer-to-peer every byte goes to host memory and comes back: the GPU's link carries it once, but the copy is cut in
 * pieces that wait for one another, and both copies load the memory. Half of the peer-to-peer rate (NCCL's SHM transport). */
static const double through_host = 0.5;
static const double least_nic = 1.25e9; /* several nodes and no NIC named: 10 Gb/s Ethernet */

static double at_least(double x, double least) { return x > least ? x : least; }

static double pcie_rate(const mal_machine *m) {
  double rate = m->gpu->pcie_bytes_per_s.value * m->gpu->cal.pcie.value;
  if (m->gpu->p2p) return rate;
  double ram = m->node->ram_bytes_per_s.value / (2 * (double)m->gpus_per_node); /* written once, read once */
  rate *= through_host;
  return ram > 0 && ram < rate ? ram : rate;
}

mal_reach mal_group_reach(const mal_machine *m, const mal_group *g) {
  const mal_gpu *gpu = m->gpu;
  bool linked = gpu->nvlink_bytes_per_s.value > 0 && g->ranks_per_nvlink > 1;
  mal_reach r = {.size = g->size, .hop_s = gpu->cal.link_latency_s.value, .net_s = gpu->cal.net_latency_s.value};
  r.start_s = gpu->cal.launch_s.value;
  r.local = g->ranks_per_node > 1 ? g->ranks_per_node : 1;
  r.nvlink = linked && g->ranks_per_nvlink >= r.local; /* pairs joined by bridges meet the others over PCIe */
  r.domains = (g->size + r.local - 1) / r.local;
  double link = gpu->nvlink_bytes_per_s.value;
  if (r.nvlink && !m->node->nvlink_switch &&
      m->node->nvlink_domain > 1) /* direct links: only those between members count */
    link *= (double)(r.local - 1) / (double)(m->node->nvlink_domain - 1);
  r.inner = at_least(r.nvlink ? link * gpu->cal.nvlink.value : pcie_rate(m), 1);
  r.nvls = r.nvlink && m->node->nvlink_switch && gpu->cal.nvls.value > 0 && r.local >= NVLS_LEAST;
  r.nvls_link = link * gpu->cal.nvls.value * 9 / 14; /* the constant is busbw at n = 8: 2·7/8 over 1 + 1/8 */
  double nic = g->nic_share * m->node->nic_bytes_per_s.value * gpu->cal.nic.value;
  if (nic > pcie_rate(m) && !r.nvlink) nic = pcie_rate(m);
  r.nic = at_least(nic, least_nic / (double)(m->gpus_per_node > 0 ? m->gpus_per_node : 1));
  double over = m->fabric ? m->fabric->oversubscription.value : 1;
  r.nic_spread = over > 1 ? r.nic / over : r.nic;
  return r;
}

mal_collective_time mal_transfer_price(const mal_machine *m, const mal_group *g, double bytes) {
  mal_collective_time t = {.algorithm = MAL_ALG_DIRECT};
  if (g->size < 2) return t;
  mal_reach r = mal_group_reach(m, g);
  bool net = r.domains > 1;
  t.latency_s = r.start_s + (net ? r.net_s : r.hop_s);
  t.seconds = t.latency_s + bytes / (net ? r.nic : r.inner);
  t.inner_rate = r.inner, t.nic_rate = r.nic;
  t.busbw = bytes / t.seconds;
  if (net)
    t.nic_bytes = bytes;
  else if (r.nvlink)
    t.nvlink_bytes = bytes;
  else
    t.pcie_bytes = bytes;
  return t;
}
