/* NICs: where they sit, how many there are, their ports and counters; and the CPUs that GPUs are near. */
#include "check/node/health.h"
#include "core/units.h"
#include <ctype.h>
#include <string.h>

enum { LIST = 256 };

typedef struct ways {
  mal_part *gpus[LIST], *rails[LIST];
  mal_path best[LIST]; /* of each GPU: its nearest NIC */
  int near[LIST];      /* index of that rail */
  int n, n_rails, on_switch, known;
} ways;

static void find_ways(mal_health *h, ways *w) {
  w->n = mal_parts_of(&h->topology, MAL_PART_GPU, w->gpus, LIST);
  w->n_rails = mal_topology_rails(&h->topology, w->rails, LIST);
  w->on_switch = w->known = 0;
  for (int i = 0; i < w->n; i++) {
    w->best[i] = MAL_PATH_UNKNOWN;
    w->near[i] = -1;
    for (int k = 0; k < w->n_rails; k++) {
      mal_path path = mal_path_between(&h->topology, w->gpus[i], w->rails[k]);
      if (path != MAL_PATH_UNKNOWN && (w->best[i] == MAL_PATH_UNKNOWN || path < w->best[i]))
        w->best[i] = path, w->near[i] = k;
    }
    w->known += w->best[i] != MAL_PATH_UNKNOWN;
    w->on_switch += w->best[i] == MAL_PATH_PIX || w->best[i] == MAL_PATH_PXB;
  }
}

static void judge_distance(mal_health *h, const ways *w) {
  if (!w->known || !w->n_rails) return;
  h->judged[MAL_RULE_NIC_DISTANCE] = true;
  bool most = 2 * w->on_switch > w->known;
  for (int i = 0; i < w->n; i++) {
    if (w->best[i] <= MAL_PATH_PXB) continue; /* near, or not known */
    bool far = w->best[i] == MAL_PATH_SYS;
    if (!w->on_switch && !far) continue; /* no GPU has a nearer one: built so */
    const mal_part *nic = w->rails[w->near[i]];
    const mal_wire *wire = mal_find_wire(&h->topology, w->gpus[i], nic);
    mal_finding *f =
        mal_find(h, MAL_RULE_NIC_DISTANCE, most ? MAL_SEV_ERROR : MAL_SEV_WARNING, mal_part_label(h->arena, w->gpus[i]),
                 wire->from,
                 mal_print(h->arena, _("its nearest NIC is %s, at %s%s"), mal_part_label(h->arena, nic),
                           mal_path_name[w->best[i]], w->on_switch ? _("; other GPUs have one on their switch") : ""),
                 most  ? _("a NIC is missing, dead, or passed through to the wrong place")
                 : far ? _("the NICs hang on the other socket")
                       : _("fewer NICs than GPUs"),
                 most ? _("compare lspci with the node's list of NICs; look for a port that is down")
                      : _("let NCCL cross NVLink to a GPU beside the NIC (PXN, on by default with NVSwitch); move NICs "
                          "if you can"));
    f->damage.nic = far ? 0.5 : 0.8; /* PCIe reads across sockets: about half of a switch's rate */
  }
}

static void judge_number(mal_health *h, const ways *w) {
  if (!w->n || !w->n_rails) return;
  double rails = w->n > 8 ? w->n / 2.0 : w->n; /* sixteen GPUs share NICs by two (DGX-2) */
  double wanted = h->has_machine                                     ? h->machine.node->nics.value
                  : w->n >= 8 && mal_topology_switched(&h->topology) ? rails
                                                                     : 0;
  if (h->has_machine && w->n < h->machine.node->gpus) wanted *= (double)w->n / (double)h->machine.node->gpus;
  wanted *= (double)w->known / w->n; /* of GPUs that a cut listing leaves out no NIC is known */
  if (wanted <= 0 || !w->known) return;
  h->judged[MAL_RULE_NIC_COUNT] = true;
  if (w->n_rails >= wanted) return;
  const mal_part *first = w->rails[0];
  mal_find(h, MAL_RULE_NIC_COUNT, h->on ? MAL_SEV_ERROR : MAL_SEV_WARNING, "", first->from,
           h->has_machine
               ? mal_print(h->arena, _("%d NICs for training, %s has %.0f"), w->n_rails, h->machine.node->title, wanted)
               : mal_print(h->arena, _("%d NICs for training and %d GPUs on NVSwitches: fewer NICs than rails"),
                           w->n_rails, w->n),
           _("a server built with fewer NICs, or NICs that are missing or down"),
           _("for training on several nodes count on the bandwidth there is, or add NICs"))
      ->damage.nic = w->n_rails / wanted;
}

