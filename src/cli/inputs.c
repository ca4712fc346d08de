#include "cli/inputs.h"
#include "core/file.h"
#include "core/suggest.h"
#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(mal_inputs, member)
const mal_option mal_input_options[] = {
    {"on", 0, MAL_OPT_TEXT, AT(on), "MACHINE", NULL, NULL,
     N_("what it runs on: 8xh100-sxm, 16x8xh100-sxm, 4xdgx-h100 or a machine file; several, side by side, with "
        "commas")},
    {"layout", 'l', MAL_OPT_TEXT, AT(layout_text), "KEYS", NULL, NULL,
     N_("how it is split: tp=8,pp=2,micro-batch=1; the keys are below; a key alone works too, as --tp 8, and wins")},
    {"offload", 0, MAL_OPT_TEXT, AT(offload), "WHAT:WHERE", NULL, NULL,
     N_("optimizer:cpu, optimizer:nvme, params:cpu or params:nvme; several with commas")},
    {"profile", 0, MAL_OPT_TEXT, AT(profile), "NAME", NULL, NULL,
     N_("the framework that does it: malha, megatron, fsdp2 or deepspeed (default: megatron when tp, pp or ep is above "
        "1, "
        "else fsdp2)")},
    {"job", 0, MAL_OPT_TEXT, AT(job_file), "FILE", NULL, NULL, N_("job options from a YAML file; flags win over it")},
    {"from", 0, MAL_OPT_TEXT, AT(from), "FILE", NULL, NULL, N_("start from a plan.json; flags win over it")},
    {"json", 0, MAL_OPT_FLAG, AT(json), NULL, NULL, NULL, N_("the same facts as JSON")},
    {"help", 'h', MAL_OPT_FLAG, AT(help), NULL, NULL, NULL, N_("this help")},
};
const int mal_input_option_count = sizeof mal_input_options / sizeof *mal_input_options;

/* One table out of four: the offsets of job and layout move to where they lie. */
static size_t compose(const mal_option *own, int own_count, mal_option *all) {
  size_t n = 0;
  for (int i = 0; i < mal_input_option_count; i++) all[n++] = mal_input_options[i];
  for (int i = 0; i < own_count; i++) all[n++] = own[i];
  for (int i = 0; i < mal_job_option_count; i++) {
    all[n] = mal_job_options[i];
    all[n++].offset += offsetof(mal_inputs, job);
  }
  for (int i = 0; i < mal_layout_option_count; i++) {
    all[n] = mal_layout_options[i];
    all[n++].offset += offsetof(mal_inputs, layout);
  }
  return n;
}

static mal_status parse_flags(mal_arena *a, const mal_option *own, int own_count, int argc, char **argv, mal_inputs *in,
                              mal_error *e) {
  mal_option *all =
      MAL_ARRAY(a, mal_option, mal_input_option_count + own_count + mal_job_option_count + mal_layout_option_count);
  size_t count = compose(own, own_count, all);
  int n = 0;
  return mal_options_parse(all, count, argc, argv, in, &in->model, 1, &n, e);
}

/* "optimizer:cpu,params:nvme" sets offload-optimizer and offload-params. */
static mal_status set_offload(const char *text, mal_layout *l, mal_error *e) {
  for (const char *at = text; *at;) {
    char key[64], what[32] = "", where[32] = "";
    size_t length = strcspn(at, ","), colon = strcspn(at, ":,");
    if (colon < sizeof what) memcpy(what, at, colon);
    if (at[colon] == ':' && length - colon - 1 < sizeof where) memcpy(where, at + colon + 1, length - colon - 1);
    bool known = strcmp(what, "optimizer") == 0 || strcmp(what, "params") == 0;
    if (!known || !*where)
      return mal_fail(e, MAL_BAD,
                      _("--offload %s: give optimizer or params, a colon, and cpu or nvme, as optimizer:cpu."), text);
    snprintf(key, sizeof key, "offload-%s", what);
    mal_status status = mal_option_set(mal_layout_options, (size_t)mal_layout_option_count, key, where, l, e);
    if (status) return mal_fail_in(e, "--offload");
    at += length + (at[length] == ',');
  }
  return MAL_OK;
}

/* What the file's plan derived is derived again, since flags may change what it came from. */
static mal_status start_from_plan(mal_arena *a, const char *path, mal_inputs *in, mal_error *e) {
  mal_plan *plan = MAL_NEW(a, mal_plan);
  mal_status status = mal_plan_read(a, path, plan, e);
  if (status) return status;
  in->model = plan->model_spec;
  in->on = plan->machine_spec;
  in->profile = *plan->profile_spec ? plan->profile_spec : NULL;
  in->job = plan->asked_job;
  in->layout = plan->asked_layout;
  in->kept = plan->kept;
  in->n_kept = plan->n_kept;
  return MAL_OK;
}

