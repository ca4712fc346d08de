/* A device: one kernel for each opcode, and what the end of a step needs. A NULL kernel is one that this device lacks: such
 * a program is planned and simulated, and refused by train by name.
 *
 * Tensors are dense and row-major: activations [tokens, width], weights [out, in], attention's q, k and v [tokens, heads, d].
 * A kernel reads its inputs and writes its outputs, nothing else but `scratch`, and counts the FLOPs that it was asked for. */
#ifndef MAL_ENGINE_DEVICE_DEVICE_H
#define MAL_ENGINE_DEVICE_DEVICE_H
#include "model/model.h"
#include "program/block.h"

typedef struct mal_kernel_call {
  const mal_instruction *i;
  const int64_t *v; /* its sizes */
  void *in[MAL_INPUTS], *out[MAL_OUTPUTS];
  int64_t n_in[MAL_INPUTS], n_out[MAL_OUTPUTS]; /* elements; 0: no such operand */
  void *scratch;                                /* KERNEL region */
  const mal_layer_kind *kind;                   /* of a layer's instruction, else NULL */
  int role;                                     /* EMBED: mal_weight_role of the table */
  const struct mal_rank_facts *facts;
  double flops;    /* adds what it executed */
  double loss_sum; /* CROSS_ENTROPY backward adds the loss of its rows */
} mal_kernel_call;

/* What kernels need to know of their rank, the same all through a run. */
typedef struct mal_rank_facts {
  int64_t tokens, seq;        /* rows inside tensor-parallel regions; of one sequence */
  int64_t tp_index;           /* of tp ranks */
  int64_t vocab, vocab_from;  /* of the model; first column or row of this rank's part */
  float norm_eps, loss_scale; /* loss_scale: 1 / tokens of a step, all ranks together */
  const float *const *rope;   /* by layer kind: [seq][rope_dim / 2] pairs (cosine, sine); NULL without rotation */
  const mal_layer_kind *kinds;
} mal_rank_facts;

/* One AdamW step (Loshchilov and Hutter, arXiv:1711.05101) with torch.optim's order of operations. */
typedef struct mal_adamw {
  float lr, beta1, beta2, eps, decay; /* decay: 0 where it does not apply */
  float correction1, correction2;     /* 1 - beta^step */
} mal_adamw;

typedef void mal_kernel(mal_kernel_call *c);
typedef struct mal_device {
  const char *name;
  void (*enter)(void); /* once in each thread that runs kernels */
  mal_kernel *kernel[MAL_OPS];
  double (*sum_squares)(const float *x, int64_t n);
  void (*scale)(float *x, int64_t n, float factor);
  void (*adamw)(const mal_adamw *a, float *w, const float *g, float *m, float *v, int64_t n);
} mal_device;

extern const mal_device mal_cpu;
#endif
