#include "design/kit/software.h"
#include "core/catalog.h"
#include "machine/hardware.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *const mal_component_key[] = {
    [MAL_SW_OS] = "os",
    [MAL_SW_DRIVER] = "driver",
    [MAL_SW_LEAST_DRIVER] = "least_driver",
    [MAL_SW_FABRIC_MANAGER] = "fabric_manager",
    [MAL_SW_IMEX] = "imex",
    [MAL_SW_CUDA] = "cuda",
    [MAL_SW_NCCL] = "nccl",
    [MAL_SW_ROCM] = "rocm",
    [MAL_SW_RCCL] = "rccl",
    [MAL_SW_DOCA_OFED] = "doca_ofed",
    [MAL_SW_MPI] = "mpi",
    [MAL_SW_GDRCOPY] = "gdrcopy",
    [MAL_SW_GDS] = "gds",
    [MAL_SW_CONTAINER_RUNTIME] = "container_runtime",
    [MAL_SW_CONTAINER_TOOLKIT] = "container_toolkit",
    [MAL_SW_DCGM] = "dcgm",
    [MAL_SW_DCGM_EXPORTER] = "dcgm_exporter",
    [MAL_SW_SCHEDULER] = "scheduler",
    [MAL_SW_PMIX] = "pmix",
};
const char *const mal_component_title[] = {
    [MAL_SW_OS] = N_("operating system"),
    [MAL_SW_DRIVER] = N_("GPU driver"),
    [MAL_SW_LEAST_DRIVER] = N_("oldest driver that knows the GPU"),
    [MAL_SW_FABRIC_MANAGER] = N_("Fabric Manager"),
    [MAL_SW_IMEX] = N_("IMEX"),
    [MAL_SW_CUDA] = N_("CUDA"),
    [MAL_SW_NCCL] = N_("NCCL"),
    [MAL_SW_ROCM] = N_("ROCm"),
    [MAL_SW_RCCL] = N_("RCCL"),
    [MAL_SW_DOCA_OFED] = N_("DOCA-OFED"),
    [MAL_SW_MPI] = N_("MPI"),
    [MAL_SW_GDRCOPY] = N_("GDRCopy"),
    [MAL_SW_GDS] = N_("GPUDirect Storage"),
    [MAL_SW_CONTAINER_RUNTIME] = N_("container runtime"),
    [MAL_SW_CONTAINER_TOOLKIT] = N_("NVIDIA Container Toolkit"),
    [MAL_SW_DCGM] = N_("DCGM"),
    [MAL_SW_DCGM_EXPORTER] = N_("DCGM exporter"),
    [MAL_SW_SCHEDULER] = N_("scheduler"),
    [MAL_SW_PMIX] = N_("PMIx"),
};
static_assert(sizeof mal_component_title / sizeof *mal_component_title == MAL_COMPONENTS, "a title for each");

#define PART(index)                                                                                                    \
  (const mal_field[]) {                                                                                                \
    {.key = "version", .kind = MAL_FIELD_TEXT, .offset = offsetof(mal_software, of[index].version)},                   \
        {.key = "source", .kind = MAL_FIELD_TEXT, .offset = offsetof(mal_software, of[index].source)}, {               \
      0                                                                                                                \
    }                                                                                                                  \
  }
#define ROW(name, index)                                                                                               \
  { .key = name, .kind = MAL_FIELD_SECTION, .section = PART(index) }

