#include "core/json.h"
#include "engine/checkpoint/shard.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MANIFEST_VERSION = 1, MOST_RANKS = 1 << 20, HASH_LETTERS = 32 };
static const int64_t most_tensor = INT64_C(1)
                                   << 46; /* rows or columns: products of two stay far from 2^63 with the next */

static void spell(const uint64_t hash[2], char out[HASH_LETTERS + 1]) {
  snprintf(out, HASH_LETTERS + 1, "%016" PRIx64 "%016" PRIx64, hash[0], hash[1]);
}

/* Of everything but itself, keys in order: so that no number of the manifest changes unnoticed. */
static void hash_of(json_t *root, char out[HASH_LETTERS + 1]) {
  json_object_del(root, "hash");
  char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
  XXH128_hash_t h = XXH3_128bits(text ? text : "", text ? strlen(text) : 0);
  free(text);
  spell((const uint64_t[2]){h.high64, h.low64}, out);
}

char *mal_manifest_text(mal_arena *a, const mal_checkpoint *c, const mal_tensors *t,
                        const mal_checkpoint_file *shards) {
  json_t *tensors = json_array(), *files = json_array();
  char hash[HASH_LETTERS + 1];
  for (int32_t i = 0; i < t->count; i++)
    json_array_append_new(tensors, json_pack("{s:s, s:I, s:I}", "name", t->at[i].name, "rows",
                                             (json_int_t)t->at[i].rows, "cols", (json_int_t)t->at[i].cols));
  for (int32_t i = 0; i < c->ranks; i++) {
    spell(shards[i].hash, hash);
    json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "file", shards[i].name, "bytes",
                                           (json_int_t)shards[i].bytes, "xxh3_128", hash));
  }
  char seed[24];
  snprintf(seed, sizeof seed, "%" PRIu64, c->seed); /* JSON's whole numbers end at 2^63 */
  json_t *root =
      json_pack("{s:i, s:I, s:I, s:s, s:I, s:s, s:s, s:o, s:o}", "version", MANIFEST_VERSION, "step",
                (json_int_t)c->step, "sequences", (json_int_t)c->sequences, "seed", seed, "warmup",
                (json_int_t)c->warmup, "model", c->model, "layout", c->layout, "shards", files, "tensors", tensors);
  hash_of(root, hash);
  json_object_set_new(root, "hash", json_string(hash));
  char *text = mal_json_dump(a, root);
  json_decref(root);
  return text;
}

static bool read_hash(const char *text, uint64_t hash[2]) {
  if (strlen(text) != HASH_LETTERS || strspn(text, "0123456789abcdef") != HASH_LETTERS) return false;
  char half[17] = {0};
  memcpy(half, text, 16);
  hash[0] = strtoull(half, NULL, 16);
  hash[1] = strtoull(text + 16, NULL, 16);
  return true;
}

static mal_status read_tensors(mal_arena *a, const mal_json *j, mal_tensors *t, mal_error *e) {
  const json_t *list = json_object_get(j->root, "tensors");
  if (!json_is_array(list)) return mal_fail(e, MAL_BAD, _("%s: tensors is no list."), j->path);
  t->count = (int32_t)json_array_size(list);
  t->at = MAL_ARRAY(a, mal_tensor, t->count ? t->count : 1);
  mal_status status = MAL_OK;
  for (int32_t i = 0; i < t->count && !status; i++) {
    const json_t *one = json_array_get(list, (size_t)i);
    mal_tensor *x = &t->at[i];
    if (!json_is_object(one)) return mal_fail(e, MAL_BAD, _("%s: tensor %d is no object."), j->path, i);
    status = mal_json_text(j, one, a, "name", &x->name, NULL, e);
    if (!status) status = mal_json_int(j, one, "rows", 1, most_tensor, &x->rows, NULL, e);
    if (!status) status = mal_json_int(j, one, "cols", 1, most_tensor, &x->cols, NULL, e);
  }
  return status;
}

static mal_status read_shards(mal_arena *a, const mal_json *j, mal_checkpoint_found *found, mal_error *e) {
  const json_t *list = json_object_get(j->root, "shards");
  size_t n = json_array_size(list);
  if (n < 1 || n > MOST_RANKS) return mal_fail(e, MAL_BAD, _("%s: shards is no list of 1 to %d."), j->path, MOST_RANKS);
  found->says.ranks = (int32_t)n;
  found->shards = MAL_ARRAY(a, mal_checkpoint_file, n);
  mal_status status = MAL_OK;
  for (size_t i = 0; i < n && !status; i++) {
    const json_t *one = json_array_get(list, i);
    mal_checkpoint_file *x = &found->shards[i];
    const char *hash = NULL;
    if (!json_is_object(one)) return mal_fail(e, MAL_BAD, _("%s: shard %zu is no object."), j->path, i);
    status = mal_json_text(j, one, a, "file", &x->name, NULL, e);
    if (!status) status = mal_json_int(j, one, "bytes", 0, INT64_MAX, &x->bytes, NULL, e);
    if (!status) status = mal_json_text(j, one, a, "xxh3_128", &hash, NULL, e);
    if (status) return status;
    if (!*x->name || strchr(x->name, '/') || !read_hash(hash, x->hash))
      return mal_fail(e, MAL_BAD, _("%s: shard %zu: file or xxh3_128 is not what a manifest has."), j->path, i);
  }
  return status;
}

static mal_status read_manifest(mal_arena *a, mal_json *j, mal_checkpoint_found *found, mal_error *e) {
  int64_t version;
  const char *seed = NULL, *hash = NULL;
  char computed[HASH_LETTERS + 1];
  bool given;
  mal_status status = mal_json_int(j, j->root, "version", MANIFEST_VERSION, MANIFEST_VERSION, &version, NULL, e);
  if (!status) status = mal_json_text(j, j->root, a, "hash", &hash, NULL, e);
  if (status) return status;
  hash_of(j->root, computed);
  if (strcmp(hash, computed) != 0) return mal_fail(e, MAL_BAD, _("%s: hash check failed."), j->path);
  status = mal_json_int(j, j->root, "step", 0, INT64_MAX, &found->says.step, NULL, e);
  if (!status) status = mal_json_int(j, j->root, "sequences", 0, INT64_MAX, &found->says.sequences, NULL, e);
  if (!status) status = mal_json_text(j, j->root, a, "seed", &seed, NULL, e);
  found->says.warmup = -1;
  if (!status) status = mal_json_int(j, j->root, "warmup", 0, INT64_MAX, &found->says.warmup, &given, e);
  if (!status) status = mal_json_text(j, j->root, a, "model", &found->says.model, NULL, e);
  if (!status) status = mal_json_text(j, j->root, a, "layout", &found->says.layout, NULL, e);
  if (!status) status = read_tensors(a, j, &found->tensors, e);
  if (!status) status = read_shards(a, j, found, e);
  if (!status) found->says.seed = strtoull(seed, NULL, 10);
  return status;
}

mal_status mal_manifest_parse(mal_arena *a, const char *path, const char *text, size_t length,
                              mal_checkpoint_found *found, mal_error *e) {
  mal_json j;
  mal_status status = mal_json_parse(a, path, text, length, &j, e);
  if (status) return status;
  status = json_is_object(j.root) ? read_manifest(a, &j, found, e)
                                  : mal_fail(e, MAL_BAD, _("%s: this is no manifest."), path);
  mal_json_free(&j);
  return status;
}
