/* Derives what a layout leaves out and checks it against model, machine and job. Each check says the first thing that is
 * wrong with its numbers and the nearest values that work. */
#include "layout/layout.h"
#include <stdio.h>
#include <string.h>

enum { SEQ_DEFAULT_MAX = 8192, SEQ_FALLBACK = 2048, VPP_DEFAULT_MAX = 12, VPP_MAX = 255, DEFAULT_FILL = 4 };
#define SIZE_MAX_RANKS (INT64_C(1) << 24)
#define BATCH_MAX      (INT64_C(1) << 40)
#define TOKENS_MAX     (INT64_C(1) << 28) /* of one micro-batch on one rank */
#define PAIRS_MAX      (INT64_C(1) << 44) /* of query and key, one head */
#define SEQ_MAX        (INT64_C(1) << 30)

typedef struct check {
  mal_arena *a;
  const mal_model *m;
  const mal_machine *machine;
  const mal_profile *p;
  mal_job *job;
  mal_layout *l;
  mal_error *e;
} check;

typedef long long ll;

/* "4 and 8": the divisors of n next to x, for messages. */
static const char *near_divisors(const check *c, int64_t n, int64_t x) {
  int64_t below = 0, above = 0;
  for (int64_t i = 1; i <= n / i; i++) {
    if (n % i) continue;
    for (int64_t d = i;; d = n / i) {
      if (d < x && d > below) below = d;
      if (d > x && (!above || d < above)) above = d;
      if (d == n / i) break;
    }
  }
  if (below && above) return mal_print(c->a, _("%lld and %lld"), (ll)below, (ll)above);
  return mal_print(c->a, "%lld", (ll)(below ? below : above));
}

/* "8 and 16": the multiples of step next to x, from step on. */
static const char *near_multiples(const check *c, int64_t step, int64_t x) {
  int64_t below = x / step * step;
  if (below < 1) return mal_print(c->a, "%lld", (ll)step);
  return mal_print(c->a, _("%lld and %lld"), (ll)below, (ll)(below + step));
}

static const char *the_gpus(const check *c) {
  int64_t gpus = mal_machine_gpus(c->machine);
  return mal_print(c->a, P_("the %lld GPU of %s", "the %lld GPUs of %s", gpus), (ll)gpus, c->machine->name);
}

static mal_status divides(const check *c, const char *name, int64_t x, int64_t n, const char *of) {
  if (n % x == 0) return MAL_OK;
  return mal_fail(c->e, MAL_BAD, _("%s=%lld does not divide %lld, %s; the nearest that do: %s."), name, (ll)x, (ll)n,
                  of, near_divisors(c, n, x));
}

static mal_status in_range(const check *c, const char *name, int64_t x, int64_t lo, int64_t hi) {
  if (x >= lo && x <= hi) return MAL_OK;
  if (x > hi && lo < 1)
    return mal_fail(c->e, MAL_BAD, _("%s=%lld is above %lld, the most that there is."), name, (ll)x, (ll)hi);
  return mal_fail(c->e, MAL_BAD, _("%s=%lld must lie between %lld and %lld."), name, (ll)x, (ll)lo, (ll)hi);
}

static mal_status check_ranges(const check *c) {
  const mal_layout *l = c->l;
  const struct {
    const char *name;
    int64_t value, lo, hi;
  } all[] = {
      {"tp", l->tp, 1, SIZE_MAX_RANKS},
      {"cp", l->cp, 1, SIZE_MAX_RANKS},
      {"dp", l->dp, 0, SIZE_MAX_RANKS},
      {"pp", l->pp, 1, MAL_MAX_LAYERS + 2},
      {"vpp", l->vpp, 0, VPP_MAX},
      {"ep", l->ep, 1, MAL_MAX_EXPERTS},
      {"etp", l->etp, 0, SIZE_MAX_RANKS},
      {"zero", l->zero, -1, 3},
      {"hybrid", l->hybrid, 0, SIZE_MAX_RANKS},
      {"micro-batch", l->micro_batch, 0, BATCH_MAX},
      {"recompute", l->recompute, 0, MAL_RECOMPUTES - 1},
      {"recompute-layers", l->recompute_layers, -1, MAL_MAX_LAYERS},
      {"schedule", l->schedule, 0, MAL_SCHEDULES - 1},
      {"cp-kind", l->cp_kind, 0, MAL_CP_ALLGATHER},
      {"attention", l->attention, -1, MAL_ATT_KERNELS - 1},
      {"first-stage-layers", l->first_stage_layers, -1, MAL_MAX_LAYERS},
      {"last-stage-layers", l->last_stage_layers, -1, MAL_MAX_LAYERS},
      {"offload-optimizer", l->offload_optimizer, 0, MAL_OFFLOAD_NVME},
      {"offload-params", l->offload_params, 0, MAL_OFFLOAD_NVME},
      {"seq", c->job->seq, 0, SEQ_MAX},
      {"global-batch", c->job->global_batch, 0, BATCH_MAX},
      {"accumulation", c->job->accumulation, 0, BATCH_MAX},
  };
  mal_status s = MAL_OK;
  for (size_t i = 0; i < sizeof all / sizeof *all && s == MAL_OK; i++)
    s = in_range(c, all[i].name, all[i].value, all[i].lo, all[i].hi);
  return s;
}

