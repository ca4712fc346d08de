/* Mixture of experts: route, send tokens to the ranks of their experts, grouped products, send back, weigh and add.
 *
 * Tokens are planned as balanced: each rank sends rows · top_k token copies and receives as many. Under sequence parallelism
 * rows are the rank's shard, so the tensor-parallel ranks do not send the same token several times. Experts cut over etp
 * gather the tokens of their etp group before and scatter the sums after (Liu et al., arXiv:2504.14960, section 3). */
#include "program/builder.h"
#include <math.h>

typedef struct moe {
  int64_t rows;       /* tokens this rank routes */
  int64_t copies;     /* rows · top_k: sent, and received when balanced */
  int64_t group_rows; /* rows that the local experts work on, all together */
  int64_t local;      /* experts here */
  int64_t ffn;        /* columns of an expert here */
  bool gathers;       /* etp ranks hold different tokens */
  bool sliced;        /* tp ranks hold the same tokens, but the experts are not cut as tp: each routes its part */
} moe;

static moe plan_of(const mal_builder *b) {
  const mal_layer_kind *k = b->kind;
  moe m = {.rows = b->shard_tokens, .local = k->experts / b->ep, .ffn = mal_ceil_div(k->ffn, b->etp)};
  m.sliced = !b->sp && b->tp > 1 && b->etp != b->tp;
  if (m.sliced) m.rows = mal_ceil_div(m.rows, b->tp);
  m.copies = m.rows * k->top_k;
  m.gathers = b->etp > 1 && (b->sp || m.sliced);
  m.group_rows = m.copies * (m.gathers ? b->etp : 1);
  return m;
}

/* Of `parts` equal parts of the experts, those that top_k different ones touch. */
static double parts_touched(const mal_builder *b, double parts) {
  double experts = (double)b->kind->experts, here = experts / parts, none = 1;
  for (double i = 0; i < (double)b->kind->top_k; i++) none *= fmax(0, experts - here - i) / (experts - i);
  return parts * (1 - none);
}

/* Bytes of an exchange in which a token goes once to a rank, and once to an NVLink domain that hands it on inside: over those of
 * one copy an expert. Where domains meet, what they send each other decides, and of a plain exchange that is far / size. */
static double sent_once(const mal_builder *b) {
  mal_group g = mal_instruction_group(b->plan, 1 << MAL_AXIS_EP);
  double size = (double)g.size, local = g.ranks_per_nvlink > 1 ? (double)g.ranks_per_nvlink : 1,
         copies = (double)b->kind->top_k;
  if (size <= local) return parts_touched(b, size) / copies;
  double domains = size / local;
  return parts_touched(b, domains) * (domains - 1) / domains / (copies * (size - local) / size);
}

static mal_ref exchange(mal_builder *b, mal_ref x, const char *name) {
  if (b->ep == 1) return x;
  mal_ref y = mal_buffer_new(b, name, b->store, mal_elements(b, x));
  int64_t bytes = mal_at(b, y)->bytes;
  if (b->profile->dispatch_once) bytes = (int64_t)((double)bytes * sent_once(b));
  mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                            .variant = MAL_ALL_TO_ALL,
                            .axes = MAL_AXIS_BIT(MAL_AXIS_EP),
                            .dtype = b->store,
                            .in = {x},
                            .out = {y},
                            .v = {bytes}});
  return y;
}

/* One more pass over the rows of the experts, forward and backward. */
static mal_ref copied(mal_builder *b, mal_ref x, const char *name) {
  mal_ref y = mal_buffer_new(b, name, b->store, mal_elements(b, x));
  mal_forward(b, (mal_emit){.op = MAL_OP_COPY,
                            .dtype = b->store,
                            .in = {x},
                            .out = {y},
                            .cause = MAL_TIME_MEMORY + 1,
                            .v = {mal_at(b, y)->bytes}});
  return y;
}

