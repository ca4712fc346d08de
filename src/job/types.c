#include "job/types.h"

static bool wide(const mal_job *job) {
  return mal_dtype_bytes[mal_precision_store((mal_precision)job->precision)] >= 4;
}

static void set_gradients(mal_profile *p, bool fp32) {
  p->grad_bytes = p->reduce_bytes = fp32 ? 4 : 2;
  if (!fp32) p->grad_extra_bytes = 0; /* they are in the compute type themselves */
}

/* A ZeRO-3 shard of 4 bytes is itself the master. */
static void set_master(mal_profile *p, bool fp32) {
  p->master_fp32 = fp32;
  if (fp32) return;
  p->sharded_param_bytes = 2;
  p->shard_with_master = false;
}

mal_status mal_profile_for_job(mal_arena *a, mal_profile *framework, const mal_job *job, mal_profile **p,
                               mal_error *e) {
  int master = job->master;
  *p = framework;
  if (wide(job) && (job->gradients == MAL_GRADIENTS_BF16 || master == MAL_MASTER_NONE))
    return mal_fail(e, MAL_BAD, _("%s=%s: with precision=%s weights and gradients are fp32; leave it out."),
                    master == MAL_MASTER_NONE ? "master" : "gradients",
                    master == MAL_MASTER_NONE ? mal_master_name[master] : mal_gradients_name[job->gradients],
                    mal_precision_name[job->precision]);
  if (master == MAL_MASTER_AUTO && job->optimizer == MAL_ADAMW_BF16) master = MAL_MASTER_NONE;
  if (wide(job) || (job->gradients == MAL_GRADIENTS_AUTO && master == MAL_MASTER_AUTO)) return MAL_OK;
  *p = MAL_NEW(a, mal_profile);
  **p = *framework;
  if (job->gradients != MAL_GRADIENTS_AUTO) set_gradients(*p, job->gradients == MAL_GRADIENTS_FP32);
  if (master != MAL_MASTER_AUTO) set_master(*p, master == MAL_MASTER_FP32);
  return MAL_OK;
}

char *mal_types_words(mal_arena *a, const mal_profile *p, const mal_job *job) {
  if (wide(job)) return mal_copy(a, _("fp32 throughout"));
  const char *narrow = mal_dtype_name[mal_precision_store((mal_precision)job->precision)];
  return mal_print(a, p->master_fp32 ? _("%s gradients, fp32 master weights") : _("%s gradients, no master weights"),
                   p->grad_bytes >= 4 ? "fp32" : narrow);
}
