/* The model in Megatron-LM's options, and back. A model that is read is looked for among the built-in ones by the options that
 * it would be written with; one that is none of them becomes a description. */
#include "core/catalog.h"
#include "launch/megatron.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef long long ll;

static void put_real(mal_settings *s, const char *key, double value) {
  mal_setting_put(s, key, mal_print(s->arena, "%.9g", value));
}

static void put_flag(mal_settings *s, const char *key, bool on) {
  if (on) mal_setting_put(s, key, NULL);
}

static const mal_layer_kind *first_with(const mal_model *m, mal_mlp mlp) {
  for (int i = 0; i < m->n_kinds; i++)
    if (m->kinds[i].mlp == mlp) return &m->kinds[i];
  return NULL;
}

/* --- out ---------------------------------------------------------------------------------------------------------------- */

static void lost(mal_bridge *b, const char *what) {
  mal_note_add(b->a, &b->notes, NULL, 0, _("the model: Megatron-LM has no option for %s."), what);
}

static void put_attention(mal_bridge *b, const mal_model *m, const mal_layer_kind *k) {
  mal_settings *s = b->settings;
  mal_setting_number(s, "--num-attention-heads", k->heads);
  if (k->mixer == MAL_MLA) {
    mal_setting_put(s, "--multi-latent-attention", NULL);
    if (k->q_lora_rank) mal_setting_number(s, "--q-lora-rank", k->q_lora_rank);
    mal_setting_number(s, "--kv-lora-rank", k->kv_lora_rank);
    mal_setting_number(s, "--qk-head-dim", k->head_dim - k->rope_dim);
    mal_setting_number(s, "--qk-pos-emb-head-dim", k->rope_dim);
    mal_setting_number(s, "--v-head-dim", k->v_head_dim);
  } else {
    if (k->kv_heads < k->heads) {
      mal_setting_put(s, "--group-query-attention", NULL);
      mal_setting_number(s, "--num-query-groups", k->kv_heads);
    }
    if (k->head_dim * k->heads != m->hidden) mal_setting_number(s, "--kv-channels", k->head_dim);
  }
  put_flag(s, "--qk-layernorm", k->qk_norm || k->mixer == MAL_MLA); /* MLA: those of its latent vectors */
  put_flag(s, "--add-qkv-bias", k->qkv_bias && !k->out_bias);
}

static void put_positions(mal_bridge *b, const mal_model *m, const mal_layer_kind *k, int64_t seq) {
  mal_settings *s = b->settings;
  int64_t most = m->max_positions > seq ? m->max_positions : seq;
  mal_setting_number(s, "--max-position-embeddings", most);
  if (m->learned_positions) {
    mal_setting_put(s, "--position-embedding-type", "learned_absolute");
  } else if (k->rope_dim) {
    mal_setting_put(s, "--position-embedding-type", k->rope_scaled ? "yarn" : "rope");
    put_real(s, "--rotary-base", k->rope_theta);
    if (k->mixer != MAL_MLA && k->rope_dim != k->head_dim)
      put_real(s, "--rotary-percent", (double)k->rope_dim / (double)k->head_dim);
    put_flag(s, "--use-rope-scaling", k->rope_stretched && !k->rope_scaled && strcmp(m->family, "llama") == 0);
    if (k->rope_scaled) lost(b, _("the factors of YaRN (give them by its --rotary-scaling-factor and the like)"));
  } else {
    mal_setting_put(s, "--position-embedding-type", "none");
    if (k->alibi) lost(b, _("linear position biases (ALiBi)"));
  }
}

static void put_mlp(mal_bridge *b, const mal_model *m) {
  mal_settings *s = b->settings;
  const mal_layer_kind *moe = first_with(m, MAL_MLP_MOE), *dense = first_with(m, MAL_MLP_DENSE);
  const mal_layer_kind *k = dense ? dense : moe;
  mal_setting_number(s, "--ffn-hidden-size", k->ffn);
  put_flag(s, "--swiglu", k->gated && k->activation == MAL_SILU);
  put_flag(s, "--squared-relu", !k->gated && k->activation == MAL_RELU2);
  if (k->gated && k->activation != MAL_SILU) lost(b, _("a gate with another activation than SiLU"));
  if (!k->gated && (k->activation == MAL_RELU || k->activation == MAL_SILU)) lost(b, _("this activation"));
  if (k->clamped) lost(b, _("the clamped activation"));
  if (!moe) return;
  mal_setting_number(s, "--num-experts", moe->experts);
  mal_setting_number(s, "--moe-router-topk", moe->top_k);
  mal_setting_number(s, "--moe-ffn-hidden-size", moe->ffn);
  if (moe->shared_ffn) mal_setting_number(s, "--moe-shared-expert-intermediate-size", moe->shared_ffn);
  int64_t n = 0;
  while (n < m->layers && m->kinds[m->kind_of[n]].mlp == MAL_MLP_DENSE) n++;
  if (n) mal_setting_put(s, "--moe-layer-freq", mal_print(b->a, "([0]*%lld+[1]*%lld)", (ll)n, (ll)(m->layers - n)));
  for (int64_t i = n; i < m->layers; i++)
    if (m->kinds[m->kind_of[i]].mlp == MAL_MLP_DENSE) {
      lost(b, _("dense layers that come between those with experts"));
      break;
    }
}

