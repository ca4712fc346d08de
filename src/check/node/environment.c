/* What environment variables slow NCCL down or are left from debugging; log_environment.c reads them. Names and defaults: catalog/checks/nccl_env.csv. */
#include "check/node/log.h"
#include "core/suggest.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct rule {
  const char *name;
  const char *value; /* "1": set and not 0; "0": set to 0; "*": set to anything; "": handled apart */
  mal_severity severity;
  const char *cause, *todo;
  mal_damage damage;
} rule;

#define NONE .nvlink = 1, .pcie = 1, .nic = 1, .compute = 1
static const rule rules[] = {
    {"NCCL_P2P_DISABLE",
     "1",
     MAL_SEV_ERROR,
     N_("GPUs of a node meet in host memory instead of over NVLink"),
     N_("unset it; only cards without peer access (GeForce) need it"),
     {NONE, .no_nvlink = true}},
    {"NCCL_SHM_DISABLE",
     "1",
     MAL_SEV_ERROR,
     N_("ranks of a node without peer access go through the NIC"),
     N_("unset it"),
     {NONE}},
    {"NCCL_IB_DISABLE",
     "1",
     MAL_SEV_ERROR,
     N_("nodes talk over TCP sockets"),
     N_("unset it, unless there is no InfiniBand or RoCE"),
     {.nvlink = 1, .pcie = 1, .nic = 0.15, .compute = 1}},
    {"NCCL_NVLS_ENABLE",
     "0",
     MAL_SEV_WARNING,
     N_("the NVSwitch does not reduce: all-reduce over rings"),
     N_("unset it, unless a known fault of NVLS is worked around"),
     {NONE, .no_nvls = true}},
    {"NCCL_NET_GDR_LEVEL",
     "LOC",
     MAL_SEV_ERROR,
     N_("GPUDirect RDMA is off"),
     N_("unset it"),
     {.nvlink = 1, .pcie = 1, .nic = 0.5, .compute = 1}},
    {"NCCL_NET_GDR_LEVEL",
     "0",
     MAL_SEV_ERROR,
     N_("GPUDirect RDMA is off"),
     N_("unset it"),
     {.nvlink = 1, .pcie = 1, .nic = 0.5, .compute = 1}},
    {"NCCL_NET_GDR_DISABLE",
     "1",
     MAL_SEV_ERROR,
     N_("GPUDirect RDMA is off"),
     N_("unset it"),
     {.nvlink = 1, .pcie = 1, .nic = 0.5, .compute = 1}},
    {"NCCL_P2P_LEVEL",
     "LOC",
     MAL_SEV_ERROR,
     N_("peer access is never used"),
     N_("unset it"),
     {NONE, .no_nvlink = true}},
    {"NCCL_P2P_LEVEL", "0", MAL_SEV_ERROR, N_("peer access is never used"), N_("unset it"), {NONE, .no_nvlink = true}},
    {"NCCL_ALGO",
     "*",
     MAL_SEV_WARNING,
     N_("one algorithm for all sizes and collectives: NCCL's own choice is off; meant for debugging and benchmarks"),
     N_("unset it"),
     {NONE}},
    {"NCCL_PROTO",
     "*",
     MAL_SEV_WARNING,
     N_("one protocol for all sizes: LL and LL128 halve or cut large messages, Simple slows small ones"),
     N_("unset it"),
     {NONE}},
    {"NCCL_MAX_NCHANNELS", "*", MAL_SEV_WARNING, N_("fewer channels than the links need"), N_("unset it"), {NONE}},
    {"NCCL_MAX_CTAS",
     "*",
     MAL_SEV_WARNING,
     N_("fewer channels than the links may need"),
     N_("unset it, unless kernels are to overlap"),
     {NONE}},
    {"NCCL_MIN_NCHANNELS",
     "*",
     MAL_SEV_NOTE,
     N_("takes more SMs from compute kernels"),
     N_("unset it, unless measured"),
     {NONE}},
    {"NCCL_BUFFSIZE",
     "*",
     MAL_SEV_NOTE,
     N_("another buffer size than NCCL's 4 MiB"),
     N_("keep it only where a cloud's guide says so (8388608 on AWS EFA)"),
     {NONE}},
    {"NCCL_NTHREADS", "*", MAL_SEV_NOTE, N_("another number of threads than NCCL chooses"), N_("unset it"), {NONE}},
    {"NCCL_CROSS_NIC",
     "1",
     MAL_SEV_NOTE,
     N_("rings may change rails: more traffic over the spine of a rail-optimized fabric"),
     N_("unset it on rail-optimized fabrics"),
     {NONE}},
    {"NCCL_IB_QPS_PER_CONNECTION",
     "*",
     MAL_SEV_NOTE,
     N_("more queue pairs help on routed or multi-path fabrics only"),
     N_("keep it only where measured"),
     {NONE}},
    {"NCCL_DEBUG", "TRACE", MAL_SEV_WARNING, N_("writes a line for every call"), N_("set it to WARN"), {NONE}},
    {"NCCL_LAUNCH_MODE", "GROUP", MAL_SEV_WARNING, N_("launches through the CPU of one rank"), N_("unset it"), {NONE}},
    {"NCCL_DMABUF_ENABLE",
     "0",
     MAL_SEV_NOTE,
     N_("GPUDirect RDMA only through nvidia-peermem"),
     N_("unset it unless nvidia-peermem is loaded"),
     {NONE}},
    {"NCCL_CUMEM_ENABLE",
     "0",
     MAL_SEV_NOTE,
     N_("no NVLS and no memory sharing by cuMem"),
     N_("unset it, unless a cloud's guide says so"),
     {NONE}},
    {"NCCL_IGNORE_DISABLED_P2P",
     "1",
     MAL_SEV_ERROR,
     N_("hides that NVLink is out of order"),
     N_("unset it and repair the NVLinks"),
     {NONE}},
    {"NCCL_TOPO_DUMP_FILE", "*", MAL_SEV_NOTE, N_("every start writes a file"), N_("unset it after debugging"), {NONE}},
    {"CUDA_LAUNCH_BLOCKING",
     "1",
     MAL_SEV_ERROR,
     N_("every kernel launch waits for its end: nothing overlaps"),
     N_("unset it; it is for debugging"),
     {NONE}},
    {"CUDA_DEVICE_MAX_CONNECTIONS", "", MAL_SEV_NOTE, "", "", {NONE}},
    {"TORCH_DISTRIBUTED_DEBUG",
     "DETAIL",
     MAL_SEV_WARNING,
     N_("every collective is checked between ranks"),
     N_("unset it; it is for debugging"),
     {NONE}},
    {"TORCH_NCCL_BLOCKING_WAIT",
     "1",
     MAL_SEV_WARNING,
     N_("the host waits for every collective"),
     N_("unset it; TORCH_NCCL_ASYNC_ERROR_HANDLING=1 finds hangs without that"),
     {NONE}},
    {"NCCL_BLOCKING_WAIT", "1", MAL_SEV_WARNING, N_("the host waits for every collective"), N_("unset it"), {NONE}},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING",
     "1",
     MAL_SEV_ERROR,
     N_("every tensor is allocated by the driver"),
     N_("unset it; it is for debugging"),
     {NONE}},
    {"OMP_NUM_THREADS", "", MAL_SEV_NOTE, "", "", {NONE}},
};

