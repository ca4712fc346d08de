#include "search/worker.h"
#include "price/power.h"
#include "price/risk.h"
#include "program/lower.h"
#include <stdlib.h>
#include <string.h>

/* --- scores -------------------------------------------------------------------------------------------------------------- */

double mal_score(int objective, const mal_estimate *e) {
  switch (objective) {
  case MAL_BEST_COST: return e->usd_per_mtoken > 0 ? e->usd_per_mtoken : e->step_s;
  case MAL_BEST_ENERGY: return e->kwh_per_mtoken;
  case MAL_BEST_MEMORY: return (double)e->total_bytes;
  default: return e->step_s;
  }
}

/* The whole machine at its least draw for such a step, kW with the facility: products at the limit, all else as cheap as waiting
 * for data. */
static double least_kw(const mal_plan *p, double step_s, double gemm_s) {
  double time_s[MAL_TIME_CAUSES] = {0};
  time_s[MAL_TIME_MATMUL] = gemm_s < step_s ? gemm_s : step_s;
  time_s[MAL_TIME_DATA] = step_s - time_s[MAL_TIME_MATMUL];
  return mal_power_w(&p->machine, time_s, step_s) / 1000 * (p->job.pue > 0 ? p->job.pue : 1);
}

double mal_least_score(const mal_worker *w, const mal_plan *plan, double step_s, double gemm_s, int64_t bytes) {
  double mtokens = w->tokens / 1e6, hours = step_s / 3600;
  switch (w->options->objective) {
  case MAL_BEST_COST: {
    double usd_per_hour = mal_usd_per_gpu_hour(plan) * (double)mal_machine_gpus(&plan->machine);
    if (plan->job.usd_per_kwh > 0) usd_per_hour += plan->job.usd_per_kwh * least_kw(plan, step_s, gemm_s);
    return usd_per_hour > 0 ? usd_per_hour * hours / mtokens : step_s;
  }
  case MAL_BEST_ENERGY: return least_kw(plan, step_s, gemm_s) * hours / mtokens;
  case MAL_BEST_MEMORY: return (double)bytes;
  default: return step_s;
  }
}

static double wanted(const mal_search_options *o) {
  return o->fit_probability > 0 ? o->fit_probability : mal_fit_confidence;
}

bool mal_fits_well(const mal_search_options *o, const mal_estimate *e) {
  return e->host_fits && e->nvme_fits && e->fit_probability >= wanted(o);
}

/* --- a thread ------------------------------------------------------------------------------------------------------------- */

void mal_worker_open(mal_worker *w, const mal_space *space, const mal_search_options *o, mal_contest *c) {
  *w = (mal_worker){.space = space, .options = o, .contest = c};
  mal_arena_init(&w->arena);
  mal_arena_init(&w->frame);
  mal_arena_init(&w->body);
  mal_arena_init(&w->scratch);
  mal_block_cache_open(&w->blocks);
  mal_block_cache_open(&w->ends);
  w->forms = MAL_ARRAY(&w->arena, mal_form, MAL_MOST_FORMS);
  w->tokens = (double)space->batch * (double)space->seq;
  for (int i = 0; i < space->n_plans; i++)
    w->budget[i] = mal_fit_budget(space->plans[i].profile, space->plans[i].machine.gpu->memory_bytes.value, wanted(o));
}

void mal_worker_close(mal_worker *w) {
  mal_arena_free(&w->arena);
  mal_arena_free(&w->frame);
  mal_arena_free(&w->body);
  mal_arena_free(&w->scratch);
  mal_block_cache_close(&w->blocks);
  mal_block_cache_close(&w->ends);
}

static mal_status complete(const mal_worker *w, mal_arena *a, const mal_layout *l, mal_plan *p, mal_error *e) {
  *p = w->space->plans[w->at->profile];
  p->asked_layout = *l;
  return mal_plan_complete(a, p, e);
}

/* What the rules let through must complete and lower: else the rules are wrong, and the search says so rather than hide it. */
static void fault(mal_worker *w, const mal_error *e) {
  if (w->status != MAL_OK) return;
  w->status = MAL_FAULT;
  w->error = *e;
}

/* --- a lower bound of a whole frame ------------------------------------------------------------------------------------------ */

