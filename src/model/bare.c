/* A model without a config.json: "layers=96,hidden=12288,heads=96,ffn=49152,vocab=51200".
 * layers, hidden, heads and vocab are required. Without gated=1 the rest is GPT's (LayerNorm, biases, GELU, tied
 * embeddings, ffn = 4 hidden); with it, LLaMA's (RMSNorm, no biases, SiLU, untied, ffn = 8/3 hidden, up to a multiple
 * of 256). positions=N gives a learned table of N rows; otherwise positions are rotary and have no weights. */
#include "core/suggest.h"
#include "core/units.h"
#include "model/family.h"
#include <string.h>

enum {
  LAYERS,
  HIDDEN,
  HEADS,
  KV_HEADS,
  HEAD_DIM,
  FFN,
  VOCAB,
  GATED,
  EXPERTS,
  TOP_K,
  SHARED_FFN,
  POSITIONS,
  TIED,
  BIAS,
  NORM,
  ACTIVATION,
  WINDOW,
  PARALLEL,
  DENSE_LAYERS,
  DENSE_FFN,
  KEYS
};

static const struct {
  const char *name;
  int64_t lo, hi; /* hi 0: a word */
} keys[KEYS] = {
    [LAYERS] = {"layers", 1, MAL_MAX_LAYERS},
    [HIDDEN] = {"hidden", 1, MAL_MAX_WIDTH},
    [HEADS] = {"heads", 1, MAL_MAX_WIDTH},
    [KV_HEADS] = {"kv_heads", 1, MAL_MAX_WIDTH},
    [HEAD_DIM] = {"head_dim", 1, MAL_MAX_WIDTH},
    [FFN] = {"ffn", 1, MAL_MAX_WIDTH},
    [VOCAB] = {"vocab", 1, MAL_MAX_WIDTH},
    [GATED] = {"gated", 0, 1},
    [EXPERTS] = {"experts", 0, MAL_MAX_EXPERTS},
    [TOP_K] = {"top_k", 1, MAL_MAX_EXPERTS},
    [SHARED_FFN] = {"shared_ffn", 0, MAL_MAX_WIDTH},
    [POSITIONS] = {"positions", 0, MAL_MAX_WIDTH},
    [TIED] = {"tied", 0, 1},
    [BIAS] = {"bias", 0, 1},
    [NORM] = {"norm", 0, 0},
    [ACTIVATION] = {"activation", 0, 0},
    [WINDOW] = {"window", 0, MAL_MAX_POSITIONS},
    [PARALLEL] = {"parallel", 0, 1},
    [DENSE_LAYERS] = {"dense_layers", 0, MAL_MAX_LAYERS},
    [DENSE_FFN] = {"dense_ffn", 1, MAL_MAX_WIDTH},
};

typedef struct bare {
  mal_reader *r;
  bool given[KEYS];
  int64_t value[KEYS];
} bare;

static int64_t get(const bare *b, int key, int64_t otherwise) { return b->given[key] ? b->value[key] : otherwise; }

static void read_word(bare *b, int key, const char *word) {
  static const char *const norms[] = {"layernorm", "rmsnorm"};
  const char *const *names = key == NORM ? norms : mal_activation_name;
  int count = key == NORM ? 2 : MAL_RELU2 + 1;
  for (int i = 0; i < count; i++)
    if (!strcmp(names[i], word)) {
      b->value[key] = i;
      return;
    }
  if (key == NORM)
    mal_reject(b->r, keys[key].name, _("unknown norm \"%.40s\". Give layernorm or rmsnorm."), word);
  else
    mal_reject(b->r, keys[key].name, _("unknown activation \"%.40s\". Give gelu, gelu_tanh, silu, relu or relu2."),
               word);
}

static void read_value(bare *b, int key, const char *text) {
  mal_reader *r = b->r;
  if (b->given[key]) {
    mal_reject(r, keys[key].name, _("is given twice. Give it once."));
    return;
  }
  b->given[key] = true;
  if (!keys[key].hi) {
    read_word(b, key, text);
    return;
  }
  if (keys[key].hi == 1 && (!strcmp(text, "yes") || !strcmp(text, "true"))) text = "1";
  if (keys[key].hi == 1 && (!strcmp(text, "no") || !strcmp(text, "false"))) text = "0";
  r->status = mal_parse_count(text, keys[key].name, &b->value[key], r->e);
  if (r->status == MAL_OK && (b->value[key] < keys[key].lo || b->value[key] > keys[key].hi))
    mal_reject(r, keys[key].name, _("%.40s is outside %lld to %lld."), text, (long long)keys[key].lo,
               (long long)keys[key].hi);
}

