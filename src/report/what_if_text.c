/* What a better machine or another batch would give. */
#include "core/units.h"
#include "report/answer.h"
#include <math.h>

static const char *const words[] = {N_("NIC 10 % faster"),        N_("NVLink 10 % faster"),
                                    N_("GPU memory 10 % faster"), N_("GPU memory 10 % larger"),
                                    N_("half the batch"),         N_("twice the batch")};
_Static_assert(sizeof words / sizeof *words == MAL_IFS, "words for each");

void mal_report_what_ifs(mal_page *p, const mal_answer *a) {
  mal_table t;
  mal_page_styled(p, MAL_BOLD, "%s", _("\nWhat would change its speed\n"));
  mal_table_init(&t, p->arena, 2, "lrrw");
  mal_table_row(&t, MAL_DIM, _("with"), "tokens/s", "", _("best layout then"));
  for (int i = 0; i < MAL_IFS; i++) {
    const mal_what_if *x = &a->what_ifs[i];
    if (!x->known) continue;
    mal_table_row(&t, MAL_PLAIN, _(words[i]), mal_show_int((int64_t)(x->tokens_per_s + 0.5)),
                  fabs(x->gain) < 0.0005 ? "0.0 %" : mal_print(p->arena, "%+.1f %%", 100 * x->gain),
                  x->same_layout ? _("the same") : mal_spaced(p->arena, mal_plan_layout(p->arena, &x->plan)));
  }
  mal_table_put(&t, p);
}

json_t *mal_report_what_ifs_json(mal_arena *arena, const mal_answer *a) {
  json_t *list = json_array();
  for (int i = 0; i < MAL_IFS; i++) {
    const mal_what_if *x = &a->what_ifs[i];
    if (!x->known) continue;
    json_t *o = json_object();
    json_object_set_new(o, "with", json_string(mal_if_name[i]));
    json_object_set_new(o, "tokens_per_s", json_real(x->tokens_per_s));
    json_object_set_new(o, "gain", json_real(x->gain));
    json_object_set_new(o, "layout", json_string(mal_plan_layout(arena, &x->plan)));
    json_object_set_new(o, "same_layout", json_boolean(x->same_layout));
    json_array_append_new(list, o);
  }
  return list;
}
