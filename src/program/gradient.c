/* Backward from forward: the tape in reverse, one rule per opcode, and the list R of what is computed again. */
#include "program/builder.h"

/* --- operands --- */

mal_ref mal_grad(mal_builder *b, mal_ref x) { return b->side[x].grad; }

static char *gradient_name(mal_builder *b, const char *of) {
  size_t n = 0;
  while (of[n]) n++;
  char *name = mal_alloc(b->a, n + 3);
  name[0] = 'd', name[1] = '.';
  for (size_t i = 0; i < n; i++) name[2 + i] = of[i];
  return name;
}

mal_ref mal_grad_buffer(mal_builder *b, mal_ref like, mal_dtype dtype) {
  return mal_buffer_new(b, gradient_name(b, mal_at(b, like)->name), dtype, mal_elements(b, like));
}

/* The type of x's gradient: its own, but 16 bits for what is held in 8 or 4. */
static mal_dtype gradient_type(const mal_builder *b, mal_ref x) {
  mal_dtype t = (mal_dtype)mal_at(b, x)->dtype;
  return t == MAL_F8 || t == MAL_F4 ? b->store : t;
}

static mal_ref new_gradient(mal_builder *b, mal_ref x) {
  return b->side[x].needs ? mal_grad_buffer(b, x, gradient_type(b, x)) : 0;
}

mal_ref mal_use(mal_builder *b, mal_ref x, bool for_weight) {
  if (!x) return 0;
  mal_ref root = mal_root(b, x);
  int made_by = b->side[root].made_by;
  if (made_by < 0 || !b->tape.at[made_by].remake) return b->side[root].again;
  int which = b->r->split && for_weight;
  if (b->side[root].remade[which]) return b->side[root].remade[which];
  mal_emit i = b->tape.at[made_by];
  const mal_buffer like = *mal_at(b, root);
  mal_ref made = mal_buffer_new(b, like.name, like.dtype, mal_elements(b, root));
  for (int k = 0; k < MAL_INPUTS; k++) i.in[k] = mal_use(b, i.in[k], for_weight);
  i.out[0] = made;
  if (which) i.flags |= MAL_INS_WEIGHT_GRAD;
  mal_backward_emit(b, i);
  b->side[root].remade[which] = made;
  return made;
}

static void hold(mal_builder *b, mal_ref x, mal_ref g) {
  if (b->side[g].held) b->side[g].busy = true;
  b->side[g].held = true;
  b->side[x].grad = g;
}

void mal_add_grad(mal_builder *b, mal_ref x, mal_ref g) {
  if (!x || !g || !b->side[x].needs) return;
  g = mal_root(b, g);
  mal_ref old = b->side[x].grad;
  if (!old) {
    hold(b, x, g);
    return;
  }
  mal_ref sum = !b->side[g].busy && !b->side[g].held ? g : mal_grad_buffer(b, x, gradient_type(b, x));
  mal_backward_emit(b, (mal_emit){.op = MAL_OP_ADD,
                                  .dtype = mal_at(b, sum)->dtype,
                                  .in = {old, g},
                                  .out = {sum},
                                  .flags = MAL_INS_GRAD,
                                  .v = {mal_elements(b, sum)}});
  b->side[sum].busy = b->side[sum].held = false;
  hold(b, x, sum);
}

/* --- weight gradients wait until the tensor-parallel sum of the input gradient has started, which they hide --- */

static void pend(mal_builder *b, mal_emit i, mal_ref param) {
  struct mal_listing *p = &b->pending;
  if (p->count == p->room) {
    int more = p->room ? p->room * 2 : 16;
    p->at = mal_grow(b->a, p->at, (size_t)p->room, (size_t)more, sizeof *p->at);
    p->room = more;
  }
  for (int k = 0; k < MAL_INPUTS; k++)
    if (i.in[k]) b->side[mal_root(b, i.in[k])].busy = true;
  i.core = 0;
  i.v[7] = param; /* for flush; v[6]: the tape entry, set by reverse */
  p->at[p->count++] = i;
}

static void flush(mal_builder *b) {
  for (int i = 0; i < b->pending.count; i++) {
    mal_emit x = b->pending.at[i];
    mal_ref param = (mal_ref)x.v[7];
    x.v[6] = x.v[7] = 0;
    mal_backward_emit(b, x);
    mal_param_grad_done(b, param);
  }
  b->pending.count = 0;
}

