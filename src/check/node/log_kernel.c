/* Kernel logs: XIDs of GPUs, SXids of NVSwitches, nvidia-peermem; and the Fabric Manager's log. Codes and actions are in
 * catalog/checks/xid.csv and sxid.csv. */
#include "check/node/log.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static mal_severity severity_named(const char *name) {
  for (int i = 0; i < MAL_SEVERITIES; i++)
    if (strcmp(mal_severity_name[i], name) == 0) return (mal_severity)i;
  return MAL_SEV_WARNING;
}

typedef struct kernel_log {
  mal_log_memo memo;
  int nvidia;
} kernel_log;

static mal_finding *explain(mal_health *h, mal_rule rule, mal_check_table table, const char *kind, int code,
                            const char *device, mal_evidence from) {
  const mal_csv *csv = mal_health_table(h, table);
  const char *meaning = _("a code that the catalogue does not have"),
             *todo = _("look it up in NVIDIA's list, and call for service"), *mnemonic = "";
  mal_severity severity = MAL_SEV_WARNING;
  for (int i = 0; i < csv->rows; i++) {
    if (atoi(mal_csv_cell(csv, i, mal_csv_column(csv, "code"))) != code) continue;
    mnemonic = mal_csv_cell(csv, i, mal_csv_column(csv, "mnemonic"));
    meaning = mal_csv_cell(csv, i, mal_csv_column(csv, "meaning"));
    todo = mal_csv_cell(csv, i, mal_csv_column(csv, "action"));
    severity = severity_named(mal_csv_cell(csv, i, mal_csv_column(csv, "severity")));
  }
  return mal_find(h, rule, severity, device, from,
                  mal_print(h->arena, "%s %d%s%s%s", kind, code, *mnemonic ? " (" : "", mnemonic, *mnemonic ? ")" : ""),
                  meaning, todo);
}

enum { WHERE = 40 };

/* "Xid (PCI:0000:9b:00): 119, pid=..." from the bracket on: the address and the code. */
static bool address_and_code(const char *at, char *where, int *code) {
  const char *open = strchr(at, '('), *close = open ? strchr(open, ')') : NULL;
  if (!close || close - open > WHERE || close[1] != ':') return false;
  open++;
  if (mal_starts(open, "PCI:")) open += 4;
  const char *digits = close + 2 + strspn(close + 2, " ");
  char *end;
  long value = strtol(digits, &end, 10);
  if (end == digits || !isdigit((unsigned char)*digits) || value > 100000 || close - open >= WHERE) return false;
  memcpy(where, open, (size_t)(close - open));
  where[close - open] = 0;
  *code = (int)value;
  return true;
}

static const char *gpu_at(mal_health *h, const char *address) {
  for (int i = 0; i < h->topology.n_devices; i++) {
    const mal_part *d = &h->topology.devices[i];
    if (d->kind == MAL_PART_GPU && d->bus >= 0 && mal_starts(mal_bus_show(h->arena, d->bus), address))
      return mal_part_label(h->arena, d);
  }
  return mal_print(h->arena, "GPU %s", address);
}

static bool is_fatal(const char *text) {
  return (strstr(text, "Fatal") || strstr(text, " fatal")) && !strstr(text, "on-fatal") && !strstr(text, "on-Fatal");
}

/* A code of a switch or of a GPU, told once for each place. */
static void note_code(mal_health *h, mal_log_memo *memo, bool sxid, int code, bool fatal, const char *where,
                      mal_evidence from) {
  uint64_t key = mal_log_hash((uint64_t)code << 2 | (uint64_t)(fatal << 1) | sxid, where, true);
  if (mal_log_again(h, memo, key, from)) return;
  mal_finding *f = sxid ? explain(h, MAL_RULE_SXID, MAL_TABLE_SXID, "SXid", code,
                                  mal_print(h->arena, *where ? "NVSwitch %s" : "NVSwitch", where), from)
                        : explain(h, MAL_RULE_XID, MAL_TABLE_XID, "XID", code, gpu_at(h, where), from);
  if (fatal) f->severity = MAL_SEV_ERROR;
  mal_log_note(h, memo, key, f);
}

/* "NVRM: Xid (PCI:0000:9b:00): 119, pid=..."; "nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 12028, Non-fatal, Link 61 ..." */
static bool code_line(mal_health *h, mal_log_memo *memo, const char *line, mal_evidence from) {
  const char *at = strstr(line, "Xid (");
  char where[WHERE];
  int code;
  if (!at || !address_and_code(at, where, &code)) return false;
  bool sxid = at > line && (at[-1] == 'S' || at[-1] == 's');
  note_code(h, memo, sxid, code, sxid && is_fatal(at), where, from);
  return true;
}

