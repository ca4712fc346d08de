/* Logs of NCCL_DEBUG=INFO. Words are those of NCCL 2.4 to 2.30: src/transport, src/init.cc, src/misc. Logs may have millions of lines:
 * one pass, few tests a line. */
#include "check/node/log.h"
#include "core/words.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct nccl_log {
  mal_health *h;
  const mal_paste *p;
  int64_t lines;
  const mal_words *words; /* of `warnings` */
  mal_log_memo memo;
  int64_t p2p, shm, net, net_gdr, socket, unknown; /* channels by transport */
  int first_shm, first_net, first_socket;          /* lines */
  int version_line, network_line, nvls_line, no_nvls_line, ib_line, plugin_line;
  const char *network, *no_nvls;
  int rings, coll_channels, nvls_channels;
  int ranks, nodes;
  bool shm_same_host;
} nccl_log;

static mal_evidence at_line(const nccl_log *n, int line) { return (mal_evidence){n->p->file, line}; }

/* "Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM/read", "... [send] via NET/IB/0/GDRDMA". */
static void channel(nccl_log *n, const char *text, int line) {
  const char *via = strstr(text, " via ");
  if (!via) return;
  via += 5;
  if (mal_starts(via, "P2P")) {
    n->p2p++;
  } else if (mal_starts(via, "SHM")) {
    if (!n->shm++) n->first_shm = line;
  } else if (mal_starts(via, "NET/Socket")) {
    if (!n->socket++) n->first_socket = line;
  } else if (mal_starts(via, "NET/")) {
    n->net++;
    if (strstr(via, "GDRDMA"))
      n->net_gdr++;
    else if (!n->first_net)
      n->first_net = line;
  } else {
    n->unknown++;
  }
}

static const struct {
  const char *words;
  mal_rule rule;
  mal_severity severity;
  const char *what, *cause, *todo;
} warnings[] = {
    {"P2P is disabled between NVLINK connected GPUs", MAL_RULE_NCCL_TRANSPORT, MAL_SEV_ERROR,
     N_("peer access is off between GPUs joined by NVLink"),
     N_("a hardware fault, or a VM or container without peer access"),
     N_("reset the GPUs; look at nvidia-smi topo -p2p r and at the kernel log; do not set NCCL_IGNORE_DISABLED_P2P")},
    {"Failed to open libibverbs", MAL_RULE_NCCL_NETWORK, MAL_SEV_WARNING,
     N_("libibverbs could not be opened: no InfiniBand or RoCE"), N_("the container lacks rdma-core"),
     N_("install rdma-core (libibverbs1, ibverbs-providers) in the container")},
    {"NET/IB : No device found", MAL_RULE_NCCL_NETWORK, MAL_SEV_WARNING, N_("NCCL found no InfiniBand or RoCE device"),
     N_("no such NIC, or the container does not see /dev/infiniband, or NCCL_IB_HCA names none"),
     N_("pass /dev/infiniband and the limits of locked memory into the container; check NCCL_IB_HCA")},
    {"transport retry counter exceeded", MAL_RULE_NCCL_ERRORS, MAL_SEV_ERROR,
     N_("a message was not acknowledged (transport retry counter exceeded)"),
     N_("a link or switch lost packets, a wrong GID index or MTU, or the other node died"),
     N_("check the ports' counters on both nodes and NCCL_IB_GID_INDEX on RoCE")},
    {"status=12", MAL_RULE_NCCL_ERRORS, MAL_SEV_ERROR,
     N_("a message was not acknowledged (IBV_WC_RETRY_EXC_ERR, status 12)"),
     N_("a link or switch lost packets, a wrong GID index or MTU, or the other node died"),
     N_("check the ports' counters on both nodes and NCCL_IB_GID_INDEX on RoCE")},
    {"async fatal event", MAL_RULE_NCCL_ERRORS, MAL_SEV_ERROR, N_("the NIC reported a fatal event"),
     N_("the port went down or the NIC failed"), N_("look at the kernel log and the port's state")},
    {"No space left on device", MAL_RULE_NCCL_ERRORS, MAL_SEV_ERROR, N_("shared memory is full (/dev/shm)"),
     N_("the container's /dev/shm is too small"), N_("give the container --shm-size=1g or more, or --ipc=host")},
    {"failed to create shared memory", MAL_RULE_NCCL_ERRORS, MAL_SEV_ERROR,
     N_("a shared memory file could not be made"), N_("/dev/shm is full or missing"),
     N_("give the container --shm-size=1g or more, or --ipc=host")},
    {"Cannot allocate memory", MAL_RULE_NCCL_ERRORS, MAL_SEV_ERROR, N_("memory could not be registered or locked"),
     N_("the limit of locked memory is too low"), N_("ulimit -l unlimited, in the container too")},
    {"unhandled cuda error", MAL_RULE_NCCL_ERRORS, MAL_SEV_ERROR, N_("CUDA failed inside NCCL"),
     N_("a GPU error, or no memory left"), N_("look at the kernel log for XIDs and at memory use")},
    {"Cuda failure", MAL_RULE_NCCL_ERRORS, MAL_SEV_ERROR, N_("CUDA failed inside NCCL"),
     N_("a GPU error, or no memory left"), N_("look at the kernel log for XIDs and at memory use")},
    {"Connection refused", MAL_RULE_NCCL_ERRORS, MAL_SEV_WARNING, N_("a connection was refused"),
     N_("the other rank ended, or a firewall, or the wrong interface"),
     N_("check NCCL_SOCKET_IFNAME and firewalls; find the rank that died first")},
    {"Connection timed out", MAL_RULE_NCCL_ERRORS, MAL_SEV_WARNING, N_("a connection timed out"),
     N_("a firewall, or an interface that the other node cannot reach"), N_("check NCCL_SOCKET_IFNAME and firewalls")},
    {"Connection closed by remote peer", MAL_RULE_NCCL_ERRORS, MAL_SEV_WARNING,
     N_("the other rank closed the connection"), N_("another rank ended first"), N_("find the rank that died first")},
    {"Mismatched", MAL_RULE_NCCL_ERRORS, MAL_SEV_WARNING, N_("ranks run different versions or settings"),
     N_("different containers on the nodes"), N_("use one image on all nodes")},
    {"version mismatch", MAL_RULE_NCCL_ERRORS, MAL_SEV_WARNING, N_("ranks run different versions"),
     N_("different containers on the nodes"), N_("use one image on all nodes")},
};

