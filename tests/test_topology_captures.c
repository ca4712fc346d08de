/* Real listings, and what a person reads in each: written down by hand from the file. */
#include "layout/placement.h"
#include "test.h"

typedef struct reading {
  const char *file;
  const char *what;          /* as which listing it is recognised */
  int gpus, nics;            /* GPUs and NICs of the compute fabric that it names */
  const char *first, *last;  /* paths GPU0-GPU1 and GPU0-last GPU; NULL not said */
  int numa_first, numa_last; /* of GPU0 and the last GPU; -1 not said */
  int broken;                /* line after which it breaks off */
  const char *gpu;           /* catalogue name; NULL not said or not there */
  int rails;
  const char *nic_first, *nic_path, *nic_last; /* NICs of rank 0, their distance, NICs of the last rank */
} reading;

static const reading readings[] = {
    {"topo-m/8gpu-pcie-epyc-512t-2nic-COMPLETE.txt", "nvidia-smi topo -m", 8, 2, "NODE", "SYS", 0, 1, 0, NULL, 2,
     "mlx5_0", "NODE", "mlx5_1"},
    {"topo-m/8gpu-pcie-two-plx-numa1-COMPLETE.txt", "nvidia-smi topo -m", 8, 2, "PIX", "NODE", 1, 1, 0, NULL, 2,
     "ibp177s0f0", "NODE", "ibp177s0f1"},
    {"topo-m/BROKEN-2gpu-nv3-bridge-partial-contact-nccl557.txt", "nvidia-smi topo -m", 2, 0, "NV3", "NV3", -1, -1, 0,
     NULL, 0, NULL, NULL, NULL},
    {"topo-m/aws-p4d-8xa100-nonic-COMPLETE.txt", "nvidia-smi topo -m", 8, 0, "NV12", "NV12", 0, 1, 0, NULL, 0, NULL,
     NULL, NULL},
    {"topo-m/aws-p5-8xh100-nonic-COMPLETE.txt", "nvidia-smi topo -m", 8, 0, "NV18", "NV18", 0, 1, 0, NULL, 0, NULL,
     NULL, NULL},
    {"topo-m/dgx-a100-18nic-nccl2157.txt", "nvidia-smi topo -m", 8, 18, "NV12", "NV12", 3, -1, 5, NULL, 8, "NIC5,NIC7",
     "PXB", NULL},
    {"topo-m/dgx-a100-40g-8gpu-12nic-nccl1505.txt", "nvidia-smi topo -m", 8, 12, "NV12", "NV12", 3, -1, 5, NULL, 4,
     "NIC0", "PXB", NULL},
    {"topo-m/dgx2-v100-16gpu-nccltests78.txt", "nvidia-smi topo -m", 16, 10, "NV6", "NV6", -1, -1, 5, NULL, 2, "mlx5_0",
     "PIX", NULL},
    {"topo-m/foreign-metax-8gpu.txt", "nvidia-smi topo -m", 8, 0, "MX", "NODE", 0, 0, 0, NULL, 0, NULL, NULL, NULL},
    {"topo-m/h100-8gpu-p2p-r-all-OK.txt", "nvidia-smi topo -p2p", 8, 0, NULL, NULL, -1, -1, 0, NULL, 0, NULL, NULL,
     NULL},
    {"topo-m/h100-8gpu-single-dualport-nic-on-gpu0-COMPLETE.txt", "nvidia-smi topo -m", 8, 2, "NV18", "NV18", 0, 1, 0,
     NULL, 2, "mlx5_0", "PIX", "mlx5_1"},
    {"topo-m/h100nvl-or-a100pcie-x8-nv12-bridged-pairs-COMPLETE.txt", "nvidia-smi topo -m", 8, 2, "NV12", "SYS", 0, 1,
     0, NULL, 2, "mlx5_0", "NODE", "mlx5_1"},
    {"topo-m/hgx-a100-8gpu-1nic-nps4-COMPLETE.txt", "nvidia-smi topo -m", 8, 1, "NV12", "NV12", 3, 5, 0, NULL, 1,
     "mlx5_0", "SYS", "mlx5_0"},
    {"topo-m/hgx-a100-8gpu-8nic-COMPLETE.txt", "nvidia-smi topo -m", 8, 8, "NV12", "NV12", 0, 1, 0, NULL, 8, "NIC0",
     "PXB", "NIC7"},
    {"topo-m/hgx-a100-nps4-8gpu-6nic-nccl1435.txt", "nvidia-smi topo -m", 8, 6, "NV12", "NV12", 3, -1, 8, NULL, 4,
     "NIC1", "PXB", NULL},
    {"topo-m/hgx-h100-8gpu-10nic-nccl1264.txt", "nvidia-smi topo -m", 8, 10, "NV18", "NV18", 0, 1, 0, NULL, 8, "NIC0",
     "PIX", "NIC9"},
    {"topo-m/hgx-h100-8gpu-6nic-ibm1.txt", "nvidia-smi topo -m", 8, 6, "NV18", "NV18", 0, -1, 8, NULL, 3, "NIC0",
     "NODE", NULL},
    {"topo-m/nv18-8gpu-2nic-on-gpu6-COMPLETE.txt", "nvidia-smi topo -m", 8, 2, "NV18", "NV18", 0, 1, 0, NULL, 2, "NIC0",
     "SYS", "NIC1"},
    {"topo-m/rtx4090x8-node-sys-COMPLETE.txt", "nvidia-smi topo -m", 8, 0, "NODE", "SYS", 0, 1, 0, NULL, 0, NULL, NULL,
     NULL},
    {"topo-m/rtx5090x2-PHB-club3090-1229.txt", "nvidia-smi topo -m", 2, 0, "PHB", "PHB", 0, 0, 0, NULL, 0, NULL, NULL,
     NULL},
    {"topo-m/rtx5090x2-p2p-matrix-GNS-club3090-1229.txt", "nvidia-smi topo -p2p", 2, 0, NULL, NULL, -1, -1, 0, NULL, 0,
     NULL, NULL, NULL},
    {"topo-m/v100-or-p100-x8-cube-mesh-variant.txt", "nvidia-smi topo -m", 8, 0, "NV2", "NODE", -1, -1, 0, NULL, 0,
     NULL, NULL, NULL},
    {"topo-m/v100x8-hybrid-cube-mesh-COMPLETE.txt", "nvidia-smi topo -m", 8, 1, "NV2", "NODE", -1, -1, 0, NULL, 1,
     "mlx5_0", "NODE", "mlx5_0"},
    {"nccl-xml/aws-g5-a10gx8.xml", "NCCL topology XML", 0, 0, NULL, NULL, -1, -1, 0, NULL, 0, NULL, NULL, NULL},
    {"nccl-xml/aws-p4d-a100x8.xml", "NCCL topology XML", 8, 4, "PIX", "SYS", 0, 1, 0, "a100-40-sxm", 4,
     "NIC 0000:10:1b.0", "PIX", "NIC 0000:a0:1b.0"},
    {"nccl-xml/aws-p5-h100x8.xml", "NCCL topology XML", 0, 0, NULL, NULL, -1, -1, 0, NULL, 0, NULL, NULL, NULL},
    {"nccl-xml/azure-ncv4-a100pcie.xml", "NCCL topology XML", 4, 0, "SYS", "SYS", 0, 3, 0, "a100-80-pcie", 0, NULL,
     NULL, NULL},
    {"nccl-xml/azure-ncv4-graph.xml", "NCCL topology XML", 4, 0, NULL, NULL, -1, -1, 0, NULL, 0, NULL, NULL, NULL},
    {"nccl-xml/azure-ndv4-a100x8.xml", "NCCL topology XML", 8, 8, "PIX", "SYS", 1, 2, 0, NULL, 8, "NIC 0101:00:00.0",
     "PIX", "NIC 0108:00:00.0"},
    {"nccl-xml/azure-ndv5-h100x8.xml", "NCCL topology XML", 8, 8, "PHB", "SYS", 0, 1, 0, NULL, 8, "NIC 0101:00:00.0",
     "PIX", "NIC 0108:00:00.0"},
    {"nccl-xml/oci-a100x8-flattened.xml", "NCCL topology XML", 8, 8, "PIX", "SYS", 3, 5, 0, NULL, 8, "NIC 0000:0c:00.0",
     "PIX", "NIC 0000:d1:00.0"},
    {"nccl-xml/oci-bm-gpu-h100x8.xml", "NCCL topology XML", 8, 16, "NV18", "NV18", 0, 1, 0, "h100-80-sxm", 16,
     "mlx5_0,mlx5_1", "PIX", "mlx5_16,mlx5_17"},
    {"nvidia-smi-xml/a100-sxm4-v12.xml", "nvidia-smi -q -x", 1, 0, NULL, NULL, -1, -1, 0, "a100-80-sxm", 0, NULL, NULL,
     NULL},
    {"nvidia-smi-xml/gtx-1660-ti.xml", "nvidia-smi -q -x", 1, 0, NULL, NULL, -1, -1, 0, NULL, 0, NULL, NULL, NULL},
    {"nvidia-smi-xml/rtx-3090-v12.xml", "nvidia-smi -q -x", 1, 0, NULL, NULL, -1, -1, 0, "rtx3090", 0, NULL, NULL,
     NULL},
    {"nvidia-smi-xml/rtx-4000-sff-ada-v13.xml", "nvidia-smi -q -x", 1, 0, NULL, NULL, -1, -1, 0, NULL, 0, NULL, NULL,
     NULL},
    {"hwloc-xml/24em64t-2n-pci.xml", "lstopo --of xml", 3, 0, "SYS", "SYS", 0, 1, 0, NULL, 0, NULL, NULL, NULL},
    {"hwloc-xml/32em64t-2n-k40m-wholeio.xml", "lstopo --of xml", 3, 1, "SYS", "SYS", 0, 1, 0, NULL, 1, "mlx5_0", "SYS",
     "mlx5_0"},
    {"hwloc-xml/96em64t-4n-pci.xml", "lstopo --of xml", 0, 0, NULL, NULL, -1, -1, 0, NULL, 0, NULL, NULL, NULL},
    {"hwloc-xml/nvidia-dgx2-v100x16.xml", "lstopo --of xml", 16, 0, "NV6", "NV6", 0, 1, 0, "v100-32-sxm", 0, NULL, NULL,
     NULL},
    {"hwloc-xml/nvidiagpunumanodes.console.txt", "lstopo --of console -v", 6, 0, "NODE", "SYS", 0, 8, 0, NULL, 0, NULL,
     NULL, NULL},
    {"lspci/a10-lspci-nn.txt", "lspci", 1, 1, NULL, NULL, -1, -1, 0, "a10", 1, NULL, NULL, NULL},
    {"lspci/am5-2x5090-lspci-t-club3090-931.txt", "lspci -t", 0, 0, NULL, NULL, -1, -1, 0, NULL, 0, NULL, NULL, NULL},
    {"lspci/wrx80-2x5090-lspci-t-club3090-1261.txt", "lspci -t", 0, 0, NULL, NULL, -1, -1, 0, NULL, 0, NULL, NULL,
     NULL},
    /* eight ConnectX-7 for compute, two dual-port ConnectX-6 Dx for storage on the switches of GPU0 and GPU4 */
    {"lspci/dell-xe9680-h100x8-lspci-vvv-slim.txt", "lspci", 8, 12, "NODE", "SYS", 0, 1, 0, "h100-80-sxm", 8,
     "NIC 0000:1a:00.0", "PIX", "NIC 0000:dc:00.0"},
    {"ib/sys-class-infiniband-h100.txt", "/sys/class/infiniband", 0, 9, NULL, NULL, -1, -1, 0, NULL, 8, NULL, NULL,
     NULL},
    {"nvlink/BROKEN-v100-two-inactive-links-azdiag73.txt", "nvidia-smi nvlink --status", 1, 0, NULL, NULL, -1, -1, 0,
     "v100-32-sxm", 0, NULL, NULL, NULL},
    {"nvlink/a100x8-nvlink-status.txt", "nvidia-smi nvlink --status", 8, 0, NULL, NULL, -1, -1, 0, "a100-80-sxm", 0,
     NULL, NULL, NULL},
};

