#include "machine/machine.h"
#include "core/catalog.h"
#include "core/file.h"
#include "core/suggest.h"
#include "machine/hardware.h"
#include "machine/here.h"
#include <stdio.h>
#include <string.h>

enum { NODES_MAX = 1 << 20, SPEC_MAX = 4096 };
static const int64_t GPUS_MAX = INT64_C(1) << 24; /* ranks of any layout */

typedef struct machine_file { /* what a machine file says beside its sections */
  char *name;
  int64_t nodes, gpus_per_node;
} machine_file;

#define OWN(member, field_kind, least, most)                                                                           \
  { .key = #member, .kind = field_kind, .offset = offsetof(machine_file, member), .lo = least, .hi = most }
#define OWN_FIELDS                                                                                                     \
  OWN(name, MAL_FIELD_TEXT, 0, 0), OWN(nodes, MAL_FIELD_INT, 1, NODES_MAX), OWN(gpus_per_node, MAL_FIELD_INT, 1, 1024)

static const mal_field machine_table[] = {
    OWN_FIELDS,
    {.key = "node", .kind = MAL_FIELD_SECTION, .section = mal_node_table},
    {.key = "gpu", .kind = MAL_FIELD_SECTION, .section = mal_gpu_table},
    {.key = "fabric", .kind = MAL_FIELD_SECTION, .section = mal_fabric_table},
    {0},
};
static const mal_field machine_own_table[] = {OWN_FIELDS, {0}}; /* begins as machine_table does */

typedef struct section_visit {
  const char *section;
  mal_machine_visit *visit;
  void *context;
} section_visit;

static void visit_one(void *context, const char *key, mal_value *value, mal_fitted *fitted) {
  section_visit *v = context;
  v->visit(v->context, v->section, key, value, fitted);
}

void mal_machine_each(const mal_machine *m, mal_machine_visit *visit, void *context) {
  section_visit gpu = {"gpu", visit, context}, node = {"node", visit, context}, fabric = {"fabric", visit, context};
  mal_fields_each(mal_gpu_table, m->gpu, visit_one, &gpu);
  mal_fields_each(mal_node_table, m->node, visit_one, &node);
  mal_fields_each(mal_fabric_table, m->fabric, visit_one, &fabric);
}

static void count_unverified(void *context, const char *section, const char *key, const mal_value *value,
                             const mal_fitted *fitted) {
  (void)section, (void)key, (void)fitted;
  if (value && !mal_value_verified(value)) ++*(int *)context;
}

/* "16x8xh100-sxm" → counts {16, 8} and the name. A run of digits followed by x and something is a count. */
static mal_status split_spec(const char *spec, int64_t counts[2], int *n, const char **name, mal_error *e) {
  *n = 0;
  for (*name = spec;;) {
    size_t digits = strspn(*name, "0123456789");
    char x = digits ? (*name)[digits] : 0;
    if ((x != 'x' && x != 'X') || !(*name)[digits + 1]) return MAL_OK;
    int64_t count = 0;
    for (size_t i = 0; i < digits && count <= GPUS_MAX; i++) count = count * 10 + ((*name)[i] - '0');
    if (count < 1 || count > GPUS_MAX)
      return mal_fail(e, MAL_BAD, _("machine '%s': the count %.*s must lie between 1 and %lld."), spec,
                      (int)(digits < 32 ? digits : 32), *name, (long long)GPUS_MAX);
    if (*n == 2)
      return mal_fail(e, MAL_BAD, _("machine '%s' has more than two counts; write NODESxGPUSxNAME, as 16x8xh100-sxm."),
                      spec);
    counts[(*n)++] = count;
    *name += digits + 1;
  }
}

static mal_status unknown_name(mal_arena *a, const char *spec, const char *name, mal_error *e) {
  char **gpus, **nodes, near[256] = "";
  size_t n_gpus = 0, n_nodes = 0;
  if (mal_catalog_list(a, "gpus", ".yaml", &gpus, &n_gpus, e) != MAL_OK ||
      mal_catalog_list(a, "nodes", ".yaml", &nodes, &n_nodes, e) != MAL_OK)
    return e ? e->status : MAL_BAD;
  const char **all = MAL_ARRAY(a, const char *, n_gpus + n_nodes + 1);
  for (size_t i = 0; i < n_gpus + n_nodes; i++) all[i] = i < n_gpus ? gpus[i] : nodes[i - n_gpus];
  mal_suggest(name, all, n_gpus + n_nodes, near, sizeof near);
  if (near[0])
    return mal_fail(e, MAL_BAD, _("machine '%s': no GPU or node is called '%s'; nearest: %s."), spec, name, near);
  return mal_fail(e, MAL_BAD,
                  _("machine '%s': no GPU or node is called '%s'. Write NODESxGPUSxNAME, as 16x8xh100-sxm, a node's "
                    "name, as dgx-h100, or a machine file."),
                  spec, name);
}

/* Where the name lies in the catalogue: "gpus" before "nodes", NULL when in neither. */
static const char *folder_of(mal_arena *a, const char *name) {
  static const char *const folders[] = {"gpus", "nodes"};
  char *path;
  mal_error ignored;
  for (int i = 0; i < 2; i++)
    if (mal_catalog_find(a, folders[i], name, ".yaml", "machine", &path, &ignored) == MAL_OK) return folders[i];
  return NULL;
}

/* Counts given with a GPU's name: nodes × GPUs, or all GPUs together. */
static mal_status count_gpus(const char *spec, const int64_t counts[2], int n, mal_machine *m, mal_error *e) {
  int64_t most = m->node->gpus, gpus = n ? counts[n - 1] : 1;
  m->nodes = n == 2 ? counts[0] : 1;
  m->gpus_per_node = gpus;
  if (gpus <= most) return MAL_OK;
  if (n == 2)
    return mal_fail(e, MAL_BAD,
                    P_("machine '%s': the node, %s, has %lld GPU, not %lld; write %lldx%lldx%s.",
                       "machine '%s': the node, %s, has %lld GPUs, not %lld; write %lldx%lldx%s.", most),
                    spec, m->node->title, (long long)most, (long long)gpus, (long long)counts[0], (long long)most,
                    m->gpu->name);
  if (gpus % most != 0)
    return mal_fail(
        e, MAL_BAD, _("machine '%s': %lld GPUs do not fill nodes of %lld; the nearest that do are %lld and %lld."),
        spec, (long long)gpus, (long long)most, (long long)(gpus / most * most), (long long)((gpus / most + 1) * most));
  m->nodes = gpus / most;
  m->gpus_per_node = most;
  return MAL_OK;
}

static mal_status count_nodes(const char *spec, const int64_t counts[2], int n, mal_machine *m, mal_error *e) {
  m->nodes = n ? counts[0] : 1;
  m->gpus_per_node = n == 2 ? counts[1] : m->node->gpus;
  if (m->gpus_per_node > m->node->gpus)
    return mal_fail(e, MAL_BAD,
                    P_("machine '%s': the node, %s, has %lld GPU, not %lld.",
                       "machine '%s': the node, %s, has %lld GPUs, not %lld.", m->node->gpus),
                    spec, m->node->title, (long long)m->node->gpus, (long long)m->gpus_per_node);
  return MAL_OK;
}

static mal_status finish(mal_machine *m, mal_error *e) {
  if (m->nodes > NODES_MAX || m->nodes * m->gpus_per_node > GPUS_MAX)
    return mal_fail(e, MAL_BAD, _("machine '%s' has %lld nodes; at most %d nodes and %lld GPUs can be planned."),
                    m->name, (long long)m->nodes, NODES_MAX, (long long)GPUS_MAX);
  if (m->nodes > 1 && m->node->nics.value * m->node->nic_bytes_per_s.value <= 0 &&
      m->nodes * m->gpus_per_node > m->node->nvlink_domain)
    return mal_fail(e, MAL_BAD,
                    _("machine '%s': %lld nodes of %s have no network between them; give nics and nic_bytes_per_s in a "
                      "machine file."),
                    m->name, (long long)m->nodes, m->node->name);
  m->unverified = 0;
  mal_machine_each(m, count_unverified, &m->unverified);
  return MAL_OK;
}

static mal_status load_gpu_spec(mal_arena *a, const char *name, mal_machine *m, mal_error *e) {
  mal_status s = mal_gpu_load(a, name, &m->gpu, e);
  if (s == MAL_OK) s = mal_node_load(a, m->gpu->default_node, &m->node, e);
  if (s != MAL_OK) return s;
  m->node->title = mal_print(a, _("%s (the default for %s)"), m->node->title, m->gpu->name);
  m->node->gpu = m->gpu->name; /* a server for many cards holds this one */
  return MAL_OK;
}

static mal_status load_node_spec(mal_arena *a, const char *name, mal_machine *m, mal_error *e) {
  mal_status s = mal_node_load(a, name, &m->node, e);
  return s == MAL_OK ? mal_gpu_load(a, m->node->gpu, &m->gpu, e) : s;
}

mal_status mal_machine_load(mal_arena *a, const char *spec, mal_machine *m, mal_error *e) {
  *m = (mal_machine){.name = mal_copy(a, spec)};
  if (mal_names_file(spec)) {
    char *text;
    size_t length;
    mal_status s = mal_file_read(a, spec, MAL_YAML_LIMIT_BYTES, &text, &length, e);
    return s == MAL_OK ? mal_machine_parse(a, spec, text, length, m, e) : s;
  }
  int64_t counts[2];
  int n;
  const char *name;
  if (strlen(spec) > SPEC_MAX) return mal_fail(e, MAL_BAD, _("machine: the name is longer than %d bytes."), SPEC_MAX);
  mal_status s = split_spec(spec, counts, &n, &name, e);
  if (s != MAL_OK) return s;
  bool here = strcmp(name, "here") == 0;
  if (here && n == 2) return mal_fail(e, MAL_BAD, _("machine '%s': here is one computer; write 8xhere."), spec);
  if (here) name = "cpu";
  const char *folder = folder_of(a, name);
  if (!folder) return unknown_name(a, spec, name, e);
  bool is_gpu = strcmp(folder, "gpus") == 0;
  s = is_gpu ? load_gpu_spec(a, name, m, e) : load_node_spec(a, name, m, e);
  if (s == MAL_OK) s = mal_fabric_load(a, NULL, &m->fabric, e);
  if (s == MAL_OK) s = is_gpu ? count_gpus(spec, counts, n, m, e) : count_nodes(spec, counts, n, m, e);
  if (s == MAL_OK && here) mal_here_describe(a, m, n ? counts[0] : mal_here_cores());
  return s == MAL_OK ? finish(m, e) : s;
}

char *mal_machine_spec(mal_arena *a, const char *spec, int64_t nodes, int64_t gpus_per_node) {
  int64_t counts[2];
  int n;
  const char *name;
  mal_error ignored;
  if (mal_names_file(spec) || split_spec(spec, counts, &n, &name, &ignored) != MAL_OK || !folder_of(a, name))
    return NULL;
  if (nodes == 1 && strcmp(folder_of(a, name), "gpus") == 0)
    return mal_print(a, "%lldx%s", (long long)gpus_per_node, name);
  return mal_print(a, "%lldx%lldx%s", (long long)nodes, (long long)gpus_per_node, name);
}

mal_status mal_machine_resize(mal_arena *a, mal_machine *m, int64_t nodes, int64_t gpus_per_node, mal_error *e) {
  const char *name = mal_machine_spec(a, m->name, nodes, gpus_per_node);
  if (name) m->name = name;
  m->nodes = nodes, m->gpus_per_node = gpus_per_node;
  return finish(m, e);
}

/* One section of a machine file over its base; the base alone when the section is absent. */
static mal_status load_section(mal_arena *a, const mal_fields *file, const char *key, const char *folder,
                               const mal_field *table, const char *fallback, void *whole, mal_error *e) {
  mal_fields section;
  if (!mal_fields_section(file, key, &section)) return mal_hardware_load(a, folder, key, table, fallback, whole, e);
  mal_status s = mal_hardware_merge(a, folder, key, &section, fallback, whole, e);
  return s == MAL_OK ? mal_fields_complete(table, file->path, whole, e) : s;
}

/* The node a file means when it has no node section: its GPU's default. */
static mal_status default_node(mal_arena *a, const mal_fields *file, const char **name, mal_error *e) {
  mal_fields section;
  *name = NULL;
  if (mal_fields_section(file, "node", &section)) return MAL_OK;
  const char *base = mal_fields_section(file, "gpu", &section) ? mal_fields_text(&section, "base") : NULL;
  if (!base)
    return mal_fail(e, MAL_BAD, _("%s: write node: {base: NAME} or gpu: {base: NAME}, as node: {base: dgx-h100}."),
                    file->path);
  mal_gpu *gpu;
  mal_status s = mal_gpu_load(a, base, &gpu, e);
  *name = s == MAL_OK ? gpu->default_node : NULL;
  return s;
}

static void note_own(mal_arena *a, const mal_fields *file, mal_machine *m) {
  enum { MOST = 256 };
  static const char *const sections[] = {"node", "gpu", "fabric"};
  m->own = MAL_ARRAY(a, const char *, MOST);
  for (int i = 0; i < 3; i++) {
    mal_fields section;
    if (!mal_fields_section(file, sections[i], &section)) continue;
    int from = m->n_own, more = mal_fields_keys(a, &section, m->own + from, MOST - from);
    m->n_own = from + more < MOST ? from + more : MOST;
    for (int k = from; k < m->n_own; k++) m->own[k] = mal_print(a, "%s.%s", sections[i], m->own[k]);
  }
}

static mal_status load_sections(mal_arena *a, const mal_fields *file, mal_machine *m, mal_error *e) {
  const char *node;
  mal_status s = default_node(a, file, &node, e);
  if (s != MAL_OK) return s;
  m->gpu = MAL_NEW(a, mal_gpu);
  m->node = MAL_NEW(a, mal_node);
  m->fabric = MAL_NEW(a, mal_fabric);
  s = load_section(a, file, "node", "nodes", mal_node_table, node, m->node, e);
  if (s == MAL_OK && m->node->gpus < 1)
    return mal_fail(e, MAL_BAD, _("%s: the node's gpus is missing; add how many GPUs it has."), file->path);
  if (s == MAL_OK) s = load_section(a, file, "gpu", "gpus", mal_gpu_table, m->node->gpu, m->gpu, e);
  if (s == MAL_OK) s = load_section(a, file, "fabric", "fabrics", mal_fabric_table, "default", m->fabric, e);
  if (s == MAL_OK) note_own(a, file, m);
  return s;
}

mal_status mal_machine_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_machine *m,
                             mal_error *e) {
  *m = (mal_machine){.name = mal_copy(a, path)};
  mal_fields file;
  mal_status s = mal_fields_parse(a, path, text, length, machine_table, &file, e);
  if (s == MAL_OK) s = load_sections(a, &file, m, e);
  machine_file own = {.nodes = 1};
  if (s == MAL_OK) {
    mal_fields top = file;
    top.table = machine_own_table; /* the sections are merged already */
    s = mal_fields_merge(a, &top, &own, e);
  }
  mal_fields_free(&file);
  if (s != MAL_OK) return s;
  m->nodes = own.nodes;
  m->gpus_per_node = own.gpus_per_node ? own.gpus_per_node : m->node->gpus;
  if (own.name) m->name = own.name;
  if (m->gpus_per_node > m->node->gpus)
    return mal_fail(e, MAL_BAD, _("%s: gpus_per_node is %lld; the node has %lld."), path, (long long)m->gpus_per_node,
                    (long long)m->node->gpus);
  return finish(m, e);
}
