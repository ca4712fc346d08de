#include "search/space.h"
#include "job/types.h"
#include <stdlib.h>
#include <string.h>

#define SEQUENCES_DEFAULT_TOKENS (INT64_C(4) << 20)
#define MOST_TOKENS              (INT64_C(1) << 28) /* of a micro-batch, as layout/complete.c counts them */
#define MOST_PAIRS               (INT64_C(1) << 44)
#define MOST_STEPS               (INT64_C(1) << 28) /* of a schedule, as program/schedule.c makes it */
#define AT(member)               offsetof(mal_layout, member)

enum { MOST_CHUNKS = 255, MOST_DUAL = 256, SEQ_FALLBACK = 2048, SEQ_DEFAULT = 8192 };

/* --- what is fixed ------------------------------------------------------------------------------------------------------- */

static size_t size_of(const mal_option *o) {
  switch (o->kind) {
  case MAL_OPT_FLAG: return sizeof(bool);
  case MAL_OPT_CHOICE: return sizeof(int);
  default: return sizeof(int64_t);
  }
}

/* Flips the lowest bit of an option's value. */
static void flip(const mal_option *o, mal_layout *l) { *((unsigned char *)l + o->offset) ^= 1; }

/* An option that the text sets has the same value whatever stood there before. */
static mal_status read_fixed(mal_space *s, const char *text, mal_error *e) {
  mal_layout other;
  mal_layout_default(&s->fixed);
  mal_layout_default(&other);
  if (!text) return MAL_OK;
  for (int i = 0; i < mal_layout_option_count; i++) flip(&mal_layout_options[i], &other);
  mal_status status = mal_layout_parse(s->a, text, &s->fixed, e);
  if (status == MAL_OK) status = mal_layout_parse(s->a, text, &other, e);
  if (status != MAL_OK) return mal_fail_in(e, "--fix");
  for (int i = 0; i < mal_layout_option_count; i++) {
    const mal_option *o = &mal_layout_options[i];
    if (memcmp((char *)&s->fixed + o->offset, (char *)&other + o->offset, size_of(o)) == 0)
      s->is_fixed |= UINT64_C(1) << i;
  }
  return MAL_OK;
}

bool mal_space_fixed(const mal_space *s, size_t offset) {
  for (int i = 0; i < mal_layout_option_count; i++)
    if (mal_layout_options[i].offset == offset) return s->is_fixed >> i & 1;
  return false;
}

/* --- lists --------------------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

mal_numbers mal_divisors(mal_arena *a, int64_t n) {
  mal_numbers all = {MAL_ARRAY(a, int64_t, 2), 0};
  int room = 2;
  for (int64_t i = 1; i <= n / i; i++) {
    if (n % i) continue;
    if (all.count + 2 > room) {
      all.at = mal_grow(a, all.at, (size_t)room, (size_t)room * 2, sizeof *all.at);
      room *= 2;
    }
    all.at[all.count++] = i;
    if (i != n / i) all.at[all.count++] = n / i;
  }
  qsort(all.at, (size_t)all.count, sizeof *all.at, by_size);
  return all;
}

static mal_numbers only(mal_arena *a, int64_t n) {
  mal_numbers one = {MAL_ARRAY(a, int64_t, 1), 1};
  one.at[0] = n;
  return one;
}

static int64_t gcd(int64_t x, int64_t y) { return y ? gcd(y, x % y) : x; }

static mal_numbers degrees(const mal_space *s, size_t offset, int64_t fixed, int64_t n) {
  return mal_space_fixed(s, offset) ? only(s->a, fixed) : mal_divisors(s->a, n);
}

/* --- rules: those of mal_layout_complete, for one option at a time --------------------------------------------------------- */

static bool splits_heads(const mal_layer_kind *k, int64_t tp) {
  if (k->heads % tp) return false;
  if (k->mixer == MAL_MLA || k->kv_heads < 1) return true;
  return tp <= k->kv_heads ? k->kv_heads % tp == 0 : tp % k->kv_heads == 0;
}

static bool tp_works(const mal_model *m, const mal_profile *p, int64_t tp) {
  for (int i = 0; i < m->n_kinds; i++) {
    const mal_layer_kind *k = &m->kinds[i];
    if (!splits_heads(k, tp)) return false;
    if (k->mlp == MAL_MLP_DENSE ? k->ffn % tp != 0 : k->shared_ffn % tp != 0) return false;
  }
  return p->vocab_padded || p->logits != MAL_LOGITS_SHARDED || m->vocab % tp == 0;
}

