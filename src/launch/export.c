#include "launch/export.h"
#include "core/suggest.h"
#include "launch/megatron.h"
#include "launch/script.h"
#include <string.h>

const mal_target mal_targets[] = {
    {"megatron", "Megatron-LM", MAL_MEGATRON_VERSION, "megatron", mal_export_megatron},
    {"deepspeed", "DeepSpeed", "0.19.6", "deepspeed", mal_export_deepspeed},
    {"accelerate", "Accelerate", "1.15", NULL, mal_export_accelerate},
    {"torchtitan", "torchtitan", "0.2.2", "torchtitan", mal_export_torchtitan},
    {"torchrun", "torchrun", "PyTorch 2.4 and later", NULL, mal_export_torchrun},
    {"slurm", "Slurm", "22.05 and later", NULL, mal_export_slurm},
    {"nccl", "NCCL", "2.30", NULL, mal_export_nccl},
    {"nccl-tests", "nccl-tests", "2.19.6", NULL, mal_export_nccl_tests},
    {"mpi", "Open MPI", "4.1", NULL, mal_export_mpi},
};
const int mal_target_count = sizeof mal_targets / sizeof *mal_targets;
enum { TARGETS = sizeof mal_targets / sizeof *mal_targets };

void mal_export_file(mal_export *x, const char *name, const char *text, bool runs) {
  for (int i = 0; i < x->count; i++)
    if (strcmp(x->files[i].name, name) == 0) return; /* two targets that share a file */
  if (x->count < MAL_LAUNCH_FILES) x->files[x->count++] = (mal_launch_file){name, text, runs};
}

/* A text of outside in a comment: no end of line gets in. */
static const char *one_line(mal_arena *a, const char *text) {
  char *copy = mal_copy(a, text);
  for (char *c = copy; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127) *c = ' ';
  return copy;
}

static void put_comment(mal_writing *w, const char *sign, const char *text) {
  enum { COLUMNS = 118 };
  size_t used = 0;
  for (const char *at = text; *at;) {
    size_t n = strcspn(at, " ");
    if (used && used + 1 + n > COLUMNS) {
      mal_write(w, "\n");
      used = 0;
    }
    if (!used) mal_write(w, "%s", sign);
    mal_write(w, " %.*s", (int)n, at);
    used += n + 1;
    at += n + strspn(at + n, " ");
  }
  mal_write(w, "\n");
}

void mal_export_head(mal_export *x, mal_writing *w, const char *sign, const mal_target *t, int first_note) {
  mal_arena *a = x->a;
  const mal_plan *p = x->plan;
  put_comment(w, sign,
              one_line(a, mal_print(a, "%s (%s): %s on %s, %s, %s", t->title, t->version, p->model.name,
                                    p->machine.name, mal_plan_layout(a, p), p->arithmetic)));
  if (x->command) put_comment(w, sign, one_line(a, mal_print(a, "written by: %s", x->command)));
  size_t length = t->profile ? strlen(t->profile) : 0; /* with what comes after a dash: torchtitan-eager */
  if (t->profile && (strncmp(p->profile->name, t->profile, length) != 0 ||
                     (p->profile->name[length] && p->profile->name[length] != '-')))
    mal_note_add(a, &x->notes, NULL, 0, _("the plan was priced for %s: %s spends time and memory otherwise."),
                 p->profile->title, t->title);
  for (int i = first_note; i < x->notes.count; i++)
    put_comment(w, sign, one_line(a, mal_print(a, _("not expressed: %s"), x->notes.all[i].text)));
}

bool mal_export_keeps(const mal_export *x, const char *target, const char *key) {
  for (int i = 0; i < x->plan->n_kept; i++)
    if (strcmp(x->plan->kept[i].target, target) == 0 && strcmp(x->plan->kept[i].key, key) == 0) return true;
  return false;
}

void mal_export_kept(const mal_export *x, const char *target, mal_settings *into) {
  for (int i = 0; i < x->plan->n_kept; i++) {
    const mal_kept *k = &x->plan->kept[i];
    if (strcmp(k->target, target) != 0) continue;
    mal_setting *s = mal_setting_add(into, k->key, NULL, 0);
    s->values = k->values;
    s->n_values = k->n_values;
  }
}

void mal_export_array(mal_writing *w, const char *name, const mal_settings *s) {
  mal_write(w, "%s=(\n", name);
  for (int i = 0; i < s->count; i++) {
    mal_write(w, "  %s", mal_script_word(w->arena, s->all[i].key));
    for (int v = 0; v < s->all[i].n_values; v++) mal_write(w, " %s", mal_script_word(w->arena, s->all[i].values[v]));
    if (s->all[i].why) mal_write(w, " # %s", s->all[i].why);
    mal_write(w, "\n");
  }
  mal_write(w, ")\n");
}

const mal_target *mal_target_named(const char *name) {
  for (int i = 0; i < TARGETS; i++)
    if (strcmp(mal_targets[i].name, name) == 0) return &mal_targets[i];
  return NULL;
}

static const mal_target *named(const char *name, mal_error *e) {
  const mal_target *t = mal_target_named(name);
  const char *names[TARGETS];
  char near[128];
  if (t) return t;
  for (int i = 0; i < TARGETS; i++) names[i] = mal_targets[i].name;
  mal_suggest(name, names, TARGETS, near, sizeof near);
  mal_fail(e, MAL_BAD,
           *near ? _("--for %.60s: no such target. Nearest: %s.")
                 : _("--for %.60s: no such target; malha export --help lists them.%s"),
           name, near);
  return NULL;
}

mal_status mal_export_make(mal_export *x, const char *names, mal_error *e) {
  char *rest = mal_copy(x->a, names), *name;
  mal_status s = MAL_OK;
  int done = 0;
  while (s == MAL_OK && (name = strsep(&rest, ","))) {
    name += strspn(name, " ");
    if (!*name) continue;
    const mal_target *t = named(name, e);
    if (!t) return MAL_BAD;
    s = t->write(x, e);
    done++;
  }
  if (s == MAL_OK && !done) return mal_fail(e, MAL_BAD, _("--for is empty; malha export --help lists the targets."));
  return s;
}
