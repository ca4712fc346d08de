/* Collectives: arriving, opening, claiming, closing. */
#include "engine/comm/shm.h"

static void ring_members(mal_comm *c, const shm_group *g) {
  for (int32_t i = 0; i < g->size; i++) {
    int32_t rank = mal_members_rank(&g->members, i);
    if (rank != c->rank) shm_ring(c->world, rank);
  }
}

/* Takes one chunk of the call and moves it; false when there is none (left). */
static bool take_chunk(mal_comm *c, shm_group *g, shm_slot *slot, uint64_t number, int32_t chunks) {
  uint64_t claim = atomic_load_explicit(&slot->claim, memory_order_acquire);
  for (;;) {
    int32_t next = (int32_t)(claim & ((1 << SHM_CLAIM_BITS) - 1));
    if (claim >> SHM_CLAIM_BITS != number + 1 || next >= chunks) return false;
    if (atomic_compare_exchange_weak_explicit(&slot->claim, &claim, claim + 1, memory_order_acquire,
                                              memory_order_acquire)) {
      shm_move(g, slot, next);
      break;
    }
  }
  if (atomic_fetch_add_explicit(&slot->finished, 1, memory_order_acq_rel) + 1 == (uint32_t)chunks) {
    atomic_store_explicit(&slot->finished, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->done, number + 1, memory_order_release);
    ring_members(c, g);
  }
  return true;
}

bool shm_help_call(mal_comm *c, shm_ticket *t) {
  shm_group *g = &c->world->shared->group[t->group];
  shm_slot *slot = shm_slot_of(g, t->number);
  for (;;) {
    if (atomic_load_explicit(&slot->done, memory_order_acquire) > t->number) return true;
    if (!take_chunk(c, g, slot, t->number, t->chunks)) break;
  }
  return atomic_load_explicit(&slot->done, memory_order_acquire) > t->number;
}

static bool agree(const mal_comm_call *a, const mal_comm_call *b) {
  bool same = a->op == b->op && a->dtype == b->dtype && a->reduction == b->reduction && a->root == b->root;
  for (int p = 0; p < MAL_COMM_PARTS; p++) same = same && a->elements[p] == b->elements[p];
  return same;
}

/* All have arrived: every member must mean the same call. */
static mal_status check_agreement(mal_comm *c, const shm_group *g, const shm_slot *slot, mal_error *e) {
  const mal_comm_call *first = &slot->member[0].call;
  for (int32_t i = 1; i < g->size; i++) {
    const mal_comm_call *other = &slot->member[i].call;
    if (agree(first, other)) continue;
    return shm_fail(c, e,
                    _("Group %s: rank %d calls %s of %lld elements (step %lld, instruction %lld), rank %d %s of %lld "
                      "(step %lld, instruction %lld): they must call the same."),
                    g->name, mal_members_rank(&g->members, 0), mal_collective_name[first->op],
                    (long long)first->elements[0], (long long)first->step, (long long)first->instruction,
                    mal_members_rank(&g->members, i), mal_collective_name[other->op], (long long)other->elements[0],
                    (long long)other->step, (long long)other->instruction);
  }
  return MAL_OK;
}

static mal_status open_slot(mal_comm *c, shm_group *g, shm_slot *slot, shm_ticket *t, mal_error *e) {
  mal_status status = check_agreement(c, g, slot, e);
  if (status) return status;
  atomic_store_explicit(&slot->claim, (t->number + 1) << SHM_CLAIM_BITS, memory_order_release);
  if (t->chunks > 0 && shm_call_bytes(&t->call) * g->size > SHM_SMALL_BYTES && g->size > 1) {
    ring_members(c, g);
  } else if (t->chunks == 0) {
    atomic_store_explicit(&slot->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->done, t->number + 1, memory_order_release);
    ring_members(c, g);
  } else {
    shm_help_call(c, t);
  }
  return MAL_OK;
}

mal_status shm_start(mal_comm *c, int32_t group, const mal_comm_call *call, mal_comm_ticket *ticket, mal_error *e) {
  mal_world *w = c->world;
  *ticket = MAL_COMM_NONE;
  if (shm_failed(w)) return shm_failure(w, e);
  shm_group *g = &w->shared->group[group];
  int32_t me = mal_members_index(&g->members, c->rank);
  mal_status status = shm_check(c, g, call, e);
  if (status) return status;
  int32_t index = shm_take_ticket(c, e);
  if (index < 0) return MAL_FAULT;
  shm_ticket *t = &w->shared->end[c->rank].ticket[index];
  atomic_store_explicit(&t->peer, -1, memory_order_relaxed);
  t->group = group;
  t->call = *call;
  t->chunks = shm_chunks(call, g->size);
  t->number = g->seats[me].next++;
  *ticket = index;

  shm_slot *slot = shm_slot_of(g, t->number);
  slot->member[me].call = *call;
  atomic_store_explicit(&slot->member[me].arrived, t->number + 1, memory_order_relaxed);
  bool last = atomic_fetch_add_explicit(&slot->arrived, 1, memory_order_acq_rel) + 1 == (uint32_t)g->size;
  return last ? open_slot(c, g, slot, t, e) : MAL_OK;
}
