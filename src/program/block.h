/* A block: an immutable instruction list for one block class under one split. Lowering emits F; B and W follow from F by
 * the opcode table's gradient rules; R is the part of F that backward needs again.
 *
 * Lists: F forward; B input gradient; W weight gradient; BW both in the order that frameworks issue them (schedules that
 * do not split use it); R recompute, run before B/BW; GATHER and REDUCE: ZeRO-3's collectives of this unit.
 *
 * Invariants: a buffer that F writes and B, W or BW reads lies in STASH (kept per micro-batch in flight), or, when R
 * writes it again, in WORK. With split B and W, what B (or R) writes for W lies in STASH too. WORK offsets are packed by
 * lifetime in happens-before order; work_bytes[list] is the packed height. R runs right before B or BW and shares its
 * work, so both have the same height. A list begins and ends with its streams joined. All ranks issue a group's
 * collectives in one order, all of a group on one stream.
 *
 * The hidden stream: x, the input, lies in STASH when backward reads it (the block before writes it there), else in IO;
 * y, the output, and the gradients dy and dx lie in IO: [0, boundary) what comes in, [boundary, 2 boundary) what goes out.
 * They are `external`. SYNC and OPTIMIZER have one list, F, over the whole stage's parameters. */
#ifndef MAL_PROGRAM_BLOCK_H
#define MAL_PROGRAM_BLOCK_H
#include "core/arena.h"
#include "program/instruction.h"

typedef enum mal_region {
  MAL_R_PARAM,
  MAL_R_GRAD,
  MAL_R_MASTER,
  MAL_R_OPT,
  MAL_R_STASH,
  MAL_R_GATHER,
  MAL_R_BUCKET,
  MAL_R_WORK,
  MAL_R_KERNEL,
  MAL_R_IO,
  MAL_REGIONS
} mal_region;
typedef enum mal_block_class {
  MAL_B_EMBED,
  MAL_B_LAYER,
  MAL_B_MTP,
  MAL_B_HEAD,
  MAL_B_SYNC,
  MAL_B_OPTIMIZER,
  MAL_B_CLASSES
} mal_block_class;
/* MTP: what a multi-token-prediction module has beyond its layer and the head that it shares (DeepSeek-V3, section 2.2). */
typedef enum mal_place { MAL_DEVICE, MAL_HOST, MAL_NVME } mal_place; /* COPY: variant = from << 4 | to */
typedef enum mal_list { MAL_L_F, MAL_L_B, MAL_L_W, MAL_L_BW, MAL_L_R, MAL_L_GATHER, MAL_L_REDUCE, MAL_LISTS } mal_list;

typedef struct mal_buffer {
  const char *name;             /* "qkv", "attn.out" */
  uint8_t region, dtype, place; /* place: mal_place */
  uint8_t cause;                /* mal_memory_cause */
  bool external;                /* the hidden stream handed over by the neighbouring block or stage */
  int32_t param;                /* index into params, -1 */
  int64_t bytes, offset_bytes;
} mal_buffer;

typedef struct mal_param { /* one weight's share on this rank */
  int weight;              /* index in the layer kind's (or model's) weight list; -1: LoRA adapter */
  int64_t elements;        /* after tp, ep, etp; of all copies; before ZeRO */
  bool expert, frozen, decay;
  bool replicated; /* the same on every tp rank: under sequence parallelism its gradient is summed over tp */
  bool shared;     /* a tied head whose table lies in this stage: counted there */
} mal_param;

typedef struct mal_block {
  mal_block_class block_class;
  int kind;         /* layer kind */
  int recompute;    /* mal_recompute */
  const char *name; /* "layer(dense) recompute=selective" */
  mal_instruction *list[MAL_LISTS];
  int count[MAL_LISTS];
  mal_sizes *sizes;
  mal_buffer *buffers;
  int n_buffers, n_events;
  mal_param *params;
  int n_params;
  int64_t dense_elements, expert_elements; /* trained here, this rank's share before ZeRO */
  int64_t frozen_dense_elements, frozen_expert_elements;
  int64_t replicated_elements; /* of dense_elements: gradients to be summed over tp too (sequence parallelism) */
  int64_t vector_elements;     /* of dense_elements: no matrix of a layer (norms, biases, embedding, head) */
  int64_t tied_elements;       /* of dense_elements: a tied table that another stage has too */
  int64_t region_bytes
      [MAL_REGIONS]; /* what this block takes of PARAM, GRAD, MASTER, OPT, GATHER, BUCKET on the device, ZeRO
                                        applied; STASH = stash_bytes; WORK = max of work_bytes; KERNEL = kernel_bytes */
  int64_t host_bytes, nvme_bytes; /* its offloaded bytes */
  int64_t stash_bytes;            /* one micro-batch, one such layer */
  int64_t logits_bytes;           /* part of work or stash that is logits */
  int64_t work_bytes[MAL_LISTS];
  int64_t kernel_bytes;          /* declared scratch */
  double flops[MAL_LISTS];       /* executed */
  double model_flops[MAL_LISTS]; /* without recomputation, causal attention halved */
  void *memo;                    /* of a block that is shared (cache.h): what its readers keep of it; else NULL */
} mal_block;

/* Axes of a group beyond single bits of mal_axis, used only where layout.hybrid > 0: ZeRO's shard group and the group of
 * those that hold the same shard. */
enum { MAL_AXES_SHARD = 0x80, MAL_AXES_REPLICA = 0x81 };

/* FLOPs that the model needs of it: as executed, but none for what is recomputed, the visible pairs only in an unfused
 * attention core, and no second q·kᵀ in backward of a fused one. */
double mal_model_flops(const mal_instruction *i, const mal_sizes *s);

/* Bytes that an instruction reads and writes: the sum of its operands, what it adds to counted twice, of a table its rows. */
double mal_instruction_bytes(const mal_block *b, const mal_instruction *i);
/* Bytes that it moves where that is more than its operands; 0: as they are. */
int64_t mal_moved_bytes(const mal_instruction *i, const mal_sizes *s);
/* Megatron's fused softmax takes 4 rows of attention batches at once, 16 < length <= 4096 (megatron/core/fusions/fused_softmax.py,
 * is_kernel_available). */
bool mal_has_softmax_kernel(const mal_sizes *s);
#endif
