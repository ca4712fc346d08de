/* Networks: the published reference architecture, and what every network must keep: each port once, symmetry, monotony. */
#include "core/csv.h"
#include "design/network.h"
#include "test.h"
#include <stdlib.h>

static mal_arena a;
static mal_error e;

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

static const mal_switch *switch_named(const char *name) {
  mal_switch *s;
  assert_ok(mal_switch_load(&a, name, &s, &e), e);
  return s;
}

static mal_network_ask ask_for(const char *name, int64_t nodes) {
  return (mal_network_ask){.name = "", .leaf = switch_named(name), .nodes = nodes, .rails = 8, .oversubscription = 1};
}

static int64_t cell(const mal_csv *csv, int row, const char *column) {
  return strtoll(mal_csv_cell(csv, row, mal_csv_column(csv, column)), NULL, 10);
}

/* Rows with a UFM node slot given up are those of an odd node count. Rows whose own note says that they are in error stay out. */
static void test_reference_architecture(void **state) {
  (void)state;
  mal_csv csv;
  need_shared("data/superpod.csv");
  assert_ok(mal_csv_read(&a, MALHA_SHARED "/data/superpod.csv", &csv, &e), e);
  assert_true(csv.rows >= 7);
  for (int i = 0; i < csv.rows; i++) {
    int64_t nodes = cell(&csv, i, "nodes");
    mal_network n;
    mal_network_ask k = ask_for("qm9700", nodes);
    k.managers = nodes % 2 ? 4 : 0;
    k.whole_units = true;
    assert_ok(mal_network_make(&k, 50e9, &n, &e), e);
    assert_int_equal(n.units, cell(&csv, i, "scalable_units"));
    assert_int_equal(n.leaves, cell(&csv, i, "leaf"));
    assert_int_equal(n.spines, cell(&csv, i, "spine"));
    assert_int_equal(n.cores, cell(&csv, i, "core"));
    assert_int_equal(n.cables[MAL_TIER_NODE], cell(&csv, i, "cables_node_leaf"));
    assert_int_equal(n.cables[MAL_TIER_SPINE], cell(&csv, i, "cables_leaf_spine"));
    assert_int_equal(n.cables[MAL_TIER_CORE], cell(&csv, i, "cables_spine_core"));
  }
}

/* RA-11333-001 V11 table 4 and table 3 of the same architecture, for a checkout without the data. */
static void test_known_rows(void **state) {
  (void)state;
  static const struct {
    int64_t nodes, managers, leaves, spines, cores, node_leaf, leaf_spine, spine_core;
  } rows[] = {
      {31, 4, 8, 4, 0, 252, 256, 0},
      {95, 4, 24, 16, 0, 764, 768, 0},
      {127, 4, 32, 16, 0, 1020, 1024, 0},
      {128, 0, 32, 16, 0, 1024, 1024, 0},
      {512, 0, 128, 128, 64, 4096, 4096, 4096},
      {1024, 0, 256, 256, 128, 8192, 8192, 8192},
      {2048, 0, 512, 512, 256, 16384, 16384, 16384},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mal_network n;
    mal_network_ask k = ask_for("qm9700", rows[i].nodes);
    k.managers = rows[i].managers, k.whole_units = true;
    assert_ok(mal_network_make(&k, 50e9, &n, &e), e);
    assert_int_equal(n.leaves, rows[i].leaves);
    assert_int_equal(n.spines, rows[i].spines);
    assert_int_equal(n.cores, rows[i].cores);
    assert_int_equal(n.cables[0], rows[i].node_leaf);
    assert_int_equal(n.cables[1], rows[i].leaf_spine);
    assert_int_equal(n.cables[2], rows[i].spine_core);
  }
}

/* 17 leaves of 20 ports down and 20 up need 10 spines (facts of a built fabric of 27 QM8790); a DGX A100 unit is 20 nodes. */
static void test_forty_ports(void **state) {
  (void)state;
  mal_network n;
  mal_network_ask k = ask_for("qm8700", 340);
  k.rails = 1, k.topology = MAL_TOPOLOGY_TREE;
  assert_ok(mal_network_make(&k, 25e9, &n, &e), e);
  assert_int_equal(n.leaves, 17);
  assert_int_equal(n.spines, 10);
  k = ask_for("qm8700", 140), k.whole_units = true;
  assert_ok(mal_network_make(&k, 25e9, &n, &e), e);
  assert_int_equal(n.unit_nodes, 20);
  assert_int_equal(n.leaves, 56);
}

typedef struct port_key {
  int kind;
  int64_t index, port;
} port_key;

static int compare_ports(const void *x, const void *y) {
  const port_key *p = x, *q = y;
  if (p->kind != q->kind) return p->kind < q->kind ? -1 : 1;
  if (p->index != q->index) return p->index < q->index ? -1 : 1;
  return p->port < q->port ? -1 : p->port > q->port;
}

