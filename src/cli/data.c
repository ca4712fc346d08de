/* malha data: token files made, converted and looked at. */
#include "cli/cli.h"
#include "core/json.h"
#include "core/units.h"
#include "engine/data/tokens.h"
#include <string.h>

enum { MOST_FILES = 4096, BATCH = 4096 };

typedef struct data_args {
  const char *output, *tokenizer;
  int format, to;
  int64_t end_id, vocabulary;
  bool json, help;
} data_args;

#define AT(member) offsetof(data_args, member)
static const char *const formats[] = {"auto", "bytes", "nanogpt", "llm.c", "megatron", NULL};
const mal_option mal_data_options[] = {
    {"output", 'o', MAL_OPT_TEXT, AT(output), "FILE", NULL, NULL, N_("write all tokens to this file (.bin)")},
    {"to", 0, MAL_OPT_CHOICE, AT(to), "FORMAT", NULL, mal_token_format_name,
     N_("format of the output: bytes, nanogpt, llm.c (default) or megatron (.bin with .idx beside)")},
    {"format", 0, MAL_OPT_CHOICE, AT(format), "FORMAT", NULL, formats,
     N_("format of the input: auto (default: by name and first word), bytes, nanogpt, llm.c, megatron")},
    {"tokenizer", 0, MAL_OPT_TEXT, AT(tokenizer), "NAME", NULL, NULL,
     N_("how text becomes tokens: bytes (default), each byte a token")},
    {"end-of-text", 0, MAL_OPT_COUNT, AT(end_id), "ID", NULL, NULL, N_("put this id after each file")},
    {"vocabulary", 0, MAL_OPT_POSITIVE, AT(vocabulary), "N", NULL, NULL, N_("refuse ids that are not below N")},
    {"json", 0, MAL_OPT_FLAG, AT(json), NULL, NULL, NULL, N_("the same as JSON")},
    {"help", 'h', MAL_OPT_FLAG, AT(help), NULL, NULL, NULL, N_("this text")},
};
const int mal_data_option_count = sizeof mal_data_options / sizeof *mal_data_options;

typedef struct looked_at { /* one input, and what was in it */
  mal_token_file file;
  int64_t largest; /* -1: no token */
} looked_at;

static mal_status copy_tokens(looked_at *in, const data_args *args, mal_token_writer *w, mal_error *e) {
  int64_t ids[BATCH];
  in->largest = -1;
  mal_status status = MAL_OK;
  for (int64_t i = 0; i < in->file.tokens && !status; i += BATCH) {
    int64_t n = in->file.tokens - i < BATCH ? in->file.tokens - i : BATCH;
    status = mal_tokens_read(&in->file, i, n, args->vocabulary, ids, e);
    for (int64_t k = 0; k < n && !status; k++)
      if (ids[k] > in->largest) in->largest = ids[k];
    if (!status && w) status = mal_tokens_put(w, ids, n, e);
  }
  if (!status && w && args->end_id >= 0) status = mal_tokens_put(w, &args->end_id, 1, e);
  if (!status && w) status = mal_tokens_end_document(w, e);
  return status;
}

static mal_status check_args(const data_args *args, int n, mal_error *e) {
  if (args->tokenizer && strcmp(args->tokenizer, "bytes") != 0)
    return mal_fail(
        e, MAL_BAD,
        _("--tokenizer %s: only bytes can be made here. Tokenize with the model's own tool, and read its file: "
          "Megatron-LM's, nanoGPT's and llm.c's are understood."),
        args->tokenizer);
  if (n == 0) return mal_fail(e, MAL_BAD, _("No file is named. Try 'malha data --help'."));
  if (args->end_id >= 0 && !args->output) return mal_fail(e, MAL_BAD, _("--end-of-text is for writing: give -o FILE."));
  return MAL_OK;
}

