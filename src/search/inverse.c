#include "search/inverse.h"
#include "search/space.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQ_STEP = 1024, MOST_SEQ = 1 << 28, AROUND = 4, MOST_BELOW = 64, MOST_TRIED = 512 };

/* Judgement: a smaller machine uses its GPUs at most so much better than the best that was seen. */
static const double better_at_most = 1.1;
static const double no_gain = 0.99;      /* of the time: twice the machine is worth nothing more */
static const double offload_room = 1.05; /* what is offloaded scores more than its time (search.h) */

typedef struct ladder {
  mal_arena *a;
  const mal_plan *plan; /* as asked */
  const mal_search_options *search;
  mal_inverse *out;
  mal_numbers sizes; /* of micro-batches */
  int rungs;
  double best_gpu_s; /* of the target: least GPU-seconds seen */
  mal_error refused; /* why the last could not be split */
} ladder;

static bool is_machine(mal_ask ask) { return ask == MAL_ASK_NODES || ask == MAL_ASK_GPUS; }

/* --- sizes ------------------------------------------------------------------------------------------------------------- */

static int64_t size_at(const ladder *k, int i) {
  int64_t node = k->plan->machine.gpus_per_node;
  switch (k->out->ask) {
  case MAL_ASK_GPUS: return i < node ? i + 1 : (i - node + 2) * node;
  case MAL_ASK_SEQ: return (i + 1) * k->out->step;
  case MAL_ASK_MICRO_BATCH: return k->sizes.at ? k->sizes.at[i] : 1;
  default: return i + 1;
  }
}

static void set_sizes(ladder *k, mal_plan *asked) {
  const mal_model *m = &asked->model;
  int64_t gpus = mal_machine_gpus(&asked->machine), longest = m->learned_positions;
  k->out->step = 1;
  switch (k->out->ask) {
  case MAL_ASK_NODES: k->rungs = MAL_INVERSE_NODES; return;
  case MAL_ASK_GPUS: k->rungs = (int)asked->machine.gpus_per_node + MAL_INVERSE_NODES - 1; return;
  case MAL_ASK_PARAMS: k->rungs = MAL_MAX_LAYERS; return;
  case MAL_ASK_MICRO_BATCH:
    if (!asked->asked_job.global_batch) asked->asked_job.global_batch = mal_search_batch(asked);
    k->sizes = mal_divisors(k->a, asked->asked_job.global_batch);
    k->rungs = k->sizes.count;
    return;
  default: /* context parallelism halves a rank's share of the tokens once more */
    k->out->step = SEQ_STEP;
    while (k->out->step < 2 * gpus) k->out->step *= 2;
    if (longest > 0 && longest < k->out->step) k->out->step = longest;
    k->rungs = (int)((longest > 0 ? longest : MOST_SEQ) / k->out->step);
  }
}

static mal_status plan_at(const ladder *k, mal_arena *a, int64_t size, mal_plan *p, mal_error *e) {
  int64_t node = k->plan->machine.gpus_per_node;
  *p = *k->plan;
  switch (k->out->ask) {
  case MAL_ASK_NODES:
  case MAL_ASK_GPUS: {
    bool whole = k->out->ask == MAL_ASK_NODES || size > node;
    int64_t nodes = k->out->ask == MAL_ASK_NODES ? size : whole ? size / node : 1;
    mal_status status = mal_machine_resize(a, &p->machine, nodes, whole ? node : size, e);
    p->machine_spec = p->machine.name;
    return status;
  }
  case MAL_ASK_SEQ: p->asked_job.seq = size; return MAL_OK;
  case MAL_ASK_MICRO_BATCH: p->asked_layout.micro_batch = size; return MAL_OK;
  default: return mal_model_with_layers(a, &k->plan->model, size, &p->model, e);
  }
}

/* --- one size ------------------------------------------------------------------------------------------------------------ */

static bool holds(const mal_job *j, const mal_estimate *e) {
  return (j->deadline_s <= 0 || e->time_to_target_s <= j->deadline_s) &&
         (j->budget_usd <= 0 || e->cost_usd <= j->budget_usd);
}

static void judge(const ladder *k, const mal_estimate *e, bool fits, mal_rung *r) {
  r->fits = fits, r->known = true;
  r->step_s = e->step_s, r->time_s = e->time_to_target_s, r->cost_usd = e->cost_usd;
  r->meets = fits && (!is_machine(k->out->ask) || holds(&k->plan->asked_job, e));
}

/* Seconds a step may take at most: a deadline, were nothing lost to failures. 0: no limit. */
static double longest_step(const mal_plan *p) {
  const mal_job *j = &p->asked_job;
  double batch = (double)(j->global_batch > 0 ? j->global_batch : mal_search_batch(p));
  double seq = (double)mal_search_sequence(p);
  return j->deadline_s > 0 && j->tokens > 0 ? j->deadline_s * batch * seq / (double)j->tokens * offload_room : 0;
}

