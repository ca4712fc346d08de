/* What a published row leaves blank. catalog/published/frameworks.csv: patterns over a row's framework, notes, kernels and
 * mixed precision, in order, the first that matches; it names the profile and a value for each blank, with its source.
 * catalog/published/gpus.csv: a row's gpu to the catalogue's node. catalog/recipes/: what a release's public scripts set.
 * Adding a framework is a line of data. */
#ifndef MAL_CHECK_FRAMEWORKS_H
#define MAL_CHECK_FRAMEWORKS_H
#include "check/runs.h"

typedef struct mal_framework {
  const char *framework, *notes, *kernels, *mixed_precision, *match_precision,
      *match_year; /* patterns with * and ?, case ignored; "" matches all */
  const char *profile;
  const char *recompute, *attention, *precision, *optimizer, *lora_targets, *layout, *selective,
      *inferred; /* "" nothing to add; selective: "half": full on half of the layers; inferred: a column
                                                        whose value the notes call inferred, so that it counts as blank */
  const char
      *nics; /* "1x200": NICs of a node and their Gb/s where the row names no network; "" the node of the catalogue */
  const char *vpp,
      *etp; /* "layer": one layer a chunk, at most 12; "tp": as tp; else a number (chunks: or the next that divides) */
  int64_t sample_tokens; /* mean length of the samples that are packed into a sequence: attention stays inside each */
  int64_t micro_batch, micro_batch_pp, zero, seq_par, flash, tp, pp; /* MAL_BLANK: no default */
  const char *
      memory; /* what its memory counts when the row does not say: "allocated", "reserved", "nvidia-smi"; "" reserved */
  const char *memory_unit; /* "GB": its figures are in 10^9 bytes; "" GiB */
  const char *source;
} mal_framework;

typedef struct mal_published_gpu {
  const char *gpu, *catalog, *node, *source; /* pattern; catalogue names */
} mal_published_gpu;

typedef struct mal_recipe {
  const char *releases, *model, *gpu, *precision, *train, *recompute_modules, *cuda_graph, *graph_scope, *dispatcher;
  int64_t a2a_overlap, fused_experts, fp8_attention, gpus, global_batch, tp, pp, vpp, cp, ep, etp, micro_batch,
      recompute_layers;
} mal_recipe;

typedef struct mal_defaults {
  mal_framework *frameworks;
  mal_published_gpu *gpus;
  mal_recipe *recipes;
  int n_frameworks, n_gpus, n_recipes;
} mal_defaults;

mal_status mal_defaults_load(mal_arena *a, mal_defaults *d, mal_error *e);
const mal_framework *mal_framework_of(const mal_defaults *d,
                                      const mal_trial *t); /* never NULL: the table ends with * */
const mal_published_gpu *mal_published_gpu_of(const mal_defaults *d, const char *gpu); /* NULL: not in the table */
/* The recipe of the row's release (or the latest known before it), model, GPU, precision and GPU count that contradicts nothing the row prints; NULL. */
const mal_recipe *mal_recipe_of(const mal_defaults *d, const mal_trial *t);
/* The same, whatever the layout: what its switches say holds for the row too. */
const mal_recipe *mal_recipe_like(const mal_defaults *d, const mal_trial *t);
/* '*' any text, '?' any character, case ignored. An empty pattern matches everything. */
bool mal_glob(const char *pattern, const char *text);
#endif
