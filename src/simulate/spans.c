/* How long passes take alone: of a unit, of a whole chunk; and how much that varies. */
#include "core/random.h"
#include "simulate/actor.h"
#include <math.h>

mal_sim_list *mal_sim_list_of(mal_sim *s, int block, int list) {
  const mal_block *b = &s->p->blocks[block];
  mal_sim_list *l = &s->lists[block * MAL_LISTS + list];
  if (!l->ops) mal_sim_list_make(s->w, b, (mal_list)list, NULL, l, NULL);
  return l;
}

/* Lists of a pass over one unit, in order; returns how many. */
int mal_sim_lists_of(int pass, int lists[2]) {
  if (pass == MAL_SIM_F) return lists[0] = MAL_L_F, 1;
  if (pass == MAL_SIM_W) return lists[0] = MAL_L_W, 1;
  lists[0] = MAL_L_R, lists[1] = pass == MAL_SIM_B ? MAL_L_B : MAL_L_BW;
  return 2;
}

mal_sim_variant *mal_sim_variant_of(mal_sim *s, double slow, double link_left) {
  int i = 0;
  while (i < s->n_variants && !(s->variants[i].slow == slow && s->variants[i].link_left == link_left)) i++;
  if (i == s->n_variants && i == MAL_SIM_VARIANTS) i = MAL_SIM_VARIANTS - 1; /* the last place is written over */
  mal_sim_variant *v = &s->variants[i];
  if (i < s->n_variants && v->slow == slow && v->link_left == link_left) return v;
  int64_t chunks = s->plan->layout.pp * s->pipe.chunks;
  if (i == s->n_variants) {
    s->n_variants++;
    v->pass = MAL_ARRAY(s->arena, mal_sim_span, s->p->n_blocks * MAL_SIM_PASSES);
    v->chunk = MAL_ARRAY(s->arena, mal_sim_span, chunks * MAL_SIM_PASSES);
  }
  for (int k = 0; k < s->p->n_blocks * MAL_SIM_PASSES; k++) v->pass[k].span_s = -1;
  for (int64_t k = 0; k < chunks * MAL_SIM_PASSES; k++) v->chunk[k].span_s = -1;
  v->slow = slow, v->link_left = link_left;
  return v;
}

static void add_span(mal_sim_span *into, const mal_sim_span *x) {
  into->span_s += x->span_s;
  for (int c = 0; c < MAL_TIME_CAUSES; c++) into->cause_s[c] += x->cause_s[c];
}

const mal_sim_span *mal_sim_unit_span(mal_sim *s, mal_sim_variant *v, int block, int pass) {
  mal_sim_span *known = &v->pass[block * MAL_SIM_PASSES + pass];
  if (known->span_s >= 0) return known;
  int lists[2], n = mal_sim_lists_of(pass, lists);
  *known = (mal_sim_span){0};
  for (int i = 0; i < n; i++) {
    mal_sim_span one = mal_sim_list_alone(mal_sim_list_of(s, block, lists[i]), v->slow, v->link_left, NULL, NULL);
    add_span(known, &one);
  }
  return known;
}

const mal_sim_span *mal_sim_chunk_span(mal_sim *s, mal_sim_variant *v, int64_t stage, int chunk, int pass) {
  mal_sim_span *known = &v->chunk[(stage * s->pipe.chunks + chunk) * MAL_SIM_PASSES + pass];
  if (known->span_s >= 0) return known;
  const mal_sim_chunk *c = &s->stages[stage].chunks[chunk];
  *known = (mal_sim_span){0};
  for (int32_t u = 0; u < c->n_units; u++) add_span(known, mal_sim_unit_span(s, v, c->units[u].block, pass));
  return known;
}

bool mal_sim_any_net(mal_sim *s, const mal_sim_chunk *c, int pass) {
  for (int32_t u = 0; u < c->n_units; u++)
    if (mal_sim_is_net(s, c->units[u].block, pass)) return true;
  return false;
}

/* The slowest of a team's ranks sets its pace: log-normal with mean 1. */
double mal_sim_jitter(mal_sim_actor *a, int64_t ranks) {
  static const double two_pi = 6.283185307179586;
  double sigma2 = log1p(a->class->cv * a->class->cv), most = 0;
  for (int64_t i = 0; i < ranks; i++) {
    double length = mal_unit_interval(mal_random_next(&a->random)),
           turn = mal_unit_interval(mal_random_next(&a->random));
    double normal = sqrt(-2 * log(length)) * cos(two_pi * turn);
    most = fmax(most, exp(sqrt(sigma2) * normal - sigma2 / 2));
  }
  return most;
}