/* Bias times router weight, its sum with the rows, the parts joined: all in fp32; the cast back. */
static mal_ref with_bias_apart(mal_builder *b, mal_ref x) {
  int64_t n = mal_elements(b, x);
  mal_ref wide = mal_buffer_new(b, "experts.wide", MAL_F32, n), sum = mal_buffer_new(b, "experts.biased", MAL_F32, n),
          joined = mal_buffer_new(b, "experts.joined", MAL_F32, n), y = mal_buffer_new(b, "experts.out", b->store, n);
  mal_forward(b, (mal_emit){.op = MAL_OP_CAST, .dtype = MAL_F32, .in = {x}, .out = {wide}, .v = {n}});
  mal_forward(b, (mal_emit){.op = MAL_OP_SCALE, .dtype = MAL_F32, .in = {wide}, .out = {sum}, .v = {n}});
  mal_forward(b, (mal_emit){.op = MAL_OP_COPY,
                            .dtype = MAL_F32,
                            .in = {sum},
                            .out = {joined},
                            .cause = MAL_TIME_MEMORY + 1,
                            .v = {mal_at(b, joined)->bytes}});
  mal_forward(b, (mal_emit){.op = MAL_OP_CAST, .dtype = b->store, .in = {joined}, .out = {y}, .v = {n}});
  return y;
}

/* How many tokens each rank has for each expert. */
static void exchange_counts(mal_builder *b, mal_ref indices) {
  if (b->ep == 1) return;
  mal_ref all = mal_buffer_new(b, "expert.counts", MAL_I32, b->kind->experts * b->ep);
  mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                            .variant = MAL_ALL_GATHER,
                            .axes = MAL_AXIS_BIT(MAL_AXIS_EP),
                            .dtype = MAL_I32,
                            .in = {indices},
                            .out = {all},
                            .v = {mal_at(b, all)->bytes},
                            .rule = MAL_RULE_NONE});
}

static mal_ref over_etp(mal_builder *b, const moe *m, mal_ref x, bool enter) {
  if (b->etp == 1) return x;
  mal_emit i = {.op = MAL_OP_COLLECTIVE, .axes = MAL_AXIS_BIT(MAL_AXIS_ETP), .dtype = b->store, .in = {x}, .out = {x}};
  int64_t n = mal_elements(b, x);
  if (m->gathers) {
    i.variant = enter ? MAL_ALL_GATHER : MAL_REDUCE_SCATTER;
    i.out[0] = mal_buffer_new(b, mal_at(b, x)->name, b->store, enter ? n * b->etp : n / b->etp);
    i.v[0] = mal_at(b, enter ? i.out[0] : x)->bytes;
    i.remake = false;
  } else if (enter) {
    i.out[0] = mal_buffer_alias(b, x);
    i.rule = MAL_RULE_IDENTITY;
    i.silent = true;
  } else {
    i.variant = MAL_ALL_REDUCE;
    i.v[0] = mal_at(b, x)->bytes;
  }
  mal_forward(b, i);
  return i.out[0];
}

/* Gate and up between bounds, each by itself, then side by side again. */
static void clamp(mal_builder *b, mal_linear *up) {
  for (int p = 0; p < up->pieces; p++) {
    mal_ref x = up->out[p], y = mal_buffer_new(b, "experts.clamped", b->store, mal_elements(b, x));
    mal_forward(b, (mal_emit){.op = MAL_OP_SCALE, .dtype = b->store, .in = {x}, .out = {y}, .v = {mal_elements(b, y)}});
    up->out[p] = copied(b, y, mal_at(b, x)->name);
  }
}

static bool has_bias(const mal_builder *b) {
  for (int i = 0; i < b->n_weights; i++)
    if (b->weights[i].role == MAL_W_EXPERT_DOWN && b->weights[i].rank == 1) return true;
  return false;
}

