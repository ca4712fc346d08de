/* Blocks shared between programs: each is lowered once, then found again by all that it depends on.
 *
 * One cache serves plans of one model, machine, job and profile whose layouts agree in tp, cp, ep, etp, sequence parallelism,
 * micro-batch, attention and overlap, and differ at will in pipeline, data parallelism, ZeRO, offload and recomputation. The
 * blocks are the cache's: programs that hold them die before it is reset. Not for several threads at once. */
#ifndef MAL_PROGRAM_CACHE_H
#define MAL_PROGRAM_CACHE_H
#include "program/lower_block.h"
#include "program/program.h"

enum { MAL_CACHE_BUCKETS = 256 };

typedef struct mal_block_cache {
  mal_arena arena;
  struct mal_cached *first[MAL_CACHE_BUCKETS];
  int64_t lowered; /* blocks, since it was opened */
} mal_block_cache;

enum { MAL_MEMO_BYTES = 2048 }; /* of a shared block's memo, zeroed */

void mal_block_cache_open(mal_block_cache *c);
void mal_block_cache_reset(mal_block_cache *c); /* forgets all blocks, keeps their memory */
void mal_block_cache_close(mal_block_cache *c);

/* A copy of the struct; its arrays and its memo are the cache's. */
mal_status mal_block_cached(mal_block_cache *c, const mal_block_request *r, mal_block *out, mal_held *held,
                            mal_error *e);

/* As mal_lower, with the cache's blocks, and without counting FLOPs and bytes sent. */
mal_status mal_lower_cached(mal_arena *a, mal_block_cache *cache, const mal_plan *plan, mal_program *p, mal_error *e);
#endif
