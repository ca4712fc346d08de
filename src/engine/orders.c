#include "engine/orders.h"

typedef struct mal_page_of_events {
  int32_t count;
  bool last;
  mal_event at[1000];
} mal_page_of_events;

static int64_t lines(size_t bytes) { return ((int64_t)bytes + 63) / 64 * 64; }

int64_t mal_orders_bytes(int32_t ranks) {
  int64_t bytes =
      lines(sizeof(mal_order)) + lines(sizeof(mal_page_of_events)) + lines((size_t)ranks * sizeof(mal_rank_report));
  return (bytes + 0xffff) / 0x10000 * 0x10000; /* whole pages, the largest there are */
}

mal_status mal_orders_open(mal_orders *o, const mal_comm_backend *backend, mal_comm *comm, int32_t rank, int32_t ranks,
                           mal_error *e) {
  mal_members all = {.dims = 1, .extent = {ranks}, .stride = {1}};
  void *at;
  *o = (mal_orders){.backend = backend, .comm = comm, .rank = rank, .ranks = ranks};
  mal_status status = backend->group(comm, &all, "orders", &o->group, e);
  if (!status) status = backend->memory(comm, mal_orders_bytes(ranks), &at, e);
  if (status) return status;
  o->order = at;
  o->events = (mal_page_of_events *)(void *)((char *)at + lines(sizeof(mal_order)));
  o->reports = (mal_rank_report *)(void *)((char *)o->events + lines(sizeof(mal_page_of_events)));
  return MAL_OK;
}

static mal_status call(mal_orders *o, int op, void *in, void *out, size_t bytes, mal_error *e) {
  mal_comm_call c = {
      .op = op, .dtype = MAL_I8, .in = {in}, .out = {out}, .elements = {(int64_t)bytes}, .name = "orders"};
  mal_comm_ticket t;
  mal_status status = o->backend->start(o->comm, o->group, &c, &t, e);
  return status ? status : o->backend->wait(o->comm, t, e);
}

mal_status mal_orders_pass(mal_orders *o, mal_error *e) {
  return call(o, MAL_BROADCAST, o->order, o->order, sizeof *o->order, e);
}

mal_status mal_orders_report(mal_orders *o, const mal_rank_report *mine, mal_error *e) {
  o->reports[o->rank] = *mine;
  return call(o, MAL_ALL_GATHER, &o->reports[o->rank], o->reports, (size_t)o->ranks * sizeof *mine, e);
}

/* --- events, a page at a time ------------------------------------------------------------------------------------------------ */

static mal_status send_events(mal_orders *o, const mal_timeline *mine, mal_error *e) {
  enum { ROOM = sizeof o->events->at / sizeof *o->events->at };
  mal_status status = MAL_OK;
  for (int64_t from = 0; !status; from += ROOM) {
    mal_comm_ticket t;
    int64_t left = mine->count - from;
    o->events->count = (int32_t)(left < ROOM ? left : ROOM);
    o->events->last = left <= ROOM;
    for (int32_t i = 0; i < o->events->count; i++) o->events->at[i] = mine->events[from + i];
    status = o->backend->send(o->comm, o->group, 0, 0, o->events, sizeof *o->events, &t, e);
    if (!status) status = o->backend->wait(o->comm, t, e);
    if (o->events->last) break;
  }
  return status;
}

static mal_status receive_events(mal_orders *o, int32_t from, mal_timeline *all, mal_error *e) {
  for (;;) {
    mal_comm_ticket t;
    mal_status status = o->backend->recv(o->comm, o->group, from, 0, o->events, sizeof *o->events, &t, e);
    if (!status) status = o->backend->wait(o->comm, t, e);
    if (status) return status;
    for (int32_t i = 0; i < o->events->count; i++) mal_timeline_add(all, o->events->at[i]);
    if (o->events->last) return MAL_OK;
  }
}

mal_status mal_orders_collect(mal_orders *o, const mal_timeline *mine, mal_timeline *all, mal_error *e) {
  if (o->rank > 0) return send_events(o, mine, e);
  mal_status status = MAL_OK;
  for (int64_t i = 0; i < mine->count; i++) mal_timeline_add(all, mine->events[i]);
  for (int32_t rank = 1; rank < o->ranks && !status; rank++) status = receive_events(o, rank, all, e);
  return status;
}
