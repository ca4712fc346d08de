/* Each GPU by itself, and GPUs beside each other. */
#include "check/node/health.h"
#include "core/units.h"
#include <stdlib.h>
#include <string.h>

enum { LIST = 256 };

static const char *label_of(mal_health *h, const mal_part *d) { return mal_part_label(h->arena, d); }

static void judge_throttling(mal_health *h, const mal_part *d) {
  static const struct {
    unsigned bit;
    mal_severity severity;
    const char *what, *cause, *todo;
  } reasons[] = {
      {MAL_SLOW_POWER_BRAKE, MAL_SEV_ERROR, N_("clock held down by the power brake (HW power brake slowdown)"),
       N_("the server's power supply asks for less: a failed or unplugged PSU, or too small a feed"),
       N_("check PSUs and feeds in the BMC's log")},
      {MAL_SLOW_HW_THERMAL, MAL_SEV_ERROR, N_("clock held down by heat (HW thermal slowdown)"),
       N_("cooling fails: fans, airflow, inlet temperature, or paste"),
       N_("check fans and inlet temperature; lower the room's; call for service")},
      {MAL_SLOW_SW_THERMAL, MAL_SEV_ERROR, N_("clock held down by heat (SW thermal slowdown)"),
       N_("the GPU or its memory is at its target temperature: poor airflow"),
       N_("check fans and inlet temperature; blank panels; compare with the other GPUs")},
      {MAL_SLOW_HARDWARE, MAL_SEV_ERROR, N_("clock held down by the hardware (HW slowdown)"),
       N_("heat, the power brake, or too high a draw"), N_("look at temperature, PSUs and the BMC's log")},
      {MAL_SLOW_POWER_CAP, MAL_SEV_NOTE, N_("clock follows the power cap (SW power cap)"),
       N_("the GPU draws its limit: usual under full load"), N_("nothing, unless the limit is below the default")},
      {MAL_SLOW_SYNC_BOOST, MAL_SEV_NOTE, N_("clock follows the slowest GPU of its boost group"),
       N_("sync boost is on"), N_("nvidia-smi boost-slider, or nothing")},
  };
  if (!mal_known(d, MAL_F_THROTTLE)) return;
  h->judged[MAL_RULE_THROTTLING] = true;
  unsigned bits = (unsigned)mal_fact_number(d, MAL_F_THROTTLE, 0);
  double clock = mal_fact_number(d, MAL_F_SM_CLOCK, 0), most = mal_fact_number(d, MAL_F_SM_CLOCK_MAX, 0);
  bool thermal_said = bits & (MAL_SLOW_POWER_BRAKE | MAL_SLOW_HW_THERMAL);
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
    if (!(bits & reasons[i].bit) || (reasons[i].bit == MAL_SLOW_HARDWARE && thermal_said)) continue;
    mal_finding *f = mal_find(h, MAL_RULE_THROTTLING, reasons[i].severity, label_of(h, d), d->fact[MAL_F_THROTTLE].from,
                              _(reasons[i].what), _(reasons[i].cause), _(reasons[i].todo));
    if (reasons[i].severity == MAL_SEV_ERROR && clock > 0 && most > 0 && clock < most) f->damage.compute = clock / most;
  }
  double app = mal_fact_number(d, MAL_F_APP_CLOCK, 0);
  if ((bits & MAL_SLOW_APP_CLOCKS) && app > 0 && app < 0.95 * most)
    mal_find(
        h, MAL_RULE_THROTTLING, MAL_SEV_WARNING, label_of(h, d), d->fact[MAL_F_APP_CLOCK].from,
        mal_print(h->arena, _("application clock set to %.0f MHz, the GPU can do %.0f MHz"), app / 1e6, most / 1e6),
        _("somebody set it (nvidia-smi -ac)"), _("nvidia-smi -rac"))
        ->damage.compute = app / most;
}

