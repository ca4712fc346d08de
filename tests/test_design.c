/* Whole designs: the published bill of materials, rules of thumb that were published, conservation through every level, and
 * cables found against cables designed. */
#include "core/csv.h"
#include "design/compare.h"
#include "design/cost.h"
#include "design/design.h"
#include "design/files.h"
#include "design_checks.h"
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

static mal_design_ask ask_for(const char *node, int64_t nodes) {
  mal_design_ask k;
  mal_design_ask_default(&k);
  k.node = node, k.nodes = nodes;
  return k;
}

static double parts_of(const char *section, const char *part) {
  double n = 0;
  for (int i = 0; i < d.n_parts; i++)
    if (strcmp(d.parts[i].section, section) == 0 && strncmp(d.parts[i].part, part, strlen(part)) == 0)
      n += d.parts[i].count;
  return n;
}

static int64_t cables_of(const char *network, const char *tier) {
  int64_t n = 0;
  for (int64_t i = 0; i < d.n_cables; i++)
    n += strcmp(d.cables[i].network, network) == 0 && (!tier || strcmp(d.cables[i].tier, tier) == 0);
  return n;
}

static bool found(const char *words) {
  for (int i = 0; i < d.n_findings; i++)
    if (strstr(d.findings[i].text, words)) return true;
  return false;
}

/* Four scalable units of DGX H100: RA-11333-001 V11, table 4 and bill of materials. The storage fabric (16 switches there, 12 in
 * the B200 architecture and here), its cables, and the third-party storage racks follow no rule that is published. */
static void test_bill_of_materials(void **state) {
  (void)state;
  mal_design_ask k = ask_for("dgx-h100", 0);
  k.gpus = 1016, k.ufm = true;
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  assert_int_equal(d.nodes, 127);
  assert_true(parts_of("compute fabric", "qm9700") == 48);
  assert_true(parts_of("compute fabric", "switch-optics") == 1536);
  assert_true(parts_of("in-band network", "sn4600c") == 8);
  assert_true(parts_of("out-of-band network", "sn2201") == 8);
  assert_true(parts_of("nodes", "ufm") == 4);
  assert_int_equal(d.hall.node_racks, 32);
  assert_int_equal(d.hall.n_racks, 38);
  assert_int_equal(d.pdus, 96 + 12);
  assert_int_equal(d.hall.nodes_per_rack, 4);
  assert_int_equal(cables_of("compute", "node-leaf"), 1020);
  assert_int_equal(cables_of("compute", "leaf-spine"), 1024);
  assert_int_equal(cables_of("in-band", "leaf-spine"), 24);
  assert_int_equal(cables_of("in-band", "leaf-leaf"), 6);
  int64_t uplinks = 0;
  for (int64_t i = 0; i < d.n_cables; i++) uplinks += strncmp(d.cables[i].from_port, "uplink", 6) == 0;
  assert_int_equal(uplinks, 16);
  int64_t node_pdus = d.hall.node_racks * 3;
  assert_int_equal(node_pdus, 96);
  assert_int_equal(d.pdus - node_pdus, 2 * (d.hall.n_racks - d.hall.node_racks));
}

/* One node slot is UFM's when units would be full; the same cluster either way. */
static void test_ufm_slot(void **state) {
  (void)state;
  mal_design_ask k = ask_for("dgx-h100", 128);
  k.ufm = true;
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  assert_int_equal(d.nodes, 127);
  assert_int_equal(d.compute.leaves, 32);
  assert_true(found("UFM takes the slot"));
}

/* NVIDIA's deck for DGX B200: two a rack on two 380 V 32 A circuits with 3.4 kW to spare, four on two 415 V 60 A. */
static void test_published_racks(void **state) {
  (void)state;
  mal_design_ask k = ask_for("dgx-b200", 8);
  k.site = "b200-380v";
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  assert_int_equal(d.hall.nodes_per_rack, 2);
  double spare = 2 * mal_site_circuit_w(&d.site) - 2 * 14300;
  assert_true(fabs(spare - 3400) < 50);
  k.site = "b200-415v";
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  assert_int_equal(d.hall.nodes_per_rack, 4);
  assert_true(found("published twice"));
}

