#include "check/node/health.h"
#include "core/catalog.h"
#include <string.h>

const char *const mal_severity_name[] = {"note", "warning", "error"};
_Static_assert(sizeof mal_severity_name / sizeof *mal_severity_name == MAL_SEVERITIES, "one name a severity");

const char *const mal_rule_name[] = {"gpu-count",
                                     "nvlink-path",
                                     "nvlink-links",
                                     "nvlink-errors",
                                     "nvswitch",
                                     "peer-access",
                                     "pcie-link",
                                     "acs",
                                     "nic-distance",
                                     "nic-count",
                                     "rail-order",
                                     "affinity",
                                     "gpudirect-rdma",
                                     "nvls",
                                     "throttling",
                                     "power-limit",
                                     "temperature",
                                     "ecc",
                                     "row-remap",
                                     "mig",
                                     "reset-required",
                                     "mixed",
                                     "port-state",
                                     "port-errors",
                                     "xid",
                                     "sxid",
                                     "kernel",
                                     "environment",
                                     "nccl-transport",
                                     "nccl-network",
                                     "nccl-errors",
                                     "benchmark",
                                     "benchmark-shape",
                                     "benchmark-data",
                                     "sick-node",
                                     "storage"};
_Static_assert(sizeof mal_rule_name / sizeof *mal_rule_name == MAL_RULES, "one name a rule");

const char *const mal_rule_title[] = {N_("all GPUs are there"),
                                      N_("GPU pairs joined by NVLink as built"),
                                      N_("NVLinks up, at full speed"),
                                      N_("NVLinks without errors"),
                                      N_("NVSwitches there, fabric set up"),
                                      N_("GPUs may read each other"),
                                      N_("PCIe links at their generation and width"),
                                      N_("ACS does not redirect peer traffic"),
                                      N_("each GPU has a NIC near it"),
                                      N_("as many NICs as rails"),
                                      N_("NICs in the order of GPUs"),
                                      N_("CPU and NUMA affinity visible and right"),
                                      N_("GPUDirect RDMA"),
                                      N_("NVLS (reduction in the switch)"),
                                      N_("clocks not held down"),
                                      N_("power limits at their default"),
                                      N_("temperatures below slowdown"),
                                      N_("memory without uncorrected errors"),
                                      N_("row remapping"),
                                      N_("MIG off"),
                                      N_("no GPU waits for a reset"),
                                      N_("GPUs and NICs alike"),
                                      N_("ports up, at their rate"),
                                      N_("ports without errors"),
                                      N_("no XID in the kernel log"),
                                      N_("no SXid of an NVSwitch"),
                                      N_("kernel log"),
                                      N_("environment"),
                                      N_("NCCL's transports"),
                                      N_("NCCL's network"),
                                      N_("NCCL without errors"),
                                      N_("bandwidth as this machine should give"),
                                      N_("bandwidth without collapses over sizes"),
                                      N_("results right and consistent"),
                                      N_("no node slower than the others"),
                                      N_("storage bandwidth")};
_Static_assert(sizeof mal_rule_title / sizeof *mal_rule_title == MAL_RULES, "one title a rule");

const mal_damage mal_no_damage = {.nvlink = 1, .pcie = 1, .nic = 1, .compute = 1};

void mal_health_init(mal_health *h, mal_arena *a) {
  *h = (mal_health){.arena = a};
  mal_topology_init(&h->topology, a);
}

const mal_csv *mal_health_table(mal_health *h, mal_check_table t) {
  static const char *const names[] = {"xid.csv", "sxid.csv", "nccl_env.csv"};
  mal_csv *csv = &h->tables[t];
  mal_error ignored;
  if (csv->path) return csv;
  const char *path = mal_print(h->arena, "%s/checks/%s", mal_catalog_root(), names[t]);
  if (mal_csv_read(h->arena, path, csv, &ignored) != MAL_OK) *csv = (mal_csv){0};
  csv->path = path;
  return csv;
}

/* Room doubles at powers of two. */
static void *room_for_one(mal_arena *a, void *list, int n, size_t size) {
  return (n & (n - 1)) == 0 ? mal_grow(a, list, (size_t)n, n ? 2 * (size_t)n : 1, size) : list;
}

enum { FINDINGS_MAX = 1000, BENCHES_MAX = 20000 };

mal_finding *mal_find(mal_health *h, mal_rule rule, mal_severity severity, const char *device, mal_evidence from,
                      const char *what, const char *cause, const char *todo) {
  static mal_finding spilled; /* beyond any use; what is said of it is not kept */
  h->judged[rule] = true;
  for (int i = 0; i < h->n_findings; i++) { /* the same fault again counts */
    mal_finding *f = &h->findings[i];
    if (f->rule != rule || strcmp(f->device, device) != 0 || strcmp(f->what, what) != 0) continue;
    f->count++;
    return f;
  }
  if (h->n_findings >= FINDINGS_MAX) return &spilled;
  h->findings = room_for_one(h->arena, h->findings, h->n_findings, sizeof *h->findings);
  mal_finding *f = &h->findings[h->n_findings++];
  *f = (mal_finding){.rule = rule, .severity = severity, .from = from, .count = 1, .damage = mal_no_damage};
  f->device = mal_copy(h->arena, device);
  f->what = mal_copy(h->arena, what);
  f->cause = mal_copy(h->arena, cause);
  f->todo = mal_copy(h->arena, todo);
  return f;
}

