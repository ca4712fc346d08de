/* What is trained: the architecture and the exact list of its weight tensors.
 * Read from a Hugging Face config.json (file or folder), a built-in name (catalog/models/NAME.json, the same format),
 * or a bare description "layers=96,hidden=12288,heads=96,ffn=49152,vocab=51200".
 *
 * Invariants: every layer names one of n_kinds layer kinds; layers of a kind have equal weights and equal work.
 * The parameter count is the sum over the weight list, nothing else. */
#ifndef MAL_MODEL_MODEL_H
#define MAL_MODEL_MODEL_H
#include "core/arena.h"
#include "core/dtype.h"
#include "core/json.h"
#include "core/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum mal_mixer { MAL_ATTENTION, MAL_MLA } mal_mixer; /* MLA: multi-head latent attention (DeepSeek-V2) */
typedef enum mal_mlp { MAL_MLP_DENSE, MAL_MLP_MOE } mal_mlp;
typedef enum mal_activation { MAL_GELU, MAL_GELU_TANH, MAL_SILU, MAL_RELU, MAL_RELU2 } mal_activation;
typedef enum mal_norm { MAL_LAYERNORM, MAL_RMSNORM } mal_norm;

/* How tensor parallelism cuts a weight of shape [out, in]. */
typedef enum mal_split {
  MAL_SPLIT_NONE, /* replicated on every tp rank: norms, routers, row-parallel biases */
  MAL_SPLIT_OUT,  /* column parallel: q, k, v, gate, up */
  MAL_SPLIT_IN,   /* row parallel: o, down */
  MAL_SPLIT_VOCAB /* embedding and head rows */
} mal_split;

typedef enum mal_weight_role {
  MAL_W_EMBED,
  MAL_W_POSITION,
  MAL_W_EMBED_NORM,
  MAL_W_FINAL_NORM,
  MAL_W_HEAD,
  MAL_W_NORM, /* any norm inside a layer, its bias too */
  MAL_W_QKV,  /* q, k, v, fused or apart, with their biases */
  MAL_W_Q_DOWN,
  MAL_W_Q_UP,
  MAL_W_KV_DOWN,
  MAL_W_KV_UP, /* MLA */
  MAL_W_OUT,   /* attention output projection */
  MAL_W_UP,    /* gate and up of a dense or shared MLP */
  MAL_W_DOWN,
  MAL_W_ROUTER,
  MAL_W_EXPERT_UP,
  MAL_W_EXPERT_DOWN,
  MAL_W_SHARED_UP,
  MAL_W_SHARED_DOWN,
  MAL_W_SHARED_GATE,
  MAL_W_MTP,    /* multi-token-prediction extras that are not a layer */
  MAL_W_BUFFER, /* stored and counted, but not trained by the optimizer (DeepSeek-V3's router correction bias), or too small to matter (attention
                 * sinks) */
  MAL_W_ROLES
} mal_weight_role;

typedef enum mal_fused {
  MAL_FUSED_NONE,   /* one projection */
  MAL_FUSED_BLOCKS, /* all of q, then k, then v; all of gate, then up */
  MAL_FUSED_GROUPS  /* for each kv head: its query heads, its key, its value (NeoX, BLOOM, Falcon) */
} mal_fused;

typedef struct mal_weight {
  const char *name; /* in the state dict of transformers' ...ForCausalLM; {l} stands for the layer, {e} the expert */
  mal_weight_role role;
  mal_split split;
  int64_t shape[3]; /* unused trailing dimensions are 1 */
  int rank;
  int64_t copies;  /* experts; else 1 */
  bool decay;      /* weight decay applies (matrices, not norms and biases) */
  bool transposed; /* the checkpoint stores [in, out] (GPT-2's Conv1D); shape is [out, in] all the same */
  mal_fused fused; /* order of the rows of several projections in one tensor */
} mal_weight;

typedef struct mal_layer_kind {
  mal_mixer mixer;
  int64_t heads, kv_heads, head_dim, v_head_dim; /* of one query head; v_head_dim = head_dim except MLA */
  int64_t window;                                /* sliding window in tokens, 0 = whole sequence */
  int64_t q_lora_rank, kv_lora_rank;             /* MLA: 0 when absent */
  int64_t rope_dim;                              /* rotated part of head_dim (all: = head_dim, none: 0) */
  bool qkv_bias, out_bias, qk_norm;
  mal_mlp mlp;
  mal_activation activation;
  bool gated, mlp_bias;
  bool clamped;                       /* gate and up are clamped before the activation (GPT-OSS) */
  int64_t ffn;                        /* dense MLP width, or one expert's */
  int64_t experts, top_k, shared_ffn; /* MoE; shared_ffn = width of all shared experts together, 0 = none */
  bool shared_gate;
  mal_norm norm;
  int norms;           /* norms on the hidden stream of one layer: 2, gemma2/3 4, parallel blocks 1 or 2 */
  bool parallel_block; /* attention and MLP read the same input (GPT-J, falcon, command-r) */
  bool post_norm;      /* norms after attention and MLP instead of before (OLMo 2, opt-350m) */
  bool softcap;        /* tanh cap on attention scores (gemma2) */
  bool alibi;          /* linear position biases on attention scores (BLOOM, MPT) */
  bool rope_scaled;    /* sine and cosine times a factor (YaRN) */
  bool rope_stretched; /* rotary angles changed for longer sequences (rope_scaling: linear, dynamic, llama3, ...) */
  double rope_theta;   /* base of the rotary angles; 0 without rotation */
  mal_weight *weights;
  int n_weights;
  int64_t parameters;        /* of one such layer, all experts */
  int64_t active_parameters; /* with top_k of the experts */
} mal_layer_kind;

