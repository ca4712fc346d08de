/* Benchmarks against what the machine should give. */
#include "check/node/health.h"
#include "core/catalog.h"
#include "core/units.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double large_bytes = 67108864; /* where latency no longer counts much: 64 MiB */

/* A word of the table that names a machine: "p5" → aws-p5, "H100" → h100. */
static bool machine_named(mal_arena *a, const char *words, int64_t gpus, mal_machine *m) {
  mal_error ignored;
  const char *at = words;
  for (char *w; (w = mal_word(a, &at));) {
    char clean[64];
    size_t n = 0;
    for (const char *c = w; *c && n + 1 < sizeof clean; c++)
      if (isalnum((unsigned char)*c) || *c == '-') clean[n++] = (char)tolower((unsigned char)*c);
    clean[n] = 0;
    const char *node = mal_print(a, "aws-%s", clean);
    if (n > 1 && mal_catalog_has(a, "nodes", node, ".yaml") && mal_machine_load(a, node, m, &ignored) == MAL_OK)
      return true;
  }
  at = words;
  for (char *w; (w = mal_word(a, &at));) {
    const char *name = mal_catalog_has(a, "gpus", w, ".yaml") ? w : mal_identify_gpu(a, w, 0);
    const char *shorter = mal_trimmed(a, w, strlen(w) - 1); /* "A100-40G" */
    if (!name && w[strlen(w) - 1] == 'G' && mal_catalog_has(a, "gpus", shorter, ".yaml")) name = shorter;
    if (!name) {
      const char *both = mal_print(a, "%s %s", w, at + strspn(at, " ")); /* "H100 NVL x2" */
      name = mal_identify_gpu(a, mal_trimmed(a, both, strcspn(both, "(x")), 0);
    }
    if (!name) continue;
    const char *next = at;
    char *second = mal_word(a, &next);
    const char *longer = second ? mal_print(a, "%s-%s", name, second) : NULL; /* h100-nvl */
    if (longer && mal_catalog_has(a, "gpus", longer, ".yaml")) name = longer;
    mal_gpu *g;
    if (mal_gpu_load(a, name, &g, &ignored) != MAL_OK) continue;
    (void)gpus;
    return mal_machine_load(a, g->default_node, m, &ignored) == MAL_OK &&
           mal_gpu_load(a, name, &m->gpu, &ignored) == MAL_OK;
  }
  return false;
}

/* "16x100G RoCE/node", "4x100G EFA/node": NICs of one node, bits/s. */
static void fabric_said(mal_machine *m, const char *fabric) {
  int n, gigabits;
  const char *x = fabric ? strchr(fabric, 'x') : NULL;
  if (!x || x == fabric || sscanf(fabric, "%dx%dG", &n, &gigabits) != 2 || n < 1 || n > 64) return;
  m->node->nics.value = n;
  m->node->nic_bytes_per_s.value = gigabits * 1e9 / 8;
}

bool mal_bench_machine(mal_health *h, const mal_bench *b, mal_machine *m) {
  mal_error ignored;
  bool found = false;
  if (b->machine) {
    found = machine_named(h->arena, b->machine, b->ranks, m);
    if (found) fabric_said(m, b->device);
  } else if (h->on && h->has_machine) {
    *m = h->machine;
    found = true;
  } else if (b->gpu) {
    const char *gpu = mal_identify_gpu(h->arena, b->gpu, 0);
    mal_gpu *g;
    found = gpu && mal_gpu_load(h->arena, gpu, &g, &ignored) == MAL_OK &&
            mal_machine_load(h->arena, g->default_node, m, &ignored) == MAL_OK;
    if (found) m->gpu = g;
  } else if (h->has_machine) {
    *m = h->machine;
    found = true;
  }
  if (!found) return false;
  mal_machine_at_best(h->arena, m);
  if (b->no_nvls) m->gpu->cal.nvls.value = 0;
  return true;
}

