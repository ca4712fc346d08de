#include "design/hall.h"
#include <math.h>
#include <string.h>

const char *const mal_unit_kind_name[] = {"node",
                                          "compute switch",
                                          "storage switch",
                                          "in-band switch",
                                          "OOB switch",
                                          "fabric manager",
                                          "storage server",
                                          "management server",
                                          "PDU",
                                          NULL};
const char *const mal_limit_words[] = {N_("their number"),
                                       N_("rack units"),
                                       N_("weight"),
                                       N_("outlets of the PDUs"),
                                       N_("what the room feeds and cools in one rack"),
                                       N_("the circuits, one failed as the redundancy asks")};

/* Racks of switches keep this share of their units for switches, the rest for cables: the reference architecture's 6 racks of
 * 48U hold about 100U of switches and servers (RA-11333-001 V11, bill of materials). Rounded up to whole units, with which its 38
 * racks and 96 + 12 PDUs come out for its 127 nodes. */
static const double network_fill = 0.4;

typedef struct filler {
  mal_hall *hall;
  int64_t used; /* of order */
} filler;

/* --- one rack -------------------------------------------------------------------------------------------------------- */

static void add_totals(mal_rack *r, const mal_unit *u) {
  r->ru += u->ru, r->kg += u->kg;
  r->idle_w += u->idle_w, r->training_w += u->training_w, r->max_w += u->max_w;
}

static bool outlets_suffice(const mal_hall *h, const mal_rack *r) {
  int64_t c19 = 0, c13 = 0, feeds = mal_rack_feeds(h, r);
  for (int64_t i = 0; i < r->count; i++) {
    const mal_unit *u = &h->units[h->order[r->first + i]];
    int64_t most = (u->supplies + feeds - 1) / feeds; /* on its fullest circuit */
    *(u->c19 ? &c19 : &c13) += most;
  }
  if (c13 > h->site->c13) c19 += c13 - h->site->c13; /* a C13 cord goes into a C19 outlet's adapter */
  return c19 <= h->site->c19;
}

static bool circuits_suffice(const mal_hall *h, const mal_rack *r) {
  uint32_t sets[16];
  int n = mal_rack_failures(h, r, sets);
  for (int i = 0; i < n; i++)
    if (!mal_rack_feed(h, r, sets[i]).holds) return false;
  return mal_rack_feed(h, r, 0).holds;
}

static int limit_of(const mal_hall *h, const mal_rack *r) {
  const mal_site *s = h->site;
  double free = (double)(s->rack_ru - s->reserved_ru), room = r->nodes ? free : ceil(free * network_fill);
  if (r->ru > room && !(r->count == 1 && r->ru <= (double)s->rack_ru)) return MAL_LIMIT_RU;
  if (r->kg + s->rack_empty_kg > s->rack_max_kg) return MAL_LIMIT_WEIGHT;
  if (!outlets_suffice(h, r)) return MAL_LIMIT_OUTLETS;
  if (s->rack_max_w > 0 && r->max_w > s->rack_max_w) return MAL_LIMIT_ROOM;
  return circuits_suffice(h, r) ? MAL_LIMIT_NONE : MAL_LIMIT_CIRCUIT;
}

/* Puts the unit in; says what that breaks, and then it is out again. */
static int try_unit(filler *f, mal_rack *r, int64_t unit) {
  mal_hall *h = f->hall;
  mal_rack before = *r;
  h->order[r->first + r->count++] = unit;
  add_totals(r, &h->units[unit]);
  int limit = limit_of(h, r);
  if (limit) *r = before;
  return limit;
}

static mal_status no_room(const mal_hall *h, const mal_unit *u, int limit, mal_error *e) {
  const mal_site *s = h->site;
  const char *what = _(mal_limit_words[limit]);
  double circuit = mal_site_circuit_w(s);
  switch (limit) {
  case MAL_LIMIT_RU:
    return mal_fail(e, MAL_NO,
                    _("a rack of site %s does not hold one %s: it has %lld U of %lld U free, %.0f U are "
                      "needed. Take a taller rack (rack_ru)."),
                    s->name, u->model, (long long)(s->rack_ru - s->reserved_ru), (long long)s->rack_ru, u->ru);
  case MAL_LIMIT_WEIGHT:
    return mal_fail(e, MAL_NO,
                    _("a rack of site %s does not hold one %s: %.0f kg and the rack's %.0f kg are more than "
                      "rack_max_kg, %.0f. Take stronger racks, or a lighter node."),
                    s->name, u->model, u->kg, s->rack_empty_kg, s->rack_max_kg);
  case MAL_LIMIT_ROOM:
    return mal_fail(e, MAL_NO,
                    _("a rack of site %s does not feed one %s: it draws %.1f kW, rack_max_w is %.1f kW. Raise "
                      "rack_max_w where the room cools it, or take another node."),
                    s->name, u->model, u->max_w / 1e3, s->rack_max_w / 1e3);
  case MAL_LIMIT_CIRCUIT:
    return mal_fail(e, MAL_NO,
                    _("a rack of site %s does not feed one %s: it draws %.1f kW; %lld circuits of %.1f kW, redundancy "
                      "%s, do not carry that. Take a larger breaker (breaker_a, now %g A), more volts or feeds, or "
                      "less redundancy."),
                    s->name, u->model, u->max_w / 1e3, (long long)s->feeds, circuit / 1e3,
                    mal_redundancy_name[s->redundancy], s->breaker_a);
  default:
    return mal_fail(e, MAL_NO,
                    _("a rack of site %s does not hold one %s for want of %s: c19 is %lld a PDU, it has %lld "
                      "supplies on %lld circuits. Take PDUs with more outlets (c19), or more feeds."),
                    s->name, u->model, what, (long long)s->c19, (long long)u->supplies, (long long)s->feeds);
  }
}

