#include "core/json.h"
#include "engine/checkpoint/shard.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* --- which there are ------------------------------------------------------------------------------------------------------- */

typedef struct named {
  int64_t step;
  int version;
  const char *path;
} named;

static int newest_first(const void *a, const void *b) {
  const named *x = a, *y = b;
  if (x->step != y->step) return x->step < y->step ? 1 : -1;
  return (x->version < y->version) - (x->version > y->version);
}

static bool is_checkpoint(const char *name, named *x) {
  char *end;
  if (strncmp(name, "step-", 5) != 0 || strspn(name + 5, "0123456789") < 8) return false;
  errno = 0;
  x->step = strtoll(name + 5, &end, 10);
  x->version = 0;
  if (*end == '.' && end[1] >= '1' && end[1] <= '9') x->version = (int)strtol(end + 1, &end, 10);
  return !*end && !errno;
}

int mal_checkpoint_list(mal_arena *a, mal_files *f, const char *folder, const char ***paths, int *n) {
  const char **names;
  int all, why = f->list(f, a, folder, &names, &all);
  *n = 0;
  *paths = NULL;
  if (why) return why;
  named *x = MAL_ARRAY(a, named, all + 1);
  for (int i = 0; i < all; i++)
    if (is_checkpoint(names[i], &x[*n])) x[(*n)++].path = mal_print(a, "%s/%s", folder, names[i]);
  qsort(x, (size_t)*n, sizeof *x, newest_first);
  *paths = MAL_ARRAY(a, const char *, *n + 1);
  for (int i = 0; i < *n; i++) (*paths)[i] = x[i].path;
  return 0;
}

/* --- whether one is whole ---------------------------------------------------------------------------------------------------- */

static mal_status read_whole(mal_arena *a, mal_files *f, const char *path, char **text, int64_t *bytes, mal_error *e) {
  mal_handle *file;
  int64_t got = 0;
  int why = f->open(f, path, false, &file);
  if (why) return mal_fail(e, MAL_BAD, _("%s: cannot be opened: %s."), path, strerror(why));
  why = f->size(file, bytes);
  if (!why && *bytes > MAL_JSON_LIMIT_BYTES) why = EFBIG;
  if (!why) {
    *text = mal_alloc(a, (size_t)*bytes + 1);
    why = f->read(file, 0, *text, *bytes, &got);
  }
  f->close(file);
  if (!why && got != *bytes) why = EIO;
  return why ? mal_fail(e, MAL_BAD, _("%s: cannot be read: %s."), path, strerror(why)) : MAL_OK;
}

static int hash_file(mal_files *f, mal_handle *file, int64_t bytes, uint64_t hash[2]) {
  XXH3_state_t *state = XXH3_createState();
  char *buffer = malloc(bytes < SHARD_BUFFER_BYTES ? (size_t)bytes : SHARD_BUFFER_BYTES);
  int why = state && buffer ? 0 : ENOMEM;
  if (!why) XXH3_128bits_reset(state);
  for (int64_t at = 0, got; at < bytes && !why; at += got) {
    int64_t some = bytes - at < SHARD_BUFFER_BYTES ? bytes - at : SHARD_BUFFER_BYTES;
    why = f->read(file, at, buffer, some, &got);
    if (!why && got != some) why = EIO;
    if (!why) XXH3_128bits_update(state, buffer, (size_t)got);
  }
  if (!why) {
    XXH128_hash_t h = XXH3_128bits_digest(state);
    hash[0] = h.high64;
    hash[1] = h.low64;
  }
  free(buffer);
  XXH3_freeState(state);
  return why;
}

