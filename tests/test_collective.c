/* Collectives: the measured table of nccl-tests, latency, links. */
#include "core/csv.h"
#include "price/collective.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>

/* The constants as shipped: those that price training runs. Healthy rows with a whole buffer of at least 1 GiB; GB/s of busbw. Sources: nccl-tests logs of stas00/ml-engineering (A100-40,
 * H200, B200), of awsome-distributed-training (p4de, p5, p5en), of oracle-quickstart/oci-hpc (A100-40, 16 x 100G, whose sample
 * sets NCCL_ALGO=Ring). */
typedef struct measured {
  const char *gpu, *machine; /* as in the table; catalogue */
  int gpus, nodes;
  mal_collective c;
  double bytes, busbw;
  int algorithm;         /* -1: what NCCL chooses */
  double nics, nic_gbit; /* where the catalogue has no such node; 0: as there */
} measured;

static const measured rows[] = {
    {"A100-SXM4-40GB", "8xa100-40-sxm", 8, 1, MAL_ALL_REDUCE, 8589934592, 235.26, -1, 0, 0},
    {"A100-SXM4-40GB", "8xa100-40-sxm", 8, 1, MAL_ALL_GATHER, 8589934592, 223.39, -1, 0, 0},
    {"A100-SXM4-40GB", "8xa100-40-sxm", 8, 1, MAL_REDUCE_SCATTER, 8589934592, 231.52, -1, 0, 0},
    {"A100-SXM4-40GB", "8xa100-40-sxm", 8, 1, MAL_ALL_TO_ALL, 8589934592, 224.31, -1, 0, 0},
    {"A100-SXM4-40GB", "8xa100-40-sxm", 8, 1, MAL_BROADCAST, 8589934592, 232.81, -1, 0, 0},
    {"A100-80G p4de", "2xaws-p4de", 16, 2, MAL_ALL_REDUCE, 2147483648, 78.33, -1, 0, 0},
    {"A100-40G OCI", "2x8xa100-40-sxm", 16, 2, MAL_ALL_REDUCE, 4294967296, 190.02, MAL_ALG_RING, 16, 100},
    {"H100 p5", "2xaws-p5", 16, 2, MAL_ALL_REDUCE, 17179869184, 487.09, -1, 0, 0},
    {"H100 p5", "16xaws-p5", 128, 16, MAL_ALL_REDUCE, 17179869184, 369.86, -1, 0, 0},
    {"H200", "8xh200-sxm", 8, 1, MAL_ALL_REDUCE, 17179869184, 482.26, -1, 0, 0},
    {"H200", "8xh200-sxm", 8, 1, MAL_ALL_REDUCE, 17179869184, 367.2, MAL_ALG_RING, 0, 0},
    {"H200", "8xh200-sxm", 8, 1, MAL_ALL_GATHER, 17179869184, 361.4, -1, 0, 0},
    {"H200", "8xh200-sxm", 8, 1, MAL_REDUCE_SCATTER, 17179869184, 362.9, -1, 0, 0},
    {"H200", "4xh200-sxm", 4, 1, MAL_ALL_REDUCE, 8589934592, 363.3, -1, 0, 0},
    {"H200", "6xh200-sxm", 6, 1, MAL_ALL_REDUCE, 8589934592, 435.6, -1, 0, 0},
    {"H200", "8xh200-sxm", 8, 1, MAL_ALL_REDUCE, 8589934592, 473.1, -1, 0, 0},
    {"H200 p5en", "4xaws-p5en", 32, 4, MAL_ALL_REDUCE, 4294967296, 364.87, -1, 0, 0},
    {"B200 p6", "4xb200-sxm", 4, 1, MAL_ALL_REDUCE, 8589934592, 673.2, -1, 0, 0},
    {"B200 p6", "8xb200-sxm", 8, 1, MAL_ALL_REDUCE, 8589934592, 838.0, -1, 0, 0},
    {"B200 p6", "8xb200-sxm", 8, 1, MAL_ALL_REDUCE, 8589934592, 682.2, MAL_ALG_RING, 0, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const double tolerance = 0.10;

/* A group of all GPUs of all nodes. */
static mal_group whole(const mal_machine *m) {
  int64_t n = mal_machine_gpus(m);
  mal_group g = {.size = n, .ranks_per_node = m->gpus_per_node, .nodes = m->nodes, .ranks_per_nvlink = 1, .stride = 1};
  if (m->node->nvlink_domain > 1) g.ranks_per_nvlink = m->gpus_per_node;
  g.nic_share = m->node->nics.value / (double)m->gpus_per_node;
  return g;
}

static void load(mal_arena *a, const char *name, mal_machine *m) {
  mal_error e;
  assert_ok(mal_machine_load(a, name, m, &e), e);
}

static double predicted(mal_arena *a, const measured *row, mal_collective_time *t) {
  mal_machine m;
  load(a, row->machine, &m);
  if (row->nics > 0) m.node->nics.value = row->nics, m.node->nic_bytes_per_s.value = row->nic_gbit * 1e9 / 8;
  mal_group g = whole(&m);
  assert_int_equal(g.size, row->gpus);
  *t = row->algorithm < 0 ? mal_collective_price(&m, &g, row->c, row->bytes)
                          : mal_collective_price_with(&m, &g, row->c, row->bytes, (mal_algorithm)row->algorithm);
  return t->busbw / 1e9;
}

static void test_measured(void **state) {
  (void)state;
  int bad = 0;
  for (int i = 0; i < ROWS; i++) {
    mal_arena a;
    mal_arena_init(&a);
    mal_collective_time t;
    double gbs = predicted(&a, &rows[i], &t), error = gbs / rows[i].busbw - 1;
    print_message("%-16s %3d GPUs %2d nodes %-14s %-12s measured %6.1f predicted %6.1f %+5.1f %%\n", rows[i].gpu,
                  rows[i].gpus, rows[i].nodes, mal_collective_name[rows[i].c], mal_algorithm_name[t.algorithm],
                  rows[i].busbw, gbs, 100 * error);
    bad += fabs(error) > tolerance;
    mal_arena_free(&a);
  }
  assert_int_equal(bad, 0);
}

/* Every healthy row of the shared table that is a collective of ≥ 1 GiB has its fixture above, with the same number. */
static void test_table(void **state) {
  (void)state;
  need_shared("data/ncclbench.csv");
  mal_arena a;
  mal_arena_init(&a);
  mal_csv csv;
  mal_error e;
  assert_ok(mal_csv_read(&a, MALHA_SHARED "/data/ncclbench.csv", &csv, &e), e);
  int health = mal_csv_column(&csv, "health"), bytes = mal_csv_column(&csv, "size_bytes"),
      bus = mal_csv_column(&csv, "busbw_gbs");
  int seen = 0;
  for (int r = 0; r < csv.rows; r++) {
    double busbw = atof(mal_csv_cell(&csv, r, bus));
    if (strncmp(mal_csv_cell(&csv, r, health), "healthy", 7) != 0 || atof(mal_csv_cell(&csv, r, bytes)) < 0x1p30)
      continue;
    if (busbw <= 0 || strcmp(mal_csv_cell(&csv, r, mal_csv_column(&csv, "collective")), "reduce") == 0) continue;
    if (strcmp(mal_csv_cell(&csv, r, mal_csv_column(&csv, "collective")), "ib_write_bw") == 0) continue;
    bool found = false;
    for (int i = 0; i < ROWS; i++) found |= fabs(rows[i].busbw - busbw) < 0.01;
    if (!found) fail_msg("line %d of ncclbench.csv has no fixture: %g GB/s", csv.line[r], busbw);
    seen++;
  }
  assert_true(seen >= 15);
  mal_arena_free(&a);
}

/* Latency grows with the group: along the ring with every member, in the tree with every doubling of nodes. */
static void test_latency_grows(void **state) {
  (void)state;
  mal_arena a;
  mal_arena_init(&a);
  mal_machine m;
  load(&a, "128xdgx-h100", &m);
  double ring_before = 0, tree_before = 0, best_before = 0, ring_step = 0;
  for (int64_t nodes = 1; nodes <= 128; nodes *= 2) {
    mal_group g = whole(&m);
    g.nodes = nodes, g.size = nodes * 8;
    mal_collective_time ring = mal_collective_price_with(&m, &g, MAL_ALL_REDUCE, 1024, MAL_ALG_RING);
    mal_collective_time tree = mal_collective_price_with(&m, &g, MAL_ALL_REDUCE, 1024, MAL_ALG_TREE);
    mal_collective_time best = mal_collective_price(&m, &g, MAL_ALL_REDUCE, 1024);
    assert_true(ring.latency_s > ring_before && tree.latency_s > tree_before && best.seconds > best_before);
    if (nodes > 4) assert_true(ring.latency_s - ring_before > 1.9 * ring_step); /* linear in members */
    if (nodes > 2) assert_true(fabs(tree.latency_s - tree_before - 2 * m.gpu->cal.net_latency_s.value) < 1e-9);
    ring_step = nodes > 1 ? ring.latency_s - ring_before : 0;
    ring_before = ring.latency_s, tree_before = tree.latency_s, best_before = best.seconds;
  }
  mal_arena_free(&a);
}

/* The link that binds: NICs of the node, shared; NVLink inside; host memory where cards cannot reach each other. */
static void test_links(void **state) {
  (void)state;
  mal_arena a;
  mal_arena_init(&a);
  mal_machine m, pcie;
  load(&a, "2xdgx-h100", &m);
  mal_group g = whole(&m), rail = g;
  double all = mal_collective_price_with(&m, &g, MAL_ALL_GATHER, 1e9, MAL_ALG_RING).seconds;
  rail.size = 2,
  rail.ranks_per_node = rail.ranks_per_nvlink = 1; /* one GPU a node: one NIC, the others serve their own groups */
  double one = mal_collective_price_with(&m, &rail, MAL_ALL_GATHER, 1e9, MAL_ALG_RING).seconds;
  assert_true(one > 4 * all * 0.5);
  m.node->nics.value /= 2;
  g = whole(&m);
  double half = mal_collective_price(&m, &g, MAL_ALL_GATHER, 1e9).seconds; /* now the NICs bind, not NVLink */
  assert_true(half > 1.5 * all);
  m.node->nics.value /= 2;
  g = whole(&m);
  assert_true(mal_collective_price(&m, &g, MAL_ALL_GATHER, 1e9).seconds > 1.8 * half);

  load(&a, "8xl40s", &pcie);
  g = whole(&pcie);
  pcie.gpu->p2p = true;
  mal_collective_time direct = mal_collective_price(&pcie, &g, MAL_ALL_REDUCE, 1e9);
  pcie.gpu->p2p = false;
  mal_collective_time host = mal_collective_price(&pcie, &g, MAL_ALL_REDUCE, 1e9);
  assert_true(host.seconds > 1.8 * direct.seconds);
  assert_true(direct.pcie_bytes > 0 && direct.nvlink_bytes == 0 && direct.nic_bytes == 0);
  mal_arena_free(&a);
}

/* Bytes that a rank sends follow the textbook; a group of one costs nothing; no bytes cost nothing. */
static void test_bytes(void **state) {
  (void)state;
  mal_arena a;
  mal_arena_init(&a);
  mal_machine m;
  load(&a, "8xa100-80-sxm", &m);
  mal_group g = whole(&m);
  assert_true(fabs(mal_collective_price_with(&m, &g, MAL_ALL_REDUCE, 800, MAL_ALG_RING).nvlink_bytes - 1400) < 1e-9);
  assert_true(fabs(mal_collective_price(&m, &g, MAL_ALL_GATHER, 800).nvlink_bytes - 700) < 1e-9);
  assert_true(fabs(mal_collective_price(&m, &g, MAL_ALL_TO_ALL, 800).nvlink_bytes - 700) < 1e-9);
  assert_true(mal_collective_price(&m, &g, MAL_ALL_REDUCE, 0).seconds == 0);
  g.size = 1;
  assert_true(mal_collective_price(&m, &g, MAL_ALL_REDUCE, 800).seconds == 0);
  assert_true(mal_transfer_price(&m, &g, 800).seconds == 0);
  mal_arena_free(&a);
}

/* NVLS from 5 GPUs on switches that reduce, for all-reduce only. */
static void test_nvls(void **state) {
  (void)state;
  mal_arena a;
  mal_arena_init(&a);
  mal_machine m;
  load(&a, "8xh100-sxm", &m);
  mal_group g = whole(&m);
  for (int64_t n = 2; n <= 8; n++) {
    g.size = g.ranks_per_node = g.ranks_per_nvlink = n;
    assert_int_equal(mal_collective_price(&m, &g, MAL_ALL_REDUCE, 1e9).algorithm == MAL_ALG_NVLS, n >= 5);
    assert_int_equal(mal_collective_price(&m, &g, MAL_ALL_GATHER, 1e9).algorithm, MAL_ALG_RING);
  }
  load(&a, "8xa100-80-sxm", &m);
  g = whole(&m);
  assert_int_equal(mal_collective_price(&m, &g, MAL_ALL_REDUCE, 1e9).algorithm, MAL_ALG_RING);
  mal_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_measured), cmocka_unit_test(test_table), cmocka_unit_test(test_latency_grows),
      cmocka_unit_test(test_links),    cmocka_unit_test(test_bytes), cmocka_unit_test(test_nvls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
