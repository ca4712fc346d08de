/* A found node: as a text tree, as JSON (docs/schema/probe.json), as a drawing. */
#ifndef MAL_REPORT_NODE_H
#define MAL_REPORT_NODE_H
#include "layout/placement.h"
#include "report/page.h"
#include <jansson.h>

enum { MAL_NODE_VERSION = 1 };

typedef struct mal_node_report {
  const mal_topology *topology;
  const mal_rank_place *places;
  int n_places;
  const mal_ride *rides; /* of --layout, or of the pairs, fours and whole node */
  int n_rides;
  const char *gpu; /* catalogue name; NULL */
  const char *command;
} mal_node_report;

void mal_report_node(mal_page *p, const mal_node_report *r);
json_t *mal_report_node_json(const mal_node_report *r);
/* SVG: NUMA nodes with their PCIe trees, NVLinks, and a line from each GPU to its NIC (its rail). */
char *mal_report_node_svg(mal_arena *a, const mal_node_report *r);
#endif
