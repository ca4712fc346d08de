#include "price/compose.h"
#include "program/schedule.h"
#include <math.h>
#include <string.h>

enum { REPLAY_LIMIT = 1 << 22 }; /* steps played one by one; more micro-batches repeat the steady state */

typedef struct entry {
  uint8_t pass, chunk;
  uint32_t micro_batch;
} entry;

typedef struct replay {
  mal_pipe pipe;
  int64_t pp, chunks, depth, M;
  bool blocking;       /* a sender waits until its message is across */
  double *span;        /* [stage][chunk][pass] */
  double *exchange;    /* DualPipe, the same: of span, exposed all-to-all; else NULL */
  double *hop;         /* [stage]: message between stage and the next one, the last and the first */
  entry *orders;       /* [stage][per_stage] */
  int64_t *count, *at; /* [stage] */
  int64_t per_stage;
  double *ahead, *back; /* [virtual stage][micro-batch]: arrival of activation and of its gradient, < 0 before */
  double *now, *waited, *message; /* [stage]: clock; idle; of that or beside it, messages */
  double *hidden;                 /* [stage]: all-to-all that ran beside the other direction */
  double *
      longer; /* [stage][chunk]: what data-parallel traffic adds to the last backward pass, and so to the stages that wait */
  uint8_t reducing; /* the pass that makes gradients */
  mal_timeline *timeline;
} replay;

/* --- the machine's side ---------------------------------------------------------------------------------------------- */

/* Messages between neighbouring stages: some boundaries lie inside a node (or NVLink domain), some between. */
void mal_pipe_hops(const mal_plan *plan, int64_t boundary_bytes, double *hop) {
  const mal_layout *l = &plan->layout;
  mal_group far = mal_layout_group(l, &plan->machine, 1 << MAL_AXIS_PP), near = far;
  near.nodes = 1, near.ranks_per_node = near.size;
  if (near.ranks_per_nvlink > 1) near.ranks_per_nvlink = near.size;
  double across = mal_transfer_price(&plan->machine, &far, (double)boundary_bytes).seconds;
  double inside = mal_transfer_price(&plan->machine, &near, (double)boundary_bytes).seconds;
  int64_t island = mal_machine_domain(&plan->machine), ranks = l->tp * l->cp * l->dp;
  if (island < plan->machine.gpus_per_node) island = plan->machine.gpus_per_node;
  for (int64_t s = 0; s < l->pp; s++) {
    int64_t next = (s + 1) % l->pp;
    bool same = (s + 1) * ranks <= ((s * ranks) / island + 1) * island &&
                ((next * ranks) / island == (s * ranks) / island) &&
                (next + 1) * ranks <= ((s * ranks) / island + 1) * island;
    hop[s] = same ? inside : across;
  }
}

static double hop_between(const replay *r, int64_t a, int64_t b) {
  if (a == b) return 0;
  int64_t low = a < b ? a : b, high = a < b ? b : a;
  return high - low == 1 ? r->hop[low] : r->hop[r->pp - 1];
}

/* --- the schedule's side --------------------------------------------------------------------------------------------- */

typedef struct order_writer {
  entry *next;
  int64_t *count;
} order_writer;

static void write_entry(void *context, mal_step_op op, int64_t chunk, int64_t micro_batch) {
  order_writer *w = context;
  uint8_t pass = op == MAL_S_F ? MAL_T_F : op == MAL_S_B ? MAL_T_B : op == MAL_S_W ? MAL_T_W : MAL_T_BW;
  w->next[(*w->count)++] = (entry){pass, (uint8_t)chunk, (uint32_t)micro_batch};
}

static void set_orders(mal_arena *a, replay *r, bool split) {
  r->per_stage = (split ? 3 : 2) * r->chunks * r->M;
  r->orders = MAL_ARRAY(a, entry, r->pp * r->per_stage);
  r->count = MAL_ARRAY(a, int64_t, r->pp);
  for (int64_t s = 0; s < r->pp; s++) {
    order_writer w = {r->orders + s * r->per_stage, &r->count[s]};
    mal_pipe_order(&r->pipe, s, write_entry, &w);
  }
}

static void draw(replay *r, int64_t stage, const entry *e, double start, double end) {
  static const char *const names[MAL_T_PASSES] = {"F", "B", "W", "BW"};
  if (r->timeline)
    mal_timeline_add(r->timeline, (mal_event){names[e->pass], (int32_t)stage, MAL_STREAM_COMPUTE, e->chunk,
                                              (int32_t)e->micro_batch, start, end});
}

