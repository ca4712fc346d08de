#include "report/launch.h"
#include "core/units.h"
#include <string.h>

enum { LABEL = 10 };

/* --- export ------------------------------------------------------------------------------------------------------------- */

void mal_report_export(mal_page *p, const mal_export *x, const char *folder) {
  mal_arena *a = p->arena;
  mal_page_field(p, LABEL, _("plan"), "%s, %s, %s", x->plan->model.name, x->plan->machine.name,
                 mal_spaced(a, mal_plan_layout(a, x->plan)));
  for (int i = 0; i < x->count; i++) mal_page_field(p, LABEL, i ? "" : _("written"), "%s/%s", folder, x->files[i].name);
  for (int i = 0; i < x->notes.count; i++) mal_page_field(p, LABEL, i ? "" : _("missing"), "%s", x->notes.all[i].text);
  for (int i = 0; i < x->elsewhere.count; i++)
    mal_page_field(p, LABEL, i ? "" : _("elsewhere"), "%s", mal_spaced(a, x->elsewhere.all[i].text));
  if (x->command) mal_page_field(p, LABEL, _("again"), "%s", x->command);
}

json_t *mal_report_export_json(const mal_export *x, const char *folder) {
  json_t *root = json_object(), *files = json_array(), *notes = json_array();
  json_object_set_new(root, "version", json_integer(MAL_EXPORT_VERSION));
  json_object_set_new(root, "folder", folder ? json_string(folder) : json_null());
  for (int i = 0; i < x->count; i++) {
    json_t *one = json_object();
    json_object_set_new(one, "name", json_string(x->files[i].name));
    json_object_set_new(one, "runs", json_boolean(x->files[i].runs));
    json_object_set_new(one, "text", json_string(x->files[i].text));
    json_array_append_new(files, one);
  }
  for (int i = 0; i < x->notes.count; i++) json_array_append_new(notes, json_string(x->notes.all[i].text));
  json_object_set_new(root, "files", files);
  json_t *elsewhere = json_array();
  for (int i = 0; i < x->elsewhere.count; i++) json_array_append_new(elsewhere, json_string(x->elsewhere.all[i].text));
  json_object_set_new(root, "not_expressed", notes);
  json_object_set_new(root, "elsewhere", elsewhere);
  json_object_set_new(root, "command", x->command ? json_string(x->command) : json_null());
  return root;
}

/* --- import ------------------------------------------------------------------------------------------------------------- */

static const char *place(mal_arena *a, const mal_note *n) {
  if (!n->file) return "";
  return n->line ? mal_print(a, "%s:%d: ", n->file, n->line) : mal_print(a, "%s: ", n->file);
}

static void put_read(mal_page *p, const mal_imported *in) {
  mal_arena *a = p->arena;
  for (int i = 0; i < in->n_files; i++) {
    const mal_understood *u = &in->files[i];
    mal_page_field(p, LABEL, i ? "" : _("read"),
                   P_("%s: %s, %d option; %d kept as it is", "%s: %s, %d options; %d kept as they are", u->options),
                   u->file, u->what, u->options, u->kept);
  }
  for (int i = 0; i < in->notes.count; i++)
    mal_page_field(p, LABEL, i ? "" : _("note"), "%s%s", place(a, &in->notes.all[i]), in->notes.all[i].text);
  mal_writing kept = {.arena = a};
  for (int i = 0; i < in->n_kept; i++) {
    const mal_kept *k = &in->kept[i];
    mal_write(&kept, "%s%s", i ? ", " : "", k->key);
    for (int v = 0; v < k->n_values && v < 2; v++) mal_write(&kept, "%c%.40s", v ? ' ' : '=', k->values[v]);
  }
  if (in->n_kept) mal_page_field(p, LABEL, _("kept"), _("without a word of the plan's for it: %s"), kept.text);
  mal_page_put(p, "\n");
}

static void put_findings(mal_page *p, const mal_health *h) {
  if (!h || !h->n_findings) return;
  mal_page_styled(p, MAL_BOLD, "%s", _("\nThe environment\n"));
  for (int i = 0; i < h->n_findings; i++) {
    const mal_finding *f = &h->findings[i];
    mal_style style = f->severity == MAL_SEV_ERROR ? MAL_WRONG : f->severity == MAL_SEV_WARNING ? MAL_WARN : MAL_DIM;
    mal_page_styled(p, style, "  %s:%d", f->from.file ? f->from.file : "", f->from.line);
    mal_page_put(p, " ");
    mal_page_wrap(p, strlen(f->from.file ? f->from.file : "") + 6, 4,
                  mal_print(p->arena, "%s: %s; %s", f->what, f->cause, f->todo));
  }
}

/* "-12.3 %" */
static const char *gain(mal_arena *a, double before, double after) {
  return before > 0 ? mal_print(a, "%+.1f %%", 100 * (after / before - 1)) : "";
}

static const char *fits(mal_arena *a, const mal_estimate *e) {
  return e->fits ? mal_show_bytes((double)e->total_bytes)
                 : mal_print(a, _("%s: does not fit"), mal_show_bytes((double)e->total_bytes));
}