/* A 60 A circuit of 415 V: 34.5 kVA (Raritan PX3-5878I2R). */
static void test_circuit(void **state) {
  (void)state;
  mal_site s;
  assert_ok(mal_site_load(&a, "default", &s, &e), e);
  assert_true(fabs(mal_site_circuit_w(&s) / s.power_factor - 34500) < 50);
  assert_true(fabs(mal_site_outlet_v(&s) - 239.6) < 0.1);
}

/* Losing one of three circuits leaves a DGX H100 four of six supplies: full load. One of two sides: three, slower. */
static void test_supplies(void **state) {
  (void)state;
  mal_design_ask k = ask_for("dgx-h100", 4);
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  const mal_rack *r = &d.hall.racks[d.hall.units[0].rack];
  for (uint32_t i = 0; i < 3; i++) {
    mal_rack_power p = mal_rack_feed(&d.hall, r, 1u << i);
    assert_int_equal(p.slow + p.down, 0);
    assert_true(p.holds);
  }
  mal_rack_power two = mal_rack_feed(&d.hall, r, 3);
  assert_int_equal(two.down, 4);
  k.site = "ordinary-rack", k.single_node = true, k.nodes = 1;
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  mal_rack_power side = mal_rack_feed(&d.hall, &d.hall.racks[0], 1);
  assert_int_equal(side.slow, 1);
  assert_int_equal(side.down, 0);
}

/* DGX A100: 22,179 BTU/h is 6.5 kW; DGX H100's published heat is more than it draws, and both are shown. */
static void test_heat(void **state) {
  (void)state;
  mal_design_ask k = ask_for("dgx-a100", 1);
  k.single_node = true;
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  assert_true(fabs(d.cooling.btu_per_h - 22179) < 5);
  assert_false(found("published heat"));
  k.node = "dgx-h100";
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  assert_true(found("published heat"));
}

static void test_conservation(void **state) {
  (void)state;
  static const char *const nodes[] = {"dgx-h100", "dgx-a100", "dgx-b200", "dell-xe9680", "aws-p5", "gb200-nvl72"};
  static const int64_t counts[] = {2, 5, 16, 33, 100, 260};
  for (size_t n = 0; n < sizeof nodes / sizeof *nodes; n++)
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
      mal_design_ask k = ask_for(nodes[n], counts[i]);
      k.checkpoint_bytes = 1e12;
      if (strcmp(nodes[n], "dgx-b200") == 0) k.site = "b200-415v";
      mal_status s = mal_design_make(&a, &k, &d, &e);
      if (s != MAL_OK) fail_msg("%s: %s", nodes[n], e.text);
      check_conservation(&d);
      check_ports_once(&a, &d);
    }
}

