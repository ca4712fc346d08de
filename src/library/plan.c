/* Plans of the library: a layout, lowered and priced, and what the command says of it. */
#include "core/json.h"
#include "library/handle.h"
#include <stdlib.h>
#include <string.h>

typedef struct request {
  malha_plan *plan;
  const malha_job *job;
  const char *layout, *profile, *path;
} request;

/* --- making ------------------------------------------------------------------------------------------------------- */

static mal_status find(malha_plan *p, mal_error *e) {
  mal_answer *a = &p->answer;
  mal_status status = mal_answer_find(&p->arena, a, false, e);
  a->asked = a->plan.machine_spec;
  if (!status) p->layout = mal_plan_layout(&p->arena, &a->plan);
  return status;
}

static const char *command_of(mal_arena *a, const mal_plan *p, const char *flags, const char *layout) {
  const char *profile = *p->profile_spec ? mal_print(a, " --profile %s", mal_shell_word(a, p->profile_spec)) : "";
  return mal_print(a, "malha plan %s --on %s%s%s --layout %s", mal_shell_word(a, p->model_spec),
                   mal_shell_word(a, p->machine_spec), profile, flags, mal_shell_word(a, layout));
}

static mal_status make(void *arguments, mal_error *e) {
  const request *r = arguments;
  malha_plan *h = r->plan;
  mal_plan *p = &h->answer.plan;
  mal_arena *a = &h->arena;
  if (!h->model || !h->machine || !r->layout)
    return mal_fail(e, MAL_BAD, _("a model, a machine and a layout are needed"));
  mal_job_default(&p->asked_job);
  if (r->job) p->asked_job = r->job->job;
  mal_status status = mal_job_check(&p->asked_job, NULL, e);
  if (status) return status;
  p->model = h->model->model;
  p->machine = h->machine->machine;
  p->model_spec = mal_copy(a, h->model->name);
  p->machine_spec = mal_copy(a, h->machine->name);
  p->profile_spec = mal_copy(a, r->profile ? r->profile : "");
  mal_layout_default(&p->asked_layout);
  const char *layout = mal_copy(a, r->layout);
  status = mal_layout_parse(a, layout, &p->asked_layout, e);
  if (!status) status = mal_plan_complete(a, p, e);
  if (status) return status;
  h->answer.command = command_of(a, p, r->job ? r->job->flags : "", layout);
  return find(h, e);
}

static mal_status read_plan(void *arguments, mal_error *e) {
  const request *r = arguments;
  malha_plan *h = r->plan;
  if (!r->path) return mal_fail(e, MAL_BAD, _("a path is needed"));
  mal_status status = mal_plan_read(&h->arena, r->path, &h->answer.plan, e);
  if (status) return status;
  h->answer.command = mal_print(&h->arena, "malha plan --from %s", mal_shell_word(&h->arena, r->path));
  return find(h, e);
}

static malha_status new_plan(mal_guarded_body *body, request *r, malha_model *model, malha_machine *machine,
                             malha_plan **plan, malha_error *error) {
  *plan = NULL;
  r->plan = calloc(1, sizeof *r->plan);
  if (!r->plan) {
    mal_fail((mal_error *)error, MAL_FAULT, "out of memory");
    return MALHA_FAULT;
  }
  mal_arena_init(&r->plan->arena);
  r->plan->model = model;
  r->plan->machine = machine;
  if (model) atomic_fetch_add(&model->uses, 1);
  if (machine) atomic_fetch_add(&machine->uses, 1);
  malha_status status = mal_guarded(body, r, error);
  if (status)
    malha_plan_free(r->plan);
  else
    *plan = r->plan;
  return status;
}

malha_status malha_plan_make(const malha_model *model, const malha_machine *machine, const malha_job *job,
                             const char *layout, const char *profile, malha_plan **plan, malha_error *error) {
  request r = {.job = job, .layout = layout, .profile = profile};
  return new_plan(make, &r, (malha_model *)model, (malha_machine *)machine, plan, error);
}

