/* Head: final norm, logits, loss. The loss is seeded here: backward of this block needs nothing from above.
 *
 * Vocabulary-parallel cross entropy: Shoeybi et al., arXiv:1909.08053, section 3: only row maxima and sums cross ranks.
 * The profile says how many bytes a logit takes at the peak, all copies together: the 16-bit logits or their gradient, and
 * beside them what is kept: an fp32 copy, the probabilities (in its place, or apart), and what else there is. */
#include "program/builder.h"

static bool of_head(const mal_builder *b, const mal_weight *w) {
  bool tied = b->model->tied_embeddings && w->role == MAL_W_EMBED && w->split == MAL_SPLIT_VOCAB;
  return w->role == MAL_W_FINAL_NORM || w->role == MAL_W_HEAD || tied;
}

static void mark_tied(mal_builder *b) {
  for (int i = 0; i < b->n_params; i++) {
    bool matrix = b->weights[i].split == MAL_SPLIT_VOCAB, embedding = b->weights[i].role == MAL_W_EMBED;
    b->params[i].shared = (matrix && b->r->tied_here) || (embedding && b->layout->pp == 1);
    if (embedding && !b->params[i].shared && !b->lora) b->out->tied_elements = b->params[i].elements;
  }
}

static mal_ref hidden_rows(mal_builder *b) {
  mal_ref x = b->input;
  if (b->model->final_norm) x = mal_norm_emit(b, MAL_W_FINAL_NORM, b->model->norm, x, b->hidden, "final.normed");
  x = mal_enter_column(b, x, false);
  int matrices = 0;
  for (int i = 0; i < b->n_weights; i++) matrices += b->weights[i].rank > 1 && b->weights[i].split == MAL_SPLIT_NONE;
  if (!matrices) return x;
  mal_linear l = {.name = "projection.weight",
                  .role = MAL_W_HEAD,
                  .cut = MAL_CUT_NONE,
                  .x = x,
                  .rows = b->tokens,
                  .width = b->hidden,
                  .pieces = 1,
                  .piece_name = {"projected"},
                  .piece = {b->model->embedding_width},
                  .high = true};
  mal_linear_emit(b, &l);
  return l.out[0];
}

static mal_ref logits_buffer(mal_builder *b, const char *name, mal_dtype type, int64_t elements) {
  mal_ref x = mal_buffer_new(b, name, type, elements);
  mal_at(b, x)->cause = MAL_MEM_LOGITS;
  return x;
}

static mal_ref logits_of(mal_builder *b, mal_ref x, int64_t columns) {
  mal_linear l = {.name = "head.weight",
                  .role = MAL_W_HEAD,
                  .cut = MAL_CUT_COLUMN,
                  .x = x,
                  .rows = b->tokens,
                  .width = b->model->embedding_width ? b->model->embedding_width : b->hidden,
                  .pieces = 1,
                  .piece_name = {"logits"},
                  .piece = {columns},
                  .high = true};
  if (!mal_has_weight(b, MAL_W_HEAD, true)) l.role = MAL_W_EMBED;
  mal_linear_emit(b, &l);
  mal_at(b, l.out[0])->cause = MAL_MEM_LOGITS;
  if (b->tp == 1 || b->profile->logits == MAL_LOGITS_SHARDED) return l.out[0];
  mal_ref all = logits_buffer(b, "logits.gathered", b->store, b->tokens * columns * b->tp);
  mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                            .variant = MAL_ALL_GATHER,
                            .axes = MAL_AXIS_BIT(MAL_AXIS_TP),
                            .dtype = b->store,
                            .in = {l.out[0]},
                            .out = {all},
                            .v = {mal_at(b, all)->bytes},
                            .rule = MAL_RULE_UNGATHER});
  return all;
}

static void reduce_over_tp(mal_builder *b, mal_ref x, uint16_t flags) {
  mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                            .variant = MAL_ALL_REDUCE,
                            .axes = MAL_AXIS_BIT(MAL_AXIS_TP),
                            .dtype = MAL_F32,
                            .flags = flags,
                            .in = {x},
                            .out = {x},
                            .v = {mal_at(b, x)->bytes},
                            .rule = MAL_RULE_NONE});
}

