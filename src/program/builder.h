/* Builds the lists of one block. Internal to src/program.
 *
 * Forward code emits instructions over buffers, numbered from 1 (0: none), onto a tape. mal_backward walks the tape in
 * reverse and emits each entry's gradient. What lies where, events and offsets are decided at the end, by mal_place_buffers. */
#ifndef MAL_PROGRAM_BUILDER_H
#define MAL_PROGRAM_BUILDER_H
#include "program/lower_block.h"

typedef int mal_ref; /* a buffer while building; 0 none */

/* Rules of the tape. */
typedef enum mal_rule {
  MAL_RULE_OP,       /* gradient by opcode */
  MAL_RULE_NONE,     /* no gradient passes */
  MAL_RULE_IDENTITY, /* nothing in forward, all-reduce in backward: input of a column-parallel product */
  MAL_RULE_UNGATHER, /* all-gather in forward, own part in backward */
  MAL_RULE_SLICE,    /* own part of the rows in forward, all-gather in backward */
  MAL_RULE_RING,     /* a ring attention as a whole; its steps are listed with RULE_NONE */
  MAL_RULE_LOSS /* in = logits, what backward reads of the loss ...; out = where the logits' gradient goes, or none */
} mal_rule;

/* One instruction as it is emitted. Zeros are "none". */
typedef struct mal_emit {
  uint8_t op, stream, dtype, variant, axes;
  uint16_t flags;
  int cause; /* mal_time_cause + 1; 0: the opcode's, or that of the group's stream */
  mal_ref in[MAL_INPUTS], out[MAL_OUTPUTS];
  int64_t v[8];
  mal_rule rule;
  bool silent;       /* on the tape only: nothing runs in forward */
  bool remake;       /* backward makes the output again (a gather, a cast of a weight) rather than keeping it */
  bool plain_stream; /* stream is meant as given, even for a collective on compute */
  uint8_t role;      /* of a product with a weight: its mal_weight_role + 1 */
  uint8_t core;  /* of the attention core: selective recomputation repeats it; 2: and keeps its output all the same */
  mal_ref after; /* comes after the last writer of this too */
  uint32_t origin;
} mal_emit;

typedef struct mal_side { /* what is known of a buffer while building */
  mal_ref root;           /* the buffer whose bytes it is */
  mal_ref token;          /* the buffer whose bytes it overlaps, for the order of accesses; 0 itself */
  mal_ref again;          /* what holds the same values in backward: what R writes, else itself */
  mal_ref grad;           /* its gradient */
  int made_by;            /* tape entry, -1 */
  mal_ref remade[2];      /* its copies made again in backward: for B or BW, for W */
  mal_ref low;            /* its cast to the products' low type */
  mal_ref weight;         /* the parameter that this is a cast of */
  bool needs;             /* a gradient is wanted */
  bool held;              /* is the gradient of some buffer */
  bool busy;              /* read in backward, or the gradient of two buffers: not to be added to in place */
  bool floating;          /* placed by lifetime; else region was set when it was made */

} mal_side;

typedef struct mal_taken { /* weights joined into one operand */
  mal_ref weight;          /* as stored */
  int first;               /* its index in params */
  int64_t elements;        /* here */
  int count;
} mal_taken;

typedef struct mal_builder {
  mal_arena *a;
  const mal_block_request *r;
  const mal_plan *plan;
  const mal_profile *profile;
  const mal_layout *layout;
  const mal_model *model;
  const mal_layer_kind *kind;
  mal_block *out;
  mal_error *e;
  mal_status status;

  int64_t tp, cp, ep, etp;
  bool sp;                      /* sequence parallelism, tp > 1 */
  int64_t tokens, shard_tokens; /* of this rank inside and outside tensor-parallel regions */
  int64_t hidden;
  mal_dtype store, gemm; /* of activations; of the linear layers' products */
  bool low;              /* gemm is FP8 or FP4: operands are cast */
  bool lora;             /* base weights are frozen */

  mal_buffer *buffers;
  mal_side *side;
  int n_buffers, room_buffers;
  int n_sizes;
  struct mal_listing {
    mal_emit *at;
    int count, room;
  } tape, list[MAL_LISTS];
  struct mal_listing pending; /* weight gradients that wait for the next collective to start */
  mal_list into;              /* where backward code emits */

  mal_weight *weights; /* of the kind or the model, those of this block */
  int n_weights;
  mal_param *params;
  mal_ref *param_grad; /* by param: its gradient's buffer, made when first written */
  bool *taken;
  mal_ref *param_copy; /* by param: its copies in low precision (first of two), 0 none */
  int n_params, room_params;
  int64_t low_only_bytes[2];                /* of param_bytes: 16-bit copies that the profile does not hold */
  int64_t param_bytes[2], grad_elements[2]; /* laid out so far: dense, expert */
  mal_ref input, output, output_grad, input_grad;
  int64_t kernel_bytes, logits_bytes;
  struct mal_row_adapter { /* of row-parallel products whose sum over tp is still to come */
    mal_ref inner, up;     /* A·x, B */
    int64_t columns;
    mal_dtype out_dtype;
  } row_adapters[2];
  int n_row_adapters;
} mal_builder;

