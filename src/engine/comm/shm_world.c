/* The world: one shared mapping with the ends of all ranks and their groups. Nothing in it has a name in the file system, so
 * nothing is left over, however the ranks end. */
#include "engine/comm/shm.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Room for groups: 64 slots of a few hundred bytes for each member of each group that a rank is in; only what is used
 * becomes memory. */
static const size_t pool_bytes = 16u << 20, pool_bytes_per_rank = 4u << 20;

uint64_t shm_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- failing ----------------------------------------------------------------------------------------------------------- */

bool shm_failed(const mal_world *w) { return atomic_load_explicit(&w->shared->failed, memory_order_acquire) == 2; }

static void wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

static void ring_all(mal_world *w) {
  for (int32_t i = 0; i < w->options.ranks; i++) {
    atomic_fetch_add(&w->shared->end[i].bell, 1);
    wake(&w->shared->end[i].bell);
  }
}

mal_status shm_failure(const mal_world *w, mal_error *e) {
  return mal_fail(e, (mal_status)w->shared->status, "%s", w->shared->text);
}

mal_status shm_fail(mal_comm *c, mal_error *e, const char *format, ...) {
  char text[SHM_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  mal_comm_shm.abort(c->world, c->rank, MAL_FAULT, text);
  while (!shm_failed(c->world)) sched_yield();
  return shm_failure(c->world, e);
}

/* Only copies and system calls: a signal's handler may come here. */
static void shm_abort(mal_world *w, int32_t rank, mal_status status, const char *why) {
  uint32_t none = 0;
  (void)rank;
  if (!atomic_compare_exchange_strong(&w->shared->failed, &none, 1)) return;
  size_t n = strlen(why);
  if (n >= SHM_TEXT) n = SHM_TEXT - 1;
  memcpy(w->shared->text, why, n);
  w->shared->text[n] = '\0';
  w->shared->status = (int32_t)status;
  atomic_store(&w->shared->failed, 2);
  ring_all(w);
}

/* --- waiting ----------------------------------------------------------------------------------------------------------- */

bool shm_lock(mal_world *w, _Atomic uint32_t *lock) {
  for (int turn = 1;; turn++) {
    uint32_t none = 0;
    if (atomic_compare_exchange_weak_explicit(lock, &none, 1, memory_order_acquire, memory_order_relaxed)) return true;
    if (turn % 64) continue;
    if (shm_failed(w)) return false;
    sched_yield();
  }
}

void shm_unlock(_Atomic uint32_t *lock) { atomic_store_explicit(lock, 0, memory_order_release); }

void shm_ring(mal_world *w, int32_t rank) {
  shm_end *end = &w->shared->end[rank];
  atomic_thread_fence(memory_order_seq_cst);
  if (!atomic_load_explicit(&end->asleep, memory_order_relaxed)) return;
  atomic_fetch_add(&end->bell, 1);
  wake(&end->bell);
}

void shm_sleep(mal_world *w, int32_t rank, uint32_t bell, uint64_t until_ns) {
  struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};
  syscall(SYS_futex, &w->shared->end[rank].bell, FUTEX_WAIT_BITSET, bell, until_ns ? &until : NULL, NULL,
          FUTEX_BITSET_MATCH_ANY);
}

/* --- memory of processes: one mapping for all, at the same place in each ------------------------------------------------- */

static size_t whole_pages(int64_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return ((size_t)bytes + page - 1) / page * page;
}

static size_t rank_memory(const mal_world *w) { return whole_pages(w->options.memory_bytes); }
static size_t all_memory(const mal_world *w) { return rank_memory(w) * (size_t)w->options.ranks; }

