#include "price/kernel.h"
#include <math.h>

static const double clock_span =
    0.08; /* no source: how much of the rate clock_power = 1 takes from a product that fills the GPU */

/* A weight gradient is added to the sum of earlier micro-batches after each tile's products: half of that traffic is not hidden by
 * other tiles (judgement; published runs with one sequence a micro-batch want it). */
static const double sum_seen = 0.5;

static double up(double x, double step) { return ceil(x / step) * step; }

double mal_memory_rate(const mal_machine *m) { return m->gpu->memory_bytes_per_s.value * m->gpu->cal.memory.value; }

double mal_gemm_peak(const mal_gpu *g, mal_dtype type, double *share) {
  mal_dtype hardware = type; /* a type without hardware is computed in the next wider one */
  if (hardware == MAL_F4 && g->flops[MAL_F4].value <= 0) hardware = MAL_F8;
  if (hardware == MAL_F8 && g->flops[MAL_F8].value <= 0) hardware = MAL_BF16;
  if (hardware == MAL_BF16 && g->flops[MAL_BF16].value <= 0) hardware = MAL_F16;
  if (hardware == MAL_TF32 && g->flops[MAL_TF32].value <= 0) hardware = MAL_F32;
  const mal_fitted *constant = hardware == MAL_F4                            ? &g->cal.gemm_fp4
                               : hardware == MAL_F8                          ? &g->cal.gemm_fp8
                               : hardware == MAL_F32 || hardware == MAL_TF32 ? &g->cal.gemm_fp32
                                                                             : &g->cal.gemm_bf16;
  *share = constant->value > 0 ? constant->value : 0.5;
  return g->flops[hardware].value > 0 ? g->flops[hardware].value : g->flops[MAL_F32].value;
}

/* Largest power of two of elements, up to 16 bytes, that divides a row. */
static double alignment(double bytes, int64_t elements) {
  double row = (double)(elements & -elements) * bytes;
  return row >= 16 ? 1 : row >= 8 ? 0.7 : row >= 4 ? 0.55 : 0.45;
}

static double worst_alignment(const mal_instruction *i, const mal_sizes *s) {
  double bytes = mal_dtype_bytes[i->dtype];
  double worst = fmin(alignment(bytes, s->v[1]), alignment(bytes, s->v[2]));
  return i->flags & MAL_INS_TRANSPOSE_A ? fmin(worst, alignment(bytes, s->v[0])) : worst;
}

/* Share of the SMs' time that tiles fill. A large tile has less traffic per FLOP: the small ones are slower by themselves. */
static double tiles(double m, double n, double k, double batch, double sms) {
  static const struct {
    double m, n, rate;
  } shape[] = {{256, 128, 1}, {128, 256, 1}, {128, 128, 0.95}, {64, 128, 0.85}, {128, 64, 0.85}, {64, 64, 0.7}};
  double best = 0;
  for (size_t t = 0; t < sizeof shape / sizeof *shape; t++) {
    double covered = up(m, shape[t].m) * up(n, shape[t].n), count = covered / (shape[t].m * shape[t].n) * batch;
    double fill = shape[t].rate * m * n / covered;
    if (fill <= best) continue;
    double wave = count / up(count, sms);
    for (double cut = 2; cut <= 8 && wave < 0.9 && k / cut >= 512; cut *= 2) /* k cut: partial sums cost a pass */
      wave = fmax(wave, 0.95 * count * cut / up(count * cut, sms));
    best = fmax(best, fill * wave);
  }
  return best;
}

/* The batched products of an unfused attention core: the constant is measured on such, so neither ramp nor waves apply. */
static double core_rate(const mal_gpu *g, double peak, const mal_sizes *s) {
  double m = (double)s->v[0], n = (double)s->v[1], k = (double)s->v[2];
  double fill = m / up(m, 64) * (n / up(n, 64)) * (k / up(k, 32));
  return peak * g->cal.attention[MAL_ATT_UNFUSED].value * fill;
}

