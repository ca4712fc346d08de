/* Events, and the trace-event format that chrome://tracing and ui.perfetto.dev read ("Trace Event Format", Google, 2016):
 * complete events (ph X) in microseconds, and metadata (ph M) for the names of processes and threads. */
#include "timeline/timeline.h"
#include "core/file.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 256, STREAM_NAMES = 6 };

/* In the order of mal_stream. */
static const char *const stream_name[STREAM_NAMES] = {"compute",      "tp collectives", "dp collectives",
                                                      "pp transfers", "ep and cp",      "copies"};

void mal_timeline_init(mal_timeline *t, mal_arena *a) { *t = (mal_timeline){.arena = a}; }

void mal_timeline_add(mal_timeline *t, mal_event e) {
  if (t->count == t->room) {
    int64_t room = t->room ? 2 * t->room : FIRST_ROOM;
    t->events = mal_grow(t->arena, t->events, (size_t)t->room, (size_t)room, sizeof *t->events);
    t->room = room;
  }
  t->events[t->count++] = e;
}

typedef struct page {
  mal_arena arena;
  char *text;
  size_t used, size;
} page;

static void put(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(page *p, const char *format, ...) {
  for (;;) {
    va_list arguments;
    va_start(arguments, format);
    size_t room = p->size - p->used;
    int n = vsnprintf(room ? p->text + p->used : NULL, room, format, arguments);
    va_end(arguments);
    if (n < 0) return;
    if ((size_t)n < room) {
      p->used += (size_t)n;
      return;
    }
    size_t size = 2 * p->size + (size_t)n + 4096;
    p->text = mal_grow(&p->arena, p->text, p->size, size, 1);
    p->size = size;
  }
}

static void put_text(page *p, const char *text) {
  put(p, "\"");
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      put(p, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
      put(p, "\\u%04x", c);
    else
      put(p, "%c", c);
  }
  put(p, "\"");
}

static void put_meta(page *p, const char *what, int32_t rank, int32_t stream, const char *name) {
  put(p, ",\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what, rank, stream);
  put_text(p, name);
  put(p, "}}");
}

static int by_place(const void *a, const void *b) {
  const mal_event *x = a, *y = b;
  if (x->rank != y->rank) return (x->rank > y->rank) - (x->rank < y->rank);
  return (x->stream > y->stream) - (x->stream < y->stream);
}

/* Names of the processes and threads that have events. */
static void put_names(page *p, const mal_timeline *t) {
  mal_event *sorted = MAL_ARRAY(&p->arena, mal_event, t->count ? t->count : 1);
  char name[64];
  if (t->count) memcpy(sorted, t->events, (size_t)t->count * sizeof *sorted);
  qsort(sorted, (size_t)t->count, sizeof *sorted, by_place);
  for (int64_t i = 0; i < t->count; i++) {
    const mal_event *e = &sorted[i], *before = i ? e - 1 : NULL;
    if (before && by_place(before, e) == 0) continue;
    if (!before || before->rank != e->rank) {
      snprintf(name, sizeof name, "%s %d", t->process ? t->process : "rank", e->rank);
      put_meta(p, "process_name", e->rank, 0, name);
      put(p, ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"tid\":0,\"args\":{\"sort_index\":%d}}",
          e->rank, e->rank);
    }
    bool known = e->stream >= 0 && e->stream < STREAM_NAMES;
    snprintf(name, sizeof name, "stream %d", e->stream);
    put_meta(p, "thread_name", e->rank, e->stream, known ? stream_name[e->stream] : name);
  }
}

static void put_event(page *p, const mal_event *e) {
  put(p, ",\n{\"ph\":\"X\",\"name\":");
  put_text(p, e->name ? e->name : "");
  put(p, ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f", e->rank, e->stream, e->start_s * 1e6,
      (e->end_s - e->start_s) * 1e6);
  if (e->chunk >= 0 || e->micro_batch >= 0) {
    put(p, ",\"args\":{");
    if (e->chunk >= 0) put(p, "\"chunk\":%d%s", e->chunk, e->micro_batch >= 0 ? "," : "");
    if (e->micro_batch >= 0) put(p, "\"micro_batch\":%d", e->micro_batch);
    put(p, "}");
  }
  put(p, "}");
}

mal_status mal_timeline_write_chrome(const mal_timeline *t, const char *path, mal_error *e) {
  page p = {0};
  mal_arena_init(&p.arena);
  put(&p, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  put(&p, "{\"ph\":\"M\",\"name\":\"malha_timeline\",\"pid\":0,\"tid\":0,\"args\":{\"version\":1}}");
  put_names(&p, t);
  for (int64_t i = 0; i < t->count; i++) put_event(&p, &t->events[i]);
  put(&p, "\n]}\n");
  mal_status s = mal_file_write(path, p.text, p.used, e);
  mal_arena_free(&p.arena);
  return s;
}
