/* Inside simulate: what the files of the event engine share. */
#ifndef MAL_SIMULATE_ACTOR_H
#define MAL_SIMULATE_ACTOR_H
#include "program/schedule.h"
#include "simulate/play.h"

enum { MAL_SIM_VARIANTS = 64 };
enum { /* in place of an operation of the list in play: whose a transfer is */
       MAL_SIM_DP_HANDLE = -2,
       MAL_SIM_IDS_HANDLE = -3,  /* ids of the first micro-batch, to the GPU */
       MAL_SIM_READ_HANDLE = -4, /* ids of the next step, from storage */
       MAL_SIM_SAVE_HANDLE = -5, /* a checkpoint, to host memory */
       MAL_SIM_WRITE_HANDLE = -6 /* and on to storage */
};

typedef struct mal_sim_event {
  double at;
  uint64_t order; /* ties go by the order of making */
  int32_t actor, what;
  int64_t with;
} mal_sim_event;

enum {
  MAL_EV_SEGMENT, /* with: version */
  MAL_EV_OP,      /* an operation of the list in play may start or has ended; with: its index */
  MAL_EV_DP,      /* a local operation of the data-parallel stream ended */
  MAL_EV_FLOW,    /* with: transfer that starts to move */
  MAL_EV_SPEED,   /* a throttle begins or ends */
  MAL_EV_DIE,
  MAL_EV_START /* with: 1 after a checkpoint's stall */
};

typedef enum mal_sim_state {
  MAL_AT_NEXT, /* the next entry of the table */
  MAL_AT_MESSAGE,
  MAL_AT_SEGMENT,
  MAL_AT_LIST,
  MAL_AT_GATHER,
  MAL_AT_PARAMS,
  MAL_AT_SEND,
  MAL_AT_REDUCE, /* until the data-parallel stream is empty, within a pass */
  MAL_AT_SYNC,   /* the same before the gradient sync */
  MAL_AT_SAVE,
  MAL_AT_IDS,
  MAL_AT_READ, /* until the ids of the next step are there */
  MAL_AT_END,
  MAL_AT_DEAD
} mal_sim_state;

typedef struct mal_sim_job { /* on the data-parallel stream */
  const mal_sim_list *list;
  int32_t from, to;
  enum { MAL_JOB_GATHER, MAL_JOB_REDUCE, MAL_JOB_BUCKET, MAL_JOB_PARAMS } what;
} mal_sim_job;

typedef struct mal_sim_run { /* a list with operations over shared links, in play */
  const mal_sim_list *list;
  double *start, *end, begun; /* end < 0: not known */
  uint8_t *placed;            /* 1: placed, 2: ended */
  int32_t *recorder;
  int32_t room, room_events, open;
} mal_sim_run;

typedef struct mal_sim_actor {
  mal_sim_class *class;
  const mal_step *steps;
  int64_t n_steps, pc;
  mal_sim_state state;
  int32_t id;
  uint32_t version;
  double since;       /* waiting or computing from */
  double slow;        /* now, throttle included */
  double *arrived[2]; /* by direction, [chunk · M + micro-batch]: when; < 0 not yet */
  /* the pass in play */
  uint8_t pass, chunk, phase;
  /* entered: its entry is in play; final: the last reducing pass of its chunk; gathered: the unit's gather has run on the
   * compute stream */
  bool entered, sent, sync_list, final, gathered;
  double pass_began, waited; /* waited: share of expert traffic that this pass sees, beside the other direction */
  int64_t micro_batch;
  int32_t unit, n_units;
  /* the running segment */
  double left, rate, segment_s;
  const mal_sim_span *span; /* its causes, NULL: those of a whole pass */
  /* the data-parallel stream */
  mal_sim_job *jobs;
  int32_t first_job, n_jobs, room_jobs, job_at;
  bool dp_busy, dp_moving, reading;
  int64_t held[2]; /* entries of messages that leave at the end of the pair in play */
  int n_held;
  int32_t dp_meeting; /* -1: local */
  int32_t gathers_asked, gathers_done, params_done, n_params, buckets_issued,
      reducing; /* reducing: units not reduced yet */
  double elements_done;
  double dp_since, beside_s, beside_from; /* beside: how long traffic has moved beside the list in play */
  mal_sim_run run;
  int64_t seq[MAL_SIM_KINDS]
             [2]; /* collectives so far, of lists and of the data-parallel stream: communicators of their own */
  uint64_t random;
  int first_rank, n_ranks; /* of the watched ones, sorted by actor */
} mal_sim_actor;

typedef struct mal_sim_arrival {
  int32_t actor, handle;
  double at;
} mal_sim_arrival;