static void judge_order(mal_health *h, const ways *w) {
  int up = 0, down = 0, last = -1;
  if (w->n < 2 || w->n_rails < 2 || w->on_switch < w->n) return;
  h->judged[MAL_RULE_RAIL_ORDER] = true;
  for (int i = 0; i < w->n; i++) {
    if (last >= 0 && w->near[i] != last) *(w->near[i] > last ? &up : &down) += 1;
    last = w->near[i];
  }
  if (!down) return;
  bool reversed = !up;
  mal_find(h, MAL_RULE_RAIL_ORDER, reversed ? MAL_SEV_WARNING : MAL_SEV_NOTE, "", w->gpus[0]->from,
           reversed ? _("NICs are in the reverse order of GPUs: GPU0 is nearest to the last one")
                    : _("NICs are not in the order of GPUs"),
           _("PCI addresses are given by slot, not by rail"),
           _("never bind by index (NIC k for rank k): take the NIC of malha probe, or let NCCL choose; cable rails by "
             "NIC position, alike on all nodes"));
}

/* "0-31" lists of which one holds the other? Compared as sets of at most 4096 CPUs. */
static bool within(mal_arena *a, const char *inner, const char *outer) {
  enum { CPUS = 4096 };
  unsigned char *set = MAL_ARRAY(a, unsigned char, CPUS);
  for (int pass = 0; pass < 2; pass++)
    for (const char *at = pass ? inner : outer; at && *at;) {
      int first, last, used = 0;
      if (sscanf(at, "%d-%d%n", &first, &last, &used) < 2) {
        if (sscanf(at, "%d%n", &first, &used) != 1) return true;
        last = first;
      }
      if (used == 0) return true;
      for (int c = first < 0 ? 0 : first; c <= last && c < CPUS; c++) {
        if (!pass)
          set[c] = 1;
        else if (!set[c])
          return false;
      }
      at += used;
      if (*at != ',') break;
      at++;
    }
  return true;
}

