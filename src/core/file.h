/* Whole small files into memory, and the way back. */
#ifndef MAL_CORE_FILE_H
#define MAL_CORE_FILE_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>

/* Reads a regular file of at most `limit` bytes; *text is NUL-terminated, *length excludes the NUL.
 * A directory, no permission, missing, too large, a device: MAL_BAD with what to do. "-" is standard input. */
mal_status mal_file_read(mal_arena *a, const char *path, size_t limit, char **text, size_t *length, mal_error *e);

/* Writes beside, fsyncs, renames: the file is the old or the new, never half. "-" is standard output. */
mal_status mal_file_write(const char *path, const char *text, size_t length, mal_error *e);

/* True when the whole text is valid UTF-8. *at (may be NULL) is the first bad byte's offset. */
bool mal_utf8_valid(const char *text, size_t length, size_t *at);

int mal_line_of(const char *text, size_t offset); /* 1-based */
bool mal_is_directory(const char *path);
bool mal_is_file(const char *path);
#endif
