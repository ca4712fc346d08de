/* malha weights: model files looked at and written, from Hugging Face folders and from checkpoints. */
#include "engine/weights/weights.h"
#include "cli/cli.h"
#include "core/json.h"
#include "core/units.h"
#include "engine/checkpoint/shard.h"
#include "engine/tensors.h"
#include <string.h>

typedef struct weights_args {
  const char *output, *model, *tokenizer;
  int dtype;
  double shard_bytes;
  bool json, help;
} weights_args;

static const char *const dtype_names[] = {"same", "fp32", "bf16", "fp16", NULL};

#define AT(member) offsetof(weights_args, member)
const mal_option mal_weights_options[] = {
    {"output", 'o', MAL_OPT_TEXT, AT(output), "DIR", NULL, NULL,
     N_("write the model as a Hugging Face folder: config.json and safetensors")},
    {"dtype", 0, MAL_OPT_CHOICE, AT(dtype), "TYPE", NULL, dtype_names,
     N_("numbers written: same (default), fp32, bf16, fp16; rounded to the nearest")},
    {"shard-size", 0, MAL_OPT_AMOUNT, AT(shard_bytes), "SIZE", "B", NULL,
     N_("most of one file; beyond it several with an index (default: 5 GB)")},
    {"model", 'm', MAL_OPT_TEXT, AT(model), "MODEL", NULL, NULL,
     N_("whose weights they are (default: the folder's config.json; of a checkpoint, what it was trained as)")},
    {"tokenizer", 0, MAL_OPT_TEXT, AT(tokenizer), "DIR", NULL, NULL,
     N_("copy the tokenizer's files from there (default: FOLDER)")},
    {"json", 0, MAL_OPT_FLAG, AT(json), NULL, NULL, NULL, N_("the same as JSON")},
    {"help", 'h', MAL_OPT_FLAG, AT(help), NULL, NULL, NULL, N_("this text")},
};
const int mal_weights_option_count = sizeof mal_weights_options / sizeof *mal_weights_options;

typedef struct opened { /* either files or a checkpoint */
  bool is_checkpoint;
  const char *folder;
  mal_weight_files files;
  mal_checkpoint_found found;
  mal_model model;
  mal_tensors tensors;
  mal_dtype dtype; /* of most of its numbers */
} opened;

static mal_status load_files(const void *context, const mal_tensors *t, const mal_rank_state *s, mal_error *e) {
  return mal_weight_files_load(context, t, s, e);
}

static mal_status load_checkpoint(const void *context, const mal_tensors *t, const mal_rank_state *s, mal_error *e) {
  return mal_checkpoint_load(context, t, s, e);
}

/* The type that has the most bytes. */
static mal_dtype usual_type(const mal_stored_list *list) {
  int64_t bytes[MAL_DTYPES] = {0};
  mal_dtype most = MAL_F32;
  for (int32_t i = 0; i < list->count; i++)
    if (list->at[i].type >= 0) bytes[list->at[i].type] += list->at[i].bytes;
  for (int k = 0; k < MAL_DTYPES; k++)
    if (bytes[k] > bytes[most]) most = (mal_dtype)k;
  return most;
}

static mal_status open_it(mal_arena *a, const char *folder, const weights_args *args, opened *o, mal_error *e) {
  const char **paths;
  int n = 0;
  *o = (opened){.folder = folder, .dtype = MAL_F32};
  o->is_checkpoint = mal_checkpoint_list(a, &mal_files_disk, folder, &paths, &n) == 0 && n > 0;
  mal_status status = o->is_checkpoint ? mal_checkpoint_find(a, &mal_files_disk, folder, &o->found, e)
                                       : mal_weight_files_open(a, folder, &o->files, e);
  if (status) return status;
  const char *model = args->model ? args->model : o->is_checkpoint ? o->found.says.model : folder;
  if (!args->model && !o->is_checkpoint && strstr(folder, ".safetensors"))
    return mal_fail(e, MAL_BAD, _("%s: which model is it? Add --model (a name or a config.json), or give the folder."),
                    folder);
  status = mal_model_load(a, model, &o->model, e);
  if (status) return mal_fail_in(e, "%s", args->model ? "--model" : folder);
  mal_tensors_list(a, &o->model, &o->tensors);
  if (o->is_checkpoint) return MAL_OK;
  o->dtype = usual_type(&o->files.list);
  return mal_weight_files_match(a, &o->files, &o->model, &o->tensors, e);
}

static mal_status write_it(mal_arena *a, opened *o, const weights_args *args, mal_dtype dtype, int *n_files,
                           mal_error *e) {
  mal_weight_writer *w = NULL;
  const mal_weight_request q = {.folder = args->output,
                                .tokenizer_from = args->tokenizer    ? args->tokenizer
                                                  : o->is_checkpoint ? NULL
                                                                     : o->folder,
                                .model = &o->model,
                                .tensors = &o->tensors,
                                .dtype = dtype,
                                .shard_bytes = (int64_t)args->shard_bytes};
  mal_status status = mal_weight_writer_open(a, &q, &w, e);
  if (!status) status = mal_weight_writer_begin(w, e);
  if (!status)
    status = o->is_checkpoint ? mal_weights_copy(load_checkpoint, &o->found, &o->tensors, w, e)
                              : mal_weights_copy(load_files, &o->files, &o->tensors, w, e);
  if (!status) status = mal_weight_writer_finish(w, e);
  if (!status) *n_files = mal_weight_writer_files(w);
  mal_weight_writer_close(w);
  return status;
}

