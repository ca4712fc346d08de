/* malha design: a cluster that can be ordered, cabled, powered and cooled. */
#include "report/design.h"
#include "cli/cli.h"
#include "core/file.h"
#include "report/answer.h"
#include <string.h>

typedef struct options {
  mal_design_ask ask; /* first: its table's offsets count from here */
  const char *cabling, *bom, *prices;
  bool json, help;
} options;

#define AT(member) offsetof(options, member)
const mal_option mal_design_options[] = {
    {"cabling", 0, MAL_OPT_TEXT, AT(cabling), "FILE", NULL, NULL, N_("write every cable, from port to port, as CSV")},
    {"bom", 0, MAL_OPT_TEXT, AT(bom), "FILE", NULL, NULL, N_("write the bill of materials as CSV")},
    {"prices", 0, MAL_OPT_TEXT, AT(prices), "FILE", NULL, NULL, N_("prices: a CSV of part,price,currency,source")},
    {"json", 0, MAL_OPT_FLAG, AT(json), NULL, NULL, NULL, N_("print JSON: docs/schema/design.json")},
    {"help", 'h', MAL_OPT_FLAG, AT(help), NULL, NULL, NULL, N_("print this help")},
};
const int mal_design_option_count = sizeof mal_design_options / sizeof *mal_design_options;

/* Both tables as one, for parsing. */
static mal_option *all_options(mal_arena *a, size_t *count) {
  *count = (size_t)(mal_design_option_count + mal_design_ask_option_count);
  mal_option *all = MAL_ARRAY(a, mal_option, *count);
  memcpy(all, mal_design_ask_options, (size_t)mal_design_ask_option_count * sizeof *all);
  memcpy(all + mal_design_ask_option_count, mal_design_options, (size_t)mal_design_option_count * sizeof *all);
  return all;
}

static mal_status write_text(const char *path, const char *text, mal_error *e) {
  return path ? mal_file_write(path, text, strlen(text), e) : MAL_OK;
}

/* A design with an error in it is an answer: no. */
static mal_status verdict(const mal_design *d) {
  for (int i = 0; i < d->n_findings; i++)
    if (d->findings[i].severity == MAL_ERROR) return MAL_NO;
  return MAL_OK;
}

static mal_status run(mal_page *page, const options *o, const char *command, mal_error *e) {
  mal_arena *a = page->arena;
  mal_design *d = MAL_NEW(a, mal_design);
  mal_status s = mal_design_make(a, &o->ask, d, e);
  if (s == MAL_OK && o->prices) s = mal_design_price(a, d, o->prices, e);
  if (s == MAL_OK && o->cabling) s = write_text(o->cabling, mal_design_cabling_csv(a, d), e);
  if (s == MAL_OK && o->bom) s = write_text(o->bom, mal_design_parts_csv(a, d), e);
  if (s != MAL_OK) return s;
  if (o->json) {
    json_t *root = mal_report_design_json(d, command);
    mal_page_put(page, "%s\n", mal_json_dump(a, root));
    json_decref(root);
  } else {
    mal_report_design(page, d, command);
  }
  return verdict(d);
}

int mal_cmd_design(int argc, char **argv) {
  const mal_verb *verb = mal_verb_named("design");
  mal_arena arena;
  mal_error e = {0};
  mal_page page;
  options o = {0};
  size_t count;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  mal_design_ask_default(&o.ask);
  const mal_option *table = all_options(&arena, &count);
  mal_status s = mal_options_parse(table, count, argc, argv, &o, NULL, 0, NULL, &e);
  if (s == MAL_OK && o.help)
    mal_help_verb(&page, verb);
  else if (s == MAL_OK)
    s = run(&page, &o, mal_report_command(&arena, argc, argv), &e);
  int code = mal_cli_finish(verb, &page, s, &e);
  mal_arena_free(&arena);
  return code;
}
