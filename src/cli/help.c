/* The overview, --help of a verb, and the man pages: all from the verb table and the option tables. */
#include "cli/cli.h"
#include "core/suggest.h"
#include "core/utf8.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { KEY_AT = 28 };

void mal_help_overview(mal_page *page) {
  mal_page_styled(page, MAL_BOLD, "malha");
  mal_page_put(page, "%s", _(": plan the training of language models on GPU machines\n\n"));
  for (int i = 0; i < mal_verb_count; i++) {
    const mal_verb *v = &mal_verbs[i];
    mal_page_put(page, "%d. %s\n   ", i + 1, _(v->question));
    mal_page_styled(page, MAL_GOOD, "malha %s %s\n", v->name, _(v->usage));
  }
  mal_page_put(page, "%s", _("\nTry:\n"));
  mal_page_put(page, "   %s\n", "malha plan llama-3-8b --on 8xh100-sxm --layout tp=2,zero=1,micro-batch=1");
  mal_page_styled(page, MAL_DIM, "%s", _("\nmore: malha VERB --help, malha --version\n"));
}

/* --- --help of a verb --------------------------------------------------------------------------------------------- */

/* What the options part shows before the help text of a key of --layout: "tp=N". */
static const char *key_words(mal_arena *a, const mal_option *o) {
  if (o->kind == MAL_OPT_FLAG) return o->name;
  return mal_print(a, "%s=%s", o->name, o->metavar ? o->metavar : "VALUE");
}

static void put_keys(mal_page *page, const mal_section *s) {
  for (int i = 0; i < *s->count; i++) {
    const char *words = key_words(page->arena, &s->table[i]);
    mal_page_put(page, "  %-*s", KEY_AT - 2, words);
    mal_page_wrap(page, KEY_AT, KEY_AT, _(s->table[i].help));
  }
}

static void put_examples(mal_page *page, const mal_verb *verb) {
  if (!verb->examples) return;
  mal_page_styled(page, MAL_BOLD, "%s", _("\nExamples\n"));
  for (int i = 0; verb->examples[i]; i += 2) {
    mal_page_put(page, "  %s:\n      ", _(verb->examples[i]));
    mal_page_command(page, 6, 6, verb->examples[i + 1]);
  }
}

void mal_help_verb(mal_page *page, const mal_verb *verb) {
  mal_page_styled(page, MAL_BOLD, "malha %s %s\n", verb->name, _(verb->usage));
  if (verb->about) {
    mal_page_put(page, "\n");
    mal_page_wrap(page, 0, 0, _(verb->about));
  }
  for (const mal_section *s = verb->sections; s && s->title; s++) {
    mal_page_styled(page, MAL_BOLD, "\n%s\n", _(s->title));
    if (s->keys)
      put_keys(page, s);
    else
      mal_page_put(page, "%s", mal_options_help(page->arena, s->table, (size_t)*s->count));
  }
  put_examples(page, verb);
}

/* --- man pages ---------------------------------------------------------------------------------------------------- */

/* Text as roff: backslashes and hyphens escaped, a leading dot or quote guarded; an empty line starts a paragraph. */
static void put_roff(mal_page *page, const char *text) {
  bool start = true;
  for (; *text; text++) {
    if (start && (*text == '.' || *text == '\'')) mal_page_put(page, "\\&");
    start = *text == '\n';
    if (*text == '\\')
      mal_page_put(page, "\\e");
    else if (*text == '-')
      mal_page_put(page, "\\-");
    else if (start && text[1] == '\n')
      mal_page_put(page, "\n.P\n"), text++;
    else
      mal_page_put(page, "%c", *text);
  }
}

static void put_upper(mal_page *page, const char *text) {
  for (; *text; text++) mal_page_put(page, "%c", toupper((unsigned char)*text));
}

static void man_option(mal_page *page, const mal_option *o, bool key) {
  mal_page_put(page, ".TP\n");
  if (key) {
    mal_page_put(page, ".B ");
    put_roff(page, key_words(page->arena, o));
  } else {
    mal_page_put(page, "\\fB");
    if (o->letter) mal_page_put(page, "\\-%c\\fR, \\fB", o->letter);
    put_roff(page, mal_print(page->arena, "--%s", o->name));
    mal_page_put(page, "\\fR");
    if (o->kind != MAL_OPT_FLAG) {
      mal_page_put(page, " \\fI");
      put_roff(page, o->metavar ? o->metavar : "VALUE");
      mal_page_put(page, "\\fR");
    }
  }
  mal_page_put(page, "\n");
  put_roff(page, _(o->help));
  mal_page_put(page, "\n");
}

static void man_examples(mal_page *page, const mal_verb *verb) {
  if (!verb->examples) return;
  mal_page_put(page, ".SH EXAMPLES\n");
  for (int i = 0; verb->examples[i]; i += 2) {
    mal_page_put(page, ".P\n");
    put_roff(page, _(verb->examples[i]));
    mal_page_put(page, ":\n.P\n.nf\n.RS\n");
    put_roff(page, verb->examples[i + 1]);
    mal_page_put(page, "\n.RE\n.fi\n");
  }
}

