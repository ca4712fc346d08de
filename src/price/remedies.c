/* What would make a plan fit. A change is a set of flags; each set is applied to what the user asked for, so that all that was
 * derived is derived again, then completed, lowered and priced as the command would with these flags appended.
 *
 * Families of one change, mildest first, stop at the first that fits. Bases (another optimizer, offload, adapters, more nodes)
 * are tried alone and, until something fits, with more and more supports (sharding, recomputation, micro-batch, tp): of the
 * sets of the same size the fastest is kept, larger ones only where they are much faster. What contains another set that fits
 * is dropped otherwise. */
#include "price/price.h"
#include <ctype.h>
#include <string.h>

/* How much a change disturbs: what is computed stays the same; the split changes; states leave the GPU; numbers change; other
 * weights are trained; more is paid. */
typedef enum disturbance { D_SAME, D_SPLIT, D_OFFLOAD, D_NUMBERS, D_METHOD, D_MONEY } disturbance;

typedef enum flag {
  F_NODES, /* twice as many, and further doublings */
  F_NODES_END = F_NODES + 5,
  F_LORA,
  F_QLORA,
  F_ADAM_8BIT,
  F_ADAM_BF16,
  F_GRADIENTS,
  F_MASTER,
  F_OPTIMIZER_CPU,
  F_OPTIMIZER_NVME,
  F_PARAMS_CPU,
  F_PARAMS_NVME,
  F_ZERO_1,
  F_ZERO_2,
  F_ZERO_3,
  F_SELECTIVE,
  F_FULL,
  F_MICRO_BATCH, /* of 1, and as many more as halvings lie above it */
  F_MICRO_BATCH_END = F_MICRO_BATCH + 7,
  F_TP, /* doublings, then all GPUs of a node */
  F_TP_END = F_TP + 7,
  F_PP,
  F_PP_END = F_PP + 7,
  F_UNSHARDED, /* goes with tp over a node: nothing is left to shard weights over */
  FLAGS
} flag;

typedef uint64_t set; /* of flags */
_Static_assert(FLAGS <= 64, "a bit for each flag");
#define BIT(flag) (UINT64_C(1) << (flag))

typedef struct change { /* one flag; name NULL: not to be had here */
  const char *name, *value, *words;
  disturbance disturbs;
  int64_t nodes;
} change;

static const change fixed[] = {
    [F_LORA] = {"train", "lora", N_("LoRA adapters instead of all weights"), D_METHOD, 0},
    [F_QLORA] = {"train", "qlora", N_("LoRA adapters on 4-bit weights (QLoRA)"), D_METHOD, 0},
    [F_ADAM_8BIT] = {"optimizer", "adamw-8bit", N_("AdamW with 8-bit moments"), D_NUMBERS, 0},
    [F_ADAM_BF16] = {"optimizer", "adamw-bf16", N_("AdamW with bf16 moments and no master weights"), D_NUMBERS, 0},
    [F_GRADIENTS] = {"gradients", "bf16", N_("16-bit gradients"), D_NUMBERS, 0},
    [F_MASTER] = {"master", "none", N_("no fp32 master weights"), D_NUMBERS, 0},
    [F_OPTIMIZER_CPU] = {"offload-optimizer", "cpu", N_("optimizer states in host memory"), D_OFFLOAD, 0},
    [F_OPTIMIZER_NVME] = {"offload-optimizer", "nvme", N_("optimizer states on NVMe drives"), D_OFFLOAD, 0},
    [F_PARAMS_CPU] = {"offload-params", "cpu", N_("weights in host memory"), D_OFFLOAD, 0},
    [F_PARAMS_NVME] = {"offload-params", "nvme", N_("weights on NVMe drives"), D_OFFLOAD, 0},
    [F_ZERO_1] = {"zero", "1", N_("optimizer states sharded (ZeRO-1)"), D_SAME, 0},
    [F_ZERO_2] = {"zero", "2", N_("optimizer states and gradients sharded (ZeRO-2)"), D_SAME, 0},
    [F_ZERO_3] = {"zero", "3", N_("weights, gradients and states sharded (ZeRO-3, FSDP)"), D_SAME, 0},
    [F_SELECTIVE] = {"recompute", "selective", N_("attention core recomputed"), D_SAME, 0},
    [F_FULL] = {"recompute", "full", N_("every layer recomputed"), D_SAME, 0},
};

