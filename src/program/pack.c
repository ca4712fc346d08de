/* Where buffers lie: regions, events between streams, and the packing of WORK by lifetimes in happens-before order. */
#include "program/builder.h"
#include <stdlib.h>
#include <string.h>

/* Lists that run right after one another and share their work. */
static const struct {
  int lists[2], n;
} groups[] = {{{MAL_L_F}, 1}, {{MAL_L_R, MAL_L_B}, 2}, {{MAL_L_R, MAL_L_BW}, 2},
              {{MAL_L_W}, 1}, {{MAL_L_GATHER}, 1},     {{MAL_L_REDUCE}, 1}};
enum { GROUPS = sizeof groups / sizeof *groups };

typedef struct clock {
  int32_t at[MAL_STREAMS];
} clock; /* per stream: instructions of it that happened, as index + 1 */

typedef struct life {
  mal_ref buffer;
  int first;             /* first access */
  int last[MAL_STREAMS]; /* last access of each stream, -1 */
  int end;               /* last access of all */
  int64_t bytes, offset;
} life;

typedef struct use {       /* of a buffer while walking a group */
  int writer;              /* -1 */
  int reader[MAL_STREAMS]; /* since the last write; -1 */
  int life;                /* index, -1 */
} use;

typedef struct packer {
  mal_builder *b;
  mal_emit **at; /* the group's instructions in list order */
  int n;
  clock *done; /* after each */
  uint16_t (*wait)[2], *record;
  use *uses; /* by buffer */
  life *lives;
  int n_lives;
  int *n_events;
} packer;

/* --- regions --- */

static void masks(const mal_builder *b, uint16_t *written, uint16_t *read) {
  for (int l = 0; l < MAL_LISTS; l++)
    for (int i = 0; i < b->list[l].count; i++) {
      const mal_emit *x = &b->list[l].at[i];
      for (int k = 0; k < MAL_INPUTS; k++) read[mal_root(b, x->in[k])] |= (uint16_t)(1 << l);
      for (int k = 0; k < MAL_OUTPUTS; k++) written[mal_root(b, x->out[k])] |= (uint16_t)(1 << l);
    }
}

enum {
  IN_F = 1 << MAL_L_F,
  IN_W = 1 << MAL_L_W,
  IN_R = 1 << MAL_L_R,
  IN_BACKWARD = 1 << MAL_L_B | 1 << MAL_L_BW | 1 << MAL_L_R | 1 << MAL_L_W,
};

static bool is_kept(const mal_builder *b, mal_ref x, unsigned written, unsigned read) {
  if (x == mal_root(b, b->input) && b->input) return read & IN_BACKWARD;
  if (b->output_grad && x == mal_root(b, b->output_grad)) return read & IN_W;
  if (!b->side[x].floating) return false;
  if (written & IN_F) return read & IN_BACKWARD;
  return written & (IN_R | 1 << MAL_L_B) && read & IN_W;
}

static void place_external(mal_builder *b, mal_ref x, int64_t offset, bool kept) {
  if (!x) return;
  mal_buffer *f = mal_at(b, x);
  f->external = true;
  if (kept) return;
  f->region = MAL_R_IO;
  f->offset_bytes = offset;
}

static void choose_regions(mal_builder *b, mal_block *out) {
  uint16_t *written = MAL_ARRAY(b->a, uint16_t, b->n_buffers), *read = MAL_ARRAY(b->a, uint16_t, b->n_buffers);
  masks(b, written, read);
  mal_ref ends[4] = {b->input, b->output_grad, b->output, b->input_grad};
  for (int i = 0; i < 4; i++) ends[i] = mal_root(b, ends[i]);
  for (mal_ref x = 1; x < b->n_buffers; x++) {
    if (b->side[x].root != x || !(written[x] | read[x])) continue;
    bool kept = is_kept(b, x, written[x], read[x]);
    if (kept) {
      mal_buffer *f = mal_at(b, x);
      f->region = MAL_R_STASH;
      if (f->cause != MAL_MEM_LOGITS) f->cause = MAL_MEM_STASH;
      f->offset_bytes = out->stash_bytes;
      out->stash_bytes += mal_align(f->bytes);
      b->side[x].floating = false;
    }
    for (int i = 0; i < 4; i++)
      if (x == ends[i]) {
        b->side[x].floating = false;
        place_external(b, x, i < 2 ? 0 : b->shard_tokens * b->hidden * (int64_t)mal_dtype_bytes[b->store], kept);
      }
  }
}

