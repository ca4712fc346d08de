/* Max-min fair sharing against allocations known by hand, collectives alone against price, routes on a fat tree. */
#include "price/collective.h"
#include "simulate/flows.h"
#include "simulate/topology.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>

static void assert_near(double x, double wanted, double share) {
  if (fabs(x - wanted) > share * fabs(wanted)) fail_msg("%.12g instead of %.12g", x, wanted);
}

/* The textbook's example: three links in a row; one flow over all, others over single links (Bertsekas and Gallager, 6.5.2). */
static void test_max_min(void **state) {
  (void)state;
  const double capacity[3] = {10, 4, 6};
  const mal_flow_use all[3] = {{0, 1}, {1, 1}, {2, 1}};
  mal_flows *f = mal_flows_new(3, capacity, 0);
  int32_t a = mal_flow_start(f, 0, 100, INFINITY, all, 3), b = mal_flow_start(f, 0, 100, INFINITY, all, 1);
  int32_t c = mal_flow_start(f, 0, 100, INFINITY, all + 1, 1), d = mal_flow_start(f, 0, 100, 1, all + 2, 1);
  assert_near(mal_flow_rate(f, a), 2, 1e-12); /* link 1 is full: 2 each */
  assert_near(mal_flow_rate(f, c), 2, 1e-12);
  assert_near(mal_flow_rate(f, b), 8, 1e-12); /* the rest of link 0 */
  assert_near(mal_flow_rate(f, d), 1, 1e-12); /* its own limit */
  double at;
  assert_int_equal(mal_flows_next(f, &at), b);
  assert_near(at, 100.0 / 8, 1e-12);
  mal_flows_capacity(f, at, 1, 10);
  assert_near(mal_flow_rate(f, a), 5, 1e-12);
  mal_flow_limit(f, at, c, 2);
  assert_near(mal_flow_rate(f, a), 5, 1e-12); /* link 2 gives 5 beside the flow of 1 */
  mal_flows_free(f);
}

/* At random: no link is overfull, and no flow could have more without taking from one that has no more than it. */
static void test_max_min_random(void **state) {
  enum { LINKS = 12, FLOWS = 40, ROUNDS = 60 };
  (void)state;
  srand(7);
  for (int round = 0; round < ROUNDS; round++) {
    double capacity[LINKS], used[LINKS] = {0}, most[LINKS] = {0};
    mal_flow_use uses[FLOWS][4];
    int count[FLOWS];
    int32_t id[FLOWS];
    for (int l = 0; l < LINKS; l++) capacity[l] = 1 + rand() % 100;
    mal_flows *f = mal_flows_new(LINKS, capacity, 0);
    for (int i = 0; i < FLOWS; i++) {
      count[i] = 1 + rand() % 4;
      for (int k = 0; k < count[i]; k++) uses[i][k] = (mal_flow_use){(rand() % 3) + 3 * k, 1};
      id[i] = mal_flow_start(f, 0, 1000, INFINITY, uses[i], count[i]);
    }
    for (int i = 0; i < FLOWS; i++)
      for (int k = 0; k < count[i]; k++) {
        double rate = mal_flow_rate(f, id[i]);
        used[uses[i][k].link] += rate;
        most[uses[i][k].link] = fmax(most[uses[i][k].link], rate);
      }
    for (int l = 0; l < LINKS; l++) assert_true(used[l] <= capacity[l] * (1 + 1e-9));
    for (int i = 0; i < FLOWS; i++) {
      bool bound = false;
      for (int k = 0; k < count[i]; k++) {
        int l = uses[i][k].link;
        bound |= used[l] > capacity[l] * (1 - 1e-9) && mal_flow_rate(f, id[i]) > most[l] * (1 - 1e-9);
      }
      assert_true(bound);
    }
    mal_flows_free(f);
  }
}

/* n flows over one link, one after the other smaller: the last ends when all bytes have passed. */
static void test_all_bytes_pass(void **state) {
  enum { FLOWS = 50 };
  (void)state;
  const double capacity = 8;
  const mal_flow_use use = {0, 1};
  mal_flows *f = mal_flows_new(1, &capacity, 0);
  double all = 0, at = 0;
  for (int i = 1; i <= FLOWS; i++) mal_flow_start(f, 0, i, INFINITY, &use, 1), all += i;
  for (int i = 0; i < FLOWS; i++) assert_true(!isinf(mal_flows_when(f)) && mal_flows_next(f, &at) == i);
  assert_near(at, all / capacity, 1e-12);
  assert_near(mal_link_bytes(f, 0, at), all, 1e-12);
  assert_near(mal_link_busy(f, 0), all / capacity, 1e-12);
  assert_true(isinf(mal_flows_when(f)) && mal_flows_running(f) == 0);
  mal_flows_free(f);
}

static void test_dead_link(void **state) {
  (void)state;
  const double capacity[2] = {0, 5};
  const mal_flow_use uses[2] = {{0, 1}, {1, 1}};
  mal_flows *f = mal_flows_new(2, capacity, 0);
  mal_flow_start(f, 0, 1, INFINITY, uses, 2);
  assert_true(isinf(mal_flows_when(f)));
  mal_flows_capacity(f, 3, 0, 1);
  assert_near(mal_flows_when(f), 4, 1e-12);
  mal_flows_free(f);
}

static void test_routes(void **state) {
  (void)state;
  int32_t links[MAL_ROUTE_MOST];
  double capacity[64];
  mal_switch_tree t = {.hosts = 64, .down = 8, .up = 4, .leaves = 8, .port_rate = 10, .routing = MAL_ROUTE_ADAPTIVE};
  assert_int_equal(mal_topology_route(&t, 1, 0, 2, 0, links), 0);
  assert_int_equal(mal_topology_route(&t, 1, 0, 60, 7, links), 2);
  mal_topology_capacity(&t, 0.5, capacity);
  assert_near(capacity[links[0]], 4 * 10 * 0.5, 1e-12); /* all uplinks as one pipe, half of it taken */
  t.routing = MAL_ROUTE_DMODK;
  assert_int_equal(mal_topology_links(&t), 2 * 8 * 4);
  assert_int_equal(mal_topology_route(&t, 1, 0, 60, 7, links), 2);
  assert_int_equal(links[0], 0 * 4 + 60 % 4);
  t.routing = MAL_ROUTE_ECMP;
  int seen[4] = {0};
  for (int b = 8; b < 64; b++) {
    mal_topology_route(&t, 1, 0, b, b / 8, links);
    seen[links[0]]++;
  }
  for (int k = 0; k < 4; k++) assert_true(seen[k] > 4); /* of 14 */
  t.pod = 2, t.core_up = 1, t.routing = MAL_ROUTE_ADAPTIVE;
  assert_int_equal(mal_topology_route(&t, 1, 0, 60, 7, links), 4);
  assert_int_equal(mal_topology_route(&t, 1, 0, 9, 1, links), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_max_min),   cmocka_unit_test(test_max_min_random), cmocka_unit_test(test_all_bytes_pass),
      cmocka_unit_test(test_dead_link), cmocka_unit_test(test_routes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
