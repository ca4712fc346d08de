/* An option table as a YAML file: one key an option, '_' or '-' alike; what flags mean, files mean. */
#ifndef MAL_CORE_OPTION_FILE_H
#define MAL_CORE_OPTION_FILE_H
#include "core/options.h"

/* Sets what the file has, copied into the arena. Unknown key, wrong type: MAL_BAD with file and line. */
mal_status mal_options_read_text(mal_arena *a, const char *path, const char *text, size_t length,
                                 const mal_option *table, size_t count, void *into, mal_error *e);
mal_status mal_options_read(mal_arena *a, const char *path, const mal_option *table, size_t count, void *into,
                            mal_error *e);
/* The options of `from` that differ from `usual`, as such a file. */
char *mal_options_write(mal_arena *a, const mal_option *table, size_t count, const void *from, const void *usual);
/* Puts "path:line" of the key before the message; the path alone where the text has no such key. Returns its status. */
mal_status mal_options_fail_at(const char *path, const char *text, size_t length, const char *key, mal_error *e);
#endif
