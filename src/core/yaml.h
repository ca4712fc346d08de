/* YAML files with a schema (libcyaml). Messages name file, line and key; unknown keys are refused with the nearest. */
#ifndef MAL_CORE_YAML_H
#define MAL_CORE_YAML_H
#include "core/arena.h"
#include "core/status.h"
#include <cyaml/cyaml.h>
#include <stdbool.h>

enum { MAL_YAML_LIMIT_BYTES = 4 << 20 };

/* A catalogue value: what it is, where it was read, whether anybody could verify it. In YAML:
 *   bf16_flops: {value: 989.4e12, source: "H100 whitepaper v1.04, Table 1"}
 *   tdp_w:      {value: 350, source: "vendor page, not read", verified: false}      (verified defaults to true) */
typedef struct mal_value {
  double value;
  char *source;
  bool *verified; /* NULL: true */
} mal_value;

extern const cyaml_schema_field_t mal_value_fields[]; /* for CYAML_FIELD_MAPPING of a mal_value */
static inline bool mal_value_verified(const mal_value *v) { return !v->verified || *v->verified; }

/* Loads path into *data (as cyaml_load_file); free with mal_yaml_free. */
mal_status mal_yaml_read(const char *path, const cyaml_schema_value_t *schema, void **data, mal_error *e);
mal_status mal_yaml_parse(const char *path, const char *text, size_t length, const cyaml_schema_value_t *schema,
                          void **data, mal_error *e);
void mal_yaml_free(const cyaml_schema_value_t *schema, void *data);
#endif
