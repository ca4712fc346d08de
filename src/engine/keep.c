#include "engine/keep.h"
#include "engine/checkpoint/shard.h"
#include "engine/tensors.h"
#include <string.h>

mal_status mal_keep_open(mal_arena *a, mal_keep *k, mal_files *files, const char *folder, const mal_plan *plan,
                         uint64_t seed, bool resume, mal_error *e) {
  const char **paths;
  int n = 0;
  *k = (mal_keep){.files = files, .folder = folder};
  mal_tensors_list(a, &plan->model, &k->tensors);
  k->says =
      (mal_checkpoint){.seed = seed,
                       .ranks = (int32_t)mal_layout_world(&plan->layout),
                       .model = plan->model.name ? plan->model.name : "",
                       .layout = mal_print(a, "dp=%lld,%s", (long long)plan->layout.dp, mal_plan_layout(a, plan))};
  mal_checkpoint_list(a, files, folder, &paths, &n);
  if (n == 0) return MAL_OK;
  if (!resume)
    return mal_fail(
        e, MAL_BAD,
        _("%s has checkpoints already, the newest is %s. Add --resume to go on from it, or name another folder."),
        folder, paths[0]);
  mal_status status = mal_checkpoint_find(a, files, folder, &k->from, e);
  if (status) return status;
  if (k->from.says.seed != seed)
    return mal_fail(e, MAL_BAD,
                    _("%s was begun with --seed %llu, and this is --seed %llu: the order of the data would change."),
                    k->from.path, (unsigned long long)k->from.says.seed, (unsigned long long)seed);
  k->resumed = true;
  return MAL_OK;
}

mal_status mal_keep_restore(mal_keep *k, const mal_rank_state *s, mal_error *e) {
  return mal_checkpoint_load(&k->from, &k->tensors, s, e);
}

mal_status mal_keep_begin(mal_keep *k, int64_t step, mal_error *e) {
  return mal_checkpoint_begin(k->files, k->folder, step, e);
}

mal_status mal_keep_save(mal_keep *k, const mal_rank_state *s, int64_t step, mal_error *e) {
  return mal_checkpoint_shard(k->files, k->folder, step, s, e);
}

mal_status mal_keep_saved(mal_keep *k, int64_t step, int64_t sequences, mal_error *e) {
  mal_checkpoint says = k->says;
  says.step = step;
  says.sequences = sequences;
  return mal_checkpoint_commit(k->files, k->folder, &says, &k->tensors, MAL_CHECKPOINTS_KEPT, e);
}
