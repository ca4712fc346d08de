/* Events, collectives that wait for all members, messages, and the flows that carry them. */
#include "simulate/actor.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64 };

static void *room_for(mal_arena *a, void *array, int32_t *room, int32_t need, size_t size) {
  if (need <= *room) return array;
  int32_t more = *room ? *room : FIRST_ROOM;
  while (more < need) more *= 2;
  array = mal_grow(a, array, (size_t)*room, (size_t)more, size);
  *room = more;
  return array;
}

/* --- events -------------------------------------------------------------------------------------------------------------- */

static bool before(const mal_sim_event *a, const mal_sim_event *b) {
  return a->at < b->at || (a->at == b->at && a->order < b->order);
}

void mal_sim_push(mal_sim *s, double at, int32_t actor, int what, int64_t with) {
  if (s->n_heap == s->room_heap) {
    int64_t room = s->room_heap ? 2 * s->room_heap : FIRST_ROOM;
    s->heap = mal_grow(s->arena, s->heap, (size_t)s->room_heap, (size_t)room, sizeof *s->heap);
    s->room_heap = room;
  }
  mal_sim_event e = {at, s->order++, actor, what, with};
  int64_t i = s->n_heap++;
  for (; i > 0 && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
  s->heap[i] = e;
}

bool mal_sim_pop(mal_sim *s, mal_sim_event *e) {
  if (!s->n_heap) return false;
  *e = s->heap[0];
  mal_sim_event last = s->heap[--s->n_heap];
  int64_t i = 0;
  for (int64_t child; (child = 2 * i + 1) < s->n_heap; i = child) {
    if (child + 1 < s->n_heap && before(&s->heap[child + 1], &s->heap[child])) child++;
    if (!before(&s->heap[child], &last)) break;
    s->heap[i] = s->heap[child];
  }
  s->heap[i] = last;
  return true;
}

/* --- whom a wait was due to ------------------------------------------------------------------------------------------------- */

static const double least_wait_s = 1e-9;

static void blame(mal_sim *s, int32_t waiter, int32_t culprit, int16_t kind, double seconds) {
  if (seconds < least_wait_s || waiter == culprit) return;
  if (2 * (s->n_blames + 1) > s->room_blames) {
    int64_t room = s->room_blames ? 2 * s->room_blames : 1024, old = s->room_blames;
    mal_sim_blame *was = s->blames;
    s->blames = MAL_ARRAY(s->arena, mal_sim_blame, room);
    s->room_blames = room;
    s->n_blames = 0;
    for (int64_t i = 0; i < old; i++)
      if (was[i].times) {
        blame(s, was[i].waiter, was[i].culprit, was[i].kind, was[i].seconds);
        /* the count follows the seconds */
        uint64_t at = ((uint64_t)(uint32_t)was[i].waiter * 2654435761u ^ (uint64_t)(uint32_t)was[i].culprit * 40503u ^
                       (uint64_t)(uint16_t)was[i].kind) &
                      (uint64_t)(room - 1);
        while (s->blames[at].waiter != was[i].waiter || s->blames[at].culprit != was[i].culprit ||
               s->blames[at].kind != was[i].kind)
          at = (at + 1) & (uint64_t)(room - 1);
        s->blames[at].times = was[i].times;
      }
  }
  uint64_t mask = (uint64_t)(s->room_blames - 1);
  uint64_t at =
      ((uint64_t)(uint32_t)waiter * 2654435761u ^ (uint64_t)(uint32_t)culprit * 40503u ^ (uint64_t)(uint16_t)kind) &
      mask;
  for (;; at = (at + 1) & mask) {
    mal_sim_blame *b = &s->blames[at];
    if (!b->times) {
      *b = (mal_sim_blame){waiter, culprit, kind, 0, 0};
      s->n_blames++;
    } else if (b->waiter != waiter || b->culprit != culprit || b->kind != kind) {
      continue;
    }
    b->seconds += seconds;
    b->times++;
    return;
  }
}

/* --- transfers -------------------------------------------------------------------------------------------------------------- */

mal_sim_transfer *mal_sim_take_transfer(mal_sim *s) {
  mal_sim_transfer *t = s->n_spare ? s->spare[--s->n_spare] : MAL_NEW(s->arena, mal_sim_transfer);
  t->n_uses = 0;
  return t;
}

void mal_sim_room_uses(mal_sim *s, mal_sim_transfer *t, int32_t count) {
  t->uses = room_for(s->arena, t->uses, &t->room_uses, count, sizeof *t->uses);
}

static void give_transfer(mal_sim *s, mal_sim_transfer *t) {
  s->spare = room_for(s->arena, s->spare, &s->room_spare, s->n_spare + 1, sizeof *s->spare);
  s->spare[s->n_spare++] = t;
}

/* Moves from time `at` on. */
void mal_sim_schedule_flow(mal_sim *s, mal_sim_transfer *t, double at) {
  int32_t slot = 0;
  for (; slot < s->n_waiting && s->waiting[slot]; slot++)
    if (slot == 64) { /* a long list: append */
      slot = s->n_waiting;
      break;
    }
  if (slot == s->n_waiting) {
    s->waiting = room_for(s->arena, s->waiting, &s->room_waiting, s->n_waiting + 1, sizeof *s->waiting);
    s->n_waiting++;
  }
  s->waiting[slot] = t;
  mal_sim_push(s, at, -1, MAL_EV_FLOW, slot);
}

void mal_sim_start_flow(mal_sim *s, int64_t slot) {
  mal_sim_transfer *t = s->waiting[slot];
  s->waiting[slot] = NULL;
  while (s->n_waiting && !s->waiting[s->n_waiting - 1]) s->n_waiting--;
  double limit = t->limit;
  mal_sim_meeting *m = t->meeting >= 0 ? &s->meetings[t->meeting] : NULL;
  if (m && m->data && s->beside > 0) {
    m->moving = true;
    for (int32_t i = 0; i < m->arrived; i++) {
      mal_sim_actor *a = &s->actors[m->arrivals[i].actor];
      a->dp_moving = true;
      mal_sim_list_beside(s, a, true);
      if (a->state == MAL_AT_LIST) m->computing++;
      if (a->state != MAL_AT_SEGMENT) continue;
      m->computing++;
      mal_sim_set_rate(s, a, 1 / (1 + s->beside));
    }
    if (m->computing) limit /= 1 + s->beside;
  }
  int32_t flow = mal_flow_start(s->flows, s->now, t->bytes, limit, t->uses, s->watch->alone ? 0 : t->n_uses);
  if (m) m->flow = flow;
  s->carried = room_for(s->arena, s->carried, &s->room_carried, flow + 1, sizeof *s->carried);
  s->carried[flow] = t;
}

void mal_sim_computes(mal_sim *s, mal_sim_actor *a, bool on) {
  if (!a->dp_moving || a->dp_meeting < 0) return;
  mal_sim_meeting *m = &s->meetings[a->dp_meeting];
  int32_t was = m->computing;
  m->computing += on ? 1 : -1;
  if (m->flow < 0 || (was > 0) == (m->computing > 0)) return;
  mal_flow_limit(s->flows, s->now, m->flow, m->limit / (m->computing ? 1 + s->beside : 1));
}

/* --- collectives --------------------------------------------------------------------------------------------------------------- */

static void add_uses(mal_sim *s, mal_sim_transfer *t, const mal_flow_use *uses, int32_t count, double scale) {
  mal_sim_room_uses(s, t, t->n_uses + count);
  for (int32_t i = 0; i < count; i++)
    t->uses[t->n_uses++] = (mal_flow_use){uses[i].link, (float)(uses[i].weight * scale)};
}

/* What one rank sends, as bytes of the link that takes longest; a link is taken up as long as price says it is. */
static void set_uses(mal_sim *s, const mal_sim_meeting *m, double share, mal_sim_transfer *t) {
  const mal_collective_time *c = &m->op->time;
  const mal_sim_pattern *p = mal_sim_group_pattern(s->w, m->kind, m->group, (mal_collective)m->op->collective);
  double inner = c->nvlink_bytes + c->pcie_bytes, moving = c->seconds - c->latency_s;
  double inner_s = inner / c->inner_rate, nic_s = c->nic_bytes / c->nic_rate;
  double main = inner_s > nic_s ? inner : c->nic_bytes;
  t->bytes = main * share;
  t->limit = moving > 0 ? main / moving : INFINITY;
  if (s->watch->alone || !(main > 0)) return;
  if (inner > 0) add_uses(s, t, p->inner, p->n_inner, inner / main * s->w->inner_capacity / c->inner_rate);
  if (c->nic_bytes > 0) add_uses(s, t, p->nic, p->n_nic, c->nic_bytes / main * s->w->nic_share / c->nic_rate);
}

static void begin(mal_sim *s, int32_t at) {
  mal_sim_meeting *m = &s->meetings[at];
  const mal_sim_op *op = m->op;
  const mal_sim_kind *k = &s->w->kinds[m->kind];
  int32_t last = m->arrivals[m->arrived - 1].actor;
  for (int32_t i = 0; i < m->arrived; i++) {
    const mal_sim_arrival *a = &m->arrivals[i];
    blame(s, a->actor, last, m->kind, s->now - a->at);
    double ranks = (double)(s->actors[a->actor].class->count * s->w->team_size);
    s->out->sent[a->actor * (MAL_AXES + 1) + op->axis] += op->sent;
    s->out->inner_bytes += ranks * (op->time.nvlink_bytes + op->time.pcie_bytes);
    s->out->nic_bytes += ranks * op->time.nic_bytes;
  }
  (void)k;
  m->began = s->now;
  m->share = op->experts ? m->list->waited * s->actors[last].waited : 1;
  mal_sim_transfer *t = mal_sim_take_transfer(s);
  t->meeting = at;
  t->from = t->to = -1;
  set_uses(s, m, m->share, t);
  m->limit = t->limit;
  m->flow = -1;
  mal_sim_schedule_flow(s, t, s->now + op->time.latency_s * m->share);
}

static mal_sim_meeting *meeting_of(mal_sim *s, mal_sim_actor *a, const mal_sim_op *op, const mal_sim_list *l,
                                   bool lane) {
  int kind = op->kind;
  int32_t group = s->w->kinds[kind].group_of[a->id];
  int64_t seq = a->seq[kind][lane]++;
  for (int32_t i = s->open[kind][group]; i >= 0; i = s->meetings[i].flow)
    if (s->meetings[i].seq == seq && s->meetings[i].lane == lane) return &s->meetings[i];
  int32_t at;
  if (s->n_idle) {
    at = s->idle[--s->n_idle];
  } else {
    s->meetings = room_for(s->arena, s->meetings, &s->room_meetings, s->n_meetings + 1, sizeof *s->meetings);
    at = s->n_meetings++;
  }
  mal_sim_meeting *m = &s->meetings[at];
  mal_sim_arrival *arrivals = m->arrivals;
  int32_t room = m->room;
  *m = (mal_sim_meeting){
      .seq = seq, .kind = (int16_t)kind, .group = group, .op = op, .list = l, .arrivals = arrivals, .room = room};
  m->used = true;
  m->lane = lane;
  m->data = lane;
  m->flow = s->open[kind][group]; /* until it moves: the next open meeting of the group */
  s->open[kind][group] = at;
  return m;
}

static void close_meeting(mal_sim *s, int32_t at) {
  s->meetings[at].used = false;
  s->idle = room_for(s->arena, s->idle, &s->room_idle, s->n_idle + 1, sizeof *s->idle);
  s->idle[s->n_idle++] = at;
}

static void take_from_open(mal_sim *s, int32_t at) {
  mal_sim_meeting *m = &s->meetings[at];
  int32_t *link = &s->open[m->kind][m->group];
  while (*link != at) link = &s->meetings[*link].flow;
  *link = m->flow;
}

static void say_mismatch(mal_sim *s, const mal_sim_meeting *m, const mal_sim_actor *a, const mal_sim_op *op) {
  if (s->status) return;
  const mal_sim_actor *first = &s->actors[m->arrivals[0].actor];
  s->status =
      mal_fail(s->e, MAL_BAD,
               _("ranks of one group call different collectives: rank %lld %s of %.0f bytes, rank %lld %s of %.0f "
                 "bytes, each as number %lld of their group."),
               (long long)mal_sim_rank(s, first), m->op->name, m->op->sent, (long long)mal_sim_rank(s, a), op->name,
               op->sent, (long long)m->seq);
}

void mal_sim_arrive(mal_sim *s, mal_sim_actor *a, const mal_sim_list *l, const mal_sim_op *op, int32_t handle) {
  mal_sim_meeting *m = meeting_of(s, a, op, l, handle == MAL_SIM_DP_HANDLE);
  const mal_sim_kind *k = &s->w->kinds[m->kind];
  if (m->arrived && (m->op->collective != op->collective || m->op->sent != op->sent)) {
    say_mismatch(s, m, a, op);
    return;
  }
  m->arrivals = room_for(s->arena, m->arrivals, &m->room, m->arrived + 1, sizeof *m->arrivals);
  m->arrivals[m->arrived++] = (mal_sim_arrival){a->id, handle, s->now};
  int32_t at = (int32_t)(m - s->meetings);
  if (handle == MAL_SIM_DP_HANDLE) a->dp_meeting = at;
  if (m->arrived < k->first[m->group + 1] - k->first[m->group]) return;
  take_from_open(s, at);
  begin(s, at);
}

static void end_meeting(mal_sim *s, int32_t at) {
  mal_sim_meeting m = s->meetings[at];
  s->meetings[at].flow = -1;
  if (m.share < 1) { /* the rest of an expert exchange goes on beside */
    mal_sim_transfer *t = mal_sim_take_transfer(s);
    t->meeting = t->from = t->to = -1;
    set_uses(s, &m, 1 - m.share, t);
    mal_sim_schedule_flow(s, t, s->now);
  }
  for (int32_t i = 0; i < m.arrived; i++) {
    mal_sim_actor *a = &s->actors[m.arrivals[i].actor];
    if (!m.data || !m.moving) continue;
    if (a->state == MAL_AT_SEGMENT) mal_sim_set_rate(s, a, 1);
    mal_sim_list_beside(s, a, false);
    a->dp_moving = false;
  }
  for (int32_t i = 0; i < m.arrived; i++) {
    mal_sim_arrival arrival = s->meetings[at].arrivals[i];
    mal_sim_actor *a = &s->actors[arrival.actor];
    if (s->watch->detail || m.data) mal_sim_draw(s, a, m.op->name, m.op->stream, -1, -1, m.began, s->now);
    if (arrival.handle == MAL_SIM_DP_HANDLE) {
      mal_sim_job_step(s, a);
      continue;
    }
    if (s->w->kinds[m.kind].axes & 1u << MAL_AXIS_PP &&
        m.op->cause != MAL_TIME_BUBBLE) { /* it waited for other stages */
      mal_sim_causes(s, a)[MAL_TIME_BUBBLE] += m.began - arrival.at;
      mal_sim_causes(s, a)[m.op->cause] -= m.began - arrival.at;
    }
    mal_sim_op_ended(s, a, arrival.handle, s->now);
  }
  close_meeting(s, at);
}

/* --- messages ------------------------------------------------------------------------------------------------------------------ */

void mal_sim_send(mal_sim *s, mal_sim_actor *a, const mal_step *step, bool blocking) {
  const mal_layout *l = &s->plan->layout;
  bool forward = step->op == MAL_S_SEND_F;
  int64_t stage = a->class->stage, peer, peer_chunk;
  mal_pipe_neighbour(&s->pipe, stage, step->chunk, forward ? 1 : -1, &peer, &peer_chunk);
  int32_t to = peer == (stage + 1) % l->pp ? a->class->after : a->class->before;
  bool net;
  mal_sim_transfer *t = mal_sim_take_transfer(s);
  mal_sim_room_uses(s, t, mal_sim_message_most(s->w, a->id, to));
  t->n_uses = mal_sim_message_uses(s->w, a->id, to, t->uses, &net);
  mal_group g = {.size = 2, .ranks_per_node = net ? 1 : 2, .nodes = net ? 2 : 1, .stride = 1};
  int64_t domain = mal_machine_domain(&s->plan->machine);
  g.ranks_per_nvlink = domain > 1 ? 2 : 1;
  mal_group whole = mal_layout_group(l, &s->plan->machine, 1 << MAL_AXIS_PP);
  g.nic_share = whole.nic_share;
  if (!net)
    g = whole, g.nodes = 1, g.ranks_per_node = g.size, g.ranks_per_nvlink = whole.ranks_per_nvlink > 1 ? g.size : 1;
  mal_collective_time price = mal_transfer_price(&s->plan->machine, &g, (double)s->p->boundary_bytes);
  double rate = net ? price.nic_rate : price.inner_rate, scale = (net ? s->w->nic_share : s->w->inner_capacity) / rate;
  t->meeting = -1;
  t->from = a->id, t->to = to;
  t->direction = !forward, t->chunk = (uint8_t)peer_chunk, t->micro_batch = step->micro_batch;
  t->blocking = blocking;
  t->bytes = (double)s->p->boundary_bytes;
  t->limit = rate;
  t->asked = s->now;
  t->hop = price.seconds;
  for (int32_t i = 0; i < t->n_uses; i++) t->uses[i].weight *= (float)scale;
  double ranks = (double)(a->class->count * s->w->team_size);
  s->out->sent[a->id * (MAL_AXES + 1) + MAL_AXES] += t->bytes;
  *(net ? &s->out->nic_bytes : &s->out->inner_bytes) += ranks * t->bytes;
  mal_sim_schedule_flow(s, t, s->now + price.latency_s);
}

static void deliver(mal_sim *s, const mal_sim_transfer *t) {
  mal_sim_actor *to = &s->actors[t->to], *from = &s->actors[t->from];
  to->arrived[t->direction][t->chunk * s->pipe.micro_batches + t->micro_batch] = s->now;
  mal_sim_draw(s, from, t->direction ? "send gradient" : "send", MAL_STREAM_PP, t->chunk, t->micro_batch, t->asked,
               s->now);
  if (to->state == MAL_AT_MESSAGE && to->chunk == t->chunk && to->micro_batch == t->micro_batch &&
      (to->pass == MAL_SIM_F) == !t->direction) {
    double gap = s->now - to->since, moving = fmin(gap, s->now - t->asked);
    mal_sim_causes(s, to)[MAL_TIME_PP] += moving;
    mal_sim_causes(s, to)[MAL_TIME_BUBBLE] += gap - moving;
    blame(s, to->id, from->id, -1, gap - moving);
    to->state = MAL_AT_NEXT;
    mal_sim_advance(s, to);
  }
  if (t->blocking && from->state == MAL_AT_SEND) {
    mal_sim_causes(s, from)[MAL_TIME_PP] += s->now - from->since;
    from->state = MAL_AT_NEXT;
    mal_sim_advance(s, from);
  }
}

void mal_sim_end_flow(mal_sim *s, int32_t flow) {
  mal_sim_transfer *t = s->carried[flow];
  if (t->meeting >= 0)
    end_meeting(s, t->meeting);
  else if (t->to >= 0)
    deliver(s, t);
  else if (t->from >= 0)
    mal_sim_copied(s, t);
  give_transfer(s, t);
}

/* --- when nothing moves any more ------------------------------------------------------------------------------------------------ */

static const char *state_words(const mal_sim *s, const mal_sim_actor *a) {
  static const char *const pass[MAL_SIM_PASSES] = {"F", "B", "W", "BW"};
  switch (a->state) {
  case MAL_AT_MESSAGE:
    return mal_print(s->arena, _("waits for the message that %s of chunk %d, micro-batch %lld needs"), pass[a->pass],
                     a->chunk, (long long)a->micro_batch);
  case MAL_AT_SEND: return _("waits until its message is across");
  case MAL_AT_DEAD: return _("has died");
  case MAL_AT_SAVE: return _("copies its part of a checkpoint");
  case MAL_AT_IDS:
  case MAL_AT_READ: return _("waits for its token ids");
  case MAL_AT_LIST:
    return mal_print(s->arena, _("is in %s, micro-batch %lld"), a->sync_list ? _("the end of the step") : pass[a->pass],
                     (long long)a->micro_batch);
  default: return _("waits for data-parallel traffic");
  }
}

char *mal_sim_why_stuck(mal_sim *s) {
  enum { SHOWN = 4 };
  mal_writing text = {.arena = s->arena};
  int64_t stuck = 0, shown = 0;
  for (int32_t i = 0; i < s->n_actors; i++)
    if (s->actors[i].state == MAL_AT_DEAD)
      mal_write(&text, _("rank %lld has died; "), (long long)s->actors[i].class->dead_rank);
  for (int32_t i = 0; i < s->n_meetings; i++) {
    const mal_sim_meeting *m = &s->meetings[i];
    if (!m->used || shown == SHOWN || !m->arrived) continue;
    const mal_sim_kind *k = &s->w->kinds[m->kind];
    int32_t missing = -1;
    for (int32_t x = k->first[m->group]; x < k->first[m->group + 1] && missing < 0; x++) {
      missing = k->members[x];
      for (int32_t y = 0; y < m->arrived; y++)
        if (m->arrivals[y].actor == missing) missing = -1;
    }
    if (missing < 0) continue;
    mal_write(&text, _("rank %lld waits in %s for rank %lld, which %s; "),
              (long long)mal_sim_rank(s, &s->actors[m->arrivals[0].actor]), m->op->name,
              (long long)(s->actors[missing].state == MAL_AT_DEAD ? s->actors[missing].class->dead_rank
                                                                  : mal_sim_rank(s, &s->actors[missing])),
              state_words(s, &s->actors[missing]));
    shown++;
  }
  for (int32_t i = 0; i < s->n_actors; i++) {
    const mal_sim_actor *a = &s->actors[i];
    if (a->state == MAL_AT_END || a->state == MAL_AT_DEAD) continue;
    stuck += a->class->count * s->w->team_size;
    if (shown >= SHOWN || (a->state != MAL_AT_MESSAGE && a->state != MAL_AT_SEND)) continue;
    mal_write(&text, _("rank %lld (stage %d) %s; "), (long long)mal_sim_rank(s, a), a->class->stage, state_words(s, a));
    shown++;
  }
  mal_write(&text, _("%lld of %lld ranks never reach the end of the step"), (long long)stuck, (long long)s->w->ranks);
  return text.text;
}
