/* Quantities for people: three significant figures. The buffers rotate, so several fit in one printf. */
#include "core/units.h"
#include <math.h>
#include <stdio.h>

enum { BUFFERS = 16, BUFFER_SIZE = 64 };

static char *next_buffer(void) {
  static _Thread_local char buffers[BUFFERS][BUFFER_SIZE];
  static _Thread_local unsigned turn;
  return buffers[turn++ % BUFFERS];
}

/* Decimals that make three figures of x, 0 <= x < 10000. */
static int decimals(double x) { return x < 9.995 ? 2 : x < 99.95 ? 1 : 0; }

/* x with the first of `names` that leaves it under `step`, as three figures would show it. */
static const char *show(double x, double step, const char *const *names, int count, const char *unit, int whole) {
  char *out = next_buffer();
  if (!isfinite(x)) {
    snprintf(out, BUFFER_SIZE, "%s %s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf", unit);
    return out;
  }
  const char *sign = x < 0 ? "-" : "";
  double y = fabs(x);
  int i = 0;
  while (i + 1 < count && y >= step - 0.5) {
    y /= step;
    i++;
  }
  const char *gap = *names[i] || *unit ? " " : "";
  if (y >= 1e5)
    snprintf(out, BUFFER_SIZE, "%s%.3g%s%s%s", sign, y, gap, names[i], unit);
  else if (i == 0 && whole && y == floor(y))
    snprintf(out, BUFFER_SIZE, "%s%.0f%s%s%s", sign, y, gap, names[i], unit);
  else if (y > 0 && y < 0.01)
    snprintf(out, BUFFER_SIZE, "%s%.3g%s%s%s", sign, y, gap, names[i], unit);
  else
    snprintf(out, BUFFER_SIZE, "%s%.*f%s%s%s", sign, decimals(y), y, gap, names[i], unit);
  return out;
}

const char *mal_show_bytes(double bytes) {
  static const char *const names[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  return show(bytes, 1024, names, 7, "B", 1);
}

const char *mal_show_count(double n) {
  static const char *const names[] = {"", "k", "M", "B", "T"};
  if (fabs(n) >= 999.5e12) {
    char *out = next_buffer();
    snprintf(out, BUFFER_SIZE, "%.3g", n);
    return out;
  }
  return show(n, 1000, names, 5, "", 1);
}

const char *mal_show_rate(double per_second, const char *unit) {
  static const char *const names[] = {"", "k", "M", "G", "T", "P", "E"};
  return show(per_second, 1000, names, 7, unit, 1);
}

const char *mal_show_time(double seconds) {
  static const struct {
    double least, size;
    const char *name;
  } small[] = {{0.9995, 1, "s"}, {0.9995e-3, 1e-3, "ms"}, {0.9995e-6, 1e-6, "\u00b5s"}, {0, 1e-9, "ns"}};
  char *out = next_buffer();
  const char *sign = seconds < 0 ? "-" : "";
  double t = fabs(seconds);
  if (!isfinite(t)) {
    snprintf(out, BUFFER_SIZE, "%s", isnan(t) ? "nan" : *sign ? "-inf" : "inf");
  } else if (t == 0) {
    snprintf(out, BUFFER_SIZE, "0 s");
  } else if (t < 59.95) {
    int i = 0;
    while (t < small[i].least) i++;
    double y = t / small[i].size;
    snprintf(out, BUFFER_SIZE, "%s%.*f %s", sign, decimals(y), y, small[i].name);
  } else if (t < 3599.5) {
    long s = lround(t);
    snprintf(out, BUFFER_SIZE, "%s%ld min %ld s", sign, s / 60, s % 60);
  } else if (t < 86400 - 30) {
    long m = lround(t / 60);
    snprintf(out, BUFFER_SIZE, "%s%ld h %ld min", sign, m / 60, m % 60);
  } else if (t < 365.25 * 86400) {
    double d = t / 86400;
    snprintf(out, BUFFER_SIZE, "%s%.*f d", sign, d < 99.95, d);
  } else {
    double y = t / (365.25 * 86400);
    snprintf(out, BUFFER_SIZE, y < 1e5 ? "%s%.*f y" : "%s%.*g y", sign, y < 1e5 ? y < 99.95 : 3, y);
  }
  return out;
}

const char *mal_show_int(int64_t n) {
  char digits[24], *out = next_buffer();
  int length = snprintf(digits, sizeof digits, "%lld", (long long)n), k = 0;
  for (int i = 0; i < length; i++) {
    out[k++] = digits[i];
    int left = length - 1 - i;
    if (left && left % 3 == 0 && digits[i] != '-') out[k++] = ',';
  }
  out[k] = '\0';
  return out;
}
