#include "report/design_refresh.h"
#include "core/units.h"
#include <math.h>
#include <string.h>

/* --- refresh --------------------------------------------------------------------------------------------------------- */

static const char *times(mal_arena *a, double before, double after) {
  return before > 0 ? mal_print(a, "%.2f ×", after / before) : "";
}

static const char *watts(double w) { return mal_show_rate(w, "W"); }

static void rates_row(mal_table *t, const char *name, double before, double after, const char *unit) {
  mal_table_row(t, MAL_PLAIN, name, mal_show_rate(before, unit), mal_show_rate(after, unit),
                times(t->arena, before, after));
}

static void put_figures(mal_page *p, const mal_refresh *r) {
  const mal_design *x = r->before, *y = &r->after;
  mal_arena *a = p->arena;
  mal_table t;
  mal_table_init(&t, a, 2, "lrrr");
  mal_table_row(&t, MAL_DIM, "", x->machine.node->name, y->machine.node->name, "");
  mal_table_row(&t, MAL_PLAIN, _("nodes"), mal_show_int(x->nodes), mal_show_int(y->nodes),
                times(a, (double)x->nodes, (double)y->nodes));
  mal_table_row(&t, MAL_PLAIN, _("GPUs that work"), mal_show_int((x->nodes - x->spares) * x->machine.node->gpus),
                mal_show_int((y->nodes - y->spares) * y->machine.node->gpus), "");
  mal_table_row(&t, MAL_PLAIN, _("nodes a rack"), mal_show_int(x->hall.nodes_per_rack),
                mal_show_int(y->hall.nodes_per_rack), "");
  rates_row(&t, _("bf16, dense"), r->flops_before, r->flops_after, "FLOP/s");
  mal_table_row(&t, MAL_PLAIN, _("GPU memory"), mal_show_bytes(r->memory_before), mal_show_bytes(r->memory_after),
                times(a, r->memory_before, r->memory_after));
  rates_row(&t, _("memory bandwidth"), r->stream_before, r->stream_after, "B/s");
  if (x->has_fabric) rates_row(&t, _("fabric, a GPU"), r->fabric_before, r->fabric_after, "B/s");
  mal_table_row(&t, MAL_PLAIN, _("peak draw"), watts(x->peak.total_w), watts(y->peak.total_w),
                times(a, x->peak.total_w, y->peak.total_w));
  mal_table_row(&t, MAL_PLAIN, _("draw in training"), watts(x->training.total_w), watts(y->training.total_w),
                times(a, x->training.total_w, y->training.total_w));
  rates_row(&t, _("bf16 a watt in training"), r->flops_before / x->training.total_w,
            r->flops_after / y->training.total_w, "FLOP/s");
  mal_table_row(&t, MAL_PLAIN, _("cooling"), mal_print(a, "%.0f tons", x->cooling.tons),
                mal_print(a, "%.0f tons", y->cooling.tons), "");
  mal_table_row(&t, MAL_PLAIN, _("air"), mal_print(a, "%.1f m3/s", x->cooling.airflow_m3_per_s),
                mal_print(a, "%.1f m3/s", y->cooling.airflow_m3_per_s), "");
  mal_table_row(&t, MAL_PLAIN, _("densest rack"), watts(x->cooling.rack_w), watts(y->cooling.rack_w), "");
  mal_table_put(&t, p);
}

static void line(mal_page *p, const char *text) {
  mal_page_put(p, "  ");
  mal_page_wrap(p, 2, 2, text);
}

static void put_fabric(mal_page *p, const mal_refresh *r) {
  const mal_design *x = r->before, *y = &r->after;
  mal_arena *a = p->arena;
  if (!x->has_fabric) return;
  line(p, r->nic_share < 1
              ? mal_print(a,
                          _("Fabric: the %s give a port %s; the new adapters could %s, so they run at %.0f %%. New "
                            "switches would "
                            "lift that."),
                          x->leaf->name, mal_show_rate(x->leaf->port_bytes_per_s.value, "B/s"),
                          mal_show_rate(y->machine.node->nic_bytes_per_s.value, "B/s"), 100 * r->nic_share)
              : mal_print(a, _("Fabric: the %s stay and the new adapters run at their rate."), x->leaf->name));
  line(p, mal_print(a, _("Switches: %s are needed of %s there. Cables: %s stay, %s go, %s are new."),
                    mal_show_int(mal_network_switches(&y->compute)), mal_show_int(mal_network_switches(&x->compute)),
                    mal_show_int(r->cables_kept), mal_show_int(r->cables_gone), mal_show_int(r->cables_new)));
}

static void put_software(mal_page *p, const mal_refresh *r) {
  const mal_software *x = r->before->software, *y = r->after.software;
  mal_writing w = {.arena = p->arena};
  for (int c = 0; c < MAL_COMPONENTS; c++) {
    const char *old = x->of[c].version, *new = y->of[c].version;
    if (c == MAL_SW_LEAST_DRIVER || !new || (old && strcmp(old, new) == 0)) continue;
    mal_write(&w, "%s%s %s%s%s", w.text ? "; " : "", _(mal_component_title[c]), old ? old : "", old ? " → " : "", new);
  }
  if (w.text)
    line(p, mal_print(p->arena, _("Software: %s."), w.text));
  else
    line(p, _("Software: the same list serves both."));
}

