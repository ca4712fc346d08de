/* What a cluster starts from: lists of software that keep their rules, delivery tests whose numbers are those that healthy machines
 * were published with, and files that agree with the design. */
#include "core/catalog.h"
#include "core/json.h"
#include "design/files.h"
#include "design/kit/acceptance.h"
#include "design/kit/kit.h"
#include "design/kit/monitor.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>

static mal_arena a;
static mal_error e;
static mal_design d;

static int setup(void **state) {
  (void)state;
  mal_arena_init(&a);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  mal_arena_free(&a);
  return 0;
}

static void make(const char *node, int64_t nodes) {
  mal_design_ask k;
  mal_design_ask_default(&k);
  k.node = node, k.nodes = nodes, k.single_node = nodes == 1;
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
}

/* Every list of the catalogue: loads, keeps its rules, says where each version was read, and when. */
static void test_software_lists(void **state) {
  (void)state;
  char **names;
  size_t count;
  assert_ok(mal_catalog_list(&a, "software", ".yaml", &names, &count, &e), e);
  assert_true(count >= 10);
  for (size_t i = 0; i < count; i++) {
    mal_software *s;
    assert_ok(mal_software_file(&a, names[i], &s, &e), e);
    assert_string_equal(s->name, names[i]);
    assert_int_equal(strlen(s->date), 10);
    bool nvidia = s->of[MAL_SW_DRIVER].version != NULL;
    assert_true(nvidia || s->of[MAL_SW_ROCM].version);
    if (nvidia) assert_string_equal(s->of[MAL_SW_DRIVER].version, s->of[MAL_SW_FABRIC_MANAGER].version);
    for (int c = 0; c < MAL_COMPONENTS; c++)
      if (s->of[c].version) assert_true(strlen(s->of[c].source) > 10);
  }
}

/* Every node of the catalogue finds a list, and runs what its parts need. */
static void test_software_of_nodes(void **state) {
  (void)state;
  char **names;
  size_t count;
  assert_ok(mal_catalog_list(&a, "nodes", ".yaml", &names, &count, &e), e);
  for (size_t i = 0; i < count; i++) {
    mal_machine m;
    mal_software *s;
    if (strcmp(names[i], "computer") == 0) continue;
    assert_ok(mal_machine_load(&a, names[i], &m, &e), e);
    assert_ok(mal_software_load(&a, &m, &s, &e), e);
    bool nvidia = strncmp(m.gpu->architecture, "sm", 2) == 0;
    assert_int_equal(mal_software_runs(s, &m, MAL_SW_DRIVER), nvidia);
    assert_int_equal(mal_software_runs(s, &m, MAL_SW_FABRIC_MANAGER), nvidia && m.node->nvlink_switch);
    assert_int_equal(mal_software_runs(s, &m, MAL_SW_ROCM), !nvidia);
    if (strcmp(m.gpu->architecture, "sm70") == 0) assert_int_equal(atoi(s->of[MAL_SW_CUDA].version), 12);
  }
}

static void test_versions(void **state) {
  (void)state;
  assert_true(mal_version_compare("580.126.20", "580.159.04") < 0);
  assert_true(mal_version_compare("580.126.20", "570.133.20") > 0);
  assert_true(mal_version_compare("1.19.0", "1.9.9") > 0);
  assert_int_equal(mal_version_compare("2.30.4", "2.30.4"), 0);
  assert_true(mal_version_compare("2.30", "2.30.1") < 0);
}

static const mal_acceptance *test_named(const mal_acceptance *list, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(list[i].name, name) == 0) return &list[i];
  return NULL;
}

/* Published busbw of healthy machines, GB/s: nccl-tests of A100-40 x 8 (8 GiB), of H200 x 8 with NVLS (ml-engineering), of B200 x 8
 * with NVLS (the same), and of two p5 (AWS). Each is accepted and lies within 6 % of what is expected; those with a part broken
 * (NVLS off; 16 GPUs without P2P and shared memory, 7.9 GB/s) are not taken for healthy ones. */
