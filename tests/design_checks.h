/* What must hold for every design. */
#ifndef MAL_TEST_DESIGN_CHECKS_H
#define MAL_TEST_DESIGN_CHECKS_H
#include "design/design.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>

/* Power adds up through every level, each unit stands in one rack, each cable joins two ports that nothing else uses. */
static inline void check_conservation(const mal_design *d) {
  double racks = 0, units = 0;
  int64_t placed = 0;
  for (int64_t i = 0; i < d->hall.n_units; i++) units += d->hall.units[i].max_w;
  for (int64_t i = 0; i < d->hall.n_racks; i++) {
    const mal_rack *r = &d->hall.racks[i];
    racks += r->max_w, placed += r->count;
    double used = 0;
    for (int64_t k = 0; k < r->count; k++) {
      const mal_unit *u = &d->hall.units[d->hall.order[r->first + k]];
      assert_int_equal(u->rack, i);
      used += ceil(u->ru);
      assert_true((double)u->bottom_u + u->ru - 1 <= (double)d->site.rack_ru);
    }
    assert_true(used <= (double)d->site.rack_ru);
  }
  assert_int_equal(placed, d->hall.n_units);
  const mal_power_sum *p = &d->peak;
  assert_true(fabs(racks - units) < 1 && fabs(units - p->total_w) < 1);
  assert_true(fabs(p->nodes_w + p->switches_w + p->storage_w + p->management_w - p->total_w) < 1);
  assert_true(d->idle.total_w <= d->training.total_w && d->training.total_w <= p->total_w);
  for (int64_t i = 0; i < d->n_cables; i++) {
    assert_in_range(d->cables[i].from, 0, d->hall.n_units - 1);
    assert_in_range(d->cables[i].to, 0, d->hall.n_units - 1);
    assert_true(d->cables[i].from != d->cables[i].to && d->cables[i].length_m >= d->cables[i].route_m);
  }
}

static inline int by_text(const void *x, const void *y) { return strcmp(*(char *const *)x, *(char *const *)y); }

static inline void check_ports_once(mal_arena *a, const mal_design *d) {
  char **ends = MAL_ARRAY(a, char *, 2 * d->n_cables);
  for (int64_t i = 0; i < d->n_cables; i++) {
    const mal_cable *c = &d->cables[i];
    ends[2 * i] = mal_print(a, "%lld %s", (long long)c->from, c->from_port);
    ends[2 * i + 1] = mal_print(a, "%lld %s", (long long)c->to, c->to_port);
  }
  qsort(ends, (size_t)(2 * d->n_cables), sizeof *ends, by_text);
  for (int64_t i = 1; i < 2 * d->n_cables; i++)
    if (strcmp(ends[i - 1], ends[i]) == 0) fail_msg("port %s is used twice", ends[i]);
}
#endif
