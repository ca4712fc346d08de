/* Whole programs: every weight held once, bytes per parameter as each framework documents them, memory as a sum of regions,
 * the heaviest stage, FLOPs that no layout changes. */
#include "core/catalog.h"
#include "core/file.h"
#include "core/utf8.h"
#include "lower.h"
#include "schema.h"
#include <math.h>

static void near(double got, double wanted, double share) {
  if (fabs(got - wanted) > share * fabs(wanted))
    fail_msg("%.10g is not within %g %% of %.10g", got, 100 * share, wanted);
}

static int64_t elements(const mal_program *p) {
  int64_t all = 0;
  for (int64_t s = 0; s < p->plan->layout.pp; s++) {
    const mal_stage *g = &p->stages[s];
    all += g->dense_elements + g->expert_elements + g->frozen_dense_elements + g->frozen_expert_elements;
  }
  return all;
}

/* --- weights and layers ------------------------------------------------------------------------------------------------ */

static void every_weight_once(void **state) {
  (void)state;
  static const char *const models[] = {"llama-3-8b",       "gpt2",     "mixtral-8x7b", "gemma-2-9b",
                                       "deepseek-v2-lite", "bloom-3b", "deepseek-v3"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    const mal_program *p = lower(models[i], "8xh100-sxm", "", "fsdp2", "{seq: 512}");
    if (elements(p) != p->plan->model.parameters)
      fail_msg("%s: %lld elements, %lld parameters", models[i], (long long)elements(p),
               (long long)p->plan->model.parameters);
  }
  /* A tied table on two stages is two copies. */
  const mal_program *p = lower("gpt2", "8xh100-sxm", "pp=2", "fsdp2", "{seq: 512}");
  assert_int_equal(elements(p), p->plan->model.parameters + p->plan->model.vocab * p->plan->model.hidden);
}

/* Modules that predict further tokens read one embedding: a copy of it where the stage has none, none beside a tied head. */
static void modules_share_the_embedding(void **state) {
  (void)state;
  const int64_t table = INT64_C(129280) * 7168; /* 1010 × 128 rows: nothing to pad */
  char *text;
  size_t length;
  mal_error e;
  const mal_program *p = lower("deepseek-v3", "16x8xh100-sxm", "ep=8,pp=2", "megatron", "{seq: 512}");
  assert_ok(mal_file_read(&arena, mal_print(&arena, "%s/models/deepseek-v3.json", mal_catalog_root()), 1 << 20, &text,
                          &length, &e),
            e);
  char *modules = strstr(text, "\"num_nextn_predict_layers\": 1") + strlen("\"num_nextn_predict_layers\": ");
  for (int tied = 0; tied < 2; tied++) {
    int64_t held[4];
    for (int n = 0; n < 4; n++) {
      mal_plan plan = *p->plan;
      mal_program again;
      *modules = (char)('0' + n);
      assert_ok(mal_model_parse_config(&arena, "config.json", text, length, &plan.model, &e), e);
      plan.model.tied_embeddings = tied;
      assert_ok(mal_lower(&arena, &plan, &again, &e), e);
      held[n] = again.stages[1].dense_elements;
    }
    assert_int_equal(held[2] - held[1], held[3] - held[2]);
    assert_int_equal(held[1] - held[0] - (held[2] - held[1]), tied ? 0 : table);
  }
}

static int64_t layers_in(const mal_program *p, int64_t stage) {
  int64_t n = 0;
  for (int c = 0; c < p->stages[stage].n_chunks; c++)
    for (int i = 0; i < p->stages[stage].chunks[c].n_runs; i++) {
      const mal_run *run = &p->stages[stage].chunks[c].runs[i];
      if (p->blocks[run->block].block_class == MAL_B_LAYER) n += run->count;
    }
  return n;
}

