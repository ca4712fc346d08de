/* malha lower: what every rank does in one step. */
#include "cli/inputs.h"
#include "core/file.h"
#include "program/program.h"
#include <string.h>

#define AT(member) offsetof(mal_inputs, member)
const mal_option mal_lower_options[] = {
    {"output", 'o', MAL_OPT_TEXT, AT(output), "FILE", NULL, NULL, N_("write the step program as JSON")},
};
const int mal_lower_option_count = sizeof mal_lower_options / sizeof *mal_lower_options;

static mal_status run(mal_arena *a, const mal_inputs *in, mal_page *page, mal_error *e) {
  mal_plan *plan = MAL_NEW(a, mal_plan);
  mal_program *program = MAL_NEW(a, mal_program);
  if (in->n_machines > 1) return mal_fail(e, MAL_BAD, _("One machine at a time: --on names %d."), in->n_machines);
  mal_status status = mal_inputs_plan(a, in, 0, plan, e);
  if (!status) status = mal_lower(a, plan, program, e);
  if (status) return status;
  char *json = NULL;
  if (in->json || in->output) {
    json_t *root = mal_program_json(program);
    json = mal_json_dump(a, root);
    json_decref(root);
  }
  if (in->output) {
    char *text = mal_print(a, "%s\n", json);
    if ((status = mal_file_write(in->output, text, strlen(text), e)) != MAL_OK) return status;
  }
  if (in->json)
    mal_page_put(page, "%s\n", json);
  else if (!in->output || strcmp(in->output, "-") != 0)
    mal_page_put(page, "%s", mal_program_text(a, program));
  return MAL_OK;
}

int mal_cmd_lower(int argc, char **argv) {
  const mal_verb *verb = mal_verb_named("lower");
  mal_arena arena;
  mal_error e = {0};
  mal_inputs in;
  mal_page page;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  mal_status status = mal_inputs_parse(&arena, mal_lower_options, mal_lower_option_count, argc, argv, &in, &e);
  if (!status && in.help)
    mal_help_verb(&page, verb);
  else if (!status && !in.has_layout)
    status = mal_first_layout(&arena, &in, verb->name, &e);
  else if (!status)
    status = run(&arena, &in, &page, &e);
  int code = mal_cli_finish(verb, &page, status, &e);
  mal_arena_free(&arena);
  return code;
}
