/* Memory for what lives and dies together. Everything taken from an arena is freed by one call.
 * Out of memory: the handler set by mal_on_out_of_memory runs (the command prints and exits 3); by default abort().
 * Readers of outside data bound the sizes they ask for, so input alone never gets there. */
#ifndef MAL_CORE_ARENA_H
#define MAL_CORE_ARENA_H
#include <stddef.h>

typedef struct mal_arena {
  struct mal_arena_block *head;
  size_t used, total; /* bytes handed out, bytes held */
} mal_arena;

void mal_arena_init(mal_arena *a);
void mal_arena_free(mal_arena *a);           /* the arena is empty and usable afterwards */
void mal_arena_reset(mal_arena *a);          /* empty, its room kept for reuse */
void *mal_alloc(mal_arena *a, size_t bytes); /* zeroed, aligned to 16 */
void *mal_alloc_array(mal_arena *a, size_t count, size_t size);
/* Grows an array that was the last thing taken, or copies it. old may be NULL. New room is zeroed. */
void *mal_grow(mal_arena *a, void *old, size_t old_count, size_t new_count, size_t size);
/* The same, but new room holds anything: for arrays whose entries are set whole. */
void *mal_grow_raw(mal_arena *a, void *old, size_t old_count, size_t new_count, size_t size);
char *mal_copy(mal_arena *a, const char *text);
char *mal_print(mal_arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A text that grows at its end. Begin with {.arena = a}; text is NULL until something was written. */
typedef struct mal_writing {
  mal_arena *arena;
  char *text;
  size_t used, size; /* without its final zero; room */
} mal_writing;
void mal_write(mal_writing *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mal_on_out_of_memory(void (*handler)(size_t bytes));

#define MAL_NEW(arena, type)      ((type *)mal_alloc((arena), sizeof(type)))
#define MAL_ARRAY(arena, type, n) ((type *)mal_alloc_array((arena), (size_t)(n), sizeof(type)))
#endif