static mal_status derive_seq(const check *c) {
  const mal_model *m = c->m;
  if (c->job->seq == 0) {
    c->job->seq = m->max_positions > 0 ? m->max_positions : SEQ_FALLBACK;
    if (c->job->seq > SEQ_DEFAULT_MAX) c->job->seq = SEQ_DEFAULT_MAX;
    while (c->l->cp > 1 && c->job->seq % (2 * c->l->cp) && c->job->seq > 2 * c->l->cp) c->job->seq--;
  }
  if (m->learned_positions > 0 && c->job->seq > m->learned_positions)
    return mal_fail(c->e, MAL_BAD, _("seq=%lld is longer than the %lld learned positions of %s; use at most %lld."),
                    (ll)c->job->seq, (ll)m->learned_positions, m->name, (ll)m->learned_positions);
  return MAL_OK;
}

/* world = tp · cp · dp · pp = GPUs. */
static mal_status derive_dp(const check *c) {
  mal_layout *l = c->l;
  int64_t gpus = mal_machine_gpus(c->machine), model = 1;
  const int64_t factors[] = {l->tp, l->cp, l->pp};
  for (int i = 0; i < 3; i++) {
    if (factors[i] > gpus || model > gpus / factors[i])
      return mal_fail(c->e, MAL_BAD, _("tp=%lld × cp=%lld × pp=%lld is more than %s; lower one, or use more GPUs."),
                      (ll)l->tp, (ll)l->cp, (ll)l->pp, the_gpus(c));
    model *= factors[i];
  }
  if (gpus % model)
    return mal_fail(c->e, MAL_BAD, _("tp=%lld × cp=%lld × pp=%lld = %lld does not divide %s; products that do: %s."),
                    (ll)l->tp, (ll)l->cp, (ll)l->pp, (ll)model, the_gpus(c), near_divisors(c, gpus, model));
  if (l->dp == 0) l->dp = gpus / model;
  if (l->dp != gpus / model)
    return mal_fail(c->e, MAL_BAD, _("tp=%lld × cp=%lld × dp=%lld × pp=%lld is not %s; dp=%lld is."), (ll)l->tp,
                    (ll)l->cp, (ll)l->dp, (ll)l->pp, the_gpus(c), (ll)(gpus / model));
  return MAL_OK;
}

static mal_status check_attention_heads(const check *c, const mal_layer_kind *k) {
  const mal_layout *l = c->l;
  mal_status s = divides(c, "tp", l->tp, k->heads, _("the attention heads"));
  if (s != MAL_OK || k->mixer == MAL_MLA) return s;
  if (k->kv_heads < 1) return MAL_OK;
  if (l->tp <= k->kv_heads)
    s = divides(c, "tp", l->tp, k->kv_heads, _("the key-value heads"));
  else if (l->tp % k->kv_heads)
    return mal_fail(
        c->e, MAL_BAD,
        _("tp=%lld is not a multiple of the %lld key-value heads, which it would replicate; the nearest: %s."),
        (ll)l->tp, (ll)k->kv_heads, near_multiples(c, k->kv_heads, l->tp));
  if (s == MAL_OK && l->cp > 1 && l->cp_kind == MAL_CP_ALLTOALL)
    s = divides(c, "cp", l->cp, k->heads / l->tp, _("the attention heads of one tensor parallel rank"));
  return s;
}

