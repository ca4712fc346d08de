/* Programs of actors: the table of a stage, passes over its units, and the end of the step. */
#include "price/kernel.h"
#include "simulate/actor.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t mal_sim_rank(const mal_sim *s, const mal_sim_actor *a) { return a->class->team * s->w->team_size; }

void mal_sim_draw(mal_sim *s, const mal_sim_actor *a, const char *name, int stream, int chunk, int64_t micro_batch,
                  double start, double end) {
  if (!s->watch->timeline || end <= start) return;
  for (int i = 0; i < a->n_ranks; i++)
    mal_timeline_add(s->watch->timeline, (mal_event){name, (int32_t)s->watch->ranks[s->ranks[a->first_rank + i]],
                                                     stream, chunk, (int32_t)micro_batch, start, end});
}

void mal_sim_count(mal_sim *s, mal_sim_actor *a, const mal_sim_list *l, double times) {
  double ranks = (double)(a->class->count * s->w->team_size), *sent = s->out->sent + a->id * (MAL_AXES + 1);
  s->out->flops += times * l->flops * ranks;
  s->out->inner_bytes += times * ranks * l->inner_bytes;
  s->out->nic_bytes += times * ranks * l->nic_bytes;
  for (int i = 0; i <= MAL_AXES; i++) sent[i] += times * l->sent[i]; /* over shared links: counted where it moves */
}

/* --- how long passes take, alone ----------------------------------------------------------------------------------------------- */

static mal_sim_list *list_of(mal_sim *s, int block, int list) {
  const mal_block *b = &s->p->blocks[block];
  mal_sim_list *l = &s->lists[block * MAL_LISTS + list];
  if (!l->ops) mal_sim_list_make(s->w, b, (mal_list)list, NULL, l, NULL);
  return l;
}

/* Lists of a pass over one unit, in order; returns how many. */
static int lists_of(int pass, int lists[2]) {
  if (pass == MAL_SIM_F) return lists[0] = MAL_L_F, 1;
  if (pass == MAL_SIM_W) return lists[0] = MAL_L_W, 1;
  lists[0] = MAL_L_R, lists[1] = pass == MAL_SIM_B ? MAL_L_B : MAL_L_BW;
  return 2;
}

static mal_sim_variant *variant_of(mal_sim *s, double slow, double link_left) {
  int i = 0;
  while (i < s->n_variants && !(s->variants[i].slow == slow && s->variants[i].link_left == link_left)) i++;
  if (i == s->n_variants && i == MAL_SIM_VARIANTS) i = MAL_SIM_VARIANTS - 1; /* the last place is written over */
  mal_sim_variant *v = &s->variants[i];
  if (i < s->n_variants && v->slow == slow && v->link_left == link_left) return v;
  int64_t chunks = s->plan->layout.pp * s->pipe.chunks;
  if (i == s->n_variants) {
    s->n_variants++;
    v->pass = MAL_ARRAY(s->arena, mal_sim_span, s->p->n_blocks * MAL_SIM_PASSES);
    v->chunk = MAL_ARRAY(s->arena, mal_sim_span, chunks * MAL_SIM_PASSES);
  }
  for (int k = 0; k < s->p->n_blocks * MAL_SIM_PASSES; k++) v->pass[k].span_s = -1;
  for (int64_t k = 0; k < chunks * MAL_SIM_PASSES; k++) v->chunk[k].span_s = -1;
  v->slow = slow, v->link_left = link_left;
  return v;
}

static void add_span(mal_sim_span *into, const mal_sim_span *x) {
  into->span_s += x->span_s;
  for (int c = 0; c < MAL_TIME_CAUSES; c++) into->cause_s[c] += x->cause_s[c];
}

static const mal_sim_span *unit_span(mal_sim *s, mal_sim_variant *v, int block, int pass) {
  mal_sim_span *known = &v->pass[block * MAL_SIM_PASSES + pass];
  if (known->span_s >= 0) return known;
  int lists[2], n = lists_of(pass, lists);
  *known = (mal_sim_span){0};
  for (int i = 0; i < n; i++) {
    mal_sim_span one = mal_sim_list_alone(list_of(s, block, lists[i]), v->slow, v->link_left, NULL, NULL);
    add_span(known, &one);
  }
  return known;
}