static bool cp_works(const mal_space *s, const mal_plan *p, int64_t tp, int64_t cp, int kind, int attention) {
  if (cp == 1) return true;
  if (s->seq % (2 * cp)) return false;
  if (kind == MAL_CP_RING) return attention != MAL_ATT_UNFUSED;
  for (int i = 0; i < p->model.n_kinds && kind == MAL_CP_ALLTOALL; i++)
    if (p->model.kinds[i].heads / tp % cp) return false;
  return true;
}

/* Divisors that all kinds with experts share. */
static mal_numbers expert_degrees(const mal_space *s, const mal_model *m, bool tensor) {
  int64_t all = 0;
  for (int i = 0; i < m->n_kinds; i++)
    if (m->kinds[i].mlp == MAL_MLP_MOE) all = gcd(all, tensor ? m->kinds[i].ffn : m->kinds[i].experts);
  return tensor ? degrees(s, AT(etp), s->fixed.etp, all) : degrees(s, AT(ep), s->fixed.ep, all ? all : 1);
}

/* --- frames ---------------------------------------------------------------------------------------------------------------- */

typedef struct maker {
  mal_space *s;
  mal_numbers pp;
  int room;
} maker;

static const char *profile_name(const mal_space *s, int i) { return s->plans[i].framework->name; }

static const char *profile_of(const mal_plan *asked, int64_t tp, int64_t pp, int64_t ep) {
  return *asked->profile_spec ? asked->profile_spec : mal_profile_default(tp, pp, ep);
}

/* The pipelines that go with these degrees under profile `p`. */
static mal_numbers pipelines(const maker *k, int p, int64_t tp, int64_t cp, int64_t ep, int64_t etp) {
  const mal_space *s = k->s;
  mal_numbers kept = {NULL, 0};
  for (int i = 0; i < k->pp.count; i++) {
    int64_t pp = k->pp.at[i], stage = s->gpus / pp;
    if (s->gpus % pp || stage % (tp * cp) || strcmp(profile_of(&s->plans[0], tp, pp, ep), profile_name(s, p)) != 0)
      continue;
    if (mal_space_fixed(s, AT(dp)) && s->fixed.dp && stage / (tp * cp) != s->fixed.dp) continue;
    if (mal_model_has_experts(&s->plans[0].model) && (ep > stage || etp > stage || stage % (ep * etp))) continue;
    if (s->batch % (stage / (tp * cp))) continue;
    if (!kept.at) kept.at = MAL_ARRAY(s->a, int64_t, k->pp.count);
    kept.at[kept.count++] = pp;
  }
  return kept;
}

static void add_frame(maker *k, mal_frame f) {
  mal_space *s = k->s;
  if (s->n_frames == k->room) {
    s->frames = mal_grow(s->a, s->frames, (size_t)k->room, (size_t)k->room * 2 + 64, sizeof *s->frames);
    k->room = k->room * 2 + 64;
  }
  s->frames[s->n_frames++] = f;
}

static int attention_of(const mal_space *s, const mal_plan *p) {
  return s->fixed.attention >= 0 ? s->fixed.attention : p->profile->attention;
}

/* Sequence parallelism and the kind of context parallelism. */
static void add_kinds(maker *k, mal_frame f) {
  const mal_space *s = k->s;
  const mal_plan *p = &s->plans[f.profile];
  for (int on = 0; on < 2; on++) {
    bool can = on ? f.tp > 1 && s->seq / f.cp % f.tp == 0 : true;
    if (!can || (f.tp > 1 && mal_space_fixed(s, AT(sequence_parallel)) && on != s->fixed.sequence_parallel)) continue;
    for (int kind = MAL_CP_RING; kind <= MAL_CP_ALLGATHER; kind++) {
      if (mal_space_fixed(s, AT(cp_kind)) ? kind != s->fixed.cp_kind : f.cp == 1 && kind) continue;
      if (!cp_works(s, p, f.tp, f.cp, kind, attention_of(s, p))) continue;
      f.sequence_parallel = on, f.cp_kind = kind;
      add_frame(k, f);
    }
  }
}

static void add_experts(maker *k, mal_frame f, const mal_numbers *eps, const mal_numbers *etps) {
  bool experts = mal_model_has_experts(&k->s->plans[0].model);
  for (int i = 0; i < eps->count; i++)
    for (int j = 0; j < etps->count; j++) {
      f.ep = eps->at[i], f.etp = experts ? etps->at[j] : f.tp;
      if (f.tp % f.etp && !mal_space_fixed(k->s, AT(etp)))
        continue; /* experts are cut inside the ranks that cut a layer */
      f.pp = pipelines(k, f.profile, f.tp, f.cp, f.ep, f.etp);
      if (f.pp.count) add_kinds(k, f);
    }
}

