/* What every list must keep to, whatever the model and the layout: values are there when they are read, bytes are not used
 * twice at once, streams are ordered where they share bytes, groups issue in one order, each trained weight gets its gradient
 * once, packing is tight. Checked by playing the lists, not by asking the code that made them. */
#include "plan/plan.h"
#include "program_block.h"
#include <stdlib.h>

typedef struct play { /* lists that run one after the other and share their work */
  const mal_block *b;
  const mal_instruction **at;
  int n;
  uint64_t (*before)[16]; /* bit j of before[i]: j happens before i */
} play;

enum { MOST = 1024 };
static const char *where; /* the plan, for messages */

/* Streams are joined between lists: `starts` marks the first instruction of each. */
static play order_of(const mal_block *b, const mal_list *lists, int n_lists) {
  play p = {.b = b};
  for (int l = 0; l < n_lists; l++) p.n += b->count[lists[l]];
  assert_true(p.n <= MOST);
  p.at = MAL_ARRAY(&arena, const mal_instruction *, p.n);
  p.before = mal_alloc_array(&arena, (size_t)p.n + 1, sizeof *p.before);
  int n = 0, last[MAL_STREAMS], *recorder = MAL_ARRAY(&arena, int, b->n_events + 1);
  for (int l = 0; l < n_lists; l++) {
    int first = n;
    for (int s = 0; s < MAL_STREAMS; s++) last[s] = -1;
    for (int k = 0; k < b->count[lists[l]]; k++, n++) {
      const mal_instruction *x = p.at[n] = &b->list[lists[l]][k];
      for (int j = 0; j < first; j++) p.before[n][j / 64] |= UINT64_C(1) << j % 64;
      int deps[3] = {last[x->stream], -1, -1};
      for (int w = 0; w < 2; w++)
        if (x->wait[w] != MAL_NO_EVENT) deps[1 + w] = recorder[x->wait[w]] - 1;
      for (int d = 0; d < 3; d++) {
        if (d > 0 && x->wait[d - 1] != MAL_NO_EVENT && deps[d] < 0)
          fail_msg("%s waits for an event nobody recorded", b->name);
        if (deps[d] < 0) continue;
        for (int w = 0; w < 16; w++) p.before[n][w] |= p.before[deps[d]][w];
        p.before[n][deps[d] / 64] |= UINT64_C(1) << deps[d] % 64;
      }
      last[x->stream] = n;
      if (x->record != MAL_NO_EVENT) recorder[x->record] = n + 1;
    }
  }
  return p;
}

static bool happens_before(const play *p, int i, int j) { return p->before[j][i / 64] >> i % 64 & 1; }

static bool touches(const mal_instruction *x, int f, bool output) {
  for (int k = 0; k < (output ? MAL_OUTPUTS : MAL_INPUTS); k++)
    if ((output ? x->out[k] : x->in[k]) == f) return true;
  return false;
}

static bool overlap(const mal_buffer *x, const mal_buffer *y) {
  return x->region == y->region && x->place == y->place && x->offset_bytes < y->offset_bytes + y->bytes &&
         y->offset_bytes < x->offset_bytes + x->bytes && x->bytes && y->bytes;
}

/* Two accesses of the same bytes of which one writes are ordered; in WORK, nobody writes over what will still be read. */
static void bytes_are_safe(const play *p) {
  const mal_block *b = p->b;
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < MAL_OUTPUTS; k++) {
      int f = p->at[i]->out[k];
      if (f == MAL_NO_BUFFER) continue;
      for (int j = 0; j < p->n; j++)
        for (int m = 0; m < MAL_INPUTS + MAL_OUTPUTS; m++) {
          int g = m < MAL_INPUTS ? p->at[j]->in[m] : p->at[j]->out[m - MAL_INPUTS];
          if (g == MAL_NO_BUFFER || i == j || !overlap(&b->buffers[f], &b->buffers[g])) continue;
          if (!happens_before(p, i, j) && !happens_before(p, j, i))
            fail_msg("%s: %s of %d and %s of %d share bytes and no order", b->name, b->buffers[f].name, i,
                     b->buffers[g].name, j);
        }
    }
}