/* What every layout must have: what was asked, and a micro-batch that is tried. */
static const char *fix_at(const ladder *k, mal_arena *a, int64_t size) {
  const char *fix = k->search->fix;
  if (k->out->ask != MAL_ASK_MICRO_BATCH) return fix;
  return mal_print(a, "%s%smicro-batch=%lld", fix ? fix : "", fix ? "," : "", (long long)size);
}

static mal_status search_at(const ladder *k, mal_arena *a, const mal_plan *p, bool figures, mal_rung *r, mal_error *e) {
  const mal_job *j = &p->asked_job;
  bool priced = is_machine(k->out->ask) && (j->deadline_s > 0 || j->budget_usd > 0);
  mal_search_options o = *k->search;
  mal_search_result found;
  o.keep = 1, o.no_nearest = true;
  o.any = !figures && !priced;
  if (!figures && o.objective == MAL_BEST_TIME && is_machine(k->out->ask)) o.most_score = longest_step(p);
  o.fix = fix_at(k, a, r->size);
  mal_status status = mal_search(a, p, &o, &found, e);
  if (status != MAL_OK) return status;
  r->splits = true;
  if (found.count) judge(k, &found.best[0].estimate, true, r);
  r->known &= !o.any, r->slow = !found.count && o.most_score > 0;
  return MAL_OK;
}

static mal_status price_at(const ladder *k, mal_arena *a, mal_plan *p, mal_rung *r, mal_error *e) {
  mal_program program;
  mal_estimate estimate;
  mal_status status = mal_plan_complete(a, p, e);
  if (status == MAL_OK) status = mal_lower(a, p, &program, e);
  if (status == MAL_OK) status = mal_price(a, &program, &estimate, e);
  if (status != MAL_OK) return status;
  r->splits = true;
  judge(k, &estimate, estimate.fits, r);
  return MAL_OK;
}

static int place_of(const ladder *k, int64_t size) {
  int at = 0;
  while (at < k->out->count && k->out->tried[at].size < size) at++;
  return at;
}

static void remember(ladder *k, const mal_rung *r) {
  mal_inverse *out = k->out;
  int at = place_of(k, r->size);
  if (at < out->count && out->tried[at].size == r->size) {
    out->tried[at] = *r;
    return;
  }
  memmove(&out->tried[at + 1], &out->tried[at], (size_t)(out->count - at) * sizeof *out->tried);
  out->tried[at] = *r;
  out->count++;
}

/* figures: wanted even of a size that does not do. */
static mal_status try_rung(ladder *k, int i, bool figures, mal_rung *r, mal_error *e) {
  mal_arena a;
  mal_plan p;
  *r = (mal_rung){.size = size_at(k, i)};
  int at = place_of(k, r->size);
  if (at < k->out->count && k->out->tried[at].size == r->size && (k->out->tried[at].known || !figures)) {
    *r = k->out->tried[at];
    return MAL_OK;
  }
  mal_arena_init(&a);
  mal_status status = plan_at(k, &a, r->size, &p, e);
  r->nodes = p.machine.nodes, r->gpus = mal_machine_gpus(&p.machine);
  if (status == MAL_OK) status = k->search ? search_at(k, &a, &p, figures, r, e) : price_at(k, &a, &p, r, e);
  mal_arena_free(&a);
  if (status == MAL_BAD) k->refused = *e, status = MAL_OK;
  if (status != MAL_OK) return status;
  if (r->fits && r->known && r->time_s > 0) k->best_gpu_s = fmin(k->best_gpu_s, r->time_s * (double)r->gpus);
  if (k->out->count < MOST_TRIED) remember(k, r);
  return MAL_OK;
}

/* --- the ladder ------------------------------------------------------------------------------------------------------------ */

/* Halves between a rung that does not do (low; -1: none) and one that does, or the other way round; leaves them neighbours. */
static mal_status halve(ladder *k, int *no, int *yes, mal_error *e) {
  while (abs(*no - *yes) > 1) {
    mal_rung r;
    int middle = (*no + *yes) / 2;
    mal_status status = try_rung(k, middle, false, &r, e);
    if (status != MAL_OK) return status;
    *(r.meets ? yes : no) = middle;
  }
  return MAL_OK;
}

/* More of the machine is of no use: it costs more already, or is hardly faster than half of it. */
static bool is_hopeless(const ladder *k, const mal_rung *half, const mal_rung *r) {
  const mal_job *j = &k->plan->asked_job;
  if (!r->fits || !half->fits) return false;
  bool in_time = j->deadline_s <= 0 || r->time_s <= j->deadline_s;
  if (in_time && j->budget_usd > 0) return r->cost_usd >= half->cost_usd;
  return r->time_s >= no_gain * half->time_s;
}

/* Doubles the machine until it does; *yes -1: none does. */
static mal_status climb(ladder *k, int *no, int *yes, mal_error *e) {
  mal_rung half = {0}, r;
  *no = *yes = -1;
  for (int64_t i = 1;; i *= 2) {
    int at = (int)(i < k->rungs ? i : k->rungs) - 1;
    mal_status status = try_rung(k, at, true, &r, e);
    if (status != MAL_OK) return status;
    if (r.meets) return *yes = at, MAL_OK;
    if (at == k->rungs - 1 || is_hopeless(k, &half, &r)) return MAL_OK;
    *no = at, half = r;
  }
}