/* --- builder.c --- */
void mal_builder_init(mal_builder *b, mal_arena *a, const mal_block_request *r, mal_block *out, mal_error *e);
mal_ref mal_buffer_new(mal_builder *b, const char *name, mal_dtype dtype, int64_t elements);
mal_ref mal_buffer_in(mal_builder *b, const char *name, mal_dtype dtype, int64_t elements, mal_region region);
mal_ref mal_buffer_alias(mal_builder *b, mal_ref of);
mal_ref mal_token_buffer(mal_builder *b,
                         const char *name); /* ids or labels of a micro-batch: IO, behind the hidden stream */
mal_ref mal_root(const mal_builder *b, mal_ref x);
int64_t mal_elements(const mal_builder *b, mal_ref x);
void mal_forward(mal_builder *b, mal_emit i);       /* onto the tape, and into F unless silent */
void mal_backward_emit(mal_builder *b, mal_emit i); /* into b->into */
mal_status mal_builder_finish(mal_builder *b, mal_block *out);
static inline mal_buffer *mal_at(const mal_builder *b, mal_ref x) { return &b->buffers[x]; }

/* --- params.c: this rank's share of the weights --- */
void mal_params_init(mal_builder *b, const mal_weight *weights, int n,
                     bool (*select)(const mal_builder *, const mal_weight *));
bool mal_has_weight(const mal_builder *b, mal_weight_role role, bool matrix);
/* The next weights of a role, joined: all of them, or at most `most`. Matrices (rank 2 and 3) or vectors. */
mal_taken mal_take(mal_builder *b, mal_weight_role role, bool matrix, int most, const char *name);
/* The next norm of this width (its bias with it, when present). */
mal_ref mal_take_norm(mal_builder *b, mal_weight_role role, int64_t width, mal_ref *bias);
bool mal_has_norm(const mal_builder *b, int64_t width); /* a norm of this width that no one has taken */
mal_ref mal_add_param(mal_builder *b, const char *name, int64_t elements, bool expert, bool replicated);
void mal_params_rest(mal_builder *b); /* what no instruction uses: counted all the same */
/* Where the gradient of a trained parameter goes, and the flags of what writes it; mal_param_grad_done follows the writer. */
mal_ref mal_param_grad(mal_builder *b, mal_ref param);
uint16_t mal_param_grad_flags(const mal_builder *b);
void mal_param_grad_done(mal_builder *b, mal_ref param);
mal_dtype mal_grad_type(const mal_builder *b);
bool mal_has_extra(const mal_builder *b);              /* gradients are held in the compute type too */
bool mal_reduces_unit(const mal_builder *b);           /* gradients leave in this block's REDUCE list */
int64_t mal_shards(const mal_builder *b, bool expert); /* ranks that share optimizer states and ZeRO's other shards */
bool mal_is_param(const mal_builder *b, mal_ref x);
int64_t mal_padded_vocab(const mal_plan *plan); /* rows of one rank's vocabulary shard times tp */

