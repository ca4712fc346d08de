/* Attention of one layer: projections, rotary positions, the core in its forms. */
#include "program/builder.h"

mal_ref mal_sum_emit(mal_builder *b, mal_ref x, mal_ref y, mal_ref z, const char *name) {
  if (!y && !z) return x;
  mal_ref sum = mal_buffer_new(b, name, (mal_dtype)mal_at(b, x)->dtype, mal_elements(b, x));
  mal_forward(
      b,
      (mal_emit){
          .op = MAL_OP_ADD, .dtype = mal_at(b, x)->dtype, .in = {x, y, z}, .out = {sum}, .v = {mal_elements(b, sum)}});
  return sum;
}

static mal_ref like(mal_builder *b, const char *name, mal_ref x) {
  return mal_buffer_new(b, name, (mal_dtype)mal_at(b, x)->dtype, mal_elements(b, x));
}

/* x·cos + rotate(x)·sin as separate operators. */
static mal_ref rotate_apart(mal_builder *b, mal_ref x) {
  int64_t n = mal_elements(b, x);
  mal_ref cosine = like(b, "rope.cos", x), half = like(b, "rope.half", x), sine = like(b, "rope.sin", x);
  uint16_t keep = b->profile->save_rotary_inputs ? MAL_INS_SAVES_INPUT : 0;
  mal_forward(b,
              (mal_emit){.op = MAL_OP_SCALE, .dtype = b->store, .flags = keep, .in = {x}, .out = {cosine}, .v = {n}});
  mal_forward(b, (mal_emit){.op = MAL_OP_PERMUTE, .dtype = b->store, .in = {x}, .out = {half}, .v = {n}});
  mal_forward(b, (mal_emit){.op = MAL_OP_SCALE, .dtype = b->store, .in = {half}, .out = {sine}, .v = {n}});
  return mal_sum_emit(b, cosine, sine, 0, mal_at(b, x)->name);
}

static void rotate(mal_builder *b, mal_ref *q, mal_ref *k) {
  if (!b->kind->rope_dim) return;
  if (!b->profile->fused_rope || (b->kind->rope_scaled && b->profile->plain_rope_only)) {
    *q = rotate_apart(b, *q);
    *k = rotate_apart(b, *k);
    return;
  }
  mal_emit i = {.op = MAL_OP_ROPE,
                .dtype = b->store,
                .in = {*q, *k},
                .v = {mal_elements(b, *q) + mal_elements(b, *k)},
                .flags = b->profile->save_rotary_inputs ? MAL_INS_SAVES_INPUT : 0};
  *q = i.out[0] = like(b, "q", *q);
  *k = i.out[1] = like(b, "k", *k);
  mal_forward(b, i);
}

/* --- the core --- */

typedef struct core { /* what one rank computes after context parallelism has brought queries and keys together */
  int64_t sequences, q_len, kv_len, q_heads, kv_heads, d_qk, d_v, window;
} core;

static core core_of(const mal_builder *b) {
  const mal_layer_kind *k = b->kind;
  int64_t seq = b->plan->job.seq, kv_heads = k->kv_heads > b->tp ? k->kv_heads / b->tp : 1;
  return (core){.sequences = b->layout->micro_batch,
                .q_len = mal_ceil_div(seq, b->cp),
                .kv_len = seq,
                .q_heads = k->heads / b->tp,
                .kv_heads = k->mixer == MAL_MLA ? k->heads / b->tp : kv_heads,
                .d_qk = k->head_dim,
                .d_v = k->v_head_dim,
                .window = k->window < seq ? k->window : 0};
}

static void set_sizes(mal_emit *i, const core *c) {
  int64_t v[8] = {c->sequences, c->q_len, c->kv_len, c->q_heads, c->kv_heads, c->d_qk, c->d_v, c->window};
  for (int k = 0; k < 8; k++) i->v[k] = v[k];
}

/* Scratch of a fused backward kernel: dq summed in fp32 and one row sum a query (FlashAttention-2's dq_accum, dsoftmax_sum). */
static void declare_scratch(mal_builder *b, const core *c) {
  int64_t rows = c->sequences * c->q_len * c->q_heads, bytes = mal_align(rows * 4 * (c->d_qk + 1));
  if (bytes > b->kernel_bytes) b->kernel_bytes = bytes;
}

static mal_emit fused(mal_builder *b, const core *c, mal_ref q, mal_ref k, mal_ref v) {
  int64_t rows = c->sequences * c->q_len * c->q_heads;
  mal_emit i = {.op = MAL_OP_ATTENTION,
                .dtype = b->store,
                .variant = (uint8_t)b->layout->attention,
                .flags = MAL_INS_CAUSAL,
                .in = {q, k, v},
                .out = {mal_buffer_new(b, "attention.out", b->store, rows * c->d_v),
                        mal_buffer_new(b, "attention.lse", MAL_F32, rows)}};
  set_sizes(&i, c);
  declare_scratch(b, c);
  return i;
}

