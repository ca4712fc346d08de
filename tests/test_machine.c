#include "core/catalog.h"
#include "core/file.h"
#include "machine/machine.h"
#include "reliability/reliability.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static mal_arena a;
static mal_error e;
static mal_machine m;

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

static mal_status parse(const char *text) { return mal_machine_parse(&a, "lab.yaml", text, strlen(text), &m, &e); }

static void test_specs(void **state) {
  (void)state;
  static const struct {
    const char *spec, *gpu;
    int64_t nodes, gpus;
  } good[] = {
      {"h100-sxm", "h100-80-sxm", 1, 1},
      {"8xh100-sxm", "h100-80-sxm", 1, 8},
      {"16x8xh100-sxm", "h100-80-sxm", 16, 8},
      {"16x8xH100_SXM", "h100-80-sxm", 16, 8},
      {"8xa100-80-sxm", "a100-80-sxm", 1, 8},
      {"4xrtx4090", "rtx4090", 1, 4},
      {"dgx-h100", "h100-80-sxm", 1, 8},
      {"4xdgx-h100", "h100-80-sxm", 4, 8},
      {"4x2xdgx-h100", "h100-80-sxm", 4, 2},
      {"64xh100", "h100-80-sxm", 8, 8},
      {"72xgb200", "gb200", 18, 4},
      {"18xgb200-nvl72", "gb200", 18, 4},
      {"2048x8xa100-40-sxm", "a100-40-sxm", 2048, 8},
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_ok(mal_machine_load(&a, good[i].spec, &m, &e), e);
    assert_string_equal(m.gpu->name, good[i].gpu);
    assert_string_equal(m.node->gpu, good[i].gpu);
    assert_int_equal(m.nodes, good[i].nodes);
    assert_int_equal(m.gpus_per_node, good[i].gpus);
    assert_string_equal(m.name, good[i].spec);
  }
}

static void test_default_node_is_told(void **state) {
  (void)state;
  assert_ok(mal_machine_load(&a, "8xa100-80-sxm", &m, &e), e);
  assert_non_null(strstr(m.node->title, "default for a100-80-sxm"));
  assert_ok(mal_machine_load(&a, "dgx-a100", &m, &e), e);
  assert_null(strstr(m.node->title, "default"));
}

static void test_here(void **state) {
  (void)state;
  assert_ok(mal_machine_load(&a, "here", &m, &e), e);
  assert_int_equal(m.gpus_per_node, sysconf(_SC_NPROCESSORS_ONLN));
  assert_int_equal(m.nodes, 1);
  double all = m.gpu->memory_bytes.value * (double)m.gpus_per_node;
  assert_ok(mal_machine_load(&a, "3xhere", &m, &e), e);
  assert_int_equal(m.gpus_per_node, 3);
  assert_true(fabs(3 * m.gpu->memory_bytes.value / all - 1) < 1e-9 && all > 1e8);
  assert_fails(MAL_BAD, mal_machine_load(&a, "2x3xhere", &m, &e), e, "one computer");
}

static void test_bad_specs(void **state) {
  (void)state;
  assert_fails(MAL_BAD, mal_machine_load(&a, "8xh100-smx", &m, &e), e, "h100-smx", "h100-sxm");
  assert_fails(MAL_BAD, parse("nodes: 4\nnode: {base: dgx-h100, nics: {value: 0, source: mine}}\n"), e,
               "no network between");
  assert_fails(MAL_BAD, mal_machine_load(&a, "0xh100", &m, &e), e, "0xh100", "between 1 and");
  assert_fails(MAL_BAD, mal_machine_load(&a, "99999999999999999999xh100", &m, &e), e, "between 1 and");
  assert_fails(MAL_BAD, mal_machine_load(&a, "2x2x2xh100", &m, &e), e, "more than two counts");
  assert_fails(MAL_BAD, mal_machine_load(&a, "12xh100", &m, &e), e, "12", "8 and 16");
  assert_fails(MAL_BAD, mal_machine_load(&a, "2x9xh100", &m, &e), e, "9", "2x8xh100-80-sxm");
  assert_fails(MAL_BAD, mal_machine_load(&a, "2x9xdgx-h100", &m, &e), e, "9");
  assert_fails(MAL_BAD, mal_machine_load(&a, "4000000x8xh100", &m, &e), e, "at most");
  assert_fails(MAL_BAD, mal_machine_load(&a, "", &m, &e), e, "machine ''");
  assert_fails(MAL_BAD, mal_machine_load(&a, "8x", &m, &e), e, "8x");
  assert_fails(MAL_BAD, mal_machine_load(&a, "x8xh100", &m, &e), e, "x8xh100");
  assert_fails(MAL_BAD, mal_machine_load(&a, "no/such/file.yaml", &m, &e), e, "no/such/file.yaml");
}