/* The best point among large messages: runs that stop early, and those with a step, are judged by what they reached. */
static const mal_bench_point *best_point(const mal_bench *b) {
  const mal_bench_point *best = NULL;
  for (int i = 0; i < b->n_points; i++)
    if (!best || b->points[i].busbw > best->busbw) best = &b->points[i];
  return best;
}

static int64_t nodes_of(const mal_health *h, const mal_bench *b, const mal_machine *m) {
  if (b->nodes > 0 && b->ranks % b->nodes == 0) return b->nodes;
  if (h->on && m->nodes > 1 && b->ranks % m->nodes == 0) return m->nodes;
  int64_t per = m->node->gpus > 0 ? m->node->gpus : 1;
  return b->ranks <= per ? 1 : b->ranks % per == 0 ? b->ranks / per : 0;
}

/* The slowest server of the catalogue with eight GPUs on NVSwitches, for logs that do not say on what they ran. */
static double weakest_server(mal_health *h, const mal_bench *b, int64_t nodes, double bytes, const char **which) {
  char **names;
  size_t count;
  mal_error ignored;
  double least = 0;
  if (mal_catalog_list(h->arena, "nodes", ".yaml", &names, &count, &ignored) != MAL_OK) return 0;
  for (size_t i = 0; i < count; i++) {
    mal_machine m;
    if (mal_machine_load(h->arena, names[i], &m, &ignored) != MAL_OK || m.node->gpus != 8 || !m.node->nvlink_switch ||
        !m.node->nics.value)
      continue;
    mal_machine_at_best(h->arena, &m);
    double rate = mal_expected_busbw(&m, b->collective, b->ranks, nodes, bytes);
    if (least == 0 || rate < least) least = rate, *which = names[i];
  }
  return least;
}

static void unhealthy(mal_health *h, mal_bench *b, const mal_bench_point *p, double expected, const char *against,
                      const char *cause) {
  mal_finding *f = mal_find(
      h, b->kind == MAL_BENCH_STORAGE ? MAL_RULE_STORAGE : MAL_RULE_BENCHMARK,
      b->kind == MAL_BENCH_STORAGE ? MAL_SEV_WARNING : MAL_SEV_ERROR, mal_print(h->arena, "%s", b->what),
      (mal_evidence){b->file, p->line},
      mal_print(h->arena, _("%s: %s of %s, %.0f %% of what %s should give"), b->tool, mal_show_rate(p->busbw, "B/s"),
                mal_show_rate(expected, "B/s"), 100 * p->busbw / expected, against),
      cause,
      b->kind == MAL_BENCH_NCCL ? _("run again with NCCL_DEBUG=INFO and give malha check that log, nvidia-smi topo -m "
                                    "and lspci -vvv; between nodes run pairs and give it all logs")
      : b->kind == MAL_BENCH_IB ? _("look at the port (ibstat, counters), its PCIe link (lspci -vvv), ACS, and the "
                                    "NUMA node that ib_write_bw ran on")
                                : _("look at the device's PCIe link (lspci -vvv) and at what else uses it"));
  f->found = p->busbw;
  f->expected = expected;
}