/* A number that config.json leaves out and the library that reads such files (transformers) fills in. */
typedef struct mal_default {
  const char *key;
  int64_t value;
} mal_default;
enum { MAL_MAX_DEFAULTS = 32 }; /* no family reads more whole numbers */

typedef struct mal_model {
  const char *name;   /* "llama-3-70b", or the path given */
  const char *family; /* "llama", ... "bare" */
  const char *source; /* where the published numbers were read; "" for a user's own file */
  const char *config; /* the text of its config.json; NULL for a bare description */
  int64_t layers, hidden, vocab, max_positions;
  int64_t learned_positions; /* rows of a learned position table, 0 = none */
  int64_t embedding_width;   /* = hidden except opt-350m */
  bool tied_embeddings, head_bias;
  mal_norm norm;
  double norm_eps;
  bool embed_norm, final_norm;
  int64_t mtp_layers; /* multi-token-prediction modules (DeepSeek-V3), each one layer of the last kind */
  int n_kinds;
  mal_layer_kind *kinds;
  uint8_t *kind_of;    /* [layers] */
  mal_weight *weights; /* outside the layers; a tied head is not listed */
  int n_weights;
  int64_t parameters;           /* unique, all of them */
  int64_t active_parameters;    /* one token's: all but the experts it is not sent to; MTP apart */
  int64_t mtp_parameters;       /* of parameters, those of the MTP modules: published totals leave them out */
  int64_t published_parameters; /* without MTP; 0 = none known */
  const char *published_source;
  mal_default defaults[MAL_MAX_DEFAULTS]; /* taken, in the order of reading; none where a published count agrees */
  int n_defaults;
} mal_model;

enum { MAL_MAX_LAYERS = 4096, MAL_MAX_KINDS = 64, MAL_MAX_EXPERTS = 65536, MAL_MAX_MTP = 8 };
#define MAL_MAX_WIDTH      (INT64_C(1) << 24) /* any width, vocabulary: bound on input */
#define MAL_MAX_POSITIONS  (INT64_C(1) << 40)
#define MAL_MAX_PARAMETERS (INT64_C(1) << 53) /* so that bytes and per-token FLOPs fit 64 bits */

/* spec: built-in name, path of config.json or its folder, or a bare description. */
mal_status mal_model_load(mal_arena *a, const char *spec, mal_model *m, mal_error *e);
mal_status mal_model_parse_config(mal_arena *a, const char *path, const char *text, size_t length, mal_model *m,
                                  mal_error *e);
/* Keys: layers hidden heads kv_heads head_dim ffn vocab gated experts top_k shared_ffn positions tied bias norm
 * activation window parallel dense_layers (first layers of a MoE that are dense) dense_ffn. */
mal_status mal_model_parse_bare(mal_arena *a, const char *text, mal_model *m, mal_error *e);

/* The numbers that the file left out: one sentence, NULL when there are none; and as an object. */
const char *mal_model_defaults_words(mal_arena *a, const mal_model *m);
json_t *mal_model_defaults_json(const mal_model *m);
/* The same model with `layers` layers: the first of them, or more that go on as the last ones do (a pattern of kinds is
 * repeated). Parameters are counted again; no published figure belongs to it. MAL_BAD: out of bounds. */
mal_status mal_model_with_layers(mal_arena *a, const mal_model *m, int64_t layers, mal_model *out, mal_error *e);
/* A config.json from which transformers makes the same model, its numbers of type dtype: the one that was read, without what
 * only this program knows, or for a bare description Llama's or Mistral's, where it is one. Other bare descriptions: MAL_BAD. */
mal_status mal_model_config(mal_arena *a, const mal_model *m, mal_dtype dtype, char **text, mal_error *e);

bool mal_model_has_experts(const mal_model *m);   /* in any layer */
int64_t mal_weight_elements(const mal_weight *w); /* shape product × copies */

/* Model FLOPs of one token, forward + backward, no recomputation, as lowering counts them are NOT here:
 * see program/. Names for output: */
extern const char *const mal_activation_name[], *const mal_role_name[MAL_W_ROLES];
#endif
