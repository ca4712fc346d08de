#include "engine/checkpoint/checkpoint.h"
#include "test.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static mal_arena a;
static mal_error e;

static int tear_down(void **state) {
  (void)state;
  mal_arena_free(&a);
  return 0;
}

/* --- a model, and ranks that hold it: tp cuts rows of "up", columns of "down"; the norm is on all; ZeRO-1 over dp ------------- */

static mal_tensor list[] = {{.name = "embed", .rows = 24, .cols = 6},
                            {.name = "up", .rows = 12, .cols = 5},
                            {.name = "down", .rows = 5, .cols = 12},
                            {.name = "norm", .rows = 7, .cols = 1},
                            {.name = "head", .rows = 24, .cols = 6}};
static const mal_tensors tensors = {list, 5};

static float value(int step, int tensor, int kind, int64_t row, int64_t col) {
  return (float)(step * 100000 + tensor * 10000 + kind * 3000 + row * 31 + col) * 0.5f;
}

enum { MOST = 8 };
typedef struct ranks {
  int n;
  mal_rank_state at[MOST];
} ranks;

static void add_piece(mal_piece *p, int *n, int64_t *at, mal_piece x) {
  x.at = *at;
  *at += x.rows * x.cols;
  p[(*n)++] = x;
}

/* Ranks tp fastest, then dp. With zero, the moments of the flat space are cut at any element. */
static ranks hold(int tp, int dp, bool zero) {
  ranks r = {.n = tp * dp};
  for (int d = 0; d < dp; d++)
    for (int t = 0; t < tp; t++) {
      mal_rank_state *s = &r.at[d * tp + t];
      mal_piece *p = MAL_ARRAY(&a, mal_piece, 8);
      mal_shard *x = MAL_ARRAY(&a, mal_shard, 1);
      int n = 0;
      int64_t at = 0;
      for (int i = 0; i < tensors.count; i++) {
        mal_piece whole = {.tensor = i, .rows = list[i].rows, .cols = list[i].cols, .owned = true};
        if (i == 2) {
          whole.cols /= tp;
          whole.col = t * whole.cols;
        } else if (i != 3) {
          whole.rows /= tp;
          whole.row = t * whole.rows;
        } else {
          whole.owned = t == 0;
        }
        if (i == 3) at += 3; /* padding */
        add_piece(p, &n, &at, whole);
      }
      int64_t each = zero ? (at + dp - 1) / dp : at, first = zero ? d * each : 0;
      x[0] = (mal_shard){.at = first, .n = first + each < at ? each : at - first, .state = 0};
      *s = (mal_rank_state){.rank = d * tp + t,
                            .pieces = p,
                            .n_pieces = n,
                            .shards = x,
                            .n_shards = 1,
                            .elements = at,
                            .state_elements = each,
                            .param = MAL_ARRAY(&a, float, at),
                            .owns_param = d == 0,
                            .moment = {MAL_ARRAY(&a, float, each), MAL_ARRAY(&a, float, each)}};
    }
  return r;
}

typedef void visitor(float *x, float want);
static void set(float *x, float want) { *x = want; }
static void forget(float *x, float want) { (void)want, *x = -1; }
static void equal(float *x, float want) { assert_true(*x == want); }

static void visit(const ranks *r, int step, visitor *what) {
  for (int i = 0; i < r->n; i++)
    for (int k = 0; k < r->at[i].n_pieces; k++) {
      const mal_rank_state *s = &r->at[i];
      const mal_piece *p = &s->pieces[k];
      for (int64_t row = 0; row < p->rows; row++)
        for (int64_t col = 0; col < p->cols; col++) {
          int64_t at = p->at + row * p->cols + col, in_shard = at - s->shards[0].at;
          what(&s->param[at], value(step, p->tensor, 0, p->row + row, p->col + col));
          for (int m = 0; m < 2 && in_shard >= 0 && in_shard < s->shards[0].n; m++)
            what(&s->moment[m][in_shard], value(step, p->tensor, 1 + m, p->row + row, p->col + col));
        }
    }
}

static mal_status save(mal_files *f, const char *folder, const ranks *r, int step) {
  const mal_checkpoint c = {.step = step,
                            .sequences = step * 8,
                            .seed = UINT64_MAX,
                            .warmup = 3,
                            .ranks = r->n,
                            .model = "toy",
                            .layout = "tp=2"};
  visit(r, step, set);
  mal_status status = mal_checkpoint_begin(f, folder, step, &e);
  for (int i = 0; i < r->n && !status; i++) status = mal_checkpoint_shard(f, folder, step, &r->at[i], &e);
  return status ? status : mal_checkpoint_commit(f, folder, &c, &tensors, MAL_CHECKPOINTS_KEPT, &e);
}