_Static_assert(sizeof warnings / sizeof *warnings <= MAL_WORDS_MAX, "a bit a row");

static bool warned(nccl_log *n, const char *text, int line) {
  enum { ROWS = sizeof warnings / sizeof *warnings };
  if (!n->words) {
    const char *words[ROWS];
    for (size_t i = 0; i < ROWS; i++) words[i] = warnings[i].words;
    n->words = mal_words_make(n->h->arena, words, ROWS);
  }
  uint64_t hits = mal_words_in(n->words, text, strlen(text));
  if (!hits) return false;
  int i = __builtin_ctzll(hits);
  uint64_t key = mal_log_hash((uint64_t)i, "known", true);
  if (mal_log_again(n->h, &n->memo, key, at_line(n, line))) return true;
  mal_finding *f = mal_find(n->h, warnings[i].rule, warnings[i].severity, "", at_line(n, line), _(warnings[i].what),
                            _(warnings[i].cause), _(warnings[i].todo));
  if (i == 0) f->damage.no_nvlink = true;
  mal_log_note(n->h, &n->memo, key, f);
  return true;
}

/* Warnings that differ in their numbers only are one. */
static void warn(nccl_log *n, const char *text, int line) {
  n->h->judged[MAL_RULE_NCCL_ERRORS] = true;
  if (warned(n, text, line)) return;
  uint64_t key = mal_log_hash(0, text, false);
  if (mal_log_again(n->h, &n->memo, key, at_line(n, line))) return;
  mal_log_note(n->h, &n->memo, key,
               mal_find(n->h, MAL_RULE_NCCL_ERRORS, MAL_SEV_WARNING, "", at_line(n, line),
                        mal_print(n->h->arena, _("NCCL warns: %.160s"), text), _("NCCL says what it could not do"),
                        _("read the lines before it in the log of the same rank")));
}

/* "NCCL_P2P_DISABLE set by environment to 1." */
static void setting(nccl_log *n, const char *text, int line) {
  const char *set = strstr(text, " set by environment to ");
  if (!set) return;
  const char *name = set;
  while (name > text && (isupper((unsigned char)name[-1]) || isdigit((unsigned char)name[-1]) || name[-1] == '_'))
    name--;
  if (name == set || set - name > 64) return;
  char key[72], value[256];
  snprintf(key, sizeof key, "%.*s", (int)(set - name), name);
  snprintf(value, sizeof value, "%s", set + strlen(" set by environment to "));
  for (size_t i = strlen(value); i > 0 && (value[i - 1] == '.' || value[i - 1] == ' '); i--) value[i - 1] = 0;
  mal_note_variable(n->h, key, value, at_line(n, line));
}

