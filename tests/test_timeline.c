/* The trace is JSON with the keys that trace viewers need. */
#include "core/file.h"
#include "core/json.h"
#include "test.h"
#include "timeline/timeline.h"
#include <unistd.h>

static void writes_a_trace(void **state) {
  (void)state;
  mal_arena a;
  mal_error e;
  mal_timeline t;
  mal_json j;
  char path[] = "/tmp/malha-trace-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  mal_arena_init(&a);
  mal_timeline_init(&t, &a);
  t.process = "stage";
  enum { EVENTS = 5000 };
  for (int i = 0; i < EVENTS; i++)
    mal_timeline_add(&t, (mal_event){i % 2 ? "F \"quoted\"\\\n" : "all-reduce", i % 7, i % 8, i % 3 - 1, i % 5 - 1,
                                     i * 1e-3, i * 1e-3 + 5e-4});
  assert_int_equal(t.count, EVENTS);
  assert_ok(mal_timeline_write_chrome(&t, path, &e), e);
  assert_ok(mal_json_read(&a, path, &j, &e), e);
  json_t *events = json_object_get(j.root, "traceEvents"), *event;
  size_t index;
  int complete = 0, processes = 0, threads = 0;
  json_array_foreach(events, index, event) {
    const char *ph = json_string_value(json_object_get(event, "ph")),
               *name = json_string_value(json_object_get(event, "name"));
    assert_non_null(ph);
    assert_non_null(name);
    assert_true(json_is_integer(json_object_get(event, "pid")));
    if (strcmp(ph, "X") == 0) {
      assert_true(json_is_number(json_object_get(event, "ts")));
      assert_float_equal(json_number_value(json_object_get(event, "dur")), 500, 0.01);
      complete++;
    }
    processes += strcmp(name, "process_name") == 0;
    threads += strcmp(name, "thread_name") == 0;
  }
  assert_int_equal(complete, EVENTS);
  assert_int_equal(processes, 7);
  assert_int_equal(threads, 56);
  mal_json_free(&j);
  mal_arena_free(&a);
  unlink(path);
}

static void writes_nothing_well(void **state) {
  (void)state;
  mal_arena a;
  mal_error e;
  mal_timeline t;
  mal_json j;
  char path[] = "/tmp/malha-trace-XXXXXX";
  close(mkstemp(path));
  mal_arena_init(&a);
  mal_timeline_init(&t, &a);
  assert_ok(mal_timeline_write_chrome(&t, path, &e), e);
  assert_ok(mal_json_read(&a, path, &j, &e), e);
  mal_json_free(&j);
  mal_arena_free(&a);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(writes_a_trace), cmocka_unit_test(writes_nothing_well)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