/* Column sums of d into the gradient of a bias. */
static void bias_gradient(mal_builder *b, const mal_ref d[3], mal_ref bias, uint32_t origin) {
  if (!bias || !b->side[bias].needs || !d[0]) return;
  int64_t cols = mal_elements(b, bias), elements = 0;
  for (int k = 0; k < 3; k++) elements += d[k] ? mal_elements(b, d[k]) : 0;
  pend(b,
       (mal_emit){.op = MAL_OP_REDUCE_ROWS,
                  .dtype = b->store,
                  .in = {d[0], d[1], d[2]},
                  .out = {mal_param_grad(b, bias)},
                  .flags = MAL_INS_GRAD | mal_param_grad_flags(b),
                  .v = {elements / cols, cols},
                  .origin = origin},
       bias);
}

/* --- rules --- */

typedef struct rule { /* one tape entry in reverse */
  const mal_emit *i;
  mal_ref d[MAL_OUTPUTS]; /* gradients of its outputs, 0 none */
} rule;

static void emit(mal_builder *b, const rule *r, mal_emit x) {
  if (!x.out[0] && !x.out[1] && !x.out[2]) return;
  x.flags |= MAL_INS_GRAD;
  x.dtype = x.dtype ? x.dtype : r->i->dtype;
  if (!x.cause && x.op == r->i->op) x.cause = r->i->cause;
  x.origin = r->i->origin;
  mal_backward_emit(b, x);
}

/* Both operands are activations: the unfused attention core. out[m,n] = x[m,k]·y, so dx[m,k] and dy over m. */
static void product_of_activations(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  const int64_t *v = i->v;
  bool scores = i->flags & MAL_INS_TRANSPOSE_B; /* q·kᵀ; else p·v */
  uint16_t causal = i->flags & MAL_INS_CAUSAL;
  mal_ref dx = new_gradient(b, i->in[0]), dy = new_gradient(b, i->in[1]);
  if (dx)
    emit(b, r,
         (mal_emit){.op = MAL_OP_MATMUL,
                    .in = {r->d[0], 0, 0, mal_use(b, i->in[1], false)},
                    .out = {dx},
                    .flags = causal | (scores ? 0 : MAL_INS_TRANSPOSE_B),
                    .cause = i->cause,
                    .v = {v[0], v[2], v[1], v[3], v[4], v[5]}});
  if (dy)
    emit(b, r,
         (mal_emit){.op = MAL_OP_MATMUL,
                    .in = {r->d[0], 0, 0, mal_use(b, i->in[0], false)},
                    .out = {dy},
                    .flags = causal | MAL_INS_TRANSPOSE_A,
                    .cause = i->cause,
                    .v = {scores ? v[1] : v[2], scores ? v[2] : v[1], v[0], v[3], v[4], v[5]}});
  mal_add_grad(b, i->in[0], dx);
  mal_add_grad(b, i->in[1], dy);
}

/* Gradients of the pieces in the products' low type. */
static void lower_precision(mal_builder *b, const rule *r, mal_ref d[3]) {
  int64_t elements = 0;
  mal_emit cast = {.op = MAL_OP_CAST, .dtype = r->i->dtype};
  for (int k = 0; k < 3; k++) {
    if (!r->d[k]) continue;
    elements += mal_elements(b, r->d[k]);
    cast.in[k] = r->d[k];
    cast.out[k] = d[k] = mal_grad_buffer(b, r->i->out[k], (mal_dtype)r->i->dtype);
  }
  cast.v[0] = elements;
  emit(b, r, cast);
}

/* A frozen product adds the gradient that its input has from an adapter, in the product itself. */
static bool adds_before(const mal_builder *b, mal_ref x, bool trained) {
  return b->lora && b->profile->fused_adapters && !trained && b->side[x].needs && b->side[x].grad;
}

