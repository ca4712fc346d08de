#include "engine/data/tokens.h"
#include "core/file.h"
#include "core/units.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const mal_token_format_name[MAL_TOKEN_FORMATS + 1] = {"bytes", "nanogpt", "llm.c", "megatron", NULL};

enum { LLMC_HEADER_BYTES = 1024 };

/* --- little-endian numbers --------------------------------------------------------------------------------------------- */

static uint64_t number(const uint8_t *at, int bytes) {
  uint64_t x = 0;
  for (int i = bytes - 1; i >= 0; i--) x = x << 8 | at[i];
  return x;
}

/* --- what others wrote --------------------------------------------------------------------------------------------------- */

static mal_status read_number(const mal_bytes *from, int64_t offset, int bytes, int64_t *x, mal_error *e) {
  uint8_t raw[8] = {0};
  if (offset > from->bytes - bytes)
    return mal_fail(e, MAL_BAD, _("%s: ends at byte %lld, inside its header. Was it cut?"), from->path,
                    (long long)from->bytes);
  mal_status status = from->read(from, offset, raw, bytes, e);
  *x = (int64_t)number(raw, bytes);
  return status;
}

static mal_status llmc_header(const mal_bytes *bin, mal_token_file *f, mal_error *e) {
  static const struct {
    int64_t magic, version;
    int width;
  } kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};
  int64_t magic = 0, version = 0, tokens = 0;
  mal_status status = read_number(bin, 0, 4, &magic, e);
  if (!status) status = read_number(bin, 4, 4, &version, e);
  if (!status) status = read_number(bin, 8, 4, &tokens, e);
  if (status) return status;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (kinds[i].magic != magic) continue;
    if (version != kinds[i].version)
      return mal_fail(e, MAL_BAD, _("%s: byte 4: version %lld of llm.c's token files; %lld can be read."), bin->path,
                      (long long)version, (long long)kinds[i].version);
    int64_t room = bin->bytes < LLMC_HEADER_BYTES ? -1 : (bin->bytes - LLMC_HEADER_BYTES) / kinds[i].width;
    if (tokens > room || (bin->bytes - LLMC_HEADER_BYTES) % kinds[i].width)
      return mal_fail(e, MAL_BAD,
                      _("%s: byte 8: says %lld tokens of %d bytes, and the file has %lld bytes. Was it cut?"),
                      bin->path, (long long)tokens, kinds[i].width, (long long)bin->bytes);
    f->format = MAL_TOKENS_LLMC;
    f->width_bytes = kinds[i].width;
    f->first_byte = LLMC_HEADER_BYTES;
    f->tokens = tokens;
    return MAL_OK;
  }
  return mal_fail(e, MAL_BAD, _("%s: byte 0: %lld does not begin a token file of llm.c (20240520 or 20240801)."),
                  bin->path, (long long)magic);
}

static bool begins_as_llmc(const mal_bytes *bin) {
  int64_t magic = 0;
  mal_error ignored;
  if (bin->bytes < LLMC_HEADER_BYTES || read_number(bin, 0, 4, &magic, &ignored)) return false;
  return magic == 20240520 || magic == 20240801;
}

static bool ends_with(const char *path, const char *end) {
  size_t n = strlen(path), m = strlen(end);
  return n > m && strcmp(path + n - m, end) == 0;
}

mal_status mal_tokens_header(const mal_bytes *bin, int format, mal_token_file *f, mal_error *e) {
  bool is_bin = ends_with(bin->path, ".bin");
  if (format == MAL_TOKENS_LLMC || (format == MAL_TOKENS_TELL && is_bin && begins_as_llmc(bin)))
    return llmc_header(bin, f, e);
  f->format = format == MAL_TOKENS_TELL ? (is_bin ? MAL_TOKENS_NANOGPT : MAL_TOKENS_BYTES) : format;
  f->width_bytes = f->format == MAL_TOKENS_BYTES ? 1 : 2;
  if (bin->bytes % f->width_bytes)
    return mal_fail(e, MAL_BAD,
                    _("%s: %lld bytes are no whole number of 16-bit tokens. If it is text, say that it is bytes."),
                    bin->path, (long long)bin->bytes);
  f->tokens = bin->bytes / f->width_bytes;
  return MAL_OK;
}

typedef struct index_type {
  int width;
  bool is_signed;
} index_type;
/* By the code of indexed_dataset.py's DType; 6 and 7 are floating-point numbers. */
static const index_type index_types[] = {{0, 0},    {1, false}, {1, true}, {2, true}, {4, true},
                                         {8, true}, {0, 0},     {0, 0},    {2, false}};

