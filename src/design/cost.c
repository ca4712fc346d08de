#include "design/cost.h"
#include <math.h>
#include <string.h>

static const double hours_a_year = 8766;

static void add_parts(const mal_design *d, mal_cost *c) {
  c->parts = d->n_parts;
  for (int i = 0; i < d->n_parts; i++) {
    const mal_part *p = &d->parts[i];
    if (p->price < 0) continue;
    c->priced++;
    c->capex += p->count * p->price;
    c->nodes_priced |= strcmp(p->part, d->machine.node->name) == 0;
  }
}

/* Renting has no spares to pay for: the GPUs that work are compared. */
void mal_design_cost(const mal_design *d, mal_cost *c) {
  const mal_node *n = d->machine.node;
  double gpus = (double)((d->nodes - d->spares) * n->gpus);
  *c = (mal_cost){.years = d->ask.years};
  add_parts(d, c);
  c->energy_per_hour = d->cost_per_day / 24;
  c->upkeep_per_hour = c->capex * d->ask.upkeep / hours_a_year;
  c->rent_per_gpu_hour = d->ask.rent;
  c->rent_source = "--rent";
  if (c->rent_per_gpu_hour <= 0 && n->usd_per_hour.value > 0 && strcmp(d->site.currency, "USD") == 0) {
    c->rent_per_gpu_hour = n->usd_per_hour.value / (double)n->gpus;
    c->rent_source = n->usd_per_hour.source;
  }
  if (!c->nodes_priced || gpus <= 0) return;
  double running = c->energy_per_hour + c->upkeep_per_hour;
  c->per_gpu_hour = (c->capex / (c->years * hours_a_year) + running) / gpus;
  if (c->rent_per_gpu_hour <= 0) return;
  double saved = c->rent_per_gpu_hour * gpus - running;
  c->break_even_s = saved > 0 ? c->capex / saved * 3600 : -1;
}
