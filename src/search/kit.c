#include "search/kit.h"
#include <math.h>
#include <string.h>

static bool trains_adapters(const mal_plan *p) { return p->job.train == MAL_LORA || p->job.train == MAL_QLORA; }

/* --- partitions --------------------------------------------------------------------------------------------------------- */

static int kind_at(const mal_plan *p, int64_t layer) {
  return layer == 0 && trains_adapters(p) ? p->model.n_kinds : p->model.kind_of[layer];
}

typedef struct stages {
  const mal_plan *plan;
  int64_t vpp, parts, *first, *count;
  bool dual;
} stages;

static void add_part(const stages *s, int64_t part, int64_t times, int64_t *n, int64_t *ends) {
  const mal_model *m = &s->plan->model;
  for (int64_t i = 0; i < s->count[part]; i++) n[kind_at(s->plan, s->first[part] + i)] += times;
  ends[MAL_EMBED] += part == 0 ? times : 0;
  ends[MAL_TAIL] += part == s->parts - 1 ? times : 0;
  if (part == s->parts - 1) n[m->kind_of[m->layers - 1]] += times * m->mtp_layers;
}

/* Micro-batches of a chunk among the first `flight` forward passes of a stage: groups of pp pass chunk 0, then 1, ... */
static int64_t in_flight(int64_t flight, int64_t pp, int64_t vpp, int64_t chunk) {
  int64_t rounds = flight / (pp * vpp), rest = flight % (pp * vpp) - chunk * pp;
  return rounds * pp + (rest < 0 ? 0 : rest < pp ? rest : pp);
}

static mal_class class_of(mal_arena *a, const stages *s, int64_t stage) {
  int64_t pp = s->plan->layout.pp, kinds = s->plan->model.n_kinds + 1;
  mal_class c = {.first = stage, .last = stage, .n = MAL_ARRAY(a, int64_t, kinds)};
  for (int64_t v = stage; v < s->parts; v += pp, c.chunks++) {
    add_part(s, v, 1, c.n, c.ends);
    c.layers += s->count[v];
  }
  if (s->dual) {
    add_part(s, pp - 1 - stage, 1, c.n, c.ends);
    c.layers += s->count[pp - 1 - stage], c.chunks++;
  }
  for (int k = 0; k < 2 && s->vpp > 1; k++) {
    int64_t warm = 2 * (pp - stage - 1) + (s->vpp - 1) * pp, all = pp * s->vpp;
    c.flight[k] = MAL_ARRAY(a, int64_t, kinds);
    for (int64_t chunk = 0; chunk < s->vpp; chunk++)
      add_part(s, chunk * pp + stage, in_flight(k || warm < all ? warm + 1 : all, pp, s->vpp, chunk), c.flight[k],
               c.flight_ends[k]);
  }
  return c;
}

/* In an interleaved pipeline the first stage that is so holds most, so later ones of the same contents join it. */
static bool same_contents(const mal_class *x, const mal_class *y, int kinds) {
  return memcmp(x->n, y->n, (size_t)(kinds + 1) * sizeof *x->n) == 0 && x->ends[0] == y->ends[0] &&
         x->ends[1] == y->ends[1];
}

/* ahead[part]: layers of the parts before it, along the first chunks. */
static int64_t *layers_ahead(mal_arena *a, const stages *s) {
  int64_t pp = s->plan->layout.pp, kinds = s->plan->model.n_kinds + 1;
  int64_t *ahead = MAL_ARRAY(a, int64_t, (pp + 1) * kinds);
  for (int64_t v = 0; v < pp; v++) {
    int64_t *now = ahead + v * kinds, *next = now + kinds;
    memcpy(next, now, (size_t)kinds * sizeof *now);
    for (int64_t i = 0; i < s->count[v]; i++) next[kind_at(s->plan, s->first[v] + i)]++;
  }
  return ahead;
}

mal_partition *mal_partition_make(mal_arena *a, const mal_plan *plan, bool dual) {
  const mal_layout *l = &plan->layout;
  mal_partition *p = MAL_NEW(a, mal_partition);
  int kinds = plan->model.n_kinds;
  int64_t vpp = l->vpp > 0 ? l->vpp : 1, parts = l->pp * vpp;
  stages s = {plan, vpp, parts, MAL_ARRAY(a, int64_t, parts), MAL_ARRAY(a, int64_t, parts), dual};
  *p = (mal_partition){.pp = l->pp, .vpp = vpp, .embedding_in_layers = l->embedding_in_layers, .dual = dual};
  p->kinds = kinds;
  mal_layout_stages(l, plan->model.layers, s.first, s.count);
  p->classes = MAL_ARRAY(a, mal_class, l->pp);
  int64_t *ahead = layers_ahead(a, &s);
  for (int64_t stage = 0; stage < l->pp; stage++) {
    mal_class c = class_of(a, &s, stage);
    int64_t mirror = l->pp - 1 - stage, from = dual && mirror < stage ? mirror : stage;
    int k = 0;
    while (k < p->count && !same_contents(&p->classes[k], &c, kinds)) k++;
    if (k == p->count) p->classes[p->count++] = c;
    p->classes[k].last = stage;
    if (from >= p->classes[k].from) p->classes[k].from = from, p->classes[k].before = ahead + from * (kinds + 1);
    if (c.layers > p->most_layers) p->most_layers = c.layers;
  }
  p->all = (mal_class){.n = MAL_ARRAY(a, int64_t, kinds + 1)};
  for (int64_t v = 0; v < parts; v++) add_part(&s, v, 1, p->all.n, p->all.ends);
  return p;
}

