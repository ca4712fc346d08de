#include "engine/checkpoint/shard.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

mal_status mal_checkpoint_cannot(mal_error *e, const char *what, const char *path, int why) {
  if (why == ENOSPC || why == EDQUOT)
    return mal_fail(
        e, MAL_FAULT,
        _("%s: no space left (%s). Checkpoints written before stand; free some space, or name another folder."), path,
        strerror(why));
  return mal_fail(e, MAL_FAULT, _("%s: %s: %s. Checkpoints written before stand."), path, what, strerror(why));
}

static char *part_of(mal_arena *a, const char *folder, int64_t step) {
  return mal_print(a, "%s/.step-%08" PRId64 ".part", folder, step);
}

/* --- begin ----------------------------------------------------------------------------------------------------------------- */

/* A folder with files only, and the files in it. What is not there is removed already. */
static int remove_folder(mal_files *f, mal_arena *a, const char *path) {
  const char **names;
  int n, why = f->list(f, a, path, &names, &n);
  if (why) return why == ENOENT ? 0 : why;
  for (int i = 0; i < n && (!why || why == ENOENT); i++) why = f->remove(f, mal_print(a, "%s/%s", path, names[i]));
  return why && why != ENOENT ? why : f->remove(f, path);
}

static int sync_parent(mal_files *f, mal_arena *a, const char *folder) {
  char *parent = mal_copy(a, folder);
  size_t n = strlen(parent);
  while (n > 1 && parent[n - 1] == '/') parent[--n] = '\0';
  char *slash = strrchr(parent, '/');
  if (!slash) return f->sync_folder(f, ".");
  slash[slash == parent] = '\0';
  return f->sync_folder(f, parent);
}

static mal_status begin(mal_files *f, mal_arena *a, const char *folder, int64_t step, mal_error *e) {
  const char **names;
  int n, why = f->make_folder(f, folder);
  if (!why) why = sync_parent(f, a, folder);
  if (why && why != EEXIST) return mal_checkpoint_cannot(e, _("cannot be made"), folder, why);
  if ((why = f->list(f, a, folder, &names, &n)) != 0) return mal_checkpoint_cannot(e, _("cannot be read"), folder, why);
  for (int i = 0; i < n && !why; i++) { /* what was under way when something stopped */
    size_t length = strlen(names[i]);
    if (strncmp(names[i], ".step-", 6) == 0 && length > 5 && strcmp(names[i] + length - 5, ".part") == 0)
      why = remove_folder(f, a, mal_print(a, "%s/%s", folder, names[i]));
  }
  const char *part = part_of(a, folder, step);
  if (!why) why = f->make_folder(f, part);
  return why ? mal_checkpoint_cannot(e, _("cannot be made"), part, why) : MAL_OK;
}

mal_status mal_checkpoint_begin(mal_files *f, const char *folder, int64_t step, mal_error *e) {
  mal_arena a = {0};
  mal_status status = begin(f, &a, folder, step, e);
  mal_arena_free(&a);
  return status;
}

/* --- one shard --------------------------------------------------------------------------------------------------------------- */

typedef struct output {
  mal_files *files;
  mal_handle *file;
  int64_t at;
  XXH3_state_t *hash;
} output;

static int put(output *o, const void *bytes, int64_t n) {
  for (int64_t done = 0; done < n;) { /* in pieces: hashed while they are in the cache */
    int64_t some = n - done < SHARD_BUFFER_BYTES ? n - done : SHARD_BUFFER_BYTES;
    XXH3_128bits_update(o->hash, (const char *)bytes + done, (size_t)some);
    int why = o->files->write(o->file, o->at, (const char *)bytes + done, some);
    if (why) return why;
    done += some;
    o->at += some;
  }
  return 0;
}

static int put_shard(output *o, const rectangles *r, const uint8_t *head, int64_t head_bytes) {
  XXH3_128bits_reset(o->hash);
  int why = put(o, head, head_bytes);
  for (int32_t i = 0; i < r->count && !why; i++)
    why = put(o, r->at[i].numbers, r->at[i].rows * r->at[i].cols * (int64_t)sizeof(float));
  if (why) return why;
  XXH128_hash_t h = XXH3_128bits_digest(o->hash);
  const uint64_t tail[2] = {h.high64, h.low64};
  why = o->files->write(o->file, o->at, tail, sizeof tail);
  return why ? why : o->files->sync(o->file);
}