static void test_acceptance_published(void **state) {
  (void)state;
  static const struct {
    const char *node, *test;
    double busbw;
  } healthy[] = {{"dgx-a100-40", "node-all_reduce", 235.26}, {"dgx-a100-40", "node-all_gather", 223.39},
                 {"dgx-a100-40", "node-alltoall", 224.31},   {"dgx-h200", "node-all_reduce", 482.26},
                 {"dgx-h200", "node-all_gather", 361.4},     {"dgx-h200", "node-reduce_scatter", 362.9},
                 {"dgx-b200", "node-all_reduce", 838.0},     {"dgx-h100", "pair-all_reduce", 487.09}};
  mal_acceptance list[MAL_ACCEPTANCE_MOST];
  for (size_t i = 0; i < sizeof healthy / sizeof *healthy; i++) {
    make(healthy[i].node, 4);
    int n = mal_acceptance_list(&a, &d, list);
    const mal_acceptance *t = test_named(list, n, healthy[i].test);
    assert_non_null(t);
    if (fabs(t->expected / healthy[i].busbw - 1) > 0.06)
      fail_msg("%s of %s: %g expected, %g published", t->name, healthy[i].node, t->expected, healthy[i].busbw);
    assert_true(healthy[i].busbw >= t->reject);
  }
  make("dgx-a100-40", 4);
  int n = mal_acceptance_list(&a, &d, list);
  assert_true(test_named(list, n, "pair-all_reduce")->reject > 7.9);
}

/* A node alone has no tests with others; larger groups are never faster; every name is one log. */
static void test_acceptance_stages(void **state) {
  (void)state;
  mal_acceptance list[MAL_ACCEPTANCE_MOST];
  make("dgx-h100", 1);
  int n = mal_acceptance_list(&a, &d, list);
  for (int i = 0; i < n; i++) assert_int_equal(list[i].stage, MAL_STAGE_NODE);
  make("dgx-h100", 96);
  n = mal_acceptance_list(&a, &d, list);
  double last = INFINITY;
  static const int64_t sizes[] = {1, 2, 32, 96};
  static const char *const groups[] = {"node-all_reduce", "pair-all_reduce", "unit-all_reduce", "all-all_reduce"};
  for (int i = 0; i < 4; i++) {
    const mal_acceptance *t = test_named(list, n, groups[i]);
    assert_non_null(t);
    assert_true(t->expected > 0 && t->expected <= last && t->reject < t->expected);
    last = t->expected;
  }
  for (int i = 0; i < n; i++) {
    assert_int_equal(list[i].nodes, sizes[list[i].stage]);
    assert_null(strchr(list[i].command, '\'')); /* the script quotes it so */
    for (int k = 0; k < i; k++) assert_string_not_equal(list[k].name, list[i].name);
  }
}

static const char *file_named(const mal_kit_file *files, int n, const char *path) {
  for (int i = 0; i < n; i++)
    if (strcmp(files[i].path, path) == 0) return files[i].text;
  return NULL;
}

static int64_t times(const char *text, const char *words) {
  int64_t n = 0;
  for (const char *at = text; (at = strstr(at, words)); at += strlen(words)) n++;
  return n;
}

/* The files say what the design says: nodes, GPUs, rails, rates, whom to ask. */
static void test_kit(void **state) {
  (void)state;
  mal_kit_file files[MAL_KIT_MOST];
  int n;
  make("dgx-h100", 40);
  assert_ok(mal_kit_make(&a, &d, files, &n, &e), e);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < i; k++) assert_string_not_equal(files[i].path, files[k].path);
  const char *alerts = file_named(files, n, "monitoring/alerts.yml");
  assert_non_null(strstr(alerts, "DCGM_FI_DEV_SM_CLOCK) < 8"));
  assert_non_null(strstr(alerts, "< 50000000000"));
  assert_non_null(strstr(alerts, "mlx5_0|mlx5_3|mlx5_4|mlx5_5|mlx5_6|mlx5_9|mlx5_10|mlx5_11"));
  assert_int_equal(times(alerts, "- alert: PortDown"), 0);
  assert_null(strchr(strstr(alerts, "GpuMissing") - 1, '\t'));
  const char *prometheus = file_named(files, n, "monitoring/prometheus.yml");
  assert_int_equal(times(prometheus, ":9400"), 40);
  assert_int_equal(times(prometheus, "node0040:"), 2);
  const char *slurm = file_named(files, n, "slurm/slurm.conf");
  assert_non_null(strstr(slurm, "NodeName=node[0001-0040] Sockets=2 CoresPerSocket=56"));
  assert_non_null(strstr(slurm, "Gres=gpu:h100:8"));
  assert_int_equal(times(file_named(files, n, "slurm/node-check"), "/ports/1/state"), 8);
  assert_int_equal(times(file_named(files, n, "hosts"), "-bmc\n"), 40 + d.storage.servers + d.management_servers);
  assert_non_null(strstr(file_named(files, n, "image.yaml"), "nvidia-fabricmanager"));
  mal_json board;
  const char *text = file_named(files, n, "monitoring/dashboard.json");
  assert_ok(mal_json_parse(&a, "dashboard.json", text, strlen(text), &board, &e), e);
  assert_true(json_array_size(json_object_get(board.root, "panels")) >= 15);
  mal_json_free(&board);
}