static bool peermem_line(mal_health *h, mal_log_memo *memo, const char *line, mal_evidence from) {
  if (!strstr(line, "nvidia-peermem") || !(strstr(line, "ERROR") || strstr(line, "error"))) return false;
  uint64_t key = mal_log_hash(0, "nvidia-peermem", true);
  if (mal_log_again(h, memo, key, from)) return true;
  mal_log_note(
      h, memo, key,
      mal_find(
          h, MAL_RULE_GPUDIRECT, MAL_SEV_WARNING, "nvidia-peermem", from,
          _("nvidia-peermem reports an invalid context"),
          _("GPU memory was freed while a NIC still had it registered: a job that was killed, or a module older than "
            "the driver"),
          _("after a killed job: nothing. If it goes on: reload nvidia-peermem after the driver, or use dma-buf")));
  return true;
}

static const struct {
  uint64_t word;
  const char *more; /* also in the line */
  mal_severity severity;
  const char *what, *cause, *todo;
} others[] = {
    {MAL_W(FALLEN), NULL, MAL_SEV_ERROR, N_("a GPU has fallen off the bus"), N_("power, PCIe link or the GPU failed"),
     N_("power-cycle the node; if it returns, reseat or replace the GPU")},
    {MAL_W(ADAPTER), NULL, MAL_SEV_ERROR, N_("the driver could not start a GPU"),
     N_("a failed GPU, or firmware and driver that do not fit"),
     N_("power-cycle; update the driver; call for service")},
    {MAL_W(MISMATCH), NULL, MAL_SEV_ERROR, N_("kernel module and libraries of the driver have different versions"),
     N_("the driver was updated and the module not reloaded"), N_("reboot")},
    {MAL_W(AER), "(Fatal)", MAL_SEV_ERROR, N_("a fatal PCIe error"), N_("a PCIe link or device failed"),
     N_("reseat the device; look at its link in lspci -vvv")},
    {MAL_W(AER), "(Non-Fatal)", MAL_SEV_WARNING, N_("an uncorrected PCIe error"), N_("a PCIe link with a bad signal"),
     N_("reseat the device; look at its link in lspci -vvv")},
    {MAL_W(MCE), NULL, MAL_SEV_WARNING, N_("the CPU logged a machine check"), N_("memory or CPU errors"),
     N_("look at ras-mc-ctl --errors or the BMC's log")},
    {MAL_W(LINK_DOWN) | MAL_W(LINK_DOWN_2), NULL, MAL_SEV_WARNING, N_("a network link went down"),
     N_("cable, transceiver or switch"), N_("look at the port's counters")},
};

/* "[ 1021.512345] ", "[Sun Feb 23 16:24:18 2025] ", "6,3973,227996636,-;" of /dev/kmsg, "... host kernel: ". */
static bool is_stamped(const char *line) {
  static const char *const days[] = {"[Mon ", "[Tue ", "[Wed ", "[Thu ", "[Fri ", "[Sat ", "[Sun "};
  for (size_t i = 0; i < sizeof days / sizeof *days; i++)
    if (mal_starts(line, days[i])) return true;
  const char *at = line + (*line == '<' ? strcspn(line, ">") + (strchr(line, '>') != NULL) : 0); /* "<6>" of dmesg -r */
  if (*at == '[') {
    size_t digits = strspn(at + 1, " 0123456789");
    return digits && at[1 + digits] == '.' && at[2 + digits + strspn(at + 2 + digits, "0123456789")] == ']';
  }
  if (isdigit((unsigned char)*line)) {
    size_t head = strspn(line, "0123456789,");
    return head >= 5 && line[head] == '-' && line[head + 1] == ';';
  }
  const char *kernel = strstr(line, " kernel: ");
  return kernel && kernel - line < 80;
}

static bool of_the_driver(const char *line, uint64_t words) {
  static const char *const modules[] = {"nvidia-nvswitch", "nvidia-peermem", "nvidia-uvm", "nvidia-nvlink",
                                        "nvidia-modeset"};
  if (strstr(line, "NVRM:") || words & MAL_W(XID)) return true;
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
    if (strstr(line, modules[i])) return true;
  return is_stamped(line);
}