static void product(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  const int64_t *v = i->v;
  mal_ref stored = b->side[i->in[1]].weight ? b->side[i->in[1]].weight : i->in[1];
  if (!mal_is_param(b, stored)) {
    product_of_activations(b, r);
    return;
  }
  bool trained = b->side[stored].needs;
  mal_ref x = i->in[0], d[3] = {r->d[0], r->d[1], r->d[2]}, dx = new_gradient(b, x);
  uint16_t grouped = i->flags & MAL_INS_GROUPED;
  if (i->dtype == MAL_F8 || i->dtype == MAL_F4) lower_precision(b, r, d);
  mal_ref input = trained ? mal_use(b, x, true) : 0;
  mal_ref before = adds_before(b, x, trained) ? b->side[x].grad : 0; /* the gradient that came through an adapter */
  if (dx)
    emit(b, r,
         (mal_emit){.op = MAL_OP_MATMUL,
                    .in = {d[0], d[1], d[2], mal_use(b, i->in[1], false), before},
                    .out = {dx},
                    .flags = grouped,
                    .v = {v[0], v[2], v[1], v[3]}});
  if (trained)
    pend(b,
         (mal_emit){.op = MAL_OP_MATMUL,
                    .dtype = i->dtype,
                    .in = {d[0], d[1], d[2], input},
                    .out = {mal_param_grad(b, stored)},
                    .origin = i->origin,
                    .flags = (uint16_t)(grouped | MAL_INS_GRAD | MAL_INS_TRANSPOSE_A | mal_param_grad_flags(b)),
                    .v = {v[1], v[2], v[0], v[3]}},
         stored);
  bias_gradient(b, r->d, i->in[2], i->origin);
  if (before)
    hold(b, x, dx);
  else
    mal_add_grad(b, x, dx);
  for (int k = 0; k < 3; k++) mal_add_grad(b, i->in[k + 3], r->d[k]);
}

static void attention(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  mal_emit g = {.op = MAL_OP_ATTENTION,
                .variant = i->variant,
                .flags = i->flags,
                .in = {mal_use(b, i->in[0], false), mal_use(b, i->in[1], false), mal_use(b, i->in[2], false),
                       mal_use(b, i->out[0], false), r->d[0], mal_use(b, i->out[1], false)}};
  for (int k = 0; k < 3; k++) g.out[k] = new_gradient(b, i->in[k]);
  for (int k = 0; k < 8; k++) g.v[k] = i->v[k];
  emit(b, r, g);
  for (int k = 0; k < 3; k++) mal_add_grad(b, i->in[k], g.out[k]);
}

static void norm(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  mal_ref w = i->in[1], bias = i->in[2], dx = new_gradient(b, i->in[0]);
  bool trained = w && b->side[w].needs;
  uint16_t flags = trained ? mal_param_grad_flags(b) & (uint16_t)~MAL_INS_WEIGHT_GRAD : 0;
  emit(b, r,
       (mal_emit){.op = MAL_OP_NORM,
                  .variant = i->variant,
                  .flags = flags,
                  .in = {mal_use(b, i->in[0], false), w, mal_use(b, i->out[1], false), r->d[0]},
                  .out = {dx, trained ? mal_param_grad(b, w) : 0, trained && bias ? mal_param_grad(b, bias) : 0},
                  .v = {i->v[0], i->v[1]}});
  if (trained) mal_param_grad_done(b, w);
  if (trained && bias) mal_param_grad_done(b, bias);
  mal_add_grad(b, i->in[0], dx);
}

/* Gradients that need no values of forward: rope; softmax and the dropout mask read what they wrote. */
static void rope(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  mal_emit g = {.op = MAL_OP_ROPE, .v = {i->v[0]}};
  for (int k = 0, n = 0; k < MAL_OUTPUTS; k++)
    if (r->d[k]) g.in[n++] = r->d[k];
  for (int k = 0; k < 2 && i->flags & MAL_INS_SAVES_INPUT; k++) g.in[3 + k] = mal_use(b, i->in[k], false);
  for (int k = 0; k < 3; k++) g.out[k] = i->in[k] ? new_gradient(b, i->in[k]) : 0;
  emit(b, r, g);
  for (int k = 0; k < 3; k++) mal_add_grad(b, i->in[k], g.out[k]);
}

static void softmax(mal_builder *b, const rule *r) {
  mal_ref dx = b->profile->fused_softmax ? r->d[0] : new_gradient(b, r->i->in[0]);
  emit(b, r,
       (mal_emit){.op = MAL_OP_SOFTMAX,
                  .in = {mal_use(b, r->i->out[0], false), r->d[0]},
                  .out = {dx},
                  .v = {r->i->v[0], r->i->v[1]}});
  mal_add_grad(b, r->i->in[0], dx);
}

