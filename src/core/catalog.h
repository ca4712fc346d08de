/* Where the catalogue lies: $MALHA_CATALOG, else the folder it was built from, else the installed one.
 * Only the files that are named are opened. */
#ifndef MAL_CORE_CATALOG_H
#define MAL_CORE_CATALOG_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>

/* MALHA_CATALOG of the environment; else share/malha/catalog beside the installation that this code runs from; else the source tree's;
 * else the one configured. */
const char *mal_catalog_root(void);
/* Path of catalog/<folder>/<name><ending>; MAL_BAD with the nearest names when it does not exist.
 * Names are compared without case, and '_' and '.' count as '-'. */
mal_status mal_catalog_find(mal_arena *a, const char *folder, const char *name, const char *ending, const char *what,
                            char **path, mal_error *e);
/* What the user wrote means a file, whatever the catalogue and the working directory hold: it has a '/', ends in .json, .yaml or
 * .yml, or is "-". Any other text is a name of the catalogue first. */
bool mal_names_file(const char *text);
bool mal_catalog_has(mal_arena *a, const char *folder, const char *name, const char *ending);
/* Names (without ending) in catalog/<folder>, sorted. */
mal_status mal_catalog_list(mal_arena *a, const char *folder, const char *ending, char ***names, size_t *count,
                            mal_error *e);
#endif
