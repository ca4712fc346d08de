/* This rank's share of a block's weights, and where they and their gradients lie. */
#include "program/builder.h"
#include <string.h>

static bool is_expert(mal_weight_role role) { return role == MAL_W_EXPERT_UP || role == MAL_W_EXPERT_DOWN; }

int64_t mal_padded_vocab(const mal_plan *plan) {
  int64_t unit = plan->profile->vocab_padded ? 128 * plan->layout.tp : plan->layout.tp;
  return mal_ceil_div(plan->model.vocab, unit) * unit;
}

/* Rows of q, k, v here. A rank has at least one key/value head: with tp > kv_heads they are held several times. */
static int64_t qkv_rows(const mal_builder *b, const mal_weight *w, int index, int of) {
  const mal_layer_kind *k = b->kind;
  int64_t q = k->heads * k->head_dim / b->tp;
  int64_t kv = (k->kv_heads > b->tp ? k->kv_heads / b->tp : 1) * k->head_dim;
  if (of == 1) return w->shape[0] == (k->heads + 2 * k->kv_heads) * k->head_dim ? q + 2 * kv : w->shape[0] / b->tp;
  return index == 0 ? q : kv;
}

static int64_t share(const mal_builder *b, const mal_weight *w, int index, int of) {
  bool expert = is_expert(w->role);
  int64_t ways = expert ? b->etp : b->tp, copies = expert ? w->copies / b->ep : w->copies;
  int64_t one = w->shape[0] * w->shape[1] * w->shape[2];
  if (w->split == MAL_SPLIT_NONE) return copies * one;
  if (w->split == MAL_SPLIT_VOCAB) return mal_padded_vocab(b->plan) / b->tp * (one / w->shape[0]);
  if (w->role == MAL_W_QKV) return qkv_rows(b, w, index, of) * (one / w->shape[0]);
  if (w->role == MAL_W_NORM && w->shape[0] == b->kind->kv_heads * b->kind->head_dim && b->tp > b->kind->kv_heads)
    return b->kind->head_dim; /* a norm as wide as all keys */
  return copies * mal_ceil_div(one, ways);
}

static int count_like(const mal_weight *list, int n, const mal_weight *w) {
  int count = 0;
  for (int i = 0; i < n; i++) count += list[i].role == w->role && (list[i].rank > 1) == (w->rank > 1);
  return count;
}

static void room(mal_builder *b, int more) {
  if (b->n_params + more <= b->room_params) return;
  int size = b->room_params ? b->room_params * 2 : 64;
  while (size < b->n_params + more) size *= 2;
  size_t old = (size_t)b->room_params, now = (size_t)size;
  b->params = mal_grow(b->a, b->params, old, now, sizeof *b->params);
  b->param_grad = mal_grow(b->a, b->param_grad, old, now, sizeof *b->param_grad);
  b->param_copy = mal_grow(b->a, b->param_copy, old, now, sizeof *b->param_copy);
  b->taken = mal_grow(b->a, b->taken, old, now, sizeof *b->taken);
  b->room_params = size;
}

void mal_params_init(mal_builder *b, const mal_weight *weights, int n,
                     bool (*select)(const mal_builder *, const mal_weight *)) {
  b->weights = MAL_ARRAY(b->a, mal_weight, n);
  int *index = MAL_ARRAY(b->a, int, n);
  for (int i = 0; i < n; i++)
    if (!select || select(b, &weights[i])) {
      index[b->n_weights] = i;
      b->weights[b->n_weights++] = weights[i];
    }
  n = b->n_weights;
  room(b, n);
  for (int i = 0; i < n; i++) {
    const mal_weight *w = &b->weights[i];
    b->params[i] = (mal_param){.weight = index[i],
                               .elements = share(b, w, count_like(b->weights, i, w), count_like(b->weights, n, w)),
                               .expert = is_expert(w->role),
                               .frozen = b->lora || w->role == MAL_W_BUFFER,
                               .decay = w->decay,
                               .replicated = w->split == MAL_SPLIT_NONE && !is_expert(w->role)};
  }
  b->n_params = n;
}

bool mal_has_weight(const mal_builder *b, mal_weight_role role, bool matrix) {
  for (int i = 0; i < b->n_weights; i++)
    if (!b->taken[i] && b->weights[i].role == role && (b->weights[i].rank > 1) == matrix) return true;
  return false;
}

/* QLoRA stores frozen matrices in 4 bits with one 8-bit scale per 64 (Dettmers et al., arXiv:2305.14314, section 3). */
static mal_ref param_buffer(mal_builder *b, const char *name, int first, int64_t elements, bool matrix) {
  const mal_param *p = &b->params[first];
  bool four_bit = b->plan->job.train == MAL_QLORA && p->frozen && matrix && b->r->block_class == MAL_B_LAYER;
  mal_region region = b->layout->zero == 3 ? MAL_R_GATHER : MAL_R_PARAM;
  mal_ref x = mal_buffer_in(b, name, four_bit ? MAL_F4 : b->store, elements, region);
  mal_buffer *f = mal_at(b, x);
  if (four_bit) f->bytes += elements / 64;
  f->param = first;
  b->side[x].needs = !p->frozen;
  if (p->shared) return x;
  f->offset_bytes = b->param_bytes[p->expert];
  b->param_bytes[p->expert] += f->bytes;
  return x;
}

mal_taken mal_take(mal_builder *b, mal_weight_role role, bool matrix, int most, const char *name) {
  mal_taken t = {.first = -1};
  for (int i = 0; i < b->n_weights && t.count < most; i++) {
    if (b->taken[i] || b->weights[i].role != role || (b->weights[i].rank > 1) != matrix) continue;
    if (t.first < 0) t.first = i;
    b->taken[i] = true;
    t.elements += b->params[i].elements;
    t.count++;
  }
  if (t.count) t.weight = param_buffer(b, name, t.first, t.elements, matrix);
  return t;
}

