/* Copies over PCIe, host memory, links between sockets, drives and shared storage: known by hand where that can be. */
#include "lower.h"
#include "price/kernel.h"
#include "price/upkeep.h"
#include "simulate/simulate.h"
#include <math.h>

static mal_simulated played(const mal_program *p, const char *faults, mal_simulate_options o) {
  mal_error e;
  mal_simulated s;
  mal_simulated_fault *list;
  if (faults) {
    assert_ok(mal_faults_parse(&arena, faults, mal_layout_world(&p->plan->layout), p->plan->machine.nodes, &list,
                               &o.n_faults, &e),
              e);
    o.faults = list;
  }
  assert_ok(mal_simulate(&arena, p, &o, &s, &e), e);
  return s;
}

static const mal_simulated_link *link_named(const mal_simulated *s, const char *name) {
  for (int i = 0; i < s->n_links; i++)
    if (strcmp(s->links[i].name, name) == 0) return &s->links[i];
  fail_msg("no link %s", name);
  return NULL;
}

/* Bytes that a rank copies in one step between two places, optimizer only. */
static double copied(const mal_program *p, int from, int to) {
  const mal_block *b = &p->blocks[p->stages[0].optimizer];
  double bytes = 0;
  for (int i = 0; i < b->count[MAL_L_F]; i++) {
    const mal_instruction *in = &b->list[MAL_L_F][i];
    if (in->op == MAL_OP_COPY && in->variant == (from << 4 | to)) bytes += (double)b->sizes[in->sizes].v[0];
  }
  return bytes;
}

static const mal_program *offloaded(const char *machine, const char *more, const char *profile) {
  char layout[160];
  snprintf(layout, sizeof layout, "micro-batch=1,%s", more);
  return lower("llama-3-8b", machine, layout, profile, "{seq: 2048, accumulation: 2}");
}

/* Without faults the step is the plan's, wherever states and parameters lie. */
static void test_as_planned(void **state) {
  static const char *const layouts[] = {"zero=1,offload-optimizer=cpu",
                                        "zero=1,offload-optimizer=cpu,overlap-dp-param=off",
                                        "zero=2,offload-optimizer=cpu",
                                        "zero=3,offload-optimizer=cpu",
                                        "zero=3,offload-optimizer=cpu,offload-params=cpu",
                                        "zero=3,offload-optimizer=nvme,offload-params=nvme",
                                        "tp=2,pp=2,zero=1,offload-optimizer=cpu"};
  static const char *const machines[] = {"8xh100-sxm", "2x8xh100-sxm", "2x8xa100-80-sxm"};
  static const char *const profiles[] = {"malha", "deepspeed"};
  (void)state;
  for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
      for (size_t f = 0; f < sizeof profiles / sizeof *profiles; f++) {
        const mal_program *p = offloaded(machines[m], layouts[l], profiles[f]);
        mal_estimate planned;
        mal_error e;
        assert_ok(mal_price(&arena, p, &planned, &e), e);
        assert_true(planned.time_s[MAL_TIME_OFFLOAD] > 0.01 * planned.step_s);
        double off = played(p, NULL, (mal_simulate_options){0}).step_s / planned.step_s - 1;
        if (fabs(off) > 0.03) fail_msg("%s %s %s: %.1f %% apart", machines[m], layouts[l], profiles[f], 100 * off);
      }
}

