/* Catalogue files as tables of fields: the table is the YAML schema, the list for inheritance (`base: OTHER`) and the
 * list of what may be shown or checked. Every field may be absent from a file: what a file leaves out keeps the value of
 * its base. libcyaml reads and checks the YAML; the schema it needs is made from the table. */
#ifndef MAL_MACHINE_FIELDS_H
#define MAL_MACHINE_FIELDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/status.h"
#include "core/yaml.h"

typedef enum mal_field_kind {
  MAL_FIELD_TEXT,    /* char * */
  MAL_FIELD_BOOL,    /* bool */
  MAL_FIELD_INT,     /* int64_t; a whole decimal number in the file */
  MAL_FIELD_NUMBER,  /* double */
  MAL_FIELD_SMALL,   /* int */
  MAL_FIELD_CHOICE,  /* int: index into choices */
  MAL_FIELD_VALUE,   /* mal_value: {value, source, verified} */
  MAL_FIELD_FITTED,  /* mal_fitted: {value, lo, hi, prior, source} */
  MAL_FIELD_SECTION, /* a mapping with its own table; offsets count from the same struct */
  MAL_FIELD_BASE     /* text that is read before the merge and kept nowhere */
} mal_field_kind;

typedef struct mal_field {
  const char *key; /* NULL ends the table */
  mal_field_kind kind;
  size_t offset;
  double lo, hi;                   /* bounds of a number; both 0: 0 .. 1e18 */
  const char *const *choices;      /* CHOICE, NULL-terminated */
  const struct mal_field *section; /* SECTION */
  bool required;                   /* present in the file or in one of its bases */
} mal_field;

typedef struct mal_fields { /* one parsed file */
  const char *path, *text;
  size_t length;
  const mal_field *table;
  cyaml_schema_value_t schema;
  void **data; /* by field, NULL where absent */
} mal_fields;

mal_status mal_fields_parse(mal_arena *a, const char *path, const char *text, size_t length, const mal_field *table,
                            mal_fields *f, mal_error *e);
void mal_fields_free(mal_fields *f);
/* Line of a key that the file itself has; 0: it has not. */
int mal_fields_line(const mal_fields *f, const char *key);
/* A text field of the file itself, NULL when absent. */
const char *mal_fields_text(const mal_fields *f, const char *key);
/* The parsed fields of a SECTION that is present; false when it is absent. */
bool mal_fields_section(const mal_fields *f, const char *key, mal_fields *section);
/* Keys that the file itself has, without `base`; keys of a section inside it as "calibration.nic". At most max; returns the
 * count of all. */
int mal_fields_keys(mal_arena *a, const mal_fields *f, const char **keys, int max);
/* Writes what the file has over *into, copied into the arena, after checking bounds. */
mal_status mal_fields_merge(mal_arena *a, const mal_fields *f, void *into, mal_error *e);
/* MAL_BAD naming the first required field that neither the file nor its bases have; other absent values get 0 and a
 * source that says so. path: for the message. */
mal_status mal_fields_complete(const mal_field *table, const char *path, void *whole, mal_error *e);
/* Says in the source of every fitted constant that it was taken over: "as BASE: ...". */
void mal_fields_mark_inherited(mal_arena *a, const mal_field *table, const char *base, void *whole);

/* Calls visit for each VALUE and FITTED of the struct, in table order; exactly one of value and fitted is not NULL. */
struct mal_fitted;
typedef void mal_field_visit(void *context, const char *key, mal_value *value, struct mal_fitted *fitted);
void mal_fields_each(const mal_field *table, void *whole, mal_field_visit *visit, void *context);
/* The fitted constants of the struct, at most max, in table order; returns how many. */
int mal_fields_constants(const mal_field *table, void *whole, const char **names, struct mal_fitted **constants,
                         int max);

enum { MAL_BASES_MAX = 8 }; /* longest chain of bases; a longer one is a cycle */
#endif
