#include "price/kernel.h"
#include "program/lower_block.h"
#include <math.h>
#include <string.h>

static const double host_copy =
    0.88; /* pinned copies reach .87 to .88 of x16 (nvbandwidth on H200, stas00/ml-engineering) */
/* CPU Adam with AVX streams its states at most at what memory gives; DeepSpeed's reaches about half (arXiv 2101.06840, table 4). */
static const double host_memory = 0.5;

bool mal_is_communication(const mal_instruction *i) {
  return i->op == MAL_OP_COLLECTIVE || i->op == MAL_OP_SEND || i->op == MAL_OP_RECV;
}

mal_collective_time mal_communication_time(const mal_plan *plan, const mal_instruction *i, const mal_sizes *s) {
  if (i->op == MAL_OP_RECV) return (mal_collective_time){0};
  mal_group g = mal_instruction_group(plan, i->axes);
  double bytes = (double)s->v[0];
  if (i->op == MAL_OP_SEND) return mal_transfer_price(&plan->machine, &g, bytes);
  return mal_collective_price(&plan->machine, &g, (mal_collective)i->variant, bytes);
}

static double least_of(double a, double b) { return b > 0 && b < a ? b : a; }

double mal_pcie_copy_rate(const mal_machine *m) { return m->gpu->pcie_bytes_per_s.value * host_copy; }

double mal_host_copy_rate(const mal_machine *m) {
  return least_of(mal_pcie_copy_rate(m), m->node->ram_bytes_per_s.value / (double)m->gpus_per_node);
}

/* Device, host and drives; the GPUs of a node share host memory and drives. */
static double copy_time(const mal_machine *m, const mal_instruction *i, double bytes) {
  mal_place from = (mal_place)(i->variant >> 4), to = (mal_place)(i->variant & 15);
  double share = (double)m->gpus_per_node;
  if (from == MAL_DEVICE && to == MAL_DEVICE) return 2 * bytes / mal_memory_rate(m) + m->gpu->cal.launch_s.value;
  double rate = mal_host_copy_rate(m);
  if (from != MAL_DEVICE && to != MAL_DEVICE)
    rate = m->node->ram_bytes_per_s.value > 0 ? m->node->ram_bytes_per_s.value / share : rate;
  if (from == MAL_NVME) rate = least_of(rate, m->node->nvme_read_bytes_per_s.value / share);
  if (to == MAL_NVME) rate = least_of(rate, m->node->nvme_write_bytes_per_s.value / share);
  return bytes / rate + m->gpu->cal.launch_s.value;
}

static bool on_host(const mal_block *b, const mal_instruction *i) {
  for (int k = 0; k < MAL_INPUTS; k++)
    if (i->in[k] != MAL_NO_BUFFER && b->buffers[i->in[k]].place != MAL_DEVICE) return true;
  for (int k = 0; k < MAL_OUTPUTS; k++)
    if (i->out[k] != MAL_NO_BUFFER && b->buffers[i->out[k]].place != MAL_DEVICE) return true;
  return false;
}

static double host_time(const mal_machine *m, double bytes) {
  double rate = m->node->ram_bytes_per_s.value / (double)m->gpus_per_node;
  return bytes / (host_memory * (rate > 0 ? rate : m->gpu->pcie_bytes_per_s.value));
}

bool mal_block_has_experts(const mal_plan *plan, const mal_block *b) {
  return b->kind < plan->model.n_kinds && plan->model.kinds[b->kind].mlp == MAL_MLP_MOE;
}

static double memory_time(const mal_plan *plan, const mal_block *b, const mal_instruction *i) {
  const mal_machine *m = &plan->machine;
  double bytes = mal_instruction_bytes(b, i), moved = (double)mal_moved_bytes(i, &b->sizes[i->sizes]);
  if (on_host(b, i)) return host_time(m, bytes);
  if (moved > 0) bytes = moved;
  if (i->flags & MAL_INS_INSIDE) bytes = 0;
  if (i->cause != MAL_TIME_OPTIMIZER)
    bytes *= plan->profile->memory_pass.value; /* an optimizer's kernels take many tensors */
  return bytes / mal_memory_rate(m) + m->gpu->cal.launch_s.value;
}

/* Kernels that frameworks start for one instruction. Flash backward: preprocess, main, convert. Grouped products: Transformer
 * Engine's GroupedLinear starts one product an expert from C++ (transformer_engine/common/gemm/cublaslt_gemm.cu,
 * nvte_multi_stream_cublas_gemm), at about half of what an operator started from Python costs; low precision casts each
 * expert's rows by themselves (fp8: maximum, scale, cast; blocks of scales: cast, and a swizzle of the scales of both operands). */
static double kernels_per_expert(const mal_plan *plan, const mal_instruction *i) {
  if (i->dtype != MAL_F8 && i->dtype != MAL_F4) return 0.5;
  return plan->job.precision == MAL_P_FP8 ? 1.5 : 4;
}

int mal_instruction_kernels(const mal_plan *plan, const mal_instruction *i, const mal_sizes *s) {
  bool grad = i->flags & MAL_INS_GRAD;
  switch (i->op) {
  case MAL_OP_MATMUL: return i->flags & MAL_INS_GROUPED ? 1 + (int)((double)s->v[3] * kernels_per_expert(plan, i)) : 1;
  case MAL_OP_ATTENTION: return grad ? 3 : 1;
  case MAL_OP_NORM: return grad ? 2 : 1;
  case MAL_OP_SOFTMAX: return mal_moved_bytes(i, s) ? 6 : 1; /* scale, mask, cast, softmax, cast back, copies */
  case MAL_OP_ROUTE: return 4;
  case MAL_OP_PERMUTE: return 2;
  case MAL_OP_RECV: return 0;
  default: return 1;
  }
}

double mal_host_time(const mal_plan *plan, double kernels) {
  if (plan->profile->launch == MAL_LAUNCH_GRAPH) return 0;
  double speed = plan->machine.node->host_speed.value;
  return kernels * plan->profile->host_s_per_kernel.value / (speed > 0 ? speed : 1);
}

double mal_price_instruction(const mal_plan *plan, const mal_block *b, const mal_instruction *i, double *host_s) {
  const mal_sizes *s = &b->sizes[i->sizes];
  if (host_s) *host_s = mal_host_time(plan, mal_instruction_kernels(plan, i, s));
  switch (i->op) {
  case MAL_OP_MATMUL: return mal_product_time(plan, b, i);
  case MAL_OP_ATTENTION: return mal_attention_time(plan, i, s, mal_instruction_bytes(b, i));
  case MAL_OP_COLLECTIVE:
  case MAL_OP_SEND:
  case MAL_OP_RECV: return mal_communication_time(plan, i, s).seconds;
  case MAL_OP_COPY: return copy_time(&plan->machine, i, (double)s->v[0]);
  default: return memory_time(plan, b, i);
  }
}
