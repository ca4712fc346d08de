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

enum { SUBNET_HOSTS = 62000, EACH = 250, FIRST_HOST = 10 };

typedef struct subnet {
  int64_t second, prefix; /* 10.second.0.0/prefix */
} subnet;

/* A /16 each; of more hosts than one holds, in-band and out-of-band take a /11 and rails share the lower half of 10/8. */
static subnet subnet_of(const mal_design *d, int network, int64_t rail) {
  bool large = d->hall.n_units > SUBNET_HOSTS;
  int64_t rails = d->compute.ask.rails > 0 ? d->compute.ask.rails : 1;
  if (network == MAL_ADDRESS_INBAND) return large ? (subnet){160, 11} : (subnet){200, 16};
  if (network == MAL_ADDRESS_OOB) return large ? (subnet){192, 11} : (subnet){201, 16};
  if (!large) return (subnet){100 + rail, 16};
  int64_t step = 16;
  while (step > 1 && step * rails > 128) step /= 2;
  return (subnet){step * rail, step == 16 ? 12 : step == 8 ? 13 : step == 4 ? 14 : 15};
}

/* Host number i: x.y.(i + 10 over 250), none ends in 0, 1 or 255. */
char *mal_design_address(mal_arena *a, const mal_design *d, int network, int64_t rail, int64_t i) {
  subnet n = subnet_of(d, network, rail);
  int64_t host = FIRST_HOST + i, third = host / EACH, last = host % EACH + 2;
  return mal_print(a, "10.%lld.%lld.%lld", (long long)(n.second + third / EACH), (long long)(third % EACH),
                   (long long)last);
}

static void put_address(mal_writing *w, const mal_design *d, const char *device, const char *network, int kind,
                        int64_t rail, int64_t i) {
  mal_write(w, "%s,%s,", device, network);
  if (rail >= 0) mal_write(w, "%lld", (long long)rail);
  mal_write(w, ",%s/%lld\n", mal_design_address(w->arena, d, kind, rail, i),
            (long long)subnet_of(d, kind, rail).prefix);
}

bool mal_design_has_inband(int kind) {
  return kind == MAL_UNIT_NODE || kind == MAL_UNIT_STORAGE_SERVER || kind == MAL_UNIT_MANAGEMENT ||
         kind == MAL_UNIT_FABRIC_MANAGER;
}

char *mal_design_addresses_csv(mal_arena *a, const mal_design *d) {
  mal_writing w = {.arena = a};
  int64_t inband = 0;
  mal_write(&w, "device,network,rail,address\n");
  for (int64_t i = 0; i < d->hall.n_units; i++) {
    const mal_unit *u = &d->hall.units[i];
    if (mal_design_has_inband(u->kind)) put_address(&w, d, u->name, "in-band", MAL_ADDRESS_INBAND, -1, inband++);
    put_address(&w, d, u->name, "out-of-band", MAL_ADDRESS_OOB, -1, i);
  }
  if (d->has_fabric && d->leaf->kind == MAL_ETHERNET)
    for (int64_t r = 0; r < d->compute.ask.rails && r < 64; r++)
      for (int64_t i = 0; i < d->nodes; i++)
        put_address(&w, d, d->hall.units[i].name, "compute", MAL_ADDRESS_RAIL, r, i);
  return w.text;
}
