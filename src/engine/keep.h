/* The checkpoints of a training run: what the hooks of the loop do with a folder. */
#ifndef MAL_ENGINE_KEEP_H
#define MAL_ENGINE_KEEP_H
#include "engine/checkpoint/checkpoint.h"
#include "engine/train.h"

typedef struct mal_keep {
  mal_files *files;
  const char *folder;
  mal_tensors tensors;
  mal_checkpoint says; /* model, layout, seed, ranks: of this run */
  bool resumed;
  mal_checkpoint_found from; /* resumed: where it goes on from */
} mal_keep;

/* resume: from the newest whole checkpoint of the folder; from the beginning when there is none at all. Without it a folder that
 * has checkpoints is refused: they would be mixed with those of another run. Errors also: another seed than the checkpoint's
 * (the order of the data would change), only damaged ones. */
mal_status mal_keep_open(mal_arena *a, mal_keep *k, mal_files *files, const char *folder, const mal_plan *plan,
                         uint64_t seed, bool resume, mal_error *e);
/* For the hooks of the same names. */
mal_status mal_keep_restore(mal_keep *k, const mal_rank_state *s, mal_error *e);
mal_status mal_keep_begin(mal_keep *k, int64_t step, mal_error *e);
mal_status mal_keep_save(mal_keep *k, const mal_rank_state *s, int64_t step, mal_error *e);
mal_status mal_keep_saved(mal_keep *k, int64_t step, int64_t sequences, mal_error *e);
#endif
