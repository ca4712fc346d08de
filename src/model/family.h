/* What a model family needs to read one config.json: keys with defaults, and the lists of weights.
 *
 * A family is one file with a `const mal_family`: its model_type and a function that reads the keys, describes each
 * kind of layer, and lists the weights by the names of its checkpoints. One line in family.c registers it.
 * The first failure is kept in the reader; after it every function here does nothing and returns a harmless value,
 * so that families read straight through and the caller looks once. */
#ifndef MAL_MODEL_FAMILY_H
#define MAL_MODEL_FAMILY_H
#include "core/json.h"
#include "model/model.h"

enum { MAL_MAX_WEIGHTS = 48 }; /* of one list; fixed by the code, not by input */

typedef struct mal_reader {
  mal_arena *a;
  const mal_json *json; /* NULL for a bare description */
  const json_t *object; /* the config, or the text_config inside it */
  const char *path;     /* for messages */
  mal_model *m;
  mal_error *e;
  mal_status status; /* the first failure */
  mal_weight *list;  /* being built: [MAL_MAX_WEIGHTS] */
  int n_list;
  const char *prefix; /* put before every name, "model.layers.{l}." */
  bool transposed;    /* matrices are stored [in, out] */
} mal_reader;

typedef struct mal_family {
  const char *model_type;
  void (*read)(mal_reader *r);
  const char *architecture; /* its class in transformers; NULL: not written here */
} mal_family;

extern const mal_family *const mal_families[];
extern const int mal_n_families;

/* Keys. A missing or null key gives `otherwise`. The bounds are checked. A whole number that the file leaves out (not
 * null, which is an answer) and that is not 0 is kept in m->defaults, so that no size is taken silently. */
bool mal_has(const mal_reader *r, const char *key);                              /* present and not null */
bool mal_is_null(const mal_reader *r, const char *key);                          /* present and null */
const char *mal_either(const mal_reader *r, const char *key, const char *alias); /* the one that is present, else key */
int64_t mal_key(mal_reader *r, const char *key, int64_t lo, int64_t hi, int64_t otherwise);
int64_t mal_width(mal_reader *r, const char *key, int64_t otherwise); /* 1 to MAL_MAX_WIDTH */
/* Width and depth, into the model: a file that says neither describes no model and is refused. */
void mal_read_size(mal_reader *r, const char *hidden_key, int64_t hidden, const char *layers_key, int64_t layers);
double mal_key_real(mal_reader *r, const char *key, double hi, double otherwise); /* 0 to hi */
bool mal_key_bool(mal_reader *r, const char *key, bool otherwise);
const char *mal_key_text(mal_reader *r, const char *key, const char *otherwise);
mal_activation mal_key_activation(mal_reader *r, const char *key, mal_activation otherwise);
double mal_key_rope_theta(mal_reader *r, double otherwise); /* rope_theta, or rope_parameters.rope_theta */
/* The rotated part of a head, from the fraction in `key`. */
int64_t mal_key_rope_dim(mal_reader *r, const char *key, double otherwise, int64_t head_dim);
/* layer_types: windowed[l] for the layers of a config that lists them; false when the key is absent. */
bool mal_key_layer_types(mal_reader *r, bool *windowed);
/* Refuses: "file:line: key: message". */
void mal_reject(mal_reader *r, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The keys that most families share. Defaults in, values out. */
typedef struct mal_basics {
  int64_t vocab, hidden, ffn, layers, heads, positions;
  int64_t kv_heads; /* 0: as heads */
  int64_t head_dim; /* 0: hidden / heads, which must divide */
  mal_activation activation;
} mal_basics;
/* vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim,
 * max_position_embeddings, hidden_act. Fills the model and returns a layer kind with them, two norms, no biases. */
mal_layer_kind mal_read_basics(mal_reader *r, const mal_basics *defaults);
/* Room for kind_of and what every family has. After vocab, hidden and layers. */
void mal_start_layers(mal_reader *r);
/* hidden / heads, refused when it does not divide. */
int64_t mal_even_head_dim(mal_reader *r, const char *heads_key, int64_t heads);
/* RMSNorm or LayerNorm with the epsilon of `key`. */
void mal_read_norm(mal_reader *r, mal_layer_kind *k, mal_norm norm, const char *key, double otherwise);

/* Weights. `name` has no ".weight"; shapes are [out, in]. */
void mal_put(mal_reader *r, mal_weight_role role, mal_split split, const char *name, int64_t out, int64_t in);
void mal_put_vector(mal_reader *r, mal_weight_role role, mal_split split, const char *name, int64_t n);
/* A matrix and, if wanted, its bias: cut as the matrix when cut by rows, else replicated. */
void mal_put_linear(mal_reader *r, mal_weight_role role, mal_split split, const char *name, int64_t out, int64_t in,
                    bool bias);
void mal_put_norm(mal_reader *r, mal_weight_role role, const char *name, int64_t n, bool bias);

/* Where a family keeps the tensors of a layer; NULL: it has none. Without {l}'s prefix and ".weight". */
typedef struct mal_layer_names {
  const char *prefix;                /* "model.layers.{l}." */
  const char *norms[4];              /* on the hidden stream, in the order of kind.norms */
  const char *q, *k, *v, *qkv, *out; /* apart or fused */
  mal_fused fused_qkv;
  const char *q_norm, *k_norm;
  bool qk_norm_wide;                      /* a weight for every head, not one shared by all */
  const char *gate, *up, *gate_up, *down; /* apart or fused */
  const char *sinks; /* a logit for each head that takes part in its softmax: counted, no operator of its own */
  const char *router, *expert_gate, *expert_up, *expert_down;
  const char *shared_gate, *shared_up, *shared_down, *shared_mix;
  bool norm_bias, router_bias;
  bool transposed;
} mal_layer_names;

void mal_put_norms(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *k);
void mal_put_mlp(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *k); /* dense or experts */

/* A list is begun, filled with mal_put..., and ends as a new kind (its number) or as the model's own weights. */
void mal_begin(mal_reader *r, const char *prefix);
int mal_end_kind(mal_reader *r, const mal_layer_kind *k);
void mal_end_model(mal_reader *r);
/* Layer l is variants[which[l]]; which NULL: all are the first. Variants that no layer uses are not added. */
void mal_add_layers(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *variants, int count,
                    const uint8_t *which);
/* The same for layers that differ only by window: layers with windowed[l] see `window` tokens, the others all. */
void mal_add_windowed(mal_reader *r, const mal_layer_names *n, const mal_layer_kind *k, const bool *windowed,
                      int64_t window);

/* Where a family keeps what is outside the layers. */
typedef struct mal_outer_names {
  const char *embed, *position, *embed_norm, *final_norm, *head;
  bool norm_bias;
} mal_outer_names;
void mal_add_outer(mal_reader *r, const mal_outer_names *n);

/* LLaMA's names, and the start of its block (gated, rotary, RMSNorm), which most later families keep. */
mal_layer_kind mal_llama_start(mal_reader *r, const mal_basics *d, double norm_eps, double rope_theta);
extern const mal_layer_names mal_llama_layer;
extern const mal_outer_names mal_llama_outer;

/* Sums the lists into the counts of kinds and model; false: too many. */
bool mal_count_parameters(mal_model *m);
/* The same, at the end of reading; refuses what does not fit, checks the invariants. */
void mal_finish(mal_reader *r);
#endif