static mal_status share_memory(mal_world *w, mal_error *e) {
  if (w->options.memory_bytes <= 0) return MAL_OK;
  void *at = mmap(NULL, all_memory(w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    int why = errno;
    munmap(w->shared, w->bytes);
    w->shared = NULL;
    return mal_fail(e, MAL_FAULT, _("No room for the memory of %d ranks (%zu bytes): %s."), w->options.ranks,
                    all_memory(w), strerror(why));
  }
  madvise(at, all_memory(w), MADV_HUGEPAGE);
  w->memory = at;
  return MAL_OK;
}

/* --- opening ----------------------------------------------------------------------------------------------------------- */

static mal_status shm_open_world(mal_arena *a, const mal_comm_options *o, mal_world **world, mal_error *e) {
  *world = NULL;
  if (o->ranks < 1 || o->ranks > SHM_RANKS)
    return mal_fail(e, MAL_BAD, _("%d ranks: the shm backend takes 1 to %d in one machine."), o->ranks, SHM_RANKS);
  size_t fixed = sizeof(shm_shared) + (size_t)o->ranks * sizeof(shm_end);
  size_t bytes = fixed + pool_bytes + (size_t)o->ranks * pool_bytes_per_rank;
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return mal_fail(e, MAL_FAULT, _("No room for what %d ranks share (%zu bytes): %s."), o->ranks, bytes,
                    strerror(errno));
  mal_world *w = MAL_NEW(a, mal_world);
  *w = (mal_world){.options = *o, .shared = at, .bytes = bytes, .ends = MAL_ARRAY(a, mal_comm, o->ranks)};
  w->shared->used = (fixed + 63) / 64 * 64;
  for (int32_t i = 0; i < o->ranks; i++) w->ends[i] = (mal_comm){.world = w, .rank = i};
  *world = w;
  return o->processes ? share_memory(w, e) : MAL_OK;
}

static void shm_close(mal_world *w) {
  if (!w || !w->shared) return;
  for (int32_t i = 0; i < w->options.ranks; i++)
    for (int32_t k = 0; k < w->ends[i].mappings; k++) munmap(w->ends[i].mapped[k], w->ends[i].mapped_bytes[k]);
  if (w->memory) munmap(w->memory, all_memory(w));
  munmap(w->shared, w->bytes);
  w->shared = NULL;
}

/* --- operands ------------------------------------------------------------------------------------------------------------ */

static mal_status no_memory(const mal_comm *c, int64_t bytes, mal_error *e) {
  return mal_fail(e, MAL_FAULT, _("rank %d cannot have its %lld bytes: %s"), c->rank, (long long)bytes,
                  strerror(errno));
}

/* A thread maps its own, for only what is not shared gets huge pages on common settings (shmem_enabled=never). */
static mal_status shm_memory(mal_comm *c, int64_t bytes, void **at, mal_error *e) {
  *at = NULL;
  if (c->world->memory) {
    int64_t room = c->world->options.memory_bytes - c->taken;
    errno = ENOMEM;
    if (bytes > room) return no_memory(c, bytes, e);
    *at = c->world->memory + (int64_t)rank_memory(c->world) * c->rank + c->taken;
    c->taken += (int64_t)whole_pages(bytes);
    return MAL_OK;
  }
  errno = ENOMEM;
  void *mapping = c->mappings < SHM_MAPPINGS
                      ? mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                      : MAP_FAILED;
  if (mapping == MAP_FAILED) return no_memory(c, bytes, e);
  madvise(mapping, (size_t)bytes, MADV_HUGEPAGE);
  c->mapped[c->mappings] = mapping;
  c->mapped_bytes[c->mappings++] = (size_t)bytes;
  *at = mapping;
  return MAL_OK;
}

static mal_comm *shm_end_of(mal_world *w, int32_t rank) {
  return rank >= 0 && rank < w->options.ranks ? &w->ends[rank] : NULL;
}

/* --- groups ------------------------------------------------------------------------------------------------------------ */

static bool same_group(const shm_group *g, const mal_members *m, const char *name) {
  if (strcmp(g->name, name) != 0 || g->members.base != m->base || g->size != mal_members_size(m)) return false;
  for (int32_t i = 0; i < g->size; i++)
    if (mal_members_rank(&g->members, i) != mal_members_rank(m, i)) return false;
  return true;
}

static mal_status check_members(const mal_comm *c, const mal_members *m, const char *name, mal_error *e) {
  int64_t last = m->base, size = 1;
  bool good = m->dims >= 0 && m->dims <= MAL_COMM_DIMS && m->base >= 0;
  for (int d = 0; good && d < m->dims; d++) {
    good = m->extent[d] >= 1 && m->extent[d] <= SHM_RANKS && m->stride[d] >= 1 && m->stride[d] <= SHM_RANKS;
    last += good ? (int64_t)(m->extent[d] - 1) * m->stride[d] : 0;
    size *= good ? m->extent[d] : 1;
  }
  if (!good || last >= c->world->options.ranks || size > SHM_RANKS)
    return mal_fail(e, MAL_FAULT, _("Group %s of rank %d has members that the world of %d ranks has not."), name,
                    c->rank, c->world->options.ranks);
  if (mal_members_index(m, c->rank) < 0)
    return mal_fail(e, MAL_FAULT, _("Rank %d is no member of the group %s that it registers."), c->rank, name);
  return MAL_OK;
}

static void *take(mal_world *w, size_t bytes) {
  size_t at = w->shared->used, used = at + (bytes + 63) / 64 * 64;
  if (used > w->bytes) return NULL;
  w->shared->used = used;
  return (char *)w->shared + at;
}

static bool make_group(mal_world *w, const mal_members *m, const char *name, shm_group *g) {
  g->members = *m;
  g->size = mal_members_size(m);
  snprintf(g->name, sizeof g->name, "%s", name);
  g->slot_bytes = sizeof(shm_slot) + (size_t)g->size * sizeof(shm_member);
  g->seats = take(w, (size_t)g->size * sizeof(shm_seat));
  g->slots = take(w, MAL_COMM_OPEN * g->slot_bytes);
  return g->seats && g->slots;
}

static mal_status shm_register(mal_comm *c, const mal_members *m, const char *name, int32_t *group, mal_error *e) {
  *group = -1;
  char cut[SHM_NAME];
  snprintf(cut, sizeof cut, "%s", name);
  mal_status status = check_members(c, m, cut, e);
  if (status) return status;
  shm_shared *s = c->world->shared;
  if (!shm_lock(c->world, &s->lock)) return shm_failure(c->world, e);
  int32_t n = s->groups, i = 0;
  while (i < n && !same_group(&s->group[i], m, cut)) i++;
  bool good = i < n || (n < SHM_GROUPS && make_group(c->world, m, cut, &s->group[n]));
  if (good && i == n) s->groups = n + 1;
  shm_unlock(&s->lock);
  if (!good) return mal_fail(e, MAL_FAULT, _("Group %s is one too many: %d stand already."), cut, n);
  *group = i;
  return MAL_OK;
}

static int64_t shm_sent(const mal_comm *c, int32_t group) {
  const shm_group *g = &c->world->shared->group[group];
  return atomic_load_explicit(&g->seats[mal_members_index(&g->members, c->rank)].sent_bytes, memory_order_relaxed);
}

/* --- tickets ----------------------------------------------------------------------------------------------------------- */

int32_t shm_take_ticket(mal_comm *c, mal_error *e) {
  if (c->open == UINT64_MAX) {
    mal_fail(e, MAL_FAULT, _("Rank %d has %d calls open, the most there may be."), c->rank, MAL_COMM_OPEN);
    return -1;
  }
  int32_t t = __builtin_ctzll(~c->open);
  c->open |= UINT64_C(1) << t;
  return t;
}

static bool help(mal_comm *c, int32_t t) {
  shm_ticket *ticket = &c->world->shared->end[c->rank].ticket[t];
  return atomic_load_explicit(&ticket->peer, memory_order_relaxed) < 0 ? shm_help_call(c, ticket)
                                                                       : shm_help_message(c, ticket);
}

/* Helps this call, then all others that are open; true when this one is done. */
static bool help_all(mal_comm *c, int32_t t) {
  if (help(c, t)) return true;
  for (uint64_t rest = c->open & ~(UINT64_C(1) << t); rest; rest &= rest - 1) help(c, __builtin_ctzll(rest));
  return help(c, t);
}

static bool is_open(const mal_comm *c, int32_t t) { return t >= 0 && t < MAL_COMM_OPEN && c->open >> t & 1; }

static bool shm_done(mal_comm *c, mal_comm_ticket t) { return !is_open(c, t) || shm_failed(c->world) || help(c, t); }

static mal_status too_late(mal_comm *c, int32_t t, mal_error *e) {
  const mal_world *w = c->world;
  const shm_ticket *ticket = &w->shared->end[c->rank].ticket[t];
  const shm_group *g = &w->shared->group[ticket->group];
  if (ticket->peer >= 0)
    return shm_fail(c, e, _("Rank %d: %s rank %d, %lld bytes, tag %llu, group %s: no answer within %g s."), c->rank,
                    ticket->sends ? _("send to") : _("receive from"), ticket->peer, (long long)ticket->bytes,
                    (unsigned long long)ticket->tag, g->name, w->options.deadline_s);
  char missing[256];
  size_t used = 0;
  const shm_slot *slot = shm_slot_of(g, ticket->number);
  missing[0] = '\0';
  for (int32_t i = 0; i < g->size && used < sizeof missing - 16; i++)
    if (slot->member[i].arrived <= ticket->number)
      used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d", used ? ", " : "",
                               mal_members_rank(&g->members, i));
  return shm_fail(
      c, e, _("Rank %d: %s '%s' of group %s, step %lld, instruction %lld: no answer from rank %s within %g s."),
      c->rank, mal_collective_name[ticket->call.op], ticket->call.name ? ticket->call.name : "", g->name,
      (long long)ticket->call.step, (long long)ticket->call.instruction, used ? missing : "?", w->options.deadline_s);
}

