#include "layout/layout.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static mal_arena kept;
static mal_model model;
static mal_machine machine;
static mal_profile *profile;

static void load(void) {
  mal_error e;
  if (profile) return;
  if (mal_machine_load(&kept, "72xgb200", &machine, &e) || mal_profile_load(&kept, "nemo", &profile, &e) ||
      mal_model_parse_bare(&kept, "layers=24,hidden=4608,heads=36,kv_heads=12,ffn=9216,vocab=51200,experts=24,top_k=2",
                           &model, &e))
    abort();
}

/* A layout that completes has the world of its machine, whole batches, and stages that hold every layer once. */
static void check(mal_arena *a, const mal_layout *l, const mal_job *job) {
  int64_t chunks = l->pp * l->vpp, total = 0;
  int64_t *first = MAL_ARRAY(a, int64_t, chunks), *count = MAL_ARRAY(a, int64_t, chunks);
  if (mal_layout_world(l) != mal_machine_gpus(&machine)) abort();
  if (l->micro_batch * job->accumulation * l->dp != job->global_batch) abort();
  if (mal_layout_edp(l) * l->etp * l->ep != l->tp * l->cp * l->dp) abort();
  mal_layout_stages(l, model.layers, first, count);
  for (int64_t i = 0; i < chunks; i++) {
    if (count[i] < 0 || first[i] != total) abort();
    total += count[i];
  }
  if (total != model.layers) abort();
  for (unsigned axes = 0; axes < 1u << MAL_AXES; axes++) {
    mal_group g = mal_layout_group(l, &machine, axes);
    if (g.size < 1 || g.ranks_per_node < 1 || g.nodes < 1) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  load();
  mal_arena a = {0};
  mal_error e;
  mal_layout l, back;
  mal_job job;
  char *arithmetic, *text = mal_print(&a, "%.*s", (int)size, (const char *)data);
  mal_layout_default(&l);
  mal_layout_default(&back);
  mal_job_default(&job);
  if (mal_layout_parse(&a, text, &l, &e) == MAL_OK) {
    const char *shown = mal_layout_show(&a, &l);
    if (mal_layout_parse(&a, shown, &back, &e) || strcmp(mal_layout_show(&a, &back), shown)) abort();
    if (mal_layout_complete(&a, &model, &machine, profile, &job, &l, &arithmetic, &e) == MAL_OK) check(&a, &l, &job);
  }
  mal_arena_free(&a);
  return 0;
}
