#include "design/kit/kit.h"
#include <string.h>

char *mal_kit_nodes(mal_arena *a, int64_t first, int64_t last) {
  if (first >= last) return mal_print(a, "node%04lld", (long long)first);
  return mal_print(a, "node[%04lld-%04lld]", (long long)first, (long long)last);
}

/* Memory that Slurm may give away: all but a twentieth, which the system and the page cache keep. */
static int64_t memory_mib(const mal_node *n) { return (int64_t)(n->ram_bytes.value * 0.95 / 1048576); }

static const char *gpu_type(mal_arena *a, const mal_design *d) {
  const char *name = d->machine.gpu->name;
  return mal_print(a, "%.*s", (int)strcspn(name, "-"), name);
}

char *mal_kit_slurm(mal_arena *a, const mal_design *d) {
  const mal_node *n = d->machine.node;
  mal_writing w = {.arena = a};
  int64_t work = d->nodes - d->spares, cores = (int64_t)n->cpu_cores.value, sockets = (int64_t)n->cpu_sockets.value;
  bool nvl = n->nvlink_domain > n->gpus;
  const char *controller = d->management_servers ? "mgmt01" : "node0001";
  mal_write(&w, "# Slurm 25.05 or later. Beside it: gres.conf, topology.conf (or topology.yaml), cgroup.conf.\n");
  mal_write(&w, "ClusterName=malha\nSlurmctldHost=%s\n", controller);
  if (d->management_servers > 1) mal_write(&w, "SlurmctldHost=mgmt02\n");
  mal_write(
      &w,
      "SlurmUser=slurm\nStateSaveLocation=%s\nSlurmdSpoolDir=/var/spool/slurmd\n"
      "AuthType=auth/munge\nMpiDefault=pmix\nProctrackType=proctrack/cgroup\nTaskPlugin=task/affinity,task/cgroup\n"
      "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nGresTypes=gpu\n"
      "SchedulerType=sched/backfill\nSchedulerParameters=bf_window=10080,bf_continue\n"
      "PriorityType=priority/multifactor\nPriorityWeightAge=1000\nPriorityWeightFairshare=10000\n"
      "PriorityWeightJobSize=2000\nPreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
      "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=%s\n"
      "AccountingStorageTRES=gres/gpu\nJobAcctGatherType=jobacct_gather/cgroup\n",
      d->management_servers > 1 ? "/shared/slurm" : "/var/spool/slurmctld", controller);
  mal_write(&w, "TopologyPlugin=topology/%s\nRebootProgram=/usr/sbin/reboot\nResumeTimeout=1800\n",
            nvl ? "block" : "tree");
  mal_write(&w,
            "# a node that fails its check is drained before a job starts on it and after it ended\n"
            "HealthCheckProgram=/usr/local/sbin/node-check\nHealthCheckInterval=300\nHealthCheckNodeState=IDLE,CYCLE\n"
            "PrologFlags=Contain,X11\nKillWait=60\nUnkillableStepTimeout=180\n");
  mal_write(&w, "NodeName=%s", mal_kit_nodes(a, 1, d->nodes));
  if (sockets > 0 && cores >= sockets)
    mal_write(&w, " Sockets=%lld CoresPerSocket=%lld ThreadsPerCore=1", (long long)sockets,
              (long long)(cores / sockets));
  if (n->ram_bytes.value > 0) mal_write(&w, " RealMemory=%lld", (long long)memory_mib(n));
  mal_write(&w, " Gres=gpu:%s:%lld\n", gpu_type(a, d), (long long)n->gpus);
  mal_write(&w, "PartitionName=DEFAULT OverSubscribe=EXCLUSIVE State=UP\n");
  mal_write(&w,
            "PartitionName=train Nodes=%s Default=YES PriorityTier=10 PreemptMode=OFF MaxTime=7-00:00:00 "
            "DefaultTime=1-00:00:00%s\n",
            mal_kit_nodes(a, 1, d->nodes),
            d->spares ? mal_print(a, " MaxNodes=%lld # %lld spare nodes take the place of broken ones", (long long)work,
                                  (long long)d->spares)
                      : "");
  mal_write(&w, "PartitionName=interruptible Nodes=%s MaxTime=2-00:00:00 PriorityTier=1 PreemptMode=REQUEUE\n",
            mal_kit_nodes(a, 1, d->nodes));
  mal_write(&w, "PartitionName=acceptance Nodes=%s MaxTime=12:00:00 PriorityTier=20 PreemptMode=OFF AllowGroups=root\n",
            mal_kit_nodes(a, 1, d->nodes));
  return w.text;
}

char *mal_kit_gres(mal_arena *a, const mal_design *d) {
  const mal_node *n = d->machine.node;
  mal_writing w = {.arena = a};
  bool nvidia = strncmp(d->machine.gpu->architecture, "sm", 2) == 0;
  mal_write(&w, "# AutoDetect finds files, cores and links by itself; slurmd -C shows what it found.\nAutoDetect=%s\n",
            nvidia ? "nvml" : "rsmi");
  mal_write(&w, "NodeName=%s Name=gpu Type=%s Count=%lld\n", mal_kit_nodes(a, 1, d->nodes), gpu_type(a, d),
            (long long)n->gpus);
  return w.text;
}

char *mal_kit_node_check(mal_arena *a, const mal_design *d) {
  mal_writing w = {.arena = a};
  bool nvidia = d->software->of[MAL_SW_DRIVER].version != NULL;
  bool fabric = d->has_fabric && d->leaf->kind == MAL_INFINIBAND;
  mal_write(&w, "#!/bin/sh\n# HealthCheckProgram of Slurm: install as /usr/local/sbin/node-check on every node.\n"
                "node=$(hostname -s)\n"
                "drain() {\n  scontrol update nodename=\"$node\" state=drain reason=\"check: $1\"\n  exit 0\n}\n");
  if (nvidia)
    mal_write(&w,
              "[ \"$(nvidia-smi -L | grep -c '^GPU')\" -eq %lld ] || drain 'a GPU is missing'\n"
              "nvidia-smi --query-gpu=ecc.errors.uncorrected.volatile.total --format=csv,noheader |\n"
              "  grep -q '[1-9]' && drain 'uncorrected memory errors'\n",
              (long long)d->machine.node->gpus);
  if (mal_software_runs(d->software, &d->machine, MAL_SW_FABRIC_MANAGER))
    mal_write(&w, "systemctl is-active --quiet nvidia-fabricmanager || drain 'Fabric Manager is down'\n");
  for (int64_t r = 0; fabric && r < d->compute.ask.rails; r++) {
    const char *hca = mal_chassis_hca(a, d->chassis, r);
    mal_write(&w, "grep -q ACTIVE /sys/class/infiniband/%s/ports/1/state || drain 'rail %s is down'\n", hca, hca);
  }
  mal_write(&w, "[ \"$(df --output=pcent /scratch | tail -1 | tr -dc 0-9)\" -lt 95 ] || drain '/scratch is full'\n"
                "touch \"/shared/.check-$node\" 2>/dev/null || drain '/shared cannot be written'\nexit 0\n");
  return w.text;
}