static const mal_sim_span *chunk_span(mal_sim *s, mal_sim_variant *v, int64_t stage, int chunk, int pass) {
  mal_sim_span *known = &v->chunk[(stage * s->pipe.chunks + chunk) * MAL_SIM_PASSES + pass];
  if (known->span_s >= 0) return known;
  const mal_sim_chunk *c = &s->stages[stage].chunks[chunk];
  *known = (mal_sim_span){0};
  for (int32_t u = 0; u < c->n_units; u++) add_span(known, unit_span(s, v, c->units[u].block, pass));
  return known;
}

static bool is_net(mal_sim *s, int block, int pass) { return s->net[block * MAL_SIM_PASSES + pass]; }

static bool any_net(mal_sim *s, const mal_sim_chunk *c, int pass) {
  for (int32_t u = 0; u < c->n_units; u++)
    if (is_net(s, c->units[u].block, pass)) return true;
  return false;
}

/* --- random numbers -------------------------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *r) { /* xoshiro256**, Blackman and Vigna 2018 */
  uint64_t x = r[1] * 5, result = ((x << 7) | (x >> 57)) * 9, t = r[1] << 17;
  r[2] ^= r[0], r[3] ^= r[1], r[1] ^= r[2], r[0] ^= r[3], r[2] ^= t;
  r[3] = (r[3] << 45) | (r[3] >> 19);
  return result;
}

static double uniform(uint64_t *r) { return ((double)(next_random(r) >> 11) + 0.5) * 0x1p-53; }

/* The slowest of a team's ranks sets its pace: log-normal with mean 1. */
static double jitter(mal_sim_actor *a, int64_t ranks) {
  static const double two_pi = 6.283185307179586;
  double sigma2 = log1p(a->class->cv * a->class->cv), most = 0;
  for (int64_t i = 0; i < ranks; i++) {
    double normal = sqrt(-2 * log(uniform(a->random))) * cos(two_pi * uniform(a->random));
    most = fmax(most, exp(sqrt(sigma2) * normal - sigma2 / 2));
  }
  return most;
}

/* --- segments of compute ---------------------------------------------------------------------------------------------------------- */

void mal_sim_set_rate(mal_sim *s, mal_sim_actor *a, double rate) {
  if (rate == a->rate) return;
  a->left -= (s->now - a->since) * a->rate;
  if (a->left < 0) a->left = 0;
  a->since = s->now;
  a->rate = rate;
  mal_sim_push(s, s->now + a->left / rate, a->id, MAL_EV_SEGMENT, ++a->version);
}

static void start_segment(mal_sim *s, mal_sim_actor *a, const mal_sim_span *span, double factor) {
  a->state = MAL_AT_SEGMENT;
  a->span = span;
  a->segment_s = (span->span_s - (1 - a->waited) * span->cause_s[MAL_TIME_EP]) * factor;
  a->left = a->segment_s;
  a->since = s->now;
  a->rate = a->dp_moving ? 1 / (1 + s->beside) : 1;
  a->run.begun = s->now;
  mal_sim_computes(s, a, true);
  mal_sim_push(s, s->now + a->left / a->rate, a->id, MAL_EV_SEGMENT, ++a->version);
}

/* Operations of a unit, for those who watch. */
static void draw_unit(mal_sim *s, mal_sim_actor *a, int block, double scale) {
  int lists[2], n = lists_of(a->pass, lists);
  double from = a->run.begun;
  for (int i = 0; i < n; i++) {
    const mal_sim_list *l = list_of(s, block, lists[i]);
    if (!l->n) continue;
    double *start = MAL_ARRAY(s->arena, double, 2 * l->n), *end = start + l->n;
    mal_sim_span one = mal_sim_list_alone(l, a->slow, a->class->link_left, start, end);
    for (int k = 0; k < l->n; k++)
      mal_sim_draw(s, a, l->ops[k].name, l->ops[k].stream, a->chunk, a->micro_batch, from + start[k] * scale,
                   from + end[k] * scale);
    from += one.span_s * scale;
  }
}

static const char *const pass_name[MAL_SIM_PASSES] = {"F", "B", "W", "BW"};

