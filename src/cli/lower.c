/* malha lower: what every rank does in one step. */
#include "cli/plan_search.h"
#include "core/file.h"
#include "program/program.h"
#include <string.h>

#define AT(member) offsetof(mal_inputs, member)
const mal_option mal_lower_options[] = {
    {"output", 'o', MAL_OPT_TEXT, AT(output), "FILE", NULL, NULL, N_("write the step program as JSON")},
};
const int mal_lower_option_count = sizeof mal_lower_options / sizeof *mal_lower_options;

static mal_status run(mal_arena *a, const mal_inputs *in, int argc, char **argv, mal_page *page, mal_error *e) {
  if (!in->has_layout) return mal_plan_suggest(a, in, argc, argv, e);
  mal_plan *plan = MAL_NEW(a, mal_plan);
  mal_program *program = MAL_NEW(a, mal_program);
  if (in->n_machines > 1) return mal_fail(e, MAL_BAD, _("One machine at a time: --on names %d."), in->n_machines);
  mal_status status = mal_inputs_plan(a, in, 0, plan, e);
  if (!status) status = mal_lower(a, plan, program, e);
  if (status) return status;
  char *json = NULL;
  if (in->json || in->output) {
    json_t *root = mal_program_json(program);
    char *text;
    if ((status = mal_plan_show(a, in->output ? in->output : "-", plan, &text, e)) != MAL_OK) {
      json_decref(root);
      return status;
    }
    json_object_set_new(root, "plan", json_loads(text, 0, NULL));
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
  return mal_inputs_main(mal_lower_options, mal_lower_option_count, argc, argv, run);
}
