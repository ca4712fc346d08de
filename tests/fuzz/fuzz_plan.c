/* plan.json from anywhere: read, and where it names a built-in model and machine, completed. */
#include "plan/plan.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a;
  mal_error e;
  mal_plan p;
  mal_plan_parts parts = {0};
  mal_arena_init(&a);
  char *text = mal_alloc(&a, size + 1);
  memcpy(text, data, size);
  if (mal_plan_parse(&a, "plan.json", text, size, &parts, &e) == MAL_OK && !strpbrk(parts.model, "/.") &&
      !strpbrk(parts.machine, "/.") && !strpbrk(parts.profile, "/."))
    mal_plan_make(&a, parts.model, parts.machine, parts.profile, &parts.job, &parts.layout, &p, &e);
  mal_arena_free(&a);
  return 0;
}
