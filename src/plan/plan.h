/* plan.json: model + machine + job + layout + profile in one file that every verb takes and `plan -o` writes. */
#ifndef MAL_PLAN_PLAN_H
#define MAL_PLAN_PLAN_H
#include "layout/layout.h"

/* A setting of a framework that no option of ours stands for: kept with the plan, so that it is there again when the plan is
 * written out for that framework. target "megatron", key "--lr", values {"3e-4"}; ${NAME} in a value: known when the job runs. */
typedef struct mal_kept {
  const char *target, *key;
  const char *const *values;
  int n_values;
} mal_kept;
enum { MAL_KEPT_MOST = 4096 };

typedef struct mal_plan {
  mal_model model;
  mal_machine machine;
  mal_job job;
  mal_layout layout;
  mal_profile *profile;                                 /* with the job's types of gradients and master weights */
  mal_profile *framework;                               /* as the catalogue has it */
  const char *model_spec, *machine_spec, *profile_spec; /* as the user gave them; "" profile: the default was taken */
  mal_job asked_job;                                    /* before anything was derived */
  mal_layout asked_layout;
  char *arithmetic; /* "1024 = 2 × 8 × 64": global batch = micro-batch × accumulation × dp */
  const mal_kept *kept;
  int n_kept;
} mal_plan;

enum { MAL_PLAN_VERSION = 1 };

/* Loads the three catalogues, picks the profile (profile_spec "" = default), completes the layout. */
mal_status mal_plan_make(mal_arena *a, const char *model, const char *machine, const char *profile, const mal_job *job,
                         const mal_layout *layout, mal_plan *p, mal_error *e);
/* The first half of it: model, machine and what was asked; the layout is not looked at. */
mal_status mal_plan_open(mal_arena *a, const char *model, const char *machine, const char *profile, const mal_job *job,
                         const mal_layout *layout, mal_plan *p, mal_error *e);
/* Again from asked_job and asked_layout, for the model and machine that p holds: profile, types, layout, batch. */
mal_status mal_plan_complete(mal_arena *a, mal_plan *p, mal_error *e);
/* The file holds the specs and every job and layout value by option name, and which of the values were derived. Reading
 * derives these anew, so that they follow what somebody changed in the file by hand.
 * A bare description or a built-in name is kept as given; a path to a model or machine file is kept relative to the plan. */
mal_status mal_plan_read(mal_arena *a, const char *path, mal_plan *p, mal_error *e);
mal_status mal_plan_write(mal_arena *a, const char *path, const mal_plan *p, mal_error *e);

/* A program that malha lower wrote (-o step.json) has its plan inside, and is read as that. */
/* The two halves apart. parts: what a file says, before any catalogue is opened; paths are seen from here. */
typedef struct mal_plan_parts {
  const char *model, *machine, *profile;
  mal_job job, asked_job; /* asked: without what was derived, which is derived again when something is asked anew */
  mal_layout layout, asked_layout;
  const mal_kept *kept;
  int n_kept;
} mal_plan_parts;
mal_status mal_plan_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_plan_parts *parts,
                          mal_error *e);
/* The shortest text of --layout that completes to p's layout under its profile and job: what follows from them is left out.
 * ZeRO stage and micro-batch are always said. */
char *mal_plan_layout(mal_arena *a, const mal_plan *p);
bool mal_layout_equal(const mal_layout *x, const mal_layout *y); /* in every option */

/* The text that mal_plan_write puts into `path`. */
mal_status mal_plan_show(mal_arena *a, const char *path, const mal_plan *p, char **text, mal_error *e);
#endif
