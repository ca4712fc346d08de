/* What a fault costs, from the model: the machine with the fault against the machine without. */
#include "check/node/health.h"
#include "program/program.h"
#include <string.h>

static const char reference_model[] = "llama-3-8b";
enum { REFERENCE_SEQ = 4096 };
static const double message_bytes = 1073741824; /* of the all-reduce: 1 GiB */

static void scale(mal_value *v, double factor) { v->value *= factor; }

static mal_machine hurt(mal_arena *a, const mal_machine *m, const mal_damage *d) {
  mal_machine copy = *m;
  copy.gpu = MAL_NEW(a, mal_gpu);
  copy.node = MAL_NEW(a, mal_node);
  *copy.gpu = *m->gpu;
  *copy.node = *m->node;
  scale(&copy.gpu->nvlink_bytes_per_s, d->nvlink);
  scale(&copy.gpu->pcie_bytes_per_s, d->pcie);
  scale(&copy.node->nic_bytes_per_s, d->nic);
  for (int i = 0; i < MAL_DTYPES; i++) scale(&copy.gpu->flops[i], d->compute);
  if (d->no_nvlink) copy.node->nvlink_domain = 1;
  if (d->no_nvls) copy.gpu->cal.nvls.value = 0;
  if (d->no_p2p) copy.gpu->p2p = false;
  return copy;
}

/* A step of the reference job: every GPU a shard (ZeRO-3), one sequence each. 0 when it cannot be priced there. */
static double step_on(mal_arena *a, const mal_machine *m, const char *spec) {
  mal_job job;
  mal_layout l;
  mal_plan *plan = MAL_NEW(a, mal_plan);
  mal_program *program = MAL_NEW(a, mal_program);
  mal_estimate *estimate = MAL_NEW(a, mal_estimate);
  mal_error ignored;
  mal_job_default(&job);
  mal_layout_default(&l);
  job.seq = REFERENCE_SEQ;
  l.zero = 3;
  l.micro_batch = 1;
  if (mal_plan_make(a, reference_model, spec, "", &job, &l, plan, &ignored) != MAL_OK) return 0;
  plan->machine = *m;
  if (mal_plan_complete(a, plan, &ignored) != MAL_OK || mal_lower(a, plan, program, &ignored) != MAL_OK ||
      mal_price(a, program, estimate, &ignored) != MAL_OK)
    return 0;
  return estimate->step_s;
}

static bool is_damage(const mal_damage *d) {
  return d->nvlink != 1 || d->pcie != 1 || d->nic != 1 || d->compute != 1 || d->no_nvlink || d->no_nvls || d->no_p2p;
}

static bool same(const mal_damage *a, const mal_damage *b) {
  return a->nvlink == b->nvlink && a->pcie == b->pcie && a->nic == b->nic && a->compute == b->compute &&
         a->no_nvlink == b->no_nvlink && a->no_nvls == b->no_nvls && a->no_p2p == b->no_p2p;
}

static void cost_one(mal_health *h, mal_finding *f) {
  mal_machine m = h->machine;
  bool between = f->damage.nic != 1 && m.node->nics.value > 0; /* felt between nodes only */
  m.nodes = between ? 2 : 1;
  mal_machine bad = hurt(h->arena, &m, &f->damage), good = hurt(h->arena, &m, &mal_no_damage);
  int64_t ranks = m.gpus_per_node * m.nodes;
  f->busbw_nodes = (int)m.nodes;
  if (ranks > 1) {
    f->busbw[0] = mal_expected_busbw(&good, MAL_ALL_REDUCE, ranks, m.nodes, message_bytes);
    f->busbw[1] = mal_expected_busbw(&bad, MAL_ALL_REDUCE, ranks, m.nodes, message_bytes);
  }
  const char *spec =
      mal_print(h->arena, "%lldx%s", (long long)m.gpus_per_node, m.gpu->name); /* any that loads: it is replaced */
  f->step_s[0] = step_on(h->arena, &good, spec);
  f->step_s[1] = step_on(h->arena, &bad, spec);
  f->costed = true;
}

enum { PRICED_MOST = 24 }; /* different faults */

void mal_cost_findings(mal_health *h) {
  int priced = 0;
  if (!h->has_machine) return;
  for (int i = 0; i < h->n_findings; i++) {
    mal_finding *f = &h->findings[i];
    if (!is_damage(&f->damage)) continue;
    for (int j = 0; j < i && !f->costed; j++) {
      const mal_finding *o = &h->findings[j];
      if (!o->costed || !same(&o->damage, &f->damage)) continue;
      memcpy(f->busbw, o->busbw, sizeof f->busbw);
      memcpy(f->step_s, o->step_s, sizeof f->step_s);
      f->busbw_nodes = o->busbw_nodes;
      f->costed = true;
    }
    if (!f->costed && priced++ < PRICED_MOST) cost_one(h, f);
  }
}
