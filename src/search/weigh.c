/* One layout after another: dismissed by a bound, or lowered, priced and entered. */
#include "search/weigh.h"
#include "program/lower.h"

/* The host's memory is shared with all that runs there and is what is known least: offload has to win by this much to be chosen
 * (judgement), so that no plan offloads for a gain inside the noise. */
static const double offload_margin = 1.03;

static double dearness(const mal_worker *w, const mal_shard *x) {
  return mal_offloads(x) && w->options->objective != MAL_BEST_MEMORY ? offload_margin : 1;
}

/* --- one layout, exactly ---------------------------------------------------------------------------------------------------------- */

/* Lowers it; then, when it fits, prices it and enters it. False: does not fit. */
static bool judge(mal_worker *w, const mal_pipeline *at, const mal_leaf *x, const mal_shard *shard, int64_t recomputed,
                  bool enter) {
  mal_plan p;
  mal_program program;
  mal_estimate estimate;
  mal_error e;
  mal_layout l = mal_space_layout(w->space, w->at, at->pp, w->micro_batch, &x->form, shard, x->recompute, recomputed);
  mal_arena_reset(&w->scratch);
  mal_status status = mal_worker_complete(w, &w->scratch, &l, &p, &e);
  if (status == MAL_OK) status = mal_lower_cached(&w->scratch, &w->blocks, &p, &program, &e);
  if (status != MAL_OK) return mal_worker_fault(w, &e), false;
  w->evaluated++;
  mal_price_memory(&program, &estimate);
  if (!mal_fits_well(w->options, &estimate) && !w->anything) return false;
  w->fitting++;
  if (!enter) return true;
  if (mal_price(&w->scratch, &program, &estimate, &e) != MAL_OK) return mal_worker_fault(w, &e), false;
  mal_entry entry = {.layout = l, .plan = w->at->profile, .score = mal_score(w->options->objective, &estimate)};
  entry.score *= dearness(w, shard);
  entry.bytes = estimate.total_bytes;
  mal_contest_enter(w->contest, &entry);
  if (w->options->any) mal_contest_end(w->contest);
  return true;
}

