#include "machine/hardware.h"
#include "core/catalog.h"
#include "core/file.h"
#include <string.h>

/* Bounds that no hardware comes near: they keep out slips of the pen, and quotients and sums finite. */
#define MOST_BYTES  1e15 /* of one GPU or node */
#define MOST_RATE   1e18 /* bytes/s, FLOP/s */
#define LEAST_SHARE 1e-3

#define VALUE(name, member)                                                                                            \
  { .key = name, .kind = MAL_FIELD_VALUE, .offset = offsetof(OF, member) }
#define NEEDED(name, member, least, most)                                                                              \
  { .key = name, .kind = MAL_FIELD_VALUE, .offset = offsetof(OF, member), .lo = least, .hi = most, .required = true }
#define BYTES(name, member)                                                                                            \
  { .key = name, .kind = MAL_FIELD_VALUE, .offset = offsetof(OF, member), .lo = 0, .hi = MOST_BYTES }
#define TEXT(name, member, need)                                                                                       \
  { .key = name, .kind = MAL_FIELD_TEXT, .offset = offsetof(OF, member), .required = need }
#define FITTED_ABOVE(name, member, least, most)                                                                        \
  {                                                                                                                    \
    .key = name, .kind = MAL_FIELD_FITTED, .offset = offsetof(OF, cal.member), .lo = least, .hi = most,                \
    .required = true                                                                                                   \
  }
#define FITTED(name, member, most)                                                                                     \
  { .key = name, .kind = MAL_FIELD_FITTED, .offset = offsetof(OF, cal.member), .lo = 0, .hi = most, .required = true }
#define BASE                                                                                                           \
  { .key = "base", .kind = MAL_FIELD_BASE }

#define OF mal_gpu
static const mal_field calibration_table[] = {
    /* a share may pass 1: NVLS busbw counts bytes that the switch saves */
    FITTED("gemm_bf16", gemm_bf16, 1),
    FITTED("gemm_fp8", gemm_fp8, 1),
    FITTED("gemm_fp4", gemm_fp4, 1),
    FITTED("gemm_fp32", gemm_fp32, 1),
    FITTED("gemm_k_half", gemm_k_half, 1e5),
    FITTED("attention_unfused", attention[MAL_ATT_UNFUSED], 1),
    FITTED("attention_flash1", attention[MAL_ATT_FLASH1], 1),
    FITTED("attention_flash2", attention[MAL_ATT_FLASH2], 1),
    FITTED("attention_cudnn", attention[MAL_ATT_CUDNN], 1),
    FITTED_ABOVE("attention_backward", attention_backward, LEAST_SHARE, 4),
    FITTED_ABOVE("memory", memory, LEAST_SHARE, 1),
    FITTED("nvlink", nvlink, 1),
    FITTED("nvls", nvls, 2),
    FITTED_ABOVE("pcie", pcie, LEAST_SHARE, 1),
    FITTED_ABOVE("nic", nic, LEAST_SHARE, 1),
    FITTED("launch_s", launch_s, 1e-2),
    FITTED("link_latency_s", link_latency_s, 1e-2),
    FITTED("net_latency_s", net_latency_s, 1e-2),
    FITTED("clock_power", clock_power, 1),
    {0},
};

const mal_field mal_gpu_table[] = {
    BASE,
    TEXT("name", name, true),
    TEXT("title", title, true),
    TEXT("architecture", architecture, true),
    TEXT("default_node", default_node, true),
    TEXT("pci_ids", pci_ids, false),
    TEXT("products", products, false),
    NEEDED("fp32_flops", flops[MAL_F32], 1, MOST_RATE),
    VALUE("tf32_flops", flops[MAL_TF32]),
    NEEDED("bf16_flops", flops[MAL_BF16], 0, MOST_RATE),
    NEEDED("fp16_flops", flops[MAL_F16], 1, MOST_RATE),
    VALUE("fp8_flops", flops[MAL_F8]),
    VALUE("fp4_flops", flops[MAL_F4]),
    VALUE("int8_flops", flops[MAL_I8]),
    NEEDED("memory_bytes", memory_bytes, 1, MOST_BYTES),
    NEEDED("memory_bytes_per_s", memory_bytes_per_s, 1, MOST_RATE),
    BYTES("l2_bytes", l2_bytes),
    NEEDED("sms", sms, 1, 1e6),
    NEEDED("tdp_w", tdp_w, 1, 1e6),
    VALUE("idle_w", idle_w),
    VALUE("nvlink_links", nvlink_links),
    VALUE("nvlink_bytes_per_s", nvlink_bytes_per_s),
    NEEDED("pcie_bytes_per_s", pcie_bytes_per_s, 1, MOST_RATE),
    {.key = "p2p", .kind = MAL_FIELD_BOOL, .offset = offsetof(OF, p2p)},
    {.key = "transposes_fp8", .kind = MAL_FIELD_BOOL, .offset = offsetof(OF, transposes_fp8)},
    NEEDED("failures_per_node_day", failures_per_node_day, 1e-9, 1e3),
    {.key = "calibration", .kind = MAL_FIELD_SECTION, .section = calibration_table},
    {0},
};
#undef OF

#define OF mal_node
#define COUNT(name, member, least, most)                                                                               \
  { .key = name, .kind = MAL_FIELD_INT, .offset = offsetof(OF, member), .lo = least, .hi = most }
