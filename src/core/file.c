/* Reading trusts nothing that stat says about the size. Writing leaves the old file or the new one, never half. */
#include "core/file.h"
#include "core/units.h"
#include "core/utf8.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool mal_is_directory(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool mal_is_file(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

bool mal_utf8_valid(const char *text, size_t length, size_t *at) {
  for (size_t i = 0, step; i < length; i += step) {
    step = mal_utf8_step(text + i, length - i);
    if (step) continue;
    if (at) *at = i;
    return false;
  }
  return true;
}

int mal_line_of(const char *text, size_t offset) {
  int line = 1;
  for (const char *end = text + offset; (text = memchr(text, '\n', (size_t)(end - text))); text++)
    if (line < INT_MAX) line++;
  return line;
}

static mal_status cannot_open(const char *path, int why, mal_error *e) {
  switch (why) {
  case ENOENT: return mal_fail(e, MAL_BAD, _("%s: there is no such file. Check the path."), path);
  case ENOTDIR:
    return mal_fail(e, MAL_BAD, _("%s: a part of the path before the last is not a folder. Check the path."), path);
  case EACCES:
  case EPERM:
    return mal_fail(e, MAL_BAD, _("%s: no permission to read it. Change its mode, or run as its owner."), path);
  case ENAMETOOLONG: return mal_fail(e, MAL_BAD, _("%.60s...: the path is too long."), path);
  case ELOOP: return mal_fail(e, MAL_BAD, _("%s: too many symbolic links. Check where they lead."), path);
  default: return mal_fail(e, MAL_FAULT, _("%s: cannot be opened: %s."), path, strerror(why));
  }
}

static mal_status read_all(mal_arena *a, int fd, const char *path, size_t expected, size_t limit, char **text,
                           size_t *length, mal_error *e) {
  size_t size = expected < limit ? expected : limit, n = 0;
  if (size < 4096) size = 4096;
  char *buffer = mal_alloc(a, size + 1);
  for (;;) {
    ssize_t got = read(fd, buffer + n, size - n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return mal_fail(e, MAL_FAULT, _("%s: reading failed: %s."), path, strerror(errno));
    if (got == 0) break;
    n += (size_t)got;
    if (n > limit)
      return mal_fail(e, MAL_BAD, _("%s: larger than %s, the most this kind of file may have. Is it the right file?"),
                      path, mal_show_bytes((double)limit));
    if (n == size) {
      buffer = mal_grow(a, buffer, size + 1, 2 * size + 1, 1);
      size *= 2;
    }
  }
  buffer[n] = '\0';
  *text = buffer;
  *length = n;
  return MAL_OK;
}

mal_status mal_file_read(mal_arena *a, const char *path, size_t limit, char **text, size_t *length, mal_error *e) {
  *text = NULL;
  *length = 0;
  if (!*path) return mal_fail(e, MAL_BAD, _("The file name is empty. Give a path, or - for standard input."));
  if (strcmp(path, "-") == 0) return read_all(a, STDIN_FILENO, _("standard input"), 0, limit, text, length, e);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO without a writer must not block */
  if (fd < 0) return cannot_open(path, errno, e);
  struct stat s;
  mal_status status;
  if (fstat(fd, &s) != 0) {
    status = mal_fail(e, MAL_FAULT, _("%s: cannot be examined: %s."), path, strerror(errno));
  } else if (S_ISDIR(s.st_mode)) {
    status = mal_fail(e, MAL_BAD, _("%s: is a folder. Name a file in it."), path);
  } else if (!S_ISREG(s.st_mode)) {
    status = mal_fail(e, MAL_BAD, _("%s: is not a regular file. Save it to a file, or pipe it in and give - instead."),
                      path);
  } else if (s.st_size > 0 && (uintmax_t)s.st_size > limit) {
    status = mal_fail(e, MAL_BAD, _("%s: has %s, and this kind of file may have %s. Is it the right file?"), path,
                      mal_show_bytes((double)s.st_size), mal_show_bytes((double)limit));
  } else {
    status = read_all(a, fd, path, (size_t)s.st_size + 1, limit, text, length, e);
  }
  close(fd);
  return status;
}

static bool write_all(int fd, const char *text, size_t length) {
  while (length) {
    ssize_t put = write(fd, text, length);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    text += put;
    length -= (size_t)put;
  }
  return true;
}

static mal_status cannot_write(const char *path, int why, mal_error *e) {
  switch (why) {
  case ENOENT:
  case ENOTDIR:
    return mal_fail(e, MAL_BAD, _("%s: the folder does not exist. Make it, or write somewhere else."), path);
  case EACCES:
  case EPERM:
  case EROFS: return mal_fail(e, MAL_BAD, _("%s: no permission to write there. Write somewhere else."), path);
  case EISDIR: return mal_fail(e, MAL_BAD, _("%s: is a folder. Name a file in it."), path);
  case ENOSPC:
  case EDQUOT:
    return mal_fail(e, MAL_FAULT, _("%s: no space left; nothing was changed. Free some and try again."), path);
  default: return mal_fail(e, MAL_FAULT, _("%s: writing failed: %s."), path, strerror(why));
  }
}

/* A terminal, a pipe, /dev/null: written straight, for there is nothing to replace. */
static mal_status write_straight(int fd, const char *path, const char *text, size_t length, mal_error *e) {
  if (fd < 0) return cannot_write(path, errno, e);
  mal_status status = write_all(fd, text, length) ? MAL_OK : cannot_write(path, errno, e);
  if (fd != STDOUT_FILENO && close(fd) != 0 && status == MAL_OK) status = cannot_write(path, errno, e);
  return status;
}

static void sync_folder_of(const char *path) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) + 1 : 1;
  if (n >= sizeof folder) return;
  memcpy(folder, slash ? path : ".", n);
  folder[n] = '\0';
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

