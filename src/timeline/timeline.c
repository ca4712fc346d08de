/* Events, and the trace-event format that chrome://tracing and ui.perfetto.dev read ("Trace Event Format", Google, 2016):
 * complete events (ph X) in microseconds, and metadata (ph M) for the names of processes and threads. */
#include "timeline/timeline.h"
#include "core/file.h"
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

static void put_text(mal_writing *p, const char *text) {
  mal_write(p, "\"");
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      mal_write(p, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
      mal_write(p, "\\u%04x", c);
    else
      mal_write(p, "%c", c);
  }
  mal_write(p, "\"");
}

static void put_meta(mal_writing *p, const char *what, int32_t rank, int32_t stream, const char *name) {
  mal_write(p, ",\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what, rank, stream);
  put_text(p, name);
  mal_write(p, "}}");
}

static int by_place(const void *a, const void *b) {
  const mal_event *x = a, *y = b;
  if (x->rank != y->rank) return (x->rank > y->rank) - (x->rank < y->rank);
  return (x->stream > y->stream) - (x->stream < y->stream);
}

/* Names of the processes and threads that have events. */
static void put_names(mal_writing *p, const mal_timeline *t) {
  mal_event *sorted = MAL_ARRAY(p->arena, mal_event, t->count ? t->count : 1);
  char name[64];
  if (t->count) memcpy(sorted, t->events, (size_t)t->count * sizeof *sorted);
  qsort(sorted, (size_t)t->count, sizeof *sorted, by_place);
  for (int64_t i = 0; i < t->count; i++) {
    const mal_event *e = &sorted[i], *before = i ? e - 1 : NULL;
    if (before && by_place(before, e) == 0) continue;
    if (!before || before->rank != e->rank) {
      snprintf(name, sizeof name, "%s %d", t->process ? t->process : "rank", e->rank);
      put_meta(p, "process_name", e->rank, 0, name);
      mal_write(p,
                ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"tid\":0,\"args\":{\"sort_index\":%d}}",
                e->rank, e->rank);
    }
    bool known = e->stream >= 0 && e->stream < STREAM_NAMES;
    snprintf(name, sizeof name, "stream %d", e->stream);
    put_meta(p, "thread_name", e->rank, e->stream, known ? stream_name[e->stream] : name);
  }
}

static void put_event(mal_writing *p, const mal_event *e) {
  mal_write(p, ",\n{\"ph\":\"X\",\"name\":");
  put_text(p, e->name ? e->name : "");
  mal_write(p, ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f", e->rank, e->stream, e->start_s * 1e6,
            (e->end_s - e->start_s) * 1e6);
  if (e->chunk >= 0 || e->micro_batch >= 0) {
    mal_write(p, ",\"args\":{");
    if (e->chunk >= 0) mal_write(p, "\"chunk\":%d%s", e->chunk, e->micro_batch >= 0 ? "," : "");
    if (e->micro_batch >= 0) mal_write(p, "\"micro_batch\":%d", e->micro_batch);
    mal_write(p, "}");
  }
  mal_write(p, "}");
}

mal_status mal_timeline_write_chrome(const mal_timeline *t, const char *path, mal_error *e) {
  mal_arena arena;
  mal_arena_init(&arena);
  mal_writing p = {.arena = &arena};
  mal_write(&p, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  mal_write(&p, "{\"ph\":\"M\",\"name\":\"malha_timeline\",\"pid\":0,\"tid\":0,\"args\":{\"version\":1}}");
  put_names(&p, t);
  for (int64_t i = 0; i < t->count; i++) put_event(&p, &t->events[i]);
  mal_write(&p, "\n]}\n");
  mal_status s = mal_file_write(path, p.text, p.used, e);
  mal_arena_free(&arena);
  return s;
}