static void judge_affinity(mal_health *h, const ways *w) {
  bool crosses = false;
  int numa_said = 0, lists = 0;
  for (int i = 0; i < w->n; i++) {
    numa_said += mal_known(w->gpus[i], MAL_F_NUMA);
    lists += mal_fact_text(w->gpus[i], MAL_F_CPUS) != NULL;
    for (int j = 0; j < i; j++)
      crosses = crosses || mal_path_between(&h->topology, w->gpus[i], w->gpus[j]) == MAL_PATH_SYS;
  }
  if (w->n > 1 && (lists || numa_said)) h->judged[MAL_RULE_AFFINITY] = true;
  for (int i = 0; i < w->n && !crosses;
       i++) /* on NVSwitches all pairs of GPUs are alike: NICs tell the sockets apart */
    for (int k = 0; k < w->n_rails; k++)
      crosses = crosses || mal_path_between(&h->topology, w->gpus[i], w->rails[k]) == MAL_PATH_SYS;
  bool alike =
      w->n >= 8 && lists == w->n && mal_topology_switched(&h->topology); /* eight such GPUs hang on two sockets */
  for (int i = 1; alike && i < w->n; i++)
    alike = strcmp(mal_fact_text(w->gpus[i], MAL_F_CPUS), mal_fact_text(w->gpus[0], MAL_F_CPUS)) == 0;
  if (w->n > 1 && (crosses || alike) && lists == w->n && !numa_said)
    mal_find(h, MAL_RULE_AFFINITY, MAL_SEV_WARNING, "", w->gpus[0]->from,
             _("GPUs are on several NUMA nodes, and which is hidden"),
             _("a container or VM that does not show the NUMA nodes"),
             _("pass the host's topology to the VM, or bind ranks by a topology file of the host (NCCL_TOPO_FILE)"));
  for (int i = 0; i < w->n; i++)
    for (int j = 0; j < i; j++) {
      int x = (int)mal_fact_number(w->gpus[i], MAL_F_NUMA, -1), y = (int)mal_fact_number(w->gpus[j], MAL_F_NUMA, -1);
      const mal_wire *wire = mal_find_wire(&h->topology, w->gpus[i], w->gpus[j]);
      if (x < 0 || x != y || !wire || wire->path != MAL_PATH_SYS || !wire->from.file) continue;
      mal_find(h, MAL_RULE_AFFINITY, MAL_SEV_ERROR, mal_part_label(h->arena, w->gpus[i]),
               w->gpus[i]->fact[MAL_F_NUMA].from,
               mal_print(h->arena, _("NUMA node %d as %s, but the path between them crosses sockets (SYS)"), x,
                         mal_part_label(h->arena, w->gpus[j])),
               _("firmware or a VM gives the wrong NUMA node: ranks get cores and memory of the other socket"),
               _("update the firmware; in a VM map each GPU to its host's NUMA node"));
      break;
    }
  for (int i = 0; i < w->n; i++) {
    const char *cpus = mal_fact_text(w->gpus[i], MAL_F_CPUS);
    const mal_part *node = mal_find_part(&h->topology, MAL_PART_NUMA, (int)mal_fact_number(w->gpus[i], MAL_F_NUMA, -1));
    const char *of_node = node ? mal_fact_text(node, MAL_F_CPUS) : NULL;
    if (!cpus || !of_node || within(h->arena, cpus, of_node)) continue;
    mal_find(h, MAL_RULE_AFFINITY, MAL_SEV_ERROR, mal_part_label(h->arena, w->gpus[i]),
             w->gpus[i]->fact[MAL_F_CPUS].from,
             mal_print(h->arena, _("its CPUs are %s, its NUMA node %d has %s"), cpus, node->index, of_node),
             _("the driver and the system disagree about which cores are near"),
             _("bind ranks by NUMA node (malha probe); update the firmware"));
  }
}

static void judge_gpudirect(mal_health *h, const ways *w) {
  for (int k = 0; k < w->n_rails; k++) {
    const mal_part *nic = w->rails[k];
    if (!mal_known(nic, MAL_F_GDR)) continue;
    h->judged[MAL_RULE_GPUDIRECT] = true;
    if (mal_fact_number(nic, MAL_F_GDR, 1) > 0) continue;
    mal_find(h, MAL_RULE_GPUDIRECT, MAL_SEV_ERROR, mal_part_label(h->arena, nic), nic->fact[MAL_F_GDR].from,
             _("NCCL found no GPUDirect RDMA on this NIC (gdr=\"0\")"),
             _("the module nvidia-peermem is not loaded, or the kernel and driver lack dma-buf"),
             _("modprobe nvidia-peermem, or a kernel of 5.12 or later with the open driver; in a VM switch ATS on"))
        ->damage.nic = 0.5; /* data goes through host memory: twice over the same links */
  }
}

/* ibstat names the chip (MT4129), on which boards of several rates and firmwares are built; /sys the board (MT_0000000838). */
static bool is_chip(const char *board) { return board && mal_starts(board, "MT") && isdigit((unsigned char)board[2]); }

static bool is_up(const char *state) { return strcmp(state, "ACTIVE") == 0 || strcmp(state, "Active") == 0; }

