/* Smallest changes that make a plan fit: each candidate is applied to a copy of the plan, completed, lowered and priced. */
#include "price/price.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 64, NODES_MOST = 64, ENOUGH = 4 };

/* How much a change disturbs: what is computed stays the same; the split changes; states leave the GPU; numbers change; other
 * weights are trained; more is paid. */
typedef enum disturbance { D_SAME, D_SPLIT, D_OFFLOAD, D_NUMBERS, D_METHOD, D_MONEY } disturbance;

typedef struct candidate {
  const char *change; /* "--zero 3 --recompute full": options of layout and job */
  const char *words;
  disturbance disturbs;
} candidate;

static const candidate singles[] = {
    {"--zero 1", N_("shard the optimizer states over the data-parallel ranks (ZeRO-1)"), D_SAME},
    {"--zero 2", N_("shard optimizer states and gradients (ZeRO-2)"), D_SAME},
    {"--zero 3", N_("shard weights, gradients and optimizer states (ZeRO-3, FSDP)"), D_SAME},
    {"--recompute selective", N_("recompute the attention core in backward"), D_SAME},
    {"--recompute full", N_("recompute every layer in backward"), D_SAME},
    {"--offload-optimizer cpu", N_("keep the optimizer states in host memory"), D_OFFLOAD},
    {"--zero 3 --offload-params cpu", N_("keep weights in host memory (ZeRO-3)"), D_OFFLOAD},
    {"--optimizer adamw-8bit", N_("AdamW with 8-bit moments"), D_NUMBERS},
    {"--optimizer adamw-bf16", N_("AdamW with bf16 moments and no fp32 master weights"), D_NUMBERS},
    {"--train lora", N_("train LoRA adapters instead of all weights"), D_METHOD},
    {"--train qlora", N_("train LoRA adapters on 4-bit weights (QLoRA)"), D_METHOD},
};

/* Tried when few single changes fit. */
static const candidate pairs[] = {
    {"--micro-batch 1 --recompute full", N_("micro-batch of one sequence, every layer recomputed"), D_SAME},
    {"--zero 3 --recompute full", N_("ZeRO-3, every layer recomputed"), D_SAME},
    {"--zero 3 --recompute full --micro-batch 1", N_("ZeRO-3, every layer recomputed, micro-batch of one sequence"),
     D_SAME},
    {"--zero 3 --recompute full --micro-batch 1 --offload-optimizer cpu",
     N_("ZeRO-3, every layer recomputed, micro-batch of one sequence, optimizer states in host memory"), D_OFFLOAD},
    {"--zero 3 --recompute full --micro-batch 1 --offload-optimizer cpu --offload-params cpu",
     N_("ZeRO-3, every layer recomputed, micro-batch of one sequence, weights and optimizer states in host memory"),
     D_OFFLOAD},
    {"--optimizer adamw-8bit --recompute full --micro-batch 1",
     N_("AdamW with 8-bit moments, every layer recomputed, micro-batch of one sequence"), D_NUMBERS},
    {"--optimizer adamw-bf16 --recompute full --micro-batch 1",
     N_("AdamW with bf16 moments, every layer recomputed, micro-batch of one sequence"), D_NUMBERS},
    {"--train lora --recompute full --micro-batch 1",
     N_("LoRA adapters, every layer recomputed, micro-batch of one sequence"), D_METHOD},
    {"--train lora --zero 3 --recompute full --micro-batch 1",
     N_("LoRA adapters, ZeRO-3, every layer recomputed, micro-batch of one sequence"), D_METHOD},
    {"--train qlora --recompute full --micro-batch 1",
     N_("LoRA adapters on 4-bit weights (QLoRA), every layer recomputed, micro-batch of one sequence"), D_METHOD},
};

typedef struct shop {
  mal_arena *a;
  const mal_plan *plan;
  mal_remedy *found;
  int *disturbs;
  int count, gentle; /* found; of those, short of D_METHOD */
} shop;

/* --- a changed plan -------------------------------------------------------------------------------------------------- */

