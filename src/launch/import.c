#include "launch/import.h"
#include "core/file.h"
#include "launch/keyed.h"
#include "launch/megatron.h"
#include "launch/script.h"
#include <stdlib.h>
#include <string.h>

typedef long long ll;

typedef struct source { /* settings of one framework */
  const char *file;
  const mal_keyed *framework; /* NULL: Megatron-LM, options of a command */
  mal_settings settings;
} source;

typedef struct reading {
  mal_arena *a;
  const mal_import_ask *ask;
  mal_imported *out;
  mal_error *e;
  source *sources;
  int n_sources, room; /* room: of what is kept */
  bool full;
} reading;

static void keep(reading *r, const char *target, const mal_setting *s) {
  mal_imported *out = r->out;
  if (out->n_kept >= MAL_KEPT_MOST) {
    if (!r->full)
      mal_note_add(r->a, &out->notes, s->file, s->line, _("more than %d settings to keep: the rest is lost."),
                   MAL_KEPT_MOST);
    r->full = true;
    return;
  }
  if (out->n_kept == r->room) {
    size_t room = r->room ? 2 * (size_t)r->room : 64;
    out->kept = mal_grow(r->a, out->kept, (size_t)r->room, room, sizeof *out->kept);
    out->from = mal_grow(r->a, out->from, (size_t)r->room, room, sizeof *out->from);
    r->room = (int)room;
  }
  out->from[out->n_kept] = (mal_note){s->file, s->line, NULL};
  out->kept[out->n_kept++] = (mal_kept){target, s->key, s->values, s->n_values};
}

static source *add_source(reading *r, const char *file, const mal_keyed *f) {
  source *s = &r->sources[r->n_sources++];
  *s = (source){file, f, {.arena = r->a}};
  return s;
}

/* Values of files of keys are kept as JSON, so that "8" and 8 stay two things. */
static const mal_setting *as_kept(reading *r, const mal_setting *s) {
  mal_setting *copy = MAL_NEW(r->a, mal_setting);
  const char **values = MAL_NEW(r->a, const char *);
  *copy = *s;
  *values = mal_config_json(r->a, s);
  copy->values = values;
  copy->n_values = 1;
  return copy;
}

static void understood(reading *r, const source *from) {
  mal_imported *out = r->out;
  const mal_keyed *f = from->framework;
  const mal_settings *s = &from->settings;
  mal_understood u = {.file = from->file, .what = f ? f->title : "Megatron-LM"};
  for (int i = 0; i < s->count; i++) {
    u.options++;
    if (s->all[i].taken) continue;
    u.kept++;
    keep(r, f ? f->name : "megatron", f ? as_kept(r, &s->all[i]) : &s->all[i]);
  }
  out->files = mal_grow(r->a, out->files, (size_t)out->n_files, (size_t)out->n_files + 1, sizeof *out->files);
  out->files[out->n_files++] = u;
}

/* --- how many ranks ----------------------------------------------------------------------------------------------------- */

static int64_t count_of(const mal_settings *s, const char *const *names) {
  for (; *names; names++) {
    const char *text = mal_setting_value(mal_setting_find(s, *names));
    if (!text) continue;
    const char *digits = strrchr(text, ':'); /* gpu:h100:8 */
    digits = digits ? digits + 1 : text;
    char *end;
    long long n = strtoll(digits, &end, 10);
    if (end != digits && !*end && n > 0 && n < (1 << 24)) return n;
  }
  return 0;
}

static void read_ranks(reading *r, const mal_settings *s) {
  static const char *const nodes[] = {"--nnodes", "--nodes", "-N", "--num-nodes", "--num-machines", NULL};
  static const char *const gpus[] = {"--nproc-per-node", "--gpus-per-node",   "--gres",
                                     "--num-gpus",       "--ntasks-per-node", NULL};
  int64_t n = count_of(s, nodes), g = count_of(s, gpus);
  if (n) r->out->nodes = n;
  if (g) r->out->gpus = g;
}

/* Options of the launcher stand before the program, those of the program behind it. */
static int program_at(const mal_words *w) {
  for (int i = 0; i < w->count; i++) {
    size_t n = strlen(w->word[i]);
    if (n > 3 && strcmp(w->word[i] + n - 3, ".py") == 0) return i;
  }
  for (int i = 0; i < w->count; i++) /* -m package.module */
    if (strcmp(w->word[i], "-m") == 0 && i + 1 < w->count) return i + 1;
  return -1;
}

static mal_words part(const mal_words *w, int from, int to) {
  mal_words p = *w;
  p.word += from;
  p.count = to - from;
  return p;
}

