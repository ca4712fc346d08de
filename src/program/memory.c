/* Memory of each stage: a sum of regions, then the same bytes by cause.
 *
 * 1. Persistent: PARAM, GRAD, MASTER, OPT: what each block says (ZeRO and offload applied), times its layers.
 * 2. STASH: the most that the stage's schedule ever holds at once.
 * 3. GATHER: (prefetch + 1) units as large as the largest layer; embedding and head are needed at opposite ends, so one place
 *    serves both. BUCKET, WORK, KERNEL, IO: the largest block that runs, for only one runs at a time.
 * 4. The phases (passes, gradient sync, optimizer) follow one another: the one that needs most counts, stage by stage.
 * 5. The profile adds its context, communicators, and the allocator's share of what is not persistent. */
#include "program/builder.h"
#include "program/lower.h"
#include <string.h>

typedef struct phase {
  int64_t bytes[MAL_REGIONS]; /* none of the persistent ones */
  int64_t logits;             /* of WORK */
  int64_t logits_stash;       /* of STASH */
} phase;

enum { PASSES, PASSES_END, SYNC, UPDATE, PHASES };

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* --- how long the stash is held -------------------------------------------------------------------------------------------- */

enum { IN_FORWARD = 1, READ_BY_W = 2 };

static void mark(const mal_block *b, mal_list list, uint8_t *marks, uint8_t written, uint8_t read) {
  for (int i = 0; i < b->count[list]; i++) {
    const mal_instruction *x = &b->list[list][i];
    for (int k = 0; k < MAL_INPUTS; k++)
      if (x->in[k] != MAL_NO_BUFFER) marks[x->in[k]] |= read;
    for (int k = 0; k < MAL_OUTPUTS; k++)
      if (x->out[k] != MAL_NO_BUFFER) marks[x->out[k]] |= written;
  }
}

/* What forward does not know, the gradient that comes to the block too, is there from B on. */
static mal_hold hold_of(uint8_t marks) {
  if (!(marks & READ_BY_W)) return MAL_HOLD_F_TO_B;
  return marks & IN_FORWARD ? MAL_HOLD_F_TO_W : MAL_HOLD_B_TO_W;
}

/* The buffer before this one that names the same bytes; itself where none does. */
static int first_of(const mal_block *b, int i) {
  for (int k = 0; k < i; k++)
    if (b->buffers[k].region == MAL_R_STASH && b->buffers[k].offset_bytes == b->buffers[i].offset_bytes) return k;
  return i;
}

mal_held mal_block_holds(mal_arena *scratch, const mal_block *b, bool split, uint8_t *hold, int64_t *offset_bytes) {
  int64_t bytes[MAL_HOLDS] = {0};
  uint8_t *marks = MAL_ARRAY(scratch, uint8_t, b->n_buffers), *own = MAL_ARRAY(scratch, uint8_t, b->n_buffers);
  int64_t *place = MAL_ARRAY(scratch, int64_t, b->n_buffers);
  if (split) {
    mark(b, MAL_L_F, marks, IN_FORWARD, IN_FORWARD);
    mark(b, MAL_L_W, marks, 0, READ_BY_W);
  }
  for (int i = 0; i < b->n_buffers; i++)
    if (b->buffers[i].region == MAL_R_STASH) marks[first_of(b, i)] |= marks[i];
  for (int i = 0; i < b->n_buffers; i++) {
    if (b->buffers[i].region != MAL_R_STASH) continue;
    int same = first_of(b, i);
    own[i] = same == i ? (uint8_t)hold_of(marks[i]) : own[same];
    place[i] = same == i ? bytes[own[i]] : place[same];
    if (same == i) bytes[own[i]] += (b->buffers[i].bytes + 63) / 64 * 64;
    if (hold) hold[i] = own[i];
    if (offset_bytes) offset_bytes[i] = place[i];
  }
  return (mal_held){bytes[MAL_HOLD_F_TO_B], bytes[MAL_HOLD_F_TO_W], bytes[MAL_HOLD_B_TO_W]};
}

/* --- regions --------------------------------------------------------------------------------------------------------------- */