/* Hands what (stage, e) computed at `end` to the virtual stage `by` further. Returns how long the sender waits for that. */
static double deliver(replay *r, int64_t stage, const entry *e, int by, double *arrival, double end) {
  int64_t v = mal_pipe_virtual(&r->pipe, stage, e->chunk) + by, peer, peer_chunk;
  if (v < 0 || v >= r->depth) return 0;
  mal_pipe_neighbour(&r->pipe, stage, e->chunk, by, &peer, &peer_chunk);
  double hop = hop_between(r, stage, peer);
  arrival[v * r->M + e->micro_batch] = end + hop;
  return r->blocking && peer != stage ? hop : 0;
}

/* When the input of e is there; < 0: not yet. */
static double arrival_of(const replay *r, int64_t stage, const entry *e, double *hop) {
  int64_t v = mal_pipe_virtual(&r->pipe, stage, e->chunk), peer, peer_chunk;
  int by = e->pass == MAL_T_F ? -1 : 1;
  if (e->pass == MAL_T_W || v + by < 0 || v + by >= r->depth) return 0;
  mal_pipe_neighbour(&r->pipe, stage, e->chunk, by, &peer, &peer_chunk);
  *hop = hop_between(r, stage, peer);
  return (e->pass == MAL_T_F ? r->ahead : r->back)[v * r->M + e->micro_batch];
}

static size_t pass_index(const replay *r, int64_t stage, const entry *e) {
  return (size_t)((stage * r->chunks + e->chunk) * MAL_T_PASSES + e->pass);
}

/* DualPipe runs a forward pass and the whole backward pass of the other direction after it as one (DeepSeek-V3 report, arXiv
 * 2412.19437, section 3.2.1): both inputs must be there, both results leave at its end, and the all-to-all of each runs beside
 * the products of the other. How many entries e begins. */
static int fused(const replay *r, int64_t stage, const entry *e) {
  const entry *end = r->orders + stage * r->per_stage + r->count[stage];
  if (r->pipe.kind != MAL_DUALPIPE || end - e < 3 || e->pass != MAL_T_F) return 1;
  bool whole = e[1].pass == MAL_T_B && e[2].pass == MAL_T_W && e[2].micro_batch == e[1].micro_batch;
  return whole && e[1].chunk != e->chunk ? 3 : 1;
}

static double hidden_in(replay *r, int64_t stage, const entry *e) {
  if (!r->exchange) return 0;
  size_t f = pass_index(r, stage, e), b = pass_index(r, stage, e + 1);
  double hidden = fmin(r->exchange[f], r->span[b] - r->exchange[b]) + fmin(r->exchange[b], r->span[f] - r->exchange[f]);
  hidden = fmin(hidden, r->span[b]);
  r->hidden[stage] += hidden;
  return hidden;
}

static double longer(const replay *r, int64_t stage, const entry *e) {
  bool last = r->pipe.kind == MAL_DUALPIPE ? (e->micro_batch + 1) % (r->M / 2) == 0 : e->micro_batch + 1 == r->M;
  return last && e->pass == r->reducing ? r->longer[stage * r->chunks + e->chunk] : 0;
}

/* When all inputs of the entries are there; < 0: not yet. */
static double inputs_of(const replay *r, int64_t stage, const entry *e, int n, double *hop) {
  double ready = arrival_of(r, stage, e, hop), other_hop = 0;
  if (n == 1 || ready < 0) return ready;
  double other = arrival_of(r, stage, e + 1, &other_hop);
  if (other > ready) *hop = other_hop;
  return other < 0 ? other : fmax(ready, other);
}

/* Runs a stage until it waits for a message that is not sent yet. */
static bool advance(replay *r, int64_t stage) {
  int64_t before = r->at[stage];
  for (int n; r->at[stage] < r->count[stage]; r->at[stage] += n) {
    const entry *e = &r->orders[stage * r->per_stage + r->at[stage]];
    n = fused(r, stage, e);
    double hop = 0, ready = inputs_of(r, stage, e, n, &hop), *now = &r->now[stage], sending = 0;
    if (ready < 0) break;
    if (ready > *now) {
      double gap = ready - *now, message = fmin(gap, hop);
      r->waited[stage] += gap - message;
      r->message[stage] += message;
      *now = ready;
    }
    for (int i = 0; i < n; i++) {
      double start = *now;
      *now += r->span[pass_index(r, stage, &e[i])] + longer(r, stage, &e[i]);
      if (i == 1) *now -= hidden_in(r, stage, e);
      draw(r, stage, &e[i], start, *now);
    }
    for (int i = 0; i < n; i++) {
      if (e[i].pass == MAL_T_W) continue;
      bool forward = e[i].pass == MAL_T_F;
      sending = fmax(sending, deliver(r, stage, &e[i], forward ? 1 : -1, forward ? r->ahead : r->back, *now));
    }
    *now += sending;
    r->message[stage] += sending;
  }
  return r->at[stage] != before;
}

