/* Parameter counts to the last one, against published numbers and closed forms worked out apart from the reader. */
#include "core/catalog.h"
#include "model/model.h"
#include "test.h"
#include <math.h>

static mal_arena arena;

static mal_model load(const char *spec) {
  mal_model m;
  mal_error e;
  assert_ok(mal_model_load(&arena, spec, &m, &e), e);
  return m;
}

static mal_model parse(const char *text) {
  mal_model m;
  mal_error e;
  assert_ok(mal_model_parse_config(&arena, "config.json", text, strlen(text), &m, &e), e);
  return m;
}

/* Published totals, without multi-token-prediction modules.
 * K: "params" in the presets of keras-team/keras-hub, which counts its own loaded models.
 * H: safetensors.total of the Hugging Face API. T: as transformers reports the loaded checkpoint. */
static const struct {
  const char *name;
  int64_t parameters;
  const char *source;
} published[] = {
    {"gpt2", 124439808, "K gpt2_base_en"},
    {"gpt2-medium", 354823168, "K gpt2_medium_en"},
    {"gpt2-large", 774030080, "K gpt2_large_en"},
    {"gpt2-xl", 1557611200, "K gpt2_extra_large_en"},
    {"llama-2-7b", 6738415616, "K llama2_7b_en"},
    {"llama-2-13b", 13015866880 - 40 * 64, "H meta-llama/Llama-2-13b-hf, less its rotary inv_freq buffers"},
    {"llama-2-70b", 68976653312 - 80 * 64, "H meta-llama/Llama-2-70b-hf, less its rotary inv_freq buffers"},
    {"llama-3-8b", 8030261248, "K llama3_8b_en"},
    {"llama-3.1-8b", 8030261248, "H meta-llama/Llama-3.1-8B"},
    {"llama-3.1-70b", 70553706496, "H meta-llama/Llama-3.1-70B"},
    {"llama-3.1-405b", 405853388800, "H meta-llama/Llama-3.1-405B"},
    {"llama-3.2-1b", 1235814400, "T meta-llama/Llama-3.2-1B"},
    {"llama-3.2-3b", 3212749824, "T meta-llama/Llama-3.2-3B"},
    {"tinyllama-1.1b", 1100048384, "T TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T"},
    {"mistral-7b", 7241732096, "K mistral_7b_en"},
    {"mistral-nemo-12b", 12247782400, "T mistralai/Mistral-Nemo-Instruct-2407"},
    {"mixtral-8x7b", 46702792704, "K mixtral_8_7b_en"},
    {"mixtral-8x22b", 140620634112, "H mistral-community/Mixtral-8x22B-v0.1"},
    {"qwen2.5-0.5b", 494032768, "K qwen2.5_0.5b_en"},
    {"qwen2.5-7b", 7615616512, "K qwen2.5_math_7b_en"},
    {"qwen2.5-72b", 72706203648, "K qwen2.5_instruct_72b_en"},
    {"qwen1.5-moe-a2.7b", 14315784192, "K qwen1.5_moe_2.7b_en"},
    {"qwen2-57b-a14b", 57408658944, "H Qwen/Qwen2-57B-A14B"},
    {"qwen3-0.6b", 596049920, "K qwen3_0.6b_en"},
    {"qwen3-8b", 8190735360, "K qwen3_8b_en"},
    {"qwen3-30b-a3b", 30532122624, "K qwen3_moe_30b_a3b_en"},
    {"qwen3-235b-a22b", 235093634560, "K qwen3_moe_235b_a22b_en"},
    {"gpt-oss-120b", 116829156672, "arXiv:2508.10925 Table 1, 116.83 billion"},
    {"gemma-2b", 2506172416, "K gemma_2b_en"},
    {"gemma-7b", 8537680896, "K gemma_7b_en"},
    {"gemma-2-9b", 9241705984, "K gemma2_9b_en"},
    {"gemma-2-27b", 27227128320, "K gemma2_27b_en"},
    {"gemma-3-1b", 999885952, "K gemma3_1b"},
    {"gemma-3-27b", 27009002240 + 64 * 5376, "K gemma3_27b_text, with the 64 spare rows of embedding it drops"},
    {"phi-3-mini", 3821079552, "K phi3_mini_4k_instruct_en"},
    {"gpt-neox-20b", 20554567680, "model card of EleutherAI/gpt-neox-20b"},
    {"pythia-70m", 18915328 + 2 * 50304 * 512, "arXiv:2304.01373 Table 1, and two tables of 50304 rows"},
    {"pythia-1.4b", 1208602624 + INT64_C(2) * 50304 * 2048, "the same"},
    {"pythia-6.9b", 6444163072 + INT64_C(2) * 50432 * 4096, "the same, 50432 rows"},
    {"pythia-12b", 11327027200 + INT64_C(2) * 50688 * 5120, "the same, 50688 rows"},
    {"gpt-j-6b", 6050882784, "T EleutherAI/gpt-j-6b"},
    {"opt-125m", 125239296, "T facebook/opt-125m"},
    {"opt-350m", 331196416, "T facebook/opt-350m"},
    {"bloom-560m", 559214592, "K bloom_560m_multi"},
    {"bloom-3b", 3002557440, "K bloom_3b_multi"},
    {"bloom-176b", 176247271424, "huggingface.co/docs/safetensors/metadata_parsing"},
    {"falcon-180b", 179522565120, "H tiiuae/falcon-180B"},
    {"olmo2-7b", 7298617344, "H allenai/OLMo-2-1124-7B"},
    {"olmo2-13b", 13716198400, "H allenai/OLMo-2-1124-13B"},
    {"deepseek-v2-lite", 15706484224, "H deepseek-ai/DeepSeek-V2-Lite"},
    {"deepseek-v2", 235741434880, "H deepseek-ai/DeepSeek-V2"},
    {"deepseek-v3", 671026419200, "H microsoft/MAI-DS-R1: the same shape in BF16, without the MTP module"},
};