static mal_status shard(mal_files *f, mal_arena *a, const char *folder, int64_t step, const mal_rank_state *s,
                        mal_error *e) {
  rectangles r = {0};
  mal_rectangles_of(a, s, true, &r);
  int64_t head_bytes = SHARD_HEAD_BYTES + (int64_t)r.count * SHARD_RECTANGLE_BYTES, at = head_bytes;
  for (int32_t i = 0; i < r.count; i++) {
    r.at[i].at_byte = at;
    at += r.at[i].rows * r.at[i].cols * (int64_t)sizeof(float);
  }
  uint8_t *head = mal_alloc(a, (size_t)head_bytes);
  mal_shard_encode(&r, at + SHARD_TAIL_BYTES, head);
  const char *path = mal_print(a, "%s/rank-%05d.shard", part_of(a, folder, step), s->rank);
  output o = {.files = f, .hash = XXH3_createState()};
  int why = o.hash ? f->open(f, path, true, &o.file) : ENOMEM;
  if (!why) why = put_shard(&o, &r, head, head_bytes);
  if (o.file) {
    int closed = f->close(o.file);
    if (!why) why = closed;
  }
  XXH3_freeState(o.hash);
  return why ? mal_checkpoint_cannot(e, _("cannot be written"), path, why) : MAL_OK;
}

mal_status mal_checkpoint_shard(mal_files *f, const char *folder, int64_t step, const mal_rank_state *s, mal_error *e) {
  mal_arena a = {0};
  mal_status status = shard(f, &a, folder, step, s, e);
  mal_arena_free(&a);
  return status;
}

/* --- commit ------------------------------------------------------------------------------------------------------------------ */

static int read_tail(mal_files *f, const char *path, mal_checkpoint_file *shard) {
  mal_handle *file;
  int64_t got = 0;
  int why = f->open(f, path, false, &file);
  if (why) return why;
  why = f->size(file, &shard->bytes);
  if (!why && shard->bytes < SHARD_HEAD_BYTES + SHARD_TAIL_BYTES) why = EIO;
  if (!why) why = f->read(file, shard->bytes - SHARD_TAIL_BYTES, shard->hash, sizeof shard->hash, &got);
  f->close(file);
  return why;
}

static int write_synced(mal_files *f, const char *path, const char *text) {
  mal_handle *file;
  int why = f->open(f, path, true, &file);
  if (why) return why;
  why = f->write(file, 0, text, (int64_t)strlen(text));
  if (!why) why = f->sync(file);
  int closed = f->close(file);
  return why ? why : closed;
}

/* A name that is free: step-N, or step-N.1, ... where a step was reached before. */
static const char *free_name(mal_arena *a, const char *folder, int64_t step, const char **names, int n) {
  for (int version = 0;; version++) {
    const char *name =
        version ? mal_print(a, "step-%08" PRId64 ".%d", step, version) : mal_print(a, "step-%08" PRId64, step);
    int i = 0;
    while (i < n && strcmp(names[i], name) != 0) i++;
    if (i == n) return mal_print(a, "%s/%s", folder, name);
  }
}

/* Those beyond the newest `keep`: the manifest first, so that half of one is never taken for whole. Failing to is no failure. */
static void remove_older(mal_files *f, mal_arena *a, const char *folder, int keep) {
  const char **paths;
  int n;
  if (mal_checkpoint_list(a, f, folder, &paths, &n)) return;
  for (int i = keep; i < n; i++) {
    f->remove(f, mal_print(a, "%s/manifest.json", paths[i]));
    remove_folder(f, a, paths[i]);
  }
}

static mal_status commit(mal_files *f, mal_arena *a, const char *folder, const mal_checkpoint *c, const mal_tensors *t,
                         int keep, mal_error *e) {
  const char *part = part_of(a, folder, c->step), **names;
  mal_checkpoint_file *shards = MAL_ARRAY(a, mal_checkpoint_file, c->ranks);
  for (int32_t i = 0; i < c->ranks; i++) {
    shards[i].name = mal_print(a, "rank-%05d.shard", i);
    const char *path = mal_print(a, "%s/%s", part, shards[i].name);
    int why = read_tail(f, path, &shards[i]);
    if (why) return mal_checkpoint_cannot(e, _("cannot be read back"), path, why);
  }
  const char *manifest = mal_print(a, "%s/manifest.json", part);
  int n, why = write_synced(f, manifest, mal_manifest_text(a, c, t, shards));
  if (why) return mal_checkpoint_cannot(e, _("cannot be written"), manifest, why);
  why = f->sync_folder(f, part);
  if (!why) why = f->list(f, a, folder, &names, &n);
  if (!why) why = f->rename(f, part, free_name(a, folder, c->step, names, n));
  if (!why) why = f->sync_folder(f, folder);
  if (why) return mal_checkpoint_cannot(e, _("cannot be completed"), part, why);
  remove_older(f, a, folder, keep);
  return MAL_OK;
}

mal_status mal_checkpoint_commit(mal_files *f, const char *folder, const mal_checkpoint *c, const mal_tensors *t,
                                 int keep, mal_error *e) {
  mal_arena a = {0};
  mal_status status = commit(f, &a, folder, c, t, keep, e);
  mal_arena_free(&a);
  return status;
}
