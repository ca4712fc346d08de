/* Pipeline schedules: every table complete, no deadlock, slots never shared, and the bubbles that the papers print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "program/program.h"

typedef struct tables {
  mal_arena arena;
  mal_layout layout;
  int64_t pp, chunks, micro_batches;
  mal_step *steps[64];
  int64_t count[64];
} tables;

static bool build(tables *t, int kind, int64_t pp, int64_t vpp, int64_t micro_batches) {
  mal_error e;
  memset(t, 0, sizeof *t);
  mal_arena_init(&t->arena);
  t->layout = (mal_layout){.tp = 1, .cp = 1, .dp = 1, .pp = pp, .vpp = vpp, .schedule = kind};
  t->pp = pp;
  t->chunks = mal_schedule_chunks(&t->layout);
  t->micro_batches = micro_batches;
  for (int64_t s = 0; s < pp; s++)
    if (mal_schedule_stage(&t->arena, &t->layout, micro_batches, s, &t->steps[s], &t->count[s], &e) != MAL_OK) {
      mal_arena_free(&t->arena);
      return false;
    }
  return true;
}

/* --- the table of one stage ------------------------------------------------------------------------------------------- */

static bool goes_through(const tables *t, int64_t chunk, int64_t m) {
  return t->layout.schedule != MAL_DUALPIPE || chunk == (m >= t->micro_batches / 2);
}

static void check_stage(const tables *t, int64_t stage) {
  int64_t works = t->chunks * t->micro_batches, sync = 0, opt = 0,
          depth = mal_schedule_part(&t->layout, t->pp - 1, t->chunks - 1);
  int64_t *held = test_calloc((size_t)works, sizeof *held); /* by chunk and slot: micro-batch + 1 */
  int64_t slots[256];
  unsigned char *seen = test_calloc((size_t)works, MAL_STEP_OPS);
  mal_schedule_all_slots(&t->layout, t->micro_batches, stage, slots);
  if (t->layout.schedule == MAL_DUALPIPE) depth = t->pp - 1;
  for (int64_t i = 0; i < t->count[stage]; i++) {
    const mal_step *s = &t->steps[stage][i];
    int64_t at = s->chunk * t->micro_batches + s->micro_batch;
    if (s->op == MAL_S_SYNC || s->op == MAL_S_OPT) {
      sync += s->op == MAL_S_SYNC, opt += s->op == MAL_S_OPT;
      assert_true(i >= t->count[stage] - 2);
      continue;
    }
    assert_true(s->chunk < t->chunks && s->micro_batch < t->micro_batches);
    assert_true(goes_through(t, s->chunk, s->micro_batch));
    assert_true(s->slot < slots[s->chunk]);
    assert_int_equal(seen[at * MAL_STEP_OPS + s->op]++, 0);
    int64_t *slot = &held[s->chunk * t->micro_batches + s->slot];
    if (s->op == MAL_S_F) {
      assert_int_equal(*slot, 0);
      *slot = s->micro_batch + 1;
    } else if (s->op != MAL_S_RECV_F) {
      bool after = s->op == MAL_S_SEND_B && *slot != s->micro_batch + 1; /* BW has already given the slot back */
      if (!after) assert_int_equal(*slot, s->micro_batch + 1);
      if (s->op == MAL_S_BW || s->op == MAL_S_W) *slot = 0;
    }
  }
  assert_int_equal(sync, 1);
  assert_int_equal(opt, 1);
  bool splits = mal_schedule_splits(&t->layout);
  for (int64_t c = 0; c < t->chunks; c++)
    for (int64_t m = 0; m < t->micro_batches; m++) {
      const unsigned char *n = &seen[(c * t->micro_batches + m) * MAL_STEP_OPS];
      bool here = goes_through(t, c, m);
      int64_t v = mal_schedule_part(&t->layout, stage, c);
      bool links = t->pp > 1;
      assert_int_equal(n[MAL_S_F], here);
      assert_int_equal(n[MAL_S_BW], here && !splits);
      assert_int_equal(n[MAL_S_B], here && splits);
      assert_int_equal(n[MAL_S_W], here && splits);
      assert_int_equal(n[MAL_S_RECV_F], here && links && v > 0);
      assert_int_equal(n[MAL_S_SEND_B], here && links && v > 0);
      assert_int_equal(n[MAL_S_SEND_F], here && links && v < depth);
      assert_int_equal(n[MAL_S_RECV_B], here && links && v < depth);
    }
  test_free(held);
  test_free(seen);
}