static void stages_hold_the_layers(void **state) {
  (void)state;
  static const char *const layouts[] = {"pp=4",
                                        "pp=4,vpp=2",
                                        "pp=8,embedding-in-layers=on",
                                        "pp=4,first-stage-layers=19,last-stage-layers=19",
                                        "pp=4,recompute=full,recompute-layers=7",
                                        "pp=4,schedule=zb-h1"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    const mal_program *p = lower("llama-3-70b", "8x8xh100-sxm", layouts[i], "megatron", "{accumulation: 16}");
    int64_t all = 0;
    for (int64_t s = 0; s < p->plan->layout.pp; s++) all += layers_in(p, s);
    assert_int_equal(all, 80);
    assert_true(p->n_blocks <= 10 + 2 * p->plan->layout.pp);
  }
  const mal_program *p = lower("llama-3-70b", "8x8xh100-sxm", layouts[3], "megatron", "{accumulation: 16}");
  assert_int_equal(layers_in(p, 0), 19);
  assert_int_equal(layers_in(p, 1), 21);
  p = lower("llama-3-70b", "8x8xh100-sxm", "pp=4,vpp=2,recompute=full,recompute-layers=7", "megatron",
            "{accumulation: 16}");
  for (int64_t s = 0; s < 4; s++) {
    int64_t full = 0;
    for (int c = 0; c < 2; c++)
      for (int i = 0; i < p->stages[s].chunks[c].n_runs; i++) {
        const mal_run *run = &p->stages[s].chunks[c].runs[i];
        const mal_block *b = &p->blocks[run->block];
        if (b->block_class == MAL_B_LAYER && b->recompute == MAL_RECOMPUTE_FULL) full += run->count;
      }
    assert_int_equal(full, 7);
  }
  p = lower("deepseek-v3", "128x8xh100-sxm", "pp=16,ep=64,schedule=dualpipe", "megatron",
            "{seq: 4096, accumulation: 32}");
  int64_t all = 0;
  for (int64_t s = 0; s < 16; s++) all += layers_in(p, s);
  assert_int_equal(all, 2 * (61 + 1)); /* every part lies on two stages; one MTP module */
  assert_true(p->split_backward);
}

/* --- bytes per parameter ------------------------------------------------------------------------------------------------- */

static double state_bytes(const mal_program *p, int64_t stage) {
  const int64_t *r = p->stages[stage].region_bytes;
  double bytes = (double)(r[MAL_R_PARAM] + r[MAL_R_GRAD] + r[MAL_R_MASTER] + r[MAL_R_OPT]);
  return bytes / (double)(p->stages[stage].dense_elements + p->stages[stage].expert_elements);
}

static void bytes_per_parameter(void **state) {
  (void)state;
  const struct {
    const char *profile, *layout, *job;
    double bytes;
  } all[] = {
      /* Korthikanti et al., Narayanan et al.: 16-bit weight and gradient, fp32 master and two moments: 16 */
      {"megatron-2021", "tp=8,dp=8,zero=0", "{precision: fp16}", 2 + 2 + 12},
      /* Megatron-Core, docs/source/api-guide/dist_optimizer: bf16 weight, fp32 gradient: 18, and 6 + 12/d */
      {"megatron", "tp=8,dp=8,zero=0", "{}", 18},
      {"megatron", "tp=8,dp=8,zero=1", "{}", 6 + 12. / 8},
      {"megatron", "tp=8,dp=8,zero=2", "{}", 2 + 16. / 8},
      /* FSDP2: fp32 shard that is its own master, fp32 gradient, two moments: 16/d; of one micro-batch the gradients come
       * as the activations go, and are no state */
      {"fsdp2", "dp=64", "{accumulation: 2}", 16. / 64},
      {"fsdp2", "dp=64", "{}", 12. / 64},
      {"fsdp2", "dp=64,hybrid=8", "{accumulation: 2}", 16. / 8},
      /* DeepSpeed fp16 ZeRO-1: 4 + 18/d would count its fp32 gradient shard; bf16: 2 + 2 + 4 fp32 accumulation */
      {"megatron-deepspeed-bf16", "tp=8,dp=8,zero=1", "{}", 8 + 12. / 8},
      {"megatron", "tp=8,dp=8,zero=1", "{optimizer: adamw-bf16}", 6 + 4. / 8},
      {"megatron", "tp=8,dp=8,zero=1", "{optimizer: sgd}", 6 + 4. / 8},
      {"megatron", "tp=8,dp=8,zero=1", "{precision: fp32}", 8 + 8. / 8},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const mal_program *p = lower("llama-3-70b", "8x8xh100-sxm", all[i].layout, all[i].profile, all[i].job);
    double got = state_bytes(p, 0);
    if (fabs(got - all[i].bytes) > 0.002 * all[i].bytes)
      fail_msg("%s %s %s: %.6g bytes per parameter, not %.6g", all[i].profile, all[i].layout, all[i].job, got,
               all[i].bytes);
  }
}

