/* What an instruction moves where that is not the sum of its operands: passes that a framework makes and no buffer shows. */
#include "program/builder.h"

enum { CELLS = 16, MOST = 4096, ROWS = 4 };

bool mal_has_softmax_kernel(const mal_sizes *s) {
  return s->v[1] > CELLS && s->v[1] <= MOST && s->v[1] % ROWS == 0 && s->v[0] / s->v[1] % ROWS == 0;
}

/* Without the fused kernel scale, mask, softmax and two casts run one after another. */
static const int64_t softmax_passes = 3;

/* From 16 bits to the products' type: rows for this product, columns for the one that reads the transpose (backward), except
 * where the hardware takes fp8 operands either way (one scale a tensor). Scales of blocks of 32 or 16 elements (OCP MX 1.0; NVFP4,
 * arXiv 2509.25149); nvfp4, and fp8 scaled by the tensor itself, read it once more for its maximum. */
static double cast_bytes(const mal_plan *plan, double elements) {
  switch (plan->job.precision) {
  case MAL_P_MXFP8: return elements * (2 + 2 * (1 + 1.0 / 32));
  case MAL_P_NVFP4: return elements * (2 + 2 + 2 * (0.5 + 1.0 / 16));
  default: return elements * (2 + (plan->machine.gpu->transposes_fp8 ? 1 : 2) + (plan->profile->fp8_amax_pass ? 2 : 0));
  }
}

static void say(const mal_builder *b, const mal_block *out, mal_instruction *i) {
  const mal_profile *profile = b->profile;
  int64_t *v = out->sizes[i->sizes].v, bytes = (int64_t)mal_instruction_bytes(out, i);
  switch (i->op) {
  case MAL_OP_CAST:
    if (i->dtype == MAL_F8 || i->dtype == MAL_F4) v[1] = (int64_t)cast_bytes(b->plan, (double)v[0]);
    break;
  case MAL_OP_PERMUTE:
    if (profile->permute_passes > 1) v[1] = bytes * profile->permute_passes;
    break;
  case MAL_OP_SOFTMAX:
    if (!mal_has_softmax_kernel(&out->sizes[i->sizes])) v[2] = bytes * (profile->fused_softmax ? softmax_passes : 1);
    break;
  case MAL_OP_ACTIVATION:
    if (profile->fused_experts && b->kind && b->kind->mlp == MAL_MLP_MOE) i->flags |= MAL_INS_INSIDE;
    break;
  case MAL_OP_ATTENTION:
    if (profile->fp8_attention) i->flags |= MAL_INS_LOW_CORE;
    break;
  default: break;
  }
}

void mal_say_moved(const mal_builder *b, mal_block *out) {
  for (int list = 0; list < MAL_LISTS; list++)
    for (int k = 0; k < out->count[list]; k++) say(b, out, &out->list[list][k]);
}

int64_t mal_moved_bytes(const mal_instruction *i, const mal_sizes *s) {
  switch (i->op) {
  case MAL_OP_CAST:
  case MAL_OP_PERMUTE: return s->v[1];
  case MAL_OP_SOFTMAX: return s->v[2];
  default: return 0;
  }
}
