/* Everything that stands in a rack: counted, then put there. In-band and out-of-band switches depend on what else there is, and
 * PDUs on the racks, so the last two are counted again until they agree. */
#include "design/design.h"
#include <math.h>
#include <string.h>

/* In-band: leaves in pairs, each node on both; of a leaf's ports 4 lead to the two cores and 2 to its partner. Out-of-band:
 * pairs too, two uplinks a switch. So the bill of materials of RA-11333-001 V11 (4 units) comes out: 6 leaves and 2 cores,
 * 24 and 6 cables between them; 8 switches of 48 ports with 16 uplinks. */
enum { LEAF_TO_CORE = MAL_INBAND_UPLINKS, LEAF_TO_PARTNER = 2, OOB_UPLINKS = 2, ROUNDS = 8 };
typedef struct list {
  mal_arena *arena;
  mal_unit *units;
  int64_t n, room;
} list;

static void add(list *l, mal_unit u, const char *name) {
  if (l->n == l->room) {
    l->units = mal_grow(l->arena, l->units, (size_t)l->room, (size_t)(2 * l->room + 64), sizeof *l->units);
    l->room = 2 * l->room + 64;
  }
  u.name = name;
  l->units[l->n++] = u;
}

static mal_unit appliance_unit(const mal_appliance *p, int kind) {
  return (mal_unit){.model = p->name,
                    .kind = kind,
                    .ru = p->ru.value,
                    .kg = p->weight_kg.value,
                    .idle_w = p->idle_w.value,
                    .training_w = p->training_w.value,
                    .max_w = p->max_w.value,
                    .supplies = (int64_t)p->supplies.value,
                    .supplies_full = (int64_t)p->supplies_full.value};
}

static mal_unit node_unit(const mal_design *d) {
  const mal_chassis *c = d->chassis;
  return (mal_unit){.model = d->machine.node->name,
                    .kind = MAL_UNIT_NODE,
                    .ru = c->ru.value,
                    .kg = c->weight_kg.value,
                    .idle_w = c->max_w.value * c->idle_share.value,
                    .training_w = c->max_w.value * c->training_share.value,
                    .max_w = c->max_w.value,
                    .supplies = (int64_t)c->supplies.value,
                    .supplies_full = (int64_t)c->supplies_full.value,
                    .supplies_run = (int64_t)c->supplies_run.value,
                    .supply_w = c->supply_w.value,
                    .airflow_m3_per_s = c->airflow_m3_per_s.value,
                    .c19 = true};
}

static mal_unit switch_unit(const mal_switch *s, int kind, bool leaf) {
  double typical = s->typical_w.value, most = s->max_w.value > typical ? s->max_w.value : typical;
  return (mal_unit){.model = s->name,
                    .kind = kind,
                    .leaf = leaf,
                    .ru = s->ru.value,
                    .kg = s->weight_kg.value,
                    .idle_w = typical,
                    .training_w = typical,
                    .max_w = most,
                    .supplies = s->supplies.value > 0 ? (int64_t)s->supplies.value : 1,
                    .supplies_full = s->supplies.value > 1 ? (int64_t)s->supplies.value / 2 : 1};
}

/* Of the most that a storage server draws, at rest and under the load of training. Judgement: no measurement was read. */
static const double server_idle_share = 0.5, server_training_share = 0.7;

static mal_unit server_unit(const mal_storage_server *s) {
  return (mal_unit){.model = s->name,
                    .kind = MAL_UNIT_STORAGE_SERVER,
                    .ru = s->ru.value,
                    .kg = s->weight_kg.value,
                    .idle_w = s->max_w.value * server_idle_share,
                    .training_w = s->max_w.value * server_training_share,
                    .max_w = s->max_w.value,
                    .supplies = (int64_t)s->supplies.value,
                    .supplies_full = (int64_t)(s->supplies.value + 1) / 2};
}

static void add_network(list *l, const mal_network *n, int kind) {
  static const int tiers[] = {MAL_DEV_LEAF, MAL_DEV_SPINE, MAL_DEV_CORE};
  const int64_t counts[] = {n->leaves, n->spines, n->cores};
  for (int t = 0; t < 3; t++)
    for (int64_t i = 0; i < counts[t]; i++) {
      bool near = kind == MAL_UNIT_COMPUTE_SWITCH && tiers[t] == MAL_DEV_LEAF;
      add(l, switch_unit(n->ask.leaf, kind, near), mal_device_label(l->arena, n, (mal_device){tiers[t], i}));
    }
}