static mal_ref softmax(mal_builder *b, const core *c, mal_ref scores) {
  int64_t rows = c->sequences * c->q_heads * c->q_len, n = rows * c->kv_len;
  mal_emit i = {.op = MAL_OP_SOFTMAX,
                .dtype = b->store,
                .cause = MAL_TIME_ATTENTION + 1,
                .core = 1,
                .in = {scores},
                .v = {rows, c->kv_len}};
  mal_ref p = mal_buffer_new(b, "probabilities", b->store, n);
  if (b->profile->fused_softmax) {
    i.out[0] = p;
    mal_forward(b, i);
    return p;
  }
  mal_ref masked = like(b, "scores.masked", scores), wide = mal_buffer_new(b, "probabilities.fp32", MAL_F32, n);
  mal_forward(b, (mal_emit){.op = MAL_OP_SCALE,
                            .dtype = b->store,
                            .cause = MAL_TIME_ATTENTION + 1,
                            .core = 1,
                            .in = {scores},
                            .out = {masked},
                            .v = {n}});
  i.in[0] = masked, i.out[0] = wide, i.dtype = MAL_F32;
  mal_forward(b, i);
  mal_forward(b, (mal_emit){.op = MAL_OP_CAST,
                            .dtype = b->store,
                            .cause = MAL_TIME_ATTENTION + 1,
                            .core = 1,
                            .in = {wide},
                            .out = {p},
                            .v = {n}});
  return p;
}

static mal_ref unfused(mal_builder *b, const core *c, mal_ref q, mal_ref k, mal_ref v) {
  int64_t batch = c->sequences * c->q_heads, n = batch * c->q_len * c->kv_len;
  mal_emit product = {.op = MAL_OP_MATMUL,
                      .dtype = mal_product_type(b),
                      .cause = MAL_TIME_ATTENTION + 1,
                      .core = 1,
                      .in = {q, k},
                      .flags = MAL_INS_CAUSAL | MAL_INS_TRANSPOSE_B,
                      .out = {mal_buffer_new(b, "scores", b->store, n)},
                      .v = {c->q_len, c->kv_len, c->d_qk, batch, c->kv_len, c->window}};
  mal_forward(b, product);
  mal_ref p = product.out[0];
  if (b->kind->softcap) {
    mal_ref capped = like(b, "scores.capped", p);
    mal_forward(b, (mal_emit){.op = MAL_OP_SCALE,
                              .dtype = b->store,
                              .cause = MAL_TIME_ATTENTION + 1,
                              .core = 1,
                              .in = {p},
                              .out = {capped},
                              .v = {n}});
    p = capped;
  }
  p = softmax(b, c, p);
  if (b->profile->dropout) {
    mal_emit i = {
        .op = MAL_OP_DROPOUT, .dtype = b->store, .cause = MAL_TIME_ATTENTION + 1, .core = 1, .in = {p}, .v = {n}};
    p = i.out[0] = like(b, "probabilities.dropped", p);
    i.out[1] = mal_buffer_new(b, "attention.mask", MAL_I8, n);
    mal_forward(b, i);
  }
  mal_ref out = mal_buffer_new(b, "attention.out", b->store, batch * c->q_len * c->d_v);
  mal_forward(b, (mal_emit){.op = MAL_OP_MATMUL,
                            .dtype = mal_product_type(b),
                            .cause = MAL_TIME_ATTENTION + 1,
                            .core = 2,
                            .in = {p, v},
                            .flags = MAL_INS_CAUSAL,
                            .out = {out},
                            .v = {c->q_len, c->d_v, c->kv_len, batch, c->kv_len, c->window}});
  return out;
}

static mal_ref one_core(mal_builder *b, const core *c, mal_ref q, mal_ref k, mal_ref v) {
  if (b->layout->attention == MAL_ATT_UNFUSED) return unfused(b, c, q, k, v);
  mal_emit i = fused(b, c, q, k, v);
  mal_forward(b, i);
  return i.out[0];
}

/* --- context parallelism --- */

/* Keys and values, or their gradients, go to the next rank of the ring. */
static mal_emit pass_on(mal_builder *b, mal_ref k, mal_ref v) {
  return (mal_emit){.op = MAL_OP_SEND,
                    .axes = MAL_AXIS_BIT(MAL_AXIS_CP),
                    .dtype = mal_at(b, k)->dtype,
                    .rule = MAL_RULE_NONE,
                    .in = {k, v},
                    .out = {like(b, mal_at(b, k)->name, k), like(b, mal_at(b, v)->name, v)},
                    .v = {mal_at(b, k)->bytes + mal_at(b, v)->bytes}};
}

