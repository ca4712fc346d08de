/* Links between GPUs: NVLink paths, links, switches, peer access, PCIe, ACS. */
#include "check/node/health.h"
#include "core/units.h"
#include <string.h>

enum { LIST = 256 };

static const char *pair(mal_health *h, const mal_part *a, const mal_part *b) {
  return mal_print(h->arena, "%s–%s", mal_part_label(h->arena, a), mal_part_label(h->arena, b));
}

/* NVLinks that a baseboard or bridge gives a pair: NVLink bridges of GeForce and RTX cards 4 (2 on Turing), of A100 and H100 PCIe 12,
 * baseboards 6, 12 and 18, cube meshes 1 and 2 (nvidia-smi topo -m of such machines). */
enum { BUILT_MOST = 18 };
static bool is_built_count(int links) {
  static const int built[] = {1, 2, 4, 6, 8, 12, 18};
  for (size_t i = 0; i < sizeof built / sizeof *built; i++)
    if (built[i] == links) return true;
  return false;
}

typedef struct pairs {
  const mal_part *gpus[LIST];
  int n, known, linked, most, full; /* pairs known, with NVLink; most links of a pair; pairs with as many */
} pairs;

static void count_pairs(mal_health *h, pairs *p) {
  mal_part *gpus[LIST];
  *p = (pairs){.n = mal_parts_of(&h->topology, MAL_PART_GPU, gpus, LIST)};
  memcpy(p->gpus, gpus, sizeof gpus);
  for (int i = 0; i < p->n; i++)
    for (int j = 0; j < i; j++) {
      const mal_wire *w = mal_find_wire(&h->topology, gpus[i], gpus[j]);
      if (!w || !w->from.file || w->path == MAL_PATH_UNKNOWN || w->path == MAL_PATH_FOREIGN) continue;
      p->known++;
      if (w->path != MAL_PATH_NVLINK) continue;
      p->linked++;
      if (w->nvlinks > p->most) p->most = w->nvlinks, p->full = 0;
      p->full += w->nvlinks == p->most;
    }
}

static mal_finding *path_finding(mal_health *h, const mal_wire *w, const char *wanted, bool none, int links) {
  const mal_part *a = &h->topology.devices[w->b], *b = &h->topology.devices[w->a];
  mal_finding *f =
      mal_find(h, MAL_RULE_NVLINK_PATH, MAL_SEV_ERROR, pair(h, a, b), w->from,
               mal_print(h->arena, _("joined by %s, and should be by %s"), mal_path_show(h->arena, w), wanted),
               none ? _("the NVLinks of one of the two are down: an NVSwitch or a link failed, the Fabric Manager does "
                        "not run, or "
                        "the bridge is not seated")
                    : _("some NVLinks are down: a bridge that makes contact only in part, or failed links"),
               none ? _("look at nvidia-smi nvlink --status and at systemctl status nvidia-fabricmanager; reset the "
                        "GPUs; reseat the "
                        "bridge or call for service")
                    : _("look at nvidia-smi nvlink --status of both; reseat the bridge; reset the GPUs"));
  if (none)
    f->damage.no_nvlink = true; /* a ring is as fast as its slowest link */
  else if (links > 0)
    f->damage.nvlink = (double)w->nvlinks / links;
  return f;
}

static bool wants_switch(const mal_health *h) {
  return h->has_machine && h->machine.node->nvlink_switch && h->machine.node->nvlink_domain > 1;
}

static void judge_paths(mal_health *h) {
  pairs p;
  count_pairs(h, &p);
  if (!p.known || p.n < 2) return;
  int links = wants_switch(h) ? (int)h->machine.gpu->nvlink_links.value : 0;
  bool all = links > 0 || (p.n > 2 && p.most >= 6 && 4 * p.full >= 3 * p.known); /* a switch joins all pairs alike */
  if (!p.linked && !links) return;                                               /* cards without NVLink */
  h->judged[MAL_RULE_NVLINK_PATH] = true;
  if (!links) links = p.most;
  if (all && !wants_switch(h)) /* lost alike on all pairs: no board is built so */
    while (!is_built_count(links) && links < BUILT_MOST) links++;
  for (int i = 0; i < h->topology.n_wires; i++) {
    const mal_wire *w = &h->topology.wires[i];
    if (h->topology.devices[w->a].kind != MAL_PART_GPU || h->topology.devices[w->b].kind != MAL_PART_GPU ||
        !w->from.file)
      continue;
    if (w->path == MAL_PATH_FOREIGN || w->path == MAL_PATH_UNKNOWN || w->path == MAL_PATH_SELF) continue;
    const char *wanted = mal_print(h->arena, "NV%d", links);
    if (all && w->path != MAL_PATH_NVLINK) path_finding(h, w, wanted, true, links);
    if (all && w->path == MAL_PATH_NVLINK && w->nvlinks && w->nvlinks < links) path_finding(h, w, wanted, false, links);
    if (!all && w->path == MAL_PATH_NVLINK && !is_built_count(w->nvlinks)) {
      int next = w->nvlinks;
      while (!is_built_count(next) && next < BUILT_MOST) next++;
      path_finding(h, w, mal_print(h->arena, "NV%d", next), false, next);
    }
  }
}