/* Not of a node, and what each is. */
static const struct {
  const char *file, *word;
} others[] = {
    {"ib/ibnetdiscover-hdr-mcs8500-qm8700.txt", "fabric"},
    {"ib/ibstat-hosts-hdr.txt", "hosts"},
    {"nvlink/fabricmanager-h100-multicast.log.txt", "Fabric Manager"},
    {"dmesg/dmesg-xid-119.txt", "kernel log"},
    {"dmesg/kmsg-peermem.txt", "kernel log"},
    {"nccl-tests/a100-40g-x8-1node-allreduce.txt", "benchmark"},
    {"nccl-tests/p5-h100-2node-16gpu-efa-allreduce.txt", "benchmark"},
};

static bool load(mal_arena *a, const char *file, mal_topology *t, mal_paste *p) {
  mal_error e;
  bool known;
  assert_ok(mal_paste_load(a, mal_print(a, "%s/captures/%s", MALHA_SHARED, file), p, &e), e);
  mal_topology_init(t, a);
  mal_topology_read(t, p, &known);
  if (known) mal_topology_derive(t);
  return known;
}

static void expect_text(const char *file, const char *what, const char *found, const char *wanted) {
  if (!found || !wanted ? found != wanted : strcmp(found, wanted) != 0)
    fail_msg("%s: %s is %s, not %s", file, what, found ? found : "not said", wanted ? wanted : "not said");
}

