#include "report/measured.h"
#include "core/units.h"
#include <string.h>

enum { LABEL = 12 };

void mal_report_measured(mal_page *p, const mal_measured *m, const char *command) {
  mal_table t;
  mal_page_put(p,
               P_("%lld core, %s of memory; a rank on every core at once\n\n",
                  "%lld cores, %s of memory; a rank on every core at once\n\n", m->cores),
               (long long)m->cores, mal_show_bytes((double)m->memory_bytes));
  mal_page_styled(p, MAL_BOLD, "%s", _("Matrix products of a core, fp32\n"));
  mal_table_init(&t, p->arena, 2, "rrrlr");
  mal_table_row(&t, MAL_DIM, _("rows"), _("outputs"), _("inputs"), _("pass"), "");
  for (int i = 0; i < MAL_MEASURED_PRODUCTS; i++) {
    const mal_measured_product *x = &m->products[i];
    mal_table_row(&t, MAL_PLAIN, mal_show_int(x->m), mal_show_int(x->n), mal_show_int(x->k), x->pass,
                  mal_show_rate(x->flops_per_s, "FLOP/s"));
  }
  mal_table_put(&t, p);
  mal_page_put(p, "\n");
  mal_page_field(p, LABEL, _("attention"), _("%s forward, %s backward"),
                 mal_show_rate(m->attention * m->flops_per_s, "FLOP/s"),
                 mal_show_rate(m->attention * m->attention_backward * m->flops_per_s, "FLOP/s"));
  mal_page_field(p, LABEL, _("memory"), _("%s a core, read and written"), mal_show_rate(m->memory_bytes_per_s, "B/s"));
  if (m->copy_bytes_per_s > 0)
    mal_page_field(p, LABEL, _("copies"), _("%s between two ranks (all-reduce); they meet in %s"),
                   mal_show_rate(m->copy_bytes_per_s, "B/s"), mal_show_time(m->meeting_s));
  mal_page_field(p, LABEL, _("disk"), _("%s written and synced, %s read"),
                 mal_show_rate(m->disk_write_bytes_per_s, "B/s"), mal_show_rate(m->disk_read_bytes_per_s, "B/s"));
  mal_page_styled(p, MAL_DIM, "%s", _("\nagain: "));
  mal_page_command(p, strlen(_("\nagain: ")) - 1, 2, command);
}

static void put(json_t *o, const char *key, json_t *value) { json_object_set_new(o, key, value); }

json_t *mal_measured_json(const mal_measured *m, const char *command) {
  json_t *o = json_object(), *products = json_array();
  for (int i = 0; i < MAL_MEASURED_PRODUCTS; i++) {
    const mal_measured_product *x = &m->products[i];
    json_t *one = json_object();
    put(one, "pass", json_string(x->pass));
    put(one, "m", json_integer(x->m));
    put(one, "n", json_integer(x->n));
    put(one, "k", json_integer(x->k));
    put(one, "flops_per_s", json_real(x->flops_per_s));
    json_array_append_new(products, one);
  }
  put(o, "version", json_integer(1));
  put(o, "cores", json_integer(m->cores));
  put(o, "memory_bytes", json_integer(m->memory_bytes));
  put(o, "products", products);
  put(o, "flops_per_s", json_real(m->flops_per_s));
  put(o, "attention_share", json_real(m->attention));
  put(o, "attention_backward", json_real(m->attention_backward));
  put(o, "memory_bytes_per_s", json_real(m->memory_bytes_per_s));
  put(o, "kernel_s", json_real(m->launch_s));
  put(o, "copy_bytes_per_s", m->copy_bytes_per_s > 0 ? json_real(m->copy_bytes_per_s) : json_null());
  put(o, "meeting_s", m->meeting_s > 0 ? json_real(m->meeting_s) : json_null());
  put(o, "disk_write_bytes_per_s", json_real(m->disk_write_bytes_per_s));
  put(o, "disk_read_bytes_per_s", json_real(m->disk_read_bytes_per_s));
  put(o, "command", json_string(command));
  return o;
}