/* In a mesh of direct links every GPU has as many; one with fewer lost some. */
static void judge_mesh(mal_health *h) {
  mal_part *gpus[LIST];
  int n = mal_parts_of(&h->topology, MAL_PART_GPU, gpus, LIST), sum[LIST] = {0}, most = 0, least = 1 << 20;
  pairs p;
  count_pairs(h, &p);
  if (mal_topology_switched(&h->topology) || p.known != n * (n - 1) / 2 || n < 4) return;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) {
      const mal_wire *w = i == j ? NULL : mal_find_wire(&h->topology, gpus[i], gpus[j]);
      if (w && w->path == MAL_PATH_NVLINK) sum[i] += w->nvlinks;
    }
    if (sum[i] > most) most = sum[i];
    if (sum[i] < least) least = sum[i];
  }
  if (h->has_machine && h->machine.gpu->nvlink_links.verified && h->machine.gpu->nvlink_links.value > most &&
      h->machine.node->nvlink_domain > 1) {
    most = (int)h->machine.gpu->nvlink_links.value; /* lost alike on all */
  } else if (most == 0 || 4 * p.full >= 3 * p.known) {
    return;
  }
  for (int i = 0; i < n; i++)
    if (sum[i] < most && sum[i] > 0)
      mal_find(h, MAL_RULE_NVLINK_LINKS, MAL_SEV_ERROR, mal_part_label(h->arena, gpus[i]), gpus[i]->from,
               mal_print(h->arena, _("%d NVLinks in the matrix, other GPUs have %d"), sum[i], most),
               _("links of this GPU are down"), _("look at nvidia-smi nvlink --status; reset the GPU; reseat it"))
          ->damage.nvlink = (double)sum[i] / most;
}

