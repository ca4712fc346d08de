/* Slurm: a batch script that starts what the other targets wrote, a task on each node, with the GPUs, cores and switches that the
 * plan wants, and that comes back after a failure. */
#include "launch/export.h"
#include "launch/script.h"
#include <string.h>

typedef long long ll;

enum { DEFAULT_LEAF_WAIT_MIN = 120, WARNING_S = 300, RESTARTS = 20 };

/* A name for the queue: letters, digits and dashes of the model's. */
static char *job_name(mal_arena *a, const char *model) {
  char *name = mal_print(a, "malha-%.40s", model);
  for (char *c = name; *c; c++)
    if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._", *c)) *c = '-';
  return name;
}

/* Nodes under one leaf: rails share out the ports of one leaf a rail, else a node takes one port for each NIC. */
static int64_t leaf_nodes(const mal_machine *m) {
  double down = m->fabric->leaf_down.value, nics = m->node->nics.value;
  double nodes = m->fabric->rails.value > 0 || nics < 1 ? down : down / nics;
  return nodes < 1 ? 1 : (int64_t)nodes;
}

static void put(mal_writing *w, const char *option, const char *why) {
  mal_write(w, "#SBATCH %s", option);
  if (why) mal_write(w, "%*s # %s", (int)(strlen(option) < 34 ? 34 - strlen(option) : 0), "", why);
  mal_write(w, "\n");
}

static void put_topology(mal_export *x, mal_writing *w) {
  const mal_machine *m = &x->plan->machine;
  int64_t domain = m->node->nvlink_domain / (m->node->gpus > 0 ? m->node->gpus : 1), leaf = leaf_nodes(m);
  if (m->nodes == 1) return;
  if (domain > 1) {
    int64_t segment = m->nodes < domain ? m->nodes : domain;
    while (segment > 1 && m->nodes % segment) segment--;
    put(w, mal_print(x->a, "--segment=%lld", (ll)segment), _("as many nodes of one NVLink domain together"));
    return;
  }
  int64_t leaves = (m->nodes + leaf - 1) / leaf;
  put(w, mal_print(x->a, "--switches=%lld@%02d:00:00", (ll)leaves, DEFAULT_LEAF_WAIT_MIN / 60),
      mal_print(x->a, _("%lld nodes hang on one leaf; waits so long for it"), (ll)leaf));
}

static void put_time(mal_export *x, mal_writing *w) {
  double seconds = x->estimate->time_to_target_s;
  if (!(seconds > 0) || seconds > 3e8) return;
  ll minutes = (ll)(seconds * 1.2 / 60) + 1;
  put(w, mal_print(x->a, "--time=%lld-%02lld:%02lld:00", minutes / 1440, minutes / 60 % 24, minutes % 60),
      _("the plan's time and a fifth; requeued where the partition allows less"));
}

/* What a node runs: what another target wrote, by the plan's framework. */
static const char *command(mal_export *x) {
  const char *profile = x->plan->profile->name;
  if (strcmp(profile, "malha") == 0) return "malha train --from \"${PLAN:-plan.json}\" \"$@\"";
  for (int i = 0; i < x->count; i++)
    if (strncmp(x->files[i].name, "train-", 6) == 0)
      return mal_print(x->a, "bash %s \"$@\"", mal_script_word(x->a, x->files[i].name));
  return "\"${@:?what to run on each node}\"";
}

mal_status mal_export_slurm(mal_export *x, mal_error *e) {
  const mal_machine *m = &x->plan->machine;
  const mal_target *t = mal_target_named("slurm");
  mal_writing w = {.arena = x->a};
  bool gpus = m->gpu->tdp_w.value > 0 && strcmp(m->gpu->name, "cpu") != 0;
  ll cores = (ll)m->node->cpu_cores.value;
  mal_write(&w, "#!/bin/bash\n");
  mal_export_head(x, &w, "#", t, x->notes.count);
  put(&w, mal_print(x->a, "--job-name=%s", job_name(x->a, x->plan->model.name)), NULL);
  put(&w, mal_print(x->a, "--nodes=%lld", (ll)m->nodes), NULL);
  put(&w, "--ntasks-per-node=1", gpus ? _("the task starts the ranks of its node") : NULL);
  if (gpus)
    put(&w, mal_print(x->a, "--gpus-per-node=%lld", (ll)m->gpus_per_node),
        _("every rank sees all: NVLink needs its peers"));
  if (cores > 0) put(&w, mal_print(x->a, "--cpus-per-task=%lld", cores), NULL);
  if (gpus) put(&w, "--mem=0", _("all memory of the node"));
  if (gpus) put(&w, "--exclusive", NULL);
  put_topology(x, &w);
  put_time(x, &w);
  put(&w, "--requeue", _("after a failure of a node it starts again, from its last checkpoint"));
  put(&w, mal_print(x->a, "--signal=B:USR1@%d", WARNING_S), _("so long before the end, to requeue"));
  put(&w, "--open-mode=append", NULL);
  put(&w, "--output=%x-%j.out", NULL);
  mal_write(&w,
            "set -euo pipefail\n"
            "cd \"${SLURM_SUBMIT_DIR:-.}\"\n"
            "# shellcheck source=/dev/null\n"
            "if [ -f ./nccl.sh ]; then . ./nccl.sh; fi\n"
            "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
            "MASTER_PORT=$((20000 + SLURM_JOB_ID %% 20000))\n"
            "export MASTER_ADDR MASTER_PORT\n"
            "unset NODE_RANK # that of srun counts\n\n"
            "again() {\n"
            "  if [ \"${SLURM_RESTART_COUNT:-0}\" -lt %d ]; then scontrol requeue \"$SLURM_JOB_ID\"; fi\n"
            "  exit 0\n"
            "}\n"
            "trap again USR1\n\n"
            "# One task on each node; its ranks bind themselves beside their GPUs (bind.sh).\n"
            "set -- %s\n"
            "srun --kill-on-bad-exit=1 --cpus-per-task=\"${SLURM_CPUS_PER_TASK:-1}\" --cpu-bind=%s \"$@\" &\n"
            "wait $! # a signal gets through to it\n",
            RESTARTS, command(x), gpus ? "none" : "verbose,cores");
  mal_export_file(x, "train.sbatch", w.text, true);
  mal_export_bind(x);
  return mal_export_nccl(x, e);
}
