/* Circuits, phases and supplies of one rack. */
#include "core/status.h"
#include "design/hall.h"
#include <math.h>

enum { MOST_FEEDS = 16, LINES = 3 };

int64_t mal_rack_feeds(const mal_hall *hall, const mal_rack *rack) {
  const mal_site *s = hall->site;
  return rack->nodes || !s->network_feeds ? s->feeds : s->network_feeds;
}

int mal_rack_failures(const mal_hall *hall, const mal_rack *rack, uint32_t *sets) {
  const mal_site *s = hall->site;
  int64_t feeds = mal_rack_feeds(hall, rack);
  int n = 0;
  if (s->redundancy == MAL_REDUNDANCY_N) sets[n++] = 0;
  if (s->redundancy == MAL_REDUNDANCY_N1)
    for (int64_t i = 0; i < feeds; i++) sets[n++] = 1u << i;
  if (s->redundancy == MAL_REDUNDANCY_2N)
    for (int64_t side = 0; side < 2; side++) {
      sets[n] = 0;
      for (int64_t i = side; i < feeds; i += 2) sets[n] |= 1u << i;
      n++;
    }
  return n;
}

typedef struct loads {
  double pair[MOST_FEEDS][LINES]; /* watts by outlet group: line to neutral, or between two lines */
  int64_t cords[MOST_FEEDS];
} loads;

/* Draw of a unit through the supplies that are left; 0 when too few are. */
static double draw(const mal_unit *u, int64_t left, mal_rack_power *out) {
  int64_t run = u->supplies_run > 0 ? u->supplies_run : u->supplies_full;
  if (left < run || left < 1) {
    out->down++;
    return 0;
  }
  if (left >= u->supplies_full) return u->max_w;
  out->slow++;
  double most = u->supply_w > 0 ? u->supply_w * (double)left : u->max_w * (double)left / (double)u->supplies_full;
  return fmin(u->max_w, most);
}

static void add_unit(const mal_site *s, int64_t feeds, const mal_unit *u, uint32_t failed, loads *l,
                     mal_rack_power *out) {
  int64_t left = 0, lines = s->phases == 3 ? LINES : 1;
  for (int64_t i = 0; i < u->supplies; i++) left += !(failed >> (i % feeds) & 1);
  double each = draw(u, left, out) / (double)(left > 0 ? left : 1);
  for (int64_t i = 0; i < u->supplies; i++) {
    int64_t feed = i % feeds, line = l->cords[feed]++ % lines;
    if (!(failed >> feed & 1)) l->pair[feed][line] += each;
  }
}

/* Line currents of a circuit. Outlets between lines: two of the three loads meet in a line, 60 degrees apart. */
static void judge(const mal_site *s, const double pair[LINES], mal_rack_power *out) {
  double volts = mal_site_line_v(s), worst = 0, sum = 0, watts = 0, line[LINES] = {0};
  int lines = s->phases == 3 ? LINES : 1;
  bool between = s->phases == 3 && volts == s->volts;
  for (int i = 0; i < lines; i++) {
    double x = pair[i] / (volts * s->power_factor), y = pair[(i + 1) % lines] / (volts * s->power_factor);
    line[i] = between ? sqrt(x * x + y * y + x * y) : x;
    worst = fmax(worst, line[i]);
    sum += line[i];
    watts += pair[i];
  }
  if (watts > out->circuit_w) out->circuit_w = watts;
  if (worst <= out->line_a) return;
  out->line_a = worst;
  out->imbalance = sum > 0 ? worst * lines / sum - 1 : 0;
}

mal_rack_power mal_rack_feed(const mal_hall *hall, const mal_rack *rack, uint32_t failed) {
  const mal_site *s = hall->site;
  mal_rack_power out = {0};
  loads l = {0};
  int64_t feeds = mal_rack_feeds(hall, rack);
  for (int64_t i = 0; i < rack->count; i++)
    add_unit(s, feeds, &hall->units[hall->order[rack->first + i]], failed, &l, &out);
  for (int64_t f = 0; f < feeds && f < MOST_FEEDS; f++) judge(s, l.pair[f], &out);
  out.holds = out.line_a <= s->breaker_a * s->derating * (1 + 1e-9);
  return out;
}
