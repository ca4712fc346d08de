/* A plan as the files that run it: one target, one file of code, one row here. */
#ifndef MAL_LAUNCH_EXPORT_H
#define MAL_LAUNCH_EXPORT_H
#include "launch/table.h"
#include "price/price.h"

typedef struct mal_launch_file {
  const char *name; /* in the folder; no '/' */
  const char *text;
  bool runs; /* a script */
} mal_launch_file;

enum { MAL_LAUNCH_FILES = 64 };

typedef struct mal_export {
  mal_arena *a;
  const mal_plan *plan;
  const mal_program *program;
  const mal_estimate *estimate;
  const char *command; /* that wrote it; NULL: none */
  const char *hosts;   /* names of the nodes, with commas between; NULL: node1, node2, ... */
  mal_launch_file files[MAL_LAUNCH_FILES];
  int count;
  mal_notes notes;     /* what a target cannot express of the plan */
  mal_notes elsewhere; /* what is not in the files because the program that reads them has it */
} mal_export;

typedef struct mal_target {
  const char *name, *title, *version, *profile; /* profile: the framework whose numbers such files have; NULL: any */
  mal_status (*write)(mal_export *x, mal_error *e);
} mal_target;

extern const mal_target mal_targets[];
extern const int mal_target_count;
const mal_target *mal_target_named(const char *name); /* NULL: none */

/* names: targets with commas between. The first file is the one to look at. MAL_BAD: an unknown name, with the nearest. */
mal_status mal_export_make(mal_export *x, const char *names, mal_error *e);

/* For the targets: a file; its first lines, as comments behind `sign`; what the plan keeps for a target, after `taken`. */
void mal_export_file(mal_export *x, const char *name, const char *text, bool runs);
void mal_export_head(mal_export *x, mal_writing *w, const char *sign, const mal_target *t, int first_note);
void mal_export_kept(const mal_export *x, const char *target, mal_settings *into);
bool mal_export_keeps(const mal_export *x, const char *target, const char *key);
/* An array of bash, NAME=( --key value ... ), an option a line. */
void mal_export_array(mal_writing *w, const char *name, const mal_settings *s);

void mal_export_bind(mal_export *x); /* bind.sh */
/* LAUNCH=( ... ) and BIND=( ... ): torchrun's options, and the wrapper that binds a rank where it lies beside the script. */
void mal_export_torchrun_options(mal_export *x, mal_writing *w);

typedef mal_status mal_exporter(mal_export *x, mal_error *e);
mal_exporter mal_export_megatron, mal_export_torchrun, mal_export_slurm, mal_export_nccl, mal_export_nccl_tests,
    mal_export_mpi, mal_export_deepspeed, mal_export_accelerate, mal_export_torchtitan;
#endif
