#include "check/frameworks.h"
#include "core/catalog.h"
#include "core/units.h"
#include <ctype.h>
#include <stddef.h>
#include <string.h>

typedef enum cell_kind { TEXT, COUNT } cell_kind;
typedef struct cell {
  const char *name;
  cell_kind kind;
  size_t offset;
} cell;

#define T(type, field)                                                                                                 \
  { #field, TEXT, offsetof(type, field) }
#define N(type, field)                                                                                                 \
  { #field, COUNT, offsetof(type, field) }
static const cell framework_cells[] = {
    T(mal_framework, framework),
    T(mal_framework, notes),
    T(mal_framework, kernels),
    T(mal_framework, mixed_precision),
    T(mal_framework, match_precision),
    T(mal_framework, match_year),
    T(mal_framework, profile),
    T(mal_framework, nics),
    T(mal_framework, recompute),
    T(mal_framework, attention),
    T(mal_framework, precision),
    T(mal_framework, optimizer),
    T(mal_framework, lora_targets),
    T(mal_framework, layout),
    T(mal_framework, selective),
    T(mal_framework, inferred),
    T(mal_framework, vpp),
    T(mal_framework, etp),
    N(mal_framework, sample_tokens),
    N(mal_framework, micro_batch),
    N(mal_framework, micro_batch_pp),
    N(mal_framework, zero),
    N(mal_framework, seq_par),
    N(mal_framework, flash),
    N(mal_framework, tp),
    N(mal_framework, pp),
    T(mal_framework, memory),
    T(mal_framework, memory_unit),
    T(mal_framework, source),
};
static const cell gpu_cells[] = {T(mal_published_gpu, gpu), T(mal_published_gpu, catalog), T(mal_published_gpu, node),
                                 T(mal_published_gpu, source)};
static const cell recipe_cells[] = {
    T(mal_recipe, releases),
    T(mal_recipe, model),
    T(mal_recipe, gpu),
    T(mal_recipe, precision),
    T(mal_recipe, train),
    N(mal_recipe, gpus),
    N(mal_recipe, global_batch),
    N(mal_recipe, tp),
    N(mal_recipe, pp),
    N(mal_recipe, vpp),
    N(mal_recipe, cp),
    N(mal_recipe, ep),
    N(mal_recipe, etp),
    N(mal_recipe, micro_batch),
    T(mal_recipe, recompute_modules),
    N(mal_recipe, recompute_layers),
    T(mal_recipe, cuda_graph),
    N(mal_recipe, a2a_overlap),
    T(mal_recipe, graph_scope),
    T(mal_recipe, dispatcher),
    N(mal_recipe, fused_experts),
    N(mal_recipe, fp8_attention),
};
#define CELLS(table) table, (int)(sizeof table / sizeof *table)

/* Reads catalog/<folder>/<name>.csv into an array of structs of `size` bytes; every column of the table must be there. */
static mal_status read_table(mal_arena *a, const char *folder, const char *name, const cell *cells, int n_cells,
                             size_t size, void **rows, int *count, mal_error *e) {
  char *path;
  mal_csv csv;
  mal_status s = mal_catalog_find(a, folder, name, ".csv", "table", &path, e);
  if (s == MAL_OK) s = mal_csv_read(a, path, &csv, e);
  if (s != MAL_OK) return s;
  char *into = mal_alloc_array(a, (size_t)csv.rows + 1, size);
  for (int c = 0; c < n_cells; c++) {
    int column = mal_csv_column(&csv, cells[c].name);
    if (column < 0) return mal_fail(e, MAL_BAD, _("%s: column %s is missing."), path, cells[c].name);
    for (int r = 0; r < csv.rows; r++) {
      const char *text = mal_csv_cell(&csv, r, column);
      void *field = into + (size_t)r * size + cells[c].offset;
      if (cells[c].kind == TEXT) {
        *(const char **)field = text;
        continue;
      }
      *(int64_t *)field = MAL_BLANK;
      if (*text && mal_parse_count(text, cells[c].name, field, e) != MAL_OK)
        return mal_fail_in(e, "%s:%d", path, csv.line[r]);
    }
  }
  *rows = into;
  *count = csv.rows;
  return MAL_OK;
}

mal_status mal_defaults_load(mal_arena *a, mal_defaults *d, mal_error *e) {
  void *frameworks, *gpus, *recipes;
  mal_status s = read_table(a, "published", "frameworks", CELLS(framework_cells), sizeof(mal_framework), &frameworks,
                            &d->n_frameworks, e);
  if (s == MAL_OK)
    s = read_table(a, "published", "gpus", CELLS(gpu_cells), sizeof(mal_published_gpu), &gpus, &d->n_gpus, e);
  if (s == MAL_OK)
    s = read_table(a, "recipes", "megatron-bridge", CELLS(recipe_cells), sizeof(mal_recipe), &recipes, &d->n_recipes,
                   e);
  if (s != MAL_OK) return s;
  d->frameworks = frameworks;
  d->gpus = gpus;
  d->recipes = recipes;
  if (!d->n_frameworks || strcmp(d->frameworks[d->n_frameworks - 1].framework, "*"))
    return mal_fail(e, MAL_BAD, _("catalog/published/frameworks.csv must end with a row whose framework is *."));
  return MAL_OK;
}

static bool glob(const char *pattern, const char *text) {
  const char *star = NULL, *mark = NULL; /* where to resume after the last * */
  while (*text) {
    if (*pattern == '*') {
      star = ++pattern;
      mark = text;
    } else if (*pattern == '?' || (*pattern && tolower((unsigned char)*pattern) == tolower((unsigned char)*text))) {
      pattern++;
      text++;
    } else if (star) {
      pattern = star;
      text = ++mark;
    } else {
      return false;
    }
  }
  while (*pattern == '*') pattern++;
  return *pattern == 0;
}

bool mal_glob(const char *pattern, const char *text) { return !*pattern || glob(pattern, text); }

const mal_framework *mal_framework_of(const mal_defaults *d, const mal_trial *t) {
  for (int i = 0; i < d->n_frameworks; i++) {
    const mal_framework *f = &d->frameworks[i];
    if (mal_glob(f->framework, t->framework) && mal_glob(f->notes, t->notes) && mal_glob(f->kernels, t->kernels) &&
        mal_glob(f->mixed_precision, t->mixed_precision) && mal_glob(f->match_precision, t->precision) &&
        mal_glob(f->match_year, t->year))
      return f;
  }
  return &d->frameworks[d->n_frameworks - 1];
}

const mal_published_gpu *mal_published_gpu_of(const mal_defaults *d, const char *gpu) {
  for (int i = 0; i < d->n_gpus; i++)
    if (*gpu && glob(d->gpus[i].gpu, gpu)) return &d->gpus[i];
  return NULL;
}

/* The latest word of `list` that is not after `release`; NULL none. Releases compare as text: "26.02.01" after "26.02". */
static const char *latest_word(mal_arena *a, const char *list, const char *release) {
  const char *best = NULL;
  for (const char *p = list; *p; p += strspn(p, " ")) {
    size_t n = strcspn(p, " ");
    char *word = mal_print(a, "%.*s", (int)n, p);
    if (strcmp(word, release) <= 0 && (!best || strcmp(word, best) > 0)) best = word;
    p += n;
  }
  return best;
}

/* The release in "Name (26.04.01)". */
static const char *release_of(mal_arena *a, const char *framework) {
  const char *open = strchr(framework, '('), *close = open ? strchr(open, ')') : NULL;
  return close ? mal_print(a, "%.*s", (int)(close - open - 1), open + 1) : NULL;
}

static bool agrees(int64_t recipe, int64_t row) { return recipe < 0 || row < 0 || recipe == row; }

/* "Llama-3 70B LoRA" is a row of the model "Llama-3 70B". */
static bool same_model(const char *model, const char *name) {
  size_t n = strlen(model);
  return !strncmp(name, model, n) && (!name[n] || !strcmp(name + n, " LoRA") || !strcmp(name + n, " SFT"));
}

static bool recipe_is_like(const mal_recipe *r, const mal_trial *t) {
  return same_model(r->model, t->model_name) && !strcmp(r->gpu, t->gpu) && !strcmp(r->train, t->train_mode) &&
         (!*r->precision || !strcmp(r->precision, t->precision));
}

static bool recipe_fits(const mal_recipe *r, const mal_trial *t) {
  return recipe_is_like(r, t) && agrees(r->gpus, t->gpus) && agrees(r->tp, t->tp) && agrees(r->pp, t->pp) &&
         agrees(r->vpp, t->vpp) && agrees(r->cp, t->cp) && agrees(r->ep, t->ep) &&
         agrees(r->micro_batch, t->micro_batch);
}

static const mal_recipe *latest(const mal_defaults *d, const mal_trial *t,
                                bool (*fits)(const mal_recipe *, const mal_trial *)) {
  mal_arena a;
  const mal_recipe *best = NULL;
  const char *best_release = "";
  mal_arena_init(&a);
  const char *release = release_of(&a, t->framework);
  for (int i = 0; release && i < d->n_recipes; i++) {
    const mal_recipe *r = &d->recipes[i];
    const char *known = fits(r, t) ? latest_word(&a, r->releases, release) : NULL;
    int later = known ? strcmp(known, best_release) : -1;
    if (later < 0 || (later == 0 && best && (!*r->precision || *best->precision))) continue;
    best = r;
    best_release = known;
  }
  mal_arena_free(&a);
  return best;
}

const mal_recipe *mal_recipe_of(const mal_defaults *d, const mal_trial *t) { return latest(d, t, recipe_fits); }

const mal_recipe *mal_recipe_like(const mal_defaults *d, const mal_trial *t) { return latest(d, t, recipe_is_like); }
