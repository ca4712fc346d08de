/* Completion for bash and zsh from the verb table and the option tables. Names of the catalogue are asked for when a key is pressed:
 * malha help --names models. */
#include "cli/cli.h"
#include "core/catalog.h"
#include <string.h>

const char *const mal_shell_name[] = {"bash", "zsh", NULL};
const char *const mal_names_name[] = {"models", "machines", "profiles", NULL};

/* --- names -------------------------------------------------------------------------------------------------------- */

static mal_status put_names(mal_page *page, const char *folder, const char *ending, mal_error *e) {
  char **names;
  size_t count;
  mal_status status = mal_catalog_list(page->arena, folder, ending, &names, &count, e);
  for (size_t i = 0; !status && i < count; i++) mal_page_put(page, "%s\n", names[i]);
  return status;
}

mal_status mal_help_names(mal_page *page, int what, mal_error *e) {
  if (what == MAL_NAMES_MODELS) return put_names(page, "models", ".json", e);
  if (what == MAL_NAMES_PROFILES) return put_names(page, "profiles", ".yaml", e);
  mal_status status = put_names(page, "gpus", ".yaml", e);
  return status ? status : put_names(page, "nodes", ".yaml", e);
}

/* --- what an option takes ----------------------------------------------------------------------------------------- */

typedef enum values {
  VALUES_NONE,
  VALUES_ANY,
  VALUES_FILE,
  VALUES_CHOICE,
  VALUES_MACHINE,
  VALUES_PROFILE,
  VALUES_KEYS
} values;

static values values_of(const mal_option *o) {
  const char *metavar = o->metavar ? o->metavar : "";
  if (o->kind == MAL_OPT_FLAG) return VALUES_NONE;
  if (o->choices) return VALUES_CHOICE;
  if (!strcmp(metavar, "FILE")) return VALUES_FILE;
  if (!strcmp(metavar, "MACHINE")) return VALUES_MACHINE;
  if (!strcmp(metavar, "KEYS")) return VALUES_KEYS;
  return !strcmp(o->name, "profile") ? VALUES_PROFILE : VALUES_ANY;
}

/* Verbs whose first word is a model, else a file or nothing. */
static bool takes_model(const mal_verb *v) { return strstr(v->usage, "MODEL") != NULL; }

static void put_choices(mal_page *page, const mal_option *o) {
  for (int i = 0; o->choices[i]; i++) mal_page_put(page, "%s%s", i ? " " : "", o->choices[i]);
}

typedef void option_visit(mal_page *page, const mal_option *o);

static void each_option(mal_page *page, const mal_verb *v, option_visit *visit) {
  for (const mal_section *s = v->sections; s && s->title; s++)
    for (int i = 0; i < *s->count; i++) visit(page, &s->table[i]);
}

/* --- bash --------------------------------------------------------------------------------------------------------- */

static void bash_word(mal_page *page, const mal_option *o) { mal_page_put(page, " --%s", o->name); }

/* A branch of `case $prev`; options that take anything share the last. */
static void bash_branch(mal_page *page, const mal_option *o) {
  values kind = values_of(o);
  if (kind == VALUES_NONE) return;
  mal_page_put(page, "    --%s", o->name);
  if (o->letter) mal_page_put(page, " | -%c", o->letter);
  mal_page_put(page, ") ");
  switch (kind) {
  case VALUES_CHOICE:
    mal_page_put(page, "_malha_words '");
    put_choices(page, o);
    mal_page_put(page, "'");
    break;
  case VALUES_FILE: mal_page_put(page, "_malha_files"); break;
  case VALUES_MACHINE: mal_page_put(page, "_malha_machines"); break;
  case VALUES_PROFILE: mal_page_put(page, "_malha_names profiles"); break;
  case VALUES_KEYS: mal_page_put(page, "_malha_keys"); break;
  default: mal_page_put(page, "COMPREPLY=()"); break;
  }
  mal_page_put(page, "; return ;;\n");
}

static void bash_key(mal_page *page, const mal_option *o) {
  if (o->kind == MAL_OPT_FLAG)
    mal_page_put(page, " %s", o->name);
  else if (o->choices)
    for (int i = 0; o->choices[i]; i++) mal_page_put(page, " %s=%s", o->name, o->choices[i]);
  else
    mal_page_put(page, " %s=", o->name);
}

