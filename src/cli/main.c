#include "cli/cli.h"
#include "core/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool mal_colour(void) {
  const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

static int flush(void) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return MAL_OK;
  perror("malha: standard output");
  return MAL_FAULT;
}

/* A message that ends with a command keeps it whole, on lines of its own. */
static void say(mal_arena *a, const mal_verb *verb, const char *text) {
  enum { INDENT = 2 };
  static const char command[] = ": malha ";
  mal_page page;
  mal_page_init(&page, a, false);
  const char *who = mal_print(a, verb ? "malha %s: " : "malha: ", verb ? verb->name : ""), *at = strstr(text, command);
  mal_page_put(&page, "%s", who);
  mal_page_wrap(&page, strlen(who), INDENT, at ? mal_print(a, "%.*s:", (int)(at - text), text) : text);
  if (at) {
    mal_page_put(&page, "%*s", INDENT, "");
    mal_page_command(&page, INDENT, 2 * INDENT, at + 2);
  }
  fputs(page.text, stderr);
}

int mal_cli_finish(const mal_verb *verb, mal_page *page, mal_status status, const mal_error *e) {
  fputs(page->text, stdout);
  if (flush() != MAL_OK) return MAL_FAULT;
  if (status != MAL_OK && e->text[0]) say(page->arena, verb, e->text);
  return (int)status;
}

static void out_of_memory(size_t bytes) {
  fprintf(stderr, _("malha: out of memory: %zu bytes more were needed.\n"), bytes);
  exit(MAL_FAULT);
}

/* Names come back in messages and in JSON: all must be text. */
static bool are_text(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (mal_utf8_valid(argv[i], strlen(argv[i]), NULL)) continue;
    mal_error e;
    mal_arena arena;
    mal_arena_init(&arena);
    mal_fail(&e, MAL_BAD, _("argument %d, '%s', is not UTF-8 text. Rename the file or fix the argument."), i, argv[i]);
    say(&arena, NULL, e.text);
    mal_arena_free(&arena);
    return false;
  }
  return true;
}

int main(int argc, char **argv) {
  mal_text_init();
  mal_on_out_of_memory(out_of_memory);
  if (!are_text(argc, argv)) return MAL_BAD;
  const char *name = argc > 1 ? argv[1] : "help";
  if (strcmp(name, "--version") == 0) {
    printf("malha %s\n", MALHA_VERSION);
    return flush();
  }
  const mal_verb *verb = mal_verb_named(name);
  if (verb) return verb->run(argc - 1, argv + 1);
  if (argc < 2 || strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
    return mal_cmd_help(argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
  return mal_cmd_help(2, (char *[]){argv[0], argv[1], NULL}); /* says which command is nearest */
}
