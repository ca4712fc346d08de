/* Every capture: what a person finds in it, written down by hand; and that nothing else is said to be wrong. */
#include "check/node/health.h"
#include "core/csv.h"
#include "test.h"

typedef struct seen {
  const char *file, *on;
  const char *expected[4]; /* "severity rule device", "*" any device; NULL-terminated: all that is above a note */
} seen;

static const seen captures[] = {
    {"topo-m/8gpu-pcie-epyc-512t-2nic-COMPLETE.txt", NULL, {"warning nic-distance *"}}, /* both ports on socket 0 */
    {"topo-m/8gpu-pcie-two-plx-numa1-COMPLETE.txt", NULL, {0}},
    {"topo-m/BROKEN-2gpu-nv3-bridge-partial-contact-nccl557.txt", NULL, {"error nvlink-path GPU1–GPU0"}},
    {"topo-m/aws-p4d-8xa100-nonic-COMPLETE.txt", NULL, {0}},
    {"topo-m/aws-p5-8xh100-nonic-COMPLETE.txt", NULL, {0}},
    {"topo-m/dgx-a100-18nic-nccl2157.txt", NULL, {0}},
    {"topo-m/dgx-a100-40g-8gpu-12nic-nccl1505.txt", NULL, {0}},
    {"topo-m/dgx2-v100-16gpu-nccltests78.txt", NULL, {0}},
    {"topo-m/foreign-metax-8gpu.txt", NULL, {0}},
    {"topo-m/h100-8gpu-p2p-r-all-OK.txt", NULL, {0}},
    {"topo-m/h100-8gpu-single-dualport-nic-on-gpu0-COMPLETE.txt",
     NULL,
     {"warning nic-distance *", "warning nic-count "}},
    {"topo-m/h100nvl-or-a100pcie-x8-nv12-bridged-pairs-COMPLETE.txt", NULL, {"warning nic-distance *"}},
    {"topo-m/hgx-a100-8gpu-1nic-nps4-COMPLETE.txt", NULL, {"warning nic-distance *", "warning nic-count "}},
    {"topo-m/hgx-a100-8gpu-8nic-COMPLETE.txt", NULL, {0}},
    {"topo-m/hgx-a100-nps4-8gpu-6nic-nccl1435.txt", NULL, {"warning nic-count "}}, /* a NIC for two GPUs */
    {"topo-m/hgx-h100-8gpu-10nic-nccl1264.txt", NULL, {0}},
    {"topo-m/hgx-h100-8gpu-6nic-ibm1.txt",
     NULL,
     {"warning nic-distance *", "warning nic-count "}}, /* GPU0, 2, 4, 6 have none at PIX */
    {"topo-m/nv18-8gpu-2nic-on-gpu6-COMPLETE.txt", NULL, {"warning nic-distance *", "warning nic-count "}},
    {"topo-m/rtx4090x8-node-sys-COMPLETE.txt", NULL, {0}},
    {"topo-m/rtx5090x2-PHB-club3090-1229.txt", NULL, {0}},
    {"topo-m/rtx5090x2-p2p-matrix-GNS-club3090-1229.txt", NULL, {"warning peer-access GPU1–GPU0"}},
    {"topo-m/v100-or-p100-x8-cube-mesh-variant.txt", NULL, {0}},
    {"topo-m/v100x8-hybrid-cube-mesh-COMPLETE.txt", NULL, {0}},
    {"nccl-xml/aws-g5-a10gx8.xml", NULL, {0}},
    {"nccl-xml/aws-p4d-a100x8.xml", NULL, {0}},
    {"nccl-xml/aws-p5-h100x8.xml", NULL, {0}},
    {"nccl-xml/azure-ncv4-a100pcie.xml", NULL, {0}},
    {"nccl-xml/azure-ncv4-graph.xml", NULL, {0}},
    {"nccl-xml/azure-ndv4-a100x8.xml", NULL, {0}},
    {"nccl-xml/azure-ndv5-h100x8.xml", NULL, {0}},
    {"nccl-xml/oci-a100x8-flattened.xml", NULL, {0}},
    {"nccl-xml/oci-bm-gpu-h100x8.xml", NULL, {0}},
    {"nvidia-smi-xml/a100-sxm4-v12.xml", NULL, {"warning mig GPU0"}},
    {"nvidia-smi-xml/gtx-1660-ti.xml", NULL, {0}},                           /* idle: PCIe 1 is no fault */
    {"nvidia-smi-xml/rtx-3090-v12.xml", NULL, {"warning power-limit GPU0"}}, /* 200 of 350 W */
    {"nvidia-smi-xml/rtx-4000-sff-ada-v13.xml", NULL, {0}},
    {"hwloc-xml/24em64t-2n-pci.xml", NULL, {0}},
    {"hwloc-xml/32em64t-2n-k40m-wholeio.xml",
     NULL,
     {"warning nic-distance *"}}, /* one NIC, on the switch of one of three GPUs */
    {"hwloc-xml/96em64t-4n-pci.xml", NULL, {0}},
    {"hwloc-xml/nvidia-dgx2-v100x16.xml", NULL, {0}},
    {"hwloc-xml/nvidiagpunumanodes.console.txt", NULL, {0}},
    {"lspci/a10-lspci-nn.txt", NULL, {0}},
    {"lspci/am5-2x5090-lspci-t-club3090-931.txt", NULL, {0}},
    {"lspci/wrx80-2x5090-lspci-t-club3090-1261.txt", NULL, {0}},
    {"lspci/dell-xe9680-h100x8-lspci-vvv-slim.txt", NULL, {0}},               /* ACS is on above the NVSwitches only */
    {"ib/sys-class-infiniband-h100.txt", NULL, {"error port-errors mlx5_1"}}, /* link_downed 255 */
    {"nvlink/BROKEN-v100-two-inactive-links-azdiag73.txt", NULL, {"error nvlink-links GPU3"}},
    {"nvlink/a100x8-nvlink-status.txt", NULL, {0}},
    {"nvlink/fabricmanager-h100-multicast.log.txt", NULL, {"warning sxid NVSwitch 0000:86:00.0"}},
    {"dmesg/dmesg-xid-119.txt", NULL, {"error xid GPU 0000:9b:00"}},
    {"dmesg/kmsg-peermem.txt", NULL, {"warning gpudirect-rdma nvidia-peermem"}},
    {"nccl-tests/UNHEALTHY-16gpu-P2P-and-SHM-disabled-allreduce.txt", NULL, {"error benchmark all_reduce"}},
    {"nccl-tests/UNHEALTHY-16gpu-P2P-and-SHM-disabled-allreduce.txt", "2xhgx-h100", {"error benchmark all_reduce"}},
    {"nccl-tests/a100-40g-x8-1node-allgather.txt", NULL, {0}},
    {"nccl-tests/a100-40g-x8-1node-allreduce.txt", NULL, {0}},
    {"nccl-tests/a100-40g-x8-1node-alltoall.txt", NULL, {0}},
    {"nccl-tests/a100-40g-x8-1node-broadcast.txt", NULL, {0}},
    {"nccl-tests/a100-40g-x8-1node-reduce.txt", NULL, {0}},
    {"nccl-tests/a100-40g-x8-1node-reducescatter.txt", NULL, {0}},
    {"nccl-tests/alps-gh200-2rank-allreduce.txt", NULL, {0}},
    {"nccl-tests/gh200-slingshot-2node-8gpu-allreduce.txt", NULL, {0}},
    {"nccl-tests/h200-8gpu-1node-allreduce-stas.txt", "8xh200", {0}},
    {"nccl-tests/ib-write-bw-hdr200-8M.txt", NULL, {0}},
    {"nccl-tests/ib-write-bw-hdr200-allsizes.txt", NULL, {0}},
    {"nccl-tests/nvbandwidth-gh200.txt", NULL, {0}},
    {"nccl-tests/oci-a100-40g-2node-16gpu-allreduce.txt", "2xhgx-a100-40", {0}},
    {"nccl-tests/p4de-a100-80g-2node-16gpu-efa-allreduce.txt", "2xaws-p4de", {0}},
    {"nccl-tests/p5-h100-2node-16gpu-efa-allreduce.txt", "2xaws-p5", {0}},
};