static void test_published(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(published) / sizeof(*published); i++) {
    mal_model m = load(published[i].name);
    int64_t counted = m.parameters - m.mtp_parameters;
    if (counted != published[i].parameters)
      fail_msg("%s has %lld parameters, published are %lld (%s)", published[i].name, (long long)counted,
               (long long)published[i].parameters, published[i].source);
    assert_int_equal(m.published_parameters, published[i].parameters);
  }
}

/* Counts published with fewer digits: |counted - published| is at most half a unit of the last. */
static const struct {
  const char *name;
  double billions, unit;
} rounded[] = {
    /* Narayanan et al. 2021, arXiv:2104.04473, Table 1 */
    {"gpt3-1.7b", 1.7, 0.1},     {"gpt3-3.6b", 3.6, 0.1},  {"gpt3-7.5b", 7.5, 0.1},   {"gpt3-18b", 18.4, 0.1},
    {"gpt3-39b", 39.1, 0.1},     {"gpt3-76b", 76.1, 0.1},  {"gpt3-145b", 145.6, 0.1}, {"gpt3-310b", 310.1, 0.1},
    {"gpt3-530b", 529.6, 0.1},   {"gpt3-1t", 1008.0, 0.1}, {"gpt3-22b", 22, 1}, /* Korthikanti et al. 2022, arXiv:2205.05198, Table 3 */
    {"gpt3-175b", 174.6, 0.1},   /* Brown et al. 2020, arXiv:2005.14165, Table D.1 */
    {"llama-33b", 32.5, 0.1},    /* Touvron et al. 2023, arXiv:2302.13971, Table 2 */
    {"nemotron-4-340b", 341, 1}, /* arXiv:2406.11704, Table 1: 9.4 + 331.6 */
};

static void test_rounded(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(rounded) / sizeof(*rounded); i++) {
    mal_model m = load(rounded[i].name);
    double billions = (double)m.parameters / 1e9;
    if (fabs(billions - rounded[i].billions) > rounded[i].unit / 2 + 1e-9)
      fail_msg("%s has %.3f billion parameters, published are %g", rounded[i].name, billions, rounded[i].billions);
  }
}

