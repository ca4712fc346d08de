#include "design/target.h"
#include "core/units.h"
#include "plan/plan.h"
#include "price/upkeep.h"
#include "search/search.h"
#include <math.h>
#include <string.h>

typedef struct trial {
  const char *model, *node;
  const mal_job *job;
} trial;

/* The best layout on so many nodes; *fits false: none fits. Its arena is the caller's. */
static mal_status best_on(mal_arena *a, const trial *k, int64_t nodes, mal_search_result *out, mal_error *e) {
  mal_plan *plan = MAL_NEW(a, mal_plan);
  mal_search_options o = {.keep = 1};
  mal_layout layout;
  mal_layout_default(&layout);
  const char *machine = mal_print(a, "%lldx%s", (long long)nodes, k->node);
  mal_status s = mal_plan_open(a, k->model, machine, "", k->job, &layout, plan, e);
  return s == MAL_OK ? mal_search(a, plan, &o, out, e) : s;
}

/* Seconds to the target on so many nodes; infinite when nothing fits. */
static mal_status time_on(const trial *k, int64_t nodes, double *seconds, mal_error *e) {
  mal_arena scratch;
  mal_search_result r;
  mal_arena_init(&scratch);
  mal_status s = best_on(&scratch, k, nodes, &r, e);
  *seconds = s == MAL_OK && r.count > 0 ? r.best[0].estimate.time_to_target_s : INFINITY;
  mal_arena_free(&scratch);
  return s;
}

/* Doubles until it is fast enough, then halves the range; beyond 16 nodes in steps that split well over pipelines. */
static mal_status fewest_nodes(const trial *k, int64_t *nodes, mal_error *e) {
  int64_t low = 0, high = 1;
  double seconds = INFINITY, least = INFINITY;
  for (;; high *= 2) {
    mal_status s = time_on(k, high, &seconds, e);
    if (s != MAL_OK) return s;
    least = fmin(least, seconds);
    if (seconds <= k->job->deadline_s) break;
    if (high * 2 > MAL_TARGET_NODES_MOST)
      return mal_fail(e, MAL_NO,
                      _("%s does not reach %s tokens in %s on up to %d nodes of %s; the best takes %s. Give more "
                        "time (--deadline), fewer tokens, or a faster node."),
                      k->model, mal_show_count((double)k->job->tokens), mal_show_time(k->job->deadline_s),
                      MAL_TARGET_NODES_MOST, k->node, mal_show_time(least));
    low = high;
  }
  int64_t step = high > 16 ? high / 16 : 1;
  while (high - low > step) {
    int64_t middle = (low + high) / 2;
    middle -= middle % step;
    mal_status s = time_on(k, middle, &seconds, e);
    if (s != MAL_OK) return s;
    *(seconds <= k->job->deadline_s ? &high : &low) = middle;
  }
  *nodes = high;
  return MAL_OK;
}

static mal_status describe(mal_arena *a, const trial *k, int64_t nodes, mal_target *t, mal_error *e) {
  mal_search_result r;
  mal_status s = best_on(a, k, nodes, &r, e);
  if (s != MAL_OK) return s;
  t->machine = mal_print(a, "%lldx%s", (long long)nodes, k->node);
  if (r.count < 1)
    return mal_fail(e, MAL_NO, _("%s does not fit %s: malha plan %s --on %s says what would."), k->model, t->machine,
                    k->model, t->machine);
  mal_program program;
  if ((s = mal_lower(a, &r.best[0].plan, &program, e)) != MAL_OK) return s;
  t->layout = mal_plan_layout(a, &r.best[0].plan);
  t->estimate = r.best[0].estimate;
  t->checkpoint_bytes = mal_checkpoint_bytes(&program);
  for (int i = 0; i < r.best[0].plan.layout.pp; i++)
    t->offload_bytes = fmax(t->offload_bytes, (double)program.stages[i].host_bytes);
  t->offload_bytes *= (double)r.best[0].plan.machine.gpus_per_node;
  return MAL_OK;
}

mal_status mal_design_target(mal_arena *a, const char *model, const mal_job *job, mal_design_ask *ask, mal_target *t,
                             mal_error *e) {
  trial k = {model, ask->node, job};
  mal_machine machine;
  *t = (mal_target){.model = model};
  if (!ask->node || !*ask->node)
    return mal_fail(e, MAL_BAD, _("on which node? Give --node, such as dgx-h100 (malha machines)."));
  mal_status s = mal_machine_load(a, ask->node, &machine, e);
  if (s != MAL_OK) return s;
  k.node = machine.node->name;
  if (ask->single_node && ask->nodes < 1 && ask->gpus < 1) ask->nodes = 1;
  int64_t nodes = ask->nodes > 0 ? ask->nodes : (ask->gpus + machine.node->gpus - 1) / machine.node->gpus;
  if (nodes < 1 && (job->tokens <= 0 || job->deadline_s <= 0))
    return mal_fail(e, MAL_BAD, _("how much, and by when? Give --tokens and --deadline, or --nodes."));
  if (nodes < 1) {
    if ((s = fewest_nodes(&k, &nodes, e)) != MAL_OK) return s;
    ask->nodes = nodes, ask->for_target = true;
  }
  s = describe(a, &k, nodes, t, e);
  if (s == MAL_OK && ask->checkpoint_bytes <= 0) ask->checkpoint_bytes = t->checkpoint_bytes;
  if (s == MAL_OK && ask->offload_bytes <= 0) ask->offload_bytes = t->offload_bytes;
  return s;
}

double mal_target_wh_per_token(const mal_design *d, const mal_target *t) {
  double tokens = t && t->estimate.tokens_per_s > 0 ? t->estimate.tokens_per_s * t->estimate.goodput * 86400 : 0;
  return tokens > 0 ? d->energy_wh_per_day / tokens : 0;
}
