#include "design/kit/acceptance.h"
#include "price/expected.h"
#include <math.h>
#include <stdlib.h>

const char *const mal_delivery_stage_name[] = {"node", "pair", "unit", "all", NULL};

static const double largest_message = 17179869184.0; /* 16 GiB: busbw is flat there */
/* What a test of a disk must reach of the data sheet's rate, of a network of its line rate: judgement, between a healthy device
 * and one that lost a quarter of its lanes. */
static const double device_enough = 0.9;

typedef struct maker {
  mal_arena *arena;
  const mal_design *design;
  mal_machine best;
  mal_acceptance *list;
  int n;
} maker;

static mal_acceptance *add(maker *k, mal_acceptance t) {
  if (k->n >= MAL_ACCEPTANCE_MOST) return &k->list[MAL_ACCEPTANCE_MOST - 1];
  k->list[k->n] = t;
  return &k->list[k->n++];
}

/* --- a node alone ---------------------------------------------------------------------------------------------------- */

static bool nvidia(const maker *k) { return k->design->software->of[MAL_SW_DRIVER].version != NULL; }

static void add_inventory(maker *k) {
  const mal_node *n = k->design->machine.node;
  bool ours = nvidia(k);
  add(k, (mal_acceptance){.name = "node-gpus",
                          .what = "every GPU is there",
                          .command = ours ? "nvidia-smi -L | tee /dev/stderr | wc -l" : "amd-smi list | grep -c ^GPU",
                          .expected = (double)n->gpus,
                          .reject = (double)n->gpus,
                          .unit = "GPUs",
                          .source = "the node"});
  add(k, (mal_acceptance){.name = "node-topology",
                          .what = "GPUs, NICs and drives hang where they should: malha check reads it",
                          .command = ours ? "nvidia-smi topo -m; nvidia-smi nvlink --status; lspci -vvv"
                                          : "rocm-smi --showtopo; lspci -vvv",
                          .unit = "",
                          .source = "malha check"});
  if (!ours) return;
  add(k, (mal_acceptance){.name = "node-diag",
                          .what = "DCGM's longest diagnosis: memory, PCIe, NVLink, power, about two hours",
                          .command = "dcgmi diag -r 4",
                          .unit = "",
                          .source = "DCGM documentation, run levels"});
}

static void add_burn(maker *k) {
  const mal_gpu *g = k->best.gpu;
  const char *cuda = k->design->software->of[MAL_SW_CUDA].version;
  double flops = g->flops[MAL_BF16].value * g->cal.gemm_bf16.hi;
  if (flops <= 0 || !cuda) return;
  add(k, (mal_acceptance){.name = "node-burn",
                          .what = "tensor cores at full load for an hour; watch clocks, heat and the PDUs",
                          .command =
                              mal_print(k->arena, "dcgmproftester%d --no-dcgm-validation -t 1004 -d 3600", atoi(cuda)),
                          .expected = flops / 1e12,
                          .reject = flops * device_enough / 1e12,
                          .unit = "TFLOP/s",
                          .source = g->cal.gemm_bf16.source});
}

static void add_pcie(maker *k) {
  const mal_gpu *g = k->best.gpu;
  double rate = g->pcie_bytes_per_s.value * g->cal.pcie.hi;
  if (rate <= 0 || !nvidia(k)) return;
  add(k, (mal_acceptance){.name = "node-pcie",
                          .what = "each GPU from and to host memory",
                          .command = "nvbandwidth -t host_to_device_memcpy_ce device_to_host_memcpy_ce",
                          .expected = rate / 1e9,
                          .reject = rate * MAL_EXPECTED_ENOUGH / 1e9,
                          .unit = "GB/s",
                          .source = g->cal.pcie.source});
}

static void add_drives(maker *k) {
  static const char *const ways[] = {"read", "write"};
  const mal_node *n = k->design->machine.node;
  const mal_value *rates[] = {&n->nvme_read_bytes_per_s, &n->nvme_write_bytes_per_s};
  for (int i = 0; i < 2; i++)
    if (rates[i]->value > 0)
      add(k,
          (mal_acceptance){.name = mal_print(k->arena, "node-nvme-%s", ways[i]),
                           .what = mal_print(k->arena, "the node's own drives, %s", ways[i]),
                           .command = mal_print(k->arena,
                                                "fio --name=nvme --directory=/scratch --rw=%s --bs=1M --size=16G "
                                                "--numjobs=%d --iodepth=32 --ioengine=libaio --direct=1 --time_based "
                                                "--runtime=120 --group_reporting",
                                                ways[i], (int)fmax(4, n->nvme_drives.value)),
                           .expected = rates[i]->value / 1e9,
                           .reject = rates[i]->value * device_enough / 1e9,
                           .unit = "GB/s",
                           .source = rates[i]->source});
}