static int64_t recount(const mal_weight *list, int n) {
  int64_t total = 0;
  for (int i = 0; i < n; i++) {
    assert_true(list[i].rank >= 1 && list[i].rank <= 3 && list[i].copies >= 1);
    for (int d = list[i].rank; d < 3; d++) assert_int_equal(list[i].shape[d], 1);
    assert_int_equal(list[i].decay, list[i].rank > 1);
    assert_true((strstr(list[i].name, "{e}") != NULL) == (list[i].copies > 1));
    total += list[i].shape[0] * list[i].shape[1] * list[i].shape[2] * list[i].copies;
  }
  return total;
}

static void test_whole_catalogue(void **state) {
  (void)state;
  mal_error e;
  char **names;
  size_t count;
  assert_ok(mal_catalog_list(&arena, "models", ".json", &names, &count, &e), e);
  assert_true(count >= 100);
  for (size_t i = 0; i < count; i++) {
    mal_model m = load(names[i]);
    assert_string_equal(m.name, names[i]);
    assert_true(*m.source);
    if (m.published_parameters) {
      assert_int_equal(m.parameters - m.mtp_parameters, m.published_parameters);
      assert_true(*m.published_source);
    }
    int64_t total = recount(m.weights, m.n_weights), active = 0;
    for (int64_t l = 0; l < m.layers; l++) {
      assert_true(m.kind_of[l] < m.n_kinds);
      const mal_layer_kind *k = &m.kinds[m.kind_of[l]];
      total += recount(k->weights, k->n_weights);
      active += k->active_parameters;
      assert_int_equal(k->parameters, recount(k->weights, k->n_weights));
      assert_int_equal(k->heads % k->kv_heads, 0);
    }
    total += m.mtp_layers * m.kinds[m.n_kinds - 1].parameters;
    assert_int_equal(m.parameters, total);
    assert_true(m.active_parameters >= active && m.active_parameters <= m.parameters);
  }
}

/* h: width, L: layers, V: vocabulary, P: positions, f: MLP width, g: key/value width. */
static void test_closed_forms(void **state) {
  (void)state;
  int64_t h = 1600, L = 48, V = 50257, P = 1024;
  assert_int_equal(load("gpt2-xl").parameters, L * (12 * h * h + 13 * h) + V * h + P * h + 2 * h);
  h = 8192, L = 80, V = 128256;
  int64_t f = 28672, g = 1024;
  assert_int_equal(load("llama-3-70b").parameters, L * (2 * h * h + 2 * h * g + 3 * h * f + 2 * h) + 2 * V * h + h);
  h = 4544, L = 32, V = 65024, g = 64;
  assert_int_equal(load("falcon-7b").parameters, L * (10 * h * h + 2 * h * g + 2 * h) + V * h + 2 * h);
  h = 8192, L = 60, g = 8 * 64;
  assert_int_equal(load("falcon-40b").parameters, L * (10 * h * h + 2 * h * g + 4 * h) + V * h + 2 * h);
  h = 4096, L = 32, V = 50432;
  assert_int_equal(load("mpt-7b").parameters, L * (12 * h * h + 2 * h) + V * h + h);
  h = 14336, L = 70, V = 250880;
  assert_int_equal(load("bloom-176b").parameters, L * (12 * h * h + 13 * h) + V * h + 4 * h);
  h = 8192, L = 40, V = 256000, f = 22528;
  assert_int_equal(load("command-r").parameters, L * (4 * h * h + 3 * h * f + h) + V * h + h);
  h = 3072, L = 30, V = 49152, f = 12288, g = 256;
  assert_int_equal(load("starcoder2-3b").parameters,
                   L * (2 * h * h + 2 * h * g + 2 * h * f + 2 * h + 2 * g + f + h + 4 * h) + V * h + 2 * h);
}

static void test_active(void **state) {
  (void)state;
  mal_model m = load("mixtral-8x7b");
  assert_int_equal(m.active_parameters, m.parameters - INT64_C(32) * 6 * 3 * 4096 * 14336);
  assert_int_equal(m.active_parameters, 12879925248);
  assert_int_equal(load("llama-3-8b").active_parameters, 8030261248);
  /* arXiv:2505.09388 Table 2: 22B; arXiv:2405.04434: 21B; arXiv:2412.19437: 37B */
  assert_int_equal(load("qwen3-235b-a22b").active_parameters / 1000000000, 22);
  assert_int_equal(load("deepseek-v2").active_parameters / 1000000000, 21);
  assert_int_equal(load("deepseek-v3").active_parameters / 1000000000, 37);
}