/* What WORK is read was written by the latest of all that wrote there. */
static void values_are_there(const play *p) {
  const mal_block *b = p->b;
  for (int j = 0; j < p->n; j++)
    for (int m = 0; m < MAL_INPUTS; m++) {
      int f = p->at[j]->in[m], writer = -1;
      if (f == MAL_NO_BUFFER || b->buffers[f].region != MAL_R_WORK) continue;
      for (int i = 0; i < p->n; i++)
        if (i != j && touches(p->at[i], f, true) && happens_before(p, i, j) &&
            (writer < 0 || happens_before(p, writer, i)))
          writer = i;
      if (writer < 0)
        fail_msg("%s: instruction %d (%s) reads %s, which nobody wrote", b->name, j, mal_ops[p->at[j]->op].name,
                 b->buffers[f].name);
      for (int i = 0; i < p->n; i++)
        for (int k = 0; k < MAL_OUTPUTS; k++) {
          int g = p->at[i]->out[k];
          if (g == MAL_NO_BUFFER || g == f || !overlap(&b->buffers[f], &b->buffers[g])) continue;
          if (happens_before(p, writer, i) && happens_before(p, i, j))
            fail_msg("%s: %s is overwritten by %s before instruction %d reads it", b->name, b->buffers[f].name,
                     b->buffers[g].name, j);
        }
    }
}

/* Most bytes that may hold a value while one instruction runs: of each buffer, some access is not over before it starts, and
 * the first need not wait until it ends. On one stream that is what lives in list order. Work is packed close to it. */
static int64_t live_bytes(const play *p, int64_t *extent) {
  const mal_block *b = p->b;
  int64_t most = 0, *alive = MAL_ARRAY(&arena, int64_t, p->n + 1);
  *extent = 0;
  for (int f = 0; f < b->n_buffers; f++) {
    const mal_buffer *x = &b->buffers[f];
    int first = -1;
    if (x->region != MAL_R_WORK) continue;
    for (int i = p->n - 1; i >= 0; i--)
      if (touches(p->at[i], f, true) || touches(p->at[i], f, false)) first = i;
    if (first < 0) continue;
    if (x->offset_bytes + x->bytes > *extent) *extent = x->offset_bytes + x->bytes;
    for (int i = 0; i < p->n; i++) {
      bool over = true;
      for (int j = 0; j < p->n && over; j++)
        over = !(touches(p->at[j], f, true) || touches(p->at[j], f, false)) || happens_before(p, j, i);
      if (!over && !happens_before(p, i, first)) alive[i] += (x->bytes + 63) / 64 * 64;
    }
  }
  for (int i = 0; i < p->n; i++)
    if (alive[i] > most) most = alive[i];
  return most;
}

static double packed = 1.03; /* places are found greedily: lists that repeat much of a layer leave more gaps */

static void work_is_packed(const play *p, mal_list list, bool tight) {
  int64_t extent, live = live_bytes(p, &extent), work = p->b->work_bytes[list];
  if (extent > work || work >= extent + 64)
    fail_msg("%s: work is %lld, used up to %lld", p->b->name, (long long)work, (long long)extent);
  if (tight && (double)work > packed * (double)live)
    fail_msg("%s: %s, list %d: work %lld, alive at most %lld", where, p->b->name, list, (long long)work,
             (long long)live);
}

static void one_stream_for_a_group(const mal_block *b) {
  for (int l = 0; l < MAL_LISTS; l++) {
    int stream[256];
    memset(stream, -1, sizeof stream);
    for (int i = 0; i < b->count[l]; i++) {
      const mal_instruction *x = &b->list[l][i];
      if (!x->axes) continue;
      if (stream[x->axes] >= 0 && stream[x->axes] != x->stream) fail_msg("%s: a group on two streams", b->name);
      stream[x->axes] = x->stream;
    }
  }
}