static void judge_links(mal_health *h) {
  mal_part *gpus[LIST];
  int n = mal_parts_of(&h->topology, MAL_PART_GPU, gpus, LIST), most = 0, with_links = 0;
  double best = 0;
  for (int i = 0; i < n; i++) {
    int up = 0;
    for (int k = 0; k < gpus[i]->n_links; k++) {
      up += gpus[i]->links[k].active == 1;
      if (gpus[i]->links[k].bytes_per_s > best) best = gpus[i]->links[k].bytes_per_s;
    }
    if (up > most) most = up;
    with_links += gpus[i]->n_links > 0;
  }
  int wanted =
      h->has_machine && h->machine.gpu->nvlink_links.value > most ? (int)h->machine.gpu->nvlink_links.value : most;
  for (int i = 0; i < n; i++) {
    const mal_part *g = gpus[i];
    const mal_nvlink *first = NULL, *slow = NULL, *bad = NULL;
    int down = 0, up = 0, said = 0;
    double errors = 0;
    mal_writing list = {.arena = h->arena};
    for (int k = 0; k < g->n_links; k++) {
      const mal_nvlink *l = &g->links[k];
      said += l->active >= 0;
      up += l->active == 1;
      if (l->active == 0) {
        down++;
        if (!first) first = l;
        mal_write(&list, "%s%d", list.used ? ", " : "", k);
      }
      if (l->active == 1 && l->bytes_per_s > 0 && l->bytes_per_s < 0.95 * best && !slow) slow = l;
      if (l->errors > 0) errors += l->errors, bad = l;
    }
    if (said) h->judged[MAL_RULE_NVLINK_LINKS] = true;
    const char *label = mal_part_label(h->arena, g);
    if (said && up > 0 && up < wanted && (down > 0 || h->has_machine))
      mal_find(
          h, MAL_RULE_NVLINK_LINKS, MAL_SEV_ERROR, label, first ? first->from : g->from,
          mal_print(h->arena,
                    list.text ? _("%d of %d NVLinks inactive (links %s)")
                              : _("%d of %d NVLinks are not listed as active"),
                    wanted - up, wanted, list.text),
          _("failed links: a connector of the baseboard or a bridge not fully seated, or a damaged GPU"),
          _("reset the GPU (nvidia-smi -r) and look again; if the links stay down, reseat the GPU or call for service"))
          ->damage.nvlink = (double)up / wanted;
    else if (said && up > 0 && down > 0 && n == 1 && !h->has_machine) /* nothing to compare with */
      mal_find(h, MAL_RULE_NVLINK_LINKS, MAL_SEV_WARNING, label, first->from,
               mal_print(h->arena, _("%d of %d NVLinks inactive (links %s)"), down, up + down, list.text),
               _("failed links, or links that this board does not use"), _("compare with another GPU of its kind"));
    else if (said && up == 0 && (most > 0 || (wanted > 0 && h->machine.node->nvlink_domain > 1)))
      mal_find(h, MAL_RULE_NVLINK_LINKS, MAL_SEV_ERROR, label, first ? first->from : g->from, _("no NVLink is active"),
               _("the GPU is not part of the NVLink fabric: Fabric Manager, or a failed GPU"),
               _("systemctl status nvidia-fabricmanager; reset the GPU; call for service"))
          ->damage.no_nvlink = true;
    else if (!said && 2 * with_links > n && !h->live)
      mal_find(h, MAL_RULE_NVLINK_LINKS, MAL_SEV_ERROR, label, g->from,
               _("no NVLink of it is listed, those of other GPUs are"),
               _("the GPU did not answer nvidia-smi nvlink --status, or the paste leaves it out"),
               _("look for its XIDs in dmesg; reset the GPU; give the whole output"));
    if (slow)
      mal_find(h, MAL_RULE_NVLINK_LINKS, MAL_SEV_ERROR, label, slow->from,
               mal_print(h->arena, _("a link runs at %s, others at %s"), mal_show_rate(slow->bytes_per_s, "B/s"),
                         mal_show_rate(best, "B/s")),
               _("the link trained at a lower rate"), _("reset the GPU; if it stays, call for service"))
          ->damage.nvlink = slow->bytes_per_s / best;
    for (int k = 0; k < g->n_links; k++)
      if (g->links[k].errors >= 0) h->judged[MAL_RULE_NVLINK_ERRORS] = true;
    if (bad)
      mal_find(h, MAL_RULE_NVLINK_ERRORS, errors > 100 ? MAL_SEV_ERROR : MAL_SEV_WARNING, label, bad->from,
               mal_print(h->arena, _("%.0f replay, recovery or CRC errors on its NVLinks"), errors),
               _("a link with a bad signal: each error sends again"),
               _("watch whether they grow (malha check --for 60s); if they do, reset, then reseat or replace"));
  }
}

