/* A name is one path component: it can never lead out of the catalogue. */
#include "core/catalog.h"
#include "core/file.h"
#include "core/suggest.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char beside[4096]; /* "" none */

/* The file that holds this code: the command or the shared library. */
static bool own_file(char *path, size_t size) {
  Dl_info info;
  if (dladdr((void *)beside, &info) && info.dli_fname && strchr(info.dli_fname, '/')) {
    char *real = realpath(info.dli_fname, NULL);
    bool short_enough = real && strlen(real) < size;
    if (short_enough) strcpy(path, real);
    free(real);
    return short_enough;
  }
  ssize_t length = readlink("/proc/self/exe", path, size - 1);
  path[length > 0 ? length : 0] = '\0';
  return length > 0;
}

/* Installed anywhere: PREFIX/bin/malha and PREFIX/lib/ARCHITECTURE/libmalha.so.0 find PREFIX/share/malha/catalog. */
static void look_beside(void) {
  enum { ABOVE = 3 };
  static const char tail[] = "/share/malha/catalog";
  char path[sizeof beside - sizeof tail];
  if (!own_file(path, sizeof path)) return;
  for (int i = 0; i < ABOVE; i++) {
    char *slash = strrchr(path, '/');
    if (!slash) break;
    *slash = '\0';
    snprintf(beside, sizeof beside, "%s%s", path, tail);
    if (mal_is_directory(beside)) return;
  }
  beside[0] = '\0';
}

const char *mal_catalog_root(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const char *named = getenv("MALHA_CATALOG");
  if (named && *named) return named;
  pthread_once(&once, look_beside);
  if (*beside) return beside;
  return mal_is_directory(MALHA_SOURCE_CATALOG) ? MALHA_SOURCE_CATALOG : MALHA_INSTALL_CATALOG;
}

static char folded(char c) {
  if (c >= 'A' && c <= 'Z') return (char)(c - 'A' + 'a');
  return c == '_' || c == '.' ? '-' : c;
}

static bool same_name(const char *a, const char *b) {
  while (*a && folded(*a) == folded(*b)) a++, b++;
  return folded(*a) == folded(*b);
}

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

mal_status mal_catalog_list(mal_arena *a, const char *folder, const char *ending, char ***names, size_t *count,
                            mal_error *e) {
  size_t room = 16, n = 0, tail = strlen(ending);
  char *path = mal_print(a, "%s/%s", mal_catalog_root(), folder);
  *names = NULL;
  *count = 0;
  DIR *dir = opendir(path);
  if (!dir)
    return mal_fail(e, MAL_BAD, _("%s: the catalogue cannot be opened: %s. Set MALHA_CATALOG to where it lies."), path,
                    strerror(errno));
  char **list = MAL_ARRAY(a, char *, room);
  for (struct dirent *entry; (entry = readdir(dir));) {
    size_t length = strlen(entry->d_name);
    if (entry->d_name[0] == '.' || length <= tail || strcmp(entry->d_name + length - tail, ending) != 0) continue;
    if (n == room) {
      list = mal_grow(a, list, room, 2 * room, sizeof *list);
      room *= 2;
    }
    list[n] = mal_copy(a, entry->d_name);
    list[n++][length - tail] = '\0';
  }
  closedir(dir);
  qsort(list, n, sizeof *list, compare);
  *names = list;
  *count = n;
  return MAL_OK;
}

mal_status mal_catalog_find(mal_arena *a, const char *folder, const char *name, const char *ending, const char *what,
                            char **path, mal_error *e) {
  char **names, near[256];
  size_t count;
  *path = NULL;
  if (*name && *name != '.' && !strchr(name, '/')) { /* the name as written, without reading the folder */
    *path = mal_print(a, "%s/%s/%s%s", mal_catalog_root(), folder, name, ending);
    if (mal_is_file(*path)) return MAL_OK;
    *path = NULL;
  }
  mal_status status = mal_catalog_list(a, folder, ending, &names, &count, e);
  if (status) return status;
  for (size_t i = 0; i < count; i++)
    if (same_name(name, names[i])) {
      *path = mal_print(a, "%s/%s/%s%s", mal_catalog_root(), folder, names[i], ending);
      return MAL_OK;
    }
  mal_suggest(name, (const char *const *)names, count, near, sizeof near);
  if (*near) return mal_fail(e, MAL_BAD, _("There is no %s '%s' in the catalogue. Nearest: %s."), what, name, near);
  return mal_fail(e, MAL_BAD, _("There is no %s '%s' in the catalogue. See %s/%s for those there are."), what, name,
                  mal_catalog_root(), folder);
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n > m && strcmp(text + n - m, end) == 0;
}

bool mal_names_file(const char *text) {
  return strchr(text, '/') || ends_with(text, ".json") || ends_with(text, ".yaml") || ends_with(text, ".yml") ||
         strcmp(text, "-") == 0;
}

bool mal_catalog_has(mal_arena *a, const char *folder, const char *name, const char *ending) {
  char *path;
  mal_error ignored;
  return mal_catalog_find(a, folder, name, ending, "", &path, &ignored) == MAL_OK;
}
