/* What is played: stages, units, pairs of DualPipe, actors. */
#include "core/random.h"
#include "simulate/actor.h"
#include <math.h>

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

/* The expert traffic of each of a pair runs beside the products of the other (DeepSeek-V3 report, arXiv 2412.19437, section
 * 3.2.1). */
static void set_pair(mal_sim *s, int64_t index, const int64_t entries[3]) {
  mal_sim_stage *stage = &s->stages[index];
  mal_sim_variant *v = mal_sim_variant_of(s, 1, 1);
  const mal_sim_span *f = mal_sim_chunk_span(s, v, index, stage->steps[entries[0]].chunk, MAL_SIM_F);
  const mal_sim_span *b = mal_sim_chunk_span(s, v, index, stage->steps[entries[1]].chunk, MAL_SIM_B);
  double ef = f->cause_s[MAL_TIME_EP], eb = b->cause_s[MAL_TIME_EP];
  double hidden = fmin(ef, b->span_s - eb) + fmin(eb, f->span_s - ef);
  double waited = ef + eb > 0 ? fmax(0, 1 - hidden / (ef + eb)) : 1;
  stage->pairs[entries[0]] = (mal_sim_pair){entries[1], entries[2], waited};
  stage->pairs[entries[1]] = (mal_sim_pair){entries[0], entries[2], waited};
  stage->pairs[entries[2]] = (mal_sim_pair){entries[2], entries[2], 1};
}

static void set_pairs(mal_sim *s, int64_t index) {
  mal_sim_stage *stage = &s->stages[index];
  int64_t last[3] = {-1, -1, -1}; /* computations */
  if (s->pipe.kind != MAL_DUALPIPE) return;
  stage->pairs = MAL_ARRAY(s->arena, mal_sim_pair, stage->n_steps + 1);
  for (int64_t i = 0; i < stage->n_steps; i++) stage->pairs[i].entry = stage->pairs[i].end = -1;
  for (int64_t i = 0; i < stage->n_steps; i++) {
    if (stage->steps[i].op > MAL_S_BW) continue;
    last[0] = last[1], last[1] = last[2], last[2] = i;
    if (last[0] < 0) continue;
    const mal_step *f = &stage->steps[last[0]], *b = &stage->steps[last[1]], *w = &stage->steps[i];
    bool whole = b->op == MAL_S_B && w->op == MAL_S_W && w->micro_batch == b->micro_batch;
    if (whole && f->op == MAL_S_F && f->chunk != b->chunk) set_pair(s, index, last);
  }
}

static void mark_net(mal_sim *s) {
  s->net = MAL_ARRAY(s->arena, bool, s->p->n_blocks *MAL_SIM_PASSES);
  for (int64_t g = 0; g < s->plan->layout.pp; g++)
    for (int c = 0; c < s->pipe.chunks; c++)
      for (int32_t u = 0; u < s->stages[g].chunks[c].n_units; u++)
        for (int pass = 0; pass < MAL_SIM_PASSES; pass++) {
          int lists[2], n = mal_sim_lists_of(pass, lists), block = s->stages[g].chunks[c].units[u].block;
          for (int i = 0; i < n; i++)
            s->net[block * MAL_SIM_PASSES + pass] |= mal_sim_list_of(s, block, lists[i])->n_net > 0;
        }
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
  a->random = mal_mix64(s->watch->seed ^ ((uint64_t)c->team << 20));
  s->entries += a->n_steps;
  mal_sim_push(s, 0, id, MAL_EV_START, 0);
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

mal_status mal_sim_set_up(mal_sim *s) {
  mal_sim_played *out = s->out;
  const mal_layout *l = &s->plan->layout;
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
  s->n_actors = s->w->n_classes;
  s->actors = MAL_ARRAY(s->arena, mal_sim_actor, s->n_actors);
  out->finish_s = MAL_ARRAY(s->arena, double, s->n_actors);
  out->compute_s = MAL_ARRAY(s->arena, double, s->n_actors);
  out->waited_s = MAL_ARRAY(s->arena, double, s->n_actors);
  out->cause_s = mal_alloc_array(s->arena, (size_t)s->n_actors, sizeof *out->cause_s);
  out->link_bytes = MAL_ARRAY(s->arena, double, s->w->n_links);
  out->link_busy_s = MAL_ARRAY(s->arena, double, s->w->n_links);
  out->sent = MAL_ARRAY(s->arena, double, s->n_actors *(MAL_AXES + 1));
  s->open = MAL_ARRAY(s->arena, int32_t *, s->w->n_kinds + 1);
  for (int k = 0; k < s->w->n_kinds; k++) {
    s->open[k] = MAL_ARRAY(s->arena, int32_t, s->w->kinds[k].n_groups + 1);
    for (int64_t g = 0; g <= s->w->kinds[k].n_groups; g++) s->open[k][g] = -1;
  }
  s->flows = mal_flows_new(s->w->n_links, s->w->capacity, 0);
  for (int32_t i = 0; i < s->n_actors; i++) set_actor(s, i);
  set_watched(s);
  start_params(s);
  return MAL_OK;
}