static const set families[][8] = {
    {BIT(F_ZERO_1), BIT(F_ZERO_2), BIT(F_ZERO_3)},
    {BIT(F_SELECTIVE), BIT(F_FULL)},
    {BIT(F_MICRO_BATCH + 6), BIT(F_MICRO_BATCH + 5), BIT(F_MICRO_BATCH + 4), BIT(F_MICRO_BATCH + 3),
     BIT(F_MICRO_BATCH + 2), BIT(F_MICRO_BATCH + 1), BIT(F_MICRO_BATCH)},
    {BIT(F_TP), BIT(F_TP + 1), BIT(F_TP + 2), BIT(F_TP + 3), BIT(F_TP + 4), BIT(F_TP + 5), BIT(F_TP_END)},
    {BIT(F_PP), BIT(F_PP + 1), BIT(F_PP + 2), BIT(F_PP + 3), BIT(F_PP + 4), BIT(F_PP + 5), BIT(F_PP + 6)},
};

static const set bases[] = {
    0, /* the supports by themselves */
    BIT(F_GRADIENTS),
    BIT(F_ADAM_8BIT),
    BIT(F_ADAM_8BIT) | BIT(F_GRADIENTS),
    BIT(F_ADAM_8BIT) | BIT(F_GRADIENTS) | BIT(F_MASTER),
    BIT(F_ADAM_BF16),
    BIT(F_ADAM_BF16) | BIT(F_GRADIENTS),
    BIT(F_OPTIMIZER_CPU) | BIT(F_ZERO_1),
    BIT(F_OPTIMIZER_CPU) | BIT(F_PARAMS_CPU) | BIT(F_ZERO_3),
    BIT(F_OPTIMIZER_NVME) | BIT(F_ZERO_3),
    BIT(F_OPTIMIZER_NVME) | BIT(F_PARAMS_NVME) | BIT(F_ZERO_3),
    BIT(F_LORA),
    BIT(F_QLORA),
};

static const set supports[] = {
    0,
    BIT(F_ZERO_1),
    BIT(F_ZERO_3),
    BIT(F_SELECTIVE),
    BIT(F_FULL),
    BIT(F_MICRO_BATCH),
    BIT(F_TP_END) | BIT(F_UNSHARDED),
    BIT(F_FULL) | BIT(F_ZERO_3),
    BIT(F_FULL) | BIT(F_TP_END) | BIT(F_UNSHARDED),
    BIT(F_FULL) | BIT(F_MICRO_BATCH),
    BIT(F_FULL) | BIT(F_MICRO_BATCH) | BIT(F_ZERO_3),
    BIT(F_FULL) | BIT(F_MICRO_BATCH) | BIT(F_TP_END) | BIT(F_UNSHARDED),
};

enum { ROOM = 64, MOST_SUPPORTS = 3, SUPPORTS = sizeof supports / sizeof *supports };

static const double worth = 1.5; /* times faster: then one more change is shown beside */

typedef struct found {
  mal_remedy remedy;
  set flags;
  int disturbs, changes;
} found;

typedef struct shop {
  mal_arena *a;
  const mal_plan *plan;
  change changes[FLAGS];
  set held; /* the plan has these, or goes further */
  found *found;
  int count;
  mal_arena scratch; /* one trial's */
  set *failed;       /* trials that did not fit, for bases and supports overlap */
  int n_failed, room;
} shop;

/* --- the flags here ---------------------------------------------------------------------------------------------------- */

static const mal_option *option_of(const char *name, bool *of_layout) {
  for (int i = 0; i < mal_layout_option_count; i++)
    if (strcmp(mal_layout_options[i].name, name) == 0) return *of_layout = true, &mal_layout_options[i];
  for (int i = 0; i < mal_job_option_count; i++)
    if (strcmp(mal_job_options[i].name, name) == 0) return *of_layout = false, &mal_job_options[i];
  return NULL;
}

