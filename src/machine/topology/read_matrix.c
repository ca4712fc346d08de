/* nvidia-smi topo -m and topo -p2p: a matrix with rows and columns named GPU0, NIC0 or mlx5_0. Real pastes lose the blank column
 * before the header, their tabs, their last rows; some are of other makers, with links of other names. */
#include "machine/topology/read.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 128 };

typedef struct column {
  const char *name;
  int device;
} column;

typedef struct matrix {
  mal_topology *t;
  column columns[COLUMNS_MAX];
  int n;         /* 0: no header yet */
  char letter;   /* of -p2p */
  int cpu, numa; /* order of the columns after the devices: 0 absent, else 1, 2 */
  int rows, last;
  bool peers, node_first;
} matrix;

static bool named_gpu(const char *w) { return strncmp(w, "GPU", 3) == 0 && isdigit((unsigned char)w[3]); }
static bool named_nic(const char *w) {
  static const char *const starts[] = {"mlx",  "NIC", "ib",  "bnxt", "efa", "irdma", "roce",
                                       "rdma", "hfi", "cxi", "eth",  "ens", "enp"};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
    if (mal_starts(w, starts[i])) return true;
  return false;
}

static int device_of(mal_topology *t, const char *name, mal_evidence from) {
  mal_part *d;
  if (named_gpu(name))
    d = mal_part_at(t, MAL_PART_GPU, atoi(name + 3), -1, from);
  else if (mal_starts(name, "NIC") && isdigit((unsigned char)name[3]))
    d = mal_part_at(t, MAL_PART_NIC, atoi(name + 3), -1, from);
  else
    d = mal_part_named(t, MAL_PART_NIC, name, from);
  return d ? (int)(d - t->devices) : -1;
}

/* A header names GPU0 first; devices follow until "CPU Affinity" or another word. */
static bool header(matrix *m, const char *line, mal_evidence from) {
  const char *at = line;
  char *w = mal_word(m->t->arena, &at);
  if (!w || strcmp(w, "GPU0") != 0) return false;
  const char *look = at;
  char *second = mal_word(m->t->arena, &look);
  if (second && !named_gpu(second) && !named_nic(second) && strcmp(second, "CPU") != 0) return false;
  m->n = 0;
  for (; w && (named_gpu(w) || named_nic(w)) && m->n < COLUMNS_MAX; w = mal_word(m->t->arena, &at))
    m->columns[m->n++] = (column){w, device_of(m->t, w, from)};
  const char *cpu = strstr(line, "CPU"), *numa = strstr(line, "NUMA Aff"), *node = strstr(line, "Node Aff");
  m->node_first = node && cpu && node < cpu;
  m->cpu = cpu != NULL;
  m->numa = numa || node;
  return true;
}

static bool path_of(const char *w, mal_path *path, int *links) {
  *links = 0;
  if (strncmp(w, "NV", 2) == 0 && isdigit((unsigned char)w[2])) {
    *path = MAL_PATH_NVLINK;
    *links = atoi(w + 2);
    return *links > 0 && *links <= MAL_LINKS_MAX;
  }
  for (int i = MAL_PATH_PIX; i <= MAL_PATH_SYS; i++)
    if (strcmp(w, mal_path_name[i]) == 0) {
      *path = (mal_path)i;
      return true;
    }
  if (strcmp(w, "SOC") == 0)
    *path = MAL_PATH_SYS; /* nvidia-smi before 2018 */
  else
    *path = MAL_PATH_FOREIGN;
  return strcmp(w, "SOC") == 0 || (strlen(w) <= 5 && isupper((unsigned char)*w));
}

static bool is_peer_status(const char *w) {
  static const char *const status[] = {"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"};
  for (size_t i = 0; i < sizeof status / sizeof *status; i++)
    if (strcmp(w, status[i]) == 0) return true;
  return false;
}

