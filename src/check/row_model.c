/* The model of a row: a catalogue entry when name and printed sizes agree with one, which then tells what a CSV has no
 * columns for (shared experts, latent attention, dense first layers); else a bare description of the printed sizes. */
#include "check/row_fill.h"
#include "core/catalog.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_DIM_USUAL = 128, HEAD_DIM_LEAST = 64, VOCAB_USUAL = 51200, TOP_K_USUAL = 2 };

/* "DeepSeek-V2 reduced to 4 layers" -> "deepseek-v2", "Llama-3 70B LoRA" -> "llama-3-70b". */
static const char *catalog_name(mal_arena *a, const char *model_name) {
  static const char *const tails[] = {" reduced", " (", " lora", " sft", " moe"};
  char *name = mal_copy(a, model_name);
  size_t n = 0;
  for (char *p = name; *p; p++) *p = (char)tolower((unsigned char)*p);
  for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
    char *tail = strstr(name, tails[i]);
    if (tail) *tail = 0;
  }
  for (const char *p = name; *p; p++)
    if (isalnum((unsigned char)*p) || *p == '.')
      name[n++] = *p;
    else if (n && name[n - 1] != '-')
      name[n++] = '-';
  while (n && name[n - 1] == '-') n--;
  name[n] = 0;
  return name;
}

static bool agrees(int64_t printed, int64_t known) { return printed < 0 || printed == known; }

/* Whether the widths that the row prints are those of the catalogue's model; a MoE's ffn may be either kind's. */
static bool same_sizes(const mal_trial *t, const mal_model *m) {
  bool ffn = t->ffn < 0, experts = t->experts < 1, heads = false;
  for (int i = 0; i < m->n_kinds; i++) {
    const mal_layer_kind *k = &m->kinds[i];
    ffn = ffn || k->ffn == t->ffn;
    heads = heads || agrees(t->heads, k->heads);
    experts = experts || (k->mlp == MAL_MLP_MOE && k->experts == t->experts && agrees(t->top_k, k->top_k));
  }
  return ffn && experts && heads && agrees(t->hidden, m->hidden) && (t->layers < 1 || t->layers <= m->layers);
}

static bool known_model(mal_arena *a, const mal_trial *t, const char **name, mal_model *m) {
  char *path;
  *name = catalog_name(a, t->model_name);
  return **name && mal_catalog_find(a, "models", *name, ".json", "model", &path, NULL) == MAL_OK &&
         mal_model_load(a, *name, m, NULL) == MAL_OK && same_sizes(t, m);
}

/* Leaves out the first of the dense layers that a model of experts begins with, so that `dense` of them are left. */
static void cut_dense(mal_model *m, int64_t dense) {
  int64_t now = 0, drop;
  while (now < m->layers && m->kinds[m->kind_of[now]].mlp == MAL_MLP_DENSE) now++;
  drop = now < m->layers && now > dense ? now - dense : 0;
  for (int64_t l = 0; l < drop; l++) {
    m->parameters -= m->kinds[m->kind_of[l]].parameters;
    m->active_parameters -= m->kinds[m->kind_of[l]].active_parameters;
  }
  m->layers -= drop;
  for (int64_t l = 0; l < m->layers; l++) m->kind_of[l] = m->kind_of[l + drop];
}

/* "..., 1 dense layer, ..." in a row's notes; MAL_BLANK when they do not say. */
static int64_t noted_dense_layers(const char *notes) {
  const char *at = strstr(notes, " dense layer");
  if (!at) return MAL_BLANK;
  while (at > notes && isdigit((unsigned char)at[-1])) at--;
  return isdigit((unsigned char)*at) ? atoll(at) : MAL_BLANK;
}

/* The first `layers` layers of a model. */
static void cut_layers(mal_model *m, int64_t layers) {
  for (int64_t l = layers; l < m->layers; l++) {
    const mal_layer_kind *k = &m->kinds[m->kind_of[l]];
    m->parameters -= k->parameters;
    m->active_parameters -= k->active_parameters;
  }
  m->layers = layers;
}

mal_status mal_row_load_model(mal_arena *a, const mal_row *row, mal_model *model, mal_error *e) {
  const char *cut = strchr(row->model_spec, ';');
  if (!cut) return mal_model_load(a, row->model_spec, model, e);
  char *name = mal_print(a, "%.*s", (int)(cut - row->model_spec), row->model_spec);
  mal_status s = mal_model_load(a, name, model, e);
  if (s != MAL_OK) return s;
  model->mtp_layers = 0; /* a cut model is built without its prediction modules */
  int64_t layers = atoll(cut + strlen(";layers="));
  const char *dense = strstr(cut, ";dense=");
  if (dense) cut_dense(model, atoll(dense + strlen(";dense=")));
  if (layers < model->layers) cut_layers(model, layers);
  return MAL_OK;
}

