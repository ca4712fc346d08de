/* The search of the library: each of the best comes back as a plan of its own, as if its layout had been asked for. */
#include "search/search.h"
#include "library/handle.h"
#include <string.h>

typedef struct wanted {
  const malha_model *model;
  const malha_machine *machine;
  const malha_job *job;
  malha_search_options options;
  malha_plan **plans;
  int32_t room, found;
} wanted;

/* The plan of the machine, the model and the job, without a layout. */
static void open_plan(const wanted *w, mal_plan *p) {
  *p = (mal_plan){.model = w->model->model, .machine = w->machine->machine, .model_spec = w->model->name};
  p->machine_spec = w->machine->name;
  p->profile_spec = w->options.profile ? w->options.profile : "";
  mal_job_default(&p->asked_job);
  if (w->job) p->asked_job = w->job->job;
  mal_layout_default(&p->asked_layout);
  p->job = p->asked_job;
  p->layout = p->asked_layout;
}

/* The job as it was searched: the same but for a batch that the search chose. */
static malha_job job_of(mal_arena *a, const wanted *w, const mal_plan *p) {
  malha_job job = {.job = p->asked_job, .flags = w->job ? w->job->flags : ""};
  if (!w->job || w->job->job.global_batch != p->asked_job.global_batch)
    job.flags = mal_print(a, "%s --global-batch %lld", job.flags, (long long)p->asked_job.global_batch);
  return job;
}

static mal_status keep(mal_arena *a, wanted *w, const mal_plan *p, mal_error *e) {
  malha_job job = job_of(a, w, p);
  const char *profile = w->options.profile ? w->options.profile : p->framework->name;
  malha_status status = malha_plan_make(w->model, w->machine, &job, mal_plan_layout(a, p), profile, &w->plans[w->found],
                                        (malha_error *)e);
  w->found += status == MALHA_OK;
  return (mal_status)status;
}

static mal_status look(wanted *w, mal_arena *a, mal_error *e) {
  const malha_search_options *o = &w->options;
  mal_plan asked;
  mal_search_result r;
  if (!w->model || !w->machine || !w->plans || w->room < 1)
    return mal_fail(e, MAL_BAD, _("a model, a machine and room for at least one plan are needed"));
  if (o->objective < 0 || o->objective >= (int32_t)MAL_OBJECTIVES)
    return mal_fail(e, MAL_BAD, _("no such objective: %d"), (int)o->objective);
  if (!(o->fit_probability >= 0 && o->fit_probability < 1))
    return mal_fail(e, MAL_BAD, _("fit_probability is %g; it must lie between 0 and 1."), o->fit_probability);
  open_plan(w, &asked);
  mal_search_options options = {.keep = w->room < MAL_SEARCH_MOST ? w->room : MAL_SEARCH_MOST,
                                .objective = o->objective,
                                .threads = o->threads > 0 ? o->threads : 0,
                                .fit_probability = o->fit_probability,
                                .fix = o->fix};
  mal_status status = mal_job_check(&asked.asked_job, NULL, e);
  if (!status) status = mal_search(a, &asked, &options, &r, e);
  for (int i = 0; !status && i < r.count; i++) status = keep(a, w, &r.best[i].plan, e);
  if (!status && !r.count)
    return mal_fail(e, MAL_NO, _("no layout of %s fits %s"), asked.model_spec, asked.machine_spec);
  return status;
}

static mal_status body(void *arguments, mal_error *e) {
  mal_arena a;
  mal_arena_init(&a);
  mal_status status = look(arguments, &a, e);
  mal_arena_free(&a);
  return status;
}

malha_status malha_search(const malha_model *model, const malha_machine *machine, const malha_job *job,
                          const malha_search_options *options, malha_plan **plans, int32_t *count, malha_error *error) {
  wanted w = {.model = model, .machine = machine, .job = job, .plans = plans, .room = count ? *count : 0};
  if (options) memcpy(&w.options, options, options->size < sizeof w.options ? options->size : sizeof w.options);
  malha_status status = mal_guarded(body, &w, error);
  for (int32_t i = 0; status && i < w.found; i++) malha_plan_free(plans[i]);
  if (count) *count = status ? 0 : w.found;
  return status;
}