/* What was derived from the split is derived again; what says how the step computes stays. */
static mal_plan *loosened(const shop *s) {
  mal_plan *p = MAL_NEW(s->a, mal_plan);
  *p = *s->plan;
  p->layout.dp = 0;
  p->job.accumulation = 0;
  mal_layout *l = &p->layout;
  if (l->etp == l->tp) l->etp = 0;
  if (l->cp * s->plan->layout.dp == 1) l->overlap_dp_grad = l->overlap_dp_param = MAL_AUTO; /* off for want of ranks */
  if (l->zero == 0) l->overlap_dp_param = MAL_AUTO;
  if (l->tp == 1) l->overlap_tp = l->sequence_parallel = MAL_AUTO;
  if (l->pp == 1) l->overlap_pp = MAL_AUTO;
  return p;
}

static const mal_option *option_named(const mal_option *table, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(table[i].name, name) == 0) return &table[i];
  return NULL;
}

/* Sets "--name value" pairs. False when nothing changes, or a value cannot be set. */
static bool apply(mal_arena *a, const char *change, mal_plan *p) {
  mal_layout layout = p->layout;
  mal_job job = p->job;
  char *text = mal_copy(a, change), *rest = NULL;
  mal_error e;
  for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
    const char *value = strtok_r(NULL, " ", &rest);
    if (!value) return false;
    name += 2;
    bool of_layout = option_named(mal_layout_options, mal_layout_option_count, name) != NULL;
    mal_status status =
        of_layout ? mal_option_set(mal_layout_options, (size_t)mal_layout_option_count, name, value, &p->layout, &e)
                  : mal_option_set(mal_job_options, (size_t)mal_job_option_count, name, value, &p->job, &e);
    if (status != MAL_OK) return false;
  }
  return memcmp(&layout, &p->layout, sizeof layout) != 0 || memcmp(&job, &p->job, sizeof job) != 0;
}

/* A step back is no remedy: less sharding, less recomputation, a larger micro-batch. */
static bool goes_back(const mal_plan *from, const mal_plan *to) {
  return to->layout.zero < from->layout.zero || to->layout.recompute < from->layout.recompute ||
         to->layout.micro_batch > from->layout.micro_batch || to->job.train < from->job.train;
}

/* Another change led to the same plan. */
static bool known(const shop *s, const mal_plan *p) {
  for (int i = 0; i < s->count; i++) {
    const mal_plan *q = &s->found[i].plan;
    if (memcmp(&q->layout, &p->layout, sizeof q->layout) == 0 && memcmp(&q->job, &p->job, sizeof q->job) == 0 &&
        q->machine.nodes == p->machine.nodes)
      return true;
  }
  return false;
}

/* Completes, lowers and prices p; keeps it when it fits. */
static bool consider(shop *s, mal_plan *p, const char *change, const char *words, disturbance d) {
  mal_program program;
  mal_estimate estimate;
  mal_error e;
  if (s->count >= ROOM) return false;
  if (mal_layout_complete(s->a, &p->model, &p->machine, p->profile, &p->job, &p->layout, &p->arithmetic, &e) != MAL_OK)
    return false;
  if (mal_lower(s->a, p, &program, &e) != MAL_OK || mal_price(s->a, &program, &estimate, &e) != MAL_OK) return false;
  if (!estimate.fits || known(s, p)) return false;
  s->disturbs[s->count] = (int)d;
  s->found[s->count++] = (mal_remedy){mal_copy(s->a, change), mal_copy(s->a, words), *p, estimate};
  s->gentle += d < D_METHOD;
  return true;
}

static void consider_all(shop *s, const candidate *list, int count) {
  for (int i = 0; i < count; i++) {
    mal_plan *p = loosened(s);
    if (apply(s->a, list[i].change, p) && !goes_back(s->plan, p))
      consider(s, p, list[i].change, _(list[i].words), list[i].disturbs);
  }
}

/* --- families: the first that fits ----------------------------------------------------------------------------------- */

static void smaller_micro_batch(shop *s) {
  for (int64_t size = s->plan->layout.micro_batch / 2; size >= 1; size /= 2) {
    mal_plan *p = loosened(s);
    p->layout.micro_batch = size;
    if (consider(s, p, mal_print(s->a, "--micro-batch %lld", (long long)size), _("a smaller micro-batch, more of them"),
                 D_SAME))
      return;
  }
}

