/* Another node in the same racks, and a node that serves: against published sizes, and by what must hold whatever the nodes. */
#include "design/inference.h"
#include "design/refresh.h"
#include "test.h"
#include <math.h>

static mal_arena a;
static mal_error e;
static mal_design d;
static mal_refresh r;

static int setup(void **state) {
  (void)state;
  mal_arena_init(&a);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  mal_arena_free(&a);
  return 0;
}

static void make(const char *node, int64_t nodes) {
  mal_design_ask k;
  mal_design_ask_default(&k);
  k.node = node, k.nodes = nodes;
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
}

/* The same node again changes nothing: no cable moves. */
static void test_same_node(void **state) {
  (void)state;
  make("dgx-h100", 40);
  assert_ok(mal_design_refresh(&a, &d, "dgx-h100", &r, &e), e);
  assert_int_equal(r.after.nodes, 40);
  assert_int_equal(r.cables_kept, d.n_cables);
  assert_int_equal(r.cables_new, 0);
  assert_int_equal(r.cables_gone, 0);
  assert_true(r.nic_share == 1 && r.flops_before == r.flops_after);
  assert_true(fabs(r.after.peak.total_w - d.peak.total_w) < 1e-6);
}

/* A100 to H100 to B200: racks hold what room and circuits feed; HDR switches halve NDR adapters; every cable is counted once. */
static void test_generations(void **state) {
  (void)state;
  static const char *const nodes[] = {"dgx-a100", "dgx-h100", "dgx-b200"};
  for (int old = 0; old < 3; old++)
    for (int new = 0; new < 3; new ++) {
      make(nodes[old], 24);
      assert_ok(mal_design_refresh(&a, &d, nodes[new], &r, &e), e);
      assert_int_equal(r.cables_kept + r.cables_gone, d.n_cables);
      assert_int_equal(r.cables_kept + r.cables_new, r.after.n_cables);
      assert_true(r.after.nodes <= 24 && r.after.hall.node_racks <= d.hall.node_racks);
      assert_true(r.after.nodes == 24 || r.racks_for_all > d.hall.node_racks);
      for (int64_t i = 0; i < r.after.hall.n_racks; i++)
        assert_true(r.after.hall.racks[i].max_w <= r.after.site.rack_max_w + 1e-6);
      assert_true(r.nic_share == (old == 0 && new > 0 ? 0.5 : 1));
      if (new > old) assert_true(r.flops_after / r.after.training.total_w > r.flops_before / d.training.total_w);
    }
}

static void test_no_room(void **state) {
  (void)state;
  mal_design_ask k;
  mal_design_ask_default(&k);
  k.node = "dgx-a100", k.nodes = 1, k.single_node = true, k.site = "ordinary-rack";
  assert_ok(mal_design_make(&a, &k, &d, &e), e);
  mal_status s = mal_design_refresh(&a, &d, "gb200-nvl72", &r, &e);
  if (s != MAL_OK) assert_int_equal(s, MAL_NO);
  assert_fails(MAL_BAD, mal_design_refresh(&a, &d, "dgx-nothing", &r, &e), e, "dgx-nothing");
}

/* Kwon et al. 2023, section 3: "a single token of the 13B OPT model demands 800 KB"; 2,048 tokens "as much as 1.6 GB".
 * Llama-2-70B keeps 8 of 64 heads: 80 layers * 2 * 8 * 128 * 2 bytes = 320 KiB. DeepSeek-V2 (arXiv 2405.04434, section 2.1.4):
 * 4.5 head widths a layer, (512 + 64) * 2 bytes * 60. */
static void test_cache_published(void **state) {
  (void)state;
  static const struct {
    const char *model;
    double bytes;
  } rows[] = {{"opt-13b", 800 * 1024}, {"llama-2-70b", 320 * 1024}, {"deepseek-v2", 576 * 2 * 60}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mal_model m;
    assert_ok(mal_model_load(&a, rows[i].model, &m, &e), e);
    assert_true(mal_kv_token_bytes(&m, 1, 2048, 2) == rows[i].bytes);
  }
}

/* Eight ranks keep a head each; sixteen cannot halve it; MLA is on every rank; windows end what is kept. */
static void test_cache_split(void **state) {
  (void)state;
  mal_model m;
  assert_ok(mal_model_load(&a, "llama-3-70b", &m, &e), e);
  assert_true(mal_kv_token_bytes(&m, 8, 8192, 2) == mal_kv_token_bytes(&m, 1, 8192, 2) / 8);
  assert_true(mal_kv_token_bytes(&m, 16, 8192, 2) == mal_kv_token_bytes(&m, 8, 8192, 2));
  assert_ok(mal_model_load(&a, "deepseek-v3", &m, &e), e);
  assert_true(mal_kv_token_bytes(&m, 8, 8192, 2) == mal_kv_token_bytes(&m, 1, 8192, 2));
  assert_ok(mal_model_load(&a, "gemma-2-9b", &m, &e), e);
  assert_true(mal_kv_token_bytes(&m, 1, 65536, 2) < 0.6 * mal_kv_token_bytes(&m, 1, 4096, 2));
}

/* Weights and cache fill what a server takes, no more; a bound is above none of its parts; larger groups hold more. */
static void test_serving(void **state) {
  (void)state;
  static const char *const models[] = {"llama-3-8b", "llama-3-70b", "mixtral-8x7b", "deepseek-v3", "gpt2-xl"};
  static const char *const nodes[] = {"dgx-a100", "dgx-h100", "dgx-b200", "pcie-server"};
  mal_serving list[MAL_SERVING_MOST];
  int fitting = 0;
  for (int i = 0; i < 5; i++)
    for (int k = 0; k < 4; k++) {
      mal_model m;
      mal_machine machine;
      assert_ok(mal_model_load(&a, models[i], &m, &e), e);
      assert_ok(mal_machine_load(&a, nodes[k], &machine, &e), e);
      int64_t context = m.max_positions < 4096 ? m.max_positions : 4096;
      int n = mal_serving_list(&machine, &m, context, list);
      assert_true(n >= 1);
      for (int j = 0; j < n; j++) {
        const mal_serving *s = &list[j];
        double memory = machine.gpu->memory_bytes.value, gpus = (double)s->tp;
        if (!s->fits) continue;
        fitting++;
        assert_true((s->weight_bytes + (double)s->tokens / gpus * s->kv_token_bytes * gpus) <=
                    mal_serving_share * memory * 1.0001);
        assert_true(s->one_tokens_per_s <= s->most_tokens_per_s);
        double peak = machine.gpu->flops[s->type].value * gpus;
        assert_true(s->most_tokens_per_s * 2 * 0.9 * (double)m.active_parameters < peak * 1.3);
        assert_true(s->prefill_tokens_per_s > s->one_tokens_per_s);
        if (j > 0 && list[j - 1].type == s->type && list[j - 1].fits) {
          assert_true(s->tokens >= list[j - 1].tokens);
          assert_true(s->most_tokens_per_s >= list[j - 1].most_tokens_per_s);
        }
      }
    }
  assert_true(fitting > 40);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_same_node, setup, teardown),
      cmocka_unit_test_setup_teardown(test_generations, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_room, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cache_published, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cache_split, setup, teardown),
      cmocka_unit_test_setup_teardown(test_serving, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
