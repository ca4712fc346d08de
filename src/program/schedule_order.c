/* The order of F, B and W on each stage, by schedule family, and its logical clock. */
#include "program/schedule.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

mal_pipe mal_pipe_of(const mal_layout *l, int64_t micro_batches) {
  mal_pipe p = {.kind = l->schedule, .pp = l->pp, .chunks = l->vpp > 1 ? l->vpp : 1, .micro_batches = micro_batches};
  if (p.kind == MAL_1F1B && p.chunks > 1) p.kind = MAL_INTERLEAVED;
  if (p.kind == MAL_INTERLEAVED && p.chunks == 1) p.kind = MAL_1F1B;
  if (p.kind == MAL_DUALPIPE) p.chunks = 2;
  return p;
}

int64_t mal_pipe_depth(const mal_pipe *p) { return p->kind == MAL_DUALPIPE ? p->pp : p->pp * p->chunks; }

int64_t mal_pipe_virtual(const mal_pipe *p, int64_t stage, int64_t chunk) {
  if (p->kind == MAL_DUALPIPE) return chunk ? p->pp - 1 - stage : stage;
  return chunk * p->pp + stage;
}

void mal_pipe_neighbour(const mal_pipe *p, int64_t stage, int64_t chunk, int by, int64_t *peer, int64_t *peer_chunk) {
  int64_t v = mal_pipe_virtual(p, stage, chunk) + by;
  if (p->kind == MAL_DUALPIPE) {
    *peer = chunk ? p->pp - 1 - v : v;
    *peer_chunk = chunk;
  } else {
    *peer = v % p->pp;
    *peer_chunk = v / p->pp;
  }
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

static void order_gpipe(const mal_pipe *p, mal_pipe_emit *emit, void *context) {
  for (int64_t m = 0; m < p->micro_batches; m++) emit(context, MAL_S_F, 0, m);
  for (int64_t m = 0; m < p->micro_batches; m++) emit(context, MAL_S_BW, 0, m);
}

static void order_1f1b(const mal_pipe *p, int64_t stage, mal_pipe_emit *emit, void *context) {
  int64_t all = p->micro_batches, warm = least(all, p->pp - stage - 1);
  for (int64_t m = 0; m < warm; m++) emit(context, MAL_S_F, 0, m);
  for (int64_t m = 0; m < all; m++) {
    if (warm + m < all) emit(context, MAL_S_F, 0, warm + m);
    emit(context, MAL_S_BW, 0, m);
  }
}

/* Micro-batches go in groups of pp: a group passes chunk 0, then chunk 1, ...; backward the chunks turn round. */
static void interleaved_entry(const mal_pipe *p, bool backward, int64_t k, int64_t *chunk, int64_t *micro_batch) {
  int64_t group = p->pp * p->chunks, in = k % group;
  *chunk = backward ? p->chunks - 1 - in / p->pp : in / p->pp;
  *micro_batch = k / group * p->pp + in % p->pp;
}

static void order_interleaved(const mal_pipe *p, int64_t stage, mal_pipe_emit *emit, void *context) {
  int64_t all = p->micro_batches * p->chunks, chunk, m;
  int64_t warm = least(all, 2 * (p->pp - stage - 1) + (p->chunks - 1) * p->pp);
  for (int64_t k = 0; k < warm; k++) {
    interleaved_entry(p, false, k, &chunk, &m);
    emit(context, MAL_S_F, chunk, m);
  }
  for (int64_t k = 0; k < all; k++) {
    if (warm + k < all) {
      interleaved_entry(p, false, warm + k, &chunk, &m);
      emit(context, MAL_S_F, chunk, m);
    }
    interleaved_entry(p, true, k, &chunk, &m);
    emit(context, MAL_S_BW, chunk, m);
  }
}

/* 1F1B, run `far` times as far ahead, with W put off by far · stage micro-batches: every stage holds at most far · pp and W
 * fills the drain. far 1: ZB-H1; far 2: ZB-H2 with one F more, the order inside ZB-2p's memory whose fill has no bubble. */
static void order_zb(const mal_pipe *p, int64_t far, int64_t stage, mal_pipe_emit *emit, void *context) {
  int64_t all = p->micro_batches, warm = least(all, far * (p->pp - stage) - 1), w = 0;
  for (int64_t m = 0; m < warm; m++) emit(context, MAL_S_F, 0, m);
  for (int64_t m = 0; m < all; m++) {
    bool steady = warm + m < all;
    if (steady) emit(context, MAL_S_F, 0, warm + m);
    emit(context, MAL_S_B, 0, m);
    if (!steady || m >= far * stage) emit(context, MAL_S_W, 0, w++);
  }
  while (w < all) emit(context, MAL_S_W, 0, w++);
}

/* --- DualPipe: the eight steps of the published code ------------------------------------------------------------------ */

typedef struct dual {
  mal_pipe_emit *emit;
  void *context;
  int64_t flip, half;              /* which chunk is phase 0 here; micro-batches of one direction */
  int64_t forward[2], backward[2]; /* next of each phase */
  int64_t waiting[2], done[2];     /* by phase: W put off up to here, W done up to here */
  uint8_t queue[256];              /* phases of the W that wait, first in first out */
  uint8_t head, tail;
} dual;

static void dual_emit(dual *d, mal_step_op op, int phase, int64_t m) {
  int64_t chunk = phase ^ d->flip;
  d->emit(d->context, op, chunk, chunk * d->half + m);
}

static void dual_f(dual *d, int phase) { dual_emit(d, MAL_S_F, phase, d->forward[phase]++); }

static void dual_b(dual *d, int phase, bool split) {
  int64_t m = d->backward[phase]++;
  dual_emit(d, MAL_S_B, phase, m);
  if (split)
    d->queue[d->tail++] = (uint8_t)phase, d->waiting[phase] = m;
  else
    dual_emit(d, MAL_S_W, phase, m);
}

/* The W that wait of one phase are of successive micro-batches, ending with the last put off. */
static void dual_w(dual *d) {
  int phase = d->queue[d->head++];
  int64_t later = 0;
  for (uint8_t i = d->head; i != d->tail; i++) later += d->queue[i] == phase;
  dual_emit(d, MAL_S_W, phase, d->waiting[phase] - later);
}

static void order_dualpipe(const mal_pipe *p, int64_t stage, mal_pipe_emit *emit, void *context) {
  int64_t halves = p->pp / 2, mirror = p->pp - 1 - stage, near = least(stage, mirror), far = halves - near - 1;
  dual d = {.emit = emit, .context = context, .flip = stage >= halves, .half = p->micro_batches / 2};
  for (int64_t i = 0; i < 2 * far; i++) dual_f(&d, 0);
  for (int64_t i = 0; i <= near; i++) dual_f(&d, 0), dual_f(&d, 1);
  for (int64_t i = 0; i < far; i++) dual_b(&d, 1, true), dual_w(&d), dual_f(&d, 1);
  for (int64_t i = 0; i < d.half - p->pp + near + 1; i++) {
    dual_f(&d, 0), dual_b(&d, 1, false);
    dual_f(&d, 1), dual_b(&d, 0, false);
  }
  for (int64_t i = 0; i < far; i++) dual_b(&d, 1, false), dual_f(&d, 1), dual_b(&d, 0, false);
  bool split = false;
  for (int64_t i = 0; i <= near; i++) {
    if (i == (near + 1) / 2 && near % 2 == 1) split = true;
    dual_b(&d, 1, split);
    if (i == (near + 1) / 2 && near % 2 == 0) split = true;
    dual_b(&d, 0, split);
  }
  for (int64_t i = 0; i < far; i++) dual_w(&d), dual_b(&d, 0, true);
  for (int64_t i = 0; i <= near; i++) dual_w(&d);
}

void mal_pipe_order(const mal_pipe *p, int64_t stage, mal_pipe_emit *emit, void *context) {
  switch (p->kind) {
  case MAL_GPIPE: order_gpipe(p, emit, context); break;
  case MAL_INTERLEAVED: order_interleaved(p, stage, emit, context); break;
  case MAL_ZB_H1: order_zb(p, 1, stage, emit, context); break;
  case MAL_ZB_2P: order_zb(p, 2, stage, emit, context); break;
  case MAL_DUALPIPE: order_dualpipe(p, stage, emit, context); break;
  default: order_1f1b(p, stage, emit, context); break;
  }
}

/* --- logical clocks --------------------------------------------------------------------------------------------------- */

static int32_t *dual_time(const mal_pipe *p, int64_t stage, bool backward, int64_t chunk, int64_t m) {
  return p->times + ((stage * 2 + chunk) * 2 + backward) * p->micro_batches + m;
}

int64_t mal_pipe_time(const mal_pipe *p, int64_t stage, bool backward, int64_t chunk, int64_t m) {
  int64_t pp = p->pp, behind = pp - 1 - stage;
  switch (p->kind) {
  case MAL_GPIPE: return backward ? pp + p->micro_batches + behind + m : stage + m;
  case MAL_DUALPIPE: return *dual_time(p, stage, backward, chunk, m);
  case MAL_INTERLEAVED: { /* F on even, B on odd times; around the ring pp steps of 2 are just the 2·pp that a group takes */
    int64_t turn = backward ? p->chunks - 1 - chunk : chunk, k = m / pp * pp * p->chunks + turn * pp + m % pp;
    return backward ? 2 * (k + behind) + 2 * pp * p->chunks - 1 : 2 * (k + stage);
  }
  case MAL_ZB_2P: /* F in steady state sits between two B, which come as in 1F1B */
    if (backward) return pp + 1 + behind + 2 * m;
    return m < 2 * (pp - stage) ? stage + m : 2 * (m - pp) + 3 * stage + 1;
  default: /* 1F1B and ZB-H1, whose W are nobody else's concern: F and B of one unit, each as early as it can */
    if (backward) return pp + behind + 2 * m;
    return m < pp - stage ? stage + m : stage + 2 * m;
  }
}

/* One list of computations per stage, walked round until all are done: each takes one unit after what it needs. */
typedef struct clock_list {
  mal_step *steps;
  int64_t count, next;
  int32_t now;
} clock_list;

static void clock_emit(void *context, mal_step_op op, int64_t chunk, int64_t m) {
  clock_list *list = context;
  if (op == MAL_S_W) return;
  list->steps[list->count++] = (mal_step){.op = (uint8_t)op, .chunk = (uint8_t)chunk, .micro_batch = (uint32_t)m};
}

/* Time at which what the step needs is there; 0 when it is not yet known. */
static int32_t clock_needs(const mal_pipe *p, int64_t stage, const mal_step *s) {
  bool backward = s->op != MAL_S_F;
  int64_t v = mal_pipe_virtual(p, stage, s->chunk), peer, chunk;
  if (!backward && v == 0) return 1;
  if (backward && v == mal_pipe_depth(p) - 1) return *dual_time(p, stage, false, s->chunk, s->micro_batch);
  mal_pipe_neighbour(p, stage, s->chunk, backward ? 1 : -1, &peer, &chunk);
  return *dual_time(p, peer, backward, chunk, s->micro_batch);
}

void mal_pipe_clock(mal_arena *a, mal_pipe *p) {
  if (p->kind != MAL_DUALPIPE) return;
  int64_t left = 0;
  bool moved = true;
  p->times = MAL_ARRAY(a, int32_t, p->pp * 4 * p->micro_batches);
  clock_list *lists = MAL_ARRAY(a, clock_list, p->pp);
  for (int64_t s = 0; s < p->pp; s++) {
    lists[s].steps = MAL_ARRAY(a, mal_step, 2 * p->micro_batches);
    lists[s].now = 1;
    mal_pipe_order(p, s, clock_emit, &lists[s]);
    left += lists[s].count;
  }
  while (left > 0 && moved) {
    moved = false;
    for (int64_t s = 0; s < p->pp; s++) {
      clock_list *list = &lists[s];
      while (list->next < list->count) {
        const mal_step *step = &list->steps[list->next];
        int32_t needs = clock_needs(p, s, step);
        if (needs == 0) break;
        list->now = (needs > list->now ? needs : list->now) + 1;
        *dual_time(p, s, step->op != MAL_S_F, step->chunk, step->micro_batch) = list->now;
        list->next++, left--;
        moved = true;
      }
    }
  }
}