static bool set_option(const change *c, mal_layout *l, mal_job *j) {
  bool of_layout;
  mal_error ignored;
  const mal_option *o = option_of(c->name, &of_layout);
  return o && mal_option_set(o, 1, c->name, c->value, of_layout ? (void *)l : (void *)j, &ignored) == MAL_OK;
}

/* The plan computes so already, or goes further. */
static bool is_held(const mal_plan *plan, const change *c) {
  mal_layout l = plan->layout;
  mal_job j = plan->job;
  const mal_profile *p = plan->profile;
  if (c->nodes) return false;
  if (strcmp(c->name, "gradients") == 0) return p->grad_bytes < 4 && p->reduce_bytes < 4 && p->grad_extra_bytes == 0;
  if (strcmp(c->name, "master") == 0) return !p->master_fp32;
  if (!set_option(c, &l, &j)) return false;
  return l.zero <= plan->layout.zero && l.recompute <= plan->layout.recompute &&
         l.micro_batch >= plan->layout.micro_batch && l.tp <= plan->layout.tp && l.pp <= plan->layout.pp &&
         l.offload_optimizer <= plan->layout.offload_optimizer && l.offload_params <= plan->layout.offload_params &&
         j.train <= plan->job.train && j.optimizer == plan->job.optimizer;
}

/* The spec of `nodes` such nodes: "8xh100-sxm" → "4x8xh100-sxm", "2xdgx-h100" → "4xdgx-h100". NULL when none reads so. */
static const char *spec_of(const shop *s, int64_t nodes) {
  const char *spec = s->plan->machine_spec ? s->plan->machine_spec : s->plan->machine.name, *after = spec;
  while (isdigit((unsigned char)*after)) after++;
  const char *tail = after > spec && *after == 'x' ? after + 1 : spec;
  const char *tries[] = {mal_print(s->a, "%lldx%s", (long long)nodes, spec),
                         mal_print(s->a, "%lldx%s", (long long)nodes, tail)};
  mal_machine m;
  mal_error e;
  for (int i = 0; i < 2; i++)
    if (mal_machine_load(s->a, tries[i], &m, &e) == MAL_OK && m.nodes == nodes &&
        m.gpus_per_node == s->plan->machine.gpus_per_node)
      return tries[i];
  return NULL;
}

static change counted(const shop *s, const char *name, int64_t n, const char *words, disturbance d) {
  return (change){name, mal_print(s->a, "%lld", (long long)n), mal_print(s->a, words, (long long)n), d, 0};
}

static void set_changes(shop *s) {
  const mal_layout *l = &s->plan->layout;
  int64_t node = s->plan->machine.gpus_per_node, size = l->micro_batch, nodes = 2 * s->plan->machine.nodes;
  memcpy(s->changes, fixed, sizeof fixed);
  for (int i = F_NODES; i <= F_NODES_END; i++, nodes *= 2) {
    const char *spec = spec_of(s, nodes);
    if (spec) s->changes[i] = (change){"on", spec, mal_print(s->a, _("%lld nodes"), (long long)nodes), D_MONEY, nodes};
  }
  if (size > 1) s->changes[F_MICRO_BATCH] = counted(s, "micro-batch", 1, _("micro-batch of %lld"), D_SAME);
  for (int i = F_MICRO_BATCH_END - 1; i > F_MICRO_BATCH && size > 3; i--) {
    size /= 2;
    s->changes[i] = counted(s, "micro-batch", size, _("micro-batch of %lld"), D_SAME);
  }
  for (int i = F_TP, tp = (int)l->tp * 2; i < F_TP_END && tp < node; i++, tp *= 2)
    s->changes[i] = counted(s, "tp", tp, _("each layer split over %lld GPUs"), D_SPLIT);
  if (l->tp < node) s->changes[F_TP_END] = counted(s, "tp", node, _("each layer split over %lld GPUs"), D_SPLIT);
  for (int i = F_PP, pp = (int)l->pp * 2; i < F_PP_END && pp * l->tp <= node; i++, pp *= 2)
    s->changes[i] = counted(s, "pp", pp, _("layers split over %lld stages"), D_SPLIT);
  if (l->zero == 3 && l->tp < node)
    s->changes[F_UNSHARDED] = (change){"zero", "1", N_("only optimizer states sharded (ZeRO-1)"), D_SAME, 0};
  for (int i = 0; i < F_UNSHARDED; i++)
    if (s->changes[i].name && is_held(s->plan, &s->changes[i])) s->held |= BIT(i);
}

