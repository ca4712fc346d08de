/* Kernel logs: XIDs of GPUs, SXids of NVSwitches, nvidia-peermem; and the Fabric Manager's log. Codes and actions are in
 * catalog/checks/xid.csv. */
#include "check/node/health.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static mal_severity severity_named(const char *name) {
  for (int i = 0; i < MAL_SEVERITIES; i++)
    if (strcmp(mal_severity_name[i], name) == 0) return (mal_severity)i;
  return MAL_SEV_WARNING;
}

static void explain(mal_health *h, mal_rule rule, mal_check_table table, const char *kind, int code, const char *device,
                    mal_evidence from) {
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
  mal_find(h, rule, severity, device, from,
           mal_print(h->arena, "%s %d%s%s%s", kind, code, *mnemonic ? " (" : "", mnemonic, *mnemonic ? ")" : ""),
           meaning, todo);
}

/* "NVRM: Xid (PCI:0000:9b:00): 119, pid=..." */
static bool xid_line(mal_health *h, const char *line, mal_evidence from) {
  const char *at = strstr(line, "Xid (");
  char where[64];
  int code, used = 0;
  if (!at || (at > line && (at[-1] == 'S' || at[-1] == 's'))) return false;
  if (sscanf(at, "Xid (%63[^)]): %d%n", where, &code, &used) != 2 || !used || code < 0 || code > 100000) return false;
  const char *address = mal_starts(where, "PCI:") ? where + 4 : where;
  const mal_part *gpu = NULL;
  for (int i = 0; i < h->topology.n_devices && !gpu; i++) {
    const mal_part *d = &h->topology.devices[i];
    if (d->kind == MAL_PART_GPU && d->bus >= 0 && mal_starts(mal_bus_show(h->arena, d->bus), address)) gpu = d;
  }
  explain(h, MAL_RULE_XID, MAL_TABLE_XID, "XID", code,
          gpu ? mal_part_label(h->arena, gpu) : mal_print(h->arena, "GPU %s", address), from);
  return true;
}

/* "nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 12028, Non-fatal, Link 61 ..." */
static bool sxid_line(mal_health *h, const char *line, mal_evidence from) {
  const char *at = strstr(line, "SXid (");
  char where[64];
  int code;
  if (!at || sscanf(at, "SXid (%63[^)]): %d", where, &code) != 2) return false;
  const char *address = mal_starts(where, "PCI:") ? where + 4 : where;
  bool fatal = strstr(at, "Fatal") && !strstr(at, "Non-fatal") && !strstr(at, "non-fatal");
  int before = h->n_findings;
  explain(h, MAL_RULE_SXID, MAL_TABLE_SXID, "SXid", code, mal_print(h->arena, "NVSwitch %s", address), from);
  if (fatal && h->n_findings > before) h->findings[h->n_findings - 1].severity = MAL_SEV_ERROR;
  return true;
}

static bool peermem_line(mal_health *h, const char *line, mal_evidence from) {
  if (!strstr(line, "nvidia-peermem") || !(strstr(line, "ERROR") || strstr(line, "error"))) return false;
  mal_find(h, MAL_RULE_GPUDIRECT, MAL_SEV_WARNING, "nvidia-peermem", from,
           _("nvidia-peermem reports an invalid context"),
           _("GPU memory was freed while a NIC still had it registered: a job that was killed, or a module older than "
             "the driver"),
           _("after a killed job: nothing. If it goes on: reload nvidia-peermem after the driver, or use dma-buf"));
  return true;
}

