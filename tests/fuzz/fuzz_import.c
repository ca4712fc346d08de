/* Settings of others: a fault is an error, never a crash. The first byte chooses the name of the file, and so its syntax. */
#include "launch/import.h"
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"run.sh", "ds.json", "a.yaml", "t.toml"};
  if (size < 1) return 0;
  mal_arena a;
  mal_error e;
  mal_imported in;
  mal_arena_init(&a);
  char *text = mal_alloc(&a, size);
  for (size_t i = 1; i < size; i++) text[i - 1] = (char)data[i];
  const char *files[] = {names[data[0] % (sizeof names / sizeof *names)]}, *texts[] = {text};
  const char *given[] = {"TP=2", NULL};
  size_t lengths[] = {size - 1};
  mal_import_ask ask = {.files = files, .n_files = 1, .given = given, .on = "8xh100-sxm", .model = "gpt2"};
  mal_import_texts(&a, &ask, texts, lengths, &in, &e);
  mal_arena_free(&a);
  return 0;
}