/* Half of the lanes: what crosses PCIe takes twice as long, and nothing else does. */
static void test_pcie(void **state) {
  (void)state;
  const mal_program *p = offloaded("8xh100-sxm", "zero=1,offload-optimizer=cpu", "malha");
  mal_simulate_options o = {0};
  const mal_machine *m = &p->plan->machine;
  double there = copied(p, MAL_DEVICE, MAL_HOST), back = copied(p, MAL_HOST, MAL_DEVICE);
  double rate = mal_host_copy_rate(m), healthy = played(p, NULL, o).played_s;
  double wanted = (there + back) / (0.5 * mal_pcie_copy_rate(m)) - (there + back) / rate;
  double got = played(p, "pcie:all,by=50%", o).played_s - healthy;
  assert_true(there > 0 && back > 0);
  if (fabs(got / wanted - 1) > 0.02) fail_msg("%.4f s longer instead of %.4f s", got, wanted);
  /* the others wait for the one */
  double one = played(p, "pcie:rank=5,by=50%", o).played_s - healthy;
  if (fabs(one / wanted - 1) > 0.05) fail_msg("one of eight: %.4f s longer instead of %.4f s", one, wanted);
  mal_simulated s = played(p, NULL, o);
  const mal_simulated_link *l = link_named(&s, "host-pcie");
  assert_true(l->bytes >= fmin(there, back) && l->bytes < 1.01 * fmax(there, back)); /* one direction of the busiest */
}

/* Memory on the other socket: the four ranks of a socket share what the links between sockets carry, each way. */
static void test_far_memory(void **state) {
  (void)state;
  const mal_program *p = offloaded("8xh100-sxm", "zero=1,offload-optimizer=cpu", "malha");
  mal_simulate_options o = {0}, all = {.all_ranks = true};
  p->plan->machine.node->cpu_link_bytes_per_s.value = 40e9;
  double bytes = copied(p, MAL_DEVICE, MAL_HOST) + copied(p, MAL_HOST, MAL_DEVICE);
  double healthy = played(p, NULL, o).played_s,
         wanted = bytes / (40e9 / 4) - bytes / mal_host_copy_rate(&p->plan->machine);
  mal_simulated far = played(p, "numa:all", o);
  if (fabs((far.played_s - healthy) / wanted - 1) > 0.02)
    fail_msg("%.4f s longer instead of %.4f s", far.played_s - healthy, wanted);
  assert_true(link_named(&far, "cpu-link")->bytes > 0);
  assert_true(fabs(played(p, "numa:all", all).played_s / far.played_s - 1) < 1e-9);
  /* one alone has the links for itself */
  double one = played(p, "numa:rank=3", o).played_s - healthy;
  double alone = bytes / 40e9 - bytes / mal_host_copy_rate(&p->plan->machine);
  if (fabs(one / alone - 1) > 0.05) fail_msg("one: %.4f s longer instead of %.4f s", one, alone);
  double half = played(p, "numa:all; cpulink:node=0,by=50%", o).played_s - healthy;
  assert_true(half > 1.9 * (far.played_s - healthy));
}

/* The NIC that takes over may be the other socket's: its traffic crosses the link between them. */
static void test_nic_of_the_other_socket(void **state) {
  (void)state;
  const mal_program *p = lower("llama-3-8b", "2x8xh100-sxm",
                               "tp=8,micro-batch=1,overlap-dp-grad=off,overlap-dp-param=off", "", "{global-batch: 16}");
  mal_simulate_options o = {0};
  mal_simulated near = played(p, "nic:rank=2,dead", o), far = played(p, "nic:rank=3,dead", o);
  for (int i = 0; i < near.n_links; i++) assert_string_not_equal(near.links[i].name, "cpu-link");
  assert_true(link_named(&far, "cpu-link")->bytes > 0);
  p->plan->machine.node->cpu_link_bytes_per_s.value = 5e9;
  assert_true(played(p, "nic:rank=3,dead", o).played_s > 1.01 * far.played_s);
}