/* --- kits ----------------------------------------------------------------------------------------------------------------- */

/* Prices of the lists of one shared block. */
typedef struct priced {
  mal_program program;
  mal_block block;
  mal_held held;
  mal_prices prices;
} priced;

static mal_status find(mal_block_cache *c, mal_block_request r, priced *p, mal_error *e) {
  *p = (priced){.program = {.plan = r.plan, .n_blocks = 1}};
  mal_status status = mal_block_cached(c, &r, &p->block, &p->held, e);
  p->program.blocks = &p->block;
  p->prices = (mal_prices){.program = &p->program};
  return status;
}

static const mal_list_time *list(priced *p, mal_list which) { return mal_prices_of(&p->prices, 0, which); }

static void add_list(priced *p, mal_list which, double *seconds, mal_piece *x) {
  const mal_list_time *t = list(p, which);
  *seconds += t->span_s;
  x->exchange += t->cause_s[MAL_TIME_EP];
  x->gemm_s += t->cause_s[MAL_TIME_MATMUL];
}

static void add_block(priced *p, bool split, mal_piece *x) {
  int64_t work = 0;
  add_list(p, MAL_L_F, &x->f, x);
  add_list(p, MAL_L_R, &x->b, x);
  add_list(p, split ? MAL_L_B : MAL_L_BW, &x->b, x);
  if (split) add_list(p, MAL_L_W, &x->b, x);
  x->held_at_b += p->held.f_to_b + p->held.f_to_w;
  x->held_at_w += p->held.f_to_w + p->held.b_to_w;
  for (int i = 0; i < MAL_LISTS; i++)
    if (p->block.work_bytes[i] > work) work = p->block.work_bytes[i];
  if (work > x->work) x->work = work;
  if (p->block.kernel_bytes > x->kernel) x->kernel = p->block.kernel_bytes;
}

static mal_status add_end(mal_block_cache *c, mal_kit *k, mal_block_request r, int64_t times, mal_piece *x,
                          mal_error *e) {
  priced p;
  r.plan = &k->plan, r.split = k->split;
  mal_status status = find(c, r, &p, e);
  if (status == MAL_OK && p.block.block_class == MAL_B_HEAD) k->end_stash_freed = p.block.stash_bytes;
  for (int64_t i = 0; i < times && status == MAL_OK; i++) add_block(&p, k->split, x);
  return status;
}

mal_status mal_kit_open(mal_block_cache *c, const mal_plan *plan, bool split, mal_kit *k, mal_error *e) {
  *k = (mal_kit){.plan = *plan, .split = split};
  const mal_model *m = &k->plan.model;
  mal_piece *tail = &k->ends[MAL_TAIL];
  mal_status status = add_end(c, k, (mal_block_request){.block_class = MAL_B_EMBED}, 1, &k->ends[MAL_EMBED], e);
  if (status == MAL_OK) status = add_end(c, k, (mal_block_request){.block_class = MAL_B_HEAD}, 1, tail, e);
  if (status != MAL_OK || !m->mtp_layers) return status;
  mal_block_request own = {.block_class = MAL_B_MTP, .kind = m->kind_of[m->layers - 1], .tied_here = true};
  status = add_end(c, k, own, m->mtp_layers, tail, e);
  if (status != MAL_OK) return status;
  return add_end(c, k, (mal_block_request){.block_class = MAL_B_HEAD, .tied_here = true}, m->mtp_layers, tail, e);
}

mal_status mal_kit_head_s(mal_block_cache *c, const mal_kit *k, double *seconds, mal_error *e) {
  priced p;
  mal_piece x = {0};
  mal_block_request r = {.plan = &k->plan, .block_class = MAL_B_HEAD, .split = k->split, .unplaced = k->unplaced};
  mal_status status = find(c, r, &p, e);
  if (status == MAL_OK) add_block(&p, k->split, &x);
  *seconds = x.f + x.b;
  return status;
}

static bool kind_used(const mal_plan *p, int kind) {
  if (kind == p->model.n_kinds) return trains_adapters(p);
  for (int64_t i = 0; i < p->model.layers; i++)
    if (p->model.kind_of[i] == kind) return true;
  return false;
}

