/* Judges a JSON value by the part of JSON Schema that docs/schema uses: type, enum, const, properties, required,
 * additionalProperties, items, pattern-free $ref into $defs, minimum. */
#ifndef MAL_TEST_SCHEMA_H
#define MAL_TEST_SCHEMA_H
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool schema_type_is(const json_t *v, const char *type) {
  if (strcmp(type, "object") == 0) return json_is_object(v);
  if (strcmp(type, "array") == 0) return json_is_array(v);
  if (strcmp(type, "string") == 0) return json_is_string(v);
  if (strcmp(type, "integer") == 0) return json_is_integer(v);
  if (strcmp(type, "number") == 0) return json_is_number(v);
  if (strcmp(type, "boolean") == 0) return json_is_boolean(v);
  return strcmp(type, "null") == 0 && json_is_null(v);
}

static bool schema_says_no(const char *at, const char *why) {
  fprintf(stderr, "schema: %s: %s\n", at, why);
  return false;
}

static bool schema_accepts(const json_t *root, const json_t *schema, const json_t *v, const char *at) {
  const char *reference = json_string_value(json_object_get(schema, "$ref")), *key;
  if (reference) {
    const json_t *found = json_object_get(json_object_get(root, "$defs"), reference + strlen("#/$defs/"));
    return found ? schema_accepts(root, found, v, at) : schema_says_no(at, reference);
  }
  json_t *type = json_object_get(schema, "type"), *names = json_object_get(schema, "enum"), *one, *item;
  json_t *constant = json_object_get(schema, "const"), *least = json_object_get(schema, "minimum");
  size_t index;
  bool good = !type || (json_is_string(type) && schema_type_is(v, json_string_value(type)));
  if (json_is_array(type))
    json_array_foreach(type, index, one) good = good || schema_type_is(v, json_string_value(one));
  if (!good) return schema_says_no(at, "wrong type");
  good = !names;
  if (names) json_array_foreach(names, index, one) good = good || json_equal(one, v);
  if (!good) return schema_says_no(at, "not one of the names");
  if (constant && !json_equal(constant, v)) return schema_says_no(at, "not the constant");
  if (least && json_is_number(v) && json_number_value(v) < json_number_value(least))
    return schema_says_no(at, "too small");
  json_t *properties = json_object_get(schema, "properties"), *more = json_object_get(schema, "additionalProperties");
  json_t *required = json_object_get(schema, "required"), *items = json_object_get(schema, "items");
  if (required && json_is_object(v))
    json_array_foreach(required, index, one) if (!json_object_get(v, json_string_value(one))) return schema_says_no(
        at, json_string_value(one));
  if (json_is_object(v)) json_object_foreach((json_t *)v, key, item) {
      const json_t *rule = json_object_get(properties, key);
      if (!rule && json_is_false(more)) return schema_says_no(key, "not a property");
      if (!rule && json_is_object(more)) rule = more;
      if (rule && !schema_accepts(root, rule, item, key)) return schema_says_no(at, "in here");
    }
  if (items && json_is_array(v))
    json_array_foreach(v, index, item) if (!schema_accepts(root, items, item, at)) return schema_says_no(at,
                                                                                                         "in an item");
  return true;
}
#endif