static void say_lost(mal_bridge *b, const mal_model *m) {
  bool window = false, all = true;
  for (int i = 0; i < m->n_kinds; i++) {
    window = window || m->kinds[i].window > 0;
    all = all && m->kinds[i].window > 0;
  }
  const mal_layer_kind *k = &m->kinds[0];
  if (window && all)
    mal_setting_put(b->settings, "--window-size", mal_print(b->a, "%lld,0", (ll)(k->window - 1)));
  else if (window)
    lost(b, _("sliding windows in some of the layers (give --window-size and --window-attn-skip-freq)"));
  if (k->parallel_block) lost(b, _("attention and MLP beside each other"));
  if (k->post_norm || k->norms > 2) lost(b, _("the place of its norms"));
  if (k->softcap) lost(b, _("capped attention scores"));
  if (m->embed_norm) lost(b, _("the norm after the embedding"));
  if (m->embedding_width != m->hidden) lost(b, _("an embedding of another width"));
}

static void put_model(mal_bridge *b, const mal_model *m, int64_t seq) {
  mal_settings *s = b->settings;
  const mal_layer_kind *k = &m->kinds[0];
  mal_setting_number(s, "--num-layers", m->layers);
  mal_setting_number(s, "--hidden-size", m->hidden);
  put_attention(b, m, k);
  put_mlp(b, m);
  put_positions(b, m, k, seq);
  mal_setting_put(s, "--normalization", k->norm == MAL_RMSNORM ? "RMSNorm" : "LayerNorm");
  put_real(s, "--norm-epsilon", m->norm_eps);
  put_flag(s, "--disable-bias-linear", !k->mlp_bias && !k->out_bias);
  put_flag(s, "--untie-embeddings-and-output-weights", !m->tied_embeddings);
  if (m->mtp_layers) mal_setting_number(s, "--mtp-num-layers", m->mtp_layers);
  say_lost(b, m);
}

void mal_megatron_model(mal_bridge *b, const mal_model *m) {
  put_model(b, m, b->plan->job.seq);
  if (b->plan->profile->dropout) return;
  mal_setting_put(b->settings, "--attention-dropout", "0");
  mal_setting_put(b->settings, "--hidden-dropout", "0");
}

/* --- in ----------------------------------------------------------------------------------------------------------------- */

typedef enum weight { SHAPE, DETAIL } weight; /* of a key: wrong in a shape, another model; in a detail, less like it */
static const struct {
  const char *key,
      *absent; /* absent: what Megatron-LM takes without it; NULL: nothing; "*": not compared when one lacks it */
  weight weight;
} keys[] = {
    {"--num-layers", NULL, SHAPE},
    {"--hidden-size", NULL, SHAPE},
    {"--num-attention-heads", NULL, SHAPE},
    {"--num-query-groups", NULL, SHAPE},
    {"--kv-channels", NULL, SHAPE},
    {"--ffn-hidden-size", "*", SHAPE},
    {"--vocab-size", "*", SHAPE},
    {"--swiglu", NULL, SHAPE},
    {"--squared-relu", NULL, SHAPE},
    {"--num-experts", NULL, SHAPE},
    {"--moe-router-topk", "2", SHAPE},
    {"--moe-ffn-hidden-size", "*", SHAPE},
    {"--moe-shared-expert-intermediate-size", NULL, SHAPE},
    {"--moe-layer-freq", "*", DETAIL},
    {"--multi-latent-attention", NULL, SHAPE},
    {"--q-lora-rank", NULL, SHAPE},
    {"--kv-lora-rank", "32", SHAPE},
    {"--qk-head-dim", "128", SHAPE},
    {"--qk-pos-emb-head-dim", "64", SHAPE},
    {"--v-head-dim", "128", SHAPE},
    {"--untie-embeddings-and-output-weights", NULL, SHAPE},
    {"--normalization", "LayerNorm", SHAPE},
    {"--position-embedding-type", "learned_absolute", DETAIL},
    {"--disable-bias-linear", NULL, SHAPE},
    {"--add-qkv-bias", NULL, SHAPE},
    {"--qk-layernorm", NULL, SHAPE},
    {"--group-query-attention", NULL, DETAIL},
    {"--max-position-embeddings", NULL, DETAIL},
    {"--rotary-base", "10000", DETAIL},
    {"--rotary-percent", "1", DETAIL},
    {"--use-rope-scaling", NULL, DETAIL},
    {"--norm-epsilon", "1e-05", DETAIL},
    {"--window-size", NULL, DETAIL},
    {"--mtp-num-layers", NULL, DETAIL},
};
enum { KEYS = sizeof keys / sizeof *keys };

