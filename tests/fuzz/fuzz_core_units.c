#include "core/units.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const bases[] = {"B", "B/s", "FLOP/s", "s", "W", "USD", "m", "Hz"};
  mal_error e;
  int64_t n;
  double x;
  char *text = malloc(size + 1);
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  if (mal_parse_count(text, "n", &n, &e) == MAL_OK) {
    if (n < 0 || n > INT64_C(1) << 62) abort();
    (void)mal_show_int(n);
    (void)mal_show_bytes((double)n);
  }
  if (mal_parse_number(text, "x", &x, &e) == MAL_OK) {
    if (!isfinite(x)) abort();
    (void)mal_show_time(x);
    (void)mal_show_count(x);
    (void)mal_show_rate(x, "FLOP/s");
  }
  for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
    if (mal_parse_quantity(text, bases[i], "q", &x, &e) == MAL_OK && (!isfinite(x) || x < 0)) abort();
  free(text);
  return 0;
}
