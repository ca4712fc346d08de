/* Embedding: rows of a vocabulary-parallel table, positions, norm, dropout. And what a multi-token-prediction module has
 * before its layer. */
#include "program/builder.h"

static bool of_embedding(const mal_builder *b, const mal_weight *w) {
  (void)b;
  return w->role == MAL_W_EMBED || w->role == MAL_W_POSITION || w->role == MAL_W_EMBED_NORM;
}

/* Each tp rank finds the rows of its part of the vocabulary, zeros elsewhere; their sum is the embedding. With sequence
 * parallelism the sum is scattered; where positions are added to whole sequences, after that. */
static mal_ref embed_rows(mal_builder *b, bool positions) {
  int64_t width = b->model->embedding_width ? b->model->embedding_width : b->hidden, n = b->tokens * width;
  mal_taken table = mal_take(b, MAL_W_EMBED, true, 1, "embedding.weight");
  mal_ref ids = mal_token_buffer(b, "ids"), y = mal_buffer_new(b, "embedding", b->store, n);
  mal_forward(b, (mal_emit){.op = MAL_OP_EMBED, .dtype = b->store, .in = {ids, table.weight}, .out = {y}, .v = {n}});
  bool late = positions && mal_has_weight(b, MAL_W_POSITION, true);
  if (b->tp > 1 && b->sp && !late) {
    y = mal_leave_row(b, y);
  } else if (b->tp > 1) {
    mal_forward(b, (mal_emit){.op = MAL_OP_COLLECTIVE,
                              .variant = MAL_ALL_REDUCE,
                              .axes = MAL_AXIS_BIT(MAL_AXIS_TP),
                              .dtype = b->store,
                              .in = {y},
                              .out = {y},
                              .v = {mal_at(b, y)->bytes}});
  }
  if (!late) return y;
  mal_taken table2 = mal_take(b, MAL_W_POSITION, true, 1, "position.weight");
  mal_ref rows = mal_buffer_new(b, "positions", b->store, n);
  mal_forward(b,
              (mal_emit){.op = MAL_OP_EMBED, .dtype = b->store, .in = {ids, table2.weight}, .out = {rows}, .v = {n}});
  y = mal_sum_emit(b, y, rows, 0, "embedded");
  if (!b->sp) return y;
  mal_ref part = mal_buffer_new(b, "embedded", b->store, n / b->tp);
  mal_forward(b, (mal_emit){.op = MAL_OP_COPY,
                            .dtype = b->store,
                            .in = {y},
                            .out = {part},
                            .cause = MAL_TIME_MEMORY + 1,
                            .rule = MAL_RULE_SLICE,
                            .v = {mal_at(b, part)->bytes}});
  return part;
}

static mal_ref project(mal_builder *b, mal_ref x) {
  if (!mal_has_weight(b, MAL_W_EMBED, true)) return x;
  mal_linear l = {.name = "projection.weight",
                  .role = MAL_W_EMBED,
                  .cut = MAL_CUT_NONE,
                  .x = x,
                  .rows = b->shard_tokens,
                  .width = b->model->embedding_width,
                  .pieces = 1,
                  .piece_name = {"embedded"},
                  .piece = {b->hidden},
                  .high = true};
  mal_linear_emit(b, &l);
  return l.out[0];
}

static bool is_tied_across_stages(const mal_builder *b) {
  return (b->model->tied_embeddings || b->model->mtp_layers > 0) && b->layout->pp > 1;
}

void mal_embed_block(mal_builder *b) {
  mal_params_init(b, b->model->weights, b->model->n_weights, of_embedding);
  if (is_tied_across_stages(b) && b->n_params && !b->lora) b->out->tied_elements = b->params[0].elements;
  mal_ref y = project(b, embed_rows(b, true));
  if (b->model->embed_norm) y = mal_norm_emit(b, MAL_W_EMBED_NORM, b->model->norm, y, b->hidden, "embedding.normed");
  if (b->profile->dropout) {
    mal_emit i = {.op = MAL_OP_DROPOUT, .dtype = b->store, .in = {y}, .v = {mal_elements(b, y)}};
    y = i.out[0] = mal_buffer_new(b, "y", b->store, i.v[0]);
    i.out[1] = mal_buffer_new(b, "dropout.mask", MAL_I8, i.v[0]);
    mal_forward(b, i);
  }
  b->output = y;
}

/* --- multi-token prediction: DeepSeek-V3, arXiv:2412.19437, section 2.2, equation 21 --- */

static bool of_module(const mal_builder *b, const mal_weight *w) {
  int64_t each = 0, before = 0;
  for (const mal_weight *x = b->model->weights; x < b->model->weights + b->model->n_weights; x++) {
    each += x->role == MAL_W_MTP;
    before += x->role == MAL_W_MTP && x < w;
  }
  each /= b->model->mtp_layers > 0 ? b->model->mtp_layers : 1;
  if (w->role == MAL_W_MTP) return before < each - 1; /* of the first module, without the norm of its head */
  return w->role == MAL_W_EMBED && w->split == MAL_SPLIT_VOCAB;
}

void mal_mtp_block(mal_builder *b) {
  mal_params_init(b, b->model->weights, b->model->n_weights, of_module);
  for (int i = 0; i < b->n_params; i++)
    if (b->weights[i].role == MAL_W_EMBED) {
      b->params[i].shared = b->r->tied_here || b->layout->pp == 1;
      if (!b->params[i].shared && !b->lora) b->out->tied_elements = b->params[i].elements;
    }
  b->input = mal_buffer_in(b, "x", b->store, b->shard_tokens * b->hidden, MAL_R_IO);
  b->side[b->input].needs = !b->r->no_input_grad;
  mal_norm norm = b->model->norm;
  mal_ref next = mal_norm_emit(b, MAL_W_MTP, norm, embed_rows(b, false), b->hidden, "next.normed");
  mal_ref state = mal_norm_emit(b, MAL_W_MTP, norm, b->input, b->hidden, "hidden.normed");
  mal_ref both = mal_buffer_new(b, "next.hidden", b->store, 2 * b->shard_tokens * b->hidden);
  mal_forward(b, (mal_emit){.op = MAL_OP_COPY,
                            .dtype = b->store,
                            .cause = MAL_TIME_MEMORY + 1,
                            .in = {next, state},
                            .out = {both},
                            .v = {mal_at(b, both)->bytes}});
  mal_linear l = {.name = "eh.weight",
                  .role = MAL_W_MTP,
                  .cut = MAL_CUT_NONE,
                  .x = both,
                  .rows = b->shard_tokens,
                  .width = 2 * b->hidden,
                  .pieces = 1,
                  .piece_name = {"y"},
                  .piece = {b->hidden}};
  mal_linear_emit(b, &l);
  b->output = l.out[0];
}