static mal_status play(mal_arena *a, replay *r, bool split, mal_error *e) {
  set_orders(a, r, split);
  int64_t messages = r->depth * r->M;
  r->ahead = MAL_ARRAY(a, double, messages);
  r->back = MAL_ARRAY(a, double, messages);
  for (int64_t i = 0; i < messages; i++) r->ahead[i] = r->back[i] = -1;
  r->at = MAL_ARRAY(a, int64_t, r->pp);
  r->now = MAL_ARRAY(a, double, r->pp);
  r->waited = MAL_ARRAY(a, double, r->pp);
  r->message = MAL_ARRAY(a, double, r->pp);
  r->hidden = MAL_ARRAY(a, double, r->pp);
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t s = 0; s < r->pp; s++) moved |= advance(r, s);
    for (int64_t s = r->pp - 2; s >= 0; s--) moved |= advance(r, s);
  }
  for (int64_t s = 0; s < r->pp; s++)
    if (r->at[s] < r->count[s])
      return mal_fail(e, MAL_FAULT, _("the schedule waits in a circle at stage %lld"), (long long)s);
  return MAL_OK;
}

/* --- one step -------------------------------------------------------------------------------------------------------- */

typedef struct composer {
  const mal_program *p;
  mal_prices prices;
  replay r;
  mal_stage_end *ends; /* [stage] */
  double *tail;        /* [stage]: ZeRO's last reductions, after the passes */
} composer;

static int64_t passes_of_chunk(const composer *c) { /* micro-batches that go through one chunk */
  return c->r.pipe.kind == MAL_DUALPIPE ? c->p->micro_batches / 2 : c->p->micro_batches;
}

static double stage_work(const composer *c, int64_t stage) {
  double work = 0;
  for (int64_t k = 0; k < c->r.chunks; k++) {
    const double *span = &c->r.span[(stage * c->r.chunks + k) * MAL_T_PASSES];
    work += span[MAL_T_F] + (c->p->split_backward ? span[MAL_T_B] + span[MAL_T_W] : span[MAL_T_BW]);
  }
  return work * (double)passes_of_chunk(c);
}

static void set_spans(mal_arena *a, composer *c) {
  replay *r = &c->r;
  r->span = MAL_ARRAY(a, double, r->pp * r->chunks * MAL_T_PASSES);
  if (r->pipe.kind == MAL_DUALPIPE) r->exchange = MAL_ARRAY(a, double, r->pp * r->chunks * MAL_T_PASSES);
  for (int64_t s = 0; s < r->pp; s++)
    for (int64_t k = 0; k < r->chunks && k < c->p->stages[s].n_chunks; k++)
      for (int pass = 0; pass < MAL_T_PASSES; pass++) {
        bool used = pass == MAL_T_F || (pass == MAL_T_BW) != c->p->split_backward;
        double cause_s[MAL_TIME_CAUSES] = {0}, *causes = r->exchange ? cause_s : NULL;
        size_t at = (size_t)((s * r->chunks + k) * MAL_T_PASSES + pass);
        if (used) r->span[at] = mal_chunk_time(&c->prices, &c->p->stages[s].chunks[k], pass, causes);
        if (causes) r->exchange[at] = cause_s[MAL_TIME_EP];
      }
}

/* The steady state repeats: beyond the limit each further group of 2·pp micro-batches takes what the last such group took. */
static int64_t played_micro_batches(const replay *r, int64_t M) {
  int64_t group = 2 * r->pp, most = REPLAY_LIMIT / (3 * r->pp * r->chunks);
  if (M <= most || M <= 4 * group) return M;
  most = most < 4 * group ? 4 * group : most;
  int64_t played = most - most % group + M % group;
  return played < M ? played : M;
}

/* How long the passes are beside which data-parallel traffic runs: those that make the last gradients, the first forward ones. */
static double window(const composer *c, int64_t stage, bool backward) {
  double s = 0;
  for (int64_t k = 0; k < c->r.chunks; k++) {
    const double *span = &c->r.span[(stage * c->r.chunks + k) * MAL_T_PASSES];
    s += span[backward ? c->r.reducing : MAL_T_F];
  }
  return s;
}