static const mal_region persistent[] = {MAL_R_PARAM, MAL_R_GRAD, MAL_R_MASTER, MAL_R_OPT};
enum { PERSISTENT = sizeof persistent / sizeof *persistent };

static void add_persistent(const mal_block *b, int64_t count, mal_stage *stage) {
  for (int i = 0; i < PERSISTENT; i++) stage->region_bytes[persistent[i]] += count * b->region_bytes[persistent[i]];
  stage->host_bytes += count * b->host_bytes;
  stage->nvme_bytes += count * b->nvme_bytes;
}

static int64_t io_bytes(const mal_block *b) {
  int64_t end = 0;
  for (int i = 0; i < b->n_buffers; i++)
    if (b->buffers[i].region == MAL_R_IO && b->buffers[i].place == MAL_DEVICE)
      end = most(end, b->buffers[i].offset_bytes + b->buffers[i].bytes);
  return end;
}

/* Logits that stay from forward to backward, of one micro-batch. */
static int64_t kept_logits(const mal_block *b) {
  int64_t bytes = 0;
  for (int i = 0; i < b->n_buffers; i++) {
    const mal_buffer *f = &b->buffers[i];
    bool counted = f->region != MAL_R_STASH || f->cause != MAL_MEM_LOGITS;
    for (int k = 0; k < i && !counted; k++) /* pieces of one buffer name the same bytes */
      counted = b->buffers[k].region == MAL_R_STASH && b->buffers[k].cause == MAL_MEM_LOGITS &&
                b->buffers[k].offset_bytes == f->offset_bytes;
    if (!counted) bytes += f->bytes;
  }
  return bytes;
}

/* One block more runs in this phase: never two at once. */
static void widen(phase *f, const mal_block *b) {
  int64_t work = 0;
  for (int list = 0; list < MAL_LISTS; list++) work = most(work, b->work_bytes[list]);
  if (work + b->kernel_bytes >= f->bytes[MAL_R_WORK] + f->bytes[MAL_R_KERNEL]) {
    f->bytes[MAL_R_WORK] = work;
    f->bytes[MAL_R_KERNEL] = b->kernel_bytes;
    f->logits = b->logits_bytes - kept_logits(b);
  }
  f->bytes[MAL_R_BUCKET] = most(f->bytes[MAL_R_BUCKET], b->region_bytes[MAL_R_BUCKET]);
  f->bytes[MAL_R_IO] = most(f->bytes[MAL_R_IO], io_bytes(b));
}

/* Copies of what a chunk receives and sends, held as long as its stash. The first receives tokens, the last sends nothing. */
static int64_t handed_over(const mal_program *p, const mal_stage *stage) {
  const mal_profile *profile = p->plan->profile;
  int64_t parts = p->plan->layout.pp * (p->plan->layout.schedule == MAL_DUALPIPE ? 1 : stage->n_chunks), copies = 0;
  for (int c = 0; c < stage->n_chunks; c++) {
    int64_t part = stage->chunks[c].part, each = (part > 0 && profile->keeps_stage_input);
    each += part + 1 < parts && profile->keeps_stage_output;
    copies += each * stage->chunks[c].slots;
  }
  return copies * p->boundary_bytes;
}

static int64_t phase_bytes(const phase *f) {
  int64_t sum = 0;
  for (int r = 0; r < MAL_REGIONS; r++) sum += f->bytes[r];
  return sum;
}

enum { LAYERS, HEAD, EMBED, KINDS }; /* of blocks that run one at a time in the passes */

typedef struct scratch { /* what blocks need while they run, and their units of gathered weights */
  phase of[KINDS]; /* STASH: what is given back before they run backward, as less than none; only with an allocator */
  int64_t unit[KINDS], units;
} scratch;

static int kind_of(const mal_block *b) {
  return b->block_class == MAL_B_HEAD ? HEAD : b->block_class == MAL_B_EMBED ? EMBED : LAYERS;
}

static void give_back(phase *f, const mal_profile *profile, int64_t stash, int64_t logits) {
  f->logits_stash = -logits;
  f->bytes[MAL_R_STASH] = profile->offloads_stash ? -logits : -stash;
}