typedef struct mal_sim_meeting { /* one collective of one group, from the first arrival to its end */
  int64_t seq;
  int16_t kind;
  int32_t group, arrived, room, flow, computing;
  const mal_sim_op *op;
  const mal_sim_list *list;
  double limit, began;
  mal_sim_arrival *arrivals;
  bool data, used, moving, lane;
  double share; /* what moves of it before its members go on */
} mal_sim_meeting;

typedef struct mal_sim_transfer { /* what a flow carries */
  int32_t meeting;                /* -1: a message or the unwaited rest of a collective */
  int32_t from, to;               /* actors; -1 */
  int32_t handle;                 /* of a copy */
  uint8_t direction, chunk;
  bool blocking;
  int64_t micro_batch;
  double bytes, limit, asked, hop;
  mal_flow_use *uses;
  int32_t n_uses, room_uses;
} mal_sim_transfer;

typedef struct mal_sim_unit {
  int32_t block;
  double elements_before; /* trained elements of the stage's earlier units, chunk by chunk, in the order of forward */
} mal_sim_unit;

typedef struct mal_sim_chunk {
  mal_sim_unit *units;
  int32_t n_units;
  int64_t first_f, last_reduce; /* entries of the table */
  double elements;
} mal_sim_chunk;

typedef struct mal_sim_pair { /* DualPipe: F and the whole backward pass of the other direction after it run as one */
  int64_t entry, end;         /* the other's entry, -1 none; the W that ends both */
  double waited;              /* share of expert traffic that is seen */
} mal_sim_pair;

typedef struct mal_sim_stage {
  mal_sim_pair *pairs; /* [entry]; NULL without pairs */
  mal_step *steps;
  int64_t n_steps;
  mal_sim_chunk *chunks;
  double elements;
  mal_sim_list sync, optimizer, buckets, params; /* without what moves beside the passes; what does, in order of use */
} mal_sim_stage;

typedef struct mal_sim_variant {
  double slow, link_left;
  mal_sim_span *pass;  /* [block · PASSES + pass]; span_s < 0: not known */
  mal_sim_span *chunk; /* [(stage · chunks + chunk) · PASSES + pass] */
} mal_sim_variant;

typedef struct mal_sim {
  mal_sim_world *w;
  const mal_program *p;
  const mal_plan *plan;
  const mal_sim_watch *watch;
  mal_sim_played *out;
  mal_arena *arena;
  mal_error *e;
  mal_status status;
  mal_pipe pipe;
  mal_sim_stage *stages;
  mal_sim_list *lists; /* [block · LISTS + list] */
  bool *net;           /* [block · PASSES + pass]: it has operations over shared links */
  mal_sim_actor *actors;
  int32_t n_actors;
  mal_sim_variant variants[MAL_SIM_VARIANTS];
  int n_variants;
  double beside; /* dp_exposed */
  bool units_gather, units_reduce, gather_beside, reduce_beside, params_beside, grads_beside;
  mal_flows *flows;
  mal_sim_transfer **carried; /* [flow] */
  int32_t room_carried;
  mal_sim_transfer **spare;
  int32_t n_spare, room_spare;
  mal_sim_transfer **waiting; /* transfers by number, for MAL_EV_FLOW */
  int32_t n_waiting, room_waiting;
  mal_sim_meeting *meetings;
  int32_t n_meetings, room_meetings, *idle, n_idle, room_idle;
  int32_t **open; /* [kind][group]: chain of open meetings is short: first, then by seq */
  mal_sim_event *heap;
  int64_t n_heap, room_heap;
  uint64_t order;
  double now;
  int64_t entries, entries_done;
  int32_t n_ended; /* actors */
  mal_sim_blame *blames;
  int64_t room_blames, n_blames;
  int *ranks; /* of the watch, by actor */
} mal_sim;

/* --- meet.c --- */
void mal_sim_push(mal_sim *s, double at, int32_t actor, int what, int64_t with);
bool mal_sim_pop(mal_sim *s, mal_sim_event *e);
/* The actor reaches a collective; handle: the operation of its list, or MAL_SIM_DP_HANDLE. */
void mal_sim_arrive(mal_sim *s, mal_sim_actor *a, const mal_sim_list *l, const mal_sim_op *op, int32_t handle);
void mal_sim_send(mal_sim *s, mal_sim_actor *a, const mal_step *step, bool blocking);
void mal_sim_start_flow(mal_sim *s, int64_t transfer);
void mal_sim_end_flow(mal_sim *s, int32_t flow);
/* The actor's compute stream starts or stops: data-parallel traffic beside it slows down or speeds up. */
void mal_sim_computes(mal_sim *s, mal_sim_actor *a, bool on);
char *mal_sim_why_stuck(mal_sim *s);
mal_sim_transfer *mal_sim_take_transfer(mal_sim *s);
void mal_sim_room_uses(mal_sim *s, mal_sim_transfer *t, int32_t count);
void mal_sim_schedule_flow(mal_sim *s, mal_sim_transfer *t, double at); /* moves from then on */

