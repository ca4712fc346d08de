/* A stage's table: its computations with messages, slots, and the end of the step. */
#include "program/schedule.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_TABLE = 1 << 28 };

mal_status mal_schedule_check(const mal_layout *l, int64_t micro_batches, mal_error *e) {
  int64_t pp = l->pp;
  mal_pipe p = mal_pipe_of(l, micro_batches);
  const char *name = mal_schedule_name[l->schedule];
  if (pp < 1 || micro_batches < 1)
    return mal_fail(e, MAL_FAULT, _("no pipeline has pp=%lld and accumulation=%lld"), (long long)pp,
                    (long long)micro_batches);
  if (p.chunks > 255 || pp * p.chunks > MAX_TABLE / 8 / micro_batches)
    return mal_fail(e, MAL_BAD,
                    _("the schedule is too long: pp=%lld × vpp=%lld × accumulation=%lld is above %lld. Lower "
                      "accumulation: a smaller --global-batch, a larger micro-batch, or more data parallel ranks."),
                    (long long)pp, (long long)p.chunks, (long long)micro_batches, (long long)(MAX_TABLE / 8));
  if (p.chunks > 1 && p.kind != MAL_INTERLEAVED && p.kind != MAL_DUALPIPE)
    return mal_fail(e, MAL_BAD, _("schedule %s has one chunk per stage; vpp is %lld: leave vpp out or use interleaved"),
                    name, (long long)p.chunks);
  if (p.kind == MAL_INTERLEAVED && micro_batches % pp != 0)
    return mal_fail(e, MAL_BAD,
                    _("interleaved 1F1B needs micro-batches in groups of pp = %lld; there are %lld per rank: "
                      "nearest that work are %lld and %lld"),
                    (long long)pp, (long long)micro_batches,
                    (long long)(micro_batches < pp ? pp : micro_batches / pp * pp),
                    (long long)(micro_batches / pp + 1) * pp);
  if (p.kind == MAL_DUALPIPE && (pp % 2 != 0 || pp > 256 || l->vpp > 1))
    return mal_fail(e, MAL_BAD, _("dualpipe needs an even pp, at most 256, and no vpp; pp is %lld, vpp %lld"),
                    (long long)pp, (long long)l->vpp);
  if (p.kind == MAL_DUALPIPE && (micro_batches % 2 != 0 || micro_batches < 2 * pp))
    return mal_fail(e, MAL_BAD,
                    _("dualpipe needs an even number of micro-batches, at least 2 × pp = %lld; there are %lld"),
                    (long long)(2 * pp), (long long)micro_batches);
  return MAL_OK;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

typedef struct message {
  int64_t key; /* logical time, then what breaks ties alike on both ends */
  mal_step step;
} message;

typedef struct builder {
  const mal_pipe *p;
  int64_t stage;
  mal_step *steps;
  int64_t count;
  message *messages; /* sorted by key */
  int64_t n_messages, next;
  int64_t now;                       /* logical time of the last F or B */
  uint32_t *slot;                    /* by chunk and micro-batch */
  uint32_t *free, *n_free, *n_slots; /* free slots of each chunk */
} builder;

/* At one time B before F, so that W need not wait for the next F; then even senders before odd ones, so that a ring moves
 * in two rounds rather than one by one. */
static int64_t message_key(int64_t time, bool backward, int64_t sender) {
  return (time << 24) | ((int64_t)!backward << 23) | ((sender & 1) << 22) | (sender & 0x3fffff);
}

static void add_messages(void *context, mal_step_op op, int64_t chunk, int64_t m) {
  builder *b = context;
  const mal_pipe *p = b->p;
  if (op == MAL_S_W) return;
  bool backward = op != MAL_S_F;
  int64_t depth = mal_pipe_depth(p), v = mal_pipe_virtual(p, b->stage, chunk), peer, peer_chunk;
  int64_t first = backward ? depth - 1 : 0, last = backward ? 0 : depth - 1;
  mal_step step = {.chunk = (uint8_t)chunk, .micro_batch = (uint32_t)m};
  if (v != first) {
    mal_pipe_neighbour(p, b->stage, chunk, backward ? 1 : -1, &peer, &peer_chunk);
    step.op = backward ? MAL_S_RECV_B : MAL_S_RECV_F;
    if (peer != b->stage)
      b->messages[b->n_messages++] =
          (message){message_key(mal_pipe_time(p, peer, backward, peer_chunk, m), backward, peer), step};
  }
  if (v != last) {
    mal_pipe_neighbour(p, b->stage, chunk, backward ? -1 : 1, &peer, &peer_chunk);
    step.op = backward ? MAL_S_SEND_B : MAL_S_SEND_F;
    if (peer != b->stage)
      b->messages[b->n_messages++] =
          (message){message_key(mal_pipe_time(p, b->stage, backward, chunk, m), backward, b->stage), step};
  }
}

static int by_key(const void *a, const void *b) {
  const message *x = a, *y = b;
  return (x->key > y->key) - (x->key < y->key);
}

/* --- table -------------------------------------------------------------------------------------------------------- */

static uint32_t *slot_of(builder *b, int64_t chunk, int64_t m) { return b->slot + chunk * b->p->micro_batches + m; }

static void put(builder *b, mal_step step) { b->steps[b->count++] = step; }

static void put_messages_before(builder *b, int64_t key) {
  while (b->next < b->n_messages && b->messages[b->next].key < key) {
    mal_step step = b->messages[b->next++].step;
    step.slot = *slot_of(b, step.chunk, step.micro_batch);
    put(b, step);
  }
}

/* A W goes after the sends of what was just computed, before the next message that is waited for. */
static void put_sends(builder *b) {
  int64_t end = message_key(b->now + 1, true, 0), last = b->next - 1;
  for (int64_t i = b->next; i < b->n_messages && b->messages[i].key < end; i++)
    if (b->messages[i].step.op == MAL_S_SEND_F || b->messages[i].step.op == MAL_S_SEND_B) last = i;
  if (last >= b->next) put_messages_before(b, b->messages[last].key + 1);
}

static void add_step(void *context, mal_step_op op, int64_t chunk, int64_t m) {
  builder *b = context;
  uint32_t *slot = slot_of(b, chunk, m), *free = b->free + chunk * b->p->micro_batches;
  if (op == MAL_S_W) {
    put_sends(b);
  } else {
    b->now = mal_pipe_time(b->p, b->stage, op != MAL_S_F, chunk, m);
    put_messages_before(b, message_key(b->now, true, 0));
  }
  if (op == MAL_S_F) *slot = b->n_free[chunk] ? free[--b->n_free[chunk]] : b->n_slots[chunk]++;
  if (op == MAL_S_W || op == MAL_S_BW) free[b->n_free[chunk]++] = *slot;
  put(b, (mal_step){.op = (uint8_t)op, .chunk = (uint8_t)chunk, .micro_batch = (uint32_t)m, .slot = *slot});
}

/* RECV_F comes before its F has a slot: it gets the one that F takes. */
static void settle_receives(builder *b) {
  for (int64_t i = 0; i < b->count; i++)
    if (b->steps[i].op == MAL_S_RECV_F) b->steps[i].slot = *slot_of(b, b->steps[i].chunk, b->steps[i].micro_batch);
}

mal_status mal_schedule_stage(mal_arena *a, const mal_layout *l, int64_t micro_batches, int64_t stage, mal_step **steps,
                              int64_t *count, mal_error *e) {
  mal_status status = mal_schedule_check(l, micro_batches, e);
  if (status != MAL_OK) return status;
  if (stage < 0 || stage >= l->pp)
    return mal_fail(e, MAL_FAULT, _("there is no stage %lld of %lld"), (long long)stage, (long long)l->pp);
  mal_arena scratch;
  mal_arena_init(&scratch);
  mal_pipe p = mal_pipe_of(l, micro_batches);
  mal_pipe_clock(&scratch, &p);
  int64_t works = p.chunks * micro_batches;
  builder b = {.p = &p, .stage = stage};
  b.steps = MAL_ARRAY(a, mal_step, 7 * works + 2);
  b.messages = MAL_ARRAY(&scratch, message, 4 * works);
  b.slot = MAL_ARRAY(&scratch, uint32_t, works);
  b.free = MAL_ARRAY(&scratch, uint32_t, works);
  b.n_free = MAL_ARRAY(&scratch, uint32_t, p.chunks);
  b.n_slots = MAL_ARRAY(&scratch, uint32_t, p.chunks);
  mal_pipe_order(&p, stage, add_messages, &b);
  if (b.n_messages > 1) qsort(b.messages, (size_t)b.n_messages, sizeof *b.messages, by_key);
  mal_pipe_order(&p, stage, add_step, &b);
  put_messages_before(&b, INT64_MAX);
  settle_receives(&b);
  put(&b, (mal_step){.op = MAL_S_SYNC});
  put(&b, (mal_step){.op = MAL_S_OPT});
  *steps = b.steps;
  *count = b.count;
  mal_arena_free(&scratch);
  return MAL_OK;
}

int64_t mal_schedule_peer(const mal_layout *l, int64_t stage, const mal_step *step) {
  mal_pipe p = mal_pipe_of(l, 1);
  bool onward = step->op == MAL_S_SEND_F || step->op == MAL_S_RECV_B;
  int64_t peer, chunk;
  if (step->op < MAL_S_SEND_F || step->op > MAL_S_RECV_B) return -1;
  mal_pipe_neighbour(&p, stage, step->chunk, onward ? 1 : -1, &peer, &chunk);
  return peer;
}

int64_t mal_schedule_chunks(const mal_layout *l) { return mal_pipe_of(l, 1).chunks; }

int64_t mal_schedule_part(const mal_layout *l, int64_t stage, int64_t chunk) {
  mal_pipe p = mal_pipe_of(l, 1);
  return mal_pipe_virtual(&p, stage, chunk);
}

bool mal_schedule_splits(const mal_layout *l) {
  return l->schedule == MAL_ZB_H1 || l->schedule == MAL_ZB_2P || l->schedule == MAL_DUALPIPE;
}

/* --- slots --------------------------------------------------------------------------------------------------------- */

typedef struct counter {
  const mal_held *held; /* by chunk; NULL: only counts */
  int64_t bytes, most_bytes;
  int64_t count[256], most[256];
} counter;

static void count_step(void *context, mal_step_op op, int64_t chunk, int64_t m) {
  static const mal_held nothing;
  counter *c = context;
  const mal_held *held = c->held ? &c->held[chunk] : &nothing;
  (void)m;
  switch (op) {
  case MAL_S_F:
    if (++c->count[chunk] > c->most[chunk]) c->most[chunk] = c->count[chunk];
    c->bytes += held->f_to_b + held->f_to_w;
    break;
  case MAL_S_B: c->bytes += held->b_to_w; break;
  default: c->count[chunk]--; break;
  }
  if (c->bytes > c->most_bytes) c->most_bytes = c->bytes;
  if (op == MAL_S_B || op == MAL_S_BW) c->bytes -= held->f_to_b;
  if (op == MAL_S_W) c->bytes -= held->f_to_w + held->b_to_w;
}

/* The steady state repeats with every group of pp micro-batches, so the first four groups show all that is ever held. */
static mal_pipe shortened(const mal_layout *l, int64_t micro_batches) {
  mal_pipe p = mal_pipe_of(l, micro_batches);
  if (p.kind != MAL_GPIPE && p.micro_batches > 4 * p.pp) p.micro_batches = 4 * p.pp;
  return p;
}

static void count_order(const mal_layout *l, int64_t micro_batches, int64_t stage, counter *c) {
  mal_pipe p = shortened(l, micro_batches);
  mal_pipe_order(&p, stage, count_step, c);
}

void mal_schedule_all_slots(const mal_layout *l, int64_t micro_batches, int64_t stage, int64_t *slots) {
  counter c = {.held = NULL};
  count_order(l, micro_batches, stage, &c);
  memcpy(slots, c.most, (size_t)mal_schedule_chunks(l) * sizeof *slots);
}

int64_t mal_schedule_peak(const mal_layout *l, int64_t micro_batches, int64_t stage, const mal_held *held) {
  counter c = {.held = held};
  if (!mal_schedule_splits(l) && mal_schedule_chunks(l) == 1)
    return mal_schedule_slots(l, micro_batches, stage, 0) * held->f_to_b;
  count_order(l, micro_batches, stage, &c);
  return c.most_bytes;
}

typedef struct places {
  const int (*pool)[MAL_HOLDS];
  int64_t *taken, *most;
} places;

static void take(places *p, int pool, int64_t n) {
  if (pool < 0) return;
  p->taken[pool] += n;
  if (p->taken[pool] > p->most[pool]) p->most[pool] = p->taken[pool];
}

static void place_step(void *context, mal_step_op op, int64_t chunk, int64_t m) {
  places *p = context;
  const int *pool = p->pool[chunk];
  (void)m;
  if (op == MAL_S_F) {
    take(p, pool[MAL_HOLD_F_TO_B], 1);
    take(p, pool[MAL_HOLD_F_TO_W], 1);
  }
  if (op == MAL_S_B) take(p, pool[MAL_HOLD_B_TO_W], 1);
  if (op == MAL_S_B || op == MAL_S_BW) take(p, pool[MAL_HOLD_F_TO_B], -1);
  if (op != MAL_S_W) return;
  take(p, pool[MAL_HOLD_F_TO_W], -1);
  take(p, pool[MAL_HOLD_B_TO_W], -1);
}

void mal_schedule_places(const mal_layout *l, int64_t micro_batches, int64_t stage, const int (*pool)[MAL_HOLDS],
                         int n_pools, int64_t *most) {
  int64_t taken[256 * MAL_HOLDS] = {0};
  mal_pipe p = shortened(l, micro_batches);
  memset(most, 0, (size_t)n_pools * sizeof *most);
  mal_pipe_order(&p, stage, place_step, &(places){pool, taken, most});
}

int64_t mal_schedule_incoming(const mal_layout *l, int64_t micro_batches, int64_t stage) {
  mal_arena a;
  mal_error e;
  mal_step *steps;
  int64_t count, waiting = 0, most = 0, next;
  mal_pipe p = shortened(l, micro_batches);
  int64_t depth = mal_pipe_depth(&p);
  mal_arena_init(&a);
  if (mal_schedule_stage(&a, l, p.micro_batches, stage, &steps, &count, &e) != MAL_OK) count = 0;
  for (int64_t i = 0; i < count; i++) {
    const mal_step *s = &steps[i];
    bool forward = s->op == MAL_S_F, backward = s->op == MAL_S_B || s->op == MAL_S_BW;
    if (s->op == MAL_S_RECV_F || s->op == MAL_S_RECV_B) {
      if (++waiting > most) most = waiting;
    } else if (forward || backward) {
      int64_t peer = stage;
      if (mal_pipe_virtual(&p, stage, s->chunk) != (forward ? 0 : depth - 1))
        mal_pipe_neighbour(&p, stage, s->chunk, forward ? -1 : 1, &peer, &next);
      waiting -= peer != stage;
    }
  }
  mal_arena_free(&a);
  return most;
}

/* Closed forms where there is one chunk and no clock is needed; tests hold them to the table. */
int64_t mal_schedule_slots(const mal_layout *l, int64_t micro_batches, int64_t stage, int64_t chunk) {
  int64_t slots[256], most = micro_batches;
  mal_pipe p = mal_pipe_of(l, micro_batches);
  if (p.kind == MAL_INTERLEAVED || p.kind == MAL_DUALPIPE) {
    mal_schedule_all_slots(l, micro_batches, stage, slots);
    return slots[chunk];
  }
  if (p.kind == MAL_1F1B) most = p.pp - stage;
  if (p.kind == MAL_ZB_H1) most = p.pp;
  if (p.kind == MAL_ZB_2P) most = 2 * p.pp;
  return most < micro_batches ? most : micro_batches;
}
