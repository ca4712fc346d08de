/* A tree of nodes. A file node has what lasts and what is seen, and between them the writes not yet synced; a folder node the
 * same for names, and between them the changes not yet synced. */
#include "engine/file/file.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct content {
  char *bytes;
  int64_t size, room;
} content;

typedef struct pending_write {
  int64_t offset, n;
  char *bytes; /* NULL: the file was emptied */
} pending_write;

typedef struct entry {
  char name[64];
  int node; /* -1: none */
} entry;

typedef struct pending_name { /* both at once, as rename does */
  entry set, unset;           /* name "" : nothing */
} pending_name;

typedef struct node {
  bool folder;
  content lasts, seen;
  pending_write *writes;
  int n_writes;
  entry *lasting, *entries;
  int n_lasting, n_entries;
  pending_name *names;
  int n_names;
} node;

typedef struct simulated {
  mal_files table;
  pthread_mutex_t mutex;
  node *nodes;
  int n_nodes;
  int64_t stop_at, operations, room, used;
  bool stopped;
} simulated;

struct mal_handle {
  simulated *s;
  int node;
};

static void *grown(void *old, int count, size_t size) {
  void *p = realloc(old, (size_t)(count + 1) * size);
  if (!p) abort(); /* a test's twin: there is nobody to tell */
  return p;
}

/* --- contents ---------------------------------------------------------------------------------------------------------- */

static void put(content *c, int64_t offset, const char *bytes, int64_t n) {
  if (offset + n > c->room) {
    c->room = 2 * (offset + n);
    c->bytes = realloc(c->bytes, (size_t)c->room);
    if (!c->bytes) abort();
  }
  if (offset > c->size) memset(c->bytes + c->size, 0, (size_t)(offset - c->size));
  if (n) memcpy(c->bytes + offset, bytes, (size_t)n);
  if (offset + n > c->size) c->size = offset + n;
}

static void copy(content *to, const content *from) {
  to->size = 0;
  put(to, 0, from->bytes, from->size);
}

static void forget_writes(node *x) {
  for (int i = 0; i < x->n_writes; i++) free(x->writes[i].bytes);
  x->n_writes = 0;
}

/* --- names --------------------------------------------------------------------------------------------------------------- */

static int find(const entry *entries, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(entries[i].name, name) == 0) return i;
  return -1;
}

static void apply(entry **entries, int *n, const pending_name *change) {
  int i;
  if (*change->unset.name && (i = find(*entries, *n, change->unset.name)) >= 0) (*entries)[i] = (*entries)[--*n];
  if (!*change->set.name) return;
  if ((i = find(*entries, *n, change->set.name)) < 0) {
    *entries = grown(*entries, *n, sizeof **entries);
    i = (*n)++;
  }
  (*entries)[i] = change->set; /* NOLINT(clang-analyzer-unix.Malloc): grown makes room for one more */
}

/* The folder that a path lies in, and its last name; -1: there is none. */
static int walk(const simulated *s, const char *path, char last[64]) {
  int at = 0;
  for (;;) {
    while (*path == '/') path++;
    size_t n = strcspn(path, "/");
    if (n >= 64) return -1;
    memcpy(last, path, n);
    last[n] = '\0';
    path += n;
    while (*path == '/') path++;
    if (!*path) return at;
    int i = find(s->nodes[at].entries, s->nodes[at].n_entries, last);
    if (i < 0 || !s->nodes[s->nodes[at].entries[i].node].folder) return -1;
    at = s->nodes[at].entries[i].node;
  }
}

static int node_at(const simulated *s, const char *path) {
  char last[64];
  int folder = walk(s, path, last);
  if (folder < 0) return -1;
  if (!*last) return folder;
  int i = find(s->nodes[folder].entries, s->nodes[folder].n_entries, last);
  return i < 0 ? -1 : s->nodes[folder].entries[i].node;
}

static void change(simulated *s, int folder, const pending_name *c) {
  node *x = &s->nodes[folder];
  x->names = grown(x->names, x->n_names, sizeof *x->names);
  x->names[x->n_names++] = *c;
  apply(&x->entries, &x->n_entries, c);
}

static int new_node(simulated *s, bool folder) {
  s->nodes = grown(s->nodes, s->n_nodes, sizeof *s->nodes);
  s->nodes[s->n_nodes] = (node){.folder = folder};
  return s->n_nodes++;
}

/* --- operations: each locks, and those that change something count ------------------------------------------------------- */

static simulated *enter(mal_files *f) {
  simulated *s = (simulated *)(void *)f;
  pthread_mutex_lock(&s->mutex);
  return s;
}