static mal_status check_shard(mal_arena *a, const mal_checkpoint_found *found, const mal_checkpoint_file *shard,
                              mal_error *e) {
  mal_files *f = found->files;
  mal_handle *file;
  int64_t bytes = 0, got;
  uint64_t hash[2] = {0}, tail[2] = {0};
  const char *path = mal_print(a, "%s/%s", found->path, shard->name);
  int why = f->open(f, path, false, &file);
  if (why) return mal_fail(e, MAL_BAD, _("%s: cannot be opened: %s."), path, strerror(why));
  why = f->size(file, &bytes);
  bool sized = bytes == shard->bytes && bytes >= SHARD_HEAD_BYTES + SHARD_TAIL_BYTES;
  if (!why && sized) why = hash_file(f, file, bytes - SHARD_TAIL_BYTES, hash);
  if (!why && sized) why = f->read(file, bytes - SHARD_TAIL_BYTES, tail, sizeof tail, &got);
  f->close(file);
  if (why) return mal_fail(e, MAL_BAD, _("%s: cannot be read: %s."), path, strerror(why));
  if (!sized)
    return mal_fail(e, MAL_BAD, _("%s: has %lld bytes, and the manifest says %lld."), path, (long long)bytes,
                    (long long)shard->bytes);
  if (memcmp(hash, shard->hash, sizeof hash) != 0 || memcmp(tail, hash, sizeof hash) != 0)
    return mal_fail(e, MAL_BAD, _("%s: hash check failed."), path);
  return MAL_OK;
}

static mal_status check(mal_arena *a, mal_checkpoint_found *found, mal_error *e) {
  char *text = NULL;
  int64_t bytes = 0;
  const char *path = mal_print(a, "%s/manifest.json", found->path);
  mal_status status = read_whole(a, found->files, path, &text, &bytes, e);
  if (!status) status = mal_manifest_parse(a, path, text, (size_t)bytes, found, e);
  for (int32_t i = 0; !status && i < found->says.ranks; i++) status = check_shard(a, found, &found->shards[i], e);
  return status;
}

mal_status mal_checkpoint_find(mal_arena *a, mal_files *f, const char *folder, mal_checkpoint_found *found,
                               mal_error *e) {
  const char **paths;
  int n, why = mal_checkpoint_list(a, f, folder, &paths, &n);
  mal_writing wrong = {.arena = a};
  *found = (mal_checkpoint_found){0};
  if (why && why != ENOENT) return mal_fail(e, MAL_BAD, _("%s: cannot be read: %s."), folder, strerror(why));
  for (int i = 0; i < n; i++) {
    mal_error one;
    *found = (mal_checkpoint_found){.files = f, .path = paths[i]};
    if (check(a, found, &one) == MAL_OK) {
      found->passed_over = wrong.text;
      return MAL_OK;
    }
    mal_write(&wrong, "%s%s", wrong.text ? " " : "", one.text);
  }
  if (n) return mal_fail(e, MAL_NO, _("%s: none of its %d checkpoints is whole. %s"), folder, n, wrong.text);
  return mal_fail(e, MAL_NO, _("%s: there is no checkpoint."), folder);
}

/* --- loading ------------------------------------------------------------------------------------------------------------------- */

typedef struct source { /* a shard that is open */
  mal_handle *file;
  const char *path;
  rectangles has;
} source;