/* The last of the commands that have most options of Megatron-LM. */
static const mal_words *best_command(reading *r, const mal_script *script, const mal_words *commands, int count,
                                     int *marks) {
  const mal_words *best = NULL;
  for (int i = 0; i < count; i++) {
    mal_settings s = {.arena = r->a};
    mal_script_options(script, &commands[i], &s);
    int n = mal_megatron_marks(&s);
    if (n < *marks || n < 1) continue;
    *marks = n;
    best = &commands[i];
  }
  return best;
}

/* Of what is not known, what stands in an option that is kept. */
static void say_open(reading *r, const mal_script *script, const mal_settings *s) {
  for (int i = 0; i < script->open.count; i++) {
    const mal_note *n = &script->open.all[i];
    const char *mark = mal_print(r->a, "${LINE_%d}", n->line);
    bool used = false;
    for (int k = 0; k < s->count; k++)
      for (int v = 0; v < s->all[k].n_values; v++) used = used || strstr(s->all[k].values[v], mark);
    if (used) mal_note_add(r->a, &r->out->notes, n->file, n->line, "%s", n->text);
  }
}

static mal_status read_script(reading *r, const char *file, const char *text, size_t length) {
  mal_script script;
  mal_status status = mal_script_parse(r->a, file, text, length, r->ask->given, &script, r->e);
  if (status != MAL_OK) return status;
  int marks = 0;
  const mal_words *w = best_command(r, &script, script.commands, script.n_commands, &marks);
  if (marks < 2) w = best_command(r, &script, script.held, script.n_held, &marks);
  read_ranks(r, &script.directives);
  for (int i = 0; i < script.exported.count; i++) {
    mal_settings *env = &r->out->environment;
    *mal_setting_add(env, script.exported.all[i].key, file, 0) = script.exported.all[i];
  }
  for (int i = 0; i < script.notes.count; i++) {
    const mal_note *n = &script.notes.all[i];
    mal_note_add(r->a, &r->out->notes, n->file, n->line, "%s", n->text);
  }
  if (marks < 2 && !script.directives.count && !script.exported.count)
    return mal_fail(r->e, MAL_BAD,
                    _("%s: no settings that are known: no command with options of Megatron-LM, no #SBATCH, no exported "
                      "variable."),
                    file);
  if (marks < 2) return MAL_OK;
  int at = program_at(w);
  mal_settings launcher = {.arena = r->a};
  mal_words before = part(w, 0, at < 0 ? 0 : at), behind = part(w, at < 0 ? 0 : at, w->count);
  mal_script_options(&script, &before, &launcher);
  read_ranks(r, &launcher);
  source *own = add_source(r, file, NULL);
  mal_script_options(&script, &behind, &own->settings);
  say_open(r, &script, &own->settings);
  return MAL_OK;
}

/* --- files of keys ------------------------------------------------------------------------------------------------------- */

static mal_status read_config(reading *r, const char *file, const char *text, size_t length, mal_syntax syntax) {
  mal_settings s = {.arena = r->a};
  int64_t nodes = 1, ranks = 0;
  bool found, known;
  mal_status status = mal_config_read(r->a, file, text, length, syntax, &s, r->e);
  if (status != MAL_OK) return status;
  const mal_keyed *f = mal_keyed_of(&s);
  if (!f)
    return mal_fail(r->e, MAL_BAD,
                    _("%s: no settings that are known: DeepSpeed's, Accelerate's and torchtitan's files are read."),
                    file);
  source *own = add_source(r, file, f);
  own->settings = s;
  mal_bridge b = {.a = r->a, .settings = &s};
  status = mal_key_number(&b, "num_machines", &nodes, &found, r->e);
  if (status == MAL_OK) status = mal_key_number(&b, "num_processes", &ranks, &known, r->e);
  if (status == MAL_OK && known && nodes > 0 && ranks > 0 && ranks % nodes == 0) {
    r->out->nodes = nodes;
    r->out->gpus = ranks / nodes;
  }
  return status;
}

/* --- the machine -------------------------------------------------------------------------------------------------------- */

static mal_status settle_machine(reading *r) {
  mal_imported *out = r->out;
  mal_machine m;
  ll nodes = out->nodes ? out->nodes : 1, gpus = out->gpus;
  if (!r->ask->on && gpus && gpus <= 64)
    return mal_fail(r->e, MAL_BAD,
                    _("On which machine? The files start %lld ranks on each of %lld nodes. Add --on, as --on "
                      "%lldx%lldxh100-sxm (malha machines lists what there is)."),
                    gpus, nodes, nodes, gpus);
  if (!r->ask->on)
    return mal_fail(r->e, MAL_BAD, _("On which machine? Add --on 8xh100-sxm (malha machines lists what there is)."));
  mal_status s = mal_machine_load(r->a, r->ask->on, &m, r->e);
  if (s != MAL_OK) return s;
  out->machine = r->ask->on;
  if (m.nodes == 1 && nodes > 1 && (!gpus || gpus == m.gpus_per_node) && !mal_is_file(r->ask->on)) {
    const char *more = mal_print(r->a, "%lldx%s", nodes, r->ask->on);
    mal_error ignored;
    if (mal_machine_load(r->a, more, &m, &ignored) == MAL_OK) out->machine = more;
  }
  if (out->gpus && mal_machine_gpus(&m) != nodes * gpus)
    mal_note_add(r->a, &out->notes, NULL, 0,
                 _("the files start %lld × %lld ranks, and %s has %lld × %lld GPUs: these are what is planned for."),
                 nodes, gpus, out->machine, (ll)m.nodes, (ll)m.gpus_per_node);
  out->nodes = m.nodes;
  out->gpus = m.gpus_per_node;
  return MAL_OK;
}