static mal_ref experts(mal_builder *b, const moe *m, mal_ref x) {
  const mal_layer_kind *k = b->kind;
  int64_t rows = mal_ceil_div(m->group_rows, m->local);
  mal_linear up = {.name = "experts.up.weight",
                   .role = MAL_W_EXPERT_UP,
                   .cut = MAL_CUT_COLUMN,
                   .x = x,
                   .rows = rows,
                   .width = b->hidden,
                   .batch = m->local,
                   .pieces = k->gated ? 2 : 1,
                   .adapt = true,
                   .piece_name = {k->gated ? "experts.gate" : "experts.up", "experts.up"},
                   .piece = {m->ffn, m->ffn}};
  mal_linear_emit(b, &up);
  if (b->status != MAL_OK) return x;
  int from = b->tape.count;
  if (k->clamped && b->profile->clamps_apart) clamp(b, &up);
  mal_linear down = {.name = "experts.down.weight",
                     .role = MAL_W_EXPERT_DOWN,
                     .cut = MAL_CUT_ROW,
                     .rows = rows,
                     .width = m->ffn,
                     .batch = m->local,
                     .pieces = 1,
                     .piece_name = {"experts.out"},
                     .piece = {b->hidden},
                     .adapt = true};
  down.x = mal_activation_emit(b, up.out[0], up.out[1]);
  for (int t = from; b->profile->remakes_expert_act && t < b->tape.count; t++) b->tape.at[t].remake = true;
  mal_linear_emit(b, &down);
  if (b->status == MAL_OK && b->profile->expert_bias_apart && has_bias(b)) return with_bias_apart(b, down.out[0]);
  return down.out[0];
}

static mal_ref shared_experts(mal_builder *b, mal_ref x) {
  const mal_layer_kind *k = b->kind;
  int64_t ffn = mal_ceil_div(k->shared_ffn, b->tp);
  mal_linear up = {.name = "shared.up.weight",
                   .role = MAL_W_SHARED_UP,
                   .cut = MAL_CUT_COLUMN,
                   .x = mal_enter_column(b, x, true),
                   .rows = b->tokens,
                   .width = b->hidden,
                   .pieces = k->gated ? 2 : 1,
                   .adapt = true,
                   .piece_name = {k->gated ? "shared.gate" : "shared.up", "shared.up"},
                   .piece = {ffn, ffn}};
  mal_linear_emit(b, &up);
  if (b->status != MAL_OK) return x;
  mal_linear down = {.name = "shared.down.weight",
                     .role = MAL_W_SHARED_DOWN,
                     .cut = MAL_CUT_ROW,
                     .rows = b->tokens,
                     .width = ffn,
                     .pieces = 1,
                     .piece_name = {"shared.out"},
                     .piece = {b->hidden},
                     .adapt = true};
  down.x = mal_activation_emit(b, up.out[0], up.out[1]);
  mal_linear_emit(b, &down);
  if (b->status != MAL_OK) return x;
  mal_ref y = mal_leave_row(b, down.out[0]);
  if (!k->shared_gate) return y;
  mal_linear gate = {.name = "shared.mix.weight",
                     .role = MAL_W_SHARED_GATE,
                     .cut = MAL_CUT_NONE,
                     .x = x,
                     .rows = b->shard_tokens,
                     .width = b->hidden,
                     .pieces = 1,
                     .piece_name = {"shared.mix"},
                     .piece = {1},
                     .high = true};
  mal_linear_emit(b, &gate);
  if (b->status != MAL_OK) return x;
  mal_ref mixed = mal_buffer_new(b, "shared.mixed", b->store, mal_elements(b, y));
  mal_forward(
      b, (mal_emit){
             .op = MAL_OP_SCALE, .dtype = b->store, .in = {y, gate.out[0]}, .out = {mixed}, .v = {mal_elements(b, y)}});
  return mixed;
}

