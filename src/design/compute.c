#include "design/compute.h"
#include <math.h>

const char *const mal_need_name[] = {N_("cores"), N_("memory"), N_("drives"), NULL};

/* Judgement, all of it, from what loaders of PyTorch are commonly given: workers a GPU by kind of data; memory of one worker
 * with what it fetched ahead; pinned buffers of one GPU's process; memory and cores of the system and its daemons; how long the
 * page cache should hold what was read. */
static const int64_t workers[MAL_DATA_LEVELS] = {4, 8, 10};
static const double worker_bytes[MAL_DATA_LEVELS] = {1e9, 2e9, 4e9};
static const double pinned_bytes = 4e9, system_bytes = 32e9, cache_s = 10;
static const int64_t process_cores = 2, system_cores = 8; /* of a GPU: its process and NCCL's proxy */
static const double staged_checkpoints = 2;               /* on drives: the last whole one and the one being written */
static const double direct_share = 0.1; /* of memory bandwidth, from which on reading should go around it */
enum { DEVICE_LANES = 16, DRIVE_LANES = 4 };

static void part(mal_need *n, const char *name, double amount) {
  if (amount <= 0 || n->n_parts >= MAL_NEED_PARTS) return;
  n->parts[n->n_parts].name = name;
  n->parts[n->n_parts++].amount = amount;
  n->needed += amount;
}

static void count_needs(const mal_machine *m, const mal_compute_ask *k, mal_compute *c) {
  const mal_node *n = m->node;
  double gpus = (double)n->gpus, staged = k->checkpoint_bytes / (double)k->nodes;
  mal_need *cores = &c->needs[MAL_NEED_CORES], *ram = &c->needs[MAL_NEED_RAM], *nvme = &c->needs[MAL_NEED_NVME];
  cores->has = n->cpu_cores.value, ram->has = n->ram_bytes.value, nvme->has = n->nvme_bytes.value;
  part(cores, N_("data loading"), gpus * (double)workers[k->level]);
  part(cores, N_("processes of GPUs"), gpus * (double)process_cores);
  part(cores, N_("system"), (double)system_cores);
  part(ram, N_("pinned buffers"), gpus * pinned_bytes);
  part(ram, N_("data loading"), gpus * (double)workers[k->level] * worker_bytes[k->level]);
  part(ram, N_("checkpoint on its way"), staged);
  part(ram, N_("offloaded states"), k->offload_bytes);
  part(ram, N_("page cache"), k->node_read_bytes_per_s * cache_s);
  part(ram, N_("system"), system_bytes);
  part(nvme, N_("share of the dataset"), k->dataset_bytes / (double)k->nodes);
  part(nvme, N_("two checkpoints, staged"), staged_checkpoints * staged);
}

static void judge_lanes(const mal_machine *m, const mal_chassis *h, mal_compute *c) {
  c->lane_bytes_per_s = m->gpu->pcie_bytes_per_s.value / DEVICE_LANES;
  c->nic_bytes_per_s = m->node->nic_bytes_per_s.value;
  c->nic_slot_bytes_per_s = c->lane_bytes_per_s * DEVICE_LANES;
  c->copy_bytes_per_s = (double)m->node->gpus * m->gpu->pcie_bytes_per_s.value;
  c->pcie_known = h->pcie_switches.value > 0 && h->switch_up_lanes.value > 0;
  if (!c->pcie_known) return;
  c->switches = (int64_t)h->pcie_switches.value;
  c->gpus = (int64_t)h->switch_gpus.value, c->nics = (int64_t)h->switch_nics.value;
  c->drives = h->switch_drives.value > 0 ? (int64_t)h->switch_drives.value : -1;
  c->lanes_down = (double)(DEVICE_LANES * (c->gpus + c->nics)) + DRIVE_LANES * fmax(0, (double)c->drives);
  c->lanes_up = h->switch_up_lanes.value;
  c->copy_bytes_per_s = fmin(c->copy_bytes_per_s, (double)c->switches * c->lanes_up * c->lane_bytes_per_s);
}

void mal_compute_make(const mal_machine *m, const mal_chassis *h, const mal_compute_ask *ask, mal_compute *c) {
  *c = (mal_compute){.ask = *ask};
  count_needs(m, ask, c);
  judge_lanes(m, h, c);
  double memory = m->node->ram_bytes_per_s.value;
  c->memory_share = memory > 0 ? 2 * ask->node_read_bytes_per_s / memory : 0;
  c->direct_storage = c->memory_share > direct_share;
}
