/* An unknown name gets its nearest matches. */
#ifndef MAL_CORE_SUGGEST_H
#define MAL_CORE_SUGGEST_H
#include <stddef.h>
/* Writes up to three nearest names as "a, b or c" into out (empty when none is near). */
void mal_suggest(const char *word, const char *const *names, size_t count, char *out, size_t size);
#endif
