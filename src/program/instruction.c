#include "core/status.h"
#include "program/block.h"
#include <assert.h>

/* Pairs (query, key) that see each other: all, or under CAUSAL the half below the diagonal, or inside a window. */
static double visible_pairs(double q, double kv, double window, bool causal) {
  if (!causal) return q * kv;
  if (window > 0 && window < kv) return q / kv * (window * kv - window * window / 2);
  return q * kv / 2;
}

static double matmul_flops(const mal_instruction *i, const mal_sizes *s) {
  (void)i;
  return 2.0 * (double)s->v[0] * (double)s->v[1] * (double)s->v[2] * (double)s->v[3];
}

/* Forward: q·kᵀ and p·v. Backward of a fused kernel: q·kᵀ again, dv, dp, dq, dk (Dao et al., arXiv:2205.14135, algorithm 4). */
static double attention_flops(const mal_instruction *i, const mal_sizes *s) {
  const int64_t *v = s->v;
  double pairs = visible_pairs((double)v[1], (double)v[2], (double)v[7], i->flags & MAL_INS_CAUSAL);
  double widths = i->flags & MAL_INS_GRAD ? 6.0 * (double)v[5] + 4.0 * (double)v[6] : 2.0 * (double)(v[5] + v[6]);
  return (double)v[0] * (double)v[3] * pairs * widths;
}

static double no_flops(const mal_instruction *i, const mal_sizes *s) {
  (void)i, (void)s;
  return 0;
}

const mal_op_row mal_ops[] = {
    [MAL_OP_MATMUL] = {"matmul", MAL_TIME_MATMUL, matmul_flops},
    [MAL_OP_ATTENTION] = {"attention", MAL_TIME_ATTENTION, attention_flops},
    [MAL_OP_SOFTMAX] = {"softmax", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_NORM] = {"norm", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_ROPE] = {"rope", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_ACTIVATION] = {"activation", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_DROPOUT] = {"dropout", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_EMBED] = {"embed", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_CROSS_ENTROPY] = {"cross-entropy", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_ROUTE] = {"route", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_PERMUTE] = {"permute", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_CAST] = {"cast", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_ADD] = {"add", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_FILL] = {"fill", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_COPY] = {"copy", MAL_TIME_OFFLOAD, no_flops},
    [MAL_OP_REDUCE_ROWS] = {"reduce-rows", MAL_TIME_MEMORY, no_flops},
    [MAL_OP_COLLECTIVE] = {"collective", MAL_TIME_TP, no_flops},
    [MAL_OP_SEND] = {"send", MAL_TIME_PP, no_flops},
    [MAL_OP_RECV] = {"recv", MAL_TIME_PP, no_flops},
    [MAL_OP_SUM_SQUARES] = {"sum-squares", MAL_TIME_OPTIMIZER, no_flops},
    [MAL_OP_OPTIMIZER] = {"optimizer", MAL_TIME_OPTIMIZER, no_flops},
    [MAL_OP_SCALE] = {"scale", MAL_TIME_MEMORY, no_flops},
};
static_assert(sizeof mal_ops / sizeof *mal_ops == MAL_OPS, "a row for each opcode");

const char *const mal_collective_name[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast"};
const char *const mal_stream_name[] = {"compute", "tp", "dp", "pp", "ep", "copy"};
const char *const mal_time_name[] = {
    "matmul",           "attention",       "memory",        "launch",     "tensor parallel",
    "context parallel", "expert parallel", "data parallel", "pipeline",   "bubble",
    "optimizer",        "offload",         "data",          "checkpoint", "jitter",
};
const char *const mal_memory_name[] = {
    N_("weights"),     N_("gradients"),     N_("master weights"),   N_("optimizer states"),
    N_("activations"), N_("logits"),        N_("gathered weights"), N_("gradient buckets"),
    N_("workspace"),   N_("communicators"), N_("context"),          N_("fragmentation"),
};
static_assert(sizeof mal_collective_name / sizeof *mal_collective_name == MAL_COLLECTIVES, "a name for each");
static_assert(sizeof mal_stream_name / sizeof *mal_stream_name == MAL_STREAMS, "a name for each");
static_assert(sizeof mal_time_name / sizeof *mal_time_name == MAL_TIME_CAUSES, "a name for each");
const char *const mal_time_words[] = {
    N_("matrix products"),    N_("attention"),          N_("memory-bound kernels"),
    N_("launch gaps"),        N_("exposed tp traffic"), N_("exposed cp traffic"),
    N_("exposed ep traffic"), N_("exposed dp traffic"), N_("exposed pp traffic"),
    N_("pipeline bubble"),    N_("optimizer"),          N_("offload"),
    N_("data loading"),       N_("checkpoint stall"),   N_("jitter"),
};
static_assert(sizeof mal_time_words / sizeof *mal_time_words == MAL_TIME_CAUSES, "words for each");
static_assert(sizeof mal_memory_name / sizeof *mal_memory_name == MAL_MEM_CAUSES, "a name for each");
static_assert(sizeof(mal_instruction) <= 64, "an instruction is at most one cache line");

double mal_model_flops(const mal_instruction *i, const mal_sizes *s) {
  if (i->flags & MAL_INS_RECOMPUTED) return 0;
  const int64_t *v = s->v;
  if (i->op == MAL_OP_ATTENTION && i->flags & MAL_INS_GRAD) {
    double pairs = visible_pairs((double)v[1], (double)v[2], (double)v[7], i->flags & MAL_INS_CAUSAL);
    return 4.0 * (double)(v[5] + v[6]) * (double)v[0] * (double)v[3] * pairs;
  }
  double flops = mal_ops[i->op].flops(i, s);
  if (i->op == MAL_OP_MATMUL && i->flags & MAL_INS_CAUSAL)
    flops *= visible_pairs(1, (double)v[4], (double)v[5], true) / (double)v[4];
  return flops;
}

static double buffer_bytes(const mal_block *b, uint16_t k) {
  return k == MAL_NO_BUFFER ? 0 : (double)b->buffers[k].bytes;
}

/* A lookup touches rows, not the table: as many bytes as the rows that come out (or, in backward, go in). */
static double embed_bytes(const mal_block *b, const mal_instruction *i) {
  if (i->flags & MAL_INS_GRAD) return 3 * buffer_bytes(b, i->in[1]) + buffer_bytes(b, i->in[0]);
  return 2 * buffer_bytes(b, i->out[0]) + buffer_bytes(b, i->in[0]);
}

double mal_instruction_bytes(const mal_block *b, const mal_instruction *i) {
  if (i->op == MAL_OP_EMBED) return embed_bytes(b, i);
  double bytes = 0;
  for (int k = 0; k < MAL_INPUTS; k++) bytes += buffer_bytes(b, i->in[k]);
  for (int k = 0; k < MAL_OUTPUTS; k++) {
    if (i->out[k] == MAL_NO_BUFFER) continue;
    int region = b->buffers[i->out[k]].region;
    bool gradient = region == MAL_R_GRAD || region == MAL_R_BUCKET || k == 0;
    bool adds = i->flags & MAL_INS_ACCUMULATE && gradient && !(i->op == MAL_OP_NORM && k == 0);
    bytes += buffer_bytes(b, i->out[k]) * (adds ? 2 : 1);
  }
  return bytes;
}
