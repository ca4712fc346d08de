/* Thin helpers over jansson: bounded reading, and messages that name file, line and key.
 * On the error path the key's line is found in the kept text. */
#ifndef MAL_CORE_JSON_H
#define MAL_CORE_JSON_H
#include "core/arena.h"
#include "core/status.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { MAL_JSON_LIMIT_BYTES = 64 << 20 };

typedef struct mal_json {
  const char *path; /* as given, for messages */
  const char *text;
  size_t length;
  json_t *root;
} mal_json;

/* Duplicate keys, depth over jansson's bound, not UTF-8, over the limit: MAL_BAD. Free with mal_json_free. */
mal_status mal_json_read(mal_arena *a, const char *path, mal_json *j, mal_error *e);
mal_status mal_json_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_json *j, mal_error *e);
void mal_json_free(mal_json *j);

/* Readers of one key of `object`. found may be NULL: then the key is required. JSON null counts as absent.
 * Wrong type or outside [lo, hi]: MAL_BAD "file:line: key ...". */
mal_status mal_json_int(const mal_json *j, const json_t *object, const char *key, int64_t lo, int64_t hi,
                        int64_t *value, bool *found, mal_error *e);
mal_status mal_json_real(const mal_json *j, const json_t *object, const char *key, double lo, double hi, double *value,
                         bool *found, mal_error *e);
mal_status mal_json_bool(const mal_json *j, const json_t *object, const char *key, bool *value, bool *found,
                         mal_error *e);
mal_status mal_json_text(const mal_json *j, const json_t *object, mal_arena *a, const char *key, const char **value,
                         bool *found, mal_error *e);
/* "file:line: " of a key, for messages worded elsewhere. */
const char *mal_json_where(const mal_json *j, mal_arena *a, const char *key);
/* Serialises with 2-space indent, sorted as inserted, %.17g reals shortened; arena-owned. */
char *mal_json_dump(mal_arena *a, const json_t *root);
#endif