static mal_status check_experts(const check *c, const mal_layer_kind *k) {
  const mal_layout *l = c->l;
  mal_status s = divides(c, "ep", l->ep, k->experts, _("the experts"));
  if (s == MAL_OK) s = divides(c, "etp", l->etp, k->ffn, _("the width of an expert"));
  if (s == MAL_OK && k->shared_ffn) s = divides(c, "tp", l->tp, k->shared_ffn, _("the width of the shared experts"));
  return s;
}

static mal_status check_widths(const check *c) {
  const mal_layout *l = c->l;
  mal_status s = MAL_OK;
  for (int i = 0; i < c->m->n_kinds && s == MAL_OK; i++) {
    const mal_layer_kind *k = &c->m->kinds[i];
    s = check_attention_heads(c, k);
    if (s == MAL_OK && k->mlp == MAL_MLP_MOE) s = check_experts(c, k);
    if (s == MAL_OK && k->mlp == MAL_MLP_DENSE) s = divides(c, "tp", l->tp, k->ffn, _("the width of the MLP"));
  }
  if (s == MAL_OK && !c->p->vocab_padded && c->p->logits == MAL_LOGITS_SHARDED)
    s = divides(c, "tp", l->tp, c->m->vocab, _("the vocabulary, which this profile does not pad"));
  return s;
}

/* Experts re-view a stage's tp · cp · dp ranks as etp · ep · edp. */
static mal_status derive_experts(const check *c) {
  mal_layout *l = c->l;
  int64_t stage = l->tp * l->cp * l->dp;
  if (!mal_model_has_experts(c->m)) {
    if (l->ep > 1) return mal_fail(c->e, MAL_BAD, _("ep=%lld: %s has no experts; use ep=1."), (ll)l->ep, c->m->name);
    l->etp = l->tp;
    return MAL_OK;
  }
  if (l->etp == 0) l->etp = stage % (l->tp * l->ep) == 0 ? l->tp : 1;
  if (l->etp > stage || l->ep > stage || stage % (l->etp * l->ep))
    return mal_fail(
        c->e, MAL_BAD,
        P_("etp=%lld × ep=%lld is more than the %lld rank of a stage (tp × cp × dp); the product must be: %s.",
           "etp=%lld × ep=%lld does not divide the %lld ranks of a stage (tp × cp × dp); products that "
           "do: %s.",
           stage),
        (ll)l->etp, (ll)l->ep, (ll)stage, stage == 1 ? "1" : near_divisors(c, stage, l->etp * l->ep));
  return MAL_OK;
}

/* So that bytes of a stage fit 64 bits, those of an unfused core too. */
static mal_status check_tokens(const check *c) {
  const mal_layout *l = c->l;
  int64_t tokens = c->job->seq / l->cp;
  bool unfused = (l->attention >= 0 ? l->attention : c->p->attention) == MAL_ATT_UNFUSED;
  int64_t most = unfused && PAIRS_MAX / c->job->seq < TOKENS_MAX ? PAIRS_MAX / c->job->seq : TOKENS_MAX;
  if (tokens <= most / l->micro_batch) return MAL_OK;
  return mal_fail(c->e, MAL_BAD,
                  _("micro-batch %lld × seq %lld / cp %lld is more tokens than the %lld that are counted."),
                  (ll)l->micro_batch, (ll)c->job->seq, (ll)l->cp, (ll)most);
}

static mal_status check_sequence(const check *c) {
  mal_layout *l = c->l;
  int64_t seq = c->job->seq;
  if (l->cp > 1 && seq % (2 * l->cp))
    return mal_fail(
        c->e, MAL_BAD,
        _("seq=%lld is not a multiple of 2 × cp = %lld, which a balanced causal split needs; the nearest: %s."),
        (ll)seq, (ll)(2 * l->cp), near_multiples(c, 2 * l->cp, seq));
  if (l->sequence_parallel == MAL_AUTO) l->sequence_parallel = c->p->seq_par_default && seq / l->cp % l->tp == 0;
  if (l->tp == 1) l->sequence_parallel = MAL_OFF;
  if (l->sequence_parallel == MAL_ON && seq / l->cp % l->tp)
    return mal_fail(
        c->e, MAL_BAD,
        P_("sequence parallelism splits %lld token of a rank over tp=%lld, which it cannot; turn it off, or use "
           "tp=%s.",
           "sequence parallelism splits the %lld tokens of a rank over tp=%lld, which does not divide them; "
           "the nearest that do: %s.",
           seq / l->cp),
        (ll)(seq / l->cp), (ll)l->tp, near_divisors(c, seq / l->cp, l->tp));
  return MAL_OK;
}