/* Without what is held, or goes less far than another flag of the set. */
static set trimmed(const shop *s, set flags) {
  if (flags & BIT(F_ZERO_3)) flags &= ~(BIT(F_ZERO_1) | BIT(F_ZERO_2));
  if (flags & BIT(F_FULL)) flags &= ~BIT(F_SELECTIVE);
  if (!s->changes[F_UNSHARDED].name || flags & BIT(F_ZERO_3)) flags &= ~BIT(F_UNSHARDED);
  return flags & ~s->held;
}

static bool can_be_had(const shop *s, set flags) {
  for (int i = 0; i < FLAGS; i++)
    if (flags & BIT(i) && !s->changes[i].name) return false;
  return flags != 0;
}

/* --- one set of them ------------------------------------------------------------------------------------------------------ */

static mal_status apply(shop *s, set flags, mal_plan *p, mal_error *e) {
  *p = *s->plan;
  for (int i = 0; i < FLAGS; i++) {
    const change *c = &s->changes[i];
    if (!(flags & BIT(i))) continue;
    if (!c->nodes && !set_option(c, &p->asked_layout, &p->asked_job)) return MAL_FAULT;
    if (!c->nodes) continue;
    p->machine.nodes = c->nodes; /* GPU, node and fabric stay the plan's own: they may be calibrated */
    p->machine.name = p->machine_spec = c->value;
  }
  return mal_plan_complete(s->a, p, e);
}

static bool has_failed(const shop *s, set flags) {
  for (int i = 0; i < s->n_failed; i++)
    if (s->failed[i] == flags) return true;
  return false;
}

static void remember(shop *s, set flags) {
  if (s->n_failed == s->room) {
    s->failed = mal_grow(s->a, s->failed, (size_t)s->room, 2 * (size_t)s->room + 64, sizeof *s->failed);
    s->room = 2 * s->room + 64;
  }
  s->failed[s->n_failed++] = flags;
}

static bool fits(shop *s, mal_remedy *r) {
  mal_program program;
  mal_error e;
  int64_t limit = (int64_t)r->plan.machine.gpu->memory_bytes.value;
  mal_arena_reset(&s->scratch);
  return mal_lower_within(&s->scratch, &r->plan, limit, &program, &e) == MAL_OK &&
         program.stages[program.worst_stage].total_bytes <= limit &&
         mal_price(&s->scratch, &program, &r->estimate, &e) == MAL_OK && r->estimate.fits;
}

/* False: cannot be, or does not fit. */
static bool try_set(shop *s, set flags, found *f) {
  mal_error e;
  mal_remedy *r = &f->remedy;
  *f = (found){.flags = flags};
  if (!can_be_had(s, flags) || has_failed(s, flags)) return false;
  if (apply(s, flags, &r->plan, &e) != MAL_OK || !fits(s, r)) {
    remember(s, flags);
    return false;
  }
  r->estimate.why = mal_copy(s->a, r->estimate.why);
  return true;
}

static void keep(shop *s, found *f, int changes) {
  mal_remedy *r = &f->remedy;
  const char *gap = "", *comma = "";
  r->change = r->words = mal_copy(s->a, "");
  for (int i = 0; i < s->count; i++)
    if (s->found[i].flags == f->flags) return;
  for (int i = 0; i < FLAGS; i++) {
    const change *c = &s->changes[i];
    if (!(f->flags & BIT(i))) continue;
    r->change = mal_print(s->a, "%s%s--%s %s", r->change, gap, c->name, c->value);
    r->words = mal_print(s->a, "%s%s%s", r->words, comma, _(c->words));
    gap = " ", comma = ", ";
    if ((int)c->disturbs > f->disturbs) f->disturbs = (int)c->disturbs;
  }
  f->changes = changes;
  if (s->count < ROOM) s->found[s->count++] = *f;
}

/* --- all that are tried ---------------------------------------------------------------------------------------------------- */

static void try_family(shop *s, const set family[8]) {
  found f;
  for (int i = 0; i < 8; i++)
    if (family[i] && !(family[i] & s->held) && try_set(s, family[i], &f)) {
      keep(s, &f, 1);
      return;
    }
}

