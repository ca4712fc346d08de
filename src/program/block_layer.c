/* One transformer layer: how norms, attention, MLP and residuals follow one another. */
#include "program/builder.h"

static mal_ref stream_norm(mal_builder *b, mal_ref x, const char *name) {
  return mal_norm_emit(b, MAL_W_NORM, b->kind->norm, x, b->hidden, name);
}

/* Rows of this rank in, partial sums out. */
static mal_ref mixer(mal_builder *b, mal_ref x, mal_ref *bias) {
  if (b->kind->mixer == MAL_MLA) return mal_mla_emit(b, x, bias);
  return mal_attention_emit(b, mal_enter_column(b, x, true), bias);
}

/* Rows of this rank in and out. */
static mal_ref mlp(mal_builder *b, mal_ref x, mal_ref *bias) {
  if (b->kind->mlp == MAL_MLP_MOE) return mal_moe_emit(b, x);
  mal_ref entered = mal_enter_column(b, x, true);
  bool apart = b->profile->gate_enters_apart && b->kind->gated && b->tp > 1 && !b->sp;
  return mal_leave_row(b, mal_mlp_emit(b, entered, apart ? mal_enter_column(b, x, true) : 0, bias));
}

/* x + f(norm(x)), x + norm(f(norm(x))) with four norms, x + norm(f(x)) with norms behind. */
static mal_ref half(mal_builder *b, mal_ref x, bool attention, const char *name) {
  const mal_layer_kind *k = b->kind;
  mal_ref bias = 0, y = k->post_norm ? x : stream_norm(b, x, attention ? "norm1" : "norm2");
  if (b->status != MAL_OK) return x;
  y = attention ? mal_leave_row(b, mixer(b, y, &bias)) : mlp(b, y, &bias);
  if (b->status != MAL_OK) return x;
  if (k->norms >= 4 || k->post_norm) {
    y = stream_norm(b, mal_sum_emit(b, y, bias, 0, "biased"), attention ? "norm1.post" : "norm2.post");
    bias = 0;
  }
  return mal_residual_emit(b, y, bias, x, name);
}

/* x + attention(norm(x)) + mlp(norm(x)), the same norm or two; one sum over tp for both (Wang, Komatsuzaki, GPT-J-6B). */
static mal_ref side_by_side(mal_builder *b, mal_ref x) {
  mal_ref bias[2] = {0, 0}, n1 = stream_norm(b, x, "norm1"), n2 = b->kind->norms >= 2 ? stream_norm(b, x, "norm2") : n1;
  mal_ref e1 = mal_enter_column(b, n1, true), e2 = n1 == n2 ? e1 : mal_enter_column(b, n2, true);
  mal_ref a = mal_attention_emit(b, e1, &bias[0]);
  if (b->status != MAL_OK) return x;
  mal_ref m = mal_mlp_emit(b, e2, 0, &bias[1]);
  if (b->status != MAL_OK) return x;
  mal_ref y = mal_leave_row(b, mal_sum_emit(b, a, m, 0, "branches"));
  if (bias[0] && bias[1]) {
    y = mal_sum_emit(b, y, bias[0], 0, "biased");
    bias[0] = 0;
  }
  return mal_residual_emit(b, y, bias[0] ? bias[0] : bias[1], x, "y");
}

void mal_layer_block(mal_builder *b) {
  mal_params_init(b, b->kind->weights, b->kind->n_weights, NULL);
  b->input = mal_buffer_in(b, "x", b->store, b->shard_tokens * b->hidden, MAL_R_IO);
  b->side[b->input].needs = !b->r->no_input_grad;
  if (b->kind->parallel_block && b->kind->mlp == MAL_MLP_DENSE && b->kind->mixer == MAL_ATTENTION)
    b->output = side_by_side(b, b->input);
  else
    b->output = half(b, half(b, b->input, true, "middle"), false, "y");
}