static mal_status derive_zero(const check *c) {
  mal_layout *l = c->l;
  int64_t ranks = l->cp * l->dp;
  if (l->zero < 0) l->zero = c->p->default_zero;
  if (l->hybrid > 0 && l->zero != 3)
    return mal_fail(c->e, MAL_BAD,
                    _("hybrid=%lld is a ZeRO-3 shard group, and zero=%d; use zero=3, or leave hybrid out."),
                    (ll)l->hybrid, l->zero);
  if (l->hybrid > 0) {
    mal_status s = divides(c, "hybrid", l->hybrid, ranks, _("the cp × dp ranks"));
    if (s != MAL_OK) return s;
  }
  if (l->offload_params && l->zero != 3)
    return mal_fail(c->e, MAL_BAD,
                    _("offload-params needs zero=3, and here zero=%d; use zero=3, or leave offload-params out."),
                    l->zero);
  if (l->offload_optimizer == MAL_OFFLOAD_NVME && l->zero != 3)
    return mal_fail(
        c->e, MAL_BAD,
        _("offload-optimizer=nvme needs zero=3, and here zero=%d; use zero=3, or cpu, which works with 1 and 2."),
        l->zero);
  if (l->offload_optimizer && l->zero == 0)
    return mal_fail(
        c->e, MAL_BAD,
        _("offload-optimizer needs zero=1, 2 or 3, and here zero=0; use one of them, or leave offload-optimizer out."));
  if ((l->offload_params == MAL_OFFLOAD_NVME || l->offload_optimizer == MAL_OFFLOAD_NVME) &&
      c->machine->node->nvme_drives.value < 1)
    return mal_fail(c->e, MAL_BAD,
                    _("offload to nvme: the catalogue knows no NVMe drive of %s; use cpu, or a machine "
                      "file with nvme_drives."),
                    c->machine->node->title);
  return MAL_OK;
}

/* Any two of micro-batch, accumulation and global batch give the third; fewer get defaults that fill the pipeline. */
static mal_status derive_batch(const check *c) {
  mal_layout *l = c->l;
  mal_job *j = c->job;
  if (j->global_batch == 0 || l->micro_batch == 0) {
    bool free_global = j->global_batch == 0;
    if (free_global && l->micro_batch == 0) l->micro_batch = 1;
    if (free_global && j->accumulation == 0) j->accumulation = l->pp > 1 ? DEFAULT_FILL * l->pp : 1;
    if (!free_global && j->accumulation == 0) l->micro_batch = 1;
  }
  int64_t product;
  if (j->global_batch == 0) {
    if (__builtin_mul_overflow(l->micro_batch, j->accumulation, &product) ||
        __builtin_mul_overflow(product, l->dp, &product) || product > BATCH_MAX)
      return mal_fail(c->e, MAL_BAD, _("micro-batch %lld × accumulation %lld × dp %lld is above %lld sequences."),
                      (ll)l->micro_batch, (ll)j->accumulation, (ll)l->dp, (ll)BATCH_MAX);
    j->global_batch = product;
    return MAL_OK;
  }
  int64_t known = l->micro_batch ? l->micro_batch : j->accumulation;
  const char *name = l->micro_batch ? _("micro-batch") : _("accumulation");
  if (__builtin_mul_overflow(known, l->dp, &product) || product > j->global_batch || j->global_batch % product) {
    if (known > BATCH_MAX / l->dp) product = BATCH_MAX;
    return mal_fail(c->e, MAL_BAD,
                    _("global batch %lld is not a multiple of %s %lld × data parallel %lld = %lld; the nearest: %s."),
                    (ll)j->global_batch, name, (ll)known, (ll)l->dp, (ll)product,
                    near_multiples(c, product, j->global_batch));
  }
  int64_t other = j->global_batch / product;
  if (l->micro_batch && j->accumulation && j->accumulation != other)
    return mal_fail(c->e, MAL_BAD,
                    _("micro-batch %lld × accumulation %lld × data parallel %lld is not the global batch %lld; "
                      "accumulation %lld is."),
                    (ll)l->micro_batch, (ll)j->accumulation, (ll)l->dp, (ll)j->global_batch, (ll)other);
  if (l->micro_batch)
    j->accumulation = other;
  else
    l->micro_batch = other;
  return MAL_OK;
}