static void expect(const char *file, const char *what, int found, int wanted) {
  if (found != wanted) fail_msg("%s: %s is %d, not %d", file, what, found, wanted);
}

static const char *path_text(mal_arena *a, const mal_topology *t, const mal_part *x, const mal_part *y) {
  const mal_wire *w = mal_find_wire(t, x, y);
  return w && w->path != MAL_PATH_UNKNOWN ? mal_path_show(a, w) : NULL;
}

static void check_places(mal_arena *a, const mal_topology *t, const reading *r) {
  mal_rank_place places[64];
  int n = mal_place_ranks(a, t, places, 64);
  if (r->nic_first) {
    expect_text(r->file, "NIC of rank 0", mal_place_nics(a, &places[0]), r->nic_first);
    expect_text(r->file, "its distance", mal_path_name[places[0].nic_path], r->nic_path);
  }
  if (n) expect_text(r->file, "NIC of the last rank", mal_place_nics(a, &places[n - 1]), r->nic_last);
}

static void check_one(const reading *r) {
  mal_arena a;
  mal_topology t;
  mal_paste p;
  mal_part *gpus[64], *rails[64];
  mal_arena_init(&a);
  if (!load(&a, r->file, &t, &p)) fail_msg("%s is not recognised", r->file);
  int n = mal_parts_of(&t, MAL_PART_GPU, gpus, 64), nics = 0;
  for (int i = 0; i < t.n_devices; i++) nics += mal_nic_computes(&t.devices[i]);
  expect(r->file, "listings", t.n_sources, 1);
  expect_text(r->file, "the listing", t.sources[0].what, r->what);
  expect(r->file, "GPUs", n, r->gpus);
  expect(r->file, "NICs", nics, r->nics);
  if (n > 1) {
    expect_text(r->file, "GPU0-GPU1", path_text(&a, &t, gpus[0], gpus[1]), r->first);
    expect_text(r->file, "GPU0-last", path_text(&a, &t, gpus[0], gpus[n - 1]), r->last);
  }
  if (n) expect(r->file, "NUMA of GPU0", (int)mal_fact_number(gpus[0], MAL_F_NUMA, -1), r->numa_first);
  if (n) expect(r->file, "NUMA of the last", (int)mal_fact_number(gpus[n - 1], MAL_F_NUMA, -1), r->numa_last);
  expect(r->file, "where it breaks off", t.sources[0].broken, r->broken);
  expect_text(r->file, "GPU", mal_topology_gpu(&a, &t), r->gpu);
  expect(r->file, "rails", mal_topology_rails(&t, rails, 64), r->rails);
  check_places(&a, &t, r);
  mal_arena_free(&a);
}

