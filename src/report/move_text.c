/* Machines side by side: when it pays to move from the first to another. */
#include "core/units.h"
#include "report/answer.h"
#include "search/move.h"
#include <math.h>

enum { LABEL = 10 };
static const double example_usd = 1000; /* what a move costs, in words */

static const char *usd(mal_arena *a, double x) {
  return fabs(x) >= 1000 ? mal_print(a, "USD %s", mal_show_count(x)) : mal_print(a, "USD %.3g", x);
}

static const char *name_of(const mal_answer *a) { return a->inverse ? a->plan.machine_spec : a->asked; }

static const char *prices(mal_arena *a, const mal_move *m, double now) {
  if (m->usd_per_gpu_hour <= 0 || now <= 0) return "";
  return mal_print(a, _(": below USD %.3g, and it is USD %.3g"), m->usd_per_gpu_hour, now);
}

static void put_one(mal_page *p, const mal_answer *from, const mal_answer *to) {
  mal_move m = mal_move_between(&from->plan, &from->estimate, &to->plan, &to->estimate);
  mal_page_field(p, LABEL, _("move"), _("from %s to %s pays while a GPU-hour costs less than %.3g times as much%s"),
                 name_of(from), name_of(to), m.price_ratio, prices(p->arena, &m, mal_usd_per_gpu_hour(&to->plan)));
  if (m.saved_usd_per_mtoken > 0)
    mal_page_field(p, LABEL, "",
                   _("saves %s a million tokens (%.0f %%): each %s that the move costs are back after %s tokens, %s"),
                   usd(p->arena, m.saved_usd_per_mtoken), 100 * m.saved_share, usd(p->arena, example_usd),
                   mal_show_count(example_usd * m.tokens_per_usd), mal_show_time(example_usd * m.seconds_per_usd));
  else if (m.saved_usd_per_mtoken < 0)
    mal_page_field(p, LABEL, "", _("costs %s a million tokens more (%.0f %%) at these prices"),
                   usd(p->arena, -m.saved_usd_per_mtoken), -100 * m.saved_share);
  if (m.sooner_s != 0)
    mal_page_field(
        p, LABEL, "", m.sooner_s > 0 ? _("the target is reached %s sooner%s") : _("the target is reached %s later%s"),
        mal_show_time(fabs(m.sooner_s)),
        m.saved_usd == 0  ? ""
        : m.saved_usd > 0 ? mal_print(p->arena, _(", and the move may cost up to %s"), usd(p->arena, m.saved_usd))
                          : mal_print(p->arena, _(", for %s more"), usd(p->arena, -m.saved_usd)));
}

void mal_report_moves(mal_page *p, const mal_answer *answers, int count) {
  if (!mal_answer_fits(&answers[0])) return;
  for (int i = 1; i < count; i++)
    if (mal_answer_fits(&answers[i])) put_one(p, &answers[0], &answers[i]);
}

static json_t *real_or_null(bool known, double x) { return known && isfinite(x) ? json_real(x) : json_null(); }

static json_t *move_json(const mal_answer *from, const mal_answer *to) {
  mal_move m = mal_move_between(&from->plan, &from->estimate, &to->plan, &to->estimate);
  bool priced = from->estimate.usd_per_mtoken > 0 && to->estimate.usd_per_mtoken > 0;
  json_t *o = json_object();
  json_object_set_new(o, "from", json_string(name_of(from)));
  json_object_set_new(o, "to", json_string(name_of(to)));
  json_object_set_new(o, "price_ratio", json_real(m.price_ratio));
  json_object_set_new(o, "usd_per_gpu_hour", real_or_null(m.usd_per_gpu_hour > 0, m.usd_per_gpu_hour));
  json_object_set_new(o, "saved_usd_per_mtoken", real_or_null(priced, m.saved_usd_per_mtoken));
  json_object_set_new(o, "tokens_per_usd", real_or_null(m.tokens_per_usd > 0, m.tokens_per_usd));
  json_object_set_new(o, "seconds_per_usd", real_or_null(m.tokens_per_usd > 0, m.seconds_per_usd));
  json_object_set_new(o, "sooner_s", real_or_null(from->estimate.time_to_target_s > 0, m.sooner_s));
  json_object_set_new(o, "saved_usd", real_or_null(priced && from->estimate.time_to_target_s > 0, m.saved_usd));
  return o;
}

json_t *mal_report_moves_json(const mal_answer *answers, int count) {
  json_t *list = json_array();
  for (int i = 1; i < count && mal_answer_fits(&answers[0]); i++)
    if (mal_answer_fits(&answers[i])) json_array_append_new(list, move_json(&answers[0], &answers[i]));
  return list;
}
