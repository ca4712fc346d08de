#include "simulate/simulate.h"
#include "price/kernel.h"
#include "price/upkeep.h"
#include "simulate/play.h"
#include <math.h>
#include <string.h>

enum { MOST_WAITS = 64 };

/* What price adds to every step for stragglers and congestion that no playing shows (fitted on published runs). */
static double straggling(const mal_plan *plan, double step_s) {
  double nodes = (double)plan->machine.nodes / (double)plan->layout.pp;
  if (nodes <= 1 || !plan->machine.fabric) return 0;
  return step_s * plan->machine.fabric->jitter_per_doubling.value * log2(nodes);
}

bool mal_simulate_own_jitter(const mal_simulate_options *o) {
  bool own = o->own_jitter;
  for (int i = 0; i < o->n_faults; i++) {
    const mal_simulated_place *p = &o->faults[i].place;
    own |= o->faults[i].kind == MAL_BROKEN_JITTER && p->rank < 0 && p->node < 0;
  }
  return own;
}

/* Every rank draws its own lengths. */
static bool any_jitter(const mal_simulate_options *o) {
  for (int i = 0; i < o->n_faults; i++)
    if (o->faults[i].kind == MAL_BROKEN_JITTER) return true;
  return false;
}

/* The class whose stage computes most: along it time is told, as in price. */
static int32_t busiest(const mal_sim_world *w, const mal_sim_played *p) {
  int32_t best = 0;
  for (int32_t c = 1; c < w->n_classes; c++)
    if (p->compute_s[c] > p->compute_s[best]) best = c;
  return best;
}

static void set_times(const mal_program *program, const mal_simulate_options *o, const mal_sim_world *w,
                      const mal_sim_played *p, mal_simulated *out) {
  const mal_upkeep upkeep = mal_upkeep_of(program);
  int32_t at = busiest(w, p);
  double told = 0;
  out->busiest_rank = w->classes[at].team * w->team_size;
  memcpy(out->time_s, p->cause_s[at], sizeof out->time_s);
  out->time_s[MAL_TIME_DATA] += p->data_s;
  if (w->classes[at].stage > 0)
    out->time_s[MAL_TIME_BUBBLE] -= p->data_s; /* later stages wait for the first one's copy */
  for (int c = 0; c < MAL_TIME_CAUSES; c++) told += out->time_s[c];
  out->time_s[MAL_TIME_BUBBLE] += fmax(0, p->end_s - told); /* the end of the step, waiting for the last */
  out->played_s = out->step_s = p->end_s;
  out->bubble_s = out->time_s[MAL_TIME_BUBBLE];
  if (!p->finished) return;
  if (!mal_simulate_own_jitter(o)) {
    double lost = straggling(program->plan, out->step_s - p->data_s - p->stalled_s);
    out->time_s[MAL_TIME_JITTER] += lost;
    out->step_s += lost;
  }
  if (upkeep.in_step && upkeep.interval_s > 0 && !o->checkpoint) {
    double stall = out->step_s * upkeep.stall_s / upkeep.interval_s;
    out->time_s[MAL_TIME_CHECKPOINT] += stall;
    out->step_s += stall;
  }
}

static bool is_exposed(int cause) {
  return cause == MAL_TIME_TP || cause == MAL_TIME_CP || cause == MAL_TIME_EP || cause == MAL_TIME_DP ||
         cause == MAL_TIME_PP;
}

static void set_stages(mal_arena *a, const mal_program *program, const mal_sim_world *w, const mal_sim_played *p,
                       mal_simulated *out) {
  int64_t pp = program->plan->layout.pp;
  out->stages = MAL_ARRAY(a, mal_simulated_stage, pp);
  for (int64_t s = 0; s < pp; s++) out->stages[s].memory_bytes = program->stages[s].total_bytes;
  int32_t *seen = MAL_ARRAY(a, int32_t, pp);
  for (int32_t c = 0; c < w->n_classes; c++) {
    mal_simulated_stage *stage = &out->stages[w->classes[c].stage];
    if (seen[w->classes[c].stage]++ && p->compute_s[c] <= stage->compute_s + stage->exposed_s) continue;
    double exposed = 0, told = 0;
    for (int k = 0; k < MAL_TIME_CAUSES; k++) {
      told += p->cause_s[c][k];
      if (is_exposed(k)) exposed += p->cause_s[c][k];
    }
    double bubble = p->cause_s[c][MAL_TIME_BUBBLE];
    stage->exposed_s = exposed;
    stage->compute_s = told - exposed - bubble;
    stage->bubble_s = bubble + fmax(0, p->end_s - told);
  }
}

static void set_bytes(const mal_sim_world *w, const mal_sim_played *p, mal_simulated *out) {
  double most = -1;
  int64_t seen = -1;
  for (int32_t c = 0; c < w->n_classes;
       c++) { /* the first rank of the stage that sends most, as price's program counts */
    double all = 0;
    if (w->classes[c].stage == seen) continue;
    seen = w->classes[c].stage;
    for (int k = 0; k <= MAL_AXES; k++) all += p->sent[c * (MAL_AXES + 1) + k];
    if (all <= most) continue;
    most = all;
    memcpy(out->bytes_sent, p->sent + c * (MAL_AXES + 1), sizeof out->bytes_sent);
  }
  out->flops = p->flops;
}

