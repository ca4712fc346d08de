/* malha design: a cluster that can be ordered, cabled, powered and cooled. */
#include "report/design.h"
#include "cli/cli.h"
#include "core/file.h"
#include "core/option_file.h"
#include "design/files.h"
#include "design/kit/kit.h"
#include "design/target.h"
#include "report/answer.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

typedef struct options {
  mal_design_ask ask; /* first: its table's offsets count from here */
  mal_job job;        /* of a training target */
  const char *cabling, *bom, *html, *topology_conf, *topology_yaml, *addresses, *kit, *prices, *output, *from;
  const char *refresh;
  bool inference;
  const char *expected, *found, *names; /* of check */
  bool json, help;
} options;

#define AT(member) offsetof(options, member)
const mal_option mal_design_options[] = {
    {"output", 'o', MAL_OPT_TEXT, AT(output), "FILE", NULL, NULL,
     N_("write what was asked to a YAML file: the expected cluster")},
    {"from", 0, MAL_OPT_TEXT, AT(from), "FILE", NULL, NULL, N_("start from such a file; further options win")},
    {"refresh", 0, MAL_OPT_TEXT, AT(refresh), "NODE", NULL, NULL,
     N_("and what changes when that node takes the place of --node, in the same racks and fabric")},
    {"inference", 0, MAL_OPT_FLAG, AT(inference), NULL, NULL, NULL,
     N_("and what a node gives when it serves MODEL, contexts of --seq tokens")},
    {"cabling", 0, MAL_OPT_TEXT, AT(cabling), "FILE", NULL, NULL, N_("write every cable, from port to port, as CSV")},
    {"bom", 0, MAL_OPT_TEXT, AT(bom), "FILE", NULL, NULL, N_("write the bill of materials as CSV")},
    {"html", 0, MAL_OPT_TEXT, AT(html), "FILE", NULL, NULL, N_("write one page with drawings and tables")},
    {"topology-conf", 0, MAL_OPT_TEXT, AT(topology_conf), "FILE", NULL, NULL, N_("write topology.conf of Slurm")},
    {"topology-yaml", 0, MAL_OPT_TEXT, AT(topology_yaml), "FILE", NULL, NULL, N_("write topology.yaml of Slurm")},
    {"addresses", 0, MAL_OPT_TEXT, AT(addresses), "FILE", NULL, NULL, N_("write the address of every port as CSV")},
    {"kit", 0, MAL_OPT_TEXT, AT(kit), "FOLDER", NULL, NULL,
     N_("write all files that the cluster starts from: image, Slurm, monitoring, acceptance tests, lists")},
    {"prices", 0, MAL_OPT_TEXT, AT(prices), "FILE", NULL, NULL, N_("prices: a CSV of part,price,currency,source")},
    {"expected", 0, MAL_OPT_TEXT, AT(expected), "FILE", NULL, NULL, N_("check: the cluster as designed (-o)")},
    {"found", 0, MAL_OPT_TEXT, AT(found), "FILE", NULL, NULL,
     N_("check: output of ibnetdiscover, or of lldpctl -f json")},
    {"names", 0, MAL_OPT_TEXT, AT(names), "FILE", NULL, NULL, N_("check: a CSV of found,expected names of devices")},
    {"json", 0, MAL_OPT_FLAG, AT(json), NULL, NULL, NULL, N_("print JSON: docs/schema/design.json")},
    {"help", 'h', MAL_OPT_FLAG, AT(help), NULL, NULL, NULL, N_("print this help")},
};
const int mal_design_option_count = sizeof mal_design_options / sizeof *mal_design_options;

/* All tables as one, for parsing: the design's, the command's, the job's. */
static mal_option *all_options(mal_arena *a, size_t *count) {
  size_t asks = (size_t)mal_design_ask_option_count, own = (size_t)mal_design_option_count;
  size_t jobs = (size_t)mal_job_option_count;
  mal_option *all = MAL_ARRAY(a, mal_option, asks + own + jobs);
  memcpy(all, mal_design_ask_options, asks * sizeof *all);
  memcpy(all + asks, mal_design_options, own * sizeof *all);
  memcpy(all + asks + own, mal_job_options, jobs * sizeof *all);
  for (size_t i = asks + own; i < asks + own + jobs; i++) all[i].offset += offsetof(options, job);
  *count = asks + own + jobs;
  return all;
}