static void load(const mal_checkpoint_found *found, const ranks *r) {
  visit(r, 0, forget);
  for (int i = 0; i < r->n; i++) {
    mal_rank_state s = r->at[i];
    assert_ok(mal_checkpoint_load(found, &tensors, &s, &e), e);
  }
  visit(r, (int)found->says.step, equal);
}

/* --- any layout to any other -------------------------------------------------------------------------------------------------- */

static void test_ranges_are_cut_anew(void **state) {
  (void)state;
  static const struct {
    int tp, dp;
    bool zero;
  } layouts[] = {{1, 1, 0}, {2, 1, 0}, {1, 3, 1}, {2, 2, 1}, {3, 1, 1}, {1, 2, 0}, {4, 2, 1}, {1, 7, 1}, {6, 1, 0}};
  enum { LAYOUTS = sizeof layouts / sizeof *layouts };
  for (int i = 0; i < LAYOUTS; i++) {
    mal_files *f = mal_files_simulated();
    ranks from = hold(layouts[i].tp, layouts[i].dp, layouts[i].zero);
    assert_ok(save(f, "/out", &from, 12), e);
    mal_checkpoint_found found;
    assert_ok(mal_checkpoint_find(&a, f, "/out", &found, &e), e);
    assert_int_equal(found.says.step, 12);
    assert_int_equal(found.says.sequences, 96);
    assert_true(found.says.seed == UINT64_MAX);
    assert_int_equal(found.says.warmup, 3);
    assert_int_equal(found.says.ranks, from.n);
    assert_string_equal(found.says.layout, "tp=2");
    for (int k = 0; k < LAYOUTS; k++) {
      ranks to = hold(layouts[k].tp, layouts[k].dp, layouts[k].zero);
      load(&found, &to);
    }
    mal_files_simulated_free(f);
  }
}

/* Nothing is written twice: numbers in all shards are the model's three times over. */
static void test_each_number_once(void **state) {
  (void)state;
  int64_t numbers = 0;
  for (int i = 0; i < tensors.count; i++) numbers += 3 * list[i].rows * list[i].cols;
  for (int zero = 0; zero < 2; zero++) {
    mal_files *f = mal_files_simulated();
    ranks r = hold(2, 3, zero);
    assert_ok(save(f, "/out", &r, 1), e);
    mal_checkpoint_found found;
    assert_ok(mal_checkpoint_find(&a, f, "/out", &found, &e), e);
    int64_t bytes = 0;
    for (int i = 0; i < r.n; i++) {
      mal_handle *h;
      uint32_t rectangles;
      int64_t got;
      assert_int_equal(f->open(f, mal_print(&a, "%s/%s", found.path, found.shards[i].name), false, &h), 0);
      assert_int_equal(f->read(h, 12, &rectangles, 4, &got), 0);
      f->close(h);
      bytes += found.shards[i].bytes - 24 - 48 * (int64_t)rectangles - 16;
    }
    assert_int_equal(bytes, 4 * numbers);
    mal_files_simulated_free(f);
  }
}

static void test_another_model(void **state) {
  (void)state;
  mal_files *f = mal_files_simulated();
  ranks r = hold(2, 1, false);
  mal_checkpoint_found found;
  assert_fails(MAL_NO, mal_checkpoint_find(&a, f, "/out", &found, &e), e, "/out", "no checkpoint");
  assert_ok(save(f, "/out", &r, 1), e);
  assert_ok(mal_checkpoint_find(&a, f, "/out", &found, &e), e);
  mal_tensor other[5];
  mal_tensors others = {other, 5};
  memcpy(other, list, sizeof list);
  other[1].name = "gate";
  assert_fails(MAL_BAD, mal_checkpoint_load(&found, &others, &r.at[0], &e), e, "gate", "another model (toy)");
  memcpy(other, list, sizeof list);
  other[4].rows = 48;
  assert_fails(MAL_BAD, mal_checkpoint_load(&found, &others, &r.at[0], &e), e, "head is 24", "48");
  mal_files_simulated_free(f);
}