/* Backward goes down: what the head keeps of one micro-batch is gone when the layers run, all but its own when the embedding does. */
static void scan(const mal_program *p, mal_stage *stage, scratch *s, int64_t *logits_stash) {
  const mal_profile *profile = p->plan->profile;
  for (int c = 0; c < stage->n_chunks; c++) {
    int64_t above = 0, logits_above = 0;
    for (int i = stage->chunks[c].n_runs; i--;) {
      const mal_run *run = &stage->chunks[c].runs[i];
      const mal_block *b = &p->blocks[run->block];
      int kind = kind_of(b);
      add_persistent(b, run->count, stage);
      widen(&s->of[kind], b);
      s->unit[kind] = most(s->unit[kind], b->region_bytes[MAL_R_GATHER]);
      if (kind == LAYERS) s->units += run->count;
      *logits_stash += run->count * stage->chunks[c].slots * kept_logits(b);
      if (kind == EMBED) give_back(&s->of[EMBED], profile, above, logits_above);
      if (kind == HEAD) give_back(&s->of[LAYERS], profile, b->stash_bytes, kept_logits(b));
      above += run->count * b->stash_bytes;
      logits_above += run->count * kept_logits(b);
    }
  }
}

/* In regions every kind of block has its own place: units of both ends share one, for they are needed far apart. */
static phase placed(const scratch *s) {
  phase f = s->of[LAYERS];
  int64_t work = f.bytes[MAL_R_WORK] + f.bytes[MAL_R_KERNEL];
  for (int k = HEAD; k < KINDS; k++) {
    const phase *x = &s->of[k];
    if (x->bytes[MAL_R_WORK] + x->bytes[MAL_R_KERNEL] > work) {
      work = x->bytes[MAL_R_WORK] + x->bytes[MAL_R_KERNEL];
      f.bytes[MAL_R_WORK] = x->bytes[MAL_R_WORK], f.bytes[MAL_R_KERNEL] = x->bytes[MAL_R_KERNEL];
      f.logits = x->logits;
    }
    f.bytes[MAL_R_BUCKET] = most(f.bytes[MAL_R_BUCKET], x->bytes[MAL_R_BUCKET]);
    f.bytes[MAL_R_IO] = most(f.bytes[MAL_R_IO], x->bytes[MAL_R_IO]);
  }
  f.bytes[MAL_R_GATHER] += most(s->unit[HEAD], s->unit[EMBED]);
  f.bytes[MAL_R_STASH] = f.logits_stash = 0;
  return f;
}

/* Under an allocator the kind of block that needs most counts alone, beside the units that are ahead. */
static phase widest(const mal_profile *profile, scratch *s) {
  int64_t ahead = profile->prefetch, more = ahead + 1 < s->units ? ahead + 1 : s->units;
  int64_t beside = (ahead < s->units ? ahead : s->units) * s->unit[LAYERS];
  s->of[LAYERS].bytes[MAL_R_GATHER] = more * s->unit[LAYERS];
  if (!profile->dynamic_memory) return placed(s);
  const phase *worst = &s->of[LAYERS];
  for (int k = HEAD; k < KINDS; k++) {
    s->of[k].bytes[MAL_R_GATHER] = s->unit[k] + beside;
    if (phase_bytes(&s->of[k]) > phase_bytes(worst)) worst = &s->of[k];
  }
  return *worst;
}