typedef struct loading {
  const mal_checkpoint_found *found;
  const mal_tensors *tensors;
  rectangles wants;
  int64_t *missing;           /* of each want: numbers not yet found */
  int32_t *first, *by_tensor; /* wants of tensor t and kind k: by_tensor[first[3 t + k] .. first[3 t + k + 1]) */
  int32_t *theirs;            /* of a tensor in the checkpoint, its number here; -1 none */
  float *buffer;
  int64_t buffer_bytes; /* as large as the largest shard, or SHARD_BUFFER_BYTES: touching fresh memory is dear */
} loading;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Copies what two rectangles of one tensor share: whole rows of the shard at once, as many as the buffer holds. */
static int copy_shared(loading *l, source *s, const rectangle *from, rectangle *to, int64_t *copied) {
  mal_files *f = l->found->files;
  int64_t row = most(from->row, to->row), rows = least(from->row + from->rows, to->row + to->rows) - row;
  int64_t col = most(from->col, to->col), cols = least(from->col + from->cols, to->col + to->cols) - col;
  *copied = 0;
  if (rows <= 0 || cols <= 0) return 0;
  bool whole = from->cols * (int64_t)sizeof(float) <= l->buffer_bytes;
  int64_t width = whole ? from->cols : least(cols, l->buffer_bytes / (int64_t)sizeof(float));
  int64_t batch = whole ? l->buffer_bytes / ((int64_t)sizeof(float) * width) : 1;
  for (int64_t r = 0; r < rows; r += batch)
    for (int64_t c = 0; c < cols; c += whole ? cols : width) {
      int64_t n = least(batch, rows - r), some = whole ? cols : least(width, cols - c), got;
      int64_t first = (row + r - from->row) * from->cols + (whole ? 0 : col + c - from->col);
      int64_t bytes = (whole ? n * width : some) * (int64_t)sizeof(float);
      int why = f->read(s->file, from->at_byte + first * (int64_t)sizeof(float), l->buffer, bytes, &got);
      if (why || got != bytes) return why ? why : EIO;
      const float *begin = l->buffer + (whole ? col - from->col : 0);
      for (int64_t k = 0; k < n; k++)
        memcpy(to->numbers + (row + r + k - to->row) * to->cols + col + c - to->col, begin + k * width,
               (size_t)some * sizeof(float));
    }
  *copied = rows * cols;
  return 0;
}

static mal_status take_from(loading *l, source *s, mal_error *e) {
  for (int32_t i = 0; i < s->has.count; i++) {
    rectangle *x = &s->has.at[i];
    int32_t here = l->theirs[x->tensor];
    if (here < 0) continue;
    int32_t key = here * SHARD_KINDS + x->kind;
    for (int32_t k = l->first[key]; k < l->first[key + 1]; k++) {
      int32_t want = l->by_tensor[k];
      int64_t copied;
      int why = copy_shared(l, s, x, &l->wants.at[want], &copied);
      if (why) return mal_fail(e, MAL_FAULT, _("%s: cannot be read: %s."), s->path, strerror(why));
      l->missing[want] -= copied;
    }
  }
  return MAL_OK;
}

static mal_status read_shard(mal_arena *a, loading *l, const mal_checkpoint_file *shard, mal_error *e) {
  mal_files *f = l->found->files;
  uint8_t first[SHARD_HEAD_BYTES], *head = NULL;
  source s = {.path = mal_print(a, "%s/%s", l->found->path, shard->name)};
  int64_t got, bytes = -1;
  int why = f->open(f, s.path, false, &s.file);
  if (why) return mal_fail(e, MAL_FAULT, _("%s: cannot be opened: %s."), s.path, strerror(why));
  why = f->read(s.file, 0, first, sizeof first, &got);
  if (!why && got == sizeof first) bytes = mal_shard_head_bytes(first, shard->bytes);
  if (!why && bytes >= 0) {
    head = mal_alloc(a, (size_t)bytes);
    why = f->read(s.file, 0, head, bytes, &got);
    if (!why && got != bytes) bytes = -1;
  }
  mal_status status = why ? mal_fail(e, MAL_FAULT, _("%s: cannot be read: %s."), s.path, strerror(why)) : MAL_OK;
  if (!status)
    status = mal_shard_decode(a, s.path, bytes < 0 ? first : head, bytes, shard->bytes, &l->found->tensors, &s.has, e);
  if (!status) status = take_from(l, &s, e);
  f->close(s.file);
  return status;
}

