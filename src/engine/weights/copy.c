#include "engine/weights/weights.h"
#include <stdlib.h>

enum { MOST_PIECES = 4096 };
static const int64_t most_numbers = INT64_C(1) << 26; /* 256 MiB at a time */

typedef struct copying {
  mal_weight_source *source;
  const void *context;
  const mal_tensors *tensors;
  mal_weight_writer *to;
  mal_piece pieces[MOST_PIECES];
  mal_rank_state state;
} copying;

static mal_status flush(copying *c, mal_error *e) {
  if (!c->state.n_pieces) return MAL_OK;
  mal_status status = c->source(c->context, c->tensors, &c->state, e);
  if (!status) status = mal_weight_writer_put(c->to, &c->state, e);
  c->state.n_pieces = 0, c->state.elements = 0;
  return status;
}

/* Whole rows of a tensor, as many as there is room for. */
static mal_status copy_tensor(copying *c, int32_t tensor, int64_t room, mal_error *e) {
  const mal_tensor *t = &c->tensors->at[tensor];
  mal_status status = MAL_OK;
  for (int64_t row = 0, rows; row < t->rows && !status; row += rows) {
    rows = (room - c->state.elements) / t->cols;
    if (rows < 1 || c->state.n_pieces == MOST_PIECES) {
      status = flush(c, e);
      rows = room / t->cols;
    }
    if (rows > t->rows - row) rows = t->rows - row;
    c->pieces[c->state.n_pieces++] = (mal_piece){tensor, row, rows, 0, t->cols, c->state.elements, true};
    c->state.elements += rows * t->cols;
  }
  return status;
}

mal_status mal_weights_copy(mal_weight_source *source, const void *context, const mal_tensors *t, mal_weight_writer *w,
                            mal_error *e) {
  copying *c = calloc(1, sizeof *c);
  int64_t all = 0, room = 1;
  for (int32_t i = 0; i < t->count; i++) {
    all += t->at[i].rows * t->at[i].cols;
    if (t->at[i].cols > room) room = t->at[i].cols;
  }
  if (room < most_numbers) room = all < most_numbers && all > room ? all : most_numbers;
  float *numbers = malloc((size_t)room * sizeof *numbers);
  mal_status status = c && numbers ? MAL_OK : mal_fail(e, MAL_FAULT, _("out of memory while weights are copied."));
  if (!status) {
    c->source = source, c->context = context, c->tensors = t, c->to = w;
    c->state = (mal_rank_state){.pieces = c->pieces, .param = numbers, .owns_param = true};
    for (int32_t i = 0; i < t->count && !status; i++) status = copy_tensor(c, i, room, e);
    if (!status) status = flush(c, e);
  }
  free(numbers);
  free(c);
  return status;
}