/* A rack that holds no node, a room too small, a currency that differs, values that cannot be. */
static void test_contradictions(void **state) {
  (void)state;
  mal_design_ask k = ask_for("dgx-b200", 8);
  assert_ok(mal_site_load(&a, "default", &d.site, &e), e);
  k.site = "ordinary-rack";
  mal_site s;
  const char *weak = "rack_ru: 42\nvolts: 208\nbreaker_a: 16\nfeeds: 2\nnetwork_feeds: 2\n";
  assert_ok(mal_site_parse(&a, "weak.yaml", weak, strlen(weak), &s, &e), e);
  const char *bad[][3] = {{"phases: 2\n", "weak.yaml:1", "1 or 3"},
                          {"rack_ru: -4\n", "weak.yaml:1", "rack_ru"},
                          {"redundancy: 3n\n", "redundancy", "2n"},
                          {"humidity: 7\n", "humidity", "between"}};
  const char *against[][3] = {{"\nvolts: 480\n", "weak.yaml:2", "outlet_v"},
                              {"feeds: 3\nredundancy: 2n\n", "even", "weak.yaml:2"}};
  for (size_t i = 0; i < sizeof against / sizeof *against; i++)
    assert_fails(MAL_NO, mal_site_parse(&a, "weak.yaml", against[i][0], strlen(against[i][0]), &s, &e), e,
                 against[i][1], against[i][2]);
  const char *behind = "volts: 480\noutlet_v: 240\n"; /* 277 V to neutral; a transformer gives supplies 240 */
  assert_ok(mal_site_parse(&a, "weak.yaml", behind, strlen(behind), &s, &e), e);
  assert_true(mal_site_outlet_v(&s) == 240 && fabs(mal_site_line_v(&s) - 277.13) < 0.01);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_fails(MAL_BAD, mal_site_parse(&a, "weak.yaml", bad[i][0], strlen(bad[i][0]), &s, &e), e, bad[i][1],
                 bad[i][2]);
  assert_fails(MAL_BAD, mal_design_make(&a, &(mal_design_ask){.node = "dgx-h100", .goodput = 2}, &d, &e), e, "goodput");
  k = ask_for("dgx-h100", 0);
  assert_fails(MAL_BAD, mal_design_make(&a, &k, &d, &e), e, "--nodes");
  k.nodes = 4, k.gpus = 32;
  assert_fails(MAL_BAD, mal_design_make(&a, &k, &d, &e), e, "both");
  k = ask_for("dgx-h100", 4), k.goodput = 0.999999, k.checkpoint_bytes = 1e12;
  assert_fails(MAL_NO, mal_design_make(&a, &k, &d, &e), e, "goodput", "restart");
}

/* By hand: 70 nodes at 300,000 and 56 switches more at 25,000 against 560 GPUs at 2.49 an hour. */
static void test_cost(void **state) {
  (void)state;
  mal_cost c;
  mal_design_ask k = ask_for("dgx-h100", 70);
  k.rent = 2.49;
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  double capex = 0;
  for (int i = 0; i < d.n_parts; i++) {
    double price = strcmp(d.parts[i].part, "dgx-h100") == 0 ? 300000
                   : strcmp(d.parts[i].part, "qm9700") == 0 ? 25000
                                                            : -1;
    d.parts[i].price = price;
    if (price > 0) capex += price * d.parts[i].count;
  }
  mal_design_cost(&d, &c);
  assert_true(c.capex == capex && c.capex >= 70 * 300000);
  assert_true(fabs(c.break_even_s - capex / (2.49 * 560) * 3600) < 1);
  assert_true(fabs(c.per_gpu_hour - capex / (4 * 8766 * 560)) < 1e-9);
}

static void test_files(void **state) {
  (void)state;
  mal_design_ask k = ask_for("dgx-h100", 70);
  k.ethernet = true;
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  const char *conf = mal_design_topology_conf(&a, &d);
  assert_non_null(strstr(conf, "Nodes=node[0001-"));
  assert_non_null(strstr(conf, "SwitchName=spine Switches=su[001-"));
  mal_csv csv;
  char *text = mal_design_addresses_csv(&a, &d);
  assert_ok(mal_csv_parse(&a, "addresses", text, strlen(text), &csv, &e), e);
  char **all = MAL_ARRAY(&a, char *, csv.rows);
  for (int i = 0; i < csv.rows; i++) all[i] = mal_copy(&a, mal_csv_cell(&csv, i, 3));
  qsort(all, (size_t)csv.rows, sizeof *all, by_text);
  for (int i = 1; i < csv.rows; i++) assert_string_not_equal(all[i - 1], all[i]);
  assert_true(csv.rows > 70 * 10);
  k.node = "gb200-nvl72", k.nodes = 36, k.ethernet = false;
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  assert_non_null(strstr(mal_design_topology_conf(&a, &d), "BlockSizes=18"));
}

/* --- cables found ---------------------------------------------------------------------------------------------------- */

