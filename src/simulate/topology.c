#include "simulate/topology.h"
#include "core/random.h"
#include "core/status.h"

const char *const mal_routing_name[MAL_ROUTINGS + 1] = {"adaptive", "ecmp", "dmodk", NULL};

/* Links in order: up[leaf][lane], down[leaf][lane], then core up[pod], core down[pod]. Adaptive: one lane. */
static int64_t lanes(const mal_switch_tree *t) { return t->routing == MAL_ROUTE_ADAPTIVE ? 1 : t->up; }
static int64_t pods(const mal_switch_tree *t) { return t->pod > 0 ? (t->leaves + t->pod - 1) / t->pod : 1; }
static bool has_core(const mal_switch_tree *t) { return t->core_up > 0 && pods(t) > 1; }

int32_t mal_topology_links(const mal_switch_tree *t) {
  return (int32_t)(2 * t->leaves * lanes(t) + (has_core(t) ? 2 * pods(t) : 0));
}

void mal_topology_capacity(const mal_switch_tree *t, double background, double *capacity) {
  int64_t n = lanes(t), half = t->leaves * n;
  double free = 1 - background, lane = t->port_rate * (double)t->up / (double)n * free;
  for (int64_t leaf = 0; leaf < t->leaves; leaf++)
    for (int64_t k = 0; k < n; k++) {
      double left = t->left ? t->left[leaf] : 1;
      if (n > 1 && left < 1) left = (double)k < (double)n * left ? 1 : 0; /* whole uplinks are gone */
      capacity[leaf * n + k] = capacity[half + leaf * n + k] = lane * left;
    }
  if (!has_core(t)) return;
  double core = (double)t->core_up * t->port_rate * (double)t->pod * free;
  for (int64_t p = 0; p < 2 * pods(t); p++) capacity[2 * half + p] = core;
}

/* ECMP goes round uplinks that are gone on either side: switches withdraw them. */
static int64_t lane_of(const mal_switch_tree *t, int64_t a, int64_t leaf_a, int64_t b, int64_t leaf_b) {
  int64_t n = lanes(t), usable = n;
  if (t->routing == MAL_ROUTE_ADAPTIVE) return 0;
  if (t->left) {
    double left = t->left[leaf_a] < t->left[leaf_b] ? t->left[leaf_a] : t->left[leaf_b];
    usable = (int64_t)((double)n * left + 0.999999);
    if (usable < 1) usable = 1;
  }
  if (t->routing == MAL_ROUTE_DMODK) return b % usable;
  return (int64_t)(mal_mix64(mal_mix64(t->seed ^ (uint64_t)a) ^ (uint64_t)b) % (uint64_t)usable);
}

int mal_topology_route(const mal_switch_tree *t, int64_t a, int64_t leaf_a, int64_t b, int64_t leaf_b,
                       int32_t links[MAL_ROUTE_MOST]) {
  if (leaf_a == leaf_b) return 0;
  int64_t n = lanes(t), half = t->leaves * n, lane = lane_of(t, a, leaf_a, b, leaf_b);
  int count = 0;
  links[count++] = (int32_t)(leaf_a * n + lane);
  if (has_core(t) && leaf_a / t->pod != leaf_b / t->pod) {
    links[count++] = (int32_t)(2 * half + leaf_a / t->pod);
    links[count++] = (int32_t)(2 * half + pods(t) + leaf_b / t->pod);
  }
  links[count++] = (int32_t)(half + leaf_b * n + lane);
  return count;
}

const char *mal_topology_link_name(const mal_switch_tree *t, mal_arena *a, int32_t link) {
  int64_t n = lanes(t), half = t->leaves * n;
  if (link >= 2 * half) {
    int64_t p = link - 2 * half;
    return p < pods(t) ? mal_print(a, _("pod %lld to core"), (long long)p)
                       : mal_print(a, _("core to pod %lld"), (long long)(p - pods(t)));
  }
  bool up = link < half;
  int64_t leaf = (up ? link : link - half) / n, lane = link % n;
  if (n == 1)
    return up ? mal_print(a, _("leaf %lld to spines"), (long long)leaf)
              : mal_print(a, _("spines to leaf %lld"), (long long)leaf);
  return up ? mal_print(a, _("leaf %lld to spine %lld"), (long long)leaf, (long long)lane)
            : mal_print(a, _("spine %lld to leaf %lld"), (long long)lane, (long long)leaf);
}
