#include "design/refresh.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static mal_status redesign(mal_arena *a, const mal_design *before, const char *node, int64_t nodes, mal_design *out,
                           mal_error *e) {
  mal_design_ask k = before->ask;
  k.node = node, k.nodes = nodes, k.gpus = 0, k.spares = 0, k.grow = 0, k.ufm = false;
  k.whole_units |= before->managers > 0;
  if (before->has_fabric) k.leaf = before->leaf->name;
  return mal_design_make(a, &k, out, e);
}

/* --- cables ---------------------------------------------------------------------------------------------------------- */

typedef struct end {
  const mal_design *design;
  const mal_cable *cable;
} end;

static int by_ends(const void *x, const void *y) {
  const end *p = x, *q = y;
  const mal_hall *g = &p->design->hall, *h = &q->design->hall;
  int c = strcmp(g->units[p->cable->to].name, h->units[q->cable->to].name);
  if (!c) c = strcmp(p->cable->to_port, q->cable->to_port);
  if (!c) c = strcmp(g->units[p->cable->from].name, h->units[q->cable->from].name);
  return c ? c : strcmp(p->cable->from_port, q->cable->from_port);
}

static end *sorted(mal_arena *a, const mal_design *d) {
  end *all = MAL_ARRAY(a, end, d->n_cables + 1);
  for (int64_t i = 0; i < d->n_cables; i++) all[i] = (end){d, &d->cables[i]};
  qsort(all, (size_t)d->n_cables, sizeof *all, by_ends);
  return all;
}

/* A cable serves on when it is long enough for the new way, of the same kind, and its plugs fit: another rate is another plug. */
static bool serves(const mal_cable *old, const mal_cable *new) {
  return old->length_m >= new->route_m &&strcmp(old->medium, new->medium) == 0 && old->bytes_per_s == new->bytes_per_s;
}

static void compare_cables(mal_arena *a, mal_refresh *r) {
  const mal_design *x = r->before, *y = &r->after;
  const end *old = sorted(a, x), *new = sorted(a, y);
  bool plugs = x->machine.node->nic_bytes_per_s.value == y->machine.node->nic_bytes_per_s.value;
  int64_t i = 0, j = 0;
  while (i < x->n_cables && j < y->n_cables) {
    int c = by_ends(&old[i], &new[j]);
    bool host = strcmp(new[j].cable->tier, "node-leaf") == 0 && strcmp(new[j].cable->network, "compute") == 0;
    if (c == 0) r->cables_kept += serves(old[i].cable, new[j].cable) && (plugs || !host);
    i += c <= 0, j += c >= 0;
  }
  r->cables_gone = x->n_cables - r->cables_kept;
  r->cables_new = y->n_cables - r->cables_kept;
}

/* --- all ------------------------------------------------------------------------------------------------------------- */

static double sum_over(const mal_design *d, double each) {
  return (double)((d->nodes - d->spares) * d->machine.node->gpus) * each;
}

static double into_fabric(const mal_design *d) {
  if (!d->has_fabric) return 0;
  return d->compute.link_bytes_per_s * (double)d->compute.ask.rails / (double)d->machine.node->gpus;
}

static void compare(mal_arena *a, mal_refresh *r) {
  const mal_design *x = r->before, *y = &r->after;
  r->flops_before = sum_over(x, x->machine.gpu->flops[MAL_BF16].value);
  r->flops_after = sum_over(y, y->machine.gpu->flops[MAL_BF16].value);
  r->memory_before = sum_over(x, x->machine.gpu->memory_bytes.value);
  r->memory_after = sum_over(y, y->machine.gpu->memory_bytes.value);
  r->stream_before = sum_over(x, x->machine.gpu->memory_bytes_per_s.value);
  r->stream_after = sum_over(y, y->machine.gpu->memory_bytes_per_s.value);
  r->fabric_before = into_fabric(x), r->fabric_after = into_fabric(y);
  r->nic_share = 1;
  double nic = y->machine.node->nic_bytes_per_s.value;
  if (x->has_fabric && nic > 0) r->nic_share = fmin(1, x->leaf->port_bytes_per_s.value / nic);
  r->same_switches = x->has_fabric && mal_network_switches(&y->compute) <= mal_network_switches(&x->compute);
  if (x->has_fabric) compare_cables(a, r);
}

mal_status mal_design_refresh(mal_arena *a, const mal_design *before, const char *node, mal_refresh *r, mal_error *e) {
  mal_design all;
  *r = (mal_refresh){.before = before, .wanted = before->nodes};
  mal_status s = redesign(a, before, node, before->nodes, &all, e);
  if (s != MAL_OK) return mal_fail_in(e, _("with the new node"));
  r->racks_for_all = all.hall.node_racks;
  r->limit = all.hall.limit;
  int64_t held = before->hall.node_racks * all.hall.nodes_per_rack;
  r->after = all;
  if (held < before->nodes && redesign(a, before, node, held, &r->after, e) != MAL_OK)
    return mal_fail_in(e, _("with the new node"));
  compare(a, r);
  return MAL_OK;
}