static void dropout(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  mal_ref dx = new_gradient(b, i->in[0]), mask = mal_use(b, i->out[1], false);
  if (dx) emit(b, r, (mal_emit){.op = MAL_OP_DROPOUT, .in = {mask, r->d[0]}, .out = {dx}, .v = {i->v[0]}});
  mal_add_grad(b, i->in[2], r->d[0]);
  mal_add_grad(b, i->in[0], dx);
  bias_gradient(b, (mal_ref[3]){dx}, i->in[1], i->origin);
}

static void activation(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  mal_ref dx = new_gradient(b, i->in[0]), dy = i->in[1] ? new_gradient(b, i->in[1]) : 0;
  emit(b, r,
       (mal_emit){.op = MAL_OP_ACTIVATION,
                  .variant = i->variant,
                  .out = {dx, dy},
                  .v = {i->v[0]},
                  .in = {mal_use(b, i->in[0], false), mal_use(b, i->in[1], false), r->d[0]}});
  mal_add_grad(b, i->in[0], dx);
  mal_add_grad(b, i->in[1], dy);
}

static void add(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  for (int k = 0; k < MAL_INPUTS; k++) {
    if (!i->in[k]) continue;
    if (mal_is_param(b, i->in[k]))
      bias_gradient(b, (mal_ref[3]){r->d[0]}, i->in[k], i->origin);
    else
      mal_add_grad(b, i->in[k], r->d[k % MAL_OUTPUTS] && i->out[1] ? r->d[k % MAL_OUTPUTS] : r->d[0]);
  }
}

static void scale(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  mal_ref f = i->in[1];
  bool param = f && mal_is_param(b, f), factor_needs = f && b->side[f].needs;
  mal_ref dx = new_gradient(b, i->in[0]);
  mal_ref df = !factor_needs ? 0 : param ? mal_param_grad(b, f) : new_gradient(b, f);
  uint16_t flags = param && df ? mal_param_grad_flags(b) & (uint16_t)~MAL_INS_WEIGHT_GRAD : 0;
  emit(b, r,
       (mal_emit){.op = MAL_OP_SCALE,
                  .flags = flags,
                  .out = {dx, df},
                  .v = {i->v[0]},
                  .in = {df || i->flags & MAL_INS_SAVES_INPUT ? mal_use(b, i->in[0], false) : 0, mal_use(b, f, false),
                         r->d[0]}});
  if (param && df) mal_param_grad_done(b, f);
  mal_add_grad(b, i->in[0], dx);
  if (!param) mal_add_grad(b, f, df);
}

static void permute(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  mal_ref dx = new_gradient(b, i->in[0]), weights = i->in[2];
  mal_ref dw = weights ? new_gradient(b, weights) : 0;
  emit(b, r,
       (mal_emit){.op = MAL_OP_PERMUTE,
                  .variant = i->variant,
                  .out = {dx, dw},
                  .v = {i->v[0]},
                  .in = {r->d[0], mal_use(b, i->in[1], false), mal_use(b, weights, false),
                         dw ? mal_use(b, i->in[0], false) : 0}});
  mal_add_grad(b, i->in[0], dx);
  mal_add_grad(b, weights, dw);
}

static void route(mal_builder *b, const rule *r) {
  mal_ref dx = new_gradient(b, r->i->in[0]);
  emit(b, r,
       (mal_emit){.op = MAL_OP_ROUTE,
                  .in = {mal_use(b, r->i->out[0], false), r->d[0]},
                  .out = {dx},
                  .v = {r->i->v[0], r->i->v[1]}});
  mal_add_grad(b, r->i->in[0], dx);
}

static void cast(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  for (int k = 0; k < MAL_OUTPUTS; k++) {
    if (!r->d[k]) continue;
    mal_ref dx = r->d[k];
    if (mal_at(b, dx)->dtype != gradient_type(b, i->in[k])) {
      dx = new_gradient(b, i->in[k]);
      emit(b, r,
           (mal_emit){.op = MAL_OP_CAST,
                      .dtype = mal_at(b, dx)->dtype,
                      .in = {r->d[k]},
                      .out = {dx},
                      .v = {mal_elements(b, dx)}});
    }
    mal_add_grad(b, i->in[k], dx);
  }
}