static void check_value(void *context, const char *section, const char *key, const mal_value *value,
                        const mal_fitted *fitted) {
  const char *name = context;
  const char *source = value ? value->source : fitted->source;
  if (!source || !source[strspn(source, " ")]) fail_msg("%s: %s.%s has no source", name, section, key);
  if (value && !(isfinite(value->value) && value->value >= 0)) fail_msg("%s: %s.%s is negative", name, section, key);
  if (fitted && !(fitted->lo <= fitted->value && fitted->value <= fitted->hi && fitted->lo <= fitted->prior &&
                  fitted->prior <= fitted->hi))
    fail_msg("%s: %s.%s lies outside its bounds", name, section, key);
}

/* Every file of the folder loads as a machine, and each of its values has a source. */
static void each_file(const char *folder) {
  char **names;
  size_t count;
  assert_ok(mal_catalog_list(&a, folder, ".yaml", &names, &count, &e), e);
  assert_true(count > 20);
  for (size_t i = 0; i < count; i++) {
    assert_ok(mal_machine_load(&a, names[i], &m, &e), e);
    mal_machine_each(&m, check_value, names[i]);
    const mal_gpu *g = m.gpu;
    double least = strcmp(g->architecture, "cpu") == 0 ? 0.1 : 1; /* a core is less than a GPU */
    assert_true(g->flops[MAL_F16].value > 0 && g->memory_bytes.value > least * 8e9);
    assert_true(g->memory_bytes_per_s.value >= least * 1e11);
    assert_true(g->flops[MAL_BF16].value <= g->flops[MAL_F16].value && g->cal.gemm_bf16.value > 0);
    assert_true(g->flops[MAL_F8].value == 0 || g->cal.gemm_fp8.value > 0);
    bool a100 = strcmp(g->architecture, "sm80") == 0;
    double failures = g->failures_per_node_day.value / (a100 ? 6.50e-3 : 419.0 / (54.0 * 2048.0)); /* RSC-1; Llama 3 */
    assert_true(fabs(failures - 1) < 1e-12);
    if (strcmp(g->name, "h100-80-sxm") == 0 || a100) assert_true(mal_value_verified(&g->failures_per_node_day));
    if (strcmp(g->name, "b200") == 0) assert_false(mal_value_verified(&g->failures_per_node_day));
    assert_true(g->flops[MAL_F4].value == 0 || g->cal.gemm_fp4.value > 0);
    assert_true((g->nvlink_bytes_per_s.value > 0) == (g->cal.nvlink.value > 0));
    assert_true(m.node->nvlink_domain <= 1 || g->nvlink_bytes_per_s.value > 0);
    assert_true(m.node->host_speed.value > 0 && m.node->cpu_cores.value > 0 && m.node->nics.value > 0);
  }
}

static void test_every_gpu(void **state) {
  (void)state;
  each_file("gpus");
}

static void test_every_node(void **state) {
  (void)state;
  each_file("nodes");
}