/* Regions are laid out once: parts of one size share places, as many as are taken at one time. */
static int64_t static_stash(const mal_program *p, int64_t index, mal_stage *stage) {
  int64_t places[256 * MAL_HOLDS], bytes = 0;
  int pool[256][MAL_HOLDS];
  for (int c = 0; c < stage->n_chunks; c++) {
    const mal_held *h = &stage->chunks[c].held;
    const int64_t part[MAL_HOLDS] = {h->f_to_b, h->f_to_w, h->b_to_w};
    for (int k = 0; k < MAL_HOLDS; k++) {
      int i = 0;
      while (i < stage->n_pools && stage->pools[i].bytes != part[k]) i++;
      if (part[k] && i == stage->n_pools) stage->pools[stage->n_pools++].bytes = part[k];
      stage->chunks[c].pool[k] = pool[c][k] = part[k] ? i : -1;
    }
  }
  mal_schedule_places(&p->plan->layout, p->micro_batches, index, (const int(*)[MAL_HOLDS])pool, stage->n_pools, places);
  for (int i = 0; i < stage->n_pools; i++) {
    stage->pools[i].places = places[i];
    bytes += stage->pools[i].bytes * places[i];
  }
  return bytes;
}

static phase passes(const mal_program *p, int64_t index, mal_stage *stage) {
  const mal_layout *l = &p->plan->layout;
  scratch s = {0};
  mal_held held[256];
  int64_t logits_stash = 0;
  for (int c = 0; c < stage->n_chunks; c++) held[c] = stage->chunks[c].held;
  scan(p, stage, &s, &logits_stash);
  phase f = widest(p->plan->profile, &s);
  f.logits_stash += logits_stash;
  if (p->plan->profile->dynamic_memory)
    f.bytes[MAL_R_STASH] += mal_schedule_peak(l, p->micro_batches, index, held) + handed_over(p, stage);
  else
    f.bytes[MAL_R_STASH] = static_stash(p, index, stage);
  if (p->plan->profile->offloads_stash) {
    stage->host_bytes += f.bytes[MAL_R_STASH] - f.logits_stash;
    f.bytes[MAL_R_STASH] = f.logits_stash;
  }
  if (l->pp > 1) { /* messages that came and one that goes, beside those in use */
    if (!p->plan->profile->dynamic_memory) stage->incoming = mal_schedule_incoming(l, p->micro_batches, index);
    f.bytes[MAL_R_IO] = mal_align(f.bytes[MAL_R_IO]) + (1 + stage->incoming) * mal_align(p->boundary_bytes);
  }
  return f;
}

static phase end_phase(const mal_block *b, mal_stage *stage) {
  phase f = {0};
  add_persistent(b, 1, stage);
  widen(&f, b);
  return f;
}

/* --- causes ------------------------------------------------------------------------------------------------------------------ */

/* Communicators that a rank holds: one per group of more than one rank, and one for all. */
static int64_t communicators(const mal_plan *plan) {
  const mal_layout *l = &plan->layout;
  int64_t n = (mal_layout_world(l) > 1) + (l->tp > 1) + (l->cp > 1) + (l->cp * l->dp > 1) + (l->pp > 1);
  if (mal_model_has_experts(&plan->model))
    n += (l->ep > 1) + (l->etp > 1 && l->etp != l->tp) + (l->ep > 1 && mal_layout_edp(l) > 1);
  if (l->zero == 3 && l->hybrid > 0 && l->hybrid < l->cp * l->dp) n++;
  return n;
}

/* cached: bytes of other phases that the allocator keeps. */
static void by_cause(const mal_program *p, mal_stage *stage, const phase *f, int64_t cached) {
  const mal_profile *profile = p->plan->profile;
  int64_t *m = stage->memory_bytes, *r = stage->region_bytes;
  int64_t work = r[MAL_R_WORK] + r[MAL_R_KERNEL] + r[MAL_R_IO], logits = f->logits < work ? f->logits : work;
  int64_t kept = f->logits_stash < r[MAL_R_STASH] ? f->logits_stash : r[MAL_R_STASH];
  if (logits < 0) logits = 0;
  m[MAL_MEM_WEIGHTS] = r[MAL_R_PARAM];
  m[MAL_MEM_GRADIENTS] = r[MAL_R_GRAD];
  m[MAL_MEM_MASTER] = r[MAL_R_MASTER];
  m[MAL_MEM_OPTIMIZER] = r[MAL_R_OPT];
  m[MAL_MEM_STASH] = r[MAL_R_STASH] - kept;
  m[MAL_MEM_LOGITS] = logits + kept;
  m[MAL_MEM_GATHERED] = r[MAL_R_GATHER];
  m[MAL_MEM_BUCKETS] = r[MAL_R_BUCKET];
  m[MAL_MEM_WORKSPACE] = work - logits;
  m[MAL_MEM_COMMUNICATORS] = communicators(p->plan) * profile->communicator_bytes;
  m[MAL_MEM_CONTEXT] = profile->context_bytes;
  m[MAL_MEM_SLACK] = cached + (int64_t)(profile->slack * (double)phase_bytes(f));
  stage->total_bytes = 0;
  for (int i = 0; i < MAL_MEM_CAUSES; i++) stage->total_bytes += m[i];
}

