/* Initial values: a function of seed, tensor and element in the model's own index space, so that no layout changes them. */
#ifndef MAL_ENGINE_INITIAL_H
#define MAL_ENGINE_INITIAL_H
#include "engine/engine.h"

/* Norm weights 1, other vectors 0, matrices normal with deviation 0.02, those that write to the residual stream
 * 0.02 / sqrt(2 · layers) (Radford et al., GPT-2, section 2.3). Element e takes word e % 4 of Philox (core/philox.h) at counter
 * {e / 4, tensor, 0}, pairs of words by Box and Muller. */
void mal_initial_values(const mal_model *m, const mal_tensors *t, uint64_t seed, const mal_piece *p, float *flat);
#endif
