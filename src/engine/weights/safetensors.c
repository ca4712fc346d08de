#include "engine/weights/safetensors.h"
#include "core/json.h"
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  int bits, type;
} dtypes[] = {
    {"F64", 64, -1},    {"F32", 32, MAL_F32}, {"F16", 16, MAL_F16}, {"BF16", 16, MAL_BF16}, {"I64", 64, -1},
    {"I32", 32, -1},    {"I16", 16, -1},      {"I8", 8, -1},        {"U64", 64, -1},        {"U32", 32, -1},
    {"U16", 16, -1},    {"U8", 8, -1},        {"BOOL", 8, -1},      {"F8_E4M3", 8, -1},     {"F8_E5M2", 8, -1},
    {"F8_E8M0", 8, -1}, {"C64", 64, -1},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *mal_safetensors_dtype(mal_dtype type) {
  for (int i = 0; i < DTYPES; i++)
    if (dtypes[i].type == (int)type) return dtypes[i].name;
  return NULL;
}

/* --- reading ----------------------------------------------------------------------------------------------------------------- */

static mal_status bad(const mal_stored *t, const mal_bytes *file, const char *what, mal_error *e) {
  return mal_fail(e, MAL_BAD,
                  _("%s: tensor %.200s: %s The file is damaged or was not written as safetensors: fetch it again, or "
                    "write it again with save_pretrained."),
                  file->path, t->name, what);
}

static mal_status read_dtype(const json_t *entry, const mal_bytes *file, mal_stored *t, int *bits, mal_error *e) {
  const char *name = json_string_value(json_object_get(entry, "dtype"));
  if (!name) return bad(t, file, _("has no dtype."), e);
  for (int i = 0; i < DTYPES; i++)
    if (!strcmp(dtypes[i].name, name)) {
      t->dtype = dtypes[i].name;
      t->type = dtypes[i].type;
      *bits = dtypes[i].bits;
      return MAL_OK;
    }
  return mal_fail(e, MAL_BAD, _("%s: tensor %.200s: unknown dtype \"%.40s\". Convert it to F32, F16 or BF16."),
                  file->path, t->name, name);
}

static mal_status read_shape(const json_t *entry, const mal_bytes *file, mal_stored *t, int64_t *n, mal_error *e) {
  const json_t *shape = json_object_get(entry, "shape");
  *n = 1;
  if (!json_is_array(shape) || json_array_size(shape) > MAL_STORED_DIMS)
    return bad(t, file, _("has no shape, or one of more than 8 dimensions."), e);
  t->rank = (int)json_array_size(shape);
  for (int i = 0; i < t->rank; i++) {
    const json_t *one = json_array_get(shape, (size_t)i);
    t->shape[i] = json_is_integer(one) ? json_integer_value(one) : -1;
    if (t->shape[i] < 0 || __builtin_mul_overflow(*n, t->shape[i], n))
      return bad(t, file, _("its shape is no list of sizes, or too large."), e);
  }
  return MAL_OK;
}

static mal_status read_entry(const json_t *entry, const mal_bytes *file, int64_t data, mal_stored *t, mal_error *e) {
  int bits = 0;
  int64_t n = 0, size;
  if (!json_is_object(entry)) return bad(t, file, _("is described by no object."), e);
  mal_status status = read_dtype(entry, file, t, &bits, e);
  if (!status) status = read_shape(entry, file, t, &n, e);
  if (status) return status;
  const json_t *offsets = json_object_get(entry, "data_offsets");
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
    return bad(t, file, _("data_offsets is no pair of byte numbers."), e);
  int64_t from = json_integer_value(first), to = json_integer_value(last);
  if (from < 0 || to < from || to > file->bytes - data)
    return bad(t, file, _("its bytes do not lie in the file, which may have been cut short."), e);
  if (__builtin_mul_overflow(n, bits / 8, &size) || size != to - from)
    return bad(t, file, _("dtype and shape do not make as many bytes as data_offsets give it."), e);
  t->first_byte = data + from;
  t->bytes = size;
  return MAL_OK;
}

static int by_place(const void *a, const void *b) {
  const mal_stored *x = a, *y = b;
  if (x->first_byte != y->first_byte) return x->first_byte < y->first_byte ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* In the order of their bytes: each begins where the one before ends, the last ends with the file. */
static mal_status check_places(const mal_bytes *file, int64_t data, mal_stored_list *list, mal_error *e) {
  qsort(list->at, (size_t)list->count, sizeof *list->at, by_place);
  int64_t end = data;
  for (int32_t i = 0; i < list->count; i++) {
    const mal_stored *t = &list->at[i];
    if (t->first_byte < end) return bad(t, file, _("it shares bytes with the tensor before it."), e);
    if (t->first_byte > end) return bad(t, file, _("between it and what is before lie bytes of no tensor."), e);
    end = t->first_byte + t->bytes;
  }
  if (end == file->bytes) return MAL_OK;
  return mal_fail(e, MAL_BAD,
                  _("%s: byte %lld: %lld bytes after the last tensor belong to none. The file is damaged: fetch it "
                    "again, or write it again with save_pretrained."),
                  file->path, (long long)end, (long long)(file->bytes - end));
}

static mal_status read_entries(mal_arena *a, const mal_json *j, const mal_bytes *file, int64_t data,
                               mal_stored_list *list, mal_error *e) {
  const char *name;
  json_t *entry;
  mal_status status = MAL_OK;
  list->at = MAL_ARRAY(a, mal_stored, json_object_size(j->root) + 1);
  json_object_foreach(j->root, name, entry) {
    if (!strcmp(name, "__metadata__")) continue;
    mal_stored *t = &list->at[list->count++];
    t->name = mal_copy(a, name);
    status = read_entry(entry, file, data, t, e);
    if (status) return status;
  }
  return check_places(file, data, list, e);
}

mal_status mal_safetensors_header(mal_arena *a, const mal_bytes *file, mal_stored_list *list, mal_error *e) {
  uint64_t head = 0;
  mal_json j;
  *list = (mal_stored_list){0};
  if (file->bytes < 8)
    return mal_fail(e, MAL_BAD, _("%s: %lld bytes are no safetensors file. Fetch it again."), file->path,
                    (long long)file->bytes);
  mal_status status = file->read(file, 0, &head, sizeof head, e);
  if (status) return status;
  if (head > (uint64_t)(file->bytes - 8))
    return mal_fail(e, MAL_BAD,
                    _("%s: byte 0: the header should have %llu bytes and the file has %lld. It was cut short, or is no "
                      "safetensors file (a pointer of Git LFS, or pickled weights, perhaps): fetch it again."),
                    file->path, (unsigned long long)head, (long long)file->bytes);
  if (head > MAL_SAFETENSORS_HEAD_LIMIT)
    return mal_fail(e, MAL_BAD, _("%s: byte 0: a header of %llu bytes; at most %d are read. Split the file."),
                    file->path, (unsigned long long)head, MAL_SAFETENSORS_HEAD_LIMIT);
  char *text = mal_alloc(a, (size_t)head + 1);
  status = file->read(file, 8, text, (int64_t)head, e);
  if (!status) status = mal_json_parse(a, file->path, text, (size_t)head, &j, e);
  if (status) return status;
  status = json_is_object(j.root)
               ? read_entries(a, &j, file, 8 + (int64_t)head, list, e)
               : mal_fail(e, MAL_BAD, _("%s: the header is no JSON object. Fetch the file again."), file->path);
  mal_json_free(&j);
  return status;
}

/* --- writing ----------------------------------------------------------------------------------------------------------------- */

char *mal_safetensors_compose(mal_arena *a, mal_stored *tensors, int32_t count, int64_t *bytes) {
  json_t *root = json_object();
  int64_t at = 0;
  json_object_set_new(root, "__metadata__", json_pack("{s:s}", "format", "pt")); /* transformers asks for it */
  for (int32_t i = 0; i < count; i++) {
    json_t *shape = json_array();
    for (int k = 0; k < tensors[i].rank; k++) json_array_append_new(shape, json_integer(tensors[i].shape[k]));
    json_object_set_new(root, tensors[i].name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensors[i].dtype, "shape", shape, "data_offsets",
                                  (json_int_t)at, (json_int_t)(at + tensors[i].bytes)));
    tensors[i].first_byte = at;
    at += tensors[i].bytes;
  }
  char *text = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  uint64_t length = text ? strlen(text) : 0, filled = (length + 7) / 8 * 8;
  char *head = mal_alloc(a, (size_t)filled + 8);
  memset(head, ' ', (size_t)filled + 8);
  memcpy(head, &filled, sizeof filled);
  if (text) memcpy(head + 8, text, (size_t)length);
  free(text);
  *bytes = (int64_t)filled + 8;
  for (int32_t i = 0; i < count; i++) tensors[i].first_byte += *bytes;
  return head;
}

/* --- numbers ------------------------------------------------------------------------------------------------------------------ */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are stored as they lie in memory");

static uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static float of_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction. */
static float from_half(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 1023;
  if (exponent == 31) return of_bits(sign | 0x7F800000 | fraction << 13);
  if (exponent) return of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  float tiny = (float)fraction * 0x1p-24f;
  return sign ? -tiny : tiny;
}

static uint16_t to_half(float x) {
  uint32_t u = bits_of(x), sign = (u >> 16) & 0x8000, size = u & 0x7FFFFFFF;
  if (size > 0x7F800000) return (uint16_t)(sign | 0x7E00 | ((size >> 13) & 0x3FF));
  if (size >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* 65520 and above round to infinity */
  if (size < 0x38800000) { /* below 2^-14: a multiple of 2^-24, rounded by adding 0.5 as fp32 does */
    float shifted = of_bits(size) + 0.5f;
    return (uint16_t)(sign | (bits_of(shifted) - bits_of(0.5f)));
  }
  uint32_t rounded = size - 0x38000000 + 0xFFF + ((size >> 13) & 1);
  return (uint16_t)(sign | rounded >> 13);
}

static uint16_t to_bf16(float x) {
  uint32_t u = bits_of(x);
  if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
}

void mal_numbers_widen(mal_dtype type, const void *stored, float *to, int64_t n) {
  const uint16_t *from = stored;
  if (type == MAL_F32)
    memmove(to, stored, (size_t)n * sizeof *to);
  else if (type == MAL_BF16)
    for (int64_t i = 0; i < n; i++) to[i] = of_bits((uint32_t)from[i] << 16);
  else
    for (int64_t i = 0; i < n; i++) to[i] = from_half(from[i]);
}

void mal_numbers_narrow(mal_dtype type, const float *from, void *stored, int64_t n) {
  uint16_t *to = stored;
  if (type == MAL_F32)
    memmove(stored, from, (size_t)n * sizeof *from);
  else if (type == MAL_BF16)
    for (int64_t i = 0; i < n; i++) to[i] = to_bf16(from[i]);
  else
    for (int64_t i = 0; i < n; i++) to[i] = to_half(from[i]);
}
