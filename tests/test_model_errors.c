/* Bad models are refused with a message that says where, what and what to do. */
#include "model/model.h"
#include "test.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static mal_arena arena;

static mal_status parse(const char *text, mal_error *e) {
  mal_model m;
  return mal_model_parse_config(&arena, "config.json", text, strlen(text), &m, e);
}

static mal_status load(const char *spec, mal_error *e) {
  mal_model m;
  return mal_model_load(&arena, spec, &m, e);
}

static const struct {
  const char *text;
  const char *words[3];
} configs[] = {
    {"", {"config.json"}},
    {"{", {"config.json:1"}},
    {"{\"model_type\": \"llama\",\n \"hidden_size\": 40", {"config.json:2"}},
    {"[]", {"config.json:1", "object"}},
    {"\"llama\"", {"config.json"}},
    {"{\"hidden_size\": 4096}", {"config.json", "model_type", "missing"}},
    {"{\"model_type\": 7}", {"config.json:1", "model_type"}},
    {"{\"model_type\": \"lama\"}", {"model_type", "lama", "llama"}},
    {"{\"model_type\": \"t5\"}", {"model_type", "t5", "mixtral"}},
    {"{\n\"model_type\": \"llama\",\n\"hidden_size\": -4096}", {"config.json:3", "hidden_size"}},
    {"{\"model_type\": \"llama\",\n\"hidden_size\": \"4096\"}", {"config.json:2", "hidden_size"}},
    {"{\"model_type\": \"llama\",\n\"hidden_size\": 4096.5}", {"config.json:2", "hidden_size"}},
    {"{\"model_type\": \"llama\",\n\"hidden_size\": [4096]}", {"config.json:2", "hidden_size"}},
    {"{\"model_type\": \"llama\",\n\"hidden_size\": 100000000}", {"config.json:2", "hidden_size"}},
    {"{\"model_type\": \"llama\",\n\"vocab_size\": 0}", {"config.json:2", "vocab_size"}},
    {"{\"model_type\": \"llama\",\n\"num_hidden_layers\": 0}", {"config.json:2", "num_hidden_layers"}},
    {"{\"model_type\": \"llama\",\n\"num_hidden_layers\": 4097}", {"config.json:2", "num_hidden_layers", "4096"}},
    {"{\"model_type\": \"llama\",\n\"num_hidden_layers\": 1e30}", {"config.json:2", "num_hidden_layers"}},
    {"{\"model_type\": \"llama\",\n\"num_hidden_layers\": 1000000000000000000000000000000}", {"config.json:2"}},
    {"{\"model_type\": \"llama\", \"hidden_size\": 4096,\n\"num_attention_heads\": 33}",
     {"config.json:2", "num_attention_heads", "4096"}},
    {"{\"model_type\": \"llama\", \"hidden_size\": 4096,\n\"num_key_value_heads\": 5}",
     {"config.json:2", "num_key_value_heads", "32"}},
    {"{\"model_type\": \"llama\", \"hidden_size\": 4096,\n\"num_key_value_heads\": 64}",
     {"config.json:2", "num_key_value_heads"}},
    {"{\"model_type\": \"llama\", \"hidden_size\": 4096,\n\"hidden_act\": \"tanh\"}",
     {"config.json:2", "hidden_act", "silu"}},
    {"{\"model_type\": \"llama\", \"hidden_size\": 4096,\n\"tie_word_embeddings\": 1}",
     {"config.json:2", "tie_word_embeddings"}},
    {"{\"model_type\": \"gpt2\",\n\"n_embd\": 770}", {"config.json", "n_head", "770"}},
    {"{\"model_type\": \"mixtral\", \"num_hidden_layers\": 12,\n\"num_experts_per_tok\": 9}",
     {"config.json:2", "num_experts_per_tok", "8"}},
    {"{\"model_type\": \"mixtral\", \"num_hidden_layers\": 12,\n\"num_local_experts\": 100000}",
     {"config.json:2", "num_local_experts"}},
    {"{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 12,\n\"mlp_only_layers\": 3}",
     {"config.json:2", "mlp_only_layers"}},
    {"{\"model_type\": \"gemma2\", \"num_hidden_layers\": 26,\n\"layer_types\": [\"full_attention\"]}",
     {"config.json:2", "layer_types", "26"}},
    {"{\"model_type\": \"gemma3\"}", {"text_config", "gemma3_text"}},
    {"{\"model_type\": \"gemma3\",\n\"text_config\": []}", {"config.json:2", "text_config"}},
    {"{\"model_type\": \"deepseek_v2\", \"hidden_size\": 4096}", {"num_experts_per_tok", "missing"}},
    {"{\"model_type\": \"opt\", \"num_hidden_layers\": 12,\n\"layer_norm_elementwise_affine\": false}",
     {"config.json:2"}},
    {"{\"model_type\": \"llama\", \"malha\":\n 3}", {"config.json", "malha"}},
    /* 2^24 · 2^24 weights in one tensor, and 65536 experts of them */
    {"{\"model_type\":\"mixtral\",\"hidden_size\":16777216,\"num_attention_heads\":16777216,"
     "\"num_key_value_heads\":16777216,\"intermediate_size\":16777216,\"num_local_experts\":65536}",
     {"parameters"}},
    {"{\"model_type\":\"llama\",\"head_dim\":16777216,\"num_attention_heads\":16777216,\"hidden_size\":16777216}",
     {"parameters"}},
    {"{\"model_type\":\"llama\",\"hidden_size\":16777216,\"num_attention_heads\":64,\"num_hidden_layers\":4096}",
     {"parameters"}},
    {"{\"model_type\": \"ll\xff"
     "ama\"}",
     {"config.json"}},
};

