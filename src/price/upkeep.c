#include "price/upkeep.h"
#include "price/kernel.h"
#include "program/lower_block.h"
#include "reliability/reliability.h"
#include <math.h>

/* One node and one scalable unit of 32 nodes get what "better" storage gives in the DGX SuperPOD H100 reference architecture
 * (RA-11333-001, table 6). Restart after a failure: judgement. */
static const mal_storage_rate unit_write = {4e9, 20e9}, unit_read = {8e9, 40e9};
static const double unit_nodes = 32, restart_s = 300;
/* What an asynchronous checkpoint stops besides the copy (plan, barriers, unpinned buffers): 6.3 s for 7B parameters, of which the
 * copy is little (PyTorch blog, "Reducing Model Checkpointing Times by Over 10x", 2024). */
static const double stall_least_s = 6.3;
static const double id_bytes = 8; /* of a token: its id and its label, four bytes each */

double mal_data_bytes(const mal_plan *plan) {
  return (double)plan->layout.micro_batch * (double)plan->job.seq / (double)plan->layout.cp * id_bytes;
}

static double data_s(const mal_plan *plan) {
  return mal_data_bytes(plan) / mal_host_copy_rate(&plan->machine) + plan->machine.gpu->cal.launch_s.value;
}

static mal_storage_rate of_units(const mal_machine *m, mal_storage_rate unit) {
  double nodes = (double)m->nodes;
  return (mal_storage_rate){unit.node, fmin(nodes * unit.node, ceil(nodes / unit_nodes) * unit.all)};
}
mal_storage_rate mal_storage_writes(const mal_machine *m) { return of_units(m, unit_write); }
mal_storage_rate mal_storage_reads(const mal_machine *m) { return of_units(m, unit_read); }

double mal_checkpoint_bytes(const mal_program *p) {
  const mal_plan *plan = p->plan;
  const mal_layout *l = &plan->layout;
  double trained = 0;
  for (int64_t s = 0; s < l->pp; s++)
    trained += (double)p->stages[s].dense_elements * (double)l->tp +
               (double)p->stages[s].expert_elements * (double)(l->ep * l->etp);
  if (l->schedule == MAL_DUALPIPE) trained /= 2; /* each part of the model lies on two stages */
  int64_t weight = mal_dtype_bytes[mal_precision_store((mal_precision)plan->job.precision)];
  double each = (double)weight + (plan->profile->master_fp32 && weight < 4 ? 4 : 0);
  each += (double)mal_optimizer_state_bytes(plan->job.optimizer, 1 << 20, 0) / (1 << 20);
  return trained * each;
}

static double node_failures(const mal_machine *m) {
  return mal_node_failures(m->gpu->failures_per_node_day.value, (double)m->gpus_per_node);
}

void mal_upkeep_horizon(mal_arena *a, const mal_plan *plan, const mal_upkeep *u, mal_horizon_job *j) {
  j->nodes = plan->machine.nodes;
  j->kinds = mal_failure_kinds(a, node_failures(&plan->machine), &j->n_kinds);
  j->interval_s = u->interval_s, j->stall_s = u->stall_s, j->write_s = u->write_s;
  j->restart_s = u->restart_s + u->read_s;
}

mal_upkeep mal_upkeep_of(const mal_program *p) {
  const mal_plan *plan = p->plan;
  const mal_job *j = &plan->job;
  double bytes = mal_checkpoint_bytes(p), mttf = mal_mttf_s(node_failures(&plan->machine), plan->machine.nodes);
  mal_upkeep u = {
      .data_s = data_s(plan), .restart_s = restart_s, .in_step = j->tokens > 0 || j->checkpoint_interval_s > 0};
  u.stall_s = stall_least_s + bytes / (double)mal_machine_gpus(&plan->machine) / mal_host_copy_rate(&plan->machine);
  u.write_s = bytes / mal_storage_writes(&plan->machine).all;
  u.read_s = bytes / mal_storage_reads(&plan->machine).all;
  u.interval_s = j->checkpoint_interval_s > 0 ? j->checkpoint_interval_s : mal_interval_daly_s(u.stall_s, mttf);
  u.interval_s = fmax(u.interval_s, u.write_s);
  /* A failure goes back to the last checkpoint that storage has. */
  u.goodput = mal_ettr(mttf, restart_s + u.read_s + u.write_s, u.interval_s, u.in_step ? 0 : u.stall_s);
  return u;
}

void mal_upkeep_add(const mal_upkeep *u, mal_step_time *step) {
  step->step_s += u->data_s;
  step->time_s[MAL_TIME_DATA] += u->data_s;
  if (!u->in_step || u->interval_s <= 0) return;
  double stall = step->step_s * u->stall_s / u->interval_s;
  step->step_s += stall;
  step->time_s[MAL_TIME_CHECKPOINT] += stall;
}
