/* NCCL's environment for a node and a fabric: only what is needed, and why. The variables are rows of catalog/launch/nccl.csv. */
#include "core/catalog.h"
#include "core/csv.h"
#include "launch/export.h"
#include "launch/script.h"
#include <fnmatch.h>
#include <string.h>

/* Rows of this node that are needed on so many nodes. */
static mal_status rows_of(mal_export *x, mal_settings *into, mal_error *e) {
  char *path;
  mal_csv csv;
  const mal_machine *m = &x->plan->machine;
  mal_status s = mal_catalog_find(x->a, "launch", "nccl", ".csv", "list", &path, e);
  if (s == MAL_OK) s = mal_csv_read(x->a, path, &csv, e);
  if (s != MAL_OK) return s;
  int node = mal_csv_column(&csv, "node"), when = mal_csv_column(&csv, "when"), name = mal_csv_column(&csv, "variable");
  int value = mal_csv_column(&csv, "value"), why = mal_csv_column(&csv, "why");
  for (int i = 0; i < csv.rows; i++) {
    if (fnmatch(mal_csv_cell(&csv, i, node), m->node->name, 0) != 0) continue;
    if (m->nodes == 1 && strcmp(mal_csv_cell(&csv, i, when), "always") != 0) continue;
    mal_setting *one = mal_setting_put(into, mal_csv_cell(&csv, i, name), mal_csv_cell(&csv, i, value));
    one->why = mal_csv_cell(&csv, i, why);
  }
  return MAL_OK;
}

mal_status mal_export_nccl(mal_export *x, mal_error *e) {
  mal_writing w = {.arena = x->a};
  mal_settings all = {.arena = x->a};
  const mal_target *t = mal_target_named("nccl");
  mal_status s = rows_of(x, &all, e);
  if (s != MAL_OK) return s;
  mal_write(&w, "# shellcheck shell=sh\n");
  mal_export_head(x, &w, "#", t, x->notes.count);
  mal_write(&w, "# Read by the scripts beside it (. ./nccl.sh); for containers and mpirun the same names.\n");
  for (int i = 0; i < all.count; i++)
    mal_write(&w, "export %s=%s # %s\n", all.all[i].key, mal_script_word(x->a, all.all[i].values[0]), all.all[i].why);
  if (!all.count && x->plan->machine.nodes == 1)
    mal_write(&w, "# One node: NCCL finds NVLink and PCIe by itself; nothing is needed.\n");
  else if (!all.count)
    mal_write(
        &w,
        "# Nothing is known to be needed on this node. Where storage shares the fabric, name the compute adapters:\n"
        "# export NCCL_IB_HCA==mlx5_0,mlx5_1 (the second = for whole names; malha probe shows which GPU has which).\n");
  mal_export_file(x, "nccl.sh", w.text, false);
  return MAL_OK;
}
