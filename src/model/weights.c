#include "model/family.h"
#include <assert.h>

static mal_weight *add(mal_reader *r, mal_weight_role role, mal_split split, const char *name, const char *ending) {
  assert(r->n_list < MAL_MAX_WEIGHTS);
  mal_weight *w = &r->list[r->n_list++];
  *w = (mal_weight){.name = mal_print(r->a, "%s%s%s", r->prefix, name, ending),
                    .role = role,
                    .split = split,
                    .shape = {1, 1, 1},
                    .rank = 1,
                    .copies = 1};
  return w;
}

void mal_put(mal_reader *r, mal_weight_role role, mal_split split, const char *name, int64_t out, int64_t in) {
  mal_weight *w = add(r, role, split, name, ".weight");
  w->shape[0] = out;
  w->shape[1] = in;
  w->rank = 2;
  w->decay = true;
  w->transposed = r->transposed;
}

void mal_put_vector(mal_reader *r, mal_weight_role role, mal_split split, const char *name, int64_t n) {
  add(r, role, split, name, "")->shape[0] = n;
}

void mal_put_linear(mal_reader *r, mal_weight_role role, mal_split split, const char *name, int64_t out, int64_t in,
                    bool bias) {
  mal_put(r, role, split, name, out, in);
  if (bias) add(r, role, split == MAL_SPLIT_IN ? MAL_SPLIT_NONE : split, name, ".bias")->shape[0] = out;
}

void mal_put_norm(mal_reader *r, mal_weight_role role, const char *name, int64_t n, bool bias) {
  add(r, role, MAL_SPLIT_NONE, name, ".weight")->shape[0] = n;
  if (bias) add(r, role, MAL_SPLIT_NONE, name, ".bias")->shape[0] = n;
}

/* Marks what was put since `from` as fused or as one tensor per expert. */
static void mark(mal_reader *r, int from, mal_fused fused, int64_t copies) {
  for (int i = from; i < r->n_list; i++) {
    r->list[i].fused = fused;
    r->list[i].copies = copies;
  }
}

void mal_put_norms(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *k) {
  for (int i = 0; i < k->norms; i++) mal_put_norm(r, MAL_W_NORM, n->norms[i], r->m->hidden, n->norm_bias);
}

static void put_qk_norm(mal_reader *r, const mal_layer_names *n, const char *name, int64_t heads, int64_t head_dim) {
  if (n->qk_norm_wide)
    add(r, MAL_W_NORM, MAL_SPLIT_OUT, name, ".weight")->shape[0] = heads * head_dim;
  else
    add(r, MAL_W_NORM, MAL_SPLIT_NONE, name, ".weight")->shape[0] = head_dim;
}

static void put_attention(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *k) {
  int64_t h = r->m->hidden, q = k->heads * k->head_dim, kv = k->kv_heads * k->head_dim;
  if (n->qkv) {
    int from = r->n_list;
    mal_put_linear(r, MAL_W_QKV, MAL_SPLIT_OUT, n->qkv, q + 2 * kv, h, k->qkv_bias);
    mark(r, from, n->fused_qkv, 1);
  } else {
    mal_put_linear(r, MAL_W_QKV, MAL_SPLIT_OUT, n->q, q, h, k->qkv_bias);
    mal_put_linear(r, MAL_W_QKV, MAL_SPLIT_OUT, n->k, kv, h, k->qkv_bias);
    mal_put_linear(r, MAL_W_QKV, MAL_SPLIT_OUT, n->v, kv, h, k->qkv_bias);
  }
  if (k->qk_norm) {
    put_qk_norm(r, n, n->q_norm, k->heads, k->head_dim);
    put_qk_norm(r, n, n->k_norm, k->kv_heads, k->head_dim);
  }
  mal_put_linear(r, MAL_W_OUT, MAL_SPLIT_IN, n->out, h, q, k->out_bias);
  if (n->sinks) mal_put_vector(r, MAL_W_BUFFER, MAL_SPLIT_NONE, n->sinks, k->heads);
}

