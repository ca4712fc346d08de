/* malha export: a plan as the files that run it. */
#include "cli/plan_search.h"
#include "core/file.h"
#include "report/launch.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define AT(member) offsetof(mal_inputs, member)
const mal_option mal_export_options[] = {
    {"for", 0, MAL_OPT_TEXT, AT(target), "TARGET", NULL, NULL, N_("whom the files are for; several with commas")},
    {"output", 'o', MAL_OPT_TEXT, AT(output), "DIR", NULL, NULL,
     N_("write the files into this folder; without it the first goes to standard output")},
    {"hosts", 0, MAL_OPT_TEXT, AT(hosts), "NAMES", NULL, NULL,
     N_("names of the nodes, with commas between (default: node1, node2, ...)")},
};
const int mal_export_option_count = sizeof mal_export_options / sizeof *mal_export_options;

static mal_status write_all(const mal_export *x, const char *folder, mal_error *e) {
  if (mkdir(folder, 0777) != 0 && errno != EEXIST)
    return mal_fail(e, MAL_BAD, _("%s: cannot be made: %s."), folder, strerror(errno));
  if (!mal_is_directory(folder)) return mal_fail(e, MAL_BAD, _("%s: is no folder. Give -o the name of one."), folder);
  mal_status s = MAL_OK;
  for (int i = 0; i < x->count && s == MAL_OK; i++) {
    const char *path = mal_print(x->a, "%s/%s", folder, x->files[i].name);
    s = mal_file_write(path, x->files[i].text, strlen(x->files[i].text), e);
    if (s == MAL_OK && x->files[i].runs) {
      struct stat is;
      if (stat(path, &is) == 0) chmod(path, is.st_mode | ((is.st_mode & 0444) >> 2));
    }
  }
  return s;
}

static mal_status run(mal_arena *a, const mal_inputs *in, int argc, char **argv, mal_page *page, mal_error *e) {
  mal_answer *answer = MAL_NEW(a, mal_answer);
  mal_export *x = MAL_NEW(a, mal_export);
  if (!in->target)
    return mal_fail(e, MAL_BAD, _("For whom? Add --for, as --for megatron (malha export --help lists them)."));
  if (!in->has_layout) return mal_plan_suggest(a, in, argc, argv, e);
  if (in->n_machines > 1) return mal_fail(e, MAL_BAD, _("One machine at a time: --on names %d."), in->n_machines);
  mal_status s = mal_inputs_plan(a, in, 0, &answer->plan, e);
  if (s == MAL_OK) s = mal_answer_find(a, answer, false, e);
  if (s != MAL_OK) return s;
  *x = (mal_export){.a = a, .plan = &answer->plan, .program = &answer->program, .estimate = &answer->estimate};
  x->hosts = in->hosts;
  x->command = mal_report_command(a, argc, argv);
  s = mal_export_make(x, in->target, e);
  if (s == MAL_OK && in->output) s = write_all(x, in->output, e);
  if (s != MAL_OK) return s;
  if (in->json) {
    json_t *root = mal_report_export_json(x, in->output);
    mal_page_put(page, "%s\n", mal_json_dump(a, root));
    json_decref(root);
  } else if (in->output) {
    mal_report_export(page, x, in->output);
  } else {
    mal_page_put(page, "%s", x->files[0].text);
  }
  return x->notes.count ? MAL_NO : MAL_OK;
}

int mal_cmd_export(int argc, char **argv) {
  return mal_inputs_main(mal_export_options, mal_export_option_count, argc, argv, run);
}