static void experts_shard_over_their_own_ranks(void **state) {
  (void)state;
  const mal_program *p = lower("mixtral-8x7b", "8x8xh100-sxm", "ep=8,dp=64,zero=1", "megatron", "{}");
  const mal_stage *s = &p->stages[0];
  double dense = (double)s->dense_elements, expert = (double)s->expert_elements;
  near((double)s->region_bytes[MAL_R_OPT], 8 * (dense / 64 + expert / 8), 0.002);
  near((double)s->region_bytes[MAL_R_PARAM], 2 * (dense + expert), 0.002);
  near(expert, 32. * 3 * 4096 * 14336, 1e-9); /* one of eight experts in each layer */
}

static void frozen_weights_have_no_states(void **state) {
  (void)state;
  const mal_program *lora = lower("llama-3-70b", "8xh100-sxm", "dp=8,zero=0", "megatron", "{train: lora}");
  const mal_stage *s = &lora->stages[0];
  near((double)s->frozen_dense_elements, (double)lora->plan->model.parameters, 0.01);
  assert_true(s->dense_elements > 0 && s->dense_elements < s->frozen_dense_elements / 100);
  near((double)(s->region_bytes[MAL_R_GRAD] + s->region_bytes[MAL_R_MASTER] + s->region_bytes[MAL_R_OPT]),
       16. * (double)s->dense_elements, 0.01);
  near((double)s->region_bytes[MAL_R_PARAM], 2. * (double)(s->frozen_dense_elements + s->dense_elements), 0.01);
  /* QLoRA (Dettmers et al. 2023): NF4 with double quantisation, 4.127 bits a weight of the linear layers */
  const mal_program *qlora = lower("llama-3-70b", "8xh100-sxm", "dp=8,zero=0", "megatron", "{train: qlora}");
  double linear = 80. * (8192. * 8192 * 2 + 2 * 8192. * 1024 + 3 * 8192. * 28672), rest = 2. * 128256 * 8192;
  near((double)qlora->stages[0].region_bytes[MAL_R_PARAM],
       linear * 4.127 / 8 + 2 * rest + 2. * (double)qlora->stages[0].dense_elements, 0.02);
}

static void offload_moves_states(void **state) {
  (void)state;
  const mal_program *here = lower("llama-3-8b", "8xh100-sxm", "dp=8,zero=3", "fsdp2", "{}");
  const mal_program *away = lower("llama-3-8b", "8xh100-sxm", "dp=8,zero=3,offload-optimizer=cpu", "fsdp2", "{}");
  const mal_stage *h = &here->stages[0], *w = &away->stages[0];
  assert_true(w->total_bytes < h->total_bytes);
  assert_true(w->host_bytes >= h->region_bytes[MAL_R_OPT]);
  assert_int_equal(w->region_bytes[MAL_R_OPT], 0);
  assert_int_equal(h->host_bytes, 0);
}

/* --- one stage played block by block -------------------------------------------------------------------------------------- */

