#include "simulate/lists.h"
#include "price/kernel.h"
#include "program/lower_block.h"
#include "program/show.h"
#include <math.h>
#include <string.h>

enum { ON_STACK = 256, SMALL_BYTES = 1 << 16 }; /* norms and flags wait for all gradients: nothing hides them */

/* Of expert traffic that could run beside another micro-batch's products a third is seen all the same, as in price. */
static const double experts_seen = 0.35;

/* --- making -------------------------------------------------------------------------------------------------------------- */

bool mal_sim_moves(const mal_plan *plan, const mal_block *b, const mal_instruction *i) {
  (void)plan;
  if (i->op != MAL_OP_COLLECTIVE || i->cause != MAL_TIME_DP) return false;
  bool data =
      i->axes == MAL_AXES_SHARD || i->axes == MAL_AXES_REPLICA || i->axes & (1 << MAL_AXIS_DP | 1 << MAL_AXIS_EDP);
  return data && b->sizes[i->sizes].v[0] >= SMALL_BYTES;
}

static int8_t axis_of(unsigned axes) {
  static const int order[MAL_AXES] = {MAL_AXIS_DP, MAL_AXIS_EDP, MAL_AXIS_EP, MAL_AXIS_ETP,
                                      MAL_AXIS_TP, MAL_AXIS_CP,  MAL_AXIS_PP};
  if (axes == MAL_AXES_SHARD || axes == MAL_AXES_REPLICA) return MAL_AXIS_DP;
  for (int i = 0; i < MAL_AXES; i++)
    if (axes & 1u << order[i]) return (int8_t)order[i];
  return MAL_AXES;
}

static void set_collective(const mal_sim_world *w, const mal_instruction *i, const mal_sizes *s, mal_sim_op *op) {
  const mal_plan *plan = w->program->plan;
  bool exchange = i->op == MAL_OP_SEND;
  mal_group g = mal_instruction_group(plan, i->axes);
  double bytes = (double)s->v[0];
  op->collective = i->variant;
  op->kind = (int16_t)mal_sim_kind_of(w, i->axes, exchange);
  op->axis = axis_of(i->axes);
  if (g.size < 2 || op->kind < 0) return;
  if (exchange)
    op->time = mal_transfer_price(&plan->machine, &g, bytes);
  else if (w->algorithm > 0)
    op->time = mal_collective_price_with(&plan->machine, &g, (mal_collective)i->variant, bytes,
                                         (mal_algorithm)(w->algorithm - 1));
  else
    op->time = mal_collective_price(&plan->machine, &g, (mal_collective)i->variant, bytes);
  op->seconds = op->time.seconds;
  double inner = (op->time.nvlink_bytes + op->time.pcie_bytes) / op->time.inner_rate;
  op->inner_s = fmin(inner, op->seconds - op->time.latency_s);
  double share = (double)(g.size - 1) / (double)g.size;
  op->sent = exchange ? bytes : i->variant == MAL_ALL_REDUCE ? 2 * share * bytes : share * bytes;
  op->net = op->seconds > 0 && !w->kinds[op->kind].local;
}

static void set_op(const mal_sim_world *w, const mal_block *b, const mal_instruction *i, mal_sim_op *op) {
  const mal_sizes *s = &b->sizes[i->sizes];
  *op = (mal_sim_op){.stream = i->stream, .cause = i->cause, .op = i->op, .kind = -1, .axis = MAL_AXES};
  op->chunked = i->flags & MAL_INS_CHUNKED;
  op->wait[0] = i->wait[0], op->wait[1] = i->wait[1], op->record = i->record;
  op->name = mal_instruction_name(i);
  op->flops = mal_ops[i->op].flops(i, s);
  op->experts = i->cause == MAL_TIME_EP;
  if ((i->op == MAL_OP_COLLECTIVE || i->op == MAL_OP_SEND) && i->axes)
    set_collective(w, i, s, op);
  else
    op->seconds = mal_price_instruction(w->program->plan, b, i, NULL);
  if (i->op == MAL_OP_COPY && i->variant)
    op->copy = op->net = true, op->places = i->variant, op->bytes = (double)s->v[0];
}

static bool is_kernel(const mal_sim_op *op) {
  return op->stream == MAL_STREAM_COMPUTE && !op->copy && op->op != MAL_OP_COLLECTIVE && op->op != MAL_OP_SEND &&
         op->op != MAL_OP_RECV;
}

static void append(mal_sim_list *l, const mal_sim_op *op) {
  l->n_net += op->net;
  l->flops += op->flops;
  if (op->kind >= 0 && !op->net) {
    l->sent[op->axis] += op->sent;
    l->inner_bytes += op->time.nvlink_bytes + op->time.pcie_bytes;
    l->nic_bytes += op->time.nic_bytes;
  }
  if (is_kernel(op)) l->kernels_s += op->seconds;
  mal_sim_op *last = &l->ops[l->n++];
  *last = *op;
  last->before = l->last[op->stream];
  last->compute_before = l->last[MAL_STREAM_COMPUTE];
  l->last[op->stream] = l->n - 1;
}

static void set_waited(const mal_sim_world *w, mal_sim_list *l) {
  l->waited = 1;
  if (!w->program->plan->profile->overlap_ep) return;
  mal_sim_span alone = mal_sim_list_alone(l, 1, 1, NULL, NULL);
  double traffic = alone.cause_s[MAL_TIME_EP], hidden = (1 - experts_seen) * fmin(traffic, alone.span_s - traffic);
  if (traffic > 0 && hidden > 0) l->waited = 1 - hidden / traffic;
}

