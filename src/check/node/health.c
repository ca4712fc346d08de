#include "check/node/log.h"
#include "core/catalog.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const mal_severity_name[] = {"note", "warning", "error"};
_Static_assert(sizeof mal_severity_name / sizeof *mal_severity_name == MAL_SEVERITIES, "one name a severity");

const char *const mal_rule_name[] = {"gpu-count",
                                     "nvlink-path",
                                     "nvlink-links",
                                     "nvlink-errors",
                                     "nvswitch",
                                     "peer-access",
                                     "pcie-link",
                                     "acs",
                                     "nic-distance",
                                     "nic-count",
                                     "rail-order",
                                     "affinity",
                                     "gpudirect-rdma",
                                     "nvls",
                                     "throttling",
                                     "power-limit",
                                     "temperature",
                                     "ecc",
                                     "row-remap",
                                     "mig",
                                     "reset-required",
                                     "mixed",
                                     "port-state",
                                     "port-errors",
                                     "xid",
                                     "sxid",
                                     "kernel",
                                     "environment",
                                     "nccl-transport",
                                     "nccl-network",
                                     "nccl-errors",
                                     "benchmark",
                                     "benchmark-shape",
                                     "benchmark-data",
                                     "sick-node",
                                     "storage",
                                     "listings",
                                     "gpu-answers"};
_Static_assert(sizeof mal_rule_name / sizeof *mal_rule_name == MAL_RULES, "one name a rule");

const char *const mal_rule_title[] = {N_("all GPUs are there"),
                                      N_("GPU pairs joined by NVLink as built"),
                                      N_("NVLinks up, at full speed"),
                                      N_("NVLinks without errors"),
                                      N_("NVSwitches there, fabric set up"),
                                      N_("GPUs may read each other"),
                                      N_("PCIe links at their generation and width"),
                                      N_("ACS does not redirect peer traffic"),
                                      N_("each GPU has a NIC near it"),
                                      N_("as many NICs as rails"),
                                      N_("NICs in the order of GPUs"),
                                      N_("CPU and NUMA affinity visible and right"),
                                      N_("GPUDirect RDMA"),
                                      N_("NVLS (reduction in the switch)"),
                                      N_("clocks not held down"),
                                      N_("power limits at their default"),
                                      N_("temperatures below slowdown"),
                                      N_("memory without uncorrected errors"),
                                      N_("row remapping"),
                                      N_("MIG off"),
                                      N_("no GPU waits for a reset"),
                                      N_("GPUs and NICs alike"),
                                      N_("ports up, at their rate"),
                                      N_("ports without errors"),
                                      N_("no XID in the kernel log"),
                                      N_("no SXid of an NVSwitch"),
                                      N_("kernel log"),
                                      N_("environment"),
                                      N_("NCCL's transports"),
                                      N_("NCCL's network"),
                                      N_("NCCL without errors"),
                                      N_("bandwidth as this machine should give"),
                                      N_("bandwidth without collapses over sizes"),
                                      N_("results right and consistent"),
                                      N_("no node slower than the others"),
                                      N_("storage bandwidth"),
                                      N_("listings agree with each other"),
                                      N_("GPUs answer the driver")};
_Static_assert(sizeof mal_rule_title / sizeof *mal_rule_title == MAL_RULES, "one title a rule");

const mal_damage mal_no_damage = {.nvlink = 1, .pcie = 1, .nic = 1, .compute = 1};

void mal_health_init(mal_health *h, mal_arena *a) {
  *h = (mal_health){.arena = a};
  mal_topology_init(&h->topology, a);
}

const mal_csv *mal_health_table(mal_health *h, mal_check_table t) {
  static const char *const names[] = {"xid.csv", "sxid.csv", "nccl_env.csv"};
  mal_csv *csv = &h->tables[t];
  mal_error ignored;
  if (csv->path) return csv;
  const char *path = mal_print(h->arena, "%s/checks/%s", mal_catalog_root(), names[t]);
  if (mal_csv_read(h->arena, path, csv, &ignored) != MAL_OK) *csv = (mal_csv){0};
  csv->path = path;
  return csv;
}

