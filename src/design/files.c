#include "design/files.h"
#include <string.h>

/* --- Slurm ----------------------------------------------------------------------------------------------------------- */

typedef struct blocks { /* nodes that are near each other, by the first and last of each */
  int64_t size, count;
  const char *word; /* "su" of a scalable unit, "leaf", "nvl" of an NVLink domain */
  bool nvlink;
} blocks;

static blocks blocks_of(const mal_design *d) {
  const mal_network *n = &d->compute;
  int64_t domain = d->machine.node->nvlink_domain, gpus = d->machine.node->gpus;
  blocks b = {d->nodes, 1, "leaf", false};
  if (domain > gpus) {
    b = (blocks){domain / gpus, 0, "nvl", true};
  } else if (d->has_fabric && n->tiers != 1 && n->ask.topology == MAL_TOPOLOGY_RAIL) {
    b = (blocks){n->unit_nodes, 0, "su", false};
  } else if (d->has_fabric && n->tiers != 1) {
    int64_t each = n->down / n->ask.rails;
    b.size = each > 0 ? each : 1;
  }
  b.count = (d->nodes + b.size - 1) / b.size;
  return b;
}

static char *node_range(mal_arena *a, const mal_design *d, const blocks *b, int64_t i) {
  int64_t first = i * b->size + 1, last = first + b->size - 1;
  if (last > d->nodes) last = d->nodes;
  if (first == last) return mal_print(a, "node%04lld", (long long)first);
  return mal_print(a, "node[%04lld-%04lld]", (long long)first, (long long)last);
}

static char *block_range(mal_arena *a, const blocks *b) {
  if (b->count == 1) return mal_print(a, "%s001", b->word);
  return mal_print(a, "%s[001-%03lld]", b->word, (long long)b->count);
}

char *mal_design_topology_conf(mal_arena *a, const mal_design *d) {
  mal_writing w = {.arena = a};
  blocks b = blocks_of(d);
  mal_write(&w, "# slurm.conf: TopologyPlugin=topology/%s\n", b.nvlink ? "block" : "tree");
  for (int64_t i = 0; i < b.count; i++)
    mal_write(&w, b.nvlink ? "BlockName=%s%03lld Nodes=%s\n" : "SwitchName=%s%03lld Nodes=%s\n", b.word,
              (long long)i + 1, node_range(a, d, &b, i));
  if (b.nvlink)
    mal_write(&w, "BlockSizes=%lld\n", (long long)b.size);
  else if (b.count > 1)
    mal_write(&w, "SwitchName=spine Switches=%s\n", block_range(a, &b));
  return w.text;
}

char *mal_design_topology_yaml(mal_arena *a, const mal_design *d) {
  mal_writing w = {.arena = a};
  blocks b = blocks_of(d);
  mal_write(&w, "---\n- topology: fabric\n  cluster_default: true\n  %s:\n", b.nvlink ? "block" : "tree");
  if (b.nvlink)
    mal_write(&w, "    block_sizes:\n      - %lld\n    blocks:\n", (long long)b.size);
  else
    mal_write(&w, "    switches:\n");
  if (!b.nvlink && b.count > 1) mal_write(&w, "      - switch: spine\n        children: %s\n", block_range(a, &b));
  for (int64_t i = 0; i < b.count; i++)
    mal_write(&w, "      - %s: %s%03lld\n        nodes: %s\n", b.nvlink ? "block" : "switch", b.word, (long long)i + 1,
              node_range(a, d, &b, i));
  return w.text;
}

/* --- addresses ------------------------------------------------------------------------------------------------------- */

enum { SUBNET = 1 << 16, FIRST_HOST = 10 };

/* Host number i of a /16: x.y.(i+10 over 256), none ends in 0 or 255. */
static void put_address(mal_writing *w, const char *device, const char *network, int64_t rail, int64_t second,
                        int64_t i) {
  int64_t host = FIRST_HOST + i, third = host / 250, last = host % 250 + 2;
  mal_write(w, "%s,%s,", device, network);
  if (rail >= 0) mal_write(w, "%lld", (long long)rail);
  mal_write(w, ",10.%lld.%lld.%lld/16\n", (long long)second, (long long)third, (long long)last);
}

static bool has_inband(int kind) {
  return kind == MAL_UNIT_NODE || kind == MAL_UNIT_STORAGE_SERVER || kind == MAL_UNIT_MANAGEMENT ||
         kind == MAL_UNIT_FABRIC_MANAGER;
}

char *mal_design_addresses_csv(mal_arena *a, const mal_design *d) {
  enum { INBAND = 200, OOB = 201, RAIL = 100 };
  mal_writing w = {.arena = a};
  int64_t inband = 0;
  mal_write(&w, "device,network,rail,address\n");
  for (int64_t i = 0; i < d->hall.n_units; i++) {
    const mal_unit *u = &d->hall.units[i];
    if (has_inband(u->kind)) put_address(&w, u->name, "in-band", -1, INBAND, inband++);
    put_address(&w, u->name, "out-of-band", -1, OOB, i);
  }
  if (d->has_fabric && d->leaf->kind == MAL_ETHERNET)
    for (int64_t r = 0; r < d->compute.ask.rails && r < 64; r++)
      for (int64_t i = 0; i < d->nodes; i++) put_address(&w, d->hall.units[i].name, "compute", r, RAIL + r, i);
  return w.text;
}