/* --- copies.c --- */
void mal_sim_copy(mal_sim *s, mal_sim_actor *a, const mal_sim_op *op, int32_t handle);
void mal_sim_copied(mal_sim *s, const mal_sim_transfer *t);
void mal_sim_begin(mal_sim *s, mal_sim_actor *a, bool saved); /* the step, or the checkpoint before it */

/* --- traffic.c --- */
void mal_sim_add_job(mal_sim *s, mal_sim_actor *a, mal_sim_job job);
void mal_sim_kick(mal_sim *s, mal_sim_actor *a);     /* starts the next operation of the stream, if it is free */
void mal_sim_job_step(mal_sim *s, mal_sim_actor *a); /* the operation in play has ended */
static inline bool mal_sim_dp_empty(const mal_sim_actor *a) { return !a->dp_busy && a->n_jobs == a->first_job; }

/* --- set_up.c --- */
mal_status mal_sim_set_up(mal_sim *s);

/* --- spans.c: how long passes take alone --- */
mal_sim_list *mal_sim_list_of(mal_sim *s, int block, int list);
int mal_sim_lists_of(int pass, int lists[2]); /* of a pass over one unit, in order */
mal_sim_variant *mal_sim_variant_of(mal_sim *s, double slow, double link_left);
const mal_sim_span *mal_sim_unit_span(mal_sim *s, mal_sim_variant *v, int block, int pass);
const mal_sim_span *mal_sim_chunk_span(mal_sim *s, mal_sim_variant *v, int64_t stage, int chunk, int pass);
bool mal_sim_any_net(mal_sim *s, const mal_sim_chunk *c, int pass);
double mal_sim_jitter(mal_sim_actor *a, int64_t ranks);
static inline bool mal_sim_is_net(const mal_sim *s, int block, int pass) {
  return s->net[block * MAL_SIM_PASSES + pass];
}

/* --- segment.c: stretches of compute; drawing and counting --- */
void mal_sim_start_segment(mal_sim *s, mal_sim_actor *a, const mal_sim_span *span, double factor);
void mal_sim_end_segment(mal_sim *s, mal_sim_actor *a);
void mal_sim_set_rate(mal_sim *s, mal_sim_actor *a, double rate); /* of the running segment */
void mal_sim_draw(mal_sim *s, const mal_sim_actor *a, const char *name, int stream, int chunk, int64_t micro_batch,
                  double start, double end);
void mal_sim_draw_unit(mal_sim *s, mal_sim_actor *a, int block, double scale);
void mal_sim_draw_pass(mal_sim *s, mal_sim_actor *a, double from);
void mal_sim_count(mal_sim *s, mal_sim_actor *a, const mal_sim_list *l, double times); /* FLOPs and bytes of a list */
static inline double *mal_sim_causes(mal_sim *s, const mal_sim_actor *a) { return s->out->cause_s[a->id]; }
int64_t mal_sim_rank(const mal_sim *s, const mal_sim_actor *a);

/* --- list_run.c: lists over shared links --- */
enum { MAL_LIST_ENDS = -1, MAL_LIST_HAS_ENDED = -2 }; /* in place of an operation's number */
void mal_sim_start_list(mal_sim *s, mal_sim_actor *a, const mal_sim_list *l);
void mal_sim_list_beside(mal_sim *s, mal_sim_actor *a, bool on); /* traffic beside its list begins or ends */
double mal_sim_list_longer(mal_sim *s, mal_sim_actor *a);        /* what that has added to the list */
void mal_sim_op_ended(mal_sim *s, mal_sim_actor *a, int32_t op, double at);

/* --- pass.c --- */
/* Whether the entry's message is there; else the actor waits for it. */
bool mal_sim_has_message(mal_sim *s, mal_sim_actor *a, const mal_step *step);
bool mal_sim_begin_pass(mal_sim *s, mal_sim_actor *a, const mal_step *step); /* true: it plays as one segment */
bool mal_sim_continue_pass(mal_sim *s, mal_sim_actor *a);                    /* true: it is over */
bool mal_sim_waits_for_params(const mal_sim *s, const mal_sim_actor *a);
const mal_sim_unit *mal_sim_unit_at(const mal_sim *s, const mal_sim_actor *a, int32_t index);

/* --- play.c --- */
void mal_sim_advance(mal_sim *s, mal_sim_actor *a);
#endif