/* What is to fit: doubles until it no longer does; *no == rungs: everything fits. */
static mal_status climb_down(ladder *k, int *no, int *yes, mal_error *e) {
  mal_rung r;
  *yes = -1;
  for (int64_t i = 1;; i *= 2) {
    int at = (int)(i < k->rungs ? i : k->rungs) - 1;
    mal_status status = try_rung(k, at, false, &r, e);
    if (status != MAL_OK) return status;
    if (!r.meets) return *no = at, MAL_OK;
    *yes = at;
    if (at == k->rungs - 1) return *no = k->rungs, MAL_OK;
  }
}

/* Smaller machines, for not every number splits well: down to where even a better use of the GPUs would not do. */
static mal_status look_below(ladder *k, int *yes, mal_error *e) {
  const mal_job *j = &k->plan->asked_job;
  int at = *yes - 1;
  for (int tries = 0; at >= 0 && tries < MOST_BELOW; at--, tries++) {
    mal_rung r;
    double gpus = (double)size_at(k, at) * (k->out->ask == MAL_ASK_NODES ? (double)k->plan->machine.gpus_per_node : 1);
    if (j->deadline_s > 0 && gpus * j->deadline_s * better_at_most < k->best_gpu_s) break;
    mal_status status = try_rung(k, at, false, &r, e);
    if (status != MAL_OK) return status;
    if (r.meets) *yes = at, tries = 0;
  }
  k->out->checked_from = size_at(k, at + 1);
  return MAL_OK;
}

static mal_status look_beyond(ladder *k, int *yes, mal_error *e) {
  for (int i = 1; i <= AROUND && *yes + i < k->rungs; i++) {
    mal_rung r;
    mal_status status = try_rung(k, *yes + i, false, &r, e);
    if (status != MAL_OK) return status;
    if (r.meets) *yes += i, i = 0;
  }
  return MAL_OK;
}

/* How far a size is from what was asked; what cannot be split or does not fit is farthest. */
static double farness(const ladder *k, const mal_rung *r) {
  const mal_job *j = &k->plan->asked_job;
  if (!r->splits) return INFINITY;
  if (!r->fits) return 1e300 / (double)(r->gpus + 1);
  return fmax(j->deadline_s > 0 ? r->time_s / j->deadline_s : 0, j->budget_usd > 0 ? r->cost_usd / j->budget_usd : 0);
}

static int nearest(const ladder *k) {
  int best = 0;
  for (int i = 1; i < k->out->count; i++)
    if (farness(k, &k->out->tried[i]) < farness(k, &k->out->tried[best])) best = i;
  return best;
}

static mal_status find(ladder *k, mal_error *e) {
  int no = -1, yes = -1;
  bool machine = is_machine(k->out->ask);
  mal_status status = machine ? climb(k, &no, &yes, e) : climb_down(k, &no, &yes, e);
  k->out->found = yes >= 0;
  if (status != MAL_OK || !k->out->found) return status;
  if (no != k->rungs) status = halve(k, &no, &yes, e);
  if (status == MAL_OK) status = machine ? look_below(k, &yes, e) : look_beyond(k, &yes, e);
  int next = machine ? yes - 1 : yes + 1;
  k->out->ends = !machine && next == k->rungs;
  if (status == MAL_OK) status = try_rung(k, yes, true, &k->out->answer, e);
  if (status == MAL_OK && next >= 0 && next < k->rungs) status = try_rung(k, next, true, &k->out->beside, e);
  return status;
}

mal_status mal_inverse_find(mal_arena *a, const mal_plan *asked, const mal_search_options *o, mal_ask ask,
                            mal_inverse *out, mal_error *e) {
  mal_plan plan = *asked;
  ladder k = {.a = a, .plan = &plan, .search = o, .out = out, .best_gpu_s = INFINITY};
  *out = (mal_inverse){.ask = ask, .tried = MAL_ARRAY(a, mal_rung, MOST_TRIED + 1)};
  set_sizes(&k, &plan);
  mal_status status = find(&k, e);
  bool any = false;
  for (int i = 0; i < out->count; i++) any |= out->tried[i].splits;
  if (status == MAL_OK && !any) return *e = k.refused, MAL_BAD;
  if (status == MAL_OK && !out->found) out->answer = out->tried[nearest(&k)];
  if (status == MAL_OK) status = plan_at(&k, a, out->answer.size, &out->asked, e);
  if (status == MAL_OK && is_machine(ask) && out->asked.machine_spec)
    out->asked.machine_spec = mal_copy(a, out->asked.machine_spec);
  if (o) out->fix = fix_at(&k, a, out->answer.size);
  out->parameters = out->asked.model.parameters;
  return status;
}