static void make_frames(mal_space *s) {
  const mal_model *m = &s->plans[0].model;
  bool experts = mal_model_has_experts(m);
  mal_numbers one = only(s->a, 1);
  mal_numbers eps = experts ? expert_degrees(s, m, false) : one, etps = experts ? expert_degrees(s, m, true) : one;
  mal_numbers tps = degrees(s, AT(tp), s->fixed.tp, s->gpus), cps = degrees(s, AT(cp), s->fixed.cp, s->gpus);
  maker k = {.s = s, .pp = degrees(s, AT(pp), s->fixed.pp, s->gpus)};
  if (!experts && mal_space_fixed(s, AT(ep)) && s->fixed.ep > 1) return;
  while (k.pp.count && k.pp.at[k.pp.count - 1] > s->layers + 2) k.pp.count--;
  for (int p = 0; p < s->n_plans; p++)
    for (int i = 0; i < tps.count; i++) {
      if (!tp_works(m, s->plans[p].profile, tps.at[i])) continue;
      for (int j = 0; j < cps.count; j++)
        if (s->gpus % (tps.at[i] * cps.at[j]) == 0)
          add_experts(&k, (mal_frame){.profile = p, .tp = tps.at[i], .cp = cps.at[j]}, &eps, &etps);
    }
}

/* --- micro-batches, forms, shards --------------------------------------------------------------------------------------------- */

bool mal_space_micro_batch(const mal_space *s, const mal_frame *f, int64_t dp, int64_t micro_batch) {
  const mal_plan *p = &s->plans[f->profile];
  int64_t share = s->batch / dp, accumulation = p->asked_job.accumulation;
  bool unfused = attention_of(s, p) == MAL_ATT_UNFUSED;
  int64_t most = unfused && MOST_PAIRS / s->seq < MOST_TOKENS ? MOST_PAIRS / s->seq : MOST_TOKENS;
  if (s->batch % dp || share % micro_batch || s->seq / f->cp > most / micro_batch) return false;
  if (accumulation > 0 && share / micro_batch != accumulation) return false;
  return !mal_space_fixed(s, AT(micro_batch)) || s->fixed.micro_batch < 1 || micro_batch == s->fixed.micro_batch;
}

mal_numbers mal_space_micro_batches(const mal_space *s, mal_arena *a, int64_t dp) {
  if (mal_space_fixed(s, AT(micro_batch)) && s->fixed.micro_batch > 0) return only(a, s->fixed.micro_batch);
  return mal_divisors(a, s->batch / dp);
}

static bool is_free(const mal_space *s, size_t offset, int64_t value, int64_t fixed) {
  return !mal_space_fixed(s, offset) || value == fixed;
}

/* Uneven first and last stages are taken when they are fixed, not tried. */
static bool own_stages(const mal_space *s) {
  return s->fixed.first_stage_layers >= 0 || s->fixed.last_stage_layers >= 0;
}

static bool own_stages_work(const mal_space *s, int64_t pp) {
  int64_t f = s->fixed.first_stage_layers, t = s->fixed.last_stage_layers;
  int64_t rest = s->layers - (f < 0 ? 0 : f) - (t < 0 ? 0 : t), stages = pp - (f >= 0) - (t >= 0);
  return pp > 1 && rest >= stages && !(stages == 0 && rest != 0);
}

static bool schedule_works(int schedule, int64_t pp, int64_t vpp, int64_t M) {
  int64_t chunks = schedule == MAL_DUALPIPE ? 2 : vpp;
  if (chunks > MOST_CHUNKS || pp * chunks > MOST_STEPS / 8 / M) return false;
  if (schedule == MAL_INTERLEAVED) return pp > 1 && vpp > 1 && M % pp == 0;
  if (schedule == MAL_DUALPIPE) return pp % 2 == 0 && pp <= MOST_DUAL && M % 2 == 0 && M >= 2 * pp;
  return vpp == 1;
}

/* Chunks of equal size, as frameworks cut them; where the layers have none for this pipeline, any. */
static bool cut_works(const mal_space *s, int64_t pp, int64_t vpp, bool ends, bool any) {
  if (pp * vpp > s->layers + (ends ? 2 : 0)) return false;
  return vpp == 1 || any || (s->layers + (ends ? 2 : 0)) % (pp * vpp) == 0;
}