static int64_t working(const mal_block *b, int from, int to) {
  int64_t work = 0, io = 0;
  for (int l = from; l <= to; l++)
    if (b->work_bytes[l] > work) work = b->work_bytes[l];
  for (int i = 0; i < b->n_buffers; i++) {
    const mal_buffer *f = &b->buffers[i];
    if (f->region == MAL_R_IO && f->place == MAL_DEVICE && f->offset_bytes + f->bytes > io)
      io = f->offset_bytes + f->bytes;
  }
  return work + b->kernel_bytes + io + b->region_bytes[MAL_R_BUCKET];
}

/* Most bytes beside the states while two micro-batches go through the only stage, one after the other: blocks run one at a time, each
 * leaves its stash in forward and gives it back in backward; units of gathered weights: the block's own and those ahead. */
static int64_t played(const mal_program *p) {
  const mal_chunk *c = &p->stages[0].chunks[0];
  int64_t held = 0, peak = 0, ahead = p->plan->profile->prefetch, layer_unit = 0, layers = 0;
  for (int r = 0; r < c->n_runs; r++) {
    const mal_block *b = &p->blocks[c->runs[r].block];
    if (b->block_class != MAL_B_LAYER) continue;
    layers += c->runs[r].count;
    if (b->region_bytes[MAL_R_GATHER] > layer_unit) layer_unit = b->region_bytes[MAL_R_GATHER];
  }
  if (ahead > layers - 1) ahead = layers - 1;
  for (int way = 0; way < 2; way++)
    for (int k = 0; k < c->n_runs; k++) {
      const mal_run *run = &c->runs[way ? c->n_runs - 1 - k : k];
      const mal_block *b = &p->blocks[run->block];
      int64_t unit = b->region_bytes[MAL_R_GATHER] + ahead * layer_unit;
      for (int64_t n = 0; n < run->count; n++) {
        if (!way) held += b->stash_bytes;
        int64_t now = held + unit + (way ? working(b, MAL_L_B, MAL_LISTS - 1) : working(b, MAL_L_F, MAL_L_F));
        if (now > peak) peak = now;
        if (way) held -= b->stash_bytes;
      }
    }
  assert_int_equal(held, 0);
  return peak;
}

