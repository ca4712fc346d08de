/* GPUs over NVML, loaded at run time: the library comes with the driver, and only where there is one. Signatures and constants are
 * those of NVIDIA's nvml.h (API of version 2, stable since driver 410). */
#include "machine/topology/read.h"
#include <dlfcn.h>
#include <string.h>

typedef void *nvml_device;
typedef struct nvml_pci { /* nvmlPciInfo_t */
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} nvml_pci;
typedef struct nvml_memory {
  unsigned long long total, free, used;
} nvml_memory;

typedef struct nvml_fabric { /* nvmlGpuFabricInfo_t */
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
} nvml_fabric;

enum {
  GPU_IS_LOST = 15,
  RESET_REQUIRED = 16,
  TEXT = 96,
  CLOCK_SM = 1,
  CLOCK_MEM = 2,
  TEMP_GPU = 0,
  THRESHOLD_SLOWDOWN = 1,
  ECC_CORRECTED = 0,
  ECC_UNCORRECTED = 1,
  ECC_VOLATILE = 0,
  ECC_AGGREGATE = 1,
  NVLINK_COUNTERS = 5
};

typedef struct nvml {
  void *object;
  int (*init)(void), (*shutdown)(void), (*count)(unsigned *), (*handle)(unsigned, nvml_device *);
  int (*driver)(char *, unsigned), (*name)(nvml_device, char *, unsigned), (*uuid)(nvml_device, char *, unsigned);
  int (*vbios)(nvml_device, char *, unsigned), (*pci)(nvml_device, nvml_pci *), (*memory)(nvml_device, nvml_memory *);
  int (*gen)(nvml_device, unsigned *), (*gen_max)(nvml_device, unsigned *), (*width)(nvml_device, unsigned *),
      (*width_max)(nvml_device, unsigned *), (*replays)(nvml_device, unsigned *);
  int (*clock)(nvml_device, int, unsigned *), (*clock_max)(nvml_device, int, unsigned *),
      (*temperature)(nvml_device, int, unsigned *), (*threshold)(nvml_device, int, unsigned *);
  int (*power)(nvml_device, unsigned *), (*power_limit)(nvml_device, unsigned *),
      (*power_default)(nvml_device, unsigned *);
  int (*pstate)(nvml_device, int *), (*reasons)(nvml_device, unsigned long long *),
      (*utilization)(nvml_device, unsigned[2]);
  int (*ecc_mode)(nvml_device, int *, int *), (*ecc)(nvml_device, int, int, unsigned long long *);
  int (*rows)(nvml_device, unsigned *, unsigned *, unsigned *, unsigned *), (*mig)(nvml_device, unsigned *, unsigned *),
      (*persistence)(nvml_device, int *);
  int (*fabric)(nvml_device, nvml_fabric *);
  int (*link_state)(nvml_device, unsigned, int *), (*link_errors)(nvml_device, unsigned, int, unsigned long long *),
      (*link_peer)(nvml_device, unsigned, nvml_pci *);
} nvml;