static bool is_bias(const mal_weight *w) {
  size_t n = strlen(w->name);
  return n > 5 && strcmp(w->name + n - 5, ".bias") == 0;
}

mal_ref mal_take_norm(mal_builder *b, mal_weight_role role, int64_t width, mal_ref *bias) {
  *bias = 0;
  for (int i = 0; i < b->n_weights; i++) {
    const mal_weight *w = &b->weights[i];
    if (b->taken[i] || w->role != role || w->rank != 1 || b->params[i].elements != width || is_bias(w)) continue;
    b->taken[i] = true;
    mal_ref x = param_buffer(b, "norm.weight", i, width, false);
    if (i + 1 < b->n_weights && w[1].role == role && w[1].rank == 1 && is_bias(&w[1]) && !b->taken[i + 1]) {
      b->taken[i + 1] = true;
      *bias = param_buffer(b, "norm.bias", i + 1, b->params[i + 1].elements, false);
    }
    return x;
  }
  return 0;
}

bool mal_has_norm(const mal_builder *b, int64_t width) {
  for (int i = 0; i < b->n_weights; i++)
    if (!b->taken[i] && b->weights[i].role == MAL_W_NORM && b->params[i].elements == width) return true;
  return false;
}

mal_ref mal_add_param(mal_builder *b, const char *name, int64_t elements, bool expert, bool replicated) {
  room(b, 1);
  int i = b->n_params++;
  b->params[i] =
      (mal_param){.weight = -1, .elements = elements, .expert = expert, .decay = true, .replicated = replicated};
  b->taken[i] = true;
  return param_buffer(b, name, i, elements, true);
}

void mal_params_rest(mal_builder *b) {
  for (int i = 0; i < b->n_weights; i++) {
    if (b->taken[i]) continue;
    b->taken[i] = true;
    param_buffer(b, b->weights[i].name, i, b->params[i].elements, b->weights[i].rank > 1);
  }
  for (mal_ref x = 1; x < b->n_buffers; x++) { /* experts lie behind the dense weights */
    mal_buffer *f = mal_at(b, x);
    bool weight = f->region == MAL_R_PARAM || f->region == MAL_R_GATHER;
    if (f->param >= 0 && weight && b->params[f->param].expert) f->offset_bytes += b->param_bytes[0];
  }
}

bool mal_is_param(const mal_builder *b, mal_ref x) {
  const mal_buffer *f = &b->buffers[mal_root(b, x)];
  return f->param >= 0 && (f->region == MAL_R_PARAM || f->region == MAL_R_GATHER);
}

/* --- gradients --- */

mal_dtype mal_grad_type(const mal_builder *b) {
  return mal_dtype_bytes[b->store] >= 4 || b->profile->grad_bytes >= 4 ? MAL_F32 : b->store;
}

bool mal_reduces_unit(const mal_builder *b) { return b->layout->zero >= 2; }

int64_t mal_shards(const mal_builder *b, bool expert) {
  const mal_layout *l = b->layout;
  if (l->zero == 0) return 1;
  if (expert) return mal_layout_edp(l);
  return l->zero == 3 && l->hybrid > 0 ? l->hybrid : l->dp * l->cp;
}

bool mal_has_extra(const mal_builder *b) {
  if (b->profile->grad_extra_is_bucket && b->layout->dp * b->cp == 1) return false;
  return b->profile->grad_extra_bytes > 0 && mal_dtype_bytes[b->store] < 4 && !mal_reduces_unit(b);
}

/* The buffer before it is the copy in the compute type, when the profile keeps one. */
mal_ref mal_param_grad(mal_builder *b, mal_ref param) {
  const mal_buffer f = *mal_at(b, mal_root(b, param));
  int64_t elements = mal_elements(b, mal_root(b, param)), *laid = &b->grad_elements[b->params[f.param].expert];
  if (!b->param_grad[f.param]) {
    bool unit = mal_reduces_unit(b);
    mal_dtype type = unit ? b->store : mal_grad_type(b);
    mal_ref extra = mal_has_extra(b) ? mal_buffer_in(b, f.name, b->store, elements, MAL_R_GRAD) : 0;
    mal_ref g = mal_buffer_in(b, f.name, type, elements, unit ? MAL_R_BUCKET : MAL_R_GRAD);
    mal_at(b, g)->param = f.param;
    mal_at(b, g)->offset_bytes = *laid * (int64_t)mal_dtype_bytes[type];
    if (extra) mal_at(b, extra)->param = f.param;
    *laid += elements;
    b->param_grad[f.param] = g;
  }
  mal_ref g = b->param_grad[f.param];
  return mal_has_extra(b) ? g - 1 : g;
}

uint16_t mal_param_grad_flags(const mal_builder *b) {
  bool adds = !mal_reduces_unit(b) && !mal_has_extra(b);
  return (uint16_t)(MAL_INS_WEIGHT_GRAD | (adds ? MAL_INS_ACCUMULATE : 0));
}

void mal_param_grad_done(mal_builder *b, mal_ref param) {
  if (!param || !mal_has_extra(b)) return;
  mal_ref g = b->param_grad[mal_at(b, mal_root(b, param))->param];
  mal_backward_emit(b, (mal_emit){.op = MAL_OP_ADD,
                                  .dtype = mal_at(b, g)->dtype,
                                  .in = {g - 1},
                                  .out = {g},
                                  .flags = MAL_INS_WEIGHT_GRAD | MAL_INS_ACCUMULATE,
                                  .v = {mal_elements(b, g)}});
}
