#include "core/units.h"
#include "test.h"
#include <math.h>

static mal_error e;

static void test_counts(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t value;
  } good[] = {
      {"0", 0},
      {"4096", 4096},
      {"007", 7},
      {"15T", 15000000000000},
      {"1.5M", 1500000},
      {"0.1T", 100000000000},
      {"70.6B", 70600000000},
      {"2k", 2000},
      {"2K", 2000},
      {"3G", 3000000000},
      {"1P", 1000000000000000},
      {"8Ki", 8192},
      {"1.5Ki", 1536},
      {"0.5Gi", 536870912},
      {"1Ti", 1099511627776},
      {"1e3", 1000},
      {"1.25e2", 125},
      {"1E+3k", 1000000},
      {"1500e-2", 15},
      {".5k", 500},
      {"5.k", 5000},
      {" 12 k ", 12000},
      {"4611686018427387904", INT64_C(1) << 62},
      {"4096Pi", INT64_C(1) << 62},
      {"0e999999999999", 0},
      {"1.000000000000000000000000000000", 1},
      {"0.000000000000000000000000000001e30", 1},
      {"00000000000000000000000000000000000000000000000012", 12},
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    int64_t value = -1;
    assert_ok(mal_parse_count(good[i].text, "--tokens", &value, &e), e);
    if (value != good[i].value) fail_msg("%s gave %lld", good[i].text, (long long)value);
  }
}

static void test_counts_refused(void **state) {
  (void)state;
  static const char *const not_counts[] = {"",     " ",    "x",    "k",     "1x", "1 2", "0x10", "nan",
                                           "inf",  "1e",   "1..2", "1.2.3", ".",  "+5",  "1m",   "1kk",
                                           "1KiB", "1e5x", "\xff", "1,000", "e5", "--5", "15 TT"};
  int64_t value = 77;
  for (size_t i = 0; i < sizeof not_counts / sizeof *not_counts; i++)
    assert_fails(MAL_BAD, mal_parse_count(not_counts[i], "--tokens", &value, &e), e, "--tokens", "not a count");
  assert_fails(MAL_BAD, mal_parse_count("-1", "--tokens", &value, &e), e, "negative", "'-1'");
  assert_fails(MAL_BAD, mal_parse_count("1.5", "--tokens", &value, &e), e, "not a whole number");
  assert_fails(MAL_BAD, mal_parse_count("1e-1", "--tokens", &value, &e), e, "not a whole number");
  assert_fails(MAL_BAD, mal_parse_count("0.3Ki", "--tokens", &value, &e), e, "not a whole number");
  assert_fails(MAL_BAD, mal_parse_count("1.0000000000000000000000000000001", "n", &value, &e), e, "not a whole number");
  assert_fails(MAL_BAD, mal_parse_count("4611686018427387905", "n", &value, &e), e, "too large");
  assert_fails(MAL_BAD, mal_parse_count("4097Pi", "n", &value, &e), e, "too large");
  assert_fails(MAL_BAD, mal_parse_count("1e999999999999", "n", &value, &e), e, "too large");
  assert_fails(MAL_BAD, mal_parse_count("99999999999999999999999999999999999999999", "n", &value, &e), e, "too large");
  assert_int_equal(value, 77); /* untouched on failure */
  char digits[5000];
  memset(digits, '1', sizeof digits - 1);
  digits[sizeof digits - 1] = '\0';
  assert_fails(MAL_BAD, mal_parse_count(digits, "n", &value, &e), e, "not a count");
}

