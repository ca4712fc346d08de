/* malha probe: what this machine, or one described by pasted listings, is made of. */
#include "cli/cli.h"
#include "core/file.h"
#include "engine/measure.h"
#include "report/answer.h"
#include "report/measured.h"
#include "report/node.h"
#include <string.h>

typedef struct options {
  const char *from, *output, *svg, *gpu, *layout;
  bool json, help, measure;
} options;

#define AT(member) offsetof(options, member)
const mal_option mal_probe_options[] = {
    {"from", 0, MAL_OPT_TEXT, AT(from), "FILE", NULL, NULL,
     N_("read this listing instead of the live machine; more files may follow")},
    {"output", 'o', MAL_OPT_TEXT, AT(output), "FILE", NULL, NULL, N_("write a machine file that plan --on takes")},
    {"svg", 0, MAL_OPT_TEXT, AT(svg), "FILE", NULL, NULL, N_("draw the node: NUMA nodes, NVLinks, rails")},
    {"gpu", 0, MAL_OPT_TEXT, AT(gpu), "NAME", NULL, NULL,
     N_("the GPU, where the files do not say it (malha machines)")},
    {"layout", 0, MAL_OPT_TEXT, AT(layout), "KEYS", NULL, NULL,
     N_("say which links the process groups of this layout ride on, as tp=8,pp=2")},
    {"measure", 0, MAL_OPT_FLAG, AT(measure), NULL, NULL, NULL,
     N_("measure this computer's cores, as the ranks of malha train: products, memory, copies between ranks, disk of "
        "this "
        "folder; with -o a machine file of it")},
    {"json", 0, MAL_OPT_FLAG, AT(json), NULL, NULL, NULL, N_("print JSON: docs/schema/probe.json")},
    {"help", 'h', MAL_OPT_FLAG, AT(help), NULL, NULL, NULL, N_("print this help")},
};
const int mal_probe_option_count = sizeof mal_probe_options / sizeof *mal_probe_options;

enum { FILES_MAX = 64, PLACES_MAX = 256 };

static mal_status read_one(mal_topology *t, const char *file, mal_error *e) {
  mal_paste p;
  bool known;
  mal_status s = mal_paste_load(t->arena, file, &p, e);
  if (s != MAL_OK) return s;
  mal_topology_read(t, &p, &known);
  if (known) return MAL_OK;
  const char *other = mal_topology_other(&p);
  return other ? mal_fail(e, MAL_BAD, _("%s is %s."), file, other)
               : mal_fail(e, MAL_BAD, _("%s: no listing of a node is in it. Known are: %s."), file,
                          mal_topology_kinds(t->arena));
}

/* The groups of --layout; without it neighbours by two, four and all: where tensor parallelism would go. */
static mal_status find_rides(mal_arena *a, const mal_topology *t, const options *o, int gpus, mal_ride *rides,
                             int *count, mal_error *e) {
  mal_layout l;
  *count = 0;
  mal_layout_default(&l);
  if (o->layout) {
    mal_status s = mal_layout_parse(a, o->layout, &l, e);
    if (s == MAL_OK) *count = mal_layout_rides(a, t, &l, rides);
    return s;
  }
  for (int size = 2; size <= gpus && *count < MAL_RIDES_MAX; size *= 2) {
    l.tp = size;
    *count += mal_layout_rides(a, t, &l, rides + *count);
  }
  return MAL_OK;
}

static mal_status write_outputs(mal_arena *a, const options *o, const mal_node_report *r, mal_error *e) {
  mal_status s = MAL_OK;
  if (o->output) {
    char *yaml = NULL;
    s = mal_topology_machine_file(a, r->topology, o->gpu, &yaml, e);
    if (s == MAL_OK) s = mal_file_write(o->output, yaml, strlen(yaml), e);
  }
  if (s == MAL_OK && o->svg) {
    char *svg = mal_report_node_svg(a, r);
    s = mal_file_write(o->svg, svg, strlen(svg), e);
  }
  return s;
}

static mal_status find(mal_topology *t, const char *const *files, int n, mal_error *e) {
  mal_status s = MAL_OK;
  for (int i = 0; i < n && s == MAL_OK; i++) s = read_one(t, files[i], e);
  if (n == 0) s = mal_topology_live(t, e);
  if (s == MAL_OK) mal_topology_derive(t);
  return s;
}

static mal_status run(mal_arena *a, const options *o, const char *const *files, int n, mal_page *page,
                      const char *command, mal_error *e) {
  mal_topology t;
  mal_rank_place places[PLACES_MAX];
  mal_ride rides[MAL_RIDES_MAX];
  mal_topology_init(&t, a);
  mal_status s = find(&t, files, n, e);
  if (s != MAL_OK) return s;
  mal_node_report r = {.topology = &t, .places = places, .rides = rides, .command = command};
  r.n_places = mal_place_ranks(a, &t, places, PLACES_MAX);
  r.gpu = o->gpu ? o->gpu : mal_topology_gpu(a, &t);
  s = find_rides(a, &t, o, r.n_places, rides, &r.n_rides, e);
  if (s == MAL_OK) s = write_outputs(a, o, &r, e);
  if (s != MAL_OK || (o->output && strcmp(o->output, "-") == 0) || (o->svg && strcmp(o->svg, "-") == 0)) return s;
  if (o->json) {
    json_t *root = mal_report_node_json(&r);
    mal_page_put(page, "%s\n", mal_json_dump(a, root));
    json_decref(root);
  } else {
    mal_report_node(page, &r);
  }
  return MAL_OK;
}

static mal_status measure(mal_arena *a, const options *o, int n, mal_page *page, const char *command, mal_error *e) {
  mal_measured m;
  if (n || o->svg || o->gpu || o->layout)
    return mal_fail(e, MAL_BAD, _("--measure measures this computer; it goes with -o and --json only."));
  mal_status s = mal_measure(a, ".", &m, e);
  if (s == MAL_OK && o->output) {
    const char *yaml = mal_measured_machine(a, &m, m.cores);
    s = mal_file_write(o->output, yaml, strlen(yaml), e);
  }
  if (s != MAL_OK || (o->output && strcmp(o->output, "-") == 0)) return s;
  if (o->json) {
    json_t *root = mal_measured_json(&m, command);
    mal_page_put(page, "%s\n", mal_json_dump(a, root));
    json_decref(root);
  } else {
    mal_report_measured(page, &m, command);
  }
  return MAL_OK;
}

int mal_cmd_probe(int argc, char **argv) {
  const mal_verb *verb = mal_verb_named("probe");
  mal_arena arena;
  mal_error e = {0};
  mal_page page;
  options o = {0};
  const char *files[FILES_MAX + 1] = {NULL};
  int n = 0;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  mal_status s = mal_options_parse(mal_probe_options, (size_t)mal_probe_option_count, argc, argv, &o, files + 1,
                                   FILES_MAX, &n, &e);
  files[0] = o.from;
  if (s == MAL_OK && o.help)
    mal_help_verb(&page, verb);
  else if (s == MAL_OK && o.measure)
    s = measure(&arena, &o, n + (o.from != NULL), &page, mal_report_command(&arena, argc, argv), &e);
  else if (s == MAL_OK)
    s = run(&arena, &o, o.from ? files : files + 1, n + (o.from != NULL), &page, mal_report_command(&arena, argc, argv),
            &e);
  int code = mal_cli_finish(verb, &page, s, &e);
  mal_arena_free(&arena);
  return code;
}
