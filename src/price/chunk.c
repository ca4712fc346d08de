/* Passes through a chunk, and the end of a step. */
#include "price/compose.h"
#include "price/kernel.h"
#include "program/cache.h"
#include <math.h>

void mal_prices_init(mal_prices *p, mal_arena *a, const mal_program *program) {
  p->program = program;
  p->times = MAL_ARRAY(a, mal_list_time, program->n_blocks * MAL_LISTS);
  p->known = MAL_ARRAY(a, uint8_t, program->n_blocks * MAL_LISTS);
}

/* What a shared block keeps of its prices: the plans that share it have the same for it. */
typedef struct memo {
  mal_list_time times[MAL_LISTS];
  uint8_t known[MAL_LISTS];
} memo;
_Static_assert(sizeof(memo) <= MAL_MEMO_BYTES, "room for prices in a shared block");

static const mal_list_time *shared_price(const mal_plan *plan, const mal_block *b, mal_list list) {
  memo *m = b->memo;
  if (!m->known[list] && b->count[list] > 0) m->times[list] = mal_price_list(plan, b, list);
  m->known[list] = 1;
  return &m->times[list];
}

const mal_list_time *mal_prices_of(mal_prices *p, int block, mal_list list) {
  if (p->program->blocks[block].memo) return shared_price(p->program->plan, &p->program->blocks[block], list);
  int at = block * MAL_LISTS + (int)list;
  if (!p->known[at]) {
    if (p->program->blocks[block].count[list] > 0)
      p->times[at] = mal_price_list(p->program->plan, &p->program->blocks[block], list);
    p->known[at] = 1;
  }
  return &p->times[at];
}

static double add(double *cause_s, const mal_list_time *t, double times) {
  if (cause_s)
    for (int c = 0; c < MAL_TIME_CAUSES; c++) cause_s[c] += times * t->cause_s[c];
  return times * t->span_s;
}

/* --- ZeRO-3: traffic beside the units -------------------------------------------------------------------------------- */

typedef struct beside {
  const mal_profile *profile;
  bool gather_hides, reduce_hides;
} beside;

/* What stays visible of traffic that runs beside `work`; the part `alone` of it never hides. */
static double visible(const mal_profile *profile, double all, double alone, double work, bool hides) {
  double hidden = hides ? fmin(all - alone, work) : 0;
  return all - hidden * (1 - profile->dp_exposed.value);
}

static double exposed(const beside *b, double traffic, double work, bool hides) {
  return visible(b->profile, traffic, 0, work, hides);
}

static beside beside_of(const mal_prices *p) {
  const mal_plan *plan = p->program->plan;
  return (beside){.profile = plan->profile,
                  .gather_hides = plan->layout.overlap_dp_param == MAL_ON && plan->profile->prefetch > 0,
                  .reduce_hides = plan->layout.overlap_dp_grad == MAL_ON};
}

static double pass_work(mal_prices *p, int block, int pass, double *cause_s) {
  switch (pass) {
  case MAL_T_F: return add(cause_s, mal_prices_of(p, block, MAL_L_F), 1);
  case MAL_T_W: return add(cause_s, mal_prices_of(p, block, MAL_L_W), 1);
  default: {
    double s = add(cause_s, mal_prices_of(p, block, MAL_L_R), 1);
    return s + add(cause_s, mal_prices_of(p, block, pass == MAL_T_B ? MAL_L_B : MAL_L_BW), 1);
  }
  }
}

static int reducing_pass(const mal_prices *p) { return p->program->split_backward ? MAL_T_W : MAL_T_BW; }

/* Exposed traffic of a pass over the chunk's units in order (backward: last first). A unit's gather runs beside the work
 * before it; what is left of a unit's work hides the reduction of the unit before. */
static double unit_traffic(mal_prices *p, const mal_chunk *c, int pass) {
  beside b = beside_of(p);
  bool forward = pass == MAL_T_F, reduce = pass == reducing_pass(p);
  bool gather = forward || (b.profile->regather_backward && pass != MAL_T_W);
  double seen = 0, work_before = 0, reduce_before = 0;
  for (int r = 0; r < c->n_runs; r++) {
    const mal_run *run = &c->runs[forward ? r : c->n_runs - 1 - r];
    double g = gather ? mal_prices_of(p, run->block, MAL_L_GATHER)->span_s : 0;
    double d = reduce ? mal_prices_of(p, run->block, MAL_L_REDUCE)->span_s : 0;
    double work = pass_work(p, run->block, pass, NULL), more = (double)(run->count - 1);
    double left = fmax(0, work - (b.gather_hides ? g : 0));
    seen += exposed(&b, g, work_before, b.gather_hides) + more * exposed(&b, g, work, b.gather_hides);
    seen += exposed(&b, reduce_before, left, b.reduce_hides) + more * exposed(&b, d, left, b.reduce_hides);
    work_before = work, reduce_before = d;
  }
  return b.reduce_hides ? seen : seen + reduce_before; /* else the last one runs beside the next pass, or after all */
}

static bool has_unit_traffic(const mal_prices *p) { return p->program->plan->layout.zero >= 2; }

double mal_chunk_time(mal_prices *p, const mal_chunk *c, int pass, double *cause_s) {
  double seconds = 0;
  for (int r = 0; r < c->n_runs; r++) {
    double count = (double)c->runs[r].count, one[MAL_TIME_CAUSES] = {0};
    seconds += count * pass_work(p, c->runs[r].block, pass, cause_s ? one : NULL);
    if (cause_s)
      for (int k = 0; k < MAL_TIME_CAUSES; k++) cause_s[k] += count * one[k];
  }
  if (!has_unit_traffic(p)) return seconds;
  const mal_plan *plan = p->program->plan;
  bool alone = plan->layout.dp * plan->layout.cp == 1; /* a shard group of one: its gather is a cast in memory */
  double traffic = unit_traffic(p, c, pass);
  if (cause_s) cause_s[alone ? MAL_TIME_MEMORY : MAL_TIME_DP] += traffic;
  return seconds + traffic;
}

