#include "engine/checkpoint/shard.h"
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie in memory");

/* --- what a rank holds --------------------------------------------------------------------------------------------------- */

static void add(mal_arena *a, rectangles *r, rectangle x) {
  if (!x.rows || !x.cols) return;
  if (r->count == r->room) {
    int32_t room = r->room ? 2 * r->room : 256;
    r->at = mal_grow(a, r->at, (size_t)r->room, (size_t)room, sizeof *r->at);
    r->room = room;
  }
  r->at[r->count++] = x;
}

/* Elements [from, to) of a piece: the rest of a row, whole rows, the beginning of a row. */
static void add_range(mal_arena *a, rectangles *r, const mal_piece *p, int32_t kind, int64_t from, int64_t to,
                      float *numbers) {
  while (from < to) {
    int64_t row = from / p->cols, col = from % p->cols, rows = 1, cols = p->cols - col;
    if (col == 0 && to - from >= p->cols) rows = (to - from) / p->cols;
    if (rows == 1 && cols > to - from) cols = to - from;
    add(a, r, (rectangle){p->tensor, kind, p->row + row, rows, p->col + col, cols, numbers, 0});
    from += rows * cols;
    numbers += rows * cols;
  }
}

/* Without ZeRO every data-parallel rank has all moments: those of the rank that owns the weights count. */
static bool has_all_moments(const mal_rank_state *s) {
  int64_t have = 0;
  for (int32_t i = 0; i < s->n_shards; i++) have += s->shards[i].n;
  return have >= s->elements;
}

void mal_rectangles_of(mal_arena *a, const mal_rank_state *s, bool owned, rectangles *r) {
  bool weights = s->owns_param || !owned, moments = s->owns_param || !owned || !has_all_moments(s);
  for (int32_t i = 0; i < s->n_pieces; i++) {
    const mal_piece *p = &s->pieces[i];
    int64_t end = p->at + p->rows * p->cols;
    if (owned && !p->owned) continue;
    if (weights) add_range(a, r, p, 0, 0, end - p->at, s->param + p->at);
    for (int32_t k = 0; k < s->n_shards && moments; k++) {
      const mal_shard *x = &s->shards[k];
      int64_t from = x->at > p->at ? x->at : p->at, to = x->at + x->n < end ? x->at + x->n : end;
      for (int m = 0; m < 2 && from < to; m++)
        if (s->moment[m]) add_range(a, r, p, 1 + m, from - p->at, to - p->at, s->moment[m] + x->state + from - x->at);
    }
  }
}

/* --- the head of a shard --------------------------------------------------------------------------------------------------- */

static const char magic[8] = {'M', 'A', 'L', 'S', 'H', 'A', 'R', 'D'};

void mal_shard_encode(const rectangles *r, int64_t bytes, uint8_t *head) {
  const uint32_t counts[2] = {SHARD_VERSION, (uint32_t)r->count};
  memcpy(head, magic, sizeof magic);
  memcpy(head + 8, counts, sizeof counts);
  memcpy(head + 16, &bytes, sizeof bytes);
  for (int32_t i = 0; i < r->count; i++) {
    const rectangle *x = &r->at[i];
    uint8_t *to = head + SHARD_HEAD_BYTES + (int64_t)i * SHARD_RECTANGLE_BYTES;
    const int32_t what[2] = {x->tensor, x->kind};
    const int64_t where[5] = {x->row, x->rows, x->col, x->cols, x->at_byte};
    memcpy(to, what, sizeof what);
    memcpy(to + sizeof what, where, sizeof where);
  }
}

int64_t mal_shard_head_bytes(const uint8_t *first, int64_t file_bytes) {
  uint32_t counts[2];
  int64_t bytes;
  memcpy(counts, first + 8, sizeof counts);
  memcpy(&bytes, first + 16, sizeof bytes);
  int64_t head = SHARD_HEAD_BYTES + (int64_t)counts[1] * SHARD_RECTANGLE_BYTES;
  bool good = memcmp(first, magic, sizeof magic) == 0 && counts[0] == SHARD_VERSION && bytes == file_bytes &&
              head <= file_bytes - SHARD_TAIL_BYTES;
  return good ? head : -1;
}

static bool inside(const rectangle *x, const mal_tensors *t, int64_t head_bytes, int64_t file_bytes) {
  if (x->tensor < 0 || x->tensor >= t->count || x->kind < 0 || x->kind >= SHARD_KINDS) return false;
  const mal_tensor *tensor = &t->at[x->tensor];
  if (x->row < 0 || x->rows < 1 || x->rows > tensor->rows || x->row > tensor->rows - x->rows) return false;
  if (x->col < 0 || x->cols < 1 || x->cols > tensor->cols || x->col > tensor->cols - x->cols) return false;
  if (x->at_byte < head_bytes || x->at_byte > file_bytes - SHARD_TAIL_BYTES) return false;
  int64_t room = file_bytes - SHARD_TAIL_BYTES - x->at_byte;
  return x->rows <= room / (int64_t)sizeof(float) / x->cols;
}

mal_status mal_shard_decode(mal_arena *a, const char *path, const uint8_t *head, int64_t head_bytes, int64_t file_bytes,
                            const mal_tensors *t, rectangles *r, mal_error *e) {
  if (head_bytes < SHARD_HEAD_BYTES || mal_shard_head_bytes(head, file_bytes) != head_bytes)
    return mal_fail(e, MAL_BAD, _("%s: byte 0: this is no shard of a checkpoint of version %d."), path, SHARD_VERSION);
  int64_t n = (head_bytes - SHARD_HEAD_BYTES) / SHARD_RECTANGLE_BYTES;
  for (int64_t i = 0; i < n; i++) {
    const uint8_t *from = head + SHARD_HEAD_BYTES + i * SHARD_RECTANGLE_BYTES;
    int32_t what[2];
    int64_t where[5];
    memcpy(what, from, sizeof what);
    memcpy(where, from + sizeof what, sizeof where);
    rectangle x = {what[0], what[1], where[0], where[1], where[2], where[3], NULL, where[4]};
    if (!inside(&x, t, head_bytes, file_bytes))
      return mal_fail(e, MAL_BAD, _("%s: byte %lld: a rectangle that is not in its tensor or not in the file."), path,
                      (long long)(SHARD_HEAD_BYTES + i * SHARD_RECTANGLE_BYTES));
    add(a, r, x);
  }
  return MAL_OK;
}
