/* A published run as a plan that can be lowered: GPU, node and network, model from its sizes, layout and job, with the
 * blanks filled from the row's own arithmetic, then a recipe, then the framework's defaults. Every default taken is named.
 *
 * Loaded GPUs, nodes and profiles are shared by all rows, so that bench/fit changes a constant in one place. */
#ifndef MAL_CHECK_ROWS_H
#define MAL_CHECK_ROWS_H
#include "check/frameworks.h"
#include "plan/plan.h"

typedef enum mal_memory_kind {                      /* what a row's peak memory counts */
                               MAL_MEMORY_ALL,      /* nvidia-smi: context included */
                               MAL_MEMORY_RESERVED, /* the allocator's, without context and communicators */
                               MAL_MEMORY_ALLOCATED /* tensors alone: without slack either */
} mal_memory_kind;

typedef struct mal_row {
  const mal_trial *trial;
  const mal_framework *framework;
  const mal_recipe *recipe; /* NULL: none known */
  const mal_recipe
      *similar;           /* NULL, or of the same model, GPU and precision with another layout: for its switches only */
  const char *family;     /* to group and weight by: the column, else the framework */
  const char *skipped;    /* why it is not judged, NULL: it is */
  const char *defaults;   /* "recompute=none vpp=12": what was not printed; "" none */
  const char *model_spec; /* bare description, or the catalogue's name */
  mal_memory_kind memory_kind;
  double memory_scale; /* of the column, which says GiB: its source may count in 10^9 bytes */
  mal_plan *plan;      /* complete; NULL when skipped */
} mal_row;

enum { MAL_ROWS_CACHE = 512 };

typedef struct mal_rows {
  mal_arena *arena;
  mal_defaults defaults;
  mal_row *rows;
  int count, skipped;
  mal_node *nodes[MAL_ROWS_CACHE];
  mal_gpu *gpus[MAL_ROWS_CACHE];
  mal_profile *profiles[MAL_ROWS_CACHE];
  mal_fabric *fabric;
  struct mal_row_model *models; /* parsed once each */
  int n_nodes, n_gpus, n_profiles, n_models;
} mal_rows;

/* One row per trial, in order. Fails only when the catalogue is broken; a row that cannot be planned says why. */
mal_status mal_rows_make(mal_arena *a, const mal_trials *trials, mal_rows *rows, mal_error *e);
#endif