static void test_every_fabric(void **state) {
  (void)state;
  char **names;
  size_t count;
  assert_ok(mal_catalog_list(&a, "fabrics", ".yaml", &names, &count, &e), e);
  for (size_t i = 0; i < count; i++) {
    mal_fabric *f;
    assert_ok(mal_fabric_load(&a, names[i], &f, &e), e);
    assert_true(f->oversubscription.value >= 1 && *f->jitter_per_doubling.source);
  }
  mal_fabric *f;
  assert_fails(MAL_BAD, mal_fabric_load(&a, "no-such", &f, &e), e, "no-such");
}

static void test_dense_peaks(void **state) {
  (void)state;
  mal_gpu *g;
  assert_ok(mal_gpu_load(&a, "h100-sxm", &g, &e), e);
  assert_true(g->flops[MAL_BF16].value == 989.4e12);
  assert_true(g->nvlink_bytes_per_s.value == 450e9);
  assert_ok(mal_gpu_load(&a, "a100-40-sxm", &g, &e), e);
  assert_true(g->flops[MAL_BF16].value == 312e12 && g->flops[MAL_F8].value == 0);
}

static void test_constants(void **state) {
  (void)state;
  mal_gpu *g;
  const char *names[64];
  mal_fitted *constants[64];
  assert_ok(mal_gpu_load(&a, "h100-sxm", &g, &e), e);
  assert_int_equal(mal_gpu_constants(g, names, constants, 64), 19);
  assert_string_equal(names[0], "gemm_bf16");
  assert_ptr_equal(constants[0], &g->cal.gemm_bf16);
  assert_int_equal(mal_gpu_constants(g, names, constants, 3), 3);
}

static void test_inherited_constants_say_so(void **state) {
  (void)state;
  mal_gpu *h200, *h100;
  assert_ok(mal_gpu_load(&a, "h200", &h200, &e), e);
  assert_ok(mal_gpu_load(&a, "h100-80-sxm", &h100, &e), e);
  assert_int_equal(strncmp(h200->cal.gemm_bf16.source, "as h100-80-sxm: ", 16), 0);
  assert_true(h200->cal.gemm_bf16.value == h100->cal.gemm_bf16.value);
  assert_true(h200->cal.gemm_fp8.value != h100->cal.gemm_fp8.value);
  assert_null(strstr(h200->cal.gemm_fp8.source, "as h100"));
}

static void test_machine_file(void **state) {
  (void)state;
  assert_ok(parse("name: lab\n"
                  "nodes: 3\n"
                  "gpus_per_node: 4\n"
                  "node:\n"
                  "  base: dgx-h100\n"
                  "  nics: {value: 4, source: counted}\n"
                  "gpu:\n"
                  "  base: h100-80-sxm\n"
                  "  tdp_w: {value: 500, source: site limit, verified: false}\n"
                  "  calibration:\n"
                  "    nic: {value: 0.5, lo: 0.4, hi: 0.6, prior: 0.5, source: measured}\n"
                  "fabric: {base: ethernet-3to1}\n"),
            e);
  assert_string_equal(m.name, "lab");
  assert_int_equal(mal_machine_gpus(&m), 12);
  assert_true(m.node->nics.value == 4 && m.gpu->tdp_w.value == 500 && m.gpu->cal.nic.value == 0.5);
  assert_true(m.fabric->oversubscription.value == 3);
  assert_true(m.gpu->flops[MAL_BF16].value == 989.4e12);
  int before = m.unverified;
  assert_ok(parse("gpu: {base: h100-sxm, calibration: {nic: {value: 0.5, lo: 0, hi: 1, prior: 0.5, source: s}}}\n"
                  "node: {base: dgx-h100, nics: {value: 4, source: s}, usd_per_hour: {value: 16, source: s}}\n"
                  "fabric: {base: default}\n"),
            e);
  static const char *const own[] = {"node.nics", "node.usd_per_hour", "gpu.calibration.nic"}; /* said in answers */
  assert_int_equal(m.n_own, 3);
  for (int i = 0; i < 3; i++) assert_string_equal(m.own[i], own[i]);
  assert_ok(parse("node: {base: dgx-h100}\n"), e);
  assert_int_equal(m.n_own, 0);
  assert_int_equal(before, m.unverified + 1);
  assert_int_equal(m.nodes, 1);
  assert_ok(parse("gpu: {base: h100-sxm}\n"), e);
  assert_string_equal(m.node->name, "dgx-h100");
}