/* What benchmarks must be read as: ranks from busbw / algbw or the list of devices, and the verdict. */
static const struct {
  const char *file, *on, *what;
  int ranks, points, verdict;
} benches[] = {
    {"nccl-tests/UNHEALTHY-16gpu-P2P-and-SHM-disabled-allreduce.txt", NULL, "all_reduce", 16, 8, 1},
    {"nccl-tests/a100-40g-x8-1node-allreduce.txt", NULL, "all_reduce", 8, 32, 0},
    {"nccl-tests/a100-40g-x8-1node-alltoall.txt", NULL, "alltoall", 8, 29, 0},
    {"nccl-tests/a100-40g-x8-1node-reduce.txt", NULL, "reduce", 8, 32, 0},
    {"nccl-tests/alps-gh200-2rank-allreduce.txt", NULL, "all_reduce", 2, 8, -1},
    {"nccl-tests/gh200-slingshot-2node-8gpu-allreduce.txt", NULL, "all_reduce", 8, 8, -1},
    {"nccl-tests/h200-8gpu-1node-allreduce-stas.txt", "8xh200", "all_reduce", 8, 20, 0},
    {"nccl-tests/oci-a100-40g-2node-16gpu-allreduce.txt", "2xhgx-a100-40", "all_reduce", 16, 3, 0},
    {"nccl-tests/p4de-a100-80g-2node-16gpu-efa-allreduce.txt", "2xaws-p4de", "all_reduce", 16, 29, 0},
    {"nccl-tests/p5-h100-2node-16gpu-efa-allreduce.txt", "2xaws-p5", "all_reduce", 16, 32, 0},
};

