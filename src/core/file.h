/* Whole small files into memory, and the way back. */
#ifndef MAL_CORE_FILE_H
#define MAL_CORE_FILE_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>

/* Reads a regular file of at most `limit` bytes; *text is NUL-terminated, *length excludes the NUL.
 * A directory, no permission, missing, too large, a device: MAL_BAD with what to do. "-" is standard input. */
mal_status mal_file_read(mal_arena *a, const char *path, size_t limit, char **text, size_t *length, mal_error *e);

/* Writes a draft (below) and keeps it: the file is the old or the new, never half. "-" is standard output; a terminal,
 * a pipe or /dev/null is written straight. */
mal_status mal_file_write(const char *path, const char *text, size_t length, mal_error *e);

/* A file that takes the place of its target only when it is whole. Until then it is TARGET.malha-draft: one name for each
 * target, so a run that was killed leaves one at most, and the next run takes it over. The lock on it lives as long as
 * its process. Through a symbolic link; the mode of an existing target stays. */
typedef struct mal_draft {
  const char *shown, *target, *path; /* as given; without links; of the draft */
  unsigned mode;
  int fd; /* to be written; -1 when nothing is open */
} mal_draft;
/* While another process writes the same target: wait, or be refused. */
mal_status mal_draft_open(mal_arena *a, const char *path, bool wait, mal_draft *draft, mal_error *e);
mal_status mal_draft_keep(mal_draft *draft, mal_error *e); /* syncs, and replaces the target; when it fails, drops */
void mal_draft_drop(mal_draft *draft);                     /* the target stays as it was; nothing when not open */

/* True when the whole text is valid UTF-8. *at (may be NULL) is the first bad byte's offset. */
bool mal_utf8_valid(const char *text, size_t length, size_t *at);

int mal_line_of(const char *text, size_t offset); /* 1-based */
bool mal_is_directory(const char *path);
bool mal_is_file(const char *path);
#endif
