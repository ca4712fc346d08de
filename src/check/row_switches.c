/* What a recipe switches in its framework's profile, as the text of a profile that inherits from it. */
#include "check/row_fill.h"
#include <string.h>

typedef struct writer {
  mal_arena *arena;
  char *name, *lines;
} writer;

static void set(writer *w, const char *mark, const char *lines) {
  if (*mark) w->name = mal_print(w->arena, "%s+%s", w->name, mark);
  w->lines = mal_print(w->arena, "%s%s\n", w->lines, lines);
}

static bool has_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *p = list; (p = strstr(p, word)); p += n)
    if ((p == list || p[-1] == '+') && (!p[n] || p[n] == '+')) return true;
  return false;
}

static void graphs(writer *w, const mal_recipe *r) {
  if (!strcmp(r->cuda_graph, "full")) set(w, "graph", "launch: graph");
  if (strcmp(r->cuda_graph, "partial")) return;
  if (has_word(r->graph_scope, "attn")) set(w, "attention-graph", "graph_attention: true");
  if (has_word(r->graph_scope, "moe_router")) set(w, "router-graph", "graph_router: true");
  if (has_word(r->graph_scope, "mlp")) set(w, "mlp-graph", "graph_mlp: true");
}

char *mal_row_switches(mal_arena *a, const mal_row *row, const char *base, char **name) {
  const mal_recipe *r = row->recipe ? row->recipe : row->similar;
  writer w = {a, mal_copy(a, base), mal_print(a, "base: %s\n", base)};
  *name = w.name;
  if (!r) return NULL;
  graphs(&w, r);
  if (has_word(r->recompute_modules, "moe_act")) set(&w, "moe-act", "remakes_expert_act: true");
  if (row->recipe && r->a2a_overlap > 0) set(&w, "overlap", "overlap_ep: true");
  if (!strcmp(r->dispatcher, "hybridep") || !strcmp(r->dispatcher, "deepep"))
    set(&w, r->dispatcher, "dispatch_once: true\nsorts_chunks: false");
  if (r->fused_experts > 0)
    set(&w, "fused", "fused_experts: true\npads_experts: false\nexpert_bias_apart: false\nclamps_apart: false");
  if (r->fp8_attention > 0) set(&w, "fp8-attention", "fp8_attention: true");
  if (!strcmp(w.name, base)) return NULL;
  *name = w.name;
  return mal_print(a, "%sname: %s\ntitle: \"%s as a recipe of its release sets it\"\nsource: \"catalog/recipes\"\n",
                   w.lines, w.name, base);
}
