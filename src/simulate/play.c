/* Programs of actors: the table of a stage, events, and the end of the step. */
#include "simulate/actor.h"
#include <math.h>
#include <stdlib.h>

static void resume(mal_sim *s, mal_sim_actor *a, int cause) {
  double waited = s->now - a->since;
  mal_sim_causes(s, a)[cause] += waited;
  s->out->waited_s[a->id] += waited;
}

static bool run_end(mal_sim *s, mal_sim_actor *a, const mal_step *step) {
  const mal_sim_stage *stage = &s->stages[a->class->stage];
  const mal_sim_list *l = step->op == MAL_S_SYNC ? &stage->sync : &stage->optimizer;
  if (step->op == MAL_S_SYNC && !mal_sim_dp_empty(a)) {
    a->state = MAL_AT_SYNC, a->since = s->now;
    return false;
  }
  if (a->phase || !l->n) {
    if (a->phase)
      mal_sim_draw(s, a, step->op == MAL_S_SYNC ? "sync" : "optimizer", MAL_STREAM_COMPUTE, -1, -1, a->run.begun,
                   s->now);
    a->phase = 0;
    return true;
  }
  a->phase = 1;
  a->sync_list = true;
  a->waited = 1;
  mal_sim_start_list(s, a, l);
  return false;
}

/* A message of the pair in play leaves when all of the pair is done. */
static bool hold(const mal_sim *s, mal_sim_actor *a, const mal_step *step) {
  const mal_sim_pair *pairs = s->stages[a->class->stage].pairs;
  bool forward = step->op == MAL_S_SEND_F;
  if (!pairs || a->n_held == 2) return false;
  for (int64_t i = a->pc - 1; i >= 0; i--) { /* what made it */
    const mal_step *by = &a->steps[i];
    if (by->op != (forward ? MAL_S_F : MAL_S_B) || by->chunk != step->chunk || by->micro_batch != step->micro_batch)
      continue;
    if (pairs[i].end < a->pc) return false;
    a->held[a->n_held++] = a->pc;
    return true;
  }
  return false;
}

/* Sends what was held; true when the actor waits until it is across. */
static bool release(mal_sim *s, mal_sim_actor *a) {
  const mal_sim_pair *pairs = s->stages[a->class->stage].pairs;
  bool blocking = s->plan->layout.overlap_pp == MAL_OFF;
  int64_t done = a->pc - 1;
  if (!pairs || !a->n_held || a->steps[done].op != MAL_S_W || pairs[done].entry != done) return false;
  if (blocking) a->state = MAL_AT_SEND, a->since = s->now;
  for (; a->n_held > 0; a->n_held--) mal_sim_send(s, a, &a->steps[a->held[a->n_held - 1]], blocking && a->n_held == 1);
  return blocking;
}

static bool run_entry(mal_sim *s, mal_sim_actor *a) {
  const mal_step *step = &a->steps[a->pc];
  switch (step->op) {
  case MAL_S_RECV_F:
  case MAL_S_RECV_B: return true;
  case MAL_S_SEND_F:
  case MAL_S_SEND_B: {
    bool blocking = s->plan->layout.overlap_pp == MAL_OFF;
    if (hold(s, a, step)) return true;
    if (a->sent) return a->sent = false, true; /* came back from waiting */
    if (blocking) a->state = MAL_AT_SEND, a->since = s->now, a->sent = true;
    mal_sim_send(s, a, step, blocking);
    return !blocking;
  }
  case MAL_S_SYNC:
  case MAL_S_OPT: return run_end(s, a, step);
  default: break;
  }
  if (a->entered) return mal_sim_continue_pass(s, a);
  if (!mal_sim_has_message(s, a, step)) return false;
  const mal_sim_pair *pairs = s->stages[a->class->stage].pairs;
  if (pairs && pairs[a->pc].entry > a->pc && !mal_sim_has_message(s, a, &a->steps[pairs[a->pc].entry])) return false;
  a->entered = true;
  if (mal_sim_begin_pass(s, a, step)) return false;
  return mal_sim_continue_pass(s, a);
}

/* What links have carried up to the end of the step: a checkpoint may be written beyond it. */
static void note_links(mal_sim *s) {
  for (int32_t i = 0; i < s->w->n_links; i++) {
    s->out->link_bytes[i] = mal_link_bytes(s->flows, i, s->now);
    s->out->link_busy_s[i] = mal_link_busy(s->flows, i);
  }
}

void mal_sim_advance(mal_sim *s, mal_sim_actor *a) {
  switch (a->state) {
  case MAL_AT_GATHER:
    if (a->gathers_done <= a->unit) return;
    resume(s, a, MAL_TIME_DP);
    break;
  case MAL_AT_PARAMS:
    if (mal_sim_waits_for_params(s, a)) return;
    resume(s, a, MAL_TIME_DP);
    break;
  case MAL_AT_REDUCE:
    if (s->reduce_beside ? a->reducing > 1 : !mal_sim_dp_empty(a)) return;
    resume(s, a, MAL_TIME_DP);
    break;
  case MAL_AT_SYNC:
    if (!mal_sim_dp_empty(a)) return;
    resume(s, a, MAL_TIME_DP);
    break;
  case MAL_AT_NEXT: break;
  default: return;
  }
  a->state = MAL_AT_NEXT;
  while (a->pc < a->n_steps && !s->status) {
    if (!run_entry(s, a)) return;
    if (a->entered) mal_sim_draw_pass(s, a, a->pass_began);
    a->entered = false;
    a->pc++;
    s->entries_done++;
    if (release(s, a)) return;
  }
  if (a->pc < a->n_steps) return;
  if (a->reading) {
    a->state = MAL_AT_READ, a->since = s->now;
    return;
  }
  a->state = MAL_AT_END;
  s->out->finish_s[a->id] = s->now;
  if (++s->n_ended == s->n_actors) note_links(s);
}

