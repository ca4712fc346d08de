/* A libnvidia-ml.so.1 for tests: eight H100 as the file $STAND_IN says, so that what reads GPUs at run time can be tried where there are
 * none. Lines are "FROM GPU FIELD VALUE": from the FROMth nvmlInit on, GPU (or * for all) has that value. Signatures are those of
 * NVIDIA's nvml.h. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NOT_FOUND = 6, GPU_IS_LOST = 15, GPUS = 8, LINKS = 18, NAME = 32 };

typedef struct pci {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char text[32];
} pci;
typedef struct fabric {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
} fabric;

static int calls;

/* nvmlInit is called anew for each sample, after the library was unloaded: what counts is kept in a file beside. */
int nvmlInit_v2(void) {
  char path[4096];
  const char *file = getenv("STAND_IN");
  if (!file) return NOT_FOUND;
  snprintf(path, sizeof path, "%s.calls", file);
  FILE *f = fopen(path, "r");
  if (!f || fscanf(f, "%d", &calls) != 1) calls = 0;
  if (f) fclose(f);
  calls++;
  if (!(f = fopen(path, "w"))) return NOT_FOUND;
  fprintf(f, "%d\n", calls);
  fclose(f);
  return OK;
}
int nvmlShutdown(void) { return OK; }

static double value(uintptr_t gpu, const char *field, double otherwise) {
  FILE *f = fopen(getenv("STAND_IN"), "r");
  char which[NAME], name[NAME], mine[NAME];
  int from;
  double x;
  snprintf(mine, sizeof mine, "%d", (int)gpu - 1);
  while (f && fscanf(f, "%d %31s %31s %lf", &from, which, name, &x) == 4)
    if (calls >= from && strcmp(name, field) == 0 && (*which == '*' || strcmp(which, mine) == 0)) otherwise = x;
  if (f) fclose(f);
  return otherwise;
}

int nvmlDeviceGetCount_v2(unsigned *n) {
  *n = (unsigned)value(0, "count", GPUS);
  return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, uintptr_t *g) {
  *g = i + 1;
  return OK;
}
int nvmlSystemGetDriverVersion(char *text, unsigned n) {
  snprintf(text, n, "550.54.15");
  return OK;
}
int nvmlDeviceGetName(uintptr_t g, char *text, unsigned n) {
  (void)g;
  snprintf(text, n, "NVIDIA H100 80GB HBM3");
  return OK;
}
int nvmlDeviceGetUUID(uintptr_t g, char *text, unsigned n) {
  snprintf(text, n, "GPU-00000000-0000-0000-0000-%012d", (int)g);
  return OK;
}
int nvmlDeviceGetVbiosVersion(uintptr_t g, char *text, unsigned n) {
  (void)g;
  snprintf(text, n, "96.00.61.00.01");
  return OK;
}
int nvmlDeviceGetPciInfo_v3(uintptr_t g, pci *p) {
  static const unsigned buses[GPUS] = {0x18, 0x2a, 0x3a, 0x5d, 0x9a, 0xab, 0xba, 0xdb}; /* of a DGX H100 */
  memset(p, 0, sizeof *p);
  p->domain = 0x7001; /* a domain that the machine of the test does not have */
  p->bus = buses[(g - 1) % GPUS];
  p->id = 0x233010de;
  snprintf(p->text, sizeof p->text, "%08X:%02X:00.0", p->domain, p->bus);
  return OK;
}
int nvmlDeviceGetMemoryInfo(uintptr_t g, unsigned long long m[3]) {
  (void)g;
  m[0] = 85520809984ull;
  m[1] = m[0];
  m[2] = 0;
  return OK;
}

#define NUMBER(function, field, otherwise)                                                                             \
  int function(uintptr_t g, unsigned *x) {                                                                             \
    *x = (unsigned)value(g, field, otherwise);                                                                         \
    return OK;                                                                                                         \
  }
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "gen", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "gen_max", 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "width", 16)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "width_max", 16)
NUMBER(nvmlDeviceGetPcieReplayCounter, "replays", 0)
NUMBER(nvmlDeviceGetPowerUsage, "power_mw", 690000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "limit_mw", 700000)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "default_mw", 700000)
NUMBER(nvmlDeviceGetPerformanceState, "pstate", 0)

int nvmlDeviceGetClockInfo(uintptr_t g, int kind, unsigned *x) {
  *x = kind == 1 ? (unsigned)value(g, "sm_mhz", 1755) : 2619;
  return OK;
}
int nvmlDeviceGetMaxClockInfo(uintptr_t g, int kind, unsigned *x) {
  (void)g;
  *x = kind == 1 ? 1980 : 2619;
  return OK;
}
int nvmlDeviceGetTemperature(uintptr_t g, int kind, unsigned *x) {
  (void)kind;
  if (value(g, "lost", 0) > 0) return GPU_IS_LOST;
  *x = (unsigned)value(g, "celsius", 62);
  return OK;
}
int nvmlDeviceGetTemperatureThreshold(uintptr_t g, int kind, unsigned *x) {
  (void)g, (void)kind;
  *x = 87;
  return OK;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(uintptr_t g, unsigned long long *x) {
  *x = (unsigned long long)value(g, "reasons", 4); /* the power cap: usual under load */
  return OK;
}
int nvmlDeviceGetUtilizationRates(uintptr_t g, unsigned x[2]) {
  x[0] = (unsigned)value(g, "percent", 100);
  x[1] = 50;
  return OK;
}
int nvmlDeviceGetEccMode(uintptr_t g, int *now, int *pending) {
  (void)g;
  *now = *pending = 1;
  return OK;
}
int nvmlDeviceGetTotalEccErrors(uintptr_t g, int kind, int counter, unsigned long long *x) {
  *x = kind == 1 && counter == 0 ? (unsigned long long)value(g, "ecc", 0) : 0;
  return OK;
}
int nvmlDeviceGetRemappedRows(uintptr_t g, unsigned *a, unsigned *b, unsigned *pending, unsigned *failed) {
  *a = *b = *failed = 0;
  *pending = (unsigned)value(g, "rows_pending", 0);
  return OK;
}
int nvmlDeviceGetMigMode(uintptr_t g, unsigned *now, unsigned *pending) {
  *now = *pending = (unsigned)value(g, "mig", 0);
  return OK;
}
int nvmlDeviceGetPersistenceMode(uintptr_t g, int *on) {
  (void)g;
  *on = 1;
  return OK;
}
int nvmlDeviceGetNvLinkState(uintptr_t g, unsigned link, int *on) {
  if (link >= LINKS) return 2;
  *on = link >= (unsigned)value(g, "links_down", 0);
  return OK;
}
int nvmlDeviceGetNvLinkErrorCounter(uintptr_t g, unsigned link, int counter, unsigned long long *x) {
  *x = link == 7 && counter == 0 ? (unsigned long long)value(g, "link_errors", 0) : 0;
  return OK;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(uintptr_t g, unsigned link, pci *p) {
  (void)g;
  memset(p, 0, sizeof *p);
  p->id = 0x22a310de; /* an NVSwitch */
  snprintf(p->text, sizeof p->text, "00007001:%02X:00.0", 0x07 + link % 4);
  return OK;
}
int nvmlDeviceGetGpuFabricInfo(uintptr_t g, fabric *f) {
  memset(f, 0, sizeof *f);
  f->state = (unsigned char)value(g, "fabric_state", 3);
  f->status = (int)value(g, "fabric_status", 0);
  return OK;
}