/* H deepseek-ai/DeepSeek-R1 counts the module with its copies of embedding and head: 684489845504. */
static void test_mtp(void **state) {
  (void)state;
  mal_model m = load("deepseek-v3");
  assert_int_equal(m.mtp_layers, 1);
  assert_int_equal(m.parameters + 2 * m.vocab * m.hidden, 684489845504);
  assert_int_equal(m.n_kinds, 2);
  assert_int_equal(m.kinds[m.kind_of[2]].mlp, MAL_MLP_DENSE);
  assert_int_equal(m.kinds[m.kind_of[3]].mlp, MAL_MLP_MOE);
  assert_int_equal(m.kinds[1].mlp, MAL_MLP_MOE);
  assert_int_equal(m.kinds[1].head_dim, 192);
  assert_int_equal(m.kinds[1].v_head_dim, 128);
}

/* Keys left out take the defaults of transformers, which are often a published model. */
static void test_defaults(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t parameters;
  } cases[] = {
      {"{\"model_type\":\"llama\",\"hidden_size\":4096}", 6738415616},
      {"{\"model_type\":\"gpt2\",\"n_embd\":768}", 124439808},
      {"{\"model_type\":\"mistral\",\"hidden_size\":4096}", 7241732096},
      {"{\"model_type\":\"mixtral\",\"hidden_size\":4096}", 46702792704},
      {"{\"model_type\":\"falcon\",\"hidden_size\":4544}", 6921720704},
      {"{\"model_type\":\"gptj\",\"n_embd\":4096}", 6050882784},
      {"{\"model_type\":\"gpt_neox\",\"hidden_size\":6144}", 20554567680},
      {"{\"model_type\":\"opt\",\"hidden_size\":768}", 125239296},
      {"{\"model_type\":\"gemma\",\"hidden_size\":3072}", 8537680896},
      {"{\"model_type\":\"gemma2\",\"hidden_size\":2304}", 2614341888},
      {"{\"model_type\":\"phi3\",\"hidden_size\":3072}", 3821079552},
      {"{\"model_type\":\"starcoder2\",\"hidden_size\":3072}", 3030371328},
      {"{\"model_type\":\"cohere\",\"hidden_size\":8192}", 34980831232},
      {"{\"model_type\":\"deepseek_v3\",\"hidden_size\":7168}", 671026419200},
      {"{\"model_type\":\"qwen2_moe\",\"hidden_size\":2048}", 14315784192},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
    assert_int_equal(parse(cases[i].text).parameters, cases[i].parameters);
  /* Absent, Mistral has 8 key/value heads; null, as many as heads. */
  mal_model m =
      parse("{\"model_type\":\"mistral\",\"hidden_size\":4096,\"num_key_value_heads\":null,\"sliding_window\":null}");
  assert_int_equal(m.kinds[0].kv_heads, 32);
  assert_int_equal(m.kinds[0].window, 0);
  m = parse("{\"model_type\":\"mistral\",\"hidden_size\":4096}");
  assert_int_equal(m.kinds[0].kv_heads, 8);
  assert_int_equal(m.kinds[0].window, 4096);
  m = parse("{\"model_type\":\"gpt2\",\"n_inner\":null,\"n_embd\":100,\"n_head\":4}");
  assert_int_equal(m.kinds[0].ffn, 400);
}

static const mal_weight *find(const mal_weight *list, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (!strcmp(list[i].name, name)) return &list[i];
  fail_msg("no weight %s", name);
  return NULL;
}

static void expect(const mal_model *m, const char *name, int64_t out, int64_t in, mal_split split) {
  const mal_layer_kind *k = &m->kinds[m->n_kinds - 1];
  bool inside = strstr(name, "{l}") != NULL;
  const mal_weight *w = find(inside ? k->weights : m->weights, inside ? k->n_weights : m->n_weights, name);
  assert_int_equal(w->shape[0], out);
  assert_int_equal(w->shape[1], in);
  assert_int_equal(w->split, split);
}

