/* A collective, an exchange or a message alone on an idle machine takes the time that price gives. */
#include "lower.h"
#include "price/compose.h"
#include "simulate/simulate.h"
#include <math.h>

static const double sizes[] = {256e3, 4e6, 64e6, 1e9};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* The same layout with one instruction a step: forward of the first stage's first layer, nothing else. */
static mal_program one_instruction(const mal_program *of, const mal_instruction *i, double bytes) {
  mal_program p = *of;
  mal_block *b = MAL_NEW(&arena, mal_block);
  *b = (mal_block){.block_class = MAL_B_LAYER, .name = "one", .n_events = 0};
  b->sizes = MAL_NEW(&arena, mal_sizes);
  b->sizes->v[0] = (int64_t)bytes;
  b->list[MAL_L_F] = MAL_NEW(&arena, mal_instruction);
  b->list[MAL_L_F][0] = *i;
  b->count[MAL_L_F] = 1;
  p.blocks = b, p.n_blocks = 1;
  p.stages = MAL_NEW(&arena, mal_stage);
  p.stages[0] = (mal_stage){.n_chunks = 1, .sync = -1, .optimizer = -1};
  p.stages[0].chunks = MAL_NEW(&arena, mal_chunk);
  p.stages[0].chunks[0] = (mal_chunk){.n_runs = 1, .micro_batches = 1, .slots = 1};
  p.stages[0].chunks[0].runs = MAL_NEW(&arena, mal_run);
  p.stages[0].chunks[0].runs[0] = (mal_run){.block = 0, .count = 1};
  p.micro_batches = 1;
  return p;
}

static mal_instruction instruction(int op, int variant, unsigned axes) {
  mal_instruction i = {
      .op = (uint8_t)op, .variant = (uint8_t)variant, .axes = (uint8_t)axes, .stream = MAL_STREAM_COMPUTE};
  for (int k = 0; k < MAL_INPUTS; k++) i.in[k] = MAL_NO_BUFFER;
  for (int k = 0; k < MAL_OUTPUTS; k++) i.out[k] = MAL_NO_BUFFER;
  i.wait[0] = i.wait[1] = i.record = MAL_NO_EVENT;
  i.cause = MAL_TIME_DP;
  return i;
}

/* played without the copy of token ids that every step begins with, and what the host adds to a list */
static double seconds(const mal_program *p, int algorithm, bool all_ranks) {
  mal_simulate_options o = {.algorithm = algorithm, .all_ranks = all_ranks};
  mal_simulated s;
  mal_error e;
  assert_ok(mal_simulate(&arena, p, &o, &s, &e), e);
  return s.played_s - s.time_s[MAL_TIME_DATA] - s.time_s[MAL_TIME_LAUNCH];
}

static void compare(const char *words, const char *what, double bytes, double got, double wanted) {
  if (fabs(got / wanted - 1) > 0.02)
    fail_msg("%s, %s of %.0f bytes: %.9f s in play, %.9f s by price (%.1f %% apart)", words, what, bytes, got, wanted,
             100 * (got / wanted - 1));
}

typedef struct place {
  const char *model, *machine, *layout;
  unsigned axes;
} place;
#define AXIS(a) (1u << MAL_AXIS_##a)

/* Groups inside a node over NVSwitch, direct links, bridges and PCIe; across nodes with a NIC for each GPU and with one for
 * several; strided groups; NVLink domains larger than a node. */
static const place places[] = {
    {"llama-3-8b", "8xh100-sxm", "tp=8", AXIS(TP)},
    {"llama-3-8b", "8xh100-sxm", "tp=4", AXIS(TP)},
    {"llama-3-8b", "8xh100-sxm", "tp=1", AXIS(DP)},
    {"llama-3-8b", "8xa100-80-sxm", "tp=2", AXIS(DP)},
    {"llama-3-8b", "8xrtx4090", "tp=1", AXIS(DP)},
    {"llama-3-8b", "8xv100-32-sxm", "tp=1", AXIS(DP)},
    {"llama-3-8b", "2x8xh100-sxm", "tp=1", AXIS(DP)},
    {"llama-3-8b", "4x8xh100-sxm", "tp=2", AXIS(DP)},
    {"llama-3-8b", "4x8xh100-sxm", "tp=8", AXIS(DP)},
    {"llama-3-8b", "4x8xa100-80-sxm", "tp=1", AXIS(DP)},
    {"llama-3-8b", "4x8xa100-80-sxm", "tp=4", AXIS(DP)},
    {"llama-3-8b", "4x8xrtx4090", "tp=1", AXIS(DP)},
    {"llama-3-8b", "4x8xrtx4090", "tp=2", AXIS(DP)},
    {"llama-3-8b", "72xgb200", "tp=1", AXIS(DP)},
    {"llama-3-8b", "144xgb200", "tp=4", AXIS(DP)},
    {"llama-3-8b", "16x8xh200-sxm", "tp=2,cp=2", AXIS(DP) | AXIS(CP)},
    {"llama-3-8b", "16x8xh200-sxm", "tp=2,cp=2", AXIS(CP)},
    {"llama-3-70b", "64x8xh100-sxm", "tp=8", AXIS(DP)},
    {"mixtral-8x7b", "4x8xh100-sxm", "tp=1,ep=8", AXIS(EP)},
    {"mixtral-8x7b", "4x8xh100-sxm", "tp=4,ep=8", AXIS(EP)},
    {"mixtral-8x7b", "4x8xh100-sxm", "tp=1,ep=4", AXIS(EDP)},
};
enum { PLACES = sizeof places / sizeof *places };