static bool is_off(const char *value) {
  return strcmp(value, "0") == 0 || strcasecmp(value, "false") == 0 || strcasecmp(value, "off") == 0 || !*value;
}

static bool matches(const rule *r, const char *value) {
  if (strcmp(r->value, "1") == 0) return !is_off(value);
  if (strcmp(r->value, "0") == 0) return is_off(value) && *value;
  if (strcmp(r->value, "*") == 0) return *value != 0;
  return *r->value && strcasecmp(r->value, value) == 0;
}

/* NCCL_IB_HCA=mlx5_1 is a prefix and takes mlx5_10 too (NCCL user guide, NCCL_IB_HCA); with '=' names are whole. */
static void prefixes(mal_health *h, const char *value, mal_evidence from) {
  if (*value == '=' || (*value == '^' && value[1] == '=')) return;
  bool exclude = *value == '^';
  const char *at = value + exclude;
  while (*at) {
    size_t n = strcspn(at, ",");
    const char *name = mal_trimmed(h->arena, at, strcspn(at, ",:"));
    bool digit = *name && isdigit((unsigned char)name[strlen(name) - 1]);
    const char *taken = NULL;
    for (int i = 0; i < h->topology.n_devices && !taken; i++) {
      const mal_part *d = &h->topology.devices[i];
      if (d->kind == MAL_PART_NIC && d->name && digit && mal_starts(d->name, name) && strcmp(d->name, name) != 0 &&
          isdigit((unsigned char)d->name[strlen(name)]))
        taken = d->name;
    }
    if (digit && (taken || (!h->has_topology && strcmp(name + strlen(name) - 2, "_1") == 0)))
      mal_find(h, MAL_RULE_ENVIRONMENT, MAL_SEV_WARNING, "NCCL_IB_HCA", from,
               taken ? mal_print(h->arena, _("NCCL_IB_HCA=%s %s %s too: names are prefixes"), value,
                                 exclude ? _("leaves out") : _("takes"), taken)
                     : mal_print(h->arena, _("NCCL_IB_HCA=%s: names are prefixes, %s also means %s0 to %s9"), value,
                                 name, name, name),
               _("a name without '=' in front matches every NIC that begins so"),
               mal_print(h->arena, _("write NCCL_IB_HCA=%s=%s"), exclude ? "^" : "", value + exclude));
    at += n + (at[n] == ',');
  }
}

