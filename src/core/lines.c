#include "core/lines.h"
#include "core/file.h"
#include "core/utf8.h"
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* UTF-16, with a byte order mark as PowerShell writes what is redirected, or without. */
static size_t from_utf16(const unsigned char *in, size_t length, char *out) {
  bool marked = (in[0] == 0xff && in[1] == 0xfe) || (in[0] == 0xfe && in[1] == 0xff),
       little = marked ? in[0] == 0xff : in[1] == 0;
  size_t used = 0;
  for (size_t i = marked ? 2 : 0; i + 1 < length; i += 2) {
    unsigned c = little ? in[i] | in[i + 1] << 8 : in[i + 1] | in[i] << 8;
    if (c < 0x80) {
      out[used++] = (char)c;
    } else if (c < 0x800) {
      out[used++] = (char)(0xc0 | c >> 6);
      out[used++] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0xd800 || c > 0xdfff) {
      out[used++] = (char)(0xe0 | c >> 12);
      out[used++] = (char)(0x80 | (c >> 6 & 0x3f));
      out[used++] = (char)(0x80 | (c & 0x3f));
    } else {
      out[used++] = '?';
    }
  }
  return used;
}

/* Drops ESC [ ... letter, in place. */
static size_t drop_escapes(char *text, size_t length) {
  char *from = memchr(text, 0x1b, length), *to = from, *end = text + length;
  if (!from) return length;
  while (from < end) {
    if (*from != 0x1b) {
      *to++ = *from++;
      continue;
    }
    from++;
    if (from < end && *from == '[') {
      for (from++; from < end && *from != '\n' && !(*from >= 0x40 && *from <= 0x7e);) from++;
      if (from < end && *from != '\n') from++;
    }
  }
  return (size_t)(to - text);
}

static bool is_control(unsigned char c) { return c < 0x20 && c != '\n' && c != '\t' && c != '\r'; }

/* Eight bytes at once: whether one is below 0x20 or above 0x7f. Most of a log's are neither. */
static bool odd_word(const char *at, uint64_t *high) {
  static const uint64_t ones = 0x0101010101010101ull;
  uint64_t x;
  memcpy(&x, at, sizeof x);
  *high |= x & 0x80 * ones;
  return ((x - 0x20 * ones) & ~x & 0x80 * ones) != 0;
}

/* Control characters other than the ends of lines and tabs, and what is not UTF-8, come back in messages and JSON: made plain. */
static void make_plain(char *text, size_t length) {
  uint64_t high = 0;
  size_t i = 0;
  for (; i + 8 <= length; i += 8) {
    if (!odd_word(text + i, &high)) continue;
    for (size_t k = i; k < i + 8; k++)
      if (is_control((unsigned char)text[k])) text[k] = ' ';
  }
  for (; i < length; i++) {
    high |= (unsigned char)text[i] & 0x80;
    if (is_control((unsigned char)text[i])) text[i] = ' ';
  }
  if (!high) return;
  for (size_t k = 0, step; k < length; k += step) {
    step = mal_utf8_step(text + k, length - k);
    if (step) continue;
    text[k] = '?';
    step = 1;
  }
}

size_t mal_text_clean(char *text, size_t length) {
  length = drop_escapes(text, length);
  make_plain(text, length);
  return length;
}

static void clean(mal_paste *p) {
  static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8 */
  if (p->length >= 3 && memcmp(p->text, mark, 3) == 0) p->text += 3, p->length -= 3;
  p->length = mal_text_clean(p->text, p->length);
  p->text[p->length] = 0;
}

static bool is_utf16(const char *text, size_t length) {
  const unsigned char *t = (const unsigned char *)text;
  if (length >= 2 && ((t[0] == 0xff && t[1] == 0xfe) || (t[0] == 0xfe && t[1] == 0xff))) return true;
  enum { LOOKED_AT = 512 };
  size_t zeros[2] = {0}, n = (length < LOOKED_AT ? length : LOOKED_AT) & ~(size_t)1;
  for (size_t i = 0; i < n; i++) zeros[i % 2] += t[i] == 0;
  return n >= 16 && ((zeros[0] == 0 && 2 * zeros[1] >= n * 9 / 10) || (zeros[1] == 0 && 2 * zeros[0] >= n * 9 / 10));
}