double mal_chunk_tail(mal_prices *p, const mal_chunk *c) {
  if (!has_unit_traffic(p) || c->n_runs < 1 || !beside_of(p).reduce_hides) return 0;
  return mal_prices_of(p, c->runs[0].block, MAL_L_REDUCE)->span_s;
}

/* --- end of step ----------------------------------------------------------------------------------------------------- */

enum { SMALL_BYTES = 1 << 16 }; /* norms and flags: they wait for all gradients, so nothing hides them */

static bool over_data_ranks(const mal_instruction *i) {
  if (i->op != MAL_OP_COLLECTIVE || i->cause != MAL_TIME_DP) return false;
  if (i->axes == MAL_AXES_SHARD || i->axes == MAL_AXES_REPLICA) return true;
  return i->axes & (1 << MAL_AXIS_DP | 1 << MAL_AXIS_EDP);
}

static void add_traffic(const mal_prices *p, int block, mal_traffic *t) {
  const mal_block *b = &p->program->blocks[block];
  const mal_instruction *before = NULL;
  double seconds = 0;
  for (int k = 0; k < b->count[MAL_L_F]; k++) {
    const mal_instruction *i = &b->list[MAL_L_F][k];
    if (!over_data_ranks(i)) continue;
    bool same = before && before->variant == i->variant && before->axes == i->axes &&
                b->sizes[before->sizes].v[0] == b->sizes[i->sizes].v[0];
    if (!same) seconds = mal_price_instruction(p->program->plan, b, i, NULL);
    before = i;
    if (b->sizes[i->sizes].v[0] < SMALL_BYTES)
      t->small_s += seconds;
    else if (i->variant == MAL_ALL_GATHER) {
      if (t->gather_s == 0) t->first_gather_s = seconds;
      t->gather_s += seconds;
    } else
      t->reduce_s += seconds, t->last_reduce_s = seconds, t->reductions++;
  }
}

void mal_stage_traffic_of(mal_prices *p, const mal_stage *stage, mal_stage_traffic *t) {
  *t = (mal_stage_traffic){0};
  if (stage->sync >= 0) add_traffic(p, stage->sync, &t->sync);
  if (stage->optimizer >= 0) add_traffic(p, stage->optimizer, &t->optimizer);
  const mal_list_time *sync = stage->sync >= 0 ? mal_prices_of(p, stage->sync, MAL_L_F) : NULL;
  const mal_list_time *optimizer = stage->optimizer >= 0 ? mal_prices_of(p, stage->optimizer, MAL_L_F) : NULL;
  t->sync.rest_s = sync ? sync->span_s - sync->cause_s[MAL_TIME_DP] : 0;
  t->optimizer.rest_s = optimizer ? optimizer->span_s - optimizer->cause_s[MAL_TIME_DP] : 0;
}

/* How long reductions can run beside the last backward pass: from when the first bucket is full. */
static double beside_backward(const mal_traffic *t, double last_backward_s) {
  return t->reductions > 0 ? last_backward_s * (1 - 1.0 / t->reductions) : 0;
}

void mal_stage_end_seconds(const mal_plan *plan, const mal_stage_traffic *t, double first_forward_s,
                           double last_backward_s, double *sync_s, double *optimizer_s) {
  const mal_traffic *s = &t->sync, *o = &t->optimizer;
  bool grads = plan->layout.overlap_dp_grad == MAL_ON, params = plan->layout.overlap_dp_param == MAL_ON;
  *sync_s = s->rest_s +
            visible(plan->profile, s->reduce_s, s->last_reduce_s, beside_backward(s, last_backward_s), grads) +
            visible(plan->profile, s->gather_s, s->first_gather_s, first_forward_s, params) + s->small_s;
  *optimizer_s = o->rest_s + visible(plan->profile, o->gather_s, o->first_gather_s, first_forward_s, params) +
                 o->reduce_s + o->small_s;
}

/* By cause, a list whose data-parallel traffic is replaced by what of it stays visible. */
static void add_end_causes(mal_prices *p, int block, const mal_traffic *t, double seconds, double *cause_s) {
  if (block < 0) return;
  const mal_list_time *list = mal_prices_of(p, block, MAL_L_F);
  for (int c = 0; c < MAL_TIME_CAUSES; c++) cause_s[c] += c == MAL_TIME_DP ? seconds - t->rest_s : list->cause_s[c];
}

void mal_stage_end_time(mal_prices *p, const mal_stage *stage, double first_forward_s, double last_backward_s,
                        mal_stage_end *end) {
  mal_stage_traffic t;
  *end = (mal_stage_end){0};
  mal_stage_traffic_of(p, stage, &t);
  mal_stage_end_seconds(p->program->plan, &t, first_forward_s, last_backward_s, &end->sync_s, &end->optimizer_s);
  if (p->program->plan->layout.overlap_dp_grad == MAL_ON)
    end->in_pass_s = p->program->plan->profile->dp_exposed.value *
                     fmin(t.sync.reduce_s - t.sync.last_reduce_s, beside_backward(&t.sync, last_backward_s));
  add_end_causes(p, stage->sync, &t.sync, end->sync_s, end->sync_cause_s);
  add_end_causes(p, stage->optimizer, &t.optimizer, end->optimizer_s, end->optimizer_cause_s);
}
