/* Nearness is Damerau-Levenshtein distance (optimal string alignment) without case, '_' and '.' as '-';
 * a name that contains the word is near too. Words are compared up to LONGEST bytes, so the cost is bounded. */
#include "core/suggest.h"
#include "core/status.h"
#include <stdio.h>
#include <string.h>

enum { LONGEST = 64, SHOWN = 3 };

static size_t fold(char *out, const char *word) {
  size_t n = 0;
  for (; word[n] && n < LONGEST; n++) {
    char c = word[n];
    out[n] = c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c == '_' || c == '.' ? '-' : c;
  }
  out[n] = '\0';
  return n;
}

static int least(int a, int b) { return a < b ? a : b; }

static int distance(const char *a, size_t n, const char *b, size_t m) {
  int rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *row = rows[2];
  for (size_t j = 0; j <= m; j++) last[j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = least(row[j], before[j - 2] + 1);
    }
    int *free_row = before;
    before = last;
    last = row;
    row = free_row;
  }
  return last[m];
}

void mal_suggest(const char *word, const char *const *names, size_t count, char *out, size_t size) {
  char folded[LONGEST + 1], name[LONGEST + 1];
  size_t best[SHOWN] = {0}, n = fold(folded, word), found = 0;
  int score[SHOWN] = {0}, bound = n < 3 ? 1 : 1 + (int)n / 3;
  if (size) *out = '\0';
  for (size_t i = 0; i < count; i++) {
    size_t m = fold(name, names[i]);
    int d = distance(folded, n, name, m);
    const char *part = n >= 2 ? strstr(name, folded) : NULL;
    if (part) d = least(d, part == name || part[-1] == '-' ? 1 : 2);
    if (d > bound) continue;
    if (found == SHOWN && score[SHOWN - 1] <= d) continue;
    size_t at = found < SHOWN ? found++ : SHOWN - 1;
    for (; at > 0 && score[at - 1] > d; at--) {
      score[at] = score[at - 1];
      best[at] = best[at - 1];
    }
    score[at] = d;
    best[at] = i;
  }
  size_t used = 0;
  for (size_t k = 0; k < found && used < size; k++) {
    const char *joint = k == 0 ? "" : k + 1 == found ? _(" or ") : ", ";
    int put = snprintf(out + used, size - used, "%s%s", joint, names[best[k]]);
    if (put < 0 || (size_t)put >= size - used) {
      out[used] = '\0';
      return;
    }
    used += (size_t)put;
  }
}
