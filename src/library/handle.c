#include "library/handle.h"
#include <assert.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(malha_error) == sizeof(mal_error) && (int)MALHA_NO == (int)MAL_NO &&
                  (int)MALHA_BAD == (int)MAL_BAD && (int)MALHA_FAULT == (int)MAL_FAULT,
              "the library's errors are those of the command");

/* --- guard -------------------------------------------------------------------------------------------------------- */

static _Thread_local jmp_buf *guard;

static void out_of_memory(size_t bytes) {
  (void)bytes;
  if (guard) longjmp(*guard, 1);
  abort(); /* in a thread of the library's own */
}

static void set_handler(void) { mal_on_out_of_memory(out_of_memory); }

malha_status mal_guarded(mal_guarded_body *body, void *arguments, malha_error *error) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  jmp_buf here, *const outer = guard;
  mal_error e = {0};
  mal_status status;
  pthread_once(&once, set_handler);
  if (setjmp(here) == 0) {
    guard = &here;
    status = body(arguments, &e);
  } else {
    status = mal_fail(&e, MAL_FAULT, "out of memory");
  }
  guard = outer;
  if (error && status) memcpy(error, &e, sizeof e), error->status = (malha_status)status;
  return (malha_status)status;
}

const char *malha_version(void) { return MALHA_VERSION; }

char *mal_shell_word(mal_arena *a, const char *word) {
  char *argv[] = {(char *)word};
  return mal_report_command(a, 1, argv) + strlen("malha ");
}

/* --- model and machine -------------------------------------------------------------------------------------------- */

typedef struct load {
  const char *name;
  malha_model *model;
  malha_machine *machine;
} load;

static mal_status load_model(void *arguments, mal_error *e) {
  const load *l = arguments;
  if (!l->name) return mal_fail(e, MAL_BAD, _("no model was named"));
  l->model->name = mal_copy(&l->model->arena, l->name);
  return mal_model_load(&l->model->arena, l->name, &l->model->model, e);
}

static mal_status load_machine(void *arguments, mal_error *e) {
  const load *l = arguments;
  if (!l->name) return mal_fail(e, MAL_BAD, _("no machine was named"));
  l->machine->name = mal_copy(&l->machine->arena, l->name);
  return mal_machine_load(&l->machine->arena, l->name, &l->machine->machine, e);
}

static malha_status no_memory(malha_error *error) {
  mal_fail((mal_error *)error, MAL_FAULT, "out of memory");
  return MALHA_FAULT;
}

malha_status malha_model_load(const char *name, malha_model **model, malha_error *error) {
  load l = {.name = name, .model = calloc(1, sizeof(malha_model))};
  *model = NULL;
  if (!l.model) return no_memory(error);
  mal_arena_init(&l.model->arena);
  l.model->uses = 1;
  malha_status status = mal_guarded(load_model, &l, error);
  if (status)
    malha_model_free(l.model);
  else
    *model = l.model;
  return status;
}

double malha_model_parameters(const malha_model *model) { return (double)model->model.parameters; }

void malha_model_free(malha_model *model) {
  if (!model || atomic_fetch_sub(&model->uses, 1) > 1) return;
  mal_arena_free(&model->arena);
  free(model);
}

malha_status malha_machine_load(const char *name, malha_machine **machine, malha_error *error) {
  load l = {.name = name, .machine = calloc(1, sizeof(malha_machine))};
  *machine = NULL;
  if (!l.machine) return no_memory(error);
  mal_arena_init(&l.machine->arena);
  l.machine->uses = 1;
  malha_status status = mal_guarded(load_machine, &l, error);
  if (status)
    malha_machine_free(l.machine);
  else
    *machine = l.machine;
  return status;
}

int64_t malha_machine_gpus(const malha_machine *machine) { return mal_machine_gpus(&machine->machine); }

void malha_machine_free(malha_machine *machine) {
  if (!machine || atomic_fetch_sub(&machine->uses, 1) > 1) return;
  mal_arena_free(&machine->arena);
  free(machine);
}

/* --- job ---------------------------------------------------------------------------------------------------------- */

malha_job *malha_job_new(void) {
  malha_job *job = calloc(1, sizeof *job);
  if (!job) return NULL;
  mal_arena_init(&job->arena);
  mal_job_default(&job->job);
  job->flags = "";
  return job;
}

typedef struct setting {
  malha_job *job;
  const char *name, *value;
} setting;

static mal_status set_option(void *arguments, mal_error *e) {
  const setting *s = arguments;
  if (!s->job || !s->name || !s->value) return mal_fail(e, MAL_BAD, _("a job, a name and a value are needed"));
  mal_arena *a = &s->job->arena;
  mal_job job = s->job->job; /* whole or not at all */
  mal_status status =
      mal_option_set(mal_job_options, (size_t)mal_job_option_count, s->name, mal_copy(a, s->value), &job, e);
  if (status) return status;
  s->job->job = job;
  s->job->flags = mal_print(a, "%s --%s %s", s->job->flags, s->name, mal_shell_word(a, s->value));
  return MAL_OK;
}

malha_status malha_job_set(malha_job *job, const char *name, const char *value, malha_error *error) {
  return mal_guarded(set_option, &(setting){job, name, value}, error);
}

static mal_status read_job(void *arguments, mal_error *e) {
  const setting *s = arguments;
  if (!s->job || !s->value) return mal_fail(e, MAL_BAD, _("a job and a path are needed"));
  mal_arena *a = &s->job->arena;
  mal_job job = s->job->job;
  mal_status status = mal_job_read(a, s->value, &job, e);
  if (status) return status;
  s->job->job = job;
  s->job->flags = mal_print(a, "%s --job %s", s->job->flags, mal_shell_word(a, s->value));
  return MAL_OK;
}

malha_status malha_job_read(malha_job *job, const char *path, malha_error *error) {
  return mal_guarded(read_job, &(setting){job, NULL, path}, error);
}

void malha_job_free(malha_job *job) {
  if (!job) return;
  mal_arena_free(&job->arena);
  free(job);
}
