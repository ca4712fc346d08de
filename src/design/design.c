#include "design/design.h"
#include "core/units.h"
#include "reliability/reliability.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NODES_MOST = 1 << 20, FINDINGS = 64 };

#define AT(member) offsetof(mal_design_ask, member)
const mal_option mal_design_ask_options[] = {
    {"node", 0, MAL_OPT_TEXT, AT(node), "NAME", NULL, NULL, N_("the node, such as dgx-h100 (malha machines)")},
    {"nodes", 0, MAL_OPT_POSITIVE, AT(nodes), "N", NULL, NULL, N_("nodes; spares of --spares come on top")},
    {"gpus", 0, MAL_OPT_POSITIVE, AT(gpus), "N", NULL, NULL, N_("GPUs, instead of nodes")},
    {"single-node", 0, MAL_OPT_FLAG, AT(single_node), NULL, NULL, NULL, N_("one server in one rack, without a fabric")},
    {"site", 0, MAL_OPT_TEXT, AT(site), "NAME|FILE", NULL, NULL,
     N_("racks, power, floor and cooling (default: default)")},
    {"spares", 0, MAL_OPT_COUNT, AT(spares), "N", NULL, NULL,
     N_("spare nodes beside those (for a training target by default from failure rates)")},
    {"repair", 0, MAL_OPT_AMOUNT, AT(repair_s), "TIME", "s", NULL, N_("time until a failed node is back (default 7d)")},
    {"switch", 0, MAL_OPT_TEXT, AT(leaf), "NAME", NULL, NULL,
     N_("switch of the compute fabric (default: by the NICs' rate)")},
    {"ethernet", 0, MAL_OPT_FLAG, AT(ethernet), NULL, NULL, NULL, N_("RoCE instead of InfiniBand")},
    {"topology", 0, MAL_OPT_CHOICE, AT(topology), "KIND", NULL, mal_topology_name, N_("rail, tree or dragonfly")},
    {"oversubscription", 0, MAL_OPT_NUMBER, AT(oversubscription), "X", NULL, NULL,
     N_("ports down over links up of a leaf (default 1: none)")},
    {"ufm", 0, MAL_OPT_FLAG, AT(ufm), NULL, NULL, NULL, N_("fabric managers in the slot of one node")},
    {"whole-units", 0, MAL_OPT_FLAG, AT(whole_units), NULL, NULL, NULL,
     N_("build scalable units whole, one rail a leaf, to grow later")},
    {"grow", 0, MAL_OPT_POSITIVE, AT(grow), "N", NULL, NULL, N_("and what growing to N nodes re-cables")},
    {"years", 0, MAL_OPT_NUMBER, AT(years), "N", NULL, NULL,
     N_("years of use, for the cost of a GPU-hour (default 4)")},
    {"upkeep", 0, MAL_OPT_NUMBER, AT(upkeep), "SHARE", NULL, NULL,
     N_("people, repair and room a year, of what was paid (default 0)")},
    {"rent", 0, MAL_OPT_NUMBER, AT(rent), "X", NULL, NULL,
     N_("rent of one GPU-hour, to compare with (default: the catalogue's)")},
    {"storage-server", 0, MAL_OPT_TEXT, AT(storage_server), "NAME", NULL, NULL, N_("of catalog/storage")},
    {"data", 0, MAL_OPT_CHOICE, AT(data), "KIND", NULL, mal_data_level_name, N_("what is read: text, images or video")},
    {"dataset", 0, MAL_OPT_AMOUNT, AT(dataset_bytes), "BYTES", "B", NULL, N_("size of the dataset")},
    {"checkpoint", 0, MAL_OPT_AMOUNT, AT(checkpoint_bytes), "BYTES", "B", NULL,
     N_("size of a checkpoint (default: the model's)")},
    {"offload", 0, MAL_OPT_AMOUNT, AT(offload_bytes), "BYTES", "B", NULL,
     N_("states in the host memory of a node (default: as the model's layout has it)")},
    {"keep", 0, MAL_OPT_COUNT, AT(kept), "N", NULL, NULL, N_("checkpoints that are kept (default 10)")},
    {"goodput", 0, MAL_OPT_NUMBER, AT(goodput), "SHARE", NULL, NULL,
     N_("share of time that must train (default 0.95)")},
    {"restart", 0, MAL_OPT_QUANTITY, AT(restart_s), "TIME", "s", NULL,
     N_("time to restart after a failure (default 5min)")},
};
const int mal_design_ask_option_count = sizeof mal_design_ask_options / sizeof *mal_design_ask_options;