/* --- happens-before and events --- */

/* What accesses are ordered by: the buffer, or the one that it overlaps. */
static mal_ref token(const mal_builder *b, mal_ref x) {
  mal_ref root = mal_root(b, x);
  return b->side[root].token ? b->side[root].token : root;
}

static int newest_first(const void *a, const void *b) { return *(const int *)b - *(const int *)a; }

/* Instructions that i must come after: writers of what it touches, readers of what it writes. */
static int dependencies(packer *p, int i, int *before) {
  const mal_emit *x = p->at[i];
  int n = 0;
  for (int k = 0; k < MAL_INPUTS + MAL_OUTPUTS; k++) {
    bool output = k >= MAL_INPUTS;
    mal_ref f = token(p->b, output ? x->out[k - MAL_INPUTS] : x->in[k]);
    if (!f) continue;
    const use *u = &p->uses[f];
    if (u->writer >= 0) before[n++] = u->writer;
    for (int s = 0; output && s < MAL_STREAMS; s++)
      if (u->reader[s] >= 0) before[n++] = u->reader[s];
  }
  if (x->after && p->uses[token(p->b, x->after)].writer >= 0) before[n++] = p->uses[token(p->b, x->after)].writer;
  qsort(before, (size_t)n, sizeof *before, newest_first);
  return n;
}

static mal_status wait_for(packer *p, int i, int j) {
  int k = p->wait[i][0] == MAL_NO_EVENT ? 0 : 1;
  if (p->wait[i][k] != MAL_NO_EVENT)
    return mal_fail(p->b->e, MAL_FAULT, "an instruction would have to wait for three streams");
  if (p->record[j] == MAL_NO_EVENT) p->record[j] = (uint16_t)(*p->n_events)++;
  p->wait[i][k] = p->record[j];
  for (int s = 0; s < MAL_STREAMS; s++)
    if (p->done[j].at[s] > p->done[i].at[s]) p->done[i].at[s] = p->done[j].at[s];
  return MAL_OK;
}

static void touch(packer *p, int i) {
  const mal_emit *x = p->at[i];
  for (int k = 0; k < MAL_INPUTS + MAL_OUTPUTS; k++) {
    bool output = k >= MAL_INPUTS;
    mal_ref f = mal_root(p->b, output ? x->out[k - MAL_INPUTS] : x->in[k]);
    if (!f) continue;
    use *u = &p->uses[token(p->b, f)];
    if (output) {
      u->writer = i;
      for (int s = 0; s < MAL_STREAMS; s++) u->reader[s] = -1;
    } else {
      u->reader[x->stream] = i;
    }
    if (!p->b->side[f].floating) continue;
    if (u->life < 0) {
      u->life = p->n_lives++;
      p->lives[u->life] = (life){.buffer = f, .first = i, .bytes = mal_align(p->b->buffers[f].bytes)};
      memset(p->lives[u->life].last, -1, sizeof p->lives[u->life].last);
    }
    p->lives[u->life].last[x->stream] = p->lives[u->life].end = i;
  }
}

/* joined: first instruction after the last join of all streams. */
static mal_status order(packer *p, int i, int joined, int *newest) {
  int stream = p->at[i]->stream;
  int before[(MAL_INPUTS + MAL_OUTPUTS) * (MAL_STREAMS + 1) + 1];
  for (int s = 0; s < MAL_STREAMS; s++) p->done[i].at[s] = joined;
  if (newest[stream] >= joined) p->done[i] = p->done[newest[stream]];
  int n = dependencies(p, i, before);
  for (int k = 0; k < n; k++) {
    int other = p->at[before[k]]->stream;
    if (before[k] == i || other == stream || p->done[i].at[other] > before[k]) continue;
    if (wait_for(p, i, before[k]) != MAL_OK) return MAL_FAULT;
  }
  p->done[i].at[stream] = i + 1;
  newest[stream] = i;
  touch(p, i);
  return MAL_OK;
}

/* --- packing --- */