static void peak_is_that_of_the_blocks_played(void **state) {
  (void)state;
  static const struct {
    const char *model, *profile, *layout;
  } all[] = {
      {"llama-3-8b", "fsdp2", "dp=8,zero=3,micro-batch=1"},
      {"llama-3-8b", "fsdp2", "dp=8,zero=3,micro-batch=4,recompute=full"},
      {"gemma-2-9b", "fsdp2", "dp=8,zero=3,micro-batch=4,recompute=full"}, /* a head far larger than a layer */
      {"gemma-2-9b", "torchtitan", "dp=8,zero=3,micro-batch=2,recompute=selective"},
      {"llama-3-8b", "megatron", "tp=8,micro-batch=8"},
      {"llama-3-8b", "megatron", "tp=2,zero=2,micro-batch=2,recompute=full"},
      {"mixtral-8x7b", "megatron", "ep=8,zero=1,micro-batch=4,recompute=full"}, /* a layer far larger than the head */
      {"gpt2", "torchtune", "dp=8,zero=3,micro-batch=8,recompute=full"},
      {"llama-2-70b", "fsdp2", "dp=8,zero=3,micro-batch=8,recompute=full"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const mal_program *p = lower(all[i].model, "8xh100-sxm", all[i].layout, all[i].profile, "{accumulation: 2}");
    const int64_t *r = p->stages[0].region_bytes;
    assert_true(p->plan->profile->dynamic_memory);
    int64_t told = 0, wanted = played(p);
    for (int k = 0; k < MAL_REGIONS; k++)
      if (k != MAL_R_PARAM && k != MAL_R_GRAD && k != MAL_R_MASTER && k != MAL_R_OPT) told += r[k];
    if (told != wanted)
      fail_msg("%s %s %s: %lld bytes told, %lld played", all[i].model, all[i].profile, all[i].layout, (long long)told,
               (long long)wanted);
  }
}

/* Qi et al., arXiv:2401.10241, table 1: a layer holds 34 sbh bytes before B (attention apart: here a fused kernel, whose row sums
 * are left out) and 32 sbh from B to W: the inputs of its four products, 14, and the gradients of their results, 18. Without
 * dropout the residual's gradient is the MLP's: the last product's comes to the block with B. */
static void zero_bubble_holds(void **state) {
  (void)state;
  static const struct {
    const char *profile;
    double before_b, from_f, from_b;
  } all[] = {{"zero-bubble", 34, 14, 18}, {"malha", 32, 14, 18}};
  for (int k = 0; k < 2; k++) {
    const mal_program *p =
        lower("layers=8,hidden=4096,heads=32,ffn=16384,vocab=51200", "8xa100-80-sxm",
              "pp=4,schedule=zb-h1,tp=1,attention=flash2", all[k].profile, "{seq: 2048, accumulation: 8}");
    double sbh = 2048. * 4096;
    const mal_block *b = NULL;
    for (int i = 0; i < p->n_blocks; i++)
      if (p->blocks[i].block_class == MAL_B_LAYER) b = &p->blocks[i];
    mal_held held = mal_block_holds(&arena, b, true, NULL, NULL);
    near((double)(held.f_to_b + held.f_to_w) / sbh, all[k].before_b, 0.002);
    near((double)held.f_to_w / sbh, all[k].from_f, 0.002);
    near((double)held.b_to_w / sbh, all[k].from_b, 0.002);
  }
}

/* --- sums and maxima ------------------------------------------------------------------------------------------------------ */

static int64_t sum(const int64_t *v, int n) {
  int64_t all = 0;
  for (int i = 0; i < n; i++) all += v[i];
  return all;
}

static void memory_is_a_sum_of_regions(void **state) {
  (void)state;
  static const char *const layouts[] = {"tp=2,pp=2", "zero=3", "tp=2,pp=4,schedule=zb-h1", "tp=8,recompute=full",
                                        "cp=2,tp=2,zero=2"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    const mal_program *p = lower("llama-3-8b", "8xh100-sxm", layouts[i], "malha", "{accumulation: 8}");
    for (int64_t s = 0; s < p->plan->layout.pp; s++) {
      const mal_stage *g = &p->stages[s];
      assert_int_equal(g->total_bytes, sum(g->memory_bytes, MAL_MEM_CAUSES));
      assert_int_equal(g->total_bytes, sum(g->region_bytes, MAL_REGIONS));
      for (int m = 0; m < MAL_MEM_CAUSES; m++) assert_true(g->memory_bytes[m] >= 0);
      assert_true(g->total_bytes <= p->stages[p->worst_stage].total_bytes);
    }
  }
}

static void first_stage_holds_activations(void **state) {
  (void)state;
  const mal_program *p = lower("llama-3-70b", "8x8xh100-sxm", "tp=8,pp=8", "megatron", "{accumulation: 32}");
  const mal_stage *first = &p->stages[0], *last = &p->stages[7];
  int64_t layer = 0;
  for (int i = 0; i < p->n_blocks; i++)
    if (p->blocks[i].block_class == MAL_B_LAYER) layer = p->blocks[i].stash_bytes;
  for (int64_t s = 1; s < 7; s++) assert_int_equal(p->stages[s].region_bytes[MAL_R_STASH], 10 * layer * (8 - s));
  assert_true(first->region_bytes[MAL_R_STASH] >= 10 * layer * 8);
  assert_true(last->memory_bytes[MAL_MEM_LOGITS] > 0);
  assert_int_equal(first->memory_bytes[MAL_MEM_LOGITS], 0);
}

static void recomputation_buys_memory(void **state) {
  (void)state;
  int64_t before = INT64_MAX;
  static const char *const layouts[] = {"tp=8,recompute=none", "tp=8,recompute=full,recompute-layers=20",
                                        "tp=8,recompute=full,recompute-layers=60", "tp=8,recompute=full"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    const mal_program *p = lower("llama-3-70b", "8xh100-sxm", layouts[i], "megatron", "{accumulation: 8}");
    assert_true(p->stages[0].region_bytes[MAL_R_STASH] < before);
    before = p->stages[0].region_bytes[MAL_R_STASH];
    if (i) assert_true(p->hardware_flops > p->model_flops);
  }
}

/* Korthikanti et al. 2022, Table 2: activations of a layer, s·b·h times the term; GPT-3 175B, a·s/h = 96·2048/12288 = 16. */
static void activations_of_korthikanti(void **state) {
  (void)state;
  const struct {
    const char *layout;
    double term;
  } all[] = {
      {"tp=8,pp=8,sequence-parallel=off", 10 + 24. / 8 + 5 * 16. / 8},
      {"tp=8,pp=8,sequence-parallel=on", 34. / 8 + 5 * 16. / 8},
      {"tp=8,pp=8,sequence-parallel=off,recompute=selective", 10 + 24. / 8},
      {"tp=8,pp=8,sequence-parallel=on,recompute=selective", 34. / 8},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const mal_program *p = lower("gpt3-175b", "8x8xa100-80-sxm", all[i].layout, "megatron-2021",
                                 "{precision: fp16, seq: 2048, accumulation: 32}");
    double sbh = 2048. * 12288;
    near((double)p->stages[1].region_bytes[MAL_R_STASH], 12 * 7 * sbh * all[i].term, 0.03);
  }
}

/* Peak memory over the stages, GB as printed: Qi et al. 2024 (arXiv 2401.10241), Table 5; first and last stage one layer less. */
static void published_peaks(void **state) {
  (void)state;
  static const char small[] = "layers=30,hidden=4096,heads=32,ffn=16384,vocab=50304,positions=1024";
  static const char large[] = "layers=46,hidden=5120,heads=40,ffn=20480,vocab=50304,positions=1024";
  const struct {
    const char *model, *machine, *layout, *job;
    double gib;
  } all[] = {
      {small, "8xa100-80-sxm", "pp=8,micro-batch=3,schedule=1f1b", "{seq: 1024, global-batch: 72}", 39},
      {small, "8xa100-80-sxm", "pp=8,micro-batch=3,vpp=4", "{seq: 1024, global-batch: 72}", 48},
      {small, "8xa100-80-sxm", "pp=8,micro-batch=3,schedule=zb-h1", "{seq: 1024, global-batch: 72}", 42},
      {large, "2x8xa100-80-sxm", "pp=16,micro-batch=1,schedule=1f1b", "{seq: 1024, global-batch: 48}", 32},
      {large, "2x8xa100-80-sxm", "pp=16,micro-batch=1,vpp=3", "{seq: 1024, global-batch: 48}", 39},
      {large, "2x8xa100-80-sxm", "pp=16,micro-batch=1,schedule=zb-h1", "{seq: 1024, global-batch: 48}", 33},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const char *layout = mal_print(&arena, "%s,embedding-in-layers=on", all[i].layout);
    const mal_program *p = lower(all[i].model, all[i].machine, layout, "zero-bubble", all[i].job);
    near((double)p->stages[p->worst_stage].total_bytes / 0x1p30, all[i].gib, 0.06);
  }
}

/* Each ZeRO stage shards what the one before leaves whole: no more memory, whatever else the layout says. */
static void zero_stages_never_need_more(void **state) {
  (void)state;
  static const char *const profiles[] = {"malha", "megatron",  "megatron-2021", "nemo",
                                         "fsdp2", "deepspeed", "torchtitan",    "torchtune"};
  static const char *const models[] = {"llama-3-8b", "gpt3-22b", "mixtral-8x7b", "qwen3-30b-a3b", "llama-3-70b"};
  static const char *const splits[] = {"tp=1,dp=64",
                                       "tp=2,dp=32,micro-batch=2",
                                       "tp=8,dp=8",
                                       "tp=8,dp=8,recompute=full",
                                       "tp=2,pp=4,dp=8",
                                       "tp=4,pp=2,dp=8,recompute=full",
                                       "cp=2,tp=4,dp=8,attention=flash2",
                                       "tp=8,pp=4,dp=2"};
  static const char *const jobs[] = {"{accumulation: 8}", "{accumulation: 1}",
                                     "{accumulation: 8, optimizer: adamw-8bit}"};
  for (size_t f = 0; f < sizeof profiles / sizeof *profiles; f++)
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
      for (size_t l = 0; l < sizeof splits / sizeof *splits; l++)
        for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
          int64_t before = 0;
          for (int zero = 0; zero <= 3; zero++) {
            char layout[128];
            snprintf(layout, sizeof layout, "%s,zero=%d", splits[l], zero);
            const mal_program *p = lower(models[m], "8x8xh100-sxm", layout, profiles[f], jobs[j]);
            int64_t bytes = p->stages[p->worst_stage].total_bytes;
            if (zero > 0 && bytes > before)
              fail_msg("%s %s %s %s: %.2f GiB, the stage before %.2f GiB", profiles[f], models[m], layout, jobs[j],
                       (double)bytes / 0x1p30, (double)before / 0x1p30);
            before = bytes;
          }
          mal_arena_reset(&arena);
        }
}