static void more_of(shop *s, const char *name, int64_t now, bool tp) {
  int64_t gpus = mal_machine_gpus(&s->plan->machine), most = tp ? s->plan->machine.gpus_per_node : gpus;
  for (int64_t size = now * 2; size <= most; size *= 2) {
    mal_plan *p = loosened(s);
    if (tp)
      p->layout.tp = size;
    else {
      p->layout.pp = size;
      p->layout.vpp = 0;
      if (p->layout.schedule == MAL_INTERLEAVED) p->layout.schedule = MAL_1F1B;
    }
    if (consider(s, p, mal_print(s->a, "--%s %lld", name, (long long)size),
                 tp ? _("split each layer over more GPUs") : _("split the layers over more stages"), D_SPLIT))
      return;
  }
}

/* The spec of `nodes` such nodes: "8xh100-sxm" → "4x8xh100-sxm", "2xdgx-h100" → "4xdgx-h100". NULL when none reads so. */
static const char *spec_of(shop *s, int64_t nodes, mal_machine *m) {
  const char *spec = s->plan->machine_spec ? s->plan->machine_spec : s->plan->machine.name;
  const char *after = spec;
  while (isdigit((unsigned char)*after)) after++;
  const char *tail = after > spec && *after == 'x' ? after + 1 : spec;
  const char *tries[] = {mal_print(s->a, "%lldx%s", (long long)nodes, spec),
                         mal_print(s->a, "%lldx%s", (long long)nodes, tail)};
  mal_error e;
  for (int i = 0; i < 2; i++)
    if (mal_machine_load(s->a, tries[i], m, &e) == MAL_OK && m->nodes == nodes &&
        m->gpus_per_node == s->plan->machine.gpus_per_node)
      return tries[i];
  return NULL;
}

static void more_nodes(shop *s) {
  static const char *const also[] = {"", " --zero 3", " --zero 3 --recompute full --micro-batch 1"};
  int64_t now = s->plan->machine.nodes;
  for (int64_t times = 2; times <= NODES_MOST; times *= 2) {
    mal_machine m;
    const char *spec = spec_of(s, now * times, &m);
    if (!spec) return;
    for (size_t i = 0; i < sizeof also / sizeof *also; i++) {
      mal_plan *p = loosened(s);
      p->machine.nodes = now * times; /* GPU, node and fabric stay the plan's own: they may be calibrated */
      p->machine.name = p->machine_spec = spec;
      if (*also[i] && (!apply(s->a, also[i], p) || goes_back(s->plan, p))) continue;
      const char *words =
          mal_print(s->a, *also[i] ? _("%lld nodes, and%s") : _("%lld nodes%s"), (long long)(now * times), also[i]);
      if (consider(s, p, mal_print(s->a, "--on %s%s", spec, also[i]), words, D_MONEY)) return;
    }
  }
}

static int compare(const shop *s, int x, int y) {
  if (s->disturbs[x] != s->disturbs[y]) return s->disturbs[x] - s->disturbs[y];
  double a = s->found[x].estimate.step_s, b = s->found[y].estimate.step_s;
  return (a > b) - (a < b);
}

/* Few: insertion keeps equal ones in the order tried. */
static void sort(shop *s) {
  for (int i = 1; i < s->count; i++)
    for (int j = i; j > 0 && compare(s, j - 1, j) > 0; j--) {
      mal_remedy remedy = s->found[j];
      int d = s->disturbs[j];
      s->found[j] = s->found[j - 1], s->disturbs[j] = s->disturbs[j - 1];
      s->found[j - 1] = remedy, s->disturbs[j - 1] = d;
    }
}

mal_status mal_price_remedies(mal_arena *a, const mal_plan *plan, mal_remedy **remedies, int *count, mal_error *e) {
  (void)e;
  shop s = {.a = a, .plan = plan, .found = MAL_ARRAY(a, mal_remedy, ROOM), .disturbs = MAL_ARRAY(a, int, ROOM)};
  smaller_micro_batch(&s);
  consider_all(&s, singles, (int)(sizeof singles / sizeof *singles));
  more_of(&s, "tp", plan->layout.tp, true);
  more_of(&s, "pp", plan->layout.pp, false);
  if (s.gentle < ENOUGH) consider_all(&s, pairs, (int)(sizeof pairs / sizeof *pairs));
  more_nodes(&s);
  sort(&s);
  *remedies = s.found;
  *count = s.count;
  return MAL_OK;
}