static void add_host(maker *k) {
  add(k, (mal_acceptance){.name = "node-memory",
                          .what = "processors and memory under load for an hour, no corrected errors after it",
                          .command = "stress-ng --cpu 0 --vm 8 --vm-bytes 80% --verify --timeout 1h --metrics; "
                                     "grep -H . /sys/devices/system/edac/mc/mc*/ce_count",
                          .unit = "",
                          .source = "stress-ng's own verification"});
}

/* --- collectives ----------------------------------------------------------------------------------------------------- */

static const struct collective {
  const char *tool;
  mal_collective c;
} collectives[] = {{"all_reduce", MAL_ALL_REDUCE},
                   {"all_gather", MAL_ALL_GATHER},
                   {"reduce_scatter", MAL_REDUCE_SCATTER},
                   {"alltoall", MAL_ALL_TO_ALL}};

static void add_collectives(maker *k, int stage, int64_t nodes) {
  mal_arena *a = k->arena;
  int64_t gpus = k->design->machine.node->gpus;
  if (gpus * nodes < 2) return;
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
    const struct collective *c = &collectives[i];
    double rate = mal_expected_busbw(&k->best, c->c, gpus * nodes, nodes, largest_message);
    const char *run =
        nodes == 1 ? mal_print(a, "%s_perf -b 8M -e 16G -f 2 -g %lld", c->tool, (long long)gpus)
                   : mal_print(a, "srun --mpi=pmix -N %lld --ntasks-per-node=%lld %s_perf -b 8M -e 16G -f 2 -g 1",
                               (long long)nodes, (long long)gpus, c->tool);
    add(k, (mal_acceptance){.stage = stage,
                            .nodes = nodes,
                            .name = mal_print(a, "%s-%s", mal_delivery_stage_name[stage], c->tool),
                            .what = mal_print(a, "%s, busbw at 16 GiB on %lld GPUs",
                                              nvidia(k) ? "nccl-tests" : "rccl-tests", (long long)(gpus * nodes)),
                            .command = run,
                            .expected = rate / 1e9,
                            .reject = rate * MAL_EXPECTED_ENOUGH / 1e9,
                            .unit = "GB/s",
                            .source = "the model's collectives on this machine, links at what microbenchmarks reach"});
  }
}

/* --- between nodes --------------------------------------------------------------------------------------------------- */

static void add_rails(maker *k) {
  const mal_design *d = k->design;
  const mal_gpu *g = k->best.gpu;
  double line = fmin(d->machine.node->nic_bytes_per_s.value, d->leaf->port_bytes_per_s.value);
  double rate = line * g->cal.nic.hi;
  bool roce = d->leaf->kind == MAL_ETHERNET;
  mal_writing hcas = {.arena = k->arena};
  for (int64_t r = 0; r < d->compute.ask.rails; r++)
    mal_write(&hcas, "%s%s", r ? " " : "", mal_chassis_hca(k->arena, d->chassis, r));
  add(k, (mal_acceptance){
             .stage = MAL_STAGE_PAIR,
             .nodes = 2,
             .name = "pair-rails",
             .what = "each rail between two nodes, from GPU memory, in both directions in turn",
             .command = mal_print(k->arena,
                                  "i=0; for hca in %s; do test=\"ib_write_bw -d $hca%s --use_%s=$i -s 8388608 -D 10 "
                                  "--report_gbits\"; ssh \"$PEER\" $test & sleep 2; $test \"$PEER\"; wait; "
                                  "i=$((i+1)); done",
                                  hcas.text, roce ? " -x 3" : "", nvidia(k) ? "cuda" : "rocm"),
             .expected = rate / 1e9,
             .reject = line * device_enough / 1e9,
             .unit = "GB/s",
             .source = g->cal.nic.source});
  if (!roce)
    add(k, (mal_acceptance){.stage = MAL_STAGE_ALL,
                            .nodes = d->nodes,
                            .name = "all-cabling",
                            .what = "every cable lies where the design has it",
                            .command = "ibnetdiscover >found.txt; malha design check --expected cluster.yaml --found "
                                       "found.txt",
                            .unit = "",
                            .source = "the cable list"});
}

static void add_storage(maker *k) {
  static const char *const ways[] = {"read", "write"};
  const mal_design *d = k->design;
  const mal_storage *s = &d->storage;
  double rates[] = {s->read_bytes_per_s, s->write_bytes_per_s};
  for (int i = 0; i < 2; i++)
    add(k,
        (mal_acceptance){.stage = MAL_STAGE_ALL,
                         .nodes = d->nodes,
                         .name = mal_print(k->arena, "all-storage-%s", ways[i]),
                         .what = mal_print(k->arena, "the shared file system, %s from all nodes at once", ways[i]),
                         .command = mal_print(k->arena,
                                              "srun -N %lld --ntasks-per-node=1 fio --name=shared "
                                              "--directory=/shared/acceptance --rw=%s --bs=4M --size=32G --numjobs=8 "
                                              "--iodepth=16 --ioengine=libaio --direct=1 --time_based --runtime=120 "
                                              "--group_reporting",
                                              (long long)d->nodes, ways[i]),
                         .expected = (double)s->servers *
                                     (i ? s->server->write_bytes_per_s.value : s->server->read_bytes_per_s.value) / 1e9,
                         .reject = rates[i] / 1e9,
                         .unit = "GB/s",
                         .source = "expected: the servers' data sheet; least: what the design asks of it"});
}

