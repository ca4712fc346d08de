/* nvidia-smi -q -x. Versions of the format (v5 to v13) differ in names; absent values are "N/A" and similar words. */
#include "machine/topology/read.h"
#include "machine/topology/xml.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct field {
  const char *path; /* names of elements from the gpu down, '/' between; several alternatives are several rows */
  mal_fact_key key;
  double scale; /* 0: text; a number is multiplied */
} field;

static const double MEGA = 1e6, MEBI = 1048576;
#define YES     -1 /* "Enabled", "Yes", "Active" → 1, their opposites → 0 */
#define GEN     -2 /* a PCIe generation */
#define SUM     -3 /* counts added to what is known */
#define HEALTH  -4 /* a text that tells of a fault, its element's name before it */
#define PENDING -5 /* the element's name where it says "Yes" */

static const field fields[] = {
    {"product_name", MAL_F_PRODUCT, 0},
    {"uuid", MAL_F_UUID, 0},
    {"vbios_version", MAL_F_FIRMWARE, 0},
    {"persistence_mode", MAL_F_PERSISTENCE, YES},
    {"mig_mode/current_mig", MAL_F_MIG, YES},
    {"gpu_virtualization_mode/virtualization_mode", MAL_F_VIRTUAL, 0},
    {"gpu_reset_status/reset_required", MAL_F_RESET_NEEDED, YES},
    {"pci/pci_gpu_link_info/pcie_gen/current_link_gen", MAL_F_SPEED, GEN},
    {"pci/pci_gpu_link_info/pcie_gen/max_link_gen", MAL_F_SPEED_MAX, GEN},
    {"pci/pci_gpu_link_info/pcie_gen/max_device_link_gen", MAL_F_SPEED_MAX, GEN},
    {"pci/pci_gpu_link_info/pcie_gen/max_link_gen", MAL_F_SPEED_HOST, GEN},
    {"pci/pci_gpu_link_info/pcie_gen/max_host_link_gen", MAL_F_SPEED_HOST, GEN},
    {"pci/pci_gpu_link_info/link_widths/current_link_width", MAL_F_WIDTH, 1},
    {"pci/pci_gpu_link_info/link_widths/max_link_width", MAL_F_WIDTH_MAX, 1},
    {"pci/replay_counter", MAL_F_REPLAYS, 1},
    {"fb_memory_usage/total", MAL_F_MEMORY, MEBI},
    {"utilization/gpu_util", MAL_F_UTIL, 0.01},
    {"ecc_mode/current_ecc", MAL_F_ECC, YES},
    {"ecc_errors/volatile/sram_correctable", MAL_F_ECC_CORRECTED, SUM},
    {"ecc_errors/volatile/dram_correctable", MAL_F_ECC_CORRECTED, SUM},
    {"ecc_errors/volatile/single_bit/total", MAL_F_ECC_CORRECTED, SUM},
    {"ecc_errors/volatile/sram_uncorrectable", MAL_F_ECC_UNCORRECTED, SUM},
    {"ecc_errors/volatile/sram_uncorrectable_parity", MAL_F_ECC_UNCORRECTED, SUM},
    {"ecc_errors/volatile/sram_uncorrectable_secded", MAL_F_ECC_UNCORRECTED, SUM},
    {"ecc_errors/volatile/dram_uncorrectable", MAL_F_ECC_UNCORRECTED, SUM},
    {"ecc_errors/volatile/double_bit/total", MAL_F_ECC_UNCORRECTED, SUM},
    {"ecc_errors/aggregate/sram_uncorrectable", MAL_F_ECC_LIFETIME_UNCORRECTED, SUM},
    {"ecc_errors/aggregate/sram_uncorrectable_parity", MAL_F_ECC_LIFETIME_UNCORRECTED, SUM},
    {"ecc_errors/aggregate/sram_uncorrectable_secded", MAL_F_ECC_LIFETIME_UNCORRECTED, SUM},
    {"ecc_errors/aggregate/dram_uncorrectable", MAL_F_ECC_LIFETIME_UNCORRECTED, SUM},
    {"remapped_rows/remapped_row_corr", MAL_F_ROWS_CORRECTED, 1},
    {"remapped_rows/remapped_row_unc", MAL_F_ROWS_UNCORRECTED, 1},
    {"remapped_rows/remapped_row_pending", MAL_F_ROWS_PENDING, YES},
    {"remapped_rows/remapped_row_failure", MAL_F_ROWS_FAILED, YES},
    {"retired_pages/pending_retirement", MAL_F_PAGES_PENDING, YES},
    {"retired_pages/pending_blacklist", MAL_F_PAGES_PENDING, YES},
    {"temperature/gpu_temp", MAL_F_TEMP, 1},
    {"temperature/gpu_temp_slow_threshold", MAL_F_TEMP_SLOW, 1},
    {"temperature/memory_temp", MAL_F_MEM_TEMP, 1},
    {"temperature/gpu_temp_max_mem_threshold", MAL_F_MEM_TEMP_MAX, 1},
    {"power_readings/power_draw", MAL_F_POWER, 1},
    {"power_readings/power_limit", MAL_F_POWER_LIMIT, 1},
    {"power_readings/enforced_power_limit", MAL_F_POWER_LIMIT, 1},
    {"power_readings/default_power_limit", MAL_F_POWER_DEFAULT, 1},
    {"gpu_power_readings/power_draw", MAL_F_POWER, 1},
    {"gpu_power_readings/average_power_draw", MAL_F_POWER, 1},
    {"gpu_power_readings/instant_power_draw", MAL_F_POWER, 1},
    {"gpu_power_readings/current_power_limit", MAL_F_POWER_LIMIT, 1},
    {"gpu_power_readings/default_power_limit", MAL_F_POWER_DEFAULT, 1},
    {"clocks/sm_clock", MAL_F_SM_CLOCK, MEGA},
    {"clocks/mem_clock", MAL_F_MEM_CLOCK, MEGA},
    {"max_clocks/sm_clock", MAL_F_SM_CLOCK_MAX, MEGA},
    {"max_clocks/mem_clock", MAL_F_MEM_CLOCK_MAX, MEGA},
    {"applications_clocks/graphics_clock", MAL_F_APP_CLOCK, MEGA},
    {"fabric/state", MAL_F_FABRIC, 0},
    {"fabric/status", MAL_F_FABRIC_STATUS, 0},
    {"fabric/health/summary", MAL_F_FABRIC_HEALTH, 0},
    {"fabric/health/bandwidth", MAL_F_FABRIC_HEALTH, HEALTH},
    {"fabric/health/route_unhealthy", MAL_F_FABRIC_HEALTH, HEALTH},
    {"fabric/health/access_timeout_recovery", MAL_F_FABRIC_HEALTH, HEALTH},
    {"gpu_reset_status/drain_and_reset_recommended", MAL_F_DRAIN, YES},
    {"gpu_recovery_action", MAL_F_RECOVERY, 0},
    {"ecc_errors/aggregate/sram_threshold_exceeded", MAL_F_SRAM_WORN, YES},
    {"ecc_errors/channel_repair_pending", MAL_F_REPAIR, PENDING},
    {"ecc_errors/tpc_repair_pending", MAL_F_REPAIR, PENDING},
};

