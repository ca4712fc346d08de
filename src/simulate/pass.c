/* Passes over the units of a chunk, with the data-parallel traffic that each unit waits for or sets off. */
#include "simulate/actor.h"
#include <math.h>

static const mal_sim_chunk *chunk_of(const mal_sim *s, const mal_sim_actor *a) {
  return &s->stages[a->class->stage].chunks[a->chunk];
}

/* Units in the order of the pass. */
const mal_sim_unit *mal_sim_unit_at(const mal_sim *s, const mal_sim_actor *a, int32_t index) {
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
    const mal_sim_list *l = mal_sim_list_of(s, mal_sim_unit_at(s, a, a->gathers_asked++)->block, MAL_L_GATHER);
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

bool mal_sim_waits_for_params(const mal_sim *s, const mal_sim_actor *a) {
  if (a->pass != MAL_SIM_F || a->params_done >= a->n_params) return false;
  if (a->pc != chunk_of(s, a)->first_f) return false;
  return a->params_done < params_needed(s, a, mal_sim_unit_at(s, a, a->unit));
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

/* Starts the next thing of the pass; false when it waits. */
static bool run_unit(mal_sim *s, mal_sim_actor *a) {
  const mal_sim_unit *u = mal_sim_unit_at(s, a, a->unit);
  if (a->phase == 0) {
    if (reduces(s, a) && s->reduce_beside && a->reducing > 1) { /* there is room for the gradients of two units */
      a->state = MAL_AT_REDUCE, a->since = s->now;
      return false;
    }
    if (gathers(s, a) && !s->gather_beside) {
      const mal_sim_list *l = mal_sim_list_of(s, u->block, MAL_L_GATHER);
      if (!a->gathered && l->n) {
        a->gathered = true;
        mal_sim_start_list(s, a, l);
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
    if (mal_sim_waits_for_params(s, a)) {
      a->state = MAL_AT_PARAMS, a->since = s->now;
      return false;
    }
  }
  int lists[2], n = mal_sim_lists_of(a->pass, lists);
  if (mal_sim_is_net(s, u->block, a->pass)) {
    while (a->phase < n) {
      const mal_sim_list *l = mal_sim_list_of(s, u->block, lists[a->phase++]);
      if (!l->n) continue;
      mal_sim_start_list(s, a, l);
      return false;
    }
  } else if (a->phase == 0) {
    a->phase = 1;
    for (int i = 0; i < n; i++) mal_sim_count(s, a, mal_sim_list_of(s, u->block, lists[i]), 1);
    mal_sim_variant *v = mal_sim_variant_of(s, a->slow, a->class->link_left);
    mal_sim_start_segment(s, a, mal_sim_unit_span(s, v, u->block, a->pass),
                          a->class->cv > 0 ? mal_sim_jitter(a, s->w->team_size) : 1);
    return false;
  }
  return true;
}

static void add_reduce(mal_sim *s, mal_sim_actor *a, int32_t block) {
  const mal_sim_list *l = mal_sim_list_of(s, block, MAL_L_REDUCE);
  if (!l->n) return;
  a->reducing++;
  mal_sim_add_job(s, a, (mal_sim_job){l, 0, l->n, MAL_JOB_REDUCE});
}

static void end_unit(mal_sim *s, mal_sim_actor *a) {
  const mal_sim_unit *u = mal_sim_unit_at(s, a, a->unit);
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
  return !mal_sim_any_net(s, chunk_of(s, a), a->pass);
}

bool mal_sim_begin_pass(mal_sim *s, mal_sim_actor *a, const mal_step *step) {
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
  int lists[2], n = mal_sim_lists_of(a->pass, lists);
  for (int i = 0; i < n; i++) { /* the count of a whole pass */
    const mal_chunk *chunk = &s->p->stages[a->class->stage].chunks[a->chunk];
    for (int r = 0; r < chunk->n_runs; r++)
      mal_sim_count(s, a, mal_sim_list_of(s, chunk->runs[r].block, lists[i]), (double)chunk->runs[r].count);
  }
  a->unit = a->n_units;
  mal_sim_start_segment(
      s, a,
      mal_sim_chunk_span(s, mal_sim_variant_of(s, a->slow, a->class->link_left), a->class->stage, a->chunk, a->pass),
      1);
  return true;
}

/* Whether the entry's message is there; else the actor waits for it. */
bool mal_sim_has_message(mal_sim *s, mal_sim_actor *a, const mal_step *step) {
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

/* Goes on with the pass in play; true when it is over. */
bool mal_sim_continue_pass(mal_sim *s, mal_sim_actor *a) {
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