static void judge_power_and_heat(mal_health *h, const mal_part *d) {
  double limit = mal_fact_number(d, MAL_F_POWER_LIMIT, 0), usual = mal_fact_number(d, MAL_F_POWER_DEFAULT, 0);
  double temp = mal_fact_number(d, MAL_F_TEMP, -1), slow = mal_fact_number(d, MAL_F_TEMP_SLOW, 0),
         memory = mal_fact_number(d, MAL_F_MEM_TEMP, -1), memory_most = mal_fact_number(d, MAL_F_MEM_TEMP_MAX, 0);
  if (limit > 0 && usual > 0) h->judged[MAL_RULE_POWER_LIMIT] = true;
  if (limit > 0 && limit < 0.97 * usual) {
    mal_finding *f = mal_find(h, MAL_RULE_POWER_LIMIT, MAL_SEV_WARNING, label_of(h, d), d->fact[MAL_F_POWER_LIMIT].from,
                              mal_print(h->arena, _("power limit %.0f W, default %.0f W"), limit, usual),
                              _("somebody lowered it (nvidia-smi -pl), or a site's rule"),
                              mal_print(h->arena, _("nvidia-smi -pl %.0f, if power and cooling allow"), usual));
    f->damage.compute =
        limit / usual > 0.5 ? 1 - 0.5 * (1 - limit / usual) : 0.7; /* the clock falls about half as fast as the power */
  }
  if (slow > 0 && temp >= 0) h->judged[MAL_RULE_TEMPERATURE] = true;
  if (slow > 0 && temp >= slow - 3)
    mal_find(h, MAL_RULE_TEMPERATURE, temp >= slow ? MAL_SEV_ERROR : MAL_SEV_WARNING, label_of(h, d),
             d->fact[MAL_F_TEMP].from, mal_print(h->arena, _("%.0f °C, slows down at %.0f °C"), temp, slow),
             _("poor cooling"), _("check fans, airflow and inlet temperature"));
  if (memory_most > 0 && memory >= memory_most)
    mal_find(h, MAL_RULE_TEMPERATURE, MAL_SEV_ERROR, label_of(h, d), d->fact[MAL_F_MEM_TEMP].from,
             mal_print(h->arena, _("memory at %.0f °C, allowed %.0f °C"), memory, memory_most), _("poor cooling"),
             _("check fans, airflow and inlet temperature"));
}

