/* Copies between GPUs, host memory, drives and shared storage: offload, token ids, checkpoints. */
#include "price/kernel.h"
#include "price/upkeep.h"
#include "program/block.h"
#include "simulate/actor.h"
#include <math.h>

static mal_sim_transfer *copy_of(mal_sim *s, const mal_sim_actor *a, int from, int to, double bytes, int32_t handle) {
  mal_sim_transfer *t = mal_sim_take_transfer(s);
  t->meeting = t->to = -1;
  t->from = a->id;
  t->handle = handle;
  t->bytes = bytes;
  t->asked = s->now;
  mal_sim_room_uses(s, t, MAL_COPY_USES * a->class->n_sockets + 2);
  t->n_uses = mal_sim_copy_uses(s->w, a->id, from, to, t->uses);
  return t;
}

void mal_sim_copy(mal_sim *s, mal_sim_actor *a, const mal_sim_op *op, int32_t handle) {
  double launch = s->plan->machine.gpu->cal.launch_s.value, moving = op->seconds - launch;
  mal_sim_transfer *t = copy_of(s, a, op->places >> 4, op->places & 15, op->bytes, handle);
  t->limit = moving > 0 ? op->bytes / moving : INFINITY;
  mal_sim_schedule_flow(s, t, s->now + launch);
}

static void add_storage(mal_sim_transfer *t, int32_t link, double weight) {
  t->uses[t->n_uses++] = (mal_flow_use){link, (float)weight};
}

/* One rank of a team reads the ids of the next step, for all of it. */
static void start_reading(mal_sim *s, mal_sim_actor *a) {
  const mal_machine *m = &s->plan->machine;
  double team = (double)s->w->team_size, readers = fmax(1, (double)m->gpus_per_node / team);
  mal_sim_transfer *t =
      copy_of(s, a, MAL_HOST, MAL_HOST, mal_data_bytes(s->plan) * (double)s->p->micro_batches, MAL_SIM_READ_HANDLE);
  for (int32_t i = 0; i < t->n_uses; i++) t->uses[i].weight /= (float)team;
  add_storage(t, mal_sim_storage_read(s->w), (double)a->class->count);
  t->limit = mal_storage_reads(m).node / readers;
  a->reading = true;
  mal_sim_schedule_flow(s, t, s->now);
}

static void start_ids(mal_sim *s, mal_sim_actor *a) {
  mal_sim_transfer *t = copy_of(s, a, MAL_HOST, MAL_DEVICE, mal_data_bytes(s->plan), MAL_SIM_IDS_HANDLE);
  t->limit = mal_host_copy_rate(&s->plan->machine);
  mal_sim_schedule_flow(s, t, s->now + s->plan->machine.gpu->cal.launch_s.value);
}

static void start_saving(mal_sim *s, mal_sim_actor *a) {
  a->state = MAL_AT_SAVE;
  mal_sim_transfer *t = copy_of(s, a, MAL_DEVICE, MAL_HOST, s->watch->checkpoint_bytes, MAL_SIM_SAVE_HANDLE);
  t->limit = mal_host_copy_rate(&s->plan->machine);
  mal_sim_schedule_flow(s, t, s->now);
}

static void start_writing(mal_sim *s, mal_sim_actor *a) {
  mal_sim_transfer *t = copy_of(s, a, MAL_HOST, MAL_HOST, s->watch->checkpoint_bytes, MAL_SIM_WRITE_HANDLE);
  add_storage(t, mal_sim_storage_write(s->w), (double)(a->class->count * s->w->team_size));
  t->limit = mal_storage_writes(&s->plan->machine).node / (double)s->plan->machine.gpus_per_node;
  mal_sim_schedule_flow(s, t, s->now);
}

void mal_sim_begin(mal_sim *s, mal_sim_actor *a, bool saved) {
  if (s->watch->checkpoint_bytes > 0 && !saved) {
    start_saving(s, a);
    return;
  }
  if (saved) {
    mal_sim_draw(s, a, "checkpoint", MAL_STREAM_COMPUTE, -1, -1, 0, s->now);
    mal_sim_causes(s, a)[MAL_TIME_CHECKPOINT] += s->now;
    s->out->stalled_s = fmax(s->out->stalled_s, s->now);
    start_writing(s, a);
  }
  a->state = MAL_AT_NEXT;
  if (a->class->stage > 0) {
    mal_sim_advance(s, a);
    return;
  }
  a->state = MAL_AT_IDS;
  a->since = s->now;
  start_ids(s, a);
  start_reading(s, a);
}

void mal_sim_copied(mal_sim *s, const mal_sim_transfer *t) {
  mal_sim_actor *a = &s->actors[t->from];
  if (a->state == MAL_AT_DEAD) return;
  switch (t->handle) {
  case MAL_SIM_DP_HANDLE: mal_sim_job_step(s, a); break;
  case MAL_SIM_SAVE_HANDLE: mal_sim_push(s, s->now + s->watch->stall_s, a->id, MAL_EV_START, 1); break;
  case MAL_SIM_WRITE_HANDLE: s->out->written_s = fmax(s->out->written_s, s->now); break;
  case MAL_SIM_IDS_HANDLE:
    s->out->data_s = fmax(s->out->data_s, s->now - a->since);
    a->state = MAL_AT_NEXT;
    mal_sim_advance(s, a);
    break;
  case MAL_SIM_READ_HANDLE:
    a->reading = false;
    if (a->state != MAL_AT_READ) break;
    mal_sim_causes(s, a)[MAL_TIME_DATA] += s->now - a->since;
    a->state = MAL_AT_NEXT;
    mal_sim_advance(s, a);
    break;
  default:
    if (s->watch->detail) {
      const mal_sim_op *op = &a->run.list->ops[t->handle];
      mal_sim_draw(s, a, op->name, op->stream, -1, -1, t->asked, s->now);
    }
    mal_sim_op_ended(s, a, t->handle, s->now);
  }
}