static const mal_xml *descend(const mal_xml *x, const char *path) {
  for (char part[64]; x && *path;) {
    size_t n = strcspn(path, "/");
    if (n >= sizeof part) return NULL;
    memcpy(part, path, n);
    part[n] = 0;
    x = mal_xml_child(x, part);
    path += n + (path[n] == '/');
  }
  return x;
}

static bool absent(const char *text) {
  return !*text || mal_starts(text, "N/A") || mal_starts(text, "[") || mal_starts(text, "Requested functionality") ||
         mal_starts(text, "Unknown") || mal_starts(text, "ERR");
}

static int yes_or_no(const char *text) {
  static const char *const yes[] = {"Enabled", "Yes", "Active", "Supported"}, *const no[] = {"Disabled", "No",
                                                                                             "Not Active"};
  for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
    if (strcmp(text, yes[i]) == 0) return 1;
  for (size_t i = 0; i < sizeof no / sizeof *no; i++)
    if (strcmp(text, no[i]) == 0) return 0;
  return -1;
}

static void take(mal_topology *t, mal_part *d, const field *f, const mal_xml *x, const char *file) {
  mal_evidence from = {file, x->line};
  double number;
  if (absent(x->text)) return;
  if (f->scale == HEALTH) {
    static const char *const well[] = {"Full", "False", "No", "Healthy", "None", "Not Supported"};
    for (size_t i = 0; i < sizeof well / sizeof *well; i++)
      if (strcmp(x->text, well[i]) == 0) return;
    mal_know_text(t, d, f->key, mal_print(t->arena, "%s: %s", x->name, x->text), from);
  } else if (f->scale == PENDING) {
    if (yes_or_no(x->text) == 1) mal_know_text(t, d, f->key, x->name, from);
  } else if (f->scale == 0) {
    if (f->key == MAL_F_VIRTUAL && strcmp(x->text, "None") == 0) return;
    mal_know_text(t, d, f->key, x->text, from);
  } else if (f->scale == YES) {
    int yes = yes_or_no(x->text);
    if (yes >= 0) mal_know(d, f->key, yes, from);
  } else if (mal_number_at(x->text, &number)) {
    if (f->scale == GEN)
      number = number >= 0 && number < 10 ? mal_pcie_speed((int)number) : 0;
    else if (f->scale == SUM)
      number += mal_fact_number(d, f->key, 0);
    else
      number *= f->scale;
    if (f->scale != GEN || number > 0) mal_know(d, f->key, number, from);
  }
}

