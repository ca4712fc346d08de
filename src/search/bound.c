#include "search/bound.h"
#include <math.h>

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* --- traffic of units ------------------------------------------------------------------------------------------------------ */

typedef struct hiding {
  double shown; /* share of what could hide that is seen all the same */
  bool gathers, reduces, again;
} hiding;

static hiding hiding_of(const mal_plan *p) {
  return (hiding){.shown = p->profile->dp_exposed.value,
                  .gathers = p->layout.overlap_dp_param == MAL_ON && p->profile->prefetch > 0,
                  .reduces = p->layout.overlap_dp_grad == MAL_ON,
                  .again = p->profile->regather_backward};
}

static double exposed(double traffic, double work, bool hides, double shown) {
  return traffic - (hides ? fmin(traffic, work) : 0) * (1 - shown);
}

/* work: the longest of all pieces, for a unit's traffic may run beside its neighbour. */
static double unit_visible(const hiding *h, const mal_unit *u, double work_f, double work_b, bool split, double *f,
                           double *b) {
  *f = exposed(u->gather_s, work_f, h->gathers, h->shown);
  *b = h->again ? exposed(u->gather_s, work_b, h->gathers, h->shown) : 0;
  double reduced = exposed(u->reduce_s, work_b, h->reduces, h->shown);
  if (split) reduced = u->reduce_s * (h->reduces ? h->shown : 1);
  *b += reduced;
  return reduced;
}

void mal_visible_of(mal_arena *a, const mal_kit *kit, const mal_piece *layers, const mal_piece *plain,
                    const mal_shard_kit *shard, mal_visible *v) {
  int kinds = kit->plan.model.n_kinds;
  hiding h = hiding_of(&shard->plan);
  double f = 0, b = 0;
  *v = (mal_visible){.f = MAL_ARRAY(a, double, kinds + 1), .b = MAL_ARRAY(a, double, kinds + 1)};
  for (int i = 0; i <= kinds; i++) f = fmax(f, layers[i].f), b = fmax(b, layers[i].b);
  for (int i = 0; i <= kinds && plain; i++) f = fmax(f, plain[i].f), b = fmax(b, plain[i].b);
  for (int i = 0; i < MAL_ENDS; i++) f = fmax(f, kit->ends[i].f), b = fmax(b, kit->ends[i].b);
  for (int i = 0; i <= kinds; i++)
    v->last = fmax(v->last, unit_visible(&h, &shard->layers[i], f, b, kit->split, &v->f[i], &v->b[i]));
  for (int i = 0; i < MAL_ENDS; i++) {
    const mal_unit *u = i == MAL_TAIL && shard->joins ? &shard->joined_tail : &shard->ends[i];
    double windows = 1 + (i == MAL_TAIL ? 2 * (double)kit->plan.model.mtp_layers : 0); /* of several blocks */
    v->last = fmax(v->last, unit_visible(&h, u, windows * f, windows * b, kit->split, &v->ends_f[i], &v->ends_b[i]));
  }
}

/* --- time ------------------------------------------------------------------------------------------------------------------- */

static double forward_of(const mal_question *q, const int64_t *n, int64_t embeds, int64_t tails) {
  const mal_visible *v = q->visible;
  double s = (double)embeds * q->kit->ends[MAL_EMBED].f + (double)tails * q->kit->ends[MAL_TAIL].f;
  for (int i = 0; i <= q->partition->kinds; i++) s += (double)n[i] * (q->layers[i].f + (v ? v->f[i] : 0));
  if (v) s += (double)embeds * v->ends_f[MAL_EMBED] + (double)tails * v->ends_f[MAL_TAIL];
  return s;
}

/* chunks: in each, the reduction of the unit that backward reaches last is left to the end of the step. */
static double backward_of(const mal_question *q, const mal_piece *layers, const int64_t *n, int64_t embeds,
                          int64_t tails, int64_t chunks) {
  const mal_visible *v = q->visible;
  double s = (double)embeds * q->kit->ends[MAL_EMBED].b + (double)tails * q->kit->ends[MAL_TAIL].b;
  for (int i = 0; i <= q->partition->kinds; i++) s += (double)n[i] * (layers[i].b + (v ? v->b[i] : 0));
  if (v) s += (double)embeds * v->ends_b[MAL_EMBED] + (double)tails * v->ends_b[MAL_TAIL] - (double)chunks * v->last;
  return s;
}

/* What `layers` recomputed layers of a stage cost more: those of the kind whose recomputation costs least. */
static double recomputation(const mal_question *q, int64_t layers) {
  double extra = INFINITY;
  for (int i = 0; i <= q->partition->kinds; i++)
    if (q->layers[i].f > 0) extra = fmin(extra, q->layers[i].b + q->layers[i].f - q->plain[i].b - q->plain[i].f);
  return isfinite(extra) ? (double)least(q->recomputed, layers) * extra : 0;
}

