/* Checkpoints: what outlasts a step, in the model's own index space, so that any layout may read what any other wrote.
 *
 *   FOLDER/step-00000012/rank-00003.shard    what rank 3 had to write: rectangles of tensors, then their numbers
 *   FOLDER/step-00000012/manifest.json       step, seed, data position, layout, tensors; size and hash of every shard
 *   FOLDER/.step-00000012.part/              one being written
 *
 * The states of a folder, and who moves it on:
 *   begin    makes .part
 *   shard    writes one shard into it and syncs it (each rank its own, at the same time)
 *   commit   writes and syncs the manifest, syncs .part, renames it to step-N, syncs FOLDER; then removes those beyond `keep`
 * Invariants. A folder named step-N was complete on disk before it had that name. No step-N is changed; where the name is taken,
 * step-N.1 and so on are used. One is removed only when a newer one is complete on disk. So there is a valid one at every
 * moment after the first commit, whatever stops the machine (tests/test_checkpoint.c stops it at every operation).
 *
 * A shard: "MALSHARD", version (32 bits), rectangles (32 bits), bytes of all (64 bits); of each rectangle tensor and kind
 * (32 bits each), row, rows, col, cols, byte where its numbers begin (64 bits each); fp32 numbers, row after row; XXH3-128 of
 * all before. Little-endian. */
#ifndef MAL_ENGINE_CHECKPOINT_CHECKPOINT_H
#define MAL_ENGINE_CHECKPOINT_CHECKPOINT_H
#include "engine/engine.h"
#include "engine/file/file.h"

enum { MAL_CHECKPOINTS_KEPT = 2 }; /* the newest, and the one before in case the newest is damaged later */

typedef struct mal_checkpoint {
  int64_t step;      /* steps done */
  int64_t sequences; /* of the data used so far: number of the next one */
  uint64_t seed;
  int64_t warmup; /* steps over which the learning rate rises; -1: not said (written before it was kept) */
  int32_t ranks;  /* that wrote it: shards */
  const char *model, *layout;
} mal_checkpoint;

/* Once, by one rank, before the others write. The folder itself may be missing, the one it lies in not. */
mal_status mal_checkpoint_begin(mal_files *f, const char *folder, int64_t step, mal_error *e);
/* By each rank. What others own is left to them; a rank that owns nothing writes an empty shard. */
mal_status mal_checkpoint_shard(mal_files *f, const char *folder, int64_t step, const mal_rank_state *s, mal_error *e);
/* Once, when all shards are written. Errors: nothing is lost of what stood before; the message says so. */
mal_status mal_checkpoint_commit(mal_files *f, const char *folder, const mal_checkpoint *c, const mal_tensors *t,
                                 int keep, mal_error *e);

typedef struct mal_checkpoint_file {
  const char *name;
  int64_t bytes;
  uint64_t hash[2]; /* high, low */
} mal_checkpoint_file;

typedef struct mal_checkpoint_found {
  mal_checkpoint says;
  mal_files *files;
  const char *path; /* FOLDER/step-N */
  mal_tensors tensors;
  mal_checkpoint_file *shards; /* [says.ranks] */
  const char *passed_over;     /* newer ones that are damaged: which, which file, why; NULL none */
} mal_checkpoint_found;

/* The newest that is whole: every shard is read and its hash compared. None: MAL_NO, with what is wrong with those there are. */
mal_status mal_checkpoint_find(mal_arena *a, mal_files *f, const char *folder, mal_checkpoint_found *found,
                               mal_error *e);
/* By each rank of the new layout: fills param (all pieces) and moments (all shards) of s. Tensors are matched by name; a
 * tensor that is missing or has another shape is named. Any thread may call. */
mal_status mal_checkpoint_load(const mal_checkpoint_found *found, const mal_tensors *t, const mal_rank_state *s,
                               mal_error *e);
#endif
