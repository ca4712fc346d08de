#include "engine/tensors.h"
#include "program/builder.h"
#include <stdio.h>
#include <string.h>

/* --- the list ----------------------------------------------------------------------------------------------------------- */

/* "model.layers.{l}.mlp.up_proj.weight" of a layer. */
static char *name_of(mal_arena *a, const char *pattern, int64_t layer) {
  const char *mark = strstr(pattern, "{l}");
  if (!mark) return mal_copy(a, pattern);
  return mal_print(a, "%.*s%lld%s", (int)(mark - pattern), pattern, (long long)layer, mark + 3);
}

static mal_tensor tensor_of(mal_arena *a, const mal_weight *w, int64_t layer) {
  return (mal_tensor){.name = name_of(a, w->name, layer),
                      .rows = w->shape[0],
                      .cols = w->rank > 1 ? w->shape[1] : 1,
                      .vector = w->rank == 1,
                      .decay = w->decay,
                      .transposed = w->transposed};
}

int32_t mal_tensor_number(const mal_model *m, int64_t layer, int weight) {
  int32_t n = m->n_weights;
  if (layer < 0) return weight;
  for (int64_t l = 0; l < layer; l++) n += m->kinds[m->kind_of[l]].n_weights;
  return n + weight;
}

void mal_tensors_list(mal_arena *a, const mal_model *m, mal_tensors *t) {
  *t = (mal_tensors){.at = MAL_ARRAY(a, mal_tensor, mal_tensor_number(m, m->layers, 0))};
  for (int i = 0; i < m->n_weights; i++) t->at[t->count++] = tensor_of(a, &m->weights[i], 0);
  for (int64_t l = 0; l < m->layers; l++) {
    const mal_layer_kind *k = &m->kinds[m->kind_of[l]];
    for (int i = 0; i < k->n_weights; i++) t->at[t->count++] = tensor_of(a, &k->weights[i], l);
  }
}

/* --- units ---------------------------------------------------------------------------------------------------------------- */

static const mal_weight *weight_of(const mal_plan *plan, const mal_block *b, int param) {
  const mal_weight *list = b->block_class == MAL_B_LAYER ? plan->model.kinds[b->kind].weights : plan->model.weights;
  return &list[b->params[param].weight];
}

static bool is_like(const mal_weight *x, const mal_weight *y) {
  return x->role == y->role && (x->rank > 1) == (y->rank > 1);
}

int mal_block_units(mal_arena *a, const mal_plan *plan, const mal_block *b, mal_unit_part **units) {
  const mal_layout *l = &plan->layout;
  int n = 0;
  *units = MAL_ARRAY(a, mal_unit_part, b->n_params);
  for (int i = 0; i < b->n_buffers; i++) {
    const mal_buffer *f = &b->buffers[i];
    if (f->region != MAL_R_PARAM || f->param < 0) continue;
    bool known = false;
    for (int k = 0; k < n; k++) known = known || (*units)[k].param == f->param;
    if (known) continue;
    const mal_weight *w = weight_of(plan, b, f->param);
    const mal_param *p = &b->params[f->param];
    mal_unit_part u = {.param = f->param, .elements = f->bytes / (int64_t)sizeof(float), .shared = p->shared};
    u.summed = l->tp > 1 && l->sequence_parallel == MAL_ON && p->replicated && w->role != MAL_W_POSITION;
    u.tied = b->tied_elements > 0 && w->role == MAL_W_EMBED && w->split == MAL_SPLIT_VOCAB;
    int at = n++;
    for (; at > 0 && (*units)[at - 1].param > u.param; at--) (*units)[at] = (*units)[at - 1];
    (*units)[at] = u;
  }
  if (n) (*units)[n - 1].last = true;
  return n;
}

/* --- pieces --------------------------------------------------------------------------------------------------------------- */

typedef struct filling {
  mal_arena *a;
  mal_pieces *p;
  mal_piece like; /* tensor, owned; at: where the next piece goes */
  int64_t cols;   /* of the tensor */
} filling;

static void put(filling *f, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  mal_pieces *p = f->p;
  if (p->count == p->room) {
    int32_t more = p->room ? 2 * p->room : 64;
    p->at = mal_grow(f->a, p->at, (size_t)p->room, (size_t)more, sizeof *p->at);
    p->room = more;
  }
  mal_piece x = f->like;
  x.row = row, x.rows = rows, x.col = col, x.cols = cols;
  if (rows > 0 && cols > 0) p->at[p->count++] = x;
  f->like.at += rows * cols;
}

