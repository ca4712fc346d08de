/* What is really cabled, as the network itself says: `ibnetdiscover` of InfiniBand, LLDP of Ethernet (lldpctl -f json, or an
 * object of such answers by host name). Names are those of the network; a CSV of found,expected renames them. */
#ifndef MAL_DESIGN_WIRING_H
#define MAL_DESIGN_WIRING_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { MAL_WIRING_LIMIT_BYTES = 256 << 20 };

typedef struct mal_wire_end {
  const char *device; /* "leaf001", "node0001" */
  const char *part;   /* of a host: its adapter, "mlx5_0"; of a switch "" */
  int64_t port;
  bool is_switch;
} mal_wire_end;
typedef struct mal_wire { /* every cable once */
  mal_wire_end a, b;      /* a: a switch */
  double bytes_per_s;     /* 0: not said */
  int line;
} mal_wire;
typedef struct mal_wiring {
  mal_wire *links;
  int64_t count, switches, hosts;
} mal_wiring;

/* By content. Something else, or a line that cannot be read: MAL_BAD with file and line. */
mal_status mal_wiring_read(mal_arena *a, const char *path, mal_wiring *f, mal_error *e);
mal_status mal_wiring_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_wiring *f,
                            mal_error *e);
/* CSV with the columns found and expected: renames devices. */
mal_status mal_wiring_rename(mal_arena *a, const char *path, mal_wiring *f, mal_error *e);
#endif
