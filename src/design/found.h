/* What is really cabled, as the network itself says: `ibnetdiscover` of InfiniBand, LLDP of Ethernet (lldpctl -f json, or an
 * object of such answers by host name). Names are those of the network; a CSV of found,expected renames them. */
#ifndef MAL_DESIGN_FOUND_H
#define MAL_DESIGN_FOUND_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { MAL_FOUND_LIMIT_BYTES = 256 << 20 };

typedef struct mal_found_end {
  const char *device; /* "leaf001", "node0001" */
  const char *part;   /* of a host: its adapter, "mlx5_0"; of a switch "" */
  int64_t port;
  bool is_switch;
} mal_found_end;
typedef struct mal_found_link { /* every cable once */
  mal_found_end a, b;           /* a: a switch */
  double bytes_per_s;           /* 0: not said */
  int line;
} mal_found_link;
typedef struct mal_found {
  mal_found_link *links;
  int64_t count, switches, hosts;
} mal_found;

/* By content. Something else, or a line that cannot be read: MAL_BAD with file and line. */
mal_status mal_found_read(mal_arena *a, const char *path, mal_found *f, mal_error *e);
mal_status mal_found_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_found *f, mal_error *e);
/* CSV with the columns found and expected: renames devices. */
mal_status mal_found_rename(mal_arena *a, const char *path, mal_found *f, mal_error *e);
#endif
