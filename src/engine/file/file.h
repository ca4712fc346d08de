/* Files as checkpoints see them: a table of functions, so that what happens when the machine stops can be tested.
 *
 * Every function returns 0 or an errno. What a disk promises, and the crash-simulating table takes literally: written bytes
 * last when the file was synced; names (made, renamed, removed) last when their folder was synced; until then each may be
 * there or not, in any combination, and of a write any part. Any thread may call. */
#ifndef MAL_ENGINE_FILE_FILE_H
#define MAL_ENGINE_FILE_FILE_H
#include "core/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct mal_handle mal_handle; /* an open file */
typedef struct mal_files mal_files;
struct mal_files {
  const char *name;
  int (*open)(mal_files *f, const char *path, bool create, mal_handle **file);        /* create: new, or emptied */
  int (*read)(mal_handle *file, int64_t offset, void *into, int64_t n, int64_t *got); /* fewer than n only at its end */
  int (*write)(mal_handle *file, int64_t offset, const void *from, int64_t n);
  int (*size)(mal_handle *file, int64_t *bytes);
  int (*sync)(mal_handle *file);
  int (*close)(mal_handle *file);
  int (*rename)(mal_files *f, const char *from, const char *to); /* within one folder */
  int (*remove)(mal_files *f, const char *path);                 /* a file, or an empty folder */
  int (*make_folder)(mal_files *f, const char *path);
  int (*sync_folder)(mal_files *f, const char *path);
  int (*list)(mal_files *f, mal_arena *a, const char *folder, const char ***names, int *n); /* names that are text */
};

extern mal_files mal_files_disk;

/* The twin: files in memory, and a machine that stops. */
mal_files *mal_files_simulated(void);
void mal_files_simulated_free(mal_files *f);
/* The n-th operation from now that changes something, and all after it, fail with EIO; of that one, when it is a write, half
 * is done. Negative: none. */
void mal_files_stop_at(mal_files *f, int64_t n);
bool mal_files_stopped(const mal_files *f);
/* Writes beyond so many bytes in all files fail with ENOSPC; negative: no end. */
void mal_files_room(mal_files *f, int64_t bytes);
/* Power is lost and comes back: what was not synced is lost (mode 0), kept (1), or by chance each write lost, kept or cut at a
 * byte and each name lost or kept (2). All handles must be closed. */
void mal_files_crash(mal_files *f, int mode, uint64_t seed);
#endif