/* Counters that rules and panels use are switched on. */
static void test_counters_cover_rules(void **state) {
  (void)state;
  char *counters, *alerts, *board;
  make("dgx-h100", 4);
  assert_ok(mal_monitor_counters(&a, &d, &counters, &e), e);
  assert_ok(mal_monitor_alerts(&a, &d, &alerts, &e), e);
  assert_ok(mal_monitor_dashboard(&a, &d, &board, &e), e);
  const char *const users[] = {alerts, board};
  int used = 0;
  for (int i = 0; i < 2; i++)
    for (const char *at = users[i]; (at = strstr(at, "DCGM_FI_")); used++) {
      size_t length = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
      const char *row = mal_print(&a, "\n%.*s, ", (int)length, at);
      if (!strstr(counters, row)) fail_msg("%s is used and not switched on", row + 1);
      at += length;
    }
  assert_true(used > 30);
  assert_null(strchr(alerts, '\t'));
}

/* No address is given twice, none is impossible, whatever the size. */
static void test_addresses(void **state) {
  (void)state;
  make("dgx-h100", 4);
  const int64_t sizes[] = {1000, 500000};
  for (int size = 0; size < 2; size++) {
    d.hall.n_units = sizes[size];
    for (int network = MAL_ADDRESS_INBAND; network <= MAL_ADDRESS_RAIL; network++)
      for (int64_t i = 0; i < sizes[size]; i = 2 * i + 1) {
        int b[4];
        const char *text = mal_design_address(&a, &d, network, 7, i);
        assert_int_equal(sscanf(text, "%d.%d.%d.%d", &b[0], &b[1], &b[2], &b[3]), 4);
        assert_true(b[1] < 256 && b[2] < 256 && b[3] > 1 && b[3] < 255);
        assert_string_not_equal(text, mal_design_address(&a, &d, network, 7, i + 1));
        assert_string_not_equal(
            text, mal_design_address(&a, &d, network == MAL_ADDRESS_OOB ? MAL_ADDRESS_RAIL : MAL_ADDRESS_OOB, 6, i));
      }
  }
}

/* Needs are the sum of their parts and grow with what is asked; eight A100 on four Gen4 switches copy to the host at four times 31.5
 * GB/s, eight H100 on eight Gen5 ones at eight times 63; an NDR adapter does not fit 16 lanes of Gen4. */
static void test_balance(void **state) {
  (void)state;
  make("dgx-a100", 16);
  assert_true(fabs(d.balance.copy_bytes_per_s / (4 * 31.5e9) - 1) < 0.02);
  mal_machine m = d.machine;
  mal_node node = *m.node;
  m.node = &node;
  node.nic_bytes_per_s.value = 50e9;
  mal_compute c, more;
  mal_compute_ask k = {.nodes = 16, .level = MAL_DATA_TEXT};
  mal_compute_make(&m, d.chassis, &k, &c);
  assert_true(c.nic_bytes_per_s > 1.5 * c.nic_slot_bytes_per_s);
  k.level = MAL_DATA_VIDEO, k.checkpoint_bytes = 1e12, k.dataset_bytes = 1e14, k.offload_bytes = 1e11,
  k.node_read_bytes_per_s = 40e9;
  mal_compute_make(&m, d.chassis, &k, &more);
  for (int i = 0; i < MAL_NEED_KINDS; i++) {
    double sum = 0;
    for (int p = 0; p < more.needs[i].n_parts; p++) sum += more.needs[i].parts[p].amount;
    assert_true(fabs(sum - more.needs[i].needed) <= 1e-6 * sum);
    assert_true(more.needs[i].needed > c.needs[i].needed);
  }
  assert_true(more.direct_storage && !c.direct_storage);
  make("dgx-h100", 16);
  assert_true(fabs(d.balance.copy_bytes_per_s / (8 * 63e9) - 1) < 0.02);
  for (int i = 0; i < MAL_NEED_KINDS; i++) assert_true(d.balance.needs[i].needed <= d.balance.needs[i].has);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_software_lists, setup, teardown),
      cmocka_unit_test_setup_teardown(test_software_of_nodes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_versions, setup, teardown),
      cmocka_unit_test_setup_teardown(test_acceptance_published, setup, teardown),
      cmocka_unit_test_setup_teardown(test_acceptance_stages, setup, teardown),
      cmocka_unit_test_setup_teardown(test_kit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_counters_cover_rules, setup, teardown),
      cmocka_unit_test_setup_teardown(test_addresses, setup, teardown),
      cmocka_unit_test_setup_teardown(test_balance, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
