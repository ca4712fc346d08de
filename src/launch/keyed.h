/* Frameworks whose settings are files of keys: DeepSpeed, Accelerate, torchtitan. */
#ifndef MAL_LAUNCH_KEYED_H
#define MAL_LAUNCH_KEYED_H
#include "launch/config.h"
#include "launch/table.h"

typedef struct mal_keyed {
  const char *name, *title;
  const char *file; /* that is written */
  mal_syntax syntax;
  const char *const *marks; /* keys that only such files have; NULL ends them */
  void (*write)(mal_bridge *b);
  mal_status (*read)(mal_bridge *b, mal_error *e);
  /* Nouns that such files leave to the program which reads them: they are its to say, and are said beside the file. */
  const char *const *elsewhere;
} mal_keyed;

extern const mal_keyed mal_deepspeed, mal_accelerate, mal_torchtitan;
/* Whose file it is, by its marks; NULL: none's. */
const mal_keyed *mal_keyed_of(const mal_settings *s);

/* For their tables. */
const char *mal_key_value(const mal_bridge *b,
                          const char *key); /* NULL: not there, or known only when it runs, or "auto" */
bool mal_key_is(const mal_bridge *b, const char *key, const char *value);
mal_status mal_key_number(mal_bridge *b, const char *key, int64_t *value, bool *found, mal_error *e); /* takes it */
void mal_put_text(mal_bridge *b, const char *key, const char *value);
void mal_put_bool(mal_bridge *b, const char *key, bool value);
/* A value that no noun stands for, as JSON: what was kept takes its place; and reading it, when it is just that. */
void mal_put_usual(mal_bridge *b, const char *key, const char *json);
void mal_take_usual(mal_bridge *b, const char *key, const char *value);
#endif