/* Names and shapes as `model.state_dict()` of transformers has them. */
static void test_names(void **state) {
  (void)state;
  mal_model m = load("llama-3-8b");
  expect(&m, "model.embed_tokens.weight", 128256, 4096, MAL_SPLIT_VOCAB);
  expect(&m, "lm_head.weight", 128256, 4096, MAL_SPLIT_VOCAB);
  expect(&m, "model.norm.weight", 4096, 1, MAL_SPLIT_NONE);
  expect(&m, "model.layers.{l}.self_attn.q_proj.weight", 4096, 4096, MAL_SPLIT_OUT);
  expect(&m, "model.layers.{l}.self_attn.k_proj.weight", 1024, 4096, MAL_SPLIT_OUT);
  expect(&m, "model.layers.{l}.self_attn.o_proj.weight", 4096, 4096, MAL_SPLIT_IN);
  expect(&m, "model.layers.{l}.mlp.down_proj.weight", 4096, 14336, MAL_SPLIT_IN);
  assert_int_equal(m.kinds[0].n_weights, 9);
  m = load("gpt2");
  expect(&m, "transformer.h.{l}.attn.c_attn.weight", 2304, 768, MAL_SPLIT_OUT);
  expect(&m, "transformer.h.{l}.attn.c_proj.bias", 768, 1, MAL_SPLIT_NONE);
  expect(&m, "transformer.wpe.weight", 1024, 768, MAL_SPLIT_NONE);
  assert_true(find(m.kinds[0].weights, m.kinds[0].n_weights, "transformer.h.{l}.mlp.c_fc.weight")->transposed);
  assert_int_equal(m.n_weights, 4); /* the tied head is not listed */
  m = load("mixtral-8x7b");
  expect(&m, "model.layers.{l}.block_sparse_moe.gate.weight", 8, 4096, MAL_SPLIT_NONE);
  expect(&m, "model.layers.{l}.block_sparse_moe.experts.{e}.w2.weight", 4096, 14336, MAL_SPLIT_IN);
  m = load("deepseek-v3");
  expect(&m, "model.layers.{l}.self_attn.kv_b_proj.weight", 128 * 256, 512, MAL_SPLIT_OUT);
  expect(&m, "model.layers.{l}.mlp.experts.{e}.gate_proj.weight", 2048, 7168, MAL_SPLIT_OUT);
  expect(&m, "model.layers.61.eh_proj.weight", 7168, 14336, MAL_SPLIT_NONE);
  m = load("bloom-560m");
  expect(&m, "transformer.h.{l}.self_attention.query_key_value.weight", 3072, 1024, MAL_SPLIT_OUT);
  assert_int_equal(m.kinds[0].weights[4].fused, MAL_FUSED_GROUPS);
}

static void test_kinds(void **state) {
  (void)state;
  mal_model m = load("gemma-2-9b");
  assert_int_equal(m.kinds[m.kind_of[0]].window, 4096);
  assert_int_equal(m.kinds[m.kind_of[1]].window, 0);
  m = load("gemma-3-27b");
  for (int l = 0; l < 62; l++) assert_int_equal(m.kinds[m.kind_of[l]].window, (l + 1) % 6 ? 1024 : 0);
  m = parse("{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":6,\"decoder_sparse_step\":2,\"mlp_only_layers\":[3]}");
  for (int l = 0; l < 6; l++) assert_int_equal(m.kinds[m.kind_of[l]].mlp == MAL_MLP_MOE, l == 1 || l == 5);
  m = parse("{\"model_type\":\"qwen2\",\"num_hidden_layers\":32,\"use_sliding_window\":true,\"max_window_layers\":30,"
            "\"sliding_window\":128}");
  assert_int_equal(m.kinds[m.kind_of[29]].window, 0);
  assert_int_equal(m.kinds[m.kind_of[30]].window, 128);
  m = parse("{\"model_type\":\"gemma2\",\"num_hidden_layers\":2,"
            "\"layer_types\":[\"full_attention\",\"sliding_attention\"]}");
  assert_int_equal(m.kinds[m.kind_of[0]].window, 0);
  assert_int_equal(m.kinds[m.kind_of[1]].window, 4096);
  m = load("falcon-7b");
  assert_true(m.kinds[0].parallel_block && m.kinds[0].norms == 1 && m.kinds[0].kv_heads == 1);
  m = load("falcon-40b");
  assert_true(m.kinds[0].parallel_block && m.kinds[0].norms == 2 && m.kinds[0].kv_heads == 8);
}