static const mal_shard plain_shard = {.zero = 1}, reducing_shard = {.zero = 2};
static const mal_form plain_form = {.schedule = MAL_1F1B, .vpp = 1};

/* 1F1B; more stages than layers only where embedding and head count as layers. */
static mal_form plain_of(const mal_worker *w, int64_t pp) {
  mal_form form = plain_form;
  form.embedding_in_layers = pp > w->space->layers;
  return form;
}

static mal_shard any_shard(const mal_worker *w, bool reduces) {
  mal_shard s = reduces ? reducing_shard : plain_shard;
  int zero = w->space->fixed.zero;
  if (!reduces && zero >= 0 && zero != 2) s.zero = zero;
  return s;
}

/* DualPipe runs all-to-all beside the products of the other direction. */
static bool hides_exchange(const mal_worker *w, const mal_frame *f) {
  bool fixed = mal_space_fixed(w->space, offsetof(mal_layout, schedule));
  bool has = fixed ? w->space->fixed.schedule == MAL_DUALPIPE : w->space->plans[f->profile].profile->runs_dualpipe;
  return has && f->pp.at[f->pp.count - 1] > 1;
}

/* Layers and head, nothing recomputed, on stages of equal work: the stage that has most does no less. All but the embedding,
 * fill and drain, traffic between stages and of data parallelism, optimizer. */
static double least_with(mal_worker *w, const mal_plan *plan, int64_t micro_batch) {
  mal_kit kit = {.plan = *plan, .unplaced = true};
  mal_error e;
  double work;
  const mal_frame *f = w->at;
  kit.plan.layout.micro_batch = micro_batch;
  mal_block_cache_reset(&w->blocks);
  if (mal_kit_layers(&w->blocks, &kit, MAL_RECOMPUTE_NONE, &e) != MAL_OK) return 0;
  if (mal_kit_head_s(&w->blocks, &kit, &work, &e) != MAL_OK) return 0;
  work += mal_kit_layers_s(&kit, MAL_RECOMPUTE_NONE, hides_exchange(w, f));
  double sequences = (double)w->space->batch * (double)(f->tp * f->cp) / (double)w->space->gpus;
  return work * sequences / (double)micro_batch;
}

void mal_worker_bound(mal_worker *w, mal_frame *f) {
  mal_plan p = w->space->plans[f->profile];
  mal_error e;
  mal_shard shard = any_shard(w, true);
  int64_t pp = f->pp.at[f->pp.count - 1];
  mal_form form = plain_of(w, pp);
  w->at = f;
  mal_arena_reset(&w->scratch);
  f->sizes = mal_space_micro_batches(w->space, &w->arena, w->space->gpus / (f->tp * f->cp * pp));
  f->least_with_s = MAL_ARRAY(&w->arena, double, f->sizes.count + 1);
  f->least_s = 0;
  p.asked_layout = mal_space_layout(w->space, f, pp, 1, &form, &shard, MAL_RECOMPUTE_NONE, -1);
  p.asked_job.accumulation = 0;
  if (mal_plan_complete(&w->scratch, &p, &e) != MAL_OK) return; /* no bound: the frame is looked at */
  for (int i = 0; i < f->sizes.count; i++) {
    double s = f->least_with_s[i] = least_with(w, &p, f->sizes.at[i]);
    if (i == 0 || s < f->least_s) f->least_s = s;
  }
}

/* --- kits of a micro-batch ------------------------------------------------------------------------------------------------------ */

static mal_kit *kit_for(mal_worker *w, int64_t pp, int64_t dp, bool reduces, bool split) {
  bool alone = dp * w->at->cp == 1;
  int slot = reduces | split << 1 | alone << 2;
  if (w->kits[slot]) return w->kits[slot];
  mal_error e;
  mal_plan p;
  mal_shard shard = any_shard(w, reduces);
  mal_form form = plain_of(w, pp);
  mal_layout l = mal_space_layout(w->space, w->at, pp, w->micro_batch, &form, &shard, MAL_RECOMPUTE_NONE, -1);
  l.first_stage_layers = l.last_stage_layers = -1;
  mal_kit *k = MAL_NEW(&w->body, mal_kit);
  mal_status status = complete(w, &w->body, &l, &p, &e);
  if (status == MAL_OK) status = mal_kit_open(&w->blocks, &p, split, k, &e);
  if (status != MAL_OK) return fault(w, &e), NULL;
  return w->kits[slot] = k;
}