static inline void pause_a_little(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* Helps until the call is done; false: the world failed, or `until_ns` is over. */
static bool wait_for(mal_comm *c, int32_t t, uint64_t until_ns) {
  mal_world *w = c->world;
  shm_end *end = &w->shared->end[c->rank];
  uint64_t spin_until = w->options.oversubscribed ? 0 : shm_now_ns() + SHM_SPIN_NS;
  for (int turn = 1;; turn++) {
    if (help_all(c, t)) return true;
    if (shm_failed(w)) return false;
    pause_a_little();
    if (spin_until && (turn % 16 || shm_now_ns() < spin_until)) continue;
    atomic_store(&end->asleep, 1);
    uint32_t bell = atomic_load(&end->bell);
    atomic_thread_fence(memory_order_seq_cst);
    bool done = help_all(c, t);
    if (!done && !shm_failed(w)) shm_sleep(w, c->rank, bell, until_ns);
    atomic_store(&end->asleep, 0);
    if (done) return true;
    if (until_ns && shm_now_ns() >= until_ns) return help_all(c, t);
  }
}

static mal_status shm_wait(mal_comm *c, mal_comm_ticket t, mal_error *e) {
  if (!is_open(c, t)) return t == MAL_COMM_NONE ? MAL_OK : mal_fail(e, MAL_FAULT, _("Call %d is not open."), t);
  mal_world *w = c->world;
  uint64_t until = w->options.deadline_s > 0 ? shm_now_ns() + (uint64_t)(w->options.deadline_s * 1e9) : 0;
  if (!wait_for(c, t, until)) return shm_failed(w) ? shm_failure(w, e) : too_late(c, t, e);
  atomic_store_explicit(&w->shared->end[c->rank].ticket[t].state, SHM_FREE, memory_order_relaxed);
  c->open &= ~(UINT64_C(1) << t);
  return MAL_OK;
}

const mal_comm_backend mal_comm_shm = {
    .name = "shm",
    .open = shm_open_world,
    .close = shm_close,
    .end = shm_end_of,
    .memory = shm_memory,
    .group = shm_register,
    .start = shm_start,
    .send = shm_send,
    .recv = shm_recv,
    .done = shm_done,
    .wait = shm_wait,
    .abort = shm_abort,
    .sent_bytes = shm_sent,
};