static void judge_memory(mal_health *h, const mal_part *d) {
  const char *label = label_of(h, d);
  double bad = mal_fact_number(d, MAL_F_ECC_UNCORRECTED, 0),
         ever = mal_fact_number(d, MAL_F_ECC_LIFETIME_UNCORRECTED, 0),
         corrected = mal_fact_number(d, MAL_F_ECC_CORRECTED, 0);
  enum { CORRECTED_MANY = 10000 }; /* Azure's node check warns there (azurehpc-health-checks, ecc) */
  if (mal_known(d, MAL_F_ECC_UNCORRECTED) || mal_known(d, MAL_F_ECC)) h->judged[MAL_RULE_ECC] = true;
  if (bad > 0)
    mal_find(
        h, MAL_RULE_ECC, MAL_SEV_ERROR, label, d->fact[MAL_F_ECC_UNCORRECTED].from,
        mal_print(h->arena, _("%.0f uncorrected memory errors since the driver started"), bad),
        _("failing memory: a job that touched it was killed or is wrong"),
        _("drain the node, reset the GPU so that rows are remapped, run a memory test; replace it if they return"));
  else if (ever > 0)
    mal_find(h, MAL_RULE_ECC, MAL_SEV_NOTE, label, d->fact[MAL_F_ECC_LIFETIME_UNCORRECTED].from,
             mal_print(h->arena, _("%.0f uncorrected memory errors in its life, none since the driver started"), ever),
             _("past errors, whose rows were remapped"), _("watch it"));
  if (corrected >= CORRECTED_MANY)
    mal_find(h, MAL_RULE_ECC, MAL_SEV_WARNING, label, d->fact[MAL_F_ECC_CORRECTED].from,
             mal_print(h->arena, _("%.0f corrected memory errors"), corrected), _("ageing memory"),
             _("watch for uncorrected errors and remapped rows"));
  if (mal_known(d, MAL_F_ECC) && mal_fact_number(d, MAL_F_ECC, 1) == 0 && h->has_machine &&
      h->machine.node->nvlink_domain > 1)
    mal_find(h, MAL_RULE_ECC, MAL_SEV_WARNING, label, d->fact[MAL_F_ECC].from, _("ECC is off"),
             _("somebody switched it off"), _("nvidia-smi -e 1, then reset"));
  if (mal_known(d, MAL_F_ROWS_PENDING) || mal_known(d, MAL_F_ROWS_FAILED) || mal_known(d, MAL_F_PAGES_PENDING))
    h->judged[MAL_RULE_ROW_REMAP] = true;
  if (mal_fact_number(d, MAL_F_ROWS_FAILED, 0) > 0)
    mal_find(h, MAL_RULE_ROW_REMAP, MAL_SEV_ERROR, label, d->fact[MAL_F_ROWS_FAILED].from,
             _("remapping a memory row failed"), _("the GPU has no spare rows left in a bank"),
             _("replace the GPU (NVIDIA's criterion for return)"));
  if (mal_fact_number(d, MAL_F_ROWS_PENDING, 0) > 0)
    mal_find(h, MAL_RULE_ROW_REMAP, MAL_SEV_ERROR, label, d->fact[MAL_F_ROWS_PENDING].from,
             _("a memory row waits to be remapped"), _("an uncorrected error: the bad row stays in use until a reset"),
             _("drain the node and reset the GPU"));
  if (mal_fact_number(d, MAL_F_PAGES_PENDING, 0) > 0)
    mal_find(h, MAL_RULE_ROW_REMAP, MAL_SEV_ERROR, label, d->fact[MAL_F_PAGES_PENDING].from,
             _("a memory page waits to be retired"), _("memory errors: the page stays in use until a reboot"),
             _("drain the node and reboot"));
  double remapped = mal_fact_number(d, MAL_F_ROWS_UNCORRECTED, 0);
  if (remapped > 0)
    mal_find(h, MAL_RULE_ROW_REMAP, MAL_SEV_NOTE, label, d->fact[MAL_F_ROWS_UNCORRECTED].from,
             mal_print(h->arena, _("%.0f rows remapped after uncorrected errors"), remapped),
             _("past memory errors, repaired"), _("watch it"));
}

static void judge_modes(mal_health *h, const mal_part *d) {
  if (mal_known(d, MAL_F_MIG)) h->judged[MAL_RULE_MIG] = true;
  if (mal_fact_number(d, MAL_F_MIG, 0) > 0)
    mal_find(h, MAL_RULE_MIG, MAL_SEV_WARNING, label_of(h, d), d->fact[MAL_F_MIG].from,
             _("MIG is on: the GPU is cut into instances, without NVLink or peer access"), _("left from another use"),
             _("nvidia-smi -mig 0, then reset, before training on several GPUs"))
        ->damage.no_nvlink = true;
  if (mal_known(d, MAL_F_RESET_NEEDED)) h->judged[MAL_RULE_RESET] = true;
  if (mal_fact_number(d, MAL_F_RESET_NEEDED, 0) > 0)
    mal_find(h, MAL_RULE_RESET, MAL_SEV_ERROR, label_of(h, d), d->fact[MAL_F_RESET_NEEDED].from,
             _("the driver asks for a reset of this GPU"),
             _("an error that it could not repair; the kernel log names it"), _("drain the node and reset the GPU"));
}