/* Stash is written by forward (or by B for W) and read by backward, and lies within stash_bytes without overlap. */
static void stash_is_kept_for_a_reason(const mal_block *b) {
  for (int f = 0; f < b->n_buffers; f++) {
    const mal_buffer *x = &b->buffers[f];
    if (x->region != MAL_R_STASH) continue;
    unsigned written = 0, read = 0;
    for (int l = 0; l < MAL_LISTS; l++)
      for (int i = 0; i < b->count[l]; i++) {
        written |= touches(&b->list[l][i], f, true) ? 1u << l : 0;
        read |= touches(&b->list[l][i], f, false) ? 1u << l : 0;
      }
    bool by_forward = written & 1u << MAL_L_F || x->external;
    bool for_backward = read & (1u << MAL_L_B | 1u << MAL_L_BW | 1u << MAL_L_R | 1u << MAL_L_W);
    if (!(by_forward && for_backward) && !(read & 1u << MAL_L_W)) fail_msg("%s keeps %s for nothing", b->name, x->name);
    assert_true(x->offset_bytes + x->bytes <= b->stash_bytes);
    for (int g = 0; g < f; g++)
      if (b->buffers[g].region == MAL_R_STASH && overlap(x, &b->buffers[g]))
        fail_msg("%s: %s and %s share stash", b->name, x->name, b->buffers[g].name);
  }
}

/* Each trained weight's gradient is written once a micro-batch; of a frozen one never. */
static void gradients_are_written_once(const mal_block *b) {
  for (int f = 0; f < b->n_buffers; f++) {
    const mal_buffer *x = &b->buffers[f];
    bool gradient = x->param >= 0 && (x->region == MAL_R_GRAD || x->region == MAL_R_BUCKET);
    if (!gradient) continue;
    int n = 0;
    for (int l = MAL_L_B; l <= MAL_L_BW; l++)
      for (int i = 0; i < b->count[l]; i++) n += touches(&b->list[l][i], f, true);
    if (n != 1) fail_msg("%s: the gradient of %s is written %d times", b->name, x->name, n);
    assert_false(b->params[x->param].frozen);
  }
}

static void every_trained_weight_has_a_gradient(const mal_block *b, bool joined) {
  int64_t elements = 0;
  for (int f = 0; f < b->n_buffers; f++) {
    const mal_buffer *x = &b->buffers[f];
    if (x->param >= 0 && (x->region == MAL_R_GRAD || x->region == MAL_R_BUCKET) && !b->params[x->param].shared)
      elements += x->bytes / (int64_t)mal_dtype_bytes[x->dtype];
  }
  if (joined && elements != b->dense_elements + b->expert_elements)
    fail_msg("%s: gradients of %lld elements, %lld are trained", b->name, (long long)elements,
             (long long)(b->dense_elements + b->expert_elements));
}

/* Weights and gradients of a block lie side by side. */
static void persistent_bytes_are_apart(const mal_block *b) {
  for (int f = 0; f < b->n_buffers; f++)
    for (int g = 0; g < f; g++) {
      const mal_buffer *x = &b->buffers[f], *y = &b->buffers[g];
      if (x->param < 0 || y->param < 0 || b->params[x->param].shared || b->params[y->param].shared) continue;
      if (overlap(x, y)) fail_msg("%s: %s: %s and %s share bytes", where, b->name, x->name, y->name);
    }
}

static void origins_name_forward(const mal_block *b) {
  for (int l = 0; l < MAL_LISTS; l++)
    for (int i = 0; i < b->count[l]; i++) {
      const mal_instruction *x = &b->list[l][i];
      if (l == MAL_L_F) assert_int_equal(x->origin, i);
      if (l == MAL_L_R) {
        assert_true(x->flags & MAL_INS_RECOMPUTED);
        assert_int_equal(x->op, b->list[MAL_L_F][x->origin].op);
      }
      if (x->op == MAL_OP_MATMUL && x->flags & MAL_INS_GRAD)
        assert_int_equal(b->list[MAL_L_F][x->origin].op, MAL_OP_MATMUL);
    }
}

