/* Tables of stages as a user may have edited them: read or refused, and what is read ends or is said to wait in a circle. Input: the
 * entries of each stage, one a line; a line "-" begins the next stage. */
#include "core/json.h"
#include "simulate/program_file.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static mal_arena kept;
static mal_plan plan;
static mal_program program;

static void load(void) {
  mal_error e;
  mal_job job;
  mal_layout layout;
  if (program.plan) return;
  mal_job_default(&job);
  mal_layout_default(&layout);
  job.accumulation = 4;
  if (mal_layout_parse(&kept, "tp=2,pp=2,vpp=2,zero=1,micro-batch=1,schedule=interleaved", &layout, &e) ||
      mal_plan_make(&kept, "layers=8,hidden=64,heads=2,ffn=64,vocab=64", "8xh100-sxm", "megatron", &job, &layout, &plan,
                    &e) ||
      mal_lower(&kept, &plan, &program, &e))
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  load();
  mal_arena a = {0};
  mal_error e;
  mal_simulated s;
  mal_simulate_options o = {0};
  json_t *root = mal_program_json(&program), *stages = json_object_get(root, "stages");
  char *text = mal_print(&a, "%.*s", (int)size, (const char *)data), *rest = NULL;
  size_t stage = 0;
  json_t *table = json_array();
  for (char *line = strtok_r(text, "\n", &rest); line && stage < json_array_size(stages);
       line = strtok_r(NULL, "\n", &rest)) {
    if (strcmp(line, "-") != 0) {
      json_array_append_new(table, json_string(line));
      continue;
    }
    json_object_set_new(json_array_get(stages, stage++), "schedule", table);
    table = json_array();
  }
  if (stage < json_array_size(stages))
    json_object_set_new(json_array_get(stages, stage), "schedule", table);
  else
    json_decref(table);
  char *whole = mal_json_dump(&a, root);
  json_decref(root);
  if (whole && mal_program_file_parse(&a, "step.json", whole, strlen(whole), &program, &o.tables, &e) == MAL_OK) {
    mal_status status = mal_simulate(&a, &program, &o, &s, &e);
    if (status != MAL_BAD && (status != MAL_OK || !s.finished)) abort();
  }
  mal_arena_free(&a);
  return 0;
}
