/* For tests of blocks: plans from catalogue names, one block lowered, its lists walked. */
#ifndef MAL_TEST_PROGRAM_BLOCK_H
#define MAL_TEST_PROGRAM_BLOCK_H
#include "lower.h"
#include "program/lower_block.h"
#include <math.h>

static inline const mal_block *lower_request(const mal_block_request *r) {
  mal_error e;
  mal_block *b = MAL_NEW(&arena, mal_block);
  assert_ok(mal_block_lower(&arena, r, b, &e), e);
  return b;
}

static inline const mal_block *lower_class(const mal_plan *plan, mal_block_class c) {
  return lower_request(&(mal_block_request){.plan = plan, .block_class = c});
}

static inline const mal_block *lower_layer(const mal_plan *plan, int kind, int recompute, bool split) {
  return lower_request(&(mal_block_request){
      .plan = plan, .block_class = MAL_B_LAYER, .kind = kind, .recompute = recompute, .split = split});
}

static inline void near(double got, double wanted, double share) {
  if (fabs(got - wanted) > share * fabs(wanted))
    fail_msg("%.12g is not within %g %% of %.12g", got, 100 * share, wanted);
}

/* Σ of sizes.v[0] of a list's collectives (or sends) of one kind over one group. */
static inline int64_t sent_bytes(const mal_block *b, mal_list list, mal_op op, int variant, unsigned axes) {
  int64_t bytes = 0;
  for (int i = 0; i < b->count[list]; i++) {
    const mal_instruction *x = &b->list[list][i];
    if (x->op == op && x->axes == axes && (op != MAL_OP_COLLECTIVE || x->variant == variant))
      bytes += b->sizes[x->sizes].v[0];
  }
  return bytes;
}

static inline int count_ops(const mal_block *b, mal_list list, mal_op op) {
  int n = 0;
  for (int i = 0; i < b->count[list]; i++) n += b->list[list][i].op == op;
  return n;
}

static inline const mal_instruction *find_op(const mal_block *b, mal_list list, mal_op op, int nth) {
  for (int i = 0; i < b->count[list]; i++)
    if (b->list[list][i].op == op && nth-- == 0) return &b->list[list][i];
  fail_msg("%s has no such instruction", b->name);
  return NULL;
}

/* Bytes of the STASH buffers whose name is not `except`. */
static inline int64_t stash_without(const mal_block *b, const char *except, const char *except2) {
  int64_t bytes = 0;
  for (int i = 0; i < b->n_buffers; i++) {
    const mal_buffer *f = &b->buffers[i];
    if (f->region == MAL_R_STASH && strcmp(f->name, except) && strcmp(f->name, except2)) bytes += f->bytes;
  }
  return bytes;
}
#define AXIS(a) (1u << MAL_AXIS_##a)
#endif