/* --- all racks ------------------------------------------------------------------------------------------------------- */

typedef struct pile { /* racks of one sort, before they are put in a row */
  mal_rack *racks;
  int64_t count;
  int limit;
} pile;

/* Leaves have racks of their own among those of many nodes; of few, they stand with the other switches. */
enum { FEW_RACKS = 2 };

static bool wanted(const mal_hall *h, const mal_unit *u, int sort) {
  if (u->kind == MAL_UNIT_PDU) return false;
  int own = u->kind == MAL_UNIT_NODE ? 0 : u->leaf && h->node_racks > FEW_RACKS ? 1 : 2;
  return own == sort;
}

static mal_status make_pile(mal_arena *a, filler *f, int sort, pile *p, mal_error *e) {
  mal_hall *h = f->hall;
  mal_rack *r = NULL;
  *p = (pile){MAL_ARRAY(a, mal_rack, h->n_units + 1), 0, MAL_LIMIT_NONE};
  for (int64_t i = 0; i < h->n_units; i++) {
    if (!wanted(h, &h->units[i], sort)) continue;
    int limit = r ? try_unit(f, r, i) : MAL_LIMIT_NONE;
    if (r && !limit) continue;
    if (limit && !p->limit) p->limit = limit;
    if (r) f->used += r->count;
    r = &p->racks[p->count++];
    *r = (mal_rack){.nodes = sort == 0, .first = f->used};
    if ((limit = try_unit(f, r, i)) != MAL_LIMIT_NONE) return no_room(h, &h->units[i], limit, e);
  }
  if (r) f->used += r->count;
  return MAL_OK;
}

/* Order on the floor: rack j of the leaves' J stands in the middle of the j-th share of the node racks. */
static void interleave(mal_hall *h, const pile piles[3]) {
  int64_t leaf = 0, n = 0, nodes = piles[0].count, leaves = piles[1].count;
  for (int64_t i = 0; i <= nodes; i++) {
    while (leaf < leaves && (2 * leaf + 1) * nodes <= 2 * i * leaves) h->racks[n++] = piles[1].racks[leaf++];
    if (i == (nodes + 1) / 2)
      for (int64_t k = 0; k < piles[2].count; k++) h->racks[n++] = piles[2].racks[k];
    if (i < nodes) h->racks[n++] = piles[0].racks[i];
  }
  while (leaf < leaves) h->racks[n++] = piles[1].racks[leaf++];
  h->n_racks = n;
}

/* Rows face each other over cold aisles and stand back to back over hot ones. */
static double row_middle(const mal_site *s, int64_t row) {
  double pair = 2 * s->rack_depth_m + s->cold_aisle_m + s->hot_aisle_m;
  return (double)(row / 2) * pair + (row % 2 ? s->rack_depth_m + s->cold_aisle_m : 0) + s->rack_depth_m / 2;
}

static void put_on_floor(mal_hall *h) {
  const mal_site *s = h->site;
  for (int64_t i = 0; i < h->n_racks; i++) {
    mal_rack *r = &h->racks[i];
    r->row = i / s->racks_per_row;
    r->column = i % s->racks_per_row;
    if (r->row % 2) r->column = s->racks_per_row - 1 - r->column; /* neighbours in order stay neighbours */
    r->x_m = ((double)r->column + 0.5) * s->rack_width_m;
    r->y_m = row_middle(s, r->row);
    int64_t u = 1;
    for (int64_t k = 0; k < r->count; k++) {
      mal_unit *unit = &h->units[h->order[r->first + k]];
      unit->rack = i, unit->bottom_u = u;
      u += (int64_t)ceil(unit->ru);
    }
  }
  h->rows = h->n_racks ? (h->n_racks - 1) / s->racks_per_row + 1 : 0;
  int64_t widest = h->n_racks < s->racks_per_row ? h->n_racks : s->racks_per_row;
  h->width_m = (double)widest * s->rack_width_m;
  h->depth_m = h->rows ? row_middle(s, h->rows - 1) + s->rack_depth_m / 2 + s->hot_aisle_m : 0;
}

mal_status mal_hall_fill(mal_arena *a, const mal_site *site, mal_unit *units, int64_t n, mal_hall *hall, mal_error *e) {
  *hall = (mal_hall){.site = site, .units = units, .n_units = n};
  hall->order = MAL_ARRAY(a, int64_t, n + 1);
  hall->racks = MAL_ARRAY(a, mal_rack, n + 1);
  filler f = {hall, 0};
  pile piles[3];
  for (int sort = 0; sort < 3; sort++) {
    mal_status s = make_pile(a, &f, sort, &piles[sort], e);
    if (s != MAL_OK) return s;
    hall->node_racks = piles[0].count;
  }
  hall->nodes_per_rack = piles[0].count ? piles[0].racks[0].count : 0;
  hall->limit = piles[0].limit;
  interleave(hall, piles);
  put_on_floor(hall);
  if (site->max_racks > 0 && hall->n_racks > site->max_racks)
    return mal_fail(e, MAL_NO,
                    _("site %s has %lld racks; %lld are needed (%lld of nodes, %lld each). Give it more racks "
                      "(max_racks), denser ones, or fewer nodes."),
                    site->name, (long long)site->max_racks, (long long)hall->n_racks, (long long)hall->node_racks,
                    (long long)hall->nodes_per_rack);
  return MAL_OK;
}