static void no_gpudirect(nccl_log *n, const char *text, int line) {
  const char *hca = strstr(text, "HCA");
  mal_find(n->h, MAL_RULE_GPUDIRECT, MAL_SEV_ERROR, "", at_line(n, line),
           mal_print(n->h->arena, _("GPU Direct RDMA disabled%s%s"), hca ? " " : "", hca ? hca : ""),
           _("the module nvidia-peermem is not loaded, or the kernel and driver lack dma-buf"),
           _("modprobe nvidia-peermem, or a kernel of 5.12 or later with the open driver"))
      ->damage.nic = 0.5;
}

static void count_channels(nccl_log *n, const char *text) {
  n->coll_channels = atoi(text);
  const char *nvls = strstr(text, " nvls channels");
  while (nvls && nvls > text && (isdigit((unsigned char)nvls[-1]))) nvls--;
  if (nvls) n->nvls_channels = atoi(nvls);
}

static void count_ranks(nccl_log *n, const char *text) {
  const char *ranks = strstr(text, " nranks "), *nodes = strstr(text, " nNodes ");
  if (ranks && atoi(ranks + 8) > n->ranks) n->ranks = atoi(ranks + 8);
  if (nodes && atoi(nodes + 8) > n->nodes) n->nodes = atoi(nodes + 8);
}

static void info(nccl_log *n, const char *text, int line, uint64_t words) {
  if (words & MAL_W(VIA) && mal_starts(text, "Channel ")) {
    channel(n, text, line);
  } else if (mal_starts(text, "NVLS multicast support is ")) {
    bool not_there = strstr(text, "not available") != NULL;
    if (not_there ? !n->no_nvls_line : !n->nvls_line) *(not_there ? &n->no_nvls_line : &n->nvls_line) = line;
  } else if (mal_starts(text, "Using network ")) {
    if (!n->network_line) {
      n->network = mal_trimmed(n->h->arena, text + 14, strlen(text + 14));
      n->network_line = line;
    }
  } else if (words & MAL_W(GDR)) {
    if (!strstr(text, "GPU Direct RDMA Disabled") && !strstr(text, "GPU Direct RDMA Enabled")) return;
    n->h->judged[MAL_RULE_GPUDIRECT] = true;
    if (strstr(text, "GPU Direct RDMA Disabled")) no_gpudirect(n, text, line);
  } else if (words & MAL_W(SET)) {
    setting(n, text, line);
  } else if (words & MAL_W(CHANNELS)) {
    count_channels(n, text);
  } else if (words & MAL_W(NRANKS)) {
    count_ranks(n, text);
  } else if (mal_starts(text, "NET/IB : No device") || mal_starts(text, "Failed to open libibverbs")) {
    n->ib_line = line;
    warned(n, text, line);
  } else if (mal_starts(text, "Call to ") || strstr(text, "failed")) {
    warned(n, text, line);
  }
}