/* One layer a chunk, at most VPP_DEFAULT_MAX chunks, where layers and micro-batches allow it: what NVIDIA's recipes do. */
static int64_t default_vpp(const check *c) {
  const mal_layout *l = c->l;
  bool wanted = l->schedule == MAL_INTERLEAVED || (l->schedule == MAL_1F1B && c->p->vpp_default_one_layer);
  bool own = l->first_stage_layers >= 0 || l->last_stage_layers >= 0;
  int64_t layers = c->m->layers + (l->embedding_in_layers ? 2 : 0);
  if (l->pp == 1 || !wanted || own || layers % l->pp || c->job->accumulation % l->pp) return 1;
  int64_t v = layers / l->pp < VPP_DEFAULT_MAX ? layers / l->pp : VPP_DEFAULT_MAX;
  while (layers / l->pp % v) v--;
  return v;
}

static mal_status check_interleaving(const check *c) {
  mal_layout *l = c->l;
  int64_t m = c->job->accumulation;
  if (l->vpp == 0) l->vpp = default_vpp(c);
  if (l->vpp > 1 && l->schedule == MAL_1F1B) l->schedule = MAL_INTERLEAVED;
  if (l->schedule == MAL_INTERLEAVED && l->vpp == 1) l->schedule = MAL_1F1B; /* the same thing */
  if (l->vpp > 1 && l->schedule != MAL_INTERLEAVED)
    return mal_fail(c->e, MAL_BAD, _("vpp=%lld needs schedule=interleaved, and the schedule is %s; use vpp=1."),
                    (ll)l->vpp, mal_schedule_name[l->schedule]);
  if (l->vpp == 1) return MAL_OK;
  if (l->pp == 1)
    return mal_fail(c->e, MAL_BAD, _("vpp=%lld needs a pipeline, and pp=1; use vpp=1, or pp above 1."), (ll)l->vpp);
  if (m % l->pp)
    return mal_fail(c->e, MAL_BAD,
                    _("interleaving needs a number of micro-batches that pp=%lld divides, and accumulation is %lld; "
                      "the nearest: %s; "
                      "or use vpp=1."),
                    (ll)l->pp, (ll)m, near_multiples(c, l->pp, m));
  return MAL_OK;
}

static mal_status check_own_stages(const check *c) {
  const mal_layout *l = c->l;
  int64_t f = l->first_stage_layers, t = l->last_stage_layers, layers = c->m->layers;
  if (f < 0 && t < 0) return MAL_OK;
  if (l->embedding_in_layers)
    return mal_fail(c->e, MAL_BAD,
                    _("first-stage-layers and last-stage-layers exclude embedding-in-layers; use one way."));
  if (l->pp == 1) return mal_fail(c->e, MAL_BAD, _("first-stage-layers and last-stage-layers need pp above 1."));
  int64_t rest = layers - (f < 0 ? 0 : f) - (t < 0 ? 0 : t), stages = l->pp - (f >= 0) - (t >= 0);
  if (rest < stages || (stages == 0 && rest != 0))
    return mal_fail(
        c->e, MAL_BAD,
        _("first-stage-layers and last-stage-layers leave %lld of the %lld layers, and %lld is the number of "
          "other stages: each needs one at least, and none may be left over."),
        (ll)rest, (ll)layers, (ll)stages);
  return MAL_OK;
}

/* Stages by cost, where the profile cuts them so and none would be left empty. */
static void weigh_head(const check *c) {
  mal_layout *l = c->l;
  const mal_layer_kind *k = &c->m->kinds[c->m->kind_of[c->m->layers - 1]];
  bool even = l->first_stage_layers < 0 && l->last_stage_layers < 0 && !l->embedding_in_layers && l->vpp == 1;
  l->head_layers = 0;
  if (!c->p->stages_by_cost || !even || l->pp == 1 || k->mlp == MAL_MLP_MOE) return;
  double layer = (double)(4 * k->heads * k->head_dim + (k->gated ? 3 : 2) * k->ffn);
  double head = (double)c->m->vocab / layer, share = ((double)c->m->layers + head) / (double)l->pp;
  if (share * (double)(l->pp - 1) + 1 < (double)c->m->layers) l->head_layers = head;
}

