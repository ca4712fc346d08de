#include "search/contest.h"
#include <math.h>

static const double rounding = 1e-9; /* relative */

void mal_contest_open(mal_contest *c, int keep, double most) {
  c->keep = keep, c->count = 0;
  atomic_init(&c->limit, most);
  pthread_mutex_init(&c->lock, NULL);
}

void mal_contest_close(mal_contest *c) { pthread_mutex_destroy(&c->lock); }

/* A fixed order over layouts of equal score and bytes: nothing special first. */
static bool simpler(const mal_layout *x, const mal_layout *y) {
  const int64_t pairs[][2] = {{x->offload_optimizer, y->offload_optimizer},
                              {x->offload_params, y->offload_params},
                              {x->recompute, y->recompute},
                              {x->schedule, y->schedule},
                              {x->embedding_in_layers, y->embedding_in_layers},
                              {x->pp, y->pp},
                              {x->vpp, y->vpp},
                              {x->cp, y->cp},
                              {x->cp_kind, y->cp_kind},
                              {x->tp, y->tp},
                              {x->etp, y->etp},
                              {x->ep, y->ep},
                              {x->hybrid, y->hybrid},
                              {x->zero, y->zero},
                              {x->sequence_parallel, y->sequence_parallel},
                              {x->micro_batch, y->micro_batch},
                              {x->recompute_layers, y->recompute_layers}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (pairs[i][0] != pairs[i][1]) return pairs[i][0] < pairs[i][1];
  return false;
}

static void insert(mal_contest *c, const mal_entry *e) {
  int at = 0;
  while (at < c->count && c->best[at].score < e->score * (1 - rounding)) at++;
  if (at < c->count && c->best[at].score <= e->score * (1 + rounding)) {
    mal_entry *same = &c->best[at];
    if (e->bytes < same->bytes || (e->bytes == same->bytes && simpler(&e->layout, &same->layout))) *same = *e;
    return;
  }
  if (at == c->keep) return;
  for (int i = c->count < c->keep ? c->count : c->keep - 1; i > at; i--) c->best[i] = c->best[i - 1];
  c->best[at] = *e;
  if (c->count < c->keep) c->count++;
}

static void tighten(mal_contest *c, double limit) {
  if (limit < atomic_load(&c->limit)) atomic_store(&c->limit, limit);
}

void mal_contest_enter(mal_contest *c, const mal_entry *e) {
  pthread_mutex_lock(&c->lock);
  if (e->score <= atomic_load(&c->limit)) insert(c, e);
  if (c->count == c->keep) tighten(c, c->best[c->count - 1].score * (1 + 2 * rounding));
  pthread_mutex_unlock(&c->lock);
}

void mal_contest_end(mal_contest *c) {
  pthread_mutex_lock(&c->lock);
  tighten(c, -INFINITY);
  pthread_mutex_unlock(&c->lock);
}
