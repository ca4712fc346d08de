/* One list of one block on its streams: a stream runs in order, an instruction also waits for the events it names.
 *
 * The compute stream is the line along which time is told: its own kernels by their cause, its gaps and the tail after its last
 * kernel by what ran then: the instruction that was waited for, before it those that held it up in turn. So causes sum to the
 * span.
 *
 * A chunked collective and the product next to it exchange pieces (Wang et al., ASPLOS 2023): the later one starts when the first
 * piece is there, and ends no earlier than the other's end plus its own last piece.
 *
 * The host issues kernels while the GPU runs earlier ones: the list takes nearly the longer of the two, the third-power sum of
 * both; when each launch waits for its kernel (CUDA_LAUNCH_BLOCKING) it takes their sum; a CUDA graph takes no host time. */
#include "price/kernel.h"
#include <math.h>

enum { ON_STACK = 256 };

/* Backward is issued by the C++ autograd engine, forward by Python modules: per kernel some two thirds (judgement). */
static const double backward_host = 0.7;

typedef struct slot {
  double start, end, seconds;
  int32_t by; /* the instruction whose end let it start; -1: none */
} slot;

typedef struct lister {
  const mal_plan *plan;
  const mal_block *b;
  const mal_instruction *code;
  slot *slots;       /* by instruction */
  int32_t *recorder; /* by event: the instruction that records it, -1 before */
  double free[MAL_STREAMS];
  int32_t last[MAL_STREAMS]; /* instruction that was the stream's last so far, -1 */
  double pieces;             /* of a chunked collective */
  int known;                 /* communication priced last: buckets repeat */
  double known_seconds;
  mal_list_time *out;
} lister;

static bool same_communication(const lister *l, const mal_instruction *x, const mal_instruction *y) {
  return x->op == y->op && x->variant == y->variant && x->axes == y->axes &&
         l->b->sizes[x->sizes].v[0] == l->b->sizes[y->sizes].v[0];
}

static double seconds_of(lister *l, int at) {
  const mal_instruction *in = &l->code[at];
  if (!mal_is_communication(in)) return mal_price_instruction(l->plan, l->b, in, NULL);
  if (l->known < 0 || !same_communication(l, in, &l->code[l->known]))
    l->known_seconds = mal_price_instruction(l->plan, l->b, in, NULL);
  l->known = at;
  return l->known_seconds;
}

/* Earliest start after event w, and the least end that a piecewise neighbour imposes. */
static void wait_for(const lister *l, int at, uint16_t w, double *ready, double *least_end, int *holder) {
  if (w == MAL_NO_EVENT || l->recorder[w] < 0) return;
  const mal_instruction *in = &l->code[at], *other = &l->code[l->recorder[w]];
  const slot *s = &l->slots[l->recorder[w]];
  bool piecewise = (in->op == MAL_OP_MATMUL && other->flags & MAL_INS_CHUNKED) ||
                   (other->op == MAL_OP_MATMUL && in->flags & MAL_INS_CHUNKED);
  double from = piecewise ? s->start + s->seconds / l->pieces : s->end;
  if (piecewise) *least_end = fmax(*least_end, s->end + l->slots[at].seconds / l->pieces);
  if (from > *ready) *ready = from, *holder = l->recorder[w];
}

/* Tells the time between from and until, at whose end instruction `at` ends. */
static void tell(lister *l, int at, double from, double until) {
  for (; at >= 0 && until > from; at = l->slots[at].by) {
    double start = l->slots[at].by < 0 ? from : fmax(from, fmin(until, l->slots[at].start));
    l->out->cause_s[l->code[at].cause] += until - start;
    until = start;
  }
}

static void place(lister *l, int at) {
  const mal_instruction *in = &l->code[at];
  slot *s = &l->slots[at];
  mal_stream stream = (mal_stream)in->stream;
  double ready = l->free[stream], least_end = 0;
  int holder = -1;
  s->seconds = seconds_of(l, at);
  for (int k = 0; k < 2; k++) wait_for(l, at, in->wait[k], &ready, &least_end, &holder);
  if (least_end > 0 && in->op == MAL_OP_MATMUL)
    s->seconds += (l->pieces - 1) * l->plan->machine.gpu->cal.launch_s.value;
  s->start = ready;
  s->end = fmax(ready + s->seconds, least_end);
  s->by = holder >= 0 ? holder : l->last[stream];
  l->out->busy_s[stream] += s->seconds;
  if (stream == MAL_STREAM_COMPUTE) {
    if (holder >= 0) tell(l, holder, l->free[stream], ready);
    l->out->cause_s[in->cause] += s->seconds;
    if (s->end > ready + s->seconds) { /* the other's last piece came late */
      int late = holder >= 0 ? l->code[holder].cause : MAL_TIME_TP;
      l->out->cause_s[late] += s->end - ready - s->seconds;
    }
  }
  l->free[stream] = s->end;
  l->last[stream] = at;
  if (in->record != MAL_NO_EVENT) l->recorder[in->record] = at;
}