/* Queries, keys and values in one tensor, whole blocks of each or one group after the other; here as three blocks. */
static void put_fused_qkv(filling *f, const mal_layer_kind *k, mal_fused fused, int64_t tp, int64_t index) {
  int64_t d = k->head_dim, kv = k->kv_heads / tp, q = k->heads / tp, group = k->heads / k->kv_heads;
  if (fused != MAL_FUSED_GROUPS) {
    put(f, index * q * d, q * d, 0, f->cols);
    put(f, (k->heads + index * kv) * d, kv * d, 0, f->cols);
    put(f, (k->heads + k->kv_heads + index * kv) * d, kv * d, 0, f->cols);
    return;
  }
  int64_t first = index * kv, each = (group + 2) * d;
  for (int64_t g = first; g < first + kv; g++) put(f, g * each, group * d, 0, f->cols);
  for (int64_t g = first; g < first + kv; g++) put(f, g * each + group * d, d, 0, f->cols);
  for (int64_t g = first; g < first + kv; g++) put(f, g * each + (group + 1) * d, d, 0, f->cols);
}

static void put_tensor(filling *f, const mal_plan *plan, const mal_layer_kind *k, const mal_weight *w, int64_t index) {
  int64_t tp = plan->layout.tp, rows = w->shape[0], cols = f->cols;
  int64_t fused_rows = k ? (k->heads + 2 * k->kv_heads) * k->head_dim : 0;
  switch (w->split) {
  case MAL_SPLIT_NONE: put(f, 0, rows, 0, cols); break;
  case MAL_SPLIT_IN: put(f, 0, rows, index * (cols / tp), cols / tp); break;
  case MAL_SPLIT_VOCAB: {
    int64_t here = mal_padded_vocab(plan) / tp, from = index * here, left = rows - from, at = f->like.at;
    put(f, from, left < here ? left : here, 0, cols);
    f->like.at = at + here * cols;
    break;
  }
  default:
    if (k && w->role == MAL_W_QKV && rows == fused_rows) {
      put_fused_qkv(f, k, w->fused, tp, index);
    } else if (w->fused == MAL_FUSED_BLOCKS) {
      put(f, index * (rows / 2 / tp), rows / 2 / tp, 0, cols);
      put(f, rows / 2 + index * (rows / 2 / tp), rows / 2 / tp, 0, cols);
    } else {
      put(f, index * (rows / tp), rows / tp, 0, cols);
    }
  }
}

void mal_unit_pieces(mal_arena *a, const mal_plan *plan, const mal_block *b, const mal_unit_part *u, int64_t layer,
                     int64_t tp_index, bool owns, int64_t at, mal_pieces *p) {
  const mal_layer_kind *k = b->block_class == MAL_B_LAYER ? &plan->model.kinds[b->kind] : NULL;
  const mal_weight *first = weight_of(plan, b, u->param);
  filling f = {.a = a, .p = p, .like = {.at = at}};
  int64_t end = at + u->elements;
  for (int i = u->param; i < b->n_params && f.like.at < end; i++) {
    const mal_weight *w = weight_of(plan, b, i);
    if (!is_like(w, first)) continue;
    f.like.tensor = mal_tensor_number(&plan->model, layer, b->params[i].weight);
    f.like.owned = owns && (w->split != MAL_SPLIT_NONE || tp_index == 0);
    f.cols = w->rank > 1 ? w->shape[1] : 1;
    put_tensor(&f, plan, k, w, tp_index);
  }
}

/* --- what is refused -------------------------------------------------------------------------------------------------------- */

static mal_status no(mal_error *e, const char *what, const char *instead) {
  return mal_fail(e, MAL_BAD, _("train cannot run %s. %s"), what, instead);
}