typedef struct change { /* what somebody did wrong at the k-th link */
  int64_t missing, slow, swap;
  bool extra;
} change;

static void put_line(mal_writing *w, const mal_network *n, const mal_link *l, bool upper, const mal_design *x,
                     const char *rate) {
  const char *from = mal_device_label(&a, n, l->from), *to = mal_device_label(&a, n, l->to);
  static const char *const hca[] = {"mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"};
  (void)x;
  if (upper && l->from.kind == MAL_DEV_NODE)
    mal_write(w, "[%lld] \"H-%s\"[1](ff) # \"%s %s\" lid 3 4x%s\n", (long long)l->to_port, from, from,
              l->rail >= 0 && n->ask.name[0] == 0 ? hca[l->rail] : "mlx5_1", rate);
  else if (upper)
    mal_write(w, "[%lld] \"%c-%s\"[%lld] # \"%s%s\" lid 3 4x%s\n", (long long)l->to_port,
              l->from.kind >= MAL_DEV_LEAF ? 'S' : 'H', from, (long long)l->from_port, from,
              l->from.kind >= MAL_DEV_LEAF ? "" : " mlx5_0", rate);
  else
    mal_write(w, "[%lld] \"S-%s\"[%lld] # \"%s\" lid 3 4x%s\n", (long long)l->from_port, to, (long long)l->to_port, to,
              rate);
}

static void put_network(mal_writing *w, const mal_network *n, change c) {
  int64_t count, by_kind[3] = {n->leaves, n->spines, n->cores};
  mal_link *links = mal_network_links(&a, n, &count);
  if (c.swap >= 0) { /* the two lie in each other's port */
    mal_link *p = &links[c.swap], *q = &links[c.swap + 1];
    mal_device to = p->to;
    int64_t port = p->to_port;
    p->to = q->to, p->to_port = q->to_port, q->to = to, q->to_port = port;
  }
  for (int kind = MAL_DEV_LEAF; kind <= MAL_DEV_CORE; kind++)
    for (int64_t i = 0; i < by_kind[kind - MAL_DEV_LEAF]; i++) {
      const char *name = mal_device_label(&a, n, (mal_device){kind, i});
      mal_write(w, "\nswitchguid=0x1\nSwitch 65 \"S-%s\" # \"%s\" base port 0 lid 1 lmc 0\n", name, name);
      for (int64_t k = 0; k < count; k++) {
        bool up = links[k].to.kind == kind && links[k].to.index == i,
             down = links[k].from.kind == kind && links[k].from.index == i;
        if ((up || down) && k != c.missing) put_line(w, n, &links[k], up, &d, k == c.slow ? "HDR" : "NDR");
      }
      if (c.extra && kind == MAL_DEV_LEAF && i == 0 && !n->ask.name[0])
        mal_write(w, "[63] \"H-stranger\"[1](ff) # \"stranger mlx5_0\" lid 3 4xNDR\n");
    }
}

static void compare_with(change c, mal_comparison *out) {
  mal_writing w = {.arena = &a};
  mal_wiring f;
  put_network(&w, &d.compute, c);
  put_network(&w, &d.storage_network, (change){-1, -1, -1, false});
  assert_ok(mal_wiring_parse(&a, "fabric.txt", w.text, w.used, &f, &e), e);
  mal_design_compare(&a, &d, &f, out);
}