/* Room doubles at powers of two. */
static void *room_for_one(mal_arena *a, void *list, int n, size_t size) {
  return (n & (n - 1)) == 0 ? mal_grow(a, list, (size_t)n, n ? 2 * (size_t)n : 1, size) : list;
}

enum { FINDINGS_MAX = 1000, FINDING_SLOTS = 4096, BENCHES_MAX = 20000 };

static unsigned slot_of(const mal_health *h, mal_rule rule, const char *device, const char *what) {
  uint64_t hash = mal_log_hash(mal_log_hash((uint64_t)rule, device, true), what, true);
  for (unsigned at = (unsigned)(hash % FINDING_SLOTS);; at = (at + 1) % FINDING_SLOTS) {
    const mal_finding *f = h->finding_of[at] ? &h->findings[h->finding_of[at] - 1] : NULL;
    if (!f || (f->rule == rule && strcmp(f->device, device) == 0 && strcmp(f->what, what) == 0)) return at;
  }
}

int mal_find_number(const mal_health *h, const mal_finding *f) {
  bool mine = h->findings && f >= h->findings && f < h->findings + h->n_findings;
  return mine ? (int)(f - h->findings) : -1;
}

void mal_find_again(mal_health *h, int number, mal_evidence from) {
  if (number < 0 || number >= h->n_findings) {
    h->left_out++;
    return;
  }
  mal_finding *f = &h->findings[number];
  if (f->count < INT_MAX) f->count++;
  f->last = from;
}

mal_finding *mal_find(mal_health *h, mal_rule rule, mal_severity severity, const char *device, mal_evidence from,
                      const char *what, const char *cause, const char *todo) {
  static mal_finding spilled; /* beyond any use; what is said of it is not kept */
  h->judged[rule] = true;
  if (!h->finding_of) h->finding_of = MAL_ARRAY(h->arena, int, FINDING_SLOTS);
  unsigned slot = slot_of(h, rule, device, what);
  if (h->finding_of[slot]) { /* the same fault again counts */
    mal_find_again(h, h->finding_of[slot] - 1, from);
    return &h->findings[h->finding_of[slot] - 1];
  }
  if (h->n_findings >= FINDINGS_MAX) {
    h->left_out++;
    return &spilled;
  }
  h->findings = room_for_one(h->arena, h->findings, h->n_findings, sizeof *h->findings);
  mal_finding *f = &h->findings[h->n_findings++];
  h->finding_of[slot] = h->n_findings;
  *f = (mal_finding){
      .rule = rule, .severity = severity, .from = from, .last = from, .count = 1, .damage = mal_no_damage};
  f->device = mal_copy(h->arena, device);
  f->what = mal_copy(h->arena, what);
  f->cause = mal_copy(h->arena, cause);
  f->todo = mal_copy(h->arena, todo);
  return f;
}

mal_bench *mal_health_bench(mal_health *h, mal_bench_kind kind, const char *file, const char *tool, const char *what,
                            int line) {
  if (h->n_benches >= BENCHES_MAX) return NULL;
  h->benches = room_for_one(h->arena, h->benches, h->n_benches, sizeof *h->benches);
  mal_bench *b = &h->benches[h->n_benches++];
  *b = (mal_bench){
      .kind = kind, .file = file, .tool = tool, .what = mal_copy(h->arena, what), .line = line, .verdict = -1};
  return b;
}

mal_bench_point *mal_bench_add(mal_health *h, mal_bench *b) {
  b->points = room_for_one(h->arena, b->points, b->n_points, sizeof *b->points);
  mal_bench_point *p = &b->points[b->n_points++];
  *p = (mal_bench_point){.repeats = 1};
  return p;
}

