#include "core/file.h"
#include "test.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/malha-test-XXXXXX";
static mal_arena a;
static mal_error e;
static char *text;
static size_t length;

static int set_up(void **state) {
  (void)state;
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  mal_arena_free(&a);
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return chdir("/") || system(command);
}

static void put(const char *path, const char *words) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(words, f);
  fclose(f);
}

static void test_read(void **state) {
  (void)state;
  put("a", "hello");
  assert_ok(mal_file_read(&a, "a", 100, &text, &length, &e), e);
  assert_string_equal(text, "hello");
  assert_int_equal(length, 5);
  assert_ok(mal_file_read(&a, "a", 5, &text, &length, &e), e); /* exactly the limit */
  put("empty", "");
  assert_ok(mal_file_read(&a, "empty", 100, &text, &length, &e), e);
  assert_int_equal(length, 0);
  assert_string_equal(text, "");
  assert_ok(mal_file_read(&a, "/proc/self/status", 1 << 20, &text, &length, &e), e); /* says size 0 */
  assert_true(length > 100);
}

static void test_read_refused(void **state) {
  (void)state;
  put("a", "hello");
  assert_fails(MAL_BAD, mal_file_read(&a, "missing", 9, &text, &length, &e), e, "missing: there is no such file");
  assert_null(text);
  assert_fails(MAL_BAD, mal_file_read(&a, "", 9, &text, &length, &e), e, "empty");
  assert_fails(MAL_BAD, mal_file_read(&a, "a/b", 9, &text, &length, &e), e, "not a folder");
  assert_fails(MAL_BAD, mal_file_read(&a, ".", 9, &text, &length, &e), e, "is a folder");
  assert_fails(MAL_BAD, mal_file_read(&a, "a", 4, &text, &length, &e), e, "5 B", "4 B");
  assert_fails(MAL_BAD, mal_file_read(&a, "/proc/self/status", 4, &text, &length, &e), e, "larger than 4 B");
  assert_fails(MAL_BAD, mal_file_read(&a, "/dev/zero", 9, &text, &length, &e), e, "not a regular file");
  assert_int_equal(mkfifo("fifo", 0600), 0);
  assert_fails(MAL_BAD, mal_file_read(&a, "fifo", 9, &text, &length, &e), e, "not a regular file"); /* no hang */
  assert_int_equal(symlink("loop", "loop"), 0);
  assert_fails(MAL_BAD, mal_file_read(&a, "loop", 9, &text, &length, &e), e, "symbolic links");
  char longest[6000];
  memset(longest, 'n', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  assert_fails(MAL_BAD, mal_file_read(&a, longest, 9, &text, &length, &e), e, "too long");
}

static void as_nobody(int begin) {
  if (geteuid() == 0 && begin) assert_int_equal(seteuid(65534), 0);
  if (!begin && getuid() == 0) assert_int_equal(seteuid(0), 0);
}

static void test_permission(void **state) {
  (void)state;
  put("secret", "x");
  assert_int_equal(chmod("secret", 0), 0);
  assert_int_equal(chmod(".", 0555), 0);
  as_nobody(1);
  mal_status reading = mal_file_read(&a, "secret", 9, &text, &length, &e);
  mal_error first = e;
  mal_status writing = mal_file_write("new", "x", 1, &e);
  as_nobody(0);
  assert_int_equal(chmod(".", 0755), 0);
  assert_int_equal(reading, MAL_BAD);
  assert_non_null(strstr(first.text, "no permission to read"));
  assert_int_equal(writing, MAL_BAD);
  assert_non_null(strstr(e.text, "no permission to write"));
}

static void test_standard_input(void **state) {
  (void)state;
  int ends[2], kept = dup(0);
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], "piped", 5), 5);
  close(ends[1]);
  dup2(ends[0], 0);
  assert_ok(mal_file_read(&a, "-", 9, &text, &length, &e), e);
  assert_string_equal(text, "piped");
  close(ends[0]);
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], "0123456789", 10), 10);
  close(ends[1]);
  dup2(ends[0], 0);
  assert_fails(MAL_BAD, mal_file_read(&a, "-", 9, &text, &length, &e), e, "standard input", "9 B");
  close(ends[0]);
  dup2(kept, 0);
  close(kept);
}

static void assert_holds(const char *path, const char *words) {
  assert_ok(mal_file_read(&a, path, 100, &text, &length, &e), e);
  assert_string_equal(text, words);
}

static void test_write(void **state) {
  (void)state;
  struct stat s;
  umask(022);
  assert_ok(mal_file_write("w", "one", 3, &e), e);
  assert_holds("w", "one");
  assert_int_equal(stat("w", &s), 0);
  assert_int_equal(s.st_mode & 0777, 0644);
  assert_int_equal(chmod("w", 0600), 0);
  assert_int_equal(symlink("w", "link"), 0);
  assert_ok(mal_file_write("link", "two", 3, &e), e);
  assert_holds("w", "two"); /* through the link, which stays one; the mode stays too */
  assert_int_equal(lstat("link", &s), 0);
  assert_true(S_ISLNK(s.st_mode));
  assert_int_equal(stat("w", &s), 0);
  assert_int_equal(s.st_mode & 0777, 0600);
  assert_ok(mal_file_write("w", "", 0, &e), e);
  assert_holds("w", "");
  assert_ok(mal_file_write("/dev/null", "x", 1, &e), e);
  assert_int_equal(stat("/dev/null", &s), 0);
  assert_true(S_ISCHR(s.st_mode));
}