void mal_design_ask_default(mal_design_ask *k) {
  *k = (mal_design_ask){.site = "default",
                        .storage_server = "nvme-server",
                        .oversubscription = 1,
                        .spares = -1,
                        .repair_s = 7 * 86400.0,
                        .spare_share = 0.95,
                        .goodput = 0.95,
                        .restart_s = 300,
                        .kept = 10,
                        .years = 4};
}

void mal_design_find(mal_arena *a, mal_design *d, int severity, const char *format, ...) {
  char text[1024];
  va_list args;
  if (d->n_findings >= FINDINGS) return;
  if (!d->findings) d->findings = MAL_ARRAY(a, mal_finding, FINDINGS);
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  d->findings[d->n_findings++] = (mal_finding){severity, mal_copy(a, text)};
}

/* --- counting nodes -------------------------------------------------------------------------------------------------- */

static double failures_of(const mal_machine *m) {
  return mal_node_failures(m->gpu->failures_per_node_day.value, (double)m->node->gpus);
}

/* Fewest spares that suffice with the chance wanted: nodes in repair are Poisson with mean nodes · rate · repair. */
static int64_t spares_for(double mean, double chance) {
  double term = exp(-mean), sum = term;
  if (mean > 600) return (int64_t)ceil(mean + 1.65 * sqrt(mean)); /* normal, 95 % */
  int64_t k = 0;
  while (sum < chance && k < NODES_MOST) term *= mean / (double)++k, sum += term;
  return k;
}

/* A count that was given is what is built: spares are advised. For a training target they come on top. */
static void add_spares(mal_arena *a, mal_design *d, int64_t work) {
  const mal_design_ask *k = &d->ask;
  int64_t advised = spares_for((double)work * failures_of(&d->machine) * k->repair_s / 86400, k->spare_share);
  d->spares = k->spares >= 0 ? k->spares : k->for_target ? advised : 0;
  d->nodes = work + d->spares;
  if (k->spares < 0 && !k->for_target && !k->single_node && advised > 0)
    mal_design_find(a, d, MAL_NOTE,
                    P_("failures of such nodes and %.0f days of repair ask for %lld spare (--spares %lld): "
                       "then as many nodes as asked work %.0f %% of the time.",
                       "failures of such nodes and %.0f days of repair ask for %lld spares (--spares %lld): "
                       "then as many nodes as asked work %.0f %% of the time.",
                       advised),
                    k->repair_s / 86400, (long long)advised, (long long)advised, 100 * k->spare_share);
}

static mal_status count_nodes(mal_arena *a, mal_design *d, mal_error *e) {
  mal_design_ask *k = &d->ask;
  int64_t each = d->machine.node->gpus;
  if (k->single_node && k->nodes <= 0 && k->gpus <= 0) k->nodes = 1;
  if (k->nodes > 0 && k->gpus > 0) return mal_fail(e, MAL_BAD, _("--nodes and --gpus are both given; give one."));
  if (k->nodes <= 0 && k->gpus <= 0)
    return mal_fail(e, MAL_BAD, _("how large? Give --nodes N or --gpus N, or a model with --tokens and --deadline."));
  int64_t work = k->nodes > 0 ? k->nodes : (k->gpus + each - 1) / each;
  if (work > NODES_MOST)
    return mal_fail(e, MAL_BAD, _("%lld nodes are more than can be designed (%d)."), (long long)work, NODES_MOST);
  if (k->single_node && work > 1)
    return mal_fail(e, MAL_BAD, _("--single-node with %lld nodes; leave one of both out."), (long long)work);
  if (k->gpus > 0 && k->gpus % each)
    mal_design_find(a, d, MAL_NOTE, _("%lld GPUs are not whole nodes of %lld: rounded up to %lld nodes."),
                    (long long)k->gpus, (long long)each, (long long)work);
  d->spares = k->single_node ? 0 : k->spares;
  if (d->spares < 0)
    d->spares = spares_for((double)work * failures_of(&d->machine) * k->repair_s / 86400, k->spare_share);
  add_spares(a, d, work);
  return MAL_OK;
}