static const mal_piece *layers_of(mal_worker *w, mal_kit *k, int recompute) {
  mal_error e;
  if (mal_kit_layers(&w->blocks, k, recompute, &e) != MAL_OK) return fault(w, &e), NULL;
  return k->layers[recompute];
}

static mal_partition *partition_for(mal_worker *w, int64_t pp, const mal_form *form) {
  bool dual = form->schedule == MAL_DUALPIPE;
  size_t bucket = (size_t)(pp * 31 + form->vpp * 4 + form->embedding_in_layers * 2 + dual + 977 * w->at->profile);
  bucket %= MAL_PARTITION_BUCKETS;
  for (mal_partition *p = w->partitions[bucket]; p; p = p->next)
    if (p->pp == pp && p->vpp == form->vpp && p->embedding_in_layers == form->embedding_in_layers && p->dual == dual &&
        p->profile == w->at->profile)
      return p;
  mal_shard shard = any_shard(w, false);
  mal_layout l = mal_space_layout(w->space, w->at, pp, w->micro_batch, form, &shard, MAL_RECOMPUTE_NONE, -1);
  mal_plan plan;
  mal_error e;
  if (complete(w, &w->body, &l, &plan, &e) != MAL_OK) return fault(w, &e), NULL;
  mal_partition *p = mal_partition_make(&w->arena, &plan, dual);
  p->profile = w->at->profile;
  p->next = w->partitions[bucket];
  return w->partitions[bucket] = p;
}

static mal_shard_kit *shard_for(mal_worker *w, mal_pipeline *at, int shard) {
  if (at->kits[shard]) return at->kits[shard];
  mal_error e;
  mal_plan p;
  mal_form form = plain_of(w, at->pp);
  mal_layout l =
      mal_space_layout(w->space, w->at, at->pp, w->micro_batch, &form, &at->shards[shard], MAL_RECOMPUTE_NONE, -1);
  l.first_stage_layers = l.last_stage_layers = -1;
  mal_shard_kit *k = MAL_NEW(&w->frame, mal_shard_kit);
  mal_status status = complete(w, &w->frame, &l, &p, &e);
  if (status == MAL_OK) status = mal_shard_kit_open(&w->ends, &p, at->pp == 1 || at->dual, k, &e);
  if (status != MAL_OK) return fault(w, &e), NULL;
  return at->kits[shard] = k;
}

/* The host's memory is shared with all that runs there and is what is known least: offload has to win by this much to be chosen
 * (judgement), so that no plan offloads for a gain inside the noise. */
static const double offload_margin = 1.03;

static bool offloads(const mal_shard *x) { return x->offload_optimizer || x->offload_params; }

static double dearness(const mal_worker *w, const mal_shard *x) {
  return offloads(x) && w->options->objective != MAL_BEST_MEMORY ? offload_margin : 1;
}

/* --- one layout, exactly ---------------------------------------------------------------------------------------------------------- */

typedef struct leaf { /* all but the shard */
  double least;       /* score */
  int pipeline;       /* of the frame */
  mal_form form;
  int recompute;
  bool partly, reduces;
} leaf;

/* Lowers it; then, when it fits, prices it and enters it. False: does not fit. */
static bool judge(mal_worker *w, const mal_pipeline *at, const leaf *x, const mal_shard *shard, int64_t recomputed,
                  bool enter) {
  mal_plan p;
  mal_program program;
  mal_estimate estimate;
  mal_error e;
  mal_layout l = mal_space_layout(w->space, w->at, at->pp, w->micro_batch, &x->form, shard, x->recompute, recomputed);
  mal_arena_reset(&w->scratch);
  mal_status status = complete(w, &w->scratch, &l, &p, &e);
  if (status == MAL_OK) status = mal_lower_cached(&w->scratch, &w->blocks, &p, &program, &e);
  if (status != MAL_OK) return fault(w, &e), false;
  w->evaluated++;
  mal_price_memory(&program, &estimate);
  if (!mal_fits_well(w->options, &estimate) && !w->anything) return false;
  w->fitting++;
  if (!enter) return true;
  if (mal_price(&w->scratch, &program, &estimate, &e) != MAL_OK) return fault(w, &e), false;
  mal_entry entry = {.layout = l, .plan = w->at->profile, .score = mal_score(w->options->objective, &estimate)};
  entry.score *= dearness(w, shard);
  entry.bytes = estimate.total_bytes;
  mal_contest_enter(w->contest, &entry);
  if (w->options->any) mal_contest_end(w->contest);
  return true;
}

