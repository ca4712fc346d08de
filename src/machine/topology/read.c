#include "machine/topology/read.h"
#include <string.h>

static const struct {
  const char *what;
  const char *marker; /* what no such listing is without */
  mal_reader *read;
  bool counts; /* every GPU of the node */
} kinds[] = {
    {"nvidia-smi topo -m", "GPU", mal_read_matrix, true},
    {"nvidia-smi topo -p2p", "GPU", mal_read_peers, false},
    {"nvidia-smi -q -x", "<nvidia_smi_log", mal_read_smi_xml, true},
    {"nvidia-smi nvlink --status", "Link ", mal_read_nvlink, true},
    {"NCCL topology XML", " version=", mal_read_nccl_xml, false},
    {"lstopo --of xml", "<topology", mal_read_hwloc, false},
    {"lstopo --of console -v", " L#", mal_read_hwloc_console, false},
    {"lspci", ":", mal_read_lspci, true},
    {"lspci -t", "]-", mal_read_lspci_tree, false},
    {"ibstat", "CA '", mal_read_ibstat, false},
    {"/sys/class/infiniband", "/ports/", mal_read_ib_class, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *mal_topology_kinds(mal_arena *a) {
  mal_writing w = {.arena = a};
  for (int i = 0; i < KINDS; i++) mal_write(&w, "%s%s", i ? ", " : "", kinds[i].what);
  return w.text;
}

static int by_bus(const mal_topology *t, int64_t bus) {
  int before = 0;
  for (int i = 0; i < t->n_devices; i++)
    before += t->devices[i].kind == MAL_PART_GPU && t->devices[i].bus >= 0 && t->devices[i].bus < bus;
  return before;
}

/* A listing that gives only addresses counts its GPUs as nvidia-smi does: by address. */
static void count_by_address(mal_topology *t) {
  for (int i = 0; i < t->n_devices; i++)
    if (t->devices[i].kind == MAL_PART_GPU && t->devices[i].index >= 0) return;
  for (int i = 0; i < t->n_devices; i++)
    if (t->devices[i].kind == MAL_PART_GPU && t->devices[i].bus >= 0)
      t->devices[i].index = by_bus(t, t->devices[i].bus);
}

void mal_topology_read(mal_topology *t, const mal_paste *p, bool *known) {
  mal_paste part = *p;
  *known = false;
  char was = 0;
  if (part.length > MAL_LISTING_BYTES) {
    part.length = MAL_LISTING_BYTES;
    was = part.text[MAL_LISTING_BYTES];
    part.text[MAL_LISTING_BYTES] = 0;
  }
  for (int i = 0; i < KINDS; i++) {
    if (!strstr(part.text, kinds[i].marker)) continue;
    mal_topology one;
    int broken = 0;
    mal_topology_init(&one, t->arena);
    if (!kinds[i].read(&one, &part, &broken)) continue;
    count_by_address(&one);
    int nics = 0;
    for (int d = 0; d < one.n_devices; d++) nics += mal_nic_computes(&one.devices[d]);
    one.sources = MAL_NEW(t->arena, mal_source);
    one.sources[0] = (mal_source){
        p->file, kinds[i].what, mal_count_parts(&one, MAL_PART_GPU), nics, one.attached, kinds[i].counts, broken};
    one.n_sources = 1;
    mal_topology_merge(t, &one);
    *known = true;
  }
  if (part.length < p->length) part.text[MAL_LISTING_BYTES] = was;
}

static const struct {
  const char *marker, *what;
} others[] = {
    {"switchguid=", N_("a map of an InfiniBand fabric (ibnetdiscover), not a listing of a node")},
    {"busbw", N_("output of a benchmark: malha check judges it")},
    {"NCCL INFO", N_("a log of NCCL: malha check judges it")},
    {"multicast", N_("a log of the Fabric Manager: malha check judges it")},
    {"NVRM:", N_("a kernel log: malha check judges it")},
    {"nvidia-peermem", N_("a kernel log: malha check judges it")},
    {"VM_hostname", N_("a list of hosts and their port GUIDs: it says nothing of a node")},
};

const char *mal_topology_other(const mal_paste *p) {
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strstr(p->text, others[i].marker)) return _(others[i].what);
  return NULL;
}