/* UFM takes the slot of one node where units would else be full: the rows 31, 63, 95, 127 of RA-11333-001 V11, table 4. */
static void give_slot_to_ufm(mal_arena *a, mal_design *d) {
  int64_t unit = d->leaf->ports / 2;
  if (!d->ask.ufm) return;
  d->managers = (int64_t)d->manager->each.value;
  if (d->nodes % unit || d->ask.topology != MAL_TOPOLOGY_RAIL) return;
  d->nodes--;
  if (d->spares > 0) d->spares--;
  mal_design_find(a, d, MAL_NOTE, _("UFM takes the slot of one node: %lld nodes (--ufm)."), (long long)d->nodes);
}

/* --- networks -------------------------------------------------------------------------------------------------------- */

static const char *default_switch(const mal_design *d) {
  double rate = d->machine.node->nic_bytes_per_s.value;
  if (d->ask.ethernet) return rate > 50e9 ? "sn5600" : rate > 25e9 ? "sn5600-400" : "sn4600";
  return rate > 50e9 ? "q3400-ra" : rate > 25e9 ? "qm9700" : "qm8700";
}

/* The storage fabric of the reference architecture is oversubscribed 4:3 at the nodes (RA-11333-001 V11). */
static const double storage_oversubscription = 4.0 / 3;

static mal_status make_networks(mal_design *d, mal_error *e) {
  const mal_chassis *c = d->chassis;
  const mal_storage_server *v = d->storage.server;
  int64_t rails = (int64_t)d->machine.node->nics.value;
  if (rails < 1)
    return mal_fail(e, MAL_BAD, _("node %s has no NICs for a fabric; give --single-node, or a node that has."),
                    d->machine.node->name);
  mal_network_ask compute = {.name = "",
                             .leaf = d->leaf,
                             .topology = d->ask.topology,
                             .nodes = d->nodes,
                             .rails = rails,
                             .oversubscription = d->ask.oversubscription,
                             .whole_units = d->ask.whole_units || d->managers > 0,
                             .managers = d->managers};
  mal_status s = mal_network_make(&compute, d->machine.node->nic_bytes_per_s.value, &d->compute, e);
  if (s != MAL_OK) return mal_fail_in(e, _("compute fabric"));
  mal_network_ask storage = {.name = "storage",
                             .leaf = d->leaf,
                             .topology = MAL_TOPOLOGY_TREE,
                             .nodes = d->nodes,
                             .rails = (int64_t)c->storage_ports.value,
                             .servers = d->storage.servers,
                             .server_ports = (int64_t)v->ports.value,
                             .oversubscription = storage_oversubscription};
  s = mal_network_make(&storage, c->storage_bytes_per_s.value, &d->storage_network, e);
  if (s != MAL_OK) return mal_fail_in(e, _("storage fabric"));
  return MAL_OK;
}

static mal_status grow(mal_arena *a, mal_design *d, mal_error *e) {
  mal_network_ask k = d->compute.ask;
  if (d->ask.grow <= 0) return MAL_OK;
  if (d->ask.grow < d->nodes)
    return mal_fail(e, MAL_BAD, _("--grow %lld is less than the %lld nodes to begin with."), (long long)d->ask.grow,
                    (long long)d->nodes);
  k.nodes = d->ask.grow, k.topology = d->ask.topology;
  mal_status s = mal_network_make(&k, d->machine.node->nic_bytes_per_s.value, &d->grown, e);
  if (s == MAL_OK) d->recabled = mal_network_recabled(a, &d->compute, &d->grown);
  return s;
}

/* --- storage --------------------------------------------------------------------------------------------------------- */

