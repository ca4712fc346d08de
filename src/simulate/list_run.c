/* Lists with operations over shared links: each operation starts when what it waits for has ended. */
#include "simulate/actor.h"
#include <math.h>
#include <string.h>

static void settle_run(mal_sim *s, mal_sim_actor *a);

static void prepare_run(mal_sim *s, mal_sim_actor *a, const mal_sim_list *l) {
  mal_sim_run *r = &a->run;
  if (r->room < l->n) {
    r->start = MAL_ARRAY(s->arena, double, l->n);
    r->end = MAL_ARRAY(s->arena, double, l->n);
    r->placed = MAL_ARRAY(s->arena, uint8_t, l->n);
    r->room = l->n;
  }
  if (r->room_events < l->n_events) {
    r->recorder = MAL_ARRAY(s->arena, int32_t, l->n_events);
    r->room_events = l->n_events;
  }
  memset(r->placed, 0, (size_t)l->n);
  for (int i = 0; i < l->n_events; i++) r->recorder[i] = -1;
  for (int i = 0; i < l->n; i++) {
    r->start[i] = r->end[i] = -1;
    if (l->ops[i].record != MAL_NO_EVENT) r->recorder[l->ops[i].record] = i;
  }
  r->list = l;
  r->open = l->n;
  r->begun = s->now;
}

void mal_sim_start_list(mal_sim *s, mal_sim_actor *a, const mal_sim_list *l) {
  mal_sim_computes(s, a, true);
  a->state = MAL_AT_LIST;
  prepare_run(s, a, l);
  a->beside_s = 0;
  a->beside_from = s->now;
  mal_sim_count(s, a, l, 1);
  settle_run(s, a);
}

/* When operation i may start, from what it waits for; false: not known yet. */
static bool ready_at(const mal_sim_run *r, int i, double seconds, double *ready, double *least_end, int *holder) {
  const mal_sim_op *op = &r->list->ops[i];
  *ready = r->begun, *least_end = 0, *holder = -1;
  if (op->before >= 0) {
    if (r->end[op->before] < 0) return false;
    *ready = fmax(*ready, r->end[op->before]);
  }
  for (int k = 0; k < 2; k++) {
    if (op->wait[k] == MAL_NO_EVENT) continue;
    int other = r->recorder[op->wait[k]];
    if (other < 0 || other >= i) continue;
    if (r->end[other] < 0) return false;
    const mal_sim_op *by = &r->list->ops[other];
    double from = r->end[other];
    if ((op->op == MAL_OP_MATMUL && by->chunked) || (by->op == MAL_OP_MATMUL && op->chunked)) {
      from = r->start[other] + (r->end[other] - r->start[other]) / r->list->pieces;
      *least_end = fmax(*least_end, r->end[other] + seconds / r->list->pieces);
    }
    if (from > *ready) *ready = from, *holder = other;
  }
  return true;
}

static void tell_cause(mal_sim *s, mal_sim_actor *a, int i, double before, int holder) {
  const mal_sim_run *r = &a->run;
  const mal_sim_op *op = &r->list->ops[i];
  double *cause = mal_sim_causes(s, a), gap = r->start[i] - before, took = r->end[i] - r->start[i];
  if (gap > 0) cause[holder >= 0 ? r->list->ops[holder].cause : op->cause] += gap;
  double share = r->list->kernels_s > 0 ? r->list->host_s / r->list->kernels_s : 0;
  double launch = op->kind < 0 && !op->copy ? took * share / (1 + share) : 0;
  cause[MAL_TIME_LAUNCH] += launch;
  cause[op->cause] += took - launch;
}

static double compute_until(const mal_sim_run *r, int i) {
  int last = i < r->list->n ? r->list->ops[i].compute_before : r->list->last[MAL_STREAM_COMPUTE];
  return last >= 0 ? r->end[last] : r->begun;
}

/* Data-parallel traffic beside a list: how long, and at its end what that adds to the list. */
void mal_sim_list_beside(mal_sim *s, mal_sim_actor *a, bool on) {
  if (a->state != MAL_AT_LIST) return;
  if (on)
    a->beside_from = s->now;
  else
    a->beside_s += s->now - a->beside_from;
}

double mal_sim_list_longer(mal_sim *s, mal_sim_actor *a) {
  if (a->dp_moving) mal_sim_list_beside(s, a, false), a->beside_from = s->now;
  double longer = a->beside_s * s->beside / (1 + s->beside);
  a->beside_s = 0;
  return longer;
}

/* Places every operation whose start is known; those over shared links arrive at their groups. */
static void settle_run(mal_sim *s, mal_sim_actor *a) {
  mal_sim_run *r = &a->run;
  const mal_sim_list *l = r->list;
  double last = r->begun;
  for (int i = 0; i < l->n; i++) {
    const mal_sim_op *op = &l->ops[i];
    if (r->placed[i]) continue;
    double seconds = mal_sim_op_seconds(l, op, a->slow, a->class->link_left), ready, least_end;
    int holder;
    if (op->experts && !op->net) seconds *= a->waited;
    if (a->class->cv > 0 && op->kind < 0) seconds *= mal_sim_jitter(a, s->w->team_size);
    if (!ready_at(r, i, seconds, &ready, &least_end, &holder)) continue;
    r->placed[i] = 1;
    r->start[i] = ready;
    if (op->net) {
      mal_sim_push(s, fmax(ready, s->now), a->id, MAL_EV_OP, i);
      continue;
    }
    if (least_end > 0 && op->op == MAL_OP_MATMUL) seconds += (l->pieces - 1) * l->launch_s;
    r->end[i] = fmax(ready + seconds, least_end);
    r->placed[i] = 2;
    r->open--;
    if (s->watch->detail) mal_sim_draw(s, a, op->name, op->stream, a->chunk, a->micro_batch, ready, r->end[i]);
    if (op->stream == MAL_STREAM_COMPUTE) tell_cause(s, a, i, compute_until(r, i), holder);
  }
  if (r->open) return;
  int latest = -1;
  for (int i = 0; i < l->n; i++)
    if (r->end[i] >= last) last = r->end[i], latest = i;
  double compute = compute_until(r, l->n);
  if (latest >= 0 && last > compute) mal_sim_causes(s, a)[l->ops[latest].cause] += last - compute;
  if (l->kernels_s <= 0 && l->host_s > 0) last += l->host_s, mal_sim_causes(s, a)[MAL_TIME_LAUNCH] += l->host_s;
  s->out->compute_s[a->id] += last - r->begun;
  mal_sim_push(s, fmax(last, s->now), a->id, MAL_EV_OP, MAL_LIST_ENDS);
}

void mal_sim_op_ended(mal_sim *s, mal_sim_actor *a, int32_t i, double at) {
  mal_sim_run *r = &a->run;
  const mal_sim_op *op = &r->list->ops[i];
  double seconds = op->seconds, ready, least_end;
  int holder;
  ready_at(r, i, seconds, &ready, &least_end, &holder);
  r->end[i] = fmax(at, least_end);
  r->placed[i] = 2;
  r->open--;
  if (op->stream == MAL_STREAM_COMPUTE) tell_cause(s, a, i, compute_until(r, i), holder);
  settle_run(s, a);
}
