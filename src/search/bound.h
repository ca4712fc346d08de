/* Inside search: what a layout takes at least. Never more than what mal_price says of it; tests hold both to it.
 *
 * Time: on each class of stages, the fill that comes before its first micro-batch, all passes of all micro-batches, and the
 * drain behind them; for 1F1B also the round trip of a micro-batch, which comes back before the stage takes another one; then
 * gradient sync and optimizer, and the wait for other nodes. ZeRO-2 and 3: what of a unit's traffic its own work cannot hide.
 * Memory: persistent states, the stash of the micro-batches in flight, the work of the largest layer, gathered weights. */
#ifndef MAL_SEARCH_BOUND_H
#define MAL_SEARCH_BOUND_H
#include "search/kit.h"

/* What stays visible of a unit's traffic, per layer: added to the kit's seconds. */
typedef struct mal_visible {
  double ends_f[MAL_ENDS], ends_b[MAL_ENDS];
  double *f, *b; /* [kinds + 1] */
  double last;   /* at most, of the unit that a pass reduces last */
} mal_visible;
void mal_visible_of(mal_arena *a, const mal_kit *kit, const mal_piece *layers, const mal_piece *plain,
                    const mal_shard_kit *shard, mal_visible *v);

typedef struct mal_question {
  const mal_kit *kit;
  const mal_piece *layers, *plain; /* [kinds + 1]; plain: of the layers that are not recomputed, where only some are */
  int64_t recomputed;              /* layers of a stage; -1: all are as `layers` says */
  const mal_partition *partition;
  int schedule;
  int64_t pp, micro_batches;
  const double *hops;         /* [pp + 1]: of the messages from stage 0 to here, summed */
  const mal_visible *visible; /* NULL: nothing to add */
} mal_question;

/* Seconds until a class of stages is through, and until stage 0 is, were there no end of the step. */
typedef struct mal_passes {
  double done_s, drained_s, forward_s, backward_s, gemm_s;
} mal_passes;
mal_passes mal_bound_passes(const mal_question *q, const mal_class *c);

/* Of a step, without its end; and with it. ends: of the partition's classes, in order. */
double mal_bound_start(const mal_question *q);
double mal_bound_step(const mal_question *q, const mal_shard_kit *shard, const mal_class_end *const *ends);

/* Bytes on the fullest GPU. shard NULL: had it no states at all. */
int64_t mal_bound_memory(const mal_question *q, const mal_shard_kit *shard, const mal_class_end *const *ends);
/* What is offloaded, bytes of one rank. */
int64_t mal_bound_host(const mal_question *q, const mal_class_end *const *ends);
#endif
