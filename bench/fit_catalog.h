/* What the fits of step time and memory share: whose constant an inherited one is, and lines of a profile's file. */
#ifndef FIT_CATALOG_H
#define FIT_CATALOG_H
#include "core/catalog.h"
#include "core/file.h"
#include "job/profile.h"
#include <stdio.h>
#include <string.h>

/* "as h100-sxm: as h100-80-sxm: ...": the last is the entry that an inherited constant belongs to. */
static const char *inherited_from(mal_arena *a, const char *source) {
  const char *colon, *found = NULL;
  while (source && !strncmp(source, "as ", 3) && (colon = strchr(source, ':'))) {
    found = mal_print(a, "%.*s", (int)(colon - source - 3), source + 3);
    source = colon + 1 + (colon[1] == ' ');
  }
  return found;
}

/* Sets "key: value" at the top level of a profile's file, before its section `fitted` or at the end. */
static mal_status write_line(mal_arena *a, const char *profile, const char *key, double value, mal_error *e) {
  char *path, *text, line[96];
  size_t length;
  mal_status s = mal_catalog_find(a, "profiles", profile, ".yaml", "profile", &path, e);
  if (s == MAL_OK) s = mal_file_read(a, path, MAL_YAML_LIMIT_BYTES, &text, &length, e);
  if (s != MAL_OK) return s;
  snprintf(line, sizeof line, "\n%s:", key);
  char *at = strstr(text, line), *end;
  if (at) {
    at++;
    end = at + strcspn(at, "\n");
    end += *end == '\n';
  } else {
    at = strstr(text, "\nfitted:");
    at = end = at ? at + 1 : text + length;
  }
  char *all = mal_print(a, "%.*s%s: %.3f\n%s", (int)(at - text), text, key, value, end);
  return mal_file_write(path, all, strlen(all), e);
}

/* The profile that holds the fitted numbers of p. */
static const char *root_of(mal_arena *a, const mal_profile *p) {
  const char *base = inherited_from(a, p->memory_pass.source);
  return base ? base : p->name;
}
#endif