static mal_ref copy_of(mal_builder *b, const char *name, mal_ref x, mal_dtype type, int64_t elements) {
  mal_ref y = logits_buffer(b, name, type, elements);
  mal_forward(b, (mal_emit){.op = type == MAL_F32 ? MAL_OP_CAST : MAL_OP_COPY,
                            .dtype = (uint8_t)type,
                            .in = {x},
                            .out = {y},
                            .cause = MAL_TIME_MEMORY + 1,
                            .v = {elements},
                            .rule = MAL_RULE_NONE});
  return y;
}

/* rows: tokens; cols: columns here; reads `logits` or what was made of them; leaves probabilities in `into`. */
static mal_ref cross_entropy(mal_builder *b, mal_ref read, mal_ref labels, mal_ref into, int64_t cols,
                             mal_ref *maxima) {
  int64_t rows = b->tokens;
  bool parallel = b->tp > 1 && b->profile->logits == MAL_LOGITS_SHARDED;
  mal_ref most = *maxima = 0, sums = mal_buffer_new(b, "loss.sums", MAL_F32, 2 * rows);
  if (parallel) {
    most = *maxima = mal_buffer_new(b, "loss.maxima", MAL_F32, rows);
    mal_forward(b, (mal_emit){.op = MAL_OP_REDUCE_ROWS,
                              .variant = 1,
                              .dtype = MAL_F32,
                              .in = {read},
                              .out = {most},
                              .v = {rows, cols},
                              .rule = MAL_RULE_NONE});
    reduce_over_tp(b, most, MAL_INS_MAX);
  }
  mal_forward(b, (mal_emit){.op = MAL_OP_CROSS_ENTROPY,
                            .dtype = MAL_F32,
                            .in = {read, labels, most},
                            .out = {sums, into},
                            .v = {rows, cols},
                            .rule = MAL_RULE_NONE});
  if (parallel) reduce_over_tp(b, sums, 0);
  if (into && !b->profile->fused_cross_entropy)
    mal_forward(b, (mal_emit){.op = MAL_OP_SCALE,
                              .dtype = MAL_F32,
                              .in = {into, sums},
                              .out = {into},
                              .v = {rows * cols},
                              .rule = MAL_RULE_NONE});
  return sums;
}

static void loss(mal_builder *b, mal_ref logits, int64_t cols) {
  int64_t n = b->tokens * cols, size = (int64_t)mal_dtype_bytes[b->store];
  int64_t held = b->profile->logits_bytes > size ? b->profile->logits_bytes : size, rest = held - size;
  mal_ref labels = mal_token_buffer(b, "labels"), maxima;
  mal_emit seed = {.op = MAL_OP_CROSS_ENTROPY,
                   .dtype = b->store,
                   .silent = true,
                   .rule = MAL_RULE_LOSS,
                   .in = {logits},
                   .v = {b->tokens, cols}};
  b->logits_bytes = held * n;
  if (rest < 4) { /* the gradient in place of the logits, or beside them */
    seed.in[1] = logits;
    seed.in[3] = cross_entropy(b, logits, labels, 0, cols, &maxima);
    seed.in[4] = maxima; /* the logits are read again: what they were taken relative to is too */
    if (rest < size) seed.out[0] = logits;
  } else {
    mal_ref wide = copy_of(b, "logits.fp32", logits, MAL_F32, n), into = wide;
    if (rest >= 8) into = logits_buffer(b, "probabilities", MAL_F32, n);
    int64_t extra = rest - (rest >= 8 ? 8 : 4);
    if (extra > 0) seed.in[5] = copy_of(b, "logits.copies", wide, MAL_I8, extra * n);
    seed.in[1] = into;
    seed.in[3] = cross_entropy(b, wide, labels, into, cols, &maxima);
    if (into != wide) seed.in[4] = wide;
  }
  seed.in[2] = labels;
  mal_forward(b, seed);
}

void mal_head_block(mal_builder *b) {
  mal_params_init(b, b->model->weights, b->model->n_weights, of_head);
  mark_tied(b);
  b->input = mal_buffer_in(b, "x", b->store, b->shard_tokens * b->hidden, MAL_R_IO);
  b->side[b->input].needs = true;
  mal_ref x = hidden_rows(b);
  if (b->status != MAL_OK) return;
  int64_t columns = mal_padded_vocab(b->plan) / b->tp;
  mal_ref logits = logits_of(b, x, columns);
  if (b->status != MAL_OK) return;
  loss(b, logits, b->profile->logits == MAL_LOGITS_GATHERED ? columns * b->tp : columns);
}