static void check(const mal_block *b, bool gradients, bool tight) {
  static const struct {
    mal_list lists[2];
    int n;
  } runs[] = {{{MAL_L_F}, 1}, {{MAL_L_R, MAL_L_BW}, 2}, {{MAL_L_R, MAL_L_B}, 2},
              {{MAL_L_W}, 1}, {{MAL_L_GATHER}, 1},      {{MAL_L_REDUCE}, 1}};
  one_stream_for_a_group(b);
  stash_is_kept_for_a_reason(b);
  gradients_are_written_once(b);
  every_trained_weight_has_a_gradient(b, gradients);
  persistent_bytes_are_apart(b);
  if (b->block_class < MAL_B_SYNC) origins_name_forward(b);
  for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
    mal_list main_list = runs[r].lists[runs[r].n - 1];
    if (!b->count[main_list]) continue;
    play p = order_of(b, runs[r].lists, runs[r].n);
    bytes_are_safe(&p);
    values_are_there(&p);
    work_is_packed(&p, main_list, tight);
  }
  for (int l = 0; l < MAL_LISTS; l++) assert_true(b->model_flops[l] <= b->flops[l] * (1 + 1e-12));
}

/* --- the zoo ----------------------------------------------------------------------------------------------------------------- */

static void check_all_blocks(const mal_plan *plan, bool gradients) {
  int64_t dense = 0, expert = 0, replicated = 0, tied = 0;
  where = mal_print(&arena, "%s %s %s %s", plan->model_spec, mal_layout_show(&arena, &plan->layout),
                    plan->profile->name, mal_precision_name[plan->job.precision]);
  for (int split = 0; split < 2; split++) {
    for (int kind = 0; kind < plan->model.n_kinds; kind++)
      for (int recompute = 0; recompute < MAL_RECOMPUTES; recompute++) {
        const mal_block *b = lower_layer(plan, kind, recompute, split);
        check(b, gradients, true);
        dense += b->dense_elements, expert += b->expert_elements, replicated += b->replicated_elements;
      }
    for (int c = 0; c < 3; c++) {
      static const mal_block_class ends[] = {MAL_B_EMBED, MAL_B_HEAD, MAL_B_MTP};
      if (ends[c] == MAL_B_MTP && !plan->model.mtp_layers) continue;
      mal_block_request r = {.plan = plan, .block_class = ends[c], .kind = plan->model.n_kinds - 1, .split = split};
      const mal_block *b = lower_request(&r);
      check(b, gradients, true);
      dense += b->dense_elements, tied = b->tied_elements;
      assert_int_equal(tied > 0, (plan->model.tied_embeddings || (plan->model.mtp_layers && ends[c] != MAL_B_HEAD)) &&
                                     plan->layout.pp > 1 && plan->job.train < MAL_LORA);
    }
  }
  mal_block_request r = {.plan = plan,
                         .block_class = MAL_B_SYNC,
                         .dense_elements = dense,
                         .expert_elements = expert,
                         .replicated_elements = replicated,
                         .tied_elements = tied};
  int64_t few = (dense + expert) / 64; /* buckets: fewer than a list that is played may have instructions */
  if (plan->profile->bucket_elements < few) plan->profile->bucket_elements = few;
  check(lower_request(&r), false, false);
  r.block_class = MAL_B_OPTIMIZER;
  check(lower_request(&r), false, false);
  mal_arena_reset(&arena);
}

static void lists_are_sound(void **state) {
  (void)state;
  static const char *const dense[] = {"llama-3-8b", "gpt3-7.5b", "gemma-2-9b", "falcon-40b", "gpt-j-6b",
                                      "bloom-7.1b", "olmo2-7b",  "qwen3-8b",   "opt-350m",   "command-r"};
  static const char *const layouts[] = {"",
                                        "tp=2,sequence-parallel=off",
                                        "tp=2,overlap-tp=on",
                                        "tp=2,pp=2,sequence-parallel=off,attention=unfused",
                                        "tp=2,attention=unfused,overlap-tp=on",
                                        "zero=3",
                                        "zero=2",
                                        "zero=1,pp=2",
                                        "zero=0",
                                        "cp=2,cp-kind=ring,attention=flash2",
                                        "cp=4,cp-kind=ring,overlap-cp=off,attention=flash2",
                                        "cp=2,cp-kind=alltoall,attention=unfused",
                                        "tp=2,cp=2,cp-kind=allgather"};
  static const char *const profiles[] = {"megatron", "fsdp2", "malha", "megatron-2021", "deepspeed"};
  for (size_t m = 0; m < sizeof dense / sizeof *dense; m++)
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
      check_all_blocks(
          plan_of(dense[m], "4x8xh100-sxm", layouts[l], profiles[(m + l) % 5], "{seq: 1024, accumulation: 4}"), true);
}