static void judge_collective(mal_health *h, mal_bench *b) {
  mal_machine m;
  const mal_bench_point *top = best_point(b);
  if (!top || !b->is_collective || b->ranks < 2) {
    b->why = !top           ? _("no bandwidth in it")
             : b->ranks < 2 ? _("the number of ranks is not known")
                            : _("a collective that is not priced");
    return;
  }
  if (!mal_bench_machine(h, b, &m)) {
    const char *which = "";
    int64_t nodes = b->nodes ? b->nodes : b->ranks > 8 && b->ranks % 8 == 0 ? b->ranks / 8 : 0;
    double least = nodes > 1 && b->ranks / nodes == 8 ? weakest_server(h, b, nodes, top->bytes, &which) : 0;
    b->why = _("the machine is not known: give --on MACHINE");
    if (least <= 0 || top->bytes < large_bytes) return;
    b->expected = least;
    if (top->busbw >= MAL_EXPECTED_ENOUGH * least) return; /* above the weakest says little */
    b->verdict = 1;
    if (b->verdict)
      unhealthy(h, b, top, least,
                mal_print(h->arena, _("the weakest server with eight GPUs on NVSwitches (%s)"), which),
                _("traffic of a node goes through NICs or host memory instead of NVLink (NCCL_P2P_DISABLE, "
                  "NCCL_SHM_DISABLE), or a NIC or link is sick; another kind of server: name it with --on"));
    return;
  }
  int64_t nodes = nodes_of(h, b, &m);
  if (!nodes || b->ranks / nodes > m.node->gpus) {
    b->why = mal_print(h->arena, _("%lld ranks do not fit nodes of %lld GPUs"), (long long)b->ranks,
                       (long long)m.node->gpus);
    return;
  }
  if (nodes > 1 && m.node->nics.value <= 0) {
    b->why = _("the machine has no NICs");
    return;
  }
  b->expected = mal_expected_busbw(&m, b->collective, b->ranks, nodes, top->bytes);
  if (b->either) {
    double other = mal_expected_busbw(&m, MAL_ALL_TO_ALL, b->ranks, nodes, top->bytes);
    if (other < b->expected) b->expected = other;
  }
  if (top->bytes < large_bytes && b->tool[0] != 't') {
    b->why = _("messages are too small to judge");
    return;
  }
  b->verdict = top->busbw < MAL_EXPECTED_ENOUGH * b->expected;
  const char *against = mal_print(h->arena, _("%lld × %s"), (long long)b->ranks, m.gpu->title);
  h->judged[MAL_RULE_BENCHMARK] = true;
  mal_machine ring = m;
  mal_machine_at_best(h->arena, &ring);
  ring.gpu->cal.nvls.value = 0;
  double without = mal_expected_busbw(&ring, b->collective, b->ranks, nodes, top->bytes);
  if (b->verdict && m.gpu->cal.nvls.value > 0 && without < b->expected && top->busbw >= 0.92 * without) {
    b->verdict = 0;
    b->why = _("healthy without NVLS");
    mal_find(h, MAL_RULE_NVLS, MAL_SEV_WARNING, b->what, (mal_evidence){b->file, top->line},
             mal_print(h->arena, _("%s: what rings reach (%s); with NVLS it would be %s"),
                       mal_show_rate(top->busbw, "B/s"), mal_show_rate(without, "B/s"),
                       mal_show_rate(b->expected, "B/s")),
             _("NVLS is off or not available"),
             _("look for NVLS lines in a log of NCCL_DEBUG=INFO; NCCL_NVLS_ENABLE; Fabric Manager"))
        ->damage.no_nvls = true;
    return;
  }
  if (b->verdict)
    unhealthy(h, b, top, b->expected, against,
              nodes > 1 ? _("a NIC, its PCIe link or the network is slow, GPUDirect RDMA is off, or one node is sick")
                        : _("NVLinks are down or not used, or a GPU is slowed down"));
  if (top->busbw > 1.25 * b->expected && b->kind == MAL_BENCH_NCCL)
    mal_find(h, MAL_RULE_BENCHMARK_DATA, MAL_SEV_WARNING, b->what, (mal_evidence){b->file, top->line},
             mal_print(h->arena, _("%s is more than %s can give (%s)"), mal_show_rate(top->busbw, "B/s"), against,
                       mal_show_rate(b->expected, "B/s")),
             _("another machine than named, or another unit"),
             _("check --on, and whether the number is busbw in GB/s"));
}

