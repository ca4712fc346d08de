/* What a chunk of each collective moves. A chunk is a stretch of one piece of one part. Bytes that went from one member to
 * another are counted here, where they are moved. */
#include "core/units.h"
#include "engine/comm/reduce.h"
#include "engine/comm/shm.h"
#include <string.h>

typedef struct stretch {
  int part, from, to;   /* the piece's owner; all-to-all: piece `to` of member `from` */
  int64_t first, count; /* elements of the whole buffer; all-to-all: of the piece */
} stretch;

int64_t shm_bytes(mal_dtype type, int64_t elements) {
  return type == MAL_F4 ? elements / 2 : elements * (int64_t)mal_dtype_bytes[type];
}

static int64_t chunk_elements(mal_dtype type) { return (int64_t)(SHM_CHUNK_BYTES / mal_dtype_bytes[type]); }

/* Elements of a piece (the last may have fewer) and how many pieces there are. A broadcast has one. */
static int64_t pieces_of(const mal_comm_call *call, int part, int32_t size, int64_t *each) {
  int64_t n = call->op == MAL_BROADCAST ? 1 : size;
  *each = (call->elements[part] + n - 1) / n;
  return call->op == MAL_ALL_TO_ALL ? n * n : n;
}

static int64_t part_chunks(const mal_comm_call *call, int part, int32_t size, int64_t *a_piece) {
  int64_t each, pieces = pieces_of(call, part, size, &each), chunk = chunk_elements((mal_dtype)call->dtype);
  *a_piece = (each + chunk - 1) / chunk;
  return pieces * *a_piece;
}

static int64_t all_chunks(const mal_comm_call *call, int32_t size) {
  int64_t all = 0, a_piece;
  for (int p = 0; p < MAL_COMM_PARTS; p++) all += part_chunks(call, p, size, &a_piece);
  return all;
}

int32_t shm_chunks(const mal_comm_call *call, int32_t size) { return (int32_t)all_chunks(call, size); }

int64_t shm_call_bytes(const mal_comm_call *call) {
  int64_t bytes = 0;
  for (int p = 0; p < MAL_COMM_PARTS; p++) bytes += shm_bytes((mal_dtype)call->dtype, call->elements[p]);
  return bytes;
}

static stretch stretch_of(const mal_comm_call *call, int32_t size, int64_t index) {
  stretch s = {0};
  int64_t a_piece, each, n;
  while (index >= (n = part_chunks(call, s.part, size, &a_piece))) {
    index -= n;
    s.part++;
  }
  pieces_of(call, s.part, size, &each);
  int64_t piece = index / a_piece, chunk = chunk_elements((mal_dtype)call->dtype), begin = index % a_piece * chunk;
  int64_t end = begin + chunk < each ? begin + chunk : each;
  if (call->op == MAL_ALL_TO_ALL) {
    s.from = (int)(piece / size);
    s.to = (int)(piece % size);
  } else {
    s.from = (int)piece;
    begin += piece * each;
    end += piece * each;
    if (end > call->elements[s.part]) end = call->elements[s.part];
  }
  s.first = begin;
  s.count = end > begin ? end - begin : 0;
  return s;
}

static void sent(shm_group *g, int member, int64_t bytes) {
  atomic_fetch_add_explicit(&g->seats[member].sent_bytes, bytes, memory_order_relaxed);
}

typedef struct task {
  shm_group *g;
  const shm_slot *slot;
  const mal_comm_call *call;
  stretch s;
  int64_t bytes; /* of the stretch */
} task;

static const void *in_of(const task *t, int member, int64_t element) {
  const mal_comm_call *call = &t->slot->member[member].call;
  return (const char *)call->in[t->s.part] + shm_bytes((mal_dtype)call->dtype, element);
}

static void *out_of(const task *t, int member, int64_t element) {
  const mal_comm_call *call = &t->slot->member[member].call;
  return (char *)call->out[t->s.part] + shm_bytes((mal_dtype)call->dtype, element);
}

static void copy(void *to, const void *from, int64_t bytes) {
  if (to != from) memcpy(to, from, (size_t)bytes);
}

static void move_all_reduce(task *t) {
  int n = t->g->size;
  const void *ins[SHM_RANKS];
  void *outs[SHM_RANKS];
  int i = 0;
  do {
    ins[i] = in_of(t, i, t->s.first);
    outs[i] = out_of(t, i, t->s.first);
  } while (++i < n);
  mal_reduce((mal_dtype)t->call->dtype, t->call->reduction == MAL_MAX, ins, n, outs, n, t->s.count);
  for (i = 0; i < n; i++) sent(t->g, i, i == t->s.from ? (n - 1) * t->bytes : t->bytes);
}