static bool cell(matrix *m, int row, int column, const char *w, mal_evidence from) {
  mal_topology *t = m->t;
  bool self = strcmp(w, "X") == 0;
  if (m->peers ? !self && !is_peer_status(w) : is_peer_status(w)) return false;
  mal_path path = MAL_PATH_SELF;
  int links = 0;
  if (!self && !m->peers && !path_of(w, &path, &links)) return false;
  if (self || row < 0 || column < 0 || row == column) return true;
  mal_wire *wire = mal_wire_between(t, &t->devices[row], &t->devices[column]);
  if (m->peers) {
    if (!wire->peer[m->letter - 'a'] || strcmp(w, "OK") != 0) wire->peer[m->letter - 'a'] = w;
    wire->peer_from = from;
  } else if (wire->path == MAL_PATH_UNKNOWN || (path == MAL_PATH_NVLINK && links < wire->nvlinks)) {
    *wire = (mal_wire){.a = wire->a, .b = wire->b, .path = path, .nvlinks = links, .token = w, .from = from};
  }
  return true;
}

/* "0-31,64-95", "0-23", "N/A". */
static bool is_cpus(const char *w) { return mal_cpus_count(w) > 0; }
static bool is_numa(const char *w) {
  for (const char *c = w; *c; c++)
    if (!isdigit((unsigned char)*c) && *c != '-' && *c != ',') return false;
  return *w != 0;
}

static void affinity(matrix *m, int row, const char *at, mal_evidence from) {
  char *first = mal_word(m->t->arena, &at), *second = first ? mal_word(m->t->arena, &at) : NULL;
  if (row < 0 || !first) return;
  mal_part *d = &m->t->devices[row];
  if (d->kind != MAL_PART_GPU) return;
  const char *cpus = m->node_first ? second : first, *numa = m->node_first ? first : second;
  if (m->cpu && cpus && is_cpus(cpus)) mal_know_text(m->t, d, MAL_F_CPUS, cpus, from);
  if (m->numa && numa && is_numa(numa)) mal_know(d, MAL_F_NUMA, atoi(numa), from);
}

static bool row(matrix *m, const char *line, mal_evidence from) {
  const char *at = line;
  char *name = mal_word(m->t->arena, &at);
  int which = -1;
  for (int i = 0; name && i < m->n; i++)
    if (strcmp(m->columns[i].name, name) == 0) which = i;
  if (which < 0) return false;
  for (int i = 0; i < m->n; i++) {
    char *w = mal_word(m->t->arena, &at);
    if (!w || !cell(m, m->columns[which].device, m->columns[i].device, w, from)) return i > which;
  }
  affinity(m, m->columns[which].device, at, from);
  return true;
}

/* "  NIC3: mlx5_3" of the legend. */
static void legend(mal_topology *t, const char *line) {
  int index, used = 0;
  char name[64];
  if (sscanf(line, " NIC%d: %63s%n", &index, name, &used) != 2 || !used) return;
  mal_part *d = mal_find_part(t, MAL_PART_NIC, index);
  if (d && !d->name) d->name = mal_copy(t->arena, name);
}

static bool read(mal_topology *t, const mal_paste *p, bool peers, int *broken) {
  matrix *m = MAL_NEW(t->arena, matrix);
  *m = (matrix){.t = t, .letter = 'r', .peers = peers};
  mal_lines l = mal_lines_of(p);
  int cells = 0;
  while (mal_lines_next(&l)) {
    mal_evidence from = {p->file, l.number};
    if (l.length > 8192) continue;
    const char *flag = strstr(l.line, "-p2p ");
    if (flag && strchr("rwnap", flag[5]) && flag[5]) m->letter = flag[5];
    if (!strstr(l.line, "GPU") && !strstr(l.line, "NIC") && !m->n) continue;
    if (header(m, l.line, from)) continue;
    if (m->n && row(m, l.line, from)) {
      cells++;
      m->rows++;
      m->last = l.number;
    } else if (m->n) {
      legend(t, l.line);
    }
  }
  mal_lines_end(&l);
  int gpus = mal_count_parts(t, MAL_PART_GPU);
  if (cells && m->rows < gpus) *broken = m->last;
  bool any = false; /* a matrix of the other sort leaves no wires */
  for (int i = 0; i < t->n_wires && !any; i++)
    any = peers ? t->wires[i].peer_from.line > 0 : t->wires[i].path != MAL_PATH_UNKNOWN;
  return cells > 0 && (any || (!peers && gpus == 1 && cells == 1 && m->cpu));
}

bool mal_read_matrix(mal_topology *t, const mal_paste *p, int *broken) { return read(t, p, false, broken); }
bool mal_read_peers(mal_topology *t, const mal_paste *p, int *broken) { return read(t, p, true, broken); }