static void test_every_listing(void **state) {
  (void)state;
  need_shared("captures/topo-m/foreign-metax-8gpu.txt");
  for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) check_one(&readings[i]);
}

static void test_others_are_named(void **state) {
  (void)state;
  need_shared("captures/topo-m/foreign-metax-8gpu.txt");
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    mal_arena a;
    mal_topology t;
    mal_paste p;
    mal_arena_init(&a);
    if (load(&a, others[i].file, &t, &p)) fail_msg("%s is taken for a listing of a node", others[i].file);
    const char *said = mal_topology_other(&p);
    if (!said || !strstr(said, others[i].word))
      fail_msg("%s is said to be %s", others[i].file, said ? said : "nothing");
    mal_arena_free(&a);
  }
}

static double fact(const mal_topology *t, int gpu, mal_fact_key key) {
  mal_part *d = mal_find_part(t, MAL_PART_GPU, gpu);
  assert_non_null(d);
  return mal_fact_number(d, key, -1);
}

/* nvidia-smi -q -x of an A100: values and the lines they stand on. */
static void test_values_of_smi(void **state) {
  mal_arena a;
  mal_topology t;
  mal_paste p;
  (void)state;
  need_shared("captures/nvidia-smi-xml/a100-sxm4-v12.xml");
  mal_arena_init(&a);
  assert_true(load(&a, "nvidia-smi-xml/a100-sxm4-v12.xml", &t, &p));
  mal_part *d = mal_find_part(&t, MAL_PART_GPU, 0);
  assert_string_equal(mal_fact_text(d, MAL_F_DRIVER), "535.54.03");
  assert_string_equal(mal_fact_text(d, MAL_F_PRODUCT), "NVIDIA A100-SXM4-80GB");
  assert_int_equal(d->fact[MAL_F_PRODUCT].from.line, 9);
  assert_true(d->bus == mal_bus_parse("0000:01:00.0"));
  assert_true(fact(&t, 0, MAL_F_DEVICE) == 0x20b2);
  assert_true(fact(&t, 0, MAL_F_SPEED) == 16 && fact(&t, 0, MAL_F_SPEED_MAX) == 16);
  assert_true(fact(&t, 0, MAL_F_WIDTH) == 16 && fact(&t, 0, MAL_F_MIG) == 1);
  assert_true(fact(&t, 0, MAL_F_MEMORY) == 81920.0 * 1048576);
  assert_true(fact(&t, 0, MAL_F_POWER) == 67.03 && fact(&t, 0, MAL_F_POWER_LIMIT) == 500);
  assert_true(fact(&t, 0, MAL_F_TEMP) == 27 && fact(&t, 0, MAL_F_TEMP_SLOW) == 89 && fact(&t, 0, MAL_F_MEM_TEMP) == 44);
  assert_true(fact(&t, 0, MAL_F_SM_CLOCK) == 1275e6 && fact(&t, 0, MAL_F_THROTTLE) == 0 &&
              fact(&t, 0, MAL_F_PSTATE) == 0);
  assert_true(fact(&t, 0, MAL_F_ECC) == 1 && fact(&t, 0, MAL_F_ECC_UNCORRECTED) == 0);
  assert_false(mal_known(d, MAL_F_ROWS_PENDING)); /* "N/A" is not known */
  mal_arena_free(&a);
}