static int leave(simulated *s, int why) {
  pthread_mutex_unlock(&s->mutex);
  return why;
}

static bool stops(simulated *s) {
  if (!s->stopped && s->stop_at >= 0 && s->operations++ >= s->stop_at) {
    s->stopped = true;
    return true;
  }
  return s->stopped;
}

static int sim_open(mal_files *f, const char *path, bool create, mal_handle **file) {
  simulated *s = enter(f);
  char last[64];
  int folder = walk(s, path, last), at = node_at(s, path);
  *file = NULL;
  if (folder < 0 || (!create && at < 0)) return leave(s, ENOENT);
  if (at >= 0 && s->nodes[at].folder) return leave(s, EISDIR);
  if (create) {
    if (stops(s)) return leave(s, EIO);
    if (at < 0) {
      at = new_node(s, false);
      pending_name c = {.set = {.node = at}};
      strcpy(c.set.name, last);
      change(s, folder, &c);
    } else {
      node *x = &s->nodes[at];
      x->writes = grown(x->writes, x->n_writes, sizeof *x->writes);
      x->writes[x->n_writes++] = (pending_write){0};
      x->seen.size = 0;
    }
  }
  mal_handle *h = malloc(sizeof *h);
  if (!h) abort();
  *h = (mal_handle){s, at};
  *file = h;
  return leave(s, 0);
}

static int sim_read(mal_handle *file, int64_t offset, void *into, int64_t n, int64_t *got) {
  simulated *s = enter(&file->s->table);
  const content *c = &s->nodes[file->node].seen;
  *got = offset >= c->size ? 0 : n < c->size - offset ? n : c->size - offset;
  if (*got) memcpy(into, c->bytes + offset, (size_t)*got);
  return leave(s, 0);
}

static int sim_write(mal_handle *file, int64_t offset, const void *from, int64_t n) {
  simulated *s = enter(&file->s->table);
  bool already = s->stopped, stop = stops(s);
  if (already) return leave(s, EIO);
  if (stop) n /= 2;
  if (s->room >= 0 && s->used + n > s->room) return leave(s, ENOSPC);
  s->used += n;
  node *x = &s->nodes[file->node];
  x->writes = grown(x->writes, x->n_writes, sizeof *x->writes);
  pending_write w = {offset, n, malloc((size_t)n + 1)};
  if (!w.bytes) abort();
  memcpy(w.bytes, from, (size_t)n);
  x->writes[x->n_writes++] = w;
  put(&x->seen, offset, from, n);
  return leave(s, stop ? EIO : 0);
}

static int sim_size(mal_handle *file, int64_t *bytes) {
  simulated *s = enter(&file->s->table);
  *bytes = s->nodes[file->node].seen.size;
  return leave(s, 0);
}

static int sim_sync(mal_handle *file) {
  simulated *s = enter(&file->s->table);
  if (stops(s)) return leave(s, EIO);
  node *x = &s->nodes[file->node];
  copy(&x->lasts, &x->seen);
  forget_writes(x);
  return leave(s, 0);
}

static int sim_close(mal_handle *file) {
  free(file);
  return 0;
}

static int sim_rename(mal_files *f, const char *from, const char *to) {
  simulated *s = enter(f);
  pending_name c = {0};
  int folder = walk(s, from, c.unset.name), target = walk(s, to, c.set.name), at = node_at(s, from),
      old = node_at(s, to);
  if (folder < 0 || target < 0 || at < 0) return leave(s, ENOENT);
  if (folder != target) return leave(s, EXDEV);
  if (old >= 0 && s->nodes[old].folder && s->nodes[old].n_entries) return leave(s, ENOTEMPTY);
  if (stops(s)) return leave(s, EIO);
  c.set.node = at;
  change(s, folder, &c);
  return leave(s, 0);
}

static int sim_remove(mal_files *f, const char *path) {
  simulated *s = enter(f);
  pending_name c = {0};
  int folder = walk(s, path, c.unset.name), at = node_at(s, path);
  if (folder < 0 || at < 0) return leave(s, ENOENT);
  if (s->nodes[at].folder && s->nodes[at].n_entries) return leave(s, ENOTEMPTY);
  if (stops(s)) return leave(s, EIO);
  s->used -= s->nodes[at].seen.size;
  change(s, folder, &c);
  return leave(s, 0);
}