static void judge_ports(mal_health *h) {
  double most = 0;
  for (int i = 0; i < h->topology.n_devices; i++) {
    const mal_part *d = &h->topology.devices[i];
    if (mal_nic_computes(d) && mal_fact_number(d, MAL_F_RATE, 0) > most) most = mal_fact_number(d, MAL_F_RATE, 0);
  }
  for (int i = 0; i < h->topology.n_devices; i++) {
    const mal_part *d = &h->topology.devices[i];
    const char *state = mal_fact_text(d, MAL_F_STATE), *physical = mal_fact_text(d, MAL_F_PHYSICAL),
               *board = mal_fact_text(d, MAL_F_BOARD);
    if (!mal_nic_computes(d) || !state) continue;
    h->judged[MAL_RULE_PORT_STATE] = true;
    const char *label = mal_part_label(h->arena, d);
    if (!is_up(state)) {
      mal_find(h, MAL_RULE_PORT_STATE, MAL_SEV_ERROR, label, d->fact[MAL_F_STATE].from,
               mal_print(h->arena, _("the port is %s%s%s"), state, physical ? ", " : "", physical ? physical : ""),
               strcmp(state, "INIT") == 0 || strcmp(state, "Initializing") == 0
                   ? _("no subnet manager reached it")
                   : _("cable or transceiver missing or dead, or the switch port is off"),
               _("look at cable and transceiver (mlxlink -d DEVICE -m), the switch port, and the subnet manager"))
          ->damage.nic = 0.875;
      continue;
    }
    int faster = 0, alike = 0; /* ports of the same board */
    for (int j = 0; j < h->topology.n_devices; j++) {
      const mal_part *o = &h->topology.devices[j];
      const char *other = mal_fact_text(o, MAL_F_BOARD);
      if (!mal_nic_computes(o) || !board || !other || strcmp(board, other) != 0) continue;
      alike++;
      faster += mal_fact_number(o, MAL_F_RATE, 0) > 1.01 * mal_fact_number(d, MAL_F_RATE, 1e30);
    }
    bool slower = is_chip(board) ? 2 * faster > alike : faster > 0; /* a chip is on boards of several rates */
    if (slower)
      mal_find(h, MAL_RULE_PORT_STATE, MAL_SEV_ERROR, label, d->fact[MAL_F_RATE].from,
               mal_print(h->arena, _("the port runs at %.0f Gb/s, others of its board at %.0f Gb/s"),
                         mal_fact_number(d, MAL_F_RATE, 0) / 1e9, most / 1e9),
               _("lanes or speed lost: cable, transceiver or switch port"),
               _("swap cable and transceiver; look at mlxlink"))
          ->damage.nic = mal_fact_number(d, MAL_F_RATE, 0) / most;
  }
}

static const mal_counter *counter(const mal_part *d, const char *name) {
  for (int i = 0; i < d->n_counters; i++)
    if (strcmp(d->counters[i].name, name) == 0) return &d->counters[i];
  return NULL;
}

