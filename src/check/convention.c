#include "check/convention.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct convention {
  bool recomputation; /* executed FLOPs: a fully recomputed layer runs forward twice, 4/3 */
  bool halved;        /* causal attention at half */
  bool no_attention;  /* multiples of N alone, the embedding table included */
  double per_weight;  /* 6: forward 2, backward 4; LoRA 4 */
} convention;

static convention read_convention(const mal_trial *t) {
  const char *text = t->flops_convention;
  convention c = {.per_weight = 6};
  c.recomputation = strcasestr(text, "hardware FLOPs") || strstr(text, "x4/3");
  c.halved = strcasestr(text, "causal-halved") && !strcasestr(text, "not causal-halved");
  /* Megatron-Core's own counter, megatron/training/training.py: half from 2025-03 (8873b55d6a) on, whole in 2024. */
  if (strcasestr(text, "Megatron-Core FLOPs formula")) c.halved = atoi(t->year) >= 2025;
  c.no_attention = strcasestr(text, "attention excluded") != NULL;
  if (strstr(text, "4N ") || strstr(text, "x 2/3")) c.per_weight = 4;
  return c;
}

double mal_convention_flops(const mal_row *row) {
  const mal_model *m = &row->plan->model;
  const mal_job *job = &row->plan->job;
  convention c = read_convention(row->trial);
  double tokens = (double)job->global_batch * (double)job->seq;
  if (c.no_attention) return c.per_weight * (double)m->active_parameters * tokens;
  double layers = 0;
  for (int64_t l = 0; l < m->layers; l++) {
    const mal_layer_kind *k = &m->kinds[m->kind_of[l]];
    double core =
        (double)k->heads * (double)(k->head_dim + k->v_head_dim) * (double)job->seq; /* QK' and AV, forward 2 */
    layers += c.per_weight * (double)k->active_parameters + c.per_weight * core * (c.halved ? 0.5 : 1);
  }
  if (c.recomputation && row->plan->layout.recompute == MAL_RECOMPUTE_FULL) layers *= 4.0 / 3;
  return tokens * (layers + c.per_weight * (double)m->hidden * (double)m->vocab);
}

/* "MFU in BF16 vs 989.5 TF": the one peak that a convention names, FLOP/s; 0: none, or one for each precision. */
static double named_peak(const char *text) {
  for (const char *p = text; (p = strstr(p, " TF")); p++) {
    const char *start = p;
    while (start > text && (isdigit((unsigned char)start[-1]) || start[-1] == '.')) start--;
    if (start < p && !strchr(text, '/')) return strtod(start, NULL) * 1e12;
  }
  return 0;
}

/* What an MFU divides by: the named peak, else that of the row's products, BF16 where the convention says so. */
static double mfu_peak(const mal_row *row) {
  const char *text = row->trial->flops_convention;
  double peak = named_peak(text);
  const mal_gpu *gpu = row->plan->machine.gpu;
  mal_dtype type = strcasestr(text, "BF16") ? MAL_BF16 : mal_precision_gemm((mal_precision)row->plan->job.precision);
  return peak > 0 ? peak : gpu->flops[type].value > 0 ? gpu->flops[type].value : gpu->flops[MAL_BF16].value;
}

bool mal_measured_by_flops(const mal_row *row, double *seconds) {
  const mal_trial *t = row->trial;
  double rate = t->flops_per_gpu;
  if (!(rate > 0)) rate = t->mfu * mfu_peak(row);
  if (!(rate > 0)) return false;
  *seconds = mal_convention_flops(row) / (rate * (double)t->gpus);
  return true;
}

bool mal_measured_step(const mal_row *row, double *seconds, const char **from) {
  const mal_trial *t = row->trial;
  double tokens = (double)t->global_batch * (double)t->seq;
  if (t->step_s > 0) {
    *seconds = t->step_s;
    *from = "step_time_s";
  } else if (t->tokens_per_s > 0) {
    *seconds = tokens / t->tokens_per_s;
    *from = "tokens_per_s_total";
  } else if (t->tokens_per_s_per_gpu > 0) {
    *seconds = tokens / (t->tokens_per_s_per_gpu * (double)t->gpus);
    *from = "tokens_per_s_per_gpu";
  } else if (mal_measured_by_flops(row, seconds)) {
    *from = t->flops_per_gpu > 0 ? "tflops_per_gpu_reported" : "mfu_reported";
  } else {
    return false;
  }
  return true;
}
