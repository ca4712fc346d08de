/* Weights of Hugging Face folders: numbers, headers that lie, and every layout against the file. */
#include "engine.h"
#include "engine/tensors.h"
#include "engine/weights/weights.h"
#include <sys/stat.h>

/* --- numbers ------------------------------------------------------------------------------------------------------------------- */

static float widened(mal_dtype type, uint16_t bits) {
  float x;
  mal_numbers_widen(type, &bits, &x, 1);
  return x;
}

static uint16_t narrowed(mal_dtype type, float x) {
  uint16_t bits;
  mal_numbers_narrow(type, &x, &bits, 1);
  return bits;
}

/* By the definition of the formats: sign, exponent, fraction. */
static double by_definition(mal_dtype type, uint16_t h) {
  int fraction_bits = type == MAL_F16 ? 10 : 7, bias = type == MAL_F16 ? 15 : 127;
  int exponent = (h & 0x7FFF) >> fraction_bits, fraction = h & ((1 << fraction_bits) - 1);
  double size = exponent ? ldexp(1 + ldexp(fraction, -fraction_bits), exponent - bias)
                         : ldexp(fraction, 1 - bias - fraction_bits);
  return h & 0x8000 ? -size : size;
}

static void numbers(void **state) {
  (void)state;
  static const mal_dtype types[] = {MAL_F16, MAL_BF16};
  for (int k = 0; k < 2; k++) {
    uint16_t infinite = types[k] == MAL_F16 ? 0x7C00 : 0x7F80;
    for (uint32_t h = 0; h < 0x10000; h++) {
      float x = widened(types[k], (uint16_t)h);
      if ((h & 0x7FFF) > infinite) {
        assert_true(isnan(x) && isnan(widened(types[k], narrowed(types[k], x))));
        continue;
      }
      if ((h & 0x7FFF) == infinite)
        assert_true(isinf(x) && (x < 0) == (h >> 15));
      else
        assert_true((double)x == by_definition(types[k], (uint16_t)h));
      assert_int_equal(narrowed(types[k], x), h);
      if ((h & 0x7FFFu) + 1 >= infinite) continue;
      float next = widened(types[k], (uint16_t)(h + 1)), half = (float)(((double)x + (double)next) / 2);
      assert_int_equal(narrowed(types[k], half), h & 1 ? h + 1 : h); /* a tie: to even */
      assert_int_equal(narrowed(types[k], nextafterf(half, x)), h);
      assert_int_equal(narrowed(types[k], nextafterf(half, next)), h + 1);
    }
  }
  assert_int_equal(narrowed(MAL_F16, 65519.996f), 0x7BFF);
  assert_int_equal(narrowed(MAL_F16, 65520.0f), 0x7C00);
  assert_int_equal(narrowed(MAL_BF16, 3.4e38f), 0x7F80);
}

/* --- headers ------------------------------------------------------------------------------------------------------------------- */

typedef struct memory_file {
  const char *data;
} memory_file;

static mal_status read_memory(const mal_bytes *from, int64_t offset, void *into, int64_t n, mal_error *e) {
  (void)e;
  assert_true(offset >= 0 && n >= 0 && offset <= from->bytes - n);
  memcpy(into, ((const memory_file *)from->context)->data + offset, (size_t)n);
  return MAL_OK;
}

static mal_status header(const char *json, int64_t data, int64_t claimed, mal_stored_list *list, mal_error *e) {
  uint64_t n = claimed < 0 ? strlen(json) : (uint64_t)claimed;
  int64_t bytes = 8 + (int64_t)strlen(json) + data;
  char *text = mal_alloc(&arena, (size_t)bytes);
  memcpy(text, &n, 8);
  memcpy(text + 8, json, strlen(json));
  memory_file m = {text};
  mal_bytes file = {.path = "x.safetensors", .bytes = bytes, .read = read_memory, .context = &m};
  return mal_safetensors_header(&arena, &file, list, e);
}