static void test_configs(void **state) {
  (void)state;
  mal_error e;
  for (size_t i = 0; i < sizeof(configs) / sizeof(*configs); i++) {
    e = (mal_error){0};
    mal_status status = parse(configs[i].text, &e);
    if (status != MAL_BAD) fail_msg("not refused: %s", configs[i].text);
    for (int w = 0; w < 3 && configs[i].words[w]; w++)
      if (!strstr(e.text, configs[i].words[w])) fail_msg("'%s' is not in: %s", configs[i].words[w], e.text);
  }
}

static void test_deep_nesting(void **state) {
  (void)state;
  enum { DEPTH = 100000 };
  char *text = malloc(2 * DEPTH + 64);
  int n = sprintf(text, "{\"model_type\":\"llama\",\"x\":");
  memset(text + n, '[', DEPTH);
  memset(text + n + DEPTH, ']', DEPTH);
  strcpy(text + n + 2 * DEPTH, "}");
  mal_error e;
  assert_fails(MAL_BAD, parse(text, &e), e, "config.json");
  free(text);
}

static void test_truncated(void **state) {
  (void)state;
  static const char text[] = "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"tie_word_embeddings\": false}";
  mal_error e;
  mal_model m;
  for (size_t n = 0; n < sizeof(text) - 1; n++) {
    char *cut = strndup(text, n);
    assert_fails(MAL_BAD, mal_model_parse_config(&arena, "config.json", cut, n, &m, &e), e, "config.json");
    free(cut);
  }
}

static void test_paths(void **state) {
  (void)state;
  char folder[] = "/tmp/malha_model_XXXXXX";
  mal_error e;
  assert_non_null(mkdtemp(folder));
  assert_fails(MAL_BAD, load(folder, &e), e, folder, "config.json");
  char path[128];
  snprintf(path, sizeof(path), "%s/config.json", folder);
  assert_fails(MAL_BAD, load(path, &e), e, path);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_fails(MAL_BAD, load(folder, &e), e, "config.json");
  assert_int_equal(rmdir(path), 0);
  FILE *f = fopen(path, "w");
  fputs("{\"model_type\": \"gpt2\", \"n_layer\": 12}", f);
  fclose(f);
  mal_model m;
  assert_ok(mal_model_load(&arena, folder, &m, &e), e);
  assert_ok(mal_model_load(&arena, path, &m, &e), e);
  assert_int_equal(m.parameters, 124439808);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(folder), 0);
  assert_fails(MAL_BAD, load("", &e), e, "model");
  assert_fails(MAL_BAD, load("lama-3-8b", &e), e, "lama-3-8b", "llama-3-8b");
  assert_fails(MAL_BAD, load("../../etc/passwd", &e), e, "passwd");
}

/* A size that the file leaves out is said; null, and what follows from another key, is no omission. No size at all is
 * no model. The values are those of configuration_<family>.py of transformers. */