/* The fewest recomputed layers that fit. */
static void judge_partly(mal_worker *w, const mal_pipeline *at, const mal_leaf *x, const mal_shard *shard, int64_t from,
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

double mal_least_of(const mal_worker *w, const mal_question *q, double step_s, int64_t bytes) {
  return mal_least_score(w, &q->kit->plan, step_s, needs_products(w) ? gemm_seconds(q) : 0, bytes);
}

/* Of states and stash, against what the GPU and the host have. */
bool mal_too_large(const mal_worker *w, const mal_question *q, const mal_shard_kit *shard,
                   const mal_class_end *const *ends, int64_t *bytes) {
  const mal_machine *m = &q->kit->plan.machine;
  *bytes = mal_bound_memory(q, shard, ends);
  if (w->anything) return false;
  double host = m->node->ram_bytes.value + m->node->nvme_bytes.value;
  if ((double)*bytes > w->budget[w->at->profile]) return true;
  return shard && (double)mal_bound_host(q, ends) * (double)m->gpus_per_node > host;
}

/* The fewest layers that have to be recomputed as far as bounds tell; all: none is few enough. */
int64_t mal_fewest_recomputed(const mal_worker *w, mal_question *q, const mal_shard_kit *shard,
                              const mal_class_end *const *ends, int64_t all) {
  int64_t low = 0, high = all, bytes;
  while (high - low > 1) {
    q->recomputed = (low + high) / 2;
    *(mal_too_large(w, q, shard, ends, &bytes) ? &low : &high) = q->recomputed;
  }
  return high;
}

typedef enum verdict { V_FITS, V_LARGE, V_OVER } verdict; /* over: cannot win */

static verdict try_partly(mal_worker *w, mal_pipeline *at, const mal_leaf *x, const mal_shard *shard, int64_t from,
                          int64_t all) {
  mal_leaf plain = *x;
  plain.recompute = MAL_RECOMPUTE_NONE, plain.partly = false;
  if (from == 1 && judge(w, at, &plain, shard, -1, false)) return V_OVER; /* nothing need be recomputed */
  judge_partly(w, at, x, shard, from, all);
  return V_LARGE;
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
  return mal_too_large(w, q, kit, ends, &bytes);
}

static verdict weigh_shard(mal_worker *w, mal_pipeline *at, const mal_leaf *x, mal_question *q, int shard,
                           mal_visible *visible) {
  const mal_class_end *ends[MAL_CLASSES];
  mal_error e;
  const mal_shard_kit *whole = mal_whole_kit_for(w, at);
  q->visible = NULL;
  if (whole && is_surely_large(w, q, whole, &at->shards[shard], x->partly)) return V_LARGE;
  mal_shard_kit *kit = mal_shard_kit_for(w, at, shard);
  int64_t bytes, from = -1, all = q->partition->most_layers;
  double dearer = dearness(w, &at->shards[shard]);
  if (!kit) return V_OVER;
  if (is_surely_large(w, q, kit, NULL, x->partly)) return V_LARGE;
  for (int k = 0; k < q->partition->count; k++) {
    ends[k] = mal_shard_class(&w->ends, kit, &q->partition->classes[k], &e);
    if (!ends[k]) return mal_worker_fault(w, &e), V_OVER;
  }
  q->visible = NULL;
  if (at->shards[shard].zero >= 2) {
    mal_arena_reset(&w->scratch);
    mal_visible_of(&w->scratch, q->kit, q->layers, q->plain, kit, visible);
    q->visible = visible;
  }
  q->recomputed = x->partly ? 0 : -1;
  if (mal_contest_over(w->contest, dearer * mal_least_of(w, q, mal_bound_step(q, kit, ends), 0))) return V_OVER;
  if (x->partly) {
    from = mal_fewest_recomputed(w, q, kit, ends, all);
    if (from >= all) return V_LARGE;
    q->recomputed = from;
  }
  if (mal_too_large(w, q, kit, ends, &bytes)) return V_LARGE;
  if (mal_contest_over(w->contest, dearer * mal_least_of(w, q, mal_bound_step(q, kit, ends), bytes))) return V_OVER;
  if (x->partly) return try_partly(w, at, x, &at->shards[shard], from, all);
  return judge(w, at, x, &at->shards[shard], -1, true) ? V_FITS : V_LARGE;
}

static verdict weigh_with(mal_worker *w, mal_pipeline *at, const mal_leaf *x, mal_question *q, int shard) {
  mal_visible visible;
  verdict v = weigh_shard(w, at, x, q, shard, &visible);
  q->visible = NULL;
  return v;
}

void mal_try_shard(mal_worker *w, mal_pipeline *at, const mal_leaf *x, mal_question *q, int shard) {
  weigh_with(w, at, x, q, shard);
}

static bool offloads_less(const mal_shard *x, const mal_shard *than) {
  return x->zero == than->zero && x->hybrid == than->hybrid && x->offload_optimizer <= than->offload_optimizer &&
         x->offload_params <= than->offload_params;
}

/* What need not be offloaded, or not so far, is not: it only costs time. */
void mal_try_shards(mal_worker *w, mal_pipeline *at, const mal_leaf *x, mal_question *q) {
  for (int k = 0; k < at->n_shards && w->status == MAL_OK; k++) {
    const mal_shard *s = &at->shards[k];
    if (mal_reduces_units(s->zero) != x->reduces) continue;
    bool needed = true;
    for (int i = 0; i < k && mal_offloads(s) && needed; i++)
      if (offloads_less(&at->shards[i], s)) needed = at->verdicts[i] == V_LARGE;
    at->verdicts[k] = needed ? (uint8_t)weigh_with(w, at, x, q, k) : V_OVER;
  }
}