static void add_chunk_causes(composer *c, int64_t stage, double *time_s) {
  for (int64_t k = 0; k < c->r.chunks && k < c->p->stages[stage].n_chunks; k++) {
    double one[MAL_TIME_CAUSES] = {0};
    for (int pass = 0; pass < MAL_T_PASSES; pass++)
      if (pass == MAL_T_F || (pass == MAL_T_BW) != c->p->split_backward)
        mal_chunk_time(&c->prices, &c->p->stages[stage].chunks[k], pass, one);
    for (int i = 0; i < MAL_TIME_CAUSES; i++) time_s[i] += one[i] * (double)passes_of_chunk(c);
  }
}

static void add_kernel_totals(composer *c, int64_t stage, mal_step_time *out) {
  for (int64_t k = 0; k < c->r.chunks && k < c->p->stages[stage].n_chunks; k++) {
    const mal_chunk *chunk = &c->p->stages[stage].chunks[k];
    for (int i = 0; i < chunk->n_runs; i++)
      for (int list = 0; list < MAL_LISTS; list++) {
        if (c->p->blocks[chunk->runs[i].block].count[list] == 0 || list == MAL_L_GATHER || list == MAL_L_REDUCE)
          continue;
        if (list == (c->p->split_backward ? MAL_L_BW : MAL_L_B) || (list == MAL_L_W && !c->p->split_backward)) continue;
        const mal_list_time *t = mal_prices_of(&c->prices, chunk->runs[i].block, (mal_list)list);
        double times = (double)(chunk->runs[i].count * passes_of_chunk(c));
        out->host_s += times * t->host_s;
        out->gpu_s += times * (t->span_s - t->cause_s[MAL_TIME_LAUNCH]);
      }
  }
}

static void draw_end(mal_timeline *t, int64_t stage, const char *name, int stream, double start, double seconds) {
  if (t && seconds > 0) mal_timeline_add(t, (mal_event){name, (int32_t)stage, stream, -1, -1, start, start + seconds});
}

static void set_ends(composer *c, mal_arena *a) {
  replay *r = &c->r;
  c->ends = MAL_ARRAY(a, mal_stage_end, r->pp);
  c->tail = MAL_ARRAY(a, double, r->pp);
  r->longer = MAL_ARRAY(a, double, r->pp * r->chunks);
  for (int64_t s = 0; s < r->pp; s++) {
    mal_stage_end_time(&c->prices, &c->p->stages[s], window(c, s, false), window(c, s, true), &c->ends[s]);
    for (int64_t k = 0; k < c->p->stages[s].n_chunks; k++)
      c->tail[s] += mal_chunk_tail(&c->prices, &c->p->stages[s].chunks[k]);
    for (int64_t k = 0; k < r->chunks; k++) r->longer[s * r->chunks + k] = c->ends[s].in_pass_s / (double)r->chunks;
  }
}

/* All stages wait for the gradients of all (the norm needs them), then all update. */
static void end_of_step(composer *c, mal_timeline *t, mal_step_time *out) {
  replay *r = &c->r;
  double synced = 0, updated = 0;
  for (int64_t s = 0; s < r->pp; s++) {
    double sync = c->ends[s].sync_s - c->ends[s].in_pass_s + c->tail[s];
    draw_end(t, s, "sync", MAL_STREAM_DP, r->now[s], sync);
    synced = fmax(synced, r->now[s] + sync);
    updated = fmax(updated, c->ends[s].optimizer_s);
  }
  for (int64_t s = 0; s < r->pp; s++) draw_end(t, s, "optimizer", MAL_STREAM_COMPUTE, synced, c->ends[s].optimizer_s);
  out->step_s = synced + updated;
  out->time_s[MAL_TIME_DP] += c->tail[out->busiest];
  for (int i = 0; i < MAL_TIME_CAUSES; i++)
    out->time_s[i] += c->ends[out->busiest].sync_cause_s[i] + c->ends[out->busiest].optimizer_cause_s[i];
}

/* Ranks that take turns on cores: no step is shorter than what all of them compute, over the cores. What a rank does itself takes as
 * much longer as its core is lent to others; waiting for other stages is filled by them. */