static const struct {
  const char *end;
  unsigned bit;
} reasons[] = {
    {"_gpu_idle", MAL_SLOW_IDLE},
    {"_applications_clocks_setting", MAL_SLOW_APP_CLOCKS},
    {"_sw_power_cap", MAL_SLOW_POWER_CAP},
    {"_hw_slowdown", MAL_SLOW_HARDWARE},
    {"_sync_boost", MAL_SLOW_SYNC_BOOST},
    {"_sw_thermal_slowdown", MAL_SLOW_SW_THERMAL},
    {"_hw_thermal_slowdown", MAL_SLOW_HW_THERMAL},
    {"_hw_power_brake_slowdown", MAL_SLOW_POWER_BRAKE},
};

static void slowdowns(mal_part *d, const mal_xml *gpu, const char *file) {
  const mal_xml *list = mal_xml_child(gpu, "clocks_event_reasons");
  if (!list) list = mal_xml_child(gpu, "clocks_throttle_reasons");
  if (!list) return;
  unsigned bits = 0;
  int line = list->line;
  for (const mal_xml *x = list->child; x; x = x->next)
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
      size_t n = strlen(x->name), m = strlen(reasons[i].end);
      if (n < m || strcmp(x->name + n - m, reasons[i].end) != 0 || strcmp(x->text, "Active") != 0) continue;
      bits |= reasons[i].bit;
      line = x->line;
    }
  mal_know(d, MAL_F_THROTTLE, bits, (mal_evidence){file, line});
}

static void pci_ids(mal_part *d, const mal_xml *gpu, const char *file) {
  const mal_xml *x = descend(gpu, "pci/pci_device_id");
  if (!x || !isxdigit((unsigned char)*x->text)) return;
  unsigned long id = strtoul(x->text, NULL, 16); /* device, then vendor: 20B210DE */
  mal_know(d, MAL_F_DEVICE, (double)(id >> 16 & 0xffff), (mal_evidence){file, x->line});
  mal_know(d, MAL_F_VENDOR, (double)(id & 0xffff), (mal_evidence){file, x->line});
}

/* "ERR!", "Unknown Error", "[GPU requires reset]": the driver cannot talk to the GPU. */
static const mal_xml *unreadable(const mal_xml *x) {
  static const char *const words[] = {"ERR!",
                                      "Unknown Error",
                                      "[Unknown Error]",
                                      "GPU access blocked",
                                      "[GPU requires reset]",
                                      "GPU requires reset",
                                      "[GPU is lost]",
                                      "GPU is lost"};
  for (size_t i = 0; x && i < sizeof words / sizeof *words; i++)
    if (mal_starts(x->text, words[i])) return x;
  for (const mal_xml *c = x ? x->child : NULL; c; c = c->next) {
    const mal_xml *found = unreadable(c);
    if (found) return found;
  }
  return NULL;
}

static void gpu(mal_topology *t, const mal_xml *x, int index, const mal_paste *p, const char *driver, int driver_line) {
  const char *id = mal_xml_attribute(x, "id");
  mal_part *d = mal_part_at(t, MAL_PART_GPU, index, id ? mal_bus_parse(id) : -1, (mal_evidence){p->file, x->line});
  if (!d) return;
  d->index = index;
  if (driver && !absent(driver)) mal_know_text(t, d, MAL_F_DRIVER, driver, (mal_evidence){p->file, driver_line});
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const mal_xml *found = descend(x, fields[i].path);
    if (found) take(t, d, &fields[i], found, p->file);
  }
  const char *state = mal_xml_text(x, "performance_state");
  double number;
  if (state && *state == 'P' && mal_number_at(state + 1, &number))
    mal_know(d, MAL_F_PSTATE, number, (mal_evidence){p->file, mal_xml_child(x, "performance_state")->line});
  slowdowns(d, x, p->file);
  const mal_xml *dead = unreadable(x);
  if (dead)
    mal_know_text(t, d, MAL_F_UNREADABLE, mal_print(t->arena, "%s: %s", dead->name, dead->text),
                  (mal_evidence){p->file, dead->line});
  pci_ids(d, x, p->file);
}

bool mal_read_smi_xml(mal_topology *t, const mal_paste *p, int *broken) {
  mal_xml *root = mal_xml_read(t->arena, p, "nvidia_smi_log", broken);
  if (!root) return false;
  const mal_xml *driver = mal_xml_child(root, "driver_version"), *attached = mal_xml_child(root, "attached_gpus");
  int n = 0;
  double said;
  for (const mal_xml *x = root->child; x && n < 256; x = x->next)
    if (strcmp(x->name, "gpu") == 0) gpu(t, x, n++, p, driver ? driver->text : NULL, driver ? driver->line : 0);
  if (attached && mal_number_at(attached->text, &said) && said > 0 && said < 1024) t->attached = (int)said;
  if (t->attached > n)
    mal_missing(t, _("%s says that %.0f GPUs are attached and describes %d."), p->file, (double)t->attached, n);
  return true;
}
