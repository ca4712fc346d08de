/* Software and acceptance tests of a design, for people and as JSON. */
#include "report/design_kit.h"
#include "core/units.h"
#include "design/kit/acceptance.h"

void mal_report_software(mal_page *p, const mal_design *d) {
  const mal_software *s = d->software;
  mal_table t;
  mal_page_styled(p, MAL_BOLD, "\n%s\n", _("Software"));
  mal_page_put(p, "  ");
  mal_page_wrap(p, 2, 2,
                mal_print(p->arena, _("List %s, %s: %s. Known to go together as of then; --kit writes the sources."),
                          s->name, s->date, s->title));
  mal_table_init(&t, p->arena, 2, "lw");
  for (int c = 0; c < MAL_COMPONENTS; c++)
    if (mal_software_runs(s, &d->machine, (mal_component)c))
      mal_table_row(&t, MAL_PLAIN, _(mal_component_title[c]), s->of[c].version);
  mal_table_put(&t, p);
}

void mal_report_acceptance(mal_page *p, const mal_design *d) {
  mal_acceptance list[MAL_ACCEPTANCE_MOST];
  mal_arena *a = p->arena;
  mal_table t;
  int n = mal_acceptance_list(a, d, list);
  mal_page_styled(p, MAL_BOLD, "\n%s\n", _("Acceptance tests"));
  mal_table_init(&t, a, 2, "lrrl");
  mal_table_row(&t, MAL_DIM, _("test"), _("expect"), _("refuse below"), "");
  for (int i = 0; i < n; i++)
    if (list[i].expected > 0)
      mal_table_row(&t, MAL_PLAIN, list[i].name, mal_print(a, "%.4g", list[i].expected),
                    mal_print(a, "%.4g", list[i].reject), list[i].unit);
  mal_table_put(&t, p);
}

json_t *mal_report_software_json(const mal_design *d) {
  const mal_software *s = d->software;
  json_t *all = json_array();
  for (int c = 0; c < MAL_COMPONENTS; c++)
    if (mal_software_runs(s, &d->machine, (mal_component)c))
      json_array_append_new(all, json_pack("{s:s, s:s, s:s}", "component", mal_component_key[c], "version",
                                           s->of[c].version, "source", s->of[c].source));
  return json_pack("{s:s, s:s, s:o}", "list", s->name, "date", s->date, "components", all);
}

json_t *mal_report_acceptance_json(mal_arena *a, const mal_design *d) {
  mal_acceptance list[MAL_ACCEPTANCE_MOST];
  int n = mal_acceptance_list(a, d, list);
  json_t *all = json_array();
  for (int i = 0; i < n; i++) {
    const mal_acceptance *t = &list[i];
    json_t *o = json_pack("{s:s, s:I, s:s, s:s, s:s}", "stage", mal_stage_name[t->stage], "nodes", (json_int_t)t->nodes,
                          "test", t->name, "what", t->what, "command", t->command);
    json_object_set_new(o, "expected", t->expected > 0 ? json_real(t->expected) : json_null());
    json_object_set_new(o, "reject_below", t->expected > 0 ? json_real(t->reject) : json_null());
    json_object_set_new(o, "unit", json_string(t->unit));
    json_object_set_new(o, "source", t->source ? json_string(t->source) : json_null());
    json_array_append_new(all, o);
  }
  return all;
}
