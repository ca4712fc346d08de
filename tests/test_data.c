#include "core/philox.h"
#include "engine/data/data.h"
#include "engine/data/tokens.h"
#include "test.h"
#include <stdlib.h>
#include <unistd.h>

static mal_arena a;
static mal_error e;
static char folder[64];

static int set_up(void **state) {
  (void)state;
  strcpy(folder, "/tmp/malha-data-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  mal_arena_free(&a);
  return system(command);
}

static const char *named(const char *name) { return mal_print(&a, "%s/%s", folder, name); }

static void write_raw(const char *name, const void *bytes, size_t n) {
  FILE *f = fopen(named(name), "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  fclose(f);
}

/* Known answers of Random123 (examples/kat_vectors). */
static void test_philox(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4];
    uint64_t key;
    uint32_t out[4];
  } known[] = {
      {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, ~UINT64_C(0), {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       UINT64_C(0x299f31d0a4093822),
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    uint32_t out[4];
    mal_philox(known[i].key, known[i].counter, out);
    for (int k = 0; k < 4; k++) assert_int_equal(out[k], known[i].out[k]);
  }
}

static void test_order_is_a_permutation(void **state) {
  (void)state;
  static const int64_t counts[] = {1, 2, 3, 4, 5, 17, 64, 1000, 4097, 100003};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
    for (int64_t pass = 0; pass < 3; pass++) {
      int64_t n = counts[c], moved = 0;
      char *seen = mal_alloc(&a, (size_t)n);
      for (int64_t i = 0; i < n; i++) {
        int64_t x = mal_data_order(42, pass, n, i);
        assert_in_range(x, 0, n - 1);
        assert_false(seen[x]);
        seen[x] = 1;
        moved += x != i;
      }
      if (n >= 64) assert_true(moved > n * 9 / 10);
    }
}

/* Where the first sequence goes over many seeds is uniform: chi square of 16 bins, 99.9 % below 37.7 (tables). And two passes, or
 * two seeds, agree in about one place. */
static void test_order_is_random(void **state) {
  (void)state;
  enum { SEEDS = 16000, BINS = 16, N = 1000 };
  int bins[BINS] = {0}, same_pass = 0, same_seed = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) bins[mal_data_order(seed, 0, N, 0) * BINS / N]++;
  double chi = 0;
  for (int i = 0; i < BINS; i++) {
    double want = 0;
    for (int64_t x = 0; x < N; x++) want += x * BINS / N == i ? (double)SEEDS / N : 0;
    chi += (bins[i] - want) * (bins[i] - want) / want;
  }
  assert_true(chi < 37.7);
  for (int64_t i = 0; i < N; i++) {
    same_pass += mal_data_order(7, 0, N, i) == mal_data_order(7, 1, N, i);
    same_seed += mal_data_order(7, 0, N, i) == mal_data_order(8, 0, N, i);
  }
  assert_true(same_pass < 8 && same_seed < 8);
}

/* Three files of different formats; every sequence against the tokens put. */
static void test_sequences(void **state) {
  (void)state;
  enum { A = 1000, B = 777, C = 300, SEQ = 64 };
  int64_t all[A + B + C];
  for (int i = 0; i < A + B + C; i++) all[i] = i < A + B ? (i * 37) % 60000 : i % 251;
  mal_token_writer *w;
  assert_ok(mal_tokens_create(&a, named("a.bin"), MAL_TOKENS_LLMC, 2, &w, &e), e);
  assert_ok(mal_tokens_put(w, all, A, &e), e);
  assert_ok(mal_tokens_finish(w, true, &e), e);
  assert_ok(mal_tokens_create(&a, named("b.bin"), MAL_TOKENS_MEGATRON, 4, &w, &e), e);
  for (int i = 0; i < B; i += 7) {
    assert_ok(mal_tokens_put(w, all + A + i, 7, &e), e);
    assert_ok(mal_tokens_end_document(w, &e), e);
  }
  assert_ok(mal_tokens_finish(w, true, &e), e);
  char text[C];
  for (int i = 0; i < C; i++) text[i] = (char)all[A + B + i];
  write_raw("c.txt", text, C);

  const char *paths[] = {named("a.bin"), named("b.idx"), named("c.txt")};
  mal_data_request o = {.paths = paths, .n_paths = 3, .format = MAL_TOKENS_TELL, .seq = SEQ, .vocabulary = 60000};
  mal_data *plain, *mixed;
  assert_ok(mal_data_open(&a, &o, &plain, &e), e);
  o.shuffle = true;
  o.seed = 3;
  assert_ok(mal_data_open(&a, &o, &mixed, &e), e);
  assert_int_equal(mal_data_tokens(plain), A + B + C);
  int64_t n = mal_data_sequences(plain), ids[SEQ + 1];
  assert_int_equal(n, (A + B + C - 1) / SEQ);
  for (int64_t i = 0; i < 3 * n; i++) {
    assert_ok(mal_data_sequence(plain, i, ids, &e), e);
    assert_memory_equal(ids, all + i % n * SEQ, sizeof ids);
    assert_ok(mal_data_sequence(mixed, i, ids, &e), e);
    assert_memory_equal(ids, all + mal_data_order(3, i / n, n, i % n) * SEQ, sizeof ids);
  }
  mal_data_close(plain);
  mal_data_close(mixed);
  o.vocabulary = 50000;
  assert_ok(mal_data_open(&a, &o, &plain, &e), e);
  mal_status status = MAL_OK;
  for (int64_t i = 0; i < n && !status; i++) status = mal_data_sequence(plain, i, ids, &e);
  assert_int_equal(status, MAL_BAD);
  assert_non_null(strstr(e.text, "vocabulary has 50000"));
  mal_data_close(plain);
  o.seq = A + B + C;
  assert_fails(MAL_BAD, mal_data_open(&a, &o, &plain, &e), e, "2,077 tokens", "shorter sequences");
}

/* All formats and widths there and back, with as many tokens as cross the buffers. */
static void test_round_trip(void **state) {
  (void)state;
  enum { N = 100000 };
  int64_t *all = MAL_ARRAY(&a, int64_t, N), *back = MAL_ARRAY(&a, int64_t, N);
  for (int format = 0; format < MAL_TOKEN_FORMATS; format++)
    for (int width = 2; width <= 4; width += 2) {
      bool wide = width == 4 && format != MAL_TOKENS_BYTES && format != MAL_TOKENS_NANOGPT;
      int64_t most = format == MAL_TOKENS_BYTES ? 256 : wide ? INT32_MAX : 65536;
      for (int64_t i = 0; i < N; i++) all[i] = (i * 2654435761) % most;
      const char *path = named(format == MAL_TOKENS_BYTES ? "x" : mal_print(&a, "%d-%d.bin", format, width));
      mal_token_writer *w;
      mal_token_file f;
      assert_ok(mal_tokens_create(&a, path, (mal_token_format)format, width, &w, &e), e);
      assert_ok(mal_tokens_put(w, all, N, &e), e);
      assert_ok(mal_tokens_finish(w, true, &e), e);
      assert_ok(mal_tokens_open(&a, path, MAL_TOKENS_TELL, &f, &e), e);
      assert_int_equal(f.format, format);
      assert_int_equal(f.tokens, N);
      assert_int_equal(f.documents, format == MAL_TOKENS_MEGATRON);
      assert_ok(mal_tokens_read(&f, 0, N, most, back, &e), e);
      assert_memory_equal(all, back, N * sizeof *all);
      assert_fails(MAL_FAULT, mal_tokens_read(&f, N - 3, 4, 0, back, &e), e, "not in it");
      mal_tokens_close(&f);
      assert_ok(mal_tokens_create(&a, path, (mal_token_format)format, width, &w, &e), e);
      int64_t beyond[] = {1, most + (wide ? INT32_MAX : 0) + (format == MAL_TOKENS_LLMC && wide ? 2 : 1)};
      assert_fails(MAL_BAD, mal_tokens_put(w, beyond, 2, &e), e, "token 1", mal_token_format_name[format]);
      assert_ok(mal_tokens_finish(w, false, &e), e);
      assert_ok(mal_tokens_open(&a, path, MAL_TOKENS_TELL, &f, &e), e); /* the old file stands */
      assert_int_equal(f.tokens, N);
      mal_tokens_close(&f);
    }
}

static void number(uint8_t *at, uint64_t x, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(x >> 8 * i);
}

/* Everything that can be wrong with a header, each named with its file and byte. */
static void test_wrong_files(void **state) {
  (void)state;
  mal_token_file f;
  uint8_t llmc[1024 + 20] = {0};
  number(llmc, 20240520, 4);
  number(llmc + 4, 2, 4);
  number(llmc + 8, 10, 4);
  write_raw("v.bin", llmc, sizeof llmc);
  assert_fails(MAL_BAD, mal_tokens_open(&a, named("v.bin"), MAL_TOKENS_TELL, &f, &e), e, "v.bin", "byte 4",
               "version 2");
  number(llmc + 4, 1, 4);
  write_raw("v.bin", llmc, sizeof llmc - 1);
  assert_fails(MAL_BAD, mal_tokens_open(&a, named("v.bin"), MAL_TOKENS_TELL, &f, &e), e, "byte 8", "10 tokens", "cut");
  write_raw("v.bin", llmc, 500);
  assert_fails(MAL_BAD, mal_tokens_open(&a, named("v.bin"), MAL_TOKENS_LLMC, &f, &e), e, "v.bin", "cut");
  write_raw("odd.bin", llmc, 501);
  assert_fails(MAL_BAD, mal_tokens_open(&a, named("odd.bin"), MAL_TOKENS_NANOGPT, &f, &e), e, "501 bytes", "16-bit");
  write_raw("t.bin", "hello, hello", 12);
  assert_fails(MAL_BAD, mal_tokens_open(&a, named("t.bin"), MAL_TOKENS_LLMC, &f, &e), e, "byte 0", "20240801");
  assert_fails(MAL_BAD, mal_tokens_open(&a, named("none"), MAL_TOKENS_TELL, &f, &e), e, "none", "no such file");
  assert_fails(MAL_BAD, mal_tokens_open(&a, folder, MAL_TOKENS_TELL, &f, &e), e, "folder");
  assert_fails(MAL_BAD, mal_tokens_open(&a, "/dev/null", MAL_TOKENS_TELL, &f, &e), e, "regular");

  /* an index of two sequences: 3 and 2 tokens of 16 bits */
  uint8_t good[34 + 8 + 16 + 16] = "MMIDIDX\0", index[sizeof good];
  number(good + 9, 1, 8);
  good[17] = 8;
  number(good + 18, 2, 8);
  number(good + 26, 2, 8);
  number(good + 34, 3, 4);
  number(good + 38, 2, 4);
  number(good + 50, 6, 8);
  write_raw("m.bin", "0123456789", 10);
  static const struct {
    int at, value, bytes;
    const char *words[2];
  } wrong[] = {
      {0, 'X', 1, {"byte 0", "MMIDIDX"}},
      {9, 2, 8, {"byte 9", "version 2"}},
      {17, 7, 1, {"byte 17", "type 7"}},
      {17, 200, 1, {"byte 17", "type"}},
      {18, 9, 8, {"byte 18", "9 sequences"}},
      {25, 0x80, 1, {"byte 18", "sequences"}},
      {34, 4, 4, {"byte 50", "sequence 1"}},
      {38, 3, 4, {"byte 38", "3 tokens"}},
      {37, 0xff, 1, {"byte 34", "-"}},
      {38, 1, 4, {"8 bytes", "10"}},
      {50, 4, 8, {"byte 50", "begins at byte 4"}},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    memcpy(index, good, sizeof good);
    number(index + wrong[i].at, (uint64_t)wrong[i].value, wrong[i].bytes);
    write_raw("m.idx", index, sizeof index);
    assert_fails(MAL_BAD, mal_tokens_open(&a, named("m.bin"), MAL_TOKENS_TELL, &f, &e), e, "m.idx", wrong[i].words[0],
                 wrong[i].words[1]);
  }
  for (size_t n = 0; n < sizeof good - 16; n++) {
    write_raw("m.idx", good, n);
    assert_fails(MAL_BAD, mal_tokens_open(&a, named("m"), MAL_TOKENS_TELL, &f, &e), e, "m.idx", "cut");
  }
  write_raw("m.idx", good, sizeof good);
  assert_ok(mal_tokens_open(&a, named("m"), MAL_TOKENS_TELL, &f, &e), e);
  assert_int_equal(f.tokens, 5);
  assert_int_equal(f.documents, 1);
  int64_t ids[5];
  assert_ok(mal_tokens_read(&f, 0, 5, 0, ids, &e), e);
  assert_int_equal(ids[4], '8' | '9' << 8);
  assert_int_equal(truncate(named("m.bin"), 7), 0);
  assert_fails(MAL_FAULT, mal_tokens_read(&f, 0, 5, 0, ids, &e), e, "m.bin", "byte 7", "cut");
  mal_tokens_close(&f);

  good[17] = 3; /* signed */
  number(good + 34, 3, 4);
  write_raw("m.bin", "\1\0\2\0\377\377\3\0\4\0", 10);
  write_raw("m.idx", good, sizeof good);
  assert_ok(mal_tokens_open(&a, named("m"), MAL_TOKENS_TELL, &f, &e), e);
  assert_fails(MAL_BAD, mal_tokens_read(&f, 0, 5, 0, ids, &e), e, "byte 4", "token 2", "negative: -1");
  mal_tokens_close(&f);
}

static void test_cannot_write(void **state) {
  (void)state;
  mal_token_writer *w;
  assert_fails(MAL_BAD, mal_tokens_create(&a, named("no/x.bin"), MAL_TOKENS_LLMC, 2, &w, &e), e, "no/x.bin");
  assert_fails(MAL_BAD, mal_tokens_create(&a, named("x.txt"), MAL_TOKENS_LLMC, 2, &w, &e), e, ".bin");
  assert_fails(MAL_BAD, mal_tokens_create(&a, folder, MAL_TOKENS_BYTES, 1, &w, &e), e, "folder");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_philox),          cmocka_unit_test(test_order_is_a_permutation),
      cmocka_unit_test(test_order_is_random), cmocka_unit_test(test_sequences),
      cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_wrong_files),
      cmocka_unit_test(test_cannot_write),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