/* Every access of x happens before the first of y. */
static bool precedes(const packer *p, const life *x, const life *y) {
  if (x->end >= y->first) return false;
  for (int s = 0; s < MAL_STREAMS; s++)
    if (x->last[s] >= p->done[y->first].at[s]) return false;
  return true;
}

static int larger_first(const void *a, const void *b) {
  const life *x = a, *y = b;
  return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : x->first - y->first;
}

/* together[i · n + j]: lives i and j must not share bytes. */
static bool *conflicts(const packer *p) {
  int n = p->n_lives;
  bool *together = MAL_ARRAY(p->b->a, bool, (int64_t)n *n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++)
      together[i * n + j] = together[j * n + i] =
          !precedes(p, &p->lives[i], &p->lives[j]) && !precedes(p, &p->lives[j], &p->lives[i]);
  return together;
}

typedef struct packing {
  life *lives;
  const bool *together;
  int n;
  int *turn;   /* lives in the order of their placing */
  int *placed; /* those placed, by offset */
} packing;

/* Places each in turn in the tightest gap between those that live with it. */
static int64_t fit(packing *g) {
  int64_t height = 0;
  for (int i = 0; i < g->n; i++) {
    life *x = &g->lives[g->turn[i]];
    const bool *with = &g->together[(int64_t)g->turn[i] * g->n];
    int64_t free_from = 0, best = -1, best_room = INT64_MAX;
    for (int k = 0; k < i; k++) {
      const life *y = &g->lives[g->placed[k]];
      if (!with[g->placed[k]]) continue;
      int64_t room = y->offset - free_from;
      if (room >= x->bytes && room < best_room) best = free_from, best_room = room;
      if (y->offset + y->bytes > free_from) free_from = y->offset + y->bytes;
    }
    x->offset = best >= 0 ? best : free_from;
    int k = i;
    for (; k > 0 && g->lives[g->placed[k - 1]].offset > x->offset; k--) g->placed[k] = g->placed[k - 1];
    g->placed[k] = g->turn[i];
    if (x->offset + x->bytes > height) height = x->offset + x->bytes;
  }
  return height;
}

static void move_turn(packing *g, int from, int to) {
  int which = g->turn[from];
  for (; from > to; from--) g->turn[from] = g->turn[from - 1];
  for (; from < to; from++) g->turn[from] = g->turn[from + 1];
  g->turn[to] = which;
}

/* The turn of the one that reaches highest. */
static int highest(const packing *g, int64_t height) {
  int i = 0;
  while (g->lives[g->turn[i]].offset + g->lives[g->turn[i]].bytes < height) i++;
  return i;
}

/* Bytes that may be alive while each instruction runs: neither over before it starts nor begun only after it ends. Returns
 * the most: on one stream no packing is lower. */
static int64_t count_alive(const packer *p, int64_t *alive) {
  int64_t most = 0;
  for (int k = 0; k < p->n_lives; k++) {
    const life *x = &p->lives[k];
    const clock *start = &p->done[x->first];
    for (int i = 0; i < p->n; i++) {
      bool later = i != x->first && start->at[p->at[i]->stream] > i, over = true;
      for (int s = 0; s < MAL_STREAMS && over; s++) over = x->last[s] < p->done[i].at[s] && x->last[s] != i;
      if (!later && !over) alive[i] += x->bytes;
    }
  }
  for (int i = 0; i < p->n; i++)
    if (alive[i] > most) most = alive[i];
  return most;
}

/* Those alive at the fullest instruction first, larger before smaller, then those at the next fullest (Pisarchyk and Lee,
 * arXiv:2001.03288, greedy by breadth). */
static void by_breadth(const packer *p, packing *g, const int64_t *alive) {
  bool *done = MAL_ARRAY(p->b->a, bool, p->n), *placed = MAL_ARRAY(p->b->a, bool, g->n);
  for (int turn = 0; turn < g->n;) {
    int fullest = -1;
    for (int i = 0; i < p->n; i++)
      if (!done[i] && (fullest < 0 || alive[i] > alive[fullest])) fullest = i;
    done[fullest] = true;
    for (int k = 0; k < g->n; k++) {
      if (placed[k] || g->lives[k].first > fullest || g->lives[k].end < fullest) continue;
      placed[k] = true;
      g->turn[turn++] = k;
    }
  }
}