/* Several buffers side by side in one: the gradient is cut apart. */
static void copy(mal_builder *b, const rule *r) {
  const mal_emit *i = r->i;
  mal_emit g = {.op = MAL_OP_COPY, .variant = i->variant, .in = {r->d[0]}, .v = {i->v[0]}};
  for (int k = 0; k < MAL_OUTPUTS; k++) g.out[k] = i->in[k] ? new_gradient(b, i->in[k]) : 0;
  emit(b, r, g);
  for (int k = 0; k < MAL_OUTPUTS; k++) mal_add_grad(b, i->in[k], g.out[k]);
}

static void embed(mal_builder *b, const rule *r) {
  mal_ref table = r->i->in[1];
  if (!b->side[table].needs) return;
  emit(b, r,
       (mal_emit){.op = MAL_OP_EMBED,
                  .in = {r->i->in[0], r->d[0]},
                  .out = {mal_param_grad(b, table)},
                  .flags = mal_param_grad_flags(b),
                  .v = {r->i->v[0]}});
  mal_param_grad_done(b, table);
}

/* --- communication: each collective's gradient is its mirror image --- */

/* All ranks go on with the same whole: each has the whole gradient and takes its part. */
static void ungather(mal_builder *b, const rule *r) {
  mal_ref dx = new_gradient(b, r->i->in[0]);
  if (!dx) return;
  emit(b, r,
       (mal_emit){
           .op = MAL_OP_COPY, .cause = MAL_TIME_MEMORY + 1, .in = {r->d[0]}, .out = {dx}, .v = {mal_at(b, dx)->bytes}});
  mal_add_grad(b, r->i->in[0], dx);
}

static void collective(mal_builder *b, const rule *r) {
  static const uint8_t mirror[MAL_COLLECTIVES] = {
      [MAL_ALL_GATHER] = MAL_REDUCE_SCATTER, [MAL_REDUCE_SCATTER] = MAL_ALL_GATHER, [MAL_ALL_TO_ALL] = MAL_ALL_TO_ALL};
  const mal_emit *i = r->i;
  if (i->variant == MAL_ALL_REDUCE) return; /* in place: the gradient passes through */
  if (i->rule == MAL_RULE_UNGATHER) {
    ungather(b, r);
    return;
  }
  mal_emit g = {.op = MAL_OP_COLLECTIVE, .variant = mirror[i->variant], .axes = i->axes};
  int64_t bytes = 0;
  for (int k = 0; k < 3; k++) {
    if (!r->d[k] || !b->side[i->in[k]].needs) continue;
    mal_ref dx = new_gradient(b, i->in[k]);
    g.dtype = mal_at(b, dx)->dtype;
    g.in[k] = r->d[k], g.out[k] = dx;
    mal_ref whole = i->variant == MAL_REDUCE_SCATTER ? dx : r->d[k];
    bytes += mal_at(b, whole)->bytes;
  }
  bool fewer = b->profile->dispatch_once && i->axes == MAL_AXIS_BIT(MAL_AXIS_EP) && i->variant == MAL_ALL_TO_ALL;
  g.v[0] = fewer && bytes ? i->v[0] * bytes / mal_at(b, i->out[0])->bytes : bytes;
  if (bytes) emit(b, r, g);
  flush(b);
  for (int k = 0; k < 3; k++) mal_add_grad(b, i->in[k], g.out[k]);
}

static void identity(mal_builder *b, const rule *r) {
  mal_ref d = mal_root(b, r->d[0]);
  if (!b->side[r->i->in[0]].needs) return;
  emit(b, r,
       (mal_emit){.op = MAL_OP_COLLECTIVE,
                  .variant = MAL_ALL_REDUCE,
                  .axes = r->i->axes,
                  .dtype = mal_at(b, d)->dtype,
                  .in = {d},
                  .out = {d},
                  .v = {mal_at(b, d)->bytes}});
  flush(b);
  b->side[d].busy = b->side[d].held = false;
  mal_add_grad(b, r->i->in[0], d);
}

