/* Numbers are read by one grammar: digits, an optional point, an optional exponent; no hex, no inf, no nan.
 * Counts are computed in whole numbers, so that 0.1T is exactly 10^11. */
#include "core/units.h"
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_LONGEST = 400 };

/* The end of the number at text, or NULL. A sign is taken when asked for. */
static const char *number_end(const char *text, bool sign) {
  const char *p = text;
  size_t digits = 0;
  if (sign && (*p == '-' || *p == '+')) p++;
  for (; *p >= '0' && *p <= '9'; p++) digits++;
  if (*p == '.')
    for (p++; *p >= '0' && *p <= '9'; p++) digits++;
  if (!digits || p - text > NUMBER_LONGEST) return NULL;
  const char *e = p;
  if (*e == 'e' || *e == 'E') {
    e++;
    if (*e == '-' || *e == '+') e++;
    if (*e >= '0' && *e <= '9') {
      while (*e >= '0' && *e <= '9') e++;
      p = e;
    }
  }
  return p - text > NUMBER_LONGEST ? NULL : p;
}

static const char *skip_space(const char *p) {
  while (*p == ' ' || *p == '\t') p++;
  return p;
}

/* Length without spaces at the end. */
static size_t trimmed(const char *p) {
  size_t n = strlen(p);
  while (n && (p[n - 1] == ' ' || p[n - 1] == '\t')) n--;
  return n;
}

static bool same(const char *text, size_t n, const char *word) { return strlen(word) == n && !memcmp(text, word, n); }

typedef struct prefix {
  const char *name;
  int ten, two; /* times 10^ten, or 2^two */
} prefix;

static const prefix prefixes[] = {
    {"", 0, 0},   {"k", 3, 0},   {"K", 3, 0},       {"M", 6, 0},       {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},
    {"E", 18, 0}, {"Ki", 0, 10}, {"ki", 0, 10},     {"Mi", 0, 20},     {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50},
    {"m", -3, 0}, {"u", -6, 0},  {"\u00b5", -6, 0}, {"\u03bc", -6, 0}, {"n", -9, 0},  {"B", 9, 0},
};
enum { PREFIXES = sizeof prefixes / sizeof *prefixes, FIRST_SMALL = 14, COUNT_ONLY = 19 };

static const prefix *prefix_of(const char *text, size_t n, bool small, bool billion) {
  for (int i = 0; i < PREFIXES; i++) {
    if (i == COUNT_ONLY ? !billion : i >= FIRST_SMALL && !small) continue;
    if (same(text, n, prefixes[i].name)) return &prefixes[i];
  }
  return NULL;
}

/* --- counts ------------------------------------------------------------------------------------------------------- */

enum { WHOLE, NOT_WHOLE, TOO_LARGE };

/* digits * 10^ten * 2^two as a whole number up to 2^62. */
static int scale_whole(unsigned __int128 n, long ten, int two, int64_t *value) {
  const unsigned __int128 most = (unsigned __int128)1 << 62;
  if (n == 0) {
    *value = 0;
    return WHOLE;
  }
  for (; ten < 0 && n % 10 == 0; ten++) n /= 10;
  for (; two > 0 && n <= most; two--) n *= 2;
  for (; ten < 0 && n % 10 == 0; ten++) n /= 10;
  if (ten < 0) return n / 10 > most ? TOO_LARGE : NOT_WHOLE;
  if (two > 0) return TOO_LARGE;
  for (; ten > 0 && n <= most; ten--) n *= 10;
  if (ten > 0 || n > most) return TOO_LARGE;
  *value = (int64_t)n;
  return WHOLE;
}

static int whole_number(const char *text, const char *end, const prefix *p, int64_t *value) {
  unsigned __int128 n = 0;
  long ten = p->ten;
  int figures = 0;
  bool point = false;
  const char *c = text;
  for (; c < end && *c != 'e' && *c != 'E'; c++) {
    if (*c == '.') {
      point = true;
      continue;
    }
    if (figures || *c != '0') figures++;
    if (figures > 25) { /* past what fits: zeros only shift, others cannot be whole and small enough */
      if (*c != '0') return point ? NOT_WHOLE : TOO_LARGE;
      if (!point) ten++;
      continue;
    }
    n = n * 10 + (unsigned)(*c - '0');
    if (point) ten--;
  }
  if (c < end) {
    long exponent = strtol(c + 1, NULL, 10);
    ten += exponent > 10000 ? 10000 : exponent < -10000 ? -10000 : exponent;
  }
  return scale_whole(n, ten, p->two, value);
}

mal_status mal_parse_count(const char *text, const char *what, int64_t *value, mal_error *e) {
  const char *start = skip_space(text), *end = number_end(start, false);
  const prefix *p = NULL;
  if (end) {
    const char *suffix = skip_space(end);
    p = prefix_of(suffix, trimmed(suffix), false, true);
  }
  if (!p && *start == '-' && number_end(start, true))
    return mal_fail(e, MAL_BAD, _("%s: '%.60s' is negative; give a whole number from 0."), what, text);
  if (!p)
    return mal_fail(
        e, MAL_BAD,
        _("%s: '%.60s' is not a count; give a whole number such as 4096, 1.5M, 15T (k M G T P, B for a billion) "
          "or 8Ki (Ki Mi Gi Ti)."),
        what, text);
  switch (whole_number(start, end, p, value)) {
  case WHOLE: return MAL_OK;
  case NOT_WHOLE: return mal_fail(e, MAL_BAD, _("%s: '%.60s' is not a whole number."), what, text);
  default: return mal_fail(e, MAL_BAD, _("%s: '%.60s' is too large; the most is 2^62."), what, text);
  }
}