/* The fewest recomputed layers that fit. */
static void judge_partly(mal_worker *w, const mal_pipeline *at, const leaf *x, const mal_shard *shard, int64_t from,
                         int64_t all) {
  if (judge(w, at, x, shard, from, true) || w->status != MAL_OK) return;
  int64_t low = from, high = all - 1;
  if (high <= low || !judge(w, at, x, shard, high, false)) return;
  while (high - low > 1) {
    int64_t middle = (low + high) / 2;
    *(judge(w, at, x, shard, middle, false) ? &high : &low) = middle;
  }
  judge(w, at, x, shard, high, true);
}

/* --- bounds, shard by shard ------------------------------------------------------------------------------------------------------- */

static bool reduces_units(int zero) { return zero >= 2; }

static double gemm_seconds(const mal_question *q) {
  double least = 0;
  for (int k = 0; k < q->partition->count; k++) {
    double s = mal_bound_passes(q, &q->partition->classes[k]).gemm_s;
    if (k == 0 || s < least) least = s;
  }
  return least;
}

static bool needs_products(const mal_worker *w) {
  return w->options->objective == MAL_BEST_ENERGY || w->options->objective == MAL_BEST_COST;
}

static double least_of(const mal_worker *w, const mal_question *q, double step_s, int64_t bytes) {
  return mal_least_score(w, &q->kit->plan, step_s, needs_products(w) ? gemm_seconds(q) : 0, bytes);
}

/* Of states and stash, against what the GPU and the host have. */
static bool too_large(const mal_worker *w, const mal_question *q, const mal_shard_kit *shard,
                      const mal_class_end *const *ends, int64_t *bytes) {
  const mal_machine *m = &q->kit->plan.machine;
  *bytes = mal_bound_memory(q, shard, ends);
  if (w->anything) return false;
  double host = m->node->ram_bytes.value + m->node->nvme_bytes.value;
  if ((double)*bytes > w->budget[w->at->profile]) return true;
  return shard && (double)mal_bound_host(q, ends) * (double)m->gpus_per_node > host;
}

/* The fewest layers that have to be recomputed as far as bounds tell; all: none is few enough. */
static int64_t fewest(const mal_worker *w, mal_question *q, const mal_shard_kit *shard,
                      const mal_class_end *const *ends, int64_t all) {
  int64_t low = 0, high = all, bytes;
  while (high - low > 1) {
    q->recomputed = (low + high) / 2;
    *(too_large(w, q, shard, ends, &bytes) ? &low : &high) = q->recomputed;
  }
  return high;
}

typedef enum verdict { V_FITS, V_LARGE, V_OVER } verdict; /* over: cannot win */

static verdict try_partly(mal_worker *w, mal_pipeline *at, const leaf *x, const mal_shard *shard, int64_t from,
                          int64_t all) {
  leaf plain = *x;
  plain.recompute = MAL_RECOMPUTE_NONE, plain.partly = false;
  if (from == 1 && judge(w, at, &plain, shard, -1, false)) return V_OVER; /* nothing need be recomputed */
  judge_partly(w, at, x, shard, from, all);
  return V_LARGE;
}

/* A kit of these ranks that holds all weights; NULL: none is among the shards. */
static const mal_shard_kit *whole_for(mal_worker *w, mal_pipeline *at) {
  for (int k = 0; k < at->n_shards; k++)
    if (at->shards[k].zero < 2 && !offloads(&at->shards[k])) return shard_for(w, at, k);
  return NULL;
}

/* From weights, gradients and states alone; with as many layers recomputed as may be. shard: not that of the kit, which holds
 * all weights, but another one. */
static bool is_surely_large(const mal_worker *w, mal_question *q, const mal_shard_kit *kit, const mal_shard *shard,
                            bool partly) {
  mal_class_end floors[MAL_CLASSES];
  const mal_class_end *ends[MAL_CLASSES];
  int64_t bytes;
  for (int k = 0; k < q->partition->count; k++) {
    if (shard)
      mal_shard_floor_of(kit, shard, &q->partition->classes[k], &floors[k]);
    else
      mal_shard_floor(kit, &q->partition->classes[k], &floors[k]);
    ends[k] = &floors[k];
  }
  if (partly) q->recomputed = q->partition->most_layers - 1;
  return too_large(w, q, kit, ends, &bytes);
}

