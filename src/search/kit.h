/* Inside search: what bounds are made of. All in numbers, each block lowered and priced once by the code that prices plans.
 *
 * A partition says which layers each stage has, by kind, for one pipeline; stages of equal contents are one class.
 * A kit has the blocks of one frame and micro-batch: seconds and bytes of a layer of each kind, of both ends.
 * A shard kit has what a frame's blocks take of weights, gradients and states, and their data-parallel traffic. */
#ifndef MAL_SEARCH_KIT_H
#define MAL_SEARCH_KIT_H
#include "price/compose.h"
#include "program/cache.h"
#include "search/space.h"

enum { MAL_CLASSES = MAL_MAX_LAYERS + 2 };          /* of a partition, at most */
enum { MAL_ENDS = 2, MAL_EMBED = 0, MAL_TAIL = 1 }; /* ends: the embedding; the head with what predicts more tokens */

/* --- partitions --------------------------------------------------------------------------------------------------------- */

typedef struct mal_class {
  int64_t first, last;    /* stages that are so */
  int64_t ends[MAL_ENDS]; /* how many it holds */
  int64_t layers;         /* of all kinds, without those that predict more tokens */
  int64_t chunks;
  int64_t *n; /* [kinds + 1]: layers of each kind; last: a first layer that passes no gradient on (LoRA) */
  /* interleaved: layers and ends in flight, over micro-batches, when stage `first` does its first backward pass; [0]: with as
   * many micro-batches as stages, [1]: with more */
  int64_t *flight[2], flight_ends[2][MAL_ENDS];
  int64_t from, *before; /* a stage of it, and the same of the parts that its first micro-batch comes through */
} mal_class;

typedef struct mal_partition {
  struct mal_partition *next;
  int64_t pp, vpp;
  bool embedding_in_layers, dual;
  int kinds, profile;
  mal_class *classes; /* the first has stage 0 */
  int count;
  mal_class all;       /* all stages together */
  int64_t most_layers; /* of a stage */
} mal_partition;

mal_partition *mal_partition_make(mal_arena *a, const mal_plan *plan, bool dual);

/* --- kits ----------------------------------------------------------------------------------------------------------------- */

typedef struct mal_piece {
  double f, b;                  /* seconds; b: all of backward, with what is recomputed before it */
  double exchange;              /* of both, all-to-all that another micro-batch could hide */
  double gemm_s;                /* of both, matrix products */
  int64_t held_at_b, held_at_w; /* stash of one micro-batch from F on; from B on until W */
  int64_t work, kernel;         /* of its largest list; scratch */
} mal_piece;

typedef struct mal_kit {
  mal_plan plan;                                     /* complete, with this micro-batch */
  bool split, unplaced;                              /* unplaced: no bytes of work, for times only */
  mal_piece ends[MAL_ENDS], *layers[MAL_RECOMPUTES]; /* [kinds + 1]; NULL: not asked for yet */
  int64_t end_stash_freed; /* of the tail, which an allocator has again before its layers run backward */
} mal_kit;

/* reduces: gradients leave unit by unit (ZeRO-2, FSDP). */
mal_status mal_kit_open(mal_block_cache *c, const mal_plan *plan, bool split, mal_kit *k, mal_error *e);
/* Seconds of both passes of all layers on one micro-batch; exchange: without the all-to-all that another could hide. */
double mal_kit_layers_s(const mal_kit *k, int recompute, bool exchange);
/* Seconds of the head's passes on one micro-batch, without the modules that predict more tokens. */
mal_status mal_kit_head_s(mal_block_cache *c, const mal_kit *k, double *seconds, mal_error *e);
mal_status mal_kit_layers(mal_block_cache *c, mal_kit *k, int recompute, mal_error *e);

/* --- shard kits -------------------------------------------------------------------------------------------------------------- */

typedef struct mal_unit {
  double gather_s, reduce_s;
  int64_t weights, gradients, gathered, bucket, host; /* bytes */
  int64_t dense, expert, replicated, vector, tied;    /* elements */
} mal_unit;

typedef struct mal_class_end { /* end of the step, and states, of one class of stages */
  struct mal_class_end *next;
  const mal_class *of;
  mal_stage_traffic traffic;
  int64_t states, gradients, host; /* bytes: all persistent ones; of them, gradients */
} mal_class_end;

typedef struct mal_shard_kit {
  mal_plan plan;                    /* complete, with this ZeRO stage */
  mal_unit ends[MAL_ENDS], *layers; /* [kinds + 1] */
  mal_unit joined_tail;             /* the embedding lies in the same stage: only where joins says that it may */
  bool joins;
  mal_class_end *classes;
} mal_shard_kit;

/* joins: some stage may have embedding and head (one stage; DualPipe). */
mal_status mal_shard_kit_open(mal_block_cache *c, const mal_plan *plan, bool joins, mal_shard_kit *k, mal_error *e);
/* Bytes of states that it has at least: without the lists of its sync and optimizer. */
void mal_shard_floor(const mal_shard_kit *k, const mal_class *of, mal_class_end *end);
/* The same for another shard of these ranks, from a kit that holds all its weights (ZeRO 0 or 1). */
void mal_shard_floor_of(const mal_shard_kit *whole, const mal_shard *shard, const mal_class *of, mal_class_end *end);
/* NULL on an error. */
const mal_class_end *mal_shard_class(mal_block_cache *c, mal_shard_kit *k, const mal_class *of, mal_error *e);
#endif