static void slice(mal_builder *b, const rule *r) {
  mal_ref dx = new_gradient(b, r->i->in[0]);
  if (!dx) return;
  emit(b, r,
       (mal_emit){.op = MAL_OP_COLLECTIVE,
                  .variant = MAL_ALL_GATHER,
                  .axes = MAL_AXIS_BIT(MAL_AXIS_TP),
                  .dtype = mal_at(b, dx)->dtype,
                  .in = {r->d[0]},
                  .out = {dx},
                  .v = {mal_at(b, dx)->bytes}});
  mal_add_grad(b, r->i->in[0], dx);
}

/* Everything that backward reads of the loss is named by the entry; out is in place or new. */
static void loss(mal_builder *b, const mal_emit *i) {
  if (!b->side[i->in[0]].needs) return;
  mal_ref d = i->out[0] ? i->out[0] : mal_grad_buffer(b, i->in[0], b->store);
  mal_at(b, d)->cause = MAL_MEM_LOGITS;
  mal_emit g = {.op = MAL_OP_CROSS_ENTROPY,
                .dtype = b->store,
                .flags = MAL_INS_GRAD,
                .out = {d},
                .origin = i->origin,
                .v = {i->v[0], i->v[1]}};
  for (int k = 1; k < MAL_INPUTS; k++) g.in[k - 1] = mal_use(b, i->in[k], false);
  mal_backward_emit(b, g);
  b->side[d].busy = false;
  mal_add_grad(b, i->in[0], d);
}

typedef void rule_function(mal_builder *b, const rule *r);
static rule_function *const rules[MAL_OPS] = {
    [MAL_OP_MATMUL] = product,
    [MAL_OP_ATTENTION] = attention,
    [MAL_OP_SOFTMAX] = softmax,
    [MAL_OP_NORM] = norm,
    [MAL_OP_ROPE] = rope,
    [MAL_OP_ACTIVATION] = activation,
    [MAL_OP_DROPOUT] = dropout,
    [MAL_OP_EMBED] = embed,
    [MAL_OP_ROUTE] = route,
    [MAL_OP_PERMUTE] = permute,
    [MAL_OP_CAST] = cast,
    [MAL_OP_ADD] = add,
    [MAL_OP_COLLECTIVE] = collective,
    [MAL_OP_SCALE] = scale,
    [MAL_OP_COPY] = copy,
};

/* A product's weight gradient may wait: through casts that pass the gradient on, and further products of the same input. */
static bool lets_wait(const mal_builder *b, const mal_emit *i) {
  if (i->op == MAL_OP_CAST) return true;
  return i->op == MAL_OP_MATMUL && b->pending.at[0].in[3] &&
         mal_root(b, i->in[0]) == mal_root(b, b->tape.at[b->pending.at[0].v[6]].in[0]);
}

static void reverse(mal_builder *b, int index) {
  rule r = {.i = &b->tape.at[index]};
  bool any = false, hides = r.i->op == MAL_OP_COLLECTIVE && r.i->axes == MAL_AXIS_BIT(MAL_AXIS_TP);
  for (int k = 0; k < MAL_OUTPUTS; k++)
    if (r.i->out[k] && b->side[r.i->out[k]].grad) {
      r.d[k] = b->side[r.i->out[k]].grad;
      any = true;
    }
  if (r.i->rule == MAL_RULE_NONE || (r.i->rule != MAL_RULE_LOSS && !any)) return;
  if (b->pending.count && !hides && !lets_wait(b, r.i)) flush(b);
  int pending = b->pending.count;
  switch (r.i->rule) {
  case MAL_RULE_IDENTITY: identity(b, &r); break;
  case MAL_RULE_SLICE: slice(b, &r); break;
  case MAL_RULE_RING: mal_ring_backward(b, r.i); break;
  case MAL_RULE_LOSS: loss(b, r.i); break;
  default: rules[r.i->op](b, &r);
  }
  for (; pending < b->pending.count; pending++) b->pending.at[pending].v[6] = index;
}

void mal_backward(mal_builder *b) {
  if (b->output && b->side[b->output].needs) {
    b->output_grad = mal_buffer_in(b, "dy", b->store, mal_elements(b, b->output), MAL_R_IO);
    b->side[b->output_grad].busy = true;
    hold(b, b->output, b->output_grad);
  }
  for (int i = b->tape.count - 1; i >= 0; i--) reverse(b, i);
  flush(b);
  if (b->input) b->input_grad = b->side[b->input].grad;
}

