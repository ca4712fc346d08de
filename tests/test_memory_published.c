/* Peak memory beside what was measured and published, each with the same measure as its source, and faults of other
 * planners: ZeRO-2's and ZeRO-3's temporary peaks, embedding and head, the first stage and the last. */
#include "lower.h"
#include <math.h>

static const double GIB = 1024.0 * 1024 * 1024, GB = 1e9;

typedef enum counts { ALLOCATED, RESERVED, CARD } counts; /* tensors; the allocator's; all of the process */

static double counted(const mal_program *p, counts what) {
  const mal_stage *s = &p->stages[p->worst_stage];
  const int64_t *m = s->memory_bytes;
  double bytes = (double)s->total_bytes;
  if (what != CARD) bytes -= (double)(m[MAL_MEM_CONTEXT] + m[MAL_MEM_COMMUNICATORS]);
  if (what == ALLOCATED) bytes -= (double)m[MAL_MEM_SLACK];
  return bytes;
}

#define GPT(layers, hidden, heads, ffn, vocab)                                                                         \
  "layers=" #layers ",hidden=" #hidden ",heads=" #heads ",kv_heads=" #heads ",ffn=" #ffn ",vocab=" #vocab              \
  ",gated=0,tied=1"
#define LLAMA(layers, hidden, heads, kv, ffn, vocab, tied)                                                             \
  "layers=" #layers ",hidden=" #hidden ",heads=" #heads ",kv_heads=" #kv ",ffn=" #ffn ",vocab=" #vocab                 \
  ",gated=1,tied=" #tied

static void as_measured(void **state) {
  (void)state;
  static const char gpt_6b[] = GPT(30, 4096, 32, 16384, 51200),
                    llama_405b[] = LLAMA(4, 16384, 128, 8, 53248, 128256, 0),
                    llama_3b[] = LLAMA(28, 3072, 24, 8, 8192, 128256, 1), bloom[] = GPT(72, 14336, 64, 57344, 250880),
                    llama_9b[] = LLAMA(32, 4096, 32, 32, 14336, 131072, 0);
  const struct {
    const char *model, *machine, *layout, *profile, *job;
    counts what;
    double measured, unit, tolerance;
  } all[] = {
      /* Qi et al., arXiv:2401.10241, table 4 */
      {gpt_6b, "8xa100-80-sxm", "pp=8,zero=0,micro-batch=3,attention=unfused,embedding-in-layers", "zero-bubble",
       "{seq: 1024, global-batch: 72}", ALLOCATED, 39, GB, 0.03},
      {gpt_6b, "8xa100-80-sxm", "pp=8,zero=0,micro-batch=3,attention=unfused,embedding-in-layers,schedule=zb-h1",
       "zero-bubble", "{seq: 1024, global-batch: 72}", ALLOCATED, 42, GB, 0.03},
      {gpt_6b, "8xa100-80-sxm", "pp=8,zero=0,micro-batch=3,attention=unfused,embedding-in-layers,schedule=zb-2p",
       "zero-bubble", "{seq: 1024, global-batch: 72}", ALLOCATED, 70, GB, 0.03},
      /* MooreThreads/SimuMax@4dcaae5 docs/b200/b200_release_v1.2_summary.md, Megatron-LM with Transformer Engine */
      {llama_405b, "8xb200-sxm", "tp=8,zero=1,micro-batch=1", "simumax", "{seq: 4096, global-batch: 4}", ALLOCATED,
       38.6, GIB, 0.04},
      {llama_405b, "8xb200-sxm", "tp=2,dp=4,zero=1,micro-batch=1", "simumax", "{seq: 4096, global-batch: 16}",
       ALLOCATED, 81.6, GIB, 0.04},
      /* pytorch/torchtune@bd2a0fc README.md, optimization flags: packed, chunked loss, + activation checkpointing; 70B */
      {llama_3b, "1xa100-80-sxm", "zero=0,micro-batch=2", "torchtune-eager",
       "{seq: 4096, global-batch: 2, optimizer: adamw-bf16}", ALLOCATED, 60.0, GIB, 0.04},
      {llama_3b, "1xa100-80-sxm", "zero=0,micro-batch=2", "torchtune",
       "{seq: 4096, global-batch: 2, optimizer: adamw-bf16}", ALLOCATED, 42.9, GIB, 0.04},
      {llama_3b, "1xa100-80-sxm", "zero=0,micro-batch=2,recompute=full", "torchtune",
       "{seq: 4096, global-batch: 2, optimizer: adamw-bf16}", ALLOCATED, 24.9, GIB, 0.04},
      {"llama-3.1-70b", "8xa100-80-sxm", "zero=3,micro-batch=2,recompute=full,offload-params=cpu,offload-optimizer=cpu",
       "torchtune", "{seq: 2048, global-batch: 16, optimizer: adamw-bf16}", ALLOCATED, 13.9, GIB, 0.05},
      /* bigscience-workshop/bigscience@9e64ede chronicles-prequel.md, 48 node contenders, nvidia-smi */
      {bloom, "48x8xa100-80-sxm",
       "tp=8,pp=12,zero=1,sequence-parallel=off,micro-batch=2,recompute=full,"
       "attention=unfused",
       "megatron-deepspeed", "{seq: 2048, global-batch: 2048, precision: fp16}", CARD, 37, GIB, 0.05},
      /* huggingface/nanotron@2411b02 docs/benchmark_summary.svg */
      {llama_9b, "2x8xh100-sxm", "tp=4,zero=1,sequence-parallel=on,micro-batch=4", "nanotron",
       "{seq: 4096, global-batch: 256}", RESERVED, 58.3, GIB, 0.05},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const mal_program *p = lower(all[i].model, all[i].machine, all[i].layout, all[i].profile, all[i].job);
    double got = counted(p, all[i].what) / all[i].unit;
    if (fabs(got / all[i].measured - 1) > all[i].tolerance)
      fail_msg("%s, %s: %.2f, measured %.2f", all[i].profile, all[i].layout, got, all[i].measured);
  }
}

