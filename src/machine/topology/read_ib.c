/* InfiniBand and RoCE ports: ibstat, and /sys/class/infiniband flattened to lines "mlx5_0/ports/1/rate: 400 Gb/sec (4X NDR)", as
 * grep -r or a script makes them. */
#include "machine/topology/read.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "4: ACTIVE" → "ACTIVE". */
static const char *after_colon(const char *text) {
  const char *colon = strstr(text, ": ");
  return colon && isdigit((unsigned char)*text) ? colon + 2 : text;
}

static void ibstat_line(mal_topology *t, mal_part *d, const char *line, mal_evidence from) {
  static const struct {
    const char *words;
    mal_fact_key key;
  } texts[] = {{"CA type:", MAL_F_BOARD},
               {"Firmware version:", MAL_F_FIRMWARE},
               {"Physical state:", MAL_F_PHYSICAL},
               {"State:", MAL_F_STATE},
               {"Link layer:", MAL_F_LAYER}};
  const char *at = line + strspn(line, " \t");
  double rate;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (mal_starts(at, texts[i].words)) {
      const char *value = at + strlen(texts[i].words);
      mal_know_text(t, d, texts[i].key, mal_trimmed(t->arena, value, strlen(value)), from);
      return;
    }
  if (mal_starts(at, "Rate:") && mal_number_at(at + strlen("Rate:"), &rate)) mal_know(d, MAL_F_RATE, rate * 1e9, from);
}

bool mal_read_ibstat(mal_topology *t, const mal_paste *p, int *broken) {
  mal_lines l = mal_lines_of(p);
  int at = -1, found = 0;
  (void)broken;
  while (mal_lines_next(&l)) {
    const char *name = mal_starts(l.line + strspn(l.line, " \t"), "CA '") ? strchr(l.line, '\'') + 1 : NULL;
    mal_evidence from = {p->file, l.number};
    if (l.length > 256) continue;
    if (name && strchr(name, '\'')) {
      mal_part *d = mal_part_named(t, MAL_PART_NIC, mal_trimmed(t->arena, name, strcspn(name, "'")), from);
      at = d ? (int)(d - t->devices) : -1;
      found++;
    } else if (at >= 0) {
      ibstat_line(t, &t->devices[at], l.line, from);
    }
  }
  mal_lines_end(&l);
  return found > 0;
}

static void port_line(mal_topology *t, mal_part *d, const char *key, const char *value, mal_evidence from) {
  double number;
  if (strcmp(key, "rate") == 0 && mal_number_at(value, &number))
    mal_know(d, MAL_F_RATE, number * 1e9, from);
  else if (strcmp(key, "state") == 0)
    mal_know_text(t, d, MAL_F_STATE, after_colon(value), from);
  else if (strcmp(key, "phys_state") == 0)
    mal_know_text(t, d, MAL_F_PHYSICAL, after_colon(value), from);
  else if (strcmp(key, "link_layer") == 0)
    mal_know_text(t, d, MAL_F_LAYER, value, from);
  else if ((mal_starts(key, "counters/") || mal_starts(key, "hw_counters/")) && mal_number_at(value, &number))
    mal_count_event(t, d, strchr(key, '/') + 1, number, from);
}

/* path: "mlx5_0/ports/1/rate", perhaps with folders before it. */
static bool class_line(mal_topology *t, const char *path, const char *value, mal_evidence from) {
  const char *class = strstr(path, "infiniband/");
  if (class) path = class + strlen("infiniband/");
  while (*path == '/' || *path == '.') path++;
  size_t n = strcspn(path, "/");
  if (!path[n] || n == 0 || n > 64 || strpbrk(path, " \t")) return false;
  const char *name = mal_trimmed(t->arena, path, n), *key = path + n + 1;
  const char *port = mal_starts(key, "ports/") ? strchr(key + strlen("ports/"), '/') : NULL;
  bool about_card = strcmp(key, "fw_ver") == 0 || strcmp(key, "board_id") == 0 || strcmp(key, "hca_type") == 0;
  if (!port && !about_card) return false;
  mal_part *d = mal_part_named(t, MAL_PART_NIC, name, from);
  if (!d) return false;
  if (strcmp(key, "fw_ver") == 0) mal_know_text(t, d, MAL_F_FIRMWARE, value, from);
  if (strcmp(key, "board_id") == 0) mal_know_text(t, d, MAL_F_BOARD, value, from);
  if (port) port_line(t, d, port + 1, value, from);
  return true;
}

bool mal_read_ib_class(mal_topology *t, const mal_paste *p, int *broken) {
  mal_lines l = mal_lines_of(p);
  int found = 0;
  (void)broken;
  while (mal_lines_next(&l)) {
    char *colon = l.length < 1024 ? strchr(l.line, ':') : NULL;
    if (!colon || !strchr(l.line, '/')) continue;
    *colon = 0;
    const char *value = mal_trimmed(t->arena, colon + 1, strlen(colon + 1));
    found += class_line(t, l.line, value, (mal_evidence){p->file, l.number});
    *colon = ':';
  }
  mal_lines_end(&l);
  return found > 0;
}