static void judge_switches(mal_health *h) {
  int switches = mal_count_parts(&h->topology, MAL_PART_NVSWITCH), listed = 0;
  for (int i = 0; i < h->topology.n_devices; i++) { /* only a PCI listing names all of them */
    const mal_part *d = &h->topology.devices[i];
    listed += d->kind == MAL_PART_NVSWITCH && mal_known(d, MAL_F_VENDOR);
    const char *state = d->kind == MAL_PART_GPU ? mal_fact_text(d, MAL_F_FABRIC) : NULL;
    const char *status = d->kind == MAL_PART_GPU ? mal_fact_text(d, MAL_F_FABRIC_STATUS) : NULL,
               *ill = d->kind == MAL_PART_GPU ? mal_fact_text(d, MAL_F_FABRIC_HEALTH) : NULL;
    if (!state || strcmp(state, "Not Supported") == 0) continue;
    h->judged[MAL_RULE_NVSWITCH] = true;
    if (status && strcmp(status, "Success") != 0 && strcmp(state, "Completed") == 0)
      mal_find(h, MAL_RULE_NVSWITCH, MAL_SEV_ERROR, mal_part_label(h->arena, d), d->fact[MAL_F_FABRIC_STATUS].from,
               mal_print(h->arena, _("joining the NVLink fabric ended with '%s'"), status),
               _("the Fabric Manager could not bring the GPU into the fabric; CUDA does not start on such a GPU"),
               _("look at the Fabric Manager's log; reset the GPUs; power-cycle the node"))
          ->damage.no_nvlink = true;
    if (ill && strcmp(ill, "Healthy") != 0)
      mal_find(h, MAL_RULE_NVSWITCH, MAL_SEV_ERROR, mal_part_label(h->arena, d), d->fact[MAL_F_FABRIC_HEALTH].from,
               mal_print(h->arena, _("its NVLink fabric is not healthy: %s"), ill),
               _("links of the GPU or of a switch are down or slow"),
               _("look at nvidia-smi nvlink --status and the Fabric Manager's log; reset the GPUs; call for service"));
    if (strcmp(state, "Completed") != 0)
      mal_find(h, MAL_RULE_NVSWITCH, MAL_SEV_ERROR, mal_part_label(h->arena, d), d->fact[MAL_F_FABRIC].from,
               mal_print(h->arena, _("its NVLink fabric is '%s', not 'Completed'"), state),
               _("the Fabric Manager does not run or could not set up the switches; CUDA does not start on such a GPU"),
               _("systemctl status nvidia-fabricmanager; its version must be that of the driver; then reset the GPUs"))
          ->damage.no_nvlink = true;
  }
  int wanted = h->has_machine ? (int)h->machine.node->nvswitches.value : 0;
  if (!listed || !wanted || mal_count_parts(&h->topology, MAL_PART_GPU) < h->machine.node->gpus) return;
  h->judged[MAL_RULE_NVSWITCH] = true;
  if (switches >= wanted) return;
  const mal_part *one = NULL;
  for (int i = 0; i < h->topology.n_devices && !one; i++)
    if (h->topology.devices[i].kind == MAL_PART_NVSWITCH) one = &h->topology.devices[i];
  mal_find(h, MAL_RULE_NVSWITCH, MAL_SEV_ERROR, "", one->from,
           mal_print(h->arena, _("%d NVSwitches on the PCI bus, the board has %d"), switches, wanted),
           _("a switch fell off the bus or did not start"),
           _("look for SXid lines in dmesg; power-cycle the node; call for service"))
      ->damage.nvlink = (double)switches / wanted;
}

static void judge_peers(mal_health *h) {
  bool consumer = h->has_machine && !h->machine.gpu->p2p;
  for (int i = 0; i < h->topology.n_wires; i++) {
    const mal_wire *w = &h->topology.wires[i];
    for (int k = 0; k < 26; k++) {
      if (!w->peer[k]) continue;
      h->judged[MAL_RULE_PEER_ACCESS] = true;
      if (strcmp(w->peer[k], "OK") == 0) continue;
      bool model = strcmp(w->peer[k], "GNS") == 0;
      mal_find(h, MAL_RULE_PEER_ACCESS, model || consumer ? MAL_SEV_WARNING : MAL_SEV_ERROR,
               pair(h, &h->topology.devices[w->b], &h->topology.devices[w->a]), w->peer_from,
               mal_print(h->arena, _("peer access (%c): %s"), 'a' + k, w->peer[k]),
               model ? _("the driver does not allow peer access on this model (GeForce): GPUs meet in host memory")
               : strcmp(w->peer[k], "DR") == 0 ? _("switched off in the driver's options")
               : strcmp(w->peer[k], "CNS") == 0
                   ? _("the chipset does not carry it: IOMMU or ACS, or GPUs on different sockets")
                   : _("the topology does not allow it"),
               model ? _("nothing to repair: plan with p2p: false; NCCL uses shared memory by itself")
                     : _("switch off ACS and the IOMMU's translation for these devices (see acs), or set "
                         "NCCL_P2P_DISABLE=1 knowingly"))
          ->damage.no_p2p = true;
    }
  }
}

static bool carries_gpu(const mal_topology *t, const mal_part *bridge, int depth) {
  for (int i = 0; i < t->n_devices && depth < 24; i++) {
    const mal_part *d = &t->devices[i];
    if (d->bus < 0 || d->parent != bridge->bus || d == bridge) continue;
    if (d->kind == MAL_PART_GPU || mal_nic_computes(d) || (d->kind == MAL_PART_BRIDGE && carries_gpu(t, d, depth + 1)))
      return true;
  }
  return false;
}