static int sim_make_folder(mal_files *f, const char *path) {
  simulated *s = enter(f);
  pending_name c = {0};
  int folder = walk(s, path, c.set.name);
  if (folder < 0) return leave(s, ENOENT);
  if (node_at(s, path) >= 0) return leave(s, EEXIST);
  if (stops(s)) return leave(s, EIO);
  c.set.node = new_node(s, true);
  change(s, folder, &c);
  return leave(s, 0);
}

static int sim_sync_folder(mal_files *f, const char *path) {
  simulated *s = enter(f);
  int at = node_at(s, path);
  if (at < 0 || !s->nodes[at].folder) return leave(s, ENOENT);
  if (stops(s)) return leave(s, EIO);
  node *x = &s->nodes[at];
  for (int i = 0; i < x->n_names; i++) apply(&x->lasting, &x->n_lasting, &x->names[i]);
  x->n_names = 0;
  return leave(s, 0);
}

static int sim_list(mal_files *f, mal_arena *a, const char *folder, const char ***names, int *n) {
  simulated *s = enter(f);
  int at = node_at(s, folder);
  *n = 0;
  *names = NULL;
  if (at < 0) return leave(s, ENOENT);
  if (!s->nodes[at].folder) return leave(s, ENOTDIR);
  *names = MAL_ARRAY(a, const char *, s->nodes[at].n_entries + 1);
  for (; *n < s->nodes[at].n_entries; (*n)++) (*names)[*n] = mal_copy(a, s->nodes[at].entries[*n].name);
  return leave(s, 0);
}

/* --- the machine --------------------------------------------------------------------------------------------------------- */

mal_files *mal_files_simulated(void) {
  simulated *s = calloc(1, sizeof *s);
  if (!s) abort();
  s->table = (mal_files){"simulated", sim_open,   sim_read,   sim_write,       sim_size,        sim_sync,
                         sim_close,   sim_rename, sim_remove, sim_make_folder, sim_sync_folder, sim_list};
  s->stop_at = s->room = -1;
  pthread_mutex_init(&s->mutex, NULL);
  new_node(s, true);
  return &s->table;
}

void mal_files_simulated_free(mal_files *f) {
  simulated *s = (simulated *)(void *)f;
  for (int i = 0; i < s->n_nodes; i++) {
    node *x = &s->nodes[i];
    forget_writes(x);
    free(x->writes), free(x->lasts.bytes), free(x->seen.bytes), free(x->lasting), free(x->entries), free(x->names);
  }
  free(s->nodes);
  pthread_mutex_destroy(&s->mutex);
  free(s);
}

void mal_files_stop_at(mal_files *f, int64_t n) {
  simulated *s = (simulated *)(void *)f;
  s->stop_at = n;
  s->operations = 0;
  s->stopped = false;
}

bool mal_files_stopped(const mal_files *f) { return ((const simulated *)(const void *)f)->stopped; }
void mal_files_room(mal_files *f, int64_t bytes) { ((simulated *)(void *)f)->room = bytes; }

static uint64_t chance(uint64_t *state) { /* xorshift64*: Vigna, An experimental exploration, 2016 */
  *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
  return (*state * UINT64_C(2685821657736338717)) >> 33;
}

static void crash_file(node *x, int mode, uint64_t *state) {
  for (int i = 0; i < x->n_writes && mode; i++) {
    const pending_write *w = &x->writes[i];
    uint64_t luck = mode == 1 ? 0 : chance(state) % 3; /* kept, lost, cut */
    if (luck == 1) continue;
    if (w->bytes)
      put(&x->lasts, w->offset, w->bytes, luck == 2 ? (int64_t)(chance(state) % (uint64_t)(w->n + 1)) : w->n);
    else
      x->lasts.size = 0;
  }
  forget_writes(x);
  copy(&x->seen, &x->lasts);
}

static void crash_folder(node *x, int mode, uint64_t *state) {
  for (int i = 0; i < x->n_names && mode; i++)
    if (mode == 1 || chance(state) % 2) apply(&x->lasting, &x->n_lasting, &x->names[i]);
  x->n_names = 0;
  x->n_entries = 0;
  for (int i = 0; i < x->n_lasting; i++) {
    x->entries = grown(x->entries, x->n_entries, sizeof *x->entries);
    x->entries[x->n_entries++] = x->lasting[i];
  }
}

void mal_files_crash(mal_files *f, int mode, uint64_t seed) {
  simulated *s = (simulated *)(void *)f;
  uint64_t state = seed * 2 + 1;
  for (int i = 0; i < 8; i++) chance(&state);
  for (int i = 0; i < s->n_nodes; i++) (s->nodes[i].folder ? crash_folder : crash_file)(&s->nodes[i], mode, &state);
  s->stop_at = -1;
  s->stopped = false;
}
