#include "design/inference.h"
#include <math.h>

const double mal_serving_share = 0.9;
static const double cache_value_bytes = 2; /* bf16 */

/* --- sizes ----------------------------------------------------------------------------------------------------------- */

static double on_rank(const mal_weight *w, int64_t tp) {
  return (double)mal_weight_elements(w) / (w->split == MAL_SPLIT_NONE ? 1 : (double)tp);
}

/* Elements of a layer that one rank reads for `tokens` tokens at once: of experts those that any token meets. */
static double layer_elements(const mal_layer_kind *k, int64_t tp, double tokens) {
  double sum = 0, met = 1;
  if (k->mlp == MAL_MLP_MOE) met = 1 - pow(1 - (double)k->top_k / (double)k->experts, tokens);
  for (int i = 0; i < k->n_weights; i++) {
    const mal_weight *w = &k->weights[i];
    bool expert = w->role == MAL_W_EXPERT_UP || w->role == MAL_W_EXPERT_DOWN;
    sum += on_rank(w, tp) * (expert ? met : 1);
  }
  return sum;
}

static double model_elements(const mal_model *m, int64_t tp, double tokens, bool read) {
  double sum = 0;
  for (int64_t l = 0; l < m->layers; l++) sum += layer_elements(&m->kinds[m->kind_of[l]], tp, tokens);
  for (int i = 0; i < m->n_weights; i++) {
    bool looked_up = m->weights[i].role == MAL_W_EMBED || m->weights[i].role == MAL_W_POSITION;
    if (!read || !looked_up || m->tied_embeddings) sum += on_rank(&m->weights[i], tp);
  }
  return sum;
}

double mal_kv_token_bytes(const mal_model *m, int64_t tp, int64_t context, double value_bytes) {
  double sum = 0;
  for (int64_t l = 0; l < m->layers; l++) {
    const mal_layer_kind *k = &m->kinds[m->kind_of[l]];
    double heads = fmax(1, (double)k->kv_heads / (double)tp);
    double values =
        k->mixer == MAL_MLA ? (double)(k->kv_lora_rank + k->rope_dim) : heads * (double)(k->head_dim + k->v_head_dim);
    double kept = k->window > 0 && k->window < context ? (double)k->window / (double)context : 1;
    sum += values * kept * value_bytes;
  }
  return sum;
}

/* Elements that one token is multiplied with: all active ones but a table that is only looked up. */
static double multiplied(const mal_model *m) {
  double sum = (double)m->active_parameters;
  for (int i = 0; i < m->n_weights; i++)
    if (m->weights[i].role == MAL_W_POSITION || (m->weights[i].role == MAL_W_EMBED && !m->tied_embeddings))
      sum -= (double)mal_weight_elements(&m->weights[i]);
  return sum;
}

/* Scores and their product with the values, of one token against `context` others, all layers, one rank. */
static double attention_flops(const mal_model *m, int64_t tp, double context) {
  double sum = 0;
  for (int64_t l = 0; l < m->layers; l++) {
    const mal_layer_kind *k = &m->kinds[m->kind_of[l]];
    double seen = k->window > 0 ? fmin(context, (double)k->window) : context;
    sum += 2 * seen * (double)k->heads * (double)(k->head_dim + k->v_head_dim) / (double)tp;
  }
  return sum;
}

/* --- rates ----------------------------------------------------------------------------------------------------------- */

typedef struct served {
  const mal_machine *machine;
  const mal_model *model;
  int64_t context;
  const mal_serving *row;
} served;

/* Two all-reduces a layer of `tokens` activations in bf16, by a kernel made for small messages: two latencies each, which nothing
 * hides, and each byte over the GPU's link (NVLink, else PCIe) by the ring's count, which other tokens' work may hide. */
typedef struct traffic {
  double latency_s, bytes_s;
} traffic;

static traffic traffic_of(const served *s, double tokens) {
  const mal_gpu *g = s->machine->gpu;
  double gpus = (double)s->row->tp, bytes = tokens * (double)s->model->hidden * 2;
  bool linked = s->machine->node->nvlink_domain >= s->row->tp && g->nvlink_bytes_per_s.value > 0;
  double link = linked ? g->nvlink_bytes_per_s.value : g->pcie_bytes_per_s.value;
  if (s->row->tp < 2 || link <= 0) return (traffic){0, 0};
  double times = 2 * (double)s->model->layers;
  return (traffic){times * 2 * g->cal.link_latency_s.lo, times * 2 * (gpus - 1) / gpus * bytes / link};
}

static double step_s(const served *s, double sequences, const char **bound) {
  const mal_serving *r = s->row;
  const mal_gpu *g = s->machine->gpu;
  double bytes = model_elements(s->model, r->tp, sequences, true) * mal_dtype_bytes[r->type] +
                 sequences * (double)s->context * r->kv_token_bytes;
  double flops =
      sequences * (2 * multiplied(s->model) / (double)r->tp + attention_flops(s->model, r->tp, (double)s->context));
  double memory = bytes / g->memory_bytes_per_s.value, compute = flops / g->flops[r->type].value;
  traffic t = traffic_of(s, sequences);
  double work = fmax(memory, compute);
  if (bound)
    *bound = t.latency_s > work || t.bytes_s > work ? N_("traffic") : memory > compute ? N_("memory") : N_("compute");
  return fmax(work, t.bytes_s) + t.latency_s;
}

static double prefill_rate(const served *s) {
  const mal_serving *r = s->row;
  double tokens = (double)s->context;
  double flops = tokens * (2 * multiplied(s->model) / (double)r->tp + attention_flops(s->model, r->tp, tokens / 2));
  traffic t = traffic_of(s, tokens);
  return tokens / (fmax(flops / s->machine->gpu->flops[r->type].value, t.bytes_s) + t.latency_s);
}

static mal_serving serve(const mal_machine *machine, const mal_model *m, int64_t context, int64_t tp, int type) {
  double memory = machine->gpu->memory_bytes.value, gpus = (double)tp;
  mal_serving r = {.tp = tp, .type = type, .replicas = machine->node->gpus / tp};
  r.weight_bytes = model_elements(m, tp, INFINITY, false) * mal_dtype_bytes[type];
  r.kv_token_bytes = mal_kv_token_bytes(m, tp, context, cache_value_bytes);
  r.kv_bytes = fmax(0, mal_serving_share * memory - r.weight_bytes) * gpus;
  r.kv_bytes_tgi = fmax(0, memory - r.weight_bytes) * gpus;
  r.tokens = (int64_t)(r.kv_bytes / gpus / r.kv_token_bytes);
  r.sequences = r.tokens / context;
  r.fits = r.sequences >= 1;
  if (!r.fits) return r;
  served s = {machine, m, context, &r};
  r.one_tokens_per_s = 1 / step_s(&s, 1, NULL);
  r.most_tokens_per_s = (double)r.sequences / step_s(&s, (double)r.sequences, &r.bound);
  r.prefill_tokens_per_s = prefill_rate(&s);
  return r;
}

int mal_serving_list(const mal_machine *machine, const mal_model *m, int64_t context, mal_serving *list) {
  static const int types[] = {MAL_BF16, MAL_F8};
  int n = 0;
  for (int t = 0; t < 2; t++)
    for (int64_t tp = 1; tp <= machine->node->gpus && n < MAL_SERVING_MOST; tp *= 2)
      if (machine->gpu->flops[types[t]].value > 0 && m->kinds[0].heads % tp == 0)
        list[n++] = serve(machine, m, context, tp, types[t]);
  return n;
}
