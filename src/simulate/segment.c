/* Stretches of compute on a rank, what is drawn of them and what they count. */
#include "simulate/actor.h"

static const char *const pass_name[MAL_SIM_PASSES] = {"F", "B", "W", "BW"};

int64_t mal_sim_rank(const mal_sim *s, const mal_sim_actor *a) { return a->class->team * s->w->team_size; }

void mal_sim_draw(mal_sim *s, const mal_sim_actor *a, const char *name, int stream, int chunk, int64_t micro_batch,
                  double start, double end) {
  if (!s->watch->timeline || end <= start) return;
  for (int i = 0; i < a->n_ranks; i++)
    mal_timeline_add(s->watch->timeline, (mal_event){name, (int32_t)s->watch->ranks[s->ranks[a->first_rank + i]],
                                                     stream, chunk, (int32_t)micro_batch, start, end});
}

void mal_sim_count(mal_sim *s, mal_sim_actor *a, const mal_sim_list *l, double times) {
  double ranks = (double)(a->class->count * s->w->team_size), *sent = s->out->sent + a->id * (MAL_AXES + 1);
  s->out->flops += times * l->flops * ranks;
  s->out->inner_bytes += times * ranks * l->inner_bytes;
  s->out->nic_bytes += times * ranks * l->nic_bytes;
  for (int i = 0; i <= MAL_AXES; i++) sent[i] += times * l->sent[i]; /* over shared links: counted where it moves */
}

void mal_sim_set_rate(mal_sim *s, mal_sim_actor *a, double rate) {
  if (rate == a->rate) return;
  a->left -= (s->now - a->since) * a->rate;
  if (a->left < 0) a->left = 0;
  a->since = s->now;
  a->rate = rate;
  mal_sim_push(s, s->now + a->left / rate, a->id, MAL_EV_SEGMENT, ++a->version);
}

void mal_sim_start_segment(mal_sim *s, mal_sim_actor *a, const mal_sim_span *span, double factor) {
  a->state = MAL_AT_SEGMENT;
  a->span = span;
  a->segment_s = (span->span_s - (1 - a->waited) * span->cause_s[MAL_TIME_EP]) * factor;
  a->left = a->segment_s;
  a->since = s->now;
  a->rate = a->dp_moving ? 1 / (1 + s->beside) : 1;
  a->run.begun = s->now;
  mal_sim_computes(s, a, true);
  mal_sim_push(s, s->now + a->left / a->rate, a->id, MAL_EV_SEGMENT, ++a->version);
}

/* Operations of a unit, for those who watch. */
void mal_sim_draw_unit(mal_sim *s, mal_sim_actor *a, int block, double scale) {
  int lists[2], n = mal_sim_lists_of(a->pass, lists);
  double from = a->run.begun;
  for (int i = 0; i < n; i++) {
    const mal_sim_list *l = mal_sim_list_of(s, block, lists[i]);
    if (!l->n) continue;
    double *start = MAL_ARRAY(s->arena, double, 2 * l->n), *end = start + l->n;
    mal_sim_span one = mal_sim_list_alone(l, a->slow, a->class->link_left, start, end);
    for (int k = 0; k < l->n; k++)
      mal_sim_draw(s, a, l->ops[k].name, l->ops[k].stream, a->chunk, a->micro_batch, from + start[k] * scale,
                   from + end[k] * scale);
    from += one.span_s * scale;
  }
}

void mal_sim_end_segment(mal_sim *s, mal_sim_actor *a) {
  double took = s->now - a->run.begun, beside = took - a->segment_s;
  double *cause = mal_sim_causes(s, a), told = 0;
  for (int c = 0; c < MAL_TIME_CAUSES; c++) told += a->span->cause_s[c];
  told -= (1 - a->waited) * a->span->cause_s[MAL_TIME_EP];
  double scale = told > 0 ? a->segment_s / told : 0;
  for (int c = 0; c < MAL_TIME_CAUSES; c++)
    cause[c] += a->span->cause_s[c] * scale * (c == MAL_TIME_EP ? a->waited : 1);
  cause[MAL_TIME_DP] += beside;
  s->out->compute_s[a->id] += took;
  mal_sim_computes(s, a, false);
  a->state = MAL_AT_NEXT;
}

void mal_sim_draw_pass(mal_sim *s, mal_sim_actor *a, double from) {
  mal_sim_draw(s, a, pass_name[a->pass], MAL_STREAM_COMPUTE, a->chunk, a->micro_batch, from, s->now);
}
