#include "core/options_json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *real(double x) { return x < 0 || !isfinite(x) ? json_null() : json_real(x); }

static json_t *value_json(const mal_option *o, const void *from) {
  const void *field = (const char *)from + o->offset;
  switch (o->kind) {
  case MAL_OPT_FLAG: return json_boolean(*(const bool *)field);
  case MAL_OPT_TEXT: return *(const char *const *)field ? json_string(*(const char *const *)field) : json_null();
  case MAL_OPT_COUNT: return *(const int64_t *)field < 0 ? json_null() : json_integer(*(const int64_t *)field);
  case MAL_OPT_POSITIVE: return *(const int64_t *)field < 1 ? json_null() : json_integer(*(const int64_t *)field);
  case MAL_OPT_NUMBER:
  case MAL_OPT_QUANTITY: return real(*(const double *)field);
  case MAL_OPT_AMOUNT: return *(const double *)field > 0 ? real(*(const double *)field) : json_null();
  case MAL_OPT_CHOICE: break;
  }
  int choice = *(const int *)field;
  for (int i = 0; i <= choice; i++)
    if (!o->choices[i]) return json_null();
  if (choice < 0) return json_null();
  const char *name = o->choices[choice];
  return strspn(name, "0123456789") == strlen(name) ? json_integer(atoi(name)) : json_string(name);
}

json_t *mal_options_json(const mal_option *table, int count, const void *from) {
  json_t *all = json_object();
  for (int i = 0; i < count; i++) json_object_set_new(all, table[i].name, value_json(&table[i], from));
  return all;
}