/* --- the machine stops at every operation ------------------------------------------------------------------------------------- */

/* Saves steps 1, 2, ... until one fails; how many were committed. */
static int run(mal_files *f, const ranks *r, int from, int steps) {
  int done = from - 1;
  while (done < steps && save(f, "/out", r, done + 1) == MAL_OK) done++;
  return done;
}

static void test_always_a_valid_one(void **state) {
  (void)state;
  ranks r = hold(2, 1, false), other = hold(1, 2, true);
  int stops = 0, crashes = 0;
  for (bool more = true; more; stops++)
    for (int luck = 0; luck < 12; luck++) {
      mal_files *f = mal_files_simulated();
      mal_files_stop_at(f, stops);
      int done = run(f, &r, 1, 4);
      more = mal_files_stopped(f);
      mal_files_crash(f, luck < 2 ? luck : 2, (uint64_t)(stops * 100 + luck));
      mal_checkpoint_found found;
      mal_status status = mal_checkpoint_find(&a, f, "/out", &found, &e);
      if (done == 0 && status == MAL_NO) {
        found.says.step = 0;
      } else {
        assert_ok(status, e);
        assert_in_range(found.says.step, done, done + 1);
        assert_null(found.passed_over); /* a name is given to whole ones only */
        load(&found, &other);
      }
      crashes++;
      /* and the run goes on from there, over what was left lying about; the step under way is reached again */
      int next = (int)found.says.step + 1;
      assert_int_equal(run(f, &r, next, next + 1), next + 1);
      assert_ok(mal_checkpoint_find(&a, f, "/out", &found, &e), e);
      assert_int_equal(found.says.step, next + 1);
      load(&found, &other);
      const char **names;
      int n;
      assert_int_equal(f->list(f, &a, "/out", &names, &n), 0);
      assert_true(n <= MAL_CHECKPOINTS_KEPT);
      mal_files_simulated_free(f);
      mal_arena_reset(&a);
      r = hold(2, 1, false);
      other = hold(1, 2, true);
    }
  assert_true(stops > 60 && crashes == 12 * stops);
  print_message("stopped at each of %d operations, %d crashes\n", stops - 1, crashes);
}

/* A step that is reached again, as after resuming from an older one, never replaces what stands. */
static void test_a_step_twice(void **state) {
  (void)state;
  mal_files *f = mal_files_simulated();
  ranks r = hold(1, 1, false);
  mal_checkpoint_found found;
  for (int i = 0; i < 3; i++) assert_ok(save(f, "/out", &r, 5), e);
  assert_ok(mal_checkpoint_find(&a, f, "/out", &found, &e), e);
  assert_non_null(strstr(found.path, "step-00000005.2"));
  mal_files_simulated_free(f);
}

static void test_disk_full(void **state) {
  (void)state;
  int full = 0;
  for (int64_t room = 0; room < 40000; room += 777) {
    mal_files *f = mal_files_simulated();
    ranks r = hold(2, 1, false);
    mal_files_room(f, room);
    int done = run(f, &r, 1, 6);
    if (done < 6) {
      full++;
      assert_int_equal(e.status, MAL_FAULT);
      assert_non_null(strstr(e.text, "no space left"));
    }
    mal_checkpoint_found found;
    if (done) {
      assert_ok(mal_checkpoint_find(&a, f, "/out", &found, &e), e);
      assert_int_equal(found.says.step, done);
    }
    mal_files_simulated_free(f);
  }
  assert_in_range(full, 5, 50);
}

/* --- damage --------------------------------------------------------------------------------------------------------------------- */

static int64_t size_of(mal_files *f, const char *path) {
  mal_handle *h;
  int64_t bytes;
  assert_int_equal(f->open(f, path, false, &h), 0);
  assert_int_equal(f->size(h, &bytes), 0);
  f->close(h);
  return bytes;
}

static char *bytes_of(mal_files *f, const char *path, int64_t n) {
  mal_handle *h;
  int64_t got;
  char *bytes = mal_alloc(&a, (size_t)n + 1);
  assert_int_equal(f->open(f, path, false, &h), 0);
  assert_int_equal(f->read(h, 0, bytes, n, &got), 0);
  f->close(h);
  return bytes;
}

static void replace(mal_files *f, const char *path, const char *bytes, int64_t n) {
  mal_handle *h;
  assert_int_equal(f->open(f, path, true, &h), 0);
  assert_int_equal(f->write(h, 0, bytes, n), 0);
  f->close(h);
}