/* --- faults of others ------------------------------------------------------------------------------------------------------- */

static int64_t most_gradients(const mal_program *p, const mal_stage *s) {
  int64_t most = 0;
  for (int i = 0; i < s->chunks[0].n_runs; i++) {
    const mal_block *b = &p->blocks[s->chunks[0].runs[i].block];
    if (b->dense_elements * 2 > most) most = b->dense_elements * 2;
  }
  return most;
}

/* Gradients of a unit are whole on each rank before they are scattered. */
static void zero2_peaks_above_its_shards(void **state) {
  (void)state;
  const mal_program *p = lower("llama-3-8b", "8xh100-sxm", "dp=8,zero=2", "megatron", "{seq: 4096}");
  const mal_stage *s = &p->stages[0];
  assert_true(s->region_bytes[MAL_R_BUCKET] >= most_gradients(p, s));
  assert_true(s->memory_bytes[MAL_MEM_BUCKETS] == s->region_bytes[MAL_R_BUCKET]);
}

/* Weights of units in use are whole too: estimates of states alone say 0.5 GB where 15 to 21 GB are used. */
static void zero3_is_more_than_states_over_ranks(void **state) {
  (void)state;
  const mal_program *p =
      lower("llama-3-8b", "64x8xh100-sxm", "zero=3,micro-batch=1,recompute=full", "fsdp2", "{seq: 8192}");
  const mal_stage *s = &p->stages[0];
  double states = 16 * 8.03e9 / 512, layer = 2 * 218.1e6, table = 2 * 128256. * 4096;
  assert_true((double)s->total_bytes > states + 2 * layer);
  assert_true((double)s->region_bytes[MAL_R_GATHER] >= fmin(2 * layer, layer + table) * 0.99);
  assert_true(s->total_bytes > 10 * GIB && s->total_bytes < 25 * GIB);
}

/* The first stage holds the table and most micro-batches, the last the head and the logits. */
static void ends_of_the_pipeline(void **state) {
  (void)state;
  const mal_program *p = lower("llama-3-8b", "4x8xh100-sxm", "pp=4,dp=8,zero=0,micro-batch=1,attention=flash2",
                               "megatron", "{seq: 4096, accumulation: 16}");
  int64_t table = 128256LL * 4096;
  assert_true(p->stages[0].dense_elements - p->stages[1].dense_elements == table);
  assert_true(p->stages[3].dense_elements - p->stages[2].dense_elements >= table);
  for (int s = 0; s < 3; s++)
    assert_true(p->stages[s].memory_bytes[MAL_MEM_STASH] > p->stages[s + 1].memory_bytes[MAL_MEM_STASH]);
  for (int s = 0; s < 3; s++) assert_int_equal(p->stages[s].memory_bytes[MAL_MEM_LOGITS], 0);
  assert_true((double)p->stages[3].memory_bytes[MAL_MEM_LOGITS] >= 6. * 4096 * 128256);
  for (int s = 0; s < 4; s++) assert_true(p->stages[p->worst_stage].total_bytes >= p->stages[s].total_bytes);
}

/* A full recomputation keeps one hidden state a layer; what it repeats is work of one layer only. */
static void recomputation_is_not_free_of_work(void **state) {
  (void)state;
  const mal_program *none = lower("llama-3-8b", "8xh100-sxm", "micro-batch=1", "malha", "{seq: 8192}");
  const mal_program *full = lower("llama-3-8b", "8xh100-sxm", "micro-batch=1,recompute=full", "malha", "{seq: 8192}");
  assert_true(full->stages[0].region_bytes[MAL_R_STASH] < none->stages[0].region_bytes[MAL_R_STASH] / 4);
  assert_true(full->stages[0].region_bytes[MAL_R_WORK] >= none->stages[0].region_bytes[MAL_R_WORK]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_measured),
      cmocka_unit_test(zero2_peaks_above_its_shards),
      cmocka_unit_test(zero3_is_more_than_states_over_ranks),
      cmocka_unit_test(ends_of_the_pipeline),
      cmocka_unit_test(recomputation_is_not_free_of_work),
  };
  return cmocka_run_group_tests(tests, open_arena, close_arena);
}
