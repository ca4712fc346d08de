/* Inside simulate: instruction lists made ready for playing. An operation that stays on a rank, or in a team on idle links, has
 * a length; one over other links waits for its partners and becomes a flow.
 *
 * Instruction times are price's: kernels by mal_price_instruction, collectives by price's table of algorithms. What the host
 * adds to a list (mal_list_time, cause launch) stretches its kernels. */
#ifndef MAL_SIMULATE_LISTS_H
#define MAL_SIMULATE_LISTS_H
#include "simulate/world.h"

typedef struct mal_sim_op {
  uint8_t stream, cause, op, collective; /* collective: mal_collective */
  uint8_t places;                        /* of a copy: mal_place from << 4 | to */
  bool copy;                             /* between GPU, host and drives */
  bool net, chunked,
      experts;  /* net: over links that others use too; experts: part of it runs beside another micro-batch */
  int8_t axis;  /* whose bytes_sent it counts to, MAL_AXES none */
  int16_t kind; /* of its group, -1 */
  uint16_t wait[2], record;
  double seconds;     /* alone on a healthy machine */
  double bytes;       /* of a copy */
  double inner_s;     /* of that, what the inner link decides */
  double sent, flops; /* bytes by the convention of mal_program.bytes_sent */
  mal_collective_time time;
  const char *name;
  int32_t before, compute_before; /* the operation before it on its stream, on the compute stream; -1 none */
} mal_sim_op;

typedef struct mal_sim_list {
  mal_sim_op *ops;
  int n, n_net, n_events;
  int32_t last[MAL_STREAMS]; /* operation of each stream, -1 */
  double host_s;             /* what launching adds */
  double kernels_s;          /* Σ of operations on the compute stream that are no collectives */
  double waited;             /* share of an expert exchange that is waited for */
  double pieces, launch_s;
  double flops, sent[MAL_AXES + 1]; /* sent, and bytes over links: of what stays in a team */
  double inner_bytes, nic_bytes;
} mal_sim_list;

/* How a list goes on a rank: span and causes (summing to span), as on an idle machine. slow: kernel times over normal; link_left:
 * of the inner link. start, end (may be NULL): of each operation. */
typedef struct mal_sim_span {
  double span_s, cause_s[MAL_TIME_CAUSES];
} mal_sim_span;
mal_sim_span mal_sim_list_alone(const mal_sim_list *l, double slow, double link_left, double *start, double *end);

/* skip (may be NULL): instructions that are left out; returns them in *moved, in order. */
typedef bool mal_sim_skip(const mal_plan *plan, const mal_block *b, const mal_instruction *i);
void mal_sim_list_make(mal_sim_world *w, const mal_block *b, mal_list list, mal_sim_skip *skip, mal_sim_list *out,
                       mal_sim_list *moved);
/* A collective of the data-parallel ranks that is large enough to hide beside the passes. */
bool mal_sim_moves(const mal_plan *plan, const mal_block *b, const mal_instruction *i);
double mal_sim_op_seconds(const mal_sim_list *l, const mal_sim_op *op, double slow, double link_left);
#endif