/* The largest number in flight, counted over the whole table, is what mal_schedule_slots says. */
static void check_slots(const tables *t, int64_t stage) {
  int64_t held[256] = {0}, most[256] = {0};
  for (int64_t i = 0; i < t->count[stage]; i++) {
    const mal_step *s = &t->steps[stage][i];
    if (s->op == MAL_S_F && ++held[s->chunk] > most[s->chunk]) most[s->chunk] = held[s->chunk];
    if (s->op == MAL_S_W || s->op == MAL_S_BW) held[s->chunk]--;
  }
  int64_t slots[256], peak = 0, together = 0;
  mal_held bytes[256];
  bool splits = mal_schedule_splits(&t->layout);
  mal_schedule_all_slots(&t->layout, t->micro_batches, stage, slots);
  for (int64_t c = 0; c < t->chunks; c++) {
    assert_int_equal(slots[c], most[c]);
    assert_int_equal(mal_schedule_slots(&t->layout, t->micro_batches, stage, c), most[c]);
    bytes[c].f_to_b = c == 0 ? 7 : c == t->chunks - 1 ? 23 : 10;
    bytes[c].f_to_w = splits ? 5 : 0;
    bytes[c].b_to_w = splits ? 3 + c : 0;
  }
  for (int64_t i = 0; i < t->count[stage]; i++) {
    const mal_step *s = &t->steps[stage][i];
    const mal_held *b = &bytes[s->chunk];
    if (s->op == MAL_S_F) together += b->f_to_b + b->f_to_w;
    if (s->op == MAL_S_B) together += b->b_to_w;
    if (together > peak) peak = together;
    if (s->op == MAL_S_B || s->op == MAL_S_BW) together -= b->f_to_b;
    if (s->op == MAL_S_W) together -= b->f_to_w + b->b_to_w;
  }
  assert_int_equal(mal_schedule_peak(&t->layout, t->micro_batches, stage, bytes), peak);
}

/* --- replay ----------------------------------------------------------------------------------------------------------- */

static bool is_send(const mal_step *s) { return s->op == MAL_S_SEND_F || s->op == MAL_S_SEND_B; }
static bool is_recv(const mal_step *s) { return s->op == MAL_S_RECV_F || s->op == MAL_S_RECV_B; }

/* Both ends at once: a SEND goes on only when its peer stands at the RECV of the same micro-batch. */
static void check_rendezvous(const tables *t) {
  int64_t at[64] = {0};
  bool moved = true;
  while (moved) {
    moved = false;
    for (int64_t s = 0; s < t->pp; s++)
      while (at[s] < t->count[s]) {
        const mal_step *step = &t->steps[s][at[s]];
        if (is_recv(step)) break;
        if (is_send(step)) {
          int64_t peer = mal_schedule_peer(&t->layout, s, step);
          if (at[peer] >= t->count[peer]) break;
          const mal_step *other = &t->steps[peer][at[peer]];
          if (other->op != step->op + 1 || other->micro_batch != step->micro_batch) break;
          if (mal_schedule_peer(&t->layout, peer, other) != s) break;
          at[peer]++;
        }
        at[s]++;
        moved = true;
      }
  }
  for (int64_t s = 0; s < t->pp; s++) assert_int_equal(at[s], t->count[s]);
}

typedef struct costs {
  double f, b, w;
} costs; /* of one chunk */

static double *done_at(const tables *t, double *done, int64_t part, bool backward, int64_t m) {
  return &done[(part * 2 + backward) * t->micro_batches + m];
}