static void zero3_gathers_units(void **state) {
  (void)state;
  const mal_program *p = lower("llama-3-8b", "8xh100-sxm", "zero=3", "malha", "{}");
  double layer = 2. * (4096. * 4096 * 2 + 2 * 4096. * 1024 + 3 * 4096. * 14336 + 2 * 4096), end = 2. * 128256 * 4096;
  near((double)p->stages[0].region_bytes[MAL_R_GATHER], 2 * layer + end, 0.01);
  p = lower("llama-3-8b", "8xh100-sxm", "zero=3", "fsdp2", "{}"); /* an allocator: head and one ahead, or two layers */
  near((double)p->stages[0].region_bytes[MAL_R_GATHER], layer + end, 0.01);
  assert_int_equal(lower("llama-3-8b", "8xh100-sxm", "zero=1", "megatron", "{}")->stages[0].region_bytes[MAL_R_GATHER],
                   0);
}

/* --- totals --------------------------------------------------------------------------------------------------------------- */

static void flops_do_not_depend_on_layout(void **state) {
  (void)state;
  static const char *const layouts[] = {"tp=1",
                                        "tp=8",
                                        "pp=4,dp=2",
                                        "pp=2,vpp=2,dp=4",
                                        "cp=2",
                                        "zero=3,recompute=full",
                                        "pp=4,schedule=zb-h1,dp=2",
                                        "pp=2,schedule=dualpipe,dp=4"};
  double wanted = 0;
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    const mal_program *p = lower("llama-3-8b", "8xh100-sxm", layouts[i], "fsdp2", "{seq: 4096, global-batch: 64}");
    if (i == 0) {
      /* 6 N per token without the embedding, and causal attention: 6 L s h */
      double n = (double)p->plan->model.parameters - 128256. * 4096, tokens = 64. * 4096;
      wanted = p->model_flops;
      near(wanted, tokens * (6 * n + 6. * 32 * 4096 * 4096), 0.002);
    }
    near(p->model_flops, wanted, 1e-6);
    assert_true(p->hardware_flops >= p->model_flops * (1 - 1e-9));
  }
}