/* Warnings where a node is short of something, and what its PCIe switches do to traffic. */
static void judge_node(mal_arena *a, mal_design *d) {
  const mal_compute *c = &d->balance;
  for (int i = 0; i < MAL_NEED_KINDS; i++) {
    const mal_need *n = &c->needs[i];
    if (n->has <= 0 || n->needed <= n->has) continue;
    const char *needed = i == MAL_NEED_CORES ? mal_show_int((int64_t)n->needed) : mal_show_bytes(n->needed);
    mal_design_find(a, d, MAL_WARNING,
                    _("a node has %s of %s, %s are needed: order more, or read less from each node (--data, "
                      "--dataset, --checkpoint, --offload)."),
                    i == MAL_NEED_CORES ? mal_show_int((int64_t)n->has) : mal_show_bytes(n->has), _(mal_need_name[i]),
                    needed);
  }
  if (c->nic_bytes_per_s > 1.02 * c->nic_slot_bytes_per_s)
    mal_design_find(
        a, d, MAL_WARNING,
        _("an adapter of %.0f Gb/s sits on 16 PCIe lanes of %.0f Gb/s: the lanes are oversubscribed %.1f to 1."),
        c->nic_bytes_per_s * 8 / 1e9, c->nic_slot_bytes_per_s * 8 / 1e9, c->nic_bytes_per_s / c->nic_slot_bytes_per_s);
  if (c->pcie_known && c->nics < c->gpus)
    mal_design_find(a, d, MAL_WARNING,
                    _("under a PCIe switch %lld GPUs share %lld adapters: rails of the others cross the processor, "
                      "without GPUDirect RDMA's full rate."),
                    (long long)c->gpus, (long long)c->nics);
  if (!c->pcie_known && d->machine.node->nvlink_domain <= d->machine.node->gpus)
    mal_design_find(a, d, MAL_NOTE,
                    _("which GPUs, adapters and drives share a PCIe switch was not read for %s: malha probe --from "
                      "listings of one, malha check judges them."),
                    d->machine.node->name);
}

static void judge_ports(mal_arena *a, mal_design *d) {
  double nic = d->machine.node->nic_bytes_per_s.value, port = d->leaf->port_bytes_per_s.value;
  if (d->has_fabric && nic > 1.02 * port)
    mal_design_find(a, d, MAL_WARNING,
                    _("ports of %s give %.0f Gb/s; the node's adapters could %.0f: they run at %.0f %%."),
                    d->leaf->name, port * 8 / 1e9, nic * 8 / 1e9, 100 * port / nic);
}

static void balance(mal_arena *a, mal_design *d) {
  const mal_design_ask *k = &d->ask;
  mal_compute_ask ask = {.level = k->data,
                         .nodes = d->nodes,
                         .checkpoint_bytes = k->checkpoint_bytes,
                         .dataset_bytes = k->dataset_bytes,
                         .offload_bytes = k->offload_bytes,
                         .node_read_bytes_per_s = d->has_fabric ? mal_storage_node_read(k->data) : 0};
  mal_compute_make(&d->machine, d->chassis, &ask, &d->balance);
  judge_node(a, d);
  judge_ports(a, d);
}

static mal_status make_storage(mal_arena *a, mal_design *d, mal_error *e) {
  const mal_design_ask *k = &d->ask;
  mal_storage_server *server;
  mal_status s = mal_storage_server_load(a, k->storage_server, &server, e);
  if (s != MAL_OK) return s;
  const mal_chassis *c = d->chassis;
  mal_storage_ask ask = {.level = k->data,
                         .nodes = d->nodes,
                         .node_ports_bytes_per_s = c->storage_ports.value * c->storage_bytes_per_s.value,
                         .checkpoint_bytes = k->checkpoint_bytes,
                         .failures_per_node_day = failures_of(&d->machine),
                         .restart_s = k->restart_s,
                         .goodput = k->goodput,
                         .asynchronous = true,
                         .host_copy_bytes_per_s = d->balance.copy_bytes_per_s,
                         .kept = k->kept,
                         .dataset_bytes = k->dataset_bytes,
                         .node_nvme_bytes = d->machine.node->nvme_bytes.value};
  s = mal_storage_make(&ask, server, &d->storage, e);
  if (s != MAL_OK) return s;
  if (d->machine.node->ram_bytes.value > 0 &&
      k->checkpoint_bytes / (double)d->nodes > d->machine.node->ram_bytes.value / 2)
    mal_design_find(a, d, MAL_WARNING,
                    _("a checkpoint's share of a node, %.0f GB, is more than half of its memory: it "
                      "cannot be staged there and is written while training stops."),
                    k->checkpoint_bytes / (double)d->nodes / 1e9);
  return MAL_OK;
}