static verdict weigh_shard(mal_worker *w, mal_pipeline *at, const leaf *x, mal_question *q, int shard,
                           mal_visible *visible) {
  const mal_class_end *ends[MAL_CLASSES];
  mal_error e;
  const mal_shard_kit *whole = whole_for(w, at);
  q->visible = NULL;
  if (whole && is_surely_large(w, q, whole, &at->shards[shard], x->partly)) return V_LARGE;
  mal_shard_kit *kit = shard_for(w, at, shard);
  int64_t bytes, from = -1, all = q->partition->most_layers;
  double dearer = dearness(w, &at->shards[shard]);
  if (!kit) return V_OVER;
  if (is_surely_large(w, q, kit, NULL, x->partly)) return V_LARGE;
  for (int k = 0; k < q->partition->count; k++) {
    ends[k] = mal_shard_class(&w->ends, kit, &q->partition->classes[k], &e);
    if (!ends[k]) return fault(w, &e), V_OVER;
  }
  q->visible = NULL;
  if (at->shards[shard].zero >= 2) {
    mal_arena_reset(&w->scratch);
    mal_visible_of(&w->scratch, q->kit, q->layers, q->plain, kit, visible);
    q->visible = visible;
  }
  q->recomputed = x->partly ? 0 : -1;
  if (mal_contest_over(w->contest, dearer * least_of(w, q, mal_bound_step(q, kit, ends), 0))) return V_OVER;
  if (x->partly) {
    from = fewest(w, q, kit, ends, all);
    if (from >= all) return V_LARGE;
    q->recomputed = from;
  }
  if (too_large(w, q, kit, ends, &bytes)) return V_LARGE;
  if (mal_contest_over(w->contest, dearer * least_of(w, q, mal_bound_step(q, kit, ends), bytes))) return V_OVER;
  if (x->partly) return try_partly(w, at, x, &at->shards[shard], from, all);
  return judge(w, at, x, &at->shards[shard], -1, true) ? V_FITS : V_LARGE;
}

static verdict try_shard(mal_worker *w, mal_pipeline *at, const leaf *x, mal_question *q, int shard) {
  mal_visible visible;
  verdict v = weigh_shard(w, at, x, q, shard, &visible);
  q->visible = NULL;
  return v;
}

static bool offloads_less(const mal_shard *x, const mal_shard *than) {
  return x->zero == than->zero && x->hybrid == than->hybrid && x->offload_optimizer <= than->offload_optimizer &&
         x->offload_params <= than->offload_params;
}

/* What need not be offloaded, or not so far, is not: it only costs time. */
static void try_shards(mal_worker *w, mal_pipeline *at, const leaf *x, mal_question *q) {
  for (int k = 0; k < at->n_shards && w->status == MAL_OK; k++) {
    const mal_shard *s = &at->shards[k];
    if (reduces_units(s->zero) != x->reduces) continue;
    bool needed = true;
    for (int i = 0; i < k && offloads(s) && needed; i++)
      if (offloads_less(&at->shards[i], s)) needed = at->verdicts[i] == V_LARGE;
    at->verdicts[k] = needed ? (uint8_t)try_shard(w, at, x, q, k) : V_OVER;
  }
}

/* --- micro-batches and pipelines ------------------------------------------------------------------------------------------------------ */

static bool ask(mal_worker *w, const mal_pipeline *at, const leaf *x, const double *hops, mal_question *q) {
  bool split = x->form.schedule == MAL_ZB_H1 || x->form.schedule == MAL_ZB_2P || x->form.schedule == MAL_DUALPIPE;
  mal_kit *kit = kit_for(w, at->pp, at->dp, x->reduces, split);
  if (!kit) return false;
  *q = (mal_question){.kit = kit, .recomputed = x->partly ? 0 : -1, .schedule = x->form.schedule, .hops = hops};
  q->pp = at->pp, q->micro_batches = w->space->batch / (at->dp * w->micro_batch);
  q->partition = partition_for(w, at->pp, &x->form);
  q->layers = layers_of(w, kit, x->recompute);
  q->plain = x->partly ? layers_of(w, kit, MAL_RECOMPUTE_NONE) : NULL;
  return q->partition && q->layers && (!x->partly || q->plain);
}