static void interfaces(mal_health *h, const char *value, mal_evidence from) {
  const char *name = value + (*value == '^') + (value[*value == '^'] == '=');
  bool exclude = *value == '^';
  if (!exclude &&
      (mal_starts(name, "lo") || mal_starts(name, "docker") || mal_starts(name, "veth") || mal_starts(name, "virbr")))
    mal_find(h, MAL_RULE_ENVIRONMENT, MAL_SEV_ERROR, "NCCL_SOCKET_IFNAME", from,
             mal_print(h->arena, _("NCCL_SOCKET_IFNAME=%s: an interface that other nodes cannot reach"), value),
             _("a loopback or container bridge"), _("name the interface of the nodes' own network, or unset it"));
  else if (!exclude && *value != '=' && isdigit((unsigned char)value[strlen(value) - (*value != 0)]) &&
           strchr(value, ',') == NULL && strlen(value) > 3 && value[strlen(value) - 1] == '1')
    mal_find(h, MAL_RULE_ENVIRONMENT, MAL_SEV_NOTE, "NCCL_SOCKET_IFNAME", from,
             mal_print(h->arena, _("NCCL_SOCKET_IFNAME=%s is a prefix: it also takes %s0 and the like"), value, value),
             _("a name without '=' in front matches every interface that begins so"),
             mal_print(h->arena, _("write NCCL_SOCKET_IFNAME==%s"), value));
}

static const char *nearest_name(mal_health *h, const char *name, bool *known) {
  const mal_csv *csv = mal_health_table(h, MAL_TABLE_NCCL_ENV);
  *known = true;
  if (!csv->rows) return "";
  int column = mal_csv_column(csv, "variable");
  const char **names = MAL_ARRAY(h->arena, const char *, csv->rows + 1);
  for (int i = 0; i < csv->rows; i++) {
    names[i] = mal_csv_cell(csv, i, column);
    if (strcmp(names[i], name) == 0) return "";
  }
  *known = false;
  char near[256] = "";
  mal_suggest(name, names, (size_t)csv->rows, near, sizeof near);
  return mal_copy(h->arena, near);
}