static mal_block_request layer_request(const mal_plan *plan, int kind) {
  bool bottom = kind == plan->model.n_kinds;
  return (mal_block_request){.plan = plan,
                             .block_class = MAL_B_LAYER,
                             .kind = bottom ? plan->model.kind_of[0] : kind,
                             .no_input_grad = bottom};
}

mal_status mal_kit_layers(mal_block_cache *c, mal_kit *k, int recompute, mal_error *e) {
  if (k->layers[recompute]) return MAL_OK;
  int kinds = k->plan.model.n_kinds;
  mal_piece *pieces = MAL_ARRAY(&c->arena, mal_piece, kinds + 1);
  for (int i = 0; i <= kinds; i++) {
    if (!kind_used(&k->plan, i)) continue;
    mal_block_request r = layer_request(&k->plan, i);
    r.recompute = recompute, r.split = k->split, r.unplaced = k->unplaced;
    priced p;
    mal_status status = find(c, r, &p, e);
    if (status != MAL_OK) return status;
    add_block(&p, k->split, &pieces[i]);
  }
  k->layers[recompute] = pieces;
  return MAL_OK;
}

double mal_kit_layers_s(const mal_kit *k, int recompute, bool exchange) {
  double s = 0;
  for (int64_t i = 0; i < k->plan.model.layers; i++) {
    const mal_piece *x = &k->layers[recompute][kind_at(&k->plan, i)];
    s += x->f + x->b - (exchange ? x->exchange : 0);
  }
  return s;
}

/* --- shard kits -------------------------------------------------------------------------------------------------------------- */

static mal_status add_unit(mal_block_cache *c, mal_block_request r, int64_t times, mal_unit *u, mal_error *e) {
  priced p;
  r.unplaced = r.unit_only = true;
  mal_status status = find(c, r, &p, e);
  if (status != MAL_OK) return status;
  const mal_block *b = &p.block;
  u->gather_s += (double)times * list(&p, MAL_L_GATHER)->span_s;
  u->reduce_s += (double)times * list(&p, MAL_L_REDUCE)->span_s;
  u->weights += times * b->region_bytes[MAL_R_PARAM];
  u->gradients += times * b->region_bytes[MAL_R_GRAD];
  if (b->region_bytes[MAL_R_GATHER] > u->gathered) u->gathered = b->region_bytes[MAL_R_GATHER];
  if (b->region_bytes[MAL_R_BUCKET] > u->bucket) u->bucket = b->region_bytes[MAL_R_BUCKET];
  u->host += times * (b->host_bytes + b->nvme_bytes);
  u->dense += times * b->dense_elements, u->expert += times * b->expert_elements;
  u->replicated += times * b->replicated_elements, u->vector += times * b->vector_elements;
  u->tied += times * b->tied_elements;
  return MAL_OK;
}

static mal_status add_tail(mal_block_cache *c, mal_shard_kit *k, bool joined, mal_unit *u, mal_error *e) {
  const mal_plan *plan = &k->plan;
  const mal_model *m = &plan->model;
  mal_block_request head = {.plan = plan, .block_class = MAL_B_HEAD, .tied_here = joined && m->tied_embeddings};
  mal_status status = add_unit(c, head, 1, u, e);
  for (int64_t i = 0; i < m->mtp_layers && status == MAL_OK; i++) {
    mal_block_request own = {.plan = plan, .block_class = MAL_B_MTP, .kind = m->kind_of[m->layers - 1]};
    own.tied_here = i > 0 || m->tied_embeddings || joined;
    head.tied_here = true;
    status = add_unit(c, own, 1, u, e);
    if (status == MAL_OK) status = add_unit(c, head, 1, u, e);
  }
  return status;
}

mal_status mal_shard_kit_open(mal_block_cache *c, const mal_plan *plan, bool joins, mal_shard_kit *k, mal_error *e) {
  *k = (mal_shard_kit){.plan = *plan, .joins = joins};
  int kinds = plan->model.n_kinds;
  k->layers = MAL_ARRAY(&c->arena, mal_unit, kinds + 1);
  mal_status status =
      add_unit(c, (mal_block_request){.plan = &k->plan, .block_class = MAL_B_EMBED}, 1, &k->ends[MAL_EMBED], e);
  if (status == MAL_OK) status = add_tail(c, k, false, &k->ends[MAL_TAIL], e);
  if (status == MAL_OK && joins) status = add_tail(c, k, true, &k->joined_tail, e);
  for (int i = 0; i <= kinds && status == MAL_OK; i++)
    if (kind_used(plan, i)) status = add_unit(c, layer_request(&k->plan, i), 1, &k->layers[i], e);
  return status;
}