static bool same_value(const char *x, const char *y) {
  char *ex, *ey;
  double a = strtod(x, &ex), b = strtod(y, &ey);
  if (ex != x && ey != y && !*ex && !*ey) return fabs(a - b) <= 1e-9 * fabs(a);
  return strcmp(x, y) == 0;
}

/* NULL: the key is not there; "": it stands alone. */
static const char *value_of(const mal_settings *s, const char *key) {
  const mal_setting *one = mal_setting_find(s, key);
  if (!one) return NULL;
  return one->n_values ? one->values[0] : "";
}

/* -1: another model; else how many details agree. */
static int likeness(const mal_settings *asked, const mal_settings *model) {
  int like = 0;
  bool latent = mal_setting_find(model, "--multi-latent-attention") != NULL;
  for (int i = 0; i < KEYS; i++) {
    const char *x = value_of(asked, keys[i].key), *y = value_of(model, keys[i].key), *absent = keys[i].absent;
    bool either = absent && strcmp(absent, "*") == 0;
    if (either && (!x || !y)) continue;
    if (x && strchr(x, '$')) continue; /* known when it runs */
    if (!x && y && absent) x = absent;
    if (!y && x && absent) y = absent;
    if (latent && strcmp(keys[i].key, "--kv-channels") == 0) continue;
    bool same = (!x && !y) || (x && y && same_value(x, y));
    if (!same && keys[i].weight == SHAPE) return -1;
    like += same;
  }
  return like;
}

/* Widths that the options leave to Megatron-LM are what it makes of them. */
static void fill(mal_settings *s) {
  const char *hidden = value_of(s, "--hidden-size");
  int64_t h = hidden ? strtoll(hidden, NULL, 10) : 0;
  if (h > 0 && h < MAL_MAX_WIDTH && !value_of(s, "--ffn-hidden-size"))
    mal_setting_number(s, "--ffn-hidden-size", value_of(s, "--swiglu") ? h * 4 * 2 / 3 / 64 * 64 : 4 * h);
}

static bool same_groups(const mal_settings *s) { /* as many groups as heads are none */
  const char *groups = value_of(s, "--num-query-groups"), *heads = value_of(s, "--num-attention-heads");
  return groups && heads && strcmp(groups, heads) == 0;
}

static bool usual_width(const mal_settings *s) { /* of a head */
  const char *width = value_of(s, "--kv-channels"), *heads = value_of(s, "--num-attention-heads");
  const char *hidden = value_of(s, "--hidden-size");
  if (!width || !heads || !hidden) return false;
  return strtod(width, NULL) * strtod(heads, NULL) == strtod(hidden, NULL);
}

static mal_settings copy_of(mal_arena *a, const mal_settings *s) {
  mal_settings copy = {.arena = a};
  for (int i = 0; i < s->count; i++) {
    if (strcmp(s->all[i].key, "--num-query-groups") == 0 && (same_groups(s) || !value_of(s, "--group-query-attention")))
      continue;
    if (strcmp(s->all[i].key, "--kv-channels") == 0 && usual_width(s)) continue;
    mal_setting *one = mal_setting_add(&copy, s->all[i].key, s->all[i].file, s->all[i].line);
    *one = s->all[i];
  }
  return copy;
}