static const mal_field software_table[] = {
    {.key = "base", .kind = MAL_FIELD_BASE},
    {.key = "name", .kind = MAL_FIELD_TEXT, .offset = offsetof(mal_software, name), .required = true},
    {.key = "title", .kind = MAL_FIELD_TEXT, .offset = offsetof(mal_software, title), .required = true},
    {.key = "date", .kind = MAL_FIELD_TEXT, .offset = offsetof(mal_software, date), .required = true},
    ROW("os", MAL_SW_OS),
    ROW("driver", MAL_SW_DRIVER),
    ROW("least_driver", MAL_SW_LEAST_DRIVER),
    ROW("fabric_manager", MAL_SW_FABRIC_MANAGER),
    ROW("imex", MAL_SW_IMEX),
    ROW("cuda", MAL_SW_CUDA),
    ROW("nccl", MAL_SW_NCCL),
    ROW("rocm", MAL_SW_ROCM),
    ROW("rccl", MAL_SW_RCCL),
    ROW("doca_ofed", MAL_SW_DOCA_OFED),
    ROW("mpi", MAL_SW_MPI),
    ROW("gdrcopy", MAL_SW_GDRCOPY),
    ROW("gds", MAL_SW_GDS),
    ROW("container_runtime", MAL_SW_CONTAINER_RUNTIME),
    ROW("container_toolkit", MAL_SW_CONTAINER_TOOLKIT),
    ROW("dcgm", MAL_SW_DCGM),
    ROW("dcgm_exporter", MAL_SW_DCGM_EXPORTER),
    ROW("scheduler", MAL_SW_SCHEDULER),
    ROW("pmix", MAL_SW_PMIX),
    {0},
};

/* Digits of a version one group after another: "580.126.20" before "580.159.04". */
int mal_version_compare(const char *x, const char *y) {
  for (;;) {
    x += strcspn(x, "0123456789"), y += strcspn(y, "0123456789");
    if (!*x || !*y) return (*x != 0) - (*y != 0);
    char *after_x, *after_y;
    unsigned long long p = strtoull(x, &after_x, 10), q = strtoull(y, &after_y, 10);
    if (p != q) return p < q ? -1 : 1;
    x = after_x, y = after_y;
  }
}

/* The rules that a list must keep: its parts name their source, NVSwitches take the driver's own Fabric Manager, and the driver
 * knows the GPU. */
static mal_status check(const mal_software *s, mal_error *e) {
  const mal_version *driver = &s->of[MAL_SW_DRIVER], *manager = &s->of[MAL_SW_FABRIC_MANAGER];
  const mal_version *least = &s->of[MAL_SW_LEAST_DRIVER];
  for (int i = 0; i < MAL_COMPONENTS; i++)
    if (!s->of[i].version != !s->of[i].source)
      return mal_fail(e, MAL_BAD, _("software '%s': %s needs both version and source."), s->name, mal_component_key[i]);
  if (driver->version && manager->version && strcmp(driver->version, manager->version) != 0)
    return mal_fail(e, MAL_BAD, _("software '%s': fabric_manager is %s, the driver %s; they must be the same."),
                    s->name, manager->version, driver->version);
  if (driver->version && least->version && mal_version_compare(driver->version, least->version) < 0)
    return mal_fail(e, MAL_BAD, _("software '%s': the driver %s is older than %s, the first that knows the GPU."),
                    s->name, driver->version, least->version);
  return MAL_OK;
}

mal_status mal_software_file(mal_arena *a, const char *name, mal_software **out, mal_error *e) {
  *out = MAL_NEW(a, mal_software);
  mal_status s = mal_hardware_load(a, "software", "software list", software_table, name, *out, e);
  return s == MAL_OK ? check(*out, e) : s;
}

mal_status mal_software_load(mal_arena *a, const mal_machine *m, mal_software **out, mal_error *e) {
  const char *const names[] = {m->node->name, m->gpu->architecture};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (mal_catalog_has(a, "software", names[i], ".yaml")) return mal_software_file(a, names[i], out, e);
  return mal_software_file(a, "generic", out, e);
}

bool mal_software_runs(const mal_software *s, const mal_machine *m, mal_component c) {
  if (!s->of[c].version || c == MAL_SW_LEAST_DRIVER) return false;
  if (c == MAL_SW_FABRIC_MANAGER) return m->node->nvlink_switch;
  if (c == MAL_SW_DOCA_OFED) return m->node->nics.value > 0;
  return true;
}