static void sum_unit(mal_unit *sum, const mal_unit *u, int64_t n) {
  sum->weights += n * u->weights, sum->gradients += n * u->gradients, sum->host += n * u->host;
  sum->dense += n * u->dense, sum->expert += n * u->expert, sum->replicated += n * u->replicated;
  sum->vector += n * u->vector, sum->tied += n * u->tied;
}

static int64_t persistent(const mal_block *b) {
  return b->region_bytes[MAL_R_PARAM] + b->region_bytes[MAL_R_GRAD] + b->region_bytes[MAL_R_MASTER] +
         b->region_bytes[MAL_R_OPT];
}

static mal_unit sum_of(const mal_shard_kit *k, const mal_class *of) {
  mal_unit sum = {0};
  for (int i = 0; i <= k->plan.model.n_kinds; i++) sum_unit(&sum, &k->layers[i], of->n[i]);
  sum_unit(&sum, &k->ends[MAL_EMBED], of->ends[MAL_EMBED]);
  sum_unit(&sum, of->ends[MAL_EMBED] ? &k->joined_tail : &k->ends[MAL_TAIL], of->ends[MAL_TAIL]);
  return sum;
}

void mal_shard_floor(const mal_shard_kit *k, const mal_class *of, mal_class_end *end) {
  const mal_layout *l = &k->plan.layout;
  mal_unit sum = sum_of(k, of);
  int64_t ranks = l->zero == 3 && l->hybrid > 0 ? l->hybrid : l->dp * l->cp, experts = mal_layout_edp(l);
  int64_t elements = l->zero == 0 ? sum.dense + sum.expert : sum.dense / ranks + sum.expert / experts;
  *end = (mal_class_end){.of = of, .states = sum.weights + sum.gradients, .gradients = sum.gradients};
  if (!l->offload_optimizer) end->states += mal_optimizer_state_bytes(k->plan.job.optimizer, elements, 0);
}

void mal_shard_floor_of(const mal_shard_kit *whole, const mal_shard *shard, const mal_class *of, mal_class_end *end) {
  const mal_layout *l = &whole->plan.layout;
  mal_unit sum = sum_of(whole, of);
  int64_t ranks = shard->hybrid > 0 ? shard->hybrid : l->dp * l->cp, experts = mal_layout_edp(l);
  int64_t most = ranks > experts ? ranks : experts;
  int64_t elements = shard->zero == 0 ? sum.dense + sum.expert : sum.dense / ranks + sum.expert / experts;
  *end = (mal_class_end){.of = of, .states = shard->zero < 3 ? sum.weights : sum.weights / most};
  if (shard->offload_params) end->states = 0;
  if (!shard->offload_optimizer) end->states += mal_optimizer_state_bytes(whole->plan.job.optimizer, elements, 0);
}

/* Gradient sync and optimizer of a stage of this class, as lowering makes them. */
static mal_status make_end(mal_block_cache *c, mal_shard_kit *k, const mal_class *of, mal_class_end *end,
                           mal_error *e) {
  mal_unit sum = sum_of(k, of);
  mal_block_request r = {.plan = &k->plan,
                         .block_class = MAL_B_SYNC,
                         .unplaced = true,
                         .dense_elements = sum.dense,
                         .expert_elements = sum.expert,
                         .replicated_elements = sum.replicated,
                         .vector_elements = sum.vector,
                         .tied_elements = sum.tied};
  mal_block blocks[2];
  mal_held unused;
  mal_status status = mal_block_cached(c, &r, &blocks[0], &unused, e);
  r.block_class = MAL_B_OPTIMIZER;
  if (status == MAL_OK) status = mal_block_cached(c, &r, &blocks[1], &unused, e);
  if (status != MAL_OK) return status;
  mal_program program = {.plan = &k->plan, .blocks = blocks, .n_blocks = 2};
  mal_prices prices = {.program = &program};
  mal_stage stage = {.sync = 0, .optimizer = 1};
  mal_stage_traffic_of(&prices, &stage, &end->traffic);
  end->of = of;
  end->states = sum.weights + sum.gradients + persistent(&blocks[0]) + persistent(&blocks[1]);
  end->gradients = sum.gradients;
  end->host = sum.host + blocks[0].host_bytes + blocks[1].host_bytes + blocks[0].nvme_bytes + blocks[1].nvme_bytes;
  return MAL_OK;
}

const mal_class_end *mal_shard_class(mal_block_cache *c, mal_shard_kit *k, const mal_class *of, mal_error *e) {
  for (mal_class_end *end = k->classes; end; end = end->next)
    if (same_contents(end->of, of, k->plan.model.n_kinds)) return end;
  mal_class_end *end = MAL_NEW(&c->arena, mal_class_end);
  if (make_end(c, k, of, end, e) != MAL_OK) return NULL;
  end->next = k->classes;
  return k->classes = end;
}