static const char *link_text(mal_health *h, double speed, double lanes) {
  return lanes > 0 ? mal_print(h->arena, "PCIe %d x%.0f", mal_pcie_generation(speed), lanes)
                   : mal_print(h->arena, "PCIe %d", mal_pcie_generation(speed));
}

/* Idle GPUs lower their link to save power: seen by their P-state, by the idle reason, or as 2.5 GT/s, which no load runs at. */
static bool idles(const mal_part *d) {
  enum { P_STATE_OF_LOAD = 2 };
  if (d->kind != MAL_PART_GPU) return false;
  if ((unsigned)mal_fact_number(d, MAL_F_THROTTLE, 0) & MAL_SLOW_IDLE) return true;
  return mal_known(d, MAL_F_PSTATE) ? mal_fact_number(d, MAL_F_PSTATE, 0) > P_STATE_OF_LOAD
                                    : mal_fact_number(d, MAL_F_SPEED, 0) < 3;
}

static void judge_pcie_of(mal_health *h, const mal_part *d) {
  double speed = mal_fact_number(d, MAL_F_SPEED, 0), most = mal_fact_number(d, MAL_F_SPEED_MAX, 0),
         slot = mal_fact_number(d, MAL_F_SPEED_HOST, 0);
  double lanes = mal_fact_number(d, MAL_F_WIDTH, 0), lanes_most = mal_fact_number(d, MAL_F_WIDTH_MAX, 0);
  const char *label = mal_part_label(h->arena, d);
  bool drive = d->kind == MAL_PART_DRIVE;
  if (!speed || !most) return;
  h->judged[MAL_RULE_PCIE_LINK] = true;
  if (lanes && lanes_most && lanes < lanes_most)
    mal_find(
        h, MAL_RULE_PCIE_LINK, drive ? MAL_SEV_WARNING : MAL_SEV_ERROR, label, d->fact[MAL_F_WIDTH].from,
        mal_print(h->arena, _("its link has %.0f of %.0f lanes"), lanes, lanes_most),
        _("a card, riser or cable not fully seated, or a slot with fewer lanes"),
        _("reseat the card or its riser; look at the slot's width in the manual and the bifurcation in the firmware"))
        ->damage.pcie = lanes / lanes_most;
  if (slot > 0 && slot < most && !(speed > slot))
    mal_find(h, MAL_RULE_PCIE_LINK, MAL_SEV_WARNING, label, d->fact[MAL_F_SPEED_HOST].from,
             mal_print(h->arena, _("its slot gives %s, it can do %s"), link_text(h, slot, 0), link_text(h, most, 0)),
             _("an older slot or riser, or a lower speed set in the firmware"),
             _("set the slot to Auto in the firmware, or use a newer slot or riser"))
        ->damage.pcie = slot / most;
  else if (speed < 0.9 * most && !idles(d))
    mal_find(h, MAL_RULE_PCIE_LINK, drive ? MAL_SEV_WARNING : MAL_SEV_ERROR, label, d->fact[MAL_F_SPEED].from,
             mal_print(h->arena, _("its link runs at %s, it can do %s"), link_text(h, speed, lanes),
                       link_text(h, most, lanes_most)),
             _("the link trained down: a bad riser, cable or slot, or dirt on the contacts"),
             _("reseat the card; swap the riser or cable; reboot and look again"))
        ->damage.pcie = speed / most;
}

/* A switch's upstream port has bridges below it and hangs on a bridge that is no port of a switch, or on another switch's downstream
 * port; a downstream port has one device below. */
static bool is_upstream(const mal_topology *t, const mal_part *d) {
  int bridges = 0;
  for (int i = 0; i < t->n_devices; i++)
    bridges += t->devices[i].kind == MAL_PART_BRIDGE && t->devices[i].parent == d->bus && t->devices[i].bus != d->bus;
  return bridges > 1;
}