/* Scores, the best top_k of them with their weights; out: weights, indices. */
static void route(mal_builder *b, const moe *m, mal_ref x, mal_ref chosen[2]) {
  const mal_layer_kind *k = b->kind;
  mal_linear l = {.name = "router.weight",
                  .role = MAL_W_ROUTER,
                  .cut = MAL_CUT_NONE,
                  .x = x,
                  .rows = m->rows,
                  .width = b->hidden,
                  .pieces = 1,
                  .piece_name = {"router.scores"},
                  .piece = {k->experts},
                  .high = true};
  mal_linear_emit(b, &l);
  if (b->status != MAL_OK) return;
  chosen[0] = mal_buffer_new(b, "router.weights", MAL_F32, m->copies);
  chosen[1] = mal_buffer_new(b, "router.indices", MAL_I32, m->copies);
  mal_forward(b, (mal_emit){.op = MAL_OP_ROUTE,
                            .dtype = MAL_F32,
                            .in = {l.out[0]},
                            .out = {chosen[0], chosen[1]},
                            .v = {m->rows, k->experts}});
}

static mal_ref routed_experts(mal_builder *b, const moe *m, mal_ref x, const mal_ref chosen[2]) {
  int64_t n = m->copies * b->hidden;
  mal_ref sent = mal_buffer_new(b, "experts.sent", b->store, n),
          y = mal_buffer_new(b, "experts.sum", b->store, m->rows * b->hidden);
  mal_forward(b, (mal_emit){.op = MAL_OP_PERMUTE, .dtype = b->store, .in = {x, chosen[1]}, .out = {sent}, .v = {n}});
  exchange_counts(b, chosen[1]);
  mal_ref in = over_etp(b, m, exchange(b, sent, "experts.in"), true);
  bool sorts = b->profile->sorts_chunks && b->ep * b->etp > 1 && m->local > 1,
       pads = b->profile->pads_experts && b->low;
  if (sorts) in = copied(b, in, "experts.sorted");
  if (pads) in = copied(b, in, "experts.padded");
  mal_ref out = experts(b, m, in);
  if (b->status != MAL_OK) return x;
  if (pads) out = copied(b, out, "experts.out");
  if (sorts) out = copied(b, out, "experts.out");
  mal_ref back = exchange(b, over_etp(b, m, out, false), "experts.back");
  mal_forward(b, (mal_emit){.op = MAL_OP_PERMUTE,
                            .variant = 1,
                            .dtype = b->store,
                            .in = {back, chosen[1], chosen[0]},
                            .out = {y},
                            .v = {n}});
  return y;
}

mal_ref mal_moe_emit(mal_builder *b, mal_ref x) {
  moe m = plan_of(b);
  mal_ref part = x, chosen[2] = {0, 0}, shared = 0;
  if (m.sliced) {
    part = mal_buffer_new(b, "experts.slice", b->store, m.rows * b->hidden);
    mal_forward(b, (mal_emit){.op = MAL_OP_COPY,
                              .axes = 0,
                              .dtype = b->store,
                              .in = {x},
                              .out = {part},
                              .cause = MAL_TIME_MEMORY + 1,
                              .rule = MAL_RULE_SLICE,
                              .v = {mal_at(b, part)->bytes}});
  }
  route(b, &m, part, chosen);
  if (b->status == MAL_OK && b->kind->shared_ffn) shared = shared_experts(b, x);
  if (b->status != MAL_OK) return x;
  mal_ref y = routed_experts(b, &m, part, chosen);
  if (b->status != MAL_OK) return x;
  if (m.sliced) {
    mal_ref whole = mal_buffer_new(b, "experts.sum", b->store, m.rows * b->tp * b->hidden);
    mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                              .variant = MAL_ALL_GATHER,
                              .axes = MAL_AXIS_BIT(MAL_AXIS_TP),
                              .dtype = b->store,
                              .in = {y},
                              .out = {whole},
                              .v = {mal_at(b, whole)->bytes},
                              .rule = MAL_RULE_UNGATHER});
    y = whole;
  }
  return mal_sum_emit(b, y, shared, 0, "moe.out");
}