static const mal_program *program_at(const place *at) {
  char layout[96];
  mal_error e;
  mal_program *p = MAL_NEW(&arena, mal_program);
  snprintf(layout, sizeof layout, "%s,micro-batch=1", at->layout);
  const char *job = strstr(at->machine, "v100") ? "{seq: 2048, precision: fp16}" : "{seq: 2048}";
  mal_status status = try_lower(at->model, at->machine, layout, "malha", job, p, &e);
  if (status) fail_msg("%s %s: %s", at->machine, at->layout, e.text);
  return p;
}

static void test_collectives(void **state) {
  static const mal_collective all[] = {MAL_ALL_REDUCE, MAL_ALL_GATHER, MAL_REDUCE_SCATTER, MAL_ALL_TO_ALL,
                                       MAL_BROADCAST};
  static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast"};
  int compared[MAL_ALGORITHMS] = {0};
  (void)state;
  for (int k = 0; k < PLACES; k++) {
    const mal_program *of = program_at(&places[k]);
    mal_group g = mal_layout_group(&of->plan->layout, &of->plan->machine, places[k].axes);
    for (size_t c = 0; c < sizeof all / sizeof *all; c++)
      for (int algorithm = 0; algorithm <= MAL_ALGORITHMS; algorithm++)
        for (int s = 0; s < SIZES; s++) {
          mal_collective_time t = algorithm ? mal_collective_price_with(&of->plan->machine, &g, all[c], sizes[s],
                                                                        (mal_algorithm)(algorithm - 1))
                                            : mal_collective_price(&of->plan->machine, &g, all[c], sizes[s]);
          if (algorithm && (int)t.algorithm != algorithm - 1) continue; /* not here */
          mal_instruction i = instruction(MAL_OP_COLLECTIVE, all[c], places[k].axes);
          mal_program p = one_instruction(of, &i, sizes[s]);
          char words[160];
          snprintf(words, sizeof words, "%s %s %s", places[k].machine, places[k].layout,
                   mal_algorithm_name[t.algorithm]);
          compare(words, names[c], sizes[s], seconds(&p, algorithm, s % 2), t.seconds);
          compared[t.algorithm]++;
        }
  }
  for (int a = 0; a < MAL_ALGORITHMS; a++) assert_true(compared[a] > SIZES * 2);
}

/* Between neighbours of a ring: each sends to the next and receives from the one before. */
static void test_exchange(void **state) {
  (void)state;
  for (int k = 0; k < PLACES; k++) {
    const mal_program *of = program_at(&places[k]);
    mal_group g = mal_layout_group(&of->plan->layout, &of->plan->machine, places[k].axes);
    for (int s = 0; s < SIZES; s++) {
      mal_instruction i = instruction(MAL_OP_SEND, 0, places[k].axes);
      mal_program p = one_instruction(of, &i, sizes[s]);
      char words[128];
      snprintf(words, sizeof words, "%s %s", places[k].machine, places[k].layout);
      compare(words, "exchange", sizes[s], seconds(&p, 0, s % 2),
              mal_transfer_price(&of->plan->machine, &g, sizes[s]).seconds);
    }
  }
}

/* From stage to stage: both blocks are empty, so the step is the message forward and its gradient back. */
static void test_messages(void **state) {
  static const place pipes[] = {
      {"llama-3-8b", "8xh100-sxm", "tp=4,pp=2", 0},   {"llama-3-8b", "8xh100-sxm", "tp=1,pp=2", 0},
      {"llama-3-8b", "2x8xh100-sxm", "tp=8,pp=2", 0}, {"llama-3-8b", "2x8xa100-80-sxm", "tp=2,pp=2", 0},
      {"llama-3-8b", "2x8xrtx4090", "tp=2,pp=2", 0},  {"llama-3-8b", "8xrtx4090", "tp=1,pp=2", 0}};
  (void)state;
  for (size_t k = 0; k < sizeof pipes / sizeof *pipes; k++) {
    const mal_program *of = program_at(&pipes[k]);
    for (int s = 0; s < SIZES; s++) {
      mal_instruction i = instruction(MAL_OP_COLLECTIVE, MAL_ALL_REDUCE, 0);
      mal_program p = one_instruction(of, &i, 0);
      p.blocks[0].count[MAL_L_F] = 0;
      mal_stage *stages = MAL_ARRAY(&arena, mal_stage, 2);
      stages[0] = stages[1] = p.stages[0];
      p.stages = stages;
      p.boundary_bytes = (int64_t)sizes[s];
      double hop[2];
      mal_pipe_hops(of->plan, p.boundary_bytes, hop);
      char words[128];
      snprintf(words, sizeof words, "%s %s", pipes[k].machine, pipes[k].layout);
      compare(words, "message there and back", sizes[s], seconds(&p, 0, s % 2), 2 * hop[0]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_collectives, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_exchange, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_messages, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