static mode_t mode_for_new_file(void) {
  mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

/* --- a file that is taken only whole ------------------------------------------------------------------------------- */

/* The file behind fd is still the one of that name: not renamed away by the writer that held the lock before. */
static bool still_there(int fd, const char *path) {
  struct stat held, named;
  return fstat(fd, &held) == 0 && lstat(path, &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

/* The lock goes with its process, so what a killed run left is free. Where there are no locks, the last one wins. */
static int open_locked(const char *path, bool wait) {
  for (;;) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) return -1;
    while (flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) break;
      close(fd);
      errno = EWOULDBLOCK;
      return -1;
    }
    if (still_there(fd, path)) return fd;
    close(fd);
  }
}

mal_status mal_draft_open(mal_arena *a, const char *path, bool wait, mal_draft *draft, mal_error *e) {
  struct stat s;
  char *target = realpath(path, NULL); /* NULL: a new file, no link to follow */
  *draft = (mal_draft){.shown = mal_copy(a, path), .target = mal_copy(a, target ? target : path), .fd = -1};
  free(target);
  draft->path = mal_print(a, "%s.malha-draft", draft->target);
  bool exists = stat(path, &s) == 0;
  draft->mode = exists ? s.st_mode & 07777 : mode_for_new_file();
  if (exists && !S_ISREG(s.st_mode)) return cannot_write(path, S_ISDIR(s.st_mode) ? EISDIR : EINVAL, e);
  if (exists && access(path, W_OK) != 0) return cannot_write(path, errno, e);
  draft->fd = open_locked(draft->path, wait);
  if (draft->fd < 0 && errno == EWOULDBLOCK)
    return mal_fail(e, MAL_BAD, _("%s: another run is writing it. Wait for that one, or write somewhere else."), path);
  if (draft->fd < 0 || ftruncate(draft->fd, 0) != 0) {
    int why = errno;
    mal_draft_drop(draft);
    return cannot_write(path, why, e);
  }
  return MAL_OK;
}

void mal_draft_drop(mal_draft *draft) {
  if (draft->fd < 0) return;
  unlink(draft->path);
  close(draft->fd);
  draft->fd = -1;
}

mal_status mal_draft_keep(mal_draft *draft, mal_error *e) {
  bool good = fchmod(draft->fd, draft->mode) == 0 && fsync(draft->fd) == 0 && rename(draft->path, draft->target) == 0;
  if (!good) {
    int why = errno;
    mal_draft_drop(draft);
    return cannot_write(draft->shown, why, e);
  }
  close(draft->fd); /* after the rename: until then no other may take the name */
  draft->fd = -1;
  sync_folder_of(draft->target);
  return MAL_OK;
}

mal_status mal_file_write(const char *path, const char *text, size_t length, mal_error *e) {
  if (!*path)
    return mal_fail(e, MAL_BAD, _("The name of the file to write is empty. Give a path, or - for standard output."));
  if (strcmp(path, "-") == 0) return write_straight(STDOUT_FILENO, _("standard output"), text, length, e);
  struct stat s;
  if (stat(path, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode))
    return write_straight(open(path, O_WRONLY | O_CLOEXEC), path, text, length, e);
  mal_arena arena;
  mal_draft draft;
  mal_arena_init(&arena);
  mal_status status = mal_draft_open(&arena, path, true, &draft, e);
  if (!status && !write_all(draft.fd, text, length)) {
    status = cannot_write(path, errno, e);
    mal_draft_drop(&draft);
  }
  if (!status) status = mal_draft_keep(&draft, e);
  mal_arena_free(&arena);
  return status;
}
