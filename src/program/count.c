/* What a step adds up to: FLOPs of all ranks, bytes sent by a rank of the busiest stage. */
#include "program/lower.h"

int64_t mal_program_list_runs(const mal_program *p, const mal_chunk *c, mal_list list) {
  const mal_profile *profile = p->plan->profile;
  if (list == MAL_L_GATHER) return c->micro_batches * (profile->regather_backward ? 2 : 1);
  return c->micro_batches;
}

/* --- FLOPs ------------------------------------------------------------------------------------------------------------- */

static void count_flops(mal_program *p) {
  const mal_layout *l = &p->plan->layout;
  double ranks = (double)(l->tp * l->cp * l->dp), model = 0, executed = 0;
  for (int64_t s = 0; s < l->pp; s++) {
    const mal_stage *stage = &p->stages[s];
    for (int c = 0; c < stage->n_chunks; c++)
      for (int i = 0; i < stage->chunks[c].n_runs; i++) {
        const mal_chunk *chunk = &stage->chunks[c];
        const mal_block *b = &p->blocks[chunk->runs[i].block];
        for (int list = 0; list < MAL_LISTS; list++) {
          double times = (double)chunk->runs[i].count * (double)mal_program_list_runs(p, chunk, (mal_list)list);
          model += times * b->model_flops[list];
          executed += times * b->flops[list];
        }
      }
    executed += p->blocks[stage->sync].flops[MAL_L_F] + p->blocks[stage->optimizer].flops[MAL_L_F];
  }
  p->model_flops = model * ranks;
  p->hardware_flops = executed * ranks;
}

/* --- bytes sent ---------------------------------------------------------------------------------------------------------- */

/* The axis a group is counted under: the data-parallel ones first, for context parallel ranks belong to those groups too. */
int mal_program_axis(unsigned axes) {
  if (axes == MAL_AXES_SHARD || axes == MAL_AXES_REPLICA) return MAL_AXIS_DP;
  static const int order[MAL_AXES] = {MAL_AXIS_DP, MAL_AXIS_EDP, MAL_AXIS_EP, MAL_AXIS_ETP,
                                      MAL_AXIS_TP, MAL_AXIS_CP,  MAL_AXIS_PP};
  for (int i = 0; i < MAL_AXES; i++)
    if (axes & 1u << order[i]) return order[i];
  return MAL_AXES;
}

/* Bytes that one of `size` ranks sends, by the convention of rings. */
static double collective_sent(int collective, double bytes, double size) {
  if (size <= 1) return 0;
  double share = (size - 1) / size;
  return collective == MAL_ALL_REDUCE ? 2 * share * bytes : share * bytes;
}

static void add_list(const mal_program *p, const mal_block *b, mal_list list, double times, double *sent) {
  const mal_plan *plan = p->plan;
  for (int i = 0; i < b->count[list]; i++) {
    const mal_instruction *x = &b->list[list][i];
    if (!x->axes || (x->op != MAL_OP_COLLECTIVE && x->op != MAL_OP_SEND)) continue;
    double bytes = (double)b->sizes[x->sizes].v[0];
    double size = (double)mal_instruction_group(plan, x->axes).size;
    sent[mal_program_axis(x->axes)] +=
        times * (x->op == MAL_OP_SEND ? bytes : collective_sent(x->variant, bytes, size));
  }
}

/* Messages to other stages in one step: forward unless last, backward unless first. */
static double stage_messages(const mal_program *p, const mal_stage *stage) {
  const mal_layout *l = &p->plan->layout;
  int64_t parts = l->schedule == MAL_DUALPIPE ? l->pp : l->pp * stage->n_chunks, sends = 0;
  if (l->pp == 1) return 0;
  for (int c = 0; c < stage->n_chunks; c++)
    sends += stage->chunks[c].micro_batches * ((stage->chunks[c].part < parts - 1) + (stage->chunks[c].part > 0));
  return (double)sends;
}

void mal_program_sent(const mal_program *p, int64_t index, double sent[MAL_AXES + 1]) {
  const mal_stage *stage = &p->stages[index];
  for (int i = 0; i <= MAL_AXES; i++) sent[i] = 0;
  for (int c = 0; c < stage->n_chunks; c++)
    for (int i = 0; i < stage->chunks[c].n_runs; i++)
      for (int list = 0; list < MAL_LISTS; list++) {
        const mal_run *run = &stage->chunks[c].runs[i];
        double times = (double)run->count * (double)mal_program_list_runs(p, &stage->chunks[c], (mal_list)list);
        add_list(p, &p->blocks[run->block], (mal_list)list, times, sent);
      }
  add_list(p, &p->blocks[stage->sync], MAL_L_F, 1, sent);
  add_list(p, &p->blocks[stage->optimizer], MAL_L_F, 1, sent);
  sent[MAL_AXES] += stage_messages(p, stage) * (double)p->boundary_bytes;
}

static void count_sent(mal_program *p) {
  double most = -1;
  for (int64_t s = 0; s < p->plan->layout.pp; s++) {
    double sent[MAL_AXES + 1], all = 0;
    mal_program_sent(p, s, sent);
    for (int i = 0; i <= MAL_AXES; i++) all += sent[i];
    if (all <= most) continue;
    most = all;
    for (int i = 0; i <= MAL_AXES; i++) p->bytes_sent[i] = sent[i];
  }
}

void mal_program_count(mal_program *p) {
  count_flops(p);
  count_sent(p);
}