/* The order of the list is the order that mal_design_unit_of counts by. */
static void add_all(list *l, mal_design *d) {
  mal_arena *a = l->arena;
  for (int64_t i = 0; i < d->nodes; i++)
    add(l, node_unit(d), mal_device_label(a, &d->compute, (mal_device){MAL_DEV_NODE, i}));
  if (!d->has_fabric) return;
  add_network(l, &d->compute, MAL_UNIT_COMPUTE_SWITCH);
  add_network(l, &d->storage_network, MAL_UNIT_STORAGE_SWITCH);
  for (int64_t i = 0; i < d->storage.servers; i++)
    add(l, server_unit(d->storage.server), mal_device_label(a, &d->storage_network, (mal_device){MAL_DEV_SERVER, i}));
  for (int64_t i = 0; i < d->managers; i++)
    add(l, appliance_unit(d->manager, MAL_UNIT_FABRIC_MANAGER),
        mal_device_label(a, &d->compute, (mal_device){MAL_DEV_MANAGER, i}));
  for (int64_t i = 0; i < d->management_servers; i++)
    add(l, appliance_unit(d->management, MAL_UNIT_MANAGEMENT), mal_print(a, "mgmt%02lld", (long long)i + 1));
  for (int64_t i = 0; i < d->inband_leaves; i++)
    add(l, switch_unit(d->inband_switch, MAL_UNIT_INBAND_SWITCH, false),
        mal_print(a, "inband-leaf%03lld", (long long)i + 1));
  for (int64_t i = 0; i < mal_design_inband_cores(d); i++)
    add(l, switch_unit(d->inband_switch, MAL_UNIT_INBAND_SWITCH, false),
        mal_print(a, "inband-core%03lld", (long long)i + 1));
  for (int64_t i = 0; i < d->oob_switches; i++)
    add(l, switch_unit(d->oob_switch, MAL_UNIT_OOB_SWITCH, false), mal_print(a, "oob%03lld", (long long)i + 1));
}

int64_t mal_design_unit_of(const mal_design *d, bool storage, mal_device v) {
  const mal_network *c = &d->compute, *s = &d->storage_network;
  int64_t compute = d->nodes, store = compute + mal_network_switches(c), servers = store + mal_network_switches(s);
  const mal_network *n = storage ? s : c;
  int64_t base = storage ? store : compute;
  switch (v.kind) {
  case MAL_DEV_NODE: return v.index;
  case MAL_DEV_LEAF: return base + v.index;
  case MAL_DEV_SPINE: return base + n->leaves + v.index;
  case MAL_DEV_CORE: return base + n->leaves + n->spines + v.index;
  case MAL_DEV_SERVER: return servers + v.index;
  default: return servers + d->storage.servers + v.index;
  }
}

static int64_t pairs(double count) { return 2 * (int64_t)ceil(count / 2 - 1e-9); }

/* In-band ports: nodes, management, storage servers and the uplinks of out-of-band switches, two each. */
static void count_inband(mal_design *d) {
  double ports = (double)d->nodes * d->chassis->inband_ports.value +
                 d->management->inband_ports.value * (double)d->management_servers +
                 d->manager->inband_ports.value * (double)d->managers + 2 * (double)d->storage.servers +
                 OOB_UPLINKS * (double)d->oob_switches;
  double usable = (double)(d->inband_switch->ports - LEAF_TO_CORE - LEAF_TO_PARTNER);
  bool one_pair = ports <= 2 * (double)(d->inband_switch->ports - LEAF_TO_PARTNER);
  d->inband_leaves = one_pair ? 2 : pairs(ports / usable);
}

/* A zone is as many leaves as a core has ports beside its own uplinks. Few leaves: two cores, two links to each; else four. */
static void count_inband_cores(mal_design *d) {
  int64_t most = d->inband_switch->ports - 2 * LEAF_TO_CORE;
  if (d->inband_leaves <= 2) return;
  d->inband_zones = (d->inband_leaves + most - 1) / most;
  d->inband_zone_cores = d->inband_leaves <= most / 2 ? 2 : 4;
  d->inband_supers = d->inband_zones > 1 ? 2 : 0;
}

int64_t mal_design_inband_cores(const mal_design *d) {
  return d->inband_zones * d->inband_zone_cores + d->inband_supers;
}

/* One port of each BMC, switch, manager and PDU. */
static void count_oob(mal_design *d) {
  double ports = (double)d->nodes * d->chassis->oob_ports.value + (double)mal_network_switches(&d->compute) +
                 (double)mal_network_switches(&d->storage_network) +
                 (double)(d->inband_leaves + mal_design_inband_cores(d)) +
                 (double)(d->managers + d->management_servers + d->storage.servers + d->pdus);
  d->oob_switches = pairs(ports / (double)d->oob_switch->ports);
}

static mal_status fill_once(mal_arena *a, mal_design *d, mal_error *e) {
  list l = {.arena = a};
  add_all(&l, d);
  mal_status s = mal_hall_fill(a, &d->site, l.units, l.n, &d->hall, e);
  d->pdus = 0;
  for (int64_t i = 0; i < d->hall.n_racks && s == MAL_OK; i++) d->pdus += mal_rack_feeds(&d->hall, &d->hall.racks[i]);
  return s;
}

mal_status mal_design_units(mal_arena *a, mal_design *d, mal_error *e) {
  d->management_servers = d->has_fabric ? (int64_t)d->management->each.value : 0;
  for (int round = 0; round < ROUNDS; round++) {
    int64_t inband = d->inband_leaves, oob = d->oob_switches;
    if (d->has_fabric) count_inband(d), count_oob(d);
    if (d->inband_leaves < inband) d->inband_leaves = inband; /* only ever more, so that it ends */
    if (d->has_fabric) count_inband_cores(d);
    if (d->oob_switches < oob) d->oob_switches = oob;
    bool settled = round > 1 && inband == d->inband_leaves && oob == d->oob_switches;
    if (settled) return MAL_OK;
    mal_status s = fill_once(a, d, e);
    if (s != MAL_OK || !d->has_fabric) return s;
  }
  return mal_fail(e, MAL_FAULT, _("racks and management switches do not agree after %d rounds."), ROUNDS);
}
