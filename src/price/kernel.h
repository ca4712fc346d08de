/* Inside price: the time of single kernels.
 *
 * Product (MATMUL): t = max(2·m·n·k·batch / rate, operand bytes / memory rate) + start,
 *   rate = dense peak of the type × largest share a product reaches (calibration) × tiles × ramp × alignment × clock.
 *   tiles: share of the tiles' area that is inside the matrix, times the share of the last wave of tiles over the SMs that is busy
 *     (NVIDIA, "Matrix multiplication background", sections 3.2 and 3.3), for the best of a few tile shapes, k cut where that helps;
 *   ramp: k / (k + k_half), the pipeline of loads filling and draining once per tile;
 *   alignment: rows that are not a multiple of 16 bytes load in smaller pieces (same guide, section 2.1);
 *   sums: a weight gradient added to earlier ones reads and writes the sum beside; half of it is seen;
 *   clock: a product that keeps the tensor cores busy runs into the power limit: 1 - CLOCK_SPAN × clock_power × (how busy).
 * Attention: FLOPs of the opcode table / (dense peak × kernel's share, × attention_backward for the gradient), with a ramp in
 *   head size (the softmax costs the same for every size: d / (d + 32), 1 at 128) and in length (256 tokens, 1 at 4096), as the
 *   curves of FlashAttention-2 (arXiv 2307.08691, figures 4 to 6) have them.
 * Everything else reads and writes memory: operand bytes × the profile's memory_pass / memory rate + start. */
#ifndef MAL_PRICE_KERNEL_H
#define MAL_PRICE_KERNEL_H
#include "price/price.h"

double mal_product_time(const mal_plan *plan, const mal_block *b, const mal_instruction *i);
double mal_attention_time(const mal_plan *plan, const mal_instruction *i, const mal_sizes *s, double bytes);
/* A collective, an exchange between neighbours (SEND), a RECV (0: the SEND carries it). */
mal_collective_time mal_communication_time(const mal_plan *plan, const mal_instruction *i, const mal_sizes *s);
double mal_memory_rate(const mal_machine *m); /* bytes/s that streaming kernels reach */
double mal_gemm_peak(const mal_gpu *g, mal_dtype type,
                     double *share); /* dense FLOP/s of the type that the hardware multiplies */
int mal_instruction_kernels(const mal_plan *plan, const mal_instruction *i, const mal_sizes *s);
double mal_host_time(const mal_plan *plan, double kernels); /* of the host to issue them; 0 in a CUDA graph */
double mal_pcie_copy_rate(const mal_machine *m); /* bytes/s of pinned copies over one GPU's PCIe link alone */
double mal_host_copy_rate(const mal_machine *m); /* bytes/s between one GPU and pinned host memory, all GPUs at it */
bool mal_is_communication(const mal_instruction *i);
bool mal_block_has_experts(const mal_plan *plan, const mal_block *b);
#endif