static mal_status write_text(const char *path, const char *text, mal_error *e) {
  return path ? mal_file_write(path, text, strlen(text), e) : MAL_OK;
}

static size_t ask_count(void) { return (size_t)mal_design_ask_option_count; }

static mal_status write_ask(mal_arena *a, const options *o, const char *command, mal_error *e) {
  mal_design_ask usual;
  mal_design_ask_default(&usual);
  char *text = mal_options_write(a, mal_design_ask_options, ask_count(), &o->ask, &usual);
  return write_text(o->output, mal_print(a, "# malha design --from FILE; made by: %s\n%s", command, text), e);
}

/* malha design check: what lies there against what was designed. */
static mal_status check_cables(mal_page *page, options *o, const char *command, mal_error *e) {
  mal_arena *a = page->arena;
  mal_design *d = MAL_NEW(a, mal_design);
  mal_wiring found;
  mal_comparison c;
  if (!o->expected || !o->found)
    return mal_fail(e, MAL_BAD,
                    _("which cables? malha design check --expected cluster.yaml --found ibnetdiscover.txt"));
  mal_design_ask_default(&o->ask);
  mal_status s = mal_options_read(a, o->expected, mal_design_ask_options, ask_count(), &o->ask, e);
  if (s == MAL_OK) s = mal_design_make(a, &o->ask, d, e);
  if (s == MAL_OK && !d->has_fabric)
    s = mal_fail(e, MAL_BAD, _("%s: a single node has no fabric to check."), o->expected);
  if (s == MAL_OK) s = mal_wiring_read(a, o->found, &found, e);
  if (s == MAL_OK && o->names) s = mal_wiring_rename(a, o->names, &found, e);
  if (s != MAL_OK) return s;
  mal_design_compare(a, d, &found, &c);
  if (o->json) {
    json_t *root = mal_report_cabling_json(&c, command);
    mal_page_put(page, "%s\n", mal_json_dump(a, root));
    json_decref(root);
  } else {
    mal_report_cabling(page, d, &c, command);
  }
  return c.count ? MAL_NO : MAL_OK;
}

static mal_status make_folder(const char *path, mal_error *e) {
  if (mkdir(path, 0777) == 0 || (errno == EEXIST && mal_is_directory(path))) return MAL_OK;
  return mal_fail(e, MAL_BAD, _("cannot make the folder '%s': %s."), path, strerror(errno));
}

/* Every file of the kit and the expected cluster, in a folder that is made when it is not there. */
static mal_status write_kit(mal_arena *a, const mal_design *d, const options *o, const char *command, mal_error *e) {
  mal_kit_file files[MAL_KIT_MOST];
  int n;
  mal_status s = mal_kit_make(a, d, files, &n, e);
  if (s == MAL_OK) s = make_folder(o->kit, e);
  for (int i = 0; i < n && s == MAL_OK; i++) {
    const char *slash = strchr(files[i].path, '/'), *path = mal_print(a, "%s/%s", o->kit, files[i].path);
    if (slash) s = make_folder(mal_print(a, "%s/%.*s", o->kit, (int)(slash - files[i].path), files[i].path), e);
    if (s == MAL_OK) s = write_text(path, files[i].text, e);
    if (s == MAL_OK && files[i].executable && chmod(path, 0755) != 0)
      s = mal_fail(e, MAL_BAD, _("cannot make %s executable: %s."), path, strerror(errno));
  }
  options cluster = *o;
  cluster.output = mal_print(a, "%s/cluster.yaml", o->kit);
  return s == MAL_OK ? write_ask(a, &cluster, command, e) : s;
}

static mal_status write_files(mal_arena *a, const mal_design *d, const options *o, const char *command, mal_error *e) {
  mal_status s = MAL_OK;
  if (o->cabling) s = write_text(o->cabling, mal_design_cabling_csv(a, d), e);
  if (s == MAL_OK && o->bom) s = write_text(o->bom, mal_design_parts_csv(a, d), e);
  if (s == MAL_OK && o->html) s = write_text(o->html, mal_report_design_html(a, d, command), e);
  if (s == MAL_OK && o->topology_conf) s = write_text(o->topology_conf, mal_design_topology_conf(a, d), e);
  if (s == MAL_OK && o->topology_yaml) s = write_text(o->topology_yaml, mal_design_topology_yaml(a, d), e);
  if (s == MAL_OK && o->addresses) s = write_text(o->addresses, mal_design_addresses_csv(a, d), e);
  if (s == MAL_OK && o->kit) s = write_kit(a, d, o, command, e);
  return s == MAL_OK && o->output ? write_ask(a, o, command, e) : s;
}