/* What the driver itself says is to be done, and what it cannot read. */
static void judge_answers(mal_health *h, const mal_part *d) {
  const char *label = label_of(h, d), *unread = mal_fact_text(d, MAL_F_UNREADABLE),
             *action = mal_fact_text(d, MAL_F_RECOVERY), *repair = mal_fact_text(d, MAL_F_REPAIR);
  if (mal_known(d, MAL_F_PRODUCT) && mal_known(d, MAL_F_UUID)) h->judged[MAL_RULE_ANSWERS] = true;
  if (unread)
    mal_find(h, MAL_RULE_ANSWERS, MAL_SEV_ERROR, label, d->fact[MAL_F_UNREADABLE].from,
             mal_print(h->arena, _("the driver cannot read it (%s)"), unread),
             _("the GPU hangs, was lost, or needs a reset"),
             _("look for XIDs in dmesg (79, 119, 120); drain the node, reset the GPU, else power-cycle"));
  if (action || mal_known(d, MAL_F_DRAIN)) h->judged[MAL_RULE_RESET] = true;
  if (mal_fact_number(d, MAL_F_DRAIN, 0) > 0)
    mal_find(h, MAL_RULE_RESET, MAL_SEV_ERROR, label, d->fact[MAL_F_DRAIN].from,
             _("the driver recommends to drain the GPU and reset it"),
             _("an error that it contained; the kernel log names it"),
             _("take no new job; reset the GPU when it is free"));
  if (action && strcmp(action, "None") != 0)
    mal_find(h, MAL_RULE_RESET, MAL_SEV_ERROR, label, d->fact[MAL_F_RECOVERY].from,
             mal_print(h->arena, _("the driver asks for an action: %s"), action),
             _("an error that it could not repair; the kernel log names it (XID 154)"),
             _("do it: drain, then reset or reboot"));
  if (mal_known(d, MAL_F_SRAM_WORN)) h->judged[MAL_RULE_ECC] = true;
  if (mal_fact_number(d, MAL_F_SRAM_WORN, 0) > 0)
    mal_find(h, MAL_RULE_ECC, MAL_SEV_ERROR, label, d->fact[MAL_F_SRAM_WORN].from,
             _("errors of its on-chip memory passed the threshold"), _("a failing GPU (NVIDIA's criterion for return)"),
             _("replace the GPU"));
  if (repair)
    mal_find(h, MAL_RULE_ROW_REMAP, MAL_SEV_ERROR, label, d->fact[MAL_F_REPAIR].from,
             mal_print(h->arena, _("a repair waits for a reset (%s)"), repair), _("memory or a unit of the GPU failed"),
             _("drain the node and reset the GPU"));
}

static const char *fact_shown(mal_health *h, const mal_part *d, mal_fact_key key) {
  const char *text = mal_fact_text(d, key);
  return text ? text : mal_print(h->arena, "%.10g", mal_fact_number(d, key, 0));
}

/* GPUs of different models have different firmware, clocks, limits and memory: that the models differ is said once. */
static bool comparable(const mal_part *a, const mal_part *b, mal_fact_key key) {
  const char *x = mal_fact_text(a, MAL_F_PRODUCT), *y = mal_fact_text(b, MAL_F_PRODUCT);
  return key == MAL_F_PRODUCT || key == MAL_F_DRIVER || !x || !y || strcmp(x, y) == 0;
}

/* Of the values that parts have the rare ones are odd. */
static void judge_alike(mal_health *h, mal_part *const *list, int n, mal_fact_key key, mal_severity severity,
                        const char *what, const char *todo) {
  int known = 0, best = -1, best_count = 0;
  for (int i = 0; i < n; i++) {
    int same = 0;
    if (!mal_known(list[i], key)) continue;
    known++;
    for (int j = 0; j < n; j++)
      same += comparable(list[i], list[j], key) && mal_known(list[j], key) &&
              strcmp(fact_shown(h, list[i], key), fact_shown(h, list[j], key)) == 0;
    if (same > best_count) best = i, best_count = same;
  }
  if (known < 2) return;
  h->judged[MAL_RULE_MIXED] = true;
  for (int i = 0; i < n; i++) {
    if (!mal_known(list[i], key) || !comparable(list[i], list[best], key) ||
        strcmp(fact_shown(h, list[i], key), fact_shown(h, list[best], key)) == 0)
      continue;
    mal_finding *f = mal_find(h, MAL_RULE_MIXED, severity, label_of(h, list[i]), list[i]->fact[key].from,
                              mal_print(h->arena, _("%s %s, the others have %s"), what, fact_shown(h, list[i], key),
                                        fact_shown(h, list[best], key)),
                              _("a part that was exchanged or updated alone"), todo);
    double mine = mal_fact_number(list[i], key, 0), others = mal_fact_number(list[best], key, 0);
    if (key == MAL_F_SM_CLOCK_MAX && mine < others) f->damage.compute = mine / others;
  }
}