/* Messages take no time and hold nobody; returns the step's span and checks what every computation needs. */
static double replay(const tables *t, costs cost, double *busy, double *ends) {
  int64_t parts = t->layout.schedule == MAL_DUALPIPE ? t->pp : t->pp * t->chunks, at[64] = {0};
  double now[64] = {0}, span = 0, *done = test_calloc((size_t)(parts * 2 * t->micro_batches), sizeof *done);
  bool moved = true;
  while (moved) {
    moved = false;
    for (int64_t s = 0; s < t->pp; s++)
      for (; at[s] < t->count[s]; at[s]++, moved = true) {
        const mal_step *step = &t->steps[s][at[s]];
        if (step->op > MAL_S_BW) continue;
        int64_t part = mal_schedule_part(&t->layout, s, step->chunk), m = step->micro_batch;
        double ready = 0, takes = step->op == MAL_S_F ? cost.f : step->op == MAL_S_B ? cost.b : cost.w;
        if (step->op == MAL_S_BW) takes = cost.b + cost.w;
        if (step->op == MAL_S_F && part > 0) ready = *done_at(t, done, part - 1, false, m);
        if (step->op == MAL_S_F && part > 0 && ready == 0) break;
        if (step->op == MAL_S_B || step->op == MAL_S_BW) {
          ready = part + 1 < parts ? *done_at(t, done, part + 1, true, m) : *done_at(t, done, part, false, m);
          if (ready == 0 || *done_at(t, done, part, false, m) == 0) break;
        }
        if (step->op == MAL_S_W) assert_true(*done_at(t, done, part, true, m) > 0);
        now[s] = (ready > now[s] ? ready : now[s]) + takes;
        if (step->op != MAL_S_W) *done_at(t, done, part, step->op != MAL_S_F, m) = now[s];
        busy[s] += takes;
      }
  }
  for (int64_t s = 0; s < t->pp; s++) {
    assert_int_equal(at[s], t->count[s]);
    if (now[s] > span) span = now[s];
    if (ends) ends[s] = now[s];
  }
  test_free(done);
  return span;
}

static void check_tables(int kind, int64_t pp, int64_t vpp, int64_t micro_batches) {
  tables t;
  double busy[64] = {0};
  assert_true(build(&t, kind, pp, vpp, micro_batches));
  for (int64_t s = 0; s < pp; s++) {
    check_stage(&t, s);
    check_slots(&t, s);
  }
  check_rendezvous(&t);
  replay(&t, (costs){1, 1, 1}, busy, NULL);
  mal_arena_free(&t.arena);
}

static void complete_and_free_of_deadlock(void **state) {
  (void)state;
  for (int64_t pp = 1; pp <= 12; pp++)
    for (int64_t m = 1; m <= 40; m += m < 14 ? 1 : 13) {
      check_tables(MAL_GPIPE, pp, 1, m);
      check_tables(MAL_1F1B, pp, 1, m);
      check_tables(MAL_ZB_H1, pp, 1, m);
      check_tables(MAL_ZB_2P, pp, 1, m);
    }
  for (int64_t pp = 1; pp <= 9; pp++)
    for (int64_t vpp = 2; vpp <= 6; vpp++)
      for (int64_t groups = 1; groups <= 6; groups++) check_tables(MAL_INTERLEAVED, pp, vpp, pp * groups);
  for (int64_t pp = 2; pp <= 16; pp += 2)
    for (int64_t m = 2 * pp; m <= 7 * pp; m += m < 3 * pp ? 2 : pp) check_tables(MAL_DUALPIPE, pp, 1, m);
  check_tables(MAL_1F1B, 64, 1, 200);
  check_tables(MAL_INTERLEAVED, 16, 12, 64);
}

/* Idle time of a stage over the whole step. */
static double bubble(int kind, int64_t pp, int64_t vpp, int64_t micro_batches, costs cost) {
  tables t;
  double busy[64] = {0}, worst = 0;
  assert_true(build(&t, kind, pp, vpp, micro_batches));
  double span = replay(&t, cost, busy, NULL);
  for (int64_t s = 0; s < pp; s++)
    if (span - busy[s] > worst) worst = span - busy[s];
  mal_arena_free(&t.arena);
  return worst;
}

