/* Settings of other programs, read into what a plan is made of. */
#ifndef MAL_LAUNCH_IMPORT_H
#define MAL_LAUNCH_IMPORT_H
#include "launch/table.h"

typedef struct mal_import_ask {
  const char *const *files;
  int n_files;
  const char *const *given; /* NAME=VALUE for what scripts do not set; ends with NULL */
  const char *on, *model;   /* NULL: as the files say */
} mal_import_ask;

/* What of a file became what: for people. */
typedef struct mal_understood {
  const char *file, *what;
  int options, kept; /* read; kept without being understood */
} mal_understood;

typedef struct mal_imported {
  const char *model, *machine, *profile; /* as mal_plan_make takes them */
  mal_job job;
  mal_layout layout;
  int64_t nodes, gpus; /* that the files start; 0: they do not say */
  mal_kept *kept;      /* not understood, or for the framework alone */
  mal_note *from;      /* [n_kept]: file and line of each */
  int n_kept;
  mal_notes notes;          /* what was left out, or read with a grain of salt */
  mal_settings environment; /* exported variables */
  mal_understood *files;
  int n_files;
} mal_imported;

/* MAL_BAD: a file that is of no known kind, a wrong value (file and line), no machine or no model. */
mal_status mal_import_read(mal_arena *a, const mal_import_ask *ask, mal_imported *out, mal_error *e);
/* The same of texts that are in memory; texts[i] belongs to ask->files[i]. */
mal_status mal_import_texts(mal_arena *a, const mal_import_ask *ask, const char *const *texts, const size_t *lengths,
                            mal_imported *out, mal_error *e);
#endif