static void move_reduce_scatter(task *t) {
  int64_t each = (t->call->elements[t->s.part] + t->g->size - 1) / t->g->size, into = t->s.first - t->s.from * each;
  int n = t->g->size;
  const void *ins[SHM_RANKS];
  void *out = out_of(t, t->s.from, into);
  int i = 0;
  do ins[i] = in_of(t, i, t->s.first);
  while (++i < n);
  mal_reduce((mal_dtype)t->call->dtype, t->call->reduction == MAL_MAX, ins, n, &out, 1, t->s.count);
  for (i = 0; i < n; i++)
    if (i != t->s.from) sent(t->g, i, t->bytes);
}

static void move_all_gather(task *t) {
  int64_t each = (t->call->elements[t->s.part] + t->g->size - 1) / t->g->size;
  const void *from = in_of(t, t->s.from, t->s.first - t->s.from * each);
  for (int i = 0; i < t->g->size; i++) copy(out_of(t, i, t->s.first), from, t->bytes);
  sent(t->g, t->s.from, (t->g->size - 1) * t->bytes);
}

static void move_all_to_all(task *t) {
  int64_t each = t->call->elements[t->s.part] / t->g->size;
  copy(out_of(t, t->s.to, t->s.from * each + t->s.first), in_of(t, t->s.from, t->s.to * each + t->s.first), t->bytes);
  if (t->s.to != t->s.from) sent(t->g, t->s.from, t->bytes);
}

static void move_broadcast(task *t) {
  int root = t->call->root;
  const void *from = in_of(t, root, t->s.first);
  for (int i = 0; i < t->g->size; i++) copy(out_of(t, i, t->s.first), from, t->bytes);
  sent(t->g, root, (t->g->size - 1) * t->bytes);
}

static void (*const movers[])(task *) = {[MAL_ALL_REDUCE] = move_all_reduce,
                                         [MAL_ALL_GATHER] = move_all_gather,
                                         [MAL_REDUCE_SCATTER] = move_reduce_scatter,
                                         [MAL_ALL_TO_ALL] = move_all_to_all,
                                         [MAL_BROADCAST] = move_broadcast};
_Static_assert(sizeof movers / sizeof *movers == MAL_COLLECTIVES, "one for each collective");

void shm_move(shm_group *g, const shm_slot *slot, int32_t chunk) {
  task t = {.g = g, .slot = slot, .call = &slot->member[0].call};
  t.s = stretch_of(t.call, g->size, chunk);
  t.bytes = shm_bytes((mal_dtype)t.call->dtype, t.s.count);
  if (t.bytes) movers[t.call->op](&t);
}

/* --- what a member may bring ------------------------------------------------------------------------------------------- */

static mal_status wrong(mal_comm *c, const shm_group *g, const mal_comm_call *call, const char *what, mal_error *e) {
  return mal_fail(e, MAL_FAULT, _("%s '%s' in group %s, rank %d: %s."),
                  call->op >= 0 && call->op < MAL_COLLECTIVES ? mal_collective_name[call->op] : _("collective"),
                  call->name ? call->name : "", g->name, c->rank, what);
}

mal_status shm_check(mal_comm *c, const shm_group *g, const mal_comm_call *call, mal_error *e) {
  if (call->op < 0 || call->op >= MAL_COLLECTIVES) return wrong(c, g, call, _("there is no such operation"), e);
  if (call->dtype < 0 || call->dtype >= MAL_DTYPES) return wrong(c, g, call, _("there is no such type"), e);
  bool sums = call->op == MAL_ALL_REDUCE || call->op == MAL_REDUCE_SCATTER;
  if (sums && !mal_reduces((mal_dtype)call->dtype)) return wrong(c, g, call, _("this type has no sums; cast first"), e);
  if (call->op == MAL_BROADCAST && (call->root < 0 || call->root >= g->size))
    return wrong(c, g, call, _("the root is no member"), e);
  int64_t all = 0;
  for (int p = 0; p < MAL_COMM_PARTS; p++) {
    int64_t n = call->elements[p], each;
    if (n < 0 || n > INT64_MAX / 16) return wrong(c, g, call, _("the number of elements is out of bounds"), e);
    if (!n) continue;
    if (call->op == MAL_ALL_TO_ALL && n % g->size)
      return wrong(c, g, call, _("elements are no multiple of the members"), e);
    if (call->op == MAL_ALL_TO_ALL && call->in[p] == call->out[p])
      return wrong(c, g, call, _("it cannot be in place"), e);
    pieces_of(call, p, g->size, &each);
    if (call->dtype == MAL_F4 && (n % 2 || (each % 2 && each < n)))
      return wrong(c, g, call, _("pieces of 4-bit elements must be even"), e);
    all += n / SHM_CHUNK_BYTES;
  }
  if (all > 1 << 20 || all_chunks(call, g->size) >= 1 << SHM_CLAIM_BITS)
    return wrong(c, g, call, _("it is too large for one call"), e);
  return MAL_OK;
}
