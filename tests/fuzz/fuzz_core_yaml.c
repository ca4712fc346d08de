/* Any text, against a schema with every kind of value that the project's own schemas use. */
#include "core/yaml.h"
#include <math.h>
#include <stdlib.h>

typedef struct entry {
  char *name;
  int lanes;
} entry;

typedef struct thing {
  char *name;
  mal_value power;
  int kind;
  bool on;
  uint64_t size;
  double factors[2];
  entry *entries;
  uint32_t entries_count;
} thing;

static const cyaml_schema_field_t entry_fields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, entry, name, 1, 64),
    CYAML_FIELD_INT("lanes", CYAML_FLAG_OPTIONAL, entry, lanes),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t entry_schema = {CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, entry, entry_fields)};
static const cyaml_schema_value_t factor_schema = {CYAML_VALUE_FLOAT(CYAML_FLAG_DEFAULT, double)};
static const cyaml_strval_t kinds[] = {{"copper", 0}, {"optical", 1}};
static const cyaml_schema_field_t thing_fields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, thing, name, 0, CYAML_UNLIMITED),
    CYAML_FIELD_MAPPING("power", CYAML_FLAG_OPTIONAL, thing, power, mal_value_fields),
    CYAML_FIELD_ENUM("kind", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, thing, kind, kinds, 2),
    CYAML_FIELD_BOOL("on", CYAML_FLAG_OPTIONAL, thing, on),
    CYAML_FIELD_UINT("size", CYAML_FLAG_OPTIONAL, thing, size),
    CYAML_FIELD_SEQUENCE_FIXED("factors", CYAML_FLAG_OPTIONAL, thing, factors, &factor_schema, 2),
    CYAML_FIELD_SEQUENCE("entries", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, thing, entries, &entry_schema, 0, 8),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t schema = {CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, thing, thing_fields)};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  thing *t;
  mal_error e;
  if (mal_yaml_parse("fuzz.yaml", (const char *)data, size, &schema, (void **)&t, &e) == MAL_OK) {
    if (!isfinite(t->power.value) || !isfinite(t->factors[0])) abort();
    (void)mal_value_verified(&t->power);
    mal_yaml_free(&schema, t);
  }
  return 0;
}
