#include "core/file.h"
#include "core/units.h"
#include "engine/data/tokens.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 16, LLMC_HEADER_BYTES = 1024 };

struct mal_token_writer {
  mal_arena *arena;
  const char *path;
  mal_draft draft;
  mal_token_format format;
  int width_bytes;
  int64_t tokens, document; /* put so far; of the document under way */
  uint8_t *buffer;
  int used;
  int32_t *lengths; /* megatron: of its documents */
  size_t documents, room;
};

static void put_number(uint8_t *at, uint64_t x, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(x >> 8 * i);
}

static mal_status cannot(const mal_token_writer *w, int why, mal_error *e) {
  bool full = why == ENOSPC || why == EDQUOT;
  return mal_fail(e, full ? MAL_FAULT : MAL_BAD,
                  full ? _("%s: no space left after %lld tokens (%s); nothing was changed.")
                       : _("%s: cannot be written after %lld tokens: %s."),
                  w->path, (long long)w->tokens, strerror(why));
}

static mal_status flush(mal_token_writer *w, mal_error *e) {
  for (int done = 0; done < w->used;) {
    ssize_t put = write(w->draft.fd, w->buffer + done, (size_t)(w->used - done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return cannot(w, errno, e);
    done += (int)put;
  }
  w->used = 0;
  return MAL_OK;
}

mal_status mal_tokens_create(mal_arena *a, const char *path, mal_token_format format, int width_bytes,
                             mal_token_writer **writer, mal_error *e) {
  mal_token_writer *w = MAL_NEW(a, mal_token_writer);
  size_t n = strlen(path);
  bool ends = n > 4 && strcmp(path + n - 4, ".bin") == 0;
  *writer = NULL;
  *w = (mal_token_writer){.arena = a, .path = path, .format = format, .width_bytes = width_bytes};
  if (format == MAL_TOKENS_BYTES) w->width_bytes = 1;
  if (format == MAL_TOKENS_NANOGPT) w->width_bytes = 2;
  if (format != MAL_TOKENS_BYTES && !ends)
    return mal_fail(e, MAL_BAD, _("%s: files of token ids end in .bin, or they would be read as bytes."), path);
  mal_status status = mal_draft_open(a, path, false, &w->draft, e);
  if (status) return status;
  w->buffer = mal_alloc(a, BUFFER_BYTES);
  *writer = w;
  if (format == MAL_TOKENS_LLMC) w->used = LLMC_HEADER_BYTES; /* zeros for now */
  return MAL_OK;
}

mal_status mal_tokens_put(mal_token_writer *w, const int64_t *ids, int64_t n, mal_error *e) {
  uint64_t most =
      w->width_bytes == 4 && w->format == MAL_TOKENS_MEGATRON ? INT32_MAX : (UINT64_C(1) << 8 * w->width_bytes) - 1;
  for (int64_t i = 0; i < n; i++) {
    if ((uint64_t)ids[i] > most)
      return mal_fail(e, MAL_BAD, _("%s: token %lld has the id %lld, and %s of %d-bit ids holds 0 to %lld."), w->path,
                      (long long)w->tokens, (long long)ids[i], mal_token_format_name[w->format], 8 * w->width_bytes,
                      (long long)most);
    put_number(w->buffer + w->used, (uint64_t)ids[i], w->width_bytes);
    w->used += w->width_bytes;
    w->tokens++;
    w->document++;
    if (w->used + 8 > BUFFER_BYTES) {
      mal_status status = flush(w, e);
      if (status) return status;
    }
  }
  return MAL_OK;
}

mal_status mal_tokens_end_document(mal_token_writer *w, mal_error *e) {
  if (w->format != MAL_TOKENS_MEGATRON) return MAL_OK;
  if (w->document > INT32_MAX)
    return mal_fail(e, MAL_BAD, _("%s: a document of %lld tokens; an index holds at most %d. Cut the text."), w->path,
                    (long long)w->document, INT32_MAX);
  if (w->documents == w->room) {
    size_t room = w->room ? 2 * w->room : 64;
    w->lengths = mal_grow(w->arena, w->lengths, w->room, room, sizeof *w->lengths);
    w->room = room;
  }
  w->lengths[w->documents++] = (int32_t)w->document;
  w->document = 0;
  return MAL_OK;
}

static mal_status write_index(mal_token_writer *w, mal_error *e) {
  size_t n = w->documents, bytes = 34 + 12 * n + 8 * (n + 1);
  uint8_t *index = mal_alloc(w->arena, bytes), *pointers = index + 34 + 4 * n, *firsts = pointers + 8 * n;
  memcpy(index, "MMIDIDX\0\0", 9);
  put_number(index + 9, 1, 8);
  index[17] = w->width_bytes == 2 ? 8 : 4;
  put_number(index + 18, n, 8);
  put_number(index + 26, n + 1, 8);
  uint64_t at = 0;
  for (size_t i = 0; i < n; i++) {
    put_number(index + 34 + 4 * i, (uint64_t)w->lengths[i], 4);
    put_number(pointers + 8 * i, at, 8);
    put_number(firsts + 8 * i, i, 8);
    at += (uint64_t)w->lengths[i] * (uint64_t)w->width_bytes;
  }
  put_number(firsts + 8 * n, n, 8);
  return mal_file_write(mal_print(w->arena, "%.*s.idx", (int)strlen(w->path) - 4, w->path), (const char *)index, bytes,
                        e);
}

static mal_status write_llmc_header(mal_token_writer *w, mal_error *e) {
  uint8_t header[12];
  if (w->tokens > INT32_MAX)
    return mal_fail(e, MAL_BAD,
                    _("%s: %lld tokens; a file of llm.c holds at most %d. Write several, or another format."), w->path,
                    (long long)w->tokens, INT32_MAX);
  put_number(header, w->width_bytes == 2 ? 20240520 : 20240801, 4);
  put_number(header + 4, w->width_bytes == 2 ? 1 : 7, 4);
  put_number(header + 8, (uint64_t)w->tokens, 4);
  return pwrite(w->draft.fd, header, sizeof header, 0) == (ssize_t)sizeof header ? MAL_OK : cannot(w, errno, e);
}

mal_status mal_tokens_finish(mal_token_writer *w, bool keep, mal_error *e) {
  mal_status status = MAL_OK;
  if (!w) return MAL_OK;
  if (keep) {
    if (w->document) status = mal_tokens_end_document(w, e);
    if (!status) status = flush(w, e);
    if (!status && w->format == MAL_TOKENS_LLMC) status = write_llmc_header(w, e);
  }
  /* The index first: a .bin of an older index is refused by its size; one without an index would be read as another format. */
  if (keep && !status && w->format == MAL_TOKENS_MEGATRON) status = write_index(w, e);
  if (keep && !status) return mal_draft_keep(&w->draft, e);
  mal_draft_drop(&w->draft);
  return status;
}
