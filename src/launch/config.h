/* Settings in files of JSON, YAML and TOML: flat, by dotted keys ("zero_optimization.stage"); a dot inside a key is "\.".
 * A list is one value, its JSON. Depth and size are bounded, anchors of YAML refused, keys given twice too. */
#ifndef MAL_LAUNCH_CONFIG_H
#define MAL_LAUNCH_CONFIG_H
#include "launch/settings.h"
#include <jansson.h>

enum { MAL_CONFIG_LIMIT_BYTES = 4 << 20, MAL_CONFIG_DEPTH = 32 };
typedef enum mal_syntax { MAL_JSON, MAL_YAML, MAL_TOML } mal_syntax;

/* By the ending of the name: .json, .yaml, .yml, .toml. false: none of them. */
bool mal_config_syntax(const char *file, mal_syntax *syntax);
mal_status mal_config_read(mal_arena *a, const char *file, const char *text, size_t length, mal_syntax syntax,
                           mal_settings *into, mal_error *e);
/* The settings as the text of such a file; head: lines of comments, NULL or for JSON: none. */
char *mal_config_write(mal_arena *a, const mal_settings *s, mal_syntax syntax, const char *head);
/* A value as JSON and back: what plans keep of such files. */
char *mal_config_json(mal_arena *a, const mal_setting *s);
void mal_config_put_json(mal_settings *into, const char *key, const char *json);

/* Inside: one value found. */
mal_status mal_config_found(mal_settings *into, const char *file, int line, const char *key, int kind,
                            const char *value, bool list, mal_error *e);
/* "outer.inner", dots of inner escaped. */
char *mal_config_key(mal_arena *a, const char *outer, const char *inner, size_t length);
mal_status mal_config_read_yaml(mal_arena *a, const char *file, const char *text, size_t length, mal_settings *into,
                                mal_error *e);
mal_status mal_config_read_toml(mal_arena *a, const char *file, const char *text, size_t length, mal_settings *into,
                                mal_error *e);
/* What a bare word of YAML is. */
int mal_config_kind(const char *word, const char **value);
#endif