static void switches_are_sound(void **state) {
  (void)state;
  for (int bits = 0; bits < 256; bits++) {
    mal_plan *plan = plan_of(bits % 2 ? "llama-3-8b" : "gpt3-7.5b", "2x8xa100-sxm",
                             bits % 4 < 2 ? "tp=2,attention=unfused" : "tp=2", "megatron", "{seq: 1024}");
    mal_profile *p = plan->profile;
    p->fused_softmax = bits & 4, p->fused_norm = bits & 8, p->fused_activation = bits & 16,
    p->fused_bias_dropout_add = bits & 32;
    p->fused_rope = p->fused_cross_entropy = bits & 64, p->dropout = p->norm_fp32 = bits & 128;
    p->save_rotary_inputs = bits & 2, p->fused_qkv = bits & 1, p->fused_optimizer = bits & 4,
    p->grad_extra_bytes = bits & 8 ? 2 : 0;
    check_all_blocks(plan, !p->grad_extra_bytes);
  }
}

/* Selective recomputation by what is kept, and nothing repeated that backward does not read. */
static void kept_products_are_sound(void **state) {
  (void)state;
  static const char *const profiles[] = {"torchtitan", "maxtext", "paxml", "paxml-products"};
  static const char *const models[] = {"llama-3-8b", "gpt3-7.5b", "gemma-2-9b", "mixtral-8x7b", "qwen3-30b-a3b"};
  static const char *const jobs[] = {"{seq: 1024, accumulation: 4}", "{seq: 1024, precision: fp8}"};
  packed = 1.08;
  for (size_t p = 0; p < 4; p++)
    for (size_t m = 0; m < 5; m++)
      for (int j = 0; j < 2; j++)
        check_all_blocks(plan_of(models[m], "2x8xh100-sxm", j ? "zero=3" : "tp=2,zero=3", profiles[p], jobs[j]), true);
  packed = 1.03;
}

static void experts_are_sound(void **state) {
  (void)state;
  static const char *const models[] = {"mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite", "deepseek-v3",
                                       "qwen1.5-moe-a2.7b"};
  static const char *const layouts[] = {"ep=4",
                                        "tp=2,ep=4,etp=1",
                                        "tp=2,ep=2,etp=2",
                                        "tp=2,ep=2,etp=2,sequence-parallel=off",
                                        "tp=2,ep=4,etp=1,sequence-parallel=off",
                                        "ep=2,zero=3",
                                        "tp=4,ep=1,etp=4",
                                        "pp=2,ep=2",
                                        "cp=2,ep=2,cp-kind=allgather"};
  for (size_t m = 0; m < sizeof models / sizeof *models; m++)
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
      check_all_blocks(
          plan_of(models[m], "4x8xh100-sxm", layouts[l], l == 5 ? "fsdp2" : "megatron", "{seq: 1024, accumulation: 4}"),
          true);
}

static void precisions_are_sound(void **state) {
  (void)state;
  static const char *const jobs[] = {
      "{seq: 1024, precision: fp8}",  "{seq: 1024, precision: nvfp4}",
      "{seq: 1024, precision: fp32}", "{seq: 1024, precision: tf32}",
      "{seq: 1024, precision: fp16}", "{seq: 1024, train: lora}",
      "{seq: 1024, train: qlora}",    "{seq: 1024, train: lora, lora-targets: attention, precision: fp8}"};
  static const char *const layouts[] = {"tp=1", "tp=2", "tp=2,sequence-parallel=off", "zero=3", "tp=2,overlap-tp=on"};
  for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++)
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
      const char *profile = l % 2 ? "megatron" : "fsdp2";
      check_all_blocks(plan_of("llama-3-8b", "2x8xb200-sxm", layouts[l], profile, jobs[j]), true);
      check_all_blocks(plan_of("llama-3-8b", "2x8xb200-sxm", layouts[l], l % 2 ? "nemo" : "fsdp2", jobs[j]), true);
      check_all_blocks(plan_of("mixtral-8x7b", "2x8xb200-sxm", layouts[l], profile, jobs[j]), true);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(lists_are_sound, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(switches_are_sound, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(kept_products_are_sound, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(experts_are_sound, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(precisions_are_sound, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