/* Sums of messages from stage 0 on. */
static const double *hops_of(mal_worker *w, const mal_pipeline *at) {
  double *hops = MAL_ARRAY(&w->body, double, at->pp + 1), *each = MAL_ARRAY(&w->body, double, at->pp + 1);
  mal_kit *kit = kit_for(w, at->pp, at->dp, false, false);
  if (!kit) return NULL;
  if (at->pp == 1) return hops;
  mal_plan p = kit->plan;
  p.layout.pp = at->pp, p.layout.dp = at->dp;
  mal_pipe_hops(&p, mal_boundary_bytes(&p), each);
  for (int64_t s = 0; s < at->pp; s++) hops[s + 1] = hops[s] + each[s];
  return hops;
}

static int by_bound(const void *a, const void *b) {
  const leaf *x = a, *y = b;
  return (x->least > y->least) - (x->least < y->least);
}

typedef struct leaves {
  leaf *at;
  int count, room;
  const double **hops; /* [pipeline] */
} leaves;

static bool can_recompute(const mal_worker *w, int recompute, bool partly) {
  const mal_space *s = w->space;
  bool how = mal_space_fixed(s, offsetof(mal_layout, recompute));
  bool layers = mal_space_fixed(s, offsetof(mal_layout, recompute_layers));
  if (how && recompute != s->fixed.recompute) return false;
  return !layers || partly == (s->fixed.recompute_layers >= 0);
}

static void add_leaf(mal_worker *w, leaves *all, leaf x) {
  mal_question q;
  if (!ask(w, &w->pipelines[x.pipeline], &x, all->hops[x.pipeline], &q)) return;
  x.least = least_of(w, &q, mal_bound_start(&q), 0);
  if (mal_contest_over(w->contest, x.least) || (x.partly && q.partition->most_layers < 2)) return;
  int64_t bytes, all_layers = q.partition->most_layers;
  if (x.partly ? fewest(w, &q, NULL, NULL, all_layers) >= all_layers : too_large(w, &q, NULL, NULL, &bytes)) return;
  if (all->count == all->room) {
    all->at = mal_grow(&w->body, all->at, (size_t)all->room, (size_t)all->room * 2 + 256, sizeof *all->at);
    all->room = all->room * 2 + 256;
  }
  all->at[all->count++] = x;
}

/* Every layer recomputed, 1F1B: what needs least memory but for its states, and more with every larger micro-batch. A single
 * layer's recomputation may need more than it spares, so only where a stage has several. */
static bool is_hopeless(mal_worker *w, int i, const double *hops, bool reduces) {
  enum { SEVERAL = 4 };
  leaf x = {0, i, plain_of(w, w->pipelines[i].pp), MAL_RECOMPUTE_FULL, false, reduces};
  mal_question q;
  int64_t bytes;
  if (mal_space_fixed(w->space, offsetof(mal_layout, schedule)) || w->space->fixed.first_stage_layers >= 0 ||
      w->space->fixed.last_stage_layers >= 0)
    return false;
  return ask(w, &w->pipelines[i], &x, hops, &q) && q.partition->most_layers >= SEVERAL &&
         too_large(w, &q, NULL, NULL, &bytes);
}

static void add_pipeline(mal_worker *w, leaves *all, int i) {
  mal_pipeline *at = &w->pipelines[i];
  bool kinds[2] = {false, false};
  if (at->hopeless || !mal_space_micro_batch(w->space, w->at, at->dp, w->micro_batch)) return;
  const mal_profile *profile = w->space->plans[w->at->profile].profile;
  int forms = mal_space_forms(w->space, profile, at->pp, w->space->batch / (at->dp * w->micro_batch), w->forms);
  if (!forms) return;
  for (int k = 0; k < at->n_shards; k++) kinds[reduces_units(at->shards[k].zero)] = true;
  all->hops[i] = hops_of(w, at);
  if (!all->hops[i] || (at->hopeless = is_hopeless(w, i, all->hops[i], !kinds[0]))) return;
  for (int f = 0; f < forms && all->hops[i]; f++) {
    if (at->pp == 1 && w->forms[f].schedule != MAL_1F1B && !mal_space_fixed(w->space, offsetof(mal_layout, schedule)))
      continue; /* without a pipeline they are the same, or worse */
    for (int r = 0; r <= MAL_RECOMPUTES; r++)
      for (int reduces = 0; reduces < 2; reduces++) {
        bool partly = r == MAL_RECOMPUTES;
        int how = partly ? MAL_RECOMPUTE_FULL : r;
        if (kinds[reduces] && can_recompute(w, how, partly) && w->status == MAL_OK)
          add_leaf(w, all, (leaf){0, i, w->forms[f], how, partly, reduces});
      }
  }
}