static void put_dense(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *k) {
  int64_t h = r->m->hidden;
  if (k->gated && n->gate_up) {
    int from = r->n_list;
    mal_put_linear(r, MAL_W_UP, MAL_SPLIT_OUT, n->gate_up, 2 * k->ffn, h, k->mlp_bias);
    mark(r, from, MAL_FUSED_BLOCKS, 1);
  } else {
    if (k->gated) mal_put_linear(r, MAL_W_UP, MAL_SPLIT_OUT, n->gate, k->ffn, h, k->mlp_bias);
    mal_put_linear(r, MAL_W_UP, MAL_SPLIT_OUT, n->up, k->ffn, h, k->mlp_bias);
  }
  mal_put_linear(r, MAL_W_DOWN, MAL_SPLIT_IN, n->down, h, k->ffn, k->mlp_bias);
}

static void put_shared(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *k) {
  int64_t h = r->m->hidden;
  if (k->gated) mal_put(r, MAL_W_SHARED_UP, MAL_SPLIT_OUT, n->shared_gate, k->shared_ffn, h);
  mal_put(r, MAL_W_SHARED_UP, MAL_SPLIT_OUT, n->shared_up, k->shared_ffn, h);
  mal_put(r, MAL_W_SHARED_DOWN, MAL_SPLIT_IN, n->shared_down, h, k->shared_ffn);
  if (k->shared_gate) mal_put(r, MAL_W_SHARED_GATE, MAL_SPLIT_NONE, n->shared_mix, 1, h);
}

static void put_experts(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *k) {
  int64_t h = r->m->hidden;
  mal_put_linear(r, MAL_W_ROUTER, MAL_SPLIT_NONE, n->router, k->experts, h, n->router_bias);
  int from = r->n_list;
  if (k->gated) mal_put_linear(r, MAL_W_EXPERT_UP, MAL_SPLIT_OUT, n->expert_gate, k->ffn, h, k->mlp_bias);
  mal_put_linear(r, MAL_W_EXPERT_UP, MAL_SPLIT_OUT, n->expert_up, k->ffn, h, k->mlp_bias);
  mal_put_linear(r, MAL_W_EXPERT_DOWN, MAL_SPLIT_IN, n->expert_down, h, k->ffn, k->mlp_bias);
  mark(r, from, MAL_FUSED_NONE, k->experts);
  if (k->shared_ffn) put_shared(r, n, k);
}

void mal_put_mlp(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *k) {
  if (k->mlp == MAL_MLP_MOE)
    put_experts(r, n, k);
  else
    put_dense(r, n, k);
}

void mal_begin(mal_reader *r, const char *prefix) {
  r->list = MAL_ARRAY(r->a, mal_weight, MAL_MAX_WEIGHTS);
  r->n_list = 0;
  r->prefix = prefix;
  r->transposed = false;
}

int mal_end_kind(mal_reader *r, const mal_layer_kind *k) {
  mal_model *m = r->m;
  assert(m->n_kinds < MAL_MAX_KINDS);
  m->kinds = mal_grow(r->a, m->kinds, (size_t)m->n_kinds, (size_t)m->n_kinds + 1, sizeof(*m->kinds));
  mal_layer_kind *added = &m->kinds[m->n_kinds];
  *added = *k;
  added->weights = r->list;
  added->n_weights = r->n_list;
  return m->n_kinds++;
}

void mal_end_model(mal_reader *r) {
  r->m->weights = r->list;
  r->m->n_weights = r->n_list;
}

/* The whole list of a standard layer: norms, attention, MLP. */
static int add_kind(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *k) {
  mal_begin(r, n->prefix);
  r->transposed = n->transposed;
  mal_put_norms(r, n, k);
  put_attention(r, n, k);
  mal_put_mlp(r, n, k);
  return mal_end_kind(r, k);
}

void mal_add_layers(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *variants, int count,
                    const uint8_t *which) {
  if (r->status != MAL_OK) return;
  mal_model *m = r->m;
  for (int v = 0; v < count; v++) {
    int kind = -1;
    for (int64_t l = 0; l < m->layers; l++) {
      if ((which ? which[l] : 0) != v) continue;
      if (kind < 0) kind = add_kind(r, n, &variants[v]);
      m->kind_of[l] = (uint8_t)kind;
    }
  }
}

void mal_add_windowed(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *k, const bool *windowed,
                      int64_t window) {
  uint8_t *which = MAL_ARRAY(r->a, uint8_t, r->m->layers);
  for (int64_t l = 0; l < r->m->layers; l++) which[l] = windowed[l] && window > 0;
  mal_layer_kind variants[2] = {*k, *k};
  variants[0].window = 0;
  variants[1].window = window;
  mal_add_layers(r, n, variants, 2, which);
}