/* One after the other into one job and layout: what a later one says wins. */
static mal_status read_sources(reading *r) {
  mal_imported *out = r->out;
  mal_bridge b = {.a = r->a, .nodes = out->nodes, .gpus = out->gpus, .model = r->ask->model};
  mal_status s = MAL_OK;
  mal_job_default(&b.job);
  mal_layout_default(&b.layout);
  for (int i = 0; i < r->n_sources && s == MAL_OK; i++) {
    source *from = &r->sources[i];
    b.settings = &from->settings;
    b.target = from->framework ? from->framework->title : "Megatron-LM";
    s = from->framework ? from->framework->read(&b, r->e) : mal_megatron_read(&b, r->e);
    if (s == MAL_OK && !from->framework) s = mal_megatron_read_model(&b, r->ask->model, r->e);
    if (s == MAL_OK) understood(r, from);
  }
  out->job = b.job;
  out->layout = b.layout;
  out->profile = b.profile;
  out->model = r->ask->model ? r->ask->model : b.model;
  for (int i = 0; i < b.notes.count; i++) mal_note_add(r->a, &out->notes, NULL, 0, "%s", b.notes.all[i].text);
  return s;
}

/* What our own scripts export for the framework is theirs to say again. */
static void read_environment(reading *r) {
  mal_settings *env = &r->out->environment;
  for (int i = 0; i < env->count; i++) {
    const char *value = mal_setting_value(&env->all[i]);
    bool own = strcmp(env->all[i].key, "CUDA_DEVICE_MAX_CONNECTIONS") == 0 && value && strcmp(value, "1") == 0;
    if (!own) keep(r, "environment", &env->all[i]);
  }
}

mal_status mal_import_texts(mal_arena *a, const mal_import_ask *ask, const char *const *texts, const size_t *lengths,
                            mal_imported *out, mal_error *e) {
  *out = (mal_imported){.environment = {.arena = a}};
  reading r = {.a = a, .ask = ask, .out = out, .e = e, .sources = MAL_ARRAY(a, source, ask->n_files + 1)};
  mal_job_default(&out->job);
  mal_layout_default(&out->layout);
  mal_status s = MAL_OK;
  for (int i = 0; i < ask->n_files && s == MAL_OK; i++) {
    if (!mal_utf8_valid(texts[i], lengths[i], NULL) || memchr(texts[i], 0, lengths[i]))
      s = mal_fail(e, MAL_BAD, _("%s: is not a text."), ask->files[i]);
    mal_syntax syntax;
    if (s == MAL_OK)
      s = mal_config_syntax(ask->files[i], &syntax) ? read_config(&r, ask->files[i], texts[i], lengths[i], syntax)
                                                    : read_script(&r, ask->files[i], texts[i], lengths[i]);
  }
  if (s == MAL_OK && !r.n_sources)
    s = mal_fail(
        e, MAL_BAD,
        _("None of the files holds the settings of a framework: a command of Megatron-LM, or a file of DeepSpeed, "
          "Accelerate or torchtitan is wanted."));
  if (s == MAL_OK) s = settle_machine(&r);
  if (s == MAL_OK) s = read_sources(&r);
  if (s == MAL_OK && !out->model)
    s = mal_fail(e, MAL_BAD, _("Which model? The files do not say. Add --model (malha models lists what there is)."));
  if (s == MAL_OK) read_environment(&r);
  return s;
}

mal_status mal_import_read(mal_arena *a, const mal_import_ask *ask, mal_imported *out, mal_error *e) {
  char **texts = MAL_ARRAY(a, char *, ask->n_files + 1);
  size_t *lengths = MAL_ARRAY(a, size_t, ask->n_files + 1);
  mal_status s =
      ask->n_files
          ? MAL_OK
          : mal_fail(e, MAL_BAD, _("Which files? Give scripts or settings: malha import run.sh --on 8xh100-sxm"));
  for (int i = 0; i < ask->n_files && s == MAL_OK; i++)
    s = mal_file_read(a, ask->files[i], MAL_SCRIPT_LIMIT_BYTES, &texts[i], &lengths[i], e);
  return s == MAL_OK ? mal_import_texts(a, ask, (const char *const *)texts, lengths, out, e) : s;
}