/* Returns how many supports it took at least; -1: no number is enough. */
static int try_base(shop *s, set base) {
  set wanted = trimmed(s, base);
  double speed = 0;
  int least = -1;
  if (base && !wanted) return -1;
  for (int size = base ? 0 : 2; size <= MOST_SUPPORTS; size++) {
    found best = {0}, f;
    for (int i = 0; i < SUPPORTS; i++) {
      set all = trimmed(s, base | supports[i]), added = all & ~wanted & ~BIT(F_UNSHARDED);
      if (__builtin_popcountll(added) != size || !try_set(s, all, &f)) continue;
      if (!best.flags || f.remedy.estimate.tokens_per_s > best.remedy.estimate.tokens_per_s) best = f;
    }
    if (!best.flags || best.remedy.estimate.tokens_per_s < worth * speed) continue;
    keep(s, &best, size + (base != 0));
    speed = best.remedy.estimate.tokens_per_s;
    if (least < 0) least = size;
  }
  return least;
}

/* More of them only where that spares other changes. */
static void more_nodes(shop *s) {
  int least = MOST_SUPPORTS + 1, before;
  for (int i = F_NODES; i <= F_NODES_END && least > 0; i++) {
    before = s->count;
    int size = try_base(s, BIT(i));
    if (size >= least) s->count = before;
    if (size >= 0 && size < least) least = size;
  }
}

static bool has(const shop *s, set flags) {
  for (int i = 0; i < s->count; i++)
    if ((flags & ~s->found[i].flags) == 0) return true;
  return false;
}

static void try_bases(shop *s) {
  for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
    bool drives = bases[i] & BIT(F_OPTIMIZER_NVME);
    if (!drives || !has(s, BIT(F_OPTIMIZER_CPU))) try_base(s, bases[i]); /* drives are slower than memory */
  }
}

/* A larger set stays only where it was kept for its speed. */
static void drop_larger(shop *s) {
  int kept = 0;
  bool larger[ROOM] = {false};
  for (int i = 0; i < s->count; i++)
    for (int k = 0; k < s->count; k++) {
      const found *x = &s->found[i], *y = &s->found[k];
      bool contains = k != i && (y->flags & ~x->flags) == 0;
      larger[i] |= contains && x->remedy.estimate.tokens_per_s < worth * y->remedy.estimate.tokens_per_s;
    }
  for (int i = 0; i < s->count; i++)
    if (!larger[i]) s->found[kept++] = s->found[i];
  s->count = kept;
}

static int compare(const found *x, const found *y) {
  if (x->changes != y->changes) return x->changes - y->changes;
  if (x->disturbs != y->disturbs) return x->disturbs - y->disturbs;
  int64_t few = x->remedy.plan.machine.nodes, many = y->remedy.plan.machine.nodes;
  if (few != many) return few < many ? -1 : 1;
  double a = x->remedy.estimate.tokens_per_s, b = y->remedy.estimate.tokens_per_s;
  return (a < b) - (a > b);
}

/* Few: insertion keeps equal ones in the order tried. */
static void sort(shop *s) {
  for (int i = 1; i < s->count; i++)
    for (int j = i; j > 0 && compare(&s->found[j - 1], &s->found[j]) > 0; j--) {
      found f = s->found[j];
      s->found[j] = s->found[j - 1];
      s->found[j - 1] = f;
    }
}

mal_status mal_price_remedies(mal_arena *a, const mal_plan *plan, mal_remedy **remedies, int *count, mal_error *e) {
  (void)e;
  shop s = {.a = a, .plan = plan, .found = MAL_ARRAY(a, found, ROOM)};
  mal_arena_init(&s.scratch);
  set_changes(&s);
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) try_family(&s, families[i]);
  try_bases(&s);
  more_nodes(&s);
  drop_larger(&s);
  sort(&s);
  mal_arena_free(&s.scratch);
  *remedies = MAL_ARRAY(a, mal_remedy, s.count + 1);
  *count = s.count;
  for (int i = 0; i < s.count; i++) (*remedies)[i] = s.found[i].remedy;
  return MAL_OK;
}