mal_bench *mal_health_bench(mal_health *h, mal_bench_kind kind, const char *file, const char *tool, const char *what,
                            int line) {
  if (h->n_benches >= BENCHES_MAX) return NULL;
  h->benches = room_for_one(h->arena, h->benches, h->n_benches, sizeof *h->benches);
  mal_bench *b = &h->benches[h->n_benches++];
  *b = (mal_bench){
      .kind = kind, .file = file, .tool = tool, .what = mal_copy(h->arena, what), .line = line, .verdict = -1};
  return b;
}

mal_bench_point *mal_bench_add(mal_health *h, mal_bench *b) {
  b->points = room_for_one(h->arena, b->points, b->n_points, sizeof *b->points);
  mal_bench_point *p = &b->points[b->n_points++];
  *p = (mal_bench_point){.repeats = 1};
  return p;
}

bool mal_collective_named(const char *name, mal_collective *c, bool *rooted, const char **canonical) {
  static const struct {
    const char *start, *canonical;
    mal_collective c;
    bool rooted, priced;
  } names[] = {{"all_reduce", "all_reduce", MAL_ALL_REDUCE, false, true},
               {"allreduce", "all_reduce", MAL_ALL_REDUCE, false, true},
               {"all_gather", "all_gather", MAL_ALL_GATHER, false, true},
               {"allgather", "all_gather", MAL_ALL_GATHER, false, true},
               {"reduce_scatter", "reduce_scatter", MAL_REDUCE_SCATTER, false, true},
               {"reducescatter", "reduce_scatter", MAL_REDUCE_SCATTER, false, true},
               {"alltoall", "alltoall", MAL_ALL_TO_ALL, false, true},
               {"all_to_all", "alltoall", MAL_ALL_TO_ALL, false, true},
               {"broadcast", "broadcast", MAL_BROADCAST, true, true},
               {"reduce", "reduce", MAL_BROADCAST, true, true}, /* the same bytes the other way */
               {"sendrecv", "sendrecv", MAL_BROADCAST, true, false},
               {"gather", "gather", MAL_ALL_GATHER, false, false},
               {"scatter", "scatter", MAL_ALL_GATHER, false, false}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (mal_starts(name, names[i].start)) {
      *c = names[i].c;
      *rooted = names[i].rooted;
      *canonical = names[i].canonical;
      return names[i].priced;
    }
  *canonical = name;
  *rooted = false;
  return false;
}

static const struct {
  const char *what;
  const char *marker; /* no such log is without it; NULL: the reader looks itself */
  mal_log_reader *read;
} kinds[] = {
    {"nccl-tests", "busbw", mal_read_nccl_tests},         {"nccl-tests", " float ", mal_read_nccl_tests},
    {"nccl-tests", "_perf", mal_read_nccl_tests},         {"all_reduce_bench.py", "GBps", mal_read_torch_bench},
    {"NCCL_DEBUG=INFO", "NCCL ", mal_read_nccl_log},      {"perftest (ib_write_bw)", "#bytes", mal_read_perftest},
    {"fio (JSON)", "\"fio version\"", mal_read_fio_json}, {"fio", "BW=", mal_read_fio_text},
    {"nvbandwidth", "memcpy", mal_read_nvbandwidth},      {"gdsio", "XferType", mal_read_gdsio},
    {"kernel log", "NVRM", mal_read_kernel_log},          {"kernel log", "nvidia-peermem", mal_read_kernel_log},
    {"kernel log", "Xid (", mal_read_kernel_log},         {"Fabric Manager log", "[tid ", mal_read_fabric_manager},
    {"environment", "=", mal_read_environment_file},      {"table of results", "busbw_gbs", mal_read_results_csv},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *mal_health_kinds(mal_arena *a) {
  mal_writing w = {.arena = a};
  mal_write(&w, "%s", mal_topology_kinds(a));
  for (int i = 0; i < KINDS; i++)
    if (i == 0 || strcmp(kinds[i].what, kinds[i - 1].what) != 0) mal_write(&w, ", %s", kinds[i].what);
  return w.text;
}

static void note_input(mal_health *h, const char *file, const char *what) {
  const char *text = mal_print(h->arena, "%s (%s)", file, what);
  for (int i = 0; i < h->n_inputs; i++)
    if (strcmp(h->inputs[i], text) == 0) return;
  h->inputs = room_for_one(h->arena, h->inputs, h->n_inputs, sizeof *h->inputs);
  h->inputs[h->n_inputs++] = text;
}

mal_status mal_health_read(mal_health *h, const mal_paste *p, mal_error *e) {
  bool listing, any = false;
  (void)e;
  h->log_bytes += (int64_t)p->length;
  int before = h->topology.n_sources;
  mal_topology_read(&h->topology, p, &listing);
  h->has_topology = h->has_topology || listing;
  for (int i = before; i < h->topology.n_sources; i++) note_input(h, p->file, h->topology.sources[i].what);
  mal_log_reader *last = NULL;
  for (int i = 0; i < KINDS; i++) {
    if (kinds[i].read == last ||
        (kinds[i].marker && !memmem(p->text, p->length, kinds[i].marker, strlen(kinds[i].marker))))
      continue;
    if (!kinds[i].read(h, p)) continue;
    last = kinds[i].read;
    note_input(h, p->file, kinds[i].what);
    any = true;
  }
  if (!listing && !any) {
    h->unread = room_for_one(h->arena, h->unread, h->n_unread, sizeof *h->unread);
    h->unread[h->n_unread++] = p->file;
  }
  return MAL_OK;
}

/* Servers are built with fewer NICs than the GPU's default one: a node of the catalogue with this GPU and as many NICs as were found. */
static const char *node_with(mal_health *h, const char *gpu, int gpus) {
  mal_part *rails[256];
  char **names;
  size_t count;
  mal_error ignored;
  int n = mal_topology_rails(&h->topology, rails, 256);
  if (!n || mal_catalog_list(h->arena, "nodes", ".yaml", &names, &count, &ignored) != MAL_OK) return NULL;
  for (size_t i = 0; i < count; i++) {
    mal_node *node;
    if (mal_node_load(h->arena, names[i], &node, &ignored) == MAL_OK && strcmp(node->gpu, gpu) == 0 &&
        node->gpus == gpus && node->nics.value == n)
      return names[i];
  }
  return NULL;
}

/* The node as it should be: what the user names, else what the found GPUs are of. */
static mal_status find_machine(mal_health *h, const char *on, mal_error *e) {
  h->on = on;
  if (on) {
    mal_status s = mal_machine_load(h->arena, on, &h->machine, e);
    h->has_machine = s == MAL_OK;
    h->machine_why = "--on";
    return s;
  }
  const char *gpu = h->has_topology ? mal_topology_gpu(h->arena, &h->topology) : NULL;
  mal_error ignored;
  if (!gpu) return MAL_OK;
  int gpus = mal_count_parts(&h->topology, MAL_PART_GPU);
  mal_gpu *g;
  if (mal_gpu_load(h->arena, gpu, &g, &ignored) != MAL_OK) return MAL_OK;
  mal_node *node;
  if (mal_node_load(h->arena, g->default_node, &node, &ignored) != MAL_OK) return MAL_OK;
  mal_part *rails[256];
  bool fewer = node->nvlink_domain > 1 && mal_topology_rails(&h->topology, rails, 256) < node->nics.value;
  const char *built = fewer ? node_with(h, gpu, gpus) : NULL;
  const char *spec = built ? built : mal_print(h->arena, "%dx%s", gpus <= node->gpus ? gpus : (int)node->gpus, gpu);
  h->has_machine = mal_machine_load(h->arena, spec, &h->machine, &ignored) == MAL_OK;
  h->machine_why = spec;
  return MAL_OK;
}

static int by_severity(const void *a, const void *b) {
  const mal_finding *x = a, *y = b;
  if (x->severity != y->severity) return x->severity > y->severity ? -1 : 1;
  return x->rule < y->rule ? -1 : x->rule > y->rule;
}

/* Insertion keeps the order of equals: findings come in the order of devices. */
static void sort_findings(mal_health *h) {
  for (int i = 1; i < h->n_findings; i++) {
    mal_finding f = h->findings[i];
    int at = i;
    for (; at > 0 && by_severity(&f, &h->findings[at - 1]) < 0; at--) h->findings[at] = h->findings[at - 1];
    h->findings[at] = f;
  }
}

mal_status mal_health_judge(mal_health *h, const char *on, mal_error *e) {
  if (h->has_topology) mal_topology_derive(&h->topology);
  mal_status s = find_machine(h, on, e);
  if (s != MAL_OK) return s;
  if (h->has_topology) {
    mal_judge_topology(h);
    mal_judge_gpus(h);
    mal_judge_nics(h);
  }
  mal_judge_environment(h);
  mal_judge_benches(h);
  mal_cost_findings(h);
  sort_findings(h);
  return MAL_OK;
}

mal_severity mal_health_worst(const mal_health *h) {
  mal_severity worst = MAL_SEV_NOTE;
  for (int i = 0; i < h->n_findings; i++)
    if (h->findings[i].severity > worst) worst = h->findings[i].severity;
  return worst;
}

int mal_health_count(const mal_health *h, mal_severity severity) {
  int n = 0;
  for (int i = 0; i < h->n_findings; i++) n += h->findings[i].severity == severity;
  return n;
}
