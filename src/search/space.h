/* Inside search: which values every option may take, given what is fixed; and how many layouts that makes.
 *
 * A frame is what fixes how a layer is computed, but for the micro-batch: profile, tp, cp, ep, etp, sequence parallelism, kind
 * of context parallelism. With a pipeline, dp follows from the GPUs. A form is how the pipeline runs: schedule, chunks, and
 * whether embedding and head count as layers. A shard is what of the states lies where: ZeRO stage, hybrid group, offload. */
#ifndef MAL_SEARCH_SPACE_H
#define MAL_SEARCH_SPACE_H
#include "search/search.h"

typedef struct mal_numbers {
  int64_t *at;
  int count;
} mal_numbers;

mal_numbers mal_divisors(mal_arena *a, int64_t n); /* ascending */

typedef struct mal_form {
  int schedule;
  int64_t vpp;
  bool embedding_in_layers;
} mal_form;

typedef struct mal_shard {
  int zero;
  int64_t hybrid;
  int offload_optimizer, offload_params;
} mal_shard;

typedef struct mal_frame {
  int profile; /* index into the space's plans */
  int64_t tp, cp, ep, etp;
  int sequence_parallel, cp_kind;
  mal_numbers pp;
  mal_numbers sizes;    /* of micro-batches */
  double *least_with_s; /* [sizes.count]: no step of this frame with such micro-batches is shorter */
  double least_s;       /* nor any other; these three: mal_worker_bound */
} mal_frame;

enum { MAL_SPACE_PROFILES = 4, MAL_MOST_FORMS = 4096 };

typedef struct mal_space {
  mal_arena *a;
  mal_plan plans[MAL_SPACE_PROFILES]; /* as asked, one for each profile that a layout may get */
  int n_plans;
  mal_layout fixed;
  uint64_t is_fixed; /* bit i: option i of mal_layout_options */
  int64_t gpus, batch, seq, layers;
  mal_frame *frames;
  int n_frames;
  double size, valid;
} mal_space;

/* Errors as of mal_search. */
mal_status mal_space_open(mal_arena *a, const mal_plan *asked, const char *fix, mal_space *s, mal_error *e);

/* Sets size and valid. */
void mal_space_count(mal_space *s);

/* Whether a micro-batch goes with dp, and keeps to the most tokens that are counted. */
bool mal_space_micro_batch(const mal_space *s, const mal_frame *f, int64_t dp, int64_t micro_batch);
/* Sizes of a micro-batch for dp: divisors of a rank's share of the batch. */
mal_numbers mal_space_micro_batches(const mal_space *s, mal_arena *a, int64_t dp);
/* Of the schedules that the framework has, unless one is fixed. forms: room for MAL_MOST_FORMS. */
int mal_space_forms(const mal_space *s, const mal_profile *p, int64_t pp, int64_t micro_batches, mal_form *forms);
/* Shards of a dp · cp group of `ranks` that the framework has beside such a pipeline; those without offload first. */
int mal_space_shards(const mal_space *s, mal_arena *a, const mal_profile *p, int64_t pp, int64_t ranks,
                     mal_shard **shards);
/* Whether an option was fixed, by its place in mal_layout. */
bool mal_space_fixed(const mal_space *s, size_t offset);

/* The layout as one would ask for it: every option said. recompute_layers -1: all. Overlap is on where it is not fixed: no
 * layout is slower with it (tested). */
mal_layout mal_space_layout(const mal_space *s, const mal_frame *f, int64_t pp, int64_t micro_batch,
                            const mal_form *form, const mal_shard *shard, int recompute, int64_t recompute_layers);
#endif
