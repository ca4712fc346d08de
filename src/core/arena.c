/* A list of blocks, newest first; only the head is taken from. Everything handed out is zeroed and aligned to 16.
 * Under AddressSanitizer what was not handed out is poisoned, with a gap after each piece. */
#include "core/arena.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
enum { GAP = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
enum { GAP = 0 };
#endif

enum { ALIGN = 16, FIRST_BLOCK = 16 << 10, LARGEST_STEP = 4 << 20, LARGE_BLOCK = 8 << 20, WRITING_ROOM = 4096 };

typedef struct mal_arena_block {
  struct mal_arena_block *next;
  size_t size, top;
  size_t used; /* bytes that were handed out at some time: what lies beyond is zero */
  _Alignas(ALIGN) unsigned char data[];
} block;

static void (*out_of_memory)(size_t);

void mal_on_out_of_memory(void (*handler)(size_t bytes)) { out_of_memory = handler; }

static _Noreturn void fail(size_t bytes) {
  if (out_of_memory) out_of_memory(bytes);
  abort();
}

static size_t round_up(size_t bytes) { return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

static size_t product(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) fail(SIZE_MAX);
  return bytes;
}

static void release(block *b) {
  ASAN_UNPOISON_MEMORY_REGION(b->data, b->size);
  free(b);
}

void mal_arena_init(mal_arena *a) { *a = (mal_arena){0}; }

void mal_arena_free(mal_arena *a) {
  for (block *b = a->head, *next; b; b = next) {
    next = b->next;
    release(b);
  }
  mal_arena_init(a);
}

static void add_block(mal_arena *a, size_t room) {
  size_t size = a->head ? a->head->size * 2 : FIRST_BLOCK;
  if (size > LARGEST_STEP) size = LARGEST_STEP;
  if (size < room) size = room;
  bool large = size >= LARGE_BLOCK; /* comes from the system, zeroed page by page when it is first touched */
  block *b = size < SIZE_MAX - sizeof *b ? (large ? calloc(1, sizeof *b + size) : malloc(sizeof *b + size)) : NULL;
  if (!b) fail(size);
  b->next = a->head;
  b->size = size;
  b->top = 0;
  b->used = large ? 0 : size;
  ASAN_POISON_MEMORY_REGION(b->data, size);
  a->head = b;
  a->total += size;
}

/* What took several blocks takes one from now on, so that an arena which is reset again and again stays where it is: fresh pages
 * cost more than most of what is done with them. */
void mal_arena_reset(mal_arena *a) {
  size_t room = 0;
  bool one = a->head && !a->head->next;
  for (block *b = a->head, *next; b && !one; b = next) {
    next = b->next;
    room += b->size;
    release(b);
  }
  block *kept = one ? a->head : NULL;
  mal_arena_init(a);
  if (room) add_block(a, room);
  if (!kept) return;
  kept->top = 0;
  ASAN_POISON_MEMORY_REGION(kept->data, kept->size);
  a->head = kept;
  a->total = kept->size;
}

static void *take(mal_arena *a, size_t bytes, bool zeroed) {
  if (bytes > SIZE_MAX / 2) fail(bytes);
  size_t room = round_up(bytes ? bytes : 1) + GAP;
  if (!a->head || a->head->size - a->head->top < room) add_block(a, room);
  block *b = a->head;
  void *p = b->data + b->top;
  bool untouched = b->top >= b->used;
  b->top += room;
  if (b->used < b->top) b->used = b->top;
  a->used += room - GAP;
  ASAN_UNPOISON_MEMORY_REGION(p, bytes);
  return untouched || !zeroed ? p : memset(p, 0, bytes);
}

void *mal_alloc(mal_arena *a, size_t bytes) { return take(a, bytes, true); }

void *mal_alloc_array(mal_arena *a, size_t count, size_t size) { return mal_alloc(a, product(count, size)); }

static void *grow(mal_arena *a, void *old, size_t old_count, size_t new_count, size_t size, bool zeroed) {
  size_t had = product(old_count, size), want = product(new_count, size);
  if (!old) return take(a, want, zeroed);
  if (want <= had) return old;
  if (want > SIZE_MAX / 2) fail(want);
  block *b = a->head;
  size_t had_room = round_up(had ? had : 1) + GAP, room = round_up(want) + GAP;
  bool last = b && (uintptr_t)old >= (uintptr_t)b->data && (uintptr_t)old + had_room == (uintptr_t)b->data + b->top;
  if (last && b->size - b->top >= room - had_room) {
    b->top += room - had_room;
    if (b->used < b->top) b->used = b->top;
    a->used += room - had_room;
    ASAN_UNPOISON_MEMORY_REGION(old, want);
    if (zeroed) memset((char *)old + had, 0, want - had);
    return old;
  }
  void *p = take(a, want, zeroed);
  if (had) memcpy(p, old, had);
  return p;
}

void *mal_grow(mal_arena *a, void *old, size_t old_count, size_t new_count, size_t size) {
  return grow(a, old, old_count, new_count, size, true);
}

void *mal_grow_raw(mal_arena *a, void *old, size_t old_count, size_t new_count, size_t size) {
  return grow(a, old, old_count, new_count, size, false);
}

char *mal_copy(mal_arena *a, const char *text) {
  size_t length = strlen(text);
  return memcpy(mal_alloc(a, length + 1), text, length + 1);
}

char *mal_print(mal_arena *a, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *p = mal_alloc(a, length < 0 ? 1 : (size_t)length + 1);
  if (length >= 0) vsnprintf(p, (size_t)length + 1, format, again);
  va_end(again);
  return p;
}

void mal_write(mal_writing *w, const char *format, ...) {
  for (;;) {
    va_list arguments;
    va_start(arguments, format);
    size_t room = w->size - w->used;
    int n = vsnprintf(room ? w->text + w->used : NULL, room, format, arguments);
    va_end(arguments);
    if (n < 0) return;
    if ((size_t)n < room) {
      w->used += (size_t)n;
      return;
    }
    size_t size = 2 * w->size + (size_t)n + WRITING_ROOM;
    w->text = mal_grow(w->arena, w->text, w->size, size, 1);
    w->size = size;
  }
}
