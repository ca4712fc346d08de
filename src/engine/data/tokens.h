/* Token files: one row of ids after the other, little-endian, in one of four formats.
 *
 *   bytes     any file: each byte is a token
 *   nanogpt   .bin without a header: 16-bit ids (github.com/karpathy/nanoGPT, data/.../prepare.py)
 *   llm.c     1,024 bytes of 32-bit words: 20240520, version 1, number of tokens; 16-bit ids. Or 20240801, version 7, 32-bit
 *             ids (github.com/karpathy/llm.c, dev/data/data_common.py)
 *   megatron  .bin of ids beside .idx: "MMIDIDX\0\0", version 1, code of the type, sequences, documents (64-bit), then lengths
 *             (32-bit), pointers (64-bit, bytes) and first sequences of documents (64-bit)
 *             (github.com/NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py)
 *
 * Left to itself, a reader tells them apart: .idx, or .bin with an .idx beside, is megatron; then the first word says whether it
 * is llm.c's; other .bin files are nanogpt's; all others are bytes.
 *
 * Files are read with pread rather than mapped: a file that is cut or cannot be read is then an error with its place, not a
 * signal, and touching a mapping costs more than the copy (13 to 15 µs for each page at first touch, measured on a virtual machine). */
#ifndef MAL_ENGINE_DATA_TOKENS_H
#define MAL_ENGINE_DATA_TOKENS_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum mal_token_format {
  MAL_TOKENS_BYTES,
  MAL_TOKENS_NANOGPT,
  MAL_TOKENS_LLMC,
  MAL_TOKENS_MEGATRON,
  MAL_TOKEN_FORMATS
} mal_token_format;
enum { MAL_TOKENS_TELL = -1 };                                         /* the reader tells */
extern const char *const mal_token_format_name[MAL_TOKEN_FORMATS + 1]; /* ends with NULL */

typedef struct mal_token_file {
  const char *path; /* where the ids lie */
  int format;       /* mal_token_format */
  int width_bytes;  /* of an id: 1, 2, 4, 8 */
  bool is_signed;
  int64_t first_byte, tokens;
  int64_t documents; /* 0: the format does not say */
  int fd;
} mal_token_file;

/* Opens and checks the header against the file's size; of megatron, every length and pointer: sequences must follow each
 * other as written. Errors name file, byte and what was expected. Close with mal_tokens_close. */
mal_status mal_tokens_open(mal_arena *a, const char *path, int format, mal_token_file *f, mal_error *e);
void mal_tokens_close(mal_token_file *f);

/* ids[0 .. n) = tokens [first, first + n) of the file. A negative id, or one that is not below `vocabulary` (0: any), is an
 * error with its place. Any thread may read. */
mal_status mal_tokens_read(const mal_token_file *f, int64_t first, int64_t n, int64_t vocabulary, int64_t *ids,
                           mal_error *e);

/* The parts that judge what others wrote, apart from the file system: `read` gives bytes [offset, offset + n). */
typedef struct mal_bytes {
  const char *path;
  int64_t bytes;
  mal_status (*read)(const struct mal_bytes *from, int64_t offset, void *into, int64_t n, mal_error *e);
  const void *context;
} mal_bytes;
mal_status mal_tokens_header(const mal_bytes *bin, int format, mal_token_file *f, mal_error *e);
mal_status mal_tokens_index(const mal_bytes *index, int64_t bin_bytes, mal_token_file *f, mal_error *e);

/* Writing: beside the target, then renamed; the file is whole or is not there. */
typedef struct mal_token_writer mal_token_writer;
/* path: of megatron the .bin (the .idx goes beside). width_bytes: 2 or 4; bytes always has 1, nanogpt 2. */
mal_status mal_tokens_create(mal_arena *a, const char *path, mal_token_format format, int width_bytes,
                             mal_token_writer **w, mal_error *e);
mal_status mal_tokens_put(mal_token_writer *w, const int64_t *ids, int64_t n, mal_error *e);
mal_status mal_tokens_end_document(mal_token_writer *w, mal_error *e); /* what was put since the last is one document */
/* Completes the file, or with keep false leaves nothing behind. */
mal_status mal_tokens_finish(mal_token_writer *w, bool keep, mal_error *e);
#endif