/* --- who waits for whom ---------------------------------------------------------------------------------------------------------- */

static const char *who(mal_arena *a, const mal_sim_world *w, int32_t class, bool culprit) {
  const mal_sim_class *c = &w->classes[class];
  int64_t first = c->team * w->team_size, ranks = c->count * w->team_size;
  if (culprit && (c->slow > 1 || c->throttle_lost > 0)) return mal_print(a, _("rank %lld"), (long long)c->slow_rank);
  if (ranks == 1) return mal_print(a, _("rank %lld"), (long long)first);
  if (c->count == 1) return mal_print(a, _("ranks %lld-%lld"), (long long)first, (long long)(first + ranks - 1));
  return mal_print(a, _("%lld ranks of stage %d, as %lld"), (long long)ranks, c->stage, (long long)first);
}

static const char *where(mal_arena *a, const mal_sim_world *w, int16_t kind) {
  static const char *const names[MAL_AXES] = {"tp", "cp", "dp", "pp", "ep", "etp", "edp"};
  mal_writing text = {.arena = a};
  if (kind < 0) return _("message");
  unsigned axes = w->kinds[kind].axes;
  if (axes == MAL_AXES_SHARD) return "shard";
  if (axes == MAL_AXES_REPLICA) return "replica";
  for (int i = 0; i < MAL_AXES; i++)
    if (axes & 1u << i) mal_write(&text, "%s%s", text.used ? "+" : "", names[i]);
  return text.text ? text.text : "";
}

static void set_waits(mal_arena *a, const mal_sim_world *w, const mal_sim_played *p, mal_simulated *out) {
  int64_t n = p->n_blames < MOST_WAITS ? p->n_blames : MOST_WAITS;
  out->waits = MAL_ARRAY(a, mal_simulated_wait, n ? n : 1);
  for (int64_t i = 0; i < n; i++) {
    const mal_sim_blame *b = &p->blames[i];
    out->waits[out->n_waits++] = (mal_simulated_wait){who(a, w, b->waiter, false), who(a, w, b->culprit, true),
                                                      where(a, w, b->kind), b->seconds, b->times};
  }
}

static void set_slowest(const mal_sim_world *w, mal_simulated *out) {
  double most = 1;
  out->slowest_rank = out->busiest_rank;
  for (int32_t c = 0; c < w->n_classes; c++) {
    double slow = w->classes[c].slow / (1 - w->classes[c].throttle_lost);
    if (slow > most) most = slow, out->slowest_rank = w->classes[c].slow_rank;
  }
}

/* A fault may stop a step for ever: a rank that dies, a path that is gone. */
static bool may_stop(const mal_simulate_options *o) {
  for (int i = 0; i < o->n_faults; i++)
    if (o->faults[i].kind == MAL_BROKEN_DIE || o->faults[i].lost >= 1) return true;
  return false;
}

mal_status mal_simulate(mal_arena *a, const mal_program *p, const mal_simulate_options *o, mal_simulated *out,
                        mal_error *e) {
  mal_arena scratch;
  mal_sim_world world;
  mal_sim_played played = {0};
  mal_sim_setup setup = {o->faults,  o->n_faults,   o->seed,       o->all_ranks || any_jitter(o),
                         o->routing, o->background, o->checkpoint, o->algorithm};
  mal_sim_watch watch = {.ranks = o->ranks,
                         .n_ranks = o->n_ranks,
                         .timeline = o->timeline,
                         .detail = o->detail,
                         .stop = o->stop,
                         .seed = o->seed,
                         .alone = o->alone,
                         .tables = o->tables};
  *out = (mal_simulated){0};
  mal_arena_init(&scratch);
  if (o->checkpoint) {
    watch.checkpoint_bytes = mal_checkpoint_bytes(p) / (double)mal_layout_world(&p->plan->layout);
    watch.stall_s = mal_upkeep_of(p).stall_s - watch.checkpoint_bytes / mal_host_copy_rate(&p->plan->machine);
  }
  mal_status status = mal_sim_world_make(&scratch, p, &setup, &world, e);
  if (!status) status = mal_sim_play(&world, &watch, &played, e);
  if (!status) {
    out->finished = played.finished, out->interrupted = played.interrupted;
    out->stuck = played.stuck ? mal_copy(a, played.stuck) : NULL;
    out->done = played.done;
    out->stalled_s = played.stalled_s, out->written_s = played.written_s;
    out->ranks = world.ranks, out->classes = world.n_classes, out->events = played.events;
    set_times(p, o, &world, &played, out);
    set_stages(a, p, &world, &played, out);
    set_bytes(&world, &played, out);
    mal_sim_used_links(a, &world, &played, out);
    set_waits(a, &world, &played, out);
    set_slowest(&world, out);
  }
  if (!status && !out->finished && !out->interrupted && !may_stop(o))
    status = mal_fail(e, MAL_BAD, _("the program waits in a circle: %.1800s."), out->stuck ? out->stuck : "");
  mal_flows_free(played.flows);
  mal_arena_free(&scratch);
  return status;
}