/* A multimodal config describes its language model; keys of other concerns are ignored. */
static void test_nested_and_ignored(void **state) {
  (void)state;
  mal_model m = parse("{\"model_type\":\"gemma3\",\"vision_config\":{\"hidden_size\":1152},\"text_config\":{"
                      "\"model_type\":\"gemma3_text\",\"hidden_size\":2560,\"intermediate_size\":10240,"
                      "\"num_hidden_layers\":34,\"sliding_window\":1024}}");
  assert_int_equal(m.parameters, load("gemma-3-4b").parameters);
  assert_string_equal(m.weights[0].name, "language_model.model.embed_tokens.weight");
  m = parse("{\"model_type\":\"llama\",\"hidden_size\":4096,\"quantization_config\":{\"bits\":4},\"auto_map\":{"
            "\"AutoConfig\":\"x\"},"
            "\"torch_dtype\":\"bfloat16\",\"rope_scaling\":{\"type\":\"linear\"},\"bos_token_id\":[1,2]}");
  assert_int_equal(m.parameters, 6738415616);
  assert_string_equal(m.source, "");
  assert_int_equal(m.published_parameters, 0);
}

static void test_bare(void **state) {
  (void)state;
  int64_t h = 12288, L = 96, V = 51200;
  mal_model m = load("layers=96,hidden=12288,heads=96,ffn=49152,vocab=51200");
  assert_int_equal(m.parameters, L * (12 * h * h + 13 * h) + V * h + 2 * h);
  assert_string_equal(m.family, "bare");
  m = load("layers=96,hidden=12288,heads=96,vocab=51200,positions=2048");
  assert_int_equal(m.parameters, L * (12 * h * h + 13 * h) + V * h + 2048 * h + 2 * h);
  m = load("layers=80,hidden=8192,heads=64,kv_heads=8,ffn=28672,vocab=128256,gated=1");
  assert_int_equal(m.parameters, 70553706496);
  m = load("layers=32,hidden=4096,heads=32,vocab=32000,gated=yes");
  assert_int_equal(m.parameters, 6738415616); /* 8/3 hidden, up to a multiple of 256, is LLaMA's 11008 */
  m = load("layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=32000,gated=1,experts=8,top_k=2");
  assert_int_equal(m.parameters, 46702792704);
  m = load("layers=4,hidden=64,heads=4,ffn=32,vocab=100,gated=1,experts=8,top_k=2,shared_ffn=64,dense_layers=1,"
           "dense_ffn=256");
  assert_int_equal(m.n_kinds, 2);
  assert_int_equal(m.kinds[m.kind_of[0]].ffn, 256);
  assert_int_equal(m.kinds[m.kind_of[1]].experts, 8);
}

/* Case, '_' and '.' do not matter in names. */
static void test_spelling(void **state) {
  (void)state;
  assert_int_equal(load("Llama-3_1-8B").parameters, 8030261248);
  assert_int_equal(load("QWEN2-5-7B").parameters, 7615616512);
}

static int teardown(void **state) {
  (void)state;
  mal_arena_free(&arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_published), cmocka_unit_test(test_rounded),      cmocka_unit_test(test_whole_catalogue),
      cmocka_unit_test(test_active),    cmocka_unit_test(test_closed_forms), cmocka_unit_test(test_mtp),
      cmocka_unit_test(test_defaults),  cmocka_unit_test(test_names),        cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_bare),      cmocka_unit_test(test_spelling),     cmocka_unit_test(test_nested_and_ignored),
  };
  return cmocka_run_group_tests(tests, NULL, teardown);
}