/* The link between a switch and what is above it, where GPUs or NICs hang on the switch; ports below are judged at the device's end. */
static void judge_uplink(mal_health *h, const mal_part *d) {
  const mal_part *up = d->parent >= 0 ? mal_find_bus(&h->topology, d->parent) : NULL;
  double speed = mal_fact_number(d, MAL_F_SPEED, 0), mine = mal_fact_number(d, MAL_F_SPEED_MAX, 0),
         other = up ? mal_fact_number(up, MAL_F_SPEED_MAX, 0) : 0;
  double lanes = mal_fact_number(d, MAL_F_WIDTH, 0), lanes_mine = mal_fact_number(d, MAL_F_WIDTH_MAX, 0),
         lanes_other = up ? mal_fact_number(up, MAL_F_WIDTH_MAX, 0) : 0;
  double most = mine < other ? mine : other, wide = lanes_mine < lanes_other ? lanes_mine : lanes_other;
  if (!speed || !most || !wide || !carries_gpu(&h->topology, d, 0)) return;
  if (!is_upstream(&h->topology, d) || (speed >= 0.9 * most && lanes >= wide)) return;
  mal_find(h, MAL_RULE_PCIE_LINK, MAL_SEV_ERROR, mal_bus_show(h->arena, d->bus), d->fact[MAL_F_SPEED].from,
           mal_print(h->arena, _("the uplink of a PCIe switch runs at %s, both ends can do %s"),
                     link_text(h, speed, lanes), link_text(h, most, wide)),
           _("the link between CPU and switch trained down"),
           _("reseat the switch board's cables; reboot and look again; call for service"))
      ->damage.pcie = speed * lanes / (most * wide);
}

static void judge_acs(mal_health *h) {
  for (int i = 0; i < h->topology.n_devices; i++) {
    const mal_part *d = &h->topology.devices[i];
    if (d->kind != MAL_PART_BRIDGE || !mal_known(d, MAL_F_ACS) || !carries_gpu(&h->topology, d, 0)) continue;
    h->judged[MAL_RULE_ACS] = true;
    if (mal_fact_number(d, MAL_F_ACS, 0) == 0) continue;
    mal_finding *f = mal_find(
        h, MAL_RULE_ACS, h->topology.virtual_machine ? MAL_SEV_WARNING : MAL_SEV_ERROR, mal_bus_show(h->arena, d->bus),
        d->fact[MAL_F_ACS].from, _("ACS redirects peer-to-peer requests (ReqRedir+) above a GPU or NIC"),
        _("the firmware or the kernel switched ACS on: GPU and NIC on one switch then meet in the CPU"),
        _("switch ACS off in the firmware, or setpci -s ADDRESS ECAP_ACS+0x6.w=0000 for each such bridge at boot; in a "
          "VM it must "
          "stay on: use ATS instead"));
    f->damage.pcie = 0.5; /* up to the CPU and down again over one link: NVIDIA/nccl-tests issue 112, 9.84 of 25 GB/s */
    f->damage.nic = 0.4;
  }
}

static void missing_gpu(mal_health *h, const char *file, const char *what) {
  mal_find(
      h, MAL_RULE_GPU_COUNT, MAL_SEV_ERROR, "", (mal_evidence){file, 0}, what,
      _("a GPU fell off the bus, failed to start, or is held by another driver"),
      _("look for XID 79 and RmInitAdapter in dmesg; compare lspci -d 10de: with nvidia-smi -L; power-cycle the node"));
}

/* Numbers of GPUs without one between them: a listing that was cut, or a GPU that is gone. */
static int gap_in_numbers(const mal_topology *t) {
  mal_part *gpus[LIST];
  int n = mal_parts_of(t, MAL_PART_GPU, gpus, LIST);
  for (int i = 1; i < n; i++)
    if (gpus[i - 1]->index >= 0 && gpus[i]->index > gpus[i - 1]->index + 1) return gpus[i - 1]->index + 1;
  return -1;
}

