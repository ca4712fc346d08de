#include "engine/file/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct mal_handle {
  int fd;
};

static int disk_open(mal_files *f, const char *path, bool create, mal_handle **file) {
  (void)f;
  mal_handle *h = malloc(sizeof *h);
  *file = NULL;
  if (!h) return ENOMEM;
  h->fd = open(path, create ? O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0666);
  if (h->fd < 0) {
    int why = errno;
    free(h);
    return why;
  }
  *file = h;
  return 0;
}

static int disk_read(mal_handle *file, int64_t offset, void *into, int64_t n, int64_t *got) {
  *got = 0;
  while (*got < n) {
    ssize_t some = pread(file->fd, (char *)into + *got, (size_t)(n - *got), offset + *got);
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return errno;
    if (some == 0) break;
    *got += some;
  }
  return 0;
}

static int disk_write(mal_handle *file, int64_t offset, const void *from, int64_t n) {
  for (int64_t done = 0; done < n;) {
    ssize_t some = pwrite(file->fd, (const char *)from + done, (size_t)(n - done), offset + done);
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return errno;
    done += some;
  }
  return 0;
}

static int disk_size(mal_handle *file, int64_t *bytes) {
  struct stat s;
  if (fstat(file->fd, &s) != 0) return errno;
  *bytes = s.st_size;
  return S_ISREG(s.st_mode) ? 0 : EISDIR;
}

static int disk_sync(mal_handle *file) { return fsync(file->fd) == 0 ? 0 : errno; }

static int disk_close(mal_handle *file) {
  int why = close(file->fd) == 0 ? 0 : errno;
  free(file);
  return why;
}

static int disk_rename(mal_files *f, const char *from, const char *to) {
  (void)f;
  return rename(from, to) == 0 ? 0 : errno;
}

static int disk_remove(mal_files *f, const char *path) {
  (void)f;
  return remove(path) == 0 ? 0 : errno;
}

static int disk_make_folder(mal_files *f, const char *path) {
  (void)f;
  return mkdir(path, 0777) == 0 ? 0 : errno;
}

static int disk_sync_folder(mal_files *f, const char *path) {
  (void)f;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  int why = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  return why;
}

static int disk_list(mal_files *f, mal_arena *a, const char *folder, const char ***names, int *n) {
  (void)f;
  size_t room = 16;
  *n = 0;
  *names = MAL_ARRAY(a, const char *, room);
  DIR *d = opendir(folder);
  if (!d) return errno;
  for (const struct dirent *entry; (entry = readdir(d));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if ((size_t)*n == room) {
      *names = mal_grow(a, *names, room, 2 * room, sizeof **names);
      room *= 2;
    }
    (*names)[(*n)++] = mal_copy(a, entry->d_name);
  }
  closedir(d);
  return 0;
}

mal_files mal_files_disk = {"disk",     disk_open,   disk_read,   disk_write,       disk_size,        disk_sync,
                            disk_close, disk_rename, disk_remove, disk_make_folder, disk_sync_folder, disk_list};