/* Keys of --layout: the first section that holds keys. */
static const mal_section *keys(void) {
  for (int i = 0; i < mal_verb_count; i++)
    for (const mal_section *s = mal_verbs[i].sections; s && s->title; s++)
      if (s->keys) return s;
  return NULL;
}

static const char bash_functions[] =
    "_malha_words() { COMPREPLY=($(compgen -W \"$1\" -- \"$cur\")); }\n"
    "_malha_files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\")); }\n"
    "_malha_names() { _malha_words \"$(malha help --names \"$1\" 2>/dev/null)\"; }\n"
    "# 16x8xh100-sxm, and several with commas: the name after the counts.\n"
    "_malha_machines() {\n"
    "  local before= last=$cur\n"
    "  case $cur in *,*) before=${cur%,*}, last=${cur##*,} ;; esac\n"
    "  while [[ $last =~ ^[0-9]+x(.*)$ ]]; do before=$before${last%\"${BASH_REMATCH[1]}\"}; last=${BASH_REMATCH[1]}; "
    "done\n"
    "  COMPREPLY=($(compgen -P \"$before\" -W \"$(malha help --names machines 2>/dev/null)\" -- \"$last\"))\n"
    "}\n"
    "# tp=8,pp=2: the key after the last comma.\n"
    "_malha_keys() {\n"
    "  local before= last=$cur\n"
    "  case $cur in *,*) before=${cur%,*}, last=${cur##*,} ;; esac\n"
    "  compopt -o nospace 2>/dev/null\n"
    "  COMPREPLY=($(compgen -P \"$before\" -W \"$_malha_layout\" -- \"$last\"))\n"
    "}\n";

static void bash_verb(mal_page *page, const mal_verb *v) {
  mal_page_put(page, "_malha_verb_%s() {\n  case $prev in\n", v->name);
  each_option(page, v, bash_branch);
  mal_page_put(page, "  esac\n  case $cur in\n    -*) _malha_words '");
  each_option(page, v, bash_word);
  mal_page_put(page, "' ;;\n    *) _malha_files");
  if (takes_model(v))
    mal_page_put(page, "; COMPREPLY+=($(compgen -W \"$(malha help --names models 2>/dev/null)\" -- \"$cur\"))");
  mal_page_put(page, " ;;\n  esac\n}\n");
}

static void put_bash(mal_page *page) {
  const mal_section *s = keys();
  mal_page_put(page, "# bash completion for malha. Made by: malha help --completion bash\n_malha_layout='");
  for (int i = 0; s && i < *s->count; i++) bash_key(page, &s->table[i]);
  mal_page_put(page, "'\n%s", bash_functions);
  for (int i = 0; i < mal_verb_count; i++) bash_verb(page, &mal_verbs[i]);
  mal_page_put(page, "_malha() {\n"
                     "  # words are cut at spaces only: = and : stand inside them\n"
                     "  local line=${COMP_LINE:0:COMP_POINT} cur prev verb words\n"
                     "  read -ra words <<<\"$line\"\n"
                     "  case $line in *[[:space:]]) words+=('') ;; esac\n"
                     "  local n=${#words[@]}\n"
                     "  cur=${words[n-1]} prev=${words[n-2]} verb=${words[1]}\n"
                     "  case $cur in --*=*) prev=${cur%%=*} cur=${cur#*=} ;; esac\n"
                     "  if ((n <= 2)); then _malha_words 'help --version");
  for (int i = 0; i < mal_verb_count; i++) mal_page_put(page, " %s", mal_verbs[i].name);
  mal_page_put(page, "'\n  elif [[ $verb == help ]]; then _malha_words '");
  for (int i = 0; i < mal_verb_count; i++) mal_page_put(page, " %s", mal_verbs[i].name);
  mal_page_put(page,
               "'\n  elif declare -F \"_malha_verb_$verb\" >/dev/null; then \"_malha_verb_$verb\"\n  fi\n"
               "  # readline puts the answer in place of what follows the last = or :\n"
               "  local whole=${COMP_WORDS[COMP_CWORD]} shown=$cur i\n"
               "  [[ $whole == [=:] ]] && whole=\n"
               "  local cut=$((${#shown} - ${#whole}))\n"
               "  if ((cut > 0)); then for i in \"${!COMPREPLY[@]}\"; do COMPREPLY[i]=${COMPREPLY[i]:cut}; done; fi\n"
               "}\ncomplete -F _malha malha\n");
}

