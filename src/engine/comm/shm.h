/* Inside the shm backend: ranks that see each other's memory.
 *
 * A call of a group is a slot: every member leaves its operands there, and the work is cut into chunks that any member may
 * claim. The last to arrive opens the slot; whoever waits takes chunks until none is left; whoever finishes the last chunk
 * closes the slot. So a call is complete soon after the last member started it, even if that member is busy elsewhere.
 *
 * Invariants.
 * 1. Slot s of a group serves calls s, s + MAL_COMM_OPEN, ... in turn. A member has at most MAL_COMM_OPEN calls open, so the
 *    call before in the slot is closed when a member arrives for the next.
 * 2. `claim` holds the call's number + 1 beside the next chunk: a late claim for a closed call fails to swap.
 * 3. `done` grows only: a member that looks late still sees that its call was closed.
 * 4. A message is matched under the lock of its receiver and copied by whoever takes it from MATCHED to TAKEN.
 * 5. A sleeper sets `asleep`, then looks again, then sleeps; whoever changes what it may wait for looks at `asleep` after
 *    the change (both sequentially consistent): no wake-up is lost.
 * 6. `failed` goes 0, 1 (being written), 2 (the text stands); every loop that waits leaves at 2. */
#ifndef MAL_ENGINE_COMM_SHM_H
#define MAL_ENGINE_COMM_SHM_H
#include "engine/comm/comm.h"
#include <stdatomic.h>

enum {
  SHM_CHUNK_BYTES =
      128 << 10,              /* what is claimed at a time: large beside a claim (about 100 ns), small beside a cache */
  SHM_SMALL_BYTES = 16 << 10, /* up to this the last to arrive does it all: less than waking another takes */
  SHM_SPIN_NS = 50000,
  SHM_RANKS = 1024,
  SHM_GROUPS = 8192,
  SHM_CLAIM_BITS = 24,
  SHM_NAME = 24,
  SHM_MAPPINGS = 4, /* of a rank thread */
  SHM_TEXT = 1024,
};

typedef struct shm_member {              /* what one member brings to a call */
  _Alignas(64) _Atomic uint64_t arrived; /* number + 1 of the call it last came to in this slot */
  mal_comm_call call;
} shm_member;

typedef struct shm_slot {
  _Alignas(64) _Atomic uint64_t claim;
  _Alignas(64) _Atomic uint32_t arrived;
  _Atomic uint32_t finished;
  _Atomic uint64_t done; /* number + 1 of the last call closed here */
  shm_member member[];
} shm_slot;

typedef struct shm_seat { /* of one member of a group */
  _Alignas(64) _Atomic int64_t sent_bytes;
  uint64_t next; /* number of its next call; its own */
} shm_seat;

typedef struct shm_group {
  mal_members members;
  int32_t size;
  char name[SHM_NAME];
  shm_seat *seats;
  char *slots;
  size_t slot_bytes;
} shm_group;

typedef enum shm_state { SHM_FREE, SHM_OPEN, SHM_MATCHED, SHM_TAKEN, SHM_DONE } shm_state;

typedef struct shm_ticket {
  _Alignas(64) _Atomic uint32_t state; /* of a message; collectives look at their slot */
  _Atomic int32_t peer;                /* of a message: world rank; -1 a collective */
  bool sends;
  int32_t group, chunks;
  uint64_t number; /* collective: its number in the group; message: order of starting */
  uint64_t tag;
  void *data;
  int64_t bytes;
  struct shm_ticket *match;
  mal_comm_call call; /* collective */
} shm_ticket;

typedef struct shm_end { /* the shared part of a rank's end */
  _Alignas(64) _Atomic uint32_t bell;
  _Atomic uint32_t asleep;
  _Alignas(64) _Atomic uint32_t lock;  /* matching of messages to this rank */
  _Atomic uint64_t sending, receiving; /* tickets that are OPEN, one bit each */
  shm_ticket ticket[MAL_COMM_OPEN];
} shm_end;

typedef struct shm_shared {
  _Alignas(64) _Atomic uint32_t failed;
  _Atomic uint32_t lock; /* registry and pool */
  _Atomic int32_t groups;
  _Atomic size_t used;
  int32_t status; /* of the failure, a mal_status */
  char text[SHM_TEXT];
  shm_group group[SHM_GROUPS];
  shm_end end[];
} shm_shared;

struct mal_world {
  mal_comm_options options;
  shm_shared *shared;
  size_t bytes;
  mal_comm *ends;
  char *memory; /* of processes: memory_bytes for each rank; NULL: threads map their own */
};

struct mal_comm {
  mal_world *world;
  int32_t rank, mappings;
  int64_t taken; /* of the rank's part of the world's memory */
  void *mapped[SHM_MAPPINGS];
  size_t mapped_bytes[SHM_MAPPINGS];
  uint64_t open; /* tickets in use */
  uint64_t started;
};

static inline shm_slot *shm_slot_of(const shm_group *g, uint64_t number) {
  return (shm_slot *)(void *)(g->slots + number % MAL_COMM_OPEN * g->slot_bytes);
}

/* world */
bool shm_failed(const mal_world *w); /* the text stands */
/* The first to fail says why (MAL_FAULT); returns the status and the text that stand, its own or the first's. */
mal_status shm_fail(mal_comm *c, mal_error *e, const char *format, ...) __attribute__((format(printf, 3, 4)));
mal_status shm_failure(const mal_world *w, mal_error *e);
bool shm_lock(mal_world *w, _Atomic uint32_t *lock); /* false: the world failed */
void shm_unlock(_Atomic uint32_t *lock);
void shm_ring(mal_world *w, int32_t rank);
uint64_t shm_now_ns(void);
/* Sleeps until rung, or the time is over. */
void shm_sleep(mal_world *w, int32_t rank, uint32_t bell, uint64_t until_ns);
int32_t shm_take_ticket(mal_comm *c, mal_error *e);

/* move: the work of a call */
mal_status shm_check(mal_comm *c, const shm_group *g, const mal_comm_call *call, mal_error *e);
int64_t shm_bytes(mal_dtype type, int64_t elements);
int32_t shm_chunks(const mal_comm_call *call, int32_t size);
int64_t shm_call_bytes(const mal_comm_call *call);
void shm_move(shm_group *g, const shm_slot *slot, int32_t chunk);

/* call, message */
mal_status shm_start(mal_comm *c, int32_t group, const mal_comm_call *call, mal_comm_ticket *t, mal_error *e);
bool shm_help_call(mal_comm *c, shm_ticket *t); /* true: done */
mal_status shm_send(mal_comm *c, int32_t group, int32_t to, uint64_t tag, const void *from, int64_t bytes,
                    mal_comm_ticket *t, mal_error *e);
mal_status shm_recv(mal_comm *c, int32_t group, int32_t from, uint64_t tag, void *into, int64_t bytes,
                    mal_comm_ticket *t, mal_error *e);
bool shm_help_message(mal_comm *c, shm_ticket *t);
#endif