static void judge_counts(mal_health *h) {
  const mal_topology *t = &h->topology;
  int most = 0, gpus = mal_count_parts(t, MAL_PART_GPU), counted = 0;
  const char *file = t->n_sources ? t->sources[0].file : NULL;
  for (int i = 0; i < t->n_sources; i++) {
    if (t->sources[i].gpus > most) most = t->sources[i].gpus;
    if (t->sources[i].attached > most) most = t->sources[i].attached;
  }
  for (int i = 0; i < t->n_sources; i++) {
    const mal_source *s = &t->sources[i];
    if (!s->counts || s->broken || !most) continue;
    bool asked_for_few = (strcmp(s->what, "nvidia-smi nvlink --status") == 0 && s->gpus == 1) ||
                         (s->attached > s->gpus && 2 * s->gpus <= s->attached); /* with -i */
    if (asked_for_few) continue;
    counted++;
    h->judged[MAL_RULE_GPU_COUNT] = true;
    if (s->attached > s->gpus)
      missing_gpu(h, s->file, mal_print(h->arena, _("%d GPUs are attached, %d are described"), s->attached, s->gpus));
    else if (s->gpus < most && h->live && t->confined)
      mal_find(h, MAL_RULE_GPU_COUNT, MAL_SEV_WARNING, "", (mal_evidence){s->file, 0},
               mal_print(h->arena, _("%s has %d GPUs, of %d that are there"), s->what, s->gpus, most),
               _("the container or the batch system gives only some of them; or a GPU is lost"),
               _("nothing if so many were asked for; else run malha check on the host, outside of the job"));
    else if (s->gpus < most && (s->gpus || h->live))
      missing_gpu(
          h, s->file,
          mal_print(h->arena,
                    h->live ? _("%s has %d GPUs, of %d that are there") : _("%s lists %d GPUs, another file %d"),
                    s->what, s->gpus, most));
  }
  int gap = counted ? gap_in_numbers(t) : -1;
  if (gap >= 0)
    missing_gpu(h, file, mal_print(h->arena, _("no listing has GPU%d, though higher numbers are there"), gap));
  if (h->on && h->has_machine && (gpus > 0 || h->live)) h->judged[MAL_RULE_GPU_COUNT] = true;
  if (h->on && h->has_machine && (gpus > 0 || h->live) && gpus < h->machine.gpus_per_node)
    mal_find(h, MAL_RULE_GPU_COUNT, MAL_SEV_ERROR, "", (mal_evidence){file, 0},
             mal_print(h->arena, _("%d GPUs found, %s has %lld"), gpus, h->on, (long long)h->machine.gpus_per_node),
             _("a GPU fell off the bus, or is hidden by CUDA_VISIBLE_DEVICES or a container"),
             _("look for XID 79 in dmesg; compare with lspci -d 10de:"));
  for (int i = 0; i < t->n_devices; i++) {
    const mal_part *d = &t->devices[i];
    if (!mal_known(d, MAL_F_GONE)) continue;
    bool gpu = d->kind == MAL_PART_GPU;
    if (!gpu && d->kind != MAL_PART_NIC && d->kind != MAL_PART_DRIVE && d->kind != MAL_PART_NVSWITCH) continue;
    mal_find(h, gpu ? MAL_RULE_GPU_COUNT : MAL_RULE_PCIE_LINK, MAL_SEV_ERROR, mal_part_label(h->arena, d),
             d->fact[MAL_F_GONE].from, _("it has fallen off the bus: its registers read as ones only (rev ff)"),
             _("power, PCIe link or the device failed"),
             _("power-cycle the node; if it returns, reseat or replace it"));
  }
}

static void judge_conflicts(mal_health *h) {
  const mal_topology *t = &h->topology;
  if (t->n_sources > 1) h->judged[MAL_RULE_LISTINGS] = true;
  enum { TOLD = 8 };
  for (int i = 0; i < t->n_conflicts; i++) {
    const mal_conflict *c = &t->conflicts[i];
    if (i == TOLD) {
      mal_find(h, MAL_RULE_LISTINGS, MAL_SEV_WARNING, "", c->from[1],
               mal_print(h->arena, _("%d more things differ between files"), t->n_conflicts - TOLD),
               _("files of different nodes"), _("give files of one node; the first file counts"));
      return;
    }
    mal_find(h, MAL_RULE_LISTINGS, MAL_SEV_WARNING, "", c->from[1],
             mal_print(h->arena, _("%s is %s, but %s in %s:%d"), c->what, c->then, c->first, c->from[0].file,
                       c->from[0].line),
             _("files of different nodes or times"),
             _("give files of one node, taken together; the first file counts"));
  }
}

void mal_judge_topology(mal_health *h) {
  judge_counts(h);
  judge_conflicts(h);
  judge_paths(h);
  judge_mesh(h);
  judge_links(h);
  judge_switches(h);
  judge_peers(h);
  for (int i = 0; i < h->topology.n_devices; i++) {
    const mal_part *d = &h->topology.devices[i];
    if (d->kind == MAL_PART_GPU || d->kind == MAL_PART_DRIVE || mal_nic_computes(d)) judge_pcie_of(h, d);
    if (d->kind == MAL_PART_BRIDGE) judge_uplink(h, d);
  }
  judge_acs(h);
}
