/* Machines: the list, and one with every value and where it was read. */
#include "core/catalog.h"
#include "core/units.h"
#include "report/catalog.h"
#include <string.h>

enum { LABEL = 10 };

static void add_alias(mal_arena *a, const char **aliases, const char *name) {
  *aliases = mal_print(a, "%s%s%s", *aliases, **aliases ? ", " : "", name);
}

static mal_status load_gpus(mal_arena *a, mal_catalog_machines *all, mal_error *e) {
  char **names;
  size_t count;
  mal_status status = mal_catalog_list(a, "gpus", ".yaml", &names, &count, e);
  if (status) return status;
  mal_gpu **gpus = MAL_ARRAY(a, mal_gpu *, count + 1);
  all->gpus = MAL_ARRAY(a, mal_gpu *, count + 1);
  all->aliases = MAL_ARRAY(a, const char *, count + 1);
  for (size_t i = 0; i < count; i++) {
    if ((status = mal_gpu_load(a, names[i], &gpus[i], e)) != MAL_OK) return status;
    if (strcmp(gpus[i]->name, names[i]) == 0) {
      all->aliases[all->n_gpus] = "";
      all->gpus[all->n_gpus++] = gpus[i];
    }
  }
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < all->n_gpus; k++)
      if (strcmp(gpus[i]->name, names[i]) != 0 && strcmp(gpus[i]->name, all->gpus[k]->name) == 0)
        add_alias(a, &all->aliases[k], names[i]);
  return MAL_OK;
}

static mal_status load_nodes(mal_arena *a, mal_catalog_machines *all, mal_error *e) {
  char **names;
  size_t count;
  mal_status status = mal_catalog_list(a, "nodes", ".yaml", &names, &count, e);
  if (status) return status;
  mal_node **nodes = MAL_ARRAY(a, mal_node *, count + 1);
  all->nodes = MAL_ARRAY(a, mal_node *, count + 1);
  all->node_aliases = MAL_ARRAY(a, const char *, count + 1);
  for (size_t i = 0; i < count; i++) {
    if ((status = mal_node_load(a, names[i], &nodes[i], e)) != MAL_OK) return status;
    if (strcmp(nodes[i]->name, names[i]) == 0) {
      all->node_aliases[all->n_nodes] = "";
      all->nodes[all->n_nodes++] = nodes[i];
    }
  }
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < all->n_nodes; k++)
      if (strcmp(nodes[i]->name, names[i]) != 0 && strcmp(nodes[i]->name, all->nodes[k]->name) == 0)
        add_alias(a, &all->node_aliases[k], names[i]);
  return MAL_OK;
}

mal_status mal_catalog_load_machines(mal_arena *a, mal_catalog_machines *all, mal_error *e) {
  *all = (mal_catalog_machines){0};
  mal_status status = load_gpus(a, all, e);
  return status ? status : load_nodes(a, all, e);
}

void mal_report_machines(mal_page *p, const mal_catalog_machines *all) {
  mal_table t;
  mal_table_init(&t, p->arena, 0, "lrrrw");
  mal_table_row(&t, MAL_DIM, _("GPU"), _("memory"), _("16 bit, dense"), "NVLink", _("also called"));
  for (size_t i = 0; i < all->n_gpus; i++) {
    const mal_gpu *g = all->gpus[i];
    double flops = g->flops[MAL_BF16].value > 0 ? g->flops[MAL_BF16].value : g->flops[MAL_F16].value;
    mal_table_row(&t, MAL_PLAIN, g->name, mal_show_bytes(g->memory_bytes.value), mal_show_rate(flops, "FLOP/s"),
                  g->nvlink_bytes_per_s.value > 0 ? mal_show_rate(g->nvlink_bytes_per_s.value, "B/s") : "-",
                  all->aliases[i]);
  }
  mal_table_put(&t, p);
  mal_page_put(p, "\n");
  mal_table_init(&t, p->arena, 0, "llrw");
  mal_table_row(&t, MAL_DIM, _("node"), _("GPUs"), _("network"), _("what it is"));
  for (size_t i = 0; i < all->n_nodes; i++) {
    const mal_node *n = all->nodes[i];
    double network = n->nics.value * n->nic_bytes_per_s.value;
    mal_table_row(&t, MAL_PLAIN, n->name, mal_print(p->arena, "%lld × %s", (long long)n->gpus, n->gpu),
                  network > 0 ? mal_show_rate(network, "B/s") : "-",
                  *all->node_aliases[i] ? mal_print(p->arena, _("%s; also %s"), n->title, all->node_aliases[i])
                                        : n->title);
  }
  mal_table_put(&t, p);
  mal_page_put(p, "\n");
  mal_page_wrap(
      p, 0, 0,
      _("A machine is GPUS x GPU (8xh100-sxm), NODES x GPUS x GPU (16x8xh100-sxm), NODES x NODE (4xdgx-h100), "
        "or the path of a machine file. Rates are in one direction."));
  mal_page_styled(p, MAL_DIM, "%s", _("\nmore: malha machines h100-80-sxm\n"));
}

/* --- one machine -------------------------------------------------------------------------------------------------- */

static bool ends(const char *key, const char *tail) {
  size_t n = strlen(key), m = strlen(tail);
  return n >= m && strcmp(key + n - m, tail) == 0;
}

/* The unit is in the key. */
static const char *show(mal_arena *a, const char *key, double x) {
  if (x == 0) return "-";
  if (ends(key, "bytes_per_s")) return mal_show_rate(x, "B/s");
  if (ends(key, "_bytes")) return mal_show_bytes(x);
  if (ends(key, "_flops")) return mal_show_rate(x, "FLOP/s");
  if (ends(key, "usd_per_hour")) return mal_print(a, "USD %g/h", x);
  if (ends(key, "_w")) return mal_show_rate(x, "W");
  if (ends(key, "_s")) return mal_show_time(x);
  return mal_print(a, "%.6g", x);
}