/* Of the three numbers of a batch the file may have two and flags bring the third: one of the file's gives way. */
static void settle_batch(mal_inputs *in, const mal_job *given) {
  if (!in->job.accumulation || !in->job.global_batch || !in->layout.micro_batch) return;
  if (!given->accumulation)
    in->job.accumulation = 0;
  else if (!given->global_batch)
    in->job.global_batch = 0;
}

static void split_machines(mal_arena *a, mal_inputs *in) {
  in->machines = MAL_ARRAY(a, char *, strlen(in->on) / 2 + 2);
  if (mal_is_file(in->on)) {
    in->machines[in->n_machines++] = mal_copy(a, in->on);
    return;
  }
  for (char *at = mal_copy(a, in->on); at;) {
    char *comma = strchr(at, ',');
    if (comma) *comma = '\0';
    at += strspn(at, " ");
    if (*at) in->machines[in->n_machines++] = at;
    at = comma ? comma + 1 : NULL;
  }
}

static mal_status check(mal_arena *a, mal_inputs *in, mal_error *e) {
  enum { MOST = 64 };
  if (!in->model && in->run.init && strcmp(in->run.init, "random") != 0) in->model = in->run.init;
  if (!in->model)
    return mal_fail(e, MAL_BAD,
                    _("Which model? Give a name (malha models lists them), the path of a config.json or a "
                      "description such as layers=32,hidden=4096,heads=32,ffn=11008,vocab=32000."));
  if (!in->on)
    return mal_fail(e, MAL_BAD, _("On which machine? Add --on 8xh100-sxm (malha machines lists what there is)."));
  mal_status status = mal_job_check(&in->job, NULL, e);
  if (status) return status;
  split_machines(a, in);
  if (!in->n_machines) return mal_fail(e, MAL_BAD, _("--on is empty. Add a machine: --on 8xh100-sxm."));
  if (in->n_machines > MOST)
    return mal_fail(e, MAL_BAD, _("--on names %d machines; at most %d are compared."), in->n_machines, MOST);
  return MAL_OK;
}

static mal_status read_layout(mal_arena *a, const char *text, mal_layout *l, mal_error *e) {
  if (!text) return MAL_OK;
  mal_layout_default(l);
  return mal_layout_parse(a, text, l, e);
}

mal_status mal_inputs_parse(mal_arena *a, const mal_option *own, int own_count, int argc, char **argv, mal_inputs *in,
                            mal_error *e) {
  mal_inputs flags = {0};
  mal_status status = parse_flags(a, own, own_count, argc, argv, &flags, e);
  if (status) return status;
  *in = (mal_inputs){.help = flags.help};
  if (in->help) return MAL_OK;
  mal_job_default(&in->job);
  mal_layout_default(&in->layout);
  mal_job given = flags.job, file;
  mal_job_default(&file);
  if (flags.from) status = start_from_plan(a, flags.from, in, e);
  if (!status && flags.job_file) status = mal_job_read(a, flags.job_file, &in->job, e);
  if (!status && flags.job_file) status = mal_job_read(a, flags.job_file, &file, e);
  if (!status) status = read_layout(a, flags.layout_text, &in->layout, e);
  if (!status && flags.offload) status = set_offload(flags.offload, &in->layout, e);
  if (!status) status = parse_flags(a, own, own_count, argc, argv, in, e);
  if (file.accumulation) given.accumulation = file.accumulation;
  if (file.global_batch) given.global_batch = file.global_batch;
  if (!status && flags.from) settle_batch(in, &given);
  in->has_layout = !status && (in->layout_text || *mal_layout_show(a, &in->layout));
  return status ? status : check(a, in, e);
}

mal_status mal_inputs_plan(mal_arena *a, const mal_inputs *in, int i, mal_plan *plan, mal_error *e) {
  mal_status status =
      mal_plan_make(a, in->model, in->machines[i], in->profile ? in->profile : "", &in->job, &in->layout, plan, e);
  plan->kept = in->kept;
  plan->n_kept = in->n_kept;
  return status;
}

int mal_inputs_main(const mal_option *own, int own_count, int argc, char **argv, mal_inputs_run *run) {
  const mal_verb *verb = mal_verb_named(argv[0]);
  mal_arena arena;
  mal_error e = {0};
  mal_inputs in;
  mal_page page;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  mal_status status = mal_inputs_parse(&arena, own, own_count, argc, argv, &in, &e);
  if (!status && in.help)
    mal_help_verb(&page, verb);
  else if (!status)
    status = run(&arena, &in, argc, argv, &page, &e);
  int code = mal_cli_finish(verb, &page, status, &e);
  mal_arena_free(&arena);
  return code;
}