static void judge_transports(nccl_log *n) {
  mal_health *h = n->h;
  int64_t all = n->p2p + n->shm + n->net + n->socket + n->unknown;
  if (!all) return;
  h->judged[MAL_RULE_NCCL_TRANSPORT] = true;
  bool nvlink = n->nvls_line || n->no_nvls_line || (h->has_machine && h->machine.node->nvlink_domain > 1) ||
                mal_topology_switched(&h->topology);
  if (n->shm)
    mal_find(h, MAL_RULE_NCCL_TRANSPORT, nvlink ? MAL_SEV_ERROR : MAL_SEV_WARNING, "", at_line(n, n->first_shm),
             mal_print(h->arena, _("%lld of %lld channels go through host memory (SHM) instead of peer to peer"),
                       (long long)n->shm, (long long)all),
             nvlink ? _("peer access is off: NCCL_P2P_DISABLE, a container or VM, ACS, or a fault")
                    : _("GPUs without peer access (GeForce), or on different sockets"),
             nvlink ? _("unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; look at nvidia-smi topo -p2p r")
                    : _("nothing, if these cards have no peer access; else look at nvidia-smi topo -p2p r and ACS"))
        ->damage.no_nvlink = nvlink;
  if (n->socket)
    mal_find(h, MAL_RULE_NCCL_NETWORK, MAL_SEV_ERROR, "", at_line(n, n->first_socket),
             mal_print(h->arena, _("%lld channels go over TCP sockets"), (long long)n->socket),
             _("NCCL found no RDMA network and fell back"),
             _("look at the lines NET/IB and NET/Plugin above: libibverbs, /dev/infiniband, NCCL_IB_DISABLE, the "
               "provider's plugin (aws-ofi-nccl, ...)"))
        ->damage.nic = 0.15; /* what TCP reaches of a 200 to 400 Gb/s NIC */
  if (n->net && n->net_gdr < n->net) {
    h->judged[MAL_RULE_GPUDIRECT] = true;
    mal_find(h, MAL_RULE_GPUDIRECT, MAL_SEV_ERROR, "", at_line(n, n->first_net),
             mal_print(h->arena, _("%lld of %lld network channels without GPUDirect RDMA"),
                       (long long)(n->net - n->net_gdr), (long long)n->net),
             _("nvidia-peermem or dma-buf is missing, or GPU and NIC are too far apart (NCCL_NET_GDR_LEVEL)"),
             _("modprobe nvidia-peermem; pair each GPU with the NIC on its switch; look at ACS"))
        ->damage.nic = 0.5;
  } else if (n->net) {
    h->judged[MAL_RULE_GPUDIRECT] = true;
  }
}

static void judge_network(nccl_log *n) {
  mal_health *h = n->h;
  if (n->network) {
    h->judged[MAL_RULE_NCCL_NETWORK] = true;
    if (strcmp(n->network, "Socket") == 0 && !n->socket && (n->nodes > 1 || n->net))
      mal_find(
          h, MAL_RULE_NCCL_NETWORK, MAL_SEV_ERROR, "", at_line(n, n->network_line),
          _("NCCL uses TCP sockets between nodes"), _("no RDMA network was found"),
          _("look at NET/IB and NET/Plugin lines: libibverbs, /dev/infiniband, NCCL_IB_DISABLE, the provider's plugin"))
          ->damage.nic = 0.15;
  }
  if (n->nvls_line || n->no_nvls_line) h->judged[MAL_RULE_NVLS] = true;
  if (n->no_nvls_line)
    mal_find(h, MAL_RULE_NVLS, MAL_SEV_WARNING, "", at_line(n, n->no_nvls_line),
             _("no NVLS: the switch does not reduce"),
             _("GPUs before Hopper, a driver or Fabric Manager without multicast, a VM, or multicast groups used up"),
             _("on Hopper and later: Fabric Manager running and of the driver's version; driver 530 or later; "
               "NCCL_NVLS_ENABLE not 0"))
        ->damage.no_nvls = true;
  else if (n->nvls_line && n->coll_channels && n->nvls_channels == 0)
    mal_find(h, MAL_RULE_NVLS, MAL_SEV_NOTE, "", at_line(n, n->nvls_line), _("NVLS is available and not used"),
             _("fewer than 5 or 6 GPUs, or NCCL_ALGO leaves it out"),
             _("nothing with few GPUs; else look at NCCL_ALGO and NCCL_NVLS_ENABLE"))
        ->damage.no_nvls = true;
}

static bool nccl_line(const mal_log *log, void *state, const mal_log_line *l) {
  nccl_log *n = state;
  const char *at = strstr(l->text, "NCCL INFO ");
  n->h = log->h;
  n->p = log->p;
  n->lines++;
  if (at)
    info(n, at + strlen("NCCL INFO "), l->number, l->words);
  else if ((at = strstr(l->text, "NCCL WARN ")))
    warn(n, at + strlen("NCCL WARN "), l->number);
  return false;
}

static bool nccl_end(const mal_log *log, void *state) {
  nccl_log *n = state;
  log->h->nccl_lines += n->lines;
  log->h->judged[MAL_RULE_NCCL_ERRORS] = true;
  judge_transports(n);
  judge_network(n);
  return true;
}

const mal_log_kind mal_log_nccl = {.what = "NCCL_DEBUG=INFO",
                                   .wants = MAL_W(INFO) | MAL_W(WARN),
                                   .state_bytes = sizeof(nccl_log),
                                   .line = nccl_line,
                                   .end = nccl_end};