static void read_pair(bare *b, char *pair) {
  char *equals = strchr(pair, '=');
  if (!equals) {
    mal_reject(b->r, pair, _("has no value. Write key=value, separated by commas."));
    return;
  }
  *equals = 0;
  for (int i = 0; i < KEYS; i++)
    if (!strcmp(keys[i].name, pair)) {
      read_value(b, i, equals + 1);
      return;
    }
  const char *names[KEYS];
  char near[128];
  for (int i = 0; i < KEYS; i++) names[i] = keys[i].name;
  mal_suggest(pair, names, KEYS, near, sizeof(near));
  if (*near)
    mal_reject(b->r, pair, _("unknown key. Did you mean %s?"), near);
  else
    mal_reject(b->r, pair,
               _("unknown key. Known: layers, hidden, heads, kv_heads, head_dim, ffn, vocab, gated, "
                 "experts, top_k, shared_ffn, positions, tied, bias, norm, activation, window, parallel, "
                 "dense_layers, dense_ffn."));
}

static mal_layer_kind describe(bare *b) {
  mal_reader *r = b->r;
  mal_model *m = r->m;
  bool gated = get(b, GATED, 0), bias = get(b, BIAS, !gated);
  m->layers = b->value[LAYERS];
  m->hidden = b->value[HIDDEN];
  m->vocab = b->value[VOCAB];
  m->learned_positions = m->max_positions = get(b, POSITIONS, 0);
  m->tied_embeddings = get(b, TIED, !gated);
  mal_start_layers(r);
  mal_layer_kind k = {.norms = 2, .gated = gated, .qkv_bias = bias, .out_bias = bias, .mlp_bias = bias};
  k.heads = b->value[HEADS];
  k.kv_heads = get(b, KV_HEADS, k.heads);
  k.head_dim = k.v_head_dim = b->given[HEAD_DIM] ? b->value[HEAD_DIM] : mal_even_head_dim(r, "heads", k.heads);
  k.rope_dim = m->learned_positions ? 0 : k.head_dim;
  k.rope_theta = k.rope_dim ? 10000 : 0;
  k.window = get(b, WINDOW, 0);
  k.parallel_block = get(b, PARALLEL, 0);
  k.norm = m->norm = (mal_norm)get(b, NORM, gated ? MAL_RMSNORM : MAL_LAYERNORM);
  m->norm_eps = 1e-5;
  k.activation = (mal_activation)get(b, ACTIVATION, gated ? MAL_SILU : MAL_GELU);
  k.ffn = get(b, FFN, gated ? (8 * m->hidden / 3 + 255) / 256 * 256 : 4 * m->hidden);
  return k;
}

static void add_layers(bare *b, mal_layer_kind dense) {
  mal_layer_names names = mal_llama_layer;
  names.norm_bias = dense.norm == MAL_LAYERNORM;
  names.shared_gate = "mlp.shared_experts.gate_proj";
  names.shared_up = "mlp.shared_experts.up_proj";
  names.shared_down = "mlp.shared_experts.down_proj";
  mal_layer_kind variants[2] = {dense, dense};
  mal_layer_kind *moe = &variants[1];
  moe->experts = get(b, EXPERTS, 0);
  moe->top_k = get(b, TOP_K, 2);
  moe->shared_ffn = get(b, SHARED_FFN, 0);
  moe->mlp = MAL_MLP_MOE;
  variants[0].ffn = get(b, DENSE_FFN, dense.ffn);
  int64_t n_dense = get(b, DENSE_LAYERS, 0);
  if (!moe->experts) {
    static const int only_experts[] = {TOP_K, SHARED_FFN, DENSE_LAYERS, DENSE_FFN};
    for (int i = 0; i < 4; i++)
      if (b->given[only_experts[i]])
        mal_reject(b->r, keys[only_experts[i]].name, _("only means something with experts. Give experts=N."));
    n_dense = b->r->m->layers;
  }
  uint8_t *which = MAL_ARRAY(b->r->a, uint8_t, b->r->m->layers);
  for (int64_t l = n_dense; l < b->r->m->layers; l++) which[l] = 1;
  mal_add_layers(b->r, &names, variants, 2, which);
  static const mal_outer_names outer = {.embed = "model.embed_tokens",
                                        .position = "model.embed_positions",
                                        .final_norm = "model.norm",
                                        .head = "lm_head"};
  mal_outer_names outer_names = outer;
  outer_names.norm_bias = names.norm_bias;
  mal_add_outer(b->r, &outer_names);
}

mal_status mal_model_parse_bare(mal_arena *a, const char *text, mal_model *m, mal_error *e) {
  *m = (mal_model){.family = "bare", .source = "", .published_source = ""};
  mal_reader r = {.a = a, .path = _("bare description"), .m = m, .e = e};
  bare b = {.r = &r};
  m->name = mal_copy(a, text);
  char *rest = mal_copy(a, text), *pair;
  while (r.status == MAL_OK && (pair = strsep(&rest, ","))) read_pair(&b, pair);
  static const int required[] = {LAYERS, HIDDEN, HEADS, VOCAB};
  for (int i = 0; i < 4; i++)
    if (!b.given[required[i]])
      mal_reject(&r, keys[required[i]].name,
                 _("is missing. Write layers=N,hidden=N,heads=N,vocab=N and the rest as "
                   "needed."));
  if (r.status != MAL_OK) return r.status;
  mal_layer_kind kind = describe(&b);
  add_layers(&b, kind);
  mal_finish(&r);
  return r.status;
}