/* --- what is said ----------------------------------------------------------------------------------------------------------- */

enum { LABEL = 12 };

static const char *types_of(mal_arena *a, const mal_stored_list *list, int file) {
  mal_writing w = {.arena = a};
  for (int32_t i = 0; i < list->count; i++)
    if (list->at[i].file == file && (!w.text || !strstr(w.text, list->at[i].dtype)))
      mal_write(&w, "%s%s", w.text ? ", " : "", list->at[i].dtype);
  return w.text ? w.text : "";
}

static int32_t tensors_of(const mal_stored_list *list, int file) {
  int32_t n = 0;
  for (int32_t i = 0; i < list->count; i++) n += list->at[i].file == file;
  return n;
}

static void show_text(mal_page *page, const opened *o, const weights_args *args, mal_dtype dtype, int n_files) {
  mal_table t;
  mal_page_field(page, LABEL, _("model"), _("%s (%s): %s parameters in %d tensors"), o->model.name, o->model.family,
                 mal_show_count((double)o->model.parameters), (int)o->tensors.count);
  if (o->is_checkpoint) {
    mal_page_field(page, LABEL, _("checkpoint"), _("%s: after step %lld, written under %s"), o->found.path,
                   (long long)o->found.says.step, o->found.says.layout);
    if (o->found.passed_over) mal_page_field(page, LABEL, _("damaged"), "%s", o->found.passed_over);
  }
  mal_table_init(&t, page->arena, 0, "rrll");
  mal_table_row(&t, MAL_DIM, _("tensors"), _("bytes"), _("types"), _("file"));
  for (int i = 0; i < o->files.n_files; i++)
    mal_table_row(&t, MAL_PLAIN, mal_show_int(tensors_of(&o->files.list, i)), mal_show_int(o->files.files[i].bytes),
                  types_of(page->arena, &o->files.list, i), o->files.paths[i]);
  if (!o->is_checkpoint) mal_table_put(&t, page);
  if (args->output)
    mal_page_put(page, P_("%s written: %d file of weights in %s\n", "%s written: %d files of weights in %s\n", n_files),
                 args->output, n_files, mal_safetensors_dtype(dtype));
}

static void show_json(mal_page *page, const opened *o, const weights_args *args, mal_dtype dtype, int n_files) {
  json_t *files = json_array();
  for (int i = 0; i < o->files.n_files; i++)
    json_array_append_new(files,
                          json_pack("{s:s, s:I, s:i, s:s}", "path", o->files.paths[i], "bytes",
                                    (json_int_t)o->files.files[i].bytes, "tensors", (int)tensors_of(&o->files.list, i),
                                    "types", types_of(page->arena, &o->files.list, i)));
  json_t *root =
      json_pack("{s:i, s:s, s:s, s:I, s:i, s:o}", "version", 1, "model", o->model.name, "family", o->model.family,
                "parameters", (json_int_t)o->model.parameters, "tensors", (int)o->tensors.count, "files", files);
  if (o->is_checkpoint)
    json_object_set_new(root, "checkpoint",
                        json_pack("{s:s, s:I, s:s}", "path", o->found.path, "step", (json_int_t)o->found.says.step,
                                  "layout", o->found.says.layout));
  if (args->output)
    json_object_set_new(
        root, "output",
        json_pack("{s:s, s:i, s:s}", "path", args->output, "files", n_files, "type", mal_safetensors_dtype(dtype)));
  mal_page_put(page, "%s\n", mal_json_dump(page->arena, root));
  json_decref(root);
}

static mal_status run(mal_arena *a, mal_page *page, const weights_args *args, const char *folder, mal_error *e) {
  opened o;
  int n_files = 0;
  mal_status status = open_it(a, folder, args, &o, e);
  mal_dtype dtype = args->dtype ? mal_hf_dtypes[args->dtype - 1] : o.dtype;
  if (!status && args->output) status = write_it(a, &o, args, dtype, &n_files, e);
  if (!status) (args->json ? show_json : show_text)(page, &o, args, dtype, n_files);
  mal_weight_files_close(&o.files);
  return status;
}

int mal_cmd_weights(int argc, char **argv) {
  const mal_verb *verb = mal_verb_named("weights");
  mal_arena arena;
  mal_error e = {0};
  mal_page page;
  weights_args args = {0};
  const char *folder = NULL;
  int n = 0;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  mal_status status =
      mal_options_parse(mal_weights_options, (size_t)mal_weights_option_count, argc, argv, &args, &folder, 1, &n, &e);
  if (!status && args.help)
    mal_help_verb(&page, verb);
  else if (!status && !n)
    status = mal_fail(&e, MAL_BAD, _("Of which model? Give a Hugging Face folder, or the folder of train --out."));
  else if (!status)
    status = run(&arena, &page, &args, folder, &e);
  int code = mal_cli_finish(verb, &page, status, &e);
  mal_arena_free(&arena);
  return code;
}