static void test_bad_machine_files(void **state) {
  (void)state;
  assert_fails(MAL_BAD, parse(""), e, "lab.yaml");
  assert_fails(MAL_BAD, parse("nodes: 2\n"), e, "lab.yaml", "node: {base");
  assert_fails(MAL_BAD, parse("nodes: 0\nnode: {base: dgx-h100}\n"), e, "lab.yaml:1", "nodes", "between 1");
  assert_fails(MAL_BAD, parse("nodes: x\nnode: {base: dgx-h100}\n"), e, "lab.yaml:1");
  assert_fails(MAL_BAD, parse("gpus_per_node: 9\nnode: {base: dgx-h100}\n"), e, "gpus_per_node", "9", "8");
  assert_fails(MAL_BAD, parse("node: {base: dgx-h1000}\n"), e, "dgx-h100");
  assert_fails(MAL_BAD, parse("nodez: 2\n"), e, "nodez", "nodes");
  assert_fails(MAL_BAD, parse("node: {base: dgx-h100, nics: {value: -1, source: s}}\n"), e, "lab.yaml:1", "nics");
  assert_fails(MAL_BAD, parse("node: {base: dgx-h100, nics: {value: 1, source: ' '}}\n"), e, "nics", "source");
  assert_fails(MAL_BAD, parse("node: {base: dgx-h100, nics: {value: 1}}\n"), e, "nics", "source");
  assert_fails(MAL_BAD, parse("node: {base: dgx-h100, nics: {value: .inf, source: s}}\n"), e, "lab.yaml");
  assert_fails(
      MAL_BAD,
      parse("node: {base: dgx-h100}\ngpu: {calibration: {nic: {value: 2, lo: 0, hi: 1, prior: 0, source: s}}}\n"), e,
      "lab.yaml:2", "nic");
  assert_fails(
      MAL_BAD,
      parse("node: {base: dgx-h100}\ngpu: {calibration: {nic: {value: 0.5, lo: 1, hi: 0.5, prior: 1, source: s}}}\n"),
      e, "nic", "swap");
  assert_fails(MAL_BAD, parse("node: {gpu: h100-sxm}\n"), e, "lab.yaml", "missing");
  assert_fails(MAL_BAD, parse("fabric: {oversubscription: {value: 0.5, source: s}}\nnode: {base: dgx-h100}\n"), e,
               "oversubscription", "between 1");
}

static mal_status parse_gpu(const char *field) {
  return parse(mal_print(&a, "node: {base: dgx-h100}\ngpu:\n  base: h100-sxm\n  %s\n", field));
}

static void test_numbers_are_read_whole(void **state) {
  (void)state;
  static const char *const bad_counts[] = {"1e30", "2.9", "4x", "010", "1_000", "0x10", "''", "4 k"};
  for (size_t i = 0; i < sizeof bad_counts / sizeof *bad_counts; i++)
    assert_fails(MAL_BAD, parse(mal_print(&a, "nodes: %s\nnode: {base: dgx-h100}\n", bad_counts[i])), e, "lab.yaml:1",
                 "nodes");
  assert_ok(parse("nodes: 16\nnode: {base: dgx-h100}\n"), e);
  assert_int_equal(m.nodes, 16);
  static const char *const bad_values[] = {"1_000", "80GB", "8e", "0x10", "''", "~"};
  for (size_t i = 0; i < sizeof bad_values / sizeof *bad_values; i++)
    assert_fails(MAL_BAD, parse_gpu(mal_print(&a, "memory_bytes: {value: %s, source: s}", bad_values[i])), e,
                 "lab.yaml:4", "memory_bytes");
  assert_ok(parse_gpu("memory_bytes: {value: 8.5e10, source: s}"), e);
  assert_true(m.gpu->memory_bytes.value == 8.5e10);
  assert_fails(MAL_BAD, parse_gpu("calibration: {nic: {value: 0.5x, lo: 0.4, hi: 1, prior: 0.5, source: s}}"), e,
               "lab.yaml:4", "nic", "0.5x");
}