/* name: of the function; a library that lacks it leaves NULL. */
static const struct {
  size_t offset;
  const char *name;
} functions[] = {
#define F(member, symbol)                                                                                              \
  { offsetof(nvml, member), symbol }
    F(init, "nvmlInit_v2"),
    F(shutdown, "nvmlShutdown"),
    F(count, "nvmlDeviceGetCount_v2"),
    F(handle, "nvmlDeviceGetHandleByIndex_v2"),
    F(driver, "nvmlSystemGetDriverVersion"),
    F(name, "nvmlDeviceGetName"),
    F(uuid, "nvmlDeviceGetUUID"),
    F(vbios, "nvmlDeviceGetVbiosVersion"),
    F(pci, "nvmlDeviceGetPciInfo_v3"),
    F(memory, "nvmlDeviceGetMemoryInfo"),
    F(gen, "nvmlDeviceGetCurrPcieLinkGeneration"),
    F(gen_max, "nvmlDeviceGetMaxPcieLinkGeneration"),
    F(width, "nvmlDeviceGetCurrPcieLinkWidth"),
    F(width_max, "nvmlDeviceGetMaxPcieLinkWidth"),
    F(replays, "nvmlDeviceGetPcieReplayCounter"),
    F(clock, "nvmlDeviceGetClockInfo"),
    F(clock_max, "nvmlDeviceGetMaxClockInfo"),
    F(temperature, "nvmlDeviceGetTemperature"),
    F(threshold, "nvmlDeviceGetTemperatureThreshold"),
    F(power, "nvmlDeviceGetPowerUsage"),
    F(power_limit, "nvmlDeviceGetEnforcedPowerLimit"),
    F(power_default, "nvmlDeviceGetPowerManagementDefaultLimit"),
    F(pstate, "nvmlDeviceGetPerformanceState"),
    F(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons"),
    F(utilization, "nvmlDeviceGetUtilizationRates"),
    F(ecc_mode, "nvmlDeviceGetEccMode"),
    F(ecc, "nvmlDeviceGetTotalEccErrors"),
    F(rows, "nvmlDeviceGetRemappedRows"),
    F(mig, "nvmlDeviceGetMigMode"),
    F(persistence, "nvmlDeviceGetPersistenceMode"),
    F(fabric, "nvmlDeviceGetGpuFabricInfo"),
    F(link_state, "nvmlDeviceGetNvLinkState"),
    F(link_errors, "nvmlDeviceGetNvLinkErrorCounter"),
    F(link_peer, "nvmlDeviceGetNvLinkRemotePciInfo_v2"),
#undef F
};

static bool load(nvml *n) {
  *n = (nvml){.object = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
  if (!n->object) return false;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *symbol = dlsym(n->object, functions[i].name);
    memcpy((char *)n + functions[i].offset, &symbol, sizeof symbol);
  }
  return n->init && n->shutdown && n->count && n->handle && n->pci && n->init() == 0;
}

static const mal_evidence live = {"NVML", 0};

static void number(mal_part *d, mal_fact_key key, int (*read)(nvml_device, unsigned *), nvml_device g, double scale) {
  unsigned value;
  if (read && read(g, &value) == 0) mal_know(d, key, value * scale, live);
}

static void generation(mal_part *d, mal_fact_key key, int (*read)(nvml_device, unsigned *), nvml_device g) {
  unsigned value;
  if (read && read(g, &value) == 0 && mal_pcie_speed((int)value) > 0)
    mal_know(d, key, mal_pcie_speed((int)value), live);
}

static void text(mal_topology *t, mal_part *d, mal_fact_key key, int (*read)(nvml_device, char *, unsigned),
                 nvml_device g) {
  char value[TEXT] = "";
  if (read && read(g, value, sizeof value) == 0) mal_know_text(t, d, key, value, live);
}

static void of_kind(mal_part *d, mal_fact_key key, int (*read)(nvml_device, int, unsigned *), nvml_device g, int kind,
                    double scale) {
  unsigned value;
  if (read && read(g, kind, &value) == 0) mal_know(d, key, value * scale, live);
}

static void health(const nvml *n, mal_part *d, nvml_device g) {
  unsigned long long count;
  unsigned a, b, c, f;
  int mode, pending;
  if (n->ecc_mode && n->ecc_mode(g, &mode, &pending) == 0) mal_know(d, MAL_F_ECC, mode, live);
  if (n->ecc && n->ecc(g, ECC_CORRECTED, ECC_VOLATILE, &count) == 0)
    mal_know(d, MAL_F_ECC_CORRECTED, (double)count, live);
  if (n->ecc && n->ecc(g, ECC_UNCORRECTED, ECC_VOLATILE, &count) == 0)
    mal_know(d, MAL_F_ECC_UNCORRECTED, (double)count, live);
  if (n->ecc && n->ecc(g, ECC_UNCORRECTED, ECC_AGGREGATE, &count) == 0)
    mal_know(d, MAL_F_ECC_LIFETIME_UNCORRECTED, (double)count, live);
  if (n->rows && n->rows(g, &a, &b, &c, &f) == 0) {
    mal_know(d, MAL_F_ROWS_CORRECTED, a, live);
    mal_know(d, MAL_F_ROWS_UNCORRECTED, b, live);
    mal_know(d, MAL_F_ROWS_PENDING, c != 0, live);
    mal_know(d, MAL_F_ROWS_FAILED, f != 0, live);
  }
  if (n->mig && n->mig(g, &a, &b) == 0) mal_know(d, MAL_F_MIG, a, live);
  if (n->persistence && n->persistence(g, &mode) == 0) mal_know(d, MAL_F_PERSISTENCE, mode, live);
}

/* A GPU that is lost, or needs a reset, answers so whatever it is asked. */
static void answers(mal_topology *t, const nvml *n, mal_part *d, nvml_device g) {
  unsigned value;
  int said = n->temperature ? n->temperature(g, TEMP_GPU, &value) : 0;
  if (said == GPU_IS_LOST || said == RESET_REQUIRED)
    mal_know_text(t, d, MAL_F_UNREADABLE, said == GPU_IS_LOST ? "GPU is lost" : "GPU requires reset", live);
}

static void fabric(mal_topology *t, const nvml *n, mal_part *d, nvml_device g) {
  static const char *const states[] = {"Not Supported", "Not Started", "In Progress", "Completed"};
  nvml_fabric f = {.state = 0};
  if (!n->fabric || n->fabric(g, &f) != 0 || f.state == 0 || f.state > 3) return;
  mal_know_text(t, d, MAL_F_FABRIC, states[f.state], live);
  if (f.state == 3) mal_know_text(t, d, MAL_F_FABRIC_STATUS, f.status == 0 ? "Success" : "Failure", live);
}

static void moving(const nvml *n, mal_part *d, nvml_device g) {
  unsigned use[2];
  unsigned long long bits;
  int state;
  generation(d, MAL_F_SPEED, n->gen, g);
  number(d, MAL_F_WIDTH, n->width, g, 1);
  number(d, MAL_F_REPLAYS, n->replays, g, 1);
  of_kind(d, MAL_F_SM_CLOCK, n->clock, g, CLOCK_SM, 1e6);
  of_kind(d, MAL_F_MEM_CLOCK, n->clock, g, CLOCK_MEM, 1e6);
  of_kind(d, MAL_F_TEMP, n->temperature, g, TEMP_GPU, 1);
  number(d, MAL_F_POWER, n->power, g, 1e-3);
  if (n->pstate && n->pstate(g, &state) == 0) mal_know(d, MAL_F_PSTATE, state, live);
  if (n->reasons && n->reasons(g, &bits) == 0) mal_know(d, MAL_F_THROTTLE, (double)(bits & 0xff), live);
  if (n->utilization && n->utilization(g, use) == 0) mal_know(d, MAL_F_UTIL, use[0] * 0.01, live);
}

static void links(mal_topology *t, const nvml *n, int at, nvml_device g) {
  int on;
  nvml_pci peer;
  for (unsigned i = 0; n->link_state && i < 18 && n->link_state(g, i, &on) == 0; i++) {
    mal_nvlink *l = mal_nvlink_at(t, &t->devices[at], (int)i);
    *l = (mal_nvlink){.active = on != 0, .errors = -1, .from = live};
    for (int c = 0; on && n->link_errors && c < NVLINK_COUNTERS; c++) {
      unsigned long long count;
      if (n->link_errors(g, i, c, &count) == 0) l->errors = (l->errors < 0 ? 0 : l->errors) + (double)count;
    }
    enum { NVSWITCH_A = 0x1af110de, NVSWITCH_H = 0x22a310de, NVSWITCH_V = 0x1ac210de };
    if (!on || !n->link_peer || n->link_peer(g, i, &peer) != 0) continue;
    peer.bus_id[sizeof peer.bus_id - 1] = 0;
    if (peer.pci_device_id == NVSWITCH_A || peer.pci_device_id == NVSWITCH_H || peer.pci_device_id == NVSWITCH_V)
      mal_part_at(t, MAL_PART_NVSWITCH, -1, mal_bus_parse(peer.bus_id), live);
  }
}

static void gpu(mal_topology *t, const nvml *n, unsigned index, nvml_device g) {
  nvml_pci where = {0};
  nvml_memory memory;
  if (n->pci(g, &where) != 0) return;
  where.bus_id[sizeof where.bus_id - 1] = 0;
  mal_part *d = mal_part_at(t, MAL_PART_GPU, (int)index, mal_bus_parse(where.bus_id), live);
  if (!d) return;
  char version[TEXT] = "";
  d->index = (int)index;
  mal_know(d, MAL_F_VENDOR, where.pci_device_id & 0xffff, live);
  mal_know(d, MAL_F_DEVICE, where.pci_device_id >> 16, live);
  text(t, d, MAL_F_PRODUCT, n->name, g);
  text(t, d, MAL_F_UUID, n->uuid, g);
  text(t, d, MAL_F_FIRMWARE, n->vbios, g);
  if (n->driver && n->driver(version, sizeof version) == 0) mal_know_text(t, d, MAL_F_DRIVER, version, live);
  if (n->memory && n->memory(g, &memory) == 0) mal_know(d, MAL_F_MEMORY, (double)memory.total, live);
  generation(d, MAL_F_SPEED_MAX, n->gen_max, g);
  number(d, MAL_F_WIDTH_MAX, n->width_max, g, 1);
  of_kind(d, MAL_F_SM_CLOCK_MAX, n->clock_max, g, CLOCK_SM, 1e6);
  of_kind(d, MAL_F_MEM_CLOCK_MAX, n->clock_max, g, CLOCK_MEM, 1e6);
  of_kind(d, MAL_F_TEMP_SLOW, n->threshold, g, THRESHOLD_SLOWDOWN, 1);
  number(d, MAL_F_POWER_LIMIT, n->power_limit, g, 1e-3);
  number(d, MAL_F_POWER_DEFAULT, n->power_default, g, 1e-3);
  health(n, d, g);
  moving(n, d, g);
  answers(t, n, d, g);
  fabric(t, n, d, g);
  links(t, n, (int)(d - t->devices), g);
}

void mal_read_nvml(mal_topology *t) {
  nvml n;
  unsigned count = 0;
  if (!load(&n)) {
    if (n.object) dlclose(n.object);
    return;
  }
  if (n.count(&count) != 0) count = 0;
  for (unsigned i = 0; i < count && i < 256; i++) {
    nvml_device g;
    if (n.handle(i, &g) == 0) gpu(t, &n, i, g);
  }
  n.shutdown();
  dlclose(n.object);
}