enum { ROUNDS = 8, TRIES = 4000 };

static void keep_if_lower(const packing *g, int64_t now, int64_t *height, int64_t *best) {
  if (now >= *height) return;
  *height = now;
  for (int i = 0; i < g->n; i++) best[i] = g->lives[i].offset;
}

/* From one order of placing: the one that reaches highest goes first next time (squeaky wheel: Joslin and Clements, 1999). */
static void promote(packing *g, int64_t enough, int64_t *height, int64_t *best) {
  for (int round = 0; round<ROUNDS && * height> enough; round++) {
    int64_t now = fit(g);
    keep_if_lower(g, now, height, best);
    int i = highest(g, now);
    if (i == 0) return;
    move_turn(g, i, 0);
  }
}

/* A fixed sequence of small moves, kept when they do no harm; only where the orders above leave a gap worth closing. */
static void polish(mal_arena *a, packing *g, int64_t enough, int64_t *height, int64_t *best) {
  uint32_t random = 1;
  int64_t current = fit(g), *offsets = MAL_ARRAY(a, int64_t, g->n);
  for (int i = 0; i < g->n; i++) offsets[i] = g->lives[i].offset;
  for (int i = 0; i<TRIES && * height> enough + enough / 50; i++) {
    random = random * 1664525u + 1013904223u;
    int from = i % 2 ? highest(g, current) : (int)((random >> 16) % (uint32_t)g->n);
    random = random * 1664525u + 1013904223u;
    int to = (int)((random >> 16) % (uint32_t)(from + 1));
    move_turn(g, from, to);
    int64_t now = fit(g);
    keep_if_lower(g, now, height, best);
    if (now > current) move_turn(g, to, from);
    for (int k = 0; k < g->n; k++)
      if (now > current)
        g->lives[k].offset = offsets[k];
      else
        offsets[k] = g->lives[k].offset;
    if (now < current) current = now;
  }
}

static int64_t pack(packer *p) {
  int n = p->n_lives;
  if (n == 0 || p->b->r->unplaced) return 0;
  int64_t *alive = MAL_ARRAY(p->b->a, int64_t, p->n + 1), *best = MAL_ARRAY(p->b->a, int64_t, n);
  int64_t enough = count_alive(p, alive), height = INT64_MAX;
  qsort(p->lives, (size_t)n, sizeof *p->lives, larger_first);
  packing g = {p->lives, conflicts(p), n, MAL_ARRAY(p->b->a, int, n), MAL_ARRAY(p->b->a, int, n)};
  by_breadth(p, &g, alive);
  promote(&g, enough, &height, best);
  if (height > enough) {
    for (int i = 0; i < n; i++) g.turn[i] = i; /* larger first */
    promote(&g, enough, &height, best);
    by_breadth(p, &g, alive);
    polish(p->b->a, &g, enough, &height, best);
  }
  for (int i = 0; i < n; i++) p->b->buffers[p->lives[i].buffer].offset_bytes = best[i];
  return height;
}

/* --- result --- */

static void write_list(const packer *p, int from, int count, mal_instruction *to, mal_block *out,
                       const uint16_t *number) {
  mal_builder *b = p->b;
  for (int i = 0; i < count; i++) {
    const mal_emit *x = p->at[from + i];
    mal_instruction *y = &to[i];
    *y = (mal_instruction){.op = x->op,
                           .stream = x->stream,
                           .dtype = x->dtype,
                           .variant = x->variant,
                           .flags = x->flags,
                           .cause = (uint8_t)(x->cause - 1),
                           .axes = x->axes,
                           .origin = x->origin,
                           .wait = {p->wait[from + i][0], p->wait[from + i][1]},
                           .record = p->record[from + i]};
    for (int k = 0; k < MAL_INPUTS; k++) y->in[k] = number[mal_root(b, x->in[k])];
    for (int k = 0; k < MAL_OUTPUTS; k++) y->out[k] = number[mal_root(b, x->out[k])];
    y->sizes = (uint32_t)b->n_sizes++;
    memcpy(out->sizes[y->sizes].v, x->v, sizeof x->v);
  }
}