/* --- recomputation --- */

/* Of selective recomputation that keeps what is named: what is not repeated. torchtitan (selective_ac_option "op"): attention,
 * every second product in 16 bits, and what tensor parallelism sums. *products counts them. */
static bool kept_by_name(const mal_builder *b, const mal_emit *i, int *products) {
  bool product = i->op == MAL_OP_MATMUL, in = i->role == MAL_W_QKV + 1, out = i->role == MAL_W_OUT + 1;
  switch ((mal_selective)b->profile->selective) {
  case MAL_SELECTIVE_OPERATORS:
    if (i->op == MAL_OP_ATTENTION) return true;
    if (i->op == MAL_OP_COLLECTIVE) return i->variant == MAL_REDUCE_SCATTER;
    return product && i->dtype != MAL_F8 && i->dtype != MAL_F4 && ++*products % 2 == 1;
  case MAL_SELECTIVE_QKV: return product && in;
  case MAL_SELECTIVE_QKV_OUT: return product && (in || out);
  case MAL_SELECTIVE_PRODUCTS: return product;
  default: return false;
  }
}

void mal_recompute_list(mal_builder *b) {
  int recompute = b->r->recompute, products = 0;
  if (recompute == MAL_RECOMPUTE_NONE) return;
  mal_list into = b->into;
  bool by_name = recompute == MAL_RECOMPUTE_SELECTIVE && b->profile->selective != MAL_SELECTIVE_CORE;
  if (by_name) recompute = MAL_RECOMPUTE_FULL;
  b->into = MAL_L_R;
  for (int t = 0; t < b->tape.count; t++) {
    mal_emit i = b->tape.at[t];
    if (i.silent || (recompute == MAL_RECOMPUTE_SELECTIVE && !i.core)) continue;
    if (by_name && kept_by_name(b, &i, &products)) continue;
    for (int k = 0; k < MAL_INPUTS; k++)
      if (i.in[k] && b->side[mal_root(b, i.in[k])].floating) i.in[k] = b->side[mal_root(b, i.in[k])].again;
    for (int k = 0; k < MAL_OUTPUTS; k++) {
      if (!i.out[k]) continue;
      mal_ref x = mal_root(b, i.out[k]);
      if (b->side[x].again == x) {
        const mal_buffer like = *mal_at(b, x);
        mal_ref copy = mal_buffer_new(b, like.name, like.dtype, mal_elements(b, x));
        if (recompute == MAL_RECOMPUTE_FULL || i.core == 1) b->side[x].again = copy;
        i.out[k] = copy;
      } else {
        i.out[k] = b->side[x].again;
      }
    }
    i.flags |= MAL_INS_RECOMPUTED;
    mal_backward_emit(b, i);
  }
  b->into = into;
}

/* The last first: an entry stays when backward, or a repeated entry that stays, reads what it writes. */
void mal_drop_unused(mal_builder *b) {
  struct mal_listing *r = &b->list[MAL_L_R], *lists[] = {&b->list[MAL_L_B], &b->list[MAL_L_BW], &b->list[MAL_L_W]};
  if (!b->profile->drops_unused || !r->count) return;
  uint8_t *read = MAL_ARRAY(b->a, uint8_t, b->n_buffers), *stays = MAL_ARRAY(b->a, uint8_t, r->count);
  for (int l = 0; l < 3; l++)
    for (int i = 0; i < lists[l]->count; i++)
      for (int k = 0; k < MAL_INPUTS; k++) read[mal_root(b, lists[l]->at[i].in[k])] = 1;
  read[0] = 0; /* no operand */
  for (int i = r->count - 1; i >= 0; i--) {
    for (int k = 0; k < MAL_OUTPUTS; k++) stays[i] |= read[mal_root(b, r->at[i].out[k])];
    for (int k = 0; stays[i] && k < MAL_INPUTS; k++)
      if (r->at[i].in[k]) read[mal_root(b, r->at[i].in[k])] = 1;
  }
  int kept = 0;
  for (int i = 0; i < r->count; i++)
    if (stays[i]) r->at[kept++] = r->at[i];
  r->count = kept;
}