void mal_add_outer(mal_reader *r, const mal_outer_names *n) {
  mal_model *m = r->m;
  mal_begin(r, "");
  mal_put(r, MAL_W_EMBED, MAL_SPLIT_VOCAB, n->embed, m->vocab, m->embedding_width);
  if (m->learned_positions) mal_put(r, MAL_W_POSITION, MAL_SPLIT_NONE, n->position, m->learned_positions, m->hidden);
  if (m->embed_norm) mal_put_norm(r, MAL_W_EMBED_NORM, n->embed_norm, m->hidden, n->norm_bias);
  if (m->final_norm) mal_put_norm(r, MAL_W_FINAL_NORM, n->final_norm, m->hidden, n->norm_bias);
  if (!m->tied_embeddings)
    mal_put_linear(r, MAL_W_HEAD, MAL_SPLIT_VOCAB, n->head, m->vocab, m->embedding_width, m->head_bias);
  mal_end_model(r);
}

/* Elements of w, or -1 when they do not fit 64 bits. */
static int64_t elements(const mal_weight *w) {
  int64_t n = w->copies;
  for (int i = 0; i < w->rank; i++)
    if (__builtin_mul_overflow(n, w->shape[i], &n)) return -1;
  return n;
}

int64_t mal_weight_elements(const mal_weight *w) { return elements(w); }

static bool sum(const mal_weight *list, int count, int64_t top_k, int64_t *all, int64_t *active) {
  for (int i = 0; i < count; i++) {
    int64_t n = elements(&list[i]);
    if (n < 0 || n > MAL_MAX_PARAMETERS) return false;
    bool expert = list[i].role == MAL_W_EXPERT_UP || list[i].role == MAL_W_EXPERT_DOWN;
    *all += n;
    *active += expert ? n / list[i].copies * top_k : n;
  }
  return *all <= MAL_MAX_PARAMETERS;
}

bool mal_count_parameters(mal_model *m) {
  m->parameters = m->active_parameters = m->mtp_parameters = 0;
  if (!sum(m->weights, m->n_weights, 0, &m->parameters, &m->active_parameters)) return false;
  for (int i = 0; i < m->n_kinds; i++) {
    mal_layer_kind *k = &m->kinds[i];
    k->parameters = k->active_parameters = 0;
    if (!sum(k->weights, k->n_weights, k->top_k, &k->parameters, &k->active_parameters)) return false;
  }
  for (int64_t l = 0; l < m->layers; l++) {
    m->parameters += m->kinds[m->kind_of[l]].parameters;
    m->active_parameters += m->kinds[m->kind_of[l]].active_parameters;
    if (m->parameters > MAL_MAX_PARAMETERS) return false;
  }
  for (int i = 0; i < m->n_weights; i++)
    if (m->weights[i].role == MAL_W_MTP) {
      m->mtp_parameters += elements(&m->weights[i]);
      m->active_parameters -= elements(&m->weights[i]);
    }
  int64_t layer = m->kinds[m->n_kinds - 1].parameters;
  m->mtp_parameters += m->mtp_layers * layer;
  m->parameters += m->mtp_layers * layer;
  return m->parameters <= MAL_MAX_PARAMETERS;
}

void mal_finish(mal_reader *r) {
  mal_model *m = r->m;
  if (r->status != MAL_OK) return;
  for (int i = 0; i < m->n_kinds; i++) {
    const mal_layer_kind *k = &m->kinds[i];
    if (k->heads % k->kv_heads)
      mal_reject(r, r->json ? "num_key_value_heads" : "kv_heads",
                 _("%lld query heads cannot be shared out over %lld key/value heads. Give a number that divides them."),
                 (long long)k->heads, (long long)k->kv_heads);
    else if (k->mlp == MAL_MLP_MOE && k->top_k > k->experts)
      mal_reject(r, r->json ? "num_experts_per_tok" : "top_k",
                 _("a token cannot go to %lld experts where there are %lld. Give at most that number."),
                 (long long)k->top_k, (long long)k->experts);
  }
  if (r->status == MAL_OK && !mal_count_parameters(m))
    mal_reject(r, r->json ? "hidden_size" : "hidden",
               _("these sizes make more than 2^53 parameters, past what is counted exactly. "
                 "Check the widths, the layers and the experts."));
  if (m->published_parameters && m->parameters - m->mtp_parameters == m->published_parameters) m->n_defaults = 0;
}