static void segment_event(mal_sim *s, mal_sim_actor *a, int64_t version) {
  if (a->state != MAL_AT_SEGMENT || (uint32_t)version != a->version) return;
  mal_sim_end_segment(s, a);
  if (s->watch->detail && a->n_ranks && a->unit < a->n_units)
    mal_sim_draw_unit(s, a, mal_sim_unit_at(s, a, a->unit)->block, (s->now - a->run.begun) / a->span->span_s);
  mal_sim_advance(s, a);
}

static void op_event(mal_sim *s, mal_sim_actor *a, int64_t op) {
  if (a->state != MAL_AT_LIST) return;
  if (op >= 0 && a->run.list->ops[op].copy) {
    mal_sim_copy(s, a, &a->run.list->ops[op], (int32_t)op);
    return;
  }
  if (op >= 0) {
    mal_sim_arrive(s, a, a->run.list, &a->run.list->ops[op], (int32_t)op);
    return;
  }
  double longer = op == MAL_LIST_ENDS ? mal_sim_list_longer(s, a) : 0;
  if (longer > 0) {
    mal_sim_causes(s, a)[MAL_TIME_DP] += longer;
    mal_sim_push(s, s->now + longer, a->id, MAL_EV_OP, MAL_LIST_HAS_ENDED);
    return;
  }
  mal_sim_computes(s, a, false);
  a->state = MAL_AT_NEXT;
  mal_sim_advance(s, a);
}

static void speed_event(mal_sim *s, mal_sim_actor *a, bool on) {
  double was = a->slow;
  a->slow = a->class->slow / (on ? 1 - a->class->throttle_lost : 1);
  if (a->state != MAL_AT_SEGMENT || was == a->slow) return;
  a->left -= (s->now - a->since) * a->rate;
  double longer = (a->slow / was - 1) * fmax(a->left, 0);
  a->left = fmax(a->left, 0) + longer;
  a->segment_s += longer;
  a->since = s->now;
  mal_sim_push(s, s->now + a->left / a->rate, a->id, MAL_EV_SEGMENT, ++a->version);
}

static void handle(mal_sim *s, const mal_sim_event *e) {
  if (e->what == MAL_EV_FLOW) {
    mal_sim_start_flow(s, e->with);
    return;
  }
  mal_sim_actor *a = &s->actors[e->actor];
  if (a->state == MAL_AT_DEAD) return;
  switch (e->what) {
  case MAL_EV_SEGMENT: segment_event(s, a, e->with); break;
  case MAL_EV_OP: op_event(s, a, e->with); break;
  case MAL_EV_DP: mal_sim_job_step(s, a); break;
  case MAL_EV_SPEED: speed_event(s, a, e->with != 0); break;
  case MAL_EV_DIE:
    if (a->state != MAL_AT_END) a->state = MAL_AT_DEAD;
    break;
  default: mal_sim_begin(s, a, e->with != 0); break;
  }
}

static void run_events(mal_sim *s) {
  enum { LOOK_EVERY = 1024 };
  while (!s->status) {
    double next = s->n_heap ? s->heap[0].at : INFINITY;
    double flow = next <= s->now ? INFINITY : mal_flows_when(s->flows); /* first all that happens now */
    if (isinf(flow) && isinf(next)) return;
    if (++s->out->events % LOOK_EVERY == 0 && s->watch->stop && *s->watch->stop) {
      s->out->interrupted = true;
      return;
    }
    if (flow <= next) {
      int32_t id = mal_flows_next(s->flows, &s->now);
      mal_sim_end_flow(s, id);
      continue;
    }
    mal_sim_event e;
    mal_sim_pop(s, &e);
    s->now = e.at;
    handle(s, &e);
  }
}

static int by_weight(const void *a, const void *b) {
  const mal_sim_blame *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? 1 : -1;
  if (x->waiter != y->waiter) return x->waiter < y->waiter ? -1 : 1;
  return (x->culprit > y->culprit) - (x->culprit < y->culprit);
}

static void conclude(mal_sim *s) {
  mal_sim_played *out = s->out;
  out->finished = !s->status && !out->interrupted;
  out->end_s = 0;
  for (int32_t i = 0; i < s->n_actors; i++) {
    if (s->actors[i].state != MAL_AT_END) out->finished = false;
    if (s->actors[i].state == MAL_AT_END && out->finish_s[i] > out->end_s) out->end_s = out->finish_s[i];
  }
  out->done = s->entries ? (double)s->entries_done / (double)s->entries : 1;
  if (!out->finished) out->end_s = s->now, note_links(s);
  if (!out->finished && !out->interrupted && !s->status) out->stuck = mal_sim_why_stuck(s);
  for (int64_t i = 0, n = 0; i < s->room_blames; i++)
    if (s->blames[i].times) s->blames[n++] = s->blames[i];
  if (s->n_blames) qsort(s->blames, (size_t)s->n_blames, sizeof *s->blames, by_weight);
  out->blames = s->blames;
  out->n_blames = s->n_blames;
  out->flows = s->flows;
}

mal_status mal_sim_play(mal_sim_world *w, const mal_sim_watch *watch, mal_sim_played *out, mal_error *e) {
  mal_sim *s = MAL_NEW(w->arena, mal_sim);
  *s = (mal_sim){
      .w = w, .p = w->program, .plan = w->program->plan, .watch = watch, .out = out, .arena = w->arena, .e = e};
  *out = (mal_sim_played){0};
  mal_status status = mal_sim_set_up(s);
  if (status) return status;
  run_events(s);
  conclude(s);
  return s->status;
}