static void start_micro_batch(mal_worker *w, int64_t micro_batch) {
  w->micro_batch = micro_batch;
  mal_arena_reset(&w->body);
  mal_block_cache_reset(&w->blocks);
  memset(w->kits, 0, sizeof w->kits);
}

static void run_micro_batch(mal_worker *w, int64_t micro_batch) {
  leaves all = {NULL, 0, 0, NULL};
  start_micro_batch(w, micro_batch);
  all.hops = MAL_ARRAY(&w->body, const double *, w->at->pp.count);
  for (int i = 0; i < w->at->pp.count && w->status == MAL_OK; i++) add_pipeline(w, &all, i);
  if (all.count > 1) qsort(all.at, (size_t)all.count, sizeof *all.at, by_bound);
  for (int i = 0; i < all.count && w->status == MAL_OK; i++) {
    mal_pipeline *at = &w->pipelines[all.at[i].pipeline];
    mal_question q;
    if (mal_contest_over(w->contest, all.at[i].least)) return;
    if (!ask(w, at, &all.at[i], all.hops[all.at[i].pipeline], &q)) return;
    try_shards(w, at, &all.at[i], &q);
  }
}

static void start_frame(mal_worker *w, const mal_frame *f) {
  w->at = f;
  mal_arena_reset(&w->frame);
  mal_block_cache_reset(&w->ends);
  w->pipelines = MAL_ARRAY(&w->frame, mal_pipeline, f->pp.count);
  for (int i = 0; i < f->pp.count; i++) {
    mal_pipeline *at = &w->pipelines[i];
    at->pp = f->pp.at[i], at->dp = w->space->gpus / (f->tp * f->cp * at->pp);
    const mal_profile *profile = w->space->plans[f->profile].profile;
    at->n_shards = mal_space_shards(w->space, &w->frame, profile, at->pp, at->dp * f->cp, &at->shards);
    at->kits = MAL_ARRAY(&w->frame, mal_shard_kit *, at->n_shards + 1);
    at->verdicts = MAL_ARRAY(&w->frame, uint8_t, at->n_shards + 1);
    at->dual = at->pp % 2 == 0;
  }
}

/* Everything recomputed, the smallest micro-batch, the profile's ZeRO stage. */
void mal_worker_warm(mal_worker *w, const mal_frame *f) {
  start_frame(w, f);
  start_micro_batch(w, 1);
  for (int i = 0; i < f->pp.count && w->status == MAL_OK; i++) {
    mal_pipeline *at = &w->pipelines[i];
    mal_question q;
    leaf x = {0, i, plain_form, MAL_RECOMPUTE_FULL, false, false};
    int zero = w->space->plans[f->profile].profile->default_zero, shard = -1;
    for (int k = 0; k < at->n_shards && shard < 0; k++)
      if (at->shards[k].zero == zero && !at->shards[k].hybrid && !offloads(&at->shards[k])) shard = k;
    if (shard < 0 || at->pp > w->space->layers || !mal_space_micro_batch(w->space, f, at->dp, 1)) continue;
    if (!can_recompute(w, MAL_RECOMPUTE_FULL, false) || mal_space_fixed(w->space, offsetof(mal_layout, schedule)))
      return;
    if (mal_space_fixed(w->space, offsetof(mal_layout, vpp)) || w->space->fixed.embedding_in_layers) return;
    x.reduces = reduces_units(zero);
    const double *hops = hops_of(w, at);
    if (hops && ask(w, at, &x, hops, &q) && !mal_contest_over(w->contest, least_of(w, &q, mal_bound_start(&q), 0)))
      try_shard(w, at, &x, &q, shard);
  }
}