static void headers(void **state) {
  (void)state;
  mal_error e;
  mal_stored_list list;
  assert_ok(
      header("{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[24,28]},"
             "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}   ",
             28, -1, &list, &e),
      e);
  assert_int_equal(list.count, 2);
  assert_string_equal(list.at[0].name, "a");
  assert_int_equal(list.at[0].rank, 2);
  assert_int_equal(list.at[1].type, MAL_BF16);
  assert_int_equal(list.at[1].first_byte - list.at[0].first_byte, 24);
  static const struct {
    const char *json, *word;
    int64_t data, claimed;
  } wrong[] = {
      {"", "header should have", 0, 9},
      {"{}", "header should have", 0, INT64_MAX},
      {"{}", "empty", 0, 0},
      {"[]", "no JSON object", 0, -1},
      {"{\"a\":3}", "tensor a", 0, -1},
      {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", "no dtype", 4, -1},
      {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", "F33", 4, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "shape", 4, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", "shape", 4, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4611686018427387904],\"data_offsets\":[0,0]}}",
       "shape", 0, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", "shape", 4, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", "do not make", 0, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", "do not make", 4, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "do not lie", 4, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", "data_offsets", 4, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "cut short", 4, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "belong to none", 8, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", "no tensor", 8, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
       "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
       "shares bytes", 12, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
       "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
       "twice", 8, -1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}", "too early", 4, -1},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    mal_status status = header(wrong[i].json, wrong[i].data, wrong[i].claimed, &list, &e);
    if (status != MAL_BAD || !strstr(e.text, wrong[i].word) || !strstr(e.text, "x.safetensors"))
      fail_msg("%s: %d %s", wrong[i].json, status, e.text);
  }
}

/* --- every layout against the file ------------------------------------------------------------------------------------------------- */

static mal_tensors tensors;

/* The number that row r and column c of a tensor have in these tests: whole, so that fp32 holds it. */
static float number_of(int32_t tensor, int64_t r, int64_t c) {
  return (float)((tensor * 7919 + r * 613 + c * 31) % 16381) - 8000;
}

static void fill(const mal_rank_state *s) {
  for (int32_t i = 0; i < s->n_pieces; i++) {
    const mal_piece *p = &s->pieces[i];
    for (int64_t r = 0; r < p->rows; r++)
      for (int64_t c = 0; c < p->cols; c++)
        s->param[p->at + r * p->cols + c] = number_of(p->tensor, p->row + r, p->col + c);
  }
}

typedef struct through {
  mal_weight_files *files;
  mal_weight_writer *writer;
  _Atomic int wrong;
} through;

static mal_status set_numbers(void *context, const mal_rank_state *s, mal_error *e) {
  through *t = context;
  if (!t->files) {
    fill(s);
    return MAL_OK;
  }
  mal_status status = mal_weight_files_load(t->files, &tensors, s, e);
  for (int32_t i = 0; i < s->n_pieces && !status; i++) {
    const mal_piece *p = &s->pieces[i];
    for (int64_t r = 0; r < p->rows; r++)
      for (int64_t c = 0; c < p->cols; c++)
        t->wrong += s->param[p->at + r * p->cols + c] != number_of(p->tensor, p->row + r, p->col + c);
  }
  return status;
}

static mal_status give_numbers(void *context, const mal_rank_state *s, mal_error *e) {
  fill(s);
  return mal_weight_writer_put(((through *)context)->writer, s, e);
}

static void pass(const mal_program *program, through *t) {
  mal_error e;
  mal_train_summary summary;
  mal_tokens_source source = {formula_tokens, (void *)program->plan};
  mal_train_request q = request_of(program, &source, 1);
  q.clip = 0, q.rate.lr = q.rate.least = 0;
  q.hooks = (mal_train_hooks){.context = t, .initial = set_numbers, .give = t->writer ? give_numbers : NULL};
  mal_status status = mal_train_run(&arena, &q, &summary, &e);
  if (status && status != MAL_NO) fail_msg("%s", e.text); /* such weights may well have a loss that is no number */
}