/* Training stands while the checkpoint is copied to the host; storage has it when its share of bandwidth says. */
static void test_checkpoint(void **state) {
  (void)state;
  const mal_program *p =
      lower("llama-3-8b", "64x8xh100-sxm", "tp=8,micro-batch=1,overlap-dp-param=off", "", "{global-batch: 512}");
  const mal_upkeep u = mal_upkeep_of(p);
  mal_simulate_options none = {0}, o = {.checkpoint = true}, taken = {.checkpoint = true, .background = 0.75};
  mal_simulated s = played(p, NULL, o);
  assert_true(fabs(s.stalled_s / u.stall_s - 1) < 1e-6);
  assert_true(fabs((s.written_s - s.stalled_s) / u.write_s - 1) < 0.01);
  assert_true(fabs(s.time_s[MAL_TIME_CHECKPOINT] / s.stalled_s - 1) < 1e-9);
  assert_true(fabs((s.played_s - s.stalled_s) / played(p, NULL, none).played_s - 1) < 0.01);
  mal_simulated slow = played(p, "storage:all,by=50%", o), others = played(p, NULL, taken);
  assert_true(fabs((slow.written_s - slow.stalled_s) / u.write_s - 2) < 0.02);
  assert_true(fabs((others.written_s - others.stalled_s) / u.write_s - 4) < 0.04);
  /* lanes by half: the copy takes twice as long */
  double copy = mal_checkpoint_bytes(p) / 512;
  double longer = copy / (0.5 * mal_pcie_copy_rate(&p->plan->machine)) - copy / mal_host_copy_rate(&p->plan->machine);
  double got = played(p, "pcie:all,by=50%", o).stalled_s - s.stalled_s;
  if (fabs(got / longer - 1) > 0.01) fail_msg("%.6f s longer instead of %.6f s", got, longer);
}

/* The ids of the next step come while this one computes; storage that is slower than that holds the step up. */
static void test_token_ids(void **state) {
  (void)state;
  const mal_program *p = lower("gpt2", "8xh100-sxm", "micro-batch=64", "", "{seq: 1024}");
  mal_simulate_options o = {0};
  mal_simulated s = played(p, NULL, o);
  double ids = 8 * mal_data_bytes(p->plan) * (double)p->micro_batches, rate = mal_storage_reads(&p->plan->machine).all;
  const mal_simulated_link *l = link_named(&s, "storage-read");
  assert_true(fabs(l->bytes / ids - 1) < 1e-9 && l->used < 0.01);
  char fault[64];
  double left = ids / rate / (3 * s.played_s); /* three steps' time for the ids of one */
  assert_true(left < 1 && left > 0);
  o.background = 0.99;
  snprintf(fault, sizeof fault, "storage:all,by=%.6f", fmin(0.99, 1 - left / 0.01));
  mal_simulated slow = played(p, left < 0.01 ? fault : NULL, o);
  double wanted = ids / (rate * 0.01 * (left < 0.01 ? fmax(0.01, left / 0.01) : 1));
  assert_true(fabs(slow.played_s / fmax(wanted, s.played_s) - 1) < 0.01);
}

static void test_text(void **state) {
  (void)state;
  mal_error e;
  mal_simulated_fault *f;
  int n;
  const mal_program *p = offloaded("gh200", "zero=0", "malha");
  mal_simulated s;
  assert_ok(mal_faults_parse(&arena, "pcie:rank=1,by=50%; numa:node=0; cpulink:all,by=10%; storage:all,by=20%", 16, 2,
                             &f, &n, &e),
            e);
  assert_int_equal(n, 4);
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "storage:node=1,by=20%", 16, 2, &f, &n, &e), e, "no 'node'");
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "storage:by=20%", 16, 2, &f, &n, &e), e, "where, once: all");
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "cpulink:node=1", 16, 2, &f, &n, &e), e, "how much");
  assert_fails(MAL_BAD, mal_faults_parse(&arena, "numa:rank=1,by=20%", 16, 2, &f, &n, &e), e, "no 'by'");
  assert_ok(mal_faults_parse(&arena, "numa:rank=0", 1, 1, &f, &n, &e), e);
  mal_simulate_options o = {.faults = f, .n_faults = n};
  assert_fails(MAL_BAD, mal_simulate(&arena, p, &o, &s, &e), e, "one CPU socket");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_as_planned, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_pcie, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_far_memory, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_nic_of_the_other_socket, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_checkpoint, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_token_ids, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(test_text, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
