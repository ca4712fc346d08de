/* The step program: a schedule over blocks, never copied out. Executors hold (schedule pc, block pc, slot base). */
#ifndef MAL_PROGRAM_PROGRAM_H
#define MAL_PROGRAM_PROGRAM_H
#include "core/json.h"
#include "plan/plan.h"
#include "program/block.h"

typedef enum mal_step_op {
  MAL_S_F,
  MAL_S_B,
  MAL_S_W,
  MAL_S_BW,
  MAL_S_SEND_F,
  MAL_S_RECV_F,
  MAL_S_SEND_B,
  MAL_S_RECV_B,
  MAL_S_SYNC,
  MAL_S_OPT,
  MAL_STEP_OPS
} mal_step_op;

/* One entry of a stage's table. For SEND/RECV the peer follows from the virtual stage (chunk · pp + stage ± 1; DualPipe:
 * its own placement). R runs inside B/BW, layer by layer; GATHER and REDUCE of a ZeRO-3 unit run around its lists with
 * `prefetch` units ahead. slot: which stash slot of the chunk the micro-batch uses. */
typedef struct mal_step {
  uint8_t op, chunk; /* DualPipe's second stream of micro-batches is chunk 1 */
  uint32_t micro_batch, slot;
} mal_step;

typedef struct mal_run {
  int block;
  int64_t count;
} mal_run; /* `count` equal layers after one another */
/* One micro-batch's stash by how long it is held. Without split B and W all of it is f_to_b. */
typedef struct mal_held {
  int64_t f_to_b, f_to_w, b_to_w;
} mal_held;
/* How long a part of the stash is held, in the order of mal_held's fields. */
typedef enum mal_hold { MAL_HOLD_F_TO_B, MAL_HOLD_F_TO_W, MAL_HOLD_B_TO_W, MAL_HOLDS } mal_hold;
/* Places of one size in static memory: taken when the part is first written, free again after its last reader. */
typedef struct mal_pool {
  int64_t bytes, places;
} mal_pool;
typedef struct mal_chunk {
  int part; /* which virtual stage it is: index into mal_layout_stages */
  mal_run *runs;
  int n_runs;
  int64_t micro_batches; /* of one step; DualPipe: half of them */
  int64_t slots;         /* micro-batches in flight at most */
  int64_t stash_bytes;   /* one slot: the sum of held */
  mal_held held;
  int pool[MAL_HOLDS]; /* of the stage's; -1 nothing held, or the profile allocates while it runs */
} mal_chunk;

typedef struct mal_stage {
  mal_chunk *chunks;
  int n_chunks;
  int sync, optimizer; /* blocks */
  mal_pool *pools;
  int n_pools;
  int64_t incoming; /* messages from other stages that have come and wait for their turn, at most */
  int64_t dense_elements, expert_elements, frozen_dense_elements, frozen_expert_elements;
  int64_t region_bytes[MAL_REGIONS];    /* persistent regions, and the others in the phase that needs most */
  int64_t memory_bytes[MAL_MEM_CAUSES]; /* the same bytes by cause, with the profile's additive memory */
  int64_t total_bytes;                  /* Σ memory_bytes */
  int64_t host_bytes, nvme_bytes;       /* offloaded states of one rank */
} mal_stage;

typedef struct mal_program {
  const mal_plan *plan;
  mal_block *blocks;
  int n_blocks;
  mal_stage *stages;                  /* [pp] */
  int worst_stage;                    /* by total_bytes */
  int64_t micro_batches;              /* per data-parallel rank and step */
  int64_t boundary_bytes;             /* one activation message between stages */
  bool split_backward;                /* schedule uses B and W apart */
  double model_flops, hardware_flops; /* of one step, all ranks */
  double bytes_sent
      [MAL_AXES +
       1]; /* per rank of the busiest stage, by group axis (collective payload, ring convention: all-reduce 2(n-1)/n …); last: pp sends */
} mal_program;