static mal_status check_pipeline(const check *c) {
  mal_layout *l = c->l;
  mal_status s = check_interleaving(c);
  if (s == MAL_OK) s = check_own_stages(c);
  if (s != MAL_OK) return s;
  weigh_head(c);
  int64_t layers = c->m->layers + (l->embedding_in_layers ? 2 : 0), chunks = l->pp * l->vpp;
  if (chunks > layers)
    return mal_fail(c->e, MAL_BAD,
                    P_("pp=%lld × vpp=%lld = %lld chunks are more than the %lld layer; use at most %lld.",
                       "pp=%lld × vpp=%lld = %lld chunks are more than the %lld layers; use at most %lld.", layers),
                    (ll)l->pp, (ll)l->vpp, (ll)chunks, (ll)layers, (ll)layers);
  if (l->schedule == MAL_DUALPIPE && (l->pp % 2 || c->job->accumulation % 2 || c->job->accumulation < 2 * l->pp))
    return mal_fail(
        c->e, MAL_BAD,
        _("dualpipe needs an even pp and an even number of micro-batches, 2 × pp or more; pp=%lld, and accumulation "
          "is %lld."),
        (ll)l->pp, (ll)c->job->accumulation);
  if (l->recompute_layers > layers)
    return mal_fail(c->e, MAL_BAD,
                    P_("recompute-layers=%lld is more than the %lld layer there is; use at most %lld.",
                       "recompute-layers=%lld is more than the %lld layers there are; use at most %lld.", layers),
                    (ll)l->recompute_layers, (ll)layers, (ll)layers);
  if (l->recompute_layers >= 0 && l->recompute != MAL_RECOMPUTE_FULL)
    return mal_fail(c->e, MAL_BAD,
                    _("recompute-layers=%lld counts fully recomputed layers, and recompute=%s; use "
                      "recompute=full."),
                    (ll)l->recompute_layers, mal_recompute_name[l->recompute]);
  return MAL_OK;
}

static int resolve(int wanted, bool by_profile, bool possible) {
  return possible ? (wanted == MAL_AUTO ? by_profile : wanted) : MAL_OFF;
}

static void derive_switches(const check *c) {
  mal_layout *l = c->l;
  const mal_profile *p = c->p;
  int64_t ranks = l->cp * l->dp;
  if (l->attention < 0) l->attention = p->attention;
  l->overlap_tp = resolve(l->overlap_tp, p->overlap_tp, l->tp > 1);
  l->overlap_dp_grad = resolve(l->overlap_dp_grad, p->overlap_dp_grad, ranks > 1);
  l->overlap_dp_param = resolve(l->overlap_dp_param, p->overlap_dp_param, ranks > 1 && l->zero > 0);
  l->overlap_pp = resolve(l->overlap_pp, p->overlap_pp, l->pp > 1);
  l->overlap_cp = resolve(l->overlap_cp, p->overlap_cp, l->cp > 1);
}

static mal_status check_precision(const check *c) {
  const mal_gpu *g = c->machine->gpu;
  mal_precision p = (mal_precision)c->job->precision;
  if (c->job->precision < 0 || c->job->precision >= MAL_PRECISIONS)
    return mal_fail(c->e, MAL_BAD, _("precision: %d is none of the known ones."), c->job->precision);
  bool block_scaled = p == MAL_P_MXFP8; /* came with fp4 */
  mal_dtype type = block_scaled ? MAL_F4 : mal_precision_gemm(p);
  if (g->flops[type].value > 0) return MAL_OK;
  return mal_fail(c->e, MAL_BAD, _("precision=%s: %s has no hardware for it; use %s."), mal_precision_name[p], g->title,
                  g->flops[MAL_BF16].value > 0 ? (block_scaled && g->flops[MAL_F8].value > 0 ? "fp8 or bf16" : "bf16")
                                               : "fp16");
}

mal_status mal_layout_complete(mal_arena *a, const mal_model *m, const mal_machine *machine, const mal_profile *p,
                               mal_job *job, mal_layout *l, char **arithmetic, mal_error *e) {
  const check c = {a, m, machine, p, job, l, e};
  mal_status (*const steps[])(const check *) = {
      check_ranges,   check_precision, derive_seq,   derive_dp,   derive_experts, check_widths,
      check_sequence, derive_batch,    check_tokens, derive_zero, check_pipeline,
  };
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    mal_status s = steps[i](&c);
    if (s != MAL_OK) return s;
  }
  derive_switches(&c);
  if (arithmetic)
    *arithmetic = mal_print(a, "%lld = %lld × %lld × %lld", (ll)job->global_batch, (ll)l->micro_batch,
                            (ll)job->accumulation, (ll)l->dp);
  return MAL_OK;
}