const mal_field mal_node_table[] = {
    BASE,
    TEXT("name", name, true),
    TEXT("title", title, true),
    TEXT("gpu", gpu, true),
    COUNT("gpus", gpus, 1, 1024),
    COUNT("nvlink_domain", nvlink_domain, 0, 65536),
    {.key = "nvlink_switch", .kind = MAL_FIELD_BOOL, .offset = offsetof(OF, nvlink_switch)},
    VALUE("nvswitches", nvswitches),
    NEEDED("nics", nics, 0, 1e6),
    NEEDED("nic_bytes_per_s", nic_bytes_per_s, 0, MOST_RATE),
    NEEDED("cpu_sockets", cpu_sockets, 1, 1e6),
    NEEDED("cpu_cores", cpu_cores, 1, 1e6),
    BYTES("ram_bytes", ram_bytes),
    VALUE("ram_bytes_per_s", ram_bytes_per_s),
    VALUE("cpu_link_bytes_per_s", cpu_link_bytes_per_s),
    NEEDED("host_speed", host_speed, LEAST_SHARE, 1e3),
    VALUE("nvme_drives", nvme_drives),
    VALUE("nvme_bytes", nvme_bytes),
    VALUE("nvme_read_bytes_per_s", nvme_read_bytes_per_s),
    VALUE("nvme_write_bytes_per_s", nvme_write_bytes_per_s),
    VALUE("max_power_w", max_power_w),
    VALUE("usd_per_hour", usd_per_hour),
    {0},
};
#undef OF

#define OF mal_fabric
const mal_field mal_fabric_table[] = {
    BASE,
    TEXT("name", name, true),
    TEXT("title", title, true),
    {.key = "oversubscription",
     .kind = MAL_FIELD_VALUE,
     .offset = offsetof(OF, oversubscription),
     .lo = 1,
     .hi = 1024,
     .required = true},
    {.key = "jitter_per_doubling",
     .kind = MAL_FIELD_VALUE,
     .offset = offsetof(OF, jitter_per_doubling),
     .lo = 0,
     .hi = 0.5,
     .required = true},
    {.key = "leaf_down",
     .kind = MAL_FIELD_VALUE,
     .offset = offsetof(OF, leaf_down),
     .lo = 1,
     .hi = 4096,
     .required = true},
    {.key = "rails", .kind = MAL_FIELD_VALUE, .offset = offsetof(OF, rails), .lo = 0, .hi = 1},
    {.key = "pod_leaves", .kind = MAL_FIELD_VALUE, .offset = offsetof(OF, pod_leaves), .lo = 0, .hi = 1e6},
    {0},
};
#undef OF

static mal_status load(mal_arena *a, const char *folder, const char *what, const mal_field *table, const char *name,
                       void *whole, int depth, mal_error *e);

static mal_status merge(mal_arena *a, const char *folder, const char *what, const mal_fields *file,
                        const char *fallback, void *whole, int depth, mal_error *e) {
  const char *base = mal_fields_text(file, "base");
  if (!base) base = fallback;
  if (base) {
    mal_status s = load(a, folder, what, file->table, base, whole, depth + 1, e);
    if (s != MAL_OK) return mal_fail_in(e, "%s: base", file->path);
    if (mal_fields_text(file, "name")) mal_fields_mark_inherited(a, file->table, base, whole);
  }
  return mal_fields_merge(a, file, whole, e);
}

static mal_status load(mal_arena *a, const char *folder, const char *what, const mal_field *table, const char *name,
                       void *whole, int depth, mal_error *e) {
  if (depth > MAL_BASES_MAX)
    return mal_fail(e, MAL_BAD, _("%s '%s': more than %d bases above each other; is one its own base?"), what, name,
                    MAL_BASES_MAX);
  char *path, *text;
  size_t length;
  mal_status s = mal_catalog_find(a, folder, name, ".yaml", what, &path, e);
  if (s == MAL_OK) s = mal_file_read(a, path, MAL_YAML_LIMIT_BYTES, &text, &length, e);
  if (s != MAL_OK) return s;
  mal_fields file;
  s = mal_fields_parse(a, path, text, length, table, &file, e);
  if (s == MAL_OK) s = merge(a, folder, what, &file, NULL, whole, depth, e);
  if (s == MAL_OK) s = mal_fields_complete(table, path, whole, e);
  mal_fields_free(&file);
  return s;
}

mal_status mal_hardware_load(mal_arena *a, const char *folder, const char *what, const mal_field *table,
                             const char *name, void *whole, mal_error *e) {
  return load(a, folder, what, table, name, whole, 0, e);
}

mal_status mal_hardware_merge(mal_arena *a, const char *folder, const char *what, const mal_fields *file,
                              const char *fallback, void *whole, mal_error *e) {
  return merge(a, folder, what, file, fallback, whole, 0, e);
}

mal_status mal_gpu_load(mal_arena *a, const char *name, mal_gpu **gpu, mal_error *e) {
  *gpu = MAL_NEW(a, mal_gpu);
  return mal_hardware_load(a, "gpus", "GPU", mal_gpu_table, name, *gpu, e);
}

mal_status mal_node_load(mal_arena *a, const char *name, mal_node **node, mal_error *e) {
  *node = MAL_NEW(a, mal_node);
  mal_status s = mal_hardware_load(a, "nodes", "node", mal_node_table, name, *node, e);
  if (s == MAL_OK && (*node)->gpus < 1)
    return mal_fail(e, MAL_BAD, _("node '%s': gpus is missing; add how many GPUs it has."), name);
  return s;
}

mal_status mal_fabric_load(mal_arena *a, const char *name, mal_fabric **fabric, mal_error *e) {
  *fabric = MAL_NEW(a, mal_fabric);
  return mal_hardware_load(a, "fabrics", "fabric", mal_fabric_table, name ? name : "default", *fabric, e);
}

int mal_gpu_constants(mal_gpu *g, const char **names, mal_fitted **constants, int max) {
  return mal_fields_constants(calibration_table, g, names, constants, max);
}