/* Counting sort of the wants by tensor and kind. */
static void index_wants(mal_arena *a, loading *l) {
  int32_t keys = l->tensors->count * SHARD_KINDS;
  l->first = MAL_ARRAY(a, int32_t, keys + 2);
  l->by_tensor = MAL_ARRAY(a, int32_t, l->wants.count + 1);
  l->missing = MAL_ARRAY(a, int64_t, l->wants.count + 1);
  for (int32_t i = 0; i < l->wants.count; i++) {
    const rectangle *x = &l->wants.at[i];
    l->missing[i] = x->rows * x->cols;
    l->first[x->tensor * SHARD_KINDS + x->kind + 2]++;
  }
  for (int32_t k = 2; k <= keys; k++) l->first[k] += l->first[k - 1];
  for (int32_t i = 0; i < l->wants.count; i++)
    l->by_tensor[l->first[l->wants.at[i].tensor * SHARD_KINDS + l->wants.at[i].kind + 1]++] = i;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const mal_tensor *const *)a)->name, (*(const mal_tensor *const *)b)->name);
}

static mal_status match_tensors(mal_arena *a, loading *l, mal_error *e) {
  const mal_tensors *theirs = &l->found->tensors, *ours = l->tensors;
  const mal_tensor **sorted = MAL_ARRAY(a, const mal_tensor *, ours->count + 1);
  for (int32_t i = 0; i < ours->count; i++) sorted[i] = &ours->at[i];
  qsort(sorted, (size_t)ours->count, sizeof *sorted, by_name);
  l->theirs = MAL_ARRAY(a, int32_t, theirs->count + 1);
  for (int32_t i = 0; i < theirs->count; i++) {
    const mal_tensor *x = &theirs->at[i];
    const mal_tensor **hit = bsearch(&x, sorted, (size_t)ours->count, sizeof *sorted, by_name);
    l->theirs[i] = hit ? (int32_t)(*hit - ours->at) : -1;
    if (hit && ((*hit)->rows != x->rows || (*hit)->cols != x->cols))
      return mal_fail(
          e, MAL_BAD,
          _("%s: %s is %lld × %lld, and the model's is %lld × %lld. It was written for another model (%s)."),
          l->found->path, x->name, (long long)x->rows, (long long)x->cols, (long long)(*hit)->rows,
          (long long)(*hit)->cols, l->found->says.model);
  }
  return MAL_OK;
}

static mal_status check_all_found(const loading *l, mal_error *e) {
  static const char *const kinds[SHARD_KINDS] = {N_("weights"), N_("first moment"), N_("second moment")};
  for (int32_t i = 0; i < l->wants.count; i++) {
    const rectangle *x = &l->wants.at[i];
    if (!l->missing[i]) continue;
    return mal_fail(
        e, MAL_BAD,
        _("%s: %s: %lld of %lld numbers of rows %lld to %lld (%s) are not in it. It was written for another "
          "model (%s) or optimizer."),
        l->found->path, l->tensors->at[x->tensor].name, (long long)l->missing[i], (long long)(x->rows * x->cols),
        (long long)x->row, (long long)(x->row + x->rows - 1), _(kinds[x->kind]), l->found->says.model);
  }
  return MAL_OK;
}

mal_status mal_checkpoint_load(const mal_checkpoint_found *found, const mal_tensors *t, const mal_rank_state *s,
                               mal_error *e) {
  mal_arena a = {0};
  loading l = {.found = found, .tensors = t};
  for (int32_t i = 0; i < found->says.ranks; i++) l.buffer_bytes = most(l.buffer_bytes, found->shards[i].bytes);
  l.buffer_bytes = least(l.buffer_bytes, SHARD_BUFFER_BYTES);
  l.buffer = mal_alloc(&a, (size_t)l.buffer_bytes);
  mal_rectangles_of(&a, s, false, &l.wants);
  index_wants(&a, &l);
  mal_status status = match_tensors(&a, &l, e);
  for (int32_t i = 0; !status && i < found->says.ranks; i++) status = read_shard(&a, &l, &found->shards[i], e);
  if (!status) status = check_all_found(&l, e);
  mal_arena_free(&a);
  return status;
}