malha_status malha_plan_read(const char *path, malha_plan **plan, malha_error *error) {
  request r = {.path = path};
  return new_plan(read_plan, &r, NULL, NULL, plan, error);
}

static mal_status write_plan(void *arguments, mal_error *e) {
  const request *r = arguments;
  if (!r->plan || !r->path) return mal_fail(e, MAL_BAD, _("a plan and a path are needed"));
  mal_arena scratch;
  mal_arena_init(&scratch);
  mal_status status = mal_plan_write(&scratch, r->path, &r->plan->answer.plan, e);
  mal_arena_free(&scratch);
  return status;
}

malha_status malha_plan_write(const malha_plan *plan, const char *path, malha_error *error) {
  return mal_guarded(write_plan, &(request){.plan = (malha_plan *)plan, .path = path}, error);
}

void malha_plan_free(malha_plan *plan) {
  if (!plan) return;
  malha_model_free(plan->model);
  malha_machine_free(plan->machine);
  mal_arena_free(&plan->arena);
  free(plan);
}

/* --- saying ------------------------------------------------------------------------------------------------------- */

static mal_status add_remedies(malha_plan *p, mal_error *e) {
  mal_answer *a = &p->answer;
  if (mal_answer_fits(a) || a->remedies) return MAL_OK;
  return mal_price_remedies(&p->arena, &a->plan, &a->remedies, &a->n_remedies, e);
}

static mal_status say_text(void *arguments, mal_error *e) {
  malha_plan *p = arguments;
  mal_page page;
  mal_status status = add_remedies(p, e);
  if (status) return status;
  mal_page_init(&page, &p->arena, false);
  mal_report_plan(&page, &p->answer);
  p->text = page.text;
  return MAL_OK;
}

static mal_status say_json(void *arguments, mal_error *e) {
  malha_plan *p = arguments;
  mal_status status = add_remedies(p, e);
  if (status) return status;
  json_t *json = mal_report_plan_json(&p->answer, 1);
  p->json = mal_json_dump(&p->arena, json);
  json_decref(json);
  return MAL_OK;
}

const char *malha_plan_layout(const malha_plan *plan) { return plan->layout; }

const char *malha_plan_text(malha_plan *plan) {
  return plan->text || mal_guarded(say_text, plan, NULL) == MALHA_OK ? plan->text : NULL;
}

const char *malha_plan_json(malha_plan *plan) {
  return plan->json || mal_guarded(say_json, plan, NULL) == MALHA_OK ? plan->json : NULL;
}

malha_status malha_plan_estimate(const malha_plan *plan, malha_estimate *estimate) {
  const mal_estimate *e = &plan->answer.estimate;
  const malha_estimate all = {
      .size = estimate->size,
      .fits = mal_answer_fits(&plan->answer),
      .fit_probability = e->fit_probability,
      .memory_bytes = (double)e->total_bytes,
      .memory_low_bytes = e->memory_interval.low,
      .memory_high_bytes = e->memory_interval.high,
      .limit_bytes = (double)e->limit_bytes,
      .step_s = e->step_s,
      .step_low_s = e->step_interval.low,
      .step_high_s = e->step_interval.high,
      .tokens_per_s = e->tokens_per_s,
      .mfu = e->mfu,
      .hfu = e->hfu,
      .bubble_fraction = e->bubble_fraction,
      .power_w = e->power_w,
      .time_to_target_s = e->time_to_target_s,
      .goodput = e->goodput,
      .gpu_hours = e->gpu_hours,
      .energy_kwh = e->energy_kwh,
      .cost_usd = e->cost_usd,
      .usd_per_mtoken = e->usd_per_mtoken,
  };
  if (estimate->size <= sizeof estimate->size) return MALHA_BAD;
  memcpy(estimate, &all, estimate->size < sizeof all ? estimate->size : sizeof all);
  return MALHA_OK;
}