int mal_acceptance_list(mal_arena *a, const mal_design *d, mal_acceptance *list) {
  maker k = {a, d, d->machine, list, 0};
  mal_machine_at_best(a, &k.best);
  k.best.nodes = d->nodes;
  add_inventory(&k);
  add_burn(&k);
  add_pcie(&k);
  add_host(&k);
  add_drives(&k);
  add_collectives(&k, MAL_STAGE_NODE, 1);
  for (int i = 0; i < k.n; i++) list[i].nodes = 1;
  if (!d->has_fabric) return k.n;
  int64_t unit =
      d->compute.ask.topology == MAL_TOPOLOGY_RAIL ? d->compute.unit_nodes : d->compute.down / d->compute.ask.rails;
  add_rails(&k);
  if (d->nodes >= 2) add_collectives(&k, MAL_STAGE_PAIR, 2);
  if (unit > 2 && unit < d->nodes) add_collectives(&k, MAL_STAGE_UNIT, unit);
  if (d->nodes > 2) add_collectives(&k, MAL_STAGE_ALL, d->nodes);
  add_storage(&k);
  return k.n;
}

/* --- as files -------------------------------------------------------------------------------------------------------- */

static void put_quoted(mal_writing *w, const char *text) {
  mal_write(w, "\"");
  for (const char *c = text ? text : ""; *c; c++) mal_write(w, *c == '"' ? "\"\"" : "%c", *c);
  mal_write(w, "\"");
}

char *mal_acceptance_csv(mal_arena *a, const mal_acceptance *list, int n) {
  mal_writing w = {.arena = a};
  mal_write(&w, "stage,nodes,test,what,command,expected,reject_below,unit,source\n");
  for (int i = 0; i < n; i++) {
    const mal_acceptance *t = &list[i];
    mal_write(&w, "%s,%lld,%s,", mal_delivery_stage_name[t->stage], (long long)t->nodes, t->name);
    put_quoted(&w, t->what);
    mal_write(&w, ",");
    put_quoted(&w, t->command);
    if (t->expected > 0)
      mal_write(&w, ",%.4g,%.4g,%s,", t->expected, t->reject, t->unit);
    else
      mal_write(&w, ",,,,");
    put_quoted(&w, t->source);
    mal_write(&w, "\n");
  }
  return w.text;
}

static void put_test(mal_writing *w, const mal_acceptance *t) {
  mal_write(w, "  # %s%s\n", t->what,
            t->expected > 0 ? mal_print(w->arena, ": %.4g %s, at least %.4g", t->expected, t->unit, t->reject) : "");
  mal_write(w, "  run %s '%s'\n", t->name, t->command);
}

char *mal_acceptance_script(mal_arena *a, const mal_design *d, const mal_acceptance *list, int n) {
  mal_writing w = {.arena = a};
  mal_write(&w,
            "#!/bin/sh\n"
            "# Acceptance of %lld x %s. Run as: acceptance.sh STAGE [LOGS]; stages: node (on each node), pair (with\n"
            "# PEER=NODE), unit, all (from a login node, under Slurm). Expected numbers: acceptance.csv.\n"
            "set -u\nstage=${1:?stage: node, pair, unit or all}\nlogs=${2:-logs}/$(hostname)-$stage\n"
            "mkdir -p \"$logs\" || exit 3\nfailed=0\n"
            "run() {\n  echo \"== $1\"\n  sh -c \"$2\" >\"$logs/$1.log\" 2>&1 || { echo \"FAIL: $1: $logs/$1.log\"; "
            "failed=1; }\n}\n"
            "case $stage in\n",
            (long long)d->nodes, d->machine.node->title);
  for (int stage = 0; stage < MAL_STAGES; stage++) {
    mal_write(&w, "%s)\n%s", mal_delivery_stage_name[stage],
              stage == MAL_STAGE_PAIR ? "  : \"${PEER:?name of the other node}\"\n" : "  :\n");
    for (int i = 0; i < n; i++)
      if (list[i].stage == stage) put_test(&w, &list[i]);
    mal_write(&w, "  ;;\n");
  }
  mal_write(&w, "*)\n  echo \"no stage $stage\" >&2\n  exit 2\n  ;;\nesac\n");
  mal_write(&w,
            "command -v malha >/dev/null && { malha check \"$logs\"/*.log --on %lldx%s || failed=1; }\nexit $failed\n",
            (long long)d->nodes, d->machine.node->name);
  return w.text;
}