static bool no_equal_cut(const mal_space *s, int64_t pp) {
  for (int64_t vpp = 2; vpp * pp <= s->layers + 2; vpp++)
    if (cut_works(s, pp, vpp, false, false) || cut_works(s, pp, vpp, true, false)) return false;
  return true;
}

static bool framework_has(const mal_profile *p, int schedule) {
  switch (schedule) {
  case MAL_GPIPE: return p->runs_gpipe;
  case MAL_ZB_H1:
  case MAL_ZB_2P: return p->runs_zero_bubble;
  case MAL_DUALPIPE: return p->runs_dualpipe;
  default: return true;
  }
}

int mal_space_forms(const mal_space *s, const mal_profile *p, int64_t pp, int64_t M, mal_form *forms) {
  int count = 0;
  bool any = no_equal_cut(s, pp) || (mal_space_fixed(s, AT(vpp)) && s->fixed.vpp > 0);
  if (own_stages(s) && !own_stages_work(s, pp)) return 0;
  for (int schedule = 0; schedule < MAL_SCHEDULES; schedule++) {
    /* A fixed schedule of 1F1B with chunks is the interleaved one, and that with one chunk is 1F1B. */
    bool chosen = mal_space_fixed(s, AT(schedule)) || framework_has(p, schedule);
    bool asked = (chosen && is_free(s, AT(schedule), schedule, s->fixed.schedule)) ||
                 (schedule == MAL_INTERLEAVED && s->fixed.schedule == MAL_1F1B && s->fixed.vpp > 1) ||
                 (schedule == MAL_1F1B && s->fixed.schedule == MAL_INTERLEAVED && s->fixed.vpp == 1);
    int64_t most = schedule == MAL_INTERLEAVED ? (s->layers + 2) / pp : 1;
    for (int64_t vpp = schedule == MAL_INTERLEAVED ? 2 : 1; vpp <= most && asked; vpp++) {
      if (!is_free(s, AT(vpp), vpp, s->fixed.vpp > 0 ? s->fixed.vpp : vpp)) continue;
      if (!schedule_works(schedule, pp, vpp, M)) continue;
      for (int ends = 0; ends < 2; ends++) {
        if (!is_free(s, AT(embedding_in_layers), ends, s->fixed.embedding_in_layers)) continue;
        if (ends && (own_stages(s) || (pp == 1 && !s->fixed.embedding_in_layers))) continue;
        if (!cut_works(s, pp, vpp, ends, any) || count == MAL_MOST_FORMS) continue;
        forms[count++] = (mal_form){schedule, vpp, ends};
      }
    }
  }
  return count;
}

static bool shard_works(const mal_space *s, const mal_shard *x) {
  bool drives = s->plans[0].machine.node->nvme_drives.value >= 1;
  if (x->offload_params && x->zero != 3) return false;
  if (x->offload_optimizer && x->zero == 0) return false;
  if (x->offload_optimizer == MAL_OFFLOAD_NVME && x->zero != 3) return false;
  if ((x->offload_optimizer == MAL_OFFLOAD_NVME || x->offload_params == MAL_OFFLOAD_NVME) && !drives) return false;
  return is_free(s, AT(zero), x->zero, s->fixed.zero) && is_free(s, AT(hybrid), x->hybrid, s->fixed.hybrid) &&
         is_free(s, AT(offload_optimizer), x->offload_optimizer, s->fixed.offload_optimizer) &&
         is_free(s, AT(offload_params), x->offload_params, s->fixed.offload_params);
}

/* Stages give their gradients away once a step: ZeRO-2 and 3 would send them with every micro-batch, and few frameworks do. */
static bool framework_shards(const mal_space *s, const mal_profile *p, int64_t pp, int zero) {
  return pp == 1 || zero < 2 || p->runs_sharded_pipeline || mal_space_fixed(s, AT(zero));
}

int mal_space_shards(const mal_space *s, mal_arena *a, const mal_profile *p, int64_t pp, int64_t ranks,
                     mal_shard **shards) {
  mal_numbers groups = mal_divisors(a, ranks);
  int count = 0;
  *shards = MAL_ARRAY(a, mal_shard, 9 * (groups.count + 4));
  for (int offload = 0; offload < 9; offload++)
    for (int zero = 0; zero <= 3; zero++)
      for (int h = -1; h < (zero == 3 ? groups.count : 0); h++) {
        mal_shard x = {zero, h < 0 ? 0 : groups.at[h], offload % 3, offload / 3};
        bool whole = x.hybrid == ranks && !mal_space_fixed(s, AT(hybrid));
        if (!whole && framework_shards(s, p, pp, zero) && shard_works(s, &x)) (*shards)[count++] = x;
      }
  return count;
}