static void bytes_by_axis(void **state) {
  (void)state;
  const mal_program *p = lower("llama-3-8b", "8xh100-sxm", "tp=2,pp=2,dp=2,sequence-parallel=on", "megatron",
                               "{seq: 4096, accumulation: 8}");
  assert_int_equal(p->boundary_bytes, 4096 / 2 * 4096 * 2);
  near(p->bytes_sent[MAL_AXES], 8. * (double)p->boundary_bytes, 1e-9);
  /* Sequence parallelism: all-gather and reduce-scatter, twice forward and twice backward, and two more gathers backward */
  double message = 4096. * 4096 * 2;
  assert_true(p->bytes_sent[MAL_AXIS_TP] >= 8 * 16 * 8 * message / 2);
  assert_true(p->bytes_sent[MAL_AXIS_DP] > 0);
  assert_true(p->bytes_sent[MAL_AXIS_EP] == 0);
}

static void shown(void **state) {
  (void)state;
  mal_error e;
  mal_json schema;
  assert_ok(mal_json_read(&arena, MALHA_SOURCE "/docs/schema/program.json", &schema, &e), e);
  static const char *const layouts[] = {"tp=2,pp=2,dp=2", "zero=3", "pp=4,schedule=zb-h1,dp=2", "zero=3,hybrid=2"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    const mal_program *p = lower("llama-3-8b", "8xh100-sxm", layouts[i], "", "{accumulation: 8}");
    json_t *json = mal_program_json(p);
    assert_true(schema_accepts(schema.root, schema.root, json, "program"));
    json_decref(json);
    char *text = mal_program_text(&arena, p);
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
      if (mal_utf8_width(line) > 80) fail_msg("wider than 80: %s", line);
  }
  mal_json_free(&schema);
}