double mal_product_time(const mal_plan *plan, const mal_block *b, const mal_instruction *i) {
  const mal_sizes *s = &b->sizes[i->sizes];
  double bytes = mal_instruction_bytes(b, i);
  const mal_gpu *g = plan->machine.gpu;
  double m = (double)s->v[0], n = (double)s->v[1], k = (double)s->v[2], batch = (double)(s->v[3] > 0 ? s->v[3] : 1),
         rate;
  if (m < 1 || n < 1 || k < 1) return 0;
  double share, peak = mal_gemm_peak(g, i->dtype, &share);
  if (batch > 1 && !(i->flags & MAL_INS_GROUPED)) {
    rate = core_rate(g, peak, s);
  } else {
    double busy = tiles(m, n, k, batch, g->sms.value > 0 ? g->sms.value : 1) * k / (k + g->cal.gemm_k_half.value);
    rate = peak * share * busy * (1 - clock_span * g->cal.clock_power.value * busy);
  }
  rate *= worst_alignment(i, s);
  bool sums = i->flags & MAL_INS_ACCUMULATE && i->flags & MAL_INS_WEIGHT_GRAD;
  double read_and_written = sums ? 2 * (double)b->buffers[i->out[0]].bytes : 0;
  double seen = sum_seen * read_and_written / mal_memory_rate(&plan->machine);
  return fmax(2 * m * n * k * batch / rate, bytes / mal_memory_rate(&plan->machine)) + seen + g->cal.launch_s.value;
}

/* Twice the products, the same exponentials: FlashAttention-3 in fp8 over fp16, forward, head of 128 (arXiv 2407.08608, figure 7:
 * up to 1.2 PFLOP/s over 740 TFLOP/s). */
static const double fp8_core = 1.5;

static mal_attention_kernel attention_kernel(const mal_plan *plan) {
  int kernel = plan->layout.attention >= 0 ? plan->layout.attention : plan->profile->attention;
  return kernel >= 0 && kernel < MAL_ATT_KERNELS ? (mal_attention_kernel)kernel : MAL_ATT_FLASH2;
}

/* Activations are fp32 under tf32 and fp32 alike; only the first lets the core's products round them. */
static mal_dtype core_type(const mal_plan *plan, const mal_instruction *i) {
  if (i->dtype != MAL_F32) return MAL_BF16;
  return plan->job.precision == MAL_P_FP32 ? MAL_F32 : MAL_TF32;
}

double mal_attention_time(const mal_plan *plan, const mal_instruction *i, const mal_sizes *s, double bytes) {
  const mal_gpu *g = plan->machine.gpu;
  double unused, peak = mal_gemm_peak(g, core_type(plan, i), &unused); /* the core stays 16-bit under fp8, */
  if (i->flags & MAL_INS_LOW_CORE) peak *= fp8_core;                   /* unless the framework says otherwise */
  double share = g->cal.attention[attention_kernel(plan)].value;
  if (share <= 0) share = g->cal.attention[MAL_ATT_UNFUSED].value;
  if (i->flags & MAL_INS_GRAD) share *= g->cal.attention_backward.value;
  double head = (double)s->v[5], length = (double)s->v[2], window = (double)s->v[7];
  if (window > 0 && window < length) length = window;
  double by_head = head / (head + 32) / (128.0 / 160) * (head / up(head, 8));
  double by_length = length / (length + 256) / (4096.0 / 4352);
  double blocks = (double)(s->v[0] * s->v[3]) * ceil((double)s->v[1] / 128); /* a block of queries keeps one SM */
  double busy = blocks / (blocks + g->sms.value / 4);
  double rate = peak * share * by_head * by_length * busy;
  return fmax(mal_ops[i->op].flops(i, s) / rate, bytes / mal_memory_rate(&plan->machine)) + g->cal.launch_s.value;
}
