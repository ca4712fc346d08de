/* The instruction table. One row per opcode says its name, FLOPs, and its cause in time.
 *
 * An instruction names its operands by index into its block's buffer table, which holds {region, offset, bytes, dtype}
 * once for all that touch the buffer: so an instruction stays one cache line and every reader (price, simulate, run,
 * sanitizer) sees operand sizes without asking the opcode. */
#ifndef MAL_PROGRAM_INSTRUCTION_H
#define MAL_PROGRAM_INSTRUCTION_H
#include "core/dtype.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum mal_op {
  MAL_OP_MATMUL,    /* out[m,n] (+)= a[m,k] · b[k,n], batch times; bias add and scale fused when operands are given */
  MAL_OP_ATTENTION, /* fused attention core; GRAD flag: dq, dk, dv */
  MAL_OP_SOFTMAX,   /* unfused core: scale + mask + softmax over [rows, cols] */
  MAL_OP_NORM,      /* LayerNorm or RMSNorm over [rows, cols]; GRAD gives dx and accumulates dweight */
  MAL_OP_ROPE,
  MAL_OP_ACTIVATION, /* variant = mal_activation; gated: in = [gate, up] */
  MAL_OP_DROPOUT,
  MAL_OP_EMBED,         /* rows of a table; GRAD scatters */
  MAL_OP_CROSS_ENTROPY, /* over [rows, vocab shard] */
  MAL_OP_ROUTE,         /* scores → top-k, weights, counts */
  MAL_OP_PERMUTE,       /* tokens to expert order and back */
  MAL_OP_CAST,
  MAL_OP_ADD,
  MAL_OP_FILL,
  MAL_OP_COPY,        /* device, host, NVMe: variant = mal_place pair */
  MAL_OP_REDUCE_ROWS, /* bias gradient: sum over rows */
  MAL_OP_COLLECTIVE,  /* variant = mal_collective */
  MAL_OP_SEND,
  MAL_OP_RECV,
  MAL_OP_SUM_SQUARES,
  MAL_OP_OPTIMIZER, /* variant = mal_optimizer */
  MAL_OP_SCALE,
  MAL_OPS
} mal_op;

typedef enum mal_collective {
  MAL_ALL_REDUCE,
  MAL_ALL_GATHER,
  MAL_REDUCE_SCATTER,
  MAL_ALL_TO_ALL,
  MAL_BROADCAST,
  MAL_COLLECTIVES
} mal_collective;

typedef enum mal_stream {
  MAL_STREAM_COMPUTE,
  MAL_STREAM_TP,
  MAL_STREAM_DP,
  MAL_STREAM_PP,
  MAL_STREAM_EP /* and cp */,
  MAL_STREAM_COPY,
  MAL_STREAMS
} mal_stream;

typedef enum mal_flag {
  MAL_INS_GRAD = 1,        /* backward of its opcode */
  MAL_INS_WEIGHT_GRAD = 2, /* produces a parameter gradient: may move to the W list */
  MAL_INS_ACCUMULATE = 4,  /* adds into its output */
  MAL_INS_CAUSAL = 8,
  MAL_INS_TRANSPOSE_A = 16,
  MAL_INS_TRANSPOSE_B = 32,
  MAL_INS_CHUNKED =
      64, /* a collective that its neighbouring product consumes or produces piece by piece (tp overlap) */
  MAL_INS_RECOMPUTED = 128,
  MAL_INS_GROUPED = 256,     /* one kernel over `batch` experts with their own row counts */
  MAL_INS_SAVES_INPUT = 512, /* profile: keep the input for backward though its gradient could do without */
  MAL_INS_MAX = 1024,        /* a collective takes the largest rather than the sum */
  MAL_INS_INSIDE = 2048,     /* runs inside the kernel before: no pass of its own over memory */
  MAL_INS_LOW_CORE = 4096    /* an attention core whose products are in 8 bits */
} mal_flag;

/* Why time is spent: the rows of "time by cause". */
typedef enum mal_time_cause {
  MAL_TIME_MATMUL,
  MAL_TIME_ATTENTION,
  MAL_TIME_MEMORY,
  MAL_TIME_LAUNCH,
  MAL_TIME_TP,
  MAL_TIME_CP,
  MAL_TIME_EP,
  MAL_TIME_DP,
  MAL_TIME_PP,
  MAL_TIME_BUBBLE,
  MAL_TIME_OPTIMIZER,
  MAL_TIME_OFFLOAD,
  MAL_TIME_DATA,
  MAL_TIME_CHECKPOINT,
  MAL_TIME_JITTER,
  MAL_TIME_CAUSES
} mal_time_cause;

/* Why memory is used: the rows of "memory by cause". */
typedef enum mal_memory_cause {
  MAL_MEM_WEIGHTS,
  MAL_MEM_GRADIENTS,
  MAL_MEM_MASTER,
  MAL_MEM_OPTIMIZER,
  MAL_MEM_STASH,
  MAL_MEM_LOGITS,
  MAL_MEM_GATHERED,
  MAL_MEM_BUCKETS,
  MAL_MEM_WORKSPACE,
  MAL_MEM_COMMUNICATORS,
  MAL_MEM_CONTEXT,
  MAL_MEM_SLACK,
  MAL_MEM_CAUSES
} mal_memory_cause;

