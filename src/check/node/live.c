/* The live node, and its watching under load. */
#include "check/node/health.h"
#include "core/units.h"
#include <sched.h>
#include <string.h>

/* CPUs that this process may run on, against those near the GPUs: a container's CPU set may leave them out. */
static void judge_cpus(mal_health *h) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  for (int i = 0; i < h->topology.n_devices; i++) {
    const mal_part *d = &h->topology.devices[i];
    const char *list = d->kind == MAL_PART_GPU ? mal_fact_text(d, MAL_F_CPUS) : NULL;
    int near = 0, first, last, used;
    for (const char *at = list; at && *at && sscanf(at, "%d%n", &first, &used) == 1; at += *at == ',') {
      at += used;
      last = first;
      if (*at == '-' && sscanf(at + 1, "%d%n", &last, &used) == 1) at += used + 1;
      for (int c = first; c <= last && c < CPU_SETSIZE; c++) near += CPU_ISSET(c, &set) != 0;
    }
    if (list) h->judged[MAL_RULE_AFFINITY] = true;
    if (list && !near)
      mal_find(h, MAL_RULE_AFFINITY, MAL_SEV_ERROR, mal_part_label(h->arena, d), d->fact[MAL_F_CPUS].from,
               mal_print(h->arena, _("none of its near CPUs (%s) is allowed to this process"), list),
               _("a CPU set of the container or of Slurm on another NUMA node"),
               _("bind the job to the cores near its GPUs"));
  }
}

mal_status mal_health_live(mal_health *h, mal_error *e) {
  mal_status s = mal_topology_live(&h->topology, e);
  if (s != MAL_OK) return s;
  h->has_topology = h->live = true;
  mal_topology_derive(&h->topology);
  judge_cpus(h);
  h->inputs = MAL_ARRAY(h->arena, const char *, 1);
  h->inputs[h->n_inputs++] = _("this machine (hwloc, /sys and NVML)");
  return MAL_OK;
}

enum { WATCHED = 512 };

typedef struct seen {                                  /* of one device */
  double clock_least, temp_most, power_most, util_sum; /* clock_least: of the samples in which it worked */
  int links_up;
  double replays, link_errors;
  unsigned bits;
  double counters[4];
} seen;

struct mal_watch {
  int samples;
  seen of[WATCHED];
};

static int links_up(const mal_part *d) {
  int n = 0;
  for (int i = 0; i < d->n_links; i++) n += d->links[i].active == 1;
  return n;
}

static const double works = 0.5; /* of the time, by the driver's count */

static const char *const watched_counters[] = {"symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors"};

static double link_errors(const mal_part *d) {
  double sum = 0;
  for (int i = 0; i < d->n_links; i++) sum += d->links[i].errors > 0 ? d->links[i].errors : 0;
  return sum;
}

mal_watch *mal_watch_begin(mal_health *h) {
  mal_watch *w = MAL_NEW(h->arena, mal_watch);
  mal_topology_refresh(&h->topology);
  for (int i = 0; i < h->topology.n_devices && i < WATCHED; i++) {
    const mal_part *d = &h->topology.devices[i];
    w->of[i].replays = mal_fact_number(d, MAL_F_REPLAYS, 0);
    w->of[i].link_errors = link_errors(d);
    w->of[i].links_up = links_up(d);
    for (int k = 0; k < 4; k++) w->of[i].counters[k] = mal_counter_of(d, watched_counters[k], 0);
  }
  return w;
}