static void test_write_refused(void **state) {
  (void)state;
  assert_fails(MAL_BAD, mal_file_write("", "x", 1, &e), e, "empty");
  assert_fails(MAL_BAD, mal_file_write("no/such", "x", 1, &e), e, "folder does not exist");
  assert_fails(MAL_BAD, mal_file_write(".", "x", 1, &e), e, "is a folder");
  assert_fails(MAL_FAULT, mal_file_write("/dev/full", "x", 1, &e), e, "no space left");
}

/* When writing breaks half way, the old file is whole and nothing else is left behind. */
static void test_write_is_all_or_nothing(void **state) {
  (void)state;
  struct rlimit old, small;
  char big[8192] = {0};
  assert_ok(mal_file_write("kept", "old", 3, &e), e);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 4096;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  mal_status status = mal_file_write("kept", big, sizeof big, &e);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  assert_int_equal(status, MAL_FAULT);
  assert_holds("kept", "old");
  assert_int_not_equal(system("ls kept.* >/dev/null 2>&1"), 0);
}

/* A run that is killed while it writes leaves the old file, and one draft that the next run takes over. */
static void test_write_killed(void **state) {
  (void)state;
  assert_ok(mal_file_write("plan", "old", 3, &e), e);
  for (int run = 0; run < 5; run++) {
    pid_t child = fork();
    if (child == 0) {
      mal_draft draft;
      if (mal_draft_open(&a, "plan", true, &draft, &e) || write(draft.fd, "half a new one", 4) != 4) _exit(1);
      raise(SIGKILL);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    assert_holds("plan", "old");
    assert_int_equal(system("test $(ls -A | grep -c '^[.]*plan') = 2"), 0);
  }
  assert_ok(mal_file_write("plan", "new", 3, &e), e);
  assert_holds("plan", "new");
  assert_int_equal(system("test $(ls -A | grep -c '^[.]*plan') = 1"), 0);
}

/* Writers of one target at a time never mix: each content is whole, and all of them succeed. */
static void test_write_together(void **state) {
  (void)state;
  enum { WRITERS = 8, TIMES = 25, SIZE = 20000 };
  static char content[SIZE];
  pid_t children[WRITERS];
  for (int w = 0; w < WRITERS; w++)
    if ((children[w] = fork()) == 0) {
      memset(content, 'a' + w, SIZE);
      for (int i = 0; i < TIMES; i++)
        if (mal_file_write("shared", content, SIZE, &e)) _exit(1);
      _exit(0);
    }
  for (int w = 0; w < WRITERS; w++) {
    int how;
    assert_int_equal(waitpid(children[w], &how, 0), children[w]);
    assert_int_equal(how, 0);
  }
  assert_ok(mal_file_read(&a, "shared", 2 * SIZE, &text, &length, &e), e);
  assert_int_equal(length, SIZE);
  for (size_t i = 1; i < length; i++) assert_int_equal(text[i], text[0]);
  mal_draft first, second;
  assert_ok(mal_draft_open(&a, "shared", false, &first, &e), e);
  assert_fails(MAL_BAD, mal_draft_open(&a, "shared", false, &second, &e), e, "shared", "another run is writing it");
  mal_draft_drop(&second);
  mal_draft_drop(&first);
  assert_int_equal(access("shared.malha-draft", F_OK), -1);
}

static void test_utf8(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int bad; /* offset, -1 for none */
  } cases[] = {
      {"", -1},
      {"plain", -1},
      {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", -1},
      {"a\x80", 1},
      {"ab\xc3", 2},
      {"\xc0\x80", 0},
      {"\xe0\x80\x80", 0},
      {"\xed\xa0\x80", 0},
      {"\xf4\x90\x80\x80", 0},
      {"\xf8\x88", 0},
      {"x\xe2\x82", 1},
      {"\xf4\x8f\xbf\xbf", -1},
      {"\xff", 0},
      {"\xf0\x8f\xbf\xbf", 0},
      {"ok\xe2(\xa1", 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t at = 999;
    bool valid = mal_utf8_valid(cases[i].text, strlen(cases[i].text), &at);
    assert_int_equal(valid, cases[i].bad < 0);
    if (!valid) assert_int_equal(at, cases[i].bad);
  }
  assert_false(mal_utf8_valid("\xff", 1, NULL));
}

static void test_lines(void **state) {
  (void)state;
  assert_int_equal(mal_line_of("", 0), 1);
  assert_int_equal(mal_line_of("a\nb\nc", 1), 1);
  assert_int_equal(mal_line_of("a\nb\nc", 2), 2);
  assert_int_equal(mal_line_of("a\nb\nc", 5), 3);
  assert_true(mal_is_directory("."));
  assert_false(mal_is_directory("nothing"));
  assert_false(mal_is_file("."));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_read),
      cmocka_unit_test(test_read_refused),
      cmocka_unit_test(test_permission),
      cmocka_unit_test(test_standard_input),
      cmocka_unit_test(test_write),
      cmocka_unit_test(test_write_refused),
      cmocka_unit_test(test_write_is_all_or_nothing),
      cmocka_unit_test(test_write_killed),
      cmocka_unit_test(test_write_together),
      cmocka_unit_test(test_utf8),
      cmocka_unit_test(test_lines),
  };
  signal(SIGXFSZ, SIG_IGN);
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