/* Trying many plans: MAL_NO only where the whole program is above the limit; else the same program as without one. */
static void says_early_what_cannot_fit(void **state) {
  (void)state;
  static const char *const models[] = {"llama-3-70b", "mixtral-8x7b", "gpt3-175b"};
  static const char *const layouts[] = {"tp=8,micro-batch=1", "zero=3,micro-batch=1", "zero=2,micro-batch=1",
                                        "pp=4,micro-batch=1",
                                        "zero=3,micro-batch=1,offload-params=cpu,offload-optimizer=cpu"};
  static const char *const profiles[] = {"megatron", "fsdp2", "deepspeed", "malha"};
  static const int64_t limits[] = {INT64_C(20) << 30, INT64_C(80) << 30, INT64_C(200) << 30};
  int early = 0, whole = 0;
  for (int m = 0; m < 3; m++)
    for (int l = 0; l < 5; l++)
      for (int f = 0; f < 4; f++)
        for (int k = 0; k < 3; k++) {
          mal_error e;
          mal_program p, q;
          mal_plan *plan = plan_of(models[m], "8xh100-sxm", layouts[l], profiles[f], "{seq: 2048}");
          assert_ok(mal_lower(&arena, plan, &p, &e), e);
          int64_t bytes = p.stages[p.worst_stage].total_bytes;
          mal_status s = mal_lower_within(&arena, plan, limits[k], &q, &e);
          if (s == MAL_NO && bytes <= limits[k])
            fail_msg("%s %s %s: said not to fit", models[m], layouts[l], profiles[f]);
          early += s == MAL_NO;
          if (s == MAL_NO) continue;
          assert_int_equal(s, MAL_OK);
          whole++;
          assert_int_equal(q.stages[q.worst_stage].total_bytes, bytes);
          assert_int_equal(q.n_blocks, p.n_blocks);
        }
  assert_true(early > 20 && whole > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_weight_once),
      cmocka_unit_test(modules_share_the_embedding),
      cmocka_unit_test(stages_hold_the_layers),
      cmocka_unit_test(bytes_per_parameter),
      cmocka_unit_test(experts_shard_over_their_own_ranks),
      cmocka_unit_test(frozen_weights_have_no_states),
      cmocka_unit_test(offload_moves_states),
      cmocka_unit_test(peak_is_that_of_the_blocks_played),
      cmocka_unit_test(zero_bubble_holds),
      cmocka_unit_test(memory_is_a_sum_of_regions),
      cmocka_unit_test(first_stage_holds_activations),
      cmocka_unit_test(recomputation_buys_memory),
      cmocka_unit_test(activations_of_korthikanti),
      cmocka_unit_test(published_peaks),
      cmocka_unit_test(zero_stages_never_need_more),
      cmocka_unit_test(zero3_gathers_units),
      cmocka_unit_test(flops_do_not_depend_on_layout),
      cmocka_unit_test(bytes_by_axis),
      cmocka_unit_test(shown),
      cmocka_unit_test(says_early_what_cannot_fit),
  };
  return cmocka_run_group_tests(tests, open_arena, close_arena);
}
