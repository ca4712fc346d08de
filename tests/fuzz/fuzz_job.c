#include "job/profile.h"
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_job job;
  mal_profile *profile;
  mal_error e;
  mal_job_default(&job);
  if (mal_job_parse(&a, "fuzz.yaml", (const char *)data, size, &job, &e) == MAL_OK && !(job.pue >= 1)) abort();
  if (mal_profile_parse(&a, "fuzz.yaml", (const char *)data, size, &profile, &e) == MAL_OK &&
      (!profile->name || !profile->source || profile->attention >= MAL_ATT_KERNELS))
    abort();
  mal_arena_free(&a);
  return 0;
}
