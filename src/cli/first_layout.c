/* Without --layout: a line to start from. A few usual splits are tried in order; the fastest that fits is said.
 * It is a start, not the best: comparing all splits is another verb's work. */
#include "cli/inputs.h"
#include "report/answer.h"
#include <string.h>

static const char *const usual[] = {
    "tp=8,zero=1,micro-batch=1,recompute=selective",
    "tp=8,pp=2,zero=1,micro-batch=1,recompute=selective",
    "tp=8,pp=4,zero=1,micro-batch=1,recompute=selective",
    "tp=8,pp=8,zero=1,micro-batch=1,recompute=selective",
    "tp=4,zero=1,micro-batch=1,recompute=selective",
    "tp=4,pp=2,zero=1,micro-batch=1,recompute=selective",
    "tp=4,pp=4,zero=1,micro-batch=1,recompute=selective",
    "tp=2,zero=1,micro-batch=1,recompute=selective",
    "tp=8,ep=8,etp=1,zero=1,micro-batch=1,recompute=selective",
    "tp=1,ep=8,zero=1,micro-batch=1,recompute=selective",
    "tp=1,zero=1,micro-batch=1,recompute=selective",
    "tp=1,zero=3,micro-batch=1,recompute=selective",
    "tp=1,zero=3,micro-batch=1,recompute=full",
    "tp=2,pp=2,zero=1,micro-batch=1,recompute=full",
    "tp=8,pp=8,zero=1,micro-batch=1,recompute=full",
    "tp=8,pp=16,zero=1,micro-batch=1,recompute=full",
    "tp=1,micro-batch=1,recompute=full",
};

typedef struct best {
  const char *fitting, *possible;
  double tokens_per_s;
} best;

static void consider(const mal_inputs *in, const char *text, best *b, mal_error *e) {
  mal_arena arena;
  mal_arena_init(&arena);
  mal_answer *answer = MAL_NEW(&arena, mal_answer);
  mal_inputs with = *in;
  mal_layout_default(&with.layout);
  mal_status status = mal_layout_parse(&arena, text, &with.layout, e);
  with.layout.offload_optimizer = in->layout.offload_optimizer;
  with.layout.offload_params = in->layout.offload_params;
  if (!status) status = mal_inputs_plan(&arena, &with, 0, &answer->plan, e);
  if (!status) status = mal_answer_find(&arena, answer, false, e);
  if (!status) {
    if (!b->possible) b->possible = text;
    if (mal_answer_fits(answer) && answer->estimate.tokens_per_s > b->tokens_per_s) {
      b->fitting = text;
      b->tokens_per_s = answer->estimate.tokens_per_s;
    }
  }
  mal_arena_free(&arena);
}

mal_status mal_first_layout(mal_arena *a, const mal_inputs *in, const char *verb, mal_error *e) {
  best b = {0};
  mal_error last = {0};
  mal_model model;
  mal_machine machine;
  mal_status status = mal_model_load(a, in->model, &model, e);
  if (!status) status = mal_machine_load(a, in->machines[0], &machine, e);
  if (status) return status;
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) consider(in, usual[i], &b, &last);
  const char *start = mal_print(a, "malha %s %s --on %s", verb, in->model, in->on);
  if (b.fitting)
    return mal_fail(e, MAL_BAD, _("How is it split? Add --layout. One that fits, to start from: %s --layout %s"), start,
                    b.fitting);
  if (b.possible)
    return mal_fail(e, MAL_BAD,
                    _("How is it split? Add --layout. None of the usual splits fits; this one says what would: "
                      "%s --layout %s"),
                    start, b.possible);
  return mal_fail(e, MAL_BAD, _("How is it split? Add --layout, as tp=8,pp=2. The usual splits do not work here: %s"),
                  last.text);
}