static void judge(mal_health *h, const char *name, const char *value, mal_evidence from) {
  bool ours = mal_starts(name, "NCCL_"), known = true;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    if (strcmp(rules[i].name, name) != 0) continue;
    if (!matches(&rules[i], value)) continue;
    mal_finding *f = mal_find(h, MAL_RULE_ENVIRONMENT, rules[i].severity, name, from,
                              mal_print(h->arena, "%s=%s", name, value), _(rules[i].cause), _(rules[i].todo));
    f->damage = rules[i].damage;
  }
  if (strcmp(name, "NCCL_IB_HCA") == 0 && *value) prefixes(h, value, from);
  if (strcmp(name, "NCCL_SOCKET_IFNAME") == 0 && *value) interfaces(h, value, from);
  if (!ours) return;
  h->judged[MAL_RULE_ENVIRONMENT] = true;
  const char *near = nearest_name(h, name, &known);
  if (!known && *near)
    mal_find(h, MAL_RULE_ENVIRONMENT, MAL_SEV_WARNING, name, from,
             mal_print(h->arena, _("%s is not a variable of NCCL; nearest: %s"), name, near),
             _("a misspelt name has no effect"), _("correct the name, or unset it"));
}

void mal_health_environment(mal_health *h, char **environment) {
  h->judged[MAL_RULE_ENVIRONMENT] = true;
  for (int i = 0; environment && environment[i]; i++) {
    mal_paste p;
    mal_paste_make(h->arena, _("environment"), environment[i], strlen(environment[i]),
                   &p); /* plain text, whatever it holds */
    const char *equals = strchr(p.text, '=');
    if (!equals || equals - p.text > 64) continue;
    mal_note_variable(h, mal_trimmed(h->arena, p.text, (size_t)(equals - p.text)), equals + 1,
                      (mal_evidence){p.file, 0});
  }
}

enum { VARIABLES_MAX = 4096, VARIABLE_SLOTS = 16384 };

static unsigned slot_of(const mal_health *h, const char *name, const char *value, const char *file) {
  uint64_t hash = mal_log_hash(mal_log_hash((uint64_t)(uintptr_t)file, name, true), value, true);
  for (unsigned at = (unsigned)(hash % VARIABLE_SLOTS);; at = (at + 1) % VARIABLE_SLOTS) {
    const mal_variable *v = h->variable_of[at] ? &h->variables[h->variable_of[at] - 1] : NULL;
    if (!v || (v->from.file == file && strcmp(v->name, name) == 0 && strcmp(v->value, value) == 0)) return at;
  }
}

void mal_forget_variable(mal_health *h, const char *name, const char *file) {
  for (int i = 0; i < h->n_variables; i++)
    if (h->variables[i].from.file == file && strcmp(h->variables[i].name, name) == 0 && !h->variables[i].gone) {
      h->variables[i].gone = true;
      h->variable_changes++;
    }
}

static void note(mal_health *h, const char *name, const char *value, mal_evidence from, bool replaces) {
  if (!h->variable_of) h->variable_of = MAL_ARRAY(h->arena, int, VARIABLE_SLOTS);
  unsigned slot = slot_of(h, name, value, from.file);
  mal_variable *known = h->variable_of[slot] ? &h->variables[h->variable_of[slot] - 1] : NULL;
  if (known && !known->gone) return; /* every rank of a log says it again */
  h->variable_changes++;
  if (replaces) mal_forget_variable(h, name, from.file);
  if (known) {
    known->gone = false;
    known->from = from;
    return;
  }
  int n = h->n_variables;
  if (n >= VARIABLES_MAX) return;
  if ((n & (n - 1)) == 0)
    h->variables = mal_grow(h->arena, h->variables, (size_t)n, n ? 2 * (size_t)n : 1, sizeof *h->variables);
  h->variables[h->n_variables++] =
      (mal_variable){.name = mal_copy(h->arena, name), .value = mal_copy(h->arena, value), .from = from};
  h->variable_of[slot] = h->n_variables;
}

void mal_note_variable(mal_health *h, const char *name, const char *value, mal_evidence from) {
  note(h, name, value, from, false);
}

void mal_replace_variable(mal_health *h, const char *name, const char *value, mal_evidence from) {
  note(h, name, value, from, true);
}

void mal_judge_environment(mal_health *h) {
  for (int i = 0; i < h->n_variables; i++)
    if (!h->variables[i].gone) judge(h, h->variables[i].name, h->variables[i].value, h->variables[i].from);
}
