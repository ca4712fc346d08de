#include "layout/placement.h"
#include <stdlib.h>
#include <string.h>

enum { CPUS_MAX = 8192 };

static int expand(const char *list, int *cpus, int *shortest) {
  int n = 0;
  *shortest = CPUS_MAX;
  for (const char *at = list; *at;) {
    char *end;
    long first = strtol(at, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
    for (long c = first; c <= last && n < CPUS_MAX; c++) cpus[n++] = (int)c;
    if (last - first + 1 < *shortest) *shortest = (int)(last - first + 1);
    if (*end != ',') break;
    at = end + 1;
  }
  return n;
}

static void put_run(mal_writing *w, long from, long to) {
  mal_write(w, to > from ? "%s%ld-%ld" : "%s%ld", w->used ? "," : "", from, to);
}

/* Part `which` of `parts` of a CPU list. Of long runs each gives its share, so that a core's threads, which are in different runs,
 * stay together. With fewer CPUs than parts all share all. */
static const char *share_of(mal_arena *a, const char *list, int which, int parts) {
  mal_writing w = {.arena = a};
  int *cpus = MAL_ARRAY(a, int, CPUS_MAX), shortest, n = expand(list, cpus, &shortest);
  if (parts < 1 || n < parts) return list;
  int runs = shortest >= parts ? 0 : 1; /* 0: by runs; 1: by position */
  for (int first = 0, last; first < n; first = last + 1) {
    for (last = first; last + 1 < n && cpus[last + 1] == cpus[last] + 1; last++) continue;
    long length = last - first + 1, from = length * which / parts, to = length * (which + 1) / parts - 1;
    if (!runs && to >= from) put_run(&w, cpus[first] + from, cpus[first] + to);
  }
  for (int i = n * which / parts; runs && i < n * (which + 1) / parts; i++) put_run(&w, cpus[i], cpus[i]);
  return w.text ? w.text : list;
}

static void share_cores(mal_arena *a, mal_rank_place *places, int n) {
  for (int i = 0; i < n; i++) {
    const char *list = mal_fact_text(places[i].gpu, MAL_F_CPUS);
    int before = 0, with = 0;
    if (!list || !mal_cpus_count(list)) continue;
    for (int j = 0; j < n; j++) {
      const char *other = mal_fact_text(places[j].gpu, MAL_F_CPUS);
      if (!other || strcmp(other, list) != 0) continue;
      with++;
      before += j < i;
    }
    places[i].cpus = share_of(a, list, before, with);
  }
}

/* The nearest NIC; of those equally near the one with the fewest GPUs so far. */
static int choose(const mal_topology *t, const mal_part *gpu, mal_part *const *nics, int n, const int *load,
                  mal_path *path) {
  int best = -1;
  *path = MAL_PATH_UNKNOWN;
  for (int i = 0; i < n; i++) {
    mal_path p = mal_path_between(t, gpu, nics[i]);
    if (p == MAL_PATH_UNKNOWN) continue;
    if (best < 0 || p < *path || (p == *path && load[i] < load[best])) best = i, *path = p;
  }
  return best;
}

/* A NIC that no GPU chose goes to the nearest GPU, at no greater distance than that GPU's own. */
static void give_away(const mal_topology *t, const mal_part *nic, mal_rank_place *places, int n) {
  mal_rank_place *to = NULL;
  for (int i = 0; i < n; i++) {
    mal_path path = mal_path_between(t, places[i].gpu, nic);
    if (path == MAL_PATH_UNKNOWN || path != places[i].nic_path || places[i].n_nics == MAL_PLACE_NICS) continue;
    if (!to || path < to->nic_path || (path == to->nic_path && places[i].n_nics < to->n_nics)) to = &places[i];
  }
  if (to) to->nics[to->n_nics++] = nic;
}

int mal_place_ranks(mal_arena *a, const mal_topology *t, mal_rank_place *places, int max) {
  mal_part *gpus[256], *nics[256];
  int load[256] = {0}, n = mal_parts_of(t, MAL_PART_GPU, gpus, max < 256 ? max : 256);
  int rails = mal_topology_rails(t, nics, 256);
  for (int i = 0; i < n; i++) {
    mal_rank_place *p = &places[i];
    *p = (mal_rank_place){.rank = i, .gpu = gpus[i], .numa = (int)mal_fact_number(gpus[i], MAL_F_NUMA, -1)};
    int nic = choose(t, gpus[i], nics, rails, load, &p->nic_path);
    if (nic < 0) continue;
    p->nics[p->n_nics++] = nics[nic];
    load[nic]++;
  }
  for (int r = 0; r < rails; r++)
    if (!load[r]) give_away(t, nics[r], places, n);
  share_cores(a, places, n);
  return n;
}

const char *mal_place_nics(mal_arena *a, const mal_rank_place *p) {
  mal_writing w = {.arena = a};
  for (int i = 0; i < p->n_nics; i++) mal_write(&w, "%s%s", i ? "," : "", mal_part_label(a, p->nics[i]));
  return w.text;
}

static void ride(mal_arena *a, const mal_topology *t, mal_part *const *gpus, int n, mal_ride *r) {
  mal_writing ranks = {.arena = a};
  const mal_wire *thinnest = NULL;
  r->here = 0;
  for (int64_t i = 0; i < r->size && i * r->stride < n; i++) r->here++;
  r->crosses = r->here < r->size;
  r->worst = r->here > 1 ? MAL_PATH_SELF : MAL_PATH_UNKNOWN;
  for (int i = 0; i < r->here; i++) {
    for (int j = 0; j < i && r->worst != MAL_PATH_UNKNOWN; j++) {
      const mal_wire *w = mal_find_wire(t, gpus[i * r->stride], gpus[j * r->stride]);
      mal_path path = w ? w->path : MAL_PATH_UNKNOWN;
      bool thinner = path == MAL_PATH_NVLINK && r->worst == path && w->nvlinks < thinnest->nvlinks;
      if (path == MAL_PATH_UNKNOWN || path > r->worst || thinner) r->worst = path, thinnest = w;
    }
  }
  r->nvlinks = thinnest ? thinnest->nvlinks : 0;
  r->shown = thinnest ? mal_path_show(a, thinnest) : mal_path_name[MAL_PATH_UNKNOWN];
  if (r->stride == 1 && r->here > 2)
    mal_write(&ranks, "0-%d", r->here - 1);
  else
    for (int i = 0; i < r->here && i < 16; i++) mal_write(&ranks, "%s%lld", i ? "," : "", (long long)(i * r->stride));
  r->ranks = ranks.text;
}

int mal_layout_rides(mal_arena *a, const mal_topology *t, const mal_layout *l, mal_ride *rides) {
  mal_part *gpus[256];
  int n = mal_parts_of(t, MAL_PART_GPU, gpus, 256), count = 0;
  int64_t stride = 1;
  const struct {
    const char *axis;
    int64_t size;
  } axes[] = {{"tp", l->tp}, {"cp", l->cp}, {"dp", l->dp > 0 ? l->dp : 1}, {"pp", l->pp}};
  for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
    if (axes[i].size > 1) {
      rides[count] = (mal_ride){.axis = axes[i].axis, .size = axes[i].size, .stride = stride};
      ride(a, t, gpus, n, &rides[count++]);
    }
    stride *= axes[i].size;
  }
  if (l->ep > 1) {
    rides[count] = (mal_ride){.axis = "ep", .size = l->ep, .stride = l->etp > 0 ? l->etp : 1};
    ride(a, t, gpus, n, &rides[count++]);
  }
  return count;
}
