/* The bill of materials: each row is a count over units, cables or ports, by a rule that is told beside it. */
#include "core/csv.h"
#include "design/design.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 256 };

typedef struct bill {
  mal_arena *arena;
  mal_design *d;
} bill;

static void row(bill *b, const char *section, const char *part, const char *title, double count, const char *rule) {
  if (count <= 0 || b->d->n_parts >= ROOM) return;
  b->d->parts[b->d->n_parts++] = (mal_part){section, part, title, count, rule, -1, NULL};
}

static double units_of(const mal_design *d, int kind) {
  double n = 0;
  for (int64_t i = 0; i < d->hall.n_units; i++) n += d->hall.units[i].kind == kind;
  return n;
}

static void racks(bill *b) {
  mal_design *d = b->d;
  mal_arena *a = b->arena;
  const mal_site *s = &d->site;
  row(b, "racks", mal_print(a, "rack-%lldu", (long long)s->rack_ru), "rack", (double)d->hall.n_racks,
      mal_print(a, "%lld of nodes, %lld each; %lld of switches, storage and management", (long long)d->hall.node_racks,
                (long long)d->hall.nodes_per_rack, (long long)(d->hall.n_racks - d->hall.node_racks)));
  row(b, "racks", mal_print(a, "pdu-%gv-%ga", s->volts, s->breaker_a), "rack PDU", (double)d->pdus,
      mal_print(a, "%lld a rack of nodes, %lld another", (long long)s->feeds,
                (long long)(s->network_feeds ? s->network_feeds : s->feeds)));
}

static void nodes(bill *b) {
  mal_design *d = b->d;
  mal_arena *a = b->arena;
  row(b, "nodes", d->machine.node->name, d->machine.node->title, (double)d->nodes,
      d->spares ? mal_print(a, "%lld that work and %lld spare", (long long)(d->nodes - d->spares), (long long)d->spares)
                : "as asked");
  row(b, "nodes", "storage-server", d->has_fabric ? d->storage.server->title : "", units_of(d, MAL_UNIT_STORAGE_SERVER),
      "see storage");
  row(b, "nodes", d->management->name, d->management->title, units_of(d, MAL_UNIT_MANAGEMENT),
      mal_print(a, "%.0f a cluster", d->management->each.value));
  row(b, "nodes", d->manager->name, d->manager->title, units_of(d, MAL_UNIT_FABRIC_MANAGER),
      "one for each of its links");
}

static void fabric_switches(bill *b, const char *section, const mal_network *n) {
  row(b, section, n->ask.leaf->name, n->ask.leaf->title, (double)mal_network_switches(n),
      mal_print(b->arena, "%lld leaf, %lld spine, %lld core", (long long)n->leaves, (long long)n->spines,
                (long long)n->cores));
}

/* --- cables and optics ----------------------------------------------------------------------------------------------- */

static int by_kind(const void *x, const void *y) {
  const mal_cable *p = *(const mal_cable *const *)x, *q = *(const mal_cable *const *)y;
  int c = strcmp(p->network, q->network);
  if (!c) c = strcmp(p->tier, q->tier);
  if (!c) c = strcmp(p->medium, q->medium);
  if (!c) c = p->bytes_per_s < q->bytes_per_s ? -1 : p->bytes_per_s > q->bytes_per_s;
  return c ? c : p->length_m < q->length_m ? -1 : p->length_m > q->length_m;
}

static const char *section_of(mal_arena *a, const char *network) {
  return mal_print(a, "%s %s", network,
                   strcmp(network, "compute") == 0 || strcmp(network, "storage") == 0 ? "fabric" : "network");
}

static void cables(bill *b, const char *network) {
  mal_design *d = b->d;
  const mal_cable **all = MAL_ARRAY(b->arena, const mal_cable *, d->n_cables + 1);
  int64_t count = 0;
  for (int64_t i = 0; i < d->n_cables; i++)
    if (strcmp(d->cables[i].network, network) == 0) all[count++] = &d->cables[i];
  qsort(all, (size_t)count, sizeof *all, by_kind);
  for (int64_t i = 0, n; i < count; i += n) {
    for (n = 1; i + n < count && by_kind(&all[i], &all[i + n]) == 0;) n++;
    const mal_cable *c = all[i];
    row(b, section_of(b->arena, c->network),
        mal_print(b->arena, "%s-%gg-%gm", c->medium, c->bytes_per_s * 8 / 1e9, c->length_m),
        mal_print(b->arena, "%s cable, %g Gb/s, %g m", c->medium, c->bytes_per_s * 8 / 1e9, c->length_m), (double)n,
        c->tier);
  }
}

/* Modules of optical cables: one a cage at switches, where ports of a cage share one; hosts as the chassis' NICs are, two ports
 * a twin module where the switch has twin ports. Needed, and with every cage of every switch filled. */
typedef struct cage {
  int64_t unit, cage;
} cage;

static int by_cage(const void *x, const void *y) {
  const cage *p = x, *q = y;
  if (p->unit != q->unit) return p->unit < q->unit ? -1 : 1;
  return p->cage < q->cage ? -1 : p->cage > q->cage;
}

