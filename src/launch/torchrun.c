/* torchrun around a program of one's own. */
#include "launch/export.h"

typedef long long ll;

void mal_export_torchrun_options(mal_export *x, mal_writing *w) {
  const mal_machine *m = &x->plan->machine;
  mal_write(w, "\nLAUNCH=(\n  --nproc-per-node %lld\n", (ll)m->gpus_per_node);
  if (m->nodes == 1)
    mal_write(w, "  --standalone\n)\n");
  else
    mal_write(w,
              "  --nnodes %lld\n"
              "  --node-rank \"${NODE_RANK:-${SLURM_NODEID:?the number of this node, from 0}}\"\n"
              "  --master-addr \"${MASTER_ADDR:?the name of node 0}\"\n"
              "  --master-port \"${MASTER_PORT:-29500}\"\n)\n",
              (ll)m->nodes);
  mal_write(w, "HERE=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\n"
               "BIND=()\n"
               "if [ -x \"$HERE/bind.sh\" ]; then BIND=(--no-python \"$HERE/bind.sh\" python); fi\n"
               "# shellcheck source=/dev/null\n"
               "if [ -f \"$HERE/nccl.sh\" ]; then . \"$HERE/nccl.sh\"; fi\n");
}

mal_status mal_export_torchrun(mal_export *x, mal_error *e) {
  (void)e;
  mal_writing w = {.arena = x->a};
  mal_write(&w, "#!/usr/bin/env bash\n");
  mal_export_head(x, &w, "#", mal_target_named("torchrun"), x->notes.count);
  mal_write(&w, "# On each of %lld nodes: bash train-torchrun.sh PROGRAM.py [ARGUMENT...]\nset -euo pipefail\n",
            (ll)x->plan->machine.nodes);
  mal_export_torchrun_options(x, &w);
  mal_write(&w, "\nexec torchrun \"${LAUNCH[@]}\" \"${BIND[@]}\" \"${@:?a program}\"\n");
  mal_export_file(x, "train-torchrun.sh", w.text, true);
  return MAL_OK;
}