typedef struct listing {
  mal_page *page;
  mal_table table;
  const char *only, *section;
  bool fitted;
} listing;

static void begin(listing *l, const char *section, bool fitted) {
  if (l->section && l->table.rows) mal_table_put(&l->table, l->page);
  l->section = section;
  l->fitted = fitted;
  mal_page_styled(l->page, MAL_BOLD, fitted ? _("\n%s, fitted on published runs inside [lowest, highest]\n") : "\n%s\n",
                  section);
  mal_table_init(&l->table, l->page->arena, 2, "lrw");
}

static void list_one(void *context, const char *section, const char *key, const mal_value *v, const mal_fitted *f) {
  listing *l = context;
  mal_arena *a = l->page->arena;
  if (l->only && strcmp(l->only, section) != 0) return;
  if (!l->section || strcmp(l->section, section) != 0 || l->fitted != (f != NULL)) begin(l, section, f != NULL);
  if (f) {
    if (f->hi > 0)
      mal_table_row(&l->table, MAL_PLAIN, key, show(a, key, f->value),
                    mal_print(a, "[%s, %s] %s", show(a, key, f->lo), show(a, key, f->hi), f->source ? f->source : ""));
    return;
  }
  bool known = v->value != 0;
  mal_table_row(&l->table, known ? mal_value_verified(v) ? MAL_PLAIN : MAL_WARN : MAL_DIM, key, show(a, key, v->value),
                mal_print(a, "%s%s", mal_value_verified(v) ? "" : "UNVERIFIED: ", v->source ? v->source : ""));
}

void mal_report_machine(mal_page *p, const mal_machine *m, const char *only) {
  listing l = {.page = p, .only = only};
  if (!only || strcmp(only, "gpu") == 0) mal_page_field(p, LABEL, "GPU", "%s: %s", m->gpu->name, m->gpu->title);
  if (!only || strcmp(only, "node") == 0)
    mal_page_field(p, LABEL, _("node"), P_("%s: %s, %lld GPU, %s", "%s: %s, %lld GPUs, %s", m->node->gpus),
                   m->node->name, m->node->title, (long long)m->node->gpus,
                   m->node->nvlink_switch       ? _("NVLink through switches")
                   : m->node->nvlink_domain > 1 ? _("NVLink between some")
                                                : _("no NVLink"));
  if (!only || strcmp(only, "fabric") == 0)
    mal_page_field(p, LABEL, _("fabric"), "%s: %s", m->fabric->name, m->fabric->title);
  if (!only)
    mal_page_field(p, LABEL, _("count"), P_("%s node of %s", "%s nodes of %s", m->nodes), mal_show_int(m->nodes),
                   mal_print(p->arena, P_("%lld GPU", "%lld GPUs", m->gpus_per_node), (long long)m->gpus_per_node));
  mal_machine_each(m, list_one, &l);
  if (l.table.rows) mal_table_put(&l.table, p);
  mal_page_put(p, "\n");
  mal_page_wrap(p, 0, 0,
                _("FLOP/s are dense, rates are in one direction. - : the hardware has none, or nobody read it."));
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

json_t *mal_report_machines_json(const mal_catalog_machines *all) {
  json_t *gpus = json_array(), *nodes = json_array();
  for (size_t i = 0; i < all->n_gpus; i++)
    json_array_append_new(gpus, json_pack("{s:s, s:s, s:f, s:f}", "name", all->gpus[i]->name, "title",
                                          all->gpus[i]->title, "memory_bytes", all->gpus[i]->memory_bytes.value,
                                          "bf16_flops", all->gpus[i]->flops[MAL_BF16].value));
  for (size_t i = 0; i < all->n_nodes; i++)
    json_array_append_new(nodes,
                          json_pack("{s:s, s:s, s:s, s:I}", "name", all->nodes[i]->name, "title", all->nodes[i]->title,
                                    "gpu", all->nodes[i]->gpu, "gpus", (json_int_t)all->nodes[i]->gpus));
  return json_pack("{s:i, s:o, s:o}", "version", 1, "gpus", gpus, "nodes", nodes);
}

typedef struct values {
  json_t *into;
  const char *only;
} values;

static void value_json(void *context, const char *section, const char *key, const mal_value *v, const mal_fitted *f) {
  values *all = context;
  if (all->only && strcmp(all->only, section) != 0) return;
  json_t *o = json_object_get(all->into, section);
  if (!o) json_object_set_new(all->into, section, o = json_object());
  if (f)
    json_object_set_new(o, key,
                        json_pack("{s:f, s:f, s:f, s:f, s:s}", "value", f->value, "lo", f->lo, "hi", f->hi, "prior",
                                  f->prior, "source", f->source ? f->source : ""));
  else
    json_object_set_new(o, key,
                        json_pack("{s:f, s:b, s:s}", "value", v->value, "verified", mal_value_verified(v), "source",
                                  v->source ? v->source : ""));
}

json_t *mal_report_machine_json(const mal_machine *m, const char *only) {
  json_t *o =
      json_pack("{s:i, s:s, s:s, s:s, s:I, s:I}", "version", 1, "name", m->name, "gpu_name", m->gpu->name, "node_name",
                m->node->name, "nodes", (json_int_t)m->nodes, "gpus_per_node", (json_int_t)m->gpus_per_node);
  values all = {o, only};
  mal_machine_each(m, value_json, &all);
  return o;
}
