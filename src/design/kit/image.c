#include "design/files.h"
#include "design/kit/kit.h"
#include <string.h>

static void put_csv_text(mal_writing *w, const char *text) {
  mal_write(w, ",\"");
  for (const char *c = text; *c; c++) mal_write(w, *c == '"' ? "\"\"" : "%c", *c);
  mal_write(w, "\"");
}

char *mal_kit_software_csv(mal_arena *a, const mal_design *d) {
  const mal_software *s = d->software;
  mal_writing w = {.arena = a};
  mal_write(&w, "node,list,date,component,version,source\n");
  for (int c = 0; c < MAL_COMPONENTS; c++) {
    if (!mal_software_runs(s, &d->machine, (mal_component)c)) continue;
    mal_write(&w, "%s,%s,%s,%s", d->machine.node->name, s->name, s->date, mal_component_key[c]);
    put_csv_text(&w, s->of[c].version);
    put_csv_text(&w, s->of[c].source);
    mal_write(&w, "\n");
  }
  return w.text;
}

/* One image for all nodes of a kind: what differs (address, name) comes from DHCP by the BMC's place in the rack. */
char *mal_kit_image(mal_arena *a, const mal_design *d) {
  const mal_software *s = d->software;
  const mal_machine *m = &d->machine;
  mal_writing w = {.arena = a};
  bool nvidia = s->of[MAL_SW_DRIVER].version != NULL, drives = m->node->nvme_drives.value > 0;
  mal_write(&w, "# Image of %s; one for all nodes, names and addresses come by DHCP.\nname: %s\nlist: %s\ndate: %s\n",
            m->node->title, m->node->name, s->name, s->date);
  mal_write(&w, "packages: # held: an upgrade is a new image, tried on one node, then on one scalable unit\n");
  for (int c = 0; c < MAL_COMPONENTS; c++)
    if (mal_software_runs(s, m, (mal_component)c))
      mal_write(&w, "  %s: \"%s\"\n", mal_component_key[c], s->of[c].version);
  mal_write(&w, "kernel_arguments: # of the boot loader\n  - iommu=pt # devices reach each other without translation\n"
                "  - pci=realloc=off\n");
  if (nvidia)
    mal_write(&w, "kernel_modules:\n  - nvidia\n  - nvidia_peermem # NICs reach GPU memory; dma-buf needs no module\n");
  if (s->of[MAL_SW_GDS].version && drives) mal_write(&w, "  - nvidia_fs\n");
  if (s->of[MAL_SW_GDRCOPY].version) mal_write(&w, "  - gdrdrv\n");
  mal_write(&w, "services:\n  enabled:\n    - chrony\n    - munge\n    - slurmd\n    - prometheus-node-exporter\n");
  if (nvidia) mal_write(&w, "    - nvidia-persistenced\n    - nvidia-dcgm\n    - dcgm-exporter\n");
  if (mal_software_runs(s, m, MAL_SW_FABRIC_MANAGER)) mal_write(&w, "    - nvidia-fabricmanager\n");
  if (mal_software_runs(s, m, MAL_SW_IMEX)) mal_write(&w, "    - nvidia-imex\n");
  if (m->node->nics.value > 0 && d->has_fabric && d->leaf->kind == MAL_INFINIBAND) mal_write(&w, "    - openibd\n");
  mal_write(
      &w,
      "  disabled:\n    - unattended-upgrades\n    - irqbalance # interrupts stay on their own socket\n    - apport\n");
  mal_write(&w, "limits: {memlock: unlimited, nofile: 1048576}\ncpu_governor: performance\n"
                "acs: off # on every PCIe bridge, or GPUDirect goes through the processor\n");
  if (drives)
    mal_write(&w, "scratch: {devices: %.0f, raid: 0, mount: /scratch, file_system: xfs}\n", m->node->nvme_drives.value);
  mal_write(&w, "shared: {mount: /shared}\n");
  mal_write(&w,
            "order:\n"
            "  - BMCs by DHCP on the out-of-band network; firmware of BMC, BIOS, NICs and switches to one level\n"
            "  - %s: DHCP, TFTP, the image, Slurm's controller; a second one beside it\n"
            "  - switches: in-band, then out-of-band, then the fabric%s\n"
            "  - one node from the image; acceptance.sh node; then one rack, one scalable unit, all\n"
            "  - ibnetdiscover or LLDP against the cable list before any collective is timed\n"
            "  - acceptance.sh pair, unit, all; logs are kept: they are what later checks compare with\n",
            d->management_servers ? "management server mgmt01" : "this node",
            d->managers                                        ? ", with the subnet manager of UFM"
            : d->has_fabric && d->leaf->kind == MAL_INFINIBAND ? ", with its subnet manager"
                                                               : "");
  return w.text;
}

/* hosts(5): the name in-band, and out-of-band as name-bmc, by the same counting as the list of addresses. */
char *mal_kit_hosts(mal_arena *a, const mal_design *d) {
  mal_writing w = {.arena = a};
  int64_t inband = 0;
  mal_write(&w, "127.0.0.1 localhost\n");
  for (int64_t i = 0; i < d->hall.n_units; i++) {
    const mal_unit *u = &d->hall.units[i];
    bool computes = mal_design_has_inband(u->kind);
    if (computes) mal_write(&w, "%s %s\n", mal_design_address(a, d, MAL_ADDRESS_INBAND, -1, inband++), u->name);
    mal_write(&w, "%s %s%s\n", mal_design_address(a, d, MAL_ADDRESS_OOB, -1, i), u->name, computes ? "-bmc" : "");
  }
  return w.text;
}