static void end_segment(mal_sim *s, mal_sim_actor *a) {
  double took = s->now - a->run.begun, beside = took - a->segment_s;
  double *cause = mal_sim_causes(s, a), told = 0;
  for (int c = 0; c < MAL_TIME_CAUSES; c++) told += a->span->cause_s[c];
  told -= (1 - a->waited) * a->span->cause_s[MAL_TIME_EP];
  double scale = told > 0 ? a->segment_s / told : 0;
  for (int c = 0; c < MAL_TIME_CAUSES; c++)
    cause[c] += a->span->cause_s[c] * scale * (c == MAL_TIME_EP ? a->waited : 1);
  cause[MAL_TIME_DP] += beside;
  s->out->compute_s[a->id] += took;
  mal_sim_computes(s, a, false);
  a->state = MAL_AT_NEXT;
}

/* --- lists with operations over shared links ---------------------------------------------------------------------------------------- */

enum { LIST_ENDS = -1, LIST_HAS_ENDED = -2 }; /* in place of an operation's number */

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

static void start_list(mal_sim *s, mal_sim_actor *a, const mal_sim_list *l) {
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
  double launch = op->kind < 0 ? took * share / (1 + share) : 0;
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

static double list_longer(mal_sim *s, mal_sim_actor *a) {
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
    if (a->class->cv > 0 && op->kind < 0) seconds *= jitter(a, s->w->team_size);
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
  mal_sim_push(s, fmax(last, s->now), a->id, MAL_EV_OP, LIST_ENDS);
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

/* --- passes ------------------------------------------------------------------------------------------------------------------------ */

static const mal_sim_chunk *chunk_of(const mal_sim *s, const mal_sim_actor *a) {
  return &s->stages[a->class->stage].chunks[a->chunk];
}

/* Units in the order of the pass. */
static const mal_sim_unit *unit_at(const mal_sim *s, const mal_sim_actor *a, int32_t index) {
  const mal_sim_chunk *c = chunk_of(s, a);
  return &c->units[a->pass == MAL_SIM_F ? index : c->n_units - 1 - index];
}

static int reducing_pass(const mal_sim *s) { return s->p->split_backward ? MAL_SIM_W : MAL_SIM_BW; }

static bool gathers(const mal_sim *s, const mal_sim_actor *a) {
  if (!s->units_gather || a->pass == MAL_SIM_W) return false;
  return a->pass == MAL_SIM_F || s->plan->profile->regather_backward;
}

static bool reduces(const mal_sim *s, const mal_sim_actor *a) { return s->units_reduce && a->pass == reducing_pass(s); }

static void ask_gathers(mal_sim *s, mal_sim_actor *a, int32_t up_to) {
  for (; a->gathers_asked < up_to && a->gathers_asked < a->n_units;) {
    const mal_sim_list *l = list_of(s, unit_at(s, a, a->gathers_asked++)->block, MAL_L_GATHER);
    if (!l->n) {
      a->gathers_done++;
      continue;
    }
    mal_sim_add_job(s, a, (mal_sim_job){l, 0, l->n, MAL_JOB_GATHER});
  }
}

/* Gathers of parameters that a unit needs in the first forward pass, as their place among all elements says. */
static int32_t params_needed(const mal_sim *s, const mal_sim_actor *a, const mal_sim_unit *u) {
  const mal_sim_stage *stage = &s->stages[a->class->stage];
  const mal_block *b = &s->p->blocks[u->block];
  double end = u->elements_before + (double)(b->dense_elements + b->expert_elements);
  int32_t need = (int32_t)ceil(end / stage->elements * a->n_params - 1e-9);
  return need < a->n_params ? need : a->n_params;
}

static bool waits_for_params(const mal_sim *s, const mal_sim_actor *a) {
  if (a->pass != MAL_SIM_F || a->params_done >= a->n_params) return false;
  if (a->pc != chunk_of(s, a)->first_f) return false;
  return a->params_done < params_needed(s, a, unit_at(s, a, a->unit));
}

/* Buckets whose gradients are complete leave. */
static void issue_buckets(mal_sim *s, mal_sim_actor *a, const mal_sim_unit *u) {
  const mal_sim_stage *stage = &s->stages[a->class->stage];
  const mal_block *b = &s->p->blocks[u->block];
  if (!a->final || !stage->buckets.n) return;
  a->elements_done += (double)(b->dense_elements + b->expert_elements);
  int32_t ready = (int32_t)floor(a->elements_done / stage->elements * stage->buckets.n + 1e-9);
  for (; a->buckets_issued < ready && a->buckets_issued < stage->buckets.n; a->buckets_issued++)
    mal_sim_add_job(s, a, (mal_sim_job){&stage->buckets, a->buckets_issued, a->buckets_issued + 1, MAL_JOB_BUCKET});
}

static void resume(mal_sim *s, mal_sim_actor *a, int cause) {
  double waited = s->now - a->since;
  mal_sim_causes(s, a)[cause] += waited;
  s->out->waited_s[a->id] += waited;
}

/* Starts the next thing of the pass; false when it waits. */
static bool run_unit(mal_sim *s, mal_sim_actor *a) {
  const mal_sim_unit *u = unit_at(s, a, a->unit);
  if (a->phase == 0) {
    if (reduces(s, a) && s->reduce_beside && a->reducing > 1) { /* there is room for the gradients of two units */
      a->state = MAL_AT_REDUCE, a->since = s->now;
      return false;
    }
    if (gathers(s, a) && !s->gather_beside) {
      const mal_sim_list *l = list_of(s, u->block, MAL_L_GATHER);
      if (!a->gathered && l->n) {
        a->gathered = true;
        start_list(s, a, l);
        return false;
      }
    } else if (gathers(s, a)) {
      ask_gathers(s, a, a->unit + 1);
      if (a->gathers_done <= a->unit) {
        a->state = MAL_AT_GATHER, a->since = s->now;
        return false;
      }
      ask_gathers(s, a, a->unit + 1 + (int32_t)s->plan->profile->prefetch);
    }
    if (waits_for_params(s, a)) {
      a->state = MAL_AT_PARAMS, a->since = s->now;
      return false;
    }
  }
  int lists[2], n = lists_of(a->pass, lists);
  if (is_net(s, u->block, a->pass)) {
    while (a->phase < n) {
      const mal_sim_list *l = list_of(s, u->block, lists[a->phase++]);
      if (!l->n) continue;
      start_list(s, a, l);
      return false;
    }
  } else if (a->phase == 0) {
    a->phase = 1;
    for (int i = 0; i < n; i++) mal_sim_count(s, a, list_of(s, u->block, lists[i]), 1);
    mal_sim_variant *v = variant_of(s, a->slow, a->class->link_left);
    start_segment(s, a, unit_span(s, v, u->block, a->pass), a->class->cv > 0 ? jitter(a, s->w->team_size) : 1);
    return false;
  }
  return true;
}

static void add_reduce(mal_sim *s, mal_sim_actor *a, int32_t block) {
  const mal_sim_list *l = list_of(s, block, MAL_L_REDUCE);
  if (!l->n) return;
  a->reducing++;
  mal_sim_add_job(s, a, (mal_sim_job){l, 0, l->n, MAL_JOB_REDUCE});
}

static void end_unit(mal_sim *s, mal_sim_actor *a) {
  const mal_sim_unit *u = unit_at(s, a, a->unit);
  a->unit++;
  a->phase = 0;
  a->gathered = false;
  if (a->pass == reducing_pass(s)) issue_buckets(s, a, u);
  if (reduces(s, a)) add_reduce(s, a, u->block);
}

static bool plain_pass(mal_sim *s, const mal_sim_actor *a) {
  const mal_sim_stage *stage = &s->stages[a->class->stage];
  if (gathers(s, a) || reduces(s, a) || a->class->cv > 0) return false;
  if (s->watch->detail && a->n_ranks > 0) return false;
  if (a->final && stage->buckets.n && a->pass == reducing_pass(s)) return false;
  if (a->pass == MAL_SIM_F && a->params_done < a->n_params) return false;
  return !any_net(s, chunk_of(s, a), a->pass);
}

static bool begin_pass(mal_sim *s, mal_sim_actor *a, const mal_step *step) {
  static const uint8_t pass_of[] = {
      [MAL_S_F] = MAL_SIM_F, [MAL_S_B] = MAL_SIM_B, [MAL_S_W] = MAL_SIM_W, [MAL_S_BW] = MAL_SIM_BW};
  a->pass = pass_of[step->op];
  a->chunk = step->chunk;
  a->micro_batch = step->micro_batch;
  a->unit = 0;
  a->phase = 0;
  a->sync_list = false;
  a->pass_began = s->now;
  const mal_sim_pair *pairs = s->stages[a->class->stage].pairs;
  a->waited = pairs && pairs[a->pc].entry >= 0 ? pairs[a->pc].waited : 1;
  a->gathers_asked = a->gathers_done = 0;
  const mal_sim_chunk *c = chunk_of(s, a);
  a->n_units = c->n_units;
  a->final = a->pc == c->last_reduce;
  if (!plain_pass(s, a)) return false;
  int lists[2], n = lists_of(a->pass, lists);
  for (int i = 0; i < n; i++) { /* the count of a whole pass */
    const mal_chunk *chunk = &s->p->stages[a->class->stage].chunks[a->chunk];
    for (int r = 0; r < chunk->n_runs; r++)
      mal_sim_count(s, a, list_of(s, chunk->runs[r].block, lists[i]), (double)chunk->runs[r].count);
  }
  a->unit = a->n_units;
  start_segment(s, a, chunk_span(s, variant_of(s, a->slow, a->class->link_left), a->class->stage, a->chunk, a->pass),
                1);
  return true;
}

/* Whether the entry's message is there; else the actor waits for it. */
static bool has_message(mal_sim *s, mal_sim_actor *a, const mal_step *step) {
  int64_t v = mal_pipe_virtual(&s->pipe, a->class->stage, step->chunk), peer, peer_chunk;
  int by = step->op == MAL_S_F ? -1 : 1;
  if (step->op == MAL_S_W || v + by < 0 || v + by >= mal_pipe_depth(&s->pipe)) return true;
  mal_pipe_neighbour(&s->pipe, a->class->stage, step->chunk, by, &peer, &peer_chunk);
  if (peer == a->class->stage) return true;
  if (a->arrived[by > 0][step->chunk * s->pipe.micro_batches + step->micro_batch] >= 0) return true;
  a->state = MAL_AT_MESSAGE;
  a->since = s->now;
  a->pass = step->op == MAL_S_F ? MAL_SIM_F : MAL_SIM_B;
  a->chunk = step->chunk, a->micro_batch = step->micro_batch;
  return false;
}

static void draw_pass(mal_sim *s, mal_sim_actor *a, double from) {
  mal_sim_draw(s, a, pass_name[a->pass], MAL_STREAM_COMPUTE, a->chunk, a->micro_batch, from, s->now);
}

/* --- the table ---------------------------------------------------------------------------------------------------------------------- */

/* Goes on with the pass in play; true when it is over. */
static bool continue_pass(mal_sim *s, mal_sim_actor *a) {
  while (a->unit < a->n_units) {
    if (!run_unit(s, a)) return false;
    end_unit(s, a);
    if (reduces(s, a) && !s->reduce_beside && !mal_sim_dp_empty(a)) {
      a->state = MAL_AT_REDUCE, a->since = s->now;
      return false;
    }
  }
  return true;
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
  start_list(s, a, l);
  return false;
}

static bool run_entry(mal_sim *s, mal_sim_actor *a) {
  const mal_step *step = &a->steps[a->pc];
  switch (step->op) {
  case MAL_S_RECV_F:
  case MAL_S_RECV_B: return true;
  case MAL_S_SEND_F:
  case MAL_S_SEND_B: {
    bool blocking = s->plan->layout.overlap_pp == MAL_OFF;
    if (a->sent) return a->sent = false, true; /* came back from waiting */
    if (blocking) a->state = MAL_AT_SEND, a->since = s->now, a->sent = true;
    mal_sim_send(s, a, step, blocking);
    return !blocking;
  }
  case MAL_S_SYNC:
  case MAL_S_OPT: return run_end(s, a, step);
  default: break;
  }
  if (a->entered) return continue_pass(s, a);
  if (!has_message(s, a, step)) return false;
  a->entered = true;
  if (begin_pass(s, a, step)) return false;
  return continue_pass(s, a);
}

void mal_sim_advance(mal_sim *s, mal_sim_actor *a) {
  switch (a->state) {
  case MAL_AT_GATHER:
    if (a->gathers_done <= a->unit) return;
    resume(s, a, MAL_TIME_DP);
    break;
  case MAL_AT_PARAMS:
    if (waits_for_params(s, a)) return;
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
    if (a->entered) draw_pass(s, a, a->pass_began);
    a->entered = false;
    a->pc++;
    s->entries_done++;
  }
  if (a->pc < a->n_steps) return;
  a->state = MAL_AT_END;
  s->out->finish_s[a->id] = s->now;
}

/* --- events -------------------------------------------------------------------------------------------------------------------------- */

static void segment_event(mal_sim *s, mal_sim_actor *a, int64_t version) {
  if (a->state != MAL_AT_SEGMENT || (uint32_t)version != a->version) return;
  end_segment(s, a);
  if (s->watch->detail && a->n_ranks && a->unit < a->n_units)
    draw_unit(s, a, unit_at(s, a, a->unit)->block, (s->now - a->run.begun) / a->span->span_s);
  mal_sim_advance(s, a);
}

static void op_event(mal_sim *s, mal_sim_actor *a, int64_t op) {
  if (a->state != MAL_AT_LIST) return;
  if (op >= 0) {
    mal_sim_arrive(s, a, a->run.list, &a->run.list->ops[op], (int32_t)op);
    return;
  }
  double longer = op == LIST_ENDS ? list_longer(s, a) : 0;
  if (longer > 0) {
    mal_sim_causes(s, a)[MAL_TIME_DP] += longer;
    mal_sim_push(s, s->now + longer, a->id, MAL_EV_OP, LIST_HAS_ENDED);
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
  default: mal_sim_advance(s, a); break;
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

/* --- setting up ------------------------------------------------------------------------------------------------------------------------- */

static void expand_chunk(mal_sim *s, int64_t stage, int chunk, double *before) {
  const mal_chunk *c = &s->p->stages[stage].chunks[chunk];
  mal_sim_chunk *out = &s->stages[stage].chunks[chunk];
  int64_t count = 0;
  for (int r = 0; r < c->n_runs; r++) count += c->runs[r].count;
  out->units = MAL_ARRAY(s->arena, mal_sim_unit, count ? count : 1);
  for (int r = 0; r < c->n_runs; r++)
    for (int64_t k = 0; k < c->runs[r].count; k++) {
      const mal_block *b = &s->p->blocks[c->runs[r].block];
      out->units[out->n_units++] = (mal_sim_unit){c->runs[r].block, *before};
      *before += (double)(b->dense_elements + b->expert_elements);
    }
  out->first_f = out->last_reduce = -1;
}

/* Dense buckets and those of experts take turns as their shares of all do: both are made layer by layer. */
static void take_turns(mal_sim *s, mal_sim_list *l) {
  mal_sim_op *sorted = MAL_ARRAY(s->arena, mal_sim_op, l->n ? l->n : 1);
  int dense = 0;
  while (dense < l->n && l->ops[dense].kind == l->ops[0].kind) dense++;
  int experts = l->n - dense, d = 0, x = 0;
  for (int i = 0; i < l->n; i++) {
    bool next_dense = x >= experts || (d < dense && (double)(d + 1) / dense <= (double)(x + 1) / experts);
    sorted[i] = next_dense ? l->ops[d++] : l->ops[dense + x++];
  }
  l->ops = sorted;
}

static mal_status set_stage(mal_sim *s, int64_t index) {
  mal_sim_stage *stage = &s->stages[index];
  const mal_stage *from = &s->p->stages[index];
  const mal_simulate_tables *given = s->watch->tables;
  mal_status status = given ? MAL_OK
                            : mal_schedule_stage(s->arena, &s->plan->layout, s->p->micro_batches, index, &stage->steps,
                                                 &stage->n_steps, s->e);
  if (status) return status;
  if (given) stage->steps = given->steps[index], stage->n_steps = given->count[index];
  stage->chunks = MAL_ARRAY(s->arena, mal_sim_chunk, s->pipe.chunks);
  for (int c = 0; c < s->pipe.chunks; c++) expand_chunk(s, index, c, &stage->elements);
  int reducing = s->p->split_backward ? MAL_S_W : MAL_S_BW;
  for (int64_t i = 0; i < stage->n_steps; i++) {
    mal_sim_chunk *c = &stage->chunks[stage->steps[i].chunk];
    if (stage->steps[i].op == MAL_S_F && c->first_f < 0) c->first_f = i;
    if (stage->steps[i].op == reducing) c->last_reduce = i;
  }
  if (stage->elements <= 0) stage->elements = 1;
  if (from->sync >= 0)
    mal_sim_list_make(s->w, &s->p->blocks[from->sync], MAL_L_F, s->grads_beside ? mal_sim_moves : NULL, &stage->sync,
                      &stage->buckets);
  if (from->optimizer >= 0)
    mal_sim_list_make(s->w, &s->p->blocks[from->optimizer], MAL_L_F, s->params_beside ? mal_sim_moves : NULL,
                      &stage->optimizer, &stage->params);
  take_turns(s, &stage->buckets);
  take_turns(s, &stage->params);
  return MAL_OK;
}

/* DualPipe pairs a forward pass with a backward pass of the other direction, so that the expert traffic of each runs beside the
 * products of the other (DeepSeek-V3 report, arXiv 2412.19437, section 3.2.1). */
static void set_pair(mal_sim *s, int64_t index, int64_t first, int64_t second) {
  static const uint8_t pass_of[] = {[MAL_S_F] = MAL_SIM_F, [MAL_S_B] = MAL_SIM_B};
  mal_sim_stage *stage = &s->stages[index];
  const mal_step *x = &stage->steps[first], *y = &stage->steps[second];
  mal_sim_variant *v = variant_of(s, 1, 1);
  const mal_sim_span *a = chunk_span(s, v, index, x->chunk, pass_of[x->op]);
  const mal_sim_span *b = chunk_span(s, v, index, y->chunk, pass_of[y->op]);
  double ex = a->cause_s[MAL_TIME_EP], ey = b->cause_s[MAL_TIME_EP];
  double hidden = fmin(ex, b->span_s - ey) + fmin(ey, a->span_s - ex);
  double waited = ex + ey > 0 ? fmax(0, 1 - hidden / (ex + ey)) : 1;
  stage->pairs[first] = (mal_sim_pair){second, waited};
  stage->pairs[second] = (mal_sim_pair){first, waited};
}

static void set_pairs(mal_sim *s, int64_t index) {
  mal_sim_stage *stage = &s->stages[index];
  int64_t before = -1;
  if (s->pipe.kind != MAL_DUALPIPE) return;
  stage->pairs = MAL_ARRAY(s->arena, mal_sim_pair, stage->n_steps + 1);
  for (int64_t i = 0; i < stage->n_steps; i++) stage->pairs[i].entry = -1;
  for (int64_t i = 0; i < stage->n_steps; i++) {
    const mal_step *x = &stage->steps[i];
    if (x->op != MAL_S_F && x->op != MAL_S_B) continue;
    bool pair = before >= 0 && stage->steps[before].chunk != x->chunk && stage->pairs[before].entry < 0;
    if (pair) set_pair(s, index, before, i);
    before = i;
  }
}

static void mark_net(mal_sim *s) {
  s->net = MAL_ARRAY(s->arena, bool, s->p->n_blocks *MAL_SIM_PASSES);
  for (int64_t g = 0; g < s->plan->layout.pp; g++)
    for (int c = 0; c < s->pipe.chunks; c++)
      for (int32_t u = 0; u < s->stages[g].chunks[c].n_units; u++)
        for (int pass = 0; pass < MAL_SIM_PASSES; pass++) {
          int lists[2], n = lists_of(pass, lists), block = s->stages[g].chunks[c].units[u].block;
          for (int i = 0; i < n; i++) s->net[block * MAL_SIM_PASSES + pass] |= list_of(s, block, lists[i])->n_net > 0;
        }
}

static uint64_t seed_of(uint64_t *x) {
  *x += 0x9e3779b97f4a7c15u;
  uint64_t z = *x;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static void set_actor(mal_sim *s, int32_t id) {
  mal_sim_actor *a = &s->actors[id];
  mal_sim_class *c = &s->w->classes[id];
  const mal_sim_stage *stage = &s->stages[c->stage];
  int64_t messages = s->pipe.chunks * s->pipe.micro_batches;
  *a = (mal_sim_actor){.class = c,
                       .steps = stage->steps,
                       .n_steps = stage->n_steps,
                       .id = id,
                       .slow = c->slow,
                       .waited = 1,
                       .dp_meeting = -1};
  for (int d = 0; d < 2 && s->plan->layout.pp > 1; d++) {
    a->arrived[d] = MAL_ARRAY(s->arena, double, messages);
    for (int64_t i = 0; i < messages; i++) a->arrived[d][i] = -1;
  }
  uint64_t seed = s->watch->seed ^ ((uint64_t)c->team << 20);
  for (int i = 0; i < 4; i++) a->random[i] = seed_of(&seed);
  s->entries += a->n_steps;
  mal_sim_push(s, c->stage == 0 ? s->watch->data_s : 0, id, MAL_EV_START, 0);
  if (!isinf(c->dies_s)) mal_sim_push(s, c->dies_s, id, MAL_EV_DIE, 0);
  if (c->throttle_lost > 0) {
    mal_sim_push(s, c->throttle_at_s, id, MAL_EV_SPEED, 1);
    if (!isinf(c->throttle_for_s)) mal_sim_push(s, c->throttle_at_s + c->throttle_for_s, id, MAL_EV_SPEED, 0);
  }
}

/* The watched ranks of each actor, side by side. */
static void set_watched(mal_sim *s) {
  const mal_sim_watch *watch = s->watch;
  int at = 0;
  s->ranks = MAL_ARRAY(s->arena, int, watch->n_ranks + 1);
  for (int i = 0; i < watch->n_ranks; i++) s->actors[s->w->class_of[watch->ranks[i] / s->w->team_size]].n_ranks++;
  for (int32_t k = 0; k < s->n_actors; k++)
    s->actors[k].first_rank = at, at += s->actors[k].n_ranks, s->actors[k].n_ranks = 0;
  for (int i = 0; i < watch->n_ranks; i++) {
    mal_sim_actor *a = &s->actors[s->w->class_of[watch->ranks[i] / s->w->team_size]];
    s->ranks[a->first_rank + a->n_ranks++] = i;
  }
}

/* Parameters of the step before: gathered beside the first forward pass. */
static void start_params(mal_sim *s) {
  for (int32_t i = 0; i < s->n_actors; i++) s->actors[i].n_params = s->stages[s->actors[i].class->stage].params.n;
  for (int32_t i = 0; i < s->n_actors; i++) {
    mal_sim_actor *a = &s->actors[i];
    for (int32_t k = 0; k < a->n_params; k++)
      mal_sim_add_job(s, a, (mal_sim_job){&s->stages[a->class->stage].params, k, k + 1, MAL_JOB_PARAMS});
  }
}

static void set_rules(mal_sim *s) {
  const mal_layout *l = &s->plan->layout;
  const mal_profile *f = s->plan->profile;
  s->units_gather = l->zero >= 2; /* with ZeRO-2 the lists are empty */
  s->units_reduce = l->zero >= 2;
  s->gather_beside = l->overlap_dp_param == MAL_ON && f->prefetch > 0;
  s->reduce_beside = l->overlap_dp_grad == MAL_ON;
  s->params_beside = l->overlap_dp_param == MAL_ON;
  s->grads_beside = l->overlap_dp_grad == MAL_ON;
  s->beside = f->dp_exposed.value;
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
  if (!out->finished) out->end_s = s->now;
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
  const mal_layout *l = &s->plan->layout;
  *out = (mal_sim_played){0};
  s->pipe = mal_pipe_of(l, s->p->micro_batches);
  s->lists = MAL_ARRAY(s->arena, mal_sim_list, s->p->n_blocks * MAL_LISTS);
  s->stages = MAL_ARRAY(s->arena, mal_sim_stage, l->pp);
  set_rules(s);
  for (int64_t g = 0; g < l->pp; g++) {
    mal_status status = set_stage(s, g);
    if (status) return status;
  }
  for (int64_t g = 0; g < l->pp; g++) set_pairs(s, g);
  mark_net(s);
  s->n_actors = w->n_classes;
  s->actors = MAL_ARRAY(s->arena, mal_sim_actor, s->n_actors);
  out->finish_s = MAL_ARRAY(s->arena, double, s->n_actors);
  out->compute_s = MAL_ARRAY(s->arena, double, s->n_actors);
  out->waited_s = MAL_ARRAY(s->arena, double, s->n_actors);
  out->cause_s = mal_alloc_array(s->arena, (size_t)s->n_actors, sizeof *out->cause_s);
  out->sent = MAL_ARRAY(s->arena, double, s->n_actors *(MAL_AXES + 1));
  s->open = MAL_ARRAY(s->arena, int32_t *, w->n_kinds + 1);
  for (int k = 0; k < w->n_kinds; k++) {
    s->open[k] = MAL_ARRAY(s->arena, int32_t, w->kinds[k].n_groups + 1);
    for (int64_t g = 0; g <= w->kinds[k].n_groups; g++) s->open[k][g] = -1;
  }
  s->flows = mal_flows_new(w->n_links, w->capacity, 0);
  for (int32_t i = 0; i < s->n_actors; i++) set_actor(s, i);
  set_watched(s);
  start_params(s);
  run_events(s);
  conclude(s);
  return s->status;
}