/* Heads that a row leaves out: the divisor of hidden, and multiple of tp, whose head width is nearest the usual one. */
static int64_t guess_heads(const mal_trial *t) {
  int64_t tp = t->tp > 0 ? t->tp : 1, best = tp;
  double nearest = 1e300;
  for (int64_t h = tp; h <= t->hidden && h <= 1024; h += tp) {
    double off = fabs((double)t->hidden / (double)h - HEAD_DIM_USUAL);
    if (t->hidden % h == 0 && off < nearest) {
      nearest = off;
      best = h;
    }
  }
  return best;
}

/* Weights of one layer, biases and norms apart. */
static double layer_weights(const mal_trial *t, int64_t ffn, int64_t heads, int64_t kv) {
  double h = (double)t->hidden, copies = t->experts > 0 ? (double)t->experts : 1;
  return h * h * (2 + 2 * (double)kv / (double)heads) + copies * (t->gated == 1 ? 3 : 2) * h * (double)ffn;
}

static int64_t guess_layers(const mal_trial *t, int64_t vocab, int64_t ffn, int64_t heads, int64_t kv) {
  double n = (t->params - (double)vocab * (double)t->hidden) / layer_weights(t, ffn, heads, kv);
  return n > 1 ? (int64_t)(n + 0.5) : 1;
}

/* Gated models untie embedding and head, the others share them, unless the printed parameter count says otherwise beyond
 * its rounding. */
static bool guess_tied(const mal_trial *t, int64_t layers, int64_t vocab, int64_t ffn, int64_t heads, int64_t kv) {
  bool usual = t->gated != 1;
  if (!(t->params > 0)) return usual;
  double table = (double)vocab * (double)t->hidden, rounding = 0.01 * t->params;
  double tied = fabs((double)layers * layer_weights(t, ffn, heads, kv) + table - t->params);
  double untied = fabs((double)layers * layer_weights(t, ffn, heads, kv) + 2 * table - t->params);
  if ((usual ? tied : untied) <= rounding) return usual;
  return tied <= untied;
}

mal_status mal_fill_model(mal_arena *a, mal_filled *f, mal_error *e) {
  const mal_trial *t = f->row->trial;
  const char *name;
  mal_model known;
  if ((t->experts > 0 || t->ffn < 1) && known_model(a, t, &name, &known)) {
    bool cut = t->layers > 0 && t->layers < known.layers;
    int64_t dense = noted_dense_layers(t->notes);
    f->row->model_spec = !cut ? mal_copy(a, name)
                         : dense >= 0
                             ? mal_print(a, "%s;layers=%lld;dense=%lld", name, (long long)t->layers, (long long)dense)
                             : mal_print(a, "%s;layers=%lld", name, (long long)t->layers);
    return MAL_OK;
  }
  if (t->experts > 0 && t->ffn < 1) return mal_fail(e, MAL_BAD, _("no model sizes"));
  int64_t heads = t->heads > 0 ? t->heads : guess_heads(t);
  int64_t kv = t->kv_heads > 0 ? t->kv_heads : heads;
  int64_t ffn = t->ffn > 0 ? t->ffn : 4 * t->hidden;
  int64_t vocab = t->vocab > 0 ? t->vocab : VOCAB_USUAL;
  int64_t layers = t->layers > 0 ? t->layers : guess_layers(t, vocab, ffn, heads, kv);
  int64_t top_k = t->top_k > 0 ? t->top_k : TOP_K_USUAL;
  bool tied = guess_tied(t, layers, vocab, ffn, heads, kv);
  if (t->layers < 1) mal_filled_note(f, "layers=%lld", (long long)layers);
  if (t->heads < 1) mal_filled_note(f, "heads=%lld", (long long)heads);
  if (t->vocab < 1) mal_filled_note(f, "vocab=%lld", (long long)vocab);
  if (t->experts > 0 && t->top_k < 1) mal_filled_note(f, "top_k=%lld", (long long)top_k);
  char *spec = mal_print(a, "layers=%lld,hidden=%lld,heads=%lld,kv_heads=%lld,ffn=%lld,vocab=%lld,gated=%d,tied=%d",
                         (long long)layers, (long long)t->hidden, (long long)heads, (long long)kv, (long long)ffn,
                         (long long)vocab, t->gated == 1, tied);
  /* rotary positions turn pairs: an odd quotient is no head width, heads are then wider than hidden / heads */
  if (t->hidden % heads || t->hidden / heads % 2)
    spec = mal_print(a, "%s,head_dim=%d", spec, t->hidden / heads < HEAD_DIM_LEAST ? HEAD_DIM_LEAST : HEAD_DIM_USUAL);
  if (t->experts > 0) spec = mal_print(a, "%s,experts=%lld,top_k=%lld", spec, (long long)t->experts, (long long)top_k);
  int64_t sample = f->row->framework->sample_tokens;
  if (sample > 0 && sample < t->seq) {
    spec = mal_print(a, "%s,window=%lld", spec, (long long)sample);
    mal_filled_note(f, "sample-tokens=%lld", (long long)sample);
  }
  f->row->model_spec = spec;
  return MAL_OK;
}