static void test_values_of_smi_13(void **state) {
  mal_arena a;
  mal_topology t;
  mal_paste p;
  (void)state;
  need_shared("captures/nvidia-smi-xml/rtx-4000-sff-ada-v13.xml");
  mal_arena_init(&a);
  assert_true(load(&a, "nvidia-smi-xml/rtx-4000-sff-ada-v13.xml", &t, &p));
  mal_part *d = mal_find_part(&t, MAL_PART_GPU, 0);
  assert_true(fact(&t, 0, MAL_F_ROWS_PENDING) == 0 && fact(&t, 0, MAL_F_ROWS_FAILED) == 0);
  assert_true(fact(&t, 0, MAL_F_POWER_LIMIT) == 70 && fact(&t, 0, MAL_F_SM_CLOCK_MAX) == 3105e6);
  assert_false(mal_known(d, MAL_F_APP_CLOCK)); /* "Requested functionality has been deprecated" */
  mal_arena_free(&a);
}

static void test_links(void **state) {
  mal_arena a;
  mal_topology t;
  mal_paste p;
  (void)state;
  need_shared("captures/nvlink/a100x8-nvlink-status.txt");
  mal_arena_init(&a);
  assert_true(load(&a, "nvlink/BROKEN-v100-two-inactive-links-azdiag73.txt", &t, &p));
  mal_part *d = mal_find_part(&t, MAL_PART_GPU, 3);
  assert_non_null(d);
  assert_int_equal(d->n_links, 6);
  assert_int_equal(d->links[3].active, 0);
  assert_int_equal(d->links[3].from.line, 5);
  assert_int_equal(d->links[4].active, 1);
  assert_int_equal(d->links[5].active, 0);
  assert_true(d->links[0].bytes_per_s == 25.781e9);
  assert_true(load(&a, "nvlink/a100x8-nvlink-status.txt", &t, &p));
  for (int i = 0; i < 8; i++) assert_int_equal(mal_find_part(&t, MAL_PART_GPU, i)->n_links, 12);
  mal_arena_free(&a);
}