/* --- numbers and quantities --------------------------------------------------------------------------------------- */

mal_status mal_parse_number(const char *text, const char *what, double *value, mal_error *e) {
  const char *start = skip_space(text), *end = number_end(start, true);
  if (!end || *skip_space(end))
    return mal_fail(e, MAL_BAD, _("%s: '%.60s' is not a number; write it as 0.35 or 1.2e-3."), what, text);
  double v = strtod(start, NULL);
  if (!isfinite(v)) return mal_fail(e, MAL_BAD, _("%s: '%.60s' is too large for a number."), what, text);
  *value = v;
  return MAL_OK;
}

typedef struct unit {
  const char *base, *name;
  double factor;
  bool large, small; /* takes k M G ..., takes m u n */
} unit;

static const unit units[] = {
    {"B", "B", 1, true, false},
    {"B", "bytes", 1, false, false},
    {"B", "b", 0.125, true, false},
    {"B/s", "B/s", 1, true, false},
    {"B/s", "Bps", 1, true, false},
    {"B/s", "b/s", 0.125, true, false},
    {"B/s", "bit/s", 0.125, true, false},
    {"B/s", "bps", 0.125, true, false},
    {"FLOP/s", "FLOP/s", 1, true, false},
    {"FLOP/s", "FLOPS", 1, true, false},
    {"FLOP/s", "FLOPs/s", 1, true, false},
    {"FLOP", "FLOP", 1, true, false},
    {"FLOP", "FLOPs", 1, true, false},
    {"s", "s", 1, false, true},
    {"s", "min", 60, false, false},
    {"s", "h", 3600, false, false},
    {"s", "d", 86400, false, false},
    {"s", "w", 7 * 86400, false, false},
    {"s", "y", 365.25 * 86400, false, false},
    {"W", "W", 1, true, true},
    {"J", "J", 1, true, true},
    {"J", "Wh", 3600, true, false},
    {"Hz", "Hz", 1, true, false},
    {"USD", "USD", 1, true, false},
    {"USD", "$", 1, true, false},
};
enum { UNITS = sizeof units / sizeof *units };

static double factor_of(const prefix *p) { return ldexp(pow(10, p->ten), p->two); }

/* The factor of "GiB" in bytes and so on; 0 when the text is no such unit. */
static double unit_factor(const char *text, size_t n, const char *base) {
  if (n == 0) return 1;
  bool known = false;
  for (int i = 0; i < UNITS; i++) {
    const unit *u = &units[i];
    if (strcmp(u->base, base) != 0) continue;
    known = true;
    size_t length = strlen(u->name);
    if (n < length || memcmp(text + n - length, u->name, length) != 0) continue;
    size_t front = n - length;
    while (front && text[front - 1] == ' ') front--;
    const prefix *p = prefix_of(text, front, u->small, false);
    if (!p || (p->ten > 0 && !u->large) || (p->two && !u->large)) continue;
    return u->factor * factor_of(p);
  }
  if (known) { /* "80G" of bytes; "5M" of seconds would be unclear */
    const prefix *p = strcmp(base, "s") != 0 ? prefix_of(text, n, false, false) : NULL;
    return p ? factor_of(p) : 0;
  }
  size_t length = strlen(base);
  if (n < length || memcmp(text + n - length, base, length) != 0) return 0;
  const prefix *p = prefix_of(text, n - length, true, false);
  return p ? factor_of(p) : 0;
}

static const char *example_of(const char *base) {
  static const struct {
    const char *base, *example;
  } examples[] = {{"B", "80GiB or 80e9"},      {"B/s", "3.35TB/s or 400Gb/s"}, {"FLOP/s", "989TFLOP/s or 989e12"},
                  {"s", "90min, 1.5h or 14d"}, {"W", "700W or 1.2MW"},         {"USD", "USD 20000 or 20k"}};
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
    if (!strcmp(base, examples[i].base)) return examples[i].example;
  return NULL;
}

mal_status mal_parse_quantity(const char *text, const char *base, const char *what, double *value, mal_error *e) {
  const char *start = skip_space(text), *end;
  double front = 1;
  size_t front_length = 0;
  if (strcmp(base, "USD") == 0) front_length = !strncmp(start, "USD", 3) ? 3 : *start == '$';
  start = skip_space(start + front_length);
  end = number_end(start, true);
  if (end && *start == '-')
    return mal_fail(e, MAL_BAD, _("%s: '%.60s' is negative; it must be at least 0."), what, text);
  if (end) {
    const char *suffix = skip_space(end);
    front = unit_factor(suffix, trimmed(suffix), base);
  }
  if (!end || front == 0) {
    const char *example = example_of(base);
    if (example)
      return mal_fail(e, MAL_BAD, _("%s: '%.60s' is not a quantity in %s; write it as %s."), what, text, base, example);
    return mal_fail(e, MAL_BAD, _("%s: '%.60s' is not a quantity in %s."), what, text, base);
  }
  double v = strtod(start, NULL) * front;
  if (!isfinite(v)) return mal_fail(e, MAL_BAD, _("%s: '%.60s' is too large."), what, text);
  *value = v;
  return MAL_OK;
}