/* Over sizes bandwidth grows to a plateau. A fall that stays is a step; one of half is a collapse. */
static void judge_shape(mal_health *h, mal_bench *b) {
  if (b->kind != MAL_BENCH_NCCL || b->n_points < 4 || b->tool[0] == 't') return;
  h->judged[MAL_RULE_BENCHMARK_SHAPE] = true;
  double best = 0;
  for (int i = 0; i < b->n_points; i++) {
    const mal_bench_point *p = &b->points[i];
    if (i && p->bytes < b->points[i - 1].bytes) best = 0; /* sizes start again */
    if (p->bytes >= 1048576 && best > 0 && p->busbw < 0.75 * best) {
      bool collapse = p->busbw < 0.5 * best;
      mal_find(h, MAL_RULE_BENCHMARK_SHAPE, collapse ? MAL_SEV_ERROR : MAL_SEV_WARNING, b->what,
               (mal_evidence){b->file, p->line},
               mal_print(h->arena, collapse ? _("collapses from %s to %s at %s") : _("steps down from %s to %s at %s"),
                         mal_show_rate(best, "B/s"), mal_show_rate(p->busbw, "B/s"), mal_show_bytes(p->bytes)),
               collapse ? _("congestion (lost packets, no PFC or ECN on RoCE), a NIC without relaxed ordering, or a "
                            "bad link that large messages meet")
                        : _("another algorithm or protocol from this size on, or congestion"),
               _("look at the ports' discard and retransmission counters; compare with NCCL_ALGO and NCCL_PROTO set by "
                 "hand"));
      return;
    }
    if (p->busbw > best) best = p->busbw;
  }
}

static double next_rate(double found) {
  static const double gigabits[] = {10,  25,  40,  50, 56,
                                    100, 200, 400, 800}; /* rates of Ethernet and InfiniBand ports */
  for (size_t i = 0; i < sizeof gigabits / sizeof *gigabits; i++)
    if (found <= 1.03 * gigabits[i] * 1e9 / 8) return gigabits[i] * 1e9 / 8;
  return 0;
}

static void judge_port(mal_health *h, mal_bench *b) {
  const mal_bench_point *top = best_point(b);
  if (!top || (top->bytes > 0 && top->bytes < 65536)) {
    b->why = _("no large message");
    return;
  }
  h->judged[MAL_RULE_BENCHMARK] = true;
  const char *words = b->device ? b->device : "";
  b->rate = strstr(words, "HDR200") ? 25e9 : strstr(words, "NDR400") ? 50e9 : 0;
  for (int i = 0; i < h->topology.n_devices && !b->rate; i++)
    if (h->topology.devices[i].name && b->device && strcmp(h->topology.devices[i].name, b->device) == 0)
      b->rate = mal_fact_number(&h->topology.devices[i], MAL_F_RATE, 0) / 8;
  if (!b->rate && h->on && h->has_machine) b->rate = h->machine.node->nic_bytes_per_s.value;
  bool guessed = b->rate == 0;
  if (guessed) b->rate = next_rate(top->busbw);
  if (!b->rate) return;
  b->expected = 0.97 * b->rate; /* as the catalogue's calibration of NICs says of ib_write_bw */
  b->verdict = top->busbw < (guessed ? 0.6 : 0.85) * b->expected;
  if (b->verdict)
    unhealthy(h, b, top, b->expected,
              guessed ? mal_print(h->arena, _("a port of %.0f Gb/s, the next standard rate,"), b->rate * 8 / 1e9)
                      : mal_print(h->arena, _("a port of %.0f Gb/s"), b->rate * 8 / 1e9),
              _("the port's PCIe link is narrow or slow, ACS, the wrong NUMA node, or a bad cable"));
}