/* --- gradient.c --- */
void mal_recompute_list(mal_builder *b); /* R, after the tape is complete */
void mal_drop_unused(mal_builder *b);    /* of R, after backward, where the profile says so */
void mal_backward(mal_builder *b);
mal_ref mal_use(mal_builder *b, mal_ref x, bool for_weight); /* x's values as backward finds them */
void mal_add_grad(mal_builder *b, mal_ref x, mal_ref g);
mal_ref mal_grad(mal_builder *b, mal_ref x); /* its gradient buffer's root, 0 none */
mal_ref mal_grad_buffer(mal_builder *b, mal_ref like, mal_dtype dtype);
void mal_ring_backward(mal_builder *b, const mal_emit *i);

/* --- pack.c --- */
mal_status mal_place_buffers(mal_builder *b, mal_block *out);

/* --- moved.c --- */
void mal_say_moved(const mal_builder *b, mal_block *out);

/* --- linear.c: products with weights, cut over tp, in low precision, with LoRA --- */
typedef enum mal_cut { MAL_CUT_NONE, MAL_CUT_COLUMN, MAL_CUT_ROW } mal_cut;
typedef struct mal_linear {
  const char *name;
  mal_weight_role role;
  mal_cut cut;
  mal_ref x, x_apart;         /* x_apart: what the second piece reads in place of x, 0: x too */
  int64_t rows, width, batch; /* width: k, here; batch: local experts */
  int pieces;
  const char *piece_name[3];
  int64_t piece[3]; /* columns of each, here */
  mal_dtype out_dtype;
  bool high, keep_bias; /* high: never in low precision; keep_bias: leave the bias to the caller, in `bias` */
  bool adapt;           /* gets LoRA matrices when asked for */
  mal_ref out[3], bias; /* results */
} mal_linear;
void mal_linear_emit(mal_builder *b, mal_linear *l);
/* Rows of this rank → all rows, for a column-parallel product; low: gathered in the products' low type. */
mal_ref mal_enter_column(mal_builder *b, mal_ref x, bool low);
mal_ref mal_leave_row(mal_builder *b, mal_ref x); /* partial sums → rows of this rank, reduced over tp */
mal_dtype mal_product_type(const mal_builder *b); /* of products that are not in low precision */

/* --- parts of layers --- */
mal_ref mal_norm_emit(mal_builder *b, mal_weight_role role, mal_norm norm, mal_ref x, int64_t width, const char *name);
/* From all rows (mal_enter_column) to partial sums (before mal_leave_row); *bias: still to be added, 0 none. */
mal_ref mal_attention_emit(mal_builder *b, mal_ref x, mal_ref *bias);
mal_ref mal_mla_emit(mal_builder *b, mal_ref rows, mal_ref *bias); /* from rows of this rank */
mal_ref mal_mlp_emit(mal_builder *b, mal_ref x, mal_ref x_up,
                     mal_ref *bias); /* x_up: what up reads, 0: x as gate does */
mal_ref mal_core_emit(mal_builder *b, mal_ref q, mal_ref k,
                      mal_ref v); /* attention core, context parallelism included */
mal_ref mal_out_projection(mal_builder *b, mal_ref x, mal_ref *bias);
mal_ref mal_activation_emit(mal_builder *b, mal_ref gate, mal_ref up);                   /* up 0: not gated */
mal_ref mal_sum_emit(mal_builder *b, mal_ref x, mal_ref y, mal_ref z, const char *name); /* 0: left out */
mal_ref mal_moe_emit(mal_builder *b, mal_ref x); /* rows of this rank in and out */
mal_ref mal_residual_emit(mal_builder *b, mal_ref x, mal_ref bias, mal_ref residual, const char *name);

/* --- whole blocks --- */
void mal_layer_block(mal_builder *b);
void mal_embed_block(mal_builder *b);
void mal_mtp_block(mal_builder *b);
void mal_head_block(mal_builder *b);
void mal_sync_block(mal_builder *b);
void mal_optimizer_block(mal_builder *b);
int64_t mal_bucket_size(const mal_builder *b, int64_t elements); /* elements reduced or gathered at once */
void mal_unit_lists(mal_builder *b);                             /* GATHER and REDUCE */

#define MAL_AXIS_BIT(axis) (1u << (axis))
enum { MAL_ALIGN = 64 };
static inline int64_t mal_align(int64_t bytes) { return (bytes + MAL_ALIGN - 1) / MAL_ALIGN * MAL_ALIGN; }
static inline int64_t mal_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
#endif
