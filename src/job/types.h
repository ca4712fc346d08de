/* Types of gradients and master weights: the framework's, or what the job says. The one place that decides. */
#ifndef MAL_JOB_TYPES_H
#define MAL_JOB_TYPES_H
#include "job/profile.h"

/* The profile as this job lowers: `framework` itself where the job leaves all to it, else a copy with other bytes.
 * adamw-bf16 has no fp32 master weights unless --master fp32 asks for them. MAL_BAD: 16-bit types in fp32 training. */
mal_status mal_profile_for_job(mal_arena *a, mal_profile *framework, const mal_job *job, mal_profile **p, mal_error *e);

/* What it came to, for people: "bf16 gradients, fp32 master weights"; "fp32 throughout". */
char *mal_types_words(mal_arena *a, const mal_profile *p, const mal_job *job);
#endif
