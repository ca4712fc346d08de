/* The data-parallel stream of an actor: jobs one after the other, each a stretch of a list. */
#include "simulate/actor.h"

void mal_sim_add_job(mal_sim *s, mal_sim_actor *a, mal_sim_job job) {
  if (job.from >= job.to) return;
  if (a->first_job == a->n_jobs) a->first_job = a->n_jobs = 0;
  if (a->n_jobs == a->room_jobs) {
    int32_t room = a->room_jobs ? 2 * a->room_jobs : 16;
    a->jobs = mal_grow(s->arena, a->jobs, (size_t)a->room_jobs, (size_t)room, sizeof *a->jobs);
    a->room_jobs = room;
  }
  a->jobs[a->n_jobs++] = job;
  mal_sim_kick(s, a);
}

/* Kernels on this stream (casts) share the GPU with compute as collectives do. */
static double local_seconds(const mal_sim *s, const mal_sim_actor *a, const mal_sim_list *l, const mal_sim_op *op) {
  double seconds = mal_sim_op_seconds(l, op, a->slow, a->class->link_left);
  return a->state == MAL_AT_SEGMENT || a->state == MAL_AT_LIST ? seconds * (1 + s->beside) : seconds;
}

static void count_op(mal_sim *s, const mal_sim_actor *a, const mal_sim_op *op) {
  double ranks = (double)(a->class->count * s->w->team_size);
  s->out->flops += ranks * op->flops;
  if (op->kind < 0) return;
  s->out->sent[a->id * (MAL_AXES + 1) + op->axis] += op->sent;
  s->out->inner_bytes += ranks * (op->time.nvlink_bytes + op->time.pcie_bytes);
  s->out->nic_bytes += ranks * op->time.nic_bytes;
}

void mal_sim_kick(mal_sim *s, mal_sim_actor *a) {
  if (a->dp_busy || a->first_job == a->n_jobs || a->state == MAL_AT_DEAD) return;
  const mal_sim_job *job = &a->jobs[a->first_job];
  const mal_sim_op *op = &job->list->ops[job->from + a->job_at];
  a->dp_busy = true;
  a->dp_meeting = -1;
  a->dp_since = s->now;
  if (op->copy) {
    mal_sim_copy(s, a, op, MAL_SIM_DP_HANDLE);
    return;
  }
  if (op->net) {
    mal_sim_arrive(s, a, job->list, op, MAL_SIM_DP_HANDLE);
    return;
  }
  count_op(s, a, op);
  if (s->beside > 0) {
    a->dp_moving = true;
    mal_sim_list_beside(s, a, true);
    if (a->state == MAL_AT_SEGMENT) mal_sim_set_rate(s, a, 1 / (1 + s->beside));
  }
  mal_sim_push(s, s->now + local_seconds(s, a, job->list, op), a->id, MAL_EV_DP, 0);
}

void mal_sim_job_step(mal_sim *s, mal_sim_actor *a) {
  mal_sim_job job = a->jobs[a->first_job];
  if (a->dp_meeting < 0) {
    const mal_sim_op *op = &job.list->ops[job.from + a->job_at];
    mal_sim_draw(s, a, op->name, MAL_STREAM_DP, -1, -1, a->dp_since, s->now);
    if (a->dp_moving && a->state == MAL_AT_SEGMENT) mal_sim_set_rate(s, a, 1);
    if (a->dp_moving) mal_sim_list_beside(s, a, false);
    a->dp_moving = false;
  }
  a->dp_busy = false;
  a->dp_meeting = -1;
  if (++a->job_at < job.to - job.from) {
    mal_sim_kick(s, a);
    return;
  }
  a->job_at = 0;
  a->first_job++;
  if (job.what == MAL_JOB_GATHER) a->gathers_done++;
  if (job.what == MAL_JOB_PARAMS) a->params_done++;
  if (job.what == MAL_JOB_REDUCE) a->reducing--;
  mal_sim_kick(s, a);
  mal_sim_advance(s, a);
}