static void put_steps(mal_page *p, const mal_import_answer *answer) {
  mal_arena *a = p->arena;
  const mal_search_result *r = answer->search;
  const mal_estimate *now = &answer->now.estimate;
  if (!r) return;
  mal_page_styled(p, MAL_BOLD, "%s", _("\nWhat is better, change by change\n"));
  if (!r->count) {
    mal_page_put(p, "  ");
    mal_page_wrap(p, 2, 2, _("No layout fits this machine with this batch."));
    return;
  }
  if (!answer->n_steps) {
    mal_page_put(p, "  ");
    mal_page_wrap(p, 2, 2, _("Nothing: this layout is the best of all."));
    return;
  }
  mal_table t;
  mal_table_init(&t, a, 2, "rrrw");
  mal_table_row(&t, MAL_DIM, _("step"), _("gain"), _("memory"), _("change"));
  mal_table_row(&t, MAL_PLAIN, mal_show_time(now->step_s), "", fits(a, now), _("the settings as they are"));
  for (int i = 0; i < answer->n_steps; i++) {
    const mal_estimate *e = &answer->steps[i].estimate, *before = i ? &answer->steps[i - 1].estimate : now;
    mal_table_row(&t, MAL_PLAIN, mal_show_time(e->step_s), gain(a, before->step_s, e->step_s), fits(a, e),
                  answer->steps[i].change);
  }
  mal_table_put(&t, p);
  const mal_estimate *best = &answer->steps[answer->n_steps - 1].estimate;
  mal_page_field(p, LABEL, _("all"), _("%s a step instead of %s (%s): %.2f times as many tokens a second, with %s"),
                 mal_show_time(best->step_s), mal_show_time(now->step_s), gain(a, now->step_s, best->step_s),
                 now->step_s / best->step_s,
                 mal_spaced(a, mal_plan_layout(a, &answer->steps[answer->n_steps - 1].plan)));
}

void mal_report_import(mal_page *p, const mal_import_answer *a) {
  put_read(p, a->read);
  mal_report_plan(p, &a->now);
  put_findings(p, a->health);
  put_steps(p, a);
}

static json_t *place_json(const char *file, int line) {
  json_t *o = json_object();
  json_object_set_new(o, "file", file ? json_string(file) : json_null());
  json_object_set_new(o, "line", line > 0 ? json_integer(line) : json_null());
  return o;
}

static json_t *kept_json(const mal_imported *in) {
  json_t *list = json_array();
  for (int i = 0; i < in->n_kept; i++) {
    json_t *o = place_json(in->from[i].file, in->from[i].line), *values = json_array();
    json_object_set_new(o, "target", json_string(in->kept[i].target));
    json_object_set_new(o, "key", json_string(in->kept[i].key));
    for (int v = 0; v < in->kept[i].n_values; v++) json_array_append_new(values, json_string(in->kept[i].values[v]));
    json_object_set_new(o, "values", values);
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *step_json(mal_arena *a, const mal_stride *s, const mal_estimate *before) {
  json_t *o = json_object();
  json_object_set_new(o, "change", json_string(s->change));
  json_object_set_new(o, "layout", json_string(mal_plan_layout(a, &s->plan)));
  json_object_set_new(o, "step_s", json_real(s->estimate.step_s));
  json_object_set_new(o, "before_s", json_real(before->step_s));
  json_object_set_new(o, "memory_bytes", json_integer(s->estimate.total_bytes));
  json_object_set_new(o, "fits", json_boolean(s->estimate.fits));
  return o;
}

json_t *mal_report_import_json(const mal_import_answer *a) {
  json_t *root = json_object(), *notes = json_array(), *findings = json_array(), *steps = json_array();
  mal_arena scratch;
  mal_arena_init(&scratch);
  json_object_set_new(root, "version", json_integer(MAL_IMPORT_VERSION));
  for (int i = 0; i < a->read->notes.count; i++) {
    json_t *o = place_json(a->read->notes.all[i].file, a->read->notes.all[i].line);
    json_object_set_new(o, "text", json_string(a->read->notes.all[i].text));
    json_array_append_new(notes, o);
  }
  for (int i = 0; a->health && i < a->health->n_findings; i++) {
    const mal_finding *f = &a->health->findings[i];
    json_t *o = place_json(f->from.file, f->from.line);
    json_object_set_new(o, "what", json_string(f->what));
    json_object_set_new(o, "cause", json_string(f->cause));
    json_object_set_new(o, "do", json_string(f->todo));
    json_array_append_new(findings, o);
  }
  for (int i = 0; i < a->n_steps; i++)
    json_array_append_new(steps, step_json(&scratch, &a->steps[i], i ? &a->steps[i - 1].estimate : &a->now.estimate));
  json_object_set_new(root, "notes", notes);
  json_object_set_new(root, "kept", kept_json(a->read));
  json_object_set_new(root, "plan", mal_report_plan_json(&a->now, 1));
  json_object_set_new(root, "findings", findings);
  json_object_set_new(root, "steps", a->search ? steps : json_null());
  if (!a->search) json_decref(steps);
  json_object_set_new(root, "command", json_string(a->command));
  mal_arena_free(&scratch);
  return root;
}