/* The plan must be complete. Errors: what cannot be lowered is said by name (exit 2). Does not say whether it fits. */
mal_status mal_lower(mal_arena *a, const mal_plan *plan, mal_program *p, mal_error *e);
/* For trying many plans: MAL_NO, early and with no program, when a stage's weights and gradients alone are above limit_bytes
 * (0: no limit), which is then certain not to fit. */
mal_status mal_lower_within(mal_arena *a, const mal_plan *plan, int64_t limit_bytes, mal_program *p, mal_error *e);

/* A stage's table in issue order. *steps is arena-owned. The tables of all stages are parts of one global sequence, so that no
 * stage can wait in a circle, even where each SEND waits for its RECV. A SEND need not hold its stage back; a RECV holds back
 * only what it feeds. Schedules that split use B and W and never BW. Errors (exit 2): micro-batches that the schedule cannot take. */
mal_status mal_schedule_stage(mal_arena *a, const mal_layout *l, int64_t micro_batches, int64_t stage, mal_step **steps,
                              int64_t *count, mal_error *e);
/* The other stage of a SEND or RECV; -1 for other entries. */
int64_t mal_schedule_peer(const mal_layout *l, int64_t stage, const mal_step *step);
/* Chunks of a stage: vpp; DualPipe 2. DualPipe's micro-batches 0 .. M/2-1 go through chunk 0, the others through chunk 1. */
int64_t mal_schedule_chunks(const mal_layout *l);
/* The virtual stage (index into mal_layout_stages) that chunk c of stage s is: c · pp + s; DualPipe s, and for chunk 1 pp-1-s. */
int64_t mal_schedule_part(const mal_layout *l, int64_t stage, int64_t chunk);
bool mal_schedule_splits(const mal_layout *l); /* uses B and W apart */
/* Most places of each pool that are taken at one time; pool[chunk] names the pools of a chunk's parts, -1 none. */
void mal_schedule_places(const mal_layout *l, int64_t micro_batches, int64_t stage, const int (*pool)[MAL_HOLDS],
                         int n_pools, int64_t *places);
/* Most messages that have been received and not been used, by the table. */
int64_t mal_schedule_incoming(const mal_layout *l, int64_t micro_batches, int64_t stage);
/* Most micro-batches of chunk c that stage s holds between forward and (last) backward part: from the table. */
int64_t mal_schedule_slots(const mal_layout *l, int64_t micro_batches, int64_t stage, int64_t chunk);
void mal_schedule_all_slots(const mal_layout *l, int64_t micro_batches, int64_t stage,
                            int64_t *slots); /* of every chunk at once */
/* Most bytes that all chunks of a stage hold at one time, when a micro-batch of chunk c holds held[c]. Less than the sum of the
 * chunks' own maxima. */
int64_t mal_schedule_peak(const mal_layout *l, int64_t micro_batches, int64_t stage, const mal_held *held);
/* Whether the schedule can be made at all (exit 2). */
mal_status mal_schedule_check(const mal_layout *l, int64_t micro_batches, mal_error *e);

/* Bytes that a rank of a stage sends in a step, by axis (what count.c adds to bytes_sent); last: messages to other stages. */
void mal_program_sent(const mal_program *p, int64_t stage, double sent[MAL_AXES + 1]);
int mal_program_axis(unsigned axes); /* the axis that a group over several is counted under */

/* How often a step runs a list of a block that lies `count` times in a chunk, each time for one of its layers: F, B, W, BW and R
 * once per micro-batch; GATHER before F and, with the profile's regather, before backward; REDUCE after it. */
int64_t mal_program_list_runs(const mal_program *p, const mal_chunk *c, mal_list list);

/* Readable and JSON forms of a program (malha lower). */
/* Of each buffer in STASH how long it is held (mal_hold) and its place among the block's parts that are held as long.
 * split: B and W are apart. hold and offset_bytes have room for n_buffers; either may be NULL. */
mal_held mal_block_holds(mal_arena *scratch, const mal_block *b, bool split, uint8_t *hold, int64_t *offset_bytes);

char *mal_program_text(mal_arena *a, const mal_program *p);
json_t *mal_program_json(const mal_program *p);
#endif
