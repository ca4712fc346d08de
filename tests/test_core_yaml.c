#include "core/yaml.h"
#include "test.h"
#include <stdlib.h>

typedef enum kind { COPPER, OPTICAL } kind;

typedef struct port {
  char *name;
  int lanes;
} port;

typedef struct device {
  char *name;
  mal_value tdp_w;
  kind link;
  port *ports;
  uint32_t ports_count;
} device;

static const cyaml_schema_field_t port_fields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, port, name, 1, 64),
    CYAML_FIELD_INT("lanes", CYAML_FLAG_OPTIONAL, port, lanes),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t port_schema = {CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, port, port_fields)};
static const cyaml_strval_t kinds[] = {{"copper", COPPER}, {"optical", OPTICAL}};
static const cyaml_schema_field_t device_fields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, device, name, 1, 64),
    CYAML_FIELD_MAPPING("tdp_w", CYAML_FLAG_DEFAULT, device, tdp_w, mal_value_fields),
    CYAML_FIELD_ENUM("link", CYAML_FLAG_OPTIONAL, device, link, kinds, 2),
    CYAML_FIELD_SEQUENCE("ports", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, device, ports, &port_schema, 0, 8),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t schema = {CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, device, device_fields)};

static mal_error e;
static device *d;

static mal_status parse(const char *text) {
  mal_yaml_free(&schema, d);
  d = NULL;
  return mal_yaml_parse("d.yaml", text, strlen(text), &schema, (void **)&d, &e);
}

static int tear_down(void **state) {
  (void)state;
  mal_yaml_free(&schema, d);
  return 0;
}

static void test_parse(void **state) {
  (void)state;
  assert_ok(parse("name: h100\ntdp_w: {value: 7.0e2, source: \"data sheet, p. 2\"}\nlink: optical\n"
                  "ports:\n  - {name: p0, lanes: 4}\n  - {name: p1}\n"),
            e);
  assert_string_equal(d->name, "h100");
  assert_true(d->tdp_w.value == 700 && mal_value_verified(&d->tdp_w));
  assert_string_equal(d->tdp_w.source, "data sheet, p. 2");
  assert_int_equal(d->link, OPTICAL);
  assert_int_equal(d->ports_count, 2);
  assert_int_equal(d->ports[0].lanes, 4);
  assert_ok(parse("name: x\ntdp_w: {value: 1, source: guess, verified: false}\n"), e);
  assert_false(mal_value_verified(&d->tdp_w));
  assert_ok(parse("name: x\ntdp_w: {value: 1}\n"), e);
  assert_null(d->tdp_w.source);
  mal_yaml_free(&schema, d);
  assert_ok(mal_yaml_read(MALHA_TEST_DATA "/core/device.yaml", &schema, (void **)&d, &e), e);
  mal_yaml_free(&schema, NULL);
}

static void test_schema_refused(void **state) {
  (void)state;
  assert_fails(MAL_BAD, parse("name: x\ntdp_v: {value: 1}\n"), e, "d.yaml:2", "no key 'tdp_v'", "Nearest: tdp_w");
  assert_fails(MAL_BAD, parse("name: x\ntdp_w:\n  value: 1\n  sorce: y\n"), e, "d.yaml:4: tdp_w", "'sorce'",
               "Nearest: source");
  assert_fails(MAL_BAD, parse("name: x\ntdp_w: {value: 1}\nports:\n  - name: p\n    lane: 3\n"), e,
               "d.yaml:5: ports[0]", "'lane'", "Nearest: lanes");
  assert_fails(MAL_BAD, parse("name: x\nzzzzzzzz: 1\n"), e, "d.yaml:2", "'zzzzzzzz'", "Remove it");
  assert_fails(MAL_BAD, parse("name: x\n"), e, "d.yaml", "'tdp_w' is missing");
  assert_fails(MAL_BAD, parse("name: x\ntdp_w: {source: y}\n"), e, "d.yaml:2", "'value' is missing");
  assert_fails(MAL_BAD, parse("name: x\nname: y\n"), e, "d.yaml:2", "'name' is given twice");
  assert_fails(MAL_BAD, parse("ports:\n  - name: p\n  - name: q\nname: x\ntdp_w: {value: 1}\nname: y\n"), e,
               "d.yaml:6: the key 'name' is given twice");
  assert_fails(MAL_BAD, parse("name: x\ntdp_w: {value: abc}\n"), e, "d.yaml:2: tdp_w.value", "'abc' is not a number");
  assert_fails(MAL_BAD, parse("name: x\ntdp_w: {value: 1}\nlink: wire\n"), e, "d.yaml:3: link",
               "'wire' is not one of copper, optical");
  assert_fails(MAL_BAD, parse("name: x\ntdp_w: {value: 1}\nports: [{name: p, lanes: 9999999999999}]\n"), e, "d.yaml:3",
               "lanes", "whole number");
  assert_fails(MAL_BAD, parse("name: x\ntdp_w: 5\n"), e, "d.yaml:2: tdp_w", "must be lines");
  assert_fails(MAL_BAD, parse("name: [x]\n"), e, "d.yaml:1: name", "must be ");
  assert_fails(MAL_BAD, parse("- a\n- b\n"), e, "d.yaml", "must be ");
  assert_fails(MAL_BAD, parse("just words\n"), e, "d.yaml", "must be ");
  assert_fails(MAL_BAD, parse("name: ''\ntdp_w: {value: 1}\n"), e, "d.yaml:1: name");
  assert_null(d);
}

