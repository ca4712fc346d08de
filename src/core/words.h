/* Many fixed words sought in a text at once, one table look-up a byte however many words there are: Aho and Corasick, "Efficient
 * string matching" (1975), as a finished automaton over classes of bytes. For logs of millions of lines. */
#ifndef MAL_CORE_WORDS_H
#define MAL_CORE_WORDS_H
#include "core/arena.h"
#include <stdint.h>

typedef struct mal_words mal_words;
enum { MAL_WORDS_MAX = 64 };

/* At most MAL_WORDS_MAX words, none empty, none with a newline. */
mal_words *mal_words_make(mal_arena *a, const char *const *words, int n);
/* Reads to the end of the line (or `end`), which it returns; bit i of *found: the line holds words[i]. */
const char *mal_words_in_line(const mal_words *w, const char *at, const char *end, uint64_t *found);
/* The same of a whole text. */
uint64_t mal_words_in(const mal_words *w, const char *text, size_t length);
#endif