/* Lengths and pointers in step, a bufferful at a time. */
static mal_status check_sequences(const mal_bytes *index, int64_t sequences, int64_t bin_bytes, mal_token_file *f,
                                  mal_error *e) {
  enum { HEAD = 34, BATCH = 2048 };
  uint8_t lengths[4 * BATCH], pointers[8 * BATCH];
  int64_t at = 0;
  for (int64_t i = 0; i < sequences; i += BATCH) {
    int64_t n = sequences - i < BATCH ? sequences - i : BATCH;
    mal_status status = index->read(index, HEAD + 4 * i, lengths, 4 * n, e);
    if (!status) status = index->read(index, HEAD + 4 * sequences + 8 * i, pointers, 8 * n, e);
    if (status) return status;
    for (int64_t k = 0; k < n; k++) {
      int32_t length = (int32_t)number(lengths + 4 * k, 4);
      int64_t pointer = (int64_t)number(pointers + 8 * k, 8);
      if (pointer != at)
        return mal_fail(e, MAL_BAD,
                        _("%s: byte %lld: sequence %lld begins at byte %lld, and the one before ends at %lld. Only "
                          "sequences that follow each other can be read; merge them anew."),
                        index->path, (long long)(HEAD + 4 * sequences + 8 * (i + k)), (long long)(i + k),
                        (long long)pointer, (long long)at);
      if (length < 0 || length > (bin_bytes - at) / f->width_bytes)
        return mal_fail(e, MAL_BAD, _("%s: byte %lld: sequence %lld has %d tokens, more than the .bin file has left."),
                        index->path, (long long)(HEAD + 4 * (i + k)), (long long)(i + k), length);
      at += (int64_t)length * f->width_bytes;
    }
  }
  if (at != bin_bytes)
    return mal_fail(e, MAL_BAD, _("%s: its sequences have %lld bytes, and the .bin file beside has %lld."), index->path,
                    (long long)at, (long long)bin_bytes);
  f->tokens = at / f->width_bytes;
  return MAL_OK;
}

mal_status mal_tokens_index(const mal_bytes *index, int64_t bin_bytes, mal_token_file *f, mal_error *e) {
  char magic[9];
  int64_t version = 0, code = 0, sequences = 0, documents = 0;
  if (index->bytes < 34)
    return mal_fail(e, MAL_BAD, _("%s: has %lld bytes, too few for an index. Was it cut?"), index->path,
                    (long long)index->bytes);
  mal_status status = index->read(index, 0, magic, sizeof magic, e);
  if (!status && memcmp(magic, "MMIDIDX\0\0", sizeof magic) != 0)
    status = mal_fail(e, MAL_BAD, _("%s: byte 0: this is no index of Megatron-LM (MMIDIDX)."), index->path);
  if (!status) status = read_number(index, 9, 8, &version, e);
  if (!status) status = read_number(index, 17, 1, &code, e);
  if (!status) status = read_number(index, 18, 8, &sequences, e);
  if (!status) status = read_number(index, 26, 8, &documents, e);
  if (status) return status;
  if (version != 1)
    return mal_fail(e, MAL_BAD, _("%s: byte 9: version %lld of the index; 1 can be read."), index->path,
                    (long long)version);
  if (code < 1 || code >= (int64_t)(sizeof index_types / sizeof *index_types) || !index_types[code].width)
    return mal_fail(e, MAL_BAD, _("%s: byte 17: type %lld is no type of token ids."), index->path, (long long)code);
  /* A multimodal index has one byte more for each sequence at its end. */
  int64_t most = index->bytes / 8;
  if (sequences < 0 || documents < 0 || sequences > most || documents > most ||
      34 + 12 * sequences + 8 * documents > index->bytes)
    return mal_fail(e, MAL_BAD,
                    _("%s: byte 18: %lld sequences and %lld documents need more than its %lld bytes. Was it cut?"),
                    index->path, (long long)sequences, (long long)documents, (long long)index->bytes);
  f->format = MAL_TOKENS_MEGATRON;
  f->width_bytes = index_types[code].width;
  f->is_signed = index_types[code].is_signed;
  f->first_byte = 0;
  f->documents = documents > 0 ? documents - 1 : 0; /* the last is the end of the one before */
  return check_sequences(index, sequences, bin_bytes, f, e);
}

/* --- files ----------------------------------------------------------------------------------------------------------------- */

