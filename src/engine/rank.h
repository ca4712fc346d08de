/* One rank: its stage's regions in one arena, its blocks in place, its groups. Internal to the engine. */
#ifndef MAL_ENGINE_RANK_H
#define MAL_ENGINE_RANK_H
#include "engine/comm/comm.h"
#include "engine/device/device.h"
#include "engine/supervise/supervise.h"
#include "engine/tensors.h"
#include "timeline/timeline.h"

/* What an external buffer of a block is: of the hidden stream what comes in or goes out, or its gradient. */
typedef enum mal_end { MAL_END_NONE, MAL_END_X, MAL_END_Y, MAL_END_DY, MAL_END_DX } mal_end;

/* What the engine adds to a block, once for all of its instances. */
typedef struct mal_block_plan {
  const mal_block *block;
  uint8_t *hold;           /* of STASH buffers: mal_hold */
  int64_t *hold_offset;    /* and their place among the parts held so long */
  uint8_t *end;            /* mal_end */
  int32_t x, y, dy, dx;    /* buffers, -1 none */
  int32_t tokens;          /* buffer of ids (embedding) or labels (head), -1 none */
  int64_t held[MAL_HOLDS]; /* bytes of one micro-batch */
  int64_t work_bytes;      /* the most of its lists */
} mal_block_plan;

typedef struct mal_instance { /* a block at its place in a chunk */
  const mal_block_plan *plan;
  int64_t layer;               /* -1: none */
  int64_t *param_at;           /* by param: elements into the flat space */
  int64_t unit_at, held_at;    /* ZeRO-2: where its weights begin, and this rank's share of their gradients */
  int64_t stash_at[MAL_HOLDS]; /* its part of the chunk's parts */
} mal_instance;

typedef struct mal_chunk_place {
  mal_instance *at;
  int n;
  bool first, last;            /* of the pipeline */
  int32_t (*place)[MAL_HOLDS]; /* by slot: which place of each pool it has */
} mal_chunk_place;

/* A stretch of the flat space in which everything is alike. */
typedef struct mal_stretch {
  int64_t at, n, state; /* state: into the moments */
  bool decay, owned;
} mal_stretch;

typedef struct mal_open { /* a call under way on a stream */
  mal_comm_ticket ticket;
  const mal_instruction *instruction;
  double started_s;
} mal_open;

typedef struct mal_message { /* asked for, not yet used */
  bool taken, backward;
  uint8_t chunk;
  uint32_t micro_batch;
  mal_comm_ticket ticket;
  double started_s;
} mal_message;

enum {
  MAL_MAX_GROUPS = 64,
  MAL_MAX_INCOMING = 64,
  MAL_OPEN_INCOMING = 32 /* of them under way; leaves calls to others */
};

typedef struct mal_rank {
  /* who */
  int32_t rank;
  int64_t tp_index, dp_index, stage;
  const mal_program *program;
  const mal_stage *stage_plan;
  const mal_device *device;
  const mal_comm_backend *backend;
  mal_comm *comm;
  mal_rank_facts facts;
  /* where */
  void *mapping;
  int64_t mapping_bytes;
  char *memory;                     /* the arena, in the mapping */
  int64_t memory_bytes, used_bytes; /* the arena: planned bytes; what is laid out in it */
  float *param, *grad, *moments;
  char *pool[3 * 256], *bucket, *unit_gradients, *work, *io, *outgoing, *incoming,
      *scratch; /* scratch: behind the stash */
  int64_t elements, grad_elements, state_elements, half_bytes, message_bytes;
  mal_chunk_place *chunks;
  mal_block_plan *sync, *optimizer;
  mal_pieces pieces;
  mal_shard *shards;
  int32_t n_shards;
  mal_stretch *stretches; /* by place */
  int32_t n_stretches;
  int32_t *free_place[3 * 256], n_free[3 * 256];
  mal_step *steps;
  int64_t n_steps;
  /* groups: by axes of the instructions; and what stages hand over */
  int32_t group_of[256], stages_group;
  mal_members members_of[256];
  /* while it runs */
  mal_open open[MAL_STREAMS];
  mal_comm_ticket sending;
  mal_message messages[MAL_MAX_INCOMING];
  double flops, loss_sum, grad_norm;
  int64_t *sequence; /* tokens of one, seq + 1 */
  int64_t step, instructions;
  mal_rank_place *place;  /* where its supervisor looks; NULL: nobody does */
  mal_timeline *timeline; /* NULL: not traced */
  double epoch_s;         /* its zero */
} mal_rank;

typedef struct mal_rank_request {
  const mal_program *program;
  const mal_device *device;
  const mal_comm_backend *backend;
  mal_world *world;
  int32_t rank;
  const float *const *rope; /* by layer kind */
} mal_rank_request;

/* What it takes of the backend's memory: the most of all ranks. */
int64_t mal_rank_bytes(const mal_program *p);
/* Lays out everything; called in the rank's own thread, so that its pages are near it. Errors: memory, groups. */
mal_status mal_rank_open(mal_arena *a, const mal_rank_request *q, mal_rank *r, mal_error *e);
void mal_rank_close(mal_rank *r);
void mal_rank_state_of(const mal_rank *r, mal_rank_state *s);

/* Coordinates on an axis, and the group over a mask of axes that a rank is in. */
/* Gradients of `at`, whose state lies at `state`. With ZeRO-2 a rank has those of its shards only, beside one another as the states. */
static inline float *mal_gradients_at(const mal_rank *r, int64_t at, int64_t state) {
  return r->grad + (r->program->plan->layout.zero >= 2 ? state : at);
}

int64_t mal_rank_index(const mal_layout *l, int32_t rank, mal_axis axis);
mal_members mal_rank_members(const mal_layout *l, int32_t rank, unsigned axes);

/* What a step needs from outside, and what it gives. */
typedef struct mal_tokens_source {
  /* The seq + 1 tokens of sequence `index` of the run's order. Any rank's thread may call. */
  mal_status (*read)(void *context, int64_t index, int64_t *ids, mal_error *e);
  void *context;
} mal_tokens_source;

typedef struct mal_step_request {
  int64_t step;           /* from 0 */
  int64_t first_sequence; /* of the global batch in the run's order */
  const mal_tokens_source *source;
  mal_adamw adamw; /* decay: of what decays */
  float clip;      /* 0: none */
} mal_step_request;

/* One step. Afterwards r->loss_sum (Σ over this rank's rows, where it has the head), grad_norm, flops (of this step). */
mal_status mal_rank_step(mal_rank *r, const mal_step_request *q, mal_error *e);
/* Forward only: adds the loss of one global batch of `q` to r->loss_sum, which it clears first. */
mal_status mal_rank_evaluate(mal_rank *r, const mal_step_request *q, mal_error *e);
double mal_now_s(void);
#endif