/* Idle time of a stage between its own first and last computation: what a step costs where stages need not wait for one
 * another at its end (ibid., section 4, post-validation of the optimizer step). */
static double inner_bubble(int kind, int64_t pp, int64_t micro_batches, costs cost) {
  tables t;
  double busy[64] = {0}, ends[64], worst = 0;
  assert_true(build(&t, kind, pp, 1, micro_batches));
  replay(&t, cost, busy, ends);
  for (int64_t s = 0; s < pp; s++) {
    double idle = ends[s] - busy[s] - (double)s * cost.f;
    if (idle > worst) worst = idle;
  }
  mal_arena_free(&t.arena);
  return worst;
}

/* DualPipe with each F and the whole backward of the other direction that follows it as one work, as its authors count. */
static double fused_bubble(int64_t pp, int64_t micro_batches, costs c) {
  tables t;
  assert_true(build(&t, MAL_DUALPIPE, pp, 1, micro_batches));
  double *done = test_calloc((size_t)(pp * 2 * micro_batches), sizeof *done), now[64] = {0}, busy = 0, span = 0;
  int64_t at[64] = {0};
  for (int64_t s = 0; s < pp; s++) { /* computations only */
    int64_t n = 0;
    for (int64_t i = 0; i < t.count[s]; i++)
      if (t.steps[s][i].op <= MAL_S_BW) t.steps[s][n++] = t.steps[s][i];
    t.count[s] = n;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t s = 0; s < pp; s++)
      while (at[s] < t.count[s]) {
        const mal_step *step = &t.steps[s][at[s]];
        int n = at[s] + 2 < t.count[s] && step->op == MAL_S_F && step[1].op == MAL_S_B &&
                        step[1].chunk != step->chunk && step[2].op == MAL_S_W &&
                        step[2].micro_batch == step[1].micro_batch
                    ? 3
                    : 1;
        double start = now[s], takes = 0;
        bool ready = true;
        for (int i = 0; i < n; i++) {
          int64_t part = mal_schedule_part(&t.layout, s, step[i].chunk), m = step[i].micro_batch;
          double needs = 1e-12;
          if (step[i].op == MAL_S_F && part > 0) needs = *done_at(&t, done, part - 1, false, m);
          if (step[i].op == MAL_S_B) needs = *done_at(&t, done, part + 1 < pp ? part + 1 : part, part + 1 < pp, m);
          if (needs == 0) ready = false;
          if (needs > start) start = needs;
          takes += step[i].op == MAL_S_F ? c.f : step[i].op == MAL_S_B ? c.b : c.w;
        }
        if (!ready) break;
        now[s] = start + takes;
        for (int i = 0; i < n; i++)
          if (step[i].op != MAL_S_W)
            *done_at(&t, done, mal_schedule_part(&t.layout, s, step[i].chunk), step[i].op != MAL_S_F,
                     step[i].micro_batch) = now[s];
        if (s == 0) busy += takes;
        at[s] += n;
        moved = true;
      }
  }
  for (int64_t s = 0; s < pp; s++) {
    assert_int_equal(at[s], t.count[s]);
    if (now[s] > span) span = now[s];
  }
  test_free(done);
  mal_arena_free(&t.arena);
  return span - busy;
}

