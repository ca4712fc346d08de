/* One step through UTF-8. */
#ifndef MAL_CORE_UTF8_H
#define MAL_CORE_UTF8_H
#include <stdbool.h>
#include <stddef.h>

/* Bytes of the well-formed character at text (Unicode 15, Table 3-7), 0 when it is none. left >= 1. */
static inline size_t mal_utf8_step(const char *text, size_t left) {
  const unsigned char *t = (const unsigned char *)text;
  unsigned char low = 0x80, high = 0xbf;
  size_t n;
  if (t[0] < 0x80) return 1;
  if (t[0] >= 0xc2 && t[0] <= 0xdf) {
    n = 2;
  } else if (t[0] >= 0xe0 && t[0] <= 0xef) {
    n = 3;
    if (t[0] == 0xe0) low = 0xa0;  /* overlong */
    if (t[0] == 0xed) high = 0x9f; /* surrogates */
  } else if (t[0] >= 0xf0 && t[0] <= 0xf4) {
    n = 4;
    if (t[0] == 0xf0) low = 0x90;
    if (t[0] == 0xf4) high = 0x8f; /* above U+10FFFF */
  } else {
    return 0;
  }
  if (left < n || t[1] < low || t[1] > high) return 0;
  for (size_t i = 2; i < n; i++)
    if ((t[i] & 0xc0) != 0x80) return 0;
  return n;
}

/* Characters of a well-formed text: its width on a terminal, near enough for Latin scripts. */
static inline size_t mal_utf8_width(const char *text) {
  size_t n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
  return n;
}
#endif