static void judge(mal_arena *a, mal_health *h, const char *file, const char *on) {
  mal_paste p;
  mal_error e;
  mal_health_init(h, a);
  assert_ok(mal_paste_load(a, mal_print(a, "%s/%s", MALHA_SHARED, file), &p, &e), e);
  assert_ok(mal_health_read(h, &p, &e), e);
  assert_ok(mal_health_judge(h, on, &e), e);
}

static bool is_expected(mal_arena *a, const mal_finding *f, const char *text) {
  const char *start = mal_print(a, "%s %s ", mal_severity_name[f->severity], mal_rule_name[f->rule]);
  if (!mal_starts(text, start)) return false;
  const char *device = text + strlen(start);
  return strcmp(device, "*") == 0 || strcmp(device, f->device) == 0;
}

static void test_captures(void **state) {
  int failures = 0;
  (void)state;
  need_shared("captures/topo-m/foreign-metax-8gpu.txt");
  for (size_t i = 0; i < sizeof captures / sizeof *captures; i++) {
    const seen *s = &captures[i];
    mal_arena a;
    mal_health h;
    mal_arena_init(&a);
    judge(&a, &h, mal_print(&a, "captures/%s", s->file), s->on);
    for (int k = 0; k < 4 && s->expected[k]; k++) {
      bool found = false;
      for (int j = 0; j < h.n_findings; j++) found = found || is_expected(&a, &h.findings[j], s->expected[k]);
      if (!found) fprintf(stderr, "%s: no %s\n", s->file, s->expected[k]), failures++;
    }
    for (int j = 0; j < h.n_findings; j++) {
      const mal_finding *f = &h.findings[j];
      bool known = f->severity == MAL_SEV_NOTE;
      for (int k = 0; k < 4 && s->expected[k]; k++) known = known || is_expected(&a, f, s->expected[k]);
      if (!known)
        fprintf(stderr, "%s: false alarm: %s %s %s: %s\n", s->file, mal_severity_name[f->severity],
                mal_rule_name[f->rule], f->device, f->what),
            failures++;
    }
    mal_arena_free(&a);
  }
  assert_int_equal(failures, 0);
}