static void man_verb(mal_page *page, const mal_verb *verb) {
  mal_page_put(page, ".SH NAME\nmalha\\-%s \\- ", verb->name);
  put_roff(page, _(verb->summary));
  mal_page_put(page, "\n.SH SYNOPSIS\n.B malha %s\n", verb->name);
  put_roff(page, _(verb->usage));
  mal_page_put(page, "\n.SH DESCRIPTION\n");
  put_roff(page, verb->about ? _(verb->about) : _(verb->summary));
  mal_page_put(page, "\n");
  for (const mal_section *s = verb->sections; s && s->title; s++) {
    mal_page_put(page, ".SH ");
    put_upper(page, _(s->title));
    mal_page_put(page, "\n");
    for (int i = 0; i < *s->count; i++) man_option(page, &s->table[i], s->keys);
  }
  man_examples(page, verb);
  mal_page_put(page, ".SH SEE ALSO\n.BR malha (1)\n");
}

static void man_command(mal_page *page) {
  mal_page_put(page, ".SH NAME\nmalha \\- plan the training of language models on GPU machines\n.SH SYNOPSIS\n"
                     ".B malha\n\\fIVERB\\fR [\\fIOPTION\\fR...]\n.SH VERBS\n");
  for (int i = 0; i < mal_verb_count; i++) {
    mal_page_put(page, ".TP\n.BR malha\\-%s (1)\n", mal_verbs[i].name);
    put_roff(page, _(mal_verbs[i].summary));
    mal_page_put(page, "\n");
  }
  mal_page_put(page, ".SH EXIT STATUS\n0 done; 1 the answer is no; 2 bad usage or input; 3 a fault.\n"
                     ".SH ENVIRONMENT\n.TP\n.B MALHA_CATALOG\nfolder of the catalogue\n"
                     ".TP\n.B NO_COLOR\nno colour when set\n");
}

void mal_help_man(mal_page *page, const mal_verb *verb) {
  mal_page_put(page, ".\\\" Made by: malha help --man %s\n.TH ", verb ? verb->name : "malha");
  put_upper(page, verb ? mal_print(page->arena, "malha-%s", verb->name) : "malha");
  mal_page_put(page, " 1 \"\" \"malha %s\" \"Malha\"\n", MALHA_VERSION);
  if (verb)
    man_verb(page, verb);
  else
    man_command(page);
}

/* --- the verb help ------------------------------------------------------------------------------------------------ */

typedef struct help_args {
  int completion, names;
  bool man, help;
} help_args;

static mal_status unknown_verb(const char *name, mal_error *e) {
  const char *names[16];
  char near[128];
  int n = 0;
  for (; n < mal_verb_count && n < 16; n++) names[n] = mal_verbs[n].name;
  mal_suggest(name, names, (size_t)n, near, sizeof near);
  if (*near) return mal_fail(e, MAL_BAD, _("There is no command '%s'. Nearest: %s."), name, near);
  return mal_fail(e, MAL_BAD, _("There is no command '%s'. Run malha alone for those there are."), name);
}

static mal_status help(mal_page *page, const char *name, bool man, mal_error *e) {
  const mal_verb *verb = name ? mal_verb_named(name) : NULL;
  if (name && !verb && !(man && strcmp(name, "malha") == 0)) return unknown_verb(name, e);
  if (man)
    mal_help_man(page, verb);
  else if (verb)
    mal_help_verb(page, verb);
  else
    mal_help_overview(page);
  return MAL_OK;
}

int mal_cmd_help(int argc, char **argv) {
  static const mal_option table[] = {
      {"man", 0, MAL_OPT_FLAG, offsetof(help_args, man), NULL, NULL, NULL, N_("as a man page")},
      {"completion", 0, MAL_OPT_CHOICE, offsetof(help_args, completion), "SHELL", NULL, mal_shell_name,
       N_("completion of the command line for bash or zsh")},
      {"names", 0, MAL_OPT_CHOICE, offsetof(help_args, names), "WHAT", NULL, mal_names_name,
       N_("names of the catalogue, one a line: models, machines or profiles")},
      {"help", 'h', MAL_OPT_FLAG, offsetof(help_args, help), NULL, NULL, NULL, N_("this help")},
  };
  mal_arena arena;
  mal_error e = {0};
  mal_page page;
  help_args args = {.completion = MAL_SHELL_NONE, .names = MAL_NAMES_NONE};
  const char *name = NULL;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  mal_status status = mal_options_parse(table, sizeof table / sizeof *table, argc, argv, &args, &name, 1, NULL, &e);
  if (!status && args.completion != MAL_SHELL_NONE)
    mal_help_completion(&page, args.completion);
  else if (!status && args.names != MAL_NAMES_NONE)
    status = mal_help_names(&page, args.names, &e);
  else if (!status)
    status = help(&page, name, args.man, &e);
  int code = mal_cli_finish(NULL, &page, status, &e);
  mal_arena_free(&arena);
  return code;
}