/* A design with an error in it is an answer: no. */
static mal_status verdict(const mal_design *d) {
  for (int i = 0; i < d->n_findings; i++)
    if (d->findings[i].severity == MAL_ERROR) return MAL_NO;
  return MAL_OK;
}

/* A model that only serves needs no training target. */
static bool trains(const options *o, const char *model) { return model && (!o->inference || o->job.tokens > 0); }

static mal_status serve(mal_arena *a, const mal_design *d, const options *o, const char *model, mal_served *out,
                        mal_error *e) {
  mal_model *m = MAL_NEW(a, mal_model);
  mal_serving *rows = MAL_ARRAY(a, mal_serving, MAL_SERVING_MOST);
  if (!model) return mal_fail(e, MAL_BAD, _("which model does it serve? malha design MODEL --inference ..."));
  mal_status s = mal_model_load(a, model, m, e);
  if (s != MAL_OK) return s;
  int64_t context = o->job.seq > 0                                    ? o->job.seq
                    : m->max_positions > 0 && m->max_positions < 8192 ? m->max_positions
                                                                      : 8192;
  *out = (mal_served){&d->machine, m, context, rows, mal_serving_list(&d->machine, m, context, rows)};
  return MAL_OK;
}

static mal_status run(mal_page *page, options *o, const char *model, const char *command, mal_error *e) {
  mal_arena *a = page->arena;
  mal_design *d = MAL_NEW(a, mal_design);
  mal_refresh *refresh = MAL_NEW(a, mal_refresh);
  mal_target target;
  mal_served served;
  mal_design_more more = {0};
  if (o->inference && o->ask.nodes < 1 && o->ask.gpus < 1 && o->job.tokens <= 0) o->ask.single_node = true;
  mal_status s = MAL_OK;
  if (trains(o, model)) s = mal_design_target(a, model, &o->job, &o->ask, &target, e);
  if (s == MAL_OK) s = mal_design_make(a, &o->ask, d, e);
  if (s == MAL_OK && o->prices) s = mal_design_price(a, d, o->prices, e);
  if (s == MAL_OK && o->refresh) s = mal_design_refresh(a, d, o->refresh, refresh, e);
  if (s == MAL_OK && o->inference) s = serve(a, d, o, model, &served, e);
  if (s == MAL_OK) s = write_files(a, d, o, command, e);
  if (s != MAL_OK) return s;
  more =
      (mal_design_more){trains(o, model) ? &target : NULL, o->refresh ? refresh : NULL, o->inference ? &served : NULL};
  if (o->json) {
    json_t *root = mal_report_design_json(a, d, &more, command);
    mal_page_put(page, "%s\n", mal_json_dump(a, root));
    json_decref(root);
  } else {
    mal_report_design(page, d, &more, command);
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
  mal_job_default(&o.job);
  const mal_option *table = all_options(&arena, &count);
  const char *word[1] = {NULL};
  mal_status s = mal_options_parse(table, count, argc, argv, &o, word, 1, NULL, &e);
  if (s == MAL_OK && o.from) { /* the file first, then the flags again */
    s = mal_options_read(&arena, o.from, mal_design_ask_options, ask_count(), &o.ask, &e);
    if (s == MAL_OK) s = mal_options_parse(table, count, argc, argv, &o, word, 1, NULL, &e);
  }
  bool check = word[0] && strcmp(word[0], "check") == 0;
  const char *command = mal_report_command(&arena, argc, argv);
  if (s == MAL_OK && o.help)
    mal_help_verb(&page, verb);
  else if (s == MAL_OK)
    s = check ? check_cables(&page, &o, command, &e) : run(&page, &o, word[0], command, &e);
  int code = mal_cli_finish(verb, &page, s, &e);
  mal_arena_free(&arena);
  return code;
}
