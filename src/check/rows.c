#include "check/rows.h"
#include "check/row_fill.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct mal_row_model {
  const char *spec;
  mal_model model;
};

/* --- catalogue entries, loaded once ------------------------------------------------------------------------------ */

static mal_status get_node(mal_rows *rows, const char *name, mal_node **node, mal_error *e) {
  for (int i = 0; i < rows->n_nodes; i++)
    if (!strcmp(rows->nodes[i]->name, name)) {
      *node = rows->nodes[i];
      return MAL_OK;
    }
  if (rows->n_nodes == MAL_ROWS_CACHE) return mal_fail(e, MAL_BAD, _("more than %d nodes"), MAL_ROWS_CACHE);
  mal_status s = mal_node_load(rows->arena, name, node, e);
  if (s == MAL_OK) rows->nodes[rows->n_nodes++] = *node;
  return s;
}

static mal_status get_gpu(mal_rows *rows, const char *name, mal_gpu **gpu, mal_error *e) {
  for (int i = 0; i < rows->n_gpus; i++)
    if (!strcmp(rows->gpus[i]->name, name)) {
      *gpu = rows->gpus[i];
      return MAL_OK;
    }
  if (rows->n_gpus == MAL_ROWS_CACHE) return mal_fail(e, MAL_BAD, _("more than %d GPUs"), MAL_ROWS_CACHE);
  mal_status s = mal_gpu_load(rows->arena, name, gpu, e);
  for (int i = 0; s == MAL_OK && i < rows->n_gpus; i++)
    if (!strcmp(rows->gpus[i]->name, (*gpu)->name)) { /* the name was an alias */
      *gpu = rows->gpus[i];
      return MAL_OK;
    }
  if (s == MAL_OK) rows->gpus[rows->n_gpus++] = *gpu;
  return s;
}

static mal_status get_profile(mal_rows *rows, const char *name, mal_profile **profile, mal_error *e) {
  for (int i = 0; i < rows->n_profiles; i++)
    if (!strcmp(rows->profiles[i]->name, name)) {
      *profile = rows->profiles[i];
      return MAL_OK;
    }
  if (rows->n_profiles == MAL_ROWS_CACHE) return mal_fail(e, MAL_BAD, _("more than %d profiles"), MAL_ROWS_CACHE);
  mal_status s = mal_profile_load(rows->arena, name, profile, e);
  if (s == MAL_OK) rows->profiles[rows->n_profiles++] = *profile;
  return s;
}

/* The profile with the switches of the row's recipe, made once. */
static mal_status get_switched(mal_rows *rows, const mal_row *row, const char *base, mal_profile **profile,
                               mal_error *e) {
  char *name, *text = mal_row_switches(rows->arena, row, base, &name);
  for (int i = 0; text && i < rows->n_profiles; i++)
    if (!strcmp(rows->profiles[i]->name, name)) text = NULL;
  if (!text) return get_profile(rows, name, profile, e);
  if (rows->n_profiles == MAL_ROWS_CACHE) return mal_fail(e, MAL_BAD, _("more than %d profiles"), MAL_ROWS_CACHE);
  mal_status s = mal_profile_parse(rows->arena, name, text, strlen(text), profile, e);
  if (s == MAL_OK) rows->profiles[rows->n_profiles++] = *profile;
  return s;
}