/* --- all together ---------------------------------------------------------------------------------------------------- */

static const double longest_s = 366 * 86400.0; /* of a repair: a year */

static mal_status check(const mal_design_ask *k, mal_error *e) {
  if (!(k->goodput > 0 && k->goodput < 1))
    return mal_fail(e, MAL_BAD, _("--goodput %g must lie between 0 and 1, such as 0.95."), k->goodput);
  if (!(k->repair_s <= longest_s) || !(k->restart_s <= longest_s))
    return mal_fail(e, MAL_BAD, _("--repair and --restart are %d days at most."), (int)(longest_s / 86400));
  if (k->spares > NODES_MOST)
    return mal_fail(e, MAL_BAD, _("--spares %lld is more than can be designed (%d)."), (long long)k->spares,
                    NODES_MOST);
  if (!(k->years > 0)) return mal_fail(e, MAL_BAD, _("--years %g must be above 0."), k->years);
  if (!k->node || !*k->node)
    return mal_fail(e, MAL_BAD, _("which node? Give --node, such as dgx-h100 (malha machines)."));
  return MAL_OK;
}

static mal_status load(mal_arena *a, mal_design *d, mal_error *e) {
  mal_status s = mal_machine_load(a, d->ask.node, &d->machine, e);
  if (s == MAL_OK && d->machine.nodes != 1)
    s = mal_fail(e, MAL_BAD, _("--node %s is more than one node; name the node, and give --nodes."), d->ask.node);
  if (s == MAL_OK && strcmp(d->machine.gpu->architecture, "cpu") == 0)
    s = mal_fail(e, MAL_BAD, _("--node %s has no GPUs; a cluster is designed of servers such as dgx-h100."),
                 d->ask.node);
  if (s == MAL_OK) s = mal_chassis_load(a, d->machine.node, &d->chassis, e);
  if (s == MAL_OK) s = mal_software_load(a, &d->machine, &d->software, e);
  if (s == MAL_OK) s = mal_site_load(a, d->ask.site, &d->site, e);
  if (s == MAL_OK) s = mal_switch_load(a, d->ask.leaf ? d->ask.leaf : default_switch(d), &d->leaf, e);
  if (s == MAL_OK) s = mal_switch_load(a, "sn4600c", &d->inband_switch, e);
  if (s == MAL_OK) s = mal_switch_load(a, "sn2201", &d->oob_switch, e);
  if (s == MAL_OK) s = mal_appliance_load(a, "management-server", &d->management, e);
  if (s == MAL_OK) s = mal_appliance_load(a, "ufm", &d->manager, e);
  return s;
}

static mal_status furnish(mal_arena *a, mal_design *d, mal_error *e) {
  mal_status s = MAL_OK;
  if (d->has_fabric) give_slot_to_ufm(a, d);
  balance(a, d);
  if (d->has_fabric) {
    s = make_storage(a, d, e);
    if (s == MAL_OK) s = make_networks(d, e);
    if (s == MAL_OK) s = grow(a, d, e);
  }
  return s == MAL_OK ? mal_design_units(a, d, e) : s;
}

mal_status mal_design_make(mal_arena *a, const mal_design_ask *ask, mal_design *d, mal_error *e) {
  *d = (mal_design){.ask = *ask};
  mal_status s = check(ask, e);
  if (s == MAL_OK) s = load(a, d, e);
  if (s == MAL_OK) s = count_nodes(a, d, e);
  if (s != MAL_OK) return s;
  d->has_fabric = !ask->single_node;
  s = furnish(a, d, e);
  if (s != MAL_OK) return s;
  mal_design_cables(a, d);
  mal_design_power(a, d);
  mal_design_cool(a, d);
  mal_design_parts(a, d);
  return MAL_OK;
}