static mal_status read_file(const mal_bytes *from, int64_t offset, void *into, int64_t n, mal_error *e) {
  int fd = *(const int *)from->context;
  for (int64_t done = 0; done < n;) {
    ssize_t got = pread(fd, (char *)into + done, (size_t)(n - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return mal_fail(e, MAL_FAULT, _("%s: cannot be read at byte %lld: %s."), from->path, (long long)(offset + done),
                      strerror(errno));
    if (got == 0)
      return mal_fail(e, MAL_FAULT,
                      _("%s: ended at byte %lld, earlier than when it was opened. Was it cut while in use?"),
                      from->path, (long long)(offset + done));
    done += got;
  }
  return MAL_OK;
}

static mal_status open_file(const char *path, int *fd, int64_t *bytes, mal_error *e) {
  struct stat s;
  if (!*path) return mal_fail(e, MAL_BAD, _("The name of a data file is empty."));
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (*fd < 0 && errno == ENOENT) return mal_fail(e, MAL_BAD, _("%s: there is no such file. Check the path."), path);
  if (*fd < 0) return mal_fail(e, MAL_BAD, _("%s: cannot be opened: %s."), path, strerror(errno));
  bool known = fstat(*fd, &s) == 0;
  if (known && S_ISREG(s.st_mode)) {
    *bytes = s.st_size;
    return MAL_OK;
  }
  close(*fd);
  *fd = -1;
  if (known && S_ISDIR(s.st_mode)) return mal_fail(e, MAL_BAD, _("%s: is a folder. Name files in it."), path);
  return mal_fail(e, MAL_BAD, _("%s: is not a regular file. Data is read in no fixed order; save it to a file."), path);
}

/* FILE.idx, FILE.bin with FILE.idx beside, or FILE where both are: the stem, else NULL. */
static const char *index_of(mal_arena *a, const char *path, int format) {
  size_t n = strlen(path);
  if (ends_with(path, ".idx")) return path;
  const char *stem = ends_with(path, ".bin") ? mal_print(a, "%.*s", (int)n - 4, path) : path;
  const char *index = mal_print(a, "%s.idx", stem);
  bool both = mal_is_file(index) && mal_is_file(mal_print(a, "%s.bin", stem));
  return format == MAL_TOKENS_MEGATRON || (both && (stem != path || !mal_is_file(path))) ? index : NULL;
}

static mal_status open_indexed(mal_arena *a, const char *index_path, mal_token_file *f, mal_error *e) {
  int fd = -1;
  int64_t bin_bytes = 0;
  mal_bytes index = {.path = index_path, .read = read_file, .context = &fd};
  f->path = mal_print(a, "%.*s.bin", (int)strlen(index_path) - 4, index_path);
  mal_status status = open_file(index_path, &fd, &index.bytes, e);
  if (!status) status = open_file(f->path, &f->fd, &bin_bytes, e);
  if (!status) status = mal_tokens_index(&index, bin_bytes, f, e);
  if (fd >= 0) close(fd);
  return status;
}

mal_status mal_tokens_open(mal_arena *a, const char *path, int format, mal_token_file *f, mal_error *e) {
  *f = (mal_token_file){.path = path, .fd = -1};
  const char *index = format == MAL_TOKENS_TELL || format == MAL_TOKENS_MEGATRON ? index_of(a, path, format) : NULL;
  mal_status status;
  if (index) {
    status = open_indexed(a, index, f, e);
  } else {
    mal_bytes bin = {.path = path, .read = read_file, .context = &f->fd};
    status = open_file(path, &f->fd, &bin.bytes, e);
    if (!status) status = mal_tokens_header(&bin, format, f, e);
  }
  if (status) mal_tokens_close(f);
  return status;
}

void mal_tokens_close(mal_token_file *f) {
  if (f->fd >= 0) close(f->fd);
  f->fd = -1;
}

/* --- reading --------------------------------------------------------------------------------------------------------------- */

static void widen(const mal_token_file *f, const uint8_t *raw, int64_t n, int64_t *ids) {
  int width = f->width_bytes, shift = 64 - 8 * width;
  for (int64_t i = 0; i < n; i++) {
    uint64_t x = number(raw + i * width, width);
    ids[i] = f->is_signed ? (int64_t)(x << shift) >> shift : (int64_t)x;
  }
}

static mal_status check_ids(const mal_token_file *f, int64_t first, int64_t n, int64_t vocabulary, const int64_t *ids,
                            mal_error *e) {
  for (int64_t i = 0; i < n; i++) {
    if (ids[i] >= 0 && (!vocabulary || ids[i] < vocabulary)) continue;
    long long place = (long long)(f->first_byte + (first + i) * f->width_bytes);
    if (ids[i] < 0)
      return mal_fail(e, MAL_BAD, _("%s: byte %lld: token %lld is negative: %lld."), f->path, place,
                      (long long)(first + i), (long long)ids[i]);
    return mal_fail(
        e, MAL_BAD,
        _("%s: byte %lld: token %lld has the id %lld, and the vocabulary has %lld. Is it of another tokenizer?"),
        f->path, place, (long long)(first + i), (long long)ids[i], (long long)vocabulary);
  }
  return MAL_OK;
}

mal_status mal_tokens_read(const mal_token_file *f, int64_t first, int64_t n, int64_t vocabulary, int64_t *ids,
                           mal_error *e) {
  enum { BATCH = 4096 };
  uint8_t raw[8 * BATCH];
  mal_bytes bin = {.path = f->path, .context = &f->fd};
  if (first < 0 || n < 0 || first > f->tokens - n)
    return mal_fail(e, MAL_FAULT, _("%s: tokens %lld to %lld are not in it."), f->path, (long long)first,
                    (long long)(first + n));
  for (int64_t i = 0; i < n; i += BATCH) {
    int64_t some = n - i < BATCH ? n - i : BATCH;
    mal_status status = read_file(&bin, f->first_byte + (first + i) * f->width_bytes, raw, some * f->width_bytes, e);
    if (status) return status;
    widen(f, raw, some, ids + i);
    if ((status = check_ids(f, first + i, some, vocabulary, ids + i, e)) != MAL_OK) return status;
  }
  return MAL_OK;
}