static mal_status get_model(mal_rows *rows, mal_row *row, mal_model *model, mal_error *e) {
  for (int i = 0; i < rows->n_models; i++)
    if (!strcmp(rows->models[i].spec, row->model_spec)) {
      *model = rows->models[i].model;
      return MAL_OK;
    }
  mal_status s = mal_row_load_model(rows->arena, row, model, e);
  if (s != MAL_OK) return s;
  rows->models =
      mal_grow(rows->arena, rows->models, (size_t)rows->n_models, (size_t)rows->n_models + 1, sizeof *rows->models);
  rows->models[rows->n_models].spec = row->model_spec;
  rows->models[rows->n_models++].model = *model;
  return MAL_OK;
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

static mal_status make_machine(mal_rows *rows, mal_filled *f, mal_machine *m, mal_error *e) {
  const mal_trial *t = f->row->trial;
  const mal_published_gpu *known = mal_published_gpu_of(&rows->defaults, t->gpu);
  mal_node *node;
  mal_gpu *gpu;
  mal_status s = get_gpu(rows, known ? known->catalog : t->gpu, &gpu, e);
  if (s == MAL_OK) s = get_node(rows, known ? known->node : gpu->default_node, &node, e);
  if (s != MAL_OK) return s;
  int64_t per_node = t->gpus_per_node > 0 ? t->gpus_per_node : node->gpus;
  if (per_node > node->gpus) per_node = node->gpus;
  if (t->gpus_per_node <= 0) mal_filled_note(f, "gpus-per-node=%lld", (long long)per_node);
  if (t->gpus % per_node) per_node = t->gpus < per_node ? t->gpus : common_divisor(t->gpus, per_node);
  double speed;
  if (*t->internode && t->gpus > per_node && mal_internode_speed(t->internode, per_node, &speed)) {
    mal_node *copy = MAL_NEW(rows->arena, mal_node);
    *copy = *node;
    copy->nic_bytes_per_s.value = speed / (copy->nics.value > 0 ? copy->nics.value : 1);
    copy->nic_bytes_per_s.source = (char *)"the run's own column internode";
    if (copy->nics.value <= 0) copy->nics.value = 1;
    node = copy;
  } else if (t->gpus > per_node) {
    long long nics, gigabits;
    if (sscanf(f->row->framework->nics, "%lldx%lld", &nics, &gigabits) == 2) {
      mal_node *copy = MAL_NEW(rows->arena, mal_node);
      *copy = *node;
      copy->nics.value = (double)nics;
      copy->nic_bytes_per_s.value = (double)gigabits * 1e9 / 8;
      copy->nic_bytes_per_s.source = (char *)"the framework's default";
      node = copy;
    }
    mal_filled_note(f, "nics=%.0fx%.0fGb/s", node->nics.value, node->nic_bytes_per_s.value * 8e-9);
  }
  m->name = mal_print(rows->arena, "%lldx%lldx%s", (long long)(t->gpus / per_node), (long long)per_node, gpu->name);
  m->gpu = gpu;
  m->node = node;
  m->fabric = rows->fabric;
  m->nodes = t->gpus / per_node;
  m->gpus_per_node = per_node;
  m->unverified = 0;
  return MAL_OK;
}

/* --- one row ------------------------------------------------------------------------------------------------------ */

/* What the row must print: GPU, count, sizes, sequence, batch. Speed is asked by validate, memory may stand alone. */
static const char *missing(mal_arena *a, const mal_trial *t) {
  if (t->unreadable) return mal_print(a, _("%s is no number or out of range"), t->unreadable);
  if (!*t->gpu) return _("no GPU");
  if (t->gpus < 1) return _("no GPU count");
  if (t->hidden < 1 || (t->layers < 1 && !(t->params > 0))) return _("no model sizes");
  if (t->seq < 1) return _("no sequence length");
  if (t->global_batch < 1) return _("no batch");
  return NULL;
}

static mal_status make_plan(mal_rows *rows, mal_filled *f, mal_plan *p, mal_error *e) {
  mal_row *row = f->row;
  mal_status s = make_machine(rows, f, &p->machine, e);
  if (s == MAL_OK) s = mal_fill_model(rows->arena, f, e);
  if (s == MAL_OK) s = get_model(rows, row, &p->model, e);
  if (s == MAL_OK) s = mal_fill_layout(rows->arena, f, &p->model, &p->machine, &p->job, &p->layout, e);
  if (s != MAL_OK) return s;
  const char *profile = row->framework->profile;
  if (!*profile) profile = mal_profile_default(p->layout.tp, p->layout.pp, p->layout.ep);
  s = get_switched(rows, row, profile, &p->profile, e);
  if (s != MAL_OK) return s;
  p->model_spec = row->model_spec;
  p->machine_spec = p->machine.name;
  p->profile_spec = p->profile->name;
  return mal_layout_complete(rows->arena, &p->model, &p->machine, p->profile, &p->job, &p->layout, &p->arithmetic, e);
}

static mal_memory_kind memory_kind(const char *notes, const char *framework) {
  if (strcasestr(notes, "nvidia-smi")) return MAL_MEMORY_ALL;
  if (strcasestr(notes, "allocated, not reserved") || strcasestr(notes, "max_memory_allocated") ||
      strcasestr(notes, "Peak Memory Active"))
    return MAL_MEMORY_ALLOCATED;
  if (!strcmp(framework, "nvidia-smi")) return MAL_MEMORY_ALL;
  return !strcmp(framework, "allocated") ? MAL_MEMORY_ALLOCATED : MAL_MEMORY_RESERVED;
}

static void make_row(mal_rows *rows, const mal_trial *t, mal_row *row) {
  mal_error e = {0};
  mal_filled f = {.arena = rows->arena, .row = row};
  row->trial = t;
  row->defaults = "";
  row->framework = mal_framework_of(&rows->defaults, t);
  row->recipe = mal_recipe_of(&rows->defaults, t);
  if (!row->recipe) row->similar = mal_recipe_like(&rows->defaults, t);
  row->family = *t->family ? t->family : *t->framework ? t->framework : "unnamed";
  row->memory_kind = memory_kind(t->notes, row->framework->memory);
  row->memory_scale = strcmp(row->framework->memory_unit, "GB") ? 1 : 1e9 / (1 << 30);
  row->skipped = missing(rows->arena, t);
  if (row->skipped) return;
  mal_plan *plan = MAL_NEW(rows->arena, mal_plan);
  if (make_plan(rows, &f, plan, &e) != MAL_OK) {
    row->skipped = mal_copy(rows->arena, *e.text ? e.text : _("cannot be planned"));
    return;
  }
  row->plan = plan;
  if (f.notes) row->defaults = f.notes;
}

mal_status mal_rows_make(mal_arena *a, const mal_trials *trials, mal_rows *rows, mal_error *e) {
  memset(rows, 0, sizeof *rows);
  rows->arena = a;
  mal_status s = mal_defaults_load(a, &rows->defaults, e);
  if (s == MAL_OK) s = mal_fabric_load(a, NULL, &rows->fabric, e);
  if (s != MAL_OK) return s;
  rows->count = trials->count;
  rows->rows = MAL_ARRAY(a, mal_row, trials->count > 0 ? trials->count : 1);
  for (int i = 0; i < trials->count; i++) {
    make_row(rows, &trials->rows[i], &rows->rows[i]);
    rows->skipped += rows->rows[i].skipped != NULL;
  }
  return MAL_OK;
}
