/* nccl-tests over exactly the groups of a plan, all groups of an axis at once as in a step, with the busbw to expect. */
#include "check/node/health.h"
#include "launch/export.h"
#include <string.h>

typedef long long ll;

enum { MOST_BYTES = 1 << 30 };

typedef struct axis {
  const char *name;
  unsigned mask;
  int64_t size, stride;
  mal_collective collectives[3]; /* MAL_COLLECTIVES: sends to the next */
  int n;
} axis;

static const char *const programs[MAL_COLLECTIVES + 1] = {"all_reduce_perf", "all_gather_perf", "reduce_scatter_perf",
                                                          "alltoall_perf",   "broadcast_perf",  "sendrecv_perf"};

static bool power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

/* NCCL_TESTS_SPLIT makes a colour of a rank by one operation: ranks with the same colour are a group. NULL: none does. */
static const char *split(mal_arena *a, const axis *x, int64_t world) {
  if (x->size == world) return "";
  if (x->stride == 1) return mal_print(a, "DIV %lld", (ll)x->size);
  if (x->stride * x->size == world) return mal_print(a, "MOD %lld", (ll)x->stride);
  if (power_of_two(x->size) && power_of_two(x->stride) && world <= (INT64_C(1) << 30)) {
    int64_t all = 1;
    while (all < world) all <<= 1;
    return mal_print(a, "AND 0x%llx", (ll)((all - 1) & ~((x->size - 1) * x->stride)));
  }
  return NULL;
}

static int axes_of(const mal_plan *p, axis *axes) {
  const mal_layout *l = &p->layout;
  bool experts = mal_model_has_experts(&p->model);
  const mal_collective sums = l->zero ? MAL_REDUCE_SCATTER : MAL_ALL_REDUCE;
  const mal_collective tp = l->sequence_parallel ? MAL_REDUCE_SCATTER : MAL_ALL_REDUCE;
  const mal_collective cp = l->cp_kind == MAL_CP_RING       ? (mal_collective)MAL_COLLECTIVES
                            : l->cp_kind == MAL_CP_ALLTOALL ? MAL_ALL_TO_ALL
                                                            : MAL_ALL_GATHER;
  const axis all[] = {
      {"tp", 1u << MAL_AXIS_TP, l->tp, 1, {tp, MAL_ALL_GATHER}, l->sequence_parallel ? 2 : 1},
      {"cp", 1u << MAL_AXIS_CP, l->cp, l->tp, {cp}, 1},
      {"dp", 1u << MAL_AXIS_CP | 1u << MAL_AXIS_DP, l->cp * l->dp, l->tp, {sums, MAL_ALL_GATHER}, l->zero ? 2 : 1},
      {"pp", 1u << MAL_AXIS_PP, l->pp, l->tp * l->cp * l->dp, {(mal_collective)MAL_COLLECTIVES}, 1},
      {"ep", 1u << MAL_AXIS_EP, experts ? l->ep : 1, l->etp, {MAL_ALL_TO_ALL}, 1},
  };
  int n = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i].size > 1) axes[n++] = all[i];
  return n;
}

static double busbw(const mal_machine *m, const mal_layout *l, const axis *x, mal_collective c) {
  mal_group g = mal_layout_group(l, m, x->mask);
  if ((int)c != MAL_COLLECTIVES) return mal_collective_price(m, &g, c, MOST_BYTES).busbw;
  double seconds = mal_transfer_price(m, &g, MOST_BYTES).seconds;
  return seconds > 0 ? MOST_BYTES / seconds : 0;
}

static void put_axis(mal_export *x, mal_writing *w, const mal_machine *best, const axis *ax) {
  int64_t world = mal_layout_world(&x->plan->layout);
  const char *by = split(x->a, ax, world);
  mal_write(w, "\n# %s: groups of %lld ranks, %lld apart\n", ax->name, (ll)ax->size, (ll)ax->stride);
  if (!by) {
    mal_write(w, "# no single operation of NCCL_TESTS_SPLIT makes these groups: not tested\n");
    mal_note_add(x->a, &x->notes, NULL, 0,
                 _("%s: nccl-tests splits ranks by one operation, and none makes groups of %lld ranks %lld apart."),
                 ax->name, (ll)ax->size, (ll)ax->stride);
    return;
  }
  for (int i = 0; i < ax->n; i++)
    mal_write(w, "run %s '%s' %s %.0f\n", ax->name, by, programs[ax->collectives[i]],
              busbw(best, &x->plan->layout, ax, ax->collectives[i]) / 1e9);
}

mal_status mal_export_nccl_tests(mal_export *x, mal_error *e) {
  (void)e;
  mal_writing w = {.arena = x->a}, body = {.arena = x->a};
  mal_machine best = x->plan->machine;
  const mal_target *t = mal_target_named("nccl-tests");
  axis axes[8];
  int n = axes_of(x->plan, axes), first = x->notes.count;
  mal_machine_at_best(x->a, &best);
  for (int i = 0; i < n; i++) put_axis(x, &body, &best, &axes[i]);
  if (!n) mal_write(&body, "\n# One rank: nothing to test.\n");
  mal_write(&w, "#!/bin/sh\n");
  mal_export_head(x, &w, "#", t, first);
  mal_write(
      &w,
      "# Every group of an axis runs at once, as in a step. NCCL_TESTS: the folder of nccl-tests, built with MPI=1.\n"
      "# malha check judges what this prints.\n"
      "set -eu\n"
      "cd \"$(dirname \"$0\")\"\n"
      "# shellcheck source=/dev/null\n"
      "if [ -f ./nccl.sh ]; then . ./nccl.sh; fi\n"
      "hosts=\n"
      "if [ -f ./hostfile ]; then hosts='--hostfile ./hostfile'; fi\n\n"
      "run() { # AXIS SPLIT TEST GB/S\n"
      "  printf '\\n== %%s: %%s, expect a busbw of about %%s GB/s at 1 GiB\\n' \"$1\" \"$3\" \"$4\"\n"
      "  # shellcheck disable=SC2086 # options, not names\n"
      "  NCCL_TESTS_SPLIT=\"$2\" ${MPIRUN:-mpirun} $hosts -np %lld -x NCCL_TESTS_SPLIT ${MPI_ARGS:-} \\\n"
      "    \"${NCCL_TESTS:?the folder of nccl-tests}/build/$3\" -b 1M -e 1G -f 2 -g 1 -n 20 -w 5 -c 0\n"
      "}\n%s",
      (ll)mal_layout_world(&x->plan->layout), body.text);
  mal_export_file(x, "nccl-tests.sh", w.text, true);
  return MAL_OK;
}