void mal_report_refresh(mal_page *p, const mal_refresh *r) {
  const mal_design *x = r->before, *y = &r->after;
  mal_arena *a = p->arena;
  mal_page_styled(p, MAL_BOLD, _("\nRefresh: %s in place of %s\n"), y->machine.node->name, x->machine.node->name);
  put_figures(p, r);
  line(p,
       y->nodes < r->wanted
           ? mal_print(a, _("Racks: the %s of nodes hold %s, not %s: %s sets %lld a rack. All would take %s racks."),
                       mal_show_int(x->hall.node_racks), mal_show_int(y->nodes), mal_show_int(r->wanted),
                       _(mal_limit_words[r->limit]), (long long)y->hall.nodes_per_rack, mal_show_int(r->racks_for_all))
           : mal_print(a, _("Racks: %s of %s of nodes are filled."), mal_show_int(y->hall.node_racks),
                       mal_show_int(x->hall.node_racks)));
  put_fabric(p, r);
  put_software(p, r);
}

json_t *mal_report_refresh_json(const mal_refresh *r) {
  const mal_design *y = &r->after;
  return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:b, s:f, s:{s:I, s:I, s:I}, s:f, s:f, s:f, s:f, s:f, s:f}",
                   "node", y->machine.node->name, "nodes", (json_int_t)y->nodes, "wanted", (json_int_t)r->wanted,
                   "racks", (json_int_t)y->hall.node_racks, "racks_for_all", (json_int_t)r->racks_for_all, "per_rack",
                   (json_int_t)y->hall.nodes_per_rack, "limit", mal_limit_words[r->limit], "switches_stay",
                   r->same_switches, "nic_share", r->nic_share, "cables", "kept", (json_int_t)r->cables_kept, "gone",
                   (json_int_t)r->cables_gone, "new", (json_int_t)r->cables_new, "flops_before", r->flops_before,
                   "flops_after", r->flops_after, "peak_w_before", r->before->peak.total_w, "peak_w_after",
                   y->peak.total_w, "memory_bytes_before", r->memory_before, "memory_bytes_after", r->memory_after);
}

/* --- serving --------------------------------------------------------------------------------------------------------- */

static const char *rate(mal_arena *a, const mal_serving *r, double x) {
  return r->fits ? mal_print(a, "%s", mal_show_int((int64_t)x)) : "-";
}

void mal_report_serving(mal_page *p, const mal_served *s) {
  mal_arena *a = p->arena;
  mal_table t;
  mal_page_styled(p, MAL_BOLD, _("\nInference: %s on one %s, contexts of %s tokens\n"), s->model->name,
                  s->machine->node->name, mal_show_int(s->context));
  mal_table_init(&t, a, 2, "lrrrrrrrrl");
  mal_table_row(&t, MAL_DIM, _("type"), "tp", _("weights"), "vLLM", "TGI", _("seqs"), _("one"), _("all"), _("prefill"),
                _("bound"));
  for (int i = 0; i < s->n; i++) {
    const mal_serving *r = &s->rows[i];
    mal_table_row(&t, r->fits ? MAL_PLAIN : MAL_DIM, mal_dtype_name[r->type], mal_print(a, "%lld", (long long)r->tp),
                  mal_show_bytes(r->weight_bytes), mal_show_bytes(r->kv_bytes), mal_show_bytes(r->kv_bytes_tgi),
                  mal_show_int(r->sequences), rate(a, r, r->one_tokens_per_s), rate(a, r, r->most_tokens_per_s),
                  rate(a, r, r->prefill_tokens_per_s), r->fits ? _(r->bound) : _("no room"));
  }
  mal_table_put(&t, p);
  line(p, _("weights: on one GPU; vLLM, TGI: cache of keys and values of one replica, in 0.9 of memory and in all of "
            "it; seqs: contexts "
            "in vLLM's; one, all, prefill: tokens a second of a replica at most, for one sequence, for all, and of "
            "prompts (rooflines: "
            "docs/design.md)."));
}

json_t *mal_report_serving_json(const mal_served *s) {
  json_t *rows = json_array();
  for (int i = 0; i < s->n; i++) {
    const mal_serving *r = &s->rows[i];
    json_array_append_new(
        rows, json_pack("{s:s, s:I, s:I, s:b, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:s?, s:f}", "type",
                        mal_dtype_name[r->type], "tp", (json_int_t)r->tp, "replicas", (json_int_t)r->replicas, "fits",
                        r->fits, "weight_bytes", r->weight_bytes, "kv_token_bytes", r->kv_token_bytes, "kv_bytes_vllm",
                        r->kv_bytes, "kv_bytes_tgi", r->kv_bytes_tgi, "tokens", (json_int_t)r->tokens, "sequences",
                        (json_int_t)r->sequences, "one_tokens_per_s", r->one_tokens_per_s, "most_tokens_per_s",
                        r->most_tokens_per_s, "bound", r->bound, "prefill_tokens_per_s", r->prefill_tokens_per_s));
  }
  return json_pack("{s:s, s:s, s:I, s:o}", "model", s->model->name, "node", s->machine->node->name, "context",
                   (json_int_t)s->context, "rows", rows);
}