static void test_text_refused(void **state) {
  (void)state;
  assert_fails(MAL_BAD, parse(""), e, "d.yaml: is empty");
  assert_fails(MAL_BAD, parse("# only a comment\n"), e, "is empty");
  assert_fails(MAL_BAD, parse("---\n"), e, "d.yaml");
  assert_fails(MAL_BAD, parse("name: x\n  bad: : y\n"), e, "d.yaml:2", "not valid YAML");
  assert_fails(MAL_BAD, parse("name: [x\n"), e, "not valid YAML");
  assert_fails(MAL_BAD, parse("name: \"x\n"), e, "not valid YAML");
  assert_fails(MAL_BAD, parse("name: x\n---\nname: y\n"), e, "d.yaml:2", "second document");
  assert_fails(MAL_BAD, parse("name: x\ntdp_w: {value: .inf}\n"), e, "d.yaml:2", "not a finite number");
  assert_fails(MAL_BAD, parse("name: x\ntdp_w: {value: nan}\n"), e, "d.yaml:2", "not a finite number");
  assert_fails(MAL_BAD, parse("name: x\ntdp_w: {value: 1e999}\n"), e, "d.yaml:2", "not a finite number");
  assert_fails(MAL_BAD, parse("name: x\n\xff\n"), e, "d.yaml:2", "byte 8", "UTF-8");
  assert_fails(MAL_BAD, parse("name: \"a\\0b\"\n"), e, "d.yaml:1", "NUL");
  assert_fails(MAL_BAD, mal_yaml_parse("d.yaml", "name: \0x", 8, &schema, (void **)&d, &e), e, "d.yaml:1");
  assert_fails(MAL_BAD, mal_yaml_parse("d.yaml", "", MAL_YAML_LIMIT_BYTES + 1, &schema, (void **)&d, &e), e, "4 MiB");
  assert_fails(MAL_BAD, mal_yaml_read("/nonexistent", &schema, (void **)&d, &e), e, "no such file");
  assert_fails(MAL_BAD, mal_yaml_read("/tmp", &schema, (void **)&d, &e), e, "is a folder");
}

/* Nothing may grow out of a small text: no aliases, no depth, no endless keys. */
static void test_bombs(void **state) {
  (void)state;
  assert_fails(MAL_BAD, parse("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"), e, "d.yaml:1", "anchors");
  assert_fails(MAL_BAD, parse("a: x\nb: *a\n"), e, "d.yaml:2", "alias *a");
  size_t n = 1 << 20;
  char *text = malloc(n + 1);
  text[n] = '\0';
  memset(text, '[', n);
  assert_fails(MAL_BAD, parse(text), e, "d.yaml:1", "nested more than 32 deep");
  memset(text, '{', n);
  assert_fails(MAL_BAD, parse(text), e, "nested more than 32 deep");
  for (size_t i = 0; i < n; i++) text[i] = "- "[i % 2];
  assert_fails(MAL_BAD, parse(text), e, "nested more than 32 deep");
  memset(text, 'k', n);
  assert_fails(MAL_BAD, parse(text), e, "d.yaml");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parse),
      cmocka_unit_test(test_schema_refused),
      cmocka_unit_test(test_text_refused),
      cmocka_unit_test(test_bombs),
  };
  return cmocka_run_group_tests(tests, NULL, tear_down);
}
