/* How ranks exchange data: one table of functions for each backend, one conformance test for all of them.
 *
 * A world has `ranks` ranks; each rank has one end (mal_comm) that one thread uses. Groups are base + Σ i · stride, never a
 * list; a group is registered once, before the first step, by all of its members in one order, and has a number. Members
 * call a group's collectives in one order (lowering sees to it).
 *
 * A call starts and returns; wait completes it. Between the two the operands belong to the call: inputs may be read by
 * peers, outputs are undefined. Backends may do all their work in start and wait of the callers (shm does): progress needs
 * every member to get to its wait. At most MAL_COMM_OPEN calls of an end are open at once. Nothing is allocated by a call.
 *
 * The waits of an end help all its open calls, so the calls of several groups may be waited for in any order.
 *
 * Sums are formed in member order, so that all members get the same bits, and every run the same. */
#ifndef MAL_ENGINE_COMM_COMM_H
#define MAL_ENGINE_COMM_COMM_H
#include "core/arena.h"
#include "core/status.h"
#include "program/instruction.h"

enum { MAL_COMM_DIMS = 3, MAL_COMM_PARTS = 3, MAL_COMM_OPEN = 64 };

/* Members of a group: base + Σ i[d] · stride[d], 0 <= i[d] < extent[d]; member 0 is base, the first dimension counts fastest. */
typedef struct mal_members {
  int32_t base;
  int32_t dims;
  int32_t extent[MAL_COMM_DIMS], stride[MAL_COMM_DIMS];
} mal_members;
int32_t mal_members_size(const mal_members *m);
int32_t mal_members_rank(const mal_members *m, int32_t index);
int32_t mal_members_index(const mal_members *m, int32_t rank); /* -1: no member */

typedef enum mal_reduction { MAL_SUM, MAL_MAX } mal_reduction;

/* One collective of up to three buffers. elements[p]: of the whole buffer of part p: all-reduce and broadcast its own,
 * all-gather what comes out, reduce-scatter what goes in, all-to-all what one rank sends to all of them, itself included.
 * Of a buffer of n elements member i has the piece [i · c, min(n, (i + 1) · c)), c = ceil(n / size): the last may be short or
 * empty. In place: all-reduce and broadcast in == out; all-gather in == out + i · c; reduce-scatter out == in + i · c.
 * All-to-all: piece j of in goes to member j, piece i of out comes from member i; n is a multiple of size. */
typedef struct mal_comm_call {
  int32_t op;        /* mal_collective */
  int32_t reduction; /* mal_reduction: all-reduce, reduce-scatter */
  int32_t dtype;     /* mal_dtype; 16-bit types are summed in fp32 */
  int32_t root;      /* broadcast: member */
  const void *in[MAL_COMM_PARTS];
  void *out[MAL_COMM_PARTS];
  int64_t elements[MAL_COMM_PARTS]; /* 0: no such part */
  const char *name;                 /* for messages; lives as long as the world */
  int64_t step, instruction;        /* for messages */
} mal_comm_call;

typedef struct mal_comm mal_comm;   /* a rank's end */
typedef struct mal_world mal_world; /* all ranks */
typedef int32_t mal_comm_ticket;    /* an open call of an end; -1 none */
enum { MAL_COMM_NONE = -1 };

typedef struct mal_comm_options {
  int32_t ranks;
  double deadline_s;    /* the longest that a wait lasts; 0: for ever */
  bool oversubscribed;  /* more ranks than cores: sleep at once rather than spin (at most 50 µs otherwise) */
  bool processes;       /* ranks will be processes, forked after open */
  int64_t memory_bytes; /* processes: the most that a rank takes by `memory` */
} mal_comm_options;

typedef struct mal_comm_backend {
  const char *name; /* "shm" */

  mal_status (*open)(mal_arena *a, const mal_comm_options *o, mal_world **w, mal_error *e);
  void (*close)(mal_world *w); /* after all ends were left */
  mal_comm *(*end)(mal_world *w, int32_t rank);
  /* Memory for operands, zeros, at a page's beginning; until close. Calls of ranks that are processes take no other. Called by the
   * rank itself, so that its pages are near it. Errors: none is left. */
  mal_status (*memory)(mal_comm *c, int64_t bytes, void **at, mal_error *e);

  /* Registers a group of which this rank is a member. name: "tp". A group of one is legal and sends nothing. */
  mal_status (*group)(mal_comm *c, const mal_members *m, const char *name, int32_t *group, mal_error *e);

  mal_status (*start)(mal_comm *c, int32_t group, const mal_comm_call *call, mal_comm_ticket *t, mal_error *e);
  /* Point to point, to and from a member of the group; tag tells apart messages of one pair that are open at once: of equal
   * tags the first sent is the first received. Counted under `group`. */
  mal_status (*send)(mal_comm *c, int32_t group, int32_t to, uint64_t tag, const void *from, int64_t bytes,
                     mal_comm_ticket *t, mal_error *e);
  mal_status (*recv)(mal_comm *c, int32_t group, int32_t from, uint64_t tag, void *into, int64_t bytes,
                     mal_comm_ticket *t, mal_error *e);
  bool (*done)(mal_comm *c, mal_comm_ticket t); /* helps progress; true: wait returns at once */
  /* Errors (MAL_FAULT; a peer's own): deadline passed, a peer failed, sizes disagree: says operation, peers, step, instruction. */
  mal_status (*wait)(mal_comm *c, mal_comm_ticket t, mal_error *e);

  /* This rank gives up: every other rank's wait fails with this status and text, at once. The first to give up counts. Callable
   * from any thread and a signal's. */
  void (*abort)(mal_world *w, int32_t rank, mal_status status, const char *why);

  /* Bytes that this rank sent to others through the group so far, counted where they are moved; of all members together:
   * all-reduce 2 (n - 1) B, all-gather, reduce-scatter, all-to-all and broadcast (n - 1) B, a message its bytes. */
  int64_t (*sent_bytes)(const mal_comm *c, int32_t group);
} mal_comm_backend;

extern const mal_comm_backend
    mal_comm_shm; /* ranks of one machine, threads or processes: peers' memory is read directly */
#endif