static int by_number(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Under load the clocks of GPUs beside each other differ by little. */
static void judge_clocks_under_load(mal_health *h, mal_part *const *gpus, int n) {
  double clocks[LIST];
  int loaded = 0;
  for (int i = 0; i < n; i++)
    if (mal_fact_number(gpus[i], MAL_F_UTIL, 0) > 0.5 && mal_known(gpus[i], MAL_F_SM_CLOCK))
      clocks[loaded++] = mal_fact_number(gpus[i], MAL_F_SM_CLOCK, 0);
  if (loaded < 2) return;
  h->judged[MAL_RULE_THROTTLING] = true;
  qsort(clocks, (size_t)loaded, sizeof *clocks, by_number);
  double middle = clocks[loaded / 2];
  for (int i = 0; i < n; i++) {
    double mine = mal_fact_number(gpus[i], MAL_F_SM_CLOCK, 0);
    if (mal_fact_number(gpus[i], MAL_F_UTIL, 0) <= 0.5 || mine >= 0.9 * middle || mine <= 0) continue;
    mal_find(h, MAL_RULE_THROTTLING, MAL_SEV_ERROR, label_of(h, gpus[i]), gpus[i]->fact[MAL_F_SM_CLOCK].from,
             mal_print(h->arena, _("runs at %.0f MHz under load, the others at %.0f MHz"), mine / 1e6, middle / 1e6),
             _("heat or power holds this GPU down"),
             _("compare temperature, power limit and slowdown reasons with the others"))
        ->damage.compute = mine / middle;
  }
}

void mal_judge_gpus(mal_health *h) {
  mal_part *gpus[LIST];
  int n = mal_parts_of(&h->topology, MAL_PART_GPU, gpus, LIST);
  for (int i = 0; i < n; i++) {
    judge_throttling(h, gpus[i]);
    judge_power_and_heat(h, gpus[i]);
    judge_memory(h, gpus[i]);
    judge_modes(h, gpus[i]);
    judge_answers(h, gpus[i]);
  }
  judge_alike(h, gpus, n, MAL_F_PRODUCT, MAL_SEV_ERROR, _("model"),
              _("use GPUs of one model in a job: the slowest sets the pace"));
  judge_alike(h, gpus, n, MAL_F_DRIVER, MAL_SEV_ERROR, _("driver"), _("install one driver version and reboot"));
  judge_alike(h, gpus, n, MAL_F_FIRMWARE, MAL_SEV_WARNING, _("firmware (VBIOS)"),
              _("update the firmware of all GPUs to one version"));
  judge_alike(h, gpus, n, MAL_F_SM_CLOCK_MAX, MAL_SEV_WARNING, _("highest clock (Hz)"),
              _("compare part numbers and firmware"));
  judge_alike(h, gpus, n, MAL_F_POWER_LIMIT, MAL_SEV_WARNING, _("power limit (W)"),
              _("set one limit for all: nvidia-smi -pl"));
  judge_alike(h, gpus, n, MAL_F_MEMORY, MAL_SEV_ERROR, _("memory (bytes)"),
              _("compare models; reserved memory may differ with MIG or ECC"));
  judge_clocks_under_load(h, gpus, n);
}
