/* Messages: a send and a receive meet under the receiver's lock; whichever rank waits first copies. */
#include "engine/comm/shm.h"
#include <string.h>

static uint64_t bit(int32_t index) { return UINT64_C(1) << index; }

/* The oldest open ticket of `whose` for this peer and tag. */
static int32_t find(const shm_end *whose, uint64_t open, int32_t peer, uint64_t tag) {
  int32_t best = -1;
  for (; open; open &= open - 1) {
    int32_t i = __builtin_ctzll(open);
    const shm_ticket *t = &whose->ticket[i];
    if (atomic_load_explicit(&t->peer, memory_order_relaxed) != peer || t->tag != tag) continue;
    if (best < 0 || t->number < whose->ticket[best].number) best = i;
  }
  return best;
}

static void copy_message(mal_comm *c, shm_ticket *receive) {
  mal_world *w = c->world;
  shm_ticket *send = receive->match;
  int32_t from = receive->peer, to = send->peer;
  memcpy(receive->data, send->data, (size_t)receive->bytes);
  shm_group *g = &w->shared->group[send->group];
  atomic_fetch_add_explicit(&g->seats[mal_members_index(&g->members, from)].sent_bytes, receive->bytes,
                            memory_order_relaxed);
  atomic_store_explicit(&send->state, SHM_DONE, memory_order_release);
  atomic_store_explicit(&receive->state, SHM_DONE, memory_order_release);
  shm_ring(w, from == c->rank ? to : from);
}

bool shm_help_message(mal_comm *c, shm_ticket *t) {
  uint32_t state = atomic_load_explicit(&t->state, memory_order_acquire);
  if (state == SHM_MATCHED) {
    shm_ticket *receive = t->sends ? t->match : t;
    uint32_t matched = SHM_MATCHED;
    if (atomic_compare_exchange_strong_explicit(&receive->state, &matched, SHM_TAKEN, memory_order_acquire,
                                                memory_order_relaxed))
      copy_message(c, receive);
    state = atomic_load_explicit(&t->state, memory_order_acquire);
  }
  return state == SHM_DONE;
}

/* Both stand: the receive is the one that is taken. */
static mal_status match(mal_comm *c, shm_ticket *send, shm_ticket *receive, mal_error *e) {
  if (send->bytes != receive->bytes)
    return shm_fail(c, e, _("Rank %d sends %lld bytes to rank %d, which expects %lld (tag %llu)."), receive->peer,
                    (long long)send->bytes, send->peer, (long long)receive->bytes, (unsigned long long)send->tag);
  send->match = receive;
  receive->match = send;
  atomic_store_explicit(&send->state, SHM_MATCHED, memory_order_release);
  atomic_store_explicit(&receive->state, SHM_MATCHED, memory_order_release);
  return MAL_OK;
}

typedef struct letter {
  bool sends;
  int32_t group, member;
  uint64_t tag;
  void *data;
  int64_t bytes;
} letter;

static mal_status post(mal_comm *c, const letter *l, mal_comm_ticket *ticket, mal_error *e) {
  mal_world *w = c->world;
  *ticket = MAL_COMM_NONE;
  if (shm_failed(w)) return shm_failure(w, e);
  const shm_group *g = &w->shared->group[l->group];
  if (l->member < 0 || l->member >= g->size)
    return mal_fail(e, MAL_FAULT, _("Rank %d: a message in group %s names member %d of %d."), c->rank, g->name,
                    l->member, g->size);
  int32_t peer = mal_members_rank(&g->members, l->member), index = shm_take_ticket(c, e);
  if (index < 0) return MAL_FAULT;
  *ticket = index;
  shm_end *mine = &w->shared->end[c->rank], *theirs = &w->shared->end[peer], *receiver = l->sends ? theirs : mine;
  shm_ticket *t = &mine->ticket[index];
  if (!shm_lock(w, &receiver->lock)) return shm_failure(w, e);
  t->sends = l->sends;
  t->group = l->group;
  t->tag = l->tag;
  t->data = l->data;
  t->bytes = l->bytes;
  t->number = c->started++;
  atomic_store_explicit(&t->peer, peer, memory_order_relaxed);
  atomic_store_explicit(&t->state, SHM_OPEN, memory_order_relaxed);
  _Atomic uint64_t *here = l->sends ? &mine->sending : &mine->receiving,
                   *there = l->sends ? &theirs->receiving : &theirs->sending;
  int32_t other = find(theirs, atomic_load_explicit(there, memory_order_acquire), c->rank, l->tag);
  mal_status status = MAL_OK;
  if (other < 0) {
    atomic_fetch_or_explicit(here, bit(index), memory_order_release);
  } else {
    atomic_fetch_and_explicit(there, ~bit(other), memory_order_relaxed);
    status = l->sends ? match(c, t, &theirs->ticket[other], e) : match(c, &theirs->ticket[other], t, e);
  }
  shm_unlock(&receiver->lock);
  if (status || other < 0) return status;
  if (l->bytes <= SHM_SMALL_BYTES)
    shm_help_message(c, t);
  else
    shm_ring(w, peer);
  return MAL_OK;
}

mal_status shm_send(mal_comm *c, int32_t group, int32_t to, uint64_t tag, const void *from, int64_t bytes,
                    mal_comm_ticket *t, mal_error *e) {
  return post(c, &(letter){true, group, to, tag, (void *)(uintptr_t)from, bytes}, t, e);
}

mal_status shm_recv(mal_comm *c, int32_t group, int32_t from, uint64_t tag, void *into, int64_t bytes,
                    mal_comm_ticket *t, mal_error *e) {
  return post(c, &(letter){false, group, from, tag, into, bytes}, t, e);
}