const char *mal_text_other(const char *text, size_t length) {
  static const struct {
    size_t at, length;
    const char *bytes, *what;
  } others[] = {
      {0, 2, "\x1f\x8b", N_("compressed by gzip: zcat it, and give - to read what comes")},
      {0, 4, "\x28\xb5\x2f\xfd", N_("compressed by zstd: zstdcat it, and give - to read what comes")},
      {0, 6,
       "\xfd"
       "7zXZ",
       N_("compressed by xz: xzcat it, and give - to read what comes")},
      {0, 3, "BZh", N_("compressed by bzip2: bzcat it, and give - to read what comes")},
      {0, 4, "PK\x03\x04", N_("a ZIP archive: unpack it")},
      {257, 5, "ustar", N_("a tar archive: unpack it")},
      {0, 4,
       "\x7f"
       "ELF",
       N_("a program, not a text")},
      {0, 4, "%PDF", N_("a PDF: give the text itself")},
      {0, 4, "\x89PNG", N_("an image: give the text itself")},
      {0, 3, "\xff\xd8\xff", N_("an image: give the text itself")},
      {0, 8, "LPKSHHRH", N_("a journal of systemd: journalctl --file FILE -k, and give its output")},
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (length >= others[i].at + others[i].length &&
        memcmp(text + others[i].at, others[i].bytes, others[i].length) == 0)
      return _(others[i].what);
  return NULL;
}

bool mal_text_is_wide(const char *text, size_t length) { return is_utf16(text, length); }

static void take_utf16(mal_arena *a, mal_paste *p) {
  const unsigned char *wide = (const unsigned char *)p->text;
  p->text = MAL_ARRAY(a, char, p->length / 2 * 3 + 1);
  p->length = from_utf16(wide, p->length, p->text);
}

mal_status mal_paste_load(mal_arena *a, const char *file, mal_paste *p, mal_error *e) {
  *p = (mal_paste){.file = strcmp(file, "-") == 0 ? _("standard input") : mal_copy(a, file)};
  mal_status s = mal_file_read(a, file, MAL_PASTE_LIMIT_BYTES, &p->text, &p->length, e);
  if (s != MAL_OK) return s;
  const char *other = mal_text_other(p->text, p->length);
  if (other) return mal_fail(e, MAL_BAD, _("%s is %s."), p->file, other);
  if (is_utf16(p->text, p->length)) take_utf16(a, p);
  clean(p);
  return MAL_OK;
}

void mal_paste_make(mal_arena *a, const char *file, const char *text, size_t length, mal_paste *p) {
  *p = (mal_paste){.file = file, .text = MAL_ARRAY(a, char, length + 1), .length = length};
  if (length) memcpy(p->text, text, length);
  if (is_utf16(p->text, p->length)) take_utf16(a, p);
  clean(p);
}

mal_lines mal_lines_of(const mal_paste *p) { return (mal_lines){.next = p->text, .end = p->text + p->length}; }

void mal_lines_end(mal_lines *l) {
  if (l->cut) *l->cut = l->was;
  l->cut = NULL;
}

bool mal_lines_next(mal_lines *l) {
  mal_lines_end(l);
  if (l->next >= l->end) return false;
  char *end = memchr(l->next, '\n', (size_t)(l->end - l->next));
  if (!end) end = l->end;
  l->line = l->next;
  l->next = end + 1;
  l->number++;
  l->cut = end > l->line && end[-1] == '\r' ? end - 1 : end;
  l->was = *l->cut;
  *l->cut = 0;
  l->length = (size_t)(l->cut - l->line);
  return true;
}

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f'; }

char *mal_word(mal_arena *a, const char **at) {
  const char *from = *at;
  while (blank(*from)) from++;
  const char *to = from;
  while (*to && !blank(*to)) to++;
  *at = to;
  if (to == from) return NULL;
  char *word = MAL_ARRAY(a, char, to - from + 1);
  memcpy(word, from, (size_t)(to - from));
  return word;
}

bool mal_number_at(const char *text, double *value) {
  while (blank(*text)) text++;
  const char *digit = *text == '-' || *text == '+' ? text + 1 : text;
  if (*digit == '.') digit++;
  if (!isdigit((unsigned char)*digit)) return false; /* no "inf", "nan" */
  char *end;
  double number = strtod(text, &end);
  if (end == text || !isfinite(number)) return false;
  *value = number;
  return true;
}

const char *mal_after(const char *text, const char *key) {
  const char *found = strstr(text, key);
  if (!found) return NULL;
  found += strlen(key);
  while (*found == ' ' || *found == '\t') found++;
  return found;
}

bool mal_starts(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

char *mal_trimmed(mal_arena *a, const char *text, size_t length) {
  while (length && blank(*text)) text++, length--;
  while (length && blank(text[length - 1])) length--;
  char *copy = MAL_ARRAY(a, char, length + 1);
  if (length) memcpy(copy, text, length);
  return copy;
}