void mal_sim_list_make(mal_sim_world *w, const mal_block *b, mal_list list, mal_sim_skip *skip, mal_sim_list *out,
                       mal_sim_list *moved) {
  const mal_plan *plan = w->program->plan;
  int count = b->count[list];
  *out = (mal_sim_list){.n_events = b->n_events, .launch_s = plan->machine.gpu->cal.launch_s.value};
  out->pieces = plan->layout.tp > 1 ? (double)plan->layout.tp : 1;
  out->ops = MAL_ARRAY(w->arena, mal_sim_op, count ? count : 1);
  for (int k = 0; k < MAL_STREAMS; k++) out->last[k] = -1;
  if (moved) {
    *moved = *out;
    moved->ops = MAL_ARRAY(w->arena, mal_sim_op, count ? count : 1);
    moved->waited = 1;
  }
  for (int i = 0; i < count; i++) {
    const mal_instruction *in = &b->list[list][i];
    mal_sim_op op;
    set_op(w, b, in, &op);
    append(skip && moved && skip(plan, b, in) ? moved : out, &op);
  }
  if (count) out->host_s = mal_price_list(plan, b, list).cause_s[MAL_TIME_LAUNCH];
  set_waited(w, out);
}

/* --- a list alone -------------------------------------------------------------------------------------------------------- */

double mal_sim_op_seconds(const mal_sim_list *l, const mal_sim_op *op, double slow, double link_left) {
  if (is_kernel(op)) return op->seconds * slow * (l->kernels_s > 0 ? 1 + l->host_s / l->kernels_s : 1);
  double s = op->seconds;
  if (op->kind < 0) return s * (op->stream == MAL_STREAM_COMPUTE ? slow : 1);
  if (link_left < 1 && op->inner_s > 0) {
    double inner = op->inner_s / fmax(link_left, 1e-6), rest = s - op->time.latency_s;
    s = op->time.latency_s + (op->time.phases ? rest - op->inner_s + inner : fmax(rest, inner));
  }
  return op->experts ? s * l->waited : s;
}

typedef struct player {
  const mal_sim_list *l;
  double *start, *end;
  int32_t *recorder;
  double free[MAL_STREAMS];
} player;

static void wait_for(const player *p, int at, uint16_t event, double seconds, double *ready, double *least_end,
                     int *holder) {
  if (event == MAL_NO_EVENT || p->recorder[event] < 0) return;
  const mal_sim_op *op = &p->l->ops[at], *other = &p->l->ops[p->recorder[event]];
  double start = p->start[p->recorder[event]], end = p->end[p->recorder[event]], from = end;
  if ((op->op == MAL_OP_MATMUL && other->chunked) || (other->op == MAL_OP_MATMUL && op->chunked)) {
    from = start + (end - start) / p->l->pieces;
    *least_end = fmax(*least_end, end + seconds / p->l->pieces);
  }
  if (from > *ready) *ready = from, *holder = p->recorder[event];
}

mal_sim_span mal_sim_list_alone(const mal_sim_list *l, double slow, double link_left, double *start, double *end) {
  double starts[ON_STACK], ends[ON_STACK];
  int32_t recorders[ON_STACK];
  mal_arena large;
  mal_sim_span out = {0};
  mal_arena_init(&large);
  player p = {.l = l, .start = start ? start : starts, .end = end ? end : ends, .recorder = recorders};
  if (!start && l->n > ON_STACK) p.start = MAL_ARRAY(&large, double, l->n), p.end = MAL_ARRAY(&large, double, l->n);
  if (l->n_events > ON_STACK) p.recorder = MAL_ARRAY(&large, int32_t, l->n_events);
  for (int i = 0; i < l->n_events; i++) p.recorder[i] = -1;
  double stretch = l->kernels_s > 0 ? l->host_s / l->kernels_s : 0;
  int last = -1;
  for (int i = 0; i < l->n; i++) {
    const mal_sim_op *op = &l->ops[i];
    double seconds = mal_sim_op_seconds(l, op, slow, link_left), ready = p.free[op->stream], least_end = 0;
    int holder = -1;
    for (int k = 0; k < 2; k++) wait_for(&p, i, op->wait[k], seconds, &ready, &least_end, &holder);
    if (least_end > 0 && op->op == MAL_OP_MATMUL) seconds += (l->pieces - 1) * l->launch_s;
    p.start[i] = ready;
    p.end[i] = fmax(ready + seconds, least_end);
    if (op->stream == MAL_STREAM_COMPUTE) {
      if (holder >= 0) out.cause_s[l->ops[holder].cause] += ready - p.free[op->stream];
      double launch = is_kernel(op) ? op->seconds * slow * stretch : 0;
      out.cause_s[MAL_TIME_LAUNCH] += launch;
      out.cause_s[op->cause] += seconds - launch;
      if (p.end[i] > ready + seconds)
        out.cause_s[holder >= 0 ? l->ops[holder].cause : MAL_TIME_TP] += p.end[i] - ready - seconds;
    }
    p.free[op->stream] = p.end[i];
    if (op->record != MAL_NO_EVENT) p.recorder[op->record] = i;
    if (last < 0 || p.end[i] > p.end[last]) last = i;
  }
  if (last >= 0) {
    out.span_s = p.end[last];
    out.cause_s[l->ops[last].cause] += out.span_s - p.free[MAL_STREAM_COMPUTE];
  }
  if (l->kernels_s <= 0) out.span_s += l->host_s, out.cause_s[MAL_TIME_LAUNCH] += l->host_s;
  mal_arena_free(&large);
  return out;
}