static const struct {
  const char *words;
  mal_severity severity;
  const char *what, *cause, *todo;
} others[] = {
    {"fallen off the bus", MAL_SEV_ERROR, N_("a GPU has fallen off the bus"), N_("power, PCIe link or the GPU failed"),
     N_("power-cycle the node; if it returns, reseat or replace the GPU")},
    {"RmInitAdapter failed", MAL_SEV_ERROR, N_("the driver could not start a GPU"),
     N_("a failed GPU, or firmware and driver that do not fit"),
     N_("power-cycle; update the driver; call for service")},
    {"API mismatch", MAL_SEV_ERROR, N_("kernel module and libraries of the driver have different versions"),
     N_("the driver was updated and the module not reloaded"), N_("reboot")},
    {"AER: Uncorrected (Fatal)", MAL_SEV_ERROR, N_("a fatal PCIe error"), N_("a PCIe link or device failed"),
     N_("reseat the device; look at its link in lspci -vvv")},
    {"AER: Uncorrected (Non-Fatal)", MAL_SEV_WARNING, N_("an uncorrected PCIe error"),
     N_("a PCIe link with a bad signal"), N_("reseat the device; look at its link in lspci -vvv")},
    {"Machine check events logged", MAL_SEV_WARNING, N_("the CPU logged a machine check"), N_("memory or CPU errors"),
     N_("look at ras-mc-ctl --errors or the BMC's log")},
    {"link is down", MAL_SEV_WARNING, N_("a network link went down"), N_("cable, transceiver or switch"),
     N_("look at the port's counters")},
};

bool mal_read_kernel_log(mal_health *h, const mal_paste *p) {
  mal_lines l = mal_lines_of(p);
  bool known = false;
  while (mal_lines_next(&l)) {
    mal_evidence from = {p->file, l.number};
    if (strstr(l.line, "NCCL INFO"))
      continue; /* logs of jobs are long, and none of the words below is in such a line */
    bool nvidia = strstr(l.line, "NVRM") || strstr(l.line, "nvidia");
    if (nvidia) {
      known = true;
      h->judged[MAL_RULE_XID] = true;
      if (sxid_line(h, l.line, from) || xid_line(h, l.line, from) || peermem_line(h, l.line, from)) continue;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
      if (strstr(l.line, others[i].words))
        mal_find(h, MAL_RULE_KERNEL, others[i].severity, "", from, _(others[i].what), _(others[i].cause),
                 _(others[i].todo));
  }
  mal_lines_end(&l);
  return known;
}

/* "[Feb 27 2025 15:10:02] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 ..." */
bool mal_read_fabric_manager(mal_health *h, const mal_paste *p) {
  mal_lines l = mal_lines_of(p);
  bool known = false;
  while (mal_lines_next(&l)) {
    const char *at = strstr(l.line, "NVSwitch"), *code = strstr(l.line, "error "),
               *bus = mal_after(l.line, "pci bus id ");
    mal_evidence from = {p->file, l.number};
    if (!strstr(l.line, "[tid ")) continue;
    known = true;
    h->judged[MAL_RULE_SXID] = true;
    if (strstr(l.line, "multicast group") && strstr(l.line, "allocated")) h->judged[MAL_RULE_NVLS] = true;
    if (at && code && isdigit((unsigned char)code[6])) {
      const char *switch_name = bus && mal_bus_parse(bus) >= 0
                                    ? mal_print(h->arena, "NVSwitch %s", mal_bus_show(h->arena, mal_bus_parse(bus)))
                                    : "NVSwitch";
      int before = h->n_findings;
      explain(h, MAL_RULE_SXID, MAL_TABLE_SXID, "SXid", atoi(code + 6), switch_name, from);
      if (h->n_findings > before && strstr(l.line, " fatal")) h->findings[h->n_findings - 1].severity = MAL_SEV_ERROR;
    } else if (strstr(l.line, "[ERROR]")) {
      mal_find(h, MAL_RULE_NVSWITCH, MAL_SEV_ERROR, "", from,
               mal_print(h->arena, _("Fabric Manager: %s"),
                         mal_trimmed(h->arena, strrchr(l.line, ']') + 1, strlen(strrchr(l.line, ']') + 1))),
               _("the Fabric Manager reports an error"),
               _("look at the lines around it; restart nvidia-fabricmanager"));
    }
    if (strstr(l.line, "failed to setup multicast") || strstr(l.line, "failed to allocate multicast"))
      mal_find(h, MAL_RULE_NVLS, MAL_SEV_WARNING, "", from,
               _("the Fabric Manager could not set up a multicast group: no NVLS"),
               _("groups are used up by other jobs, or a GPU is not in the fabric"),
               _("end other jobs; restart nvidia-fabricmanager"))
          ->damage.no_nvls = true;
  }
  mal_lines_end(&l);
  return known;
}