static void bubbles_of_the_papers(void **state) {
  (void)state;
  const costs some[] = {{1, 1, 1}, {1, 2, 1}, {3, 4, 2}, {2, 2.5, 1.5}};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    costs c = some[i];
    double all = c.f + c.b + c.w;
    for (int64_t pp = 1; pp <= 8; pp++) {
      /* Huang et al. 2019; Narayanan et al. 2021, section 2.2.1: (p-1)(tf+tb) */
      assert_float_equal(bubble(MAL_GPIPE, pp, 1, 16, c), (double)(pp - 1) * all, 1e-9);
      assert_float_equal(bubble(MAL_1F1B, pp, 1, 16, c), (double)(pp - 1) * all, 1e-9);
      assert_float_equal(bubble(MAL_1F1B, pp, 1, 3, c), (double)(pp - 1) * all, 1e-9);
      /* ibid. section 2.2.2: the same over v, where a chunk takes 1/v of a stage */
      for (int64_t v = 2; v <= 4; v++)
        assert_float_equal(bubble(MAL_INTERLEAVED, pp, v, pp * 4, c), (double)(pp - 1) * all, 1e-9);
      /* Qi et al. 2024, Table 2: (p-1)(TF+TB-TW) */
      assert_float_equal(bubble(MAL_ZB_H1, pp, 1, 3 * pp, c), (double)(pp - 1) * (c.f + c.b - c.w), 1e-9);
      double h2 = (double)(pp - 1) * (c.f + c.b - 2 * c.w);
      assert_true(inner_bubble(MAL_ZB_2P, pp, 4 * pp, c) <= h2 + 1e-9);
    }
    /* DeepSeek-V3 report, Table 2: (PP/2-1)(F&B + B - 3W), where their B is our B + W. Without the overlap of a forward with
     * a backward F&B is their sum; then parts start earlier than a fused pair could, so less is idle. */
    for (int64_t pp = 2; pp <= 12; pp += 2) {
      double table = (double)(pp / 2 - 1) * (all + c.b + c.w - 3 * c.w), idle = bubble(MAL_DUALPIPE, pp, 1, 4 * pp, c);
      assert_true(idle <= table + 1e-9);
      if (c.f == c.b && c.b == c.w) assert_float_equal(fused_bubble(pp, 4 * pp, c), table, 1e-9);
    }
  }
}

static void in_flight(void **state) {
  (void)state;
  mal_layout l = {.pp = 8, .vpp = 1, .schedule = MAL_1F1B};
  for (int64_t s = 0; s < 8; s++) {
    l.schedule = MAL_1F1B, l.vpp = 1;
    assert_int_equal(mal_schedule_slots(&l, 64, s, 0), 8 - s);
    assert_int_equal(mal_schedule_slots(&l, 3, s, 0), 8 - s < 3 ? 8 - s : 3);
    l.schedule = MAL_GPIPE;
    assert_int_equal(mal_schedule_slots(&l, 64, s, 0), 64);
    l.schedule = MAL_ZB_H1; /* Qi et al.: every stage holds what 1F1B's first holds */
    assert_int_equal(mal_schedule_slots(&l, 64, s, 0), 8);
    l.schedule = MAL_ZB_2P; /* ibid., section 4: ZB-2p has twice the memory of 1F1B's first stage */
    assert_int_equal(mal_schedule_slots(&l, 64, s, 0), 16);
    l.schedule = MAL_DUALPIPE; /* DeepSeek-V3, Table 2: PP + 1 micro-batches, both directions together */
    assert_int_equal(mal_schedule_slots(&l, 64, s, 0) + mal_schedule_slots(&l, 64, s, 1), 9);
  }
  /* Korthikanti et al. 2022, section 4.2.3: interleaving takes L(1 + (p-1)/(p m)) layers' activations on the first stage */
  l.schedule = MAL_INTERLEAVED;
  for (l.vpp = 2; l.vpp <= 4; l.vpp++) {
    const mal_held one[] = {{1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}};
    assert_int_equal(mal_schedule_peak(&l, 64, 0, one), 8 * l.vpp + 7);
  }
}

static void refused(void **state) {
  (void)state;
  tables t;
  assert_false(build(&t, MAL_INTERLEAVED, 4, 2, 6));
  assert_false(build(&t, MAL_DUALPIPE, 3, 1, 8));
  assert_false(build(&t, MAL_DUALPIPE, 4, 1, 6));
  assert_false(build(&t, MAL_DUALPIPE, 4, 1, 9));
  assert_false(build(&t, MAL_GPIPE, 4, 2, 8));
  assert_false(build(&t, MAL_INTERLEAVED, 4, 300, 8));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(complete_and_free_of_deadlock),
      cmocka_unit_test(bubbles_of_the_papers),
      cmocka_unit_test(in_flight),
      cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