/* Meaning of sizes.v by opcode:
 *   MATMUL       m, n, k, batch                (GROUPED: m rows an expert, batch experts)
 *                and, for CAUSAL products of an unfused attention core, keys of a sequence, window (0 none)
 *   ATTENTION    sequences, q_len, kv_len, q_heads, kv_heads, d_qk, d_v, window (0 none)
 *   SOFTMAX, NORM, CROSS_ENTROPY, ROUTE, REDUCE_ROWS   rows, cols
 *   ROPE, ACTIVATION, DROPOUT, CAST, ADD, FILL, SCALE, PERMUTE, SUM_SQUARES, OPTIMIZER, EMBED   elements
 *   SOFTMAX, CAST, PERMUTE   and then bytes moved, where the framework passes over memory more often than its operands say
 *   COLLECTIVE   bytes of the whole buffer: all-reduce its size, all-gather the gathered size, reduce-scatter the input
 *                size, all-to-all what one rank sends to all (itself included), broadcast its size
 *   SEND, RECV, COPY   bytes. A SEND with an output exchanges: to the next member of its group, from the one before.
 *
 * Order of operands (x an activation, w a weight, d a gradient; [] when present):
 *   MATMUL       x, w, [bias] -> y, or up to three pieces of y's columns (q, k, v; gate, up) in one product. A fused adapter
 *                adds what is at in[3..5], piece by piece.
 *                Input gradient: pieces of dy at in[0..2], w at in[3], [what is added at in[4]] -> dx. Weight gradient: pieces of dy, x at in[3] -> dw.
 *   ATTENTION    q, k, v -> o, lse.            GRAD: q, k, v, o, do, lse -> dq, dk, dv
 *   SOFTMAX      scores -> probabilities.      GRAD: probabilities, dy -> dx
 *   NORM         x, [w], [bias] -> y, stats.   GRAD: x, [w], stats, dy -> dx, [dw], [dbias]
 *   ROPE         tensors -> rotated tensors (MLA: k without position, shared rotary key -> k).  GRAD: the same with d
 *   ACTIVATION   x or gate, up -> y.           GRAD: x or gate, up, dy at in[2] -> dx or dgate, dup
 *   DROPOUT      x, [bias], [residual] -> y, mask.   GRAD: mask, dy -> dx
 *   EMBED        ids, table -> rows.           GRAD: ids, d -> dtable
 *   CROSS_ENTROPY logits, labels, [row maxima] -> row sums, [probabilities].
 *                GRAD: what was kept, labels, sums, [wide logits, or row maxima] -> dlogits
 *   ROUTE        scores -> weights, indices.   GRAD: weights, dweights -> dscores
 *   PERMUTE      rows, indices, [weights] -> rows.  GRAD: d, indices, [weights, rows] -> drows, [dweights]
 *   SCALE        x, [factors] -> y (product element by element, or by row or column).  GRAD: x, factors, dy -> dx, [dfactors]
 *   ADD          any number of terms (a bias is repeated over rows) -> sum
 *   OPTIMIZER    gradient, master, state -> master, state, parameter */
typedef struct mal_sizes {
  int64_t v[8];
} mal_sizes;

enum { MAL_INPUTS = 6, MAL_OUTPUTS = 3, MAL_NO_BUFFER = 0xffff, MAL_NO_EVENT = 0xffff };

typedef struct mal_instruction {
  uint8_t op, stream, dtype, variant; /* dtype: of the product or of the elements moved */
  uint16_t flags;
  uint8_t cause;                             /* mal_time_cause */
  uint8_t axes;                              /* group: mask of 1 << mal_axis, 0 none */
  uint16_t in[MAL_INPUTS], out[MAL_OUTPUTS]; /* buffers, MAL_NO_BUFFER where none; see the opcodes for the order */
  uint16_t wait[2], record;                  /* events of the block, across streams */
  uint32_t sizes;                            /* index into the block's sizes */
  uint32_t origin; /* F instruction that this is the gradient or the repetition of; else itself */
} mal_instruction;

typedef struct mal_op_row {
  const char *name;
  mal_time_cause cause;
  /* FLOPs of one execution (multiply and add are two); memory-bound kernels count 0 as is the field's custom. */
  double (*flops)(const mal_instruction *i, const mal_sizes *s);
} mal_op_row;
extern const mal_op_row mal_ops[MAL_OPS];
extern const char *const mal_collective_name[MAL_COLLECTIVES],
    *const mal_stream_name[MAL_STREAMS], *const mal_time_name[MAL_TIME_CAUSES],
                                             *const mal_time_words[MAL_TIME_CAUSES] /* for people: _() them */,
                                                 *const mal_memory_name[MAL_MEM_CAUSES];
/* Forward causal attention counts the visible half (window: what is visible); an unfused core computes all of it. */
#endif