static void test_cables_found(void **state) {
  (void)state;
  mal_design_ask k = ask_for("dgx-h100", 10);
  k.whole_units = true;
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  mal_comparison c;
  compare_with((change){-1, -1, -1, false}, &c);
  assert_int_equal(c.right, c.expected);
  assert_int_equal(c.count, 0);
  assert_int_equal(c.unseen_devices, 0);
  compare_with((change){.missing = 80, .slow = -1, .swap = -1}, &c); /* the first from leaf to spine */
  assert_int_equal(c.count, 1);
  assert_int_equal(c.faults[0].kind, MAL_CABLE_MISSING);
  assert_true(fabs(c.up_lost_bytes_per_s - 50e9) < 1);
  compare_with((change){.missing = -1, .slow = 81, .swap = -1}, &c);
  assert_int_equal(c.faults_of[MAL_CABLE_SLOW], 1);
  assert_true(fabs(c.up_lost_bytes_per_s - 25e9) < 1);
  compare_with((change){.missing = -1, .slow = -1, .swap = 0}, &c); /* two rails of one node */
  assert_int_equal(c.faults_of[MAL_CABLE_CROSSED], 2);
  assert_int_equal(c.faults[0].rail, 0);
  assert_string_equal(c.faults[0].found, "node0001 mlx5_3");
  compare_with((change){-1, -1, -1, true}, &c);
  assert_int_equal(c.faults_of[MAL_CABLE_EXTRA], 1);
  assert_int_equal(c.count, 1);
}

/* The real capture: 8 Switch and 10 Ca lines; of 35 port lines 10 are of hosts, 11 lead to one, 14 join switches, twice each. */
static void test_real_fabric(void **state) {
  (void)state;
  mal_wiring f;
  need_shared("captures/ib/ibnetdiscover-hdr-mcs8500-qm8700.txt");
  assert_ok(mal_wiring_read(&a, MALHA_SHARED "/captures/ib/ibnetdiscover-hdr-mcs8500-qm8700.txt", &f, &e), e);
  int64_t hosts = 0;
  for (int64_t i = 0; i < f.count; i++) {
    hosts += !f.links[i].b.is_switch;
    assert_true(f.links[i].bytes_per_s == 25e9);
  }
  assert_int_equal(f.switches, 8);
  assert_int_equal(f.hosts, 10);
  assert_int_equal(hosts, 11); /* ten hosts and the aggregation node */
  assert_int_equal(f.count - hosts, 7);
}

static void test_bad_fabrics(void **state) {
  (void)state;
  mal_wiring f;
  static const char *const bad[][2] = {
      {"hello", "neither"},
      {"switchguid=0x1\n[1] \"S-2\"[3] # \"x\" 4xNDR\n", ":2"},
      {"switchguid=0x1\nSwitch 4 # \"x\"\n", ":2"},
      {"switchguid=0x1\nSwitch 4 \"S-1\" # \"x\"\n[1] \"S-2\"\n", ":3"},
      {"{\"a\": 3}", "neighbour"},
      {"{\"a\": ", "fabric"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_fails(MAL_BAD, mal_wiring_parse(&a, "fabric.txt", bad[i][0], strlen(bad[i][0]), &f, &e), e, "fabric.txt",
                 bad[i][1]);
  const char *lldp = "{\"node0001\": {\"lldp\": {\"interface\": [{\"eth0\": {\"chassis\": {\"leaf001\": {}}, \"port\": "
                     "{\"id\": {\"type\": \"ifname\", \"value\": \"swp7\"}}}}]}}}";
  assert_ok(mal_wiring_parse(&a, "lldp.json", lldp, strlen(lldp), &f, &e), e);
  assert_int_equal(f.count, 1);
  assert_string_equal(f.links[0].a.device, "leaf001");
  assert_int_equal(f.links[0].a.port, 7);
  assert_string_equal(f.links[0].b.device, "node0001");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_bill_of_materials, setup, teardown),
      cmocka_unit_test_setup_teardown(test_ufm_slot, setup, teardown),
      cmocka_unit_test_setup_teardown(test_published_racks, setup, teardown),
      cmocka_unit_test_setup_teardown(test_circuit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_supplies, setup, teardown),
      cmocka_unit_test_setup_teardown(test_heat, setup, teardown),
      cmocka_unit_test_setup_teardown(test_conservation, setup, teardown),
      cmocka_unit_test_setup_teardown(test_contradictions, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cost, setup, teardown),
      cmocka_unit_test_setup_teardown(test_files, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cables_found, setup, teardown),
      cmocka_unit_test_setup_teardown(test_real_fabric, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bad_fabrics, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