/* Step 0 sees the own, causal square; with zigzag shards each later step sees half of a square (Liu et al., arXiv:2310.01889;
 * the zigzag order of Megatron-Core and Brandon et al., arXiv:2311.09431). */
static void step_sizes(mal_emit *i, core c, int64_t cp, int64_t step) {
  c.kv_len = c.q_len;
  if (step > 0) {
    c.kv_len = mal_ceil_div(c.q_len, 2);
    c.window = 0;
    i->flags &= (uint16_t)~MAL_INS_CAUSAL;
  }
  (void)cp;
  set_sizes(i, &c);
}

static mal_ref ring(mal_builder *b, const core *c, mal_ref q, mal_ref k, mal_ref v) {
  core own = *c;
  own.kv_len = own.q_len;
  mal_emit whole = fused(b, &own, q, k, v);
  for (int64_t step = 0; step < b->cp; step++) {
    mal_emit send = {0}, i = whole;
    if (step + 1 < b->cp) mal_forward(b, send = pass_on(b, k, v));
    step_sizes(&i, *c, b->cp, step);
    i.in[1] = k, i.in[2] = v;
    i.rule = MAL_RULE_NONE;
    if (step) i.flags |= MAL_INS_ACCUMULATE;
    mal_forward(b, i);
    k = send.out[0], v = send.out[1];
  }
  whole.silent = true;
  whole.rule = MAL_RULE_RING;
  set_sizes(&whole, c);
  mal_forward(b, whole);
  return whole.out[0];
}

/* Keys and values go round again, and with each pair its gradient, which ends where it began. */
void mal_ring_backward(mal_builder *b, const mal_emit *f) {
  const core c = {f->v[0], f->v[1], f->v[2], f->v[3], f->v[4], f->v[5], f->v[6], f->v[7]};
  mal_ref k = mal_use(b, f->in[1], false), v = mal_use(b, f->in[2], false);
  mal_ref q = mal_use(b, f->in[0], false), out = mal_use(b, f->out[0], false), lse = mal_use(b, f->out[1], false);
  mal_ref dq = mal_grad_buffer(b, f->in[0], b->store), dk = 0, dv = 0;
  for (int64_t step = 0; step < b->cp; step++) {
    mal_emit send = {0};
    if (step + 1 < b->cp) mal_backward_emit(b, send = pass_on(b, k, v));
    mal_emit g = {.op = MAL_OP_ATTENTION,
                  .dtype = f->dtype,
                  .variant = f->variant,
                  .origin = f->origin,
                  .flags = (uint16_t)(MAL_INS_GRAD | MAL_INS_CAUSAL | (step ? MAL_INS_ACCUMULATE : 0)),
                  .in = {q, k, v, out, mal_grad(b, f->out[0]), lse},
                  .out = {dq, mal_grad_buffer(b, f->in[1], b->store), mal_grad_buffer(b, f->in[2], b->store)}};
    step_sizes(&g, c, b->cp, step);
    mal_backward_emit(b, g);
    if (dk) {
      mal_backward_emit(b, (mal_emit){.op = MAL_OP_ADD,
                                      .dtype = b->store,
                                      .flags = MAL_INS_GRAD,
                                      .in = {dk, g.out[1]},
                                      .out = {g.out[1]},
                                      .v = {mal_elements(b, dk)}});
      mal_backward_emit(b, (mal_emit){.op = MAL_OP_ADD,
                                      .dtype = b->store,
                                      .flags = MAL_INS_GRAD,
                                      .in = {dv, g.out[2]},
                                      .out = {g.out[2]},
                                      .v = {mal_elements(b, dv)}});
    }
    mal_emit home = pass_on(b, g.out[1], g.out[2]);
    mal_backward_emit(b, home);
    dk = home.out[0], dv = home.out[1];
    k = send.out[0], v = send.out[1];
  }
  mal_add_grad(b, f->in[0], dq);
  mal_add_grad(b, f->in[1], dk);
  mal_add_grad(b, f->in[2], dv);
}