static const char *built_in(mal_bridge *b, const mal_settings *asked) {
  mal_error ignored;
  char **names;
  size_t count;
  int best = -1;
  const char *found = NULL;
  mal_arena scratch;
  mal_arena_init(&scratch);
  if (mal_catalog_list(b->a, "models", ".json", &names, &count, &ignored) != MAL_OK) count = 0;
  for (size_t i = 0; i < count; i++) {
    mal_model m;
    mal_settings own = {.arena = &scratch};
    mal_bridge to = {.a = &scratch, .settings = &own};
    mal_arena_reset(&scratch);
    if (mal_model_load(&scratch, names[i], &m, &ignored) != MAL_OK) continue;
    put_model(&to, &m, 0);
    mal_setting_number(&own, "--vocab-size", m.vocab);
    int like = likeness(asked, &own);
    if (like > best) {
      best = like;
      found = names[i];
    }
  }
  mal_arena_free(&scratch);
  return found;
}

static mal_status describe(mal_bridge *b, const mal_settings *s, mal_error *e) {
  static const struct {
    const char *theirs, *ours;
  } numbers[] = {{"--num-layers", "layers"},         {"--hidden-size", "hidden"},
                 {"--num-attention-heads", "heads"}, {"--vocab-size", "vocab"},
                 {"--ffn-hidden-size", "ffn"},       {"--num-query-groups", "kv_heads"},
                 {"--kv-channels", "head_dim"},      {"--num-experts", "experts"},
                 {"--moe-router-topk", "top_k"},     {"--moe-shared-expert-intermediate-size", "shared_ffn"}};
  const char *position = value_of(s, "--position-embedding-type"), *most = value_of(s, "--max-position-embeddings");
  const char *expert = value_of(s, "--moe-ffn-hidden-size"), *norm = value_of(s, "--normalization");
  char *text = mal_copy(b->a, "");
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const char *value = value_of(s, numbers[i].theirs);
    const mal_setting *one = mal_setting_find(s, numbers[i].theirs);
    if (i < 4 && (!value || !*value))
      return mal_fail(e, MAL_BAD,
                      _("Which model? The options do not say %s, and no built-in model fits them. Add --model."),
                      numbers[i].theirs);
    if (!value || !*value) continue;
    if (strchr(value, '$'))
      return mal_setting_fail(one, e, _("is %s, which the file does not set. Say it: malha import FILE NAME=VALUE."),
                              value);
    if (strcmp(numbers[i].ours, "ffn") == 0 && expert) value = expert;
    text = mal_print(b->a, "%s%s%s=%s", text, *text ? "," : "", numbers[i].ours, value);
  }
  if (value_of(s, "--multi-latent-attention"))
    return mal_fail(e, MAL_BAD, _("Which model? It has latent attention, and no built-in model fits it. Add --model."));
  bool gated = value_of(s, "--swiglu") != NULL, rotary = position && strcmp(position, "learned_absolute") != 0;
  text = mal_print(b->a, "%s,gated=%d,bias=%d,tied=%d,norm=%s", text, gated, !value_of(s, "--disable-bias-linear"),
                   !value_of(s, "--untie-embeddings-and-output-weights"),
                   norm && strcmp(norm, "RMSNorm") == 0 ? "rmsnorm" : "layernorm");
  if (!rotary && most && *most) text = mal_print(b->a, "%s,positions=%s", text, most);
  if (value_of(s, "--squared-relu")) text = mal_print(b->a, "%s,activation=relu2", text);
  mal_model m;
  mal_error inner = {0};
  mal_status status = mal_model_parse_bare(b->a, text, &m, &inner);
  if (status != MAL_OK)
    return mal_fail(e, MAL_BAD, _("the model as the options describe it (%s): %s"), text, inner.text);
  b->model = text;
  return MAL_OK;
}

mal_status mal_megatron_read_model(mal_bridge *b, const char *named, mal_error *e) {
  b->model = named;
  if (!named && !mal_setting_find(b->settings, "--num-layers") && !mal_setting_find(b->settings, "--hidden-size"))
    return MAL_OK;
  mal_settings s = copy_of(b->a, b->settings);
  fill(&s);
  if (!named) b->model = built_in(b, &s);
  mal_status status = b->model ? MAL_OK : describe(b, &s, e);
  for (int i = 0; i < KEYS && status == MAL_OK; i++) mal_setting_take(b->settings, keys[i].key);
  if (mal_setting_find(b->settings, "--attention-dropout")) {
    const char *x = value_of(b->settings, "--attention-dropout"), *y = value_of(b->settings, "--hidden-dropout");
    if (x && y && strtod(x, NULL) == 0 && strtod(y, NULL) == 0) {
      mal_setting_take(b->settings, "--attention-dropout");
      mal_setting_take(b->settings, "--hidden-dropout");
    }
  }
  return status;
}
