/* How rank 0 leads a run: an order to all ranks, then a report of each, through the same communication that steps use. So it is
 * the same whether ranks are threads or processes. */
#ifndef MAL_ENGINE_ORDERS_H
#define MAL_ENGINE_ORDERS_H
#include "engine/rank.h"

typedef enum mal_order_kind {
  MAL_ORDER_STEP,
  MAL_ORDER_SAVE,
  MAL_ORDER_EVALUATE,
  MAL_ORDER_GIVE,
  MAL_ORDER_LEAVE /* after a last report */
} mal_order_kind;

typedef struct mal_order {
  int32_t kind;
  bool traced;
  double epoch_s;        /* zero of the trace */
  mal_step_request step; /* its source is each rank's own */
} mal_order;

typedef struct mal_rank_report { /* of a rank, after an order */
  double loss_sum, grad_norm, flops;
  double cpu_s; /* of the step: what its thread used of a core */
  double sent[MAL_AXES + 1];
  int64_t tp_index, used_bytes, resident_bytes; /* resident: with LEAVE only */
} mal_rank_report;

typedef struct mal_orders { /* a rank's end of it */
  const mal_comm_backend *backend;
  mal_comm *comm;
  int32_t rank, ranks, group;
  mal_order *order;         /* in the backend's memory, as the others */
  mal_rank_report *reports; /* [ranks] */
  struct mal_page_of_events *events;
} mal_orders;

int64_t mal_orders_bytes(int32_t ranks); /* of the backend's memory that open takes */
mal_status mal_orders_open(mal_orders *o, const mal_comm_backend *backend, mal_comm *comm, int32_t rank, int32_t ranks,
                           mal_error *e);
/* Rank 0's o->order goes to all others'. */
mal_status mal_orders_pass(mal_orders *o, mal_error *e);
/* By every rank; afterwards all have o->reports of all. */
mal_status mal_orders_report(mal_orders *o, const mal_rank_report *mine, mal_error *e);
/* By every rank: all events come to rank 0's `all` (NULL elsewhere), rank after rank. */
mal_status mal_orders_collect(mal_orders *o, const mal_timeline *mine, mal_timeline *all, mal_error *e);
#endif
