/* core/words.h against strstr, on texts of few letters, where words overlap and hold each other. */
#include "core/words.h"
#include "test.h"
#include <stdlib.h>

static void random_text(unsigned *seed, char *text, int length, const char *letters) {
  size_t n = strlen(letters);
  for (int i = 0; i < length; i++)
    text[i] = letters[(*seed = *seed * 1664525u + 1013904223u) >> 16 & 0xff ? (*seed >> 20) % n : 0];
  text[length] = 0;
}

static void test_as_strstr(void **state) {
  unsigned seed = 7;
  (void)state;
  for (int round = 0; round < 300; round++) {
    char words[MAL_WORDS_MAX][12], text[400];
    const char *list[MAL_WORDS_MAX];
    int n = 1 + (int)((seed >> 8) % MAL_WORDS_MAX);
    mal_arena a;
    mal_arena_init(&a);
    for (int i = 0; i < n; i++) {
      random_text(&seed, words[i], 1 + (int)((seed >> 10) % 9), "abc ");
      list[i] = words[i];
    }
    random_text(&seed, text, 300, "abcd \n");
    const mal_words *w = mal_words_make(&a, list, n);
    const char *end = text + strlen(text);
    for (const char *at = text; at < end;) {
      uint64_t found, wanted = 0;
      const char *stop = mal_words_in_line(w, at, end, &found);
      char line[400];
      snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
      assert_true(stop == at + strlen(line));
      for (int i = 0; i < n; i++) wanted |= (uint64_t)(strstr(line, words[i]) != NULL) << i;
      assert_true(found == wanted && mal_words_in(w, line, strlen(line)) == wanted);
      at = stop + 1;
    }
    mal_arena_free(&a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_strstr)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