void mal_worker_run(mal_worker *w, const mal_frame *f) {
  start_frame(w, f);
  for (int i = 0; i < f->sizes.count && w->status == MAL_OK; i++)
    if (!mal_contest_over(w->contest, mal_least_score(w, &w->space->plans[f->profile], f->least_with_s[i], 0, 0)))
      run_micro_batch(w, f->sizes.at[i]);
}

/* --- for the tests ------------------------------------------------------------------------------------------------------------------------ */

static bool bound_of(mal_worker *w, mal_pipeline *at, const leaf *x, int shard, int64_t recomputed, mal_probe *out) {
  const mal_class_end *ends[MAL_CLASSES];
  mal_question q;
  mal_visible visible;
  mal_error e;
  const double *hops = hops_of(w, at);
  mal_shard_kit *kit = shard_for(w, at, shard);
  if (!hops || !kit || !ask(w, at, x, hops, &q)) return false;
  for (int k = 0; k < q.partition->count; k++) {
    mal_class_end floor;
    if (!(ends[k] = mal_shard_class(&w->ends, kit, &q.partition->classes[k], &e))) return fault(w, &e), false;
    mal_shard_floor(kit, &q.partition->classes[k], &floor);
    if (floor.states > ends[k]->states) return false;
    const mal_shard_kit *whole = whole_for(w, at);
    if (whole) mal_shard_floor_of(whole, &at->shards[shard], &q.partition->classes[k], &floor);
    if (floor.states > ends[k]->states) return false;
  }
  mal_arena_reset(&w->scratch);
  if (at->shards[shard].zero >= 2) {
    mal_visible_of(&w->scratch, q.kit, q.layers, q.plain, kit, &visible);
    q.visible = &visible;
  }
  if (x->partly) q.recomputed = recomputed;
  out->bound_s = mal_bound_step(&q, kit, ends);
  out->bound_bytes = mal_bound_memory(&q, kit, ends);
  double start = mal_bound_start(&q);
  int64_t bare = mal_bound_memory(&q, NULL, NULL);
  return start <= out->bound_s * (1 + 1e-12) && bare <= out->bound_bytes;
}

bool mal_worker_probe(mal_worker *w, mal_arena *a, const mal_frame *f, const uint32_t place[6], mal_probe *out) {
  mal_program program;
  mal_error e;
  start_frame(w, f);
  int pipeline = (int)(place[0] % (uint32_t)f->pp.count);
  mal_pipeline *at = &w->pipelines[pipeline];
  mal_numbers sizes = mal_space_micro_batches(w->space, &w->frame, at->dp);
  int64_t size = sizes.at[place[1] % (uint32_t)sizes.count];
  if (!mal_space_micro_batch(w->space, f, at->dp, size)) return false;
  start_micro_batch(w, size);
  const mal_profile *profile = w->space->plans[f->profile].profile;
  int forms = mal_space_forms(w->space, profile, at->pp, w->space->batch / (at->dp * size), w->forms);
  if (!forms || !at->n_shards) return false;
  leaf x = {0, pipeline, w->forms[place[2] % (uint32_t)forms], (int)(place[3] % MAL_RECOMPUTES), false, false};
  int shard = (int)(place[4] % (uint32_t)at->n_shards);
  int64_t recomputed = place[5] % (uint32_t)(w->space->layers / at->pp + 1);
  x.reduces = reduces_units(at->shards[shard].zero);
  x.partly = x.recompute == MAL_RECOMPUTE_FULL && recomputed > 0;
  if (!bound_of(w, at, &x, shard, recomputed, out)) return fault(w, &(mal_error){.text = "bounds disagree"}), false;
  mal_layout l =
      mal_space_layout(w->space, f, at->pp, size, &x.form, &at->shards[shard], x.recompute, x.partly ? recomputed : -1);
  mal_arena_reset(&w->scratch);
  mal_status status = complete(w, a, &l, &out->plan, &e);
  if (status == MAL_OK) status = mal_lower_cached(&w->scratch, &w->blocks, &out->plan, &program, &e);
  if (status == MAL_OK) status = mal_price(&w->scratch, &program, &out->exact, &e);
  out->exact.why = NULL;
  if (status != MAL_OK) fault(w, &e);
  return status == MAL_OK;
}