static void test_ports(void **state) {
  mal_arena a;
  mal_topology t;
  mal_paste p;
  (void)state;
  need_shared("captures/ib/sys-class-infiniband-h100.txt");
  mal_arena_init(&a);
  assert_true(load(&a, "ib/sys-class-infiniband-h100.txt", &t, &p));
  mal_part *d = mal_part_named(&t, MAL_PART_NIC, "mlx5_1", (mal_evidence){0});
  assert_true(mal_fact_number(d, MAL_F_RATE, 0) == 400e9);
  assert_string_equal(mal_fact_text(d, MAL_F_STATE), "ACTIVE");
  assert_string_equal(mal_fact_text(d, MAL_F_PHYSICAL), "LinkUp");
  assert_string_equal(mal_fact_text(d, MAL_F_FIRMWARE), "28.41.1000");
  assert_true(mal_counter_of(d, "link_downed", -1) == 255);
  assert_true(mal_counter_of(d, "symbol_error", -1) == 0);
  assert_true(mal_counter_of(d, "no_such_counter", -1) == -1);
  mal_arena_free(&a);
}

/* Several views of one server: a matrix with names, /sys with names, lspci with addresses. */
static void test_views_merge(void **state) {
  static const char *const files[] = {"topo-m/hgx-h100-8gpu-10nic-nccl1264.txt",
                                      "lspci/dell-xe9680-h100x8-lspci-vvv-slim.txt"};
  mal_arena a;
  mal_topology t;
  mal_error e;
  (void)state;
  need_shared("captures/topo-m/hgx-h100-8gpu-10nic-nccl1264.txt");
  mal_arena_init(&a);
  mal_topology_init(&t, &a);
  for (int i = 0; i < 2; i++) {
    mal_paste p;
    bool known;
    assert_ok(mal_paste_load(&a, mal_print(&a, "%s/captures/%s", MALHA_SHARED, files[i]), &p, &e), e);
    mal_topology_read(&t, &p, &known);
    assert_true(known);
  }
  mal_topology_derive(&t);
  assert_int_equal(mal_count_parts(&t, MAL_PART_GPU), 8);
  mal_part *d = mal_find_part(&t, MAL_PART_GPU, 4);
  assert_true(d->bus == mal_bus_parse("9b:00.0"));
  assert_string_equal(mal_fact_text(d, MAL_F_CPUS), "56-111,168-223");
  assert_string_equal(mal_path_show(&a, mal_find_wire(&t, d, mal_find_part(&t, MAL_PART_GPU, 0))), "NV18");
  assert_string_equal(mal_topology_gpu(&a, &t), "h100-80-sxm");
  mal_machine m;
  assert_ok(mal_topology_machine(&a, &t, NULL, &m, &e), e);
  assert_int_equal(m.gpus_per_node, 8);
  assert_int_equal(m.node->nvlink_domain, 8);
  mal_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_listing), cmocka_unit_test(test_others_are_named),
      cmocka_unit_test(test_values_of_smi), cmocka_unit_test(test_values_of_smi_13),
      cmocka_unit_test(test_links),         cmocka_unit_test(test_ports),
      cmocka_unit_test(test_views_merge),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