/* Counters that say that a cable is bad. Data counters are in words of 4 bytes (InfiniBand architecture, PortCounters). */
static void judge_port_errors(mal_health *h, const mal_part *d) {
  static const double bit_error_rate = 1e-12; /* what a healthy link stays below (IBTA) */
  enum { DOWNED_MANY = 10, RETRIES_MANY = 1000 };
  const mal_counter *symbols = counter(d, "symbol_error"), *downed = counter(d, "link_downed"),
                    *recovered = counter(d, "link_error_recovery"),
                    *integrity = counter(d, "local_link_integrity_errors"), *received = counter(d, "port_rcv_errors"),
                    *timeouts = counter(d, "local_ack_timeout_err"), *order = counter(d, "out_of_sequence");
  double bits = mal_counter_of(d, "port_rcv_data", 0) * 32, packets = mal_counter_of(d, "port_rcv_packets", 0);
  const char
      *label = mal_part_label(h->arena, d),
      *bad = _("a bad cable, dirty fibre or failing transceiver"),
      *swap =
          _("clean and reseat, then swap cable and transceiver; clear the counters (perfquery -x -R) and look again");
  if (!d->n_counters || !mal_nic_computes(d)) return;
  h->judged[MAL_RULE_PORT_ERRORS] = true;
  if (symbols && symbols->value > 0 && (bits <= 0 || symbols->value / bits > bit_error_rate))
    mal_find(h, MAL_RULE_PORT_ERRORS, MAL_SEV_ERROR, label, symbols->from,
             mal_print(h->arena, _("%.0f symbol errors, %.1e of all bits"), symbols->value,
                       bits > 0 ? symbols->value / bits : 1),
             bad, swap)
        ->damage.nic = 0.9;
  if (downed && downed->value > 0)
    mal_find(h, MAL_RULE_PORT_ERRORS, downed->value >= DOWNED_MANY ? MAL_SEV_ERROR : MAL_SEV_WARNING, label,
             downed->from,
             mal_print(h->arena, _("the link went down %.0f times%s"), downed->value,
                       downed->value >= 255 ? _(" or more (the counter is full)") : ""),
             bad, swap);
  if (recovered && recovered->value >= DOWNED_MANY)
    mal_find(h, MAL_RULE_PORT_ERRORS, MAL_SEV_ERROR, label, recovered->from,
             mal_print(h->arena, _("the link recovered from errors %.0f times"), recovered->value), bad, swap);
  if (integrity && integrity->value > 0)
    mal_find(h, MAL_RULE_PORT_ERRORS, MAL_SEV_WARNING, label, integrity->from,
             mal_print(h->arena, _("%.0f local link integrity errors"), integrity->value), bad, swap);
  if (received && packets > 0 && received->value / packets > 1e-6)
    mal_find(h, MAL_RULE_PORT_ERRORS, MAL_SEV_ERROR, label, received->from,
             mal_print(h->arena, _("%.0f of %.3g packets came in broken"), received->value, packets), bad, swap);
  if ((timeouts && timeouts->value >= RETRIES_MANY) || (order && order->value >= RETRIES_MANY))
    mal_find(h, MAL_RULE_PORT_ERRORS, MAL_SEV_WARNING, label,
             timeouts && timeouts->value >= RETRIES_MANY ? timeouts->from : order->from,
             mal_print(h->arena, _("%.0f timeouts and %.0f packets out of order"), timeouts ? timeouts->value : 0,
                       order ? order->value : 0),
             _("congestion, or packets lost on the way"),
             _("look at the switches' counters; on RoCE at PFC and ECN settings"));
}

static void judge_nics_alike(mal_health *h) {
  for (int i = 0; i < h->topology.n_devices; i++)
    for (int j = 0; j < i; j++) {
      const mal_part *a = &h->topology.devices[i], *b = &h->topology.devices[j];
      const char *board = mal_fact_text(a, MAL_F_BOARD), *other = mal_fact_text(b, MAL_F_BOARD),
                 *mine = mal_fact_text(a, MAL_F_FIRMWARE), *its = mal_fact_text(b, MAL_F_FIRMWARE);
      if (a->kind != MAL_PART_NIC || b->kind != MAL_PART_NIC || !board || !other || strcmp(board, other) != 0 ||
          !mine || !its)
        continue;
      if (is_chip(board) &&
          (!mal_nic_computes(a) || mal_fact_number(a, MAL_F_RATE, 0) != mal_fact_number(b, MAL_F_RATE, 0) ||
           strcspn(mine, ".") != strcspn(its, ".") || strncmp(mine, its, strcspn(mine, ".")) != 0))
        continue;
      h->judged[MAL_RULE_MIXED] = true;
      if (strcmp(mine, its) == 0) continue;
      mal_find(
          h, MAL_RULE_MIXED, MAL_SEV_WARNING, mal_part_label(h->arena, a), a->fact[MAL_F_FIRMWARE].from,
          mal_print(h->arena, _("firmware %s, %s of the same board has %s"), mine, mal_part_label(h->arena, b), its),
          _("a NIC that was exchanged or updated alone"),
          _("update all NICs of a kind to one firmware (mlxfwmanager)"));
      break;
    }
}

void mal_judge_nics(mal_health *h) {
  ways *w = MAL_NEW(h->arena, ways);
  find_ways(h, w);
  judge_distance(h, w);
  judge_number(h, w);
  judge_order(h, w);
  judge_affinity(h, w);
  judge_gpudirect(h, w);
  judge_ports(h);
  for (int i = 0; i < h->topology.n_devices; i++)
    if (h->topology.devices[i].kind == MAL_PART_NIC) judge_port_errors(h, &h->topology.devices[i]);
  judge_nics_alike(h);
}
