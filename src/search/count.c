/* How many layouts the space has: products of the factor lists, nothing is enumerated. */
#include "search/space.h"
#include <string.h>

#define AT(member) offsetof(mal_layout, member)

static double ways(const mal_space *s, size_t offset, double n) { return mal_space_fixed(s, offset) ? 1 : n; }

/* --- valid ------------------------------------------------------------------------------------------------------------------ */

/* None, selective, full, and full on 1 .. layers - 1 of a stage. */
static double recomputations(const mal_space *s, int64_t layers) {
  bool how = mal_space_fixed(s, AT(recompute)), some = mal_space_fixed(s, AT(recompute_layers));
  if (some) return how && s->fixed.recompute != MAL_RECOMPUTE_FULL ? 0 : 1;
  double full = (double)(layers > 1 ? layers : 1);
  if (how) return s->fixed.recompute == MAL_RECOMPUTE_FULL ? full : 1;
  return 2 + full;
}

static double shard_ways(const mal_space *s, const mal_profile *p, mal_arena *scratch, int64_t pp, int64_t ranks) {
  mal_shard *shards;
  int n = mal_space_shards(s, scratch, p, pp, ranks, &shards);
  double sum = 0, grad = ranks > 1 ? ways(s, AT(overlap_dp_grad), 2) : 1;
  for (int i = 0; i < n; i++) sum += grad * (ranks > 1 && shards[i].zero > 0 ? ways(s, AT(overlap_dp_param), 2) : 1);
  return sum;
}

static double form_ways(const mal_space *s, const mal_frame *f, mal_arena *scratch, int64_t pp, int64_t dp) {
  mal_numbers sizes = mal_space_micro_batches(s, scratch, dp);
  mal_form *forms = MAL_ARRAY(scratch, mal_form, MAL_MOST_FORMS);
  double sum = 0;
  for (int i = 0; i < sizes.count; i++)
    if (mal_space_micro_batch(s, f, dp, sizes.at[i]))
      sum += mal_space_forms(s, s->plans[f->profile].profile, pp, s->batch / (dp * sizes.at[i]), forms);
  return sum * recomputations(s, (s->layers + pp - 1) / pp);
}

typedef struct memo {
  int profile;
  int64_t tp, cp, pp;
  double n;
} memo;
enum { MEMOS = 1 << 12 };

/* Of one frame and pipeline. */
static double valid_of(const mal_space *s, const mal_frame *f, int64_t pp, mal_arena *scratch) {
  int64_t dp = s->gpus / (f->tp * f->cp * pp);
  mal_arena_reset(scratch);
  double n = form_ways(s, f, scratch, pp, dp) * shard_ways(s, s->plans[f->profile].profile, scratch, pp, dp * f->cp);
  if (f->tp > 1) n *= ways(s, AT(overlap_tp), 2);
  if (f->cp > 1) n *= ways(s, AT(overlap_cp), 2);
  if (pp > 1) n *= ways(s, AT(overlap_pp), 2);
  return n;
}

static double valid(const mal_space *s) {
  mal_arena scratch, kept;
  double sum = 0;
  mal_arena_init(&scratch);
  mal_arena_init(&kept);
  memo *memos = MAL_ARRAY(&kept, memo, MEMOS);
  for (int i = 0; i < s->n_frames; i++) {
    const mal_frame *f = &s->frames[i];
    for (int k = 0; k < f->pp.count; k++) {
      memo want = {f->profile, f->tp, f->cp, f->pp.at[k], 0};
      uint64_t hash = (uint64_t)(want.tp * 7919 + want.cp * 104729 + want.pp * 1299709 + want.profile);
      memo *m = &memos[hash * UINT64_C(0x9e3779b97f4a7c15) >> 52];
      if (m->tp != want.tp || m->cp != want.cp || m->pp != want.pp || m->profile != want.profile) {
        want.n = valid_of(s, f, want.pp, &scratch);
        *m = want;
      }
      sum += m->n;
    }
  }
  mal_arena_free(&kept);
  mal_arena_free(&scratch);
  return sum;
}

/* --- all --------------------------------------------------------------------------------------------------------------------- */

static int64_t divisor_count(int64_t n) {
  int64_t count = 0;
  for (int64_t i = 1; i <= n / i; i++)
    if (n % i == 0) count += i == n / i ? 1 : 2;
  return count;
}

/* Ways to write n as an ordered product of four. */
static double products_of_four(int64_t n) {
  double sum = 1;
  for (int64_t p = 2; n > 1; p++) {
    if (p > n / p) p = n;
    double k = 0;
    for (; n % p == 0; n /= p) k++;
    sum *= (k + 1) * (k + 2) * (k + 3) / 6;
  }
  return sum;
}

void mal_space_count(mal_space *s) {
  const mal_model *m = &s->plans[0].model;
  int64_t experts = 1, ffn = 1;
  for (int i = 0; i < m->n_kinds; i++)
    if (m->kinds[i].mlp == MAL_MLP_MOE) experts = m->kinds[i].experts, ffn = m->kinds[i].ffn;
  double layers = (double)s->layers, n = products_of_four(s->gpus);
  n *= (double)(divisor_count(experts) * divisor_count(ffn) * divisor_count(s->batch));
  n *= 2 * 3 * 32;                                      /* sequence parallelism, kinds of cp, overlaps */
  n *= 2 * (MAL_SCHEDULES - 1 + layers) * (2 + layers); /* ends in layers, schedules and chunks, recomputation */
  n *= 9 * (3 + (double)divisor_count(s->gpus));        /* offload, ZeRO stages and shard groups */
  s->size = n;
  s->valid = valid(s);
}
