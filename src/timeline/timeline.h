/* Who did what when: one type for simulated and measured time. Written as Chrome/Perfetto trace JSON.
 * rank and stream are process and thread there; streams are those of mal_stream. */
#ifndef MAL_TIMELINE_TIMELINE_H
#define MAL_TIMELINE_TIMELINE_H
#include "core/arena.h"
#include "core/status.h"
#include <stdint.h>

typedef struct mal_event {
  const char *name;           /* "F", "all-reduce" */
  int32_t rank, stream;       /* process and thread in the trace */
  int32_t chunk, micro_batch; /* -1 none */
  double start_s, end_s;
} mal_event;

typedef struct mal_timeline {
  mal_arena *arena;
  const char *process; /* what a rank number counts in the trace: "stage"; NULL: "rank" */
  mal_event *events;
  int64_t count, room;
} mal_timeline;

void mal_timeline_init(mal_timeline *t, mal_arena *a);
void mal_timeline_add(mal_timeline *t, mal_event e);
mal_status mal_timeline_write_chrome(const mal_timeline *t, const char *path, mal_error *e);
#endif
