/* Designs of random asks: whatever is built is whole, and more is never less. */
#include "core/csv.h"
#include "design_checks.h"

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

static uint64_t state_of_random = 0x9e3779b97f4a7c15u;
static int64_t random_to(int64_t most) {
  state_of_random ^= state_of_random << 13;
  state_of_random ^= state_of_random >> 7;
  state_of_random ^= state_of_random << 17;
  return (int64_t)(state_of_random % (uint64_t)most) + 1;
}

static const char *const nodes[] = {"dgx-h100",    "dgx-a100", "dgx-h200",    "dgx-b300",
                                    "dell-xe9680", "aws-p5",   "gb200-nvl72", "pcie-server"};

static mal_design_ask random_ask(void) {
  mal_design_ask k;
  mal_design_ask_default(&k);
  k.node = nodes[random_to(8) - 1];
  k.nodes = random_to(random_to(4) == 1 ? 300 : 40);
  k.topology = (int)random_to(3) - 1;
  k.ethernet = random_to(3) == 1;
  k.oversubscription = random_to(2) == 1 ? 1 : 1 + (double)random_to(6) / 2;
  k.ufm = random_to(4) == 1, k.whole_units = random_to(3) == 1;
  k.spares = random_to(3) == 1 ? random_to(6) : -1;
  k.data = (int)random_to(3) - 1;
  if (random_to(2) == 1) k.checkpoint_bytes = 1e10 * (double)random_to(500);
  if (random_to(2) == 1) k.dataset_bytes = 1e12 * (double)random_to(900);
  if (random_to(5) == 1) k.single_node = true, k.nodes = 1, k.spares = 0;
  return k;
}

/* The list as a reader of the file sees it: each cable once, from one end to the other, and nothing else. */
static void check_cable_list(void) {
  mal_csv csv;
  const char *text = mal_design_cabling_csv(&a, &d);
  assert_ok(mal_csv_parse(&a, "cables.csv", text, strlen(text), &csv, &e), e);
  assert_int_equal(csv.rows, d.n_cables);
  assert_string_equal(text, mal_design_cabling_csv(&a, &d));
  int64_t in_networks = 0;
  for (int64_t i = 0; i < d.n_cables; i++)
    in_networks += strcmp(d.cables[i].network, "compute") == 0 || strcmp(d.cables[i].network, "storage") == 0;
  int64_t counted = 0;
  for (int t = 0; t < MAL_TIERS; t++) counted += d.compute.cables[t] + d.storage_network.cables[t];
  assert_int_equal(in_networks, counted);
}

/* The bill has as many switches, nodes and cables as the design. */
static void check_bill(void) {
  double cables = 0, servers = 0;
  for (int i = 0; i < d.n_parts; i++) {
    const char *part = d.parts[i].part;
    bool cable = strncmp(part, "copper-", 7) == 0 || strncmp(part, "multimode-", 10) == 0 ||
                 strncmp(part, "single-mode-", 12) == 0;
    cables += cable ? d.parts[i].count : 0;
    if (strcmp(part, d.machine.node->name) == 0) servers += d.parts[i].count;
    assert_true(d.parts[i].count >= 1 && d.parts[i].count == floor(d.parts[i].count));
  }
  assert_true(servers == (double)d.nodes);
  assert_true(cables == (double)d.n_cables);
}

static void test_random_designs(void **state) {
  (void)state;
  int built = 0;
  for (int i = 0; i < 150; i++) {
    mal_design_ask k = random_ask();
    mal_status s = mal_design_make(&a, &k, &d, &e);
    if (s == MAL_NO) continue;
    if (s != MAL_OK) fail_msg("%s: %s", k.node, e.text);
    check_conservation(&d);
    check_ports_once(&a, &d);
    check_bill();
    if (d.has_fabric) check_cable_list();
    assert_true(fabs(d.cooling.heat_w - d.peak.total_w) < 1);
    assert_true(d.heaviest_rack_kg <= d.site.rack_max_kg + 1e-6);
    built++;
    mal_arena_reset(&a);
  }
  assert_true(built > 100);
}

/* With more nodes: no fewer switches, racks, cables, storage servers, watts. */
static void test_more_is_never_less(void **state) {
  (void)state;
  for (size_t n = 0; n < sizeof nodes / sizeof *nodes; n++) {
    double last[6] = {0};
    for (int64_t count = 2; count < 160; count += count < 20 ? 3 : 19) {
      mal_design_ask k;
      mal_design_ask_default(&k);
      k.node = nodes[n], k.nodes = count;
      assert_ok(mal_design_make(&a, &k, &d, &e), e);
      double now[] = {(double)(mal_network_switches(&d.compute) + mal_network_switches(&d.storage_network)),
                      (double)d.hall.node_racks,
                      (double)d.n_cables,
                      (double)d.storage.servers,
                      d.peak.total_w,
                      (double)(d.inband_leaves + d.oob_switches)};
      for (int i = 0; i < 6; i++) {
        if (now[i] < last[i])
          fail_msg("%s: %lld nodes need less of %d: %g after %g", nodes[n], (long long)count, i, now[i], last[i]);
        last[i] = now[i];
      }
      mal_arena_reset(&a);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_random_designs, setup, teardown),
      cmocka_unit_test_setup_teardown(test_more_is_never_less, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