static void finish(lister *l, int count) {
  int last = -1;
  double compute = l->free[MAL_STREAM_COMPUTE];
  for (int i = 0; i < count; i++)
    if (last < 0 || l->slots[i].end > l->slots[last].end) last = i;
  l->out->span_s = last < 0 ? 0 : fmax(l->slots[last].end, compute);
  if (last >= 0) tell(l, last, compute, l->out->span_s);
}

/* Expert traffic beside another micro-batch's products: what they cannot cover stays, and a third of the rest (judgement). */
static void overlap_experts(const mal_plan *plan, mal_list_time *t) {
  static const double seen = 0.35;
  if (!plan->profile->overlap_ep) return;
  double traffic = t->cause_s[MAL_TIME_EP], hidden = (1 - seen) * fmin(traffic, t->span_s - traffic);
  if (hidden <= 0) return;
  t->cause_s[MAL_TIME_EP] -= hidden;
  t->span_s -= hidden;
}

/* Where a layer's MLP and its experts begin in its forward list. */
typedef struct parts {
  bool layer, experts;
  int mlp, sent;
} parts;

static parts parts_of(const mal_plan *plan, const mal_block *b) {
  parts p = {.layer = b->block_class == MAL_B_LAYER};
  if (!p.layer) return p;
  p.experts = mal_block_has_experts(plan, b);
  int count = b->count[MAL_L_F], core = 0;
  p.mlp = p.sent = count;
  for (int i = 0; i < count; i++) {
    uint8_t op = b->list[MAL_L_F][i].op;
    if (op == MAL_OP_ATTENTION || op == MAL_OP_SOFTMAX) core = i, p.mlp = count;
    if (op == MAL_OP_NORM && i > core && p.mlp == count) p.mlp = i;
    if (op == MAL_OP_PERMUTE && p.sent == count) p.sent = i;
  }
  return p;
}

static bool captured(const mal_profile *profile, const parts *p, int forward) {
  if (!p->layer) return false;
  if (forward < p->mlp) return profile->graph_attention;
  return p->experts ? forward < p->sent && profile->graph_router : profile->graph_mlp;
}

static int extra_kernels(const mal_plan *plan, const mal_block *b, const parts *p) {
  static const int64_t of_a_bias = 7; /* split, product, sum, and their gradients; forward 5, backward 9 */
  const mal_profile *profile = plan->profile;
  int64_t extra = profile->kernels_extra;
  if (profile->graph_attention || profile->graph_mlp) extra /= 2;
  if (p->experts) extra += profile->kernels_extra_moe - (profile->graph_router ? profile->kernels_router : 0);
  if (p->experts && profile->expert_bias_apart && plan->model.kinds[b->kind].mlp_bias)
    extra += of_a_bias * plan->model.kinds[b->kind].experts / plan->layout.ep;
  return (int)extra;
}

static void add_host(const mal_plan *plan, const mal_block *b, mal_list list, mal_list_time *t) {
  bool layer = b->block_class == MAL_B_LAYER && list != MAL_L_W && list != MAL_L_GATHER && list != MAL_L_REDUCE;
  parts p = parts_of(plan, b);
  for (int i = 0; i < b->count[list]; i++) {
    const mal_instruction *in = &b->list[list][i];
    if (captured(plan->profile, &p, list == MAL_L_F ? i : (int)in->origin)) continue;
    t->kernels += mal_instruction_kernels(plan, in, &b->sizes[in->sizes]);
  }
  if (layer && b->count[list] > 0) t->kernels += extra_kernels(plan, b, &p);
  t->host_s = mal_host_time(plan, t->kernels) * (list == MAL_L_F || list == MAL_L_R ? 1 : backward_host);
  if (list == MAL_L_GATHER || list == MAL_L_REDUCE || t->host_s <= 0) return;
  double gpu = t->span_s, total = gpu + t->host_s;
  if (plan->profile->launch != MAL_LAUNCH_BLOCKING) {
    double longer = fmax(gpu, t->host_s), ratio = fmin(gpu, t->host_s) / longer;
    total = longer * cbrt(1 + ratio * ratio * ratio);
  }
  t->span_s = total;
  t->cause_s[MAL_TIME_LAUNCH] += total - gpu;
}

mal_list_time mal_price_list(const mal_plan *plan, const mal_block *b, mal_list list) {
  mal_list_time time = {0};
  slot slots[ON_STACK];
  int32_t recorder[ON_STACK];
  int count = b->count[list], events = b->n_events;
  lister l = {
      .plan = plan, .b = b, .code = b->list[list], .slots = slots, .recorder = recorder, .known = -1, .out = &time};
  l.pieces = plan->layout.tp > 1 ? (double)plan->layout.tp : 1;
  mal_arena large; /* only for lists of many buckets */
  mal_arena_init(&large);
  if (count > ON_STACK) l.slots = MAL_ARRAY(&large, slot, count);
  if (events > ON_STACK) l.recorder = MAL_ARRAY(&large, int32_t, events);
  for (int i = 0; i < events; i++) l.recorder[i] = -1;
  for (int i = 0; i < MAL_STREAMS; i++) l.last[i] = -1;
  for (int i = 0; i < count; i++) place(&l, i);
  finish(&l, count);
  mal_arena_free(&large);
  overlap_experts(plan, &time);
  add_host(plan, b, list, &time);
  return time;
}
