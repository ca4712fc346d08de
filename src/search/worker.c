#include "search/worker.h"
#include "search/weigh.h"
#include <stdlib.h>

/* --- a lower bound of a whole frame --- */

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
  mal_shard shard = mal_any_shard(w, true);
  int64_t pp = f->pp.at[f->pp.count - 1];
  mal_form form = mal_plain_form(w, pp);
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

/* --- micro-batches and pipelines ------------------------------------------------------------------------------------------------------ */

static int by_bound(const void *a, const void *b) {
  const mal_leaf *x = a, *y = b;
  return (x->least > y->least) - (x->least < y->least);
}

typedef struct leaves {
  mal_leaf *at;
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

static void add_leaf(mal_worker *w, leaves *all, mal_leaf x) {
  mal_question q;
  if (!mal_ask_of(w, &w->pipelines[x.pipeline], &x, all->hops[x.pipeline], &q)) return;
  x.least = mal_least_of(w, &q, mal_bound_start(&q), 0);
  if (mal_contest_over(w->contest, x.least) || (x.partly && q.partition->most_layers < 2)) return;
  int64_t bytes, all_layers = q.partition->most_layers;
  if (x.partly ? mal_fewest_recomputed(w, &q, NULL, NULL, all_layers) >= all_layers
               : mal_too_large(w, &q, NULL, NULL, &bytes))
    return;
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
  mal_leaf x = {0, i, mal_plain_form(w, w->pipelines[i].pp), MAL_RECOMPUTE_FULL, false, reduces};
  mal_question q;
  int64_t bytes;
  if (mal_space_fixed(w->space, offsetof(mal_layout, schedule)) || w->space->fixed.first_stage_layers >= 0 ||
      w->space->fixed.last_stage_layers >= 0)
    return false;
  return mal_ask_of(w, &w->pipelines[i], &x, hops, &q) && q.partition->most_layers >= SEVERAL &&
         mal_too_large(w, &q, NULL, NULL, &bytes);
}

static void add_pipeline(mal_worker *w, leaves *all, int i) {
  mal_pipeline *at = &w->pipelines[i];
  bool kinds[2] = {false, false};
  if (at->hopeless || !mal_space_micro_batch(w->space, w->at, at->dp, w->micro_batch)) return;
  const mal_profile *profile = w->space->plans[w->at->profile].profile;
  int forms = mal_space_forms(w->space, profile, at->pp, w->space->batch / (at->dp * w->micro_batch), w->forms);
  if (!forms) return;
  for (int k = 0; k < at->n_shards; k++) kinds[mal_reduces_units(at->shards[k].zero)] = true;
  all->hops[i] = mal_hops_for(w, at);
  if (!all->hops[i] || (at->hopeless = is_hopeless(w, i, all->hops[i], !kinds[0]))) return;
  for (int f = 0; f < forms && all->hops[i]; f++) {
    if (at->pp == 1 && w->forms[f].schedule != MAL_1F1B && !mal_space_fixed(w->space, offsetof(mal_layout, schedule)))
      continue; /* without a pipeline they are the same, or worse */
    for (int r = 0; r <= MAL_RECOMPUTES; r++)
      for (int reduces = 0; reduces < 2; reduces++) {
        bool partly = r == MAL_RECOMPUTES;
        int how = partly ? MAL_RECOMPUTE_FULL : r;
        if (kinds[reduces] && can_recompute(w, how, partly) && w->status == MAL_OK)
          add_leaf(w, all, (mal_leaf){0, i, w->forms[f], how, partly, reduces});
      }
  }
}

static void run_micro_batch(mal_worker *w, int64_t micro_batch) {
  leaves all = {NULL, 0, 0, NULL};
  mal_start_micro_batch(w, micro_batch);
  all.hops = MAL_ARRAY(&w->body, const double *, w->at->pp.count);
  for (int i = 0; i < w->at->pp.count && w->status == MAL_OK; i++) add_pipeline(w, &all, i);
  if (all.count > 1) qsort(all.at, (size_t)all.count, sizeof *all.at, by_bound);
  for (int i = 0; i < all.count && w->status == MAL_OK; i++) {
    mal_pipeline *at = &w->pipelines[all.at[i].pipeline];
    mal_question q;
    if (mal_contest_over(w->contest, all.at[i].least)) return;
    if (!mal_ask_of(w, at, &all.at[i], all.hops[all.at[i].pipeline], &q)) return;
    mal_try_shards(w, at, &all.at[i], &q);
  }
}

/* Everything recomputed, the smallest micro-batch, the profile's ZeRO stage. */
void mal_worker_warm(mal_worker *w, const mal_frame *f) {
  mal_start_frame(w, f);
  mal_start_micro_batch(w, 1);
  for (int i = 0; i < f->pp.count && w->status == MAL_OK; i++) {
    mal_pipeline *at = &w->pipelines[i];
    mal_question q;
    mal_leaf x = {0, i, mal_plain_form(w, at->pp), MAL_RECOMPUTE_FULL, false, false};
    int zero = w->space->plans[f->profile].profile->default_zero, shard = -1;
    for (int k = 0; k < at->n_shards && shard < 0; k++)
      if (at->shards[k].zero == zero && !at->shards[k].hybrid && !mal_offloads(&at->shards[k])) shard = k;
    if (shard < 0 || at->pp > w->space->layers || !mal_space_micro_batch(w->space, f, at->dp, 1)) continue;
    if (!can_recompute(w, MAL_RECOMPUTE_FULL, false) || mal_space_fixed(w->space, offsetof(mal_layout, schedule)))
      return;
    if (mal_space_fixed(w->space, offsetof(mal_layout, vpp)) || w->space->fixed.embedding_in_layers) return;
    x.reduces = mal_reduces_units(zero);
    const double *hops = mal_hops_for(w, at);
    if (hops && mal_ask_of(w, at, &x, hops, &q) &&
        !mal_contest_over(w->contest, mal_least_of(w, &q, mal_bound_start(&q), 0)))
      mal_try_shard(w, at, &x, &q, shard);
  }
}

void mal_worker_run(mal_worker *w, const mal_frame *f) {
  mal_start_frame(w, f);
  for (int i = 0; i < f->sizes.count && w->status == MAL_OK; i++)
    if (!mal_contest_over(w->contest, mal_least_score(w, &w->space->plans[f->profile], f->least_with_s[i], 0, 0)))
      run_micro_batch(w, f->sizes.at[i]);
}