/* What is divided by, or cast to a whole number, lies where that can be done. */
static void test_hardware_is_bounded(void **state) {
  (void)state;
  static const char *const above_zero[] = {
      "memory_bytes", "memory_bytes_per_s", "pcie_bytes_per_s", "fp32_flops", "fp16_flops", "sms", "tdp_w"};
  for (size_t i = 0; i < sizeof above_zero / sizeof *above_zero; i++)
    assert_fails(MAL_BAD, parse_gpu(mal_print(&a, "%s: {value: 0, source: s}", above_zero[i])), e, "lab.yaml:4",
                 above_zero[i], "between");
  static const char *const any[] = {"memory_bytes", "bf16_flops", "l2_bytes", "nvlink_bytes_per_s"};
  for (size_t i = 0; i < sizeof any / sizeof *any; i++)
    assert_fails(MAL_BAD, parse_gpu(mal_print(&a, "%s: {value: 1e30, source: s}", any[i])), e, "lab.yaml:4", any[i],
                 "between");
  assert_fails(MAL_BAD, parse_gpu("calibration: {pcie: {value: 0, lo: 0, hi: 1, prior: 0.5, source: s}}"), e,
               "lab.yaml:4", "pcie", "between");
}

static char catalogue[] = "/tmp/malha-test-XXXXXX";

static void write_file(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/gpus/%s.yaml", catalogue, name);
  assert_ok(mal_file_write(path, text, strlen(text), &e), e);
}

static void test_bases_that_circle(void **state) {
  (void)state;
  char path[256], old[4096];
  assert_non_null(mkdtemp(catalogue));
  snprintf(path, sizeof path, "%s/gpus", catalogue);
  assert_int_equal(mkdir(path, 0700), 0);
  write_file("one", "base: two\nname: one\n");
  write_file("two", "base: one\nname: two\n");
  write_file("empty", "title: nothing\n");
  snprintf(old, sizeof old, "%s", mal_catalog_root());
  setenv("MALHA_CATALOG", catalogue, 1);
  mal_gpu *g;
  assert_fails(MAL_BAD, mal_gpu_load(&a, "one", &g, &e), e, "its own base");
  assert_fails(MAL_BAD, mal_gpu_load(&a, "empty", &g, &e), e, "empty.yaml", "name is missing");
  setenv("MALHA_CATALOG", old, 1);
  static const char *const names[] = {"one", "two", "empty"};
  for (int i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/gpus/%s.yaml", catalogue, names[i]);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s/gpus", catalogue);
  rmdir(path);
  rmdir(catalogue);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_specs, setup, teardown),
      cmocka_unit_test_setup_teardown(test_default_node_is_told, setup, teardown),
      cmocka_unit_test_setup_teardown(test_here, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bad_specs, setup, teardown),
      cmocka_unit_test_setup_teardown(test_every_gpu, setup, teardown),
      cmocka_unit_test_setup_teardown(test_every_node, setup, teardown),
      cmocka_unit_test_setup_teardown(test_every_fabric, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dense_peaks, setup, teardown),
      cmocka_unit_test_setup_teardown(test_constants, setup, teardown),
      cmocka_unit_test_setup_teardown(test_inherited_constants_say_so, setup, teardown),
      cmocka_unit_test_setup_teardown(test_machine_file, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bad_machine_files, setup, teardown),
      cmocka_unit_test_setup_teardown(test_numbers_are_read_whole, setup, teardown),
      cmocka_unit_test_setup_teardown(test_hardware_is_bounded, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bases_that_circle, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
