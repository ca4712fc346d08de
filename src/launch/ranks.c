/* Who runs where: host file and rank file of Open MPI, and the wrapper that binds a rank to the cores and the memory beside its GPU.
 * Which cores those are is asked of the machine when the rank starts: indexes of GPUs follow no order of NUMA nodes. */
#include "launch/export.h"
#include <string.h>

typedef long long ll;

static const char bind_text[] =
    "# bind.sh COMMAND...: the command on the cores of its GPU's NUMA node, with memory from there first.\n"
    "# The rank on its node is LOCAL_RANK (torchrun), SLURM_LOCALID (srun) or OMPI_COMM_WORLD_LOCAL_RANK (mpirun).\n"
    "set -eu\n"
    "local=${LOCAL_RANK:-${SLURM_LOCALID:-${OMPI_COMM_WORLD_LOCAL_RANK:-0}}}\n"
    "sys=${SYSFS:-/sys}\n"
    "node=-1\n"
    "if command -v nvidia-smi >/dev/null 2>&1; then\n"
    "  gpu=$local\n"
    "  if [ -n \"${CUDA_VISIBLE_DEVICES:-}\" ]; then\n"
    "    gpu=$(printf '%s' \"$CUDA_VISIBLE_DEVICES\" | cut -d, -f$((local + 1)))\n"
    "  fi\n"
    "  bus=$(nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader -i \"$gpu\" | tr '[:upper:]' '[:lower:]')\n"
    "  bus=${bus#0000} # 00000000:1b:00.0 is 0000:1b:00.0 there\n"
    "  if [ -r \"$sys/bus/pci/devices/$bus/numa_node\" ]; then node=$(cat \"$sys/bus/pci/devices/$bus/numa_node\"); "
    "fi\n"
    "fi\n"
    "if [ \"$node\" -lt 0 ]; then exec \"$@\"; fi # not known, or one node: as it is\n"
    "if command -v numactl >/dev/null 2>&1; then exec numactl --cpunodebind=\"$node\" --preferred=\"$node\" \"$@\"; "
    "fi\n"
    "if command -v taskset >/dev/null 2>&1; then exec taskset -c \"$(cat "
    "\"$sys/devices/system/node/node$node/cpulist\")\" \"$@\"; fi\n"
    "exec \"$@\"\n";

void mal_export_bind(mal_export *x) {
  mal_writing w = {.arena = x->a};
  mal_write(&w, "#!/bin/sh\n%s", bind_text);
  mal_export_file(x, "bind.sh", w.text, true);
}

/* Names of the nodes: as given, else node1, node2, ... */
static mal_status host_names(mal_export *x, const char **names, mal_error *e) {
  int64_t nodes = x->plan->machine.nodes, n = 0;
  char *rest = x->hosts ? mal_copy(x->a, x->hosts) : NULL, *one;
  while (rest && (one = strsep(&rest, ","))) {
    if (!*one || one[strspn(one, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_")] || *one == '-')
      return mal_fail(e, MAL_BAD, _("--hosts: '%.60s' is no name of a host."), one);
    if (n < nodes) names[n] = one;
    n++;
  }
  if (x->hosts && n != nodes)
    return mal_fail(e, MAL_BAD, _("--hosts names %lld hosts, and the plan has %lld nodes."), (ll)n, (ll)nodes);
  for (int64_t i = n; i < nodes; i++) names[i] = mal_print(x->a, "node%lld", (ll)i + 1);
  return MAL_OK;
}

mal_status mal_export_mpi(mal_export *x, mal_error *e) {
  const mal_machine *m = &x->plan->machine;
  const char **names = MAL_ARRAY(x->a, const char *, m->nodes);
  mal_writing hosts = {.arena = x->a}, ranks = {.arena = x->a}, run = {.arena = x->a};
  const mal_target *t = mal_target_named("mpi");
  ll cores = (ll)m->node->cpu_cores.value;
  mal_status s = host_names(x, names, e);
  if (s != MAL_OK) return s;
  mal_export_head(x, &hosts, "#", t, x->notes.count);
  mal_export_head(x, &ranks, "#", t, x->notes.count);
  for (int64_t i = 0; i < m->nodes; i++) {
    mal_write(&hosts, "%s slots=%lld\n", names[i], (ll)m->gpus_per_node);
    for (int64_t k = 0; k < m->gpus_per_node; k++) {
      mal_write(&ranks, "rank %lld=%s slot=", (ll)(i * m->gpus_per_node + k), names[i]);
      mal_write(&ranks, cores > 1 ? "0-%lld\n" : "0\n", cores - 1);
    }
  }
  mal_write(&run, "#!/bin/sh\n");
  mal_export_head(x, &run, "#", t, x->notes.count);
  mal_write(&run,
            "# run-mpi.sh COMMAND...: the command as every rank of the plan, each beside its GPU.\n"
            "set -eu\n"
            "here=$(cd \"$(dirname \"$0\")\" && pwd)\n"
            "# shellcheck disable=SC2086 # options, not names\n"
            "exec mpirun --hostfile \"$here/hostfile\" --rankfile \"$here/rankfile\" -np %lld ${MPI_ARGS:-} "
            "\"$here/bind.sh\" "
            "\"$@\"\n",
            (ll)mal_machine_gpus(m));
  mal_export_file(x, "run-mpi.sh", run.text, true);
  mal_export_file(x, "hostfile", hosts.text, false);
  mal_export_file(x, "rankfile", ranks.text, false);
  mal_export_bind(x);
  return MAL_OK;
}