static int64_t largest_gradients(const mal_program *p, const mal_stage *stage) {
  int64_t bytes = 0;
  for (int c = 0; c < stage->n_chunks; c++)
    for (int i = 0; i < stage->chunks[c].n_runs; i++)
      bytes = most(bytes, p->blocks[stage->chunks[c].runs[i].block].region_bytes[MAL_R_GRAD]);
  return bytes;
}

/* Those of the head exist beside the whole stash, as made and, where kept wider, as kept. ZeRO-2 and 3: BUCKET has them. */
static int64_t first_gradients(const mal_program *p, const mal_stage *stage) {
  int64_t made = mal_dtype_bytes[mal_precision_store((mal_precision)p->plan->job.precision)];
  int64_t kept = made < 4 && p->plan->profile->grad_bytes >= 4 ? 4 : made;
  int64_t bytes = p->plan->layout.zero >= 2 ? 0 : largest_gradients(p, stage);
  return made == kept ? bytes : bytes / kept * (made + kept);
}

/* Gradients that do not outlast their step: PASSES ends with all of them and no stash, the phases after it have them. */
static void settle_gradients(const mal_program *p, mal_stage *stage, phase phases[PHASES]) {
  const mal_profile *profile = p->plan->profile;
  int64_t gradients = stage->region_bytes[MAL_R_GRAD];
  phases[PASSES_END] = (phase){0};
  if (profile->optimizer_in_backward) {
    stage->region_bytes[MAL_R_GRAD] = largest_gradients(p, stage);
  } else if (profile->lazy_grads && p->micro_batches == 1) {
    stage->region_bytes[MAL_R_GRAD] = 0;
    phases[PASSES_END] = phases[PASSES];
    phases[PASSES].bytes[MAL_R_GRAD] = first_gradients(p, stage);
    phases[PASSES_END].bytes[MAL_R_STASH] = phases[PASSES_END].logits_stash = 0;
    for (int k = PASSES_END; k < PHASES; k++) phases[k].bytes[MAL_R_GRAD] = gradients;
  }
}

int64_t mal_block_lasting(const mal_plan *plan, const mal_block *b) {
  bool passing = plan->profile->optimizer_in_backward || plan->profile->lazy_grads;
  return b->region_bytes[MAL_R_PARAM] + (passing ? 0 : b->region_bytes[MAL_R_GRAD]);
}

void mal_program_memory(mal_program *p) {
  for (int64_t i = 0; i < p->plan->layout.pp; i++) {
    mal_stage *stage = &p->stages[i];
    phase phases[PHASES] = {[PASSES] = passes(p, i, stage),
                            [SYNC] = end_phase(&p->blocks[stage->sync], stage),
                            [UPDATE] = end_phase(&p->blocks[stage->optimizer], stage)};
    settle_gradients(p, stage, phases);
    const phase *worst = &phases[PASSES];
    int64_t all = phase_bytes(worst);
    for (int k = PASSES_END; k < PHASES; k++) {
      all += phase_bytes(&phases[k]);
      if (phase_bytes(&phases[k]) > phase_bytes(worst)) worst = &phases[k];
    }
    for (int r = 0; r < MAL_REGIONS; r++) stage->region_bytes[r] += worst->bytes[r];
    by_cause(p, stage, worst, p->plan->profile->phases_add ? all - phase_bytes(worst) : 0);
    if (stage->total_bytes > p->stages[p->worst_stage].total_bytes) p->worst_stage = (int)i;
  }
}
