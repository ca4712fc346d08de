/* What the functions of include/malha.h share: handles with an arena of their own and counted uses; calls that come back with an error
 * where the command would end. */
#ifndef MAL_LIBRARY_HANDLE_H
#define MAL_LIBRARY_HANDLE_H
#include "report/answer.h"
#include <malha.h>
#include <stdatomic.h>

struct malha_model {
  atomic_int uses; /* the caller's, and one of each plan */
  mal_arena arena;
  mal_model model;
  const char *name;
};

struct malha_machine {
  atomic_int uses;
  mal_arena arena;
  mal_machine machine;
  const char *name;
};

struct malha_job {
  mal_arena arena;
  mal_job job;
  const char *flags; /* " --global-batch 1024 --job job.yaml": as the command takes them */
};

struct malha_plan {
  malha_model *model; /* NULL: the plan came from a file and has its own */
  malha_machine *machine;
  mal_arena arena;
  mal_answer answer;
  const char *layout, *text, *json; /* made when asked for */
};

/* Runs body(arguments). Memory that runs out inside ends it with MALHA_FAULT; what it took lies in arenas. */
typedef mal_status mal_guarded_body(void *arguments, mal_error *e);
malha_status mal_guarded(mal_guarded_body *body, void *arguments, malha_error *error);

/* Word of a POSIX shell, quoted where that is needed. */
char *mal_shell_word(mal_arena *a, const char *word);
#endif
