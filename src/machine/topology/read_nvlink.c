/* nvidia-smi nvlink --status ("Link 3: 25 GB/s", "Link 3: <inactive>", "Unable to retrieve NVLink information as all links are inActive") and -e ("Link 3: Replay Errors: 0"). */
#include "machine/topology/read.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int gpu_line(mal_topology *t, const char *line, mal_evidence from) {
  int index, used = 0;
  if (sscanf(line, " GPU %d:%n", &index, &used) != 1 || !used || index < 0 || index > 255) return -1;
  mal_part *d = mal_part_at(t, MAL_PART_GPU, index, -1, from);
  if (!d) return -1;
  const char *name = line + used, *uuid = strstr(name, "(UUID:");
  char *product = mal_trimmed(t->arena, name, uuid ? (size_t)(uuid - name) : strlen(name));
  if (*product) mal_know_text(t, d, MAL_F_PRODUCT, product, from);
  const char *id = uuid ? mal_after(uuid, "(UUID:") : NULL;
  if (id && mal_starts(id, "GPU-")) mal_know_text(t, d, MAL_F_UUID, mal_trimmed(t->arena, id, strcspn(id, ")")), from);
  return (int)(d - t->devices);
}

static bool link_line(mal_topology *t, int gpu, const char *line, mal_evidence from) {
  int link, used = 0;
  if (sscanf(line, " Link %d:%n", &link, &used) != 1 || !used) return false;
  mal_nvlink *l = mal_nvlink_at(t, &t->devices[gpu], link);
  if (!l) return false;
  const char *rest = line + used;
  double number;
  const char *errors = strstr(rest, "Errors:");
  l->from = from;
  if (strstr(rest, "inactive") || strstr(rest, "Inactive")) {
    l->active = 0;
  } else if (errors && mal_number_at(errors + strlen("Errors:"), &number)) {
    l->errors = (l->errors < 0 ? 0 : l->errors) + number;
  } else if (mal_number_at(rest, &number) && strstr(rest, "GB/s")) {
    l->active = number > 0;
    l->bytes_per_s = number * 1e9;
  } else {
    return false;
  }
  return true;
}

bool mal_read_nvlink(mal_topology *t, const mal_paste *p, int *broken) {
  mal_lines l = mal_lines_of(p);
  int gpu = -1, links = 0;
  (void)broken;
  while (mal_lines_next(&l)) {
    mal_evidence from = {p->file, l.number};
    if (l.length > 512) continue;
    if (gpu >= 0 && link_line(t, gpu, l.line, from)) {
      links++;
      continue;
    }
    if (gpu >= 0 && strstr(l.line, "Unable to retrieve NVLink information") &&
        (strstr(l.line, "inActive") || strstr(l.line, "inactive"))) {
      mal_nvlink *first = mal_nvlink_at(t, &t->devices[gpu], 0); /* how many there are is not said */
      *first = (mal_nvlink){.active = 0, .errors = -1, .from = from};
      links++;
      continue;
    }
    int found = strstr(l.line, "GPU ") ? gpu_line(t, l.line, from) : -1;
    if (found >= 0) gpu = found;
  }
  mal_lines_end(&l);
  return links > 0;
}