static const struct {
  const char *family, *size; /* size: a key and its value that make the file a model */
  const char *taken[3];
} left_out[] = {
    {"llama", "\"num_hidden_layers\": 32", {"hidden_size 4096", "vocab_size 32000", "intermediate_size 11008"}},
    {"mistral", "\"hidden_size\": 4096", {"num_hidden_layers 32", "num_key_value_heads 8", "sliding_window 4096"}},
    {"mixtral", "\"hidden_size\": 4096", {"num_local_experts 8", "num_experts_per_tok 2", "vocab_size 32000"}},
    {"qwen2", "\"hidden_size\": 4096", {"vocab_size 151936", "num_attention_heads 32", "num_hidden_layers 32"}},
    {"qwen2_moe", "\"hidden_size\": 2048", {"num_experts 60", "moe_intermediate_size 1408", "num_hidden_layers 24"}},
    {"qwen3", "\"hidden_size\": 4096", {"vocab_size 151936", "head_dim 128", "num_hidden_layers 32"}},
    {"qwen3_moe", "\"hidden_size\": 2048", {"num_experts 128", "num_experts_per_tok 8", "vocab_size 151936"}},
    {"gemma", "\"hidden_size\": 3072", {"head_dim 256", "num_hidden_layers 28", "vocab_size 256000"}},
    {"gemma2", "\"hidden_size\": 2304", {"head_dim 256", "num_hidden_layers 26", "sliding_window 4096"}},
    {"gemma3_text", "\"hidden_size\": 2304", {"vocab_size 262208", "num_hidden_layers 26", "head_dim 256"}},
    {"phi3", "\"hidden_size\": 3072", {"vocab_size 32064", "num_hidden_layers 32", "intermediate_size 8192"}},
    {"gpt2", "\"n_embd\": 768", {"n_layer 12", "n_head 12", "vocab_size 50257"}},
    {"gpt_neox", "\"hidden_size\": 6144", {"num_hidden_layers 44", "vocab_size 50432", "num_attention_heads 64"}},
    {"gptj", "\"n_embd\": 4096", {"n_layer 28", "n_head 16", "vocab_size 50400"}},
    {"opt", "\"hidden_size\": 768", {"num_hidden_layers 12", "ffn_dim 3072", "vocab_size 50272"}},
    {"bloom", "\"hidden_size\": 64", {"n_layer 2", "n_head 8", "vocab_size 250880"}},
    {"falcon", "\"hidden_size\": 4544", {"num_hidden_layers 32", "num_attention_heads 71", "vocab_size 65024"}},
    {"mpt", "\"d_model\": 2048", {"n_layers 24", "n_heads 16", "vocab_size 50368"}},
    {"starcoder2", "\"hidden_size\": 3072", {"num_hidden_layers 30", "num_key_value_heads 2", "vocab_size 49152"}},
    {"olmo2", "\"hidden_size\": 4096", {"num_hidden_layers 32", "vocab_size 50304", "intermediate_size 11008"}},
    {"deepseek_v3", "\"hidden_size\": 7168", {"num_hidden_layers 61", "n_routed_experts 256", "kv_lora_rank 512"}},
    {"nemotron", "\"hidden_size\": 6144", {"num_hidden_layers 32", "vocab_size 256000", "num_attention_heads 48"}},
    {"cohere", "\"hidden_size\": 8192", {"num_hidden_layers 40", "vocab_size 256000", "num_attention_heads 64"}},
    {"gpt_oss", "\"hidden_size\": 2880", {"num_hidden_layers 36", "num_local_experts 128", "vocab_size 201088"}},
};

static void test_left_out(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(left_out) / sizeof(*left_out); i++) {
    mal_error e = {0};
    mal_model m;
    char *text = mal_print(&arena, "{\"model_type\": \"%s\", %s}", left_out[i].family, left_out[i].size);
    assert_ok(mal_model_parse_config(&arena, "config.json", text, strlen(text), &m, &e), e);
    const char *said = mal_model_defaults_words(&arena, &m);
    for (int w = 0; w < 3; w++)
      if (!said || !strstr(said, left_out[i].taken[w]))
        fail_msg("%s: '%s' is not in: %s", left_out[i].family, left_out[i].taken[w], said ? said : "nothing");
    json_t *json = mal_model_defaults_json(&m);
    assert_int_equal(json_object_size(json), m.n_defaults);
    json_decref(json);
    text = mal_print(&arena, "{\n\"model_type\": \"%s\", \"vocab_size\": 32000}", left_out[i].family);
    char *key = mal_print(&arena, "%.*s: is missing", (int)strcspn(left_out[i].size + 1, "\""), left_out[i].size + 1);
    if (strstr(left_out[i].size, "num_hidden_layers")) key = "hidden_size: is missing";
    assert_fails(MAL_BAD, parse(text, &e), e, "config.json", key);
  }
}

