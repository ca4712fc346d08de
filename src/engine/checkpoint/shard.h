/* Inside checkpoints: rectangles, and the shards and manifests they are kept in. */
#ifndef MAL_ENGINE_CHECKPOINT_SHARD_H
#define MAL_ENGINE_CHECKPOINT_SHARD_H
#include "engine/checkpoint/checkpoint.h"

enum {
  SHARD_VERSION = 1,
  SHARD_HEAD_BYTES = 24,
  SHARD_RECTANGLE_BYTES = 48,
  SHARD_TAIL_BYTES = 16,
  SHARD_BUFFER_BYTES = 1 << 20,
  SHARD_KINDS = 3, /* parameter, first moment, second moment */
};

/* A part of a tensor, and its numbers, row after row: in memory or at a byte of a shard. */
typedef struct rectangle {
  int32_t tensor, kind;
  int64_t row, rows, col, cols;
  float *numbers;
  int64_t at_byte;
} rectangle;

typedef struct rectangles {
  rectangle *at;
  int32_t count, room;
} rectangles;

/* What a rank holds; owned: only what it has to write. Moments begin and end anywhere in a row: up to three rectangles. */
void mal_rectangles_of(mal_arena *a, const mal_rank_state *s, bool owned, rectangles *r);

/* "MALSHARD" and the table. Checked against the file's size: every number lies in the file, before its tail. */
void mal_shard_encode(const rectangles *r, int64_t bytes, uint8_t *head);
mal_status mal_shard_decode(mal_arena *a, const char *path, const uint8_t *head, int64_t head_bytes, int64_t file_bytes,
                            const mal_tensors *t, rectangles *r, mal_error *e);
/* Bytes of the head of a shard whose first SHARD_HEAD_BYTES these are; negative: it is none. */
int64_t mal_shard_head_bytes(const uint8_t *first, int64_t file_bytes);

char *mal_manifest_text(mal_arena *a, const mal_checkpoint *c, const mal_tensors *t, const mal_checkpoint_file *shards);
/* text[length] is 0. */
mal_status mal_manifest_parse(mal_arena *a, const char *path, const char *text, size_t length,
                              mal_checkpoint_found *found, mal_error *e);

/* Paths of the checkpoints of a folder, newest first. 0 or an errno. */
int mal_checkpoint_list(mal_arena *a, mal_files *f, const char *folder, const char ***paths, int *n);

/* "No space left ..." and the like: what, path, why. */
mal_status mal_checkpoint_cannot(mal_error *e, const char *what, const char *path, int why);
#endif