/* Heads for tokens: each rank gets all tokens of its share of heads (Jacobs et al., arXiv:2309.14509). */
static mal_ref exchange(mal_builder *b, core c, mal_ref q, mal_ref k, mal_ref v) {
  int64_t tokens = c.sequences * c.q_len * b->cp;
  c.q_len *= b->cp;
  c.q_heads /= b->cp;
  c.kv_heads = c.kv_heads > b->cp ? c.kv_heads / b->cp : 1;
  mal_emit in = {.op = MAL_OP_COLLECTIVE,
                 .variant = MAL_ALL_TO_ALL,
                 .axes = MAL_AXIS_BIT(MAL_AXIS_CP),
                 .dtype = b->store,
                 .in = {q, k, v}};
  in.out[0] = mal_buffer_new(b, "q", b->store, tokens * c.q_heads * c.d_qk);
  in.out[1] = mal_buffer_new(b, "k", b->store, tokens * c.kv_heads * c.d_qk);
  in.out[2] = mal_buffer_new(b, "v", b->store, tokens * c.kv_heads * c.d_v);
  for (int i = 0; i < 3; i++) in.v[0] += mal_at(b, in.out[i])->bytes;
  mal_forward(b, in);
  mal_ref o = one_core(b, &c, in.out[0], in.out[1], in.out[2]), back = like(b, "attention.out", o);
  mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                            .variant = MAL_ALL_TO_ALL,
                            .axes = MAL_AXIS_BIT(MAL_AXIS_CP),
                            .dtype = b->store,
                            .in = {o},
                            .out = {back},
                            .v = {mal_at(b, o)->bytes}});
  return back;
}

static mal_ref gather_keys(mal_builder *b, mal_ref x) {
  mal_ref all = mal_buffer_new(b, mal_at(b, x)->name, b->store, mal_elements(b, x) * b->cp);
  mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                            .variant = MAL_ALL_GATHER,
                            .axes = MAL_AXIS_BIT(MAL_AXIS_CP),
                            .dtype = b->store,
                            .in = {x},
                            .out = {all},
                            .v = {mal_at(b, all)->bytes},
                            .remake = true});
  return all;
}

mal_ref mal_core_emit(mal_builder *b, mal_ref q, mal_ref k, mal_ref v) {
  core c = core_of(b);
  if (b->cp == 1) return one_core(b, &c, q, k, v);
  if (b->layout->cp_kind == MAL_CP_RING) {
    if (b->layout->attention != MAL_ATT_UNFUSED) return ring(b, &c, q, k, v);
    b->status = mal_fail(b->e, MAL_BAD,
                         _("ring attention (cp = %lld) needs a fused attention kernel. Use attention=flash2, "
                           "or cp-kind=allgather."),
                         (long long)b->cp);
    return q;
  }
  if (b->layout->cp_kind == MAL_CP_ALLGATHER) return one_core(b, &c, q, gather_keys(b, k), gather_keys(b, v));
  if (c.q_heads % b->cp) {
    b->status = mal_fail(b->e, MAL_BAD,
                         _("cp-kind=alltoall shares %lld heads of a rank out over cp = %lld, which must divide "
                           "them. Use cp-kind=ring, or another cp."),
                         (long long)c.q_heads, (long long)b->cp);
    return q;
  }
  return exchange(b, c, q, k, v);
}

/* --- grouped-query attention --- */

mal_ref mal_out_projection(mal_builder *b, mal_ref x, mal_ref *bias) {
  const mal_layer_kind *k = b->kind;
  mal_linear l = {.name = "out.weight",
                  .role = MAL_W_OUT,
                  .cut = MAL_CUT_ROW,
                  .x = x,
                  .rows = b->tokens,
                  .adapt = true,
                  .width = k->heads / b->tp * k->v_head_dim,
                  .pieces = 1,
                  .piece_name = {"attention.projected"},
                  .piece = {b->hidden},
                  .keep_bias = true};
  mal_linear_emit(b, &l);
  *bias = l.bias;
  return l.out[0];
}

mal_ref mal_attention_emit(mal_builder *b, mal_ref x, mal_ref *bias) {
  const mal_layer_kind *kind = b->kind;
  int64_t q_width = kind->heads / b->tp * kind->head_dim;
  int64_t kv_width = (kind->kv_heads > b->tp ? kind->kv_heads / b->tp : 1) * kind->head_dim;
  mal_linear l = {.name = "qkv.weight",
                  .role = MAL_W_QKV,
                  .cut = MAL_CUT_COLUMN,
                  .x = x,
                  .rows = b->tokens,
                  .width = b->hidden,
                  .pieces = 3,
                  .piece_name = {"q", "k", "v"},
                  .piece = {q_width, kv_width, kv_width},
                  .adapt = true};
  mal_linear_emit(b, &l);
  if (b->status != MAL_OK) return x;
  mal_ref q = l.out[0], k = l.out[1], v = l.out[2];
  if (kind->qk_norm) {
    bool wide = mal_has_norm(b, q_width) && !mal_has_norm(b, kind->head_dim);
    q = mal_norm_emit(b, MAL_W_NORM, kind->norm, q, wide ? q_width : kind->head_dim, "q.normed");
    k = mal_norm_emit(b, MAL_W_NORM, kind->norm, k, wide ? kv_width : kind->head_dim, "k.normed");
  }
  rotate(b, &q, &k);
  return mal_out_projection(b, mal_core_emit(b, q, k, v), bias);
}