static void show_text(mal_page *page, const looked_at *in, int n, const data_args *args, int64_t written) {
  mal_table t;
  mal_table_init(&t, page->arena, 0, "lrrrl");
  mal_table_row(&t, MAL_DIM, _("format"), _("tokens"), _("documents"), _("largest id"), _("file"));
  for (int i = 0; i < n; i++)
    mal_table_row(&t, MAL_PLAIN, mal_token_format_name[in[i].file.format], mal_show_int(in[i].file.tokens),
                  in[i].file.documents ? mal_show_int(in[i].file.documents) : "",
                  in[i].largest < 0 ? "" : mal_show_int(in[i].largest), in[i].file.path);
  mal_table_put(&t, page);
  if (args->output)
    mal_page_put(page, _("%s tokens written to %s (%s)\n"), mal_show_int(written), args->output,
                 mal_token_format_name[args->to]);
}

static void show_json(mal_page *page, const looked_at *in, int n, const data_args *args, int64_t written) {
  json_t *files = json_array();
  for (int i = 0; i < n; i++) {
    json_t *one = json_pack("{s:s, s:s, s:i, s:I, s:I}", "path", in[i].file.path, "format",
                            mal_token_format_name[in[i].file.format], "id_bytes", in[i].file.width_bytes, "tokens",
                            (json_int_t)in[i].file.tokens, "documents", (json_int_t)in[i].file.documents);
    json_object_set_new(one, "largest_id", in[i].largest < 0 ? json_null() : json_integer(in[i].largest));
    json_array_append_new(files, one);
  }
  json_t *root = json_pack("{s:i, s:o}", "version", 1, "files", files);
  if (args->output)
    json_object_set_new(root, "output",
                        json_pack("{s:s, s:s, s:I}", "path", args->output, "format", mal_token_format_name[args->to],
                                  "tokens", (json_int_t)written));
  mal_page_put(page, "%s\n", mal_json_dump(page->arena, root));
  json_decref(root);
}

static mal_status run(mal_arena *a, mal_page *page, const data_args *args, const char **paths, int n, mal_error *e) {
  looked_at *in = MAL_ARRAY(a, looked_at, n ? n : 1);
  mal_token_writer *w = NULL;
  int width = 2, opened = 0;
  int64_t written = 0;
  mal_status status = check_args(args, n, e);
  for (; opened < n && !status; opened++) {
    status = mal_tokens_open(a, paths[opened], args->format - 1, &in[opened].file, e);
    if (in[opened].file.width_bytes > 2) width = 4;
  }
  if (!status && args->output)
    status =
        mal_tokens_create(a, args->output, (mal_token_format)args->to, args->end_id > UINT16_MAX ? 4 : width, &w, e);
  for (int i = 0; i < n && !status; i++) {
    status = copy_tokens(&in[i], args, w, e);
    written += in[i].file.tokens + (args->end_id >= 0);
  }
  if (status)
    mal_tokens_finish(w, false, NULL);
  else
    status = mal_tokens_finish(w, true, e);
  for (int i = 0; i < opened; i++) mal_tokens_close(&in[i].file);
  if (!status) (args->json ? show_json : show_text)(page, in, n, args, written);
  return status;
}

int mal_cmd_data(int argc, char **argv) {
  const mal_verb *verb = mal_verb_named("data");
  mal_arena arena;
  mal_error e = {0};
  mal_page page;
  data_args args = {.to = MAL_TOKENS_LLMC, .end_id = -1};
  const char **paths;
  int n = 0;
  mal_arena_init(&arena);
  mal_page_init(&page, &arena, mal_colour());
  paths = MAL_ARRAY(&arena, const char *, MOST_FILES);
  mal_status status =
      mal_options_parse(mal_data_options, (size_t)mal_data_option_count, argc, argv, &args, paths, MOST_FILES, &n, &e);
  if (!status && args.help)
    mal_help_verb(&page, verb);
  else if (!status)
    status = run(&arena, &page, &args, paths, n, &e);
  int code = mal_cli_finish(verb, &page, status, &e);
  mal_arena_free(&arena);
  return code;
}
