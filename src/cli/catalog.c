/* malha models and malha machines: the catalogue, or one of it. */
#include "core/catalog.h"
#include "cli/cli.h"
#include "report/catalog.h"
#include <string.h>

typedef struct catalog_args {
  bool json, help;
} catalog_args;

const mal_option mal_catalog_options[] = {
    {"json", 0, MAL_OPT_FLAG, offsetof(catalog_args, json), NULL, NULL, NULL, N_("the same facts as JSON")},
    {"help", 'h', MAL_OPT_FLAG, offsetof(catalog_args, help), NULL, NULL, NULL, N_("this help")},
};
const int mal_catalog_option_count = sizeof mal_catalog_options / sizeof *mal_catalog_options;

static void put_json(mal_page *page, json_t *json) {
  mal_page_put(page, "%s\n", mal_json_dump(page->arena, json));
  json_decref(json);
}

static mal_status show_models(mal_page *page, const char *name, bool json, mal_error *e) {
  mal_arena *a = page->arena;
  mal_catalog_models all;
  mal_model one;
  mal_status status = name ? mal_model_load(a, name, &one, e) : mal_catalog_load_models(a, &all, e);
  if (status) return status;
  if (json)
    put_json(page, name ? mal_report_model_json(&one) : mal_report_models_json(&all));
  else if (name)
    mal_report_model(page, &one);
  else
    mal_report_models(page, &all);
  return MAL_OK;
}

/* "gpu" or "node" when the name is one's, alone; NULL for a machine. */
static const char *part_named(mal_arena *a, const char *name) {
  char *path;
  mal_error ignored;
  if (strchr(name, '/')) return NULL;
  if (mal_catalog_find(a, "gpus", name, ".yaml", "GPU", &path, &ignored) == MAL_OK) return "gpu";
  if (mal_catalog_find(a, "nodes", name, ".yaml", "node", &path, &ignored) == MAL_OK) return "node";
  return NULL;
}

static mal_status show_machines(mal_page *page, const char *name, bool json, mal_error *e) {
  mal_arena *a = page->arena;
  mal_catalog_machines all;
  mal_machine one;
  mal_status status = name ? mal_machine_load(a, name, &one, e) : mal_catalog_load_machines(a, &all, e);
  if (status) return status;
  const char *only = name ? part_named(a, name) : NULL;
  if (json)
    put_json(page, name ? mal_report_machine_json(&one, only) : mal_report_machines_json(&all));
  else if (name)
    mal_report_machine(page, &one, only);
  else
    mal_report_machines(page, &all);
  return MAL_OK;
}

static int show(const mal_verb *verb, int argc, char **argv,
                mal_status (*what)(mal_page *, const char *, bool, mal_error *)) {
  mal_arena arena;
  mal_error e = {0};
  mal_page page;
  catalog_args args = {0};
  const char *name = NULL;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  mal_status status =
      mal_options_parse(mal_catalog_options, (size_t)mal_catalog_option_count, argc, argv, &args, &name, 1, NULL, &e);
  if (!status && args.help)
    mal_help_verb(&page, verb);
  else if (!status)
    status = what(&page, name, args.json, &e);
  int code = mal_cli_finish(verb, &page, status, &e);
  mal_arena_free(&arena);
  return code;
}

int mal_cmd_models(int argc, char **argv) { return show(mal_verb_named("models"), argc, argv, show_models); }
int mal_cmd_machines(int argc, char **argv) { return show(mal_verb_named("machines"), argc, argv, show_machines); }
