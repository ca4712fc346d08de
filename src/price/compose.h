/* Inside price: from the times of lists to the time of a step.
 *
 * Pipeline: the max-plus recurrence of the stages' orders, each computation starting when the stage is free and its input has
 * arrived; O(pp · chunks · micro-batches). Uneven stages, embedding and head bind where they lie; nothing is averaged.
 * ZeRO-3: a unit's gather runs beside the unit before it, its reduction beside the unit after it.
 * Ranks that are threads take turns where they outnumber the cores: time = max(critical path, Σ work / cores).
 * Gradient reduction runs beside the backward pass of the last micro-batch, parameters are gathered beside the first forward
 * pass; of what could hide, the profile's dp_exposed stays visible, and so does the last bucket. */
#ifndef MAL_PRICE_COMPOSE_H
#define MAL_PRICE_COMPOSE_H
#include "price/price.h"

enum { MAL_T_F, MAL_T_B, MAL_T_W, MAL_T_BW, MAL_T_PASSES }; /* B and BW with the recomputation that goes before them */

/* Times of lists, each priced once. */
typedef struct mal_prices {
  const mal_program *program;
  mal_list_time *times; /* [n_blocks * MAL_LISTS] */
  uint8_t *known;
} mal_prices;
void mal_prices_init(mal_prices *p, mal_arena *a, const mal_program *program);
const mal_list_time *mal_prices_of(mal_prices *p, int block, mal_list list);

/* One pass of one micro-batch through a chunk, ZeRO-3's exposed traffic included. cause_s may be NULL; else += by cause. */
double mal_chunk_time(mal_prices *p, const mal_chunk *c, int pass, double *cause_s);
/* ZeRO-2 and 3, once a step: the reduction of the unit that backward reaches last, which nothing hides (where reductions run beside
 * the passes; else each is in its pass). */
double mal_chunk_tail(mal_prices *p, const mal_chunk *c);

/* End of step of one stage: its gradient synchronisation and its optimizer, given how long the passes are that hide them. */
typedef struct mal_stage_end {
  double sync_s, optimizer_s;
  double in_pass_s; /* of sync_s: what the last backward pass takes longer with traffic beside it */
  double sync_cause_s[MAL_TIME_CAUSES], optimizer_cause_s[MAL_TIME_CAUSES];
} mal_stage_end;
void mal_stage_end_time(mal_prices *p, const mal_stage *stage, double first_forward_s, double last_backward_s,
                        mal_stage_end *end);

/* The same in two halves, for those who ask with many windows: what there is to send, then what of it is seen. */
typedef struct mal_traffic {
  double reduce_s, last_reduce_s, gather_s, first_gather_s, small_s; /* over the data-parallel ranks */
  int reductions;
  double rest_s; /* of the list, all else */
} mal_traffic;
typedef struct mal_stage_traffic {
  mal_traffic sync, optimizer;
} mal_stage_traffic;
void mal_stage_traffic_of(mal_prices *p, const mal_stage *stage, mal_stage_traffic *t);
void mal_stage_end_seconds(const mal_plan *plan, const mal_stage_traffic *t, double first_forward_s,
                           double last_backward_s, double *sync_s, double *optimizer_s);

/* hop[s], [pp]: a message between stage s and the next (the last and the first); inside a node, or between nodes. */
void mal_pipe_hops(const mal_plan *plan, int64_t boundary_bytes, double *hop);
/* Share of step time lost to nodes that wait for one another. */
double mal_jitter_share(const mal_machine *machine, int64_t pp);

typedef struct mal_step_time {
  double step_s, time_s[MAL_TIME_CAUSES]; /* sums to step_s */
  int busiest;                            /* stage */
  double gpu_s, host_s;                   /* of the busiest stage: kernels, and the host's work to issue them */
} mal_step_time;
/* t may be NULL: event times of every stage. */
mal_status mal_compose(mal_arena *a, const mal_program *p, mal_timeline *t, mal_step_time *out, mal_error *e);
#endif