static double exchange_of(const mal_question *q, const mal_class *c) {
  double s = (double)c->ends[0] * q->kit->ends[0].exchange + (double)c->ends[1] * q->kit->ends[1].exchange;
  for (int i = 0; i <= q->partition->kinds; i++) s += (double)c->n[i] * q->layers[i].exchange;
  return s;
}

static double gemm_of(const mal_question *q, const mal_class *c) {
  double s = (double)c->ends[0] * q->kit->ends[0].gemm_s + (double)c->ends[1] * q->kit->ends[1].gemm_s;
  const mal_piece *layers = q->recomputed >= 0 ? q->plain : q->layers;
  for (int i = 0; i <= q->partition->kinds; i++) s += (double)c->n[i] * layers[i].gemm_s;
  return s;
}

mal_passes mal_bound_passes(const mal_question *q, const mal_class *c) {
  mal_passes p = {0};
  const mal_piece *low = q->recomputed >= 0 ? q->plain : q->layers;
  int64_t from = c->from;
  double passes = (double)(q->partition->dual ? q->micro_batches / 2 : q->micro_batches);
  p.forward_s = forward_of(q, c->n, c->ends[0], c->ends[1]);
  p.backward_s = backward_of(q, low, c->n, c->ends[0], c->ends[1], c->chunks);
  if (q->recomputed >= 0) p.backward_s += recomputation(q, c->layers);
  double each = p.forward_s + p.backward_s;
  if (q->partition->dual) each -= exchange_of(q, c);
  double fill = forward_of(q, c->before, from > 0, 0) + q->hops[from];
  double drain = q->kit->split ? 0 : backward_of(q, low, c->before, from > 0, 0, from) + q->hops[from];
  p.done_s = fill + passes * each;
  p.drained_s = p.done_s + drain;
  p.gemm_s = passes * gemm_of(q, c);
  return p;
}

/* 1F1B: stage 0 has pp micro-batches on their way; the one after them starts when the first is back. */
static double round_trips(const mal_question *q) {
  const mal_class *all = &q->partition->all, *first = &q->partition->classes[0];
  const mal_piece *low = q->recomputed >= 0 ? q->plain : q->layers;
  if (q->schedule != MAL_1F1B || q->pp == 1) return 0;
  double trip = forward_of(q, all->n, all->ends[0], all->ends[1]) +
                backward_of(q, low, all->n, all->ends[0], all->ends[1], q->pp) + 2 * q->hops[q->pp - 1];
  int64_t trips = (q->micro_batches - 1) / q->pp, left = q->micro_batches - 1 - trips * q->pp;
  double back = backward_of(q, low, first->n, first->ends[0], first->ends[1], 1);
  return (double)(trips + 1) * trip + (double)left * back;
}

double mal_bound_start(const mal_question *q) {
  double s = round_trips(q);
  for (int k = 0; k < q->partition->count; k++) s = fmax(s, mal_bound_passes(q, &q->partition->classes[k]).drained_s);
  return s * (1 + mal_jitter_share(&q->kit->plan.machine, q->pp));
}

double mal_bound_step(const mal_question *q, const mal_shard_kit *shard, const mal_class_end *const *ends) {
  double synced = 0, drained = round_trips(q), updated = 0, sync_of_first = 0;
  for (int k = 0; k < q->partition->count; k++) {
    double sync, optimizer;
    mal_passes p = mal_bound_passes(q, &q->partition->classes[k]);
    mal_stage_end_seconds(&shard->plan, &ends[k]->traffic, p.forward_s, p.backward_s, &sync, &optimizer);
    if (k == 0) sync_of_first = sync; /* class 0 has stage 0 */
    synced = fmax(synced, p.done_s + sync);
    drained = fmax(drained, p.drained_s);
    updated = fmax(updated, optimizer);
  }
  if (!q->kit->split) synced = fmax(synced, drained + sync_of_first); /* a W may follow what was handed on last */
  return (synced + updated) * (1 + mal_jitter_share(&q->kit->plan.machine, q->pp));
}

/* --- memory ------------------------------------------------------------------------------------------------------------------ */

static int64_t of_layers(const mal_question *q, const mal_piece *pieces, const mal_class *c, bool late) {
  int64_t sum = 0;
  for (int i = 0; i <= q->partition->kinds; i++) sum += c->n[i] * (late ? pieces[i].held_at_w : pieces[i].held_at_b);
  return sum;
}

/* Bytes that recomputing one layer spares: those of the kind where it spares most. */
static int64_t spared_by_one(const mal_question *q, bool late) {
  int64_t spared = 0;
  for (int i = 0; i <= q->partition->kinds; i++) {
    const mal_piece *x = &q->plain[i], *y = &q->layers[i];
    spared = most(spared, late ? x->held_at_w - y->held_at_w : x->held_at_b - y->held_at_b);
  }
  return spared;
}