/* --- zsh ---------------------------------------------------------------------------------------------------------- */

/* Inside '...[...]': what zsh or the quotes would read is left out or escaped. */
static void zsh_text(mal_page *page, const char *text) {
  for (; *text; text++) {
    if (*text == '\'')
      mal_page_put(page, "'\\''");
    else if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
      mal_page_put(page, "\\%c", *text);
    else
      mal_page_put(page, "%c", *text == '\n' ? ' ' : *text);
  }
}

static void zsh_action(mal_page *page, const mal_option *o) {
  mal_page_put(page, ":");
  zsh_text(page, o->metavar ? o->metavar : "VALUE");
  switch (values_of(o)) {
  case VALUES_CHOICE:
    mal_page_put(page, ":(");
    put_choices(page, o);
    mal_page_put(page, ")");
    break;
  case VALUES_FILE: mal_page_put(page, ":_files"); break;
  case VALUES_MACHINE: mal_page_put(page, ":_malha_machines"); break;
  case VALUES_PROFILE: mal_page_put(page, ":_malha_names profiles"); break;
  case VALUES_KEYS: mal_page_put(page, ":_malha_keys"); break;
  default: mal_page_put(page, ": "); break;
  }
}

static void zsh_option(mal_page *page, const mal_option *o) {
  char letter[3] = {'-', o->letter, 0};
  for (int form = o->letter ? 0 : 1; form < 2; form++) {
    mal_page_put(page, " \\\n    '%s%s%s[", form ? "--" : "", form ? o->name : letter,
                 o->kind == MAL_OPT_FLAG ? ""
                 : form                  ? "="
                                         : "+");
    zsh_text(page, _(o->help));
    mal_page_put(page, "]");
    if (o->kind != MAL_OPT_FLAG) zsh_action(page, o);
    mal_page_put(page, "'");
  }
}

static void zsh_key(mal_page *page, const mal_option *o) {
  mal_page_put(page, " '%s[", o->name);
  zsh_text(page, _(o->help));
  mal_page_put(page, "]");
  if (o->kind != MAL_OPT_FLAG) {
    mal_page_put(page, ":%s:", o->metavar ? o->metavar : "VALUE");
    if (o->choices) {
      mal_page_put(page, "(");
      put_choices(page, o);
      mal_page_put(page, ")");
    }
  }
  mal_page_put(page, "'");
}

static void put_zsh(mal_page *page) {
  const mal_section *s = keys();
  mal_page_put(page, "#compdef malha\n# zsh completion for malha. Made by: malha help --completion zsh\n"
                     "_malha_names() { local -a names; names=(${(f)\"$(malha help --names $1 2>/dev/null)\"}); "
                     "_describe $1 names }\n"
                     "_malha_machines() { compset -P '*,'; compset -P '([0-9]##x)##'; _malha_names machines }\n"
                     "_malha_models() { _alternative 'models:model:_malha_names models' 'files:file:_files' }\n"
                     "_malha_keys() { setopt localoptions extendedglob; _values -s , key");
  for (int i = 0; s && i < *s->count; i++) zsh_key(page, &s->table[i]);
  mal_page_put(page, " }\n");
  for (int i = 0; i < mal_verb_count; i++) {
    const mal_verb *v = &mal_verbs[i];
    mal_page_put(page, "_malha_verb_%s() {\n  _arguments -s", v->name);
    each_option(page, v, zsh_option);
    mal_page_put(page, " \\\n    '*:%s'\n}\n", takes_model(v) ? "model:_malha_models" : "file:_files");
  }
  mal_page_put(page, "_malha() {\n  setopt localoptions extendedglob\n  local -a verbs; verbs=(");
  for (int i = 0; i < mal_verb_count; i++) {
    mal_page_put(page, " '%s:", mal_verbs[i].name);
    zsh_text(page, _(mal_verbs[i].summary));
    mal_page_put(page, "'");
  }
  mal_page_put(page, ")\n  if ((CURRENT == 2)); then _describe command verbs; return; fi\n"
                     "  local verb=$words[2]\n  shift words; ((CURRENT--))\n"
                     "  (( $+functions[_malha_verb_$verb] )) && _malha_verb_$verb\n}\n_malha \"$@\"\n");
}

void mal_help_completion(mal_page *page, int shell) { (shell == MAL_SHELL_ZSH ? put_zsh : put_bash)(page); }
