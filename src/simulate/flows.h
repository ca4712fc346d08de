/* Flows on links with max-min fair sharing, advanced from event to event.
 *
 * A flow is a transfer, or a whole collective that moves in step: `parts` equal streams, each of `bytes`, that use links with
 * given weights (bytes on the link for one byte of a stream). Its rate is one number, bytes/s of a stream; the slowest link on
 * any of its paths sets it, as in a pipelined ring. Rates are max-min fair: the rates of all flows rise together until a link
 * is full or a flow reaches its own limit; those stop, the others go on (Bertsekas and Gallager, Data Networks, section 6.5.2).
 *
 * Only what can change is solved again: a link whose flows at their limits do not fill it binds nobody, so a change travels
 * only over links that could be full. */
#ifndef MAL_SIMULATE_FLOWS_H
#define MAL_SIMULATE_FLOWS_H
#include "core/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct mal_flow_use {
  int32_t link;
  float weight; /* bytes on the link for one byte of the flow */
} mal_flow_use;

typedef struct mal_flows mal_flows;

/* capacity: bytes/s of each link, copied; 0 is a dead link, on which flows stand still. slack: flows end together when their ends
 * lie closer than this share of their age (0: exact). Free with mal_flows_free. */
mal_flows *mal_flows_new(int32_t links, const double *capacity, double slack);
void mal_flows_free(mal_flows *f);

/* Starts a flow at time now (never before the last time given). limit: most bytes/s, INFINITY for none. uses may be empty.
 * Returns its id, which is free again after mal_flows_next gave it back. */
int32_t mal_flow_start(mal_flows *f, double now, double bytes, double limit, const mal_flow_use *uses, int32_t count);
/* Changes the limit of a running flow. */
void mal_flow_limit(mal_flows *f, double now, int32_t flow, double limit);
/* Changes the capacity of a link. */
void mal_flows_capacity(mal_flows *f, double now, int32_t link, double capacity);

/* Time of the next end; INFINITY when nothing moves. */
double mal_flows_when(mal_flows *f);
/* Takes the flow that ends next; call when mal_flows_when is finite. *at: when. */
int32_t mal_flows_next(mal_flows *f, double *at);

int64_t mal_flows_running(const mal_flows *f);
double mal_flow_rate(mal_flows *f, int32_t flow);                    /* bytes/s now */
double mal_link_bytes(const mal_flows *f, int32_t link, double now); /* carried up to now, not before the last change */
double mal_link_busy(const mal_flows *f, int32_t link); /* seconds with a flow on it, up to the last change */
#endif