static int by_rate(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Copies between host and GPUs: against the PCIe link where the GPU is known, and cells against each other. */
static void judge_copies(mal_health *h, mal_bench *b) {
  double rates[4096];
  int n = b->n_points < 4096 ? b->n_points : 4096;
  mal_machine m;
  bool host = strstr(b->what, "host") || strstr(b->what, "h2d") || (b->machine && strstr(b->machine, "host")),
       peer = strstr(b->what, "device_to_device") || strstr(b->what, "p2p");
  if (!n) return;
  for (int i = 0; i < n; i++) rates[i] = b->points[i].busbw;
  qsort(rates, (size_t)n, sizeof *rates, by_rate);
  double middle = rates[n / 2];
  if (strstr(b->what, "latency")) {
    b->why = _("a latency, not a bandwidth");
    return;
  }
  h->judged[MAL_RULE_BENCHMARK] = true;
  b->verdict = n > 3 ? 0 : -1;
  for (int i = 0; i < n; i++)
    if (n > 3 && b->points[i].busbw < 0.65 * middle) {
      b->verdict = 1;
      unhealthy(h, b, &b->points[i], middle, _("the other GPUs"),
                _("the PCIe link or NVLinks of this GPU are slower than those of the others"));
      break;
    }
  if (b->verdict > 0 || (!host && !peer) || strstr(b->what, "latency") || !mal_bench_machine(h, b, &m)) return;
  bool both = strstr(b->what, "bidir");
  double link = host ? m.gpu->pcie_bytes_per_s.value : m.gpu->nvlink_bytes_per_s.value;
  if (host && strstr(m.gpu->name, "gh200")) return; /* over the chip's own link, whose rate is not in the catalogue */
  if (link <= 0) return;
  b->expected = (both && peer ? 2 : 1) * 0.88 *
                link; /* nvbandwidth on H200: .88 of the PCIe link and of NVLink (ml-engineering) */
  const mal_bench_point *top = best_point(b);
  b->verdict = top->busbw < (both && host ? 0.6 : 0.72) * b->expected;
  if (b->verdict)
    unhealthy(h, b, top, b->expected, m.gpu->title,
              host ? _("the PCIe link is narrow or slow, or memory of the other socket")
                   : _("NVLinks are down or not used"));
}

static void judge_storage(mal_health *h, mal_bench *b) {
  const mal_bench_point *top = best_point(b);
  mal_machine *m = &h->machine;
  if (!top) return;
  h->judged[MAL_RULE_STORAGE] = true;
  bool read = strcmp(b->what, "read") == 0;
  double all =
      h->has_machine ? (read ? m->node->nvme_read_bytes_per_s.value : m->node->nvme_write_bytes_per_s.value) : 0;
  double drives = h->has_machine ? m->node->nvme_drives.value : 0;
  if (all <= 0 || drives < 1) {
    b->why = _("the machine's drives are not known: give --on MACHINE");
    return;
  }
  if (top->bytes > 0 && top->bytes < 131072) {
    b->why = _("blocks under 128 KiB measure operations, not bandwidth");
    return;
  }
  b->expected = all / drives; /* one drive is the least that was tested */
  b->verdict = top->busbw < 0.5 * b->expected;
  if (b->verdict)
    unhealthy(h, b, top, b->expected, _("one drive of this machine"),
              _("a drive's PCIe link is narrow or slow, it is worn or hot, or the queue is too short"));
}

/* Runs over pairs of nodes: the node whose pairs are all slow. */
typedef struct host {
  const char *name;
  double best, worst;
  int runs;
} host;

static host *host_named(host *hosts, int *n, const char *name) {
  for (int i = 0; i < *n; i++)
    if (strcmp(hosts[i].name, name) == 0) return &hosts[i];
  if (*n >= 1024) return NULL;
  hosts[*n] = (host){.name = name, .worst = INFINITY};
  return &hosts[(*n)++];
}

static bool is_pair(const mal_bench *b) { return b->kind == MAL_BENCH_NCCL && b->n_hosts == 2 && b->nodes <= 2; }

/* Whether some other node, itself well, was as slow with this one: or only it, or none. */
static bool met_a_healthy_one(mal_health *h, const char *name, host *hosts, int *n, double enough) {
  for (int i = 0; i < h->n_benches; i++) {
    const mal_bench *b = &h->benches[i];
    if (!is_pair(b) || !best_point(b)) continue;
    int mine = strcmp(b->hosts[0], name) == 0 ? 0 : strcmp(b->hosts[1], name) == 0 ? 1 : -1;
    const host *other = mine < 0 ? NULL : host_named(hosts, n, b->hosts[1 - mine]);
    if (other && other->best >= enough) return true;
  }
  return false;
}

static void sick_pairs(mal_health *h, host *hosts, int *n, double good) {
  for (int i = 0; i < h->n_benches; i++) {
    const mal_bench *b = &h->benches[i];
    const mal_bench_point *top = best_point(b);
    if (!is_pair(b) || !top || top->busbw >= 0.8 * good) continue;
    if (met_a_healthy_one(h, b->hosts[0], hosts, n, 0.8 * good) ||
        met_a_healthy_one(h, b->hosts[1], hosts, n, 0.8 * good))
      continue;
    mal_finding *f =
        mal_find(h, MAL_RULE_SICK_NODE, MAL_SEV_ERROR, mal_print(h->arena, _("%s or %s"), b->hosts[0], b->hosts[1]),
                 (mal_evidence){b->file, top->line},
                 mal_print(h->arena, _("the pair reaches %s, good pairs reach %s"), mal_show_rate(top->busbw, "B/s"),
                           mal_show_rate(good, "B/s")),
                 _("one of the two is sick, or both: neither was run with a node that is well"),
                 _("run each of them with a node of a good pair, and give all logs"));
    f->found = top->busbw;
    f->expected = good;
  }
}

static void judge_pairs(mal_health *h) {
  host *hosts = MAL_ARRAY(h->arena, host, 1024);
  double *rates = MAL_ARRAY(h->arena, double, h->n_benches + 1);
  int n = 0, runs = 0;
  for (int i = 0; i < h->n_benches; i++) {
    const mal_bench *b = &h->benches[i];
    const mal_bench_point *top = best_point(b);
    if (!is_pair(b) || !top) continue;
    rates[runs++] = top->busbw;
    for (int k = 0; k < 2; k++) {
      host *x = host_named(hosts, &n, b->hosts[k]);
      if (!x) continue;
      x->runs++;
      if (top->busbw > x->best) x->best = top->busbw;
      if (top->busbw < x->worst) x->worst = top->busbw;
    }
  }
  if (runs < 3 || n < 3) return;
  h->judged[MAL_RULE_SICK_NODE] = true;
  qsort(rates, (size_t)runs, sizeof *rates, by_rate);
  double good = rates[runs - 1 - runs / 4];
  for (int i = 0; i < n; i++) {
    if (hosts[i].best >= 0.8 * good || !met_a_healthy_one(h, hosts[i].name, hosts, &n, 0.8 * good)) continue;
    mal_finding *f = mal_find(h, MAL_RULE_SICK_NODE, MAL_SEV_ERROR, hosts[i].name, (mal_evidence){0},
                              mal_print(h->arena, _("its best of %d pairs is %s, good pairs reach %s"), hosts[i].runs,
                                        mal_show_rate(hosts[i].best, "B/s"), mal_show_rate(good, "B/s")),
                              _("this node is slow in every pair: a NIC, its PCIe link, GPUDirect RDMA or a GPU"),
                              _("take it out of the job; run malha check on it"));
    f->found = hosts[i].best;
    f->expected = good;
  }
  sick_pairs(h, hosts, &n, good);
}

void mal_judge_benches(mal_health *h) {
  for (int i = 0; i < h->n_benches; i++) {
    mal_bench *b = &h->benches[i];
    for (int k = 0; k < h->n_variables; k++) { /* what the same log says of its settings */
      const mal_variable *v = &h->variables[k];
      if (v->from.file == b->file && strcmp(v->name, "NCCL_NVLS_ENABLE") == 0 && strcmp(v->value, "0") == 0)
        b->no_nvls = true;
    }
    switch (b->kind) {
    case MAL_BENCH_NCCL: judge_collective(h, b); break;
    case MAL_BENCH_IB: judge_port(h, b); break;
    case MAL_BENCH_COPY: judge_copies(h, b); break;
    case MAL_BENCH_STORAGE: judge_storage(h, b); break;
    }
    judge_shape(h, b);
  }
  judge_pairs(h);
}