void mal_watch_sample(mal_health *h, mal_watch *w) {
  mal_topology_refresh(&h->topology);
  w->samples++;
  for (int i = 0; i < h->topology.n_devices && i < WATCHED; i++) {
    const mal_part *d = &h->topology.devices[i];
    seen *s = &w->of[i];
    if (d->kind != MAL_PART_GPU) continue;
    double clock = mal_fact_number(d, MAL_F_SM_CLOCK, 0), temp = mal_fact_number(d, MAL_F_TEMP, 0),
           power = mal_fact_number(d, MAL_F_POWER, 0);
    if (mal_fact_number(d, MAL_F_UTIL, 0) > works && (s->clock_least == 0 || clock < s->clock_least))
      s->clock_least = clock;
    if (temp > s->temp_most) s->temp_most = temp;
    if (power > s->power_most) s->power_most = power;
    s->util_sum += mal_fact_number(d, MAL_F_UTIL, 0);
    s->bits |= (unsigned)mal_fact_number(d, MAL_F_THROTTLE, 0);
  }
}

static void grown(mal_health *h, mal_rule rule, const mal_part *d, const char *what, double before, double after,
                  const char *cause, const char *todo) {
  h->judged[rule] = true;
  if (after > before)
    mal_find(h, rule, MAL_SEV_ERROR, mal_part_label(h->arena, d), d->from,
             mal_print(h->arena, _("%s grew by %.0f while watched"), what, after - before), cause, todo);
}

void mal_watch_end(mal_health *h, mal_watch *w) {
  const mal_evidence watched = {_("watched"), 0};
  int gpus = 0, loaded = 0;
  for (int i = 0; i < h->topology.n_devices && i < WATCHED && w->samples; i++) {
    mal_part *d = &h->topology.devices[i];
    const seen *s = &w->of[i];
    if (d->kind == MAL_PART_GPU) { /* the worst that was seen is what the rules judge */
      mal_know(d, MAL_F_TEMP, s->temp_most, watched);
      mal_know(d, MAL_F_POWER, s->power_most, watched);
      mal_know(d, MAL_F_THROTTLE, s->bits & ~(unsigned)MAL_SLOW_IDLE, watched);
      mal_know(d, MAL_F_UTIL, s->util_sum / w->samples, watched);
      if (s->util_sum / w->samples > works && s->clock_least > 0) mal_know(d, MAL_F_SM_CLOCK, s->clock_least, watched);
      loaded += s->util_sum / w->samples > works;
      gpus++;
      if (links_up(d) < s->links_up)
        mal_find(h, MAL_RULE_NVLINK_LINKS, MAL_SEV_ERROR, mal_part_label(h->arena, d), watched,
                 mal_print(h->arena, _("%d NVLinks went down while watched"), s->links_up - links_up(d)),
                 _("a link that does not hold: connector, bridge or GPU"),
                 _("look at the kernel log (XID 74, SXid); reset the GPU; call for service"))
            ->damage.nvlink = s->links_up ? (double)links_up(d) / s->links_up : 1;
      if (mal_known(d, MAL_F_REPLAYS))
        grown(h, MAL_RULE_PCIE_LINK, d, _("PCIe replays"), s->replays, mal_fact_number(d, MAL_F_REPLAYS, 0),
              _("a PCIe link with a bad signal"), _("reseat the card or its riser"));
      if (d->n_links)
        grown(h, MAL_RULE_NVLINK_ERRORS, d, _("NVLink errors"), s->link_errors, link_errors(d),
              _("an NVLink with a bad signal"), _("reset the GPU; reseat; call for service"));
    }
    for (int k = 0; d->kind == MAL_PART_NIC && k < 4; k++)
      if (mal_counter_of(d, watched_counters[k], -1) >= 0)
        grown(h, MAL_RULE_PORT_ERRORS, d, watched_counters[k], s->counters[k],
              mal_counter_of(d, watched_counters[k], 0), _("a bad cable, dirty fibre or failing transceiver"),
              _("swap cable and transceiver"));
  }
  if (gpus && loaded < gpus)
    mal_find(h, MAL_RULE_THROTTLING, MAL_SEV_NOTE, "", watched,
             mal_print(h->arena, _("%d of %d GPUs had work while watched: only their clocks are judged under load"),
                       loaded, gpus),
             _("no job ran on the others"), _("start the job, or a stress test, and watch again"));
}