static int64_t stage_stash(const mal_question *q, const mal_class *c, bool late) {
  int64_t sum = of_layers(q, q->recomputed >= 0 ? q->plain : q->layers, c, late);
  if (q->recomputed >= 0) sum = most(0, sum - least(q->recomputed, c->layers) * spared_by_one(q, late));
  for (int i = 0; i < MAL_ENDS; i++) sum += c->ends[i] * (late ? q->kit->ends[i].held_at_w : q->kit->ends[i].held_at_b);
  return sum;
}

/* Interleaved: of all chunks. Recomputed layers are spread evenly over them, those of earlier chunks no sooner. */
static int64_t flight_stash(const mal_question *q, const mal_class *c) {
  int more = q->micro_batches > q->pp;
  const mal_piece *pieces = q->recomputed >= 0 ? q->plain : q->layers;
  int64_t sum = 0, layers = 0;
  for (int i = 0; i <= q->partition->kinds; i++) {
    sum += c->flight[more][i] * pieces[i].held_at_b;
    layers += c->flight[more][i];
  }
  if (q->recomputed > 0 && c->layers > 0) {
    double share = (double)least(q->recomputed, c->layers) / (double)c->layers;
    sum = most(0, sum - (int64_t)(share * (double)layers * (double)spared_by_one(q, false)));
  }
  for (int i = 0; i < MAL_ENDS; i++) sum += c->flight_ends[more][i] * q->kit->ends[i].held_at_b;
  return sum;
}

/* Of the schedules' orders: what stage `first` of a class has taken in before it gives its first micro-batch back. */
static int64_t stash_peak(const mal_question *q, const mal_class *c) {
  int64_t M = q->micro_batches, behind = q->pp - c->first, whole = stage_stash(q, c, false);
  switch (q->schedule) {
  case MAL_GPIPE: return M * whole;
  case MAL_INTERLEAVED: return flight_stash(q, c);
  case MAL_ZB_2P: return least(M, 2 * behind - 1) * whole;
  case MAL_DUALPIPE: return whole; /* a micro-batch of each direction, at least */
  default: return least(M, behind) * whole;
  }
}

static int64_t widest(const mal_question *q, const mal_class *c) {
  int64_t work = 0;
  for (int i = 0; i <= q->partition->kinds; i++)
    if (c->n[i]) {
      int64_t one = q->layers[i].work + q->layers[i].kernel;
      if (q->recomputed >= 0) one = least(one, q->plain[i].work + q->plain[i].kernel);
      work = most(work, one);
    }
  return work;
}

/* Beside the stash: a layer with its units; where what the head keeps is given back before, so much less, but no less than the
 * units that are ahead while the head runs. */
static int64_t working(const mal_question *q, const mal_class *c, const mal_shard_kit *s, int64_t freed) {
  int64_t gathered = 0, bucket = 0, work = widest(q, c);
  if (!s) return most(0, work - freed);
  for (int i = 0; i <= q->partition->kinds; i++)
    if (c->n[i]) gathered = most(gathered, s->layers[i].gathered), bucket = most(bucket, s->layers[i].bucket);
  int64_t ahead = s->plan.profile->prefetch, units = least(ahead + 1, c->layers);
  int64_t layer = work + units * gathered + bucket - freed;
  return freed > 0 ? most(layer, least(ahead, c->layers) * gathered) : layer;
}

/* s, end NULL: with no states at all. */
static int64_t class_memory(const mal_question *q, const mal_class *c, const mal_shard_kit *s,
                            const mal_class_end *end) {
  const mal_profile *p = q->kit->plan.profile;
  bool passing = p->optimizer_in_backward || (p->lazy_grads && q->micro_batches == 1);
  int64_t stash = p->offloads_stash ? 0 : stash_peak(q, c);
  int64_t freed = p->dynamic_memory && !p->offloads_stash && c->ends[MAL_TAIL] ? q->kit->end_stash_freed : 0;
  double phase = (double)(stash + working(q, c, s, freed));
  int64_t states = end ? end->states - (passing ? end->gradients : 0) : 0;
  return states + (int64_t)(phase * (1 + p->slack)) + p->context_bytes;
}

int64_t mal_bound_memory(const mal_question *q, const mal_shard_kit *shard, const mal_class_end *const *ends) {
  int64_t bytes = 0;
  for (int k = 0; k < q->partition->count; k++)
    bytes = most(bytes, class_memory(q, &q->partition->classes[k], shard, shard ? ends[k] : NULL));
  return bytes;
}

int64_t mal_bound_host(const mal_question *q, const mal_class_end *const *ends) {
  int64_t bytes = 0;
  for (int k = 0; k < q->partition->count; k++) bytes = most(bytes, ends[k]->host);
  return bytes;
}