/* No port twice, none beyond the switch, every device in range; the counts are those of the links. */
static void check_links(const mal_network *n) {
  int64_t count, tier[MAL_TIERS] = {0}, limit[MAL_DEVICE_KINDS] = {n->ask.nodes, n->ask.servers, n->ask.managers,
                                                                   n->leaves,    n->spines,      n->cores};
  mal_link *links = mal_network_links(&a, n, &count);
  port_key *ports = MAL_ARRAY(&a, port_key, 2 * count);
  for (int64_t i = 0; i < count; i++) {
    ports[2 * i] = (port_key){links[i].from.kind, links[i].from.index, links[i].from_port};
    ports[2 * i + 1] = (port_key){links[i].to.kind, links[i].to.index, links[i].to_port};
    tier[links[i].tier]++;
  }
  for (int t = 0; t < MAL_TIERS; t++) assert_int_equal(tier[t], n->cables[t]);
  qsort(ports, (size_t)(2 * count), sizeof *ports, compare_ports);
  int64_t used = 0;
  for (int64_t i = 0; i < 2 * count; i++) {
    if (i) assert_true(compare_ports(&ports[i - 1], &ports[i]) < 0);
    assert_in_range(ports[i].index, 0, limit[ports[i].kind] - 1);
    if (ports[i].kind < MAL_DEV_LEAF) continue;
    assert_in_range(ports[i].port, 1, n->ask.leaf->ports);
    used++;
  }
  assert_int_equal(used, n->ports_used);
  assert_true(n->ports_used <= n->ports);
}

static uint64_t state_of_random = 88172645463325252u;
static int64_t random_to(int64_t most) {
  state_of_random ^= state_of_random << 13;
  state_of_random ^= state_of_random >> 7;
  state_of_random ^= state_of_random << 17;
  return (int64_t)(state_of_random % (uint64_t)most) + 1;
}

static void test_random_networks(void **state) {
  (void)state;
  static const char *const names[] = {"qm9700", "qm8700", "q3400-ra", "sn5600-400", "sn2201"};
  int built = 0;
  for (int i = 0; i < 600; i++) {
    mal_network n;
    mal_network_ask k = ask_for(names[random_to(5) - 1], random_to(random_to(3) == 1 ? 900 : 60));
    k.topology = (int)random_to(3) - 1;
    k.rails = random_to(9);
    k.whole_units = random_to(2) == 1;
    k.oversubscription = random_to(2) == 1 ? 1 : 0.5 + (double)random_to(7) / 2;
    if (k.topology == MAL_TOPOLOGY_TREE) k.servers = random_to(20), k.server_ports = random_to(4);
    if (random_to(3) == 1) k.managers = random_to(6);
    mal_status s = mal_network_make(&k, 50e9, &n, &e);
    if (s == MAL_NO) continue;
    assert_int_equal(s, MAL_OK);
    check_links(&n);
    built++;
    mal_arena_reset(&a);
  }
  assert_true(built > 400);
}

/* More nodes never need fewer switches or cables. */
static void test_monotony(void **state) {
  (void)state;
  static const char *const names[] = {"qm9700", "qm8700", "sn5600-400"};
  for (int s = 0; s < 3; s++)
    for (int topology = 0; topology < MAL_TOPOLOGIES; topology++)
      for (double over = 1; over <= 3; over++) {
        int64_t switches = 0, cables = 0;
        mal_network_ask k = ask_for(names[s], 1);
        k.topology = topology, k.oversubscription = over, k.whole_units = topology == MAL_TOPOLOGY_RAIL;
        for (k.nodes = 1; k.nodes < 1500; k.nodes += k.nodes < 200 ? 1 : 37) {
          mal_network n;
          if (mal_network_make(&k, 50e9, &n, &e) == MAL_NO) break;
          int64_t c = n.cables[0] + n.cables[1] + n.cables[2];
          bool fewer_cables =
              c < cables && topology != MAL_TOPOLOGY_DRAGONFLY; /* its pairs share links evenly, or leave some */
          if (mal_network_switches(&n) < switches || fewer_cables)
            fail_msg("%s %s %g: %lld nodes take fewer", names[s], mal_topology_name[topology], over,
                     (long long)k.nodes);
          switches = mal_network_switches(&n), cables = c;
        }
      }
}

static void test_too_large(void **state) {
  (void)state;
  mal_network n;
  mal_network_ask k = ask_for("qm8700", 100000);
  assert_fails(MAL_NO, mal_network_make(&k, 25e9, &n, &e), e, "800000", "qm8700", "dragonfly");
  k.nodes = 0;
  assert_fails(MAL_BAD, mal_network_make(&k, 25e9, &n, &e), e, "nothing to connect");
  k.nodes = 4, k.oversubscription = 0.5;
  assert_fails(MAL_BAD, mal_network_make(&k, 25e9, &n, &e), e, "oversubscription", "0.5");
}

/* 32 to 64 nodes: node cables stay, the spine doubles and every leaf's links are spread anew. */
static void test_growth(void **state) {
  (void)state;
  mal_network small, large;
  mal_network_ask k = ask_for("qm9700", 32);
  k.whole_units = true;
  assert_ok(mal_network_make(&k, 50e9, &small, &e), e);
  assert_int_equal(mal_network_recabled(&a, &small, &small), 0);
  k.nodes = 64;
  assert_ok(mal_network_make(&k, 50e9, &large, &e), e);
  int64_t moved = mal_network_recabled(&a, &small, &large);
  assert_in_range(moved, 1, 256);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_reference_architecture, setup, teardown),
      cmocka_unit_test_setup_teardown(test_known_rows, setup, teardown),
      cmocka_unit_test_setup_teardown(test_forty_ports, setup, teardown),
      cmocka_unit_test_setup_teardown(test_random_networks, setup, teardown),
      cmocka_unit_test_setup_teardown(test_monotony, setup, teardown),
      cmocka_unit_test_setup_teardown(test_too_large, setup, teardown),
      cmocka_unit_test_setup_teardown(test_growth, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