static bool kernel_line(const mal_log *log, void *state, const mal_log_line *l) {
  kernel_log *k = state;
  mal_health *h = log->h;
  mal_evidence from = {log->p->file, l->number};
  if (l->words & (MAL_W(INFO) | MAL_W(WARN) | MAL_W(TID))) return false; /* lines of jobs and of the Fabric Manager */
  if (l->words & (MAL_W(NVRM) | MAL_W(NVIDIA) | MAL_W(XID)) && of_the_driver(l->text, l->words)) {
    k->nvidia++;
    if (l->words & MAL_W(XID) && code_line(h, &k->memo, l->text, from)) return false;
    if (l->words & MAL_W(NVIDIA) && peermem_line(h, &k->memo, l->text, from)) return false;
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    if (!(l->words & others[i].word) || (others[i].more && !strstr(l->text, others[i].more))) continue;
    if (!k->nvidia && !is_stamped(l->text)) continue;
    uint64_t key = mal_log_hash(i, "others", true);
    if (!mal_log_again(h, &k->memo, key, from))
      mal_log_note(h, &k->memo, key,
                   mal_find(h, MAL_RULE_KERNEL, others[i].severity, "", from, _(others[i].what), _(others[i].cause),
                            _(others[i].todo)));
  }
  return false;
}

/* A kernel log that names nothing of NVIDIA's is still one: it is known by the times before its lines. */
static bool is_kernel_log(const mal_paste *p) {
  enum { LOOKED_AT = 200 };
  mal_lines l = mal_lines_of(p);
  int lines = 0, stamped = 0;
  while (lines < LOOKED_AT && mal_lines_next(&l)) {
    if (!l.length) continue;
    lines++;
    stamped += is_stamped(l.line);
  }
  mal_lines_end(&l);
  return stamped > 0 && 2 * stamped >= lines;
}

static bool kernel_end(const mal_log *log, void *state) {
  kernel_log *k = state;
  if (!k->nvidia && !is_kernel_log(log->p)) return false;
  log->h->judged[MAL_RULE_XID] = log->h->judged[MAL_RULE_SXID] = log->h->judged[MAL_RULE_KERNEL] = true;
  return true;
}

const mal_log_kind mal_log_kernel = {.what = "kernel log",
                                     .wants = MAL_W(NVRM) | MAL_W(NVIDIA) | MAL_W(XID) | MAL_W(FALLEN) |
                                              MAL_W(ADAPTER) | MAL_W(MISMATCH) | MAL_W(AER) | MAL_W(MCE) |
                                              MAL_W(LINK_DOWN) | MAL_W(LINK_DOWN_2),
                                     .state_bytes = sizeof(kernel_log),
                                     .line = kernel_line,
                                     .is_one = is_kernel_log,
                                     .end = kernel_end};

/* "[Feb 27 2025 15:10:02] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 ..." */
static void fabric_error(mal_health *h, mal_log_memo *memo, const char *line, mal_evidence from) {
  const char *text = strrchr(line, ']') + 1;
  uint64_t key = mal_log_hash(1, text, false);
  if (mal_log_again(h, memo, key, from)) return;
  mal_log_note(h, memo, key,
               mal_find(h, MAL_RULE_NVSWITCH, MAL_SEV_ERROR, "", from,
                        mal_print(h->arena, _("Fabric Manager: %.160s"), mal_trimmed(h->arena, text, strlen(text))),
                        _("the Fabric Manager reports an error"),
                        _("look at the lines around it; restart nvidia-fabricmanager")));
}

static bool fabric_line(const mal_log *log, void *state, const mal_log_line *l) {
  mal_health *h = log->h;
  mal_log_memo *memo = state;
  const char *at = strstr(l->text, "NVSwitch"), *code = strstr(l->text, "error "),
             *bus = mal_after(l->text, "pci bus id ");
  mal_evidence from = {log->p->file, l->number};
  h->judged[MAL_RULE_SXID] = h->judged[MAL_RULE_NVSWITCH] = true;
  if (strstr(l->text, "multicast group") && strstr(l->text, "allocated")) h->judged[MAL_RULE_NVLS] = true;
  if (at && code && isdigit((unsigned char)code[6])) {
    char where[WHERE] = "";
    int64_t address = bus ? mal_bus_parse(bus) : -1;
    if (address >= 0) mal_bus_write(where, sizeof where, address);
    note_code(h, memo, true, atoi(code + 6), is_fatal(l->text), where, from);
  } else if (strstr(l->text, "[ERROR]")) {
    fabric_error(h, memo, l->text, from);
  }
  if (strstr(l->text, "failed to setup multicast") || strstr(l->text, "failed to allocate multicast"))
    mal_find(h, MAL_RULE_NVLS, MAL_SEV_WARNING, "", from,
             _("the Fabric Manager could not set up a multicast group: no NVLS"),
             _("groups are used up by other jobs, or a GPU is not in the fabric"),
             _("end other jobs; restart nvidia-fabricmanager"))
        ->damage.no_nvls = true;
  return false;
}

static bool fabric_end(const mal_log *log, void *state) {
  (void)log, (void)state;
  return true;
}

const mal_log_kind mal_log_fabric_manager = {.what = "Fabric Manager log",
                                             .wants = MAL_W(TID),
                                             .state_bytes = sizeof(mal_log_memo),
                                             .line = fabric_line,
                                             .end = fabric_end};