bool mal_collective_named(const char *name, mal_collective *c, bool *rooted, const char **canonical) {
  static const struct {
    const char *start, *canonical;
    mal_collective c;
    bool rooted, priced;
  } names[] = {{"all_reduce", "all_reduce", MAL_ALL_REDUCE, false, true},
               {"allreduce", "all_reduce", MAL_ALL_REDUCE, false, true},
               {"all_gather", "all_gather", MAL_ALL_GATHER, false, true},
               {"allgather", "all_gather", MAL_ALL_GATHER, false, true},
               {"reduce_scatter", "reduce_scatter", MAL_REDUCE_SCATTER, false, true},
               {"reducescatter", "reduce_scatter", MAL_REDUCE_SCATTER, false, true},
               {"alltoall", "alltoall", MAL_ALL_TO_ALL, false, true},
               {"all_to_all", "alltoall", MAL_ALL_TO_ALL, false, true},
               {"broadcast", "broadcast", MAL_BROADCAST, true, true},
               {"reduce", "reduce", MAL_BROADCAST, true, true}, /* the same bytes the other way */
               {"sendrecv", "sendrecv", MAL_BROADCAST, true, false},
               {"gather", "gather", MAL_ALL_GATHER, false, false},
               {"scatter", "scatter", MAL_ALL_GATHER, false, false}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (mal_starts(name, names[i].start)) {
      *c = names[i].c;
      *rooted = names[i].rooted;
      *canonical = names[i].canonical;
      return names[i].priced;
    }
  *canonical = name;
  *rooted = false;
  return false;
}

const char *mal_health_kinds(mal_arena *a) { return mal_print(a, "%s, %s", mal_topology_kinds(a), mal_log_kinds(a)); }

static void note_input(mal_health *h, const char *file, const char *what) {
  const char *text = mal_print(h->arena, "%s (%s)", file, what);
  for (int i = 0; i < h->n_inputs; i++)
    if (strcmp(h->inputs[i], text) == 0) return;
  h->inputs = room_for_one(h->arena, h->inputs, h->n_inputs, sizeof *h->inputs);
  h->inputs[h->n_inputs++] = text;
}

/* The listings of a node in the text, and whether there was any. */
static bool read_listings(mal_health *h, const mal_paste *p) {
  bool listing;
  int before = h->topology.n_sources;
  mal_topology_read(&h->topology, p, &listing);
  h->has_topology = h->has_topology || listing;
  for (int i = before; i < h->topology.n_sources; i++) note_input(h, p->file, h->topology.sources[i].what);
  return listing;
}

static void not_read(mal_health *h, const char *file) {
  h->unread = room_for_one(h->arena, h->unread, h->n_unread, sizeof *h->unread);
  h->unread[h->n_unread++] = file;
}

mal_status mal_health_read(mal_health *h, const mal_paste *p, mal_error *e) {
  (void)e;
  h->log_bytes += (int64_t)p->length;
  bool listing = read_listings(h, p);
  mal_log_reading *r = mal_logs_begin(h, p);
  mal_logs_feed(r, p->text, p->length);
  if (!mal_logs_end(r, p, note_input) && !listing) not_read(h, p->file);
  return MAL_OK;
}

enum { HEAD_BYTES = MAL_LISTING_BYTES, PIECE_BYTES = 1 << 20, LINE_BYTES_MOST = 1 << 24 };

/* Reads until `room` is full or the file ends; the bytes read, -1 on an error. */
static ssize_t fill(int fd, char *to, size_t room) {
  size_t used = 0;
  while (used < room) {
    ssize_t n = read(fd, to + used, room - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    used += (size_t)n;
  }
  return (ssize_t)used;
}

static size_t after_last_newline(const char *text, size_t length) {
  const char *last = memrchr(text, '\n', length);
  return last ? (size_t)(last - text) + 1 : 0;
}

/* The rest of a long log, of which `room` holds the `left` bytes of a line begun. */
static mal_status read_pieces(mal_health *h, mal_log_reading *r, int fd, const char *file, char *room, size_t size,
                              size_t left, mal_error *e) {
  for (;;) {
    ssize_t n = fill(fd, room + left, size - left);
    if (n < 0) return mal_fail(e, MAL_FAULT, _("%s: reading failed: %s."), file, strerror(errno));
    h->log_bytes += n;
    size_t length = left + (size_t)n, whole = after_last_newline(room, length);
    bool last = length < size;
    if (last || !whole) whole = length; /* of a line longer than the room each piece is a line */
    mal_logs_feed(r, room, mal_text_clean(room, whole));
    if (last) return MAL_OK;
    left = length - whole;
    memmove(room, room + whole, left);
  }
}

static mal_status read_long(mal_health *h, mal_arena *a, int fd, const char *file, char *head, mal_error *e) {
  size_t whole = after_last_newline(head, HEAD_BYTES), left = HEAD_BYTES - whole;
  char *room = mal_alloc(a, LINE_BYTES_MOST + 1);
  mal_paste p;
  if (!whole) whole = HEAD_BYTES, left = 0;
  memcpy(room, head + whole, left);
  mal_paste_make(a, file, head, whole, &p);
  h->log_bytes += HEAD_BYTES;
  bool listing = read_listings(h, &p);
  mal_log_reading *r = mal_logs_begin(h, &p);
  mal_logs_feed(r, p.text, p.length);
  mal_status s = read_pieces(h, r, fd, file, room, left > PIECE_BYTES / 2 ? LINE_BYTES_MOST : PIECE_BYTES, left, e);
  if (s != MAL_OK) return s;
  mal_paste all = {0};
  bool again = fd != STDIN_FILENO && mal_logs_need_all(r);
  if (again) s = mal_paste_load(a, file, &all, e);
  all.file = p.file;
  if (s == MAL_OK && !mal_logs_end(r, again ? &all : NULL, note_input) && !listing) not_read(h, p.file);
  return s;
}

mal_status mal_health_read_file(mal_health *h, const char *file, mal_error *e) {
  mal_arena text; /* what is read, which findings copy from */
  mal_paste p;
  mal_status s;
  int fd = strcmp(file, "-") == 0 ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat what;
  bool readable = fd >= 0 && fstat(fd, &what) == 0 && (fd == STDIN_FILENO || S_ISREG(what.st_mode)),
       is_long = readable && !(S_ISREG(what.st_mode) && what.st_size <= HEAD_BYTES);
  const char *name = fd == STDIN_FILENO ? _("standard input") : mal_copy(h->arena, file);
  mal_arena_init(&text);
  ssize_t n = 0;
  char *head = NULL;
  if (is_long) {
    head = mal_alloc(&text, HEAD_BYTES + 1);
    n = fill(fd, head, HEAD_BYTES);
  }
  if (is_long && n >= 0 && mal_text_other(head, (size_t)n)) {
    s = mal_fail(e, MAL_BAD, _("%s is %s."), name, mal_text_other(head, (size_t)n));
  } else if (is_long && fd == STDIN_FILENO && n == HEAD_BYTES && mal_text_is_wide(head, (size_t)n)) {
    s = mal_fail(e, MAL_BAD, _("%s: UTF-16 of this length cannot be read from a pipe. Save it to a file."), name);
  } else if (is_long && n == HEAD_BYTES && !mal_text_is_wide(head, (size_t)n)) {
    s = read_long(h, &text, fd, fd == STDIN_FILENO ? name : file, head, e);
  } else if (is_long && fd == STDIN_FILENO && n >= 0 && n < HEAD_BYTES) { /* short after all */
    mal_paste_make(&text, name, head, (size_t)n, &p);
    s = mal_health_read(h, &p, e);
  } else { /* short, wide, or not readable: which is told */
    s = mal_paste_load(&text, file, &p, e);
    p.file = name;
    if (s == MAL_OK) s = mal_health_read(h, &p, e);
  }
  if (fd > STDIN_FILENO) close(fd);
  mal_arena_free(&text);
  return s;
}

/* Servers are built with fewer NICs than the GPU's default one: a node of the catalogue with this GPU and as many NICs as were found. */
static const char *node_with(mal_health *h, const char *gpu, int gpus) {
  mal_part *rails[256];
  char **names;
  size_t count;
  mal_error ignored;
  int n = mal_topology_rails(&h->topology, rails, 256);
  if (!n || mal_catalog_list(h->arena, "nodes", ".yaml", &names, &count, &ignored) != MAL_OK) return NULL;
  for (size_t i = 0; i < count; i++) {
    mal_node *node;
    if (mal_node_load(h->arena, names[i], &node, &ignored) == MAL_OK && strcmp(node->gpu, gpu) == 0 &&
        node->gpus == gpus && node->nics.value == n)
      return names[i];
  }
  return NULL;
}

/* The node as it should be: what the user names, else what the found GPUs are of. */
static mal_status find_machine(mal_health *h, const char *on, mal_error *e) {
  h->on = on;
  if (on) {
    mal_status s = mal_machine_load(h->arena, on, &h->machine, e);
    h->has_machine = s == MAL_OK;
    h->machine_why = "--on";
    return s;
  }
  const char *gpu = h->has_topology ? mal_topology_gpu(h->arena, &h->topology) : NULL;
  mal_error ignored;
  if (!gpu) return MAL_OK;
  int gpus = mal_count_parts(&h->topology, MAL_PART_GPU);
  mal_gpu *g;
  if (mal_gpu_load(h->arena, gpu, &g, &ignored) != MAL_OK) return MAL_OK;
  mal_node *node;
  if (mal_node_load(h->arena, g->default_node, &node, &ignored) != MAL_OK) return MAL_OK;
  mal_part *rails[256];
  bool fewer = node->nvlink_domain > 1 && mal_topology_rails(&h->topology, rails, 256) < node->nics.value;
  const char *built = fewer ? node_with(h, gpu, gpus) : NULL;
  const char *spec = built ? built : mal_print(h->arena, "%dx%s", gpus <= node->gpus ? gpus : (int)node->gpus, gpu);
  h->has_machine = mal_machine_load(h->arena, spec, &h->machine, &ignored) == MAL_OK;
  h->machine_why = spec;
  return MAL_OK;
}

static int by_severity(const void *a, const void *b) {
  const mal_finding *x = a, *y = b;
  if (x->severity != y->severity) return x->severity > y->severity ? -1 : 1;
  return x->rule < y->rule ? -1 : x->rule > y->rule;
}

/* Insertion keeps the order of equals: findings come in the order of devices. */
static void sort_findings(mal_health *h) {
  for (int i = 1; i < h->n_findings; i++) {
    mal_finding f = h->findings[i];
    int at = i;
    for (; at > 0 && by_severity(&f, &h->findings[at - 1]) < 0; at--) h->findings[at] = h->findings[at - 1];
    h->findings[at] = f;
  }
}

mal_status mal_health_judge(mal_health *h, const char *on, mal_error *e) {
  if (h->has_topology) mal_topology_derive(&h->topology);
  mal_status s = find_machine(h, on, e);
  if (s != MAL_OK) return s;
  if (h->has_topology) {
    mal_judge_topology(h);
    mal_judge_gpus(h);
    mal_judge_nics(h);
  }
  mal_judge_environment(h);
  mal_judge_benches(h);
  mal_cost_findings(h);
  sort_findings(h);
  return MAL_OK;
}

mal_severity mal_health_worst(const mal_health *h) {
  mal_severity worst = MAL_SEV_NOTE;
  for (int i = 0; i < h->n_findings; i++)
    if (h->findings[i].severity > worst) worst = h->findings[i].severity;
  return worst;
}

int mal_health_judged(const mal_health *h) {
  int n = 0;
  for (int r = 0; r < MAL_RULES; r++) n += h->judged[r];
  return n;
}

int mal_health_count(const mal_health *h, mal_severity severity) {
  int n = 0;
  for (int i = 0; i < h->n_findings; i++) n += h->findings[i].severity == severity;
  return n;
}