static void test_numbers(void **state) {
  (void)state;
  double value;
  assert_ok(mal_parse_number(" -1.5e3 ", "--x", &value, &e), e);
  assert_true(value == -1500);
  assert_ok(mal_parse_number("0.35", "--x", &value, &e), e);
  assert_true(value == 0.35);
  static const char *const bad[] = {"", "nan", "inf", "0x1p3", "1e", "1k", "a", "1 2"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_fails(MAL_BAD, mal_parse_number(bad[i], "--x", &value, &e), e, "--x", "not a number");
  assert_fails(MAL_BAD, mal_parse_number("1e999", "--x", &value, &e), e, "too large");
}

static void test_quantities(void **state) {
  (void)state;
  static const struct {
    const char *text, *unit;
    double value;
  } good[] = {
      {"80GiB", "B", 80.0 * (1 << 30)},
      {"80 GB", "B", 80e9},
      {"80G", "B", 80e9},
      {"80e9", "B", 80e9},
      {"8Gb", "B", 1e9},
      {"512 bytes", "B", 512},
      {"3.35TB/s", "B/s", 3.35e12},
      {"400Gb/s", "B/s", 50e9},
      {"400Gbps", "B/s", 50e9},
      {"989e12", "FLOP/s", 989e12},
      {"989TFLOP/s", "FLOP/s", 989e12},
      {"2 PFLOPS", "FLOP/s", 2e15},
      {"14d", "s", 14 * 86400.0},
      {"1.5h", "s", 5400},
      {"90min", "s", 5400},
      {"250us", "s", 250e-6},
      {"250 \u00b5s", "s", 250e-6},
      {"5ms", "s", 5e-3},
      {"700W", "W", 700},
      {"1.2MW", "W", 1.2e6},
      {"USD 20000", "USD", 20000},
      {"20k USD", "USD", 20000},
      {"$20k", "USD", 20000},
      {"2.5", "USD", 2.5},
      {"1kWh", "J", 3.6e6},
      {"3 km", "m", 3000},
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    double value = -1;
    assert_ok(mal_parse_quantity(good[i].text, good[i].unit, "--q", &value, &e), e);
    if (fabs(value - good[i].value) > 1e-12 * fabs(good[i].value)) fail_msg("%s gave %g", good[i].text, value);
  }
}

static void test_quantities_refused(void **state) {
  (void)state;
  double value = 7;
  assert_fails(MAL_BAD, mal_parse_quantity("80W", "B", "--memory", &value, &e), e, "--memory", "80GiB");
  assert_fails(MAL_BAD, mal_parse_quantity("14d", "W", "--power", &value, &e), e, "700W");
  assert_fails(MAL_BAD, mal_parse_quantity("80gb", "B", "--memory", &value, &e), e, "not a quantity");
  assert_fails(MAL_BAD, mal_parse_quantity("5m", "s", "--time", &value, &e), e, "not a quantity");
  assert_fails(MAL_BAD, mal_parse_quantity("5mB", "B", "--memory", &value, &e), e, "not a quantity");
  assert_fails(MAL_BAD, mal_parse_quantity("5ks", "s", "--time", &value, &e), e, "not a quantity");
  assert_fails(MAL_BAD, mal_parse_quantity("-5W", "W", "--power", &value, &e), e, "negative");
  assert_fails(MAL_BAD, mal_parse_quantity("1e308PW", "W", "--power", &value, &e), e, "too large");
  assert_fails(MAL_BAD, mal_parse_quantity("", "W", "--power", &value, &e), e, "not a quantity");
  assert_fails(MAL_BAD, mal_parse_quantity("USD", "USD", "--budget", &value, &e), e, "not a quantity");
  assert_fails(MAL_BAD, mal_parse_quantity("EUR 5", "USD", "--budget", &value, &e), e, "USD 20000");
  assert_fails(MAL_BAD, mal_parse_quantity("3 furlongs", "m", "--length", &value, &e), e, "in m");
  assert_true(value == 7);
}

static void test_shown(void **state) {
  (void)state;
  assert_string_equal(mal_show_bytes(79.6 * 1073741824.0), "79.6 GiB");
  assert_string_equal(mal_show_bytes(0), "0 B");
  assert_string_equal(mal_show_bytes(512), "512 B");
  assert_string_equal(mal_show_bytes(1023.9 * 1024), "1.00 MiB");
  assert_string_equal(mal_show_bytes(-1536), "-1.50 KiB");
  assert_string_equal(mal_show_bytes(NAN), "nan B");
  assert_string_equal(mal_show_count(70.6e9), "70.6 B");
  assert_string_equal(mal_show_count(15e12), "15.0 T");
  assert_string_equal(mal_show_count(999), "999");
  assert_string_equal(mal_show_count(999999), "1.00 M");
  assert_string_equal(mal_show_count(3.8e25), "3.8e+25");
  assert_string_equal(mal_show_rate(412e12, "FLOP/s"), "412 TFLOP/s");
  assert_string_equal(mal_show_rate(3.35e12, "B/s"), "3.35 TB/s");
  assert_string_equal(mal_show_time(812e-6), "812 \u00b5s");
  assert_string_equal(mal_show_time(3.41), "3.41 s");
  assert_string_equal(mal_show_time(0), "0 s");
  assert_string_equal(mal_show_time(0.9999), "1.00 s");
  assert_string_equal(mal_show_time(59.97), "1 min 0 s");
  assert_string_equal(mal_show_time(134), "2 min 14 s");
  assert_string_equal(mal_show_time(3599.9), "1 h 0 min");
  assert_string_equal(mal_show_time(8040), "2 h 14 min");
  assert_string_equal(mal_show_time(31.2 * 86400), "31.2 d");
  assert_string_equal(mal_show_time(4.1 * 365.25 * 86400), "4.1 y");
  assert_string_equal(mal_show_time(INFINITY), "inf");
  assert_string_equal(mal_show_int(70553706496), "70,553,706,496");
  assert_string_equal(mal_show_int(-1234567), "-1,234,567");
  assert_string_equal(mal_show_int(-123), "-123");
  assert_string_equal(mal_show_int(INT64_MIN), "-9,223,372,036,854,775,808");
  for (double x = 1e-300; x < 1e300; x *= 7) { /* any size keeps inside the buffer */
    assert_true(strlen(mal_show_bytes(x)) < 40 && strlen(mal_show_time(x)) < 40 && strlen(mal_show_count(x)) < 40);
  }
}

/* What is shown can be given back. */
static void test_shown_counts_read_back(void **state) {
  (void)state;
  for (int64_t n = 1; n < INT64_C(900000000000000); n = n * 3 + 1) {
    int64_t value;
    assert_ok(mal_parse_count(mal_show_count((double)n), "n", &value, &e), e);
    assert_true(fabs((double)value / (double)n - 1) < 0.006);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts),
      cmocka_unit_test(test_counts_refused),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_quantities),
      cmocka_unit_test(test_quantities_refused),
      cmocka_unit_test(test_shown),
      cmocka_unit_test(test_shown_counts_read_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