static void write_with(const char *config, int64_t ranks, const char *layout, const char *folder, int64_t shard_bytes) {
  mal_error e;
  mal_program *program = program_of(config, ranks, layout, BATCH);
  mal_tensors_list(&arena, &program->plan->model, &tensors);
  mal_rank_state none = {.owns_param = true};
  mal_weight_request q = {folder, NULL, &program->plan->model, &tensors, MAL_F32, shard_bytes};
  through t = {0};
  assert_ok(mal_weight_writer_open(&arena, &q, &t.writer, &e), e);
  assert_ok(mal_weight_writer_begin(t.writer, &e), e);
  assert_ok(mal_weight_writer_put(t.writer, &none, &e), e);
  /* each rank's pieces, without running a step */
  for (int32_t rank = 0; rank < ranks; rank++) {
    mal_arena own;
    mal_rank r = {0};
    mal_world *world;
    mal_comm_options options = {.ranks = (int)ranks, .deadline_s = 60, .oversubscribed = true};
    mal_arena_init(&own);
    assert_ok(mal_comm_shm.open(&own, &options, &world, &e), e);
    mal_rank_request request = {program, &mal_cpu, &mal_comm_shm, world, rank, NULL};
    assert_ok(mal_rank_open(&own, &request, &r, &e), e);
    mal_rank_state s;
    mal_rank_state_of(&r, &s);
    assert_ok(give_numbers(&t, &s, &e), e);
    mal_rank_close(&r);
    mal_comm_shm.close(world);
    mal_arena_free(&own);
  }
  assert_ok(mal_weight_writer_finish(t.writer, &e), e);
  mal_weight_writer_close(t.writer);
}

static void remove_folder(const char *folder) {
  char command[256];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  assert_int_equal(system(command), 0);
}

/* What any layout writes, any other reads, and the file has each number where [in, out] or [out, in] puts it. */
static void layouts(void **state) {
  (void)state;
  static const struct {
    int64_t ranks;
    const char *layout;
  } ways[] = {{1, "micro-batch=1"},
              {2, "tp=2,micro-batch=1"},
              {4, "tp=2,pp=2,micro-batch=1"},
              {8, "tp=2,pp=2,dp=2,micro-batch=1"},
              {4, "pp=2,dp=2,micro-batch=1,schedule=interleaved,vpp=2"}};
  static const char *const configs[] = {gpt2_config, llama_config};
  char folder[] = "/tmp/malha-weights-XXXXXX", model[64];
  mal_error e;
  assert_non_null(mkdtemp(folder));
  snprintf(model, sizeof model, "%s/model", folder);
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
      write_with(configs[k], ways[i].ranks, ways[i].layout, model, i % 2 ? 60000 : 0);
      mal_weight_files files;
      assert_ok(mal_weight_files_open(&arena, model, &files, &e), e);
      assert_true(i % 2 ? files.n_files > 3 : files.n_files == 1);
      for (size_t j = 0; j < sizeof ways / sizeof *ways; j += 3 - (size_t)k) {
        mal_program *program = program_of(configs[k], ways[j].ranks, ways[j].layout, BATCH);
        mal_tensors_list(&arena, &program->plan->model, &tensors);
        assert_ok(mal_weight_files_match(&arena, &files, &program->plan->model, &tensors, &e), e);
        through t = {.files = &files};
        pass(program, &t);
        assert_int_equal(t.wrong, 0);
      }
      if (k == 0) { /* c_attn: [in, out] */
        const mal_stored *s = NULL;
        for (int32_t n = 0; n < files.list.count; n++)
          if (strstr(files.list.at[n].name, "h.1.attn.c_attn.weight")) s = &files.list.at[n];
        assert_non_null(s);
        assert_int_equal(s->shape[0], 64);
        assert_int_equal(s->shape[1], 192);
        int32_t tensor = 0;
        while (strcmp(tensors.at[tensor].name, s->name) != 0) tensor++;
        float x;
        assert_ok(files.files[s->file].read(&files.files[s->file], s->first_byte + (5 * 192 + 130) * 4, &x, 4, &e), e);
        assert_true(x == number_of(tensor, 130, 5));
      }
      mal_weight_files_close(&files);
      remove_folder(model);
    }
  remove_folder(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(numbers, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(headers, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(layouts, open_arena, close_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