/* Pieces of a product are exchanged inside an NVLink domain only (Transformer Engine's userbuffers). */
static int overlap_tp(const mal_space *s, const mal_frame *f) {
  if (mal_space_fixed(s, AT(overlap_tp))) return s->fixed.overlap_tp;
  return f->tp <= mal_machine_domain(&s->plans[0].machine) ? MAL_ON : MAL_OFF;
}

static int overlap(const mal_space *s, size_t offset, int fixed) { return mal_space_fixed(s, offset) ? fixed : MAL_ON; }

mal_layout mal_space_layout(const mal_space *s, const mal_frame *f, int64_t pp, int64_t micro_batch,
                            const mal_form *form, const mal_shard *shard, int recompute, int64_t recompute_layers) {
  mal_layout l = s->fixed;
  l.tp = f->tp, l.cp = f->cp, l.ep = f->ep, l.etp = f->etp, l.pp = pp;
  l.dp = s->gpus / (f->tp * f->cp * pp);
  l.sequence_parallel = f->tp > 1 ? f->sequence_parallel : MAL_AUTO;
  l.cp_kind = f->cp_kind;
  l.micro_batch = micro_batch;
  l.schedule = form->schedule, l.vpp = form->vpp, l.embedding_in_layers = form->embedding_in_layers;
  l.zero = shard->zero, l.hybrid = shard->hybrid;
  l.offload_optimizer = shard->offload_optimizer, l.offload_params = shard->offload_params;
  l.recompute = recompute, l.recompute_layers = recompute_layers;
  l.overlap_tp = overlap_tp(s, f);
  l.overlap_dp_grad = overlap(s, AT(overlap_dp_grad), s->fixed.overlap_dp_grad);
  l.overlap_dp_param = overlap(s, AT(overlap_dp_param), s->fixed.overlap_dp_param);
  l.overlap_pp = overlap(s, AT(overlap_pp), s->fixed.overlap_pp);
  l.overlap_cp = overlap(s, AT(overlap_cp), s->fixed.overlap_cp);
  return l;
}

/* --- opening ----------------------------------------------------------------------------------------------------------------------- */

int64_t mal_search_sequence(const mal_plan *asked) {
  int64_t longest = asked->model.max_positions;
  if (asked->asked_job.seq > 0) return asked->asked_job.seq;
  return longest <= 0 ? SEQ_FALLBACK : longest < SEQ_DEFAULT ? longest : SEQ_DEFAULT;
}

int64_t mal_search_batch(const mal_plan *asked) {
  int64_t gpus = mal_machine_gpus(&asked->machine), seq = mal_search_sequence(asked);
  int64_t batch = gpus;
  while (batch % 2 == 0) batch /= 2;
  while (batch < SEQUENCES_DEFAULT_TOKENS / seq) batch *= 2;
  return batch;
}

static mal_status load_plans(mal_space *s, const mal_plan *asked, mal_error *e) {
  static const int64_t degrees_of[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}};
  for (int i = 0; i < MAL_SPACE_PROFILES; i++) {
    const char *name = profile_of(asked, degrees_of[i][0], degrees_of[i][1], degrees_of[i][2]);
    bool known = false;
    for (int k = 0; k < s->n_plans; k++) known |= strcmp(s->plans[k].framework->name, name) == 0;
    if (known || (i > 0 && *asked->profile_spec)) continue;
    mal_plan *p = &s->plans[s->n_plans++];
    *p = *asked;
    p->framework = p->profile = NULL;
    p->job = p->asked_job; /* its prices are read before a layout is complete */
    mal_status status = mal_profile_load(s->a, name, &p->framework, e);
    if (status == MAL_OK) status = mal_profile_for_job(s->a, p->framework, &p->asked_job, &p->profile, e);
    if (status != MAL_OK) return status;
  }
  return MAL_OK;
}

mal_status mal_space_open(mal_arena *a, const mal_plan *asked, const char *fix, mal_space *s, mal_error *e) {
  mal_plan p = *asked;
  *s = (mal_space){.a = a};
  s->seq = mal_search_sequence(asked);
  p.asked_job.seq = s->seq;
  if (p.asked_job.global_batch == 0) p.asked_job.global_batch = mal_search_batch(&p);
  s->gpus = mal_machine_gpus(&p.machine), s->layers = p.model.layers, s->batch = p.asked_job.global_batch;
  mal_status status = read_fixed(s, fix, e);
  if (status == MAL_OK) status = load_plans(s, &p, e);
  if (status == MAL_OK) make_frames(s);
  return status;
}