static mal_status check_kind(const mal_plan *plan, const mal_layer_kind *k, mal_error *e) {
  int64_t tp = plan->layout.tp;
  const char *other = _("Plan and lower take it; choose another model to train here.");
  if (k->mlp == MAL_MLP_MOE) return no(e, _("layers with experts"), other);
  if (k->mixer == MAL_MLA) return no(e, _("multi-head latent attention"), other);
  if (k->softcap) return no(e, _("a cap on attention scores (soft-capping)"), other);
  if (k->alibi) return no(e, _("linear position biases (ALiBi)"), other);
  if (k->clamped) return no(e, _("clamped activations"), other);
  if (k->rope_scaled) return no(e, _("scaled rotary positions (YaRN)"), other);
  if (k->rope_stretched) return no(e, _("rotary angles changed by rope_scaling"), other);
  if (k->rope_dim && !strcmp(plan->model.family, "gptj"))
    return no(e, _("rotary positions of neighbouring pairs (GPT-J)"), other);
  for (int i = 0; i < k->n_weights; i++)
    if (k->weights[i].role == MAL_W_BUFFER) return no(e, _("weights outside training (attention sinks)"), other);
  if (k->kv_heads % tp || k->heads % tp)
    return mal_fail(e, MAL_BAD,
                    _("train cannot share %lld key/value heads out over tp=%lld. Use a tp that divides them."),
                    (long long)k->kv_heads, (long long)tp);
  if (k->ffn % tp)
    return mal_fail(e, MAL_BAD,
                    _("train cannot share an MLP of width %lld out over tp=%lld. Use a tp that divides it."),
                    (long long)k->ffn, (long long)tp);
  if (k->qk_norm && tp > 1) return no(e, _("normalised queries and keys with tensor parallelism"), _("Use tp=1."));
  return MAL_OK;
}

static mal_status check_layout(const mal_layout *l, mal_error *e) {
  if (l->cp > 1) return no(e, _("context parallelism (cp > 1)"), _("Use cp=1."));
  if (l->ep > 1) return no(e, _("expert parallelism (ep > 1)"), _("Use ep=1."));
  if (l->zero == 3) return no(e, _("ZeRO stage 3"), _("Use zero=2 or less."));
  if (l->zero == 2 && l->tp > 1 && l->sequence_parallel == MAL_ON)
    return no(e, _("ZeRO stage 2 with sequence parallelism"), _("Use sequence-parallel=off, or zero=1."));
  if (l->zero == 2 && l->schedule == MAL_ZB_H1)
    return no(e, _("ZeRO stage 2 with zb-h1"), _("Use another schedule, or zero=1."));
  if (l->schedule == MAL_DUALPIPE || l->schedule == MAL_ZB_2P)
    return no(e, _("the schedules dualpipe and zb-2p"), _("Use 1f1b, interleaved, gpipe or zb-h1."));
  if (l->attention == MAL_ATT_UNFUSED) return no(e, _("unfused attention"), _("Leave attention= out."));
  if (l->offload_optimizer != MAL_OFFLOAD_NONE || l->offload_params != MAL_OFFLOAD_NONE)
    return no(e, _("offloaded states"), _("Leave offload out."));
  if (l->pp == 1 && l->vpp > 1) return no(e, _("several chunks on one stage"), _("Use vpp=1, or pp > 1."));
  return MAL_OK;
}

mal_status mal_engine_check(const mal_plan *plan, mal_error *e) {
  const mal_model *m = &plan->model;
  const mal_job *j = &plan->job;
  mal_status status = check_layout(&plan->layout, e);
  for (int k = 0; k < m->n_kinds && !status; k++) status = check_kind(plan, &m->kinds[k], e);
  if (status) return status;
  if (strcmp(plan->profile->name, "malha") != 0)
    return mal_fail(e, MAL_BAD, _("train runs the profile malha; the plan's is %s. Use --profile malha."),
                    plan->profile->name);
  if (j->precision != MAL_P_FP32) return no(e, _("this precision"), _("Use --precision fp32."));
  if (j->optimizer != MAL_ADAMW) return no(e, _("this optimizer"), _("Use --optimizer adamw."));
  if (j->train != MAL_PRETRAIN && j->train != MAL_FINETUNE)
    return no(e, _("adapters (LoRA)"), _("Use --train pretrain or finetune."));
  if (m->tied_embeddings && plan->layout.zero == 2)
    return no(e, _("ZeRO stage 2 with tied embeddings"), _("Use zero=1."));
  if (m->mtp_layers) return no(e, _("multi-token prediction"), _("Choose another model."));
  if (m->learned_positions && j->seq > m->learned_positions)
    return mal_fail(e, MAL_BAD, _("--seq is %lld; %s has learned positions for %lld tokens only."), (long long)j->seq,
                    m->name, (long long)m->learned_positions);
  if (m->learned_positions && m->embedding_width != m->hidden)
    return no(e, _("an embedding narrower than the layers"), _("Choose another model."));
  return MAL_OK;
}