static mal_status place_group(mal_builder *b, mal_block *out, int g, const uint16_t *number) {
  packer p = {.b = b, .n_events = &out->n_events};
  for (int l = 0; l < groups[g].n; l++) p.n += b->list[groups[g].lists[l]].count;
  int main_list = groups[g].lists[groups[g].n - 1];
  if (!p.n || !b->list[main_list].count) return MAL_OK;
  p.at = MAL_ARRAY(b->a, mal_emit *, p.n);
  p.done = MAL_ARRAY(b->a, clock, p.n);
  p.wait = mal_alloc_array(b->a, (size_t)p.n, sizeof *p.wait);
  p.record = MAL_ARRAY(b->a, uint16_t, p.n);
  p.uses = MAL_ARRAY(b->a, use, b->n_buffers);
  p.lives = MAL_ARRAY(b->a, life, b->n_buffers);
  memset(p.wait, 0xff, (size_t)p.n * sizeof *p.wait);
  memset(p.record, 0xff, (size_t)p.n * sizeof *p.record);
  memset(p.uses, 0xff, (size_t)b->n_buffers * sizeof *p.uses);
  int newest[MAL_STREAMS], i = 0;
  memset(newest, -1, sizeof newest);
  for (int l = 0; l < groups[g].n; l++) {
    struct mal_listing *list = &b->list[groups[g].lists[l]];
    int joined = i;
    for (int k = 0; k < list->count; k++) p.at[i + k] = &list->at[k];
    for (; i < joined + list->count; i++)
      if (order(&p, i, joined, newest) != MAL_OK) return MAL_FAULT;
  }
  int64_t height = pack(&p);
  for (int l = 0, from = 0; l < groups[g].n; l++) {
    int list = groups[g].lists[l];
    out->work_bytes[list] = height;
    out->count[list] = b->list[list].count;
    out->list[list] = MAL_ARRAY(b->a, mal_instruction, out->count[list]);
    write_list(&p, from, out->count[list], out->list[list], out, number);
    from += out->count[list];
  }
  return MAL_OK;
}

/* Buffers that some instruction names or that hold a parameter, numbered without holes. */
static uint16_t *number_buffers(mal_builder *b, mal_block *out, mal_ref **order) {
  uint16_t *number = MAL_ARRAY(b->a, uint16_t, b->n_buffers);
  bool *used = MAL_ARRAY(b->a, bool, b->n_buffers);
  for (int l = 0; l < MAL_LISTS; l++)
    for (int i = 0; i < b->list[l].count; i++) {
      for (int k = 0; k < MAL_INPUTS; k++) used[mal_root(b, b->list[l].at[i].in[k])] = true;
      for (int k = 0; k < MAL_OUTPUTS; k++) used[mal_root(b, b->list[l].at[i].out[k])] = true;
    }
  *order = MAL_ARRAY(b->a, mal_ref, b->n_buffers);
  number[0] = MAL_NO_BUFFER;
  for (mal_ref x = 1; x < b->n_buffers; x++)
    if (used[x] || b->buffers[x].param >= 0) {
      (*order)[out->n_buffers] = x;
      number[x] = (uint16_t)out->n_buffers++;
    }
  return number;
}

mal_status mal_place_buffers(mal_builder *b, mal_block *out) {
  mal_ref *order;
  uint16_t *number = number_buffers(b, out, &order);
  int instructions = 0;
  for (int l = 0; l < MAL_LISTS; l++) instructions += b->list[l].count;
  if (out->n_buffers >= MAL_NO_BUFFER || instructions >= MAL_NO_EVENT)
    return mal_fail(b->e, MAL_FAULT, "a block has more buffers or instructions than their numbers can name");
  choose_regions(b, out);
  out->sizes = MAL_ARRAY(b->a, mal_sizes, instructions);
  b->n_sizes = 0;
  for (int g = 0; g < GROUPS; g++)
    if (place_group(b, out, g, number) != MAL_OK) return MAL_FAULT;
  out->buffers = MAL_ARRAY(b->a, mal_buffer, out->n_buffers);
  for (int i = 0; i < out->n_buffers; i++) out->buffers[i] = b->buffers[order[i]];
  mal_say_moved(b, out);
  return MAL_OK;
}
