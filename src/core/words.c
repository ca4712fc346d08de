#include "core/words.h"
#include <string.h>

struct mal_words {
  uint8_t class_of[256];      /* 0: bytes of no word */
  int classes, states, quiet; /* states below `quiet` end no word */
  uint16_t *next;             /* [state * classes + class] */
  uint64_t *ends;             /* words that end in a state */
};

typedef struct building {
  uint16_t *next, *fail;
  uint64_t *ends;
  int classes, states;
} building;

static void add_word(building *b, const uint8_t *class_of, const char *word, int bit) {
  int s = 0;
  for (const char *c = word; *c; c++) {
    uint16_t *to = &b->next[s * b->classes + class_of[(unsigned char)*c]];
    if (!*to) *to = (uint16_t)b->states++;
    s = *to;
  }
  b->ends[s] |= 1ull << bit;
}

/* Breadth first: where a state has no way on, it goes where its longest proper suffix goes. */
static void close_states(mal_arena *a, building *b) {
  uint16_t *queue = MAL_ARRAY(a, uint16_t, b->states);
  int head = 0, tail = 0;
  for (int c = 0; c < b->classes; c++)
    if (b->next[c]) queue[tail++] = b->next[c];
  while (head < tail) {
    int s = queue[head++];
    b->ends[s] |= b->ends[b->fail[s]];
    for (int c = 0; c < b->classes; c++) {
      uint16_t *to = &b->next[s * b->classes + c], other = b->next[b->fail[s] * b->classes + c];
      if (*to) {
        b->fail[*to] = other;
        queue[tail++] = *to;
      } else {
        *to = other;
      }
    }
  }
}

/* States that end a word come last, so that one comparison tells them. */
static void renumber(mal_arena *a, mal_words *w, const building *b) {
  uint16_t *name = MAL_ARRAY(a, uint16_t, b->states);
  int n = 0;
  for (int s = 0; s < b->states; s++)
    if (!b->ends[s]) name[s] = (uint16_t)n++;
  w->quiet = n;
  for (int s = 0; s < b->states; s++)
    if (b->ends[s]) name[s] = (uint16_t)n++;
  for (int s = 0; s < b->states; s++) {
    w->ends[name[s]] = b->ends[s];
    for (int c = 0; c < b->classes; c++) w->next[name[s] * b->classes + c] = name[b->next[s * b->classes + c]];
  }
}

mal_words *mal_words_make(mal_arena *a, const char *const *words, int n) {
  mal_words *w = MAL_NEW(a, mal_words);
  size_t letters = 1;
  w->classes = 1;
  for (int i = 0; i < n; i++)
    for (const unsigned char *c = (const unsigned char *)words[i]; *c; c++, letters++)
      if (!w->class_of[*c]) w->class_of[*c] = (uint8_t)w->classes++;
  building b = {.classes = w->classes, .states = 1};
  b.next = MAL_ARRAY(a, uint16_t, letters * (size_t)w->classes);
  b.fail = MAL_ARRAY(a, uint16_t, letters);
  b.ends = MAL_ARRAY(a, uint64_t, letters);
  for (int i = 0; i < n && i < MAL_WORDS_MAX; i++) add_word(&b, w->class_of, words[i], i);
  close_states(a, &b);
  w->states = b.states;
  w->next = MAL_ARRAY(a, uint16_t, b.states * w->classes);
  w->ends = MAL_ARRAY(a, uint64_t, b.states);
  renumber(a, w, &b);
  return w;
}

static uint64_t search(const mal_words *w, const unsigned char *at, const unsigned char *end) {
  uint64_t found = 0;
  int s = 0, classes = w->classes;
  for (; at < end; at++) {
    s = w->next[s * classes + w->class_of[*at]];
    if (s >= w->quiet) found |= w->ends[s];
  }
  return found;
}

const char *mal_words_in_line(const mal_words *w, const char *at, const char *end, uint64_t *found) {
  const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
  if (!stop) stop = end;
  *found = search(w, (const unsigned char *)at, (const unsigned char *)stop);
  return stop;
}

uint64_t mal_words_in(const mal_words *w, const char *text, size_t length) {
  return search(w, (const unsigned char *)text, (const unsigned char *)text + length);
}