static void test_benchmarks(void **state) {
  int failures = 0;
  (void)state;
  need_shared("captures/nccl-tests/a100-40g-x8-1node-allreduce.txt");
  for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
    mal_arena a;
    mal_health h;
    mal_arena_init(&a);
    judge(&a, &h, mal_print(&a, "captures/%s", benches[i].file), benches[i].on);
    const mal_bench *b = h.n_benches == 1 ? &h.benches[0] : NULL;
    if (!b || strcmp(b->what, benches[i].what) != 0 || b->ranks != benches[i].ranks ||
        b->n_points != benches[i].points || b->verdict != benches[i].verdict)
      fprintf(stderr, "%s: %d tables; %s, %d ranks, %d points, verdict %d\n", benches[i].file, h.n_benches,
              b ? b->what : "-", b ? (int)b->ranks : 0, b ? b->n_points : 0, b ? b->verdict : 9),
          failures++;
    mal_arena_free(&a);
  }
  assert_int_equal(failures, 0);
}

/* A published table with a verdict in each row: judged rows come out as they are, and few stay unjudged. */
static void test_table_of_results(void **state) {
  mal_arena a;
  mal_health h;
  int judged = 0, wrong = 0;
  (void)state;
  need_shared("data/ncclbench.csv");
  mal_arena_init(&a);
  judge(&a, &h, "data/ncclbench.csv", NULL);
  assert_int_equal(h.n_benches, 36);
  for (int i = 0; i < h.n_benches; i++) {
    const mal_bench *b = &h.benches[i];
    bool sick = strstr(b->said, "UNHEALTHY") != NULL;
    judged += b->verdict >= 0;
    if (b->verdict >= 0 && b->verdict != sick)
      fprintf(stderr, "line %d (%s): said %s, judged %d\n", b->line, b->gpu, b->said, b->verdict), wrong++;
  }
  assert_int_equal(wrong, 0);
  assert_true(judged >= 32); /* not: a row without numbers, one without ranks, a loopback of one rank */
  mal_arena_free(&a);
}

/* Codes of the catalogue against NVIDIA's list: none is missing that has a meaning, none is invented. */
static void test_xid_catalogue(void **state) {
  mal_arena a;
  mal_csv ours, theirs;
  mal_error e;
  (void)state;
  need_shared("data/xid_catalog.csv");
  mal_arena_init(&a);
  assert_ok(mal_csv_read(&a, MALHA_SOURCE "/catalog/checks/xid.csv", &ours, &e), e);
  assert_ok(mal_csv_read(&a, MALHA_SHARED "/data/xid_catalog.csv", &theirs, &e), e);
  int used = 0;
  for (int i = 0; i < theirs.rows; i++) {
    if (strcmp(mal_csv_cell(&theirs, i, 2), "Unused") == 0) continue;
    used++;
    bool found = false;
    for (int j = 0; j < ours.rows; j++)
      found = found || (strcmp(mal_csv_cell(&ours, j, 0), mal_csv_cell(&theirs, i, 0)) == 0 &&
                        strcmp(mal_csv_cell(&ours, j, 5), mal_csv_cell(&theirs, i, 3)) == 0);
    if (!found) fail_msg("XID %s is missing or has another action", mal_csv_cell(&theirs, i, 0));
  }
  assert_int_equal(ours.rows, used);
  mal_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_captures),
      cmocka_unit_test(test_benchmarks),
      cmocka_unit_test(test_table_of_results),
      cmocka_unit_test(test_xid_catalogue),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