static void share_cores(const composer *c, mal_step_time *out) {
  const mal_plan *plan = c->p->plan;
  double turns = mal_machine_ranks_per_core(&plan->machine), work = 0, told = 0;
  if (turns <= 1) return;
  for (int64_t s = 0; s < c->r.pp; s++) work += stage_work(c, s) + c->ends[s].sync_s + c->ends[s].optimizer_s;
  double step_s = work / (double)c->r.pp * turns;
  if (step_s <= out->step_s) return;
  for (int i = 0; i < MAL_TIME_CAUSES; i++)
    if (i != MAL_TIME_BUBBLE) told += out->time_s[i];
  out->time_s[MAL_TIME_BUBBLE] = 0;
  for (int i = 0; i < MAL_TIME_CAUSES && told > 0; i++) out->time_s[i] *= step_s / told;
  out->step_s = step_s;
}

/* Share of step time lost per doubling of nodes that work in step: stragglers and congestion. Data-parallel ranks wait for the
 * slowest of all, whereas the noise of a pipeline's stages averages over its micro-batches: the nodes of one stage count. */
double mal_jitter_share(const mal_machine *machine, int64_t pp) {
  double nodes = (double)machine->nodes / (double)pp;
  return nodes <= 1 || !machine->fabric ? 0 : machine->fabric->jitter_per_doubling.value * log2(nodes);
}

static void add_jitter(const mal_plan *plan, mal_step_time *out) {
  double lost = out->step_s * mal_jitter_share(&plan->machine, plan->layout.pp);
  out->time_s[MAL_TIME_JITTER] += lost;
  out->step_s += lost;
}

static mal_status check_program(const mal_program *p, const replay *r, mal_error *e) {
  if (p->micro_batches < 1 || r->pp < 1 || r->chunks < 1)
    return mal_fail(e, MAL_FAULT, _("a program without micro-batches or stages cannot be priced"));
  for (int64_t s = 0; s < r->pp; s++)
    if (p->stages[s].n_chunks < r->chunks)
      return mal_fail(e, MAL_FAULT, _("stage %lld has %d chunks, its schedule %lld"), (long long)s,
                      p->stages[s].n_chunks, (long long)r->chunks);
  return MAL_OK;
}

mal_status mal_compose(mal_arena *a, const mal_program *p, mal_timeline *t, mal_step_time *out, mal_error *e) {
  composer c = {.p = p};
  replay *r = &c.r;
  *out = (mal_step_time){0};
  r->pipe = mal_pipe_of(&p->plan->layout, p->micro_batches);
  r->pp = p->plan->layout.pp, r->chunks = r->pipe.chunks;
  mal_status status = check_program(p, r, e);
  if (status != MAL_OK) return status;
  r->M = played_micro_batches(r, p->micro_batches);
  r->pipe.micro_batches = r->M;
  r->depth = mal_pipe_depth(&r->pipe);
  r->blocking = p->plan->layout.overlap_pp == MAL_OFF;
  r->timeline = t;
  r->reducing = p->split_backward ? MAL_T_W : MAL_T_BW;
  mal_prices_init(&c.prices, a, p);
  set_spans(a, &c);
  r->hop = MAL_ARRAY(a, double, r->pp);
  if (r->pp > 1) mal_pipe_hops(p->plan, p->boundary_bytes, r->hop);
  set_ends(&c, a);
  if ((status = play(a, r, p->split_backward, e)) != MAL_OK) return status;

  for (int64_t s = 0; s < r->pp; s++)
    if (stage_work(&c, s) > stage_work(&c, out->busiest)) out->busiest = (int)s;
  if (r->M < p->micro_batches)
    for (int64_t s = 0; s < r->pp; s++)
      r->now[s] += stage_work(&c, out->busiest) * (double)(p->micro_batches - r->M) / (double)p->micro_batches;
  add_chunk_causes(&c, out->busiest, out->time_s);
  add_kernel_totals(&c, out->busiest, out);
  out->time_s[MAL_TIME_EP] -= r->hidden[out->busiest];
  out->time_s[MAL_TIME_PP] += r->message[out->busiest];
  end_of_step(&c, t, out);
  double told = 0;
  for (int i = 0; i < MAL_TIME_CAUSES; i++) told += out->time_s[i];
  out->time_s[MAL_TIME_BUBBLE] = fmax(0, out->step_s - told); /* waiting for other stages */
  share_cores(&c, out);
  add_jitter(p->plan, out);
  return MAL_OK;
}

mal_status mal_price_timeline(mal_arena *a, const mal_program *p, mal_timeline *t, mal_error *e) {
  mal_step_time step;
  return mal_compose(a, p, t, &step, e);
}