static int64_t distinct(cage *c, int64_t n) {
  int64_t found = 0;
  qsort(c, (size_t)n, sizeof *c, by_cage);
  for (int64_t i = 0; i < n; i++) found += i == 0 || by_cage(&c[i - 1], &c[i]) != 0;
  return found;
}

static void optics_of(bill *b, const mal_network *n, const char *network) {
  mal_design *d = b->d;
  cage *at_switch = MAL_ARRAY(b->arena, cage, 2 * d->n_cables + 1);
  int64_t count = 0, hosts = 0;
  const char *section = section_of(b->arena, network);
  for (int64_t i = 0; i < d->n_cables; i++) {
    const mal_cable *c = &d->cables[i];
    if (strcmp(c->network, network) != 0 || strcmp(c->medium, "copper") == 0) continue;
    bool host = strcmp(c->tier, "node-leaf") == 0;
    if (!host) at_switch[count++] = (cage){c->from, strtoll(c->from_port, NULL, 10)};
    at_switch[count++] = (cage){c->to, strtoll(c->to_port, NULL, 10)};
    hosts += host;
  }
  const mal_switch *s = n->ask.leaf;
  int64_t whole = mal_network_switches(n) * s->ports / s->ports_per_cage;
  int64_t needed = distinct(at_switch, count), twin = s->ports_per_cage;
  const char *module = twin > 1 ? "twin-port module" : "module";
  row(b, section, "switch-optics", mal_print(b->arena, "%s for switches, as needed", module), (double)needed,
      mal_print(b->arena, "%lld with every cage filled", (long long)whole));
  row(b, section, "host-optics", mal_print(b->arena, "%s for hosts", module), ceil((double)hosts / (double)twin),
      mal_print(b->arena, "%lld ports", (long long)hosts));
}

static void networks(bill *all) {
  bill b = *all;
  mal_design *d = b.d;
  mal_arena *a = b.arena;
  fabric_switches(&b, "compute fabric", &d->compute);
  optics_of(&b, &d->compute, "compute");
  cables(&b, "compute");
  fabric_switches(&b, "storage fabric", &d->storage_network);
  optics_of(&b, &d->storage_network, "storage");
  cables(&b, "storage");
  row(&b, "in-band network", d->inband_switch->name, d->inband_switch->title, units_of(d, MAL_UNIT_INBAND_SWITCH),
      mal_print(a, "%lld leaves in pairs, %lld cores", (long long)d->inband_leaves,
                (long long)mal_design_inband_cores(d)));
  cables(&b, "in-band");
  row(&b, "out-of-band network", d->oob_switch->name, d->oob_switch->title, units_of(d, MAL_UNIT_OOB_SWITCH),
      "pairs, a port for each BMC, switch and PDU");
  cables(&b, "out-of-band");
}

/* What takes longest to come first: nodes, switches and their optics, then cables, then racks and PDUs. */
void mal_design_parts(mal_arena *a, mal_design *d) {
  bill b = {a, d};
  d->parts = MAL_ARRAY(a, mal_part, ROOM);
  nodes(&b);
  if (d->has_fabric) networks(&b);
  racks(&b);
}

/* --- prices ---------------------------------------------------------------------------------------------------------- */

static mal_status price_row(mal_arena *a, mal_design *d, const mal_csv *csv, int i, mal_error *e) {
  const char *part = mal_csv_cell(csv, i, mal_csv_column(csv, "part"));
  const char *price = mal_csv_cell(csv, i, mal_csv_column(csv, "price"));
  const char *currency = mal_csv_cell(csv, i, mal_csv_column(csv, "currency"));
  char *end;
  double x = strtod(price, &end);
  if (end == price || *end || !isfinite(x) || x < 0)
    return mal_fail(e, MAL_BAD, _("%s:%d: price '%.60s' is not a number of zero or more."), csv->path, csv->line[i],
                    price);
  if (*currency && strcmp(currency, d->site.currency) != 0)
    return mal_fail(e, MAL_BAD,
                    _("%s:%d: the price is in %.20s, the site's currency is %s; convert it, or set currency."),
                    csv->path, csv->line[i], currency, d->site.currency);
  bool used = false;
  for (int k = 0; k < d->n_parts; k++)
    if (strcmp(d->parts[k].part, part) == 0) {
      used = true;
      d->parts[k].price = x;
      const char *source = mal_csv_cell(csv, i, mal_csv_column(csv, "source"));
      d->parts[k].price_source = *source ? source : mal_print(a, "%s:%d", csv->path, csv->line[i]);
    }
  if (!used)
    mal_design_find(a, d, MAL_NOTE, _("%s:%d: nothing here is called '%.60s'; its price is not used."), csv->path,
                    csv->line[i], part);
  return MAL_OK;
}

mal_status mal_design_price(mal_arena *a, mal_design *d, const char *path, mal_error *e) {
  mal_csv csv;
  mal_status s = mal_csv_read(a, path, &csv, e);
  if (s != MAL_OK) return s;
  if (mal_csv_column(&csv, "part") < 0 || mal_csv_column(&csv, "price") < 0)
    return mal_fail(e, MAL_BAD, _("%s: a price file has the columns part and price (and currency, source)."), path);
  for (int i = 0; i < csv.rows && s == MAL_OK; i++) s = price_row(a, d, &csv, i, e);
  return s;
}