static void test_nothing_left_out(void **state) {
  (void)state;
  static const char *const texts[] = {
      /* null is an answer; heads of keys and width of a head follow */
      "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"vocab_size\": 50257,"
      "\"n_positions\": 1024, \"n_inner\": null}",
      "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
      "\"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 128256,"
      "\"max_position_embeddings\": 8192}",
      "{\"model_type\": \"qwen2\", \"hidden_size\": 3584, \"num_hidden_layers\": 28, \"num_attention_heads\": 28,"
      "\"num_key_value_heads\": 4, \"intermediate_size\": 18944, \"vocab_size\": 152064,"
      "\"max_position_embeddings\": 32768}",
  };
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
    mal_error e = {0};
    mal_model m;
    assert_ok(mal_model_parse_config(&arena, "config.json", texts[i], strlen(texts[i]), &m, &e), e);
    if (m.n_defaults) fail_msg("%s: %s", texts[i], mal_model_defaults_words(&arena, &m));
  }
}

static const struct {
  const char *text;
  const char *words[2];
} bares[] = {
    {"layers=96", {"hidden", "missing"}},
    {"layers=96,hidden=12288,heads=96", {"vocab", "missing"}},
    {"layers=0,hidden=64,heads=4,vocab=100", {"layers"}},
    {"layers=-1,hidden=64,heads=4,vocab=100", {"layers"}},
    {"layers=1e30,hidden=64,heads=4,vocab=100", {"layers"}},
    {"layers=5000,hidden=64,heads=4,vocab=100", {"layers", "4096"}},
    {"layers=4,hidden=64,heads=5,vocab=100", {"heads", "64"}},
    {"layers=4,hidden=64,heads=4,kv_heads=3,vocab=100", {"kv_heads", "4"}},
    {"layers=4,hidden=64,heads=4,vocab=0", {"vocab"}},
    {"layers=4,hiden=64,heads=4,vocab=100", {"hiden", "hidden"}},
    {"layers=4,hidden=64,heads=4,vocab=100,", {"value"}},
    {"layers=4,hidden,heads=4,vocab=100", {"hidden", "value"}},
    {"layers=4,layers=5,hidden=64,heads=4,vocab=100", {"layers", "twice"}},
    {"layers=4,hidden=64,heads=4,vocab=100,gated=2", {"gated"}},
    {"layers=4,hidden=64,heads=4,vocab=100,norm=batch", {"norm", "rmsnorm"}},
    {"layers=4,hidden=64,heads=4,vocab=100,activation=x", {"activation", "silu"}},
    {"layers=4,hidden=64,heads=4,vocab=100,top_k=2", {"top_k", "experts"}},
    {"layers=4,hidden=64,heads=4,vocab=100,experts=2,top_k=3", {"top_k", "2"}},
    {"layers=4,hidden=,heads=4,vocab=100", {"hidden"}},
    {"layers=4096,hidden=16777216,heads=64,vocab=100", {"parameters"}},
    {"layers=4,hidden=16777216,heads=64,vocab=100,ffn=16777216,experts=65536", {"parameters"}},
};

static void test_bare(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(bares) / sizeof(*bares); i++) {
    mal_error e = {0};
    if (load(bares[i].text, &e) != MAL_BAD) fail_msg("not refused: %s", bares[i].text);
    for (int w = 0; w < 2 && bares[i].words[w]; w++)
      if (!strstr(e.text, bares[i].words[w])) fail_msg("'%s' is not in: %s", bares[i].words[w], e.text);
  }
}

static int teardown(void **state) {
  (void)state;
  mal_arena_free(&arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_configs),      cmocka_unit_test(test_left_out),  cmocka_unit_test(test_nothing_left_out),
      cmocka_unit_test(test_deep_nesting), cmocka_unit_test(test_truncated), cmocka_unit_test(test_paths),
      cmocka_unit_test(test_bare),
  };
  return cmocka_run_group_tests(tests, NULL, teardown);
}