static void one_before_is_used(mal_files *f, const char *file) {
  mal_checkpoint_found found;
  assert_ok(mal_checkpoint_find(&a, f, "/out", &found, &e), e);
  assert_int_equal(found.says.step, 1);
  assert_non_null(found.passed_over);
  if (!strstr(found.passed_over, file)) fail_msg("%s is not in: %s", file, found.passed_over);
}

static void test_damage_is_named_and_the_one_before_used(void **state) {
  (void)state;
  static const char *const files[] = {"rank-00000.shard", "rank-00001.shard", "manifest.json"};
  mal_files *f = mal_files_simulated();
  ranks r = hold(2, 1, false);
  assert_int_equal(run(f, &r, 1, 2), 2);
  for (int i = 0; i < 3; i++) {
    const char *path = mal_print(&a, "/out/step-00000002/%s", files[i]);
    int64_t n = size_of(f, path);
    char *good = bytes_of(f, path, n), *bad = mal_alloc(&a, (size_t)n);
    for (int64_t at = 0; at < n; at += at < 400 ? 1 : 37) {
      memcpy(bad, good, (size_t)n);
      bad[at] ^= (char)(1 << at % 7);
      replace(f, path, bad, n);
      one_before_is_used(f, files[i]);
      if (at % 3) continue;
      replace(f, path, good, at);
      one_before_is_used(f, files[i]);
    }
    replace(f, path, good, n);
    mal_checkpoint_found found;
    assert_ok(mal_checkpoint_find(&a, f, "/out", &found, &e), e);
    assert_int_equal(found.says.step, 2);
    assert_int_equal(f->remove(f, path), 0);
    one_before_is_used(f, files[i]);
    replace(f, path, good, n);
  }
  assert_int_equal(f->remove(f, "/out/step-00000001/rank-00000.shard"), 0);
  assert_int_equal(f->remove(f, "/out/step-00000002/rank-00001.shard"), 0);
  mal_checkpoint_found found;
  assert_fails(MAL_NO, mal_checkpoint_find(&a, f, "/out", &found, &e), e, "none of its 2",
               "step-00000001/rank-00000.shard", "step-00000002/rank-00001.shard");
  mal_files_simulated_free(f);
}

/* --- on a disk -------------------------------------------------------------------------------------------------------------------- */

static void test_on_disk(void **state) {
  (void)state;
  char folder[] = "/tmp/malha-checkpoint-XXXXXX", command[128];
  assert_non_null(mkdtemp(folder));
  const char *out = mal_print(&a, "%s/out", folder);
  ranks r = hold(2, 2, true), other = hold(3, 1, false);
  mal_checkpoint_found found;
  assert_int_equal(run(&mal_files_disk, &r, 1, 0), 0);
  for (int step = 1; step <= 4; step++) assert_ok(save(&mal_files_disk, out, &r, step), e);
  assert_ok(mal_checkpoint_find(&a, &mal_files_disk, out, &found, &e), e);
  assert_int_equal(found.says.step, 4);
  load(&found, &other);
  const char **names;
  int n;
  assert_int_equal(mal_files_disk.list(&mal_files_disk, &a, out, &names, &n), 0);
  assert_int_equal(n, MAL_CHECKPOINTS_KEPT);
  assert_int_equal(truncate(mal_print(&a, "%s/rank-00003.shard", found.path), 100), 0);
  assert_ok(mal_checkpoint_find(&a, &mal_files_disk, out, &found, &e), e);
  assert_int_equal(found.says.step, 3);
  assert_non_null(strstr(found.passed_over, "rank-00003.shard: has 100 bytes"));
  assert_fails(MAL_FAULT, mal_checkpoint_begin(&mal_files_disk, mal_print(&a, "%s/no/out", folder), 1, &e), e,
               "no/out");
  snprintf(command, sizeof command, "rm -rf %s", folder);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ranges_are_cut_anew),
      cmocka_unit_test(test_each_number_once),
      cmocka_unit_test(test_another_model),
      cmocka_unit_test(test_always_a_valid_one),
      cmocka_unit_test(test_a_step_twice),
      cmocka_unit_test(test_disk_full),
      cmocka_unit_test(test_damage_is_named_and_the_one_before_used),
      cmocka_unit_test(test_on_disk),
  };
  return cmocka_run_group_tests(tests, NULL, tear_down);
}
